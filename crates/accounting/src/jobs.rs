//! Reading job records with their steps, in sacct's order.
//!
//! Order: cluster, then the number a user knows (array or heterogeneous job id), task or component, run. Steps: batch, extern,
//! interactive, then by number. Invariant: jobs and steps of one answer are of one moment of the database.

use std::collections::{HashMap, HashSet};

use sluice_model::accounting::{JobRecord, StepRecord};
use sluice_model::ids::{JobId, StepId};
use sluice_model::time::UnixSeconds;

use crate::cell::{Cell, Kind};
use crate::database::Unit;
use crate::entities::clusters;
use crate::events::expand;
use crate::{AccountingStore, JobQuery, Result};

/// How many jobs' steps are asked for at once. Below the 32,766 parameters of SQLite and the 65,535 of Postgres.
const STEP_CHUNK: usize = 1000;
const DOING: &str = "reading jobs";

/// One run of a job and its steps.
#[derive(Debug, Clone, PartialEq)]
pub struct JobWithSteps {
    /// The run.
    pub job: JobRecord,
    /// Its steps; empty when they were not asked for.
    pub steps: Vec<StepRecord>,
}

/// Adds values to the arguments and gives their parameters: `$4, $5`.
pub(crate) fn in_list(args: &mut Vec<Cell>, values: impl IntoIterator<Item = Cell>) -> String {
    let marks: Vec<String> = values
        .into_iter()
        .map(|value| {
            args.push(value);
            format!("${}", args.len())
        })
        .collect();
    marks.join(", ")
}

impl AccountingStore {
    /// The jobs that a query means.
    ///
    /// # Errors
    /// When the database cannot be read, or a node list of the query is none.
    pub async fn jobs(&self, query: &JobQuery) -> Result<Vec<JobWithSteps>> {
        let nodes: HashSet<String> = expand(&query.nodes)?.into_iter().collect();
        let mut unit = self.read().await?;
        let mut found = Vec::new();
        for (cluster_id, cluster) in clusters::select(&mut unit, &query.clusters).await? {
            let (condition, args) = query.condition(cluster_id);
            let mut jobs: Vec<JobRecord> = unit
                .records(DOING, &format!("WHERE {condition}"), &args)
                .await?;
            jobs.retain(|job| query.keeps(job, &nodes));
            if !query.duplicates {
                keep_newest_runs(&mut jobs);
            }
            let mut steps = if query.allocations_only {
                HashMap::new()
            } else {
                steps_of(&mut unit, cluster_id, &jobs).await?
            };
            jobs.sort_by_cached_key(display_key);
            found.extend(jobs.into_iter().map(|mut job| {
                cluster.clone_into(&mut job.cluster);
                let mut steps = steps.remove(&run_key(&job)).unwrap_or_default();
                steps.retain(|step| query.keeps_step(&job, step.step_id));
                JobWithSteps { job, steps }
            }));
        }
        unit.commit(DOING).await?;
        Ok(found)
    }

    /// The script and the environment stored with the newest run of a job (`sacct -B`, `--env-vars`); each `None` if not stored.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn job_texts(
        &self,
        cluster: &str,
        job_id: JobId,
    ) -> Result<(Option<String>, Option<String>)> {
        let mut unit = self.read().await?;
        let mut texts = [None, None];
        for (slot, column) in texts.iter_mut().zip(["script_hash", "environment_hash"]) {
            let sql = format!(
                "SELECT content FROM jobs JOIN clusters ON clusters.id = jobs.cluster_id \
                 JOIN job_texts ON job_texts.cluster_id = jobs.cluster_id AND job_texts.hash = jobs.{column} \
                 WHERE clusters.name = $1 AND jobs.job_id = $2 ORDER BY jobs.submit DESC, jobs.attempt DESC LIMIT 1"
            );
            let rows = unit
                .rows(
                    DOING,
                    &sql,
                    &[cluster.into(), job_id.0.into()],
                    &[Kind::Text],
                )
                .await?;
            *slot = rows.into_iter().flatten().find_map(|cell| {
                if let Cell::Text(text) = cell {
                    text
                } else {
                    None
                }
            });
        }
        unit.commit(DOING).await?;
        Ok(texts.into())
    }
}

