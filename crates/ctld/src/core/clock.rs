//! The daemon's clock: wall time that does not jump.
//!
//! Time limits, silences, purging and start times are all told in it. A system clock that is set an hour forward would end
//! jobs an hour early and take every node for silent; set back, ends would lie before starts. So the time here grows with the
//! monotonic clock (the one that also counts while the machine sleeps), and a difference to the system's clock is made good at
//! a twentieth at most of the time that passes. A restart of the daemon takes the system's clock over as it is.
//! Unit: milliseconds since the epoch. Invariant: it never goes back.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

/// Of the time that passes, this part at most is added or left out to follow the system's clock.
const FOLLOW_PART: i64 = 20;

/// Differences above this are told to the administrator.
const JUMP_MS: i64 = 10_000;

/// A clock without jumps; pure, so that it can be tested.
#[derive(Debug, Clone, Copy)]
struct SteadyClock {
    /// Monotonic clock at the last look.
    monotonic_ms: i64,
    /// What was told at the last look.
    told_ms: i64,
    /// Passed time that was too short for a millisecond of correction.
    rest_ms: i64,
    /// System clock minus monotonic clock when its jump was last reported.
    reported_offset_ms: i64,
}

impl SteadyClock {
    fn new(monotonic_ms: i64, wall_ms: i64) -> Self {
        Self {
            monotonic_ms,
            told_ms: wall_ms,
            rest_ms: 0,
            reported_offset_ms: wall_ms - monotonic_ms,
        }
    }

    /// The time now; and by how much the system's clock has jumped, once for each jump.
    fn tell(&mut self, monotonic_ms: i64, wall_ms: i64) -> (i64, Option<i64>) {
        let passed = (monotonic_ms - self.monotonic_ms).max(0);
        self.monotonic_ms = self.monotonic_ms.max(monotonic_ms);
        let steady = self.told_ms + passed;
        let may = passed + self.rest_ms;
        let correction = (wall_ms - steady).clamp(-(may / FOLLOW_PART), may / FOLLOW_PART);
        self.rest_ms = may % FOLLOW_PART;
        // Many looks within a few milliseconds may leave out no more than has passed.
        self.told_ms = (steady + correction).max(self.told_ms);
        let offset = wall_ms - monotonic_ms;
        let jump = offset - self.reported_offset_ms;
        if jump.abs() < JUMP_MS {
            return (self.told_ms, None);
        }
        self.reported_offset_ms = offset;
        (self.told_ms, Some(jump))
    }
}

/// Milliseconds since the machine was started, its sleep included.
fn monotonic_ms() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
}

fn wall_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_millis() as i64)
}

static CLOCK: LazyLock<Mutex<SteadyClock>> =
    LazyLock::new(|| Mutex::new(SteadyClock::new(monotonic_ms(), wall_ms())));

/// Milliseconds since the epoch.
#[must_use]
pub fn now_ms() -> i64 {
    let (time, jump) = {
        let mut clock = CLOCK.lock();
        clock.tell(monotonic_ms(), wall_ms())
    };
    if let Some(jump) = jump {
        tracing::warn!(
            "the system's clock jumped by {} s: limits go on as if it had not, and the controller's time follows slowly; \
             restart ctld to take the system's time over at once",
            jump / 1_000
        );
    }
    time
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    /// Runs for `secs` seconds, telling the time each second; gives the last time and the jumps reported.
    fn run(
        clock: &mut SteadyClock,
        from_s: i64,
        secs: i64,
        wall_offset_ms: i64,
    ) -> (i64, Vec<i64>) {
        let mut jumps = Vec::new();
        let mut last = clock.told_ms;
        for second in from_s + 1..=from_s + secs {
            let (told, jump) = clock.tell(second * 1_000, second * 1_000 + wall_offset_ms);
            assert!(told >= last, "time went back from {last} to {told}");
            last = told;
            jumps.extend(jump);
        }
        (last, jumps)
    }

    /// Without this, a clock set an hour forward would end every job that has less than an hour left.
    #[test]
    fn an_hour_forward_moves_a_minute_by_three_seconds_at_most() {
        let mut clock = SteadyClock::new(0, 5_000_000);
        assert_eq!(run(&mut clock, 0, 60, 5_000_000), (5_060_000, Vec::new()));
        // 60 s pass, and a twentieth of them is made good.
        assert_eq!(
            run(&mut clock, 60, 60, 5_000_000 + HOUR_MS),
            (5_123_000, vec![HOUR_MS])
        );
        // After 20 hours the difference is gone, and stays so.
        let (told, jumps) = run(&mut clock, 120, 20 * 3_600, 5_000_000 + HOUR_MS);
        assert_eq!(
            (told, jumps),
            ((120 + 20 * 3_600) * 1_000 + 5_000_000 + HOUR_MS, Vec::new())
        );
    }

    /// Without this, jobs would end before they began, and limits would come an hour late.
    #[test]
    fn an_hour_back_slows_time_by_a_twentieth_at_most() {
        let mut clock = SteadyClock::new(0, 5_000_000);
        assert_eq!(
            run(&mut clock, 0, 60, 5_000_000 - HOUR_MS),
            (5_057_000, vec![-HOUR_MS])
        );
        // Set right again: what was left out is made good, and nothing is lost.
        assert_eq!(
            run(&mut clock, 60, 120, 5_000_000),
            (5_180_000, vec![HOUR_MS])
        );
    }

    /// Without this, many looks in one millisecond would never let a small difference be made good.
    #[test]
    fn looks_at_every_millisecond_follow_too() {
        let mut clock = SteadyClock::new(0, 0);
        for ms in 1..=1_000 {
            clock.tell(ms, ms + 500);
        }
        assert_eq!(clock.tell(1_000, 1_500).0, 1_050);
    }
}
