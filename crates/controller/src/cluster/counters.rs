//! Counters of what happened to jobs, for `sdiag`.
//!
//! No part of the state: they are left out of checkpoints and comparisons, and count what is applied, replay included; readers
//! show differences to a former reading. Source: `sdiag(1)`.

use sluice_model::state::JobState;

use super::{Cluster, Job};
use crate::event::Event;

/// Jobs, each task of an array by itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct JobCounters {
    /// Submitted.
    pub submitted: u64,
    /// Started.
    pub started: u64,
    /// Ended by themselves or by their limits.
    pub completed: u64,
    /// Cancelled.
    pub canceled: u64,
    /// Ended by a failure of the system.
    pub failed: u64,
}

impl PartialEq for JobCounters {
    /// Two clusters are the same whatever led to them.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl JobCounters {
    /// One event more; `cluster` is as it was before.
    #[must_use]
    pub(crate) fn with(mut self, cluster: &Cluster, event: &Event) -> Self {
        match event {
            Event::JobSubmitted { job } => self.submitted += tasks_of(job),
            Event::JobStarted { .. } => self.started += 1,
            Event::JobEnded(end) => {
                let tasks = cluster.job(end.job_id).map_or(1, |job| tasks_of(job));
                match end.state {
                    JobState::Cancelled => self.canceled += tasks,
                    JobState::NodeFail | JobState::BootFail => self.failed += tasks,
                    _ => self.completed += tasks,
                }
            }
            Event::ArrayTasksRemoved { tasks, .. } => self.canceled += tasks.len() as u64,
            _ => {}
        }
        self
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            submitted: self.submitted.saturating_sub(earlier.submitted),
            started: self.started.saturating_sub(earlier.started),
            completed: self.completed.saturating_sub(earlier.completed),
            canceled: self.canceled.saturating_sub(earlier.canceled),
            failed: self.failed.saturating_sub(earlier.failed),
        }
    }
}

/// 1, or the unstarted tasks of an array's record.
#[must_use]
pub fn tasks_of(job: &Job) -> u64 {
    job.array
        .as_ref()
        .filter(|array| array.task_id.is_none())
        .map_or(1, |array| (array.pending.tasks.len() as u64).max(1))
}
