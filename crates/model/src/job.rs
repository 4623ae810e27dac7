//! The job: what a user asks for ([`JobDescription`]) and what everybody may read about it ([`JobInfo`]).
//!
//! Plain data without behaviour that decides anything: checks belong to the engine, formatting to the commands. Memory is in
//! MiB, times are seconds since the epoch, limits are minutes. Field names follow `sbatch(1)` and `scontrol(1)`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::default_fields::is_default;
use crate::exit_status::WaitStatus;
use crate::gres::GresRequest;
use crate::ids::{JobId, StepId};
use crate::memory::MemoryMib;
use crate::reason::Reason;
use crate::state::JobStateFull;
use crate::time::{TimeLimit, UnixSeconds};
use crate::tres::Tres;

/// `--exclusive[=…]` of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Exclusive {
    /// The whole node belongs to the job.
    Node,
    /// Only jobs of this user may share the node.
    User,
    /// Only jobs with the same MCS label may share the node.
    Mcs,
    /// Only this job in the topology segment.
    Topo,
}

/// `--open-mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenMode {
    /// Keep what the file holds.
    Append,
    /// Empty the file first.
    Truncate,
}

/// `--signal=[{R|B}:]sig[@sec]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarnSignal {
    /// Signal number.
    pub signal: i32,
    /// Seconds before the end of the time limit.
    pub seconds: u32,
    /// `B:` – only the batch shell gets it.
    pub batch_only: bool,
    /// `R:` – the job may borrow reservations with MaxStartDelay.
    pub reservation: bool,
}

