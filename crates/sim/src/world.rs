//! The simulated world: clock, queue of what happens, and the loop that lets it happen.
//!
//! One thread, one source of chance, one order of events: a seed gives one run. Times are milliseconds since the run's beginning;
//! the engine sees seconds since [`EPOCH_SECS`]. First users and faults are at work; then faults stop and everything must drain.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_config::ClusterConfig;
use sluice_controller::Cluster;
use sluice_model::ids::JobId;
use sluice_model::launch::{AgentOrder, LiveStep, ReportEnvelope, StepLaunch};
use sluice_model::time::UnixSeconds;
use sluice_stepd::control::ControlRequest;

use crate::chance::Chance;
use crate::controller::Controller;
use crate::invariants::{Invariants, Violation, agreement};
use crate::network::Network;
use crate::node::SimNode;
use crate::options::Options;
use crate::users::Users;

/// Second at which each run begins.
pub const EPOCH_SECS: i64 = 1_000_000;

/// How long nothing may move once faults have stopped: longer than any payload, time limit, grace and delay together.
pub const STANDSTILL_MS: u64 = 1_800_000;

/// How long nodes and controller may disagree once faults have stopped: a reboot, a dial, the longest grace.
const AGREEMENT_MS: u64 = 180_000;

/// Something that happens at a moment.
#[derive(Debug)]
pub enum Happening {
    /// The writer looks at its queue.
    Work { life: u64 },
    /// The journal's flush is done.
    Flushed { life: u64 },
    /// The controller's clock.
    Tick { life: u64 },
    /// The planner looks whether to plan.
    PlannerWakes { life: u64 },
    /// A plan is ready.
    Planned { life: u64 },
    /// A checkpoint is written.
    CheckpointWritten {
        life: u64,
        through: u64,
        bytes: Vec<u8>,
    },
    /// The controller starts.
    ControllerStarts,
    /// An agent's message arrives.
    ToController {
        link: u64,
        sent: u64,
        envelope: Box<ReportEnvelope>,
    },
    /// The controller's message arrives.
    ToAgent { link: u64, order: Box<AgentOrder> },
    /// The controller notices that a link is broken.
    ControllerNotices { link: u64 },
    /// The agent does.
    AgentNotices { link: u64 },
    /// An agent dials.
    Dial { node: usize, life: u64 },
    /// An agent starts.
    AgentStarts { node: usize },
    /// An agent's clock.
    AgentTick { node: usize, life: u64 },
    /// An agent's heartbeat.
    Heartbeat { node: usize, life: u64 },
    /// A step's folder is made.
    StepPrepared {
        node: usize,
        life: u64,
        launch: Box<StepLaunch>,
    },
    /// A step daemon is started.
    StepSpawned {
        node: usize,
        life: u64,
        launch: Box<StepLaunch>,
    },
    /// It said that its processes exist.
    StepReady {
        node: usize,
        life: u64,
        step: LiveStep,
    },
    /// A request for a step daemon arrives.
    Control {
        node: usize,
        life: u64,
        step: LiveStep,
        request: ControlRequest,
        tries: u32,
    },
    /// A payload's time is over, if `token` is still its own.
    PayloadEnds {
        node: usize,
        step: LiveStep,
        token: u64,
    },
    /// Its grace is over.
    PayloadKilled { node: usize, step: LiveStep },
    /// The agent reads how a step ended.
    Concluded {
        node: usize,
        life: u64,
        step: LiveStep,
    },
    /// A Prolog ends.
    PrologEnds {
        node: usize,
        life: u64,
        job: JobId,
        attempt: u32,
        error: Option<String>,
    },
    /// An Epilog ends.
    EpilogEnds {
        node: usize,
        life: u64,
        job: JobId,
        error: Option<String>,
    },
    /// A user's request arrives.
    Request { request: u64 },
    /// A user's answer arrives.
    Answer {
        request: u64,
        answer: crate::users::Answer,
    },
    /// A user waits no longer for an answer.
    GivesUp { request: u64 },
    /// A user asks again.
    Retry { request: u64 },
    /// The next submission.
    Submission,
    /// The next command.
    UserActs,
    /// The administrator looks after the cluster.
    AdministratorActs,
    /// The next fault of a kind.
    Fault(crate::faults::Fault),
    /// Faults and new work stop.
    Calm,
}

