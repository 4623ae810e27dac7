//! The tree of associations, worked out from the records: who is below whom, for limits and for fair share.
//!
//! For limits every account is a level. For fair share an account with `Fairshare=parent` is none: what is below it stands beside
//! it, below the nearest account that is not so. Source: pages `fair_tree`, `accounting`.

use std::collections::BTreeMap;

use sluice_model::accounting::AssociationRecord;

use super::{ROOT, Records};

/// One association's place.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Branch {
    /// The account above; `None` = the root.
    pub parent: Option<u32>,
    /// The account whose level it shares in; `None` = the root.
    pub share_parent: Option<u32>,
    /// What shares in its level, by id. An account with `Fairshare=parent` is left out, and what is below it is here.
    pub share_children: Vec<u32>,
    /// Shares of those added up, those with `parent` left out.
    pub level_shares: u64,
    /// A user's row.
    pub is_user: bool,
    /// Its shares; `None` = `parent`.
    pub shares: Option<u32>,
}

/// Account, user, partition.
type Key = (String, String, String);

/// See the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tree {
    branches: BTreeMap<u32, Branch>,
    by_key: BTreeMap<Key, u32>,
    qos: BTreeMap<String, u32>,
    root: Option<u32>,
    users: u32,
    has_partitions: bool,
    top_priority: u32,
    top_qos_priority: u32,
}

fn key_of(record: &AssociationRecord) -> Key {
    (
        record.account.clone(),
        record.user.clone(),
        record.partition.clone(),
    )
}

impl Tree {
    /// Works the tree out.
    #[must_use]
    pub fn new(records: &Records) -> Self {
        let mut tree = Self::default();
        for (id, record) in &records.associations {
            tree.by_key.insert(key_of(record), *id);
        }
        tree.root = tree.id_of(ROOT, "", "");
        for (id, record) in &records.associations {
            let is_user = !record.user.is_empty();
            let above = if is_user {
                &record.account
            } else {
                &record.parent_account
            };
            let parent = (Some(*id) != tree.root)
                .then(|| {
                    tree.id_of(above, "", "")
                        .filter(|parent| parent != id)
                        .or(tree.root)
                })
                .flatten();
            tree.users += u32::from(is_user);
            tree.has_partitions |= !record.partition.is_empty();
            tree.top_priority = tree.top_priority.max(record.priority.unwrap_or(0));
            tree.branches.insert(
                *id,
                Branch {
                    parent,
                    share_parent: None,
                    share_children: Vec::new(),
                    level_shares: 0,
                    is_user,
                    shares: record.shares,
                },
            );
        }
        tree.break_circles();
        tree.find_share_parents();
        for (id, qos) in &records.qos {
            tree.qos.insert(qos.name.clone(), *id);
            tree.top_qos_priority = tree.top_qos_priority.max(qos.priority);
        }
        tree
    }

    /// An account that is its own ancestor is put below the root, so that every walk up ends.
    fn break_circles(&mut self) {
        let ids: Vec<u32> = self.branches.keys().copied().collect();
        let most = ids.len();
        for id in ids {
            if self.path(id).count() > most {
                let root = self.root.filter(|root| *root != id);
                if let Some(branch) = self.branches.get_mut(&id) {
                    branch.parent = root;
                }
            }
        }
    }

    fn find_share_parents(&mut self) {
        let found: Vec<(u32, Option<u32>)> = self
            .branches
            .keys()
            .map(|id| {
                let above = self
                    .path(*id)
                    .skip(1)
                    .find(|id| Some(*id) == self.root || self.shares(*id).is_some());
                (*id, above)
            })
            .collect();
        for (id, above) in found {
            let Some(branch) = self.branches.get_mut(&id) else {
                continue;
            };
            branch.share_parent = above;
            let shares = branch.shares;
            let takes_part = branch.is_user || shares.is_some();
            if let Some(above) = above.filter(|_| takes_part)
                && let Some(above) = self.branches.get_mut(&above)
            {
                above.share_children.push(id);
                above.level_shares += u64::from(shares.unwrap_or(0));
            }
        }
    }

    /// One association's place.
    #[must_use]
    pub fn branch(&self, id: u32) -> Option<&Branch> {
        self.branches.get(&id)
    }

    /// Every association's place, by id.
    pub fn branches(&self) -> impl Iterator<Item = (u32, &Branch)> {
        self.branches.iter().map(|(id, branch)| (*id, branch))
    }

    /// Id of the row of an account, user and partition.
    #[must_use]
    pub fn id_of(&self, account: &str, user: &str, partition: &str) -> Option<u32> {
        let key = (account.to_owned(), user.to_owned(), partition.to_owned());
        self.by_key.get(&key).copied()
    }

    /// Id of a QOS.
    #[must_use]
    pub fn qos_id(&self, name: &str) -> Option<u32> {
        self.qos.get(name).copied()
    }

    /// The root account.
    #[must_use]
    pub fn root(&self) -> Option<u32> {
        self.root
    }

    /// Rows of users, idle ones too.
    #[must_use]
    pub fn users(&self) -> u32 {
        self.users
    }

    /// Some row is for one partition.
    #[must_use]
    pub fn has_partitions(&self) -> bool {
        self.has_partitions
    }

    /// Highest priority of an association.
    #[must_use]
    pub fn top_priority(&self) -> u32 {
        self.top_priority
    }

    /// Highest priority of a QOS.
    #[must_use]
    pub fn top_qos_priority(&self) -> u32 {
        self.top_qos_priority
    }

    /// Shares of an association; `None` = `parent`.
    #[must_use]
    pub fn shares(&self, id: u32) -> Option<u32> {
        self.branches.get(&id).and_then(|branch| branch.shares)
    }

    /// The association and all above it, the root last. Bounded, so that it ends on broken records too.
    pub fn path(&self, id: u32) -> impl Iterator<Item = u32> + '_ {
        let known = self.branches.contains_key(&id).then_some(id);
        std::iter::successors(known, |id| self.branches.get(id)?.parent)
            .take(self.branches.len() + 1)
    }

    /// The shares of a level added up, those with `parent` left out.
    #[must_use]
    pub fn level_shares(&self, parent: u32) -> u64 {
        self.branches
            .get(&parent)
            .map_or(0, |branch| branch.level_shares)
    }
}
