//! Writing what the journal holds: batches of updates, each written together with the position it reaches.
//!
//! Invariant: after any crash, on either side, the database holds exactly the updates up to its stored position. The position's
//! row is locked first, so two writers of one cluster cannot interleave, and updates at or below it are passed over, so a batch
//! can be delivered again. Positions count per journal: a new journal (`ctld -c`) has a new id and starts again at 1.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use sluice_model::accounting::{AccountingUpdate, JobRecord, NodeEventRecord, StepRecord};
use sluice_model::ids::{JobId, StepId};
use sluice_model::time::UnixSeconds;

use crate::cell::{Cell, Column, Kind, Record};
use crate::database::Unit;
use crate::entities::clusters;
use crate::events;
use crate::{AccountingError, AccountingStore, Result};

const DOING: &str = "writing records";

/// Updates to be written in one go.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// Which journal the positions belong to.
    pub journal_id: &'a str,
    /// The position that the writer believes to be stored.
    pub from: u64,
    /// The position to be stored: no update at or below it is missing from this batch and the earlier ones.
    pub through: u64,
    /// Updates by rising position.
    pub updates: &'a [(u64, AccountingUpdate)],
}

/// What a write did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteReport {
    /// The position now stored.
    pub position: u64,
    /// Updates that were new to the database.
    pub written: usize,
}

impl AccountingStore {
    /// Up to where a journal of a cluster has been written; 0 = nothing yet.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn outbox_position(&self, cluster: &str, journal_id: &str) -> Result<u64> {
        let doing = "reading the position";
        let mut unit = self.read().await?;
        let position = unit
            .number(
                doing,
                "SELECT position FROM outbox JOIN clusters ON clusters.id = outbox.cluster_id \
                 WHERE clusters.name = $1 AND outbox.journal_id = $2",
                &[cluster.into(), journal_id.into()],
            )
            .await?;
        unit.commit(doing).await?;
        Ok(unsigned(position.unwrap_or(0)))
    }

    /// Writes a batch and the position it reaches, in one transaction. Registers the cluster if it is unknown.
    ///
    /// # Errors
    /// [`AccountingError::Behind`] when less is stored than `batch.from`; nothing is written then. Otherwise as the database says.
    pub async fn write_batch(&self, cluster: &str, batch: Batch<'_>) -> Result<WriteReport> {
        let mut unit = self.write().await?;
        let registered_at = batch
            .updates
            .first()
            .map_or(UnixSeconds(0), |(_, update)| time_of(update));
        let cluster_id = clusters::ensure(&mut unit, cluster, registered_at, "").await?;
        let key = [Cell::from(cluster_id), Cell::from(batch.journal_id)];
        unit.execute(
            DOING,
            "INSERT INTO outbox (cluster_id, journal_id, position) VALUES ($1, $2, 0) ON CONFLICT (cluster_id, journal_id) DO NOTHING",
            &key,
        )
        .await?;
        let select = format!(
            "SELECT position FROM outbox WHERE cluster_id = $1 AND journal_id = $2{}",
            unit.row_lock()
        );
        let stored = unsigned(unit.number(DOING, &select, &key).await?.unwrap_or(0));
        if stored < batch.from {
            return Err(AccountingError::Behind {
                stored,
                expected: batch.from,
            });
        }
        let fresh: Vec<&AccountingUpdate> = batch
            .updates
            .iter()
            .filter(|(position, _)| *position > stored)
            .map(|(_, update)| update)
            .collect();
        write_updates(&mut unit, cluster_id, cluster, &fresh).await?;
        let last = batch.updates.last().map_or(0, |(position, _)| *position);
        let position = stored.max(batch.through).max(last);
        if position > stored {
            unit.execute(
                DOING,
                "UPDATE outbox SET position = $3 WHERE cluster_id = $1 AND journal_id = $2",
                &[
                    cluster_id.into(),
                    batch.journal_id.into(),
                    Cell::Int(Some(i64::try_from(position).unwrap_or(i64::MAX))),
                ],
            )
            .await?;
        }
        unit.commit(DOING).await?;
        Ok(WriteReport {
            position,
            written: fresh.len(),
        })
    }
}

