//! Changes by hand to partitions, nodes and steps: from requests to commands of the engine.
//!
//! Only here is "administrator" asked for; the engine knows operators only.

use std::sync::Arc;

use sluice_controller::cluster::AfterReboot;
use sluice_controller::command::reboot::RebootRequest;
use sluice_controller::command::{node_create, partition, reboot, step_limit, top};
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

/// Administrators only, refused with `code`.
fn administrator(shared: &Shared, identity: &Identity, code: ErrorCode) -> Result<(), Status> {
    if shared.roles.is_administrator(identity) {
        Ok(())
    } else {
        Err(status_from(code, ""))
    }
}

/// Makes or changes a partition.
pub(super) async fn change_partition(
    shared: &Arc<Shared>,
    identity: &Identity,
    request: ChangePartitionRequest,
) -> Result<(), Status> {
    administrator(shared, identity, ErrorCode::InvalidUserId)?;
    let caller = shared.caller(identity);
    let settings = settings(request.settings);
    shared
        .core
        .run(move |t| partition::change(t, &request.name, request.create, &settings, &caller))
        .await?;
    Ok(())
}

/// Deletes a partition.
pub(super) async fn delete_partition(
    shared: &Arc<Shared>,
    identity: &Identity,
    name: String,
) -> Result<(), Status> {
    administrator(shared, identity, ErrorCode::InvalidUserId)?;
    let caller = shared.caller(identity);
    shared
        .core
        .run(move |t| partition::delete(t, &name, &caller))
        .await?;
    Ok(())
}

/// Makes nodes.
pub(super) async fn create_nodes(
    shared: &Arc<Shared>,
    identity: &Identity,
    request: CreateNodesRequest,
) -> Result<(), Status> {
    administrator(shared, identity, ErrorCode::InvalidUserId)?;
    let caller = shared.caller(identity);
    let settings = settings(request.settings);
    shared
        .core
        .run(move |t| node_create::create(t, &settings, &caller))
        .await?;
    Ok(())
}

/// Deletes nodes.
pub(super) async fn delete_nodes(
    shared: &Arc<Shared>,
    identity: &Identity,
    nodes: String,
) -> Result<(), Status> {
    administrator(shared, identity, ErrorCode::InvalidUserId)?;
    let caller = shared.caller(identity);
    shared
        .core
        .run(move |t| node_create::delete(t, &nodes, &caller))
        .await?;
    Ok(())
}

/// Asks for reboots.
pub(super) async fn reboot_nodes(
    shared: &Arc<Shared>,
    identity: &Identity,
    request: RebootNodesRequest,
) -> Result<(), Status> {
    administrator(shared, identity, ErrorCode::AccessDenied)?;
    let caller = shared.caller(identity);
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
    shared
        .core
        .run(move |t| reboot::request(t, &request, &caller))
        .await?;
    Ok(())
}

/// Changes the limit of steps.
pub(super) async fn update_steps(
    shared: &Arc<Shared>,
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
    shared
        .core
        .run(move |t| step_limit::set(t, JobId(request.job_id), step, limit, &caller))
        .await?;
    Ok(())
}

/// Moves jobs to the front.
pub(super) async fn top_jobs(
    shared: &Arc<Shared>,
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
