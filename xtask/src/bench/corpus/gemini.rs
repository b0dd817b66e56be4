//! Gemini's chats: a message is written again as it grows, and the last copy counts.

use std::fmt::Write as _;

use anyhow::Result;

use super::{BEGIN, Figures, SPAN, Writer, time};

const MODEL: &str = "gemini-2.5-flash";

pub(super) fn write(writer: &mut Writer, bytes: u64) -> Result<()> {
    let mut written = 0;
    while written < bytes {
        let session = writer.random.uuid();
        let mut at = BEGIN + writer.random.range(0, SPAN).cast_signed();
        let begin = time(at);
        let mut text = format!(
            "{{\"sessionId\":\"{session}\",\"projectHash\":\"{}\",\"startTime\":\"{begin}\",\"lastUpdated\":\"{begin}\",\"kind\":\"main\"}}\n",
            writer.random.hex(32)
        );
        let most = (writer.random.size() * 40).min(bytes - written + 20_000);
        let mut context = writer.random.range(5000, 9000);
        while (text.len() as u64) < most {
            let size = writer.random.range(60, 2000);
            let _ = writeln!(
                text,
                r#"{{"id":"{}","timestamp":"{}","type":"user","content":[{{"text":"{}"}}]}}"#,
                writer.random.uuid(),
                time(at),
                writer.random.text(size)
            );
            let steps = writer.random.range(1, 7);
            for step in 0..steps {
                at += writer.random.range(300, 9000).cast_signed();
                let (id, cached) = (writer.random.uuid(), context / 2);
                let (output, thoughts) = (writer.random.range(20, 900), writer.random.range(0, 300));
                let said = writer.random.text(400);
                let head = format!(
                    r#"{{"id":"{id}","timestamp":"{}","type":"gemini","content":"{said}","thoughts":[],"tokens":{{"input":{context},"output":{output},"cached":{cached},"thoughts":{thoughts},"tool":0,"total":{}}},"model":"{MODEL}""#,
                    time(at),
                    context + output + thoughts
                );
                let _ = writeln!(text, "{head}}}\n{{\"$set\":{{\"lastUpdated\":\"{}\"}}}}", time(at));
                let figures =
                    Figures { input: context - cached, cache_read: cached, output: output + thoughts, ..Figures::default() };
                writer.truth.count(MODEL, at, figures);
                context = (context + output + writer.random.range(100, 3000)).min(180_000);
                if step + 1 < steps {
                    let call = format!("run_shell_command__{}", writer.random.hex(12));
                    let size = writer.random.size();
                    let result = writer.random.text(size);
                    let _ = writeln!(
                        text,
                        r#"{head},"toolCalls":[{{"id":"{call}","name":"run_shell_command","args":{{"command":"ls"}},"result":[{{"functionResponse":{{"id":"{call}","name":"run_shell_command","response":{{"output":"{result}"}}}}}}],"status":"success","timestamp":"{}","resultDisplay":"ok"}}]}}"#,
                        time(at)
                    );
                    writer.truth.tool_calls += 1;
                }
            }
        }
        written += text.len() as u64;
        writer.truth.sessions += 1;
        writer
            .log(&format!(".gemini/tmp/project/chats/session-{}-{}.jsonl", begin[..16].replace(':', "-"), &session[..8]), text)?;
    }
    Ok(())
}
