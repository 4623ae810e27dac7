//! Fair Tree: users are ranked level by level, so that the account decides before the user.
//!
//! In each level shares are divided by usage; the tree is walked depth first from the best, and a user's factor is the rank among
//! all users' rows. Equal values share a rank and the next rank skips. Of equal accounts one is walked after the other, and the first user of
//! the second has the rank of the user before, as a running Slurm does it (its page `fair_tree` would merge them). Values are compared
//! exactly; without usage they are infinite and equal.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::{ROOT_NORM_SHARES, Standing, part};
use crate::policy::{Policy, Tree};
use crate::priority::usage::UsageState;

/// Every association's standing.
#[must_use]
pub fn standings(policy: &Policy, usage: &UsageState) -> BTreeMap<u32, Standing> {
    let tree = policy.tree();
    let Some(root) = tree.root() else {
        return BTreeMap::new();
    };
    let all = usage.raw(root);
    let norm_shares = |id: u32| {
        let branch = tree.branch(id)?;
        let parent = branch.share_parent?;
        let level = tree.level_shares(parent);
        Some(part(f64::from(branch.shares?), level as f64))
    };
    let mut standings = BTreeMap::new();
    for (id, branch) in tree.branches() {
        if id == root {
            standings.insert(
                id,
                Standing {
                    norm_shares: ROOT_NORM_SHARES,
                    norm_usage: 1.0,
                    effective_usage: 1.0,
                    ..Standing::default()
                },
            );
            continue;
        }
        let parent = branch.share_parent.unwrap_or(root);
        let raw = usage.raw(id);
        let effective_usage = part(raw, usage.raw(parent));
        let (shares, level_fs) = match norm_shares(id) {
            // `parent` ranks first in its level; what it is due is what the account is due.
            None => (
                norm_shares(parent).unwrap_or(ROOT_NORM_SHARES),
                f64::INFINITY,
            ),
            Some(shares) if shares <= 0.0 => (shares, 0.0),
            Some(shares) if effective_usage <= 0.0 => (shares, f64::INFINITY),
            Some(shares) => (shares, shares / effective_usage),
        };
        standings.insert(
            id,
            Standing {
                norm_shares: shares,
                norm_usage: part(raw, all),
                effective_usage,
                level_fs,
                factor: 0.0,
            },
        );
    }
    let mut ranking = Ranking {
        tree,
        users: f64::from(tree.users()),
        rank: tree.users(),
        untied: tree.users(),
        standings,
    };
    let first = ranking.children(&[root]);
    ranking.walk(first, false);
    ranking.standings
}

struct Ranking<'a> {
    tree: &'a Tree,
    users: f64,
    /// Rank of the user met last.
    rank: u32,
    /// Rank of the next user who ties with nobody.
    untied: u32,
    standings: BTreeMap<u32, Standing>,
}

