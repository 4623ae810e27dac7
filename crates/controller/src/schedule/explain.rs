//! Why a job waits, found by the pass itself: the queue is served up to the job's turn, and what the pass would know then is told.
//!
//! So the expected start, the planned nodes and the reason are those of the plan, and advice is tested and not guessed: a shorter
//! limit, fewer nodes or another partition are named only when the pass would start the job with them. Costs one pass. Nothing is
//! decided here, and nothing of it is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_model::dependency::{DependencyKind, DependencyStatus};
use sluice_model::explanation::{
    Advice, AdviceKind, Blocker, BlockerKind, Explanation, NodeCause, PartitionExplanation,
    RefusedNodes,
};
use sluice_model::hostlist::collapse_sorted;
use sluice_model::ids::JobId;
use sluice_model::partition::PartitionState;
use sluice_model::reason::Reason;
use sluice_model::reservation::ReservationFlags;
use sluice_model::time::{TimeLimit, UnixSeconds, format_duration_full};

use super::order::QueueRecord;
use super::pass::{Pass, Subject};
use super::{PlanOptions, UNLIMITED_SECS, expected_end, limit_secs, time_limit_of};
use crate::cluster::{Cluster, Job, Partition};
use crate::license;
use crate::queue::eligibility::waits_for;
use crate::reservation::fence::ViewKey;
use crate::reservation::{asked_for, occurrence};
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
        licenses(cluster, job, &mut explanation);
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

/// A job that may not be considered at all: held, dependent, too early, or still cleaning up.
fn not_eligible(cluster: &Cluster, job: &Job, text: Option<String>, explanation: &mut Explanation) {
    let id = job.id;
    let release = |explanation: &mut Explanation, who: &str| {
        explanation.advice.push(Advice {
            kind: AdviceKind::Command,
            value: format!("scontrol release {id}"),
            start: None,
            text: format!("{who} can release it with \"scontrol release {id}\""),
        });
    };
    explanation.summary = match explanation.reason {
        Reason::BeginTime => {
            explanation.expected_start = job.begin_time;
            "it was asked not to start before its begin time".to_owned()
        }
        Reason::Reservation => {
            for own in asked_for(cluster, job) {
                explanation.blockers.push(Blocker {
                    kind: BlockerKind::Reservation,
                    name: own.name.clone(),
                    until: Some(own.start_at(explanation.evaluated)),
                    text: "has not begun".to_owned(),
                    ..Blocker::default()
                });
            }
            explanation.expected_start = explanation
                .blockers
                .iter()
                .filter_map(|blocker| blocker.until)
                .min();
            "its reservation has not begun".to_owned()
        }
        Reason::ReservationInvalid => "there is no reservation of the name it asks for".to_owned(),
        Reason::Cleaning => {
            "its former run is not over yet: nodes still clean up after it".to_owned()
        }
        Reason::Dependency | Reason::DependencyNeverSatisfied => {
            explanation.blockers = dependencies(cluster, job);
            if explanation.reason == Reason::Dependency {
                "it depends on other jobs".to_owned()
            } else {
                explanation.advice.push(Advice {
                    kind: AdviceKind::Command,
                    value: format!("scontrol update JobId={id} Dependency="),
                    start: None,
                    text: format!(
                        "\"scontrol update JobId={id} Dependency=\" takes the dependency away, \"scancel {id}\" ends the job"
                    ),
                });
                "it depends on a job that did not end as it should have: this can never come true"
                    .to_owned()
            }
        }
        Reason::JobHeldUser => {
            release(explanation, "its user");
            "it is held by its user".to_owned()
        }
        Reason::JobHeldAdmin => {
            release(explanation, "an administrator");
            "it is held by an administrator (its priority is 0)".to_owned()
        }
        reason => {
            release(explanation, "an administrator");
            match text {
                Some(text) => format!("it is held ({reason}): {text}"),
                None => format!("it is held ({reason})"),
            }
        }
    };
}

