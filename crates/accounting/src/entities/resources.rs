//! Resources that clusters share, such as the licences of a server.
//!
//! Invariant: the shares of all clusters together are at most 100 percent, or the count when the resource is `Absolute`.
//! Source: `sacctmgr(1)`, SPECIFICATIONS FOR RESOURCE.

use sluice_model::accounting::ResourceRecord;

use crate::cell::{Cell, Kind};
use crate::database::Unit;
use crate::entities::clusters;
use crate::entities::edits::Assignment;
use crate::entities::modify::finish;
use crate::entities::selection::{Changed, Selection, passes};
use crate::entities::transactions::{Entry, note};
use crate::{AccountingError, AccountingStore, Change, Result};

const DOING: &str = "changing resources";

impl AccountingStore {
    /// Resources by id.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn resources(&self, with_deleted: bool) -> Result<Vec<ResourceRecord>> {
        let mut unit = self.read().await?;
        let found = read(&mut unit, with_deleted).await?;
        unit.commit("reading resources").await?;
        Ok(found)
    }

    /// Adds a resource, or shares of clusters to one that exists. Names what is new: `name@server`, and `Cluster - c<TAB>50%`.
    ///
    /// # Errors
    /// [`AccountingError::Refused`] with sacctmgr's words; or when the database cannot be written.
    pub async fn add_resource(
        &self,
        change: &Change,
        resource: &ResourceRecord,
        commit: bool,
    ) -> Result<Changed> {
        let mut unit = self.write().await?;
        let full = format!("{}@{}", resource.name, resource.server);
        let known = read(&mut unit, false).await?;
        let old = known
            .iter()
            .find(|old| old.name == resource.name && old.server == resource.server);
        let mut done = Changed::default();
        if old.is_none() {
            let sql = "INSERT INTO resources (name, server, description, server_type, kind, count, flags, created) \
                       VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (name, server) DO UPDATE SET deleted = 0, \
                       description = excluded.description, server_type = excluded.server_type, kind = excluded.kind, \
                       count = excluded.count, flags = excluded.flags";
            let args: [Cell; 8] = [
                resource.name.as_str().into(),
                resource.server.as_str().into(),
                resource.description.as_str().into(),
                resource.server_type.as_str().into(),
                resource.kind.as_str().into(),
                resource.count.into(),
                resource.flags.as_str().into(),
                change.now.into(),
            ];
            unit.execute(DOING, sql, &args).await?;
            done.names.push(full.clone());
        }
        let sql = "SELECT id FROM resources WHERE name = $1 AND server = $2";
        let id = unit
            .number(
                DOING,
                sql,
                &[
                    resource.name.as_str().into(),
                    resource.server.as_str().into(),
                ],
            )
            .await?
            .unwrap_or(0);
        if old.is_none() {
            let info = format!(
                "mod_time={}, count={}, description='{}', manager='{}', type=1",
                change.now.0, resource.count, resource.description, resource.server_type
            );
            note(
                &mut unit,
                change,
                Entry {
                    action: "Add Resources",
                    cluster: "",
                    condition: &id.to_string(),
                    info: &info,
                },
            )
            .await?;
        }
        for (cluster, allowed) in &resource.clusters {
            clusters::id_of(&mut unit, cluster).await?;
            let sql = "INSERT INTO resource_clusters (resource_id, cluster, allowed) VALUES ($1, $2, $3) \
                       ON CONFLICT (resource_id, cluster) DO NOTHING";
            if unit
                .execute(
                    DOING,
                    sql,
                    &[id.into(), cluster.as_str().into(), (*allowed).into()],
                )
                .await?
                == 0
            {
                continue;
            }
            let (condition, info) = (
                format!("{id}@{cluster}"),
                format!("mod_time={}, percent_allowed={allowed}", change.now.0),
            );
            note(
                &mut unit,
                change,
                Entry {
                    action: "Add Resources",
                    cluster,
                    condition: &condition,
                    info: &info,
                },
            )
            .await?;
            done.names.push(format!("Cluster - {cluster}\t{allowed}%"));
        }
        check_shares(&mut unit, id).await?;
        finish(unit, commit && !done.is_empty()).await?;
        Ok(done)
    }

    /// Changes resources, or with clusters the shares of these.
    ///
    /// # Errors
    /// [`AccountingError::Refused`] with sacctmgr's words; or when the database cannot be written.
    pub async fn modify_resources(
        &self,
        change: &Change,
        selection: &Selection,
        assignments: &[Assignment],
        commit: bool,
    ) -> Result<Changed> {
        let mut unit = self.write().await?;
        let mut done = Changed::default();
        for resource in read(&mut unit, false).await? {
            if !selection.fits_resource(&resource) {
                continue;
            }
            let full = format!("{}@{}", resource.name, resource.server);
            for assignment in assignments {
                let number = || {
                    assignment
                        .value
                        .parse::<u32>()
                        .map(Cell::from)
                        .map_err(|_| AccountingError::Refused {
                            text: format!(
                                " Bad value for {}: {}",
                                assignment.field, assignment.value
                            ),
                        })
                };
                let text = Cell::from(assignment.value.as_str());
                let (sql, value) = match assignment.field.as_str() {
                    "allowed" => {
                        for (cluster, _) in resource
                            .clusters
                            .iter()
                            .filter(|(name, _)| passes(&selection.clusters, name))
                        {
                            let sql = "UPDATE resource_clusters SET allowed = $3 WHERE resource_id = $1 AND cluster = $2";
                            unit.execute(
                                DOING,
                                sql,
                                &[resource.id.into(), cluster.as_str().into(), number()?],
                            )
                            .await?;
                        }
                        continue;
                    }
                    "count" => ("UPDATE resources SET count = $2 WHERE id = $1", number()?),
                    "last_consumed" => (
                        "UPDATE resources SET last_consumed = $2 WHERE id = $1",
                        number()?,
                    ),
                    "description" => ("UPDATE resources SET description = $2 WHERE id = $1", text),
                    "server_type" => ("UPDATE resources SET server_type = $2 WHERE id = $1", text),
                    "flags" => ("UPDATE resources SET flags = $2 WHERE id = $1", text),
                    other => {
                        return Err(AccountingError::Refused {
                            text: format!(" Unknown option: {other}"),
                        });
                    }
                };
                unit.execute(DOING, sql, &[resource.id.into(), value])
                    .await?;
            }
            check_shares(&mut unit, i64::from(resource.id)).await?;
            if assignments
                .iter()
                .any(|assignment| assignment.field != "allowed")
            {
                done.names.push(full.clone());
            }
            for (cluster, _) in resource
                .clusters
                .iter()
                .filter(|(name, _)| passes(&selection.clusters, name))
            {
                done.names.push(format!("Cluster - {cluster}\t- {full}"));
            }
            let info: Vec<String> = assignments
                .iter()
                .map(|a| format!("{}={}", a.field, a.value))
                .collect();
            let (condition, info) = (format!("id='{}'", resource.id), info.join(", "));
            note(
                &mut unit,
                change,
                Entry {
                    action: "Modify Resources",
                    cluster: "",
                    condition: &condition,
                    info: &info,
                },
            )
            .await?;
        }
        finish(unit, commit && !done.is_empty()).await?;
        Ok(done)
    }
}

