//! Partitions: `scontrol show partition --json`, and inside `sinfo --json`.
//!
//! Limits are minutes, memory is MiB. An empty allow list means "all", as in the configuration.

use std::borrow::Borrow;

use sluice_model::partition::{PartitionInfo, PartitionState};
use sluice_model::time::UnixSeconds;

use crate::envelope::Payload;
use crate::sink::Sink;
use crate::values::Optional;

/// A listing of partitions.
pub struct Partitions<'a, P> {
    /// The partitions.
    pub partitions: &'a [P],
    /// When the answer was taken.
    pub time: UnixSeconds,
}

impl<P: Borrow<PartitionInfo>> Payload for Partitions<'_, P> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.list("partitions", self.partitions, |sink, partition| {
            write_partition(sink, partition.borrow());
        });
        sink.number("last_update", Optional::time(Some(self.time)));
    }
}

/// Writes a partition as a value.
pub(super) fn write_partition<S: Sink>(sink: &mut S, partition: &PartitionInfo) {
    sink.begin_map();
    access(sink, partition);
    sink.map("cpus", |sink| {
        sink.empty_list("task_binding");
        sink.uint("total", partition.total_cpus);
    });
    sink.map("defaults", |sink| {
        let (cpu, node) = (partition.def_mem_per_cpu, partition.def_mem_per_node);
        sink.number("partition_memory_per_cpu", Optional::memory(cpu));
        sink.number(
            "partition_memory_per_node",
            per_node(cpu.is_some(), node.map(|size| size.0)),
        );
        sink.number("time", Optional::limit_or_unset(partition.default_time));
        sink.text_or_empty("job", partition.job_defaults.as_deref());
    });
    sink.texts("flags", flags(partition));
    sink.map("partition", |sink| {
        sink.text("exclusive", &partition.exclusive);
        sink.text("oversubscribe", &partition.over_subscribe);
        let state = match partition.state {
            PartitionState::Up => "UP",
            PartitionState::Down => "DOWN",
            PartitionState::Drain => "DRAIN",
            PartitionState::Inactive => "INACTIVE",
        };
        sink.texts("state", [state]);
    });
    sink.uint("grace_time", partition.grace_time_secs);
    sink.map("maximums", |sink| {
        let (cpu, node) = (partition.max_mem_per_cpu, partition.max_mem_per_node);
        sink.number(
            "cpus_per_node",
            Optional::or_infinite(partition.max_cpus_per_node),
        );
        sink.number(
            "cpus_per_socket",
            Optional::or_infinite(partition.max_cpus_per_socket),
        );
        sink.number("partition_memory_per_cpu", Optional::memory(cpu));
        sink.number(
            "partition_memory_per_node",
            per_node(cpu.is_some(), node.map(|size| size.0)),
        );
        sink.number("nodes", Optional::or_infinite(partition.max_nodes));
        let time = partition
            .max_time
            .map_or(Optional::Infinite, Optional::limit);
        sink.number("time", time);
        sink.number(
            "over_time_limit",
            Optional::limit_or_unset(partition.over_time_limit),
        );
    });
    sink.map("minimums", |sink| sink.uint("nodes", partition.min_nodes));
    sink.text("name", &partition.name);
    sink.text_or_empty("node_sets", partition.node_sets.as_deref());
    sink.texts("preempt_mode", preempt_words(&partition.preempt_mode));
    sink.map("priority", |sink| {
        sink.uint("job_factor", u64::from(partition.priority_job_factor));
        sink.uint("tier", u64::from(partition.priority_tier));
    });
    sink.map("timeouts", |sink| {
        sink.number("resume", Optional::Unset);
        sink.number("suspend", Optional::Unset);
    });
    sink.text("topology", "");
    sink.number("suspend_time", Optional::Unset);
    sink.end_map();
}

