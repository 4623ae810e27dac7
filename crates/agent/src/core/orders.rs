//! Orders of the controller.

use std::time::{Duration, Instant};

use sluice_model::ids::{JobId, StepId};
use sluice_model::launch::{AgentOrder, AgentReport, JobOnNode, SignalTarget, StepLaunch};
use sluice_stepd::control::{Audience, ControlRequest};

use super::{AgentCore, Effect, Ending, Job, Phase, StepPhase, control, is_batch, never_started};

impl AgentCore {
    /// Decides what an order means now.
    pub fn on_order(&mut self, order: AgentOrder, now: Instant) -> Vec<Effect> {
        match order {
            AgentOrder::StartJob(job) => self.on_start_job(job, now),
            AgentOrder::LaunchStep(launch) => self.on_launch_step(launch),
            AgentOrder::Signal {
                job_id,
                target,
                signal,
            } => self.on_signal(job_id, target, signal),
            AgentOrder::Notify { job_id, text } => self.to_live_steps(job_id, |_| {
                Some(ControlRequest::Notify { text: text.clone() })
            }),
            AgentOrder::Suspend { job_id, suspended } => self.to_live_steps(job_id, |_| {
                Some(if suspended {
                    ControlRequest::Suspend
                } else {
                    ControlRequest::Resume
                })
            }),
            AgentOrder::TerminateStep {
                job_id,
                attempt,
                step_id,
            } => self.on_terminate_step(job_id, attempt, step_id),
            AgentOrder::TerminateJob {
                job_id,
                attempt,
                kill_wait_secs,
                message,
                script_environment,
                credentials,
                gres,
            } => {
                let grace = Duration::from_secs(kill_wait_secs.into());
                let ending = Ending {
                    grace,
                    kill_at: now + grace,
                    silent: false,
                    report_attempt: attempt,
                    message,
                    unkillable: false,
                };
                let job = JobOnNode {
                    job_id,
                    attempt,
                    credentials,
                    node_index: 0,
                    cpu_ids: Vec::new(),
                    memory: sluice_model::memory::MemoryMib(0),
                    gres,
                    script_environment,
                    job_environment: Vec::new(),
                    end_time: None,
                };
                self.on_terminate_job(job, ending)
            }
            AgentOrder::ReportUsage {
                request,
                job_id,
                step_id,
            } => self.on_report_usage(request, job_id, step_id),
            AgentOrder::AttachStep {
                job_id,
                step_id,
                address,
                secret,
            } => self.to_live_steps(job_id, |step| {
                (step == step_id).then(|| ControlRequest::Attach {
                    address: address.clone(),
                    secret: secret.clone(),
                })
            }),
            AgentOrder::Acknowledge { sequence } => vec![Effect::Acknowledged(sequence)],
            AgentOrder::Reboot { reason } => vec![Effect::Reboot(reason)],
            AgentOrder::Configuration { version } => vec![Effect::FetchConfiguration(version)],
            AgentOrder::Registered {
                jobs,
                heartbeat_secs,
            } => self.on_registered(&jobs, heartbeat_secs, now),
        }
    }

    fn on_start_job(&mut self, info: JobOnNode, now: Instant) -> Vec<Effect> {
        let id = info.job_id;
        let Some(job) = self.jobs.get_mut(&id) else {
            return self.start_job(info);
        };
        if info.attempt < job.info.attempt {
            return Vec::new();
        }
        if info.attempt == job.info.attempt {
            // Repeated: the answer may have been lost with the controller's memory of it.
            return match &job.phase {
                Phase::Ready => {
                    vec![Effect::Report(AgentReport::PrologDone {
                        job_id: id,
                        attempt: info.attempt,
                        error: None,
                    })]
                }
                _ => Vec::new(),
            };
        }
        // The controller has gone on without hearing the end of the old attempt.
        match &job.phase {
            Phase::Done => {
                self.jobs.remove(&id);
                let mut effects = vec![Effect::ForgetJob(id)];
                effects.extend(self.start_job(info));
                effects
            }
            _ => {
                job.next = Some(Box::new(info));
                self.end_silently(id, now)
            }
        }
    }

