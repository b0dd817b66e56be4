//! What an agent prints that this version does not know: the shapes of its lines against those that were recorded.
//!
//! A shape is the way to a value: keys joined by `.`, `[]` for the elements of a list, and behind an object the type that
//! it gives itself, because the same key means different things in different messages:
//!
//! ```text
//! {"type":"assistant","message":{"content":[{"type":"text","text":"hi"}]}}
//!   <assistant>.message.content[]<text>.text
//! ```
//!
//! An agent's known shapes are a list ([`Agent::shapes`](crate::agent::Agent)), made from recordings. A line of it that
//! ends in `.*` says that everything below is data (arguments of a tool, names of models) and has no fixed shape.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The shapes that are known of an agent.
#[derive(Debug, Default)]
pub struct Shapes<'a> {
    known: BTreeSet<&'a str>,
    /// Everything below these is data.
    open: BTreeSet<&'a str>,
}

impl<'a> Shapes<'a> {
    /// Reads a list: one shape per line; `#` begins a comment.
    pub fn parse(list: &'a str) -> Self {
        let mut shapes = Self::default();
        for line in list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.strip_suffix(".*") {
                Some(open) => shapes.open.insert(open),
                None => shapes.known.insert(line),
            };
        }
        shapes
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty() && self.open.is_empty()
    }

    /// Whether everything below a shape is data. A way that begins with `**` means it wherever it comes.
    pub fn is_open(&self, shape: &str) -> bool {
        self.open.contains(shape) || self.open.iter().any(|open| open.strip_prefix("**").is_some_and(|end| shape.ends_with(end)))
    }

    fn knows(&self, shape: &str) -> bool {
        self.known.contains(shape) || self.is_open(shape)
    }
}

/// What is new, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// How often it came.
    pub count: u64,
    /// One value of it without its words: strings are cut out, figures and structure stay.
    pub sample: String,
}

/// Collects the shapes of lines that are not known.
#[derive(Debug)]
pub struct Drift<'a> {
    shapes: Shapes<'a>,
    news: BTreeMap<String, News>,
    /// Places whose kind is not listed, because too many are.
    unlisted: u64,
}

/// Samples are cut to this many characters.
const SAMPLE: usize = 120;
/// More kinds of news than this are not told apart: an agent that prints data as keys would fill the memory.
const KINDS: usize = 4_096;

impl<'a> Drift<'a> {
    /// Looks for what is not among these shapes.
    pub fn new(shapes: Shapes<'a>) -> Self {
        Self { shapes, news: BTreeMap::new(), unlisted: 0 }
    }

    /// Whether there is nothing to compare with; then nothing is news.
    pub fn is_blank(&self) -> bool {
        self.shapes.is_empty()
    }

    /// Reads one line. What is not JSON is passed over: the decoder tells of it.
    pub fn line(&mut self, text: &str) {
        let mut way = String::new();
        let mut reader = serde_json::Deserializer::from_str(text);
        // A line that breaks off has been read as far as it goes.
        let _ = Walk { way: &mut way, drift: self }.deserialize(&mut reader);
    }

    /// What is new, by shape.
    pub fn news(&self) -> &BTreeMap<String, News> {
        &self.news
    }

    /// How many places are new that [`news`](Self::news) does not list, because it has too many kinds already.
    pub fn unlisted(&self) -> u64 {
        self.unlisted
    }

    fn see(&mut self, shape: &str, raw: &str) {
        if self.shapes.is_empty() || self.shapes.knows(shape) {
            return;
        }
        if let Some(news) = self.news.get_mut(shape) {
            news.count += 1;
        } else if self.news.len() < KINDS {
            self.news.insert(shape.to_owned(), News { count: 1, sample: redacted(raw) });
        } else {
            self.unlisted += 1;
        }
    }
}

/// A value without its words.
pub fn redacted(json: &str) -> String {
    let mut out = String::new();
    let mut characters = json.chars();
    while let Some(character) = characters.next() {
        if out.chars().count() >= SAMPLE {
            out.push('…');
            break;
        }
        out.push(character);
        if character != '"' {
            continue;
        }
        let mut words = String::new();
        while let Some(inner) = characters.next() {
            match inner {
                '"' => break,
                '\\' => {
                    words.push(inner);
                    words.extend(characters.next());
                }
                inner => words.push(inner),
            }
        }
        // A key stays: it is the news. A value that stands behind one does not.
        let key = characters.as_str().trim_start().starts_with(':');
        out.push_str(if key {
            &words
        } else if words.is_empty() {
            ""
        } else {
            "…"
        });
        out.push('"');
    }
    out
}

