//! The log as the events of its thread.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::{End, Facts, Verdict};
use sabir_core::event::{self, Activity, Outcome, Prompt, TextDelta, ThinkingDelta, TurnEnd, TurnStart, Usage, UsageScope};
use sabir_core::history::{Spent, id_of};
use sabir_core::json::{self, JsonDialect, Str, Unread};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;
use serde::Deserialize;

use super::calls::{Call, Known};
use super::head::{Head, is_given, says_nothing_new, type_of};
use super::items::Item;
use super::{Report, SessionMeta, TokenCount, TokenRecord, TurnContext, is_furniture, owner_of_turn};
use crate::codex::answer::Answer;
use crate::codex::report;
use crate::codex::trouble::Trouble;

/// Reads the log of a thread, the logs of threads that it spawned after its own.
#[derive(Default)]
pub(super) struct Log {
    /// The threads of the file that is read, as in a ledger.
    threads: Vec<(i64, u64)>,
    owner: u64,
    /// A turn of the file's own thread began.
    own: bool,
    /// The call that spawned the thread whose file is read; `None` in the first file.
    lane: Option<String>,
    /// The call that spawned each thread.
    pub(super) agents: BTreeMap<String, String>,
    /// The calls of the turn.
    pub(super) calls: BTreeMap<String, Known>,
    pub(super) unnamed: u64,
    session: Session,
    model: Option<String>,
    sum: Spent,
    recorded: bool,
    last: Option<Spent>,
    /// The prompt that the turn began with: newer versions tell it twice.
    prompted: Option<String>,
    /// Lines say when a task begins and ends.
    announced: bool,
    answer: Answer,
    trouble: Trouble,
    ending: Option<Outcome>,
    duration_ms: Option<u64>,
}

#[derive(Default)]
struct Session {
    id: Option<String>,
    cwd: Option<String>,
    version: Option<String>,
    model: Option<String>,
}

/// A line of the log.
#[derive(Deserialize)]
pub(super) struct Entry<'a> {
    #[serde(borrow, default)]
    r#type: Option<Str<'a>>,
    #[serde(borrow, default)]
    timestamp: Option<Str<'a>>,
    #[serde(borrow, default)]
    payload: Option<Unread<'a>>,
    #[serde(borrow, default)]
    record_type: Option<Str<'a>>,
}

/// What the model says or thinks.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<Str<'a>>,
    #[serde(borrow, default)]
    role: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    content: Option<Vec<Block<'a>>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    summary: Option<Vec<Block<'a>>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default)]
    text: Option<Str<'a>>,
}

/// All fields of the events that are read.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    message: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    last_agent_message: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    error: Option<Failure<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    reason: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    duration_ms: Option<u64>,
    #[serde(borrow, default)]
    item: Option<Unread<'a>>,
}

#[derive(Deserialize)]
struct Failure<'a> {
    #[serde(borrow)]
    message: Str<'a>,
}

impl JsonDialect for Log {
    type Wire<'a> = Entry<'a>;

