//! The texts of a message for people, and which messages match a search.
//!
//! `event` messages are left out: the others say the same for people. [`Pattern`] decides what matches; the index of words
//! only tells which messages may.

use std::fmt;

use sabir_core::pattern::Pattern;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Between the texts of a message: no phrase goes on from one to the next.
const BETWEEN: char = '\0';

/// Whether a message matches: all terms are in it.
pub(crate) fn matches(line: &[u8], pattern: &Pattern) -> bool {
    let mut texts = String::new();
    strings(line, &mut |text| {
        texts.push_str(text);
        texts.push(BETWEEN);
    });
    pattern.matches(&texts)
}

/// The question to the index whose answer has every indexed message that may match; `None` where the index can't tell.
pub(crate) fn index_query(pattern: &Pattern) -> Option<String> {
    // Another case of these letters is one letter, for the index as well as for a pattern.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, 'À'..='ɏ' | 'Ѐ'..='ԯ') && c != 'İ';
    let words = pattern.words().flat_map(split).filter(|word| word.chars().all(is_plain));
    let query = words.map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" ");
    (!query.is_empty()).then_some(query)
}

/// The words of a message in small letters with one space between them, for the index; empty when it has none for people.
pub(crate) fn of(line: &[u8]) -> String {
    let mut words = String::new();
    strings(line, &mut |text| {
        for word in split(text) {
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(&word);
        }
    });
    words
}

/// Hands out the texts of a message for people.
fn strings(line: &[u8], take: &mut dyn FnMut(&str)) {
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
    // What is not JSON has no words; what was read up to there stays.
    let _ = Strings(take).deserialize(&mut serde_json::Deserializer::from_str(message.payload.get()));
}

fn split(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Hands out all strings in a value, and builds no value.
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

    use super::{index_query, matches, of};

    const MESSAGE: &[u8] =
        br#"{"type":"log","payload":{"text":"Fixed the \u00dcber-Parser.","n":1,"more":[{"a":"TWO"}],"b":null}}"#;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).expect("a pattern")
    }

    #[test]
    fn messages_match_by_their_texts() {
        assert_eq!(of(MESSAGE), "fixed the über parser two");
        for (text, expected) in [
            ("parser FIXED", true),
            ("two parser", true),
            ("\"the über-parser.\"", true),
            ("pars", false),
            ("\"parser. two\"", false),
        ] {
            assert_eq!(matches(MESSAGE, &pattern(text)), expected, "{text}");
        }
        // The texts of a message are apart: no word and no phrase goes on from one to the next.
        let apart = br#"{"type":"log","payload":{"a":"by ","b":"one","c":"par","d":"ser"}}"#;
        assert!(matches(apart, &pattern("one by par")));
        assert!(!matches(apart, &pattern("\"by one\"")) && !matches(apart, &pattern("parser")));
        assert_eq!(of(br#"{"type":"event","payload":{"text":"fixed"}}"#), "");
        assert_eq!(of(b"{"), "");
    }

    #[test]
    fn index_is_asked_for_what_it_surely_has() {
        let query = |text: &str| index_query(&pattern(text));
        assert_eq!(query("Über-Parser \"a_b c\""), Some("\"über\" \"parser\" \"a\" \"b\" \"c\"".to_owned()));
        assert_eq!(query("日本 ΟΔΟΣ"), None);
        assert_eq!(query("日本 x"), Some("\"x\"".to_owned()));
    }
}