/// A request for a job: what `sbatch`, `salloc` and `srun` send. `None` means "not given": the engine fills in defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobDescription {
    /// `--job-name`.
    #[serde(skip_serializing_if = "is_default")]
    pub name: Option<String>,
    /// `--account`.
    #[serde(skip_serializing_if = "is_default")]
    pub account: Option<String>,
    /// `--partition`, a list.
    #[serde(skip_serializing_if = "is_default")]
    pub partitions: Vec<String>,
    /// `--qos`, possibly a list separated by commas.
    #[serde(skip_serializing_if = "is_default")]
    pub qos: Option<String>,
    /// `--reservation`.
    #[serde(skip_serializing_if = "is_default")]
    pub reservation: Option<String>,
    /// `--wckey`.
    #[serde(skip_serializing_if = "is_default")]
    pub wckey: Option<String>,
    /// `--comment`.
    #[serde(skip_serializing_if = "is_default")]
    pub comment: Option<String>,
    /// `--licenses` as typed.
    #[serde(skip_serializing_if = "is_default")]
    pub licenses: Option<String>,

    /// User the job runs as. Filled in by the server from the caller's identity; only root and SlurmUser may name another.
    #[serde(skip_serializing_if = "is_default")]
    pub uid: u32,
    /// Primary group, see [`Self::uid`].
    #[serde(skip_serializing_if = "is_default")]
    pub gid: u32,

    /// `--nodes`, lower bound.
    #[serde(skip_serializing_if = "is_default")]
    pub min_nodes: Option<u32>,
    /// `--nodes`, upper bound.
    #[serde(skip_serializing_if = "is_default")]
    pub max_nodes: Option<u32>,
    /// `--ntasks`.
    #[serde(skip_serializing_if = "is_default")]
    pub ntasks: Option<u32>,
    /// `--cpus-per-task`.
    #[serde(skip_serializing_if = "is_default")]
    pub cpus_per_task: Option<u32>,
    /// `--ntasks-per-node`.
    #[serde(skip_serializing_if = "is_default")]
    pub ntasks_per_node: Option<u32>,
    /// `--ntasks-per-socket`.
    #[serde(skip_serializing_if = "is_default")]
    pub ntasks_per_socket: Option<u32>,
    /// `--ntasks-per-core`.
    #[serde(skip_serializing_if = "is_default")]
    pub ntasks_per_core: Option<u32>,
    /// `--ntasks-per-gpu`.
    #[serde(skip_serializing_if = "is_default")]
    pub ntasks_per_gpu: Option<u32>,
    /// `--mincpus`.
    #[serde(skip_serializing_if = "is_default")]
    pub min_cpus_per_node: Option<u32>,
    /// `--threads-per-core`.
    #[serde(skip_serializing_if = "is_default")]
    pub threads_per_core: Option<u32>,
    /// `--sockets-per-node`, `-B` first field.
    #[serde(skip_serializing_if = "is_default")]
    pub sockets_per_node: Option<u32>,
    /// `--cores-per-socket`, `-B` second field.
    #[serde(skip_serializing_if = "is_default")]
    pub cores_per_socket: Option<u32>,
    /// `--core-spec`.
    #[serde(skip_serializing_if = "is_default")]
    pub core_spec: Option<u32>,
    /// `--mem`: MiB per node; 0 = all memory of the node.
    #[serde(skip_serializing_if = "is_default")]
    pub mem_per_node: Option<MemoryMib>,
    /// `--mem-per-cpu`.
    #[serde(skip_serializing_if = "is_default")]
    pub mem_per_cpu: Option<MemoryMib>,
    /// `--mem-per-gpu`.
    #[serde(skip_serializing_if = "is_default")]
    pub mem_per_gpu: Option<MemoryMib>,
    /// `--tmp`, MiB.
    #[serde(skip_serializing_if = "is_default")]
    pub tmp_disk_mib: Option<u64>,
    /// `--gres` and `--gpus-per-node`: per node.
    #[serde(skip_serializing_if = "is_default")]
    pub gres_per_node: Vec<GresRequest>,
    /// `--gpus`: for the whole job.
    #[serde(skip_serializing_if = "is_default")]
    pub gres_per_job: Vec<GresRequest>,
    /// `--gpus-per-socket`.
    #[serde(skip_serializing_if = "is_default")]
    pub gres_per_socket: Vec<GresRequest>,
    /// `--gpus-per-task`.
    #[serde(skip_serializing_if = "is_default")]
    pub gres_per_task: Vec<GresRequest>,
    /// `--cpus-per-gpu`.
    #[serde(skip_serializing_if = "is_default")]
    pub cpus_per_gpu: Option<u32>,
    /// `--constraint` as typed.
    #[serde(skip_serializing_if = "is_default")]
    pub constraint: Option<String>,
    /// `--prefer` as typed.
    #[serde(skip_serializing_if = "is_default")]
    pub prefer: Option<String>,
    /// `--nodelist`: a hostlist.
    #[serde(skip_serializing_if = "is_default")]
    pub required_nodes: Option<String>,
    /// `--exclude`: a hostlist.
    #[serde(skip_serializing_if = "is_default")]
    pub excluded_nodes: Option<String>,
    /// `--contiguous`.
    #[serde(skip_serializing_if = "is_default")]
    pub contiguous: bool,
    /// `--exclusive`.
    #[serde(skip_serializing_if = "is_default")]
    pub exclusive: Option<Exclusive>,
    /// `--oversubscribe`.
    #[serde(skip_serializing_if = "is_default")]
    pub oversubscribe: bool,
    /// `--overcommit`.
    #[serde(skip_serializing_if = "is_default")]
    pub overcommit: bool,
    /// `--spread-job`.
    #[serde(skip_serializing_if = "is_default")]
    pub spread_job: bool,
    /// `--use-min-nodes`.
    #[serde(skip_serializing_if = "is_default")]
    pub use_min_nodes: bool,

    /// `--time`.
    #[serde(skip_serializing_if = "is_default")]
    pub time_limit: Option<TimeLimit>,
    /// `--time-min`.
    #[serde(skip_serializing_if = "is_default")]
    pub time_min: Option<TimeLimit>,
    /// `--begin`.
    #[serde(skip_serializing_if = "is_default")]
    pub begin_time: Option<UnixSeconds>,
    /// `--deadline`.
    #[serde(skip_serializing_if = "is_default")]
    pub deadline: Option<UnixSeconds>,
    /// `--dependency` as typed.
    #[serde(skip_serializing_if = "is_default")]
    pub dependency: Option<String>,
    /// `--kill-on-invalid-dep`.
    #[serde(skip_serializing_if = "is_default")]
    pub kill_on_invalid_dep: Option<bool>,
    /// `--array` as typed.
    #[serde(skip_serializing_if = "is_default")]
    pub array: Option<String>,
    /// `--hold`.
    #[serde(skip_serializing_if = "is_default")]
    pub hold: bool,
    /// `--nice`.
    #[serde(skip_serializing_if = "is_default")]
    pub nice: i32,
    /// `--priority`.
    #[serde(skip_serializing_if = "is_default")]
    pub priority: Option<u32>,
    /// `--requeue` (true) or `--no-requeue` (false).
    #[serde(skip_serializing_if = "is_default")]
    pub requeue: Option<bool>,
    /// `--no-kill`.
    #[serde(skip_serializing_if = "is_default")]
    pub no_kill: bool,
    /// `--signal`.
    #[serde(skip_serializing_if = "is_default")]
    pub warn_signal: Option<WarnSignal>,
    /// `--mail-type` as typed.
    #[serde(skip_serializing_if = "is_default")]
    pub mail_type: Option<String>,
    /// `--mail-user`.
    #[serde(skip_serializing_if = "is_default")]
    pub mail_user: Option<String>,

    /// `--chdir`, absolute.
    #[serde(skip_serializing_if = "is_default")]
    pub work_dir: String,
    /// `--input` pattern.
    #[serde(skip_serializing_if = "is_default")]
    pub std_in: Option<String>,
    /// `--output` pattern.
    #[serde(skip_serializing_if = "is_default")]
    pub std_out: Option<String>,
    /// `--error` pattern.
    #[serde(skip_serializing_if = "is_default")]
    pub std_err: Option<String>,
    /// `--open-mode`.
    #[serde(skip_serializing_if = "is_default")]
    pub open_mode: Option<OpenMode>,
    /// Text of the batch script; `None` for an allocation of `salloc` or `srun`. Moved out by the server into a blob.
    #[serde(skip_serializing_if = "is_default")]
    pub script: Option<Vec<u8>>,
    /// Arguments after the script's name.
    #[serde(skip_serializing_if = "is_default")]
    pub script_args: Vec<String>,
    /// Path of the script as typed (`Command=`).
    #[serde(skip_serializing_if = "is_default")]
    pub command: Option<String>,
    /// `NAME=value` strings for the script. Moved out by the server into a blob.
    #[serde(skip_serializing_if = "is_default")]
    pub environment: Vec<String>,
    /// File mode creation mask.
    #[serde(skip_serializing_if = "is_default")]
    pub umask: u32,
    /// Resource limits to set: name without `RLIMIT_` (`NOFILE`) → soft limit, `u64::MAX` = unlimited.
    #[serde(skip_serializing_if = "is_default")]
    pub rlimits: BTreeMap<String, u64>,

    /// `--distribution` as typed.
    #[serde(skip_serializing_if = "is_default")]
    pub distribution: Option<String>,
    /// `--cpu-bind` as typed.
    #[serde(skip_serializing_if = "is_default")]
    pub cpu_bind: Option<String>,
    /// `--mem-bind` as typed.
    #[serde(skip_serializing_if = "is_default")]
    pub mem_bind: Option<String>,
    /// `--gpu-bind` / `--tres-bind` as typed.
    #[serde(skip_serializing_if = "is_default")]
    pub gpu_bind: Option<String>,

    /// The batch flag: false for `salloc` and `srun`.
    #[serde(skip_serializing_if = "is_default")]
    pub batch: bool,
    /// `--immediate`: seconds the allocation may wait; `Some(0)` = at once or never.
    #[serde(skip_serializing_if = "is_default")]
    pub immediate_secs: Option<u32>,
    /// Host the submission came from.
    #[serde(skip_serializing_if = "is_default")]
    pub submit_host: String,
    /// Session id of the submitting shell.
    #[serde(skip_serializing_if = "is_default")]
    pub submit_sid: u32,
    /// The command line as typed.
    #[serde(skip_serializing_if = "is_default")]
    pub submit_line: String,
    /// Key chosen by the client, the same for every retry of one submission; empty = none. See the engine's `SubmitJob`.
    #[serde(skip_serializing_if = "is_default")]
    pub submission_key: String,
    /// Options that are kept on the record and have no effect yet: long option name → value.
    #[serde(skip_serializing_if = "is_default")]
    pub extra: BTreeMap<String, String>,
    /// The job is an entry of a crontab: its calendar, as written there. Filled in by the server only.
    #[serde(skip_serializing_if = "is_default")]
    pub cron_spec: Option<String>,
}

