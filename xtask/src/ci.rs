//! `cargo xtask ci`: what continuous integration runs, which is what a developer runs. `.ci/run` calls it.
//!
//! Small clients from PyPI are tried where they can be installed; SLUICE_CLIENT_TESTS chooses others or none (see `clients.rs`).
//!
//! Every step runs even when an earlier one failed, so that one run shows all that is wrong.

use anyhow::{Result, bail};

use crate::cargo::{cargo, must_succeed};
use crate::{WrongCall, clients, fuzz, sim, test};

/// Formatting, clippy with warnings as errors, all tests.
pub fn run(args: &[String]) -> Result<()> {
    if let Some(arg) = args.first() {
        return Err(WrongCall(format!("ci takes no argument, but got \"{arg}\"")).into());
    }
    let steps = [
        ("formatting", formatting as fn() -> Result<()>),
        ("clippy", clippy),
        ("tests", tests),
        ("fuzz", fuzz_smoke),
        ("simulation", simulation),
        ("clients", clients::run_in_ci),
    ];
    let mut failed = Vec::new();
    for (name, step) in steps {
        eprintln!("== {name}");
        if let Err(error) = step() {
            eprintln!("== {name}: {error:#}");
            failed.push(name);
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("failed: {}", failed.join(", "))
    }
}

fn formatting() -> Result<()> {
    must_succeed(cargo().args(["fmt", "--all", "--check"]))
}

fn clippy() -> Result<()> {
    let args = "clippy --quiet --workspace --all-targets -- -D warnings";
    must_succeed(cargo().args(args.split(' ')))
}

/// A minute for all targets, with a fixed seed: a failure here is the change's fault and no chance.
fn fuzz_smoke() -> Result<()> {
    fuzz::run(&["--seconds", "60", "--seed", "1"].map(str::to_owned))
}

/// Simulated clusters with faults: thousands of seeds where there are processors, in two minutes.
fn simulation() -> Result<()> {
    sim::run(&["--seeds", "10000", "--secs", "120"].map(str::to_owned))
}

fn tests() -> Result<()> {
    test::run(&[])
}
