//! The Accounting service: what sacct and sacctmgr ask of the database.
//!
//! Answers come from the database alone, never from the live state; what may be seen and changed is decided here, since the
//! database does not know who asks. Times are seconds since the epoch, wall limits minutes.
//!
//! The text of a refusal is the line that sacctmgr prints, so that the command only shows it: gRPC `ALREADY_EXISTS` and `NOT_FOUND`
//! for its own lines about what is there or missing, Slurm's error number for everything else.
//! Invariant: nothing is changed for a caller who is not an operator; clusters and rights need an administrator.
//! Source: `sacctmgr(1)`, `sacct(1)`, `slurm.conf(5)` (PrivateData).

mod adding;
mod changing;
mod listing;
mod query;
pub mod roles;

use std::pin::Pin;
use std::sync::Arc;

use sluice_accounting::{AccountingError, AccountingStore, EventQuery, TimeWindow};
use sluice_controller::command::policy;
use sluice_model::error_code::ErrorCode;
use sluice_model::time::UnixSeconds;
use sluice_proto::v1::accounting_server::Accounting;
use sluice_proto::v1::{
    AccountingEntity, AddAccountsRequest, AddClusterRequest, AddQosRequest, AddReply,
    AddResourceRequest, AddUsersRequest, ChangeReply, DeleteRequest, EventRecord, JobRecordsChunk,
    ListAccountsReply, ListAccountsRequest, ListAssociationsReply, ListAssociationsRequest,
    ListClustersReply, ListClustersRequest, ListEventsReply, ListEventsRequest, ListQosReply,
    ListQosRequest, ListResourcesReply, ListResourcesRequest, ListRunawayJobsReply,
    ListRunawayJobsRequest, ListTransactionsReply, ListTransactionsRequest, ListTresReply,
    ListTresRequest, ListUsersReply, ListUsersRequest, ListWckeysReply, ListWckeysRequest,
    ModifyRequest, QueryJobsRequest, SetCoordinatorsRequest,
};
use sluice_proto::{Wire, status_from};
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use self::changing::Rights;
use super::Shared;
use crate::auth::{Identity, identity_of};

/// The service.
pub struct AccountingService {
    /// Shared parts.
    pub shared: Arc<Shared>,
}

type Chunks = Pin<Box<dyn Stream<Item = Result<JobRecordsChunk, Status>> + Send>>;

/// What Slurm's commands print when there is no accounting.
const DISABLED: &str = "Slurm accounting storage is disabled";

/// What somebody without rights is told.
const DENIED: &str = "Access/permission denied";

/// The same where coordinators might.
const ONLY_OPERATORS: &str =
    "Access/permission denied (Only admins/operators/coordinators can add accounts)";

impl AccountingService {
    /// The caller and the database, when there is one.
    fn begin<T>(&self, request: &Request<T>) -> Result<(Identity, &AccountingStore), Status> {
        let identity = identity_of(request)?.clone();
        if !self.shared.store.is_enabled() {
            return Err(status_from(ErrorCode::Disabled, DISABLED));
        }
        Ok((identity, &self.shared.store))
    }

    /// Operators and administrators; others are told `words`.
    fn require_operator(&self, identity: &Identity, words: &str) -> Result<(), Status> {
        if self.shared.roles.is_privileged(identity) {
            Ok(())
        } else {
            Err(status_from(ErrorCode::AccessDenied, words))
        }
    }

    fn own_cluster(&self) -> String {
        self.shared.core.snapshot().config.cluster_name.clone()
    }

    fn rights(&self, identity: &Identity) -> Rights {
        if self.shared.roles.is_administrator(identity) {
            Rights::Administrator
        } else if self.shared.roles.is_privileged(identity) {
            Rights::Operator
        } else {
            Rights::User
        }
    }

    /// Rights, default accounts, associations and QOS are in force at once.
    async fn after_change(&self, changes: bool) {
        if changes && let Err(error) = roles::load(&self.shared).await {
            tracing::warn!("rights of users could not be read again: {error}");
        }
    }

    /// What was added is in force at once; it gives nobody rights.
    async fn after_addition(&self) {
        if let Err(error) = roles::load_policy(&self.shared).await {
            tracing::warn!("associations and QOS could not be read again: {error}");
        }
    }

    /// Usage of what was changed is set.
    async fn set_usage(&self, changed: UsageOf, value: f64) -> Result<(), Status> {
        let UsageOf { rows, qos: names } = changed;
        self.shared
            .core
            .run(move |transaction| {
                let tree = transaction.cluster.policy.tree();
                let qos = names
                    .iter()
                    .filter_map(|name| tree.qos_id(name))
                    .map(|id| (id, value))
                    .collect();
                policy::set_usage(transaction, rows, qos);
                Ok(())
            })
            .await?;
        Ok(())
    }

