//! The journal as the writer sees it: append, sync, prune. One owner, one thread; readers follow through [`JournalReader`].
//!
//! `append` only fills a buffer; `sync` writes the whole batch with one write and one fdatasync. A batch never spans two
//! segments. Any failure poisons the journal (see [`JournalError::Poisoned`]): after a failed fsync the kernel may have
//! dropped the dirty pages, so trying again could claim durability for bytes that are gone. Where only space was wanting,
//! [`Journal::roll_back`] cuts everything off that is not durable, and the journal goes on from there.

use std::fs;
use std::path::{Path, PathBuf};

use tokio::sync::watch;

use super::pin::{Pin, PinTable};
use super::record::{self, RECORD_BYTES_MAX};
use super::recovery::{self, OnDamage, RecoveryReport};
use super::segment::{self, LogFile, SEGMENT_HEADER_BYTES, SegmentFile, SegmentHeader};
use super::{JournalError, JournalReader, Position};

/// How to open a journal.
#[derive(Debug, Clone)]
pub struct JournalOptions {
    /// A new segment begins when the current one has reached this size, in bytes.
    pub segment_bytes_max: u64,
    /// What to do about unreadable confirmed records.
    pub on_damage: OnDamage,
    /// A position that is known to have been durable (the newest checkpoint's): positions go on behind it at least.
    pub confirmed: Position,
}

impl Default for JournalOptions {
    fn default() -> Self {
        JournalOptions {
            segment_bytes_max: 64 << 20,
            on_damage: OnDamage::Refuse,
            confirmed: Position::ZERO,
        }
    }
}

/// An append-only log of opaque records in a folder of its own.
pub struct Journal {
    dir: PathBuf,
    segment_bytes_max: u64,
    segments: Vec<SegmentFile>,
    file: Box<dyn LogFile>,
    /// Header of the segment that is being written.
    header: SegmentHeader,
    /// Its length.
    file_bytes: u64,
    buffer: Vec<u8>,
    /// Where each buffered record begins.
    starts: Vec<usize>,
    appended: Position,
    durable: watch::Sender<Position>,
    poisoned: Option<Poison>,
    pins: PinTable,
}

/// Why nothing may be written.
struct Poison {
    cause: String,
    /// Only space was wanting: [`Journal::roll_back`] may mend it.
    is_want_of_space: bool,
}

/// What must fit before the journal is used again after a want of space: with less it would soon fail anew.
const ROOM_BYTES: usize = 256 << 10;

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal")
            .field("dir", &self.dir)
            .field("appended", &self.appended)
            .finish_non_exhaustive()
    }
}

impl Journal {
    /// Opens (or begins) the journal in `dir`. The caller holds the state folder's lock.
    ///
    /// # Errors
    /// `Damaged` when confirmed records are unreadable and skipping was not asked for; `Version` for a newer format; `Io`.
    pub fn open(
        dir: &Path,
        options: &JournalOptions,
    ) -> Result<(Journal, RecoveryReport), JournalError> {
        fs::create_dir_all(dir).map_err(JournalError::io("create the folder", dir))?;
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            segment::sync_dir(parent)?;
        }
        let found = recovery::recover(dir, options.on_damage, options.confirmed)?;
        let mut segments = found.segments;
        let report = found.report;
        let appended = report.last.max(options.confirmed);
        let jumps = appended > report.last;

