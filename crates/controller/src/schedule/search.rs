//! When and where a job will start: the earliest time at which what is free suffices for the whole of its run.
//!
//! One node: a queue of nodes by the earliest time known so far, corrected only at its head. Several nodes: the time at which
//! enough nodes have something, then change by change until the whole fits. Invariant: the answer fits around everything
//! booked, and no earlier time does (for what [`choose`] can find).

use std::cmp::Reverse;
use std::sync::Arc;

use sluice_model::job::Exclusive;
use sluice_model::time::UnixSeconds;

use super::expected_end;
use super::pass::Pass;
use super::profile::{Release, Timeline};
use crate::reservation::job_end;
use crate::select::choose;
use crate::select::fit::{self, Share};
use crate::select::inventory::is_held;
use crate::select::{FreeView, ResourceRequest};

/// Changes looked at one by one before the search jumps to the end of all known changes.
const MOST_CHANGES: usize = 200;

impl Pass<'_> {
    /// The earliest start of a job of a class, with what it takes. `None` = not with what is known.
    pub(super) fn find_start(&mut self, class: usize, secs: i64) -> Option<(i64, Vec<Share>)> {
        self.fences.enter(self.classes[class].view, &mut self.lines);
        let request = Arc::clone(&self.classes[class].request);
        let from = self.classes[class].earliest(secs, self.now);
        let single = request.max_nodes == 1
            && request.claim != Some(Exclusive::Topo)
            && request.required_nodes.is_empty()
            && request
                .constraint
                .as_ref()
                .is_none_or(|c| c.counted.is_empty());
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

    /// The earliest start from `from` on, as [`Self::find_start`] finds it. Nothing is kept of it.
    pub(super) fn earliest_from(&mut self, class: usize, secs: i64, from: i64) -> Option<i64> {
        self.fences.enter(self.classes[class].view, &mut self.lines);
        let request = Arc::clone(&self.classes[class].request);
        let variants = self.classes[class].variants.clone();
        variants
            .iter()
            .filter_map(|nodes| {
                for node in nodes.iter() {
                    self.make_line(*node as usize);
                }
                let mut times = Times {
                    exact: vec![false; nodes.len()],
                    known: vec![Some(from); nodes.len()],
                };
                self.search(&request, secs).run(nodes, &mut times, from)
            })
            .map(|(time, _)| time)
            .min()
    }

    /// What the job would take at `time`, without the nodes that are shut. The lines of the class are made.
    pub(super) fn choose_then(&mut self, class: usize, secs: i64, time: i64) -> Option<Vec<Share>> {
        self.fences.enter(self.classes[class].view, &mut self.lines);
        let class = &self.classes[class];
        class.variants.iter().find_map(|nodes| {
            let open: Vec<u32> = nodes
                .iter()
                .copied()
                .filter(|node| !self.shut.contains(&(*node as usize)))
                .collect();
            self.search(&class.request, secs).choose_at(&open, time)
        })
    }

    /// When something changes next after `time` on the nodes of the classes; `far` = when it does for the last time.
    pub(super) fn next_change(&self, classes: &[usize], time: i64, far: bool) -> Option<i64> {
        let lines = classes
            .iter()
            .flat_map(|class| &self.classes[*class].variants)
            .flat_map(|nodes| nodes.iter())
            .filter_map(|node| self.lines[*node as usize].as_ref());
        if far {
            lines
                .map(Timeline::last_change)
                .max()
                .filter(|last| *last > time)
        } else {
            lines.filter_map(|line| line.next_change(time)).min()
        }
    }

    fn search<'s>(&'s self, request: &'s ResourceRequest, secs: i64) -> Search<'s> {
        Search {
            view: &self.view,
            lines: &self.lines,
            request,
            secs,
            fewest: request.fewest_tasks_on_a_node(),
            floor: fit::job_gres_floor(request),
        }
    }

    /// The line of a node, made on first use.
    pub(super) fn line(&mut self, node: usize) -> &mut Timeline {
        self.make_line(node);
        let (now, view) = (self.now, &self.view);
        self.lines[node]
            .get_or_insert_with(|| Timeline::new(now, view.free(node), view.total(node), &[]))
    }

    fn make_line(&mut self, node: usize) {
        if self.lines[node].is_some() {
            return;
        }
        if self.releases.is_none() {
            self.releases = Some(self.collect_releases());
        }
        let releases = self
            .releases
            .as_ref()
            .and_then(|all| all.get(node))
            .map_or(&[][..], Vec::as_slice);
        self.lines[node] = Some(Timeline::new(
            self.now,
            self.view.free(node),
            self.view.total(node),
            releases,
        ));
    }

    fn collect_releases(&mut self) -> Vec<Vec<Release>> {
        let mut releases: Vec<Vec<Release>> = vec![Vec::new(); self.view.facts.len()];
        for id in &self.cluster.holding {
            let Some(job) = self.cluster.jobs.get(id) else {
                continue;
            };
            let Some(allocation) = &job.allocation else {
                continue;
            };
            let now = UnixSeconds(self.now);
            let end = job_end(self.cluster, job, expected_end(job, now).0, now);
            for part in allocation.nodes.iter().filter(|part| is_held(part)) {
                if let Some(list) = releases.get_mut(part.node.at()) {
                    let amounts = self.view.amounts_of(allocation, &job.partition, part);
                    list.push((end, amounts));
                }
            }
            for node in self.view.kept_empty(allocation, &job.partition) {
                releases[node].push((end, self.view.total(node).to_vec()));
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
        let key = (variant, secs);
        let mut heap = match self.classes[class].searches.remove(&key) {
            None => {
                self.classes[class].searches.insert(key, None);
                return self.scan_one_node(class, variant, request, secs, from);
            }
            Some(None) => {
                let nodes = Arc::clone(&self.classes[class].variants[variant]);
                let facts = &self.view.facts;
                nodes
                    .iter()
                    .map(|node| Reverse((from, facts[*node as usize].weight, *node)))
                    .collect()
            }
            Some(Some(heap)) => heap,
        };
        let all_gres: Vec<u64> = request.gres_per_job.iter().map(|gres| gres.count).collect();
        let tasks = request.placed_tasks();
        let (mut amounts, mut slots) = (Vec::new(), Vec::new());
        let mut found = None;
        while let Some(Reverse((known, weight, node))) = heap.pop() {
            self.make_line(node as usize);
            let facts = &self.view.facts[node as usize];
            let Some(line) = &self.lines[node as usize] else {
                continue;
            };
            let fits = |slots: &[u64]| {
                fit::need(request, facts, slots, tasks, &all_gres, &mut amounts).is_ok()
            };
            // A node that never fits leaves the queue.
            let Some(time) = line.first_fit(known.max(from), secs, fits) else {
                continue;
            };
            if time > known {
                heap.push(Reverse((time, weight, node)));
                continue;
            }
            line.least(time, time.saturating_add(secs), &mut slots);
            if let Ok(promise) = fit::need(request, facts, &slots, tasks, &all_gres, &mut amounts) {
                heap.push(Reverse((time, weight, node)));
                found = Some((
                    time,
                    vec![Share {
                        node,
                        tasks,
                        amounts,
                        cpus: promise.cpus,
                        memory: promise.memory,
                    }],
                ));
                break;
            }
            // Fits in every moment, yet not throughout (devices of different types): look on from the next change.
            if let Some(next) = line.next_change(time) {
                heap.push(Reverse((next, weight, node)));
            }
        }
        self.classes[class].searches.insert(key, Some(heap));
        found
    }

    /// A search that is made once: node by node, none further than the best so far.
    fn scan_one_node(
        &mut self,
        class: usize,
        variant: usize,
        request: &ResourceRequest,
        secs: i64,
        from: i64,
    ) -> Option<(i64, Vec<Share>)> {
        let all_gres: Vec<u64> = request.gres_per_job.iter().map(|gres| gres.count).collect();
        let tasks = request.placed_tasks();
        let (mut amounts, mut slots) = (Vec::new(), Vec::new());
        let mut best: Option<(i64, u32, u32)> = None;
        let nodes = Arc::clone(&self.classes[class].variants[variant]);
        for node in nodes.iter() {
            self.make_line(*node as usize);
            let facts = &self.view.facts[*node as usize];
            let Some(line) = &self.lines[*node as usize] else {
                continue;
            };
            let mut start = from;
            // A node of lower weight wins at the same time.
            let limit = best.map_or(i64::MAX, |(time, weight, _)| {
                if facts.weight < weight {
                    time + 1
                } else {
                    time
                }
            });
            let time = loop {
                let fits = |slots: &[u64]| {
                    fit::need(request, facts, slots, tasks, &all_gres, &mut amounts).is_ok()
                };
                let Some(time) = line.first_fit_before(start, secs, limit, fits) else {
                    break None;
                };
                line.least(time, time.saturating_add(secs), &mut slots);
                if fit::need(request, facts, &slots, tasks, &all_gres, &mut amounts).is_ok() {
                    break Some(time);
                }
                let Some(next) = line.next_change(time) else {
                    break None;
                };
                start = next;
            };
            if let Some(time) = time {
                best = Some((time, facts.weight, *node));
            }
        }
        let (time, _, node) = best?;
        let facts = &self.view.facts[node as usize];
        self.lines[node as usize]
            .as_ref()?
            .least(time, time.saturating_add(secs), &mut slots);
        let promise = fit::need(request, facts, &slots, tasks, &all_gres, &mut amounts).ok()?;
        Some((
            time,
            vec![Share {
                node,
                tasks,
                amounts,
                cpus: promise.cpus,
                memory: promise.memory,
            }],
        ))
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
        let key = (variant, secs);
        let known = self.classes[class].bounds.get_mut(&key).map(Option::take);
        let again = known.is_some();
        let times = known
            .flatten()
            .unwrap_or_else(|| vec![Some(from); nodes.len()]);
        let mut times = Times {
            exact: vec![false; nodes.len()],
            known: times,
        };
        let found = self.search(request, secs).run(&nodes, &mut times, from);
        // Most lengths come up once: the second search of a kind keeps what it learns.
        self.classes[class]
            .bounds
            .insert(key, again.then_some(times.known));
        found
    }
}

/// A search over several nodes.
struct Search<'s> {
    view: &'s FreeView<'s>,
    lines: &'s [Option<Timeline>],
    request: &'s ResourceRequest,
    secs: i64,
    fewest: u32,
    floor: Vec<u64>,
}

/// What is known about the first times of the nodes of a search.
struct Times {
    /// Not before this; `None` = never.
    known: Vec<Option<i64>>,
    /// It is exactly that time.
    exact: Vec<bool>,
}

impl Search<'_> {
    /// The earliest time from `from` on at which the job as a whole fits. What it leaves in `times` holds for later jobs of the
    /// kind: they cannot start before this one.
    fn run(&self, nodes: &[u32], times: &mut Times, mut from: i64) -> Option<(i64, Vec<Share>)> {
        let wanted = self.request.min_nodes as usize;
        let mut scratch = Vec::new();
        let mut changes = 0;
        loop {
            let time = nth_smallest(&times.known, wanted)?.max(from);
            // Nodes that may be ready: find out. One that was free earlier may not be so any more.
            let mut ready = 0;
            for (at, node) in nodes.iter().enumerate() {
                let Some(known) = times.known[at].filter(|known| *known <= time) else {
                    continue;
                };
                if known < time || !times.exact[at] {
                    times.known[at] = self.first_fit(*node, time, &mut scratch);
                    times.exact[at] = true;
                }
                ready += usize::from(times.known[at] == Some(time));
            }
            if ready < wanted {
                continue;
            }
            let there: Vec<u32> = nodes
                .iter()
                .zip(&times.known)
                .filter(|(_, known)| **known == Some(time))
                .map(|(node, _)| *node)
                .collect();
            if let Some(shares) = self.choose_at(&there, time) {
                return Some((time, shares));
            }
            changes += 1;
            let lines = || {
                nodes
                    .iter()
                    .filter_map(|node| self.lines[*node as usize].as_ref())
            };
            from = if changes < MOST_CHANGES {
                lines().filter_map(|line| line.next_change(time)).min()?
            } else {
                lines()
                    .map(Timeline::last_change)
                    .max()
                    .filter(|last| *last > time)?
            };
        }
    }

    /// First time at which a node has room for the least part of the job.
    fn first_fit(&self, node: u32, from: i64, scratch: &mut Vec<u64>) -> Option<i64> {
        let facts = &self.view.facts[node as usize];
        self.lines[node as usize]
            .as_ref()?
            .first_fit(from, self.secs, |slots| {
                fit::need(
                    self.request,
                    facts,
                    slots,
                    self.fewest,
                    &self.floor,
                    scratch,
                )
                .is_ok()
            })
    }

    fn choose_at(&self, nodes: &[u32], time: i64) -> Option<Vec<Share>> {
        choose::choose(
            self.view,
            self.request,
            nodes,
            &mut |node: usize, out: &mut Vec<u64>| match &self.lines[node] {
                Some(line) => {
                    line.least(time, time.saturating_add(self.secs), out);
                    true
                }
                None => false,
            },
        )
    }
}

/// The `n`-th smallest of the known times (n from 1).
fn nth_smallest(times: &[Option<i64>], n: usize) -> Option<i64> {
    let mut known: Vec<i64> = times.iter().filter_map(|t| *t).collect();
    let place = n.max(1) - 1;
    (place < known.len()).then(|| *known.select_nth_unstable(place).1)
}
