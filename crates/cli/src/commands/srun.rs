//! srun: runs parallel tasks, in the allocation it is called in or in one of its own.
//!
//! Order of the steps and all texts are Slurm's. An allocation made here is given back whatever happens. Source: srun(1).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_model::error_code::ErrorCode;
use sluice_model::exit_status::WaitStatus;
use sluice_model::filename::FilenameContext;
use sluice_model::job::{JobDescription, JobInfo, OpenMode};
use sluice_model::signal::Signal;
use sluice_model::step::StepDescription;

use super::caller::{Place, user_name};
use super::sbatch::{SUBMIT_PATIENCE, print_options, print_submit_error, print_test, refuse, send};
use super::{block_on, watch};
use crate::client::address::{address_towards, random_text};
use crate::client::calls::CreatedStep;
use crate::client::{Client, ClientError};
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::launch::listener::Listener;
use crate::launch::session::{Session, SessionOptions};
use crate::launch::streams::{Sink, SinkOptions, StreamMode};
use crate::launch::tasks::TaskTable;
use crate::launch::{allocation_environment, cancel_job, terminal};
use crate::output;
use crate::submit::Refusal;
use crate::submit::description::{describe, extra, request_variables};
use crate::submit::environment::{Export, to_strings};
use crate::submit::options::{Layer, Options};

/// Pauses between attempts to create a step in a busy allocation.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(50);
/// See [`RETRY_PAUSE_MIN`].
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(2);

/// Runs srun.
pub fn run(parsed: &Parsed, line: &[String]) -> i32 {
    let place = Place::here();
    let options = Options::new(
        Command::Srun,
        &Parsed::default(),
        |name| place.variable(name),
        parsed,
    );
    if options.get("mpi") == Some("list") {
        output::error_line("MPI plugin types are...\n\tnone");
        return 0;
    }
    if let Some(refusal) = refused_early(&options, parsed) {
        return refuse(&refusal, "srun");
    }
    print_options(&options);
    let caller = place.caller(line);
    let mut job = match describe(&options, &caller) {
        Ok(request) => {
            for warning in &request.warnings {
                output::error_line(format!("srun: warning: {warning}"));
            }
            request.job
        }
        Err(refusal) => return refuse(&refusal, "srun"),
    };
    let variables = request_variables(&options, &caller, &job);
    let program = parsed
        .operands
        .first()
        .map(|path| base_name(path))
        .unwrap_or_default();
    // A name from the environment is the batch job's; only the command line names a step.
    let step_name = (options.layer("job-name") == Some(Layer::CommandLine))
        .then(|| job.name.clone())
        .flatten()
        .unwrap_or(program);
    job.name = Some(step_name);
    job.command = parsed.operands.first().cloned();
    let code = block_on(
        Srun {
            options,
            place: place.clone(),
            variables,
            argv: parsed.operands.clone(),
        }
        .run(job),
    );
    match place
        .variable("SLURM_EXIT_ERROR")
        .and_then(|text| text.parse().ok())
    {
        Some(other) if code == 1 => other,
        _ => code,
    }
}

fn base_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_string()
}

fn refused_early(options: &Options, parsed: &Parsed) -> Option<Refusal> {
    if parsed.operands.is_empty() && !options.has("test-only") {
        return Some(Refusal::fatal("No command given to execute."));
    }
    for name in ["multi-prog", "no-allocate", "het-group", "bcast", "async"] {
        if options.has(name) {
            return Some(Refusal::error(format!("--{name} is not supported yet")));
        }
    }
    let pty = options.has("pty");
    if pty && (options.has("immediate") && options.layer("immediate") == Some(Layer::CommandLine)) {
        return Some(Refusal::fatal(
            "--pty and --immediate are mutually exclusive.",
        ));
    }
    None
}

/// One call of srun.
struct Srun {
    options: Options,
    place: Place,
    variables: BTreeMap<String, String>,
    argv: Vec<String>,
}

/// The allocation the step runs in.
struct Allocation {
    job_id: u32,
    /// Set when srun made it itself.
    own: Option<Box<JobInfo>>,
}

impl Srun {
    fn say(&self, text: impl AsRef<str>) {
        if !self.options.has("quiet") {
            output::error_line(format!("srun: {}", text.as_ref()));
        }
    }

