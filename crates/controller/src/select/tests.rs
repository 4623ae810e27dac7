//! Requests, placements and figures against values of the manual and of a real cluster's output.

use sluice_model::error_code::ErrorCode;
use sluice_model::job::JobDescription;
use sluice_model::memory::MemoryMib;

use super::feasible::can_ever_run;
use super::inventory::FreeView;
use super::request::MemoryRequest;
use super::tres::{alloc_tres, req_tres};
use super::{Refusal, ResourceRequest, Shortage, place, tasks_on_nodes};
use crate::cluster::{Allocation, Cluster, NodeIndex};
use crate::schedule::scenario::{cluster_of, description};

/// The cluster of the reference outputs: four nodes with 64 CPUs, 250 GiB and eight GPUs.
const REFERENCE: &str = "config DefMemPerCPU=100
    nodes n[1-4] sockets=2 cores=32 threads=1 cpus=64 mem=256000 gres=gpu:h100:8 features=std,gpu";

fn request_for(cluster: &Cluster, words: &str) -> ResourceRequest {
    request_of(cluster, &description(words))
}

fn request_of(cluster: &Cluster, description: &JobDescription) -> ResourceRequest {
    let partition = cluster.partition("main").expect("partition main");
    ResourceRequest::new(description, partition, &cluster.config).expect("request")
}

fn all_nodes(cluster: &Cluster) -> Vec<NodeIndex> {
    (0..cluster.nodes.len() as u32).map(NodeIndex).collect()
}

fn place_all(cluster: &Cluster, jobs: &[&str]) -> Vec<Allocation> {
    let mut view = FreeView::of(cluster);
    let nodes = all_nodes(cluster);
    jobs.iter()
        .map(|words| place(&mut view, &request_for(cluster, words), &nodes).expect("fits"))
        .collect()
}

fn req(cluster: &Cluster, words: &str) -> String {
    let partition = cluster.partition("main").expect("partition main");
    req_tres(cluster, &request_for(cluster, words), partition).to_string()
}

/// ReqTRES, NumCPUs and NumTasks as `scontrol show job` of a real cluster printed them for these jobs.
#[test]
fn requests_as_a_real_cluster_shows_them() {
    let cluster = cluster_of(REFERENCE);
    assert_eq!(
        req(&cluster, "nodes=2 tasks=8 mem=1000"),
        "cpu=8,mem=2000M,node=2,billing=8"
    );
    assert_eq!(
        req(&cluster, "tasks=2 mem=100"),
        "cpu=2,mem=100M,node=1,billing=2"
    );
    assert_eq!(
        req(&cluster, "nodes=2 tasks=4 mem=10"),
        "cpu=4,mem=20M,node=2,billing=4"
    );
    assert_eq!(
        req(&cluster, "tasks=1 mem=1000 gres=gpu:h100:2"),
        "cpu=1,mem=1000M,node=1,billing=1,gres/gpu=2,gres/gpu:h100=2"
    );
    // --mem=0 on three nodes, and the default per CPU.
    assert_eq!(
        req(&cluster, "nodes=3 exclusive mem=0"),
        "cpu=3,mem=750G,node=3,billing=3"
    );
    assert_eq!(
        req(&cluster, "nodes=3 exclusive"),
        "cpu=3,mem=300M,node=3,billing=3"
    );
    let request = request_for(&cluster, "nodes=2 tasks-per-node=3 cpus-per-task=2");
    assert_eq!((request.num_tasks(), request.num_cpus()), (6, 12));
    assert_eq!(
        request_for(&cluster, "nodes=3").memory,
        MemoryRequest::PerCpu(100)
    );
}

/// Cores of two threads: every node to come is left what its core takes anyway. CPUs as a real cluster gave them.
#[test]
fn a_core_of_each_node_to_come_is_filled() {
    let cluster = cluster_of(
        "config DefMemPerCPU=10
        nodes n[1-2] sockets=1 cores=4 threads=2 cpus=8 mem=4000",
    );
    for (words, cpus) in [
        ("nodes=2 tasks=2", [2, 2]),
        ("nodes=2 tasks=3", [2, 2]),
        ("nodes=2 tasks=4", [2, 2]),
        ("nodes=2 tasks=5", [4, 2]),
        ("nodes=2 tasks=6", [4, 2]),
        ("nodes=2 tasks=7", [6, 2]),
        ("nodes=2 tasks=2 cpus-per-task=2", [2, 2]),
        ("nodes=2 tasks=15", [8, 8]),
    ] {
        let allocation = &place_all(&cluster, &[words])[0];
        let given: Vec<usize> = allocation
            .nodes
            .iter()
            .map(|part| part.cpu_ids.len())
            .collect();
        assert_eq!(given, cpus, "{words}");
    }
}

