//! The agent's decisions: which job is in which phase on this node, and what follows from an order, a report of the
//! system, or the passing of time.
//!
//! Pure: no I/O, no clock, no tokio; instants arrive as arguments and everything to be done leaves as [`Effect`]s, which
//! the shell carries out in order. Invariants: an order that arrives twice changes nothing the second time; an order of an
//! older attempt than the job's is ignored; a step is started at most once per job, attempt and step; the Epilog starts
//! after the last step of the job is gone, and its end is reported once.

mod effect;
mod job;
mod orders;
mod recovery;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::{JobId, StepId};
use sluice_model::launch::{AgentReport, LiveStep, StepExit, StepLaunch, StepUsage};
use sluice_model::time::UnixSeconds;
use sluice_stepd::control::ControlRequest;

pub use effect::Effect;
pub use job::{Ending, Job, Phase, StepPhase};
pub use recovery::{FoundStep, JobRecord, RecordedEnding, RecordedPhase, RecoveredStep};

/// Signal in the status of a step that was never started because its job ended first.
const SIGTERM: i32 = 15;

/// What the configuration says about ending things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreSettings {
    /// Grace between SIGTERM and SIGKILL of a step that is ended alone.
    pub kill_wait: Duration,
    /// How long a process may survive SIGKILL before the node is drained.
    pub unkillable_step: Duration,
}

/// All jobs of this node.
#[derive(Debug)]
pub struct AgentCore {
    settings: CoreSettings,
    jobs: BTreeMap<JobId, Job>,
}

impl AgentCore {
    /// Without jobs.
    pub fn new(settings: CoreSettings) -> Self {
        Self {
            settings,
            jobs: BTreeMap::new(),
        }
    }

    /// After a change of the configuration.
    pub fn set_settings(&mut self, settings: CoreSettings) {
        self.settings = settings;
    }

    /// A job by id.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// Number of jobs here.
    pub fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// (job, attempt) of every job whose Prolog has begun here and whose end is not yet acknowledged.
    pub fn known_jobs(&self) -> Vec<(JobId, u32)> {
        self.jobs
            .iter()
            .map(|(id, job)| (*id, job.info.attempt))
            .collect()
    }

    /// Every step that was started here and is part of a known job, ended or not.
    pub fn known_steps(&self) -> Vec<LiveStep> {
        self.jobs
            .values()
            .flat_map(|job| job.steps.keys().map(|step| job.step(*step)))
            .collect()
    }

    /// The Prolog has ended; `error` is the drain reason.
    pub fn on_prolog_done(
        &mut self,
        id: JobId,
        attempt: u32,
        error: Option<String>,
    ) -> Vec<Effect> {
        let Some(job) = self
            .jobs
            .get_mut(&id)
            .filter(|job| job.info.attempt == attempt)
        else {
            return Vec::new();
        };
        let Phase::Prolog { ending } = &mut job.phase else {
            return Vec::new();
        };
        let ending = ending.take();
        let failed = error.is_some();
        let mut effects = vec![Effect::Report(AgentReport::PrologDone {
            job_id: id,
            attempt,
            error,
        })];
        let queued = std::mem::take(&mut job.queued);
        job.phase = if failed {
            Phase::PrologFailed
        } else {
            Phase::Ready
        };
        // The report first: an agent that dies in between runs the script again and reports it again, instead of never.
        effects.push(Effect::StoreJob(id));
        if let Some(ending) = ending {
            effects.extend(
                queued
                    .iter()
                    .map(|launch| Effect::Report(never_started(launch, None))),
            );
            effects.extend(job.begin_ending(id, *ending));
        } else if failed {
            let text = Some("Prolog failed on this node".to_owned());
            effects.extend(
                queued
                    .iter()
                    .map(|launch| Effect::Report(never_started(launch, text.clone()))),
            );
        } else {
            for launch in queued {
                job.steps.insert(launch.step_id, StepPhase::Starting);
                effects.push(Effect::StartStep(Box::new(launch)));
            }
        }
        effects
    }

    /// The step's processes exist.
    pub fn on_step_ready(&mut self, step: LiveStep, pids: Vec<u32>) -> Vec<Effect> {
        let Some(phase) = self
            .step_mut(step)
            .filter(|phase| **phase == StepPhase::Starting)
        else {
            return Vec::new();
        };
        *phase = StepPhase::Running { pids: pids.clone() };
        vec![Effect::Report(step_started(step, pids))]
    }

    /// The start of every running step once more, for a controller that may not have heard of it.
    pub fn running_steps(&self) -> Vec<AgentReport> {
        let running = |job: &Job| {
            let mut reports = Vec::new();
            for (step_id, phase) in &job.steps {
                if let StepPhase::Running { pids } = phase {
                    reports.push(step_started(job.step(*step_id), pids.clone()));
                }
            }
            reports
        };
        self.jobs.values().flat_map(running).collect()
    }

