//! What associations and QOS have used: charged while jobs run, worn away over time.
//!
//! Kept for every association up to the root and for every QOS: billing units × seconds, seconds of each TRES, and wall seconds.
//! Wear is counted from [`UsageState::last_run`] to the time of the event, so that a replay gives the same numbers and a restart
//! neither loses an interval nor counts one twice. Source: priority reference 4.1 and 6; `slurm.conf(5)` (PriorityDecayHalfLife,
//! PriorityUsageResetPeriod).
//!
//! Invariant: only the arithmetic of `libm` is used beyond `+ - × ÷`, so that every machine gets the same bits.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};
use sluice_model::accounting::QosRecord;
use sluice_model::default_fields::is_default;
use sluice_model::state::JobState;
use sluice_model::time::UnixSeconds;
use sluice_model::tres::TresKind;

use super::fairshare::Standing;
use crate::cluster::{Cluster, Job};
use crate::select;

/// ln 2 as Slurm writes it; one half-life leaves 0.50007.
const LN_2: f64 = 0.693;

/// What was used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Billing units × seconds.
    #[serde(skip_serializing_if = "is_default")]
    pub raw: f64,
    /// Seconds that jobs ran.
    #[serde(skip_serializing_if = "is_default")]
    pub wall: f64,
    /// TRES × seconds.
    #[serde(skip_serializing_if = "is_default")]
    pub tres: BTreeMap<TresKind, f64>,
}

impl Usage {
    /// Everything times `factor`.
    fn scale(&mut self, factor: f64) {
        self.raw *= factor;
        self.wall *= factor;
        self.tres.values_mut().for_each(|value| *value *= factor);
    }

    /// Adds `times` × what `charge` has.
    fn add(&mut self, charge: &Usage, times: f64) {
        self.raw += times * charge.raw;
        self.wall += times * charge.wall;
        for (kind, amount) in &charge.tres {
            *self.tres.entry(kind.clone()).or_default() += times * amount;
        }
    }

    /// Takes away, never below zero.
    fn sub(&mut self, other: &Usage) {
        self.raw = (self.raw - other.raw).max(0.0);
        self.wall = (self.wall - other.wall).max(0.0);
        for (kind, amount) in &other.tres {
            if let Some(value) = self.tres.get_mut(kind) {
                *value = (*value - amount).max(0.0);
            }
        }
    }
}

/// Usage of the whole cluster, and what the last cycle made of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageState {
    /// Last cycle: usage is worn and charged up to here.
    pub last_run: UnixSeconds,
    /// Last reset (PriorityUsageResetPeriod), or the first cycle.
    pub last_reset: UnixSeconds,
    /// By association.
    pub associations: OrdMap<u32, Usage>,
    /// By QOS.
    pub qos: OrdMap<u32, Usage>,
    /// Shares and fair-share factors as of the last cycle or change of the policy.
    pub standings: Arc<BTreeMap<u32, Standing>>,
}

impl UsageState {
    /// Billing units × seconds of an association.
    #[must_use]
    pub fn raw(&self, association: u32) -> f64 {
        self.associations
            .get(&association)
            .map_or(0.0, |usage| usage.raw)
    }
}

/// What one second leaves of usage.
#[must_use]
pub fn decay_per_second(half_life_secs: u64) -> f64 {
    match half_life_secs {
        0 => 1.0,
        secs => 1.0 - LN_2 / secs as f64,
    }
}

/// What `secs` seconds leave of usage.
#[must_use]
pub fn decay(half_life_secs: u64, secs: i64) -> f64 {
    libm::pow(decay_per_second(half_life_secs), secs.max(0) as f64)
}

/// Usage of the QOS is not worn away.
#[must_use]
pub fn has_no_decay(qos: &QosRecord) -> bool {
    qos.flags
        .split(',')
        .any(|flag| flag.trim().eq_ignore_ascii_case("NoDecay"))
}

