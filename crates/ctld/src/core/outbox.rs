//! The accounting outbox: reads the records that travel in the journal and hands them to the database feed.
//!
//! The journal is kept as far back as the feed still needs it; the pin moves with the position stored in the database.

use std::path::{Path, PathBuf};

use sluice_accounting::{SourceError, UpdateBatch, UpdateSource};
use sluice_controller::transaction::JournalEntry;

use crate::journal::{EventJournal, EventReader, JournalError, Pin, Position};

/// Reads updates from the journal.
pub struct JournalSource {
    id: String,
    reader: Option<EventReader<JournalEntry>>,
    open: Box<dyn Fn(Position) -> EventReader<JournalEntry> + Send>,
    durable: tokio::sync::watch::Receiver<Position>,
    pin: Pin,
}

impl JournalSource {
    /// A source over `journal`; `id` tells journals apart.
    pub fn new(journal: &EventJournal<JournalEntry>, id: String) -> Self {
        let pin = journal.pin("accounting", Position::ZERO);
        let opener = journal.reader_opener();
        Self {
            id,
            reader: None,
            open: Box::new(opener),
            durable: journal.durable_watch(),
            pin,
        }
    }
}

impl UpdateSource for JournalSource {
    fn journal_id(&self) -> String {
        self.id.clone()
    }

    fn newest(&self) -> u64 {
        self.durable.borrow().0
    }

    async fn next_after(&mut self, position: u64, max: usize) -> Result<UpdateBatch, SourceError> {
        self.pin.advance(Position(position));
        let stale = self
            .reader
            .as_ref()
            .is_none_or(|reader| reader.position().0 != position);
        if stale {
            self.reader = Some((self.open)(Position(position)));
        }
        let mut batch = UpdateBatch {
            from: position,
            through: position,
            updates: Vec::new(),
        };
        loop {
            let Some(reader) = self.reader.as_mut() else {
                return Err(SourceError("no reader".to_owned()));
            };
            match reader.next_event() {
                Ok(Some((at, record))) => {
                    batch.through = at.0;
                    batch.updates.extend(
                        record
                            .event
                            .accounting
                            .into_iter()
                            .map(|update| (at.0, update)),
                    );
                    if batch.updates.len() >= max {
                        return Ok(batch);
                    }
                }
                Ok(None) if batch.through > batch.from || !batch.updates.is_empty() => {
                    return Ok(batch);
                }
                Ok(None) => {
                    if self.durable.changed().await.is_err() {
                        // The writer has ended and everything was read: nothing more comes, and the feed is told to stop.
                        std::future::pending::<()>().await;
                    }
                }
                // Older records are gone: go on with the first one kept; the feed reports the gap.
                Err(JournalError::Pruned { first, .. }) => {
                    batch.from = first.previous().0;
                    batch.through = batch.from;
                    self.reader = Some((self.open)(first.previous()));
                }
                Err(error) => {
                    self.reader = None;
                    return Err(SourceError(error.to_string()));
                }
            }
        }
    }
}

fn id_file(state_dir: &Path) -> PathBuf {
    state_dir.join("journal.id")
}

/// The id of the journal in `state_dir`; a new one is made when there is none. Positions go on growing when the state begins
/// anew (`-c`), so the id stays.
///
/// # Errors
/// When the file cannot be read or written.
pub fn journal_id(state_dir: &Path) -> std::io::Result<String> {
    let path = id_file(state_dir);
    match std::fs::read_to_string(&path) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let id = format!(
        "{:016x}{:016x}",
        rand::random::<u64>(),
        rand::random::<u64>()
    );
    std::fs::write(&path, format!("{id}\n"))?;
    Ok(id)
}
