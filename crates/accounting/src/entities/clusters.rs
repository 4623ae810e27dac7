//! Clusters, and the TRES they have.
//!
//! A cluster is registered by its first write or by `sacctmgr add cluster`, with the account `root`, the user `root` in it and
//! the QOS `normal`. Invariant: a registered cluster has a root association.

use sluice_model::accounting::{
    AdminLevel, AssociationRecord, ClusterRecord, ClusterRegistration, NodeEventRecord, TresRecord,
};
use sluice_model::time::UnixSeconds;

use crate::cell::{Cell, Column, Field, Kind, Record};
use crate::database::Unit;
use crate::entities::transactions::{Entry, note};
use crate::entities::{associations, users};
use crate::{AccountingError, AccountingStore, Change, Result, events};

const DOING: &str = "registering the cluster";
/// Ids from here on belong to TRES that a cluster brings with it.
const TRES_DYNAMIC_FIRST: i64 = 1001;

impl AccountingStore {
    /// Makes sure that a cluster exists, with its root account and user.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn ensure_cluster(&self, change: &Change, name: &str) -> Result<()> {
        let mut unit = self.write().await?;
        ensure(&mut unit, name, change.now, &change.actor).await?;
        unit.commit(DOING).await
    }

    /// Clusters that have not been removed, by name.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn clusters(&self) -> Result<Vec<ClusterRecord>> {
        self.read_clusters("WHERE deleted = 0 ORDER BY name").await
    }

    /// As [`Self::clusters`], with those that were removed.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn all_clusters(&self) -> Result<Vec<ClusterRecord>> {
        self.read_clusters("ORDER BY name").await
    }

    async fn read_clusters(&self, tail: &str) -> Result<Vec<ClusterRecord>> {
        let doing = "reading clusters";
        let mut unit = self.read().await?;
        let clusters = unit.records(doing, tail, &[]).await?;
        unit.commit(doing).await?;
        Ok(clusters)
    }

    /// All TRES that any cluster has, by id.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn tres(&self) -> Result<Vec<TresRecord>> {
        let doing = "reading TRES";
        let mut unit = self.read().await?;
        let tres = unit
            .records(doing, "WHERE deleted = 0 ORDER BY id", &[])
            .await?;
        unit.commit(doing).await?;
        Ok(tres)
    }
}

/// Ids and names of some clusters, or of all, by name.
pub(crate) async fn select(unit: &mut Unit, names: &[String]) -> Result<Vec<(i64, String)>> {
    let clusters: Vec<ClusterRecord> = unit
        .records("reading clusters", "WHERE deleted = 0 ORDER BY name", &[])
        .await?;
    Ok(clusters
        .into_iter()
        .filter(|cluster| names.is_empty() || names.contains(&cluster.name))
        .map(|cluster| (cluster.id, cluster.name))
        .collect())
}

/// The id of a cluster that must exist.
pub(crate) async fn id_of(unit: &mut Unit, name: &str) -> Result<i64> {
    find(unit, name)
        .await?
        .ok_or_else(|| AccountingError::NotFound {
            what: format!("cluster {name}"),
        })
}

async fn find(unit: &mut Unit, name: &str) -> Result<Option<i64>> {
    unit.number(
        "reading clusters",
        "SELECT id FROM clusters WHERE name = $1 AND deleted = 0",
        &[name.into()],
    )
    .await
}

/// The id of a cluster, which is registered first if it is unknown. `actor` empty = the controller itself.
pub(crate) async fn ensure(
    unit: &mut Unit,
    name: &str,
    now: UnixSeconds,
    actor: &str,
) -> Result<i64> {
    if let Some(id) = find(unit, name).await? {
        return Ok(id);
    }
    unit.execute(
        DOING,
        "INSERT INTO clusters (name, created) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET deleted = 0",
        &[name.into(), now.into()],
    )
    .await?;
    let id = id_of(unit, name).await?;
    unit.execute(
        DOING,
        "INSERT INTO accounts (name, description, organization, created) VALUES ('root', 'default root account', 'root', $1) \
         ON CONFLICT (name) DO UPDATE SET deleted = 0",
        &[now.into()],
    )
    .await?;
    users::put(unit, "root", Some(AdminLevel::Administrator), now).await?;
    let mut root = AssociationRecord::new(name, "root", "");
    root.qos = Some(vec!["normal".to_owned()]);
    let mut user = AssociationRecord::new(name, "root", "root");
    user.is_default = true;
    let actor = if actor.is_empty() { "slurm" } else { actor };
    let change = Change {
        actor: actor.to_owned(),
        now,
    };
    let info = format!("mod_time={}, shares=1, qos=',1,'", now.0);
    note(
        unit,
        &change,
        Entry {
            action: "Add Clusters",
            cluster: name,
            condition: name,
            info: &info,
        },
    )
    .await?;
    associations::put(unit, id, &root).await?;
    associations::add(unit, &change, id, user).await?;
    Ok(id)
}

