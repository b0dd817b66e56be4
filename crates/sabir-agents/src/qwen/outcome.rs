//! Outcome of a failed run: errors in brackets, and exit codes.

use sabir_core::dialect::{End, Verdict};
use sabir_core::event::{Cause, Outcome};

/// Prefix of the error of a provider, also where it is printed as text of the assistant.
const API_ERROR: &str = "[API Error: ";

/// Whether a text is the error of a provider instead of a response.
pub(super) fn is_api_error(text: &str) -> bool {
    text.trim_start().starts_with(API_ERROR)
}

/// Returns the outcome of a run that ends with an error, and its cause.
pub(super) fn of_error(message: &str) -> (Outcome, Cause) {
    // Further lines are advice.
    let message = message.trim_start().lines().next().unwrap_or_default();
    match Cause::of_error(http_status(message), message) {
        cause @ Cause::ContextExhausted => (Outcome::Limited, cause),
        cause => (Outcome::Failed, cause),
    }
}

/// Reads the HTTP status at the start of the error of a provider.
fn http_status(message: &str) -> Option<u16> {
    let error = message.strip_prefix(API_ERROR)?;
    let digits = error.find(|c: char| !c.is_ascii_digit()).unwrap_or(error.len());
    error.get(..digits)?.parse().ok().filter(|status| (400..600).contains(status))
}

/// Derives the outcome from the exit code if the output has none: limits are reported on stderr only.
pub(super) fn with_exit_code(mut verdict: Verdict, end: &End) -> Verdict {
    let is_unknown = verdict.outcome == Outcome::Incomplete || verdict.exit_code_decides;
    let limit = match end.exit_code {
        Some(53) => Some((Outcome::Limited, Cause::MaxTurns)),
        // Limit of time or of tool calls.
        Some(55) => Some((Outcome::Limited, Cause::Unknown)),
        _ => None,
    };
    if let Some((outcome, cause)) = limit.filter(|_| is_unknown) {
        verdict.outcome = outcome;
        verdict.cause = Some(cause);
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::of_error;
    use sabir_core::event::{Cause, Outcome};

    #[test]
    fn of_error_reads_the_status_and_the_first_line() {
        assert_eq!(of_error("[API Error: 400 Invalid value]"), (Outcome::Failed, Cause::InvalidRequest));
        assert_eq!(of_error("[API Error: 429 Slow down.]\nor use another /auth method"), (Outcome::Failed, Cause::RateLimited));
        assert_eq!(of_error("[API Error: Connection error. (cause: fetch failed)]"), (Outcome::Failed, Cause::Network));
        assert_eq!(of_error("Missing API key for the provider."), (Outcome::Failed, Cause::Auth));
    }
}
