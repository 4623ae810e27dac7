//! Node events: periods in which a node was down or drained, and changes of the cluster's size.
//!
//! Invariant: a node has at most one open event; writing one closes those before it. A closed event is never opened again.
//! Source: `sacctmgr(1)`, `show event`.

use sluice_model::accounting::NodeEventRecord;
use sluice_model::hostlist::parse_hostlist;
use sluice_model::time::UnixSeconds;

use crate::cell::Cell;
use crate::database::Unit;
use crate::entities::clusters;
use crate::jobs::in_list;
use crate::{AccountingStore, Result, TimeWindow};

/// Which events to show.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Clusters; empty = all.
    pub clusters: Vec<String>,
    /// Nodes as hostlists; empty = all, and the cluster's own events.
    pub nodes: Vec<String>,
    /// Events that touch this window; `None` = all times.
    pub window: Option<TimeWindow>,
    /// Only those that have not ended.
    pub open_only: bool,
}

impl AccountingStore {
    /// Events with the name of their cluster, by cluster, time and node.
    ///
    /// # Errors
    /// When the database cannot be read or a node list is none.
    pub async fn node_events(&self, query: &EventQuery) -> Result<Vec<(String, NodeEventRecord)>> {
        let doing = "reading events";
        let nodes = expand(&query.nodes)?;
        let mut unit = self.read().await?;
        let mut found = Vec::new();
        for (cluster_id, cluster) in clusters::select(&mut unit, &query.clusters).await? {
            let mut args = vec![Cell::from(cluster_id)];
            let mut tail = "WHERE cluster_id = $1".to_owned();
            if query.open_only {
                tail.push_str(" AND time_end IS NULL");
            }
            if let Some(window) = query.window {
                args.push(window.start.into());
                args.push(window.end.into());
                tail.push_str(" AND (time_end IS NULL OR time_end >= $2) AND time_start <= $3");
            }
            if !nodes.is_empty() {
                tail.push_str(&format!(
                    " AND node IN ({})",
                    in_list(&mut args, nodes.iter().map(|node| node.as_str().into()))
                ));
            }
            tail.push_str(" ORDER BY time_start, node");
            let events: Vec<NodeEventRecord> = unit.records(doing, &tail, &args).await?;
            found.extend(events.into_iter().map(|event| (cluster.clone(), event)));
        }
        unit.commit(doing).await?;
        Ok(found)
    }
}

/// Node names of several hostlists.
pub(crate) fn expand(hostlists: &[String]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for hostlist in hostlists {
        let more = parse_hostlist(hostlist).map_err(|error| crate::AccountingError::NotFound {
            what: format!("node list `{hostlist}` ({error}), which"),
        })?;
        names.extend(more);
    }
    Ok(names)
}

/// Ends the open events of a node (`None` or empty: of all nodes, not of the cluster) that began before `time`.
pub(crate) async fn close_open(
    unit: &mut Unit,
    cluster_id: i64,
    node: Option<&str>,
    time: UnixSeconds,
) -> Result<()> {
    let mut args = vec![Cell::from(cluster_id), time.into()];
    let nodes = match node {
        Some(name) if !name.is_empty() => {
            args.push(name.into());
            "node = $3"
        }
        _ => "node <> ''",
    };
    let sql = format!(
        "UPDATE node_events SET time_end = $2 WHERE cluster_id = $1 AND {nodes} AND time_end IS NULL AND time_start < $2"
    );
    unit.execute("closing events", &sql, &args).await.map(drop)
}
