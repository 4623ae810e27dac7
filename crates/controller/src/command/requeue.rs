//! Requeueing by hand: `scontrol requeue`, `requeuehold`. Source: scheduling reference 8.

use sluice_model::error_code::ErrorCode;
use sluice_model::ids::JobId;
use sluice_model::reason::Reason;
use sluice_model::state::JobState;

use super::job_end::{self, Kill};
use super::{Caller, Rejection, TargetOutcome, dependency, het, selector};
use crate::effect::Effect;
use crate::event::{Event, Requeue};
use crate::transaction::Transaction;

/// How.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequeueRequest {
    /// Held afterwards.
    pub hold: bool,
    /// Shows SPECIAL_EXIT.
    pub special_exit: bool,
    /// Only jobs that did not end well.
    pub incomplete: bool,
}

/// Requeues everything the texts name.
pub fn requeue_targets(
    transaction: &mut Transaction<'_>,
    targets: &[String],
    request: RequeueRequest,
    caller: &Caller,
) -> Vec<TargetOutcome> {
    selector::for_each(transaction, targets, |t, job| {
        requeue_one(t, job, request, caller)
    })
}

fn requeue_one(
    transaction: &mut Transaction<'_>,
    id: JobId,
    request: RequeueRequest,
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
    if het::is_follower(&job) {
        // The leader takes all with it, also when its id named them all.
        let leader = job.het.and_then(|het| transaction.cluster.job(het.leader));
        return match leader {
            Some(leader) if leader.state.is_pending() => Ok(()),
            _ => Err(ErrorCode::NotHetJobLeader.into()),
        };
    }
    if job.state.is_pending() {
        return Err(ErrorCode::JobPending.into());
    }
    if !job.request.batch {
        return Err(ErrorCode::BatchOnly.into());
    }
    if !job.requeue {
        return Err(ErrorCode::Disabled.into());
    }
    if job.state.is_finished() && job.state.is_completing() {
        return Err(ErrorCode::TransitionStateNoUpdate.into());
    }
    if request.incomplete && job.state.base == JobState::Completed {
        return Ok(());
    }
    let time = transaction.now;
    let hold = request.hold || request.special_exit;
    let requeue = Requeue {
        job_id: id,
        time,
        run_state: JobState::Pending,
        begin_time: if hold {
            None
        } else {
            job_end::requeue_begin(transaction.cluster, time)
        },
        hold: hold.then_some(if caller.uid == job.request.uid {
            Reason::JobHeldUser
        } else {
            Reason::JobHeldAdmin
        }),
        reason_text: None,
        special_exit: request.special_exit,
        exit_status: job.exit_status,
        failed_node: None,
    };
    if job.state.is_finished() {
        for other in het::members(transaction.cluster, &job) {
            let id = other.id;
            transaction.emit(Event::JobRequeued(Requeue {
                job_id: id,
                ..requeue.clone()
            }));
            // What it depends on may have ended while nobody looked.
            dependency::reconsider(transaction, id);
            transaction.effect(Effect::JobChanged { job: id });
        }
        transaction.wake_planner();
    } else {
        job_end::requeue_running(
            transaction,
            requeue,
            &Kill::Gently {
                cause: "DUE TO JOB REQUEUE".to_owned(),
            },
        );
    }
    Ok(())
}
