//! Detects the dialect of a stream from its lines.
//!
//! ```text
//! undecided ──► decided       a line that only one dialect prints
//!           ──► decided       24 lines that several dialects print: the most likely one, as a guess
//!           ──► provisional   1 MiB of other lines: they are read as text until a line of a JSON dialect follows
//! ```
//!
//! Until then lines are held. A dialect of text gets them as they came, one of JSON with values of several lines joined.

use std::borrow::Cow;
use std::sync::Arc;

use crate::agent::{Accounting, Agent, AgentId, Confidence, DialectSpec, Form, Registry};
use crate::dialect::{Dialect, End, Facts, Verdict, text};
use crate::event::{Detection, Outcome};
use crate::json::{self, Fit, Frame, Framed};
use crate::line::{Line, Source};
use crate::time::Timestamp;

/// Agent of a stream of JSON in no known dialect.
pub const UNKNOWN_AGENT: &str = "unknown";
/// Agent of a stream of text in no known dialect: any command.
pub const TEXT_AGENT: &str = "localexec";

/// So many lines that several dialects print decide for the most likely one, so that a live stream comes out.
const SHARED_LINES: u32 = 24;
/// So many bytes are held while no line tells of a dialect.
const HELD_BYTES: usize = 1024 * 1024;
/// So many lines are held of an agent that was asked for JSON: other lines are not its answer, however long they go on.
const HELD_LINES: usize = 24;
/// A better dialect than a provisional one is looked for in so many bytes.
const WATCHED_BYTES: u64 = 8 * 1024 * 1024;
/// So many bytes of one value that goes over several lines are held as they came.
const HELD_VALUE_BYTES: usize = Frame::DEFAULT_CAP;
/// What a held line takes beside its text.
const LINE_BYTES: usize = size_of::<Line<'_>>();
/// Where in a line the type of an event is looked for.
const TYPE_WITHIN: usize = 256;

/// A dialect to choose, or the chosen one.
#[derive(Clone)]
pub(super) struct Choice {
    pub(super) agent: AgentId,
    pub(super) accounting: Accounting,
    pub(super) dialect: DialectSpec,
    pub(super) detection: Option<Detection>,
}

impl Choice {
    fn of_agent(agent: &Agent) -> impl Iterator<Item = Self> {
        agent.dialects.iter().map(|dialect| Self::new(agent, dialect))
    }

    fn new(agent: &Agent, dialect: &DialectSpec) -> Self {
        Self { agent: agent.id.clone(), accounting: agent.accounting, dialect: dialect.clone(), detection: None }
    }

    /// The choice for a stream of no known agent.
    fn unknown(agent: &'static str, dialect: DialectSpec) -> Self {
        Self { agent: agent.into(), accounting: Accounting::default(), dialect, detection: None }
    }

    fn is_same_dialect(&self, other: &Self) -> bool {
        self.agent == other.agent && self.dialect.name == other.dialect.name
    }

    fn form(&self) -> Form {
        self.dialect.form
    }
}

