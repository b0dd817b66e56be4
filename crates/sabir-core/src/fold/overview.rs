//! A session in a few figures: for lists, and for meters that run along.
//!
//! Unlike the session result it spans all runs of a session, and what it keeps is bounded in bytes, whatever a stream says:
//! a hub has an overview of every session in memory. Names and paths that are cut end with an ellipsis.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::session_result::{CostSource, Status, dollars};
use super::tokens::{Tokens, TokensReport, TokensSource, UsageTally};
use crate::cut;
use crate::event::{Event, EventKind, Exited, Permission, Prompt, Session, Started, ToolEnd, ToolStart};
use crate::price::Table;
use crate::time::Timestamp;

/// Open calls and questions that are told apart: the newest calls, and the first questions.
const MOST_OPEN: usize = 1_024;
/// Longest path that is kept, in bytes.
const PATH_BYTES: usize = 1_024;
/// Longest title that is kept, in characters.
const TITLE_CHARS: usize = 200;

/// A session in a few figures. What is not known is `null`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Overview {
    /// Id of the agent.
    pub agent: Option<String>,
    /// Its version.
    pub agent_version: Option<String>,
    /// The agent's own id of the session.
    pub agent_session_id: Option<String>,
    /// The main model.
    pub model: Option<String>,
    /// The working folder.
    pub cwd: Option<String>,
    /// The workspace that the shell was started for.
    pub workspace: Option<String>,
    /// The beginning of the first prompt.
    pub title: Option<String>,
    /// What it does now, or how the last run ended.
    pub phase: Phase,
    /// The tool that runs now; of several the one that began last.
    pub tool: Option<String>,
    /// How many runs began.
    pub runs: u32,
    /// How many turns began.
    pub turns: u64,
    /// How many tool calls began.
    pub tool_calls: u64,
    /// How many changes of files were told.
    pub file_changes: u64,
    /// How many errors were told.
    pub errors: u64,
    /// All tokens, each once.
    pub tokens: Option<u64>,
    /// The same by class.
    pub usage: Option<TokensReport>,
    /// What they cost in dollars.
    pub cost_usd: Option<f64>,
    /// Whether the agent says so or the price table does; of a sum, the table as soon as it has a part in it.
    pub cost_source: CostSource,
    /// When the first thing happened.
    pub started: Option<Timestamp>,
    /// When the last thing happened.
    pub last: Option<Timestamp>,
    /// How many messages of the log are damaged where it is kept: what they said is in none of these figures.
    #[serde(skip_serializing_if = "is_zero")]
    pub gaps: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "what serde gives")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What a session does now, or how its last run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// Nothing was heard of a run yet.
    #[default]
    Starting,
    /// The agent works.
    Running,
    /// The agent asks whether it may.
    Asking,
    /// The agent finished and said so.
    Success,
    /// It failed, refused, reached a limit or crashed.
    Error,
    /// Somebody stopped it.
    Cancelled,
    /// A time limit stopped it.
    Timeout,
    /// The stream ended with no sign that the agent was done.
    Incomplete,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Starting,
        Self::Running,
        Self::Asking,
        Self::Success,
        Self::Error,
        Self::Cancelled,
        Self::Timeout,
        Self::Incomplete,
    ];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Asking => "asking",
            Self::Success => "success",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::Timeout => "timeout",
            Self::Incomplete => "incomplete",
        }
    }

    /// Whether no run is going on.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Starting | Self::Running | Self::Asking)
    }
}

impl From<Status> for Phase {
    fn from(status: Status) -> Self {
        match status {
            Status::Success => Self::Success,
            Status::Error => Self::Error,
            Status::Cancelled => Self::Cancelled,
            Status::Timeout => Self::Timeout,
            Status::Incomplete => Self::Incomplete,
        }
    }
}

/// Collects the events of all runs of a session into an [`Overview`].
#[derive(Debug, Default)]
pub struct OverviewFold {
    seen: Overview,
    tally: UsageTally,
    /// What the runs before used.
    before: Option<Used>,
    /// Open calls in the order in which they began: digest of the id, and name.
    open: Vec<(u64, String)>,
    /// Open questions by the digests of their ids.
    asked: BTreeSet<u64>,
    /// How many further questions are open.
    more_asked: u64,
}

