//! A submission's way in: who it runs as, script and environment into blobs, limits on sizes, `--test-only`.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use sluice_controller::cluster::BlobId;
use sluice_controller::cluster::blob::pack_environment;
use sluice_controller::command::het;
use sluice_controller::command::submit::{Submission, prepare, submit as submit_command};
use sluice_controller::event::{self, Event};
use sluice_controller::schedule::{self, PlanOptions};
use sluice_model::error_code::ErrorCode;
use sluice_model::hostlist::collapse_hostlist;
use sluice_model::job::JobDescription;
use sluice_proto::status_from;
use sluice_proto::v1::{SubmitReply, SubmitRequest, SubmitTest};
use tonic::Status;

use super::super::Shared;
use super::required;
use crate::auth::Identity;
use crate::core::handle::rejection_status;
use crate::core::now;

/// Largest environment, in bytes: what Linux gives to a new program at most.
const ENVIRONMENT_BYTES_MAX: usize = 6 << 20;

/// Longest submission key, in bytes; ours have fewer than 40.
const KEY_BYTES_MAX: usize = 256;

/// Components of a heterogeneous job, as in Slurm.
const COMPONENTS_MAX: usize = 128;

/// The code's own text with a hint.
fn refusal(code: ErrorCode, hint: &str) -> Status {
    status_from(code, format!("{}\n\nhint: {hint}", code.message()))
}

/// Limits of what no command of ours sends and what the engine does not look at.
fn check_sizes(description: &JobDescription) -> Result<(), Status> {
    let environment: usize = description
        .environment
        .iter()
        .map(|one| one.len() + 1)
        .sum();
    let too_long = [
        ("environment", environment, ENVIRONMENT_BYTES_MAX),
        (
            "submission key",
            description.submission_key.len(),
            KEY_BYTES_MAX,
        ),
    ]
    .into_iter()
    .find(|(_, bytes, most)| bytes > most);
    match too_long {
        None => Ok(()),
        Some((what, bytes, most)) => Err(refusal(
            ErrorCode::PathnameTooLong,
            &format!("the {what} has {bytes} bytes, the limit is {most}"),
        )),
    }
}

fn blob(bytes: Vec<u8>) -> (BlobId, Arc<Vec<u8>>) {
    (BlobId(Sha256::digest(&bytes).into()), Arc::new(bytes))
}

/// Takes a submission.
pub(super) async fn submit(
    shared: &Arc<Shared>,
    identity: Identity,
    request: SubmitRequest,
) -> Result<SubmitReply, Status> {
    let mut parts = Vec::with_capacity(1 + request.components.len());
    let leader = required(request.job, "job")?;
    if request.components.len() >= COMPONENTS_MAX {
        return Err(refusal(
            ErrorCode::BadTaskCount,
            &format!("a heterogeneous job has {COMPONENTS_MAX} components at most"),
        ));
    }
    for (offset, part) in std::iter::once(leader)
        .chain(request.components)
        .enumerate()
    {
        let mut description = JobDescription::try_from(part)?;
        // Only a crontab makes jobs that come back.
        description.cron_spec = None;
        // The script is the leader's; the others are batch jobs without one.
        let batch = description.batch;
        description.batch &= offset == 0;
        let mut submission = make(shared, &identity, description).await?;
        submission.description.batch = batch;
        parts.push(submission);
    }
    if request.test_only {
        let cluster = shared.core.snapshot();
        return tokio::task::spawn_blocking(move || test(&cluster, &parts))
            .await
            .map_err(|error| Status::internal(error.to_string()))?;
    }
    let submitted = shared
        .core
        .run(
            move |transaction| match <[Submission; 1]>::try_from(parts) {
                Ok([submission]) => submit_command(transaction, submission),
                Err(parts) => het::submit(transaction, parts),
            },
        )
        .await?;
    Ok(SubmitReply {
        job_id: submitted.job_id.0,
        existing: submitted.existing,
        warnings: submitted.warnings,
        user_message: None,
        test: None,
    })
}

