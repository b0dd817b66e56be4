//! One event vocabulary for every coding-agent CLI.
//!
//! Bytes become [lines](mod@line), a [dialect](dialect::Dialect) of an [agent] turns lines into facts, and the
//! [decoder](decode::Decoder) numbers them and keeps the laws of the stream. What comes out are
//! [events](event::Event); [folds](fold) make one value of many events, and [views](view) say them in other people's
//! words. Nothing here reads a file, a clock or the environment: the same lines always give the same events.
//!
//! ```
//! use sabir_core::{decode::{Decoder, Start}, dialect::End, fold::SessionResult, line};
//!
//! let stream = br#"{"type":"result","content":"Hello World"}"#;
//! let mut decoder = Decoder::new(Start::named("claude-code").expect("a known agent"));
//! let mut result = SessionResult::fold();
//! let mut events = Vec::new();
//! for raw in line::split(stream) {
//!     decoder.line(&raw.to_line(None, line::Source::Stdout), &mut events);
//! }
//! decoder.end(&End::default(), &mut events);
//! events.iter().for_each(|event| result.event(event));
//! assert_eq!(result.finish().text.as_deref(), Some("Hello World"));
//! ```

pub mod agent;
pub mod cut;
pub mod decode;
pub mod dialect;
pub mod diff;
pub mod drift;
pub mod event;
pub mod export;
pub mod fold;
pub mod history;
pub mod json;
pub mod launch;
pub mod laws;
pub mod line;
pub mod pattern;
pub mod price;
pub mod readable;
pub mod time;
