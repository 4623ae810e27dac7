//! The controller's shell, as the daemon has it: one writer that takes commands in batches, flushes, publishes, carries out effects
//! and answers; a planner on snapshots; sessions of agents; checkpoints.
//!
//! The engine is the real one. Invariant: nothing leaves before the flush of its batch.

use std::collections::{BTreeMap, VecDeque};

use sluice_controller::command::agent::{self, Registration};
use sluice_controller::command::plan::carry_out;
use sluice_controller::command::{Rejection, priority, tick};
use sluice_controller::schedule::{self, PlanOptions};
use sluice_controller::transaction::JournalEntry;
use sluice_controller::{Cluster, Effect, Plan, Transaction, check};
use sluice_model::error_code::ErrorCode;
use sluice_model::launch::{AgentOrder, AgentReport, ReportEnvelope};

use crate::disk::{self, Disk};
use crate::invariants::Violation;
use crate::users::Answer;
use crate::world::{Happening, World};

/// Seconds between heartbeats.
pub const HEARTBEAT_SECS: u32 = 5;

/// Longest sleep between two passes.
const IDLE_MS: u64 = 30_000;

/// Batches between two comparisons of the whole state with its replay.
const COMPARE_EVERY: u64 = 16;

/// A command that waits for the writer.
enum Command {
    Register {
        link: u64,
        registration: Box<Registration>,
    },
    Report {
        link: u64,
        node: String,
        envelope: Box<ReportEnvelope>,
    },
    Disconnected {
        node: String,
    },
    Tick,
    Plan(Box<Plan>),
    User {
        request: u64,
    },
}

/// What a command made.
type Ran = Result<((), JournalEntry, Vec<Effect>), Rejection>;

/// To be told once the batch is durable.
enum Told {
    Nobody,
    Planner,
    User(u64, Answer),
    Refused(u64),
}

struct Batch {
    effects: Vec<Effect>,
    told: Vec<Told>,
}

#[derive(Default)]
struct Planner {
    wanted: bool,
    busy: bool,
    wake_at: u64,
    plan: Option<Box<Plan>>,
}

struct Running {
    life: u64,
    live: Cluster,
    published: Cluster,
    queue: VecDeque<Command>,
    flushing: Option<Batch>,
    /// Node name → link of its session.
    sessions: BTreeMap<String, u64>,
    planner: Planner,
    since_checkpoint: u64,
    checkpoint_running: bool,
}

/// The controller and its disk.
pub struct Controller {
    disk: Disk,
    life: u64,
    running: Option<Running>,
}

impl Controller {
    /// Before its first start; the first checkpoint is there.
    #[must_use]
    pub fn new(initial: &Cluster) -> Self {
        let mut disk = Disk::default();
        disk.store_checkpoint(0, rmp_serde::to_vec_named(initial).unwrap_or_default());
        Self {
            disk,
            life: 0,
            running: None,
        }
    }

    /// Its life's number while it is up.
    #[must_use]
    pub fn up(&self) -> Option<u64> {
        self.running.as_ref().map(|running| running.life)
    }

    /// The published state, while it is up.
    #[must_use]
    pub fn published(&self) -> Option<&Cluster> {
        self.running.as_ref().map(|running| &running.published)
    }

    /// The state, if nothing is under way.
    #[must_use]
    pub fn settled(&self) -> Option<&Cluster> {
        self.running
            .as_ref()
            .filter(|running| running.flushing.is_none() && running.queue.is_empty())
            .map(|running| &running.live)
    }

    fn current(&mut self, life: u64) -> Option<&mut Running> {
        self.running.as_mut().filter(|running| running.life == life)
    }
}

