//! `cargo xtask sim`: runs the deterministic simulation for many seeds, or one seed again.
//!
//! The arguments go to `sluice-sim`, which knows them; it is built with some optimization, because a run is a long loop.

use anyhow::Result;

use crate::cargo::{cargo, must_succeed};

/// Builds the simulator and runs it.
pub fn run(args: &[String]) -> Result<()> {
    must_succeed(
        cargo()
            .args([
                "run",
                "--quiet",
                "--profile",
                "fast",
                "--package",
                "sluice-sim",
                "--",
            ])
            .args(args),
    )
}
