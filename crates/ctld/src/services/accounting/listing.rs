//! Lists of what administrators defined, as sacctmgr shows them.
//!
//! Pure: filters rows that were read, and fills in what an association inherits. Invariant: a value set on a row is never
//! replaced by an inherited one; Grp limits belong to their own level and are not inherited.
//! Source: `sacctmgr(1)`, `resource_limits`; `slurm.conf(5)`, PrivateData (users, accounts).

use std::collections::{BTreeMap, HashMap, HashSet};

use sluice_accounting::effective_qos;
use sluice_model::accounting::{
    AccountRecord, AssociationRecord, ClusterRecord, QosRecord, UserRecord,
};
use sluice_proto::Wire;
use sluice_proto::v1::{
    ListAccountsReply, ListAssociationsReply, ListAssociationsRequest, ListClustersReply,
    ListQosReply, ListUsersReply,
};

fn wanted(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|item| item.eq_ignore_ascii_case(name))
}

/// Clusters by name.
pub(super) fn clusters(mut clusters: Vec<ClusterRecord>, names: &[String]) -> ListClustersReply {
    clusters.retain(|cluster| wanted(names, &cluster.name));
    ListClustersReply {
        clusters: clusters.into_wire(),
    }
}

/// Accounts by name. With a viewer, only those the viewer coordinates.
pub(super) fn accounts(
    mut accounts: Vec<AccountRecord>,
    names: &[String],
    viewer: Option<&str>,
) -> ListAccountsReply {
    accounts.retain(|account| {
        let may_see =
            viewer.is_none_or(|viewer| account.coordinators.iter().any(|user| user == viewer));
        wanted(names, &account.name) && may_see
    });
    ListAccountsReply {
        accounts: accounts.into_wire(),
    }
}

/// Users by name. With a viewer, only the viewer.
pub(super) fn users(
    mut users: Vec<UserRecord>,
    names: &[String],
    viewer: Option<&str>,
) -> ListUsersReply {
    users.retain(|user| {
        wanted(names, &user.name) && viewer.is_none_or(|viewer| user.name == viewer)
    });
    ListUsersReply {
        users: users.into_wire(),
    }
}

/// QOS by id.
pub(super) fn qos(mut qos: Vec<QosRecord>, names: &[String]) -> ListQosReply {
    qos.retain(|qos| wanted(names, &qos.name));
    ListQosReply {
        qos: qos.into_wire(),
    }
}

/// Somebody from whom the associations of others are hidden.
pub(super) struct AssociationViewer {
    user: String,
    coordinates: HashSet<String>,
}

impl AssociationViewer {
    /// A user who coordinates some of the accounts.
    pub(super) fn new(user: &str, accounts: &[AccountRecord]) -> Self {
        let coordinated = accounts
            .iter()
            .filter(|account| account.coordinators.iter().any(|name| name == user));
        Self {
            user: user.to_owned(),
            coordinates: coordinated.map(|account| account.name.clone()).collect(),
        }
    }

    fn may_see(&self, row: &AssociationRecord) -> bool {
        row.user == self.user || self.coordinates.contains(&row.account)
    }
}

/// Accounts named and, if asked for, everything below them; by cluster. Rows are in tree order: parents come first.
fn account_filter<'a>(
    rows: &'a [AssociationRecord],
    request: &ListAssociationsRequest,
) -> Option<HashSet<(&'a str, &'a str)>> {
    if request.accounts.is_empty() {
        return None;
    }
    let mut chosen: HashSet<(&str, &str)> = HashSet::new();
    for row in rows.iter().filter(|row| row.user.is_empty()) {
        let below = request.with_sub_accounts
            && chosen.contains(&(row.cluster.as_str(), row.parent_account.as_str()));
        if below || wanted(&request.accounts, &row.account) {
            chosen.insert((&row.cluster, &row.account));
        }
    }
    Some(chosen)
}

/// The associations that fit, in tree order. `rows` are all there are, in tree order.
pub(super) fn associations(
    rows: &[AssociationRecord],
    request: &ListAssociationsRequest,
    viewer: Option<&AssociationViewer>,
) -> ListAssociationsReply {
    let accounts = account_filter(rows, request);
    let trees = Trees::new(rows);
    let associations = rows
        .iter()
        .filter(|row| {
            wanted(&request.clusters, &row.cluster)
                && accounts.as_ref().is_none_or(|chosen| {
                    chosen.contains(&(row.cluster.as_str(), row.account.as_str()))
                })
                && wanted(&request.users, &row.user)
                && (request.partitions.is_empty() || request.partitions.contains(&row.partition))
                && (!request.only_defaults || row.is_default)
                && viewer.is_none_or(|viewer| viewer.may_see(row))
        })
        .map(|row| {
            if request.without_parent_limits {
                row.clone()
            } else {
                trees.inherited(row)
            }
        })
        .map(Into::into)
        .collect();
    ListAssociationsReply { associations }
}

