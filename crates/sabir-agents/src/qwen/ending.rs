//! How Qwen Code says that it failed: a message in brackets, and exit codes of its own.

use sabir_core::dialect::{End, Verdict};
use sabir_core::event::{Cause, Outcome};

/// What it puts in front of a provider's complaint, also where it prints it as the assistant's words.
const API_ERROR: &str = "[API Error: ";

/// Whether a text is a complaint and not the model's.
pub(super) fn is_api_error(text: &str) -> bool {
    text.trim_start().starts_with(API_ERROR)
}

/// How a run with such an error ended.
pub(super) fn of_message(message: &str) -> (Outcome, Cause) {
    // The lines after the first one are advice.
    let message = message.trim_start().lines().next().unwrap_or_default();
    match Cause::of_error(http_status(message), message) {
        cause @ Cause::ContextExhausted => (Outcome::Limited, cause),
        cause => (Outcome::Failed, cause),
    }
}

/// The complaint of a provider starts with the status of its answer.
fn http_status(message: &str) -> Option<u16> {
    let complaint = message.strip_prefix(API_ERROR)?;
    let digits = complaint.find(|c: char| !c.is_ascii_digit()).unwrap_or(complaint.len());
    complaint.get(..digits)?.parse().ok().filter(|status| (400..600).contains(status))
}

/// Lets the exit code say why a run ended whose output does not: limits are told on standard error alone.
pub(super) fn with_exit_code(mut verdict: Verdict, end: &End) -> Verdict {
    let untold = verdict.outcome == Outcome::Incomplete || verdict.exit_code_decides;
    let ending = match end.exit_code {
        Some(53) => Some((Outcome::Limited, Cause::MaxTurns)),
        // Time or number of tool calls; nothing tells which.
        Some(55) => Some((Outcome::Limited, Cause::Unknown)),
        _ => None,
    };
    if let Some((outcome, cause)) = ending.filter(|_| untold) {
        verdict.outcome = outcome;
        verdict.cause = Some(cause);
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::of_message;
    use sabir_core::event::{Cause, Outcome};

    #[test]
    fn the_status_comes_first_and_only_the_first_line_counts() {
        assert_eq!(of_message("[API Error: 400 Invalid value]"), (Outcome::Failed, Cause::InvalidRequest));
        assert_eq!(of_message("[API Error: 429 Slow down.]\nor use another /auth method"), (Outcome::Failed, Cause::RateLimited));
        assert_eq!(of_message("[API Error: Connection error. (cause: fetch failed)]"), (Outcome::Failed, Cause::Network));
        assert_eq!(of_message("Missing API key for the provider."), (Outcome::Failed, Cause::Auth));
    }
}
