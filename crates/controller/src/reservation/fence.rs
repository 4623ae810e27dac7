//! Reservations in a scheduling pass: the free resources of reserved nodes in time, as jobs of each reservation see them.
//!
//! Jobs in no reservation and those in each reservation see a reserved node differently. The pass works on one view at a time:
//! [`Fences::enter`] puts the lines of a view in its place and parks the others; what is taken of a node is taken from the
//! parked lines too. Nodes without a reservation have one line for all. Times are seconds since the epoch. Invariant: what
//! fits into a line of a view conflicts with no reservation that keeps the view's jobs out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_model::reservation::ReservationFlags;
use sluice_model::time::UnixSeconds;

use super::{closed, job_end, keeps_out, occurrence, run_end};
use crate::cluster::{Cluster, Node, NodeAllocation, Reservation};
use crate::schedule::expected_end;
use crate::schedule::profile::{Release, Timeline};
use crate::select::ResourceRequest;
use crate::select::inventory::{CPU_SLOT, FreeView, is_held};

/// Whose view: jobs of a reservation, by number; `None` = of none.
pub type ViewKey = Option<u32>;

/// Without end.
const FOREVER: i64 = i64::MAX / 2;

/// Words that go with ReqNodeNotAvail.
pub const MAINTENANCE_TEXT: &str = "Reserved for maintenance";
/// Words that go with ReqNodeNotAvail.
pub const RESERVED_TEXT: &str = "May be reserved for other job";

/// Lines of one view by node.
type Lines = BTreeMap<usize, Timeline>;

/// The views of a pass.
#[derive(Debug, Clone)]
pub struct Fences<'a> {
    cluster: &'a Cluster,
    now: UnixSeconds,
    /// Reserved nodes, ascending.
    nodes: Vec<usize>,
    /// Nodes of which several reservations have cores.
    split: Vec<usize>,
    current: ViewKey,
    parked: BTreeMap<ViewKey, Lines>,
    /// Reservations of which a job waits in line.
    blocked: BTreeSet<u32>,
    closed_counts: BTreeMap<(usize, i64), (usize, bool)>,
}

impl<'a> Fences<'a> {
    /// The views of jobs in no reservation and in those of `keys`.
    #[must_use]
    pub fn new(
        cluster: &'a Cluster,
        view: &FreeView<'a>,
        keys: &BTreeSet<u32>,
        now: UnixSeconds,
    ) -> Self {
        let mut nodes: Vec<usize> = cluster
            .reservations
            .values()
            .flat_map(|reservation| &reservation.nodes)
            .filter_map(|reserved| cluster.node_index.get(&reserved.name))
            .map(|index| index.at())
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        let mut fences = Self {
            cluster,
            now,
            split: split_nodes(cluster, &nodes),
            nodes,
            current: None,
            parked: BTreeMap::new(),
            blocked: BTreeSet::new(),
            closed_counts: BTreeMap::new(),
        };
        if fences.nodes.is_empty() {
            return fences;
        }
        for key in std::iter::once(None).chain(keys.iter().map(|id| Some(*id))) {
            let own = key
                .and_then(|id| cluster.reservations.get(&id))
                .map(Arc::as_ref);
            let lines = fences
                .nodes
                .iter()
                .filter(|node| sees(own, view.facts[**node].name()))
                .map(|node| (*node, fences.line(view, own, *node)))
                .collect();
            fences.parked.insert(key, lines);
        }
        fences
    }

    /// No node is reserved.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Nodes of which several reservations have cores, or (`any`) all that are reserved.
    #[must_use]
    pub fn nodes_with_reserved_cores(&self, any: bool) -> Vec<usize> {
        if any {
            self.nodes.clone()
        } else {
            self.split.clone()
        }
    }

    /// Puts the lines of jobs in no reservation in their place, at the start of the pass.
    pub fn install(&mut self, lines: &mut [Option<Timeline>], booked: &mut [bool]) {
        for node in &self.nodes {
            booked[*node] = true;
        }
        self.put(None, lines);
    }

    fn put(&mut self, key: ViewKey, lines: &mut [Option<Timeline>]) {
        for (node, line) in self.parked.remove(&key).unwrap_or_default() {
            lines[node] = Some(line);
        }
        self.current = key;
    }