/// The rows of each cluster, for looking upward.
struct Trees<'a> {
    rows: HashMap<&'a str, Vec<AssociationRecord>>,
    accounts: HashMap<(&'a str, &'a str), &'a AssociationRecord>,
}

impl<'a> Trees<'a> {
    fn new(all: &'a [AssociationRecord]) -> Self {
        let mut rows: HashMap<&str, Vec<AssociationRecord>> = HashMap::new();
        let mut accounts = HashMap::new();
        for row in all.iter().filter(|row| row.user.is_empty()) {
            // Only rows of accounts are inherited from; leaving the users out keeps the walk short on large clusters.
            rows.entry(&row.cluster).or_default().push(row.clone());
            accounts.insert((row.cluster.as_str(), row.account.as_str()), row);
        }
        Self { rows, accounts }
    }

    /// Rows above a row, the nearest first. A loop of parents ends at its first repetition.
    fn above(&self, row: &AssociationRecord) -> Vec<&'a AssociationRecord> {
        let mut next = if row.user.is_empty() {
            row.parent_account.as_str()
        } else {
            row.account.as_str()
        };
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        while seen.insert(next) {
            let Some(parent) = self.accounts.get(&(row.cluster.as_str(), next)) else {
                break;
            };
            found.push(*parent);
            next = parent.parent_account.as_str();
        }
        found
    }

    /// A row with what it inherits filled in.
    fn inherited(&self, row: &AssociationRecord) -> AssociationRecord {
        let mut filled = row.clone();
        for parent in self.above(row) {
            let (own, from) = (&mut filled.limits, &parent.limits);
            own.max_jobs = own.max_jobs.or(from.max_jobs);
            own.max_jobs_accrue = own.max_jobs_accrue.or(from.max_jobs_accrue);
            own.max_submit_jobs = own.max_submit_jobs.or(from.max_submit_jobs);
            own.max_wall_per_job = own.max_wall_per_job.or(from.max_wall_per_job);
            own.min_prio_threshold = own.min_prio_threshold.or(from.min_prio_threshold);
            add_missing_tres(&mut own.max_tres_per_job, &from.max_tres_per_job);
            add_missing_tres(&mut own.max_tres_per_node, &from.max_tres_per_node);
            add_missing_tres(&mut own.max_tres_mins_per_job, &from.max_tres_mins_per_job);
            add_missing_tres(&mut own.max_tres_run_mins, &from.max_tres_run_mins);
            filled.priority = filled.priority.or(parent.priority);
            if filled.default_qos.is_empty() {
                filled.default_qos.clone_from(&parent.default_qos);
            }
        }
        let rows = self
            .rows
            .get(row.cluster.as_str())
            .map_or(&[][..], Vec::as_slice);
        let qos = effective_qos(rows, row);
        filled.qos = (!qos.is_empty()).then_some(qos);
        filled.qos_delta = Vec::new();
        filled
    }
}

