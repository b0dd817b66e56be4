//! How Droid says that it failed: `error` lines whose message is what the provider answered.

use sabir_core::event::{Cause, Outcome};

/// How a run with such an error ended.
pub(super) fn of_message(message: &str) -> (Outcome, Cause) {
    if message.contains("content moderation") {
        return (Outcome::Refused, Cause::Refusal);
    }
    match Cause::of_error(http_status(message), message) {
        cause @ Cause::ContextExhausted => (Outcome::Limited, cause),
        cause => (Outcome::Failed, cause),
    }
}

/// The message of a failed request starts with its status.
fn http_status(message: &str) -> Option<u16> {
    let digits = message.find(|c: char| !c.is_ascii_digit()).unwrap_or(message.len());
    message.get(..digits)?.parse().ok().filter(|status| (400..600).contains(status))
}

#[cfg(test)]
mod tests {
    use super::of_message;
    use sabir_core::event::{Cause, Outcome};

    #[test]
    fn the_status_is_in_front_of_the_message() {
        assert_eq!(of_message("401 {\"type\":\"error\"}"), (Outcome::Failed, Cause::Auth));
        assert_eq!(of_message("400 {\"message\":\"prompt is too long\"}"), (Outcome::Limited, Cause::ContextExhausted));
        assert_eq!(of_message("Connection error."), (Outcome::Failed, Cause::Network));
        assert_eq!(of_message("Exec failed"), (Outcome::Failed, Cause::Unknown));
    }
}
