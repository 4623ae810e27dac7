//! When a reservation takes place: this time and, if it recurs, the times after.
//!
//! An occurrence moves by whole days of 24 hours, and weekdays are those of the offset from UTC that was in force when it was made,
//! so that a replay gives the same times anywhere.
//! Invariant: occurrences of one reservation do not overlap. Source: scontrol(1), reservation flags.

use sluice_model::reservation::ReservationFlags;
use sluice_model::time::UnixSeconds;

use crate::cluster::Reservation;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// Occurrences that are looked at ahead.
const MOST_OCCURRENCES: usize = 200;

/// Seconds that the rule of recurrence looks ahead.
const HORIZON: i64 = 28 * DAY;

/// 0 = Monday.
fn weekday(time: i64) -> i64 {
    // 1 January 1970 was a Thursday.
    (time.div_euclid(DAY) + 3).rem_euclid(7)
}

/// Seconds from an occurrence that starts at `local_start` to the next; `None` = it does not recur.
#[must_use]
pub fn step(flags: ReservationFlags, local_start: i64) -> Option<i64> {
    let day = weekday(local_start);
    Some(match () {
        () if flags.contains(ReservationFlags::HOURLY) => HOUR,
        () if flags.contains(ReservationFlags::DAILY) => DAY,
        () if flags.contains(ReservationFlags::WEEKDAY) => match day {
            4 => 3 * DAY,
            5 => 2 * DAY,
            _ => DAY,
        },
        () if flags.contains(ReservationFlags::WEEKEND) => match day {
            5 => DAY,
            6 => 6 * DAY,
            _ => (5 - day) * DAY,
        },
        () if flags.contains(ReservationFlags::WEEKLY) => 7 * DAY,
        () => return None,
    })
}

fn period(reservation: &Reservation, start: i64) -> Option<i64> {
    step(reservation.flags, start + reservation.utc_offset_secs)
}

/// Start and end of the occurrence after the present one.
#[must_use]
pub fn next(reservation: &Reservation) -> Option<(UnixSeconds, UnixSeconds)> {
    let by = period(reservation, reservation.start.0)?;
    Some((
        reservation.start.saturating_add(by),
        reservation.end.saturating_add(by),
    ))
}

/// The occurrence that is not over at `now`: the present one, or the first after it that ends later.
#[must_use]
pub fn current(reservation: &Reservation, now: UnixSeconds) -> (UnixSeconds, UnixSeconds) {
    let (mut start, mut end) = (reservation.start.0, reservation.end.0);
    while end <= now.0 {
        let Some(by) = period(reservation, start) else {
            break;
        };
        // Many periods at once when nobody looked for long; the rule of weekdays repeats by the week.
        let periods = ((now.0 - end) / (7 * DAY)).max(0);
        let by = if periods > 0 { periods * 7 * DAY } else { by };
        start += by;
        end += by;
    }
    (UnixSeconds(start), UnixSeconds(end))
}

/// Spans that it takes from `now` on: ascending. One that recurs is listed as far as the horizon, and what lies behind counts as
/// taken to the end of time.
#[must_use]
pub fn spans(reservation: &Reservation, now: UnixSeconds) -> Vec<(i64, i64)> {
    if reservation.is(ReservationFlags::TIME_FLOAT) {
        let (start, end) = (reservation.start_at(now).0, reservation.end_at(now).0);
        return if start < end {
            vec![(start, end)]
        } else {
            Vec::new()
        };
    }
    let (mut start, mut end) = current(reservation, now);
    let mut spans = Vec::new();
    while end > now {
        if spans.len() >= MOST_OCCURRENCES || (!spans.is_empty() && start.0 > now.0 + HORIZON) {
            spans.push((start.0, i64::MAX));
            break;
        }
        spans.push((start.0, end.0));
        match period(reservation, start.0) {
            Some(by) => (start, end) = (start.saturating_add(by), end.saturating_add(by)),
            None => break,
        }
    }
    spans
}

/// Some occurrence takes place between `from` and `to`.
#[must_use]
pub fn touches(reservation: &Reservation, from: i64, to: i64, now: UnixSeconds) -> bool {
    spans(reservation, now)
        .iter()
        .any(|(start, end)| *start < to && from < *end)
}

/// One occurrence takes the whole of `from` until `to`.
#[must_use]
pub fn holds(reservation: &Reservation, from: i64, to: i64, now: UnixSeconds) -> bool {
    spans(reservation, now)
        .iter()
        .any(|(start, end)| *start <= from && to <= *end && *end != i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(flags: ReservationFlags, start: i64, end: i64) -> Reservation {
        Reservation {
            start: UnixSeconds(start),
            end: UnixSeconds(end),
            flags,
            ..Reservation::default()
        }
    }

    /// 4 January 2024 was a Thursday: 19726 days after 1 January 1970.
    #[test]
    fn weekdays_and_weekends() {
        let thursday = 19_726 * DAY;
        assert_eq!(weekday(thursday), 3);
        let weekday = |start| step(ReservationFlags::WEEKDAY, start);
        assert_eq!(weekday(thursday), Some(DAY));
        assert_eq!(weekday(thursday + DAY), Some(3 * DAY));
        let weekend = |start| step(ReservationFlags::WEEKEND, start);
        assert_eq!(weekend(thursday + 2 * DAY), Some(DAY));
        assert_eq!(weekend(thursday + 3 * DAY), Some(6 * DAY));
        assert_eq!(weekend(thursday), Some(2 * DAY));
        assert_eq!(step(ReservationFlags::MAINT, thursday), None);
    }

    /// A daily hour: a run of 23 hours fits between two, one of 24 never does.
    #[test]
    fn daily_occurrences_touch() {
        let daily = at(ReservationFlags::DAILY, 1000, 1000 + HOUR);
        let now = UnixSeconds(0);
        assert!(!touches(&daily, 1000 + HOUR, 1000 + DAY, now));
        assert!(touches(&daily, 1000 + HOUR, 1001 + DAY, now));
        assert!(touches(&daily, 1000 + 20 * DAY, 1001 + 20 * DAY, now));
        assert!(holds(&daily, 1000 + 2 * DAY, 1000 + 2 * DAY + HOUR, now));
        assert!(!holds(&daily, 1000, 1001 + HOUR, now));
    }

    /// What is over moves on, also over many periods.
    #[test]
    fn the_current_occurrence_ends_later() {
        let hourly = at(ReservationFlags::HOURLY, 0, 600);
        assert_eq!(
            current(&hourly, UnixSeconds(599)),
            (UnixSeconds(0), UnixSeconds(600))
        );
        assert_eq!(
            current(&hourly, UnixSeconds(600)),
            (UnixSeconds(HOUR), UnixSeconds(HOUR + 600))
        );
        let late = UnixSeconds(100 * DAY + 30);
        assert_eq!(
            current(&hourly, late),
            (UnixSeconds(100 * DAY), UnixSeconds(100 * DAY + 600))
        );
        let once = at(ReservationFlags::EMPTY, 0, 600);
        assert!(spans(&once, UnixSeconds(600)).is_empty());
    }
}
