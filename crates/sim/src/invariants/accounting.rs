//! Accounting: each run of a job ends once, with the exit code that its script really had, and the end does not change afterwards.

use std::collections::BTreeMap;

use sluice_controller::Cluster;
use sluice_model::accounting::{AccountingUpdate, JobRecord, StepRecord};
use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::{JobId, StepId};
use sluice_model::state::JobState;

use super::Violation;
use super::runs_once::RunsOnce;

const NAME: &str = "accounting has each run's end once and right";

/// The database as the feed would fill it.
#[derive(Debug, Default)]
pub struct Accounting {
    jobs: BTreeMap<(JobId, u32), JobRecord>,
    steps: BTreeMap<(JobId, u32, StepId), StepRecord>,
}

impl Accounting {
    /// Takes an update.
    ///
    /// # Errors
    /// When an end is changed, or its exit code is not the script's.
    pub fn take(
        &mut self,
        update: &AccountingUpdate,
        runs: &RunsOnce,
        cluster: &Cluster,
    ) -> Result<(), Violation> {
        match update {
            AccountingUpdate::Job(record) => self.job(record, runs, cluster),
            AccountingUpdate::Step(record) => self.step(record),
            _ => Ok(()),
        }
    }

    fn job(
        &mut self,
        record: &JobRecord,
        runs: &RunsOnce,
        cluster: &Cluster,
    ) -> Result<(), Violation> {
        let key = (record.job_id, record.attempt);
        let what = |record: &JobRecord| {
            (
                record.end,
                record.state,
                record.state_flags,
                record.exit_status,
            )
        };
        if let Some(before) = self.jobs.get(&key)
            && before.end.is_some()
            && what(before) != what(record)
        {
            let (id, attempt) = key;
            let text = format!(
                "job {id} run {attempt} ended {:?} and then {:?}",
                what(before),
                what(record)
            );
            return Err(Violation::new(NAME, text));
        }
        let first_end = record.end.is_some()
            && self
                .jobs
                .get(&key)
                .is_none_or(|before| before.end.is_none());
        if first_end {
            exit_code(record, runs, cluster)?;
        }
        self.jobs.insert(key, record.clone());
        Ok(())
    }

    fn step(&mut self, record: &StepRecord) -> Result<(), Violation> {
        let key = (record.job_id, record.attempt, record.step_id);
        if let Some(before) = self.steps.get(&key)
            && before.end.is_some()
            && (before.end, before.state, before.exit_status)
                != (record.end, record.state, record.exit_status)
        {
            let text = format!(
                "step {}.{} run {} ended twice",
                record.job_id, record.step_id, record.attempt
            );
            return Err(Violation::new(NAME, text));
        }
        self.steps.insert(key, record.clone());
        Ok(())
    }

    /// Every run of every known job has its end; for when everything has drained.
    ///
    /// # Errors
    /// The first that has none.
    pub fn all_ended(&self, cluster: &Cluster) -> Result<(), Violation> {
        for ((id, attempt), record) in &self.jobs {
            let over = record.end.is_some();
            let master_of_purged = record.array_task_string.is_empty();
            if !over && master_of_purged {
                return Err(Violation::new(
                    NAME,
                    format!("job {id} run {attempt} has no end: state {}", record.state),
                ));
            }
        }
        for ((id, attempt, step), record) in &self.steps {
            if record.end.is_none() {
                return Err(Violation::new(
                    NAME,
                    format!("step {id}.{step} run {attempt} has no end"),
                ));
            }
        }
        for (id, job) in &cluster.jobs {
            let record = self
                .jobs
                .get(&(*id, job.restarts))
                .map(|record| (record.state, record.exit_status));
            let expected = (u32::from(job.state.base.number()), job.exit_status.0);
            if record != Some(expected) {
                return Err(Violation::new(
                    NAME,
                    format!("job {id} ended {expected:?}, its record says {record:?}"),
                ));
            }
        }
        Ok(())
    }

    /// Runs on record.
    #[must_use]
    pub fn count(&self) -> usize {
        self.jobs.len()
    }
}

/// COMPLETED and FAILED are what the script's status says; components of a heterogeneous job have the leader's script.
fn exit_code(record: &JobRecord, runs: &RunsOnce, cluster: &Cluster) -> Result<(), Violation> {
    let (id, attempt) = (record.job_id, record.attempt);
    let own = [
        u32::from(JobState::Completed.number()),
        u32::from(JobState::Failed.number()),
    ];
    if !own.contains(&record.state) {
        return Ok(());
    }
    let status = WaitStatus(record.exit_status);
    let completed = record.state == own[0];
    // Runs are counted for each component: one that was ended alone does not run again with the others.
    let (script_of, run) = cluster
        .job(id)
        .and_then(|job| job.het.filter(|het| het.offset > 0))
        .and_then(|het| cluster.job(het.leader))
        .map_or((id, attempt), |leader| (leader.id, leader.run_attempt));
    let really = runs.batch_status(script_of, run);
    if really != Some(Some(status)) || completed != status.is_success() {
        let text = format!(
            "job {id} run {attempt} is on record with {status} in state {}, its script had {really:?}",
            record.state
        );
        return Err(Violation::new(NAME, text));
    }
    Ok(())
}
