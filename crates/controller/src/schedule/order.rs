//! The queue in the order in which it is served: one record per job and partition.
//!
//! Order: PriorityTier, priority, submission, job id (an array's id for its tasks), task. Source: `slurm.conf(5)` (PriorityType,
//! PriorityTier); the keys for reservations and preemption come in when those exist.

use std::cmp::Reverse;
use std::sync::Arc;

use sluice_model::ids::JobId;
use sluice_model::time::UnixSeconds;

use crate::cluster::{Cluster, Job};

/// One job in one of its partitions.
#[derive(Debug, Clone)]
pub struct QueueRecord<'a> {
    /// Job.
    pub job: &'a Arc<Job>,
    /// Position of the partition in [`Cluster::partitions`].
    pub partition: usize,
}

type Rank = (
    Reverse<u16>,
    Reverse<i64>,
    UnixSeconds,
    JobId,
    u32,
    JobId,
    usize,
);

/// Sorts records of jobs that may start.
pub fn sort(cluster: &Cluster, records: &mut [QueueRecord<'_>]) {
    let tiers: Vec<u16> = cluster
        .partitions
        .iter()
        .map(|p| p.config.priority_tier)
        .collect();
    let standing = |record: &QueueRecord<'_>| {
        let partition = cluster.partitions.get(record.partition);
        cluster.standing_in(record.job, partition.map_or("", |p| &p.config.name))
    };
    records.sort_by_cached_key(|record| -> Rank {
        let job = record.job;
        (
            Reverse(tiers.get(record.partition).copied().unwrap_or(0)),
            Reverse(standing(record)),
            job.submit_time,
            job.array_job_id(),
            // The unstarted rest of an array comes after tasks that went back to the queue.
            job.array_task().unwrap_or(u32::MAX),
            job.id,
            record.partition,
        )
    });
}

/// Positions of the partitions that a job names; the default partition if it names none.
pub fn partitions_of(cluster: &Cluster, job: &Job) -> Vec<usize> {
    let position = |name: &str| {
        cluster
            .partitions
            .iter()
            .position(|p| p.config.name == name)
    };
    if job.request.partitions.is_empty() {
        return position(&job.partition).into_iter().collect();
    }
    let mut found: Vec<usize> = job
        .request
        .partitions
        .iter()
        .filter_map(|name| position(name))
        .collect();
    found.dedup();
    found
}
