//! Scheduler, resource selection and preemption settings.
//!
//! Plain data. Defaults and ranges are those of Slurm's current release. Source: `slurm.conf(5)` (SchedulerParameters, SelectType,
//! Preempt*), page `preempt`.

use serde::{Deserialize, Serialize};
use sluice_model::memory::MemoryMib;
use sluice_model::time::TimeLimit;

/// SchedulerType.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SchedulerKind {
    /// sched/backfill.
    Backfill,
    /// sched/builtin.
    Builtin,
}

/// EnforcePartLimits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EnforcePartLimits {
    /// NO: a job over a limit waits.
    No,
    /// ANY (YES): it must fit one of its partitions.
    Any,
    /// ALL: it must fit all.
    All,
}

/// SelectType.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SelectKind {
    /// select/cons_tres.
    ConsTres,
    /// select/linear: whole nodes.
    Linear,
}

/// The unit that is given out (CR_CPU, CR_Core, CR_Socket; whole nodes with select/linear).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConsumableUnit {
    /// Logical CPUs.
    Cpu,
    /// Cores.
    Core,
    /// Sockets.
    Socket,
    /// Nodes.
    Node,
}

/// SelectType and SelectTypeParameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectSettings {
    /// SelectType.
    pub kind: SelectKind,
    /// Unit.
    pub unit: ConsumableUnit,
    /// Whether memory is a consumable resource (`_Memory`).
    pub memory: bool,
    /// CR_ONE_TASK_PER_CORE.
    pub one_task_per_core: bool,
    /// CR_CORE_DEFAULT_DIST_BLOCK.
    pub core_default_dist_block: bool,
    /// CR_LLN.
    pub lln: bool,
    /// CR_Pack_Nodes.
    pub pack_nodes: bool,
    /// CR_NO_DIST_TOPO_BLOCK.
    pub no_dist_topo_block: bool,
    /// The remaining options, upper case (LL_SHARED_GRES, …).
    pub other: Vec<String>,
}

/// Het job order in the queue (bf_hetjob_prio).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HetJobPriority {
    /// Lowest of the components.
    Min,
    /// Mean.
    Avg,
    /// Highest.
    Max,
}

/// SchedulerParameters. 0 means "no limit" where Slurm says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "names, units and meanings are those of SchedulerParameters in slurm.conf(5)"
)]
pub struct SchedulerParameters {
    pub bf_allow_magnetic_slot: bool,
    pub bf_busy_nodes: bool,
    pub bf_continue: bool,
    pub bf_hetjob_immediate: bool,
    pub bf_hetjob_prio: Option<HetJobPriority>,
    /// Seconds between backfill passes; `None` = backfill is off (-1).
    pub bf_interval_secs: Option<u32>,
    pub bf_job_part_count_reserve: u32,
    pub bf_licenses: bool,
    pub bf_max_job_array_resv: u32,
    pub bf_max_job_assoc: u32,
    pub bf_max_job_part: u32,
    pub bf_max_job_start: u32,
    pub bf_max_job_test: u32,
    pub bf_max_job_user: u32,
    pub bf_max_job_user_part: u32,
    pub bf_max_time_secs: u32,
    pub bf_min_age_reserve_secs: u32,
    pub bf_min_prio_reserve: u64,
    pub bf_node_space_size: u32,
    pub bf_one_resv_per_job: bool,
    pub bf_resolution_secs: u32,
    pub bf_running_job_reserve: bool,
    pub bf_window_minutes: u32,
    pub bf_window_linear_secs: Option<u32>,
    pub bf_yield_interval_us: u32,
    pub bf_yield_rpc_cnt: u32,
    pub bf_yield_sleep_us: u32,
    pub allow_zero_lic: bool,
    pub assoc_limit_stop: bool,
    pub batch_sched_delay_secs: u32,
    pub build_queue_timeout_us: u32,
    pub correspond_after_task_cnt: u32,
    pub default_queue_depth: u32,
    pub defer: bool,
    pub defer_batch: bool,
    pub delay_boot_minutes: u32,
    pub disable_job_shrink: bool,
    pub enable_hetjob_steps: bool,
    pub enable_user_top: bool,
    pub extra_constraints: bool,
    pub ignore_constraint_validation: bool,
    pub ignore_prefer_validation: bool,
    /// `None` = MaxArraySize.
    pub max_array_tasks: Option<u32>,
    pub max_rpc_cnt: u32,
    pub max_sched_time_secs: u32,
    pub max_script_size_bytes: u64,
    pub max_submit_line_size_bytes: u64,
    pub max_switch_wait_secs: u32,
    pub no_backup_scheduling: bool,
    pub nohold_on_prolog_fail: bool,
    pub pack_serial_at_end: bool,
    pub partition_job_depth: u32,
    pub reduce_completing_frag: bool,
    /// Seconds before a requeued job is eligible (default: `cred_expire` of AuthInfo).
    pub requeue_delay_secs: u32,
    pub requeue_on_resume_failure: bool,
    pub salloc_wait_nodes: bool,
    pub sbatch_wait_nodes: bool,
    /// Seconds between full main passes; `None` = off (-1).
    pub sched_interval_secs: Option<u32>,
    pub sched_max_job_start: u32,
    pub sched_min_interval_us: u64,
    pub spec_cores_first: bool,
    pub step_retry_count: u32,
    pub step_retry_time_secs: u32,
    pub time_min_as_soft_limit: bool,
    pub whole_hetjob: bool,
}

/// DependencyParameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DependencyParameters {
    /// kill_invalid_depend.
    pub kill_invalid_depend: bool,
    /// disable_remote_singleton.
    pub disable_remote_singleton: bool,
    /// max_depend_depth: how deep circles are looked for.
    pub max_depend_depth: u32,
}

/// Default and highest memory of jobs, MiB; 0 = unlimited (all memory of the node). At most one of the three defaults is not 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryDefaults {
    /// DefMemPerCPU.
    pub def_mem_per_cpu: MemoryMib,
    /// DefMemPerNode.
    pub def_mem_per_node: MemoryMib,
    /// DefMemPerGPU.
    pub def_mem_per_gpu: MemoryMib,
    /// DefCPUPerGPU.
    pub def_cpu_per_gpu: Option<u32>,
    /// MaxMemPerCPU.
    pub max_mem_per_cpu: MemoryMib,
    /// MaxMemPerNode.
    pub max_mem_per_node: MemoryMib,
}

/// Scheduler settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulingSettings {
    /// SchedulerType.
    pub kind: SchedulerKind,
    /// SchedulerParameters.
    pub parameters: SchedulerParameters,
    /// SchedulerTimeSlice, seconds.
    pub time_slice_secs: u32,
    /// SelectType and SelectTypeParameters.
    pub select: SelectSettings,
    /// EnforcePartLimits.
    pub enforce_part_limits: EnforcePartLimits,
    /// OverTimeLimit.
    pub over_time_limit: TimeLimit,
    /// ResvOverRun.
    pub resv_over_run: TimeLimit,
    /// DependencyParameters.
    pub dependency: DependencyParameters,
    /// Memory defaults.
    pub memory: MemoryDefaults,
}

/// PreemptType.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreemptType {
    /// preempt/none or unset.
    None,
    /// preempt/partition_prio.
    PartitionPrio,
    /// preempt/qos.
    Qos,
}

/// What happens to a victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreemptMode {
    /// It is spared.
    Off,
    /// CANCEL.
    Cancel,
    /// REQUEUE.
    Requeue,
    /// SUSPEND.
    Suspend,
}

impl PreemptMode {
    /// Slurm's word.
    pub fn as_str(self) -> &'static str {
        match self {
            PreemptMode::Off => "OFF",
            PreemptMode::Cancel => "CANCEL",
            PreemptMode::Requeue => "REQUEUE",
            PreemptMode::Suspend => "SUSPEND",
        }
    }
}

/// PreemptParameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreemptParameters {
    /// min_exempt_priority.
    pub min_exempt_priority: Option<u32>,
    /// reclaim_licenses.
    pub reclaim_licenses: bool,
    /// reorder_count.
    pub reorder_count: u32,
    /// send_user_signal.
    pub send_user_signal: bool,
    /// strict_order.
    pub strict_order: bool,
    /// suspend_grace_time, seconds.
    pub suspend_grace_time_secs: u32,
    /// youngest_first.
    pub youngest_first: bool,
}

/// Preemption and gang scheduling. The combination has been checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreemptSettings {
    /// PreemptType.
    pub kind: PreemptType,
    /// PreemptMode without its flags.
    pub mode: PreemptMode,
    /// GANG.
    pub gang: bool,
    /// PRIORITY.
    pub priority: bool,
    /// WITHIN.
    pub within: bool,
    /// PreemptExemptTime, seconds; `None` = -1.
    pub exempt_time_secs: Option<u64>,
    /// PreemptParameters.
    pub parameters: PreemptParameters,
}
