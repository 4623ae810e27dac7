//! srun in heterogeneous jobs: `srun A : B program`, `--het-group`.
//!
//! Each component gets a step of its own, started by an srun of its own with the component's options; what they write comes
//! together here, and the highest exit status is the answer. Without an allocation one is made for all components first. Ranks count
//! within each component. Source: srun(1), heterogeneous_jobs.

use std::process::Stdio;

use super::caller::Place;
use super::salloc;
use super::sbatch::refuse;
use super::{block_on, usage_error};
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::output;
use crate::submit::Refusal;
use crate::submit::components;

/// Most components of one call.
const COMPONENTS_MAX: u32 = 128;

/// Runs srun for several components; `None` when it is about one, which is an ordinary srun.
pub fn run(parsed: &Parsed, place: &Place, line: &[String]) -> Option<i32> {
    let parts = match components::split(Command::Srun, parsed) {
        Ok(parts) => parts,
        Err(error) => return Some(usage_error(Command::Srun, &error)),
    };
    let groups = match groups(&parts) {
        Ok(groups) => groups,
        Err(refusal) => return Some(refuse(&refusal, "srun")),
    };
    let alone = |text: &str| Some(refuse(&Refusal::error(text), "srun"));
    const NO_COMPONENTS: &str = "--het-group expected to be used within an HetJob allocation";
    if parts.len() == 1 && groups[0].len() <= 1 {
        let names = parts[0].has("het-group") && !parts[0].has("jobid");
        return match place.variable("SLURM_HET_SIZE") {
            None if names => alone(NO_COMPONENTS),
            _ => None,
        };
    }
    let words = command_lines(&parts, &groups);
    let inside =
        place.variable("SLURM_JOB_ID").is_some() || parts.iter().any(|part| part.has("jobid"));
    if inside {
        return Some(block_on(all(words)));
    }
    if parts.len() == 1 {
        // --het-group names components that are there; an srun without allocation has none.
        return alone(NO_COMPONENTS);
    }
    // Called again inside the allocation, this very line starts the steps.
    let again = std::env::args()
        .take(1)
        .chain(line.iter().skip(1).cloned())
        .collect();
    Some(salloc::for_steps(&parts, place, line, again))
}

/// The component an srun is about: the one it names, else the first of a heterogeneous job.
pub fn group(parsed: &Parsed, place: &Place) -> Option<u32> {
    match parsed.value("het-group") {
        Some(text) => text.trim().parse().ok(),
        None => place.variable("SLURM_HET_SIZE").map(|_| 0),
    }
}

/// A variable as it stands for one component: its own if there is one.
pub fn variable(place: &Place, group: Option<u32>, name: &str) -> Option<String> {
    group
        .and_then(|group| place.variable(&format!("{name}_HET_GROUP_{group}")))
        .or_else(|| place.variable(name))
}

/// The components each part runs in: those it names, else the one at its place.
fn groups(parts: &[Parsed]) -> Result<Vec<Vec<u32>>, Refusal> {
    (0..)
        .zip(parts)
        .map(|(place, part)| match part.value("het-group") {
            None => Ok(vec![place]),
            Some(text) => list(text)
                .ok_or_else(|| Refusal::fatal(format!("Invalid --het-group value: {text}"))),
        })
        .collect()
}

/// `0,2-3`.
fn list(text: &str) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for item in text.split(',') {
        let (low, high) = match item.split_once('-') {
            Some((low, high)) => (low.parse::<u32>().ok()?, high.parse::<u32>().ok()?),
            None => (item.parse::<u32>().ok()?, item.parse::<u32>().ok()?),
        };
        if high < low || high >= COMPONENTS_MAX {
            return None;
        }
        found.extend(low..=high);
    }
    (!found.is_empty()).then_some(found)
}

/// One line for each component. A part without a program runs that of the next part that has one.
fn command_lines(parts: &[Parsed], groups: &[Vec<u32>]) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for (index, (part, groups)) in parts.iter().zip(groups).enumerate() {
        let program = parts[index..]
            .iter()
            .map(|part| &part.operands)
            .find(|operands| !operands.is_empty());
        for group in groups {
            let mut words: Vec<String> = part
                .given
                .iter()
                .filter(|given| given.name != "het-group")
                .map(|given| match &given.value {
                    Some(value) => format!("--{}={value}", given.name),
                    None => format!("--{}", given.name),
                })
                .collect();
            words.push(format!("--het-group={group}"));
            words.extend(program.into_iter().flatten().cloned());
            lines.push(words);
        }
    }
    lines
}

/// Runs an srun for each line, all at the same time; the highest exit status.
async fn all(lines: Vec<Vec<String>>) -> i32 {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => {
            output::error_line(format!("srun: error: cannot start its own steps: {error}"));
            return 1;
        }
    };
    let mut children = Vec::new();
    for (index, words) in lines.into_iter().enumerate() {
        let mut child = tokio::process::Command::new(&program);
        child.arg0("srun").args(words).kill_on_drop(true);
        if index > 0 {
            // Standard input has one reader.
            child.stdin(Stdio::null());
        }
        match child.spawn() {
            Ok(child) => children.push(child),
            Err(error) => {
                output::error_line(format!("srun: error: cannot start its own steps: {error}"));
                return 1;
            }
        }
    }
    let mut highest = 0;
    for mut child in children {
        loop {
            tokio::select! {
                status = child.wait() => {
                    let code = status.ok().and_then(|status| status.code()).unwrap_or(1);
                    highest = highest.max(code);
                    break;
                }
                // The terminal tells the children as well.
                _ = tokio::signal::ctrl_c() => {}
            }
        }
    }
    highest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::getopt::parse;

    /// Each part with its own options, the program of the last for those without one.
    #[test]
    fn one_line_for_each_component() {
        let words: Vec<String> = "-n2 : -n1 -c2 --het-group=2-3 prog -x"
            .split_whitespace()
            .map(String::from)
            .collect();
        let parts = components::split(Command::Srun, &parse(Command::Srun, &words).expect("valid"))
            .expect("valid");
        let groups = groups(&parts).expect("valid");
        let lines: Vec<String> = command_lines(&parts, &groups)
            .iter()
            .map(|words| words.join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "--ntasks=2 --het-group=0 prog -x",
                "--ntasks=1 --cpus-per-task=2 --het-group=2 prog -x",
                "--ntasks=1 --cpus-per-task=2 --het-group=3 prog -x",
            ]
        );
        let words: Vec<String> = "-n2 one a : -n1 two b"
            .split_whitespace()
            .map(String::from)
            .collect();
        let parts = components::split(Command::Srun, &parse(Command::Srun, &words).expect("valid"))
            .expect("valid");
        assert_eq!(parts[0].operands, ["one", "a"]);
        assert_eq!(parts[1].operands, ["two", "b"]);
        assert_eq!(list("0,2-3"), Some(vec![0, 2, 3]));
        assert_eq!(list("3-2"), None);
        assert_eq!(list("x"), None);
    }
}
