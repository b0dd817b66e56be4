//! The log that Codex keeps: `sessions/<year>/<month>/<day>/rollout-<time>-<thread>.jsonl`, in `archived_sessions/` once it
//! is put away.
//!
//! ```text
//! {"timestamp":…,"type":"session_meta","payload":{"id":…,"cwd":…}}      first, and once more for each thread copied from
//! {"timestamp":…,"type":"turn_context","payload":{"model":…}}           before each turn
//! {"timestamp":…,"type":"response_item","payload":{"type":…}}           what the model is shown and says
//! {"timestamp":…,"type":"event_msg","payload":{"type":…}}               what the user is shown
//! {"type":"function_call",…}                                            up to 0.28: the items alone, with no time
//! ```
//!
//! What lies in wait here: token counts are sums over the thread (up to 0.79 over a run of it) and are told again, with
//! nothing new, when a rate limit is; 0.166 tells each response in a record of its own too. A thread that is forked or
//! spawned begins with a copy of its parent's log, stamped with the time of the copy, and goes on with the parent's sums.
//! What a thread spawned belongs to its session.

mod calls;
mod head;
mod items;
mod note;
mod patch;
mod whole;

use serde::Deserialize;

use super::counter::Figures;
use sabir_core::agent::{Confidence, DialectSpec};
use sabir_core::history::{FileRole, LogRoot, LogSpec, Spent, stem};
use sabir_core::json::{self, Str, StringOr};

/// Where it is and how it is read.
pub(super) fn log() -> LogSpec {
    LogSpec::new(
        [
            LogRoot::relocatable("CODEX_HOME", ".codex", "sessions"),
            LogRoot::relocatable("CODEX_HOME", ".codex", "archived_sessions"),
        ],
        dialect(),
        part,
        note::note,
    )
}

/// The log as a dialect.
pub(super) fn dialect() -> DialectSpec {
    DialectSpec::json("history", "the log of a thread in `sessions/`", detect, whole::Log::default)
}

/// How long the id of a thread is, at the end of a log's name.
const ID: usize = 36;

fn part<'p>(path: &[&'p str]) -> Option<FileRole<'p>> {
    let stem = stem(path.last()?, ".jsonl").filter(|stem| stem.starts_with("rollout-"))?;
    let id = stem.get(stem.len().checked_sub(ID)?..)?;
    Some(FileRole::Session(id))
}

fn detect(line: &str) -> Confidence {
    #[derive(Deserialize)]
    struct Marks<'a> {
        #[serde(borrow, default)]
        r#type: Option<Str<'a>>,
        #[serde(borrow, default)]
        timestamp: Option<Str<'a>>,
        #[serde(default)]
        payload: Option<serde::de::IgnoredAny>,
        #[serde(borrow, default)]
        record_type: Option<Str<'a>>,
        #[serde(borrow, default)]
        id: Option<Str<'a>>,
    }
    let Some(marks) = json::parse::<Marks<'_>>(line) else { return Confidence::None };
    match marks.r#type.as_deref() {
        Some(r#type) => {
            let known = matches!(r#type, "session_meta" | "turn_context" | "response_item" | "event_msg" | "compacted");
            Confidence::certain_if(known && marks.timestamp.is_some() && marks.payload.is_some())
        }
        None if marks.record_type.as_deref() == Some("state") => Confidence::Certain,
        // Its first line says who and when, and the instructions even when there are none.
        None => {
            let named = marks.id.is_some_and(|id| id.len() == ID) && marks.timestamp.is_some();
            Confidence::certain_if(named && line.contains("\"instructions\":"))
        }
    }
}

/// Prompts that nobody typed: what the CLI tells the model by itself.
fn is_furniture(prompt: &str) -> bool {
    const STARTS: &[&str] = &[
        "<environment_context>",
        "<user_instructions>",
        "<turn_aborted>",
        "<subagent_notification>",
        "<user_shell_command>",
        "# AGENTS.md instructions",
    ];
    STARTS.iter().any(|start| prompt.trim_start().starts_with(start))
}

/// The first line of a thread's own, and of each thread that it begins with a copy of.
#[derive(Deserialize)]
struct SessionMeta<'a> {
    #[serde(borrow)]
    id: Str<'a>,
    #[serde(borrow, default)]
    timestamp: Option<Str<'a>>,
    #[serde(borrow, default)]
    cwd: Option<Str<'a>>,
    #[serde(borrow, default)]
    cli_version: Option<Str<'a>>,
    #[serde(borrow, default)]
    parent_thread_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    source: Option<Source<'a>>,
}

/// Where a thread comes from, unless it is a mere word.
#[derive(Deserialize)]
struct Source<'a> {
    #[serde(borrow, default)]
    subagent: Option<StringOr<'a, SubAgent<'a>>>,
}