/// Resources of one job on one node, as chosen by the controller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAllocationInfo {
    /// NodeName.
    pub node: String,
    /// Abstract CPU ids (block numbering: first thread of the first core of the first socket is 0), ascending.
    pub cpu_ids: Vec<u32>,
    /// Memory in MiB.
    pub memory: MemoryMib,
    /// GRES given: name, type and indices.
    pub gres: Vec<GresAllocation>,
}

/// Some devices of one GRES on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GresAllocation {
    /// `gpu`.
    pub name: String,
    /// `h100`, if the node's GRES has a type.
    pub type_name: Option<String>,
    /// How many.
    pub count: u64,
    /// Indices in the node's list of this GRES; empty for countable GRES without devices.
    pub indices: Vec<u32>,
}

/// Everything that `squeue` and `scontrol show job` can print about a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobInfo {
    /// Id of this record.
    pub job_id: JobId,
    /// Id of the array, if it is (part of) one.
    pub array_job_id: Option<JobId>,
    /// Index of a task that has been split off.
    pub array_task_id: Option<u32>,
    /// Unstarted tasks of the array's record, `4-9,12:2`; without throttle.
    pub array_task_string: Option<String>,
    /// `%N`, 0 = none.
    pub array_max_tasks: u32,
    /// The request as the engine holds it now (defaults filled in; no script, no environment).
    pub description: JobDescription,
    /// User name.
    pub user_name: String,
    /// Group name.
    pub group_name: String,
    /// State and flags.
    pub state: JobStateFull,
    /// Why it waits, or why it ended.
    pub reason: Reason,
    /// More words for the reason.
    pub reason_text: Option<String>,
    /// Priority; 0 = held.
    pub priority: u32,
    /// Partition it runs in, or the requested list.
    pub partition: String,
    /// Account used.
    pub account: String,
    /// QOS used.
    pub qos: String,
    /// Remaining dependencies as `afterok:20(unfulfilled)`.
    pub dependency: Option<String>,
    /// Requeue allowed.
    pub requeue: bool,
    /// Times it has been requeued.
    pub restarts: u32,
    /// Exit status of the batch script or allocation.
    pub exit_status: WaitStatus,
    /// Highest exit status of any step.
    pub derived_exit_status: WaitStatus,
    /// Limit in force.
    pub time_limit: TimeLimit,
    /// Submission (reset by a requeue).
    pub submit_time: UnixSeconds,
    /// When it became (or will become) eligible.
    pub eligible_time: Option<UnixSeconds>,
    /// Since when its age counts.
    pub accrue_time: Option<UnixSeconds>,
    /// Start, or the expected start of a pending job.
    pub start_time: Option<UnixSeconds>,
    /// End, or the expected end of a running job.
    pub end_time: Option<UnixSeconds>,
    /// Time of the last suspend or resume.
    pub suspend_time: Option<UnixSeconds>,
    /// Run time before the last suspend, seconds.
    pub pre_suspend_secs: i64,
    /// Last time the scheduler looked at it.
    pub last_sched_eval: Option<UnixSeconds>,
    /// `Main`, `Backfill` or `Submit`.
    pub scheduler: Option<String>,
    /// Allocated nodes, a hostlist; empty while pending.
    pub nodes: String,
    /// Nodes planned for a pending job.
    pub sched_nodes: Option<String>,
    /// First node.
    pub batch_host: Option<String>,
    /// Node whose failure ended the job.
    pub failed_node: Option<String>,
    /// Nodes: allocated, or requested while pending.
    pub num_nodes: u32,
    /// CPUs: allocated, or requested while pending.
    pub num_cpus: u32,
    /// Tasks.
    pub num_tasks: u32,
    /// Requested TRES.
    pub req_tres: Tres,
    /// Allocated TRES.
    pub alloc_tres: Tres,
    /// What it has on each node.
    pub allocation: Vec<NodeAllocationInfo>,
    /// Nodes whose epilog has not ended yet, while COMPLETING.
    pub completing_nodes: Vec<String>,
    /// Next numeric step id.
    pub next_step_id: u32,
    /// Name of the user who cancelled it, as uid.
    pub kill_requester: Option<u32>,
    /// Expanded output paths.
    pub std_out_path: String,
    /// See [`Self::std_out_path`].
    pub std_err_path: String,
    /// See [`Self::std_out_path`].
    pub std_in_path: String,
    /// Text an administrator or the system attached.
    pub admin_comment: Option<String>,
    /// See [`Self::admin_comment`].
    pub system_comment: Option<String>,
    /// Id of the first component, if it is one of a heterogeneous job.
    #[serde(default)]
    pub het_job_id: Option<JobId>,
    /// Number of this component, from 0.
    #[serde(default)]
    pub het_job_offset: Option<u32>,
    /// Ids of all components, `12-14`.
    #[serde(default)]
    pub het_job_id_set: Option<String>,
    /// Licences it holds, `matlab:10`.
    #[serde(default)]
    pub licenses_allocated: Option<String>,
    /// Association charged; 0 = none.
    #[serde(default)]
    pub association_id: u32,
    /// Priority in each partition of a waiting job that names several, in the order of its list.
    #[serde(default)]
    pub priority_by_partition: Vec<PartitionPriority>,
}

