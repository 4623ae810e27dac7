//! The nodes as selection sees them: fixed facts, and what is free of each (amounts, and on demand which CPUs and devices).
//!
//! Amounts are vectors of *slots*: slot 0 is CPUs in whole free cores, slot 1 memory in MiB, slots 2… the entries of the
//! node's GRES, and where somebody shares or claims nodes those of [`super::sharing`]. Invariant: `free <= total` in every slot;
//! a taken allocation lowers both the amounts and the bitmaps.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_model::gres::shares_gpus;

use sluice_model::job::Exclusive;

use super::shared_gres::{self, SharedUnits};
use super::sharing::{self, Extras, Owner, PoolLoads, Tenants, slot};
use super::topology::{Net, Nets};
use crate::cluster::{Allocation, Cluster, Node, NodeAllocation, NodeIndex, NodePhase};

/// Slot of CPUs.
pub const CPU_SLOT: usize = 0;
/// Slot of memory.
pub const MEMORY_SLOT: usize = 1;
/// First slot of GRES.
pub const GRES_SLOT: usize = 2;

/// What does not change about a node during a pass.
#[derive(Debug, Clone)]
pub struct NodeFacts<'a> {
    /// Position.
    pub index: NodeIndex,
    /// The record.
    pub node: &'a Node,
    /// Takes new jobs at present.
    pub usable: bool,
    /// Low first.
    pub weight: u32,
    /// Sockets.
    pub sockets: u32,
    /// Cores of a socket.
    pub cores: u32,
    /// CPUs of a core.
    pub threads: u32,
    /// CPUs.
    pub cpus: u32,
    /// Memory for jobs, MiB.
    pub memory: u64,
    /// GRES devices in all; 0 = none.
    pub gres_total: u64,
    /// CPUs that are kept for each GPU.
    pub restricted: u64,
    /// The extra slots of the view; `None` = nobody shares or claims nodes.
    pub extras: Option<Arc<Extras>>,
    /// Who is on it; kept only with extra slots.
    pub tenants: Tenants,
}

impl<'a> NodeFacts<'a> {
    /// The facts of a node.
    #[must_use]
    pub fn of(index: NodeIndex, node: &'a Node) -> Self {
        let shape = super::policy::node_shape(node);
        let reserved = super::policy::reserved_cpus(node);
        Self {
            index,
            node,
            usable: node.is_usable(),
            weight: node.effective_weight(),
            sockets: shape.sockets,
            cores: shape.cores,
            threads: shape.threads,
            cpus: node.cpu_count().saturating_sub(reserved.len() as u32),
            memory: super::policy::memory_for_jobs(node),
            gres_total: node.gres.iter().map(|g| g.count).sum(),
            restricted: super::policy::restricted_cpus_per_gpu(node),
            extras: None,
            tenants: Tenants::default(),
        }
    }

    fn append_total(&self, out: &mut Vec<u64>) {
        out.push(u64::from(self.cpus));
        out.push(self.memory);
        out.extend(self.node.gres.iter().map(|gres| gres.count));
        if let Some(extras) = &self.extras {
            out.extend([slot::ROOM; slot::OPEN]);
            out.push(self.open_cpus());
            let cpus = u64::from(self.cpus);
            out.extend(extras.pools.iter().map(|pool| cpus * u64::from(pool.jobs)));
            out.extend(extras.caps.iter().map(|cap| cap.of(self).min(cpus)));
        }
    }

    /// CPUs that are not kept for GPUs.
    #[must_use]
    pub fn open_cpus(&self) -> u64 {
        let gpus = self.node.gres.iter().filter(|gres| gres.name == "gpu");
        let kept = gpus.map(|gres| gres.count).sum::<u64>() * self.restricted;
        u64::from(self.cpus).saturating_sub(kept)
    }

    /// Position of the first extra slot.
    #[must_use]
    pub fn extra_slot(&self) -> usize {
        GRES_SLOT + self.node.gres.len()
    }

    /// Writes the amounts of the empty node.
    pub fn write_total(&self, out: &mut Vec<u64>) {
        out.clear();
        self.append_total(out);
    }

