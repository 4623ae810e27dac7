//! `cargo xtask ci`: what continuous integration runs, which is what a developer runs. `.ci/run` calls it.
//!
//! Clients from PyPI are tried when SLUICE_CLIENT_TESTS asks for it (see `clients.rs`).
//!
//! Every step runs even when an earlier one failed, so that one run shows all that is wrong.

use anyhow::{Result, bail};

use crate::cargo::{cargo, must_succeed};
use crate::{WrongCall, clients, test};

/// Formatting, clippy with warnings as errors, all tests.
pub fn run(args: &[String]) -> Result<()> {
    if let Some(arg) = args.first() {
        return Err(WrongCall(format!("ci takes no argument, but got \"{arg}\"")).into());
    }
    let steps = [
        ("formatting", formatting as fn() -> Result<()>),
        ("clippy", clippy),
        ("tests", tests),
        ("clients", clients::run_if_requested),
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

fn tests() -> Result<()> {
    test::run(&[])
}
