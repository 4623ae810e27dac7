//! `sacctmgr delete`: removes what a selection means, in one transaction with its entry in the log.
//!
//! Invariant: nothing goes that a job which has not ended is charged to; a user's default account does not go while others stay.
//! Rows that were made within a day and never charged go for good, others keep their place with `deleted` set, since old records
//! refer to them. Source: `sacctmgr(1)`.

use sluice_model::accounting::{AccountRecord, AssociationRecord, ResourceRecord};

use crate::cell::Cell;
use crate::database::Unit;
use crate::entities::modify::finish;
use crate::entities::note_texts;
use crate::entities::selection::{Changed, Selection, all_rows, open_jobs, passes};
use crate::entities::transactions::{Entry, note};
use crate::entities::{clusters, tree, users};
use crate::{AccountingError, AccountingStore, Change, Result};

const DOING: &str = "removing from accounting";

/// How long a row that nobody used can go without a trace.
const UNUSED_SECS: i64 = 86_400;

impl AccountingStore {
    /// Removes rows of users, and users who have none left.
    ///
    /// # Errors
    /// [`AccountingError::Refused`] with sacctmgr's words; or when the database cannot be written.
    pub async fn delete_users(
        &self,
        change: &Change,
        selection: &Selection,
        commit: bool,
    ) -> Result<Changed> {
        let mut unit = self.write().await?;
        let all = all_rows(&mut unit, selection).await?;
        let people = users::read(&mut unit, false).await?;
        let meant: Vec<&str> = people
            .iter()
            .filter(|user| selection.fits_user(user))
            .map(|user| user.name.as_str())
            .collect();
        let gone: Vec<(i64, AssociationRecord)> = all
            .iter()
            .filter(|(_, row)| {
                meant.contains(&row.user.as_str())
                    && passes(&selection.accounts, &row.account)
                    && selection.fits(row)
            })
            .cloned()
            .collect();
        let mut done = Changed {
            open_jobs: open_jobs(&mut unit, &gone).await?,
            ..Changed::default()
        };
        if !done.open_jobs.is_empty() {
            return Ok(done);
        }
        refuse_default_accounts(&all, &gone)?;
        remove_rows(&mut unit, change, &gone).await?;
        if selection.is_about_rows() {
            done.associations = gone.iter().map(|(_, row)| row.clone()).collect();
        }
        let left = all_rows(&mut unit, &Selection::default()).await?;
        let without_rows: Vec<String> = meant
            .iter()
            .filter(|name| !left.iter().any(|(_, row)| row.user == **name))
            .filter(|name| {
                !selection.is_about_rows() || gone.iter().any(|(_, row)| row.user == **name)
            })
            .map(|name| (*name).to_owned())
            .collect();
        for name in &without_rows {
            for sql in [
                "UPDATE users SET deleted = 1, admin_level = 1 WHERE name = $1",
                "DELETE FROM coordinators WHERE user_name = $1",
                "UPDATE wckeys SET deleted = 1, is_default = 0 WHERE user_name = $1",
            ] {
                unit.execute(DOING, sql, &[name.as_str().into()]).await?;
            }
            let args: [Cell; 2] = [name.as_str().into(), (change.now.0 - UNUSED_SECS).into()];
            let sql = "DELETE FROM users WHERE name = $1 AND deleted = 1 AND created > $2 AND NOT EXISTS \
                       (SELECT 1 FROM associations WHERE associations.user_name = users.name)";
            unit.execute(DOING, sql, &args).await?;
        }
        if !without_rows.is_empty() {
            let condition = note_texts::names(&without_rows);
            note(
                &mut unit,
                change,
                Entry {
                    action: "Remove Users",
                    cluster: "",
                    condition: &condition,
                    info: "",
                },
            )
            .await?;
        }
        if selection.is_about_rows() {
            done.orphans = without_rows;
        } else {
            done.names = meant.iter().map(|name| (*name).to_owned()).collect();
        }
        finish(unit, commit && !done.is_empty()).await?;
        Ok(done)
    }

