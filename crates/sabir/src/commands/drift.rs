//! `sabir drift`: what is new in the output of an agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use sabir_core::agent::{Agent, Confidence};
use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::drift::{Drift, News, Shapes, redacted};
use sabir_core::event::{Event, EventKind, Session, Started, Unrecognized};
use sabir_core::json::{Fit, Frame};
use sabir_core::line::{LineBuffer, RawLine, Source};
use serde::Serialize;

use super::agents;
use crate::cli::DriftArguments;
use crate::commands::agents::registry;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::input::Input;
use crate::print::json::{Out, object};
use crate::print::{hint, note, table, warning};

/// One thing that is new.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    agent: String,
    version: Option<String>,
    /// `type` for lines that no rule knows, `field` for fields of those that one does.
    what: &'static str,
    name: String,
    count: u64,
    sample: String,
}

/// What is new of one agent in one version, by what and name.
type Found = BTreeMap<(String, Option<String>), BTreeMap<(&'static str, String), News>>;

pub(crate) fn run(arguments: &DriftArguments) -> Result<Exit, Failure> {
    let named = agents::find_or_auto(&arguments.agent)?;
    let mut found = Found::new();
    for path in &arguments.files {
        let input = Input::open(path, LineBuffer::DEFAULT_CAP)?;
        look(named, input, &mut found)?;
    }
    let rows: Vec<Row> = found
        .into_iter()
        .flat_map(|((agent, version), news)| {
            news.into_iter().map(move |((what, name), News { count, sample })| Row {
                agent: agent.clone(),
                version: version.clone(),
                what,
                name,
                count,
                sample,
            })
        })
        .collect();
    let exit = if rows.is_empty() { Exit::Completed } else { Exit::Failed };
    if arguments.json {
        let mut out = Out::default();
        object(&rows, out.buffer())?;
        out.write()?;
    } else if rows.is_empty() {
        note("nothing is new");
    } else {
        let cells = |row: &Row| {
            let version = row.version.clone().unwrap_or_else(|| "—".to_owned());
            vec![row.agent.clone(), version, row.what.to_owned(), row.count.to_string(), row.name.clone(), row.sample.clone()]
        };
        let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
        table::print(&["AGENT", "VERSION", "NEW", "COUNT", "NAME", "SAMPLE"], &rows)?;
    }
    Ok(exit)
}

/// Decodes a stream for its agent, version and unknown types, and compares its lines with the agent's shapes.
fn look(named: Option<&'static Arc<Agent>>, mut input: Input, found: &mut Found) -> Result<(), Failure> {
    let mut stream = Stream {
        decoder: Decoder::new(Start { agent: named.cloned(), ..Start::detect(registry().clone()) }),
        agent: None,
        version: None,
        is_guess: false,
        frame: Frame::default(),
        held: Vec::new(),
        drift: None,
        types: BTreeMap::new(),
    };
    loop {
        let more = input.fill()?;
        while let Some(line) = input.next_line() {
            stream.line(&line);
        }
        if !more {
            break;
        }
    }
    if let Some(line) = input.last_line() {
        stream.line(&line);
    }
    stream.end();
    let Stream { agent, version, is_guess, drift, types, .. } = stream;
    let agent = agent.unwrap_or_else(|| "unknown".to_owned());
    if is_guess {
        warning(&format!("the agent of {} is a guess: other agents print the same fields as {agent}", input.name));
        hint("name it with --agent");
    }
    if drift.as_ref().is_none_or(Drift::is_blank) && registry().find(&agent).is_some_and(|agent| agent.dialects.len() > 1) {
        warning(&format!("{}: the fields of {agent} here are not known, so only its event types are compared", input.name));
    }
    let unlisted = drift.as_ref().map_or(0, Drift::unlisted);
    if unlisted > 0 {
        warning(&format!("{}: too many fields are new to list them all; {unlisted} places are not counted", input.name));
    }
    let news = found.entry((agent, version)).or_default();
    let fields = drift.iter().flat_map(Drift::news).map(|(name, news)| (("field", name.clone()), news.clone()));
    let types = types.into_iter().map(|(name, news)| (("type", name), news));
    for (key, one) in fields.chain(types) {
        news.entry(key).and_modify(|known| known.count += one.count).or_insert(one);
    }
    Ok(())
}

struct Stream {
    decoder: Decoder,
    agent: Option<String>,
    version: Option<String>,
    /// Other agents may print such lines too.
    is_guess: bool,
    /// Joins values that are printed over several lines.
    frame: Frame,
    /// Lines that came before the agent was known.
    held: Vec<String>,
    drift: Option<Drift<'static>>,
    types: BTreeMap<String, News>,
}

impl Stream {
    fn line(&mut self, raw: &RawLine<'_>) {
        let line = raw.to_line(None, Source::Stdout);
        let Self { frame, drift, held, .. } = self;
        let mut compare = |text: &str| match drift {
            Some(drift) => drift.line(text),
            None => held.push(text.to_owned()),
        };
        // Lines that are no JSON have no fields.
        if frame.line(line.number, &line.text, &mut |value| compare(value.text)) != Fit::Inside {
            compare(&line.text);
        }
        let mut events = Vec::new();
        self.decoder.line(&line, &mut events);
        events.iter().for_each(|event| self.event(event));
    }

    /// Whether the lines so far are those of the agent's own log.
    fn is_log(&self, agent: &Agent) -> bool {
        let is_of_log = |line: &String| agent.log.as_ref().is_some_and(|log| log.dialect.detect(line) == Confidence::Certain);
        self.held.iter().any(is_of_log)
    }

    fn end(&mut self) {
        let mut events = Vec::new();
        self.decoder.end(&End::default(), &mut events);
        events.iter().for_each(|event| self.event(event));
    }

    fn event(&mut self, event: &Event<'_>) {
        match &event.kind {
            EventKind::Started(Started { agent, agent_version, detection, .. }) => {
                self.is_guess = detection.is_some();
                self.agent = Some(agent.clone().into_owned());
                self.version = agent_version.as_deref().map(str::to_owned);
                // Shapes are those of what is printed; the log that an agent keeps has others.
                let shapes = registry().find(agent).filter(|agent| !self.is_log(agent)).map_or("", |agent| &agent.shapes);
                let mut drift = Drift::new(Shapes::parse(shapes));
                self.held.drain(..).for_each(|line| drift.line(&line));
                self.drift = Some(drift);
            }
            EventKind::Session(Session { agent_version: Some(version), .. }) => self.version = Some(version.clone().into_owned()),
            EventKind::Unrecognized(Unrecognized { r#type, raw, .. }) => {
                let name = r#type.as_deref().unwrap_or("(no type)").to_owned();
                self.types.entry(name).or_insert_with(|| News { count: 0, sample: redacted(raw) }).count += 1;
            }
            _ => {}
        }
    }
}
