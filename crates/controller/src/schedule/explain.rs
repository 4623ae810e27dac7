//! Why a job waits, found by the pass itself: the queue is served up to the job's turn, and what the pass would know then is told.
//!
//! So the expected start, the planned nodes and the reason are those of the plan, and advice is tested and not guessed: a shorter
//! limit, fewer nodes or another partition are named only when the pass would start the job with them. Costs one pass. Nothing is
//! decided here, and nothing of it is kept.

mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_model::explanation::{
    Advice, AdviceKind, Blocker, BlockerKind, Explanation, NodeCause, PartitionExplanation,
    RefusedNodes,
};
use sluice_model::hostlist::collapse_sorted;
use sluice_model::ids::JobId;
use sluice_model::partition::PartitionState;
use sluice_model::reason::Reason;
use sluice_model::reservation::ReservationFlags;
use sluice_model::time::{UnixSeconds, format_duration_full};

use self::words::{licenses, list_blockers, not_eligible, rule_text, summary};
use super::order::QueueRecord;
use super::pass::{Pass, Subject};
use super::{PlanOptions, UNLIMITED_SECS, expected_end, limit_secs, time_limit_of};
use crate::cluster::{Cluster, Job};
use crate::queue::eligibility::waits_for;
use crate::reservation::fence::ViewKey;
use crate::reservation::occurrence;
use crate::select::fit::{self, Share, Shortage};
use crate::select::inventory::is_held;
use crate::select::{Refusal, feasible, node_filters};

/// Smaller numbers of nodes that are tried.
const MOST_SIZES: u32 = 32;

/// Explains why a pending job waits. `None` = there is no such job, or it does not wait.
#[must_use]
pub fn explain(cluster: &Cluster, now: UnixSeconds, id: JobId) -> Option<Explanation> {
    let job = cluster.jobs.get(&id).filter(|job| job.state.is_pending())?;
    let mut explanation = Explanation {
        job_id: id,
        evaluated: now,
        ..Explanation::default()
    };
    if let Some((reason, text)) = waits_for(cluster, job, now) {
        explanation.reason = reason;
        not_eligible(cluster, job, text, &mut explanation);
        return Some(explanation);
    }
    let mut pass = Pass::new(cluster, now, PlanOptions::default());
    pass.bookings = Some(Vec::new());
    let records = pass.queue();
    // Components are served at the turn of the first.
    let turn = job.het.map_or(id, |het| het.leader);
    let own: Vec<QueueRecord<'_>> = records
        .iter()
        .filter(|record| record.job.id == id)
        .cloned()
        .collect();
    let partitions: BTreeSet<usize> = own.iter().map(|record| record.partition).collect();
    let mut best: Option<(i64, Vec<Share>)> = None;
    let mut tried_in: ViewKey = None;
    let mut is_first = true;
    let mut served = 0;
    // A job in several partitions may have its turn at several places of the queue.
    while let Some(at) = pass.serve_until(&records[served..], Some(turn)) {
        let begin = served + at;
        let of_turn = records[begin..]
            .iter()
            .take_while(|record| record.job.id == turn)
            .count();
        let now_served = if turn == id {
            &records[begin..begin + of_turn]
        } else {
            &own
        };
        if is_first {
            explanation.jobs_ahead = pass.jobs_ahead(&records[..begin], &partitions);
        }
        for record in now_served.iter().filter(|record| !record.magnetic) {
            let (place, found) = pass.explain_in(record);
            let reason = match (&place.rule, &found) {
                (Some(rule), _) => *rule,
                (None, Some(found)) => pass.cause(&found.subject),
                (None, None) => Reason::Resources,
            };
            explanation.partitions.push(place);
            let start = found.as_ref().and_then(|found| found.start.clone());
            let is_sooner = start
                .as_ref()
                .is_some_and(|(time, _)| best.as_ref().is_none_or(|(known, _)| time < known));
            if is_first || is_sooner {
                explanation.reason = reason;
                tried_in = record.reservation.map(|own| own.id);
            }
            if is_sooner {
                best = start;
            }
            if let Some(found) = found {
                pass.advise_size(job, &found.subject, &mut explanation.advice);
            }
            is_first = false;
        }
        if turn != id {
            break;
        }
        pass.serve(&records[begin..begin + of_turn]);
        served = begin + of_turn;
    }
    if is_first {
        explanation.reason = Reason::PartitionConfig;
    }
    if explanation.reason == Reason::Licenses {
        licenses(cluster, job, tried_in, &mut explanation);
        return Some(explanation);
    }
    if let Some((time, shares)) = &best {
        if time - now.0 < UNLIMITED_SECS / 2 {
            explanation.expected_start = Some(UnixSeconds(*time));
            explanation.planned_nodes = pass.names(shares.iter().map(|share| share.node));
        }
        pass.blockers(*time, shares, &mut explanation);
    }
    let planned = best.map(|(time, _)| time);
    pass.advise_partitions(job, &partitions, planned, &mut explanation);
    explanation.summary = summary(job, &explanation);
    Some(explanation)
}

