//! Stopping and continuing a job by hand: `scontrol suspend`, `resume`: the owner and operators, as a running slurmctld has it.

use sluice_model::error_code::ErrorCode;
use sluice_model::ids::JobId;
use sluice_model::launch::AgentOrder;
use sluice_model::state::JobState;

use super::{Caller, Rejection, TargetOutcome, selector};
use crate::effect::Effect;
use crate::event::Event;
use crate::transaction::Transaction;

/// Suspends (or resumes) everything the texts name.
pub fn suspend_targets(
    transaction: &mut Transaction<'_>,
    targets: &[String],
    resume: bool,
    caller: &Caller,
) -> Vec<TargetOutcome> {
    selector::for_each(transaction, targets, |t, job| {
        suspend_one(t, job, resume, caller)
    })
}

fn suspend_one(
    transaction: &mut Transaction<'_>,
    id: JobId,
    resume: bool,
    caller: &Caller,
) -> Result<(), Rejection> {
    let job = transaction
        .cluster
        .job(id)
        .cloned()
        .ok_or(ErrorCode::InvalidJobId)?;
    if !caller.may_change(job.request.uid) {
        return Err(ErrorCode::AccessDenied.into());
    }
    match (job.state.base, resume) {
        _ if job.state.is_finished() => return Err(ErrorCode::AlreadyDone.into()),
        (JobState::Pending, _) => return Err(ErrorCode::JobPending.into()),
        (JobState::Running, true) => return Err(ErrorCode::JobNotSuspended.into()),
        // Asked twice is done once, as slurmctld has it.
        (JobState::Suspended, false) => return Ok(()),
        _ => {}
    }
    let time = transaction.now;
    transaction.emit(Event::JobSuspended {
        job_id: id,
        suspended: !resume,
        time,
    });
    if let Some(allocation) = &job.allocation {
        for part in &allocation.nodes {
            transaction.order(
                &part.name,
                AgentOrder::Suspend {
                    job_id: id,
                    suspended: !resume,
                },
            );
        }
    }
    transaction.effect(Effect::JobChanged { job: id });
    Ok(())
}
