//! srun: runs parallel tasks, in the allocation it is called in or in one of its own.
//!
//! Order of the steps and all texts are Slurm's. An allocation made here is given back whatever happens. Source: srun(1).

use std::collections::BTreeMap;
use std::time::Duration;

use sluice_model::error_code::ErrorCode;
use sluice_model::hostlist::{collapse_hostlist, parse_hostlist};
use sluice_model::job::{JobDescription, JobInfo};
use sluice_model::multi_prog::{MultiProg, MultiProgError};

use super::caller::Place;
use super::sbatch::{SUBMIT_PATIENCE, print_request, print_submit_error, print_test, refuse, send};
use super::srun_bindings::bindings;
use super::{block_on, gres_help, watch};
use super::{srun_components, srun_inherit};
use crate::client::Client;
use crate::client::address::random_text;
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::launch::{cancel_job, cpu_counts, give_back};
use crate::output;
use crate::submit::Refusal;
use crate::submit::description::describe;
use crate::submit::options::Options;
use crate::submit::variables::request_variables;

/// Runs srun.
pub fn run(parsed: &Parsed, line: &[String]) -> i32 {
    let place = Place::here();
    if let Some(code) = srun_components::run(parsed, &place, line) {
        return code;
    }
    let group = srun_components::group(parsed, &place);
    let options = Options::new(
        Command::Srun,
        &Parsed::default(),
        |name| srun_inherit::variable(&place, group, name),
        parsed,
    );
    if options.get("mpi") == Some("list") {
        output::error_line("MPI plugin types are...\n\tnone");
        return 0;
    }
    if let Some(code) = gres_help::asked(&options) {
        return code;
    }
    if let Some(refusal) = refused_early(&options, parsed) {
        return refuse(&refusal, "srun");
    }
    let caller = place.caller(line);
    let mut job = match describe(&options, &caller) {
        Ok(request) => {
            print_request(&options, &request);
            request.job
        }
        Err(refusal) => return refuse(&refusal, "srun"),
    };
    if let Some(code) = bindings(&options) {
        return code;
    }
    let host_list = match arbitrary(&options, &place, &mut job) {
        Ok(list) => list,
        Err(refusal) => return refuse(&refusal, "srun"),
    };
    let multi_prog = match parsed
        .operands
        .first()
        .filter(|_| options.has("multi-prog"))
    {
        None => None,
        Some(file) => match read_multi_prog(file, job.ntasks.unwrap_or(1)) {
            Ok(text) => Some(text),
            Err(refusal) => return refuse(&refusal, "srun"),
        },
    };
    let variables = request_variables(&options, &caller, &job);
    let program = parsed
        .operands
        .first()
        .map(|path| base_name(path))
        .unwrap_or_default();
    // A name from the environment is the batch job's; only the command line names a step.
    let step_name = options.typed("job-name").map_or(program, String::from);
    job.name = Some(step_name);
    job.command = parsed.operands.first().cloned();
    let code = block_on(
        Srun {
            options,
            place: place.clone(),
            variables,
            argv: parsed.operands.clone(),
            multi_prog,
            host_list,
        }
        .run(job),
    );
    place.exit_code(code)
}

fn read_multi_prog(file: &str, tasks: u32) -> Result<String, Refusal> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Refusal::error(format!(
            "Could not open multi_prog config file {file}{}",
            match error.kind() {
                std::io::ErrorKind::NotFound => String::new(),
                _ => format!(": {}", output::os_text(&error)),
            }
        ))
    })?;
    MultiProg::parse(&text)
        .and_then(|config| config.check(tasks))
        .map_err(|error| match error {
            MultiProgError::Line { line, cause } => {
                if !cause.is_empty() {
                    output::error_line(format!("srun: error: {cause}"));
                }
                Refusal::error(format!("Line {line} of configuration file {file} invalid"))
            }
            missing => Refusal::error(format!("Configuration file {file} invalid, {missing}")),
        })?;
    Ok(text)
}