/// Walks through a value, the way to which is known.
struct Walk<'w, 'd, 'a> {
    way: &'w mut String,
    drift: &'d mut Drift<'a>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        // The type may come last, so the members wait for it.
        let mut members: Vec<(String, &'de RawValue)> = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        let length = self.way.len();
        if let Some(tag) = word(&members, "type") {
            self.way.push('<');
            self.way.push_str(&tag);
            if let Some(subtype) = ["subtype", "hookEventName"].into_iter().find_map(|key| word(&members, key)) {
                self.way.push(':');
                self.way.push_str(&subtype);
            }
            self.way.push('>');
        }
        let tagged = self.way.len();
        for (key, value) in members {
            if !self.way.is_empty() {
                self.way.push('.');
            }
            self.way.push_str(&key);
            self.drift.see(self.way, value.get());
            if !self.drift.shapes.is_open(self.way) {
                let mut reader = serde_json::Deserializer::from_str(value.get());
                let _ = Walk { way: &mut *self.way, drift: &mut *self.drift }.deserialize(&mut reader);
            }
            self.way.truncate(tagged);
        }
        self.way.truncate(length);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let length = self.way.len();
        // A stream may come as one list of the same messages.
        if !self.way.is_empty() {
            self.way.push_str("[]");
        }
        while elements.next_element_seed(Walk { way: &mut *self.way, drift: &mut *self.drift })?.is_some() {}
        self.way.truncate(length);
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

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// The word that a member of an object is.
fn word(members: &[(String, &RawValue)], key: &str) -> Option<String> {
    let value = members.iter().find(|(name, _)| name == key)?.1.get();
    serde_json::from_str::<String>(value).ok().filter(|word| is_word(word))
}

/// A type is a word; anything else in its place is data.
fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/'))
}

#[cfg(test)]
mod tests {
    use super::{Drift, Shapes, redacted};

    const KNOWN: &str = "<say>.type\n<say>.parts\n<say>.parts[]<text>.type\n<say>.parts[]<text>.text\n**.input.*\n";

    fn news(line: &str) -> Vec<String> {
        let mut drift = Drift::new(Shapes::parse(KNOWN));
        drift.line(line);
        drift.news().iter().map(|(shape, news)| format!("{shape} {} {}", news.count, news.sample)).collect()
    }

    #[test]
    fn what_is_known_is_no_news() {
        assert!(news(r#"{"parts":[{"text":"a","type":"text"}],"type":"say"}"#).is_empty());
        assert!(news("not JSON").is_empty());
    }

    #[test]
    fn places_beyond_the_most_kinds_are_counted() {
        let mut drift = Drift::new(Shapes::parse(KNOWN));
        let line = |number| format!(r#"{{"type":"say","field{number}":1}}"#);
        (0..super::KINDS).for_each(|number| drift.line(&line(number)));
        assert_eq!(drift.unlisted(), 0);
        [0, super::KINDS, super::KINDS + 1].map(line).iter().for_each(|line| drift.line(line));
        assert_eq!((drift.news().len(), drift.unlisted()), (super::KINDS, 2));
    }

    #[test]
    fn a_new_field_and_a_new_type_are_told_with_a_sample_without_words() {
        let found = news(r#"{"type":"say","mood":{"name":"secret","level":3},"parts":[{"type":"image"},{"type":"image"}]}"#);
        let expected = [
            r#"<say>.mood 1 {"name":"…","level":3}"#,
            "<say>.mood.level 1 3",
            r#"<say>.mood.name 1 "…""#,
            r#"<say>.parts[]<image>.type 2 "…""#,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn data_has_no_shape() {
        let found = news(r#"{"type":"say","parts":[{"type":"text","input":{"any":{"thing":1}}}]}"#);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn words_are_cut_out_of_samples() {
        assert_eq!(redacted(r#"{"key":"sk-123 \" x","n":[1,"",null]}"#), r#"{"key":"…","n":[1,"",null]}"#);
        assert!(redacted(&"1,".repeat(500)).chars().count() <= 121);
    }
}
