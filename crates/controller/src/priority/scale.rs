//! What the parts of a job are measured by: size of the cluster and of each partition. Follows from the configuration alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_model::time::TimeLimit;
use sluice_model::tres::TresKind;

use crate::cluster::{Cluster, Node, Partition};

/// Sizes of one partition.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionScale {
    /// How much there is of each weighted TRES, in the order of PriorityWeightTRES.
    pub tres: Vec<f64>,
    /// PriorityJobFactor.
    pub job_factor: u16,
    /// MaxTime.
    pub max_time: TimeLimit,
    /// MaxNodes.
    pub max_nodes: Option<u32>,
}

/// Sizes of cluster and partitions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sizes {
    /// Nodes of the cluster.
    pub nodes: f64,
    /// CPUs of the cluster.
    pub cpus: f64,
    /// Highest PriorityJobFactor, at least 1.
    pub top_job_factor: f64,
    /// By name.
    pub partitions: BTreeMap<String, PartitionScale>,
}

/// [`Sizes`], worked out when they are first needed after a change of the configuration. Volatile: two of them are always equal.
#[derive(Debug, Clone, Default)]
pub struct Scale(Option<Arc<Sizes>>);

impl PartialEq for Scale {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Scale {
    /// The sizes, kept in the cluster for the next time.
    pub fn kept(cluster: &mut Cluster) -> Arc<Sizes> {
        if let Some(sizes) = &cluster.scale.0 {
            return Arc::clone(sizes);
        }
        let sizes = Arc::new(Sizes::of(cluster));
        cluster.scale = Self(Some(Arc::clone(&sizes)));
        sizes
    }

    /// The sizes of a snapshot.
    #[must_use]
    pub fn read(cluster: &Cluster) -> Arc<Sizes> {
        match &cluster.scale.0 {
            Some(sizes) => Arc::clone(sizes),
            None => Arc::new(Sizes::of(cluster)),
        }
    }
}

impl Sizes {
    fn of(cluster: &Cluster) -> Self {
        let configured = || cluster.nodes.iter().filter(|node| node.configured);
        let factors = cluster
            .partitions
            .iter()
            .map(|partition| partition.config.priority_job_factor);
        Self {
            nodes: configured().count() as f64,
            cpus: configured().map(|node| f64::from(node.config.cpus)).sum(),
            top_job_factor: f64::from(factors.max().unwrap_or(1).max(1)),
            partitions: cluster
                .partitions
                .iter()
                .map(|partition| {
                    let scale = PartitionScale {
                        tres: cluster
                            .config
                            .priority
                            .weight_tres
                            .iter()
                            .map(|(kind, _)| total(cluster, partition, kind))
                            .collect(),
                        job_factor: partition.config.priority_job_factor,
                        max_time: partition.config.max_time,
                        max_nodes: partition.config.max_nodes,
                    };
                    (partition.config.name.clone(), scale)
                })
                .collect(),
        }
    }
}

fn total(cluster: &Cluster, partition: &Partition, kind: &TresKind) -> f64 {
    if let TresKind::License(name) = kind {
        let found = cluster.config.licenses.iter().find(|one| one.name == *name);
        return found.map_or(0.0, |one| f64::from(one.count));
    }
    partition
        .nodes
        .iter()
        .filter_map(|index| cluster.node(*index))
        .map(|node| amount(node, kind))
        .sum()
}

fn amount(node: &Node, kind: &TresKind) -> f64 {
    match kind {
        TresKind::Cpu | TresKind::Billing => f64::from(node.config.cpus),
        TresKind::Mem => node.config.real_memory.0 as f64,
        TresKind::Node => 1.0,
        TresKind::Gres(name) => {
            let (name, type_name) = match name.split_once(':') {
                Some((name, type_name)) => (name, Some(type_name)),
                None => (name.as_str(), None),
            };
            let fits = node.gres.iter().filter(|gres| {
                gres.name == name
                    && type_name.is_none_or(|wanted| gres.type_name.as_deref() == Some(wanted))
            });
            fits.map(|gres| gres.count as f64).sum()
        }
        _ => 0.0,
    }
}
