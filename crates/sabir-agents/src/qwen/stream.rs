//! stream-json: one message per line, in the types of Claude Code but not in its meaning.
//!
//! What lies in wait here: the blocks of one response come as several messages with ids of their own, of which the last
//! one alone has figures; with partial messages every block comes twice; a provider's complaint is printed as the
//! assistant's words; limits end the run without a `result`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::{End, Facts, Verdict};
use sabir_core::event::{
    Activity, Cause, ErrorEvent, Final, Outcome, Retry, Session, Text, TextDelta, ThinkingDelta, ToolStart, TurnEnd, TurnStart,
    UsageScope,
};
use sabir_core::json::{self, JsonDialect, Str, StringOr};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;

use super::ending;
use super::figures::{Figures, Tally};
use super::lane::Lane;
use super::tools::{denials, tool_end, tool_start};
use super::wire::{ApiMessage, Block, Data, Init, Message, ResultLine, StreamEvent};

/// Reads stream-json.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The response that each agent is in: the main one under `None`, a sub-agent under its tool call.
    lanes: BTreeMap<Option<String>, Lane>,
    tally: Tally,
    session_known: bool,
    /// The provider's last complaint, when nothing was said after it.
    complaint: Option<String>,
    /// Requests made again since the last answer.
    retries: u32,
    /// The wait before a retry was told; the retry itself is told again.
    retry_announced: bool,
    answer: Option<String>,
    verdict: Option<Verdict>,
    turns: u32,
    duration_ms: u64,
}

/// How many agents may be speaking at once.
const LANES: usize = 256;

impl JsonDialect for Stream {
    type Wire<'a> = Message<'a>;

    fn message<'a>(&mut self, wire: Message<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        facts.at = wire.timestamp.as_deref().and_then(Timestamp::parse);
        facts.parent = wire.parent_tool_use_id.map(Cow::from);
        match (&*wire.r#type, wire.message) {
            ("stream_event", _) => match wire.event {
                Some(event) => self.stream_event(*event, line, facts),
                None => json::unrecognized(line, facts),
            },
            ("assistant", Some(StringOr::Other(message))) => self.assistant(*message, line, facts),
            ("user", Some(StringOr::Other(message))) => self.user(*message, facts),
            ("system", _) => match wire.subtype.as_deref().unwrap_or_default() {
                "init" => self.init(line, facts),
                subtype => {
                    let data = wire.data.and_then(|data| json::parse::<Data<'a>>(data.get())).unwrap_or_default();
                    self.system(subtype, data, line, facts);
                }
            },
            ("result", _) => match line.borrowed().and_then(json::parse::<ResultLine<'a>>) {
                Some(result) => self.result(result, wire.session_id, facts),
                None => json::unrecognized(line, facts),
            },
            // Prompts, and answers to the host that drives it.
            ("user", Some(StringOr::String(_))) | ("control_response" | "control_cancel_request", _) => {}
            _ => json::unrecognized(line, facts),
        }
    }

    fn resumed(&mut self) {
        self.tally.resume();
    }

    fn over(&self) -> Option<bool> {
        Some(self.verdict.is_some())
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        let verdict = match (self.verdict.take(), self.complaint.take()) {
            (Some(verdict), _) => verdict,
            (None, Some(complaint)) => {
                let (outcome, cause) = ending::of_message(&complaint);
                Verdict { cause: Some(cause), ..Verdict::of(outcome) }
            }
            (None, None) => Verdict::of(Outcome::Incomplete),
        };
        if let Some(text) = self.answer.take().filter(|_| verdict.outcome == Outcome::Completed) {
            facts.push(Final::new(text));
        }
        ending::with_exit_code(verdict, end)
    }
}

impl Stream {
    /// The lane of the facts' agent.
    fn lane(&mut self, facts: &Facts<'_>) -> &mut Lane {
        if self.lanes.len() > LANES {
            // Sub-agents that have long gone silent; the main agent sorts first.
            self.lanes.pop_last();
        }
        self.lanes.entry(facts.parent.as_deref().map(str::to_owned)).or_default()
    }

    /// The same, in a response. The first thing after a whole response of the main agent is a new turn.
    fn respond(&mut self, facts: &mut Facts<'_>) -> &mut Lane {
        let lane = self.lane(facts);
        if !lane.open || lane.complete {
            let was_open = std::mem::replace(&mut lane.open, true);
            lane.complete = false;
            let stop_reason = lane.stop_reason.take().map(Cow::Owned);
            if facts.parent.is_none() {
                if was_open {
                    facts.push(TurnEnd::default().stop_reason(stop_reason));
                }
                facts.push(TurnStart::default());
            }
        }
        lane
    }

