//! Working priorities out: one job's at a time, or everybody's in one sweep.
//!
//! What needs the job's request in normal form (size and TRES) is kept from the last change of the job, so that a sweep over a
//! hundred thousand jobs only adds a few numbers for each. Called from `event::apply` only.

use sluice_config::{AccountingStorage, ClusterConfig, PriorityKind};
use sluice_model::ids::JobId;
use sluice_model::time::{TimeLimit, UnixSeconds};
use sluice_model::tres::{Tres, TresKind};

use super::factors::{self, Factors, SizeInput, TresFactor, Weights};
use super::scale::Sizes;
use super::{JobPriority, Rank, Scale, accrue_time};
use crate::cluster::{Allocation, Cluster, Job, Partition};
use crate::license;
use crate::select::{self, ResourceRequest};

/// Option of the request that holds the site factor.
pub const SITE_FACTOR: &str = "site-factor";

/// Why everybody's priority is calculated.
pub(super) enum Occasion {
    /// PriorityCalcPeriod is over: from the last cycle to now.
    Cycle {
        /// Last cycle.
        since: UnixSeconds,
        /// Now.
        time: UnixSeconds,
    },
    /// Policy or configuration changed; ages stay as of each job's last calculation.
    Changed {
        /// What jobs are measured by changed too.
        sizes: bool,
    },
}

/// The weights in force: age and fair share count only where there is accounting.
#[must_use]
pub fn weights(config: &ClusterConfig) -> Weights {
    let settings = &config.priority;
    let accounting = !matches!(config.accounting.storage, AccountingStorage::None);
    let if_accounting = |weight: u32| if accounting { f64::from(weight) } else { 0.0 };
    Weights {
        age: if_accounting(settings.weight_age),
        assoc: f64::from(settings.weight_assoc),
        fairshare: if_accounting(settings.weight_fairshare),
        size: f64::from(settings.weight_job_size),
        partition: f64::from(settings.weight_partition),
        qos: f64::from(settings.weight_qos),
    }
}

