//! Facts about triggers and crontabs.

use std::sync::Arc;

use sluice_model::ids::JobId;
use sluice_model::time::UnixSeconds;

use crate::cluster::trigger::TriggerEvent;
use crate::cluster::{Cluster, Crontab, Trigger};

pub(super) fn trigger_set(cluster: &mut Cluster, trigger: &Trigger) {
    cluster.last_trigger_id = cluster.last_trigger_id.max(trigger.id);
    cluster
        .triggers
        .insert(trigger.id, Arc::new(trigger.clone()));
}

pub(super) fn trigger_due(cluster: &mut Cluster, id: u32, nodes: &[String], due: UnixSeconds) {
    if let Some(trigger) = cluster.triggers.get_mut(&id) {
        let trigger = Arc::make_mut(trigger);
        trigger.due.get_or_insert(due);
        for node in nodes {
            if !trigger.nodes.contains(node) {
                trigger.nodes.push(node.clone());
            }
        }
    }
}

pub(super) fn trigger_fired(cluster: &mut Cluster, id: u32) {
    let Some(trigger) = cluster.triggers.get_mut(&id) else {
        return;
    };
    if !trigger.permanent {
        cluster.triggers.remove(&id);
        return;
    }
    let trigger = Arc::make_mut(trigger);
    trigger.due = None;
    // A node that stays idle is told once.
    if trigger.event != TriggerEvent::Idle {
        trigger.nodes.clear();
    }
}

pub(super) fn trigger_forgot(cluster: &mut Cluster, id: u32, nodes: &[String]) {
    if let Some(trigger) = cluster.triggers.get_mut(&id) {
        Arc::make_mut(trigger)
            .nodes
            .retain(|node| !nodes.contains(node));
    }
}

pub(super) fn trigger_removed(cluster: &mut Cluster, id: u32) {
    cluster.triggers.remove(&id);
}

pub(super) fn crontab_set(cluster: &mut Cluster, uid: u32, crontab: Option<&Crontab>) {
    match crontab {
        Some(crontab) => {
            cluster.crontabs.insert(uid, Arc::new(crontab.clone()));
        }
        None => {
            cluster.crontabs.remove(&uid);
        }
    }
}

pub(super) fn crontab_entry_disabled(cluster: &mut Cluster, uid: u32, job: JobId) {
    if let Some(crontab) = cluster.crontabs.get_mut(&uid) {
        Arc::make_mut(crontab).disable(job);
    }
}
