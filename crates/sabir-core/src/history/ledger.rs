//! What a log says in short.

use std::borrow::Cow;

use super::OpenResponse;
use crate::event::{EventKind, Outcome, Usage, UsageScope};
use crate::time::Timestamp;

/// The account of one file of a history, as far as it was read.
///
/// It is plain data: encoded and kept in an index, it goes on where it was when the file has grown.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ledger {
    /// The agent's id of the session.
    pub session: Option<String>,
    /// The session that started this one as a sub-agent.
    pub parent: Option<String>,
    /// The working folder.
    pub cwd: Option<String>,
    /// The agent's version.
    pub version: Option<String>,
    /// The first prompt, its first line.
    pub title: Option<String>,
    /// The first moment that a line tells, in milliseconds since 1970.
    pub first: Option<i64>,
    /// The last one.
    pub last: Option<i64>,
    /// How the session stands after the lines so far.
    pub outcome: Option<Outcome>,
    /// Every response of a model, once.
    pub responses: Vec<Response>,
    /// Names of the models that [`Response::model`] counts by.
    pub models: Vec<String>,
    /// What the agent itself says that the session has spent, by model: more than the responses when some of them never
    /// got into the log.
    pub claimed: Vec<(u16, Spent)>,
    /// Lines that are not what the agent writes: torn, not JSON.
    pub bad_lines: u64,
    /// The model of the responses to come, where lines before them tell it.
    pub model: Option<u16>,
    /// The sum so far, where the agent tells only sums.
    pub sum: Spent,
    /// The last response was told by a line of its own; a sum that comes after it tells it again.
    pub recorded: bool,
    /// Tool calls whose response is not told, or not yet.
    pub calls: u32,
    /// When each thread began whose lines are in this log, and its number: the log's own first, then the one it begins
    /// with a copy of, then the one that that begins with a copy of.
    pub threads: Vec<(i64, u64)>,
    /// The number of the thread that the lines to come belong to.
    pub owner: u64,
    /// The number of the step to come, where a message has several; 0 in a message of the user.
    pub step: u64,
    /// Lines of their own tell the responses, so that figures in other lines repeat them.
    pub itemized: bool,
    /// The responses that lines to come may continue: of the main agent, and of a sub-agent.
    pub open: [OpenResponse; 2],
    /// The last tool calls, so that one that is told again is not counted again.
    pub recent_calls: Vec<u64>,
}

/// One response of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Response {
    /// Made of the id that the agent gives it ([`id_of`]).
    pub id: u64,
    /// When, in milliseconds since 1970; 0 where it is not known.
    pub at: i64,
    /// An index into [`Ledger::models`].
    pub model: u16,
    /// The number of tool calls in it.
    pub calls: u32,
    /// Its tokens.
    pub spent: Spent,
    /// Its cost, where the log says something about it; else the price table may know.
    pub cost: Option<Paid>,
    /// The log says that it is another session's, and is here because this one was spawned or forked from that.
    pub copied: bool,
}

/// What a log says of a cost, in US dollars.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Paid {
    /// The agent's figure.
    Reported(f64),
    /// The price table's, from when the run was: it saw the single requests.
    Computed(f64),
    /// No table can tell it: there is only a total, which stands as input.
    Unknown,
}

/// Tokens in the classes of the vocabulary: the first four are disjoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Input that was neither read from nor written to the cache.
    pub input: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// Input written to the cache.
    pub cache_write: u64,
    /// Output, reasoning included.
    pub output: u64,
    /// The part of `cache_write` that is kept for an hour.
    pub cache_write_1h: u64,
    /// The part of `output` that was reasoning.
    pub reasoning: u64,
}

impl Spent {
    /// All tokens.
    pub fn total(&self) -> u64 {
        [self.input, self.cache_read, self.cache_write, self.output].into_iter().fold(0, u64::saturating_add)
    }

    /// All input.
    pub fn whole_input(&self) -> u64 {
        [self.input, self.cache_read, self.cache_write].into_iter().fold(0, u64::saturating_add)
    }

    /// Whether no part is larger than what it is a part of.
    pub fn is_sound(&self) -> bool {
        self.cache_write_1h <= self.cache_write
    }

    /// Adds.
    pub fn add(&mut self, other: &Self) {
        *self = self.with(other, u64::saturating_add);
    }

