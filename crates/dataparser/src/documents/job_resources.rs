//! `job_resources`: what a job holds on each node, core by core.
//!
//! CPU ids count the threads of a core, then the cores of a socket, then the sockets of a node.

use std::collections::{BTreeMap, BTreeSet};

use sluice_model::job::{Exclusive, JobInfo, NodeAllocationInfo};
use sluice_model::node::NodeInfo;

use crate::sink::Sink;
use crate::values::Optional;

/// What the engine hands out: cores and memory.
const SELECT_TYPE: &str = "CR_CORE_MEMORY";

/// Sockets, cores and threads of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeShape {
    /// Sockets in all.
    pub sockets: u32,
    /// Cores of a socket.
    pub cores_per_socket: u32,
    /// Threads of a core.
    pub threads_per_core: u32,
}

impl From<&NodeInfo> for NodeShape {
    fn from(node: &NodeInfo) -> Self {
        Self {
            sockets: node.sockets,
            cores_per_socket: node.cores_per_socket,
            threads_per_core: node.threads_per_core,
        }
    }
}

/// Writes the field; `null` when the job holds nothing.
pub(super) fn write_job_resources<S: Sink>(
    sink: &mut S,
    job: &JobInfo,
    shapes: &BTreeMap<String, NodeShape>,
) {
    sink.key("job_resources");
    if job.allocation.is_empty() {
        sink.null();
        return;
    }
    let whole = job.description.exclusive == Some(Exclusive::Node);
    sink.begin_map();
    sink.texts("select_type", [SELECT_TYPE]);
    sink.map("nodes", |sink| {
        sink.uint("count", job.allocation.len() as u64);
        sink.texts("select_type", [if whole { "RESERVED" } else { "ONE_ROW" }]);
        sink.text("list", &job.nodes);
        sink.flag("whole", whole);
        sink.list(
            "allocation",
            job.allocation.iter().enumerate(),
            |sink, (index, node)| {
                write_node(sink, index, node, shapes.get(&node.node));
            },
        );
    });
    let cpus: usize = job.allocation.iter().map(|node| node.cpu_ids.len()).sum();
    sink.uint("cpus", cpus as u64);
    sink.number(
        "threads_per_core",
        Optional::or_unset(job.description.threads_per_core),
    );
    sink.end_map();
}

fn write_node<S: Sink>(
    sink: &mut S,
    index: usize,
    node: &NodeAllocationInfo,
    shape: Option<&NodeShape>,
) {
    sink.begin_map();
    sink.uint("index", index as u64);
    sink.text("name", &node.node);
    sink.map("cpus", |sink| {
        sink.uint("count", node.cpu_ids.len() as u64);
        // What the job's steps use is in their own records.
        sink.uint("used", 0_u64);
    });
    sink.map("memory", |sink| {
        sink.uint("used", 0_u64);
        sink.uint("allocated", node.memory.0);
    });
    let sockets = shape.map_or(0, |shape| shape.sockets);
    let cores: BTreeSet<u32> = shape.map_or_else(BTreeSet::new, |shape| {
        let threads = shape.threads_per_core.max(1);
        node.cpu_ids.iter().map(|cpu| cpu / threads).collect()
    });
    sink.list("sockets", 0..sockets, |sink, socket| {
        let per_socket = shape.map_or(0, |shape| shape.cores_per_socket);
        sink.begin_map();
        sink.uint("index", socket);
        sink.list("cores", 0..per_socket, |sink, core| {
            let held = cores.contains(&(socket * per_socket + core));
            sink.begin_map();
            sink.uint("index", core);
            sink.texts("status", [if held { "ALLOCATED" } else { "UNALLOCATED" }]);
            sink.end_map();
        });
        sink.end_map();
    });
    sink.end_map();
}

#[cfg(test)]
mod tests {
    use super::super::job::{JobListing, Jobs};
    use super::super::samples;
    use super::*;
    use crate::envelope::{Meta, to_json};

    /// Job 10 has CPU 32 of a node with two sockets of 32 cores: the first core of the second socket.
    #[test]
    fn cores() {
        let shape = NodeShape {
            sockets: 2,
            cores_per_socket: 32,
            threads_per_core: 1,
        };
        let listing = JobListing {
            nodes: [("n2".to_string(), shape)].into(),
            ..JobListing::default()
        };
        let text = to_json(
            &Meta::default(),
            &Jobs {
                jobs: &[samples::gpu_job()],
                listing: &listing,
            },
        );
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let resources = &document["jobs"][0]["job_resources"];
        assert_eq!(resources["cpus"], 1);
        assert_eq!(resources["nodes"]["select_type"][0], "ONE_ROW");
        let node = &resources["nodes"]["allocation"][0];
        assert_eq!(
            (&node["name"], &node["memory"]["allocated"]),
            (&"n2".into(), &1000.into())
        );
        let status = |socket: usize, core: usize| {
            node["sockets"][socket]["cores"][core]["status"][0]
                .as_str()
                .map(String::from)
        };
        assert_eq!(status(1, 0).as_deref(), Some("ALLOCATED"));
        assert_eq!(status(0, 0).as_deref(), Some("UNALLOCATED"));
        assert_eq!(status(1, 31).as_deref(), Some("UNALLOCATED"));
        assert_eq!(status(1, 32), None);
    }
}
