//! `NodeName=`, `DownNodes=` and `NodeSet=` lines to nodes.
//!
//! Rules as in Slurm: DEFAULT lines accumulate; a node stands once; what is missing of sockets, cores, threads and CPUs is inferred; CPUs
//! that fit neither threads nor cores are reset with a message.

use super::gres::{GresLine, node_gres};
use super::values::Values;
use crate::cluster::*;
use crate::diagnostic::{Detail, Diagnostics};
use crate::keys::Scope;
use sluice_model::hostlist::{name_order, parse_hostlist};
use sluice_model::memory::MemoryMib;
use std::collections::HashMap;

/// What node lines refer to.
pub(crate) struct NodeContext<'a> {
    pub slurmd_port: u16,
    pub gres_types: &'a [String],
    pub gres_lines: &'a [GresLine],
}

/// Reads all node lines. The nodes stand sorted by name, n2 before n10, as in Slurm's table: in whatever order they are written, they are
/// listed and, where nothing else decides, taken in this one.
pub(crate) fn nodes(
    lines: &[Values],
    context: &NodeContext<'_>,
    diags: &mut Diagnostics,
) -> Vec<NodeConfig> {
    let mut nodes: Vec<NodeConfig> = Vec::new();
    let mut lines_of: HashMap<String, u32> = HashMap::new();
    let mut defaults: Option<Values> = None;
    for line in lines {
        let merged = match &defaults {
            Some(d) => {
                let mut merged = d.clone();
                merged.overlay(line.clone());
                merged
            }
            None => line.clone(),
        };
        let expression = line.string("NodeName");
        if expression.eq_ignore_ascii_case("DEFAULT") {
            defaults = Some(merged);
            continue;
        }
        for node in node_line(&merged, &expression, context, diags) {
            if let Some(first) = lines_of.get(&node.name) {
                let detail =
                    Detail::pair("NodeName", &node.name).hint("a node may stand in one line only");
                diags.error(
                    &line.origin,
                    detail,
                    format!("is already defined in line {first}"),
                );
                continue;
            }
            lines_of.insert(node.name.clone(), line.origin.line);
            nodes.push(node);
        }
    }
    nodes.sort_by(|a, b| name_order(&a.name, &b.name));
    nodes
}

/// The nodes of one line, defaults applied.
fn node_line(
    line: &Values,
    expression: &str,
    context: &NodeContext<'_>,
    diags: &mut Diagnostics,
) -> Vec<NodeConfig> {
    // The expression was checked when the line was read.
    let names = parse_hostlist(expression).unwrap_or_default();
    if names.is_empty() && line.missing("NodeName") {
        diags.error(&line.origin, Detail::key("NodeName"), "names no node");
    }
    for name in &names {
        let plain = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
            && !name.eq_ignore_ascii_case("ALL");
        if !plain {
            diags.error(
                &line.origin,
                Detail::pair("NodeName", name)
                    .hint("letters, digits, - _ and . only; ALL is reserved"),
                "is not a legal node name",
            );
        }
    }
    let hostnames = parallel(line, "NodeHostname", &names, diags).unwrap_or_else(|| names.clone());
    let addrs = parallel(line, "NodeAddr", &names, diags).unwrap_or_else(|| hostnames.clone());
    let ports = parallel(line, "Port", &names, diags);
    let port_of = |i: usize, diags: &mut Diagnostics| match ports.as_ref().map(|p| &p[i]) {
        None => context.slurmd_port,
        Some(text) => text.parse().ok().filter(|p| *p > 0).unwrap_or_else(|| {
            diags.error(
                line.origin_of("Port"),
                Detail::pair("Port", text)
                    .hint("a port from 1 to 65535, or a range such as [17001-17004]"),
                "is not a port",
            );
            context.slurmd_port
        }),
    };
    let processors = processors(line, diags);
    let gres = names
        .iter()
        .map(|name| node_gres(line, name, context, diags))
        .collect::<Vec<_>>();
    let template = template(line, processors, diags);
    let mut nodes = Vec::with_capacity(names.len());
    for (i, gres) in gres.into_iter().enumerate() {
        let port = port_of(i, diags);
        nodes.push(NodeConfig {
            name: names[i].clone(),
            hostname: hostnames[i].clone(),
            addr: addrs[i].clone(),
            port,
            gres,
            ..template.clone()
        });
    }
    nodes
}

/// Names that go with the node names one by one; a single one goes with all.
fn parallel(
    line: &Values,
    key: &str,
    names: &[String],
    diags: &mut Diagnostics,
) -> Option<Vec<String>> {
    let text = line.given(key)?;
    let list = parse_hostlist(text).ok()?;
    match list.len() {
        n if n == names.len() => Some(list),
        1 => Some(vec![list[0].clone(); names.len()]),
        n => {
            let detail = Detail::pair(key, text).hint("give as many as there are nodes, or one");
            diags.error(
                line.origin_of(key),
                detail,
                format!("means {n} entries for {} nodes", names.len()),
            );
            None
        }
    }
}

