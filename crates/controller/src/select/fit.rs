//! How much of a job fits on one node, given what is available there.
//!
//! Works on slots (see [`super::inventory`]) only, so the same test serves the present and any time ahead. Invariant: what
//! [`need`] yields is at most what was available.

use sluice_model::gres::GresRequest;

use super::inventory::{CPU_SLOT, GRES_SLOT, MEMORY_SLOT, NodeFacts};
use super::policy::ConsumedUnit;
use super::request::{MemoryRequest, ResourceRequest};
use super::sharing::slot;

/// What a job takes of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Position of the node.
    pub node: u32,
    /// Tasks.
    pub tasks: u32,
    /// Taken, by slot.
    pub amounts: Vec<u64>,
    /// CPUs that the job gets; with CR_CPU less than it takes.
    pub cpus: u32,
    /// Memory promised to the job, also where memory is not consumed.
    pub memory: u64,
}

/// Why a node cannot take a part of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shortage {
    /// Sockets, cores, threads, local disk: never.
    Geometry,
    /// CPUs.
    Cpus,
    /// Memory.
    Memory,
    /// GRES.
    Gres,
    /// It is in use and the job wants all of it.
    InUse,
}

/// What a node promises beside the amounts taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// CPUs.
    pub cpus: u32,
    /// Memory, also where it is not consumed.
    pub memory: u64,
}

/// CPUs that the job could have of what is available, beside the jobs that are there then.
///
/// # Errors
/// Those jobs do not go with this one.
pub fn free_cpus(
    request: &ResourceRequest,
    facts: &NodeFacts<'_>,
    available: &[u64],
) -> Result<u64, Shortage> {
    let Some(extras) = &facts.extras else {
        return Ok(available[CPU_SLOT]);
    };
    let base = facts.extra_slot();
    let left = |at: usize| available.get(base + at).copied().unwrap_or(0);
    let alone = left(slot::JOBS) >= slot::ROOM;
    if request.whole_node && !alone {
        return Err(Shortage::InUse);
    }
    if let Some(owner) = &request.owner {
        let parted = request
            .claim
            .is_some_and(|claim| !alone && !facts.tenants.all_agree(owner, claim))
            || (left(slot::CLAIMS) < slot::ROOM && !facts.tenants.nobody_minds(owner));
        if parted {
            return Err(Shortage::InUse);
        }
    }
    let mut free = match &request.shared {
        Some(pool) => {
            let crowded = request.unit == ConsumedUnit::Node
                && left(slot::SHARED) + u64::from(pool.jobs) <= slot::ROOM;
            if left(slot::OWN) < slot::ROOM || crowded {
                return Err(Shortage::InUse);
            }
            match extras.pool(&pool.partition) {
                Some(_) if request.unit == ConsumedUnit::Node => u64::from(facts.cpus),
                Some(at) => left(slot::POOLS + at).min(u64::from(facts.cpus)),
                None => 0,
            }
        }
        None if left(slot::SHARED) < slot::ROOM => return Err(Shortage::InUse),
        None => available[CPU_SLOT],
    };
    if let Some(cap) = extras.cap(&request.partition) {
        free = free.min(left(cap));
    }
    Ok(free)
}

/// CPUs times jobs that are left in the pool in which the job shares; `None` = its CPUs are its own.
#[must_use]
pub fn pool_room(
    request: &ResourceRequest,
    facts: &NodeFacts<'_>,
    available: &[u64],
) -> Option<u64> {
    let pool = request.shared.as_ref()?;
    let at = facts.extras.as_ref()?.pool(&pool.partition)?;
    available
        .get(facts.extra_slot() + slot::POOLS + at)
        .copied()
}

