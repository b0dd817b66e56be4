//! Claude Code's projects.

use std::fmt::Write as _;

use anyhow::Result;

use super::{BEGIN, Figures, SPAN, Writer, time};

const PROJECTS: &[&str] = &["api", "web", "infra", "core", "ml", "docs", "cli", "sdk"];
const TOOLS: &[&str] = &["Bash", "Bash", "Bash", "Read", "Read", "Edit", "Edit", "Grep", "Write", "TodoWrite"];
const MODELS: &[&str] = &["claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001"];

/// One file in the making.
struct Log {
    session: String,
    project: &'static str,
    agent: Option<String>,
    model: &'static str,
    at: i64,
    context: u64,
    text: String,
    /// The last line of the last response, its request and its figures.
    last: (String, String, Figures),
}

pub(super) fn write(writer: &mut Writer, bytes: u64) -> Result<()> {
    let mut written = 0;
    while written < bytes {
        let mut log = Log::new(writer, None, None);
        let most = (writer.random.size() * 60).min(bytes - written + 20_000);
        let mut sides = Vec::new();
        while (log.text.len() as u64) < most {
            let steps = 1 + writer.random.range(0, 8);
            log.turn(writer, steps);
            if writer.random.one_in(16) {
                sides.push(log.delegate(writer));
            }
        }
        if writer.random.one_in(30) {
            sides.push(log.side_question(writer));
        }
        let folder = format!(".claude/projects/-home-dev-{}", log.project);
        written += log.text.len() as u64;
        for (name, text) in sides {
            written += text.len() as u64;
            writer.log(&format!("{folder}/{}/subagents/agent-{name}.jsonl", log.session), text)?;
        }
        if writer.random.one_in(30) && log.text.len() < 600_000 {
            // A fork is a copy of all lines under another session id.
            let fork = writer.random.uuid();
            let copy = log.text.replace(&log.session, &fork);
            written += copy.len() as u64;
            writer.truth.sessions += 1;
            writer.log(&format!("{folder}/{fork}.jsonl"), copy)?;
        }
        writer.truth.sessions += 1;
        writer.log(&format!("{folder}/{}.jsonl", log.session), log.text)?;
    }
    Ok(())
}

