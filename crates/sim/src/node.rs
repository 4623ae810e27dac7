//! A compute node: the agent's shell around the real agent core, its spool, and the step daemons with their payloads.
//!
//! The spool and the step daemons outlive the agent; the spool outlives a reboot. The shell does what the agent's service does, in
//! the same order; scripts, processes and sockets are replaced by happenings.

mod processes;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use sluice_agent::core::{AgentCore, CoreSettings, Effect, FoundStep, JobRecord, RecoveredStep};
use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::{JobId, StepId};
use sluice_model::launch::{AgentOrder, AgentReport, LiveStep, ReportEnvelope, StepExit};
use sluice_model::node::{NodeHardware, NodeLoad};
use sluice_model::time::UnixSeconds;

use crate::invariants::Violation;
use crate::options::Options;
use crate::world::{Happening, World};

/// A step by its full name.
pub type StepKey = (JobId, u32, StepId);

/// The key of a step.
#[must_use]
pub fn key(step: LiveStep) -> StepKey {
    (step.job_id, step.attempt, step.step_id)
}

/// Folder of a step in the spool.
#[derive(Debug)]
struct StepFolder {
    attempt: u32,
    ranks: Vec<u32>,
    exit: Option<StepExit>,
    reported: bool,
}

/// Folder of a job in the spool.
#[derive(Debug, Default)]
struct JobFolder {
    /// The record as it was written.
    record: Vec<u8>,
    steps: BTreeMap<StepId, StepFolder>,
}

/// What is on the node's disk.
#[derive(Debug, Default)]
struct Spool {
    jobs: BTreeMap<JobId, JobFolder>,
    outbox: BTreeMap<u64, AgentReport>,
    next: u64,
}

/// A step daemon with its processes.
#[derive(Debug)]
pub struct Process {
    /// The step.
    pub step: LiveStep,
    /// Its payload ends when this happening carries the same number.
    token: u64,
    ranks: Vec<u32>,
    ignores_term: bool,
    left_ms: u64,
    /// Since when it runs; `None` = stopped.
    running_since: Option<u64>,
    status: WaitStatus,
    kill_at: Option<u64>,
    began: UnixSeconds,
}

/// The agent's process.
#[derive(Debug)]
struct Agent {
    life: u64,
    core: AgentCore,
    link: Option<u64>,
}

/// A node.
#[derive(Debug)]
pub struct SimNode {
    /// NodeName.
    pub name: String,
    spool: Spool,
    /// Step daemons alive.
    pub processes: BTreeMap<StepKey, Process>,
    agent: Option<Agent>,
    lives: u64,
    tokens: u64,
    boot: UnixSeconds,
    hardware: NodeHardware,
}

impl std::fmt::Display for SimNode {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "node {}: agent {:?}, processes {:?}, outbox {:?}",
            self.name, self.agent, self.processes, self.spool.outbox
        )
    }
}

impl SimNode {
    /// A node that has just been booted, without agent.
    #[must_use]
    pub fn new(name: String, options: &Options) -> Self {
        let hardware = NodeHardware {
            cpus: (options.cores * options.threads) as u32,
            hostname: name.clone(),
            ..NodeHardware::default()
        };
        Self {
            name,
            spool: Spool {
                next: 1,
                ..Spool::default()
            },
            processes: BTreeMap::new(),
            agent: None,
            lives: 0,
            tokens: 0,
            boot: UnixSeconds(crate::world::EPOCH_SECS),
            hardware,
        }
    }

    /// Nothing runs here, and nothing waits to be told.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let agent_idle = self
            .agent
            .as_ref()
            .is_some_and(|agent| agent.link.is_some() && agent.core.job_count() == 0);
        agent_idle
            && self.processes.is_empty()
            && self.spool.outbox.is_empty()
            && self.spool.jobs.is_empty()
    }

    /// Steps with processes here: whether they are stopped, and since when they run.
    pub fn running_steps(&self) -> impl Iterator<Item = (LiveStep, bool, UnixSeconds)> {
        self.processes
            .values()
            .map(|process| (process.step, process.running_since.is_none(), process.began))
    }

    /// The agent is up.
    #[must_use]
    pub fn agent_is_up(&self) -> bool {
        self.agent.is_some()
    }

    fn agent(&mut self, life: u64) -> Option<&mut Agent> {
        self.agent.as_mut().filter(|agent| agent.life == life)
    }
}