/// What a job's resources count in a second: billing units, wall second, TRES.
fn rate(cluster: &Cluster, job: &Job) -> Option<Usage> {
    let allocation = job.allocation.as_ref()?;
    let tres = select::tres::alloc_tres(cluster, &job.partition, allocation);
    let weights = cluster
        .partition(&job.partition)
        .map(|partition| partition.config.tres_billing_weights.as_slice())
        .unwrap_or_default();
    let flags = &cluster.config.priority.flags;
    Some(Usage {
        raw: select::tres::billing_units(&tres, weights, flags.max_tres, flags.max_tres_gres),
        wall: 1.0,
        tres: tres
            .iter()
            .filter(|(kind, amount)| *amount > 0 && **kind != TresKind::Energy)
            .map(|(kind, amount)| (kind.clone(), amount as f64))
            .collect(),
    })
}

/// Charges what a job has run since it was last charged, up to `until`. Suspended jobs are charged too.
pub fn charge(cluster: &mut Cluster, job: &Job, until: UnixSeconds) {
    let runs = matches!(job.state.base, JobState::Running | JobState::Suspended);
    let Some(start) = job.start_time.filter(|_| runs) else {
        return;
    };
    let from = start
        .max(cluster.usage.last_run)
        .max(job.charged_to.unwrap_or_default());
    let secs = until.since(from);
    if secs <= 0 {
        return;
    }
    let Some(rate) = rate(cluster, job) else {
        return;
    };
    let policy = Arc::clone(&cluster.policy);
    let own_qos = job.qos_id.and_then(|id| policy.qos(id));
    let factor = own_qos.map_or(1.0, |qos| qos.usage_factor);
    if factor <= 0.0 {
        return;
    }
    let lasts = decay(cluster.config.priority.decay_half_life_secs, secs);
    let worn = secs as f64 * lasts * factor;
    let whole = secs as f64 * factor;
    for id in job.association.iter().flat_map(|id| policy.path(*id)) {
        cluster
            .usage
            .associations
            .entry(id)
            .or_default()
            .add(&rate, worn);
    }
    let partition_qos = cluster
        .partition(&job.partition)
        .and_then(|partition| partition.config.qos.as_deref())
        .and_then(|name| policy.qos_named(name))
        .filter(|qos| Some(qos.id) != job.qos_id);
    for qos in own_qos.into_iter().chain(partition_qos) {
        let times = if has_no_decay(qos) { whole } else { worn };
        cluster
            .usage
            .qos
            .entry(qos.id)
            .or_default()
            .add(&rate, times);
    }
}

/// One cycle's usage: reset if it is due, wear, charge of what runs.
pub fn advance(cluster: &mut Cluster, time: UnixSeconds, reset: bool) {
    let policy = Arc::clone(&cluster.policy);
    let worn = |id: &u32| policy.qos(*id).is_none_or(|qos| !has_no_decay(qos));
    if reset {
        // NoDecay too, as a running Slurm does it.
        cluster.usage.associations.clear();
        cluster.usage.qos.clear();
    }
    if reset || cluster.usage.last_reset == UnixSeconds::default() {
        cluster.usage.last_reset = time;
    }
    let secs = time.since(cluster.usage.last_run);
    if cluster.usage.last_run != UnixSeconds::default() && secs > 0 {
        let lasts = decay(cluster.config.priority.decay_half_life_secs, secs);
        let ids: Vec<u32> = cluster.usage.associations.keys().copied().collect();
        for id in ids {
            if let Some(usage) = cluster.usage.associations.get_mut(&id) {
                usage.scale(lasts);
            }
        }
        let ids: Vec<u32> = cluster.usage.qos.keys().copied().filter(worn).collect();
        for id in ids {
            if let Some(usage) = cluster.usage.qos.get_mut(&id) {
                usage.scale(lasts);
            }
        }
    }
    let running: Vec<Arc<Job>> = cluster
        .holding
        .iter()
        .filter_map(|id| cluster.jobs.get(id).cloned())
        .collect();
    for job in running {
        charge(cluster, &job, time);
    }
    cluster.usage.last_run = cluster.usage.last_run.max(time);
}

