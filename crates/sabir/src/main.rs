//! temporary
#![allow(clippy::all, clippy::pedantic, missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]
use sabir_core::{decode::*, dialect::End, event::Event, fold::*, line::*};
use std::io::{Read, Write};
fn main() {
    let mut args = std::env::args().skip(2);
    let (mut file, mut agent, mut to, mut end) = (String::new(), "auto".to_owned(), "events".to_owned(), End::default());
    while let Some(a) = args.next() {
        match a.as_str() {
            "--agent" => agent = args.next().unwrap(),
            "--to" => to = args.next().unwrap(),
            "--exit-code" => end.exit_code = args.next().unwrap().parse().ok(),
            "--signal" => end.signal = args.next(),
            "--cancelled" => end.cancelled = true,
            _ => file = a,
        }
    }
    let start = if agent == "auto" { Start::auto() } else { Start::named(&agent).unwrap() };
    let mut decoder = Decoder::new(start);
    let mut input = std::fs::File::open(file).unwrap();
    let mut out = Vec::new();
    let mut fold = SessionResult::fold();
    let mut lines = LineBuffer::default();
    let mut spare: Vec<Event<'static>> = Vec::new();
    let mut done = false;
    while !done {
        let n = input.read(lines.space()).unwrap();
        lines.filled(n);
        done = n == 0;
        loop {
            let raw = match lines.next_line() {
                Some(r) => r,
                None => break,
            };
            let mut events = Event::recycle(std::mem::take(&mut spare));
            decoder.line(&raw.to_line(None, Source::Stdout), &mut events);
            for e in &events {
                fold.event(e);
                e.write_json(&mut out);
                out.push(b'\n');
            }
            spare = Event::recycle(events);
        }
    }
    let mut events = Vec::new();
    if let Some(raw) = lines.finish() {
        let mut own = Vec::new();
        decoder.line(&raw.to_line(None, Source::Stdout), &mut own);
        for e in own {
            events.push(e.into_owned());
        }
    }
    decoder.end(&end, &mut events);
    for e in &events {
        fold.event(e);
        e.write_json(&mut out);
        out.push(b'\n');
    }
    if to == "result" {
        println!("{}", serde_json::to_string(&fold.finish()).unwrap());
    } else {
        std::io::stdout().write_all(&out).unwrap();
    }
}