impl Ranking<'_> {
    fn children(&self, accounts: &[u32]) -> Vec<u32> {
        accounts
            .iter()
            .filter_map(|id| self.tree.branch(*id))
            .flat_map(|branch| branch.share_children.iter().copied())
            .collect()
    }

    fn level_fs(&self, id: u32) -> f64 {
        self.standings.get(&id).map_or(0.0, |one| one.level_fs)
    }

    fn is_user(&self, id: u32) -> bool {
        self.tree.branch(id).is_some_and(|branch| branch.is_user)
    }

    /// Ranks the users of one level and below. `tied`: the first of them has the rank of the user before.
    fn walk(&mut self, mut level: Vec<u32>, tied: bool) {
        level.sort_by(|a, b| {
            let order = self
                .level_fs(*b)
                .partial_cmp(&self.level_fs(*a))
                .unwrap_or(Ordering::Equal);
            order
                .then_with(|| self.is_user(*b).cmp(&self.is_user(*a)))
                .then(a.cmp(b))
        });
        let mut at = 0;
        let mut before: Option<f64> = None;
        while let Some(id) = level.get(at).copied() {
            let level_fs = self.level_fs(id);
            let ties = before.map_or(tied, |before| before == level_fs);
            let former = before.replace(level_fs);
            if self.is_user(id) {
                if !ties {
                    self.rank = self.untied;
                }
                let factor = f64::from(self.rank) / self.users;
                if let Some(standing) = self.standings.get_mut(&id) {
                    standing.factor = factor;
                }
                self.untied = self.untied.saturating_sub(1);
                at += 1;
                continue;
            }
            let below = self.children(&[id]);
            let untied = self.untied;
            self.walk(below, ties);
            at += 1;
            // Nobody is in there: who comes next takes their place, ties included.
            if self.untied == untied {
                before = former;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::samples::{policy, qos, row, worked_example};
    use crate::priority::usage::Usage;

    fn used(values: &[(u32, f64)]) -> UsageState {
        UsageState {
            associations: values
                .iter()
                .map(|(id, raw)| {
                    let usage = Usage {
                        raw: *raw,
                        ..Usage::default()
                    };
                    (*id, usage)
                })
                .collect(),
            ..UsageState::default()
        }
    }

    fn factors(policy: &Policy, usage: &UsageState, ids: &[u32]) -> Vec<f64> {
        let standings = standings(policy, usage);
        ids.iter().map(|id| standings[id].factor).collect()
    }

    /// The worked example of the reference, to the last digit.
    #[test]
    fn worked_example_of_the_reference() {
        let policy = worked_example();
        let usage = used(&[
            (1, 1000.0),
            (2, 800.0),
            (3, 200.0),
            (4, 600.0),
            (5, 200.0),
            (6, 200.0),
        ]);
        let all = standings(&policy, &usage);
        let line = |id: u32| {
            let one = all[&id];
            format!(
                "{:.6} {:.6} {:.6}",
                one.norm_shares, one.effective_usage, one.level_fs
            )
        };
        assert_eq!(line(2), "0.750000 0.800000 0.937500");
        assert_eq!(line(3), "0.250000 0.200000 1.250000");
        assert_eq!(line(4), "0.333333 0.750000 0.444444");
        assert_eq!(line(5), "0.666667 0.250000 2.666667");
        assert_eq!(line(6), "0.500000 1.000000 0.500000");
        assert_eq!(line(7), "0.500000 0.000000 inf");
        // ann, bob, cat, dan
        assert_eq!(
            factors(&policy, &usage, &[4, 5, 6, 7]),
            [0.25, 0.5, 0.75, 1.0]
        );
        // Without usage of cat both of phy are first, and the next rank skips one.
        let usage = used(&[(1, 800.0), (2, 800.0), (4, 600.0), (5, 200.0)]);
        assert_eq!(
            factors(&policy, &usage, &[4, 5, 6, 7]),
            [0.25, 0.5, 1.0, 1.0]
        );
    }

    /// On a new cluster everybody is first.
    #[test]
    fn nobody_has_used_anything() {
        assert_eq!(
            factors(&worked_example(), &used(&[]), &[4, 5, 6, 7]),
            [1.0; 4]
        );
    }

    /// Four users, two with equal values in the middle: 4, 2 and 2 would be wrong; the ranks are 4, 3, 3, 1.
    #[test]
    fn equal_users_share_a_rank_and_the_next_skips() {
        let rows = vec![
            row(1, "root", "", "", Some(1)),
            row(2, "root", "a", "", Some(1)),
            row(3, "root", "b", "", Some(1)),
            row(4, "root", "c", "", Some(1)),
            row(5, "root", "d", "", Some(1)),
        ];
        let policy = policy(rows, vec![qos(1, "normal", 0)]);
        let usage = used(&[(1, 100.0), (2, 10.0), (3, 20.0), (4, 20.0), (5, 50.0)]);
        assert_eq!(
            factors(&policy, &usage, &[2, 3, 4, 5]),
            [1.0, 0.75, 0.75, 0.25]
        );
    }

    /// Of equal accounts the first is walked to its end; the best of the second has the rank of the last of the first.
    #[test]
    fn equal_accounts_are_walked_one_after_the_other() {
        let rows = vec![
            row(1, "root", "", "", Some(1)),
            row(2, "a", "", "root", Some(1)),
            row(3, "b", "", "root", Some(1)),
            row(4, "a", "a1", "", Some(1)),
            row(5, "a", "a2", "", Some(1)),
            row(6, "b", "b1", "", Some(1)),
            row(7, "b", "b2", "", Some(1)),
        ];
        let policy = policy(rows, Vec::new());
        // a and b used 100 each. Level values: a1 0.5/0.8, a2 0.5/0.2, b1 0.5/0.6, b2 0.5/0.4.
        let usage = used(&[
            (1, 200.0),
            (2, 100.0),
            (3, 100.0),
            (4, 80.0),
            (5, 20.0),
            (6, 60.0),
            (7, 40.0),
        ]);
        // Ranks: a2 4, a1 3, b2 as a1, b1 1.
        assert_eq!(
            factors(&policy, &usage, &[5, 4, 7, 6]),
            [1.0, 0.75, 0.75, 0.25]
        );
    }

    /// A user who ties with an account has the rank of the account's best user; no share ranks last; `parent` first.
    #[test]
    fn users_beside_accounts_without_shares_and_with_parent() {
        let rows = vec![
            row(1, "root", "", "", Some(1)),
            row(2, "root", "u", "", Some(1)),
            row(3, "a", "", "root", Some(1)),
            row(4, "a", "x", "", Some(1)),
            row(5, "a", "y", "", Some(0)),
            row(6, "a", "z", "", None),
        ];
        let policy = policy(rows, Vec::new());
        let usage = used(&[(1, 200.0), (2, 100.0), (3, 100.0), (4, 100.0)]);
        let standings = standings(&policy, &usage);
        // u: (1/2)/(1/2) = 1, a the same. In a: z infinite, x (1/1)/1 = 1, y 0.
        assert_eq!(standings[&6].level_fs, f64::INFINITY);
        assert_eq!(standings[&5].level_fs, 0.0);
        assert_eq!(standings[&6].norm_shares, 0.5);
        let factors: Vec<f64> = [2, 6, 4, 5].iter().map(|id| standings[id].factor).collect();
        assert_eq!(factors, [1.0, 1.0, 0.5, 0.25]);
    }

    /// What is below an account with `Fairshare=parent` shares in the level above.
    #[test]
    fn accounts_with_parent_are_no_level() {
        let rows = vec![
            row(1, "root", "", "", Some(1)),
            row(2, "dept", "", "root", Some(4)),
            row(3, "lab", "", "dept", None),
            row(4, "lab", "x", "", Some(1)),
            row(5, "dept", "y", "", Some(3)),
        ];
        let policy = policy(rows, Vec::new());
        let usage = used(&[(1, 100.0), (2, 100.0), (3, 25.0), (4, 25.0), (5, 75.0)]);
        let standings = standings(&policy, &usage);
        // Level of dept: x 1 of 4, y 3 of 4; both have used exactly that.
        assert_eq!(
            (standings[&4].norm_shares, standings[&4].level_fs),
            (0.25, 1.0)
        );
        assert_eq!(
            (standings[&5].norm_shares, standings[&5].level_fs),
            (0.75, 1.0)
        );
        assert_eq!((standings[&4].factor, standings[&5].factor), (1.0, 1.0));
        // The lab itself is due what the department is due.
        assert_eq!(standings[&3].norm_shares, 1.0);
    }
}