/// Works out what `tasks` tasks, with `job_gres` units of each per-job GRES, need on a node. Gives what is promised.
///
/// # Errors
/// What is short.
pub fn need(
    request: &ResourceRequest,
    facts: &NodeFacts<'_>,
    available: &[u64],
    tasks: u32,
    job_gres: &[u64],
    out: &mut Vec<u64>,
) -> Result<Promise, Shortage> {
    out.clear();
    out.resize(available.len(), 0);
    let free = free_cpus(request, facts, available)?;
    if free == 0 || tasks > request.max_tasks_per_node {
        return Err(Shortage::Cpus);
    }
    if request.whole_node && free < u64::from(facts.cpus) {
        return Err(Shortage::InUse);
    }
    let gpus = if request.wants_gres() {
        take_gres(request, facts, available, tasks, job_gres, out)?
    } else {
        0
    };
    let (cpus, taken) = cpus_needed(request, facts, tasks, gpus)?;
    if taken > free {
        return Err(Shortage::Cpus);
    }
    out[CPU_SLOT] = taken;
    if request.enforce_binding && gpus > 0 && cpus > near_cpus(facts) {
        return Err(Shortage::Cpus);
    }
    // The threads of a core that a job leaves idle are its own and cost it no memory.
    let paid = match request.geometry[2] {
        Some(used) if request.unit != ConsumedUnit::Cpu => {
            let threads = facts.threads.max(1);
            cpus / u64::from(threads) * u64::from(used.clamp(1, threads))
        }
        _ => cpus,
    };
    let memory = match request.memory {
        MemoryRequest::WholeNode => facts.memory,
        MemoryRequest::PerNode(m) => m,
        // A whole-node job is not refused because its CPUs times the memory of each exceed the node.
        MemoryRequest::PerCpu(m) if request.whole_node => {
            let asked = u64::from(tasks)
                .saturating_mul(u64::from(request.cpus_per_task))
                .saturating_mul(m);
            if asked > facts.memory {
                return Err(Shortage::Memory);
            }
            m.saturating_mul(paid).min(facts.memory)
        }
        MemoryRequest::PerCpu(m) => m.saturating_mul(paid),
        MemoryRequest::PerGpu(m) => m.saturating_mul(gpus),
    };
    let limit = if request.track_memory {
        available[MEMORY_SLOT]
    } else {
        facts.memory
    };
    if memory > limit {
        return Err(Shortage::Memory);
    }
    if request.track_memory {
        out[MEMORY_SLOT] = memory;
    }
    let extra = facts.extra_slot();
    if request.whole_node {
        out[GRES_SLOT..extra].copy_from_slice(&available[GRES_SLOT..extra]);
    }
    if let Some(extras) = &facts.extras {
        out.truncate(extra);
        let pool = request.shared.as_ref().map(|pool| pool.partition.as_str());
        let claims = request.claim.is_some();
        let open = open_cpus(facts, request.whole_node, taken, gpus);
        if open > available[extra + slot::OPEN] {
            return Err(Shortage::Cpus);
        }
        extras.append(out, (taken, open), pool, claims, &request.partition);
    } else if open_cpus(facts, request.whole_node, taken, gpus) > facts.open_cpus() {
        return Err(Shortage::Cpus);
    }
    Ok(Promise {
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        memory,
    })
}

/// CPUs of a job beyond those that are kept for its GPUs. Whole nodes have all GPUs.
pub(super) fn open_cpus(facts: &NodeFacts<'_>, whole: bool, cpus: u64, gpus: u64) -> u64 {
    if facts.restricted == 0 {
        return 0;
    }
    if whole {
        return facts.open_cpus();
    }
    cpus.saturating_sub(gpus.saturating_mul(facts.restricted))
}

/// CPUs of the cores near any device of the node.
fn near_cpus(facts: &NodeFacts<'_>) -> u64 {
    let mut cores: Vec<u32> = Vec::new();
    for device in facts.node.gres.iter().flat_map(|gres| &gres.cpus) {
        if device.is_empty() {
            return u64::from(facts.cpus);
        }
        cores.extend(device);
    }
    cores.sort_unstable();
    cores.dedup();
    cores.len() as u64 * u64::from(facts.threads.max(1))
}

/// Tasks that the threads of one core take. A node that has a task has a core, so these come at no cost.
pub fn tasks_of_a_core(request: &ResourceRequest, facts: &NodeFacts<'_>) -> u32 {
    if request.overcommit {
        return 1;
    }
    let threads = facts.threads.max(1);
    let used = request.geometry[2].unwrap_or(threads).clamp(1, threads);
    let tasks = used / request.cpus_per_task.max(1);
    tasks.min(request.tasks_per_core.unwrap_or(tasks)).max(1)
}

