//! Which nodes: low weight first, fewest nodes, best fit.
//!
//! Works on availability given by a closure, so it serves the present and any time ahead. Rules: nodes of higher weight are
//! added only when those of lower weight do not suffice; jobs that use a part of a GPU node go where the fewest GPUs are left
//! free, so that whole GPU nodes stay whole; other jobs on several nodes take the smallest run of neighbours that holds them;
//! jobs without GRES stay away from GRES nodes of equal weight. Invariant: the shares together satisfy the request.
//! Source: `slurm.conf(5)` (Weight, CR_LLN), `sbatch(1)` (--contiguous, --nodelist).

use std::cmp::Reverse;

use super::fit::{self, Share};
use super::inventory::{CPU_SLOT, FreeView, NodeFacts};
use super::request::ResourceRequest;

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
type Key = (u32, u64, u64, u32);

struct Candidate {
    node: u32,
    capacity: u32,
    key: Key,
    /// Units of each per-job GRES.
    job_gres: Vec<u64>,
    available: Vec<u64>,
}

/// Chooses nodes for a job out of `nodes` (positions, ascending). `None` = it does not fit.
pub fn choose(
    view: &FreeView<'_>,
    request: &ResourceRequest,
    nodes: &[u32],
    availability: &mut impl Availability,
) -> Option<Vec<Share>> {
    let simple = request.required_nodes.is_empty() && counted(request).is_empty();
    if request.min_nodes == 1 && simple {
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
    let free = available[CPU_SLOT];
    let cpus = if request.least_loaded {
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
        if !availability.slots(node as usize, &mut slots) || slots[CPU_SLOT] == 0 {
            continue;
        }
        lowest_weight = lowest_weight.min(facts.weight);
        let key = key(request, facts, &slots);
        if best.as_ref().is_some_and(|(before, _)| *before <= key) {
            continue;
        }
        if let Ok(memory) = fit::need(request, facts, &slots, tasks, &all_gres, &mut amounts) {
            best = Some((
                key,
                Share {
                    node,
                    tasks,
                    amounts: amounts.clone(),
                    memory,
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
            capacity,
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
    // Nodes that must be part are in whatever their weight.
    let must = |c: &Candidate| {
        request
            .required_nodes
            .binary_search_by(|n| n.as_str().cmp(view.facts[c.node as usize].name()))
            .is_ok()
    };
    for weight in weights {
        let within: Vec<&Candidate> = candidates
            .iter()
            .filter(|c| c.key.0 <= weight || must(c))
            .collect();
        if let Some(shares) = pick(view, request, &within, &must) {
            return Some(shares);
        }
    }
    None
}

/// Picks nodes out of a set of candidates: the preferred ones, or where those are too full the emptiest.
fn pick(
    view: &FreeView<'_>,
    request: &ResourceRequest,
    within: &[&Candidate],
    must: &dyn Fn(&Candidate) -> bool,
) -> Option<Vec<Share>> {
    let required = within.iter().filter(|c| must(c)).count();
    if required < request.required_nodes.len() {
        return None;
    }
    let (fewest, most) = node_count(request, within, required)?;
    [
        (fewest, false),
        (fewest, true),
        (fewest + 1, true),
        (most, true),
    ]
    .into_iter()
    .filter(|(number, _)| *number <= most)
    .find_map(|(number, emptiest)| {
        let chosen = pick_number(view, request, within, must, number, emptiest)?;
        distribute(view, request, &chosen)
    })
}

/// Picks so many nodes, preferred ones or the emptiest first; ascending by position.
fn pick_number<'c>(
    view: &FreeView<'_>,
    request: &ResourceRequest,
    within: &[&'c Candidate],
    must: &dyn Fn(&Candidate) -> bool,
    number: usize,
    emptiest: bool,
) -> Option<Vec<&'c Candidate>> {
    let (mut chosen, mut others): (Vec<&Candidate>, Vec<&Candidate>) =
        within.iter().copied().partition(|c| must(c));
    let order = |candidates: Vec<&'c Candidate>, wanted: usize| {
        if emptiest && !request.contiguous {
            let mut sorted = candidates;
            sorted.sort_by_key(|c| (Reverse((c.job_gres.iter().sum::<u64>(), c.capacity)), c.key));
            return Some(sorted);
        }
        in_order(request, candidates, wanted)
    };
    for (expr, count) in counted(request) {
        let fits =
            |c: &&Candidate| expr.matches(view.facts[c.node as usize].node.effective_features());
        let have = chosen.iter().filter(|c| must(c) && fits(c)).count();
        let wanted = (*count as usize).saturating_sub(have);
        let (matching, rest): (Vec<&Candidate>, Vec<&Candidate>) =
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
    within: &[&Candidate],
    required: usize,
) -> Option<(usize, usize)> {
    let fewest = (request.min_nodes as usize).max(required);
    let with_tasks = (request.placed_tasks() / request.min_tasks_per_node.max(1)) as usize;
    let most = (request.max_nodes as usize)
        .min(within.len())
        .min(with_tasks.max(fewest));
    let top_sum = |value: &dyn Fn(&Candidate) -> u64, count: usize| -> u64 {
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

fn holds(request: &ResourceRequest, chosen: &[&Candidate]) -> bool {
    chosen.iter().map(|c| u64::from(c.capacity)).sum::<u64>() >= u64::from(request.placed_tasks())
        && request
            .gres_per_job
            .iter()
            .enumerate()
            .all(|(i, gres)| chosen.iter().map(|c| c.job_gres[i]).sum::<u64>() >= gres.count)
}

/// Candidates (ascending by position) in the order in which they are taken when `number` are wanted.
fn in_order<'c>(
    request: &ResourceRequest,
    candidates: Vec<&'c Candidate>,
    number: usize,
) -> Option<Vec<&'c Candidate>> {
    let partial_gres = request.wants_gres() && !request.whole_node;
    let mixed_weights = candidates
        .windows(2)
        .any(|pair| pair[0].key.0 != pair[1].key.0);
    let mixed_gres = !request.wants_gres()
        && candidates
            .windows(2)
            .any(|pair| pair[0].key.1 != pair[1].key.1);
    if !request.contiguous
        && (partial_gres || mixed_weights || mixed_gres || request.least_loaded || number <= 1)
    {
        let mut sorted = candidates;
        sorted.sort_by_key(|c| c.key);
        return Some(sorted);
    }
    // Runs of neighbours: the smallest that is long enough, else the longest ones first.
    let mut runs: Vec<&[&Candidate]> = candidates.chunk_by(|a, b| a.node + 1 == b.node).collect();
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
    if request.contiguous {
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
fn distribute(
    view: &FreeView<'_>,
    request: &ResourceRequest,
    chosen: &[&Candidate],
) -> Option<Vec<Share>> {
    let mut tasks_left = request.placed_tasks().max(chosen.len() as u32);
    let mut gres_left: Vec<u64> = request.gres_per_job.iter().map(|gres| gres.count).collect();
    let mut shares = Vec::with_capacity(chosen.len());
    let mut amounts = Vec::new();
    let least = |candidate: &Candidate| {
        let facts = &view.facts[candidate.node as usize];
        fit::tasks_of_a_core(request, facts)
            .min(candidate.capacity)
            .max(request.min_tasks_per_node)
    };
    let mut to_keep: u64 = chosen.iter().map(|c| u64::from(least(c))).sum();
    for (at, candidate) in chosen.iter().enumerate() {
        let facts = &view.facts[candidate.node as usize];
        let to_come = (chosen.len() - at - 1) as u32;
        to_keep -= u64::from(least(candidate));
        let kept = u32::try_from(to_keep).unwrap_or(u32::MAX);
        let tasks = tasks_left.saturating_sub(kept).clamp(1, candidate.capacity);
        let mut gres: Vec<u64> = Vec::with_capacity(gres_left.len());
        for (i, left) in gres_left.iter().enumerate() {
            let share = candidate.job_gres[i].min(left.saturating_sub(u64::from(to_come)));
            gres.push(share.max(candidate.job_gres[i].min(*left).min(1)));
        }
        // CPUs or memory that go with the GPUs may allow fewer of them than are free.
        let memory = loop {
            match fit::need(
                request,
                facts,
                &candidate.available,
                tasks,
                &gres,
                &mut amounts,
            ) {
                Ok(memory) => break memory,
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
            memory,
        });
    }
    (tasks_left == 0 && gres_left.iter().all(|left| *left == 0)).then_some(shares)
}