/// The world.
pub struct World {
    /// What the seed chose.
    pub options: Options,
    /// Seed.
    pub seed: u64,
    /// Chance of everything that has no stream of its own.
    pub chance: Chance,
    /// Now.
    pub now_ms: u64,
    /// Controller.
    pub controller: Controller,
    /// Nodes.
    pub nodes: Vec<SimNode>,
    /// Links.
    pub network: Network,
    /// Users.
    pub users: Users,
    /// What must hold.
    pub invariants: Invariants,
    /// Found in the middle of something; ends the run after the step.
    pub found: Option<Violation>,
    /// Faults have stopped.
    pub calm: bool,
    progress: (usize, usize),
    progress_ms: u64,
    /// The last lines of a traced run.
    pub trace: Option<VecDeque<String>>,
    trace_max: usize,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    happenings: BTreeMap<u64, Happening>,
    next: u64,
    steps: u64,
    base: Instant,
}

/// A run that went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Happenings.
    pub steps: u64,
    /// Simulated milliseconds.
    pub simulated_ms: u64,
    /// Submissions acknowledged.
    pub acknowledged: usize,
    /// Batch scripts executed.
    pub scripts: usize,
    /// Job runs on record.
    pub records: usize,
}

impl World {
    /// The world of a seed; the last `trace_max` lines of what happens are kept.
    ///
    /// # Errors
    /// When the configuration that the options make is not valid.
    pub fn new(seed: u64, trace_max: usize) -> Result<Self, Violation> {
        let options = Options::of(seed);
        let config = ClusterConfig::parse_slurm_conf(&options.conf)
            .map_err(|error| Violation::new("the configuration is valid", format!("{error:?}")))?
            .config;
        let initial = Cluster::new(Arc::new(config), UnixSeconds(EPOCH_SECS));
        let nodes = (1..=options.nodes)
            .map(|number| SimNode::new(format!("n{number}"), &options))
            .collect();
        let mut world = Self {
            seed,
            chance: Chance::of(seed, &[2]),
            now_ms: 0,
            controller: Controller::new(&initial),
            nodes,
            network: Network::default(),
            users: Users::default(),
            invariants: Invariants::new(initial),
            found: None,
            calm: false,
            progress: (0, 0),
            progress_ms: 0,
            trace: (trace_max > 0).then(VecDeque::new),
            trace_max,
            queue: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            next: 0,
            steps: 0,
            base: Instant::now(),
            options,
        };
        world.begin();
        Ok(world)
    }

    fn begin(&mut self) {
        self.after(0, Happening::ControllerStarts);
        for node in 0..self.nodes.len() {
            let delay = self.chance.between(0, 2_000);
            self.after(delay, Happening::AgentStarts { node });
        }
        for _ in 0..self.options.submissions {
            let at = self.chance.between(0, self.options.busy_ms * 8 / 10);
            self.after(at, Happening::Submission);
        }
        if self.options.commands_every_ms > 0 && !self.options.commands.is_empty() {
            self.after(self.options.commands_every_ms, Happening::UserActs);
        }
        self.after(20_000, Happening::AdministratorActs);
        self.schedule_faults();
        self.after(self.options.busy_ms, Happening::Calm);
    }

    /// Lets something happen in a while.
    pub fn after(&mut self, delay_ms: u64, happening: Happening) {
        self.queue
            .push(Reverse((self.now_ms + delay_ms, self.next)));
        self.happenings.insert(self.next, happening);
        self.next += 1;
    }

    /// The engine's clock.
    #[must_use]
    pub fn now(&self) -> UnixSeconds {
        UnixSeconds(EPOCH_SECS + (self.now_ms / 1000) as i64)
    }

    /// The agents' clock.
    #[must_use]
    pub fn instant(&self) -> Instant {
        self.base + Duration::from_millis(self.now_ms)
    }

