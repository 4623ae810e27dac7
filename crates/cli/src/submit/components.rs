//! The components of a heterogeneous job: `A : B` on the command line, `#SBATCH hetjob` in the script.
//!
//! Pure. Every component is a request of its own; what is not about resources goes on from one to the next. The environment
//! belongs to the first, and tells about all. Source: heterogeneous_jobs.

use sluice_model::job::JobDescription;

use super::description::Caller;
use super::options::Options;
use super::variables::request_variables;
use crate::flags::Command;
use crate::flags::getopt::{Parsed, UsageError, parse};

/// Takes the command line apart at its colons. The operands of the last part are the script or program.
pub fn split(command: Command, first: &Parsed) -> Result<Vec<Parsed>, UsageError> {
    let mut parts = Vec::new();
    let mut current = first.clone();
    // Only srun has a program of its own before the colon.
    let most = if command == Command::Srun {
        usize::MAX
    } else {
        1
    };
    while let Some(colon) = current
        .operands
        .iter()
        .take(most)
        .position(|word| word == ":")
    {
        let rest = current.operands.split_off(colon + 1);
        current.operands.truncate(colon);
        parts.push(std::mem::replace(&mut current, parse(command, &rest)?));
    }
    parts.push(current);
    Ok(parts)
}

/// The options of each component. Of script and command line the one with fewer parts repeats its last.
pub fn options(
    command: Command,
    script: &[Parsed],
    variable: impl Fn(&str) -> Option<String>,
    line: &[Parsed],
) -> Vec<Options> {
    let nothing = Parsed::default();
    let mut all: Vec<Options> = Vec::new();
    for offset in 0..script.len().max(line.len()) {
        // The script's own parts are not repeated, the command line is.
        let script = script.get(offset).unwrap_or(&nothing);
        let line = line.get(offset).or(line.last()).unwrap_or(&nothing);
        let own = Options::new(command, script, &variable, line);
        all.push(match all.last() {
            Some(before) => own.after(before),
            None => own,
        });
    }
    all
}

/// What component `offset` asked for, as variables `…_HET_GROUP_<offset>`.
pub fn variables(
    options: &Options,
    caller: &Caller<'_>,
    job: &JobDescription,
    offset: usize,
) -> impl Iterator<Item = (String, String)> + use<> {
    request_variables(options, caller, job)
        .into_iter()
        .filter(|(name, _)| !ONCE.contains(&name.as_str()))
        .map(move |(name, value)| (format!("{name}_HET_GROUP_{offset}"), value))
}

/// Variables about the submission, not about what was asked for.
pub const ONCE: [&str; 3] = ["SLURM_SUBMIT_DIR", "SLURM_SUBMIT_HOST", "SLURM_UMASK"];

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Parsed {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        parse(Command::Sbatch, &words).expect("valid")
    }

    /// Colons on the command line, and what goes on from one component to the next.
    #[test]
    fn command_line() {
        let parts = split(
            Command::Sbatch,
            &parsed("-N1 -A a -p x : -N2 -t 5 : -n3 job.sh : x"),
        )
        .expect("valid");
        assert_eq!(parts.len(), 3);
        assert_eq!(parts[2].operands, ["job.sh", ":", "x"]);
        let all = options(Command::Sbatch, &[], |_| None, &parts);
        let names: Vec<Vec<&str>> = all.iter().map(Options::names).collect();
        assert_eq!(
            names,
            [
                vec!["account", "nodes", "partition"],
                vec!["account", "nodes", "time"],
                vec!["account", "ntasks", "time"]
            ]
        );
        assert_eq!(all[1].get("nodes"), Some("2"));
    }

    /// One command line counts for all components of a script.
    #[test]
    fn script() {
        let all = options(
            Command::Sbatch,
            &[parsed("-N1 -p a"), parsed("-N2")],
            |_| None,
            &[parsed("-p b")],
        );
        let shown: Vec<_> = all
            .iter()
            .map(|options| (options.get("nodes"), options.get("partition")))
            .collect();
        assert_eq!(shown, [(Some("1"), Some("b")), (Some("2"), Some("b"))]);
    }
}