fn access<S: Sink>(sink: &mut S, partition: &PartitionInfo) {
    sink.map("nodes", |sink| {
        sink.text("allowed_allocation", &partition.alloc_nodes);
        sink.text("configured", &partition.nodes);
        sink.uint("total", partition.total_nodes);
    });
    sink.map("accounts", |sink| {
        sink.text("allowed", &partition.allow_accounts.join(","));
        sink.text("deny", &partition.deny_accounts.join(","));
    });
    sink.map("groups", |sink| {
        sink.text("allowed", &partition.allow_groups.join(","))
    });
    sink.map("qos", |sink| {
        sink.text("allowed", &partition.allow_qos.join(","));
        sink.text("deny", &partition.deny_qos.join(","));
        sink.text_or_empty("assigned", partition.qos.as_deref());
    });
    sink.text_or_empty("alternate", partition.alternate.as_deref());
    sink.map("tres", |sink| {
        sink.text_or_empty("billing_weights", partition.tres_billing_weights.as_deref());
        sink.text("configured", &partition.tres.to_string());
    });
    sink.text("cluster", "");
    let select = match partition.select_type_parameters.as_str() {
        "" => "NONE".to_string(),
        words => words.to_ascii_uppercase(),
    };
    sink.texts("select_type", select.split(','));
}

/// Memory of a node: 0 is "no limit", and nothing when the limit is by CPU.
fn per_node(by_cpu: bool, size: Option<u64>) -> Optional {
    if by_cpu {
        Optional::Unset
    } else {
        Optional::or_zero(size)
    }
}

fn flags(partition: &PartitionInfo) -> impl Iterator<Item = &'static str> {
    [
        (partition.is_default, "DEFAULT"),
        (partition.hidden, "HIDDEN"),
        (partition.disable_root_jobs, "NO_ROOT"),
        (partition.root_only, "ROOT_ONLY"),
        (partition.req_resv, "REQUIRE_RESERVATION"),
        (partition.lln, "LLN"),
    ]
    .into_iter()
    .filter(|(on, _)| *on)
    .map(|(_, word)| word)
}

/// `SUSPEND,GANG` as words; nothing of its own means the cluster's.
fn preempt_words(text: &str) -> Vec<String> {
    match text.to_ascii_uppercase().as_str() {
        "" | "CLUSTER" => vec!["CLUSTER_GLOBAL".to_string()],
        "OFF" => vec!["DISABLED".to_string()],
        words => words.split(',').map(String::from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use crate::envelope::{Meta, to_json};

    /// A partition, line by line as a real scontrol prints it.
    #[test]
    fn record() {
        let text = to_json(
            &Meta::default(),
            &Partitions {
                partitions: &[samples::partition()],
                time: UnixSeconds(1_796_013_715),
            },
        );
        let record = &text[..text.find("  \"last_update\"").expect("end")];
        assert_eq!(record, include_str!("testdata/scontrol_partition.json"));
    }

    /// Limits by CPU hide those by node; flags and modes have their own words.
    #[test]
    fn other_settings() {
        let partition = PartitionInfo {
            def_mem_per_cpu: Some(sluice_model::memory::MemoryMib(100)),
            hidden: true,
            lln: true,
            preempt_mode: "SUSPEND,GANG".to_string(),
            ..samples::partition()
        };
        let text = to_json(
            &Meta::default(),
            &Partitions {
                partitions: &[partition],
                time: UnixSeconds(0),
            },
        );
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let record = &document["partitions"][0];
        assert_eq!(
            record["defaults"]["partition_memory_per_cpu"]["number"],
            100
        );
        assert_eq!(
            record["defaults"]["partition_memory_per_node"]["set"],
            false
        );
        assert_eq!(
            record["flags"],
            serde_json::json!(["DEFAULT", "HIDDEN", "LLN"])
        );
        assert_eq!(
            record["preempt_mode"],
            serde_json::json!(["SUSPEND", "GANG"])
        );
    }
}
