//! A configuration written as the files of a Slurm installation.
//!
//! Invariant: reading what is written here gives an equal configuration (apart from [`crate::SpecDetails`], which slurm.conf cannot
//! say, and from DownNodes lines and DEFAULT records, whose effect is written on each line). No I/O: files are returned as text.

use crate::bundle::BundleFile;
use crate::cluster::*;
use crate::slurm::read::{SLURM_CONF, script_files};
use crate::slurm::statement::quote;
use sluice_model::hostlist::collapse_hostlist;
use std::fmt::Write as _;

impl ClusterConfig {
    /// slurm.conf first, then gres.conf, cgroup.conf, topology.conf, slurmdbd.conf as needed, then the scripts.
    pub fn to_slurm_conf(&self) -> Vec<BundleFile> {
        let mut files = vec![BundleFile {
            name: SLURM_CONF.to_owned(),
            content: self.slurm_conf_text(),
        }];
        let companions = [
            ("gres.conf", self.gres_conf_text()),
            ("cgroup.conf", pairs_text(&self.cgroup.raw)),
            ("topology.conf", self.topology_conf_text()),
            (
                "topology.yaml",
                crate::slurm::topology_yaml::text(&self.topology),
            ),
            ("slurmdbd.conf", self.slurmdbd_conf_text()),
        ];
        for (name, content) in companions {
            if !content.is_empty() {
                files.push(BundleFile {
                    name: name.to_owned(),
                    content,
                });
            }
        }
        files.extend(script_files(self));
        files
    }

    fn slurm_conf_text(&self) -> String {
        let mut out = pairs_text(&self.raw);
        for (names, rest) in grouped(&self.nodes, node_text) {
            let _ = write!(
                out,
                "NodeName={}",
                collapse_hostlist(names.iter().map(|n| &n.name))
            );
            write_parallel(
                &mut out,
                "NodeHostname",
                &names,
                |n| n.hostname.clone(),
                |n| n.name.clone(),
            );
            write_parallel(
                &mut out,
                "NodeAddr",
                &names,
                |n| n.addr.clone(),
                |n| n.hostname.clone(),
            );
            write_parallel(
                &mut out,
                "Port",
                &names,
                |n| n.port.to_string(),
                |_| self.slurmd_port.to_string(),
            );
            let _ = writeln!(out, "{rest}");
        }
        for set in &self.node_sets {
            let _ = write!(out, "NodeSet={}", set.name);
            write_pair(&mut out, "Feature", set.feature.as_deref());
            write_pair(&mut out, "Nodes", set.nodes_expression.as_deref());
            out.push('\n');
        }
        for action in &self.power.actions {
            let _ = writeln!(
                out,
                "PowerAction={} Location={} Program={}",
                action.name,
                action.location,
                quote(&action.program)
            );
        }
        for p in &self.partitions {
            let _ = write!(out, "PartitionName={}", p.name);
            write_pair(
                &mut out,
                "Nodes",
                Some(&p.nodes_expression)
                    .filter(|e| !e.is_empty())
                    .map(String::as_str),
            );
            for (key, value) in &p.raw {
                write_pair(&mut out, key, Some(value));
            }
            out.push('\n');
        }
        out
    }

    fn gres_conf_text(&self) -> String {
        let mut out = String::new();
        for (names, lines) in grouped(&self.nodes, gres_text) {
            if lines.is_empty() {
                continue;
            }
            let nodes = collapse_hostlist(names.iter().map(|n| &n.name));
            for line in lines.lines() {
                let _ = writeln!(out, "NodeName={nodes} {line}");
            }
        }
        out
    }

    fn topology_conf_text(&self) -> String {
        let t = &self.topology;
        let mut out = String::new();
        if !t.layouts.is_empty() {
            return out;
        }
        for s in &t.switches {
            let _ = write!(out, "SwitchName={}", s.name);
            write_pair(
                &mut out,
                "Switches",
                (!s.switches.is_empty())
                    .then(|| collapse_hostlist(&s.switches))
                    .as_deref(),
            );
            write_pair(
                &mut out,
                "Nodes",
                (!s.nodes.is_empty())
                    .then(|| collapse_hostlist(&s.nodes))
                    .as_deref(),
            );
            out.push('\n');
        }
        for b in &t.blocks {
            let _ = writeln!(
                out,
                "BlockName={} Nodes={}",
                b.name,
                collapse_hostlist(&b.nodes)
            );
        }
        if !t.block_sizes.is_empty() {
            let sizes: Vec<String> = t.block_sizes.iter().map(u32::to_string).collect();
            let _ = writeln!(out, "BlockSizes={}", sizes.join(","));
        }
        out
    }

    /// Only when slurm.conf says slurmdbd and its file chose the storage.
    fn slurmdbd_conf_text(&self) -> String {
        let through_dbd = self
            .raw_value("AccountingStorageType")
            .is_some_and(|t| t.eq_ignore_ascii_case("accounting_storage/slurmdbd"));
        let mut out = String::new();
        match &self.accounting.storage {
            AccountingStorage::Postgres(p) if through_dbd => {
                let location = p.url.as_ref().unwrap_or(&p.database);
                let _ = writeln!(
                    out,
                    "StorageType=accounting_storage/postgres\nStorageHost={}\nStoragePort={}",
                    quote(&p.host),
                    p.port
                );
                let _ = writeln!(
                    out,
                    "StorageUser={}\nStorageLoc={}",
                    quote(&p.user),
                    quote(location)
                );
                if let Some(password) = &p.password {
                    let _ = writeln!(out, "StoragePass={}", quote(password));
                }
            }
            AccountingStorage::None if through_dbd => {
                out.push_str("StorageType=accounting_storage/none\n")
            }
            _ => {}
        }
        out
    }
}

