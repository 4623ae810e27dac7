//! `sluice check FILE…`: reads configurations, of either form, and reports all that is wrong with them.
//!
//! Nothing is started or changed. A slurm.conf is read with the files that lie beside it. The report goes to standard
//! output, because it is what was asked for; the exit code is 1 when any file has a fault. Warnings alone are no fault.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

pub(crate) fn run(files: &[String]) -> Result<ExitCode> {
    let mut all_passed = true;
    for file in files {
        let report = sluice_config::check(Path::new(file));
        println!("{report}");
        all_passed &= report.passed();
    }
    Ok(if all_passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
