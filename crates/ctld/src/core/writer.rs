//! The one writer: owns the live state and the journal.
//!
//! It takes commands in batches: each is decided and applied at once, their entries share one fsync, and only then is the state
//! published, are effects carried out and callers answered. If the journal fails for want of space, the state goes back to what
//! was published last, which is exactly what is durable, and callers are told that nothing was done; commands that change
//! nothing go on, and once a second it is tried whether there is room again. If it fails otherwise, the disk cannot be trusted:
//! nobody is answered and the daemon ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use sluice_controller::Cluster;
use sluice_controller::effect::Effect;
use sluice_controller::transaction::JournalEntry;
use tokio::sync::{mpsc, watch};

use super::handle::{CoreError, CoreHandle, Message, QUEUE_MAX};
use super::planner::PlannerWake;
use super::{Sessions, Watchers, checkpoint, now, now_ms};
use crate::journal::{EventJournal, JournalError};
use crate::notify;
use crate::triggers::{TriggerRun, TriggerUser};

/// Commands that share one fsync.
const BATCH_MAX: usize = 512;

/// Journal entries between two checkpoints.
const CHECKPOINT_ENTRIES: u64 = 20_000;

/// Pause between two attempts to write again after the space ran out.
const ROOM_PAUSE: Duration = Duration::from_secs(1);

/// What effects reach.
pub struct Outputs {
    /// Agents.
    pub sessions: Arc<Sessions>,
    /// Watchers of jobs.
    pub watchers: Arc<Watchers>,
    /// The planner.
    pub planner: PlannerWake,
    /// Mail program and its arguments are run here.
    pub mail: mpsc::UnboundedSender<(String, String)>,
    /// Programs of triggers are run here.
    pub triggers: mpsc::UnboundedSender<TriggerRun>,
}

/// The writer's parts.
pub struct Writer {
    cluster: Cluster,
    journal: EventJournal<JournalEntry>,
    queue: mpsc::Receiver<Message>,
    handle: CoreHandle,
    outputs: Outputs,
    since_checkpoint: u64,
    checkpoint_running: bool,
    failed: watch::Sender<Option<String>>,
    full: Option<Full>,
}

/// The journal has no room.
struct Full {
    cause: String,
    next_try: Instant,
}

type Answer = Box<dyn FnOnce(Option<CoreError>) + Send>;

impl Writer {
    /// Prepares the writer; [`Self::run`] runs it on a thread of its own. `failed` tells when the journal gives up.
    #[must_use]
    pub fn new(
        cluster: Cluster,
        journal: EventJournal<JournalEntry>,
        outputs: Outputs,
        failed: watch::Sender<Option<String>>,
    ) -> (Self, CoreHandle) {
        let (sender, queue) = mpsc::channel(QUEUE_MAX);
        let handle = CoreHandle {
            queue: sender,
            snapshot: Arc::new(RwLock::new(Arc::new(cluster.clone()))),
        };
        let writer = Self {
            cluster,
            journal,
            queue,
            handle: handle.clone(),
            outputs,
            since_checkpoint: 0,
            checkpoint_running: false,
            failed,
            full: None,
        };
        (writer, handle)
    }

    /// Works until it is told to stop or the journal fails.
    pub fn run(mut self, runtime: &tokio::runtime::Handle) {
        while let Some(first) = self.queue.blocking_recv() {
            self.try_for_room();
            let mut batch = vec![first];
            while batch.len() < BATCH_MAX {
                match self.queue.try_recv() {
                    Ok(message) => batch.push(message),
                    Err(_) => break,
                }
            }
            match self.work(batch) {
                Ok(None) => self.checkpoint_if_due(runtime),
                Ok(Some(stopped)) => {
                    self.last_checkpoint();
                    let _ = stopped.send(());
                    return;
                }
                Err(error) => {
                    tracing::error!("journal failed, the controller ends: {}", error.chain());
                    let _ = self.failed.send(Some(error.chain()));
                    return;
                }
            }
        }
    }

    fn work(
        &mut self,
        batch: Vec<Message>,
    ) -> Result<Option<tokio::sync::oneshot::Sender<()>>, JournalError> {
        let mut finished: Vec<(Vec<Effect>, Answer)> = Vec::with_capacity(batch.len());
        let mut stop = None;
        let mut states = Vec::new();
        let mut appended = 0;
        let time = now();
        let time_ms = now_ms();
        for message in batch {
            match message {
                Message::Work(work) => {
                    // A clone is cheap: the state is made of persistent maps.
                    let before = self.cluster.clone();
                    let done = (work.run)(&mut self.cluster, time);
                    if let Some(entry) = done.entry {
                        if let Some(full) = &self.full {
                            self.cluster = before;
                            (done.answer)(Some(self.not_saved(full.cause.clone())));
                            continue;
                        }
                        match self.journal.append(time_ms, &[entry]) {
                            Ok(_) => appended += 1,
                            Err(
                                error @ (JournalError::TooLarge { .. }
                                | JournalError::Encode { .. }),
                            ) => {
                                tracing::error!("a command was undone: {error}");
                                self.cluster = before;
                                (done.answer)(Some(self.not_saved(error.to_string())));
                                continue;
                            }
                            Err(error) => return Err(error),
                        }
                    }
                    finished.push((done.effects, done.answer));
                }
                Message::State(sender) => states.push(sender),
                Message::CheckpointWritten(oldest) => {
                    self.checkpoint_running = false;
                    if let Err(error) = self.journal.prune(oldest) {
                        tracing::warn!("old journal segments could not be removed: {error}");
                    }
                }
                Message::Stop(sender) => stop = Some(sender),
            }
        }
        if appended > 0 {
            match self.journal.sync() {
                Ok(_) => self.since_checkpoint += appended,
                Err(error) if error.is_want_of_space() => {
                    self.run_out_of_space(&error);
                    // All of them: even a refusal may have come from what an undone command before it had changed.
                    for (_, answer) in finished {
                        answer(Some(self.not_saved(error.chain())));
                    }
                    return Ok(stop);
                }
                Err(error) => return Err(error),
            }
        }
        *self.handle.snapshot.write() = Arc::new(self.cluster.clone());
        for sender in states {
            let _ = sender.send((self.journal.durable(), self.cluster.clone()));
        }
        for (effects, answer) in finished {
            for effect in effects {
                self.carry_out(effect);
            }
            answer(None);
        }
        Ok(stop)
    }

