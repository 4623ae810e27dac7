//! `sluice down [DIR]`: ends a private cluster that was left running.
//!
//! The folder says what runs (its `cluster.json`); without DIR it is the quickstart's, in the current folder or named by
//! the shell that quickstart opened. Only processes of that cluster are ended, and no file is removed.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use sluice_testkit::{Description, take_down};

const QUICKSTART_DIR: &str = "sluice-quickstart";

pub(crate) fn run(dir: Option<&str>) -> Result<ExitCode> {
    let dir = dir.map_or_else(default_dir, PathBuf::from);
    let report = take_down(&dir)?;
    if report.daemons == 0 && report.leftovers == 0 {
        eprintln!("No cluster was running in {}.", dir.display());
    } else {
        eprintln!(
            "Ended the cluster in {}: {} daemons, {} processes of jobs.",
            dir.display(),
            report.daemons,
            report.leftovers
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn default_dir() -> PathBuf {
    if Description::exists_in(".".as_ref()) {
        return ".".into();
    }
    std::env::var_os("SLUICE_QUICKSTART").map_or_else(|| QUICKSTART_DIR.into(), PathBuf::from)
}