    /// What is more here than there.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    /// The event that tells them, of one response. Classes that few agents count are left out when there is nothing in
    /// them.
    pub fn event<'a>(&self, model: Option<Cow<'a, str>>) -> Usage<'a> {
        let some = |count: u64| Some(count).filter(|count| *count > 0);
        Usage::new(UsageScope::Message)
            .input_tokens(self.input)
            .output_tokens(self.output)
            .cache_read_tokens(self.cache_read)
            .cache_write_tokens(some(self.cache_write))
            .cache_write_1h_tokens(some(self.cache_write_1h))
            .reasoning_tokens(some(self.reasoning))
            .model(model)
    }

    /// The figures that an event tells; `None` when it tells none.
    pub fn of_event(kind: &EventKind<'_>) -> Option<Self> {
        let EventKind::Usage(Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens,
            cache_write_tokens,
            cache_write_1h_tokens,
            reasoning_tokens,
            ..
        }) = kind
        else {
            return None;
        };
        Some(Self {
            input: input_tokens.unwrap_or(0),
            cache_read: cache_read_tokens.unwrap_or(0),
            cache_write: cache_write_tokens.unwrap_or(0),
            output: output_tokens.unwrap_or(0),
            cache_write_1h: cache_write_1h_tokens.unwrap_or(0),
            reasoning: reasoning_tokens.unwrap_or(0),
        })
    }

    fn with(&self, other: &Self, join: fn(u64, u64) -> u64) -> Self {
        Self {
            input: join(self.input, other.input),
            cache_read: join(self.cache_read, other.cache_read),
            cache_write: join(self.cache_write, other.cache_write),
            output: join(self.output, other.output),
            cache_write_1h: join(self.cache_write_1h, other.cache_write_1h),
            reasoning: join(self.reasoning, other.reasoning),
        }
    }
}

impl Response {
    /// The same for every copy of the response, in whatever file and however far it was written there: what went in is
    /// the same. Some services give many responses the same id; what went in tells those apart.
    pub fn key(&self) -> u64 {
        let Spent { input, cache_read, cache_write, .. } = self.spent;
        id_with(self.id, [input, cache_read, cache_write])
    }
}

/// How far back a response is looked for that comes again. Between its pieces are the results of its tool calls.
const WINDOW: usize = 64;
/// Titles are cut to this many characters.
const TITLE: usize = 120;

impl Ledger {
    /// Takes note of a moment.
    pub fn saw(&mut self, at: Option<i64>) {
        if let Some(at) = at {
            self.first = Some(self.first.map_or(at, |first| first.min(at)));
            self.last = Some(self.last.map_or(at, |last| last.max(at)));
        }
    }

    /// The number of that model.
    pub fn model_number(&mut self, name: &str) -> u16 {
        self.known_model(name.as_bytes()).unwrap_or_else(|| {
            self.models.push(name.to_owned());
            u16::try_from(self.models.len() - 1).unwrap_or(u16::MAX)
        })
    }

    /// The number of that model, if it has one. Nearly every response is of a model that has, and then its name need not be
    /// read as text.
    pub fn known_model(&self, name: &[u8]) -> Option<u16> {
        let number = self.models.iter().position(|model| model.as_bytes() == name)?;
        Some(u16::try_from(number).unwrap_or(u16::MAX))
    }

    /// Takes note of a response, or of more of one that was noted: the copy with the larger output is the later one, and a
    /// response was when it was whole. One without a time was when the line before it was.
    pub fn respond(&mut self, new: Response) {
        self.respond_to(new.id, new);
    }

    /// The same for a response that was noted with another id, and has that of `new` from here on.
    pub fn respond_to(&mut self, was: u64, mut new: Response) {
        if new.at == 0 {
            new.at = self.last.unwrap_or(0);
        }
        match self.noted(was) {
            None => self.responses.push(new),
            Some(old) => {
                let (id, calls) = (new.id, old.calls.saturating_add(new.calls));
                if new.spent.output > old.spent.output {
                    *old = new;
                }
                (old.id, old.calls) = (id, calls);
            }
        }
    }

    /// Replaces what was noted of a response, for agents that write it again as it grows.
    pub fn rewrite(&mut self, new: Response) {
        match self.noted(new.id) {
            Some(old) => *old = new,
            None => self.responses.push(new),
        }
    }

    /// One of the last responses, by its id.
    pub fn noted(&mut self, id: u64) -> Option<&mut Response> {
        let start = self.responses.len().saturating_sub(WINDOW);
        self.responses[start..].iter_mut().rev().find(|old| old.id == id)
    }

    /// Whether the call of that id was not seen before.
    pub fn is_new_call(&mut self, id: impl AsRef<[u8]>) -> bool {
        self.is_new_number(id_of(id))
    }

    /// The same where calls of other responses may have the same id.
    pub fn is_new_call_of(&mut self, response: u64, id: impl AsRef<[u8]>) -> bool {
        self.is_new_number(id_with(id_of(id), [response]))
    }

    fn is_new_number(&mut self, id: u64) -> bool {
        let new = !self.recent_calls.contains(&id);
        if new {
            if self.recent_calls.len() >= WINDOW {
                self.recent_calls.remove(0);
            }
            self.recent_calls.push(id);
        }
        new
    }

    /// Forgets the tool calls so far: those to come are new, whatever their ids.
    pub fn forget_calls(&mut self) {
        self.recent_calls.clear();
    }

    /// Takes the first prompt for a title.
    pub fn entitle(&mut self, prompt: &str) {
        let line = prompt.trim().lines().next().unwrap_or_default();
        if self.title.is_none() && !line.is_empty() {
            let end = line.char_indices().nth(TITLE).map_or(line.len(), |(at, _)| at);
            self.title = Some([&line[..end], if end < line.len() { "…" } else { "" }].concat());
        }
    }

