//! Codex's rollouts.

use std::fmt::Write as _;

use anyhow::Result;

use super::{BEGIN, Figures, SPAN, Writer, time};

const MODELS: &[&str] = &["gpt-5.1-codex", "gpt-5.2-codex"];
const LIMITS: &str =
    r#""rate_limits":{"primary":{"used_percent":12.0,"window_minutes":300},"secondary":{"used_percent":4.0},"plan_type":"pro"}"#;

#[derive(Clone, Copy, Default)]
struct Counter {
    input: u64,
    cached: u64,
    output: u64,
    reasoning: u64,
}

struct Rollout {
    id: String,
    meta: String,
    /// The payload of the first turn context.
    context_line: Option<String>,
    model: &'static str,
    begin: i64,
    at: i64,
    context: u64,
    total: Counter,
    /// Every token count so far.
    counts: Vec<(String, Counter)>,
    text: String,
}

pub(super) fn write(writer: &mut Writer, bytes: u64) -> Result<()> {
    let mut written = 0;
    while written < bytes {
        let begin = BEGIN + writer.random.range(0, SPAN).cast_signed();
        let mut rollout = Rollout::new(writer, begin, None);
        let most = (writer.random.size() * 60).min(bytes - written + 20_000);
        while (rollout.text.len() as u64) < most {
            let steps = 1 + writer.random.range(0, 8);
            rollout.turn(writer, steps);
        }
        written += rollout.text.len() as u64;
        let spawned = writer.random.one_in(30).then(|| {
            let mut child = Rollout::new(writer, rollout.at, Some(&rollout));
            let steps = writer.random.range(1, 6);
            child.turn(writer, steps);
            child
        });
        for rollout in [Some(rollout), spawned].into_iter().flatten() {
            let day = time(rollout.begin)[..10].replace('-', "/");
            let name = time(rollout.begin)[..19].replace(':', "-");
            writer.truth.sessions += 1;
            writer.log(&format!(".codex/sessions/{day}/rollout-{name}-{}.jsonl", rollout.id), rollout.text)?;
        }
    }
    Ok(())
}

