//! Moments as every agent writes them, in one form.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment with millisecond precision, written as RFC 3339 in UTC (`2026-11-15T17:53:23.541Z`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(jiff::Timestamp);

impl Timestamp {
    /// The first moment of 1970, for formats that must have a time where none is known.
    pub const EPOCH: Self = Self(jiff::Timestamp::UNIX_EPOCH);

    /// The moment that many milliseconds after 1970; `None` outside the years that RFC 3339 can write.
    pub fn from_millis(millis: i64) -> Option<Self> {
        let moment = jiff::Timestamp::from_millisecond(millis).ok()?;
        (moment.as_second() >= YEAR_0 && moment.as_second() < YEAR_10000).then_some(Self(moment))
    }

    /// Milliseconds since 1970.
    pub fn as_millis(self) -> i64 {
        self.0.as_millisecond()
    }

    /// Reads RFC 3339 with any offset and any number of fractional digits; finer digits are cut off.
    pub fn parse(text: &str) -> Option<Self> {
        let moment: jiff::Timestamp = text.parse().ok()?;
        Self::from_millis(moment.as_millisecond())
    }

    /// Milliseconds from `earlier` to `self`; `None` when the clock went backwards.
    pub fn millis_since(self, earlier: Self) -> Option<u64> {
        u64::try_from(self.as_millis().checked_sub(earlier.as_millis())?).ok()
    }
}

const YEAR_0: i64 = -62_167_219_200;
const YEAR_10000: i64 = 253_402_300_800;

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not an RFC 3339 time"))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn reads_offsets_and_writes_utc_milliseconds() {
        let moment = Timestamp::parse("2026-11-15T18:53:23.541987+01:00").expect("valid");
        assert_eq!(moment.to_string(), "2026-11-15T17:53:23.541Z");
        assert_eq!(Timestamp::from_millis(moment.as_millis()), Some(moment));
    }

    #[test]
    fn whole_seconds_keep_their_three_digits() {
        let moment = Timestamp::parse("2026-11-15T17:53:23Z").expect("valid");
        assert_eq!(moment.to_string(), "2026-11-15T17:53:23.000Z");
    }

    #[test]
    fn what_is_not_a_time_is_none() {
        assert_eq!(Timestamp::parse("yesterday"), None);
        assert_eq!(Timestamp::from_millis(i64::MAX), None);
        let earlier = Timestamp::from_millis(1_000).expect("valid");
        let later = Timestamp::from_millis(3_500).expect("valid");
        assert_eq!(later.millis_since(earlier), Some(2_500));
        assert_eq!(earlier.millis_since(later), None);
    }
}
