//! The Priority service: what makes the priority of jobs, and what associations and QOS have used. Reads the published state only,
//! so that it answers while the database is away. Source: `sprio(1)`, `sshare(1)`, `scontrol(1)` show assoc_mgr,
//! `slurm.conf(5)` (PrivateData).

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

use sluice_controller::Cluster;
use sluice_controller::cluster::Job;
use sluice_controller::command::Caller;
use sluice_controller::policy::in_use::InUse;
use sluice_controller::priority::fairshare::is_classic;
use sluice_controller::priority::report::{self, FactorReader, QosRow, ShareRow};
use sluice_controller::priority::usage::Usage;
use sluice_model::error_code::ErrorCode;
use sluice_model::tres::{Tres, TresKind};
use sluice_proto::v1::priority_server::Priority;
use sluice_proto::v1::{
    AssociationShare, FactorsChunk, FactorsRow, ListFactorsRequest, ListSharesReply,
    ListSharesRequest, NamedUse, PriorityWeights, QosUse, TresCount, TresFactorRow, TresUsage,
    UsedNow, UsedSoFar,
};
use sluice_proto::{Wire, status_from};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::Shared;
use super::accounting::hidden;
use super::scheduler::may_see;
use crate::auth::identity_of;
use crate::core::now;

/// Rows of one message.
const CHUNK: usize = 1_000;

/// The service.
pub struct PriorityService {
    /// Shared parts.
    pub shared: Arc<Shared>,
}

type Chunks = Pin<Box<dyn Stream<Item = Result<FactorsChunk, Status>> + Send>>;

#[tonic::async_trait]
impl Priority for PriorityService {
    type ListFactorsStream = Chunks;