/// Tokens, and what they cost.
#[derive(Debug, Clone, Copy)]
struct Used {
    tokens: Tokens,
    cost: Option<f64>,
    source: CostSource,
}

impl Used {
    /// Both together: the cost is unknown once that of one of them is.
    fn and(mut self, other: &Self) -> Self {
        self.tokens.add(&other.tokens);
        self.cost = self.cost.zip(other.cost).map(|(one, other)| one + other);
        self.source = match (self.cost, self.source, other.source) {
            (None, ..) => CostSource::Unknown,
            (Some(_), CostSource::Reported, CostSource::Reported) => CostSource::Reported,
            (Some(_), ..) => CostSource::Computed,
        };
        self
    }
}

impl OverviewFold {
    /// Takes note of the next event.
    pub fn event(&mut self, event: &Event<'_>) {
        let main = event.parent_tool_call_id.is_none();
        if let Some(at) = event.at {
            self.seen.started.get_or_insert(at);
            // What a sub-agent did may be told later than what came after it.
            if main || self.seen.last < Some(at) {
                self.seen.last = Some(at);
            }
        }
        self.tally.event(&event.kind);
        let seen = &mut self.seen;
        let note = |field: &mut Option<String>, value: Option<&str>| {
            if let Some(value) = value {
                *field = Some(cut::name(value).into_owned());
            }
        };
        match &event.kind {
            EventKind::Started(Started { agent, agent_version, .. }) => {
                note(&mut seen.agent, Some(agent));
                note(&mut seen.agent_version, agent_version.as_deref());
                seen.runs += 1;
                seen.phase = Phase::Running;
                self.before = self.used();
                self.tally = UsageTally::default();
                self.open.clear();
                self.asked.clear();
                self.more_asked = 0;
            }
            EventKind::Session(Session { session_id, model, cwd, agent_version, .. }) if main => {
                note(&mut seen.agent_session_id, session_id.as_deref());
                note(&mut seen.model, model.as_deref());
                if let Some(cwd) = cwd {
                    seen.cwd = Some(cut::ellipsis(cwd, PATH_BYTES).into_owned());
                }
                note(&mut seen.agent_version, agent_version.as_deref());
            }
            EventKind::Prompt(Prompt { text, .. }) => self.asks(text),
            EventKind::TurnStart(_) => seen.turns += 1,
            EventKind::ToolStart(ToolStart { tool_call_id, name, .. }) => {
                seen.tool_calls += 1;
                if self.open.len() == MOST_OPEN {
                    self.open.remove(0);
                }
                self.open.push((cut::digest(tool_call_id), cut::name(name).into_owned()));
            }
            EventKind::ToolEnd(ToolEnd { tool_call_id, .. }) => {
                let ended = cut::digest(tool_call_id);
                self.open.retain(|(id, _)| *id != ended);
            }
            EventKind::FileChange(_) => seen.file_changes += 1,
            EventKind::Permission(Permission { request_id, decision, .. }) => {
                let request = cut::digest(request_id);
                if decision.is_some() {
                    if !self.asked.remove(&request) {
                        self.more_asked = self.more_asked.saturating_sub(1);
                    }
                } else if self.asked.len() < MOST_OPEN {
                    self.asked.insert(request);
                } else if !self.asked.contains(&request) {
                    self.more_asked += 1;
                }
                seen.phase = if self.asked.is_empty() && self.more_asked == 0 { Phase::Running } else { Phase::Asking };
            }
            EventKind::Error(_) => seen.errors += 1,
            EventKind::Exited(Exited { outcome, .. }) => {
                seen.phase = Status::of(*outcome).into();
                self.open.clear();
                self.asked.clear();
                self.more_asked = 0;
            }
            _ => {}
        }
    }

    /// Takes note of what is asked, where that is told apart from the events.
    pub fn asks(&mut self, prompt: &str) {
        if self.seen.title.is_none() {
            let line = prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let line = line.trim();
            let end = line.char_indices().nth(TITLE_CHARS).map_or(line.len(), |(at, _)| at);
            self.seen.title = (!line.is_empty()).then(|| [&line[..end], if end < line.len() { "…" } else { "" }].concat());
        }
    }

    /// Takes note of a message that can't be read any more.
    pub fn gap(&mut self) {
        self.seen.gaps += 1;
    }

