//! Job priorities: factors, usage that wears away, fair share, and the place in the queue that follows.
//!
//! A job's priority is calculated at submission, when the job changes, is released or goes back to the queue, when policy or
//! configuration change, and for all at once every PriorityCalcPeriod. The journal holds what it derives from (the job, the
//! policy, usage, the time of the calculation), one event for a whole cycle; [`after`] works the numbers out while the event is
//! applied. Source: pages `priority_multifactor`, `fair_tree`, `classic_fair_share`; ADR 0009.
//!
//! Units: billing units × seconds, TRES × seconds, ages in seconds. Invariant: a job that is not held has at least 1.

mod calculate;
pub mod factors;
pub mod fairshare;
pub mod report;
mod scale;
pub mod usage;

use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};
use sluice_model::default_fields::is_default;
use sluice_model::ids::JobId;
use sluice_model::time::UnixSeconds;

use crate::cluster::{Cluster, Job};
use crate::event::Event;

use calculate::Occasion;
pub use calculate::{SITE_FACTOR, standing_at, weights};
pub use scale::Scale;

/// Where priority/basic begins to count down.
const BASIC_TOP: u32 = 0xffff_0000;

/// A job's rank in one of its partitions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rank {
    /// Job size factor, as of the last change of the job.
    #[serde(rename = "s", skip_serializing_if = "is_default")]
    pub size: f64,
    /// Weighted TRES factors added up, as of the last change of the job.
    #[serde(rename = "t", skip_serializing_if = "is_default")]
    pub tres: f64,
    /// The sum cut to an integer; below 1 too, so that nice values make a difference there.
    #[serde(rename = "p", skip_serializing_if = "is_default")]
    pub standing: i64,
}

/// What was calculated for a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobPriority {
    /// When.
    #[serde(rename = "at", skip_serializing_if = "is_default")]
    pub time: UnixSeconds,
    /// Seconds in which age did not grow, because a limit of the partition made the job impossible.
    #[serde(rename = "idle", skip_serializing_if = "is_default")]
    pub idle_secs: i64,
    /// priority/basic: the number it was given; 0 = none.
    #[serde(rename = "n", skip_serializing_if = "is_default")]
    pub number: u32,
    /// In the first partition, or the one it runs in.
    #[serde(rename = "a")]
    pub first: Rank,
    /// In the others, in the order of the job's list.
    #[serde(rename = "b", skip_serializing_if = "is_default")]
    pub others: Vec<Rank>,
}

impl JobPriority {
    /// The rank in the nth partition of the job's list.
    #[must_use]
    pub fn rank(&self, nth: usize) -> Rank {
        match nth {
            0 => self.first,
            nth => self.others.get(nth - 1).copied().unwrap_or(self.first),
        }
    }
}

/// Priorities of all jobs in memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Priorities {
    /// By job.
    pub jobs: OrdMap<JobId, JobPriority>,
    /// priority/basic: the lowest number given so far.
    pub lowest: u32,
}

impl Default for Priorities {
    fn default() -> Self {
        Self {
            jobs: OrdMap::new(),
            lowest: BASIC_TOP,
        }
    }
}

impl Cluster {
    /// What the job's place in the queue of a partition follows from; not cut to at least 1.
    #[must_use]
    pub fn standing_in(&self, job: &Job, partition: &str) -> i64 {
        let listed = || {
            job.request
                .partitions
                .iter()
                .position(|name| name == partition)
        };
        if job.priority == 0 || job.priority_is_direct {
            return i64::from(job.priority);
        }
        match self.priorities.jobs.get(&job.id) {
            None => job.standing(),
            Some(priority) if priority.others.is_empty() => priority.first.standing,
            Some(priority) => priority.rank(listed().unwrap_or(0)).standing,
        }
    }

    /// [`Self::standing_in`] of the partition the job runs in or is in first.
    #[must_use]
    pub fn standing(&self, job: &Job) -> i64 {
        self.standing_in(job, &job.partition)
    }

    /// The priority that is shown: 0 of a job that is held and of no other.
    #[must_use]
    pub fn priority_of(&self, job: &Job) -> u32 {
        match job.priority {
            0 => 0,
            _ => u32::try_from(self.standing(job).max(1)).unwrap_or(u32::MAX),
        }
    }
}

/// When the job's age begins to grow; `None` = not yet.
#[must_use]
pub fn accrue_time(cluster: &Cluster, job: &Job) -> Option<UnixSeconds> {
    let from = if cluster.config.priority.flags.accrue_always {
        Some(job.submit_time)
    } else {
        job.eligible_time
    };
    from.map(|from| from.max(job.accrue_reset.unwrap_or_default()))
}

