//! What administrators define in accounting: clusters, accounts, users, associations, QOS; and the record of their changes.
//!
//! Plain data; units and text forms as in the parent module. A limit that is `None` or empty is not set at this level; what then
//! counts is decided where limits are checked. Source: `sacctmgr(1)`.

use serde::{Deserialize, Serialize};

use crate::time::UnixSeconds;

/// A cluster that has been registered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// Database id.
    pub id: i64,
    /// ClusterName, lower case.
    pub name: String,
    /// Address of the controller; empty until it registered.
    pub control_host: String,
    /// Its port; 0 until it registered.
    pub control_port: u32,
    /// Protocol version.
    pub rpc_version: u32,
    /// All TRES.
    pub tres: String,
    /// All nodes.
    pub node_list: String,
    /// `Classification`.
    pub classification: String,
    /// Removed, kept for old records.
    pub deleted: bool,
}

/// An account, known to all clusters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountRecord {
    /// Name.
    pub name: String,
    /// Description.
    pub description: String,
    /// Organization.
    pub organization: String,
    /// Flags as text, separated by commas (`NoUsersAreCoords`).
    pub flags: String,
    /// Coordinators, sorted.
    pub coordinators: Vec<String>,
    /// Removed, kept for old records.
    pub deleted: bool,
}

/// What a user may do in accounting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AdminLevel {
    /// Own things only.
    #[default]
    None,
    /// Everything except admin levels and clusters.
    Operator,
    /// Everything.
    Administrator,
}

impl AdminLevel {
    /// The word that `sacctmgr` shows.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Operator => "Operator",
            Self::Administrator => "Administrator",
        }
    }
}

/// A user, known to all clusters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserRecord {
    /// Login name.
    pub name: String,
    /// Rights.
    pub admin_level: AdminLevel,
    /// Default account on each cluster: (cluster, account), sorted.
    pub default_accounts: Vec<(String, String)>,
    /// Accounts the user coordinates, sorted.
    pub coordinator_of: Vec<String>,
    /// Removed, kept for old records.
    pub deleted: bool,
}

/// Limits that associations set. `None` or empty = not set here; see reference for inheritance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AssociationLimits {
    /// Running jobs in the subtree.
    pub grp_jobs: Option<u32>,
    /// Jobs gaining age in the subtree.
    pub grp_jobs_accrue: Option<u32>,
    /// Pending and running jobs in the subtree.
    pub grp_submit_jobs: Option<u32>,
    /// TRES in use in the subtree.
    pub grp_tres: String,
    /// TRES minutes used in the subtree.
    pub grp_tres_mins: String,
    /// TRES minutes promised to running jobs in the subtree.
    pub grp_tres_run_mins: String,
    /// Wall minutes used in the subtree.
    pub grp_wall: Option<u32>,
    /// Running jobs of the association.
    pub max_jobs: Option<u32>,
    /// Jobs gaining age of the association.
    pub max_jobs_accrue: Option<u32>,
    /// Pending and running jobs of the association.
    pub max_submit_jobs: Option<u32>,
    /// TRES of one job.
    pub max_tres_per_job: String,
    /// TRES of one job on one node.
    pub max_tres_per_node: String,
    /// TRES minutes of one job.
    pub max_tres_mins_per_job: String,
    /// TRES minutes promised to the running jobs of the association.
    pub max_tres_run_mins: String,
    /// Wall minutes of one job.
    pub max_wall_per_job: Option<u32>,
    /// Priority below which backfill reserves nothing.
    pub min_prio_threshold: Option<u32>,
}

