//! A step's folder: what the agent leaves there for the step daemon, and what the step daemon leaves for the agent.
//!
//! Plain data and whole-file reads and writes. Invariant: a file in the folder is either absent or whole, because every
//! write goes to a temporary name first and is renamed. Times are seconds unless the name says otherwise.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sluice_frames::FrameError;
use sluice_model::ids::{JobId, StepId};
use sluice_model::launch::StepLaunch;

/// What the step daemon is to do: [`StepSpec`].
pub const SPEC_FILE: &str = "spec.msgpack";
/// How it ended: [`sluice_model::launch::StepExit`].
pub const EXIT_FILE: &str = "exit.msgpack";
/// Process id of the step daemon, decimal.
pub const PID_FILE: &str = "pid";
/// The step daemon's own messages.
pub const LOG_FILE: &str = "stepd.log";
/// Control socket, see [`crate::control`].
pub const CONTROL_SOCKET: &str = "control.sock";
/// Processes that the step took in: number and time of start in clock ticks, one a line.
pub const ADOPTED_FILE: &str = "adopted";
/// Variable by which a step's processes are known: the step's folder.
pub const STEP_FOLDER_VARIABLE: &str = "SLUICE_STEP_DIR";
/// The batch script, in the job's folder.
pub const BATCH_SCRIPT: &str = "slurm_script";

/// Folder of a job under the agent's spool directory.
pub fn job_dir(spool: &Path, job: JobId) -> PathBuf {
    spool.join(format!("job{job}"))
}

/// Folder of a step.
pub fn step_dir(spool: &Path, job: JobId, step: StepId) -> PathBuf {
    job_dir(spool, job).join(format!("step_{step}"))
}

/// The whole order for one step daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepSpec {
    /// From the controller.
    pub launch: StepLaunch,
    /// From the agent.
    pub node: NodeSettings,
}

/// What only the node knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSettings {
    /// Variables that override the controller's: `SLURMD_NODENAME`, `SLURM_CONF`, `CUDA_VISIBLE_DEVICES`, ….
    pub environment: Vec<(String, String)>,
    /// Variables set only where nobody gave a value.
    pub default_environment: Vec<(String, String)>,
    /// Machine CPU of each entry of `launch.cpu_ids`; empty = do not bind.
    pub machine_cpus: Vec<u32>,
    /// Signals go to every process of the step, not only to the tasks (`SignalChildrenProcesses`).
    pub signal_children: bool,
    /// `TaskProlog`.
    pub task_prolog: Option<String>,
    /// `TaskEpilog`.
    pub task_epilog: Option<String>,
    /// Seconds between samples of memory use; 0 = only what the kernel keeps by itself.
    pub sample_secs: u32,
    /// End the step when its processes together use more than its memory (`OverMemoryKill`).
    pub over_memory_kill: bool,
    /// Control groups; `None` = processes are found by their ancestry.
    pub cgroup: Option<CgroupSettings>,
    /// Tasks are bound to CPUs of their own (`TaskPlugin=task/affinity`).
    pub affinity: bool,
    /// Every CPU of the node, by abstract id.
    pub node_cpus: Vec<CpuPlace>,
    /// Binding of a step that does not say how (`TaskPluginParam`): a word of `--cpu-bind`; empty = automatic.
    pub bind_default: String,
    /// What automatic binding falls back to (`TaskPluginParam=autobind=`); empty = no binding.
    pub autobind: String,
    /// Tell how tasks are bound (`TaskPluginParam=Verbose`).
    pub bind_verbose: bool,
}

/// Where a CPU is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuPlace {
    /// The kernel's number.
    pub machine: u32,
    /// Socket.
    pub socket: u32,
    /// Core, counted over the whole node.
    pub core: u32,
    /// NUMA node.
    pub ldom: u32,
}

/// Control groups of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CgroupSettings {
    /// Version 2: the folder under which `job_N/step_S` is made.
    pub unified: Option<PathBuf>,
    /// Version 1: controller name and the folder in its hierarchy.
    pub legacy: Vec<(String, PathBuf)>,
    /// Memory limit of the job in bytes; 0 = none.
    pub job_memory_bytes: u64,
    /// Memory limit of the step in bytes; 0 = the job's.
    pub step_memory_bytes: u64,
    /// Confine to `machine_cpus`.
    pub constrain_cores: bool,
    /// Device files that the step may not use.
    pub denied_devices: Vec<PathBuf>,
    /// A process killed for memory ends the whole step.
    pub oom_kill_step: bool,
}

/// Why a file of a step's folder could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The file system refused.
    #[error("cannot {action} {}", path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The content is not what belongs there.
    #[error("{} does not hold what belongs there; it was written by another version or is damaged", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: FrameError,
    },
}

/// Reads a file of MessagePack; `None` when there is none.
///
/// # Errors
/// See [`SpecError`].
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, SpecError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(SpecError::File {
                action: "read",
                path: path.to_path_buf(),
                source,
            });
        }
    };
    sluice_frames::from_payload(&bytes)
        .map(Some)
        .map_err(|source| SpecError::Content {
            path: path.to_path_buf(),
            source,
        })
}

/// Writes a file of MessagePack so that a reader sees all of it or none.
///
/// Not synced to the disk: what these files describe does not survive a crash of the machine either.
///
/// # Errors
/// See [`SpecError`].
pub fn store<T: Serialize>(path: &Path, value: &T) -> Result<(), SpecError> {
    let bytes = sluice_frames::to_payload(value).map_err(|source| SpecError::Content {
        path: path.to_path_buf(),
        source,
    })?;
    let temporary = path.with_extension("new");
    // Names of jobs and users, environments, secrets of steps: nobody else's business.
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(&bytes))
        .and_then(|()| fs::rename(&temporary, path))
        .map_err(|source| SpecError::File {
            action: "write",
            path: path.to_path_buf(),
            source,
        })
}
