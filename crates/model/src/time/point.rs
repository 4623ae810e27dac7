//! Points in time as users write them: `16:00`, `noon tomorrow`, `now+1hour`, `2026-12-01T08:00`, `uts1796013660`.
//!
//! Pure: the present and the time zone are arguments. A time of day that has passed means tomorrow for things to come
//! (`--begin`), and stays today for reports (`sacct -S`). Source: `sbatch(1)` (--begin), `sacct(1)` (--starttime).

use super::UnixSeconds;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

/// Why a point in time was refused; the text is the one that Slurm's commands print.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid time specification (pos={position}): {text}")]
pub struct PointInTimeError {
    /// What was given.
    pub text: String,
    /// Offset in bytes at which it ceased to be understood.
    pub position: usize,
}

/// Which side of the present an incomplete time lies on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Future,
    Past,
}

/// Reads a point in time that lies ahead: a time of day that has passed means tomorrow, a day without year that has passed next year.
///
/// # Errors
/// With the offset at which the text ceased to be a time.
pub fn parse_point_in_time(
    text: &str,
    now: UnixSeconds,
    tz: &TimeZone,
) -> Result<UnixSeconds, PointInTimeError> {
    Scanner::new(text, now, tz, Side::Future).read()
}

/// Reads a point in time for a report about the past: a time of day means today, a day without year its last occurrence.
///
/// # Errors
/// As [`parse_point_in_time`].
pub fn parse_past_point_in_time(
    text: &str,
    now: UnixSeconds,
    tz: &TimeZone,
) -> Result<UnixSeconds, PointInTimeError> {
    Scanner::new(text, now, tz, Side::Past).read()
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    now: UnixSeconds,
    tz: &'a TimeZone,
    side: Side,
    /// Hour, minute, second, once a time of day was met.
    clock: Option<(u32, u32, u32)>,
    /// Day, once a date was met.
    date: Option<Date>,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str, now: UnixSeconds, tz: &'a TimeZone, side: Side) -> Self {
        Scanner {
            text,
            at: 0,
            now,
            tz,
            side,
            clock: None,
            date: None,
        }
    }

    fn fail<T>(&self) -> Result<T, PointInTimeError> {
        Err(PointInTimeError {
            text: self.text.to_owned(),
            position: self.at,
        })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn read(mut self) -> Result<UnixSeconds, PointInTimeError> {
        if let Some(epoch) = self.text.trim().strip_prefix("uts") {
            return match parse_digits(epoch) {
                Some(seconds) => Ok(UnixSeconds(seconds)),
                None => self.fail(),
            };
        }
        let Ok(timestamp) = Timestamp::from_second(self.now.0) else {
            return self.fail();
        };
        let present = self.tz.to_datetime(timestamp);
        if self.text.trim().is_empty() {
            return self.fail();
        }
        while !self.rest().is_empty() {
            if let Some(separator) = self.rest().chars().next().filter(|c| c.is_whitespace()) {
                self.at += separator.len_utf8();
                continue;
            }
            // A date and a time may be joined by `T` or `-`.
            let joins = (self.clock.is_some() != self.date.is_some())
                && self.rest().starts_with(['T', 't', '-']);
            if joins
                && self
                    .rest()
                    .as_bytes()
                    .get(1)
                    .is_some_and(u8::is_ascii_digit)
            {
                self.at += 1;
                continue;
            }
            if self.take_word("now") {
                return self.read_offset();
            }
            self.read_item(present)?;
        }
        self.combine(present)
    }

    /// Takes a word, in any case, that is not the beginning of a longer one.
    fn take_word(&mut self, word: &str) -> bool {
        let Some(head) = self.rest().get(..word.len()) else {
            return false;
        };
        let next = self.rest()[word.len()..].chars().next();
        if !head.eq_ignore_ascii_case(word) || next.is_some_and(char::is_alphanumeric) {
            return false;
        }
        self.at += word.len();
        true
    }

    fn read_item(&mut self, present: DateTime) -> Result<(), PointInTimeError> {
        const HOURS: [(&str, u32); 5] = [
            ("midnight", 0),
            ("noon", 12),
            ("elevenses", 11),
            ("fika", 15),
            ("teatime", 16),
        ];
        for (word, hour) in HOURS {
            if self.take_word(word) {
                return self.set_clock(hour, 0, 0);
            }
        }
        if self.take_word("today") {
            return self.set_date(present.date());
        }
        if self.take_word("tomorrow") {
            return match present.date().tomorrow() {
                Ok(date) => self.set_date(date),
                Err(_) => self.fail(),
            };
        }
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let after = self.rest().as_bytes().get(digits).copied();
        match (digits, after) {
            (1..=2, Some(b':')) => self.read_clock(),
            (4, Some(b'-')) => self.read_iso_date(),
            (1..=2, Some(b'/' | b'.')) => self.read_slashed_date(present),
            (4 | 6, _) => self.read_bare_date(digits, present),
            _ => self.fail(),
        }
    }

    fn set_clock(&mut self, hour: u32, minute: u32, second: u32) -> Result<(), PointInTimeError> {
        if self.clock.is_some() || hour > 23 || minute > 59 || second > 59 {
            return self.fail();
        }
        self.clock = Some((hour, minute, second));
        Ok(())
    }

    fn set_date(&mut self, date: Date) -> Result<(), PointInTimeError> {
        if self.date.is_some() {
            return self.fail();
        }
        self.date = Some(date);
        Ok(())
    }

    /// One or two digits.
    fn two_digits(&mut self) -> Result<u32, PointInTimeError> {
        let count = self
            .rest()
            .bytes()
            .take(2)
            .take_while(u8::is_ascii_digit)
            .count();
        match parse_digits(&self.rest()[..count]) {
            Some(value) => {
                self.at += count;
                Ok(value as u32)
            }
            None => self.fail(),
        }
    }

    fn take_byte(&mut self, bytes: &[u8]) -> bool {
        let hit = self
            .rest()
            .as_bytes()
            .first()
            .is_some_and(|b| bytes.contains(b));
        self.at += usize::from(hit);
        hit
    }

    /// `HH:MM[:SS] [AM|PM]`
    fn read_clock(&mut self) -> Result<(), PointInTimeError> {
        let mut hour = self.two_digits()?;
        if !self.take_byte(b":") {
            return self.fail();
        }
        let minute = self.two_digits()?;
        let second = if self.take_byte(b":") {
            self.two_digits()?
        } else {
            0
        };
        let blanks = self.rest().len() - self.rest().trim_start().len();
        let mark = self.at;
        self.at += blanks;
        let (am, pm) = (self.take_word("am"), self.take_word("pm"));
        if am || pm {
            if hour == 0 || hour > 12 {
                return self.fail();
            }
            hour = hour % 12 + if pm { 12 } else { 0 };
        } else {
            self.at = mark;
        }
        self.set_clock(hour, minute, second)
    }

    /// `YYYY-MM-DD`
    fn read_iso_date(&mut self) -> Result<(), PointInTimeError> {
        let year = self.two_digits()? * 100 + self.two_digits()?;
        if !self.take_byte(b"-") {
            return self.fail();
        }
        let month = self.two_digits()?;
        if !self.take_byte(b"-") {
            return self.fail();
        }
        let day = self.two_digits()?;
        self.set_day(year, month, day)
    }

    /// `MM/DD[/YY]` or `MM.DD[.YY]`
    fn read_slashed_date(&mut self, present: DateTime) -> Result<(), PointInTimeError> {
        let month = self.two_digits()?;
        if !self.take_byte(b"/.") {
            return self.fail();
        }
        let day = self.two_digits()?;
        if self.take_byte(b"/.") {
            let mut year = self.two_digits()?;
            if self
                .rest()
                .bytes()
                .take(2)
                .filter(u8::is_ascii_digit)
                .count()
                == 2
            {
                year = year * 100 + self.two_digits()?;
            } else {
                year += 2000;
            }
            return self.set_day(year, month, day);
        }
        self.set_day_without_year(month, day, present)
    }

    /// `MMDD` or `MMDDYY`
    fn read_bare_date(&mut self, digits: usize, present: DateTime) -> Result<(), PointInTimeError> {
        let (month, day) = (self.two_digits()?, self.two_digits()?);
        if digits == 6 {
            let year = 2000 + self.two_digits()?;
            return self.set_day(year, month, day);
        }
        self.set_day_without_year(month, day, present)
    }

    fn set_day(&mut self, year: u32, month: u32, day: u32) -> Result<(), PointInTimeError> {
        match Date::new(year as i16, month as i8, day as i8) {
            Ok(date) => self.set_date(date),
            Err(_) => self.fail(),
        }
    }

    fn set_day_without_year(
        &mut self,
        month: u32,
        day: u32,
        present: DateTime,
    ) -> Result<(), PointInTimeError> {
        let this_year = present.year() as u32;
        let today = (present.month() as u32, present.day() as u32);
        let year = match self.side {
            Side::Future if (month, day) < today => this_year + 1,
            Side::Past if (month, day) > today => this_year - 1,
            _ => this_year,
        };
        self.set_day(year, month, day)
    }

    /// What may follow `now`.
    fn read_offset(&mut self) -> Result<UnixSeconds, PointInTimeError> {
        let sign = if self.take_byte(b"+") {
            1
        } else if self.take_byte(b"-") {
            -1
        } else if self.rest().trim().is_empty() {
            return Ok(self.now);
        } else {
            return self.fail();
        };
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let Some(count) = parse_digits(&self.rest()[..digits]) else {
            return self.fail();
        };
        self.at += digits;
        let unit = match self.rest().trim().to_ascii_lowercase().as_str() {
            "" | "second" | "seconds" => 1,
            "minute" | "minutes" => 60,
            "hour" | "hours" => 3600,
            "day" | "days" => 86_400,
            "week" | "weeks" => 604_800,
            _ => return self.fail(),
        };
        let moved = count
            .checked_mul(unit)
            .and_then(|seconds| self.now.checked_add(sign * seconds))
            // A time that no calendar can show is a slip of the pen.
            .filter(|time| Timestamp::from_second(time.0).is_ok());
        match moved {
            Some(time) => Ok(time),
            None => self.fail(),
        }
    }

    fn combine(&self, present: DateTime) -> Result<UnixSeconds, PointInTimeError> {
        let (hour, minute, second) = self.clock.unwrap_or((0, 0, 0));
        let mut date = self.date.unwrap_or_else(|| present.date());
        let clock_now = (
            present.hour() as u32,
            present.minute() as u32,
            present.second() as u32,
        );
        if self.date.is_none() && self.side == Side::Future && (hour, minute, second) < clock_now {
            date = match date.tomorrow() {
                Ok(date) => date,
                Err(_) => return self.fail(),
            };
        }
        match self
            .tz
            .to_timestamp(date.at(hour as i8, minute as i8, second as i8, 0))
        {
            Ok(timestamp) => Ok(UnixSeconds(timestamp.as_second())),
            Err(_) => self.fail(),
        }
    }
}

