//! Damage to the files of a stopped controller: what may be mended is, and what may not is refused in words that help.

use std::path::{Path, PathBuf};

use sluice_testkit::{Cluster, run_with_deadline, wait_until};

use super::super::{READY, SOON, started};

/// A controller that was killed with three held jobs in its journal, and their ids.
fn killed_with_three_jobs() -> (Cluster, [u32; 3]) {
    let mut cluster = started(Cluster::builder().nodes(1));
    let jobs = [(); 3].map(|()| {
        cluster
            .sbatch(["-H", "-J", "kept", "--wrap", "true"])
            .unwrap()
    });
    cluster.kill_ctld().unwrap();
    // Nobody connects to it and writes more while a test looks at its files.
    cluster.kill_agent("n1").unwrap();
    (cluster, jobs)
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|have| have == extension))
        .collect();
    found.sort();
    found
}

fn newest(dir: &Path, extension: &str) -> PathBuf {
    files(dir, extension).pop().unwrap()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x40;
    std::fs::write(path, bytes).unwrap();
}

/// Where the records of a segment begin: 32 bytes of header, then for each record its length (u32), 20 more bytes and the
/// payload. See the book's page on the journal's format.
fn record_offsets(segment: &Path) -> Vec<usize> {
    let bytes = std::fs::read(segment).unwrap();
    let mut at = 32;
    let mut found = Vec::new();
    while at + 24 <= bytes.len() {
        found.push(at);
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        at += 24 + length as usize;
    }
    found
}

/// Where the records of the three submissions begin.
fn submissions(segment: &Path) -> [usize; 3] {
    let bytes = std::fs::read(segment).unwrap();
    let offsets = record_offsets(segment);
    let ends = offsets[1..].iter().copied().chain([bytes.len()]);
    let found: Vec<usize> = offsets
        .iter()
        .copied()
        .zip(ends)
        .filter(|(from, to)| {
            bytes[*from..*to]
                .windows(12)
                .any(|window| window == b"JobSubmitted")
        })
        .map(|(from, _)| from)
        .collect();
    found.try_into().unwrap()
}

fn output(cluster: &Cluster) -> String {
    ["log/ctld.out", "log/ctld.log"]
        .map(|file| std::fs::read_to_string(cluster.path(file)).unwrap_or_default())
        .concat()
}

fn wait_serving(cluster: &Cluster) {
    wait_until(READY, "ctld to answer", || {
        cluster
            .run("scontrol", ["ping"])
            .is_ok_and(|done| done.code == 0)
    })
    .unwrap();
}

fn held_jobs(cluster: &Cluster) -> Vec<u32> {
    let text = cluster
        .run("squeue", ["-h", "-n", "kept", "-o", "%i"])
        .and_then(|done| done.success())
        .unwrap();
    let mut ids: Vec<u32> = text
        .lines()
        .map(|line| line.trim().parse().unwrap())
        .collect();
    ids.sort_unstable();
    ids
}

/// A write that a crash cut off is cut off for good: nobody had been told of it, and the start goes on.
#[test]
fn a_torn_last_record_is_cut_off_and_the_start_goes_on() {
    let (mut cluster, jobs) = killed_with_three_jobs();
    let segment = newest(&cluster.path("state/journal"), "seg");
    let offsets = record_offsets(&segment);
    let last = *offsets.last().unwrap();
    let length = std::fs::metadata(&segment).unwrap().len() as usize;
    // The first half of one more record, as a crash in the middle of a write leaves it.
    let mut bytes = std::fs::read(&segment).unwrap();
    let half = bytes[last..last + (length - last) / 2].to_vec();
    bytes.extend(&half);
    std::fs::write(&segment, &bytes).unwrap();
    cluster.start_ctld().unwrap();
    wait_serving(&cluster);
    assert_eq!(held_jobs(&cluster), jobs);
    let said = output(&cluster);
    assert!(
        said.contains(&format!(
            "cut {} bytes of an unfinished write off at offset {length}",
            half.len()
        )),
        "{said}"
    );
    assert_eq!(files(&cluster.path("state/journal"), "torn").len(), 1);
    let next = cluster.sbatch(["-H", "--wrap", "true"]).unwrap();
    assert_eq!(next, jobs[2] + 1);
}

