//! Accounting records: what the controller hands to the accounting database, and what the database hands back.
//!
//! Plain data. Nothing here decides, formats or does I/O. Units: times are seconds since the epoch, wall limits are minutes,
//! memory is MiB unless a name says KiB, CPU time is microseconds. TRES are text `name=count` separated by commas with the
//! counts in base units (memory in MiB, no suffix): `cpu=4,mem=8192,node=1,billing=4,gres/gpu=2`. Empty text means "none",
//! `None` means "not set" (of a limit) or "not yet" (of a time).
//! Invariant: a record is complete; writing a later record of the same key replaces the earlier one, so records can be
//! delivered more than once. Field meaning: `sacct(1)`, `sacctmgr(1)`.

mod entities;

pub use entities::{
    AccountRecord, AdminLevel, AssociationLimits, AssociationRecord, ClusterRecord, QosRecord,
    ResourceRecord, TransactionRecord, TresRecord, UserRecord, WckeyRecord,
};

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, StepId};
use crate::time::UnixSeconds;

/// `TimeLimit` of a job record that is unlimited.
pub const UNLIMITED_MINUTES: u32 = u32::MAX;

/// Bits of [`JobRecord::flags`]; the names are those of sacct's `Flags` column.
pub mod job_flag {
    /// The scheduler did not note how it started.
    pub const NONE: u32 = 0;
    /// Started by the attempt made at submission.
    pub const SCHED_SUBMIT: u32 = 1 << 2;
    /// Started by the main pass.
    pub const SCHED_MAIN: u32 = 1 << 3;
    /// Started by backfill.
    pub const SCHED_BACKFILL: u32 = 1 << 4;
    /// The record of the start reached accounting before the end.
    pub const START_RECEIVED: u32 = 1 << 5;
}

/// One run of a job. A requeue makes a new record with the same job id, a later `submit` and the next `attempt`.
///
/// Key: (cluster, job_id, submit, attempt).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// ClusterName, lower case. Filled in when read; ignored when written (the writer's cluster counts).
    #[serde(default)]
    pub cluster: String,
    /// Id of this record.
    pub job_id: JobId,
    /// Run number: 0 for the first, +1 for every requeue. Shown as `Restarts`.
    pub attempt: u32,
    /// When this run was submitted (a requeue sets it anew).
    pub submit: UnixSeconds,
    /// Id of the array it is (part of).
    pub array_job_id: Option<JobId>,
    /// Index, once the task has been split off.
    pub array_task_id: Option<u32>,
    /// Unstarted tasks of an array's record: `5-9%3`.
    pub array_task_string: String,
    /// First component's id of a heterogeneous job.
    pub het_job_id: Option<JobId>,
    /// Place in the heterogeneous job, from 0.
    pub het_job_offset: Option<u32>,
    /// Association charged; `None` when accounts are not enforced and none matched.
    pub association_id: Option<u32>,
    /// Account.
    pub account: String,
    /// User name.
    pub user: String,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Group name.
    pub group: String,
    /// Partition it ran in, or the list asked for while it waits.
    pub partition: String,
    /// QOS in force.
    pub qos: String,
    /// QOS asked for, as typed.
    pub qos_requested: String,
    /// WCKey; a leading `*` marks a default.
    pub wckey: String,
    /// Job name.
    pub name: String,
    /// When it could first have run; `None` while it waits for a dependency or a begin time that is unknown, or is held.
    pub eligible: Option<UnixSeconds>,
    /// Start.
    pub start: Option<UnixSeconds>,
    /// End.
    pub end: Option<UnixSeconds>,
    /// Seconds spent suspended.
    pub suspended_secs: u64,
    /// Base state, Slurm's number (0 PENDING, 1 RUNNING, 3 COMPLETED …).
    pub state: u32,
    /// State flags, Slurm's bits without the base.
    pub state_flags: u32,
    /// Wait status of the batch script or allocation: `code << 8 | signal`.
    pub exit_status: i32,
    /// Highest wait status of any step.
    pub derived_exit_status: i32,
    /// Last reason other than Priority and Resources; `None` as text when there was none.
    pub reason: String,
    /// TRES asked for.
    pub req_tres: String,
    /// TRES given.
    pub alloc_tres: String,
    /// CPUs asked for.
    pub req_cpus: u32,
    /// Memory asked for, all nodes together, MiB.
    pub req_mem_mib: u64,
    /// Nodes asked for.
    pub req_nodes: u32,
    /// CPUs given.
    pub alloc_cpus: u32,
    /// Nodes given.
    pub alloc_nodes: u32,
    /// Nodes given, a hostlist; empty before the start.
    pub node_list: String,
    /// Constraint as typed.
    pub constraints: String,
    /// Priority at the last look.
    pub priority: u32,
    /// Minutes; `None` = the partition's limit, [`UNLIMITED_MINUTES`] = none.
    pub time_limit_minutes: Option<u32>,
    /// Reservation it ran in.
    pub reservation: String,
    /// Reservation asked for, as typed.
    pub reservation_requested: String,
    /// Licences.
    pub licenses: String,
    /// Working directory.
    pub work_dir: String,
    /// Command line of the submission.
    pub submit_line: String,
    /// Input path, patterns unexpanded.
    pub std_in: String,
    /// Output path, patterns unexpanded.
    pub std_out: String,
    /// Error path, patterns unexpanded.
    pub std_err: String,
    /// User's comment.
    pub comment: String,
    /// Administrator's comment.
    pub admin_comment: String,
    /// The system's comment.
    pub system_comment: String,
    /// `--extra`.
    pub extra: String,
    /// Container bundle.
    pub container: String,
    /// MCS label.
    pub mcs_label: String,
    /// `--exclusive` as sacct shows it: `NO`, `NODE`, `USER` …; empty = `NO`.
    pub exclusive: String,
    /// Bits of [`job_flag`].
    pub flags: u32,
    /// User who cancelled it.
    pub kill_requester: Option<u32>,
    /// Node whose failure ended it.
    pub failed_node: String,
    /// Text of the batch script. `None` = not sent with this record: the stored one stays.
    #[serde(default)]
    pub script: Option<String>,
    /// Environment of the batch script, `NAME=value` lines. `None` as for [`Self::script`].
    #[serde(default)]
    pub environment: Option<String>,
}

