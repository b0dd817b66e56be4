//! `--output-format json`: the whole conversation as one object at the end.

use sabir_core::agent::Confidence;
use sabir_core::dialect::{End, Facts, Verdict};
use sabir_core::event::{Activity, Unrecognized};
use sabir_core::json::{self, Str};
use sabir_core::line::Line;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::banner::{self, Banner, Piece};
use super::conversation::Conversation;
use super::wire::{Figures, Message};
use crate::family::multiline_json::ObjectReader;

/// Reads the object.
#[derive(Default)]
pub(super) struct Object {
    banner: Banner,
    conversation: Conversation,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Wire<'a> {
    messages: Vec<Message<'a>>,
    metadata: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Metadata<'a> {
    status: Option<Str<'a>>,
}

/// Who may see a message is said of every message, and by nobody else. The lines of an object that breaks off are known by
/// their indentation.
pub(super) fn detect(line: &str) -> Confidence {
    #[derive(Deserialize)]
    struct Probe {
        messages: Vec<ProbeMessage>,
    }
    #[derive(Deserialize)]
    struct ProbeMessage {
        #[serde(default, deserialize_with = "json::lenient")]
        metadata: Option<Visibility>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Visibility {
        user_visible: Option<bool>,
    }
    match line {
        "        \"userVisible\": true," | "        \"userVisible\": false," => Confidence::Certain,
        _ if banner::piece(line).is_some_and(|(piece, _)| piece == Piece::Feet) => Confidence::Possible,
        _ if line.starts_with('{') => {
            let probe = json::parse::<Probe>(line);
            let says = |message: ProbeMessage| message.metadata.is_some_and(|metadata| metadata.user_visible.is_some());
            Confidence::certain_if(probe.is_some_and(|probe| probe.messages.into_iter().any(says)))
        }
        _ => Confidence::None,
    }
}

impl ObjectReader for Object {
    fn object(&mut self, text: &str, facts: &mut Facts<'_>) {
        let mut own = Facts::default();
        self.read(text, &mut own);
        own.drain().for_each(|fact| facts.push_fact(fact.into_owned()));
    }

    fn other<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        if !line.text.trim().is_empty() && !self.banner.line(&line.text, facts) {
            facts.push(Activity::new(line.text.clone()));
        }
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        self.conversation.end(end, facts)
    }
}

impl Object {
    fn read<'a>(&mut self, text: &'a str, facts: &mut Facts<'a>) {
        let Some(wire) = json::parse::<Wire<'a>>(text) else {
            return facts.push(Unrecognized::new(text));
        };
        let Wire { mut messages, metadata } = wire;
        // The messages of a session that goes on are all there; this run begins with what was asked last.
        let asked = messages
            .iter()
            .rposition(|message| &*message.role == "user" && message.content.iter().any(|content| &*content.r#type == "text"));
        messages.drain(..asked.filter(|_| self.banner.resumed).unwrap_or(0));
        let mut known = true;
        for message in messages {
            known &= self.conversation.message(message, facts);
        }
        if !known {
            facts.push(Unrecognized::new(text));
        }
        let status = json::parse::<Metadata<'a>>(metadata.get()).and_then(|metadata| metadata.status);
        if status.is_none_or(|status| &*status == "completed") {
            let figures = json::parse::<Figures>(metadata.get()).unwrap_or_default();
            self.conversation.complete(figures, self.banner.resumed, facts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::detect;
    use sabir_core::agent::Confidence;

    #[test]
    fn messages_say_who_may_see_them() {
        assert_eq!(
            detect(r#"{"messages":[{"role":"user","metadata":{"userVisible":true}}],"metadata":{}}"#),
            Confidence::Certain
        );
        assert_eq!(detect(r#"{"messages":[{"role":"user"}],"metadata":{}}"#), Confidence::None);
        assert_eq!(detect("        \"userVisible\": true,"), Confidence::Certain);
    }
}