/// `--distribution=arbitrary`: the node of each rank from SLURM_HOSTFILE or `--nodelist`. The job then asks for these nodes.
fn arbitrary(
    options: &Options,
    place: &Place,
    job: &mut JobDescription,
) -> Result<Vec<String>, Refusal> {
    let first = job
        .distribution
        .as_deref()
        .and_then(|text| text.split([':', ',']).next());
    if !first.is_some_and(|word| word.eq_ignore_ascii_case("arbitrary")) {
        return Ok(Vec::new());
    }
    let text = match (place.variable("SLURM_HOSTFILE"), options.get("nodelist")) {
        (Some(file), _) => std::fs::read_to_string(&file).map_err(|error| {
            Refusal::error(format!("Unable to open SLURM_HOSTFILE {file}: {error}"))
        })?,
        (None, Some(list)) => list.to_string(),
        (None, None) => {
            return Err(Refusal::error(
                "The arbitrary distribution needs the nodes of the tasks: SLURM_HOSTFILE or --nodelist",
            ));
        }
    };
    let mut hosts = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let (names, times) = match line.rsplit_once('*') {
            Some((names, times)) => (names, times.trim().parse().unwrap_or(1)),
            None => (line, 1_usize),
        };
        let names = parse_hostlist(names).map_err(|error| {
            Refusal::error(format!("Invalid hostfile line \"{line}\": {error}"))
        })?;
        for name in names {
            hosts.extend(std::iter::repeat_n(name, times));
        }
    }
    if let Some(tasks) = job.ntasks {
        if (hosts.len() as u32) < tasks {
            return Err(Refusal::error(format!(
                "The list of nodes has {} entries for {tasks} tasks",
                hosts.len()
            )));
        }
        hosts.truncate(tasks as usize);
    }
    let mut nodes: Vec<String> = Vec::new();
    for host in &hosts {
        if !nodes.contains(host) {
            nodes.push(host.clone());
        }
    }
    // Every node of an allocation of srun's own must have room for the busiest one's tasks.
    let most = nodes
        .iter()
        .map(|node| hosts.iter().filter(|host| *host == node).count())
        .max()
        .unwrap_or(1);
    job.ntasks = Some((nodes.len() * most) as u32);
    job.ntasks_per_node = Some(most as u32);
    job.min_nodes = Some(nodes.len() as u32);
    job.max_nodes = Some(nodes.len() as u32);
    job.required_nodes = Some(collapse_hostlist(&nodes));
    Ok(hosts)
}

/// What is wrong with the name of a job or a step, in Slurm's words.
pub(super) fn bad_step(text: &str) -> String {
    let (job, step) = text.split_once('.').unwrap_or((text, ""));
    let what = if job.parse::<u32>().is_ok_and(|id| id > 0) && !step.is_empty() {
        "StepID includes unexpected non-numeric characters"
    } else {
        "JobID can not be zero"
    };
    format!("Bad job/step specified: {text}: {what}")
}

fn base_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_string()
}

fn refused_early(options: &Options, parsed: &Parsed) -> Option<Refusal> {
    if parsed.operands.is_empty() && !options.has("test-only") {
        return Some(Refusal::fatal("No command given to execute."));
    }
    if options.has("no-allocate") {
        if !options.has("nodelist") {
            return Some(Refusal::error(
                "must specify a node list with -Z, --no-allocate.",
            ));
        }
        // Every step belongs to a job here: nodes start nothing that the controller did not give them.
        output::error_line("srun: do not allocate resources");
        return Some(Refusal::error(
            "Application launch failed: Invalid job credential",
        ));
    }
    if options.has("async") {
        let pty = options.has("pty");
        if pty {
            output::error_line("srun: error: --async and --pty are mutually exclusive.");
        }
        if !options.has("jobid") {
            return Some(Refusal::error(
                "--async is only valid for steps submitted within an existing job allocation.",
            ));
        }
        if pty {
            return Some(Refusal::error(
                "--pty is no way to see a step that goes on alone",
            ));
        }
    }
    // A task of srun has the variable, and starts srun as any user.
    options.typed("slurmd-debug").and_then(debug_level)
}

/// `--slurmd-debug` is root's; what daemons log is set in the configuration, so that only the variable is left of it.
fn debug_level(level: &str) -> Option<Refusal> {
    if !nix::unistd::geteuid().is_root() {
        return Some(Refusal::error(
            "Use of --slurmd-debug is allowed only for root and SlurmUser(root)",
        ));
    }
    if srun_inherit::log_level(level).is_none() {
        return Some(Refusal::invalid("slurmd-debug"));
    }
    output::error_line(
        "srun: warning: --slurmd-debug sets SLURMD_DEBUG for the tasks only: SlurmdDebug rules what the nodes log",
    );
    None
}

