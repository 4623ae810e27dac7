//! The live state of the cluster: everything the scheduler knows, in persistent maps that clone in constant time.
//!
//! A clone of [`Cluster`] is the published snapshot that readers and planner use; the one writer goes on with the original.
//! Pure data: nothing here decides. It changes only in [`crate::event::apply`]. Invariant: checkpoint + replay of events gives
//! an equal `Cluster` (fields marked volatile are left out of both).

pub mod allocation;
pub mod blob;
pub mod counters;
pub mod crontab;
pub mod job;
pub mod node;
pub mod partition;
pub mod reservation;
pub mod trigger;

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet, Vector};
use serde::{Deserialize, Serialize};
use sluice_config::ClusterConfig;
use sluice_model::ids::JobId;
use sluice_model::node::NodeLoad;
use sluice_model::time::UnixSeconds;

pub use allocation::{Allocation, NodeAllocation, NodePhase};
pub use blob::{Blob, BlobId};
pub use counters::JobCounters;
pub use crontab::Crontab;
pub use job::{
    ArrayMembership, DependencyState, DependencyStatus, HetMembership, Job, RunReservation, Step,
    StepNodeState, dependency_target,
};
pub use node::{AfterReboot, GresState, Node, NodeManual, NodeReboot};
pub use partition::Partition;
pub use reservation::{AccessList, Reservation, ReservedNode};
pub use trigger::Trigger;

use crate::plan::PlanNote;
use crate::policy::Policy;
use crate::priority::usage::UsageState;
use crate::priority::{Priorities, Scale};

/// Position of a node in [`Cluster::nodes`]. Stable until the configuration changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeIndex(pub u32);

impl NodeIndex {
    /// Of a node that the cluster no longer has: no position.
    pub const GONE: Self = Self(u32::MAX);

    /// As an index into vectors.
    #[must_use]
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// The state of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Configuration in force.
    pub config: Arc<ClusterConfig>,
    /// Number of the configuration; grows with every load.
    pub config_version: u64,
    /// When the state was made (first start, or `-c`).
    pub created: UnixSeconds,
    /// Every job record in memory, finished ones until MinJobAge.
    pub jobs: OrdMap<JobId, Arc<Job>>,
    /// Ids of jobs that are PENDING (also held, dependent, or completing a former run).
    pub pending: OrdSet<JobId>,
    /// Ids of jobs that hold an allocation: running, suspended or completing.
    pub holding: OrdSet<JobId>,
    /// Finished jobs by end time, oldest first: what MinJobAge purges.
    pub finished: OrdSet<(UnixSeconds, JobId)>,
    /// Members of each array: array job id → record ids (the master's own id included while it exists).
    pub arrays: OrdMap<JobId, OrdSet<JobId>>,
    /// Target (array) job id → jobs that depend on it.
    pub dependents: OrdMap<JobId, OrdSet<JobId>>,
    /// (uid, job name) → jobs not finished, for singleton dependencies.
    pub by_name: OrdMap<(u32, String), OrdSet<JobId>>,
    /// Jobs by submission key, for retried submissions.
    pub submissions: OrdMap<String, JobId>,
    /// Scripts and environments, interned.
    pub blobs: OrdMap<BlobId, Arc<Blob>>,
    /// Nodes in configuration order.
    pub nodes: Vector<Arc<Node>>,
    /// Node name → position.
    pub node_index: Arc<BTreeMap<String, NodeIndex>>,
    /// Partitions in configuration order.
    pub partitions: Vector<Arc<Partition>>,
    /// Next job id to give.
    pub next_job_id: JobId,
    /// Triggers by number.
    #[serde(default)]
    pub triggers: OrdMap<u32, Arc<Trigger>>,
    /// Highest number a trigger was given.
    #[serde(default)]
    pub last_trigger_id: u32,
    /// Crontabs by uid.
    #[serde(default)]
    pub crontabs: OrdMap<u32, Arc<Crontab>>,
    /// Associations, QOS and users, as accounting last told.
    #[serde(default)]
    pub policy: Arc<Policy>,
    /// What associations and QOS have used.
    #[serde(default)]
    pub usage: UsageState,
    /// Priorities of jobs.
    #[serde(default)]
    pub priorities: Priorities,
    /// Volatile: what jobs are measured by.
    #[serde(skip)]
    pub scale: Scale,
    /// Reservations by number.
    #[serde(default)]
    pub reservations: OrdMap<u32, Arc<Reservation>>,
    /// Highest number a reservation was given.
    #[serde(default)]
    pub last_reservation_id: u32,
    /// Volatile: what the last pass found about pending jobs.
    #[serde(skip)]
    pub plan_notes: OrdMap<JobId, PlanNote>,
    /// Volatile: nodes planned for waiting jobs by the last pass.
    #[serde(skip)]
    pub planned_nodes: OrdSet<String>,
    /// Volatile: load figures of the nodes.
    #[serde(skip)]
    pub loads: OrdMap<NodeIndex, NodeLoad>,
    /// Volatile: when each node's agent last spoke.
    #[serde(skip)]
    pub last_heard: OrdMap<NodeIndex, UnixSeconds>,
    /// Volatile: nodes whose agent is connected at the moment.
    #[serde(skip)]
    pub connected: OrdSet<NodeIndex>,
    /// Volatile: what happened to jobs since the start, for `sdiag`.
    #[serde(skip)]
    pub job_counters: JobCounters,
}

