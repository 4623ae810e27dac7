//! The clock's part: once a second the engine is told the time, so that limits, silences and old records are dealt with.

use std::time::Duration;

use sluice_controller::command::tick;
use tokio::sync::watch;

use super::{CoreError, CoreHandle};

/// Runs until `shutdown` becomes true.
pub async fn run(core: CoreHandle, mut shutdown: watch::Receiver<bool>) {
    let mut interval = tokio::time::interval(Duration::from_secs(1));
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            _ = shutdown.changed() => return,
        }
        let done = core
            .run(|transaction| {
                tick::tick(transaction);
                Ok(())
            })
            .await;
        if matches!(done, Err(CoreError::Stopped)) {
            return;
        }
    }
}
