//! The Admin service: configuration, tokens, reconfiguration, shutdown.

mod changes;
mod runtime;

pub use runtime::RuntimeSettings;

use std::sync::Arc;

use sluice_config::ClusterConfig;
use sluice_controller::command::config as config_command;
use sluice_model::error_code::ErrorCode;
use sluice_model::time::format_timestamp;
use sluice_proto::status_from;
use sluice_proto::v1::admin_server::Admin;
use sluice_proto::v1::{
    AdminReply, ChangePartitionRequest, ConfigEntry, ConfigFile, CreateNodesRequest,
    DeleteNodesRequest, DeletePartitionRequest, DumpStateChunk, DumpStateRequest,
    GetConfigBundleReply, GetConfigBundleRequest, IssueTokenReply, IssueTokenRequest,
    RebootNodesRequest, ReconfigureReply, ReconfigureRequest, SetDebugReply, SetDebugRequest,
    ShowConfigReply, ShowConfigRequest, ShutdownReply, ShutdownRequest, TopJobsReply,
    TopJobsRequest, UpdateStepsRequest,
};
use tonic::{Request, Response, Status};

use super::Shared;
use crate::auth::{DEFAULT_LIFESPAN_SECS, TokenSubject, identity_of};
use crate::core::now;
use crate::journal::encode_state;

/// Bytes of the state in one message of a dump.
const DUMP_CHUNK_BYTES: usize = 1 << 20;

/// The service.
pub struct AdminService {
    /// Shared parts.
    pub shared: Arc<Shared>,
}

impl AdminService {
    fn require_administrator<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let identity = identity_of(request)?;
        if self.shared.roles.is_administrator(identity) {
            Ok(())
        } else {
            Err(status_from(ErrorCode::AccessDenied, ""))
        }
    }

    /// A user of the configuration as `scontrol show config` prints it: `slurm(1001)`.
    async fn named_user(&self, name: &str) -> String {
        let found = match name.parse::<u32>() {
            Ok(uid) => self.shared.users.find_uid(uid).await,
            Err(_) => self.shared.users.find_name(name).await,
        };
        match found {
            Ok(Some(user)) => format!("{}({})", user.name, user.uid),
            _ => name.to_owned(),
        }
    }
}

/// Reads the configuration file again and brings it into force as a whole, or changes nothing.
///
/// # Errors
/// All faults of the file as one text, or that the controller stops.
pub async fn reconfigure(shared: &Arc<Shared>) -> Result<Vec<String>, Status> {
    let path = shared.conf_file.clone();
    let loaded = tokio::task::spawn_blocking(move || ClusterConfig::load(&path))
        .await
        .map_err(|error| Status::internal(error.to_string()))?
        .map_err(|errors| {
            status_from(
                ErrorCode::Unspecified,
                format!("the old configuration stays in force:\n{errors}"),
            )
        })?;
    let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    let running = shared.core.snapshot();
    let config = Arc::new(loaded.config);
    if config.cluster_name != running.config.cluster_name
        || config.paths.state_save_location != running.config.paths.state_save_location
        || config.slurmctld_port != running.config.slurmctld_port
    {
        return Err(status_from(
            ErrorCode::Unspecified,
            "ClusterName, StateSaveLocation and SlurmctldPort cannot change while the controller runs: restart it",
        ));
    }
    shared
        .core
        .run(move |transaction| {
            config_command::reload(transaction, config);
            Ok(())
        })
        .await?;
    *shared.diagnostics.runtime.lock() = RuntimeSettings::default();
    *shared.bundle.write() = Arc::new(loaded.bundle);
    Ok(warnings)
}

#[tonic::async_trait]
impl Admin for AdminService {
    type DumpStateStream =
        std::pin::Pin<Box<dyn tokio_stream::Stream<Item = Result<DumpStateChunk, Status>> + Send>>;

