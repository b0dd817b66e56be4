//! Sabir's own agent loop over an OpenAI-compatible endpoint.
//!
//! The rule of this room: it prints one JSONL dialect, Sabir's vocabulary, through a [`Write`](std::io::Write) that it is
//! given, and its tools touch only files inside the working folder.
//!
//! ```text
//!  prompt ──► turn ──► api (responses or chat) ──► http ──► sse ──► text, reasoning, calls, usage
//!              ▲                                                          │
//!              └──────── results ◄── tools (folder, shell; confined) ◄────┘
//! ```
//!
//! Everything blocks. One thread talks to the endpoint and prints; the tool calls of one answer run beside each other.

#![cfg_attr(not(unix), allow(dead_code, reason = "the tool that runs commands is there on Unix alone"))]

mod api;
mod capped;
mod commands;
mod confine;
mod folder;
mod http;
mod out;
mod run;
#[cfg(unix)]
mod shell;
mod sse;
mod tools;
mod trouble;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use api::Api;
pub use commands::Commands;
pub use run::{Ending, run};
pub use sabir_core::launch::Permission;

/// Where requests go unless something else is said.
pub const PUBLIC_ENDPOINT: &str = "https://api.openai.com/v1";

/// What a run needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// The API to speak; without it, `responses`, and `chat` where the endpoint does not have that.
    pub api: Option<Api>,
    /// The endpoint, e.g. [`PUBLIC_ENDPOINT`].
    pub base_url: String,
    /// The key; an endpoint on the same machine may need none.
    pub key: Option<Key>,
    /// Further headers of every request.
    pub headers: Vec<(String, String)>,
    /// A file of certificates (PEM) to trust instead of the built-in ones.
    pub certificates: Option<PathBuf>,
    /// The model, as the endpoint calls it.
    pub model: String,
    /// How many turns it may take.
    pub max_turns: Option<u32>,
    /// Which tools there are.
    pub permission: Permission,
    /// The working folder.
    pub cwd: PathBuf,
    /// How often a request is made at most.
    pub attempts: u32,
    /// The wait before the second attempt; it doubles with every further one.
    pub back_off: Duration,
    /// A wait that the endpoint asks for and that is longer than this ends the run.
    pub longest_wait: Duration,
    /// An endpoint that says nothing for so long is taken for gone.
    pub silence: Duration,
    /// How long a command may run, unless the model says otherwise.
    pub command_time: Duration,
}

impl Config {
    /// A run in that folder, with everything else as it usually is.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            api: None,
            base_url: base_url.into(),
            key: None,
            headers: Vec::new(),
            certificates: None,
            model: model.into(),
            max_turns: None,
            permission: Permission::Edit,
            cwd: cwd.into(),
            attempts: 5,
            back_off: Duration::from_millis(500),
            longest_wait: Duration::from_secs(120),
            silence: Duration::from_secs(300),
            command_time: Duration::from_secs(120),
        }
    }
}

/// A key that no log shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// The key, without the white space that copying leaves; `None` when nothing is left.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}
