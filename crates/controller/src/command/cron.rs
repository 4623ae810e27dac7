//! Crontabs: one job an entry, which waits for its next time, runs, and waits again under the same id. Source: scrontab(1).
//!
//! The engine knows no time zone: the shell says when an entry comes next. Invariant: an entry's next run is not queued before the
//! last one is over and cleaned up.

use std::sync::Arc;

use sluice_model::error_code::ErrorCode;
use sluice_model::ids::JobId;
use sluice_model::job::JobDescription;
use sluice_model::state::JobState;
use sluice_model::time::UnixSeconds;

use super::job_end::{self, Kill};
use super::submit::{self, Submission};
use super::{Caller, Rejection};
use crate::cluster::{Cluster, Crontab, Job};
use crate::effect::Effect;
use crate::event::{Event, JobEnd, Requeue};
use crate::transaction::Transaction;

/// Entries of one crontab.
const ENTRIES_MAX: usize = 200;

/// Longest text of a crontab.
const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// A crontab that is handed in.
#[derive(Debug, Clone)]
pub struct NewCrontab {
    /// Whose.
    pub uid: u32,
    /// Text.
    pub text: String,
    /// Job and line of each entry, in order.
    pub entries: Vec<(Submission, u32)>,
}

/// True when the configuration has scrontab.
#[must_use]
pub fn is_enabled(cluster: &Cluster) -> bool {
    has_parameter(cluster, "enable")
}

fn has_parameter(cluster: &Cluster, name: &str) -> bool {
    cluster
        .config
        .jobs
        .scron_parameters
        .iter()
        .any(|item| item.eq_ignore_ascii_case(name))
}

fn check(cluster: &Cluster, uid: u32, caller: &Caller) -> Result<(), Rejection> {
    if !is_enabled(cluster) {
        return Err(Rejection::with_text(
            ErrorCode::Disabled,
            "scrontab is disabled on this cluster\n\nhint: ScronParameters=enable in slurm.conf switches it on",
        ));
    }
    if caller.may_change(uid) {
        Ok(())
    } else {
        Err(ErrorCode::AccessDenied.into())
    }
}

/// Replaces a user's crontab. Entries that are as before keep their jobs; the jobs of the others are ended.
///
/// # Errors
/// The first entry whose job is refused; nothing is changed then.
pub fn put(
    transaction: &mut Transaction<'_>,
    new: NewCrontab,
    caller: &Caller,
) -> Result<Vec<JobId>, Rejection> {
    check(transaction.cluster, new.uid, caller)?;
    if new.entries.len() > ENTRIES_MAX || new.text.len() > TEXT_BYTES_MAX {
        return Err(Rejection::with_text(
            ErrorCode::MaxJobCount,
            format!("a crontab may have {ENTRIES_MAX} entries and {TEXT_BYTES_MAX} bytes"),
        ));
    }
    let mut before: Vec<JobId> = transaction
        .cluster
        .crontabs
        .get(&new.uid)
        .map(|crontab| crontab.entries.iter().map(|(job, _)| *job).collect())
        .unwrap_or_default();
    let mut entries = Vec::with_capacity(new.entries.len());
    for (submission, line) in new.entries {
        let kept = before
            .iter()
            .position(|id| is_same(transaction.cluster, *id, &submission));
        let id = match kept {
            Some(at) => before.remove(at),
            None => submit::submit(transaction, submission)?.job_id,
        };
        entries.push((id, line));
    }
    for id in before {
        end_entry(transaction, id, caller.uid);
    }
    let jobs = entries.iter().map(|(job, _)| *job).collect();
    transaction.emit(Event::CrontabSet {
        uid: new.uid,
        crontab: Some(Box::new(Crontab {
            text: new.text,
            entries,
        })),
    });
    Ok(jobs)
}

/// Removes a user's crontab and ends its jobs.
///
/// # Errors
/// Access denied; scrontab is off.
pub fn remove(
    transaction: &mut Transaction<'_>,
    uid: u32,
    caller: &Caller,
) -> Result<(), Rejection> {
    check(transaction.cluster, uid, caller)?;
    let Some(crontab) = transaction.cluster.crontabs.get(&uid).cloned() else {
        return Ok(());
    };
    for (id, _) in &crontab.entries {
        end_entry(transaction, *id, caller.uid);
    }
    transaction.emit(Event::CrontabSet { uid, crontab: None });
    Ok(())
}