/// One call of srun.
pub(super) struct Srun {
    pub options: Options,
    pub place: Place,
    /// Variables that repeat the request, for an allocation of srun's own.
    pub variables: BTreeMap<String, String>,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Text of the file of `--multi-prog`.
    pub multi_prog: Option<String>,
    /// Node of each rank, for `--distribution=arbitrary`.
    pub host_list: Vec<String>,
}

/// The allocation the step runs in.
pub(super) struct Allocation {
    pub job_id: u32,
    /// Set when srun made it itself.
    pub own: Option<Box<JobInfo>>,
}

impl Srun {
    pub(super) fn say(&self, text: impl AsRef<str>) {
        if !self.options.has("quiet") {
            output::error_line(format!("srun: {}", text.as_ref()));
        }
    }

    async fn run(self, job: JobDescription) -> i32 {
        let mut client = match Client::connect(SUBMIT_PATIENCE).await {
            Ok(client) => client,
            Err(error) => {
                print_submit_error("srun", "Unable to allocate resources", &error);
                return 1;
            }
        };
        let existing = match self.options.get("jobid").map(str::parse::<u32>) {
            None => None,
            Some(Ok(id)) => Some(id),
            Some(Err(_)) => {
                let text = self.options.get("jobid").unwrap_or_default();
                output::error_line(format!("srun: fatal: {}", bad_step(text)));
                return 1;
            }
        };
        let allocation = match existing {
            Some(job_id) if !self.options.has("test-only") => {
                if let Err(code) = self.confirm(&client, job_id, &job).await {
                    return code;
                }
                Allocation { job_id, own: None }
            }
            _ => match self.allocate(&mut client, &job).await {
                Ok(allocation) => allocation,
                Err(code) => return code,
            },
        };
        let status = self.step(&mut client, &allocation, &job).await;
        if allocation.own.is_some()
            && let Err(error) = give_back(&mut client, allocation.job_id, status.record).await
        {
            output::error_line(format!(
                "srun: error: Unable to give back allocation {}: {error}",
                allocation.job_id
            ));
        }
        status.exit_code
    }

    /// Checks that the job of SLURM_JOB_ID is there and ready.
    async fn confirm(
        &self,
        client: &Client,
        job_id: u32,
        step: &JobDescription,
    ) -> Result<(), i32> {
        let refuse = |error: String| {
            output::error_line(format!(
                "srun: error: Unable to confirm allocation for job {job_id}: {error}"
            ));
            output::error_line(format!(
                "srun: Check SLURM_JOB_ID environment variable. Expired or invalid job {job_id}"
            ));
            Err(1)
        };
        match client.job(job_id).await {
            Ok(jobs) if jobs.iter().all(|job| job.job_id.0 != job_id) => {
                refuse(ErrorCode::InvalidJobId.message().to_string())
            }
            Ok(jobs)
                if jobs
                    .iter()
                    .any(|job| job.job_id.0 == job_id && job.state.is_finished()) =>
            {
                output::error_line(format!("srun: error: Slurm job {job_id} has expired"));
                output::error_line(format!(
                    "srun: Check SLURM_JOB_ID environment variable. Expired or invalid job {job_id}"
                ));
                Err(1)
            }
            Ok(jobs) => {
                let found = jobs.iter().find(|job| job.job_id.0 == job_id);
                found.map_or(Ok(()), |job| self.fits(job, step))
            }
            Err(error) => refuse(error.to_string()),
        }
    }

    /// Refuses what the nodes of the job can never be enough for.
    fn fits(&self, job: &JobInfo, step: &JobDescription) -> Result<(), i32> {
        let wanted = step.min_nodes.unwrap_or(1);
        let relative = self
            .options
            .get("relative")
            .and_then(|text| text.parse::<u32>().ok());
        if let Some(first) = relative.filter(|first| first + wanted > job.num_nodes) {
            output::error_line(format!(
                "srun: error: --relative and SLURM_JOB_NUM_NODES option incompatible with count of allocated nodes \
                 ({first}+{wanted}>{})",
                job.num_nodes
            ));
            return Err(1);
        }
        let list = |text: &str| parse_hostlist(text).unwrap_or_default();
        let excluded = list(step.excluded_nodes.as_deref().unwrap_or_default());
        let left = list(&job.nodes)
            .iter()
            .filter(|node| !excluded.contains(node))
            .count();
        if !excluded.is_empty() && (left as u32) < wanted {
            output::error_line(format!(
                "srun: error: Only allocated {left} nodes asked for {wanted}"
            ));
            output::error_line("srun: error: Are required nodes explicitly excluded?");
            return Err(1);
        }
        Ok(())
    }

