//! Partitions as they can be read: `scontrol show partition`, `sinfo`.
//!
//! Plain data. Memory in MiB, limits in minutes. `None` means unset or unlimited, as each field says.

use serde::{Deserialize, Serialize};

use crate::memory::MemoryMib;
use crate::time::TimeLimit;
use crate::tres::Tres;

/// State= of a partition (`slurm.conf(5)`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartitionState {
    /// Accepts and starts jobs.
    #[default]
    Up,
    /// Accepts, does not start.
    Down,
    /// Does not accept, starts.
    Drain,
    /// Neither.
    Inactive,
}

/// What can be read about a partition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartitionInfo {
    /// Name.
    pub name: String,
    /// State.
    pub state: PartitionState,
    /// Default=YES.
    pub is_default: bool,
    /// Hidden=YES.
    pub hidden: bool,
    /// Nodes, a hostlist.
    pub nodes: String,
    /// Node sets as configured.
    pub node_sets: Option<String>,
    /// Number of nodes.
    pub total_nodes: u32,
    /// Number of CPUs.
    pub total_cpus: u32,
    /// AllowGroups; empty = ALL.
    pub allow_groups: Vec<String>,
    /// AllowAccounts; empty = ALL.
    pub allow_accounts: Vec<String>,
    /// DenyAccounts.
    pub deny_accounts: Vec<String>,
    /// AllowQos; empty = ALL.
    pub allow_qos: Vec<String>,
    /// DenyQos.
    pub deny_qos: Vec<String>,
    /// AllocNodes; empty = ALL.
    pub alloc_nodes: String,
    /// Alternate.
    pub alternate: Option<String>,
    /// Partition QOS.
    pub qos: Option<String>,
    /// DefaultTime; `None` = NONE.
    pub default_time: Option<TimeLimit>,
    /// MaxTime.
    pub max_time: Option<TimeLimit>,
    /// MinNodes.
    pub min_nodes: u32,
    /// MaxNodes; `None` = UNLIMITED.
    pub max_nodes: Option<u32>,
    /// MaxCPUsPerNode; `None` = UNLIMITED.
    pub max_cpus_per_node: Option<u32>,
    /// MaxCPUsPerSocket; `None` = UNLIMITED.
    pub max_cpus_per_socket: Option<u32>,
    /// DisableRootJobs.
    pub disable_root_jobs: bool,
    /// RootOnly.
    pub root_only: bool,
    /// ReqResv.
    pub req_resv: bool,
    /// LLN.
    pub lln: bool,
    /// Exclusive: `NO`, `NODE`, `USER`, `TOPO`.
    pub exclusive: String,
    /// OverSubscribe as printed: `NO`, `YES:4`, `FORCE:1`.
    pub over_subscribe: String,
    /// OverTimeLimit in minutes; `None` = NONE.
    pub over_time_limit: Option<TimeLimit>,
    /// GraceTime, seconds.
    pub grace_time_secs: u32,
    /// PreemptMode as printed.
    pub preempt_mode: String,
    /// PriorityJobFactor.
    pub priority_job_factor: u16,
    /// PriorityTier.
    pub priority_tier: u16,
    /// SelectTypeParameters as printed, `NONE`.
    pub select_type_parameters: String,
    /// JobDefaults as printed.
    pub job_defaults: Option<String>,
    /// DefMemPerCPU.
    pub def_mem_per_cpu: Option<MemoryMib>,
    /// DefMemPerNode.
    pub def_mem_per_node: Option<MemoryMib>,
    /// MaxMemPerCPU.
    pub max_mem_per_cpu: Option<MemoryMib>,
    /// MaxMemPerNode.
    pub max_mem_per_node: Option<MemoryMib>,
    /// TRES of all its nodes.
    pub tres: Tres,
    /// TRESBillingWeights as configured.
    pub tres_billing_weights: Option<String>,
}
