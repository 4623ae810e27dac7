//! Accounts: names with a description, placed in the tree of each cluster by an association.
//!
//! Invariant: an account has one place a cluster, under a parent that exists there; `root` cannot be removed.

use sluice_model::accounting::{AccountRecord, AssociationRecord};

use crate::cell::{Cell, Kind};
use crate::database::Unit;
use crate::entities::transactions::{Entry, note};
use crate::entities::{associations, tree};
use crate::job_query::OVER;
use crate::{AccountingError, AccountingStore, Change, Result};

const ADDING: &str = "adding the account";

impl AccountingStore {
    /// Accounts that have not been removed, by name, with their coordinators.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn accounts(&self) -> Result<Vec<AccountRecord>> {
        let doing = "reading accounts";
        let mut unit = self.read().await?;
        let mut accounts: Vec<AccountRecord> = unit
            .records(doing, "WHERE deleted = 0 ORDER BY name", &[])
            .await?;
        for (account, user) in coordinators(&mut unit).await? {
            if let Some(record) = accounts.iter_mut().find(|record| record.name == account) {
                record.coordinators.push(user);
            }
        }
        unit.commit(doing).await?;
        Ok(accounts)
    }

    /// Adds an account under a parent on some clusters (empty = all). Gives the associations that are new.
    ///
    /// # Errors
    /// [`AccountingError::Exists`] if it is on all of them already, [`AccountingError::NotFound`] for a cluster or the parent.
    pub async fn add_account(
        &self,
        change: &Change,
        account: &AccountRecord,
        parent: &str,
        on: &[String],
        template: &AssociationRecord,
    ) -> Result<Vec<AssociationRecord>> {
        let mut unit = self.write().await?;
        let targets = associations::target_clusters(&mut unit, on).await?;
        let mut added = Vec::new();
        let mut present = Vec::new();
        for (cluster_id, cluster) in targets {
            if associations::find(&mut unit, cluster_id, &account.name, "", "")
                .await?
                .is_some()
            {
                present.push(cluster);
                continue;
            }
            if associations::find(&mut unit, cluster_id, parent, "", "")
                .await?
                .is_none()
            {
                return Err(AccountingError::NotFound {
                    what: format!("parent account {parent} on cluster {cluster}"),
                });
            }
            let association = AssociationRecord {
                id: 0,
                cluster: cluster.clone(),
                account: account.name.clone(),
                user: String::new(),
                partition: String::new(),
                parent_account: parent.to_owned(),
                is_default: false,
                deleted: false,
                ..template.clone()
            };
            associations::put(&mut unit, cluster_id, &association).await?;
            note_association(&mut unit, change, &association).await?;
            added.push(association);
        }
        if added.is_empty() {
            return Err(AccountingError::Exists {
                what: format!("account {} on cluster {}", account.name, present.join(",")),
            });
        }
        put(&mut unit, change, account).await?;
        let info = format!(
            "description='{}', organization='{}'",
            account.description, account.organization
        );
        note(
            &mut unit,
            change,
            Entry {
                action: "Add Accounts",
                cluster: "",
                condition: &account.name,
                info: &info,
            },
        )
        .await?;
        unit.commit(ADDING).await?;
        Ok(added)
    }

    /// Replaces the description, organization and flags of an account.
    ///
    /// # Errors
    /// [`AccountingError::NotFound`]; or when the database cannot be written.
    pub async fn modify_account(&self, change: &Change, account: &AccountRecord) -> Result<()> {
        let doing = "changing the account";
        let mut unit = self.write().await?;
        let changed = unit
            .execute(
                doing,
                "UPDATE accounts SET description = $2, organization = $3, flags = $4 WHERE name = $1 AND deleted = 0",
                &[
                    account.name.as_str().into(),
                    account.description.as_str().into(),
                    account.organization.as_str().into(),
                    account.flags.as_str().into(),
                ],
            )
            .await?;
        if changed == 0 {
            return Err(AccountingError::NotFound {
                what: format!("account {}", account.name),
            });
        }
        let info = format!(
            "description='{}', organization='{}'",
            account.description, account.organization
        );
        note(
            &mut unit,
            change,
            Entry {
                action: "Modify Accounts",
                cluster: "",
                condition: &account.name,
                info: &info,
            },
        )
        .await?;
        unit.commit(doing).await
    }

    /// Removes an account with everything below it from some clusters (empty = all); the account itself when no cluster has it
    /// any more.
    ///
    /// # Errors
    /// [`AccountingError::InUse`] while one of its users has a job that has not ended, or for `root`.
    pub async fn delete_account(&self, change: &Change, name: &str, on: &[String]) -> Result<()> {
        let doing = "removing the account";
        if name == "root" {
            return Err(AccountingError::InUse {
                what: "account root".to_owned(),
                by: "every cluster".to_owned(),
            });
        }
        let mut unit = self.write().await?;
        let mut found = false;
        for (cluster_id, cluster) in associations::target_clusters(&mut unit, on).await? {
            let rows = associations::of_cluster(&mut unit, cluster_id, &cluster).await?;
            if !rows.iter().any(|row| row.account == name) {
                continue;
            }
            found = true;
            for account in tree::subtree(&rows, name) {
                refuse_with_open_jobs(&mut unit, cluster_id, &cluster, "account", &account).await?;
                let args: [Cell; 2] = [cluster_id.into(), account.as_str().into()];
                let sql = "UPDATE associations SET deleted = 1, is_default = 0 WHERE cluster_id = $1 AND account = $2";
                unit.execute(doing, sql, &args).await?;
            }
        }
        if !found {
            return Err(AccountingError::NotFound {
                what: format!("account {name}"),
            });
        }
        let sql = "UPDATE accounts SET deleted = 1 WHERE name <> 'root' AND NOT EXISTS \
                   (SELECT 1 FROM associations WHERE associations.account = accounts.name AND associations.deleted = 0)";
        unit.execute(doing, sql, &[]).await?;
        note(
            &mut unit,
            change,
            Entry {
                action: "Remove Accounts",
                cluster: "",
                condition: name,
                info: "",
            },
        )
        .await?;
        unit.commit(doing).await
    }

    /// Makes a user coordinator of an account, or ends that.
    ///
    /// # Errors
    /// [`AccountingError::NotFound`] if the account is unknown; or when the database cannot be written.
    pub async fn set_coordinator(
        &self,
        change: &Change,
        account: &str,
        user: &str,
        coordinates: bool,
    ) -> Result<()> {
        let doing = "changing coordinators";
        let mut unit = self.write().await?;
        let known = "SELECT COUNT(*) FROM accounts WHERE name = $1 AND deleted = 0";
        if unit.number(doing, known, &[account.into()]).await? != Some(1) {
            return Err(AccountingError::NotFound {
                what: format!("account {account}"),
            });
        }
        let (sql, action) = if coordinates {
            (
                "INSERT INTO coordinators (account, user_name) VALUES ($1, $2) ON CONFLICT (account, user_name) DO NOTHING",
                "Add Account Coordinators",
            )
        } else {
            (
                "DELETE FROM coordinators WHERE account = $1 AND user_name = $2",
                "Remove Account Coordinators",
            )
        };
        unit.execute(doing, sql, &[account.into(), user.into()])
            .await?;
        note(
            &mut unit,
            change,
            Entry {
                action,
                cluster: "",
                condition: user,
                info: account,
            },
        )
        .await?;
        unit.commit(doing).await
    }
}

