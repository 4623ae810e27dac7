//! Where jobs lie in a network: switches and blocks. Expected places follow from the rules of page `topology` by hand.

use super::inventory::FreeView;
use super::{ResourceRequest, place};
use crate::cluster::{Cluster, NodeIndex};
use crate::schedule::scenario::{check, cluster_of, description};
use sluice_model::hostlist::collapse_hostlist;

fn places(cluster: &Cluster, jobs: &[&str]) -> Vec<String> {
    let mut view = FreeView::of(cluster);
    let nodes: Vec<NodeIndex> = (0..cluster.nodes.len() as u32).map(NodeIndex).collect();
    let partition = cluster.partition("main").expect("partition main");
    jobs.iter()
        .map(|words| {
            let request = ResourceRequest::new(&description(words), partition, &cluster.config)
                .expect("request");
            place(&mut view, &request, &nodes).map_or_else(
                |_| "nowhere".to_owned(),
                |a| collapse_hostlist(a.node_names()),
            )
        })
        .collect()
}

const TREE: &str = "config TopologyPlugin=topology/tree
    nodes n[1-12] cpus=2
    topology SwitchName=s0 Nodes=n[1-4]
    topology SwitchName=s1 Nodes=n[5-8]
    topology SwitchName=s2 Nodes=n[9-12]
    topology SwitchName=low Switches=s[0-1]
    topology SwitchName=top Switches=low,s2";

/// The lowest switch that holds the job, the fullest of those; over several leaves few of them, the smallest that suffices last.
#[test]
fn lowest_switch() {
    let cluster = cluster_of(TREE);
    // n1 and n2 are taken: four nodes fit below s1 or s2, two best below s0.
    assert_eq!(
        places(
            &cluster,
            &[
                "nodelist=n[1-2] exclusive",
                "nodes=4 exclusive",
                "nodes=2 exclusive",
                "nodes=4 exclusive"
            ]
        ),
        ["n[1-2]", "n[5-8]", "n[3-4]", "n[9-12]"]
    );
    // Six need two leaves: those below the lower switch.
    assert_eq!(places(&cluster, &["nodes=6 exclusive"]), ["n[1-6]"]);
    // One node of s0 is taken: the full leaf first, then what is left of the other.
    assert_eq!(
        places(&cluster, &["nodelist=n1 exclusive", "nodes=7 exclusive"])[1],
        "n[2-8]"
    );
    // Twelve take all, a tree that has them.
    assert_eq!(places(&cluster, &["nodes=12"]), ["n[1-12]"]);
}

/// No job spans switches that nothing connects, unless TopoOptional.
#[test]
fn islands() {
    let islands = "config TopologyPlugin=topology/tree
        nodes n[1-4] cpus=1
        topology SwitchName=s0 Nodes=n[1-2]
        topology SwitchName=s1 Nodes=n[3-4]";
    assert_eq!(places(&cluster_of(islands), &["nodes=3"]), ["nowhere"]);
    let optional = format!("config TopologyParam=TopoOptional\n{islands}");
    assert_eq!(places(&cluster_of(&optional), &["nodes=3"]), ["n[1-3]"]);
}

/// --switches: the job waits for few leaves until its time is over.
#[test]
fn few_switches() {
    check(
        &format!(
            "{TREE}
             running R on=n[1-2] exclusive limit=4m
             running S on=n[5-6] exclusive limit=1h
             running T on=n[9-10] exclusive limit=1h
             job A nodes=4 exclusive switches=1@2:00 limit=1h prio=1000
             at 0 pass
             at 121s pass"
        ),
        "A pending Resources, start 4m on n[1-4] | A starts n[3-4,7-8]",
    );
}

const BLOCKS: &str = "config TopologyPlugin=topology/block
    nodes n[1-16] cpus=2
    topology BlockName=b1 Nodes=n[1-4]
    topology BlockName=b2 Nodes=n[5-8]
    topology BlockName=b3 Nodes=n[9-12]
    topology BlockName=b4 Nodes=n[13-16]
    topology BlockSizes=4,8";

