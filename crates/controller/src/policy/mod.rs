//! The accounting policy as the scheduler holds it: associations as a tree, QOS and users.
//!
//! The records are part of the cluster's state and travel in the journal, so that they rule while the database is away and from
//! the first second after a start. The shell hands in what the database says; [`change`] finds what differs. What the tree of
//! associations looks like is derived from the records and not stored. Source: `sacctmgr(1)`, pages `accounting`,
//! `resource_limits`.
//!
//! Invariant: a walk from an association up to the root ends, whatever the records say.

pub mod change;
pub mod in_use;
mod tree;

use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};
use sluice_model::accounting::{AssociationRecord, QosRecord, UserRecord};

pub use change::PolicyChange;
pub use tree::{Branch, Tree};

/// Name of the account above all.
pub const ROOT: &str = "root";

/// QOS of a job that names none and for which none is set.
pub const DEFAULT_QOS: &str = "normal";

/// The records as stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Records {
    /// Associations of this cluster by id.
    pub associations: OrdMap<u32, Arc<AssociationRecord>>,
    /// QOS by id.
    pub qos: OrdMap<u32, Arc<QosRecord>>,
    /// Users by name.
    pub users: OrdMap<String, Arc<UserRecord>>,
}

/// Associations, QOS and users with what follows from them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Records", into = "Records")]
pub struct Policy {
    records: Records,
    tree: Tree,
}

impl From<Records> for Policy {
    fn from(records: Records) -> Self {
        let tree = Tree::new(&records);
        Self { records, tree }
    }
}

impl From<Policy> for Records {
    fn from(policy: Policy) -> Self {
        policy.records
    }
}

impl Policy {
    /// Nothing was ever loaded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.associations.is_empty() && self.records.qos.is_empty()
    }

    /// The records.
    #[must_use]
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// The tree of associations.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// An association by id.
    #[must_use]
    pub fn association(&self, id: u32) -> Option<&Arc<AssociationRecord>> {
        self.records.associations.get(&id)
    }

    /// A QOS by id.
    #[must_use]
    pub fn qos(&self, id: u32) -> Option<&Arc<QosRecord>> {
        self.records.qos.get(&id)
    }

    /// A QOS by name.
    #[must_use]
    pub fn qos_named(&self, name: &str) -> Option<&Arc<QosRecord>> {
        self.qos(self.tree.qos_id(name)?)
    }

    /// A user by name.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&Arc<UserRecord>> {
        self.records.users.get(name)
    }

    /// The association that a job of `user` in `account` belongs to: the one for the partition if there is one, else the one
    /// for all partitions.
    #[must_use]
    pub fn association_for(&self, account: &str, user: &str, partition: &str) -> Option<u32> {
        let for_partition = self
            .tree
            .has_partitions()
            .then(|| self.tree.id_of(account, user, partition))
            .flatten();
        for_partition.or_else(|| self.tree.id_of(account, user, ""))
    }

    /// The account that is charged when a user of `cluster` names none.
    #[must_use]
    pub fn default_account(&self, cluster: &str, user: &str) -> Option<&str> {
        let user = self.user(user)?;
        user.default_accounts
            .iter()
            .find(|(name, _)| name == cluster)
            .map(|(_, account)| account.as_str())
    }

    /// The association and all above it, the root last.
    pub fn path(&self, id: u32) -> impl Iterator<Item = u32> + '_ {
        self.tree.path(id)
    }

    /// The nearest value up the tree: of the association itself, else of an account above it.
    #[must_use]
    pub fn inherited<'a, T>(
        &'a self,
        id: u32,
        value: impl Fn(&'a AssociationRecord) -> Option<T>,
    ) -> Option<T> {
        self.path(id)
            .filter_map(|id| self.association(id))
            .find_map(|record| value(record))
    }

    /// The QOS of a job of this association that asks for none.
    #[must_use]
    pub fn default_qos(&self, association: u32) -> Option<&str> {
        self.inherited(association, |record| {
            Some(record.default_qos.as_str()).filter(|name| !name.is_empty())
        })
    }

    /// The association's priority, or the nearest one above it; 0 if there is none.
    #[must_use]
    pub fn association_priority(&self, id: u32) -> u32 {
        self.inherited(id, |record| record.priority).unwrap_or(0)
    }

    /// The same records with `change` carried out.
    #[must_use]
    pub fn changed(&self, change: &PolicyChange) -> Self {
        let mut records = self.records.clone();
        for id in &change.removed_associations {
            records.associations.remove(id);
        }
        for id in &change.removed_qos {
            records.qos.remove(id);
        }
        for name in &change.removed_users {
            records.users.remove(name);
        }
        for record in &change.associations {
            records
                .associations
                .insert(record.id, Arc::new(record.clone()));
        }
        for record in &change.qos {
            records.qos.insert(record.id, Arc::new(record.clone()));
        }
        for record in &change.users {
            records
                .users
                .insert(record.name.clone(), Arc::new(record.clone()));
        }
        Self::from(records)
    }
}

