//! Qualities of service.
//!
//! Invariant: `normal` has id 1 and always exists.

use sluice_model::accounting::QosRecord;

use crate::cell::{Cell, Column, Kind, Record};
use crate::database::Unit;
use crate::entities::edits::{Assignment, edit_qos};
use crate::entities::modify::{finish, ids};
use crate::entities::note_texts;
use crate::entities::selection::{Changed, OpenJob, Selection, all_rows, passes};
use crate::entities::transactions::{Entry, note};
use crate::{AccountingError, AccountingStore, Change, Result};

const READING: &str = "reading QOS";
const ADDING: &str = "adding the QOS";

impl AccountingStore {
    /// QOS that have not been removed, by id.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn qos(&self) -> Result<Vec<QosRecord>> {
        let mut unit = self.read().await?;
        let found = read(&mut unit, "WHERE deleted = 0").await?;
        unit.commit(READING).await?;
        Ok(found)
    }

    /// As [`Self::qos`], with those that were removed.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn all_qos(&self) -> Result<Vec<QosRecord>> {
        let mut unit = self.read().await?;
        let found = read(&mut unit, "").await?;
        unit.commit(READING).await?;
        Ok(found)
    }

    /// Adds QOS with the same settings; gives the names that are new.
    ///
    /// # Errors
    /// [`AccountingError::Refused`] for a setting that cannot be; or when the database cannot be written.
    pub async fn add_qos(
        &self,
        change: &Change,
        names: &[String],
        assignments: &[Assignment],
        commit: bool,
    ) -> Result<Changed> {
        let mut unit = self.write().await?;
        let mut done = Changed::default();
        for name in names {
            if exists(&mut unit, name).await? {
                continue;
            }
            let mut qos = QosRecord {
                name: name.clone(),
                description: name.clone(),
                ..QosRecord::default()
            };
            edit(&mut qos, assignments)?;
            put(&mut unit, &qos).await?;
            let sql = "UPDATE qos SET created = $2 WHERE name = $1";
            unit.execute(ADDING, sql, &[name.as_str().into(), change.now.into()])
                .await?;
            let ids = ids(&mut unit).await?;
            let info = note_texts::new_qos(&qos, change.now, &ids);
            note(
                &mut unit,
                change,
                Entry {
                    action: "Add QOS",
                    cluster: "",
                    condition: name,
                    info: &info,
                },
            )
            .await?;
            done.names.push(name.clone());
        }
        check_preemption(&mut unit).await?;
        finish(unit, commit && !done.is_empty()).await?;
        Ok(done)
    }

    /// Changes QOS.
    ///
    /// # Errors
    /// [`AccountingError::Refused`] for a setting that cannot be; or when the database cannot be written.
    pub async fn modify_qos(
        &self,
        change: &Change,
        selection: &Selection,
        assignments: &[Assignment],
        commit: bool,
    ) -> Result<Changed> {
        let mut unit = self.write().await?;
        let mut done = Changed::default();
        for mut qos in read(&mut unit, "WHERE deleted = 0").await? {
            if !fits(selection, &qos) {
                continue;
            }
            edit(&mut qos, assignments)?;
            put(&mut unit, &qos).await?;
            done.names.push(qos.name);
        }
        check_preemption(&mut unit).await?;
        if !done.names.is_empty() {
            let condition = note_texts::names(&done.names);
            let info = note_texts::assignments(assignments);
            note(
                &mut unit,
                change,
                Entry {
                    action: "Modify QOS",
                    cluster: "",
                    condition: &condition,
                    info: &info,
                },
            )
            .await?;
        }
        finish(unit, commit && !done.is_empty()).await?;
        Ok(done)
    }

    /// Removes QOS, also from the lists that name them.
    ///
    /// # Errors
    /// [`AccountingError::Refused`] for `normal`; or when the database cannot be written.
    pub async fn delete_qos(
        &self,
        change: &Change,
        selection: &Selection,
        commit: bool,
    ) -> Result<Changed> {
        let doing = "removing the QOS";
        let mut unit = self.write().await?;
        let mut done = Changed::default();
        for qos in read(&mut unit, "WHERE deleted = 0").await? {
            if fits(selection, &qos) {
                done.names.push(qos.name);
            }
        }
        done.names.sort_unstable();
        if done.names.iter().any(|name| name == "normal") {
            return Err(AccountingError::Refused {
                text: " Error with request: every cluster needs the QOS normal".to_owned(),
            });
        }
        for name in &done.names {
            done.open_jobs.extend(open_jobs_of(&mut unit, name).await?);
        }
        if !done.open_jobs.is_empty() {
            return Ok(Changed {
                open_jobs: done.open_jobs,
                ..Changed::default()
            });
        }
        for name in &done.names {
            unit.execute(
                doing,
                "UPDATE qos SET deleted = 1, preempt = '' WHERE name = $1",
                &[name.as_str().into()],
            )
            .await?;
        }
        for mut qos in read(&mut unit, "WHERE deleted = 0").await? {
            let before = qos.preempt.len();
            qos.preempt.retain(|name| !done.names.contains(name));
            if qos.preempt.len() != before {
                put(&mut unit, &qos).await?;
            }
        }
        for (cluster_id, mut row) in all_rows(&mut unit, &Selection::default()).await? {
            let old = row.clone();
            if let Some(list) = &mut row.qos {
                list.retain(|name| !done.names.contains(name));
            }
            row.qos = row.qos.filter(|list| !list.is_empty());
            row.qos_delta.retain(|delta| {
                !delta
                    .get(1..)
                    .is_some_and(|name| done.names.iter().any(|gone| gone == name))
            });
            if done.names.contains(&row.default_qos) {
                row.default_qos.clear();
            }
            if row != old {
                crate::entities::associations::put(&mut unit, cluster_id, &row).await?;
            }
        }
        if !done.names.is_empty() {
            let condition = note_texts::names(&done.names);
            note(
                &mut unit,
                change,
                Entry {
                    action: "Remove QOS",
                    cluster: "",
                    condition: &condition,
                    info: "",
                },
            )
            .await?;
        }
        finish(unit, commit && !done.is_empty()).await?;
        Ok(done)
    }
}

