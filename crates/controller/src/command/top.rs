//! Moving jobs to the front of their owner's queue: `scontrol top`. Source: scontrol(1) top.
//!
//! The jobs of one user, partition, account and QOS exchange the places they have: the owner as a whole gains nothing. What moves
//! is the nice value. Equal places are made different downwards.

use std::cmp::Reverse;
use std::sync::Arc;

use sluice_model::error_code::ErrorCode;
use sluice_model::ids::{JobId, JobSelector};

use super::{Caller, Rejection};
use crate::cluster::{Cluster, Job};
use crate::event::Event;
use crate::priority::standing_at;
use crate::transaction::Transaction;

/// A job that cannot be moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopFailure {
    /// As the caller typed it.
    pub job: String,
    /// Why.
    pub rejection: Rejection,
}

/// Moves the jobs to the front, in this order.
///
/// # Errors
/// The first job that cannot be moved; nothing is changed then.
pub fn top(
    transaction: &mut Transaction<'_>,
    targets: &[String],
    caller: &Caller,
) -> Result<(), TopFailure> {
    let mut chosen: Vec<JobId> = Vec::new();
    for target in targets {
        let id = checked(transaction.cluster, target, caller).map_err(|rejection| TopFailure {
            job: target.clone(),
            rejection,
        })?;
        if !chosen.contains(&id) {
            chosen.push(id);
        }
    }
    let Some(first) = chosen
        .first()
        .and_then(|id| transaction.cluster.job(*id))
        .cloned()
    else {
        return Ok(());
    };
    let alike = |job: &Job| {
        job.request.uid == first.request.uid
            && job.request.partitions == first.request.partitions
            && job.account == first.account
            && job.qos == first.qos
    };
    let group: Vec<Arc<Job>> = transaction
        .cluster
        .pending
        .iter()
        .filter_map(|id| transaction.cluster.job(*id))
        .filter(|job| job.priority > 0 && alike(job))
        .cloned()
        .collect();
    // Jobs that change are calculated again, so all are compared as if they were calculated now.
    let (cluster, time) = (&transaction.cluster, transaction.now);
    let mut group: Vec<(i64, Arc<Job>)> = group
        .into_iter()
        .map(|job| (standing_at(cluster, &job, time), job))
        .collect();
    group.sort_by_key(|(standing, job)| (Reverse(*standing), job.id));
    let mut places: Vec<i64> = group.iter().map(|(standing, _)| *standing).collect();
    for at in 1..places.len() {
        places[at] = places[at].min(places[at - 1] - 1);
    }
    let rank = |(_, job): &(i64, Arc<Job>)| {
        chosen
            .iter()
            .position(|id| *id == job.id)
            .unwrap_or(chosen.len())
    };
    group.sort_by_key(rank);
    for ((standing, job), place) in group.into_iter().zip(places) {
        let nice = if job.priority_is_direct {
            i64::from(job.priority) - place
        } else {
            i64::from(job.request.nice) + standing - place
        };
        if nice == i64::from(job.request.nice) {
            continue;
        }
        let mut changed = (*job).clone();
        let mut request = (*job.request).clone();
        request.nice = nice.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
        changed.request = Arc::new(request);
        changed.priority_is_direct = false;
        transaction.emit(Event::JobUpdated {
            job: Box::new(changed),
            time,
        });
    }
    transaction.wake_planner();
    Ok(())
}

fn checked(cluster: &Cluster, target: &str, caller: &Caller) -> Result<JobId, Rejection> {
    let selector: JobSelector = target.parse().map_err(|_| ErrorCode::InvalidJobId)?;
    let job = cluster.job(selector.job).ok_or(ErrorCode::InvalidJobId)?;
    let allowed = cluster
        .config
        .raw_value("SchedulerParameters")
        .is_some_and(|text| {
            text.split(',')
                .any(|word| word.trim().eq_ignore_ascii_case("enable_user_top"))
        });
    if !caller.privileged && (!allowed || caller.uid != job.request.uid) {
        return Err(ErrorCode::AccessDenied.into());
    }
    if !job.state.is_pending() {
        return Err(ErrorCode::JobNotPending.into());
    }
    if job.priority == 0 {
        return Err(ErrorCode::JobHeld.into());
    }
    if job.request.partitions.len() > 1 {
        return Err(ErrorCode::NotSupported.into());
    }
    Ok(job.id)
}
