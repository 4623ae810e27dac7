//! One record of the journal as bytes: a header of 24 bytes, then the payload. Little endian.
//!
//! ```text
//! 0   length       u32   bytes of the payload
//! 4   crc32        u32   CRC-32 (IEEE) of the segment's salt, bytes 0..4, 8..24 and the payload
//! 8   position     u64
//! 16  batch index  u32   0 for the first record of a batch
//! 20  batch length u32   records in the batch
//! ```
//!
//! Pure: bytes in, bytes out. The batch fields let recovery tell an unfinished last write (nobody was told) from damage to
//! records that had been confirmed, and let it drop an unfinished batch as a whole. The salt is a random number of the
//! segment: payloads hold what users send, and without it a user could send bytes that look like a record of ours to a search
//! behind damage.

use super::Position;

/// Bytes before the payload.
pub(crate) const RECORD_HEADER_BYTES: usize = 24;

/// Largest payload, in bytes: far above a job script with its environment, far below what would exhaust memory.
pub(crate) const RECORD_BYTES_MAX: usize = 256 << 20;

/// A record that was found whole, as a view of the bytes it was found in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordView {
    pub position: Position,
    pub batch_index: u32,
    pub batch_length: u32,
    /// Offset of the header.
    pub start: usize,
    /// Offset after the payload.
    pub end: usize,
}

impl RecordView {
    pub(crate) fn batch_first(&self) -> Position {
        Position(self.position.0.saturating_sub(u64::from(self.batch_index)))
    }

    pub(crate) fn is_last_of_batch(&self) -> bool {
        self.batch_index.checked_add(1) == Some(self.batch_length)
    }

    pub(crate) fn payload<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start + RECORD_HEADER_BYTES..self.end]
    }
}

/// The fields of a header whose checksum has not been looked at yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawHeader {
    pub length: usize,
    pub crc: u32,
    pub position: Position,
    pub batch_index: u32,
    pub batch_length: u32,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Reads a header; `None` when the bytes are too few or cannot be a header.
pub(crate) fn parse_header(bytes: &[u8]) -> Option<RawHeader> {
    let header = RawHeader {
        length: usize::try_from(u32_at(bytes, 0)?).ok()?,
        crc: u32_at(bytes, 4)?,
        position: Position(u64_at(bytes, 8)?),
        batch_index: u32_at(bytes, 16)?,
        batch_length: u32_at(bytes, 20)?,
    };
    let plausible = header.length <= RECORD_BYTES_MAX
        && header.position > Position::ZERO
        && header.batch_index < header.batch_length;
    plausible.then_some(header)
}

/// The checksum that belongs to a header (its bytes) and a payload.
pub(crate) fn checksum(salt: u32, header: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(&header[0..4]);
    hasher.update(&header[8..RECORD_HEADER_BYTES]);
    hasher.update(payload);
    hasher.finalize()
}

/// The record at `at`, if a whole and undamaged one begins there.
pub(crate) fn parse_at(bytes: &[u8], at: usize, salt: u32) -> Option<RecordView> {
    let rest = bytes.get(at..)?;
    let header = parse_header(rest)?;
    let payload = rest.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + header.length)?;
    (checksum(salt, rest, payload) == header.crc).then_some(RecordView {
        position: header.position,
        batch_index: header.batch_index,
        batch_length: header.batch_length,
        start: at,
        end: at + RECORD_HEADER_BYTES + header.length,
    })
}

/// How far ahead of the expected position the next readable record may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// By as many records as fit into the bytes that were skipped: the rule inside an unbroken segment.
    BySkippedBytes,
    /// By any number: the segment is marked as having jumps.
    Any,
}

