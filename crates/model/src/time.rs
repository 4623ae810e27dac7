//! Times and durations: seconds since 1970, time limits in minutes, and the texts in which Slurm reads and writes them.
//!
//! No clock is read here: `now` and the time zone are arguments. Units: `UnixSeconds` are seconds, time limits are minutes (seconds
//! round up). Invariant: what a `format_*` function prints, the matching `parse_*` reads back. Points in time are in
//! [`point`]. Source: `sbatch(1)` (--time, --begin), `squeue(1)`, `sacct(1)`.

pub mod point;

pub use point::{PointInTimeError, parse_past_point_in_time, parse_point_in_time};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

/// A point in time, in whole seconds since 1970-01-01 UTC.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct UnixSeconds(pub i64);

impl UnixSeconds {
    /// Later by some seconds (earlier if negative); stops at the ends of the range.
    pub fn saturating_add(self, seconds: i64) -> UnixSeconds {
        UnixSeconds(self.0.saturating_add(seconds))
    }

    /// Later by some seconds, or `None` past the end of the range.
    pub fn checked_add(self, seconds: i64) -> Option<UnixSeconds> {
        self.0.checked_add(seconds).map(UnixSeconds)
    }

    /// Seconds from `earlier` to this point; negative if it is later.
    pub fn since(self, earlier: UnixSeconds) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<i64> for UnixSeconds {
    type Output = UnixSeconds;
    fn add(self, seconds: i64) -> UnixSeconds {
        self.saturating_add(seconds)
    }
}

impl Sub<i64> for UnixSeconds {
    type Output = UnixSeconds;
    fn sub(self, seconds: i64) -> UnixSeconds {
        UnixSeconds(self.0.saturating_sub(seconds))
    }
}

impl Sub for UnixSeconds {
    type Output = i64;
    fn sub(self, earlier: UnixSeconds) -> i64 {
        self.since(earlier)
    }
}

impl fmt::Display for UnixSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A limit on run time. Unlimited sorts after every number of minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TimeLimit {
    /// So many minutes. What 0 means is up to the option (`--time=0` asks for no limit).
    Minutes(u32),
    /// No limit.
    Unlimited,
}

impl TimeLimit {
    /// Seconds, or `None` without limit.
    pub fn seconds(self) -> Option<i64> {
        match self {
            TimeLimit::Minutes(m) => Some(i64::from(m) * 60),
            TimeLimit::Unlimited => None,
        }
    }

    /// Minutes, or `None` without limit.
    pub fn minutes(self) -> Option<u32> {
        match self {
            TimeLimit::Minutes(m) => Some(m),
            TimeLimit::Unlimited => None,
        }
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimeLimit::Minutes(m) => f.pad(&format_duration_full(i64::from(*m) * 60)),
            TimeLimit::Unlimited => f.pad("UNLIMITED"),
        }
    }
}

impl FromStr for TimeLimit {
    type Err = DurationError;
    fn from_str(text: &str) -> Result<Self, DurationError> {
        let word = text.trim();
        if word == "-1"
            || word.eq_ignore_ascii_case("unlimited")
            || word.eq_ignore_ascii_case("infinite")
        {
            return Ok(TimeLimit::Unlimited);
        }
        parse_duration_minutes(word).map(TimeLimit::Minutes)
    }
}

/// Why a duration was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid time `{text}`: use minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes or days-hours:minutes:seconds"
)]
pub struct DurationError {
    /// What was given.
    pub text: String,
}

/// Reads a duration as whole minutes; seconds round up.
///
/// # Errors
/// Any other form, and more minutes than fit below the values that Slurm reserves (2^32 - 2 and above).
pub fn parse_duration_minutes(text: &str) -> Result<u32, DurationError> {
    const MINUTES_MAX: u64 = u32::MAX as u64 - 2;
    let minutes = parse_duration_seconds(text)?.div_ceil(60);
    if minutes > MINUTES_MAX {
        return Err(DurationError {
            text: text.to_owned(),
        });
    }
    Ok(minutes as u32)
}

/// Reads a duration in seconds: `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M`, `D-H:M:S`. A lone number is minutes.
///
/// # Errors
/// Any other form. Fields above their usual range (90 minutes, 99 seconds) are summed, as Slurm does.
pub fn parse_duration_seconds(text: &str) -> Result<u64, DurationError> {
    let error = || DurationError {
        text: text.to_owned(),
    };
    let number = |field: &str| -> Option<u64> {
        // Ten digits keep every sum far below the range of u64.
        let plain = (1..=10).contains(&field.len()) && field.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| field.parse().ok()).flatten()
    };
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(number(days).ok_or_else(error)?), clock),
        None => (None, text),
    };
    let fields = clock
        .split(':')
        .map(number)
        .collect::<Option<Vec<u64>>>()
        .ok_or_else(error)?;
    let (hours, minutes, seconds) = match (days, fields.as_slice()) {
        (None, [m]) => (0, *m, 0),
        (None, [m, s]) => (0, *m, *s),
        (Some(_), [h]) => (*h, 0, 0),
        (Some(_), [h, m]) => (*h, *m, 0),
        (_, [h, m, s]) => (*h, *m, *s),
        _ => return Err(error()),
    };
    Ok(days.unwrap_or(0) * 86_400 + hours * 3600 + minutes * 60 + seconds)
}

