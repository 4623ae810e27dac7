//! One walk through the queue.
//!
//! For each record in order: may it start (partition rules, deadline), does it fit now around everything booked, and if not,
//! when and where will it? Invariant: every start and every booking is taken out of the view and the timelines at once, so
//! nothing that comes later can use it. Source: `sched_config`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_config::SchedulerKind as ConfiguredScheduler;
use sluice_model::error_code::ErrorCode;
use sluice_model::ids::JobId;
use sluice_model::reason::Reason;
use sluice_model::reservation::ReservationFlags;
use sluice_model::state::JobState;
use sluice_model::time::{TimeLimit, UnixSeconds};

use super::classes::Class;
use super::licenses::Licenses;
use super::order::{self, QueueRecord};
use super::profile::{Release, Timeline};
use super::{PlanOptions, limit_secs, time_limit_of};
use crate::cluster::{Cluster, Job, Partition, Reservation};
use crate::plan::{Plan, PlanNote};
use crate::queue::eligibility::waits_for;
use crate::reservation::fence::{self, Fences, ViewKey};
use crate::reservation::{asked_for, names_of, occurrence};
use crate::select::policy::PartitionPolicy;
use crate::select::{FreeView, ResourceRequest, SelectError, feasible, sharing};

/// A partition during the pass.
pub(super) struct Ground<'a> {
    pub(super) partition: &'a Arc<Partition>,
    pub(super) policy: PartitionPolicy,
    /// CPUs that its jobs can have at most.
    pub(super) cpus: u64,
    pub(super) all: Vec<u32>,
    pub(super) usable: Arc<Vec<u32>>,
    /// A job of it waits for resources.
    pub(super) blocked: bool,
    pub(super) classes: BTreeMap<(ViewKey, Arc<ResourceRequest>), usize>,
}

/// State of a pass.
pub(super) struct Pass<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) now: i64,
    pub(super) options: PlanOptions,
    pub(super) backfill: bool,
    pub(super) view: FreeView<'a>,
    pub(super) grounds: Vec<Ground<'a>>,
    pub(super) classes: Vec<Class>,
    /// Free resources in time, of nodes whose future was asked for.
    pub(super) lines: Vec<Option<Timeline>>,
    /// Something is booked on the node.
    pub(super) booked: Vec<bool>,
    /// What running jobs, and jobs started in this pass, give back: node → (time, amounts). Made when first needed.
    pub(super) releases: Option<Vec<Vec<Release>>>,
    /// Starts of this pass made before that: node, end, amounts.
    pub(super) early_starts: Vec<(u32, i64, Vec<u64>)>,
    /// Nodes of partitions in which a job waits for resources.
    pub(super) blocked_nodes: Vec<bool>,
    /// Nodes that the component being placed may not have: other components of its job have them.
    pub(super) shut: BTreeSet<usize>,
    /// Reserved nodes as jobs of each reservation see them.
    pub(super) fences: Fences<'a>,
    pub(super) licenses: Licenses<'a>,
    pub(super) running_tasks: BTreeMap<JobId, u32>,
    /// Tasks of an array started in this pass.
    pub(super) started_tasks: BTreeMap<JobId, usize>,
    pub(super) done: BTreeSet<JobId>,
    /// Jobs that can never run in so many of their partitions, and why.
    pub(super) hopeless: BTreeMap<JobId, (usize, String)>,
    pub(super) reservations: usize,
    /// What each waiting job has booked; kept for explanations only.
    pub(super) bookings: Option<Vec<Booking>>,
    pub(super) notes: BTreeMap<JobId, PlanNote>,
    pub(super) plan: Plan,
}

/// What a waiting job has booked.
pub(super) struct Booking {
    pub(super) job: JobId,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) nodes: Vec<u32>,
}

/// A job under consideration.
pub(super) struct Subject<'a> {
    pub(super) job: &'a Arc<Job>,
    pub(super) ground: usize,
    pub(super) class: usize,
    pub(super) limit: TimeLimit,
    pub(super) secs: i64,
    /// Reservation it is tried in.
    pub(super) reservation: ViewKey,
    /// The job does not name that reservation.
    pub(super) magnetic: bool,
}