        let reusable = segments.last().zip(found.open_header).filter(|_| !jumps);
        let (header, file, file_bytes) = match reusable {
            Some((newest, header)) => {
                let file = segment::open_append(&newest.path)?;
                let bytes = file
                    .metadata()
                    .map_err(JournalError::io("read the size of", &newest.path))?
                    .len();
                (header, file, bytes)
            }
            None => {
                let header = SegmentHeader::new(appended.next(), jumps);
                let (made, file) = segment::create(dir, header)?;
                segments.retain(|one| one.first != made.first);
                segments.push(made);
                (header, file, SEGMENT_HEADER_BYTES as u64)
            }
        };
        let journal = Journal {
            dir: dir.to_owned(),
            segment_bytes_max: options.segment_bytes_max,
            segments,
            file: Box::new(file),
            header,
            file_bytes,
            buffer: Vec::new(),
            starts: Vec::new(),
            appended,
            durable: watch::Sender::new(appended),
            poisoned: None,
            pins: PinTable::default(),
        };
        Ok((journal, report))
    }

    /// Buffers records; nothing is durable before [`Journal::sync`]. Returns the position of the last one.
    ///
    /// # Errors
    /// `Poisoned` after an earlier failure; `TooLarge` (nothing of the call is buffered then).
    pub fn append<P: AsRef<[u8]>>(&mut self, payloads: &[P]) -> Result<Position, JournalError> {
        self.check_usable()?;
        if let Some(large) = payloads
            .iter()
            .map(|p| p.as_ref().len())
            .find(|bytes| *bytes > RECORD_BYTES_MAX)
        {
            return Err(JournalError::TooLarge {
                bytes: large,
                limit: RECORD_BYTES_MAX,
            });
        }
        for payload in payloads {
            self.appended = self.appended.next();
            self.starts.push(self.buffer.len());
            record::push(&mut self.buffer, self.appended, payload.as_ref());
        }
        Ok(self.appended)
    }

    /// Writes and flushes everything buffered as one batch; returns the position up to which everything is durable.
    ///
    /// # Errors
    /// `Io` for the first failure, `Poisoned` ever after.
    pub fn sync(&mut self) -> Result<Position, JournalError> {
        self.check_usable()?;
        if self.starts.is_empty() {
            return Ok(self.durable());
        }
        match self.write_batch() {
            Ok(()) => {
                self.file_bytes += self.buffer.len() as u64;
                self.buffer.clear();
                self.starts.clear();
                self.durable.send_replace(self.appended);
                Ok(self.appended)
            }
            Err(error) => {
                self.poisoned = Some(Poison {
                    cause: error.chain(),
                    is_want_of_space: error.is_want_of_space(),
                });
                Err(error)
            }
        }
    }

    /// Forgets everything that is not durable and makes the journal usable again: the file is cut behind the last durable
    /// record, and it is made sure that there is room. Positions of forgotten records are given anew; nobody was told of them.
    ///
    /// # Errors
    /// `Poisoned` when the failure was not one of space (then it stays so); `Io` when there still is no room.
    pub fn roll_back(&mut self) -> Result<(), JournalError> {
        self.buffer.clear();
        self.starts.clear();
        self.appended = self.durable();
        match &self.poisoned {
            None => return Ok(()),
            Some(poison) if !poison.is_want_of_space => return self.check_usable(),
            Some(_) => {}
        }
        let path = self.current_path();
        self.file
            .cut(self.file_bytes)
            .map_err(JournalError::io("cut", &path))?;
        // A segment that was begun while the space ran out, and that holds nothing.
        let stray: Vec<_> = segment::list(&self.dir)?
            .into_iter()
            .filter(|one| one.first > self.header.first)
            .collect();
        for segment in &stray {
            fs::remove_file(&segment.path).map_err(JournalError::io("remove", &segment.path))?;
        }
        if !stray.is_empty() {
            segment::sync_dir(&self.dir)?;
        }
        self.make_sure_of_room()?;
        self.poisoned = None;
        Ok(())
    }

    fn make_sure_of_room(&self) -> Result<(), JournalError> {
        // Cut-off files of this ending are removed at the start.
        let path = self.dir.join("room.tmp");
        let tried = fs::write(&path, vec![0xA5; ROOM_BYTES])
            .and_then(|()| fs::File::open(&path)?.sync_all())
            .map_err(JournalError::io("write", &path));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(JournalError::io("remove", &path)(error))
            }
            _ => tried,
        }
    }

    fn write_batch(&mut self) -> Result<(), JournalError> {
        let has_records = self.file_bytes > SEGMENT_HEADER_BYTES as u64;
        if has_records && self.file_bytes + self.buffer.len() as u64 > self.segment_bytes_max {
            self.rotate()?;
        }
        let length = u32::try_from(self.starts.len()).map_err(|_| JournalError::TooLarge {
            bytes: self.starts.len(),
            limit: u32::MAX as usize,
        })?;
        for index in 0..self.starts.len() {
            let end = self
                .starts
                .get(index + 1)
                .copied()
                .unwrap_or(self.buffer.len());
            // `index < length`, which fits.
            record::seal(
                &mut self.buffer[self.starts[index]..end],
                index as u32,
                length,
                self.header.salt,
            );
        }
        let path = self.current_path();
        self.file
            .write_all(&self.buffer)
            .map_err(JournalError::io("write", &path))?;
        self.file
            .sync_data()
            .map_err(JournalError::io("flush to disk", &path))
    }

    fn rotate(&mut self) -> Result<(), JournalError> {
        let header = SegmentHeader::new(self.durable().next(), false);
        let (made, file) = segment::create(&self.dir, header)?;
        self.segments.push(made);
        self.file = Box::new(file);
        self.header = header;
        self.file_bytes = SEGMENT_HEADER_BYTES as u64;
        Ok(())
    }

    fn current_path(&self) -> PathBuf {
        segment::segment_path(&self.dir, self.header.first)
    }

    fn check_usable(&self) -> Result<(), JournalError> {
        match &self.poisoned {
            Some(poison) => Err(JournalError::Poisoned {
                cause: poison.cause.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Position of the last record that was appended, durable or not.
    #[must_use]
    pub fn last(&self) -> Position {
        self.appended
    }

    /// Position up to which everything is durable.
    #[must_use]
    pub fn durable(&self) -> Position {
        *self.durable.borrow()
    }

    /// A channel that changes whenever more records have become durable.
    #[must_use]
    pub fn durable_watch(&self) -> watch::Receiver<Position> {
        self.durable.subscribe()
    }

    /// A reader of the durable records behind `after`, which can follow the writer.
    #[must_use]
    pub fn reader_after(&self, after: Position) -> JournalReader {
        JournalReader::new(&self.dir, self.durable.subscribe(), after)
    }

    /// Keeps every record behind `after` from being pruned until the pin is advanced or dropped.
    #[must_use]
    pub fn pin(&self, name: &str, after: Position) -> Pin {
        self.pins.add(name, after)
    }

    /// Who keeps old records, with the position each has dealt with.
    #[must_use]
    pub fn pins(&self) -> Vec<(String, Position)> {
        self.pins.describe()
    }

    /// Removes the segments whose records all lie before `position`, except what a pin still needs and the newest segment.
    ///
    /// # Errors
    /// `Io` when a file cannot be removed; the journal stays usable.
    pub fn prune_before(&mut self, position: Position) -> Result<Vec<PathBuf>, JournalError> {
        let limit = self
            .pins
            .lowest()
            .map_or(position, |after| position.min(after.next()));
        let keep_from = self
            .segments
            .partition_point(|one| one.first <= limit)
            .saturating_sub(1);
        let mut removed = Vec::new();
        for segment in self.segments.drain(..keep_from) {
            for extension in ["torn", "damaged"] {
                let beside = segment.path.with_extension(extension);
                match fs::remove_file(&beside) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(JournalError::io("remove", &beside)(error));
                    }
                    _ => {}
                }
            }
            fs::remove_file(&segment.path).map_err(JournalError::io("remove", &segment.path))?;
            removed.push(segment.path);
        }
        if !removed.is_empty() {
            segment::sync_dir(&self.dir)?;
        }
        Ok(removed)
    }

    /// Position of the oldest record that is kept, if there is one.
    #[must_use]
    pub fn first_kept(&self) -> Position {
        self.segments
            .first()
            .map_or(self.appended.next(), |segment| segment.first)
    }

    /// Number of segment files.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    #[cfg(test)]
    pub(crate) fn set_file(&mut self, file: Box<dyn LogFile>) {
        self.file = file;
    }
}

#[cfg(test)]
mod tests;
