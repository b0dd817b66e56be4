//! Pi's sessions: cost is reported with each message.

use std::fmt::Write as _;

use anyhow::Result;

use super::{BEGIN, Figures, SPAN, Writer, time};

const MODEL: &str = "claude-sonnet-4-5-20250929";

pub(super) fn write(writer: &mut Writer, bytes: u64) -> Result<()> {
    let mut written = 0;
    while written < bytes {
        let session = writer.random.uuid();
        let mut at = BEGIN + writer.random.range(0, SPAN).cast_signed();
        let begin = time(at);
        let mut text = format!(
            "{{\"type\":\"session\",\"version\":3,\"id\":\"{session}\",\"timestamp\":\"{begin}\",\"cwd\":\"/home/dev/pi\"}}\n"
        );
        let _ = writeln!(
            text,
            r#"{{"type":"model_change","id":"{}","parentId":null,"timestamp":"{begin}","provider":"anthropic","modelId":"{MODEL}"}}"#,
            writer.random.hex(8)
        );
        let most = (writer.random.size() * 40).min(bytes - written + 20_000);
        let mut context = writer.random.range(5000, 9000);
        while (text.len() as u64) < most {
            let size = writer.random.range(60, 2000);
            message(&mut text, writer, at, &|writer| {
                format!(
                    r#"{{"role":"user","content":[{{"type":"text","text":"{}"}}],"timestamp":{at}}}"#,
                    writer.random.text(size)
                )
            });
            let steps = writer.random.range(1, 7);
            for step in 0..steps {
                at += writer.random.range(300, 9000).cast_signed();
                let calls = step + 1 < steps;
                let (new, output) = (writer.random.range(200, 4000), writer.random.range(20, 900));
                let figures = Figures { input: 5, cache_read: context, cache_write: new, output, ..Figures::default() };
                let priced = figures.priced(MODEL);
                let call = format!("toolu_{}", writer.random.hex(16));
                let content = if calls {
                    writer.truth.tool_calls += 1;
                    format!(r#"{{"type":"toolCall","id":"{call}","name":"bash","arguments":{{"command":"ls"}}}}"#)
                } else {
                    format!(r#"{{"type":"text","text":"{}"}}"#, writer.random.text(500))
                };
                let stop = if calls { "toolUse" } else { "stop" };
                message(&mut text, writer, at, &|_| {
                    format!(
                        r#"{{"role":"assistant","content":[{content}],"api":"anthropic-messages","provider":"anthropic","model":"{MODEL}","usage":{{"input":5,"output":{output},"cacheRead":{context},"cacheWrite":{new},"totalTokens":{},"cost":{{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":{}}}}},"stopReason":"{stop}","timestamp":{at}}}"#,
                        figures.total(),
                        priced.cost
                    )
                });
                writer.truth.count(MODEL, at, figures);
                context = (context + new + output).min(160_000);
                if calls {
                    let size = writer.random.size();
                    message(&mut text, writer, at, &|writer| {
                        format!(
                            r#"{{"role":"toolResult","toolCallId":"{call}","toolName":"bash","content":[{{"type":"text","text":"{}"}}],"isError":false,"timestamp":{at}}}"#,
                            writer.random.text(size)
                        )
                    });
                }
            }
        }
        written += text.len() as u64;
        writer.truth.sessions += 1;
        writer.log(&format!(".pi/agent/sessions/--home-dev-pi--/{}_{session}.jsonl", begin.replace([':', '.'], "-")), text)?;
    }
    Ok(())
}

fn message(text: &mut String, writer: &mut Writer, at: i64, message: &dyn Fn(&mut Writer) -> String) {
    let (id, parent) = (writer.random.hex(8), writer.random.hex(8));
    let message = message(writer);
    let _ = writeln!(
        text,
        r#"{{"type":"message","id":"{id}","parentId":"{parent}","timestamp":"{}","message":{message}}}"#,
        time(at)
    );
}
