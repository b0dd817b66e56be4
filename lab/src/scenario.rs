//! What the model does, in words that no CLI owns.

use sabir_core::launch::Permission;

use crate::cli::Recipe;
use crate::place::Place;
use crate::script::{Block, Call, Failure, Pace, Reply, Script, Step, Usage};

mod table;

pub use table::ALL;

/// A story that is told to every CLI.
#[derive(Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// One process each; the second one continues the session of the first.
    pub runs: &'static [Run],
}

/// One run of a CLI.
#[derive(Debug)]
pub struct Run {
    /// What the user asks for.
    pub prompt: &'static str,
    /// What the model answers.
    pub turns: &'static [Turn],
    /// When the run is interrupted.
    pub interrupt: Option<Interrupt>,
    /// What the agent may do.
    pub permission: Permission,
}

/// When a run is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// While the stream of an answer is held open after its first deltas.
    MidStream,
    /// While a tool runs; by then the file [`STARTED`] is in the work folder.
    MidTool,
}

/// The file that a tool leaves when it has started.
pub const STARTED: &str = "started.txt";

/// The files that a run tries to write though it may not, in its work folder or above it.
pub const FORBIDDEN: [&str; 2] = ["by-tool.txt", "by-command.txt"];

/// One response of the model.
#[derive(Debug)]
pub enum Turn {
    /// It says something or calls tools.
    Says {
        /// Reasoning, if any.
        thinking: &'static str,
        /// Words, if any.
        text: Text,
        /// Tool calls, in parallel if there are several.
        tools: &'static [Tool],
        /// How the response travels.
        pace: Pace,
    },
    /// The server refuses once.
    Fails {
        /// The HTTP status.
        status: u16,
        /// What it says.
        message: &'static str,
    },
    /// The server refuses whenever it is asked.
    AlwaysFails {
        /// The HTTP status.
        status: u16,
        /// What it says.
        message: &'static str,
    },
}

/// A text.
#[derive(Clone, Copy, Debug)]
pub enum Text {
    /// This one.
    Is(&'static str),
    /// So many bytes of prose.
    Long(usize),
}

/// What a tool does.
#[derive(Clone, Copy, Debug)]
pub enum Tool {
    /// Runs a shell command in the work folder.
    Shell(Command),
    /// Reads a file of the work folder.
    Read(&'static str),
    /// Writes a file.
    Write {
        /// Its name in the work folder.
        path: &'static str,
        /// All of it.
        content: &'static str,
    },
    /// Replaces a text in a file.
    Edit {
        /// Its name in the work folder.
        path: &'static str,
        /// The text.
        old: &'static str,
        /// What comes in its place.
        new: &'static str,
    },
}

/// A shell command and what becomes of it when it runs.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The command.
    pub line: &'static str,
    /// What it prints.
    pub prints: Prints,
    /// Its exit code.
    pub code: i32,
}

/// What a command prints.
#[derive(Clone, Copy, Debug)]
pub enum Prints {
    /// These texts, in this order; what is between them may be shown in many ways.
    Texts(&'static [&'static str]),
    /// The numbers from the first to the last, one on each line.
    Numbers(u32, u32),
}

impl Tool {
    /// Whether it is a command that is meant to fail.
    pub fn fails(&self) -> bool {
        matches!(self, Tool::Shell(command) if command.code != 0)
    }
}

impl Prints {
    /// The texts that an output has to hold, in order.
    pub fn texts(self) -> Vec<String> {
        match self {
            Prints::Texts(texts) => texts.iter().map(|text| (*text).to_owned()).collect(),
            Prints::Numbers(first, last) => {
                let lines: Vec<String> = (first..=last).map(|number| number.to_string()).collect();
                vec![lines.join("\n")]
            }
        }
    }
}

/// The scenario of that name.
pub fn named(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

/// What the server serves to a CLI in a run.
pub fn script(run: &Run, recipe: &Recipe, place: &Place) -> Script {
    let steps = run.turns.iter().enumerate().map(|(index, turn)| match turn {
        Turn::Says { thinking, text, tools, pace } => {
            let mut blocks = Vec::new();
            if !thinking.is_empty() {
                blocks.push(Block::Thinking((*thinking).to_owned()));
            }
            let text = text.written();
            if !text.is_empty() {
                blocks.push(Block::Text(text));
            }
            blocks.extend(tools.iter().enumerate().map(|(tool_index, tool)| {
                let (name, input) = (recipe.tool)(tool, place);
                let id = format!("call_{}_{}", index + 1, tool_index + 1);
                Block::Call(Call { id, name: name.to_owned(), input })
            }));
            Step::Reply(Reply { blocks, usage: usage(index, !thinking.is_empty()), pace: *pace })
        }
        Turn::Fails { status, message } | Turn::AlwaysFails { status, message } => {
            Step::Failure(Failure { status: *status, message: (*message).to_owned(), retry_after: None })
        }
    });
    Script {
        steps: steps.collect(),
        repeat_last: matches!(run.turns.last(), Some(Turn::AlwaysFails { .. })),
        lane: recipe.lane,
        auxiliary: recipe.auxiliary,
    }
}

/// The usage of a response: every class another figure, in every step other ones, and no sum of some of them looks like a sum of
/// others.
fn usage(index: usize, thinking: bool) -> Usage {
    let step = u64::try_from(index).unwrap_or(0);
    Usage {
        uncached_input: 1_013 + 101 * step,
        cache_read: 5_003 + 20_011 * step,
        cache_write: 307 + 11 * step,
        output: 79 + 7 * step,
        reasoning: if thinking { 31 } else { 0 },
    }
}

impl Text {
    /// The text itself.
    pub fn written(self) -> String {
        match self {
            Text::Is(text) => text.to_owned(),
            Text::Long(bytes) => prose(bytes),
        }
    }
}

/// Lines of words that do not repeat: some CLIs take repetition for a model that has gone mad.
fn prose(bytes: usize) -> String {
    const WORDS: [&str; 16] = [
        "amber", "basin", "cedar", "delta", "ember", "fjord", "grain", "heron", "inlet", "jetty", "knoll", "ledge", "marsh",
        "north", "ocean", "prism",
    ];
    let mut text = String::with_capacity(bytes + 128);
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut number = 0_u64;
    while text.len() < bytes {
        number += 1;
        text.push_str(&number.to_string());
        for _ in 0..10 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            text.push(' ');
            text.push_str(WORDS[(state >> 60) as usize % WORDS.len()]);
            text.push_str(&(state >> 40 & 0xfff).to_string());
        }
        text.push('\n');
    }
    text.truncate(bytes.saturating_sub(5));
    text.push_str(" end.");
    text
}
