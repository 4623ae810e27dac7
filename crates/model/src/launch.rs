//! What travels between controller, agents and step daemons: orders, reports, launches, and the frames on a step's
//! connection to `srun`.
//!
//! Plain data: an order leaves nothing to choose at its destination (CPUs by id, GPUs by index). Orders may arrive twice and
//! out of date: `attempt` counts a job's runs, and an agent ignores orders of an older attempt than it knows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::exit_status::WaitStatus;
use crate::ids::{JobId, StepId};
use crate::job::{GresAllocation, OpenMode};
use crate::memory::MemoryMib;
use crate::node::{NodeHardware, NodeLoad};
use crate::step::StepOptions;
use crate::time::UnixSeconds;

/// Who a process runs as. Names and groups are resolved on the node; the numbers rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Credentials {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// User name.
    pub user_name: String,
    /// Group name.
    pub group_name: String,
}

/// A job as one node needs to know it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobOnNode {
    /// Job.
    pub job_id: JobId,
    /// Run number, from 0; grows with each requeue.
    pub attempt: u32,
    /// Owner.
    pub credentials: Credentials,
    /// Index of this node in the job.
    pub node_index: u32,
    /// Abstract CPU ids.
    pub cpu_ids: Vec<u32>,
    /// Memory limit.
    pub memory: MemoryMib,
    /// GRES by index.
    pub gres: Vec<GresAllocation>,
    /// Environment for Prolog and Epilog that the controller knows (`SLURM_JOB_*`); the agent adds node-local variables.
    pub script_environment: Vec<(String, String)>,
    /// `SLURM_*` variables every step of the job gets on this node.
    pub job_environment: Vec<(String, String)>,
    /// End of the time limit, for information.
    pub end_time: Option<UnixSeconds>,
}

/// One step's part on one node, ready to be started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepLaunch {
    /// Job.
    pub job_id: JobId,
    /// Run number of the job.
    pub attempt: u32,
    /// Step.
    pub step_id: StepId,
    /// Array the job belongs to.
    pub array_job_id: Option<JobId>,
    /// Task of the array.
    pub array_task_id: Option<u32>,
    /// Step name.
    pub name: String,
    /// Job name (for file patterns).
    pub job_name: String,
    /// Owner.
    pub credentials: Credentials,
    /// NodeName.
    pub node: String,
    /// Index of this node in the step.
    pub node_index: u32,
    /// Global ranks of the tasks here.
    pub task_ids: Vec<u32>,
    /// Tasks of the whole step.
    pub num_tasks: u32,
    /// Abstract CPU ids of the step here.
    pub cpu_ids: Vec<u32>,
    /// CPUs of one task.
    pub cpus_per_task: u32,
    /// Memory of the step here; 0 = the job's.
    pub memory: MemoryMib,
    /// GRES of the step here.
    pub gres: Vec<GresAllocation>,
    /// Batch script text; tasks run `argv` when it is `None`.
    pub script: Option<Vec<u8>>,
    /// Arguments: of the script, or program and arguments.
    pub argv: Vec<String>,
    /// `NAME=value`: the user's environment with everything the controller adds. The step daemon adds per-task variables.
    pub environment: Vec<String>,
    /// Working directory.
    pub work_dir: String,
    /// Umask.
    pub umask: u32,
    /// Limits to set.
    pub rlimits: BTreeMap<String, u64>,
    /// File pattern, `None` = through `srun` (or /dev/null in a batch step).
    pub std_in: Option<String>,
    /// File pattern, `None` = through `srun`.
    pub std_out: Option<String>,
    /// File pattern, `None` = through `srun` (batch: same as stdout).
    pub std_err: Option<String>,
    /// Open mode of those files.
    pub open_mode: OpenMode,
    /// Rows and columns of the pseudo terminal of task 0.
    pub pty: Option<(u16, u16)>,
    /// `--task-prolog`.
    pub task_prolog: Option<String>,
    /// `--task-epilog`.
    pub task_epilog: Option<String>,
    /// `host:port` of `srun`; empty = none.
    pub io_address: String,
    /// Secret to present there.
    pub io_secret: String,
    /// Restart count (for file patterns and SLURM_RESTART_COUNT).
    pub restart_count: u32,
    /// CPU binding as typed.
    pub cpu_bind: Option<String>,
    /// Distribution as typed.
    #[serde(default)]
    pub distribution: Option<String>,
    /// How the tasks are to be treated.
    #[serde(default)]
    pub options: StepOptions,
}

/// Who gets a signal on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignalTarget {
    /// One step.
    Step(StepId),
    /// Every step but the batch script.
    Steps,
    /// The batch shell only.
    BatchShell,
    /// The batch shell, its children, and every step.
    Full,
}

