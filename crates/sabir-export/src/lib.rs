//! Export of events to other formats.
//!
//! An [exporter](Exporter) is a pure function of events: the same events give the same bytes. Field names of other formats
//! occur only in this crate and in [`sabir_protocol::envelope`].

pub mod jobs;
mod perstack;
mod runner;

use sabir_core::export::{Exporter, Options};
use sabir_protocol::envelope::Envelope;

/// An export format.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// Name, as users type it.
    pub name: &'static str,
    /// One-line description.
    pub about: &'static str,
    /// Creates an exporter for one run.
    pub new: fn(&Options) -> Box<dyn Exporter>,
}

/// All formats, in the order of lists.
pub const FORMATS: &[Format] = &[
    Format {
        name: "runner",
        about: "thought, action, response, final, log and error",
        new: |options| Box::new(runner::Runner::new(options)),
    },
    Format {
        name: "perstack",
        about: "Perstack's runtime and run events, with the checkpoint in the last one",
        new: |options| Box::new(perstack::Perstack::events(options)),
    },
    Format {
        name: "perstack-checkpoint",
        about: "Perstack's checkpoint of the whole run, one object",
        new: |options| Box::new(perstack::Perstack::checkpoint(options)),
    },
    Format {
        name: "perstack-output",
        about: "tool events and the final output, one object",
        new: |options| Box::new(perstack::Perstack::output(options)),
    },
    Format {
        name: "envelope",
        about: "the messages of a runner shell: init, status, log, command, file, git, result and the rest",
        new: |options| Box::new(Envelope::new(options)),
    },
];

/// The format with that name.
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|entry| entry.name == name)
}
