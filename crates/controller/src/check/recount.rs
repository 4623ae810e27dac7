//! The recount: what is in use on each node according to its jobs, against what the node says.
//!
//! Memory in MiB. Never changes anything.

use std::collections::{BTreeMap, BTreeSet};

use sluice_model::ids::JobId;

use super::{Taken, Violation, add_allocation};
use crate::cluster::{Cluster, NodePhase};
use crate::select::sharing::Owner;

/// Counts again what is in use on each node and compares with what the node says.
#[must_use]
pub fn recount(cluster: &Cluster) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut taken: BTreeMap<String, Taken> = BTreeMap::new();
    let mut jobs: BTreeMap<String, BTreeSet<JobId>> = BTreeMap::new();
    for id in &cluster.holding {
        let Some(job) = cluster.jobs.get(id) else {
            continue;
        };
        let Some(allocation) = &job.allocation else {
            continue;
        };
        add_allocation(
            cluster,
            &mut taken,
            (allocation, &Owner::of(&job.request)),
            &format!("running job {id}"),
            true,
            &mut violations,
        );
        for part in allocation
            .nodes
            .iter()
            .filter(|part| part.phase != NodePhase::Released)
        {
            jobs.entry(part.name.clone()).or_default().insert(*id);
        }
    }
    for node in &cluster.nodes {
        let name = &node.config.name;
        let nothing = Taken::default();
        let counted = taken.get(name).unwrap_or(&nothing);
        let mut compare = |what: &str, counted: String, said: String| {
            if counted != said {
                violations.push(Violation::Count {
                    node: name.clone(),
                    what: what.to_owned(),
                    counted,
                    said,
                });
            }
        };
        let in_use: BTreeSet<u32> = (0..)
            .zip(&node.used_cpus)
            .filter(|(_, used)| **used)
            .map(|(id, _)| id)
            .collect();
        compare("CPUs", format!("{:?}", counted.cpus), format!("{in_use:?}"));
        compare(
            "memory",
            counted.memory.to_string(),
            node.used_memory.0.to_string(),
        );
        let listed: BTreeSet<JobId> = node.jobs.iter().copied().collect();
        compare(
            "jobs",
            format!("{:?}", jobs.get(name).cloned().unwrap_or_default()),
            format!("{listed:?}"),
        );
        for gres in &node.gres {
            let range = gres.first_index..gres.first_index + gres.used.len() as u32;
            let counted: Vec<u32> = range
                .clone()
                .filter(|index| counted.devices.contains(&(gres.name.clone(), *index)))
                .collect();
            let said: Vec<u32> = range
                .zip(&gres.used)
                .filter(|(_, used)| **used)
                .map(|(index, _)| index)
                .collect();
            compare(&gres.name, format!("{counted:?}"), format!("{said:?}"));
        }
    }
    violations
}
