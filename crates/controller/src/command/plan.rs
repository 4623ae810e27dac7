//! Carrying out a plan: each placement is checked against the live state, what still fits starts, the rest waits for the next
//! pass.

use std::sync::Arc;

use sluice_model::gres::shares_gpus;
use sluice_model::ids::JobId;
use sluice_model::launch::AgentOrder;
use sluice_model::reason::Reason;
use sluice_model::state::JobState;

use super::{dependency, job_end, mail, step_extern};
use crate::cluster::{Allocation, Cluster};
use crate::effect::Effect;
use crate::event::Event;
use crate::license::LicensesHeld;
use crate::plan::{Plan, PlannedStart};
use crate::queue::eligibility;
use crate::select::shared_gres;
use crate::select::sharing::{self, Owner};
use crate::transaction::Transaction;
use crate::{launch, license, reservation, schedule};

/// What became of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanOutcome {
    /// Placements carried out.
    pub started: usize,
    /// Placements that no longer fitted.
    pub rejected: usize,
}

/// Carries out a plan.
pub fn carry_out(transaction: &mut Transaction<'_>, plan: Plan) -> PlanOutcome {
    let mut outcome = PlanOutcome::default();
    for (id, note) in plan.notes {
        if transaction
            .cluster
            .job(id)
            .is_some_and(|job| job.is_queued())
        {
            transaction.cluster.plan_notes.insert(id, note);
        }
    }
    // What a component is told is about all of them, so that all must have their nodes first.
    let mut components = Vec::new();
    let mut held = LicensesHeld::new();
    if plan.starts.iter().any(|start| !start.licenses.is_empty()) {
        held = license::held(transaction.cluster);
    }
    let torn = torn_components(transaction.cluster, &plan.starts, &held, transaction.now);
    let closed = sharing::shut_out(transaction.cluster, &plan.starts);
    for start in plan.starts {
        let shut_out = torn.contains(&start.job) || closed.contains(&start.job);
        if !shut_out && still_fits(transaction.cluster, &start, &held, transaction.now) {
            for (name, count) in &start.licenses {
                *held.entry((start.reservation, name.clone())).or_default() += count;
            }
            let id = start_job(transaction, start);
            outcome.started += 1;
            let in_group = transaction
                .cluster
                .job(id)
                .is_some_and(|job| job.het.is_some());
            if in_group {
                components.push(id);
            } else {
                send_orders(transaction, id);
            }
        } else {
            outcome.rejected += 1;
        }
    }
    for id in components {
        send_orders(transaction, id);
    }
    for (id, text) in plan.impossible {
        let waits = transaction
            .cluster
            .job(id)
            .is_some_and(|job| job.is_queued() && job.priority > 0);
        if waits {
            let time = transaction.now;
            transaction.emit(Event::JobHeld {
                job_id: id,
                reason: Reason::BadConstraints,
                text: Some(text),
                time,
            });
            transaction.effect(Effect::JobChanged { job: id });
        }
    }
    for id in plan.missed_deadline {
        if transaction
            .cluster
            .job(id)
            .is_some_and(|job| job.is_queued())
        {
            job_end::end_pending(transaction, id, JobState::Deadline, Reason::DeadLine, None);
        }
    }
    mark_planned_nodes(transaction.cluster);
    if outcome.rejected > 0 {
        transaction.wake_planner();
    }
    outcome
}

/// Components of heterogeneous jobs of which not all can start as planned. Their nodes are disjoint, so that each can be looked at
/// alone; but what starts before them may take what they need, so nothing else of this plan may have their nodes.
fn torn_components(
    cluster: &Cluster,
    starts: &[PlannedStart],
    held: &LicensesHeld,
    now: sluice_model::time::UnixSeconds,
) -> std::collections::BTreeSet<JobId> {
    let mut torn = std::collections::BTreeSet::new();
    for start in starts {
        let Some(het) = cluster.job(start.job).and_then(|job| job.het) else {
            continue;
        };
        let whole = het.members().all(|id| {
            // One that was ended by itself is not waited for.
            let ended = cluster.job(id).is_none_or(|job| job.state.is_finished());
            ended
                || starts
                    .iter()
                    .any(|other| other.job == id && still_fits(cluster, other, held, now))
        });
        if !whole {
            torn.insert(start.job);
        }
    }
    torn
}

