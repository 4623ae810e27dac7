//! Bringing a configuration into force: nodes and partitions are matched by name and keep what was set by hand.
//!
//! Invariant: a node with jobs never vanishes; one that left the configuration stays, unusable, until its last job is gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_config::{ClusterConfig, NodeConfig, NodeInitialState, PartitionConfig};
use sluice_model::memory::MemoryMib;
use sluice_model::node_state::{NodeState, NodeStateFlags, NodeStateFull};
use sluice_model::time::UnixSeconds;

use crate::cluster::{Cluster, GresState, Node, NodeIndex, NodeManual, Partition};

/// Puts `config` into force.
pub fn install(cluster: &mut Cluster, config: Arc<ClusterConfig>, now: UnixSeconds) {
    let mut former: BTreeMap<String, Arc<Node>> = cluster
        .nodes
        .iter()
        .map(|node| (node.config.name.clone(), Arc::clone(node)))
        .collect();
    let mut nodes = imbl::Vector::new();
    let mut index = BTreeMap::new();
    for node_config in &config.nodes {
        let node = match former.remove(&node_config.name) {
            Some(old) => reconfigured(&old, node_config),
            None => new_node(node_config, now),
        };
        index.insert(node_config.name.clone(), NodeIndex(nodes.len() as u32));
        nodes.push_back(Arc::new(node));
    }
    let mut dynamic = Vec::new();
    for (name, old) in former {
        let made_by_hand = old.configured && is_dynamic(&old);
        if old.jobs.is_empty() && !made_by_hand {
            continue;
        }
        let mut node = (*old).clone();
        node.configured = made_by_hand;
        if made_by_hand {
            dynamic.push(name.clone());
        }
        index.insert(name, NodeIndex(nodes.len() as u32));
        nodes.push_back(Arc::new(node));
    }
    cluster.nodes = nodes;
    cluster.node_index = Arc::new(index);
    cluster.partitions = config
        .partitions
        .iter()
        .map(|partition| {
            let mut partition = partition.clone();
            if takes_every_node(&partition) {
                partition.nodes.extend(dynamic.iter().cloned());
            }
            Arc::new(resolve(Arc::new(partition), &cluster.node_index))
        })
        .collect();
    cluster.config = config;
    cluster.config_version += 1;
    cluster.loads = imbl::OrdMap::new();
    cluster.last_heard = imbl::OrdMap::new();
    cluster.connected = imbl::OrdSet::new();
    move_allocations(cluster);
}

/// The node was made by hand (`scontrol create NodeName=`): a configuration that does not name it leaves it in place.
#[must_use]
pub fn is_dynamic(node: &Node) -> bool {
    node.state.flags.contains(NodeStateFlags::DYNAMIC_NORM)
}

/// `Nodes=ALL`: nodes made later belong to it too.
#[must_use]
pub fn takes_every_node(partition: &PartitionConfig) -> bool {
    partition
        .nodes_expression
        .split(',')
        .any(|word| word.eq_ignore_ascii_case("ALL"))
}

/// Adds nodes that were made by hand.
pub fn nodes_created(cluster: &mut Cluster, made: &[NodeConfig], now: UnixSeconds) {
    let mut index = (*cluster.node_index).clone();
    for config in made {
        if index.contains_key(&config.name) {
            continue;
        }
        let mut node = new_node(config, now);
        node.state.flags.insert(NodeStateFlags::DYNAMIC_NORM);
        index.insert(config.name.clone(), NodeIndex(cluster.nodes.len() as u32));
        cluster.nodes.push_back(Arc::new(node));
    }
    cluster.node_index = Arc::new(index);
    cluster.config_version += 1;
    resolve_partitions(cluster);
}

