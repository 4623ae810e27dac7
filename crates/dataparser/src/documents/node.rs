//! Nodes: `scontrol show node --json`.
//!
//! Memory and disks are MiB, the load is the one-minute average × 100.

use std::borrow::Borrow;

use sluice_model::node::{NodeGres, NodeInfo};
use sluice_model::node_state::{NodeStateFlags, NodeStateFull};
use sluice_model::time::UnixSeconds;

use crate::envelope::Payload;
use crate::sink::Sink;
use crate::values::{Optional, index_ranges};

/// Words of the flags, in the order in which they are listed.
const FLAG_WORDS: [(NodeStateFlags, &str); 22] = [
    (NodeStateFlags::EXTERNAL, "EXTERNAL"),
    (NodeStateFlags::RES, "RESERVED"),
    (NodeStateFlags::UNDRAIN, "UNDRAIN"),
    (NodeStateFlags::CLOUD, "CLOUD"),
    (NodeStateFlags::RESUME, "RESUME"),
    (NodeStateFlags::DRAIN, "DRAIN"),
    (NodeStateFlags::COMPLETING, "COMPLETING"),
    (NodeStateFlags::NO_RESPOND, "NOT_RESPONDING"),
    (NodeStateFlags::POWERED_DOWN, "POWERED_DOWN"),
    (NodeStateFlags::FAIL, "FAIL"),
    (NodeStateFlags::POWERING_UP, "POWERING_UP"),
    (NodeStateFlags::MAINT, "MAINTENANCE"),
    (NodeStateFlags::REBOOT_REQUESTED, "REBOOT_REQUESTED"),
    (NodeStateFlags::POWERING_DOWN, "POWERING_DOWN"),
    (NodeStateFlags::DYNAMIC_FUTURE, "DYNAMIC_FUTURE"),
    (NodeStateFlags::REBOOT_ISSUED, "REBOOT_ISSUED"),
    (NodeStateFlags::PLANNED, "PLANNED"),
    (NodeStateFlags::INVALID_REG, "INVALID_REG"),
    (NodeStateFlags::POWER_DOWN, "POWER_DOWN"),
    (NodeStateFlags::POWER_UP, "POWER_UP"),
    (NodeStateFlags::DYNAMIC_NORM, "DYNAMIC_NORM"),
    (NodeStateFlags::BLOCKED, "BLOCKED"),
];

/// A listing of nodes.
pub struct Nodes<'a, N> {
    /// The nodes.
    pub nodes: &'a [N],
    /// When the answer was taken.
    pub time: UnixSeconds,
}

impl<N: Borrow<NodeInfo>> Payload for Nodes<'_, N> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.list("nodes", self.nodes, |sink, node| {
            write_node(sink, node.borrow())
        });
        sink.number("last_update", Optional::time(Some(self.time)));
    }
}

/// Base state and flags.
pub(super) fn state_words(state: NodeStateFull) -> impl Iterator<Item = &'static str> {
    let flags = FLAG_WORDS
        .iter()
        .filter(move |(flag, _)| state.flags.contains(*flag))
        .map(|(_, word)| *word);
    std::iter::once(state.base.name()).chain(flags)
}

fn kind(gres: &NodeGres) -> String {
    gres.type_name
        .as_ref()
        .map_or_else(|| gres.name.clone(), |kind| format!("{}:{kind}", gres.name))
}

/// `gpu:h100:8`.
#[must_use]
pub fn gres_text(gres: &[NodeGres]) -> String {
    let items: Vec<String> = gres
        .iter()
        .map(|gres| format!("{}:{}", kind(gres), gres.count))
        .collect();
    items.join(",")
}

/// `gpu:h100:2(IDX:0-1)`.
#[must_use]
pub fn gres_used_text(gres: &[NodeGres]) -> String {
    let items: Vec<String> = gres
        .iter()
        .map(|gres| {
            format!(
                "{}:{}(IDX:{})",
                kind(gres),
                gres.used,
                index_ranges(&gres.used_indices)
            )
        })
        .collect();
    items.join(",")
}

fn write_node<S: Sink>(sink: &mut S, node: &NodeInfo) {
    sink.begin_map();
    hardware(sink, node);
    names_and_state(sink, node);
    use_of_it(sink, node);
    sink.end_map();
}

