//! Changes to job records: `sacctmgr modify job`, and the end of jobs that nobody knows any more.
//!
//! Of a job that was requeued the newest run is meant. Invariant: only texts, the key and the derived exit code can be changed, and
//! only a job that has no end gets one. Source: `sacctmgr(1)`, SPECIFICATIONS FOR JOB, `show runawayjobs`.

use sluice_model::accounting::JobRecord;

use crate::cell::{Cell, Kind};
use crate::entities::edits::Assignment;
use crate::entities::modify::finish;
use crate::entities::selection::{Changed, Selection, passes};
use crate::entities::transactions::{Entry, note};
use crate::entities::{clusters, note_texts};
use crate::{AccountingError, AccountingStore, Change, Result};

const DOING: &str = "changing job records";

/// State COMPLETED, Slurm's number.
const COMPLETED: i64 = 3;
/// State FAILED, Slurm's number.
const FAILED: i64 = 5;

impl AccountingStore {
    /// Who ran a job; `None` if there is no record of it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn job_owner(&self, cluster: &str, job_id: u32) -> Result<Option<u32>> {
        let mut unit = self.read().await?;
        let sql = "SELECT uid FROM jobs JOIN clusters ON clusters.id = jobs.cluster_id WHERE clusters.name = $1 AND job_id = $2 \
                   ORDER BY submit DESC, attempt DESC LIMIT 1";
        let uid = unit
            .number(DOING, sql, &[cluster.into(), job_id.into()])
            .await?;
        unit.commit(DOING).await?;
        Ok(uid.and_then(|uid| u32::try_from(uid).ok()))
    }

    /// Changes the newest run of jobs; gives their ids.
    ///
    /// # Errors
    /// [`AccountingError::Refused`] for a field that cannot be changed; or when the database cannot be written.
    pub async fn modify_jobs(
        &self,
        change: &Change,
        selection: &Selection,
        assignments: &[Assignment],
        commit: bool,
    ) -> Result<Changed> {
        let mut unit = self.write().await?;
        let mut done = Changed::default();
        for (cluster_id, cluster) in clusters::select(&mut unit, &selection.clusters).await? {
            for name in &selection.names {
                let id: i64 = name.parse().map_err(|_| AccountingError::Refused {
                    text: format!(" Invalid job id: {name}"),
                })?;
                let sql = "SELECT submit, attempt, user_name, wckey FROM jobs WHERE cluster_id = $1 AND job_id = $2 \
                           ORDER BY submit DESC, attempt DESC LIMIT 1";
                let kinds = [Kind::Int, Kind::Int, Kind::Text, Kind::Text];
                let rows = unit
                    .rows(DOING, sql, &[cluster_id.into(), id.into()], &kinds)
                    .await?;
                let Some(
                    [
                        Cell::Int(Some(submit)),
                        Cell::Int(Some(attempt)),
                        Cell::Text(user),
                        Cell::Text(wckey),
                    ],
                ) = rows
                    .first()
                    .and_then(|row| <&[Cell; 4]>::try_from(row.as_slice()).ok())
                else {
                    continue;
                };
                if !passes(&selection.users, user.as_deref().unwrap_or_default())
                    || !passes(&selection.wckeys, wckey.as_deref().unwrap_or_default())
                {
                    continue;
                }
                for assignment in assignments {
                    let text = Cell::from(assignment.value.as_str());
                    let (column, value) = match assignment.field.as_str() {
                        "comment" => ("comment", text),
                        "admin_comment" => ("admin_comment", text),
                        "system_comment" => ("system_comment", text),
                        "extra" => ("extra", text),
                        "wckey" => ("wckey", text),
                        "derived_exit_status" => {
                            let status = assignment.value.parse::<i64>().map_err(|_| {
                                AccountingError::Refused {
                                    text: format!(" Invalid exit code: {}", assignment.value),
                                }
                            })?;
                            ("derived_exit_status", Cell::from(status))
                        }
                        other => {
                            return Err(AccountingError::Refused {
                                text: format!(" A job record's {other} cannot be changed"),
                            });
                        }
                    };
                    let sql = format!(
                        "UPDATE jobs SET {column} = $5 WHERE cluster_id = $1 AND job_id = $2 AND submit = $3 AND attempt = $4"
                    );
                    let args = [
                        cluster_id.into(),
                        id.into(),
                        (*submit).into(),
                        (*attempt).into(),
                        value,
                    ];
                    unit.execute(DOING, &sql, &args).await?;
                }
                let condition = format!("job_id={id}");
                let info = note_texts::assignments(assignments);
                let entry = Entry {
                    action: "Modify Job",
                    cluster: &cluster,
                    condition: &condition,
                    info: &info,
                };
                note(&mut unit, change, entry).await?;
                done.names.push(name.clone());
            }
        }
        finish(unit, commit && !done.is_empty()).await?;
        Ok(done)
    }

    /// Jobs of a cluster that have not ended, by id.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn unended_jobs(&self, cluster: &str) -> Result<Vec<JobRecord>> {
        let mut unit = self.read().await?;
        let cluster_id = clusters::id_of(&mut unit, cluster).await?;
        let tail = "WHERE cluster_id = $1 AND time_end IS NULL ORDER BY job_id, submit, attempt";
        let mut jobs: Vec<JobRecord> = unit
            .records("reading jobs", tail, &[cluster_id.into()])
            .await?;
        unit.commit("reading jobs").await?;
        for job in &mut jobs {
            cluster.clone_into(&mut job.cluster);
        }
        Ok(jobs)
    }

    /// Ends jobs that were lost: at the latest of start, eligible and submission, as completed or failed.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn end_lost_jobs(
        &self,
        change: &Change,
        cluster: &str,
        jobs: &[JobRecord],
        failed: bool,
    ) -> Result<()> {
        let mut unit = self.write().await?;
        let cluster_id = clusters::id_of(&mut unit, cluster).await?;
        let state = if failed { FAILED } else { COMPLETED };
        for job in jobs {
            let end = job
                .submit
                .max(job.eligible.unwrap_or(job.submit))
                .max(job.start.unwrap_or(job.submit));
            let sql = "UPDATE jobs SET time_end = $5, state = $6 \
                       WHERE cluster_id = $1 AND job_id = $2 AND submit = $3 AND attempt = $4 AND time_end IS NULL";
            let args: [Cell; 6] = [
                cluster_id.into(),
                job.job_id.0.into(),
                job.submit.into(),
                job.attempt.into(),
                end.into(),
                state.into(),
            ];
            unit.execute(DOING, sql, &args).await?;
            let sql = "UPDATE steps SET time_end = CASE WHEN time_start > $5 THEN time_start ELSE $5 END, state = $6 \
                       WHERE cluster_id = $1 AND job_id = $2 AND job_submit = $3 AND attempt = $4 AND time_end IS NULL";
            unit.execute(DOING, sql, &args).await?;
        }
        let ids: Vec<String> = jobs.iter().map(|job| job.job_id.to_string()).collect();
        let entry = Entry {
            action: "Fix Runaway Jobs",
            cluster,
            condition: &ids.join(","),
            info: "",
        };
        note(&mut unit, change, entry).await?;
        unit.commit(DOING).await
    }
}
