//! sbatch: submits a batch script.
//!
//! Order of the checks and all texts are Slurm's. A submission that got no answer is sent again with the same key, so that it
//! can never become two jobs. Source: sbatch(1).

use std::path::Path;
use std::time::{Duration, Instant};

use sluice_model::error_code::ErrorCode;
use sluice_model::job::JobDescription;
use sluice_proto::v1::SubmitTest;

use super::caller::Place;
use super::clusters::unreachable;
use super::{block_on, gres_help, usage_error, watch};
use crate::client::address::random_text;
use crate::client::calls::Submitted;
use crate::client::{Client, ClientError};
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::output;
use crate::submit::Refusal;
use crate::submit::components;
use crate::submit::description::describe;
use crate::submit::environment::parse_export_file;
use crate::submit::listing::listing;
use crate::submit::options::Options;
use crate::submit::script::{
    BatchScript, DirectiveError, check_script, read_directives, read_script, wrapped,
};
use crate::submit::variables::batch_environment;

/// How long a submission waits for a controller that is away.
pub(super) const SUBMIT_PATIENCE: Duration = Duration::from_secs(15);

/// Attempts when the controller is full, and the pause after the first.
const FULL_ATTEMPTS: u64 = 15;

/// Runs sbatch.
pub fn run(parsed: &Parsed, line: &[String]) -> i32 {
    let place = Place::here();
    let request = match prepare(parsed, line, &place) {
        Ok(request) => request,
        Err(Failure::Usage(error)) => return usage_error(Command::Sbatch, &error),
        Err(Failure::Refused(refusal)) => return refuse(&refusal, "sbatch"),
        Err(Failure::Answered(code)) => return code,
    };
    let code = block_on(submit(request, &place));
    place.exit_code(code)
}

/// Prints a refusal; returns its exit status.
pub(super) fn refuse(refusal: &Refusal, command: &str) -> i32 {
    for line in refusal.lines(command) {
        output::error_line(line);
    }
    refusal.exit_code
}

enum Failure {
    Usage(crate::flags::getopt::UsageError),
    Refused(Refusal),
    /// Only a question was asked.
    Answered(i32),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure::Refused(refusal)
    }
}

/// What is sent, and the options of the last component, which say how.
struct Request {
    options: Options,
    /// One for each component; more than one makes a heterogeneous job.
    jobs: Vec<JobDescription>,
    quiet: bool,
}

fn prepare(parsed: &Parsed, line: &[String], place: &Place) -> Result<Request, Failure> {
    let parts = components::split(Command::Sbatch, parsed).map_err(Failure::Usage)?;
    let script = find_script(&parts, place)?;
    check_script(&script.text)?;
    let file = script
        .path
        .as_deref()
        .map_or("stdin", |path| path.rsplit('/').next().unwrap_or(path));
    let from_script = read_directives(&script.text, file).map_err(|error| match error {
        DirectiveError::Usage(error) => Failure::Usage(error),
        DirectiveError::Refused(refusal) => Failure::Refused(refusal),
    })?;
    for notice in &from_script.notices {
        output::error_line(format!("sbatch: {notice}"));
    }
    let all = components::options(
        Command::Sbatch,
        &from_script.components,
        |name| place.variable(name),
        &parts,
    );
    if let Some(code) = all.iter().find_map(gres_help::asked) {
        return Err(Failure::Answered(code));
    }
    let caller = place.caller(line);
    let mut jobs: Vec<JobDescription> = Vec::new();
    let mut environment = None;
    for (offset, options) in all.iter().enumerate() {
        let request = describe(options, &caller)?;
        print_request(options, &request);
        let mut job = request.job;
        if environment.is_none() {
            let export_file = options
                .get("export-file")
                .map(|file| read_export_file(file, &place.directory))
                .transpose()?;
            environment = Some(batch_environment(
                options,
                &caller,
                &job,
                export_file,
                all.len() > 1,
            ));
        }
        if all.len() > 1
            && let Some(environment) = &mut environment
        {
            let own = components::variables(options, &caller, &job, offset);
            environment.extend(own.map(|(name, value)| format!("{name}={value}")));
        }
        job.name = job.name.or_else(|| Some(script.default_name.clone()));
        job.command = script.path.clone();
        job.submission_key = random_text();
        jobs.push(job);
    }
    if let Some(leader) = jobs.first_mut() {
        leader.environment = environment.unwrap_or_default();
        leader.script = Some(script.text);
        leader.script_args = parts
            .last()
            .map(|part| part.operands.get(1..).unwrap_or_default().to_vec())
            .unwrap_or_default();
    }
    let quiet = parts.iter().any(|part| part.has("quiet"));
    let options = all
        .into_iter()
        .next_back()
        .unwrap_or_else(|| Options::new(Command::Sbatch, &Parsed::default(), |_| None, parsed));
    Ok(Request {
        options,
        jobs,
        quiet,
    })
}