impl Rollout {
    fn new(writer: &mut Writer, begin: i64, parent: Option<&Self>) -> Self {
        let random = &mut writer.random;
        let id = random.uuid();
        let (fork, source) = parent.map_or_else(
            || (String::new(), r#""cli""#.to_owned()),
            |parent| {
                let source = format!(r#"{{"subagent":{{"thread_spawn":{{"parent_thread_id":"{}","depth":1}}}}}}"#, parent.id);
                (format!(r#""forked_from_id":"{}","#, parent.id), source)
            },
        );
        let meta = format!(
            r#"{{"id":"{id}",{fork}"timestamp":"{}","cwd":"/home/dev/api","originator":"codex_cli_rs","cli_version":"0.104.0","source":{source},"model_provider":"openai","base_instructions":{{"text":"{}"}}}}"#,
            time(begin),
            random.text(8000)
        );
        let model = parent.map_or_else(|| random.pick(MODELS), |parent| parent.model);
        let context = random.range(9000, 16_000);
        let mut rollout = Self {
            id,
            meta: meta.clone(),
            context_line: None,
            model,
            begin,
            at: begin,
            context,
            total: Counter::default(),
            counts: Vec::new(),
            text: String::new(),
        };
        rollout.line("session_meta", &meta);
        if let Some(parent) = parent {
            rollout.replay(parent);
        }
        rollout
    }

    /// A spawned thread begins with its parent's history, stamped with the time of the copying.
    fn replay(&mut self, parent: &Self) {
        self.line("session_meta", &parent.meta);
        if let Some(context) = &parent.context_line {
            self.line("turn_context", context);
        }
        for (info, total) in parent.counts.iter().take(60) {
            self.at += 1;
            self.line("event_msg", &format!(r#"{{"type":"token_count","info":{info},{LIMITS}}}"#));
            self.total = *total;
        }
        self.at += 3000;
    }

    fn line(&mut self, r#type: &str, payload: &str) {
        let _ = writeln!(self.text, r#"{{"timestamp":"{}","type":"{type}","payload":{payload}}}"#, time(self.at));
    }

    fn turn(&mut self, writer: &mut Writer, steps: u64) {
        self.wait(writer, 90_000);
        if writer.random.one_in(20) {
            self.model = writer.random.pick(MODELS);
        }
        let turn = writer.random.uuid();
        self.line("event_msg", &format!(r#"{{"type":"task_started","turn_id":"{turn}","model_context_window":258400}}"#));
        let size = writer.random.range(80, 2000);
        let prompt = writer.random.text(size);
        self.line(
            "response_item",
            &format!(r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":"{prompt}"}}]}}"#),
        );
        let context = format!(
            r#"{{"turn_id":"{turn}","cwd":"/home/dev/api","approval_policy":"on-request","model":"{}","effort":"high"}}"#,
            self.model
        );
        self.line("turn_context", &context);
        self.context_line.get_or_insert(context);
        self.line("event_msg", &format!(r#"{{"type":"user_message","message":"{prompt}","images":[]}}"#));
        self.line("event_msg", &format!(r#"{{"type":"token_count","info":null,{LIMITS}}}"#));
        for _ in 0..steps {
            self.step(writer);
        }
        let size = writer.random.range(80, 2000);
        let answer = writer.random.text(size);
        self.line("event_msg", &format!(r#"{{"type":"agent_message","message":"{answer}","phase":"final_answer"}}"#));
        self.line("response_item", &format!(r#"{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"{answer}"}}],"phase":"final_answer"}}"#));
        self.tokens(writer);
        self.line("event_msg", &format!(r#"{{"type":"task_complete","turn_id":"{turn}","last_agent_message":"{answer}"}}"#));
    }

    fn step(&mut self, writer: &mut Writer) {
        if writer.random.one_in(2) {
            let (thought, secret) = (writer.random.text(300), writer.random.hex(32).repeat(60));
            self.line("event_msg", &format!(r#"{{"type":"agent_reasoning","text":"{thought}"}}"#));
            self.line("response_item", &format!(
                r#"{{"type":"reasoning","summary":[{{"type":"summary_text","text":"{thought}"}}],"content":null,"encrypted_content":"{secret}"}}"#
            ));
        }
        self.wait(writer, 1000);
        let call = format!("call_{}", writer.random.hex(22));
        writer.truth.tool_calls += 1;
        if writer.random.one_in(5) {
            let patch = writer.random.text(1500);
            self.line("response_item", &format!(
                r#"{{"type":"custom_tool_call","status":"completed","call_id":"{call}","name":"apply_patch","input":"*** Begin Patch\n*** Update File: src/a.rs\n@@\n-{patch}+{patch}*** End Patch"}}"#
            ));
            self.tokens(writer);
            self.line(
                "response_item",
                &format!(r#"{{"type":"custom_tool_call_output","call_id":"{call}","output":"{{\"output\":\"Success.\"}}"}}"#),
            );
        } else {
            self.line("response_item", &format!(
                r#"{{"type":"function_call","name":"exec_command","arguments":"{{\"cmd\":\"rg -n usage src\"}}","call_id":"{call}"}}"#
            ));
            self.tokens(writer);
            let size = writer.random.size();
            let output = writer.random.text(size);
            self.line("response_item", &format!(
                r#"{{"type":"function_call_output","call_id":"{call}","output":"Wall time: 0.05 seconds\nProcess exited with code 0\nOutput:\n{output}"}}"#
            ));
        }
    }

    fn tokens(&mut self, writer: &mut Writer) {
        let output = writer.random.range(30, 1500);
        let cached = if self.total.input == 0 { 0 } else { (self.context - self.context % 128).saturating_sub(1024) };
        let now = Counter { input: self.context, cached, output, reasoning: output * writer.random.range(0, 70) / 100 };
        self.total = Counter {
            input: self.total.input + now.input,
            cached: self.total.cached + now.cached,
            output: self.total.output + now.output,
            reasoning: self.total.reasoning + now.reasoning,
        };
        self.context = (self.context + output + writer.random.range(100, 4000)).min(240_000);
        self.wait(writer, 4000);
        let info = format!(
            r#"{{"total_token_usage":{},"last_token_usage":{},"model_context_window":258400}}"#,
            self.total.json(),
            now.json()
        );
        let line = format!(r#"{{"type":"token_count","info":{info},{LIMITS}}}"#);
        self.line("event_msg", &line);
        let figures = Figures { input: now.input - now.cached, cache_read: now.cached, output, ..Figures::default() };
        writer.truth.count(self.model, self.at, figures);
        self.counts.push((info, self.total));
        if writer.random.one_in(7) {
            self.wait(writer, 900);
            self.line("event_msg", &line);
        }
    }

    fn wait(&mut self, writer: &mut Writer, most: u64) {
        self.at += writer.random.range(1, most).cast_signed();
    }
}

impl Counter {
    fn json(&self) -> String {
        let Self { input, cached, output, reasoning } = self;
        format!(
            r#"{{"input_tokens":{input},"cached_input_tokens":{cached},"output_tokens":{output},"reasoning_output_tokens":{reasoning},"total_tokens":{}}}"#,
            input + output
        )
    }
}
