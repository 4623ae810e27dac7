//! Heterogeneous jobs: several jobs that are submitted, started and ended as one.
//!
//! Each component is a job of its own with ids that follow each other; the first leads. Here is what the components do together;
//! how they are placed is in [`crate::schedule`]. Invariant: all components are stored in one transaction, start in one, and what
//! ends the leader ends all. Source: heterogeneous_jobs.

use std::sync::Arc;

use sluice_model::error_code::ErrorCode;
use sluice_model::ids::JobId;
use sluice_model::state::JobState;

use super::Rejection;
use super::submit::{Submission, Submitted, accept, known, prepare};
use crate::cluster::{Cluster, HetMembership, Job};
use crate::event::{JobEnd, Requeue};
use crate::transaction::Transaction;

/// Accepts a job of several components; `parts` holds the leader first.
///
/// # Errors
/// Slurm's code for the first check of the first component that fails; nothing is stored then.
pub fn submit(
    transaction: &mut Transaction<'_>,
    parts: Vec<Submission>,
) -> Result<Submitted, Rejection> {
    let Some(leader) = parts.first() else {
        return Err(ErrorCode::InvalidJobId.into());
    };
    if let Some(known) = known(transaction.cluster, leader)? {
        return Ok(known);
    }
    let jobs = prepare_all(transaction.cluster, &parts, transaction)?;
    let mut answer = None;
    for (job, part) in jobs.into_iter().zip(&parts) {
        let accepted = accept(transaction, job, part);
        answer.get_or_insert(accepted);
    }
    answer.ok_or_else(|| ErrorCode::InvalidJobId.into())
}

fn prepare_all(
    cluster: &Cluster,
    parts: &[Submission],
    transaction: &Transaction<'_>,
) -> Result<Vec<Job>, Rejection> {
    components(cluster, parts, transaction.now)
}

/// Makes the records without storing them; also what `--test-only` plans with.
///
/// # Errors
/// As [`submit`].
pub fn components(
    cluster: &Cluster,
    parts: &[Submission],
    now: sluice_model::time::UnixSeconds,
) -> Result<Vec<Job>, Rejection> {
    if parts.len() > 1 && parts.iter().any(|part| part.description.array.is_some()) {
        return Err(ErrorCode::InvalidArray.into());
    }
    let leader = cluster.next_job_id;
    let size = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    let mut jobs = Vec::with_capacity(parts.len());
    for (offset, part) in (0..).zip(parts) {
        let mut job = prepare(cluster, part, now)?;
        job.id = JobId(leader.0.saturating_add(offset));
        job.het = Some(HetMembership {
            leader,
            offset,
            size,
        });
        jobs.push(job);
    }
    if cluster.jobs.len() + jobs.len() > cluster.config.jobs.max_job_count as usize {
        return Err(ErrorCode::MaxJobCount.into());
    }
    Ok(jobs)
}

/// The components that are still known, the leader first; of another job only itself.
#[must_use]
pub fn members(cluster: &Cluster, job: &Job) -> Vec<Arc<Job>> {
    match job.het {
        Some(het) => het
            .members()
            .filter_map(|id| cluster.jobs.get(&id))
            .filter(|other| other.het.is_some_and(|other| other.leader == het.leader))
            .cloned()
            .collect(),
        None => cluster.jobs.get(&job.id).cloned().into_iter().collect(),
    }
}

/// The component is not the one that acts for all.
#[must_use]
pub fn is_follower(job: &Job) -> bool {
    job.het.is_some_and(|het| het.offset > 0)
}

/// Components that end with `end`: of the leader all, and all when one is lost with its node.
pub(super) fn ends_with(cluster: &Cluster, end: &JobEnd) -> Vec<JobEnd> {
    let Some(job) = cluster.job(end.job_id) else {
        return Vec::new();
    };
    if is_follower(job) && end.state != JobState::NodeFail {
        return Vec::new();
    }
    members(cluster, job)
        .into_iter()
        .filter(|other| {
            other.id != end.job_id && !other.state.is_finished() && !other.state.is_pending()
        })
        .map(|other| JobEnd {
            job_id: other.id,
            ..end.clone()
        })
        .collect()
}

/// Components that wait and end with this one, also where their former run is not yet over.
pub(super) fn pending_with(cluster: &Cluster, id: JobId) -> Vec<JobId> {
    let Some(job) = cluster.job(id) else {
        return Vec::new();
    };
    members(cluster, job)
        .into_iter()
        .filter(|other| other.id != id && other.state.is_pending())
        .map(|other| other.id)
        .collect()
}

/// Components that go back to the queue with this one.
pub(super) fn requeued_with(cluster: &Cluster, requeue: &Requeue) -> Vec<Requeue> {
    let Some(job) = cluster.job(requeue.job_id) else {
        return Vec::new();
    };
    members(cluster, job)
        .into_iter()
        .filter(|other| {
            other.id != requeue.job_id && !other.state.is_finished() && !other.state.is_pending()
        })
        .map(|other| Requeue {
            job_id: other.id,
            ..requeue.clone()
        })
        .collect()
}