    fn require_administrator(&self, identity: &Identity, what: &str) -> Result<(), Status> {
        if self.shared.roles.is_administrator(identity) {
            Ok(())
        } else {
            let text = format!("Access/permission denied (Only admins can {what})");
            Err(status_from(ErrorCode::AccessDenied, text))
        }
    }
}

/// Whose usage a change sets on this cluster.
#[derive(Debug, PartialEq, Eq)]
struct UsageOf {
    /// Ids of associations.
    rows: Vec<u32>,
    /// Names of QOS.
    qos: Vec<String>,
}

impl UsageOf {
    /// Of QOS those that were named; of everything else its rows of the cluster `own`, whatever is named beside them.
    fn changed(entity: AccountingEntity, own: &str, reply: &ChangeReply) -> Self {
        if entity == AccountingEntity::Qos {
            return Self {
                rows: Vec::new(),
                qos: reply.names.clone(),
            };
        }
        let rows = reply.associations.iter().filter(|row| row.cluster == own);
        Self {
            rows: rows.map(|row| row.id).collect(),
            qos: Vec::new(),
        }
    }
}

/// A window with what is given; `None` = all times.
fn window(start: Option<i64>, end: Option<i64>) -> Option<TimeWindow> {
    if start.is_none() && end.is_none() {
        return None;
    }
    Some(TimeWindow {
        start: UnixSeconds(start.unwrap_or(0)),
        end: end.map_or_else(crate::core::now, UnixSeconds),
    })
}

/// Whether PrivateData names `what` and the caller is one it hides things from.
pub(super) fn hidden(shared: &Shared, what: &str, identity: &Identity) -> bool {
    let cluster = shared.core.snapshot();
    let private = cluster
        .config
        .auth
        .private_data
        .iter()
        .any(|item| item.eq_ignore_ascii_case(what));
    private && !shared.roles.is_privileged(identity)
}

/// What went wrong with the database, for a caller.
fn store_status(error: &AccountingError) -> Status {
    match error {
        AccountingError::Disabled => status_from(ErrorCode::Disabled, DISABLED),
        AccountingError::Unavailable { .. }
        | AccountingError::Busy { .. }
        | AccountingError::Full { .. }
        | AccountingError::Corrupt { .. }
        | AccountingError::Schema { .. }
        | AccountingError::Settings { .. }
        | AccountingError::Behind { .. } => {
            let text = format!("{}: {error}", ErrorCode::DbConnection.message());
            status_from(ErrorCode::DbConnection, text)
        }
        AccountingError::Statement { .. } | AccountingError::Value { .. } => {
            status_from(ErrorCode::Internal, error.to_string())
        }
        AccountingError::Exists { what } => {
            Status::already_exists(format!(" Already existing {what}"))
        }
        AccountingError::NotFound { .. } => Status::not_found(error.to_string()),
        AccountingError::Refused { text } => Status::failed_precondition(text.clone()),
    }
}

#[tonic::async_trait]
impl Accounting for AccountingService {
    type QueryJobsStream = Chunks;

    async fn query_jobs(
        &self,
        request: Request<QueryJobsRequest>,
    ) -> Result<Response<Chunks>, Status> {
        let (identity, _) = self.begin(&request)?;
        query::query_jobs(&self.shared, request.into_inner(), identity)
            .await
            .map(Response::new)
    }

    async fn list_clusters(
        &self,
        request: Request<ListClustersRequest>,
    ) -> Result<Response<ListClustersReply>, Status> {
        let (_, store) = self.begin(&request)?;
        let request = request.into_inner();
        let clusters = if request.with_deleted {
            store.all_clusters().await
        } else {
            store.clusters().await
        };
        let clusters = clusters.map_err(|error| store_status(&error))?;
        Ok(Response::new(listing::clusters(clusters, &request.names)))
    }

