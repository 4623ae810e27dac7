//! Usage of a period, computed from the records of jobs.
//!
//! A job counts with the part of its run that lies in the period, less its suspended time (spread evenly over the run), times
//! what it was given of a resource. Unit: resource × seconds. Invariant: allocated + down + idle = reported. The time for
//! which resources were kept free for waiting jobs is not recorded and counts as idle. Source: sreport(1), accounting.

use std::collections::BTreeMap;

use sluice_model::accounting::{AssociationRecord, JobRecord};
use sluice_model::time::UnixSeconds;
use sluice_model::tres::Tres;
use sluice_proto::v1::Downtime;

/// A period, its end excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// From.
    pub start: UnixSeconds,
    /// To.
    pub end: UnixSeconds,
}

impl Period {
    /// Its length in seconds.
    #[must_use]
    pub fn secs(&self) -> i64 {
        (self.end - self.start).max(0)
    }

    /// Seconds it shares with another period.
    fn shared(&self, start: UnixSeconds, end: UnixSeconds) -> i64 {
        (self.end.min(end) - self.start.max(start)).max(0)
    }
}

/// What is counted of one resource in a text such as `cpu=4,mem=8192`.
#[must_use]
pub fn amount(text: &str, name: &str) -> u64 {
    let tres: Tres = text.parse().unwrap_or_default();
    tres.iter()
        .find(|(kind, _)| kind.to_string().eq_ignore_ascii_case(name))
        .map_or(0, |(_, amount)| amount)
}

/// Seconds a job ran in the period.
#[must_use]
pub fn run_secs(job: &JobRecord, period: &Period, now: UnixSeconds) -> f64 {
    let Some(start) = job.start else { return 0.0 };
    let end = job.end.unwrap_or(now);
    let whole = (end - start).max(0);
    let shared = period.shared(start, end);
    if whole == 0 || shared == 0 {
        return 0.0;
    }
    let suspended = (job.suspended_secs as f64).min(whole as f64);
    shared as f64 * (1.0 - suspended / whole as f64)
}

/// Resource × seconds of a job in the period.
#[must_use]
pub fn used(job: &JobRecord, tres: &str, period: &Period, now: UnixSeconds) -> f64 {
    let count = match tres {
        "cpu" if job.alloc_tres.is_empty() => u64::from(job.alloc_cpus),
        _ => amount(&job.alloc_tres, tres),
    };
    run_secs(job, period, now) * count as f64
}

/// What a cluster did with one resource.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ClusterUsage {
    /// Given to jobs.
    pub allocated: f64,
    /// Out of service.
    pub down: f64,
    /// Neither.
    pub idle: f64,
    /// All there was.
    pub reported: f64,
    /// How much there is of it.
    pub count: u64,
}

/// The cluster's sizes: periods without a node; `tres` = its present size, for times before the first record.
#[must_use]
pub fn cluster_usage(
    jobs: &[&JobRecord],
    events: &[Downtime],
    cluster: &str,
    size: &str,
    tres: &str,
    period: &Period,
    now: UnixSeconds,
) -> ClusterUsage {
    // What has not happened yet is not reported.
    let past = Period {
        start: period.start,
        end: period.end.min(now),
    };
    let shared = |event: &Downtime| {
        let end = event.end.map_or(now, UnixSeconds);
        past.shared(UnixSeconds(event.start), end) as f64
    };
    let mut reported = 0.0;
    let mut sized = false;
    let mut down = 0.0;
    for event in events.iter().filter(|event| event.cluster == cluster) {
        if event.node.is_empty() {
            sized = true;
            reported += shared(event) * amount(&event.tres, tres) as f64;
        } else {
            down += shared(event) * amount(&event.tres, tres) as f64;
        }
    }
    let count = amount(size, tres);
    if !sized {
        reported = past.secs() as f64 * count as f64;
    }
    let allocated: f64 = jobs.iter().map(|job| used(job, tres, &past, now)).sum();
    let allocated = allocated.min(reported);
    // Jobs that go on on a draining node are counted as jobs.
    let down = down.min(reported - allocated);
    ClusterUsage {
        allocated,
        down,
        idle: reported - allocated - down,
        reported,
        count,
    }
}

/// The accounts of a cluster as a tree.
#[derive(Debug, Clone, Default)]
pub struct AccountTree {
    /// Accounts in tree order with their parent.
    accounts: Vec<(String, String)>,
}

impl AccountTree {
    /// Out of associations in tree order.
    #[must_use]
    pub fn new(associations: &[AssociationRecord], cluster: &str) -> Self {
        let accounts = associations
            .iter()
            .filter(|row| row.cluster == cluster && row.user.is_empty())
            .map(|row| (row.account.clone(), row.parent_account.clone()))
            .collect();
        Self { accounts }
    }

    /// The account and those above it.
    #[must_use]
    pub fn path(&self, account: &str) -> Vec<String> {
        let mut path = vec![account.to_string()];
        while let Some((_, parent)) = path
            .last()
            .and_then(|last| self.accounts.iter().find(|(name, _)| name == last))
        {
            if parent.is_empty() || path.contains(parent) {
                break;
            }
            path.push(parent.clone());
        }
        path
    }

    /// Levels above an account.
    #[must_use]
    pub fn depth(&self, account: &str) -> usize {
        self.path(account).len() - 1
    }

    /// The given accounts in tree order; unknown ones come last.
    #[must_use]
    pub fn in_order(&self, names: impl Iterator<Item = String>) -> Vec<String> {
        let mut names: Vec<String> = names.collect();
        let place = |name: &String| {
            self.accounts
                .iter()
                .position(|(account, _)| account == name)
                .unwrap_or(usize::MAX)
        };
        names.sort_by(|a, b| (place(a), a).cmp(&(place(b), b)));
        names.dedup();
        names
    }

