//! `cargo xtask fuzz`: the smoke run of the fuzz targets on the stable compiler.
//!
//! The arguments go to `sluice-fuzz`, which knows them. It is built with some optimization and with overflow checks.

use anyhow::Result;

use crate::cargo::{cargo, must_succeed};

/// Builds the smoke run and runs it.
pub fn run(args: &[String]) -> Result<()> {
    must_succeed(
        cargo()
            .args([
                "run",
                "--quiet",
                "--profile",
                "fast",
                "--package",
                "sluice-fuzzing",
                "--",
            ])
            .args(args),
    )
}
