//! Changes by hand to partitions, nodes and steps: from requests to commands of the engine.
//!
//! Only here is "administrator" asked for; the engine knows operators only.

use sluice_controller::Transaction;
use sluice_controller::cluster::AfterReboot;
use sluice_controller::command::reboot::RebootRequest;
use sluice_controller::command::{Caller, node_create, partition, reboot, step_limit, top};
use sluice_model::error_code::ErrorCode;
use sluice_model::ids::{JobId, StepId};
use sluice_model::time::TimeLimit;
use sluice_proto::status_from;
use sluice_proto::v1::{
    ChangePartitionRequest, ConfigEntry, CreateNodesRequest, RebootNodesRequest, TopJobsReply,
    UpdateStepsRequest,
};
use tonic::Status;

use super::super::Shared;
use crate::auth::Identity;

/// A limit on the wire that means none.
const UNLIMITED: u32 = u32::MAX;

fn settings(entries: Vec<ConfigEntry>) -> Vec<(String, String)> {
    entries
        .into_iter()
        .map(|entry| (entry.key, entry.value))
        .collect()
}

/// The caller, who must be an administrator; others are refused with `code`.
fn administrator(shared: &Shared, identity: &Identity, code: ErrorCode) -> Result<Caller, Status> {
    if shared.roles.is_administrator(identity) {
        Ok(shared.caller(identity))
    } else {
        Err(status_from(code, ""))
    }
}

/// Makes or changes a partition.
pub(super) async fn change_partition(
    shared: &Shared,
    identity: &Identity,
    request: ChangePartitionRequest,
) -> Result<(), Status> {
    let caller = administrator(shared, identity, ErrorCode::InvalidUserId)?;
    let settings = settings(request.settings);
    let change = move |t: &mut Transaction<'_>| {
        partition::change(t, &request.name, request.create, &settings, &caller)
    };
    Ok(shared.core.run(change).await?)
}

/// Deletes a partition.
pub(super) async fn delete_partition(
    shared: &Shared,
    identity: &Identity,
    name: String,
) -> Result<(), Status> {
    let caller = administrator(shared, identity, ErrorCode::InvalidUserId)?;
    let delete = move |t: &mut Transaction<'_>| partition::delete(t, &name, &caller);
    Ok(shared.core.run(delete).await?)
}

/// Makes nodes.
pub(super) async fn create_nodes(
    shared: &Shared,
    identity: &Identity,
    request: CreateNodesRequest,
) -> Result<(), Status> {
    let caller = administrator(shared, identity, ErrorCode::InvalidUserId)?;
    let settings = settings(request.settings);
    let create = move |t: &mut Transaction<'_>| node_create::create(t, &settings, &caller);
    Ok(shared.core.run(create).await?)
}

/// Deletes nodes.
pub(super) async fn delete_nodes(
    shared: &Shared,
    identity: &Identity,
    nodes: String,
) -> Result<(), Status> {
    let caller = administrator(shared, identity, ErrorCode::InvalidUserId)?;
    let delete = move |t: &mut Transaction<'_>| node_create::delete(t, &nodes, &caller);
    Ok(shared.core.run(delete).await?)
}

/// Asks for reboots.
pub(super) async fn reboot_nodes(
    shared: &Shared,
    identity: &Identity,
    request: RebootNodesRequest,
) -> Result<(), Status> {
    let caller = administrator(shared, identity, ErrorCode::AccessDenied)?;
    let next_state = match request.next_state.as_str() {
        "" => None,
        "RESUME" => Some(AfterReboot::Resume),
        "DOWN" => Some(AfterReboot::Down),
        other => {
            return Err(Status::invalid_argument(format!(
                "\"{other}\" is no state after a reboot"
            )));
        }
    };
    let request = RebootRequest {
        nodes: request.nodes,
        asap: request.asap,
        force: request.force,
        next_state,
        reason: request.reason,
    };
    let ask = move |t: &mut Transaction<'_>| reboot::request(t, &request, &caller);
    Ok(shared.core.run(ask).await?)
}

/// Changes the limit of steps.
pub(super) async fn update_steps(
    shared: &Shared,
    identity: &Identity,
    request: UpdateStepsRequest,
) -> Result<(), Status> {
    let caller = shared.caller(identity);
    let step = match request.step_id {
        None => None,
        Some(number) => Some(
            StepId::from_number(number).ok_or_else(|| status_from(ErrorCode::InvalidJobId, ""))?,
        ),
    };
    let limit = if request.time_limit == UNLIMITED {
        TimeLimit::Unlimited
    } else {
        TimeLimit::Minutes(request.time_limit)
    };
    let job = JobId(request.job_id);
    let set = move |t: &mut Transaction<'_>| step_limit::set(t, job, step, limit, &caller);
    Ok(shared.core.run(set).await?)
}

/// Moves jobs to the front.
pub(super) async fn top_jobs(
    shared: &Shared,
    identity: &Identity,
    jobs: Vec<String>,
) -> Result<TopJobsReply, Status> {
    let caller = shared.caller(identity);
    let failure = shared
        .core
        .run(move |t| Ok(top::top(t, &jobs, &caller).err()))
        .await?;
    Ok(match failure {
        None => TopJobsReply::default(),
        Some(failure) => TopJobsReply {
            failed_job: failure.job,
            error_code: u32::from(failure.rejection.code.number()),
        },
    })
}