/// An order from the controller to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(
    clippy::large_enum_variant,
    reason = "orders are boxed by the channels that carry them"
)]
pub enum AgentOrder {
    /// The job has been given this node: run the Prolog, then accept its steps.
    StartJob(JobOnNode),
    /// Start this step here (after the job's Prolog; at most once per job, attempt, step).
    LaunchStep(StepLaunch),
    /// Send a signal.
    Signal {
        /// Job.
        job_id: JobId,
        /// Who gets it.
        target: SignalTarget,
        /// Number.
        signal: i32,
    },
    /// Write a line to the stderr of the job's batch step (and its steps), e.g. the time limit message.
    Notify {
        /// Job.
        job_id: JobId,
        /// Text, one line.
        text: String,
    },
    /// End one step: SIGCONT, SIGTERM, KillWait, SIGKILL.
    TerminateStep {
        /// Job.
        job_id: JobId,
        /// Run number.
        attempt: u32,
        /// Step.
        step_id: StepId,
    },
    /// End everything of this job here, run the Epilog, report [`AgentReport::EpilogDone`]. Repeated until that report comes.
    TerminateJob {
        /// Job.
        job_id: JobId,
        /// Run number.
        attempt: u32,
        /// Grace between SIGTERM and SIGKILL in seconds; 0 = SIGKILL at once (the job's own end).
        kill_wait_secs: u32,
        /// Line for the job's stderr, e.g. `*** JOB 7 ON n1 CANCELLED AT … DUE TO TIME LIMIT ***`; empty = none.
        message: String,
        /// Environment for the Epilog (as in [`JobOnNode::script_environment`], with exit codes), for an agent that lost the job.
        script_environment: Vec<(String, String)>,
        /// Owner, likewise.
        credentials: Credentials,
        /// GRES, likewise.
        gres: Vec<GresAllocation>,
    },
    /// Stop (freeze) or continue every process of the job.
    Suspend {
        /// Job.
        job_id: JobId,
        /// True = stop, false = continue.
        suspended: bool,
    },
    /// The controller has stored this report; the agent may forget it.
    Acknowledge {
        /// [`ReportEnvelope::sequence`].
        sequence: u64,
    },
    /// A new configuration bundle is there.
    Configuration {
        /// Version.
        version: u64,
    },
    /// Say what a step uses at the moment; answered by [`AgentReport::Usage`].
    ReportUsage {
        /// Number of the question.
        request: u64,
        /// Job.
        job_id: JobId,
        /// Step.
        step_id: StepId,
    },
    /// One more command wants to see a running step's streams: the step daemon connects there.
    AttachStep {
        /// Job.
        job_id: JobId,
        /// Step.
        step_id: StepId,
        /// `host:port`.
        address: String,
        /// Secret of that port.
        secret: String,
    },
    /// Run RebootProgram.
    Reboot {
        /// Why, for the log.
        reason: String,
    },
    /// Answer to [`AgentReport::Register`]: the jobs that should be here. Others are ended by the agent without a report.
    Registered {
        /// (job, attempt) pairs the controller knows on this node, also those being ended.
        jobs: Vec<(JobId, u32)>,
        /// Seconds between heartbeats.
        heartbeat_secs: u32,
    },
}

/// CPU, memory and I/O a step used on one node, read from the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepUsage {
    /// User CPU time, microseconds.
    pub user_cpu_us: u64,
    /// System CPU time, microseconds.
    pub system_cpu_us: u64,
    /// Highest resident set of any task, KiB.
    pub max_rss_kib: u64,
    /// Rank of that task.
    pub max_rss_task: u32,
    /// Sum over tasks of their highest resident set, KiB (for the average).
    pub total_rss_kib: u64,
    /// Highest virtual size of any task, KiB.
    pub max_vsize_kib: u64,
    /// Major page faults, highest of any task.
    pub max_pages: u64,
    /// Bytes read.
    pub disk_read_bytes: u64,
    /// Bytes written.
    pub disk_write_bytes: u64,
    /// A process was killed by the kernel for memory.
    pub out_of_memory: bool,
}

/// The end of a step on one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepExit {
    /// Job.
    pub job_id: JobId,
    /// Run number.
    pub attempt: u32,
    /// Step.
    pub step_id: StepId,
    /// (rank, wait status) of each task here.
    pub tasks: Vec<(u32, WaitStatus)>,
    /// Set when the step could not be started here: text for the user.
    pub launch_error: Option<String>,
    /// Usage.
    pub usage: StepUsage,
    /// When the last task ended.
    pub end_time: UnixSeconds,
}

