//! What `sprio`, `sshare` and `scontrol show assoc_mgr` show: factors of jobs, shares and usage. Made from a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_model::accounting::{AssociationRecord, QosRecord};
use sluice_model::state::JobState;
use sluice_model::time::UnixSeconds;

use super::calculate::{factors_of, partitions, tres_factors};
use super::factors::{Factors, TresFactor, Weights};
use super::fairshare::Standing;
use super::scale::{Scale, Sizes};
use super::usage::Usage;
use super::{accrue_time, weights};
use crate::cluster::{Cluster, Job};
use crate::policy::in_use::{InUse, fold};

/// A job's factors in one of its partitions.
#[derive(Debug, Clone, PartialEq)]
pub struct FactorRow {
    /// Partition.
    pub partition: String,
    /// The priority was set by hand: factors do not count.
    pub direct: Option<u32>,
    /// Factors as of the last calculation.
    pub factors: Factors,
    /// Weighted TRES.
    pub tres: Vec<TresFactor>,
    /// The sum, or what was set by hand; neither cut nor bounded.
    pub sum: f64,
}

/// Reads factors out of a snapshot.
pub struct FactorReader<'a> {
    cluster: &'a Cluster,
    sizes: Arc<Sizes>,
    weights: Weights,
}

impl<'a> FactorReader<'a> {
    /// A reader of this snapshot.
    #[must_use]
    pub fn new(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            sizes: Scale::read(cluster),
            weights: weights(&cluster.config),
        }
    }

    /// The weights in force.
    #[must_use]
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The job has factors to show: it may run and is not held. With CALCULATE_RUNNING those that run and have ended are shown
    /// too.
    #[must_use]
    pub fn shows(&self, job: &Job, now: UnixSeconds) -> bool {
        let kept = self.cluster.config.priority.flags.calculate_running;
        let state = kept || job.state.base == JobState::Pending;
        state && job.priority > 0 && accrue_time(self.cluster, job).is_some_and(|from| from <= now)
    }

    /// One row for each partition of the job.
    #[must_use]
    pub fn rows(&self, job: &Job) -> Vec<FactorRow> {
        let kept = self.cluster.priorities.jobs.get(&job.id);
        partitions(job)
            .into_iter()
            .enumerate()
            .map(|(nth, partition)| {
                let direct = job.priority_is_direct.then_some(job.priority);
                let (factors, tres) = match (kept, direct) {
                    (Some(kept), None) => (
                        factors_of(
                            self.cluster,
                            &self.sizes,
                            &self.weights,
                            job,
                            partition,
                            kept,
                            &kept.rank(nth),
                        ),
                        tres_factors(self.cluster, &self.sizes, job, partition),
                    ),
                    _ => (Factors::default(), Vec::new()),
                };
                let sum = match direct {
                    Some(priority) => f64::from(priority),
                    None => factors.sum(&self.weights).max(1.0),
                };
                FactorRow {
                    partition: partition.to_owned(),
                    direct,
                    factors,
                    tres,
                    sum,
                }
            })
            .collect()
    }
}

/// An association with its shares, what it has used and what its jobs use now.
#[derive(Debug, Clone)]
pub struct ShareRow {
    /// The record.
    pub record: Arc<AssociationRecord>,
    /// Shares of its level added up.
    pub level_shares: u64,
    /// Shares and factor.
    pub standing: Standing,
    /// Usage.
    pub usage: Usage,
    /// What its jobs use now.
    pub in_use: InUse,
}

/// A QOS with what it has used and what its jobs use now.
#[derive(Debug, Clone)]
pub struct QosRow {
    /// The record.
    pub record: Arc<QosRecord>,
    /// Usage.
    pub usage: Usage,
    /// What its jobs use now.
    pub in_use: InUse,
    /// The same by account.
    pub accounts: BTreeMap<String, InUse>,
    /// The same by user.
    pub users: BTreeMap<String, InUse>,
}

/// Everything about shares and usage.
#[derive(Debug, Clone)]
pub struct Shares {
    /// Associations: an account, its users, then the accounts below it.
    pub associations: Vec<ShareRow>,
    /// QOS by id.
    pub qos: Vec<QosRow>,
}

/// Shares and usage of all associations and QOS.
#[must_use]
pub fn shares(cluster: &Cluster, now: UnixSeconds) -> Shares {
    let mut uses = fold(cluster, now);
    let policy = &cluster.policy;
    let tree = policy.tree();
    let associations = in_tree_order(cluster)
        .into_iter()
        .filter_map(|id| {
            let record = Arc::clone(policy.association(id)?);
            let above = tree.branch(id).and_then(|branch| branch.share_parent);
            Some(ShareRow {
                record,
                level_shares: above.map_or(1, |above| tree.level_shares(above)),
                standing: cluster
                    .usage
                    .standings
                    .get(&id)
                    .copied()
                    .unwrap_or_default(),
                usage: cluster
                    .usage
                    .associations
                    .get(&id)
                    .cloned()
                    .unwrap_or_default(),
                in_use: uses.associations.remove(&id).unwrap_or_default(),
            })
        })
        .collect();
    let qos = policy
        .records()
        .qos
        .iter()
        .map(|(id, record)| {
            let part = |uses: &BTreeMap<(u32, String), InUse>| {
                uses.range((*id, String::new())..)
                    .take_while(|((qos, _), _)| qos == id)
                    .map(|((_, name), one)| (name.clone(), one.clone()))
                    .collect()
            };
            QosRow {
                record: Arc::clone(record),
                usage: cluster.usage.qos.get(id).cloned().unwrap_or_default(),
                in_use: uses.qos.get(id).cloned().unwrap_or_default(),
                accounts: part(&uses.qos_accounts),
                users: part(&uses.qos_users),
            }
        })
        .collect();
    Shares { associations, qos }
}

/// An account, its users, then the accounts below it, each by name.
fn in_tree_order(cluster: &Cluster) -> Vec<u32> {
    let policy = &cluster.policy;
    let tree = policy.tree();
    let mut below: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (id, branch) in tree.branches() {
        if let Some(parent) = branch.parent {
            below.entry(parent).or_default().push(id);
        }
    }
    for ids in below.values_mut() {
        ids.sort_by_cached_key(|id| {
            policy.association(*id).map(|record| {
                (
                    record.user.is_empty(),
                    record.user.clone(),
                    record.account.clone(),
                    record.partition.clone(),
                )
            })
        });
    }
    let mut order = Vec::new();
    let mut open: Vec<u32> = tree.root().into_iter().collect();
    while let Some(id) = open.pop() {
        order.push(id);
        if let Some(ids) = below.get(&id) {
            open.extend(ids.iter().rev());
        }
    }
    order
}
