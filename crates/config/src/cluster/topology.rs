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

/// One network that topology.yaml describes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyLayout {
    /// Name, for Topology= of partitions; empty = the only one.
    pub name: String,
    /// Kind.
    pub kind: TopologyKind,
    /// Switches, in file order.
    pub switches: Vec<SwitchConfig>,
    /// Blocks, in file order.
    pub blocks: Vec<BlockConfig>,
    /// Sizes of blocks.
    pub block_sizes: Vec<u32>,
    /// Jobs may span switches that nothing connects (TopoOptional).
    pub optional: bool,
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
    /// The networks of topology.yaml, by name; the default one is also above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layouts: Vec<TopologyLayout>,
    /// Which of them says that it is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<usize>,
}

impl TopologySettings {
    /// The network of partitions that name none.
    #[must_use]
    pub fn default_layout(&self) -> TopologyLayout {
        TopologyLayout {
            name: String::new(),
            kind: self.kind,
            switches: self.switches.clone(),
            blocks: self.blocks.clone(),
            block_sizes: self.block_sizes.clone(),
            optional: self.is_optional(),
        }
    }

    /// The networks by name in the form of topology.yaml; empty when there are none.
    #[must_use]
    pub fn layouts_yaml(&self) -> String {
        crate::slurm::topology_yaml::text(self)
    }

    /// TopoOptional is set.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        self.params
            .iter()
            .any(|param| param.eq_ignore_ascii_case("TopoOptional"))
    }

    /// Some partition may have a network.
    #[must_use]
    pub fn is_networked(&self) -> bool {
        let has = |kind: TopologyKind, switches: &[SwitchConfig], blocks: &[BlockConfig]| match kind
        {
            TopologyKind::Flat => false,
            TopologyKind::Tree => !switches.is_empty(),
            TopologyKind::Block => !blocks.is_empty(),
        };
        has(self.kind, &self.switches, &self.blocks)
            || self
                .layouts
                .iter()
                .any(|l| has(l.kind, &l.switches, &l.blocks))
    }
}
