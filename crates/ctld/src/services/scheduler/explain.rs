//! Why a job waits: one pass over the last snapshot, on a blocking thread. Changes nothing.

use std::sync::Arc;

use sluice_controller::command::Caller;
use sluice_controller::schedule::explain::explain;
use sluice_model::error_code::ErrorCode;
use sluice_model::ids::JobId;
use sluice_proto::status_from;
use sluice_proto::v1::ExplainJobReply;
use tonic::Status;

use super::super::Shared;
use super::no_such_job;
use super::reads::may_see;
use crate::core::now;

/// The explanation of a job that waits, for whoever may see it.
pub(super) async fn explain_job(
    shared: &Arc<Shared>,
    id: JobId,
    caller: &Caller,
) -> Result<ExplainJobReply, Status> {
    let cluster = shared.core.snapshot();
    let job = cluster.job(id).ok_or_else(no_such_job)?;
    if !may_see(&cluster, caller, job) {
        return Err(no_such_job());
    }
    let state = job.state;
    let found = tokio::task::spawn_blocking(move || explain(&cluster, now(), id))
        .await
        .map_err(|error| Status::internal(error.to_string()))?;
    let explanation = found.ok_or_else(|| {
        let text = format!("Job {id} does not wait: it is {state}");
        status_from(ErrorCode::JobNotPending, text)
    })?;
    Ok(ExplainJobReply {
        explanation: Some(explanation.into()),
    })
}