/// A row of the tree: an account on a cluster (user empty), or a user in an account, possibly for one partition.
///
/// Key: (cluster, account, user, partition).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssociationRecord {
    /// Database id; 0 = not stored yet.
    pub id: u32,
    /// Cluster.
    pub cluster: String,
    /// Account.
    pub account: String,
    /// User; empty for the account's own row.
    pub user: String,
    /// Partition; empty = any.
    pub partition: String,
    /// Parent account of an account's own row; empty for root and for user rows.
    pub parent_account: String,
    /// `Fairshare`; `None` = `parent`.
    pub shares: Option<u32>,
    /// Priority offset.
    pub priority: Option<u32>,
    /// QOS allowed, sorted by name; `None` = inherited.
    pub qos: Option<Vec<String>>,
    /// Additions and removals applied to the inherited list: `+high`, `-normal`.
    pub qos_delta: Vec<String>,
    /// Default QOS; empty = inherited.
    pub default_qos: String,
    /// The user's default account on this cluster.
    pub is_default: bool,
    /// Limits.
    pub limits: AssociationLimits,
    /// Comment.
    pub comment: String,
    /// Removed, kept for old records.
    pub deleted: bool,
}

impl AssociationRecord {
    /// A row with one share and nothing else set.
    #[must_use]
    pub fn new(cluster: &str, account: &str, user: &str) -> Self {
        Self {
            id: 0,
            cluster: cluster.to_owned(),
            account: account.to_owned(),
            user: user.to_owned(),
            partition: String::new(),
            parent_account: String::new(),
            shares: Some(1),
            priority: None,
            qos: None,
            qos_delta: Vec::new(),
            default_qos: String::new(),
            is_default: false,
            limits: AssociationLimits::default(),
            comment: String::new(),
            deleted: false,
        }
    }
}

/// A quality of service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QosRecord {
    /// Database id; `normal` has 1. 0 = not stored yet.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Description.
    pub description: String,
    /// Flags as text, separated by commas (`DenyOnLimit`).
    pub flags: String,
    /// Priority.
    pub priority: u32,
    /// Seconds between the warning and the end of a preempted job.
    pub grace_time_secs: u32,
    /// QOS that this one may preempt, sorted by name.
    pub preempt: Vec<String>,
    /// `cluster` (the default), `cancel`, `requeue`, `suspend,gang` …; empty = `cluster`.
    pub preempt_mode: String,
    /// Seconds a job is safe from preemption; `None` = the cluster's setting.
    pub preempt_exempt_time_secs: Option<u32>,
    /// Factor on recorded usage.
    pub usage_factor: f64,
    /// Lowest fair-share factor that may submit.
    pub usage_threshold: Option<f64>,
    /// Factor on the association's GrpTRES and MaxTRES.
    pub limit_factor: Option<f64>,
    /// Running jobs.
    pub grp_jobs: Option<u32>,
    /// Jobs gaining age.
    pub grp_jobs_accrue: Option<u32>,
    /// Pending and running jobs.
    pub grp_submit_jobs: Option<u32>,
    /// TRES in use.
    pub grp_tres: String,
    /// TRES minutes used.
    pub grp_tres_mins: String,
    /// TRES minutes promised to running jobs.
    pub grp_tres_run_mins: String,
    /// Wall minutes used.
    pub grp_wall: Option<u32>,
    /// Running jobs of an account.
    pub max_jobs_per_account: Option<u32>,
    /// Running jobs of a user.
    pub max_jobs_per_user: Option<u32>,
    /// Jobs of an account gaining age.
    pub max_jobs_accrue_per_account: Option<u32>,
    /// Jobs of a user gaining age.
    pub max_jobs_accrue_per_user: Option<u32>,
    /// Pending and running jobs of an account.
    pub max_submit_jobs_per_account: Option<u32>,
    /// Pending and running jobs of a user.
    pub max_submit_jobs_per_user: Option<u32>,
    /// TRES of one job.
    pub max_tres_per_job: String,
    /// TRES of one job on one node.
    pub max_tres_per_node: String,
    /// TRES in use by an account.
    pub max_tres_per_account: String,
    /// TRES in use by a user.
    pub max_tres_per_user: String,
    /// TRES minutes of one job.
    pub max_tres_mins_per_job: String,
    /// TRES minutes promised to an account's running jobs.
    pub max_tres_run_mins_per_account: String,
    /// TRES minutes promised to a user's running jobs.
    pub max_tres_run_mins_per_user: String,
    /// Wall minutes of one job.
    pub max_wall_per_job: Option<u32>,
    /// Least TRES of one job.
    pub min_tres_per_job: String,
    /// Priority below which backfill reserves nothing.
    pub min_prio_threshold: Option<u32>,
    /// Removed, kept for old records.
    pub deleted: bool,
}

