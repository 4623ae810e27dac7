//! `sacctmgr modify`: changes to what a selection means, in one transaction with its entries in the log.
//!
//! With `commit` false everything is worked out and checked, told, and taken back: the question "commit changes?" shows exactly
//! what would be done. Invariant: a refused change leaves nothing behind; a row's default QOS is one it may use; a default account
//! is one the user is in. Source: `sacctmgr(1)`.

use std::collections::BTreeSet;

use sluice_model::accounting::{
    AccountRecord, AdminLevel, AssociationRecord, TresRecord, UserRecord,
};

use crate::cell::{Cell, Field, Kind};
use crate::database::Unit;
use crate::entities::edits::{Assignment, edit_association};
use crate::entities::note_texts::{self, Ids};
use crate::entities::selection::{Changed, Selection, all_rows, passes};
use crate::entities::transactions::{Entry, note};
use crate::entities::{associations, tree, users};
use crate::{AccountingError, AccountingStore, Change, Result};

const DOING: &str = "changing accounting";

fn refused(text: String) -> AccountingError {
    AccountingError::Refused { text }
}

/// Ends a unit of work: for good, or taken back.
pub(crate) async fn finish(unit: Unit, commit: bool) -> Result<()> {
    if commit {
        unit.commit(DOING).await
    } else {
        drop(unit);
        Ok(())
    }
}

/// Ids for the log's texts.
pub(crate) async fn ids(unit: &mut Unit) -> Result<Ids> {
    let mut ids = Ids::default();
    let sql = "SELECT id, name FROM qos";
    for row in unit.rows(DOING, sql, &[], &[Kind::Int, Kind::Text]).await? {
        if let Ok([Cell::Int(Some(id)), Cell::Text(Some(name))]) = <[Cell; 2]>::try_from(row) {
            ids.qos.insert(name, u32::try_from(id).unwrap_or(0));
        }
    }
    for tres in unit.records::<TresRecord>(DOING, "", &[]).await? {
        let full = if tres.name.is_empty() {
            tres.kind
        } else {
            format!("{}/{}", tres.kind, tres.name)
        };
        ids.tres.insert(full, tres.id);
    }
    Ok(ids)
}

/// Applies changes to rows and writes them. `all` are the rows of all clusters concerned, for what is inherited.
async fn edit_rows(
    unit: &mut Unit,
    change: &Change,
    all: &[(i64, AssociationRecord)],
    rows: Vec<(i64, AssociationRecord)>,
    assignments: &[&Assignment],
) -> Result<Vec<AssociationRecord>> {
    let mut edited = Vec::new();
    for (cluster_id, mut row) in rows {
        for assignment in assignments {
            edit_association(&mut row, assignment).map_err(refused)?;
        }
        edited.push((cluster_id, row));
    }
    let touches_qos = assignments
        .iter()
        .any(|assignment| matches!(assignment.field.as_str(), "qos" | "default_qos"));
    if touches_qos {
        check_default_qos(all, &edited)?;
    }
    for (cluster_id, row) in &edited {
        associations::put(unit, *cluster_id, row).await?;
    }
    let rows: Vec<AssociationRecord> = edited.into_iter().map(|(_, row)| row).collect();
    if let Some(first) = rows.first() {
        let ids = ids(unit).await?;
        let mut fields: Vec<&str> = Vec::new();
        for known in crate::entities::edits::ASSOCIATION_FIELDS {
            if assignments
                .iter()
                .any(|assignment| assignment.field == *known)
            {
                fields.push(known);
            }
        }
        let info = note_texts::changed_association(first, &fields, &ids);
        let condition = note_texts::row_ids(&rows);
        let entry = Entry {
            action: "Modify Associations",
            cluster: &first.cluster,
            condition: &condition,
            info: &info,
        };
        note(unit, change, entry).await?;
    }
    Ok(rows)
}