/// Notes which nodes the pass planned for waiting jobs. Many jobs share a few node lists, so each list is read once.
fn mark_planned_nodes(cluster: &mut Cluster) {
    let lists: std::collections::BTreeSet<&str> = cluster
        .plan_notes
        .values()
        .filter_map(|note| note.planned_nodes.as_deref())
        .collect();
    cluster.planned_nodes = lists
        .into_iter()
        .filter_map(|list| sluice_model::hostlist::parse_hostlist(list).ok())
        .flatten()
        .collect();
}

/// The placement is still possible: the job still waits and may start, and what it would get is still free.
fn still_fits(
    cluster: &Cluster,
    start: &PlannedStart,
    held: &LicensesHeld,
    now: sluice_model::time::UnixSeconds,
) -> bool {
    let Some(job) = cluster.job(start.job) else {
        return false;
    };
    if !job.is_queued() || job.priority == 0 || eligibility::waits_for(cluster, job, now).is_some()
    {
        return false;
    }
    let task_matches = match (&job.array, start.array_task) {
        (Some(array), Some(task)) => array.task_id.is_none() && array.pending.tasks.contains(task),
        (Some(array), None) => array.task_id.is_some(),
        (None, None) => true,
        (None, Some(_)) => false,
    };
    if !task_matches || (start.array_task.is_some() && !eligibility::throttle_allows(cluster, job))
    {
        return false;
    }
    !start.allocation.nodes.is_empty()
        && allocation_is_free(cluster, &start.allocation, &Owner::of(&job.request))
        && reservations_allow(cluster, start, now)
        && licenses_allow(cluster, start, held, now)
}

/// No reservation keeps the job off what it would get; the one it is to run in is there, and it may use it.
fn reservations_allow(
    cluster: &Cluster,
    start: &PlannedStart,
    now: sluice_model::time::UnixSeconds,
) -> bool {
    if cluster.reservations.is_empty() {
        return start.reservation.is_none();
    }
    let own = start
        .reservation
        .and_then(|id| cluster.reservations.get(&id));
    if start.reservation.is_some() && own.is_none() {
        return false;
    }
    let end = now.0.saturating_add(schedule::limit_secs(start.time_limit));
    let end = reservation::run_end(own.map(Arc::as_ref), end, now);
    start.allocation.nodes.iter().all(|part| {
        let Some(node) = cluster.node(part.node) else {
            return false;
        };
        let own = own.map(Arc::as_ref);
        let closed = reservation::closed(cluster, own, node, (now.0, end), now);
        let whole = start.allocation.whole_nodes && !closed.cpus.is_empty();
        !closed.whole && !whole && part.cpu_ids.iter().all(|cpu| !closed.cpus.contains(cpu))
    })
}

/// The licences that it would take are still there.
fn licenses_allow(
    cluster: &Cluster,
    start: &PlannedStart,
    held: &LicensesHeld,
    now: sluice_model::time::UnixSeconds,
) -> bool {
    let end = now.0.saturating_add(schedule::limit_secs(start.time_limit));
    start.licenses.iter().all(|(name, count)| {
        *count <= license::available(cluster, held, name, start.reservation, end, now)
    })
}

/// Everything in the allocation is free now.
#[must_use]
pub fn allocation_is_free(cluster: &Cluster, allocation: &Allocation, owner: &Owner) -> bool {
    allocation.nodes.iter().all(|part| {
        let Some(node) = cluster.node(part.node) else {
            return false;
        };
        if node.config.name != part.name || !node.is_usable() || node.whole_node_job.is_some() {
            return false;
        }
        if sharing::conflict(cluster, node, &part.cpu_ids, allocation, owner).is_some() {
            return false;
        }
        // CPUs that are shared were looked at with the jobs that have them.
        let shared = allocation.shared_in.is_some();
        let cpus_free = part.cpu_ids.iter().all(|cpu| {
            node.used_cpus
                .get(*cpu as usize)
                .is_some_and(|in_use| shared || !in_use)
        });
        let memory_free = !cluster.config.scheduling.select.memory
            || node.used_memory.0.saturating_add(part.memory.0) <= node.config.real_memory.0;
        cpus_free && memory_free && gres_is_free(node, part) && shares_are_free(cluster, node, part)
    })
}

