//! Which cores, devices and nodes jobs get by their options. Expected places follow by hand from the manual pages named.

use super::feasible::can_ever_run;
use super::inventory::FreeView;
use super::{ResourceRequest, place, tasks_on_nodes};
use crate::cluster::{Allocation, Cluster, NodeIndex};
use crate::schedule::scenario::{World, check, cluster_of, description};
use sluice_model::error_code::ErrorCode;
use sluice_model::hostlist::collapse_hostlist;

fn request_for(cluster: &Cluster, words: &str) -> ResourceRequest {
    let partition = cluster.partition("main").expect("partition main");
    ResourceRequest::new(&description(words), partition, &cluster.config).expect("request")
}

fn placed(cluster: &Cluster, jobs: &[&str]) -> Vec<Option<Allocation>> {
    let mut view = FreeView::of(cluster);
    let nodes: Vec<NodeIndex> = (0..cluster.nodes.len() as u32).map(NodeIndex).collect();
    jobs.iter()
        .map(|words| place(&mut view, &request_for(cluster, words), &nodes).ok())
        .collect()
}

/// Nodes with CPUs: `n1:0,1`.
fn cores(cluster: &Cluster, jobs: &[&str]) -> Vec<String> {
    placed(cluster, jobs)
        .into_iter()
        .map(|allocation| match allocation {
            None => "nowhere".to_owned(),
            Some(allocation) => allocation
                .nodes
                .iter()
                .map(|part| {
                    let cpus: Vec<String> = part.cpu_ids.iter().map(u32::to_string).collect();
                    format!("{}:{}", part.name, cpus.join(","))
                })
                .collect::<Vec<_>>()
                .join(" "),
        })
        .collect()
}

/// Node, devices and CPUs: `n1 gpu 0,1 cpus 0,1`.
fn devices(cluster: &Cluster, jobs: &[&str]) -> Vec<String> {
    placed(cluster, jobs)
        .into_iter()
        .map(|allocation| {
            let Some(allocation) = allocation else {
                return "nowhere".to_owned();
            };
            let part = &allocation.nodes[0];
            let list = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            let gpus: Vec<u32> = part.gres.iter().flat_map(|g| g.indices.clone()).collect();
            format!(
                "{} gpu {} cpus {}",
                part.name,
                list(&gpus),
                list(&part.cpu_ids)
            )
        })
        .collect()
}

fn nodes_of(cluster: &Cluster, jobs: &[&str]) -> Vec<String> {
    placed(cluster, jobs)
        .into_iter()
        .map(|allocation| {
            allocation.map_or_else(
                || "nowhere".to_owned(),
                |a| collapse_hostlist(a.node_names()),
            )
        })
        .collect()
}

/// slurm.conf(5): cores of all sockets in turn; with CR_CORE_DEFAULT_DIST_BLOCK one socket after the other; -m goes before both.
#[test]
fn cores_of_sockets() {
    let nodes = "nodes n1 sockets=2 cores=4 threads=1 cpus=8";
    let cyclic = cluster_of(nodes);
    assert_eq!(cores(&cyclic, &["tasks=4"]), ["n1:0,1,4,5"]);
    assert_eq!(
        cores(&cyclic, &["tasks=4 dist=block:block"]),
        ["n1:0,1,2,3"]
    );
    let block = cluster_of(&format!(
        "config SelectTypeParameters=CR_Core_Memory,CR_CORE_DEFAULT_DIST_BLOCK\n{nodes}"
    ));
    // The fullest socket that holds the job: whole sockets stay free.
    assert_eq!(
        cores(&block, &["tasks=3", "tasks=1", "tasks=2"]),
        ["n1:0,1,2", "n1:3", "n1:4,5"]
    );
    assert_eq!(
        cores(&block, &["tasks=4 dist=block:cyclic"]),
        ["n1:0,1,4,5"]
    );
}

