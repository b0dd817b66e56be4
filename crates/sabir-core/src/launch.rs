//! How an agent is started: what a user may ask for, what the agent can promise, and the command line that follows.
//!
//! Nothing is started here. An agent has a [`LaunchSpec`]; [`Agent::command`] turns a [`Request`] into a
//! [`CommandLine`], or into an [`Unsupported`] when the agent cannot keep what is asked of it: a promise that an agent would
//! silently ignore is worse than none.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::agent::Agent;

/// What the user asks of a run.
#[derive(Debug, Clone, Default)]
pub struct Request<'a> {
    /// What the agent is to do.
    pub prompt: &'a str,
    /// The model, in the agent's own name for it.
    pub model: Option<&'a str>,
    /// The conversation that the prompt belongs to.
    pub session: Session<'a>,
    /// What the agent may do without asking; without it, what its own settings say.
    pub permission: Option<Permission>,
    /// How many turns it may take.
    pub max_turns: Option<u32>,
    /// How many dollars it may spend.
    pub max_cost: Option<f64>,
    /// Arguments for the agent itself, as the user gave them.
    pub extra: &'a [String],
    /// The version that is installed, where it was asked for ([`LaunchSpec::needs_version`]).
    pub version: Option<&'a str>,
    /// The run has the rights of the superuser; some agents refuse to be trusting then.
    pub superuser: bool,
}

/// The conversation that a prompt belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Session<'a> {
    /// A new one.
    #[default]
    New,
    /// The one of that id.
    Resume(&'a str),
    /// The last one in the working folder.
    Latest,
}

/// What an agent may do without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// Look, and change nothing.
    ReadOnly,
    /// Change files of the working folder; commands only as far as they can do no more than that.
    Edit,
    /// Everything that the user may do.
    Full,
}

impl Permission {
    /// All levels, the narrowest first.
    pub const ALL: [Self; 3] = [Self::ReadOnly, Self::Edit, Self::Full];

    /// The word that users type.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Edit => "edit",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Options that an agent honours. A request for any other option is rejected.
#[derive(Debug, Clone, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// The model can be chosen.
    pub model: bool,
    /// A session can be resumed by its id.
    pub resume: bool,
    /// The latest session can be continued.
    pub r#continue: bool,
    /// Permission levels that it enforces.
    pub permissions: Vec<Permission>,
    /// The number of turns can be limited.
    pub max_turns: bool,
    /// The cost can be limited.
    pub max_cost: bool,
}

/// How an agent is found and started.
#[derive(Clone)]
#[non_exhaustive]
pub struct LaunchSpec {
    /// The program to execute.
    pub program: Program,
    /// Options that the agent honours; others are rejected before it starts.
    pub capabilities: Capabilities,
    /// The command line depends on the installed version, so the version is read first.
    pub needs_version: bool,
    /// Signal that makes it stop in an orderly way.
    pub stop: StopSignal,
    /// How its standard output is captured.
    pub stdout: StdoutCapture,
    /// Environment variables passed to it beside the basic ones; a `*` at the end matches any suffix.
    pub environment: Vec<String>,
    /// Environment variables that hold an API key; one of them is enough.
    pub keys: Vec<String>,
    /// Files below the home folder that exist after a login.
    pub logins: Vec<String>,
    /// Command that installs it.
    pub install: Cow<'static, str>,
    /// Versions whose output was recorded and is decoded exactly.
    pub recorded_versions: Vec<String>,
    command: Arc<dyn Fn(&Request<'_>) -> CommandLine + Send + Sync>,
}

impl LaunchSpec {
    /// A program whose arguments `command` builds from requests that the capabilities allow.
    pub fn new(program: Program, command: impl Fn(&Request<'_>) -> CommandLine + Send + Sync + 'static) -> Self {
        Self {
            program,
            capabilities: Capabilities::default(),
            needs_version: false,
            stop: StopSignal::Interrupt,
            stdout: StdoutCapture::Pipe,
            environment: Vec::new(),
            keys: Vec::new(),
            logins: Vec::new(),
            install: Cow::Borrowed(""),
            recorded_versions: Vec::new(),
            command: Arc::new(command),
        }
    }

    /// No program: the agent can only be read.
    pub fn none() -> Self {
        Self::new(Program::Named(Vec::new()), |_| CommandLine::default())
    }

    /// Sets the options that the agent honours.
    #[must_use]
    pub fn capabilities(self, capabilities: Capabilities) -> Self {
        Self { capabilities, ..self }
    }

    /// Reads the installed version before the command line is built.
    #[must_use]
    pub fn needs_version(self) -> Self {
        Self { needs_version: true, ..self }
    }

    /// Sets the signal that makes the agent stop in an orderly way.
    #[must_use]
    pub fn stop(self, stop: StopSignal) -> Self {
        Self { stop, ..self }
    }

    /// Sets how standard output is captured.
    #[must_use]
    pub fn stdout(self, stdout: StdoutCapture) -> Self {
        Self { stdout, ..self }
    }

    /// Sets the environment variables that the agent gets.
    #[must_use]
    pub fn environment<const N: usize>(self, names: [&str; N]) -> Self {
        Self { environment: names.map(str::to_owned).to_vec(), ..self }
    }

    /// Sets the environment variables that hold an API key.
    #[must_use]
    pub fn keys<const N: usize>(self, names: [&str; N]) -> Self {
        Self { keys: names.map(str::to_owned).to_vec(), ..self }
    }

    /// Sets the files below the home folder that exist after a login.
    #[must_use]
    pub fn logins<const N: usize>(self, paths: [&str; N]) -> Self {
        Self { logins: paths.map(str::to_owned).to_vec(), ..self }
    }

    /// Sets the command that installs the agent.
    #[must_use]
    pub fn install(self, command: impl Into<Cow<'static, str>>) -> Self {
        Self { install: command.into(), ..self }
    }

    /// Sets the versions whose output was recorded.
    #[must_use]
    pub fn recorded_versions<const N: usize>(self, versions: [&str; N]) -> Self {
        Self { recorded_versions: versions.map(str::to_owned).to_vec(), ..self }
    }
}

impl fmt::Debug for LaunchSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchSpec").field("program", &self.program).finish_non_exhaustive()
    }
}