fn hardware<S: Sink>(sink: &mut S, node: &NodeInfo) {
    sink.text_or_empty("architecture", node.arch.as_deref());
    sink.text("burstbuffer_network_address", "");
    sink.uint("boards", node.boards);
    sink.number("boot_time", Optional::time(node.boot_time));
    sink.number("tls_cert_last_renewal", Optional::Set(0));
    sink.empty_list("cert_flags");
    sink.text("cluster_name", "");
    sink.uint("cores", node.cores_per_socket);
    sink.uint("specialized_cores", 0_u64);
    sink.uint("cpu_binding", 0_u64);
    sink.uint("cpu_load", node.cpu_load_centi.unwrap_or(0));
    sink.number("free_mem", Optional::memory(node.free_memory));
    sink.uint("cpus", node.cpus);
    sink.uint("effective_cpus", node.cpus_effective);
    sink.text("specialized_cpus", "");
    sink.map("energy", |sink| {
        sink.uint("average_watts", 0_u64);
        sink.uint("base_consumed_energy", 0_u64);
        sink.uint("consumed_energy", 0_u64);
        sink.number("current_watts", Optional::Set(0));
        sink.uint("previous_consumed_energy", 0_u64);
        sink.uint("last_collected", 0_u64);
    });
    sink.text("extra", "");
    sink.texts("features", &node.features);
    sink.texts("active_features", &node.active_features);
    sink.text("gpu_spec", "");
    sink.text("gres", &gres_text(&node.gres));
    sink.text("gres_drained", "N/A");
    sink.text("gres_used", &gres_used_text(&node.gres));
    sink.text("instance_id", "");
    sink.text("instance_type", "");
}

fn names_and_state<S: Sink>(sink: &mut S, node: &NodeInfo) {
    sink.number("last_busy", Optional::time(node.last_busy_time));
    sink.text("mcs_label", "");
    sink.uint("specialized_memory", 0_u64);
    sink.text("name", &node.name);
    sink.texts("next_state_after_reboot", ["INVALID"]);
    sink.text("address", &node.address);
    sink.text("hostname", &node.hostname);
    sink.texts("state", state_words(node.state));
    sink.text_or_empty("operating_system", node.os.as_deref());
    let owner = node
        .owner_uid
        .map_or_else(String::new, |uid| uid.to_string());
    sink.text("owner", &owner);
    sink.texts("partitions", &node.partitions);
    sink.uint("port", u64::from(node.port));
    sink.uint("real_memory", node.real_memory.0);
    sink.uint("res_cores_per_gpu", 0_u64);
    sink.text_or_empty("comment", node.comment.as_deref());
    sink.text_or_empty("reason", node.reason.as_deref());
    sink.number("reason_changed_at", Optional::time(node.reason_time));
    sink.text_or_empty("reason_set_by_user", node.reason_user.as_deref());
    sink.number("resume_after", Optional::Set(0));
    sink.text_or_empty("reservation", node.reservation.as_deref());
    sink.number("suspend_time", Optional::Infinite);
}

fn use_of_it<S: Sink>(sink: &mut S, node: &NodeInfo) {
    sink.uint("alloc_memory", node.alloc_memory.0);
    sink.uint("alloc_cpus", node.alloc_cpus);
    sink.uint(
        "alloc_idle_cpus",
        node.cpus_effective.saturating_sub(node.alloc_cpus),
    );
    sink.text("tres_used", &node.alloc_tres.to_string());
    sink.number("slurmd_start_time", Optional::time(node.agent_start_time));
    sink.uint("sockets", node.sockets);
    sink.uint("threads", node.threads_per_core);
    sink.uint("temporary_disk", node.tmp_disk_mib);
    sink.uint("weight", node.weight);
    sink.text("topology", "");
    sink.text("tres", &node.cfg_tres.to_string());
    sink.text_or_empty("version", node.version.as_deref());
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use crate::envelope::{Client, Meta, to_json};

    /// A whole document, line by line as a real scontrol prints it.
    #[test]
    fn document() {
        let meta = Meta {
            accounting_storage: "accounting_storage/slurmdbd".to_string(),
            client: Client {
                source: String::new(),
                user: "alice".to_string(),
                group: "nogroup".to_string(),
            },
            command: ["scontrol", "show", "node", "n1", "--json"]
                .map(String::from)
                .to_vec(),
            release: "26.11.0-0rc1".to_string(),
            cluster: "oracle".to_string(),
            ..Meta::default()
        };
        let nodes = [samples::node()];
        let text = to_json(
            &meta,
            &Nodes {
                nodes: &nodes,
                time: UnixSeconds(1_796_013_715),
            },
        );
        assert_eq!(text, include_str!("testdata/scontrol_node.json"));
    }
}
