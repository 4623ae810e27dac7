//! Which devices of a node: those with free cores near them, few groups, and so many of each socket as asked for.
//!
//! A *group* is an entry of the node's GRES: devices of one kind with the same cores near them. Invariant: what is picked is free,
//! and as many of each group as the share says. Source: `gres.conf(5)` (Cores), `sbatch(1)` (--gpus-per-socket, --gres-flags).

use std::collections::BTreeMap;

use super::fit::Share;
use super::inventory::{CPU_SLOT, FreeView, GRES_SLOT};
use super::request::ResourceRequest;

/// Moves the devices of a share to the groups of their kind near which the job finds its cores.
pub(super) fn regroup(view: &mut FreeView<'_>, request: &ResourceRequest, share: &mut Share) {
    let node = share.node as usize;
    let record = view.facts[node].node;
    let threads = view.facts[node].threads.max(1) as usize;
    let wanted_cores = (share.amounts[CPU_SLOT] as usize).div_ceil(threads);
    let mut kinds: BTreeMap<(&str, Option<&str>), Vec<usize>> = BTreeMap::new();
    for (entry, gres) in record.gres.iter().enumerate() {
        if !gres.used.is_empty() {
            kinds
                .entry((&gres.name, gres.type_name.as_deref()))
                .or_default()
                .push(entry);
        }
    }
    for ((name, _), entries) in kinds {
        let total: u64 = entries.iter().map(|e| share.amounts[GRES_SLOT + e]).sum();
        let per_socket = request.gres_per_socket.iter().any(|gres| gres.name == name);
        if total == 0 || (entries.len() < 2 && !per_socket) {
            continue;
        }
        let bits = view.bits(node);
        let free_core = |core: &u32| {
            let at = *core as usize * threads;
            bits.cpus
                .get(at..at + threads)
                .is_some_and(|core| core.iter().all(|free| *free))
        };
        // Devices and cores that are free in each group.
        let mut groups: Vec<(usize, u64, usize)> = entries
            .iter()
            .map(|entry| {
                let devices = bits.gres[*entry].iter().filter(|free| **free).count() as u64;
                let near = record.gres[*entry]
                    .cpus
                    .first()
                    .map_or(&[][..], Vec::as_slice);
                let cores = if near.is_empty() {
                    wanted_cores
                } else {
                    near.iter().filter(|core| free_core(core)).count()
                };
                (*entry, devices, cores)
            })
            .collect();
        let each = request
            .gres_per_socket
            .iter()
            .find(|gres| gres.name == name)
            .map(|gres| gres.count.max(1));
        // One group that has all devices and cores, the fullest such; else one that has the devices; else the largest first.
        groups.sort_by_key(|(entry, devices, cores)| {
            let all = *devices >= each.unwrap_or(total);
            let rest = if all { *devices } else { u64::MAX - *devices };
            (!(all && *cores >= wanted_cores), !all, rest, *entry)
        });
        for entry in &entries {
            share.amounts[GRES_SLOT + entry] = 0;
        }
        let mut missing = total;
        // So many of each socket as asked for, then whatever is left.
        for most in [each.unwrap_or(u64::MAX), u64::MAX] {
            for (entry, devices, _) in &mut groups {
                let given = missing.min(*devices).min(most);
                share.amounts[GRES_SLOT + *entry] += given;
                *devices -= given;
                missing -= given;
            }
        }
    }
}

/// Devices of each group by position in it, as many as the share says; empty for GRES that are only counted.
pub(super) fn pick(
    view: &mut FreeView<'_>,
    request: &ResourceRequest,
    share: &Share,
) -> Option<Vec<Vec<u32>>> {
    let node = share.node as usize;
    let record = view.facts[node].node;
    let cores_per_socket = view.facts[node].cores.max(1);
    let mut picked: Vec<Vec<u32>> = vec![Vec::new(); record.gres.len()];
    let mut by_socket: BTreeMap<(usize, u32), u64> = BTreeMap::new();
    for (entry, gres) in record.gres.iter().enumerate() {
        let count = share.amounts[GRES_SLOT + entry] as usize;
        if count == 0 {
            continue;
        }
        if let Some(shared) = view.shares(node).iter().find(|s| s.entry == entry) {
            // With whole nodes a job has all that there is.
            picked[entry] = if request.whole_node {
                (0..)
                    .zip(&shared.free)
                    .filter_map(|(gpu, free)| free.map(|_| gpu))
                    .collect()
            } else {
                vec![shared.gpu_for(count as u64, request.least_loaded_shares)?]
            };
            continue;
        }
        if gres.used.is_empty() {
            continue;
        }
        let free = &view.bits(node).gres[entry];
        picked[entry] = (0..)
            .zip(free)
            .filter(|(_, free)| **free)
            .map(|(device, _)| device)
            .take(count)
            .collect();
        if picked[entry].len() < count {
            return None;
        }
        if let Some(at) = request
            .gres_per_socket
            .iter()
            .position(|wanted| wanted.name == gres.name)
            && let Some(core) = gres.cpus.first().and_then(|cores| cores.first())
        {
            *by_socket.entry((at, core / cores_per_socket)).or_default() += count as u64;
        }
    }
    // Devices whose place is known lie so many on each socket.
    let uneven = by_socket
        .iter()
        .any(|((at, _), count)| count % request.gres_per_socket[*at].count != 0);
    let crowded = by_socket
        .iter()
        .any(|((at, _), count)| *count > request.gres_per_socket[*at].count);
    (!uneven && !crowded).then_some(picked)
}