    pub(super) fn start_job(&mut self, info: JobOnNode) -> Vec<Effect> {
        let id = info.job_id;
        self.jobs
            .insert(id, Job::new(info.clone(), Phase::Prolog { ending: None }));
        vec![Effect::StoreJob(id), Effect::RunProlog(info)]
    }

    fn on_launch_step(&mut self, launch: StepLaunch) -> Vec<Effect> {
        let id = launch.job_id;
        let refuse = |text: String| vec![Effect::Report(never_started(&launch, Some(text)))];
        let Some(job) = self.jobs.get_mut(&id) else {
            return refuse(format!("job {id} is not on node {}", launch.node));
        };
        if launch.attempt < job.info.attempt || job.steps.contains_key(&launch.step_id) {
            return Vec::new();
        }
        if launch.attempt > job.info.attempt {
            return refuse(format!(
                "run {} of job {id} has not been started on node {}",
                launch.attempt, launch.node
            ));
        }
        match &job.phase {
            Phase::Prolog { ending: None } => {
                if job
                    .queued
                    .iter()
                    .any(|queued| queued.step_id == launch.step_id)
                {
                    return Vec::new();
                }
                job.queued.push(launch);
                vec![Effect::StoreJob(id)]
            }
            Phase::Ready => {
                job.steps.insert(launch.step_id, StepPhase::Starting);
                vec![Effect::StartStep(Box::new(launch))]
            }
            Phase::PrologFailed => refuse(format!("Prolog failed on node {}", launch.node)),
            Phase::Prolog { ending: Some(_) }
            | Phase::Ending(_)
            | Phase::Epilog(_)
            | Phase::Done => {
                vec![Effect::Report(never_started(&launch, None))]
            }
        }
    }

    fn to_live_steps(
        &self,
        id: JobId,
        request: impl Fn(StepId) -> Option<ControlRequest>,
    ) -> Vec<Effect> {
        let Some(job) = self.jobs.get(&id) else {
            return Vec::new();
        };
        job.live_steps()
            .into_iter()
            .filter_map(|step| Some(control(job.step(step), request(step)?)))
            .collect()
    }

    fn on_signal(&self, id: JobId, target: SignalTarget, signal: i32) -> Vec<Effect> {
        self.to_live_steps(id, |step| {
            let audience = match target {
                SignalTarget::Step(wanted) => (step == wanted).then_some(Audience::Tasks),
                SignalTarget::Steps => {
                    (!is_batch(step) && step != StepId::Extern).then_some(Audience::Tasks)
                }
                SignalTarget::BatchShell => is_batch(step).then_some(Audience::TasksOnly),
                SignalTarget::Full if is_batch(step) => Some(Audience::Tree),
                SignalTarget::Full if step == StepId::Extern => None,
                SignalTarget::Full => Some(Audience::Tasks),
            };
            audience.map(|audience| ControlRequest::Signal { audience, signal })
        })
    }

    fn on_report_usage(&self, request: u64, id: JobId, step_id: StepId) -> Vec<Effect> {
        let running = self
            .jobs
            .get(&id)
            .and_then(|job| match job.steps.get(&step_id) {
                Some(StepPhase::Running { pids }) => Some((job.step(step_id), pids.clone())),
                _ => None,
            });
        match running {
            Some((step, pids)) => vec![Effect::ReportUsage {
                request,
                step,
                pids,
            }],
            None => vec![Effect::Report(AgentReport::Usage {
                request,
                step_id,
                usage: None,
                pids: Vec::new(),
            })],
        }
    }

    fn on_terminate_step(&mut self, id: JobId, attempt: u32, step_id: StepId) -> Vec<Effect> {
        let grace = self.settings.kill_wait;
        let Some(job) = self
            .jobs
            .get_mut(&id)
            .filter(|job| job.info.attempt == attempt)
        else {
            return Vec::new();
        };
        if let Some(index) = job
            .queued
            .iter()
            .position(|launch| launch.step_id == step_id)
        {
            let launch = job.queued.remove(index);
            // Known as ended, so that a late copy of its launch is not carried out.
            job.steps.insert(step_id, StepPhase::Ended);
            return vec![
                Effect::Report(never_started(&launch, None)),
                Effect::StoreJob(id),
            ];
        }
        match job.steps.get(&step_id) {
            Some(StepPhase::Starting | StepPhase::Running { .. }) => {
                job.end_step(step_id, grace, "")
            }
            Some(StepPhase::Ended) | None => Vec::new(),
        }
    }

