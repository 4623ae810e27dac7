//! The scheduling pass: which waiting jobs start now, on what, and what is known about the rest.
//!
//! Pure: a snapshot and the time go in, a [`Plan`] comes out. Main pass and backfill are one walk through the queue in strict
//! order over a profile of free CPUs, memory and GRES in time: a job that does not fit now books the earliest time at which it
//! does, and later jobs may only use what is left, so no booked job is ever delayed. Times are seconds, limits minutes.
//! Source: `sched_config`, `slurm.conf(5)` (SchedulerType, SchedulerParameters).

mod classes;
pub mod explain;
mod het;
mod licenses;
mod order;
mod pass;
pub mod profile;
#[cfg(test)]
pub(crate) mod scenario;
mod search;
mod serve;
#[cfg(test)]
mod sharing_tests;
#[cfg(test)]
mod tests;

use sluice_model::state::JobState;
use sluice_model::time::{TimeLimit, UnixSeconds};

use crate::cluster::{Cluster, Job, Partition};
use crate::plan::Plan;

/// Bounds of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanOptions {
    /// Queue records looked at. Jobs behind keep their former note.
    pub max_jobs: usize,
    /// Jobs that book a future start. Jobs behind may still start now, around what is booked.
    pub max_reservations: usize,
    /// Starts in one pass.
    pub max_starts: usize,
}

impl Default for PlanOptions {
    /// The whole queue; a thousand bookings.
    fn default() -> Self {
        Self {
            max_jobs: usize::MAX,
            max_reservations: 1000,
            max_starts: 10_000,
        }
    }
}

/// Plans one pass.
#[must_use]
pub fn plan(cluster: &Cluster, now: UnixSeconds, options: PlanOptions) -> Plan {
    pass::Pass::new(cluster, now, options).run()
}

/// A run without limit counts as one of a year, so that the head of the queue can book a start behind such runs and is not
/// passed by a stream of them.
pub(crate) const UNLIMITED_SECS: i64 = 365 * 86_400;

/// Seconds of a limit in plans.
#[must_use]
pub(crate) fn limit_secs(limit: TimeLimit) -> i64 {
    limit.seconds().unwrap_or(UNLIMITED_SECS).max(1)
}

/// What was asked for; 0 minutes ask for no limit.
fn asked(job: &Job) -> Option<TimeLimit> {
    job.time_limit.map(|limit| {
        if limit == TimeLimit::Minutes(0) {
            TimeLimit::Unlimited
        } else {
            limit
        }
    })
}

/// The limit of a run that starts in `partition`: as asked for, else DefaultTime, else MaxTime; MaxTime, too, where a job asks for
/// more and can do with less (`--time-min`).
#[must_use]
pub fn time_limit_of(job: &Job, partition: &Partition) -> TimeLimit {
    let config = &partition.config;
    match asked(job) {
        Some(limit) if limit > config.max_time && job.request.time_min.is_some() => config.max_time,
        Some(limit) => limit,
        None => config.default_time.unwrap_or(config.max_time),
    }
}

/// The limit asked for is above the partition's MaxTime.
#[must_use]
pub fn exceeds_time_limit(job: &Job, partition: &Partition) -> bool {
    let least = job.request.time_min.or(asked(job));
    least.is_some_and(|limit| limit > partition.config.max_time)
}

/// When a job that holds nodes is expected to let go of them: its start plus its limit plus the time it was suspended. A job
/// that is past this (or completes) is expected to be gone in a moment.
#[must_use]
pub fn expected_end(job: &Job, now: UnixSeconds) -> UnixSeconds {
    let soon = now + 1;
    let runs = matches!(job.state.base, JobState::Running | JobState::Suspended);
    if !runs || job.state.is_completing() {
        return soon;
    }
    let limit = job.time_limit.unwrap_or(TimeLimit::Unlimited);
    let limit = if limit == TimeLimit::Minutes(0) {
        TimeLimit::Unlimited
    } else {
        limit
    };
    let since = job
        .suspend_time
        .filter(|_| job.state.base == JobState::Suspended);
    let suspended = job.suspended_secs + since.map_or(0, |since| now.since(since));
    let end = job.start_time.unwrap_or(now) + limit_secs(limit) + suspended.max(0);
    end.max(soon)
}