/// CPUs that a job gets on a node, and CPUs that nobody else gets for it.
fn cpus_needed(
    request: &ResourceRequest,
    facts: &NodeFacts<'_>,
    tasks: u32,
    gpus: u64,
) -> Result<(u64, u64), Shortage> {
    let [sockets, cores, threads] = request.geometry;
    let too_small = sockets.is_some_and(|n| n > facts.sockets)
        || cores.is_some_and(|n| n > facts.cores)
        || threads.is_some_and(|n| n > facts.threads)
        || request
            .tasks_per_socket
            .is_some_and(|n| tasks > n.saturating_mul(facts.sockets))
        || request.tmp_disk_mib > facts.node.config.tmp_disk_mib;
    if too_small {
        return Err(Shortage::Geometry);
    }
    let used_threads = u64::from(
        threads
            .unwrap_or(facts.threads)
            .clamp(1, facts.threads.max(1)),
    );
    let threads = u64::from(facts.threads.max(1));
    let (tasks, cpus_per_task) = (u64::from(tasks), u64::from(request.cpus_per_task));
    let own = if request.overcommit {
        1
    } else {
        tasks.saturating_mul(cpus_per_task)
    };
    let cpus = own
        .max(u64::from(request.min_cpus_per_node))
        .max(gpus.saturating_mul(u64::from(request.cpus_per_gpu)))
        .max(1);
    let mut cores = cpus.div_ceil(used_threads);
    if let Some(per_core) = request.tasks_per_core
        && !request.overcommit
    {
        let spread = if per_core == 1 {
            tasks.saturating_mul(cpus_per_task.div_ceil(used_threads))
        } else {
            tasks.div_ceil(u64::from(per_core))
        };
        cores = cores.max(spread);
    }
    let asked = cpus;
    let mut cpus = cores.saturating_mul(threads);
    if request.unit == ConsumedUnit::Socket {
        cpus = cpus.next_multiple_of(u64::from(facts.socket_cpus().max(1)));
    }
    let usable = usable_cpus(request, facts);
    let per_node = u64::from(request.max_cpus_per_node.unwrap_or(u32::MAX));
    let per_socket = request.max_cpus_per_socket.map_or(u64::MAX, |max| {
        u64::from(max).saturating_mul(u64::from(facts.sockets))
    });
    // A whole node is all of its CPUs.
    let counted = if request.whole_node {
        u64::from(facts.cpus)
    } else {
        cpus
    };
    if cpus > usable || counted > per_node || counted > per_socket {
        return Err(Shortage::Cpus);
    }
    if request.whole_node {
        return Ok((usable, u64::from(facts.cpus)));
    }
    Ok(match request.unit {
        ConsumedUnit::Node => (usable, usable),
        ConsumedUnit::Cpu => (asked.min(cpus), cpus),
        ConsumedUnit::Core | ConsumedUnit::Socket => (cpus, cpus),
    })
}

/// CPUs of a node for the job's tasks: without the cores that it leaves to the system.
fn usable_cpus(request: &ResourceRequest, facts: &NodeFacts<'_>) -> u64 {
    let all = u64::from(facts.node.cpu_count());
    let threads = u64::from(facts.threads.max(1));
    let kept = u64::from(request.core_spec) * threads
        + u64::from(request.thread_spec).next_multiple_of(threads);
    let left = all.saturating_sub(kept);
    left.min(u64::from(facts.cpus))
}

/// Takes the GRES out of `available` into `out`: typed requests first, because untyped ones are served by any type.
/// Gives the number of GPUs.
fn take_gres(
    request: &ResourceRequest,
    facts: &NodeFacts<'_>,
    available: &[u64],
    tasks: u32,
    job_gres: &[u64],
    out: &mut [u64],
) -> Result<u64, Shortage> {
    if !request.gres_per_socket.is_empty() && !sockets_have_devices(request, facts) {
        return Err(Shortage::Gres);
    }
    let mut gpus = 0;
    for typed in [true, false] {
        let per_node = request.gres_per_node.iter().map(|gres| (gres, gres.count));
        let per_task = request
            .gres_per_task
            .iter()
            .map(|gres| (gres, gres.count.saturating_mul(u64::from(tasks))));
        let per_job = request
            .gres_per_job
            .iter()
            .zip(job_gres)
            .map(|(gres, count)| (gres, *count));
        for (gres, count) in per_node.chain(per_task).chain(per_job) {
            if gres.type_name.is_some() != typed {
                continue;
            }
            take_one_gres(facts, available, gres, count, out)?;
            if gres.name == "gpu" {
                gpus += count;
            }
        }
    }
    Ok(gpus)
}