/// Usage of an association and of all below it becomes nothing; what is above it loses that much.
pub fn forget_association(cluster: &mut Cluster, id: u32) {
    let policy = Arc::clone(&cluster.policy);
    let Some(usage) = cluster.usage.associations.get(&id).cloned() else {
        return;
    };
    for above in policy.path(id).skip(1) {
        if let Some(total) = cluster.usage.associations.get_mut(&above) {
            total.sub(&usage);
        }
    }
    let below: Vec<u32> = policy
        .tree()
        .branches()
        .map(|(one, _)| one)
        .filter(|one| policy.path(*one).any(|above| above == id))
        .collect();
    for one in below {
        cluster.usage.associations.remove(&one);
    }
}

/// Usage of a QOS becomes `raw`; its TRES follow in proportion, and are nothing where it is 0.
pub fn set_qos(cluster: &mut Cluster, id: u32, raw: f64) {
    if raw <= 0.0 {
        cluster.usage.qos.remove(&id);
        return;
    }
    let usage = cluster.usage.qos.entry(id).or_default();
    if usage.raw > 0.0 {
        usage.scale(raw / usage.raw);
    }
    usage.raw = raw;
}

/// Follows the tree: usage of what is gone is dropped, and what moved takes its usage to the accounts above its new place.
pub fn follow(cluster: &mut Cluster, before: &crate::policy::Policy) {
    let policy = Arc::clone(&cluster.policy);
    let known: Vec<u32> = cluster.usage.associations.keys().copied().collect();
    let parent =
        |tree: &crate::policy::Tree, id: u32| tree.branch(id).and_then(|branch| branch.parent);
    let mut moved = Vec::new();
    for id in known {
        if policy.association(id).is_none() {
            cluster.usage.associations.remove(&id);
        } else if before.association(id).is_some()
            && parent(before.tree(), id) != parent(policy.tree(), id)
        {
            moved.push(id);
        }
    }
    // What moves out of something that moves too is taken from it first, so that nothing is moved twice.
    moved.sort_by_key(|id| std::cmp::Reverse(before.path(*id).count()));
    for id in &moved {
        let usage = cluster
            .usage
            .associations
            .get(id)
            .cloned()
            .unwrap_or_default();
        for above in before.path(*id).skip(1) {
            if let Some(total) = cluster.usage.associations.get_mut(&above) {
                total.sub(&usage);
            }
        }
    }
    // And in at the top first, so that nothing is counted in on its way down.
    moved.sort_by_key(|id| policy.path(*id).count());
    for id in &moved {
        let usage = cluster
            .usage
            .associations
            .get(id)
            .cloned()
            .unwrap_or_default();
        for above in policy.path(*id).skip(1) {
            let total = cluster.usage.associations.entry(above).or_default();
            total.add(&usage, 1.0);
        }
    }
    let known: Vec<u32> = cluster.usage.qos.keys().copied().collect();
    for id in known {
        if policy.qos(id).is_none() {
            cluster.usage.qos.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the reference: half-life of seven days.
    #[test]
    fn wear_per_second_cycle_and_half_life() {
        let week = 7 * 86_400;
        // 1 − 0.693 / 604800
        assert_eq!(format!("{:.11}", decay_per_second(week)), "0.99999885417");
        assert_eq!(format!("{:.8}", decay(week, 300)), "0.99965631");
        assert_eq!(format!("{:.5}", decay(week, week as i64)), "0.50007");
        assert_eq!(decay(0, 1_000_000), 1.0);
        // 1 000 000 after one cycle without jobs, and what 32 CPUs add in it: 32 × 300 × k^300.
        assert_eq!(format!("{:.2}", 1e6 * decay(week, 300)), "999656.31");
        assert_eq!(format!("{:.2}", 32.0 * 300.0 * decay(week, 300)), "9596.70");
    }
}
