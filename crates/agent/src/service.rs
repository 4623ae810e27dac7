//! The shell around the core: takes what happens, asks the core, carries out its effects.
//!
//! One task owns the core, the outbox and the records in the spool, so nothing is locked. Small spool files are written in
//! place (they are not synced); everything that can take long (scripts, step daemons, sockets, files of a new
//! configuration) runs in tasks that answer over a channel. Invariant: a job's record and a report are in the spool before
//! what they stand for leaves this process.

mod job_scripts;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_model::ids::JobId;
use sluice_model::launch::{AgentReport, LiveStep, ReportEnvelope};
use sluice_proto::v1::AgentMessage;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::MissedTickBehavior;
use tracing::{debug, error, info, warn};

use self::job_scripts::run_health_check;
use crate::config_source;
use crate::connection::{LinkEvent, keep_connected};
use crate::core::{AgentCore, Effect, FoundStep};
use crate::node::{NodeChoice, NodeContext};
use crate::sys::auth_socket;
use crate::sys::hardware;
use crate::sys::scripts;
use crate::sys::spool::{Outbox, Spool};
use crate::sys::steps::{ControlQueues, StepEvent, StepRunner, usage_of};

/// Interval of heartbeats until the controller names one.
const HEARTBEAT_DEFAULT: Duration = Duration::from_secs(5);
/// How often the core looks for processes that survive SIGKILL.
const TICK: Duration = Duration::from_secs(1);

/// What a running agent can be told.
#[derive(Debug)]
pub enum Command {
    /// Read the configuration again.
    Reconfigure,
    /// End; the steps go on.
    Stop,
}

/// How an agent is started.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Path of `stepd`.
    pub stepd: PathBuf,
    /// `-c`.
    pub clean_start: bool,
    /// `-b`: the registration says that the machine booted just now.
    pub booted: bool,
    /// The node's identity, for reading a changed configuration.
    pub choice: NodeChoice,
}

/// What happened.
enum Input {
    Link(LinkEvent),
    Step(StepEvent),
    PrologDone {
        job: JobId,
        attempt: u32,
        error: Option<String>,
    },
    EpilogDone {
        job: JobId,
        error: Option<String>,
    },
    Health(Option<String>),
    Usage(AgentReport),
    Configured(Box<NodeContext>),
}

struct Link {
    epoch: u64,
    sender: mpsc::UnboundedSender<AgentMessage>,
}

struct Service {
    node: Arc<NodeContext>,
    node_watch: watch::Sender<Arc<NodeContext>>,
    settings: Settings,
    core: AgentCore,
    spool: Spool,
    outbox: Outbox,
    runner: StepRunner,
    controls: ControlQueues,
    script_turn: Arc<Semaphore>,
    inputs: mpsc::UnboundedSender<Input>,
    link: Option<Link>,
    heartbeat: tokio::time::Interval,
    health_error: Option<String>,
    reading_configuration: bool,
}

/// Runs the agent until it is told to stop.
///
/// # Errors
/// When the spool directory cannot be used.
pub async fn run(
    node: NodeContext,
    settings: Settings,
    mut commands: mpsc::UnboundedReceiver<Command>,
) -> anyhow::Result<()> {
    let spool = Spool::open(&node.spool, settings.clean_start).map_err(|error| {
        anyhow::anyhow!(
            "SlurmdSpoolDir {} cannot be used: {error}",
            node.spool.display()
        )
    })?;
    scripts::write_texts(node.node_scripts(), &spool.scripts())?;
    let outbox = Outbox::open(&spool)?;
    let (step_sender, mut step_events) = mpsc::unbounded_channel();
    let (link_sender, mut link_events) = mpsc::unbounded_channel();
    let (inputs, mut received) = mpsc::unbounded_channel();
    let runner = StepRunner::new(settings.stepd.clone(), spool.clone(), step_sender);
    let node = Arc::new(node);
    let (node_watch, node_changes) = watch::channel(Arc::clone(&node));
    let mut service = Service {
        core: AgentCore::new(node.core_settings()),
        controls: ControlQueues::new(spool.clone()),
        script_turn: Arc::new(Semaphore::new(1)),
        heartbeat: heartbeat(HEARTBEAT_DEFAULT),
        link: None,
        health_error: None,
        reading_configuration: false,
        node,
        node_watch,
        settings,
        spool,
        outbox,
        runner,
        inputs,
    };
    service.recover();
    service.check_health_once().await;
    tokio::spawn(auth_socket::serve(
        service.spool.root().to_path_buf(),
        service.node.key_files.clone(),
    ));
    tokio::spawn(keep_connected(node_changes, link_sender));
    service.watch_health();

    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(Command::Reconfigure) => service.read_configuration(),
                Some(Command::Stop) | None => {
                    info!("agent ends; {} jobs go on", service.core.job_count());
                    service.node.leave();
                    return Ok(());
                }
            },
            Some(event) = link_events.recv() => service.on_input(Input::Link(event)),
            Some(event) = step_events.recv() => service.on_input(Input::Step(event)),
            Some(input) = received.recv() => service.on_input(input),
            _ = service.heartbeat.tick() => service.send_heartbeat(),
            _ = tick.tick() => {
                let effects = service.core.on_tick(Instant::now());
                service.carry_out(effects);
            }
        }
    }
}