impl<'a> Pass<'a> {
    pub(super) fn new(cluster: &'a Cluster, now: UnixSeconds, options: PlanOptions) -> Self {
        let claims = sharing::somebody_claims(cluster);
        let view = FreeView::with_claims(cluster, claims);
        let grounds = cluster
            .partitions
            .iter()
            .map(|partition| {
                let all: Vec<u32> = partition
                    .nodes
                    .iter()
                    .map(|n| n.0)
                    .filter(|n| (*n as usize) < view.facts.len())
                    .collect();
                let usable = Arc::new(
                    all.iter()
                        .copied()
                        .filter(|n| view.facts[*n as usize].usable)
                        .collect(),
                );
                let mut policy = PartitionPolicy::of(&partition.config, &cluster.config);
                policy.owners_matter = claims;
                Ground {
                    partition,
                    policy,
                    cpus: feasible::cpus_of(cluster, partition),
                    all,
                    usable,
                    blocked: false,
                    classes: BTreeMap::new(),
                }
            })
            .collect();
        let nodes = view.facts.len();
        let fences = Fences::new(cluster, &view, &reservations_wanted(cluster, now), now);
        let scheduling = &cluster.config.scheduling;
        let mut pass = Self {
            cluster,
            now: now.0,
            options,
            backfill: scheduling.kind == ConfiguredScheduler::Backfill
                && scheduling.parameters.bf_interval_secs.is_some(),
            view,
            grounds,
            classes: Vec::new(),
            lines: vec![None; nodes],
            booked: vec![false; nodes],
            releases: None,
            early_starts: Vec::new(),
            blocked_nodes: vec![false; nodes],
            shut: BTreeSet::new(),
            fences,
            licenses: Licenses::of(cluster, now),
            running_tasks: running_tasks(cluster),
            started_tasks: BTreeMap::new(),
            done: BTreeSet::new(),
            hopeless: BTreeMap::new(),
            reservations: 0,
            bookings: None,
            notes: BTreeMap::new(),
            plan: Plan::default(),
        };
        pass.fences.install(&mut pass.lines, &mut pass.booked);
        pass
    }

