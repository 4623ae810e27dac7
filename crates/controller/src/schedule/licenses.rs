//! Licences in a pass: what is free now and, with `bf_licenses`, in time.
//!
//! Times are seconds since the epoch. Invariant: what is taken is never above what there is, and what reservations keep for others
//! is left to them.

use std::collections::BTreeMap;

use sluice_model::time::UnixSeconds;

use super::expected_end;
use super::pass::Subject;
use super::profile::{Release, Timeline};
use crate::cluster::Cluster;
use crate::license::{self, Counts};
use crate::reservation::occurrence;

/// Licences of a pass.
#[derive(Debug, Clone)]
pub(super) struct Licenses<'a> {
    cluster: &'a Cluster,
    now: UnixSeconds,
    /// Held by reservation and name, with what was started in this pass.
    held: BTreeMap<(Option<u32>, String), u64>,
    /// Free of each in time; `None` = licences are not planned.
    lines: Option<BTreeMap<String, Timeline>>,
}

impl<'a> Licenses<'a> {
    /// What is held at present.
    pub(super) fn of(cluster: &'a Cluster, now: UnixSeconds) -> Self {
        let planned = cluster.config.scheduling.parameters.bf_licenses;
        Self {
            cluster,
            now,
            held: license::held(cluster),
            lines: planned.then(|| lines(cluster, now)),
        }
    }

    /// Jobs book the time at which licences are free.
    pub(super) fn are_planned(&self) -> bool {
        self.lines.is_some()
    }

    /// The licences that the job would take now; `None` = they are short.
    pub(super) fn choose_now(&self, subject: &Subject<'_>) -> Option<Counts> {
        self.choose(subject, self.now.0)
    }

    fn choose(&self, subject: &Subject<'_>, time: i64) -> Option<Counts> {
        if subject.job.request.licenses.is_none() {
            return Some(Counts::new());
        }
        let need = license::need_of(subject.job);
        let end = time.saturating_add(subject.secs);
        let there = |(name, count): &(String, u64)| {
            *count <= self.free(name, subject.reservation, (time, end))
        };
        if need.any {
            need.items.into_iter().find(there).map(|item| vec![item])
        } else {
            need.items.iter().all(there).then_some(need.items)
        }
    }

    fn free(&self, name: &str, own: Option<u32>, (from, to): (i64, i64)) -> u64 {
        let mut free = u64::MAX;
        if from <= self.now.0 {
            free = license::available(self.cluster, &self.held, name, own, to, self.now);
        }
        if let Some(line) = self.lines.as_ref().and_then(|lines| lines.get(name)) {
            let mut least = Vec::new();
            line.least(from, to, &mut least);
            let kept =
                license::kept_for_others(self.cluster, &self.held, name, own, (from, to), self.now);
            free = free.min(least[0].saturating_sub(kept));
        }
        free
    }

    /// Takes what was chosen from a time on.
    pub(super) fn take(&mut self, subject: &Subject<'_>, time: i64, counts: &[(String, u64)]) {
        let end = time.saturating_add(subject.secs);
        for (name, count) in counts {
            if time <= self.now.0 {
                *self
                    .held
                    .entry((subject.reservation, name.clone()))
                    .or_default() += count;
            }
            if let Some(line) = self.lines.as_mut().and_then(|lines| lines.get_mut(name)) {
                line.take(time, end, &[*count]);
            }
        }
    }

    /// The first time from `from` on at which they suffice.
    pub(super) fn first_fit(&self, subject: &Subject<'_>, from: i64) -> Option<(i64, Counts)> {
        let lines = self.lines.as_ref()?;
        let mut moments = vec![from];
        for line in lines.values() {
            let mut time = from;
            while let Some(next) = line.next_change(time) {
                moments.push(next);
                time = next;
            }
        }
        for other in self.cluster.reservations.values() {
            if !other.licenses.is_empty() {
                let ends = occurrence::spans(other, self.now)
                    .into_iter()
                    .map(|(_, end)| end);
                moments.extend(ends.filter(|end| *end > from && *end != i64::MAX));
            }
        }
        moments.sort_unstable();
        moments.dedup();
        moments
            .into_iter()
            .find_map(|time| Some((time, self.choose(subject, time)?)))
    }
}

fn lines(cluster: &Cluster, now: UnixSeconds) -> BTreeMap<String, Timeline> {
    let mut releases: BTreeMap<&str, Vec<Release>> = BTreeMap::new();
    for job in cluster.holding.iter().filter_map(|id| cluster.job(*id)) {
        if !license::holds(job) {
            continue;
        }
        let end = expected_end(job, now).0;
        for (name, count) in &job.licenses {
            releases.entry(name).or_default().push((end, vec![*count]));
        }
    }
    cluster
        .config
        .licenses
        .iter()
        .map(|license| {
            let total = u64::from(license.count);
            let mut back = releases.remove(license.name.as_str()).unwrap_or_default();
            back.sort();
            let held: u64 = back.iter().map(|(_, amounts)| amounts[0]).sum();
            let line = Timeline::new(now.0, &[total.saturating_sub(held)], &[total], &back);
            (license.name.clone(), line)
        })
        .collect()
}