impl Cluster {
    /// An empty cluster with a configuration; its nodes are UNKNOWN until their agents register.
    #[must_use]
    pub fn new(config: Arc<ClusterConfig>, now: UnixSeconds) -> Self {
        let next_job_id = JobId(config.jobs.first_job_id.max(1));
        let mut cluster = Self {
            config: Arc::clone(&config),
            config_version: 0,
            created: now,
            jobs: OrdMap::new(),
            pending: OrdSet::new(),
            holding: OrdSet::new(),
            finished: OrdSet::new(),
            arrays: OrdMap::new(),
            dependents: OrdMap::new(),
            by_name: OrdMap::new(),
            submissions: OrdMap::new(),
            blobs: OrdMap::new(),
            nodes: Vector::new(),
            node_index: Arc::new(BTreeMap::new()),
            partitions: Vector::new(),
            next_job_id,
            triggers: OrdMap::new(),
            last_trigger_id: 0,
            crontabs: OrdMap::new(),
            policy: Arc::default(),
            usage: UsageState::default(),
            priorities: Priorities::default(),
            scale: Scale::default(),
            reservations: OrdMap::new(),
            last_reservation_id: 0,
            plan_notes: OrdMap::new(),
            planned_nodes: OrdSet::new(),
            loads: OrdMap::new(),
            last_heard: OrdMap::new(),
            connected: OrdSet::new(),
            job_counters: JobCounters::default(),
        };
        crate::event::config::install(&mut cluster, config, now);
        cluster
    }

    /// A job by id.
    #[must_use]
    pub fn job(&self, id: JobId) -> Option<&Arc<Job>> {
        self.jobs.get(&id)
    }

    /// A node by name.
    #[must_use]
    pub fn node_named(&self, name: &str) -> Option<(NodeIndex, &Arc<Node>)> {
        let index = *self.node_index.get(name)?;
        Some((index, self.nodes.get(index.at())?))
    }

    /// A node by position.
    #[must_use]
    pub fn node(&self, index: NodeIndex) -> Option<&Arc<Node>> {
        self.nodes.get(index.at())
    }

    /// A partition by name.
    #[must_use]
    pub fn partition(&self, name: &str) -> Option<&Arc<Partition>> {
        self.partitions.iter().find(|p| p.config.name == name)
    }

    /// The default partition.
    #[must_use]
    pub fn default_partition(&self) -> Option<&Arc<Partition>> {
        self.partitions.iter().find(|p| p.config.default)
    }

    /// The last pass planned this node for a job that waits for resources.
    #[must_use]
    pub fn is_planned(&self, node: &str) -> bool {
        self.planned_nodes.contains(node)
    }

    /// Record ids that belong to an array, or the job alone.
    #[must_use]
    pub fn array_members(&self, id: JobId) -> Vec<JobId> {
        match self.arrays.get(&id) {
            Some(members) => members.iter().copied().collect(),
            None => self
                .jobs
                .contains_key(&id)
                .then_some(id)
                .into_iter()
                .collect(),
        }
    }
}
