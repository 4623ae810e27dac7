//! The one validated configuration that all daemons work from.
//!
//! Plain data, made by the readers of this crate and by nothing else. Units are part of the field names; memory is MiB, plain
//! times are seconds. Invariant: a value of this type has passed every check of the readers, so the engine does not check again. Names follow `slurm.conf(5)`.

pub mod accounting;
pub mod agent;
pub mod node;
pub mod partition;
pub mod priority;
pub mod scheduling;
pub mod topology;

pub use accounting::*;
pub use agent::*;
pub use node::*;
pub use partition::*;
pub use priority::*;
pub use scheduling::*;
pub use topology::*;

use serde::{Deserialize, Serialize};

/// A host on which `ctld` may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControllerHost {
    /// Host name.
    pub host: String,
    /// Address to connect to, when it is not the host name.
    pub addr: Option<String>,
}

impl ControllerHost {
    /// Where to connect to: the address if one is given, else the host name.
    pub fn address(&self) -> &str {
        self.addr.as_deref().unwrap_or(&self.host)
    }
}

/// Files and folders. Patterns: `%h` host name, `%n` node name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paths {
    /// StateSaveLocation: journal, checkpoints, key file.
    pub state_save_location: String,
    /// SlurmdSpoolDir, with `%h` and `%n` not yet replaced; see [`expand_node_path`].
    pub slurmd_spool_dir: String,
    /// SlurmctldPidFile.
    pub slurmctld_pid_file: String,
    /// SlurmdPidFile (pattern).
    pub slurmd_pid_file: String,
    /// SlurmctldLogFile; `None` = syslog/stderr.
    pub slurmctld_log_file: Option<String>,
    /// SlurmdLogFile (pattern); `None` = syslog/stderr.
    pub slurmd_log_file: Option<String>,
    /// TmpFS.
    pub tmp_fs: String,
    /// MailProg.
    pub mail_prog: String,
}

/// Replaces `%h` and `%n` in a path of [`Paths`]; `%%` is a percent sign.
pub fn expand_node_path(pattern: &str, host: &str, node: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        let replacement = match (c, chars.peek()) {
            ('%', Some('h')) => host,
            ('%', Some('n')) => node,
            ('%', Some('%')) => "%",
            _ => {
                out.push(c);
                continue;
            }
        };
        chars.next();
        out.push_str(replacement);
    }
    out
}

/// How much a daemon logs (SlurmctldDebug, SlurmdDebug).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "the names are Slurm's levels, from least to most"
)]
pub enum LogLevel {
    Quiet,
    Fatal,
    Error,
    Info,
    Verbose,
    Debug,
    Debug2,
    Debug3,
    Debug4,
    Debug5,
}

/// Log settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSettings {
    /// SlurmctldDebug.
    pub slurmctld_debug: LogLevel,
    /// SlurmdDebug.
    pub slurmd_debug: LogLevel,
    /// DebugFlags, as written.
    pub debug_flags: Vec<String>,
    /// LogTimeFormat items, as written.
    pub log_time_format: Vec<String>,
}

/// Authentication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthSettings {
    /// AuthType, e.g. `auth/munge`.
    pub auth_type: String,
    /// AuthInfo items, as written.
    pub auth_info: Vec<String>,
    /// AuthAltTypes items, as written.
    pub alt_types: Vec<String>,
    /// AuthAltParameters items, as written.
    pub alt_parameters: Vec<String>,
    /// File of the HS256 key: `jwt_key=` of AuthAltParameters, else `<StateSaveLocation>/jwt_hs256.key`.
    pub jwt_key: String,
    /// `disable_token_creation` of AuthAltParameters.
    pub disable_token_creation: bool,
    /// `max_token_lifespan` of AuthAltParameters, seconds.
    pub max_token_lifespan_secs: Option<u64>,
    /// `cred_expire` of AuthInfo, seconds. Also the default of requeue_delay.
    pub cred_expire_secs: u32,
    /// PrivateData, in lower case.
    pub private_data: Vec<String>,
    /// DisableRootJobs of the cluster.
    pub disable_root_jobs: bool,
}