    pub(super) fn run(mut self) -> Plan {
        let records = self.queue();
        self.serve_until(&records, None);
        for (id, (partitions, error)) in std::mem::take(&mut self.hopeless) {
            let everywhere = self
                .cluster
                .jobs
                .get(&id)
                .is_some_and(|job| order::partitions_of(self.cluster, job).len() == partitions);
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

    /// Serves the records in order, or those in front of a job's: gives where its records begin.
    pub(super) fn serve_until(
        &mut self,
        records: &[QueueRecord<'a>],
        until: Option<JobId>,
    ) -> Option<usize> {
        let looked_at = records.len().min(self.options.max_jobs);
        let mut served = 0;
        for same_job in records[..looked_at].chunk_by(|a, b| a.job.id == b.job.id) {
            if same_job
                .first()
                .is_some_and(|record| Some(record.job.id) == until)
            {
                return Some(served);
            }
            served += same_job.len();
            self.serve(same_job);
        }
        None
    }

    /// Serves a job that is next in the queue: its records that follow each other.
    pub(super) fn serve(&mut self, same_job: &[QueueRecord<'a>]) {
        if let Some(het) = same_job.first().and_then(|record| record.job.het) {
            if het.offset == 0 && !self.done.contains(&same_job[0].job.id) {
                self.start_components(same_job[0].job);
            }
            return;
        }
        // A job in several partitions books nothing in one before it was tried in the others.
        let subjects: Vec<Subject<'a>> = same_job
            .iter()
            .filter_map(|record| self.consider(record))
            .collect();
        let books_magnetic = self.magnetic_slots();
        let waiting: Vec<(&Subject<'a>, usize)> = subjects
            .iter()
            .filter_map(|subject| Some((subject, self.start_tasks(subject)?)))
            .filter(|(subject, _)| !subject.magnetic || books_magnetic)
            .collect();
        match waiting.as_slice() {
            [(subject, _), ..] if self.done.contains(&subject.job.id) => {}
            [(subject, tasks)] => {
                self.wait(subject, *tasks, None);
            }
            several => self.wait_in_one(several),
        }
    }

    /// Records of jobs that may start, in order; the others get their note.
    pub(super) fn queue(&mut self) -> Vec<QueueRecord<'a>> {
        let cluster = self.cluster;
        let mut records = Vec::with_capacity(cluster.pending.len());
        for id in &cluster.pending {
            let Some(job) = cluster.jobs.get(id).filter(|job| job.state.is_pending()) else {
                continue;
            };
            if let Some((reason, text)) = waits_for(cluster, job, UnixSeconds(self.now)) {
                let begin = match reason {
                    Reason::BeginTime => job.begin_time,
                    Reason::Reservation => first_start(cluster, job, UnixSeconds(self.now)),
                    _ => None,
                };
                if let Some(begin) = begin {
                    self.wake_at(begin.0);
                }
                self.note(job.id, reason, text, begin, None);
                continue;
            }
            let own = order::records_of(cluster, job, UnixSeconds(self.now));
            if own.is_empty() {
                self.note(job.id, Reason::PartitionConfig, None, None, None);
            }
            records.extend(own);
        }
        order::sort(cluster, &mut records);
        records
    }

    pub(super) fn wake_at(&mut self, time: i64) {
        if time > self.now {
            let sooner = self.plan.next_wakeup.is_none_or(|at| time < at.0);
            if sooner {
                self.plan.next_wakeup = Some(UnixSeconds(time));
            }
        }
    }

    /// Notes why a job waits. Of a job in several partitions the first reason stays, and the earliest start counts.
    pub(super) fn note(
        &mut self,
        job: JobId,
        reason: Reason,
        text: Option<String>,
        start: Option<UnixSeconds>,
        nodes: Option<String>,
    ) {
        let evaluated = UnixSeconds(self.now);
        let new = PlanNote {
            reason,
            text,
            expected_start: start,
            planned_nodes: nodes,
            evaluated,
        };
        match self.notes.get_mut(&job) {
            None => {
                self.notes.insert(job, new);
            }
            Some(before) => {
                let sooner = new
                    .expected_start
                    .is_some_and(|t| before.expected_start.is_none_or(|b| t < b));
                if sooner {
                    *before = new;
                }
            }
        }
    }

    /// Tests the rules that need no resources.
    pub(super) fn consider(&mut self, record: &QueueRecord<'a>) -> Option<Subject<'a>> {
        let job = record.job;
        if self.done.contains(&job.id) || self.plan.starts.len() >= self.options.max_starts {
            return None;
        }
        let ground = &self.grounds[record.partition];
        if let Some(reason) = feasible::partition_limits(job, ground.partition, &ground.policy) {
            // What is larger than all of the partition is told as such.
            let reason = match ResourceRequest::with_policy(&job.request, &ground.policy) {
                Ok(request)
                    if reason == Reason::PartitionNodeLimit
                        && u64::from(request.num_cpus()) > ground.cpus =>
                {
                    Reason::PartitionConfig
                }
                _ => reason,
            };
            self.note(job.id, reason, None, None, None);
            return None;
        }
        let cpus = ground.cpus;
        let limit = time_limit_of(job, ground.partition);
        let reservation = record.reservation.map(|own| own.id);
        // Nobody is drawn into a reservation that would cut the run short.
        if record.magnetic
            && record
                .reservation
                .is_some_and(|own| !self.holds(own, limit))
        {
            return None;
        }
        let passed_over = !self.backfill && self.is_blocked(record.partition, reservation);
        if self.misses_deadline(job, limit) {
            return None;
        }
        if passed_over {
            self.note(job.id, Reason::Priority, None, None, None);
            return None;
        }
        match self.class_of(job, record.partition, reservation) {
            Ok(class) if u64::from(self.classes[class].request.num_cpus()) > cpus => {
                self.note(job.id, Reason::PartitionConfig, None, None, None);
                None
            }
            Ok(class)
                if feasible::has_wrong_node_count(
                    self.grounds[record.partition].partition,
                    &job.request,
                    &self.classes[class].request,
                ) =>
            {
                self.note(job.id, Reason::PartitionNodeLimit, None, None, None);
                None
            }
            Ok(class) => Some(Subject {
                job,
                ground: record.partition,
                class,
                limit,
                secs: limit_secs(limit),
                reservation,
                magnetic: record.magnetic,
            }),
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
        let Some(deadline) = job.request.deadline else {
            return false;
        };
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

    /// A job of the reservation waits in line, or (without one) of the partition.
    pub(super) fn is_blocked(&self, ground: usize, reservation: ViewKey) -> bool {
        match reservation {
            None => self.grounds[ground].blocked,
            key => self.fences.is_blocked(key),
        }
    }

    fn holds(&self, own: &Reservation, limit: TimeLimit) -> bool {
        let end = self.now.saturating_add(limit_secs(limit));
        own.is(ReservationFlags::FLEX)
            || occurrence::holds(own, self.now, end, UnixSeconds(self.now))
    }

    fn magnetic_slots(&self) -> bool {
        self.cluster
            .config
            .scheduling
            .parameters
            .bf_allow_magnetic_slot
    }

    pub(super) fn class_of(
        &mut self,
        job: &Job,
        ground: usize,
        view: ViewKey,
    ) -> Result<usize, SelectError> {
        let own = view.and_then(|id| self.cluster.reservations.get(&id));
        let place = &mut self.grounds[ground];
        let mut request = ResourceRequest::with_policy(&job.request, &place.policy)?;
        if request.max_switches.is_some() {
            let until = switches_until(self.cluster, job);
            if self.now >= until {
                request.max_switches = None;
            } else {
                let sooner = self.plan.next_wakeup.is_none_or(|at| until < at.0);
                if sooner {
                    self.plan.next_wakeup = Some(UnixSeconds(until));
                }
            }
        }
        let key = (view, Arc::new(request));
        if let Some(class) = place.classes.get(&key) {
            return Ok(*class);
        }
        let usable = match own {
            None => Arc::clone(&place.usable),
            Some(own) => Arc::new(fence::usable_nodes(self.cluster, own, &place.usable)),
        };
        let number = self.classes.len();
        let all = if own.is_none() { &place.all } else { &*usable };
        let mut class = Class::new(&self.view, Arc::clone(&key.1), all, &usable);
        class.view = view;
        self.classes.push(class);
        place.classes.insert(key, number);
        Ok(number)
    }

    /// The job can never run in one of its partitions; when that is so in all of them, it is impossible.
    pub(super) fn impossible(&mut self, job: &Job, error: &SelectError) {
        self.hopeless
            .entry(job.id)
            .or_insert_with(|| (0, error.to_string()))
            .0 += 1;
    }
}

/// Until when a job waits for few switches: the time given with `--switches`, at most max_switch_wait.
fn switches_until(cluster: &Cluster, job: &Job) -> i64 {
    let most = i64::from(cluster.config.scheduling.parameters.max_switch_wait_secs);
    let asked = job
        .request
        .extra
        .get("switches")
        .and_then(|text| text.split_once('@'))
        .and_then(|(_, time)| time.parse::<TimeLimit>().ok()?.seconds());
    let since = job.eligible_time.unwrap_or(job.submit_time);
    since.0 + asked.unwrap_or(most).min(most)
}

/// Reservations in which some pending job may be tried.
fn reservations_wanted(cluster: &Cluster, now: UnixSeconds) -> BTreeSet<u32> {
    if cluster.reservations.is_empty() {
        return BTreeSet::new();
    }
    let named: BTreeSet<&str> = cluster
        .pending
        .iter()
        .filter_map(|id| cluster.job(*id))
        .flat_map(|job| names_of(job.request.reservation.as_deref()))
        .collect();
    cluster
        .reservations
        .values()
        .filter(|own| {
            fence::is_open(own, now)
                && (own.is(ReservationFlags::MAGNETIC) || named.contains(own.name.as_str()))
        })
        .map(|own| own.id)
        .collect()
}

/// When the first of the reservations that a job names begins.
fn first_start(cluster: &Cluster, job: &Job, now: UnixSeconds) -> Option<UnixSeconds> {
    asked_for(cluster, job)
        .into_iter()
        .map(|own| own.start_at(now))
        .filter(|start| *start > now)
        .min()
}

/// Tasks of each array that run at present.
fn running_tasks(cluster: &Cluster) -> BTreeMap<JobId, u32> {
    let mut running = BTreeMap::new();
    for id in &cluster.holding {
        let Some(job) = cluster.jobs.get(id) else {
            continue;
        };
        if job.array.is_some() && matches!(job.state.base, JobState::Running | JobState::Suspended)
        {
            *running.entry(job.array_job_id()).or_default() += 1;
        }
    }
    running
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
