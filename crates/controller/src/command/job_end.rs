//! Ending jobs: the one place where a job gets its final state or goes back to the queue, with the orders that follow from it.

use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::JobId;
use sluice_model::launch::AgentOrder;
use sluice_model::reason::Reason;
use sluice_model::state::JobState;
use sluice_model::time::UnixSeconds;

use super::dependency;
use super::het;
use super::mail::{self, MailEvent};
use crate::cluster::{Cluster, Job, NodePhase};
use crate::effect::Effect;
use crate::event::{Event, JobEnd, Requeue};
use crate::launch;
use crate::transaction::Transaction;

/// Shortest time between SIGTERM and SIGKILL: KillWait, but 5 seconds at least (agent reference, signals and kill sequence).
#[must_use]
pub fn kill_wait_secs(cluster: &Cluster) -> u32 {
    cluster.config.timeouts.kill_wait_secs.max(5)
}

/// How an ending job's processes are treated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kill {
    /// They are to be gone already (the script ended): SIGKILL what is left.
    Leftovers,
    /// SIGCONT, SIGTERM, KillWait, SIGKILL, with a line for the job's stderr.
    Gently {
        /// Cause as in `DUE TO TIME LIMIT`; empty = none.
        cause: String,
    },
}

/// Ends a job that holds nodes.
pub fn end_running(transaction: &mut Transaction<'_>, end: JobEnd, kill: &Kill) {
    let others = het::ends_with(transaction.cluster, &end);
    for end in std::iter::once(end).chain(others) {
        let id = end.job_id;
        transaction.emit(Event::JobEnded(end));
        send_terminate(transaction, id, kill);
        after_end(transaction, id);
    }
}

/// Ends a job that has run for as long as it may: its own limit, or that of its reservation.
pub fn end_at_limit(transaction: &mut Transaction<'_>, job_id: JobId) {
    let end = JobEnd {
        job_id,
        state: JobState::Timeout,
        reason: Reason::TimeLimit,
        reason_text: None,
        exit_status: WaitStatus::SUCCESS,
        time: transaction.now,
        requester: None,
        failed_node: None,
    };
    let kill = Kill::Gently {
        cause: "DUE TO TIME LIMIT".to_owned(),
    };
    end_running(transaction, end, &kill);
}

/// Ends a job that waits.
pub fn end_pending(
    transaction: &mut Transaction<'_>,
    id: JobId,
    state: JobState,
    reason: Reason,
    requester: Option<u32>,
) {
    let time = transaction.now;
    let exit_status = match state {
        JobState::Deadline => WaitStatus::exited(1),
        _ => WaitStatus::SUCCESS,
    };
    // A heterogeneous job of which a component is gone will never start.
    let others = het::pending_with(transaction.cluster, id);
    for id in std::iter::once(id).chain(others) {
        transaction.emit(Event::JobEnded(JobEnd {
            job_id: id,
            state,
            reason,
            reason_text: None,
            exit_status,
            time,
            requester,
            failed_node: None,
        }));
        after_end(transaction, id);
    }
}

/// Puts a job that holds nodes back into the queue.
pub fn requeue_running(transaction: &mut Transaction<'_>, requeue: Requeue, kill: &Kill) {
    let others = het::requeued_with(transaction.cluster, &requeue);
    for requeue in std::iter::once(requeue).chain(others) {
        let id = requeue.job_id;
        if let Some(job) = transaction.cluster.job(id).cloned() {
            mail::notify(transaction, &job, MailEvent::Requeue);
        }
        transaction.emit(Event::JobRequeued(requeue));
        send_terminate(transaction, id, kill);
        transaction.effect(Effect::JobChanged { job: id });
        dependency::propagate(transaction, id);
    }
    transaction.wake_planner();
}

/// Delay before a requeued job may start: requeue_delay, else AuthInfo's cred_expire (120 s), plus one second.
#[must_use]
pub fn requeue_begin(cluster: &Cluster, now: UnixSeconds) -> Option<UnixSeconds> {
    let delay = cluster.config.scheduling.parameters.requeue_delay_secs;
    (delay > 0).then(|| now.saturating_add(i64::from(delay) + 1))
}

/// A batch job may be requeued: allowed by itself and the configuration.
#[must_use]
pub fn may_requeue(job: &Job) -> bool {
    job.request.batch && job.requeue
}

fn send_terminate(transaction: &mut Transaction<'_>, id: JobId, kill: &Kill) {
    let Some(job) = transaction.cluster.job(id).cloned() else {
        return;
    };
    let Some(allocation) = &job.allocation else {
        return;
    };
    for part in &allocation.nodes {
        if part.phase == NodePhase::Ending {
            let order =
                launch::terminate_order(transaction.cluster, &job, part, kill, transaction.now);
            transaction.order(&part.name, order);
        }
    }
}

fn after_end(transaction: &mut Transaction<'_>, id: JobId) {
    if let Some(job) = transaction.cluster.job(id).cloned() {
        mail::notify(transaction, &job, MailEvent::End);
    }
    transaction.effect(Effect::JobChanged { job: id });
    dependency::propagate(transaction, id);
    transaction.wake_planner();
}

/// Ends a step's processes gently on every node where it runs.
pub fn terminate_step(transaction: &mut Transaction<'_>, job: &Job, step: &crate::cluster::Step) {
    for (state, layout) in step.nodes.iter().zip(&step.layout.nodes) {
        if state.ended.is_none() {
            transaction.order(
                &layout.node,
                AgentOrder::TerminateStep {
                    job_id: job.id,
                    attempt: job.run_attempt,
                    step_id: step.id,
                },
            );
        }
    }
}

/// Releases a node of an ending job and everything that follows.
pub fn release_node(transaction: &mut Transaction<'_>, id: JobId, node: &str) {
    let time = transaction.now;
    transaction.emit(Event::NodeReleased {
        job_id: id,
        node: node.to_owned(),
        time,
    });
    let settled = transaction
        .cluster
        .job(id)
        .is_some_and(|job| !job.state.is_completing());
    if settled {
        transaction.effect(Effect::JobChanged { job: id });
        dependency::propagate(transaction, id);
    }
    transaction.wake_planner();
}
