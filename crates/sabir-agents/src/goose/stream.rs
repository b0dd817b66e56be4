//! `--output-format stream-json`.

use std::borrow::Cow;

use sabir_core::agent::Confidence;
use sabir_core::dialect::{End, Facts, Verdict};
use sabir_core::event::Activity;
use sabir_core::json::{self, JsonDialect, Str};
use sabir_core::line::Line;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::banner::{self, Banner, Piece};
use super::conversation::Conversation;
use super::wire::{Figures, Message};

/// Reads the stream.
#[derive(Default)]
pub(super) struct Stream {
    banner: Banner,
    conversation: Conversation,
}

/// Any line.
#[derive(Deserialize)]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
    /// The tool call that a notification is about.
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    extension_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    log: Option<Progress<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    progress: Option<Progress<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    error: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    model: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Progress<'a> {
    #[serde(borrow)]
    message: Option<Str<'a>>,
}

/// How sure a line makes us that the stream is of this dialect.
pub(super) fn detect(line: &str) -> Confidence {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        r#type: Str<'a>,
        #[serde(borrow)]
        message: Option<&'a RawValue>,
        #[serde(borrow)]
        extension_id: Option<&'a RawValue>,
        #[serde(default, deserialize_with = "present")]
        total_tokens: bool,
    }
    #[derive(Deserialize)]
    struct Inside<'a> {
        #[serde(borrow)]
        role: Option<&'a RawValue>,
        #[serde(borrow)]
        created: Option<&'a RawValue>,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
    }
    if let Some((piece, _)) = banner::piece(line) {
        // All modes have the banner; text has the most of it.
        return if piece == Piece::Feet { Confidence::None } else { Confidence::Possible };
    }
    let Some(head) = json::parse::<Head<'_>>(line) else { return Confidence::None };
    Confidence::certain_if(match &*head.r#type {
        "message" => head
            .message
            .and_then(|message| json::parse::<Inside<'_>>(message.get()))
            .is_some_and(|inside| inside.role.is_some() && inside.created.is_some() && inside.content.is_some()),
        "notification" => head.extension_id.is_some(),
        "complete" => head.total_tokens,
        _ => false,
    })
}

/// Whether a field is there, `null` or not.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(deserializer).map(|_| true)
}

impl JsonDialect for Stream {
    type Wire<'a> = Wire<'a>;

    fn message<'a>(&mut self, wire: Wire<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        match &*wire.r#type {
            "message" => {
                let known = wire.message.is_some_and(|message| self.conversation.message(message, facts));
                if !known {
                    json::unrecognized(line, facts);
                }
            }
            "notification" => {
                if let Some(message) = wire.log.or(wire.progress).and_then(|progress| progress.message) {
                    self.conversation.progress(wire.extension_id, message, facts);
                }
            }
            "model_change" => {
                if let Some(model) = wire.model {
                    facts.push(Activity::new(format!("the model is now {}", &*model)));
                }
            }
            "error" => self.conversation.fail(wire.error.as_deref().unwrap_or("unknown"), facts),
            "complete" => {
                let figures = json::parse::<Figures>(&line.text).unwrap_or_default();
                self.conversation.complete(figures, self.banner.resumed, facts);
            }
            _ => json::unrecognized(line, facts),
        }
    }

    fn other<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        if self.banner.line(&line.text, facts) {
            return;
        }
        // Words for people have no end of line, so that an event may stand behind them.
        let behind = line.text.find("{\"type\":\"").map(|at| line.text.split_at(at));
        let Some((words, (event, wire))) =
            behind.and_then(|(words, event)| Some((words, (event, json::parse::<Wire<'_>>(event)?))))
        else {
            return json::unrecognized(line, facts);
        };
        facts.push(Activity::new(words.to_owned()));
        let mut own = Facts::default();
        self.message(wire, &Line { text: Cow::Borrowed(event), ..line.clone() }, &mut own);
        own.drain().for_each(|fact| facts.push_fact(fact.into_owned()));
    }

    fn over(&self) -> Option<bool> {
        Some(self.conversation.is_complete())
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        self.conversation.end(end, facts)
    }
}

#[cfg(test)]
mod tests {
    use super::{Confidence, detect};

    #[test]
    fn lines_tell() {
        assert_eq!(
            detect(r#"{"type":"message","message":{"id":null,"role":"user","created":1,"content":[]}}"#),
            Confidence::Certain
        );
        assert_eq!(detect(r#"{"type":"complete","total_tokens":null}"#), Confidence::Certain);
        assert_eq!(detect(r#"{"type":"message","role":"assistant","content":"x"}"#), Confidence::None);
        assert_eq!(detect(r#"{"type":"complete"}"#), Confidence::None);
        assert_eq!(detect("    __( O)>  ● new session · openai gpt-4o"), Confidence::Possible);
    }
}
