//! salloc: obtains an allocation and runs a command with it on this machine.
//!
//! The allocation is given back whatever ends the command. Source: salloc(1).

use std::os::unix::process::ExitStatusExt;

use sluice_model::exit_status::WaitStatus;
use sluice_model::job::{JobDescription, JobInfo};

use super::caller::Place;
use super::sbatch::{
    SUBMIT_PATIENCE, own_cluster, print_request, print_submit_error, refuse, send_all,
};
use super::{block_on, gres_help, usage_error, watch};
use crate::client::Client;
use crate::client::address::random_text;
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::launch::{
    add_launchers, add_older_names, allocation_environment, components_environment, give_back,
};
use crate::output;
use crate::submit::components;
use crate::submit::description::describe;
use crate::submit::options::Options;
use crate::submit::variables::request_variables;

/// Runs salloc.
pub fn run(parsed: &Parsed, line: &[String]) -> i32 {
    let place = Place::here();
    let parts = match components::split(Command::Salloc, parsed) {
        Ok(parts) => parts,
        Err(error) => return usage_error(Command::Salloc, &error),
    };
    let command = parts
        .last()
        .map(|part| part.operands.clone())
        .unwrap_or_default();
    with_allocation(Command::Salloc, &parts, &place, line, command)
}

/// Allocates for an srun of several components and runs `command`, which starts their steps.
pub(super) fn for_steps(
    parts: &[Parsed],
    place: &Place,
    line: &[String],
    command: Vec<String>,
) -> i32 {
    with_allocation(Command::Srun, parts, place, line, command)
}

fn with_allocation(
    kind: Command,
    parts: &[Parsed],
    place: &Place,
    line: &[String],
    command: Vec<String>,
) -> i32 {
    let name = kind.name();
    let all = components::options(kind, &[], |name| place.variable(name), parts);
    if let Some(code) = all.iter().find_map(gres_help::asked) {
        return code;
    }
    let caller = place.caller(line);
    let mut jobs = Vec::new();
    let mut variables = std::collections::BTreeMap::new();
    for (offset, options) in all.iter().enumerate() {
        let mut job = match describe(options, &caller) {
            Ok(request) => {
                print_request(options, &request);
                request.job
            }
            Err(refusal) => return refuse(&refusal, name),
        };
        let asked = request_variables(options, &caller, &job);
        if all.len() > 1 {
            variables.extend(
                asked
                    .into_iter()
                    .filter(|(name, _)| components::ONCE.contains(&name.as_str())),
            );
            variables.extend(components::variables(options, &caller, &job, offset));
        } else {
            variables = asked;
        }
        job.name = job.name.or_else(|| {
            // An allocation of srun has the name of what it runs.
            let program = parts.last().and_then(|part| part.operands.first());
            let name = match (kind, program) {
                (Command::Srun, Some(path)) => path.rsplit('/').next().unwrap_or(path),
                _ => "interactive",
            };
            Some(name.to_string())
        });
        job.submission_key = random_text();
        jobs.push(job);
    }
    let Some(options) = all.last() else { return 1 };
    block_on(allocate(options, jobs, variables, command))
}