/// A job in a partition that would take it, and what it would book there.
struct Found<'a> {
    subject: Subject<'a>,
    start: Option<(i64, Vec<Share>)>,
}

impl<'a> Pass<'a> {
    fn names(&self, nodes: impl IntoIterator<Item = u32>) -> String {
        let names: Vec<&str> = nodes
            .into_iter()
            .map(|node| self.view.facts[node as usize].name())
            .collect();
        collapse_sorted(names)
    }

    /// Jobs of the records that are served first in one of the partitions and wait as well.
    fn jobs_ahead(&self, records: &[QueueRecord<'a>], partitions: &BTreeSet<usize>) -> u32 {
        let ahead: BTreeSet<JobId> = records
            .iter()
            .filter(|record| partitions.contains(&record.partition))
            .map(|record| record.job.id)
            .filter(|ahead| !self.done.contains(ahead))
            .collect();
        ahead.len() as u32
    }

    /// The job in one of its partitions: the partition's rules, else its nodes and the earliest start there.
    fn explain_in(
        &mut self,
        record: &QueueRecord<'a>,
    ) -> (PartitionExplanation, Option<Found<'a>>) {
        let job = record.job;
        let ground = &self.grounds[record.partition];
        let partition = ground.partition;
        let mut place = PartitionExplanation {
            partition: partition.config.name.clone(),
            total: partition.nodes.len() as u32,
            ..PartitionExplanation::default()
        };
        if let Some(rule) = feasible::partition_limits(job, partition, &ground.policy) {
            place.rule = Some(rule);
            place.text = rule_text(self.cluster, job, partition, rule);
            return (place, None);
        }
        let reservation = record.reservation.map(|own| own.id);
        let subject = match self.subject(job, record.partition, reservation) {
            Ok(subject) => subject,
            Err(text) => {
                place.rule = Some(Reason::BadConstraints);
                place.text = text;
                return (place, None);
            }
        };
        self.sort_nodes(&subject, &mut place);
        let start = self.find_start(subject.class, subject.secs);
        place.expected_start = start
            .as_ref()
            .filter(|(time, _)| time - self.now < UNLIMITED_SECS / 2)
            .map(|(time, _)| UnixSeconds(*time));
        (place, Some(Found { subject, start }))
    }

    /// The job as the pass would look at it in a partition; an error says why it can never run there.
    fn subject(
        &mut self,
        job: &'a Arc<Job>,
        ground: usize,
        reservation: ViewKey,
    ) -> Result<Subject<'a>, String> {
        let partition = self.grounds[ground].partition;
        let class = self
            .class_of(job, ground, reservation)
            .map_err(|error| error.to_string())?;
        let request = Arc::clone(&self.classes[class].request);
        feasible::can_ever_run_in(self.cluster, partition, &request, &self.view)
            .map_err(|error| error.to_string())?;
        let limit = time_limit_of(job, partition);
        Ok(Subject {
            job,
            ground,
            class,
            limit,
            secs: limit_secs(limit),
            reservation,
            magnetic: false,
        })
    }

