//! The gRPC services. Each handler finds out who asks, turns the request into an engine command or a read of the snapshot, and
//! the answer into a message. No decision is made here, and nothing here waits for anything but the writer.

pub mod accounting;
pub mod admin;
pub mod agents;
pub mod automation;
pub mod diagnostics;
pub mod encoded_jobs;
pub mod priority;
pub mod scheduler;

use std::sync::Arc;

use parking_lot::RwLock;
use sluice_accounting::{AccountingStore, FeedStatus};
use sluice_config::ConfigBundle;
use sluice_controller::command::Caller;
use sluice_controller::event::config::is_dynamic;
use sluice_model::time::UnixSeconds;
use tokio::sync::watch;

use self::diagnostics::Diagnostics;
use crate::auth::{Identity, Roles, TokenKey, UserDirectory};
use crate::core::planner::PlannerStatistics;
use crate::core::{CoreHandle, Sessions, Watchers};
use crate::logging::LogHandle;

/// What all services share.
pub struct Shared {
    /// The writer and its snapshots.
    pub core: CoreHandle,
    /// Agents.
    pub sessions: Arc<Sessions>,
    /// Watchers of jobs.
    pub watchers: Arc<Watchers>,
    /// Users of this machine.
    pub users: UserDirectory,
    /// Who may do what.
    pub roles: Arc<Roles>,
    /// Default account of each user on this cluster, by uid, as accounting last said.
    pub default_accounts: RwLock<std::collections::HashMap<u32, String>>,
    /// Becomes true once accounting has said for the first time who may do what and who is charged how.
    pub roles_known: watch::Sender<bool>,
    /// Cluster key.
    pub key: Arc<TokenKey>,
    /// Database.
    pub store: AccountingStore,
    /// State of the feed; `None` = no accounting.
    pub feed: Option<watch::Receiver<FeedStatus>>,
    /// Files of the configuration in force.
    pub bundle: RwLock<Arc<ConfigBundle>>,
    /// Path of the configuration, for `reconfigure`.
    pub conf_file: std::path::PathBuf,
    /// Jobs encoded for readers.
    pub encoded_jobs: encoded_jobs::EncodedJobs,
    /// Scheduler counters.
    pub statistics: Arc<PlannerStatistics>,
    /// Calls counted, and questions to agents that wait for their answers.
    pub diagnostics: Arc<Diagnostics>,
    /// When the daemon started.
    pub started: UnixSeconds,
    /// Host it runs on.
    pub hostname: String,
    /// Log level.
    pub log: Option<LogHandle>,
    /// Set to true to end the daemon.
    pub shutdown: watch::Sender<bool>,
}

impl Shared {
    /// The caller as the engine knows callers.
    #[must_use]
    pub fn caller(&self, identity: &Identity) -> Caller {
        Caller {
            uid: identity.uid,
            privileged: self.roles.is_privileged(identity),
            coordinates: self.roles.accounts_coordinated(identity),
        }
    }

    /// The files of the configuration, with the nodes that were made by hand.
    #[must_use]
    pub fn bundle_in_force(&self) -> Arc<ConfigBundle> {
        let bundle = Arc::clone(&self.bundle.read());
        let made: String = self
            .core
            .snapshot()
            .nodes
            .iter()
            .filter(|node| node.configured && is_dynamic(node))
            .map(|node| format!("{}\n", node.config.slurm_conf_line()))
            .collect();
        if made.is_empty() {
            return bundle;
        }
        let mut files = bundle.files.clone();
        if let Some(main) = files.first_mut() {
            main.content.push('\n');
            main.content.push_str(&made);
        }
        Arc::new(ConfigBundle::new(files))
    }

    /// Name of a user, or the number as text.
    #[must_use]
    pub fn user_name(&self, uid: u32) -> Option<String> {
        self.users.by_uid(uid).ok().flatten().map(|user| user.name)
    }
}