async fn allocate(
    options: &Options,
    jobs: Vec<JobDescription>,
    mut variables: std::collections::BTreeMap<String, String>,
    command: Vec<String>,
) -> i32 {
    let name = options.command.name();
    let what = match options.command {
        Command::Srun => "Unable to allocate resources",
        _ => "Job submit/allocate failed",
    };
    let quiet = options.has("quiet");
    // srun says only that it waits.
    let chatty = options.command == Command::Salloc;
    let say = |text: String| {
        if !quiet && (chatty || text.starts_with("job ")) {
            output::error_line(format!("{name}: {text}"));
        }
    };
    if jobs.is_empty() {
        return 1;
    }
    let mut client = match Client::connect(SUBMIT_PATIENCE).await {
        Ok(client) => client,
        Err(error) => {
            print_submit_error(name, what, &error);
            return 1;
        }
    };
    if let Some(clusters) = options.get("clusters")
        && let Err(refusal) = own_cluster(clusters, &client.settings.cluster)
    {
        return refuse(&refusal, name);
    }
    let job_id = match send_all(&mut client, &jobs, false).await {
        Ok(submitted) => {
            submitted
                .messages
                .iter()
                .for_each(|message| say(message.clone()));
            submitted.job_id
        }
        Err(error) => {
            print_submit_error(name, what, &error);
            return 1;
        }
    };
    let granted = match wait_for_grant(&mut client, job_id, &say).await {
        Ok(granted) => granted,
        Err(code) => return code,
    };
    say(format!("Granted job allocation {job_id}"));
    say(format!("Nodes {} are ready for job", granted.nodes));
    if options.has("bell") {
        output::text_out("\x07");
    }
    if options.has("no-shell") {
        return 0;
    }
    let cluster = client.settings.cluster.clone();
    let own = if granted.het_job_id.is_some() {
        match client.job(job_id).await {
            Ok(components) => components_environment(&components, &cluster),
            Err(_) => allocation_environment(&granted, &cluster),
        }
    } else {
        allocation_environment(&granted, &cluster)
    };
    variables.extend(own);
    add_older_names(&mut variables);
    add_launchers(&mut variables);
    let status = run_command(variables, command).await;
    say(format!("Relinquishing job allocation {job_id}"));
    if let Err(error) = give_back(&mut client, job_id, status).await {
        output::error_line(format!(
            "salloc: error: Unable to clean up job allocation {job_id}: {error}"
        ));
    }
    status.shell_code()
}

/// Waits for the nodes; an interrupt gives the request up.
async fn wait_for_grant(
    client: &mut Client,
    job_id: u32,
    say: &impl Fn(String),
) -> Result<JobInfo, i32> {
    let mut waited = false;
    let mut cancel = client.clone();
    let waiting = watch::until(
        client,
        job_id,
        |job| {
            if !watch::is_ready(job) && !job.state.is_finished() && !waited {
                waited = true;
                say(format!("Pending job allocation {job_id}"));
                say(format!("job {job_id} queued and waiting for resources"));
            }
            watch::is_ready(job) || job.state.is_finished()
        },
        |text| say(text.to_string()),
    );
    let granted = tokio::select! {
        granted = waiting => granted,
        _ = tokio::signal::ctrl_c() => {
            let _ = crate::launch::cancel_job(&mut cancel, job_id).await;
            say(format!("Job allocation {job_id} has been revoked."));
            return Err(1);
        }
    };
    match granted {
        Ok(job) if watch::is_ready(&job) => {
            if waited {
                say(format!("job {job_id} has been allocated resources"));
            }
            Ok(job)
        }
        Ok(_) => {
            output::error_line("salloc: error: Job allocation has been revoked");
            Err(1)
        }
        Err(error) => {
            output::error_line(format!(
                "salloc: error: Job submit/allocate failed: {error}"
            ));
            Err(1)
        }
    }
}

/// Runs the command (the user's shell without one) and waits for it.
async fn run_command(
    variables: std::collections::BTreeMap<String, String>,
    command: Vec<String>,
) -> WaitStatus {
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_string());
    let (program, arguments) = match command.split_first() {
        Some((program, arguments)) => (program.clone(), arguments.to_vec()),
        None => (shell, Vec::new()),
    };
    let mut child = tokio::process::Command::new(&program);
    child.args(arguments).envs(variables).kill_on_drop(true);
    let mut child = match child.spawn() {
        Ok(child) => child,
        Err(error) => {
            let reason = std::io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(0));
            let text = output::os_text(&reason);
            output::error_line(format!(
                "salloc: error: Unable to exec command \"{program}\": {text}"
            ));
            return WaitStatus::exited(1);
        }
    };
    loop {
        tokio::select! {
            status = child.wait() => {
                return WaitStatus(status.map_or(WaitStatus::exited(1).0, ExitStatusExt::into_raw));
            }
            // The terminal sends the interrupt to the command as well; it decides.
            _ = tokio::signal::ctrl_c() => {}
        }
    }
}
