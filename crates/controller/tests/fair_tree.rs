//! Fair Tree against a second, simple way to the same ranks: users in groups that share a rank, found level by level.
//!
//! Source: page `fair_tree`: users before accounts of the same value, a user who ties with an account has the rank of the account's best
//! user; as a running Slurm does it, the best user of an account has the rank of the last one of an equal account before.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use sluice_controller::policy::{Policy, Records};
use sluice_controller::priority::fairshare::tree::standings;
use sluice_controller::priority::usage::{Usage, UsageState};
use sluice_model::accounting::AssociationRecord;

/// One association of a drawn tree: which account it is below, whether it is a user, shares, own usage of a user.
#[derive(Debug, Clone)]
struct Drawn {
    above: prop::sample::Index,
    is_user: bool,
    shares: Option<u32>,
    used: u32,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    (
        any::<prop::sample::Index>(),
        prop::bool::weighted(0.6),
        // Few values, so that ties are common.
        prop_oneof![1 => Just(None), 1 => Just(Some(0)), 6 => (1_u32..4).prop_map(Some)],
        prop_oneof![2 => Just(0_u32), 3 => 1_u32..4],
    )
        .prop_map(|(above, is_user, shares, used)| Drawn {
            above,
            is_user,
            shares,
            used,
        })
}

/// A node of the second way.
struct Node {
    shares: Option<u32>,
    is_user: bool,
    parent: usize,
    used: f64,
}

struct Plain {
    nodes: Vec<Node>,
}

impl Plain {
    /// Nearest account above that is a level.
    fn level(&self, at: usize) -> usize {
        let mut parent = self.nodes[at].parent;
        while parent != 0 && self.nodes[parent].shares.is_none() {
            parent = self.nodes[parent].parent;
        }
        parent
    }

    fn members(&self, level: usize) -> Vec<usize> {
        (1..self.nodes.len())
            .filter(|at| {
                let node = &self.nodes[*at];
                (node.is_user || node.shares.is_some()) && self.level(*at) == level
            })
            .collect()
    }

    fn value(&self, at: usize) -> f64 {
        let Some(own) = self.nodes[at].shares else {
            return f64::INFINITY;
        };
        let level = self.level(at);
        let all: u32 = self
            .members(level)
            .into_iter()
            .filter_map(|at| self.nodes[at].shares)
            .sum();
        if own == 0 {
            return 0.0;
        }
        let usage = if self.nodes[level].used > 0.0 {
            self.nodes[at].used / self.nodes[level].used
        } else {
            0.0
        };
        if usage == 0.0 {
            f64::INFINITY
        } else {
            f64::from(own) / f64::from(all) / usage
        }
    }

    /// Users of these nodes and below in groups that share a rank, the best first.
    fn groups(&self, nodes: &[usize]) -> Vec<Vec<usize>> {
        let mut values: Vec<f64> = nodes.iter().map(|at| self.value(*at)).collect();
        values.sort_by(|a, b| b.total_cmp(a));
        values.dedup();
        let mut groups = Vec::new();
        for value in values {
            let equal = nodes.iter().copied().filter(|at| self.value(*at) == value);
            let (users, accounts): (Vec<usize>, Vec<usize>) =
                equal.partition(|at| self.nodes[*at].is_user);
            // What has this value: the first group of each account joins the last one before it.
            let mut of_value: Vec<Vec<usize>> = Vec::new();
            if !users.is_empty() {
                of_value.push(users);
            }
            for account in accounts {
                let mut below = self.groups(&self.members(account));
                if let Some(last) = of_value.last_mut().filter(|_| !below.is_empty()) {
                    last.extend(below.remove(0));
                }
                of_value.append(&mut below);
            }
            groups.append(&mut of_value);
        }
        groups
    }

    fn factors(&self) -> BTreeMap<usize, f64> {
        let all = self.nodes.iter().filter(|node| node.is_user).count();
        let mut before = 0;
        let mut factors = BTreeMap::new();
        for group in self.groups(&self.members(0)) {
            for user in &group {
                factors.insert(*user, (all - before) as f64 / all as f64);
            }
            before += group.len();
        }
        factors
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn ranks_are_those_of_the_plain_way(rows in prop::collection::vec(drawn(), 1..24)) {
        let mut plain = Plain {
            nodes: vec![Node { shares: Some(1), is_user: false, parent: 0, used: 0.0 }],
        };
        let mut accounts = vec![0_usize];
        for row in &rows {
            let parent = *row.above.get(&accounts);
            let at = plain.nodes.len();
            plain.nodes.push(Node {
                shares: row.shares,
                is_user: row.is_user,
                parent,
                used: 0.0,
            });
            if !row.is_user {
                accounts.push(at);
                continue;
            }
            let mut above = at;
            loop {
                plain.nodes[above].used += f64::from(row.used);
                if above == 0 {
                    break;
                }
                above = plain.nodes[above].parent;
            }
        }
        let name = |at: usize| if at == 0 { "root".to_owned() } else { format!("a{at}") };
        let id = |at: usize| at as u32 + 1;
        let record = |at: usize| {
            let node = &plain.nodes[at];
            let mut record = match (node.is_user, at) {
                (true, at) => AssociationRecord::new("c", &name(node.parent), &format!("u{at}")),
                (false, at) => AssociationRecord::new("c", &name(at), ""),
            };
            record.id = id(at);
            record.shares = node.shares;
            if !node.is_user && at != 0 {
                record.parent_account = name(node.parent);
            }
            record
        };
        let policy = Policy::from(Records {
            associations: (0..plain.nodes.len())
                .map(|at| (id(at), Arc::new(record(at))))
                .collect(),
            ..Records::default()
        });
        let usage = UsageState {
            associations: plain
                .nodes
                .iter()
                .enumerate()
                .filter(|(_, node)| node.used > 0.0)
                .map(|(at, node)| {
                    let usage = Usage { raw: node.used, ..Usage::default() };
                    (id(at), usage)
                })
                .collect(),
            ..UsageState::default()
        };
        let found = standings(&policy, &usage);
        for (at, factor) in plain.factors() {
            prop_assert_eq!(found[&id(at)].factor, factor, "user {}", at);
        }
    }
}
