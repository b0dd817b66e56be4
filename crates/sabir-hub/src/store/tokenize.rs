//! Searchable text of messages: exact matching, and the terms of the full-text index.
//!
//! `event` messages are skipped, since other messages repeat their text. [`Pattern`] decides whether a message matches; the
//! full-text index only narrows down the candidates.

use std::fmt;

use sabir_core::pattern::Pattern;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Separates the texts of a message, so that no phrase spans two of them.
const SEPARATOR: char = '\0';

/// Returns whether a message contains all terms of a pattern.
pub(super) fn matches(line: &[u8], pattern: &Pattern) -> bool {
    let mut texts = String::new();
    for_each_text(line, &mut |text| {
        texts.push_str(text);
        texts.push(SEPARATOR);
    });
    pattern.matches(&texts)
}

/// Query of the full-text index whose result includes every message that matches; `None` if the index cannot narrow it down.
pub(super) fn index_query(pattern: &Pattern) -> Option<String> {
    // For these letters, the index and patterns agree on upper and lower case.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, 'À'..='ɏ' | 'Ѐ'..='ԯ') && c != 'İ';
    let terms = pattern.words().flat_map(terms).filter(|term| term.chars().all(is_plain));
    let query = terms.map(|term| format!("\"{term}\"")).collect::<Vec<_>>().join(" ");
    (!query.is_empty()).then_some(query)
}

/// Lower-case terms of a message, separated by spaces, for the full-text index; empty if the message is not searchable.
pub(super) fn index_text(line: &[u8]) -> String {
    let mut all = String::new();
    for_each_text(line, &mut |text| {
        for term in terms(text) {
            if !all.is_empty() {
                all.push(' ');
            }
            all.push_str(&term);
        }
    });
    all
}

/// Calls `take` with every searchable text of a message.
fn for_each_text(line: &[u8], take: &mut dyn FnMut(&str)) {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        r#type: std::borrow::Cow<'a, str>,
        #[serde(borrow)]
        payload: &'a RawValue,
    }
    let Ok(message) = serde_json::from_slice::<Message<'_>>(line) else { return };
    if matches!(message.r#type.as_ref(), "event" | "heartbeat" | "status") {
        return;
    }
    // Texts before a syntax error count.
    let _ = Strings(take).deserialize(&mut serde_json::Deserializer::from_str(message.payload.get()));
}

/// Lower-case words of a text.
fn terms(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|term| !term.is_empty()).map(str::to_lowercase)
}

/// Visits all strings in a JSON value without building the value.
struct Strings<'t>(&'t mut dyn FnMut(&str));

impl<'de> DeserializeSeed<'de> for Strings<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strings<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        (self.0)(text);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key::<IgnoredAny>()?.is_some() {
            map.next_value_seed(Strings(self.0))?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Strings(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sabir_core::pattern::Pattern;

    use super::{index_query, index_text, matches};

    const MESSAGE: &[u8] =
        br#"{"type":"log","payload":{"text":"Fixed the \u00dcber-Parser.","n":1,"more":[{"a":"TWO"}],"b":null}}"#;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).expect("a pattern")
    }

    #[test]
    fn message_matches_by_its_texts() {
        assert_eq!(index_text(MESSAGE), "fixed the über parser two");
        for (text, expected) in [
            ("parser FIXED", true),
            ("two parser", true),
            ("\"the über-parser.\"", true),
            ("pars", false),
            ("\"parser. two\"", false),
        ] {
            assert_eq!(matches(MESSAGE, &pattern(text)), expected, "{text}");
        }
        // No word and no phrase spans two texts of a message.
        let separate = br#"{"type":"log","payload":{"a":"by ","b":"one","c":"par","d":"ser"}}"#;
        assert!(matches(separate, &pattern("one by par")));
        assert!(!matches(separate, &pattern("\"by one\"")) && !matches(separate, &pattern("parser")));
        assert_eq!(index_text(br#"{"type":"event","payload":{"text":"fixed"}}"#), "");
        assert_eq!(index_text(b"{"), "");
    }

    #[test]
    fn index_query_has_only_terms_that_the_index_folds_alike() {
        let query = |text: &str| index_query(&pattern(text));
        assert_eq!(query("Über-Parser \"a_b c\""), Some("\"über\" \"parser\" \"a\" \"b\" \"c\"".to_owned()));
        assert_eq!(query("日本 ΟΔΟΣ"), None);
        assert_eq!(query("日本 x"), Some("\"x\"".to_owned()));
    }
}
