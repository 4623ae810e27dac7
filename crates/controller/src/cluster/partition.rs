//! A partition as the engine holds it: configuration plus what was changed by hand.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sluice_config::PartitionConfig;

use super::NodeIndex;

/// A partition. `config` is replaced as a whole when `scontrol update` changes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Partition {
    /// Configuration in force.
    pub config: Arc<PartitionConfig>,
    /// Its nodes, ascending.
    pub nodes: Arc<Vec<NodeIndex>>,
}
