//! What time alone brings about: time limits, warning signals, silent nodes, `after:+minutes`, purging of old records.
//!
//! The shell runs it about once a second. Sources: scheduling reference 9 and 11, `slurm.conf(5)` MinJobAge, SlurmdTimeout.

use sluice_model::ids::JobId;
use sluice_model::launch::SignalTarget;
use sluice_model::node_state::{NodeState, NodeStateFlags};
use sluice_model::state::{JobState, JobStateFlags};
use sluice_model::time::{TimeLimit, UnixSeconds};

use super::job_end;
use super::{agent, cancel, dependency, node, reboot, reservation, step_limit, trigger};
use crate::cluster::{Cluster, Job};
use crate::event::Event;
use crate::transaction::Transaction;

/// Seconds without a connection after which a node gets no new work.
pub const NO_RESPOND_SECS: i64 = 10;

/// Records purged in one tick, so that a tick stays short.
const PURGE_MAX: usize = 2_000;

/// Does everything that is due.
pub fn tick(transaction: &mut Transaction<'_>) {
    time_limits(transaction);
    silent_nodes(transaction);
    delayed_dependencies(transaction);
    step_limit::tick(transaction);
    reboot::tick(transaction);
    node::return_due(transaction);
    trigger::tick(transaction);
    reservation::tick(transaction);
    purge(transaction);
}

/// When the job's time is up, OverTimeLimit not counted; `None` = never.
#[must_use]
pub fn limit_end(job: &Job) -> Option<UnixSeconds> {
    let start = job.start_time?;
    let seconds = job.time_limit.and_then(TimeLimit::seconds)?;
    Some(start.saturating_add(seconds + job.suspended_secs))
}

fn over_time(cluster: &Cluster, job: &Job) -> TimeLimit {
    cluster
        .partition(&job.partition)
        .and_then(|partition| partition.config.over_time_limit)
        .unwrap_or(cluster.config.scheduling.over_time_limit)
}

fn time_limits(transaction: &mut Transaction<'_>) {
    let now = transaction.now;
    let mut expired: Vec<JobId> = Vec::new();
    let mut warned: Vec<JobId> = Vec::new();
    for id in &transaction.cluster.holding {
        let Some(job) = transaction.cluster.job(*id) else {
            continue;
        };
        let runs = job.state.base == JobState::Running
            && !job.state.flags.contains(JobStateFlags::CONFIGURING);
        if !runs {
            continue;
        }
        let Some(end) = limit_end(job) else { continue };
        if let Some(over) = over_time(transaction.cluster, job).seconds()
            && now >= end.saturating_add(over)
        {
            expired.push(*id);
        } else if let Some(warning) = &job.request.warn_signal
            && !job.warned
            && now.saturating_add(i64::from(warning.seconds)) >= end
        {
            warned.push(*id);
        }
    }
    for id in warned {
        let Some(job) = transaction.cluster.job(id).cloned() else {
            continue;
        };
        let Some(warning) = job.request.warn_signal else {
            continue;
        };
        let target = if warning.batch_only {
            SignalTarget::BatchShell
        } else {
            SignalTarget::Steps
        };
        cancel::send_signal(transaction, &job, target, warning.signal);
        transaction.emit(Event::JobWarned { job_id: id });
    }
    for id in expired {
        job_end::end_at_limit(transaction, id);
    }
}

fn silent_nodes(transaction: &mut Transaction<'_>) {
    let now = transaction.now;
    let timeout = i64::from(transaction.cluster.config.timeouts.slurmd_secs);
    let mut quiet = Vec::new();
    let mut lost = Vec::new();
    for (index, heard) in &transaction.cluster.last_heard {
        if transaction.cluster.connected.contains(index)
            && now.since(*heard) < timeout.max(NO_RESPOND_SECS)
        {
            continue;
        }
        let Some(node) = transaction.cluster.node(*index) else {
            continue;
        };
        if matches!(
            node.state.base,
            NodeState::Down | NodeState::Unknown | NodeState::Future
        ) {
            continue;
        }
        let silence = now.since(*heard);
        if timeout > 0 && silence >= timeout {
            lost.push(node.config.name.clone());
        } else if silence >= NO_RESPOND_SECS
            && !node.state.flags.contains(NodeStateFlags::NO_RESPOND)
        {
            quiet.push(node.config.name.clone());
        }
    }
    for name in quiet {
        let Some((_, node)) = transaction.cluster.node_named(&name) else {
            continue;
        };
        let mut state = node.state;
        state.flags.insert(NodeStateFlags::NO_RESPOND);
        let reason = node.reason.clone();
        transaction.emit(Event::NodeStateSet {
            node: name,
            state,
            reason,
            uid: 0,
            time: now,
        });
    }
    for name in lost {
        let Some((_, node)) = transaction.cluster.node_named(&name) else {
            continue;
        };
        let mut state = node.state;
        state.base = NodeState::Down;
        state.flags.insert(NodeStateFlags::NO_RESPOND);
        let reason = Some(agent::NOT_RESPONDING.to_owned());
        transaction.emit(Event::NodeStateSet {
            node: name.clone(),
            state,
            reason,
            uid: 0,
            time: now,
        });
        agent::fail_jobs(transaction, &name, agent::NOT_RESPONDING);
        transaction.wake_planner();
    }
}

/// `after:id+minutes` is met by the clock.
fn delayed_dependencies(transaction: &mut Transaction<'_>) {
    let due: Vec<JobId> = transaction
        .cluster
        .dependents
        .values()
        .flat_map(|jobs| jobs.iter().copied())
        .filter(|id| {
            transaction.cluster.job(*id).is_some_and(|job| {
                job.is_queued()
                    && job
                        .dependency
                        .terms
                        .iter()
                        .any(|(term, _)| term.minutes > 0)
            })
        })
        .collect();
    for id in due {
        dependency::reconsider(transaction, id);
    }
}

fn purge(transaction: &mut Transaction<'_>) {
    let age = i64::from(transaction.cluster.config.jobs.min_job_age_secs);
    if age == 0 {
        return;
    }
    let limit = transaction.now.0 - age;
    let jobs: Vec<JobId> = transaction
        .cluster
        .finished
        .iter()
        .take_while(|(end, _)| end.0 <= limit)
        .filter(|(_, id)| {
            transaction
                .cluster
                .job(*id)
                .is_none_or(|job| !job.state.is_completing())
        })
        .map(|(_, id)| *id)
        .take(PURGE_MAX)
        .collect();
    if jobs.is_empty() {
        return;
    }
    transaction.emit(Event::JobsPurged { jobs: jobs.clone() });
    for id in jobs {
        dependency::propagate(transaction, id);
    }
}
