//! Which CPUs and devices of the chosen nodes: GRES first, then cores near them, whole sockets before split ones.
//!
//! Invariant: an assignment holds exactly the amounts of its share, and nothing that was taken.

use sluice_model::job::GresAllocation;
use sluice_model::memory::MemoryMib;

use super::fit::Share;
use super::inventory::{CPU_SLOT, FreeView, GRES_SLOT};
use super::policy::ConsumedUnit;
use super::request::ResourceRequest;
use crate::cluster::{Allocation, NodeAllocation, NodePhase};

/// Turns shares into an allocation and takes it out of the view. `None` = the bitmaps hold less than the amounts say.
pub fn assign(
    view: &mut FreeView<'_>,
    request: &ResourceRequest,
    shares: &[Share],
) -> Option<Allocation> {
    let mut allocation = Allocation {
        nodes: Vec::with_capacity(shares.len()),
        whole_nodes: request.whole_node,
    };
    for share in shares {
        let (gres, near) = devices(view, share)?;
        let cpu_ids = cpus(view, request, share, &near)?;
        let facts = &view.facts[share.node as usize];
        allocation.nodes.push(NodeAllocation {
            node: facts.index,
            name: facts.name().to_owned(),
            cpu_ids,
            memory: MemoryMib(share.memory),
            gres,
            phase: NodePhase::Prolog,
        });
    }
    allocation.nodes.sort_by_key(|part| part.node);
    view.take(&allocation);
    Some(allocation)
}

/// Devices of a share, and the cores near them in order of preference.
fn devices(view: &mut FreeView<'_>, share: &Share) -> Option<(Vec<GresAllocation>, Vec<u32>)> {
    let node = share.node as usize;
    let record = view.facts[node].node;
    let mut given: Vec<GresAllocation> = Vec::new();
    let mut near: Vec<u32> = Vec::new();
    for (entry, gres) in record.gres.iter().enumerate() {
        let count = share.amounts[GRES_SLOT + entry];
        if count == 0 {
            continue;
        }
        let mut indices = Vec::new();
        if !gres.used.is_empty() {
            let free = &view.bits(node).gres[entry];
            for (device, is_free) in free.iter().enumerate() {
                if *is_free && (indices.len() as u64) < count {
                    indices.push(gres.first_index + device as u32);
                    near.extend(gres.cpus.get(device).into_iter().flatten());
                }
            }
            if (indices.len() as u64) < count {
                return None;
            }
        }
        // Groups that differ only in their cores are one kind to the job.
        match given
            .iter_mut()
            .find(|g| g.name == gres.name && g.type_name == gres.type_name)
        {
            Some(same) => {
                same.count += count;
                same.indices.extend(indices);
            }
            None => given.push(GresAllocation {
                name: gres.name.clone(),
                type_name: gres.type_name.clone(),
                count,
                indices,
            }),
        }
    }
    near.sort_unstable();
    near.dedup();
    Some((given, near))
}

/// CPU ids of a share, ascending.
fn cpus(
    view: &mut FreeView<'_>,
    request: &ResourceRequest,
    share: &Share,
    near: &[u32],
) -> Option<Vec<u32>> {
    let node = share.node as usize;
    let (threads, cores_per_socket) = (
        view.facts[node].threads.max(1),
        view.facts[node].cores.max(1),
    );
    let wanted = share.amounts[CPU_SLOT] as usize;
    let bits = view.bits(node);
    let free_cores: Vec<u32> = bits
        .cpus
        .chunks(threads as usize)
        .enumerate()
        .filter(|(_, core)| core.iter().all(|free| *free))
        .map(|(core, _)| core as u32)
        .collect();
    let mut sockets: Vec<Vec<u32>> = free_cores
        .chunk_by(|a, b| a / cores_per_socket == b / cores_per_socket)
        .map(<[u32]>::to_vec)
        .collect();
    if request.unit == ConsumedUnit::Socket && !request.whole_node {
        sockets.retain(|cores| cores.len() == cores_per_socket as usize);
    }
    let wanted_cores = wanted.div_ceil(threads as usize);
    // Near the devices first; then the fullest socket that holds the rest, so that whole sockets stay free.
    let near_cores = |cores: &[u32]| {
        cores
            .iter()
            .filter(|core| near.binary_search(core).is_ok())
            .count()
    };
    sockets.sort_by_key(|cores| {
        let reachable = near_cores(cores).min(wanted_cores);
        let holds_all = cores.len() >= wanted_cores;
        (
            std::cmp::Reverse(reachable),
            !holds_all,
            if holds_all {
                cores.len()
            } else {
                usize::MAX - cores.len()
            },
            cores[0],
        )
    });
    let mut order: Vec<u32> = Vec::with_capacity(free_cores.len());
    for cores in &sockets {
        let (close, far): (Vec<u32>, Vec<u32>) = cores
            .iter()
            .partition(|core| near.binary_search(core).is_ok());
        order.extend(close);
        order.extend(far);
    }
    if !near.is_empty() {
        order.sort_by_key(|core| near.binary_search(core).is_err());
    }
    let mut ids: Vec<u32> = order
        .iter()
        .take(wanted_cores)
        .flat_map(|core| core * threads..(core + 1) * threads)
        .collect();
    // Ids of the last, incomplete core of an odd node do not exist.
    ids.retain(|id| (*id as usize) < bits.cpus.len());
    ids.sort_unstable();
    (ids.len() == wanted).then_some(ids)
}
