//! Bringing a new configuration into force on a running cluster: at start, and on `scontrol reconfigure`.
//!
//! The configuration was validated as a whole before; queued and running jobs go on. Jobs of partitions that are gone are
//! cancelled (scheduling reference 7.2).

use std::sync::Arc;

use sluice_config::ClusterConfig;
use sluice_model::ids::JobId;
use sluice_model::reason::Reason;
use sluice_model::state::JobState;

use super::{job_end, trigger};
use crate::cluster::Cluster;
use crate::cluster::trigger::TriggerEvent;
use crate::effect::Effect;
use crate::event::Event;
use crate::transaction::Transaction;

/// Loads `config` at start, if it differs from the one in force: what was set by hand since lasts over a restart.
pub fn load(transaction: &mut Transaction<'_>, config: Arc<ClusterConfig>) {
    if *transaction.cluster.config == *config {
        return;
    }
    replace(transaction, config);
}

/// Loads `config` on `scontrol reconfigure`: partitions, weights, features and GRES are those of the file again, whatever was set
/// by hand. Nodes made by hand stay. ReconfigFlags=KeepPartInfo keeps partitions as they are, KeepPartState their states
/// (slurm.conf(5)).
pub fn reload(transaction: &mut Transaction<'_>, config: Arc<ClusterConfig>) {
    trigger::happened(transaction, TriggerEvent::Reconfig);
    let cluster = &transaction.cluster;
    let same = *cluster.config == *config;
    let touched: Vec<String> = cluster
        .nodes
        .iter()
        .filter(|node| {
            node.weight.is_some() || node.features.is_some() || node.active_features.is_some()
        })
        .map(|node| node.config.name.clone())
        .collect();
    if same && touched.is_empty() && !differs(cluster, &config) {
        return;
    }
    for node in touched {
        transaction.emit(Event::NodeReset { node });
    }
    let flag = |name: &str| {
        config
            .reconfig_flags
            .iter()
            .any(|flag| flag.eq_ignore_ascii_case(name))
    };
    let (keep_all, keep_states) = (flag("KeepPartInfo"), flag("KeepPartState"));
    let before: Vec<_> = transaction
        .cluster
        .partitions
        .iter()
        .map(|partition| Arc::clone(&partition.config))
        .collect();
    replace(transaction, config);
    for partition in before {
        let now = transaction.cluster.partition(&partition.name).cloned();
        if keep_all {
            transaction.emit(Event::PartitionUpdated { partition });
        } else if let Some(now) =
            now.filter(|now| keep_states && now.config.state != partition.state)
        {
            let mut config = Arc::clone(&now.config);
            Arc::make_mut(&mut config).state = partition.state;
            transaction.emit(Event::PartitionUpdated { partition: config });
        }
    }
}

/// Something of partitions or nodes is not as the file says.
fn differs(cluster: &Cluster, config: &ClusterConfig) -> bool {
    let partitions = cluster.partitions.len() != config.partitions.len()
        || config.partitions.iter().any(|wanted| {
            cluster.partition(&wanted.name).is_none_or(|now| {
                now.config.raw != wanted.raw
                    || now.config.state != wanted.state
                    || now.config.nodes_expression != wanted.nodes_expression
            })
        });
    let nodes = config.nodes.iter().any(|wanted| {
        cluster
            .node_named(&wanted.name)
            .is_none_or(|(_, now)| *now.config != *wanted)
    });
    partitions || nodes
}

fn replace(transaction: &mut Transaction<'_>, config: Arc<ClusterConfig>) {
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
