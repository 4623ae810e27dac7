//! The journal's files: segments, checkpoints, and what their records hold.
//!
//! Checksums keep damage from the decoder; so the records are also read without them. Applying any event that can be decoded
//! must not panic, and gives a state that can be written and read again.

use std::path::Path;
use std::sync::OnceLock;

use sluice_controller::Cluster;
use sluice_controller::transaction::JournalEntry;
use sluice_ctld::core::checkpoint::{EVENT_VERSION, STATE_VERSION};
use sluice_ctld::journal::{
    CheckpointStore, EventJournal, EventJournalOptions, Journal, JournalOptions, OnDamage,
    Position, encode_state,
};

use crate::Target;
use crate::mutate::{Kind, join_records, split_records};
use crate::service::{folder, recorded};

/// State and records of a real run, made once.
fn recording() -> &'static (Vec<u8>, Vec<Vec<u8>>) {
    static RECORDING: OnceLock<(Vec<u8>, Vec<Vec<u8>>)> = OnceLock::new();
    RECORDING.get_or_init(recorded)
}

fn segment_bytes() -> Vec<u8> {
    let folder = folder();
    let (mut journal, _) =
        Journal::open(folder.path(), &JournalOptions::default()).expect("journal");
    for batch in [&["one", "two"][..], &["three"], &["four", "five", "six"]] {
        journal.append(batch).expect("append");
        journal.sync().expect("sync");
    }
    std::fs::read(folder.path().join("00000000000000000001.seg")).expect("segment")
}

fn read_all(dir: &Path, on_damage: OnDamage) -> bool {
    let options = JournalOptions {
        on_damage,
        ..JournalOptions::default()
    };
    match Journal::open(dir, &options) {
        Err(error) => {
            let _ = error.chain();
            false
        }
        Ok((journal, report)) => {
            let _ = report.warnings();
            let mut reader = journal.reader_after(Position::ZERO);
            while let Ok(Some(_)) = reader.next_record() {}
            true
        }
    }
}

fn assert_stays_when_read(cluster: &Cluster) {
    let bytes = encode_state(cluster).expect("written");
    let again: Cluster = rmp_serde::from_slice(&bytes).expect("read again");
    assert!(
        encode_state(&again).expect("written") == bytes,
        "a state changes when it is read"
    );
}

/// A segment file.
pub const SEGMENT: Target = Target {
    name: "segment",
    seeds: || vec![segment_bytes()],
    mutation: Kind::Bytes,
    run: |input| {
        let folder = folder();
        let file = folder.path().join("00000000000000000001.seg");
        std::fs::write(&file, input).expect("write");
        let whole = read_all(folder.path(), OnDamage::Refuse);
        std::fs::write(&file, input).expect("write");
        let skipped = read_all(folder.path(), OnDamage::Skip);
        assert!(skipped || !whole, "readable, but not with damage skipped");
        if skipped {
            let again = read_all(folder.path(), OnDamage::Refuse);
            assert!(again, "what was mended is damaged again");
        }
    },
    reset: None,
};

/// A checkpoint file, and a state as it lies in one.
pub const CHECKPOINT: Target = Target {
    name: "checkpoint",
    seeds: || {
        let folder = folder();
        let store = CheckpointStore::open(folder.path()).expect("store");
        store
            .write(Position(5), STATE_VERSION, &recording().0)
            .expect("write");
        let file = std::fs::read(store.path_of(Position(5))).expect("read");
        vec![
            join_records(&[file]),
            join_records(&[recording().0.clone()]),
        ]
    },
    mutation: Kind::Records,
    run: |input| {
        for record in split_records(input) {
            if record.starts_with(b"SLUICECP") {
                let folder = folder();
                let store =
                    CheckpointStore::open(&folder.path().join("checkpoints")).expect("store");
                std::fs::write(store.path_of(Position(5)), record).expect("write");
                let options = EventJournalOptions::new(EVENT_VERSION, STATE_VERSION);
                if let Ok((_, recovery)) =
                    EventJournal::<JournalEntry>::open(folder.path(), options)
                {
                    let _ = recovery.state::<Cluster>();
                }
            } else if let Ok(cluster) = rmp_serde::from_slice::<Cluster>(record) {
                assert_stays_when_read(&cluster);
            }
        }
    },
    reset: None,
};

/// Entries as they lie in records, applied to a state in their order.
pub const EVENTS: Target = Target {
    name: "events",
    seeds: || vec![join_records(&recording().1)],
    mutation: Kind::Records,
    run: |input| {
        let mut cluster: Cluster = rmp_serde::from_slice(&recording().0).expect("state");
        for record in split_records(input) {
            let Ok(entry) = rmp_serde::from_slice::<JournalEntry>(record) else {
                continue;
            };
            for event in &entry.events {
                sluice_controller::event::apply(&mut cluster, event);
            }
        }
        assert_stays_when_read(&cluster);
    },
    reset: None,
};
