//! What time alone does to reservations: they begin, end, come again, exchange nodes, and go away when idle.
//!
//! Runs about once a second. Source: reservations page, slurm.conf(5) ResvOverRun, ResvProlog, ResvEpilog.

use std::sync::Arc;

use sluice_model::ids::JobId;
use sluice_model::reservation::{PURGE_COMP_SECS, ReservationFlags};

use super::super::job_end;
use super::{move_on, remove, runs_a_job, settle};
use crate::cluster::{Cluster, Reservation, ReservedNode};
use crate::effect::Effect;
use crate::event::Event;
use crate::license;
use crate::reservation::{nodes, occurrence, waiting_for};
use crate::transaction::Transaction;

/// Does what is due.
pub fn tick(transaction: &mut Transaction<'_>) {
    if transaction.cluster.reservations.is_empty() {
        return;
    }
    let ids: Vec<u32> = transaction.cluster.reservations.keys().copied().collect();
    for id in ids {
        begin_due(transaction, id);
        end_jobs(transaction, id);
        end_due(transaction, id);
        idle(transaction, id);
        exchange_nodes(transaction, id);
    }
}

fn get(transaction: &Transaction<'_>, id: u32) -> Option<Arc<Reservation>> {
    transaction.cluster.reservations.get(&id).cloned()
}

/// Runs a program of the configuration with the reservation's name.
fn run_program(transaction: &mut Transaction<'_>, program: Option<String>, name: &str) {
    let Some(program) = program.filter(|program| !program.is_empty()) else {
        return;
    };
    let user = transaction.cluster.config.slurm_user.clone();
    transaction.effect(Effect::RunReservationProgram {
        user,
        program,
        reservation: name.to_owned(),
    });
}

/// The start of an occurrence.
pub(super) fn begin_due(transaction: &mut Transaction<'_>, id: u32) {
    let now = transaction.now;
    let Some(reservation) = get(transaction, id) else {
        return;
    };
    if reservation.begun || !reservation.is_active(now) {
        return;
    }
    transaction.emit(Event::ReservationBegun { id, time: now });
    let program = transaction.cluster.config.scripts.resv_prolog.clone();
    run_program(transaction, program, &reservation.name);
    transaction.wake_planner();
}

/// Jobs of a reservation that is over, ResvOverRun added, end.
fn end_jobs(transaction: &mut Transaction<'_>, id: u32) {
    let now = transaction.now;
    let Some(reservation) = get(transaction, id) else {
        return;
    };
    let over = transaction
        .cluster
        .config
        .scheduling
        .resv_over_run
        .seconds();
    let Some(over) = over else { return };
    let lasting = ReservationFlags::FLEX;
    if reservation.is(lasting) || now.0 < reservation.end_at(now).0.saturating_add(over) {
        return;
    }
    let running: Vec<JobId> = running_jobs(transaction.cluster, id).collect();
    for job_id in running {
        job_end::end_at_limit(transaction, job_id);
    }
}

/// Jobs that run in the reservation and have not begun to end.
fn running_jobs(cluster: &Cluster, id: u32) -> impl Iterator<Item = JobId> + '_ {
    let runs = move |job: &&JobId| {
        cluster.job(**job).is_some_and(|job| {
            license::holds(job) && job.reservation.as_ref().is_some_and(|run| run.id == id)
        })
    };
    cluster.holding.iter().filter(runs).copied()
}

/// The end: a recurring one moves on, another goes when its last job is gone.
fn end_due(transaction: &mut Transaction<'_>, id: u32) {
    let now = transaction.now;
    let Some(reservation) = get(transaction, id) else {
        return;
    };
    if now < reservation.end_at(now) {
        return;
    }
    let busy = runs_a_job(transaction.cluster, id);
    if busy && !reservation.recurs() {
        return;
    }
    if reservation.begun {
        let program = transaction.cluster.config.scripts.resv_epilog.clone();
        run_program(transaction, program, &reservation.name);
    }
    if reservation.recurs() {
        let (start, end) = occurrence::current(&reservation, now);
        move_on(transaction, id, start, end);
        begin_due(transaction, id);
    } else {
        remove(transaction, id);
    }
}

/// PURGE_COMP: one that had no job for so long goes, or moves on.
fn idle(transaction: &mut Transaction<'_>, id: u32) {
    let now = transaction.now;
    let Some(reservation) = get(transaction, id) else {
        return;
    };
    if !reservation.is(ReservationFlags::PURGE_COMP) || !reservation.begun {
        return;
    }
    let cluster = &transaction.cluster;
    let in_use = running_jobs(cluster, id).next().is_some()
        || waiting_for(cluster, &reservation.name).next().is_some();
    match (in_use, reservation.idle_since) {
        (true, Some(_)) => transaction.emit(Event::ReservationIdle { id, since: None }),
        (false, None) => transaction.emit(Event::ReservationIdle {
            id,
            since: Some(now),
        }),
        (false, Some(since)) => {
            let most = reservation.purge_comp_secs.unwrap_or(PURGE_COMP_SECS);
            if now.since(since) >= i64::from(most) {
                match occurrence::next(&reservation) {
                    Some((start, end)) => move_on(transaction, id, start, end),
                    None => remove(transaction, id),
                }
            }
        }
        (true, None) => {}
    }
}

/// Nodes that no longer serve are replaced; those of a partition are followed.
fn exchange_nodes(transaction: &mut Transaction<'_>, id: u32) {
    let now = transaction.now;
    let Some(reservation) = get(transaction, id) else {
        return;
    };
    let cluster = &transaction.cluster;
    let chosen = if reservation.is(ReservationFlags::PART_NODES) {
        of_partition(cluster, &reservation).filter(|nodes| *nodes != reservation.nodes)
    } else {
        nodes::replaced(cluster, &reservation, now)
    };
    if let Some(nodes) = chosen {
        let core_count = settle::core_count(cluster, &nodes);
        transaction.emit(Event::ReservationNodes {
            id,
            nodes,
            core_count,
        });
        transaction.wake_planner();
    }
}

fn of_partition(cluster: &Cluster, reservation: &Reservation) -> Option<Vec<ReservedNode>> {
    let partition = cluster.partition(reservation.partition.as_deref()?)?;
    let node = |index: &crate::cluster::NodeIndex| {
        cluster.node(*index).map(|node| ReservedNode {
            name: node.config.name.clone(),
            cpus: Vec::new(),
        })
    };
    Some(partition.nodes.iter().filter_map(node).collect())
}
