//! Steps: what `srun` asks for and what can be read about a step.
//!
//! Plain data; see [`crate::launch`] for what is sent to the nodes. Memory in MiB, times in seconds since the epoch.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::exit_status::WaitStatus;
use crate::gres::GresRequest;
use crate::ids::{JobId, StepId};
use crate::job::OpenMode;
use crate::memory::MemoryMib;
use crate::state::JobStateFull;
use crate::time::{TimeLimit, UnixSeconds};
use crate::tres::Tres;

/// A request to create and launch a step, as `srun` sends it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepDescription {
    /// The job it belongs to.
    pub job_id: u32,
    /// Step name (the program's base name, or `--job-name`).
    pub name: String,
    /// `--nodes`, lower bound.
    pub min_nodes: Option<u32>,
    /// `--nodes`, upper bound.
    pub max_nodes: Option<u32>,
    /// `--ntasks`.
    pub ntasks: Option<u32>,
    /// `--ntasks-per-node`.
    pub ntasks_per_node: Option<u32>,
    /// `--cpus-per-task`.
    pub cpus_per_task: Option<u32>,
    /// `--mem`.
    pub mem_per_node: Option<MemoryMib>,
    /// `--mem-per-cpu`.
    pub mem_per_cpu: Option<MemoryMib>,
    /// `--gres`.
    pub gres_per_node: Vec<GresRequest>,
    /// `--gpus`.
    pub gres_per_step: Vec<GresRequest>,
    /// `--gpus-per-task`.
    pub gres_per_task: Vec<GresRequest>,
    /// `--nodelist`.
    pub required_nodes: Option<String>,
    /// `--exclude`.
    pub excluded_nodes: Option<String>,
    /// `--relative`.
    pub relative_node: Option<u32>,
    /// `--exact`/`--exclusive`: only what was asked for.
    pub exact: bool,
    /// `--overlap`: share with other steps.
    pub overlap: bool,
    /// `--overcommit`.
    pub overcommit: bool,
    /// `--distribution` as typed.
    pub distribution: Option<String>,
    /// `--cpu-bind` as typed.
    pub cpu_bind: Option<String>,
    /// `--gpu-bind` as typed.
    pub gpu_bind: Option<String>,
    /// `--time`.
    pub time_limit: Option<TimeLimit>,
    /// `--kill-on-bad-exit`; `None` = KillOnBadExit of the configuration.
    pub kill_on_bad_exit: Option<bool>,
    /// `--interactive`: the step of `salloc`.
    pub interactive: bool,

    /// Program and arguments (one entry; several with `--multi-prog`).
    pub argv: Vec<String>,
    /// `NAME=value`.
    pub environment: Vec<String>,
    /// Working directory.
    pub work_dir: String,
    /// Umask.
    pub umask: u32,
    /// Limits to set, see `JobDescription::rlimits`.
    pub rlimits: BTreeMap<String, u64>,
    /// File pattern for stdin on the nodes; `None` = through `srun`.
    pub std_in: Option<String>,
    /// File pattern for stdout on the nodes; `None` = through `srun`.
    pub std_out: Option<String>,
    /// File pattern for stderr on the nodes; `None` = through `srun`.
    pub std_err: Option<String>,
    /// `--open-mode`.
    pub open_mode: Option<OpenMode>,
    /// Task 0 gets a pseudo terminal with these rows and columns.
    pub pty: Option<(u16, u16)>,
    /// `--task-prolog`.
    pub task_prolog: Option<String>,
    /// `--task-epilog`.
    pub task_epilog: Option<String>,
    /// `host:port` where `srun` listens for the step's connections; empty = none.
    pub io_address: String,
    /// Secret the nodes present there.
    pub io_secret: String,
    /// Host and pid of `srun`.
    pub srun_host: String,
    /// See [`Self::srun_host`].
    pub srun_pid: u32,
    /// Key for retries, as for submissions.
    pub submission_key: String,
    /// Options kept without effect.
    pub extra: BTreeMap<String, String>,
    /// How its tasks are to be treated.
    pub options: StepOptions,
}

/// Options of a step that its nodes need as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepOptions {
    /// `--multi-prog`: text of the file that names each rank's program.
    pub multi_prog: Option<String>,
    /// `--mem-bind` as typed.
    pub mem_bind: Option<String>,
    /// `--distribution=arbitrary`: the node of each rank, in order.
    pub host_list: Vec<String>,
    /// `--wait-for-children`: a task ends when its whole process group has ended.
    pub wait_for_children: bool,
    /// `--oom-kill-step`; `None` = as configured.
    pub oom_kill_step: Option<bool>,
    /// `--preserve-env`: SLURM_NNODES, SLURM_NTASKS and the like stay as they came.
    pub preserve_env: bool,
    /// `--external-launcher`: the step exists for a launcher that starts the tasks itself.
    pub external_launcher: bool,
}

/// Where the tasks of a step run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepLayout {
    /// One entry a node, in the order of the node list.
    pub nodes: Vec<StepNode>,
}

/// The part of a step on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepNode {
    /// NodeName.
    pub node: String,
    /// Global ranks of the tasks here.
    pub task_ids: Vec<u32>,
    /// CPU ids of the step here (subset of the job's).
    pub cpu_ids: Vec<u32>,
    /// Memory of the step here.
    pub memory: MemoryMib,
    /// GRES of the step here.
    pub gres: Vec<crate::job::GresAllocation>,
}

/// What can be read about a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepInfo {
    /// Job.
    pub job_id: JobId,
    /// When the job was submitted.
    #[serde(default)]
    pub submit_time: UnixSeconds,
    /// Array the job belongs to.
    pub array_job_id: Option<JobId>,
    /// Task of the array.
    pub array_task_id: Option<u32>,
    /// Step.
    pub step_id: StepId,
    /// Name.
    pub name: String,
    /// Owner.
    pub uid: u32,
    /// Owner's name.
    pub user_name: String,
    /// Partition of the job.
    pub partition: String,
    /// State.
    pub state: JobStateFull,
    /// Start.
    pub start_time: UnixSeconds,
    /// End, when it has ended.
    pub end_time: Option<UnixSeconds>,
    /// Limit.
    pub time_limit: TimeLimit,
    /// Hostlist.
    pub nodes: String,
    /// Number of nodes.
    pub num_nodes: u32,
    /// CPUs.
    pub num_cpus: u32,
    /// Tasks.
    pub num_tasks: u32,
    /// TRES.
    pub tres: Tres,
    /// Host and pid of `srun`.
    pub srun_host: String,
    /// See [`Self::srun_host`].
    pub srun_pid: u32,
    /// Exit status, when it has ended.
    pub exit_status: WaitStatus,
    /// Distribution name as shown (`Block`, `Cyclic`).
    pub distribution: String,
    /// Tasks per node.
    pub layout: StepLayout,
}
