//! Which rows a change means (`where` of sacctmgr), and what it did.
//!
//! Empty lists let everything pass; the others must all pass. Names are compared as they are stored. Source: `sacctmgr(1)`.

use sluice_model::accounting::{
    AccountRecord, AdminLevel, AssociationRecord, ResourceRecord, UserRecord,
};

use crate::Result;
use crate::cell::{Cell, Kind};
use crate::database::Unit;
use crate::entities::{associations, tree};

/// Which rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Names of the entities; job ids for jobs.
    pub names: Vec<String>,
    /// Clusters.
    pub clusters: Vec<String>,
    /// Accounts.
    pub accounts: Vec<String>,
    /// Partitions.
    pub partitions: Vec<String>,
    /// Parent accounts.
    pub parents: Vec<String>,
    /// QOS in the row's own list.
    pub qos: Vec<String>,
    /// Default accounts of users.
    pub default_accounts: Vec<String>,
    /// Default QOS.
    pub default_qos: Vec<String>,
    /// Rights of users.
    pub admin_levels: Vec<AdminLevel>,
    /// Descriptions.
    pub descriptions: Vec<String>,
    /// Organizations.
    pub organizations: Vec<String>,
    /// Ids.
    pub ids: Vec<u32>,
    /// Servers of resources.
    pub servers: Vec<String>,
    /// Workload keys of jobs.
    pub wckeys: Vec<String>,
    /// Users of jobs.
    pub users: Vec<String>,
}

/// Whether a list lets a value pass.
pub(crate) fn passes<T: PartialEq<V>, V: ?Sized>(list: &[T], value: &V) -> bool {
    list.is_empty() || list.iter().any(|item| item == value)
}

impl Selection {
    /// Entities by name.
    #[must_use]
    pub fn names(names: &[&str]) -> Self {
        Self {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Whether it names rows of the tree, not only users.
    #[must_use]
    pub fn is_about_rows(&self) -> bool {
        !(self.clusters.is_empty() && self.accounts.is_empty() && self.partitions.is_empty())
    }

    /// What does not depend on whose row it is.
    pub(crate) fn fits(&self, row: &AssociationRecord) -> bool {
        passes(&self.clusters, &row.cluster)
            && passes(&self.partitions, &row.partition)
            && passes(&self.default_qos, &row.default_qos)
            && (self.qos.is_empty() || row.qos.iter().flatten().any(|name| self.qos.contains(name)))
            && passes(&self.ids, &row.id)
    }

    /// What a user must be like, whatever the rows are.
    pub(crate) fn fits_user(&self, user: &UserRecord) -> bool {
        passes(&self.names, &user.name)
            && passes(&self.admin_levels, &user.admin_level)
            && (self.default_accounts.is_empty()
                || user
                    .default_accounts
                    .iter()
                    .any(|(_, account)| self.default_accounts.contains(account)))
    }

    /// What an account must be like, whatever the rows are.
    pub(crate) fn fits_account(&self, account: &AccountRecord) -> bool {
        passes(&self.names, &account.name)
            && passes(&self.accounts, &account.name)
            && passes(&self.descriptions, &account.description)
            && passes(&self.organizations, &account.organization)
    }

    /// What a resource must be like, whatever its shares are.
    pub(crate) fn fits_resource(&self, resource: &ResourceRecord) -> bool {
        passes(&self.names, &resource.name)
            && passes(&self.servers, &resource.server)
            && passes(&self.ids, &resource.id)
    }
}

/// A job that stands in the way of a removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenJob {
    /// Id.
    pub job_id: u32,
    /// Cluster.
    pub cluster: String,
    /// Account.
    pub account: String,
    /// User.
    pub user: String,
    /// QOS.
    pub qos: String,
}

/// What a change did, or would do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changed {
    /// Entities, by name.
    pub names: Vec<String>,
    /// Rows of the tree.
    pub associations: Vec<AssociationRecord>,
    /// Jobs in the way; if there are any, nothing was changed.
    pub open_jobs: Vec<OpenJob>,
    /// Users that went because they had no row any more.
    pub orphans: Vec<String>,
    /// (user, account) of coordinators.
    pub coordinators: Vec<(String, String)>,
}

impl Changed {
    /// Whether nothing was selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
            && self.associations.is_empty()
            && self.open_jobs.is_empty()
            && self.coordinators.is_empty()
    }
}

/// All rows of the clusters of a selection, each with the id of its cluster, in tree order.
pub(crate) async fn all_rows(
    unit: &mut Unit,
    selection: &Selection,
) -> Result<Vec<(i64, AssociationRecord)>> {
    let mut found = Vec::new();
    for (cluster_id, cluster) in
        crate::entities::clusters::select(unit, &selection.clusters).await?
    {
        let rows = associations::of_cluster(unit, cluster_id, &cluster).await?;
        found.extend(tree::ordered(rows).into_iter().map(|row| (cluster_id, row)));
    }
    Ok(found)
}

/// How many jobs in the way are named.
const OPEN_JOBS_MAX: usize = 100;

/// Jobs charged to these rows that have not ended, by id.
pub(crate) async fn open_jobs(
    unit: &mut Unit,
    rows: &[(i64, AssociationRecord)],
) -> Result<Vec<OpenJob>> {
    let mut clusters: Vec<(i64, &str)> = rows
        .iter()
        .map(|(id, row)| (*id, row.cluster.as_str()))
        .collect();
    clusters.sort_unstable();
    clusters.dedup();
    let mut found = Vec::new();
    for (cluster_id, cluster) in clusters {
        let sql = "SELECT job_id, account, user_name, partition_name, qos, eligible FROM jobs WHERE cluster_id = $1 AND time_end IS NULL ORDER BY job_id";
        let kinds = [
            Kind::Int,
            Kind::Text,
            Kind::Text,
            Kind::Text,
            Kind::Text,
            Kind::Int,
        ];
        for cells in unit
            .rows("looking for jobs", sql, &[cluster_id.into()], &kinds)
            .await?
        {
            let Ok(
                [
                    Cell::Int(Some(job_id)),
                    Cell::Text(Some(account)),
                    Cell::Text(Some(user)),
                    Cell::Text(partition),
                    Cell::Text(qos),
                    Cell::Int(eligible),
                ],
            ) = <[Cell; 6]>::try_from(cells)
            else {
                continue;
            };
            let partition = partition.unwrap_or_default();
            let charged = rows.iter().any(|(id, row)| {
                *id == cluster_id
                    && row.account == account
                    && (row.user.is_empty() || row.user == user)
                    && (row.partition.is_empty() || row.partition == partition)
            });
            if charged && found.len() < OPEN_JOBS_MAX {
                let job = OpenJob {
                    job_id: u32::try_from(job_id).unwrap_or(0),
                    cluster: cluster.to_owned(),
                    account,
                    user,
                    qos: qos.unwrap_or_default(),
                };
                found.push((eligible.is_some(), job));
            }
        }
    }
    // Slurm names only jobs that have become eligible. One that has not stands in the way as well, and is named if it is alone.
    let any_eligible = found.iter().any(|(eligible, _)| *eligible);
    Ok(found
        .into_iter()
        .filter(|(eligible, _)| *eligible || !any_eligible)
        .map(|(_, job)| job)
        .collect())
}
