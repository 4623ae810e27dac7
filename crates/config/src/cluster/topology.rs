//! Network topology as configured.
//!
//! Plain data, node names resolved. Source: `topology.conf(5)`.

use serde::{Deserialize, Serialize};

/// TopologyPlugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TopologyKind {
    /// topology/flat.
    Flat,
    /// topology/tree.
    Tree,
    /// topology/block.
    Block,
}

/// One `SwitchName=` line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchConfig {
    /// SwitchName.
    pub name: String,
    /// Switches below it.
    pub switches: Vec<String>,
    /// Nodes on it.
    pub nodes: Vec<String>,
}

/// One `BlockName=` line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockConfig {
    /// BlockName.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<String>,
}

/// TopologyPlugin, TopologyParam and topology.conf.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologySettings {
    /// TopologyPlugin.
    pub kind: TopologyKind,
    /// TopologyParam items.
    pub params: Vec<String>,
    /// Switches, in file order.
    pub switches: Vec<SwitchConfig>,
    /// Blocks, in file order.
    pub blocks: Vec<BlockConfig>,
    /// BlockSizes.
    pub block_sizes: Vec<u32>,
}
