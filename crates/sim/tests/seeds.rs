//! Some seeds in every test run; `cargo xtask sim` runs many more.

/// Every invariant holds in runs of different size, load and faults. A failure prints the seed and how to run it again.
#[test]
fn fixed_seeds_run_clean() {
    let mut scripts = 0;
    // The last: tasks of an array that start and others that wait, ahead of a job that waits.
    for seed in (1..=6).chain([2251]) {
        match sluice_sim::run(seed, sluice_sim::TRACE_LINES) {
            Ok(summary) => scripts += summary.scripts,
            Err(failure) => panic!("{failure}"),
        }
    }
    assert!(scripts > 20, "the runs do real work: {scripts} scripts");
}

/// The same seed gives the same run: without this a failure could not be looked at.
#[test]
fn a_seed_gives_one_run() {
    let once = || sluice_sim::run(3, 0).map_err(|failure| failure.to_string());
    assert_eq!(once(), once());
}
