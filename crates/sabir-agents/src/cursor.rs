//! Cursor's CLI (`cursor-agent`, later `agent`): `--output-format stream-json` with and without partial output, `json`,
//! and plain text.

mod call;
mod command;
mod stream;

use sabir_core::agent::{Agent, DialectSpec};
use sabir_core::dialect::text;

/// The agent.
pub fn agent() -> Agent {
    Agent::new("cursor", "Cursor")
        .aliases(["cursor-agent"])
        .dialect(DialectSpec::json(
            "stream-json",
            "one JSON event per line, with or without partial output; of `json` the result only",
            stream::detect,
            stream::Stream::default,
        ))
        .dialect(text::dialect())
        .launch(command::launch())
}
