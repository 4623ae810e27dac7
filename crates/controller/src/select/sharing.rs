//! Who may be on a node beside whom: OverSubscribe of partitions, `--oversubscribe`, and nodes that serve one user or label at a
//! time.
//!
//! Three kinds of jobs: those with CPUs of their own, those that share CPUs in the pool of their partition, and those that take
//! whole nodes. CPUs are shared among at most so many jobs of one pool; a node never holds jobs with CPUs of their own and jobs of
//! a pool at a time, whatever the partitions. Memory and GRES are never shared. Invariant: what is counted here only grows in a
//! pass. Source: `slurm.conf(5)` (OverSubscribe, Exclusive), page `cons_tres_share`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_config::{Exclusive as PartitionExclusive, OverSubscribe};
use sluice_model::ids::JobId;
use sluice_model::job::Exclusive;

use super::inventory::{FreeView, NodeFacts};
use crate::cluster::{Allocation, Cluster, Job, Node};
use crate::plan::PlannedStart;

/// The pool of CPUs that jobs of a partition share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedPool {
    /// Partition.
    pub partition: String,
    /// Most jobs on each CPU.
    pub jobs: u32,
}

/// To whom a job belongs, for nodes that serve one at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// MCS label; empty = none.
    pub label: String,
}

impl Owner {
    /// The owner of a request.
    #[must_use]
    pub fn of(request: &sluice_model::job::JobDescription) -> Self {
        Self {
            uid: request.uid,
            label: request.extra.get("mcs-label").cloned().unwrap_or_default(),
        }
    }

    /// A job of this owner may be beside one of the other although one of them wants the node for its kind.
    #[must_use]
    pub fn agrees(&self, claim: Exclusive, other: &Self) -> bool {
        match claim {
            Exclusive::User => self.uid == other.uid,
            Exclusive::Mcs => self.label == other.label,
            Exclusive::Node | Exclusive::Topo => false,
        }
    }
}

/// Extra slots of a node, after those of its GRES: how many more jobs of each kind it could take if nothing else counted.
pub mod slot {
    /// Jobs with CPUs of their own, or with the whole node.
    pub const OWN: usize = 0;
    /// Jobs of a pool.
    pub const SHARED: usize = 1;
    /// Jobs in all.
    pub const JOBS: usize = 2;
    /// Jobs that want the node for one user or label.
    pub const CLAIMS: usize = 3;
    /// CPUs for jobs beyond those that are kept for the GPUs that they have (RestrictedCoresPerGPU).
    pub const OPEN: usize = 4;
    /// CPUs of the first pool, times the jobs that each takes.
    pub const POOLS: usize = 5;
    /// Amount of the first four on an empty node.
    pub const ROOM: u64 = 1 << 24;
}

/// CPUs of each node that all jobs of a partition together may have (MaxCPUsPerNode, MaxCPUsPerSocket).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuCap {
    /// Partition.
    pub partition: String,
    /// Of a node.
    pub per_node: Option<u32>,
    /// Of a socket.
    pub per_socket: Option<u32>,
}

impl CpuCap {
    /// CPUs of a node.
    #[must_use]
    pub fn of(&self, facts: &NodeFacts<'_>) -> u64 {
        let per_socket = self
            .per_socket
            .map(|cpus| u64::from(cpus) * u64::from(facts.sockets));
        self.per_node
            .map(u64::from)
            .unwrap_or(u64::MAX)
            .min(per_socket.unwrap_or(u64::MAX))
    }
}

/// What the extra slots are in a view; made only where somebody shares or claims nodes.
#[derive(Debug, Clone, Default)]
pub struct Extras {
    /// Pools, by partition.
    pub pools: Vec<SharedPool>,
    /// Bounds, by partition.
    pub caps: Vec<CpuCap>,
}

