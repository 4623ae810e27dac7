//! Fair share: what an association is due, what it has used, and the factor that follows.
//!
//! Fair Tree unless PriorityFlags=NO_FAIR_TREE (or DEPTH_OBLIVIOUS, which implies it). Worked out once a cycle and when the policy
//! changes, for all associations at once; what jobs and `sshare` see is the last result. Source: pages `fair_tree`,
//! `classic_fair_share`; priority reference 4.2 and 5.

pub mod classic;
pub mod tree;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sluice_config::PrioritySettings;

use super::usage::UsageState;
use crate::policy::Policy;

/// Norm shares that Slurm shows of the root in documents: one by "no value".
pub const ROOT_NORM_SHARES: f64 = 1.0 / 4_294_967_294.0;

/// Shares and factor of one association.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Standing {
    /// Part of the shares: of its level in Fair Tree, of the whole cluster otherwise.
    pub norm_shares: f64,
    /// Part of all usage.
    pub norm_usage: f64,
    /// Part of its level's usage in Fair Tree; the weighted usage otherwise.
    pub effective_usage: f64,
    /// Shares by usage in its level; infinite without usage. Fair Tree only.
    pub level_fs: f64,
    /// Factor between 0 and 1; in Fair Tree only of users.
    pub factor: f64,
}

/// The settings ask for classic fair share.
#[must_use]
pub fn is_classic(settings: &PrioritySettings) -> bool {
    settings.flags.no_fair_tree || settings.flags.depth_oblivious
}

/// Works out every association's standing.
#[must_use]
pub fn standings(
    policy: &Policy,
    usage: &UsageState,
    settings: &PrioritySettings,
) -> BTreeMap<u32, Standing> {
    if is_classic(settings) {
        classic::standings(
            policy,
            usage,
            settings.flags.depth_oblivious,
            settings.fair_share_dampening_factor,
        )
    } else {
        tree::standings(policy, usage)
    }
}

/// `part` of `whole`; nothing of nothing.
fn part(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