    fn on_terminate_job(&mut self, info: JobOnNode, ending: Ending) -> Vec<Effect> {
        let id = info.job_id;
        let attempt = info.attempt;
        let job = match self.jobs.entry(id) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            // Lost with the spool: nothing runs here, but the Epilog belongs to every node of the job.
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(Job::new(info.clone(), Phase::Ready))
            }
        };
        if attempt < job.info.attempt {
            return Vec::new();
        }
        if let Some(next) = &job.next
            && next.attempt <= attempt
        {
            job.next = None;
        }
        // The controller's newest variables carry the exit codes.
        if !info.script_environment.is_empty() {
            job.info.script_environment = info.script_environment;
        }
        match &mut job.phase {
            Phase::Ready | Phase::PrologFailed => job.begin_ending(id, ending),
            Phase::Prolog { ending: waiting } => {
                // A silent end was for a run that the controller had given up; this one it wants to hear of.
                if waiting.as_ref().is_none_or(|before| before.silent) {
                    *waiting = Some(Box::new(ending));
                }
                vec![Effect::StoreJob(id)]
            }
            Phase::Ending(current) => {
                current.silent = false;
                current.report_attempt = attempt;
                // A repetition is harmless for the step daemons, and a shorter grace rules.
                let grace = ending.grace;
                if ending.kill_at < current.kill_at {
                    current.kill_at = ending.kill_at;
                    current.grace = grace;
                }
                let live = job.live_steps();
                live.into_iter()
                    .flat_map(|step| job.end_step(step, grace, ""))
                    .collect()
            }
            Phase::Epilog(current) => {
                current.silent = false;
                current.report_attempt = attempt;
                Vec::new()
            }
            // The report is in the outbox until it is acknowledged, unless the agent was killed just before it got there. The
            // controller asks, so it has not heard; hearing it twice is harmless.
            Phase::Done => vec![Effect::Report(AgentReport::EpilogDone {
                job_id: id,
                attempt,
                error: None,
            })],
        }
    }

    fn on_registered(
        &mut self,
        jobs: &[(JobId, u32)],
        heartbeat_secs: u32,
        now: Instant,
    ) -> Vec<Effect> {
        let mut effects = vec![Effect::SetHeartbeat(heartbeat_secs)];
        let orphans: Vec<JobId> = self
            .jobs
            .iter()
            .filter(|(id, job)| !jobs.contains(&(**id, job.info.attempt)))
            .map(|(id, _)| *id)
            .collect();
        for id in orphans {
            effects.extend(self.end_silently(id, now));
        }
        effects
    }

    /// Ends a job that the controller does not want here (any more).
    fn end_silently(&mut self, id: JobId, now: Instant) -> Vec<Effect> {
        let Some(job) = self.jobs.get_mut(&id) else {
            return Vec::new();
        };
        let ending = Ending {
            grace: Duration::ZERO,
            kill_at: now,
            silent: true,
            report_attempt: job.info.attempt,
            message: String::new(),
            unkillable: false,
        };
        match &mut job.phase {
            Phase::Ready | Phase::PrologFailed => job.begin_ending(id, ending),
            Phase::Prolog { ending: waiting } => {
                *waiting = Some(Box::new(ending));
                vec![Effect::StoreJob(id)]
            }
            Phase::Ending(current) => {
                current.silent = true;
                let live = job.live_steps();
                live.into_iter()
                    .flat_map(|step| job.end_step(step, Duration::ZERO, ""))
                    .collect()
            }
            Phase::Epilog(current) => {
                current.silent = true;
                Vec::new()
            }
            Phase::Done => {
                self.jobs.remove(&id);
                vec![Effect::ForgetJob(id)]
            }
        }
    }
}