/// What the user hears about a request before it is sent.
pub(super) fn print_request(options: &Options, request: &crate::submit::description::Request) {
    let command = options.command.name();
    for warning in &request.warnings {
        output::error_line(format!("{command}: warning: {warning}"));
    }
    for notice in &request.notices {
        output::error_line(format!("{command}: {notice}"));
    }
    print_options(options, &request.job);
}

fn find_script(parts: &[Parsed], place: &Place) -> Result<BatchScript, Refusal> {
    let operand = parts
        .last()
        .and_then(|part| part.operands.first())
        .map(String::as_str);
    let wrap = parts.iter().rev().find_map(|part| part.value("wrap"));
    match (wrap, operand) {
        (Some(_), Some(_)) => Err(Refusal::error(
            "Script arguments not permitted with --wrap option",
        )),
        (Some(command), None) => Ok(wrapped(command)),
        (None, operand) => {
            let search_path = place.variable("PATH").unwrap_or_default();
            read_script(operand, &place.directory, &search_path)
        }
    }
}

fn read_export_file(
    file: &str,
    directory: &Path,
) -> Result<std::collections::BTreeMap<String, String>, Refusal> {
    let content = match file.parse::<u32>() {
        Ok(descriptor) => std::fs::read(format!("/proc/self/fd/{descriptor}")),
        Err(_) => std::fs::read(directory.join(file)),
    };
    content
        .map(|content| parse_export_file(&content))
        .map_err(|_| Refusal::error(format!("Could not open user environment file {file}")))
}

/// `-v` lists the options.
pub(super) fn print_options(options: &Options, job: &JobDescription) {
    if options.count("verbose") == 0 {
        return;
    }
    let name = options.command.name();
    output::error_line(format!("{name}: defined options"));
    output::error_line(format!("{name}: -------------------- --------------------"));
    for (option, value) in listing(options, job) {
        output::error_line(format!("{name}: {option:<20}: {value}"));
    }
    output::error_line(format!("{name}: -------------------- --------------------"));
    output::error_line(format!("{name}: end of defined options"));
}

/// Sends a submission until there is an answer.
pub(super) async fn send(
    client: &mut Client,
    job: &JobDescription,
    test_only: bool,
) -> Result<Submitted, ClientError> {
    send_all(client, std::slice::from_ref(job), test_only).await
}

/// As [`send`], with all components of a heterogeneous job.
pub(super) async fn send_all(
    client: &mut Client,
    jobs: &[JobDescription],
    test_only: bool,
) -> Result<Submitted, ClientError> {
    let deadline = Instant::now() + SUBMIT_PATIENCE;
    let mut attempt = 0;
    loop {
        match client.submit(jobs.to_vec(), test_only).await {
            Err(error) if error.is_contact() && Instant::now() < deadline => {
                let left = deadline.saturating_duration_since(Instant::now());
                *client = Client::connect_to(client.settings.clone(), left).await?;
            }
            Err(error)
                if error.code() == Some(ErrorCode::MaxJobCount) && attempt < FULL_ATTEMPTS =>
            {
                if attempt == 0 {
                    output::error_line(
                        "sbatch: error: Slurm job queue full, sleeping and retrying",
                    );
                }
                attempt += 1;
                tokio::time::sleep(Duration::from_secs(attempt)).await;
            }
            result => return result,
        }
    }
}

/// Prints why a submission was refused. `what` is the command's word for it.
pub(super) fn print_submit_error(command: &str, what: &str, error: &ClientError) {
    if error.code() == Some(ErrorCode::InvalidGres) {
        output::error_line(format!(
            "{command}: error: {}",
            ErrorCode::InvalidGres.message()
        ));
        return;
    }
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().collect();
    let (last, first) = lines.split_last().unwrap_or((&"", &[]));
    for line in first {
        output::error_line(format!("{command}: error: {line}"));
    }
    output::error_with_hint(format!("{command}: error: {what}: {last}"), error);
}

