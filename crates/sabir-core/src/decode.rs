//! Facts to events: the laws that every stream obeys, whatever the agent prints.
//!
//! 1. Exactly one `started`, first; exactly one `exited`, last; `seq` is dense.
//! 2. Every `toolEnd` follows a `toolStart` of its id, and no two calls share an id; open calls are closed at the end.
//! 3. Turns are numbered and closed.
//! 4. The answer is held until the end, so that there is one.
//! 5. Nothing is lost: what no rule knows comes through as `unrecognized`.

mod detect;
mod infer;
mod outcome;
mod tools;

use std::borrow::Cow;
use std::sync::Arc;

use crate::agent::{Accounting, Agent, AgentId, DialectSpec, Form, Registry};
use crate::dialect::{Dialect, End, Fact, Facts, RecordingHeader};
use crate::event::{
    Activity, ChangeSource, Detection, ErrorEvent, Event, EventKind, FileChange, RunId, Started, Text, TextDelta, ThinkingDelta,
    ToolEnd, ToolKind, ToolStart, ToolStatus, ToolUpdate, TurnEnd, TurnStart, Usage,
};
use crate::line::{Line, Source};
use crate::time::Timestamp;

use detect::{Choice, Detector, Item, Step};
use tools::{Begun, Tools};

pub use detect::{TEXT_AGENT, UNKNOWN_AGENT};

/// Standard error and other lines for people are cut to this many characters.
pub const ACTIVITY_CHARACTERS: usize = 240;

/// What is known about a run before its first line.
#[derive(Debug, Clone)]
pub struct Start {
    /// Identifier of the run, carried by every event.
    pub run_id: RunId,
    /// The agent, or `None` to detect it from the stream.
    pub agent: Option<Arc<Agent>>,
    /// The agents among which to detect.
    pub registry: Registry,
    /// The dialect, or `None` to detect it from the stream.
    pub dialect: Option<DialectSpec>,
    /// The agent's version, if known.
    pub agent_version: Option<String>,
    /// When the run started.
    pub at: Option<Timestamp>,
    /// The agent was asked for more than plain text, so plain text is not its answer.
    pub structured: bool,
    /// The run resumes an earlier session, so that totals may begin with what was used before.
    pub resumed: bool,
}

impl Start {
    /// A run of that agent, in any of its dialects.
    pub fn of(agent: Arc<Agent>) -> Self {
        Self { agent: Some(agent), ..Self::detect(Registry::default()) }
    }

    /// A session log of that agent; `None` if Sabir reads none.
    pub fn log(agent: Arc<Agent>) -> Option<Self> {
        let dialect = agent.log.as_ref()?.dialect.clone();
        Some(Self { dialect: Some(dialect), ..Self::of(agent) })
    }

    /// A run of one of these agents, which the stream tells.
    pub fn detect(registry: Registry) -> Self {
        Self {
            run_id: RunId::from("run"),
            agent: None,
            registry,
            dialect: None,
            agent_version: None,
            at: None,
            structured: false,
            resumed: false,
        }
    }
}

/// Turns the lines of one run into its events.
pub struct Decoder {
    run_id: RunId,
    seq: u64,
    agent_version: Option<String>,
    started_at: Option<Timestamp>,
    has_started: bool,
    /// The agent, if it was given.
    named: Option<RecordingHeader>,
    resumed: bool,
    reader: Reader,
    form: Option<Form>,
    spare: Facts<'static>,
    tools: Tools,
    turn: u32,
    turn_open: bool,
    session: Option<EventKind<'static>>,
    /// The changes that were inferred from the last call that ended.
    inferred: Vec<EventKind<'static>>,
    answer: Option<Fact<'static>>,
    answer_line: Option<u64>,
}

enum Reader {
    /// The dialect reads the lines as they come.
    Reading(Box<dyn Dialect>),
    /// The dialect is not known for sure yet, or does not read the lines as they come.
    Detecting { detector: Box<Detector>, dialect: Option<Box<dyn Dialect>> },
}