    /// Takes note of the workspace.
    pub fn is_in(&mut self, workspace: &str) {
        self.seen.workspace = Some(cut::ellipsis(workspace, PATH_BYTES).into_owned());
    }

    /// The session so far.
    pub fn overview(&self) -> Overview {
        let used = self.used();
        let source = if self.before.is_some() { TokensSource::Summed } else { self.tally.source() };
        // An agent may say what it cost, and not how many tokens that were.
        let total = used.and_then(|used| used.tokens.total());
        Overview {
            tool: self.open.last().map(|(_, name)| name.clone()),
            tokens: total,
            usage: used.filter(|_| total.is_some()).map(|used| TokensReport::new(&used.tokens, source)),
            cost_usd: used.and_then(|used| used.cost),
            cost_source: used.map(|used| used.source).unwrap_or_default(),
            ..self.seen.clone()
        }
    }

    fn used(&self) -> Option<Used> {
        let tokens = self.tally.total();
        let cost = dollars(&self.tally, self.seen.model.as_deref(), Table::embedded());
        if tokens.total().is_none() && cost.source != CostSource::Reported {
            return self.before;
        }
        let used = Used { tokens, cost: cost.total, source: cost.source };
        Some(self.before.as_ref().map_or(used, |before| used.and(before)))
    }
}

#[cfg(test)]
mod tests {
    use super::{CostSource, OverviewFold, Phase};
    use crate::event::Event;

