//! The network between the nodes as selection sees it: leaves (leaf switches or base blocks), and groups of leaves by level.
//!
//! Positions of nodes, no names. Rules: a job lies below one switch, the lowest that holds it; of blocks two, four, eight… in the
//! order of the file make the next level, as far as BlockSizes names it. Invariant: groups ascend by level; every leaf is a group
//! of its own. Source: `topology.conf(5)`, `topology.yaml(5)`, page `topology`.

use std::collections::BTreeSet;

use sluice_config::{TopologyKind, TopologyLayout};

use crate::cluster::Cluster;

/// No leaf.
const NOWHERE: u32 = u32::MAX;

/// Leaves that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Height over the leaves.
    pub level: u32,
    /// Leaves, ascending.
    pub leaves: Vec<u32>,
}

/// One network.
#[derive(Debug, Clone, Default)]
pub struct Net {
    /// Made of blocks.
    pub blocks: bool,
    leaves: Vec<Vec<u32>>,
    leaf_of: Vec<u32>,
    /// Ascending by level.
    pub groups: Vec<Group>,
}

impl Net {
    fn of(layout: &TopologyLayout, cluster: &Cluster) -> Option<Self> {
        let position = |name: &String| cluster.node_index.get(name.as_str()).map(|index| index.0);
        let mut net = match layout.kind {
            TopologyKind::Flat => return None,
            TopologyKind::Tree => Self::tree(layout, &position),
            TopologyKind::Block => Self::block(layout, &position),
        };
        net.leaf_of = vec![NOWHERE; cluster.nodes.len()];
        for (leaf, nodes) in (0..).zip(&net.leaves) {
            for node in nodes {
                if let Some(of) = net.leaf_of.get_mut(*node as usize) {
                    *of = leaf;
                }
            }
        }
        net.groups
            .sort_by_key(|group| (group.level, group.leaves.len()));
        net.groups.dedup_by(|a, b| a.leaves == b.leaves);
        (!net.leaves.is_empty()).then_some(net)
    }

    fn tree(layout: &TopologyLayout, position: &dyn Fn(&String) -> Option<u32>) -> Self {
        let mut net = Self::default();
        // Leaf of each switch that has nodes.
        let mut own = vec![None; layout.switches.len()];
        for (at, switch) in layout.switches.iter().enumerate() {
            let nodes: Vec<u32> = switch.nodes.iter().filter_map(position).collect();
            if !nodes.is_empty() {
                own[at] = Some(net.leaves.len() as u32);
                net.leaves.push(nodes);
            }
        }
        for at in 0..layout.switches.len() {
            let mut leaves = BTreeSet::new();
            let level = below(layout, at, &own, &mut leaves, &mut BTreeSet::new());
            if !leaves.is_empty() {
                net.groups.push(Group {
                    level,
                    leaves: leaves.into_iter().collect(),
                });
            }
        }
        if layout.optional {
            net.add_all();
        }
        net
    }

    fn block(layout: &TopologyLayout, position: &dyn Fn(&String) -> Option<u32>) -> Self {
        let leaves: Vec<Vec<u32>> = layout
            .blocks
            .iter()
            .map(|block| block.nodes.iter().filter_map(position).collect())
            .collect();
        let mut net = Self {
            blocks: true,
            leaves,
            ..Self::default()
        };
        let base = layout.block_sizes.first().copied().unwrap_or(1).max(1);
        let count = net.leaves.len();
        let mut level = 0;
        while level < 31 {
            let width = 1_usize << level;
            let named = layout.block_sizes.is_empty()
                || layout
                    .block_sizes
                    .iter()
                    .any(|size| u64::from(*size) == u64::from(base) << level);
            if level == 0 || named {
                let all: Vec<u32> = (0..count as u32).collect();
                for leaves in all.chunks(width) {
                    net.groups.push(Group {
                        level,
                        leaves: leaves.to_vec(),
                    });
                }
            }
            if width >= count {
                break;
            }
            level += 1;
        }
        // Jobs larger than the highest level span several of it.
        net.add_all();
        net
    }

    fn add_all(&mut self) {
        let level = self.groups.iter().map(|g| g.level).max().unwrap_or(0) + 1;
        self.groups.push(Group {
            level,
            leaves: (0..self.leaves.len() as u32).collect(),
        });
    }

    /// Leaf of a node.
    #[must_use]
    pub fn leaf(&self, node: u32) -> Option<u32> {
        self.leaf_of
            .get(node as usize)
            .copied()
            .filter(|leaf| *leaf != NOWHERE)
    }

    /// Leaves of some nodes, each once.
    #[must_use]
    pub fn leaves_of(&self, nodes: &[usize]) -> BTreeSet<u32> {
        nodes
            .iter()
            .filter_map(|node| self.leaf(*node as u32))
            .collect()
    }

    /// Nodes of a leaf.
    #[must_use]
    pub fn nodes_of(&self, leaf: u32) -> &[u32] {
        self.leaves.get(leaf as usize).map_or(&[], Vec::as_slice)
    }

    /// Number of leaves.
    #[must_use]
    pub fn leaf_count(&self) -> usize {
        self.leaves.len()
    }
}

/// Collects the leaves below a switch; gives its height. A circle ends where it begins.
fn below(
    layout: &TopologyLayout,
    at: usize,
    own: &[Option<u32>],
    leaves: &mut BTreeSet<u32>,
    seen: &mut BTreeSet<usize>,
) -> u32 {
    if !seen.insert(at) {
        return 0;
    }
    leaves.extend(own[at]);
    let mut level = 0;
    for child in &layout.switches[at].switches {
        if let Some(child) = layout.switches.iter().position(|s| s.name == *child) {
            level = level.max(1 + below(layout, child, own, leaves, seen));
        }
    }
    level
}

/// The networks of a cluster, by name.
#[derive(Debug, Clone, Default)]
pub struct Nets {
    /// The one that holds where a partition names none.
    default: Option<Net>,
    named: Vec<(String, Option<Net>)>,
}

impl Nets {
    /// Built from the configuration.
    #[must_use]
    pub fn of(cluster: &Cluster) -> Self {
        let topology = &cluster.config.topology;
        Self {
            default: Net::of(&topology.default_layout(), cluster),
            named: topology
                .layouts
                .iter()
                .map(|layout| (layout.name.clone(), Net::of(layout, cluster)))
                .collect(),
        }
    }

    /// No partition has a network.
    #[must_use]
    pub fn is_flat(&self) -> bool {
        self.default.is_none() && self.named.iter().all(|(_, net)| net.is_none())
    }

    /// The network with a name, or the default one.
    #[must_use]
    pub fn find(&self, name: Option<&str>) -> Option<&Net> {
        match name.and_then(|name| self.named.iter().find(|(n, _)| n == name)) {
            Some((_, net)) => net.as_ref(),
            None => self.default.as_ref(),
        }
    }
}