/// A job that waits for licences: how many are free, and who holds the others. When they come back is not known: a job that holds
/// some may end early, and others may wait for them as well.
fn licenses(cluster: &Cluster, job: &Job, explanation: &mut Explanation) {
    let now = explanation.evaluated;
    let need = license::need_of(job);
    let held = license::held(cluster);
    let short: Vec<(&str, String)> = need
        .items
        .iter()
        .filter_map(|(name, count)| {
            let total = license::total(cluster, name).unwrap_or(0);
            let free = license::available(cluster, &held, name, None, now.0 + 1, now);
            let text =
                format!("it needs {count} of licence {name}, and {free} of {total} are free");
            (free < *count).then_some((name.as_str(), text))
        })
        .collect();
    explanation.summary = if short.is_empty() {
        "its licences are promised to others before it would end".to_owned()
    } else {
        let texts: Vec<&str> = short.iter().map(|(_, text)| text.as_str()).collect();
        texts.join(if need.any { ", or " } else { "; " })
    };
    explanation.advice.clear();
    let mut found = Vec::new();
    let holders = cluster.holding.iter().filter_map(|id| cluster.job(*id));
    for holder in holders.filter(|holder| license::holds(holder)) {
        for (name, count) in &holder.licenses {
            if short.iter().any(|(short, _)| short == name) {
                let end = expected_end(holder, now);
                found.push(Blocker {
                    kind: BlockerKind::License,
                    name: name.clone(),
                    until: Some(end).filter(|end| end.0 - now.0 < UNLIMITED_SECS / 2),
                    text: format!("{count} held by job {}", holder.id),
                    ..Blocker::default()
                });
            }
        }
    }
    list_blockers(found, explanation);
}

/// The one that goes last binds and comes first; unknown ends go last of all.
fn list_blockers(mut found: Vec<Blocker>, explanation: &mut Explanation) {
    found.sort_by_key(|blocker| {
        let until = blocker.until.map_or(i64::MAX, |until| until.0);
        (
            std::cmp::Reverse(until),
            blocker.name.len(),
            blocker.name.clone(),
        )
    });
    explanation.more_blockers = found.len().saturating_sub(Explanation::MOST_BLOCKERS) as u32;
    found.truncate(Explanation::MOST_BLOCKERS);
    explanation.blockers = found;
}

/// Terms that are not fulfilled, with the state of the job that each is about.
fn dependencies(cluster: &Cluster, job: &Job) -> Vec<Blocker> {
    let open = job
        .dependency
        .terms
        .iter()
        .filter(|(_, status)| *status != DependencyStatus::Fulfilled);
    open.map(|(term, status)| {
        if term.kind == DependencyKind::Singleton {
            return Blocker {
                kind: BlockerKind::Dependency,
                text: "singleton: another job of this name and user has to end first".to_owned(),
                ..Blocker::default()
            };
        }
        let state = cluster.job(term.job).map_or_else(
            || "no longer known".to_owned(),
            |target| format!("is {}", target.state),
        );
        let failed = if *status == DependencyStatus::Failed {
            ", which does not satisfy it"
        } else {
            ""
        };
        Blocker {
            kind: BlockerKind::Dependency,
            name: term.job.to_string(),
            text: format!("{term}: the job {state}{failed}"),
            ..Blocker::default()
        }
    })
    .collect()
}

