//! Heterogeneous jobs in a pass: all components start together on nodes of their own, or none does.
//!
//! Components are placed one after the other, each without the nodes of those before it; if one does not fit, everything is taken
//! back, and each books its own earliest time so that what comes later does not take what they wait for. Invariant: a plan holds
//! the starts of all components or of none. Source: heterogeneous_jobs.

use std::sync::Arc;

use sluice_model::reason::Reason;
use sluice_model::time::UnixSeconds;

use super::order::{self, QueueRecord};
use super::pass::{Pass, Subject};
use crate::cluster::Job;
use crate::plan::PlannedStart;
use crate::queue::eligibility::waits_for;

impl<'a> Pass<'a> {
    /// Starts the job that `leader` leads, or finds out when it may.
    pub(super) fn start_components(&mut self, leader: &'a Arc<Job>) {
        let cluster = self.cluster;
        let Some(het) = leader.het else { return };
        let mut parts: Vec<Vec<Subject<'a>>> = Vec::new();
        let mut complete = true;
        for id in het.members() {
            let waiting = cluster
                .jobs
                .get(&id)
                .filter(|job| job.is_queued() && job.het.is_some_and(|h| h.leader == het.leader))
                .filter(|job| {
                    job.priority > 0 && waits_for(cluster, job, UnixSeconds(self.now)).is_none()
                });
            let subjects: Vec<Subject<'a>> = waiting
                .map(|job| {
                    order::partitions_of(cluster, job)
                        .into_iter()
                        .filter_map(|partition| self.consider(&QueueRecord { job, partition }))
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
        match self.place_all(&parts) {
            Some(starts) => {
                for start in starts {
                    self.done.insert(start.job);
                    self.plan.starts.push(start);
                }
            }
            None => {
                for subject in parts.iter().filter_map(|subjects| subjects.first()) {
                    self.wait(subject, 1);
                }
            }
        }
    }

    fn place_all(&mut self, parts: &[Vec<Subject<'a>>]) -> Option<Vec<PlannedStart>> {
        let saved = (
            self.view.clone(),
            self.lines.clone(),
            self.early_starts.clone(),
            self.releases.clone(),
        );
        let mut starts = Vec::with_capacity(parts.len());
        for subjects in parts {
            let placed = subjects
                .iter()
                .find_map(|subject| Some((subject, self.start_now(subject)?)));
            let Some((subject, (allocation, scheduler))) = placed else {
                (self.view, self.lines, self.early_starts, self.releases) = saved;
                self.shut.clear();
                return None;
            };
            self.shut
                .extend(allocation.nodes.iter().map(|part| part.node.at()));
            starts.push(PlannedStart {
                job: subject.job.id,
                array_task: None,
                partition: self.grounds[subject.ground].partition.config.name.clone(),
                allocation,
                time_limit: subject.limit,
                scheduler,
            });
        }
        self.shut.clear();
        Some(starts)
    }
}
