//! What administrators define: clusters, accounts, users, associations, QOS; and the record of who changed them.
//!
//! One file a kind. Every change is one transaction with its entry in `transactions`. Removed things keep their row with
//! `deleted` set, since old records refer to them; adding them again clears the mark.
//! Who may change what is decided by the caller. Source: `sacctmgr(1)`.

pub mod accounts;
pub mod associations;
pub mod clusters;
pub mod edits;
pub mod job_edits;
pub mod modify;
mod note_texts;
pub mod qos;
pub mod remove;
pub mod resources;
pub mod selection;
pub mod transactions;
pub mod tree;
pub mod users;
pub mod wckeys;

use sluice_model::accounting::{AdminLevel, AssociationRecord};
use sluice_model::time::UnixSeconds;

/// Who changes something, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// User name.
    pub actor: String,
    /// Now.
    pub now: UnixSeconds,
}

/// A user to add: one association for each cluster, account and partition.
#[derive(Debug, Clone)]
pub struct NewUser {
    /// Login name.
    pub name: String,
    /// Rights; `None` = leave as they are, or none for a new user.
    pub admin_level: Option<AdminLevel>,
    /// Accounts; the first becomes the default on clusters where the user has none.
    pub accounts: Vec<String>,
    /// Clusters; empty = all.
    pub clusters: Vec<String>,
    /// Partitions; empty = one association for all.
    pub partitions: Vec<String>,
    /// Default account, if not the first.
    pub default_account: Option<String>,
    /// Shares, limits and QOS of the new associations; its key is not used.
    pub template: AssociationRecord,
}

/// A copy of a list without doubles, in order.
pub(crate) fn distinct(names: &[String]) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    names
        .iter()
        .filter(|name| seen.insert(name.as_str()))
        .cloned()
        .collect()
}