    fn fold(events: &[&str]) -> OverviewFold {
        let mut fold = OverviewFold::default();
        for (index, fields) in events.iter().enumerate() {
            let json = format!("{{\"runId\":\"r\",\"seq\":{},{fields}}}", index + 1);
            fold.event(&serde_json::from_str::<Event<'_>>(&json).expect(fields));
        }
        fold
    }

    const STARTED: &str = r#""kind":"started","agent":"codex""#;
    const USAGE: &str = r#""kind":"usage","scope":"run","inputTokens":10,"outputTokens":5"#;
    const EXITED: &str = r#""kind":"exited","outcome":"completed","cancelled":false"#;

    #[test]
    fn runs_add_up_and_the_last_one_says_how_it_stands() {
        let seen = fold(&[STARTED, USAGE, EXITED, STARTED, USAGE]).overview();
        assert_eq!((seen.runs, seen.tokens, seen.phase), (2, Some(30), Phase::Running));
        let usage = seen.usage.expect("known");
        assert_eq!((usage.uncached_input, usage.output, usage.total), (Some(20), Some(10), Some(30)));
        assert_eq!(fold(&[STARTED, USAGE, EXITED]).overview().phase, Phase::Success);
        assert_eq!(fold(&[STARTED]).overview().tokens, None);
    }

    #[test]
    fn more_open_calls_and_questions_than_are_told_apart() {
        let call = |what: &str, number: u64| match what {
            "start" => format!(r#""kind":"toolStart","toolCallId":"{number}","name":"t{number}","toolKind":"other""#),
            "end" => format!(r#""kind":"toolEnd","toolCallId":"{number}","ok":true,"status":"ok""#),
            "ask" => format!(r#""kind":"permission","requestId":"{number}","title":"t""#),
            _ => format!(r#""kind":"permission","requestId":"{number}","title":"t","decision":"allow""#),
        };
        let most = super::MOST_OPEN as u64;
        let phase_and_tool = |what: &[&str], ended: u64| {
            let events = what.iter().flat_map(|what| {
                let numbers = if matches!(*what, "start" | "ask") { 0..most + 1 } else { 0..ended };
                numbers.map(|number| call(what, number))
            });
            let events: Vec<String> = std::iter::once(STARTED.to_owned()).chain(events).collect();
            let seen = fold(&events.iter().map(String::as_str).collect::<Vec<_>>()).overview();
            (seen.phase, seen.tool, seen.tool_calls)
        };
        assert_eq!(phase_and_tool(&["start", "end"], most), (Phase::Running, Some(format!("t{most}")), most + 1));
        assert_eq!(phase_and_tool(&["ask", "answer"], most).0, Phase::Asking);
        assert_eq!(phase_and_tool(&["ask", "answer"], most + 1).0, Phase::Running);
    }

    #[test]
    fn a_cost_says_where_it_is_from_also_without_tokens() {
        let cost = |events: &[&str]| {
            let seen = fold(events).overview();
            (seen.cost_usd, seen.cost_source, seen.tokens)
        };
        let reported = r#""kind":"usage","scope":"run","costUsd":0.5"#;
        let session = r#""kind":"session","model":"gpt-4o""#;
        assert_eq!(cost(&[STARTED, reported]), (Some(0.5), CostSource::Reported, None));
        assert_eq!(cost(&[STARTED, USAGE]), (None, CostSource::Unknown, Some(15)));
        let (computed, source, _) = cost(&[STARTED, session, USAGE]);
        assert_eq!(source, CostSource::Computed);
        let both = cost(&[STARTED, session, USAGE, EXITED, STARTED, reported]);
        assert_eq!(both, (computed.map(|cost| cost + 0.5), CostSource::Computed, Some(15)));
    }

    /// What one token of a runner can send: long ids and names, each another one.
    #[test]
    fn what_is_kept_is_bounded_whatever_the_names_are() {
        let long = |number: usize| format!("{number} {}", "x".repeat(1 << 16));
        let mut fold = fold(&[STARTED]);
        let mut tell = |fields: String| {
            let json = format!("{{\"runId\":\"r\",\"seq\":1,{fields}}}");
            fold.event(&serde_json::from_str::<Event<'_>>(&json).expect("an event"));
        };
        for number in 0..200 {
            let name = long(number);
            tell(format!(r#""kind":"toolStart","toolCallId":"{name}","name":"{name}","toolKind":"other""#));
            tell(format!(r#""kind":"permission","requestId":"{name}","title":"{name}""#));
            tell(format!(r#""kind":"usage","scope":"message","inputTokens":1,"outputTokens":1,"model":"{name}""#));
            let session = [("sessionId", &name), ("model", &name), ("cwd", &name), ("agentVersion", &name)];
            let session: Vec<String> = session.iter().map(|(key, name)| format!("\"{key}\":\"{name}\"")).collect();
            tell(format!(r#""kind":"session",{}"#, session.join(",")));
        }
        // The last call and its end have the same id, so the one before it is told.
        tell(format!(r#""kind":"toolEnd","toolCallId":"{}","ok":true,"status":"ok""#, long(199)));
        fold.asks(&long(0));
        fold.is_in(&long(0));
        let seen = fold.overview();
        assert_eq!((seen.tool_calls, seen.tokens, seen.phase), (200, Some(400), Phase::Asking), "no figure changes");
        assert_eq!((seen.cost_usd, seen.cost_source), (None, CostSource::Unknown), "a price that is not known is not a figure");
        let cut = [&seen.tool, &seen.model, &seen.cwd, &seen.agent_version, &seen.agent_session_id, &seen.title, &seen.workspace];
        for text in cut.map(|text| text.as_deref().expect("known")) {
            assert!(text.contains('…') && text.len() <= 1_024, "{text}");
        }
        assert!(seen.tool.expect("one is open").starts_with("198 "));
        let kept: usize = fold.open.iter().map(|(_, name)| 8 + name.len()).sum();
        assert!(kept + fold.asked.len() * 16 < 100_000, "{kept}");
        assert!(format!("{:?}", fold.tally).len() < 200_000);
    }

    #[test]
    fn the_tool_that_runs_is_told_and_a_question_that_is_open() {
        let one = r#""kind":"toolStart","toolCallId":"1","name":"bash","toolKind":"execute""#;
        let two = r#""kind":"toolStart","toolCallId":"2","name":"read","toolKind":"read""#;
        let end = r#""kind":"toolEnd","toolCallId":"2","ok":true,"status":"ok""#;
        assert_eq!(fold(&[STARTED, one, two]).overview().tool.as_deref(), Some("read"));
        assert_eq!(fold(&[STARTED, one, two, end]).overview().tool.as_deref(), Some("bash"));
        let ask = r#""kind":"permission","requestId":"q","title":"may I?""#;
        let answer = r#""kind":"permission","requestId":"q","title":"may I?","decision":"allow""#;
        assert_eq!(fold(&[STARTED, ask]).overview().phase, Phase::Asking);
        assert_eq!(fold(&[STARTED, ask, answer]).overview().phase, Phase::Running);
    }
}
