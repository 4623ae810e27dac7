//! scancel: ends or signals jobs and steps.
//!
//! Which processes get a signal is decided by the controller. Source: scancel(1).

use std::io::{BufRead as _, Write as _};
use std::time::Duration;

use sluice_model::error_code::ErrorCode;
use sluice_model::hostlist::parse_hostlist;
use sluice_model::ids::JobSelector;
use sluice_model::job::JobInfo;
use sluice_model::signal::Signal;
use sluice_model::state::JobState;
use sluice_proto::v1::{JobFilter, ListJobsRequest, SignalJobsRequest};

use super::caller::{Place, uid_of};
use super::scontrol_jobs::selectors;
use super::{block_on, clusters, job_results};
use crate::client::Client;
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::output;
use crate::submit::options::{Layer, Options};

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
        .flat_map(|operand| selectors(std::slice::from_ref(operand)))
    {
        let number = operand
            .parse::<JobSelector>()
            .map_or(0, |selector| selector.job.0);
        if number == 0 {
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
        cron: options.has("cron"),
    })
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
        let Ok(state) = word.parse::<JobState>() else {
            let what = if options.layer("state") == Some(Layer::Environment) {
                "Unrecognized SCANCEL_STATE value"
            } else {
                "Invalid job state specified"
            };
            return Err(vec![
                format!("{what}: {word}"),
                "Valid job states are PENDING, RUNNING, and SUSPENDED".to_string(),
            ]);
        };
        filter.states.push(u32::from(state.number()));
    }
    Ok(filter)
}

async fn send(mut request: SignalJobsRequest, options: &Options) -> i32 {
    let client = match Client::connect(PATIENCE).await {
        Ok(client) => client,
        Err(error) => {
            output::error_line(format!("scancel: error: Kill job error: {error}"));
            return 1;
        }
    };
    if !clusters::are_known(options, &client.settings.cluster) {
        return 1;
    }
    if options.has("interactive") {
        match chosen(&client, &request).await {
            Ok(targets) if targets.is_empty() => return 0,
            Ok(targets) => {
                request.targets = targets;
                request.filter = None;
            }
            Err(error) => {
                output::error_line(format!("scancel: error: Kill job error: {error}"));
                return 1;
            }
        }
    }
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
    let filter = request.filter.clone();
    let results = match client.signal(request).await {
        Ok(results) => results,
        Err(error) => {
            output::error_line(format!("scancel: error: Kill job error: {error}"));
            return error.code().map_or(1, ErrorCode::exit_code);
        }
    };
    if verbose
        && results.is_empty()
        && let Some(filter) = filter
    {
        output::error_line(format!(
            "scancel: error: No active jobs match ALL job filters, including:{}",
            filter_text(&filter)
        ));
    }
    let mut code = 0;
    for result in &results {
        if verbose && by_filter && result.error_code == 0 {
            output::error_line(format!("scancel: Terminating job {}", result.target));
        }
        let is_step = result.target.contains('.');
        let failure = job_results::error_code(result.error_code);
        match failure {
            None if result.error_code == 0 => {}
            // A job that is gone needs no end; only -v tells.
            Some(ErrorCode::InvalidJobId) if !verbose && !is_step => {}
            Some(
                ErrorCode::AlreadyDone | ErrorCode::KillJobAlreadyComplete | ErrorCode::JobFinished,
            ) if quiet => {}
            failure => {
                output::error_line(format!(
                    "scancel: error: Kill job error on job {}id {}: {}",
                    if is_step { "step " } else { "" },
                    result.target,
                    job_results::message(result)
                ));
                if is_step || failure != Some(ErrorCode::InvalidJobId) {
                    code = failure.map_or(1, ErrorCode::exit_code);
                }
            }
        }
    }
    code
}

/// ` job_name=x user_name=0 `, as the message about an empty selection has it.
fn filter_text(filter: &JobFilter) -> String {
    let states: Vec<String> = filter.states.iter().map(u32::to_string).collect();
    let parts = [
        ("account", filter.account.clone()),
        ("job_name", filter.name.clone()),
        ("nodelist", filter.nodelist.clone()),
        ("partition", filter.partition.clone()),
        ("qos", filter.qos.clone()),
        ("reservation", filter.reservation.clone()),
        ("state", (!states.is_empty()).then(|| states.join(","))),
        ("user_name", filter.uid.map(|uid| uid.to_string())),
        ("wckey", filter.wckey.clone()),
    ];
    let mut text = String::from(" ");
    for (key, value) in parts {
        if let Some(value) = value {
            text.push_str(&format!("{key}={value} "));
        }
    }
    text
}