#[derive(Deserialize)]
struct SubAgent<'a> {
    #[serde(borrow, default)]
    thread_spawn: Option<Spawn<'a>>,
}

#[derive(Deserialize)]
struct Spawn<'a> {
    #[serde(borrow, default)]
    parent_thread_id: Option<Str<'a>>,
}

impl SessionMeta<'_> {
    /// The thread that started this one as a sub-agent. A thread that a user forked is one of its own.
    fn parent(&self) -> Option<&str> {
        let spawned = match self.source.as_ref()?.subagent.as_ref()? {
            StringOr::Other(SubAgent { thread_spawn: Some(Spawn { parent_thread_id }) }) => parent_thread_id.as_deref(),
            _ => None,
        };
        spawned.or(self.parent_thread_id.as_deref()).filter(|parent| *parent != &*self.id)
    }
}

/// What a turn runs with.
#[derive(Deserialize)]
struct TurnContext<'a> {
    #[serde(borrow, default)]
    turn_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    model: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct TokenCount {
    #[serde(default, deserialize_with = "json::lenient")]
    info: Option<TokenInfo>,
}

#[derive(Deserialize)]
struct TokenInfo {
    #[serde(default)]
    total_token_usage: Option<Figures>,
    #[serde(default)]
    last_token_usage: Option<Figures>,
}

#[derive(Deserialize)]
struct TokenRecord {
    thread_token_usage: Figures,
    usage: Figures,
}

/// What a line says of tokens.
#[derive(Clone, Copy)]
struct Report {
    /// Of all responses of the thread, or of its run.
    total: Spent,
    /// Of the last one.
    last: Option<Spent>,
    /// The line is a record of one response.
    recorded: bool,
}

impl Report {
    fn new(total: Figures, last: Option<Figures>, recorded: bool) -> Self {
        Self { total: spent(total), last: last.map(spent), recorded }
    }

    fn of_count(count: TokenCount) -> Option<Self> {
        let info = count.info?;
        Some(Self::new(info.total_token_usage?, info.last_token_usage, false))
    }

    fn of_record(record: &TokenRecord) -> Self {
        Self::new(record.thread_token_usage, Some(record.usage), true)
    }

    /// The response that the report adds to those before, given the sum so far and how the last one was told.
    fn added(self, sum: &mut Spent, recorded: &mut bool, previous: Option<Spent>) -> Option<Spent> {
        let told = *recorded && !self.recorded && self.last.is_some() && self.last == previous;
        if self.total == *sum || told {
            return None;
        }
        let before = std::mem::replace(sum, self.total);
        // Not the difference of the sums: a run of an older version begins at nothing.
        let added = self.last.filter(|last| last.total() > 0).unwrap_or_else(|| self.total.beyond(&before));
        if added.total() == 0 {
            return None;
        }
        *recorded = self.recorded;
        Some(added)
    }
}

/// Codex's figures in disjoint classes.
fn spent(figures: Figures) -> Spent {
    let (cache_read, cache_write) = (figures.cached.unwrap_or(0), figures.cache_write.unwrap_or(0));
    Spent {
        input: figures.input.unwrap_or(0).saturating_sub(cache_read.saturating_add(cache_write)),
        cache_read,
        cache_write,
        output: figures.output.unwrap_or(0),
        cache_write_1h: 0,
        reasoning: figures.reasoning.unwrap_or(0),
    }
}

/// How long after its beginning a log may still be a copy of another one, where turns have no id that tells their time.
const COPYING: i64 = 1_000;

/// The thread that a turn belongs to: the youngest of those in the log that was there when the turn began. `None` when
/// the line does not tell when that was.
fn owner_of_turn(threads: &[(i64, u64)], turn: Option<&str>, at: Option<i64>) -> Option<u64> {
    let (began, own) = threads.first()?;
    match turn.and_then(time_in_id) {
        Some(time) => threads.iter().find(|(began, _)| *began <= time).or(threads.last()).map(|(_, thread)| *thread),
        None => at.is_some_and(|at| at > *began + COPYING).then_some(*own),
    }
}

/// The time that a UUID of version 7 begins with.
fn time_in_id(id: &str) -> Option<i64> {
    let (high, rest) = id.split_once('-')?;
    let (low, rest) = rest.split_once('-')?;
    if high.len() != 8 || low.len() != 4 || !rest.starts_with('7') {
        return None;
    }
    let number = |digits: &str| i64::from_str_radix(digits, 16).ok();
    Some((number(high)? << 16) | number(low)?)
}

#[cfg(test)]
mod tests {
    use super::{Report, detect, is_furniture, owner_of_turn, part, time_in_id};
    use sabir_core::agent::Confidence;
    use sabir_core::history::{FileRole, Spent};

