//! `Gres=` of node lines joined with gres.conf: which devices a node has.
//!
//! slurm.conf says how many, gres.conf says which files, cores and flags. A gres.conf line without type serves any type of its name; a
//! line without NodeName serves every node that has such a resource. Files may be ordinary files.

use super::nodes::{NodeContext, number_list};
use super::values::Values;
use crate::cluster::GresConfig;
use crate::diagnostic::{Detail, Diagnostics};
use sluice_model::gres::{GresItem, parse_count, parse_node_gres, shares_gpus};
use sluice_model::hostlist::parse_hostlist;
use std::collections::HashSet;

/// With files, a resource may not have more pieces than this (as in Slurm).
const FILES_MAX: u64 = 1024;

/// One line of gres.conf that describes devices.
#[derive(Debug, Clone)]
pub(crate) struct GresLine {
    /// `None`: all nodes.
    nodes: Option<HashSet<String>>,
    name: String,
    type_name: Option<String>,
    count: u64,
    files: Vec<String>,
    cores: Option<String>,
    links: Option<String>,
    flags: Vec<String>,
    values: Values,
}

/// Reads the lines of gres.conf.
pub(crate) fn gres_lines(lines: &[Values], diags: &mut Diagnostics) -> Vec<GresLine> {
    lines
        .iter()
        .filter_map(|line| gres_line(line, diags))
        .collect()
}

fn gres_line(line: &Values, diags: &mut Diagnostics) -> Option<GresLine> {
    let nodes = line
        .given("NodeName")
        .and_then(|t| parse_hostlist(t).ok())
        .map(HashSet::from_iter);
    let Some(name) = line.given("Name") else {
        if line.given("AutoDetect").is_none() {
            diags.error(
                &line.origin,
                Detail::key("Name").hint("add Name=gpu"),
                "is required in a line of gres.conf",
            );
        }
        return None;
    };
    let file_key = if line.given("MultipleFiles").is_some() {
        "MultipleFiles"
    } else {
        "File"
    };
    let files = line
        .given(file_key)
        .and_then(|t| parse_hostlist(t).ok())
        .unwrap_or_default();
    // The files of a MultipleFiles line make one device together.
    let devices = if file_key == "MultipleFiles" {
        files.len().min(1)
    } else {
        files.len()
    } as u64;
    let count = match line.given("Count") {
        None => devices.max(1),
        Some(text) => {
            let count = parse_count(text).unwrap_or(1);
            // The files of shares are the GPUs that are shared.
            if devices > 0 && count != devices && !shares_gpus(name) {
                let detail =
                    Detail::pair("Count", text).hint("leave Count out, or list as many files");
                diags.error(
                    line.origin_of("Count"),
                    detail,
                    format!("does not match the {devices} devices of {file_key}"),
                );
            }
            count
        }
    };
    if devices > FILES_MAX {
        let text = line.string(file_key);
        diags.error(
            line.origin_of(file_key),
            Detail::pair(file_key, &text),
            format!("names more than {FILES_MAX} devices"),
        );
    }
    Some(GresLine {
        nodes,
        name: name.to_owned(),
        type_name: line.given("Type").map(str::to_owned),
        count,
        files,
        cores: line.given("Cores").map(str::to_owned),
        links: line.given("Links").map(str::to_owned),
        flags: line
            .list("Flags")
            .iter()
            .map(|f| f.to_ascii_lowercase())
            .collect(),
        values: line.clone(),
    })
}

impl GresLine {
    fn serves(&self, node: &str, item: &GresItem) -> bool {
        let node_fits = self.nodes.as_ref().is_none_or(|n| n.contains(node));
        let type_fits = self.type_name.is_none()
            || item.request.type_name.is_none()
            || self.type_name == item.request.type_name;
        node_fits && type_fits && self.name == item.request.name
    }
}

/// The devices of one node.
pub(crate) fn node_gres(
    line: &Values,
    node: &str,
    context: &NodeContext<'_>,
    diags: &mut Diagnostics,
) -> Vec<GresConfig> {
    let text = line.given("Gres").unwrap_or("");
    let items = parse_node_gres(text).unwrap_or_default();
    let mut devices = Vec::new();
    // A line of gres.conf without type serves several typed items in turn; this counts what of it is used up.
    let mut used = vec![0u64; context.gres_lines.len()];
    for (i, item) in items.iter().enumerate() {
        let request = &item.request;
        let fault_at = line.origin_of("Gres");
        if !context.gres_types.contains(&request.name) {
            let detail = Detail::pair("Gres", text).hint(format!("add GresTypes={}", request.name));
            diags.error(
                fault_at,
                detail,
                format!("{} is not in GresTypes", request.name),
            );
        }
        let same_name = |o: &&GresItem| o.request.name == request.name;
        if items[..i]
            .iter()
            .filter(same_name)
            .any(|o| o.request.type_name.is_some() != request.type_name.is_some())
        {
            diags.error(
                fault_at,
                Detail::pair("Gres", text).hint("give every item of the name a type, or none"),
                "mixes typed and untyped items of one name",
            );
        }
        if items[..i]
            .iter()
            .filter(same_name)
            .any(|o| o.request.type_name == request.type_name)
        {
            diags.error(
                fault_at,
                Detail::pair("Gres", text),
                format!("{} is listed twice", request.kind()),
            );
        }
        devices.extend(item_devices(line, node, item, context, &mut used, diags));
    }
    devices
}

fn item_devices(
    line: &Values,
    node: &str,
    item: &GresItem,
    context: &NodeContext<'_>,
    used: &mut [u64],
    diags: &mut Diagnostics,
) -> Vec<GresConfig> {
    let request = &item.request;
    let mut left = request.count;
    let mut groups = Vec::new();
    let mut described = false;
    for (i, gres) in context
        .gres_lines
        .iter()
        .enumerate()
        .filter(|(_, g)| g.serves(node, item))
    {
        described = true;
        let from = used[i];
        let take = (gres.count - from.min(gres.count)).min(left);
        if take == 0 {
            continue;
        }
        used[i] += take;
        left -= take;
        let multiple = gres.values.given("MultipleFiles").is_some();
        let files = if multiple {
            gres.files.clone()
        } else {
            gres.files
                .iter()
                .skip(from as usize)
                .take(take as usize)
                .cloned()
                .collect()
        };
        let cores = gres
            .cores
            .as_ref()
            .map(|t| number_list(&gres.values, "Cores", t, u32::MAX, diags))
            .unwrap_or_default();
        groups.push(GresConfig {
            name: request.name.clone(),
            type_name: request.type_name.clone().or_else(|| gres.type_name.clone()),
            count: take,
            no_consume: item.no_consume,
            files,
            cores,
            links: gres.links.clone(),
            flags: gres.flags.clone(),
        });
    }
    if described && left > 0 {
        let text = line.given("Gres").unwrap_or("");
        let detail = Detail::pair("Gres", text)
            .hint("the node would register with fewer devices than configured");
        diags.warn(
            line.origin_of("Gres"),
            detail,
            format!(
                "gres.conf describes {} of {} {} devices",
                request.count - left,
                request.count,
                request.kind()
            ),
        );
    }
    if left > 0 || (request.count == 0 && groups.is_empty()) {
        groups.push(GresConfig {
            name: request.name.clone(),
            type_name: request.type_name.clone(),
            count: left,
            no_consume: item.no_consume,
            files: Vec::new(),
            cores: Vec::new(),
            links: None,
            flags: Vec::new(),
        });
    }
    groups
}