/// What is executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// The first of these names that is on the search path.
    Named(Vec<String>),
    /// Sabir itself, with one of its own commands.
    Own,
    /// The system's shell.
    Shell,
}

impl Program {
    /// The first of these names that is on the search path.
    pub fn named<const N: usize>(names: [&str; N]) -> Self {
        Self::Named(names.map(str::to_owned).to_vec())
    }
}

/// The first signal of an orderly stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// What Ctrl-C sends.
    Interrupt,
    /// For agents that leave their children behind, or say nothing, when they are interrupted.
    Terminate,
}

/// How the standard output of an agent is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StdoutCapture {
    /// By a pipe.
    #[default]
    Pipe,
    /// By a file without a name, which is read along. For agents that exit while node still has output for a pipe in
    /// its own queue: what is there is lost, however large the pipe is. What node writes to a file is written at once.
    File,
}

/// The command line of one run, without the program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandLine {
    /// The arguments.
    pub arguments: Vec<String>,
    /// Variables that this run needs.
    pub environment: Vec<(&'static str, String)>,
    /// How the prompt reaches the agent.
    pub prompt: PromptTransport,
}

/// How a prompt reaches the agent. Standard input is best: no limit of length, and no other user can see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PromptTransport {
    /// On standard input, which then ends.
    #[default]
    Stdin,
    /// It is among the arguments.
    Arguments,
    /// In a file whose path follows this argument.
    File(&'static str),
}

impl CommandLine {
    /// A command line that starts with these arguments.
    pub fn new<const N: usize>(arguments: [&str; N]) -> Self {
        Self { arguments: arguments.map(str::to_owned).to_vec(), ..Self::default() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn arguments<const N: usize>(mut self, arguments: [&str; N]) -> Self {
        self.arguments.extend(arguments.map(str::to_owned));
        self
    }

    /// Adds an option with its value, when there is one.
    #[must_use]
    pub fn option(mut self, name: &str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            self.arguments.push(name.to_owned());
            self.arguments.push(value.to_string());
        }
        self
    }

    /// Adds the user's own arguments.
    #[must_use]
    pub fn extra(mut self, request: &Request<'_>) -> Self {
        self.arguments.extend_from_slice(request.extra);
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn variable(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Says how the prompt comes.
    #[must_use]
    pub fn prompt_by(mut self, prompt: PromptTransport) -> Self {
        self.prompt = prompt;
        self
    }
}

/// Something that the agent cannot promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// What was asked and is not possible.
    pub what: String,
    /// What is possible instead.
    pub can: String,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)
    }
}

impl std::error::Error for Unsupported {}

impl Agent {
    /// The command line for a request, or what of it the agent cannot promise.
    pub fn command(&self, request: &Request<'_>) -> Result<CommandLine, Unsupported> {
        let can = &self.launch.capabilities;
        let refuse = |what: &str| Err(Unsupported { what: format!("{} {what}", self.title), can: self.promises() });
        match request.session {
            Session::Resume(_) if !can.resume => return refuse("can't take up an earlier session by its id"),
            Session::Latest if !can.r#continue => return refuse("can't continue its last session"),
            Session::Resume(id) if id.is_empty() || id.starts_with('-') => return refuse("needs a session id to resume"),
            _ => {}
        }
        match request.permission {
            Some(level) if !can.permissions.contains(&level) => {
                return refuse(&format!("can't guarantee the permission level {level}"));
            }
            _ => {}
        }
        if request.model.is_some() && !can.model {
            return refuse("does not let us choose the model");
        }
        if request.max_turns.is_some() && !can.max_turns {
            return refuse("can't limit its turns");
        }
        if request.max_cost.is_some() && !can.max_cost {
            return refuse("can't limit its cost");
        }
        Ok((self.launch.command)(request))
    }

    /// What the agent can promise, in the words of the command line.
    pub fn promises(&self) -> String {
        let can = &self.launch.capabilities;
        let levels: Vec<&str> = can.permissions.iter().map(|level| level.name()).collect();
        let permission = (!levels.is_empty()).then(|| format!("--permission {}", levels.join("|")));
        let flags = [
            (can.model, "--model"),
            (can.resume, "--resume"),
            (can.r#continue, "--continue"),
            (can.max_turns, "--max-turns"),
            (can.max_cost, "--max-cost"),
        ];
        let mut words: Vec<String> = flags.into_iter().filter(|(can, _)| *can).map(|(_, flag)| flag.to_owned()).collect();
        words.extend(permission);
        if words.is_empty() {
            format!("{} takes none of these options", self.id)
        } else {
            format!("{} can: {}", self.id, words.join(", "))
        }
    }
}
