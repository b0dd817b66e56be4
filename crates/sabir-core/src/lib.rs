//! The event vocabulary of every coding-agent CLI, its decoder and reports.
//!
//! Bytes become [lines](mod@line), a [dialect](dialect::Dialect) of an [agent] turns lines into draft events, and the
//! [decoder](decode::Decoder) numbers them and enforces the invariants of a stream. [Reports](fold) compute one value from many
//! events, such as the result of a session; an [exporter](export::Exporter) writes events in another format. Nothing here
//! reads a file, a clock or the environment: the same lines always give the same events.
//!
//! The supported agents are in the crate `sabir-agents`; here is one without a dialect of its own, whose plain text is its
//! answer:
//!
//! ```
//! use std::sync::Arc;
//!
//! use sabir_core::agent::Agent;
//! use sabir_core::decode::{Decoder, Start};
//! use sabir_core::dialect::{End, text};
//! use sabir_core::fold::SessionResult;
//! use sabir_core::line;
//!
//! let agent = Arc::new(Agent::new("acme", "Acme").dialect(text::dialect()));
//! let mut decoder = Decoder::new(Start::of(agent));
//! let mut result = SessionResult::fold();
//! let mut events = Vec::new();
//! for raw in line::split(b"Hello World\n") {
//!     decoder.line(&raw.to_line(None, line::Source::Stdout), &mut events);
//! }
//! decoder.end(&End { exit_code: Some(0), ..End::default() }, &mut events);
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
