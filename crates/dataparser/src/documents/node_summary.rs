//! Groups of nodes of a partition: `sinfo --json`.
//!
//! A group is what sinfo would print as one line; values that differ inside it are given as minimum and maximum.

use std::borrow::Borrow;

use sluice_model::node::NodeInfo;
use sluice_model::partition::PartitionInfo;

use super::node::{gres_text, gres_used_text, state_words};
use super::partition::write_partition;
use crate::envelope::Payload;
use crate::sink::Sink;
use crate::values::Optional;

/// A group of nodes.
pub struct NodeSummary<'a, N> {
    /// The partition they are in.
    pub partition: &'a PartitionInfo,
    /// The nodes.
    pub nodes: &'a [N],
    /// Nodes that are allocated, idle, other, all.
    pub node_counts: [u32; 4],
    /// CPUs that are allocated, idle, other, all.
    pub cpu_counts: [u32; 4],
    /// ClusterName, when one was asked for by name.
    pub cluster: &'a str,
}

/// All groups.
pub struct NodeSummaries<'a, N>(pub Vec<NodeSummary<'a, N>>);

impl<N: Borrow<NodeInfo>> Payload for NodeSummaries<'_, N> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.list("sinfo", &self.0, |sink, group| group.write(sink));
    }
}

impl<N: Borrow<NodeInfo>> NodeSummary<'_, N> {
    fn range(&self, value: impl Fn(&NodeInfo) -> u64) -> (u64, u64) {
        let values = || self.nodes.iter().map(|node| value(node.borrow()));
        (values().min().unwrap_or(0), values().max().unwrap_or(0))
    }

    fn write_range<S: Sink>(
        &self,
        sink: &mut S,
        key: &'static str,
        value: impl Fn(&NodeInfo) -> u64,
    ) {
        let (minimum, maximum) = self.range(value);
        sink.map(key, |sink| {
            sink.uint("minimum", minimum);
            sink.uint("maximum", maximum);
        });
    }

    fn write<S: Sink>(&self, sink: &mut S) {
        let first: Option<&NodeInfo> = self.nodes.first().map(Borrow::borrow);
        sink.begin_map();
        sink.uint("port", first.map_or(0, |node| u64::from(node.port)));
        sink.map("node", |sink| {
            sink.texts(
                "state",
                first.into_iter().flat_map(|node| state_words(node.state)),
            );
        });
        sink.map("nodes", |sink| {
            for (key, count) in ["allocated", "idle", "other", "total"]
                .into_iter()
                .zip(self.node_counts)
            {
                sink.uint(key, count);
            }
            sink.empty_list("hostnames");
            sink.empty_list("addresses");
            sink.texts(
                "nodes",
                self.nodes.iter().map(|node| node.borrow().name.as_str()),
            );
        });
        self.write_sizes(sink);
        let texts = |list: fn(&NodeInfo) -> &Vec<String>| {
            first.map_or_else(String::new, |node| list(node).join(","))
        };
        sink.map("features", |sink| {
            sink.text("total", &texts(|node| &node.features));
            sink.text("active", &texts(|node| &node.active_features));
        });
        sink.map("gres", |sink| {
            sink.text(
                "total",
                &first.map_or_else(String::new, |node| gres_text(&node.gres)),
            );
            sink.text(
                "used",
                &first.map_or_else(String::new, |node| gres_used_text(&node.gres)),
            );
        });
        sink.text("cluster", self.cluster);
        sink.text_or_empty("comment", first.and_then(|node| node.comment.as_deref()));
        sink.text("extra", "");
        sink.map("reason", |sink| {
            sink.text_or_empty("description", first.and_then(|node| node.reason.as_deref()));
            sink.int(
                "time",
                first
                    .and_then(|node| node.reason_time)
                    .map_or(0, |time| time.0),
            );
        });
        sink.text_or_empty(
            "reservation",
            first.and_then(|node| node.reservation.as_deref()),
        );
        sink.text_or_empty(
            "reason_set_by_user",
            first.and_then(|node| node.reason_user.as_deref()),
        );
        sink.map("resource_spec", |sink| {
            sink.text("cpus", "");
            sink.uint("memory", 0_u64);
        });
        sink.key("partition");
        write_partition(sink, self.partition);
        sink.end_map();
    }

    fn write_sizes<S: Sink>(&self, sink: &mut S) {
        let cpus = self.range(|node| node.cpus.into());
        sink.map("cpus", |sink| {
            for (key, count) in ["allocated", "idle", "other", "total"]
                .into_iter()
                .zip(self.cpu_counts)
            {
                sink.uint(key, count);
            }
            sink.uint("minimum", cpus.0);
            sink.uint("maximum", cpus.1);
            self.write_range(sink, "load", |node| node.cpu_load_centi.unwrap_or(0).into());
            sink.map("per_node", |sink| {
                sink.number(
                    "max",
                    Optional::or_infinite(self.partition.max_cpus_per_node),
                );
            });
        });
        self.write_range(sink, "sockets", |node| node.sockets.into());
        self.write_range(sink, "cores", |node| node.cores_per_socket.into());
        self.write_range(sink, "threads", |node| node.threads_per_core.into());
        self.write_range(sink, "disk", |node| node.tmp_disk_mib);
        let memory = self.range(|node| node.real_memory.0);
        let free = || {
            self.nodes
                .iter()
                .filter_map(|node| node.borrow().free_memory)
                .map(|size| size.0)
        };
        sink.map("memory", |sink| {
            sink.uint("minimum", memory.0);
            sink.uint("maximum", memory.1);
            sink.map("free", |sink| {
                sink.number("minimum", Optional::or_unset(free().min()));
                sink.number("maximum", Optional::or_unset(free().max()));
            });
            // That of one node, as there.
            let last = self.nodes.last().map(Borrow::borrow);
            sink.uint(
                "allocated",
                last.map_or(0, |node: &NodeInfo| node.alloc_memory.0),
            );
        });
        self.write_range(sink, "weight", |node| node.weight.into());
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use crate::envelope::{Meta, document};
    use crate::sink::Format;

    /// The first group of a real `sinfo --yaml`, up to its partition.
    #[test]
    fn group() {
        let mut third = samples::node();
        third.name = "n3".to_string();
        third.alloc_memory = sluice_model::memory::MemoryMib(200);
        third.free_memory = Some(sluice_model::memory::MemoryMib(22_632));
        let nodes = [samples::node(), third];
        let partition = samples::partition();
        let groups = NodeSummaries(vec![NodeSummary {
            partition: &partition,
            nodes: &nodes,
            node_counts: [2, 0, 0, 2],
            cpu_counts: [13, 115, 0, 128],
            cluster: "",
        }]);
        let mut bytes = Vec::new();
        document(&mut bytes, Format::Yaml, &Meta::default(), &groups).expect("memory");
        let text = String::from_utf8(bytes).expect("text");
        let expected = include_str!("testdata/sinfo.yaml");
        assert_eq!(&text[..expected.len().min(text.len())], expected);
    }
}
