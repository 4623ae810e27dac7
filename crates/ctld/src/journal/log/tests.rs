//! Tests of the journal on real files: torn tails, damage, rotation, following, pruning, failing disks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn options() -> JournalOptions {
    JournalOptions::default()
}

fn open(dir: &Path) -> (Journal, RecoveryReport) {
    Journal::open(dir, &options()).expect("open the journal")
}

fn write(journal: &mut Journal, batch: &[&str]) -> Position {
    journal.append(batch).expect("append");
    journal.sync().expect("sync")
}

/// Everything behind `after`, as `position:payload`.
fn contents(journal: &Journal, after: u64) -> Vec<String> {
    drain(&mut journal.reader_after(Position(after)))
}

fn drain(reader: &mut JournalReader) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(record) = reader.next_record().expect("read") {
        found.push(format!(
            "{}:{}",
            record.position,
            String::from_utf8_lossy(&record.payload)
        ));
    }
    found
}

fn segment_names(dir: &Path) -> Vec<u64> {
    segment::list(dir)
        .expect("list")
        .iter()
        .map(|one| one.first.0)
        .collect()
}

#[test]
fn what_was_synced_is_there_after_reopening() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, report) = open(dir.path());
    assert_eq!((report.last, report.first), (Position::ZERO, None));
    assert_eq!(write(&mut journal, &["a", "b"]), Position(2));
    assert_eq!(
        journal.append(&["never synced"]).expect("append"),
        Position(3)
    );
    assert_eq!(journal.durable(), Position(2));
    drop(journal);
    let (mut journal, report) = open(dir.path());
    assert_eq!(
        (report.last, report.records, report.first),
        (Position(2), 2, Some(Position(1)))
    );
    assert_eq!(write(&mut journal, &["c"]), Position(3));
    assert_eq!(contents(&journal, 0), ["1:a", "2:b", "3:c"]);
    assert_eq!(contents(&journal, 2), ["3:c"]);
    assert_eq!(segment_names(dir.path()), [1]);
}

#[test]
fn a_torn_tail_is_cut_at_every_length_of_the_last_record() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, _) = open(dir.path());
    write(&mut journal, &["first"]);
    let path = journal.current_path();
    let kept = fs::metadata(&path).expect("size").len();
    write(&mut journal, &["the last record"]);
    drop(journal);
    let whole = fs::read(&path).expect("read");
    for length in kept..whole.len() as u64 {
        fs::write(&path, &whole[..length as usize]).expect("tear");
        let (mut journal, report) = open(dir.path());
        assert_eq!(report.last, Position(1), "length {length}");
        assert_eq!(
            report.torn.as_ref().map(|torn| (torn.offset, torn.bytes)),
            (length > kept).then_some((kept, length - kept))
        );
        assert_eq!(fs::metadata(&path).expect("size").len(), kept);
        write(&mut journal, &["again"]);
        assert_eq!(contents(&journal, 0), ["1:first", "2:again"]);
    }
    // Bytes of a longer file that never got their content.
    let mut zeros = whole[..kept as usize].to_vec();
    zeros.resize(kept as usize + 4096, 0);
    fs::write(&path, zeros).expect("tear");
    let (_, report) = open(dir.path());
    assert_eq!(report.torn.as_ref().map(|torn| torn.bytes), Some(4096));
    assert!(
        report.warnings()[0].contains("cut 4096 bytes"),
        "{:?}",
        report.warnings()
    );
}

#[test]
fn an_unfinished_batch_is_dropped_as_a_whole() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, _) = open(dir.path());
    write(&mut journal, &["kept"]);
    let path = journal.current_path();
    let kept = fs::metadata(&path).expect("size").len() as usize;
    write(&mut journal, &["one", "two", "three"]);
    drop(journal);
    let whole = fs::read(&path).expect("read");
    for length in kept + 1..whole.len() {
        fs::write(&path, &whole[..length]).expect("tear");
        let (_, report) = open(dir.path());
        assert_eq!(report.last, Position(1), "length {length}");
    }
    // Pages may reach the disk in any order: a hole in the batch with good records behind it.
    for at in kept..whole.len() {
        let mut holed = whole.clone();
        holed[at] ^= 0xFF;
        fs::write(&path, &holed).expect("tear");
        let (_, report) = open(dir.path());
        assert_eq!(
            (report.last, report.torn.is_some()),
            (Position(1), true),
            "byte {at}"
        );
    }
    assert_eq!(
        fs::read(path.with_extension("torn")).expect("kept").len(),
        whole.len() - kept
    );
}

