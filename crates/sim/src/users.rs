//! Users and their requests: what they submit, what else they ask for, and that they ask again with the same key when no answer
//! comes. And the administrator, who brings nodes back and, once faults have stopped, lets go what is held.
//!
//! Users know only what they were told.

use std::collections::{BTreeMap, BTreeSet};

use sluice_controller::cluster::Cluster;
use sluice_controller::command::cancel::{SignalRequest, signal_targets};
use sluice_controller::command::hold::{HoldKind, hold_targets};
use sluice_controller::command::requeue::{RequeueRequest, requeue_targets};
use sluice_controller::command::submit::{Submission, submit};
use sluice_controller::command::{Caller, Rejection, het, node, step, suspend, update};
use sluice_controller::transaction::JournalEntry;
use sluice_controller::{Effect, Transaction};
use sluice_model::ids::JobId;
use sluice_model::job::JobUpdate;
use sluice_model::launch::LiveStep;
use sluice_model::node::{NodeStateRequest, NodeUpdate};
use sluice_model::node_state::NodeState;
use sluice_model::reason::Reason;
use sluice_model::state::JobState;
use sluice_model::step::StepDescription;
use sluice_model::time::{TimeLimit, UnixSeconds};

use crate::changes::Change;
use crate::invariants::Violation;
use crate::options::CommandKind;
use crate::submissions::{self, Wish};
use crate::world::{Happening, World};

/// How long a user waits for an answer.
const PATIENCE_MS: u64 = 15_000;

/// How often a submission is tried.
const TRIES_MAX: u32 = 40;

/// The administrator.
pub const ROOT: Caller = Caller::root();

/// What a user asks for.
#[derive(Debug, Clone)]
pub enum Action {
    /// `sbatch`.
    Submit(Box<Wish>),
    /// `scancel`.
    Signal(String, SignalRequest),
    /// `scontrol hold`, `release`.
    Hold(String, HoldKind),
    /// `scontrol requeue`.
    Requeue(String, RequeueRequest),
    /// `scontrol update JobId=`.
    Update(String, Box<JobUpdate>),
    /// `scontrol suspend`, `resume`.
    Suspend(String, bool),
    /// `srun` in a job.
    Step(Box<StepDescription>),
    /// `scontrol update NodeName=`.
    Node(Box<NodeUpdate>),
    /// What is about neither jobs nor states of nodes.
    Change(Box<Change>),
}

/// What a user is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The job's id.
    Submitted(JobId),
    /// Done, or not for each target.
    Done,
    /// No.
    Refused(String),
}

#[derive(Debug)]
struct Request {
    action: Action,
    caller: Caller,
    tries: u32,
    patient_until: u64,
}

/// All users.
#[derive(Debug, Default)]
pub struct Users {
    requests: BTreeMap<u64, Request>,
    next: u64,
    /// Submissions made so far.
    pub submissions: u64,
}

impl Users {
    /// Nobody waits for an answer.
    #[must_use]
    pub fn are_idle(&self) -> bool {
        self.requests.is_empty()
    }