    /// Removes accounts with everything below them from some clusters (none named = all).
    ///
    /// # Errors
    /// [`AccountingError::Refused`] with sacctmgr's words; or when the database cannot be written.
    pub async fn delete_accounts(
        &self,
        change: &Change,
        selection: &Selection,
        commit: bool,
    ) -> Result<Changed> {
        let mut unit = self.write().await?;
        let all = all_rows(&mut unit, selection).await?;
        let accounts: Vec<AccountRecord> = unit
            .records(DOING, "WHERE deleted = 0 ORDER BY name", &[])
            .await?;
        let names: Vec<String> = accounts
            .iter()
            .filter(|account| {
                selection.fits_account(account)
                    && all.iter().any(|(_, row)| {
                        row.account == account.name
                            && row.user.is_empty()
                            && passes(&selection.parents, &row.parent_account)
                    })
            })
            .map(|account| account.name.clone())
            .collect();
        if names.iter().any(|name| name == "root") {
            return Err(AccountingError::Refused {
                text:
                    " You are not allowed to remove the root account.\n Use remove cluster instead."
                        .to_owned(),
            });
        }
        let mut gone: Vec<(i64, AssociationRecord)> = Vec::new();
        for (cluster_id, cluster) in clusters::select(&mut unit, &selection.clusters).await? {
            let rows: Vec<AssociationRecord> = all
                .iter()
                .filter(|(id, _)| *id == cluster_id)
                .map(|(_, row)| row.clone())
                .collect();
            let below: Vec<String> = names
                .iter()
                .flat_map(|name| tree::subtree(&rows, name))
                .collect();
            gone.extend(
                rows.into_iter()
                    .filter(|row| row.cluster == cluster && below.contains(&row.account))
                    .map(|row| (cluster_id, row)),
            );
        }
        let mut done = Changed {
            open_jobs: open_jobs(&mut unit, &gone).await?,
            ..Changed::default()
        };
        if !done.open_jobs.is_empty() {
            return Ok(done);
        }
        refuse_default_accounts(&all, &gone)?;
        remove_rows(&mut unit, change, &gone).await?;
        let sql = "UPDATE accounts SET deleted = 1 WHERE name <> 'root' AND deleted = 0 AND NOT EXISTS \
                   (SELECT 1 FROM associations WHERE associations.account = accounts.name AND associations.deleted = 0)";
        unit.execute(DOING, sql, &[]).await?;
        let sql = "DELETE FROM coordinators WHERE NOT EXISTS \
                   (SELECT 1 FROM accounts WHERE accounts.name = coordinators.account AND accounts.deleted = 0)";
        unit.execute(DOING, sql, &[]).await?;
        let sql = "DELETE FROM accounts WHERE deleted = 1 AND created > $1 AND NOT EXISTS \
                   (SELECT 1 FROM associations WHERE associations.account = accounts.name)";
        unit.execute(DOING, sql, &[(change.now.0 - UNUSED_SECS).into()])
            .await?;
        if !names.is_empty() {
            let condition = note_texts::names(&names);
            note(
                &mut unit,
                change,
                Entry {
                    action: "Remove Accounts",
                    cluster: "",
                    condition: &condition,
                    info: "",
                },
            )
            .await?;
        }
        done.names = names;
        finish(unit, commit && !done.is_empty()).await?;
        Ok(done)
    }

