//! One walk through the queue.
//!
//! For each record in order: may it start (partition rules, deadline), does it fit now around everything booked, and if not,
//! when and where will it? Invariant: every start and every booking is taken out of the view and the timelines at once, so
//! nothing that comes later can use it. Source: scheduling reference 1.3 and 2.1.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_config::SchedulerKind as ConfiguredScheduler;
use sluice_model::error_code::ErrorCode;
use sluice_model::hostlist::collapse_sorted;
use sluice_model::ids::JobId;
use sluice_model::reason::Reason;
use sluice_model::state::JobState;
use sluice_model::time::{TimeLimit, UnixSeconds};

use super::classes::Class;
use super::order::{self, QueueRecord};
use super::{PlanOptions, UNLIMITED_SECS, limit_secs, time_limit_of};
use crate::cluster::{Allocation, Cluster, Job, Partition};
use crate::plan::{Plan, PlanNote, PlannedStart, SchedulerKind};
use crate::queue::eligibility::waits_for;
use crate::schedule::profile::Timeline;
use crate::select::policy::PartitionPolicy;
use crate::select::{FreeView, ResourceRequest, SelectError, assign, choose, feasible};

/// Words that go with Resources when nodes are out of service.
const NODES_OUT_TEXT: &str = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions";
/// A planned start does not ask for a new pass sooner than this: what it waits for wakes the planner itself.
const PLANNED_WAKEUP_SECS: i64 = 30;

/// A partition during the pass.
struct Ground<'a> {
    partition: &'a Arc<Partition>,
    policy: PartitionPolicy,
    all: Vec<u32>,
    usable: Arc<Vec<u32>>,
    /// A job of it waits for resources.
    blocked: bool,
    classes: BTreeMap<Arc<ResourceRequest>, usize>,
}

/// State of a pass.
pub(super) struct Pass<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) now: i64,
    options: PlanOptions,
    backfill: bool,
    pub(super) view: FreeView<'a>,
    grounds: Vec<Ground<'a>>,
    pub(super) classes: Vec<Class>,
    /// Free resources in time, of nodes whose future was asked for.
    pub(super) lines: Vec<Option<Timeline>>,
    /// Something is booked on the node.
    booked: Vec<bool>,
    /// What running jobs, and jobs started in this pass, give back: node → (time, amounts). Made when first needed.
    pub(super) releases: Option<Vec<Vec<(i64, Vec<u64>)>>>,
    /// Starts of this pass made before that: node, end, amounts.
    pub(super) early_starts: Vec<(u32, i64, Vec<u64>)>,
    /// Nodes of partitions in which a job waits for resources.
    blocked_nodes: Vec<bool>,
    running_tasks: BTreeMap<JobId, u32>,
    /// Tasks of an array started in this pass.
    started_tasks: BTreeMap<JobId, usize>,
    done: BTreeSet<JobId>,
    /// Jobs that can never run in so many of their partitions, and why.
    hopeless: BTreeMap<JobId, (usize, String)>,
    reservations: usize,
    notes: BTreeMap<JobId, PlanNote>,
    plan: Plan,
}

/// A job under consideration.
struct Subject<'a> {
    job: &'a Arc<Job>,
    ground: usize,
    class: usize,
    limit: TimeLimit,
    secs: i64,
}