fn fits(selection: &Selection, qos: &QosRecord) -> bool {
    passes(&selection.names, &qos.name)
        && passes(&selection.descriptions, &qos.description)
        && passes(&selection.ids, &qos.id)
}

fn edit(qos: &mut QosRecord, assignments: &[Assignment]) -> Result<()> {
    for assignment in assignments {
        edit_qos(qos, assignment).map_err(|text| AccountingError::Refused { text })?;
    }
    Ok(())
}

/// Jobs in a QOS that have not ended.
async fn open_jobs_of(unit: &mut Unit, name: &str) -> Result<Vec<OpenJob>> {
    let sql = "SELECT job_id, clusters.name, account, user_name FROM jobs JOIN clusters ON clusters.id = jobs.cluster_id \
               WHERE time_end IS NULL AND qos = $1 ORDER BY job_id LIMIT 100";
    let kinds = [Kind::Int, Kind::Text, Kind::Text, Kind::Text];
    let rows = unit
        .rows("looking for jobs", sql, &[name.into()], &kinds)
        .await?;
    Ok(rows
        .into_iter()
        .filter_map(|row| match <[Cell; 4]>::try_from(row) {
            Ok(
                [
                    Cell::Int(Some(id)),
                    Cell::Text(cluster),
                    Cell::Text(account),
                    Cell::Text(user),
                ],
            ) => Some(OpenJob {
                job_id: u32::try_from(id).unwrap_or(0),
                cluster: cluster.unwrap_or_default(),
                account: account.unwrap_or_default(),
                user: user.unwrap_or_default(),
                qos: name.to_owned(),
            }),
            _ => None,
        })
        .collect())
}

/// A QOS that could preempt itself, over others or directly, would let jobs push each other out for ever.
async fn check_preemption(unit: &mut Unit) -> Result<()> {
    let all = read(unit, "WHERE deleted = 0").await?;
    for qos in &all {
        let mut seen: Vec<&str> = Vec::new();
        let mut next: Vec<&str> = qos.preempt.iter().map(String::as_str).collect();
        while let Some(name) = next.pop() {
            if name == qos.name {
                return Err(AccountingError::Refused {
                    text: " Error with request: QOS Preemption loop detected".to_owned(),
                });
            }
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            let below = all.iter().filter(|other| other.name == name);
            next.extend(below.flat_map(|other| other.preempt.iter().map(String::as_str)));
        }
    }
    Ok(())
}

/// QOS by id.
async fn read(unit: &mut Unit, filter: &str) -> Result<Vec<QosRecord>> {
    let found = unit
        .records_with_ids(READING, &format!("{filter} ORDER BY id"), &[])
        .await?;
    Ok(found
        .into_iter()
        .map(|(id, qos)| QosRecord { id, ..qos })
        .collect())
}

async fn exists(unit: &mut Unit, name: &str) -> Result<bool> {
    let sql = "SELECT COUNT(*) FROM qos WHERE name = $1 AND deleted = 0";
    Ok(unit.number("reading QOS", sql, &[name.into()]).await? == Some(1))
}

async fn put(unit: &mut Unit, qos: &QosRecord) -> Result<()> {
    let row: Vec<Cell> = qos.cells();
    let lead: [Column; 0] = [];
    unit.upsert("writing the QOS", &QosRecord::TABLE, &lead, &[row])
        .await
}