impl World {
    /// The daemon starts: state from disk, then it waits for agents and users.
    pub fn controller_starts(&mut self) -> Result<(), Violation> {
        if self.controller.running.is_some() {
            return Ok(());
        }
        let (mut cluster, replayed) = self.controller.disk.recover()?;
        // What was written whole but not yet confirmed when it died counts now.
        for (number, entries) in replayed {
            self.invariants.durable_again(number, &entries)?;
        }
        self.invariants.replay.compare(&cluster)?;
        let now = self.now();
        let indexes: Vec<_> = cluster.node_index.values().copied().collect();
        for index in indexes {
            cluster.last_heard.insert(index, now);
        }
        self.controller.life += 1;
        let life = self.controller.life;
        self.note(|| format!("controller starts, life {life}"));
        let planner = Planner {
            wanted: true,
            ..Planner::default()
        };
        self.controller.running = Some(Running {
            life,
            published: cluster.clone(),
            live: cluster,
            queue: VecDeque::new(),
            flushing: None,
            sessions: BTreeMap::new(),
            planner,
            since_checkpoint: 0,
            checkpoint_running: false,
        });
        self.after(1_000, Happening::Tick { life });
        self.after(1, Happening::PlannerWakes { life });
        Ok(())
    }

    /// The daemon is killed.
    pub fn controller_dies(&mut self) {
        let Some(running) = self.controller.running.take() else {
            return;
        };
        self.note(|| format!("controller dies, life {}", running.life));
        let damage = self.options.faults.checkpoint_damage && self.chance.likely(200);
        self.controller.disk.crash(&mut self.chance, damage);
        for link in self.network.whole() {
            self.break_link(link, 200);
        }
        let delay = self.chance.between(100, 8_000);
        self.after(delay, Happening::ControllerStarts);
    }

    fn enqueue(&mut self, command: Command) {
        let Some(running) = &mut self.controller.running else {
            return;
        };
        running.queue.push_back(command);
        let life = running.life;
        self.after(0, Happening::Work { life });
    }

    /// The writer takes what waits, unless it is flushing.
    pub fn work(&mut self, life: u64) -> Result<(), Violation> {
        let Some(running) = self.controller.current(life) else {
            return Ok(());
        };
        if running.flushing.is_some() || running.queue.is_empty() {
            return Ok(());
        }
        let commands: Vec<Command> = running.queue.drain(..).collect();
        let mut batch = Batch {
            effects: Vec::new(),
            told: Vec::new(),
        };
        let mut entries = Vec::new();
        for command in commands {
            self.run_command(life, command, &mut batch, &mut entries);
        }
        let Some(running) = self.controller.current(life) else {
            return Ok(());
        };
        let violations = check::recount(&running.live);
        if let Some(first) = violations.first() {
            return Err(Violation::new("nothing is given twice", first.to_string()));
        }
        running.flushing = Some(batch);
        if entries.is_empty() {
            return self.flushed(life);
        }
        self.controller.disk.write(disk::encode(&entries));
        let (low, high) = self.options.flush_ms;
        let delay = self.chance.between(low, high);
        self.after(delay, Happening::Flushed { life });
        Ok(())
    }

    fn run_command(
        &mut self,
        life: u64,
        command: Command,
        batch: &mut Batch,
        entries: &mut Vec<JournalEntry>,
    ) {
        let now = self.now();
        let users = &mut self.users;
        let Some(running) = self
            .controller
            .running
            .as_mut()
            .filter(|running| running.life == life)
        else {
            return;
        };
        let live = &mut running.live;
        let (done, told): (Ran, Told) = match command {
            Command::Register { link, registration } => {
                let name = registration.node.clone();
                let done = Transaction::run(live, now, |t| {
                    for order in agent::register(t, *registration)? {
                        t.order(&name, order);
                    }
                    Ok(())
                });
                (done, Told::Refused(link))
            }
            // As the service does: the connection ends.
            Command::Report { link, node, .. } if agent::must_register_again(live, &node) => {
                (Err(ErrorCode::InvalidNodeName.into()), Told::Refused(link))
            }
            Command::Report { node, envelope, .. } => {
                let done = Transaction::run(live, now, |t| {
                    agent::report(t, &node, envelope.report);
                    if envelope.sequence > 0 {
                        t.order(
                            &node,
                            AgentOrder::Acknowledge {
                                sequence: envelope.sequence,
                            },
                        );
                    }
                    Ok(())
                });
                (done, Told::Nobody)
            }
            Command::Disconnected { node } => {
                let done = Transaction::run(live, now, |t| {
                    agent::disconnected(t, &node);
                    Ok(())
                });
                (done, Told::Nobody)
            }
            Command::Tick => {
                let done = Transaction::run(live, now, |t| {
                    tick::tick(t);
                    priority::cycle_if_due(t, None);
                    crate::changes::crontabs(t);
                    Ok(())
                });
                (done, Told::Nobody)
            }
            Command::Plan(plan) => {
                let done = Transaction::run(live, now, |t| {
                    carry_out(t, *plan);
                    Ok(())
                });
                (done, Told::Planner)
            }
            Command::User { request } => match users.execute(request, live, now) {
                Ok((answer, entry, effects)) => {
                    (Ok(((), entry, effects)), Told::User(request, answer))
                }
                Err(rejection) => (
                    Err(rejection.clone()),
                    Told::User(request, Answer::Refused(rejection.to_string())),
                ),
            },
        };
        match done {
            Ok(((), entry, effects)) => {
                if !entry.events.is_empty() || !entry.accounting.is_empty() {
                    entries.push(entry);
                }
                batch.effects.extend(effects);
                if !matches!(told, Told::Refused(_)) {
                    batch.told.push(told);
                }
            }
            Err(_) => batch.told.push(told),
        }
    }

