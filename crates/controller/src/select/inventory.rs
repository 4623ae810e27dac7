//! The nodes as selection sees them: fixed facts, and what is free of each (amounts, and on demand which CPUs and devices).
//!
//! Amounts are vectors of *slots*: slot 0 is CPUs in whole free cores, slot 1 memory in MiB, slots 2… the entries of the
//! node's GRES. Invariant: `free <= total` in every slot; a taken allocation lowers both the amounts and the bitmaps.

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
        }
    }

    fn append_total(&self, out: &mut Vec<u64>) {
        out.push(u64::from(self.cpus));
        out.push(self.memory);
        out.extend(self.node.gres.iter().map(|gres| gres.count));
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
    offsets: Vec<u32>,
    free: Vec<u64>,
    total: Vec<u64>,
    bits: Vec<Option<NodeBits>>,
}

impl<'a> FreeView<'a> {
    /// What is free at present.
    #[must_use]
    pub fn of(cluster: &'a Cluster) -> Self {
        let mut view = Self {
            facts: Vec::with_capacity(cluster.nodes.len()),
            offsets: Vec::with_capacity(cluster.nodes.len() + 1),
            free: Vec::new(),
            total: Vec::new(),
            bits: vec![None; cluster.nodes.len()],
        };
        for (at, node) in cluster.nodes.iter().enumerate() {
            view.add(NodeIndex(at as u32), node);
        }
        view.offsets.push(view.free.len() as u32);
        view
    }

    fn add(&mut self, index: NodeIndex, node: &'a Node) {
        let facts = NodeFacts::of(index, node);
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
        facts.append_total(&mut self.total);
        self.facts.push(facts);
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
            let gres = facts
                .node
                .gres
                .iter()
                .map(|g| g.used.iter().map(|used| !used).collect())
                .collect();
            NodeBits { cpus, gres }
        })
    }

    /// Takes a placement out of what is free.
    pub fn take(&mut self, allocation: &Allocation) {
        for part in &allocation.nodes {
            let node = part.node.at();
            if node >= self.facts.len() {
                continue;
            }
            let amounts = amounts_of(self.facts[node].node, part);
            let bits = self.bits(node);
            for cpu in &part.cpu_ids {
                if let Some(free) = bits.cpus.get_mut(*cpu as usize) {
                    *free = false;
                }
            }
            for given in &part.gres {
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
        }
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

/// A part of an allocation in slots of its node.
#[must_use]
pub fn amounts_of(node: &Node, part: &NodeAllocation) -> Vec<u64> {
    let mut amounts = vec![0; GRES_SLOT + node.gres.len()];
    amounts[CPU_SLOT] = part.cpu_ids.len() as u64;
    amounts[MEMORY_SLOT] = part.memory.0;
    for given in &part.gres {
        if given.indices.is_empty() {
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

/// The part of an allocation is still held.
#[must_use]
pub fn is_held(part: &NodeAllocation) -> bool {
    part.phase != NodePhase::Released
}