/// CR_Socket: one job a socket; --ntasks-per-socket and MaxCPUsPerSocket bound what a job has of one.
#[test]
fn sockets() {
    let nodes = "nodes n1 sockets=2 cores=4 threads=1 cpus=8";
    let socket = cluster_of(&format!(
        "config SelectTypeParameters=CR_Socket_Memory\n{nodes}"
    ));
    assert_eq!(
        cores(&socket, &["tasks=1", "tasks=1", "tasks=1"]),
        ["n1:0,1,2,3", "n1:4,5,6,7", "nowhere"]
    );
    let core = cluster_of(nodes);
    assert_eq!(
        cores(&core, &["tasks=2 tasks-per-socket=1 dist=block:block"]),
        ["n1:0,4"]
    );
    assert_eq!(cores(&core, &["tasks=3 tasks-per-socket=1"]), ["nowhere"]);
    let bounded = cluster_of(&format!("{nodes}\npartition main MaxCPUsPerSocket=2"));
    assert_eq!(
        cores(&bounded, &["tasks=4 dist=block:block"]),
        ["n1:0,1,4,5"]
    );
    assert_eq!(cores(&bounded, &["tasks=5"]), ["nowhere"]);
}

/// CR_ONE_TASK_PER_CORE and --ntasks-per-core=1: a core for each task, with both threads.
#[test]
fn one_task_per_core() {
    let nodes = "nodes n1 sockets=1 cores=4 threads=2 cpus=8";
    let cluster = cluster_of(&format!(
        "config SelectTypeParameters=CR_Core_Memory,CR_ONE_TASK_PER_CORE\n{nodes}"
    ));
    assert_eq!(
        cores(&cluster, &["tasks=2", "tasks=3"]),
        ["n1:0,1,2,3", "nowhere"]
    );
    // Two tasks a core when asked for.
    assert_eq!(
        cores(&cluster, &["tasks=4 tasks-per-core=2"]),
        ["n1:0,1,2,3"]
    );
    let cluster = cluster_of(nodes);
    assert_eq!(
        cores(&cluster, &["tasks=2 tasks-per-core=1"]),
        ["n1:0,1,2,3"]
    );
}

/// CoreSpecCount: the highest cores are the system's. --core-spec: whole nodes, without so many of their cores.
#[test]
fn cores_of_the_system() {
    let cluster = cluster_of("nodes n1 sockets=1 cores=4 threads=2 cpus=8 corespec=1");
    assert_eq!(
        cores(&cluster, &["tasks=6", "tasks=1"]),
        ["n1:0,1,2,3,4,5", "nowhere"]
    );
    let cluster = cluster_of("nodes n[1-2] sockets=1 cores=4 threads=2 cpus=8");
    assert_eq!(
        cores(
            &cluster,
            &["tasks=1 core-spec=1", "tasks=1", "tasks=8 core-spec=1"]
        ),
        ["n1:0,1,2,3,4,5", "n2:0,1", "nowhere"]
    );
}

const SOCKET_GPUS: &str = "nodes n1 sockets=2 cores=4 threads=1 cpus=8 gres=gpu:4
    gresconf Name=gpu File=/dev/null[0-1] Cores=0-3
    gresconf Name=gpu File=/dev/null[2-3] Cores=4-7";