fn unsigned(position: i64) -> u64 {
    u64::try_from(position).unwrap_or(0)
}

/// When an update happened, as far as it says.
fn time_of(update: &AccountingUpdate) -> UnixSeconds {
    match update {
        AccountingUpdate::Job(job) => job.submit,
        AccountingUpdate::Step(step) => step.start,
        AccountingUpdate::NodeEvent(event) => event.time_start,
        AccountingUpdate::NodeUp { time, .. } => *time,
        AccountingUpdate::Cluster(registration) => registration.time,
    }
}

type JobKey = (JobId, UnixSeconds, u32);
type StepKey = (JobId, UnixSeconds, u32, StepId);

/// Writes the updates in effect: of several records with one key only the last reaches the database, which is the same as
/// writing all of them in turn, since every record is complete.
async fn write_updates(
    unit: &mut Unit,
    cluster_id: i64,
    cluster: &str,
    updates: &[&AccountingUpdate],
) -> Result<()> {
    let mut jobs: HashMap<JobKey, JobRow<'_>> = HashMap::new();
    let mut steps: HashMap<StepKey, &StepRecord> = HashMap::new();
    for update in updates {
        match update {
            AccountingUpdate::Job(job) => {
                jobs.entry((job.job_id, job.submit, job.attempt))
                    .or_insert_with(|| JobRow::new(job))
                    .replace(job);
            }
            AccountingUpdate::Step(step) => {
                steps.insert(
                    (step.job_id, step.job_submit, step.attempt, step.step_id),
                    step,
                );
            }
            AccountingUpdate::NodeEvent(event) => write_node_event(unit, cluster_id, event).await?,
            AccountingUpdate::NodeUp { node, time } => {
                events::close_open(unit, cluster_id, Some(node), *time).await?
            }
            AccountingUpdate::Cluster(registration) => {
                clusters::describe(unit, cluster_id, cluster, registration).await?
            }
        }
    }
    write_jobs(unit, cluster_id, jobs).await?;
    // In key order: two writers on one database then take row locks in the same order.
    let mut steps: Vec<_> = steps.into_iter().collect();
    steps.sort_unstable_by_key(|(key, _)| *key);
    let rows: Vec<Vec<Cell>> = steps
        .iter()
        .map(|(_, step)| row(cluster_id, &[], *step))
        .collect();
    unit.upsert(DOING, &StepRecord::TABLE, &[CLUSTER_ID], &rows)
        .await
}

const CLUSTER_ID: Column = Column {
    name: "cluster_id",
    kind: Kind::Int,
};

fn row<R: Record>(cluster_id: i64, more: &[Cell], record: &R) -> Vec<Cell> {
    let mut cells = vec![Cell::from(cluster_id)];
    cells.extend_from_slice(more);
    cells.extend(record.cells());
    cells
}

/// The newest record of a run, and the texts that came with any of them.
struct JobRow<'a> {
    record: &'a JobRecord,
    script: Option<&'a str>,
    environment: Option<&'a str>,
}

impl<'a> JobRow<'a> {
    fn new(record: &'a JobRecord) -> Self {
        Self {
            record,
            script: None,
            environment: None,
        }
    }

    fn replace(&mut self, record: &'a JobRecord) {
        self.record = record;
        self.script = record.script.as_deref().or(self.script);
        self.environment = record.environment.as_deref().or(self.environment);
    }
}

