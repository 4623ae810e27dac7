//! Resources a job holds: nodes, CPUs by id, memory, GRES by index, and how far each node is in the job's life.
//!
//! CPU ids are abstract: block numbering, id = (socket × cores + core) × threads + thread. Memory in MiB.

use serde::{Deserialize, Serialize};
use sluice_model::default_fields::is_default;
use sluice_model::job::{Exclusive, GresAllocation};
use sluice_model::memory::MemoryMib;

use super::NodeIndex;

/// How far one node of a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NodePhase {
    /// The Prolog runs (or the order to run it is under way).
    Prolog,
    /// Steps may run.
    Ready,
    /// The job has ended or was told to: processes are ended and the Epilog runs.
    Ending,
    /// Nothing of the job is left here; the resources are free again.
    Released,
}

/// What a job holds on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAllocation {
    /// Node.
    pub node: NodeIndex,
    /// Its name; rules when the configuration changes and positions move.
    pub name: String,
    /// CPU ids, ascending.
    pub cpu_ids: Vec<u32>,
    /// Memory; what is counted against the node.
    pub memory: MemoryMib,
    /// GRES by index.
    pub gres: Vec<GresAllocation>,
    /// How far it is.
    pub phase: NodePhase,
}

/// What a job holds in all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// One entry a node, ordered by node index; the first is the batch host.
    pub nodes: Vec<NodeAllocation>,
    /// Whole nodes: nobody else may use what is left on them.
    pub whole_nodes: bool,
    /// The CPUs are shared with other jobs of this partition, as its OverSubscribe allows; `None` = they are the job's own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shared_in: Option<String>,
    /// On its nodes only jobs of the same user (or label, or none in its part of the network) may be.
    #[serde(default, skip_serializing_if = "is_default")]
    pub claim: Option<Exclusive>,
}

impl Allocation {
    /// Names of the nodes, in order.
    #[must_use]
    pub fn node_names(&self) -> Vec<&str> {
        self.nodes.iter().map(|n| n.name.as_str()).collect()
    }

    /// CPUs in all.
    #[must_use]
    pub fn cpu_count(&self) -> u32 {
        self.nodes.iter().map(|n| n.cpu_ids.len() as u32).sum()
    }

    /// The entry of a node.
    #[must_use]
    pub fn on(&self, node: NodeIndex) -> Option<&NodeAllocation> {
        self.nodes.iter().find(|n| n.node == node)
    }
}