impl World {
    fn life_of(&self, node: usize) -> Option<u64> {
        self.nodes[node].agent.as_ref().map(|agent| agent.life)
    }

    /// What happens at a node.
    pub fn at_node(&mut self, happening: Happening) -> Result<(), Violation> {
        match happening {
            Happening::AgentStarts { node } => self.agent_starts(node),
            Happening::Dial { node, life } => self.dial(node, life),
            Happening::AgentTick { node, life } => {
                let now = self.instant();
                if let Some(agent) = self.nodes[node].agent(life) {
                    let effects = agent.core.on_tick(now);
                    self.carry_out(node, effects);
                    self.after(1_000, Happening::AgentTick { node, life });
                }
            }
            Happening::Heartbeat { node, life } => {
                if self.nodes[node].agent(life).is_some() {
                    self.report(
                        node,
                        AgentReport::Heartbeat {
                            load: NodeLoad::default(),
                        },
                    );
                    let every = u64::from(crate::controller::HEARTBEAT_SECS) * 1000;
                    self.after(every, Happening::Heartbeat { node, life });
                }
            }
            Happening::StepPrepared { node, life, launch } => {
                self.step_prepared(node, life, launch)
            }
            Happening::StepSpawned { node, life, launch } => {
                return self.step_spawned(node, life, *launch);
            }
            Happening::StepReady { node, life, step } => {
                let alive = self.nodes[node].processes.contains_key(&key(step));
                if let Some(agent) = self.nodes[node].agent(life).filter(|_| alive) {
                    let effects = agent.core.on_step_ready(step, vec![1]);
                    self.carry_out(node, effects);
                }
            }
            Happening::Control {
                node,
                life,
                step,
                request,
                tries,
            } => self.control(node, life, step, request, tries),
            Happening::PayloadEnds { node, step, token } => {
                let process = self.nodes[node]
                    .processes
                    .get(&key(step))
                    .filter(|process| process.token == token);
                if let Some(status) = process.map(|process| process.status) {
                    self.process_ends(node, step, status);
                }
            }
            Happening::PayloadKilled { node, step } => {
                let now = self.now_ms;
                let due = self.nodes[node]
                    .processes
                    .get(&key(step))
                    .and_then(|process| process.kill_at);
                if due.is_some_and(|at| at <= now) {
                    self.process_ends(node, step, WaitStatus::signaled(9));
                }
            }
            Happening::Concluded { node, life, step } => self.concluded(node, life, step),
            Happening::PrologEnds {
                node,
                life,
                job,
                attempt,
                error,
            } => {
                if let Some(agent) = self.nodes[node].agent(life) {
                    let effects = agent.core.on_prolog_done(job, attempt, error);
                    self.carry_out(node, effects);
                }
            }
            Happening::EpilogEnds {
                node,
                life,
                job,
                error,
            } => {
                if let Some(agent) = self.nodes[node].agent(life) {
                    let effects = agent.core.on_epilog_done(job, error);
                    self.carry_out(node, effects);
                }
            }
            other => {
                return Err(Violation::new(
                    "the simulator knows its happenings",
                    format!("{other:?}"),
                ));
            }
        }
        Ok(())
    }

