//! The lines of sinfo before they are printed: nodes with the same shown values become one line.
//!
//! Pure. Texts that a format shows must be equal inside a line; numbers are summed up or shown as ranges, unless `-e` asks
//! for equal ones. Partitions with the same shown texts share their lines; `-N` gives a node a line for
//! each of its partitions, whether they are shown or not. Source: sinfo(1).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sluice_model::node::NodeInfo;
use sluice_model::partition::PartitionInfo;
use sluice_model::state::NodeState;

use super::column::Layout;
use super::node_fields::{FieldKind, kind_of};
use super::time_style::TimeStyle;

/// What all lines of a listing share.
#[derive(Debug, Clone)]
pub struct NodeView {
    /// Times.
    pub times: TimeStyle,
    /// ClusterName, when one was asked for by name.
    pub cluster: Option<String>,
}

/// One line of sinfo.
#[derive(Debug, Clone)]
pub struct NodeGroup {
    /// Partition the line is about.
    pub partition: Arc<PartitionInfo>,
    /// Place of the partition in the configuration.
    pub partition_place: usize,
    /// The nodes, at least one unless the line says that there are none.
    pub nodes: Vec<Arc<NodeInfo>>,
    /// Shared facts.
    pub view: Arc<NodeView>,
}

impl NodeGroup {
    /// A node of the line; all agree in the texts that are shown.
    #[must_use]
    pub fn first(&self) -> Option<&NodeInfo> {
        self.nodes.first().map(Arc::as_ref)
    }

    /// Numbers of nodes: allocated, idle, other, all.
    #[must_use]
    pub fn node_counts(&self) -> [u32; 4] {
        let mut counts = [0; 4];
        for node in &self.nodes {
            counts[usage_class(node)] += 1;
            counts[3] += 1;
        }
        counts
    }

    /// Numbers of CPUs: allocated, idle, other, all.
    #[must_use]
    pub fn cpu_counts(&self) -> [u32; 4] {
        let mut counts = [0; 4];
        for node in &self.nodes {
            let free = node.cpus.saturating_sub(node.alloc_cpus);
            counts[0] += node.alloc_cpus;
            counts[if node.state.is_draining() || is_unusable(node) {
                2
            } else {
                1
            }] += free;
            counts[3] += node.cpus;
        }
        counts
    }
}

fn is_unusable(node: &NodeInfo) -> bool {
    matches!(
        node.state.base,
        NodeState::Down | NodeState::Unknown | NodeState::Future | NodeState::Error
    )
}

/// 0 = in use, 1 = idle, 2 = other.
fn usage_class(node: &NodeInfo) -> usize {
    use sluice_model::state::NodeStateFlags;
    let busy = matches!(node.state.base, NodeState::Allocated | NodeState::Mixed)
        || node.state.flags.contains(NodeStateFlags::COMPLETING);
    match () {
        () if busy => 0,
        () if node.state.is_draining() || is_unusable(node) => 2,
        () => 1,
    }
}

/// How lines are made.
#[derive(Debug, Clone, Copy, Default)]
pub struct Grouping {
    /// `-N`: every node by itself.
    pub each_node: bool,
    /// `-e`: numbers must be equal as well.
    pub exact: bool,
    /// Show partitions without nodes.
    pub empty_partitions: bool,
}

/// Makes the lines of `layout` from partitions (in their order) with their nodes.
#[must_use]
pub fn groups(
    partitions: &[(Arc<PartitionInfo>, Vec<Arc<NodeInfo>>)],
    layout: &Layout<NodeGroup>,
    grouping: Grouping,
    view: &Arc<NodeView>,
) -> Vec<NodeGroup> {
    let mut lines: Vec<NodeGroup> = Vec::new();
    let mut places: HashMap<Vec<String>, usize> = HashMap::new();
    let mut members: HashSet<(usize, &str)> = HashSet::new();
    let shows_partition = layout.columns.iter().any(|column| {
        matches!(
            kind_of(column.field),
            FieldKind::Partition | FieldKind::PartitionText
        )
    });
    for (place, (partition, nodes)) in partitions.iter().enumerate() {
        let line = |nodes: Vec<Arc<NodeInfo>>| NodeGroup {
            partition: Arc::clone(partition),
            partition_place: place,
            nodes,
            view: Arc::clone(view),
        };
        for node in nodes {
            let alone = line(vec![Arc::clone(node)]);
            let key = key(&alone, layout, grouping);
            let at = *places.entry(key).or_insert_with(|| {
                lines.push(line(Vec::new()));
                lines.len() - 1
            });
            if members.insert((at, &node.name)) {
                lines[at].nodes.push(Arc::clone(node));
            }
        }
        if nodes.is_empty() && grouping.empty_partitions && shows_partition {
            lines.push(line(Vec::new()));
        }
    }
    lines
}

/// What must be equal inside a line.
fn key(line: &NodeGroup, layout: &Layout<NodeGroup>, grouping: Grouping) -> Vec<String> {
    let mut key = Vec::new();
    if grouping.each_node {
        // A node has a line for each of its partitions, shown or not.
        key.push(line.partition_place.to_string());
        key.push(
            line.first()
                .map(|node| node.name.clone())
                .unwrap_or_default(),
        );
    }
    for column in &layout.columns {
        match kind_of(column.field) {
            FieldKind::Text | FieldKind::PartitionText => key.push((column.field.value)(line)),
            FieldKind::Partition => key.push(line.partition_place.to_string()),
            FieldKind::Number if grouping.exact => key.push((column.field.value)(line)),
            FieldKind::Number | FieldKind::Sum => {}
        }
    }
    key
}