type RunKey = (JobId, UnixSeconds, u32);

fn run_key(job: &JobRecord) -> RunKey {
    (job.job_id, job.submit, job.attempt)
}

/// Array and heterogeneous jobs together, in the order of their tasks; the record of unstarted tasks last.
fn display_key(job: &JobRecord) -> (JobId, u32, RunKey) {
    let shown = job.het_job_id.or(job.array_job_id).unwrap_or(job.job_id);
    let part = match (job.het_job_offset, job.array_job_id, job.array_task_id) {
        (Some(offset), _, _) => offset,
        (None, Some(_), task) => task.unwrap_or(u32::MAX),
        (None, None, _) => 0,
    };
    (shown, part, run_key(job))
}

/// Of several runs of one job, only the newest.
fn keep_newest_runs(jobs: &mut Vec<JobRecord>) {
    let mut newest: HashMap<JobId, RunKey> = HashMap::new();
    for job in jobs.iter() {
        let key = run_key(job);
        newest
            .entry(job.job_id)
            .and_modify(|best| *best = (*best).max(key))
            .or_insert(key);
    }
    jobs.retain(|job| newest.get(&job.job_id) == Some(&run_key(job)));
}

async fn steps_of(
    unit: &mut Unit,
    cluster_id: i64,
    jobs: &[JobRecord],
) -> Result<HashMap<RunKey, Vec<StepRecord>>> {
    let mut ids: Vec<JobId> = jobs.iter().map(|job| job.job_id).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut steps: HashMap<RunKey, Vec<StepRecord>> = HashMap::new();
    for chunk in ids.chunks(STEP_CHUNK) {
        let mut args = vec![Cell::from(cluster_id)];
        let list = in_list(&mut args, chunk.iter().map(|id| Cell::from(id.0)));
        let tail = format!("WHERE cluster_id = $1 AND job_id IN ({list})");
        for step in unit.records::<StepRecord>(DOING, &tail, &args).await? {
            steps
                .entry((step.job_id, step.job_submit, step.attempt))
                .or_default()
                .push(step);
        }
    }
    for list in steps.values_mut() {
        list.sort_unstable_by_key(|step| step_order(step.step_id));
    }
    Ok(steps)
}

fn step_order(step: StepId) -> (u32, u32) {
    match step {
        StepId::Batch => (0, 0),
        StepId::Extern => (1, 0),
        StepId::Interactive => (2, 0),
        StepId::Num(number) => (3, number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: u32, array: Option<u32>, task: Option<u32>) -> JobRecord {
        let mut job = JobRecord::new(JobId(id), 0, UnixSeconds(1));
        job.array_job_id = array.map(JobId);
        job.array_task_id = task;
        job
    }

    /// Golden output of sacct -X: 4_1 to 4_4 in order, though task 4 has the array's own number and the others 6 to 8.
    #[test]
    fn tasks_are_listed_in_order_inside_their_array() {
        let mut jobs = [
            job(9, None, None),
            job(4, Some(4), Some(4)),
            job(7, Some(4), Some(2)),
            job(6, Some(4), Some(1)),
            job(3, None, None),
        ];
        jobs.sort_by_cached_key(display_key);
        assert_eq!(
            jobs.iter().map(|job| job.job_id.0).collect::<Vec<_>>(),
            [3, 6, 7, 4, 9]
        );
    }

    /// Without --duplicates a requeued job has one line.
    #[test]
    fn the_newest_run_stays() {
        let first = JobRecord::new(JobId(1), 0, UnixSeconds(10));
        let second = JobRecord::new(JobId(1), 1, UnixSeconds(20));
        let mut jobs = vec![second.clone(), first];
        keep_newest_runs(&mut jobs);
        assert_eq!(jobs, [second]);
    }
}
