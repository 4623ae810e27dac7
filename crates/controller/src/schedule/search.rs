//! When and where a job will start: the earliest time at which what is free suffices for the whole of its run.
//!
//! One node: a queue of nodes by the earliest time known so far, corrected only at its head. Several nodes: the time at which
//! enough nodes have something, then change by change until the whole fits. Invariant: the answer fits around everything
//! booked, and no earlier time does (for what [`choose`] can find).

use std::cmp::Reverse;
use std::sync::Arc;

use sluice_model::time::UnixSeconds;

use super::expected_end;
use super::pass::Pass;
use super::profile::Timeline;
use crate::select::choose;
use crate::select::fit::{self, Share};
use crate::select::inventory::{amounts_of, is_held};
use crate::select::{FreeView, ResourceRequest};

/// Changes looked at one by one before the search jumps to the end of all known changes.
const MOST_CHANGES: usize = 200;

impl Pass<'_> {
    /// The earliest start of a job of a class, with what it takes. `None` = not with what is known.
    pub(super) fn find_start(&mut self, class: usize, secs: i64) -> Option<(i64, Vec<Share>)> {
        let request = Arc::clone(&self.classes[class].request);
        let from = self.classes[class].earliest(secs, self.now);
        let single = request.max_nodes == 1
            && request.required_nodes.is_empty()
            && request.constraint.as_ref().is_none_or(|c| c.counted.is_empty());
        let mut best: Option<(i64, Vec<Share>)> = None;
        for variant in 0..self.classes[class].variants.len() {
            let found = if single {
                self.find_one_node(class, variant, &request, secs, from)
            } else {
                self.find_many_nodes(class, variant, &request, secs, from)
            };
            if let Some(found) = found
                && best.as_ref().is_none_or(|(time, _)| found.0 < *time)
            {
                best = Some(found);
            }
        }
        if let Some((time, _)) = &best {
            self.classes[class].learn(secs, *time);
        }
        best
    }

    /// The line of a node, made on first use.
    pub(super) fn line(&mut self, node: usize) -> &mut Timeline {
        self.make_line(node);
        let (now, view) = (self.now, &self.view);
        self.lines[node].get_or_insert_with(|| Timeline::new(now, view.free(node), view.total(node), &[]))
    }

    fn make_line(&mut self, node: usize) {
        if self.lines[node].is_some() {
            return;
        }
        if self.releases.is_none() {
            self.releases = Some(self.collect_releases());
        }
        let releases = self.releases.as_ref().and_then(|all| all.get(node)).map_or(&[][..], Vec::as_slice);
        self.lines[node] = Some(Timeline::new(self.now, self.view.free(node), self.view.total(node), releases));
    }

    fn collect_releases(&mut self) -> Vec<Vec<(i64, Vec<u64>)>> {
        let mut releases: Vec<Vec<(i64, Vec<u64>)>> = vec![Vec::new(); self.view.facts.len()];
        for id in &self.cluster.holding {
            let Some(job) = self.cluster.jobs.get(id) else { continue };
            let Some(allocation) = &job.allocation else { continue };
            let end = expected_end(job, UnixSeconds(self.now)).0;
            for part in allocation.nodes.iter().filter(|part| is_held(part)) {
                if let (Some(list), Some(facts)) = (releases.get_mut(part.node.at()), self.view.facts.get(part.node.at())) {
                    list.push((end, amounts_of(facts.node, part)));
                }
            }
        }
        for (node, end, amounts) in self.early_starts.drain(..) {
            releases[node as usize].push((end, amounts));
        }
        for list in &mut releases {
            list.sort();
        }
        releases
    }

    fn find_one_node(
        &mut self,
        class: usize,
        variant: usize,
        request: &ResourceRequest,
        secs: i64,
        from: i64,
    ) -> Option<(i64, Vec<Share>)> {
        let all_gres: Vec<u64> = request.gres_per_job.iter().map(|gres| gres.count).collect();
        let tasks = request.placed_tasks();
        let mut amounts = Vec::new();
        let mut heap = match self.classes[class].searches.remove(&(variant, secs)) {
            Some(heap) => heap,
            None => {
                let nodes = Arc::clone(&self.classes[class].variants[variant]);
                let facts = &self.view.facts;
                nodes.iter().map(|node| Reverse((from, facts[*node as usize].weight, *node))).collect()
            }
        };
        let mut found = None;
        while let Some(Reverse((known, weight, node))) = heap.pop() {
            self.make_line(node as usize);
            let facts = &self.view.facts[node as usize];
            let Some(line) = &self.lines[node as usize] else { continue };
            let fits = |slots: &[u64]| fit::need(request, facts, slots, tasks, &all_gres, &mut amounts).is_ok();
            // A node that never fits leaves the queue.
            let Some(time) = line.first_fit(known.max(from), secs, fits) else { continue };
            heap.push(Reverse((time, weight, node)));
            if time > known {
                continue;
            }
            let mut slots = Vec::new();
            line.least(time, time.saturating_add(secs), &mut slots);
            if let Ok(memory) = fit::need(request, facts, &slots, tasks, &all_gres, &mut amounts) {
                found = Some((time, vec![Share { node, tasks, amounts: amounts.clone(), memory }]));
                break;
            }
            // Fits in every moment, yet not throughout (devices of different types): look on from the next change.
            heap.pop();
            if let Some(next) = line.next_change(time) {
                heap.push(Reverse((next, weight, node)));
            }
        }
        self.classes[class].searches.insert((variant, secs), heap);
        found
    }

    fn find_many_nodes(
        &mut self,
        class: usize,
        variant: usize,
        request: &ResourceRequest,
        secs: i64,
        from: i64,
    ) -> Option<(i64, Vec<Share>)> {
        let nodes = Arc::clone(&self.classes[class].variants[variant]);
        for node in nodes.iter() {
            self.make_line(*node as usize);
        }
        let search = Search { view: &self.view, lines: &self.lines, request, secs, floor: fit::job_gres_floor(request) };
        let mut times: Vec<Option<i64>> = nodes.iter().map(|node| search.first_fit(*node, from)).collect();
        let mut changes = 0;
        loop {
            let time = nth_smallest(&times, request.min_nodes as usize)?;
            // A node that was free earlier may not be so any more.
            let mut ready = 0;
            for (node, known) in nodes.iter().zip(&mut times) {
                if known.is_some_and(|t| t < time) {
                    *known = search.first_fit(*node, time);
                }
                ready += usize::from(*known == Some(time));
            }
            if ready < request.min_nodes as usize {
                continue;
            }
            let there: Vec<u32> =
                nodes.iter().zip(&times).filter(|(_, known)| **known == Some(time)).map(|(node, _)| *node).collect();
            if let Some(shares) = search.choose_at(&there, time) {
                return Some((time, shares));
            }
            changes += 1;
            let next_changes = nodes.iter().filter_map(|node| self.lines[*node as usize].as_ref()?.next_change(time));
            let next = if changes < MOST_CHANGES { next_changes.min()? } else { self.last_change(&nodes).filter(|t| *t > time)? };
            for (node, known) in nodes.iter().zip(&mut times) {
                if known.is_some_and(|t| t < next) {
                    *known = search.first_fit(*node, next);
                }
            }
        }
    }

    fn last_change(&self, nodes: &[u32]) -> Option<i64> {
        nodes.iter().filter_map(|node| self.lines[*node as usize].as_ref().map(Timeline::last_change)).max()
    }
}