/// Limits are inherited for each TRES on its own: `mem` from above beside an own `cpu`.
fn add_missing_tres(own: &mut String, from: &str) {
    if from.is_empty() {
        return;
    }
    if own.is_empty() {
        from.clone_into(own);
        return;
    }
    let items = |text: &str| -> BTreeMap<String, String> {
        text.split(',')
            .filter_map(|item| item.split_once('='))
            .map(|(name, count)| (name.to_owned(), count.to_owned()))
            .collect()
    };
    let mut merged = items(from);
    merged.extend(items(own));
    let rank = |name: &str| {
        ["cpu", "mem", "energy", "node", "billing"]
            .iter()
            .position(|known| *known == name)
            .unwrap_or(usize::MAX)
    };
    let mut merged: Vec<(String, String)> = merged.into_iter().collect();
    merged.sort_by_key(|(name, _)| rank(name));
    let texts: Vec<String> = merged
        .into_iter()
        .map(|(name, count)| format!("{name}={count}"))
        .collect();
    *own = texts.join(",");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(name: &str, parent: &str) -> AssociationRecord {
        AssociationRecord {
            parent_account: parent.to_owned(),
            ..AssociationRecord::new("oracle", name, "")
        }
    }

    fn user(account: &str, name: &str) -> AssociationRecord {
        AssociationRecord::new("oracle", account, name)
    }

    /// The tree of the golden `sacctmgr show assoc`, in its order.
    fn tree() -> Vec<AssociationRecord> {
        let mut root = account("root", "");
        root.qos = Some(vec!["normal".to_owned()]);
        let mut bio = account("bio", "science");
        bio.limits.grp_tres = "cpu=256".to_owned();
        let mut bob = user("bio", "bob");
        bob.limits.max_jobs = Some(1_000_000);
        bob.qos = Some(vec!["limited".to_owned(), "normal".to_owned()]);
        let mut alice = user("physics", "alice");
        alice.is_default = true;
        alice.default_qos = "normal".to_owned();
        vec![
            root,
            user("root", "root"),
            account("science", "root"),
            bio,
            user("bio", "alice"),
            bob,
            account("physics", "science"),
            alice,
        ]
    }

    fn shown(request: &ListAssociationsRequest, viewer: Option<&AssociationViewer>) -> Vec<String> {
        associations(&tree(), request, viewer)
            .associations
            .into_iter()
            .map(|row| format!("{}/{}", row.account, row.user))
            .collect()
    }

    /// Golden: the QOS column shows what is in force, GrpTRES of bio is not repeated for its users.
    #[test]
    fn qos_is_inherited_and_grp_limits_are_not() {
        let reply = associations(&tree(), &ListAssociationsRequest::default(), None);
        let qos = |at: usize| {
            reply.associations[at]
                .qos
                .clone()
                .map(|list| list.items)
                .unwrap_or_default()
        };
        assert_eq!(qos(4), ["normal"]);
        assert_eq!(qos(5), ["limited", "normal"]);
        let limits = |at: usize| reply.associations[at].limits.clone().unwrap_or_default();
        assert_eq!(limits(3).grp_tres, "cpu=256");
        assert_eq!(limits(4).grp_tres, "");
        assert_eq!(
            (limits(4).max_jobs, limits(5).max_jobs),
            (None, Some(1_000_000))
        );
    }

    /// resource_limits: a limit that a user row lacks comes from the nearest account above that has it, TRES by TRES.
    #[test]
    fn max_limits_come_from_the_nearest_row_above() {
        let mut rows = tree();
        rows[0].limits.max_jobs = Some(100);
        rows[0].limits.max_tres_per_job = "cpu=64,mem=1024".to_owned();
        rows[2].limits.max_jobs = Some(50);
        rows[4].limits.max_tres_per_job = "cpu=8".to_owned();
        let reply = associations(&rows, &ListAssociationsRequest::default(), None);
        let alice = reply.associations[4].limits.clone().unwrap_or_default();
        assert_eq!(alice.max_jobs, Some(50));
        assert_eq!(alice.max_tres_per_job, "cpu=8,mem=1024");
        let raw = ListAssociationsRequest {
            without_parent_limits: true,
            ..Default::default()
        };
        let reply = associations(&rows, &raw, None);
        let alice = reply.associations[4].limits.clone().unwrap_or_default();
        assert_eq!(
            (alice.max_jobs, alice.max_tres_per_job.as_str()),
            (None, "cpu=8")
        );
        assert!(reply.associations[4].qos.is_none());
    }

    #[test]
    fn filters() {
        let science = |with_sub_accounts| ListAssociationsRequest {
            accounts: vec!["Science".to_owned()],
            with_sub_accounts,
            ..Default::default()
        };
        assert_eq!(shown(&science(false), None), ["science/"]);
        assert_eq!(
            shown(&science(true), None),
            [
                "science/",
                "bio/",
                "bio/alice",
                "bio/bob",
                "physics/",
                "physics/alice"
            ]
        );
        let alice = ListAssociationsRequest {
            users: vec!["alice".to_owned()],
            ..Default::default()
        };
        assert_eq!(shown(&alice, None), ["bio/alice", "physics/alice"]);
        let defaults = ListAssociationsRequest {
            only_defaults: true,
            ..alice
        };
        assert_eq!(shown(&defaults, None), ["physics/alice"]);
        let other = ListAssociationsRequest {
            clusters: vec!["other".to_owned()],
            ..Default::default()
        };
        assert!(shown(&other, None).is_empty());
    }

    /// slurm.conf(5), PrivateData=users: own rows, and those of accounts one coordinates.
    #[test]
    fn private_data_hides_the_rows_of_others() {
        let bio = AccountRecord {
            name: "bio".to_owned(),
            coordinators: vec!["alice".to_owned()],
            ..Default::default()
        };
        let all = ListAssociationsRequest::default();
        let alice = AssociationViewer::new("alice", std::slice::from_ref(&bio));
        assert_eq!(
            shown(&all, Some(&alice)),
            ["bio/", "bio/alice", "bio/bob", "physics/alice"]
        );
        let bob = AssociationViewer::new("bob", std::slice::from_ref(&bio));
        assert_eq!(shown(&all, Some(&bob)), ["bio/bob"]);
        assert_eq!(
            accounts(vec![bio.clone()], &[], Some("bob")).accounts.len(),
            0
        );
        assert_eq!(accounts(vec![bio], &[], Some("alice")).accounts.len(), 1);
    }

    /// A loop of parents must not hang the listing.
    #[test]
    fn a_loop_of_parents_ends() {
        let rows = vec![account("a", "b"), account("b", "a"), user("a", "u")];
        assert_eq!(
            associations(&rows, &ListAssociationsRequest::default(), None)
                .associations
                .len(),
            3
        );
    }
}
