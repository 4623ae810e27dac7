//! The journal with events in it: what the writer loop opens. Puts lock, checkpoints and segments of one state folder
//! together and turns events into bytes and back.
//!
//! Each record is a [`JournalRecord`] in MessagePack with field names, so that events can grow fields. What an event means is
//! not known here. Layout of the state folder: `ctld.lock`, `journal/*.seg`, `checkpoints/*.ckpt`.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::checkpoint::LoadedCheckpoint;
use super::{
    CheckpointFile, CheckpointStore, Journal, JournalError, JournalOptions, JournalReader,
    OnDamage, Pin, Position, Record, RecoveryReport, StateLock,
};

/// An event with what the journal adds to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalRecord<E> {
    /// Version of the events' meaning that was in force when it was written.
    pub version: u16,
    /// When it was written, in milliseconds since 1970.
    pub time_ms: i64,
    /// What happened.
    pub event: E,
}

/// How to open a state folder.
#[derive(Debug, Clone)]
pub struct EventJournalOptions {
    /// Version of events that is written, and the newest that is understood.
    pub event_version: u16,
    /// Version of the state's encoding that is written, and the newest that is understood.
    pub state_version: u32,
    /// Size of a segment, in bytes.
    pub segment_bytes_max: u64,
    /// What to do about unreadable confirmed records.
    pub on_damage: OnDamage,
    /// Leave the old state behind (`ctld -c`): no checkpoint is returned and nothing is replayed, but positions go on, because
    /// accounting knows records by their position. The caller writes a checkpoint of its empty state at once.
    pub begin_empty: bool,
}

impl EventJournalOptions {
    /// The usual segment size; damage is refused.
    #[must_use]
    pub fn new(event_version: u16, state_version: u32) -> Self {
        let usual = JournalOptions::default();
        EventJournalOptions {
            event_version,
            state_version,
            segment_bytes_max: usual.segment_bytes_max,
            on_damage: usual.on_damage,
            begin_empty: false,
        }
    }
}

/// What the state folder held.
#[derive(Debug)]
pub struct Recovery {
    /// The newest readable checkpoint.
    pub checkpoint: Option<CheckpointFile>,
    /// Replay begins behind this position.
    pub replay_after: Position,
    /// What was found, and what an administrator should be told.
    pub report: RecoveryReport,
}

impl Recovery {
    /// Decodes the checkpoint's state; `None` when there is no checkpoint.
    ///
    /// # Errors
    /// [`JournalError::CheckpointDecode`].
    pub fn state<S: DeserializeOwned>(&self) -> Result<Option<(Position, S)>, JournalError> {
        let Some(file) = &self.checkpoint else {
            return Ok(None);
        };
        rmp_serde::from_slice(&file.payload)
            .map(|state| Some((file.position, state)))
            .map_err(|error| JournalError::CheckpointDecode {
                path: file.path.clone(),
                reason: error.to_string(),
            })
    }
}

/// The journal of one state folder, holding events of type `E`.
#[derive(Debug)]
pub struct EventJournal<E> {
    journal: Journal,
    checkpoints: CheckpointStore,
    options: EventJournalOptions,
    _lock: StateLock,
    _event: PhantomData<fn() -> E>,
}

