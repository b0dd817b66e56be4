//! `--output-format json`: the whole conversation as one object at the end.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::banner::{self, Banner, Piece};
use super::conversation::Conversation;
use super::wire::{Figures, Message};
use crate::agent::Match;
use crate::agent::printed;
use crate::dialect::{Dialect, End, Facts, Verdict};
use crate::event::EventKind;
use crate::json::{self, Str};
use crate::line::Line;

/// Reads the object.
#[derive(Default)]
pub(super) struct Object {
    banner: Banner,
    printed: printed::Printed,
    conversation: Conversation,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    #[serde(borrow)]
    metadata: &'a RawValue,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    status: Option<Str<'a>>,
}

/// How sure a line makes us that the stream is of this dialect.
pub(super) fn detect(line: &str) -> Match {
    match line {
        // Who may see a message is said of every message, and by nobody else.
        "        \"userVisible\": true," | "        \"userVisible\": false," => Match::Yes,
        _ if banner::piece(line).is_some_and(|(piece, _)| piece == Piece::Feet) => Match::Maybe,
        _ => Match::No,
    }
}

impl Dialect for Object {
    fn line<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        match self.printed.line(&line.text) {
            printed::Piece::Part => {}
            printed::Piece::Whole(text) => {
                let mut own = Facts::default();
                self.object(&text, &mut own);
                own.drain().for_each(|fact| facts.push_fact(fact.into_owned()));
            }
            printed::Piece::Outside if line.text.trim().is_empty() => {}
            printed::Piece::Outside => {
                if !self.banner.line(&line.text, facts) {
                    facts.push(EventKind::Activity { message: line.text.clone() });
                }
            }
            printed::Piece::TooLong => facts.unrecognized(None, line),
        }
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        if let Some(text) = self.printed.rest() {
            facts.push(json::broken_off(&text));
        }
        self.conversation.end(end, facts)
    }
}

impl Object {
    fn object<'a>(&mut self, text: &'a str, facts: &mut Facts<'a>) {
        let Some(wire) = json::parse::<Wire<'a>>(text) else {
            return facts.push(EventKind::Unrecognized { r#type: None, raw: text.into() });
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
            facts.push(EventKind::Unrecognized { r#type: None, raw: text.into() });
        }
        let status = json::parse::<Metadata<'a>>(metadata.get()).and_then(|metadata| metadata.status);
        if status.is_none_or(|status| &*status == "completed") {
            let figures = json::parse::<Figures>(metadata.get()).unwrap_or_default();
            self.conversation.complete(figures, self.banner.resumed, facts);
        }
    }
}