#[test]
fn damage_inside_is_refused_with_file_and_offset_and_skipped_on_request() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, _) = open(dir.path());
    write(&mut journal, &["first"]);
    let path = journal.current_path();
    let start = fs::metadata(&path).expect("size").len() as usize;
    write(&mut journal, &["second"]);
    let end = fs::metadata(&path).expect("size").len() as usize;
    write(&mut journal, &["third"]);
    drop(journal);
    let whole = fs::read(&path).expect("read");
    for at in start..end {
        let mut bad = whole.clone();
        bad[at] ^= 0x04;
        fs::write(&path, &bad).expect("damage");
        let refused = Journal::open(dir.path(), &options())
            .expect_err("damage")
            .to_string();
        assert!(
            refused.contains(&format!(
                "{} at offset {start}: {} unreadable bytes, lost position 2",
                path.display(),
                end - start
            )),
            "{refused}"
        );
        assert!(refused.contains("with -i"), "{refused}");
        assert_eq!(
            fs::read(&path).expect("read"),
            bad,
            "a refusal changes nothing"
        );
    }
    let skip = JournalOptions {
        on_damage: OnDamage::Skip,
        ..options()
    };
    let (mut journal, report) = Journal::open(dir.path(), &skip).expect("skip");
    assert_eq!(report.skipped.len(), 1);
    assert_eq!(report.skipped[0].lost, (Position(2), Some(Position(2))));
    write(&mut journal, &["fourth"]);
    assert_eq!(contents(&journal, 0), ["1:first", "3:third", "4:fourth"]);
    assert!(path.with_extension("damaged").exists());
    drop(journal);
    let (journal, report) = open(dir.path());
    assert!(report.skipped.is_empty(), "mended for good");
    assert_eq!(contents(&journal, 1), ["3:third", "4:fourth"]);
}

#[test]
fn skipping_damage_does_not_bring_half_a_batch_to_life() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, _) = open(dir.path());
    write(&mut journal, &["a"]);
    let path = journal.current_path();
    let at = fs::metadata(&path).expect("size").len() as usize;
    write(&mut journal, &["b"]);
    write(&mut journal, &["c"]);
    write(&mut journal, &["half", "of it"]);
    drop(journal);
    let mut bytes = fs::read(&path).expect("read");
    bytes[at] ^= 1;
    bytes.truncate(bytes.len() - 1);
    fs::write(&path, bytes).expect("damage");
    let skip = JournalOptions {
        on_damage: OnDamage::Skip,
        ..options()
    };
    let (mut journal, report) = Journal::open(dir.path(), &skip).expect("skip");
    assert_eq!(report.last, Position(3));
    write(&mut journal, &["d"]);
    assert_eq!(contents(&journal, 0), ["1:a", "3:c", "4:d"]);
}

#[test]
fn a_missing_or_shortened_segment_is_damage() {
    let dir = tempfile::tempdir().expect("folder");
    let small = JournalOptions {
        segment_bytes_max: 1,
        ..options()
    };
    let (mut journal, _) = Journal::open(dir.path(), &small).expect("open");
    for text in ["a", "b", "c", "d"] {
        write(&mut journal, &[text]);
    }
    drop(journal);
    assert_eq!(segment_names(dir.path()), [1, 2, 3, 4]);
    let second = segment::segment_path(dir.path(), Position(2));
    let whole = fs::read(&second).expect("read");
    for length in 0..whole.len() {
        fs::write(&second, &whole[..length]).expect("shorten");
        let text = Journal::open(dir.path(), &small)
            .expect_err("damage")
            .to_string();
        assert!(
            text.contains("0002.seg") || text.contains("0003.seg"),
            "{length}: {text}"
        );
    }
    fs::remove_file(&second).expect("remove");
    let text = Journal::open(dir.path(), &small)
        .expect_err("damage")
        .to_string();
    assert!(
        text.contains("0003.seg at offset 0: 0 unreadable bytes, lost position 2"),
        "{text}"
    );
    let skip = JournalOptions {
        on_damage: OnDamage::Skip,
        ..small.clone()
    };
    Journal::open(dir.path(), &skip).expect("skip");
    let (journal, _) = Journal::open(dir.path(), &small).expect("mended");
    assert_eq!(contents(&journal, 0), ["1:a", "3:c", "4:d"]);
}

