//! The running core: the one writer, the planner's thread, the clock's tick, agent sessions, job watchers, and the outbox.
//!
//! One thread owns the live [`Cluster`]; everybody else reads the last published snapshot. No network call is made and no lock
//! is held while it works. Order of things for each batch of commands: decide and apply, journal, one fsync, publish, carry out
//! effects, answer.

pub mod checkpoint;
pub mod clock;
pub mod cron;
pub mod handle;
pub mod outbox;
pub mod planner;
pub mod sessions;
pub mod ticker;
mod usage_period;
pub mod watchers;
pub mod writer;

pub use handle::{CoreError, CoreHandle};
pub use sessions::Sessions;
pub use watchers::Watchers;

use sluice_model::time::UnixSeconds;

pub use clock::now_ms;

/// The clock of the daemon: the only place where commands get their time.
#[must_use]
pub fn now() -> UnixSeconds {
    UnixSeconds(now_ms() / 1_000)
}
