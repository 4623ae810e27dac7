//! The time window of sacct: which jobs a start and an end time mean.
//!
//! Pure; `now` and midnight (in the caller's time zone) are arguments. Source: `sacct(1)`, DEFAULT TIME WINDOW.

use sluice_model::time::UnixSeconds;

/// A period, both ends included. `start == end` asks for one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeWindow {
    /// From.
    pub start: UnixSeconds,
    /// To.
    pub end: UnixSeconds,
}

/// What decides the window of a `sacct` call.
#[derive(Debug, Clone, Copy)]
pub struct SacctTimes {
    /// The time of the call.
    pub now: UnixSeconds,
    /// The last 00:00:00 before it in the user's time zone.
    pub midnight: UnixSeconds,
    /// `--starttime`.
    pub start: Option<UnixSeconds>,
    /// `--endtime`.
    pub end: Option<UnixSeconds>,
    /// Jobs were named (`--jobs`).
    pub with_jobs: bool,
    /// States were named (`--state`).
    pub with_states: bool,
}

impl TimeWindow {
    /// Everything up to `now`.
    #[must_use]
    pub fn until(now: UnixSeconds) -> Self {
        Self {
            start: UnixSeconds(0),
            end: now,
        }
    }

    /// The window that `sacct` searches.
    ///
    /// Without `--starttime`: the epoch when jobs are named, else now when states are named, else midnight. Without
    /// `--endtime`: now; but the given start, when states are named with it.
    #[must_use]
    pub fn sacct(times: SacctTimes) -> Self {
        let start = times
            .start
            .unwrap_or(match (times.with_jobs, times.with_states) {
                (true, _) => UnixSeconds(0),
                (false, true) => times.now,
                (false, false) => times.midnight,
            });
        let end = times.end.unwrap_or(match times.start {
            Some(start) if times.with_states => start,
            _ => times.now,
        });
        Self { start, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixSeconds = UnixSeconds(1_000_000);
    const MIDNIGHT: UnixSeconds = UnixSeconds(990_000);

    fn window(
        start: Option<i64>,
        end: Option<i64>,
        with_jobs: bool,
        with_states: bool,
    ) -> (i64, i64) {
        let window = TimeWindow::sacct(SacctTimes {
            now: NOW,
            midnight: MIDNIGHT,
            start: start.map(UnixSeconds),
            end: end.map(UnixSeconds),
            with_jobs,
            with_states,
        });
        (window.start.0, window.end.0)
    }

    /// The table of sacct(1): a wrong default hides jobs from users.
    #[test]
    fn defaults_follow_the_manual() {
        assert_eq!(window(None, None, false, false), (990_000, 1_000_000));
        assert_eq!(window(None, None, true, false), (0, 1_000_000));
        assert_eq!(window(None, None, false, true), (1_000_000, 1_000_000));
        assert_eq!(window(None, None, true, true), (0, 1_000_000));
        assert_eq!(window(Some(5), None, false, false), (5, 1_000_000));
        assert_eq!(window(Some(5), None, false, true), (5, 5));
        assert_eq!(window(Some(5), None, true, true), (5, 5));
        assert_eq!(window(Some(5), Some(9), false, true), (5, 9));
        assert_eq!(
            window(None, Some(995_000), false, false),
            (990_000, 995_000)
        );
    }
}