/// Tasks fill the first node and leave one for each of the others: -N2 -n8 is 7 and 1, -N2 -n4 is 3 and 1.
#[test]
fn tasks_fill_node_by_node() {
    let cluster = cluster_of(REFERENCE);
    for (words, cpus) in [
        ("nodes=2 tasks=8", [7, 1]),
        ("nodes=2 tasks=4", [3, 1]),
        ("nodes=2 tasks=100", [64, 36]),
    ] {
        let allocation = &place_all(&cluster, &[words])[0];
        let given: Vec<usize> = allocation
            .nodes
            .iter()
            .map(|part| part.cpu_ids.len())
            .collect();
        assert_eq!(given, cpus, "{words}");
        assert_eq!(
            tasks_on_nodes(&request_for(&cluster, words), allocation),
            cpus.map(|n| n as u32)
        );
    }
    let allocation = &place_all(&cluster, &["nodes=2 tasks=8 mem=1000"])[0];
    assert_eq!(
        alloc_tres(&cluster, "main", allocation).to_string(),
        "cpu=8,mem=2000M,node=2,billing=8"
    );
    // Fixed per node.
    let allocation = &place_all(&cluster, &["nodes=3 tasks-per-node=2"])[0];
    assert_eq!(
        tasks_on_nodes(
            &request_for(&cluster, "nodes=3 tasks-per-node=2"),
            allocation
        ),
        [2, 2, 2]
    );
    // Without a number of nodes the fewest that hold the tasks.
    assert_eq!(place_all(&cluster, &["tasks=64"])[0].nodes.len(), 1);
    assert_eq!(place_all(&cluster, &["tasks=65"])[0].nodes.len(), 2);
}

/// CR_Core rounds up to whole cores, and memory per CPU counts the rounded number.
#[test]
fn whole_cores() {
    let cluster = cluster_of("nodes n1 sockets=2 cores=2 threads=2 cpus=8 mem=8000");
    let given = &place_all(&cluster, &["tasks=3 mem-per-cpu=100", "tasks=1", "tasks=1"]);
    assert_eq!(
        (
            given[0].nodes[0].cpu_ids.as_slice(),
            given[0].nodes[0].memory
        ),
        (&[0, 1, 4, 5][..], MemoryMib(400))
    );
    assert_eq!(given[1].nodes[0].cpu_ids, [2, 3]);
    assert_eq!(given[2].nodes[0].cpu_ids, [6, 7]);
    // CR_CPU: as many CPUs as asked for, yet the rest of a core goes to nobody.
    let cpus = cluster_of(
        "config SelectTypeParameters=CR_CPU_Memory\nnodes n1 sockets=1 cores=4 threads=2 cpus=8 mem=8000",
    );
    let given = &place_all(&cpus, &["tasks=3 mem-per-cpu=100", "tasks=1", "tasks=1"]);
    assert_eq!(
        (
            given[0].nodes[0].cpu_ids.as_slice(),
            given[0].nodes[0].memory
        ),
        (&[0, 1, 2][..], MemoryMib(300))
    );
    assert_eq!(given[1].nodes[0].cpu_ids, [4]);
    assert_eq!(given[2].nodes[0].cpu_ids, [6]);
    let sockets = cluster_of(
        "config SelectTypeParameters=CR_Socket\nnodes n1 sockets=2 cores=2 threads=2 cpus=8 mem=8000",
    );
    let given = &place_all(&sockets, &["tasks=1", "tasks=3"]);
    assert_eq!(given[0].nodes[0].cpu_ids, [0, 1, 2, 3]);
    assert_eq!(given[1].nodes[0].cpu_ids, [4, 5, 6, 7]);
}