    /// NodeName.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.node.config.name
    }

    /// CPUs of a socket.
    #[must_use]
    pub fn socket_cpus(&self) -> u32 {
        self.cores * self.threads
    }
}

/// Free CPUs and devices of one node, one by one.
#[derive(Debug, Clone)]
pub struct NodeBits {
    /// CPU id → free.
    pub cpus: Vec<bool>,
    /// GRES entry → device → free; empty for counted GRES.
    pub gres: Vec<Vec<bool>>,
}

/// What is free on every node. Cheap to clone; cut down as jobs are placed.
#[derive(Debug, Clone)]
pub struct FreeView<'a> {
    /// Facts by node position.
    pub facts: Vec<NodeFacts<'a>>,
    cluster: &'a Cluster,
    offsets: Vec<u32>,
    free: Vec<u64>,
    total: Vec<u64>,
    bits: Vec<Option<NodeBits>>,
    extras: Option<Arc<Extras>>,
    loads: PoolLoads,
    /// What is to be had of shared GPUs, by node.
    shares: BTreeMap<usize, Vec<SharedUnits>>,
    nets: Arc<Nets>,
    /// Nodes on which something is planned for later: what is free of them is not what a job may have.
    pub(crate) planned: Vec<bool>,
}

impl<'a> FreeView<'a> {
    /// What is free at present.
    #[must_use]
    pub fn of(cluster: &'a Cluster) -> Self {
        Self::with_claims(cluster, false)
    }

    /// As [`Self::of`]; `claims` = some of the jobs to be placed want nodes for their user or label.
    #[must_use]
    pub fn with_claims(cluster: &'a Cluster, claims: bool) -> Self {
        let mut view = Self {
            facts: Vec::with_capacity(cluster.nodes.len()),
            cluster,
            offsets: Vec::with_capacity(cluster.nodes.len() + 1),
            free: Vec::new(),
            total: Vec::new(),
            bits: vec![None; cluster.nodes.len()],
            extras: Extras::of(cluster, claims),
            loads: PoolLoads::new(),
            shares: BTreeMap::new(),
            nets: Arc::new(Nets::of(cluster)),
            planned: vec![false; cluster.nodes.len()],
        };
        for (at, node) in cluster.nodes.iter().enumerate() {
            view.add(NodeIndex(at as u32), node);
        }
        view.offsets.push(view.free.len() as u32);
        if view.extras.is_some() || !view.nets.is_flat() {
            view.add_held_extras();
        }
        view
    }

    /// The network of a partition's nodes; `None` = all are equally near.
    #[must_use]
    pub fn net(&self, topology: Option<&str>) -> Option<&Net> {
        self.nets.find(topology)
    }

    /// Some job shares CPUs or wants nodes for its user or label.
    #[must_use]
    pub fn has_extras(&self) -> bool {
        self.extras.is_some()
    }

    fn add(&mut self, index: NodeIndex, node: &'a Node) {
        let mut facts = NodeFacts::of(index, node);
        facts.extras.clone_from(&self.extras);
        self.offsets.push(self.free.len() as u32);
        let reserved = super::policy::reserved_cpus(node);
        let mut free_cpus = 0;
        let threads = facts.threads.max(1) as usize;
        for (core, ids) in node.used_cpus.chunks(threads).enumerate() {
            let kept = || {
                (core * threads..core * threads + ids.len())
                    .any(|id| reserved.contains(&(id as u32)))
            };
            if ids.iter().all(|used| !used) && (reserved.is_empty() || !kept()) {
                free_cpus += ids.len() as u64;
            }
        }
        if node.whole_node_job.is_some() {
            free_cpus = 0;
        }
        self.free.push(free_cpus);
        self.free
            .push(facts.memory.saturating_sub(node.used_memory.0));
        for gres in &node.gres {
            let devices = gres.used.iter().filter(|used| **used).count() as u64;
            let used = if gres.used.is_empty() {
                gres.used_count
            } else {
                devices
            };
            self.free.push(gres.count.saturating_sub(used));
        }
        if node.gres.iter().any(|gres| shares_gpus(&gres.name)) {
            self.add_shares(index.at(), node);
        }
        facts.append_total(&mut self.total);
        let from = self.free.len();
        self.free.extend_from_slice(&self.total[from..]);
        self.facts.push(facts);
    }