/// Takes nodes away; none of them has jobs. Everything that names nodes by position follows.
pub fn nodes_deleted(cluster: &mut Cluster, gone: &[String]) {
    let names: Vec<String> = cluster
        .nodes
        .iter()
        .map(|node| node.config.name.clone())
        .collect();
    cluster.nodes = cluster
        .nodes
        .iter()
        .filter(|node| !gone.contains(&node.config.name))
        .cloned()
        .collect();
    let index: BTreeMap<String, NodeIndex> = cluster
        .nodes
        .iter()
        .enumerate()
        .map(|(at, node)| (node.config.name.clone(), NodeIndex(at as u32)))
        .collect();
    let moved = |old: &NodeIndex| {
        names
            .get(old.at())
            .and_then(|name| index.get(name))
            .copied()
    };
    cluster.loads = cluster
        .loads
        .iter()
        .filter_map(|(at, load)| Some((moved(at)?, *load)))
        .collect();
    cluster.last_heard = cluster
        .last_heard
        .iter()
        .filter_map(|(at, time)| Some((moved(at)?, *time)))
        .collect();
    cluster.connected = cluster.connected.iter().filter_map(moved).collect();
    cluster.node_index = Arc::new(index);
    cluster.config_version += 1;
    resolve_partitions(cluster);
    move_allocations(cluster);
}

/// Finds the positions of the partitions' nodes again.
fn resolve_partitions(cluster: &mut Cluster) {
    let index = Arc::clone(&cluster.node_index);
    cluster.partitions = cluster
        .partitions
        .iter()
        .map(|partition| Arc::new(resolve(Arc::clone(&partition.config), &index)))
        .collect();
}

/// Takes a partition away.
pub fn partition_deleted(cluster: &mut Cluster, name: &str) {
    cluster.partitions = cluster
        .partitions
        .iter()
        .filter(|partition| partition.config.name != name)
        .cloned()
        .collect();
}

/// Replaces what was set by hand on a node, and what of it takes the place of the configuration.
pub fn node_settings(
    cluster: &mut Cluster,
    name: &str,
    config: Option<&Arc<NodeConfig>>,
    manual: &NodeManual,
) {
    let Some(index) = cluster.node_index.get(name).copied() else {
        return;
    };
    if let Some(slot) = cluster.nodes.get_mut(index.at()) {
        let mut node = match config {
            Some(config) => reconfigured(slot, config),
            None => (**slot).clone(),
        };
        node.manual = manual.clone();
        *slot = Arc::new(node);
    }
}

/// Forgets weight and features set by hand: the configuration rules again.
pub fn node_reset(cluster: &mut Cluster, name: &str) {
    let Some(index) = cluster.node_index.get(name).copied() else {
        return;
    };
    if let Some(slot) = cluster.nodes.get_mut(index.at()) {
        let node = Arc::make_mut(slot);
        node.weight = None;
        node.features = None;
        node.active_features = None;
    }
}

/// Replaces one partition.
pub fn partition_updated(cluster: &mut Cluster, partition: &Arc<PartitionConfig>) {
    let resolved = Arc::new(resolve(Arc::clone(partition), &cluster.node_index));
    match cluster
        .partitions
        .iter()
        .position(|p| p.config.name == partition.name)
    {
        Some(at) => {
            cluster.partitions.set(at, resolved);
        }
        None => cluster.partitions.push_back(resolved),
    }
}

fn resolve(config: Arc<PartitionConfig>, index: &BTreeMap<String, NodeIndex>) -> Partition {
    let mut nodes: Vec<NodeIndex> = config
        .nodes
        .iter()
        .filter_map(|name| index.get(name).copied())
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    Partition {
        config,
        nodes: Arc::new(nodes),
    }
}

fn new_node(config: &NodeConfig, now: UnixSeconds) -> Node {
    Node {
        config: Arc::new(config.clone()),
        configured: true,
        state: initial_state(config.state),
        reason: config.reason.clone(),
        reason_uid: config.reason.as_ref().map(|_| 0),
        reason_time: config.reason.as_ref().map(|_| now),
        hardware: None,
        weight: None,
        features: None,
        active_features: None,
        comment: None,
        used_cpus: vec![false; config.cpus as usize],
        used_memory: MemoryMib::ZERO,
        gres: gres_states(config),
        jobs: Vec::new(),
        completing_jobs: Vec::new(),
        whole_node_job: None,
        last_busy: None,
        registered: None,
        manual: NodeManual::default(),
    }
}