/// gres.conf(5) Cores: cores near the devices first; devices whose cores are taken come last.
#[test]
fn cores_near_devices() {
    let cluster = cluster_of(SOCKET_GPUS);
    assert_eq!(
        devices(&cluster, &["tasks=2 gres=gpu:2", "tasks=2 gres=gpu:2"]),
        ["n1 gpu 0,1 cpus 0,1", "n1 gpu 2,3 cpus 4,5"]
    );
    // The first socket is full: devices of the second, with its cores.
    assert_eq!(
        devices(
            &cluster,
            &["tasks=4 dist=block:block", "tasks=2 gres=gpu:1"]
        ),
        ["n1 gpu  cpus 0,1,2,3", "n1 gpu 2 cpus 4,5"]
    );
    // More CPUs than are near: the rest comes from elsewhere, unless binding is enforced.
    assert_eq!(
        devices(&cluster, &["tasks=6 gres=gpu:1"]),
        ["n1 gpu 0 cpus 0,1,2,3,4,5"]
    );
    assert_eq!(
        devices(&cluster, &["tasks=6 gres=gpu:1 gres-flags=enforce-binding"]),
        ["nowhere"]
    );
    assert_eq!(
        devices(
            &cluster,
            &[
                "tasks=4 dist=block:block",
                "tasks=2 gres=gpu:1 gres-flags=enforce-binding",
                "tasks=3 gres=gpu:1 gres-flags=enforce-binding"
            ]
        )[1..],
        ["n1 gpu 2 cpus 4,5", "nowhere"]
    );
    assert_eq!(
        devices(&cluster, &["tasks=2 gres=gpu:1 gres-flags=disable-binding"]),
        ["n1 gpu 0 cpus 0,4"]
    );
}

/// A job that holds all cores near a node's devices does not stop an enforced one elsewhere: the next node is tried.
#[test]
fn enforced_binding_tries_the_next_node() {
    check(
        "nodes n[1-2] sockets=2 cores=2 threads=1 cpus=4 gres=gpu:1
         gresconf Name=gpu File=/dev/null Cores=0-1
         running R on=n1 cpus=2 dist=block:block limit=1h
         job A cpus=2 gres=gpu:1 gres-flags=enforce-binding limit=1h
         at 0 pass",
        "A starts n2",
    );
}

/// --gpus-per-socket: so many on each of the sockets asked for.
#[test]
fn devices_of_each_socket() {
    let cluster = cluster_of(SOCKET_GPUS);
    assert_eq!(
        devices(&cluster, &["tasks=2 gpus-per-socket=1 sockets-per-node=2"]),
        ["n1 gpu 0,2 cpus 0,4"]
    );
    assert_eq!(
        devices(&cluster, &["tasks=2 gpus-per-socket=2 sockets-per-node=1"]),
        ["n1 gpu 0,1 cpus 0,1"]
    );
    assert_eq!(
        devices(
            &cluster,
            &["gres=gpu:2", "gpus-per-socket=1 sockets-per-node=2"]
        )[1],
        "nowhere"
    );
    // Never: no socket has three.
    let partition = cluster.partition("main").expect("partition main");
    let words = "gpus-per-socket=3 sockets-per-node=1";
    let answer = can_ever_run(&cluster, partition, &request_for(&cluster, words));
    assert_eq!(
        answer.map_err(|e| e.code),
        Err(ErrorCode::RequestedNodeConfigUnavailable)
    );
}

/// Field case 026: cores kept for GPUs are for jobs that have these GPUs (slurm.conf(5) RestrictedCoresPerGPU).
#[test]
fn cores_kept_for_gpus() {
    let cluster = cluster_of(
        "nodes n1 cpus=16 gres=gpu:8 restricted=2\nnodes n2 cpus=16 gres=gpu:4 restricted=2",
    );
    let partition = cluster.partition("main").expect("partition main");
    let answer = |words: &str| {
        can_ever_run(&cluster, partition, &request_for(&cluster, words)).map_err(|e| e.message)
    };
    // n1 keeps all of its CPUs for GPUs, n2 half of them.
    assert_eq!(answer("nodes=1 tasks=8"), Ok(()));
    assert_eq!(
        answer("nodes=1 tasks=9"),
        Err("CPU count per node can not be satisfied".to_owned())
    );
    assert_eq!(answer("nodes=1 tasks=12 gres=gpu:2"), Ok(()));
    assert_eq!(
        nodes_of(
            &cluster,
            &[
                "nodes=1 tasks=12 gres=gpu:1",
                "nodes=1 tasks=8",
                "nodes=1 tasks=1",
                "nodes=1 tasks=8 gres=gpu:4",
                "nodes=1 tasks=16 gres=gpu:8",
                "nodes=1 exclusive"
            ]
        ),
        ["nowhere", "n2", "nowhere", "n2", "n1", "nowhere"]
    );
}

