//! The tree that the associations of one cluster form: order, subtrees, inherited QOS.
//!
//! Pure. A row whose parent is missing hangs below root, so that damage hides nothing; a loop of parents ends at the first
//! repetition. Order as `sacctmgr show association` has it: an account's row, its users by name and partition, then the accounts
//! below it by name.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use sluice_model::accounting::AssociationRecord;

/// Rows of one cluster in tree order.
pub(crate) fn ordered(rows: Vec<AssociationRecord>) -> Vec<AssociationRecord> {
    let children = children(&rows);
    let mut by_account: BTreeMap<String, Vec<AssociationRecord>> = BTreeMap::new();
    for row in rows {
        by_account.entry(row.account.clone()).or_default().push(row);
    }
    let mut accounts = Vec::new();
    visit("root", &children, &mut HashSet::new(), &mut accounts);
    let mut ordered = Vec::new();
    for account in accounts {
        let mut rows = by_account.remove(&account).unwrap_or_default();
        rows.sort_by(|a, b| (&a.user, &a.partition).cmp(&(&b.user, &b.partition)));
        ordered.extend(rows);
    }
    // What is not reached from root (a loop of parents) comes last.
    ordered.extend(by_account.into_values().flatten());
    ordered
}

/// An account and all accounts below it, parents first.
pub(crate) fn subtree(rows: &[AssociationRecord], account: &str) -> Vec<String> {
    let mut accounts = Vec::new();
    visit(account, &children(rows), &mut HashSet::new(), &mut accounts);
    accounts
}

fn visit(
    account: &str,
    children: &BTreeMap<String, BTreeSet<String>>,
    seen: &mut HashSet<String>,
    out: &mut Vec<String>,
) {
    if !seen.insert(account.to_owned()) {
        return;
    }
    out.push(account.to_owned());
    for child in children.get(account).into_iter().flatten() {
        visit(child, children, seen, out);
    }
}

/// Parent account → accounts directly below it.
fn children(rows: &[AssociationRecord]) -> BTreeMap<String, BTreeSet<String>> {
    let known: HashSet<&str> = rows
        .iter()
        .filter(|row| row.user.is_empty())
        .map(|row| row.account.as_str())
        .collect();
    let mut children: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in rows
        .iter()
        .filter(|row| row.user.is_empty() && row.account != "root")
    {
        let parent = if known.contains(row.parent_account.as_str()) {
            row.parent_account.as_str()
        } else {
            "root"
        };
        children
            .entry(parent.to_owned())
            .or_default()
            .insert(row.account.clone());
    }
    children
}

/// The QOS that an association may use: its own list, else its account's, else upward, with the additions and removals of each
/// row applied on the way down. Sorted by name. `rows` are those of its cluster.
#[must_use]
pub fn effective_qos(rows: &[AssociationRecord], association: &AssociationRecord) -> Vec<String> {
    let mut chain = vec![association];
    let mut seen = HashSet::new();
    let mut account = if association.user.is_empty() {
        association.parent_account.as_str()
    } else {
        association.account.as_str()
    };
    while seen.insert(account.to_owned()) {
        let Some(row) = rows
            .iter()
            .find(|row| row.user.is_empty() && row.account == account)
        else {
            break;
        };
        chain.push(row);
        account = if row.account == "root" {
            break;
        } else {
            row.parent_account.as_str()
        };
    }
    let mut names: BTreeSet<String> = BTreeSet::new();
    for row in chain.into_iter().rev() {
        if let Some(own) = &row.qos {
            names = own.iter().cloned().collect();
        }
        for delta in &row.qos_delta {
            match (delta.strip_prefix('+'), delta.strip_prefix('-')) {
                (Some(added), _) => {
                    names.insert(added.to_owned());
                }
                (None, Some(removed)) => {
                    names.remove(removed);
                }
                (None, None) => {}
            }
        }
    }
    names.into_iter().collect()
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

    fn names(rows: &[AssociationRecord]) -> Vec<String> {
        rows.iter()
            .map(|row| format!("{}/{}", row.account, row.user))
            .collect()
    }

    /// Golden output of `sacctmgr show assoc`.
    #[test]
    fn order_is_that_of_sacctmgr() {
        let rows = vec![
            user("physics", "alice"),
            account("physics", "science"),
            user("bio", "bob"),
            account("bio", "science"),
            user("bio", "alice"),
            account("science", "root"),
            user("root", "root"),
            account("root", ""),
        ];
        assert_eq!(
            names(&ordered(rows)),
            [
                "root/",
                "root/root",
                "science/",
                "bio/",
                "bio/alice",
                "bio/bob",
                "physics/",
                "physics/alice"
            ]
        );
    }

    /// A loop must neither hang nor hide rows.
    #[test]
    fn a_loop_of_parents_ends_and_hides_nothing() {
        let rows = vec![account("root", ""), account("a", "b"), account("b", "a")];
        assert_eq!(ordered(rows.clone()).len(), 3);
        assert_eq!(subtree(&rows, "a"), ["a", "b"]);
    }

    /// Reference, section 1: `=` replaces, `+=` and `-=` are applied to what is inherited.
    #[test]
    fn qos_is_inherited_and_amended() {
        let mut root = account("root", "");
        root.qos = Some(vec!["normal".to_owned()]);
        let mut science = account("science", "root");
        science.qos_delta = vec!["+high".to_owned()];
        let mut bio = account("bio", "science");
        bio.qos_delta = vec!["-normal".to_owned()];
        let mut bob = user("bio", "bob");
        bob.qos = Some(vec!["limited".to_owned(), "normal".to_owned()]);
        let alice = user("bio", "alice");
        let rows = vec![
            root.clone(),
            science.clone(),
            bio.clone(),
            bob.clone(),
            alice.clone(),
        ];
        assert_eq!(effective_qos(&rows, &root), ["normal"]);
        assert_eq!(effective_qos(&rows, &science), ["high", "normal"]);
        assert_eq!(effective_qos(&rows, &alice), ["high"]);
        assert_eq!(effective_qos(&rows, &bob), ["limited", "normal"]);
    }
}
