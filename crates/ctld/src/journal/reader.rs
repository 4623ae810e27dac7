//! Reading the journal in order, also while it grows: replay at start, and the accounting feed.
//!
//! A reader sees only what is durable. It owns its file handles and shares nothing with the writer but the durable position,
//! so that a slow reader never holds the writer up.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use tokio::sync::watch;

use super::record::{self, RECORD_HEADER_BYTES};
use super::segment::{self, HeaderFault, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::{Damage, JOURNAL_FORMAT, JournalError, Position};

/// One record: its position and what was appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Number of the record.
    pub position: Position,
    /// The bytes given to `append`.
    pub payload: Vec<u8>,
}

/// Reads records in order and can go on when more have become durable.
#[derive(Debug)]
pub struct JournalReader {
    dir: PathBuf,
    durable: watch::Receiver<Position>,
    /// Position of the last record that was returned.
    done: Position,
    /// What was read ahead is durable up to here. Bytes behind it may be those of a write that failed and was cut off again.
    trusted: Position,
    open: Option<OpenSegment>,
}

#[derive(Debug)]
struct OpenSegment {
    path: PathBuf,
    header: SegmentHeader,
    file: BufReader<File>,
    offset: u64,
}

impl JournalReader {
    pub(crate) fn new(
        dir: &Path,
        durable: watch::Receiver<Position>,
        after: Position,
    ) -> JournalReader {
        JournalReader {
            dir: dir.to_owned(),
            durable,
            done: after,
            trusted: Position::ZERO,
            open: None,
        }
    }

    /// Position of the last record that was returned (or where reading began).
    #[must_use]
    pub fn position(&self) -> Position {
        self.done
    }

    /// A channel that changes when more records have become durable.
    #[must_use]
    pub fn durable_watch(&self) -> watch::Receiver<Position> {
        self.durable.clone()
    }

    /// The next durable record, or `None` when there is none yet.
    ///
    /// # Errors
    /// [`JournalError::Pruned`] when the record was already removed; `Damaged` when it cannot be read.
    pub fn next_record(&mut self) -> Result<Option<Record>, JournalError> {
        let durable = *self.durable.borrow();
        if self.trusted <= self.done && self.done < durable {
            self.trusted = durable;
            if let Some(open) = &mut self.open {
                open.read_anew()?;
            }
        }
        let durable = self.trusted.min(durable);
        while self.done < durable {
            let open = match self.open.take() {
                Some(open) => self.open.insert(open),
                None => {
                    let found = self.find_segment()?;
                    self.open.insert(found)
                }
            };
            if let Some(record) = open.read_one()? {
                // Records before the place where reading began are passed over.
                if record.position > self.done {
                    self.done = record.position;
                    return Ok(Some(record));
                }
                continue;
            }
            // The end of this segment: whatever else is durable lies in later ones.
            let here = open.header.first;
            match segment::list(&self.dir)?
                .into_iter()
                .find(|file| file.first > here)
            {
                Some(file) => self.open = Some(OpenSegment::open(&file.path)?),
                None => self.done = durable, // A jump at the end: no record stands behind these positions.
            }
        }
        Ok(None)
    }

    /// Opens the segment that holds the first record after `done`.
    fn find_segment(&self) -> Result<OpenSegment, JournalError> {
        let wanted = self.done.next();
        let segments = segment::list(&self.dir)?;
        let before = segments.partition_point(|one| one.first <= wanted);
        if let Some(file) = before.checked_sub(1).and_then(|index| segments.get(index)) {
            return OpenSegment::open(&file.path);
        }
        match segments.first() {
            Some(file) => {
                let open = OpenSegment::open(&file.path)?;
                // Where the journal begins with an acknowledged jump there is nothing to be missed.
                if open.header.gaps {
                    Ok(open)
                } else {
                    Err(JournalError::Pruned {
                        wanted,
                        first: file.first,
                    })
                }
            }
            None => Err(JournalError::Pruned {
                wanted,
                first: self.durable.borrow().next(),
            }),
        }
    }
}

impl OpenSegment {
    fn open(path: &Path) -> Result<OpenSegment, JournalError> {
        let mut file = BufReader::with_capacity(
            1 << 18,
            File::open(path).map_err(JournalError::io("open", path))?,
        );
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        file.read_exact(&mut bytes)
            .map_err(JournalError::io("read the header of", path))?;
        let header = SegmentHeader::decode(&bytes).map_err(|fault| match fault {
            HeaderFault::Format(found) => JournalError::Version {
                what: "journal",
                path: path.to_owned(),
                found,
                supported: JOURNAL_FORMAT,
            },
            HeaderFault::Unreadable => JournalError::Damaged(vec![Damage {
                file: path.to_owned(),
                offset: 0,
                bytes: SEGMENT_HEADER_BYTES as u64,
                lost: (Position::ZERO, None),
            }]),
        })?;
        Ok(OpenSegment {
            path: path.to_owned(),
            header,
            file,
            offset: SEGMENT_HEADER_BYTES as u64,
        })
    }

    /// Throws away what was read ahead.
    fn read_anew(&mut self) -> Result<(), JournalError> {
        self.file
            .seek(SeekFrom::Start(self.offset))
            .map(drop)
            .map_err(JournalError::io("read", &self.path))
    }

    /// The record at the current offset; `None` at the end of the file.
    fn read_one(&mut self) -> Result<Option<Record>, JournalError> {
        let mut head = [0; RECORD_HEADER_BYTES];
        if !self.fill(&mut head)? {
            return Ok(None);
        }
        let Some(raw) = record::parse_header(&head) else {
            return Err(self.damaged(RECORD_HEADER_BYTES, Position::ZERO));
        };
        let mut payload = vec![0; raw.length];
        if !self.fill(&mut payload)?
            || record::checksum(self.header.salt, &head, &payload) != raw.crc
        {
            return Err(self.damaged(RECORD_HEADER_BYTES + raw.length, raw.position));
        }
        self.offset += (RECORD_HEADER_BYTES + raw.length) as u64;
        Ok(Some(Record {
            position: raw.position,
            payload,
        }))
    }

    /// Fills `into` and says so; `false` when the file ends before (then the file position is put back).
    fn fill(&mut self, into: &mut [u8]) -> Result<bool, JournalError> {
        match self.file.read_exact(into) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                self.file
                    .seek(SeekFrom::Start(self.offset))
                    .map_err(JournalError::io("read", &self.path))?;
                Ok(false)
            }
            Err(error) => Err(JournalError::io("read", &self.path)(error)),
        }
    }

    fn damaged(&self, bytes: usize, position: Position) -> JournalError {
        JournalError::Damaged(vec![Damage {
            file: self.path.clone(),
            offset: self.offset,
            bytes: bytes as u64,
            lost: (position, None),
        }])
    }
}
