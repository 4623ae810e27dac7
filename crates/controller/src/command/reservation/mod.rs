//! Making, changing and deleting reservations, and what time does to them. Source: scontrol(1), reservations page.
//!
//! A reservation is worked out as a whole before it is recorded: a refused request changes nothing.

mod settle;
#[cfg(test)]
mod tests;
mod watch;

use sluice_model::error_code::ErrorCode;
use sluice_model::reservation::{ReservationFlags, ReservationRequest};
use sluice_model::time::UnixSeconds;

use super::{Caller, Rejection};
use crate::cluster::{Cluster, Reservation};
use crate::event::Event;
use crate::reservation::{named, occurrence, waiting_for};
use crate::transaction::Transaction;

pub use watch::tick;

/// A start this far in the past is taken for a slow request, one further back for a mistake.
pub(super) const LATE_SECS: i64 = 600;

/// Makes a reservation; gives its name.
///
/// # Errors
/// No permission; times, names, nodes, licences or access lists that cannot be.
pub fn create(
    transaction: &mut Transaction<'_>,
    request: &ReservationRequest,
    caller: &Caller,
) -> Result<String, Rejection> {
    if !caller.privileged {
        return Err(ErrorCode::InvalidUserId.into());
    }
    let reservation = settle::new(transaction.cluster, request, transaction.now)?;
    let name = reservation.name.clone();
    record(transaction, reservation);
    Ok(name)
}

/// Changes a reservation.
///
/// # Errors
/// No permission; no such reservation; values that cannot be.
pub fn update(
    transaction: &mut Transaction<'_>,
    request: &ReservationRequest,
    caller: &Caller,
) -> Result<(), Rejection> {
    if !caller.privileged {
        return Err(ErrorCode::InvalidUserId.into());
    }
    let before = named(transaction.cluster, &request.name)
        .cloned()
        .ok_or(ErrorCode::ReservationInvalid)?;
    if ReservationFlags(request.flags_add).contains(ReservationFlags::SKIP) {
        return skip(transaction, &before);
    }
    let reservation = settle::changed(transaction.cluster, &before, request, transaction.now)?;
    record(transaction, reservation);
    Ok(())
}

fn record(transaction: &mut Transaction<'_>, reservation: Reservation) {
    let id = reservation.id;
    transaction.emit(Event::ReservationSet {
        reservation: Box::new(reservation),
    });
    watch::begin_due(transaction, id);
    transaction.wake_planner();
}

/// Leaves an occurrence out.
fn skip(transaction: &mut Transaction<'_>, reservation: &Reservation) -> Result<(), Rejection> {
    let (start, end) = occurrence::next(reservation).ok_or(ErrorCode::ReservationNotSkippable)?;
    if runs_a_job(transaction.cluster, reservation.id) {
        return Err(ErrorCode::ReservationBusy.into());
    }
    move_on(transaction, reservation.id, start, end);
    Ok(())
}

/// A recurring reservation goes to another of its times; what it kept is free.
fn move_on(transaction: &mut Transaction<'_>, id: u32, start: UnixSeconds, end: UnixSeconds) {
    transaction.emit(Event::ReservationMoved { id, start, end });
    transaction.wake_planner();
}

/// Deletes a reservation.
///
/// # Errors
/// No permission; no such reservation; jobs run in it.
pub fn delete(
    transaction: &mut Transaction<'_>,
    name: &str,
    user: &str,
    caller: &Caller,
) -> Result<(), Rejection> {
    let Some(reservation) = named(transaction.cluster, name).cloned() else {
        return Err(ErrorCode::ReservationInvalid.into());
    };
    let own = reservation.is(ReservationFlags::USER_DELETE)
        && !reservation.users.deny
        && reservation.users.names.iter().any(|name| name == user);
    if !caller.privileged && !own {
        return Err(ErrorCode::InvalidUserId.into());
    }
    if runs_a_job(transaction.cluster, reservation.id) {
        return Err(ErrorCode::ReservationBusy.into());
    }
    remove(transaction, reservation.id);
    Ok(())
}

/// Takes a reservation away.
fn remove(transaction: &mut Transaction<'_>, id: u32) {
    let time = transaction.now;
    let Some(reservation) = transaction.cluster.reservations.get(&id).cloned() else {
        return;
    };
    let waiting: Vec<_> = waiting_for(transaction.cluster, &reservation.name).collect();
    transaction.emit(Event::ReservationDeleted { id, time });
    for job in waiting {
        transaction.effect(crate::effect::Effect::JobChanged { job });
    }
    transaction.wake_planner();
}

/// Some job that has not ended runs in the reservation.
fn runs_a_job(cluster: &Cluster, id: u32) -> bool {
    cluster.holding.iter().any(|job| {
        cluster.job(*job).is_some_and(|job| {
            !job.state.is_finished()
                && !job.state.is_pending()
                && job.reservation.as_ref().is_some_and(|run| run.id == id)
        })
    })
}

/// The end of a span of `minutes` from a time; no limit is a year, as in Slurm.
fn after(start: UnixSeconds, minutes: sluice_model::time::TimeLimit) -> UnixSeconds {
    start.saturating_add(minutes.seconds().unwrap_or(365 * 86_400))
}