#[derive(Clone, Copy)]
struct Processors {
    cpus: u32,
    boards: u32,
    sockets: u32,
    cores_per_socket: u32,
    threads_per_core: u32,
}

fn processors(line: &Values, diags: &mut Diagnostics) -> Processors {
    let boards: u32 = line.number("Boards");
    let cores: u32 = line.number("CoresPerSocket");
    let threads: u32 = line.number("ThreadsPerCore");
    let cpus = line.number_if_set::<u32>("CPUs");
    let sockets = line.number_if_set::<u32>("Sockets");
    let per_board = line.number_if_set::<u32>("SocketsPerBoard");
    if sockets.is_some() && per_board.is_some() {
        let detail = Detail::pair(
            "SocketsPerBoard",
            line.given("SocketsPerBoard").unwrap_or(""),
        )
        .hint("keep one of the two");
        diags.error(
            line.origin_of("SocketsPerBoard"),
            detail,
            "excludes Sockets, which is given too",
        );
    }
    let inferred = || {
        cpus.map_or(boards, |c| {
            (c / (cores.saturating_mul(threads)).max(1)).max(1)
        })
    };
    let sockets = sockets
        .or(per_board.map(|s| s.saturating_mul(boards)))
        .unwrap_or_else(inferred);
    let all_cores = sockets.saturating_mul(cores);
    let total = all_cores.saturating_mul(threads);
    let cpus = match cpus {
        None => total,
        Some(c) if c == total || c == all_cores => c,
        Some(c) => {
            let text = c.to_string();
            let detail = Detail::pair("CPUs", &text).hint(format!(
                "Sockets {sockets} x CoresPerSocket {cores} x ThreadsPerCore {threads} = {total}"
            ));
            diags.warn(
                line.origin_of("CPUs"),
                detail,
                format!("does not match sockets, cores and threads; {total} is used"),
            );
            total
        }
    };
    Processors {
        cpus,
        boards,
        sockets,
        cores_per_socket: cores,
        threads_per_core: threads,
    }
}

fn template(line: &Values, p: Processors, diags: &mut Diagnostics) -> NodeConfig {
    super::scheduling::one_of_these(line, &["CoreSpecCount", "CpuSpecList"], diags);
    let real_memory: u64 = line.number("RealMemory");
    let mem_spec_limit: u64 = line.number("MemSpecLimit");
    if mem_spec_limit >= real_memory.max(1) && mem_spec_limit > 0 {
        let text = mem_spec_limit.to_string();
        let detail = Detail::pair("MemSpecLimit", &text)
            .hint("it is the part of RealMemory that jobs do not get");
        diags.error(
            line.origin_of("MemSpecLimit"),
            detail,
            format!("leaves nothing of RealMemory={real_memory}"),
        );
    }
    let core_spec_count: u32 = line.number("CoreSpecCount");
    if core_spec_count > 0 && core_spec_count >= p.sockets * p.cores_per_socket {
        let text = core_spec_count.to_string();
        diags.error(
            line.origin_of("CoreSpecCount"),
            Detail::pair("CoreSpecCount", &text),
            format!("leaves none of {} cores", p.sockets * p.cores_per_socket),
        );
    }
    let cpu_spec_list = line
        .given("CpuSpecList")
        .map(|t| number_list(line, "CpuSpecList", t, p.cpus, diags))
        .unwrap_or_default();
    let other = [
        "BcastAddr",
        "RestrictedCoresPerGPU",
        "GresConf",
        "Parameters",
        "TRESWeights",
    ];
    NodeConfig {
        name: String::new(),
        hostname: String::new(),
        addr: String::new(),
        port: 0,
        cpus: p.cpus,
        boards: p.boards,
        sockets: p.sockets,
        cores_per_socket: p.cores_per_socket,
        threads_per_core: p.threads_per_core,
        real_memory: MemoryMib(real_memory),
        tmp_disk_mib: line.number("TmpDisk"),
        mem_spec_limit: MemoryMib(mem_spec_limit),
        core_spec_count,
        cpu_spec_list,
        features: line.list("Features"),
        gres: Vec::new(),
        weight: line.number("Weight"),
        state: initial_state(&line.string("State")),
        reason: line.given("Reason").map(str::to_owned),
        cpu_bind: line.given("CpuBind").map(str::to_owned),
        suspend_time_secs: line.seconds("SuspendTime").map(|s| s as u32),
        topology: line.given("Topology").map(str::to_owned),
        other: other
            .iter()
            .filter_map(|k| line.given(k).map(|v| ((*k).to_owned(), v.to_owned())))
            .collect(),
    }
}

/// Reads `0-3,8` with every number below `count`.
pub(crate) fn number_list(
    line: &Values,
    key: &str,
    text: &str,
    count: u32,
    diags: &mut Diagnostics,
) -> Vec<u32> {
    let numbers = parse_hostlist(&format!("[{text}]")).ok().and_then(|l| {
        l.iter()
            .map(|n| n.parse::<u32>().ok())
            .collect::<Option<Vec<_>>>()
    });
    match numbers {
        Some(numbers) => {
            if let Some(high) = numbers.iter().find(|n| **n >= count) {
                let detail = Detail::pair(key, text)
                    .hint(format!("numbers from 0 to {}", count.saturating_sub(1)));
                diags.warn(
                    line.origin_of(key),
                    detail,
                    format!("{high} is beyond what the node has"),
                );
            }
            numbers
        }
        None => {
            diags.error(
                line.origin_of(key),
                Detail::pair(key, text).hint("for instance 0-3,8"),
                "is not a list of numbers",
            );
            Vec::new()
        }
    }
}

