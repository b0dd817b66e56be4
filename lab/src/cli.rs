//! The recipes: how to get a CLI, and how to make it talk to the lab's server.
//!
//! The command line is not here; who runs the CLI knows it.

mod claude_code;
mod codex;
mod copilot;
mod droid;
mod gemini;
mod opencode;
mod pi;
mod qwen;

use serde_json::Value;

use crate::check::Aspect;
use crate::place::{HomeFile, Place};
use crate::scenario::Tool;
use crate::script::{Api, Input, Lane, Request};

/// How to get a CLI, and how to make it talk to the lab's server.
#[derive(Debug)]
pub struct Recipe {
    /// The agent, as `sabir agents` names it.
    pub id: &'static str,
    /// The version that is installed.
    pub version: &'static str,
    /// The npm package.
    pub package: &'static str,
    /// The name of the program.
    pub program: &'static str,
    /// The folder of the program, in the folder of the installation; `{platform}` is the platform as npm packages spell it. Where a
    /// package brings a native program it is this one: no script has to be run for it, and signals reach it.
    pub folder: &'static str,
    /// The oldest node that runs it; none if it needs no node.
    pub node: Option<(u32, u32)>,
    /// The format in which it asks the model.
    pub api: Api,
    /// The model to name on the command line.
    pub model: &'static str,
    /// The files that it reads from its home.
    pub files: fn(&Place) -> Vec<HomeFile>,
    /// What goes into its environment.
    pub environment: fn(&Place) -> Vec<(&'static str, String)>,
    /// The name and the arguments of the tool that does this.
    pub tool: fn(&Tool, &Place) -> (&'static str, Input),
    /// The name under which the CLI tells of the tool that does this; none where it is the tool's own.
    pub shown: Option<fn(&Tool) -> &'static str>,
    /// Whether its figures hold what it asks the model for itself, as far as that is answered in time.
    pub counts_auxiliary: bool,
    /// What can't be seen of it, or is not as with others, and why.
    pub exceptions: &'static [Exception],
    /// Tells the agent's requests from those that the CLI makes for itself.
    pub lane: fn(&Request) -> Lane,
    /// The answer to those.
    pub auxiliary: fn(&Request) -> String,
}

impl Recipe {
    /// The name under which the CLI tells of the tool that does this.
    pub fn told(&self, tool: &Tool, place: &Place) -> &'static str {
        self.shown.map_or_else(|| (self.tool)(tool, place).0, |shown| shown(tool))
    }
}

/// Something that a CLI does not tell, or tells otherwise than it was served.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    /// In these scenarios.
    pub scenarios: &'static [&'static str],
    /// What it is about; [`Aspect::Run`] is for a scenario that the CLI can't be told at all.
    pub aspect: Aspect,
    /// How the differences read, or a part of each: anything else is not excused.
    pub what: &'static [&'static str],
    /// Whether it is always so. What depends on the moment is not.
    pub always: bool,
    /// Why.
    pub why: &'static str,
}

/// The scenarios in which a command succeeds and is told.
const COMMANDS: &[&str] = &["shell-ok", "multi-turn", "parallel-tools", "fatal-error-later", "big-output", "unicode", "resume"];

/// All recipes.
pub static ALL: &[Recipe] = &[
    claude_code::RECIPE,
    codex::RECIPE,
    codex::RECIPE_0_36,
    gemini::RECIPE,
    opencode::RECIPE,
    pi::RECIPE,
    qwen::RECIPE,
    droid::RECIPE,
    copilot::RECIPE,
];

/// The recipes of an agent, or the one for `agent@version`.
pub fn named(name: &str) -> Vec<&'static Recipe> {
    ALL.iter().filter(|recipe| recipe.id == name || format!("{}@{}", recipe.id, recipe.version) == name).collect()
}

/// The rule for most CLIs: who offers no tools to the model is not the agent.
fn lane_by_tools(request: &Request) -> Lane {
    if request.tools.is_empty() { Lane::Auxiliary } else { Lane::Main }
}

/// An answer that does for a title.
fn title(_: &Request) -> String {
    "A task in a scratch folder".to_owned()
}

/// A settings file.
fn json_file(path: &'static str, content: &Value) -> HomeFile {
    HomeFile { path, content: format!("{content:#}\n") }
}