    /// Puts each node of the partition where it belongs: room for a part of the job, or why not.
    fn sort_nodes(&mut self, subject: &Subject<'a>, place: &mut PartitionExplanation) {
        self.fences
            .enter(self.classes[subject.class].view, &mut self.lines);
        let request = &self.classes[subject.class].request;
        let floor = fit::job_gres_floor(request);
        let end = self.now.saturating_add(subject.secs);
        let (mut scratch, mut slots) = (Vec::new(), Vec::new());
        let mut free = Vec::new();
        let mut refused: BTreeMap<NodeCause, Vec<u32>> = BTreeMap::new();
        let filters = node_filters(request);
        for node in &self.grounds[subject.ground].all {
            let facts = &self.view.facts[*node as usize];
            let refusals: Vec<Refusal> = filters
                .iter()
                .map_while(|filter| filter.refuses(facts))
                .collect();
            let cause = if refusals.len() == filters.len() {
                Some(match refusals.first() {
                    Some(Refusal::Excluded) => NodeCause::Excluded,
                    Some(Refusal::Feature) => NodeCause::Feature,
                    _ => NodeCause::OutOfService,
                })
            } else {
                let at = *node as usize;
                if !self.fences.sees(at) {
                    refused.entry(NodeCause::Promised).or_default().push(*node);
                    continue;
                }
                let mut short = |slots: &[u64]| {
                    fit::capacity(request, facts, slots, &floor, &mut scratch).err()
                };
                if let Some(short) = short(self.view.total(at)) {
                    Some(match short {
                        Shortage::Cpus => NodeCause::TooFewCpus,
                        Shortage::Memory => NodeCause::TooLittleMemory,
                        Shortage::Gres => NodeCause::TooFewGres,
                        Shortage::Geometry | Shortage::InUse => NodeCause::Geometry,
                    })
                } else if let Some(short) = short(self.view.free(at)) {
                    Some(match short {
                        Shortage::Cpus => NodeCause::CpusInUse,
                        Shortage::Memory => NodeCause::MemoryInUse,
                        Shortage::Gres => NodeCause::GresInUse,
                        Shortage::Geometry | Shortage::InUse => NodeCause::InUse,
                    })
                } else if let Some(line) = self.lines[at].as_ref().filter(|_| self.booked[at]) {
                    line.least(self.now, end, &mut slots);
                    short(&slots).map(|_| NodeCause::Promised)
                } else {
                    None
                }
            };
            match cause {
                Some(cause) => refused.entry(cause).or_default().push(*node),
                None => free.push(*node),
            }
        }
        place.free_count = free.len() as u32;
        place.free = self.names(free);
        place.refused = refused
            .into_iter()
            .map(|(cause, nodes)| RefusedNodes {
                cause,
                count: nodes.len() as u32,
                nodes: self.names(nodes),
            })
            .collect();
    }

    /// Who has the planned nodes until then: jobs that run on them, and jobs that have booked them before.
    fn blockers(&self, time: i64, shares: &[Share], explanation: &mut Explanation) {
        let planned: BTreeSet<u32> = shares.iter().map(|share| share.node).collect();
        let mut found = Vec::new();
        if time > self.now {
            for id in &self.cluster.holding {
                let Some(job) = self.cluster.jobs.get(id) else {
                    continue;
                };
                let held: Vec<u32> = job
                    .allocation
                    .iter()
                    .flat_map(|allocation| &allocation.nodes)
                    .filter(|part| is_held(part) && planned.contains(&part.node.0))
                    .map(|part| part.node.0)
                    .collect();
                let end = expected_end(job, UnixSeconds(self.now));
                if held.is_empty() || end.0 > time {
                    continue;
                }
                found.push(Blocker {
                    kind: BlockerKind::RunningJob,
                    name: id.to_string(),
                    nodes: self.names(held),
                    from: None,
                    until: Some(end).filter(|end| end.0 - self.now < UNLIMITED_SECS / 2),
                    text: format!("is {}", job.state),
                });
            }
        }
        for booking in self.bookings.iter().flatten() {
            let shared: Vec<u32> = booking
                .nodes
                .iter()
                .copied()
                .filter(|node| planned.contains(node))
                .collect();
            let own = booking.job == explanation.job_id;
            if own || shared.is_empty() || booking.start >= time {
                continue;
            }
            found.push(Blocker {
                kind: BlockerKind::PlannedJob,
                name: booking.job.to_string(),
                nodes: self.names(shared),
                from: Some(UnixSeconds(booking.start)),
                until: Some(UnixSeconds(booking.end))
                    .filter(|end| end.0 - self.now < UNLIMITED_SECS / 2),
                text: "is served first".to_owned(),
            });
        }
        for own in self.cluster.reservations.values() {
            let reserved: Vec<u32> = own
                .nodes
                .iter()
                .filter_map(|node| self.cluster.node_index.get(&node.name))
                .map(|index| index.0)
                .filter(|node| planned.contains(node))
                .collect();
            let spans = occurrence::spans(own, UnixSeconds(self.now));
            if let Some((start, end)) = spans.into_iter().rfind(|(_, end)| *end <= time)
                && !reserved.is_empty()
            {
                found.push(Blocker {
                    kind: BlockerKind::Reservation,
                    name: own.name.clone(),
                    nodes: self.names(reserved),
                    from: Some(UnixSeconds(start)).filter(|start| start.0 > self.now),
                    until: Some(UnixSeconds(end)),
                    text: if own.is(ReservationFlags::MAINT) {
                        "maintenance".to_owned()
                    } else {
                        "kept for others".to_owned()
                    },
                });
            }
        }
        list_blockers(found, explanation);
    }

