//! Samples of the living, the limit of OverMemoryKill, and the exit record.

use std::time::{Duration, Instant};

use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::StepId;
use sluice_model::launch::{StepExit, StepUsage};

use super::{EARLY_SAMPLES, Supervisor, now};
use crate::usage::step_usage;

impl Supervisor<'_> {
    pub(super) fn sample(&mut self) {
        let now = Instant::now();
        let rss_kib = self.sample_tasks();
        let age = now.duration_since(self.started);
        let interval = Duration::from_secs(self.spec.node.sample_secs.into());
        self.next_sample = match EARLY_SAMPLES.iter().find(|early| **early > age) {
            Some(early) => Some(self.started + *early),
            None => (!interval.is_zero()).then(|| now + interval),
        };
        let limit = self.spec.launch.memory.0 * 1024;
        if self.spec.node.over_memory_kill && limit > 0 && rss_kib > limit && !self.over_memory {
            self.over_memory = true;
            let (job, step) = (self.spec.launch.job_id, self.spec.launch.step_id);
            self.tell_user(&format!(
                "slurmstepd: error: StepId={job}.{step} exceeded memory limit ({} > {}), being killed",
                rss_kib * 1024,
                limit * 1024
            ));
            self.kill_everything();
        }
    }

    pub(super) fn sample_tasks(&mut self) -> u64 {
        self.tasks
            .iter_mut()
            .filter(|task| task.status.is_none())
            .map(|task| task.usage.sample(task.pid))
            .sum()
    }

    pub(super) fn usage(&self) -> StepUsage {
        let living = if self.childless {
            Vec::new()
        } else {
            self.processes()
        };
        let mut usage = step_usage(
            self.tasks.iter().map(|task| (task.rank, &task.usage)),
            &living,
        );
        usage.out_of_memory = self.over_memory || self.cgroup.oom_kills() > 0;
        usage
    }

    /// The extern step ends well whenever its job lets it go.
    fn final_status(&self, status: Option<WaitStatus>) -> WaitStatus {
        match self.spec.launch.step_id {
            StepId::Extern => WaitStatus::SUCCESS,
            _ => status.unwrap_or_default(),
        }
    }

    /// The record, once supervision has ended.
    pub(crate) fn exit(&self) -> StepExit {
        let launch = &self.spec.launch;
        StepExit {
            job_id: launch.job_id,
            attempt: launch.attempt,
            step_id: launch.step_id,
            tasks: self
                .tasks
                .iter()
                .map(|task| (task.rank, self.final_status(task.status)))
                .collect(),
            launch_error: None,
            usage: self.usage(),
            end_time: self.end_time.unwrap_or_else(now),
        }
    }
}
