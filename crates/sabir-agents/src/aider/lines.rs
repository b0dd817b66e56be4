//! The lines that mean something to a reader who is not a person.

use std::borrow::Cow;

/// A line that Aider prints around the model's words.
#[derive(Debug, PartialEq)]
pub(super) enum Mark<'t> {
    /// The end of an answer: what it cost.
    Tokens(Bill),
    /// An edit was made.
    Applied(&'t str),
    /// The changes were committed.
    Commit,
    /// The request failed and is made again after that many seconds.
    Retrying(f64),
    /// The person stopped it.
    Interrupted,
    /// The model's reasoning begins.
    Thinking,
    /// It is over, and the answer begins.
    Answer,
}

/// A figure as it is printed. From a thousand on it is rounded, so that it is not known.
pub(super) type Figure = Option<u64>;

/// What the line after an answer says.
#[derive(Debug, PartialEq, Default)]
pub(super) struct Bill {
    pub(super) sent: Figure,
    pub(super) received: Figure,
    /// Of all answers since Aider was started.
    pub(super) session_cost: Option<f64>,
}

/// The version in the first line of the head.
pub(super) fn version(line: &str) -> Option<&str> {
    let version = line.strip_prefix("Aider v")?.trim_end();
    version.starts_with(|c: char| c.is_ascii_digit()).then_some(version)
}

/// The model in the head.
pub(super) fn model(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("Main model: ").or_else(|| line.strip_prefix("Model: "))?;
    Some(rest.split(' ').next().unwrap_or(rest))
}

/// How an error of the model's provider begins: the name of an exception of the library that Aider asks it with.
pub(super) fn is_error(line: &str) -> bool {
    let name = line.strip_prefix("litellm.").and_then(|rest| rest.split_once(':')).map(|(name, _)| name);
    name.is_some_and(|name| {
        let named = name.ends_with("Error") || name.ends_with("Timeout") || name.ends_with("Exception");
        named && name.chars().all(|c| c.is_ascii_alphanumeric())
    })
}

/// Whether the line is a rule of dashes, as above the marks of reasoning and answer.
pub(super) fn is_rule(line: &str) -> bool {
    line.len() >= 10 && line.bytes().all(|byte| byte == b'-')
}

/// What a line means; `None` for words.
pub(super) fn mark(line: &str) -> Option<Mark<'_>> {
    let line = line.trim_end();
    if let Some(rest) = line.strip_prefix("Tokens: ") {
        return bill(rest).map(Mark::Tokens);
    }
    if let Some(path) = line.strip_prefix("Applied edit to ") {
        return Some(Mark::Applied(path));
    }
    if let Some(rest) = line.strip_prefix("Commit ") {
        let hash = rest.split(' ').next().unwrap_or("");
        let is_hash = hash.len() >= 7 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        return is_hash.then_some(Mark::Commit);
    }
    if let Some(rest) = line.strip_prefix("Retrying in ") {
        return rest.strip_suffix(" seconds...").and_then(|seconds| seconds.parse().ok()).map(Mark::Retrying);
    }
    match line {
        "^C again to exit" | "^C KeyboardInterrupt" => Some(Mark::Interrupted),
        "► **THINKING**" => Some(Mark::Thinking),
        "► **ANSWER**" => Some(Mark::Answer),
        _ => None,
    }
}

/// `2.6k sent, 6 received. Cost: $0.0065 message, $0.0065 session.`, with the cost and the cache where they are known.
fn bill(text: &str) -> Option<Bill> {
    let (tokens, cost) = match text.split_once(" Cost: ") {
        Some((tokens, cost)) => (tokens, Some(cost)),
        None => (text, None),
    };
    let mut bill = Bill::default();
    let mut said = (false, false);
    for part in tokens.trim_end_matches('.').split(", ") {
        let (figure, what) = part.split_once(' ')?;
        match what {
            "sent" => (bill.sent, said.0) = (exact(figure)?, true),
            "received" => (bill.received, said.1) = (exact(figure)?, true),
            "cache write" | "cache hit" => {}
            _ => return None,
        }
    }
    let session = cost.and_then(|cost| cost.split(", ").find_map(|part| part.trim_end_matches('.').strip_suffix(" session")));
    bill.session_cost = session.and_then(|cost| cost.strip_prefix('$')?.parse().ok());
    (said == (true, true)).then_some(bill)
}

/// `None` when it is no figure, `Some(None)` when it is rounded.
fn exact(figure: &str) -> Option<Figure> {
    let thousands = figure.strip_suffix('k');
    let plain: Cow<'_, str> = Cow::Borrowed(thousands.unwrap_or(figure));
    let value: f64 = plain.replace(',', "").parse().ok()?;
    (value.is_finite() && value >= 0.0).then(|| figure.parse().ok().filter(|_| thousands.is_none()))
}

#[cfg(test)]
mod tests {
    use super::{Bill, Mark, is_error, mark, model, version};

    #[test]
    fn the_bill_is_exact_only_below_a_thousand() {
        let bill = |sent, received, session_cost| Some(Mark::Tokens(Bill { sent, received, session_cost }));
        let line = "Tokens: 2.6k sent, 6 received. Cost: $0.0065 message, $0.0130 session.";
        assert_eq!(mark(line), bill(None, Some(6), Some(0.013)));
        assert_eq!(mark("Tokens: 900 sent, 1.2k cache hit, 50 received."), bill(Some(900), Some(50), None));
        assert_eq!(mark("Tokens: are what models read"), None);
        assert_eq!(mark("Tokens: NaN sent, 1 received."), None);
    }

    #[test]
    fn words_are_not_marks() {
        assert_eq!(mark("Applied edit to src/a b.py"), Some(Mark::Applied("src/a b.py")));
        assert_eq!(mark("Commit 6b3ac7f fix: add"), Some(Mark::Commit));
        assert_eq!(mark("Commit the change first."), None);
        assert_eq!(mark("Retrying in 0.5 seconds..."), Some(Mark::Retrying(0.5)));
        assert_eq!(mark("An answer."), None);
    }

    #[test]
    fn head_and_errors() {
        assert_eq!(version("Aider v0.86.2"), Some("0.86.2"));
        assert_eq!(version("Aider very"), None);
        assert_eq!(model("Main model: openai/gpt-4o with diff edit format"), Some("openai/gpt-4o"));
        assert!(is_error("litellm.AuthenticationError: AuthenticationError: OpenAIException - Incorrect"));
        assert!(!is_error("litellm.completion() is called: so"));
    }
}