    /// True when the account or one above it is among `names`; an empty list lets all pass.
    #[must_use]
    pub fn is_below(&self, account: &str, names: &[String]) -> bool {
        names.is_empty()
            || self
                .path(account)
                .iter()
                .any(|above| names.iter().any(|name| name.eq_ignore_ascii_case(above)))
    }
}

/// Usage by (key, TRES).
#[derive(Debug, Clone, Default)]
pub struct UsageTable<K: Ord> {
    rows: BTreeMap<K, Vec<f64>>,
}

impl<K: Ord + Clone> UsageTable<K> {
    /// Adds up the jobs under the keys that each belongs to.
    pub fn build(
        jobs: &[&JobRecord],
        tres: &[String],
        period: &Period,
        now: UnixSeconds,
        keys: impl Fn(&JobRecord) -> Vec<K>,
    ) -> Self {
        let mut rows: BTreeMap<K, Vec<f64>> = BTreeMap::new();
        for job in jobs {
            let values: Vec<f64> = tres
                .iter()
                .map(|name| used(job, name, period, now))
                .collect();
            if values.iter().all(|value| *value == 0.0) {
                continue;
            }
            for key in keys(job) {
                let row = rows.entry(key).or_insert_with(|| vec![0.0; tres.len()]);
                for (sum, value) in row.iter_mut().zip(&values) {
                    *sum += value;
                }
            }
        }
        Self { rows }
    }

    /// The keys, most used first (by the first TRES), then by key.
    #[must_use]
    pub fn by_usage(&self) -> Vec<(K, Vec<f64>)> {
        let mut rows: Vec<(K, Vec<f64>)> = self
            .rows
            .iter()
            .map(|(key, values)| (key.clone(), values.clone()))
            .collect();
        let first = |values: &[f64]| values.first().copied().unwrap_or(0.0);
        rows.sort_by(|a, b| {
            first(&b.1)
                .total_cmp(&first(&a.1))
                .then_with(|| a.0.cmp(&b.0))
        });
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_model::ids::JobId;

    const HOUR: i64 = 3_600;

    fn job(start: i64, end: Option<i64>, tres: &str) -> JobRecord {
        let mut job = JobRecord::new(JobId(1), 0, UnixSeconds(start));
        job.start = Some(UnixSeconds(start));
        job.end = end.map(UnixSeconds);
        job.alloc_tres = tres.to_string();
        job
    }

    fn period() -> Period {
        Period {
            start: UnixSeconds(10 * HOUR),
            end: UnixSeconds(12 * HOUR),
        }
    }

    /// Only the part inside the period counts; a running job counts until now; suspended time is left out.
    #[test]
    fn parts_of_runs() {
        let now = UnixSeconds(11 * HOUR);
        let secs = |job: &JobRecord| run_secs(job, &period(), now);
        assert_eq!(secs(&job(9 * HOUR, Some(10 * HOUR + 600), "")), 600.0);
        assert_eq!(secs(&job(10 * HOUR + 1_800, None, "")), 1_800.0);
        assert_eq!(secs(&job(13 * HOUR, Some(14 * HOUR), "")), 0.0);
        let mut half = job(9 * HOUR, Some(11 * HOUR), "cpu=4,mem=100");
        half.suspended_secs = HOUR as u64;
        assert_eq!(secs(&half), 1_800.0);
        assert_eq!(used(&half, "cpu", &period(), now), 7_200.0);
        assert_eq!(used(&half, "mem", &period(), now), 180_000.0);
        assert_eq!(used(&half, "gres/gpu", &period(), now), 0.0);
    }

    /// Allocated, down and idle add up to what there was; the future is not reported.
    #[test]
    fn cluster() {
        let now = UnixSeconds(11 * HOUR);
        let running = job(10 * HOUR, None, "cpu=4");
        let event = |node: &str, start, end, tres: &str| Downtime {
            cluster: "c".to_string(),
            node: node.to_string(),
            start,
            end,
            state: "DOWN".to_string(),
            tres: tres.to_string(),
        };
        let down = event("n1", 10 * HOUR + 1_800, None, "cpu=8");
        let usage = cluster_usage(
            &[&running],
            std::slice::from_ref(&down),
            "c",
            "cpu=16",
            "cpu",
            &period(),
            now,
        );
        let expected = ClusterUsage {
            allocated: 4.0 * 3_600.0,
            down: 8.0 * 1_800.0,
            idle: 16.0 * 3_600.0 - 4.0 * 3_600.0 - 8.0 * 1_800.0,
            reported: 16.0 * 3_600.0,
            count: 16,
        };
        assert_eq!(usage, expected);
        // A cluster that exists for half an hour reports half an hour.
        let size = event("", 10 * HOUR + 1_800, None, "cpu=16");
        let young = cluster_usage(&[], &[size], "c", "cpu=16", "cpu", &period(), now);
        assert_eq!((young.reported, young.idle), (28_800.0, 28_800.0));
    }

    /// Keys with their sums, most used first.
    #[test]
    fn table() {
        let now = UnixSeconds(12 * HOUR);
        let mut jobs = [
            job(10 * HOUR, Some(11 * HOUR), "cpu=1"),
            job(10 * HOUR, Some(11 * HOUR), "cpu=3"),
        ];
        jobs[0].user = "ann".to_string();
        jobs[1].user = "bob".to_string();
        let all: Vec<&JobRecord> = jobs.iter().collect();
        let table = UsageTable::build(&all, &["cpu".to_string()], &period(), now, |job| {
            vec![job.user.clone()]
        });
        assert_eq!(
            table.by_usage(),
            [
                ("bob".to_string(), vec![10_800.0]),
                ("ann".to_string(), vec![3_600.0])
            ]
        );
    }
}
