//! What Codex says when something goes wrong. A retry and a fatal error look the same but for their words.

use std::borrow::Cow;

use sabir_core::dialect::Verdict;
use sabir_core::event::{Cause, ErrorEvent, EventKind, Outcome, Retry};

/// Tells retries from errors and remembers how the run failed.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    attempt: u32,
    /// Message and class of the error that ended the run, as far as is known.
    fatal: Option<(String, Cause)>,
}

impl Trouble {
    /// The event for a message that may announce a retry; `None` when it does not.
    pub(super) fn retry<'a>(&mut self, message: &Cow<'a, str>) -> Option<Retry<'a>> {
        let (attempt, max_attempts, delay_ms) = retry_of(message)?;
        self.attempt = attempt.unwrap_or(self.attempt.saturating_add(1)).max(1);
        Some(Retry::new(self.attempt, message.clone()).max_attempts(max_attempts).delay_ms(delay_ms))
    }

    /// The event for an error that ends the run; `None` when it was said before.
    pub(super) fn fatal<'a>(&mut self, message: Cow<'a, str>) -> Option<ErrorEvent<'a>> {
        if self.fatal.as_ref().is_some_and(|(said, _)| *said == message) {
            return None;
        }
        let class = Cause::of_error(status_in(&message), &message);
        self.fatal = Some((message.clone().into_owned(), class));
        Some(ErrorEvent::new(message).class(class).fatal(true))
    }

    /// The event for a message that is a retry or an error that ends the run.
    pub(super) fn retry_or_fatal<'a>(&mut self, message: Cow<'a, str>) -> Option<EventKind<'a>> {
        self.retry(&message).map(EventKind::from).or_else(|| self.fatal(message).map(EventKind::from))
    }

    /// The run went on after all.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// How the run failed, if it did.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        let (message, class) = self.fatal.as_ref()?;
        let outcome = match class {
            Cause::ContextExhausted => Outcome::Limited,
            _ if message.contains("content_filter") => {
                return Some(Verdict { cause: Some(Cause::Refusal), ..Verdict::of(Outcome::Refused) });
            }
            _ => Outcome::Failed,
        };
        Some(Verdict { cause: Some(*class), ..Verdict::of(outcome) })
    }
}

/// Attempt, attempts in all and wait of a message such as `Reconnecting... 1/5 (…)` or `…; retrying 2/5 in 412ms…`.
fn retry_of(message: &str) -> Option<(Option<u32>, Option<u32>, Option<u64>)> {
    let rest = match message.strip_prefix("Reconnecting...") {
        Some(rest) => rest,
        None => message.rsplit_once("; retrying ")?.1,
    };
    let mut words = rest.split_whitespace();
    let counts = words.next().and_then(|word| word.split_once('/'));
    let number = |text: &str| text.parse().ok();
    let (attempt, max) = counts.map_or((None, None), |(attempt, max)| (number(attempt), number(max)));
    let delay = words.next().filter(|word| *word == "in").and_then(|_| words.next());
    Some((attempt, max, delay.and_then(|word| millis_of(word.trim_end_matches('…')))))
}

/// A duration as Codex prints it for people: `186ms`, `1.25s`, `2m 05s` (of which the first word is looked at).
pub(super) fn millis_of(text: &str) -> Option<u64> {
    if let Some(millis) = text.strip_suffix("ms") {
        return millis.parse().ok();
    }
    if let Some(seconds) = text.strip_suffix('s') {
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        let fraction: String = fraction.chars().chain(std::iter::repeat('0')).take(3).collect();
        return whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(fraction.parse().ok()?);
    }
    text.strip_suffix('m')?.parse::<u64>().ok()?.checked_mul(60_000)
}

/// The HTTP status that a message names, as in `unexpected status 401 Unauthorized` or `last status: 429 …`.
fn status_in(message: &str) -> Option<u16> {
    let digits = message.split_once("status")?.1.trim_start_matches([':', ' ']).get(..3)?;
    digits.parse().ok().filter(|status| (100..600).contains(status))
}

#[cfg(test)]
mod tests {
    use super::{Trouble, millis_of, retry_of, status_in};
    use sabir_core::event::{Cause, Outcome};

    #[test]
    fn retries_of_all_versions_are_told_from_errors() {
        assert_eq!(retry_of("Reconnecting... 2/5 (stream disconnected)"), Some((Some(2), Some(5), None)));
        assert_eq!(retry_of("Reconnecting... waiting for network (no route)"), Some((None, None, None)));
        let old = "stream error: last status: 429 Too Many Requests; retrying 1/2 in 218ms…";
        assert_eq!(retry_of(old), Some((Some(1), Some(2), Some(218))));
        assert_eq!(retry_of("exceeded retry limit, last status: 429 Too Many Requests"), None);
    }

    #[test]
    fn durations_are_read_as_printed() {
        assert_eq!(millis_of("8ms"), Some(8));
        assert_eq!(millis_of("1.25s"), Some(1_250));
        assert_eq!(millis_of("2m"), Some(120_000));
        assert_eq!(millis_of("soon"), None);
    }

    #[test]
    fn the_class_comes_from_the_status() {
        assert_eq!(status_in("unexpected status 401 Unauthorized: "), Some(401));
        assert_eq!(status_in("exceeded retry limit, last status: 429 Too Many Requests"), Some(429));
        assert_eq!(status_in("status unknown"), None);
    }

    #[test]
    fn an_error_is_said_once_and_decides_the_outcome() {
        let mut trouble = Trouble::default();
        assert!(trouble.fatal("unexpected status 401 Unauthorized: ".into()).is_some());
        assert!(trouble.fatal("unexpected status 401 Unauthorized: ".into()).is_none());
        let verdict = trouble.verdict().map(|verdict| (verdict.outcome, verdict.cause));
        assert_eq!(verdict, Some((Outcome::Failed, Some(Cause::Auth))));
    }
}
