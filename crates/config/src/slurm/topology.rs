//! topology.conf to switches and blocks.

use super::values::Values;
use crate::cluster::*;
use crate::diagnostic::{Detail, Diagnostics, Origin};
use crate::keys::{Scope, split_list};
use crate::slurm::statement::{Pair, Statement};
use sluice_model::hostlist::parse_hostlist;
use std::collections::HashSet;

/// Unknown nodes of one line that are named one by one; a slip in a range makes thousands.
const UNKNOWN_NAMED_MAX: usize = 10;

/// The lines of topology.conf, checked.
#[derive(Default)]
pub(crate) struct TopologyLines {
    pub switches: Vec<Values>,
    pub blocks: Vec<Values>,
    pub block_sizes: Vec<u32>,
}

/// Sorts the statements into switch and block lines.
pub(crate) fn topology_lines(statements: &[Statement], diags: &mut Diagnostics) -> TopologyLines {
    let mut lines = TopologyLines::default();
    for statement in statements {
        let Some(first) = statement.first() else {
            continue;
        };
        let scope = if statement
            .iter()
            .any(|p| p.key.to_ascii_lowercase().starts_with("block"))
        {
            Scope::Block
        } else {
            Scope::Switch
        };
        let values = Values::collect(scope, first.origin.clone(), statement, diags);
        if scope == Scope::Switch {
            if values.given("SwitchName").is_none() && statement.iter().any(is_known_switch_key) {
                diags.error(
                    &values.origin,
                    Detail::key("SwitchName"),
                    "is required in a switch line",
                );
            }
            lines.switches.push(values);
            continue;
        }
        for text in split_list(values.given("BlockSizes").unwrap_or("")) {
            match text.parse() {
                Ok(n) => lines.block_sizes.push(n),
                Err(_) => diags.error(
                    values.origin_of("BlockSizes"),
                    Detail::pair("BlockSizes", text),
                    "is not a number",
                ),
            }
        }
        if values.given("BlockName").is_some() {
            lines.blocks.push(values);
        }
    }
    lines
}

fn is_known_switch_key(pair: &Pair) -> bool {
    Scope::Switch.find(&pair.key).is_some()
}

/// Joins TopologyPlugin and topology.conf; node and switch names are checked.
pub(crate) fn topology(
    values: &Values,
    lines: Option<&TopologyLines>,
    nodes: &[NodeConfig],
    diags: &mut Diagnostics,
) -> TopologySettings {
    let kind = match values
        .string("TopologyPlugin")
        .to_ascii_lowercase()
        .as_str()
    {
        "topology/tree" => TopologyKind::Tree,
        "topology/block" => TopologyKind::Block,
        _ => TopologyKind::Flat,
    };
    if kind != TopologyKind::Flat && lines.is_none() {
        let text = values.string("TopologyPlugin");
        let detail =
            Detail::pair("TopologyPlugin", &text).hint("put topology.conf beside slurm.conf");
        diags.warn(
            values.origin_of("TopologyPlugin"),
            detail,
            "there is no topology.conf; all nodes count as equally near",
        );
    }
    let none = TopologyLines::default();
    let lines = lines.unwrap_or(&none);
    let known: HashSet<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
    let mut named = |v: &Values| {
        let names = v
            .given("Nodes")
            .and_then(|t| parse_hostlist(t).ok())
            .unwrap_or_default();
        let unknown: Vec<&String> = names
            .iter()
            .filter(|n| !known.contains(n.as_str()))
            .collect();
        if unknown.len() > UNKNOWN_NAMED_MAX {
            let text = format!("names {} nodes that are not configured", unknown.len());
            diags.error(v.origin_of("Nodes"), Detail::key("Nodes"), text);
        }
        for name in unknown.into_iter().take(UNKNOWN_NAMED_MAX) {
            diags.error(
                v.origin_of("Nodes"),
                Detail::pair("Nodes", name),
                "is not a configured node",
            );
        }
        names
    };
    let switches: Vec<SwitchConfig> = lines
        .switches
        .iter()
        .map(|v| SwitchConfig {
            name: v.string("SwitchName"),
            switches: v
                .given("Switches")
                .and_then(|t| parse_hostlist(t).ok())
                .unwrap_or_default(),
            nodes: named(v),
        })
        .collect();
    let blocks = lines
        .blocks
        .iter()
        .map(|v| BlockConfig {
            name: v.string("BlockName"),
            nodes: named(v),
        })
        .collect();
    for (i, switch) in switches.iter().enumerate() {
        let v = &lines.switches[i];
        if switches[..i].iter().any(|s| s.name == switch.name) {
            diags.error(
                &v.origin,
                Detail::pair("SwitchName", &switch.name),
                "is defined twice",
            );
        }
        for child in switch
            .switches
            .iter()
            .filter(|c| !switches.iter().any(|s| s.name == **c))
        {
            diags.error(
                v.origin_of("Switches"),
                Detail::pair("Switches", child),
                "is not a defined switch",
            );
        }
    }
    let settings = TopologySettings {
        kind,
        params: values.list("TopologyParam"),
        switches,
        blocks,
        block_sizes: lines.block_sizes.clone(),
        layouts: Vec::new(),
        default: None,
    };
    if kind == TopologyKind::Block {
        let origin = lines.blocks.first().map(|v| v.origin.clone());
        let origin = origin.unwrap_or_else(|| values.origin.clone());
        check_layout(&settings.default_layout(), &origin, diags);
    }
    settings
}

/// Checks what holds of blocks and switches however they were written.
pub(crate) fn check_layout(layout: &TopologyLayout, origin: &Origin, diags: &mut Diagnostics) {
    let mut sizes = layout.block_sizes.iter().copied();
    let base = sizes.next();
    let mut before = base.unwrap_or(0);
    for size in sizes {
        let doubled =
            before > 0 && size > before && size % before == 0 && (size / before).is_power_of_two();
        if !doubled {
            let text = size.to_string();
            diags.error(
                origin,
                Detail::pair("BlockSizes", &text)
                    .hint("each size is the one before it times 2, 4, 8, …"),
                format!("does not follow {before}"),
            );
        }
        before = size;
    }
    for (at, block) in layout.blocks.iter().enumerate() {
        if layout.blocks[..at]
            .iter()
            .any(|other| other.name == block.name)
        {
            let detail = Detail::pair("BlockName", &block.name);
            diags.error(origin, detail, "is defined twice");
        }
        if let Some(base) = base.filter(|base| block.nodes.len() < *base as usize) {
            let detail = Detail::pair("BlockName", &block.name);
            diags.warn(
                origin,
                detail,
                format!(
                    "has {} nodes, fewer than the {base} of BlockSizes",
                    block.nodes.len()
                ),
            );
        }
    }
    let mut of: HashSet<&str> = HashSet::new();
    let in_leaves = layout
        .switches
        .iter()
        .map(|s| (&s.name, &s.nodes))
        .chain(layout.blocks.iter().map(|b| (&b.name, &b.nodes)));
    for (name, nodes) in in_leaves {
        if let Some(twice) = nodes.iter().find(|node| !of.insert(node.as_str())) {
            diags.warn(
                origin,
                Detail::pair("Nodes", twice),
                format!("is in {name} and in another switch or block; the last one counts"),
            );
        }
    }
}