/// The job's SiteFactor.
pub(super) fn site_factor(job: &Job) -> i64 {
    job.request
        .extra
        .get(SITE_FACTOR)
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// The partitions a job has a rank in: all it names while it waits, else the one it runs in.
pub(super) fn partitions(job: &Job) -> Vec<&str> {
    if job.state.is_pending() && !job.request.partitions.is_empty() {
        job.request.partitions.iter().map(String::as_str).collect()
    } else {
        vec![job.partition.as_str()]
    }
}

fn is_basic(cluster: &Cluster) -> bool {
    cluster.config.priority.kind == PriorityKind::Basic
}

/// A job that is new or was changed: everything about it is worked out.
pub(super) fn anew(cluster: &mut Cluster, id: JobId, time: UnixSeconds) {
    let Some(job) = cluster.jobs.get(&id).cloned() else {
        return;
    };
    if !job.state.is_pending() && !cluster.config.priority.flags.calculate_running {
        return;
    }
    let sizes = Scale::kept(cluster);
    let former = cluster.priorities.jobs.get(&id).cloned();
    let weights = weights(&cluster.config);
    let mut priority = calculate(cluster, &sizes, &weights, &job, former.as_ref(), time, true);
    if is_basic(cluster) {
        number(cluster, &job, &mut priority);
    }
    cluster.priorities.jobs.insert(id, priority);
}

/// A job whose waiting begins again: released, or back in the queue.
pub(super) fn restarted(cluster: &mut Cluster, id: JobId, time: UnixSeconds) {
    if let Some(priority) = cluster.priorities.jobs.get_mut(&id) {
        priority.idle_secs = 0;
    }
    anew(cluster, id, time);
}

/// A task that was split off an array has what the array had.
pub(super) fn copy(cluster: &mut Cluster, from: JobId, to: JobId) {
    if let Some(priority) = cluster.priorities.jobs.get(&from).cloned() {
        cluster.priorities.jobs.insert(to, priority);
    }
}

/// A job that was started has a rank in its partition only.
pub(super) fn started(cluster: &mut Cluster, id: JobId) {
    let Some(job) = cluster.jobs.get(&id).cloned() else {
        return;
    };
    if let Some(priority) = cluster.priorities.jobs.get_mut(&id)
        && !priority.others.is_empty()
    {
        let nth = job
            .request
            .partitions
            .iter()
            .position(|name| *name == job.partition);
        priority.first = priority.rank(nth.unwrap_or(0));
        priority.others = Vec::new();
    }
}

/// Everybody who waits, and with CALCULATE_RUNNING everybody who runs.
pub(super) fn all(cluster: &mut Cluster, occasion: &Occasion) {
    let mut ids: Vec<JobId> = cluster.pending.iter().copied().collect();
    let basic = is_basic(cluster);
    if cluster.config.priority.flags.calculate_running {
        ids.extend(cluster.holding.iter().copied());
    }
    let sizes = Scale::kept(cluster);
    let weights = weights(&cluster.config);
    for id in ids {
        let Some(job) = cluster.jobs.get(&id).cloned() else {
            continue;
        };
        if job.priority == 0 || job.state.is_finished() {
            continue;
        }
        let former = cluster.priorities.jobs.get(&id);
        let (time, shape) = match occasion {
            Occasion::Cycle { time, .. } => (*time, former.is_none()),
            Occasion::Changed { sizes } => (
                former.map_or(job.submit_time, |former| former.time),
                *sizes || former.is_none(),
            ),
        };
        // A running job's size is what it was given.
        let shape = shape || (job.allocation.is_some() && !job.state.is_pending());
        let idle = match occasion {
            Occasion::Cycle { since, time } if is_impossible(&sizes, &job) => {
                accrue_time(cluster, &job).map_or(0, |from| time.since((*since).max(from)).max(0))
            }
            _ => 0,
        };
        let mut priority = calculate(cluster, &sizes, &weights, &job, former, time, shape);
        if idle > 0 {
            priority.idle_secs += idle;
            priority = calculate(
                cluster,
                &sizes,
                &weights,
                &job,
                Some(&priority),
                time,
                false,
            );
        }
        if basic {
            number(cluster, &job, &mut priority);
        }
        cluster.priorities.jobs.insert(id, priority);
    }
}

/// priority/basic: one lower than the lowest so far, once for each job; nice moves it.
fn number(cluster: &mut Cluster, job: &Job, priority: &mut JobPriority) {
    if job.priority == 0 {
        return;
    }
    if priority.number == 0 {
        priority.number = if cluster.priorities.lowest >= 2 {
            cluster.priorities.lowest - 1
        } else {
            1
        };
    }
    let standing = i64::from(priority.number) - i64::from(job.request.nice);
    priority.first.standing = standing;
    for other in &mut priority.others {
        other.standing = standing;
    }
    let shown = u32::try_from(standing.max(1)).unwrap_or(u32::MAX);
    cluster.priorities.lowest = cluster.priorities.lowest.min(shown);
}

/// A limit of every partition keeps the job from ever starting: its time limit or its number of nodes is above.
fn is_impossible(sizes: &Sizes, job: &Job) -> bool {
    let minutes = job
        .time_limit
        .and_then(TimeLimit::minutes)
        .filter(|minutes| *minutes > 0);
    let nodes = job.request.min_nodes.unwrap_or(1);
    job.state.is_pending()
        && partitions(job).iter().all(|name| {
            sizes.partitions.get(*name).is_some_and(|partition| {
                let most = partition.max_time.minutes();
                let too_long = minutes.zip(most).is_some_and(|(asked, most)| asked > most);
                too_long || partition.max_nodes.is_some_and(|most| nodes > most)
            })
        })
}

/// What the job's standing in its first partition would be if it were calculated at `time`.
#[must_use]
pub fn standing_at(cluster: &Cluster, job: &Job, time: UnixSeconds) -> i64 {
    if job.priority == 0 || job.priority_is_direct || is_basic(cluster) {
        return cluster.standing(job);
    }
    let sizes = Scale::read(cluster);
    let former = cluster.priorities.jobs.get(&job.id);
    let weights = weights(&cluster.config);
    calculate(cluster, &sizes, &weights, job, former, time, true)
        .first
        .standing
}

fn calculate(
    cluster: &Cluster,
    sizes: &Sizes,
    weights: &Weights,
    job: &Job,
    former: Option<&JobPriority>,
    time: UnixSeconds,
    shape: bool,
) -> JobPriority {
    let mut priority = former.cloned().unwrap_or_default();
    priority.time = time;
    let keeps_higher = cluster.config.priority.flags.incr_only && former.is_some();
    let several = job.state.is_pending() && job.request.partitions.len() > 1;
    let rank = |nth: usize, partition: &str| {
        let known = former.map(|former| former.rank(nth)).unwrap_or_default();
        let mut rank = known;
        if shape || (former.is_some_and(|former| nth > former.others.len())) {
            (rank.size, rank.tres) = measure(cluster, sizes, weights, job, partition);
        }
        let factors = factors_of(cluster, sizes, weights, job, partition, &priority, &rank);
        rank.standing = factors::standing(factors.sum(weights));
        if keeps_higher {
            rank.standing = rank.standing.max(known.standing);
        }
        rank
    };
    if several {
        let mut ranks = job
            .request
            .partitions
            .iter()
            .enumerate()
            .map(|(nth, name)| rank(nth, name));
        let first = ranks.next().unwrap_or_default();
        let others = ranks.collect();
        (priority.first, priority.others) = (first, others);
    } else {
        let name = match job.request.partitions.first() {
            Some(name) if job.state.is_pending() => name,
            _ => &job.partition,
        };
        let first = rank(0, name);
        (priority.first, priority.others) = (first, Vec::new());
    }
    priority
}

/// Factors of a job in a partition as of its last calculation.
pub(super) fn factors_of(
    cluster: &Cluster,
    sizes: &Sizes,
    weights: &Weights,
    job: &Job,
    partition: &str,
    priority: &JobPriority,
    rank: &Rank,
) -> Factors {
    let settings = &cluster.config.priority;
    let flags = &settings.flags;
    let tree = cluster.policy.tree();
    let association = if tree.has_partitions() && job.request.partitions.len() > 1 {
        cluster
            .policy
            .association_for(&job.account, &job.user_name, partition)
    } else {
        job.association
    };
    let age = match accrue_time(cluster, job) {
        Some(from) if weights.age > 0.0 => factors::age(
            priority.time.since(from) - priority.idle_secs,
            settings.max_age_secs,
        ),
        _ => 0.0,
    };
    let assoc = if weights.assoc > 0.0 {
        let own = association.map_or(0, |id| cluster.policy.association_priority(id));
        factors::normal(
            f64::from(own),
            f64::from(tree.top_priority()),
            flags.no_normal_assoc,
        )
    } else {
        0.0
    };
    let fairshare = if weights.fairshare > 0.0 {
        association
            .and_then(|id| cluster.usage.standings.get(&id))
            .map_or(0.0, |standing| standing.factor)
    } else {
        0.0
    };
    let by_partition = if weights.partition > 0.0 {
        let own = sizes
            .partitions
            .get(partition)
            .map_or(0, |partition| partition.job_factor);
        factors::normal(f64::from(own), sizes.top_job_factor, flags.no_normal_part)
    } else {
        0.0
    };
    let qos = if weights.qos > 0.0 {
        let own = job
            .qos_id
            .and_then(|id| cluster.policy.qos(id))
            .map_or(0, |qos| qos.priority);
        factors::normal(
            f64::from(own),
            f64::from(tree.top_qos_priority()),
            flags.no_normal_qos,
        )
    } else {
        0.0
    };
    Factors {
        age,
        assoc,
        fairshare,
        size: rank.size,
        partition: by_partition,
        qos,
        tres: rank.tres,
        site: site_factor(job),
        nice: i64::from(job.request.nice),
    }
}

/// Size factor, and weighted TRES factors added up.
fn measure(
    cluster: &Cluster,
    sizes: &Sizes,
    weights: &Weights,
    job: &Job,
    name: &str,
) -> (f64, f64) {
    let weighs_tres = !cluster.config.priority.weight_tres.is_empty();
    let Some(partition) = cluster
        .partition(name)
        .filter(|_| weights.size > 0.0 || weighs_tres)
    else {
        return (0.0, 0.0);
    };
    let normal = select::ResourceRequest::new(&job.request, partition, &cluster.config).ok();
    let size = if weights.size > 0.0 {
        size_factor(cluster, sizes, job, partition, normal.as_ref())
    } else {
        0.0
    };
    let tres = if weighs_tres {
        factors_of_tres(cluster, sizes, job, partition, normal.as_ref())
            .iter()
            .map(|one| one.weight * one.factor)
            .sum()
    } else {
        0.0
    };
    (size, tres)
}

/// What the job holds, unless it waits.
fn held(job: &Job) -> Option<&Allocation> {
    let held = job.allocation.as_deref();
    held.filter(|_| !job.state.is_pending())
}

fn size_factor(
    cluster: &Cluster,
    sizes: &Sizes,
    job: &Job,
    partition: &Partition,
    normal: Option<&ResourceRequest>,
) -> f64 {
    let nodes = normal.map_or(job.request.min_nodes.unwrap_or(1), |normal| {
        normal.min_nodes
    });
    let cpus = held(job).map_or_else(
        || normal.map_or(0, ResourceRequest::num_cpus),
        Allocation::cpu_count,
    );
    let limit = job
        .time_limit
        .filter(|limit| limit.minutes() != Some(0))
        .unwrap_or(partition.config.max_time);
    factors::size(&SizeInput {
        all_nodes: sizes.nodes,
        all_cpus: sizes.cpus,
        nodes: f64::from(nodes),
        cpus: f64::from(cpus),
        minutes: limit.minutes().map_or(f64::from(u32::MAX), f64::from),
        favor_small: cluster.config.priority.favor_small,
        relative_to_time: cluster.config.priority.flags.small_relative_to_time,
    })
}

/// The weighted TRES of a job in a partition, in Slurm's order.
pub(super) fn tres_factors(
    cluster: &Cluster,
    sizes: &Sizes,
    job: &Job,
    name: &str,
) -> Vec<TresFactor> {
    let Some(partition) = cluster
        .partition(name)
        .filter(|_| !cluster.config.priority.weight_tres.is_empty())
    else {
        return Vec::new();
    };
    let normal = select::ResourceRequest::new(&job.request, partition, &cluster.config).ok();
    factors_of_tres(cluster, sizes, job, partition, normal.as_ref())
}

fn factors_of_tres(
    cluster: &Cluster,
    sizes: &Sizes,
    job: &Job,
    partition: &Partition,
    normal: Option<&ResourceRequest>,
) -> Vec<TresFactor> {
    let settings = &cluster.config.priority;
    let name = &partition.config.name;
    let tres = match (held(job), normal) {
        (Some(allocation), _) => select::tres::alloc_tres(cluster, name, allocation),
        (None, Some(normal)) => select::tres::req_tres(cluster, normal, partition),
        (None, None) => Tres::new(),
    };
    let totals = sizes.partitions.get(name).map(|one| one.tres.as_slice());
    let mut found: Vec<TresFactor> = settings
        .weight_tres
        .iter()
        .enumerate()
        .filter(|(_, (_, weight))| *weight != 0.0)
        .map(|(at, (kind, weight))| {
            let amount = amount(&tres, job, kind) as f64;
            let total = totals.and_then(|totals| totals.get(at)).copied();
            TresFactor {
                kind: kind.clone(),
                weight: *weight,
                factor: factors::normal(
                    amount,
                    total.unwrap_or(0.0),
                    settings.flags.no_normal_tres,
                ),
            }
        })
        .collect();
    found.sort_by(|a, b| a.kind.cmp(&b.kind));
    found
}

/// How much of a TRES; licences are those of the request.
fn amount(tres: &Tres, job: &Job, kind: &TresKind) -> u64 {
    let TresKind::License(name) = kind else {
        return tres.get(kind);
    };
    let asked = license::need_of(job).items;
    asked
        .into_iter()
        .find(|(one, _)| one == name)
        .map_or(0, |(_, count)| count)
}
