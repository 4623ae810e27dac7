//! The cycle of PriorityCalcPeriod: usage wears away, fair share and priorities are worked out again.

use sluice_model::time::UnixSeconds;

use crate::event::Event;
use crate::transaction::Transaction;

/// Runs the cycle when it is due. `reset_from` is the last boundary of PriorityUsageResetPeriod that has passed, which only the
/// shell knows because the engine knows no time zone: usage is set back once for each.
pub fn cycle_if_due(transaction: &mut Transaction<'_>, reset_from: Option<UnixSeconds>) {
    let cluster = &transaction.cluster;
    let now = transaction.now;
    let never = cluster.usage.last_run == UnixSeconds::default();
    let period = i64::try_from(cluster.config.priority.calc_period_secs)
        .unwrap_or(i64::MAX)
        .max(1);
    let reset = !never && reset_from.is_some_and(|from| from > cluster.usage.last_reset);
    let due = never || reset || now.since(cluster.usage.last_run) >= period;
    if due {
        transaction.emit(Event::PrioritiesCalculated { time: now, reset });
        transaction.wake_planner();
    }
}
