//! How Gemini CLI says that it failed: error types in its output, and exit codes of its own.

use serde::Deserialize;

use sabir_core::dialect::{End, Verdict};
use sabir_core::event::{Cause, Outcome};
use sabir_core::json::{self, Str};

/// The error of a tool or of the run.
#[derive(Deserialize)]
pub(super) struct Failure<'a> {
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) r#type: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) message: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    code: Option<u16>,
}

impl Failure<'_> {
    /// How a run with this error ended.
    pub(super) fn ending(&self) -> (Outcome, Cause) {
        let message = self.message.as_deref().unwrap_or_default();
        match self.r#type.as_deref().unwrap_or_default() {
            "FatalTurnLimitedError" => (Outcome::Limited, Cause::MaxTurns),
            "FatalAuthenticationError" => (Outcome::Failed, Cause::Auth),
            "FatalInputError" | "FatalConfigError" => (Outcome::Failed, Cause::BadUsage),
            "FatalUntrustedWorkspaceError" => (Outcome::Failed, Cause::Permission),
            "FatalCancellationError" => (Outcome::Cancelled, Cause::Unknown),
            _ => of_message(self.code.or_else(|| http_status(message)), message),
        }
    }
}

/// How a run with such a message ended.
pub(super) fn of_message(status: Option<u16>, message: &str) -> (Outcome, Cause) {
    // The lines after the first one are advice, with words of its own such as "auth".
    let message = message.lines().next().unwrap_or_default();
    if message.contains("session turns") {
        return (Outcome::Limited, Cause::MaxTurns);
    }
    // Its own exit codes are in the same field as HTTP statuses.
    let (own, status) = match status {
        Some(code) if code < 256 => (of_exit_code(i32::from(code)), None),
        status => (None, status),
    };
    own.unwrap_or_else(|| match Cause::of_error(status, message) {
        cause @ Cause::ContextExhausted => (Outcome::Limited, cause),
        cause => (Outcome::Failed, cause),
    })
}

/// The status in the provider's answer, which the message quotes as JSON.
fn http_status(message: &str) -> Option<u16> {
    let (_, after) = message.split_once("\"code\":")?;
    let after = after.trim_start();
    let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    after.get(..digits)?.parse().ok()
}

/// What its exit code stands for. The status of a failed request is the exit code too, as far as eight bits hold it.
fn of_exit_code(code: i32) -> Option<(Outcome, Cause)> {
    match code {
        41 => Some((Outcome::Failed, Cause::Auth)),
        42 | 52 => Some((Outcome::Failed, Cause::BadUsage)),
        53 => Some((Outcome::Limited, Cause::MaxTurns)),
        55 => Some((Outcome::Failed, Cause::Permission)),
        144..=255 => Some((Outcome::Failed, Cause::of_error(u16::try_from(code + 256).ok(), ""))),
        _ => None,
    }
}

/// Lets the exit code say why a run failed whose output does not.
pub(super) fn with_exit_code(mut verdict: Verdict, end: &End) -> Verdict {
    let untold = matches!(verdict.cause, None | Some(Cause::Unknown));
    if untold
        && (verdict.outcome != Outcome::Completed || verdict.exit_code_decides)
        && let Some((outcome, cause)) = end.exit_code.and_then(of_exit_code)
    {
        verdict.cause = Some(cause);
        verdict.outcome = outcome;
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::{of_exit_code, of_message};
    use sabir_core::event::{Cause, Outcome};

    #[test]
    fn exit_codes_are_its_own_or_the_http_status() {
        assert_eq!(of_exit_code(41), Some((Outcome::Failed, Cause::Auth)));
        assert_eq!(of_exit_code(401 - 256), Some((Outcome::Failed, Cause::Auth)));
        assert_eq!(of_exit_code(429 - 256), Some((Outcome::Failed, Cause::RateLimited)));
        assert_eq!(of_exit_code(1), None);
    }

    #[test]
    fn only_the_first_line_of_a_message_tells_its_class() {
        let message = "[API Error: Rate limit reached.]\nTry again later or switch to another /auth method";
        assert_eq!(of_message(None, message), (Outcome::Failed, Cause::RateLimited));
        let message = "[API Error: {\"error\":{\"code\": 401,\"message\":\"no\"}}]";
        assert_eq!(of_message(super::http_status(message), message), (Outcome::Failed, Cause::Auth));
    }
}