impl<'a> Pass<'a> {
    pub(super) fn new(cluster: &'a Cluster, now: UnixSeconds, options: PlanOptions) -> Self {
        let view = FreeView::of(cluster);
        let grounds = cluster
            .partitions
            .iter()
            .map(|partition| {
                let all: Vec<u32> = partition.nodes.iter().map(|n| n.0).filter(|n| (*n as usize) < view.facts.len()).collect();
                let usable = Arc::new(all.iter().copied().filter(|n| view.facts[*n as usize].usable).collect());
                let policy = PartitionPolicy::of(&partition.config, &cluster.config);
                Ground { partition, policy, all, usable, blocked: false, classes: BTreeMap::new() }
            })
            .collect();
        let nodes = view.facts.len();
        let scheduling = &cluster.config.scheduling;
        Self {
            cluster,
            now: now.0,
            options,
            backfill: scheduling.kind == ConfiguredScheduler::Backfill && scheduling.parameters.bf_interval_secs.is_some(),
            view,
            grounds,
            classes: Vec::new(),
            lines: vec![None; nodes],
            booked: vec![false; nodes],
            releases: None,
            early_starts: Vec::new(),
            blocked_nodes: vec![false; nodes],
            running_tasks: running_tasks(cluster),
            started_tasks: BTreeMap::new(),
            done: BTreeSet::new(),
            hopeless: BTreeMap::new(),
            reservations: 0,
            notes: BTreeMap::new(),
            plan: Plan::default(),
        }
    }

    pub(super) fn run(mut self) -> Plan {
        let records = self.queue();
        let looked_at = records.len().min(self.options.max_jobs);
        for same_job in records[..looked_at].chunk_by(|a, b| a.job.id == b.job.id) {
            // A job in several partitions books nothing in one before it was tried in the others.
            let subjects: Vec<Subject<'a>> = same_job.iter().filter_map(|record| self.consider(record)).collect();
            let waiting: Vec<(&Subject<'a>, usize)> =
                subjects.iter().filter_map(|subject| Some((subject, self.start_tasks(subject)?))).collect();
            for (subject, tasks) in waiting {
                if !self.done.contains(&subject.job.id) {
                    self.wait(subject, tasks);
                }
            }
        }
        for (id, (partitions, error)) in std::mem::take(&mut self.hopeless) {
            let everywhere = self.cluster.jobs.get(&id).is_some_and(|job| order::partitions_of(self.cluster, job).len() == partitions);
            if everywhere && self.done.insert(id) {
                self.plan.impossible.push((id, error));
            }
        }
        for (id, note) in self.notes {
            if !self.done.contains(&id) && is_news(self.cluster, id, &note) {
                self.plan.notes.push((id, note));
            }
        }
        self.plan
    }

    /// Records of jobs that may start, in order; the others get their note.
    fn queue(&mut self) -> Vec<QueueRecord<'a>> {
        let cluster = self.cluster;
        let mut records = Vec::with_capacity(cluster.pending.len());
        for id in &cluster.pending {
            let Some(job) = cluster.jobs.get(id).filter(|job| job.state.is_pending()) else { continue };
            if let Some((reason, text)) = waits_for(cluster, job, UnixSeconds(self.now)) {
                let begin = job.begin_time.filter(|_| reason == Reason::BeginTime);
                if let Some(begin) = begin {
                    self.wake_at(begin.0);
                }
                self.note(job.id, reason, text, begin, None);
                continue;
            }
            let partitions = order::partitions_of(cluster, job);
            if partitions.is_empty() {
                self.note(job.id, Reason::PartitionConfig, None, None, None);
            }
            records.extend(partitions.into_iter().map(|partition| QueueRecord { job, partition }));
        }
        order::sort(cluster, &mut records);
        records
    }

    fn wake_at(&mut self, time: i64) {
        if time > self.now {
            let sooner = self.plan.next_wakeup.is_none_or(|at| time < at.0);
            if sooner {
                self.plan.next_wakeup = Some(UnixSeconds(time));
            }
        }
    }

    /// Notes why a job waits. Of a job in several partitions the first reason stays, and the earliest start counts.
    fn note(
        &mut self,
        job: JobId,
        reason: Reason,
        text: Option<String>,
        start: Option<UnixSeconds>,
        nodes: Option<String>,
    ) {
        let evaluated = UnixSeconds(self.now);
        let new = PlanNote { reason, text, expected_start: start, planned_nodes: nodes, evaluated };
        match self.notes.get_mut(&job) {
            None => {
                self.notes.insert(job, new);
            }
            Some(before) => {
                let sooner = new.expected_start.is_some_and(|t| before.expected_start.is_none_or(|b| t < b));
                if sooner {
                    *before = new;
                }
            }
        }
    }