/// What a dialect reads.
pub(super) enum Item {
    Line(Line<'static>),
    /// A value over several lines that is too large to be kept: one of its lines, and its size.
    TooLong {
        line: u64,
        bytes: u64,
    },
}

/// What a line leads to.
#[derive(Default)]
pub(super) struct Step {
    /// The dialect that reads from here on.
    pub(super) choice: Option<Choice>,
    /// What it, or the one before, reads now.
    pub(super) items: Vec<Item>,
    /// The lines that follow go to the dialect as they come.
    pub(super) direct: bool,
}

/// Chooses the dialect of a stream, and joins values that are printed over several lines.
pub(super) struct Detector {
    named: Option<Arc<Agent>>,
    /// The dialects to choose from, in order of preference.
    candidates: Vec<Choice>,
    /// Plain text is not among the candidates.
    structured: bool,
    phase: Phase,
    /// `None` for an agent that prints no JSON.
    frame: Option<Frame>,
    /// Lines that were not handed out, as they came …
    raw: Vec<Line<'static>>,
    /// … and with values joined.
    items: Vec<Item>,
    held_bytes: usize,
    /// Bytes of all lines.
    seen_bytes: u64,
    /// The lines of `raw` from here on are of a value whose end has not come.
    value: Option<usize>,
    /// Bytes of that value which are not in `raw` any more.
    dropped: u64,
    saw_json: bool,
    /// How many lines each candidate may have printed, in the order of the candidates.
    votes: Vec<u32>,
    /// How many lines any candidate may have printed.
    shared: u32,
}

#[derive(Clone)]
enum Phase {
    Undecided,
    /// This one reads, and a better one may be found.
    Provisional(Choice),
    /// The dialect is decided, and reads joined values.
    Joining,
}

impl Detector {
    /// Detects the dialect of `named`, or of any agent of the registry.
    pub(super) fn new(named: Option<Arc<Agent>>, registry: &Registry, structured: bool) -> Self {
        let structured = structured && named.as_ref().is_some_and(|agent| agent.dialects.len() > 1);
        let candidates: Vec<Choice> = match &named {
            Some(agent) => Choice::of_agent(agent).collect(),
            None => registry.iter().flat_map(|agent| Choice::of_agent(agent)).collect(),
        };
        let prints_json = candidates.iter().any(|candidate| candidate.form() == Form::Json);
        Self {
            named,
            votes: vec![0; candidates.len()],
            candidates,
            structured,
            phase: Phase::Undecided,
            frame: prints_json.then(Frame::default),
            raw: Vec::new(),
            items: Vec::new(),
            held_bytes: 0,
            seen_bytes: 0,
            value: None,
            dropped: 0,
            saw_json: false,
            shared: 0,
        }
    }

    /// Takes the next line.
    pub(super) fn line(&mut self, line: &Line<'_>) -> Step {
        let mut line = line.clone().into_owned();
        if line.number == 1 && line.text.starts_with('\u{feff}') {
            line.text.to_mut().remove(0);
        }
        self.held_bytes += line.text.len() + LINE_BYTES;
        self.seen_bytes += line.text.len() as u64;
        let mut joined = false;
        let found = if line.source == Source::Stderr {
            self.hold(line);
            None
        } else {
            self.stdout(line, &mut joined)
        };
        let in_value = self.frame.as_ref().is_some_and(|frame| !frame.is_empty());
        let waits = self.value.is_some();
        match (self.phase.clone(), found) {
            (phase @ (Phase::Undecided | Phase::Provisional(_)), Some(choice)) => {
                self.phase = Phase::Joining;
                let form = choice.form();
                let is_new = !matches!(phase, Phase::Provisional(current) if current.is_same_dialect(&choice));
                let direct = form == Form::Text || !(joined || in_value);
                Step { choice: Some(choice).filter(|_| is_new), items: self.hand_out(form), direct }
            }
            (Phase::Undecided, None) if self.is_full() && !waits => {
                let choice = self.provisional();
                self.phase = Phase::Provisional(choice.clone());
                Step { items: self.hand_out(choice.form()), choice: Some(choice), direct: false }
            }
            (Phase::Undecided, None) => Step::default(),
            // Text gets the lines of a value once it is whole, and nothing in it tells of a better dialect.
            (Phase::Provisional(current), None) if waits && current.form() == Form::Text => Step::default(),
            (Phase::Provisional(_) | Phase::Joining, _) if waits && self.items.is_empty() => Step::default(),
            (Phase::Provisional(choice), None) => {
                let direct = self.seen_bytes > WATCHED_BYTES && !in_value;
                Step { choice: None, items: self.hand_out(choice.form()), direct }
            }
            (Phase::Joining, _) => Step { items: self.hand_out(Form::Json), ..Step::default() },
        }
    }

    /// Hands out what is held at the end of the stream.
    pub(super) fn end(&mut self) -> Step {
        // An object that breaks off is known by its lines.
        let mut choice = None;
        for index in self.value.take().unwrap_or(self.raw.len())..self.raw.len() {
            if self.raw[index].source == Source::Stdout {
                let text = std::mem::take(&mut self.raw[index].text);
                choice = choice.or_else(|| self.inspect(&text));
                self.raw[index].text = text;
            }
        }
        let items = &mut self.items;
        if let Some(frame) = &mut self.frame {
            frame.finish(&mut |value| items.push(item(value, None, false)));
        }
        let form = match &self.phase {
            Phase::Undecided => choice.get_or_insert_with(|| self.most_likely()).form(),
            Phase::Provisional(current) => {
                choice = choice.filter(|choice| !choice.is_same_dialect(current));
                choice.as_ref().unwrap_or(current).form()
            }
            Phase::Joining => Form::Json,
        };
        Step { choice, items: self.hand_out(form), direct: true }
    }

