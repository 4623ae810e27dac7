//! What the configuration says about selection, brought to one form: units, memory tracking, sharing, defaults and bounds.
//!
//! Memory in MiB, limits in minutes. Invariant: 0 of the configuration ("unlimited") is `None` here.
//! Source: `slurm.conf(5)` (SelectType, SelectTypeParameters, DefMemPer*, MaxMemPer*, PartitionName).

use sluice_config::{
    ClusterConfig, ConsumableUnit, Exclusive, OverSubscribe, PartitionConfig, SelectKind,
};
use sluice_model::job::Exclusive as Claim;
use sluice_model::memory::MemoryMib;

use crate::cluster::Node;

/// The smallest piece of a node that is given to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConsumedUnit {
    /// A CPU: a job has the CPUs that it asked for, yet nobody else gets the rest of its cores.
    Cpu,
    /// A core with all its threads.
    Core,
    /// A socket.
    Socket,
    /// A node (select/linear).
    Node,
}

/// Memory of a job that asks for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryDefault {
    /// DefMemPerNode.
    PerNode(u64),
    /// DefMemPerCPU.
    PerCpu(u64),
    /// DefMemPerGPU.
    PerGpu(u64),
}

/// What a partition and the cluster say about selection in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionPolicy {
    /// Partition.
    pub partition: String,
    /// select/linear.
    pub linear: bool,
    /// Smallest piece.
    pub unit: ConsumedUnit,
    /// Memory is consumed.
    pub track_memory: bool,
    /// Each job gets whole nodes.
    pub exclusive_node: bool,
    /// How jobs share CPUs.
    pub sharing: Sharing,
    /// Exclusive=USER or TOPO: every job wants its nodes for its user, or its part of the network for itself.
    pub claim: Option<Claim>,
    /// Whose job it is matters, because somebody wants nodes for one user or label.
    pub owners_matter: bool,
    /// CR_CORE_DEFAULT_DIST_BLOCK.
    pub cores_in_blocks: bool,
    /// LL_SHARED_GRES.
    pub least_loaded_shares: bool,
    /// ENFORCE_BINDING_GRES.
    pub enforce_binding: bool,
    /// Topology of the partition by name.
    pub topology: Option<String>,
    /// A network is configured.
    pub networked: bool,
    /// CR_ONE_TASK_PER_CORE.
    pub one_task_per_core: bool,
    /// CR_LLN or LLN=YES.
    pub least_loaded: bool,
    /// Memory of a job that asks for none; `None` = all of the node.
    pub memory_default: Option<MemoryDefault>,
    /// DefCpuPerGPU.
    pub def_cpus_per_gpu: Option<u32>,
    /// MaxMemPerCPU.
    pub max_mem_per_cpu: Option<u64>,
    /// MaxMemPerNode.
    pub max_mem_per_node: Option<u64>,
    /// MinNodes.
    pub min_nodes: u32,
    /// MaxNodes.
    pub max_nodes: Option<u32>,
    /// MaxCPUsPerNode.
    pub max_cpus_per_node: Option<u32>,
    /// MaxCPUsPerSocket.
    pub max_cpus_per_socket: Option<u32>,
}

/// OverSubscribe, as far as it lets jobs share CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody shares.
    No,
    /// Jobs that say so, so many on each CPU.
    Willing(u32),
    /// All jobs, so many on each CPU.
    Forced(u32),
}