/// A default QOS that a row may not use would refuse all its jobs.
fn check_default_qos(
    all: &[(i64, AssociationRecord)],
    edited: &[(i64, AssociationRecord)],
) -> Result<()> {
    let mut lines = Vec::new();
    for (cluster_id, row) in edited.iter().filter(|(_, row)| !row.default_qos.is_empty()) {
        // Rows above as they will be.
        let cluster: Vec<AssociationRecord> = all
            .iter()
            .filter(|(id, _)| id == cluster_id)
            .map(|(_, old)| {
                edited
                    .iter()
                    .find(|(_, new)| new.id == old.id)
                    .map_or_else(|| old.clone(), |(_, new)| new.clone())
            })
            .collect();
        if !tree::effective_qos(&cluster, row).contains(&row.default_qos) {
            let user = if row.user.is_empty() {
                String::new()
            } else {
                format!(" U = {:<9}", row.user)
            };
            lines.push(format!(
                "  DefQOS = {:<10} C = {:<10} A = {:<20}{user}",
                row.default_qos, row.cluster, row.account
            ));
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    Err(refused(format!(
        " These associations don't have access to their default qos.\n Please give them access before they the default can be set to this.\n{}",
        lines.join("\n")
    )))
}

fn split<'a>(
    assignments: &'a [Assignment],
    of_entity: &[&str],
) -> (Vec<&'a Assignment>, Vec<&'a Assignment>) {
    assignments
        .iter()
        .partition(|assignment| of_entity.contains(&assignment.field.as_str()))
}

impl AccountingStore {
    /// Changes users (rights, default account, name) and their rows.
    ///
    /// # Errors
    /// [`AccountingError::Refused`] with sacctmgr's words; or when the database cannot be written.
    pub async fn modify_users(
        &self,
        change: &Change,
        selection: &Selection,
        assignments: &[Assignment],
        commit: bool,
    ) -> Result<Changed> {
        let mut unit = self.write().await?;
        let (of_user, of_row) = split(
            assignments,
            &[
                "admin_level",
                "default_account",
                "default_wckey",
                "new_name",
            ],
        );
        let all = all_rows(&mut unit, selection).await?;
        let people: Vec<UserRecord> = users::read(&mut unit, false).await?;
        let meant: BTreeSet<&str> = people
            .iter()
            .filter(|user| selection.fits_user(user))
            .map(|user| user.name.as_str())
            .collect();
        let rows: Vec<(i64, AssociationRecord)> = all
            .iter()
            .filter(|(_, row)| {
                !row.user.is_empty()
                    && meant.contains(row.user.as_str())
                    && passes(&selection.accounts, &row.account)
                    && selection.fits(row)
            })
            .cloned()
            .collect();
        let mut done = Changed::default();
        if !of_user.is_empty() {
            done.names = people
                .iter()
                .filter(|user| meant.contains(user.name.as_str()))
                .filter(|user| {
                    !selection.is_about_rows() || rows.iter().any(|(_, row)| row.user == user.name)
                })
                .map(|user| user.name.clone())
                .collect();
            for assignment in &of_user {
                edit_users(&mut unit, change, &all, &done.names, selection, assignment).await?;
            }
        }
        if !of_row.is_empty() {
            done.associations = edit_rows(&mut unit, change, &all, rows, &of_row).await?;
        }
        finish(unit, commit && !done.is_empty()).await?;
        Ok(done)
    }

    /// Changes accounts (description, organization, flags, place in the tree) and their rows.
    ///
    /// # Errors
    /// [`AccountingError::Refused`] with sacctmgr's words; or when the database cannot be written.
    pub async fn modify_accounts(
        &self,
        change: &Change,
        selection: &Selection,
        assignments: &[Assignment],
        commit: bool,
    ) -> Result<Changed> {
        let mut unit = self.write().await?;
        let (of_account, of_row) = split(assignments, &["description", "organization", "flags"]);
        let (moves, of_row): (Vec<&Assignment>, Vec<&Assignment>) = of_row
            .into_iter()
            .partition(|assignment| assignment.field == "parent_account");
        let all = all_rows(&mut unit, selection).await?;
        let accounts: Vec<AccountRecord> = unit
            .records(DOING, "WHERE deleted = 0 ORDER BY name", &[])
            .await?;
        let meant: BTreeSet<&str> = accounts
            .iter()
            .filter(|account| selection.fits_account(account))
            .map(|account| account.name.as_str())
            .collect();
        let mut rows: Vec<(i64, AssociationRecord)> = all
            .iter()
            .filter(|(_, row)| {
                row.user.is_empty()
                    && meant.contains(row.account.as_str())
                    && passes(&selection.parents, &row.parent_account)
                    && selection.fits(row)
            })
            .cloned()
            .collect();
        let mut done = Changed::default();
        if !of_account.is_empty() {
            done.names = accounts
                .iter()
                .map(|account| account.name.clone())
                .filter(|name| meant.contains(name.as_str()))
                .collect();
            for name in &done.names {
                for assignment in &of_account {
                    let sql = match assignment.field.as_str() {
                        "description" => "UPDATE accounts SET description = $2 WHERE name = $1",
                        "organization" => "UPDATE accounts SET organization = $2 WHERE name = $1",
                        _ => "UPDATE accounts SET flags = $2 WHERE name = $1",
                    };
                    unit.execute(
                        DOING,
                        sql,
                        &[name.as_str().into(), assignment.value.as_str().into()],
                    )
                    .await?;
                }
            }
            if !done.names.is_empty() {
                let condition = note_texts::names(&done.names);
                let info = note_texts::assignments(of_account);
                note(
                    &mut unit,
                    change,
                    Entry {
                        action: "Modify Accounts",
                        cluster: "",
                        condition: &condition,
                        info: &info,
                    },
                )
                .await?;
            }
        }
        for assignment in &moves {
            rows = move_accounts(&mut unit, change, &all, rows, &assignment.value).await?;
        }
        if !of_row.is_empty() {
            done.associations = edit_rows(&mut unit, change, &all, rows, &of_row).await?;
        } else if !moves.is_empty() {
            done.associations = rows.into_iter().map(|(_, row)| row).collect();
        }
        finish(unit, commit && !done.is_empty()).await?;
        Ok(done)
    }

    /// Changes clusters and the rows of their root accounts.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn modify_clusters(
        &self,
        change: &Change,
        selection: &Selection,
        assignments: &[Assignment],
        commit: bool,
    ) -> Result<Changed> {
        let mut unit = self.write().await?;
        let mut selection = selection.clone();
        selection.clusters.append(&mut selection.names);
        let (of_cluster, of_row) = split(assignments, &["classification"]);
        let all = all_rows(&mut unit, &selection).await?;
        let rows: Vec<(i64, AssociationRecord)> = all
            .iter()
            .filter(|(_, row)| row.user.is_empty() && row.account == "root")
            .cloned()
            .collect();
        let mut done = Changed::default();
        for assignment in &of_cluster {
            for (cluster_id, row) in &rows {
                let sql = "UPDATE clusters SET classification = $2 WHERE id = $1";
                unit.execute(
                    DOING,
                    sql,
                    &[(*cluster_id).into(), assignment.value.as_str().into()],
                )
                .await?;
                let (condition, info) = (
                    format!("name='{}'", row.cluster),
                    format!("classification='{}'", assignment.value),
                );
                note(
                    &mut unit,
                    change,
                    Entry {
                        action: "Modify Clusters",
                        cluster: &row.cluster,
                        condition: &condition,
                        info: &info,
                    },
                )
                .await?;
                done.names.push(row.cluster.clone());
            }
        }
        if !of_row.is_empty() {
            done.associations = edit_rows(&mut unit, change, &all, rows, &of_row).await?;
        }
        finish(unit, commit && !done.is_empty()).await?;
        Ok(done)
    }
}

