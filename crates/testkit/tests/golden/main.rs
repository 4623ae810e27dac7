//! Golden tests: commands on a cluster like the one of the recorded scene answer as a real Slurm does.
//!
//! `data/` has one file for each command: command line, user, exit code, standard output and standard error of a real Slurm.
//! Here the same cluster and jobs are made, each command is run, and what it prints is compared after ids of new jobs, times,
//! host names and the like are replaced ([`normal`]). What differs on purpose, or because an engine is not built yet, is named in
//! `docs/src/reference/differences.md` with its reason; a file that is neither equal nor named there fails the test, and so
//! does a name there that has become equal.
//!
//! The scene needs several users, so it needs root. Users of the recording are played by system users whose names are as long.
//! To see all differences at once: `SLUICE_GOLDEN_SHOW=1`.

mod cases;
mod differences;
mod normal;
mod recording;
mod scene;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cases::CASES;
use nix::unistd::Uid;
use recording::Recording;
use scene::Scene;

/// Every recorded command gives the recorded answer, or stands in the book.
#[test]
fn commands_answer_as_recorded() {
    if !Uid::effective().is_root() {
        eprintln!("skipped: the scene has several users, so it needs root");
        return;
    }
    let listed = differences::read();
    let only = std::env::var("SLUICE_GOLDEN_ONLY").ok();
    let show_all = std::env::var_os("SLUICE_GOLDEN_SHOW").is_some();
    let scene = Scene::start();
    let mut failures = String::new();
    let mut equal = 0;
    let mut known = BTreeSet::new();
    for case in CASES {
        let recording = Recording::load(case.file);
        if case.file == cases::NEEDS_ROOM {
            scene.make_room();
        }
        known.insert(case.file.to_owned());
        let answer = scene.run(&recording);
        if only.as_ref().is_some_and(|only| !case.file.contains(only)) {
            continue;
        }
        let wanted = normal::wanted(case, &recording);
        let given = normal::given(case, &scene, &answer);
        let same = wanted == given;
        match (same, listed.contains_key(case.file)) {
            (true, false) => equal += 1,
            (false, true) if !show_all => {}
            (true, true) => {
                let _ = writeln!(
                    failures,
                    "{}: equal now; take it out of {}",
                    case.file,
                    differences::PATH
                );
            }
            (false, named) => {
                let _ = writeln!(
                    failures,
                    "=== {}{}: $ {}",
                    case.file,
                    if named { " (listed)" } else { "" },
                    recording.command
                );
                failures.push_str(&normal::compare(&wanted, &given));
            }
        }
    }
    failures.push_str(&scene.token_faults());
    for name in recording::all_names() {
        if !known.contains(&name) && !listed.contains_key(&name) {
            let _ = writeln!(failures, "{name}: neither compared nor listed");
        }
    }
    for name in listed.keys() {
        if !known.contains(name) && !recording::all_names().contains(name) {
            let _ = writeln!(failures, "{name}: listed, but there is no such recording");
        }
    }
    println!(
        "{equal} recordings are reproduced, {} differ as listed",
        listed.len()
    );
    assert!(failures.is_empty(), "{failures}");
}
