//! Users: login names with rights, and their default accounts.
//!
//! Invariant: a user that has associations on a cluster has exactly one default account there.

use sluice_model::accounting::{AdminLevel, AssociationRecord, UserRecord};
use sluice_model::time::UnixSeconds;

use crate::cell::{Cell, Field, Kind};
use crate::database::Unit;
use crate::entities::accounts::coordinators;
use crate::entities::associations::{self, AddedUser};
use crate::entities::transactions::{Entry, note};
use crate::entities::{clusters, distinct, note_texts};
use crate::{AccountingError, AccountingStore, Change, NewUser, Result};

const ADDING: &str = "adding the user";
const READING: &str = "reading users";

impl AccountingStore {
    /// Users that have not been removed, by name.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn users(&self) -> Result<Vec<UserRecord>> {
        self.read_users(false).await
    }

    /// As [`Self::users`], with those that were removed.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn all_users(&self) -> Result<Vec<UserRecord>> {
        self.read_users(true).await
    }

    async fn read_users(&self, with_deleted: bool) -> Result<Vec<UserRecord>> {
        let mut unit = self.read().await?;
        let users = read(&mut unit, with_deleted).await?;
        unit.commit(READING).await?;
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
        let mut is_noted = !user_is_new;
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
                    if !is_noted {
                        put(&mut unit, &user.name, user.admin_level, change.now).await?;
                        let info = note_texts::admin_level(user.admin_level.unwrap_or_default());
                        let entry = Entry {
                            action: "Add Users",
                            cluster: "",
                            condition: &user.name,
                            info: &info,
                        };
                        note(&mut unit, change, entry).await?;
                        is_noted = true;
                    }
                    let association =
                        associations::add(&mut unit, change, cluster_id, association).await?;
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
        unit.commit(ADDING).await?;
        Ok(outcome)
    }
}

/// Users by name, with their default accounts and what they coordinate.
pub(crate) async fn read(unit: &mut Unit, with_deleted: bool) -> Result<Vec<UserRecord>> {
    let tail = if with_deleted {
        "ORDER BY name"
    } else {
        "WHERE deleted = 0 ORDER BY name"
    };
    let mut users: Vec<UserRecord> = unit.records(READING, tail, &[]).await?;
    let sql = "SELECT user_name, clusters.name, account FROM associations JOIN clusters ON clusters.id = associations.cluster_id \
               WHERE associations.deleted = 0 AND clusters.deleted = 0 AND is_default <> 0 ORDER BY user_name, clusters.name, account";
    for row in unit
        .rows(READING, sql, &[], &[Kind::Text, Kind::Text, Kind::Text])
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
    for (account, user) in coordinators(unit).await? {
        if let Some(record) = users.iter_mut().find(|record| record.name == user) {
            record.coordinator_of.push(account);
        }
    }
    Ok(users)
}

/// Writes a user, or brings a removed one back. `None` leaves the rights of an existing user alone.
pub(crate) async fn put(
    unit: &mut Unit,
    name: &str,
    level: Option<AdminLevel>,
    now: UnixSeconds,
) -> Result<()> {
    let sql = "INSERT INTO users (name, admin_level, created) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET deleted = 0, \
               created = CASE WHEN users.deleted = 0 THEN users.created ELSE excluded.created END";
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
pub(crate) async fn make_default(
    unit: &mut Unit,
    cluster_id: i64,
    user: &str,
    account: &str,
) -> Result<u64> {
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