    /// GPUs that are shared are no job's own, and the other way round.
    fn add_shares(&mut self, at: usize, node: &Node) {
        let all = shared_gres::units(self.cluster, node);
        let base = self.free.len() - node.gres.len();
        for shared in &all {
            self.free[base + shared.entry] = shared.left();
        }
        let taken = shared_gres::shared_gpus(&all, node);
        for (entry, gres) in node.gres.iter().enumerate() {
            if gres.name == "gpu" {
                let from = gres.first_index as usize;
                let here = taken.get(from..from + gres.used.len()).unwrap_or(&[]);
                let shared = here.iter().filter(|shared| **shared).count() as u64;
                self.free[base + entry] = self.free[base + entry].saturating_sub(shared);
            }
        }
        if !all.is_empty() {
            self.shares.insert(at, all);
        }
    }

    /// What is to be had of the shared GPUs of a node.
    #[must_use]
    pub fn shares(&self, node: usize) -> &[SharedUnits] {
        self.shares.get(&node).map_or(&[], Vec::as_slice)
    }

    /// What running jobs take of the extra slots, and the nodes that they keep empty.
    fn add_held_extras(&mut self) {
        let cluster = self.cluster;
        for id in &cluster.holding {
            let Some(job) = cluster.jobs.get(id) else {
                continue;
            };
            let Some(allocation) = &job.allocation else {
                continue;
            };
            let owner = Owner::of(&job.request);
            for part in allocation.nodes.iter().filter(|part| is_held(part)) {
                let node = part.node.at();
                if node >= self.facts.len() {
                    continue;
                }
                let amounts = self.amounts_of(allocation, &job.partition, part);
                let base = self.facts[node].extra_slot();
                let range = self.range(node);
                for (free, taken) in self.free[range].iter_mut().zip(&amounts).skip(base) {
                    *free = free.saturating_sub(*taken);
                }
                if self.extras.is_some() {
                    self.facts[node].tenants.add(&owner, allocation.claim);
                }
            }
            for node in self.kept_empty(allocation, &job.partition) {
                let range = self.range(node);
                self.free[range].fill(0);
            }
        }
    }

    /// Nodes that nobody else may use although the job has nothing on them: the rest of its part of the network.
    #[must_use]
    pub fn kept_empty(&self, allocation: &Allocation, partition: &str) -> Vec<usize> {
        if allocation.claim != Some(Exclusive::Topo) {
            return Vec::new();
        }
        let topology = self
            .cluster
            .partition(partition)
            .and_then(|p| p.config.topology.as_deref());
        let Some(net) = self.net(topology) else {
            return Vec::new();
        };
        let own: Vec<usize> = allocation
            .nodes
            .iter()
            .filter(|part| is_held(part))
            .map(|part| part.node.at())
            .collect();
        net.leaves_of(&own)
            .into_iter()
            .flat_map(|leaf| net.nodes_of(leaf))
            .map(|node| *node as usize)
            .filter(|node| !own.contains(node) && *node < self.facts.len())
            .collect()
    }

    /// Something of a node is planned for a job that starts later.
    pub fn plan_on(&mut self, node: usize, owner: Option<&Owner>, claim: Option<Exclusive>) {
        self.planned[node] = true;
        if let Some(owner) = owner.filter(|_| self.extras.is_some()) {
            self.facts[node].tenants.add(owner, claim);
        }
    }

    /// Jobs on each CPU of a node in a pool.
    pub fn pool_loads(&mut self, node: usize, partition: &str) -> &mut Vec<u32> {
        let pool = self
            .extras
            .as_ref()
            .and_then(|extras| extras.pool(partition))
            .unwrap_or(usize::MAX);
        let (cluster, record) = (self.cluster, self.facts[node].node);
        self.loads
            .entry((node, pool))
            .or_insert_with(|| sharing::loads(cluster, record, partition))
    }

    fn range(&self, node: usize) -> std::ops::Range<usize> {
        self.offsets[node] as usize..self.offsets[node + 1] as usize
    }

