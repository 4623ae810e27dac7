//! sbcast: copies a file to every node of a job, see [`super::broadcast`].
//!
//! Source: sbcast(1).

use std::path::{Path, PathBuf};

use super::block_on;
use super::broadcast::{Copying, excluded_folders, nodes_of};
use super::caller::Place;
use crate::client::Client;
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::output;
use crate::submit::options::Options;

/// Options about how the file travels, which is srun's business here.
const WITHOUT_EFFECT: [&str; 5] = ["compress", "fanout", "treewidth", "size", "timeout"];

/// Runs sbcast.
pub fn run(parsed: &Parsed) -> i32 {
    let place = Place::here();
    let options = Options::new(
        Command::Sbcast,
        &Parsed::default(),
        |name| place.variable(name),
        parsed,
    );
    let count = parsed.operands.len();
    if count != 2 {
        output::error_line(format!("Need two file names, have {count} names"));
        output::error_line("Try \"sbcast --help\" for more information");
        return 1;
    }
    match copy(&options, parsed, &place) {
        Ok(()) => 0,
        Err(text) => {
            if !text.is_empty() {
                output::error_line(format!("sbcast: error: {text}"));
            }
            1
        }
    }
}

fn copy(options: &Options, parsed: &Parsed, place: &Place) -> Result<(), String> {
    let [source, target] = parsed.operands.as_slice() else {
        return Err(format!(
            "Need two file names, have {} names",
            parsed.operands.len()
        ));
    };
    for name in WITHOUT_EFFECT.iter().filter(|name| options.has(name)) {
        check_number(name, options.get(name))?;
        if options.has("verbose") {
            output::error_line(format!(
                "sbcast: --{name} has no effect: srun sends the file"
            ));
        }
    }
    let target_of = options
        .get("jobid")
        .map(String::from)
        .or_else(|| place.variable("SLURM_JOB_ID"))
        .or_else(|| place.variable("SLURM_JOBID"))
        .ok_or("Need a job id to run this command.  Run from within a Slurm job or use the --jobid option.")?;
    let (job, step) = job_and_step(&target_of).ok_or_else(|| super::srun::bad_step(&target_of))?;
    let mut nodes = Err(String::new());
    block_on(async {
        nodes = match Client::connect(std::time::Duration::from_secs(2)).await {
            Ok(client) => nodes_of(&client, job, step)
                .await
                .map_err(|error| format!("Failed to load JobId={job}: '{error}'")),
            Err(error) => Err(error.to_string()),
        };
        0
    });
    let copying = Copying {
        job,
        nodes: nodes?,
        force: options.has("force"),
        preserve: options.has("preserve"),
    };
    let libraries = match options.get("send-libs") {
        Some(word) if !word.eq_ignore_ascii_case("no") => {
            Some(excluded_folders(options.get("exclude")))
        }
        _ => None,
    };
    let target = place.directory.join(with_name(target, source));
    copying.copy_program(Path::new(source), &target, libraries.as_deref())?;
    Ok(())
}

/// Numbers are checked although nothing depends on them: a typing error should not pass.
fn check_number(name: &str, value: Option<&str>) -> Result<(), String> {
    let Some(value) = value.filter(|_| name != "compress") else {
        return Ok(());
    };
    let digits = value.trim_end_matches(['k', 'K', 'm', 'M']);
    match digits.parse::<u64>() {
        Ok(number) if number > 0 => Ok(()),
        _ => Err(format!("Invalid --{name} value: {value}")),
    }
}

fn job_and_step(text: &str) -> Option<(u32, Option<u32>)> {
    match text.split_once('.') {
        Some((job, step)) => Some((job.parse().ok()?, Some(step.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

/// A destination that ends in `/` is a folder: the file keeps its name.
fn with_name(target: &str, source: &str) -> PathBuf {
    if !target.ends_with('/') {
        return PathBuf::from(target);
    }
    Path::new(target).join(Path::new(source).file_name().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jobs with and without a step, destinations that are folders, sizes.
    #[test]
    fn words() {
        assert_eq!(job_and_step("7.2"), Some((7, Some(2))));
        assert_eq!(job_and_step("7"), Some((7, None)));
        assert_eq!(job_and_step("x"), None);
        assert_eq!(with_name("/tmp/", "in/x.bin"), PathBuf::from("/tmp/x.bin"));
        assert!(check_number("size", Some("8m")).is_ok());
        assert!(check_number("timeout", Some("soon")).is_err());
        assert!(check_number("compress", Some("")).is_ok());
    }
}
