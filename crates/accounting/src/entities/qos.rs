//! Qualities of service.
//!
//! Invariant: `normal` has id 1 and always exists.

use sluice_model::accounting::QosRecord;

use crate::cell::{Cell, Column, Field, Kind, Record};
use crate::database::Unit;
use crate::entities::transactions::{Entry, note};
use crate::{AccountingError, AccountingStore, Change, Result};

impl AccountingStore {
    /// QOS that have not been removed, by id.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn qos(&self) -> Result<Vec<QosRecord>> {
        let doing = "reading QOS";
        let mut unit = self.read().await?;
        let table = QosRecord::TABLE;
        let sql = format!(
            "SELECT id, {} FROM qos WHERE deleted = 0 ORDER BY id",
            table.column_list("")
        );
        let kinds: Vec<Kind> = std::iter::once(Kind::Int)
            .chain(table.columns.iter().map(|column| column.kind))
            .collect();
        let mut found = Vec::new();
        for mut row in unit.rows(doing, &sql, &[], &kinds).await? {
            let id = <u32 as Field>::from_cell(row.remove(0)).map_err(|reason| {
                AccountingError::Value {
                    table: "qos",
                    column: "id",
                    reason,
                }
            })?;
            found.push(QosRecord {
                id,
                ..QosRecord::from_cells(row)?
            });
        }
        unit.commit(doing).await?;
        Ok(found)
    }

    /// Adds a QOS.
    ///
    /// # Errors
    /// [`AccountingError::Exists`]; or when the database cannot be written.
    pub async fn add_qos(&self, change: &Change, qos: &QosRecord) -> Result<()> {
        let doing = "adding the QOS";
        let mut unit = self.write().await?;
        if exists(&mut unit, &qos.name).await? {
            return Err(AccountingError::Exists {
                what: format!("QOS {}", qos.name),
            });
        }
        put(&mut unit, qos).await?;
        note(
            &mut unit,
            change,
            Entry {
                action: "Add QOS",
                cluster: "",
                condition: &qos.name,
                info: "",
            },
        )
        .await?;
        unit.commit(doing).await
    }

    /// Replaces all settings of a QOS, by its name.
    ///
    /// # Errors
    /// [`AccountingError::NotFound`]; or when the database cannot be written.
    pub async fn modify_qos(&self, change: &Change, qos: &QosRecord) -> Result<()> {
        let doing = "changing the QOS";
        let mut unit = self.write().await?;
        if !exists(&mut unit, &qos.name).await? {
            return Err(AccountingError::NotFound {
                what: format!("QOS {}", qos.name),
            });
        }
        put(&mut unit, qos).await?;
        note(
            &mut unit,
            change,
            Entry {
                action: "Modify QOS",
                cluster: "",
                condition: &qos.name,
                info: "",
            },
        )
        .await?;
        unit.commit(doing).await
    }

    /// Removes a QOS.
    ///
    /// # Errors
    /// [`AccountingError::NotFound`]; [`AccountingError::InUse`] for `normal` and while a job in it has not ended.
    pub async fn delete_qos(&self, change: &Change, name: &str) -> Result<()> {
        let doing = "removing the QOS";
        let what = || format!("QOS {name}");
        if name == "normal" {
            return Err(AccountingError::InUse {
                what: what(),
                by: "every cluster".to_owned(),
            });
        }
        let mut unit = self.write().await?;
        let open = unit
            .number(
                doing,
                "SELECT COUNT(*) FROM jobs WHERE qos = $1 AND time_end IS NULL",
                &[name.into()],
            )
            .await?;
        if let Some(count @ 1..) = open {
            return Err(AccountingError::InUse {
                what: what(),
                by: format!("{count} job(s) that have not ended"),
            });
        }
        let sql = "UPDATE qos SET deleted = 1 WHERE name = $1 AND deleted = 0";
        if unit.execute(doing, sql, &[name.into()]).await? == 0 {
            return Err(AccountingError::NotFound { what: what() });
        }
        note(
            &mut unit,
            change,
            Entry {
                action: "Remove QOS",
                cluster: "",
                condition: name,
                info: "",
            },
        )
        .await?;
        unit.commit(doing).await
    }
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