/// Timeouts between daemons, seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeouts {
    /// SlurmctldTimeout: backup takes over.
    pub slurmctld_secs: u32,
    /// SlurmdTimeout: a silent node is set DOWN; 0 = never.
    pub slurmd_secs: u32,
    /// MessageTimeout.
    pub message_secs: u32,
    /// TCPTimeout.
    pub tcp_secs: u32,
    /// BatchStartTimeout.
    pub batch_start_secs: u32,
    /// InactiveLimit; 0 = off.
    pub inactive_limit_secs: u32,
    /// KillWait.
    pub kill_wait_secs: u32,
    /// WaitTime of srun; 0 = off.
    pub wait_time_secs: u32,
    /// UnkillableStepTimeout.
    pub unkillable_step_secs: u32,
    /// CompleteWait; 0 = off.
    pub complete_wait_secs: u32,
}

/// Limits and rules for jobs of the whole cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSettings {
    /// FirstJobId.
    pub first_job_id: u32,
    /// MaxJobId; the next id after it is `first_job_id`.
    pub max_job_id: u32,
    /// MaxJobCount: job records in memory.
    pub max_job_count: u32,
    /// MinJobAge: seconds a finished job stays in memory; 0 = never purged.
    pub min_job_age_secs: u32,
    /// MaxArraySize: highest task id plus one.
    pub max_array_size: u32,
    /// MaxStepCount.
    pub max_step_count: u32,
    /// MaxTasksPerNode.
    pub max_tasks_per_node: u32,
    /// JobRequeue: whether batch jobs may be requeued unless they say otherwise.
    pub job_requeue: bool,
    /// MaxBatchRequeue.
    pub max_batch_requeue: u32,
    /// RequeueExit: exit codes, inclusive ranges.
    pub requeue_exit: Vec<(u8, u8)>,
    /// RequeueExitHold: exit codes, inclusive ranges.
    pub requeue_exit_hold: Vec<(u8, u8)>,
    /// JobFileAppend: open-mode append by default.
    pub job_file_append: bool,
    /// KillOnBadExit.
    pub kill_on_bad_exit: bool,
    /// MailDomain.
    pub mail_domain: Option<String>,
    /// InteractiveStepOptions.
    pub interactive_step_options: String,
    /// LaunchParameters items, as written.
    pub launch_parameters: Vec<String>,
    /// SrunPortRange: first and last port; `None` = any free port.
    pub srun_port_range: Option<(u16, u16)>,
    /// MpiDefault; `None` = none.
    pub mpi_default: Option<String>,
    /// PropagateResourceLimits.
    pub propagate_resource_limits: PropagateLimits,
    /// PropagatePrioProcess: 0, 1 or 2.
    pub propagate_prio_process: u8,
    /// JobSubmitPlugins items.
    pub job_submit_plugins: Vec<String>,
    /// ScronParameters items.
    pub scron_parameters: Vec<String>,
}

/// Which resource limits of the submitting shell a job gets. Names are as in Slurm (`MEMLOCK`, `NOFILE`, …), upper case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PropagateLimits {
    /// All.
    All,
    /// None.
    None,
    /// Those listed.
    Only(Vec<String>),
    /// All but those listed (PropagateResourceLimitsExcept).
    Except(Vec<String>),
}

/// A licence of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LicenseConfig {
    /// Name.
    pub name: String,
    /// How many.
    pub count: u32,
}

/// `PowerAction=` line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerActionConfig {
    /// Name.
    pub name: String,
    /// Location, `slurmctld` or `slurmd`.
    pub location: String,
    /// Program.
    pub program: String,
}

/// Power saving. Times in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerSettings {
    /// SuspendTime; `None` = never.
    pub suspend_time_secs: Option<u32>,
    /// SuspendProgram.
    pub suspend_program: Option<String>,
    /// ResumeProgram.
    pub resume_program: Option<String>,
    /// ResumeFailProgram.
    pub resume_fail_program: Option<String>,
    /// SuspendTimeout.
    pub suspend_timeout_secs: u32,
    /// ResumeTimeout.
    pub resume_timeout_secs: u32,
    /// SuspendRate, nodes per minute; 0 = no limit.
    pub suspend_rate: u32,
    /// ResumeRate, nodes per minute; 0 = no limit.
    pub resume_rate: u32,
    /// SuspendExcNodes, as written.
    pub suspend_exc_nodes: Option<String>,
    /// SuspendExcParts.
    pub suspend_exc_parts: Vec<String>,
    /// SuspendExcStates.
    pub suspend_exc_states: Vec<String>,
    /// PowerAction lines.
    pub actions: Vec<PowerActionConfig>,
}