/// Field case 024: jobs with one GPU fill nodes one after the other, so that jobs with whole nodes start.
#[test]
fn partial_jobs_leave_gpu_nodes_whole() {
    let mut world = World::new("nodes n[1-8] cpus=32 gres=gpu:8");
    for at in 0..40 {
        world.submit(&format!("small{at}"), "cpus=1 gres=gpu:1 limit=1h prio=100");
    }
    world.submit("large", "cpus=8 gres=gpu:8 limit=1h prio=50");
    let said = world.pass();
    assert!(said.contains("large starts n6"), "{said}");
    assert_eq!(world.busy_nodes(), 6);
    // Two and four GPUs find the gaps as well.
    let cluster = cluster_of("nodes n[1-3] cpus=32 gres=gpu:8");
    assert_eq!(
        nodes_of(
            &cluster,
            &[
                "gres=gpu:5",
                "gres=gpu:6",
                "gres=gpu:2",
                "gres=gpu:3",
                "gpus=8 nodes=1"
            ]
        ),
        ["n1", "n2", "n2", "n1", "n3"]
    );
}

/// sbatch(1) -N: as many nodes of a range as there are without waiting; --use-min-nodes takes the fewest; MaxNodes bounds it.
#[test]
fn ranges_of_nodes() {
    let cluster = cluster_of("nodes n[1-4] cpus=4");
    assert_eq!(nodes_of(&cluster, &["nodes=2-3 tasks=4"]), ["n[1-3]"]);
    assert_eq!(
        nodes_of(&cluster, &["nodes=2-3 tasks=4 use-min-nodes"]),
        ["n[1-2]"]
    );
    assert_eq!(
        nodes_of(
            &cluster,
            &["nodelist=n[1-2] exclusive", "nodes=1-4 tasks=4"]
        )[1],
        "n[3-4]"
    );
    // More nodes than tasks are of no use.
    assert_eq!(nodes_of(&cluster, &["nodes=1-4 tasks=2"]), ["n[1-2]"]);
    let bounded = cluster_of("nodes n[1-4] cpus=4\npartition main MaxNodes=2");
    assert_eq!(nodes_of(&bounded, &["nodes=1-4 tasks=4"]), ["n[1-2]"]);
}

/// --spread-job: over as many nodes as there are tasks for, evenly.
#[test]
fn spread_over_nodes() {
    let cluster = cluster_of("nodes n[1-3] cpus=4");
    let words = "tasks=7 spread";
    let allocation = placed(&cluster, &[words]).remove(0).expect("fits");
    let cpus: Vec<usize> = allocation.nodes.iter().map(|p| p.cpu_ids.len()).collect();
    assert_eq!(cpus, [3, 2, 2]);
    assert_eq!(
        tasks_on_nodes(&request_for(&cluster, words), &allocation),
        [3, 2, 2]
    );
}

/// CR_LLN and LLN=YES: the node with the most idle CPUs; the weight goes before.
#[test]
fn least_loaded() {
    let lln = "config SelectTypeParameters=CR_Core_Memory,CR_LLN\nnodes n[1-2] cpus=4\nnodes n3 cpus=8 weight=9";
    assert_eq!(
        nodes_of(
            &cluster_of(lln),
            &["tasks=1", "tasks=2", "tasks=1", "nodes=1 tasks=4"]
        ),
        ["n1", "n2", "n1", "n3"]
    );
    let of_partition = "nodes n[1-2] cpus=4\npartition main LLN=YES";
    assert_eq!(
        nodes_of(&cluster_of(of_partition), &["tasks=1", "tasks=1"]),
        ["n1", "n2"]
    );
}

