//! The words of a message, for who looks for some.
//!
//! Words are runs of letters and digits, in small letters. `event` messages are left out: the others say the same for
//! people.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The words that somebody types: a message has them when for each of them it has a word that begins so.
pub(crate) fn wanted(text: &str) -> Vec<String> {
    let mut words: Vec<String> = split(text).collect();
    words.sort();
    words.dedup();
    words
}

/// Whether a text of words, as [`of`] gives it, has all of these.
pub(crate) fn has(words: &str, wanted: &[String]) -> bool {
    wanted.iter().all(|wanted| words.split(' ').any(|word| word.starts_with(wanted.as_str())))
}

/// The words of a message with one space between them; empty when it has none for people.
pub(crate) fn of(line: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        r#type: std::borrow::Cow<'a, str>,
        #[serde(borrow)]
        payload: &'a RawValue,
    }
    let mut words = String::new();
    let Ok(message) = serde_json::from_slice::<Message<'_>>(line) else { return words };
    if matches!(message.r#type.as_ref(), "event" | "heartbeat" | "status") {
        return words;
    }
    // What is not JSON has no words; what was read up to there stays.
    let _ = Strings(&mut words).deserialize(&mut serde_json::Deserializer::from_str(message.payload.get()));
    words
}

fn split(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Collects the words of all strings in a value, and builds no value.
struct Strings<'w>(&'w mut String);

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
        for word in split(text) {
            if !self.0.is_empty() {
                self.0.push(' ');
            }
            self.0.push_str(&word);
        }
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
    use super::{has, of, wanted};

    #[test]
    fn words_for_people_are_found_by_their_beginnings() {
        let words = of(br#"{"type":"log","payload":{"text":"Fixed the \u00dcber-Parser.","n":1,"more":[{"a":"TWO"}],"b":null}}"#);
        assert_eq!(words, "fixed the über parser two");
        assert!(has(&words, &wanted("pars \"FIX")) && !has(&words, &wanted("parser three")));
        assert_eq!(of(br#"{"type":"event","payload":{"text":"fixed"}}"#), "");
        assert_eq!(of(b"{"), "");
    }
}
