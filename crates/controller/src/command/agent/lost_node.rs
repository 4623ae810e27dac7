//! What becomes of the jobs of a node that is gone, and of steps of which no report will come.
//!
//! Source: scheduling reference 11 (node failure), sbatch(1) --no-kill.

use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::JobId;
use sluice_model::reason::Reason;
use sluice_model::state::JobState;

use super::finish_step_if_over;
use crate::cluster::{Job, NodePhase};
use crate::command::job_end::{self, Kill};
use crate::event::{Event, JobEnd, Requeue};
use crate::transaction::Transaction;

/// Ends or requeues every job on a node that is gone, and frees the node's part at once: no Epilog will ever report from it.
pub fn fail_jobs(transaction: &mut Transaction<'_>, node: &str, cause: &str) {
    let Some((_, record)) = transaction.cluster.node_named(node) else {
        return;
    };
    for id in record.jobs.clone() {
        lose_job(transaction, id, node, cause);
        // The part on this node is gone whatever became of the job.
        let Some(job) = transaction.cluster.job(id).cloned() else {
            continue;
        };
        end_steps_on(transaction, &job, node);
        job_end::release_node(transaction, id, node);
    }
}

/// A node's failure ends the job, unless `--no-kill` and other nodes are left.
pub(super) fn lose_job(transaction: &mut Transaction<'_>, id: JobId, node: &str, cause: &str) {
    let Some(job) = transaction.cluster.job(id).cloned() else {
        return;
    };
    if job.state.is_finished() || job.state.is_pending() {
        return;
    }
    let others = job.allocation.as_ref().is_some_and(|a| {
        a.nodes
            .iter()
            .any(|part| part.name != node && part.phase < NodePhase::Ending)
    });
    let hosts_script = job.request.batch
        && job
            .allocation
            .as_ref()
            .is_some_and(|a| a.nodes.first().is_some_and(|p| p.name == node));
    if job.request.no_kill && others && !hosts_script {
        return;
    }
    let kill = Kill::Gently {
        cause: "DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS".to_owned(),
    };
    let time = transaction.now;
    if job_end::may_requeue(&job) {
        let begin_time = job_end::requeue_begin(transaction.cluster, time);
        job_end::requeue_running(
            transaction,
            Requeue {
                job_id: id,
                time,
                run_state: JobState::NodeFail,
                begin_time,
                hold: None,
                reason_text: Some(format!("{node}: {cause}")),
                special_exit: false,
                exit_status: WaitStatus::SUCCESS,
                failed_node: Some(node.to_owned()),
            },
            &kill,
        );
    } else {
        job_end::end_running(
            transaction,
            JobEnd {
                job_id: id,
                state: JobState::NodeFail,
                reason: Reason::NodeDown,
                reason_text: Some(format!("{node}: {cause}")),
                exit_status: WaitStatus::exited(1),
                time,
                requester: None,
                failed_node: Some(node.to_owned()),
            },
            &kill,
        );
    }
}

/// Records the end of a job's steps on a node that cannot report it.
pub(in crate::command) fn end_steps_on(transaction: &mut Transaction<'_>, job: &Job, node: &str) {
    for (id, step) in &job.steps {
        let Some(at) = step
            .layout
            .nodes
            .iter()
            .position(|layout| layout.node == node)
        else {
            continue;
        };
        if step.nodes[at].ended.is_some() {
            continue;
        }
        let tasks = step.layout.nodes[at]
            .task_ids
            .iter()
            .map(|rank| (*rank, WaitStatus::signaled(9)))
            .collect();
        let time = transaction.now;
        transaction.emit(Event::StepNodeEnded {
            job_id: job.id,
            step_id: *id,
            node: node.to_owned(),
            tasks,
            launch_error: None,
            usage: Default::default(),
        });
        finish_step_if_over(transaction, job.id, *id, time, false, None);
    }
}