/// No GPU is both shared and somebody's own, and units are to be had.
fn shares_are_free(
    cluster: &Cluster,
    node: &crate::cluster::Node,
    part: &crate::cluster::NodeAllocation,
) -> bool {
    if !node.gres.iter().any(|gres| shares_gpus(&gres.name)) {
        return true;
    }
    let all = shared_gres::units(cluster, node);
    let shared = shared_gres::shared_gpus(&all, node);
    part.gres.iter().all(|given| {
        if given.name == "gpu" {
            return given
                .indices
                .iter()
                .all(|gpu| shared.get(*gpu as usize) != Some(&true));
        }
        let each = given.count / (given.indices.len() as u64).max(1);
        let of_name = |s: &&shared_gres::SharedUnits| node.gres[s.entry].name == given.name;
        !shares_gpus(&given.name)
            || given.indices.iter().all(|gpu| {
                all.iter().filter(of_name).any(|s| {
                    s.free
                        .get(*gpu as usize)
                        .is_some_and(|free| free.is_some_and(|f| f >= each))
                })
            })
    })
}

fn gres_is_free(node: &crate::cluster::Node, part: &crate::cluster::NodeAllocation) -> bool {
    part.gres.iter().all(|given| {
        let states = || {
            node.gres.iter().filter(|g| {
                g.name == given.name
                    && (given.type_name.is_none() || g.type_name == given.type_name)
            })
        };
        if given.indices.is_empty() || shares_gpus(&given.name) {
            return states()
                .map(|g| g.count.saturating_sub(g.used_count))
                .sum::<u64>()
                >= given.count;
        }
        given.indices.iter().all(|index| {
            states().any(|g| {
                index
                    .checked_sub(g.first_index)
                    .and_then(|at| g.used.get(at as usize))
                    .is_some_and(|in_use| !in_use)
            })
        })
    })
}

/// Starts one job on its planned nodes; gives the id of the record that runs.
fn start_job(transaction: &mut Transaction<'_>, start: PlannedStart) -> JobId {
    let cluster = &transaction.cluster;
    let split_id = start.array_task.and_then(|_| {
        let job = cluster.job(start.job)?;
        let array = job.array.as_ref()?;
        // The record of the unstarted tasks becomes the last task itself.
        (array.pending.tasks.len() > 1).then_some(cluster.next_job_id)
    });
    let id: JobId = split_id.unwrap_or(start.job);
    let configuring = !cluster.config.scripts.prolog.is_empty();
    let time = transaction.now;
    transaction.emit(Event::JobStarted {
        job_id: start.job,
        array_task: start.array_task,
        split_id,
        partition: start.partition,
        allocation: Arc::new(start.allocation),
        time_limit: start.time_limit,
        time,
        scheduler: start.scheduler.name().to_owned(),
        configuring,
        reservation: start.reservation,
        licenses: start.licenses,
    });
    id
}

/// Tells the nodes of a job that has just started.
fn send_orders(transaction: &mut Transaction<'_>, id: JobId) {
    let Some(job) = transaction.cluster.job(id).cloned() else {
        return;
    };
    let orders = launch::start_orders(transaction.cluster, &job);
    for (node, order) in orders {
        transaction.order(&node, order);
    }
    if transaction.cluster.config.scripts.flags.contain {
        step_extern::create_extern(transaction, &job);
    }
    if let Some(order) = launch::batch_order(transaction.cluster, &job)
        && let Some(host) = job.allocation.as_ref().and_then(|a| a.nodes.first())
    {
        let order: AgentOrder = order;
        transaction.order(&host.name, order);
    }
    transaction.effect(Effect::JobChanged { job: id });
    mail::notify(transaction, &job, mail::MailEvent::Begin);
    dependency::propagate(transaction, id);
}