/// Finds out who the job runs as, and takes script and environment out of the request.
///
/// # Errors
/// A missing or too large script, an unknown user, another user's name without the right to it.
pub(in crate::services) async fn make(
    shared: &Arc<Shared>,
    identity: &Identity,
    mut description: JobDescription,
) -> Result<Submission, Status> {
    let cluster = shared.core.snapshot();
    let max_script = cluster.config.scheduling.parameters.max_script_size_bytes;
    let script = description.script.take();
    if script
        .as_ref()
        .is_some_and(|text| text.len() as u64 > max_script)
    {
        return Err(refusal(
            ErrorCode::PathnameTooLong,
            &format!("the batch script is larger than max_script_size ({max_script} bytes)"),
        ));
    }
    if description.batch && script.as_ref().is_none_or(Vec::is_empty) {
        return Err(status_from(ErrorCode::ScriptMissing, ""));
    }
    check_sizes(&description)?;
    super::super::accounting::roles::known(shared).await;
    let caller = shared.caller(identity);
    // Only root and SlurmUser may name another user; everybody else is who he is.
    let names_other = description.uid != identity.uid && description.uid != u32::MAX;
    let uid = if names_other {
        description.uid
    } else {
        identity.uid
    };
    if !shared.roles.may_act_as(identity, uid) {
        return Err(status_from(ErrorCode::AccessDenied, ""));
    }
    let user = shared
        .users
        .find_uid(uid)
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?
        .ok_or_else(|| {
            status_from(
                ErrorCode::InvalidUserId,
                format!("user id {uid} is not known on this host"),
            )
        })?;
    let groups = shared
        .users
        .find_groups(&user)
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    description.uid = uid;
    let gid_allowed = shared.roles.may_act_as(identity, 0)
        || groups.contains(&description.gid)
        || user.gid == description.gid;
    if !gid_allowed || description.gid == u32::MAX {
        description.gid = user.gid;
    }
    let gid = description.gid;
    let (group_name, group_names) = tokio::task::spawn_blocking(move || {
        let name = |gid: u32| {
            nix::unistd::Group::from_gid(nix::unistd::Gid::from_raw(gid))
                .ok()
                .flatten()
                .map(|group| group.name)
        };
        let own = name(gid).unwrap_or_else(|| gid.to_string());
        (own, groups.into_iter().filter_map(name).collect::<Vec<_>>())
    })
    .await
    .map_err(|error| Status::internal(error.to_string()))?;
    let environment = std::mem::take(&mut description.environment);
    Ok(Submission {
        script: script.map(blob),
        environment: (!environment.is_empty()).then(|| blob(pack_environment(&environment))),
        description,
        user_name: user.name,
        group_name,
        group_names,
        default_account: shared.default_accounts.read().get(&uid).cloned(),
        caller,
    })
}

/// `--test-only`: plans with the job, or all its components, in a copy of the state. Tells about the first; the CPUs are those of all.
fn test(cluster: &sluice_controller::Cluster, parts: &[Submission]) -> Result<SubmitReply, Status> {
    let time = now();
    let jobs = match parts {
        [submission] => prepare(cluster, submission, time).map(|job| vec![job]),
        parts => het::components(cluster, parts, time),
    }
    .map_err(|rejection| rejection_status(&rejection))?;
    let mut copy = cluster.clone();
    for job in &jobs {
        event::apply(
            &mut copy,
            &Event::JobSubmitted {
                job: Box::new(job.clone()),
            },
        );
    }
    let Some(job) = jobs.first() else {
        return Ok(SubmitReply::default());
    };
    let id = job.id;
    let plan = schedule::plan(&copy, time, PlanOptions::default());
    let ours = || {
        let is_ours = |id| jobs.iter().any(|job| job.id == id);
        plan.starts.iter().filter(move |start| is_ours(start.job))
    };
    let test = match plan.starts.iter().find(|start| start.job == id) {
        Some(start) => SubmitTest {
            start_time: time.0,
            nodes: collapse_hostlist(ours().flat_map(|start| start.allocation.node_names())),
            partition: start.partition.clone(),
            cpus: ours().map(|start| start.allocation.cpu_count()).sum(),
        },
        None => {
            let note = plan
                .notes
                .iter()
                .find(|(job, _)| *job == id)
                .map(|(_, note)| note);
            let info = sluice_controller::view::job_info(&copy, job, time);
            SubmitTest {
                start_time: note
                    .and_then(|n| n.expected_start)
                    .map_or(0, |start| start.0),
                nodes: note
                    .and_then(|n| n.planned_nodes.clone())
                    .unwrap_or_default(),
                partition: job.partition.clone(),
                cpus: info.num_cpus,
            }
        }
    };
    Ok(SubmitReply {
        job_id: id.0,
        existing: false,
        warnings: Vec::new(),
        user_message: None,
        test: Some(test),
    })
}
