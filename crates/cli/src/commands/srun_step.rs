//! The step of srun: what it asks for, its creation, and the time until its tasks have ended.
//!
//! The other half, the allocation, is in [`super::srun`]. Source: srun(1).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sluice_model::error_code::ErrorCode;
use sluice_model::exit_status::WaitStatus;
use sluice_model::filename::FilenameContext;
use sluice_model::job::{JobDescription, JobInfo, OpenMode};
use sluice_model::signal::Signal;
use sluice_model::step::{StepDescription, StepOptions};

use super::broadcast::{Copying, nodes_of, wanted_libraries, with_name};
use super::caller::user_name;
use super::sbatch::SUBMIT_PATIENCE;
use super::srun::{Allocation, Srun, interrupted};
use super::srun_inherit;
use super::srun_streams::{Streams, has_terminal};
use crate::client::address::{address_towards, random_text};
use crate::client::calls::CreatedStep;
use crate::client::{Client, ClientError};
use crate::launch::listener::Listener;
use crate::launch::session::{Session, SessionOptions};
use crate::launch::streams::{OpenError, Sink, SinkOptions, StreamMode};
use crate::launch::tasks::TaskTable;
use crate::launch::{allocation_environment, terminal};
use crate::output;
use crate::submit::effects::extra;
use crate::submit::environment::{Export, to_strings};
use crate::submit::options::Layer;

/// Pauses between attempts to create a step in a busy allocation.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(50);
/// See [`RETRY_PAUSE_MIN`].
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(2);

impl Srun {
    pub(super) async fn step(
        &self,
        client: &mut Client,
        allocation: &Allocation,
        job: &JobDescription,
    ) -> StepEnd {
        if !self.local_script("prolog", client) {
            return StepEnd::failed();
        }
        let end = match self.launch(client, allocation, job).await {
            Ok(end) => end,
            Err(code) => StepEnd {
                exit_code: code,
                record: WaitStatus::exited(code),
            },
        };
        self.local_script("epilog", client);
        end
    }

    /// `--prolog` and `--epilog` run here, not on the nodes, and are told the command line.
    fn local_script(&self, name: &str, client: &Client) -> bool {
        let configured = match name {
            "prolog" => client.settings.srun_prolog.as_deref(),
            _ => client.settings.srun_epilog.as_deref(),
        };
        let Some(program) = self
            .options
            .get(name)
            .or(configured)
            .filter(|program| !program.eq_ignore_ascii_case("none"))
        else {
            return true;
        };
        let run = std::process::Command::new(program)
            .args(&self.argv)
            .env("SLURM_SCRIPT_CONTEXT", format!("{name}_srun"))
            .status();
        match run {
            Ok(status) if status.success() => true,
            failed => {
                // What is wrong with an epilog is nobody's business any more.
                if name == "prolog" {
                    let code = failed.ok().and_then(|status| status.code()).unwrap_or(-1);
                    output::error_line(format!(
                        "srun: error: srun prolog failed rc = {code}. Aborting step."
                    ));
                }
                false
            }
        }
    }

    /// Copies the program to the nodes first; gives the path it has there and the folder of its libraries.
    async fn broadcast(
        &self,
        client: &Client,
        job_id: u32,
    ) -> Result<Option<(String, Option<PathBuf>)>, i32> {
        let Some(wanted) = self.options.get("bcast") else {
            return Ok(None);
        };
        let fail = |text: String| {
            output::error_line(format!(
                "srun: error: Failed to broadcast the program{}{text}",
                if text.is_empty() { "" } else { ": " }
            ));
            1
        };
        let program = self.argv.first().map(String::as_str).unwrap_or_default();
        let source = self
            .find_program(program)
            .ok_or_else(|| fail(format!("{program} is not there")))?;
        let target = match wanted {
            "" => format!("slurm_bcast_{job_id}.{}", std::process::id()).into(),
            path => with_name(path, &source),
        };
        let target = self.place.directory.join(target);
        let copying = Copying {
            job: job_id,
            nodes: nodes_of(client, job_id, None).await.map_err(fail)?,
            force: true,
            preserve: true,
        };
        let libraries = wanted_libraries(&self.options, "bcast-exclude");
        // Nothing else goes on meanwhile: the step comes after it.
        let folder = copying
            .copy_program(&source, &target, libraries.as_deref())
            .map_err(fail)?;
        Ok(Some((target.to_string_lossy().into_owned(), folder)))
    }

