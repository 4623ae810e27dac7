//! Making, changing and deleting partitions by hand. Source: scontrol(1), partition specifications.
//!
//! What is changed here lasts until the configuration is read again (`scontrol reconfigure`, ReconfigFlags=KeepPartInfo aside).

use std::sync::Arc;

use sluice_config::{ChangeError, NodeConfig, PartitionConfig};
use sluice_model::error_code::ErrorCode;

use super::{Caller, Rejection};
use crate::cluster::Cluster;
use crate::event::Event;
use crate::transaction::Transaction;

/// MinNodes of a partition made by hand, where a line of slurm.conf means 0.
const MIN_NODES_BY_HAND: &str = "1";

/// The nodes there are now, made by hand or configured.
pub(super) fn node_configs(cluster: &Cluster) -> Vec<NodeConfig> {
    cluster
        .nodes
        .iter()
        .filter(|node| node.configured)
        .map(|node| (*node.config).clone())
        .collect()
}

/// Slurm's code for what was refused, with our words.
pub(super) fn refusal(error: &ChangeError) -> Rejection {
    let code = match error {
        ChangeError::UnknownNodes(_) => ErrorCode::InvalidNodeName,
        ChangeError::NodeState => ErrorCode::InvalidNodeState,
        ChangeError::Refused(_) => ErrorCode::Unspecified,
    };
    Rejection::with_text(code, format!("{}\n\nhint: {error}", code.message()))
}

/// Makes (`create`) or changes a partition.
///
/// # Errors
/// No permission; invalid partition or node name; values that slurm.conf would not take either.
pub fn change(
    transaction: &mut Transaction<'_>,
    name: &str,
    create: bool,
    settings: &[(String, String)],
    caller: &Caller,
) -> Result<(), Rejection> {
    if !caller.privileged {
        return Err(ErrorCode::InvalidUserId.into());
    }
    let before = transaction.cluster.partition(name).cloned();
    if before.is_some() == create || name.is_empty() {
        return Err(ErrorCode::InvalidPartitionName.into());
    }
    let mut settings = settings.to_vec();
    let gives = |key: &str| {
        settings
            .iter()
            .any(|(given, _)| given.eq_ignore_ascii_case(key))
    };
    if create && !gives("MinNodes") {
        settings.push(("MinNodes".to_owned(), MIN_NODES_BY_HAND.to_owned()));
    }
    let alternate = settings
        .iter()
        .find(|(key, _)| key.eq_ignore_ascii_case("Alternate"))
        .map(|(_, value)| value.as_str())
        .filter(|value| !value.is_empty() && !value.eq_ignore_ascii_case("NONE"));
    if alternate.is_some_and(|other| transaction.cluster.partition(other).is_none()) {
        return Err(ErrorCode::InvalidPartitionName.into());
    }
    let nodes = node_configs(transaction.cluster);
    let partition = transaction
        .cluster
        .config
        .changed_partition(
            &nodes,
            before.as_ref().map(|partition| &*partition.config),
            name,
            &settings,
        )
        .map_err(|error| refusal(&error))?;
    if partition.default {
        let others: Vec<Arc<PartitionConfig>> = transaction
            .cluster
            .partitions
            .iter()
            .filter(|other| other.config.default && other.config.name != name)
            .map(|other| Arc::clone(&other.config))
            .collect();
        for mut other in others {
            let changed = Arc::make_mut(&mut other);
            changed.default = false;
            changed.raw.retain(|(key, _)| key != "Default");
            transaction.emit(Event::PartitionUpdated { partition: other });
        }
    }
    transaction.emit(Event::PartitionUpdated {
        partition: Arc::new(partition),
    });
    transaction.wake_planner();
    Ok(())
}

/// Deletes a partition.
///
/// # Errors
/// No permission; no such partition; jobs wait for it or run in it.
pub fn delete(
    transaction: &mut Transaction<'_>,
    name: &str,
    caller: &Caller,
) -> Result<(), Rejection> {
    if !caller.privileged {
        return Err(ErrorCode::InvalidUserId.into());
    }
    let cluster = &transaction.cluster;
    if cluster.partition(name).is_none() {
        return Err(ErrorCode::InvalidPartitionName.into());
    }
    let waits = cluster
        .pending
        .iter()
        .filter_map(|id| cluster.job(*id))
        .any(|job| job.request.partitions.iter().any(|wanted| wanted == name));
    let runs = cluster
        .holding
        .iter()
        .filter_map(|id| cluster.job(*id))
        .any(|job| job.partition == name);
    if waits || runs {
        return Err(ErrorCode::PartitionInUse.into());
    }
    transaction.emit(Event::PartitionDeleted {
        partition: name.to_owned(),
    });
    transaction.wake_planner();
    Ok(())
}