/// What the `started` event of an agent says. The default accounting is that of the vocabulary and goes without saying.
fn header(agent: &AgentId, accounting: Accounting, detection: Option<Detection>) -> RecordingHeader {
    let accounting = Some(accounting).filter(|accounting| *accounting != Accounting::default());
    RecordingHeader { agent: agent.to_string(), agent_version: None, detection, accounting, at: None }
}

/// Where a fact comes from: line number and time of reading.
#[derive(Clone, Copy)]
struct Origin {
    line: Option<u64>,
    at: Option<Timestamp>,
}

impl Decoder {
    /// A decoder for one run.
    pub fn new(start: Start) -> Self {
        Self {
            run_id: start.run_id,
            seq: 0,
            agent_version: start.agent_version,
            started_at: start.at,
            has_started: false,
            named: start.agent.as_ref().map(|agent| header(&agent.id, agent.accounting, None)),
            resumed: start.resumed,
            form: start.dialect.as_ref().map(|dialect| dialect.form),
            reader: match (&start.agent, start.dialect) {
                (Some(_), Some(dialect)) => Reader::Reading(dialect.create()),
                _ => {
                    let detector = Box::new(Detector::new(start.agent, &start.registry, start.structured));
                    Reader::Detecting { detector, dialect: None }
                }
            },
            spare: Facts::default(),
            tools: Tools::default(),
            turn: 0,
            turn_open: false,
            session: None,
            inferred: Vec::new(),
            answer: None,
            answer_line: None,
        }
    }

    /// Says that the run has started, where its agent is known: a live stream need not wait for the first line.
    pub fn begin(&mut self, events: &mut Vec<Event<'_>>) {
        if let Some(header) = self.named.clone() {
            self.started(header, events);
        }
    }

