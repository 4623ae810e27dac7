//! A batch script is executed at most once for each run (job, attempt), only when the run's start is durable, and not after the node was
//! told to end the run.

use std::collections::{BTreeMap, BTreeSet};

use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::{JobId, StepId};
use sluice_model::launch::LiveStep;

use super::Violation;

const NAME: &str = "a batch script runs at most once per run";

/// What really happened on the nodes.
#[derive(Debug, Default)]
pub struct RunsOnce {
    /// Executed steps and how they ended (`None` = not yet, or nobody could say).
    executed: BTreeMap<(JobId, u32, StepId, String), Option<WaitStatus>>,
    batch: BTreeMap<(JobId, u32), (String, Option<WaitStatus>)>,
    /// Runs that durable facts have started. A job may be over and forgotten before a node on a slow link hears of its start.
    started: BTreeSet<(JobId, u32)>,
    /// Runs that an agent was told to end.
    ended: BTreeSet<(String, JobId, u32)>,
}

impl RunsOnce {
    /// A durable fact starts a run.
    pub fn started(&mut self, id: JobId, attempt: u32) {
        self.started.insert((id, attempt));
    }

    /// A living agent has taken the order to end a run.
    pub fn told_to_end(&mut self, node: &str, id: JobId, attempt: u32) {
        self.ended.insert((node.to_owned(), id, attempt));
    }

    /// An agent decides to start a step.
    ///
    /// # Errors
    /// When it was told to end the run before.
    pub fn starts(&self, node: &str, id: JobId, attempt: u32) -> Result<(), Violation> {
        if self.ended.contains(&(node.to_owned(), id, attempt)) {
            let text =
                format!("{node} starts a step of job {id} run {attempt}, which it was told to end");
            return Err(Violation::new(NAME, text));
        }
        Ok(())
    }

    /// A step's processes come into being on a node.
    ///
    /// # Errors
    /// When they had before, or nothing durable asks for them.
    pub fn executed(&mut self, node: &str, step: LiveStep) -> Result<(), Violation> {
        let (id, attempt) = (step.job_id, step.attempt);
        if !self.started.contains(&(id, attempt)) {
            return Err(Violation::new(
                NAME,
                format!("job {id} run {attempt} executes, but no durable fact started it"),
            ));
        }
        let key = (id, attempt, step.step_id, node.to_owned());
        if self.executed.insert(key, None).is_some() {
            return Err(Violation::new(
                NAME,
                format!(
                    "step {id}.{} run {attempt} executes twice on {node}",
                    step.step_id
                ),
            ));
        }
        if step.step_id == StepId::Batch
            && let Some((other, _)) = self.batch.insert((id, attempt), (node.to_owned(), None))
        {
            return Err(Violation::new(
                NAME,
                format!("script of job {id} run {attempt} executes on {other} and {node}"),
            ));
        }
        Ok(())
    }

    /// The processes are gone with this status.
    pub fn ended(&mut self, node: &str, step: LiveStep, status: WaitStatus) {
        let key = (step.job_id, step.attempt, step.step_id, node.to_owned());
        self.executed.insert(key, Some(status));
        if step.step_id == StepId::Batch
            && let Some(run) = self.batch.get_mut(&(step.job_id, step.attempt))
        {
            run.1 = Some(status);
        }
    }

    /// How a run's batch script ended; outer `None` = it never ran.
    #[must_use]
    pub fn batch_status(&self, id: JobId, attempt: u32) -> Option<Option<WaitStatus>> {
        self.batch.get(&(id, attempt)).map(|(_, status)| *status)
    }

    /// Scripts executed.
    #[must_use]
    pub fn count(&self) -> usize {
        self.batch.len()
    }
}
