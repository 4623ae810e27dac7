//! topology.yaml to networks by name. Where the file is there, topology.conf is ignored.
//!
//! Names of nodes and switches are checked; the first network with `cluster_default: true` (else the first) serves partitions
//! without Topology=. Invariant: what [`text`] writes reads as the same networks. Source: `topology.yaml(5)`.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde::Deserialize;
use serde::de::IgnoredAny;
use sluice_model::hostlist::{collapse_hostlist, parse_hostlist};

use crate::cluster::*;
use crate::diagnostic::{Detail, Diagnostics, Origin};

/// Unknown nodes of one entry that are named one by one.
const UNKNOWN_NAMED_MAX: usize = 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    topology: String,
    #[serde(default)]
    cluster_default: bool,
    tree: Option<Tree>,
    block: Option<Blocks>,
    flat: Option<IgnoredAny>,
    ring: Option<IgnoredAny>,
    torus3d: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tree {
    switches: Vec<Switch>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Switch {
    switch: String,
    children: Option<String>,
    nodes: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Blocks {
    #[serde(default)]
    block_sizes: Vec<u32>,
    blocks: Vec<Block>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    block: String,
    nodes: Option<String>,
}

/// Reads topology.yaml over what the other files say.
pub(crate) fn apply(
    settings: &mut TopologySettings,
    text: &str,
    origin: &Origin,
    nodes: &[NodeConfig],
    diags: &mut Diagnostics,
) {
    let documents: Vec<Document> = match serde_saphyr::from_str(text) {
        Ok(documents) => documents,
        Err(error) => {
            diags.error(
                origin,
                Detail::key("topology.yaml"),
                format!("cannot be read: {error}"),
            );
            return;
        }
    };
    let known: HashSet<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
    let mut default = None;
    let mut layouts: Vec<TopologyLayout> = Vec::new();
    for document in documents {
        if layouts.iter().any(|l| l.name == document.topology) {
            let detail = Detail::pair("topology", &document.topology);
            diags.error(origin, detail, "is defined twice");
        }
        if document.cluster_default {
            default.get_or_insert(layouts.len());
        }
        layouts.push(layout(
            document,
            settings.is_optional(),
            &known,
            origin,
            diags,
        ));
    }
    if let Some(layout) = layouts.get(default.unwrap_or(0)) {
        settings.kind = layout.kind;
        settings.switches.clone_from(&layout.switches);
        settings.blocks.clone_from(&layout.blocks);
        settings.block_sizes.clone_from(&layout.block_sizes);
    }
    settings.default = default;
    settings.layouts = layouts;
}

fn layout(
    document: Document,
    optional: bool,
    known: &HashSet<&str>,
    origin: &Origin,
    diags: &mut Diagnostics,
) -> TopologyLayout {
    let kinds = [
        document.tree.is_some(),
        document.block.is_some(),
        document.flat.is_some(),
        document.ring.is_some(),
        document.torus3d.is_some(),
    ];
    if kinds.iter().filter(|there| **there).count() != 1 {
        let detail = Detail::pair("topology", &document.topology);
        diags.error(origin, detail, "needs exactly one of tree, block and flat");
    }
    if document.ring.is_some() || document.torus3d.is_some() {
        let detail = Detail::pair("topology", &document.topology);
        diags.warn(
            origin,
            detail,
            "ring and torus3d are not known here; all its nodes count as equally near",
        );
    }
    let mut layout = TopologyLayout {
        name: document.topology,
        kind: TopologyKind::Flat,
        switches: Vec::new(),
        blocks: Vec::new(),
        block_sizes: Vec::new(),
        optional,
    };
    let mut list = |key: &'static str, text: Option<&str>, is_node: bool| -> Vec<String> {
        let Some(text) = text else { return Vec::new() };
        let names = match parse_hostlist(text) {
            Ok(names) => names,
            Err(error) => {
                diags.error(origin, Detail::pair(key, text), error.to_string());
                return Vec::new();
            }
        };
        let unknown = names
            .iter()
            .filter(|n| is_node && !known.contains(n.as_str()));
        for name in unknown.take(UNKNOWN_NAMED_MAX) {
            diags.error(origin, Detail::pair(key, name), "is not a configured node");
        }
        names
    };
    if let Some(tree) = document.tree {
        layout.kind = TopologyKind::Tree;
        layout.switches = tree
            .switches
            .into_iter()
            .map(|switch| SwitchConfig {
                switches: list("children", switch.children.as_deref(), false),
                nodes: list("nodes", switch.nodes.as_deref(), true),
                name: switch.switch,
            })
            .collect();
    }
    if let Some(blocks) = document.block {
        layout.kind = TopologyKind::Block;
        layout.block_sizes = blocks.block_sizes;
        layout.blocks = blocks
            .blocks
            .into_iter()
            .map(|block| BlockConfig {
                nodes: list("nodes", block.nodes.as_deref(), true),
                name: block.block,
            })
            .collect();
    }
    super::topology::check_layout(&layout, origin, diags);
    layout
}

/// The networks as topology.yaml; empty when there are none by name.
pub(crate) fn text(settings: &TopologySettings) -> String {
    let mut out = String::new();
    for (at, layout) in settings.layouts.iter().enumerate() {
        let _ = writeln!(out, "- topology: {}", layout.name);
        if settings.default == Some(at) {
            out.push_str("  cluster_default: true\n");
        }
        match layout.kind {
            TopologyKind::Flat => out.push_str("  flat: true\n"),
            TopologyKind::Tree => {
                out.push_str("  tree:\n    switches:\n");
                for switch in &layout.switches {
                    let _ = writeln!(out, "    - switch: {}", switch.name);
                    for (key, names) in [("children", &switch.switches), ("nodes", &switch.nodes)] {
                        if !names.is_empty() {
                            let _ = writeln!(out, "      {key}: {}", collapse_hostlist(names));
                        }
                    }
                }
            }
            TopologyKind::Block => {
                out.push_str("  block:\n    block_sizes:\n");
                for size in &layout.block_sizes {
                    let _ = writeln!(out, "    - {size}");
                }
                out.push_str("    blocks:\n");
                for block in &layout.blocks {
                    let _ = writeln!(out, "    - block: {}", block.name);
                    if !block.nodes.is_empty() {
                        let _ = writeln!(out, "      nodes: {}", collapse_hostlist(&block.nodes));
                    }
                }
            }
        }
    }
    out
}
