//! Ending and signalling jobs and steps: `scancel(1)`.

use sluice_model::error_code::ErrorCode;
use sluice_model::ids::{JobId, StepId};
use sluice_model::launch::{AgentOrder, SignalTarget};
use sluice_model::reason::Reason;
use sluice_model::state::JobState;

use super::job_end::{self, Kill};
use super::selector::{self, Selected};
use super::{Caller, Rejection, TargetOutcome};
use crate::cluster::{Job, NodePhase};
use crate::effect::Effect;
use crate::event::{Event, JobEnd};
use crate::transaction::Transaction;
use crate::view;

/// What is to be done to the jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SignalRequest {
    /// Signal; 0 = end the job.
    pub signal: i32,
    /// `--batch`.
    pub batch_only: bool,
    /// `--full`.
    pub full: bool,
    /// `--cron`.
    pub cron: bool,
}

const SIGKILL: i32 = 9;

/// Ends or signals everything the texts name.
pub fn signal_targets(
    transaction: &mut Transaction<'_>,
    targets: &[String],
    request: SignalRequest,
    caller: &Caller,
) -> Vec<TargetOutcome> {
    let mut outcomes = Vec::new();
    for target in targets {
        match selector::resolve(transaction.cluster, target) {
            Err(rejection) => {
                outcomes.push(TargetOutcome {
                    target: target.clone(),
                    job: None,
                    rejection: Some(rejection),
                });
            }
            Ok(selected) => {
                let several = selected.len() > 1;
                let mut done = false;
                let mut last = None;
                for one in &selected {
                    let rejection = signal_one(transaction, one, request, caller).err();
                    // An array's id names tasks that are over too; that some are is no error.
                    match rejection {
                        Some(r) if several && r.code == ErrorCode::AlreadyDone => {
                            last = Some((one.job, r))
                        }
                        rejection => {
                            done = true;
                            outcomes.push(TargetOutcome {
                                target: target.clone(),
                                job: Some(one.job),
                                rejection,
                            });
                        }
                    }
                }
                if let Some((job, rejection)) = last.filter(|_| !done) {
                    outcomes.push(TargetOutcome {
                        target: target.clone(),
                        job: Some(job),
                        rejection: Some(rejection),
                    });
                }
            }
        }
    }
    outcomes
}

fn signal_one(
    transaction: &mut Transaction<'_>,
    selected: &Selected,
    request: SignalRequest,
    caller: &Caller,
) -> Result<(), Rejection> {
    let job = transaction
        .cluster
        .job(selected.job)
        .cloned()
        .ok_or(ErrorCode::InvalidJobId)?;
    if !caller.may_change_job(&job) {
        return Err(ErrorCode::AccessDenied.into());
    }
    if !request.cron && super::cron::needs_flag(transaction.cluster, &job) {
        return Err(ErrorCode::CronJobCancel.into());
    }
    if let Some(step) = selected.step {
        return signal_step(transaction, &job, step, request, caller);
    }
    if job.state.is_finished() {
        return Err(ErrorCode::AlreadyDone.into());
    }
    if job.state.is_pending()
        && super::het::is_follower(&job)
        && (request.signal == 0 || request.signal == SIGKILL)
    {
        // Named by the leader's id it has ended with the leader by now.
        return Err(ErrorCode::NotWholeHetJob.into());
    }
    if job.state.is_pending() {
        // Signals other than KILL mean nothing to a job that waits.
        if request.signal == 0 || request.signal == SIGKILL {
            cancel_pending(transaction, &job, selected.tasks.as_deref(), caller.uid);
        }
        return Ok(());
    }
    if request.signal == 0 {
        let time = transaction.now;
        job_end::end_running(
            transaction,
            JobEnd {
                job_id: job.id,
                state: JobState::Cancelled,
                reason: Reason::None,
                reason_text: None,
                exit_status: Default::default(),
                time,
                requester: Some(caller.uid),
                failed_node: None,
            },
            &Kill::Gently {
                cause: "DUE to SIGNAL Terminated".to_owned(),
            },
        );
        return Ok(());
    }
    let target = match (
        request.batch_only,
        request.full || request.signal == SIGKILL,
    ) {
        (true, _) => SignalTarget::BatchShell,
        (false, true) => SignalTarget::Full,
        (false, false) => SignalTarget::Steps,
    };
    send_signal(transaction, &job, target, request.signal);
    Ok(())
}

/// Cancels a job that waits, or some unstarted tasks of an array.
fn cancel_pending(transaction: &mut Transaction<'_>, job: &Job, tasks: Option<&[u32]>, uid: u32) {
    let Some(tasks) = tasks else {
        // What it waited for stays visible after its end.
        let (reason, _) = view::shown_reason(transaction.cluster, job, transaction.now);
        job_end::end_pending(transaction, job.id, JobState::Cancelled, reason, Some(uid));
        return;
    };
    let first = transaction.cluster.next_job_id.0;
    let split_ids: Vec<JobId> = (0..tasks.len() as u32)
        .map(|offset| JobId(first + offset))
        .collect();
    let time = transaction.now;
    let job_id = job.id;
    transaction.emit(Event::ArrayTasksRemoved {
        job_id,
        tasks: tasks.to_vec(),
        split_ids,
        requester: uid,
        time,
    });
    transaction.effect(Effect::JobChanged { job: job_id });
    super::dependency::propagate(transaction, job_id);
    transaction.wake_planner();
}

fn signal_step(
    transaction: &mut Transaction<'_>,
    job: &Job,
    step_id: StepId,
    request: SignalRequest,
    caller: &Caller,
) -> Result<(), Rejection> {
    let step = job
        .steps
        .get(&step_id)
        .cloned()
        .ok_or(ErrorCode::InvalidJobId)?;
    if step.end_time.is_some() || job.state.is_finished() {
        return Err(ErrorCode::AlreadyDone.into());
    }
    if request.signal == 0 || request.signal == SIGKILL {
        // Remember who ended it: the step is recorded as cancelled by that user.
        let mut updated = (*job).clone();
        if let Some(record) = updated.steps.get_mut(&step_id) {
            std::sync::Arc::make_mut(record).kill_requester = Some(caller.uid);
        }
        let time = transaction.now;
        transaction.emit(Event::JobUpdated {
            job: Box::new(updated),
            time,
        });
    }
    // As with Slurm a step that is cancelled is killed; only jobs are given time.
    let signal = match request.signal {
        0 => SIGKILL,
        signal => signal,
    };
    for layout in &step.layout.nodes {
        transaction.order(
            &layout.node,
            AgentOrder::Signal {
                job_id: job.id,
                target: SignalTarget::Step(step_id),
                signal,
            },
        );
    }
    Ok(())
}

/// Sends a signal to a job's processes on every node it runs on.
pub fn send_signal(
    transaction: &mut Transaction<'_>,
    job: &Job,
    target: SignalTarget,
    signal: i32,
) {
    let Some(allocation) = &job.allocation else {
        return;
    };
    for part in &allocation.nodes {
        if part.phase == NodePhase::Ready || part.phase == NodePhase::Prolog {
            transaction.order(
                &part.name,
                AgentOrder::Signal {
                    job_id: job.id,
                    target,
                    signal,
                },
            );
        }
    }
}
