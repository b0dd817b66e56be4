//! Moments as people type them.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::failure::Failure;

/// Milliseconds since 1970 of what a user typed: a day, a month, a moment, or a time before now. As the end of a span a
/// day or a month means all of it.
pub(crate) fn parse(text: &str, zone: &TimeZone, is_end: bool) -> Result<i64, Failure> {
    let now = Timestamp::now().to_zoned(zone.clone());
    moment(text.trim(), &now, is_end).map(Timestamp::as_millisecond).ok_or_else(|| {
        let hint =
            "use a date (2026-11-02), a month (2026-11), `today`, `yesterday`, a time ago (7d, 12h, 2w) or an RFC 3339 timestamp";
        let is_bare = !text.is_empty() && text.trim().bytes().all(|byte| byte.is_ascii_digit());
        let hint =
            if is_bare { format!("say of what: {0}d is days, {0}h hours; or {hint}", text.trim()) } else { hint.to_owned() };
        Failure::usage(format!("invalid time `{text}`")).hint(hint)
    })
}

fn moment(text: &str, now: &Zoned, is_end: bool) -> Option<Timestamp> {
    let start = |date: Date, days: i64| -> Option<Timestamp> {
        let date = if is_end { date.checked_add(jiff::Span::new().try_days(days).ok()?).ok()? } else { date };
        Some(DateTime::from_parts(date, Time::midnight()).to_zoned(now.time_zone().clone()).ok()?.timestamp())
    };
    match text {
        "now" => return Some(now.timestamp()),
        "today" => return start(now.date(), 1),
        "yesterday" => return start(now.date().yesterday().ok()?, 1),
        _ => {}
    }
    if let Some(ago) = ago(text) {
        return now.timestamp().checked_sub(jiff::SignedDuration::from_secs(ago)).ok();
    }
    if text.contains(':') {
        let moment = text.parse::<Timestamp>().ok();
        let local = || text.parse::<DateTime>().ok()?.to_zoned(now.time_zone().clone()).ok();
        return moment.or_else(|| local().map(|time| time.timestamp()));
    }
    if let Ok(date) = text.parse::<Date>() {
        return start(date, 1);
    }
    let month = format!("{text}-01").parse::<Date>().ok()?;
    start(month, i64::from(month.days_in_month()))
}

/// Seconds of `7d`, `12h`, `1.5h`, `30m`, `90s`, `2w`.
fn ago(text: &str) -> Option<i64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let unit = match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        "w" => 7 * 24 * 3600,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok()? * f64::from(unit);
    #[allow(clippy::cast_possible_truncation, reason = "it was looked whether it fits")]
    (0.0..1e15).contains(&seconds).then_some(seconds as i64)
}

/// The zone of that name, or that of this machine.
pub(crate) fn zone(name: Option<&str>) -> Result<TimeZone, Failure> {
    match name {
        None => Ok(quick_zone().unwrap_or_else(TimeZone::system)),
        Some(name) => TimeZone::get(name).map_err(|error| {
            Failure::usage(format!("there is no time zone {name}: {error}"))
                .hint("give a name like Europe/Berlin, America/New_York or UTC")
        }),
    }
}

/// The zone of this machine, where that is told without looking for all zones that there are: the file that the system has for
/// it, unless the user has another one.
fn quick_zone() -> Option<TimeZone> {
    match std::env::var_os("TZ") {
        Some(name) => (name == "UTC").then_some(TimeZone::UTC),
        None => TimeZone::tzif("Local", &std::fs::read("/etc/localtime").ok()?).ok(),
    }
}

/// A moment as `2026-11-15 17:53` in a zone.
pub(crate) fn shown(millis: i64, zone: &TimeZone) -> String {
    Timestamp::from_millisecond(millis)
        .map_or_else(|_| "—".to_owned(), |moment| moment.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string())
}

#[cfg(test)]
mod tests {
    use super::moment;
    use jiff::Zoned;

    #[test]
    fn moments_are_days_months_and_times_ago() {
        let now: Zoned = "2026-11-15T17:53:23+01:00[Europe/Berlin]".parse().expect("a time");
        let shown = |text: &str, is_end: bool| moment(text, &now, is_end).map(|moment| moment.to_string());
        assert_eq!(shown("2026-11-02", false).as_deref(), Some("2026-11-01T23:00:00Z"));
        assert_eq!(shown("2026-11-02", true).as_deref(), Some("2026-11-02T23:00:00Z"));
        assert_eq!(shown("2026-10", false).as_deref(), Some("2026-09-30T22:00:00Z"));
        assert_eq!(shown("2026-10", true).as_deref(), Some("2026-10-31T23:00:00Z"));
        assert_eq!(shown("yesterday", false).as_deref(), Some("2026-11-13T23:00:00Z"));
        assert_eq!(shown("7d", false).as_deref(), Some("2026-11-08T16:53:23Z"));
        assert_eq!(shown("2026-11-02T10:00:00Z", false).as_deref(), Some("2026-11-02T10:00:00Z"));
        assert_eq!(shown("2026-11-02T10:00", false).as_deref(), Some("2026-11-02T09:00:00Z"));
        assert_eq!(shown("1.5h", false), shown("90min", false));
        for wrong in ["", "d", "30", "1e9d", ".d", "2026-13-01", "soon", "-3d"] {
            assert_eq!(moment(wrong, &now, false), None, "{wrong}");
        }
    }
}
