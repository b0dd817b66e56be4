//! Which agent an event is of.
//!
//! Events do not name their agent; the hooks between them do. An event is of the agent whose hook came last, unless its
//! own numbers (the call, the iteration, the sums of tokens) fit another one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::{Facts, Said};

/// How many sub-agents are followed at a time.
const LANES: usize = 256;

/// One agent.
#[derive(Default)]
pub(super) struct Lane {
    agent: String,
    /// The call that started it; `None` for the main agent.
    pub(super) call: Option<String>,
    pub(super) text: Said,
    pub(super) reasoning: Said,
    pub(super) iteration: u32,
    /// Input and output so far.
    pub(super) total: (u64, u64),
    /// Its end was told by a hook.
    pub(super) ended: bool,
}

impl Lane {
    /// The agent starts, or goes on with another prompt.
    pub(super) fn begin(&mut self) {
        (self.ended, self.iteration) = (false, 0);
    }
}

/// All agents of the run. The first one is the main agent.
pub(super) struct Lanes {
    list: Vec<Lane>,
    current: usize,
    /// The agents of the calls that are open.
    calls: BTreeMap<String, String>,
    /// Calls that hand work to a sub-agent which has not started, with the agent that made them.
    waiting: Vec<(String, String)>,
}

impl Default for Lanes {
    fn default() -> Self {
        Self { list: vec![Lane::default()], current: 0, calls: BTreeMap::new(), waiting: Vec::new() }
    }
}

impl Lanes {
    /// An agent is named: what follows is of it.
    pub(super) fn enter(&mut self, agent: &str, parent: Option<&str>) {
        if let Some(index) = self.list.iter().position(|lane| lane.agent == agent) {
            self.current = index;
            return;
        }
        let Some(parent) = parent else {
            // The main agent may be named late, and may get another id when the run is continued.
            agent.clone_into(&mut self.list[0].agent);
            self.current = 0;
            return;
        };
        if self.list.len() >= LANES {
            self.list.remove(1);
        }
        let call = match self.waiting.iter().position(|(_, by)| by == parent) {
            Some(index) => self.waiting.remove(index).0,
            None => agent.to_owned(),
        };
        self.current = self.list.len();
        self.list.push(Lane { agent: agent.to_owned(), call: Some(call), ..Lane::default() });
    }

    /// The agent that the facts are of.
    pub(super) fn current(&mut self) -> &mut Lane {
        &mut self.list[self.current]
    }

    /// Whether that is the main agent.
    pub(super) fn is_main(&self) -> bool {
        self.current == 0
    }

    /// Goes to the agent that an event fits: the current one, else the latest that does.
    pub(super) fn find(&mut self, fits: impl Fn(&Lane) -> bool) {
        if !fits(&self.list[self.current])
            && let Some(index) = self.list.iter().rposition(fits)
        {
            self.current = index;
        }
    }

    /// Sets the head of the facts to the current agent.
    pub(super) fn head(&self, facts: &mut Facts<'_>) {
        facts.parent = self.list[self.current].call.clone().map(Cow::Owned);
    }

    /// The current agent makes a call.
    pub(super) fn begin_call(&mut self, call: &str, delegates: bool) {
        let agent = self.list[self.current].agent.clone();
        if delegates {
            self.waiting.push((call.to_owned(), agent.clone()));
        }
        self.calls.insert(call.to_owned(), agent);
    }

    /// Goes to the agent that made a call.
    pub(super) fn enter_call(&mut self, call: &str) {
        if let Some(agent) = self.calls.get(call)
            && let Some(index) = self.list.iter().position(|lane| lane.agent == *agent)
        {
            self.current = index;
        }
    }

    /// A call is over, and so are the agents that it started.
    pub(super) fn end_call(&mut self, call: &str) {
        self.enter_call(call);
        self.calls.remove(call);
        self.waiting.retain(|(waiting, _)| waiting != call);
        let agent = self.list[self.current].agent.clone();
        self.list.retain(|lane| lane.call.as_deref() != Some(call));
        self.current = self.list.iter().position(|lane| lane.agent == agent).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::Lanes;

    #[test]
    fn sub_agents_belong_to_the_calls_in_their_order() {
        let mut lanes = Lanes::default();
        lanes.enter("main", None);
        lanes.begin_call("one", true);
        lanes.begin_call("two", true);
        lanes.enter("a", Some("main"));
        assert_eq!(lanes.current().call.as_deref(), Some("one"));
        lanes.enter("b", Some("main"));
        assert_eq!(lanes.current().call.as_deref(), Some("two"));
        lanes.current().total = (30, 3);
        lanes.enter("a", Some("main"));
        lanes.find(|lane| lane.total == (30, 3));
        assert_eq!(lanes.current().call.as_deref(), Some("two"));
        lanes.end_call("two");
        assert!(lanes.is_main());
        lanes.enter("c", Some("main"));
        assert_eq!(lanes.current().call.as_deref(), Some("c"));
    }
}