    /// Runs a request's command as the service does.
    ///
    /// # Errors
    /// The engine's rejection.
    pub fn execute(
        &self,
        request: u64,
        live: &mut Cluster,
        now: UnixSeconds,
    ) -> Result<(Answer, JournalEntry, Vec<Effect>), Rejection> {
        let Some(request) = self.requests.get(&request) else {
            // The user has gone away; the daemon would carry it out all the same, but nobody knows what it was.
            return Ok((Answer::Done, JournalEntry::default(), Vec::new()));
        };
        let caller = &request.caller;
        Transaction::run(live, now, |t| match &request.action {
            Action::Submit(wish) => {
                let submission = Submission {
                    description: wish.description.clone(),
                    script: Some(wish.script.clone()),
                    environment: None,
                    user_name: format!("user{}", caller.uid),
                    group_name: "users".to_owned(),
                    group_names: vec!["users".to_owned()],
                    default_account: None,
                    caller: caller.clone(),
                };
                if wish.others.is_empty() {
                    submit(t, submission)
                } else {
                    let others = wish.others.iter().map(|description| Submission {
                        description: description.clone(),
                        script: None,
                        ..submission.clone()
                    });
                    let parts = std::iter::once(submission.clone()).chain(others).collect();
                    het::submit(t, parts)
                }
                .map(|submitted| Answer::Submitted(submitted.job_id))
            }
            Action::Signal(target, signal) => {
                signal_targets(t, std::slice::from_ref(target), *signal, caller);
                Ok(Answer::Done)
            }
            Action::Hold(target, kind) => {
                hold_targets(t, std::slice::from_ref(target), *kind, caller);
                Ok(Answer::Done)
            }
            Action::Requeue(target, how) => {
                requeue_targets(t, std::slice::from_ref(target), *how, caller);
                Ok(Answer::Done)
            }
            Action::Update(target, change) => {
                update::update_targets(t, std::slice::from_ref(target), change, caller);
                Ok(Answer::Done)
            }
            Action::Suspend(target, resume) => {
                suspend::suspend_targets(t, std::slice::from_ref(target), *resume, caller);
                Ok(Answer::Done)
            }
            Action::Step(description) => {
                step::create(t, (**description).clone(), None, caller).map(|_| Answer::Done)
            }
            Action::Node(change) => node::update(t, change, caller).map(|()| Answer::Done),
            Action::Change(change) => change.execute(t, caller).map(|()| Answer::Done),
        })
    }
}

impl World {
    /// Somebody asks for a change.
    pub fn ask_change(&mut self, change: Change, caller: Caller) {
        self.ask(Action::Change(Box::new(change)), caller);
    }

    /// A user asks.
    pub fn ask(&mut self, action: Action, caller: Caller) {
        self.users.next += 1;
        let number = self.users.next;
        self.users.requests.insert(
            number,
            Request {
                action,
                caller,
                tries: 0,
                patient_until: 0,
            },
        );
        self.send_request(number);
    }

    fn send_request(&mut self, number: u64) {
        let until = self.now_ms + PATIENCE_MS;
        let Some(request) = self.users.requests.get_mut(&number) else {
            return;
        };
        request.tries += 1;
        request.patient_until = until;
        let words = format!("uid {} asks {}", request.caller.uid, brief(&request.action));
        self.note(|| words);
        let delay = self.message_delay();
        self.after(delay, Happening::Request { request: number });
        self.after(PATIENCE_MS, Happening::GivesUp { request: number });
    }

    /// The controller answers; the answer may get lost.
    pub fn send_answer(&mut self, request: u64, answer: Answer) {
        if self.chance.likely(self.options.answers_lost) {
            self.note(|| format!("answer {answer:?} is lost"));
            return;
        }
        let delay = self.message_delay();
        self.after(delay, Happening::Answer { request, answer });
    }

    /// A user has the answer.
    ///
    /// # Errors
    /// When it contradicts an earlier one.
    pub fn answered(&mut self, request: u64, answer: Answer) -> Result<(), Violation> {
        let Some(done) = self.users.requests.remove(&request) else {
            return Ok(());
        };
        self.note(|| format!("answer: {answer:?}"));
        if let (Action::Submit(wish), Answer::Submitted(id)) = (done.action, answer) {
            for (id, _) in (id.0 + 1..).zip(&wish.others) {
                self.invariants
                    .lost
                    .acknowledge(JobId(id), BTreeSet::new())?;
            }
            self.invariants.lost.acknowledge(id, wish.tasks)?;
        }
        Ok(())
    }

    /// No answer came, or nobody was there: submissions are tried again with the same key, the rest is dropped.
    pub fn gives_up(&mut self, number: u64) {
        let now = self.now_ms;
        let Some(request) = self.users.requests.get_mut(&number) else {
            return;
        };
        let refused = request.patient_until > now;
        if refused && self.controller.up().is_some() {
            return;
        }
        if matches!(request.action, Action::Submit(_)) && request.tries < TRIES_MAX {
            let pause = self.chance.between(500, 3_000);
            self.after(pause, Happening::Retry { request: number });
        } else {
            self.users.requests.remove(&number);
        }
    }