    /// Free amounts of a node.
    #[must_use]
    pub fn free(&self, node: usize) -> &[u64] {
        &self.free[self.range(node)]
    }

    /// Amounts of the empty node.
    #[must_use]
    pub fn total(&self, node: usize) -> &[u64] {
        &self.total[self.range(node)]
    }

    /// Free CPUs and devices of a node.
    pub fn bits(&mut self, node: usize) -> &mut NodeBits {
        let facts = &self.facts[node];
        self.bits[node].get_or_insert_with(|| {
            let mut cpus: Vec<bool> = facts.node.used_cpus.iter().map(|used| !used).collect();
            for id in super::policy::reserved_cpus(facts.node) {
                if let Some(free) = cpus.get_mut(id as usize) {
                    *free = false;
                }
            }
            let mut gres: Vec<Vec<bool>> = facts
                .node
                .gres
                .iter()
                .map(|g| g.used.iter().map(|used| !used).collect())
                .collect();
            if let Some(all) = self.shares.get(&node) {
                let shared = shared_gres::shared_gpus(all, facts.node);
                let of_gpus = facts
                    .node
                    .gres
                    .iter()
                    .zip(&mut gres)
                    .filter(|(g, _)| g.name == "gpu");
                for (state, free) in of_gpus {
                    for (device, free) in free.iter_mut().enumerate() {
                        *free &= shared.get(state.first_index as usize + device) != Some(&true);
                    }
                }
            }
            NodeBits { cpus, gres }
        })
    }

    /// Takes the placement of a job of a partition out of what is free.
    pub fn take(&mut self, allocation: &Allocation, partition: &str, owner: Option<&Owner>) {
        for part in &allocation.nodes {
            let node = part.node.at();
            if node >= self.facts.len() {
                continue;
            }
            let amounts = self.amounts_of(allocation, partition, part);
            if let Some(pool) = &allocation.shared_in {
                let loads = self.pool_loads(node, pool);
                for cpu in &part.cpu_ids {
                    if let Some(load) = loads.get_mut(*cpu as usize) {
                        *load += 1;
                    }
                }
            }
            let bits = self.bits(node);
            for cpu in &part.cpu_ids {
                if let Some(free) = bits.cpus.get_mut(*cpu as usize) {
                    *free = false;
                }
            }
            for given in &part.gres {
                if let Some(all) = self.shares.get_mut(&node) {
                    let record = self.facts[node].node;
                    if given.name == "gpu" {
                        for gpu in &given.indices {
                            shared_gres::take_gpu(all, *gpu);
                        }
                    } else if shares_gpus(&given.name) {
                        shared_gres::take_units(
                            all,
                            record,
                            &given.name,
                            &given.indices,
                            given.count,
                        );
                        self.close_gpus(node, &given.indices);
                        continue;
                    }
                }
                for (entry, device) in devices_of(self.facts[node].node, given) {
                    if let Some(free) = self.bits(node).gres[entry].get_mut(device) {
                        *free = false;
                    }
                }
            }
            let range = self.range(node);
            for (free, taken) in self.free[range].iter_mut().zip(&amounts) {
                *free = free.saturating_sub(*taken);
            }
            if let Some(owner) = owner.filter(|_| self.extras.is_some()) {
                self.facts[node].tenants.add(owner, allocation.claim);
            }
        }
        for node in self.kept_empty(allocation, partition) {
            let range = self.range(node);
            self.free[range].fill(0);
        }
    }

    /// GPUs that are shared are no longer to be had as a whole.
    fn close_gpus(&mut self, node: usize, gpus: &[u32]) {
        let record = self.facts[node].node;
        let bits = self.bits(node);
        for (gres, free) in record.gres.iter().zip(&mut bits.gres) {
            for gpu in gpus.iter().filter(|_| gres.name == "gpu") {
                let device = gpu
                    .checked_sub(gres.first_index)
                    .and_then(|at| free.get_mut(at as usize));
                if let Some(device) = device {
                    *device = false;
                }
            }
        }
    }

