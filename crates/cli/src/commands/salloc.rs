//! salloc: obtains an allocation and runs a command with it on this machine.
//!
//! The allocation is given back whatever ends the command. Source: salloc(1).

use std::os::unix::process::ExitStatusExt;

use sluice_model::exit_status::WaitStatus;
use sluice_model::job::{JobDescription, JobInfo};

use super::caller::Place;
use super::sbatch::{SUBMIT_PATIENCE, print_options, print_submit_error, refuse, send};
use super::{block_on, watch};
use crate::client::Client;
use crate::client::address::random_text;
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::launch::{allocation_environment, give_back};
use crate::output;
use crate::submit::description::{describe, request_variables};
use crate::submit::options::Options;

/// Runs salloc.
pub fn run(parsed: &Parsed, line: &[String]) -> i32 {
    let place = Place::here();
    let options = Options::new(
        Command::Salloc,
        &Parsed::default(),
        |name| place.variable(name),
        parsed,
    );
    print_options(&options);
    let caller = place.caller(line);
    let mut job = match describe(&options, &caller) {
        Ok(request) => {
            for warning in &request.warnings {
                output::error_line(format!("salloc: warning: {warning}"));
            }
            request.job
        }
        Err(refusal) => return refuse(&refusal, "salloc"),
    };
    let variables = request_variables(&options, &caller, &job);
    job.name = job.name.or_else(|| Some("interactive".to_string()));
    job.submission_key = random_text();
    block_on(allocate(&options, job, variables, parsed.operands.clone()))
}

async fn allocate(
    options: &Options,
    job: JobDescription,
    variables: std::collections::BTreeMap<String, String>,
    command: Vec<String>,
) -> i32 {
    const WHAT: &str = "Job submit/allocate failed";
    let quiet = options.has("quiet");
    let say = |text: String| {
        if !quiet {
            output::error_line(format!("salloc: {text}"));
        }
    };
    let mut client = match Client::connect(SUBMIT_PATIENCE).await {
        Ok(client) => client,
        Err(error) => {
            print_submit_error("salloc", WHAT, &job, &error);
            return 1;
        }
    };
    let job_id = match send(&mut client, &job, false).await {
        Ok(submitted) => {
            submitted
                .messages
                .iter()
                .for_each(|message| say(message.clone()));
            submitted.job_id
        }
        Err(error) => {
            print_submit_error("salloc", WHAT, &job, &error);
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
    let status = run_command(&granted, variables, &client.settings.cluster, command).await;
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
    job: &JobInfo,
    variables: std::collections::BTreeMap<String, String>,
    cluster: &str,
    command: Vec<String>,
) -> WaitStatus {
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_string());
    let (program, arguments) = match command.split_first() {
        Some((program, arguments)) => (program.clone(), arguments.to_vec()),
        None => (shell, Vec::new()),
    };
    let mut child = tokio::process::Command::new(&program);
    child
        .args(arguments)
        .envs(variables)
        .envs(allocation_environment(job, cluster))
        .kill_on_drop(true);
    let mut child = match child.spawn() {
        Ok(child) => child,
        Err(error) => {
            let reason = std::io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(0));
            let text = reason.to_string();
            let text = text.split(" (os error").next().unwrap_or_default();
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
