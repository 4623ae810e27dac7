//! What jobs use of associations and QOS at the moment: a fold over the jobs at hand.
//!
//! Nothing here is kept: a restart counts the same. Time promised to running jobs shrinks with each cycle
//! ([`crate::priority::usage::UsageState::last_run`]), as usage grows with it. Source: `resource_limits`, `scontrol(1)` show
//! assoc_mgr.

use std::collections::{BTreeMap, BTreeSet};

use sluice_model::state::JobState;
use sluice_model::time::{TimeLimit, UnixSeconds};
use sluice_model::tres::{Tres, TresKind};

use crate::cluster::{Cluster, Job, NodeIndex};
use crate::priority::accrue_time;
use crate::select;

/// What some jobs use.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InUse {
    /// Jobs that run or are suspended.
    pub running: u32,
    /// Waiting jobs whose age grows.
    pub accruing: u32,
    /// Jobs that wait or run; every task of an array counts.
    pub submitted: u32,
    /// What running jobs hold. Nodes are counted once, however many jobs are on them.
    pub tres: Tres,
    /// TRES × seconds that running jobs have still booked.
    pub run_secs: BTreeMap<TresKind, u64>,
    nodes: BTreeSet<NodeIndex>,
}

/// One job's part, worked out once for all that it counts for.
struct Part {
    running: u32,
    accruing: u32,
    submitted: u32,
    tres: Tres,
    left_secs: u64,
    nodes: Vec<NodeIndex>,
}

impl InUse {
    fn add(&mut self, part: &Part) {
        self.running += part.running;
        self.accruing += part.accruing;
        self.submitted += part.submitted;
        for (kind, amount) in part.tres.iter() {
            if *kind != TresKind::Node {
                self.tres.add_to(kind.clone(), amount);
            }
            *self.run_secs.entry(kind.clone()).or_default() +=
                amount.saturating_mul(part.left_secs);
        }
        if part.running > 0 {
            self.nodes.extend(part.nodes.iter().copied());
            self.tres.set(TresKind::Node, self.nodes.len() as u64);
        }
    }
}

/// Uses of all associations and QOS.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Uses {
    /// By association: its own jobs and those of all below.
    pub associations: BTreeMap<u32, InUse>,
    /// By QOS.
    pub qos: BTreeMap<u32, InUse>,
    /// By QOS and user.
    pub qos_users: BTreeMap<(u32, String), InUse>,
    /// By QOS and account.
    pub qos_accounts: BTreeMap<(u32, String), InUse>,
}

/// Seconds of its time limit that a running job has still booked, as of the last cycle.
#[must_use]
pub fn booked_secs(cluster: &Cluster, job: &Job) -> u64 {
    let Some(start) = job.start_time else {
        return 0;
    };
    let Some(limit) = job.time_limit.and_then(TimeLimit::seconds) else {
        return 0;
    };
    let gone = cluster.usage.last_run.since(start).max(0);
    u64::try_from(limit - gone).unwrap_or(0)
}

fn part(cluster: &Cluster, job: &Job, now: UnixSeconds) -> Option<Part> {
    if job.state.is_finished() {
        return None;
    }
    let runs = matches!(job.state.base, JobState::Running | JobState::Suspended);
    let tasks = job
        .array
        .as_ref()
        .filter(|array| array.task_id.is_none())
        .map_or(1, |array| array.pending.tasks.len().max(1));
    let allocation = job.allocation.as_ref().filter(|_| runs);
    let grows = accrue_time(cluster, job).is_some_and(|from| from <= now);
    Some(Part {
        running: u32::from(runs),
        accruing: u32::from(!runs && job.priority > 0 && grows),
        submitted: u32::try_from(tasks).unwrap_or(u32::MAX),
        tres: allocation.map_or_else(Tres::new, |allocation| {
            select::tres::alloc_tres(cluster, &job.partition, allocation)
        }),
        left_secs: booked_secs(cluster, job),
        nodes: allocation
            .map(|allocation| allocation.nodes.iter().map(|part| part.node).collect())
            .unwrap_or_default(),
    })
}

/// Adds up what all jobs use.
#[must_use]
pub fn fold(cluster: &Cluster, now: UnixSeconds) -> Uses {
    let mut uses = Uses::default();
    let jobs = cluster.pending.iter().chain(cluster.holding.iter());
    for id in jobs.collect::<BTreeSet<_>>() {
        let Some(job) = cluster.jobs.get(id) else {
            continue;
        };
        let Some(part) = part(cluster, job, now) else {
            continue;
        };
        for id in job
            .association
            .iter()
            .flat_map(|id| cluster.policy.path(*id))
        {
            uses.associations.entry(id).or_default().add(&part);
        }
        if let Some(qos) = job.qos_id {
            uses.qos.entry(qos).or_default().add(&part);
            let user = (qos, job.user_name.clone());
            uses.qos_users.entry(user).or_default().add(&part);
            let account = (qos, job.account.clone());
            uses.qos_accounts.entry(account).or_default().add(&part);
        }
    }
    uses
}
