//! Step daemons and their payloads on a node: started, asked, ended, killed.
//!
//! A payload is the same for the same step whatever happens around it. Times in milliseconds.

use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::StepId;
use sluice_model::launch::{LiveStep, StepExit, StepLaunch, StepUsage};

use super::{Process, StepFolder, key};
use crate::invariants::Violation;
use crate::world::{Happening, World};

impl World {
    pub(super) fn step_prepared(&mut self, node: usize, life: u64, launch: Box<StepLaunch>) {
        if self.nodes[node].agent(life).is_none() {
            return;
        }
        let folder = StepFolder {
            attempt: launch.attempt,
            ranks: launch.task_ids.clone(),
            exit: None,
            reported: false,
        };
        // Without a folder of its job a step cannot be prepared.
        if let Some(job) = self.nodes[node].spool.jobs.get_mut(&launch.job_id) {
            job.steps.insert(launch.step_id, folder);
        }
        let delay = self.chance.between(1, 20);
        self.after(delay, Happening::StepSpawned { node, life, launch });
    }

    pub(super) fn step_spawned(
        &mut self,
        node: usize,
        life: u64,
        launch: StepLaunch,
    ) -> Result<(), Violation> {
        let step = LiveStep {
            job_id: launch.job_id,
            attempt: launch.attempt,
            step_id: launch.step_id,
        };
        if self.nodes[node].agent(life).is_none() {
            return Ok(());
        }
        if self.folder(node, step).is_none() {
            self.after(1, Happening::Concluded { node, life, step });
            return Ok(());
        }
        let name = self.nodes[node].name.clone();
        self.invariants.runs.executed(&name, step)?;
        let payload = self.payload(step, node);
        self.note(|| {
            format!(
                "{name} executes {step:?} for {} ms, then {}",
                payload.left_ms, payload.status
            )
        });
        self.nodes[node].tokens += 1;
        let token = self.nodes[node].tokens;
        let left = payload.left_ms;
        let process = Process {
            token,
            ranks: launch.task_ids,
            running_since: Some(self.now_ms),
            ..payload
        };
        self.nodes[node].processes.insert(key(step), process);
        self.after(left, Happening::PayloadEnds { node, step, token });
        let delay = self.chance.between(1, 20);
        self.after(delay, Happening::StepReady { node, life, step });
        if step.step_id == StepId::Batch {
            self.script_began(step);
        }
        Ok(())
    }

    /// What a step's processes do: the same for the same step, whatever happens around it.
    fn payload(&self, step: LiveStep, node: usize) -> Process {
        let parts = [
            3,
            u64::from(step.job_id.0),
            u64::from(step.attempt),
            u64::from(step.step_id.number()),
            node as u64,
        ];
        let mut chance = crate::chance::Chance::of(self.seed, &parts);
        let code = chance.between(0, 9);
        let status = match code {
            0..=5 => WaitStatus::SUCCESS,
            6..=8 => WaitStatus::exited(chance.between(1, 4) as i32),
            _ => WaitStatus::signaled(chance.pick(&[6, 11])),
        };
        // A job that fails for ever with a code that requeues it would never drain.
        let status = if step.attempt > 2 {
            WaitStatus::SUCCESS
        } else {
            status
        };
        Process {
            step,
            token: 0,
            ranks: Vec::new(),
            ignores_term: chance.likely(200),
            left_ms: chance.between(1, self.options.payload_max_ms),
            running_since: None,
            status,
            kill_at: None,
            began: self.now(),
        }
    }

