//! GRES that share GPUs (`shard`, `mps`): each GPU is as many units, and serves either jobs that have it or jobs that share it.
//!
//! Units are spread evenly over the GPUs, or over those whose files the line of gres.conf names. A job's units on a node are all of
//! one GPU. Invariant: units of a GPU that a job has are not to be had, and a GPU of which units are used is nobody's own.
//! Source: `gres.conf(5)` (Count of shard and mps), page `gres`.

use sluice_model::gres::shares_gpus;

use crate::cluster::{Cluster, Node};

/// One GRES entry of a node that shares GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedUnits {
    /// Entry of the node's GRES.
    pub entry: usize,
    /// Units of each GPU.
    pub per_gpu: u64,
    /// GPU by index on the node → units that are to be had; `None` = not shared.
    pub free: Vec<Option<u64>>,
}

/// Units of each GPU, and which GPUs, of an entry that shares them. `None` = the entry is only counted.
#[must_use]
pub fn layout(node: &Node, entry: usize) -> Option<(u64, Vec<bool>)> {
    let shared = node
        .gres
        .get(entry)
        .filter(|gres| shares_gpus(&gres.name))?;
    let gpus: usize = node
        .gres
        .iter()
        .filter(|gres| gres.name == "gpu")
        .map(|gres| gres.used.len())
        .sum();
    let files = &node.config.gres.get(entry)?.files;
    let mut in_it = vec![files.is_empty(); gpus];
    if !files.is_empty() {
        let all = node
            .config
            .gres
            .iter()
            .filter(|gres| gres.name == "gpu")
            .flat_map(|gres| &gres.files);
        for (in_it, file) in in_it.iter_mut().zip(all) {
            *in_it = files.contains(file);
        }
    }
    let many = in_it.iter().filter(|in_it| **in_it).count() as u64;
    let per_gpu = shared.count.checked_div(many)?;
    (per_gpu > 0).then_some((per_gpu, in_it))
}

/// What is to be had of the entries of a node that share GPUs, by what its jobs hold.
#[must_use]
pub fn units(cluster: &Cluster, node: &Node) -> Vec<SharedUnits> {
    let mut all: Vec<SharedUnits> = (0..node.gres.len())
        .filter_map(|entry| {
            let (per_gpu, in_it) = layout(node, entry)?;
            let free = in_it
                .into_iter()
                .map(|in_it| in_it.then_some(per_gpu))
                .collect();
            Some(SharedUnits {
                entry,
                per_gpu,
                free,
            })
        })
        .collect();
    if all.is_empty() {
        return all;
    }
    for gpu in (0..)
        .zip(gpus_in_use(node))
        .filter_map(|(gpu, used)| used.then_some(gpu))
    {
        take_gpu(&mut all, gpu);
    }
    for id in &node.jobs {
        let allocation = cluster.jobs.get(id).and_then(|job| job.allocation.as_ref());
        let parts = allocation
            .iter()
            .flat_map(|a| &a.nodes)
            .filter(|part| part.name == node.config.name);
        for given in parts.flat_map(|part| &part.gres) {
            take_units(&mut all, node, &given.name, &given.indices, given.count);
        }
    }
    all
}

fn gpus_in_use(node: &Node) -> impl Iterator<Item = bool> {
    node.gres
        .iter()
        .filter(|gres| gres.name == "gpu")
        .flat_map(|gres| gres.used.iter().copied())
}

/// A job has the GPU.
pub fn take_gpu(all: &mut [SharedUnits], gpu: u32) {
    for shared in all {
        if let Some(Some(free)) = shared.free.get_mut(gpu as usize) {
            *free = 0;
        }
    }
}

/// A job has units of a GPU.
pub fn take_units(all: &mut [SharedUnits], node: &Node, name: &str, gpus: &[u32], count: u64) {
    let each = count / (gpus.len() as u64).max(1);
    for shared in all {
        let same = node.gres.get(shared.entry).is_some_and(|g| g.name == name);
        for gpu in gpus.iter().filter(|_| same) {
            if let Some(Some(free)) = shared.free.get_mut(*gpu as usize) {
                *free = free.saturating_sub(each);
            }
        }
    }
}

impl SharedUnits {
    /// Units to be had in all.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.free.iter().flatten().sum()
    }

    /// The GPU that gives so many units: the one with the fewest left, so that GPUs stay whole; or the one with the most.
    #[must_use]
    pub fn gpu_for(&self, count: u64, least_loaded: bool) -> Option<u32> {
        (0..)
            .zip(&self.free)
            .filter_map(|(gpu, free)| Some((gpu, (*free)?)))
            .filter(|(_, free)| *free >= count)
            .min_by_key(|(gpu, free)| (if least_loaded { u64::MAX - free } else { *free }, *gpu))
            .map(|(gpu, _)| gpu)
    }
}

/// GPUs of which units are used.
#[must_use]
pub fn shared_gpus(all: &[SharedUnits], node: &Node) -> Vec<bool> {
    gpus_in_use(node)
        .enumerate()
        .map(|(gpu, used)| {
            !used
                && all.iter().any(|shared| {
                    shared
                        .free
                        .get(gpu)
                        .is_some_and(|free| free.is_some_and(|free| free < shared.per_gpu))
                })
        })
        .collect()
}
