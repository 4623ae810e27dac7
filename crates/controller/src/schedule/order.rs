//! The queue in the order in which it is served: one record per job and partition.
//!
//! Order: reserved first, PriorityTier, priority, submission, job id (an array's id for its tasks), task, start of the reservation.
//! Source: `slurm.conf(5)` (PriorityType, PriorityTier); the key for preemption comes in when that exists.

use std::cmp::Reverse;
use std::sync::Arc;

use sluice_model::ids::JobId;
use sluice_model::reservation::ReservationFlags;
use sluice_model::time::UnixSeconds;

use crate::cluster::{Cluster, Job, Reservation};
use crate::reservation::{access, asked_for, fence};

/// One job in one of its partitions.
#[derive(Debug, Clone)]
pub struct QueueRecord<'a> {
    /// Job.
    pub job: &'a Arc<Job>,
    /// Position of the partition in [`Cluster::partitions`].
    pub partition: usize,
    /// Reservation it is tried in.
    pub reservation: Option<&'a Arc<Reservation>>,
    /// The job does not name the reservation: it is drawn in.
    pub magnetic: bool,
}

type Rank = (
    bool,
    Reverse<u16>,
    Reverse<i64>,
    UnixSeconds,
    JobId,
    u32,
    JobId,
    UnixSeconds,
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
            record.reservation.is_none(),
            Reverse(tiers.get(record.partition).copied().unwrap_or(0)),
            Reverse(standing(record)),
            job.submit_time,
            job.array_job_id(),
            // The unstarted rest of an array comes after tasks that went back to the queue.
            job.array_task().unwrap_or(u32::MAX),
            job.id,
            record.reservation.map_or(UnixSeconds(0), |own| own.start),
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

/// The records of a job that may start: one for each partition, and of these one for each reservation that it names and that it may
/// use now. A job that names none gets, beside its own, those of reservations that draw it in.
pub fn records_of<'a>(
    cluster: &'a Cluster,
    job: &'a Arc<Job>,
    now: UnixSeconds,
) -> Vec<QueueRecord<'a>> {
    let partitions = partitions_of(cluster, job);
    let records = |reservation: Option<&'a Arc<Reservation>>, magnetic: bool| {
        partitions
            .iter()
            .map(move |partition| QueueRecord {
                job,
                partition: *partition,
                reservation,
                magnetic,
            })
            .collect::<Vec<_>>()
    };
    if job.request.reservation.is_some() {
        return asked_for(cluster, job)
            .into_iter()
            .filter(|own| fence::is_open(own, now))
            .flat_map(|own| records(Some(own), false))
            .collect();
    }
    let mut all = records(None, false);
    if job.het.is_none() {
        let drawn = cluster.reservations.values().filter(|own| {
            own.is(ReservationFlags::MAGNETIC)
                && fence::is_open(own, now)
                && access::job_may_use(cluster, own, job)
        });
        all.extend(drawn.flat_map(|own| records(Some(own), true)));
    }
    all
}