#[test]
fn damage_that_a_checkpoint_confirms_is_not_a_torn_tail() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, _) = open(dir.path());
    write(&mut journal, &["a"]);
    write(&mut journal, &["b"]);
    let path = journal.current_path();
    drop(journal);
    let whole = fs::read(&path).expect("read");
    fs::write(&path, &whole[..whole.len() - 1]).expect("shorten");
    let confirmed = JournalOptions {
        confirmed: Position(2),
        ..options()
    };
    let text = Journal::open(dir.path(), &confirmed)
        .expect_err("damage")
        .to_string();
    assert!(text.contains("lost positions from 2 on"), "{text}");
    let (mut journal, _) = Journal::open(
        dir.path(),
        &JournalOptions {
            on_damage: OnDamage::Skip,
            ..confirmed.clone()
        },
    )
    .expect("skip");
    assert_eq!(
        write(&mut journal, &["c"]),
        Position(3),
        "position 2 is not used again"
    );
    drop(journal);
    let (journal, _) = Journal::open(dir.path(), &confirmed).expect("mended");
    assert_eq!(contents(&journal, 0), ["1:a", "3:c"]);
}

#[test]
fn an_empty_journal_goes_on_behind_the_checkpoint() {
    let dir = tempfile::tempdir().expect("folder");
    let behind = JournalOptions {
        confirmed: Position(10),
        ..options()
    };
    let (mut journal, _) = Journal::open(dir.path(), &behind).expect("open");
    assert_eq!(contents(&journal, 3), Vec::<String>::new());
    assert_eq!(write(&mut journal, &["x"]), Position(11));
    assert_eq!(contents(&journal, 10), ["11:x"]);
    drop(journal);
    let (journal, report) = Journal::open(dir.path(), &behind).expect("reopen");
    assert_eq!(report.last, Position(11));
    assert_eq!(contents(&journal, 10), ["11:x"]);
}

#[test]
fn a_segment_whose_creation_was_interrupted_is_removed() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, _) = open(dir.path());
    write(&mut journal, &["a"]);
    drop(journal);
    fs::write(segment::segment_path(dir.path(), Position(2)), [0; 7]).expect("stub");
    fs::write(dir.path().join("00000000000000000002.tmp"), b"x").expect("stub");
    let (mut journal, report) = open(dir.path());
    assert_eq!(report.last, Position(1));
    write(&mut journal, &["b"]);
    assert_eq!(segment_names(dir.path()), [1]);
    assert!(!dir.path().join("00000000000000000002.tmp").exists());
}

#[test]
fn an_unknown_format_is_refused_and_named() {
    let dir = tempfile::tempdir().expect("folder");
    let (journal, _) = open(dir.path());
    let path = journal.current_path();
    drop(journal);
    let mut bytes = fs::read(&path).expect("read");
    bytes[8] = 7;
    let crc = crc32fast::hash(&bytes[0..28]);
    bytes[28..32].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, bytes).expect("write");
    let text = Journal::open(dir.path(), &options())
        .expect_err("format")
        .to_string();
    assert!(
        text.contains("has format 7, this ctld reads formats up to 1"),
        "{text}"
    );
}

#[test]
fn segments_rotate_by_size_and_a_follower_crosses_them() {
    let dir = tempfile::tempdir().expect("folder");
    let small = JournalOptions {
        segment_bytes_max: 150,
        ..options()
    };
    let (mut journal, _) = Journal::open(dir.path(), &small).expect("open");
    let mut follower = journal.reader_after(Position::ZERO);
    let mut watch = follower.durable_watch();
    assert_eq!(drain(&mut follower), Vec::<String>::new());
    let mut expected = Vec::new();
    let mut seen = Vec::new();
    for number in 1..=20 {
        let text = format!("payload {number:02}"); // 10 bytes; 34 with the header: three fit behind the 32 of the segment
        write(&mut journal, &[&text]);
        expected.push(format!("{number}:{text}"));
        assert!(watch.has_changed().expect("writer lives"));
        assert_eq!(*watch.borrow_and_update(), Position(number));
        seen.extend(drain(&mut follower));
        assert_eq!(seen, expected);
    }
    assert_eq!(segment_names(dir.path()), [1, 4, 7, 10, 13, 16, 19]);
    assert_eq!(contents(&journal, 9), expected[9..]);
    drop(journal);
    let (journal, report) = Journal::open(dir.path(), &small).expect("reopen");
    assert_eq!((report.segments, report.records), (7, 20));
    assert_eq!(contents(&journal, 0), expected);
}

#[test]
fn a_reader_sees_nothing_before_it_is_durable() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, _) = open(dir.path());
    let mut reader = journal.reader_after(Position::ZERO);
    journal.append(&["a"]).expect("append");
    assert_eq!(reader.next_record().expect("read"), None);
    journal.sync().expect("sync");
    assert_eq!(drain(&mut reader), ["1:a"]);
}