    async fn list_accounts(
        &self,
        request: Request<ListAccountsRequest>,
    ) -> Result<Response<ListAccountsReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        let request = request.into_inner();
        let viewer =
            hidden(&self.shared, "accounts", &identity).then_some(identity.user_name.as_str());
        let accounts = if request.with_deleted {
            store.all_accounts().await
        } else {
            store.accounts().await
        };
        let accounts = accounts.map_err(|error| store_status(&error))?;
        Ok(Response::new(listing::accounts(
            accounts,
            &request.names,
            viewer,
        )))
    }

    async fn list_users(
        &self,
        request: Request<ListUsersRequest>,
    ) -> Result<Response<ListUsersReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        let request = request.into_inner();
        let viewer =
            hidden(&self.shared, "users", &identity).then_some(identity.user_name.as_str());
        let users = if request.with_deleted {
            store.all_users().await
        } else {
            store.users().await
        };
        let users = users.map_err(|error| store_status(&error))?;
        Ok(Response::new(listing::users(users, &request.names, viewer)))
    }

    async fn list_associations(
        &self,
        request: Request<ListAssociationsRequest>,
    ) -> Result<Response<ListAssociationsReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        let request = request.into_inner();
        let rows = if request.with_deleted {
            store.all_associations().await
        } else {
            store.associations(None).await
        };
        let rows = rows.map_err(|error| store_status(&error))?;
        let viewer = if hidden(&self.shared, "users", &identity) {
            let accounts = store
                .accounts()
                .await
                .map_err(|error| store_status(&error))?;
            Some(listing::AssociationViewer::new(
                &identity.user_name,
                &accounts,
            ))
        } else {
            None
        };
        Ok(Response::new(listing::associations(
            &rows,
            &request,
            viewer.as_ref(),
        )))
    }

    async fn list_qos(
        &self,
        request: Request<ListQosRequest>,
    ) -> Result<Response<ListQosReply>, Status> {
        let (_, store) = self.begin(&request)?;
        let request = request.into_inner();
        let qos = if request.with_deleted {
            store.all_qos().await
        } else {
            store.qos().await
        };
        let qos = qos.map_err(|error| store_status(&error))?;
        Ok(Response::new(listing::qos(qos, &request.names)))
    }

    async fn add_cluster(
        &self,
        request: Request<AddClusterRequest>,
    ) -> Result<Response<AddReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        self.require_administrator(&identity, "add clusters")?;
        let reply = adding::add_cluster(store, &identity, request.into_inner()).await?;
        self.after_addition().await;
        Ok(Response::new(reply))
    }

    async fn add_accounts(
        &self,
        request: Request<AddAccountsRequest>,
    ) -> Result<Response<AddReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        if let Err(refusal) = self.require_operator(&identity, ONLY_OPERATORS) {
            let wanted = request.get_ref();
            let parent = std::slice::from_ref(&wanted.parent);
            changing::check_coordinator(store, &identity, parent, &wanted.clusters, refusal)
                .await?;
        }
        let reply = adding::add_accounts(store, &identity, request.into_inner()).await?;
        self.after_addition().await;
        Ok(Response::new(reply))
    }

    async fn add_users(
        &self,
        request: Request<AddUsersRequest>,
    ) -> Result<Response<AddReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        if let Err(refusal) = self.require_operator(&identity, ONLY_OPERATORS) {
            let wanted = request.get_ref();
            let mut accounts = wanted.accounts.clone();
            accounts.extend(Some(wanted.default_account.clone()).filter(|name| !name.is_empty()));
            changing::check_coordinator(store, &identity, &accounts, &wanted.clusters, refusal)
                .await?;
        }
        if request.get_ref().admin_level.is_some() {
            self.require_administrator(&identity, "set AdminLevel")?;
        }
        // A first account becomes the default one, so rights are not all that a new user brings.
        let changes = !request.get_ref().dry_run;
        let reply = adding::add_users(store, &identity, request.into_inner()).await?;
        self.after_change(changes).await;
        Ok(Response::new(reply))
    }

    async fn add_qos(
        &self,
        request: Request<AddQosRequest>,
    ) -> Result<Response<ChangeReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        self.require_operator(&identity, DENIED)?;
        let reply = changing::add_qos(store, &identity, request.into_inner()).await?;
        self.after_addition().await;
        Ok(Response::new(reply))
    }

    async fn add_resource(
        &self,
        request: Request<AddResourceRequest>,
    ) -> Result<Response<ChangeReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        self.require_operator(&identity, DENIED)?;
        let reply = changing::add_resource(store, &identity, request.into_inner()).await?;
        Ok(Response::new(reply))
    }

    async fn set_coordinators(
        &self,
        request: Request<SetCoordinatorsRequest>,
    ) -> Result<Response<ChangeReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        self.require_operator(&identity, DENIED)?;
        let changes = !request.get_ref().dry_run;
        let reply = changing::set_coordinators(store, &identity, request.into_inner()).await?;
        self.after_change(changes).await;
        Ok(Response::new(reply))
    }

    async fn modify(
        &self,
        request: Request<ModifyRequest>,
    ) -> Result<Response<ChangeReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        let changes = !request.get_ref().dry_run;
        let own = self.own_cluster();
        let rights = self.rights(&identity);
        let request = request.into_inner();
        let (entity, usage) = (request.entity(), changing::usage_set(&request));
        let reply = changing::modify(store, &identity, rights, &own, request).await?;
        self.after_change(changes).await;
        if let Some(value) = usage.filter(|_| changes) {
            let changed = UsageOf::changed(entity, &own, &reply);
            self.set_usage(changed, value).await?;
        }
        Ok(Response::new(reply))
    }

    async fn delete(
        &self,
        request: Request<DeleteRequest>,
    ) -> Result<Response<ChangeReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        let changes = !request.get_ref().dry_run;
        let rights = self.rights(&identity);
        let reply = changing::delete(store, &identity, rights, request.into_inner()).await?;
        self.after_change(changes).await;
        Ok(Response::new(reply))
    }

    async fn list_tres(
        &self,
        request: Request<ListTresRequest>,
    ) -> Result<Response<ListTresReply>, Status> {
        let (_, store) = self.begin(&request)?;
        let tres = store.tres().await.map_err(|error| store_status(&error))?;
        Ok(Response::new(ListTresReply {
            tres: tres.into_wire(),
        }))
    }

    async fn list_transactions(
        &self,
        request: Request<ListTransactionsRequest>,
    ) -> Result<Response<ListTransactionsReply>, Status> {
        let (_, store) = self.begin(&request)?;
        let request = request.into_inner();
        let found = store
            .transactions(window(request.start, request.end))
            .await
            .map_err(|error| store_status(&error))?;
        Ok(Response::new(ListTransactionsReply {
            transactions: found.into_wire(),
        }))
    }

    async fn list_events(
        &self,
        request: Request<ListEventsRequest>,
    ) -> Result<Response<ListEventsReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        if hidden(&self.shared, "events", &identity) {
            return Err(status_from(ErrorCode::AccessDenied, DENIED));
        }
        let request = request.into_inner();
        let query = EventQuery {
            clusters: request.clusters,
            nodes: request.nodes,
            window: window(request.start, request.end),
            open_only: request.open_only,
        };
        let events = store
            .node_events(&query)
            .await
            .map_err(|error| store_status(&error))?;
        let clusters = store
            .clusters()
            .await
            .map_err(|error| store_status(&error))?;
        let mut reply = ListEventsReply::default();
        for (cluster, event) in events {
            let user = match event.user.parse::<u32>() {
                Ok(uid) => {
                    let found = self.shared.users.find_uid(uid).await.ok().flatten();
                    let name = found.map_or_else(|| uid.to_string(), |user| user.name);
                    format!("{name}({uid})")
                }
                Err(_) => event.user,
            };
            let cluster_nodes = if event.node.is_empty() {
                let record = clusters.iter().find(|record| record.name == cluster);
                record
                    .map(|record| record.node_list.clone())
                    .unwrap_or_default()
            } else {
                String::new()
            };
            reply.events.push(EventRecord {
                cluster,
                node: event.node,
                time_start: event.time_start.0,
                time_end: event.time_end.map(|time| time.0),
                state: event.state,
                reason: event.reason,
                user,
                tres: event.tres,
                cluster_nodes,
            });
        }
        Ok(Response::new(reply))
    }

    async fn list_wckeys(
        &self,
        request: Request<ListWckeysRequest>,
    ) -> Result<Response<ListWckeysReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        let mut wckeys = store
            .wckeys(request.get_ref().with_deleted)
            .await
            .map_err(|error| store_status(&error))?;
        if hidden(&self.shared, "users", &identity) {
            wckeys.retain(|wckey| wckey.user == identity.user_name);
        }
        Ok(Response::new(ListWckeysReply {
            wckeys: wckeys.into_wire(),
        }))
    }

    async fn list_resources(
        &self,
        request: Request<ListResourcesRequest>,
    ) -> Result<Response<ListResourcesReply>, Status> {
        let (_, store) = self.begin(&request)?;
        let resources = store
            .resources(request.get_ref().with_deleted)
            .await
            .map_err(|error| store_status(&error))?;
        Ok(Response::new(ListResourcesReply {
            resources: resources.into_wire(),
        }))
    }

    async fn list_runaway_jobs(
        &self,
        request: Request<ListRunawayJobsRequest>,
    ) -> Result<Response<ListRunawayJobsReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        self.require_operator(&identity, DENIED)?;
        let request = request.into_inner();
        let own = self.own_cluster();
        let mut jobs = store
            .unended_jobs(&own)
            .await
            .map_err(|error| store_status(&error))?;
        // Taken after the question: what has begun since is known here.
        let cluster = self.shared.core.snapshot();
        // A job that the controller has, in whatever state, gets its end from the feed.
        jobs.retain(|job| cluster.job(job.job_id).is_none());
        drop(cluster);
        if request.fix && !jobs.is_empty() {
            store
                .end_lost_jobs(&adding::change(&identity), &own, &jobs, request.failed)
                .await
                .map_err(|error| store_status(&error))?;
        }
        Ok(Response::new(ListRunawayJobsReply {
            jobs: jobs.into_wire(),
        }))
    }
}

#[cfg(test)]
mod tests;
