//! From outcomes of commands on several jobs to messages, and `scancel`'s filters.

use std::collections::BTreeSet;
use std::sync::Arc;

use sluice_controller::cluster::Job;
use sluice_controller::command::cancel::{SignalRequest, signal_targets};
use sluice_controller::command::{Caller, TargetOutcome};
use sluice_model::hostlist::parse_hostlist;
use sluice_proto::v1::{JobFilter, JobResult, SignalJobsRequest};
use tonic::Status;

use super::super::Shared;

/// One message per outcome.
pub(super) fn results(outcomes: Vec<TargetOutcome>) -> Vec<JobResult> {
    outcomes
        .into_iter()
        .map(|outcome| {
            let (error_code, message) = match &outcome.rejection {
                Some(rejection) => (u32::from(rejection.code.number()), rejection.to_string()),
                None => (0, String::new()),
            };
            JobResult {
                target: outcome.target,
                job_id: outcome.job.map_or(0, |id| id.0),
                step_id: None,
                error_code,
                message,
            }
        })
        .collect()
}

/// Signals or ends what the request names, or every job its filter lets pass.
pub(super) async fn signal(
    shared: &Arc<Shared>,
    request: SignalJobsRequest,
    caller: Caller,
) -> Result<Vec<JobResult>, Status> {
    let how = SignalRequest {
        signal: request.signal,
        batch_only: request.batch_only,
        full: request.full,
        cron: request.cron,
    };
    let filter = request
        .filter
        .filter(|filter| *filter != JobFilter::default());
    let nodes: BTreeSet<String> = match filter
        .as_ref()
        .and_then(|filter| filter.nodelist.as_deref())
    {
        Some(text) => parse_hostlist(text)
            .map_err(|error| Status::invalid_argument(error.to_string()))?
            .into_iter()
            .collect(),
        None => BTreeSet::new(),
    };
    let targets = request.targets;
    if targets.is_empty() && filter.is_none() {
        return Err(Status::invalid_argument("no job and no filter is named"));
    }
    let outcomes = shared
        .core
        .run(move |t| {
            let targets = match &filter {
                None => targets,
                Some(filter) => {
                    let passes =
                        |job: &Arc<Job>| passes(job, filter, &nodes) && !job.state.is_finished();
                    if targets.is_empty() {
                        t.cluster
                            .jobs
                            .values()
                            .filter(|job| passes(job))
                            .map(|job| name_of(job))
                            .collect()
                    } else {
                        // A named job that the filter does not let pass is left alone, without an error.
                        targets
                            .into_iter()
                            .filter(|text| {
                                sluice_controller::command::selector::resolve(t.cluster, text)
                                    .map_or(true, |found| {
                                        found
                                            .iter()
                                            .any(|one| t.cluster.job(one.job).is_some_and(passes))
                                    })
                            })
                            .collect::<Vec<_>>()
                    }
                }
            };
            Ok(signal_targets(t, &targets, how, &caller))
        })
        .await?;
    Ok(results(outcomes))
}

/// A job as its user writes it.
fn name_of(job: &Job) -> String {
    match (&job.array, job.array_task()) {
        (Some(array), Some(task)) => format!("{}_{task}", array.array_job_id),
        (Some(array), None) => format!("{}_[{}]", array.array_job_id, array.pending.tasks),
        _ => job.id.to_string(),
    }
}

fn passes(job: &Job, filter: &JobFilter, nodes: &BTreeSet<String>) -> bool {
    let same = |wanted: &Option<String>, value: Option<&str>| {
        wanted.as_deref().is_none_or(|wanted| value == Some(wanted))
    };
    let partition = filter.partition.as_deref().is_none_or(|wanted| {
        if job.state.is_pending() {
            job.request.partitions.iter().any(|name| name == wanted)
        } else {
            job.partition == wanted
        }
    });
    let states =
        filter.states.is_empty() || filter.states.contains(&u32::from(job.state.base.number()));
    let on_nodes = nodes.is_empty()
        || job
            .allocation
            .as_ref()
            .is_some_and(|a| a.nodes.iter().any(|part| nodes.contains(&part.name)));
    filter.uid.is_none_or(|uid| uid == job.request.uid)
        && same(&filter.name, job.request.name.as_deref())
        && partition
        && same(&filter.account, Some(&job.account))
        && same(&filter.qos, Some(&job.qos))
        && same(&filter.reservation, job.request.reservation.as_deref())
        && same(&filter.wckey, job.request.wckey.as_deref())
        && states
        && on_nodes
}
