//! Prolog, Epilog, UnkillableStepProgram and the health check, started from the service and answered over its channel.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluice_model::ids::{JobId, StepId};
use sluice_model::launch::JobOnNode;
use tracing::error;

use super::{Input, Service};
use crate::node::NodeContext;
use crate::sys::scripts;

/// Longest time UnkillableStepProgram may run.
const UNKILLABLE_PROGRAM_MAX: Duration = Duration::from_secs(300);

impl Service {
    /// Waits for the turn that PrologFlags=Serial asks for, and runs the scripts.
    fn scripts_task(
        &self,
        job: &JobOnNode,
        kind: ScriptKind,
    ) -> impl Future<Output = Option<String>> + Send + 'static + use<> {
        let node = Arc::clone(&self.node);
        let environment = node.script_environment(job, kind.context());
        let folder = self.spool.scripts();
        let turn = node
            .config
            .scripts
            .flags
            .serial
            .then(|| Arc::clone(&self.script_turn));
        async move {
            let _turn = match &turn {
                Some(turn) => turn.acquire().await.ok(),
                None => None,
            };
            let settings = &node.config.scripts;
            let (list, limit) = match kind {
                ScriptKind::Prolog => (&settings.prolog, settings.prolog_timeout_secs),
                ScriptKind::Epilog => (&settings.epilog, settings.epilog_timeout_secs),
            };
            let limit = limit.map(|secs| Duration::from_secs(secs.into()));
            let result = match scripts::resolve(list, &folder) {
                Ok(files) => scripts::run_all(&files, &environment, limit).await,
                Err(error) => Err(error),
            };
            result
                .err()
                .map(|error| format!("{} error: {error}", kind.name()))
        }
    }

    pub(super) fn run_prolog(&self, job: JobOnNode) {
        let inputs = self.inputs.clone();
        let task = self.scripts_task(&job, ScriptKind::Prolog);
        tokio::spawn(async move {
            let error = task.await;
            let _ = inputs.send(Input::PrologDone {
                job: job.job_id,
                attempt: job.attempt,
                error,
            });
        });
    }

    pub(super) fn run_epilog(&self, job: JobOnNode) {
        let inputs = self.inputs.clone();
        let task = self.scripts_task(&job, ScriptKind::Epilog);
        tokio::spawn(async move {
            let error = task.await;
            let _ = inputs.send(Input::EpilogDone {
                job: job.job_id,
                error,
            });
        });
    }

    pub(super) fn run_reboot_program(&self, reason: &str) {
        let Some(program) = self.node.config.agent.reboot_program.clone() else {
            error!("the controller asks for a reboot ({reason}) and RebootProgram is not set here");
            return;
        };
        tracing::warn!("reboot: {reason}");
        self.run_program("RebootProgram", program, Vec::new(), None);
    }

    /// Runs one of the configuration's programs beside everything else; a failure is only logged.
    fn run_program(
        &self,
        key: &'static str,
        program: String,
        mut environment: Vec<(String, String)>,
        limit: Option<Duration>,
    ) {
        environment.push(("SLURMD_NODENAME".to_owned(), self.node.node.name.clone()));
        environment.push((
            "SLURM_CONF".to_owned(),
            self.node.source.path.to_string_lossy().into_owned(),
        ));
        tokio::spawn(async move {
            if let Err(error) = scripts::run(Path::new(&program), &environment, limit).await {
                error!("{key}: {error}");
            }
        });
    }

    pub(super) fn run_unkillable_program(&self, job_id: JobId, step_id: StepId) {
        error!(job = %job_id, step = %step_id, "processes survive SIGKILL; the node is drained");
        let Some(program) = self.node.config.agent.unkillable_step_program.clone() else {
            return;
        };
        let environment = vec![
            ("SLURM_JOB_ID".to_owned(), job_id.to_string()),
            (
                "SLURM_STEP_ID".to_owned(),
                step_id.number().cast_signed().to_string(),
            ),
        ];
        let limit = Some(UNKILLABLE_PROGRAM_MAX);
        self.run_program("UnkillableStepProgram", program, environment, limit);
    }
}

#[derive(Debug, Clone, Copy)]
enum ScriptKind {
    Prolog,
    Epilog,
}

impl ScriptKind {
    fn name(self) -> &'static str {
        match self {
            Self::Prolog => "Prolog",
            Self::Epilog => "Epilog",
        }
    }

    fn context(self) -> &'static str {
        match self {
            Self::Prolog => "prolog_slurmd",
            Self::Epilog => "epilog_slurmd",
        }
    }
}

/// Runs the health check once; the text says how it failed.
pub(super) async fn run_health_check(node: &NodeContext, program: &str) -> Option<String> {
    let check = &node.config.agent.health_check;
    let environment = [
        ("SLURMD_NODENAME".to_owned(), node.node.name.clone()),
        (
            "SLURM_CONF".to_owned(),
            node.source.path.to_string_lossy().into_owned(),
        ),
    ];
    let limit = (check.timeout_secs > 0).then(|| Duration::from_secs(check.timeout_secs.into()));
    scripts::run(Path::new(program), &environment, limit)
        .await
        .err()
        .map(|error| format!("HealthCheckProgram: {error}"))
}