fn heartbeat(period: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

impl Service {
    // ---- start ----

    fn recover(&mut self) {
        for found in self.spool.find_jobs() {
            let (id, attempt) = (found.record.info.job_id, found.record.info.attempt);
            info!(job = %id, steps = found.steps.len(), "job of an earlier start found");
            let steps = found.steps.clone();
            let effects = self
                .core
                .recover(found.record, &found.steps, Instant::now());
            self.carry_out(effects);
            for step in steps
                .iter()
                .filter(|step| step.found == FoundStep::Unfinished)
            {
                self.runner.watch(LiveStep {
                    job_id: id,
                    attempt,
                    step_id: step.step_id,
                });
            }
        }
    }

    async fn check_health_once(&mut self) {
        if let Some(program) = self.node.config.agent.health_check.program.clone() {
            self.health_error = run_health_check(&self.node, &program).await;
        }
    }

    fn watch_health(&self) {
        let mut changes = self.node_watch.subscribe();
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            loop {
                let node = Arc::clone(&changes.borrow_and_update());
                let check = &node.config.agent.health_check;
                let only_at_start = check.node_state.iter().any(|state| state == "START_ONLY");
                match &check.program {
                    Some(program) if check.interval_secs > 0 && !only_at_start => {
                        let pause =
                            tokio::time::sleep(Duration::from_secs(check.interval_secs.into()));
                        tokio::select! {
                            () = pause => {
                                let error = run_health_check(&node, program).await;
                                if inputs.send(Input::Health(error)).is_err() {
                                    return;
                                }
                            }
                            changed = changes.changed() => if changed.is_err() { return },
                        }
                    }
                    _ => {
                        if changes.changed().await.is_err() {
                            return;
                        }
                    }
                }
            }
        });
    }

    // ---- inputs ----

    fn on_input(&mut self, input: Input) {
        match input {
            Input::Link(LinkEvent::Up { epoch, sender }) => {
                self.link = Some(Link { epoch, sender });
                self.register();
            }
            Input::Link(LinkEvent::Down { epoch }) => {
                if self.link.as_ref().is_some_and(|link| link.epoch == epoch) {
                    self.link = None;
                }
            }
            Input::Link(LinkEvent::Order { epoch, order }) => {
                // What an old link still delivers was decided before the controller saw the newest registration.
                if self.link.as_ref().is_some_and(|link| link.epoch == epoch) {
                    debug!("order: {}", order_name(&order));
                    let effects = self.core.on_order(*order, Instant::now());
                    self.carry_out(effects);
                }
            }
            Input::Step(StepEvent::Ready { step, pids }) => {
                let effects = self.core.on_step_ready(step, pids);
                self.carry_out(effects);
            }
            Input::Step(StepEvent::Exited(exit)) => {
                self.controls.forget(LiveStep {
                    job_id: exit.job_id,
                    attempt: exit.attempt,
                    step_id: exit.step_id,
                });
                let effects = self.core.on_step_exit(exit);
                self.carry_out(effects);
            }
            Input::PrologDone {
                job,
                attempt,
                error,
            } => {
                if let Some(error) = &error {
                    error!(job = %job, "{error}");
                }
                let effects = self.core.on_prolog_done(job, attempt, error);
                self.carry_out(effects);
            }
            Input::EpilogDone { job, error } => {
                if let Some(error) = &error {
                    error!(job = %job, "{error}");
                }
                let effects = self.core.on_epilog_done(job, error);
                self.carry_out(effects);
            }
            Input::Health(error) => {
                if let Some(error) = &error {
                    warn!("{error}");
                }
                self.health_error = error;
            }
            Input::Usage(report) => self.report(report),
            Input::Configured(node) => self.adopt(*node),
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        let mut queue = VecDeque::from(effects);
        while let Some(effect) = queue.pop_front() {
            match effect {
                Effect::StoreJob(id) => {
                    // Only the last of several is written: nothing else leaves in between.
                    if matches!(queue.front(), Some(Effect::StoreJob(next)) if *next == id) {
                        continue;
                    }
                    if let Some(record) = self.core.record(id)
                        && let Err(error) = self.spool.store_job(&record)
                    {
                        error!(job = %id, "{error}");
                    }
                }
                Effect::ForgetJob(id) => self.spool.forget_job(id),
                Effect::Report(report) => self.report(report),
                Effect::RunProlog(job) => {
                    if self.node.config.scripts.prolog.is_empty() {
                        queue.extend(self.core.on_prolog_done(job.job_id, job.attempt, None));
                    } else {
                        self.run_prolog(job);
                    }
                }
                Effect::RunEpilog(job) => {
                    if self.node.config.scripts.epilog.is_empty() {
                        queue.extend(self.core.on_epilog_done(job.job_id, None));
                    } else {
                        self.run_epilog(job);
                    }
                }
                Effect::StartStep(launch) => {
                    let job = self.core.job(launch.job_id).map(|job| job.info.clone());
                    self.runner
                        .start(self.node.step_spec(job.as_ref(), *launch));
                }
                Effect::StepReported(step) => self.spool.mark_reported(step),
                Effect::Control { step, request } => self.controls.send(step, request),
                Effect::ReportUsage {
                    request,
                    step,
                    pids,
                } => self.ask_usage(request, step, pids),
                Effect::RunUnkillableProgram { job_id, step_id } => {
                    self.run_unkillable_program(job_id, step_id)
                }
                Effect::Acknowledged(sequence) => {
                    if let Some(report) = self.outbox.acknowledge(sequence) {
                        queue.extend(self.core.on_acknowledged(&report));
                    }
                }
                Effect::Reboot(reason) => self.run_reboot_program(&reason),
                Effect::FetchConfiguration(version) => {
                    if version != self.node.source.version {
                        self.read_configuration();
                    }
                }
                Effect::SetHeartbeat(secs) => {
                    self.heartbeat = heartbeat(Duration::from_secs(u64::from(secs.max(1))));
                }
            }
        }
    }

    // ---- reports ----

    fn report(&mut self, report: AgentReport) {
        let transient = matches!(
            report,
            AgentReport::Register { .. }
                | AgentReport::Heartbeat { .. }
                | AgentReport::StepStarted { .. }
                | AgentReport::Usage { .. }
        );
        let sequence = if transient {
            0
        } else {
            self.outbox.push(report.clone())
        };
        self.send(&ReportEnvelope { sequence, report });
    }

    /// Asks a step daemon for its figures; the answer becomes a report.
    fn ask_usage(&self, request: u64, step: LiveStep, pids: Vec<u32>) {
        let (folder, inputs) = (self.spool.step(step), self.inputs.clone());
        tokio::spawn(async move {
            let usage = usage_of(&folder).await;
            let _ = inputs.send(Input::Usage(AgentReport::Usage {
                request,
                step_id: step.step_id,
                usage,
                pids,
            }));
        });
    }

    fn send(&mut self, envelope: &ReportEnvelope) {
        let Some(link) = &self.link else {
            return;
        };
        match sluice_proto::encode_report(envelope) {
            Ok(message) => {
                if link.sender.send(message).is_err() {
                    self.link = None;
                }
            }
            Err(error) => error!("{error}"),
        }
    }

    fn register(&mut self) {
        let mut hardware = self.node.hardware();
        if self.settings.booted {
            hardware.boot_time = hardware.agent_start_time;
        }
        self.report(AgentReport::Register {
            node: self.node.node.name.clone(),
            hardware,
            steps: self.core.known_steps(),
            jobs: self.core.known_jobs(),
            config_version: self.node.source.version,
            health_error: self.health_error.clone(),
        });
        for report in self.core.running_steps() {
            self.report(report);
        }
        let waiting: Vec<ReportEnvelope> = self
            .outbox
            .waiting()
            .map(|(sequence, report)| ReportEnvelope {
                sequence,
                report: report.clone(),
            })
            .collect();
        for envelope in &waiting {
            self.send(envelope);
        }
        self.send_heartbeat();
    }

    fn send_heartbeat(&mut self) {
        if self.link.is_some() {
            self.report(AgentReport::Heartbeat {
                load: hardware::load(),
            });
        }
    }

    // ---- configuration ----

    fn read_configuration(&mut self) {
        if self.reading_configuration {
            return;
        }
        self.reading_configuration = true;
        let inputs = self.inputs.clone();
        let old = Arc::clone(&self.node);
        let choice = self.settings.choice.clone();
        tokio::spawn(async move {
            let result = async {
                let Some((config, source)) = config_source::refresh(&old.source, &choice).await?
                else {
                    return anyhow::Ok(NodeContext::clone(&old));
                };
                let started = old.hardware().agent_start_time;
                Ok(tokio::task::spawn_blocking(move || {
                    NodeContext::new(config, source, &choice, started)
                })
                .await??)
            };
            let node = result.await.unwrap_or_else(|error| {
                error!("the configuration stays as it was: {error:#}");
                NodeContext::clone(&old)
            });
            let _ = inputs.send(Input::Configured(Box::new(node)));
        });
    }

    fn adopt(&mut self, node: NodeContext) {
        self.reading_configuration = false;
        if node.source == self.node.source && node.config == self.node.config {
            return;
        }
        if node.spool != self.node.spool {
            warn!(
                "SlurmdSpoolDir has changed: it stays {} until the agent is restarted",
                self.node.spool.display()
            );
        }
        if let Err(error) = scripts::write_texts(node.node_scripts(), &self.spool.scripts()) {
            error!("scripts of the new configuration cannot be written: {error}");
        }
        info!("configuration version {} is in force", node.source.version);
        self.core.set_settings(node.core_settings());
        self.node = Arc::new(node);
        self.node_watch.send_replace(Arc::clone(&self.node));
        // The controller learns version and hardware from a new registration on the same stream.
        self.register();
    }
}

