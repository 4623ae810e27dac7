//! `cargo xtask record-upgrade NAME`: test data of this release for later ones, in `crates/testkit/tests/data/upgrade/NAME`.
//!
//! The scene and what is kept of it are testkit's (`upgrade.rs`). Done once for each release, before it is tagged.

use anyhow::Result;
use sluice_testkit::record_upgrade;

use crate::WrongCall;
use crate::cargo::{build_programs, root};

/// Builds the programs and records.
pub fn run(args: &[String]) -> Result<()> {
    let [name] = args else {
        return Err(WrongCall(
            "record-upgrade takes the release's name, for example 0.1.0".to_owned(),
        )
        .into());
    };
    build_programs("dev")?;
    let dir = root().join("crates/testkit/tests/data/upgrade").join(name);
    record_upgrade(&dir)?;
    eprintln!(
        "recorded {}: look it through, run `cargo xtask e2e upgrade`, and commit it",
        dir.display()
    );
    Ok(())
}
