//! Looking at a state folder without changing anything in it: what is readable, what is damaged, what would be lost.
//!
//! For the offline commands. Takes no lock and may look at a folder that is in use; then the end of the newest segment may seem
//! torn. What the records mean is the caller's affair.

use std::path::{Path, PathBuf};

use super::record::{self, RECORD_HEADER_BYTES};
use super::recovery;
use super::{CheckpointFile, CheckpointStore, JournalError, Position, Record, RecoveryReport};

/// A checkpoint that was looked at.
#[derive(Debug, Clone)]
pub struct SurveyedCheckpoint {
    /// The file.
    pub path: PathBuf,
    /// What it holds, or why it cannot be read.
    pub content: Result<CheckpointFile, String>,
}

/// What a state folder holds.
#[derive(Debug, Default)]
pub struct Survey {
    /// Checkpoints, oldest first.
    pub checkpoints: Vec<SurveyedCheckpoint>,
    /// The journal; `skipped` is the damage that a start refuses.
    pub report: RecoveryReport,
    /// Every readable record, oldest first.
    pub records: Vec<Record>,
    /// For each damage: payloads that may be what was there, unchecked. Empty where nothing can be made of the bytes.
    pub remains: Vec<Vec<Vec<u8>>>,
}

impl Survey {
    /// The newest readable checkpoint: what a start begins with.
    #[must_use]
    pub fn base(&self) -> Option<&CheckpointFile> {
        self.checkpoints
            .iter()
            .rev()
            .find_map(|one| one.content.as_ref().ok())
    }
}

/// Looks at a state folder.
///
/// # Errors
/// `Version` for a newer format, `Io`.
pub fn survey(state_dir: &Path) -> Result<Survey, JournalError> {
    let mut found = Survey::default();
    let checkpoints = state_dir.join("checkpoints");
    if checkpoints.is_dir() {
        found.checkpoints = CheckpointStore::open(&checkpoints)?.survey()?;
    }
    let confirmed = found.base().map_or(Position::ZERO, |file| file.position);
    let (records, remains) = (&mut found.records, &mut found.remains);
    let report = recovery::look(&state_dir.join("journal"), confirmed, |segment| {
        records.extend(segment.records.iter().map(|view| Record {
            position: view.position,
            payload: view.payload(&segment.bytes).to_vec(),
        }));
        remains.extend(segment.damage.iter().map(|damage| {
            let from = usize::try_from(damage.offset).unwrap_or(usize::MAX);
            let to = from.saturating_add(usize::try_from(damage.bytes).unwrap_or(usize::MAX));
            let to = to.min(segment.bytes.len());
            payloads(segment.bytes.get(from..to).unwrap_or_default())
        }));
    })?;
    found.report = report;
    Ok(found)
}

/// Walks through damaged bytes as if the lengths in them were right; what is left where they are not is one piece.
fn payloads(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let end = record::parse_header(rest)
            .map(|header| RECORD_HEADER_BYTES + header.length)
            .filter(|end| *end <= rest.len())
            .unwrap_or(rest.len());
        found.push(rest[RECORD_HEADER_BYTES.min(end)..end].to_vec());
        at += end;
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::journal::{Journal, JournalOptions};

    /// Without this, looking would already change what an administrator has a backup of.
    #[test]
    fn looking_changes_nothing_and_says_what_a_start_would() {
        let dir = tempfile::tempdir().expect("folder");
        let journal_dir = dir.path().join("journal");
        let (mut journal, _) =
            Journal::open(&journal_dir, &JournalOptions::default()).expect("open");
        for payload in ["one", "two", "three"] {
            journal.append(&[payload]).expect("append");
            journal.sync().expect("sync");
        }
        drop(journal);
        let file = journal_dir.join("00000000000000000001.seg");
        let mut bytes = fs::read(&file).expect("read");
        // Header 32, then 24 + 3 for "one": the payload of "two" begins at 83.
        bytes[84] ^= 1;
        bytes.extend([1, 2, 3]);
        fs::write(&file, &bytes).expect("write");
        fs::write(journal_dir.join("x.tmp"), "").expect("write");

        let found = survey(dir.path()).expect("survey");
        let positions: Vec<u64> = found
            .records
            .iter()
            .map(|record| record.position.0)
            .collect();
        assert_eq!(positions, [1, 3]);
        let damage = &found.report.skipped[0];
        assert_eq!((damage.offset, damage.bytes), (59, 27));
        assert_eq!(damage.lost, (Position(2), Some(Position(2))));
        assert_eq!(found.remains[0], [b"tvo".to_vec()]);
        assert_eq!(fs::read(&file).expect("read"), bytes);
        assert!(journal_dir.join("x.tmp").exists());
    }
}