/// Writes an account, or brings a removed one back.
async fn put(unit: &mut Unit, change: &Change, account: &AccountRecord) -> Result<()> {
    // An account that exists keeps its description: `add` on a further cluster only places it there.
    let sql = "INSERT INTO accounts (name, description, organization, flags, created) VALUES ($1, $2, $3, $4, $5) \
               ON CONFLICT (name) DO UPDATE SET deleted = 0";
    let args: [Cell; 5] = [
        account.name.as_str().into(),
        account.description.as_str().into(),
        account.organization.as_str().into(),
        account.flags.as_str().into(),
        change.now.into(),
    ];
    unit.execute(ADDING, sql, &args).await.map(drop)
}

/// (account, user) of all coordinators, sorted.
pub(crate) async fn coordinators(unit: &mut Unit) -> Result<Vec<(String, String)>> {
    let sql = "SELECT account, user_name FROM coordinators ORDER BY account, user_name";
    let rows = unit
        .rows("reading coordinators", sql, &[], &[Kind::Text, Kind::Text])
        .await?;
    Ok(rows
        .into_iter()
        .filter_map(|row| match <[Cell; 2]>::try_from(row) {
            Ok([Cell::Text(Some(account)), Cell::Text(Some(user))]) => Some((account, user)),
            _ => None,
        })
        .collect())
}

/// Notes a new association.
pub(crate) async fn note_association(
    unit: &mut Unit,
    change: &Change,
    association: &AssociationRecord,
) -> Result<()> {
    let condition = format!(
        "account={} user={} partition={}",
        association.account, association.user, association.partition
    );
    note(
        unit,
        change,
        Entry {
            action: "Add Associations",
            cluster: &association.cluster,
            condition: &condition,
            info: "",
        },
    )
    .await
}

/// Refuses to go on while jobs of an account or user (`kind`) have not ended.
pub(crate) async fn refuse_with_open_jobs(
    unit: &mut Unit,
    cluster_id: i64,
    cluster: &str,
    kind: &'static str,
    name: &str,
) -> Result<()> {
    let column = if kind == "user" {
        "user_name"
    } else {
        "account"
    };
    let sql = format!(
        "SELECT job_id FROM jobs WHERE cluster_id = $1 AND {column} = $2 AND {OVER} = $3 ORDER BY job_id LIMIT 20"
    );
    let rows = unit
        .rows(
            "looking for jobs",
            &sql,
            &[cluster_id.into(), name.into(), i64::MAX.into()],
            &[Kind::Int],
        )
        .await?;
    if rows.is_empty() {
        return Ok(());
    }
    let jobs: Vec<String> = rows
        .into_iter()
        .flatten()
        .filter_map(|cell| {
            if let Cell::Int(Some(id)) = cell {
                Some(id.to_string())
            } else {
                None
            }
        })
        .collect();
    Err(AccountingError::InUse {
        what: format!("{kind} {name}"),
        by: format!("job(s) {} on cluster {cluster}", jobs.join(",")),
    })
}