/// The lowest level that is built large enough, and no other: a job of a block's size waits for a block.
#[test]
fn smallest_level() {
    let cluster = cluster_of(BLOCKS);
    assert_eq!(
        places(
            &cluster,
            &[
                "nodelist=n1 exclusive",
                "nodes=3 exclusive",
                "nodes=8 exclusive",
                "nodes=4 exclusive",
                "nodes=2 exclusive"
            ]
        ),
        ["n1", "n[2-4]", "n[9-16]", "n[5-8]", "nowhere"]
    );
    assert_eq!(
        places(
            &cluster,
            &[
                "nodelist=n1 exclusive",
                "nodelist=n5 exclusive",
                "nodelist=n9 exclusive",
                "nodelist=n13 exclusive",
                "nodes=4 exclusive",
                "nodes=3 exclusive"
            ]
        )[4..],
        ["nowhere", "n[2-4]"]
    );
}

/// Segments lie each within a block, wherever; field case 022: three blocks of 17, 36 nodes in segments of 12.
#[test]
fn segments() {
    let cluster = cluster_of(BLOCKS);
    assert_eq!(
        places(
            &cluster,
            &[
                "nodelist=n1 exclusive",
                "nodelist=n5 exclusive",
                "nodes=6 segment=3 exclusive"
            ]
        )[2],
        "n[2-4,6-8]"
    );
    assert_eq!(
        places(&cluster, &["nodes=4 segment=2 exclusive"]),
        ["n[1-4]"]
    );
    assert_eq!(
        places(&cluster, &["nodes=4 segment=2 spread-segments=1 exclusive"]),
        ["n[1-2,5-6]"]
    );
    let case = cluster_of(
        "config TopologyPlugin=topology/block
         nodes n[1-51] cpus=1
         topology BlockName=b1 Nodes=n[1-17]
         topology BlockName=b2 Nodes=n[18-34]
         topology BlockName=b3 Nodes=n[35-51]
         topology BlockSizes=17",
    );
    assert_eq!(
        places(&case, &["nodes=36 segment=12"]),
        ["n[1-12,18-29,35-46]"]
    );
}

/// Weight goes before nearness.
#[test]
fn weight_first() {
    let cluster = cluster_of(
        "config TopologyPlugin=topology/tree
         nodes n[1-2] cpus=1 weight=1
         nodes n[3-4] cpus=1 weight=5
         topology SwitchName=s0 Nodes=n[1,3]
         topology SwitchName=s1 Nodes=n[2,4]
         topology SwitchName=top Switches=s[0-1]",
    );
    assert_eq!(places(&cluster, &["nodes=2"]), ["n[1-2]"]);
}

/// topology.yaml: a partition takes the network that it names, others the default one.
#[test]
fn networks_of_partitions() {
    check(
        "nodes n[1-4] cpus=1
         yaml .- topology: racks
         yaml .  cluster_default: true
         yaml .  tree:
         yaml .    switches:
         yaml .    - {switch: s0, nodes: 'n[1-2]'}
         yaml .    - {switch: s1, nodes: 'n[3-4]'}
         yaml .- topology: even
         yaml .  tree:
         yaml .    switches:
         yaml .    - {switch: t0, nodes: 'n[1,3]'}
         yaml .    - {switch: t1, nodes: 'n[2,4]'}
         yaml .- topology: none
         yaml .  flat: true
         partition main
         partition other Topology=even
         partition any Topology=none
         running R on=n1 limit=1h
         job A nodes=2 limit=1h prio=1000 partition=other
         job B nodes=2 limit=1h prio=900
         at 0 pass
         at 1h pass
         job C nodes=4 limit=1h prio=800 partition=any
         at 2h pass",
        "A starts n[2,4]; B pending Resources, start 1h on n[1-2] | B starts n[1-2] | C starts n[1-4]",
    );
}