    /// A batch is durable: check it, publish, carry out, answer.
    pub fn flushed(&mut self, life: u64) -> Result<(), Violation> {
        let Some(batch) = self
            .controller
            .current(life)
            .and_then(|running| running.flushing.take())
        else {
            return Ok(());
        };
        if let Some((number, bytes)) = self.controller.disk.flushed() {
            let entries = disk::decode(&bytes).ok_or_else(|| {
                Violation::new("the journal is read back", format!("batch {number}"))
            })?;
            if self.trace.is_some() {
                for event in entries.iter().flat_map(|entry| &entry.events) {
                    self.note(|| brief(event));
                }
            }
            self.invariants.durable(number, &entries)?;
            if number % COMPARE_EVERY == 0
                && let Some(running) = &self.controller.running
            {
                self.invariants.replay.compare(&running.live)?;
            }
            if let Some(running) = self.controller.current(life) {
                running.since_checkpoint += 1;
            }
        }
        let Some(running) = self.controller.current(life) else {
            return Ok(());
        };
        running.published = running.live.clone();
        for effect in batch.effects {
            self.carry_out_effect(life, effect);
        }
        for told in batch.told {
            self.tell(life, told);
        }
        self.checkpoint_if_due(life);
        self.work(life)
    }

    fn carry_out_effect(&mut self, life: u64, effect: Effect) {
        let Some(running) = self.controller.current(life) else {
            return;
        };
        match effect {
            Effect::Order { node, order } => {
                if let Some(link) = running.sessions.get(&node).copied() {
                    self.send_down(link, *order);
                }
            }
            Effect::WakePlanner => {
                running.planner.wanted = true;
                self.after(0, Happening::PlannerWakes { life });
            }
            Effect::JobChanged { .. }
            | Effect::Mail { .. }
            | Effect::RunTrigger { .. }
            | Effect::RunReservationProgram { .. }
            | Effect::ConfigChanged => {}
        }
    }

    fn tell(&mut self, life: u64, told: Told) {
        match told {
            Told::Nobody => {}
            Told::Planner => {
                if let Some(running) = self.controller.current(life) {
                    running.planner.busy = false;
                }
                self.after(0, Happening::PlannerWakes { life });
            }
            Told::User(request, answer) => self.send_answer(request, answer),
            Told::Refused(link) => self.break_link(link, 50),
        }
    }

    fn checkpoint_if_due(&mut self, life: u64) {
        let every = self.options.checkpoint_every;
        let through = self.controller.disk.last();
        let Some(running) = self.controller.current(life) else {
            return;
        };
        if running.since_checkpoint < every || running.checkpoint_running {
            return;
        }
        running.since_checkpoint = 0;
        running.checkpoint_running = true;
        let bytes = rmp_serde::to_vec_named(&running.live).unwrap_or_default();
        let delay = self.chance.between(1, 300);
        self.after(
            delay,
            Happening::CheckpointWritten {
                life,
                through,
                bytes,
            },
        );
    }

