//! Who changed what, when: one row for each change made through sacctmgr.
//!
//! Invariant: written in the transaction of the change itself, so neither exists without the other.

use sluice_model::accounting::TransactionRecord;

use crate::cell::Cell;
use crate::database::Unit;
use crate::{AccountingStore, Change, Result, TimeWindow};

impl AccountingStore {
    /// Changes within a window (`None` = all), oldest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn transactions(&self, window: Option<TimeWindow>) -> Result<Vec<TransactionRecord>> {
        let doing = "reading transactions";
        let mut unit = self.read().await?;
        let records = match window {
            None => unit.records(doing, "ORDER BY id", &[]).await?,
            Some(window) => {
                let args: [Cell; 2] = [window.start.into(), window.end.into()];
                unit.records(
                    doing,
                    "WHERE time_at >= $1 AND time_at <= $2 ORDER BY id",
                    &args,
                )
                .await?
            }
        };
        unit.commit(doing).await?;
        Ok(records)
    }
}

/// What a change did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub action: &'a str,
    pub cluster: &'a str,
    pub condition: &'a str,
    pub info: &'a str,
}

/// Notes a change.
pub(crate) async fn note(unit: &mut Unit, change: &Change, entry: Entry<'_>) -> Result<()> {
    unit.execute(
        "noting the change",
        "INSERT INTO transactions (time_at, action, actor, cluster, condition, info) VALUES ($1, $2, $3, $4, $5, $6)",
        &[
            change.now.into(),
            entry.action.into(),
            change.actor.as_str().into(),
            entry.cluster.into(),
            entry.condition.into(),
            entry.info.into(),
        ],
    )
    .await
    .map(drop)
}
