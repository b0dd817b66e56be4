//! Which agent prints this? Found from the stream itself.

use crate::agent::{ALL, Agent, AgentId, DialectEntry, Match, localexec, text};
use crate::dialect::{Dialect, End, Facts, Verdict};
use crate::event::Outcome;
use crate::json;
use crate::line::{Line, Source};

/// The agent of a stream of JSON that no dialect knows.
pub const UNKNOWN_AGENT: AgentId = AgentId("unknown");

/// Lines that say nothing for sure are held back up to this many, so that a banner does not hide the stream behind it.
const HELD_LINES: usize = 24;
/// … and up to this many bytes.
const HELD_BYTES: usize = 64 * 1024;
/// Where in a line the type of an event is looked for.
const TYPE_WITHIN: usize = 256;

/// The dialect that was found, and the lines it has not read yet.
pub(super) struct Choice {
    pub(super) agent: AgentId,
    pub(super) dialect: Box<dyn Dialect>,
    pub(super) held: Vec<Line<'static>>,
}

/// Looks at the first lines of a stream until one of them tells the dialect.
pub(super) struct Chooser {
    named: Option<&'static Agent>,
    /// Plain text is not among the candidates.
    structured: bool,
    held: Vec<Line<'static>>,
    held_bytes: usize,
    saw_json: bool,
    /// How many lines each candidate may have printed, in the order of the candidates.
    votes: Vec<u32>,
}

impl Chooser {
    pub(super) fn new(named: Option<&'static Agent>, structured: bool) -> Self {
        let structured = structured && named.is_some_and(|agent| agent.dialects.len() > 1);
        Self { named, structured, held: Vec::new(), held_bytes: 0, saw_json: false, votes: vec![0; candidates(named).count()] }
    }

    /// Takes the next line; the choice, once it is sure.
    pub(super) fn line(&mut self, line: &Line<'_>) -> Option<Choice> {
        self.held.push(line.clone().into_owned());
        self.held_bytes += line.text.len();
        if line.source == Source::Stderr || line.text.trim().is_empty() {
            return (self.held.len() >= HELD_LINES * 4).then(|| self.best());
        }
        self.saw_json |= looks_like_json(&line.text, self.named.is_some());
        let mut plausible = 0;
        for ((agent, entry), votes) in candidates(self.named).zip(&mut self.votes) {
            match (entry.detect)(&line.text) {
                Match::Yes => return Some(self.take(agent.id, entry)),
                Match::Maybe => {
                    *votes += 1;
                    plausible += 1;
                }
                Match::No => {}
            }
        }
        // Of one agent there is nothing more to find out when it has one dialect, or only one that prints such a line.
        let settled = self.named.is_some_and(|agent| {
            let dialects = agent.dialects.len() - usize::from(self.structured);
            dialects == 1 || plausible == 1
        });
        // An event that we do not know yet must not hold up a run that we watch live.
        let settled = settled || self.structured && self.saw_json;
        (settled || self.held.len() >= HELD_LINES || self.held_bytes >= HELD_BYTES).then(|| self.best())
    }

    /// The choice when there is nothing more to look at.
    pub(super) fn end(&mut self) -> Choice {
        self.best()
    }

    fn best(&mut self) -> Choice {
        let most = candidates(self.named).zip(&self.votes).filter(|(_, votes)| **votes > 0);
        // `max_by_key` would take the last of equals; the table's order says which to prefer.
        let most = most.reduce(|best, next| if next.1 > best.1 { next } else { best });
        if let Some(((agent, entry), _)) = most {
            return self.take(agent.id, entry);
        }
        match self.named {
            Some(agent) if self.saw_json || self.structured || self.held.is_empty() => {
                self.take(agent.id, agent.dialects.first().unwrap_or(&text::DIALECT))
            }
            Some(agent) => self.take(agent.id, agent.dialects.last().unwrap_or(&text::DIALECT)),
            None if self.saw_json => {
                Choice { agent: UNKNOWN_AGENT, dialect: Box::new(UnknownJson), held: std::mem::take(&mut self.held) }
            }
            None => self.take(localexec::AGENT.id, &text::DIALECT),
        }
    }

    fn take(&mut self, agent: AgentId, entry: &DialectEntry) -> Choice {
        Choice { agent, dialect: (entry.reader)(), held: std::mem::take(&mut self.held) }
    }
}

fn candidates(named: Option<&'static Agent>) -> impl Iterator<Item = (&'static Agent, &'static DialectEntry)> {
    let agents = named.map_or(ALL, std::slice::from_ref);
    agents.iter().flat_map(|agent| agent.dialects.iter().map(move |entry| (agent, entry)))
}

/// The answer of an agent that was asked for plain text may be JSON too; its events tell their type early.
fn looks_like_json(text: &str, typed: bool) -> bool {
    let text = text.trim_start().as_bytes();
    let head = &text[..text.len().min(TYPE_WITHIN)];
    matches!(head.first(), Some(b'{' | b'[')) && (!typed || memchr::memmem::find(head, b"\"type\"").is_some())
}

/// The agent that surely prints such a line, for telling a user who named another one.
pub fn guess(text: &str) -> Option<AgentId> {
    candidates(None).find(|(_, entry)| (entry.detect)(text) == Match::Yes).map(|(agent, _)| agent.id)
}

/// Reads a stream of JSON that no dialect knows: every line is kept.
struct UnknownJson;

impl Dialect for UnknownJson {
    fn line<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        if !line.text.trim().is_empty() {
            json::unrecognized(line, facts);
        }
    }

    fn end(&mut self, _: &End, _: &mut Facts<'static>) -> Verdict {
        Verdict::of(Outcome::Incomplete)
    }
}
