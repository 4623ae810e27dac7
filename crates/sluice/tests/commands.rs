//! The `sluice` command as a user calls it: exit codes and what is said where.

use std::fs;
use std::process::{Command, Output};

use tempfile::TempDir;

const GOOD: &str = "\
ClusterName=c1
SlurmctldHost=head
NodeName=n[1-2] CPUs=4 RealMemory=4000
PartitionName=main Nodes=ALL Default=YES
";

const SPEC: &str = r##"{
  // Two machines without GPUs.
  "display_name": "train1",
  "nodePools": [ { "id": "w", "machine_spec": { "machine_type": "n2-standard-8" },
    "scaling_spec": { "min_node_count": 2, "max_node_count": 2 } } ],
  "orchestrator_spec": { "slurmSpec": {
    "partitions": [ { "id": "train", "node_pool_ids": ["w"] } ],
    "config": { "def_mem_per_cpu": "1000" },
    "prolog_bash_scripts": [ "#!/bin/bash\necho begin" ],
  } },
}
"##;

fn sluice(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(args)
        .output()
        .unwrap()
}

fn written(name: &str, text: &str) -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Deployment scripts rely on the exit code: 0 for a good file of either form.
#[test]
fn good_files_of_both_forms_pass() {
    let (_a, conf) = written("slurm.conf", GOOD);
    let (_b, spec) = written("cluster.jsonc", SPEC);
    let done = sluice(&["check", &conf, &spec]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stdout));
}

/// All faults at once, each with file, line, key and value; one bad file among good ones fails the call.
#[test]
fn every_fault_of_a_bad_file_is_listed() {
    let bad = format!("{GOOD}NoSuchKey=1\nKillWait=soon\n");
    let (_a, good) = written("slurm.conf", GOOD);
    let (_b, bad) = written("bad.conf", &bad);
    let done = sluice(&["check", &bad, &good]);
    assert_eq!(done.status.code(), Some(1));
    let report = text(&done.stdout);
    // The two lines after the four good ones.
    for (line, key) in [(5, "NoSuchKey"), (6, "KillWait")] {
        assert!(
            report
                .lines()
                .any(|have| have.contains(&format!("bad.conf:{line}")) && have.contains(key)),
            "{report}"
        );
    }
    assert!(report.contains("soon"), "{report}");
}

/// What a specification means can be read as Slurm's own files, and those files pass the check in turn.
#[test]
fn a_specification_is_shown_as_slurm_conf() {
    let (_a, spec) = written("cluster.jsonc", SPEC);
    let done = sluice(&["spec", "show-conf", &spec]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let shown = text(&done.stdout);
    assert!(shown.starts_with("# ==> slurm.conf <==\n"), "{shown}");
    for part in [
        "ClusterName=train1\n",
        "DefMemPerCPU=1000\n",
        "PartitionName=train ",
        "echo begin",
    ] {
        assert!(shown.contains(part), "{part} not in {shown}");
    }
}

/// A wrong call is told apart from a failure: 2, with the usage; a missing file is a failure: 1.
#[test]
fn wrong_calls_and_failures_have_their_own_codes() {
    for args in [&[][..], &["check"], &["spec", "show"], &["frobnicate"]] {
        let done = sluice(args);
        assert_eq!(done.status.code(), Some(2), "{args:?}");
        assert!(text(&done.stderr).contains("sluice <command>"), "{args:?}");
    }
    assert_eq!(sluice(&["check", "/nosuch/file"]).status.code(), Some(1));
    assert_eq!(sluice(&["down", "/nosuch/folder"]).status.code(), Some(1));
    assert_eq!(text(&sluice(&["version"]).stdout), "sluice 0.1.0\n");
}
