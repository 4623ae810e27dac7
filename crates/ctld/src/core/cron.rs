//! The calendar's part of crontabs: when an entry's run is over, its job is queued for the next time, in the time zone of this host.
//!
//! The engine decides what becomes of the job; only the time is worked out here, because the engine knows no time zone.

use std::time::Duration;

use jiff::tz::TimeZone;
use sluice_controller::command::cron;
use sluice_model::cron::CronSpec;
use sluice_model::time::UnixSeconds;
use tokio::sync::watch;

use super::{CoreError, CoreHandle, now};

/// How often ended runs are looked for.
const PERIOD: Duration = Duration::from_secs(1);

/// The first time of a calendar after `from`.
#[must_use]
pub fn next_time(spec: &str, from: UnixSeconds) -> Option<UnixSeconds> {
    let calendar: CronSpec = spec.parse().ok()?;
    calendar.next_after(from, &TimeZone::system())
}

/// Runs until `shutdown` becomes true.
pub async fn run(core: CoreHandle, mut shutdown: watch::Receiver<bool>) {
    let mut interval = tokio::time::interval(PERIOD);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            _ = shutdown.changed() => return,
        }
        let over = cron::over(&core.snapshot());
        if over.is_empty() {
            continue;
        }
        let due: Vec<_> = over
            .into_iter()
            .map(|(job, spec)| (job, next_time(&spec, now())))
            .collect();
        let done = core
            .run(move |transaction| {
                due.iter()
                    .for_each(|(job, begin)| cron::again(transaction, *job, *begin));
                Ok(())
            })
            .await;
        if matches!(done, Err(CoreError::Stopped)) {
            return;
        }
    }
}
