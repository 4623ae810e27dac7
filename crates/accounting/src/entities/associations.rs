//! Associations: the rows of each cluster's tree, with shares, limits and QOS.
//!
//! Invariant: one row a (cluster, account, user, partition); the row of an account exists before rows of its users. Rows are
//! given in tree order: an account, its users, then the accounts below it.

use sluice_model::accounting::AssociationRecord;

use crate::cell::{Cell, Column, Kind, Record};
use crate::database::Unit;
use crate::entities::transactions::{Entry, note};
use crate::entities::{clusters, tree};
use crate::{AccountingError, AccountingStore, Change, Result};

/// What adding a user did.
#[derive(Debug, Clone, PartialEq)]
pub struct AddedUser {
    /// The user was not known before.
    pub user_is_new: bool,
    /// Associations that are new. Empty together with `missing_accounts` not empty: nothing was changed.
    pub associations: Vec<AssociationRecord>,
    /// (cluster, account) pairs that were asked for and do not exist.
    pub missing_accounts: Vec<(String, String)>,
}

impl AccountingStore {
    /// The associations of a cluster (`None` = of all, by cluster name), in tree order.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn associations(&self, cluster: Option<&str>) -> Result<Vec<AssociationRecord>> {
        let names: Vec<String> = cluster.map(str::to_owned).into_iter().collect();
        self.read_associations(&names, "WHERE cluster_id = $1 AND deleted = 0")
            .await
    }

    /// As [`Self::associations`] of all clusters, with rows that were removed.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn all_associations(&self) -> Result<Vec<AssociationRecord>> {
        self.read_associations(&[], "WHERE cluster_id = $1").await
    }

    async fn read_associations(
        &self,
        names: &[String],
        tail: &str,
    ) -> Result<Vec<AssociationRecord>> {
        let mut unit = self.read().await?;
        let mut found = Vec::new();
        for (cluster_id, cluster) in clusters::select(&mut unit, names).await? {
            let read = rows(&mut unit, &cluster, tail, &[cluster_id.into()]).await?;
            found.extend(tree::ordered(read));
        }
        unit.commit("reading associations").await?;
        Ok(found)
    }

    /// Replaces shares, limits, QOS and comment of an association that exists, by its key. The default mark and the place in the
    /// tree stay.
    ///
    /// # Errors
    /// [`AccountingError::NotFound`]; or when the database cannot be written.
    pub async fn modify_association(
        &self,
        change: &Change,
        association: &AssociationRecord,
    ) -> Result<()> {
        let doing = "changing the association";
        let mut unit = self.write().await?;
        let cluster_id = clusters::id_of(&mut unit, &association.cluster).await?;
        let stored = find(
            &mut unit,
            cluster_id,
            &association.account,
            &association.user,
            &association.partition,
        )
        .await?;
        let Some(stored) = stored else {
            return Err(AccountingError::NotFound {
                what: describe(association),
            });
        };
        let merged = AssociationRecord {
            is_default: stored.is_default,
            parent_account: stored.parent_account,
            deleted: false,
            ..association.clone()
        };
        put(&mut unit, cluster_id, &merged).await?;
        let ids = crate::entities::modify::ids(&mut unit).await?;
        let what = crate::entities::note_texts::row_ids(&[AssociationRecord {
            id: stored.id,
            ..merged.clone()
        }]);
        let fields = crate::entities::edits::ASSOCIATION_FIELDS;
        let info = crate::entities::note_texts::changed_association(&merged, fields, &ids);
        note(
            &mut unit,
            change,
            Entry {
                action: "Modify Associations",
                cluster: &association.cluster,
                condition: &what,
                info: &info,
            },
        )
        .await?;
        unit.commit(doing).await
    }
}

fn describe(association: &AssociationRecord) -> String {
    let mut what = format!(
        "association cluster={} account={}",
        association.cluster, association.account
    );
    for (key, value) in [
        ("user", &association.user),
        ("partition", &association.partition),
    ] {
        if !value.is_empty() {
            what.push_str(&format!(" {key}={value}"));
        }
    }
    what
}

/// Clusters named, all of which must exist; or all there are.
pub(crate) async fn target_clusters(
    unit: &mut Unit,
    names: &[String],
) -> Result<Vec<(i64, String)>> {
    let found = clusters::select(unit, names).await?;
    match names
        .iter()
        .find(|name| !found.iter().any(|(_, known)| known == *name))
    {
        Some(missing) => Err(AccountingError::NotFound {
            what: format!("cluster {missing}"),
        }),
        None => Ok(found),
    }
}

/// The rows of a cluster in no order.
pub(crate) async fn of_cluster(
    unit: &mut Unit,
    cluster_id: i64,
    cluster: &str,
) -> Result<Vec<AssociationRecord>> {
    rows(
        unit,
        cluster,
        "WHERE cluster_id = $1 AND deleted = 0",
        &[cluster_id.into()],
    )
    .await
}

/// One row by its key, unless it has been removed.
pub(crate) async fn find(
    unit: &mut Unit,
    cluster_id: i64,
    account: &str,
    user: &str,
    partition: &str,
) -> Result<Option<AssociationRecord>> {
    let tail = "WHERE cluster_id = $1 AND account = $2 AND user_name = $3 AND partition_name = $4 AND deleted = 0";
    let args: [Cell; 4] = [
        cluster_id.into(),
        account.into(),
        user.into(),
        partition.into(),
    ];
    Ok(rows(unit, "", tail, &args).await?.pop())
}

async fn rows(
    unit: &mut Unit,
    cluster: &str,
    tail: &str,
    args: &[Cell],
) -> Result<Vec<AssociationRecord>> {
    let found = unit
        .records_with_ids("reading associations", tail, args)
        .await?;
    Ok(found
        .into_iter()
        .map(|(id, row)| AssociationRecord {
            id,
            cluster: cluster.to_owned(),
            ..row
        })
        .collect())
}

/// Writes a row by its key, also over a removed one (its id stays).
pub(crate) async fn put(
    unit: &mut Unit,
    cluster_id: i64,
    association: &AssociationRecord,
) -> Result<()> {
    let mut row = vec![Cell::from(cluster_id)];
    row.extend(association.cells());
    let lead = [Column {
        name: "cluster_id",
        kind: Kind::Int,
    }];
    unit.upsert(
        "writing the association",
        &AssociationRecord::TABLE,
        &lead,
        &[row],
    )
    .await
}

/// Writes a new row and notes it; gives it with its id.
pub(crate) async fn add(
    unit: &mut Unit,
    change: &Change,
    cluster_id: i64,
    association: AssociationRecord,
) -> Result<AssociationRecord> {
    put(unit, cluster_id, &association).await?;
    let AssociationRecord {
        account,
        user,
        partition,
        ..
    } = &association;
    let stored = find(unit, cluster_id, account, user, partition).await?;
    let id = stored.map_or(0, |row| row.id);
    let association = AssociationRecord { id, ..association };
    let args: [Cell; 2] = [id.into(), change.now.into()];
    unit.execute(
        "writing the association",
        "UPDATE associations SET created = $2 WHERE id = $1",
        &args,
    )
    .await?;
    let ids = crate::entities::modify::ids(unit).await?;
    let info = crate::entities::note_texts::new_association(&association, change.now, &ids);
    let condition = format!("id_assoc={id}");
    let entry = Entry {
        action: "Add Associations",
        cluster: &association.cluster,
        condition: &condition,
        info: &info,
    };
    note(unit, change, entry).await?;
    Ok(association)
}
