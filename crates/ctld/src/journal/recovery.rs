//! Looking through the segments at start: cuts an unfinished last batch off, refuses or skips damage inside.
//!
//! What is told apart, and why it may be: every batch is one write followed by one fsync, and the next batch is written only
//! after that fsync. So whatever is broken in the newest batch was never confirmed to anybody, and is cut off. Whatever is
//! broken before it had been confirmed: that is damage, and it is never dropped without the administrator's word (`-i`).
//! When records are skipped, the damaged file is kept beside the new one (`.damaged`); cut bytes are kept too (`.torn`).

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::record::{self, Ahead, RecordView};
use super::segment::{self, HeaderFault, SEGMENT_HEADER_BYTES, SegmentFile, SegmentHeader};
use super::{JOURNAL_FORMAT, JournalError, Position};

/// What to do about records that had been confirmed and cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDamage {
    /// Say where and stop: the default.
    #[default]
    Refuse,
    /// Go on with the next readable record, and report what was lost (`ctld -i`).
    Skip,
}

/// One place where confirmed records are unreadable or missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The segment file.
    pub file: PathBuf,
    /// Where the unreadable bytes begin.
    pub offset: u64,
    /// How many bytes were passed over.
    pub bytes: u64,
    /// First and last position that is lost, as far as it is known.
    pub lost: (Position, Option<Position>),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at offset {}: {} unreadable bytes, lost ",
            self.file.display(),
            self.offset,
            self.bytes
        )?;
        match self.lost {
            (from, Some(to)) if from == to => write!(f, "position {from}"),
            (from, Some(to)) => write!(f, "positions {from} to {to}"),
            (from, None) => write!(f, "positions from {from} on"),
        }
    }
}

/// The unfinished last write that a crash left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The segment file.
    pub file: PathBuf,
    /// The file's new length.
    pub offset: u64,
    /// How many bytes were cut off.
    pub bytes: u64,
    /// Where they were put.
    pub kept_as: PathBuf,
}

/// What was found when the journal was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecoveryReport {
    /// Segment files that are in use.
    pub segments: usize,
    /// Readable records.
    pub records: u64,
    /// Oldest record, if there is one.
    pub first: Option<Position>,
    /// Newest record; zero when there is none.
    pub last: Position,
    /// The unfinished write that was cut off.
    pub torn: Option<TornTail>,
    /// What was skipped because of [`OnDamage::Skip`].
    pub skipped: Vec<Damage>,
    /// Checkpoints that were passed over, and why.
    pub checkpoint_faults: Vec<String>,
}

impl RecoveryReport {
    /// Sentences for the log, one for each thing that an administrator should know.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let torn = self.torn.iter().map(|torn| {
            format!(
                "journal {}: cut {} bytes of an unfinished write off at offset {} (nobody had been told of it; kept as {})",
                torn.file.display(),
                torn.bytes,
                torn.offset,
                torn.kept_as.display()
            )
        });
        let skipped = self
            .skipped
            .iter()
            .map(|damage| format!("journal: skipped damage in {damage}"));
        torn.chain(skipped)
            .chain(self.checkpoint_faults.iter().cloned())
            .collect()
    }
}

/// One segment after it was read.
struct Scanned {
    file: SegmentFile,
    header: SegmentHeader,
    bytes: Vec<u8>,
    records: Vec<RecordView>,
    holes: Vec<Hole>,
}

#[derive(Debug, Clone, Copy)]
struct Hole {
    start: usize,
    end: usize,
    expected: Position,
    /// Position behind the hole.
    next: Option<Position>,
}

/// Result of [`recover`].
pub(crate) struct Recovered {
    pub segments: Vec<SegmentFile>,
    /// Header of the newest segment, when it may be appended to.
    pub open_header: Option<SegmentHeader>,
    pub report: RecoveryReport,
}

/// A segment as [`look`] found it.
pub(crate) struct Looked<'a> {
    pub bytes: Vec<u8>,
    pub records: Vec<RecordView>,
    /// Its damage. Where the last one ends may become known only later.
    pub damage: &'a [Damage],
}

/// Whether the files may be changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hands {
    Mend(OnDamage),
    /// Everything stays as it is, and damage is reported.
    Off,
}