/// A step an agent found alive when it (re)connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveStep {
    /// Job.
    pub job_id: JobId,
    /// Run number.
    pub attempt: u32,
    /// Step.
    pub step_id: StepId,
}

/// A report from an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum AgentReport {
    /// First message of every connection.
    Register {
        /// NodeName.
        node: String,
        /// Hardware.
        hardware: NodeHardware,
        /// Steps alive, or ended and not yet acknowledged.
        steps: Vec<LiveStep>,
        /// Jobs known here (prolog run), with attempt.
        jobs: Vec<(JobId, u32)>,
        /// Version of the configuration the agent runs with.
        config_version: u64,
        /// Result of the health check: text when it failed.
        health_error: Option<String>,
    },
    /// Sent every few seconds.
    Heartbeat {
        /// Load.
        load: NodeLoad,
    },
    /// The Prolog has ended.
    PrologDone {
        /// Job.
        job_id: JobId,
        /// Run number.
        attempt: u32,
        /// `None` = success; else reason with the script's last line.
        error: Option<String>,
    },
    /// The step's processes exist.
    StepStarted {
        /// Job.
        job_id: JobId,
        /// Run number.
        attempt: u32,
        /// Step.
        step_id: StepId,
        /// Pids by local task index.
        pids: Vec<u32>,
    },
    /// The step has ended here.
    StepEnded(StepExit),
    /// All processes are gone and the Epilog has ended.
    EpilogDone {
        /// Job.
        job_id: JobId,
        /// Run number.
        attempt: u32,
        /// `None` = success; else the drain reason.
        error: Option<String>,
    },
    /// Answer to [`AgentOrder::ReportUsage`].
    Usage {
        /// Number of the question.
        request: u64,
        /// Step.
        step_id: StepId,
        /// Figures; `None` = no such step is running here.
        usage: Option<StepUsage>,
        /// Pids by local task index.
        #[serde(default)]
        pids: Vec<u32>,
    },
    /// Something an administrator must know about the node: it is drained with this reason.
    Drain {
        /// Reason.
        reason: String,
    },
}

/// A report with its number; numbers grow on a node and survive restarts of the agent. 0 = needs no acknowledgement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportEnvelope {
    /// Number.
    pub sequence: u64,
    /// Report.
    pub report: AgentReport,
}

/// A frame from a step daemon to `srun`. Wire form: u32 big-endian length, then MessagePack with field names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum StepFrame {
    /// First frame of a connection.
    Hello {
        /// Empty: the secret is proved (see [`StepFrame::Proof`]), never sent.
        secret: String,
        /// NodeName.
        node: String,
        /// Index of the node in the step.
        node_index: u32,
        /// Ranks here.
        task_ids: Vec<u32>,
        /// Random text that the other side's proof must answer.
        #[serde(default)]
        nonce: String,
    },
    /// Answer to [`SrunFrame::Challenge`]: this end knows the secret too.
    Proof {
        /// See `sluice_frames::handshake`.
        proof: String,
    },
    /// Processes were started (or `error` says why not: a launch failure of the whole node).
    Started {
        /// Pids in the order of the ranks.
        pids: Vec<u32>,
        /// Failure text.
        error: Option<String>,
    },
    /// Output of a task.
    Output {
        /// Rank.
        task: u32,
        /// True = stderr.
        is_stderr: bool,
        /// Bytes; empty = end of that stream.
        data: Vec<u8>,
    },
    /// A task has ended.
    TaskExit {
        /// Rank.
        task: u32,
        /// Wait status.
        status: WaitStatus,
    },
    /// A text line for the user from the step daemon itself (`slurmstepd: error: …`).
    Message {
        /// Text without newline.
        text: String,
    },
    /// Every task here has ended and all output is sent.
    Done,
}

/// Not a signal but srun's order to end the step because a task failed; Slurm uses the same number.
pub const TASK_FAILURE_SIGNAL: i32 = 992;

/// A frame from `srun` to a step daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum SrunFrame {
    /// Answer to [`StepFrame::Hello`]: this end knows the secret, and asks for the same.
    Challenge {
        /// Random text that the step daemon's proof must answer.
        nonce: String,
        /// See `sluice_frames::handshake`.
        proof: String,
    },
    /// Accepts the connection.
    Welcome,
    /// Input for a task (`None` = every task here).
    Input {
        /// Rank.
        task: Option<u32>,
        /// Bytes; empty = end of file.
        data: Vec<u8>,
    },
    /// Send a signal to the tasks here.
    Signal {
        /// Number.
        signal: i32,
    },
    /// The terminal has a new size.
    WindowSize {
        /// Rows.
        rows: u16,
        /// Columns.
        columns: u16,
    },
}
