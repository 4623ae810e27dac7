//! `cargo xtask`: the commands that developers and newcomers run.
//!
//! One file per command. A command is synchronous, says what it does, and ends with an exit code that a script can use:
//! 0 done, 1 failed, 2 wrongly called. Nothing of the scheduler is decided here.

mod bench;
mod cargo;
mod ci;
mod clients;
mod fuzz;
mod install;
mod quickstart;
mod sim;
mod test;
mod tidy;
mod upgrade;

use std::process::ExitCode;

use anyhow::Result;

const USAGE: &str = "\
cargo xtask <command>

  quickstart [--exit | --keep] [--dir DIR]   start a private cluster here, run sample jobs on it, open a shell
  test [ARG…]            run all tests; arguments go to the test runner
  e2e [ARG…]             run only the tests that start a whole cluster
  e2e clients [--quick | NAME…]
                         run workflows of Python tools that drive Slurm, unmodified, on a private cluster
  ci                     what continuous integration runs: formatting, clippy, tests
  sim [--seed N] [--seeds COUNT] [--secs BOX]
                         simulate clusters with faults, from seed N on; one seed alone is run again
  fuzz [TARGET…] [--seconds N] [--seed N]
                         give mutated inputs to everything that reads bytes from outside; see also fuzz/
  tidy                   check the rules of the source tree
  bench [NAME…] [--jobs N] [--profile P]     measure a private cluster and print a table
  record-upgrade NAME    write this release's journal and databases as test data that later releases must read
  install --prefix DIR [--profile P]         lay out bin/, sbin/, etc/, share/ below DIR
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, rest)) = args.split_first() else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    let done = match command.as_str() {
        "quickstart" => quickstart::run(rest),
        "test" => test::run(rest),
        "e2e" => test::run_end_to_end(rest),
        "ci" => ci::run(rest),
        "sim" => sim::run(rest),
        "fuzz" => fuzz::run(rest),
        "tidy" => tidy::run(rest),
        "bench" => bench::run(rest),
        "record-upgrade" => upgrade::run(rest),
        "install" => install::run(rest),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(())
        }
        other => {
            eprintln!("xtask: unknown command \"{other}\"\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    exit_code(done)
}

fn exit_code(done: Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref::<WrongCall>() {
            Some(wrong) => {
                eprintln!("xtask: {}\n\n{USAGE}", wrong.0);
                ExitCode::from(2)
            }
            None => {
                eprintln!("xtask: {error:#}");
                ExitCode::FAILURE
            }
        },
    }
}

/// The command line was wrong: say so, with the usage.
#[derive(Debug)]
struct WrongCall(String);

impl std::fmt::Display for WrongCall {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for WrongCall {}
