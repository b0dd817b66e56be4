//! One JSON array on one line: how CLIs print all messages of a stream at once, at the end.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Match;
use crate::dialect::{Dialect, End, Facts, Verdict};
use crate::json;
use crate::line::Line;

/// Reads the array; its elements are read as lines of the inner dialect.
#[derive(Debug, Default)]
pub(super) struct JsonArray<D> {
    inner: D,
}

impl<D: Dialect> Dialect for JsonArray<D> {
    fn line<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        if !line.text.trim_start().starts_with('[') {
            return self.inner.line(line, facts);
        }
        match line.borrowed() {
            Some(text) => self.array(text, line, facts),
            None => {
                let mut copied = Facts::default();
                self.array(&line.text, &Line { text: Cow::Borrowed(&line.text), ..line.clone() }, &mut copied);
                copied.drain().for_each(|fact| facts.push_fact(fact.into_owned()));
            }
        }
    }

    fn resumed(&mut self) {
        self.inner.resumed();
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        self.inner.end(end, facts)
    }
}

impl<D: Dialect> JsonArray<D> {
    fn array<'a>(&mut self, text: &'a str, line: &Line<'a>, facts: &mut Facts<'a>) {
        let mut elements = Vec::new();
        let mut reader = serde_json::Deserializer::from_str(text);
        let whole = reader.deserialize_seq(Elements(&mut elements)).is_ok();
        for element in elements {
            let element = Line { text: Cow::Borrowed(element.get()), ..line.clone() };
            self.inner.line(&element, facts);
        }
        if !whole {
            facts.at = None;
            facts.parent = None;
            json::unrecognized(line, facts);
        }
    }
}

/// Collects the elements of an array, also those before the place where it is cut off.
struct Elements<'v, 'a>(&'v mut Vec<&'a RawValue>);

impl<'de: 'a, 'a> Visitor<'de> for Elements<'_, 'a> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of messages")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element::<&'de RawValue>()? {
            self.0.push(element);
        }
        Ok(())
    }
}

/// How sure its first element makes us of an array, by how sure a line makes us.
pub(super) fn detect(line: &str, detect_line: fn(&str) -> Match) -> Match {
    let Some(rest) = line.trim_start().strip_prefix('[') else { return Match::No };
    let mut first = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
    match first.next() {
        Some(Ok(element)) => detect_line(element.get()),
        _ => Match::No,
    }
}
