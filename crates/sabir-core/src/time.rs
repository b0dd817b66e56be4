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
        Self::from_millis(in_usual_form(text.as_bytes()).or_else(|| by_rule(text))?)
    }

    /// The milliseconds since 1970 of a text that [`Timestamp::parse`] reads. Nearly all moments are written alike, and there
    /// is one on every line of a log.
    pub fn millis_of(text: &[u8]) -> Option<i64> {
        in_usual_form(text).or_else(|| Self::parse(std::str::from_utf8(text).ok()?).map(Self::as_millis))
    }

    /// Milliseconds from `earlier` to `self`; `None` when the clock went backwards.
    pub fn millis_since(self, earlier: Self) -> Option<u64> {
        u64::try_from(self.as_millis().checked_sub(earlier.as_millis())?).ok()
    }
}

const YEAR_0: i64 = -62_167_219_200;
const YEAR_10000: i64 = 253_402_300_800;

/// Reads a moment in any form that RFC 3339 has.
fn by_rule(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

/// Days from the first of March of the year 0 to 1970.
const BEFORE_1970: i64 = 719_468;

/// The days of each month. A leap day is left to the rule.
const DAYS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// The usual form, in three words of eight bytes. Every byte differs from it by a digit, or not at all.
const FORM: [u64; 3] = words(b"0000-00-00T00:00:00.000Z");

/// What is added to the difference of each byte so that its highest bit tells one that is too large.
const LIMITS: [u64; 3] = limits();

const fn words(text: &[u8; 24]) -> [u64; 3] {
    let (words, _) = text.as_chunks();
    [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]), u64::from_le_bytes(words[2])]
}

const fn limits() -> [u64; 3] {
    let mut limits = *b"0000-00-00T00:00:00.000Z";
    let mut at = 0;
    while at < limits.len() {
        limits[at] = if limits[at] == b'0' { 0x80 - 10 } else { 0x7f };
        at += 1;
    }
    words(&limits)
}

/// Reads `2026-11-15T17:53:23.541Z`.
fn in_usual_form(text: &[u8]) -> Option<i64> {
    const HIGHEST: u64 = 0x8080_8080_8080_8080;
    let text: &[u8; 24] = text.try_into().ok()?;
    let [mut date, mut time, mut rest] = words(text);
    date ^= FORM[0];
    time ^= FORM[1];
    rest ^= FORM[2];
    let too_large = date.wrapping_add(LIMITS[0]) | time.wrapping_add(LIMITS[1]) | rest.wrapping_add(LIMITS[2]);
    if (too_large | date | time | rest) & HIGHEST != 0 {
        return None;
    }
    // Each byte with the one behind it, as a number of two digits.
    let pairs = |digits: u64| (digits.wrapping_mul(10).wrapping_add(digits >> 8)).to_le_bytes().map(i64::from);
    let (date, time, rest, last) = (pairs(date), pairs(time), pairs(rest), rest.to_le_bytes()[6]);
    let (year, month, day) = (100 * date[0] + date[2], date[5], time[0]);
    let (hour, minute, second) = (time[3], time[6], rest[1]);
    let milli = 10 * rest[4] + i64::from(last);
    let longest = usize::try_from(month - 1).ok().and_then(|month| DAYS.get(month))?;
    if year < 1970 || !(1..=*longest).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // Years that begin in March have the leap day at their end.
    let (march_year, march_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * march_year + march_year / 4 - march_year / 100 + march_year / 400 + (153 * march_month + 2) / 5 + day - 1;
    Some((((days - BEFORE_1970) * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + milli)
}

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
    use super::{Timestamp, by_rule, in_usual_form};

    #[test]
    fn moments_are_the_same_by_position_and_by_rule() {
        for text in [
            "2026-11-15T17:53:23.541Z",
            "1970-01-01T00:00:00.000Z",
            "2024-03-01T00:00:00.000Z",
            "2023-12-28T12:00:00.001Z",
            "2000-02-28T00:00:00.000Z",
            "2026-10-31T00:00:00.000Z",
            "2026-04-30T23:59:59.999Z",
            "9999-01-01T23:59:59.999Z",
            "2098-07-26T09:18:07.063Z",
        ] {
            assert!(in_usual_form(text.as_bytes()).is_some(), "{text}");
            assert_eq!(in_usual_form(text.as_bytes()), by_rule(text), "{text}");
        }
        for text in [
            "2026-11-15T17:53:23Z",
            "2026-11-15T18:53:23.541+01:00",
            "2026-02-30T00:00:00.000Z",
            "2026-04-31T00:00:00.000Z",
            "2026-00-30T00:00:00.000Z",
            "2026-13-30T00:00:00.000Z",
            "2026-04-00T00:00:00.000Z",
            "2026-04-30T24:00:00.000Z",
            "2026-04-30T00:60:00.000Z",
            "2026-04-30T00:00:60.000Z",
            "not a time",
        ] {
            assert_eq!(in_usual_form(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_byte_that_does_not_belong_is_seen_wherever_it_is() {
        let text = *b"2026-11-15T17:53:23.541Z";
        for (at, byte) in (0..text.len()).flat_map(|at| (0..=u8::MAX).map(move |byte| (at, byte))) {
            let mut other = text;
            other[at] = byte;
            let fits = if text[at].is_ascii_digit() { byte.is_ascii_digit() } else { byte == text[at] };
            match std::str::from_utf8(&other).ok().filter(|_| fits) {
                Some(text) => assert!(in_usual_form(&other).is_none_or(|at| Some(at) == by_rule(text)), "{text}"),
                None => assert_eq!(in_usual_form(&other), None, "{at}: {byte}"),
            }
        }
    }

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
