//! How a run ended: what the `result` says, unless the session failed or was stopped before it.

use sabir_core::dialect::{Facts, Held, Verdict};
use sabir_core::event::{Cause, ErrorEvent, Final, Outcome};
use sabir_core::json::Str;

use super::wire::{Data, Times};

/// Follows the main agent.
#[derive(Default)]
pub(super) struct Ending {
    answer: Held,
    /// The error that came after the last turn began.
    failure: Option<Failed>,
    /// Why the agent was stopped.
    aborted: Option<String>,
    /// The agent waits for the next prompt, which will not come.
    idle: bool,
    exit_code: Option<i32>,
    times: Option<Times>,
}

struct Failed {
    message: String,
    cause: Cause,
    told: bool,
}

impl Ending {
    /// Whether the result came.
    pub(super) fn told(&self) -> bool {
        self.exit_code.is_some()
    }

    /// Whether an answer was given and nothing went wrong after it.
    pub(super) fn answered(&self) -> bool {
        !self.answer.is_blank() && self.failure.is_none() && self.aborted.is_none()
    }

    /// Another prompt: what was said before is not the answer to it.
    pub(super) fn prompt(&mut self, facts: &mut Facts<'_>) {
        self.turn(facts);
        self.answer.clear();
    }

    /// A turn begins: what came before was not the end.
    pub(super) fn turn(&mut self, facts: &mut Facts<'_>) {
        self.tell_failure(false, facts);
        let answer = std::mem::take(&mut self.answer);
        *self = Self { answer, ..Self::default() };
    }

    /// The agent said something; what comes with tool calls is not the answer.
    pub(super) fn message(&mut self, content: &str, preamble: bool) {
        if preamble {
            self.answer.clear();
        } else if !content.trim().is_empty() {
            self.answer.set(content);
        }
    }

    /// The agent itself says that its task is done.
    pub(super) fn task_complete(&mut self, summary: Option<Str<'_>>) {
        if let Some(summary) = summary.filter(|_| self.answer.is_blank()) {
            self.answer.set(&summary);
        }
    }

    /// The session failed, unless another turn follows.
    pub(super) fn fail(&mut self, data: &Data<'_>, facts: &mut Facts<'_>) {
        self.tell_failure(false, facts);
        let (message, cause) = error(data);
        self.failure = Some(Failed { message, cause, told: false });
    }

    /// Somebody, or a limit, stopped the agent.
    pub(super) fn abort(&mut self, reason: Option<Str<'_>>) {
        let reason = reason.map(|reason| reason.0.into_owned());
        self.aborted = Some(reason.or(self.aborted.take()).unwrap_or_default());
    }

    /// The agent is done with the prompt.
    pub(super) fn idle(&mut self, aborted: bool, facts: &mut Facts<'_>) {
        self.idle = true;
        if aborted {
            self.abort(None);
        }
        self.tell_failure(true, facts);
    }

    /// The run is over.
    pub(super) fn result(&mut self, exit_code: Option<i32>, times: Option<Times>, facts: &mut Facts<'_>) {
        self.exit_code = exit_code;
        self.times = times;
        self.idle = true;
        self.tell_failure(true, facts);
    }

    fn tell_failure(&mut self, fatal: bool, facts: &mut Facts<'_>) {
        if let Some(failed) = self.failure.as_mut().filter(|failed| !failed.told) {
            failed.told = true;
            facts.push(ErrorEvent::new(failed.message.clone()).class(failed.cause).fatal(fatal));
        }
    }

    /// How it ended, and the answer.
    pub(super) fn verdict(&mut self, facts: &mut Facts<'static>) -> Verdict {
        self.tell_failure(self.idle, facts);
        let (outcome, cause) = match (&self.aborted, &self.failure, self.exit_code) {
            (Some(reason), ..) if reason.ends_with("_limit") => (Outcome::Limited, Some(Cause::Budget)),
            (Some(_), ..) => (Outcome::Cancelled, None),
            (None, Some(failed), _) if self.idle => (Outcome::Failed, Some(failed.cause)),
            (None, failure, None) => (Outcome::Incomplete, failure.as_ref().map(|failed| failed.cause)),
            (None, _, Some(0)) => (Outcome::Completed, None),
            (None, _, Some(_)) => (Outcome::Failed, Some(Cause::Unknown)),
        };
        if matches!(outcome, Outcome::Completed | Outcome::Limited) && !self.answer.is_blank() {
            facts.push(Final::new(self.answer.take()));
        }
        Verdict {
            cause,
            stop_reason: self.aborted.take().filter(|reason| !reason.is_empty()),
            duration_ms: self.times.and_then(|times| times.session_duration_ms),
            api_duration_ms: self.times.and_then(|times| times.total_api_duration_ms),
            ..Verdict::of(outcome)
        }
    }
}

/// The message of a `session.error`, and its class.
pub(super) fn error(data: &Data<'_>) -> (String, Cause) {
    let message = data.message.as_deref().unwrap_or("the session failed");
    let cause = match data.error_type.as_deref() {
        Some("authentication" | "authorization") => Cause::Auth,
        Some("quota" | "rate_limit") => Cause::RateLimited,
        Some("context_limit") => Cause::ContextExhausted,
        _ => match Cause::of_error(data.status_code, message) {
            Cause::Unknown if message.contains("connect") => Cause::Network,
            cause => cause,
        },
    };
    (message.to_owned(), cause)
}
