//! Which nodes a reservation takes: those named, or as many as were asked for, free when it begins.
//!
//! Pure. Invariant: what is chosen is in the order of the cluster's nodes, and conflicts with no other reservation and no running job
//! unless that was allowed. Source: scontrol(1), NodeCnt, CoreCnt, Nodes; reservations page.

use sluice_model::error_code::ErrorCode;
use sluice_model::reservation::ReservationFlags;
use sluice_model::time::UnixSeconds;

use super::{cores, occurrence};
use crate::cluster::{Cluster, Node, NodeIndex, Reservation, ReservedNode};
use crate::schedule::expected_end;
use crate::select::constraint::Constraint;

/// CPU ids of a node that are taken when the draft takes place.
#[derive(Debug, Default)]
struct Taken {
    all: bool,
    cpus: Vec<u32>,
}

/// What other reservations take of a node at the times of the draft.
fn reserved(cluster: &Cluster, draft: &Reservation, node: &str, now: UnixSeconds) -> Taken {
    let mut taken = Taken::default();
    let own = occurrence::spans(draft, now);
    for other in cluster.reservations.values() {
        if other.id == draft.id || other.overlaps() {
            continue;
        }
        let Some(reserved) = other.on(node) else {
            continue;
        };
        let meets = occurrence::spans(other, now)
            .iter()
            .any(|(start, end)| own.iter().any(|(from, to)| start < to && from < end));
        if meets {
            taken.all |= reserved.is_whole();
            taken.cpus.extend(&reserved.cpus);
        }
    }
    taken
}

/// What running jobs still hold of a node when the draft begins.
fn in_use(cluster: &Cluster, draft: &Reservation, index: NodeIndex, now: UnixSeconds) -> Taken {
    let mut taken = Taken::default();
    let Some(node) = cluster.node(index) else {
        return taken;
    };
    let start = draft.start_at(now).max(now);
    for job in node.jobs.iter().filter_map(|id| cluster.job(*id)) {
        let own = draft.id != 0
            && job
                .reservation
                .as_ref()
                .is_some_and(|run| run.id == draft.id);
        if own || job.state.is_completing() || expected_end(job, now) <= start {
            continue;
        }
        let Some(allocation) = &job.allocation else {
            continue;
        };
        taken.all |= allocation.whole_nodes;
        taken.cpus.extend(
            allocation
                .on(index)
                .into_iter()
                .flat_map(|part| &part.cpu_ids),
        );
    }
    taken
}

/// Tests that the draft may have what it names of a node.
///
/// # Errors
/// Another reservation has it, or a running job.
fn check(
    cluster: &Cluster,
    draft: &Reservation,
    index: NodeIndex,
    wanted: &ReservedNode,
    now: UnixSeconds,
) -> Result<(), ErrorCode> {
    let meets = |taken: &Taken| {
        taken.all
            || if wanted.is_whole() {
                !taken.cpus.is_empty()
            } else {
                wanted.cpus.iter().any(|cpu| taken.cpus.contains(cpu))
            }
    };
    if !draft.overlaps() && meets(&reserved(cluster, draft, &wanted.name, now)) {
        return Err(ErrorCode::ReservationOverlap);
    }
    if !draft.is(ReservationFlags::IGNORE_JOBS) && meets(&in_use(cluster, draft, index, now)) {
        return Err(ErrorCode::NodesBusy);
    }
    Ok(())
}

/// The nodes named, with so many cores of each (`counts` empty = whole nodes).
///
/// # Errors
/// A node is not there, in use, or reserved; the core counts do not fit the nodes.
pub fn named(
    cluster: &Cluster,
    draft: &Reservation,
    names: &[String],
    counts: &[u32],
    now: UnixSeconds,
) -> Result<Vec<ReservedNode>, ErrorCode> {
    let mut found: Vec<(NodeIndex, u32)> = Vec::with_capacity(names.len());
    for (at, name) in names.iter().enumerate() {
        let (index, node) = cluster.node_named(name).ok_or(ErrorCode::InvalidNodeName)?;
        if !node.configured {
            return Err(ErrorCode::InvalidNodeName);
        }
        let count = match counts {
            [] => 0,
            counts => *counts.get(at).ok_or(ErrorCode::InvalidCoreCount)?,
        };
        if !found.iter().any(|(known, _)| *known == index) {
            found.push((index, count));
        }
    }
    found.sort_unstable();
    let mut chosen = Vec::with_capacity(found.len());
    for (index, count) in found {
        let Some(node) = cluster.node(index) else {
            continue;
        };
        let reserved = if count == 0 {
            ReservedNode {
                name: node.config.name.clone(),
                cpus: Vec::new(),
            }
        } else {
            cores_of(cluster, draft, index, node, count, now)?
        };
        check(cluster, draft, index, &reserved, now)?;
        chosen.push(reserved);
    }
    Ok(chosen)
}

/// `count` cores of a node that nobody has at the time.
fn cores_of(
    cluster: &Cluster,
    draft: &Reservation,
    index: NodeIndex,
    node: &Node,
    count: u32,
    now: UnixSeconds,
) -> Result<ReservedNode, ErrorCode> {
    if count > cores::of_node(node) {
        return Err(ErrorCode::InvalidCoreCount);
    }
    let first = draft.is(ReservationFlags::FIRST_CORES);
    let other = reserved(cluster, draft, &node.config.name, now);
    let used = in_use(cluster, draft, index, now);
    let no_overlap = !draft.overlaps();
    let no_jobs = !draft.is(ReservationFlags::IGNORE_JOBS);
    let free = |cpu: u32| {
        !(no_overlap && (other.all || other.cpus.contains(&cpu)))
            && !(no_jobs && (used.all || used.cpus.contains(&cpu)))
    };
    let cpus = cores::choose(node, count, first, free).ok_or(ErrorCode::NodesBusy)?;
    Ok(ReservedNode {
        name: node.config.name.clone(),
        cpus,
    })
}