    fn agent_starts(&mut self, node: usize) {
        let now = self.now();
        let instant = self.instant();
        let here = &mut self.nodes[node];
        if here.agent.is_some() {
            return;
        }
        here.lives += 1;
        let life = here.lives;
        here.hardware.boot_time = here.boot;
        here.hardware.agent_start_time = now;
        let settings = CoreSettings {
            kill_wait: Duration::from_secs(5),
            unkillable_step: Duration::from_secs(60),
        };
        here.agent = Some(Agent {
            life,
            core: AgentCore::new(settings),
            link: None,
        });
        let name = here.name.clone();
        self.note(|| format!("agent of {name} starts, life {life}"));
        let found: Vec<(JobRecord, Vec<RecoveredStep>)> = self.nodes[node]
            .spool
            .jobs
            .values()
            .filter_map(|folder| {
                let record: JobRecord = rmp_serde::from_slice(&folder.record).ok()?;
                let steps = folder
                    .steps
                    .iter()
                    .filter(|(_, step)| step.attempt == record.info.attempt)
                    .map(|(id, step)| RecoveredStep {
                        step_id: *id,
                        found: if step.reported {
                            FoundStep::Reported
                        } else {
                            FoundStep::Unfinished
                        },
                    })
                    .collect();
                Some((record, steps))
            })
            .collect();
        for (record, steps) in found {
            let (job_id, attempt) = (record.info.job_id, record.info.attempt);
            let effects = match self.nodes[node].agent(life) {
                Some(agent) => agent.core.recover(record, &steps, instant),
                None => return,
            };
            self.carry_out(node, effects);
            for step in steps
                .iter()
                .filter(|step| step.found == FoundStep::Unfinished)
            {
                self.watch(
                    node,
                    life,
                    LiveStep {
                        job_id,
                        attempt,
                        step_id: step.step_id,
                    },
                );
            }
        }
        self.after(10, Happening::Dial { node, life });
        self.after(1_000, Happening::AgentTick { node, life });
        self.after(5_000, Happening::Heartbeat { node, life });
    }

    /// Follows a step of an earlier life.
    fn watch(&mut self, node: usize, life: u64, step: LiveStep) {
        if self.nodes[node].processes.contains_key(&key(step)) {
            self.after(3, Happening::StepReady { node, life, step });
            return;
        }
        let has_exit = self
            .folder(node, step)
            .is_some_and(|folder| folder.exit.is_some());
        let delay = if has_exit { 2 } else { 3_000 };
        self.after(delay, Happening::Concluded { node, life, step });
    }

    fn folder(&mut self, node: usize, step: LiveStep) -> Option<&mut StepFolder> {
        self.nodes[node]
            .spool
            .jobs
            .get_mut(&step.job_id)?
            .steps
            .get_mut(&step.step_id)
            .filter(|folder| folder.attempt == step.attempt)
    }

    /// The agent is killed; scripts it ran are gone with it, step daemons go on.
    pub fn agent_dies(&mut self, node: usize, notice_max_ms: u64) {
        let Some(agent) = self.nodes[node].agent.take() else {
            return;
        };
        let name = self.nodes[node].name.clone();
        self.note(|| format!("agent of {name} dies, life {}", agent.life));
        if let Some(link) = agent.link {
            self.break_link(link, notice_max_ms);
        }
    }

    /// The node reboots: nothing that runs survives, and no step daemon leaves a record.
    pub fn node_reboots(&mut self, node: usize) {
        let name = self.nodes[node].name.clone();
        self.note(|| format!("{name} reboots"));
        let quick = self.chance.likely(500);
        self.agent_dies(node, if quick { 100 } else { 20_000 });
        let dead: Vec<LiveStep> = self.nodes[node]
            .processes
            .values()
            .map(|process| process.step)
            .collect();
        self.nodes[node].processes.clear();
        for step in dead {
            self.invariants
                .runs
                .ended(&name, step, WaitStatus::signaled(9));
        }
        let delay = self.chance.between(10_000, 90_000);
        self.nodes[node].boot = UnixSeconds(self.now().0 + (delay / 1000) as i64);
        self.after(delay, Happening::AgentStarts { node });
    }

    fn dial(&mut self, node: usize, life: u64) {
        if self.nodes[node]
            .agent(life)
            .is_none_or(|agent| agent.link.is_some())
        {
            return;
        }
        let reaches = self.network.reaches(node, self.now_ms);
        match self.controller.up().filter(|_| reaches) {
            None => {
                let pause = self.chance.between(100, 5_000);
                self.after(pause, Happening::Dial { node, life });
            }
            Some(controller) => {
                let link = self.network.open(node, controller, self.now_ms);
                let name = self.nodes[node].name.clone();
                self.note(|| format!("agent of {name} opens link {link}"));
                if let Some(agent) = self.nodes[node].agent(life) {
                    agent.link = Some(link);
                }
                self.register(node);
            }
        }
    }

