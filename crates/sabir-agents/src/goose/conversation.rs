//! Messages, as both JSON modes tell them, and how the conversation ended.
//!
//! Goose speaks in the model's place: an error, or the limit of turns, is a message of the assistant like any other, and
//! the exit code is 0. `complete` comes too when the run was interrupted or the model's stream was cut; then there are no
//! figures in it, at least when nothing was counted before.

use std::borrow::Cow;

use sabir_core::dialect::{End, Facts, Held, Verdict};
use sabir_core::event::{Activity, Cause, ErrorEvent, Final, Outcome, TextDelta, ThinkingDelta, TurnStart, Usage};
use sabir_core::json::Str;

use super::tools::Tools;
use super::wire::{Content, Figures, Message};

/// How an error begins that Goose tells as a message, and how it ends.
const ERROR_START: &str = "Ran into this error";
const ERROR_END: &str = "Please retry if you think this is a transient or recoverable error.";
/// What it says when it may do no more.
const LIMIT: &str = "I've reached the maximum number of actions I can do without user input";

/// Follows the conversation.
#[derive(Default)]
pub(super) struct Conversation {
    tools: Tools,
    /// The message that is being told.
    message: Option<String>,
    /// Its text, until a tool call shows that it was not the answer.
    answer: Held,
    /// The model has said something since the last tool gave its result.
    speaking: bool,
    failure: Option<Cause>,
    limited: bool,
    /// Whether the run is over, and the figures that came with that.
    complete: Option<Figures>,
}

/// What a text is that Goose says in the model's place.
#[derive(Debug, PartialEq)]
pub(super) enum Notice<'t> {
    Error(&'t str),
    Limit,
}

/// Tells Goose's own words from the model's. The model's messages have an id, or come in pieces.
pub(super) fn notice(text: &str, has_id: bool) -> Option<Notice<'_>> {
    if let Some(error) = text.strip_prefix(ERROR_START) {
        let whole = error.trim_end().strip_suffix(ERROR_END);
        let error = if has_id { whole? } else { whole.unwrap_or(error) };
        let error = error.strip_prefix(": ").unwrap_or(error).trim();
        return Some(Notice::Error(error.strip_suffix("..").unwrap_or(error)));
    }
    let rest = text.strip_prefix(LIMIT)?;
    (!has_id || rest == ". Would you like me to continue?").then_some(Notice::Limit)
}