fn initial_state(text: &str) -> NodeInitialState {
    match text.to_ascii_uppercase().as_str() {
        "DOWN" => NodeInitialState::Down,
        "DRAIN" => NodeInitialState::Drain,
        "FAIL" => NodeInitialState::Fail,
        "FAILING" => NodeInitialState::Failing,
        "FUTURE" => NodeInitialState::Future,
        "CLOUD" => NodeInitialState::Cloud,
        _ => NodeInitialState::Unknown,
    }
}

/// `DownNodes=` lines: the state in which their nodes begin.
pub(crate) fn down_nodes(lines: &[Values], nodes: &mut [NodeConfig], diags: &mut Diagnostics) {
    for line in lines {
        let text = line.string("DownNodes");
        for name in parse_hostlist(&text).unwrap_or_default() {
            match nodes.iter_mut().find(|n| n.name == name) {
                Some(node) => {
                    node.state = initial_state(&line.string("State"));
                    node.reason = line
                        .given("Reason")
                        .map(str::to_owned)
                        .or(node.reason.take());
                }
                None => diags.error(
                    &line.origin,
                    Detail::pair("DownNodes", &name),
                    "is not a configured node",
                ),
            }
        }
    }
}

/// `NodeSet=` lines, resolved.
pub(crate) fn node_sets(
    lines: &[Values],
    nodes: &[NodeConfig],
    diags: &mut Diagnostics,
) -> Vec<NodeSetConfig> {
    let mut sets: Vec<NodeSetConfig> = Vec::new();
    for line in lines {
        let name = line.string("NodeSet");
        let feature = line.given("Feature").map(str::to_owned);
        let expression = line.given("Nodes").map(str::to_owned);
        if sets.iter().any(|s| s.name == name) {
            diags.error(
                &line.origin,
                Detail::pair("NodeSet", &name),
                "is defined twice",
            );
            continue;
        }
        if feature.is_none() && expression.is_none() {
            diags.error(
                &line.origin,
                Detail::pair("NodeSet", &name).hint("add Feature= or Nodes="),
                "means no nodes",
            );
        }
        let listed = expression
            .as_deref()
            .map(|e| expand(e, nodes, &sets, line, diags))
            .unwrap_or_default();
        let fits = |n: &&NodeConfig| {
            listed.contains(&n.name) || feature.as_ref().is_some_and(|f| n.features.contains(f))
        };
        let members = nodes.iter().filter(fits).map(|n| n.name.clone()).collect();
        sets.push(NodeSetConfig {
            name,
            feature,
            nodes_expression: expression,
            nodes: members,
        });
    }
    sets
}

/// The nodes that an expression of `Nodes=` means: names, ranges, node sets, ALL, feature{F}. In the order of the table, each once.
pub(crate) fn expand(
    expression: &str,
    nodes: &[NodeConfig],
    sets: &[NodeSetConfig],
    line: &Values,
    diags: &mut Diagnostics,
) -> Vec<String> {
    let index: HashMap<&str, usize> = nodes
        .iter()
        .enumerate()
        .map(|(i, n)| (n.name.as_str(), i))
        .collect();
    let mut chosen = vec![false; nodes.len()];
    let mut unknown = Vec::new();
    for name in parse_hostlist(expression).unwrap_or_default() {
        if name.eq_ignore_ascii_case("ALL") {
            chosen.fill(true);
        } else if let Some(i) = index.get(name.as_str()) {
            chosen[*i] = true;
        } else if let Some(set) = sets.iter().find(|s| s.name == name) {
            set.nodes
                .iter()
                .filter_map(|n| index.get(n.as_str()))
                .for_each(|i| chosen[*i] = true);
        } else if let Some(feature) = name
            .strip_prefix("feature{")
            .and_then(|f| f.strip_suffix('}'))
        {
            nodes
                .iter()
                .enumerate()
                .filter(|(_, n)| n.features.iter().any(|f| f == feature))
                .for_each(|(i, _)| chosen[i] = true);
        } else {
            unknown.push(name);
        }
    }
    if !unknown.is_empty() {
        let text = sluice_model::hostlist::collapse_hostlist(&unknown);
        let detail = Detail::pair("Nodes", &text).hint(format!(
            "define it in a {} or NodeSet line",
            Scope::Node.describe().replace(" parameter", " (NodeName)")
        ));
        diags.error(
            line.origin_of("Nodes"),
            detail,
            if unknown.len() == 1 {
                "is not a configured node"
            } else {
                "are not configured nodes"
            },
        );
    }
    nodes
        .iter()
        .zip(chosen)
        .filter(|(_, c)| *c)
        .map(|(n, _)| n.name.clone())
        .collect()
}