/// Puts accounts below another one.
async fn move_accounts(
    unit: &mut Unit,
    change: &Change,
    all: &[(i64, AssociationRecord)],
    rows: Vec<(i64, AssociationRecord)>,
    parent: &str,
) -> Result<Vec<(i64, AssociationRecord)>> {
    let mut moved = Vec::new();
    for (cluster_id, row) in rows {
        let cluster: Vec<AssociationRecord> = all
            .iter()
            .filter(|(id, _)| *id == cluster_id)
            .map(|(_, row)| row.clone())
            .collect();
        if !cluster
            .iter()
            .any(|other| other.user.is_empty() && other.account == parent)
        {
            return Err(refused(format!(" Parent Account {parent} doesn't exist.")));
        }
        // Below itself it would be cut off from the tree.
        if row.account == "root"
            || tree::subtree(&cluster, &row.account).contains(&parent.to_owned())
        {
            continue;
        }
        let shown = row.clone();
        let new = AssociationRecord {
            parent_account: parent.to_owned(),
            ..row
        };
        associations::put(unit, cluster_id, &new).await?;
        let (condition, info) = (
            note_texts::row_ids(std::slice::from_ref(&new)),
            format!("parent_acct='{parent}'"),
        );
        note(
            unit,
            change,
            Entry {
                action: "Modify Associations",
                cluster: &new.cluster,
                condition: &condition,
                info: &info,
            },
        )
        .await?;
        // The list names the place that the account leaves.
        moved.push((
            cluster_id,
            AssociationRecord {
                parent_account: shown.parent_account,
                ..new
            },
        ));
    }
    Ok(moved)
}