    async fn list_factors(
        &self,
        request: Request<ListFactorsRequest>,
    ) -> Result<Response<Chunks>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        let request = request.into_inner();
        let cluster = self.shared.core.snapshot();
        let (sender, receiver) = mpsc::channel(4);
        tokio::task::spawn_blocking(move || send_factors(&cluster, &request, &caller, &sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn list_shares(
        &self,
        request: Request<ListSharesRequest>,
    ) -> Result<Response<ListSharesReply>, Status> {
        let identity = identity_of(&request)?.clone();
        let cluster = self.shared.core.snapshot();
        if cluster.policy.is_empty() && !self.shared.store.is_enabled() {
            return Err(status_from(
                ErrorCode::Disabled,
                "Slurm accounting storage is disabled",
            ));
        }
        let private = ["usage", "users"]
            .iter()
            .any(|what| hidden(&self.shared, what, &identity));
        let only = private.then_some(identity.user_name);
        tokio::task::spawn_blocking(move || shares(&cluster, only.as_deref()))
            .await
            .map(Response::new)
            .map_err(|error| Status::internal(error.to_string()))
    }
}

fn send_factors(
    cluster: &Cluster,
    request: &ListFactorsRequest,
    caller: &Caller,
    sender: &mpsc::Sender<Result<FactorsChunk, Status>>,
) {
    let reader = FactorReader::new(cluster);
    let weights = reader.weights();
    let weights = PriorityWeights {
        age: weights.age,
        assoc: weights.assoc,
        fairshare: weights.fairshare,
        job_size: weights.size,
        partition: weights.partition,
        qos: weights.qos,
    };
    let ids: BTreeSet<u32> = request.job_ids.iter().copied().collect();
    let time = now();
    let wanted = |job: &Job| {
        let named = ids.is_empty()
            || ids.contains(&job.id.0)
            || ids.contains(&job.array_job_id().0)
            || job.het.is_some_and(|het| ids.contains(&het.leader.0));
        let owned = request.users.is_empty() || request.users.contains(&job.request.uid);
        named && owned && reader.shows(job, time) && may_see(cluster, caller, job)
    };
    let mut rows = Vec::new();
    for job in cluster.jobs.values().filter(|job| wanted(job)) {
        let found = reader.rows(job).into_iter().filter(|row| {
            request.partitions.is_empty() || request.partitions.contains(&row.partition)
        });
        rows.extend(found.map(|row| factors_row(job, row)));
        if rows.len() >= CHUNK {
            let chunk = FactorsChunk {
                jobs: std::mem::take(&mut rows),
                weights: Some(weights),
            };
            if sender.blocking_send(Ok(chunk)).is_err() {
                return;
            }
        }
    }
    // The last message is sent also when it is empty: it has the weights.
    let _ = sender.blocking_send(Ok(FactorsChunk {
        jobs: rows,
        weights: Some(weights),
    }));
}

fn factors_row(job: &Job, row: report::FactorRow) -> FactorsRow {
    let factors = row.factors;
    FactorsRow {
        job_id: job.id.0,
        het_job_id: job.het.map(|het| het.leader.0),
        het_job_offset: job.het.map(|het| het.offset),
        partition: row.partition,
        user: job.user_name.clone(),
        account: job.account.clone(),
        qos: job.qos.clone(),
        submit_time: job.submit_time.0,
        nice: i64::from(job.request.nice),
        site: factors.site,
        direct: row.direct.is_some(),
        priority: row.sum,
        age: factors.age,
        assoc: factors.assoc,
        fairshare: factors.fairshare,
        job_size: factors.size,
        partition_factor: factors.partition,
        qos_factor: factors.qos,
        tres: row
            .tres
            .into_iter()
            .map(|one| TresFactorRow {
                name: one.kind.to_string(),
                weight: one.weight,
                factor: one.factor,
            })
            .collect(),
    }
}

/// Everything; or, where usage is private, accounts and what belongs to the user `only`.
fn shares(cluster: &Cluster, only: Option<&str>) -> ListSharesReply {
    let shown = |user: &str| user.is_empty() || only.is_none_or(|only| only == user);
    let shares = report::shares(cluster, now());
    ListSharesReply {
        associations: shares
            .associations
            .into_iter()
            .filter(|row| shown(&row.record.user))
            .map(share)
            .collect(),
        qos: shares
            .qos
            .into_iter()
            .map(|row| qos_use(row, only))
            .collect(),
        users: cluster
            .policy
            .records()
            .users
            .values()
            .filter(|user| shown(&user.name))
            .map(|user| (**user).clone().into_wire())
            .collect(),
        tres: cluster
            .config
            .accounting
            .tres
            .iter()
            .map(TresKind::to_string)
            .collect(),
        fair_tree: !is_classic(&cluster.config.priority),
    }
}

fn share(row: ShareRow) -> AssociationShare {
    AssociationShare {
        association: Some((*row.record).clone().into_wire()),
        level_shares: row.level_shares,
        norm_shares: row.standing.norm_shares,
        norm_usage: row.standing.norm_usage,
        effective_usage: row.standing.effective_usage,
        level_fs: row.standing.level_fs,
        factor: row.standing.factor,
        used: Some(used_so_far(&row.usage)),
        now: Some(used_now(&row.in_use)),
    }
}

fn qos_use(row: QosRow, only: Option<&str>) -> QosUse {
    let named = |(name, one): (String, InUse)| NamedUse {
        now: Some(used_now(&one)),
        name,
    };
    QosUse {
        qos: Some((*row.record).clone().into_wire()),
        used: Some(used_so_far(&row.usage)),
        now: Some(used_now(&row.in_use)),
        accounts: row.accounts.into_iter().map(named).collect(),
        users: row
            .users
            .into_iter()
            .filter(|(user, _)| only.is_none_or(|only| only == user))
            .map(named)
            .collect(),
    }
}

fn used_so_far(usage: &Usage) -> UsedSoFar {
    UsedSoFar {
        raw: usage.raw,
        wall_secs: usage.wall,
        tres: usage
            .tres
            .iter()
            .map(|(kind, seconds)| TresUsage {
                name: kind.to_string(),
                seconds: *seconds,
            })
            .collect(),
    }
}

fn counts(tres: &Tres) -> Vec<TresCount> {
    tres.iter()
        .map(|(kind, count)| TresCount {
            name: kind.to_string(),
            count,
        })
        .collect()
}

fn used_now(one: &InUse) -> UsedNow {
    UsedNow {
        running: one.running,
        accruing: one.accruing,
        submitted: one.submitted,
        tres: counts(&one.tres),
        run_secs: one
            .run_secs
            .iter()
            .map(|(kind, count)| TresCount {
                name: kind.to_string(),
                count: *count,
            })
            .collect(),
    }
}
