//! Users: login names with rights, and their default accounts.
//!
//! Invariant: a user that has associations on a cluster has exactly one default account there.

use sluice_model::accounting::{AdminLevel, AssociationRecord, UserRecord};
use sluice_model::time::UnixSeconds;

use crate::cell::{Cell, Field, Kind};
use crate::database::Unit;
use crate::entities::accounts::{coordinators, note_association, refuse_with_open_jobs};
use crate::entities::associations::{self, AddedUser};
use crate::entities::transactions::{Entry, note};
use crate::entities::{clusters, distinct};
use crate::{AccountingError, AccountingStore, Change, NewUser, Result};

const ADDING: &str = "adding the user";

impl AccountingStore {
    /// Users that have not been removed, by name.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn users(&self) -> Result<Vec<UserRecord>> {
        let doing = "reading users";
        let mut unit = self.read().await?;
        let mut users: Vec<UserRecord> = unit
            .records(doing, "WHERE deleted = 0 ORDER BY name", &[])
            .await?;
        let sql = "SELECT user_name, clusters.name, account FROM associations JOIN clusters ON clusters.id = associations.cluster_id \
                   WHERE associations.deleted = 0 AND clusters.deleted = 0 AND is_default <> 0 ORDER BY user_name, clusters.name, account";
        for row in unit
            .rows(doing, sql, &[], &[Kind::Text, Kind::Text, Kind::Text])
            .await?
        {
            let Ok(
                [
                    Cell::Text(Some(user)),
                    Cell::Text(Some(cluster)),
                    Cell::Text(Some(account)),
                ],
            ) = <[Cell; 3]>::try_from(row)
            else {
                continue;
            };
            if let Some(record) = users.iter_mut().find(|record| record.name == user) {
                let default = (cluster, account);
                if !record.default_accounts.contains(&default) {
                    record.default_accounts.push(default);
                }
            }
        }
        for (account, user) in coordinators(&mut unit).await? {
            if let Some(record) = users.iter_mut().find(|record| record.name == user) {
                record.coordinator_of.push(account);
            }
        }
        unit.commit(doing).await?;
        Ok(users)
    }

    /// Adds a user, or further associations of one that exists. Accounts that a cluster does not have are reported, not an error.
    ///
    /// # Errors
    /// [`AccountingError::Exists`] when all associations are there already, [`AccountingError::NotFound`] for a cluster.
    pub async fn add_user(&self, change: &Change, user: &NewUser) -> Result<AddedUser> {
        let mut unit = self.write().await?;
        let known = "SELECT COUNT(*) FROM users WHERE name = $1 AND deleted = 0";
        let user_is_new = unit
            .number(ADDING, known, &[user.name.as_str().into()])
            .await?
            == Some(0);
        let mut outcome = AddedUser {
            user_is_new,
            associations: Vec::new(),
            missing_accounts: Vec::new(),
        };
        let partitions = if user.partitions.is_empty() {
            vec![String::new()]
        } else {
            distinct(&user.partitions)
        };
        for (cluster_id, cluster) in
            associations::target_clusters(&mut unit, &user.clusters).await?
        {
            for account in distinct(&user.accounts) {
                if associations::find(&mut unit, cluster_id, &account, "", "")
                    .await?
                    .is_none()
                {
                    outcome.missing_accounts.push((cluster.clone(), account));
                    continue;
                }
                for partition in &partitions {
                    if associations::find(&mut unit, cluster_id, &account, &user.name, partition)
                        .await?
                        .is_some()
                    {
                        continue;
                    }
                    let association = AssociationRecord {
                        id: 0,
                        cluster: cluster.clone(),
                        account: account.clone(),
                        user: user.name.clone(),
                        partition: partition.clone(),
                        parent_account: String::new(),
                        is_default: false,
                        deleted: false,
                        ..user.template.clone()
                    };
                    associations::put(&mut unit, cluster_id, &association).await?;
                    note_association(&mut unit, change, &association).await?;
                    outcome.associations.push(association);
                }
            }
            let wanted = user.default_account.as_deref();
            choose_default(
                &mut unit,
                cluster_id,
                &user.name,
                wanted,
                &mut outcome.associations,
            )
            .await?;
        }
        if outcome.associations.is_empty() {
            if outcome.missing_accounts.is_empty() {
                return Err(AccountingError::Exists {
                    what: format!("user {} with these associations", user.name),
                });
            }
            // Nothing was added, so nothing is kept: a user without any association would be of no use.
            return Ok(outcome);
        }
        put(&mut unit, &user.name, user.admin_level, change.now).await?;
        note(
            &mut unit,
            change,
            Entry {
                action: "Add Users",
                cluster: "",
                condition: &user.name,
                info: "",
            },
        )
        .await?;
        unit.commit(ADDING).await?;
        Ok(outcome)
    }

    /// Makes another account the user's default on some clusters (empty = all where the user has it).
    ///
    /// # Errors
    /// [`AccountingError::NotFound`] if the user is not in that account on any of them.
    pub async fn set_default_account(
        &self,
        change: &Change,
        user: &str,
        account: &str,
        on: &[String],
    ) -> Result<()> {
        let doing = "changing the default account";
        let mut unit = self.write().await?;
        let mut changed = 0;
        for (cluster_id, _) in associations::target_clusters(&mut unit, on).await? {
            changed += make_default(&mut unit, cluster_id, user, account).await?;
        }
        if changed == 0 {
            return Err(AccountingError::NotFound {
                what: format!("user {user} in account {account}"),
            });
        }
        let info = format!("default_acct='{account}'");
        note(
            &mut unit,
            change,
            Entry {
                action: "Modify Users",
                cluster: "",
                condition: user,
                info: &info,
            },
        )
        .await?;
        unit.commit(doing).await
    }

    /// Changes the rights of a user.
    ///
    /// # Errors
    /// [`AccountingError::NotFound`]; or when the database cannot be written.
    pub async fn set_admin_level(
        &self,
        change: &Change,
        user: &str,
        level: AdminLevel,
    ) -> Result<()> {
        let doing = "changing the user";
        let mut unit = self.write().await?;
        let sql = "UPDATE users SET admin_level = $2 WHERE name = $1 AND deleted = 0";
        if unit
            .execute(doing, sql, &[user.into(), level.to_cell()])
            .await?
            == 0
        {
            return Err(AccountingError::NotFound {
                what: format!("user {user}"),
            });
        }
        let info = format!("admin_level='{}'", level.as_str());
        note(
            &mut unit,
            change,
            Entry {
                action: "Modify Users",
                cluster: "",
                condition: user,
                info: &info,
            },
        )
        .await?;
        unit.commit(doing).await
    }

    /// Removes a user's associations on some clusters (empty = all) in some accounts (empty = all); the user too when none is left.
    ///
    /// # Errors
    /// [`AccountingError::NotFound`]; [`AccountingError::InUse`] while a job of the user has not ended, or when the default
    /// account would go while others stay.
    pub async fn delete_user(
        &self,
        change: &Change,
        user: &str,
        accounts: &[String],
        on: &[String],
    ) -> Result<()> {
        let doing = "removing the user";
        let mut unit = self.write().await?;
        let mut removed = 0;
        for (cluster_id, cluster) in associations::target_clusters(&mut unit, on).await? {
            let rows = associations::of_cluster(&mut unit, cluster_id, &cluster).await?;
            let own = rows.iter().filter(|row| row.user == user);
            let (gone, stays): (Vec<_>, Vec<_>) =
                own.partition(|row| accounts.is_empty() || accounts.contains(&row.account));
            if gone.is_empty() {
                continue;
            }
            refuse_with_open_jobs(&mut unit, cluster_id, &cluster, "user", user).await?;
            if !stays.is_empty() && gone.iter().any(|row| row.is_default) {
                return Err(AccountingError::InUse {
                    what: format!("the default account of user {user} on cluster {cluster}"),
                    by: "other accounts of the user; choose another default first".to_owned(),
                });
            }
            for row in gone {
                let sql = "UPDATE associations SET deleted = 1, is_default = 0 WHERE id = $1";
                removed += unit.execute(doing, sql, &[row.id.into()]).await?;
            }
        }
        if removed == 0 {
            return Err(AccountingError::NotFound {
                what: format!("user {user}"),
            });
        }
        let sql = "UPDATE users SET deleted = 1, admin_level = 1 WHERE name = $1 AND NOT EXISTS \
                   (SELECT 1 FROM associations WHERE associations.user_name = users.name AND associations.deleted = 0)";
        if unit.execute(doing, sql, &[user.into()]).await? > 0 {
            unit.execute(
                doing,
                "DELETE FROM coordinators WHERE user_name = $1",
                &[user.into()],
            )
            .await?;
        }
        note(
            &mut unit,
            change,
            Entry {
                action: "Remove Users",
                cluster: "",
                condition: user,
                info: "",
            },
        )
        .await?;
        unit.commit(doing).await
    }
}