    fn init<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        let Some(init) = line.borrowed().and_then(json::parse::<Init<'a>>) else { return json::unrecognized(line, facts) };
        self.session_known = true;
        facts.push(
            Session::default()
                .session_id(init.session_id)
                .model(init.model)
                .cwd(init.cwd)
                .agent_version(init.qwen_code_version)
                .permission_mode(init.permission_mode)
                .tools(init.tools.map(|tools| tools.into_iter().map(Cow::from).collect())),
        );
    }

    fn assistant<'a>(&mut self, message: ApiMessage<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        let figures = message.usage.map(Figures::from).unwrap_or_default();
        if let Some(complaint) = complaint(&message).filter(|_| figures.is_nothing()) {
            self.complain(complaint, facts);
            return;
        }
        if facts.parent.is_none() {
            self.complaint = None;
        }
        let own_id = message.id.map(Cow::from);
        let lane = self.respond(facts);
        let blocks = match message.content {
            Some(StringOr::Other(blocks)) => blocks,
            Some(StringOr::String(text)) => {
                if let Some(delta) = lane.unsaid(text.into()) {
                    facts.push(TextDelta::new(delta).message_id(lane.id(own_id.clone())));
                }
                Vec::new()
            }
            None => Vec::new(),
        };
        for block in blocks {
            match &*block.r#type {
                "text" => {
                    if let Some(delta) = block.text.and_then(Text::from_json).and_then(|text| lane.unsaid(text)) {
                        facts.push(TextDelta::new(delta).message_id(lane.id(own_id.clone())));
                    }
                }
                "thinking" => {
                    if let Some(delta) = block.thinking.and_then(Text::from_json).and_then(|text| lane.unsaid(text)) {
                        facts.push(ThinkingDelta::new(delta).message_id(lane.id(own_id.clone())));
                    }
                }
                "tool_use" => {
                    lane.confirm(block.id.as_deref().unwrap_or_default());
                    tool_start(block, facts);
                }
                other => facts.unrecognized(Some(Cow::Owned(format!("assistant:{other}"))), line),
            }
        }
        if let Some(reason) = message.stop_reason {
            lane.stop_reason = Some(reason.to_string());
        }
        if !figures.is_nothing() {
            lane.complete = true;
            self.retries = 0;
            if let Some(model) = &message.model {
                self.tally.answered(model);
            }
            figures.report(message.model.map(Cow::from), UsageScope::Message, facts);
        }
    }

    fn complain(&mut self, complaint: String, facts: &mut Facts<'_>) {
        let class = Some(ending::of_message(&complaint).1);
        let fatal = facts.parent.is_none();
        facts.push(ErrorEvent::new(complaint.clone()).class(class).fatal(fatal));
        if fatal {
            self.complaint = Some(complaint);
        }
    }

    /// The results of tools. Any other text is a prompt, the user's or the agent's own.
    fn user<'a>(&mut self, message: ApiMessage<'a>, facts: &mut Facts<'a>) {
        let Some(StringOr::Other(blocks)) = message.content else { return };
        for block in blocks.into_iter().filter(|block| block.tool_use_id.is_some()) {
            self.lane(facts).complete = true;
            tool_end(block, facts);
        }
    }

    fn stream_event<'a>(&mut self, event: StreamEvent<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        match &*event.r#type {
            "message_start" => {
                let id = event.message.as_ref().and_then(|message| message.id.as_deref());
                self.lane(facts).start(id);
                self.respond(facts);
            }
            "content_block_start" => match event.content_block {
                Some(block) if matches!(&*block.r#type, "text" | "thinking") => self.respond(facts).start_block(),
                Some(Block { id: Some(id), name: Some(name), .. }) => {
                    self.respond(facts).announce(&id);
                    facts.push(ToolStart::new(id, name));
                }
                _ => {}
            },
            "content_block_delta" => {
                let Some(delta) = event.delta else { return };
                let text = delta.text.and_then(Text::from_json);
                let thinking = delta.thinking.and_then(Text::from_json);
                if text.is_none() && thinking.is_none() {
                    // Pieces of arguments and signatures come again whole.
                    return;
                }
                let lane = self.respond(facts);
                text.iter().chain(&thinking).for_each(|piece| lane.hear(piece));
                let message_id = lane.id(None);
                match (text, thinking) {
                    (Some(delta), _) => facts.push(TextDelta::new(delta).message_id(message_id)),
                    (None, Some(delta)) => facts.push(ThinkingDelta::new(delta).message_id(message_id)),
                    (None, None) => {}
                }
            }
            "message_stop" => self.lane(facts).stop(),
            // States, and what the whole messages say again.
            "content_block_stop" | "message_delta" | "ping" | "goal_state" => {}
            other => facts.unrecognized(Some(Cow::Owned(format!("stream_event:{other}"))), line),
        }
    }

    fn system<'a>(&mut self, subtype: &str, data: Data<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        match subtype {
            "retry" => self.retry(data, facts),
            "task_started" | "task_progress" => {
                if let Some(message) = data.description.or(data.message) {
                    facts.push(Activity::new(message));
                }
            }
            "task_notification" => {
                let status = data.status.as_deref().unwrap_or("ended");
                let task = data.description.or(data.task_id).unwrap_or_default();
                facts.push(Activity::new(format!("background task {status}: {}", &*task)));
            }
            other => facts.unrecognized(Some(Cow::Owned(format!("system:{other}"))), line),
        }
    }

    /// A retry with a wait is told twice: before the wait with its number, after it without.
    fn retry<'a>(&mut self, data: Data<'a>, facts: &mut Facts<'a>) {
        self.lane(facts).withdraw(facts);
        let announced = std::mem::replace(&mut self.retry_announced, data.attempt.is_some());
        if announced && data.attempt.is_none() {
            return;
        }
        self.retries = data.attempt.unwrap_or(self.retries.saturating_add(1));
        facts.push(
            Retry::new(self.retries, data.message.map_or(Cow::Borrowed("the request is made again"), Cow::from))
                .max_attempts(data.max_retries)
                .delay_ms(data.delay_ms),
        );
    }

    fn result<'a>(&mut self, result: ResultLine<'a>, session_id: Option<Str<'a>>, facts: &mut Facts<'a>) {
        facts.parent = None;
        let main = self.lanes.remove(&None).unwrap_or_default();
        if main.open {
            facts.push(TurnEnd::default().stop_reason(main.stop_reason));
        }
        if !std::mem::replace(&mut self.session_known, true) && session_id.is_some() {
            facts.push(Session::default().session_id(session_id));
        }
        self.tally.result(result.usage, result.stats, facts);
        denials(result.permission_denials.unwrap_or_default(), facts);
        let subtype = result.subtype.as_deref().unwrap_or_default();
        let failed = result.is_error || subtype.starts_with("error") || self.complaint.is_some();
        self.answer = None;
        let (outcome, cause) = if failed {
            let told = self.complaint.take();
            let message = result.error.and_then(|error| error.message).or(result.result).map(Cow::from);
            let message = message.or_else(|| told.clone().map(Cow::Owned)).unwrap_or_else(|| Cow::Owned(subtype.to_owned()));
            let (outcome, cause) = match subtype {
                "error_max_turns" => (Outcome::Limited, Cause::MaxTurns),
                _ => ending::of_message(&message),
            };
            if told.is_none_or(|told| told != message) {
                facts.push(ErrorEvent::new(message).class(cause).fatal(true));
            }
            (outcome, Some(cause))
        } else {
            self.answer = result.result.filter(|text| !text.trim().is_empty()).map(|text| text.to_string());
            (Outcome::Completed, None)
        };
        self.turns = self.turns.saturating_add(result.num_turns.unwrap_or(0));
        self.duration_ms = self.duration_ms.saturating_add(result.duration_ms.unwrap_or(0));
        self.verdict = Some(Verdict {
            cause,
            turns: result.num_turns.is_some().then_some(self.turns),
            duration_ms: result.duration_ms.is_some().then_some(self.duration_ms),
            api_duration_ms: result.duration_api_ms,
            ..Verdict::of(outcome)
        });
    }
}

/// The complaint that a message is, when it is one text in the words of a failure.
fn complaint(message: &ApiMessage<'_>) -> Option<String> {
    let text = match message.content.as_ref()? {
        StringOr::String(text) => text.to_string(),
        StringOr::Other(blocks) => match blocks.as_slice() {
            [block] => Text::from_json(block.text?)?.into_string(),
            _ => return None,
        },
    };
    ending::is_api_error(&text).then_some(text)
}
