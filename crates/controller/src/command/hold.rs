//! Holding and releasing: `scontrol hold`, `uhold`, `release`. Source: scheduling reference 8.

use sluice_model::error_code::ErrorCode;
use sluice_model::ids::JobId;
use sluice_model::reason::Reason;

use super::submit::BASE_PRIORITY;
use super::{Caller, Rejection, TargetOutcome, selector};
use crate::effect::Effect;
use crate::event::Event;
use crate::transaction::Transaction;

/// Which of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldKind {
    /// `hold`: by the owner JobHeldUser, by an operator JobHeldAdmin.
    Hold,
    /// `uhold`: always JobHeldUser, so that the owner may release it.
    UserHold,
    /// `release`.
    Release,
}

/// Applies `kind` to everything the texts name.
pub fn hold_targets(
    transaction: &mut Transaction<'_>,
    targets: &[String],
    kind: HoldKind,
    caller: &Caller,
) -> Vec<TargetOutcome> {
    let mut outcomes = Vec::new();
    for target in targets {
        match selector::resolve(transaction.cluster, target) {
            Err(rejection) => {
                outcomes.push(TargetOutcome {
                    target: target.clone(),
                    job: None,
                    rejection: Some(rejection),
                });
            }
            Ok(selected) => {
                let several = selected.len() > 1;
                for one in selected {
                    let rejection = hold_one(transaction, one.job, kind, caller).err();
                    let over = rejection.as_ref().is_some_and(|r| {
                        matches!(r.code, ErrorCode::AlreadyDone | ErrorCode::Disabled)
                    });
                    if several && over {
                        continue;
                    }
                    outcomes.push(TargetOutcome {
                        target: target.clone(),
                        job: Some(one.job),
                        rejection,
                    });
                }
            }
        }
    }
    outcomes
}

fn hold_one(
    transaction: &mut Transaction<'_>,
    id: JobId,
    kind: HoldKind,
    caller: &Caller,
) -> Result<(), Rejection> {
    let job = transaction
        .cluster
        .job(id)
        .cloned()
        .ok_or(ErrorCode::InvalidJobId)?;
    if !caller.may_change_job(&job) {
        return Err(ErrorCode::InvalidUserId.into());
    }
    if job.request.cron_spec.is_some() {
        return Err(ErrorCode::CronJobModify.into());
    }
    if job.state.is_finished() {
        return Err(ErrorCode::AlreadyDone.into());
    }
    let caller = &caller.over(&job);
    let time = transaction.now;
    match kind {
        HoldKind::Hold | HoldKind::UserHold => {
            if job.priority == 0 && job.reason == Reason::JobHeldAdmin && !caller.privileged {
                return Err(ErrorCode::AccessDenied.into());
            }
            let owner = caller.uid == job.request.uid && (caller.uid != 0 || !caller.privileged);
            let reason = if kind == HoldKind::UserHold || owner {
                Reason::JobHeldUser
            } else {
                Reason::JobHeldAdmin
            };
            transaction.emit(Event::JobHeld {
                job_id: id,
                reason,
                text: None,
                time,
            });
        }
        HoldKind::Release => {
            let admin_hold = job.priority == 0
                && !matches!(job.reason, Reason::JobHeldUser | Reason::ReservationDeleted);
            if admin_hold && !caller.privileged {
                return Err(ErrorCode::AccessDenied.into());
            }
            transaction.emit(Event::JobReleased {
                job_id: id,
                priority: BASE_PRIORITY,
                time,
            });
            transaction.wake_planner();
        }
    }
    transaction.effect(Effect::JobChanged { job: id });
    Ok(())
}
