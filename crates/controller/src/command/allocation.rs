//! The end of an allocation that `salloc` or `srun` holds.

use sluice_model::error_code::ErrorCode;
use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::JobId;
use sluice_model::reason::Reason;
use sluice_model::state::JobState;

use super::job_end::{self, Kill};
use super::{Caller, Rejection};
use crate::event::JobEnd;
use crate::transaction::Transaction;

/// Ends an allocation with its command's exit status. An allocation that still waits is cancelled.
///
/// # Errors
/// Invalid job id, no permission, or already completed.
pub fn complete(
    transaction: &mut Transaction<'_>,
    id: JobId,
    exit_status: WaitStatus,
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
    if job.state.is_finished() {
        return Err(ErrorCode::AlreadyDone.into());
    }
    if job.state.is_pending() {
        job_end::end_pending(
            transaction,
            id,
            JobState::Cancelled,
            Reason::None,
            Some(caller.uid),
        );
        return Ok(());
    }
    let (state, reason) = if exit_status.is_success() {
        (JobState::Completed, Reason::None)
    } else if exit_status.signal() != 0 {
        (JobState::Failed, Reason::RaisedSignal)
    } else {
        (JobState::Failed, Reason::NonZeroExitCode)
    };
    let time = transaction.now;
    job_end::end_running(
        transaction,
        JobEnd {
            job_id: id,
            state,
            reason,
            reason_text: None,
            exit_status,
            time,
            requester: None,
            failed_node: None,
        },
        &Kill::Leftovers,
    );
    Ok(())
}
