//! How the rest of the daemon talks to the writer: commands go in through a bounded channel, snapshots come out.

use std::sync::Arc;

use parking_lot::RwLock;
use sluice_controller::command::Rejection;
use sluice_controller::effect::Effect;
use sluice_controller::transaction::JournalEntry;
use sluice_controller::{Cluster, Transaction};
use sluice_model::error_code::ErrorCode;
use sluice_model::time::UnixSeconds;
use tokio::sync::{mpsc, oneshot};

/// Commands that may wait for the writer; more callers wait their turn.
pub const QUEUE_MAX: usize = 8_192;

/// Runs a command on the live state at a time.
type Run = Box<dyn FnOnce(&mut Cluster, UnixSeconds) -> Done + Send>;

/// A command ready to run on the live state.
pub(super) struct Work {
    /// Runs it.
    pub(super) run: Run,
}

/// What a command did.
pub(super) struct Done {
    /// For the journal; `None` = nothing happened.
    pub(super) entry: Option<JournalEntry>,
    /// To be done once it is durable.
    pub(super) effects: Vec<Effect>,
    /// Tells the caller what became of it, or why it was undone.
    pub(super) answer: Box<dyn FnOnce(Option<CoreError>) + Send>,
}

/// Messages to the writer.
pub(super) enum Message {
    /// A command.
    Work(Work),
    /// Tell the live state and the position it is at, between two batches.
    State(oneshot::Sender<(crate::journal::Position, Cluster)>),
    /// A checkpoint was written: older segments may go.
    CheckpointWritten(crate::journal::Position),
    /// Write a checkpoint and end.
    Stop(oneshot::Sender<()>),
}

/// Why a command gave no value.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// The engine refused.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// What the command did could not be saved and was undone; the same command may succeed later.
    #[error(
        "the controller cannot save its state in {dir}: {cause}; nothing was changed, try again when there is room"
    )]
    NotSaved {
        /// The journal's folder.
        dir: String,
        /// The failure, down to the system's words.
        cause: String,
    },
    /// The writer is gone: the daemon is stopping, or its journal failed.
    #[error("the controller is stopping")]
    Stopped,
}

impl CoreError {
    /// As a status that clients take for "not reachable at the moment" and try again: for what must not be given up, as the
    /// end of an allocation or the steps of a running job.
    #[must_use]
    pub fn into_status_to_retry(self) -> tonic::Status {
        match self {
            CoreError::Rejected(rejection) => rejection_status(&rejection),
            CoreError::NotSaved { .. } | CoreError::Stopped => {
                tonic::Status::unavailable(self.to_string())
            }
        }
    }
}

impl From<CoreError> for tonic::Status {
    fn from(error: CoreError) -> Self {
        match error {
            CoreError::Rejected(rejection) => rejection_status(&rejection),
            CoreError::NotSaved { .. } => {
                sluice_proto::status_from(ErrorCode::WritingToFile, error.to_string())
            }
            // Without a code of Slurm's: clients take it for a lost connection and connect again.
            CoreError::Stopped => tonic::Status::unavailable(error.to_string()),
        }
    }
}

/// A refusal as a status. Lines that Slurm's commands print before the error's own come first, one a line.
#[must_use]
pub fn rejection_status(rejection: &Rejection) -> tonic::Status {
    let own = rejection
        .text
        .clone()
        .unwrap_or_else(|| rejection.code.message().to_owned());
    let text = match &rejection.notice {
        Some(notice) => format!("{notice}\n{own}"),
        None => own,
    };
    sluice_proto::status_from(rejection.code, text)
}

/// A cheap handle to the writer and its snapshots.
#[derive(Clone)]
pub struct CoreHandle {
    pub(super) queue: mpsc::Sender<Message>,
    pub(super) snapshot: Arc<RwLock<Arc<Cluster>>>,
}

impl CoreHandle {
    /// The last published state.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Cluster> {
        Arc::clone(&self.snapshot.read())
    }

    /// Runs a command and waits until what it did is durable.
    ///
    /// # Errors
    /// The command's rejection, or that the daemon stops.
    pub async fn run<T, F>(&self, command: F) -> Result<T, CoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> Result<T, Rejection> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        self.queue
            .send(Message::Work(work(command, sender)))
            .await
            .map_err(|_| CoreError::Stopped)?;
        receiver.await.map_err(|_| CoreError::Stopped)?
    }

    /// Hands a command in without waiting for what becomes of it. Commands of one caller keep their order.
    ///
    /// # Errors
    /// That the daemon stops.
    pub async fn post<F>(&self, command: F) -> Result<(), CoreError>
    where
        F: FnOnce(&mut Transaction<'_>) -> Result<(), Rejection> + Send + 'static,
    {
        let (sender, _) = oneshot::channel();
        self.queue
            .send(Message::Work(work(command, sender)))
            .await
            .map_err(|_| CoreError::Stopped)
    }

    /// As [`Self::run`] from a thread that may block.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_blocking<T, F>(&self, command: F) -> Result<T, CoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> Result<T, Rejection> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        self.queue
            .blocking_send(Message::Work(work(command, sender)))
            .map_err(|_| CoreError::Stopped)?;
        receiver.blocking_recv().map_err(|_| CoreError::Stopped)?
    }

    /// The live state itself, with the journal position it is at.
    ///
    /// # Errors
    /// That the daemon stops.
    pub async fn state(&self) -> Result<(crate::journal::Position, Cluster), CoreError> {
        let (sender, receiver) = oneshot::channel();
        self.queue
            .send(Message::State(sender))
            .await
            .map_err(|_| CoreError::Stopped)?;
        receiver.await.map_err(|_| CoreError::Stopped)
    }

    /// Asks the writer to write a checkpoint and end; waits for it.
    pub async fn stop(&self) {
        let (sender, receiver) = oneshot::channel();
        if self.queue.send(Message::Stop(sender)).await.is_ok() {
            let _ = receiver.await;
        }
    }

    pub(super) async fn checkpoint_written(&self, oldest: crate::journal::Position) {
        let _ = self.queue.send(Message::CheckpointWritten(oldest)).await;
    }
}

fn work<T, F>(command: F, sender: oneshot::Sender<Result<T, CoreError>>) -> Work
where
    T: Send + 'static,
    F: FnOnce(&mut Transaction<'_>) -> Result<T, Rejection> + Send + 'static,
{
    Work {
        run: Box::new(
            move |cluster, now| match Transaction::run(cluster, now, command) {
                Ok((value, entry, effects)) => Done {
                    entry: (!entry.events.is_empty() || !entry.accounting.is_empty())
                        .then_some(entry),
                    effects,
                    answer: Box::new(move |undone| {
                        let _ = sender.send(undone.map_or(Ok(value), Err));
                    }),
                },
                Err(rejection) => Done {
                    entry: None,
                    effects: Vec::new(),
                    answer: Box::new(move |undone| {
                        let _ = sender.send(Err(undone.unwrap_or(CoreError::Rejected(rejection))));
                    }),
                },
            },
        ),
    }
}
