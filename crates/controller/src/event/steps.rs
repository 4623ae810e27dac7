//! Facts about steps.

use std::sync::Arc;

use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::{JobId, StepId};
use sluice_model::launch::StepUsage;
use sluice_model::state::JobState;
use sluice_model::time::{TimeLimit, UnixSeconds};

use super::jobs::change;
use crate::cluster::{Cluster, Step, StepNodeState};

pub(super) fn created(cluster: &mut Cluster, job_id: JobId, step: &Step) {
    change(cluster, job_id, |job| {
        if let StepId::Num(number) = step.id {
            job.next_step_id = job.next_step_id.max(number.saturating_add(1));
        }
        job.steps.insert(step.id, Arc::new(step.clone()));
    });
}

fn change_node(
    cluster: &mut Cluster,
    job_id: JobId,
    step_id: StepId,
    node: &str,
    edit: impl FnOnce(&mut StepNodeState),
) {
    let Some(index) = cluster.node_index.get(node).copied() else {
        return;
    };
    change(cluster, job_id, |job| {
        let Some(step) = job.steps.get_mut(&step_id) else {
            return;
        };
        if let Some(state) = Arc::make_mut(step)
            .nodes
            .iter_mut()
            .find(|state| state.node == index)
        {
            edit(state);
        }
    });
}

pub(super) fn started(cluster: &mut Cluster, job_id: JobId, step_id: StepId, node: &str) {
    change_node(cluster, job_id, step_id, node, |state| state.started = true);
}

pub(super) fn node_ended(
    cluster: &mut Cluster,
    job_id: JobId,
    step_id: StepId,
    node: &str,
    tasks: &[(u32, WaitStatus)],
    launch_error: Option<&str>,
    usage: &StepUsage,
) {
    change_node(cluster, job_id, step_id, node, |state| {
        state.ended = Some(tasks.to_vec());
        state.launch_error = launch_error.map(str::to_owned);
        state.usage = *usage;
    });
}

pub(super) fn ended(
    cluster: &mut Cluster,
    job_id: JobId,
    step_id: StepId,
    state: JobState,
    exit_status: WaitStatus,
    time: UnixSeconds,
    requester: Option<u32>,
) {
    change(cluster, job_id, |job| {
        if let Some(step) = job.steps.get_mut(&step_id) {
            let step = Arc::make_mut(step);
            step.state = state;
            step.exit_status = exit_status;
            step.end_time = Some(time);
            step.kill_requester = requester;
        }
        // The derived exit code is the highest of the numbered steps (sacct(1) DerivedExitCode).
        if matches!(step_id, StepId::Num(_)) && exit_status.0 > job.derived_exit_status.0 {
            job.derived_exit_status = exit_status;
        }
    });
}

pub(super) fn limited(cluster: &mut Cluster, job_id: JobId, step_id: StepId, limit: TimeLimit) {
    change(cluster, job_id, |job| {
        if let Some(step) = job.steps.get_mut(&step_id) {
            let step = Arc::make_mut(step);
            Arc::make_mut(&mut step.request).time_limit = Some(limit);
        }
    });
}
