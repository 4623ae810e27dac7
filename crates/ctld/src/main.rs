//! `ctld`: the head-node daemon. Reads its flags as slurmctld does and runs the daemon.

use std::process::ExitCode;

use sluice_ctld::daemon;
use sluice_ctld::options::{self, Parsed};

fn main() -> ExitCode {
    // A path that is not UTF-8 is carried on in a readable form and then not found, which the message shows.
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    match options::parse(arguments) {
        Ok(Parsed::Help(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Ok(Parsed::Version) => {
            println!("slurm 25.11.0\nsluice {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Ok(Parsed::Run(options)) => match daemon::run(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("ctld: fatal: {error:#}");
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            eprintln!("{error}");
            eprint!("{}", options::usage("ctld"));
            ExitCode::FAILURE
        }
    }
}
