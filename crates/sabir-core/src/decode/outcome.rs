//! How a run ended: the stream's own verdict first, then how its process ended.

use crate::dialect::{End, Verdict};
use crate::event::{Cause, Exited, Outcome};

/// The last event of a run.
pub(super) fn exited(verdict: Verdict, end: &End) -> Exited<'static> {
    let (outcome, cause) = judge(&verdict, end);
    Exited::new(outcome)
        .exit_code(end.exit_code)
        .signal(end.signal.clone())
        .cancelled(end.cancelled)
        .cause(cause)
        .timeout(end.timeout)
        .quiescent(end.quiescent)
        .stop_reason(verdict.stop_reason)
        .turns(verdict.turns)
        .duration_ms(verdict.duration_ms)
        .api_duration_ms(verdict.api_duration_ms)
}

/// A failed run never reads as success: what the stream says counts first, then the missing terminal sign, then exit
/// code and signal. A run that was answered and then stopped from outside is answered all the same.
fn judge(verdict: &Verdict, end: &End) -> (Outcome, Option<Cause>) {
    if let Some(failure) = &end.start_failed {
        return (Outcome::StartFailed, Some(failure.cause));
    }
    let stopped_from_outside = end.cancelled || end.timeout.is_some();
    let process_failure = || match (end.exit_code, &end.signal) {
        (_, Some(_)) => Some((Outcome::Crashed, Some(Cause::Signal))),
        (Some(code), None) if code != 0 => Some((Outcome::Failed, Some(verdict.cause.unwrap_or(Cause::Unknown)))),
        _ => None,
    };
    match verdict.outcome {
        Outcome::Completed if verdict.exit_code_decides && end.cancelled => (Outcome::Cancelled, None),
        Outcome::Completed if verdict.exit_code_decides && end.timeout.is_some() => (Outcome::TimedOut, Some(Cause::Timeout)),
        Outcome::Completed if stopped_from_outside => (Outcome::Completed, None),
        Outcome::Completed => process_failure().unwrap_or((Outcome::Completed, None)),
        Outcome::Incomplete if end.timeout.is_some() => (Outcome::TimedOut, Some(Cause::Timeout)),
        Outcome::Incomplete if end.cancelled => (Outcome::Cancelled, None),
        Outcome::Incomplete => process_failure().unwrap_or((Outcome::Incomplete, verdict.cause)),
        // An error that a stop from outside provokes is not the cause of the ending.
        Outcome::Failed if end.cancelled && verdict.cause.is_none() => (Outcome::Cancelled, None),
        outcome => (outcome, verdict.cause),
    }
}

#[cfg(test)]
mod tests {
    use super::judge;
    use crate::dialect::{End, Verdict};
    use crate::event::{Cause, Outcome, Timeout};

    fn ended(outcome: Outcome, end: &End) -> Outcome {
        judge(&Verdict::of(outcome), end).0
    }

    #[test]
    fn exit_code_and_signal_undo_a_success_unless_we_stopped_it() {
        let code = End { exit_code: Some(1), ..End::default() };
        let signal = End { signal: Some("SIGKILL".into()), ..End::default() };
        assert_eq!(ended(Outcome::Completed, &End::default()), Outcome::Completed);
        assert_eq!(ended(Outcome::Completed, &code), Outcome::Failed);
        assert_eq!(ended(Outcome::Completed, &signal), Outcome::Crashed);
        assert_eq!(ended(Outcome::Completed, &End { cancelled: true, ..signal.clone() }), Outcome::Completed);
        assert_eq!(ended(Outcome::Completed, &End { timeout: Some(Timeout::AfterResult), ..signal }), Outcome::Completed);
    }

    #[test]
    fn no_terminal_sign_is_never_a_success() {
        let zero = End { exit_code: Some(0), ..End::default() };
        assert_eq!(ended(Outcome::Incomplete, &zero), Outcome::Incomplete);
        assert_eq!(ended(Outcome::Incomplete, &End { cancelled: true, ..zero.clone() }), Outcome::Cancelled);
        assert_eq!(ended(Outcome::Incomplete, &End { timeout: Some(Timeout::Run), ..zero }), Outcome::TimedOut);
    }

    #[test]
    fn what_the_stream_says_comes_before_the_exit_code() {
        let verdict = Verdict::failed(Some(Cause::Auth));
        let end = End { exit_code: Some(0), ..End::default() };
        assert_eq!(judge(&verdict, &end), (Outcome::Failed, Some(Cause::Auth)));
    }
}
