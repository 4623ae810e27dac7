//! Sets of nodes that are near each other in the network, for the choice of a job's nodes.
//!
//! Works on candidates that are of use; the caller picks out of each set. Rules: in a tree the lowest switch that holds the job, then
//! few leaves, the smallest that suffices before larger ones; of blocks the lowest level that is built large enough, and no other.
//! Segments lie each within one block (or group of blocks), wherever. Source: `topology.conf(5)`, `sbatch(1)` (--switches,
//! --segment).

use std::collections::BTreeMap;

use super::choose::Candidate;
use super::fit::Share;
use super::request::{ResourceRequest, SegmentOrder};
use super::topology::Net;

/// Candidates of one leaf.
struct Leaf<'s, 'c> {
    leaf: u32,
    nodes: Vec<&'s Candidate<'c>>,
    required: usize,
}

/// Tries sets of candidates that may give `number` nodes, the best first.
pub(super) fn in_sets<'c>(
    net: &Net,
    request: &ResourceRequest,
    within: &[&Candidate<'c>],
    number: usize,
    visit: &mut dyn FnMut(&[&Candidate<'c>]) -> Option<Vec<Share>>,
) -> Option<Vec<Share>> {
    let mut leaves: BTreeMap<u32, Leaf<'_, 'c>> = BTreeMap::new();
    let mut required = 0;
    for candidate in within {
        required += usize::from(candidate.required);
        let Some(leaf) = net.leaf(candidate.node) else {
            continue;
        };
        let place = leaves.entry(leaf).or_insert_with(|| Leaf {
            leaf,
            nodes: Vec::new(),
            required: 0,
        });
        place.nodes.push(candidate);
        place.required += usize::from(candidate.required);
    }
    if let Some((size, order)) = request.segment
        && net.blocks
        && number > size as usize
    {
        let set = segments(net, &leaves, size as usize, order, number)?;
        return visit(&set);
    }
    let level = net.blocks.then(|| level_for(net, number));
    let count = |leaf: &u32| leaves.get(leaf).map_or(0, |place| place.nodes.len());
    let mut groups: Vec<(u32, usize, &[u32])> = net
        .groups
        .iter()
        .filter(|group| level.is_none_or(|level| group.level == level))
        .map(|group| {
            let nodes = group.leaves.iter().map(count).sum();
            (group.level, nodes, group.leaves.as_slice())
        })
        .filter(|(_, nodes, _)| *nodes >= number)
        .collect();
    groups.sort_by_key(|(level, nodes, leaves)| (*level, *nodes, leaves.first().copied()));
    for (_, _, group) in groups {
        let places: Vec<&Leaf<'_, 'c>> = group.iter().filter_map(|leaf| leaves.get(leaf)).collect();
        if places.iter().map(|place| place.required).sum::<usize>() < required {
            continue;
        }
        let few = fewest(&places, number);
        let most = request
            .max_switches
            .filter(|_| !net.blocks)
            .map_or(usize::MAX, |n| n as usize);
        if few.len() > most {
            continue;
        }
        if let Some(found) = visit(&nodes_of(&few)) {
            return Some(found);
        }
        // Enough nodes, yet not enough room on them: out of all leaves.
        if few.len() < places.len()
            && places.len() <= most
            && let Some(found) = visit(&nodes_of(&places))
        {
            return Some(found);
        }
    }
    None
}

/// The lowest level that is built large enough for so many nodes.
fn level_for(net: &Net, number: usize) -> u32 {
    let built = |leaves: &[u32]| -> usize { leaves.iter().map(|l| net.nodes_of(*l).len()).sum() };
    let large_enough = net
        .groups
        .iter()
        .filter(|group| built(&group.leaves) >= number)
        .map(|group| group.level)
        .min();
    large_enough.unwrap_or_else(|| net.groups.last().map_or(0, |group| group.level))
}

fn nodes_of<'s, 'c>(places: &[&Leaf<'s, 'c>]) -> Vec<&'s Candidate<'c>> {
    let mut nodes: Vec<&'s Candidate<'c>> = places
        .iter()
        .flat_map(|place| place.nodes.iter().copied())
        .collect();
    nodes.sort_by_key(|candidate| candidate.node);
    nodes
}

/// Few leaves with so many nodes together: those that must be part, then the smallest that suffices, or the largest.
fn fewest<'p, 's, 'c>(places: &[&'p Leaf<'s, 'c>], number: usize) -> Vec<&'p Leaf<'s, 'c>> {
    let (mut taken, mut rest): (Vec<&Leaf<'_, '_>>, Vec<&Leaf<'_, '_>>) =
        places.iter().copied().partition(|place| place.required > 0);
    let mut have: usize = taken.iter().map(|place| place.nodes.len()).sum();
    rest.sort_by_key(|place| (place.nodes.len(), place.leaf));
    while have < number && !rest.is_empty() {
        let missing = number - have;
        let at = rest
            .iter()
            .position(|place| place.nodes.len() >= missing)
            .unwrap_or_else(|| {
                // The first of the largest.
                let largest = rest.last().map_or(0, |place| place.nodes.len());
                rest.partition_point(|place| place.nodes.len() < largest)
            });
        let place = rest.remove(at);
        have += place.nodes.len();
        taken.push(place);
    }
    taken
}

/// Nodes for segments of `size` nodes, `number` in all, each segment in one block or group of blocks.
fn segments<'s, 'c>(
    net: &Net,
    leaves: &BTreeMap<u32, Leaf<'s, 'c>>,
    size: usize,
    order: SegmentOrder,
    number: usize,
) -> Option<Vec<&'s Candidate<'c>>> {
    let level = level_for(net, size);
    let mut places: Vec<(usize, u32, Vec<&'s Candidate<'c>>)> = net
        .groups
        .iter()
        .filter(|group| group.level == level)
        .map(|group| {
            let parts: Vec<&Leaf<'s, 'c>> = group
                .leaves
                .iter()
                .filter_map(|leaf| leaves.get(leaf))
                .collect();
            let mut nodes = nodes_of(&parts);
            nodes.sort_by_key(|candidate| (!candidate.required, candidate.key));
            let first = group.leaves.first().copied().unwrap_or(0);
            let room = match order {
                SegmentOrder::Fewest => nodes.len() / size,
                SegmentOrder::Spread => (nodes.len() / size).min(1),
            };
            (room, first, nodes)
        })
        .filter(|(room, _, _)| *room > 0)
        .collect();
    let mut missing = number / size;
    let mut set = Vec::with_capacity(number);
    // Those with required nodes, then few blocks, least left over.
    while missing > 0 {
        let best = places
            .iter()
            .enumerate()
            .min_by_key(|(_, (room, first, nodes))| {
                let must = nodes.first().is_some_and(|candidate| candidate.required);
                let taken = (*room).min(missing);
                (
                    !must,
                    usize::MAX - taken,
                    nodes.len() - taken * size,
                    *first,
                )
            })
            .map(|(at, _)| at)?;
        let (room, _, nodes) = places.swap_remove(best);
        let taken = room.min(missing);
        set.extend(nodes.into_iter().take(taken * size));
        missing -= taken;
    }
    set.sort_by_key(|candidate| candidate.node);
    Some(set)
}
