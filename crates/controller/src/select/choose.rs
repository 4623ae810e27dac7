//! Which nodes: low weight first, fewest nodes, best fit.
//!
//! Works on availability given by a closure, so it serves the present and any time ahead. Rules: nodes of higher weight are
//! added only when those of lower weight do not suffice; jobs that use a part of a GPU node go where the fewest GPUs are left
//! free, so that whole GPU nodes stay whole; other jobs on several nodes take the smallest run of neighbours that holds them;
//! jobs without GRES stay away from GRES nodes of equal weight. Invariant: the shares together satisfy the request.
//! Source: `slurm.conf(5)` (Weight, CR_LLN), `sbatch(1)` (--contiguous, --nodelist).

use std::cmp::Reverse;

use sluice_model::job::Exclusive;

use super::fit::{self, Share};
use super::inventory::{CPU_SLOT, FreeView, NodeFacts};
use super::near;
use super::request::ResourceRequest;
use super::sharing::slot;

/// Fills in what is available on a node; false = nothing.
pub trait Availability {
    /// Writes the slots of a node.
    fn slots(&mut self, node: usize, out: &mut Vec<u64>) -> bool;
}

impl<F: FnMut(usize, &mut Vec<u64>) -> bool> Availability for F {
    fn slots(&mut self, node: usize, out: &mut Vec<u64>) -> bool {
        self(node, out)
    }
}

/// Order in which nodes are preferred: weight, GRES, CPUs, position.
pub(super) type Key = (u32, u64, u64, u32);

/// A node that is of use.
pub(super) struct Candidate<'v> {
    /// Position.
    pub(super) node: u32,
    facts: &'v NodeFacts<'v>,
    capacity: u32,
    /// Preferred first.
    pub(super) key: Key,
    /// It must be part.
    pub(super) required: bool,
    /// Units of each per-job GRES.
    job_gres: Vec<u64>,
    available: Vec<u64>,
}

/// Chooses nodes for a job out of `nodes` (positions, ascending). `None` = it does not fit. Shares without tasks are nodes that the
/// job keeps empty.
pub fn choose(
    view: &FreeView<'_>,
    request: &ResourceRequest,
    nodes: &[u32],
    availability: &mut impl Availability,
) -> Option<Vec<Share>> {
    if request.claim == Some(Exclusive::Topo)
        && let Some(net) = view.net(request.topology.as_deref())
    {
        return alone_in_leaves(view, net, request, nodes, availability);
    }
    choose_of(view, request, nodes, availability)
}

/// As [`choose`], in leaves of the network on which nothing else is.
fn alone_in_leaves(
    view: &FreeView<'_>,
    net: &super::topology::Net,
    request: &ResourceRequest,
    nodes: &[u32],
    availability: &mut impl Availability,
) -> Option<Vec<Share>> {
    let mut slots = Vec::new();
    let mut empty = vec![true; net.leaf_count()];
    for (leaf, empty) in (0..).zip(&mut empty) {
        *empty = net.nodes_of(leaf).iter().all(|node| {
            let facts = &view.facts[*node as usize];
            availability.slots(*node as usize, &mut slots)
                && slots[CPU_SLOT] >= u64::from(facts.cpus)
                && slots
                    .get(facts.extra_slot() + slot::JOBS)
                    .is_none_or(|jobs| *jobs >= slot::ROOM)
        });
    }
    let open: Vec<u32> = nodes
        .iter()
        .copied()
        .filter(|node| net.leaf(*node).is_none_or(|leaf| empty[leaf as usize]))
        .collect();
    let mut shares = choose_of(view, request, &open, availability)?;
    let own: Vec<usize> = shares.iter().map(|share| share.node as usize).collect();
    for leaf in net.leaves_of(&own) {
        for node in net.nodes_of(leaf) {
            if !own.contains(&(*node as usize)) {
                shares.push(Share {
                    node: *node,
                    tasks: 0,
                    amounts: view.total(*node as usize).to_vec(),
                    cpus: 0,
                    memory: 0,
                });
            }
        }
    }
    Some(shares)
}

fn choose_of(
    view: &FreeView<'_>,
    request: &ResourceRequest,
    nodes: &[u32],
    availability: &mut impl Availability,
) -> Option<Vec<Share>> {
    let simple = request.required_nodes.is_empty() && counted(request).is_empty();
    if request.min_nodes == 1 && request.wanted_nodes == 1 && simple {
        let (found, lowest_weight) = one_node(view, request, nodes, availability);
        match found {
            // A node of higher weight is only taken when those of lower weight together do not suffice.
            Some((share, weight)) if request.max_nodes == 1 || weight <= lowest_weight => {
                return Some(vec![share]);
            }
            None if request.max_nodes == 1 => return None,
            _ => {}
        }
    }
    many_nodes(view, request, nodes, availability)
}

