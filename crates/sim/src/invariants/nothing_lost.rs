//! Every job that a user was told of exists exactly once, each task of an array exactly once, until it is purged after its end; and
//! a submission key makes one job.

use std::collections::{BTreeMap, BTreeSet};

use sluice_controller::Cluster;
use sluice_controller::event::Event;
use sluice_model::ids::JobId;

use super::Violation;

const NAME: &str = "no acknowledged job is lost or doubled";

/// What is known of submissions.
#[derive(Debug, Default)]
pub struct NothingLost {
    /// Acknowledged: id → tasks; no task = not an array.
    acknowledged: BTreeMap<JobId, BTreeSet<u32>>,
    /// Ended and purged: array or job id → tasks.
    purged: BTreeMap<JobId, BTreeSet<u32>>,
    keys: BTreeMap<String, JobId>,
}

impl NothingLost {
    /// A user was told.
    ///
    /// # Errors
    /// When another submission was given the same id.
    pub fn acknowledge(&mut self, id: JobId, tasks: BTreeSet<u32>) -> Result<(), Violation> {
        match self.acknowledged.insert(id, tasks.clone()) {
            Some(before) if before != tasks => Err(Violation::new(
                NAME,
                format!("job {id} was given to two submissions"),
            )),
            _ => Ok(()),
        }
    }

    /// Ids users were told, oldest first.
    pub fn known(&self) -> impl Iterator<Item = (JobId, &BTreeSet<u32>)> {
        self.acknowledged.iter().map(|(id, tasks)| (*id, tasks))
    }

    /// Takes a fact.
    ///
    /// # Errors
    /// When a key makes a second job.
    pub fn event(&mut self, before: &Cluster, event: &Event) -> Result<(), Violation> {
        match event {
            Event::JobSubmitted { job } => {
                let key = job.request.submission_key.clone();
                if !key.is_empty()
                    && let Some(other) = self.keys.insert(key.clone(), job.id)
                {
                    return Err(Violation::new(
                        NAME,
                        format!("key {key} made jobs {other} and {}", job.id),
                    ));
                }
            }
            Event::JobsPurged { jobs } => {
                for job in jobs.iter().filter_map(|id| before.job(*id)) {
                    let gone = self.purged.entry(job.array_job_id()).or_default();
                    if let Some(array) = &job.array {
                        gone.extend(array.task_id);
                        gone.extend(array.pending.tasks.iter());
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Looks for every acknowledged job.
    ///
    /// # Errors
    /// The first that is missing or there twice.
    pub fn check(&self, cluster: &Cluster) -> Result<(), Violation> {
        for (id, tasks) in &self.acknowledged {
            let gone = self.purged.get(id);
            if tasks.is_empty() {
                if !cluster.jobs.contains_key(id) && gone.is_none() {
                    return Err(Violation::new(NAME, format!("job {id} is gone")));
                }
                continue;
            }
            let mut found = gone.cloned().unwrap_or_default();
            for array in cluster
                .array_members(*id)
                .iter()
                .filter_map(|id| cluster.job(*id))
                .filter_map(|job| job.array.as_ref())
            {
                for task in array.task_id.into_iter().chain(array.pending.tasks.iter()) {
                    if !found.insert(task) {
                        return Err(Violation::new(
                            NAME,
                            format!("task {id}_{task} is there twice"),
                        ));
                    }
                }
            }
            if found != *tasks {
                return Err(Violation::new(
                    NAME,
                    format!("array {id} has tasks {found:?}, submitted were {tasks:?}"),
                ));
            }
        }
        Ok(())
    }
}