impl<E: Serialize + DeserializeOwned> EventJournal<E> {
    /// Takes the lock of `state_dir`, finds the newest readable checkpoint, checks and opens the journal.
    ///
    /// # Errors
    /// `Locked`, `Damaged`, `Version`, `NoBase` (a checkpoint is needed and none is readable), `Io`.
    pub fn open(
        state_dir: &Path,
        options: EventJournalOptions,
    ) -> Result<(Self, Recovery), JournalError> {
        let lock = StateLock::acquire(state_dir)?;
        let checkpoints = CheckpointStore::open(&state_dir.join("checkpoints"))?;
        let (loaded, confirmed) = if options.begin_empty {
            (LoadedCheckpoint::default(), checkpoints.newest_named()?)
        } else {
            let loaded = checkpoints.load()?;
            let position = loaded
                .newest
                .as_ref()
                .map_or(Position::ZERO, |file| file.position);
            (loaded, position)
        };
        if let Some(file) = loaded
            .newest
            .as_ref()
            .filter(|file| file.state_version > options.state_version)
        {
            return Err(JournalError::Version {
                what: "state",
                path: file.path.clone(),
                found: file.state_version,
                supported: options.state_version,
            });
        }
        let journal_dir = state_dir.join("journal");
        let journal_options = JournalOptions {
            segment_bytes_max: options.segment_bytes_max,
            on_damage: options.on_damage,
            confirmed,
        };
        let (journal, mut report) = Journal::open(&journal_dir, &journal_options)?;
        if journal.first_kept() > confirmed.next() && !options.begin_empty {
            let detail = loaded
                .faults
                .iter()
                .map(|fault| format!("; {fault}"))
                .collect();
            return Err(JournalError::NoBase {
                dir: journal_dir,
                first: journal.first_kept(),
                detail,
            });
        }
        report.checkpoint_faults = loaded.faults;
        let replay_after = if options.begin_empty {
            journal.last()
        } else {
            confirmed
        };
        let recovery = Recovery {
            checkpoint: loaded.newest,
            replay_after,
            report,
        };
        Ok((
            EventJournal {
                journal,
                checkpoints,
                options,
                _lock: lock,
                _event: PhantomData,
            },
            recovery,
        ))
    }

    /// Buffers events; returns the position of the last. Durable only after [`EventJournal::sync`].
    ///
    /// # Errors
    /// `Encode`, `TooLarge` (then nothing of the call is buffered), `Poisoned`.
    pub fn append(&mut self, time_ms: i64, events: &[E]) -> Result<Position, JournalError> {
        let version = self.options.event_version;
        let payloads = events
            .iter()
            .map(|event| {
                rmp_serde::to_vec_named(&JournalRecord {
                    version,
                    time_ms,
                    event,
                })
            })
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| JournalError::Encode {
                what: "an event",
                reason: error.to_string(),
            })?;
        self.journal.append(&payloads)
    }

    /// Makes everything buffered durable with one write and one flush. Nobody may be told of an event before this returned.
    ///
    /// # Errors
    /// `Io`, and `Poisoned` ever after, until [`EventJournal::roll_back`] succeeds: the daemon must roll its state back to
    /// what is durable, or stop.
    pub fn sync(&mut self) -> Result<Position, JournalError> {
        self.journal.sync()
    }

    /// Forgets what is not durable; see [`Journal::roll_back`].
    ///
    /// # Errors
    /// `Poisoned` when the disk cannot be trusted, `Io` when there still is no room.
    pub fn roll_back(&mut self) -> Result<(), JournalError> {
        self.journal.roll_back()
    }

    /// The folder of the segments.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.journal.dir()
    }

    /// All durable events behind `after`, to be applied in order.
    #[must_use]
    pub fn replay_after(&self, after: Position) -> EventReplay<E> {
        EventReplay {
            reader: self.reader_after(after),
            failed: false,
        }
    }

    /// A reader that can follow: the accounting feed.
    #[must_use]
    pub fn reader_after(&self, after: Position) -> EventReader<E> {
        EventReader {
            reader: self.journal.reader_after(after),
            event_version: self.options.event_version,
            dir: self.journal.dir().to_owned(),
            _event: PhantomData,
        }
    }

    /// Opens readers like [`EventJournal::reader_after`] after the journal itself has moved into the writer.
    pub fn reader_opener(&self) -> impl Fn(Position) -> EventReader<E> + Send + 'static
    where
        E: 'static,
    {
        let (dir, durable) = (self.journal.dir().to_owned(), self.journal.durable_watch());
        let event_version = self.options.event_version;
        move |after| EventReader {
            reader: JournalReader::new(&dir, durable.clone(), after),
            event_version,
            dir: dir.clone(),
            _event: PhantomData,
        }
    }

    /// Keeps records behind `after` until the pin is advanced or dropped. Taken before the first [`EventJournal::prune`].
    #[must_use]
    pub fn pin(&self, name: &str, after: Position) -> Pin {
        self.journal.pin(name, after)
    }

    /// Position of the last event, durable or not.
    #[must_use]
    pub fn last(&self) -> Position {
        self.journal.last()
    }

    /// Position up to which everything is durable.
    #[must_use]
    pub fn durable(&self) -> Position {
        self.journal.durable()
    }

    /// A channel that changes whenever more events have become durable.
    #[must_use]
    pub fn durable_watch(&self) -> watch::Receiver<Position> {
        self.journal.durable_watch()
    }

    /// Where checkpoints are written; may be used from another thread.
    #[must_use]
    pub fn checkpoints(&self) -> CheckpointStore {
        self.checkpoints.clone()
    }

    /// Version to write checkpoints with.
    #[must_use]
    pub fn state_version(&self) -> u32 {
        self.options.state_version
    }

    /// Removes segments that neither the oldest kept checkpoint (what [`CheckpointStore::write`] returned) nor a pin needs.
    ///
    /// # Errors
    /// `Io`; the journal stays usable.
    pub fn prune(&mut self, oldest_checkpoint: Position) -> Result<Vec<PathBuf>, JournalError> {
        self.journal.prune_before(oldest_checkpoint.next())
    }

    /// Number of segment files, for diagnosis.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.journal.segment_count()
    }
}