    fn register(&mut self, node: usize) {
        let here = &self.nodes[node];
        let Some(agent) = &here.agent else { return };
        let registration = AgentReport::Register {
            node: here.name.clone(),
            hardware: here.hardware.clone(),
            steps: agent.core.known_steps(),
            jobs: agent.core.known_jobs(),
            config_version: 1,
            health_error: None,
        };
        let running = agent.core.running_steps();
        let waiting: Vec<ReportEnvelope> = here
            .spool
            .outbox
            .iter()
            .map(|(sequence, report)| ReportEnvelope {
                sequence: *sequence,
                report: report.clone(),
            })
            .collect();
        self.report(node, registration);
        for report in running {
            self.report(node, report);
        }
        for envelope in waiting {
            self.send_report(node, envelope);
        }
        self.report(
            node,
            AgentReport::Heartbeat {
                load: NodeLoad::default(),
            },
        );
    }

    fn report(&mut self, node: usize, report: AgentReport) {
        let transient = matches!(
            report,
            AgentReport::Register { .. }
                | AgentReport::Heartbeat { .. }
                | AgentReport::StepStarted { .. }
        );
        let sequence = if transient {
            0
        } else {
            let spool = &mut self.nodes[node].spool;
            spool.next += 1;
            spool.outbox.insert(spool.next - 1, report.clone());
            spool.next - 1
        };
        self.send_report(node, ReportEnvelope { sequence, report });
    }

    fn send_report(&mut self, node: usize, envelope: ReportEnvelope) {
        if let Some(link) = self.nodes[node].agent.as_ref().and_then(|agent| agent.link) {
            if !matches!(envelope.report, AgentReport::Heartbeat { .. }) {
                let name = self.nodes[node].name.clone();
                self.note(|| format!("{name} → {} {:?}", envelope.sequence, envelope.report));
            }
            self.send_up(link, envelope);
        }
    }

    /// The agent notices that its link is gone, and dials again.
    pub fn agent_notices(&mut self, link: u64) {
        let Some(node) = self.network.link(link).map(|link| link.node) else {
            return;
        };
        let Some(agent) = self.nodes[node]
            .agent
            .as_mut()
            .filter(|agent| agent.link == Some(link))
        else {
            return;
        };
        agent.link = None;
        let life = agent.life;
        let pause = self.chance.between(50, 1_000);
        self.after(pause, Happening::Dial { node, life });
    }