#[test]
fn pruning_keeps_what_pins_need() {
    let dir = tempfile::tempdir().expect("folder");
    let small = JournalOptions {
        segment_bytes_max: 1,
        ..options()
    };
    let (mut journal, _) = Journal::open(dir.path(), &small).expect("open");
    let pin = journal.pin("accounting", Position(1));
    for text in ["a", "b", "c", "d"] {
        write(&mut journal, &[text]);
    }
    assert_eq!(journal.prune_before(Position(4)).expect("prune").len(), 1);
    assert_eq!(segment_names(dir.path()), [2, 3, 4]);
    assert_eq!(contents(&journal, 1), ["2:b", "3:c", "4:d"]);
    pin.advance(Position(2));
    pin.advance(Position(1));
    journal.prune_before(Position(4)).expect("prune");
    assert_eq!(segment_names(dir.path()), [3, 4]);
    drop(pin);
    journal.prune_before(Position(99)).expect("prune");
    assert_eq!(segment_names(dir.path()), [4], "the newest stays");
    let gone = journal
        .reader_after(Position(1))
        .next_record()
        .expect_err("pruned");
    assert!(
        matches!(
            gone,
            JournalError::Pruned {
                wanted: Position(2),
                first: Position(4)
            }
        ),
        "{gone}"
    );
    drop(journal);
    let (journal, report) = Journal::open(dir.path(), &small).expect("reopen");
    assert_eq!(
        (report.first, report.last),
        (Some(Position(4)), Position(4))
    );
    assert_eq!(journal.first_kept(), Position(4));
}

/// A disk with room for so many bytes, which then reports that it is full; its flush can be made to fail.
struct SmallDisk {
    file: std::fs::File,
    room: Arc<AtomicUsize>,
    flush_fails: bool,
    writes: Arc<AtomicUsize>,
}

impl LogFile for SmallDisk {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        let fits = bytes.len().min(self.room.load(Ordering::SeqCst));
        self.room.fetch_sub(fits, Ordering::SeqCst);
        io::Write::write_all(&mut self.file, &bytes[..fits])?;
        if fits < bytes.len() {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        } else {
            Ok(())
        }
    }

    fn sync_data(&mut self) -> io::Result<()> {
        if self.flush_fails {
            Err(io::Error::other("medium error"))
        } else {
            self.file.sync_data()
        }
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        LogFile::cut(&mut self.file, bytes)
    }
}

fn on_small_disk(journal: &mut Journal, room: usize, flush_fails: bool) -> Arc<AtomicUsize> {
    on_disk_with(journal, &Arc::new(AtomicUsize::new(room)), flush_fails)
}

fn on_disk_with(
    journal: &mut Journal,
    room: &Arc<AtomicUsize>,
    flush_fails: bool,
) -> Arc<AtomicUsize> {
    let file = segment::open_append(&journal.current_path()).expect("file");
    let writes = Arc::new(AtomicUsize::new(0));
    journal.set_file(Box::new(SmallDisk {
        file,
        room: Arc::clone(room),
        flush_fails,
        writes: writes.clone(),
    }));
    writes
}

#[test]
fn a_full_disk_poisons_the_journal_and_loses_nothing_confirmed() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, _) = open(dir.path());
    let writes = on_small_disk(&mut journal, 60, false);
    write(&mut journal, &["fits"]); // 28 bytes
    journal
        .append(&["this one is too much for the rest of it"])
        .expect("buffered");
    let first = journal.sync().expect_err("full");
    assert!(first.to_string().starts_with("cannot write "), "{first}");
    assert_eq!(journal.durable(), Position(1));
    assert_eq!(writes.load(Ordering::SeqCst), 2);
    for error in [
        journal.append(&["x"]).expect_err("poisoned"),
        journal.sync().expect_err("poisoned"),
    ] {
        assert!(matches!(error, JournalError::Poisoned { .. }), "{error}");
    }
    assert_eq!(
        writes.load(Ordering::SeqCst),
        2,
        "nothing is written after a failure"
    );
    drop(journal);
    let (journal, report) = open(dir.path());
    assert!(report.torn.is_some());
    assert_eq!(contents(&journal, 0), ["1:fits"]);
}