    async fn get_config_bundle(
        &self,
        request: Request<GetConfigBundleRequest>,
    ) -> Result<Response<GetConfigBundleReply>, Status> {
        identity_of(&request)?;
        let bundle = self.shared.bundle_in_force();
        if request.get_ref().known_version == bundle.version {
            return Ok(Response::new(GetConfigBundleReply {
                version: bundle.version,
                files: Vec::new(),
            }));
        }
        let files = bundle
            .files
            .iter()
            .map(|file| ConfigFile {
                name: file.name.clone(),
                content: file.content.clone().into_bytes(),
                executable: file.content.starts_with("#!"),
            })
            .collect();
        Ok(Response::new(GetConfigBundleReply {
            version: bundle.version,
            files,
        }))
    }

    async fn show_config(
        &self,
        request: Request<ShowConfigRequest>,
    ) -> Result<Response<ShowConfigReply>, Status> {
        identity_of(&request)?;
        let cluster = self.shared.core.snapshot();
        let runtime = [
            (
                "BOOT_TIME",
                format_timestamp(self.shared.started, &jiff::tz::TimeZone::system()),
            ),
            ("HASH_VAL", "Match".to_owned()),
            ("NEXT_JOB_ID", cluster.next_job_id.0.to_string()),
            ("SLURM_CONF", self.shared.conf_file.display().to_string()),
            ("SLURM_VERSION", "25.11.0".to_owned()),
            (
                "SlurmUser",
                self.named_user(&cluster.config.slurm_user).await,
            ),
            (
                "SlurmdUser",
                self.named_user(&cluster.config.slurmd_user).await,
            ),
        ];
        let mut runtime = runtime.to_vec();
        runtime.extend(self.shared.diagnostics.runtime.lock().entries());
        let entries = cluster
            .config
            .show_config(&runtime)
            .into_iter()
            .map(|(key, value)| ConfigEntry { key, value })
            .collect();
        Ok(Response::new(ShowConfigReply {
            entries,
            boot_time: self.shared.started.0,
            time: now().0,
            sections: Vec::new(),
        }))
    }

    async fn issue_token(
        &self,
        request: Request<IssueTokenRequest>,
    ) -> Result<Response<IssueTokenReply>, Status> {
        let identity = identity_of(&request)?.clone();
        let request = request.into_inner();
        let cluster = self.shared.core.snapshot();
        let auth = &cluster.config.auth;
        if auth.disable_token_creation && !self.shared.roles.is_administrator(&identity) {
            return Err(status_from(
                ErrorCode::AccessDenied,
                "tokens are not given out here (disable_token_creation)",
            ));
        }
        let user = match &request.user_name {
            None => self.shared.users.find_uid(identity.uid).await,
            Some(name) => self.shared.users.find_name(name).await,
        }
        .map_err(|error| Status::unavailable(error.to_string()))?
        .ok_or_else(|| status_from(ErrorCode::InvalidUserId, ""))?;
        if !self.shared.roles.may_act_as(&identity, user.uid) {
            return Err(status_from(ErrorCode::AccessDenied, ""));
        }
        let mut lifespan = request
            .lifespan_secs
            .map_or(DEFAULT_LIFESPAN_SECS, i64::from);
        if let Some(max) = auth.max_token_lifespan_secs {
            lifespan = lifespan.min(max.min(i64::MAX as u64) as i64);
        }
        let subject = TokenSubject {
            user_name: user.name,
            uid: Some(user.uid),
            agent: None,
        };
        let token = self
            .shared
            .key
            .issue(&subject, now().0, lifespan)
            .map_err(|error| Status::internal(error.to_string()))?;
        Ok(Response::new(IssueTokenReply { token }))
    }

    async fn reconfigure(
        &self,
        request: Request<ReconfigureRequest>,
    ) -> Result<Response<ReconfigureReply>, Status> {
        self.require_administrator(&request)?;
        let warnings = reconfigure(&self.shared).await?;
        Ok(Response::new(ReconfigureReply { warnings }))
    }