impl JobRecord {
    /// A pending record with everything else empty or zero.
    #[must_use]
    pub fn new(job_id: JobId, attempt: u32, submit: UnixSeconds) -> Self {
        Self {
            cluster: String::new(),
            job_id,
            attempt,
            submit,
            array_job_id: None,
            array_task_id: None,
            array_task_string: String::new(),
            het_job_id: None,
            het_job_offset: None,
            association_id: None,
            account: String::new(),
            user: String::new(),
            uid: 0,
            gid: 0,
            group: String::new(),
            partition: String::new(),
            qos: String::new(),
            qos_requested: String::new(),
            wckey: String::new(),
            name: String::new(),
            eligible: None,
            start: None,
            end: None,
            suspended_secs: 0,
            state: 0,
            state_flags: 0,
            exit_status: 0,
            derived_exit_status: 0,
            reason: String::new(),
            req_tres: String::new(),
            alloc_tres: String::new(),
            req_cpus: 0,
            req_mem_mib: 0,
            req_nodes: 0,
            alloc_cpus: 0,
            alloc_nodes: 0,
            node_list: String::new(),
            constraints: String::new(),
            priority: 0,
            time_limit_minutes: None,
            reservation: String::new(),
            reservation_requested: String::new(),
            licenses: String::new(),
            work_dir: String::new(),
            submit_line: String::new(),
            std_in: String::new(),
            std_out: String::new(),
            std_err: String::new(),
            comment: String::new(),
            admin_comment: String::new(),
            system_comment: String::new(),
            extra: String::new(),
            container: String::new(),
            mcs_label: String::new(),
            exclusive: String::new(),
            flags: job_flag::NONE,
            kill_requester: None,
            failed_node: String::new(),
            script: None,
            environment: None,
        }
    }
}

/// Extremes of one measured quantity over the tasks of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageStat {
    /// Highest of any task.
    pub max: u64,
    /// Node of that task.
    pub max_node: String,
    /// Rank of that task.
    pub max_task: u32,
    /// Lowest of any task.
    pub min: u64,
    /// Node of that task.
    pub min_node: String,
    /// Rank of that task.
    pub min_task: u32,
    /// Sum over the tasks.
    pub total: u64,
    /// Average over the tasks.
    pub average: u64,
}

impl UsageStat {
    /// Nothing was measured.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// What a step used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepUsageRecord {
    /// User CPU time of all tasks and their children, microseconds.
    pub user_cpu_us: u64,
    /// System CPU time, microseconds.
    pub system_cpu_us: u64,
    /// CPU time per task, milliseconds.
    #[serde(skip_serializing_if = "UsageStat::is_zero")]
    pub cpu_ms: UsageStat,
    /// Peak resident set, KiB.
    #[serde(skip_serializing_if = "UsageStat::is_zero")]
    pub rss_kib: UsageStat,
    /// Peak virtual size, KiB.
    #[serde(skip_serializing_if = "UsageStat::is_zero")]
    pub vsize_kib: UsageStat,
    /// Major page faults.
    #[serde(skip_serializing_if = "UsageStat::is_zero")]
    pub pages: UsageStat,
    /// Bytes read.
    #[serde(skip_serializing_if = "UsageStat::is_zero")]
    pub disk_read_bytes: UsageStat,
    /// Bytes written.
    #[serde(skip_serializing_if = "UsageStat::is_zero")]
    pub disk_write_bytes: UsageStat,
    /// Energy, joules.
    pub energy_joules: u64,
}