/// Writes a user, or brings a removed one back. `None` leaves the rights of an existing user alone.
pub(crate) async fn put(
    unit: &mut Unit,
    name: &str,
    level: Option<AdminLevel>,
    now: UnixSeconds,
) -> Result<()> {
    let sql = "INSERT INTO users (name, admin_level, created) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET deleted = 0";
    unit.execute(
        ADDING,
        sql,
        &[name.into(), level.unwrap_or_default().to_cell(), now.into()],
    )
    .await?;
    if let Some(level) = level {
        unit.execute(
            ADDING,
            "UPDATE users SET admin_level = $2 WHERE name = $1",
            &[name.into(), level.to_cell()],
        )
        .await?;
    }
    Ok(())
}

/// Sees to the default account of a user on a cluster: the wanted one, else the one that is, else the first one added.
async fn choose_default(
    unit: &mut Unit,
    cluster_id: i64,
    user: &str,
    wanted: Option<&str>,
    added: &mut [AssociationRecord],
) -> Result<()> {
    let sql = "SELECT COUNT(*) FROM associations WHERE cluster_id = $1 AND user_name = $2 AND is_default <> 0 AND deleted = 0";
    let has_default = unit
        .number(ADDING, sql, &[cluster_id.into(), user.into()])
        .await?
        != Some(0);
    let id = cluster_name(unit, cluster_id).await?;
    let first = added
        .iter()
        .find(|association| association.cluster == id)
        .map(|association| association.account.clone());
    let account = match (wanted, has_default, first) {
        (Some(wanted), _, _) => wanted.to_owned(),
        (None, false, Some(first)) => first,
        _ => return Ok(()),
    };
    if make_default(unit, cluster_id, user, &account).await? == 0 {
        return Err(AccountingError::NotFound {
            what: format!("user {user} in account {account}"),
        });
    }
    for association in added
        .iter_mut()
        .filter(|association| association.cluster == id)
    {
        association.is_default = association.account == account;
    }
    Ok(())
}

async fn cluster_name(unit: &mut Unit, cluster_id: i64) -> Result<String> {
    let all = clusters::select(unit, &[]).await?;
    Ok(all
        .into_iter()
        .find(|(id, _)| *id == cluster_id)
        .map(|(_, name)| name)
        .unwrap_or_default())
}

/// Moves the default mark to an account; gives how many rows now bear it (0 = the user is not in it, and nothing changed).
async fn make_default(unit: &mut Unit, cluster_id: i64, user: &str, account: &str) -> Result<u64> {
    let doing = "changing the default account";
    let args: [Cell; 3] = [cluster_id.into(), user.into(), account.into()];
    let sql = "UPDATE associations SET is_default = 1 WHERE cluster_id = $1 AND user_name = $2 AND account = $3 AND deleted = 0";
    let marked = unit.execute(doing, sql, &args).await?;
    if marked > 0 {
        let sql = "UPDATE associations SET is_default = 0 WHERE cluster_id = $1 AND user_name = $2 AND account <> $3";
        unit.execute(doing, sql, &args).await?;
    }
    Ok(marked)
}
