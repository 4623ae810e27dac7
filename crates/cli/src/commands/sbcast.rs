//! sbcast: copies a file to every node of a job, see [`super::broadcast`].
//!
//! Source: sbcast(1).

use std::path::Path;

use super::block_on;
use super::broadcast::{Copying, nodes_of, wanted_libraries, with_name};
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
    let [source, target] = parsed.operands.as_slice() else {
        let count = parsed.operands.len();
        output::error_line(format!("Need two file names, have {count} names"));
        output::error_line("Try \"sbcast --help\" for more information");
        return 1;
    };
    match copy(&options, source, target, &place) {
        Ok(()) => 0,
        Err(text) => {
            if !text.is_empty() {
                output::error_line(format!("sbcast: error: {text}"));
            }
            1
        }
    }
}

fn copy(options: &Options, source: &str, target: &str, place: &Place) -> Result<(), String> {
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
    let libraries = wanted_libraries(options, "exclude");
    let source = Path::new(source);
    let target = place.directory.join(with_name(target, source));
    copying.copy_program(source, &target, libraries.as_deref())?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Jobs with and without a step, sizes.
    #[test]
    fn words() {
        assert_eq!(job_and_step("7.2"), Some((7, Some(2))));
        assert_eq!(job_and_step("7"), Some((7, None)));
        assert_eq!(job_and_step("x"), None);
        assert!(check_number("size", Some("8m")).is_ok());
        assert!(check_number("timeout", Some("soon")).is_err());
        assert!(check_number("compress", Some("")).is_ok());
    }
}