    /// Passes over lines that say again what others say; some of them are the longest of the log. Of those that come by
    /// the thousand, what they are about is read at once, without looking for its end first.
    fn fast<'a>(&mut self, line: &'a str, facts: &mut Facts<'a>) -> bool {
        let Some((head, payload)) = Head::with_payload(line) else { return false };
        if head.kind == "event_msg" && says_nothing_new(head.inner) {
            return payload.ends_with('}');
        }
        if self.is_copied() {
            return false;
        }
        facts.at = Timestamp::parse(head.timestamp);
        facts.parent = self.lane.clone().map(Cow::Owned);
        let read = match (head.kind, head.inner) {
            ("event_msg", "token_count") => self.token_count(payload, facts),
            ("response_item", item) if !is_given(item) => self.response_item(item, payload, false, facts),
            _ => None,
        };
        if read.is_none() {
            (facts.at, facts.parent) = (None, None);
        }
        read.is_some()
    }

    fn message<'a>(&mut self, entry: Entry<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        facts.at = entry.timestamp.as_deref().and_then(Timestamp::parse);
        let whole = line.borrowed().unwrap_or_default();
        let read = match (entry.r#type.as_deref(), entry.payload) {
            (Some(r#type), Some(payload)) => self.line(r#type, payload.0, line, facts),
            // Up to 0.28 the items stand alone, after a line about the thread and lines about nothing.
            (Some(r#type), None) => self.response_item(r#type, whole, true, facts),
            (None, _) if entry.record_type.is_some() => Some(()),
            (None, _) => json::parse(whole).map(|meta| self.session_meta(&meta, facts)),
        };
        if read.is_none() {
            json::unrecognized(line, facts);
        }
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        let verdict = match (self.ending, self.trouble.verdict()) {
            (_, Some(failed)) => failed,
            (Some(outcome), None) => Verdict::of(outcome),
            // Before the end of a task was told, a message that nothing follows was all there was to tell it.
            (None, None) if !self.announced && self.answer.stands() => Verdict::of(Outcome::Completed),
            _ => Verdict::of(Outcome::Incomplete),
        };
        report::answer(&self.answer, &verdict, end, facts);
        Verdict { duration_ms: self.duration_ms, ..verdict }
    }
}

impl Log {
    /// Reads a line; `None` when no rule knows it.
    fn line<'a>(&mut self, r#type: &str, payload: &'a str, line: &Line<'a>, facts: &mut Facts<'a>) -> Option<()> {
        match r#type {
            "session_meta" => return json::parse(payload).map(|meta| self.session_meta(&meta, facts)),
            "turn_context" => return json::parse(payload).map(|context| self.turn_context(&context, facts)),
            // Copies of what the session said itself.
            _ if self.is_copied() => return Some(()),
            _ => facts.parent = self.lane.clone().map(Cow::Owned),
        }
        match r#type {
            "response_item" => self.response_item(&type_of(payload)?, payload, false, facts),
            "event_msg" => self.event(&type_of(payload)?, payload, line, facts),
            "token_usage_record" => {
                json::parse::<TokenRecord>(payload).map(|record| self.tokens(Some(Report::of_record(&record)), facts))
            }
            "compacted" => {
                facts.push(Activity::new("conversation compacted"));
                Some(())
            }
            // What the model is told of its surroundings.
            "world_state" | "inter_agent_communication_metadata" => Some(()),
            _ => None,
        }
    }

    /// Whether the lines are copies of what the session said itself: the log of a sub-agent begins with them.
    fn is_copied(&self) -> bool {
        self.lane.is_some() && !self.own
    }

    fn session_meta<'a>(&mut self, meta: &SessionMeta<'a>, facts: &mut Facts<'a>) {
        let number = id_of(&*meta.id);
        if self.threads.iter().any(|(_, thread)| *thread == number) {
            return;
        }
        let began = meta.timestamp.as_deref().and_then(Timestamp::parse).map_or(0, Timestamp::as_millis);
        let next_file = self.threads.is_empty() || self.own;
        if next_file {
            if !self.threads.is_empty() {
                self.lane = Some(self.agents.get(&*meta.id).cloned().unwrap_or_else(|| meta.id.to_string()));
            }
            (self.sum, self.recorded, self.last, self.own, self.model) = (Spent::default(), false, None, false, None);
            self.threads.clear();
            self.calls.clear();
        }
        self.threads.push((began, number));
        self.owner = number;
        if self.lane.is_none() && next_file {
            let owned = |text: &Option<Str<'_>>| text.as_deref().map(str::to_owned);
            let id = Some(meta.id.to_string());
            self.session = Session { id, cwd: owned(&meta.cwd), version: owned(&meta.cli_version), model: None };
            self.say_session(facts);
        }
    }

    fn turn_context<'a>(&mut self, context: &TurnContext<'a>, facts: &mut Facts<'a>) {
        let at = facts.at.map(Timestamp::as_millis);
        self.owner = owner_of_turn(&self.threads, context.turn_id.as_deref(), at).unwrap_or(self.owner);
        self.own |= self.threads.first().is_none_or(|(_, own)| *own == self.owner);
        let Some(model) = &context.model else { return };
        self.model = Some(model.to_string());
        if self.lane.is_none() && self.session.model != self.model {
            self.session.model.clone_from(&self.model);
            self.say_session(facts);
        }
    }

    fn say_session(&self, facts: &mut Facts<'_>) {
        let owned = |text: &Option<String>| text.clone().map(Cow::Owned);
        facts.push(
            event::Session::default()
                .session_id(owned(&self.session.id))
                .model(owned(&self.session.model))
                .cwd(owned(&self.session.cwd))
                .agent_version(owned(&self.session.version)),
        );
    }

    fn response_item<'a>(&mut self, r#type: &str, item: &'a str, alone: bool, facts: &mut Facts<'a>) -> Option<()> {
        match r#type {
            "message" => {
                let message: Message<'a> = json::parse(item)?;
                match message.role.as_deref() {
                    Some("assistant") => self.text(message, facts),
                    Some("user") if alone => self.prompt(Cow::Owned(joined(message.content, "\n")), facts),
                    // Prompts are told in lines of their own; the rest is what the CLI tells the model.
                    _ => {}
                }
            }
            "reasoning" => {
                let message: Message<'a> = json::parse(item)?;
                let thought = joined(message.summary.into_iter().chain(message.content), "\n\n");
                facts.push(ThinkingDelta::new(thought).message_id(message.id));
            }
            "function_call"
            | "custom_tool_call"
            | "local_shell_call"
            | "web_search_call"
            | "image_generation_call"
            | "tool_search_call"
            | "mcp_tool_call" => {
                let call: Call<'a> = json::parse(item)?;
                self.call(r#type, call, facts);
            }
            "function_call_output" | "custom_tool_call_output" | "tool_search_output" | "mcp_tool_call_output" => {
                let call: Call<'a> = json::parse(item)?;
                self.result(call, facts);
            }
            _ if is_given(r#type) => {}
            _ => return None,
        }
        Some(())
    }

    fn text<'a>(&mut self, message: Message<'a>, facts: &mut Facts<'a>) {
        self.prompted = None;
        let text = Cow::Owned(joined(message.content, ""));
        let text = if self.lane.is_none() { self.answer.message(text) } else { text };
        facts.push(TextDelta::new(text).message_id(message.id));
    }

    fn event<'a>(&mut self, r#type: &str, payload: &'a str, line: &Line<'a>, facts: &mut Facts<'a>) -> Option<()> {
        if r#type == "token_count" {
            return self.token_count(payload, facts);
        }
        if says_nothing_new(r#type) {
            return Some(());
        }
        let event: Event<'a> = json::parse(payload)?;
        let main = self.lane.is_none();
        match r#type {
            "user_message" => self.prompt(event.message?.into(), facts),
            "item_completed" => {
                let item: Item<'a> = json::parse(event.item?.0)?;
                self.item(item, line, facts);
            }
            "task_started" | "turn_started" if main => {
                self.announced = true;
                self.begin(facts);
            }
            "task_complete" | "turn_complete" if main => {
                self.duration_ms = event.duration_ms.map(|millis| millis.saturating_add(self.duration_ms.unwrap_or(0)));
                if let Some(failure) = event.error {
                    self.trouble.fatal(failure.message.into()).into_iter().for_each(|error| facts.push(error));
                } else if event.last_agent_message.is_some() || self.recorded {
                    // A task without a last word may have failed, in versions that do not tell errors here.
                    event.last_agent_message.into_iter().for_each(|message| drop(self.answer.message(message.into())));
                    self.ending = Some(Outcome::Completed);
                }
                facts.push(TurnEnd::default());
            }
            "turn_aborted" if main => {
                self.ending = Some(Outcome::Cancelled);
                facts.push(TurnEnd::default().stop_reason(event.reason));
            }
            "error" | "stream_error" if main => {
                let message = Cow::from(event.message?);
                self.trouble.retry_or_fatal(message).into_iter().for_each(|told| facts.push(told));
            }
            "warning" | "background_event" | "deprecation_notice" => {
                facts.push(Activity::new(event.message?));
            }
            "context_compacted" => facts.push(Activity::new("conversation compacted")),
            // Turns of sub-agents.
            "task_started" | "turn_started" | "task_complete" | "turn_complete" | "turn_aborted" | "error" | "stream_error" => {}
            _ => return None,
        }
        Some(())
    }

    /// A turn begins: it will have an answer and an end of its own.
    fn begin(&mut self, facts: &mut Facts<'_>) {
        self.answer.clear();
        self.trouble.clear();
        self.calls.clear();
        self.ending = None;
        facts.push(TurnStart::default());
    }

    /// What the user asks.
    pub(super) fn prompt<'a>(&mut self, text: Cow<'a, str>, facts: &mut Facts<'a>) {
        let again = self.prompted.as_deref() == Some(&*text);
        if self.lane.is_some() || is_furniture(&text) || text.trim().is_empty() || again {
            return;
        }
        if !self.announced {
            self.begin(facts);
        }
        self.prompted = Some(text.clone().into_owned());
        facts.push(Prompt::new(text));
    }

    /// A tool runs, so the message before it was not the last word.
    pub(super) fn overtake(&mut self) {
        self.prompted = None;
        if self.lane.is_none() {
            self.answer.overtake();
        }
    }

    fn token_count(&mut self, payload: &str, facts: &mut Facts<'_>) -> Option<()> {
        json::parse::<TokenCount>(payload).map(|count| self.tokens(Report::of_count(count), facts))
    }

    fn tokens(&mut self, report: Option<Report>, facts: &mut Facts<'_>) {
        let added = report.and_then(|report| report.added(&mut self.sum, &mut self.recorded, self.last));
        let Some(spent) = added else { return };
        self.last = Some(spent);
        facts.push(
            Usage::new(UsageScope::Message)
                .input_tokens(spent.input)
                .output_tokens(spent.output)
                .cache_read_tokens(spent.cache_read)
                .cache_write_tokens(spent.cache_write)
                .reasoning_tokens(spent.reasoning)
                .model(self.model.clone()),
        );
    }
}

fn joined<'a>(blocks: impl IntoIterator<Item = impl IntoIterator<Item = Block<'a>>>, between: &str) -> String {
    let texts: Vec<Str<'a>> = blocks.into_iter().flatten().filter_map(|block| block.text).collect();
    texts.iter().map(|text| &**text).collect::<Vec<_>>().join(between)
}
