//! QueryJobs: sacct's question to the database, and the answer in chunks.
//!
//! A chunk has at most 1000 jobs and about a megabyte, so that neither end holds a large message. Scripts and environments are
//! sent only to the job's owner and to operators; for others they are absent, as if not stored.
//! Source: `sacct(1)`; `slurm.conf(5)`, PrivateData.

use std::sync::Arc;

use prost::Message as _;
use sluice_accounting::{CountRange, JobQuery, JobWithSteps, SacctTimes, TimeWindow};
use sluice_model::accounting::JobRecord;
use sluice_model::ids::JobSelector;
use sluice_model::time::UnixSeconds;
use sluice_proto::Wire;
use sluice_proto::v1::{self, JobRecordsChunk, QueryJobsRequest};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::super::Shared;
use super::{Chunks, hidden, store_status};
use crate::auth::{Identity, Roles};
use crate::core::now;

/// Jobs of one message.
const CHUNK_JOBS: usize = 1_000;

/// Size from which a message is sent without waiting for more jobs.
const CHUNK_BYTES: usize = 1 << 20;

/// Which texts were asked for.
#[derive(Clone, Copy)]
struct Texts {
    script: bool,
    environment: bool,
}

/// Owner, coordinator of the account, or operator.
fn may_read(roles: &Roles, identity: &Identity, job: &JobRecord) -> bool {
    roles.may_act_on_job(identity, job.uid) || roles.coordinates(identity, &job.account)
}

/// Asks the database and begins to send.
pub(super) async fn query_jobs(
    shared: &Arc<Shared>,
    request: QueryJobsRequest,
    identity: Identity,
) -> Result<Chunks, Status> {
    let request = request
        .query
        .ok_or_else(|| Status::invalid_argument("the request has no query"))?;
    let texts = Texts {
        script: request.with_script,
        environment: request.with_environment,
    };
    let own = shared.core.snapshot().config.cluster_name.clone();
    let named = !request.all_clusters && !request.clusters.is_empty();
    let mut query = convert(request, &own, now())?;
    if named {
        let known = shared
            .store
            .clusters()
            .await
            .map_err(|error| store_status(&error))?;
        if let Some(name) = query
            .clusters
            .iter()
            .find(|name| known.iter().all(|cluster| cluster.name != **name))
        {
            return Err(Status::not_found(format!(
                "No cluster '{name}' known by database."
            )));
        }
    }
    let only_own = hidden(shared, "jobs", &identity);
    if only_own && query.users.is_empty() && query.uids.is_empty() {
        query.uids = vec![identity.uid];
    }
    let mut jobs = shared
        .store
        .jobs(&query)
        .await
        .map_err(|error| store_status(&error))?;
    if only_own {
        jobs.retain(|found| may_read(&shared.roles, &identity, &found.job));
    }
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(send(Arc::clone(shared), identity, jobs, texts, sender));
    Ok(Box::pin(ReceiverStream::new(receiver)))
}

async fn send(
    shared: Arc<Shared>,
    identity: Identity,
    jobs: Vec<JobWithSteps>,
    texts: Texts,
    sender: mpsc::Sender<Result<JobRecordsChunk, Status>>,
) {
    let mut chunk = Vec::new();
    let mut bytes = 0;
    for JobWithSteps { mut job, steps } in jobs {
        let may_read = may_read(&shared.roles, &identity, &job);
        if (texts.script || texts.environment) && may_read {
            match shared.store.job_texts(&job.cluster, job.job_id).await {
                Ok((script, environment)) => {
                    job.script = script.filter(|_| texts.script);
                    job.environment = environment.filter(|_| texts.environment);
                }
                Err(error) => {
                    let _ = sender.send(Err(store_status(&error))).await;
                    return;
                }
            }
        }
        let message = v1::JobWithSteps {
            job: Some(job.into()),
            steps: steps.into_wire(),
        };
        bytes += message.encoded_len();
        chunk.push(message);
        if chunk.len() >= CHUNK_JOBS || bytes >= CHUNK_BYTES {
            bytes = 0;
            if sender
                .send(Ok(JobRecordsChunk {
                    jobs: std::mem::take(&mut chunk),
                }))
                .await
                .is_err()
            {
                return;
            }
        }
    }
    if !chunk.is_empty() {
        let _ = sender.send(Ok(JobRecordsChunk { jobs: chunk })).await;
    }
}

