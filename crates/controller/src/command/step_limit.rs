//! Changing a step's time limit by hand: `scontrol update StepId=`. Source: scontrol(1), step specifications.

use sluice_model::error_code::ErrorCode;
use sluice_model::ids::{JobId, StepId};
use sluice_model::time::TimeLimit;

use super::{Caller, Rejection, job_end};
use crate::event::Event;
use crate::transaction::Transaction;

/// Seconds between two orders to end a step that is over its limit.
const REPEAT_SECS: i64 = 30;

/// Sets the limit of one step, or of all steps of the job that run.
///
/// # Errors
/// No permission; no such job or step; the job is over.
pub fn set(
    transaction: &mut Transaction<'_>,
    job_id: JobId,
    step: Option<StepId>,
    limit: TimeLimit,
    caller: &Caller,
) -> Result<(), Rejection> {
    let job = transaction
        .cluster
        .job(job_id)
        .cloned()
        .ok_or(ErrorCode::InvalidJobId)?;
    if !caller.may_change_job(&job) {
        return Err(ErrorCode::AccessDenied.into());
    }
    if job.state.is_finished() {
        return Err(ErrorCode::AlreadyDone.into());
    }
    let steps: Vec<StepId> = job
        .steps
        .iter()
        .filter(|(id, record)| {
            record.end_time.is_none() && step.is_none_or(|wanted| wanted == **id)
        })
        .map(|(id, _)| *id)
        .collect();
    if steps.is_empty() {
        return Err(ErrorCode::InvalidJobId.into());
    }
    for step_id in steps {
        transaction.emit(Event::StepLimited {
            job_id,
            step_id,
            time_limit: limit,
        });
    }
    Ok(())
}

/// Ends steps that are over their limits.
pub(super) fn tick(transaction: &mut Transaction<'_>) {
    let now = transaction.now;
    let mut over = Vec::new();
    for id in &transaction.cluster.holding {
        let Some(job) = transaction.cluster.job(*id) else {
            continue;
        };
        for step in job.steps.values().filter(|step| step.end_time.is_none()) {
            let Some(seconds) = step.request.time_limit.and_then(TimeLimit::seconds) else {
                continue;
            };
            let late = now.since(step.start_time) - seconds;
            // The order is repeated now and then, not every second.
            if late >= 0 && (late % REPEAT_SECS) < 2 {
                over.push((job.clone(), step.clone()));
            }
        }
    }
    for (job, step) in over {
        job_end::terminate_step(transaction, &job, &step);
    }
}
