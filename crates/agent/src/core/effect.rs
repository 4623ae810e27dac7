//! What the agent's shell has to do. Effects of one call are carried out in order.

use sluice_model::ids::{JobId, StepId};
use sluice_model::launch::{AgentReport, JobOnNode, LiveStep, StepLaunch};
use sluice_stepd::control::ControlRequest;

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Store the job's record in the spool: before anything that it describes happens.
    StoreJob(JobId),
    /// Remove everything of the job from the spool.
    ForgetJob(JobId),
    /// Number, store and send a report.
    Report(AgentReport),
    /// Run the Prolog; answer with `on_prolog_done`.
    RunProlog(JobOnNode),
    /// Run the Epilog; answer with `on_epilog_done`.
    RunEpilog(JobOnNode),
    /// Start a step daemon; answer with `on_step_ready` and `on_step_exit`.
    StartStep(Box<StepLaunch>),
    /// Remember in the spool that the step's end has been reported.
    StepReported(LiveStep),
    /// Ask a step daemon.
    Control {
        /// Which.
        step: LiveStep,
        /// What.
        request: ControlRequest,
    },
    /// Ask a step daemon what it uses and report it.
    ReportUsage {
        /// Number of the question.
        request: u64,
        /// Which.
        step: LiveStep,
        /// Pids by local task index.
        pids: Vec<u32>,
    },
    /// Run UnkillableStepProgram for a step.
    RunUnkillableProgram {
        /// Job.
        job_id: JobId,
        /// Step.
        step_id: StepId,
    },
    /// Remove a report from the outbox; answer with `on_acknowledged`.
    Acknowledged(u64),
    /// Run RebootProgram; why, for the log.
    Reboot(String),
    /// Fetch the configuration again.
    FetchConfiguration(u64),
    /// Seconds between heartbeats.
    SetHeartbeat(u32),
}