/// What must be done before an event changes the state: what a job has run is charged before it ends or shrinks.
pub fn before(cluster: &mut Cluster, event: &Event) {
    let (id, time) = match event {
        Event::JobReleased { job_id, .. } => return waiting_begins_again(cluster, *job_id),
        Event::JobEnded(end) => (end.job_id, end.time),
        Event::JobRequeued(requeue) => (requeue.job_id, requeue.time),
        Event::JobShrunk { job_id, time, .. } => (*job_id, *time),
        _ => return,
    };
    if let Some(job) = cluster.jobs.get(&id).cloned() {
        usage::charge(cluster, &job, time);
    }
}

/// A job that was held is released: its waiting begins again, in priority/basic with a number behind all others.
fn waiting_begins_again(cluster: &mut Cluster, id: JobId) {
    let held = cluster.jobs.get(&id).is_some_and(|job| job.priority == 0);
    if let Some(priority) = cluster.priorities.jobs.get_mut(&id).filter(|_| held) {
        priority.idle_secs = 0;
        priority.number = 0;
    }
}

/// Keeps priorities in step with an event that has just been applied.
pub fn after(cluster: &mut Cluster, event: &Event) {
    match event {
        Event::JobSubmitted { job } => calculate::anew(cluster, job.id, job.submit_time),
        Event::JobUpdated { job, time } => calculate::anew(cluster, job.id, *time),
        Event::JobReleased { job_id, time, .. } => calculate::anew(cluster, *job_id, *time),
        Event::JobRequeued(requeue) => {
            calculate::restarted(cluster, requeue.job_id, requeue.time);
        }
        Event::JobStarted {
            job_id, split_id, ..
        } => {
            if let Some(split) = split_id {
                calculate::copy(cluster, *job_id, *split);
            }
            let id = split_id.unwrap_or(*job_id);
            calculate::started(cluster, id);
            new_run(cluster, id);
        }
        Event::ArrayTaskSplit {
            job_id,
            split_id: Some(split),
            ..
        } => calculate::copy(cluster, *job_id, *split),
        Event::ArrayTasksRemoved {
            job_id, split_ids, ..
        } => {
            for split in split_ids {
                calculate::copy(cluster, *job_id, *split);
            }
        }
        Event::JobShrunk { job_id, time, .. } => {
            if let Some(job) = cluster.jobs.get_mut(job_id) {
                Arc::make_mut(job).charged_to = Some(*time);
            }
        }
        Event::JobsPurged { jobs } => {
            for id in jobs {
                cluster.priorities.jobs.remove(id);
            }
        }
        Event::ConfigLoaded { .. }
        | Event::PartitionUpdated { .. }
        | Event::PartitionDeleted { .. }
        | Event::NodesCreated { .. }
        | Event::NodesDeleted { .. }
        | Event::NodeSettings {
            config: Some(_), ..
        } => {
            cluster.scale = Scale::default();
            refresh_standings(cluster);
            calculate::all(cluster, &Occasion::Changed { sizes: true });
        }
        _ => {}
    }
}

/// One cycle: usage is worn and charged, fair share and all priorities are worked out again.
pub fn cycle(cluster: &mut Cluster, time: UnixSeconds, reset: bool) {
    let since = cluster.usage.last_run;
    usage::advance(cluster, time, reset);
    refresh_standings(cluster);
    calculate::all(cluster, &Occasion::Cycle { since, time });
}

/// The policy or usage was changed: fair share and priorities follow at once.
pub fn policy_changed(cluster: &mut Cluster) {
    refresh_standings(cluster);
    calculate::all(cluster, &Occasion::Changed { sizes: false });
}

/// The association of the partition a job runs in is charged, and from its start.
fn new_run(cluster: &mut Cluster, id: JobId) {
    if cluster.policy.tree().has_partitions() {
        crate::event::policy::find_again(cluster, id);
    }
    if let Some(job) = cluster.jobs.get_mut(&id)
        && job.charged_to.is_some()
    {
        Arc::make_mut(job).charged_to = None;
    }
}

fn refresh_standings(cluster: &mut Cluster) {
    let standings = fairshare::standings(&cluster.policy, &cluster.usage, &cluster.config.priority);
    if *cluster.usage.standings != standings {
        cluster.usage.standings = Arc::new(standings);
    }
}
