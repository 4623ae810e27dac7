//! `cargo xtask test` and `cargo xtask e2e`: everything that must hold, and its end-to-end part alone.
//!
//! PostgreSQL's programs are made sure of first, the daemons are built (end-to-end tests run them), then the tests run:
//! with nextest where it is installed, else with `cargo test`. Documentation tests run before, so that the last thing on
//! the screen is the test runner's own summary.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use nix::unistd::Uid;
use sluice_testkit::{postgres_advice, postgres_bin_dir};

use crate::cargo::{build_programs, cargo, must_succeed};
use crate::clients;

/// Runs all tests; `args` go to the test runner.
pub fn run(args: &[String]) -> Result<()> {
    ensure_postgres()?;
    build_programs("dev")?;
    // With arguments the caller wants some tests only.
    let docs = if args.is_empty() {
        must_succeed(cargo().args(["test", "--quiet", "--doc", "--workspace"]))
    } else {
        Ok(())
    };
    let tests = must_succeed(runner(&["--workspace"]).args(args));
    tests.and(docs.context("the documentation's examples do not pass"))
}

/// Runs only the tests that start a whole cluster, or the workflows of clients.
pub fn run_end_to_end(args: &[String]) -> Result<()> {
    if let Some(("clients", names)) = args
        .split_first()
        .map(|(first, rest)| (first.as_str(), rest))
    {
        return clients::run(names);
    }
    ensure_postgres()?;
    build_programs("dev")?;
    must_succeed(runner(&["--package", "sluice-testkit", "--test", "*"]).args(args))
}

fn runner(selection: &[&str]) -> Command {
    let mut command = cargo();
    if has_nextest() {
        command.args(["nextest", "run"]);
        command.args(selection);
    } else {
        eprintln!("xtask: cargo-nextest is not installed, using cargo test");
        command.args(["test", "--no-fail-fast"]);
        command.args(selection);
        if selection.contains(&"--workspace") {
            // Documentation tests have run already.
            command.args(["--lib", "--bins", "--tests"]);
        }
    }
    command
}

fn has_nextest() -> bool {
    cargo()
        .args(["nextest", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn ensure_postgres() -> Result<()> {
    if postgres_bin_dir().is_some() {
        return Ok(());
    }
    if !Uid::effective().is_root() || !Path::new("/usr/bin/apt-get").exists() {
        bail!("{}", postgres_advice());
    }
    eprintln!("xtask: PostgreSQL is missing; installing Debian's package postgresql");
    for args in [
        &["-q", "update"][..],
        &[
            "-q",
            "install",
            "-y",
            "--no-install-recommends",
            "postgresql",
        ],
    ] {
        must_succeed(
            Command::new("apt-get")
                .args(args)
                .env("DEBIAN_FRONTEND", "noninteractive")
                .stdin(Stdio::null())
                .stdout(Stdio::null()),
        )?;
    }
    postgres_bin_dir().context(postgres_advice()).map(drop)
}