/// The jobs and steps of the request that the user wants to end, asked one by one.
async fn chosen(
    client: &Client,
    request: &SignalJobsRequest,
) -> Result<Vec<String>, crate::client::ClientError> {
    let mut chosen = Vec::new();
    if let Some(filter) = request
        .filter
        .as_ref()
        .filter(|_| request.targets.is_empty())
    {
        let jobs = client.jobs(ListJobsRequest::default()).await?;
        for job in jobs.iter().filter(|job| matches(filter, job)) {
            let id = match (job.array_job_id, job.array_task_id) {
                (Some(array), Some(task)) => format!("{array}_{task}"),
                (Some(array), None) => {
                    let tasks = job.array_task_string.as_deref().unwrap_or_default();
                    format!("{array}_[{tasks}]")
                }
                _ => match (job.het_job_id, job.het_job_offset) {
                    // Ended through the leader as a whole.
                    (Some(_), Some(offset)) if offset > 0 => continue,
                    _ => job.job_id.to_string(),
                },
            };
            if confirm(&id, job) {
                chosen.push(id);
            }
        }
        return Ok(chosen);
    }
    for target in &request.targets {
        let number = target
            .parse::<JobSelector>()
            .map_or(0, |selector| selector.job.0);
        match client.job(number).await {
            Ok(jobs) => match jobs.first() {
                Some(job) if !confirm(target, job) => {}
                _ => chosen.push(target.clone()),
            },
            // The controller tells what is wrong with it.
            Err(error) if error.code() == Some(ErrorCode::InvalidJobId) => {
                chosen.push(target.clone());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(chosen)
}

/// As the controller understands the filter, for jobs that have not ended.
fn matches(filter: &JobFilter, job: &JobInfo) -> bool {
    let description = &job.description;
    let same = |wanted: &Option<String>, value: Option<&str>| {
        wanted.as_deref().is_none_or(|wanted| Some(wanted) == value)
    };
    let on_nodes = || {
        let held = parse_hostlist(&job.nodes).unwrap_or_default();
        filter.nodelist.as_deref().is_none_or(|list| {
            parse_hostlist(list)
                .unwrap_or_default()
                .iter()
                .any(|name| held.contains(name))
        })
    };
    !job.state.is_finished()
        && filter.uid.is_none_or(|uid| uid == description.uid)
        && (filter.states.is_empty() || filter.states.contains(&u32::from(job.state.base.number())))
        && same(&filter.name, description.name.as_deref())
        && same(&filter.account, Some(&job.account))
        && same(&filter.qos, Some(&job.qos))
        && same(&filter.reservation, description.reservation.as_deref())
        && same(&filter.wckey, description.wckey.as_deref())
        && filter
            .partition
            .as_deref()
            .is_none_or(|wanted| job.partition.split(',').any(|name| name == wanted))
        && on_nodes()
}

/// Asks until the answer is clear; the end of the input is a no.
fn confirm(target: &str, job: &JobInfo) -> bool {
    let kind = if target.contains('.') {
        "step_id"
    } else {
        "job_id"
    };
    let name = job.description.name.as_deref().unwrap_or_default();
    loop {
        output::text_out(&format!(
            "Cancel {kind}={target} name={name} partition={} [y/n]? ",
            job.partition
        ));
        let _ = std::io::stdout().flush();
        let mut answer = String::new();
        match std::io::stdin().lock().read_line(&mut answer) {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
        match answer.trim() {
            "y" | "Y" | "yes" => return true,
            "n" | "N" | "no" => return false,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text about a selection that holds nothing, as a real scancel has it.
    #[test]
    fn empty_selections() {
        let filter = JobFilter {
            name: Some("nosuch".to_string()),
            uid: Some(0),
            ..JobFilter::default()
        };
        assert_eq!(filter_text(&filter), " job_name=nosuch user_name=0 ");
    }
}
