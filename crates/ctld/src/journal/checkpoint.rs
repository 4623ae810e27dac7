//! Checkpoints: the whole state at one journal position, so that a start need not replay everything.
//!
//! Written beside the name and renamed into place, durable file and folder; the last two are kept. A damaged newest one is
//! passed over for the older, which is why the journal is pruned only up to the *oldest* checkpoint kept. Header, 40 bytes,
//! little endian: magic "SLUICECP", format u32, state version u32, position u64, length u64, crc32 of the payload u32,
//! crc32 of bytes 0..36 u32. Then the payload.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::segment::{sync_dir, write_whole};
use super::{JournalError, Position, SurveyedCheckpoint};

const MAGIC: &[u8; 8] = b"SLUICECP";
const HEADER_BYTES: usize = 40;
/// Format of the file around the state.
const CHECKPOINT_FORMAT: u32 = 1;
/// How many are kept.
const KEPT: usize = 2;

/// A checkpoint that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointFile {
    /// The state contains every event up to here.
    pub position: Position,
    /// Version of the state's encoding, as given to [`CheckpointStore::write`].
    pub state_version: u32,
    /// The encoded state.
    pub payload: Vec<u8>,
    /// Where it was read from.
    pub path: PathBuf,
}

/// The folder of checkpoints. Cheap to clone; may be used from another thread while the journal goes on.
#[derive(Debug, Clone)]
pub struct CheckpointStore {
    dir: PathBuf,
}

/// What was found when looking for the newest readable checkpoint.
#[derive(Debug, Default)]
pub(crate) struct LoadedCheckpoint {
    pub newest: Option<CheckpointFile>,
    /// Files that were passed over, and why.
    pub faults: Vec<String>,
}

/// Turns state into the bytes of a checkpoint (MessagePack with field names).
///
/// # Errors
/// [`JournalError::Encode`].
pub fn encode_state<S: Serialize>(state: &S) -> Result<Vec<u8>, JournalError> {
    rmp_serde::to_vec_named(state).map_err(|error| JournalError::Encode {
        what: "the state",
        reason: error.to_string(),
    })
}

impl CheckpointStore {
    /// Opens the folder, creating it when missing.
    ///
    /// # Errors
    /// `Io`.
    pub fn open(dir: &Path) -> Result<CheckpointStore, JournalError> {
        fs::create_dir_all(dir).map_err(JournalError::io("create the folder", dir))?;
        Ok(CheckpointStore {
            dir: dir.to_owned(),
        })
    }

    /// Writes a checkpoint durably, removes all but the newest two, and returns the oldest position that is still kept: the
    /// journal may be pruned before the one after it.
    ///
    /// # Errors
    /// `Io`; the earlier checkpoints are untouched then.
    pub fn write(
        &self,
        position: Position,
        state_version: u32,
        payload: &[u8],
    ) -> Result<Position, JournalError> {
        let mut header = [0; HEADER_BYTES];
        header[0..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&CHECKPOINT_FORMAT.to_le_bytes());
        header[12..16].copy_from_slice(&state_version.to_le_bytes());
        header[16..24].copy_from_slice(&position.0.to_le_bytes());
        header[24..32].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        header[32..36].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
        let crc = crc32fast::hash(&header[0..36]);
        header[36..40].copy_from_slice(&crc.to_le_bytes());
        write_whole(&self.path_of(position), &[&header, payload])?;
        self.remove_old()
    }

    /// Path of the checkpoint at `position`.
    #[must_use]
    pub fn path_of(&self, position: Position) -> PathBuf {
        self.dir.join(format!("{:020}.ckpt", position.0))
    }

    fn remove_old(&self) -> Result<Position, JournalError> {
        let all = self.list()?;
        // Only readable ones count as kept: a damaged file must not push the last good one out.
        let mut kept = Vec::new();
        for (position, path) in all.into_iter().rev() {
            if kept.len() >= KEPT || read(&path).is_err() {
                fs::remove_file(&path).map_err(JournalError::io("remove", &path))?;
            } else {
                kept.push(position);
            }
        }
        sync_dir(&self.dir)?;
        Ok(kept.last().copied().unwrap_or(Position::ZERO))
    }