    /// Holds a line, and those of its values that are whole; the choice that they lead to.
    fn stdout(&mut self, line: Line<'static>, joined: &mut bool) -> Option<Choice> {
        let mut found = None;
        let mut values = Vec::new();
        let mut take = |value: Framed<'_>| values.push(item(value, line.at, line.terminated));
        let mut read = |frame: &mut Frame| frame.line(line.number, &line.text, &mut take);
        let mut fit = self.frame.as_mut().map_or(Fit::Outside, &mut read);
        if fit == Fit::Broken {
            found = self.break_up();
            // The frame is empty now, so that the line is outside or opens a value itself.
            fit = self.frame.as_mut().map_or(Fit::Outside, &mut read);
        }
        if fit == Fit::Outside {
            let found = found.or_else(|| self.inspect(&line.text));
            self.hold(line);
            return found;
        }
        for value in &values {
            match value {
                Item::Line(value) if found.is_none() => {
                    found = self.inspect(&value.text);
                    *joined = found.is_some();
                }
                Item::Line(_) => {}
                Item::TooLong { .. } => self.saw_json = true,
            }
        }
        self.items.append(&mut values);
        self.raw.push(line);
        if self.frame.as_ref().is_some_and(Frame::is_open) {
            let first = *self.value.get_or_insert(self.raw.len() - 1);
            if self.held_bytes > HELD_VALUE_BYTES {
                // The first line stays, to tell where the value begins.
                self.dropped += self.raw.drain(first + 1..).map(|line| line.text.len() as u64).sum::<u64>();
                self.held_bytes = HELD_BYTES;
            }
        } else {
            (self.value, self.dropped) = (None, 0);
        }
        found
    }

    fn hold(&mut self, line: Line<'static>) {
        self.items.push(Item::Line(line.clone()));
        self.raw.push(line);
    }

    /// What looked like a value is none, so its lines are lines like others; the choice that they lead to.
    fn break_up(&mut self) -> Option<Choice> {
        let first = self.value.take().unwrap_or(self.raw.len());
        let mut choice = None;
        for index in first..self.raw.len() {
            if self.raw[index].source == Source::Stdout {
                let line = self.raw[index].clone();
                choice = choice.or_else(|| self.inspect(&line.text));
                self.items.push(Item::Line(line));
            }
        }
        if self.dropped > 0 {
            let line = self.raw.get(first).map_or(1, |line| line.number);
            self.items.push(Item::TooLong { line, bytes: std::mem::take(&mut self.dropped) });
        }
        choice
    }

    /// Looks for the dialects that may have printed a line or a value.
    fn inspect(&mut self, text: &str) -> Option<Choice> {
        if matches!(self.phase, Phase::Joining) || text.trim().is_empty() {
            return None;
        }
        self.saw_json |= looks_like_json(text, self.named.is_some());
        let (mut likely, mut plausible, mut count) = (None, None, 0);
        for (candidate, votes) in self.candidates.iter().zip(&mut self.votes) {
            match candidate.dialect.detect(text) {
                Confidence::Certain => return Some(candidate.clone()),
                Confidence::Likely if likely.is_none() => likely = Some(candidate),
                Confidence::Likely | Confidence::Possible => {
                    *votes += 1;
                    count += 1;
                    plausible = Some(candidate);
                }
                Confidence::None => {}
            }
        }
        if let Some(likely) = likely {
            return Some(self.guess(likely));
        }
        if let Some(named) = &self.named {
            // Only one dialect prints such a line. Text is the answer only if nothing better follows.
            if let Some(plausible) = plausible.filter(|candidate| count == 1 && candidate.form() == Form::Json) {
                return Some(self.guess(plausible));
            }
            // An event that we do not know yet must not hold up a run that is watched live.
            if self.structured && self.saw_json || self.frame.is_none() && self.has_one(named) {
                return Some(self.most_likely());
            }
        }
        self.shared += u32::from(count > 0);
        (matches!(self.phase, Phase::Undecided) && self.shared >= SHARED_LINES).then(|| self.most_likely())
    }

