//! Facts about the accounting policy and usage.

use std::sync::Arc;

use sluice_model::ids::JobId;

use crate::cluster::{Cluster, Job};
use crate::policy::PolicyChange;
use crate::priority;

/// Puts a change of associations, QOS or users into force. Jobs find their association and QOS again.
pub(super) fn changed(cluster: &mut Cluster, change: &PolicyChange) {
    let before = Arc::clone(&cluster.policy);
    cluster.policy = Arc::new(before.changed(change));
    priority::usage::follow(cluster, &before);
    let ids: Vec<JobId> = cluster
        .pending
        .iter()
        .chain(cluster.holding.iter())
        .copied()
        .collect();
    for id in ids {
        find_again(cluster, id);
    }
    priority::policy_changed(cluster);
}

/// Association and QOS of a job as the policy has them for its account, user, partition and QOS.
#[must_use]
pub fn places(cluster: &Cluster, job: &Job) -> (Option<u32>, Option<u32>) {
    let policy = &cluster.policy;
    (
        policy.association_for(&job.account, &job.user_name, &job.partition),
        policy.tree().qos_id(&job.qos),
    )
}

pub(crate) fn find_again(cluster: &mut Cluster, id: JobId) {
    let Some(job) = cluster.jobs.get(&id) else {
        return;
    };
    let (association, qos_id) = places(cluster, job);
    if (job.association, job.qos_id) == (association, qos_id) {
        return;
    }
    if let Some(job) = cluster.jobs.get_mut(&id) {
        let job = Arc::make_mut(job);
        job.association = association;
        job.qos_id = qos_id;
    }
}

/// Usage set by hand: of associations to nothing, of QOS to any number.
pub(super) fn usage_set(cluster: &mut Cluster, associations: &[u32], qos: &[(u32, f64)]) {
    for id in associations {
        priority::usage::forget_association(cluster, *id);
    }
    for (id, raw) in qos {
        priority::usage::set_qos(cluster, *id, *raw);
    }
    priority::policy_changed(cluster);
}