/// Confirmed records that cannot be read: the start is refused with file and offset; `-i` says what is lost and goes on.
#[test]
fn damage_inside_is_refused_with_file_and_offset_and_i_says_what_is_lost() {
    let (mut cluster, jobs) = killed_with_three_jobs();
    let segment = newest(&cluster.path("state/journal"), "seg");
    let second = submissions(&segment)[1];
    flip(&segment, second + 60);

    cluster.start_ctld().unwrap();
    let host = cluster.layout().host.clone();
    wait_until(SOON, "ctld to refuse", || !cluster.is_running(&host)).unwrap();
    let said = output(&cluster);
    assert!(
        said.contains(&format!("{} at offset {second}:", segment.display()))
            && said.contains("lost position")
            && said.contains("sluice journal check")
            && said.contains("one start of ctld with -i"),
        "{said}"
    );
    cluster.kill_ctld().unwrap_or_default();

    cluster.start_ctld_with(["-i"]).unwrap();
    wait_serving(&cluster);
    assert_eq!(held_jobs(&cluster), [jobs[0], jobs[2]]);
    let said = output(&cluster);
    assert!(
        said.contains(&format!(
            "skipped damage in {} at offset {second}:",
            segment.display()
        )),
        "{said}"
    );
    assert_eq!(files(&cluster.path("state/journal"), "damaged").len(), 1);
    // Once mended, it starts without -i.
    cluster.kill_ctld().unwrap();
    cluster.start_ctld().unwrap();
    wait_serving(&cluster);
    assert_eq!(held_jobs(&cluster), [jobs[0], jobs[2]]);
}

/// The offline commands: the check tells exactly what would be lost and changes nothing, the repair does nothing without the
/// word, and after it `ctld` starts with what was announced.
#[test]
fn a_damaged_journal_is_checked_and_repaired_offline() {
    let (mut cluster, jobs) = killed_with_three_jobs();
    let state = cluster.path("state");
    let journal = |args: &[&str]| {
        let mut command = cluster.program(&cluster.bin_program("sluice"));
        command.arg("journal").args(args).arg(&state);
        run_with_deadline(command, SOON).unwrap()
    };
    let sound = journal(&["check"]);
    assert!(
        sound.code == 0 && sound.stdout.ends_with("ctld starts from this\n"),
        "{sound:?}"
    );
    assert_eq!(journal(&["repair"]).code, 0, "nothing to do");

    let segment = newest(&cluster.path("state/journal"), "seg");
    let second = submissions(&segment)[1];
    let bytes = std::fs::read(&segment).unwrap();
    // In a text of the record, so that its structure can be read; and a torn write at the end besides.
    let at = second
        + bytes[second..]
            .windows(4)
            .position(|window| window == b"kept")
            .unwrap();
    flip(&segment, at);
    let mut torn = std::fs::read(&segment).unwrap();
    torn.extend([7; 10]);
    std::fs::write(&segment, &torn).unwrap();

    let found = journal(&["check"]);
    assert_eq!(found.code, 1, "{found:?}");
    for words in [
        format!("damage: {} at offset {second}: ", segment.display()),
        format!("JobSubmitted (job {})", jobs[1]),
        format!("jobs that would be lost: {}\n", jobs[1]),
        "ctld refuses to start from this".to_owned(),
    ] {
        assert!(
            found.stdout.contains(&words),
            "{words:?} in {}",
            found.stdout
        );
    }
    let refused = journal(&["repair"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.stderr.contains("nothing was changed") && refused.stderr.contains("--accept-loss"),
        "{refused:?}"
    );
    assert_eq!(std::fs::read(&segment).unwrap(), torn);
    assert!(files(&cluster.path("state/journal"), "damaged").is_empty());

    let done = journal(&["repair", "--accept-loss"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(files(&cluster.path("state/journal"), "damaged").len(), 1);
    assert_eq!(journal(&["check"]).code, 0);
    cluster.start_ctld().unwrap();
    wait_serving(&cluster);
    assert_eq!(held_jobs(&cluster), [jobs[0], jobs[2]]);
    // Nobody mends what is in use.
    let mut command = cluster.program(&cluster.bin_program("sluice"));
    command.args(["journal", "repair"]).arg(&state);
    let in_use = run_with_deadline(command, SOON).unwrap();
    assert!(
        in_use.code == 1 && in_use.stderr.contains("in use by process"),
        "{in_use:?}"
    );
}

/// The newest checkpoint is damaged: the older one and the journal behind it give the same state.
#[test]
fn a_damaged_checkpoint_is_passed_over_for_the_older_one() {
    let mut cluster = started(Cluster::builder().nodes(1));
    let mut jobs = Vec::new();
    // A graceful stop writes a checkpoint.
    for _ in 0..2 {
        jobs.push(
            cluster
                .sbatch(["-H", "-J", "kept", "--wrap", "true"])
                .unwrap(),
        );
        cluster.stop_ctld().unwrap();
        cluster.start_ctld().unwrap();
        wait_serving(&cluster);
    }
    jobs.push(
        cluster
            .sbatch(["-H", "-J", "kept", "--wrap", "true"])
            .unwrap(),
    );
    cluster.kill_ctld().unwrap();
    let newest = newest(&cluster.path("state/checkpoints"), "ckpt");
    flip(&newest, 200);
    cluster.start_ctld().unwrap();
    wait_serving(&cluster);
    assert_eq!(held_jobs(&cluster), jobs);
    let said = output(&cluster);
    assert!(
        said.contains(&format!(
            "checkpoint {} is passed over: its checksum is wrong",
            newest.display()
        )),
        "{said}"
    );
}