    /// A part of an allocation in slots of its node.
    #[must_use]
    pub fn amounts_of(
        &self,
        allocation: &Allocation,
        partition: &str,
        part: &NodeAllocation,
    ) -> Vec<u64> {
        let facts = &self.facts[part.node.at()];
        let mut amounts = amounts_of(facts, part);
        let cpus = if allocation.whole_nodes {
            u64::from(facts.cpus)
        } else {
            amounts[CPU_SLOT]
        };
        amounts[CPU_SLOT] = cpus;
        if let Some(extras) = &self.extras {
            let pool = allocation.shared_in.as_deref();
            let gpus = part.gres.iter().filter(|given| given.name == "gpu");
            let gpus = gpus.map(|given| given.count).sum();
            let open = super::fit::open_cpus(facts, allocation.whole_nodes, cpus, gpus);
            extras.append(
                &mut amounts,
                (cpus, open),
                pool,
                allocation.claim.is_some(),
                partition,
            );
        }
        amounts
    }
}

/// Where a GRES of an allocation lies on the node: entry and device, one pair a device.
fn devices_of<'n>(
    node: &'n Node,
    given: &'n sluice_model::job::GresAllocation,
) -> impl Iterator<Item = (usize, usize)> + 'n {
    given.indices.iter().filter_map(move |index| {
        node.gres.iter().enumerate().find_map(|(entry, gres)| {
            let own = gres.name == given.name && *index >= gres.first_index;
            let device = (*index).wrapping_sub(gres.first_index) as usize;
            (own && device < gres.used.len()).then_some((entry, device))
        })
    })
}

/// A part of an allocation in slots of its node, without the extra ones. A core of which a job has one CPU is taken.
fn amounts_of(facts: &NodeFacts<'_>, part: &NodeAllocation) -> Vec<u64> {
    let node = facts.node;
    let mut amounts = vec![0; GRES_SLOT + node.gres.len()];
    let threads = facts.threads.max(1);
    let cores = part
        .cpu_ids
        .chunk_by(|a, b| a / threads == b / threads)
        .count();
    amounts[CPU_SLOT] = (cores as u64 * u64::from(threads)).min(u64::from(node.cpu_count()));
    amounts[MEMORY_SLOT] = part.memory.0;
    for given in &part.gres {
        if shares_gpus(&given.name) {
            add_units(node, given, &mut amounts);
        } else if given.name == "gpu" {
            add_gpu_units(node, given, &mut amounts);
        }
        if given.indices.is_empty() || shares_gpus(&given.name) {
            let entry = node
                .gres
                .iter()
                .position(|g| g.name == given.name && g.type_name == given.type_name);
            if let Some(entry) = entry {
                amounts[GRES_SLOT + entry] += given.count;
            }
        } else {
            for (entry, _) in devices_of(node, given) {
                amounts[GRES_SLOT + entry] += 1;
            }
        }
    }
    amounts
}

/// Units of a shared GPU take the GPU too. (Two jobs that share it count it twice: an estimate that is on the safe side now.)
fn add_units(node: &Node, given: &sluice_model::job::GresAllocation, amounts: &mut [u64]) {
    for (entry, gres) in node.gres.iter().enumerate() {
        let inside = |gpu: &&u32| {
            **gpu >= gres.first_index && ((**gpu - gres.first_index) as usize) < gres.used.len()
        };
        if gres.name == "gpu" {
            amounts[GRES_SLOT + entry] += given.indices.iter().filter(inside).count() as u64;
        }
    }
}

/// A GPU takes its units too.
fn add_gpu_units(node: &Node, given: &sluice_model::job::GresAllocation, amounts: &mut [u64]) {
    for (entry, gres) in node.gres.iter().enumerate() {
        if !shares_gpus(&gres.name) {
            continue;
        }
        if let Some((per_gpu, in_it)) = shared_gres::layout(node, entry) {
            let shared = |gpu: &&u32| in_it.get(**gpu as usize) == Some(&true);
            amounts[GRES_SLOT + entry] +=
                given.indices.iter().filter(shared).count() as u64 * per_gpu;
        }
    }
}

/// The part of an allocation is still held.
#[must_use]
pub fn is_held(part: &NodeAllocation) -> bool {
    part.phase != NodePhase::Released
}
