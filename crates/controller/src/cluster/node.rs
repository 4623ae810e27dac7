//! A node as the engine holds it: configuration, state, and what is in use.
//!
//! Invariant: `used_cpus`, `used_memory` and `gres[].used` equal the sum over the unreleased node allocations of the jobs in
//! `jobs`; [`crate::event`] keeps them so, [`crate::check`] recounts them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sluice_config::NodeConfig;
use sluice_model::ids::JobId;
use sluice_model::memory::MemoryMib;
use sluice_model::node::NodeHardware;
use sluice_model::node_state::{NodeState, NodeStateFlags, NodeStateFull};
use sluice_model::time::UnixSeconds;

/// One GRES of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GresState {
    /// Name.
    pub name: String,
    /// Type.
    pub type_name: Option<String>,
    /// Devices or countable units.
    pub count: u64,
    /// In use, device by device; empty for GRES that are only counted.
    pub used: Vec<bool>,
    /// Units in use.
    pub used_count: u64,
    /// CPU ids near each device (gres.conf `Cores=`), empty = any.
    pub cpus: Vec<Vec<u32>>,
    /// Index of the first device of this entry in the node's list of this GRES name.
    pub first_index: u32,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Configuration.
    pub config: Arc<NodeConfig>,
    /// False: gone from the configuration, kept until its last job is gone.
    pub configured: bool,
    /// Base state UNKNOWN, DOWN, IDLE or FUTURE plus flags that somebody set (DRAIN, FAIL, NO_RESPOND, INVALID_REG…). The shown base
    /// ALLOCATED/MIXED and COMPLETING are derived, see [`Node::shown_state`].
    pub state: NodeStateFull,
    /// Reason for DOWN, DRAIN, FAIL.
    pub reason: Option<String>,
    /// Who set it.
    pub reason_uid: Option<u32>,
    /// When.
    pub reason_time: Option<UnixSeconds>,
    /// As last reported.
    pub hardware: Option<Arc<NodeHardware>>,
    /// Set by hand; `None` = as configured.
    pub weight: Option<u32>,
    /// Set by hand.
    pub features: Option<Vec<String>>,
    /// Set by hand.
    pub active_features: Option<Vec<String>>,
    /// Comment.
    pub comment: Option<String>,
    /// CPU id → in use.
    pub used_cpus: Vec<bool>,
    /// Memory in use.
    pub used_memory: MemoryMib,
    /// GRES.
    pub gres: Vec<GresState>,
    /// Jobs with an unreleased allocation here.
    pub jobs: Vec<JobId>,
    /// Of those, jobs that are completing.
    pub completing_jobs: Vec<JobId>,
    /// A job holds the whole node.
    pub whole_node_job: Option<JobId>,
    /// When it last became free of jobs, or had one.
    pub last_busy: Option<UnixSeconds>,
    /// Last registration.
    pub registered: Option<UnixSeconds>,
    /// What else was set by hand.
    #[serde(default)]
    pub manual: NodeManual,
}

/// Where a node goes after a reboot that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AfterReboot {
    /// Back to service, DRAIN and reason cleared.
    Resume,
    /// DOWN.
    Down,
}

/// A reboot that was asked for (`scontrol reboot`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReboot {
    /// `nextstate=`.
    pub next_state: Option<AfterReboot>,
    /// The request put DRAIN on the node.
    pub drained: bool,
    /// When the agent was told; `None` = the node is not idle yet.
    pub issued: Option<UnixSeconds>,
}

/// Settings by hand that have no place in the configuration or replace it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeManual {
    /// `Extra=`.
    pub extra: Option<String>,
    /// `InstanceId=`.
    pub instance_id: Option<String>,
    /// `InstanceType=`.
    pub instance_type: Option<String>,
    /// `CertToken=`.
    pub cert_token: Option<String>,
    /// `ResumeAfter=`: when it returns to service.
    pub resume_after: Option<UnixSeconds>,
    /// A reboot under way.
    pub reboot: Option<NodeReboot>,
}

impl Node {
    /// CPUs in all.
    #[must_use]
    pub fn cpu_count(&self) -> u32 {
        self.used_cpus.len() as u32
    }

    /// CPUs in use; a whole-node job uses all.
    #[must_use]
    pub fn used_cpu_count(&self) -> u32 {
        self.used_cpus.iter().filter(|used| **used).count() as u32
    }

    /// Effective weight.
    #[must_use]
    pub fn effective_weight(&self) -> u32 {
        self.weight.unwrap_or(self.config.weight)
    }

    /// Features jobs may ask for.
    #[must_use]
    pub fn effective_features(&self) -> &[String] {
        self.active_features
            .as_deref()
            .or(self.features.as_deref())
            .unwrap_or(&self.config.features)
    }

    /// State as shown: IDLE becomes ALLOCATED or MIXED by use, COMPLETING is added while jobs complete.
    #[must_use]
    pub fn shown_state(&self) -> NodeStateFull {
        let mut state = self.state;
        let running = self.jobs.len() > self.completing_jobs.len();
        if state.base == NodeState::Idle && running {
            // CPUs that the system keeps are nobody's.
            let idle = self.used_cpus.iter().filter(|used| !**used).count();
            let full = self.whole_node_job.is_some()
                || idle == 0
                || idle <= crate::select::policy::reserved_cpus(self).len();
            state.base = if full {
                NodeState::Allocated
            } else {
                NodeState::Mixed
            };
        }
        state
            .flags
            .set(NodeStateFlags::COMPLETING, !self.completing_jobs.is_empty());
        state
    }

    /// New jobs may be placed here, free resources aside.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.configured && self.state.is_schedulable()
    }
}
