//! The feed: takes updates from the journal and writes them, for ever, whatever the database does.
//!
//! The database's own position rules: it is read at the start and after every error, so nothing is lost and nothing counts
//! twice. While the database is away the updates stay in the journal; the feed tries again with a growing delay and says so in
//! its status. Here the clock is read only to wait. Invariant: one feed a cluster and journal; positions in the status are
//! stored in the database.

use std::future::Future;
use std::time::Duration;

use sluice_model::accounting::AccountingUpdate;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::{AccountingError, AccountingStore, Batch};

/// How long one batch may take before the connection counts as dead.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// The journal cannot be read. The feed tries again; the text is shown in its status.
#[derive(Debug, thiserror::Error)]
#[error("the journal cannot be read for accounting: {0}")]
pub struct SourceError(pub String);

/// What the source found.
#[derive(Debug, Clone, Default)]
pub struct UpdateBatch {
    /// The position after which this batch begins: the one asked for, or a later one if older records are gone. The feed reports
    /// such a gap and goes on.
    pub from: u64,
    /// How far the journal has been looked through; at least the last update's position.
    pub through: u64,
    /// Updates by rising position. Several may have the same position (one event, several records) only if they are all in one
    /// batch.
    pub updates: Vec<(u64, AccountingUpdate)>,
}

/// Where updates come from.
pub trait UpdateSource: Send + 'static {
    /// Which journal this is: made at random when the journal is created, so that positions of different journals are never mixed up.
    fn journal_id(&self) -> String;

    /// The newest position in the journal.
    fn newest(&self) -> u64;

    /// Waits until something after `position` is durable and gives it, about `max` updates at most. Must be safe to drop while it
    /// waits.
    fn next_after(
        &mut self,
        position: u64,
        max: usize,
    ) -> impl Future<Output = Result<UpdateBatch, SourceError>> + Send;
}

/// How the feed works.
#[derive(Debug, Clone)]
pub struct FeedSettings {
    /// ClusterName, lower case.
    pub cluster: String,
    /// Updates written in one transaction.
    pub batch_max: usize,
    /// Least time between the beginnings of two writes: what comes in between is written together.
    pub pause: Duration,
    /// Delay after the first failure; doubled for every further one.
    pub retry_min: Duration,
    /// Longest delay.
    pub retry_max: Duration,
}

impl FeedSettings {
    /// The usual settings: 2000 updates, 20 ms, 200 ms to 5 s.
    #[must_use]
    pub fn new(cluster: &str) -> Self {
        Self {
            cluster: cluster.to_owned(),
            batch_max: 2000,
            pause: Duration::from_millis(20),
            retry_min: Duration::from_millis(200),
            retry_max: Duration::from_secs(5),
        }
    }
}

/// How it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedState {
    /// No accounting storage is configured.
    Disabled,
    /// No answer from the database yet.
    Connecting,
    /// The last request succeeded.
    Connected,
    /// The last request failed; it is tried again.
    Retrying,
    /// Stopped.
    Stopped,
}

/// What the feed says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedStatus {
    /// How it goes.
    pub state: FeedState,
    /// Why it does not go, while it does not.
    pub last_error: Option<String>,
    /// Position stored in the database: the journal is no longer needed up to here. 0 until it is known.
    pub position: u64,
    /// Newest position in the journal when the feed last looked.
    pub newest: u64,
    /// Positions (after, up to and including) that were gone from the journal before they were written. Only the last such gap.
    pub gap: Option<(u64, u64)>,
}

impl FeedStatus {
    /// Whether the database answered the last request.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.state == FeedState::Connected
    }

    /// Journal records not looked through yet.
    #[must_use]
    pub fn lag(&self) -> u64 {
        self.newest.saturating_sub(self.position)
    }
}

/// Starts feeds.
#[derive(Debug)]
pub struct AccountingFeed;

impl AccountingFeed {
    /// Starts the feed in the background. With [`crate::StorageSettings::None`] it does nothing and says [`FeedState::Disabled`].
    pub fn start(
        store: AccountingStore,
        settings: FeedSettings,
        source: impl UpdateSource,
    ) -> FeedHandle {
        let state = if store.is_enabled() {
            FeedState::Connecting
        } else {
            FeedState::Disabled
        };
        let first = FeedStatus {
            state,
            last_error: None,
            position: 0,
            newest: source.newest(),
            gap: None,
        };
        let (status, status_receiver) = watch::channel(first);
        let (stop, stop_receiver) = watch::channel(false);
        let task = store.is_enabled().then(|| {
            let worker = Worker {
                store,
                settings,
                journal_id: source.journal_id(),
                source,
                status,
                stop: stop_receiver,
            };
            tokio::spawn(worker.run())
        });
        FeedHandle {
            status: status_receiver,
            stop,
            task,
        }
    }
}

