//! What sbatch makes of scripts and options, compared with recordings of a real one.
//!
//! The recordings are `sbatch -v` of Slurm 26.05; see the first lines of each file. The list of the options in force is made from
//! the request that would be sent, so that an option that is read but lost shows here.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::tz::TimeZone;
use sluice_cli::flags::Command;
use sluice_cli::flags::getopt::{Parsed, UsageError, parse};
use sluice_cli::submit::Refusal;
use sluice_cli::submit::components;
use sluice_cli::submit::description::{Caller, describe};
use sluice_cli::submit::listing::listing;
use sluice_cli::submit::script::{DirectiveError, check_script, read_directives};
use sluice_model::time::UnixSeconds;

/// The lines of a refusal, with the exit status.
fn refused(refusal: &Refusal) -> Vec<String> {
    let mut lines = refusal.lines("sbatch");
    lines.push(format!("exit {}", refusal.exit_code));
    lines
}

fn misused(error: &UsageError) -> Vec<String> {
    vec![
        format!("sbatch: {error}"),
        "Try \"sbatch --help\" for more information".to_string(),
        "exit 255".to_string(),
    ]
}

/// What sbatch would list for a script and a command line in `folder`.
fn understood(script: &[Parsed], line: &[Parsed], folder: &str) -> Vec<String> {
    let environment = BTreeMap::new();
    let caller = Caller {
        now: UnixSeconds(1_796_013_660),
        time_zone: &TimeZone::UTC,
        directory: Path::new(folder),
        environment: &environment,
        uid: 1002,
        gid: 100,
        host: "vm",
        session: 7,
        submit_line: "sbatch".to_string(),
        rlimits: BTreeMap::new(),
        umask: 0o022,
    };
    let mut lines = Vec::new();
    for options in components::options(Command::Sbatch, script, |_| None, line) {
        match describe(&options, &caller) {
            Ok(request) => {
                let warnings = request
                    .warnings
                    .iter()
                    // Slurm has no such line: there the option has an effect, or is dropped without a word.
                    .filter(|text| !text.contains("without effect yet"))
                    .map(|text| format!("sbatch: warning: {text}"));
                lines.extend(warnings);
                lines.extend(
                    listing(&options, &request.job)
                        .into_iter()
                        .map(|(name, value)| format!("{name} = {value}").trim_end().to_string()),
                );
            }
            Err(refusal) => return refused(&refusal),
        }
    }
    lines
}

#[test]
fn scripts_are_read_as_slurm_reads_them() {
    let recorded = include_str!("submission/scripts.txt");
    let mut faults = Vec::new();
    let mut count = 0;
    for entry in recorded.split("\n=== ").skip(1) {
        count += 1;
        let (name, rest) = entry.split_once('\n').expect("a name");
        let (script, expected) = rest.split_once("\n---").expect("two parts");
        let expected: Vec<&str> = expected.lines().skip(1).collect();
        check_script(script.as_bytes()).expect("a script");
        let got = match read_directives(script.as_bytes(), name) {
            Ok(read) => understood(&read.components, &[], "/f"),
            Err(DirectiveError::Usage(error)) => misused(&error),
            Err(DirectiveError::Refused(refusal)) => refused(&refusal),
        };
        let got: Vec<String> = got
            .into_iter()
            .map(|line| line.replace("= /f/", "= "))
            .collect();
        if got != expected {
            faults.push(format!(
                "{name}\n  expected {expected:?}\n  got      {got:?}"
            ));
        }
    }
    assert_eq!(count, 94);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn options_are_read_as_slurm_reads_them() {
    let recorded = include_str!("submission/options.txt");
    let mut faults = Vec::new();
    let mut count = 0;
    for entry in recorded.split("\n$ ").skip(1) {
        count += 1;
        let (line, rest) = entry.split_once('\n').unwrap_or((entry, ""));
        let expected: Vec<&str> = rest
            .lines()
            .filter(|line| !line.starts_with("sbatch: Number of tasks"))
            .collect();
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        let got = match parse(Command::Sbatch, &words) {
            Ok(parsed) => understood(&[], &[parsed], "/tmp"),
            Err(error) => misused(&error),
        };
        if got != expected {
            faults.push(format!(
                "{line}\n  expected {expected:?}\n  got      {got:?}"
            ));
        }
    }
    assert!(count > 150, "{count}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
