//! Waiting for a state, with a deadline.
//!
//! The only place of the kit where time passes: a condition is looked at again every few milliseconds until it holds or
//! the deadline is over. The error says what was awaited and what was seen last, because "timed out" alone helps nobody.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Pause between two looks. Short, because most awaited states arrive within tens of milliseconds.
const LOOK_AGAIN_MS: u64 = 10;

/// Looks at `probe` until it gives `Ok`, which is returned; `Err(seen)` says what was seen instead.
///
/// # Errors
/// When `deadline` is over: the message names `what` and the last thing seen.
pub fn wait_for<T>(
    deadline: Duration,
    what: &str,
    mut probe: impl FnMut() -> Result<T, String>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        let seen = match probe() {
            Ok(value) => return Ok(value),
            Err(seen) => seen,
        };
        if start.elapsed() >= deadline {
            bail!(
                "waited {:.1} s for {what}, in vain; last seen: {seen}",
                deadline.as_secs_f64()
            );
        }
        std::thread::sleep(Duration::from_millis(LOOK_AGAIN_MS));
    }
}

/// Looks at `condition` until it is true.
///
/// # Errors
/// When `deadline` is over: the message names `what`.
pub fn wait_until(
    deadline: Duration,
    what: &str,
    mut condition: impl FnMut() -> bool,
) -> Result<()> {
    wait_for(deadline, what, || {
        if condition() {
            Ok(())
        } else {
            Err("not so yet".to_owned())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this, a test that waits in vain would not say for what.
    #[test]
    fn error_names_the_awaited_state_and_what_was_seen() {
        let error = wait_for::<()>(Duration::ZERO, "node n1 to be idle", || {
            Err("state down".to_owned())
        })
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "waited 0.0 s for node n1 to be idle, in vain; last seen: state down"
        );
    }

    /// Without this, a condition that becomes true late could be missed.
    #[test]
    fn a_condition_that_becomes_true_ends_the_wait() {
        let mut looks = 0;
        wait_until(Duration::from_secs(5), "the third look", || {
            looks += 1;
            looks == 3
        })
        .unwrap();
        assert_eq!(looks, 3);
    }
}