/// A rule of a partition in words, with its numbers.
fn rule_text(cluster: &Cluster, job: &Job, partition: &Partition, rule: Reason) -> String {
    let config = &partition.config;
    let name = &config.name;
    match rule {
        Reason::PartitionDown => format!("partition {name} is DOWN: it starts no jobs"),
        Reason::PartitionInactive => format!("partition {name} is INACTIVE"),
        Reason::PartitionTimeLimit => format!(
            "the time limit {} is above MaxTime={} of partition {name}",
            job.time_limit.unwrap_or(TimeLimit::Unlimited),
            config.max_time
        ),
        Reason::PartitionNodeLimit => {
            let asked = job.request.min_nodes.unwrap_or(1);
            let limits = match config.max_nodes {
                Some(most) if asked > most => format!("MaxNodes={most}"),
                _ if asked as usize > partition.nodes.len() => {
                    format!("its {} nodes", partition.nodes.len())
                }
                _ => format!("MinNodes={}", config.min_nodes),
            };
            format!("{asked} nodes do not go with {limits} of partition {name}")
        }
        Reason::AccountNotAllowed => {
            format!("account {} may not use partition {name}", job.account)
        }
        Reason::QOSNotAllowed => format!("QOS {} may not be used in partition {name}", job.qos),
        Reason::MaxMemPerLimit => {
            format!("the memory asked for is above the largest that partition {name} gives")
        }
        Reason::PartitionConfig if config.root_only => {
            format!("only root may use partition {name}")
        }
        Reason::PartitionConfig if config.req_resv => {
            format!("partition {name} takes jobs of reservations only")
        }
        _ => {
            let nodes = cluster.nodes.len();
            format!("{rule} in partition {name} (the cluster has {nodes} nodes)")
        }
    }
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
        let partition = self.grounds[record.partition].partition;
        let mut place = PartitionExplanation {
            partition: partition.config.name.clone(),
            total: partition.nodes.len() as u32,
            ..PartitionExplanation::default()
        };
        if let Some(rule) = feasible::partition_limits(self.cluster, job, partition) {
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
                && feasible::partition_limits(self.cluster, job, partition).is_none();
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

/// The cause in one sentence.
fn summary(job: &Job, explanation: &Explanation) -> String {
    let ruled: Vec<&str> = explanation
        .partitions
        .iter()
        .filter(|place| place.rule.is_some())
        .map(|place| place.text.as_str())
        .collect();
    if explanation.partitions.is_empty() {
        return "the partition it asked for does not exist any more".to_owned();
    }
    if ruled.len() == explanation.partitions.len() {
        return ruled.join("; ");
    }
    let places: Vec<&PartitionExplanation> = explanation
        .partitions
        .iter()
        .filter(|place| place.rule.is_none())
        .collect();
    let wanted = job.request.min_nodes.unwrap_or(1).max(1);
    let free = places
        .iter()
        .map(|place| place.free_count)
        .max()
        .unwrap_or(0);
    let has_promised = places
        .iter()
        .flat_map(|place| &place.refused)
        .any(|refused| refused.cause == NodeCause::Promised);
    let nodes = |count: u32| if count == 1 { "node" } else { "nodes" };
    let shortage = if free == 0 && wanted == 1 {
        "no node has room for it now".to_owned()
    } else if free < wanted {
        format!(
            "it needs {wanted} {} at once, and {free} have room now",
            nodes(wanted)
        )
    } else {
        format!(
            "{free} {} have room for a part of it, but not together for all of it",
            nodes(free)
        )
    };
    let ahead = match explanation.jobs_ahead {
        0 => String::new(),
        1 => "; 1 job is served before it".to_owned(),
        jobs => format!("; {jobs} jobs are served before it"),
    };
    let stands = |kind: BlockerKind| explanation.blockers.iter().any(|b| b.kind == kind);
    let promised = match (has_promised, stands(BlockerKind::Reservation)) {
        (false, _) => "",
        (true, true) if !stands(BlockerKind::PlannedJob) => {
            "; a reservation needs free nodes before this job would end"
        }
        (true, true) => "; nodes that are free are promised to reservations and to jobs before it",
        (true, false) => "; nodes that are free are promised to jobs before it",
    };
    format!("{shortage}{promised}{ahead}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::scenario::{EPOCH, World};
    use super::super::tests::job_words;
    use super::*;

    fn explained(scenario: &str, name: &str) -> Explanation {
        let mut world = World::new(scenario);
        for line in scenario.lines() {
            world.step(line.split('#').next().unwrap_or("").trim());
        }
        let id = world.named(name).expect("a job of the scenario");
        explain(&world.cluster, UnixSeconds(world.now), id).expect("it waits")
    }

    fn hours(time: Option<UnixSeconds>) -> Option<i64> {
        time.map(|time| (time.0 - EPOCH) / 3600)
    }

    fn causes(place: &PartitionExplanation) -> Vec<(NodeCause, &str)> {
        let refused = place.refused.iter();
        refused
            .map(|nodes| (nodes.cause, nodes.nodes.as_str()))
            .collect()
    }

    /// The head waits for what runs; a job behind it is told which limit ends before the head starts.
    #[test]
    fn behind_a_head() {
        let scenario = "nodes n[1-2] cpus=8
             running R on=n1 cpus=8 limit=1h
             job B cpus=16 limit=1h prio=900
             job D cpus=8 limit=2h prio=90";
        let head = explained(scenario, "B");
        assert_eq!(head.reason, Reason::Resources);
        assert_eq!(
            (hours(head.expected_start), head.planned_nodes.as_str()),
            (Some(1), "n[1-2]")
        );
        assert_eq!(head.jobs_ahead, 0);
        let blockers: Vec<_> = head
            .blockers
            .iter()
            .map(|b| (b.kind, b.nodes.as_str(), hours(b.until)))
            .collect();
        assert_eq!(blockers, [(BlockerKind::RunningJob, "n1", Some(1))]);
        assert_eq!(causes(&head.partitions[0]), [(NodeCause::CpusInUse, "n1")]);
        assert_eq!(
            (
                head.partitions[0].free.as_str(),
                head.partitions[0].free_count
            ),
            ("n2", 1)
        );

        let behind = explained(scenario, "D");
        assert_eq!(behind.reason, Reason::Priority);
        assert_eq!(
            (hours(behind.expected_start), behind.planned_nodes.as_str()),
            (Some(2), "n1")
        );
        assert_eq!(behind.jobs_ahead, 1);
        assert_eq!(
            causes(&behind.partitions[0]),
            [(NodeCause::CpusInUse, "n1"), (NodeCause::Promised, "n2")]
        );
        let blockers: Vec<_> = behind
            .blockers
            .iter()
            .map(|b| (b.kind, hours(b.from), hours(b.until)))
            .collect();
        assert_eq!(
            blockers,
            [
                (BlockerKind::PlannedJob, Some(1), Some(2)),
                (BlockerKind::RunningJob, None, Some(1))
            ]
        );
        // B starts after an hour: 60 minutes end in time.
        let advice: Vec<_> = behind
            .advice
            .iter()
            .map(|a| (a.kind, a.value.as_str(), a.start))
            .collect();
        assert_eq!(advice, [(AdviceKind::TimeLimit, "60", None)]);
    }

    /// Field case 032: each cause alone has its own words and node names.
    #[test]
    fn causes_of_nodes() {
        let place = |nodes: &str, job: &str| {
            let scenario =
                format!("{nodes}\n running R on=n3 cpus=4 mem=100 limit=1h\n job A nodes=3 {job}");
            let found = explained(&scenario, "A").partitions.remove(0);
            causes(&found)
                .into_iter()
                .map(|(cause, nodes)| (cause, nodes.to_owned()))
                .collect::<Vec<_>>()
        };
        let nodes = "nodes n[1-2] cpus=8 mem=1000 features=a\n nodes n[3-4] cpus=8 mem=1000 features=a,b\n nodes n5 cpus=2 mem=1000 features=a,b";
        let of = |list: &[(NodeCause, &str)]| {
            list.iter()
                .map(|(cause, nodes)| (*cause, (*nodes).to_owned()))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            place(nodes, "tasks=3 cpus-per-task=6 exclude=n4 limit=1h"),
            of(&[
                (NodeCause::Excluded, "n4"),
                (NodeCause::TooFewCpus, "n5"),
                (NodeCause::CpusInUse, "n3")
            ]),
        );
        assert_eq!(
            place(
                &format!("{nodes}\n down n2"),
                "cpus=3 limit=1h constraint=b"
            ),
            of(&[(NodeCause::OutOfService, "n2"), (NodeCause::Feature, "n1")]),
        );
    }

    /// Field case 030 in a partition: the rule is told with both numbers.
    #[test]
    fn rules_of_partitions() {
        let scenario = "nodes n[1-2] cpus=8
             partition main maxtime=2h
             partition long
             running R on=n1 cpus=8 limit=1h
             job A cpus=8 limit=3h partition=main";
        let found = explained(scenario, "A");
        assert_eq!(found.reason, Reason::PartitionTimeLimit);
        assert_eq!(
            found.summary,
            "the time limit 03:00:00 is above MaxTime=02:00:00 of partition main"
        );
        let advice: Vec<_> = found
            .advice
            .iter()
            .map(|a| (a.kind, a.value.as_str(), a.start))
            .collect();
        assert_eq!(advice, [(AdviceKind::Partition, "long", None)]);
    }

    /// Field case 030: a long job before a maintenance is told the reservation and the longest limit that ends before it.
    #[test]
    fn before_a_maintenance() {
        let scenario = "nodes n[1-2] cpus=8
             reserve upkeep nodes=n[1-2] start=121h length=4h users=root flags=MAINT
             job A cpus=8 limit=240h";
        let found = explained(scenario, "A");
        assert_eq!(found.reason, Reason::ReqNodeNotAvail);
        assert_eq!(hours(found.expected_start), Some(125));
        let blockers: Vec<_> = found
            .blockers
            .iter()
            .map(|b| (b.kind, b.name.as_str(), hours(b.from), hours(b.until)))
            .collect();
        assert_eq!(
            blockers,
            [(BlockerKind::Reservation, "upkeep", Some(121), Some(125))]
        );
        assert_eq!(
            found.summary,
            "no node has room for it now; a reservation needs free nodes before this job would end"
        );
        // 5 days and an hour.
        let advice: Vec<_> = found
            .advice
            .iter()
            .map(|a| (a.kind, a.value.as_str(), a.text.as_str()))
            .collect();
        assert_eq!(
            advice,
            [(
                AdviceKind::TimeLimit,
                "7260",
                "with a time limit of 5-01:00:00 or less it would start now in main"
            )]
        );
    }

    /// Field case 058 in words: who holds the licences, and how many there are.
    #[test]
    fn licences_in_use() {
        let scenario = "config Licenses=matlab:3
             nodes n[1-2] cpus=8
             running R on=n1 cpus=8 limit=1h licenses=matlab:2
             job A cpus=1 limit=1h licenses=matlab:2";
        let found = explained(scenario, "A");
        assert_eq!(found.reason, Reason::Licenses);
        assert_eq!(
            found.summary,
            "it needs 2 of licence matlab, and 1 of 3 are free"
        );
        let blockers: Vec<_> = found
            .blockers
            .iter()
            .map(|b| (b.kind, b.name.as_str(), hours(b.until)))
            .collect();
        assert_eq!(blockers, [(BlockerKind::License, "matlab", Some(1))]);
        assert_eq!(found.advice, []);
    }

    /// Fewer nodes that are free now are named.
    #[test]
    fn fewer_nodes() {
        let scenario = "nodes n[1-4] cpus=8
             running R on=n[1-2] cpus=16 limit=1h
             job A nodes=4 cpus=4 limit=1h";
        let found = explained(scenario, "A");
        assert_eq!(
            found.summary,
            "it needs 4 nodes at once, and 2 have room now"
        );
        let advice: Vec<_> = found
            .advice
            .iter()
            .map(|a| (a.kind, a.value.as_str()))
            .collect();
        assert_eq!(advice, [(AdviceKind::Nodes, "2")]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// What is explained is what the next pass says: the same reason and start for every job that waits for resources.
        #[test]
        fn agrees_with_the_pass(jobs in proptest::collection::vec(job_words(), 1..25)) {
            let mut world = World::new(
                "nodes n[1-2] sockets=2 cores=2 threads=2 mem=1000 features=x
                 nodes n[3-4] cpus=4 mem=800 gres=gpu:a:2,gpu:b:2 features=x,y
                 nodes n5 cpus=8 mem=2000 gres=gpu:a:4 features=y
                 partition main
                 partition fast nodes=n[3-5] tier=5",
            );
            for (at, words) in jobs.iter().enumerate() {
                world.submit(&format!("j{at}"), words);
            }
            world.pass();
            let next = super::super::plan(&world.cluster, UnixSeconds(world.now), PlanOptions::default());
            // What the next pass does not repeat is as the last one said.
            let mut notes: BTreeMap<_, _> = world.last_plan.notes.iter().cloned().collect();
            notes.extend(next.notes);
            for (id, note) in notes {
                if next.starts.iter().any(|start| start.job == id) {
                    continue;
                }
                if !matches!(note.reason, Reason::Resources | Reason::Priority) {
                    continue;
                }
                let found = explain(&world.cluster, UnixSeconds(world.now), id).expect("it waits");
                prop_assert_eq!(found.expected_start, note.expected_start, "{}", id);
                prop_assert_eq!(found.reason, note.reason, "{}", id);
            }
        }
    }
}