/// A running feed. Dropping it ends the feed without waiting.
#[derive(Debug)]
pub struct FeedHandle {
    status: watch::Receiver<FeedStatus>,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

impl FeedHandle {
    /// The status, now and as it changes.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<FeedStatus> {
        self.status.clone()
    }

    /// Writes what is in the journal now and ends; ends at the deadline in any case. What was not written is written after the next
    /// start.
    pub async fn stop(mut self, deadline: Duration) -> FeedStatus {
        self.stop.send_replace(true);
        if let Some(mut task) = self.task.take()
            && tokio::time::timeout(deadline, &mut task).await.is_err()
        {
            task.abort();
            let _ = task.await;
        }
        self.status.borrow().clone()
    }
}

impl Drop for FeedHandle {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

struct Worker<S> {
    store: AccountingStore,
    settings: FeedSettings,
    journal_id: String,
    source: S,
    status: watch::Sender<FeedStatus>,
    stop: watch::Receiver<bool>,
}

/// Why the writing loop was left.
enum Left {
    /// Asked to stop, and everything is written.
    Drained,
    /// A request failed.
    Failed(String),
}

impl<S: UpdateSource> Worker<S> {
    async fn run(mut self) {
        let mut delay = self.settings.retry_min;
        loop {
            let error = match self
                .store
                .outbox_position(&self.settings.cluster, &self.journal_id)
                .await
            {
                Ok(position) => {
                    self.connected(position);
                    match self.write_from(position, &mut delay).await {
                        Left::Drained => break,
                        Left::Failed(error) => error,
                    }
                }
                Err(error) => error.to_string(),
            };
            self.failed(&error);
            // No drain while the database is away: the journal keeps the rest for the next start.
            if *self.stop.borrow() {
                break;
            }
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                _ = self.stop.changed() => {}
            }
            delay = (delay * 2).min(self.settings.retry_max);
        }
        self.status
            .send_modify(|status| status.state = FeedState::Stopped);
    }

    /// Reads and writes until something fails. A success sets the delay back.
    async fn write_from(&mut self, mut position: u64, delay: &mut Duration) -> Left {
        loop {
            let began = Instant::now();
            if *self.stop.borrow_and_update() && position >= self.source.newest() {
                return Left::Drained;
            }
            let next = tokio::select! {
                next = self.source.next_after(position, self.settings.batch_max) => next,
                _ = self.stop.changed() => continue,
            };
            let found = match next {
                Ok(found) => found,
                Err(error) => return Left::Failed(error.to_string()),
            };
            if found.from > position {
                self.gap(position, found.from);
            }
            match self.write(position, &found).await {
                Ok(stored) => position = stored,
                Err(error) => return Left::Failed(error),
            }
            *delay = self.settings.retry_min;
            self.connected(position);
            if !*self.stop.borrow() && found.updates.len() < self.settings.batch_max {
                tokio::time::sleep_until(began + self.settings.pause).await;
            }
        }
    }

    async fn write(&mut self, position: u64, found: &UpdateBatch) -> Result<u64, String> {
        let batch = Batch {
            journal_id: &self.journal_id,
            from: position,
            through: found.through,
            updates: &found.updates,
        };
        match tokio::time::timeout(
            WRITE_TIMEOUT,
            self.store.write_batch(&self.settings.cluster, batch),
        )
        .await
        {
            Ok(Ok(report)) => Ok(report.position),
            Ok(Err(error @ AccountingError::Behind { .. })) => {
                tracing::error!(%error, "accounting database went back");
                Err(error.to_string())
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!(
                "{} did not finish a write within {} s",
                self.store.target(),
                WRITE_TIMEOUT.as_secs()
            )),
        }
    }

    fn connected(&self, position: u64) {
        let newest = self.source.newest().max(position);
        self.status.send_if_modified(|status| {
            let was_away = status.state == FeedState::Retrying;
            if was_away {
                tracing::info!(position, newest, "accounting database is back");
            }
            let next = FeedStatus {
                state: FeedState::Connected,
                last_error: None,
                position,
                newest,
                gap: status.gap,
            };
            let changed = *status != next;
            *status = next;
            changed
        });
    }

    fn failed(&self, error: &str) {
        let newest = self.source.newest();
        self.status.send_modify(|status| {
            if status.last_error.as_deref() != Some(error) {
                tracing::warn!(
                    error,
                    position = status.position,
                    newest,
                    "accounting is delayed"
                );
            }
            status.state = FeedState::Retrying;
            status.last_error = Some(error.to_owned());
            status.newest = newest;
        });
    }

    fn gap(&self, after: u64, from: u64) {
        tracing::error!(
            after,
            from,
            "journal records were removed before they reached the accounting database"
        );
        self.status
            .send_modify(|status| status.gap = Some((after, from)));
    }
}