/// UNKNOWN until the agent registers, with what the State= key asks for (slurm.conf(5)).
fn initial_state(state: NodeInitialState) -> NodeStateFull {
    match state {
        NodeInitialState::Unknown => NodeStateFull::new(NodeState::Unknown),
        NodeInitialState::Down => NodeStateFull::new(NodeState::Down),
        NodeInitialState::Drain => {
            NodeStateFull::with_flags(NodeState::Unknown, NodeStateFlags::DRAIN)
        }
        NodeInitialState::Fail | NodeInitialState::Failing => {
            NodeStateFull::with_flags(NodeState::Unknown, NodeStateFlags::FAIL)
        }
        NodeInitialState::Future => NodeStateFull::new(NodeState::Future),
        NodeInitialState::Cloud => {
            NodeStateFull::with_flags(NodeState::Unknown, NodeStateFlags::CLOUD)
        }
    }
}

fn gres_states(config: &NodeConfig) -> Vec<GresState> {
    let mut first_by_name: BTreeMap<&str, u32> = BTreeMap::new();
    config
        .gres
        .iter()
        .map(|gres| {
            let first = first_by_name.entry(gres.name.as_str()).or_insert(0);
            let first_index = *first;
            // Countable GRES without devices (licence-like, huge counts) are not indexed.
            // Shares of GPUs are counted; their files are those of the GPUs.
            let indexed = (!gres.files.is_empty() || gres.name == "gpu")
                && !sluice_model::gres::shares_gpus(&gres.name);
            *first += gres.count as u32;
            GresState {
                name: gres.name.clone(),
                type_name: gres.type_name.clone(),
                count: gres.count,
                used: if indexed {
                    vec![false; gres.count as usize]
                } else {
                    Vec::new()
                },
                used_count: 0,
                cpus: vec![gres.cores.clone(); if indexed { gres.count as usize } else { 0 }],
                first_index,
            }
        })
        .collect()
}

/// The node with a new configuration. What is in use is kept; a changed size takes effect at once, and what no longer fits
/// drains out as its jobs end.
fn reconfigured(old: &Node, config: &NodeConfig) -> Node {
    let mut node = old.clone();
    if *old.config == *config && old.configured {
        return node;
    }
    let mut used = vec![false; config.cpus as usize];
    for (id, in_use) in old.used_cpus.iter().enumerate() {
        if let Some(slot) = used.get_mut(id) {
            *slot = *in_use;
        }
    }
    let mut gres = gres_states(config);
    for state in &mut gres {
        if let Some(before) = old
            .gres
            .iter()
            .find(|g| g.name == state.name && g.type_name == state.type_name)
        {
            state.used_count = before.used_count;
            for (slot, in_use) in state.used.iter_mut().zip(&before.used) {
                *slot = *in_use;
            }
        }
    }
    node.config = Arc::new(config.clone());
    node.configured = true;
    node.used_cpus = used;
    node.gres = gres;
    node
}

/// Allocations name nodes by position too: follow the names to the new positions. A part that was released may name a node that is
/// gone: its former position belongs to another node now.
fn move_allocations(cluster: &mut Cluster) {
    let index = Arc::clone(&cluster.node_index);
    let position = |name: &str| index.get(name).copied().unwrap_or(NodeIndex::GONE);
    let ids: Vec<_> = cluster.holding.iter().copied().collect();
    for id in ids {
        let Some(job) = cluster.jobs.get_mut(&id) else {
            continue;
        };
        let job = Arc::make_mut(job);
        if let Some(allocation) = &mut job.allocation {
            let allocation = Arc::make_mut(allocation);
            for part in &mut allocation.nodes {
                part.node = position(&part.name);
            }
        }
        let steps: Vec<_> = job.steps.keys().copied().collect();
        for step_id in steps {
            let Some(step) = job.steps.get_mut(&step_id) else {
                continue;
            };
            let step = Arc::make_mut(step);
            for (state, layout) in step.nodes.iter_mut().zip(&step.layout.nodes) {
                state.node = position(&layout.node);
            }
        }
    }
}