    /// Goes over to another view.
    pub fn enter(&mut self, key: ViewKey, lines: &mut [Option<Timeline>]) {
        if self.nodes.is_empty() || key == self.current {
            return;
        }
        let own: Lines = self
            .nodes
            .iter()
            .filter_map(|node| Some((*node, lines[*node].take()?)))
            .collect();
        self.parked.insert(self.current, own);
        self.put(key, lines);
    }

    fn own(&self) -> Option<&'a Reservation> {
        let id = self.current?;
        self.cluster.reservations.get(&id).map(Arc::as_ref)
    }

    /// Runs of the view in place may be on the node at some time.
    #[must_use]
    pub fn sees(&self, node: usize) -> bool {
        let name = self
            .cluster
            .nodes
            .get(node)
            .map(|node| node.config.name.as_str());
        name.is_some_and(|name| sees(self.own(), name))
    }

    /// When a run of the view in place ends that would end at `end` by its limit.
    #[must_use]
    pub fn clip(&self, end: i64) -> i64 {
        run_end(self.own(), end, self.now)
    }

    /// A run of the view in place may begin then: its reservation is not over.
    #[must_use]
    pub fn may_start(&self, time: i64) -> bool {
        time < run_end(self.own(), i64::MAX, self.now)
    }

    /// What was taken of a node in the view that is in place is taken from the others too.
    pub fn also_take(&mut self, node: usize, from: i64, to: i64, amounts: &[u64]) {
        if self.nodes.binary_search(&node).is_err() {
            return;
        }
        let taker = self
            .current
            .and_then(|id| self.cluster.reservations.get(&id))
            .cloned();
        let Some(record) = self.cluster.nodes.get(node) else {
            return;
        };
        for (key, lines) in &mut self.parked {
            let Some(line) = lines.get_mut(&node) else {
                continue;
            };
            let owner = key.and_then(|id| self.cluster.reservations.get(&id));
            let mut amounts = amounts.to_vec();
            if apart(
                taker.as_deref(),
                owner.map(Arc::as_ref),
                &record.config.name,
            ) {
                amounts[CPU_SLOT] = 0;
            }
            line.take(from, to, &amounts);
        }
    }

    /// CPU ids of a node that a run from now until `to` in the view in place may not have.
    #[must_use]
    pub fn hidden_cpus(&self, node: usize, to: i64) -> Vec<u32> {
        if self.nodes.binary_search(&node).is_err() {
            return Vec::new();
        }
        let Some(record) = self.cluster.nodes.get(node) else {
            return Vec::new();
        };
        let span = (self.now.0, self.clip(to));
        closed(self.cluster, self.own(), record, span, self.now).cpus
    }

    /// A job of the reservation waits in line.
    #[must_use]
    pub fn is_blocked(&self, key: ViewKey) -> bool {
        key.is_some_and(|id| self.blocked.contains(&id))
    }

    /// Later jobs of the reservation are behind one that waits.
    pub fn block(&mut self, key: ViewKey) {
        self.blocked.extend(key);
    }

    /// Whether reservations alone leave too few of `nodes` (those a class of jobs may use, ascending) for a run of `secs` seconds
    /// from now; then the words that say so.
    pub fn in_the_way(
        &mut self,
        class: usize,
        nodes: &[u32],
        request: &ResourceRequest,
        secs: i64,
    ) -> Option<&'static str> {
        let mut named: Vec<u32> = request
            .required_nodes
            .iter()
            .filter_map(|name| self.cluster.node_index.get(name))
            .map(|index| index.0)
            .collect();
        named.sort_unstable();
        // Of nodes that are named none may be closed.
        let (nodes, fewest) = if named.is_empty() {
            (nodes, request.min_nodes as usize)
        } else {
            (named.as_slice(), named.len())
        };
        let whole_nodes = request.whole_node;
        if self.nodes.is_empty() || nodes.len() < fewest {
            return None;
        }
        let (shut, maintenance) = match self.closed_counts.get(&(class, secs)) {
            Some(known) => *known,
            None => {
                let counted = self.count_closed(nodes, whole_nodes, secs);
                self.closed_counts.insert((class, secs), counted);
                counted
            }
        };
        (nodes.len() - shut < fewest).then_some(if maintenance {
            MAINTENANCE_TEXT
        } else {
            RESERVED_TEXT
        })
    }

    fn count_closed(&self, nodes: &[u32], whole_nodes: bool, secs: i64) -> (usize, bool) {
        let own = self.own();
        let (from, to) = (self.now.0, self.clip(self.now.0.saturating_add(secs)));
        let (mut shut, mut maintenance) = (0, false);
        for node in self
            .nodes
            .iter()
            .filter(|node| nodes.binary_search(&(**node as u32)).is_ok())
        {
            let Some(record) = self.cluster.nodes.get(*node) else {
                continue;
            };
            let found = closed(self.cluster, own, record, (from, to), self.now);
            if found.whole || (whole_nodes && !found.cpus.is_empty()) {
                shut += 1;
                maintenance |= self.cluster.reservations.values().any(|other| {
                    other.is(ReservationFlags::MAINT)
                        && keeps_out(other, own)
                        && other.on(&record.config.name).is_some()
                        && occurrence::touches(other, from, to, self.now)
                });
            }
        }
        (shut, maintenance)
    }

    /// What is free on a node in time for jobs of `own`.
    fn line(&self, view: &FreeView<'a>, own: Option<&Reservation>, at: usize) -> Timeline {
        let facts = &view.facts[at];
        let node = facts.node;
        let now = self.now.0;
        let own_cpus = own
            .filter(|own| !own.is(ReservationFlags::FLEX))
            .and_then(|own| own.on(facts.name()))
            .map(|reserved| reserved.cpus.as_slice())
            .filter(|cpus| !cpus.is_empty());
        let (mut free, mut total) = (view.free(at).to_vec(), view.total(at).to_vec());
        if let Some(own) = own_cpus {
            let is_free = |cpu: &&u32| {
                node.used_cpus
                    .get(**cpu as usize)
                    .is_some_and(|in_use| !in_use)
            };
            free[CPU_SLOT] = (own.iter().filter(is_free).count() as u64).min(free[CPU_SLOT]);
            total[CPU_SLOT] = own.len() as u64;
        }
        let mut releases: Vec<Release> = Vec::new();
        let mut held: Vec<(i64, Vec<u32>)> = Vec::new();
        for job in node.jobs.iter().filter_map(|id| self.cluster.job(*id)) {
            let end = job_end(self.cluster, job, expected_end(job, self.now).0, self.now);
            let Some(allocation) = &job.allocation else {
                continue;
            };
            let own_parts = |part: &&NodeAllocation| part.node.at() == at && is_held(part);
            for part in allocation.nodes.iter().filter(own_parts) {
                let mut amounts = view.amounts_of(allocation, &job.partition, part);
                // A line of all CPUs gets back what the view took, whole cores too.
                if let Some(own) = own_cpus {
                    let of_own = part.cpu_ids.iter().filter(|cpu| own.contains(cpu));
                    amounts[CPU_SLOT] = of_own.count() as u64;
                }
                releases.push((end, amounts));
                held.push((end, part.cpu_ids.clone()));
            }
        }
        // Nodes that a job elsewhere keeps empty (Exclusive=TOPO).
        if view.has_extras() {
            for job in self
                .cluster
                .holding
                .iter()
                .filter_map(|id| self.cluster.job(*id))
            {
                let Some(allocation) = &job.allocation else {
                    continue;
                };
                if view.kept_empty(allocation, &job.partition).contains(&at) {
                    let end = expected_end(job, self.now).0;
                    let end = job_end(self.cluster, job, end, self.now);
                    releases.push((end, view.total(at).to_vec()));
                }
            }
        }
        releases.sort();
        let mut line = Timeline::new(now, &free, &total, &releases);
        let everything = view.total(at).to_vec();
        let mut parts: Vec<Part> = Vec::new();
        for other in self
            .cluster
            .reservations
            .values()
            .filter(|other| keeps_out(other, own))
        {
            let Some(reserved) = other.on(facts.name()) else {
                continue;
            };
            for (start, end) in occurrence::spans(other, self.now) {
                // A run in a reservation ends with it: what comes later does not matter to it.
                if start >= run_end(own, i64::MAX, self.now) {
                    break;
                }
                let span = (start.max(now), end.min(FOREVER));
                if reserved.is_whole() {
                    line.take(span.0, span.1, &everything);
                } else {
                    let shared = reserved
                        .cpus
                        .iter()
                        .copied()
                        .filter(|cpu| own_cpus.is_none_or(|own| own.contains(cpu)));
                    parts.push((span, shared.collect()));
                }
            }
        }
        cut_cpus(&mut line, &parts, &held, everything.len());
        line
    }
}

