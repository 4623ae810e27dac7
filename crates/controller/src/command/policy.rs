//! The accounting policy: what the database tells is brought into force, and usage is set back by hand. Source: `sacctmgr(1)`.

use sluice_model::accounting::{AssociationRecord, QosRecord, UserRecord};

use crate::event::Event;
use crate::policy::PolicyChange;
use crate::transaction::Transaction;

/// Associations of this cluster, QOS and users as the database has them. Makes no event when all is as before; gives true if
/// something changed.
pub fn load(
    transaction: &mut Transaction<'_>,
    associations: Vec<AssociationRecord>,
    qos: Vec<QosRecord>,
    users: Vec<UserRecord>,
) -> bool {
    let policy = &transaction.cluster.policy;
    let change = PolicyChange::between(policy, associations, qos, users);
    if change.is_empty() {
        return false;
    }
    let time = transaction.now;
    transaction.emit(Event::PolicyChanged {
        change: Box::new(change),
        time,
    });
    transaction.wake_planner();
    true
}

/// `sacctmgr modify … set RawUsage=`: usage of these associations and of all below them becomes nothing, that of QOS a number.
pub fn set_usage(transaction: &mut Transaction<'_>, associations: Vec<u32>, qos: Vec<(u32, f64)>) {
    let policy = &transaction.cluster.policy;
    let associations: Vec<u32> = associations
        .into_iter()
        .filter(|id| policy.association(*id).is_some())
        .collect();
    let qos: Vec<(u32, f64)> = qos
        .into_iter()
        .filter(|(id, raw)| policy.qos(*id).is_some() && raw.is_finite())
        .collect();
    if associations.is_empty() && qos.is_empty() {
        return;
    }
    let time = transaction.now;
    transaction.emit(Event::UsageSet {
        associations,
        qos,
        time,
    });
    transaction.wake_planner();
}
