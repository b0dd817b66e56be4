//! Values of which one does not know beforehand what shape they have.
//!
//! Our reader tries one shape after another at the same place, so that a value which has the first is read once.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde_json::value::RawValue;

use super::{Unread, parse, read};
use crate::event::Text;

/// A text, or a value of another shape that is read later.
#[derive(Debug, Clone, PartialEq)]
pub enum TextOr<'a> {
    /// It is a string.
    Text(Text<'a>),
    /// It is something else.
    Other(Unread<'a>),
}

impl<'de: 'a, 'a> Deserialize<'de> for TextOr<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrVisitor;
        impl<'de> Visitor<'de> for TextOrVisitor {
            type Value = TextOr<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut shapes: A) -> Result<Self::Value, A::Error> {
                if let Some(text) = shapes.next_element()? {
                    return Ok(TextOr::Text(text));
                }
                shapes.next_element()?.map(TextOr::Other).ok_or_else(|| de::Error::custom("not JSON"))
            }
            /// Of any other reader than ours.
            fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                let raw = <&'de RawValue>::deserialize(deserializer)?;
                Ok(Text::from_json(raw).map_or(TextOr::Other(Unread(raw.get())), TextOr::Text))
            }
        }
        deserializer.deserialize_newtype_struct(read::SHAPES, TextOrVisitor)
    }
}

/// For `deserialize_with`: a field of another shape than expected counts as absent, so that a change in one corner of a
/// message does not cost the message. What is not JSON at all does.
pub fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_newtype_struct(read::SHAPES, Fitting::<T, &'de RawValue>(PhantomData))
}

/// The same for large fields, of which mostly nobody wants to know more: of what does not fit, only the brackets and quotes
/// have to be right.
pub fn fitting<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_newtype_struct(read::SHAPES, Fitting::<T, Unread<'de>>(PhantomData))
}

/// A value of one shape, or one that is stepped over as another.
struct Fitting<T, Other>(PhantomData<(T, Other)>);

impl<'de, T: Deserialize<'de>, Other: Deserialize<'de>> Visitor<'de> for Fitting<T, Other> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    /// Our reader tries, and steps over what is of another shape.
    fn visit_seq<A: de::SeqAccess<'de>>(self, mut shapes: A) -> Result<Self::Value, A::Error> {
        let value = shapes.next_element()?;
        if value.is_none() && shapes.next_element::<Other>()?.is_none() {
            return Err(de::Error::custom("not JSON"));
        }
        Ok(value)
    }

    /// Of any other reader.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        <&'de RawValue>::deserialize(deserializer).map(|raw| parse(raw.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::{TextOr, Unread};
    use crate::json::{Str, parse};

    #[test]
    fn a_field_of_another_shape_is_absent_and_one_that_is_no_json_is_refused() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Message<'a> {
            #[serde(borrow, default, deserialize_with = "crate::json::lenient")]
            list: Option<Vec<Str<'a>>>,
        }
        for (json, list) in [
            (r#"{"list":["a"]}"#, Some(vec![Str("a".into())])),
            (r#"{"list":[1]}"#, None),
            (r#"{"list":{"a":[]}}"#, None),
            (r#"{"list":null}"#, None),
            ("{}", None),
        ] {
            assert_eq!(parse(json), Some(Message { list: list.clone() }), "{json}");
            assert_eq!(serde_json::from_str::<Message<'_>>(json).ok(), Some(Message { list }), "{json}");
        }
        for json in [r#"{"list":["\x"]}"#, r#"{"list":[nul]}"#, r#"{"list":["a"}"#, r#"{"list":}"#] {
            assert_eq!(parse::<Message<'_>>(json), None, "{json}");
        }
    }

    #[test]
    fn of_a_large_field_of_another_shape_nothing_is_looked_at() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Message {
            #[serde(default, deserialize_with = "crate::json::fitting")]
            large: Option<(u8, u8)>,
        }
        for (json, large) in [(r#"{"large":[1,2]}"#, Some((1, 2))), (r#"{"large":"\x"}"#, None), (r#"{"large":{"a":nul}}"#, None)]
        {
            assert_eq!(parse(json), Some(Message { large }), "{json}");
        }
        assert_eq!(parse::<Message>(r#"{"large":["a"}"#), None);
    }

    #[test]
    fn what_follows_a_value_is_read_whatever_its_shape() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Message<'a> {
            #[serde(deserialize_with = "crate::json::lenient")]
            point: Option<(u8, u8)>,
            #[serde(borrow)]
            output: TextOr<'a>,
            last: u8,
        }
        for (point, read) in [("[1,2]", Some((1, 2))), ("[1,{\"a\":\"]\"}]", None), ("[1,2,3]", None), ("\"[\"", None)] {
            for (output, is_text) in [(r#""a\n\"b\"""#, true), (r#"[{"text":"}"}]"#, false), ("null", false), ("7", false)] {
                let json = format!(r#"{{"point":{point},"output":{output},"last":3}}"#);
                let message: Message<'_> = parse(&json).expect("a message");
                assert_eq!((message.point, message.last), (read, 3), "{json}");
                match &message.output {
                    TextOr::Text(text) => assert!(is_text && *text == "a\n\"b\"", "{json}"),
                    TextOr::Other(other) => assert!(!is_text && other.0 == output, "{json}"),
                }
                assert_eq!(serde_json::from_str::<Message<'_>>(&json).ok(), Some(message), "{json}");
            }
        }
        assert_eq!(parse::<Message<'_>>(r#"{"point":[1,"output":"","last":3}"#), None);
        // Of what is not read, no more than brackets and quotes has to be right.
        let wrong = parse::<Message<'_>>(r#"{"point":null,"output":"\x","last":3}"#).expect("a message");
        assert!(matches!(wrong.output, TextOr::Other(Unread(r#""\x""#))));
    }
}