/// Features of a reservation as a filter for nodes.
fn features(draft: &Reservation) -> Result<Option<Constraint>, ErrorCode> {
    match draft.features.as_deref().filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => Constraint::parse(text)
            .map(Some)
            .map_err(|_| ErrorCode::InvalidFeature),
    }
}

fn has_features(constraint: Option<&Constraint>, node: &Node) -> bool {
    constraint.is_none_or(|constraint| {
        let own = node.effective_features();
        constraint
            .filter
            .as_ref()
            .is_none_or(|expr| expr.matches(own))
            && (constraint.alternatives.is_empty()
                || constraint.alternatives.iter().any(|expr| expr.matches(own)))
    })
}

/// Chooses `nodes` nodes, or nodes with `cores` cores in all (with both: that many cores spread over that many nodes), from the
/// partition of the draft. Those in `keep` come first.
///
/// # Errors
/// There are not so many, or not so many are free.
pub fn by_count(
    cluster: &Cluster,
    draft: &Reservation,
    (nodes, cores_wanted): (u32, Option<u32>),
    keep: &[String],
    now: UnixSeconds,
) -> Result<Vec<ReservedNode>, ErrorCode> {
    let partition = match &draft.partition {
        Some(name) => Some(
            cluster
                .partition(name)
                .ok_or(ErrorCode::InvalidPartitionName)?,
        ),
        None => cluster.default_partition(),
    };
    let constraint = features(draft)?;
    let all: Vec<NodeIndex> = match partition {
        Some(partition) => partition.nodes.to_vec(),
        None => (0..cluster.nodes.len() as u32).map(NodeIndex).collect(),
    };
    if nodes as usize > all.len() {
        return Err(ErrorCode::InvalidNodeCount);
    }
    let mut candidates: Vec<(bool, bool, u32, NodeIndex)> = all
        .into_iter()
        .filter_map(|index| {
            let node = cluster.node(index)?;
            let fits = node.is_usable() && has_features(constraint.as_ref(), node);
            let kept = keep.contains(&node.config.name);
            fits.then_some((!kept, !node.jobs.is_empty(), node.effective_weight(), index))
        })
        .collect();
    candidates.sort_unstable();
    let mut left = cores_wanted.unwrap_or(0);
    let mut chosen: Vec<(NodeIndex, ReservedNode)> = Vec::new();
    for (_, _, _, index) in candidates {
        if (nodes > 0 && chosen.len() == nodes as usize) || (cores_wanted.is_some() && left == 0) {
            break;
        }
        let Some(node) = cluster.node(index) else {
            continue;
        };
        let reserved = match cores_wanted {
            None => ReservedNode {
                name: node.config.name.clone(),
                cpus: Vec::new(),
            },
            Some(_) if nodes > 0 => {
                let share = left.div_ceil(nodes - chosen.len() as u32);
                let Ok(reserved) = cores_of(cluster, draft, index, node, share, now) else {
                    continue;
                };
                reserved
            }
            Some(_) => {
                let most = left.min(cores::of_node(node));
                let found = (1..=most)
                    .rev()
                    .find_map(|count| cores_of(cluster, draft, index, node, count, now).ok());
                let Some(reserved) = found else { continue };
                reserved
            }
        };
        if check(cluster, draft, index, &reserved, now).is_err() {
            continue;
        }
        if !reserved.is_whole() {
            let threads = crate::select::policy::node_shape(node).threads.max(1);
            left = left.saturating_sub(reserved.cpus.len() as u32 / threads);
        }
        chosen.push((index, reserved));
    }
    if chosen.len() < nodes as usize || (cores_wanted.is_some() && left > 0) {
        return Err(ErrorCode::NodesBusy);
    }
    chosen.sort_by_key(|(index, _)| *index);
    Ok(chosen.into_iter().map(|(_, reserved)| reserved).collect())
}

/// The nodes again, with those replaced that no longer serve: out of service, or (REPLACE) in use. `None` = nothing changes.
#[must_use]
pub fn replaced(
    cluster: &Cluster,
    reservation: &Reservation,
    now: UnixSeconds,
) -> Option<Vec<ReservedNode>> {
    let fixed = ReservationFlags::SPEC_NODES
        .with(ReservationFlags::STATIC_ALLOC)
        .with(ReservationFlags::MAINT)
        .with(ReservationFlags::ANY_NODES)
        .with(ReservationFlags::PART_NODES);
    let movable = !reservation.is(fixed) && !reservation.nodes.is_empty();
    if !movable || (reservation.by_core && reservation.nodes.len() > 1) {
        return None;
    }
    let serves = |reserved: &&ReservedNode| {
        cluster.node_named(&reserved.name).is_some_and(|(_, node)| {
            let free = !reservation.is(ReservationFlags::REPLACE) || node.jobs.is_empty();
            node.is_usable() && free
        })
    };
    let keep: Vec<String> = reservation
        .nodes
        .iter()
        .filter(serves)
        .map(|node| node.name.clone())
        .collect();
    if keep.len() == reservation.nodes.len() {
        return None;
    }
    let cores = reservation.by_core.then_some(reservation.core_count);
    let counts = (reservation.nodes.len() as u32, cores);
    let chosen = by_count(cluster, reservation, counts, &keep, now).ok()?;
    (chosen != reservation.nodes).then_some(chosen)
}
