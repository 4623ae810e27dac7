//! Journals as former versions of the engine wrote them are applied as they were meant then.
//!
//! Each file of `tests/data/former/VERSION` is a story of that version's own tests: a state, the state after the story, and the
//! journal's records, each behind its length in four bytes. Never change or remove one: what differs here differs for users too.

use std::path::{Path, PathBuf};

use sluice_controller::transaction::JournalEntry;
use sluice_controller::{Cluster, check, event};

fn stories() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/former");
    let mut found = Vec::new();
    for version in std::fs::read_dir(dir).expect("data").flatten() {
        found.extend(
            std::fs::read_dir(version.path())
                .expect("a version's folder")
                .flatten()
                .map(|entry| entry.path()),
        );
    }
    found.sort();
    assert!(!found.is_empty(), "no story of any version");
    found
}

fn parts(bytes: &[u8]) -> Vec<&[u8]> {
    let mut rest = bytes;
    let mut found = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (part, after) = after.split_at(u32::from_be_bytes(*length) as usize);
        found.push(part);
        rest = after;
    }
    found
}

/// The state after the last record is the one that version had, and it is written and read again unchanged.
#[test]
fn stories_of_former_versions_end_as_they_did() {
    for path in stories() {
        let name = path.display();
        let bytes = std::fs::read(&path).expect("a story");
        let parts = parts(&bytes);
        let [before, after, records @ ..] = parts.as_slice() else {
            panic!("{name} is cut short");
        };
        let read = |bytes: &[u8]| -> Cluster {
            rmp_serde::from_slice(bytes).unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        let mut cluster = read(before);
        for record in records {
            let entry: JournalEntry =
                rmp_serde::from_slice(record).unwrap_or_else(|error| panic!("{name}: {error}"));
            for fact in &entry.events {
                event::apply(&mut cluster, fact);
            }
        }
        let expected = read(after);
        for (id, job) in &expected.jobs {
            assert_eq!(cluster.jobs.get(id), Some(job), "{name}: job {id}");
        }
        // Priorities are worked out from the records by this version and were not kept by those.
        if expected.priorities.jobs.is_empty() {
            cluster.priorities = expected.priorities.clone();
        }
        let written = |cluster: &Cluster| rmp_serde::to_vec_named(cluster).expect("a state");
        assert!(
            written(&cluster) == written(&expected),
            "{name}: the state differs outside of jobs"
        );
        assert!(
            written(&read(&written(&cluster))) == written(&cluster),
            "{name}: a state changes when it is read"
        );
        let violations = check::recount(&cluster);
        assert!(violations.is_empty(), "{name}: {violations:?}");
    }
}
