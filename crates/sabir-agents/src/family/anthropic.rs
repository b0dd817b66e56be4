//! stream-json, the output format of Claude Code and of CLIs that copied it.
//!
//! The stream is `system` of subtype `init`, then `assistant` and `user` messages with content blocks, `stream_event` lines if
//! partial messages are enabled, and a `result`. [`StreamJson`] is the state machine of the format; a [`Variant`] is what a CLI
//! does in its own way.

mod message;
mod stream;
mod text_delta;
pub(crate) mod tools;
pub(crate) mod wire;

pub(crate) use message::MessageState;
pub(crate) use stream::{RunResult, StreamJson, Variant};
