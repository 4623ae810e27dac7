//! The journal: the only durable truth of `ctld`. Events are appended to segment files and made durable in batches; live
//! state is the newest checkpoint plus the events after it.
//!
//! Synchronous file work only: no async, no clock, no knowledge of what an event means. Sizes are bytes.
//!
//! **Invariant:** `sync` returns `Ok` only after the whole batch is on the disk; after a failed write or fsync the journal
//! refuses everything, because what the disk then holds is unknown: until the daemon is started again, or, where only space
//! was wanting, until the unconfirmed bytes have been cut off (`roll_back`).
//! **Invariant:** a batch is all or nothing: after a crash either every record of a batch is replayed or none.
//! The format and why it is our own: `docs/src/adr/0002-journal-format.md`.

mod checkpoint;
mod error;
mod events;
mod lock;
mod log;
mod pin;
mod reader;
mod record;
mod recovery;
mod segment;
mod survey;

pub use checkpoint::{CheckpointFile, CheckpointStore, encode_state};
pub use error::JournalError;
pub use events::{
    EventJournal, EventJournalOptions, EventReader, EventReplay, JournalRecord, Recovery,
};
pub use lock::StateLock;
pub use log::{Journal, JournalOptions};
pub use pin::Pin;
pub use reader::{JournalReader, Record};
pub use recovery::{Damage, OnDamage, RecoveryReport, TornTail};
pub use segment::{JOURNAL_FORMAT, LogFile};
pub use survey::{Survey, SurveyedCheckpoint, survey};

use serde::{Deserialize, Serialize};

/// Number of a record in the journal. The first record is 1; zero means "before the first".
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Position(pub u64);

impl Position {
    /// Before the first record.
    pub const ZERO: Position = Position(0);

    /// The position after this one.
    #[must_use]
    pub fn next(self) -> Position {
        Position(self.0.saturating_add(1))
    }

    /// The position before this one (zero stays zero).
    #[must_use]
    pub fn previous(self) -> Position {
        Position(self.0.saturating_sub(1))
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
