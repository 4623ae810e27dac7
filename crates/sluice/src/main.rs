//! The `sluice` command: what Slurm has no command for.
//!
//! One file per subcommand. Exit code 0 done, 1 failed (a checked file has faults, a cluster could not be ended), 2 wrongly
//! called. Standard output is data, everything else goes to standard error.

mod check;
mod down;
mod journal;
mod spec;

use std::process::ExitCode;

const USAGE: &str = "\
sluice <command>

  check FILE…            read each slurm.conf or cluster specification and report everything that is wrong with it
  spec show-conf FILE    print the slurm.conf, gres.conf and scripts that a specification means
  journal check DIR      say what the state folder DIR of a stopped ctld holds, and what damage in it would cost
  journal repair DIR [--accept-loss]
                         mend it; what is lost by that is listed first and needs the word
  journal replay DIR [--until POSITION] [--from-oldest] --output FILE
                         write the state that its files give, for comparisons
  down [DIR]             end the private cluster in DIR, which `cargo xtask quickstart --keep` started
  version                print the version
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, rest)) = args.split_first() else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    let done = match (command.as_str(), rest) {
        ("down", [] | [_]) => down::run(rest.first().map(String::as_str)),
        ("check", [_, ..]) => check::run(rest),
        ("spec", [what, file]) if what == "show-conf" => spec::show_conf(file),
        ("journal", [_, _, ..]) => journal::run(rest),
        ("version" | "--version" | "-V", []) => {
            println!("sluice {}", env!("CARGO_PKG_VERSION"));
            Ok(ExitCode::SUCCESS)
        }
        ("help" | "--help" | "-h", []) => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            eprint!("sluice: wrongly called: {}\n\n{USAGE}", args.join(" "));
            return ExitCode::from(2);
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("sluice: {error:#}");
        ExitCode::FAILURE
    })
}
