//! One job on this node: its phase, its steps, and how its end proceeds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_model::ids::{JobId, StepId};
use sluice_model::launch::{JobOnNode, LiveStep, StepLaunch};
use sluice_stepd::control::ControlRequest;

use super::{Effect, control};

/// How a job is being ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    /// Grace between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// When SIGKILL is (or was) sent.
    pub kill_at: Instant,
    /// The controller does not know the job: nothing about it is reported.
    pub silent: bool,
    /// Attempt that the controller speaks of.
    pub report_attempt: u32,
    /// Line for the job's stderr; empty = none.
    pub message: String,
    /// The node has been drained because of it.
    pub unkillable: bool,
}

/// Where a job is on this node.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// The Prolog runs; an end ordered meanwhile waits for it.
    Prolog {
        /// That end.
        ending: Option<Box<Ending>>,
    },
    /// Steps are started as they come.
    Ready,
    /// No step is started; the controller will end the job here.
    PrologFailed,
    /// Steps are being ended.
    Ending(Ending),
    /// All processes are gone and the Epilog runs.
    Epilog(Ending),
    /// The Epilog has been reported; the job is forgotten when that is acknowledged.
    Done,
}

/// Where a step is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepPhase {
    /// A step daemon is being started.
    Starting,
    /// Its processes exist.
    Running {
        /// Their ids by local task index.
        pids: Vec<u32>,
    },
    /// It has ended and that was reported.
    Ended,
}

/// A job.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// What the controller said about it.
    pub info: JobOnNode,
    /// Phase.
    pub phase: Phase,
    /// Steps that were started.
    pub steps: BTreeMap<StepId, StepPhase>,
    /// Steps that wait for the Prolog.
    pub queued: Vec<StepLaunch>,
    /// A newer attempt that waits for this one to be gone.
    pub next: Option<Box<JobOnNode>>,
}

impl Job {
    /// A job at its beginning.
    pub fn new(info: JobOnNode, phase: Phase) -> Self {
        Self {
            info,
            phase,
            steps: BTreeMap::new(),
            queued: Vec::new(),
            next: None,
        }
    }

    /// Steps that have not ended.
    pub fn live_steps(&self) -> Vec<StepId> {
        self.steps
            .iter()
            .filter(|(_, phase)| **phase != StepPhase::Ended)
            .map(|(step, _)| *step)
            .collect()
    }

    /// The full name of a step.
    pub fn step(&self, step_id: StepId) -> LiveStep {
        LiveStep {
            job_id: self.info.job_id,
            attempt: self.info.attempt,
            step_id,
        }
    }

    /// Whether the controller wants to hear about it.
    pub fn is_silent(&self) -> bool {
        matches!(&self.phase, Phase::Ending(ending) | Phase::Epilog(ending) if ending.silent)
    }

    /// Turns to ending: message and kill sequence to the living steps, or straight to the Epilog.
    pub(super) fn begin_ending(&mut self, id: JobId, ending: Ending) -> Vec<Effect> {
        let live = self.live_steps();
        if live.is_empty() {
            self.phase = Phase::Ending(ending);
            return self.continue_ending(id);
        }
        let mut effects = vec![Effect::StoreJob(id)];
        for step_id in live {
            effects.extend(self.end_step(step_id, ending.grace, &ending.message));
        }
        self.phase = Phase::Ending(ending);
        effects
    }

    /// The requests that end one step.
    pub(super) fn end_step(&self, step_id: StepId, grace: Duration, message: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        if !message.is_empty() {
            effects.push(control(
                self.step(step_id),
                ControlRequest::Notify {
                    text: message.to_owned(),
                },
            ));
        }
        let grace_secs = u32::try_from(grace.as_secs()).unwrap_or(u32::MAX);
        effects.push(control(
            self.step(step_id),
            ControlRequest::Terminate { grace_secs },
        ));
        effects
    }

    /// Starts the Epilog when the last step is gone.
    pub(super) fn continue_ending(&mut self, id: JobId) -> Vec<Effect> {
        let Phase::Ending(ending) = &self.phase else {
            return Vec::new();
        };
        if !self.live_steps().is_empty() {
            return Vec::new();
        }
        self.phase = Phase::Epilog(ending.clone());
        vec![Effect::StoreJob(id), Effect::RunEpilog(self.info.clone())]
    }
}
