//! Settings of the compute-node agent: scripts around jobs, health check, process tracking, cgroups.
//!
//! Plain data. Source: `slurm.conf(5)`, `cgroup.conf(5)`, page `prolog_epilog`.

use serde::{Deserialize, Serialize};

/// One entry of Prolog, Epilog, PrologSlurmctld or EpilogSlurmctld.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeScript {
    /// An absolute path or glob on the machine that runs it. A glob's matches run in **reverse alphabetical** order.
    Path(String),
    /// A script whose text is part of the configuration (relative path in slurm.conf, or script list of a JSON document).
    Text {
        /// Relative file name, such as `prolog.d/02-prolog.sh`.
        name: String,
        /// Whole text.
        text: String,
    },
}

/// PrologFlags, with what each flag implies already set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are Slurm's")]
pub struct PrologFlags {
    pub alloc: bool,
    pub contain: bool,
    pub defer_batch: bool,
    pub no_hold: bool,
    pub force_requeue_on_fail: bool,
    pub run_in_job: bool,
    pub serial: bool,
    pub x11: bool,
}

/// Scripts around jobs and tasks. Lists are in the order in which they run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptSettings {
    /// Prolog.
    pub prolog: Vec<NodeScript>,
    /// Epilog.
    pub epilog: Vec<NodeScript>,
    /// PrologSlurmctld.
    pub prolog_slurmctld: Vec<NodeScript>,
    /// EpilogSlurmctld.
    pub epilog_slurmctld: Vec<NodeScript>,
    /// TaskProlog.
    pub task_prolog: Option<String>,
    /// TaskEpilog.
    pub task_epilog: Option<String>,
    /// SrunProlog.
    pub srun_prolog: Option<String>,
    /// SrunEpilog.
    pub srun_epilog: Option<String>,
    /// ResvProlog.
    pub resv_prolog: Option<String>,
    /// ResvEpilog.
    pub resv_epilog: Option<String>,
    /// PrologFlags.
    pub flags: PrologFlags,
    /// PrologTimeout (else PrologEpilogTimeout), seconds; `None` = wait for ever.
    pub prolog_timeout_secs: Option<u32>,
    /// EpilogTimeout (else PrologEpilogTimeout), seconds; `None` = wait for ever.
    pub epilog_timeout_secs: Option<u32>,
    /// EpilogMsgTime, microseconds.
    pub epilog_msg_time_us: u32,
}

/// HealthCheck*.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCheckSettings {
    /// HealthCheckProgram.
    pub program: Option<String>,
    /// HealthCheckInterval, seconds; 0 = off.
    pub interval_secs: u32,
    /// HealthCheckNodeState items, upper case.
    pub node_state: Vec<String>,
    /// HealthCheckTimeout, seconds.
    pub timeout_secs: u32,
}

/// ProctrackType.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProctrackKind {
    /// proctrack/cgroup.
    Cgroup,
    /// proctrack/linuxproc.
    LinuxProc,
    /// proctrack/pgid.
    Pgid,
}

/// Settings of `agentd`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSettings {
    /// ReturnToService: 0, 1 or 2.
    pub return_to_service: u8,
    /// ProctrackType.
    pub proctrack: ProctrackKind,
    /// task/affinity.
    pub task_affinity: bool,
    /// task/cgroup.
    pub task_cgroup: bool,
    /// TaskPluginParam items, as written.
    pub task_plugin_param: Vec<String>,
    /// SlurmdParameters items, as written.
    pub slurmd_parameters: Vec<String>,
    /// `config_overrides` of SlurmdParameters: a node with less than configured is not drained.
    pub config_overrides: bool,
    /// HealthCheck*.
    pub health_check: HealthCheckSettings,
    /// RebootProgram.
    pub reboot_program: Option<String>,
    /// UnkillableStepProgram.
    pub unkillable_step_program: Option<String>,
    /// TreeWidth.
    pub tree_width: u16,
    /// GroupUpdateForce.
    pub group_update_force: bool,
    /// GroupUpdateTime, seconds.
    pub group_update_secs: u32,
}

/// CgroupPlugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CgroupPlugin {
    /// autodetect.
    Autodetect,
    /// cgroup/v1.
    V1,
    /// cgroup/v2.
    V2,
    /// disabled.
    Disabled,
}

/// cgroup.conf. Percentages are of the allocation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CgroupSettings {
    /// CgroupPlugin.
    pub plugin: CgroupPlugin,
    /// CgroupMountpoint.
    pub mountpoint: String,
    /// CgroupSlice.
    pub slice: Option<String>,
    /// ConstrainCores.
    pub constrain_cores: bool,
    /// ConstrainDevices.
    pub constrain_devices: bool,
    /// ConstrainRAMSpace.
    pub constrain_ram_space: bool,
    /// ConstrainSwapSpace.
    pub constrain_swap_space: bool,
    /// AllowedRAMSpace, percent.
    pub allowed_ram_space_percent: f64,
    /// AllowedSwapSpace, percent.
    pub allowed_swap_space_percent: f64,
    /// MaxRAMPercent, percent of the machine's memory.
    pub max_ram_percent: f64,
    /// MaxSwapPercent, percent of the machine's memory.
    pub max_swap_percent: f64,
    /// MinRAMSpace, MiB.
    pub min_ram_space_mib: u64,
    /// SignalChildrenProcesses.
    pub signal_children_processes: bool,
    /// CgroupJobIdPaths.
    pub job_id_paths: bool,
    /// IgnoreSystemd.
    pub ignore_systemd: bool,
    /// IgnoreSystemdOnFailure.
    pub ignore_systemd_on_failure: bool,
    /// EnableControllers.
    pub enable_controllers: bool,
    /// SystemdTimeout, milliseconds.
    pub systemd_timeout_ms: u32,
    /// Every key of the file, in Slurm's spelling, as written.
    pub raw: Vec<(String, String)>,
}