    /// Whether there is no dialect to choose from.
    fn has_one(&self, named: &Agent) -> bool {
        named.dialects.len() - usize::from(self.structured) == 1
    }

    /// Whether no more lines are held.
    fn is_full(&self) -> bool {
        let has_one = self.named.as_ref().is_some_and(|named| self.has_one(named));
        self.held_bytes >= HELD_BYTES || self.structured && (has_one || self.raw.len() >= HELD_LINES)
    }

    /// The choice when there is nothing more to look at.
    fn most_likely(&self) -> Choice {
        let most = self.candidates.iter().zip(&self.votes).filter(|(_, votes)| **votes > 0);
        // `max_by_key` would take the last of equals; the table's order says which to prefer.
        let most = most.reduce(|best, next| if next.1 > best.1 { next } else { best });
        if let Some((candidate, _)) = most {
            return self.guess(candidate);
        }
        match &self.named {
            Some(agent) => {
                let json = self.saw_json || self.structured || self.raw.is_empty();
                let dialect = if json { agent.dialects.first() } else { agent.dialects.last() };
                Choice::new(agent, dialect.unwrap_or(&text::dialect()))
            }
            None if self.saw_json => Choice::unknown(UNKNOWN_AGENT, unknown_json()),
            None => Choice::unknown(TEXT_AGENT, text::dialect()),
        }
    }

    /// The choice when no more can be held.
    fn provisional(&self) -> Choice {
        let choice = self.most_likely();
        match &self.named {
            // It was asked for JSON, so text that comes first is not the answer.
            Some(agent) if self.structured && choice.form() == Form::Text => {
                let json = agent.dialects.iter().find(|entry| entry.form == Form::Json);
                json.map_or(choice, |dialect| Choice::new(agent, dialect))
            }
            Some(_) => choice,
            None => Choice { detection: Some(Detection::Guess), ..choice },
        }
    }

    /// A choice that another line could have contradicted. Text is claimed by nobody, so it is no guess about an agent.
    fn guess(&self, candidate: &Choice) -> Choice {
        let is_guess = self.named.is_none() && candidate.form() == Form::Json;
        Choice { detection: is_guess.then_some(Detection::Guess), ..candidate.clone() }
    }

    /// Takes out what a dialect of that form can read. Lines of an open value stay for one of JSON.
    fn hand_out(&mut self, form: Form) -> Vec<Item> {
        let items = std::mem::take(&mut self.items);
        let open = self.value.filter(|_| form == Form::Json);
        let rest = self.raw.split_off(open.unwrap_or(self.raw.len()));
        let raw = std::mem::replace(&mut self.raw, rest);
        self.value = open.map(|_| 0);
        self.held_bytes = self.raw.iter().map(|line| line.text.len() + LINE_BYTES).sum();
        if form == Form::Text { raw.into_iter().map(Item::Line).collect() } else { items }
    }
}

/// A joined value as a line of the dialect.
fn item(value: Framed<'_>, at: Option<Timestamp>, terminated: bool) -> Item {
    let Framed { text, line, complete, cut } = value;
    if cut > 0 {
        return Item::TooLong { line, bytes: text.len() as u64 + cut };
    }
    let terminated = complete || terminated;
    Item::Line(Line { number: line, text: Cow::Owned(text.to_owned()), at, source: Source::Stdout, terminated })
}

/// The answer of an agent that was asked for plain text may be JSON too; its events tell their type early, or last where keys
/// are sorted.
fn looks_like_json(text: &str, typed: bool) -> bool {
    let text = text.trim_start();
    let head = &text.as_bytes()[..text.len().min(TYPE_WITHIN)];
    let is_typed = || memchr::memmem::find(head, b"\"type\"").is_some() || json::type_of(text).is_some();
    matches!(head.first(), Some(b'{' | b'[')) && (!typed || is_typed())
}

impl Registry {
    /// The agent that most likely prints such a line.
    pub fn detect_line(&self, line: &str) -> Option<&Arc<Agent>> {
        let prints = |agent: &&Arc<Agent>| agent.dialects.iter().any(|dialect| dialect.detect(line) >= Confidence::Likely);
        self.iter().find(prints)
    }
}

fn unknown_json() -> DialectSpec {
    DialectSpec::json("unknown", "JSON in no known dialect", |_| Confidence::None, || UnknownJson)
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
