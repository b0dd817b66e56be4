//! Droid (`droid exec`).
//!
//! | dialect | command line |
//! |---|---|
//! | stream-json | `-o stream-json`; `-o json` prints a result object alone |
//! | history | the log that it keeps in `sessions/` |
//! | text | `-o text` |

mod command;
mod ending;
mod history;
mod stream;
mod tools;

use sabir_core::agent::{Agent, DialectSpec};
use sabir_core::dialect::text;

/// The agent.
pub fn agent() -> Agent {
    Agent::new("droid", "Droid")
        .aliases(["factory"])
        .dialect(DialectSpec::json(
            "stream-json",
            "one JSON event per line; of `json` the result only",
            stream::detect,
            stream::Stream::default,
        ))
        .log(history::log())
        .dialect(text::dialect())
        .launch(command::launch())
        .shapes(include_str!("droid/shapes.txt"))
}
