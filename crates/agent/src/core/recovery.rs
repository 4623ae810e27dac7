//! What survives a restart of the agent: the record of each job in the spool, and what is made of it.
//!
//! The record says which phase a job had reached; the step's folders say which steps exist. Scripts that were running when
//! the agent ended are run again, because nothing tells how far they came.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sluice_model::ids::{JobId, StepId};
use sluice_model::launch::{JobOnNode, StepLaunch};

use super::{AgentCore, Effect, Ending, Job, Phase, StepPhase};

/// A job in the spool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// What the controller said about it.
    pub info: JobOnNode,
    /// Phase.
    pub phase: RecordedPhase,
    /// Steps that wait for the Prolog.
    #[serde(default)]
    pub queued: Vec<StepLaunch>,
    /// An end that was ordered while the Prolog ran, and waits for it.
    #[serde(default)]
    pub ending: Option<RecordedEnding>,
}

/// An end in the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedEnding {
    /// See [`Ending::silent`].
    pub silent: bool,
    /// See [`Ending::report_attempt`].
    pub report_attempt: u32,
}

/// A phase in the spool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum RecordedPhase {
    /// The Prolog was running.
    Prolog,
    /// The Prolog had succeeded.
    Ready,
    /// The Prolog had failed.
    PrologFailed,
    /// The job was being ended, or its Epilog was running.
    Ending {
        /// See [`Ending::silent`].
        silent: bool,
        /// See [`Ending::report_attempt`].
        report_attempt: u32,
    },
    /// The Epilog has been reported.
    Done,
}

/// What was found about a step in the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundStep {
    /// Its end has been reported.
    Reported,
    /// Anything else: the shell watches it and answers with `on_step_ready` or `on_step_exit`.
    Unfinished,
}

/// A step in the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveredStep {
    /// Step.
    pub step_id: StepId,
    /// State.
    pub found: FoundStep,
}

impl AgentCore {
    /// The record of a job for the spool.
    pub fn record(&self, id: JobId) -> Option<JobRecord> {
        let job = self.jobs.get(&id)?;
        let phase = match &job.phase {
            Phase::Prolog { .. } => RecordedPhase::Prolog,
            Phase::Ready => RecordedPhase::Ready,
            Phase::PrologFailed => RecordedPhase::PrologFailed,
            Phase::Ending(ending) | Phase::Epilog(ending) => RecordedPhase::Ending {
                silent: ending.silent,
                report_attempt: ending.report_attempt,
            },
            Phase::Done => RecordedPhase::Done,
        };
        Some(JobRecord {
            info: job.info.clone(),
            phase,
            queued: job.queued.clone(),
            ending: match &job.phase {
                Phase::Prolog {
                    ending: Some(ending),
                } => Some(RecordedEnding {
                    silent: ending.silent,
                    report_attempt: ending.report_attempt,
                }),
                _ => None,
            },
        })
    }

    /// Takes a job of an earlier life of the agent back.
    pub fn recover(
        &mut self,
        record: JobRecord,
        steps: &[RecoveredStep],
        now: Instant,
    ) -> Vec<Effect> {
        let id = record.info.job_id;
        let mut job = Job::new(record.info, Phase::Ready);
        for step in steps {
            let phase = match step.found {
                FoundStep::Reported => StepPhase::Ended,
                FoundStep::Unfinished => StepPhase::Starting,
            };
            job.steps.insert(step.step_id, phase);
        }
        let effects = match record.phase {
            RecordedPhase::Prolog => {
                let ending = record
                    .ending
                    .map(|ending| Box::new(ended_before(ending, now)));
                job.phase = Phase::Prolog { ending };
                job.queued = record.queued;
                vec![Effect::RunProlog(job.info.clone())]
            }
            RecordedPhase::Ready => Vec::new(),
            RecordedPhase::PrologFailed => {
                job.phase = Phase::PrologFailed;
                Vec::new()
            }
            RecordedPhase::Ending {
                silent,
                report_attempt,
            } => {
                let ending = RecordedEnding {
                    silent,
                    report_attempt,
                };
                job.phase = Phase::Ending(ended_before(ending, now));
                job.continue_ending(id)
            }
            RecordedPhase::Done => {
                job.phase = Phase::Done;
                Vec::new()
            }
        };
        self.jobs.insert(id, job);
        effects
    }
}

/// An end that an earlier life was told of. The step daemons know their own grace; the controller repeats its order with what
/// is left of it.
fn ended_before(recorded: RecordedEnding, now: Instant) -> Ending {
    Ending {
        grace: Duration::ZERO,
        kill_at: now,
        silent: recorded.silent,
        report_attempt: recorded.report_attempt,
        message: String::new(),
        unkillable: false,
    }
}
