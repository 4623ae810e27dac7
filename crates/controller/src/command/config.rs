//! Bringing a new configuration into force on a running cluster: at start, and on `scontrol reconfigure`.
//!
//! The configuration was validated as a whole before; queued and running jobs go on. Jobs of partitions that are gone are
//! cancelled (scheduling reference 7.2).

use std::sync::Arc;

use sluice_config::ClusterConfig;
use sluice_model::ids::JobId;
use sluice_model::reason::Reason;
use sluice_model::state::JobState;

use super::job_end;
use crate::effect::Effect;
use crate::event::Event;
use crate::transaction::Transaction;

/// Loads `config`, if it differs from the one in force.
pub fn load(transaction: &mut Transaction<'_>, config: Arc<ClusterConfig>) {
    if *transaction.cluster.config == *config {
        return;
    }
    let connected = transaction.cluster.connected.clone();
    let names: Vec<String> = connected
        .iter()
        .filter_map(|index| {
            transaction
                .cluster
                .node(*index)
                .map(|node| node.config.name.clone())
        })
        .collect();
    let time = transaction.now;
    transaction.emit(Event::ConfigLoaded { config, time });
    for name in names {
        if let Some((index, _)) = transaction.cluster.node_named(&name) {
            transaction.cluster.connected.insert(index);
            transaction.cluster.last_heard.insert(index, time);
        }
    }
    let orphans: Vec<JobId> = transaction
        .cluster
        .pending
        .iter()
        .filter(|id| {
            transaction.cluster.job(**id).is_some_and(|job| {
                !job.request
                    .partitions
                    .iter()
                    .any(|name| transaction.cluster.partition(name).is_some())
            })
        })
        .copied()
        .collect();
    for id in orphans {
        job_end::end_pending(
            transaction,
            id,
            JobState::Cancelled,
            Reason::PartitionDown,
            None,
        );
    }
    transaction.effect(Effect::ConfigChanged);
    transaction.wake_planner();
}
