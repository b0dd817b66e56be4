//! The agents that Sabir supports: their output formats, session logs and command lines.
//!
//! [`builtin`] returns all of them as a [`Registry`]. Each agent is a module with a cargo feature of its name, and sees no other
//! agent; the output formats that several of them share are in `family`.
//!
//! ```
//! use sabir_core::decode::{Decoder, Start};
//! use sabir_core::line::Line;
//!
//! let mut decoder = Decoder::new(Start::detect(sabir_agents::builtin()));
//! let mut events = Vec::new();
//! decoder.line(&Line::of(1, r#"{"type":"thread.started","thread_id":"t-1"}"#), &mut events);
//! assert_eq!(events[0].kind.tag(), "started");
//! ```

pub mod aider;
pub mod bob;
pub mod claude_code;
pub mod cline;
pub mod codex;
pub mod copilot;
pub mod cursor;
pub mod droid;
mod family;
pub mod gemini;
pub mod goose;
pub mod kilo;
pub mod localexec;
pub mod openai;
pub mod opencode;
pub mod pi;
pub mod qwen;

use sabir_core::agent::Registry;

/// The agents that Sabir supports, in the order of its lists.
pub fn builtin() -> Registry {
    [
        claude_code::agent(),
        codex::agent(),
        gemini::agent(),
        cursor::agent(),
        opencode::agent(),
        kilo::agent(),
        pi::agent(),
        qwen::agent(),
        droid::agent(),
        copilot::agent(),
        cline::agent(),
        goose::agent(),
        aider::agent(),
        bob::agent(),
        openai::agent(),
        localexec::agent(),
    ]
    .into_iter()
    .collect()
}