    fn find_program(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(self.place.directory.join(name)).filter(|path| path.is_file());
        }
        self.place
            .variable("PATH")?
            .split(':')
            .map(|folder| Path::new(folder).join(name))
            .find(|path| path.is_file())
    }

    async fn launch(
        &self,
        client: &mut Client,
        allocation: &Allocation,
        job: &JobDescription,
    ) -> Result<StepEnd, i32> {
        let streams = Streams::new(&self.options);
        if let StreamMode::File(path) = &streams.input
            && let Err(source) = std::fs::File::open(path)
        {
            let stream = "stdin";
            output::error_line(format!("srun: error: {}", OpenError { stream, source }));
            return Err(1);
        }
        let pty = self.options.has("pty") && has_terminal();
        let listener = Listener::bind(address_towards(&client.settings), random_text())
            .await
            .map_err(|error| {
                output::error_line(format!(
                    "srun: error: Unable to listen for the nodes: {error}"
                ));
                1
            })?;
        let mut step = self.description(client, allocation, job, &streams, &listener, pty);
        if let Some((program, libraries)) = self.broadcast(client, allocation.job_id).await? {
            if let Some(first) = step.argv.first_mut() {
                *first = program;
            }
            if let Some(folder) = libraries {
                prepend_library_path(&mut step.environment, &folder);
            }
        }
        let detached = self.options.has("async");
        if detached {
            step.io_address = String::new();
            step.std_out
                .get_or_insert_with(|| job.std_out.clone().unwrap_or("slurm-%J.out".to_string()));
        }
        let created = self.create(client, step).await?;
        if detached {
            if self.options.has("parsable") {
                output::line(format!("{}.{}", allocation.job_id, created.step_id));
            } else if self.options.count("verbose") > 0 {
                self.say(format!(
                    "StepId={}.{} goes on by itself",
                    allocation.job_id, created.step_id
                ));
            }
            return Ok(StepEnd {
                exit_code: 0,
                record: WaitStatus::SUCCESS,
            });
        }
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
                output::error_line(format!("srun: error: {error}"));
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
            self.say(format!(
                "CpuBindType={}",
                bind_type(self.options.get("cpu-bind").unwrap_or_default())
            ));
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
        let (tasks, lost) = session.run(events).await;
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
            command: "srun",
            attached: false,
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
            array_task_id: number("SLURM_ARRAY_TASK_ID").or(Some(0)),
            step_id: step_id.to_string(),
            node_name: self.place.host.clone(),
            user: user_name(self.place.uid),
            job_name: self
                .place
                .variable("SLURM_JOB_NAME")
                .or_else(|| job.name.clone())
                .unwrap_or_default(),
            sluid: self.place.variable("SLURM_JOB_SLUID").unwrap_or_default(),
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
            // What follows the file's name goes to every one of its programs.
            argv: if self.multi_prog.is_some() {
                self.argv.iter().skip(1).cloned().collect()
            } else {
                self.argv.clone()
            },
            options: StepOptions {
                multi_prog: self.multi_prog.clone(),
                mem_bind: job.mem_bind.clone(),
                host_list: self.host_list.clone(),
                wait_for_children: options.has("wait-for-children"),
                oom_kill_step: options.get("oom-kill-step").map(|text| text != "0"),
                preserve_env: options.has("preserve-env"),
                external_launcher: options.has("external-launcher"),
            },
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
            let mark = "own-allocation".to_string();
            step.extra.insert(mark, String::new());
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
        if !self.host_list.is_empty() {
            step.ntasks = Some(self.host_list.len() as u32);
            step.ntasks_per_node = None;
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
            for (name, value) in srun_inherit::told(&self.options) {
                environment.insert(name.to_string(), value);
            }
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
                if self.options.count("verbose") > 0 {
                    self.say(format!(
                        "Job {} step creation temporarily disabled, retrying ({error})",
                        step.job_id
                    ));
                }
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
        output::error_with_hint(
            format!(
                "srun: error: Unable to create step for job {}: {error}",
                step.job_id
            ),
            error,
        );
        1
    }
}

/// Puts a folder before those where the program looks for libraries.
fn prepend_library_path(environment: &mut Vec<String>, folder: &Path) {
    const NAME: &str = "LD_LIBRARY_PATH=";
    let folder = folder.display();
    match environment.iter_mut().find(|entry| entry.starts_with(NAME)) {
        Some(entry) => *entry = format!("{NAME}{folder}:{}", &entry[NAME.len()..]),
        None => environment.push(format!("{NAME}{folder}")),
    }
}

/// The type of binding as `-v` shows it: words without their lists.
fn bind_type(text: &str) -> String {
    let words: Vec<&str> = text
        .split(',')
        .filter(|part| !part.starts_with(|first: char| first.is_ascii_digit()))
        .map(|part| part.split([':', '=']).next().unwrap_or(part))
        .filter(|word| !word.is_empty() && *word != "quiet" && *word != "q")
        .collect();
    if words.is_empty() {
        "(null type)".to_string()
    } else {
        words.join(",")
    }
}

/// How the step ended.
pub(super) struct StepEnd {
    /// Of srun.
    pub exit_code: i32,
    /// For the record of the allocation.
    pub record: WaitStatus,
}

impl StepEnd {
    fn failed() -> Self {
        Self {
            exit_code: 1,
            record: WaitStatus::exited(1),
        }
    }
}