    /// Marks clusters and their rows as removed. Their records stay.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn delete_clusters(
        &self,
        change: &Change,
        selection: &Selection,
        commit: bool,
    ) -> Result<Changed> {
        let mut unit = self.write().await?;
        let mut selection = selection.clone();
        selection.clusters.append(&mut selection.names);
        let all = all_rows(&mut unit, &selection).await?;
        let mut done = Changed {
            open_jobs: open_jobs(&mut unit, &all).await?,
            ..Changed::default()
        };
        if !done.open_jobs.is_empty() {
            return Ok(done);
        }
        for (cluster_id, cluster) in clusters::select(&mut unit, &selection.clusters).await? {
            for sql in [
                "UPDATE clusters SET deleted = 1 WHERE id = $1",
                "UPDATE associations SET deleted = 1, is_default = 0 WHERE cluster_id = $1",
                "UPDATE wckeys SET deleted = 1, is_default = 0 WHERE cluster_id = $1",
            ] {
                unit.execute(DOING, sql, &[cluster_id.into()]).await?;
            }
            note(
                &mut unit,
                change,
                Entry {
                    action: "Remove Clusters",
                    cluster: &cluster,
                    condition: &cluster,
                    info: "",
                },
            )
            .await?;
            done.names.push(cluster);
        }
        finish(unit, commit && !done.is_empty()).await?;
        Ok(done)
    }

    /// Removes resources; with clusters, only their shares.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn delete_resources(
        &self,
        change: &Change,
        selection: &Selection,
        commit: bool,
    ) -> Result<Changed> {
        let mut unit = self.write().await?;
        let found: Vec<ResourceRecord> = crate::entities::resources::read(&mut unit, false).await?;
        let mut done = Changed::default();
        for resource in found {
            if !selection.fits_resource(&resource) {
                continue;
            }
            let full = format!("{}@{}", resource.name, resource.server);
            let shares: Vec<&String> = resource
                .clusters
                .iter()
                .map(|(name, _)| name)
                .filter(|name| passes(&selection.clusters, *name))
                .collect();
            if selection.clusters.is_empty() {
                unit.execute(
                    DOING,
                    "UPDATE resources SET deleted = 1 WHERE id = $1",
                    &[resource.id.into()],
                )
                .await?;
                done.names.push(full.clone());
            }
            for name in shares {
                let sql = "DELETE FROM resource_clusters WHERE resource_id = $1 AND cluster = $2";
                unit.execute(DOING, sql, &[resource.id.into(), name.as_str().into()])
                    .await?;
                done.names.push(format!("Cluster - {name}\t- {full}"));
            }
            let condition = format!("(id='{}')", resource.id);
            note(
                &mut unit,
                change,
                Entry {
                    action: "Remove Resources",
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

/// A user must keep a default account while there is any.
fn refuse_default_accounts(
    all: &[(i64, AssociationRecord)],
    gone: &[(i64, AssociationRecord)],
) -> Result<()> {
    let goes = |row: &AssociationRecord| gone.iter().any(|(_, other)| other.id == row.id);
    let lines: Vec<String> = gone
        .iter()
        .map(|(_, row)| row)
        .filter(|row| {
            row.is_default
                && all.iter().any(|(_, other)| {
                    other.cluster == row.cluster
                        && other.user == row.user
                        && other.account != row.account
                        && !goes(other)
                })
        })
        .map(|row| {
            format!(
                "  C = {:<10} A = {:<10} U = {:<9}",
                row.cluster, row.account, row.user
            )
        })
        .collect();
    if lines.is_empty() {
        return Ok(());
    }
    Err(AccountingError::Refused {
        text: format!(
            " Error with request: You can not remove the default account of a user\n{}",
            lines.join("\n")
        ),
    })
}

/// Takes rows out; a row that is young and was never charged goes for good.
async fn remove_rows(
    unit: &mut Unit,
    change: &Change,
    rows: &[(i64, AssociationRecord)],
) -> Result<()> {
    for (cluster_id, row) in rows {
        unit.execute(
            DOING,
            "UPDATE associations SET deleted = 1, is_default = 0 WHERE id = $1",
            &[row.id.into()],
        )
        .await?;
        let sql = "DELETE FROM associations WHERE id = $1 AND created > $2 AND NOT EXISTS \
                   (SELECT 1 FROM jobs WHERE jobs.cluster_id = $3 AND jobs.account = $4 AND ($5 = '' OR jobs.user_name = $5))";
        let args: [Cell; 5] = [
            row.id.into(),
            (change.now.0 - UNUSED_SECS).into(),
            (*cluster_id).into(),
            row.account.as_str().into(),
            row.user.as_str().into(),
        ];
        unit.execute(DOING, sql, &args).await?;
    }
    if let Some((_, first)) = rows.first() {
        let list: Vec<AssociationRecord> = rows.iter().map(|(_, row)| row.clone()).collect();
        let condition = note_texts::row_ids(&list);
        note(
            unit,
            change,
            Entry {
                action: "Remove Associations",
                cluster: &first.cluster,
                condition: &condition,
                info: "",
            },
        )
        .await?;
    }
    Ok(())
}
