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
mod listing;
mod query;
pub mod roles;

use std::pin::Pin;
use std::sync::Arc;

use sluice_accounting::{AccountingError, AccountingStore};
use sluice_model::error_code::ErrorCode;
use sluice_proto::status_from;
use sluice_proto::v1::accounting_server::Accounting;
use sluice_proto::v1::{
    AddAccountsRequest, AddClusterRequest, AddReply, AddUsersRequest, JobRecordsChunk,
    ListAccountsReply, ListAccountsRequest, ListAssociationsReply, ListAssociationsRequest,
    ListClustersReply, ListClustersRequest, ListQosReply, ListQosRequest, ListUsersReply,
    ListUsersRequest, QueryJobsRequest,
};
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

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

    fn require_operator(&self, identity: &Identity) -> Result<(), Status> {
        if self.shared.roles.is_privileged(identity) {
            Ok(())
        } else {
            Err(status_from(ErrorCode::AccessDenied, ONLY_OPERATORS))
        }
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

/// Whether PrivateData names `what` and the caller is one it hides things from.
fn hidden(shared: &Shared, what: &str, identity: &Identity) -> bool {
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
        AccountingError::InUse { .. } => Status::failed_precondition(error.to_string()),
    }
}

/// The store keeps what was removed for old records, and does not read it back.
fn refuse_deleted(with_deleted: bool) -> Result<(), Status> {
    if with_deleted {
        Err(status_from(
            ErrorCode::NotSupported,
            "WithDeleted: what was removed cannot be listed; leave the option out",
        ))
    } else {
        Ok(())
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
        refuse_deleted(request.with_deleted)?;
        let clusters = store
            .clusters()
            .await
            .map_err(|error| store_status(&error))?;
        Ok(Response::new(listing::clusters(clusters, &request.names)))
    }

    async fn list_accounts(
        &self,
        request: Request<ListAccountsRequest>,
    ) -> Result<Response<ListAccountsReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        let request = request.into_inner();
        refuse_deleted(request.with_deleted)?;
        let viewer =
            hidden(&self.shared, "accounts", &identity).then_some(identity.user_name.as_str());
        let accounts = store
            .accounts()
            .await
            .map_err(|error| store_status(&error))?;
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
        refuse_deleted(request.with_deleted)?;
        let viewer =
            hidden(&self.shared, "users", &identity).then_some(identity.user_name.as_str());
        let users = store.users().await.map_err(|error| store_status(&error))?;
        Ok(Response::new(listing::users(users, &request.names, viewer)))
    }

    async fn list_associations(
        &self,
        request: Request<ListAssociationsRequest>,
    ) -> Result<Response<ListAssociationsReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        let request = request.into_inner();
        refuse_deleted(request.with_deleted)?;
        let rows = store
            .associations(None)
            .await
            .map_err(|error| store_status(&error))?;
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
        refuse_deleted(request.with_deleted)?;
        let qos = store.qos().await.map_err(|error| store_status(&error))?;
        Ok(Response::new(listing::qos(qos, &request.names)))
    }

    async fn add_cluster(
        &self,
        request: Request<AddClusterRequest>,
    ) -> Result<Response<AddReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        self.require_administrator(&identity, "add clusters")?;
        adding::add_cluster(store, &identity, request.into_inner())
            .await
            .map(Response::new)
    }

    async fn add_accounts(
        &self,
        request: Request<AddAccountsRequest>,
    ) -> Result<Response<AddReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        self.require_operator(&identity)?;
        adding::add_accounts(store, &identity, request.into_inner())
            .await
            .map(Response::new)
    }

    async fn add_users(
        &self,
        request: Request<AddUsersRequest>,
    ) -> Result<Response<AddReply>, Status> {
        let (identity, store) = self.begin(&request)?;
        self.require_operator(&identity)?;
        if request.get_ref().admin_level.is_some() {
            self.require_administrator(&identity, "set AdminLevel")?;
        }
        // A first account becomes the default one, so rights are not all that a new user brings.
        let changes = !request.get_ref().dry_run;
        let reply = adding::add_users(store, &identity, request.into_inner()).await?;
        if changes && let Err(error) = roles::load(&self.shared).await {
            tracing::warn!("rights of users could not be read again: {error}");
        }
        Ok(Response::new(reply))
    }
}

#[cfg(test)]
mod tests;
