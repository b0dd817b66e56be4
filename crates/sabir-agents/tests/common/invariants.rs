//! What must hold for the events of any stream, whichever agent is said to have printed it.

use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::Event;
use sabir_core::fold::SessionResult;
use sabir_core::laws;
use sabir_core::line::{LineBuffer, RawLine, Source};

use super::fixture;

/// Every agent, and the one that the stream tells.
fn starts() -> Vec<(String, Start)> {
    let registry = sabir_agents::builtin();
    let named = registry.iter().map(|agent| (agent.id.to_string(), Start::of(agent.clone())));
    named.chain([("auto".to_owned(), Start::detect(registry.clone()))]).collect()
}

/// Decodes a stream that comes in chunks.
fn decode_chunks<'b>(start: Start, chunks: impl IntoIterator<Item = &'b [u8]>, end: &End) -> Vec<Event<'static>> {
    fn read(decoder: &mut Decoder, line: &RawLine<'_>, events: &mut Vec<Event<'static>>) {
        let mut own = Vec::new();
        decoder.line(&line.to_line(None, Source::Stdout), &mut own);
        events.extend(own.into_iter().map(Event::into_owned));
    }
    let mut decoder = Decoder::new(start);
    let mut lines = LineBuffer::default();
    let mut events = Vec::new();
    for chunk in chunks {
        lines.push(chunk);
        while let Some(line) = lines.next_line() {
            read(&mut decoder, &line, &mut events);
        }
    }
    if let Some(line) = lines.finish() {
        read(&mut decoder, &line, &mut events);
    }
    decoder.end(end, &mut events);
    events
}

/// Cuts bytes into chunks of the sizes given, over and over.
fn chunked<'b>(mut bytes: &'b [u8], sizes: &'b [usize]) -> impl Iterator<Item = &'b [u8]> {
    let mut sizes = sizes.iter().cycle();
    std::iter::from_fn(move || {
        let size = (*sizes.next()?).clamp(1, bytes.len().max(1));
        let (chunk, rest) = bytes.split_at_checked(size)?;
        bytes = rest;
        Some(chunk)
    })
}

/// Decodes with every agent and checks everything that must hold for any stream.
pub(crate) fn check_all(bytes: &[u8], sizes: &[usize], end: &End) {
    for (agent, start) in starts() {
        let events = fixture::decode(start.clone(), bytes, end);
        if let Err(broken) = laws::check(&events) {
            let told: Vec<String> = events.iter().map(|event| serde_json::to_string(event).expect("JSON")).collect();
            panic!("{agent}: {broken}\n{}", told.join("\n"));
        }
        let in_chunks = decode_chunks(start, chunked(bytes, sizes), end);
        assert!(events == in_chunks, "{agent}: chunks make a difference");
        let mut fold = SessionResult::fold();
        for event in &events {
            fold.event(event);
        }
        serde_json::to_string(&fold.finish()).expect("a result is JSON");
    }
}