/// One change to users that is not one of their rows.
async fn edit_users(
    unit: &mut Unit,
    change: &Change,
    all: &[(i64, AssociationRecord)],
    names: &[String],
    selection: &Selection,
    assignment: &Assignment,
) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let value = assignment.value.as_str();
    let info = match assignment.field.as_str() {
        "admin_level" => {
            let level = match value {
                "operator" => AdminLevel::Operator,
                "administrator" => AdminLevel::Administrator,
                _ => AdminLevel::None,
            };
            for name in names {
                let sql = "UPDATE users SET admin_level = $2 WHERE name = $1";
                unit.execute(DOING, sql, &[name.as_str().into(), level.to_cell()])
                    .await?;
            }
            note_texts::admin_level(level)
        }
        "default_account" => {
            set_default_accounts(unit, all, names, selection, value).await?;
            format!("default_acct='{value}'")
        }
        "default_wckey" => {
            for name in names {
                crate::entities::wckeys::make_default(unit, selection, name, value).await?;
            }
            format!("default_wckey='{value}'")
        }
        _ => {
            rename(unit, names, value).await?;
            format!("name='{value}'")
        }
    };
    let condition = note_texts::names(names);
    note(
        unit,
        change,
        Entry {
            action: "Modify Users",
            cluster: "",
            condition: &condition,
            info: &info,
        },
    )
    .await
}

async fn set_default_accounts(
    unit: &mut Unit,
    all: &[(i64, AssociationRecord)],
    names: &[String],
    selection: &Selection,
    account: &str,
) -> Result<()> {
    let mut lines = Vec::new();
    for name in names {
        let mut clusters: Vec<(i64, &str)> = all
            .iter()
            .filter(|(_, row)| row.user == *name && passes(&selection.clusters, &row.cluster))
            .map(|(id, row)| (*id, row.cluster.as_str()))
            .collect();
        clusters.sort_unstable();
        clusters.dedup();
        for (cluster_id, cluster) in clusters {
            if users::make_default(unit, cluster_id, name, account).await? == 0 {
                lines.push(format!("  U = {name} C = {cluster}"));
            }
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    Err(refused(format!(
        " Can't modify because these users aren't associated with new default account '{account}'...\n{}",
        lines.join("\n")
    )))
}

/// A user's new name goes with all rows; the records of jobs keep who ran them.
async fn rename(unit: &mut Unit, names: &[String], new: &str) -> Result<()> {
    let [old] = names else {
        return Err(refused(
            " Error with request: only one user at a time can get a new name".to_owned(),
        ));
    };
    let taken = unit
        .number(
            DOING,
            "SELECT COUNT(*) FROM users WHERE name = $1",
            &[new.into()],
        )
        .await?;
    if taken != Some(0) {
        return Err(refused(format!(
            " Error with request: user {new} exists already"
        )));
    }
    for sql in [
        "UPDATE users SET name = $2 WHERE name = $1",
        "UPDATE associations SET user_name = $2 WHERE user_name = $1",
        "UPDATE wckeys SET user_name = $2 WHERE user_name = $1",
        "UPDATE coordinators SET user_name = $2 WHERE user_name = $1",
    ] {
        unit.execute(DOING, sql, &[old.as_str().into(), new.into()])
            .await?;
    }
    Ok(())
}
