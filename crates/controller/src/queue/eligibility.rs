//! Is a pending job independent? Holds, dependencies, begin time and the array limit, in Slurm's order.
//!
//! Source: scheduling reference 8 (independence test). Gives the reason that is shown while it is not.

use sluice_model::dependency::DependencyKind;
use sluice_model::reason::Reason;
use sluice_model::time::UnixSeconds;

use crate::cluster::{Cluster, DependencyStatus, Job};
use crate::reservation::{asked_for, fence};

/// Why the job may not be considered now; `None` = it may.
#[must_use]
pub fn waits_for(
    cluster: &Cluster,
    job: &Job,
    now: UnixSeconds,
) -> Option<(Reason, Option<String>)> {
    if job.state.is_completing() {
        return Some((Reason::Cleaning, None));
    }
    if job.priority == 0 {
        let reason = if job.reason.is_hold() {
            job.reason
        } else {
            Reason::JobHeldAdmin
        };
        return Some((reason, job.reason_text.clone()));
    }
    if job.dependency.is_open() && !singleton_only_and_met(cluster, job) {
        let reason = if job.dependency.has_failed() {
            Reason::DependencyNeverSatisfied
        } else {
            Reason::Dependency
        };
        return Some((reason, None));
    }
    if job.begin_time.is_some_and(|begin| begin > now) {
        return Some((Reason::BeginTime, None));
    }
    if job.request.reservation.is_some() {
        let asked = asked_for(cluster, job);
        if asked.is_empty() {
            return Some((Reason::ReservationInvalid, None));
        }
        if !asked.iter().any(|own| fence::is_open(own, now)) {
            return Some((Reason::Reservation, None));
        }
    }
    None
}

/// Every term that is still open is a singleton, and no other job of the same name and user is ahead: it has begun, or was
/// submitted before. An array's task was submitted with its array, whatever the id of its own record; components of one job start
/// together.
fn singleton_only_and_met(cluster: &Cluster, job: &Job) -> bool {
    let open = |kind: DependencyKind, status: DependencyStatus| {
        status != DependencyStatus::Fulfilled && kind != DependencyKind::Singleton
    };
    let has_singleton = job
        .dependency
        .terms
        .iter()
        .any(|(term, _)| term.kind == DependencyKind::Singleton);
    if !has_singleton {
        return false;
    }
    let others_open = job
        .dependency
        .terms
        .iter()
        .any(|(term, status)| open(term.kind, *status));
    if others_open && !job.dependency.any {
        return false;
    }
    let key = (
        job.request.uid,
        job.request.name.clone().unwrap_or_default(),
    );
    let Some(same) = cluster.by_name.get(&key) else {
        return true;
    };
    !same.iter().any(|id| {
        *id != job.id
            && cluster.job(*id).is_some_and(|other| {
                let together = job
                    .het
                    .is_some_and(|own| other.het.is_some_and(|het| het.leader == own.leader));
                !together
                    && other.array_job_id() != job.array_job_id()
                    && (!other.state.is_pending() || other.array_job_id() < job.array_job_id())
            })
    })
}

/// The array's `%N` leaves room for one more task.
#[must_use]
pub fn throttle_allows(cluster: &Cluster, job: &Job) -> bool {
    let Some(array) = &job.array else { return true };
    let throttle = array.pending.throttle;
    throttle == 0 || running_tasks(cluster, job) < throttle
}

/// Tasks of the job's array that hold an allocation and have not ended.
#[must_use]
pub fn running_tasks(cluster: &Cluster, job: &Job) -> u32 {
    cluster
        .arrays
        .get(&job.array_job_id())
        .map_or(0, |members| {
            members
                .iter()
                .filter(|id| {
                    cluster.job(**id).is_some_and(|task| {
                        task.state.is_running()
                            || task.state.base == sluice_model::state::JobState::Suspended
                    })
                })
                .count() as u32
        })
}