#[cfg(test)]
pub(crate) mod samples {
    //! Policies for tests.

    use super::*;

    /// An association row; `user` empty = the account's own, below `parent`.
    pub fn row(
        id: u32,
        account: &str,
        user: &str,
        parent: &str,
        shares: Option<u32>,
    ) -> AssociationRecord {
        let mut record = AssociationRecord::new("test", account, user);
        record.id = id;
        record.parent_account = parent.to_owned();
        record.shares = shares;
        record
    }

    /// A policy of these rows and QOS.
    pub fn policy(rows: Vec<AssociationRecord>, qos: Vec<QosRecord>) -> Policy {
        Policy::from(Records {
            associations: rows
                .into_iter()
                .map(|row| (row.id, Arc::new(row)))
                .collect(),
            qos: qos.into_iter().map(|qos| (qos.id, Arc::new(qos))).collect(),
            users: OrdMap::new(),
        })
    }

    /// A QOS.
    pub fn qos(id: u32, name: &str, priority: u32) -> QosRecord {
        QosRecord {
            id,
            name: name.to_owned(),
            priority,
            ..QosRecord::default()
        }
    }

    /// The tree of the reference's worked example: root → bio (3 shares; ann 1, bob 2), phy (1; cat 1, dan 1).
    pub fn worked_example() -> Policy {
        policy(
            vec![
                row(1, "root", "", "", Some(1)),
                row(2, "bio", "", "root", Some(3)),
                row(3, "phy", "", "root", Some(1)),
                row(4, "bio", "ann", "", Some(1)),
                row(5, "bio", "bob", "", Some(2)),
                row(6, "phy", "cat", "", Some(1)),
                row(7, "phy", "dan", "", Some(1)),
            ],
            vec![qos(1, "normal", 0)],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{row, worked_example};
    use super::*;

    /// Row with the partition first, else the one without; nothing of another user or account.
    #[test]
    fn which_association_a_job_has() {
        let mut gpu = row(8, "bio", "ann", "", Some(1));
        gpu.partition = "gpu".to_owned();
        let policy = worked_example().changed(&PolicyChange {
            associations: vec![gpu],
            ..PolicyChange::default()
        });
        assert_eq!(policy.association_for("bio", "ann", "gpu"), Some(8));
        assert_eq!(policy.association_for("bio", "ann", "main"), Some(4));
        assert_eq!(policy.association_for("bio", "bob", "gpu"), Some(5));
        assert_eq!(policy.association_for("bio", "cat", "main"), None);
        assert_eq!(policy.association_for("", "ann", "main"), None);
        assert_eq!(policy.path(8).collect::<Vec<_>>(), [8, 2, 1]);
    }

    /// Values set on an account rule below it until another is set.
    #[test]
    fn values_are_inherited() {
        let mut bio = row(2, "bio", "", "root", Some(3));
        bio.priority = Some(30);
        bio.default_qos = "long".to_owned();
        let mut bob = row(5, "bio", "bob", "", Some(2));
        bob.priority = Some(7);
        let policy = worked_example().changed(&PolicyChange {
            associations: vec![bio, bob],
            ..PolicyChange::default()
        });
        assert_eq!(policy.association_priority(4), 30);
        assert_eq!(policy.association_priority(5), 7);
        assert_eq!(policy.association_priority(6), 0);
        assert_eq!(policy.default_qos(4), Some("long"));
        assert_eq!(policy.default_qos(6), None);
    }

    /// Stored records alone give the same policy back.
    #[test]
    fn survives_being_stored() {
        let policy = worked_example();
        let bytes = rmp_serde::to_vec_named(&policy).expect("encodes");
        let back: Policy = rmp_serde::from_slice(&bytes).expect("decodes");
        assert_eq!(back, policy);
    }

    /// Accounts that name each other as parents, or one that is not there, end at the root.
    #[test]
    fn broken_trees_end() {
        let policy = samples::policy(
            vec![
                row(1, "root", "", "", Some(1)),
                row(2, "a", "", "b", Some(1)),
                row(3, "b", "", "a", Some(1)),
                row(4, "c", "", "gone", Some(1)),
                row(5, "a", "u", "", Some(1)),
            ],
            Vec::new(),
        );
        assert!(policy.path(5).count() <= 5);
        assert_eq!(policy.path(4).collect::<Vec<_>>(), [4, 1]);
    }
}