/// A plain decimal number of at most 12 digits.
fn parse_digits(text: &str) -> Option<i64> {
    let plain = (1..=12).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::format_timestamp;
    use proptest::prelude::*;

    /// 2026-11-30 04:41:00 UTC, a Monday.
    const NOW: UnixSeconds = UnixSeconds(1_796_013_660);

    fn future(text: &str) -> String {
        match parse_point_in_time(text, NOW, &TimeZone::UTC) {
            Ok(t) => format_timestamp(t, &TimeZone::UTC),
            Err(e) => e.to_string(),
        }
    }

    /// All forms of the manual.
    #[test]
    fn forms() {
        for (text, expected) in [
            ("now", "2026-11-30T04:41:00"),
            ("now+90", "2026-11-30T04:42:30"),
            ("now+1hour", "2026-11-30T05:41:00"),
            ("now+2days", "2026-12-02T04:41:00"),
            ("now-1week", "2026-11-23T04:41:00"),
            ("now+30minutes", "2026-11-30T05:11:00"),
            ("16:00", "2026-11-30T16:00:00"),
            ("04:00", "2026-12-01T04:00:00"),
            ("4:00 PM", "2026-11-30T16:00:00"),
            ("12:30:05am", "2026-12-01T00:30:05"),
            ("noon", "2026-11-30T12:00:00"),
            ("midnight", "2026-12-01T00:00:00"),
            ("teatime", "2026-11-30T16:00:00"),
            ("fika", "2026-11-30T15:00:00"),
            ("elevenses", "2026-11-30T11:00:00"),
            ("today", "2026-11-30T00:00:00"),
            ("tomorrow", "2026-12-01T00:00:00"),
            ("noon tomorrow", "2026-12-01T12:00:00"),
            ("tomorrow 08:15", "2026-12-01T08:15:00"),
            ("1224", "2026-12-24T00:00:00"),
            ("0101", "2027-01-01T00:00:00"),
            ("010128", "2028-01-01T00:00:00"),
            ("12/24", "2026-12-24T00:00:00"),
            ("12/24/27", "2027-12-24T00:00:00"),
            ("12.24.2027", "2027-12-24T00:00:00"),
            ("12/24-18:30", "2026-12-24T18:30:00"),
            ("2026-12-01", "2026-12-01T00:00:00"),
            ("2026-12-01T08:15", "2026-12-01T08:15:00"),
            ("2026-12-01T08:15:59", "2026-12-01T08:15:59"),
            ("2026-12-01 08:15", "2026-12-01T08:15:00"),
            ("uts1796013660", "2026-11-30T04:41:00"),
        ] {
            assert_eq!(future(text), expected, "{text}");
        }
    }

    /// The message and the position are those that sbatch prints.
    #[test]
    fn faults() {
        assert_eq!(future("abc"), "Invalid time specification (pos=0): abc");
        for bad in [
            "",
            " ",
            "25:00",
            "10:61",
            "13:00 PM",
            "2026-13-01",
            "0230",
            "now+",
            "now+5parsecs",
            "now5",
            "12:00 13:00",
            "today tomorrow",
            "utsx",
            "now+999999999999weeks",
            "2026-12-01Tx",
        ] {
            assert!(
                parse_point_in_time(bad, NOW, &TimeZone::UTC).is_err(),
                "{bad} was accepted"
            );
        }
    }

    /// Reports look back where a submission looks ahead.
    #[test]
    fn past() {
        let past = |text: &str| {
            parse_past_point_in_time(text, NOW, &TimeZone::UTC)
                .map(|t| format_timestamp(t, &TimeZone::UTC))
        };
        assert_eq!(past("04:00").as_deref(), Ok("2026-11-30T04:00:00"));
        assert_eq!(past("1224").as_deref(), Ok("2025-12-24T00:00:00"));
        assert_eq!(past("0101").as_deref(), Ok("2026-01-01T00:00:00"));
    }

    /// The zone decides what the clock shows.
    #[test]
    fn zone() {
        let tz = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(
            parse_point_in_time("2026-12-01T02:00", NOW, &tz),
            parse_point_in_time("2026-12-01T00:00", NOW, &TimeZone::UTC)
        );
    }

    proptest! {
        /// Times that we print can be typed back.
        #[test]
        fn round_trip(seconds in 0i64..4_000_000_000) {
            let text = format_timestamp(UnixSeconds(seconds), &TimeZone::UTC);
            prop_assert_eq!(parse_point_in_time(&text, NOW, &TimeZone::UTC), Ok(UnixSeconds(seconds)));
        }

        /// No text makes the reader panic.
        #[test]
        fn any_text_is_an_answer(text in "(now|today|noon|uts|[0-9:/.T +é-]){0,12}") {
            let _ = parse_point_in_time(&text, NOW, &TimeZone::UTC);
        }
    }
}
