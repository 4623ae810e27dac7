//! End-to-end tests: a real `ctld`, real agents and step daemons, driven through the commands that users have.
//!
//! Each test has a cluster of its own in a temporary folder. What is expected is what Slurm's manual pages and a real
//! Slurm say. A file for each subject; nothing here looks inside a daemon.

mod accounting;
mod administration;
mod automation;
mod batch;
mod clients;
mod configuration;
mod crash;
mod diagnostics;
mod faults;
mod heterogeneous;
mod interactive;
mod json;
mod lifecycle;
mod limits;
mod prolog;
mod reservations;
mod resources;
mod security;
mod srun;
mod steps;
mod submission;
mod upgrade;

use std::process::Command;
use std::time::Duration;

use sluice_testkit::{Cluster, ClusterBuilder};

/// How long a cluster may take to come up.
const READY: Duration = Duration::from_secs(30);
/// How long something may take that should happen at once. Generous: the machine may be busy with other tests.
const SOON: Duration = Duration::from_secs(30);

fn started(builder: ClusterBuilder) -> Cluster {
    let cluster = builder.start().unwrap();
    cluster.wait_ready(READY).unwrap();
    cluster
}

fn cluster() -> Cluster {
    started(Cluster::builder())
}

/// One field of a job's record.
fn job_field(cluster: &Cluster, id: u32, field: &str) -> String {
    let records = cluster.show_job(&id.to_string()).unwrap();
    records[0]
        .get(field)
        .unwrap_or_else(|| panic!("no {field} in {records:?}"))
        .clone()
}

/// One field of a node's record.
fn node_field(cluster: &Cluster, node: &str, field: &str) -> String {
    let text = cluster
        .run("scontrol", ["show", "node", "-o", node])
        .and_then(|done| done.success())
        .unwrap();
    let key = format!("{field}=");
    text.split_whitespace()
        .find_map(|pair| pair.strip_prefix(&key))
        .unwrap_or_else(|| panic!("no {field} in {text}"))
        .to_owned()
}

fn this_host() -> String {
    let output = Command::new("hostname").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Whether lines are exactly these, in any order.
fn same_lines(text: &str, expected: &[&str]) -> bool {
    let mut lines: Vec<&str> = text.lines().collect();
    let mut expected = expected.to_vec();
    lines.sort_unstable();
    expected.sort_unstable();
    lines == expected
}
