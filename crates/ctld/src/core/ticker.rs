//! The clock's part: once a second the engine is told the time, so that limits, silences and old records are dealt with, and
//! usage and priorities move on when PriorityCalcPeriod is over.

use std::time::Duration;

use jiff::tz::TimeZone;
use sluice_controller::command::{priority, tick};
use tokio::sync::watch;

use super::{CoreError, CoreHandle, now, usage_period};

/// Runs until `shutdown` becomes true.
pub async fn run(core: CoreHandle, mut shutdown: watch::Receiver<bool>) {
    let mut interval = tokio::time::interval(Duration::from_secs(1));
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut configured = (now(), core.snapshot().config_version);
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            _ = shutdown.changed() => return,
        }
        let reset_from = {
            let cluster = core.snapshot();
            if configured.1 != cluster.config_version {
                configured = (now(), cluster.config_version);
            }
            let period = cluster.config.priority.usage_reset_period;
            usage_period::began(period, now(), configured.0, &TimeZone::system())
        };
        let done = core
            .run(move |transaction| {
                tick::tick(transaction);
                priority::cycle_if_due(transaction, reset_from);
                Ok(())
            })
            .await;
        if matches!(done, Err(CoreError::Stopped)) {
            return;
        }
    }
}
