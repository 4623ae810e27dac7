//! Which cores of a node are reserved when only some are: spread over the sockets, as a core reservation of Slurm is.
//!
//! CPU ids are abstract, block numbering. Invariant: whole cores only, ascending.

use crate::cluster::Node;
use crate::select::policy::node_shape;

/// The CPU ids of `count` cores of a node, chosen from those for which `free` holds: socket by socket in turn, or the lowest
/// (`first_cores`). `None` = there are not so many.
#[must_use]
pub fn choose(
    node: &Node,
    count: u32,
    first_cores: bool,
    free: impl Fn(u32) -> bool,
) -> Option<Vec<u32>> {
    let shape = node_shape(node);
    let threads = shape.threads.max(1);
    let per_socket = shape.cores.max(1);
    let cores = node.cpu_count() / threads;
    let is_free = |core: &u32| (core * threads..(core + 1) * threads).all(&free);
    let mut order: Vec<u32> = (0..cores).filter(is_free).collect();
    if !first_cores {
        let mut seen = vec![0_u32; (cores / per_socket + 1) as usize];
        let mut ranked: Vec<(u32, u32)> = order
            .iter()
            .map(|core| {
                let taken = &mut seen[(core / per_socket) as usize];
                *taken += 1;
                (*taken, *core)
            })
            .collect();
        ranked.sort_unstable();
        order = ranked.into_iter().map(|(_, core)| core).collect();
    }
    if order.len() < count as usize {
        return None;
    }
    order.truncate(count as usize);
    order.sort_unstable();
    Some(
        order
            .iter()
            .flat_map(|core| core * threads..(core + 1) * threads)
            .collect(),
    )
}

/// Cores of a whole node that jobs may have.
#[must_use]
pub fn of_node(node: &Node) -> u32 {
    node.cpu_count() / node_shape(node).threads.max(1)
}

/// Core ids of CPU ids as text: `0-1,32-33`.
#[must_use]
pub fn text(node: &Node, cpus: &[u32]) -> String {
    let threads = node_shape(node).threads.max(1);
    let mut cores: Vec<u32> = cpus.iter().map(|cpu| cpu / threads).collect();
    cores.dedup();
    cores
        .chunk_by(|a, b| *a + 1 == *b)
        .map(|run| match (run.first(), run.last()) {
            (Some(first), Some(last)) if first != last => format!("{first}-{last}"),
            (Some(first), _) => first.to_string(),
            _ => String::new(),
        })
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::scenario::cluster_of;

    /// Four cores of a node with two sockets of 32, as a real Slurm reserved them: 0-1,32-33.
    #[test]
    fn cores_are_spread_over_the_sockets() {
        let cluster = cluster_of("nodes n1 cpus=64 sockets=2 cores=32 threads=1");
        let node = &cluster.nodes[0];
        let cpus = choose(node, 4, false, |_| true).expect("there are 64");
        assert_eq!(text(node, &cpus), "0-1,32-33");
        let first = choose(node, 4, true, |cpu| cpu != 2).expect("there are 63");
        assert_eq!(text(node, &first), "0-1,3-4");
        assert_eq!(choose(node, 65, false, |_| true), None);
    }
}
