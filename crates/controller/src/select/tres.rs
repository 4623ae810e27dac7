//! Trackable resources of jobs: asked for, given, and the billing figure.
//!
//! Pure arithmetic; memory in MiB. Billing is summed as floating point and cut to a whole number once. Source: pages `tres`
//! and `priority_multifactor`, `slurm.conf(5)` (TRESBillingWeights).

use sluice_model::gres::GresRequest;
use sluice_model::tres::{Tres, TresKind};

use super::policy;
use super::request::{MemoryRequest, ResourceRequest};
use crate::cluster::{Allocation, Cluster, Partition};

/// ReqTRES of a pending job in a partition.
#[must_use]
pub fn req_tres(cluster: &Cluster, request: &ResourceRequest, partition: &Partition) -> Tres {
    let nodes = u64::from(request.min_nodes);
    let cpus = u64::from(request.num_cpus());
    let memory = match request.memory {
        MemoryRequest::WholeNode => largest_memory(cluster, partition).saturating_mul(nodes),
        MemoryRequest::PerNode(m) => m.saturating_mul(nodes),
        MemoryRequest::PerCpu(m) => m.saturating_mul(cpus),
        MemoryRequest::PerGpu(m) => m.saturating_mul(request.num_gpus()),
    };
    let mut tres = Tres::new();
    tres.set(TresKind::Cpu, cpus);
    tres.set(TresKind::Mem, memory);
    tres.set(TresKind::Node, nodes);
    for gres in &request.gres_per_node {
        add_gres(&mut tres, gres, nodes);
    }
    for gres in &request.gres_per_job {
        add_gres(&mut tres, gres, 1);
    }
    for gres in &request.gres_per_task {
        add_gres(&mut tres, gres, u64::from(request.tasks));
    }
    bill(cluster, partition, &mut tres);
    tres
}

/// AllocTRES of a job that holds `allocation` in a partition.
#[must_use]
pub fn alloc_tres(cluster: &Cluster, partition: &str, allocation: &Allocation) -> Tres {
    let mut tres = Tres::new();
    tres.set(TresKind::Cpu, u64::from(allocation.cpu_count()));
    tres.set(
        TresKind::Mem,
        allocation.nodes.iter().map(|part| part.memory.0).sum(),
    );
    tres.set(TresKind::Node, allocation.nodes.len() as u64);
    for given in allocation.nodes.iter().flat_map(|part| &part.gres) {
        let request = GresRequest {
            name: given.name.clone(),
            type_name: given.type_name.clone(),
            count: given.count,
        };
        add_gres(&mut tres, &request, 1);
    }
    match cluster.partition(partition) {
        Some(partition) => bill(cluster, partition, &mut tres),
        None => tres.set(TresKind::Billing, tres.get(&TresKind::Cpu)),
    }
    tres
}

/// A typed resource counts under its name too.
fn add_gres(tres: &mut Tres, gres: &GresRequest, times: u64) {
    let count = gres.count.saturating_mul(times);
    tres.add_to(TresKind::gres(&gres.name, None), count);
    if let Some(type_name) = &gres.type_name {
        tres.add_to(TresKind::gres(&gres.name, Some(type_name)), count);
    }
}

fn largest_memory(cluster: &Cluster, partition: &Partition) -> u64 {
    partition
        .nodes
        .iter()
        .filter_map(|index| cluster.node(*index))
        .map(|node| policy::memory_for_jobs(node))
        .max()
        .unwrap_or(0)
}

fn bill(cluster: &Cluster, partition: &Partition, tres: &mut Tres) {
    let flags = &cluster.config.priority.flags;
    let billing = billing(
        tres,
        &partition.config.tres_billing_weights,
        flags.max_tres,
        flags.max_tres_gres,
    );
    tres.set(TresKind::Billing, billing);
}

/// The billing figure for some resources under a partition's weights, as it is shown: cut to a whole number.
#[must_use]
pub fn billing(
    tres: &Tres,
    weights: &[(TresKind, f64)],
    max_tres: bool,
    max_tres_gres: bool,
) -> u64 {
    billing_units(tres, weights, max_tres, max_tres_gres) as u64
}

/// The billing figure as usage counts it: not cut. Without weights it is the number of CPUs.
#[must_use]
pub fn billing_units(
    tres: &Tres,
    weights: &[(TresKind, f64)],
    max_tres: bool,
    max_tres_gres: bool,
) -> f64 {
    if weights.is_empty() {
        return tres.get(&TresKind::Cpu) as f64;
    }
    let (mut highest, mut sum) = (0.0_f64, 0.0_f64);
    for (kind, weight) in weights {
        let amount = tres.get(kind) as f64 * weight;
        let is_gres = matches!(kind, TresKind::Gres(_));
        let node_bound = is_gres || matches!(kind, TresKind::Cpu | TresKind::Mem | TresKind::Node);
        let by_maximum = if max_tres_gres {
            node_bound && !is_gres
        } else {
            max_tres && node_bound
        };
        if by_maximum {
            highest = highest.max(amount);
        } else {
            sum += amount;
        }
    }
    highest + sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked examples of the priority reference: CPU=1.0, Mem=0.25G, GRES/gpu=2.0.
    #[test]
    fn billing_of_the_manual() {
        let weights = [
            (TresKind::Cpu, 1.0),
            (TresKind::Mem, 0.25 / 1024.0),
            (TresKind::gres("gpu", None), 2.0),
        ];
        let one: Tres = "cpu=1,mem=8G,node=1".parse().expect("parses");
        // 1 + 8 × 0.25 = 3; highest of 1 and 2; the same without GRES.
        assert_eq!(billing(&one, &weights, false, false), 3);
        assert_eq!(billing(&one, &weights, true, false), 2);
        assert_eq!(billing(&one, &weights, false, true), 2);
        let gpus: Tres = "cpu=4,mem=2G,node=1,gres/gpu=3".parse().expect("parses");
        // 4 + 0.5 + 6 = 10.5 → 10; highest of 4, 0.5, 6; 6 + highest of 4 and 0.5.
        assert_eq!(billing(&gpus, &weights, false, false), 10);
        assert_eq!(billing(&gpus, &weights, true, false), 6);
        assert_eq!(billing(&gpus, &weights, false, true), 10);
        assert_eq!(billing(&gpus, &[], false, false), 4);
    }

    /// The table of the priority reference, section 6: sum, MAX_TRES, MAX_TRES_GRES. Usage counts what is not cut.
    #[test]
    fn billing_of_the_reference() {
        let weights = [
            (TresKind::Cpu, 1.0),
            (TresKind::Mem, 0.25 / 1024.0),
            (TresKind::gres("gpu", None), 2.0),
            (TresKind::License("licA".to_owned()), 1.5),
        ];
        for (tres, sum, most, most_with_gres) in [
            ("cpu=1,mem=8G", 3.0, 2.0, 2.0),
            ("cpu=1,mem=8G,license/licA=1", 4.5, 3.5, 3.5),
            ("cpu=1,mem=8G,gres/gpu=1", 5.0, 2.0, 4.0),
            ("cpu=16,mem=60G", 31.0, 16.0, 16.0),
        ] {
            let tres: Tres = tres.parse().expect("parses");
            assert_eq!(billing_units(&tres, &weights, false, false), sum);
            assert_eq!(billing_units(&tres, &weights, true, false), most);
            assert_eq!(billing_units(&tres, &weights, false, true), most_with_gres);
            assert_eq!(billing(&tres, &weights, false, false), sum as u64);
        }
    }
}