    fn not_saved(&self, cause: String) -> CoreError {
        CoreError::NotSaved {
            dir: self.journal.dir().display().to_string(),
            cause,
        }
    }

    /// Back to what is durable: the state published last.
    fn run_out_of_space(&mut self, error: &JournalError) {
        tracing::error!(
            "the journal has no room: {}; running jobs go on, changes are refused until there is room again",
            error.chain()
        );
        self.cluster = (*self.handle.snapshot()).clone();
        // What was half written is cut off at once, so that a crash now does not bring it to life.
        let _ = self.journal.roll_back();
        self.full = Some(Full {
            cause: error.chain(),
            next_try: Instant::now() + ROOM_PAUSE,
        });
        notify::status("no room for the journal: changes are refused");
    }

    /// Uses the journal again when there is room.
    fn try_for_room(&mut self) {
        if self
            .full
            .as_ref()
            .is_none_or(|full| Instant::now() < full.next_try)
        {
            return;
        }
        match self.journal.roll_back() {
            Ok(()) => {
                tracing::warn!("the journal has room again: changes are accepted");
                self.full = None;
                notify::status("running");
                // Reports that could not be saved were not acknowledged: agents repeat them when they connect again.
                self.outputs.sessions.close_all();
                self.outputs.planner.wake();
            }
            Err(error) => {
                let cause = error.chain();
                self.full = Some(Full {
                    cause,
                    next_try: Instant::now() + ROOM_PAUSE,
                });
            }
        }
    }

    fn carry_out(&self, effect: Effect) {
        match effect {
            Effect::Order { node, order } => self.outputs.sessions.send(&node, *order),
            Effect::WakePlanner => self.outputs.planner.wake(),
            Effect::JobChanged { job } => {
                let key = self
                    .cluster
                    .job(job)
                    .map_or(job, |record| record.array_job_id());
                self.outputs.watchers.changed(key);
            }
            Effect::Mail { to, subject } => {
                let _ = self.outputs.mail.send((to, subject));
            }
            Effect::RunTrigger {
                id,
                uid,
                program,
                argument,
            } => {
                let _ = self.outputs.triggers.send(TriggerRun {
                    id,
                    user: TriggerUser::Id(uid),
                    program,
                    argument,
                });
            }
            Effect::RunReservationProgram {
                user,
                program,
                reservation,
            } => {
                let _ = self.outputs.triggers.send(TriggerRun {
                    id: 0,
                    user: TriggerUser::Name(user),
                    program,
                    argument: reservation,
                });
            }
            Effect::ConfigChanged => self
                .outputs
                .sessions
                .config_changed(self.cluster.config_version),
        }
    }

    fn checkpoint_if_due(&mut self, runtime: &tokio::runtime::Handle) {
        if self.since_checkpoint < CHECKPOINT_ENTRIES || self.checkpoint_running {
            return;
        }
        self.since_checkpoint = 0;
        self.checkpoint_running = true;
        let (store, position, version) = (
            self.journal.checkpoints(),
            self.journal.durable(),
            self.journal.state_version(),
        );
        let (cluster, handle) = (self.cluster.clone(), self.handle.clone());
        runtime.spawn(async move {
            let written = tokio::task::spawn_blocking(move || {
                checkpoint::write(&store, position, version, &cluster)
            })
            .await;
            match written {
                Ok(Ok(oldest)) => handle.checkpoint_written(oldest).await,
                Ok(Err(error)) => {
                    tracing::error!("checkpoint not written, the journal is kept instead: {error}");
                    handle
                        .checkpoint_written(crate::journal::Position::ZERO)
                        .await;
                }
                Err(error) => tracing::error!("checkpoint task ended: {error}"),
            }
        });
    }

    fn last_checkpoint(&mut self) {
        let (store, position, version) = (
            self.journal.checkpoints(),
            self.journal.durable(),
            self.journal.state_version(),
        );
        match checkpoint::write(&store, position, version, &self.cluster) {
            Ok(oldest) => {
                if let Err(error) = self.journal.prune(oldest) {
                    tracing::warn!("old journal segments could not be removed: {error}");
                }
            }
            Err(error) => {
                tracing::warn!("no checkpoint at the end, the journal has everything: {error}")
            }
        }
    }
}
