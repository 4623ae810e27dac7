//! Making and deleting nodes by hand. Source: scontrol(1), node specifications for create and delete.
//!
//! Nodes made here carry DYNAMIC_NORM and stay when the configuration is read again; configured nodes that were deleted come back
//! then.

use std::sync::Arc;

use sluice_model::error_code::ErrorCode;

use super::partition::{node_configs, refusal};
use super::{Caller, Rejection};
use crate::effect::Effect;
use crate::event::{Event, config};
use crate::transaction::Transaction;

/// Makes the nodes of a NodeName line. Partitions with `Nodes=ALL` get them.
///
/// # Errors
/// No permission; a name that is taken; what slurm.conf would not take; a state other than CLOUD and FUTURE; MaxNodeCount.
pub fn create(
    transaction: &mut Transaction<'_>,
    settings: &[(String, String)],
    caller: &Caller,
) -> Result<(), Rejection> {
    if !caller.privileged {
        return Err(ErrorCode::InvalidUserId.into());
    }
    let nodes = transaction
        .cluster
        .config
        .nodes_of_line(settings)
        .map_err(|error| refusal(&error))?;
    if let Some(taken) = nodes
        .iter()
        .find(|node| transaction.cluster.node_named(&node.name).is_some())
    {
        return Err(Rejection::with_text(
            ErrorCode::InvalidNodeName,
            format!(
                "{}\n\nhint: there is a node {} already",
                ErrorCode::InvalidNodeName.message(),
                taken.name
            ),
        ));
    }
    let room = transaction
        .cluster
        .config
        .raw_value("MaxNodeCount")
        .and_then(|text| text.parse::<usize>().ok());
    if room.is_some_and(|most| transaction.cluster.nodes.len() + nodes.len() > most) {
        return Err(Rejection::with_text(
            ErrorCode::InvalidNodeCount,
            format!(
                "{}\n\nhint: MaxNodeCount leaves no room for more nodes",
                ErrorCode::InvalidNodeCount.message()
            ),
        ));
    }
    let time = transaction.now;
    transaction.emit(Event::NodesCreated { nodes, time });
    refresh_partitions(transaction, &[]);
    transaction.effect(Effect::ConfigChanged);
    transaction.wake_planner();
    Ok(())
}

/// Deletes nodes.
///
/// # Errors
/// No permission; a name that means no node; jobs run there.
pub fn delete(
    transaction: &mut Transaction<'_>,
    expression: &str,
    caller: &Caller,
) -> Result<(), Rejection> {
    if !caller.privileged {
        return Err(ErrorCode::InvalidUserId.into());
    }
    let names = transaction
        .cluster
        .config
        .members(&node_configs(transaction.cluster), expression)
        .map_err(|_| ErrorCode::InvalidNodeName)?;
    if names.is_empty() {
        return Err(ErrorCode::InvalidNodeName.into());
    }
    for name in &names {
        let busy = transaction
            .cluster
            .node_named(name)
            .is_some_and(|(_, node)| !node.jobs.is_empty());
        if busy {
            return Err(ErrorCode::NodesBusy.into());
        }
    }
    transaction.emit(Event::NodesDeleted {
        nodes: names.clone(),
    });
    refresh_partitions(transaction, &names);
    transaction.effect(Effect::ConfigChanged);
    transaction.wake_planner();
    Ok(())
}

/// Partitions that took every node take the new ones; all forget those that are gone.
fn refresh_partitions(transaction: &mut Transaction<'_>, gone: &[String]) {
    let names: Vec<String> = transaction
        .cluster
        .nodes
        .iter()
        .filter(|node| node.configured)
        .map(|node| node.config.name.clone())
        .collect();
    let changed: Vec<_> = transaction
        .cluster
        .partitions
        .iter()
        .filter_map(|partition| {
            let mut members = partition.config.nodes.clone();
            if config::takes_every_node(&partition.config) {
                members.clone_from(&names);
            }
            members.retain(|name| !gone.contains(name));
            (members != partition.config.nodes).then(|| {
                let mut config = Arc::clone(&partition.config);
                Arc::make_mut(&mut config).nodes = members;
                config
            })
        })
        .collect();
    for partition in changed {
        transaction.emit(Event::PartitionUpdated { partition });
    }
}