/// One step of one run. Key: (cluster, job_id, job_submit, attempt, step_id).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Job.
    pub job_id: JobId,
    /// [`JobRecord::submit`] of the run it belongs to.
    pub job_submit: UnixSeconds,
    /// [`JobRecord::attempt`] of the run it belongs to.
    pub attempt: u32,
    /// Step.
    pub step_id: StepId,
    /// Name.
    pub name: String,
    /// Tasks.
    pub tasks: u32,
    /// Nodes.
    pub nodes: u32,
    /// Nodes, a hostlist.
    pub node_list: String,
    /// Task distribution as sacct's `Layout` shows it: `Block`, `Cyclic`, `Unknown`.
    pub layout: String,
    /// Start.
    pub start: UnixSeconds,
    /// End.
    pub end: Option<UnixSeconds>,
    /// Seconds suspended.
    pub suspended_secs: u64,
    /// Base state, Slurm's number.
    pub state: u32,
    /// Highest wait status of its tasks.
    pub exit_status: i32,
    /// CPUs.
    pub cpus: u32,
    /// TRES given.
    pub alloc_tres: String,
    /// User who cancelled it.
    pub kill_requester: Option<u32>,
    /// Command line of srun.
    pub submit_line: String,
    /// Container bundle.
    pub container: String,
    /// Input path.
    pub std_in: String,
    /// Output path.
    pub std_out: String,
    /// Error path.
    pub std_err: String,
    /// Minutes; `None` = the job's.
    pub time_limit_minutes: Option<u32>,
    /// What it used; zero until it ended.
    pub usage: StepUsageRecord,
}

impl StepRecord {
    /// A running step (state 1) of `job` with everything else empty or zero.
    #[must_use]
    pub fn new(
        job_id: JobId,
        attempt: u32,
        job_submit: UnixSeconds,
        step_id: StepId,
        start: UnixSeconds,
    ) -> Self {
        Self {
            job_id,
            job_submit,
            attempt,
            step_id,
            name: String::new(),
            tasks: 0,
            nodes: 0,
            node_list: String::new(),
            layout: String::new(),
            start,
            end: None,
            suspended_secs: 0,
            state: 1,
            exit_status: 0,
            cpus: 0,
            alloc_tres: String::new(),
            kill_requester: None,
            submit_line: String::new(),
            container: String::new(),
            std_in: String::new(),
            std_out: String::new(),
            std_err: String::new(),
            time_limit_minutes: None,
            usage: StepUsageRecord::default(),
        }
    }
}

/// A period in which a node was down or drained, or in which the cluster had a certain size (empty node name).
///
/// Key: (cluster, node, time_start). Writing an event closes earlier open events of the same node at its `time_start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeEventRecord {
    /// Node; empty for an event of the whole cluster.
    pub node: String,
    /// From.
    pub time_start: UnixSeconds,
    /// To; `None` = still so.
    pub time_end: Option<UnixSeconds>,
    /// State as sinfo writes it in capitals: `DOWN`, `DRAIN`, `DOWN*`; empty for the cluster.
    pub state: String,
    /// Why.
    pub reason: String,
    /// Who, as `root(0)`; empty for the system.
    pub user: String,
    /// TRES of the node (or cluster) concerned.
    pub tres: String,
}

/// The controller introduces itself: written at its start and when the set of nodes changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterRegistration {
    /// When.
    pub time: UnixSeconds,
    /// Address of the controller.
    pub control_host: String,
    /// Its port.
    pub control_port: u32,
    /// Protocol version shown in the `RPC` column.
    pub rpc_version: u32,
    /// All TRES of the cluster.
    pub tres: String,
    /// All nodes, a hostlist.
    pub node_list: String,
}

/// One fact for the accounting database, derived from the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum AccountingUpdate {
    /// A job's record as it is now.
    Job(JobRecord),
    /// A step's record as it is now.
    Step(StepRecord),
    /// A node went down or was drained, or such a period ended.
    NodeEvent(NodeEventRecord),
    /// A node is in service again: closes its open events. `node` empty closes those of all nodes.
    NodeUp {
        /// Node.
        node: String,
        /// When.
        time: UnixSeconds,
    },
    /// The controller's description of the cluster.
    Cluster(ClusterRegistration),
}
