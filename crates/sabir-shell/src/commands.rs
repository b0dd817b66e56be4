//! Remote commands: requests from the hub, and the replies to them.
//!
//! A command is recorded in the log and synced before it is executed, so it is not executed again after a restart. The hub
//! repeats a command until it receives the reply; repeated commands are only replied to.

use sabir_protocol::envelope::notes;
use sabir_protocol::{Order, OrderKind, Taken};

use crate::adapter::{Adapter, AdapterContext, AgentInput, InputRejected, RunFuture};
use crate::{RunnerError, session_log::SessionLog};

/// Effect of a command.
pub(crate) enum Effect {
    /// No further effect.
    None,
    /// A run to start.
    Start(RunFuture),
    /// Cancel the current run, with an optional reason.
    Cancel(Option<String>),
}

/// Handles the remote commands of one session.
#[derive(Debug, Default)]
pub struct CommandHandler {
    last_handled: u64,
    /// Replies to recent commands, in case they are repeated.
    replies: Vec<Taken>,
}

/// Number of cached replies. Older commands are known to have been handled, but not how.
const MAX_REPLIES: usize = 64;

impl CommandHandler {
    /// A handler for a session whose commands up to `last_handled` are handled.
    pub fn resume_after(last_handled: u64) -> Self {
        Self { last_handled, replies: Vec::new() }
    }

    /// Number of the last command handled.
    pub fn last_handled(&self) -> u64 {
        self.last_handled
    }

    /// Handles a command: decides, records the decision durably, then returns the reply and effect.
    pub(crate) fn handle(
        &mut self,
        command: &Order,
        context: &AdapterContext,
        adapter: &mut dyn Adapter,
    ) -> Result<(Taken, Effect), RunnerError> {
        if command.order <= self.last_handled {
            return Ok((self.repeated_reply(command.order), Effect::None));
        }
        let decision = decide(command, context, adapter);
        record(&context.log, command, decision.as_ref().err())?;
        self.last_handled = command.order;
        let mut effect = Effect::None;
        let mut rejected = decision.as_ref().err().cloned();
        match decision {
            Ok(Decision::Input(input)) => {
                if matches!(input, AgentInput::Prompt { .. }) && !context.busy {
                    // The log already contains the prompt.
                    context.log.begin_run(None);
                }
                match adapter.on_input(context, input) {
                    Ok(Some(work)) => effect = Effect::Start(work),
                    Ok(None) => {}
                    // The adapter rejects what it accepted before.
                    Err(rejection) => rejected = Some(rejection),
                }
            }
            Ok(Decision::Cancel(reason)) => effect = Effect::Cancel(reason.map(str::to_owned)),
            Err(_) => {}
        }
        let reply = Taken { order: command.order, accepted: rejected.is_none(), reason: rejected.map(|rejection| rejection.0) };
        self.replies.push(reply.clone());
        if self.replies.len() > MAX_REPLIES {
            self.replies.remove(0);
        }
        Ok((reply, effect))
    }

    fn repeated_reply(&self, number: u64) -> Taken {
        let cached = self.replies.iter().find(|reply| reply.order == number);
        // Handled by an earlier runner; the log has the decision.
        cached.cloned().unwrap_or(Taken { order: number, accepted: true, reason: None })
    }
}

enum Decision<'o> {
    Input(AgentInput<'o>),
    Cancel(Option<&'o str>),
}

fn decide<'o>(command: &'o Order, context: &AdapterContext, adapter: &dyn Adapter) -> Result<Decision<'o>, InputRejected> {
    let reject = |reason: &str| Err(InputRejected(reason.to_owned()));
    let input = match command.kind {
        OrderKind::Prompt => match &command.text {
            Some(text) => AgentInput::Prompt { text, new: false },
            None => return reject("the prompt has no text"),
        },
        OrderKind::Permission => match (&command.request_id, command.decision.as_deref()) {
            (Some(request_id), Some(decision @ ("allow" | "deny"))) => {
                AgentInput::Permission { request_id, allow: decision == "allow" }
            }
            _ => return reject("the answer names no question, or is neither allow nor deny"),
        },
        OrderKind::Cancel if context.busy => return Ok(Decision::Cancel(command.reason.as_deref())),
        OrderKind::Cancel => return reject("nothing is going on"),
        OrderKind::Unknown => return reject("this shell does not know what that means"),
    };
    adapter.accepts(context, input).map(|()| Decision::Input(input))
}

fn record(log: &SessionLog, command: &Order, rejected: Option<&InputRejected>) -> Result<(), RunnerError> {
    let text = match command.kind {
        OrderKind::Prompt => command.text.clone().unwrap_or_default(),
        OrderKind::Cancel => {
            format!("cancel{}", command.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default())
        }
        OrderKind::Permission => {
            let (decision, id) = (command.decision.as_deref().unwrap_or("?"), command.request_id.as_deref().unwrap_or("?"));
            format!("{decision} {id}")
        }
        OrderKind::Unknown => "an order of a kind that is not known".to_owned(),
    };
    log.command(&notes::Order {
        number: command.order,
        prompt: command.kind == OrderKind::Prompt,
        text: &text,
        by: command.by.as_deref(),
        refused: rejected.map(|rejection| rejection.0.as_str()),
    })
}