    async fn allocate(&self, client: &mut Client, job: &JobDescription) -> Result<Allocation, i32> {
        const WHAT: &str = "Unable to allocate resources";
        let mut job = job.clone();
        job.batch = false;
        job.submission_key = random_text();
        let test_only = self.options.has("test-only");
        let submitted = send(client, &job, test_only).await.map_err(|error| {
            if error.code() != Some(ErrorCode::InvalidGres) {
                print_submit_error("srun", WHAT, &error);
            } else {
                output::error_line(format!("srun: error: {error}"));
            }
            1
        })?;
        submitted
            .messages
            .iter()
            .for_each(|message| self.say(message));
        if test_only {
            print_test(
                "srun",
                submitted.job_id,
                submitted.test.as_ref(),
                &self.place,
            );
            return Err(0);
        }
        let job_id = submitted.job_id;
        if self.options.count("verbose") > 0 {
            self.say(format!("JobId={job_id} returned by the controller"));
        }
        let granted = self.wait_for_grant(client, job_id).await?;
        Ok(Allocation {
            job_id,
            own: Some(Box::new(granted)),
        })
    }

    async fn wait_for_grant(&self, client: &mut Client, job_id: u32) -> Result<JobInfo, i32> {
        let mut cancel = client.clone();
        let mut waited = false;
        let waiting = watch::until(
            client,
            job_id,
            |job| {
                if job.state.is_pending() && !waited {
                    waited = true;
                    self.say(format!("job {job_id} queued and waiting for resources"));
                }
                watch::is_ready(job) || job.state.is_finished()
            },
            |text| self.say(text),
        );
        let immediate = self
            .options
            .get("immediate")
            .map(|text| Duration::from_secs(text.parse().unwrap_or(1)));
        let granted = tokio::select! {
            granted = waiting => granted,
            () = interrupted() => {
                let _ = cancel_job(&mut cancel, job_id).await;
                self.say(format!("Job allocation {job_id} has been revoked"));
                return Err(1);
            }
            () = maybe_sleep(immediate) => {
                let _ = cancel_job(&mut cancel, job_id).await;
                output::error_line(format!(
                    "srun: error: Unable to allocate resources: {}",
                    ErrorCode::NodesBusy.message()
                ));
                return Err(self.immediate_code());
            }
        };
        match granted {
            Ok(job) if watch::is_ready(&job) => {
                if waited {
                    self.say(format!("job {job_id} has been allocated resources"));
                }
                if self.options.count("verbose") > 0 {
                    self.say(format!("Nodes {} are ready for job", job.nodes));
                    self.say(format!(
                        "jobid {job_id}: nodes({}):`{}', cpu counts: {}",
                        job.num_nodes,
                        job.nodes,
                        counted(&cpu_counts(&job))
                    ));
                }
                Ok(job)
            }
            Ok(job) => {
                output::error_line(format!(
                    "srun: error: Job allocation {job_id} has been revoked: {}",
                    job.state.name()
                ));
                Err(1)
            }
            Err(error) => {
                output::error_line(format!(
                    "srun: error: Unable to allocate resources: {error}"
                ));
                Err(1)
            }
        }
    }

    fn immediate_code(&self) -> i32 {
        self.place
            .variable("SLURM_EXIT_IMMEDIATE")
            .and_then(|text| text.parse().ok())
            .unwrap_or(1)
    }
}

/// `4(x2),2(x1)`: srun tells every count, also of one node.
fn counted(counts: &[u32]) -> String {
    let texts: Vec<String> = counts
        .chunk_by(|one, other| one == other)
        .map(|run| format!("{}(x{})", run[0], run.len()))
        .collect();
    texts.join(",")
}

/// Ends at SIGINT, SIGTERM or SIGHUP.
pub(super) async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut hup)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = term.recv() => {}
        _ = hup.recv() => {}
    }
}

async fn maybe_sleep(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}
