//! Licences: what the configuration has, what jobs hold, and what a request needs.
//!
//! A job holds its licences from its start to its end, also while it is suspended. Pure. Invariant: [`available`] counts what jobs
//! hold and what reservations keep for others. Source: licenses page, sbatch(1) --licenses.

use std::collections::BTreeMap;

use sluice_model::error_code::ErrorCode;
use sluice_model::reservation::LicenseInfo;
use sluice_model::state::JobState;
use sluice_model::time::UnixSeconds;

use crate::cluster::{Cluster, Job};
use crate::reservation::occurrence;

/// Licences by name, with counts.
pub type Counts = Vec<(String, u64)>;

/// Licences held by jobs, by the reservation of the run and name.
pub type LicensesHeld = BTreeMap<(Option<u32>, String), u64>;

/// What a job asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Need {
    /// One of the items is enough (`a|b`).
    pub any: bool,
    /// Names and counts.
    pub items: Counts,
}

/// Reads `a:2,b` (all) or `a:2|b` (one of them). `None` = it cannot be read.
#[must_use]
pub fn parse(text: &str) -> Option<Need> {
    let any = text.contains('|');
    if any && text.contains([',', ';']) {
        return None;
    }
    let mut items: Counts = Vec::new();
    for entry in text
        .split([',', ';', '|'])
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
    {
        let (name, count) = match entry.rsplit_once([':', '*', '=']) {
            Some((name, count)) => (name, count.parse().ok()?),
            None => (entry, 1),
        };
        match items.iter_mut().find(|(known, _)| known == name && !any) {
            Some((_, sum)) => *sum += count,
            None => items.push((name.to_owned(), count)),
        }
    }
    Some(Need { any, items })
}

/// So many of a licence there are; `None` = there is no such licence.
#[must_use]
pub fn total(cluster: &Cluster, name: &str) -> Option<u64> {
    cluster
        .config
        .licenses
        .iter()
        .find(|license| license.name == name)
        .map(|license| u64::from(license.count))
}

/// Every name must be configured, and no count above what there is.
///
/// # Errors
/// The request names what there is not.
pub fn check(cluster: &Cluster, text: &str) -> Result<Need, ErrorCode> {
    let need = parse(text).ok_or(ErrorCode::InvalidLicenses)?;
    let more = cluster.config.scheduling.parameters.allow_zero_lic;
    for (name, count) in &need.items {
        let there = total(cluster, name).ok_or(ErrorCode::InvalidLicenses)?;
        if *count > there && !more {
            return Err(ErrorCode::InvalidLicenses);
        }
    }
    Ok(need)
}

/// What a job needs; nothing when its request cannot be read.
#[must_use]
pub fn need_of(job: &Job) -> Need {
    job.request
        .licenses
        .as_deref()
        .and_then(parse)
        .unwrap_or_default()
}

/// The job holds its licences.
#[must_use]
pub fn holds(job: &Job) -> bool {
    matches!(job.state.base, JobState::Running | JobState::Suspended) && !job.state.is_completing()
}

/// Licences held by jobs, in all and by reservation of the run.
#[must_use]
pub fn held(cluster: &Cluster) -> LicensesHeld {
    let mut held = BTreeMap::new();
    for job in cluster.holding.iter().filter_map(|id| cluster.job(*id)) {
        if job.licenses.is_empty() || !holds(job) {
            continue;
        }
        let run = job.reservation.as_ref().map(|run| run.id);
        for (name, count) in &job.licenses {
            *held.entry((run, name.clone())).or_default() += count;
        }
    }
    held
}

/// What others than jobs of `own` have reserved of a licence between `from` and `to` and do not hold yet.
#[must_use]
pub fn kept_for_others(
    cluster: &Cluster,
    held: &LicensesHeld,
    name: &str,
    own: Option<u32>,
    (from, to): (i64, i64),
    now: UnixSeconds,
) -> u64 {
    cluster
        .reservations
        .values()
        .filter(|other| Some(other.id) != own && other.license(name) > 0)
        .filter(|other| occurrence::touches(other, from, to, now))
        .map(|other| {
            let in_use = held
                .get(&(Some(other.id), name.to_owned()))
                .copied()
                .unwrap_or(0);
            other.license(name).saturating_sub(in_use)
        })
        .sum()
}

/// What a run in `own` from now until `to` may have of a licence, given what is held.
#[must_use]
pub fn available(
    cluster: &Cluster,
    held: &LicensesHeld,
    name: &str,
    own: Option<u32>,
    to: i64,
    now: UnixSeconds,
) -> u64 {
    let used: u64 = held
        .iter()
        .filter(|((_, own), _)| own == name)
        .map(|(_, count)| count)
        .sum();
    let kept = kept_for_others(cluster, held, name, own, (now.0, to), now);
    total(cluster, name)
        .unwrap_or(0)
        .saturating_sub(used)
        .saturating_sub(kept)
}

/// Licences and their use, in the order of the configuration.
#[must_use]
pub fn list(cluster: &Cluster) -> Vec<LicenseInfo> {
    let held = held(cluster);
    cluster
        .config
        .licenses
        .iter()
        .map(|license| LicenseInfo {
            name: license.name.clone(),
            total: u64::from(license.count),
            used: held
                .iter()
                .filter(|((_, name), _)| *name == license.name)
                .map(|(_, count)| count)
                .sum(),
            reserved: cluster
                .reservations
                .values()
                .filter(|reservation| reservation.begun)
                .map(|reservation| reservation.license(&license.name))
                .sum(),
        })
        .collect()
}

/// As requests and records show them: `matlab:10,ansys:1`. `None` = none.
#[must_use]
pub fn text(counts: &[(String, u64)]) -> Option<String> {
    let items: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{name}:{count}"))
        .collect();
    (!items.is_empty()).then(|| items.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(list: &[(&str, u64)]) -> Counts {
        list.iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect()
    }

    /// All of a list, or one of several; the two are not mixed.
    #[test]
    fn requests_are_read() {
        let all = parse("a:2,b").expect("a list");
        assert_eq!((all.any, all.items), (false, items(&[("a", 2), ("b", 1)])));
        let one = parse("a:2|b").expect("alternatives");
        assert_eq!((one.any, one.items), (true, items(&[("a", 2), ("b", 1)])));
        assert_eq!(parse("a:1,a:2").map(|n| n.items), Some(items(&[("a", 3)])));
        assert_eq!(parse("a,b|c"), None);
        assert_eq!(parse("a:x"), None);
        assert_eq!(
            text(&items(&[("a", 2), ("b", 1)])).as_deref(),
            Some("a:2,b:1")
        );
        assert_eq!(text(&[]), None);
    }
}
