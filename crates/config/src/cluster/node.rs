//! Nodes as configured: `NodeName=` lines joined with gres.conf and DownNodes.
//!
//! Plain data. Memory in MiB; `sockets` is the number on the whole node. Source: `slurm.conf(5)` NODE CONFIGURATION, `gres.conf(5)`.

use serde::{Deserialize, Serialize};
use sluice_model::memory::MemoryMib;

/// State in which a node begins (State= of NodeName and DownNodes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum NodeInitialState {
    /// Up as soon as its agent registers.
    #[default]
    Unknown,
    /// DOWN.
    Down,
    /// DRAIN.
    Drain,
    /// FAIL.
    Fail,
    /// FAILING.
    Failing,
    /// FUTURE: not shown until it registers.
    Future,
    /// CLOUD: powered down, started on demand.
    Cloud,
}

impl NodeInitialState {
    /// Slurm's word.
    pub fn as_str(self) -> &'static str {
        match self {
            NodeInitialState::Unknown => "UNKNOWN",
            NodeInitialState::Down => "DOWN",
            NodeInitialState::Drain => "DRAIN",
            NodeInitialState::Fail => "FAIL",
            NodeInitialState::Failing => "FAILING",
            NodeInitialState::Future => "FUTURE",
            NodeInitialState::Cloud => "CLOUD",
        }
    }
}

/// One group of devices of a node. Several groups may share name and type (different `Cores`); device indices of a name count through
/// its groups in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GresConfig {
    /// `gpu`.
    pub name: String,
    /// `h100`.
    pub type_name: Option<String>,
    /// How many.
    pub count: u64,
    /// `no_consume`.
    pub no_consume: bool,
    /// Device files, one per device, or none. They may be ordinary files.
    pub files: Vec<String>,
    /// Cores near these devices (core numbers on the node); empty = all.
    pub cores: Vec<u32>,
    /// Links as written (counts of NVLinks to each device).
    pub links: Option<String>,
    /// Flags, in lower case: `countonly`, `nvidia_gpu_env`, `no_gpu_env`, `explicit`, …
    pub flags: Vec<String>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeConfig {
    /// NodeName.
    pub name: String,
    /// NodeHostname.
    pub hostname: String,
    /// NodeAddr.
    pub addr: String,
    /// Port of its agent.
    pub port: u16,
    /// CPUs: boards × sockets × cores × threads, or the number of cores when threads are to be ignored.
    pub cpus: u32,
    /// Boards.
    pub boards: u32,
    /// Sockets of the whole node.
    pub sockets: u32,
    /// CoresPerSocket.
    pub cores_per_socket: u32,
    /// ThreadsPerCore.
    pub threads_per_core: u32,
    /// RealMemory.
    pub real_memory: MemoryMib,
    /// TmpDisk.
    pub tmp_disk_mib: u64,
    /// MemSpecLimit: kept for the system.
    pub mem_spec_limit: MemoryMib,
    /// CoreSpecCount: cores kept for the system.
    pub core_spec_count: u32,
    /// CpuSpecList: CPU numbers kept for the system.
    pub cpu_spec_list: Vec<u32>,
    /// Features.
    pub features: Vec<String>,
    /// Generic resources.
    pub gres: Vec<GresConfig>,
    /// Weight: nodes with low weight are used first.
    pub weight: u32,
    /// State at start.
    pub state: NodeInitialState,
    /// Reason for that state.
    pub reason: Option<String>,
    /// CpuBind.
    pub cpu_bind: Option<String>,
    /// SuspendTime of the node, seconds.
    pub suspend_time_secs: Option<u32>,
    /// Topology of the node, as written.
    pub topology: Option<String>,
    /// Keys that are accepted and have no effect, in Slurm's spelling.
    pub other: Vec<(String, String)>,
}

impl NodeConfig {
    /// How many of a GRES the node has, over all types or of one.
    pub fn gres_count(&self, name: &str, type_name: Option<&str>) -> u64 {
        let fits = |g: &&GresConfig| {
            g.name == name && (type_name.is_none() || g.type_name.as_deref() == type_name)
        };
        self.gres.iter().filter(fits).map(|g| g.count).sum()
    }

    /// The text of `Gres=`: groups of the same name and type added up, in order of first appearance.
    pub fn gres_text(&self) -> String {
        let mut kinds: Vec<(&str, Option<&str>, bool, u64)> = Vec::new();
        for g in &self.gres {
            match kinds
                .iter_mut()
                .find(|k| k.0 == g.name && k.1 == g.type_name.as_deref())
            {
                Some(k) => k.3 += g.count,
                None => kinds.push((&g.name, g.type_name.as_deref(), g.no_consume, g.count)),
            }
        }
        let items = kinds.iter().map(|(name, type_name, no_consume, count)| {
            let type_name = type_name.map(|t| format!(":{t}")).unwrap_or_default();
            let no_consume = if *no_consume { ":no_consume" } else { "" };
            format!("{name}{type_name}{no_consume}:{count}")
        });
        items.collect::<Vec<_>>().join(",")
    }
}

/// A `NodeSet=` line, resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSetConfig {
    /// Name.
    pub name: String,
    /// Feature=, as written.
    pub feature: Option<String>,
    /// Nodes=, as written.
    pub nodes_expression: Option<String>,
    /// The nodes that it means, in the order of the configuration.
    pub nodes: Vec<String>,
}
