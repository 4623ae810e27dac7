//! The text of `scontrol write config`: what is in force, in the form of slurm.conf.
//!
//! Values that are not set stand as comments. Lines of nodes and partitions carry what differs from the default. Source: scontrol(1)
//! write config and its output.

use std::fmt::Write as _;

use sluice_model::node::NodeInfo;
use sluice_model::partition::PartitionInfo;
use sluice_proto::v1::ConfigEntry;

use super::node_fields::gres_text;
use super::show_partition::state_word;

/// Keys that are told and cannot be set.
fn is_derived(key: &str) -> bool {
    key.chars()
        .all(|letter| letter.is_ascii_uppercase() || letter == '_')
}

/// A value as it is written: units and uid go, `(null)` is nothing.
fn plain(value: &str) -> String {
    let value = value.trim();
    if value.is_empty() || value == "(null)" {
        return String::new();
    }
    for unit in [" sec", " min", " percent", " usec", " nodes/min"] {
        if let Some(number) = value.strip_suffix(unit) {
            return number.to_string();
        }
    }
    match value.split_once('(') {
        Some((name, rest)) if rest.trim_end_matches(')').parse::<u32>().is_ok() => name.to_string(),
        _ => value.to_string(),
    }
}

fn heading(text: &mut String, name: &str) {
    let bar = "#".repeat(48);
    let _ = writeln!(text, "#\n{bar}\n#{name:^46}#\n{bar}");
}

/// The whole file.
#[must_use]
pub fn config_text(
    time: &str,
    entries: &[ConfigEntry],
    nodes: &[NodeInfo],
    partitions: &[PartitionInfo],
) -> String {
    let mut text = format!(
        "########################################################\n#   Configuration file for Slurm - {time}\n########################################################\n#\n"
    );
    for entry in entries.iter().filter(|entry| !is_derived(&entry.key)) {
        // SlurmctldHost[0] is written without its number.
        let key = entry.key.split('[').next().unwrap_or_default();
        let value = plain(&entry.value);
        let value = if key == "SlurmctldHost" {
            entry.value.clone()
        } else {
            value
        };
        let comment = if value.is_empty() { "#" } else { "" };
        let _ = writeln!(text, "{comment}{key}={value}");
    }
    heading(&mut text, "NODES");
    for node in nodes {
        let _ = writeln!(text, "{}", node_line(node));
    }
    heading(&mut text, "PARTITIONS");
    for partition in partitions {
        let _ = writeln!(text, "{}", partition_line(partition));
    }
    text
}

fn node_line(node: &NodeInfo) -> String {
    let mut line = format!(
        "NodeName={} NodeHostName={} NodeAddr={} Sockets={} CoresPerSocket={} ThreadsPerCore={} RealMemory={}",
        node.name,
        node.hostname,
        node.address,
        node.sockets,
        node.cores_per_socket,
        node.threads_per_core,
        node.real_memory.0
    );
    if node.tmp_disk_mib > 0 {
        let _ = write!(line, " TmpDisk={}", node.tmp_disk_mib);
    }
    if node.weight != 1 {
        let _ = write!(line, " Weight={}", node.weight);
    }
    if !node.features.is_empty() {
        let _ = write!(line, " Feature={}", node.features.join(","));
    }
    if !node.gres.is_empty() {
        let _ = write!(line, " Gres={}", gres_text(&node.gres));
    }
    if node.port != 0 {
        let _ = write!(line, " Port={}", node.port);
    }
    line
}

fn partition_line(partition: &PartitionInfo) -> String {
    let mut line = format!("PartitionName={}", partition.name);
    if partition.is_default {
        line.push_str(" Default=YES");
    }
    if let Some(limit) = partition.default_time {
        let _ = write!(line, " DefaultTime={limit}");
    }
    if let Some(limit) = partition.max_time {
        let _ = write!(line, " MaxTime={limit}");
    }
    let _ = write!(line, " MinNodes={}", partition.min_nodes);
    if let Some(most) = partition.max_nodes {
        let _ = write!(line, " MaxNodes={most}");
    }
    if partition.hidden {
        line.push_str(" Hidden=YES");
    }
    for (key, words) in [
        ("AllowGroups", &partition.allow_groups),
        ("AllowAccounts", &partition.allow_accounts),
        ("DenyAccounts", &partition.deny_accounts),
        ("AllowQos", &partition.allow_qos),
        ("DenyQos", &partition.deny_qos),
    ] {
        if !words.is_empty() {
            let _ = write!(line, " {key}={}", words.join(","));
        }
    }
    let _ = write!(line, " Nodes={}", partition.nodes);
    for (key, value, default) in [
        ("PriorityJobFactor", partition.priority_job_factor, 1),
        ("PriorityTier", partition.priority_tier, 1),
    ] {
        if u32::from(value) != default {
            let _ = write!(line, " {key}={value}");
        }
    }
    if partition.over_subscribe != "NO" {
        let _ = write!(line, " OverSubscribe={}", partition.over_subscribe);
    }
    let _ = write!(line, " State={}", state_word(partition.state));
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::samples;

    /// What is written can be read as a configuration line, as a real scontrol writes it.
    #[test]
    fn lines() {
        let text = node_line(&samples::nodes()[0]);
        assert!(
            text.starts_with("NodeName=n1 NodeHostName=vm NodeAddr=127.0.0.1 Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=256000"),
            "{text}"
        );
        let partitions = samples::partitions();
        let text = partition_line(&partitions[0]);
        assert!(text.starts_with("PartitionName=main Default=YES DefaultTime=01:00:00 MaxTime=7-00:00:00 MinNodes=0 Nodes=n[1-4]"), "{text}");
        assert!(text.ends_with(" State=UP"), "{text}");
        assert_eq!(plain("120 sec"), "120");
        assert_eq!(plain("slurm(1001)"), "slurm");
        assert_eq!(plain("(null)"), "");
    }
}