    /// A checkpoint is complete.
    pub fn checkpoint_written(
        &mut self,
        life: u64,
        through: u64,
        bytes: Vec<u8>,
    ) -> Result<(), Violation> {
        if let Some(running) = self.controller.current(life) {
            running.checkpoint_running = false;
            self.controller.disk.store_checkpoint(through, bytes);
        }
        Ok(())
    }

    /// Once a second.
    pub fn tick(&mut self, life: u64) -> Result<(), Violation> {
        if self.controller.current(life).is_some() {
            self.enqueue(Command::Tick);
            self.after(1_000, Happening::Tick { life });
        }
        Ok(())
    }

    /// The planner's thread: plans when it was woken or its sleep is over.
    pub fn planner_wakes(&mut self, life: u64) -> Result<(), Violation> {
        let (now_ms, now) = (self.now_ms, self.now());
        let Some(running) = self.controller.current(life) else {
            return Ok(());
        };
        let planner = &mut running.planner;
        if planner.busy || !(planner.wanted || planner.wake_at <= now_ms) {
            return Ok(());
        }
        planner.wanted = false;
        planner.busy = true;
        let snapshot = running.published.clone();
        let plan = schedule::plan(&snapshot, now, PlanOptions::default());
        let wait = plan.next_wakeup.map_or(IDLE_MS, |at| {
            (at.since(now).max(1) as u64 * 1000).min(IDLE_MS)
        });
        running.planner.wake_at = now_ms + wait;
        running.planner.plan = Some(Box::new(plan.clone()));
        if let Some(first) = check::check_plan(&snapshot, &plan, now).first() {
            return Err(Violation::new(
                "a plan keeps its rules and delays no head",
                first.to_string(),
            ));
        }
        let (low, high) = self.options.plan_ms;
        let delay = self.chance.between(low, high);
        self.after(delay, Happening::Planned { life });
        self.after(wait, Happening::PlannerWakes { life });
        Ok(())
    }

    /// The plan goes to the writer.
    pub fn planned(&mut self, life: u64) -> Result<(), Violation> {
        let plan = self
            .controller
            .current(life)
            .and_then(|running| running.planner.plan.take());
        if let Some(plan) = plan {
            self.enqueue(Command::Plan(plan));
        }
        Ok(())
    }

    /// An agent's message arrives.
    pub fn to_controller(&mut self, link: u64, sent: u64, envelope: ReportEnvelope) {
        let now = self.now_ms;
        let Some(state) = self
            .network
            .link(link)
            .filter(|_| self.network.is_read(link, sent, now))
        else {
            return;
        };
        let (node, life, registered) = (state.node, state.controller, state.registered);
        if self.controller.up() != Some(life) {
            return;
        }
        let name = self.nodes[node].name.clone();
        if registered {
            self.enqueue(Command::Report {
                link,
                node: name,
                envelope: Box::new(envelope),
            });
            return;
        }
        let AgentReport::Register {
            node,
            hardware,
            steps,
            jobs,
            health_error,
            ..
        } = envelope.report
        else {
            return;
        };
        self.network.register(link);
        if let Some(running) = &mut self.controller.running {
            running.sessions.insert(name, link);
        }
        let registration = Registration {
            node,
            hardware,
            steps,
            jobs,
            health_error,
            heartbeat_secs: HEARTBEAT_SECS,
        };
        self.enqueue(Command::Register {
            link,
            registration: Box::new(registration),
        });
    }

    /// The controller notices that a link is gone.
    pub fn controller_notices(&mut self, link: u64) {
        let Some(running) = &mut self.controller.running else {
            return;
        };
        let node = running
            .sessions
            .iter()
            .find(|(_, number)| **number == link)
            .map(|(name, _)| name.clone());
        if let Some(node) = node {
            running.sessions.remove(&node);
            self.enqueue(Command::Disconnected { node });
        }
    }

    /// A user's request arrives; nobody answers while the controller is down.
    pub fn request_arrives(&mut self, request: u64) {
        if self.controller.running.is_some() {
            self.enqueue(Command::User { request });
        } else {
            let delay = self.message_delay();
            self.after(delay, Happening::GivesUp { request });
        }
    }
}

/// A fact in a line.
fn brief(event: &sluice_controller::Event) -> String {
    let mut text = format!("{event:?}");
    if text.len() > 220 {
        let mut end = 220;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}
