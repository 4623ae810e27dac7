//! Facts about reservations.

use std::sync::Arc;

use sluice_model::reason::Reason;
use sluice_model::reservation::ReservationFlags;
use sluice_model::state::JobStateFlags;
use sluice_model::time::UnixSeconds;

use super::jobs;
use crate::cluster::{Cluster, Reservation, ReservedNode};
use crate::reservation::{names_of, waiting_for};

fn change(cluster: &mut Cluster, id: u32, edit: impl FnOnce(&mut Reservation)) {
    if let Some(reservation) = cluster.reservations.get_mut(&id) {
        edit(Arc::make_mut(reservation));
    }
}

pub(super) fn set(cluster: &mut Cluster, reservation: &Reservation) {
    cluster.last_reservation_id = cluster.last_reservation_id.max(reservation.id);
    cluster
        .reservations
        .insert(reservation.id, Arc::new(reservation.clone()));
}

pub(super) fn begun(cluster: &mut Cluster, id: u32, time: UnixSeconds) {
    change(cluster, id, |reservation| {
        reservation.begun = true;
        reservation.idle_since = Some(time);
    });
}

pub(super) fn moved(cluster: &mut Cluster, id: u32, start: UnixSeconds, end: UnixSeconds) {
    change(cluster, id, |reservation| {
        reservation.start = start;
        reservation.end = end;
        reservation.begun = false;
        reservation.idle_since = None;
    });
}

pub(super) fn nodes(cluster: &mut Cluster, id: u32, nodes: &[ReservedNode], core_count: u32) {
    change(cluster, id, |reservation| {
        reservation.nodes = nodes.to_vec();
        reservation.core_count = core_count;
    });
}

pub(super) fn idle(cluster: &mut Cluster, id: u32, since: Option<UnixSeconds>) {
    change(cluster, id, |reservation| reservation.idle_since = since);
}

/// Takes the reservation away, and its name from the jobs that wait for it.
pub(super) fn deleted(cluster: &mut Cluster, id: u32, _time: UnixSeconds) {
    let Some(gone) = cluster.reservations.remove(&id) else {
        return;
    };
    let waiting: Vec<_> = waiting_for(cluster, &gone.name).collect();
    for id in waiting {
        jobs::change(cluster, id, |job| {
            let left: Vec<&str> = names_of(job.request.reservation.as_deref())
                .filter(|name| *name != gone.name)
                .collect();
            let left = left.join(",");
            let none_left = left.is_empty();
            let mut request = (*job.request).clone();
            request.reservation = Some(left).filter(|text| !text.is_empty());
            job.request = Arc::new(request);
            if none_left && !gone.is(ReservationFlags::NO_HOLD_JOBS) && job.priority > 0 {
                job.priority = 0;
                job.reason = Reason::ReservationDeleted;
                job.reason_text = Some(format!("Reservation {} was deleted", gone.name));
                job.eligible_time = None;
                job.state.flags.insert(JobStateFlags::RESV_DEL_HOLD);
            }
        });
        cluster.plan_notes.remove(&id);
    }
}
