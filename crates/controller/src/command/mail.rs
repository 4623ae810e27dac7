//! Mail about a job: which of its events its user wants to hear of, and the subject line. Source: sbatch(1) --mail-type.
//!
//! One mail for the whole of an array unless `ARRAY_TASKS` is asked for: BEGIN when its first task starts, END or FAIL when its last
//! one is over.

use sluice_model::state::JobState;
use sluice_model::time::format_duration_full;

use crate::cluster::{Cluster, Job};
use crate::effect::Effect;
use crate::transaction::Transaction;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailEvent {
    /// It started.
    Begin,
    /// It is over; how, its state tells.
    End,
    /// It went back to the queue.
    Requeue,
    /// Its dependency can never be met.
    InvalidDependency,
}

fn wants(types: &str, words: &[&str]) -> bool {
    types
        .split(',')
        .map(str::trim)
        .any(|word| words.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

/// Asks the shell for a mail if the job's user wants one.
pub fn notify(transaction: &mut Transaction<'_>, job: &Job, event: MailEvent) {
    let Some(types) = job.request.mail_type.as_deref() else {
        return;
    };
    let failed = job.state.is_finished() && job.state.base != JobState::Completed;
    let wanted = match event {
        MailEvent::Begin => wants(types, &["BEGIN", "ALL"]),
        MailEvent::End => {
            wants(types, &["END", "ALL"])
                || failed && wants(types, &["FAIL"])
                || job.state.base == JobState::Timeout && wants(types, &["TIME_LIMIT"])
        }
        MailEvent::Requeue => wants(types, &["REQUEUE", "ALL"]),
        MailEvent::InvalidDependency => wants(types, &["INVALID_DEPEND", "ALL"]),
    };
    let each_task = wants(types, &["ARRAY_TASKS"]);
    if !wanted || !each_task && !speaks_for_its_array(transaction.cluster, job, event) {
        return;
    }
    let to = match job
        .request
        .mail_user
        .as_deref()
        .filter(|user| !user.is_empty())
    {
        Some(user) => user.to_owned(),
        None => match &transaction.cluster.config.jobs.mail_domain {
            Some(domain) => format!("{}@{domain}", job.user_name),
            None => job.user_name.clone(),
        },
    };
    let subject = subject(job, event, each_task, transaction.now.0);
    transaction.effect(Effect::Mail { to, subject });
}

/// For an array the first task to start, and the last one to end, speak for all.
fn speaks_for_its_array(cluster: &Cluster, job: &Job, event: MailEvent) -> bool {
    let Some(array) = &job.array else { return true };
    let mut others = cluster
        .array_members(array.array_job_id)
        .into_iter()
        .filter(|id| *id != job.id)
        .filter_map(|id| cluster.job(id));
    match event {
        MailEvent::Begin => others.all(|other| other.start_time.is_none()),
        MailEvent::End => others.all(|other| other.state.is_finished()),
        MailEvent::Requeue | MailEvent::InvalidDependency => true,
    }
}

fn subject(job: &Job, event: MailEvent, each_task: bool, now: i64) -> String {
    let name = job.request.name.as_deref().unwrap_or("");
    let id = match (&job.array, job.array_task()) {
        (Some(array), Some(task)) if each_task => {
            format!("{}_{task} ({})", array.array_job_id, job.id)
        }
        (Some(array), _) => format!("{}_* ({})", array.array_job_id, array.array_job_id),
        _ => job.id.to_string(),
    };
    let what = match event {
        MailEvent::Begin => {
            let queued = job
                .start_time
                .map_or(0, |start| start.0 - job.submit_time.0);
            format!("Began, Queued time {}", format_duration_full(queued))
        }
        MailEvent::End => {
            let ended = match job.state.base {
                JobState::Completed => "Ended",
                JobState::Failed => "Failed",
                _ => "Ended",
            };
            let run = job.end_time.unwrap_or_default().0 - job.start_time.unwrap_or_default().0;
            let code = match (job.exit_status.signal(), job.exit_status.code()) {
                (0, code) => format!("ExitCode {code}"),
                (signal, _) => format!("TermSignal {signal}"),
            };
            format!(
                "{ended}, Run time {}, {}, {code}",
                format_duration_full(run.max(0)),
                job.state.base.name()
            )
        }
        MailEvent::Requeue => {
            let run = job.start_time.map_or(0, |start| (now - start.0).max(0));
            format!("Requeued, Run time {}", format_duration_full(run))
        }
        MailEvent::InvalidDependency => "Invalid dependency".to_owned(),
    };
    format!("Slurm Job_id={id} Name={name} {what}")
}