    /// Reads the next line and appends its events. [`Event::recycle`] lets the list be used for the next line.
    pub fn line<'a>(&mut self, line: &Line<'a>, events: &mut Vec<Event<'a>>) {
        match &mut self.reader {
            Reader::Reading(_) => self.read(line, events),
            // What is meant for people tells nothing about the dialect, so it need not wait for one.
            Reader::Detecting { dialect, .. } if line.source == Source::Stderr && (self.named.is_some() || dialect.is_some()) => {
                self.begin(events);
                self.read(line, events);
            }
            Reader::Detecting { detector, .. } => {
                let step = detector.line(line);
                self.step(step, events);
            }
        }
    }

    /// Whether the agent has said that the run is over; `None` when it has no sign for that, or said nothing yet.
    pub fn over(&self) -> Option<bool> {
        match &self.reader {
            Reader::Reading(dialect) => dialect.over(),
            Reader::Detecting { dialect, .. } => dialect.as_ref()?.over(),
        }
    }

    /// What the output consists of, once its dialect was chosen.
    pub fn form(&self) -> Option<Form> {
        self.form
    }

    /// How many tool calls began so far, and which of them is the oldest that is still open (1 for the first).
    pub fn tool_calls(&self) -> (u64, Option<u64>) {
        (self.tools.begun(), self.tools.oldest())
    }

    /// Ends the run and appends its last events.
    pub fn end(&mut self, end: &End, events: &mut Vec<Event<'static>>) {
        if let Reader::Detecting { detector, .. } = &mut self.reader {
            let step = detector.end();
            self.step(step, events);
        }
        let Reader::Reading(dialect) = &mut self.reader else { return };
        let mut facts = Facts::default();
        let mut verdict = dialect.end(end, &mut facts);
        let recorded = verdict.recorded.take().filter(|_| *end == End::default());
        let end = recorded.as_ref().unwrap_or(end);
        let origin = Origin { line: None, at: end.at };
        for fact in facts.drain() {
            self.accept(fact, origin, events);
        }
        if let Some(failure) = &end.start_failed {
            let error = ErrorEvent::new(failure.message.clone()).class(failure.cause).fatal(true);
            self.push(Fact::new(error), origin, events);
        }
        for tool in self.tools.close_all() {
            let end = Fact::new(ToolEnd::new(tool.public_id, ToolStatus::Unfinished));
            self.push(Fact { parent: tool.parent.map(Cow::Owned), ..end }, origin, events);
        }
        self.close_turn(None, origin, events);
        if let Some(answer) = self.answer.take() {
            self.push(answer, Origin { line: self.answer_line, ..origin }, events);
        }
        self.push(Fact::new(outcome::exited(verdict, end)), origin, events);
    }

    /// Reads what the detector handed out.
    fn step(&mut self, step: Step, events: &mut Vec<Event<'_>>) {
        let Step { choice, items, direct } = step;
        if let Some(choice) = choice {
            self.choose(choice, &items, events);
        }
        for item in items {
            let mut own = Vec::new();
            match item {
                Item::Line(line) => self.read(&line, &mut own),
                Item::TooLong { line, bytes } => {
                    let message = format!("a JSON value of {bytes} bytes over several lines is too large to be read");
                    self.push(Fact::new(ErrorEvent::new(message)), Origin { line: Some(line), at: None }, &mut own);
                }
            }
            for event in own {
                events.push(event.into_owned());
            }
        }
        if direct
            && let Reader::Detecting { dialect, .. } = &mut self.reader
            && let Some(dialect) = dialect.take()
        {
            self.reader = Reader::Reading(dialect);
        }
    }

    fn choose(&mut self, choice: Choice, items: &[Item], events: &mut Vec<Event<'_>>) {
        let mut chosen = choice.dialect.create();
        self.form = Some(choice.dialect.form);
        if self.resumed {
            chosen.resumed();
        }
        let recorded = items.iter().find_map(|item| match item {
            Item::Line(line) => chosen.recording_header(&line.text),
            Item::TooLong { .. } => None,
        });
        if let Reader::Detecting { dialect, .. } = &mut self.reader {
            *dialect = Some(chosen);
        }
        if self.has_started && self.named.is_none() {
            let change = Activity::new(format!("what follows is of {}", choice.agent));
            self.push(Fact::new(change), Origin { line: None, at: None }, events);
        }
        let Choice { agent, accounting, detection, .. } = choice;
        self.started(recorded.unwrap_or_else(|| header(&agent, accounting, detection)), events);
    }

    fn started(&mut self, header: RecordingHeader, events: &mut Vec<Event<'_>>) {
        if std::mem::replace(&mut self.has_started, true) {
            return;
        }
        let RecordingHeader { agent, agent_version, detection, accounting, at } = header;
        let agent_version = self.agent_version.take().or(agent_version);
        let started = Started::new(agent).agent_version(agent_version).detection(detection).accounting(accounting);
        let origin = Origin { line: None, at: self.started_at.or(at) };
        self.push(Fact::new(started), origin, events);
    }

    fn read<'a>(&mut self, line: &Line<'a>, events: &mut Vec<Event<'a>>) {
        let mut facts = std::mem::take(&mut self.spare).recycle();
        let origin = Origin { line: Some(line.number), at: line.at };
        match (&mut self.reader, line.source) {
            (Reader::Reading(dialect) | Reader::Detecting { dialect: Some(dialect), .. }, Source::Stdout) => {
                dialect.line(line, &mut facts);
            }
            // Line numbers are those of standard output, so lines for people have none.
            (_, Source::Stderr) => facts.push(Activity::new(line.text.clone())),
            (Reader::Detecting { dialect: None, .. }, Source::Stdout) => {}
        }
        let origin = if line.source == Source::Stderr { Origin { line: None, ..origin } } else { origin };
        for fact in facts.drain() {
            self.accept(fact, origin, events);
        }
        self.spare = facts.recycle();
    }

    /// Keeps the laws: most facts pass as they are, some are mended, held or paired first.
    fn accept<'a>(&mut self, mut fact: Fact<'a>, origin: Origin, events: &mut Vec<Event<'a>>) {
        // A recording has what was inferred when it was made, and it was just inferred again.
        if matches!(fact.kind, EventKind::FileChange(FileChange { source: ChangeSource::Inferred, .. }))
            && self.inferred.contains(&fact.kind)
        {
            return;
        }
        match &mut fact.kind {
            EventKind::Started(_) | EventKind::Exited(_) => {}
            EventKind::Text(TextDelta { delta, .. }) | EventKind::Thinking(ThinkingDelta { delta, .. }) if delta.is_empty() => {}
            EventKind::Final(_) => {
                self.answer = Some(fact.into_owned());
                self.answer_line = origin.line;
            }
            EventKind::Session(_) => {
                let session = fact.kind.clone().into_owned();
                if self.session.as_ref() != Some(&session) || fact.parent.is_some() {
                    self.session = Some(session);
                    self.push(fact, origin, events);
                }
            }
            EventKind::TurnStart(_) => {
                self.close_turn(None, origin, events);
                self.open_turn(fact.at, origin, events);
            }
            EventKind::TurnEnd(TurnEnd { stop_reason, .. }) => {
                let stop_reason = stop_reason.take();
                if !self.turn_open {
                    self.open_turn(fact.at, origin, events);
                }
                self.close_turn(stop_reason, Origin { at: fact.at.or(origin.at), ..origin }, events);
            }
            EventKind::ToolStart(_) => self.tool_start(fact, origin, events),
            EventKind::ToolUpdate(_) => self.tool_update(fact, origin, events),
            EventKind::ToolEnd(_) => self.tool_end(fact, origin, events),
            EventKind::FileChange(FileChange { tool_call_id: Some(id), .. }) => {
                *id = Cow::Owned(self.tools.reported_change(id));
                self.push(fact, origin, events);
            }
            EventKind::Activity(Activity { message, .. }) => {
                if let Some(line) = activity_line(message) {
                    fact.kind = Activity::new(line).into();
                    self.push(fact, origin, events);
                }
            }
            EventKind::Usage(Usage {
                input_tokens, output_tokens, total_tokens, cache_read_tokens, cache_write_tokens, ..
            }) => {
                // The classes are what is added up and billed; a total beside them cannot say anything else.
                if input_tokens.is_some() && output_tokens.is_some() {
                    let classes = [*input_tokens, *output_tokens, *cache_read_tokens, *cache_write_tokens];
                    *total_tokens = Some(classes.into_iter().flatten().fold(0, u64::saturating_add));
                }
                self.push(fact, origin, events);
            }
            _ => self.push(fact, origin, events),
        }
    }

    fn tool_start<'a>(&mut self, fact: Fact<'a>, origin: Origin, events: &mut Vec<Event<'a>>) {
        let EventKind::ToolStart(start) = fact.kind else { return };
        let at = fact.at.or(origin.at);
        let begun = self.tools.begin(&start.tool_call_id, start.tool_kind, start.input.as_deref(), at, fact.parent.as_deref());
        let kind = match begun {
            Begun::New => start.into(),
            Begun::Renamed(id) => start.tool_call_id(id).into(),
            // The complete copy of a call that was announced: only its arguments may be news.
            Begun::Open { news: true } => ToolUpdate::new(start.tool_call_id).input(start.input).into(),
            Begun::Open { news: false } => return,
        };
        self.push(Fact { at: fact.at, parent: fact.parent, kind }, origin, events);
    }

    fn tool_update<'a>(&mut self, mut fact: Fact<'a>, origin: Origin, events: &mut Vec<Event<'a>>) {
        if let EventKind::ToolUpdate(ToolUpdate { tool_call_id, input, output_delta, .. }) = &mut fact.kind {
            if output_delta.as_ref().is_some_and(Text::is_empty) {
                *output_delta = None;
            }
            let news = input.as_deref().is_some_and(|input| self.tools.input(tool_call_id, input));
            if !news {
                *input = None;
            }
            if input.is_none() && output_delta.is_none() {
                return;
            }
            let id = tool_call_id.clone();
            *tool_call_id = self.known_tool(id, fact.at, fact.parent.as_ref(), origin, events);
        }
        self.push(fact, origin, events);
    }

    fn tool_end<'a>(&mut self, mut fact: Fact<'a>, origin: Origin, events: &mut Vec<Event<'a>>) {
        let EventKind::ToolEnd(ToolEnd { tool_call_id, ok, output, status, duration_ms, .. }) = &mut fact.kind else { return };
        *ok = *status == ToolStatus::Ok;
        let succeeded = *ok;
        if self.tools.is_closed(tool_call_id) {
            // A second end: what it says more is kept, the first end stays the end.
            if let Some(output) = output.take() {
                let kind = ToolUpdate::new(tool_call_id.clone()).output_delta(output).into();
                self.push(Fact { at: fact.at, parent: fact.parent, kind }, origin, events);
            }
            return;
        }
        let id = tool_call_id.clone();
        *tool_call_id = self.known_tool(id.clone(), fact.at, fact.parent.as_ref(), origin, events);
        let Some(tool) = self.tools.end(&id) else { return };
        let ended_at = fact.at.or(origin.at);
        if duration_ms.is_none() {
            *duration_ms = tool.started_at.zip(ended_at).and_then(|(start, end)| end.millis_since(start));
        }
        let (at, parent) = (fact.at, fact.parent.clone());
        self.push(fact, origin, events);
        self.inferred.clear();
        if succeeded && !tool.change_reported {
            for kind in infer::file_changes(&tool) {
                self.inferred.push(kind.clone());
                self.push(Fact { at, parent: parent.clone(), kind }, origin, events);
            }
        }
    }

    /// The id that events use for a call; begins the call when the agent never said that it began.
    fn known_tool<'a>(
        &mut self,
        id: Cow<'a, str>,
        at: Option<Timestamp>,
        parent: Option<&Cow<'a, str>>,
        origin: Origin,
        events: &mut Vec<Event<'a>>,
    ) -> Cow<'a, str> {
        if let Some(renamed) = self.tools.public_id(&id) {
            return if renamed == id { id } else { Cow::Owned(renamed.to_owned()) };
        }
        if !self.tools.is_closed(&id) {
            let kind = ToolStart::of_kind(ToolKind::Other, id.clone(), "unknown").into();
            self.tool_start(Fact { at, parent: parent.cloned(), kind }, origin, events);
        }
        id
    }

    fn open_turn(&mut self, at: Option<Timestamp>, origin: Origin, events: &mut Vec<Event<'_>>) {
        self.turn = self.turn.saturating_add(1);
        self.turn_open = true;
        self.push(Fact { at, parent: None, kind: TurnStart::new(self.turn).into() }, origin, events);
    }

    fn close_turn<'a>(&mut self, stop_reason: Option<Cow<'a, str>>, origin: Origin, events: &mut Vec<Event<'a>>) {
        if std::mem::take(&mut self.turn_open) {
            self.push(Fact::new(TurnEnd::new(self.turn).stop_reason(stop_reason)), origin, events);
        }
    }

    fn push<'a>(&mut self, fact: Fact<'a>, origin: Origin, events: &mut Vec<Event<'a>>) {
        self.seq += 1;
        events.push(Event {
            run_id: self.run_id.clone(),
            seq: self.seq,
            at: fact.at.or(origin.at),
            line: origin.line,
            parent_tool_call_id: fact.parent,
            kind: fact.kind,
        });
    }
}

/// The first line of a text that is not blank, cut to what people read at a glance.
fn activity_line<'a>(message: &Cow<'a, str>) -> Option<Cow<'a, str>> {
    fn cut(text: &str) -> Option<&str> {
        let line = text.lines().map(str::trim_end).find(|line| !line.trim().is_empty())?;
        let end = line.char_indices().nth(ACTIVITY_CHARACTERS).map_or(line.len(), |(index, _)| index);
        Some(&line[..end])
    }
    match message {
        Cow::Borrowed(text) => cut(text).map(Cow::Borrowed),
        Cow::Owned(text) => cut(text).map(|line| Cow::Owned(line.to_owned())),
    }
}