    /// A user tries again.
    pub fn retry(&mut self, number: u64) {
        self.send_request(number);
    }

    /// The next job is submitted.
    pub fn submission(&mut self) {
        self.users.submissions += 1;
        let known: Vec<JobId> = self.invariants.lost.known().map(|(id, _)| id).collect();
        let now = self.now();
        let wish = submissions::wish(
            self.seed,
            self.users.submissions,
            &self.options,
            &known,
            now,
        );
        let caller = Caller::user(wish.description.uid);
        self.ask(Action::Submit(Box::new(wish)), caller);
    }

    /// A batch script began: some call `srun`.
    pub fn script_began(&mut self, at: LiveStep) {
        let steps = self.options.commands.contains(&CommandKind::Step);
        if !steps || self.chance.likely(500) {
            return;
        }
        let Some(job) = self.invariants.replay.cluster().job(at.job_id) else {
            return;
        };
        let uid = job.request.uid;
        let description = StepDescription {
            job_id: at.job_id.0,
            name: "work".to_owned(),
            argv: vec!["work".to_owned()],
            overlap: self.chance.likely(300),
            exact: self.chance.likely(300),
            submission_key: format!("{}-{}", at.job_id, self.now_ms),
            ..StepDescription::default()
        };
        self.ask(Action::Step(Box::new(description)), Caller::user(uid));
    }

    /// Somebody does something to a job or node.
    pub fn user_acts(&mut self) {
        if self.calm {
            return;
        }
        let delay = self.chance.around(self.options.commands_every_ms);
        self.after(delay, Happening::UserActs);
        let known: Vec<(JobId, BTreeSet<u32>)> = self
            .invariants
            .lost
            .known()
            .map(|(id, tasks)| (id, tasks.clone()))
            .collect();
        if known.is_empty() {
            return;
        }
        // Recent jobs are the ones that something can still be done to.
        let from = known.len().saturating_sub(12);
        let (id, tasks) = self.chance.pick(&known[from..]);
        let tasks: Vec<u32> = tasks.into_iter().collect();
        let kinds = self.options.commands.clone();
        let kind = self.chance.pick(&kinds);
        let caller = if self.chance.likely(700) {
            ROOT
        } else {
            Caller::user(1001)
        };
        let task_of = |world: &mut Self| match tasks.as_slice() {
            [] => id.to_string(),
            some => format!("{id}_{}", world.chance.pick(some)),
        };
        let target = if self.chance.likely(500) {
            task_of(self)
        } else {
            id.to_string()
        };
        let action = match kind {
            CommandKind::Cancel => Action::Signal(id.to_string(), SignalRequest::default()),
            CommandKind::CancelTask => Action::Signal(task_of(self), SignalRequest::default()),
            CommandKind::Signal => match self.chance.between(0, 2) {
                0 => Action::Signal(format!("{id}.0"), SignalRequest::default()),
                1 => Action::Signal(
                    target,
                    SignalRequest {
                        signal: 9,
                        full: true,
                        ..SignalRequest::default()
                    },
                ),
                _ => Action::Signal(
                    target,
                    SignalRequest {
                        signal: 10,
                        ..SignalRequest::default()
                    },
                ),
            },
            CommandKind::Hold => Action::Hold(target, HoldKind::Hold),
            CommandKind::Release => Action::Hold(target, HoldKind::Release),
            CommandKind::Requeue => Action::Requeue(target, RequeueRequest::default()),
            CommandKind::RequeueHold => {
                let special_exit = self.chance.likely(300);
                Action::Requeue(
                    target,
                    RequeueRequest {
                        hold: true,
                        special_exit,
                        incomplete: false,
                    },
                )
            }
            CommandKind::Update => Action::Update(target, Box::new(self.change())),
            CommandKind::Suspend => Action::Suspend(target, self.chance.likely(500)),
            CommandKind::Step => return,
            CommandKind::Partition
            | CommandKind::NodeList
            | CommandKind::Reboot
            | CommandKind::Top
            | CommandKind::StepLimit
            | CommandKind::Trigger
            | CommandKind::Crontab => {
                if let Some((change, who)) = self.made_up(kind, id) {
                    self.ask_change(change, who);
                }
                return;
            }
            CommandKind::Node => {
                let number = self.chance.between(1, self.options.nodes);
                let state = self.chance.pick(&[
                    NodeStateRequest::Drain,
                    NodeStateRequest::Down,
                    NodeStateRequest::Resume,
                ]);
                Action::Node(Box::new(NodeUpdate {
                    nodes: format!("n{number}"),
                    state: Some(state),
                    reason: Some("maintenance".to_owned()),
                    ..NodeUpdate::default()
                }))
            }
        };
        let caller = if matches!(action, Action::Node(_) | Action::Suspend(..)) {
            ROOT
        } else {
            caller
        };
        self.ask(action, caller);
    }

