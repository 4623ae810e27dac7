//! `scontrol show topology` and `show topoconf`.
//!
//! A switch above others has the nodes of all below it. Source: scontrol(1), topology.conf(5), topology.yaml(5).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use sluice_config::{TopologyKind, TopologyLayout, TopologySettings};
use sluice_model::hostlist::{collapse_hostlist, parse_hostlist};

/// One switch or block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyRow {
    name: String,
    nodes: Vec<String>,
    switches: Vec<String>,
    /// Height over the nodes; of a block its number.
    level: usize,
    /// Of a block its size, and whether it is made of others.
    block: Option<(usize, bool)>,
}

impl TopologyRow {
    /// As printed.
    #[must_use]
    pub fn text(&self) -> String {
        let nodes = collapse_hostlist(&self.nodes);
        if let Some((size, aggregated)) = self.block {
            let key = if aggregated {
                "AggregatedBlock"
            } else {
                "BlockName"
            };
            return format!(
                "{key}={} BlockIndex={} Nodes={nodes} BlockSize={size}",
                self.name, self.level
            );
        }
        let mut text = format!(
            "SwitchName={} Level={} LinkSpeed=1 Nodes={nodes}",
            self.name, self.level
        );
        if !self.switches.is_empty() {
            let _ = write!(text, " Switches={}", collapse_hostlist(&self.switches));
        }
        text
    }
}

/// Height of a switch and the nodes below it; a circle ends where it begins.
fn below(
    topology: &TopologySettings,
    name: &str,
    seen: &mut BTreeSet<String>,
) -> (usize, Vec<String>) {
    let Some(switch) = topology.switches.iter().find(|switch| switch.name == name) else {
        return (0, Vec::new());
    };
    if !seen.insert(name.to_string()) {
        return (0, Vec::new());
    }
    let mut level = 0;
    let mut nodes = switch.nodes.clone();
    for child in &switch.switches {
        let (height, list) = below(topology, child, seen);
        level = level.max(height + 1);
        nodes.extend(list);
    }
    (level, nodes)
}

/// Every switch or block, in the order of the file.
#[must_use]
pub fn rows(topology: &TopologySettings) -> Vec<TopologyRow> {
    match topology.kind {
        TopologyKind::Flat => Vec::new(),
        TopologyKind::Tree => topology
            .switches
            .iter()
            .map(|switch| {
                let (level, nodes) = below(topology, &switch.name, &mut BTreeSet::new());
                TopologyRow {
                    name: switch.name.clone(),
                    nodes,
                    switches: switch.switches.clone(),
                    level,
                    block: None,
                }
            })
            .collect(),
        TopologyKind::Block => blocks(topology),
    }
}

/// The blocks, and after them those that BlockSizes makes of several.
fn blocks(topology: &TopologySettings) -> Vec<TopologyRow> {
    let smallest = topology.blocks.iter().map(|b| b.nodes.len()).min();
    let base = topology
        .block_sizes
        .first()
        .map_or(smallest.unwrap_or(0), |size| *size as usize);
    let mut rows: Vec<TopologyRow> = Vec::new();
    let larger = topology.block_sizes.iter().skip(1).map(|s| *s as usize);
    for size in std::iter::once(base).chain(larger) {
        let width = size.checked_div(base).unwrap_or(1).max(1);
        for part in topology.blocks.chunks(width) {
            let names: Vec<&String> = part.iter().map(|block| &block.name).collect();
            rows.push(TopologyRow {
                name: collapse_hostlist(names),
                nodes: part.iter().flat_map(|b| b.nodes.clone()).collect(),
                switches: Vec::new(),
                level: rows.len(),
                block: Some((size, size > base)),
            });
        }
    }
    rows
}

/// Those of a name, or those that connect all nodes of a list.
#[must_use]
pub fn chosen<'a>(rows: &'a [TopologyRow], wanted: Option<&str>) -> Vec<&'a TopologyRow> {
    let Some(wanted) = wanted else {
        return rows.iter().collect();
    };
    let named: Vec<&TopologyRow> = rows.iter().filter(|row| row.name == wanted).collect();
    if !named.is_empty() {
        return named;
    }
    let nodes = parse_hostlist(wanted).unwrap_or_default();
    rows.iter()
        .filter(|row| !nodes.is_empty() && nodes.iter().all(|node| row.nodes.contains(node)))
        .collect()
}

/// The topology in the form of topology.yaml; as written where there is such a file, else under the name `default`.
#[must_use]
pub fn yaml(topology: &TopologySettings) -> String {
    let layouts = if topology.layouts.is_empty() {
        let named = TopologyLayout {
            name: "default".to_owned(),
            ..topology.default_layout()
        };
        TopologySettings {
            layouts: vec![named],
            default: Some(0),
            ..topology.clone()
        }
        .layouts_yaml()
    } else {
        topology.layouts_yaml()
    };
    format!("---\n{layouts}...\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_config::SwitchConfig;

    fn tree() -> TopologySettings {
        let switch = |name: &str, switches: &[&str], nodes: &[&str]| SwitchConfig {
            name: name.to_string(),
            switches: switches.iter().map(|s| (*s).to_string()).collect(),
            nodes: nodes.iter().map(|s| (*s).to_string()).collect(),
        };
        TopologySettings {
            kind: TopologyKind::Tree,
            params: Vec::new(),
            switches: vec![
                switch("s0", &[], &["n1", "n2"]),
                switch("s1", &[], &["n3", "n4"]),
                switch("s2", &["s0", "s1"], &[]),
            ],
            blocks: Vec::new(),
            block_sizes: Vec::new(),
            layouts: Vec::new(),
            default: None,
        }
    }

    /// Leaves are level 0, and a switch above them reaches all their nodes.
    #[test]
    fn switches() {
        let rows = rows(&tree());
        let texts: Vec<String> = rows.iter().map(TopologyRow::text).collect();
        assert_eq!(
            texts,
            [
                "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]",
                "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[3-4]",
                "SwitchName=s2 Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[0-1]",
            ]
        );
        let names = |wanted| -> Vec<String> {
            chosen(&rows, Some(wanted))
                .iter()
                .map(|row| row.name.clone())
                .collect()
        };
        assert_eq!(names("s1"), ["s1"]);
        assert_eq!(names("n1"), ["s0", "s2"]);
        assert_eq!(names("n1,n3"), ["s2"]);
        assert!(names("n9").is_empty());
    }

    /// Blocks, then what BlockSizes makes of them.
    #[test]
    fn blocks() {
        let block = |name: &str, nodes: &[&str]| sluice_config::BlockConfig {
            name: name.to_string(),
            nodes: nodes.iter().map(|s| (*s).to_string()).collect(),
        };
        let topology = TopologySettings {
            kind: TopologyKind::Block,
            switches: Vec::new(),
            blocks: vec![block("b1", &["n1", "n2"]), block("b2", &["n3", "n4"])],
            block_sizes: vec![2, 4],
            ..tree()
        };
        let texts: Vec<String> = rows(&topology).iter().map(TopologyRow::text).collect();
        assert_eq!(
            texts,
            [
                "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2",
                "BlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2",
                "AggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-4] BlockSize=4",
            ]
        );
    }

    /// The form of topology.yaml.
    #[test]
    fn as_yaml() {
        let text = yaml(&tree());
        assert!(
            text.contains("    - switch: s2\n      children: s[0-1]\n"),
            "{text}"
        );
    }
}
