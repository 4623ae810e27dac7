//! Serving one job: it starts now on what is free, or books the earliest time at which it can.
//!
//! Part of the walk in [`super::pass`]. Invariant: what is started or booked is taken out of the view and the timelines before
//! the next job is looked at.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_model::hostlist::collapse_sorted;
use sluice_model::reason::Reason;
use sluice_model::time::UnixSeconds;

use super::UNLIMITED_SECS;
use super::pass::{Booking, Pass, Subject};
use super::profile::Release;
use crate::cluster::{Allocation, Job};
use crate::license::Counts;
use crate::plan::{PlannedStart, SchedulerKind};
use crate::select::fit::Share;
use crate::select::inventory::CPU_SLOT;
use crate::select::{ResourceRequest, assign, choose, feasible};

/// Words that go with Resources when nodes are out of service.
const NODES_OUT_TEXT: &str =
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions";
/// Nodes found unfit, one by one, before a job waits.
const MOST_TRIES: usize = 64;
/// A planned start does not ask for a new pass sooner than this: what it waits for wakes the planner itself.
const PLANNED_WAKEUP_SECS: i64 = 30;
/// Times tried at which both nodes and licences may suffice.
const MOST_LICENSE_TIMES: usize = 100;

impl<'a> Pass<'a> {
    /// Starts the job, or as many tasks of the array as fit. Gives how many starts may be booked for what is left, or `None` if
    /// there is nothing left to start.
    pub(super) fn start_tasks(&mut self, subject: &Subject<'a>) -> Option<usize> {
        let job: &'a Job = subject.job;
        if self.done.contains(&job.id) {
            return None;
        }
        let throttle = job.array.as_ref().map_or(0, |array| array.pending.throttle);
        let unstarted = job
            .array
            .as_ref()
            .filter(|_| job.is_array_master())
            .map(|array| &array.pending.tasks);
        let started = self.started_tasks.get(&job.id).copied().unwrap_or(0);
        let mut left = unstarted
            .map_or(1, |tasks| tasks.len())
            .saturating_sub(started);
        let mut tasks = unstarted
            .into_iter()
            .flat_map(|tasks| tasks.iter())
            .skip(started);
        while left > 0 {
            let running = self
                .running_tasks
                .get(&job.array_job_id())
                .copied()
                .unwrap_or(0);
            if throttle > 0 && running >= throttle {
                self.note(job.id, Reason::JobArrayTaskLimit, None, None, None);
                return None;
            }
            if self.plan.starts.len() >= self.options.max_starts {
                return None;
            }
            let Some((allocation, scheduler, licenses)) = self.start_now(subject) else {
                let room = if throttle > 0 {
                    (throttle - running) as usize
                } else {
                    usize::MAX
                };
                return Some(left.min(room));
            };
            self.plan.starts.push(PlannedStart {
                job: job.id,
                array_task: tasks.next(),
                partition: self.grounds[subject.ground].partition.config.name.clone(),
                allocation,
                time_limit: subject.limit,
                scheduler,
                reservation: subject.reservation,
                licenses,
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
    fn start_now(&mut self, subject: &Subject<'a>) -> Option<(Allocation, SchedulerKind, Counts)> {
        let licenses = self.licenses.choose_now(subject)?;
        let mut taken = None;
        for _ in 0..MOST_TRIES {
            let Some(shares) = self.choose_now(subject) else {
                break;
            };
            match self.take_now(subject, shares) {
                Ok(start) => {
                    taken = Some(start);
                    break;
                }
                // What is free there does not lie as the job needs it.
                Err(node) => {
                    self.shut.insert(node as usize);
                }
            }
        }
        let tried = !self.shut.is_empty();
        self.shut.clear();
        if taken.is_none() && tried {
            self.remember_full(subject);
        }
        let (allocation, scheduler) = taken?;
        self.licenses.take(subject, self.now, &licenses);
        Some((allocation, scheduler, licenses))
    }

    /// Where the job could run on what is free from now until its end, without the nodes that are shut.
    pub(super) fn choose_now(&mut self, subject: &Subject<'a>) -> Option<Vec<Share>> {
        let class = &self.classes[subject.class];
        self.fences.enter(class.view, &mut self.lines);
        if subject.secs >= class.full_from_secs || !class.unavailable.is_empty() {
            return None;
        }
        let request = Arc::clone(&class.request);
        let variants = class.variants.clone();
        let preferred = class.preferred.clone();
        let caps = self.cpus_throughout(subject);
        let (now, end) = (self.now, self.now.saturating_add(subject.secs));
        let (view, lines, booked, strict, blocked, shut) = (
            &self.view,
            &self.lines,
            &self.booked,
            !self.backfill,
            &self.blocked_nodes,
            &self.shut,
        );
        let mut around_bookings = |node: usize, out: &mut Vec<u64>| {
            if (strict && blocked[node]) || shut.contains(&node) {
                return false;
            }
            match lines[node].as_ref().filter(|_| booked[node]) {
                Some(line) => {
                    line.least(now, end, out);
                    if let Some(cap) = caps.get(&node) {
                        out[CPU_SLOT] = out[CPU_SLOT].min(*cap);
                    }
                }
                None => {
                    out.clear();
                    out.extend_from_slice(view.free(node));
                }
            }
            true
        };
        let shares = preferred
            .iter()
            .flat_map(|(request, lists)| lists.iter().map(move |nodes| (request, nodes)))
            .chain(variants.iter().map(|nodes| (&request, nodes)))
            .find_map(|(request, nodes)| {
                choose::choose(view, request, nodes, &mut around_bookings)
            });
        if shares.is_none() && self.shut.is_empty() {
            self.remember_full(subject);
        }
        shares
    }

    /// Takes what was chosen for the job from now until its end. An error names a node on which the job cannot be after all.
    pub(super) fn take_now(
        &mut self,
        subject: &Subject<'a>,
        mut shares: Vec<Share>,
    ) -> Result<(Allocation, SchedulerKind), u32> {
        let request = Arc::clone(&self.classes[subject.class].request);
        self.fences
            .enter(self.classes[subject.class].view, &mut self.lines);
        let now = self.now;
        let end = self.fences.clip(now.saturating_add(subject.secs));
        let hidden = self.hide_cpus(&shares, end);
        let allocation = assign::assign(&mut self.view, &request, &mut shares);
        self.show_cpus(&hidden);
        let allocation = allocation?;
        let behind = self.is_blocked(subject.ground, subject.reservation)
            || shares.iter().any(|s| self.blocked_nodes[s.node as usize]);
        for share in &shares {
            let node = share.node as usize;
            self.fences.also_take(node, now, end, &share.amounts);
            if let Some(line) = &mut self.lines[node] {
                line.take(now, end, &share.amounts);
            } else if let Some(releases) = &mut self.releases {
                insert_release(&mut releases[node], end, share.amounts.clone());
            }
        }
        if self.releases.is_none() {
            // Kept for the day the future of these nodes is asked for.
            self.early_starts.extend(
                shares
                    .into_iter()
                    .map(|share| (share.node, end, share.amounts)),
            );
        }
        Ok((
            allocation,
            if behind {
                SchedulerKind::Backfill
            } else {
                SchedulerKind::Main
            },
        ))
    }

    /// Nodes with several core reservations, and how many CPUs are free and in none of them for the whole of a run from now:
    /// counted one by one, since at each moment there may be more.
    fn cpus_throughout(&mut self, subject: &Subject<'a>) -> BTreeMap<usize, u64> {
        let end = self.fences.clip(self.now.saturating_add(subject.secs));
        let shares = self.classes[subject.class].request.shared.is_some();
        let nodes = self.fences.nodes_with_reserved_cores(shares);
        nodes
            .into_iter()
            .map(|node| {
                let hidden = self.fences.hidden_cpus(node, end);
                // CPUs that jobs share are not chosen around reserved ones.
                if shares && !hidden.is_empty() {
                    return (node, 0);
                }
                let threads = self.view.facts[node].threads.max(1) as usize;
                let bits = self.view.bits(node);
                let free = bits.cpus.chunks(threads).enumerate().filter(|(core, ids)| {
                    let reserved = |id: usize| hidden.contains(&((core * threads + id) as u32));
                    ids.iter().all(|free| *free) && !(0..ids.len()).any(reserved)
                });
                (node, free.map(|(_, ids)| ids.len() as u64).sum())
            })
            .collect()
    }

    /// Hides CPUs that are reserved for others from the choice; gives those that were free.
    fn hide_cpus(&mut self, shares: &[Share], end: i64) -> Vec<(usize, u32)> {
        let mut hidden = Vec::new();
        for share in shares {
            let node = share.node as usize;
            for cpu in self.fences.hidden_cpus(node, end) {
                if let Some(free) = self.view.bits(node).cpus.get_mut(cpu as usize)
                    && *free
                {
                    *free = false;
                    hidden.push((node, cpu));
                }
            }
        }
        hidden
    }

    fn show_cpus(&mut self, hidden: &[(usize, u32)]) {
        for (node, cpu) in hidden {
            if let Some(free) = self.view.bits(*node).cpus.get_mut(*cpu as usize) {
                *free = true;
            }
        }
    }

    /// A class that does not fit even without what is booked is out for every length of job.
    fn remember_full(&mut self, subject: &Subject<'a>) {
        let class = &self.classes[subject.class];
        let (request, variants) = (&class.request, &class.variants);
        let view = &self.view;
        let mut free = |node: usize, out: &mut Vec<u64>| {
            out.clear();
            out.extend_from_slice(view.free(node));
            true
        };
        let booked = self.reservations > 0 || !self.fences.is_empty();
        let fits_unbooked = booked
            && variants
                .iter()
                .any(|nodes| choose::choose(view, request, nodes, &mut free).is_some());
        let class = &mut self.classes[subject.class];
        class.full_from_secs = if fits_unbooked {
            class.full_from_secs.min(subject.secs)
        } else {
            0
        };
    }

    /// Whether nothing can be booked for the job as things stand; then its note says why.
    pub(super) fn cannot_book(&mut self, subject: &Subject<'a>) -> bool {
        let job = subject.job;
        let ground = &self.grounds[subject.ground];
        let partition = ground.partition;
        let class = &mut self.classes[subject.class];
        let request = Arc::clone(&class.request);
        let (cluster, view) = (self.cluster, &self.view);
        let verdict = class
            .feasible
            .get_or_insert_with(|| feasible::can_ever_run_in(cluster, partition, &request, view))
            .clone();
        if let Err(error) = verdict {
            self.impossible(job, &error);
            return true;
        }
        if !class.unavailable.is_empty() {
            let nodes = collapse_sorted(class.unavailable.iter());
            self.note(
                job.id,
                Reason::ReqNodeNotAvail,
                Some(format!("UnavailableNodes:{nodes}")),
                None,
                None,
            );
            return true;
        }
        if class.usable_nodes() < request.min_nodes as usize {
            self.note(
                job.id,
                Reason::Resources,
                Some(NODES_OUT_TEXT.to_owned()),
                None,
                None,
            );
            return true;
        }
        false
    }

    /// What a job that waits for resources waits for.
    pub(super) fn reason_to_wait(&self, subject: &Subject<'a>) -> Reason {
        if self.is_blocked(subject.ground, subject.reservation) {
            Reason::Priority
        } else {
            Reason::Resources
        }
    }

    /// A job that waits in several partitions books in the one where it can start first: what it booked in another would stand in
    /// its own way, and in that of others for nothing. Later jobs are behind it in all of them.
    pub(super) fn wait_in_one(&mut self, waiting: &[(&Subject<'a>, usize)]) {
        let mut open = Vec::new();
        for (subject, tasks) in waiting {
            if !self.cannot_book(subject) {
                let found = self.find_start(subject.class, subject.secs);
                open.push((*subject, *tasks, found));
            }
        }
        let time =
            |found: &Option<(i64, Vec<Share>)>| found.as_ref().map_or(i64::MAX, |(time, _)| *time);
        let soonest = (0..open.len()).min_by_key(|at| time(&open[*at].2));
        let Some(soonest) = soonest else { return };
        let (subject, tasks, found) = open.swap_remove(soonest);
        if !self.wait(subject, tasks, found) {
            return;
        }
        for (other, _, found) in open {
            if found.is_some() && self.reserved_for_others(other).is_none() {
                self.stand_in_line(other);
            }
        }
    }

    /// The job does not start now: finds out why and until when, and books `tasks` starts. `found` is what [`Self::find_start`] gives
    /// for the first of them, where it is known. True = it waits for resources, and later jobs are behind it.
    pub(super) fn wait(
        &mut self,
        subject: &Subject<'a>,
        tasks: usize,
        mut found: Option<(i64, Vec<Share>)>,
    ) -> bool {
        if self.cannot_book(subject) || self.waits_for_licenses(subject) {
            return false;
        }
        let reserved = self.reserved_for_others(subject);
        let reason = match reserved {
            Some(_) => Reason::ReqNodeNotAvail,
            None => self.reason_to_wait(subject),
        };
        let per_array = self
            .cluster
            .config
            .scheduling
            .parameters
            .bf_max_job_array_resv
            .max(1) as usize;
        self.fences
            .enter(self.classes[subject.class].view, &mut self.lines);
        let mut first = None;
        for _ in 0..tasks.min(per_array) {
            if self.reservations >= self.options.max_reservations {
                break;
            }
            let next = found
                .take()
                .or_else(|| self.find_start(subject.class, subject.secs));
            let Some((time, shares)) = next.filter(|(time, _)| self.fences.may_start(*time)) else {
                break;
            };
            self.book(subject, time, &shares);
            first.get_or_insert((time, shares));
        }
        if let Some(text) = reserved {
            self.waits_for_reserved(subject, text, first);
            return false;
        }
        if first.is_none()
            && subject.reservation.is_none()
            && self.reservations < self.options.max_reservations
        {
            self.never_fits(subject);
            return false;
        }
        self.waits_until(subject, reason, first);
        true
    }

    /// Words for a job that reservations alone keep off its nodes.
    fn reserved_for_others(&mut self, subject: &Subject<'a>) -> Option<&'static str> {
        if self.fences.is_empty() {
            return None;
        }
        let class = &self.classes[subject.class];
        self.fences.enter(class.view, &mut self.lines);
        let nodes = class.variants.iter().max_by_key(|nodes| nodes.len())?;
        self.fences
            .in_the_way(subject.class, nodes, &class.request, subject.secs)
    }

    /// Notes that reservations keep the job off its nodes. Nobody is behind it.
    fn waits_for_reserved(
        &mut self,
        subject: &Subject<'a>,
        text: &str,
        first: Option<(i64, Vec<Share>)>,
    ) {
        let (start, nodes) = self.shown_start(first);
        self.note(
            subject.job.id,
            Reason::ReqNodeNotAvail,
            Some(text.to_owned()),
            start,
            nodes,
        );
    }

    /// What keeps the job from starting now: licences, reservations, or resources.
    pub(super) fn cause(&mut self, subject: &Subject<'a>) -> Reason {
        if self.licenses.choose_now(subject).is_none() {
            Reason::Licenses
        } else if self.reserved_for_others(subject).is_some() {
            Reason::ReqNodeNotAvail
        } else {
            self.reason_to_wait(subject)
        }
    }

    /// Licences are short. With `bf_licenses` the job then books the time at which they are not.
    fn waits_for_licenses(&mut self, subject: &Subject<'a>) -> bool {
        if self.licenses.choose_now(subject).is_some() {
            return false;
        }
        let mut first = None;
        if self.licenses.are_planned() && self.reservations < self.options.max_reservations {
            first = self.find_start_with_licenses(subject);
        }
        if let Some((time, shares, licenses)) = &first {
            self.book(subject, *time, shares);
            self.licenses.take(subject, *time, licenses);
        }
        let (start, nodes) = self.shown_start(first.map(|(time, shares, _)| (time, shares)));
        self.note(subject.job.id, Reason::Licenses, None, start, nodes);
        true
    }

    /// The earliest time at which nodes and licences suffice together.
    fn find_start_with_licenses(
        &mut self,
        subject: &Subject<'a>,
    ) -> Option<(i64, Vec<Share>, Counts)> {
        let mut time = self.now;
        for _ in 0..MOST_LICENSE_TIMES {
            let (at, licenses) = self.licenses.first_fit(subject, time)?;
            time = self.earliest_from(subject.class, subject.secs, at)?;
            if time == at {
                let shares = self.choose_then(subject.class, subject.secs, time)?;
                return Some((time, shares, licenses));
            }
        }
        None
    }

    /// What is in service will never do.
    pub(super) fn never_fits(&mut self, subject: &Subject<'a>) {
        let text = Some(NODES_OUT_TEXT.to_owned());
        self.note(subject.job.id, Reason::Resources, text, None, None);
    }

    /// Notes what was booked for the job, and that later jobs are behind it.
    pub(super) fn waits_until(
        &mut self,
        subject: &Subject<'a>,
        reason: Reason,
        first: Option<(i64, Vec<Share>)>,
    ) {
        let (start, nodes) = self.shown_start(first);
        self.note(subject.job.id, reason, None, start, nodes);
        self.stand_in_line(subject);
    }

    /// Later jobs of the partition, or of the reservation, are behind this one.
    fn stand_in_line(&mut self, subject: &Subject<'a>) {
        match subject.reservation {
            None => {
                let request = Arc::clone(&self.classes[subject.class].request);
                self.block(subject.ground, &request);
            }
            key => self.fences.block(key),
        }
    }

    /// Start and nodes of a booking as they are told.
    fn shown_start(
        &mut self,
        first: Option<(i64, Vec<Share>)>,
    ) -> (Option<UnixSeconds>, Option<String>) {
        // Behind a run without limit nothing is known.
        let Some((time, shares)) = first.filter(|(time, _)| time - self.now < UNLIMITED_SECS / 2)
        else {
            return (None, None);
        };
        let names: Vec<&str> = shares
            .iter()
            .filter(|share| share.tasks > 0)
            .map(|share| self.view.facts[share.node as usize].name())
            .collect();
        let nodes = collapse_sorted(names);
        self.wake_at(time.max(self.now + PLANNED_WAKEUP_SECS));
        (Some(UnixSeconds(time)), Some(nodes))
    }

    /// Later jobs of the partition are behind this one. A job that names its nodes stands in the way on those only.
    fn block(&mut self, ground: usize, request: &ResourceRequest) {
        let named = !request.required_nodes.is_empty()
            && request.required_nodes.len() >= request.min_nodes as usize;
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

    pub(super) fn book(&mut self, subject: &Subject<'a>, time: i64, shares: &[Share]) {
        self.reservations += 1;
        let request = Arc::clone(&self.classes[subject.class].request);
        self.fences
            .enter(self.classes[subject.class].view, &mut self.lines);
        let end = self.fences.clip(time.saturating_add(subject.secs));
        if let Some(bookings) = &mut self.bookings {
            bookings.push(Booking {
                job: subject.job.id,
                start: time,
                end,
                nodes: shares.iter().map(|share| share.node).collect(),
            });
        }
        for share in shares {
            let node = share.node as usize;
            self.view
                .plan_on(node, request.owner.as_ref(), request.claim);
            self.fences.also_take(node, time, end, &share.amounts);
            self.line(node).take(time, end, &share.amounts);
            self.booked[node] = true;
        }
    }
}

fn insert_release(releases: &mut Vec<Release>, time: i64, amounts: Vec<u64>) {
    let at = releases.partition_point(|(t, _)| *t <= time);
    releases.insert(at, (time, amounts));
}