/// Reads events in order, also while more are written.
#[derive(Debug)]
pub struct EventReader<E> {
    reader: JournalReader,
    event_version: u16,
    dir: PathBuf,
    _event: PhantomData<fn() -> E>,
}

/// Just the version of a record, readable whatever the event is.
#[derive(Deserialize)]
struct VersionOnly {
    version: u16,
}

impl<E: DeserializeOwned> EventReader<E> {
    /// The next durable event, or `None` when there is none yet: then wait on [`EventReader::durable_watch`].
    ///
    /// # Errors
    /// `Pruned`, `Damaged`, `Version` or `Decode` for an event of a newer release.
    pub fn next_event(&mut self) -> Result<Option<(Position, JournalRecord<E>)>, JournalError> {
        let Some(Record { position, payload }) = self.reader.next_record()? else {
            return Ok(None);
        };
        match rmp_serde::from_slice::<JournalRecord<E>>(&payload) {
            Ok(record) if record.version <= self.event_version => Ok(Some((position, record))),
            Ok(record) => Err(self.newer(record.version)),
            Err(error) => match rmp_serde::from_slice::<VersionOnly>(&payload) {
                Ok(only) if only.version > self.event_version => Err(self.newer(only.version)),
                _ => Err(JournalError::Decode {
                    position,
                    reason: error.to_string(),
                }),
            },
        }
    }

    /// Position of the last event that was returned.
    #[must_use]
    pub fn position(&self) -> Position {
        self.reader.position()
    }

    /// A channel that changes when more events have become durable.
    #[must_use]
    pub fn durable_watch(&self) -> watch::Receiver<Position> {
        self.reader.durable_watch()
    }

    fn newer(&self, found: u16) -> JournalError {
        JournalError::Version {
            what: "event",
            path: self.dir.clone(),
            found: u32::from(found),
            supported: u32::from(self.event_version),
        }
    }
}

/// Iterator over the durable events; ends at the last, or after the first error.
#[derive(Debug)]
pub struct EventReplay<E> {
    reader: EventReader<E>,
    failed: bool,
}

impl<E: DeserializeOwned> Iterator for EventReplay<E> {
    type Item = Result<(Position, JournalRecord<E>), JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let item = self.reader.next_event().transpose();
        self.failed = matches!(item, Some(Err(_)));
        item
    }
}

#[cfg(test)]
mod tests;