    /// Notes a line if the run is traced.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            if trace.len() >= self.trace_max {
                trace.pop_front();
            }
            trace.push_back(format!(
                "{:>9.3} s  {}",
                self.now_ms as f64 / 1000.0,
                line()
            ));
        }
    }

    /// Lets everything happen until the world has drained.
    ///
    /// # Errors
    /// The first invariant that is broken.
    pub fn run(&mut self) -> Result<Summary, Violation> {
        while let Some(Reverse((at, number))) = self.queue.pop() {
            self.now_ms = at;
            let Some(happening) = self.happenings.remove(&number) else {
                continue;
            };
            self.steps += 1;
            self.step(happening)?;
            if let Some(violation) = self.found.take() {
                return Err(violation);
            }
            if self.calm && self.stands_still() {
                return Err(self.stuck());
            }
            if self.calm && self.users.are_idle() && self.has_drained() {
                self.check_drained()?;
                return Ok(Summary {
                    steps: self.steps,
                    simulated_ms: self.now_ms,
                    acknowledged: self.invariants.lost.known().count(),
                    scripts: self.invariants.runs.count(),
                    records: self.invariants.accounting.count(),
                });
            }
        }
        Err(Violation::new(
            "the world goes on",
            "nothing is left to happen".to_owned(),
        ))
    }

    fn step(&mut self, happening: Happening) -> Result<(), Violation> {
        match happening {
            Happening::Work { life } => self.work(life),
            Happening::Flushed { life } => self.flushed(life),
            Happening::Tick { life } => self.tick(life),
            Happening::PlannerWakes { life } => self.planner_wakes(life),
            Happening::Planned { life } => self.planned(life),
            Happening::CheckpointWritten {
                life,
                through,
                bytes,
            } => self.checkpoint_written(life, through, bytes),
            Happening::ControllerStarts => self.controller_starts(),
            Happening::ToController {
                link,
                sent,
                envelope,
            } => {
                self.to_controller(link, sent, *envelope);
                Ok(())
            }
            Happening::ToAgent { link, order } => self.to_agent(link, *order),
            Happening::ControllerNotices { link } => {
                self.controller_notices(link);
                Ok(())
            }
            Happening::AgentNotices { link } => {
                self.agent_notices(link);
                Ok(())
            }
            Happening::Request { request } => {
                self.request_arrives(request);
                Ok(())
            }
            Happening::Answer { request, answer } => self.answered(request, answer),
            Happening::GivesUp { request } => {
                self.gives_up(request);
                Ok(())
            }
            Happening::Retry { request } => {
                self.retry(request);
                Ok(())
            }
            Happening::Submission => {
                self.submission();
                Ok(())
            }
            Happening::UserActs => {
                self.user_acts();
                Ok(())
            }
            Happening::AdministratorActs => {
                self.administrator_acts();
                self.check_agreement()
            }
            Happening::Fault(fault) => self.fault(fault),
            Happening::Calm => {
                self.become_calm();
                Ok(())
            }
            other => self.at_node(other),
        }
    }

    fn become_calm(&mut self) {
        self.note(|| "calm: faults stop".to_owned());
        self.calm = true;
        self.network.heal();
        self.options.prolog_fails = 0;
        self.options.epilog_fails = 0;
        self.options.answers_lost = 0;
    }

    /// Neither a script was started nor a job ended for long.
    fn stands_still(&mut self) -> bool {
        let waiting = self
            .controller
            .published()
            .map_or(0, |state| state.pending.len() + state.holding.len());
        let progress = (self.invariants.runs.count(), waiting);
        if progress != self.progress || self.progress_ms < self.options.busy_ms {
            self.progress = progress;
            self.progress_ms = self.now_ms;
        }
        self.now_ms > self.progress_ms + STANDSTILL_MS
    }

    fn check_agreement(&self) -> Result<(), Violation> {
        let quiet = self.calm && self.now_ms > self.options.busy_ms + AGREEMENT_MS;
        match self.controller.published().filter(|_| quiet) {
            Some(state) => agreement::check(state, &self.nodes, self.now()),
            None => Ok(()),
        }
    }

    fn has_drained(&self) -> bool {
        let Some(state) = self.controller.settled() else {
            return false;
        };
        let over = state.pending.is_empty() && state.holding.is_empty();
        over && self.nodes.iter().all(SimNode::is_idle)
    }

    fn check_drained(&self) -> Result<(), Violation> {
        let Some(live) = self.controller.settled() else {
            return Ok(());
        };
        self.invariants.replay.compare(live)?;
        self.invariants.lost.check(live)?;
        self.invariants.accounting.all_ended(live)
    }

    fn stuck(&self) -> Violation {
        let mut words = Vec::new();
        if let Some(state) = self.controller.published() {
            for id in state.pending.iter().chain(&state.holding).take(4) {
                let note = state.plan_notes.get(id);
                words.push(format!("job {id}: {:?}, note {note:?}", state.job(*id)));
            }
            for node in state.nodes.iter().filter(|node| !node.is_usable()) {
                words.push(format!(
                    "node {} is {} ({:?})",
                    node.config.name, node.state, node.reason
                ));
            }
        } else {
            words.push("the controller is down".to_owned());
        }
        for node in self.nodes.iter().filter(|node| !node.is_idle()) {
            words.push(node.to_string());
        }
        if !self.users.are_idle() {
            words.push("users wait for answers".to_owned());
        }
        Violation::new("everything drains once faults stop", words.join("\n"))
    }
}