/// Without this, `ctld` would have to be started again after a full disk, or a reader (accounting) would take the bytes of a
/// failed write, which it had read ahead, for a record that exists.
#[test]
fn after_a_roll_back_the_journal_goes_on_and_readers_see_only_what_is_durable() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, _) = open(dir.path());
    let mut reader = journal.reader_after(Position::ZERO);
    // "a" and "b": 25 bytes each. Then one whole record of the failing batch of two, and a piece of the other.
    let room = Arc::new(AtomicUsize::new(50 + 32 + 30));
    on_disk_with(&mut journal, &room, false);
    write(&mut journal, &["a"]);
    write(&mut journal, &["b"]);
    journal.append(&["phantom1", "phantom2"]).expect("buffered");
    journal.sync().expect_err("full");
    // The first read fills the reader's buffer with everything that lies in the file, the failed write included.
    assert_eq!(
        reader
            .next_record()
            .expect("read")
            .map(|record| record.position),
        Some(Position(1))
    );
    journal.roll_back().expect("cut");
    assert_eq!(
        (journal.last(), journal.durable()),
        (Position(2), Position(2))
    );
    room.store(usize::MAX, Ordering::SeqCst);
    assert_eq!(write(&mut journal, &["c", "d"]), Position(4));
    assert_eq!(drain(&mut reader), ["2:b", "3:c", "4:d"]);
    assert_eq!(contents(&journal, 0), ["1:a", "2:b", "3:c", "4:d"]);
    drop(journal);
    let (journal, report) = open(dir.path());
    assert_eq!((report.torn.is_none(), report.last), (true, Position(4)));
    assert_eq!(contents(&journal, 2), ["3:c", "4:d"]);
}

/// Without this, a segment begun while the space ran out would later seem to hold positions that the older one has.
#[test]
fn a_roll_back_removes_a_segment_that_was_begun_in_vain() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, _) = open(dir.path());
    on_small_disk(&mut journal, 30, false);
    write(&mut journal, &["a"]);
    segment::create(dir.path(), SegmentHeader::new(Position(2), false)).expect("segment");
    journal.append(&["too much"]).expect("buffered");
    journal.sync().expect_err("full");
    journal.roll_back().expect("cut");
    assert_eq!(segment_names(dir.path()), [1]);
}

/// Without this, a disk that lost confirmed bytes would be written on.
#[test]
fn a_medium_error_cannot_be_rolled_back() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, _) = open(dir.path());
    on_small_disk(&mut journal, usize::MAX, true);
    journal.append(&["a"]).expect("append");
    journal.sync().expect_err("flush");
    assert!(matches!(
        journal.roll_back(),
        Err(JournalError::Poisoned { .. })
    ));
    assert!(matches!(
        journal.append(&["b"]),
        Err(JournalError::Poisoned { .. })
    ));
}

#[test]
fn a_failed_flush_is_never_called_durable() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, _) = open(dir.path());
    on_small_disk(&mut journal, usize::MAX, true);
    let mut reader = journal.reader_after(Position::ZERO);
    journal.append(&["a"]).expect("append");
    let error = journal.sync().expect_err("flush").chain();
    assert!(
        error.starts_with("cannot flush to disk") && error.ends_with("medium error"),
        "{error}"
    );
    assert_eq!(journal.durable(), Position::ZERO);
    assert_eq!(reader.next_record().expect("read"), None);
    let again = journal.sync().expect_err("poisoned").to_string();
    assert!(again.contains("medium error"), "{again}");
}

#[test]
fn a_record_above_the_limit_is_refused_and_the_journal_goes_on() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut journal, _) = open(dir.path());
    let large = vec![0u8; RECORD_BYTES_MAX + 1];
    assert!(matches!(
        journal.append(&[large]),
        Err(JournalError::TooLarge { .. })
    ));
    assert_eq!(write(&mut journal, &["a"]), Position(1));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]
    /// Whatever batches are written and wherever the file is torn: what is left is a prefix of whole batches.
    #[test]
    fn a_prefix_of_whole_batches_survives(batches in proptest::collection::vec(1usize..4, 1..6), cut in 0usize..400) {
        let dir = tempfile::tempdir().expect("folder");
        let (mut journal, _) = open(dir.path());
        let mut ends = vec![0];
        for (number, size) in batches.iter().enumerate() {
            let payloads: Vec<String> = (0..*size).map(|i| format!("batch {number} record {i}")).collect();
            journal.append(&payloads).expect("append");
            ends.push(journal.sync().expect("sync").0);
        }
        let path = journal.current_path();
        drop(journal);
        let whole = fs::read(&path).expect("read");
        let cut = (SEGMENT_HEADER_BYTES + cut).min(whole.len());
        fs::write(&path, &whole[..cut]).expect("tear");
        let (journal, report) = open(dir.path());
        proptest::prop_assert!(ends.contains(&report.last.0), "{} in {:?}", report.last, ends);
        proptest::prop_assert_eq!(contents(&journal, 0).len() as u64, report.last.0);
        proptest::prop_assert!(cut < whole.len() || report.last.0 == *ends.last().expect("some"));
    }
}