    pub(super) fn control(
        &mut self,
        node: usize,
        life: u64,
        step: LiveStep,
        request: sluice_stepd::control::ControlRequest,
        tries: u32,
    ) {
        use sluice_stepd::control::ControlRequest as Request;
        if self.nodes[node].agent(life).is_none() {
            return;
        }
        let now = self.now_ms;
        if !self.nodes[node].processes.contains_key(&key(step)) {
            let over = self
                .folder(node, step)
                .is_some_and(|folder| folder.exit.is_some());
            if tries < 30 && !over {
                self.after(
                    100,
                    Happening::Control {
                        node,
                        life,
                        step,
                        request,
                        tries: tries + 1,
                    },
                );
            }
            return;
        }
        let here = &mut self.nodes[node];
        here.tokens += 1;
        let token = here.tokens;
        let Some(process) = here.processes.get_mut(&key(step)) else {
            return;
        };
        match request {
            Request::Terminate { grace_secs: 0 } => {
                self.process_ends(node, step, WaitStatus::signaled(9))
            }
            Request::Terminate { grace_secs } => {
                let at = now + u64::from(grace_secs) * 1000;
                process.kill_at = Some(process.kill_at.map_or(at, |before| before.min(at)));
                let stubborn = process.ignores_term;
                if process.running_since.is_none() {
                    process.running_since = Some(now);
                    process.token = token;
                    let left = process.left_ms;
                    self.after(left, Happening::PayloadEnds { node, step, token });
                }
                if stubborn {
                    self.after(at - now, Happening::PayloadKilled { node, step });
                } else {
                    self.process_ends(node, step, WaitStatus::signaled(15));
                }
            }
            Request::Suspend => {
                if let Some(since) = process.running_since.take() {
                    process.left_ms = process.left_ms.saturating_sub(now - since);
                    process.token = token;
                }
            }
            Request::Resume => {
                if process.running_since.is_none() {
                    process.running_since = Some(now);
                    process.token = token;
                    let left = process.left_ms;
                    self.after(left, Happening::PayloadEnds { node, step, token });
                }
            }
            Request::Signal { signal: 9, .. } => {
                self.process_ends(node, step, WaitStatus::signaled(9))
            }
            Request::Ping
            | Request::Signal { .. }
            | Request::Notify { .. }
            | Request::Usage
            | Request::Attach { .. }
            | Request::Adopt { .. } => {}
        }
    }

    /// The last process is gone: the step daemon writes its record and ends.
    pub(super) fn process_ends(&mut self, node: usize, step: LiveStep, status: WaitStatus) {
        let Some(process) = self.nodes[node].processes.remove(&key(step)) else {
            return;
        };
        let name = self.nodes[node].name.clone();
        self.note(|| format!("{name}: {step:?} ends with {status}"));
        self.invariants.runs.ended(&name, step, status);
        let end_time = self.now();
        let exit = StepExit {
            job_id: step.job_id,
            attempt: step.attempt,
            step_id: step.step_id,
            tasks: process.ranks.iter().map(|rank| (*rank, status)).collect(),
            launch_error: None,
            usage: StepUsage::default(),
            end_time,
        };
        if let Some(folder) = self.folder(node, step) {
            folder.exit = Some(exit);
        }
        self.conclude_soon(node, step);
    }

    fn conclude_soon(&mut self, node: usize, step: LiveStep) {
        if let Some(life) = self.life_of(node) {
            let delay = self.chance.between(1, 30);
            self.after(delay, Happening::Concluded { node, life, step });
        }
    }

    /// A step daemon and its processes are killed; there is no record.
    pub fn step_daemon_dies(&mut self, node: usize, step: LiveStep) {
        if self.nodes[node].processes.remove(&key(step)).is_none() {
            return;
        }
        let name = self.nodes[node].name.clone();
        self.note(|| format!("{name}: step daemon of {step:?} is killed"));
        self.invariants
            .runs
            .ended(&name, step, WaitStatus::signaled(9));
        self.conclude_soon(node, step);
    }

    pub(super) fn concluded(&mut self, node: usize, life: u64, step: LiveStep) {
        if self.nodes[node].agent(life).is_none() {
            return;
        }
        let end_time = self.now();
        let ranks = self
            .folder(node, step)
            .map(|folder| folder.ranks.clone())
            .unwrap_or_default();
        let exit = self
            .folder(node, step)
            .and_then(|folder| folder.exit.clone())
            .unwrap_or_else(|| StepExit {
                job_id: step.job_id,
                attempt: step.attempt,
                step_id: step.step_id,
                tasks: ranks
                    .iter()
                    .map(|rank| (*rank, WaitStatus::signaled(9)))
                    .collect(),
                launch_error: Some("stepd died: it left no exit record".to_owned()),
                usage: StepUsage::default(),
                end_time,
            });
        if let Some(agent) = self.nodes[node].agent(life) {
            let effects = agent.core.on_step_exit(exit);
            self.carry_out(node, effects);
        }
    }
}
