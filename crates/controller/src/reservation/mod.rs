//! Reservations for planner, commands and readers: who may use one, when it comes, what it keeps from others.
//!
//! Pure reads of the state. Times are seconds since the epoch. [`fence`] is the planner's view, [`closed`] the plain one
//! of the checks; the two are written apart. Source: reservations page, scontrol(1).

pub mod access;
pub mod cores;
pub mod fence;
pub mod nodes;
pub mod occurrence;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use sluice_model::ids::JobId;
use sluice_model::reservation::ReservationFlags;
use sluice_model::time::UnixSeconds;

use crate::cluster::{Cluster, Job, Node, Reservation};

/// A reservation by name.
#[must_use]
pub fn named<'c>(cluster: &'c Cluster, name: &str) -> Option<&'c Arc<Reservation>> {
    cluster
        .reservations
        .values()
        .find(|reservation| reservation.name == name)
}

/// The names in a job's `--reservation`.
pub fn names_of(text: Option<&str>) -> impl Iterator<Item = &str> {
    text.unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

/// The reservations that a job names and that exist, in its order.
#[must_use]
pub fn asked_for<'c>(cluster: &'c Cluster, job: &Job) -> Vec<&'c Arc<Reservation>> {
    names_of(job.request.reservation.as_deref())
        .filter_map(|name| named(cluster, name))
        .collect()
}

/// Jobs that wait for a reservation of this name.
pub fn waiting_for<'c>(cluster: &'c Cluster, name: &'c str) -> impl Iterator<Item = JobId> + 'c {
    let waits = move |id: &&JobId| {
        cluster
            .job(**id)
            .is_some_and(|job| names_of(job.request.reservation.as_deref()).any(|own| own == name))
    };
    cluster.pending.iter().filter(waits).copied()
}

/// `taker` may use what `owner` has reserved: it was made to overlap, and `owner` was not.
#[must_use]
pub fn takes_from(taker: &Reservation, owner: &Reservation) -> bool {
    taker.overlaps() && !owner.overlaps()
}

/// `other` keeps jobs of `own` (`None` = jobs in no reservation) off what it has reserved.
#[must_use]
pub fn keeps_out(other: &Reservation, own: Option<&Reservation>) -> bool {
    match own {
        None => true,
        Some(own) => own.id != other.id && takes_from(other, own),
    }
}

/// When a run in a reservation ends that would end at `end` by its limit: with its time, unless it is FLEX.
#[must_use]
pub fn run_end(own: Option<&Reservation>, end: i64, now: UnixSeconds) -> i64 {
    match own.filter(|own| !own.is(ReservationFlags::FLEX)) {
        None => end,
        Some(own) => end.min(occurrence::current(own, now).1.0.max(now.0 + 1)),
    }
}

/// As [`run_end`], of a job that runs.
#[must_use]
pub fn job_end(cluster: &Cluster, job: &Job, end: i64, now: UnixSeconds) -> i64 {
    let own = job
        .reservation
        .as_ref()
        .and_then(|run| cluster.reservations.get(&run.id));
    match own {
        None => end,
        Some(own) => {
            let over = cluster.config.scheduling.resv_over_run.seconds();
            let over = over.unwrap_or(i64::MAX / 4);
            end.min(run_end(Some(own), i64::MAX, now).saturating_add(over))
        }
    }
}

/// What of a node a run may not use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Closed {
    /// All of it.
    pub whole: bool,
    /// These CPU ids.
    pub cpus: Vec<u32>,
}

/// What of `node` a run in `own` (`None` = in no reservation) from `from` until `to` may not use.
#[must_use]
pub fn closed(
    cluster: &Cluster,
    own: Option<&Reservation>,
    node: &Node,
    (from, to): (i64, i64),
    now: UnixSeconds,
) -> Closed {
    let mut closed = Closed::default();
    let name = &node.config.name;
    for other in cluster
        .reservations
        .values()
        .filter(|other| keeps_out(other, own))
    {
        let Some(reserved) = other.on(name) else {
            continue;
        };
        if occurrence::touches(other, from, to, now) {
            closed.whole |= reserved.is_whole();
            closed.cpus.extend(&reserved.cpus);
        }
    }
    let Some(own) = own.filter(|own| !own.is(ReservationFlags::FLEX)) else {
        return closed;
    };
    if !occurrence::holds(own, from, to, now) {
        closed.whole = true;
    }
    if own.is(ReservationFlags::ANY_NODES) {
        return closed;
    }
    match own.on(name) {
        None => closed.whole = true,
        Some(reserved) if !reserved.is_whole() => {
            closed
                .cpus
                .extend((0..node.cpu_count()).filter(|cpu| !reserved.cpus.contains(cpu)));
        }
        Some(_) => {}
    }
    closed
}

/// The reservation that shows on a node: one that has begun, a maintenance before others.
#[must_use]
pub fn shown_on<'c>(cluster: &'c Cluster, node: &str) -> Option<&'c Arc<Reservation>> {
    let begun = || {
        cluster
            .reservations
            .values()
            .filter(|reservation| reservation.begun && reservation.on(node).is_some())
    };
    begun()
        .find(|reservation| reservation.is(ReservationFlags::MAINT))
        .or_else(|| begun().next())
}
