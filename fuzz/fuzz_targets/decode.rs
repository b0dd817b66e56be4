//! Any bytes, any agent, any chunks: no panic, and the laws hold.
//!
//! The first byte picks the agent, the second how the stream is cut into chunks and how the process ended; the rest is
//! the stream. `SABIR_FUZZ_AGENTS=claude-code,codex` limits the agents; `auto` is the one that the stream tells.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::{Corpus, fuzz_target};
use sabir_core::agent::{self, Agent};
use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::Event;
use sabir_core::fold::SessionResult;
use sabir_core::laws::{self, Laws};
use sabir_core::line::{self, LineBuffer, RawLine, Source};

/// The agents of this process; `None` is `auto`.
fn agents() -> &'static [Option<Arc<Agent>>] {
    static AGENTS: OnceLock<Vec<Option<Arc<Agent>>>> = OnceLock::new();
    AGENTS.get_or_init(|| match std::env::var("SABIR_FUZZ_AGENTS") {
        Ok(names) => names
            .split(',')
            .map(|name| (name != "auto").then(|| sabir_agents::builtin().find(name).unwrap_or_else(|| panic!("no agent is called `{name}`"))))
            .collect(),
        Err(_) => sabir_agents::builtin().iter().map(Some).chain([None]).collect(),
    })
}

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let [agent, how, stream @ ..] = bytes else { return Corpus::Reject };
    let agent = agents()[usize::from(*agent) % agents().len()];
    let start = Start { agent, ..Start::detect(builtin()) };
    let end = End {
        exit_code: [None, Some(0), Some(1), None][usize::from(how >> 6)],
        cancelled: how & 0x20 != 0,
        ..End::default()
    };

    let mut decoder = Decoder::new(start.clone());
    let mut events: Vec<Event<'_>> = Vec::new();
    for raw in line::split(stream) {
        decoder.line(&raw.to_line(None, Source::Stdout), &mut events);
    }
    let mut last: Vec<Event<'static>> = Vec::new();
    decoder.end(&end, &mut last);
    events.extend(last);
    if let Err(broken) = laws::check(&events) {
        panic!("{broken}");
    }

    // The same events come out when the bytes come in pieces, and one by one they obey the laws as well.
    let mut decoder = Decoder::new(start);
    let mut lines = LineBuffer::default();
    let mut laws = Laws::default();
    let mut expected = events.iter();
    let mut same = |own: Vec<Event<'_>>| {
        for event in own {
            assert_eq!(Some(&event), expected.next(), "chunks make a difference");
            laws.event(&event).unwrap_or_else(|broken| panic!("{broken}"));
        }
    };
    let mut read = |decoder: &mut Decoder, line: RawLine<'_>| {
        let mut own = Vec::new();
        decoder.line(&line.to_line(None, Source::Stdout), &mut own);
        same(own);
    };
    for chunk in stream.chunks(usize::from(how & 0x1f) * 7 + 1) {
        lines.push(chunk);
        while let Some(line) = lines.next_line() {
            read(&mut decoder, line);
        }
    }
    if let Some(line) = lines.finish() {
        read(&mut decoder, line);
    }
    let mut last = Vec::new();
    decoder.end(&end, &mut last);
    same(last);
    assert_eq!(expected.next(), None, "chunks make a difference");

    let mut fold = SessionResult::fold();
    let mut json = Vec::new();
    for event in &events {
        fold.event(event);
        json.clear();
        event.write_json(&mut json);
        let back: Event<'_> = serde_json::from_slice(&json).expect("an event reads back");
        assert_eq!(&back, event);
    }
    fold.finish();
    Corpus::Keep
});
