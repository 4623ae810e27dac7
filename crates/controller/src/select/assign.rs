//! Which CPUs and devices of the chosen nodes: GRES first, then cores near them, whole sockets before split ones.
//!
//! Invariant: an assignment holds exactly the amounts of its share, and nothing that was taken.

use sluice_model::gres::shares_gpus;
use sluice_model::job::GresAllocation;
use sluice_model::memory::MemoryMib;

use super::fit::Share;
use super::inventory::{CPU_SLOT, FreeView, GRES_SLOT};
use super::policy::ConsumedUnit;
use super::request::ResourceRequest;
use crate::cluster::{Allocation, NodeAllocation, NodePhase};

/// Turns shares into an allocation and takes it out of the view. A share may get its devices of other groups of the same kind than
/// it says, where these have free cores near them; it then says so.
///
/// # Errors
/// Position of a node on which what is free does not lie as the job needs it, although the amounts suffice.
pub fn assign(
    view: &mut FreeView<'_>,
    request: &ResourceRequest,
    shares: &mut [Share],
) -> Result<Allocation, u32> {
    let mut allocation = Allocation {
        nodes: Vec::with_capacity(shares.len()),
        whole_nodes: request.whole_node,
        shared_in: request.shared.as_ref().map(|pool| pool.partition.clone()),
        claim: request.claim,
    };
    for share in shares.iter_mut().filter(|share| share.tasks > 0) {
        let (gres, near) = devices(view, request, share).ok_or(share.node)?;
        let cpu_ids = cpus(view, request, share, &near).ok_or(share.node)?;
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
    view.take(&allocation, &request.partition, request.owner.as_ref());
    Ok(allocation)
}

/// Devices of a share, and the cores near them.
fn devices(
    view: &mut FreeView<'_>,
    request: &ResourceRequest,
    share: &mut Share,
) -> Option<(Vec<GresAllocation>, Vec<u32>)> {
    let node = share.node as usize;
    let record = view.facts[node].node;
    if record.gres.is_empty() {
        return Some((Vec::new(), Vec::new()));
    }
    if !request.whole_node && !request.disable_binding && !view.planned[node] {
        super::affinity::regroup(view, request, share);
    }
    let picked = super::affinity::pick(view, request, share)?;
    let mut given: Vec<GresAllocation> = Vec::new();
    let mut near: Vec<u32> = Vec::new();
    for (entry, gres) in record.gres.iter().enumerate() {
        let count = share.amounts[GRES_SLOT + entry];
        if count == 0 {
            continue;
        }
        let devices = &picked[entry];
        near.extend(
            devices
                .iter()
                .filter_map(|device| gres.cpus.get(*device as usize))
                .flatten(),
        );
        // Units of a shared GPU are told by the GPU.
        let first = if shares_gpus(&gres.name) {
            0
        } else {
            gres.first_index
        };
        let indices = devices.iter().map(|device| first + device);
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
                indices: indices.collect(),
            }),
        }
    }
    if request.disable_binding {
        near.clear();
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
    let facts = &view.facts[node];
    let (threads, cores_per_socket) = (facts.threads.max(1), facts.cores.max(1));
    let all = facts.node.cpu_count();
    let wanted = share.cpus as usize;
    let mut wanted_cores = (share.amounts[CPU_SLOT] as usize).div_ceil(threads as usize);
    if request.whole_node || request.unit == ConsumedUnit::Node {
        wanted_cores = wanted.div_ceil(threads as usize);
    }
    // How many jobs have each core; those that are out have none to say.
    let loads = core_loads(view, request, node, threads);
    let free_cores: Vec<u32> = (0..)
        .zip(&loads)
        .filter_map(|(core, load)| load.map(|_| core))
        .collect();
    let load_of = |core: &u32| loads[*core as usize].unwrap_or(u32::MAX);
    let is_near = |core: &u32| near.binary_search(core).is_ok();
    let mut sockets: Vec<Vec<u32>> = free_cores
        .chunk_by(|a, b| a / cores_per_socket == b / cores_per_socket)
        .map(<[u32]>::to_vec)
        .collect();
    if request.unit == ConsumedUnit::Socket && !request.whole_node {
        sockets.retain(|cores| cores.len() == cores_per_socket as usize);
    }
    if request.enforce_binding && !near.is_empty() && !request.whole_node {
        for cores in &mut sockets {
            cores.retain(is_near);
        }
    }
    if !request.whole_node
        && let Some(most) = socket_bound(request, threads)
    {
        for cores in &mut sockets {
            // Those near the devices stay.
            cores.sort_by_key(|core| (!is_near(core), *core));
            cores.truncate(most);
            cores.sort_unstable();
        }
    }
    sockets.retain(|cores| !cores.is_empty());
    let blocks = request.cores_in_blocks || request.unit == ConsumedUnit::Socket;
    let mut order = if blocks {
        in_blocks(sockets, wanted_cores, near)
    } else {
        in_turn(&sockets)
    };
    order.sort_by_key(|core| (load_of(core), !near.is_empty() && !is_near(core)));
    order.truncate(wanted_cores);
    if order.len() < wanted_cores {
        return None;
    }
    order.sort_unstable();
    // Ids of the last, incomplete core of an odd node do not exist.
    let of_core = |core: u32| (core * threads..(core + 1) * threads).filter(|id| *id < all);
    let mut ids: Vec<u32> = Vec::with_capacity(wanted);
    if request.unit == ConsumedUnit::Cpu && wanted < wanted_cores * threads as usize {
        // The CPUs asked for, evenly over the cores taken.
        for (at, core) in order.iter().enumerate() {
            let here = wanted / wanted_cores + usize::from(at < wanted % wanted_cores);
            ids.extend(of_core(*core).take(here));
        }
    } else {
        ids.extend(order.iter().flat_map(|core| of_core(*core)));
    }
    (ids.len() == wanted).then_some(ids)
}