impl PartitionPolicy {
    /// The policy of a partition.
    #[must_use]
    pub fn of(partition: &PartitionConfig, config: &ClusterConfig) -> Self {
        let select = &config.scheduling.select;
        let linear = select.kind == SelectKind::Linear;
        let (unit, track_memory) = partition.select.unwrap_or((select.unit, select.memory));
        let memory = &config.scheduling.memory;
        Self {
            partition: partition.name.clone(),
            linear,
            unit: match unit {
                _ if linear => ConsumedUnit::Node,
                ConsumableUnit::Cpu => ConsumedUnit::Cpu,
                ConsumableUnit::Core => ConsumedUnit::Core,
                ConsumableUnit::Socket => ConsumedUnit::Socket,
                ConsumableUnit::Node => ConsumedUnit::Node,
            },
            track_memory,
            exclusive_node: partition.exclusive == Exclusive::Node
                || partition.oversubscribe == OverSubscribe::Exclusive,
            sharing: match partition.oversubscribe {
                OverSubscribe::Yes(jobs) => Sharing::Willing(u32::from(jobs.max(1))),
                OverSubscribe::Force(jobs) => Sharing::Forced(u32::from(jobs.max(1))),
                OverSubscribe::No | OverSubscribe::Exclusive => Sharing::No,
            },
            claim: match partition.exclusive {
                Exclusive::User => Some(Claim::User),
                Exclusive::Topo => Some(Claim::Topo),
                Exclusive::No | Exclusive::Node => None,
            },
            owners_matter: true,
            cores_in_blocks: select.core_default_dist_block,
            least_loaded_shares: select.other.iter().any(|option| option == "LL_SHARED_GRES"),
            enforce_binding: select
                .other
                .iter()
                .any(|option| option == "ENFORCE_BINDING_GRES"),
            topology: partition.topology.clone(),
            networked: config.topology.is_networked(),
            one_task_per_core: select.one_task_per_core,
            least_loaded: select.lln || partition.lln,
            memory_default: memory_default(partition, config),
            def_cpus_per_gpu: partition.def_cpu_per_gpu.or(memory.def_cpu_per_gpu),
            max_mem_per_cpu: limit(partition.max_mem_per_cpu.unwrap_or(memory.max_mem_per_cpu)),
            max_mem_per_node: limit(
                partition
                    .max_mem_per_node
                    .unwrap_or(memory.max_mem_per_node),
            ),
            min_nodes: partition.min_nodes,
            max_nodes: partition.max_nodes,
            max_cpus_per_node: partition.max_cpus_per_node,
            max_cpus_per_socket: partition.max_cpus_per_socket,
        }
    }
}

fn limit(memory: MemoryMib) -> Option<u64> {
    (memory.0 > 0).then_some(memory.0)
}

/// The partition's default rules as a whole: one that sets DefMemPerNode does not inherit DefMemPerCPU of the cluster.
fn memory_default(partition: &PartitionConfig, config: &ClusterConfig) -> Option<MemoryDefault> {
    let own = [
        partition.def_mem_per_node,
        partition.def_mem_per_cpu,
        partition.def_mem_per_gpu,
    ];
    let cluster = &config.scheduling.memory;
    let [node, cpu, gpu] = if own.iter().any(Option::is_some) {
        own.map(Option::unwrap_or_default)
    } else {
        [
            cluster.def_mem_per_node,
            cluster.def_mem_per_cpu,
            cluster.def_mem_per_gpu,
        ]
    };
    limit(node)
        .map(MemoryDefault::PerNode)
        .or(limit(cpu).map(MemoryDefault::PerCpu))
        .or(limit(gpu).map(MemoryDefault::PerGpu))
}

/// Sockets, cores of a socket and CPUs of a core as CPU ids are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeShape {
    /// Sockets.
    pub sockets: u32,
    /// Cores of a socket.
    pub cores: u32,
    /// CPUs of a core.
    pub threads: u32,
}

/// The shape of a node. A node configured with as many CPUs as cores counts one CPU a core; one whose numbers do not multiply
/// up is taken as one socket of single-CPU cores.
#[must_use]
pub fn node_shape(node: &Node) -> NodeShape {
    let config = &node.config;
    let cpus = node.cpu_count();
    let (sockets, cores) = (config.sockets.max(1), config.cores_per_socket.max(1));
    let all_cores = sockets.saturating_mul(cores);
    if all_cores > 0 && cpus > 0 && cpus.is_multiple_of(all_cores) {
        NodeShape {
            sockets,
            cores,
            threads: cpus / all_cores,
        }
    } else {
        NodeShape {
            sockets: 1,
            cores: cpus.max(1),
            threads: 1,
        }
    }
}

/// Memory of a node that jobs may have.
#[must_use]
pub fn memory_for_jobs(node: &Node) -> u64 {
    node.config
        .real_memory
        .saturating_sub(node.config.mem_spec_limit)
        .0
}

/// RestrictedCoresPerGPU in CPUs.
#[must_use]
pub fn restricted_cpus_per_gpu(node: &Node) -> u64 {
    let cores = node
        .config
        .other
        .iter()
        .find(|(key, _)| key == "RestrictedCoresPerGPU")
        .and_then(|(_, text)| text.parse::<u16>().ok());
    match cores {
        Some(cores) if cores > 0 => u64::from(cores) * u64::from(node_shape(node).threads),
        _ => 0,
    }
}

/// CPU ids kept for the system: CpuSpecList, or the highest CoreSpecCount cores.
#[must_use]
pub fn reserved_cpus(node: &Node) -> Vec<u32> {
    let config = &node.config;
    if !config.cpu_spec_list.is_empty() {
        return config.cpu_spec_list.clone();
    }
    let cpus = node.cpu_count();
    let kept = config
        .core_spec_count
        .saturating_mul(node_shape(node).threads)
        .min(cpus);
    (cpus - kept..cpus).collect()
}
