//! Workload keys: names that a user may charge jobs to, beside the account.
//!
//! Invariant: at most one key of a user on a cluster is the default. Source: `sacctmgr(1)`, `wckey`.

use sluice_model::accounting::WckeyRecord;

use crate::cell::Cell;
use crate::database::Unit;
use crate::entities::clusters;
use crate::entities::selection::Selection;
use crate::entities::transactions::{Entry, note};
use crate::{AccountingStore, Change, Result};

const DOING: &str = "changing workload keys";

impl AccountingStore {
    /// Keys by cluster, name and user.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn wckeys(&self, with_deleted: bool) -> Result<Vec<WckeyRecord>> {
        let doing = "reading workload keys";
        let mut unit = self.read().await?;
        let mut found = Vec::new();
        let deleted = if with_deleted { "" } else { " AND deleted = 0" };
        for (cluster_id, cluster) in clusters::select(&mut unit, &[]).await? {
            let tail = format!("WHERE cluster_id = $1{deleted} ORDER BY name, user_name");
            let keys: Vec<WckeyRecord> = unit.records(doing, &tail, &[cluster_id.into()]).await?;
            found.extend(keys.into_iter().map(|key| WckeyRecord {
                cluster: cluster.clone(),
                ..key
            }));
        }
        unit.commit(doing).await?;
        Ok(found)
    }

    /// Gives keys to a user on some clusters (none named = all). The first one, or the one named, becomes the default of a user
    /// who has none. Gives those that are new.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn add_wckeys(
        &self,
        change: &Change,
        user: &str,
        names: &[String],
        on: &[String],
        default: Option<&str>,
        commit: bool,
    ) -> Result<Vec<WckeyRecord>> {
        let mut unit = self.write().await?;
        let mut added = Vec::new();
        for (cluster_id, cluster) in clusters::select(&mut unit, on).await? {
            for name in names {
                let args: [Cell; 3] = [cluster_id.into(), name.as_str().into(), user.into()];
                let sql = "SELECT COUNT(*) FROM wckeys WHERE cluster_id = $1 AND name = $2 AND user_name = $3 AND deleted = 0";
                if unit.number(DOING, sql, &args).await? != Some(0) {
                    continue;
                }
                let sql = "INSERT INTO wckeys (cluster_id, name, user_name, created) VALUES ($1, $2, $3, $4) \
                           ON CONFLICT (cluster_id, name, user_name) DO UPDATE SET deleted = 0";
                let args: [Cell; 4] = [
                    cluster_id.into(),
                    name.as_str().into(),
                    user.into(),
                    change.now.into(),
                ];
                unit.execute(DOING, sql, &args).await?;
                let info = format!(
                    "mod_time={}, wckey_name='{name}', user='{user}'",
                    change.now.0
                );
                note(
                    &mut unit,
                    change,
                    Entry {
                        action: "Add WCKeys",
                        cluster: &cluster,
                        condition: name,
                        info: &info,
                    },
                )
                .await?;
                added.push(WckeyRecord {
                    cluster: cluster.clone(),
                    name: name.clone(),
                    user: user.to_owned(),
                    ..WckeyRecord::default()
                });
            }
            let sql = "SELECT COUNT(*) FROM wckeys WHERE cluster_id = $1 AND user_name = $2 AND is_default <> 0 AND deleted = 0";
            let has_default = unit
                .number(DOING, sql, &[cluster_id.into(), user.into()])
                .await?
                != Some(0);
            let wanted = default.or(names.first().map(String::as_str).filter(|_| !has_default));
            if let Some(wanted) = wanted {
                mark(&mut unit, cluster_id, user, wanted).await?;
            }
        }
        if commit {
            unit.commit(DOING).await?;
        }
        Ok(added)
    }
}

/// Makes a key the default of a user on the clusters of a selection; the user gets it if it is new.
pub(crate) async fn make_default(
    unit: &mut Unit,
    selection: &Selection,
    user: &str,
    name: &str,
) -> Result<()> {
    for (cluster_id, _) in clusters::select(unit, &selection.clusters).await? {
        let sql = "INSERT INTO wckeys (cluster_id, name, user_name) VALUES ($1, $2, $3) \
                   ON CONFLICT (cluster_id, name, user_name) DO UPDATE SET deleted = 0";
        unit.execute(DOING, sql, &[cluster_id.into(), name.into(), user.into()])
            .await?;
        mark(unit, cluster_id, user, name).await?;
    }
    Ok(())
}

async fn mark(unit: &mut Unit, cluster_id: i64, user: &str, name: &str) -> Result<()> {
    let sql = "UPDATE wckeys SET is_default = CASE WHEN name = $3 THEN 1 ELSE 0 END WHERE cluster_id = $1 AND user_name = $2";
    unit.execute(DOING, sql, &[cluster_id.into(), user.into(), name.into()])
        .await
        .map(drop)
}