fn counted(request: &ResourceRequest) -> &[(super::constraint::FeatureExpr, u32)] {
    request.constraint.as_ref().map_or(&[], |c| &c.counted)
}

fn key(request: &ResourceRequest, facts: &NodeFacts<'_>, available: &[u64]) -> Key {
    let free = fit::free_cpus(request, facts, available).unwrap_or(0);
    // Jobs that share go where the fewest are.
    let cpus = if let Some(room) = fit::pool_room(request, facts, available) {
        u64::MAX - room
    } else if request.least_loaded {
        u64::MAX - free
    } else {
        free
    };
    let gres = match request.gres_requests().next() {
        Some(_) => request
            .gres_requests()
            .map(|gres| fit::available_gres(facts, available, gres))
            .sum(),
        None => facts.gres_total,
    };
    if request.least_loaded {
        (facts.weight, cpus, gres, facts.index.0)
    } else {
        (facts.weight, gres, cpus, facts.index.0)
    }
}

/// The best single node for all of the job, with its weight, and the lowest weight of a node with a free CPU.
fn one_node(
    view: &FreeView<'_>,
    request: &ResourceRequest,
    nodes: &[u32],
    availability: &mut impl Availability,
) -> (Option<(Share, u32)>, u32) {
    let all_gres: Vec<u64> = request.gres_per_job.iter().map(|gres| gres.count).collect();
    let tasks = request.placed_tasks();
    let (mut slots, mut amounts) = (Vec::new(), Vec::new());
    let mut best: Option<(Key, Share)> = None;
    let mut lowest_weight = u32::MAX;
    for &node in nodes {
        let facts = &view.facts[node as usize];
        if !availability.slots(node as usize, &mut slots)
            || fit::free_cpus(request, facts, &slots).unwrap_or(0) == 0
        {
            continue;
        }
        lowest_weight = lowest_weight.min(facts.weight);
        let key = key(request, facts, &slots);
        if best.as_ref().is_some_and(|(before, _)| *before <= key) {
            continue;
        }
        if let Ok(promise) = fit::need(request, facts, &slots, tasks, &all_gres, &mut amounts) {
            best = Some((
                key,
                Share {
                    node,
                    tasks,
                    amounts: amounts.clone(),
                    cpus: promise.cpus,
                    memory: promise.memory,
                },
            ));
        }
    }
    (best.map(|(key, share)| (share, key.0)), lowest_weight)
}

fn many_nodes(
    view: &FreeView<'_>,
    request: &ResourceRequest,
    nodes: &[u32],
    availability: &mut impl Availability,
) -> Option<Vec<Share>> {
    let floor = fit::job_gres_floor(request);
    let (mut slots, mut scratch) = (Vec::new(), Vec::new());
    let mut candidates = Vec::new();
    for &node in nodes {
        let facts = &view.facts[node as usize];
        if !availability.slots(node as usize, &mut slots) {
            continue;
        }
        let Ok(capacity) = fit::capacity(request, facts, &slots, &floor, &mut scratch) else {
            continue;
        };
        candidates.push(Candidate {
            node,
            facts,
            capacity,
            required: request
                .required_nodes
                .binary_search_by(|n| n.as_str().cmp(facts.name()))
                .is_ok(),
            key: key(request, facts, &slots),
            job_gres: request
                .gres_per_job
                .iter()
                .map(|gres| fit::available_gres(facts, &slots, gres))
                .collect(),
            available: slots.clone(),
        });
    }
    if candidates.len() < request.min_nodes as usize {
        return None;
    }
    let mut weights: Vec<u32> = candidates.iter().map(|c| c.key.0).collect();
    weights.sort_unstable();
    weights.dedup();
    // Nodes are added by weight until there are as many as wanted, or at least as many as needed.
    let goals = [request.wanted_nodes, request.min_nodes];
    let goals = if goals[0] > goals[1] {
        &goals[..]
    } else {
        &goals[1..]
    };
    for goal in goals {
        for weight in &weights {
            // Nodes that must be part are in whatever their weight.
            let within: Vec<&Candidate<'_>> = candidates
                .iter()
                .filter(|c| c.key.0 <= *weight || c.required)
                .collect();
            if within.len() < *goal as usize && weights.last() != Some(weight) {
                continue;
            }
            if let Some(shares) = pick(view, request, &within, *goal as usize) {
                return Some(shares);
            }
        }
    }
    None
}

