//! Facts about nodes.

use std::sync::Arc;

use sluice_model::node::NodeHardware;
use sluice_model::node_state::NodeStateFull;
use sluice_model::time::UnixSeconds;

use crate::cluster::{Cluster, Node};

fn change(cluster: &mut Cluster, name: &str, edit: impl FnOnce(&mut Node)) {
    let Some(index) = cluster.node_index.get(name).copied() else {
        return;
    };
    if let Some(node) = cluster.nodes.get_mut(index.at()) {
        edit(Arc::make_mut(node));
    }
}

pub(super) fn registered(
    cluster: &mut Cluster,
    name: &str,
    hardware: &Arc<NodeHardware>,
    state: NodeStateFull,
    reason: Option<String>,
    time: UnixSeconds,
) {
    change(cluster, name, |node| {
        node.hardware = Some(Arc::clone(hardware));
        node.registered = Some(time);
        if node.reason != reason {
            node.reason_uid = reason.as_ref().map(|_| 0);
            node.reason_time = reason.as_ref().map(|_| time);
            node.reason = reason;
        }
        node.state = state;
    });
}

pub(super) fn state_set(
    cluster: &mut Cluster,
    name: &str,
    state: NodeStateFull,
    reason: Option<String>,
    uid: u32,
    time: UnixSeconds,
) {
    change(cluster, name, |node| {
        node.state = state;
        if node.reason != reason {
            node.reason_uid = reason.as_ref().map(|_| uid);
            node.reason_time = reason.as_ref().map(|_| time);
            node.reason = reason;
        }
    });
}

pub(super) fn updated(
    cluster: &mut Cluster,
    name: &str,
    weight: Option<u32>,
    features: Option<Vec<String>>,
    active_features: Option<Vec<String>>,
    comment: Option<String>,
) {
    change(cluster, name, |node| {
        if weight.is_some() {
            node.weight = weight;
        }
        if features.is_some() {
            node.features = features;
        }
        if active_features.is_some() {
            node.active_features = active_features;
        }
        if comment.is_some() {
            node.comment = comment.filter(|text| !text.is_empty());
        }
    });
}