    async fn run(self, job: JobDescription) -> i32 {
        let mut client = match Client::connect(SUBMIT_PATIENCE).await {
            Ok(client) => client,
            Err(error) => {
                print_submit_error("srun", "Unable to allocate resources", &job, &error);
                return 1;
            }
        };
        let existing = match self.options.get("jobid").map(str::parse::<u32>) {
            None => None,
            Some(Ok(id)) => Some(id),
            Some(Err(_)) => return refuse(&Refusal::invalid("jobid"), "srun"),
        };
        let allocation = match existing {
            Some(job_id) if !self.options.has("test-only") => {
                if let Err(code) = self.confirm(&client, job_id).await {
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
            && let Err(error) = client
                .complete_allocation(allocation.job_id, status.record.0)
                .await
            && error.code().is_none()
        {
            output::error_line(format!(
                "srun: error: Unable to give back allocation {}: {error}",
                allocation.job_id
            ));
        }
        status.exit_code
    }

    /// Checks that the job of SLURM_JOB_ID is there and ready.
    async fn confirm(&self, client: &Client, job_id: u32) -> Result<(), i32> {
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
            Ok(_) => Ok(()),
            Err(error) => refuse(error.to_string()),
        }
    }

    async fn allocate(&self, client: &mut Client, job: &JobDescription) -> Result<Allocation, i32> {
        const WHAT: &str = "Unable to allocate resources";
        let mut job = job.clone();
        job.batch = false;
        job.submission_key = random_text();
        let test_only = self.options.has("test-only");
        let submitted = send(client, &job, test_only).await.map_err(|error| {
            if error.code() != Some(ErrorCode::InvalidGres) {
                print_submit_error("srun", WHAT, &job, &error);
            } else {
                output::error_line(format!("srun: error: {WHAT}: {error}"));
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

    async fn step(
        &self,
        client: &mut Client,
        allocation: &Allocation,
        job: &JobDescription,
    ) -> StepEnd {
        if !self.local_script("prolog") {
            return StepEnd::failed();
        }
        let end = match self.launch(client, allocation, job).await {
            Ok(end) => end,
            Err(code) => StepEnd {
                exit_code: code,
                record: WaitStatus::exited(code),
            },
        };
        self.local_script("epilog");
        end
    }

    /// `--prolog` and `--epilog` run here, not on the nodes.
    fn local_script(&self, name: &str) -> bool {
        let Some(program) = self
            .options
            .get(name)
            .filter(|program| !program.eq_ignore_ascii_case("none"))
        else {
            return true;
        };
        match std::process::Command::new(program).status() {
            Ok(status) if status.success() => true,
            Ok(status) => {
                output::error_line(format!("srun: error: {name} {program} failed: {status}"));
                false
            }
            Err(error) => {
                output::error_line(format!("srun: error: {name} {program}: {error}"));
                false
            }
        }
    }

    async fn launch(
        &self,
        client: &mut Client,
        allocation: &Allocation,
        job: &JobDescription,
    ) -> Result<StepEnd, i32> {
        let streams = Streams::new(&self.options);
        let pty = self.options.has("pty");
        let listener = Listener::bind(address_towards(&client.settings), random_text())
            .await
            .map_err(|error| {
                output::error_line(format!(
                    "srun: error: Unable to listen for the nodes: {error}"
                ));
                1
            })?;
        let step = self.description(client, allocation, job, &streams, &listener, pty);
        let created = self.create(client, step).await?;
        let names = self.names(allocation.job_id, created.step_id, job);
        let sink_options = SinkOptions {
            label: self.options.has("label"),
            unbuffered: self.options.has("unbuffered") || pty,
            tasks: created.tasks,
            open_mode: job.open_mode.unwrap_or(OpenMode::Truncate),
        };
        let directory = std::path::Path::new(&job.work_dir);
        let events = listener.start();
        let sink = match Sink::open(
            &streams.output,
            &streams.error,
            sink_options,
            directory,
            &names,
        ) {
            Ok(sink) => sink,
            Err(error) => {
                output::error_line(format!("srun: error: Could not open stdout file: {error}"));
                let _ = crate::launch::signal_step(
                    client,
                    allocation.job_id,
                    created.step_id,
                    Signal::KILL.number(),
                )
                .await;
                return Err(1);
            }
        };
        let tasks = TaskTable::new(&created.layout);
        if self.options.count("verbose") > 0 {
            for (index, node) in tasks.nodes().iter().enumerate() {
                let ranks = tasks.tasks_of(index);
                self.say(format!(
                    "launching StepId={}.{} on host {node}, {} tasks: {}",
                    allocation.job_id,
                    created.step_id,
                    ranks.len(),
                    ranks
                        .iter()
                        .copied()
                        .collect::<sluice_model::array::IndexSet>()
                ));
            }
        }
        let session = Session::new(
            client.clone(),
            tasks,
            sink,
            self.session_options(
                client,
                allocation.job_id,
                created.step_id,
                streams.input,
                pty,
            ),
        );
        let raw = pty.then(terminal::RawMode::enter);
        let (tasks, lost) = session.run(events).await;
        drop(raw);
        let code = tasks.exit_code().max(i32::from(lost));
        let record = if tasks.wait_status().is_success() && lost {
            WaitStatus::exited(1)
        } else {
            tasks.wait_status()
        };
        Ok(StepEnd {
            exit_code: code,
            record,
        })
    }

    fn session_options(
        &self,
        client: &Client,
        job_id: u32,
        step_id: u32,
        input: StreamMode,
        pty: bool,
    ) -> SessionOptions {
        let wait = match self
            .options
            .get("wait")
            .and_then(|text| text.parse::<u32>().ok())
        {
            Some(seconds) => seconds,
            None => client.settings.wait_time_secs,
        };
        SessionOptions {
            job_id,
            step_id,
            kill_on_bad_exit: self
                .kill_on_bad_exit()
                .unwrap_or(client.settings.kill_on_bad_exit),
            wait: (wait > 0).then(|| Duration::from_secs(u64::from(wait))),
            quit_on_interrupt: self.options.has("quit-on-interrupt"),
            disable_status: self.options.has("disable-status"),
            verbose: self.options.count("verbose"),
            quiet: self.options.has("quiet"),
            pty,
            input,
            ignored_signals: self
                .options
                .get("ignore-signals")
                .unwrap_or_default()
                .split(',')
                .filter_map(|name| name.parse::<Signal>().ok())
                .map(Signal::number)
                .collect(),
        }
    }

    fn kill_on_bad_exit(&self) -> Option<bool> {
        self.options.get("kill-on-bad-exit").map(|text| text != "0")
    }

    fn names(&self, job_id: u32, step_id: u32, job: &JobDescription) -> FilenameContext {
        let number = |name: &str| self.place.variable(name).and_then(|text| text.parse().ok());
        FilenameContext {
            job_id,
            array_job_id: number("SLURM_ARRAY_JOB_ID"),
            array_task_id: number("SLURM_ARRAY_TASK_ID"),
            step_id: step_id.to_string(),
            node_name: self.place.host.clone(),
            user: user_name(self.place.uid),
            job_name: self
                .place
                .variable("SLURM_JOB_NAME")
                .or_else(|| job.name.clone())
                .unwrap_or_default(),
            ..FilenameContext::default()
        }
    }

    fn description(
        &self,
        client: &Client,
        allocation: &Allocation,
        job: &JobDescription,
        streams: &Streams,
        listener: &Listener,
        pty: bool,
    ) -> StepDescription {
        let options = &self.options;
        let own = allocation.own.as_deref();
        let mut step = StepDescription {
            job_id: allocation.job_id,
            name: job.name.clone().unwrap_or_default(),
            min_nodes: job.min_nodes,
            max_nodes: job.max_nodes,
            ntasks: job.ntasks,
            ntasks_per_node: job.ntasks_per_node,
            cpus_per_task: job.cpus_per_task,
            mem_per_node: job.mem_per_node,
            mem_per_cpu: job.mem_per_cpu,
            gres_per_node: job.gres_per_node.clone(),
            gres_per_step: job.gres_per_job.clone(),
            gres_per_task: job.gres_per_task.clone(),
            required_nodes: job.required_nodes.clone(),
            excluded_nodes: job.excluded_nodes.clone(),
            relative_node: options.get("relative").and_then(|text| text.parse().ok()),
            exact: options.has("exact") || options.has("exclusive") || job.cpus_per_task.is_some(),
            overlap: options.has("overlap") || options.has("external-launcher"),
            overcommit: job.overcommit,
            distribution: job.distribution.clone(),
            cpu_bind: job.cpu_bind.clone(),
            gpu_bind: job.gpu_bind.clone(),
            time_limit: job.time_limit,
            kill_on_bad_exit: self.kill_on_bad_exit(),
            interactive: false,
            argv: self.argv.clone(),
            environment: to_strings(&self.environment(client, own, listener)),
            work_dir: job.work_dir.clone(),
            umask: job.umask,
            rlimits: job.rlimits.clone(),
            std_in: streams.input.for_nodes(),
            std_out: streams.output.for_nodes(),
            std_err: streams.error.for_nodes(),
            open_mode: job.open_mode,
            pty: pty.then(terminal::size),
            task_prolog: options.get("task-prolog").map(String::from),
            task_epilog: options.get("task-epilog").map(String::from),
            io_address: listener.address.to_string(),
            io_secret: listener.secret.clone(),
            srun_host: self.place.host.clone(),
            srun_pid: std::process::id(),
            submission_key: random_text(),
            extra: extra(options),
        };
        if let Some(own) = own {
            // The step fills the allocation that was made for it.
            step.min_nodes = Some(own.num_nodes);
            step.max_nodes = Some(own.num_nodes);
            step.ntasks = Some(own.num_tasks.max(1));
            step.required_nodes = None;
            step.excluded_nodes = None;
            step.exact = false;
            step.time_limit = None;
        } else if self.options.layer("time") != Some(Layer::CommandLine) {
            step.time_limit = None;
        }
        if pty {
            step.ntasks = step.ntasks.or(Some(1));
        }
        step
    }

    fn environment(
        &self,
        client: &Client,
        own: Option<&JobInfo>,
        listener: &Listener,
    ) -> BTreeMap<String, String> {
        let export = Export::parse(self.options.get("export").unwrap_or("ALL"));
        let mut environment = export.apply(&self.place.environment);
        if !export.nil {
            let mut set = |name: &str, value: String| {
                environment.insert(format!("SLURM_{name}"), value);
            };
            set("LAUNCH_NODE_IPADDR", listener.address.ip().to_string());
            set("SRUN_COMM_HOST", listener.address.ip().to_string());
            set("SRUN_COMM_PORT", listener.address.port().to_string());
            set("STEP_LAUNCHER_PORT", listener.address.port().to_string());
            set("PRIO_PROCESS", "0".to_string());
            if let Some(own) = own {
                environment.extend(self.variables.clone());
                environment.extend(allocation_environment(own, &client.settings.cluster));
            }
        }
        environment
    }

    /// Creates the step, waiting while its resources are in use by other steps.
    async fn create(&self, client: &mut Client, step: StepDescription) -> Result<CreatedStep, i32> {
        let immediate = self
            .options
            .get("immediate")
            .map(|text| Duration::from_secs(text.parse().unwrap_or(0)));
        let begun = Instant::now();
        let mut pause = RETRY_PAUSE_MIN;
        let mut told = false;
        loop {
            let error = match client.create_step(step.clone()).await {
                Ok(created) => {
                    if told {
                        self.say(format!(
                            "Step created for StepId={}.{}",
                            step.job_id, created.step_id
                        ));
                    }
                    return Ok(created);
                }
                Err(error) => error,
            };
            let busy = matches!(
                error.code(),
                Some(
                    ErrorCode::NodesBusy
                        | ErrorCode::PortsBusy
                        | ErrorCode::PrologRunning
                        | ErrorCode::InterconnectBusy
                )
            );
            let out_of_time = immediate.is_some_and(|limit| begun.elapsed() >= limit);
            if error.is_contact() {
                *client = Client::connect_to(client.settings.clone(), SUBMIT_PATIENCE)
                    .await
                    .map_err(|error| self.create_failed(&step, &error))?;
            } else if !busy || out_of_time {
                return Err(self.create_failed(&step, &error));
            } else if !told {
                told = true;
                self.say(format!(
                    "Job {} step creation temporarily disabled, retrying ({error})",
                    step.job_id
                ));
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = interrupted() => {
                    self.say("Cancelled pending job step");
                    return Err(1);
                }
            }
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
        }
    }

    fn create_failed(&self, step: &StepDescription, error: &ClientError) -> i32 {
        output::error_with_hint(format!("srun: error: Unable to create step for job {}: {error}", step.job_id), error);
        1
    }
}

/// How the step ended.
struct StepEnd {
    exit_code: i32,
    record: WaitStatus,
}

impl StepEnd {
    fn failed() -> Self {
        Self {
            exit_code: 1,
            record: WaitStatus::exited(1),
        }
    }
}

/// What the three stream options ask for.
struct Streams {
    input: StreamMode,
    output: StreamMode,
    error: StreamMode,
}

impl Streams {
    fn new(options: &Options) -> Self {
        let output = StreamMode::parse(options.get("output"));
        // Without --error, errors go where output goes.
        let error = if options.has("error") {
            StreamMode::parse(options.get("error"))
        } else {
            output.clone()
        };
        Self {
            input: StreamMode::parse(options.get("input")),
            output,
            error,
        }
    }
}

/// Ends at SIGINT, SIGTERM or SIGHUP.
async fn interrupted() {
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
