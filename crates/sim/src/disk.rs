//! The controller's disk: batches of journal records, and checkpoints.
//!
//! Payloads are the real ones: `JournalEntry` and `Cluster` in MessagePack with field names. The frame around a batch is a small
//! one of its own (length, CRC-32, payloads); the real one is tested with the journal. A crash keeps what was flushed; of the
//! batch that was being written it keeps nothing, a part, or all of it. Invariant: a batch is read whole or not at all.

use std::collections::VecDeque;

use sluice_controller::Cluster;
use sluice_controller::transaction::JournalEntry;

use crate::chance::Chance;
use crate::invariants::Violation;

/// Batches with their numbers, as they were read back.
pub type Replayed = Vec<(u64, Vec<JournalEntry>)>;

/// What survives a crash of the controller.
#[derive(Debug, Default)]
pub struct Disk {
    /// Flushed batches with their numbers, oldest first.
    batches: VecDeque<(u64, Vec<u8>)>,
    /// The batch being written.
    writing: Option<Vec<u8>>,
    /// Number of the next batch.
    next: u64,
    /// (number of the last batch in it, bytes), oldest first; two at most.
    checkpoints: Vec<(u64, Vec<u8>)>,
}

/// A batch of entries as bytes.
#[must_use]
pub fn encode(entries: &[JournalEntry]) -> Vec<u8> {
    let mut payload = Vec::new();
    for entry in entries {
        let bytes = rmp_serde::to_vec_named(entry).unwrap_or_default();
        payload.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        payload.extend_from_slice(&bytes);
    }
    let mut batch = Vec::with_capacity(payload.len() + 8);
    batch.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    batch.extend_from_slice(&crc32fast::hash(&payload).to_le_bytes());
    batch.extend_from_slice(&payload);
    batch
}

fn number(bytes: &[u8]) -> Option<usize> {
    Some(u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize)
}

/// The entries of a batch; `None` when it is torn.
#[must_use]
pub fn decode(batch: &[u8]) -> Option<Vec<JournalEntry>> {
    let length = number(batch)?;
    let crc = number(batch.get(4..)?)? as u32;
    let mut payload = batch.get(8..8 + length)?;
    if crc32fast::hash(payload) != crc {
        return None;
    }
    let mut entries = Vec::new();
    while !payload.is_empty() {
        let length = number(payload)?;
        entries.push(rmp_serde::from_slice(payload.get(4..4 + length)?).ok()?);
        payload = &payload[4 + length..];
    }
    Some(entries)
}

impl Disk {
    /// Begins to write a batch.
    pub fn write(&mut self, batch: Vec<u8>) {
        self.writing = Some(batch);
    }

    /// The batch being written is flushed; gives its number and bytes.
    pub fn flushed(&mut self) -> Option<(u64, Vec<u8>)> {
        let batch = self.writing.take()?;
        self.batches.push_back((self.next, batch.clone()));
        self.next += 1;
        Some((self.next - 1, batch))
    }

    /// Number of the last flushed batch, counted from 1; 0 = none.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.next
    }

    /// The controller died: what becomes of the unflushed batch is chance.
    pub fn crash(&mut self, chance: &mut Chance, damage_checkpoint: bool) {
        if let Some(mut batch) = self.writing.take() {
            match chance.between(0, 2) {
                0 => {}
                1 => {
                    batch.truncate(chance.between(0, batch.len() as u64 - 1) as usize);
                    self.batches.push_back((self.next, batch));
                }
                _ => {
                    self.batches.push_back((self.next, batch));
                    self.next += 1;
                }
            }
        }
        if damage_checkpoint && self.checkpoints.len() > 1 {
            self.checkpoints.pop();
        }
    }

    /// Stores a checkpoint that holds the first `through` batches; older ones go, and batches that none needs.
    pub fn store_checkpoint(&mut self, through: u64, bytes: Vec<u8>) {
        self.checkpoints.push((through, bytes));
        while self.checkpoints.len() > 2 {
            self.checkpoints.remove(0);
        }
        let oldest = self.checkpoints.first().map_or(0, |(through, _)| *through);
        while self
            .batches
            .front()
            .is_some_and(|(number, _)| *number < oldest)
        {
            self.batches.pop_front();
        }
    }

    /// Reads the newest checkpoint and the batches behind it, as the controller does at its start. A torn last batch is cut off.
    /// Gives the state and the batches that were replayed.
    ///
    /// # Errors
    /// When something is missing or unreadable that had been flushed.
    pub fn recover(&mut self) -> Result<(Cluster, Replayed), Violation> {
        let lost = |text: &str| Violation::new("the journal is read back", text.to_owned());
        let (through, bytes) = self
            .checkpoints
            .last()
            .ok_or_else(|| lost("there is no checkpoint"))?;
        let mut cluster: Cluster = rmp_serde::from_slice(bytes)
            .map_err(|error| lost(&format!("checkpoint {through}: {error}")))?;
        let mut replayed = Vec::new();
        let mut torn = false;
        for (number, batch) in self.batches.iter().filter(|(number, _)| number >= through) {
            match decode(batch) {
                Some(entries) => replayed.push((*number, entries)),
                None if *number == self.next => torn = true,
                None => {
                    return Err(lost(&format!(
                        "batch {number} was flushed and is unreadable"
                    )));
                }
            }
        }
        if torn {
            self.batches.pop_back();
        }
        let expected: Vec<u64> = (*through..self.next).collect();
        let found: Vec<u64> = replayed.iter().map(|(number, _)| *number).collect();
        if expected != found {
            return Err(lost(&format!(
                "batches {expected:?} are needed, {found:?} are there"
            )));
        }
        for (_, entries) in &replayed {
            for event in entries.iter().flat_map(|entry| &entry.events) {
                sluice_controller::event::apply(&mut cluster, event);
            }
        }
        Ok((cluster, replayed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> JournalEntry {
        let jobs = vec![sluice_model::ids::JobId(7)];
        JournalEntry {
            events: vec![sluice_controller::Event::JobsPurged { jobs }],
            accounting: Vec::new(),
        }
    }

    /// A batch is there as a whole or not at all, wherever it is cut.
    #[test]
    fn a_cut_batch_is_no_batch() {
        let batch = encode(&[entry(), entry()]);
        assert_eq!(decode(&batch), Some(vec![entry(), entry()]));
        for length in 0..batch.len() {
            assert_eq!(decode(&batch[..length]), None, "cut at {length}");
        }
    }
}
