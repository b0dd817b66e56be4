//! What an agent is, and the [`Registry`] of agents that a program knows.
//!
//! An agent is described here, never run: its names, the dialects that it prints, how it is started, where its logs
//! are. Built-in, declared and out-of-tree agents are equal: decoder, catalog and command line take a [`Registry`].

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::dialect::Dialect;
pub use crate::event::Accounting;
use crate::history::LogSpec;
use crate::launch::LaunchSpec;

/// Identifier of an agent, as users type it and events carry it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(Cow<'static, str>);

impl AgentId {
    /// The identifier as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Cow<'static, str>>> From<T> for AgentId {
    fn from(id: T) -> Self {
        Self(id.into())
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Description of one agent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Agent {
    /// Identifier, unique in a registry.
    pub id: AgentId,
    /// Other names that users may type.
    pub aliases: Vec<String>,
    /// Display name.
    pub title: Cow<'static, str>,
    /// Output formats in order of preference, plain text last.
    pub dialects: Vec<DialectSpec>,
    /// How the agent's own token counts are composed.
    pub accounting: Accounting,
    /// How to find and start the agent.
    pub launch: LaunchSpec,
    /// The session logs that the agent leaves on disk, if Sabir reads them.
    pub log: Option<LogSpec>,
    /// Known fields of the agent's output for [schema drift](crate::drift); empty if unknown.
    pub shapes: Cow<'static, str>,
}

impl Agent {
    /// An agent without dialects that cannot be started.
    pub fn new(id: impl Into<AgentId>, title: impl Into<Cow<'static, str>>) -> Self {
        Self {
            id: id.into(),
            aliases: Vec::new(),
            title: title.into(),
            dialects: Vec::new(),
            accounting: Accounting::default(),
            launch: LaunchSpec::none(),
            log: None,
            shapes: Cow::Borrowed(""),
        }
    }

    /// Sets other names that users may type.
    #[must_use]
    pub fn aliases<const N: usize>(mut self, aliases: [&str; N]) -> Self {
        self.aliases = aliases.map(str::to_owned).to_vec();
        self
    }

    /// Adds an output format; earlier ones are preferred in detection.
    #[must_use]
    pub fn dialect(mut self, dialect: DialectSpec) -> Self {
        self.dialects.push(dialect);
        self
    }

    /// Sets how the agent's own token counts are composed.
    #[must_use]
    pub fn accounting(mut self, accounting: Accounting) -> Self {
        self.accounting = accounting;
        self
    }

    /// Sets how the agent is found and started.
    #[must_use]
    pub fn launch(mut self, launch: LaunchSpec) -> Self {
        self.launch = launch;
        self
    }

    /// Sets the session logs that the agent leaves on disk, and adds their format to the dialects.
    #[must_use]
    pub fn log(mut self, log: LogSpec) -> Self {
        self.dialects.push(log.dialect.clone());
        self.log = Some(log);
        self
    }

    /// Sets the known fields of the agent's output.
    #[must_use]
    pub fn shapes(mut self, shapes: impl Into<Cow<'static, str>>) -> Self {
        self.shapes = shapes.into();
        self
    }

    /// Whether `name` is the agent's identifier or one of its aliases.
    pub fn is_named(&self, name: &str) -> bool {
        self.id.as_str() == name || self.aliases.iter().any(|alias| alias == name)
    }
}

/// One output format of an agent, and how to tell it from others.
#[derive(Clone)]
pub struct DialectSpec {
    /// Name, unique within the agent.
    pub name: Cow<'static, str>,
    /// One-line description.
    pub about: Cow<'static, str>,
    /// What the output consists of.
    pub form: Form,
    detect: Arc<dyn Fn(&str) -> Confidence + Send + Sync>,
    create: Arc<dyn Fn() -> Box<dyn Dialect> + Send + Sync>,
}

impl DialectSpec {
    /// A format of JSON values.
    pub fn json<D: Dialect + 'static>(
        name: &'static str,
        about: &'static str,
        detect: impl Fn(&str) -> Confidence + Send + Sync + 'static,
        create: impl Fn() -> D + Send + Sync + 'static,
    ) -> Self {
        let create = Arc::new(move || Box::new(create()) as Box<dyn Dialect>);
        Self { name: name.into(), about: about.into(), form: Form::Json, detect: Arc::new(detect), create }
    }

    /// A format of text lines.
    pub fn text<D: Dialect + 'static>(
        name: &'static str,
        about: &'static str,
        detect: impl Fn(&str) -> Confidence + Send + Sync + 'static,
        create: impl Fn() -> D + Send + Sync + 'static,
    ) -> Self {
        Self { form: Form::Text, ..Self::json(name, about, detect, create) }
    }

    /// The same format with another description.
    #[must_use]
    pub fn with_about(self, about: impl Into<Cow<'static, str>>) -> Self {
        Self { about: about.into(), ..self }
    }

    /// The same format with another detection.
    #[must_use]
    pub fn with_detect(self, detect: impl Fn(&str) -> Confidence + Send + Sync + 'static) -> Self {
        Self { detect: Arc::new(detect), ..self }
    }

    /// Confidence that a stream with this line is in this dialect.
    pub fn detect(&self, line: &str) -> Confidence {
        (self.detect)(line)
    }

    /// A new decoder state for one stream.
    pub fn create(&self) -> Box<dyn Dialect> {
        (self.create)()
    }
}

impl fmt::Debug for DialectSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DialectSpec").field("name", &self.name).field("form", &self.form).finish_non_exhaustive()
    }
}

/// What the output of a dialect consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// JSON values: one per line, pretty-printed over several lines, or as elements of one array.
    Json,
    /// Lines of text.
    Text,
}

/// Confidence that a stream is in a dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// It is not.
    None,
    /// It may be, unless another dialect is more confident.
    Possible,
    /// No other dialect of the registry prints this, but CLIs that imitate the agent do: decides, as a guess.
    Likely,
    /// No other dialect prints this.
    Certain,
}

impl Confidence {
    /// `Certain` or `None`.
    pub fn certain_if(is_certain: bool) -> Self {
        if is_certain { Self::Certain } else { Self::None }
    }
}

/// The agents that a program knows, in the order of its lists.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    agents: Arc<Vec<Arc<Agent>>>,
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an agent, or replaces the one with the same identifier.
    pub fn add(&mut self, agent: Agent) -> &mut Self {
        let agents = Arc::make_mut(&mut self.agents);
        match agents.iter_mut().find(|known| known.id == agent.id) {
            Some(known) => *known = Arc::new(agent),
            None => agents.push(Arc::new(agent)),
        }
        self
    }

    /// The agent with that identifier or alias.
    pub fn find(&self, name: &str) -> Option<&Arc<Agent>> {
        self.iter().find(|agent| agent.id.as_str() == name).or_else(|| self.iter().find(|agent| agent.is_named(name)))
    }

    /// All agents.
    pub fn iter(&self) -> std::slice::Iter<'_, Arc<Agent>> {
        self.agents.iter()
    }
}

impl<'r> IntoIterator for &'r Registry {
    type Item = &'r Arc<Agent>;
    type IntoIter = std::slice::Iter<'r, Arc<Agent>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<Agent> for Registry {
    fn from_iter<I: IntoIterator<Item = Agent>>(agents: I) -> Self {
        let mut registry = Self::new();
        for agent in agents {
            registry.add(agent);
        }
        registry
    }
}

impl From<Arc<Agent>> for Registry {
    /// A registry of one agent.
    fn from(agent: Arc<Agent>) -> Self {
        Self { agents: Arc::new(vec![agent]) }
    }
}