    fn change(&mut self) -> JobUpdate {
        let mut change = JobUpdate::default();
        match self.chance.between(0, 6) {
            0 => change.time_limit = Some(TimeLimit::Minutes(self.chance.between(1, 20) as u32)),
            1 => change.priority = Some(self.chance.between(1, 9) as u32),
            2 => change.name = Some("renamed".to_owned()),
            3 => change.array_throttle = Some(self.chance.between(0, 3) as u32),
            4 => change.dependency = Some(String::new()),
            5 => {
                change.begin_time = Some(UnixSeconds(
                    self.now().0 + self.chance.between(0, 30) as i64,
                ))
            }
            // Components need nodes of their own, which these are for on one node only: more tasks than cores might need more
            // nodes than there are for all of them together, and such a job waits for ever, here as in Slurm.
            _ => change.ntasks = Some(self.chance.between(1, self.options.cores.min(3)) as u32),
        }
        change
    }

    /// The administrator looks after nodes; when faults have stopped also after what would wait for ever.
    pub fn administrator_acts(&mut self) {
        let every = if self.calm { 5_000 } else { 30_000 };
        self.after(every, Happening::AdministratorActs);
        let Some(state) = self.controller.published().cloned() else {
            return;
        };
        for node in state
            .nodes
            .iter()
            .filter(|node| !node.state.flags.is_empty() || node.state.base == NodeState::Down)
        {
            if self.calm || self.chance.likely(500) {
                let change = NodeUpdate {
                    nodes: node.config.name.clone(),
                    state: Some(NodeStateRequest::Resume),
                    ..NodeUpdate::default()
                };
                self.ask(Action::Node(Box::new(change)), ROOT);
            }
        }
        if !self.calm {
            return;
        }
        self.clear_up(&state);
        for id in &state.pending {
            let Some(job) = state.job(*id) else { continue };
            let note = state.plan_notes.get(id).map(|note| note.reason);
            let never = job.dependency.has_failed()
                || job.reason == Reason::BadConstraints
                || matches!(
                    note,
                    Some(
                        Reason::PartitionNodeLimit
                            | Reason::PartitionTimeLimit
                            | Reason::BadConstraints
                    )
                );
            // A record's own id names the whole array while it holds the unstarted tasks, so tasks are named as such.
            let target = match (&job.array, job.array_task()) {
                (Some(array), Some(task)) => format!("{}_{task}", array.array_job_id),
                _ => id.to_string(),
            };
            if never {
                self.ask(Action::Signal(target, SignalRequest::default()), ROOT);
            } else if job.priority == 0 {
                self.ask(Action::Hold(target, HoldKind::Release), ROOT);
            }
        }
        for id in &state.holding {
            if state
                .job(*id)
                .is_some_and(|job| job.state.base == JobState::Suspended)
            {
                self.ask(Action::Suspend(id.to_string(), true), ROOT);
            }
        }
    }
}

/// An action in a line.
fn brief(action: &Action) -> String {
    match action {
        Action::Submit(wish) => {
            format!("submit {}: {}", wish.description.submission_key, wish.words)
        }
        other => format!("{other:?}"),
    }
}