    async fn shutdown(
        &self,
        request: Request<ShutdownRequest>,
    ) -> Result<Response<ShutdownReply>, Status> {
        self.require_administrator(&request)?;
        let _ = self.shared.shutdown.send(true);
        Ok(Response::new(ShutdownReply {}))
    }

    async fn dump_state(
        &self,
        request: Request<DumpStateRequest>,
    ) -> Result<Response<Self::DumpStateStream>, Status> {
        self.require_administrator(&request)?;
        let (position, cluster) = self.shared.core.state().await?;
        let bytes = tokio::task::spawn_blocking(move || encode_state(&cluster))
            .await
            .map_err(|error| Status::internal(error.to_string()))?
            .map_err(|error| Status::internal(error.to_string()))?;
        let bytes = bytes::Bytes::from(bytes);
        let chunks = (0..bytes.len()).step_by(DUMP_CHUNK_BYTES).map(move |from| {
            let data = bytes[from..bytes.len().min(from + DUMP_CHUNK_BYTES)].to_vec();
            Ok(DumpStateChunk {
                position: position.0,
                data,
            })
        });
        Ok(Response::new(Box::pin(tokio_stream::iter(chunks))))
    }

    async fn set_debug(
        &self,
        request: Request<SetDebugRequest>,
    ) -> Result<Response<SetDebugReply>, Status> {
        self.require_administrator(&request)?;
        runtime::set(&self.shared, request.into_inner())?;
        Ok(Response::new(SetDebugReply {}))
    }

    async fn change_partition(
        &self,
        request: Request<ChangePartitionRequest>,
    ) -> Result<Response<AdminReply>, Status> {
        let identity = identity_of(&request)?.clone();
        changes::change_partition(&self.shared, &identity, request.into_inner()).await?;
        Ok(Response::new(AdminReply::default()))
    }

    async fn delete_partition(
        &self,
        request: Request<DeletePartitionRequest>,
    ) -> Result<Response<AdminReply>, Status> {
        let identity = identity_of(&request)?.clone();
        changes::delete_partition(&self.shared, &identity, request.into_inner().name).await?;
        Ok(Response::new(AdminReply::default()))
    }

    async fn create_nodes(
        &self,
        request: Request<CreateNodesRequest>,
    ) -> Result<Response<AdminReply>, Status> {
        let identity = identity_of(&request)?.clone();
        changes::create_nodes(&self.shared, &identity, request.into_inner()).await?;
        Ok(Response::new(AdminReply::default()))
    }

    async fn delete_nodes(
        &self,
        request: Request<DeleteNodesRequest>,
    ) -> Result<Response<AdminReply>, Status> {
        let identity = identity_of(&request)?.clone();
        changes::delete_nodes(&self.shared, &identity, request.into_inner().nodes).await?;
        Ok(Response::new(AdminReply::default()))
    }

    async fn reboot_nodes(
        &self,
        request: Request<RebootNodesRequest>,
    ) -> Result<Response<AdminReply>, Status> {
        let identity = identity_of(&request)?.clone();
        changes::reboot_nodes(&self.shared, &identity, request.into_inner()).await?;
        Ok(Response::new(AdminReply::default()))
    }

    async fn update_steps(
        &self,
        request: Request<UpdateStepsRequest>,
    ) -> Result<Response<AdminReply>, Status> {
        let identity = identity_of(&request)?.clone();
        changes::update_steps(&self.shared, &identity, request.into_inner()).await?;
        Ok(Response::new(AdminReply::default()))
    }

    async fn top_jobs(
        &self,
        request: Request<TopJobsRequest>,
    ) -> Result<Response<TopJobsReply>, Status> {
        let identity = identity_of(&request)?.clone();
        changes::top_jobs(&self.shared, &identity, request.into_inner().jobs)
            .await
            .map(Response::new)
    }
}