    /// Tests the rules that need no resources.
    fn consider(&mut self, record: &QueueRecord<'a>) -> Option<Subject<'a>> {
        let job = record.job;
        if self.done.contains(&job.id) || self.plan.starts.len() >= self.options.max_starts {
            return None;
        }
        let ground = &self.grounds[record.partition];
        if let Some(reason) = feasible::partition_limits(self.cluster, job, ground.partition) {
            self.note(job.id, reason, None, None, None);
            return None;
        }
        let limit = time_limit_of(job, ground.partition);
        let passed_over = !self.backfill && ground.blocked;
        if self.misses_deadline(job, limit) {
            return None;
        }
        if passed_over {
            self.note(job.id, Reason::Priority, None, None, None);
            return None;
        }
        match self.class_of(job, record.partition) {
            Ok(class) => Some(Subject { job, ground: record.partition, class, limit, secs: limit_secs(limit) }),
            Err(error) if error.code == ErrorCode::InvalidTaskMemory => {
                self.note(job.id, Reason::MaxMemPerLimit, None, None, None);
                None
            }
            Err(error) => {
                self.impossible(job, &error);
                None
            }
        }
    }

    /// A job whose deadline cannot be met any more ends.
    fn misses_deadline(&mut self, job: &Job, limit: TimeLimit) -> bool {
        let Some(deadline) = job.request.deadline else { return false };
        // Without a limit the deadline itself is what bounds the run.
        let shortest = job.request.time_min.unwrap_or(limit).seconds().unwrap_or(0);
        let latest_start = deadline.0.saturating_sub(shortest);
        if self.now > latest_start || self.now >= deadline.0 {
            self.plan.missed_deadline.push(job.id);
            self.done.insert(job.id);
            return true;
        }
        self.wake_at(latest_start + 1);
        false
    }

    fn class_of(&mut self, job: &Job, ground: usize) -> Result<usize, SelectError> {
        let place = &mut self.grounds[ground];
        let request = ResourceRequest::with_policy(&job.request, &place.policy)?;
        if let Some(class) = place.classes.get(&request) {
            return Ok(*class);
        }
        let request = Arc::new(request);
        let class = self.classes.len();
        self.classes.push(Class::new(&self.view, Arc::clone(&request), &place.all, &place.usable));
        place.classes.insert(request, class);
        Ok(class)
    }

    /// The job can never run in one of its partitions; when that is so in all of them, it is impossible.
    fn impossible(&mut self, job: &Job, error: &SelectError) {
        self.hopeless.entry(job.id).or_insert_with(|| (0, error.to_string())).0 += 1;
    }

    /// Starts the job, or as many tasks of the array as fit. Gives how many starts may be booked for what is left, or `None` if
    /// there is nothing left to start.
    fn start_tasks(&mut self, subject: &Subject<'a>) -> Option<usize> {
        let job: &'a Job = subject.job;
        if self.done.contains(&job.id) {
            return None;
        }
        let throttle = job.array.as_ref().map_or(0, |array| array.pending.throttle);
        let unstarted = job.array.as_ref().filter(|_| job.is_array_master()).map(|array| &array.pending.tasks);
        let started = self.started_tasks.get(&job.id).copied().unwrap_or(0);
        let mut left = unstarted.map_or(1, |tasks| tasks.len()).saturating_sub(started);
        let mut tasks = unstarted.into_iter().flat_map(|tasks| tasks.iter()).skip(started);
        while left > 0 {
            let running = self.running_tasks.get(&job.array_job_id()).copied().unwrap_or(0);
            if throttle > 0 && running >= throttle {
                self.note(job.id, Reason::JobArrayTaskLimit, None, None, None);
                return None;
            }
            if self.plan.starts.len() >= self.options.max_starts {
                return None;
            }
            let Some((allocation, scheduler)) = self.start_now(subject) else {
                let room = if throttle > 0 { (throttle - running) as usize } else { usize::MAX };
                return Some(left.min(room));
            };
            self.plan.starts.push(PlannedStart {
                job: job.id,
                array_task: tasks.next(),
                partition: self.grounds[subject.ground].partition.config.name.clone(),
                allocation,
                time_limit: subject.limit,
                scheduler,
            });
            left -= 1;
            if job.array.is_some() {
                *self.running_tasks.entry(job.array_job_id()).or_default() += 1;
                *self.started_tasks.entry(job.id).or_default() += 1;
            }
        }
        self.done.insert(job.id);
        None
    }

    /// Places a job on what is free from now until its end.
    fn start_now(&mut self, subject: &Subject<'a>) -> Option<(Allocation, SchedulerKind)> {
        let class = &self.classes[subject.class];
        if subject.secs >= class.full_from_secs || !class.unavailable.is_empty() {
            return None;
        }
        let request = Arc::clone(&class.request);
        let variants = class.variants.clone();
        let (now, end) = (self.now, self.now.saturating_add(subject.secs));
        let (view, lines, booked, strict, blocked) =
            (&self.view, &self.lines, &self.booked, !self.backfill, &self.blocked_nodes);
        let mut around_bookings = |node: usize, out: &mut Vec<u64>| {
            if strict && blocked[node] {
                return false;
            }
            match lines[node].as_ref().filter(|_| booked[node]) {
                Some(line) => line.least(now, end, out),
                None => {
                    out.clear();
                    out.extend_from_slice(view.free(node));
                }
            }
            true
        };
        let shares = variants.iter().find_map(|nodes| choose::choose(view, &request, nodes, &mut around_bookings));
        let allocation = shares.as_ref().and_then(|shares| assign::assign(&mut self.view, &request, shares));
        let (Some(shares), Some(allocation)) = (shares, allocation) else {
            self.remember_full(subject, &request, &variants);
            return None;
        };
        let behind = self.grounds[subject.ground].blocked || shares.iter().any(|s| self.blocked_nodes[s.node as usize]);
        for share in &shares {
            let node = share.node as usize;
            if let Some(line) = &mut self.lines[node] {
                line.take(now, end, &share.amounts);
            } else if let Some(releases) = &mut self.releases {
                insert_release(&mut releases[node], end, share.amounts.clone());
            }
        }
        if self.releases.is_none() {
            // Kept for the day the future of these nodes is asked for.
            self.early_starts.extend(shares.into_iter().map(|share| (share.node, end, share.amounts)));
        }
        Some((allocation, if behind { SchedulerKind::Backfill } else { SchedulerKind::Main }))
    }

    /// A class that does not fit even without what is booked is out for every length of job.
    fn remember_full(&mut self, subject: &Subject<'a>, request: &ResourceRequest, variants: &[Arc<Vec<u32>>]) {
        let view = &self.view;
        let mut free = |node: usize, out: &mut Vec<u64>| {
            out.clear();
            out.extend_from_slice(view.free(node));
            true
        };
        let booked = self.reservations > 0;
        let fits_unbooked = booked && variants.iter().any(|nodes| choose::choose(view, request, nodes, &mut free).is_some());
        let class = &mut self.classes[subject.class];
        class.full_from_secs = if fits_unbooked { class.full_from_secs.min(subject.secs) } else { 0 };
    }

    /// The job does not start now: finds out why and until when, and books `tasks` starts.
    fn wait(&mut self, subject: &Subject<'a>, tasks: usize) {
        let job = subject.job;
        let ground = &self.grounds[subject.ground];
        let partition = ground.partition;
        let class = &mut self.classes[subject.class];
        let request = Arc::clone(&class.request);
        let verdict =
            class.feasible.get_or_insert_with(|| feasible::can_ever_run(self.cluster, partition, &request)).clone();
        if let Err(error) = verdict {
            self.impossible(job, &error);
            return;
        }
        if !class.unavailable.is_empty() {
            let nodes = collapse_sorted(class.unavailable.iter());
            self.note(job.id, Reason::ReqNodeNotAvail, Some(format!("UnavailableNodes:{nodes}")), None, None);
            return;
        }
        if class.usable_nodes() < request.min_nodes as usize {
            self.note(job.id, Reason::Resources, Some(NODES_OUT_TEXT.to_owned()), None, None);
            return;
        }
        let reason = if ground.blocked { Reason::Priority } else { Reason::Resources };
        let per_array = self.cluster.config.scheduling.parameters.bf_max_job_array_resv.max(1) as usize;
        let mut first = None;
        for _ in 0..tasks.min(per_array) {
            if self.reservations >= self.options.max_reservations {
                break;
            }
            let Some((time, shares)) = self.find_start(subject.class, subject.secs) else { break };
            self.book(time, subject.secs, &shares);
            if first.is_none() {
                let names: Vec<&str> = shares.iter().map(|s| self.view.facts[s.node as usize].name()).collect();
                first = Some((time, collapse_sorted(names)));
            }
        }
        if first.is_none() && self.reservations < self.options.max_reservations {
            // What is in service will never do.
            self.note(job.id, Reason::Resources, Some(NODES_OUT_TEXT.to_owned()), None, None);
            return;
        }
        // Behind a run without limit nothing is known.
        let first = first.filter(|(time, _)| time - self.now < UNLIMITED_SECS / 2);
        let (start, nodes) = first.map_or((None, None), |(time, nodes)| (Some(UnixSeconds(time)), Some(nodes)));
        if let Some(start) = start {
            self.wake_at(start.0.max(self.now + PLANNED_WAKEUP_SECS));
        }
        self.note(job.id, reason, None, start, nodes);
        self.block(subject.ground, &request);
    }

    /// Later jobs of the partition are behind this one. A job that names its nodes stands in the way on those only.
    fn block(&mut self, ground: usize, request: &ResourceRequest) {
        let named = !request.required_nodes.is_empty() && request.required_nodes.len() >= request.min_nodes as usize;
        if named {
            for name in &request.required_nodes {
                if let Some(index) = self.cluster.node_index.get(name.as_str()) {
                    self.blocked_nodes[index.at()] = true;
                }
            }
        } else if !self.grounds[ground].blocked {
            self.grounds[ground].blocked = true;
            for node in self.grounds[ground].usable.iter() {
                self.blocked_nodes[*node as usize] = true;
            }
        }
    }

    fn book(&mut self, time: i64, secs: i64, shares: &[crate::select::fit::Share]) {
        self.reservations += 1;
        for share in shares {
            let node = share.node as usize;
            self.line(node).take(time, time.saturating_add(secs), &share.amounts);
            self.booked[node] = true;
        }
    }
}

/// Tasks of each array that run at present.
fn running_tasks(cluster: &Cluster) -> BTreeMap<JobId, u32> {
    let mut running = BTreeMap::new();
    for id in &cluster.holding {
        let Some(job) = cluster.jobs.get(id) else { continue };
        if job.array.is_some() && matches!(job.state.base, JobState::Running | JobState::Suspended) {
            *running.entry(job.array_job_id()).or_default() += 1;
        }
    }
    running
}

fn insert_release(releases: &mut Vec<(i64, Vec<u64>)>, time: i64, amounts: Vec<u64>) {
    let at = releases.partition_point(|(t, _)| *t <= time);
    releases.insert(at, (time, amounts));
}

/// Notes that say what the last pass said are not repeated until they are half a minute old.
fn is_news(cluster: &Cluster, id: JobId, note: &PlanNote) -> bool {
    cluster.plan_notes.get(&id).is_none_or(|before| {
        let same = before.reason == note.reason
            && before.text == note.text
            && before.expected_start == note.expected_start
            && before.planned_nodes == note.planned_nodes;
        !same || note.evaluated.since(before.evaluated) >= 30
    })
}