fn range(range: Option<v1::CountRange>) -> Option<CountRange> {
    range.map(|v1::CountRange { min, max }| CountRange { min, max })
}

/// The question as the database understands it. `own` is the cluster meant when none is named.
fn convert(query: v1::JobQuery, own: &str, now: UnixSeconds) -> Result<JobQuery, Status> {
    let jobs: Vec<JobSelector> = query
        .jobs
        .iter()
        .map(|text| text.parse::<JobSelector>())
        .collect::<Result<_, _>>()
        .map_err(|error| Status::invalid_argument(error.to_string()))?;
    let window = TimeWindow::sacct(SacctTimes {
        now,
        midnight: UnixSeconds(query.midnight),
        start: query.start.map(UnixSeconds),
        end: query.end.map(UnixSeconds),
        with_jobs: !jobs.is_empty(),
        with_states: !query.states.is_empty(),
    });
    // An empty list means every cluster to the database.
    let clusters = if query.all_clusters {
        Vec::new()
    } else if query.clusters.is_empty() {
        vec![own.to_owned()]
    } else {
        query
            .clusters
            .iter()
            .map(|name| name.to_lowercase())
            .collect()
    };
    Ok(JobQuery {
        clusters,
        jobs,
        states: query.states,
        users: query.users,
        uids: query.uids,
        gids: query.gids,
        accounts: query.accounts,
        partitions: query.partitions,
        qos: query.qos,
        wckeys: query.wckeys,
        names: query.names,
        reservations: query.reservations,
        nodes: query.nodes,
        cpus: range(query.cpus),
        node_count: range(query.node_count),
        time_limit_minutes: range(query.time_limit_minutes),
        associations: query.associations,
        reasons: query.reasons,
        constraints: query.constraints,
        flags: query.flags,
        duplicates: query.duplicates,
        allocations_only: query.allocations_only,
        ..JobQuery::new(window)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixSeconds = UnixSeconds(1_000_000);

    fn asked(query: v1::JobQuery) -> JobQuery {
        convert(query, "oracle", NOW).expect("a query")
    }

    /// sacct(1): without times the day so far; with -j everything; with -s this moment.
    #[test]
    fn the_window_depends_on_what_is_named() {
        let base = v1::JobQuery {
            midnight: 990_000,
            ..Default::default()
        };
        let window = asked(base.clone()).window;
        assert_eq!((window.start.0, window.end.0), (990_000, 1_000_000));
        let window = asked(v1::JobQuery {
            jobs: vec!["5_3".to_owned()],
            ..base.clone()
        })
        .window;
        assert_eq!((window.start.0, window.end.0), (0, 1_000_000));
        let window = asked(v1::JobQuery {
            states: vec![1],
            ..base
        })
        .window;
        assert_eq!((window.start.0, window.end.0), (1_000_000, 1_000_000));
    }

    /// No cluster named = this one; `--clusters all` = no restriction.
    #[test]
    fn clusters_default_to_the_own_one() {
        assert_eq!(asked(v1::JobQuery::default()).clusters, ["oracle"]);
        let all = v1::JobQuery {
            all_clusters: true,
            clusters: vec!["x".to_owned()],
            ..Default::default()
        };
        assert!(asked(all).clusters.is_empty());
        let named = v1::JobQuery {
            clusters: vec!["Other".to_owned()],
            ..Default::default()
        };
        assert_eq!(asked(named).clusters, ["other"]);
    }

    #[test]
    fn a_bad_job_id_is_refused() {
        let query = v1::JobQuery {
            jobs: vec!["5x".to_owned()],
            ..Default::default()
        };
        let status = convert(query, "oracle", NOW).expect_err("refused");
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
        assert!(status.message().contains("5x"), "{}", status.message());
    }
}