/// Writes so many sessions of one turn, each with a ticket that no other has.
pub(super) fn write_small(writer: &mut Writer, count: u64) -> Result<()> {
    for number in 0..count {
        let mut log = Log::new(writer, None, None);
        log.line(writer, &format!(r#""type":"user","message":{{"role":"user","content":"This is for ticket-{number:06}."}}"#));
        let steps = writer.random.range(0, 4);
        log.turn(writer, steps);
        writer.log(&format!(".claude/projects/-home-dev-{}/{}.jsonl", log.project, log.session), log.text)?;
    }
    Ok(())
}

/// Writes one session of about so many events.
pub(super) fn write_long(writer: &mut Writer, session: &str, events: u64) -> Result<()> {
    let mut log = Log { session: session.to_owned(), ..Log::new(writer, None, None) };
    // A response has its text, its figures, and mostly a call with its beginning, its end and the file that it changed.
    while 6 * writer.truth.responses < events {
        let steps = writer.random.range(0, 8);
        log.turn(writer, steps);
    }
    writer.log(&format!(".claude/projects/-home-dev-{}/{}.jsonl", log.project, log.session), log.text)
}

impl Log {
    fn new(writer: &mut Writer, parent: Option<&Self>, agent: Option<String>) -> Self {
        let random = &mut writer.random;
        let session = parent.map_or_else(|| random.uuid(), |parent| parent.session.clone());
        let at = parent.map_or_else(|| BEGIN + random.range(0, SPAN).cast_signed(), |parent| parent.at);
        let project = parent.map_or_else(|| random.pick(PROJECTS), |parent| parent.project);
        let (model, context) = (random.pick(MODELS), random.range(14_000, 30_000));
        Self { session, project, agent, model, at, context, text: String::new(), last: Default::default() }
    }

    fn line(&mut self, writer: &mut Writer, rest: &str) {
        self.at += writer.random.range(50, 9000).cast_signed();
        let agent = self.agent.as_ref().map(|agent| format!(r#""agentId":"{agent}","#)).unwrap_or_default();
        let (session, project, at) = (&self.session, self.project, time(self.at));
        let (parent, uuid) = (writer.random.uuid(), writer.random.uuid());
        let _ = writeln!(
            self.text,
            r#"{{"parentUuid":"{parent}","isSidechain":{},{agent}"userType":"external","cwd":"/home/dev/{project}","sessionId":"{session}","version":"2.1.44","gitBranch":"main",{rest},"uuid":"{uuid}","timestamp":"{at}"}}"#,
            self.agent.is_some(),
        );
    }

    fn turn(&mut self, writer: &mut Writer, steps: u64) {
        let size = writer.random.range(60, 2500);
        let prompt = writer.random.text(size);
        self.line(writer, &format!(r#""type":"user","message":{{"role":"user","content":"{prompt}"}}"#));
        for _ in 0..steps {
            let (call, tool) = self.response(writer, false);
            self.result(writer, &call, tool);
            if writer.random.one_in(8) {
                let text = writer.random.text(900);
                self.line(writer, &format!(r#""type":"progress","data":{{"type":"bash_progress","output":"{text}"}}"#));
            }
        }
        self.response(writer, true);
    }

    /// One response in one to three lines: only the last has its final figures.
    fn response(&mut self, writer: &mut Writer, last_of_turn: bool) -> (String, &'static str) {
        let random = &mut writer.random;
        let (id, request, call) = (random.hex(22), random.hex(22), format!("toolu_01{}", random.hex(22)));
        let tool = random.pick(TOOLS);
        let mut blocks = Vec::new();
        if random.one_in(3) {
            let size = random.range(300, 2500);
            blocks.push(format!(
                r#"{{"type":"thinking","thinking":"{}","signature":"{}"}}"#,
                random.text(size),
                random.hex(32).repeat(12)
            ));
        }
        if last_of_turn || random.one_in(3) {
            let size = random.range(80, 2500);
            blocks.push(format!(r#"{{"type":"text","text":"{}"}}"#, random.text(size)));
        }
        if !last_of_turn {
            let path = format!("/home/dev/{}/src/a.rs", self.project);
            let (small, large) = (random.range(280, 1500), random.range(800, 9000));
            let input = match tool {
                "Bash" => format!(r#"{{"command":"{}","description":"run"}}"#, random.text(200)),
                "Edit" => format!(
                    r#"{{"file_path":"{path}","old_string":"{}","new_string":"{}"}}"#,
                    random.text(small),
                    random.text(small)
                ),
                "Write" => format!(r#"{{"file_path":"{path}","content":"{}"}}"#, random.text(large)),
                _ => format!(r#"{{"file_path":"{path}"}}"#),
            };
            blocks.push(format!(r#"{{"type":"tool_use","id":"{call}","name":"{tool}","input":{input}}}"#));
            writer.truth.tool_calls += 1;
        }
        let new = writer.random.range(200, 4000);
        let for_an_hour = if self.agent.is_none() { new } else { 0 };
        let figures = Figures {
            input: writer.random.range(1, 12),
            cache_read: self.context,
            cache_write: new,
            cache_write_1h: for_an_hour,
            output: writer.random.range(40, 1800),
            cost: 0.0,
        };
        self.context = (self.context + new + figures.output).min(168_000);
        let count = blocks.len();
        for (place, block) in blocks.into_iter().enumerate() {
            let is_last = place + 1 == count;
            let output = if is_last { figures.output } else { writer.random.range(1, 9) };
            let stop = match (is_last, last_of_turn) {
                (false, _) => "null",
                (true, false) => "\"tool_use\"",
                (true, true) => "\"end_turn\"",
            };
            let from = self.text.len();
            let usage = usage(&figures, output);
            let rest = format!(
                r#""message":{{"model":"{}","id":"msg_01{id}","type":"message","role":"assistant","content":[{block}],"stop_reason":{stop},"stop_sequence":null,"usage":{usage}}},"requestId":"req_{request}","type":"assistant""#,
                self.model
            );
            self.line(writer, &rest);
            self.last = (self.text[from..].to_owned(), request.clone(), figures);
        }
        writer.truth.count(self.model, self.at, figures);
        (call, tool)
    }

    fn result(&mut self, writer: &mut Writer, call: &str, tool: &str) {
        let size = writer.random.size();
        let output = writer.random.text(size);
        let shown = if matches!(tool, "Edit" | "Write") { writer.random.text(300) } else { output.clone() };
        let structured = match tool {
            "Edit" => format!(
                r#"{{"filePath":"/home/dev/{}/src/a.rs","oldString":"x","newString":"y","originalFile":"{output}","structuredPatch":[{{"oldStart":4,"oldLines":2,"newStart":4,"newLines":2,"lines":[" a","-b","+c"]}}]}}"#,
                self.project
            ),
            _ => format!(r#"{{"stdout":"{output}","stderr":"","interrupted":false}}"#),
        };
        self.line(writer, &format!(
            r#""type":"user","message":{{"role":"user","content":[{{"tool_use_id":"{call}","type":"tool_result","content":"{shown}","is_error":false}}]}},"toolUseResult":{structured}"#
        ));
    }

    /// A sub-agent in a file of its own, whose last figures the session tells twice more.
    fn delegate(&mut self, writer: &mut Writer) -> (String, String) {
        let name = writer.random.hex(16);
        let mut side = Self::new(writer, Some(self), Some(name.clone()));
        let steps = writer.random.range(1, 6);
        side.turn(writer, steps);
        let (line, request, figures) = side.last.clone();
        let message = line
            .split_once("\"message\":")
            .and_then(|(_, rest)| rest.split_once(",\"requestId\""))
            .map_or("{}", |(message, _)| message);
        self.line(writer, &format!(
            r#""type":"progress","data":{{"type":"agent_progress","agentId":"{name}","message":{{"type":"assistant","message":{message},"requestId":"req_{request}"}}}}"#
        ));
        let usage = usage(&figures, figures.output);
        let (text, call) = (writer.random.text(900), writer.random.hex(22));
        self.line(writer, &format!(
            r#""type":"user","message":{{"role":"user","content":[{{"tool_use_id":"toolu_01{call}","type":"tool_result","content":[{{"type":"text","text":"{text}"}}]}}]}},"toolUseResult":{{"status":"completed","agentId":"{name}","totalTokens":{},"usage":{usage}}}"#,
            figures.total()
        ));
        (name, side.text)
    }

    /// A side question repeats the last response under another request.
    fn side_question(&self, writer: &mut Writer) -> (String, String) {
        let (line, request, _) = &self.last;
        let line = line.replacen("\"isSidechain\":false", "\"isSidechain\":true", 1).replace(request, &writer.random.hex(22));
        (format!("aside_question-{}", writer.random.hex(16)), line)
    }
}

fn usage(figures: &Figures, output: u64) -> String {
    let Figures { input, cache_read, cache_write, cache_write_1h, .. } = figures;
    format!(
        r#"{{"input_tokens":{input},"cache_creation_input_tokens":{cache_write},"cache_read_input_tokens":{cache_read},"cache_creation":{{"ephemeral_5m_input_tokens":{},"ephemeral_1h_input_tokens":{cache_write_1h}}},"output_tokens":{output},"service_tier":"standard"}}"#,
        cache_write - cache_write_1h
    )
}