impl Extras {
    /// The extra slots that a cluster needs; `None` = none. `claims` = a job that waits wants nodes for its user or label.
    #[must_use]
    pub fn of(cluster: &Cluster, claims: bool) -> Option<Arc<Self>> {
        let (mut pools, mut caps) = (Vec::new(), Vec::new());
        let mut needed = claims;
        for partition in &cluster.partitions {
            let config = &partition.config;
            if let OverSubscribe::Yes(jobs) | OverSubscribe::Force(jobs) = config.oversubscribe {
                pools.push(SharedPool {
                    partition: config.name.clone(),
                    jobs: u32::from(jobs.max(1)),
                });
            }
            if config.max_cpus_per_node.is_some() || config.max_cpus_per_socket.is_some() {
                caps.push(CpuCap {
                    partition: config.name.clone(),
                    per_node: config.max_cpus_per_node,
                    per_socket: config.max_cpus_per_socket,
                });
            }
            needed |= matches!(
                config.exclusive,
                PartitionExclusive::User | PartitionExclusive::Topo
            );
        }
        needed |= !(pools.is_empty() && caps.is_empty());
        needed |= cluster
            .nodes
            .iter()
            .any(|node| super::policy::restricted_cpus_per_gpu(node) > 0);
        needed |= cluster.holding.iter().any(|id| {
            cluster
                .jobs
                .get(id)
                .and_then(|job| job.allocation.as_ref())
                .is_some_and(|a| a.shared_in.is_some() || a.claim.is_some())
        });
        needed.then(|| Arc::new(Self { pools, caps }))
    }

    /// Appends what a job of a partition takes with so many CPUs, of which `open` are not kept for its GPUs.
    pub fn append(
        &self,
        amounts: &mut Vec<u64>,
        (cpus, open): (u64, u64),
        pool: Option<&str>,
        claims: bool,
        partition: &str,
    ) {
        amounts.extend([
            u64::from(pool.is_none()),
            u64::from(pool.is_some()),
            1,
            u64::from(claims),
            open,
        ]);
        let of = |taken: bool| if taken { cpus } else { 0 };
        amounts.extend(
            self.pools
                .iter()
                .map(|p| of(pool == Some(p.partition.as_str()))),
        );
        amounts.extend(self.caps.iter().map(|cap| of(cap.partition == partition)));
    }

    /// Position of a partition's bound among the extra slots.
    #[must_use]
    pub fn cap(&self, partition: &str) -> Option<usize> {
        let at = self
            .caps
            .iter()
            .position(|cap| cap.partition == partition)?;
        Some(slot::POOLS + self.pools.len() + at)
    }

    /// Position of a partition's pool.
    #[must_use]
    pub fn pool(&self, partition: &str) -> Option<usize> {
        self.pools
            .iter()
            .position(|pool| pool.partition == partition)
    }
}

/// Jobs that cannot start as planned because a job that runs has their part of the network for itself, or because they want a part
/// in which somebody runs. Starts of one plan go together.
#[must_use]
pub fn shut_out(cluster: &Cluster, starts: &[PlannedStart]) -> BTreeSet<JobId> {
    let alone = |allocation: &Allocation| allocation.claim == Some(Exclusive::Topo);
    let held: Vec<&Job> = cluster
        .holding
        .iter()
        .filter_map(|id| cluster.jobs.get(id))
        .map(|job| &**job)
        .filter(|job| job.allocation.as_ref().is_some_and(|a| alone(a)))
        .collect();
    if held.is_empty() && !starts.iter().any(|start| alone(&start.allocation)) {
        return BTreeSet::new();
    }
    let view = FreeView::of(cluster);
    let closed: BTreeSet<usize> = held
        .iter()
        .filter_map(|job| Some((job.allocation.as_ref()?, &job.partition)))
        .flat_map(|(allocation, partition)| view.kept_empty(allocation, partition))
        .collect();
    let busy = |node: &usize| cluster.nodes.get(*node).is_some_and(|n| !n.jobs.is_empty());
    starts
        .iter()
        .filter(|start| {
            let allocation = &start.allocation;
            allocation
                .nodes
                .iter()
                .any(|part| closed.contains(&part.node.at()))
                || view
                    .kept_empty(allocation, &start.partition)
                    .iter()
                    .any(busy)
        })
        .map(|start| start.job)
        .collect()
}

/// Some job, or every job of some partition, wants its nodes for its user, its label or itself.
#[must_use]
pub fn somebody_claims(cluster: &Cluster) -> bool {
    let wants = |job: &Job| {
        let claim = job.allocation.as_ref().and_then(|a| a.claim);
        claim
            .or(job.request.exclusive)
            .is_some_and(|claim| claim != Exclusive::Node)
    };
    let by_partition = cluster.partitions.iter().any(|partition| {
        matches!(
            partition.config.exclusive,
            PartitionExclusive::User | PartitionExclusive::Topo
        )
    });
    by_partition
        || [&cluster.pending, &cluster.holding]
            .into_iter()
            .flatten()
            .any(|id| cluster.jobs.get(id).is_some_and(|job| wants(job)))
}

