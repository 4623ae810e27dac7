//! Accounts: names with a description, placed in the tree of each cluster by an association.
//!
//! Invariant: an account has one place a cluster, under a parent that exists there; `root` cannot be removed.

use sluice_model::accounting::{AccountRecord, AssociationRecord};

use crate::cell::{Cell, Kind};
use crate::database::Unit;
use crate::entities::associations;
use crate::entities::modify::finish;
use crate::entities::selection::{Changed, passes};
use crate::entities::transactions::{Entry, note};
use crate::{AccountingError, AccountingStore, Change, Result};

const ADDING: &str = "adding the account";
const COORDINATORS: &str = "changing coordinators";

impl AccountingStore {
    /// Accounts that have not been removed, by name, with their coordinators.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn accounts(&self) -> Result<Vec<AccountRecord>> {
        self.read_accounts("WHERE deleted = 0 ORDER BY name").await
    }

    /// As [`Self::accounts`], with those that were removed.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn all_accounts(&self) -> Result<Vec<AccountRecord>> {
        self.read_accounts("ORDER BY name").await
    }

    async fn read_accounts(&self, tail: &str) -> Result<Vec<AccountRecord>> {
        let doing = "reading accounts";
        let mut unit = self.read().await?;
        let mut accounts: Vec<AccountRecord> = unit.records(doing, tail, &[]).await?;
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
            added.push((cluster_id, association));
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
        let mut rows = Vec::new();
        for (cluster_id, association) in added {
            rows.push(associations::add(&mut unit, change, cluster_id, association).await?);
        }
        unit.commit(ADDING).await?;
        Ok(rows)
    }

    /// Makes users coordinators of accounts.
    ///
    /// # Errors
    /// [`AccountingError::Refused`] if an account or a user is unknown; or when the database cannot be written.
    pub async fn add_coordinators(
        &self,
        change: &Change,
        accounts: &[String],
        users: &[String],
        commit: bool,
    ) -> Result<Changed> {
        let doing = COORDINATORS;
        let mut unit = self.write().await?;
        for (kind, table, names) in [("account", "accounts", accounts), ("user", "users", users)] {
            for name in names {
                let sql = format!("SELECT COUNT(*) FROM {table} WHERE name = $1 AND deleted = 0");
                if unit.number(doing, &sql, &[name.as_str().into()]).await? == Some(0) {
                    return Err(AccountingError::Refused {
                        text: format!(" You specified a non-existent {kind} '{name}'."),
                    });
                }
            }
        }
        let mut done = Changed::default();
        for account in accounts {
            for user in users {
                let sql = "INSERT INTO coordinators (account, user_name) VALUES ($1, $2) ON CONFLICT (account, user_name) DO NOTHING";
                if unit
                    .execute(doing, sql, &[account.as_str().into(), user.as_str().into()])
                    .await?
                    == 0
                {
                    continue;
                }
                let entry = Entry {
                    action: "Add Account Coord",
                    cluster: "",
                    condition: user,
                    info: account,
                };
                note(&mut unit, change, entry).await?;
                done.coordinators.push((user.clone(), account.clone()));
            }
        }
        finish(unit, commit && !done.is_empty()).await?;
        Ok(done)
    }

    /// Ends that users coordinate accounts (empty = all).
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn remove_coordinators(
        &self,
        change: &Change,
        accounts: &[String],
        users: &[String],
        commit: bool,
    ) -> Result<Changed> {
        let mut unit = self.write().await?;
        let mut done = Changed::default();
        for (account, user) in coordinators(&mut unit).await? {
            if !passes(accounts, &account) || !passes(users, &user) {
                continue;
            }
            let sql = "DELETE FROM coordinators WHERE account = $1 AND user_name = $2";
            unit.execute(
                COORDINATORS,
                sql,
                &[account.as_str().into(), user.as_str().into()],
            )
            .await?;
            let entry = Entry {
                action: "Remove Account Coord",
                cluster: "",
                condition: &user,
                info: &account,
            };
            note(&mut unit, change, entry).await?;
            done.coordinators.push((user, account));
        }
        finish(unit, commit && !done.is_empty()).await?;
        Ok(done)
    }
}

/// Writes an account, or brings a removed one back.
async fn put(unit: &mut Unit, change: &Change, account: &AccountRecord) -> Result<()> {
    // An account that exists keeps its description: `add` on a further cluster only places it there.
    let sql = "INSERT INTO accounts (name, description, organization, flags, created) VALUES ($1, $2, $3, $4, $5) \
               ON CONFLICT (name) DO UPDATE SET deleted = 0, created = CASE WHEN accounts.deleted = 0 THEN accounts.created ELSE excluded.created END";
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
