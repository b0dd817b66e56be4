//! Days in a time zone.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::By;

/// Which day a moment is in. A zone keeps its offset for months, so its rule is asked once for many moments.
pub(super) struct Days<'z> {
    zone: &'z TimeZone,
    /// The offset holds from this moment on,
    from: i64,
    /// and until this one.
    until: i64,
    offset: i64,
}

/// In milliseconds.
const DAY: i64 = 24 * 60 * 60_000;

impl<'z> Days<'z> {
    pub(super) fn new(zone: &'z TimeZone) -> Self {
        Self { zone, from: 0, until: 0, offset: 0 }
    }

    /// Days since 1970.
    #[inline]
    pub(super) fn day(&mut self, at: i64) -> i64 {
        if at < self.from || at >= self.until {
            self.ask(at);
        }
        at.saturating_add(self.offset).div_euclid(DAY)
    }

    #[cold]
    fn ask(&mut self, at: i64) {
        let moment = Timestamp::from_millisecond(at).unwrap_or_default();
        // The change at this very moment is one that was.
        let just_after = moment.checked_add(SignedDuration::from_nanos(1)).unwrap_or(moment);
        let before = self.zone.preceding(just_after).next();
        let after = self.zone.following(moment).next();
        self.from = before.map_or(i64::MIN, |change| change.timestamp().as_millisecond());
        self.until = after.map_or(i64::MAX, |change| change.timestamp().as_millisecond());
        self.offset = i64::from(self.zone.to_offset(moment).seconds()) * 1000;
    }
}

/// The name of a row that the day is in.
pub(super) fn name_of_day(days: i64, by: By) -> String {
    let date = Timestamp::from_millisecond(days.saturating_mul(DAY))
        .map_or(Date::ZERO, |moment| TimeZone::UTC.to_datetime(moment).date());
    match by {
        By::Month => format!("{:04}-{:02}", date.year(), date.month()),
        By::Week => {
            let since_monday = i64::from(date.weekday().to_monday_zero_offset());
            name_of_day(days - since_monday, By::Day)
        }
        _ => date.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use jiff::tz::TimeZone;

    use super::{By, DAY, Days, name_of_day};

    #[test]
    fn days_weeks_and_months_have_names() {
        // 2026-11-15 is a Sunday.
        assert_eq!(name_of_day(20_772, By::Day), "2026-11-15");
        assert_eq!(name_of_day(20_772, By::Week), "2026-11-09");
        assert_eq!(name_of_day(20_772, By::Month), "2026-11");
    }

    #[test]
    fn days_are_those_of_the_zone_however_the_clock_is_set() {
        let zones = ["CET-1CEST,M3.5.0,M10.5.0/3", "EST5EDT,M3.2.0,M11.1.0", "IST-5:30", "UTC0"];
        for zone in zones.map(|zone| TimeZone::posix(zone).expect("a zone")) {
            let mut days = Days::new(&zone);
            // A year in steps that meet the moments of change, and back again.
            let moments = (0..=366 * 48).map(|half_hour| 1_767_225_600_000 + half_hour * (DAY / 48));
            for at in moments.clone().chain(moments.rev()) {
                for at in [at - 1, at] {
                    let date = zone.to_datetime(Timestamp::from_millisecond(at).expect("a moment")).date();
                    assert_eq!(name_of_day(days.day(at), By::Day), date.to_string());
                }
            }
        }
    }

    #[test]
    fn moments_out_of_the_calendar_have_a_day() {
        for zone in [TimeZone::UTC, TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone")] {
            let mut days = Days::new(&zone);
            for at in [i64::MIN, i64::MAX, 0, i64::MAX] {
                assert_eq!(days.day(at).signum(), at.signum());
                assert!(!name_of_day(days.day(at), By::Week).is_empty());
            }
        }
    }
}
