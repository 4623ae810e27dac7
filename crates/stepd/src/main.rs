//! `stepd --dir DIR`: runs the step described in DIR and exits when it is over. Started by agentd, not by people.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let folder = match (arguments.next(), arguments.next(), arguments.next()) {
        (Some(flag), Some(folder), None) if flag == "--dir" => PathBuf::from(folder),
        (Some(flag), None, None) if flag == "-V" || flag == "--version" => {
            println!("slurm 25.11.0\nsluice {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!(
                "usage: stepd --dir DIR\n\nRuns one step for agentd. DIR is the step's folder in the agent's spool directory."
            );
            return ExitCode::FAILURE;
        }
    };
    match sluice_stepd::run(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stepd: {error}");
            ExitCode::FAILURE
        }
    }
}
