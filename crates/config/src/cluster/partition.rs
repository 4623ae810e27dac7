//! Partitions as configured.
//!
//! Plain data. `None` means "not set here": the cluster's value or no limit rules, as each field says. Source: `slurm.conf(5)`
//! PARTITION CONFIGURATION.

use super::scheduling::{ConsumableUnit, PreemptMode};
use serde::{Deserialize, Serialize};
use sluice_model::memory::MemoryMib;
use sluice_model::partition::PartitionState;
use sluice_model::time::TimeLimit;
use sluice_model::tres::TresKind;

/// OverSubscribe=.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OverSubscribe {
    /// NO.
    No,
    /// `YES[:n]`: up to n jobs per resource when they ask for it.
    Yes(u16),
    /// `FORCE[:n]`.
    Force(u16),
    /// EXCLUSIVE: the old spelling of Exclusive=NODE.
    Exclusive,
}

/// Exclusive=.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exclusive {
    /// NO.
    No,
    /// NODE: each job gets whole nodes.
    Node,
    /// USER: nodes serve one user at a time.
    User,
    /// TOPO.
    Topo,
}

/// PreemptMode= of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionPreemptMode {
    /// Mode; `None` = the cluster's.
    pub mode: Option<PreemptMode>,
    /// PRIORITY.
    pub priority: bool,
}

/// One partition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartitionConfig {
    /// PartitionName.
    pub name: String,
    /// Nodes= as written.
    pub nodes_expression: String,
    /// The nodes it means, in the order of the configuration, each once.
    pub nodes: Vec<String>,
    /// Default=YES.
    pub default: bool,
    /// State.
    pub state: PartitionState,
    /// MaxTime.
    pub max_time: TimeLimit,
    /// DefaultTime; `None` = MaxTime (or the QOS's or association's MaxWall).
    pub default_time: Option<TimeLimit>,
    /// MinNodes.
    pub min_nodes: u32,
    /// MaxNodes; `None` = unlimited.
    pub max_nodes: Option<u32>,
    /// PriorityTier.
    pub priority_tier: u16,
    /// PriorityJobFactor.
    pub priority_job_factor: u16,
    /// PreemptMode; `None` = the cluster's.
    pub preempt_mode: Option<PartitionPreemptMode>,
    /// GraceTime, seconds.
    pub grace_time_secs: u32,
    /// OverSubscribe.
    pub oversubscribe: OverSubscribe,
    /// Exclusive (also from OverSubscribe=EXCLUSIVE, ExclusiveUser, ExclusiveTopo).
    pub exclusive: Exclusive,
    /// QOS of the partition.
    pub qos: Option<String>,
    /// AllowAccounts; `None` = ALL.
    pub allow_accounts: Option<Vec<String>>,
    /// DenyAccounts.
    pub deny_accounts: Vec<String>,
    /// AllowQos; `None` = ALL.
    pub allow_qos: Option<Vec<String>>,
    /// DenyQos.
    pub deny_qos: Vec<String>,
    /// AllowGroups; `None` = ALL.
    pub allow_groups: Option<Vec<String>>,
    /// AllocNodes: hosts from which jobs may be submitted; `None` = ALL.
    pub alloc_nodes: Option<Vec<String>>,
    /// RootOnly.
    pub root_only: bool,
    /// DisableRootJobs.
    pub disable_root_jobs: bool,
    /// ReqResv.
    pub req_resv: bool,
    /// Hidden.
    pub hidden: bool,
    /// LLN.
    pub lln: bool,
    /// Alternate.
    pub alternate: Option<String>,
    /// OverTimeLimit; `None` = the cluster's.
    pub over_time_limit: Option<TimeLimit>,
    /// DefMemPerCPU; `None` = the cluster's; 0 = unlimited.
    pub def_mem_per_cpu: Option<MemoryMib>,
    /// DefMemPerNode; as above.
    pub def_mem_per_node: Option<MemoryMib>,
    /// DefMemPerGPU; as above.
    pub def_mem_per_gpu: Option<MemoryMib>,
    /// DefCpuPerGPU.
    pub def_cpu_per_gpu: Option<u32>,
    /// MaxMemPerCPU; `None` = the cluster's; 0 = unlimited.
    pub max_mem_per_cpu: Option<MemoryMib>,
    /// MaxMemPerNode; as above.
    pub max_mem_per_node: Option<MemoryMib>,
    /// MaxCPUsPerNode; `None` = unlimited.
    pub max_cpus_per_node: Option<u32>,
    /// MaxCPUsPerSocket; `None` = unlimited.
    pub max_cpus_per_socket: Option<u32>,
    /// SelectTypeParameters: unit and whether memory is tracked; `None` = the cluster's.
    pub select: Option<(ConsumableUnit, bool)>,
    /// TRESBillingWeights; memory is per MiB. Empty = billing is the CPU count.
    pub tres_billing_weights: Vec<(TresKind, f64)>,
    /// CpuBind.
    pub cpu_bind: Option<String>,
    /// Topology by name.
    pub topology: Option<String>,
    /// SuspendTime, seconds.
    pub suspend_time_secs: Option<u32>,
    /// SuspendTimeout, seconds.
    pub suspend_timeout_secs: Option<u32>,
    /// ResumeTimeout, seconds.
    pub resume_timeout_secs: Option<u32>,
    /// PowerDownOnIdle.
    pub power_down_on_idle: bool,
    /// All pairs of the line except name and nodes, in Slurm's spelling, as written (with those from DEFAULT lines).
    pub raw: Vec<(String, String)>,
}