async fn check_shares(unit: &mut Unit, id: i64) -> Result<()> {
    let sql = "SELECT COALESCE(CAST(SUM(allowed) AS BIGINT), 0) FROM resource_clusters WHERE resource_id = $1";
    let sum = unit.number(DOING, sql, &[id.into()]).await?.unwrap_or(0);
    let limit = "SELECT CASE WHEN flags LIKE '%Absolute%' THEN count ELSE 100 END FROM resources WHERE id = $1";
    let limit = unit
        .number(DOING, limit, &[id.into()])
        .await?
        .unwrap_or(100);
    if sum <= limit {
        return Ok(());
    }
    Err(AccountingError::Refused {
        text: format!(
            " Error with request: the shares of all clusters would be {sum}, more than {limit}"
        ),
    })
}

/// All resources with their shares.
pub(crate) async fn read(unit: &mut Unit, with_deleted: bool) -> Result<Vec<ResourceRecord>> {
    let doing = "reading resources";
    let filter = if with_deleted {
        ""
    } else {
        "WHERE deleted = 0 "
    };
    let mut found: Vec<ResourceRecord> = unit
        .records(doing, &format!("{filter}ORDER BY id"), &[])
        .await?;
    let sql = "SELECT resource_id, cluster, allowed FROM resource_clusters ORDER BY cluster";
    for row in unit
        .rows(doing, sql, &[], &[Kind::Int, Kind::Text, Kind::Int])
        .await?
    {
        if let Ok(
            [
                Cell::Int(Some(id)),
                Cell::Text(Some(cluster)),
                Cell::Int(Some(allowed)),
            ],
        ) = <[Cell; 3]>::try_from(row)
            && let Some(resource) = found
                .iter_mut()
                .find(|resource| i64::from(resource.id) == id)
        {
            let allowed = u32::try_from(allowed).unwrap_or(u32::MAX);
            resource.clusters.push((cluster, allowed));
        }
    }
    Ok(found)
}
