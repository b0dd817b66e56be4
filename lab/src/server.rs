//! The model server: HTTP on the loopback interface, answers from a script, and a record of what was served.

mod body;
mod route;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::script::{Lane, Reply, Request, Script, Step, Usage};
use crate::truth::{self, Exchange, Served, Truth};

/// The time of creation that responses carry: a run of the lab says the same on any day.
pub(crate) const CREATED: u64 = 1_790_000_000;

/// What a reply costs that the CLI asks for by itself.
const AUXILIARY_USAGE: Usage = Usage { uncached_input: 17, cache_read: 0, cache_write: 0, output: 5, reasoning: 0 };

/// What the model says when the script is over.
const OVER: &str = "The script is over.";

/// What a response says about itself.
pub(crate) struct Context {
    /// The number of the response, for its ids.
    pub(crate) id: String,
    /// The model that was asked for.
    pub(crate) model: String,
}

/// How far the server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Requests for the agent.
    pub requests: usize,
    /// Deltas that were handed over in the agent's lane.
    pub deltas: usize,
    /// Tool calls in replies that came to their end.
    pub calls: usize,
    /// Clients that went away before their reply came to its end.
    pub gone: usize,
}

/// A running server. It stops when it is dropped.
pub struct Server {
    address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

/// What the connections share.
pub(crate) struct State {
    run: Mutex<Run>,
    progress: watch::Sender<Progress>,
    /// Deltas that gated replies may still send.
    gate: Semaphore,
}

/// A script and what became of it.
struct Run {
    script: Script,
    position: usize,
    exchanges: Vec<Exchange>,
    after_the_script: u64,
    last_request: String,
    other_requests: Vec<String>,
}

impl Run {
    fn new(script: Script) -> Run {
        Run {
            script,
            position: 0,
            exchanges: Vec::new(),
            after_the_script: 0,
            last_request: String::new(),
            other_requests: Vec::new(),
        }
    }

    /// The answer to the agent's next request.
    fn next_step(&mut self) -> Step {
        let position = self.position;
        self.position += 1;
        if let Some(step) = self.script.steps.get(position) {
            return step.clone();
        }
        match self.script.steps.last() {
            Some(step) if self.script.repeat_last => step.clone(),
            _ => {
                self.after_the_script += 1;
                Step::Reply(Reply::text(OVER, AUXILIARY_USAGE))
            }
        }
    }

    fn truth(&self) -> Truth {
        let mut truth = truth::fold(&self.exchanges);
        truth.after_the_script = self.after_the_script;
        truth.last_request.clone_from(&self.last_request);
        truth.other_requests.clone_from(&self.other_requests);
        truth
    }
}

impl Server {
    /// Starts to serve a script, on a port of the system's choice.
    pub async fn start(script: Script) -> io::Result<Server> {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let run = Mutex::new(Run::new(script));
        let state = Arc::new(State { run, progress: watch::Sender::default(), gate: Semaphore::new(0) });
        let router = Router::new()
            .fallback(route::answer)
            // A conversation with a megabyte of tool output comes back with every request.
            .layer(DefaultBodyLimit::disable())
            .with_state(Arc::clone(&state));
        let task = tokio::spawn(async move {
            // It ends only with the task.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Server { address, state, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was served so far.
    pub fn truth(&self) -> Truth {
        self.state.run().truth()
    }

    /// Serves another script at the same address, and says what was served of the last one.
    pub fn load(&self, script: Script) -> Truth {
        let before = std::mem::replace(&mut *self.state.run(), Run::new(script));
        self.state.progress.send_replace(Progress::default());
        before.truth()
    }

    /// Lets so many deltas of gated replies through.
    pub fn release(&self, deltas: usize) {
        self.state.gate.add_permits(deltas);
    }

    /// Waits until the server has come so far.
    pub async fn reached(&self, far_enough: impl FnMut(&Progress) -> bool) {
        // The sender lives as long as the server.
        let _ = self.state.progress.subscribe().wait_for(far_enough).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        self.state.gate.close();
    }
}

/// A reply on its way: which exchange it belongs to.
#[derive(Clone, Copy)]
pub(crate) struct Ticket {
    exchange: usize,
    lane: Lane,
    calls: usize,
}

impl State {
    fn run(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the answer to a request from the script, and notes it.
    fn take(&self, request: &Request) -> (Context, Ticket, Step) {
        let mut run = self.run();
        let lane = (run.script.lane)(request);
        let step = match lane {
            Lane::Main => run.next_step(),
            Lane::Auxiliary => Step::Reply(Reply::text((run.script.auxiliary)(request), AUXILIARY_USAGE)),
        };
        if lane == Lane::Main {
            run.last_request = request.body.to_string();
        }
        let served = match &step {
            Step::Failure(failure) => Served::Failure(failure.clone()),
            Step::Reply(reply) => Served::Reply { reply: reply.clone(), sent: String::new(), complete: false },
        };
        let calls = if let Step::Reply(reply) = &step { reply.calls().count() } else { 0 };
        let exchange = run.exchanges.len();
        run.exchanges.push(Exchange { api: request.api, lane, served });
        drop(run);
        if lane == Lane::Main {
            self.progress.send_modify(|progress| progress.requests += 1);
        }
        let context = Context { id: format!("lab{:04}", exchange + 1), model: request.model.clone() };
        (context, Ticket { exchange, lane, calls }, step)
    }

    /// Notes a request that is for no model.
    fn other(&self, request: String) {
        self.run().other_requests.push(request);
    }

    /// Notes a delta that is handed over.
    fn delta(&self, ticket: Ticket, text: Option<&str>) {
        if let Some(Exchange { served: Served::Reply { sent, .. }, .. }) = self.run().exchanges.get_mut(ticket.exchange) {
            sent.push_str(text.unwrap_or_default());
        }
        if ticket.lane == Lane::Main {
            self.progress.send_modify(|progress| progress.deltas += 1);
        }
    }

    /// Notes that a client has gone away before the end of its reply.
    fn gone(&self) {
        self.progress.send_modify(|progress| progress.gone += 1);
    }

    /// Notes that a reply comes to its end.
    fn complete(&self, ticket: Ticket) {
        if let Some(Exchange { served: Served::Reply { complete, .. }, .. }) = self.run().exchanges.get_mut(ticket.exchange) {
            *complete = true;
        }
        if ticket.lane == Lane::Main {
            self.progress.send_modify(|progress| progress.calls += ticket.calls);
        }
    }
}