    /// Positions and paths, oldest first.
    fn list(&self) -> Result<Vec<(Position, PathBuf)>, JournalError> {
        let mut found = Vec::new();
        for entry in
            fs::read_dir(&self.dir).map_err(JournalError::io("read the folder", &self.dir))?
        {
            let path = entry
                .map_err(JournalError::io("read the folder", &self.dir))?
                .path();
            let number = path
                .file_name()
                .and_then(|name| name.to_str())
                .and_then(|name| name.strip_suffix(".ckpt"))
                .and_then(|digits| digits.parse::<u64>().ok());
            if let Some(position) = number {
                found.push((Position(position), path));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Every checkpoint, oldest first: where it is, and either what it holds or why it cannot be read.
    pub(crate) fn survey(&self) -> Result<Vec<SurveyedCheckpoint>, JournalError> {
        let found = self.list()?.into_iter().map(|(_, path)| {
            let content = read(&path).map_err(|fault| match fault {
                Fault::Format(format) => {
                    format!("it has format {format}, which is newer than {CHECKPOINT_FORMAT}")
                }
                Fault::Unreadable(reason) => reason,
            });
            SurveyedCheckpoint { path, content }
        });
        Ok(found.collect())
    }

    /// The newest position that some file is named after, readable or not.
    pub(crate) fn newest_named(&self) -> Result<Position, JournalError> {
        Ok(self
            .list()?
            .last()
            .map_or(Position::ZERO, |(position, _)| *position))
    }

    /// The newest readable checkpoint, and what was wrong with newer ones.
    pub(crate) fn load(&self) -> Result<LoadedCheckpoint, JournalError> {
        let mut loaded = LoadedCheckpoint::default();
        for (_, path) in self.list()?.into_iter().rev() {
            match read(&path) {
                Ok(found) => {
                    loaded.newest = Some(found);
                    break;
                }
                Err(Fault::Format(found)) => {
                    return Err(JournalError::Version {
                        what: "checkpoint",
                        path,
                        found,
                        supported: CHECKPOINT_FORMAT,
                    });
                }
                Err(Fault::Unreadable(reason)) => {
                    loaded.faults.push(format!(
                        "checkpoint {} is passed over: {reason}",
                        path.display()
                    ));
                }
            }
        }
        Ok(loaded)
    }
}

enum Fault {
    Format(u32),
    Unreadable(String),
}

fn read(path: &Path) -> Result<CheckpointFile, Fault> {
    let unreadable = |error: std::io::Error| Fault::Unreadable(error.to_string());
    let mut file = fs::File::open(path).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    let mut header = [0; HEADER_BYTES];
    file.read_exact(&mut header)
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                Fault::Unreadable(format!("it has only {bytes} bytes"))
            }
            _ => unreadable(error),
        })?;
    // Read to where it stays: with 100,000 jobs it has more than 100 MB.
    let mut payload = Vec::with_capacity(bytes as usize);
    file.read_to_end(&mut payload).map_err(unreadable)?;
    let u32_at = |at: usize| {
        u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let u64_at = |at: usize| u64::from(u32_at(at)) | (u64::from(u32_at(at + 4)) << 32);
    if &header[0..8] != MAGIC || u32_at(36) != crc32fast::hash(&header[0..36]) {
        return Err(Fault::Unreadable("its header is damaged".to_owned()));
    }
    if u32_at(8) != CHECKPOINT_FORMAT {
        return Err(Fault::Format(u32_at(8)));
    }
    if u64_at(24) != payload.len() as u64 {
        return Err(Fault::Unreadable(format!(
            "{} bytes of state are there, {} were written",
            payload.len(),
            u64_at(24)
        )));
    }
    if u32_at(32) != crc32fast::hash(&payload) {
        return Err(Fault::Unreadable("its checksum is wrong".to_owned()));
    }
    Ok(CheckpointFile {
        position: Position(u64_at(16)),
        state_version: u32_at(12),
        payload,
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, CheckpointStore) {
        let dir = tempfile::tempdir().expect("folder");
        let store = CheckpointStore::open(&dir.path().join("checkpoints")).expect("store");
        (dir, store)
    }

    #[test]
    fn two_are_kept_and_the_newest_is_loaded() {
        let (_dir, store) = store();
        assert_eq!(
            store.write(Position(5), 1, b"five").expect("write"),
            Position(5)
        );
        assert_eq!(
            store.write(Position(9), 1, b"nine").expect("write"),
            Position(5)
        );
        assert_eq!(
            store.write(Position(20), 2, b"twenty").expect("write"),
            Position(9)
        );
        let newest = store.load().expect("load").newest.expect("one");
        assert_eq!(
            (
                newest.position,
                newest.state_version,
                newest.payload.as_slice()
            ),
            (Position(20), 2, &b"twenty"[..])
        );
        assert!(!store.path_of(Position(5)).exists());
    }

    #[test]
    fn a_damaged_newest_falls_back_with_a_warning() {
        let (_dir, store) = store();
        store.write(Position(5), 1, b"five").expect("write");
        store.write(Position(9), 1, b"nine").expect("write");
        let path = store.path_of(Position(9));
        let whole = fs::read(&path).expect("read");
        for at in 0..whole.len() {
            let mut bad = whole.clone();
            bad[at] ^= 1;
            fs::write(&path, &bad).expect("damage");
            let loaded = store.load().expect("load");
            assert_eq!(
                loaded.newest.expect("older").position,
                Position(5),
                "byte {at}"
            );
            assert!(
                loaded.faults[0].contains("00000000000000000009.ckpt"),
                "{:?}",
                loaded.faults
            );
        }
        // A new one pushes the damaged file out, not the readable one.
        assert_eq!(
            store.write(Position(12), 1, b"twelve").expect("write"),
            Position(5)
        );
        assert!(!path.exists());
    }

    #[test]
    fn a_newer_format_is_refused_by_name() {
        let (_dir, store) = store();
        store.write(Position(5), 1, b"five").expect("write");
        let path = store.path_of(Position(5));
        let mut bytes = fs::read(&path).expect("read");
        bytes[8] = 4;
        let crc = crc32fast::hash(&bytes[0..36]);
        bytes[36..40].copy_from_slice(&crc.to_le_bytes());
        fs::write(&path, &bytes).expect("write");
        let text = store.load().expect_err("refused").to_string();
        assert!(
            text.contains("has format 4, this ctld reads formats up to 1"),
            "{text}"
        );
    }
}
