//! Stopping and continuing a job by hand: `scontrol suspend`, `resume`: the owner and operators, as a running slurmctld has it.

use sluice_model::error_code::ErrorCode;
use sluice_model::ids::JobId;
use sluice_model::launch::AgentOrder;
use sluice_model::state::JobState;

use super::{Caller, Rejection, TargetOutcome, het, selector};
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
    let mut outcomes = Vec::new();
    for target in targets {
        let mut tell = |job, rejection| {
            outcomes.push(TargetOutcome {
                target: target.clone(),
                job,
                rejection,
            });
        };
        let selected = match selector::resolve(transaction.cluster, target) {
            Ok(selected) => selected,
            Err(rejection) => {
                tell(None, Some(rejection));
                continue;
            }
        };
        let first = selected
            .first()
            .and_then(|one| transaction.cluster.job(one.job));
        if let Some(job) = first.filter(|job| job.het.is_some()).cloned() {
            // The leader stands for all; a component alone is not stopped.
            let rejection = if het::is_follower(&job) {
                Some(ErrorCode::NotHetJobLeader.into())
            } else {
                het::members(transaction.cluster, &job)
                    .iter()
                    .filter_map(|job| suspend_one(transaction, job.id, resume, caller).err())
                    .last()
            };
            tell(Some(job.id), rejection);
            continue;
        }
        for one in selected {
            let rejection = suspend_one(transaction, one.job, resume, caller).err();
            tell(Some(one.job), rejection);
        }
    }
    outcomes
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
    if !caller.may_change_job(&job) {
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