/// Stores what a controller says of its cluster, and notes a change of its size as an event.
pub(crate) async fn describe(
    unit: &mut Unit,
    id: i64,
    name: &str,
    registration: &ClusterRegistration,
) -> Result<()> {
    let stored = "SELECT COUNT(*) FROM clusters WHERE id = $1 AND control_host = $2 AND control_port = $3 AND rpc_version = $4";
    let args = [
        id.into(),
        registration.control_host.as_str().into(),
        registration.control_port.into(),
        registration.rpc_version.into(),
    ];
    let change = Change {
        actor: "slurm".to_owned(),
        now: registration.time,
    };
    if unit.number(DOING, stored, &args).await? == Some(0) {
        let info = format!(
            "control_host='{}', control_port={}, last_port={}, rpc_version={}",
            registration.control_host,
            registration.control_port,
            registration.control_port,
            registration.rpc_version
        );
        let condition = format!("name='{name}'");
        let entry = Entry {
            action: "Modify Clusters",
            cluster: name,
            condition: &condition,
            info: &info,
        };
        note(unit, &change, entry).await?;
    }
    register_tres(unit, &change, &registration.tres).await?;
    let same = "SELECT COUNT(*) FROM node_events WHERE cluster_id = $1 AND node = '' AND time_end IS NULL AND tres = $2";
    let unchanged = unit
        .number(DOING, same, &[id.into(), registration.tres.as_str().into()])
        .await?
        == Some(1);
    unit.execute(
        DOING,
        "UPDATE clusters SET control_host = $2, control_port = $3, rpc_version = $4, tres = $5, node_list = $6 WHERE id = $1",
        &[
            id.into(),
            registration.control_host.as_str().into(),
            registration.control_port.into(),
            registration.rpc_version.into(),
            registration.tres.as_str().into(),
            registration.node_list.as_str().into(),
        ],
    )
    .await?;
    if unchanged {
        return Ok(());
    }
    tracing::debug!(
        cluster = name,
        tres = registration.tres,
        "cluster has new TRES"
    );
    unit.execute(
        DOING,
        "UPDATE node_events SET time_end = $2 WHERE cluster_id = $1 AND node = '' AND time_end IS NULL",
        &[id.into(), registration.time.into()],
    )
    .await?;
    let event = NodeEventRecord {
        node: String::new(),
        time_start: registration.time,
        time_end: None,
        state: String::new(),
        reason: "Cluster Registered TRES".to_owned(),
        user: String::new(),
        tres: registration.tres.clone(),
    };
    let mut row = vec![Cell::from(id)];
    row.extend(event.cells());
    unit.upsert(
        DOING,
        &NodeEventRecord::TABLE,
        &[Column {
            name: "cluster_id",
            kind: <i64 as Field>::KIND,
        }],
        &[row],
    )
    .await?;
    // Nodes that are gone from the cluster cannot report that they are up again.
    close_events_of_removed_nodes(unit, id, registration).await
}

async fn close_events_of_removed_nodes(
    unit: &mut Unit,
    id: i64,
    registration: &ClusterRegistration,
) -> Result<()> {
    let Ok(names) = sluice_model::hostlist::parse_hostlist(&registration.node_list) else {
        return Ok(());
    };
    if names.is_empty() {
        return Ok(());
    }
    let names: std::collections::HashSet<String> = names.into_iter().collect();
    let sql =
        "SELECT node FROM node_events WHERE cluster_id = $1 AND node <> '' AND time_end IS NULL";
    for cell in unit
        .rows(DOING, sql, &[id.into()], &[Kind::Text])
        .await?
        .into_iter()
        .flatten()
    {
        let Cell::Text(Some(node)) = cell else {
            continue;
        };
        if !names.contains(&node) {
            events::close_open(unit, id, Some(&node), registration.time).await?;
        }
    }
    Ok(())
}

/// Gives an id to each TRES of a list (`cpu=4,gres/gpu=2`) that has none.
async fn register_tres(unit: &mut Unit, change: &Change, list: &str) -> Result<()> {
    for item in list.split(',') {
        let full = item.split('=').next().unwrap_or("");
        let (kind, name) = full.split_once('/').unwrap_or((full, ""));
        if kind.is_empty() {
            continue;
        }
        let known = "SELECT id FROM tres WHERE kind = $1 AND name = $2";
        if unit
            .number(DOING, known, &[kind.into(), name.into()])
            .await?
            .is_some()
        {
            continue;
        }
        let last = unit
            .number(DOING, "SELECT MAX(id) FROM tres", &[])
            .await?
            .unwrap_or(0);
        let id = (last + 1).max(TRES_DYNAMIC_FIRST);
        unit.execute(
            DOING,
            "INSERT INTO tres (id, kind, name) VALUES ($1, $2, $3)",
            &[id.into(), kind.into(), name.into()],
        )
        .await?;
        let (condition, info) = (format!("id={id}"), format!("type='{kind}', name='{name}'"));
        note(
            unit,
            change,
            Entry {
                action: "Add TRES",
                cluster: "",
                condition: &condition,
                info: &info,
            },
        )
        .await?;
    }
    Ok(())
}
