//! Keeps dependencies decided: whenever a job starts, ends or vanishes, the jobs that wait for it are looked at again.
//!
//! Source of the rules: `sbatch(1)` --dependency. Once failed, a term stays failed. Singletons are judged by the queue
//! ([`crate::queue::eligibility`]), not here.

use std::sync::Arc;

use petgraph::graphmap::DiGraphMap;
use sluice_model::dependency::{DependencyKind, DependencyTerm};
use sluice_model::error_code::ErrorCode;
use sluice_model::ids::JobId;
use sluice_model::reason::Reason;
use sluice_model::state::{JobState, JobStateFlags};
use sluice_model::time::UnixSeconds;

use super::{Rejection, job_end, mail};
use crate::cluster::{Cluster, DependencyState, DependencyStatus, Job, dependency_target};
use crate::event::Event;
use crate::transaction::Transaction;

/// One target record's standing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Waits, or is being configured.
    Waiting,
    /// Runs since then.
    Started(UnixSeconds),
    /// Over, with success or not; `settled` once COMPLETING is over.
    Over {
        ok: bool,
        special: bool,
        settled: bool,
        start: Option<UnixSeconds>,
    },
}

fn standing(job: &Job) -> Standing {
    let special = job.state.flags.contains(JobStateFlags::SPECIAL_EXIT);
    if job.state.is_finished() {
        return Standing::Over {
            ok: job.state.base == JobState::Completed,
            special,
            settled: !job.state.is_completing(),
            start: job.start_time,
        };
    }
    if special {
        return Standing::Over {
            ok: false,
            special: true,
            settled: true,
            start: job.start_time,
        };
    }
    match job.state.base {
        JobState::Pending => Standing::Waiting,
        _ if job.state.flags.contains(JobStateFlags::CONFIGURING) => Standing::Waiting,
        _ => Standing::Started(job.start_time.unwrap_or_default()),
    }
}

/// Records a term is about: all of the target array, one task, or (for aftercorr) the task with the dependent's own index.
fn targets<'a>(
    cluster: &'a Cluster,
    term: &DependencyTerm,
    own_task: Option<u32>,
) -> Vec<&'a Arc<Job>> {
    let members: Vec<&Arc<Job>> = cluster
        .array_members(term.job)
        .into_iter()
        .filter_map(|id| cluster.job(id))
        .collect();
    let wanted = match term.kind {
        DependencyKind::AfterCorr => term.array_task.or(own_task),
        _ => term.array_task,
    };
    match wanted {
        Some(task) if members.iter().any(|job| job.array.is_some()) => members
            .into_iter()
            .filter(|job| {
                job.array.as_ref().is_some_and(|a| {
                    a.task_id == Some(task)
                        || (a.task_id.is_none() && a.pending.tasks.contains(task))
                })
            })
            .collect(),
        _ => members,
    }
}

/// Judges one term.
#[must_use]
pub fn evaluate(
    cluster: &Cluster,
    term: &DependencyTerm,
    own_task: Option<u32>,
    now: UnixSeconds,
) -> DependencyStatus {
    use DependencyStatus::{Failed, Fulfilled, Unfulfilled};
    if term.kind == DependencyKind::Singleton {
        return Unfulfilled;
    }
    let records = targets(cluster, term, own_task);
    if records.is_empty() {
        // Purged or never known: met, except for those that need the outcome.
        return match term.kind {
            DependencyKind::AfterOk | DependencyKind::AfterNotOk | DependencyKind::AfterCorr => {
                Failed
            }
            _ => Fulfilled,
        };
    }
    let standings: Vec<Standing> = records.iter().map(|job| standing(job)).collect();
    let all_over = standings
        .iter()
        .all(|s| matches!(s, Standing::Over { settled: true, .. }));
    let all_ok = standings
        .iter()
        .all(|s| matches!(s, Standing::Over { ok: true, .. }));
    let any_bad = standings
        .iter()
        .any(|s| matches!(s, Standing::Over { ok: false, .. }));
    let any_special = standings
        .iter()
        .any(|s| matches!(s, Standing::Over { special: true, .. }));
    match term.kind {
        DependencyKind::After => {
            let wait = i64::from(term.minutes) * 60;
            let met = standings.iter().all(|s| match s {
                Standing::Waiting => false,
                Standing::Started(start) => now.since(*start) >= wait,
                Standing::Over { start, .. } => {
                    wait == 0 || start.is_none_or(|start| now.since(start) >= wait)
                }
            });
            if met { Fulfilled } else { Unfulfilled }
        }
        DependencyKind::AfterAny | DependencyKind::AfterBurstBuffer => {
            if all_over {
                Fulfilled
            } else {
                Unfulfilled
            }
        }
        DependencyKind::AfterOk | DependencyKind::AfterCorr => {
            if any_bad {
                Failed
            } else if all_over && all_ok {
                Fulfilled
            } else {
                Unfulfilled
            }
        }
        DependencyKind::AfterNotOk => {
            if any_special || (all_over && any_bad) {
                Fulfilled
            } else if all_over {
                Failed
            } else {
                Unfulfilled
            }
        }
        DependencyKind::Singleton | DependencyKind::Expand => Unfulfilled,
    }
}

/// Looks again at every job that depends on `target` (or on its array).
pub fn propagate(transaction: &mut Transaction<'_>, target: JobId) {
    let array = transaction
        .cluster
        .job(target)
        .map(|job| job.array_job_id());
    let mut waiting: Vec<JobId> = Vec::new();
    for id in [Some(target), array.filter(|array| *array != target)]
        .into_iter()
        .flatten()
    {
        if let Some(jobs) = transaction.cluster.dependents.get(&id) {
            waiting.extend(jobs.iter().copied());
        }
    }
    for id in waiting {
        reconsider(transaction, id);
    }
}