    /// All tokens of the responses.
    pub fn spent(&self) -> Spent {
        let mut sum = Spent::default();
        self.responses.iter().for_each(|response| sum.add(&response.spent));
        sum
    }
}

/// A number made of an agent's id. It is kept on disk, so it stays the same in all versions.
#[allow(clippy::cast_possible_truncation, reason = "that takes the lower half")]
pub fn id_of(id: impl AsRef<[u8]>) -> u64 {
    let id = id.as_ref();
    let (words, rest) = id.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    words.fold(id.len() as u64, |id, word| {
        // Ids are often numbers that follow one another: what differs in a few digits must differ everywhere. Both halves
        // of the whole product do.
        let product = u128::from(id ^ word ^ SPREAD) * u128::from(SPREAD);
        product as u64 ^ (product >> 64) as u64
    })
}

/// A number made of another one and of figures, as lasting as [`id_of`].
pub fn id_with(id: u64, figures: impl IntoIterator<Item = u64>) -> u64 {
    // Unlike that of `id_of`, this can be undone.
    let spread = |id: u64| fold_down(id.wrapping_mul(SPREAD));
    figures.into_iter().fold(id, |id, figure| spread(spread(id ^ figure)))
}

/// Odd, and as even a mixture of bits as there is.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Undoes the multiplication by it.
const GATHER: u64 = 0xf1de_83e1_9937_733d;

/// Mixes the upper half, where products differ, into the lower one. Done again, it is undone.
fn fold_down(number: u64) -> u64 {
    number ^ number >> 32
}

/// The id of the response with that key, of which that went in.
pub fn id_of_key(key: u64, spent: &Spent) -> u64 {
    let gathered = |id: u64| fold_down(id).wrapping_mul(GATHER);
    let figures = [spent.cache_write, spent.cache_read, spent.input];
    figures.into_iter().fold(key, |id, figure| gathered(gathered(id)) ^ figure)
}

/// The milliseconds since 1970 of a time in RFC 3339.
pub fn time_of(text: &str) -> Option<i64> {
    Timestamp::millis_of(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{Ledger, Response, Spent, id_of, id_with};

    fn response(id: &str, output: u64) -> Response {
        let spent = Spent { input: 5, output, ..Spent::default() };
        Response { copied: false, id: id_of(id), at: 0, model: 0, calls: 1, spent, cost: None }
    }

    #[test]
    fn a_response_in_pieces_is_one() {
        let mut ledger = Ledger::default();
        [response("a", 1), response("b", 7), response("a", 9), response("a", 2)].into_iter().for_each(|new| ledger.respond(new));
        assert_eq!(ledger.responses.len(), 2);
        assert_eq!((ledger.responses[0].spent.output, ledger.responses[0].calls), (9, 3));
        assert_eq!(ledger.spent().total(), 9 + 7 + 2 * 5);
        assert_eq!(response("a", 1).key(), response("a", 9).key());
        assert_ne!(response("a", 1).key(), response("b", 1).key());
    }

    #[test]
    fn a_response_is_when_it_was_whole_or_when_the_line_before_it_was() {
        let mut ledger = Ledger::default();
        ledger.saw(Some(1_000));
        ledger.respond(response("a", 1));
        ledger.respond(Response { at: 2_000, ..response("a", 9) });
        ledger.respond(Response { at: 3_000, ..response("a", 9) });
        ledger.respond(response("b", 9));
        let times: Vec<i64> = ledger.responses.iter().map(|response| response.at).collect();
        assert_eq!((times, ledger.responses[0].spent.output), (vec![2_000, 1_000], 9));
    }

    #[test]
    fn ids_that_follow_one_another_are_told_apart() {
        use std::collections::BTreeSet;
        // Wherever the digits are: what one word of eight bytes says must not be taken back by the next one.
        for before in 0..16 {
            let id = |number: u32| id_of(format!("{}{number:06}", "m".repeat(before)));
            assert_eq!((0..50_000).map(id).collect::<BTreeSet<_>>().len(), 50_000, "behind {before}");
        }
        let of_figures = (0..100).flat_map(|one| (0..100).map(move |other| id_with(7, [one, other, 0])));
        assert_eq!(of_figures.collect::<BTreeSet<_>>().len(), 10_000);
    }

    #[test]
    fn a_call_is_new_once() {
        let mut ledger = Ledger::default();
        assert!(ledger.is_new_call("a") && ledger.is_new_call("b") && !ledger.is_new_call("a"));
    }

    #[test]
    fn titles_are_one_short_line() {
        let mut ledger = Ledger::default();
        ledger.entitle("  \n ");
        ledger.entitle(&format!("\n{}\nmore", "é".repeat(500)));
        ledger.entitle("second");
        assert_eq!(ledger.title, Some("é".repeat(120) + "…"), "what was cut is marked");
    }
}
