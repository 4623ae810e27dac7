//! Classic fair share (PriorityFlags=NO_FAIR_TREE): half of the factor is lost for every share's worth of usage.
//!
//! Shares are multiplied down the tree; a user also answers for a part of what the account has used. DEPTH_OBLIVIOUS weighs the
//! account's balance so that deep trees are no disadvantage. Source: page `classic_fair_share`; priority reference 5.

use std::collections::BTreeMap;

use super::{Standing, part};
use crate::policy::Policy;
use crate::priority::usage::UsageState;

/// Every association's standing.
#[must_use]
pub fn standings(
    policy: &Policy,
    usage: &UsageState,
    depth_oblivious: bool,
    dampening: u16,
) -> BTreeMap<u32, Standing> {
    let tree = policy.tree();
    let Some(root) = tree.root() else {
        return BTreeMap::new();
    };
    let all = usage.raw(root);
    let norm_usage = |id: u32| part(usage.raw(id), all).min(1.0);
    let mut standings: BTreeMap<u32, Standing> = BTreeMap::new();
    standings.insert(
        root,
        Standing {
            norm_shares: 1.0,
            norm_usage: 1.0,
            effective_usage: 1.0,
            level_fs: 0.0,
            factor: factor(1.0, 1.0, dampening),
        },
    );
    // Parents before children.
    let mut ids: Vec<(usize, u32)> = tree
        .branches()
        .filter(|(id, _)| *id != root)
        .map(|(id, _)| (tree.path(id).count(), id))
        .collect();
    ids.sort_unstable();
    let mut used_in_level: BTreeMap<u32, f64> = BTreeMap::new();
    for (_, id) in ids {
        let Some(branch) = tree.branch(id) else {
            continue;
        };
        let parent_id = branch.share_parent.unwrap_or(root);
        let parent = standings.get(&parent_id).copied().unwrap_or_default();
        let used = norm_usage(id);
        let level = tree.level_shares(parent_id) as f64;
        let (shares, effective) = match branch.shares {
            None => (parent.norm_shares, parent.effective_usage),
            Some(own) => {
                let own = f64::from(own);
                let shares = parent.norm_shares * part(own, level);
                let effective = if depth_oblivious {
                    let of_level = used_in_level.entry(parent_id).or_insert_with(|| {
                        let branch = tree.branch(parent_id);
                        let level = branch.iter().flat_map(|branch| &branch.share_children);
                        level
                            .filter(|id| tree.shares(**id).is_some())
                            .map(|id| norm_usage(*id))
                            .sum()
                    });
                    oblivious(shares, used, *of_level, &parent)
                } else if parent_id == root {
                    used
                } else if level <= 0.0 {
                    parent.effective_usage
                } else {
                    used + (parent.effective_usage - used) * own / level
                };
                (shares, effective)
            }
        };
        standings.insert(
            id,
            Standing {
                norm_shares: shares,
                norm_usage: used,
                effective_usage: effective,
                level_fs: 0.0,
                factor: factor(effective, shares, dampening),
            },
        );
    }
    standings
}

/// `2^(−usage / shares / dampening)`; 0 without shares.
fn factor(usage: f64, shares: f64, dampening: u16) -> f64 {
    if shares <= 0.0 {
        return 0.0;
    }
    libm::exp2(-usage / shares / f64::from(dampening.max(1)))
}

/// Effective usage with DEPTH_OBLIVIOUS.
fn oblivious(shares: f64, used: f64, of_level: f64, parent: &Standing) -> f64 {
    let all_known = shares > 0.0
        && used > 0.0
        && of_level > 0.0
        && parent.norm_shares > 0.0
        && parent.effective_usage > 0.0;
    if !all_known {
        return used;
    }
    let of_parent = parent.effective_usage / parent.norm_shares;
    let of_siblings = of_level / parent.norm_shares;
    let own = (used / shares) / of_siblings;
    let (log_parent, log_own) = (libm::log(of_parent), libm::log(own));
    let weight = if log_parent * log_own >= 0.0 {
        1.0
    } else {
        let spread = 5.0 * log_parent;
        1.0 / (1.0 + spread * spread)
    };
    of_parent * libm::pow(own, weight) * shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::samples::worked_example;
    use crate::priority::usage::Usage;

    fn usage() -> UsageState {
        let values: [(u32, f64); 6] = [
            (1, 1000.0),
            (2, 800.0),
            (3, 200.0),
            (4, 600.0),
            (5, 200.0),
            (6, 200.0),
        ];
        UsageState {
            associations: values
                .into_iter()
                .map(|(id, raw)| {
                    let usage = Usage {
                        raw,
                        ..Usage::default()
                    };
                    (id, usage)
                })
                .collect(),
            ..UsageState::default()
        }
    }

    /// The table of the reference: shares, usage, effective usage, factor with dampening 1 and 2.
    #[test]
    fn worked_example_of_the_reference() {
        let policy = worked_example();
        let (once, twice) = (
            standings(&policy, &usage(), false, 1),
            standings(&policy, &usage(), false, 2),
        );
        let wanted = [
            (2, "0.750000 0.800000 0.800000 0.477421 0.690956"),
            (3, "0.250000 0.200000 0.200000 0.574349 0.757858"),
            (4, "0.250000 0.600000 0.666667 0.157490 0.396850"),
            (5, "0.500000 0.200000 0.600000 0.435275 0.659754"),
            (6, "0.125000 0.200000 0.200000 0.329877 0.574349"),
            (7, "0.125000 0.000000 0.100000 0.574349 0.757858"),
        ];
        for (id, line) in wanted {
            let one = once[&id];
            assert_eq!(
                format!(
                    "{:.6} {:.6} {:.6} {:.6} {:.6}",
                    one.norm_shares,
                    one.norm_usage,
                    one.effective_usage,
                    one.factor,
                    twice[&id].factor
                ),
                line
            );
        }
    }

    /// By hand: bio rp = 0.8/0.75 = 16/15, rs = 0.8/0.75 = 16/15. ann: rl = (0.6/0.25)/(16/15) = 2.25, both above 1, so the
    /// weight is 1 and UE = 16/15 × 2.25 × 0.25 = 0.6. bob: rl = (0.2/0.5)/(16/15) = 0.375, so the weight is
    /// 1/(1 + (5 × ln 16/15)²) = 0.905690 and UE = 16/15 × 0.375^0.905690 × 0.5 = 0.219383.
    #[test]
    fn depth_oblivious_by_hand() {
        let policy = worked_example();
        let all = standings(&policy, &usage(), true, 1);
        assert_eq!(format!("{:.6}", all[&4].effective_usage), "0.600000");
        let ln = (16.0_f64 / 15.0).ln();
        let weight = 1.0 / (1.0 + 25.0 * ln * ln);
        let wanted = 16.0 / 15.0 * 0.375_f64.powf(weight) * 0.5;
        assert!((all[&5].effective_usage - wanted).abs() < 1e-12);
        // Without usage of its own nothing is answered for.
        assert_eq!(all[&7].effective_usage, 0.0);
        assert_eq!(all[&7].factor, 1.0);
    }
}
