//! Pins: who still needs old records. The accounting feed pins what the database has not got yet, so that a database that is
//! away makes the journal longer and loses nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Position;

/// All pins of one journal.
#[derive(Debug, Clone, Default)]
pub(crate) struct PinTable {
    inner: Arc<Mutex<Pins>>,
}

#[derive(Debug, Default)]
struct Pins {
    last_id: u64,
    held: BTreeMap<u64, (String, Position)>,
}

impl PinTable {
    pub(crate) fn add(&self, name: &str, after: Position) -> Pin {
        let mut pins = self.inner.lock();
        pins.last_id += 1;
        let id = pins.last_id;
        pins.held.insert(id, (name.to_owned(), after));
        Pin {
            table: self.clone(),
            id,
        }
    }

    /// The smallest position that some pin has already dealt with; records above it must stay.
    pub(crate) fn lowest(&self) -> Option<Position> {
        self.inner
            .lock()
            .held
            .values()
            .map(|(_, after)| *after)
            .min()
    }

    /// Names and positions, for diagnosis.
    pub(crate) fn describe(&self) -> Vec<(String, Position)> {
        self.inner.lock().held.values().cloned().collect()
    }
}

/// Keeps every record above its position from being pruned, until it is advanced or dropped.
#[derive(Debug)]
pub struct Pin {
    table: PinTable,
    id: u64,
}

impl Pin {
    /// Records up to `done` are no longer needed. Never moves back.
    pub fn advance(&self, done: Position) {
        if let Some((_, after)) = self.table.inner.lock().held.get_mut(&self.id) {
            *after = (*after).max(done);
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.table.inner.lock().held.remove(&self.id);
    }
}
