//! Nodes: what an agent tells about its machine and what can be read about a node.
//!
//! Plain data. Memory and disks in MiB, times in seconds since the epoch, loads as printed by the kernel × 100.

use serde::{Deserialize, Serialize};

use crate::job::GresAllocation;
use crate::memory::MemoryMib;
use crate::node_state::NodeStateFull;
use crate::time::UnixSeconds;
use crate::tres::Tres;

/// What an agent found on its machine, sent with its registration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeHardware {
    /// Logical CPUs.
    pub cpus: u32,
    /// Boards.
    pub boards: u32,
    /// Sockets in all.
    pub sockets: u32,
    /// Cores of a socket.
    pub cores_per_socket: u32,
    /// Threads of a core.
    pub threads_per_core: u32,
    /// Memory.
    pub real_memory: MemoryMib,
    /// TmpFS.
    pub tmp_disk_mib: u64,
    /// GRES with the number of devices found.
    pub gres: Vec<GresAllocation>,
    /// `x86_64`.
    pub arch: String,
    /// `Linux 6.1.0 #1 SMP`.
    pub os: String,
    /// Host name.
    pub hostname: String,
    /// When the machine booted.
    pub boot_time: UnixSeconds,
    /// When the agent started.
    pub agent_start_time: UnixSeconds,
    /// Agent version.
    pub version: String,
}

/// Load figures an agent sends with each heartbeat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeLoad {
    /// One-minute load average × 100.
    pub cpu_load_centi: u32,
    /// Free memory.
    pub free_memory: MemoryMib,
}

/// One GRES of a node with its use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeGres {
    /// Name.
    pub name: String,
    /// Type.
    pub type_name: Option<String>,
    /// Configured.
    pub count: u64,
    /// Allocated.
    pub used: u64,
    /// Indices allocated.
    pub used_indices: Vec<u32>,
}

/// What `sinfo` and `scontrol show node` can print.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// NodeName.
    pub name: String,
    /// NodeHostName.
    pub hostname: String,
    /// NodeAddr.
    pub address: String,
    /// Port.
    pub port: u16,
    /// State.
    pub state: NodeStateFull,
    /// Reason for DOWN, DRAIN, FAIL.
    pub reason: Option<String>,
    /// Who set it.
    pub reason_user: Option<String>,
    /// See [`Self::reason_user`].
    pub reason_uid: Option<u32>,
    /// When.
    pub reason_time: Option<UnixSeconds>,
    /// Configured CPUs.
    pub cpus: u32,
    /// CPUs that jobs may use.
    pub cpus_effective: u32,
    /// Allocated CPUs.
    pub alloc_cpus: u32,
    /// Boards.
    pub boards: u32,
    /// Sockets in all.
    pub sockets: u32,
    /// Cores of a socket.
    pub cores_per_socket: u32,
    /// Threads of a core.
    pub threads_per_core: u32,
    /// Configured memory.
    pub real_memory: MemoryMib,
    /// Allocated memory.
    pub alloc_memory: MemoryMib,
    /// Free memory the agent reported; `None` = not reported.
    pub free_memory: Option<MemoryMib>,
    /// Load × 100; `None` = not reported.
    pub cpu_load_centi: Option<u32>,
    /// TmpDisk.
    pub tmp_disk_mib: u64,
    /// Weight.
    pub weight: u32,
    /// AvailableFeatures.
    pub features: Vec<String>,
    /// ActiveFeatures.
    pub active_features: Vec<String>,
    /// GRES.
    pub gres: Vec<NodeGres>,
    /// Partitions the node is in.
    pub partitions: Vec<String>,
    /// Architecture, as reported.
    pub arch: Option<String>,
    /// Operating system, as reported.
    pub os: Option<String>,
    /// Agent version, as reported.
    pub version: Option<String>,
    /// Boot time, as reported.
    pub boot_time: Option<UnixSeconds>,
    /// Agent start time, as reported.
    pub agent_start_time: Option<UnixSeconds>,
    /// When it last had a job.
    pub last_busy_time: Option<UnixSeconds>,
    /// When its agent last spoke.
    pub last_response_time: Option<UnixSeconds>,
    /// Configured TRES.
    pub cfg_tres: Tres,
    /// Allocated TRES.
    pub alloc_tres: Tres,
    /// Owner when in exclusive-user use.
    pub owner_uid: Option<u32>,
    /// Comment.
    pub comment: Option<String>,
    /// Jobs running or completing here.
    pub jobs: Vec<u32>,
    /// `Extra=`.
    pub extra: Option<String>,
    /// `CpuBind=` set by hand or configured.
    pub cpu_bind: Option<String>,
    /// `InstanceId=`.
    pub instance_id: Option<String>,
    /// `InstanceType=`.
    pub instance_type: Option<String>,
    /// `Topology=`.
    pub topology: Option<String>,
    /// State after a reboot that was asked for: `RESUME` or `DOWN`.
    pub next_state: Option<String>,
    /// When it returns to service by itself.
    pub resume_after_time: Option<UnixSeconds>,
    /// Reservation that has begun and holds it.
    pub reservation: Option<String>,
}

/// What `scontrol update NodeName= State=` may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeStateRequest {
    /// Unusable; jobs on it are ended.
    Down,
    /// No new jobs.
    Drain,
    /// Drain, and replace.
    Fail,
    /// Back to service.
    Resume,
    /// Clear DRAIN only.
    Undrain,
    /// Back to service from DOWN.
    Idle,
    /// Taken out of the configuration for now.
    Future,
    /// Treat as not responding.
    NoResponse,
    /// Take back a reboot that has not begun.
    CancelReboot,
    /// Power down when idle.
    PowerDown,
    /// No new jobs, and power down.
    PowerDownAsap,
    /// End its jobs and power down.
    PowerDownForce,
    /// Power up.
    PowerUp,
}

/// A change to nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeUpdate {
    /// Hostlist.
    pub nodes: String,
    /// New state.
    pub state: Option<NodeStateRequest>,
    /// Reason.
    pub reason: Option<String>,
    /// Comment.
    pub comment: Option<String>,
    /// Weight.
    pub weight: Option<u32>,
    /// AvailableFeatures.
    pub available_features: Option<Vec<String>>,
    /// ActiveFeatures.
    pub active_features: Option<Vec<String>>,
    /// GRES text, `gpu:h100:8`.
    pub gres: Option<String>,
    /// NodeAddr, a hostlist as long as `nodes`.
    pub address: Option<String>,
    /// NodeHostname, likewise.
    pub hostname: Option<String>,
    /// CpuBind; `off` removes it.
    pub cpu_bind: Option<String>,
    /// Extra; empty clears it.
    pub extra: Option<String>,
    /// InstanceId; empty clears it.
    pub instance_id: Option<String>,
    /// InstanceType; empty clears it.
    pub instance_type: Option<String>,
    /// Topology; empty clears it.
    pub topology: Option<String>,
    /// Seconds until it returns to service; `u32::MAX` = never.
    pub resume_after_secs: Option<u32>,
    /// A change nobody acts upon: CertToken.
    pub cert_token: Option<String>,
}