/// Devices by index, lowest first, typed and untyped; the same never twice.
#[test]
fn gres_by_index() {
    let cluster = cluster_of("nodes n1 cpus=16 gres=gpu:a100:2,gpu:h100:2");
    let given = place_all(&cluster, &["gres=gpu:h100:1", "gres=gpu:1", "gres=gpu:2"]);
    let of = |at: usize| -> Vec<(Option<&str>, &[u32])> {
        given[at].nodes[0]
            .gres
            .iter()
            .map(|g| (g.type_name.as_deref(), g.indices.as_slice()))
            .collect()
    };
    assert_eq!(of(0), [(Some("h100"), &[2][..])]);
    // An untyped one takes the smallest rest that suffices, so that two of one type stay together.
    assert_eq!(of(1), [(Some("h100"), &[3][..])]);
    assert_eq!(of(2), [(Some("a100"), &[0, 1][..])]);
    assert_eq!(
        alloc_tres(&cluster, "main", &given[2]).to_string(),
        "cpu=1,mem=10M,node=1,billing=1,gres/gpu=2,gres/gpu:a100=2"
    );
    let spread = cluster_of("nodes n[1-3] cpus=16 gres=gpu:2");
    let allocation = &place_all(&spread, &["gpus=5 tasks=3"])[0];
    let counts: Vec<u64> = allocation
        .nodes
        .iter()
        .map(|part| part.gres.iter().map(|g| g.count).sum())
        .collect();
    assert_eq!(counts, [2, 2, 1]);
    let allocation = &place_all(&spread, &["gpus-per-task=1 tasks=2"])[0];
    assert_eq!(
        (allocation.nodes.len(), allocation.nodes[0].gres[0].count),
        (1, 2)
    );
    let allocation = &place_all(&spread, &["gres=gpu:2 cpus-per-gpu=4 mem-per-gpu=100"])[0];
    assert_eq!(
        (
            allocation.nodes[0].cpu_ids.len(),
            allocation.nodes[0].memory.0
        ),
        (8, 200)
    );
}

/// Jobs without GRES leave GPU nodes alone while others are free; several nodes are neighbours.
#[test]
fn order_of_nodes() {
    let cluster = cluster_of("nodes n[1-2] cpus=8 gres=gpu:2\nnodes n[3-4] cpus=8");
    let names = |words: &[&str]| -> Vec<String> {
        place_all(&cluster, words)
            .iter()
            .map(|a| a.node_names().join("+"))
            .collect()
    };
    // Best fit: the second job goes where the first one is.
    assert_eq!(
        names(&["tasks=2", "tasks=2", "tasks=6", "gres=gpu:1"]),
        ["n3", "n3", "n4", "n1"]
    );
    let line = cluster_of("nodes n[1-8] cpus=1");
    let given: Vec<String> =
        place_all(&line, &["nodelist=n2", "nodelist=n5", "nodes=3", "nodes=2"])
            .iter()
            .map(|a| a.node_names().join("+"))
            .collect();
    // Free runs are n1, n3-n4 and n6-n8.
    assert_eq!(given[2..], ["n6+n7+n8", "n3+n4"]);
}

/// Constraints: filter, matching OR, counts.
#[test]
fn constraints() {
    let cluster = cluster_of(
        "nodes n1 cpus=1 features=a\nnodes n2 cpus=1 features=a,c\nnodes n3 cpus=1 features=b\nnodes n4 cpus=1 features=b,c",
    );
    let names = |words: &str| {
        place(
            &mut FreeView::of(&cluster),
            &request_for(&cluster, words),
            &all_nodes(&cluster),
        )
        .map(|a| a.node_names().join("+"))
        .map_err(|failure| failure.refused.len())
    };
    assert_eq!(names("nodes=2 constraint=c"), Ok("n2+n4".to_owned()));
    assert_eq!(names("nodes=2 constraint=[b|a]"), Ok("n3+n4".to_owned()));
    assert_eq!(names("nodes=3 constraint=b*2"), Ok("n1+n3+n4".to_owned()));
    assert_eq!(
        names("nodes=3 constraint=[a*1&b*2]"),
        Ok("n1+n3+n4".to_owned())
    );
    assert!(names("nodes=3 constraint=[a|b]").is_err());
    assert!(names("nodes=3 constraint=c").is_err());
}