/// Jobs on each core, as far as it is to be had.
fn core_loads(
    view: &mut FreeView<'_>,
    request: &ResourceRequest,
    node: usize,
    threads: u32,
) -> Vec<Option<u32>> {
    let threads = threads as usize;
    let Some(pool) = &request.shared else {
        return view
            .bits(node)
            .cpus
            .chunks(threads)
            .map(|core| core.iter().all(|free| *free).then_some(0))
            .collect();
    };
    let reserved = super::policy::reserved_cpus(view.facts[node].node);
    // Whole nodes are counted by their jobs.
    let most = if request.unit == ConsumedUnit::Node {
        u32::MAX
    } else {
        pool.jobs
    };
    view.pool_loads(node, &pool.partition)
        .chunks(threads)
        .enumerate()
        .map(|(core, loads)| {
            let kept = reserved.iter().any(|id| *id as usize / threads == core);
            let load = loads.iter().copied().max().unwrap_or(0);
            (!kept && load < most).then_some(load)
        })
        .collect()
}

/// Most cores of a socket.
fn socket_bound(request: &ResourceRequest, threads: u32) -> Option<usize> {
    let cores = |cpus: u32| cpus.div_ceil(threads) as usize;
    let by_partition = request
        .max_cpus_per_socket
        .map(|cpus| (cpus / threads) as usize);
    let by_tasks = request
        .tasks_per_socket
        .filter(|_| !request.overcommit)
        .map(|tasks| {
            if request.tasks_per_core == Some(1) {
                tasks as usize * cores(request.cpus_per_task)
            } else {
                cores(tasks.saturating_mul(request.cpus_per_task))
            }
        });
    match (by_partition, by_tasks) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// One socket after the other: near the devices first, then the fullest that holds the rest, so that whole sockets stay free.
fn in_blocks(mut sockets: Vec<Vec<u32>>, wanted: usize, near: &[u32]) -> Vec<u32> {
    sockets.sort_by_key(|cores| {
        let close = cores
            .iter()
            .filter(|core| near.binary_search(core).is_ok())
            .count();
        let holds_all = cores.len() >= wanted;
        (
            std::cmp::Reverse(close.min(wanted)),
            !holds_all,
            if holds_all {
                cores.len()
            } else {
                usize::MAX - cores.len()
            },
            cores[0],
        )
    });
    sockets.concat()
}

/// One core of each socket in turn.
fn in_turn(sockets: &[Vec<u32>]) -> Vec<u32> {
    let most = sockets.iter().map(Vec::len).max().unwrap_or(0);
    (0..most)
        .flat_map(|at| sockets.iter().filter_map(move |cores| cores.get(at)))
        .copied()
        .collect()
}
