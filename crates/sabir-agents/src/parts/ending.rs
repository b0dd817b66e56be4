//! How a session ended. No event says so in a word: the last step's reason and the errors do.

use sabir_core::dialect::{Facts, Held, Verdict};
use sabir_core::event::{Cause, ErrorEvent, Final, Outcome};

use super::wire::Failure;

/// Follows the steps of the main session.
#[derive(Default)]
pub(crate) struct Ending {
    /// Why the last step ended; `None` while one is open.
    reason: Option<String>,
    /// The text of the last step, when it may be the answer.
    answer: Held,
    /// The error that came after the last step began.
    failure: Option<(Outcome, Option<Cause>)>,
    /// A tool call of the last step was refused, after which the session may stop without a word.
    denied: bool,
}

impl Ending {
    /// A step begins: what came before was not the end.
    pub(crate) fn step_start(&mut self) {
        *self = Self::default();
    }

    /// The open step says something.
    pub(crate) fn text(&mut self, text: &str) {
        self.answer.push(text);
    }

    /// A tool call was refused.
    pub(crate) fn denied(&mut self) {
        self.denied = true;
    }

    /// The step is over.
    pub(crate) fn step_finish(&mut self, reason: Option<&str>) {
        self.reason = Some(reason.unwrap_or("unknown").to_owned());
    }

    /// An error that ends the session, unless another step follows.
    pub(crate) fn fail<'a>(&mut self, failure: Failure<'a>, facts: &mut Facts<'a>) {
        let (outcome, cause) = judge(&failure);
        self.failure = Some((outcome, cause));
        facts.push(error(failure, cause, true));
    }

    /// Whether the model is not asked again after the last step.
    pub(super) fn is_final(&self) -> bool {
        self.failure.is_some() || self.reason.as_deref().is_some_and(|reason| !matches!(reason, "tool-calls" | "unknown"))
    }

    /// How the session ended, if it `ended` at all, and its answer.
    pub(crate) fn verdict(&mut self, ended: bool, facts: &mut Facts<'static>) -> Verdict {
        let reason = self.reason.as_deref();
        let (outcome, cause) = match (self.failure, reason) {
            (Some(failure), _) => failure,
            (None, _) if !ended => (Outcome::Incomplete, None),
            (None, Some("length")) => (Outcome::Limited, None),
            (None, Some("content-filter")) => (Outcome::Refused, Some(Cause::Refusal)),
            (None, Some("error")) => (Outcome::Failed, Some(Cause::Unknown)),
            // After these the model is asked again; when it was not, something kept the agent from it.
            (None, None | Some("tool-calls" | "unknown")) => (Outcome::Incomplete, self.denied.then_some(Cause::Permission)),
            (None, Some(_)) => (Outcome::Completed, None),
        };
        if matches!(outcome, Outcome::Completed | Outcome::Limited) && !self.answer.is_blank() {
            facts.push(Final::new(self.answer.take()));
        }
        Verdict { cause, stop_reason: reason.map(str::to_owned), ..Verdict::of(outcome) }
    }
}

/// An error as an event.
pub(crate) fn error(failure: Failure<'_>, class: Option<Cause>, fatal: bool) -> ErrorEvent<'_> {
    let message = failure.data.and_then(|data| data.message).unwrap_or(failure.name);
    ErrorEvent::new(message.0).class(class).fatal(fatal)
}

/// What an error means for the session.
pub(crate) fn judge(failure: &Failure<'_>) -> (Outcome, Option<Cause>) {
    let data = failure.data.as_ref();
    match &*failure.name {
        "MessageAbortedError" => (Outcome::Cancelled, None),
        "MessageOutputLengthError" => (Outcome::Limited, None),
        "ContextOverflowError" => (Outcome::Limited, Some(Cause::ContextExhausted)),
        "ContentFilterError" => (Outcome::Refused, Some(Cause::Refusal)),
        "ProviderAuthError" => (Outcome::Failed, Some(Cause::Auth)),
        "ProviderModelNotFoundError" => (Outcome::Failed, Some(Cause::ModelNotFound)),
        _ => {
            let message = data.and_then(|data| data.message.as_deref()).unwrap_or(&failure.name);
            (Outcome::Failed, Some(Cause::of_error(data.and_then(|data| data.status_code), message)))
        }
    }
}