/// Jobs on each CPU of a node that share it in the pool of a partition.
#[must_use]
pub fn loads(cluster: &Cluster, node: &Node, partition: &str) -> Vec<u32> {
    let mut loads = vec![0; node.used_cpus.len()];
    for (_, allocation) in allocations_on(cluster, node) {
        if allocation.shared_in.as_deref() != Some(partition) {
            continue;
        }
        let part = allocation
            .nodes
            .iter()
            .find(|part| part.name == node.config.name);
        for cpu in part.into_iter().flat_map(|part| &part.cpu_ids) {
            if let Some(load) = loads.get_mut(*cpu as usize) {
                *load += 1;
            }
        }
    }
    loads
}

/// Jobs that hold something on a node, with what they hold.
fn allocations_on<'c>(
    cluster: &'c Cluster,
    node: &'c Node,
) -> impl Iterator<Item = (&'c Job, &'c Allocation)> {
    node.jobs.iter().filter_map(|id| {
        let job = cluster.jobs.get(id)?;
        Some((&**job, job.allocation.as_deref()?))
    })
}

/// Why a placement may not be on a node beside the jobs that are there; CPUs, memory and GRES of its own apart.
#[must_use]
pub fn conflict(
    cluster: &Cluster,
    node: &Node,
    cpu_ids: &[u32],
    allocation: &Allocation,
    owner: &Owner,
) -> Option<&'static str> {
    let mut jobs_there = 0;
    for (job, there) in allocations_on(cluster, node) {
        jobs_there += 1;
        if there.whole_nodes || allocation.whole_nodes {
            return Some("a job has the whole node");
        }
        if there.shared_in.is_some() != allocation.shared_in.is_some() {
            return Some("jobs that share CPUs and jobs that do not would be on it");
        }
        let other = Owner::of(&job.request);
        let parted = [there.claim, allocation.claim]
            .into_iter()
            .flatten()
            .any(|claim| !owner.agrees(claim, &other));
        if parted {
            return Some("it serves one user or label at a time");
        }
    }
    let pool = allocation.shared_in.as_deref()?;
    let most = jobs_per_cpu(cluster, pool);
    if cluster.config.scheduling.select.kind == sluice_config::SelectKind::Linear {
        return (jobs_there >= most).then_some("it has as many jobs as may share it");
    }
    let loads = loads(cluster, node, pool);
    let full = |cpu: &u32| loads.get(*cpu as usize).is_none_or(|load| *load >= most);
    cpu_ids
        .iter()
        .any(full)
        .then_some("a CPU has as many jobs as may share it")
}

/// Most jobs on a CPU of a partition's pool.
#[must_use]
pub fn jobs_per_cpu(cluster: &Cluster, partition: &str) -> u32 {
    match cluster.partition(partition).map(|p| p.config.oversubscribe) {
        Some(OverSubscribe::Yes(jobs) | OverSubscribe::Force(jobs)) => u32::from(jobs.max(1)),
        _ => 1,
    }
}

/// Who is on a node, at present or by what was planned in a pass.
#[derive(Debug, Clone, Default)]
pub struct Tenants {
    /// The first; all others agreed with it as far as `same_user` and `same_label` say.
    first: Option<Owner>,
    same_user: bool,
    same_label: bool,
    /// The claims of those on it, with their owner.
    claims: Vec<(Exclusive, Owner)>,
}

impl Tenants {
    /// One more.
    pub fn add(&mut self, owner: &Owner, claim: Option<Exclusive>) {
        match &self.first {
            None => {
                self.first = Some(owner.clone());
                (self.same_user, self.same_label) = (true, true);
            }
            Some(first) => {
                self.same_user &= first.uid == owner.uid;
                self.same_label &= first.label == owner.label;
            }
        }
        if let Some(claim) = claim {
            let entry = (claim, owner.clone());
            if !self.claims.contains(&entry) {
                self.claims.push(entry);
            }
        }
    }

    /// All on the node would agree with a job that wants it for its user or label.
    #[must_use]
    pub fn all_agree(&self, owner: &Owner, claim: Exclusive) -> bool {
        let same = match claim {
            Exclusive::User => self.same_user,
            Exclusive::Mcs => self.same_label,
            Exclusive::Node | Exclusive::Topo => false,
        };
        self.first
            .as_ref()
            .is_none_or(|first| same && first.agrees(claim, owner))
    }

    /// Nobody on the node who wants it for one user or label minds a job of this owner.
    #[must_use]
    pub fn nobody_minds(&self, owner: &Owner) -> bool {
        self.claims
            .iter()
            .all(|(claim, holder)| holder.agrees(*claim, owner))
    }
}

/// Jobs on each CPU, by node and pool; made when first asked for.
pub type PoolLoads = BTreeMap<(usize, usize), Vec<u32>>;