fn split_nodes(cluster: &Cluster, nodes: &[usize]) -> Vec<usize> {
    let several = |node: &&usize| {
        let by_core = cluster.nodes.get(**node).map_or(0, |node| {
            cluster
                .reservations
                .values()
                .filter_map(|own| own.on(&node.config.name))
                .filter(|reserved| !reserved.is_whole())
                .count()
        });
        by_core > 1
    };
    nodes.iter().filter(several).copied().collect()
}

/// Jobs of `own` may be placed on the node at some time.
fn sees(own: Option<&Reservation>, node: &str) -> bool {
    own.is_none_or(|own| {
        own.is(ReservationFlags::FLEX.with(ReservationFlags::ANY_NODES)) || own.on(node).is_some()
    })
}

/// CPUs taken by jobs of `taker` are never those that the line of `owner` counts: one of the two has CPUs of its own on the node.
fn apart(taker: Option<&Reservation>, owner: Option<&Reservation>, node: &str) -> bool {
    let has_own = |of: Option<&Reservation>| {
        of.filter(|of| !of.is(ReservationFlags::FLEX))
            .and_then(|of| of.on(node))
            .is_some_and(|reserved| !reserved.is_whole())
    };
    let anywhere = |of: Option<&Reservation>| of.is_some_and(|of| of.is(ReservationFlags::FLEX));
    (has_own(owner) && !anywhere(taker)) || (has_own(taker) && !anywhere(owner))
}