fn pairs_text(pairs: &[(String, String)]) -> String {
    pairs.iter().fold(String::new(), |mut out, (key, value)| {
        let _ = writeln!(out, "{key}={}", quote(value));
        out
    })
}

fn write_pair(out: &mut String, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        let _ = write!(out, " {key}={}", quote(value));
    }
}

/// Runs of neighbours for which the text is the same.
fn grouped(
    nodes: &[NodeConfig],
    text: impl Fn(&NodeConfig) -> String,
) -> Vec<(Vec<&NodeConfig>, String)> {
    let mut groups: Vec<(Vec<&NodeConfig>, String)> = Vec::new();
    for node in nodes {
        let text = text(node);
        match groups.last_mut() {
            Some((members, t)) if *t == text => members.push(node),
            _ => groups.push((vec![node], text)),
        }
    }
    groups
}

/// A key with one entry per node, left out when all are as by default, and written once when all are the same.
fn write_parallel(
    out: &mut String,
    key: &str,
    nodes: &[&NodeConfig],
    value: impl Fn(&NodeConfig) -> String,
    default: impl Fn(&NodeConfig) -> String,
) {
    if nodes.iter().all(|n| value(n) == default(n)) {
        return;
    }
    let values: Vec<String> = nodes.iter().map(|n| value(n)).collect();
    let same = values.iter().all(|v| *v == values[0]);
    let text = if same {
        values[0].clone()
    } else {
        collapse_hostlist(&values)
    };
    write_pair(out, key, Some(&text));
}

/// Everything of a node's line but names, addresses and port.
pub(crate) fn node_text(n: &NodeConfig) -> String {
    let mut out = String::new();
    let _ = write!(out, " CPUs={}", n.cpus);
    if n.boards != 1 {
        let _ = write!(out, " Boards={}", n.boards);
    }
    let _ = write!(
        out,
        " Sockets={} CoresPerSocket={} ThreadsPerCore={}",
        n.sockets, n.cores_per_socket, n.threads_per_core
    );
    let _ = write!(out, " RealMemory={}", n.real_memory.0);
    let optional = [
        ("TmpDisk", n.tmp_disk_mib),
        ("MemSpecLimit", n.mem_spec_limit.0),
        ("CoreSpecCount", u64::from(n.core_spec_count)),
    ];
    for (key, value) in optional {
        if value > 0 {
            let _ = write!(out, " {key}={value}");
        }
    }
    let texts = [
        ("CpuSpecList", list_text(&n.cpu_spec_list)),
        ("Features", n.features.join(",")),
        ("Gres", n.gres_text()),
        (
            "Weight",
            if n.weight == 1 {
                String::new()
            } else {
                n.weight.to_string()
            },
        ),
        (
            "State",
            if n.state == NodeInitialState::Unknown {
                String::new()
            } else {
                n.state.as_str().to_owned()
            },
        ),
        ("Reason", n.reason.clone().unwrap_or_default()),
        ("CpuBind", n.cpu_bind.clone().unwrap_or_default()),
        (
            "SuspendTime",
            n.suspend_time_secs
                .map(|s| s.to_string())
                .unwrap_or_default(),
        ),
        ("Topology", n.topology.clone().unwrap_or_default()),
    ];
    for (key, text) in &texts {
        write_pair(&mut out, key, Some(text.as_str()).filter(|t| !t.is_empty()));
    }
    for (key, value) in &n.other {
        write_pair(&mut out, key, Some(value));
    }
    out
}

/// The gres.conf lines of a node, without its name. A resource of which nothing but the number is known needs none.
fn gres_text(n: &NodeConfig) -> String {
    let mut out = String::new();
    let described = |g: &GresConfig| {
        !g.files.is_empty() || !g.cores.is_empty() || g.links.is_some() || !g.flags.is_empty()
    };
    for g in &n.gres {
        if !n
            .gres
            .iter()
            .any(|o| o.name == g.name && o.type_name == g.type_name && described(o))
        {
            continue;
        }
        let _ = write!(out, "Name={}", g.name);
        write_pair(&mut out, "Type", g.type_name.as_deref());
        let multiple = g.count == 1 && g.files.len() > 1;
        let key = if multiple { "MultipleFiles" } else { "File" };
        write_pair(
            &mut out,
            key,
            (!g.files.is_empty())
                .then(|| collapse_hostlist(&g.files))
                .as_deref(),
        );
        if g.files.is_empty() {
            let _ = write!(out, " Count={}", g.count);
        }
        write_pair(
            &mut out,
            "Cores",
            (!g.cores.is_empty())
                .then(|| list_text(&g.cores))
                .as_deref(),
        );
        write_pair(&mut out, "Links", g.links.as_deref());
        write_pair(
            &mut out,
            "Flags",
            (!g.flags.is_empty()).then(|| g.flags.join(",")).as_deref(),
        );
        out.push('\n');
    }
    out
}

/// `0-3,8`.
fn list_text(numbers: &[u32]) -> String {
    let text = collapse_hostlist(numbers.iter().map(u32::to_string));
    text.trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned()
}