    #[test]
    fn files_are_told_apart() {
        let name = "rollout-2026-11-15T18-00-38-6fc002f7-e719-48b0-90ca-23b0cb17484f.jsonl";
        let id = Some(FileRole::Session("6fc002f7-e719-48b0-90ca-23b0cb17484f"));
        assert_eq!(part(&["2026", "11", "15", name]), id);
        assert_eq!(part(&[name]), id);
        assert_eq!(part(&["history.jsonl"]), None);
        assert_eq!(part(&["2026", "rollout-short.jsonl"]), None);
        assert_eq!(part(&["2026", "rollout-é6fc002f7-e719-48b0-90ca-23b0cb174é.jsonl"]), None);
        assert_eq!(part(&[]), None);
    }

    #[test]
    fn lines_of_all_versions_tell() {
        let time = r#""timestamp":"2026-11-15T18:00:38.890Z""#;
        let id = "6fc002f7-e719-48b0-90ca-23b0cb17484f";
        assert_eq!(detect(&format!(r#"{{{time},"type":"event_msg","payload":{{"type":"token_count"}}}}"#)), Confidence::Certain);
        assert_eq!(detect(&format!(r#"{{"id":"{id}",{time},"instructions":null}}"#)), Confidence::Certain);
        assert_eq!(detect(r#"{"record_type":"state"}"#), Confidence::Certain);
        assert_eq!(detect(&format!(r#"{{"id":"{id}",{time},"text":"x"}}"#)), Confidence::None);
        assert_eq!(detect(r#"{"type":"event_msg"}"#), Confidence::None);
        assert_eq!(detect(r#"{"type":"thread.started","thread_id":"x"}"#), Confidence::None);
    }

    #[test]
    fn what_nobody_typed_is_no_prompt() {
        assert!(is_furniture("<environment_context>\n  <cwd>/x</cwd>"));
        assert!(!is_furniture("Fix the <environment_context> tag"));
    }

    #[test]
    fn ids_tell_their_time() {
        assert_eq!(time_in_id("01a1e05b-61a6-7dd2-9521-2f5d86ac8a44"), Some(1_794_765_447_590));
        assert_eq!(time_in_id("6fc002f7-e719-48b0-90ca-23b0cb17484f"), None);
        assert_eq!(time_in_id("turn-1"), None);
    }

    #[test]
    fn a_turn_is_of_the_youngest_thread_that_was_there() {
        let threads = [(3_000, 30), (2_000, 20), (1_000, 10)];
        let turn = |millis: i64| format!("{:08x}-{:04x}-7000-8000-000000000000", millis >> 16, millis & 0xffff);
        assert_eq!(owner_of_turn(&threads, Some(&turn(1_500)), Some(3_001)), Some(10));
        assert_eq!(owner_of_turn(&threads, Some(&turn(2_000)), Some(3_001)), Some(20));
        assert_eq!(owner_of_turn(&threads, Some(&turn(3_000)), Some(3_001)), Some(30));
        assert_eq!(owner_of_turn(&threads, Some(&turn(7)), Some(3_001)), Some(10));
        assert_eq!(owner_of_turn(&threads, None, Some(3_900)), None);
        assert_eq!(owner_of_turn(&threads, None, Some(4_001)), Some(30));
        assert_eq!(owner_of_turn(&[], None, Some(4_001)), None);
    }

    #[test]
    fn a_sum_adds_a_response_once() {
        let figures = |input, output| Spent { input, output, ..Spent::default() };
        let (mut sum, mut recorded) = (Spent::default(), false);
        let mut read =
            |total, last, record| Report { total, last, recorded: record }.added(&mut sum, &mut recorded, Some(figures(10, 1)));
        assert_eq!(read(figures(10, 1), Some(figures(10, 1)), false), Some(figures(10, 1)));
        assert_eq!(read(figures(10, 1), Some(figures(10, 1)), false), None);
        // A new run of an older version: its sum is larger and yet no continuation.
        assert_eq!(read(figures(12, 2), Some(figures(12, 2)), false), Some(figures(12, 2)));
        assert_eq!(read(figures(20, 3), None, false), Some(figures(8, 1)));
        // The window was exceeded: the sum is given up.
        assert_eq!(read(figures(0, 0), Some(figures(0, 0)), false), None);
        // A record, and the sum that tells it again with another beginning.
        assert_eq!(read(figures(10, 1), Some(figures(10, 1)), true), Some(figures(10, 1)));
        assert_eq!(read(figures(90, 9), Some(figures(10, 1)), false), None);
        assert_eq!(read(figures(20, 2), Some(figures(10, 1)), true), Some(figures(10, 1)));
    }
}