/// Looks again at one job's open terms.
pub fn reconsider(transaction: &mut Transaction<'_>, id: JobId) {
    let Some(job) = transaction.cluster.job(id).cloned() else {
        return;
    };
    if !job.state.is_pending() {
        return;
    }
    let own_task = job.array.as_ref().and_then(|array| array.task_id);
    let corresponds = job.dependency.terms.iter().any(|(term, status)| {
        term.kind == DependencyKind::AfterCorr && *status == DependencyStatus::Unfulfilled
    });
    if corresponds && job.is_array_master() {
        split_corresponding(transaction, &job);
        return;
    }
    let mut changed = false;
    for (index, (term, status)) in job.dependency.terms.iter().enumerate() {
        if *status != DependencyStatus::Unfulfilled {
            continue;
        }
        let new = evaluate(transaction.cluster, term, own_task, transaction.now);
        if new != DependencyStatus::Unfulfilled {
            changed = true;
            let time = transaction.now;
            transaction.emit(Event::DependencyDecided {
                job_id: id,
                term: index as u32,
                status: new,
                time,
            });
        }
    }
    if !changed {
        return;
    }
    transaction.wake_planner();
    let failed = transaction
        .cluster
        .job(id)
        .is_some_and(|job| job.dependency.has_failed());
    let kill = job.request.kill_on_invalid_dep.unwrap_or(
        transaction
            .cluster
            .config
            .scheduling
            .dependency
            .kill_invalid_depend,
    );
    if failed {
        mail::notify(transaction, &job, mail::MailEvent::InvalidDependency);
    }
    if failed && kill {
        job_end::end_pending(
            transaction,
            id,
            JobState::Cancelled,
            Reason::DependencyNeverSatisfied,
            None,
        );
    }
}

/// aftercorr of the record of unstarted tasks: a task whose counterpart is over gets a record of its own, which is then judged
/// alone; the others go on waiting together.
fn split_corresponding(transaction: &mut Transaction<'_>, job: &Job) {
    let Some(array) = &job.array else { return };
    let ready: Vec<u32> = array
        .pending
        .tasks
        .iter()
        .filter(|task| {
            job.dependency.terms.iter().any(|(term, status)| {
                term.kind == DependencyKind::AfterCorr
                    && *status == DependencyStatus::Unfulfilled
                    && evaluate(transaction.cluster, term, Some(*task), transaction.now)
                        != DependencyStatus::Unfulfilled
            })
        })
        .collect();
    let mut left = array.pending.tasks.len();
    for task in ready {
        let split_id = (left > 1).then_some(transaction.cluster.next_job_id);
        transaction.emit(Event::ArrayTaskSplit {
            job_id: job.id,
            task,
            split_id,
        });
        left -= 1;
        reconsider(transaction, split_id.unwrap_or(job.id));
    }
}

/// Reads `--dependency` for a job and judges each term once.
///
/// # Errors
/// Dependency problem (2038) for a bad text, an unknown target of afterok/afternotok, or a job depending on itself; circular
/// dependency (2071).
pub fn resolve(
    cluster: &Cluster,
    own: Option<JobId>,
    is_array: bool,
    text: &str,
    now: UnixSeconds,
) -> Result<DependencyState, Rejection> {
    let expression: sluice_model::dependency::DependencyExpr =
        text.parse()
            .map_err(|error: sluice_model::dependency::DependencyError| {
                Rejection::with_text(
                    ErrorCode::Dependency,
                    format!("{}: {error}", ErrorCode::Dependency.message()),
                )
            })?;
    let mut terms = Vec::new();
    for term in expression.terms {
        if let Some(target) = dependency_target(&term) {
            if Some(target) == own {
                return Err(Rejection::new(ErrorCode::Dependency));
            }
            let needs_outcome = matches!(
                term.kind,
                DependencyKind::AfterOk | DependencyKind::AfterNotOk | DependencyKind::AfterCorr
            );
            if needs_outcome && cluster.array_members(target).is_empty() {
                return Err(Rejection::new(ErrorCode::Dependency));
            }
        }
        // An array's tasks are judged one by one once the record exists.
        let status = match term.kind {
            DependencyKind::AfterCorr if is_array => DependencyStatus::Unfulfilled,
            _ => evaluate(cluster, &term, None, now),
        };
        terms.push((term, status));
    }
    let state = DependencyState {
        any: expression.any,
        terms,
    };
    if let Some(own) = own
        && is_circular(cluster, own, &state)
    {
        return Err(Rejection::new(ErrorCode::CircularDependency));
    }
    Ok(state)
}

/// Would `own` wait for itself through other jobs?
fn is_circular(cluster: &Cluster, own: JobId, state: &DependencyState) -> bool {
    let mut graph = DiGraphMap::<u32, ()>::new();
    let mut open: Vec<JobId> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for (term, status) in &state.terms {
        if let Some(target) =
            dependency_target(term).filter(|_| *status == DependencyStatus::Unfulfilled)
        {
            graph.add_edge(own.0, target.0, ());
            open.push(target);
        }
    }
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        for member in cluster.array_members(id) {
            let Some(job) = cluster.job(member) else {
                continue;
            };
            if member != id {
                graph.add_edge(id.0, member.0, ());
            }
            if member == own {
                continue;
            }
            for (term, status) in &job.dependency.terms {
                if let Some(target) =
                    dependency_target(term).filter(|_| *status == DependencyStatus::Unfulfilled)
                {
                    graph.add_edge(member.0, target.0, ());
                    open.push(target);
                }
            }
        }
    }
    petgraph::algo::is_cyclic_directed(&graph)
}
