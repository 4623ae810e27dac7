//! Settings of job priority.
//!
//! Plain data. Source: `slurm.conf(5)` (Priority*), page `priority_multifactor`.

use serde::{Deserialize, Serialize};
use sluice_model::tres::TresKind;

/// PriorityType.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PriorityKind {
    /// priority/multifactor.
    Multifactor,
    /// priority/basic: first in, first out.
    Basic,
}

/// PriorityUsageResetPeriod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are Slurm's")]
pub enum UsageResetPeriod {
    None,
    Now,
    Daily,
    Weekly,
    Monthly,
    Quarterly,
    Yearly,
}

/// PriorityFlags.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "the names are Slurm's; NO_NORMAL_ALL sets all four of its kind"
)]
pub struct PriorityFlags {
    pub accrue_always: bool,
    pub calculate_running: bool,
    pub depth_oblivious: bool,
    pub no_fair_tree: bool,
    pub incr_only: bool,
    pub max_tres: bool,
    pub max_tres_gres: bool,
    pub no_normal_assoc: bool,
    pub no_normal_part: bool,
    pub no_normal_qos: bool,
    pub no_normal_tres: bool,
    pub small_relative_to_time: bool,
}

/// Priority settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PrioritySettings {
    /// PriorityType.
    pub kind: PriorityKind,
    /// PriorityWeightAge.
    pub weight_age: u32,
    /// PriorityWeightAssoc.
    pub weight_assoc: u32,
    /// PriorityWeightFairshare.
    pub weight_fairshare: u32,
    /// PriorityWeightJobSize.
    pub weight_job_size: u32,
    /// PriorityWeightPartition.
    pub weight_partition: u32,
    /// PriorityWeightQOS.
    pub weight_qos: u32,
    /// PriorityWeightTRES.
    pub weight_tres: Vec<(TresKind, f64)>,
    /// PriorityMaxAge, seconds.
    pub max_age_secs: u64,
    /// PriorityDecayHalfLife, seconds; 0 = no decay.
    pub decay_half_life_secs: u64,
    /// PriorityCalcPeriod, seconds.
    pub calc_period_secs: u64,
    /// PriorityUsageResetPeriod.
    pub usage_reset_period: UsageResetPeriod,
    /// PriorityFavorSmall.
    pub favor_small: bool,
    /// PriorityFlags.
    pub flags: PriorityFlags,
    /// FairShareDampeningFactor.
    pub fair_share_dampening_factor: u16,
}