impl Default for QosRecord {
    fn default() -> Self {
        Self {
            id: 0,
            name: String::new(),
            description: String::new(),
            flags: String::new(),
            priority: 0,
            grace_time_secs: 0,
            preempt: Vec::new(),
            preempt_mode: String::new(),
            preempt_exempt_time_secs: None,
            usage_factor: 1.0,
            usage_threshold: None,
            limit_factor: None,
            grp_jobs: None,
            grp_jobs_accrue: None,
            grp_submit_jobs: None,
            grp_tres: String::new(),
            grp_tres_mins: String::new(),
            grp_tres_run_mins: String::new(),
            grp_wall: None,
            max_jobs_per_account: None,
            max_jobs_per_user: None,
            max_jobs_accrue_per_account: None,
            max_jobs_accrue_per_user: None,
            max_submit_jobs_per_account: None,
            max_submit_jobs_per_user: None,
            max_tres_per_job: String::new(),
            max_tres_per_node: String::new(),
            max_tres_per_account: String::new(),
            max_tres_per_user: String::new(),
            max_tres_mins_per_job: String::new(),
            max_tres_run_mins_per_account: String::new(),
            max_tres_run_mins_per_user: String::new(),
            max_wall_per_job: None,
            min_tres_per_job: String::new(),
            min_prio_threshold: None,
            deleted: false,
        }
    }
}

/// A trackable resource known to the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TresRecord {
    /// Slurm's id: cpu 1, mem 2, energy 3, node 4, billing 5, fs/disk 6, vmem 7, pages 8, others from 1001.
    pub id: u32,
    /// Type: `cpu`, `gres`, `license`.
    pub kind: String,
    /// Name: empty for `cpu`, `gpu:h100` for a GRES.
    pub name: String,
}

/// Who changed what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransactionRecord {
    /// Database id.
    pub id: i64,
    /// When.
    pub time: UnixSeconds,
    /// `Add Users`, `Modify Associations` …
    pub action: String,
    /// User who did it.
    pub actor: String,
    /// Cluster concerned; empty = all.
    pub cluster: String,
    /// What was selected.
    pub condition: String,
    /// What was set.
    pub info: String,
}

/// A workload key that a user may name on a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WckeyRecord {
    /// Database id.
    pub id: u32,
    /// Cluster.
    pub cluster: String,
    /// Name; empty for the key of a user who has none.
    pub name: String,
    /// User.
    pub user: String,
    /// The user's default key on this cluster.
    pub is_default: bool,
    /// Removed, kept for old records.
    pub deleted: bool,
}

/// A resource that clusters share, such as licences of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceRecord {
    /// Database id.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Server that hands it out.
    pub server: String,
    /// Description.
    pub description: String,
    /// Kind of server, such as `flexlm`.
    pub server_type: String,
    /// `License` or `Unknown`.
    pub kind: String,
    /// How many there are.
    pub count: u32,
    /// How many the server said were in use, when it was last asked.
    pub last_consumed: u32,
    /// Flags as text, separated by commas (`Absolute`).
    pub flags: String,
    /// Share of each cluster: name and percent (a count with the flag `Absolute`), sorted by name.
    pub clusters: Vec<(String, u32)>,
    /// Removed, kept for old records.
    pub deleted: bool,
}