/// A user's crontab.
///
/// # Errors
/// Access denied; scrontab is off.
pub fn get(
    cluster: &Cluster,
    uid: u32,
    caller: &Caller,
) -> Result<Option<Arc<Crontab>>, Rejection> {
    check(cluster, uid, caller)?;
    Ok(cluster.crontabs.get(&uid).cloned())
}

/// The part of a request that makes two entries the same.
fn essence(request: &JobDescription) -> JobDescription {
    JobDescription {
        submission_key: String::new(),
        begin_time: None,
        submit_sid: 0,
        submit_line: String::new(),
        submit_host: String::new(),
        script: None,
        environment: Vec::new(),
        std_in: None,
        std_out: None,
        partitions: Vec::new(),
        rlimits: Default::default(),
        ..request.clone()
    }
}

fn is_same(cluster: &Cluster, id: JobId, new: &Submission) -> bool {
    cluster.job(id).is_some_and(|job| {
        job.script == new.script.as_ref().map(|(id, _)| *id)
            && job.environment == new.environment.as_ref().map(|(id, _)| *id)
            && essence(&job.request) == essence(&new.description)
    })
}

fn end_entry(transaction: &mut Transaction<'_>, id: JobId, requester: u32) {
    let Some(job) = transaction.cluster.job(id).cloned() else {
        return;
    };
    if job.state.is_finished() {
        return;
    }
    if job.state.is_pending() {
        job_end::end_pending(
            transaction,
            id,
            JobState::Cancelled,
            job.reason,
            Some(requester),
        );
        return;
    }
    let time = transaction.now;
    job_end::end_running(
        transaction,
        JobEnd {
            job_id: id,
            state: JobState::Cancelled,
            reason: job.reason,
            reason_text: None,
            exit_status: Default::default(),
            time,
            requester: Some(requester),
            failed_node: None,
        },
        &Kill::Gently {
            cause: String::new(),
        },
    );
}

/// Jobs of crontabs whose run is over: id and calendar.
#[must_use]
pub fn over(cluster: &Cluster) -> Vec<(JobId, String)> {
    cluster
        .crontabs
        .values()
        .flat_map(|crontab| &crontab.entries)
        .filter_map(|(id, _)| {
            let job = cluster.job(*id)?;
            let ready = job.state.is_finished() && !job.state.is_completing();
            ready.then(|| job.request.cron_spec.clone().map(|spec| (*id, spec)))?
        })
        .collect()
}

/// Queues an entry's job again; one that somebody cancelled is switched off instead.
pub fn again(transaction: &mut Transaction<'_>, id: JobId, begin: Option<UnixSeconds>) {
    let Some(job) = transaction.cluster.job(id).cloned() else {
        return;
    };
    if !job.state.is_finished() || job.state.is_completing() {
        return;
    }
    let cancelled = job.state.base == JobState::Cancelled && job.kill_requester.is_some();
    match begin {
        Some(begin_time) if !cancelled => {
            let time = transaction.now;
            transaction.emit(Event::JobRequeued(Requeue {
                job_id: id,
                time,
                run_state: JobState::Pending,
                begin_time: Some(begin_time),
                hold: None,
                reason_text: None,
                special_exit: false,
                exit_status: job.exit_status,
                failed_node: None,
            }));
            transaction.effect(Effect::JobChanged { job: id });
            transaction.wake_planner();
        }
        _ => transaction.emit(Event::CrontabEntryDisabled {
            uid: job.request.uid,
            job: id,
        }),
    }
}

/// A crontab's job that may not be cancelled without a word that this is meant.
#[must_use]
pub fn needs_flag(cluster: &Cluster, job: &Job) -> bool {
    job.request.cron_spec.is_some()
        && has_parameter(cluster, "explicit_scancel")
        && cluster
            .crontabs
            .get(&job.request.uid)
            .is_some_and(|crontab| crontab.entries.iter().any(|(id, _)| *id == job.id))
}