fn order_name(order: &sluice_model::launch::AgentOrder) -> String {
    use sluice_model::launch::AgentOrder as Order;
    match order {
        Order::StartJob(job) => format!("start job {}.{}", job.job_id, job.attempt),
        Order::LaunchStep(launch) => format!("launch {}.{}", launch.job_id, launch.step_id),
        Order::TerminateJob {
            job_id, attempt, ..
        } => format!("end job {job_id}.{attempt}"),
        Order::TerminateStep {
            job_id, step_id, ..
        } => format!("end step {job_id}.{step_id}"),
        Order::Signal {
            job_id,
            target,
            signal,
        } => format!("signal {signal} to {target:?} of job {job_id}"),
        Order::Notify { job_id, .. } => format!("notify job {job_id}"),
        Order::AttachStep {
            job_id, step_id, ..
        } => format!("attach a command to {job_id}.{step_id}"),
        Order::Suspend { job_id, suspended } => format!("suspend={suspended} job {job_id}"),
        Order::ReportUsage {
            job_id, step_id, ..
        } => format!("report the usage of {job_id}.{step_id}"),
        Order::Acknowledge { sequence } => format!("acknowledge {sequence}"),
        Order::Reboot { reason } => format!("reboot: {reason}"),
        Order::Configuration { version } => format!("configuration {version}"),
        Order::Registered { jobs, .. } => format!("registered with {} jobs", jobs.len()),
    }
}