    /// An order arrives; what an old link delivers is ignored.
    pub fn to_agent(&mut self, link: u64, order: AgentOrder) -> Result<(), Violation> {
        let Some(state) = self
            .network
            .link(link)
            .filter(|state| state.broken.is_none())
        else {
            return Ok(());
        };
        let node = state.node;
        let now = self.instant();
        let name = self.nodes[node].name.clone();
        if !matches!(order, AgentOrder::Acknowledge { .. }) {
            self.note(|| format!("{name} ← {}", brief(&order)));
        }
        if let Some(agent) = self.nodes[node]
            .agent
            .as_mut()
            .filter(|agent| agent.link == Some(link))
        {
            let end = match &order {
                AgentOrder::TerminateJob {
                    job_id, attempt, ..
                } => Some((*job_id, *attempt)),
                _ => None,
            };
            let effects = agent.core.on_order(order, now);
            let (life, taken) = (agent.life, !effects.is_empty());
            self.carry_out(node, effects);
            // An agent that died over it has not taken the order.
            if let Some((job, attempt)) = end.filter(|_| taken && self.life_of(node) == Some(life))
            {
                self.invariants.runs.told_to_end(&name, job, attempt);
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, node: usize, effects: Vec<Effect>) {
        let mut queue = VecDeque::from(effects);
        while let Some(effect) = queue.pop_front() {
            let Some(life) = self.life_of(node) else {
                return;
            };
            if !self.calm && self.chance.likely(self.options.agent_dies_midway) {
                self.agent_dies(node, 200);
                let delay = self.chance.between(50, 5_000);
                self.after(delay, Happening::AgentStarts { node });
                return;
            }
            match effect {
                Effect::StoreJob(id) => {
                    let here = &mut self.nodes[node];
                    let record = here.agent.as_ref().and_then(|agent| agent.core.record(id));
                    if let Some(record) = record {
                        let bytes = rmp_serde::to_vec_named(&record).unwrap_or_default();
                        here.spool.jobs.entry(id).or_default().record = bytes;
                    }
                }
                Effect::ForgetJob(id) => {
                    self.nodes[node].spool.jobs.remove(&id);
                }
                Effect::Report(report) => self.report(node, report),
                Effect::RunProlog(job) => {
                    if self.options.prolog {
                        let error = self.script_error(self.options.prolog_fails, "Prolog");
                        let delay = self.chance.between(5, self.options.script_max_ms);
                        let (job, attempt) = (job.job_id, job.attempt);
                        self.after(
                            delay,
                            Happening::PrologEnds {
                                node,
                                life,
                                job,
                                attempt,
                                error,
                            },
                        );
                    } else if let Some(agent) = self.nodes[node].agent(life) {
                        queue.extend(agent.core.on_prolog_done(job.job_id, job.attempt, None));
                    }
                }
                Effect::RunEpilog(job) => {
                    if self.options.epilog {
                        let error = self.script_error(self.options.epilog_fails, "Epilog");
                        let delay = self.chance.between(5, self.options.script_max_ms);
                        self.after(
                            delay,
                            Happening::EpilogEnds {
                                node,
                                life,
                                job: job.job_id,
                                error,
                            },
                        );
                    } else if let Some(agent) = self.nodes[node].agent(life) {
                        queue.extend(agent.core.on_epilog_done(job.job_id, None));
                    }
                }
                Effect::StartStep(launch) => {
                    let name = &self.nodes[node].name;
                    if let Err(violation) =
                        self.invariants
                            .runs
                            .starts(name, launch.job_id, launch.attempt)
                    {
                        self.found.get_or_insert(violation);
                    }
                    let delay = self.chance.between(0, 10);
                    self.after(delay, Happening::StepPrepared { node, life, launch });
                }
                Effect::StepReported(step) => {
                    if let Some(folder) = self.folder(node, step) {
                        folder.reported = true;
                    }
                }
                Effect::Control { step, request } => {
                    self.after(
                        2,
                        Happening::Control {
                            node,
                            life,
                            step,
                            request,
                            tries: 0,
                        },
                    );
                }
                Effect::Acknowledged(sequence) => {
                    let here = &mut self.nodes[node];
                    if let Some(report) = here.spool.outbox.remove(&sequence)
                        && let Some(agent) = here.agent(life)
                    {
                        queue.extend(agent.core.on_acknowledged(&report));
                    }
                }
                Effect::RunUnkillableProgram { .. }
                | Effect::ReportUsage { .. }
                | Effect::FetchConfiguration(_)
                | Effect::SetHeartbeat(_) => {}
                Effect::Reboot(_) => self.node_reboots(node),
            }
        }
    }

    fn script_error(&mut self, rate: u64, name: &str) -> Option<String> {
        self.chance
            .likely(rate)
            .then(|| format!("{name} error: exit 1"))
    }
}

/// An order in a line.
fn brief(order: &AgentOrder) -> String {
    match order {
        AgentOrder::StartJob(job) => format!("start job {} run {}", job.job_id, job.attempt),
        AgentOrder::LaunchStep(launch) => format!(
            "launch {}.{} run {}",
            launch.job_id, launch.step_id, launch.attempt
        ),
        AgentOrder::TerminateJob {
            job_id,
            attempt,
            kill_wait_secs,
            ..
        } => {
            format!("end job {job_id} run {attempt}, grace {kill_wait_secs} s")
        }
        other => format!("{other:?}"),
    }
}