/// The first whole record at or after `from` whose position is at least `at_least`: how reading goes on behind damage.
pub(crate) fn find_next(
    bytes: &[u8],
    from: usize,
    at_least: Position,
    ahead: Ahead,
    salt: u32,
) -> Option<RecordView> {
    // The bound rejects nearly every offset before a checksum is computed.
    (from..bytes.len().saturating_sub(RECORD_HEADER_BYTES - 1)).find_map(|at| {
        let header = parse_header(&bytes[at..])?;
        let distance = header.position.0.checked_sub(at_least.0)?;
        let distance_max = match ahead {
            Ahead::BySkippedBytes => ((at - from) / RECORD_HEADER_BYTES) as u64 + 1,
            Ahead::Any => u64::MAX,
        };
        (distance <= distance_max)
            .then(|| parse_at(bytes, at, salt))
            .flatten()
    })
}

/// Appends a record whose batch fields and checksum are filled in later by [`seal`].
pub(crate) fn push(buffer: &mut Vec<u8>, position: Position, payload: &[u8]) {
    // The caller has checked the length against `RECORD_BYTES_MAX`.
    buffer.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    buffer.extend_from_slice(&[0; 4]);
    buffer.extend_from_slice(&position.0.to_le_bytes());
    buffer.extend_from_slice(&[0; 8]);
    buffer.extend_from_slice(payload);
}

/// Completes the one record that [`push`] put into `record`.
pub(crate) fn seal(record: &mut [u8], batch_index: u32, batch_length: u32, salt: u32) {
    record[16..20].copy_from_slice(&batch_index.to_le_bytes());
    record[20..24].copy_from_slice(&batch_length.to_le_bytes());
    let (header, payload) = record.split_at(RECORD_HEADER_BYTES);
    let crc = checksum(salt, header, payload);
    record[4..8].copy_from_slice(&crc.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: u32 = 77;

    fn record(position: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        push(&mut bytes, Position(position), payload);
        seal(&mut bytes, 0, 1, SALT);
        bytes
    }

    #[test]
    fn a_record_is_laid_out_as_documented() {
        let bytes = record(7, b"abc");
        assert_eq!(bytes.len(), 27);
        assert_eq!(&bytes[0..4], &[3, 0, 0, 0]);
        assert_eq!(
            &bytes[8..24],
            &[7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
        );
        let view = parse_at(&bytes, 0, SALT).expect("whole record");
        assert_eq!(
            (view.position, view.payload(&bytes)),
            (Position(7), b"abc".as_slice())
        );
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let bytes = record(7, b"abc");
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                assert_eq!(parse_at(&bad, 0, SALT), None, "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn zeros_are_not_a_record() {
        assert_eq!(parse_at(&[0; 64], 0, SALT), None);
        assert_eq!(find_next(&[0; 64], 0, Position(1), Ahead::Any, 0), None);
    }

    #[test]
    fn the_next_record_is_found_behind_rubbish() {
        let mut bytes = vec![0xAA; 50];
        bytes.extend(record(9, b"later"));
        let view = find_next(&bytes, 0, Position(8), Ahead::BySkippedBytes, SALT).expect("found");
        assert_eq!((view.start, view.position), (50, Position(9)));
        let find = |at_least, ahead, salt| find_next(&bytes, 0, Position(at_least), ahead, salt);
        assert_eq!(
            find(10, Ahead::Any, SALT),
            None,
            "older records are not taken"
        );
        // 50 skipped bytes hold at most two records, so position 9 may not follow where 6 was expected, unless jumps are marked
        assert!(find(6, Ahead::BySkippedBytes, SALT).is_some());
        assert_eq!(find(5, Ahead::BySkippedBytes, SALT), None);
        assert!(find(5, Ahead::Any, SALT).is_some());
        assert_eq!(
            find(8, Ahead::Any, SALT + 1),
            None,
            "bytes that know not the salt are no record"
        );
    }

    proptest::proptest! {
        #[test]
        fn any_payload_round_trips(position in 1u64.., payload: Vec<u8>) {
            let bytes = record(position, &payload);
            let view = parse_at(&bytes, 0, SALT).expect("whole record");
            proptest::prop_assert_eq!(view.position, Position(position));
            proptest::prop_assert_eq!(view.payload(&bytes), payload.as_slice());
        }
    }
}
