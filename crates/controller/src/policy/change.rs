//! What differs between the policy in force and the one that the database tells.
//!
//! A change is a set of records that are new or different, and keys of those that are gone: it grows with what was changed, not
//! with the site.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sluice_model::accounting::{AssociationRecord, QosRecord, UserRecord};
use sluice_model::default_fields::is_default;

use super::Policy;

/// A difference between two policies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyChange {
    /// Associations that are new or different.
    #[serde(skip_serializing_if = "is_default")]
    pub associations: Vec<AssociationRecord>,
    /// Ids of associations that are gone.
    #[serde(skip_serializing_if = "is_default")]
    pub removed_associations: Vec<u32>,
    /// QOS that are new or different.
    #[serde(skip_serializing_if = "is_default")]
    pub qos: Vec<QosRecord>,
    /// Ids of QOS that are gone.
    #[serde(skip_serializing_if = "is_default")]
    pub removed_qos: Vec<u32>,
    /// Users who are new or different.
    #[serde(skip_serializing_if = "is_default")]
    pub users: Vec<UserRecord>,
    /// Names of users who are gone.
    #[serde(skip_serializing_if = "is_default")]
    pub removed_users: Vec<String>,
}

impl PolicyChange {
    /// Nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What must be changed in `policy` so that it consists of these records. Records marked as deleted count as gone.
    #[must_use]
    pub fn between(
        policy: &Policy,
        associations: Vec<AssociationRecord>,
        qos: Vec<QosRecord>,
        users: Vec<UserRecord>,
    ) -> Self {
        let records = policy.records();
        let associations: BTreeMap<u32, AssociationRecord> = associations
            .into_iter()
            .filter(|record| !record.deleted)
            .map(|record| (record.id, record))
            .collect();
        let qos: BTreeMap<u32, QosRecord> = qos
            .into_iter()
            .filter(|record| !record.deleted)
            .map(|record| (record.id, record))
            .collect();
        let users: BTreeMap<String, UserRecord> = users
            .into_iter()
            .filter(|record| !record.deleted)
            .map(|record| (record.name.clone(), record))
            .collect();
        Self {
            removed_associations: records
                .associations
                .keys()
                .filter(|id| !associations.contains_key(id))
                .copied()
                .collect(),
            removed_qos: records
                .qos
                .keys()
                .filter(|id| !qos.contains_key(id))
                .copied()
                .collect(),
            removed_users: records
                .users
                .keys()
                .filter(|name| !users.contains_key(*name))
                .cloned()
                .collect(),
            associations: associations
                .into_values()
                .filter(|record| {
                    policy.association(record.id).map(|known| &**known) != Some(record)
                })
                .collect(),
            qos: qos
                .into_values()
                .filter(|record| policy.qos(record.id).map(|known| &**known) != Some(record))
                .collect(),
            users: users
                .into_values()
                .filter(|record| policy.user(&record.name).map(|known| &**known) != Some(record))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{qos, row, worked_example};
    use super::*;

    /// The difference of two policies turns one into the other, and is empty between equal ones.
    #[test]
    fn a_difference_makes_equal() {
        let before = worked_example();
        let rows = |change: &dyn Fn(&mut Vec<AssociationRecord>)| {
            let mut rows: Vec<AssociationRecord> = before
                .records()
                .associations
                .values()
                .map(|record| (**record).clone())
                .collect();
            change(&mut rows);
            rows
        };
        let same = PolicyChange::between(
            &before,
            rows(&|_| ()),
            vec![qos(1, "normal", 0)],
            Vec::new(),
        );
        assert!(same.is_empty(), "{same:?}");
        let user = UserRecord {
            name: "eve".to_owned(),
            ..UserRecord::default()
        };
        let change = PolicyChange::between(
            &before,
            rows(&|rows| {
                rows.remove(6);
                rows[1].shares = Some(9);
                rows.push(row(8, "phy", "eve", "", Some(4)));
                rows[3].deleted = true;
            }),
            vec![qos(2, "high", 10)],
            vec![user.clone()],
        );
        assert_eq!(change.removed_associations, [4, 7]);
        assert_eq!(change.removed_qos, [1]);
        assert_eq!(
            change.associations.iter().map(|r| r.id).collect::<Vec<_>>(),
            [2, 8]
        );
        let after = before.changed(&change);
        assert_eq!(after.tree().users(), 3);
        assert_eq!(after.tree().level_shares(1), 10);
        assert_eq!(after.qos_named("high").map(|qos| qos.id), Some(2));
        assert_eq!(after.qos_named("normal"), None);
        assert_eq!(after.user("eve").map(|user| &**user), Some(&user));
        let back =
            PolicyChange::between(&after, rows(&|_| ()), vec![qos(1, "normal", 0)], Vec::new());
        assert_eq!(after.changed(&back), before);
    }
}
