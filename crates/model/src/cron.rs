//! Calendars of crontab entries: five fields, or a name such as `@daily`, and when they come next.
//!
//! Minutes, hours, days of the month, months, days of the week; each a `*`, numbers, names, ranges, steps and lists of them. When days
//! of both kinds are restricted, either of them will do. Times are those of a time zone: an hour that does not exist on a day is
//! skipped with it. Pure. Source: scrontab(1), crontab(5).

use std::fmt;
use std::str::FromStr;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use thiserror::Error;

use crate::time::UnixSeconds;

/// How far ahead a next time is looked for: 29 February comes every 8 years at the latest.
const DAYS_AHEAD_MAX: u32 = 366 * 9;

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Names that stand for five fields.
const NAMES: [(&str, &str); 11] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@elevenses", "0 11 * * *"),
    ("@fika", "0 15 * * *"),
    ("@noon", "0 12 * * *"),
    ("@teatime", "0 16 * * *"),
];

/// Why a calendar cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CronError {
    /// Not five fields.
    #[error("a calendar has five fields: minute, hour, day of the month, month, day of the week")]
    Fields,
    /// A field that says nothing.
    #[error("{field}: \"{text}\" is not a value between {low} and {high}")]
    Value {
        /// Which.
        field: &'static str,
        /// What stands there.
        text: String,
        /// Lowest value.
        low: u32,
        /// Highest value.
        high: u32,
    },
    /// A name that is none.
    #[error("\"{0}\" is no calendar")]
    Name(String),
}

/// A calendar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronSpec {
    text: String,
    /// One bit for each minute, hour, day, month, weekday (Sunday is 0).
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    any_day: bool,
    any_weekday: bool,
}

impl FromStr for CronSpec {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        let text = text.trim();
        let fields = match NAMES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text))
        {
            Some((_, fields)) => fields,
            None if text.starts_with('@') => return Err(CronError::Name(text.to_owned())),
            None => text,
        };
        let words: Vec<&str> = fields.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = words.as_slice() else {
            return Err(CronError::Fields);
        };
        let mut weekday_bits = field("day of the week", weekdays, 0, 7, &WEEKDAYS)?;
        if weekday_bits & (1 << 7) != 0 {
            weekday_bits |= 1;
        }
        Ok(Self {
            text: text.to_owned(),
            minutes: field("minute", minutes, 0, 59, &[])?,
            hours: field("hour", hours, 0, 23, &[])?,
            days: field("day of the month", days, 1, 31, &[])?,
            months: field("month", months, 1, 12, &MONTHS)?,
            weekdays: weekday_bits & 0x7f,
            any_day: days.starts_with('*'),
            any_weekday: weekdays.starts_with('*'),
        })
    }
}

impl fmt::Display for CronSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn field(
    name: &'static str,
    text: &str,
    low: u32,
    high: u32,
    names: &[&str],
) -> Result<u64, CronError> {
    let bad = || CronError::Value {
        field: name,
        text: text.to_owned(),
        low,
        high,
    };
    let value = |word: &str| -> Result<u32, CronError> {
        let named = names
            .iter()
            .position(|known| known.eq_ignore_ascii_case(word))
            .and_then(|at| u32::try_from(at).ok());
        named
            .map(|at| at + low)
            .or_else(|| word.parse().ok())
            .filter(|value| (low..=high).contains(value))
            .ok_or_else(bad)
    };
    let mut bits = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse::<usize>().map_err(|_| bad())?),
            None => (part, 1),
        };
        if step == 0 {
            return Err(bad());
        }
        let (first, last) = match (range, range.split_once('-')) {
            ("*", _) => (low, high),
            (_, Some((first, last))) => (value(first)?, value(last)?),
            // A step from one value on goes to the end.
            (_, None) if part.contains('/') => (value(range)?, high),
            (_, None) => (value(range)?, value(range)?),
        };
        if first > last {
            return Err(bad());
        }
        for at in (first..=last).step_by(step) {
            bits |= 1 << at;
        }
    }
    Ok(bits)
}

impl CronSpec {
    /// The first time after `now`, in `zone`; `None` for a day that never comes (30 February).
    #[must_use]
    pub fn next_after(&self, now: UnixSeconds, zone: &TimeZone) -> Option<UnixSeconds> {
        let start = zone.to_datetime(Timestamp::from_second(now.0).ok()?);
        let mut day = start.date();
        for _ in 0..DAYS_AHEAD_MAX {
            if self.has_day(day) {
                for hour in (0..24_i8).filter(|hour| self.hours & (1 << hour) != 0) {
                    for minute in (0..60_i8).filter(|minute| self.minutes & (1 << minute) != 0) {
                        let wanted: DateTime = day.at(hour, minute, 0, 0);
                        if wanted <= start.saturating_sub(2.hours()) {
                            continue;
                        }
                        let Ok(timestamp) = zone.to_timestamp(wanted) else {
                            continue;
                        };
                        let at = timestamp.as_second();
                        if zone.to_datetime(timestamp) == wanted && at > now.0 {
                            return Some(UnixSeconds(at));
                        }
                    }
                }
            }
            day = day.tomorrow().ok()?;
        }
        None
    }

