//! Heterogeneous jobs in a pass: all components start together on nodes of their own, or none does.
//!
//! Components are placed one after the other, the one with the fewest nodes to choose from first, each without the nodes of those
//! before it; if one does not fit, everything is taken back, and the earliest time at which all fit side by side is booked for
//! all. Invariant: a plan holds the starts of all components or of none, and so it is with bookings. Source: heterogeneous_jobs.

use std::sync::Arc;

use sluice_model::reason::Reason;
use sluice_model::time::UnixSeconds;

use super::order;
use super::pass::{Pass, Subject};
use crate::cluster::Job;
use crate::plan::PlannedStart;
use crate::queue::eligibility::waits_for;
use crate::select::fit::Share;

/// Changes looked at one by one before the search for a common time jumps to the end of all known changes.
const MOST_TIMES: usize = 200;

/// Orders tried in which components are placed.
const MOST_ORDERS: usize = 8;

/// What is booked for each component.
type Places<'p, 'a> = Vec<(&'p Subject<'a>, Vec<Share>)>;

impl<'a> Pass<'a> {
    /// Starts the job that `leader` leads, or finds out when it may.
    pub(super) fn start_components(&mut self, leader: &'a Arc<Job>) {
        let cluster = self.cluster;
        let Some(het) = leader.het else { return };
        let mut parts: Vec<Vec<Subject<'a>>> = Vec::new();
        let mut complete = true;
        for id in het.members() {
            // One that somebody ended by itself is not waited for when the others go back to the queue.
            if cluster
                .jobs
                .get(&id)
                .is_none_or(|job| job.state.is_finished())
            {
                continue;
            }
            let waiting = cluster
                .jobs
                .get(&id)
                .filter(|job| job.is_queued() && job.het.is_some_and(|h| h.leader == het.leader))
                .filter(|job| {
                    job.priority > 0 && waits_for(cluster, job, UnixSeconds(self.now)).is_none()
                });
            let subjects: Vec<Subject<'a>> = waiting
                .map(|job| {
                    order::records_of(cluster, job, UnixSeconds(self.now))
                        .iter()
                        .filter_map(|record| self.consider(record))
                        .collect()
                })
                .unwrap_or_default();
            complete &= !subjects.is_empty();
            parts.push(subjects);
        }
        let room = self.plan.starts.len().saturating_add(parts.len()) <= self.options.max_starts;
        if !complete || !room {
            // One that waits for something else keeps the others.
            for subject in parts.iter().filter_map(|subjects| subjects.first()) {
                self.note(subject.job.id, Reason::Resources, None, None, None);
            }
            return;
        }
        parts.sort_by_key(|subjects| {
            subjects
                .iter()
                .map(|subject| self.classes[subject.class].usable_nodes())
                .sum::<usize>()
        });
        match self.place_all(&parts) {
            Some(mut starts) => {
                starts.sort_by_key(|start| start.job);
                for start in starts {
                    self.done.insert(start.job);
                    self.plan.starts.push(start);
                }
            }
            None => self.wait_for_all(&parts),
        }
    }

    /// Books the earliest time at which all components fit.
    fn wait_for_all(&mut self, parts: &[Vec<Subject<'a>>]) {
        let mut bookable = true;
        for subjects in parts {
            let mut possible = false;
            for subject in subjects {
                possible |= !self.cannot_book(subject);
            }
            bookable &= possible;
        }
        let firsts = || parts.iter().filter_map(|subjects| subjects.first());
        if !bookable {
            // The component that can not start said why; it keeps the others.
            for subject in firsts() {
                self.note(subject.job.id, Reason::Resources, None, None, None);
            }
            return;
        }
        let room = self
            .options
            .max_reservations
            .saturating_sub(self.reservations);
        if room < parts.len() {
            for subject in firsts() {
                let reason = self.reason_to_wait(subject);
                self.waits_until(subject, reason, None);
            }
            return;
        }
        let Some((time, places)) = self.common_time(parts) else {
            for subject in firsts() {
                self.never_fits(subject);
            }
            return;
        };
        let reasons: Vec<Reason> = places
            .iter()
            .map(|(subject, _)| self.reason_to_wait(subject))
            .collect();
        for ((subject, shares), reason) in places.into_iter().zip(reasons) {
            self.book(subject, time, &shares);
            self.waits_until(subject, reason, Some((time, shares)));
        }
    }

    /// The earliest time at which each component has nodes of its own, and which.
    fn common_time<'p>(&mut self, parts: &'p [Vec<Subject<'a>>]) -> Option<(i64, Places<'p, 'a>)> {
        let classes: Vec<usize> = parts.iter().flatten().map(|part| part.class).collect();
        let mut time = self.now;
        let mut tries = 0;
        loop {
            // None starts beside the others sooner than alone.
            for subjects in parts {
                time = subjects
                    .iter()
                    .filter_map(|part| self.earliest_from(part.class, part.secs, time))
                    .min()?;
            }
            let places = self.side_by_side(parts, |pass, part| {
                pass.choose_then(part.class, part.secs, time)
            });
            if let Some(places) = places {
                return Some((time, places));
            }
            tries += 1;
            time = self.next_change(&classes, time, tries >= MOST_TIMES)?;
        }
    }

    /// A place for each component on nodes that no other has. One for which those before it leave nothing is placed first in
    /// another try.
    fn side_by_side<'p>(
        &mut self,
        parts: &'p [Vec<Subject<'a>>],
        place: impl Fn(&mut Self, &Subject<'a>) -> Option<Vec<Share>>,
    ) -> Option<Places<'p, 'a>> {
        let mut order: Vec<&'p Vec<Subject<'a>>> = parts.iter().collect();
        for _ in 0..parts.len().min(MOST_ORDERS) {
            let mut places: Places<'p, 'a> = Vec::with_capacity(order.len());
            let failed = order.iter().position(|subjects| {
                let found = subjects
                    .iter()
                    .find_map(|subject| Some((subject, place(self, subject)?)));
                let nodes = found.iter().flat_map(|(_, shares)| shares);
                self.shut.extend(nodes.map(|share| share.node as usize));
                let failed = found.is_none();
                places.extend(found);
                failed
            });
            self.shut.clear();
            match failed {
                None => return Some(places),
                Some(at) => order[..=at].rotate_right(1),
            }
        }
        None
    }

    fn place_all(&mut self, parts: &[Vec<Subject<'a>>]) -> Option<Vec<PlannedStart>> {
        let places = self.side_by_side(parts, Self::choose_now)?;
        let saved = (
            self.view.clone(),
            self.lines.clone(),
            self.early_starts.clone(),
            self.releases.clone(),
            self.fences.clone(),
            self.licenses.clone(),
        );
        let mut starts = Vec::with_capacity(places.len());
        for (subject, shares) in places {
            let licenses = self.licenses.choose_now(subject);
            let taken = licenses
                .and_then(|licenses| Some((self.take_now(subject, shares).ok()?, licenses)));
            let Some(((allocation, scheduler), licenses)) = taken else {
                (
                    self.view,
                    self.lines,
                    self.early_starts,
                    self.releases,
                    self.fences,
                    self.licenses,
                ) = saved;
                return None;
            };
            self.licenses.take(subject, self.now, &licenses);
            starts.push(PlannedStart {
                job: subject.job.id,
                array_task: None,
                partition: self.grounds[subject.ground].partition.config.name.clone(),
                allocation,
                time_limit: subject.limit,
                scheduler,
                reservation: subject.reservation,
                licenses,
            });
        }
        Some(starts)
    }
}
