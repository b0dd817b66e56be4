//! Outcome of a session, derived from the finish reason of the last step and from errors: no event states it.

use sabir_core::dialect::{Facts, Held, Verdict};
use sabir_core::event::{Cause, ErrorEvent, Final, Outcome};

use super::wire::Failure;

/// Tracks the steps of the main session.
#[derive(Default)]
pub(crate) struct OutcomeTracker {
    /// Finish reason of the last step; `None` while a step is open.
    reason: Option<String>,
    /// Text of the last step, which may be the answer.
    answer: Held,
    /// Outcome and cause of the error after the start of the last step.
    failure: Option<(Outcome, Option<Cause>)>,
    /// Whether a tool call of the last step was denied, after which the session may stop without an event.
    denied: bool,
}

impl OutcomeTracker {
    /// Starts a step, so that the previous step was not the last one.
    pub(crate) fn step_start(&mut self) {
        *self = Self::default();
    }

    /// Appends text to the open step.
    pub(crate) fn text(&mut self, text: &str) {
        self.answer.push(text);
    }

    /// Records that a tool call was denied.
    pub(crate) fn denied(&mut self) {
        self.denied = true;
    }

    /// Finishes the open step.
    pub(crate) fn step_finish(&mut self, reason: Option<&str>) {
        self.reason = Some(reason.unwrap_or("unknown").to_owned());
    }

    /// Reports an error that ends the session unless another step follows.
    pub(crate) fn fail<'a>(&mut self, failure: Failure<'a>, facts: &mut Facts<'a>) {
        let (outcome, cause) = classify_error(&failure);
        self.failure = Some((outcome, cause));
        facts.push(error(failure, cause, true));
    }

    /// Whether no model request follows the last step.
    pub(super) fn is_final(&self) -> bool {
        self.failure.is_some() || self.reason.as_deref().is_some_and(|reason| !matches!(reason, "tool-calls" | "unknown"))
    }

    /// Returns the outcome of the session, [`Outcome::Incomplete`] unless it `ended`, and pushes the answer.
    pub(crate) fn verdict(&mut self, ended: bool, facts: &mut Facts<'static>) -> Verdict {
        let reason = self.reason.as_deref();
        let (outcome, cause) = match (self.failure, reason) {
            (Some(failure), _) => failure,
            (None, _) if !ended => (Outcome::Incomplete, None),
            (None, Some("length")) => (Outcome::Limited, None),
            (None, Some("content-filter")) => (Outcome::Refused, Some(Cause::Refusal)),
            (None, Some("error")) => (Outcome::Failed, Some(Cause::Unknown)),
            // Another model request should follow these reasons, so the run was cut short.
            (None, None | Some("tool-calls" | "unknown")) => (Outcome::Incomplete, self.denied.then_some(Cause::Permission)),
            (None, Some(_)) => (Outcome::Completed, None),
        };
        if matches!(outcome, Outcome::Completed | Outcome::Limited) && !self.answer.is_blank() {
            facts.push(Final::new(self.answer.take()));
        }
        Verdict { cause, stop_reason: reason.map(str::to_owned), ..Verdict::of(outcome) }
    }
}

/// Converts an error to an event.
pub(crate) fn error(failure: Failure<'_>, class: Option<Cause>, fatal: bool) -> ErrorEvent<'_> {
    let message = failure.data.and_then(|data| data.message).unwrap_or(failure.name);
    ErrorEvent::new(message.0).class(class).fatal(fatal)
}

/// Returns the outcome of a session that ends with an error, and its cause.
pub(crate) fn classify_error(failure: &Failure<'_>) -> (Outcome, Option<Cause>) {
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