/// What only the training-cluster document knows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SpecDetails {
    /// `login_node_pool_id` and the hosts that it means: submit hosts, never compute nodes.
    pub login_hosts: Vec<String>,
    /// `home_directory_storage`, kept for those who mount it.
    pub home_directory_storage: Option<String>,
}

/// The configuration of a cluster: everything that `slurm.conf` and its companions, or a training-cluster document, say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterConfig {
    /// ClusterName, lower case.
    pub cluster_name: String,
    /// SlurmctldHost lines; the first is the primary.
    pub controllers: Vec<ControllerHost>,
    /// SlurmctldPort: the first port.
    pub slurmctld_port: u16,
    /// How many ports SlurmctldPort names.
    pub slurmctld_port_count: u16,
    /// SlurmdPort; a node's own `port` rules.
    pub slurmd_port: u16,
    /// SlurmUser.
    pub slurm_user: String,
    /// SlurmdUser.
    pub slurmd_user: String,
    /// Paths.
    pub paths: Paths,
    /// Logs.
    pub log: LogSettings,
    /// Authentication.
    pub auth: AuthSettings,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Jobs.
    pub jobs: JobSettings,
    /// Scheduler and selection.
    pub scheduling: SchedulingSettings,
    /// Job priority.
    pub priority: PrioritySettings,
    /// Preemption.
    pub preempt: PreemptSettings,
    /// Accounting.
    pub accounting: AccountingSettings,
    /// Prolog, Epilog and their kin.
    pub scripts: ScriptSettings,
    /// The compute-node agent.
    pub agent: AgentSettings,
    /// cgroup.conf.
    pub cgroup: CgroupSettings,
    /// Power saving.
    pub power: PowerSettings,
    /// Licenses.
    pub licenses: Vec<LicenseConfig>,
    /// GresTypes.
    pub gres_types: Vec<String>,
    /// topology.conf.
    pub topology: TopologySettings,
    /// SlurmctldParameters items, as written.
    pub slurmctld_parameters: Vec<String>,
    /// ReconfigFlags items, as written.
    pub reconfig_flags: Vec<String>,
    /// Nodes, in the order of the file.
    pub nodes: Vec<NodeConfig>,
    /// NodeSet lines, resolved to names.
    pub node_sets: Vec<NodeSetConfig>,
    /// Partitions, in the order of the file.
    pub partitions: Vec<PartitionConfig>,
    /// What only the JSON document says; empty for slurm.conf.
    pub spec: SpecDetails,
    /// Every global key that was set, in Slurm's spelling, with its text. Keys that accumulate (Prolog, …) appear once per line.
    pub raw: Vec<(String, String)>,
}

impl ClusterConfig {
    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<&NodeConfig> {
        self.nodes.iter().find(|n| n.name == name)
    }

    /// The partition of that name.
    pub fn partition(&self, name: &str) -> Option<&PartitionConfig> {
        self.partitions.iter().find(|p| p.name == name)
    }

    /// The partition of jobs that name none.
    pub fn default_partition(&self) -> Option<&PartitionConfig> {
        self.partitions.iter().find(|p| p.default)
    }

    /// Text of a global key as it was set, by its name in any case.
    pub fn raw_value(&self, key: &str) -> Option<&str> {
        self.raw
            .iter()
            .rev()
            .find(|(k, _)| k.eq_ignore_ascii_case(key))
            .map(|(_, v)| v.as_str())
    }

    /// Whether SlurmctldParameters has this item (in any case).
    pub fn has_slurmctld_parameter(&self, name: &str) -> bool {
        self.slurmctld_parameters
            .iter()
            .any(|p| p.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Several agents on one host differ only by these letters.
    #[test]
    fn node_paths() {
        assert_eq!(
            expand_node_path("/var/spool/%n/d-%h", "host", "n1"),
            "/var/spool/n1/d-host"
        );
        assert_eq!(expand_node_path("/a%%b%", "h", "n"), "/a%b%");
    }
}
