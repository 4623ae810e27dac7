//! Inputs for the benches: clusters and queues of any size, made through the engine's own commands.
//!
//! No measuring here, no clock, no chance: the same numbers give the same queue. What is measured from outside (submissions a second,
//! start of a lone job) is in `cargo xtask bench`.

use std::sync::Arc;

use sluice_config::ClusterConfig;
use sluice_controller::command::Caller;
use sluice_controller::command::agent::{Registration, register};
use sluice_controller::command::submit::{Submission, submit};
use sluice_controller::{Cluster, Transaction};
use sluice_model::job::JobDescription;
use sluice_model::node::NodeHardware;
use sluice_model::time::{TimeLimit, UnixSeconds};

/// When everything happens.
pub const NOW: UnixSeconds = UnixSeconds(1_000_000);

/// A cluster of idle nodes with 64 cores, 256 GB and eight GPUs each.
///
/// # Panics
/// When the configuration below is not legal.
#[must_use]
pub fn cluster(nodes: usize) -> Cluster {
    cluster_with(
        nodes,
        "AccountingStorageType=accounting_storage/none\nPriorityType=priority/multifactor",
    )
}

/// As [`cluster`], with lines of its own in slurm.conf.
///
/// # Panics
/// When the configuration is not legal.
#[must_use]
pub fn cluster_with(nodes: usize, lines: &str) -> Cluster {
    let conf = format!(
        "ClusterName=bench\nSlurmctldHost=localhost\nSlurmUser=root\nMaxJobCount=1000000\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nDefMemPerCPU=1000\n\
         GresTypes=gpu\nSlurmdParameters=config_overrides\n{lines}\n\
         NodeName=n[1-{nodes}] CPUs=64 SocketsPerBoard=2 CoresPerSocket=32 ThreadsPerCore=1 \
         RealMemory=256000 Gres=gpu:h100:8\nPartitionName=main Nodes=ALL Default=YES MaxTime=7-0\n"
    );
    let loaded = ClusterConfig::parse_slurm_conf(&conf).expect("legal configuration");
    let mut cluster = Cluster::new(Arc::new(loaded.config), NOW);
    let names: Vec<String> = cluster
        .nodes
        .iter()
        .map(|node| node.config.name.clone())
        .collect();
    for node in names {
        let registration = Registration {
            node,
            hardware: NodeHardware::default(),
            steps: Vec::new(),
            jobs: Vec::new(),
            health_error: None,
            heartbeat_secs: 5,
        };
        Transaction::run(&mut cluster, NOW, |t| register(t, registration)).expect("configured");
    }
    cluster
}

/// Submits `count` jobs of `shapes` different requests.
///
/// # Panics
/// When a job is refused.
pub fn fill_queue(cluster: &mut Cluster, count: usize, shapes: u32) {
    for number in 0..count {
        submit_one(cluster, number as u32, shapes);
    }
}

/// Submits one job; its number decides its shape.
///
/// # Panics
/// When the job is refused.
pub fn submit_one(cluster: &mut Cluster, number: u32, shapes: u32) {
    let shape = number % shapes.max(1);
    let description = JobDescription {
        name: Some("bench".to_owned()),
        uid: 1000,
        gid: 1000,
        ntasks: Some(1 + shape % 64),
        min_nodes: Some(1 + shape % 4),
        time_limit: Some(TimeLimit::Minutes(10 + shape * 7 % 600)),
        work_dir: "/tmp".to_owned(),
        batch: true,
        ..JobDescription::default()
    };
    let description = JobDescription {
        ntasks: description.ntasks.max(description.min_nodes),
        ..description
    };
    let submission = Submission {
        description,
        script: None,
        environment: None,
        user_name: "user".to_owned(),
        group_name: "users".to_owned(),
        group_names: Vec::new(),
        default_account: None,
        caller: Caller::user(1000),
    };
    Transaction::run(cluster, NOW, |t| submit(t, submission)).expect("accepted");
}