    fn has_day(&self, day: jiff::civil::Date) -> bool {
        if self.months & (1 << day.month()) == 0 {
            return false;
        }
        let by_month = self.days & (1 << day.day()) != 0;
        let by_week = self.weekdays & (1 << day.weekday().to_sunday_zero_offset()) != 0;
        match (self.any_day, self.any_weekday) {
            (false, false) => by_month || by_week,
            _ => by_month && by_week,
        }
    }
}

/// Lines of a crontab that are entries, from 0; lines that end with a backslash go on in the next. Comments, empty lines and
/// assignments (`NAME=value`) are none.
#[must_use]
pub fn entry_lines(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    let mut goes_on = false;
    for (number, line) in (0..).zip(text.lines()) {
        let begins = !goes_on;
        let line = line.trim();
        let comment = line.starts_with('#');
        goes_on = line.ends_with('\\') && !(begins && comment);
        if begins && !line.is_empty() && !comment && assignment(line).is_none() {
            found.push(number);
        }
    }
    found
}

/// `NAME=value` of a crontab; quotes around the value are taken off.
#[must_use]
pub fn assignment(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    let good = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let bare = ['"', '\'']
        .into_iter()
        .find_map(|mark| value.strip_prefix(mark)?.strip_suffix(mark));
    good.then_some((name, bare.unwrap_or(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(spec: &str, from: &str, zone: &str) -> String {
        let zone = TimeZone::get(zone).expect("known");
        let from: DateTime = from.parse().expect("a time");
        let now = zone.to_timestamp(from).expect("exists").as_second();
        let spec: CronSpec = spec.parse().expect("valid");
        match spec.next_after(UnixSeconds(now), &zone) {
            None => "never".to_owned(),
            Some(at) => zone
                .to_datetime(Timestamp::from_second(at.0).expect("in range"))
                .strftime("%a %Y-%m-%dT%H:%M")
                .to_string(),
        }
    }

    /// 30 November 2026 is a Monday.
    #[test]
    fn next_times() {
        let now = "2026-11-30T11:23:30";
        for (spec, expected) in [
            ("* * * * *", "Mon 2026-11-30T11:24"),
            ("*/5 * * * *", "Mon 2026-11-30T11:25"),
            ("23 11 * * *", "Tue 2026-12-01T11:23"),
            ("@hourly", "Mon 2026-11-30T12:00"),
            ("@daily", "Tue 2026-12-01T00:00"),
            ("@weekly", "Sun 2026-12-06T00:00"),
            ("@monthly", "Tue 2026-12-01T00:00"),
            ("@yearly", "Fri 2027-01-01T00:00"),
            ("@fika", "Mon 2026-11-30T15:00"),
            ("0 9 * * mon-fri", "Tue 2026-12-01T09:00"),
            ("0 9 * jan,mar 7", "Sun 2027-01-03T09:00"),
            // Days of both kinds: either will do.
            ("0 0 13 * fri", "Fri 2026-12-04T00:00"),
            ("0 0 29 2 *", "Tue 2028-02-29T00:00"),
            ("0 0 30 2 *", "never"),
            ("10-20/4,50 11 * * *", "Mon 2026-11-30T11:50"),
        ] {
            assert_eq!(next(spec, now, "UTC"), expected, "{spec}");
        }
    }

    /// On 28 March 2027 there is no 02:30 in Berlin; that day is left out.
    #[test]
    fn hours_that_do_not_exist() {
        assert_eq!(
            next("30 2 * * *", "2027-03-27T12:00:00", "Europe/Berlin"),
            "Mon 2027-03-29T02:30"
        );
    }

    /// What is an entry and what is not.
    #[test]
    fn lines_of_a_crontab() {
        let text = "# c\nA='x y'\n\n#SCRON -n 2\n* * * * * a \\\n  more\n@daily b=1\n";
        assert_eq!(entry_lines(text), [4, 6]);
        assert_eq!(assignment("A='x y'"), Some(("A", "x y")));
        assert_eq!(assignment("@daily b=1"), None);
    }

    /// What is no calendar.
    #[test]
    fn refusals() {
        for bad in [
            "* * * *",
            "60 * * * *",
            "* * 0 * *",
            "5-1 * * * *",
            "*/0 * * * *",
            "x * * * *",
            "@reboot",
        ] {
            assert!(bad.parse::<CronSpec>().is_err(), "{bad}");
        }
    }
}
