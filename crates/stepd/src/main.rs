//! `stepd --dir DIR`: runs the step described in DIR and exits when it is over. Started by agentd, not by people.
//!
//! `stepd --dir DIR --adopt PID`: hands a process (of an ssh login, say) to the extern step that DIR belongs to.

use std::path::PathBuf;
use std::process::ExitCode;

use sluice_stepd::control::{self, ControlReply, ControlRequest};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let words: Vec<_> = arguments.by_ref().take(4).collect();
    if let [dir, folder, adopt, pid] = words.as_slice()
        && dir == "--dir"
        && adopt == "--adopt"
    {
        return hand_over(std::path::Path::new(folder), &pid.to_string_lossy());
    }
    let mut words = words.into_iter();
    let folder = match (words.next(), words.next(), words.next()) {
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

/// Asks a running extern step to take in a process.
fn hand_over(folder: &std::path::Path, pid: &str) -> ExitCode {
    let Ok(pid) = pid.parse() else {
        eprintln!("stepd: --adopt takes the number of a process, not {pid}");
        return ExitCode::FAILURE;
    };
    match control::request(folder, &ControlRequest::Adopt { pid }) {
        Ok(ControlReply::Done) => ExitCode::SUCCESS,
        Ok(ControlReply::Refused { text }) => {
            eprintln!("stepd: {text}");
            ExitCode::FAILURE
        }
        Ok(other) => {
            eprintln!("stepd: unexpected answer {other:?}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("stepd: no step answers in {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}