    fn fits_now(&mut self, subject: &Subject<'a>) -> bool {
        self.choose_now(subject).is_some()
    }

    /// A shorter limit or fewer nodes with which the pass would start the job now.
    fn advise_size(&mut self, job: &'a Arc<Job>, subject: &Subject<'a>, advice: &mut Vec<Advice>) {
        if self.fits_now(subject) {
            return;
        }
        let name = &self.grounds[subject.ground].partition.config.name;
        let within = |minutes: i64| Subject {
            secs: minutes * 60,
            ..*subject
        };
        // Fits for `low` minutes, does not for `high`.
        let (mut low, mut high) = (1, subject.secs / 60);
        if high > 1 && self.fits_now(&within(low)) {
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if self.fits_now(&within(middle)) {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            let limit = format_duration_full(low * 60);
            advice.push(Advice {
                kind: AdviceKind::TimeLimit,
                value: low.to_string(),
                start: None,
                text: format!("with a time limit of {limit} or less it would start now in {name}"),
            });
        }
        let nodes = self.classes[subject.class].request.min_nodes;
        let step = nodes.div_ceil(MOST_SIZES).max(1);
        let mut fewer = nodes.saturating_sub(step);
        while fewer >= 1 {
            let mut smaller = Job::clone(job);
            let request = Arc::make_mut(&mut smaller.request);
            request.min_nodes = Some(fewer);
            request.max_nodes = Some(fewer);
            request.ntasks = request
                .ntasks
                .map(|tasks| tasks.saturating_mul(fewer).div_ceil(nodes).max(fewer));
            if let Ok(class) = self.class_of(&smaller, subject.ground, subject.reservation)
                && self.fits_now(&Subject { class, ..*subject })
            {
                let name = &self.grounds[subject.ground].partition.config.name;
                advice.push(Advice {
                    kind: AdviceKind::Nodes,
                    value: fewer.to_string(),
                    start: None,
                    text: format!(
                        "on {fewer} instead of {nodes} nodes it would start now in {name}"
                    ),
                });
                break;
            }
            fewer = fewer.saturating_sub(step);
        }
    }

    /// Partitions that the job did not name and could use, in which it would start sooner.
    fn advise_partitions(
        &mut self,
        job: &'a Arc<Job>,
        own: &BTreeSet<usize>,
        planned: Option<i64>,
        explanation: &mut Explanation,
    ) {
        // A reservation is tied to its nodes.
        let bound = job.het.is_some() || job.request.reservation.is_some();
        if bound || planned.is_some_and(|time| time <= self.now) {
            return;
        }
        for ground in 0..self.grounds.len() {
            let partition = self.grounds[ground].partition;
            let config = &partition.config;
            let is_open = config.state == PartitionState::Up
                && !config.hidden
                && config.allow_groups.is_none()
                && !own.contains(&ground)
                && feasible::partition_limits(job, partition, &self.grounds[ground].policy)
                    .is_none();
            if !is_open {
                continue;
            }
            let Ok(subject) = self.subject(job, ground, None) else {
                continue;
            };
            let start = if self.fits_now(&subject) {
                self.now
            } else {
                match self.find_start(subject.class, subject.secs) {
                    Some((time, _)) => time,
                    None => continue,
                }
            };
            if planned.is_some_and(|time| start >= time) || start - self.now >= UNLIMITED_SECS / 2 {
                continue;
            }
            let name = config.name.clone();
            let when = if start <= self.now { "now" } else { "sooner" };
            explanation.advice.push(Advice {
                kind: AdviceKind::Partition,
                text: format!("in partition {name} it would start {when}"),
                value: name,
                start: Some(UnixSeconds(start)).filter(|start| start.0 > self.now),
            });
        }
    }
}

#[cfg(test)]
mod tests;