async fn submit(request: Request, place: &Place) -> i32 {
    let Request {
        options,
        jobs,
        quiet,
    } = request;
    if jobs.is_empty() {
        return 1;
    }
    let mut client = match Client::connect(SUBMIT_PATIENCE).await {
        Ok(client) => client,
        Err(error) => {
            print_submit_error("sbatch", "Batch job submission failed", &error);
            return 1;
        }
    };
    if let Some(clusters) = options.get("clusters")
        && let Err(refusal) = own_cluster(clusters, &client.settings.cluster)
    {
        return refuse(&refusal, "sbatch");
    }
    let test_only = options.has("test-only");
    let submitted = match send_all(&mut client, &jobs, test_only).await {
        Ok(submitted) => submitted,
        Err(error) => {
            let what = if test_only {
                "allocation failure"
            } else {
                "Batch job submission failed"
            };
            print_submit_error("sbatch", what, &error);
            return 1;
        }
    };
    for message in &submitted.messages {
        output::error_line(format!("sbatch: {message}"));
    }
    if test_only {
        match jobs.len() {
            1 => print_test("sbatch", submitted.job_id, submitted.test.as_ref(), place),
            _ => print_components_test(submitted.job_id, submitted.test.as_ref(), place),
        }
        return 0;
    }
    if options.has("parsable") {
        output::line(match options.get("clusters") {
            Some(cluster) => format!("{};{cluster}", submitted.job_id),
            None => submitted.job_id.to_string(),
        });
    } else if !quiet {
        output::line(match options.get("clusters") {
            Some(cluster) => format!(
                "Submitted batch job {} on cluster {cluster}",
                submitted.job_id
            ),
            None => format!("Submitted batch job {}", submitted.job_id),
        });
    }
    if options.has("wait") {
        let several = jobs.len() > 1 || jobs.iter().any(|job| job.array.is_some());
        wait(&mut client, submitted.job_id, several).await
    } else {
        0
    }
}

/// `--clusters` may name the own cluster only: others cannot be reached from here.
pub(super) fn own_cluster(clusters: &str, own: &str) -> Result<(), Refusal> {
    if clusters
        .split(',')
        .any(|name| name == own || name.eq_ignore_ascii_case("all"))
    {
        return Ok(());
    }
    Err(Refusal::error(unreachable(clusters, "--cluster")))
}

/// What `--test-only` prints.
pub(super) fn print_test(command: &str, job_id: u32, test: Option<&SubmitTest>, place: &Place) {
    let Some(test) = test else { return };
    let start = sluice_model::time::UnixSeconds(test.start_time);
    output::error_line(format!(
        "{command}: Job {job_id} to start at {} a using {} processors on nodes {} in partition {}",
        place.times(start).point(start),
        test.cpus,
        test.nodes,
        test.partition
    ));
}

/// As [`print_test`], of a heterogeneous job: shorter, as partitions differ.
fn print_components_test(job_id: u32, test: Option<&SubmitTest>, place: &Place) {
    let Some(test) = test else { return };
    let start = sluice_model::time::UnixSeconds(test.start_time);
    output::error_line(format!(
        "sbatch: Job {job_id} to start at {} using {} processors on {}",
        place.times(start).point(start),
        test.cpus,
        test.nodes
    ));
}

/// Waits for the end; the exit status is the job's, 1 when a signal ended it.
async fn wait(client: &mut Client, job_id: u32, is_array: bool) -> i32 {
    let status = if is_array {
        watch::array_end(client, job_id).await
    } else {
        watch::until(client, job_id, |job| job.state.is_completed(), |_| {})
            .await
            .map(|job| {
                // A job that was cancelled before it ran has no status of its own.
                match job.exit_status.is_success()
                    && job.state.base != sluice_model::state::JobState::Completed
                {
                    true => sluice_model::exit_status::WaitStatus::exited(1),
                    false => job.exit_status,
                }
            })
    };
    match status {
        Ok(status) if status.signal() != 0 => 1,
        Ok(status) => status.code(),
        Err(error) => {
            output::error_line(format!(
                "sbatch: error: Unable to get the end of job {job_id}: {error}"
            ));
            1
        }
    }
}
