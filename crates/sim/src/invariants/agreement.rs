//! Some time after faults have stopped, nodes and controller agree: what runs on a node belongs to a job that is there now, and is
//! stopped exactly while the job is suspended.

use sluice_controller::Cluster;
use sluice_controller::cluster::NodePhase;
use sluice_model::state::JobState;
use sluice_model::time::UnixSeconds;

use super::Violation;
use crate::node::SimNode;

/// Seconds that orders and slow ends may still take.
const SETTLING_SECS: i64 = 60;

/// Compares.
///
/// # Errors
/// The first process that should not be there, or not so.
pub fn check(cluster: &Cluster, nodes: &[SimNode], now: UnixSeconds) -> Result<(), Violation> {
    for node in nodes {
        for (step, stopped, since) in node.running_steps() {
            if now.since(since) < SETTLING_SECS {
                continue;
            }
            let wrong = |what: &str| {
                let text = format!("{} runs {step:?} since {}: {what}", node.name, since.0);
                Err(Violation::new(
                    "nodes and controller agree once faults have stopped",
                    text,
                ))
            };
            let Some(job) = cluster.job(step.job_id) else {
                return wrong("there is no such job");
            };
            let part = job.allocation.as_ref().and_then(|allocation| {
                allocation
                    .nodes
                    .iter()
                    .find(|part| part.name == node.name && part.phase != NodePhase::Released)
            });
            if job.run_attempt != step.attempt || part.is_none() {
                return wrong("the job has no such run here");
            }
            if part.is_some_and(|part| part.phase == NodePhase::Prolog) {
                return wrong("the controller still waits for the Prolog");
            }
            let settled = job
                .suspend_time
                .is_none_or(|at| now.since(at) >= SETTLING_SECS);
            let suspended = job.state.base == JobState::Suspended;
            if settled && !job.state.is_completing() && suspended != stopped {
                return wrong(&format!("stopped: {stopped}, but the job is {}", job.state));
            }
        }
    }
    Ok(())
}
