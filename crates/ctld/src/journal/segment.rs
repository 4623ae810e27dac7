//! A segment file: its name, its header, how one is created so that a crash leaves nothing half made.
//!
//! Name: the first position in 20 decimal digits, `.seg`; names sort as positions do. Header, 32 bytes, little endian:
//!
//! ```text
//! 0   magic           8 bytes  "SLUICEJL"
//! 8   format          u32      JOURNAL_FORMAT
//! 12  flags           u32      bit 0: positions may jump here (damage was skipped, or a checkpoint stands in)
//! 16  first position  u64
//! 24  salt            u32      random, part of every record's checksum
//! 28  crc32           u32      of bytes 0..28
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::{JournalError, Position};

/// Format number of the segments that this release writes, and the newest that it reads.
pub const JOURNAL_FORMAT: u32 = 1;

/// Bytes before the first record.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 32;

const MAGIC: &[u8; 8] = b"SLUICEJL";
const FLAG_GAPS: u32 = 1;

/// Where the journal writes: a file, or in tests something that fails on purpose.
pub trait LogFile: Send {
    /// Appends all bytes.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Returns once everything written is on the disk.
    fn sync_data(&mut self) -> io::Result<()>;
    /// Cuts the file to this many bytes, durably.
    fn cut(&mut self, bytes: u64) -> io::Result<()>;
}

impl LogFile for File {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        Write::write_all(self, bytes)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)?;
        self.sync_all()
    }
}

/// What a segment says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub first: Position,
    /// Positions may jump inside this segment and before it.
    pub gaps: bool,
    /// Part of every record's checksum.
    pub salt: u32,
}

/// Why a header was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    /// Too short, wrong magic or wrong checksum.
    Unreadable,
    /// Whole, but of a format we do not know.
    Format(u32),
}

impl SegmentHeader {
    /// The header of a new segment, with a salt of its own.
    pub(crate) fn new(first: Position, gaps: bool) -> SegmentHeader {
        SegmentHeader {
            first,
            gaps,
            salt: rand::random(),
        }
    }

    pub(crate) fn encode(self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[0..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&JOURNAL_FORMAT.to_le_bytes());
        let flags = if self.gaps { FLAG_GAPS } else { 0 };
        bytes[12..16].copy_from_slice(&flags.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first.0.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.salt.to_le_bytes());
        let crc = crc32fast::hash(&bytes[0..28]);
        bytes[28..32].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<SegmentHeader, HeaderFault> {
        let header: &[u8; SEGMENT_HEADER_BYTES] = bytes
            .get(..SEGMENT_HEADER_BYTES)
            .and_then(|b| b.try_into().ok())
            .ok_or(HeaderFault::Unreadable)?;
        let u32_at = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        if &header[0..8] != MAGIC || u32_at(28) != crc32fast::hash(&header[0..28]) {
            return Err(HeaderFault::Unreadable);
        }
        // Format 0 never existed; every later one keeps magic, format and checksum where they are.
        let format = u32_at(8);
        if format != JOURNAL_FORMAT {
            return Err(HeaderFault::Format(format));
        }
        let first = u64::from(u32_at(16)) | (u64::from(u32_at(20)) << 32);
        Ok(SegmentHeader {
            first: Position(first),
            gaps: u32_at(12) & FLAG_GAPS != 0,
            salt: u32_at(24),
        })
    }
}

/// A segment as the folder lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentFile {
    pub first: Position,
    pub path: PathBuf,
}

/// Path of the segment that begins at `first`.
pub(crate) fn segment_path(dir: &Path, first: Position) -> PathBuf {
    dir.join(format!("{:020}.seg", first.0))
}

/// All segments of a folder, oldest first.
pub(crate) fn list(dir: &Path) -> Result<Vec<SegmentFile>, JournalError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(JournalError::io("read the folder", dir))? {
        let path = entry
            .map_err(JournalError::io("read the folder", dir))?
            .path();
        let number = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_suffix(".seg"))
            .filter(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|digits| digits.parse::<u64>().ok());
        if let Some(first) = number {
            found.push(SegmentFile {
                first: Position(first),
                path,
            });
        }
    }
    found.sort_by_key(|segment| segment.first);
    Ok(found)
}

/// Makes the entries of a folder durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), JournalError> {
    File::open(dir)
        .and_then(|folder| folder.sync_all())
        .map_err(JournalError::io("flush the folder", dir))
}

/// Writes a whole file durably under its final name, or leaves nothing under that name.
pub(crate) fn write_whole(path: &Path, parts: &[&[u8]]) -> Result<(), JournalError> {
    let temporary = path.with_extension("tmp");
    let written = write_and_rename(&temporary, path, parts);
    if written.is_err() {
        // On a full disk the half of a checkpoint would keep the space that the journal waits for.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn write_and_rename(temporary: &Path, path: &Path, parts: &[&[u8]]) -> Result<(), JournalError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(temporary)
        .map_err(JournalError::io("create", temporary))?;
    for part in parts {
        Write::write_all(&mut file, part).map_err(JournalError::io("write", temporary))?;
    }
    file.sync_all()
        .map_err(JournalError::io("flush", temporary))?;
    fs::rename(temporary, path).map_err(JournalError::io("rename into place", path))?;
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Creates a segment (durably, with its header) and opens it for appending.
pub(crate) fn create(
    dir: &Path,
    header: SegmentHeader,
) -> Result<(SegmentFile, File), JournalError> {
    let path = segment_path(dir, header.first);
    write_whole(&path, &[&header.encode()])?;
    let file = open_append(&path)?;
    Ok((
        SegmentFile {
            first: header.first,
            path,
        },
        file,
    ))
}

/// Opens an existing segment for appending.
pub(crate) fn open_append(path: &Path) -> Result<File, JournalError> {
    OpenOptions::new()
        .append(true)
        .open(path)
        .map_err(JournalError::io("open", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trips_and_notices_flips() {
        let header = SegmentHeader {
            first: Position(u64::MAX - 3),
            gaps: true,
            salt: 5,
        };
        let bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
        for at in 0..bytes.len() {
            let mut bad = bytes;
            bad[at] ^= 0x10;
            assert_eq!(
                SegmentHeader::decode(&bad),
                Err(HeaderFault::Unreadable),
                "byte {at}"
            );
        }
        assert_eq!(
            SegmentHeader::decode(&bytes[..31]),
            Err(HeaderFault::Unreadable)
        );
    }

    #[test]
    fn a_newer_format_is_told_apart_from_rubbish() {
        let mut bytes = SegmentHeader {
            first: Position(1),
            gaps: false,
            salt: 5,
        }
        .encode();
        bytes[8..12].copy_from_slice(&9u32.to_le_bytes());
        let crc = crc32fast::hash(&bytes[0..28]);
        bytes[28..32].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&bytes), Err(HeaderFault::Format(9)));
    }

    #[test]
    fn only_segments_are_listed_in_order() {
        let dir = tempfile::tempdir().expect("folder");
        for name in [
            "00000000000000000010.seg",
            "00000000000000000002.seg",
            "x.seg",
            "3.tmp",
            ".seg",
        ] {
            fs::write(dir.path().join(name), b"").expect("file");
        }
        let firsts: Vec<u64> = list(dir.path())
            .expect("list")
            .iter()
            .map(|s| s.first.0)
            .collect();
        assert_eq!(firsts, [2, 10]);
    }
}
