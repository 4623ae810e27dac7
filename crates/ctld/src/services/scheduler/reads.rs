//! Reads: everything from the last published snapshot, in chunks where it may be long. Never touches the writer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sluice_accounting::FeedState;
use sluice_controller::Cluster;
use sluice_controller::cluster::{HetMembership, Job, Node};
use sluice_controller::command::Caller;
use sluice_controller::view;
use sluice_model::error_code::ErrorCode;
use sluice_model::hostlist::name_order;
use sluice_model::ids::JobId;
use sluice_model::state::{JobStateError, JobStateSelector};
use sluice_proto::status_from;
use sluice_proto::v1::{
    AccountingHealth, GetBatchScriptReply, JobsChunk, ListJobsRequest, ListNodesReply,
    ListPartitionsReply, ListStepsReply, PingReply,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::super::Shared;
use super::{Boxed, no_such_job};
use crate::core::now;

/// Jobs of one message.
const CHUNK: usize = 1_000;

/// What the controller says about itself.
pub(super) fn ping(shared: &Shared) -> PingReply {
    let cluster = shared.core.snapshot();
    let accounting = shared.feed.as_ref().map(|status| {
        let status = status.borrow();
        AccountingHealth {
            connected: status.state == FeedState::Connected,
            text: status.last_error.clone().unwrap_or_default(),
            backlog: status.lag(),
        }
    });
    PingReply {
        hostname: shared.hostname.clone(),
        mode: "primary".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        boot_time: shared.started.0,
        cluster_name: cluster.config.cluster_name.clone(),
        accounting,
        pid: std::process::id(),
        time: now().0,
    }
}

/// PrivateData=jobs hides other users' jobs from those without rights.
pub(in crate::services) fn may_see(cluster: &Cluster, caller: &Caller, job: &Job) -> bool {
    let private = cluster
        .config
        .auth
        .private_data
        .iter()
        .any(|what| what.eq_ignore_ascii_case("jobs"));
    !private || caller.may_change_job(job)
}

fn wanted(
    cluster: &Cluster,
    job: &Job,
    request: &ListJobsRequest,
    ids: &BTreeSet<JobId>,
    states: &[JobStateSelector],
    caller: &Caller,
) -> bool {
    let id_fits = ids.is_empty()
        || ids.contains(&job.id)
        || ids.contains(&job.array_job_id())
        || job.het.is_some_and(|het| ids.contains(&het.leader));
    let user_fits = request.users.is_empty() || request.users.contains(&job.request.uid);
    let partition_fits = request.partitions.is_empty()
        || request.partitions.contains(&job.partition)
        || job.state.is_pending()
            && job
                .request
                .partitions
                .iter()
                .any(|name| request.partitions.contains(name));
    let finished_fits = request.include_finished.unwrap_or(true)
        || !job.state.is_finished()
        || job.state.is_completing();
    let state_fits = states.is_empty() || states.iter().any(|state| state.matches(job.state));
    id_fits
        && user_fits
        && partition_fits
        && finished_fits
        && state_fits
        && may_see(cluster, caller, job)
}

/// The states asked for.
fn states_of(request: &ListJobsRequest) -> Result<Vec<JobStateSelector>, Status> {
    let states = request.states.iter().map(|name| name.parse());
    states
        .collect::<Result<_, JobStateError>>()
        .map_err(|error| Status::invalid_argument(error.to_string()))
}

/// One unknown id is an error, an unknown id in a list is left out (squeue(1), client reference).
pub(super) fn check_ids(shared: &Shared, request: &ListJobsRequest) -> Result<(), Status> {
    let [id] = request.job_ids.as_slice() else {
        return Ok(());
    };
    let cluster = shared.core.snapshot();
    if cluster.array_members(JobId(*id)).is_empty() {
        Err(no_such_job())
    } else {
        Ok(())
    }
}

/// Jobs in chunks. They are collected on a blocking thread, so that a long list does not hold up other calls.
pub(super) fn list_jobs(
    shared: &Arc<Shared>,
    request: ListJobsRequest,
    caller: &Caller,
) -> Result<Boxed<JobsChunk>, Status> {
    let states = states_of(&request)?;
    let (sender, receiver) = mpsc::channel(4);
    let shared = Arc::clone(shared);
    let caller = caller.clone();
    tokio::task::spawn_blocking(move || {
        let cluster = shared.core.snapshot();
        let last = shared.statistics.last_time.load(Ordering::Relaxed);
        let time = now();
        let empty = || JobsChunk {
            jobs: Vec::new(),
            time: time.0,
            last_backfill: (last > 0).then_some(last),
        };
        let ids: BTreeSet<JobId> = request.job_ids.iter().map(|id| JobId(*id)).collect();
        let candidates: Box<dyn Iterator<Item = &Arc<Job>>> = if ids.is_empty() {
            Box::new(cluster.jobs.values())
        } else {
            let mut members: Vec<JobId> = ids
                .iter()
                .flat_map(|id| cluster.array_members(*id))
                .collect();
            members.extend(
                ids.iter()
                    .copied()
                    .filter(|id| cluster.jobs.contains_key(id)),
            );
            // The leader of a heterogeneous job brings its components.
            members.extend(
                ids.iter()
                    .filter_map(|id| cluster.job(*id)?.het)
                    .filter(|het| het.offset == 0)
                    .flat_map(HetMembership::members),
            );
            members.sort_unstable();
            members.dedup();
            Box::new(members.into_iter().filter_map(|id| cluster.jobs.get(&id)))
        };
        let chosen: Vec<&Arc<Job>> = candidates
            .filter(|job| wanted(&cluster, job, &request, &ids, &states, &caller))
            .collect();
        if chosen.is_empty() {
            let _ = sender.blocking_send(Ok(empty()));
            return;
        }
        for part in chosen.chunks(CHUNK) {
            let mut chunk = empty();
            chunk.jobs = shared
                .encoded_jobs
                .encode(&cluster, part, request.brief, time);
            if sender.blocking_send(Ok(chunk)).is_err() {
                return;
            }
        }
    });
    Ok(Box::pin(ReceiverStream::new(receiver)))
}

/// Steps that run.
pub(super) fn list_steps(shared: &Shared, job_id: Option<u32>, caller: &Caller) -> ListStepsReply {
    let cluster = shared.core.snapshot();
    let ids: Vec<JobId> = match job_id {
        Some(id) => cluster.array_members(JobId(id)),
        None => cluster.holding.iter().copied().collect(),
    };
    let mut ids = ids;
    ids.extend(job_id.map(JobId).filter(|id| cluster.jobs.contains_key(id)));
    ids.sort_unstable();
    ids.dedup();
    let steps = ids
        .iter()
        .filter_map(|id| cluster.job(*id))
        .filter(|job| may_see(&cluster, caller, job))
        .flat_map(|job| job.steps.values().map(move |step| (job, step)))
        .filter(|(_, step)| step.end_time.is_none())
        .map(|(job, step)| view::step_info(job, step).into())
        .collect();
    ListStepsReply {
        steps,
        time: now().0,
    }
}

/// Nodes.
pub(super) fn list_nodes(shared: &Shared, names: &[String]) -> ListNodesReply {
    let cluster = shared.core.snapshot();
    let user_name = |uid: u32| shared.user_name(uid);
    let mut chosen: Vec<_> = cluster
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| {
            node.configured && (names.is_empty() || names.contains(&node.config.name))
        })
        .collect();
    // Nodes made by hand stand behind the others; listed they are where their names put them.
    let order = |(_, a): &(usize, &Arc<Node>), (_, b): &(usize, &Arc<Node>)| {
        name_order(&a.config.name, &b.config.name)
    };
    if !chosen.is_sorted_by(|a, b| order(a, b).is_le()) {
        chosen.sort_by(order);
    }
    let nodes = chosen
        .into_iter()
        .map(|(at, node)| {
            view::node_info(
                &cluster,
                sluice_controller::cluster::NodeIndex(at as u32),
                node,
                &user_name,
            )
            .into()
        })
        .collect();
    ListNodesReply {
        nodes,
        time: now().0,
    }
}

/// Partitions.
pub(super) fn list_partitions(shared: &Shared, names: &[String]) -> ListPartitionsReply {
    let cluster = shared.core.snapshot();
    let partitions = cluster
        .partitions
        .iter()
        .filter(|partition| names.is_empty() || names.contains(&partition.config.name))
        .map(|partition| view::partition_info(&cluster, partition).into())
        .collect();
    ListPartitionsReply {
        partitions,
        time: now().0,
    }
}

/// A job's script, for its owner, coordinators of its account and operators.
pub(super) fn batch_script(
    shared: &Shared,
    id: JobId,
    caller: &Caller,
) -> Result<GetBatchScriptReply, Status> {
    let cluster = shared.core.snapshot();
    let job = cluster.job(id).ok_or_else(no_such_job)?;
    if !caller.may_change_job(job) {
        return Err(status_from(ErrorCode::AccessDenied, ""));
    }
    let blob = job.script.and_then(|id| cluster.blobs.get(&id));
    let script = blob
        .map(|blob| (*blob.bytes).clone())
        .ok_or_else(|| status_from(ErrorCode::BatchOnly, ""))?;
    Ok(GetBatchScriptReply { script })
}
