//! What the user may do about a run that did not complete.

use sabir_core::agent::Agent;
use sabir_core::event::{Cause, Outcome, Timeout};

/// Advice for a run of that agent which ended like this.
pub(crate) fn after(agent: &Agent, outcome: Outcome, cause: Option<Cause>, timeout: Option<Timeout>) -> Option<String> {
    let id = &agent.id;
    match (outcome, cause) {
        (Outcome::TimedOut, _) => timeout.map(|limit| {
            let (what, flag) = match limit {
                Timeout::Run => ("the run took longer than it may", "--timeout"),
                Timeout::FirstOutput => ("nothing came after the start", "--first-output-timeout"),
                Timeout::Tool => ("a tool took longer than it may", "--tool-timeout"),
                Timeout::AfterResult => ("it did not leave after its result", "--exit-timeout"),
                _ => ("it fell silent, or closed its output and stayed", "--idle-timeout"),
            };
            format!("{what}; {flag} sets the limit")
        }),
        (_, Some(Cause::Auth)) if !agent.launch.keys.is_empty() => {
            Some(format!("log in with {id} itself, or set {}; `sabir doctor {id}` checks it", agent.launch.keys.join(" or ")))
        }
        (_, Some(Cause::RateLimited | Cause::Overloaded)) => {
            Some("the model's provider turns requests away; try again later".to_owned())
        }
        (_, Some(Cause::ContextExhausted)) => Some("the conversation is too long for the model; start a new session".to_owned()),
        (_, Some(Cause::MaxTurns)) => {
            Some(format!("it used up its turns; go on with `sabir run {id} --continue`, or raise --max-turns"))
        }
        (_, Some(Cause::Budget)) => Some("it spent what it may; raise --max-cost".to_owned()),
        (_, Some(Cause::ModelNotFound)) => Some("--model names the model, in the agent's own words".to_owned()),
        (_, Some(Cause::Permission)) => Some("--permission says what it may do without asking".to_owned()),
        (_, Some(Cause::Network)) => {
            Some("the model's provider can't be reached; check the network and the proxy variables".to_owned())
        }
        (Outcome::Incomplete, _) => {
            Some(format!("it stopped without saying that it was done; `sabir doctor {id}` checks its installation"))
        }
        _ => None,
    }
}
