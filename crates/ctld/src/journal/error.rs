//! What can go wrong with the journal, the checkpoints and the lock, in words an administrator can act on.
//!
//! Each message names the file and the way out; the underlying I/O error stays the source.

use std::io;
use std::path::PathBuf;

use super::{Damage, Position};

/// Errors of the journal, its checkpoints and the lock of the state folder.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A system call on one file failed.
    #[error("cannot {action} {path}", path = path.display())]
    Io {
        /// What was tried, as a verb: `open`, `write`, `flush` …
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// An earlier write or fsync failed: what the disk holds is unknown until the next start.
    #[error(
        "the journal is closed since an earlier failure: {cause}\n\nhint: free space or mend the disk, then start ctld again; \
         it will keep every change that it had confirmed"
    )]
    Poisoned {
        /// The first failure.
        cause: String,
    },
    /// Records that had been confirmed are unreadable.
    #[error("{}", damage_text(.0))]
    Damaged(Vec<Damage>),
    /// The file was written by a newer release.
    #[error(
        "{path} has format {found}, this ctld reads formats up to {supported}\n\nhint: start the release that wrote it (one that \
         reads {what} format {found}), or move the file away to begin without it",
        path = path.display()
    )]
    Version {
        /// `journal`, `checkpoint`, `event` or `state`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Format number in the file.
        found: u32,
        /// Newest format that we can read.
        supported: u32,
    },
    /// A record cannot be understood although its checksum is right.
    #[error(
        "the event at journal position {position} cannot be read: {reason}\n\nhint: it was probably written by a newer ctld; \
         start that release again"
    )]
    Decode {
        /// Which record.
        position: Position,
        /// The decoder's words.
        reason: String,
    },
    /// A value cannot be turned into bytes.
    #[error("cannot encode {what}: {reason}")]
    Encode {
        /// `an event` or `the state`.
        what: &'static str,
        /// The encoder's words.
        reason: String,
    },
    /// The checkpoint's checksum is right but its content cannot be read.
    #[error(
        "the checkpoint {path} cannot be read: {reason}\n\nhint: it was probably written by another release of ctld; start that \
         release, or move this file away to start from the older checkpoint",
        path = path.display()
    )]
    CheckpointDecode {
        /// The file.
        path: PathBuf,
        /// The decoder's words.
        reason: String,
    },
    /// One record is larger than the journal accepts.
    #[error("a record of {bytes} bytes is above the journal's limit of {limit} bytes")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A reader asks for records that are no longer kept.
    #[error("the journal no longer holds position {wanted}; it begins at {first}")]
    Pruned {
        /// The position asked for.
        wanted: Position,
        /// The oldest one kept.
        first: Position,
    },
    /// No checkpoint reaches the beginning of the journal.
    #[error(
        "state cannot be rebuilt: the journal in {dir} begins at position {first} and no readable checkpoint covers what came \
         before{detail}\n\nhint: restore the checkpoints folder from a backup, or start with -c to begin with an empty state",
        dir = dir.display()
    )]
    NoBase {
        /// The journal's folder.
        dir: PathBuf,
        /// Where it begins.
        first: Position,
        /// The checkpoints that were looked at, and what was wrong with them.
        detail: String,
    },
    /// Another daemon uses the state folder.
    #[error(
        "the state folder {dir} is in use by {holder}\n\nhint: stop that ctld, or give this cluster a StateSaveLocation of its own",
        dir = dir.display()
    )]
    Locked {
        /// The state folder.
        dir: PathBuf,
        /// `process 1234` or `another process`.
        holder: String,
    },
}

impl JournalError {
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| JournalError::Io {
            action,
            path,
            source,
        }
    }

    /// The write failed for want of space (a full disk, a quota, a size limit, a read-only mount): something that an
    /// administrator can change while the daemon runs. Everything else means that the disk cannot be trusted.
    #[must_use]
    pub fn is_want_of_space(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        matches!(self, JournalError::Io { source, .. }
            if matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge | ReadOnlyFilesystem))
    }

    /// The message with its chain of causes, in one line each.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(next) = cause {
            text.push_str(": ");
            text.push_str(&next.to_string());
            cause = next.source();
        }
        text
    }
}

fn damage_text(damage: &[Damage]) -> String {
    let mut text = String::from("the journal is damaged inside:");
    for one in damage {
        text.push_str("\n  ");
        text.push_str(&one.to_string());
    }
    text.push_str(
        "\n\nhint: restore the file from a backup; `sluice journal check` says which jobs a repair would lose; `sluice journal repair`, \
         or one start of ctld with -i, keeps a copy of each damaged file, skips what cannot be read and loses those changes",
    );
    text
}