/// Picks nodes out of a set of candidates: the preferred ones, or where those are too full the emptiest.
fn pick(
    view: &FreeView<'_>,
    request: &ResourceRequest,
    within: &[&Candidate<'_>],
    goal: usize,
) -> Option<Vec<Share>> {
    let required = within.iter().filter(|c| c.required).count();
    if required < request.required_nodes.len() {
        return None;
    }
    let (fewest, most) = node_count(request, within, required)?;
    let first = fewest.max(goal.min(most));
    let net = view
        .net(request.topology.as_deref())
        .filter(|_| first > 1 && !request.spread);
    [
        (first, request.spread),
        (first, true),
        (first + 1, true),
        (most, true),
    ]
    .into_iter()
    .filter(|(number, _)| *number <= most)
    .find_map(|(number, emptiest)| {
        let mut picked = |set: &[&Candidate<'_>]| {
            let chosen = pick_number(request, set, number, emptiest, net.is_some())?;
            distribute(request, &chosen)
        };
        match net {
            Some(net) => near::in_sets(net, request, within, number, &mut picked),
            None => picked(within),
        }
    })
}

/// Picks so many nodes, preferred ones or the emptiest first; ascending by position.
fn pick_number<'s, 'c>(
    request: &ResourceRequest,
    within: &[&'s Candidate<'c>],
    number: usize,
    emptiest: bool,
    networked: bool,
) -> Option<Vec<&'s Candidate<'c>>> {
    type Set<'s, 'c> = Vec<&'s Candidate<'c>>;
    let (mut chosen, mut others): (Set<'s, 'c>, Set<'s, 'c>) =
        within.iter().copied().partition(|c| c.required);
    let order = |candidates: Set<'s, 'c>, wanted: usize| {
        // A network says which nodes are near, not their places in the list.
        if emptiest && (networked || !request.contiguous) {
            let mut sorted = candidates;
            sorted.sort_by_key(|c| (Reverse((c.job_gres.iter().sum::<u64>(), c.capacity)), c.key));
            return Some(sorted);
        }
        in_order(
            request,
            candidates,
            wanted,
            request.contiguous && !networked,
        )
    };
    for (expr, count) in counted(request) {
        let fits = |c: &&Candidate<'_>| expr.matches(c.facts.node.effective_features());
        let have = chosen.iter().filter(|c| c.required && fits(c)).count();
        let wanted = (*count as usize).saturating_sub(have);
        let (matching, rest): (Set<'s, 'c>, Set<'s, 'c>) =
            others.into_iter().partition(|c| fits(c));
        let mut matching = order(matching, wanted)?;
        if matching.len() < wanted {
            return None;
        }
        others = matching.split_off(wanted);
        chosen.extend(matching);
        others.extend(rest);
        others.sort_by_key(|c| c.node);
    }
    // Required nodes and counted ones may be more than were to be taken.
    if chosen.len() > request.max_nodes as usize {
        return None;
    }
    let missing = number.saturating_sub(chosen.len());
    let others = order(others, missing)?;
    chosen.extend(others.get(..missing)?);
    chosen.sort_by_key(|c| c.node);
    holds(request, &chosen).then_some(chosen)
}

/// Fewest nodes that can hold the job, from [`ResourceRequest::min_nodes`] on, and the most that are of use.
fn node_count(
    request: &ResourceRequest,
    within: &[&Candidate<'_>],
    required: usize,
) -> Option<(usize, usize)> {
    let fewest = (request.min_nodes as usize).max(required);
    let with_tasks = (request.placed_tasks() / request.min_tasks_per_node.max(1)) as usize;
    let most = (request.max_nodes as usize)
        .min(within.len())
        .min(with_tasks.max(fewest));
    let top_sum = |value: &dyn Fn(&Candidate<'_>) -> u64, count: usize| -> u64 {
        let mut values: Vec<u64> = within.iter().map(|c| value(c)).collect();
        values.sort_unstable_by(|a, b| b.cmp(a));
        values.iter().take(count).sum()
    };
    let suffices = |count: usize| {
        top_sum(&|c| u64::from(c.capacity), count) >= u64::from(request.placed_tasks())
            && request
                .gres_per_job
                .iter()
                .enumerate()
                .all(|(i, gres)| top_sum(&|c| c.job_gres[i], count) >= gres.count)
    };
    if fewest > most || !suffices(most) {
        return None;
    }
    // The common case first.
    if suffices(fewest) {
        return Some((fewest, most));
    }
    let (mut low, mut high) = (fewest, most);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if suffices(middle) {
            high = middle
        } else {
            low = middle
        }
    }
    Some((high, most))
}

fn holds(request: &ResourceRequest, chosen: &[&Candidate<'_>]) -> bool {
    chosen.iter().map(|c| u64::from(c.capacity)).sum::<u64>() >= u64::from(request.placed_tasks())
        && request
            .gres_per_job
            .iter()
            .enumerate()
            .all(|(i, gres)| chosen.iter().map(|c| c.job_gres[i]).sum::<u64>() >= gres.count)
}

/// Candidates (ascending by position) in the order in which they are taken when `number` are wanted.
fn in_order<'s, 'c>(
    request: &ResourceRequest,
    candidates: Vec<&'s Candidate<'c>>,
    number: usize,
    contiguous: bool,
) -> Option<Vec<&'s Candidate<'c>>> {
    let partial_gres = request.wants_gres() && !request.whole_node;
    let mixed_weights = candidates
        .windows(2)
        .any(|pair| pair[0].key.0 != pair[1].key.0);
    let mixed_gres = !request.wants_gres()
        && candidates
            .windows(2)
            .any(|pair| pair[0].key.1 != pair[1].key.1);
    let by_load = request.least_loaded || request.shared.is_some();
    if !contiguous && (partial_gres || mixed_weights || mixed_gres || by_load || number <= 1) {
        let mut sorted = candidates;
        sorted.sort_by_key(|c| c.key);
        return Some(sorted);
    }
    // Runs of neighbours: the smallest that is long enough, else the longest ones first.
    let mut runs: Vec<&[&Candidate<'_>]> =
        candidates.chunk_by(|a, b| a.node + 1 == b.node).collect();
    runs.sort_by_key(|run| {
        let enough = run.len() >= number;
        (
            !enough,
            if enough {
                run.len()
            } else {
                usize::MAX - run.len()
            },
            run[0].node,
        )
    });
    if contiguous {
        let holding = runs.iter().find(|run| {
            run.len() >= number
                && run
                    .windows(number.max(1))
                    .any(|window| holds(request, window))
        })?;
        let start = holding
            .windows(number.max(1))
            .position(|window| holds(request, window))?;
        return Some(holding[start..].to_vec());
    }
    Some(runs.concat())
}

/// Tasks node by node, each as many as fit while every node to come is left what fills a core of it; per-job GRES likewise, of
/// which one is left.
fn distribute(request: &ResourceRequest, chosen: &[&Candidate<'_>]) -> Option<Vec<Share>> {
    let mut tasks_left = request.placed_tasks().max(chosen.len() as u32);
    let mut gres_left: Vec<u64> = request.gres_per_job.iter().map(|gres| gres.count).collect();
    let mut shares = Vec::with_capacity(chosen.len());
    let mut amounts = Vec::new();
    let least = |candidate: &Candidate<'_>| {
        fit::tasks_of_a_core(request, candidate.facts)
            .min(candidate.capacity)
            .max(request.min_tasks_per_node)
    };
    let mut to_keep: u64 = chosen.iter().map(|c| u64::from(least(c))).sum();
    for (at, candidate) in chosen.iter().enumerate() {
        let facts = candidate.facts;
        let to_come = (chosen.len() - at - 1) as u32;
        to_keep -= u64::from(least(candidate));
        let kept = u32::try_from(to_keep).unwrap_or(u32::MAX);
        let mut tasks = tasks_left.saturating_sub(kept).clamp(1, candidate.capacity);
        if request.spread {
            // Evenly, yet no less than what the nodes to come cannot take.
            let later: u64 = chosen[at + 1..].iter().map(|c| u64::from(c.capacity)).sum();
            let forced = u64::from(tasks_left).saturating_sub(later) as u32;
            let even = tasks_left.div_ceil(to_come + 1);
            tasks = even.max(forced).clamp(1, candidate.capacity);
        }
        let mut gres: Vec<u64> = Vec::with_capacity(gres_left.len());
        for (i, left) in gres_left.iter().enumerate() {
            let share = candidate.job_gres[i].min(left.saturating_sub(u64::from(to_come)));
            gres.push(share.max(candidate.job_gres[i].min(*left).min(1)));
        }
        // CPUs or memory that go with the GPUs may allow fewer of them than are free.
        let promise = loop {
            match fit::need(
                request,
                facts,
                &candidate.available,
                tasks,
                &gres,
                &mut amounts,
            ) {
                Ok(promise) => break promise,
                Err(_) => {
                    let most = gres.iter_mut().max()?;
                    if *most <= 1 {
                        return None;
                    }
                    *most -= 1;
                }
            }
        };
        tasks_left = tasks_left.saturating_sub(tasks);
        for (left, given) in gres_left.iter_mut().zip(&gres) {
            *left -= given;
        }
        shares.push(Share {
            node: candidate.node,
            tasks,
            amounts: amounts.clone(),
            cpus: promise.cpus,
            memory: promise.memory,
        });
    }
    (tasks_left == 0 && gres_left.iter().all(|left| *left == 0)).then_some(shares)
}
