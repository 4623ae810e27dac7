//! scancel: ends or signals jobs and steps.
//!
//! Which processes get a signal is decided by the controller. Source: scancel(1).

use std::io::{BufRead as _, Write as _};
use std::time::Duration;

use sluice_model::error_code::ErrorCode;
use sluice_model::ids::JobSelector;
use sluice_model::signal::Signal;
use sluice_model::state::JobState;
use sluice_proto::v1::{JobFilter, SignalJobsRequest};

use super::caller::{Place, uid_of};
use super::{block_on, job_results};
use crate::client::Client;
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::output;
use crate::submit::options::Options;

/// How long an absent controller is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs scancel.
pub fn run(parsed: &Parsed) -> i32 {
    let place = Place::here();
    let options = Options::new(
        Command::Scancel,
        &Parsed::default(),
        |name| place.variable(name),
        parsed,
    );
    match request(&options, parsed, &place) {
        Ok(request) => block_on(send(request, &options)),
        Err(lines) => {
            for line in lines {
                output::error_line(line);
            }
            1
        }
    }
}

fn request(
    options: &Options,
    parsed: &Parsed,
    place: &Place,
) -> Result<SignalJobsRequest, Vec<String>> {
    let mut targets = Vec::new();
    for operand in parsed
        .operands
        .iter()
        .flat_map(|operand| split_targets(operand))
    {
        if operand.parse::<JobSelector>().is_err() {
            return Err(vec![format!("scancel: error: Invalid job id {operand}")]);
        }
        targets.push(operand);
    }
    let filter = filter(options, place)?;
    if targets.is_empty() && filter == JobFilter::default() {
        return Err(vec![
            "scancel: error: No job identification provided".to_string(),
        ]);
    }
    let signal = match options.get("signal") {
        None => 0,
        Some(text) => text
            .parse::<Signal>()
            .map_err(|_| vec![format!("Unknown job signal: {text}")])?
            .number(),
    };
    Ok(SignalJobsRequest {
        targets,
        filter: (filter != JobFilter::default()).then_some(filter),
        signal,
        batch_only: options.has("batch"),
        full: options.has("full"),
        hurry: options.has("hurry"),
    })
}

/// Splits at commas outside brackets: `5,6_[1,3]` are two.
fn split_targets(operand: &str) -> Vec<String> {
    let mut depth = 0_u32;
    operand
        .split(|letter| {
            match letter {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            letter == ',' && depth == 0
        })
        .filter(|item| !item.is_empty())
        .map(String::from)
        .collect()
}

fn filter(options: &Options, place: &Place) -> Result<JobFilter, Vec<String>> {
    let text = |name: &str| {
        options
            .get(name)
            .filter(|text| !text.is_empty())
            .map(String::from)
    };
    let mut filter = JobFilter {
        uid: options.has("me").then_some(place.uid),
        name: text("name").or_else(|| text("jobname")),
        partition: text("partition"),
        account: text("account"),
        qos: text("qos"),
        nodelist: text("nodelist"),
        reservation: text("reservation"),
        wckey: text("wckey"),
        ..JobFilter::default()
    };
    if let Some(user) = text("user") {
        filter.uid = Some(
            uid_of(&user)
                .ok_or_else(|| vec![format!("scancel: error: Invalid user name: {user}")])?,
        );
    }
    for word in text("state").iter().flat_map(|list| list.split(',')) {
        let state: JobState = word
            .parse()
            .map_err(|_| vec![format!("scancel: error: Invalid job state: {word}")])?;
        if !matches!(
            state,
            JobState::Pending | JobState::Running | JobState::Suspended
        ) {
            return Err(vec![
                format!("scancel: error: Invalid job state specified: {word}"),
                "scancel: error: Valid job states are PENDING, RUNNING and SUSPENDED".to_string(),
            ]);
        }
        filter.states.push(u32::from(state.number()));
    }
    Ok(filter)
}

async fn send(mut request: SignalJobsRequest, options: &Options) -> i32 {
    if options.has("interactive") {
        request.targets.retain(|target| confirm(target));
        if request.targets.is_empty() {
            return 0;
        }
    }
    let client = match Client::connect(PATIENCE).await {
        Ok(client) => client,
        Err(error) => {
            output::error_line(format!("scancel: error: Kill job error: {error}"));
            return 1;
        }
    };
    let (verbose, quiet) = (options.has("verbose"), options.has("quiet"));
    if verbose {
        let word = if request.signal == 0 {
            "Terminating".to_string()
        } else {
            format!("Signal {} to", request.signal)
        };
        for target in &request.targets {
            let kind = if target.contains('.') { "step" } else { "job" };
            output::error_line(format!("scancel: {word} {kind} {target}"));
        }
    }
    let by_filter = request.targets.is_empty();
    let results = match client.signal(request).await {
        Ok(results) => results,
        Err(error) => {
            output::error_line(format!("scancel: error: Kill job error: {error}"));
            return error.code().map_or(1, ErrorCode::exit_code);
        }
    };
    let mut code = 0;
    for result in &results {
        if verbose && by_filter && result.error_code == 0 {
            output::error_line(format!("scancel: Terminating job {}", result.target));
        }
        let failure = u16::try_from(result.error_code)
            .ok()
            .and_then(ErrorCode::from_number);
        match failure {
            None if result.error_code == 0 => {}
            // A job that is gone needs no end; only -v tells.
            Some(ErrorCode::InvalidJobId) if !verbose => {}
            Some(
                ErrorCode::AlreadyDone | ErrorCode::KillJobAlreadyComplete | ErrorCode::JobFinished,
            ) if quiet => {}
            failure => {
                let kind = if result.target.contains('.') {
                    "step"
                } else {
                    "job"
                };
                output::error_line(format!(
                    "scancel: error: Kill {kind} error on {kind} id {}: {}",
                    result.target,
                    job_results::message(result)
                ));
                code = failure.map_or(1, ErrorCode::exit_code);
            }
        }
    }
    code
}

fn confirm(target: &str) -> bool {
    output::text_out(&format!("Cancel job_id={target} [y/n]? "));
    let _ = std::io::stdout().flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists of jobs, with lists of tasks inside.
    #[test]
    fn targets() {
        assert_eq!(split_targets("5,6_[1,3],7.0"), ["5", "6_[1,3]", "7.0"]);
        assert_eq!(split_targets("5"), ["5"]);
    }
}
