//! `sluice spec show-conf FILE`: the slurm.conf, gres.conf and scripts that a configuration means.
//!
//! Meant for training-cluster documents, but a slurm.conf can be shown too, with its defaults and includes resolved. Each file begins with a
//! comment line that has its name. Warnings go to standard error.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use sluice_config::ClusterConfig;

pub(crate) fn show_conf(file: &str) -> Result<ExitCode> {
    // The error already lists every fault with its place, a line each.
    let loaded = ClusterConfig::load(Path::new(file)).map_err(|errors| anyhow!("{errors}"))?;
    for warning in &loaded.warnings {
        eprintln!("{warning}");
    }
    for (nth, shown) in loaded.config.to_slurm_conf().iter().enumerate() {
        if nth > 0 {
            println!();
        }
        println!("# ==> {} <==", shown.name);
        print!("{}", shown.content);
        if !shown.content.ends_with('\n') {
            println!();
        }
    }
    Ok(ExitCode::SUCCESS)
}