/// A failed placement says which nodes were refused, by cause.
#[test]
fn refusals_are_named() {
    let mut cluster =
        cluster_of("nodes n[1-4] cpus=2 mem=1000 features=x\nnodes n5 cpus=8 mem=100 features=x");
    let node = cluster.node_index["n1"];
    std::sync::Arc::make_mut(cluster.nodes.get_mut(node.at()).expect("n1"))
        .state
        .base = sluice_model::node_state::NodeState::Down;
    let request = request_for(&cluster, "nodes=1 tasks=4 mem=500 exclude=n2");
    let failure = place(&mut FreeView::of(&cluster), &request, &all_nodes(&cluster))
        .expect_err("does not fit");
    let refused: Vec<(Refusal, String)> = failure
        .refused
        .into_iter()
        .map(|(cause, names)| (cause, names.join(",")))
        .collect();
    assert_eq!(
        refused,
        [
            (Refusal::Unavailable, "n1".to_owned()),
            (Refusal::Excluded, "n2".to_owned()),
            (Refusal::Short(Shortage::Cpus), "n3,n4".to_owned()),
            (Refusal::Short(Shortage::Memory), "n5".to_owned()),
        ]
    );
}

/// Codes and words that a real cluster answered these requests with.
#[test]
fn refusals_at_submission() {
    let cluster = cluster_of(REFERENCE);
    let partition = cluster.partition("main").expect("partition main");
    let answer = |words: &str| {
        can_ever_run(&cluster, partition, &request_for(&cluster, words))
            .map_err(|error| (error.code, error.message))
    };
    let config = ErrorCode::RequestedNodeConfigUnavailable;
    assert_eq!(
        answer("nodes=100"),
        Err((ErrorCode::InvalidNodeCount, String::new()))
    );
    assert_eq!(
        answer("tasks=1 cpus-per-task=100"),
        Err((config, "CPU count per node can not be satisfied".to_owned()))
    );
    assert_eq!(
        answer("mem=10T"),
        Err((
            config,
            "Memory specification can not be satisfied".to_owned()
        ))
    );
    assert_eq!(
        answer("tasks=1 cores-per-socket=100"),
        Err((
            config,
            "Socket, core and/or thread specification can not be satisfied".to_owned()
        ))
    );
    assert_eq!(
        answer("gres=nosuch:1"),
        Err((ErrorCode::InvalidGres, String::new()))
    );
    assert_eq!(answer("gres=gpu:9"), Err((config, String::new())));
    assert_eq!(
        answer("constraint=nosuch"),
        Err((ErrorCode::InvalidFeature, String::new()))
    );
    assert_eq!(
        answer("nodelist=nosuch"),
        Err((ErrorCode::InvalidNodeName, String::new()))
    );
    // One node wanted and two named: taken.
    assert_eq!(answer("nodes=1 nodelist=n1,n2"), Ok(()));
    assert_eq!(answer("nodes=4 tasks=256 constraint=gpu&std"), Ok(()));
    assert_eq!(answer("tasks=257"), Err((config, String::new())));
    assert_eq!(answer("gpus=32 nodes=4"), Ok(()));
    assert_eq!(answer("gpus=33"), Err((config, String::new())));
}

/// MaxMemPerCPU lowers the memory of a CPU and raises the CPUs; MaxMemPerNode refuses.
#[test]
fn memory_bounds() {
    let cluster = cluster_of("config MaxMemPerCPU=100\nnodes n1 cpus=64 mem=64000");
    let request = request_for(&cluster, "tasks=2 mem-per-cpu=250");
    // Three CPUs of 84 MiB each for a task.
    assert_eq!(
        (request.cpus_per_task, request.memory, request.num_cpus()),
        (3, MemoryRequest::PerCpu(84), 6)
    );
    assert_eq!(request_for(&cluster, "tasks=1 mem=1000").num_cpus(), 10);
    let cluster = cluster_of("config MaxMemPerNode=100\nnodes n1 cpus=64 mem=64000");
    let partition = cluster.partition("main").expect("partition main");
    let error = ResourceRequest::new(&description("mem=200"), partition, &cluster.config)
        .expect_err("too much");
    assert_eq!(error.code, ErrorCode::InvalidTaskMemory);
}

/// Equal requests are one class, whatever order they were written in.
#[test]
fn equal_requests_are_equal() {
    let cluster = cluster_of(REFERENCE);
    let a = request_for(&cluster, "tasks=1 nodelist=n[1-2] exclude=n4,n3 gres=gpu:1");
    let b = request_for(
        &cluster,
        "exclude=n3,n4 nodelist=n2,n1 tasks=1 nodes=2 gres=gpu:1",
    );
    assert_eq!(a, b);
    assert_ne!(
        a,
        request_for(
            &cluster,
            "tasks=1 nodelist=n[1-2] exclude=n4,n3 gres=gpu:h100:1"
        )
    );
}