/// As many sockets as asked for have the devices near them; devices whose place is not known may be anywhere.
fn sockets_have_devices(request: &ResourceRequest, facts: &NodeFacts<'_>) -> bool {
    let cores = facts.cores.max(1);
    request.gres_per_socket.iter().all(|wanted| {
        let mut near = vec![0_u64; facts.sockets as usize];
        for entry in facts.node.gres.iter().filter(|entry| serves(entry, wanted)) {
            let socket = entry.cpus.first().and_then(|near| near.first());
            match socket.map(|core| (core / cores) as usize) {
                None => return true,
                Some(socket) => {
                    if let Some(count) = near.get_mut(socket) {
                        *count += entry.count;
                    }
                }
            }
        }
        let good = near.iter().filter(|count| **count >= wanted.count).count();
        good >= request.geometry[0].unwrap_or(1).max(1) as usize
    })
}

fn serves(entry: &crate::cluster::GresState, gres: &GresRequest) -> bool {
    entry.name == gres.name && (gres.type_name.is_none() || entry.type_name == gres.type_name)
}

fn take_one_gres(
    facts: &NodeFacts<'_>,
    available: &[u64],
    gres: &GresRequest,
    count: u64,
    out: &mut [u64],
) -> Result<(), Shortage> {
    let entries = || {
        facts
            .node
            .gres
            .iter()
            .enumerate()
            .filter(|(_, entry)| serves(entry, gres))
    };
    let left_in = |out: &[u64], entry: usize| {
        available[GRES_SLOT + entry].saturating_sub(out[GRES_SLOT + entry])
    };
    if entries().any(|(entry, _)| {
        facts
            .node
            .config
            .gres
            .get(entry)
            .is_some_and(|g| g.no_consume)
    }) {
        let there: u64 = entries().map(|(_, entry)| entry.count).sum();
        return if there >= count {
            Ok(())
        } else {
            Err(Shortage::Gres)
        };
    }
    // Units of shared GPUs are all of one GPU.
    if sluice_model::gres::shares_gpus(&gres.name)
        && !entries().any(|(entry, _)| {
            super::shared_gres::layout(facts.node, entry)
                .is_none_or(|(per_gpu, _)| count <= per_gpu)
        })
    {
        return Err(Shortage::Gres);
    }
    // One entry that holds them all, the fullest such, before several.
    let one = entries()
        .map(|(entry, _)| (left_in(out, entry), entry))
        .filter(|(left, _)| *left >= count)
        .min();
    if let Some((_, entry)) = one {
        out[GRES_SLOT + entry] += count;
        return Ok(());
    }
    let mut missing = count;
    for (entry, _) in entries() {
        let given = left_in(out, entry).min(missing);
        out[GRES_SLOT + entry] += given;
        missing -= given;
    }
    if missing == 0 {
        Ok(())
    } else {
        Err(Shortage::Gres)
    }
}

/// Units of a GRES available on a node.
#[must_use]
pub fn available_gres(facts: &NodeFacts<'_>, available: &[u64], gres: &GresRequest) -> u64 {
    facts
        .node
        .gres
        .iter()
        .enumerate()
        .filter(|(_, entry)| serves(entry, gres))
        .map(|(entry, _)| available[GRES_SLOT + entry])
        .sum()
}

/// The least of each per-job GRES that a node has to give for the node to be of use.
#[must_use]
pub fn job_gres_floor(request: &ResourceRequest) -> Vec<u64> {
    let floor = |gres: &GresRequest| {
        if request.max_nodes == 1 {
            gres.count
        } else {
            gres.count.min(1)
        }
    };
    request.gres_per_job.iter().map(floor).collect()
}

/// Most tasks that fit; 0 = the node is of no use. `floor` is [`job_gres_floor`].
///
/// # Errors
/// What is short for even the fewest tasks.
pub fn capacity(
    request: &ResourceRequest,
    facts: &NodeFacts<'_>,
    available: &[u64],
    floor: &[u64],
    scratch: &mut Vec<u64>,
) -> Result<u32, Shortage> {
    let mut fits = request.fewest_tasks_on_a_node();
    need(request, facts, available, fits, floor, scratch)?;
    let others = request
        .min_nodes
        .saturating_sub(1)
        .saturating_mul(request.min_tasks_per_node);
    let most = request
        .placed_tasks()
        .saturating_sub(others)
        .min(request.max_tasks_per_node)
        .max(fits);
    if most == fits || need(request, facts, available, most, floor, scratch).is_ok() {
        return Ok(most);
    }
    let mut too_many = most;
    while too_many - fits > 1 {
        let middle = fits + (too_many - fits) / 2;
        if need(request, facts, available, middle, floor, scratch).is_ok() {
            fits = middle;
        } else {
            too_many = middle;
        }
    }
    Ok(fits)
}