/// A search over several nodes.
struct Search<'s> {
    view: &'s FreeView<'s>,
    lines: &'s [Option<Timeline>],
    request: &'s ResourceRequest,
    secs: i64,
    floor: Vec<u64>,
}

impl Search<'_> {
    /// First time at which a node has room for the least part of the job.
    fn first_fit(&self, node: u32, from: i64) -> Option<i64> {
        let facts = &self.view.facts[node as usize];
        let fewest = self.request.fewest_tasks_on_a_node();
        let mut scratch = Vec::new();
        self.lines[node as usize].as_ref()?.first_fit(from, self.secs, |slots| {
            fit::need(self.request, facts, slots, fewest, &self.floor, &mut scratch).is_ok()
        })
    }

    fn choose_at(&self, nodes: &[u32], time: i64) -> Option<Vec<Share>> {
        choose::choose(self.view, self.request, nodes, &mut |node: usize, out: &mut Vec<u64>| match &self.lines[node] {
            Some(line) => {
                line.least(time, time.saturating_add(self.secs), out);
                true
            }
            None => false,
        })
    }
}

/// The `n`-th smallest of the known times (n from 1).
fn nth_smallest(times: &[Option<i64>], n: usize) -> Option<i64> {
    let mut known: Vec<i64> = times.iter().filter_map(|t| *t).collect();
    let place = n.max(1) - 1;
    (place < known.len()).then(|| *known.select_nth_unstable(place).1)
}