    /// The step is over. A record of a job that is not known (any more) is reported all the same.
    pub fn on_step_exit(&mut self, exit: StepExit) -> Vec<Effect> {
        let step = LiveStep {
            job_id: exit.job_id,
            attempt: exit.attempt,
            step_id: exit.step_id,
        };
        match self.step_mut(step) {
            Some(phase) if *phase == StepPhase::Ended => return Vec::new(),
            Some(phase) => *phase = StepPhase::Ended,
            None => {}
        }
        let silent = self.jobs.get(&step.job_id).is_some_and(Job::is_silent);
        let mut effects = Vec::new();
        if !silent {
            effects.push(Effect::Report(AgentReport::StepEnded(exit)));
        }
        effects.push(Effect::StepReported(step));
        if let Some(job) = self.jobs.get_mut(&step.job_id) {
            effects.extend(job.continue_ending(step.job_id));
        }
        effects
    }

    /// The Epilog has ended; `error` is the drain reason.
    pub fn on_epilog_done(&mut self, id: JobId, error: Option<String>) -> Vec<Effect> {
        let Some(job) = self.jobs.get_mut(&id) else {
            return Vec::new();
        };
        let Phase::Epilog(ending) = &job.phase else {
            return Vec::new();
        };
        let (silent, attempt) = (ending.silent, ending.report_attempt);
        let next = job.next.take();
        let mut effects = Vec::new();
        if let Some(reason) = error.clone().filter(|_| silent) {
            effects.push(Effect::Report(AgentReport::Drain { reason }));
        }
        if !silent {
            job.phase = Phase::Done;
            // In this order: killed in between, the agent runs the Epilog again rather than never reporting it.
            effects.push(Effect::Report(AgentReport::EpilogDone {
                job_id: id,
                attempt,
                error,
            }));
            effects.push(Effect::StoreJob(id));
        }
        if silent || next.is_some() {
            self.jobs.remove(&id);
            effects.push(Effect::ForgetJob(id));
        }
        if let Some(next) = next {
            effects.extend(self.start_job(*next));
        }
        effects
    }

    /// The controller has stored a report.
    pub fn on_acknowledged(&mut self, report: &AgentReport) -> Vec<Effect> {
        let AgentReport::EpilogDone { job_id, .. } = report else {
            return Vec::new();
        };
        match self.jobs.get(job_id) {
            Some(job) if job.phase == Phase::Done => {
                self.jobs.remove(job_id);
                vec![Effect::ForgetJob(*job_id)]
            }
            _ => Vec::new(),
        }
    }

    /// Looks for processes that survive SIGKILL.
    pub fn on_tick(&mut self, now: Instant) -> Vec<Effect> {
        let limit = self.settings.unkillable_step;
        let mut effects = Vec::new();
        for (id, job) in &mut self.jobs {
            let live = job.live_steps();
            let Phase::Ending(ending) = &mut job.phase else {
                continue;
            };
            if !ending.unkillable && now.saturating_duration_since(ending.kill_at) > limit {
                ending.unkillable = true;
                effects.push(Effect::Report(AgentReport::Drain {
                    reason: "Kill task failed".to_owned(),
                }));
                effects.extend(
                    live.into_iter()
                        .map(|step_id| Effect::RunUnkillableProgram {
                            job_id: *id,
                            step_id,
                        }),
                );
            }
        }
        effects
    }

    fn step_mut(&mut self, step: LiveStep) -> Option<&mut StepPhase> {
        self.jobs
            .get_mut(&step.job_id)
            .filter(|job| job.info.attempt == step.attempt)?
            .steps
            .get_mut(&step.step_id)
    }
}

/// Report of a step that never had a process: ended with its job, or refused for a reason.
fn never_started(launch: &StepLaunch, launch_error: Option<String>) -> AgentReport {
    let status = if launch_error.is_some() {
        WaitStatus::exited(1)
    } else {
        WaitStatus::signaled(SIGTERM)
    };
    AgentReport::StepEnded(StepExit {
        job_id: launch.job_id,
        attempt: launch.attempt,
        step_id: launch.step_id,
        tasks: launch.task_ids.iter().map(|rank| (*rank, status)).collect(),
        launch_error,
        usage: StepUsage::default(),
        // 0 = the controller takes its own time; the core has no clock.
        end_time: UnixSeconds(0),
    })
}

fn step_started(step: LiveStep, pids: Vec<u32>) -> AgentReport {
    AgentReport::StepStarted {
        job_id: step.job_id,
        attempt: step.attempt,
        step_id: step.step_id,
        pids,
    }
}

fn control(step: LiveStep, request: ControlRequest) -> Effect {
    Effect::Control { step, request }
}

fn is_batch(step: StepId) -> bool {
    step == StepId::Batch
}