/// --prefer is tried first, then --constraint; it books nothing.
#[test]
fn preferred_features() {
    check(
        "nodes n1 cpus=4 features=old
         nodes n2 cpus=4 features=new
         job A cpus=4 prefer=new constraint=old|new limit=1h prio=1000
         job B cpus=4 prefer=new constraint=old|new limit=1h prio=900
         job C cpus=4 prefer=new constraint=old limit=1h prio=800
         at 0 pass",
        "A starts n2; B starts n1; C pending Resources, start 1h on n1",
    );
    let cluster = cluster_of("nodes n1 cpus=1 features=a");
    let partition = cluster.partition("main").expect("partition main");
    let answer = |words: &str| {
        can_ever_run(&cluster, partition, &request_for(&cluster, words)).map_err(|e| e.code)
    };
    assert_eq!(answer("prefer=nosuch"), Err(ErrorCode::InvalidPrefer));
    assert_eq!(answer("prefer=a"), Ok(()));
}

/// A partition's SelectTypeParameters rule in it.
#[test]
fn unit_of_a_partition() {
    let cluster = cluster_of(
        "config SelectTypeParameters=CR_Core_Memory
         nodes n1 sockets=2 cores=2 threads=1 cpus=4
         partition main SelectTypeParameters=CR_Socket_Memory",
    );
    assert_eq!(
        cores(&cluster, &["tasks=1", "tasks=1", "tasks=1"]),
        ["n1:0,1", "n1:2,3", "nowhere"]
    );
}

/// page gres: shards are units of GPUs; a GPU serves jobs that share it, or one that has it. Units of a job are of one GPU.
#[test]
fn shares_of_gpus() {
    let nodes = "config GresTypes=gpu,shard
        nodes n1 cpus=16 gres=gpu:2,shard:8
        partition main";
    let cluster = cluster_of(nodes);
    let shard = |jobs: &[&str]| devices(&cluster, jobs);
    assert_eq!(
        shard(&[
            "gres=shard:3",
            "gres=shard:1",
            "gres=shard:2",
            "gres=shard:3"
        ]),
        [
            "n1 gpu 0 cpus 0",
            "n1 gpu 0 cpus 1",
            "n1 gpu 1 cpus 2",
            "nowhere"
        ]
    );
    // The second GPU is still whole; the first is not to be had, and the second no longer shared.
    assert_eq!(
        shard(&[
            "gres=shard:1",
            "gres=gpu:1",
            "gres=gpu:1",
            "gres=shard:4",
            "gres=shard:3"
        ]),
        [
            "n1 gpu 0 cpus 0",
            "n1 gpu 1 cpus 1",
            "nowhere",
            "nowhere",
            "n1 gpu 0 cpus 2"
        ]
    );
    let partition = cluster.partition("main").expect("partition main");
    let answer = can_ever_run(&cluster, partition, &request_for(&cluster, "gres=shard:5"));
    assert_eq!(
        answer.map_err(|e| e.code),
        Err(ErrorCode::RequestedNodeConfigUnavailable)
    );
    let spread = cluster_of(&format!(
        "config SelectTypeParameters=CR_Core_Memory,LL_SHARED_GRES\n{nodes}"
    ));
    assert_eq!(
        devices(&spread, &["gres=shard:1", "gres=shard:1"]),
        ["n1 gpu 0 cpus 0", "n1 gpu 1 cpus 1"]
    );
    // The same in time: what is shared comes back when its jobs end. (The plan for B overlooks that A has the GPU then, which the
    // pass at that time sees.)
    check(
        &format!(
            "{nodes}
             running R on=n1 gres=shard:4 limit=1h
             running S on=n1 gres=shard:1 limit=2h
             job A gres=gpu:1 limit=1h prio=1000
             job B gres=shard:4 limit=1h prio=900
             at 0 pass
             at 1h pass"
        ),
        "A pending Resources, start 1h on n1; B pending Priority, start 1h on n1 | A starts n1; B pending Resources, start 2h on n1",
    );
}