async fn write_jobs(
    unit: &mut Unit,
    cluster_id: i64,
    jobs: HashMap<JobKey, JobRow<'_>>,
) -> Result<()> {
    let mut jobs: Vec<_> = jobs.into_iter().collect();
    jobs.sort_unstable_by_key(|(key, _)| *key);
    let mut texts: HashMap<String, &str> = HashMap::new();
    let mut rows = Vec::with_capacity(jobs.len());
    for (_, job) in &jobs {
        let script = job.script.map(|text| intern(&mut texts, text));
        let environment = job.environment.map(|text| intern(&mut texts, text));
        rows.push(row(
            cluster_id,
            &[Cell::Text(script), Cell::Text(environment)],
            job.record,
        ));
    }
    write_texts(unit, cluster_id, texts).await?;
    let lead = [
        CLUSTER_ID,
        Column {
            name: "script_hash",
            kind: Kind::Text,
        },
        Column {
            name: "environment_hash",
            kind: Kind::Text,
        },
    ];
    unit.upsert(DOING, &JobRecord::TABLE, &lead, &rows).await?;
    let without: Vec<JobId> = jobs
        .iter()
        .filter(|(_, job)| job.record.association_id.is_none() && !job.record.account.is_empty())
        .map(|((id, _, _), _)| *id)
        .collect();
    charge(unit, cluster_id, &without).await
}

/// How many jobs are looked at in one statement; far below the databases' limit of parameters.
const CHARGE_CHUNK: usize = 1000;

/// Notes which association is charged: the user's row for the partition, else the one for all, else the account's own.
async fn charge(unit: &mut Unit, cluster_id: i64, jobs: &[JobId]) -> Result<()> {
    for chunk in jobs.chunks(CHARGE_CHUNK) {
        let mut args = vec![Cell::from(cluster_id)];
        let list = crate::jobs::in_list(&mut args, chunk.iter().map(|id| Cell::from(id.0)));
        let sql = format!(
            "UPDATE jobs SET association_id = (SELECT id FROM associations WHERE associations.cluster_id = jobs.cluster_id \
             AND associations.account = jobs.account AND associations.user_name IN ('', jobs.user_name) \
             AND associations.partition_name IN ('', jobs.partition_name) AND associations.deleted = 0 \
             ORDER BY associations.user_name DESC, associations.partition_name DESC LIMIT 1) \
             WHERE cluster_id = $1 AND job_id IN ({list}) AND association_id IS NULL"
        );
        unit.execute(DOING, &sql, &args).await?;
    }
    Ok(())
}

/// Notes a text under its hash and gives the hash.
fn intern<'a>(texts: &mut HashMap<String, &'a str>, text: &'a str) -> String {
    let hash = Sha256::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    texts.insert(hash.clone(), text);
    hash
}

async fn write_texts(unit: &mut Unit, cluster_id: i64, texts: HashMap<String, &str>) -> Result<()> {
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_unstable();
    for (hash, text) in texts {
        unit.execute(
            DOING,
            "INSERT INTO job_texts (cluster_id, hash, content) VALUES ($1, $2, $3) ON CONFLICT (cluster_id, hash) DO NOTHING",
            &[cluster_id.into(), hash.as_str().into(), text.into()],
        )
        .await?;
    }
    Ok(())
}

async fn write_node_event(unit: &mut Unit, cluster_id: i64, event: &NodeEventRecord) -> Result<()> {
    events::close_open(unit, cluster_id, Some(&event.node), event.time_start).await?;
    unit.upsert(
        DOING,
        &NodeEventRecord::TABLE,
        &[CLUSTER_ID],
        &[row(cluster_id, &[], event)],
    )
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A script sent with the submission must not be lost when the start of the job is in the same batch.
    #[test]
    fn script_of_an_earlier_record_stays() {
        let mut submitted = JobRecord::new(JobId(1), 0, UnixSeconds(10));
        submitted.script = Some("#!/bin/sh".to_owned());
        let started = JobRecord {
            start: Some(UnixSeconds(11)),
            script: None,
            ..submitted.clone()
        };
        let mut row = JobRow::new(&submitted);
        row.replace(&submitted);
        row.replace(&started);
        assert_eq!(row.script, Some("#!/bin/sh"));
        assert_eq!(row.record.start, Some(UnixSeconds(11)));
    }

    /// Value from `printf abc | sha256sum`.
    #[test]
    fn texts_are_kept_by_sha256() {
        let mut texts = HashMap::new();
        let hash = intern(&mut texts, "abc");
        assert_eq!(
            hash,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