/// `[D-]HH:MM:SS`, as `scontrol` and `sacct` print; negative durations are `INVALID`, as there.
pub fn format_duration_full(seconds: i64) -> String {
    let Some((d, h, m, s)) = split_seconds(seconds) else {
        return "INVALID".to_owned();
    };
    if d > 0 {
        format!("{d}-{h:02}:{m:02}:{s:02}")
    } else {
        format!("{h:02}:{m:02}:{s:02}")
    }
}

/// `M:SS`, `H:MM:SS` or `D-HH:MM:SS`, as `squeue` prints.
pub fn format_duration_short(seconds: i64) -> String {
    let Some((d, h, m, s)) = split_seconds(seconds) else {
        return "INVALID".to_owned();
    };
    if d > 0 {
        format!("{d}-{h:02}:{m:02}:{s:02}")
    } else if h > 0 {
        format!("{h}:{m:02}:{s:02}")
    } else {
        format!("{m}:{s:02}")
    }
}

fn split_seconds(seconds: i64) -> Option<(i64, i64, i64, i64)> {
    (seconds >= 0).then_some((
        seconds / 86_400,
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
    ))
}

/// `YYYY-MM-DDTHH:MM:SS` in the time zone given. A time outside the years that a calendar can show prints `Unknown`.
pub fn format_timestamp(time: UnixSeconds, tz: &TimeZone) -> String {
    match Timestamp::from_second(time.0) {
        Ok(timestamp) => {
            let t = tz.to_datetime(timestamp);
            format!(
                "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
                t.year(),
                t.month(),
                t.day(),
                t.hour(),
                t.minute(),
                t.second()
            )
        }
        Err(_) => "Unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every form of the manual, with the rounding of seconds.
    #[test]
    fn limits_parse() {
        let minutes = |text: &str| text.parse::<TimeLimit>();
        for (text, m) in [
            ("30", 30),
            ("0", 0),
            ("1:00", 1),
            ("1:01", 2),
            ("0:30", 1),
            ("1:00:00", 60),
            ("1:30:01", 91),
            ("1-0", 1440),
            ("1-12", 2160),
            ("1-12:30", 2190),
            ("1-00:00:01", 1441),
            ("7-0:00:99", 10082),
            ("00-00:10:00", 10),
            ("90:00:00", 5400),
        ] {
            assert_eq!(minutes(text), Ok(TimeLimit::Minutes(m)), "{text}");
        }
        for text in ["UNLIMITED", "infinite", "-1"] {
            assert_eq!(minutes(text), Ok(TimeLimit::Unlimited), "{text}");
        }
        for bad in [
            "",
            "abc",
            "1-",
            "-2",
            "1:2:3:4",
            "1::2",
            "1-2-3",
            "1.5",
            "soon",
            "5 min",
            "99999999999",
            "4294967295",
        ] {
            assert!(minutes(bad).is_err(), "{bad} was accepted");
        }
        assert!(TimeLimit::Minutes(u32::MAX) < TimeLimit::Unlimited);
    }

    /// Formats of scontrol and of squeue.
    #[test]
    fn durations_print() {
        for (seconds, full, short) in [
            (0, "00:00:00", "0:00"),
            (37, "00:00:37", "0:37"),
            (1800, "00:30:00", "30:00"),
            (3600, "01:00:00", "1:00:00"),
            (86399, "23:59:59", "23:59:59"),
            (86400, "1-00:00:00", "1-00:00:00"),
            (10 * 86400 + 3661, "10-01:01:01", "10-01:01:01"),
        ] {
            assert_eq!(format_duration_full(seconds), full);
            assert_eq!(format_duration_short(seconds), short);
        }
        assert_eq!(format_duration_full(-1), "INVALID");
        assert_eq!(TimeLimit::Minutes(10080).to_string(), "7-00:00:00");
        assert_eq!(TimeLimit::Unlimited.to_string(), "UNLIMITED");
    }

    /// 1796013660 is 2026-11-30 04:41:00 UTC.
    #[test]
    fn timestamps_print() {
        assert_eq!(
            format_timestamp(UnixSeconds(1_796_013_660), &TimeZone::UTC),
            "2026-11-30T04:41:00"
        );
        assert_eq!(
            format_timestamp(UnixSeconds(i64::MAX), &TimeZone::UTC),
            "Unknown"
        );
    }

    /// Arithmetic stops at the ends.
    #[test]
    fn arithmetic() {
        assert_eq!(UnixSeconds(100) + 5, UnixSeconds(105));
        assert_eq!(UnixSeconds(100) - UnixSeconds(40), 60);
        assert_eq!(UnixSeconds(i64::MAX) + 1, UnixSeconds(i64::MAX));
        assert_eq!(UnixSeconds(i64::MAX).checked_add(1), None);
    }

    proptest! {
        /// A printed limit is read back as the same limit.
        #[test]
        fn limit_round_trip(minutes in 0u32..10_000_000) {
            prop_assert_eq!(TimeLimit::Minutes(minutes).to_string().parse(), Ok(TimeLimit::Minutes(minutes)));
        }

        /// The full form of any duration is read back to the second.
        #[test]
        fn seconds_round_trip(seconds in 0i64..1_000_000_000) {
            prop_assert_eq!(parse_duration_seconds(&format_duration_full(seconds)), Ok(seconds as u64));
        }
    }
}