/// CPU ids that are reserved in a span of time.
type Part = ((i64, i64), Vec<u32>);

/// Takes reserved CPUs out of a line: each once, however many reservations have it, and those aside that running jobs hold, which
/// are not free anyway.
fn cut_cpus(line: &mut Timeline, parts: &[Part], held: &[(i64, Vec<u32>)], width: usize) {
    let mut moments: Vec<i64> = parts
        .iter()
        .flat_map(|((start, end), _)| [*start, *end])
        .collect();
    moments.extend(held.iter().map(|(free_at, _)| *free_at));
    moments.sort_unstable();
    moments.dedup();
    for span in moments.windows(2) {
        let reserved: BTreeSet<u32> = parts
            .iter()
            .filter(|((start, end), _)| *start <= span[0] && span[1] <= *end)
            .flat_map(|(_, cpus)| cpus.iter().copied())
            .collect();
        let is_held = |cpu: &u32| {
            held.iter()
                .any(|(free_at, ids)| *free_at > span[0] && ids.contains(cpu))
        };
        let free = reserved.iter().filter(|cpu| !is_held(cpu)).count();
        if free > 0 {
            let mut amounts = vec![0; width];
            amounts[CPU_SLOT] = free as u64;
            line.take(span[0], span[1], &amounts);
        }
    }
}

/// Reservations in whose views the jobs of a pass are placed.
#[must_use]
pub fn is_open(reservation: &Reservation, now: UnixSeconds) -> bool {
    reservation.is(ReservationFlags::FLEX) || reservation.is_active(now)
}

/// The nodes of `usable` that jobs of `own` may be placed on.
#[must_use]
pub fn usable_nodes(cluster: &Cluster, own: &Reservation, usable: &[u32]) -> Vec<u32> {
    let name = |node: &u32| {
        cluster
            .nodes
            .get(*node as usize)
            .map(|node: &Arc<Node>| node.config.name.as_str())
    };
    usable
        .iter()
        .copied()
        .filter(|node| name(node).is_some_and(|name| sees(Some(own), name)))
        .collect()
}