/// A job's priority in one of its partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartitionPriority {
    /// Partition.
    pub partition: String,
    /// Priority.
    pub priority: u32,
}

/// A change to a job, as `scontrol update`, `hold`, `release` and `requeue` send it. `None` leaves a field alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobUpdate {
    /// Name.
    pub name: Option<String>,
    /// Partitions.
    pub partitions: Option<Vec<String>>,
    /// Account.
    pub account: Option<String>,
    /// QOS.
    pub qos: Option<String>,
    /// Time limit.
    pub time_limit: Option<TimeLimit>,
    /// Begin time (`StartTime=`/`EligibleTime=`).
    pub begin_time: Option<UnixSeconds>,
    /// Deadline.
    pub deadline: Option<UnixSeconds>,
    /// Dependency; empty clears it.
    pub dependency: Option<String>,
    /// Priority set by hand; `u32::MAX` = compute it again.
    pub priority: Option<u32>,
    /// Nice value.
    pub nice: Option<i32>,
    /// Minimum nodes.
    pub min_nodes: Option<u32>,
    /// Maximum nodes.
    pub max_nodes: Option<u32>,
    /// Tasks.
    pub ntasks: Option<u32>,
    /// CPUs per task.
    pub cpus_per_task: Option<u32>,
    /// Memory per node.
    pub mem_per_node: Option<MemoryMib>,
    /// Memory per CPU.
    pub mem_per_cpu: Option<MemoryMib>,
    /// Constraint; empty clears it.
    pub constraint: Option<String>,
    /// Required nodes; empty clears them.
    pub required_nodes: Option<String>,
    /// Excluded nodes; empty clears them.
    pub excluded_nodes: Option<String>,
    /// GRES per node; empty list clears it.
    pub gres_per_node: Option<Vec<GresRequest>>,
    /// Requeue allowed.
    pub requeue: Option<bool>,
    /// Comment.
    pub comment: Option<String>,
    /// Administrator's comment.
    pub admin_comment: Option<String>,
    /// `%N` of an array.
    pub array_throttle: Option<u32>,
    /// Licences.
    pub licenses: Option<String>,
    /// Reservation.
    pub reservation: Option<String>,
    /// WCKey.
    pub wckey: Option<String>,
    /// Output path.
    pub std_out: Option<String>,
    /// Error path.
    pub std_err: Option<String>,
    /// Input path.
    pub std_in: Option<String>,
    /// Working directory.
    pub work_dir: Option<String>,
    /// Mail types.
    pub mail_type: Option<String>,
    /// Mail address.
    pub mail_user: Option<String>,
    /// Minutes added to the time limit in force (`TimeLimit+=`).
    pub time_limit_change: Option<i64>,
    /// `TimeMin=`.
    pub time_min: Option<TimeLimit>,
    /// `EndTime=` of a running job.
    pub end_time: Option<UnixSeconds>,
    /// `NumCPUs=`, lower bound.
    pub num_cpus: Option<u32>,
    /// `MinCPUsNode=`.
    pub min_cpus_per_node: Option<u32>,
    /// `MinTmpDiskNode=`, MiB.
    pub tmp_disk_mib: Option<u64>,
    /// `TasksPerNode=`.
    pub ntasks_per_node: Option<u32>,
    /// `ReqSockets=`.
    pub sockets_per_node: Option<u32>,
    /// `ReqCores=`.
    pub cores_per_socket: Option<u32>,
    /// `ReqThreads=`.
    pub threads_per_core: Option<u32>,
    /// `CoreSpec=`; `u32::MAX` clears it.
    pub core_spec: Option<u32>,
    /// `Contiguous=`.
    pub contiguous: Option<bool>,
    /// `OverSubscribe=`.
    pub oversubscribe: Option<bool>,
    /// `Prefer=`; empty clears it.
    pub prefer: Option<String>,
    /// `ResetAccrueTime`.
    pub reset_accrue: bool,
    /// Nodes a running job keeps (`NodeList=`), a hostlist.
    pub keep_nodes: Option<String>,
    /// Options kept on the record, by the long name of the option of sbatch; an empty value clears one.
    pub extra: BTreeMap<String, String>,
}

/// What a step is attached to in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepKey {
    /// The job.
    pub job: JobId,
    /// The step.
    pub step: StepId,
}