impl Conversation {
    /// Reads a message, or a piece of one. False when a part of it is of no known type.
    pub(super) fn message<'a>(&mut self, message: Message<'a>, facts: &mut Facts<'a>) -> bool {
        let for_people = message.metadata.is_none_or(|metadata| metadata.user_visible != Some(false));
        let by_model = &*message.role == "assistant";
        let mut known = true;
        for content in message.content {
            known &= self.content(content, message.id.as_ref(), by_model, for_people, facts);
        }
        known
    }

    fn content<'a>(
        &mut self,
        content: Content<'a>,
        message_id: Option<&Str<'a>>,
        by_model: bool,
        for_people: bool,
        facts: &mut Facts<'a>,
    ) -> bool {
        let Content { r#type, text, thinking, msg, id, tool_call, tool_result } = content;
        match (&*r#type, text, thinking, id) {
            // What a person says, and what only the model is to see.
            ("text" | "thinking", ..) if !by_model || !for_people => {}
            ("text", Some(text), ..) => self.text(text, message_id, facts),
            ("thinking", _, Some(thinking), _) => {
                self.speak(message_id, facts);
                facts.push(ThinkingDelta::new(thinking).message_id(message_id.map(|id| id.0.clone())));
            }
            ("redactedThinking", ..) => self.speak(message_id, facts),
            ("toolRequest", _, _, Some(id)) => {
                let Some(call) = tool_call else { return false };
                self.speak(message_id, facts);
                self.answer.clear();
                self.tools.begin(id, &call, facts);
            }
            ("toolResponse", _, _, Some(id)) => {
                let Some(result) = tool_result else { return false };
                self.speaking = false;
                self.answer.clear();
                self.tools.end(id, result, facts);
            }
            ("systemNotification", ..) => {
                if let Some(message) = msg {
                    facts.push(Activity::new(message.0));
                }
            }
            _ => return false,
        }
        true
    }

    fn text<'a>(&mut self, text: Str<'a>, message_id: Option<&Str<'a>>, facts: &mut Facts<'a>) {
        match notice(&text, message_id.is_some()) {
            Some(Notice::Error(error)) => self.fail(error, facts),
            Some(Notice::Limit) => {
                self.limited = true;
                facts.push(Activity::new(text.0));
            }
            None => {
                self.speak(message_id, facts);
                self.answer.push(&text);
                facts.push(TextDelta::new(text).message_id(message_id.map(|id| id.0.clone())));
            }
        }
    }

    /// The model says something: a turn begins when it answers to tools, or speaks for the first time.
    fn speak(&mut self, message_id: Option<&Str<'_>>, facts: &mut Facts<'_>) {
        if !self.speaking {
            self.speaking = true;
            facts.push(TurnStart::default());
        }
        let id = message_id.map(|id| &**id);
        if self.message.as_deref() != id {
            self.message = id.map(str::to_owned);
            self.answer.clear();
        }
        // It goes on, so that was not the end.
        self.limited = false;
    }

    /// An error that ends the run.
    pub(super) fn fail(&mut self, error: &str, facts: &mut Facts<'_>) {
        let status = error.split_once("Status: ").and_then(|(_, rest)| rest.get(..3)?.parse().ok());
        let cause = Cause::of_error(status, error);
        self.failure = Some(cause);
        facts.push(ErrorEvent::new(error.to_owned()).class(cause).fatal(true));
    }

    /// Progress of a tool, or of the sub-agent that it runs.
    pub(super) fn progress<'a>(&self, call: Option<Str<'a>>, message: Str<'a>, facts: &mut Facts<'a>) {
        facts.parent = call.filter(|id| self.tools.is_open(id)).map(Cow::from);
        facts.push(Activity::new(message.0));
    }

    /// Whether the run is over.
    pub(super) fn is_complete(&self) -> bool {
        self.complete.is_some()
    }

    /// The run is over. Figures are those of the session, which may be older than the run.
    pub(super) fn complete(&mut self, figures: Figures, resumed: bool, facts: &mut Facts<'_>) {
        self.complete = Some(figures);
        match figures.event() {
            Some(Usage { total_tokens: Some(total), .. }) if resumed => {
                let message = format!("{total} tokens in the session so far, earlier runs included");
                facts.push(Activity::new(message));
            }
            Some(usage) => facts.push(usage),
            None => {}
        }
    }

    /// How it ended, and the answer.
    pub(super) fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        if let Some(cause) = self.failure {
            return Verdict::failed(Some(cause));
        }
        if self.limited {
            return Verdict::of(Outcome::Limited);
        }
        let counted = self.complete.is_some_and(|figures| figures.total_tokens.is_some());
        if !counted || !self.speaking || !self.tools.is_idle() {
            return Verdict::of(Outcome::Incomplete);
        }
        let stopped = end.cancelled || end.timeout.is_some() || end.signal.is_some();
        if !stopped && end.exit_code.unwrap_or(0) == 0 && !self.answer.is_blank() {
            facts.push(Final::new(self.answer.take()));
        }
        // `complete` comes after an interruption too.
        Verdict { exit_code_decides: true, ..Verdict::of(Outcome::Completed) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Notice, notice};

    #[test]
    fn words_of_goose_are_told_from_those_of_the_model() {
        let error = "Ran into this error: Rate limit exceeded: wait..\n\nPlease retry if you think this is a transient or \
                     recoverable error.";
        assert_eq!(notice(error, false), Some(Notice::Error("Rate limit exceeded: wait")));
        assert_eq!(notice(error, true), Some(Notice::Error("Rate limit exceeded: wait")));
        assert_eq!(notice("Ran into this error: no", false), Some(Notice::Error("no")));
        assert_eq!(notice("Ran into this error in the log", true), None);
        let limit = "I've reached the maximum number of actions I can do without user input. Would you like me to continue?";
        assert_eq!(notice(limit, false), Some(Notice::Limit));
        assert_eq!(notice(&limit[..70], true), None);
    }
}