/// Checks all segments of `dir`, repairs what may be repaired.
///
/// `confirmed` is a position known to have been durable (a checkpoint was made from it): damage up to there is never taken for
/// an unfinished write.
pub(crate) fn recover(
    dir: &Path,
    on_damage: OnDamage,
    confirmed: Position,
) -> Result<Recovered, JournalError> {
    remove_leftovers(dir)?;
    examine(dir, Hands::Mend(on_damage), confirmed, |_| {})
}

/// As [`recover`] with damage skipped, but nothing is changed; `see` gets each segment, oldest first.
pub(crate) fn look(
    dir: &Path,
    confirmed: Position,
    see: impl FnMut(Looked<'_>),
) -> Result<RecoveryReport, JournalError> {
    examine(dir, Hands::Off, confirmed, see).map(|found| found.report)
}

fn examine(
    dir: &Path,
    hands: Hands,
    confirmed: Position,
    mut see: impl FnMut(Looked<'_>),
) -> Result<Recovered, JournalError> {
    let skips = hands != Hands::Mend(OnDamage::Refuse);
    let files = segment::list(dir)?;
    check_formats(&files)?;

    let mut out = Recovered {
        segments: Vec::new(),
        open_header: None,
        report: RecoveryReport::default(),
    };
    let mut damage = Vec::new();
    let mut previous_last: Option<Position> = None;
    let mut may_jump = false;
    let newest = files.len().checked_sub(1);
    for (index, file) in files.into_iter().enumerate() {
        let is_newest = Some(index) == newest;
        let Some(mut scanned) = scan(file, previous_last, is_newest, hands)? else {
            continue; // A segment whose creation was interrupted; it held nothing.
        };
        if is_newest {
            out.report.torn = cut_torn_tail(&mut scanned, confirmed, hands)?;
            forget_unfinished_end(&mut scanned, confirmed);
        }
        if let Some(open_end) = damage
            .last_mut()
            .filter(|one: &&mut Damage| one.lost.1.is_none())
        {
            open_end.lost.1 = Some(scanned.header.first.previous().max(open_end.lost.0));
        }
        // A jump that belongs to damage in the segment before, or that was acknowledged once, is not reported again.
        let jump_allowed = may_jump || scanned.header.gaps;
        let found = damage_of(&scanned, previous_last.filter(|_| !jump_allowed), is_newest);
        may_jump = scanned.header.gaps || !found.is_empty();
        if is_newest && skips {
            drop_unfinished_batch(&mut scanned, confirmed);
        }
        if let Some(last) = scanned.records.last() {
            previous_last = Some(last.position);
        } else if previous_last.is_none() && scanned.header.first > Position::ZERO {
            previous_last = Some(scanned.header.first.previous());
        }
        out.report.records += scanned.records.len() as u64;
        if out.report.first.is_none() {
            out.report.first = scanned.records.first().map(|record| record.position);
        }
        if !found.is_empty() && hands == Hands::Mend(OnDamage::Skip) {
            keep_readable(&scanned)?;
            out.open_header = None; // Never append behind a repair: a new segment begins.
        } else {
            out.open_header = Some(scanned.header);
        }
        let begin = damage.len();
        damage.extend(found);
        out.segments.push(scanned.file);
        see(Looked {
            bytes: scanned.bytes,
            records: scanned.records,
            damage: &damage[begin..],
        });
    }
    if !skips && !damage.is_empty() {
        return Err(JournalError::Damaged(damage));
    }
    out.report.skipped = damage;
    out.report.segments = out.segments.len();
    out.report.last = previous_last.unwrap_or(Position::ZERO);
    Ok(out)
}

/// Files that a crash left half written under a temporary name.
fn remove_leftovers(dir: &Path) -> Result<(), JournalError> {
    for entry in fs::read_dir(dir).map_err(JournalError::io("read the folder", dir))? {
        let path = entry
            .map_err(JournalError::io("read the folder", dir))?
            .path();
        if path.extension().is_some_and(|extension| extension == "tmp") {
            fs::remove_file(&path).map_err(JournalError::io("remove", &path))?;
        }
    }
    Ok(())
}

/// Refuses unknown formats before anything is changed.
fn check_formats(files: &[SegmentFile]) -> Result<(), JournalError> {
    use std::io::Read;
    for file in files {
        let mut header = Vec::with_capacity(SEGMENT_HEADER_BYTES);
        fs::File::open(&file.path)
            .and_then(|opened| {
                opened
                    .take(SEGMENT_HEADER_BYTES as u64)
                    .read_to_end(&mut header)
            })
            .map_err(JournalError::io("read", &file.path))?;
        if let Err(HeaderFault::Format(found)) = SegmentHeader::decode(&header) {
            return Err(JournalError::Version {
                what: "journal",
                path: file.path.clone(),
                found,
                supported: JOURNAL_FORMAT,
            });
        }
    }
    Ok(())
}

/// Reads a segment. `None`: it is the newest one and its header never reached the disk; it is removed.
fn scan(
    file: SegmentFile,
    previous_last: Option<Position>,
    is_newest: bool,
    hands: Hands,
) -> Result<Option<Scanned>, JournalError> {
    let bytes = fs::read(&file.path).map_err(JournalError::io("read", &file.path))?;
    let header = SegmentHeader::decode(&bytes)
        .ok()
        .filter(|header| header.first == file.first);
    let Some(header) = header else {
        // The header is durable before the first record is written. A file that is no longer than it has no records.
        if is_newest && bytes.len() <= SEGMENT_HEADER_BYTES {
            if hands != Hands::Off {
                fs::remove_file(&file.path).map_err(JournalError::io("remove", &file.path))?;
            }
            return Ok(None);
        }
        // Without the header the salt is unknown, so none of its records can be trusted.
        let header = SegmentHeader {
            first: file.first,
            gaps: false,
            salt: 0,
        };
        let hole = Hole {
            start: 0,
            end: bytes.len(),
            expected: file.first,
            next: None,
        };
        return Ok(Some(Scanned {
            file,
            header,
            bytes,
            records: Vec::new(),
            holes: vec![hole],
        }));
    };
    let (records, holes) = scan_records(&bytes, header, previous_last);
    Ok(Some(Scanned {
        file,
        header,
        bytes,
        records,
        holes,
    }))
}

fn scan_records(
    bytes: &[u8],
    header: SegmentHeader,
    previous_last: Option<Position>,
) -> (Vec<RecordView>, Vec<Hole>) {
    let ahead = if header.gaps {
        Ahead::Any
    } else {
        Ahead::BySkippedBytes
    };
    let mut expected = previous_last.map_or(header.first, |last| last.next().max(header.first));
    let mut at = SEGMENT_HEADER_BYTES;
    let mut records = Vec::new();
    let mut holes = Vec::new();
    while at < bytes.len() {
        let in_place = record::parse_at(bytes, at, header.salt)
            .filter(|view| view.position == expected || (header.gaps && view.position > expected));
        let view = in_place.or_else(|| {
            let next = record::find_next(bytes, at + 1, expected, ahead, header.salt);
            let end = next.map_or(bytes.len(), |view| view.start);
            holes.push(Hole {
                start: at,
                end,
                expected,
                next: next.map(|view| view.position),
            });
            next
        });
        let Some(view) = view else { break };
        records.push(view);
        expected = view.position.next();
        at = view.end;
    }
    (records, holes)
}

/// Cuts the newest batch off when it is not whole. Changes `scanned` to what is left.
fn cut_torn_tail(
    scanned: &mut Scanned,
    confirmed: Position,
    hands: Hands,
) -> Result<Option<TornTail>, JournalError> {
    let first_hole = scanned.holes.first().copied();
    // Index of the first record that no longer counts, and where the cut would be, going by holes or by an incomplete batch.
    let whole_until = first_hole.map_or(scanned.bytes.len(), |hole| hole.start);
    let before = scanned
        .records
        .iter()
        .take_while(|view| view.start < whole_until)
        .count();
    let open_batch = scanned.records[..before]
        .last()
        .filter(|view| !view.is_last_of_batch())
        .map(RecordView::batch_first);
    let cut_position = match (open_batch, first_hole) {
        (Some(batch), _) => batch,
        (None, Some(hole)) => hole.expected,
        (None, None) => return Ok(None),
    };
    // A later record of a later batch proves that the broken one had been confirmed.
    let proof = scanned.records[before..]
        .iter()
        .any(|view| view.batch_first() > cut_position);
    if proof
        || cut_position <= confirmed
        || scanned.records.is_empty() && first_hole.is_some_and(|hole| hole.start == 0)
    {
        return Ok(None);
    }
    let kept = scanned
        .records
        .iter()
        .take_while(|view| view.position < cut_position)
        .count();
    let cut_at = scanned.records[..kept]
        .last()
        .map_or(SEGMENT_HEADER_BYTES, |view| view.end);
    let torn = TornTail {
        file: scanned.file.path.clone(),
        offset: cut_at as u64,
        bytes: (scanned.bytes.len() - cut_at) as u64,
        kept_as: scanned.file.path.with_extension("torn"),
    };
    if hands != Hands::Off {
        segment::write_whole(&torn.kept_as, &[&scanned.bytes[cut_at..]])?;
        fs::OpenOptions::new()
            .write(true)
            .open(&torn.file)
            .and_then(|file| file.set_len(torn.offset).and_then(|()| file.sync_all()))
            .map_err(JournalError::io("shorten", &torn.file))?;
    }
    scanned.bytes.truncate(cut_at);
    scanned.records.truncate(kept);
    scanned.holes.clear();
    Ok(Some(torn))
}

/// With damage before it an unfinished write at the end is not cut off here; it is no damage all the same.
fn forget_unfinished_end(scanned: &mut Scanned, confirmed: Position) {
    let is_end = |hole: &Hole| hole.next.is_none() && hole.expected > confirmed;
    if scanned.holes.len() > 1 && scanned.holes.last().is_some_and(is_end) {
        scanned.holes.pop();
    }
}

/// With damage before it the unfinished last batch was not cut off; its first records do not count either.
fn drop_unfinished_batch(scanned: &mut Scanned, confirmed: Position) {
    let open = scanned
        .records
        .last()
        .filter(|view| !view.is_last_of_batch());
    if let Some(batch) = open
        .map(RecordView::batch_first)
        .filter(|batch| *batch > confirmed)
    {
        scanned.records.retain(|view| view.position < batch);
    }
}

/// The confirmed records that this segment should hold and does not.
///
/// `previous_last` is the position that must come right before this segment, where one must.
fn damage_of(scanned: &Scanned, previous_last: Option<Position>, is_newest: bool) -> Vec<Damage> {
    let mut damage = Vec::new();
    let path = &scanned.file.path;
    let missing_before = previous_last.filter(|last| last.next() < scanned.header.first);
    if let Some(last) = missing_before {
        let lost = (last.next(), Some(scanned.header.first.previous()));
        damage.push(Damage {
            file: path.clone(),
            offset: 0,
            bytes: 0,
            lost,
        });
    }
    damage.extend(scanned.holes.iter().map(|hole| Damage {
        file: path.clone(),
        offset: hole.start as u64,
        bytes: (hole.end - hole.start) as u64,
        lost: (
            hole.expected,
            hole.next.map(|next| next.previous().max(hole.expected)),
        ),
    }));
    // A sealed segment ends with a whole batch; one that was cut short at a record's edge shows no hole.
    let cut_short = scanned
        .records
        .last()
        .filter(|view| !view.is_last_of_batch());
    if let Some(last) = cut_short.filter(|_| scanned.holes.is_empty() && !is_newest) {
        let lost = (last.position.next(), None);
        damage.push(Damage {
            file: path.clone(),
            offset: last.end as u64,
            bytes: 0,
            lost,
        });
    }
    damage
}

/// Writes the readable records of a damaged segment to a new file of the same name, marked as having jumps.
fn keep_readable(scanned: &Scanned) -> Result<(), JournalError> {
    let kept = scanned.file.path.with_extension("damaged");
    fs::copy(&scanned.file.path, &kept)
        .map_err(JournalError::io("copy the damaged file to", &kept))?;
    let header = SegmentHeader::new(scanned.file.first, true);
    let mut body = Vec::with_capacity(scanned.bytes.len());
    for view in &scanned.records {
        let start = body.len();
        record::push(&mut body, view.position, view.payload(&scanned.bytes));
        // Each record stands for itself now: parts of its batch may be gone.
        record::seal(&mut body[start..], 0, 1, header.salt);
    }
    segment::write_whole(&scanned.file.path, &[&header.encode(), &body])
}
