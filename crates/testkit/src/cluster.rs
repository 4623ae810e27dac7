//! A private cluster: its daemons, started, killed and started again, and the commands that talk to it.
//!
//! Invariant: whatever way the value goes (dropped, its process killed), no process of the cluster stays, unless
//! [`Cluster::keep`] was called. A temporary folder goes with it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::binaries::BinDir;
use crate::builder::ClusterBuilder;
use crate::conf::{ConfFiles, Layout};
use crate::description::{DaemonRecord, Description, Role};
use crate::down::{kill_leftovers, take_down};
use crate::guard::Guard;
use crate::ports::PortRun;
use crate::process::{CLUSTER_DIR_VARIABLE, ProcessId, processes_of};
use crate::run::{Finished, run_with_deadline};
use crate::wait::{wait_for, wait_until};

/// How long one command may take in a test before it counts as hanging.
const COMMAND_DEADLINE: Duration = Duration::from_secs(60);
/// How much of each log is shown when a test fails.
const LOG_TAIL_LINES: usize = 60;

struct Running {
    record: DaemonRecord,
    child: Child,
}

/// How a daemon is started other than usually, see [`Cluster::wrap`].
#[derive(Debug, Clone, Default)]
pub struct Wrapping {
    /// A program with arguments that is put before the daemon's and becomes it (`ip netns exec NAME`).
    pub prefix: Vec<String>,
    /// More variables.
    pub variables: Vec<(String, String)>,
    /// Another configuration file.
    pub conf: Option<PathBuf>,
}

/// A private cluster in a folder.
pub struct Cluster {
    layout: Layout,
    conf: PathBuf,
    nodes: Vec<String>,
    bin: BinDir,
    configless: bool,
    /// By name: the host for `ctld`, the node for an agent.
    running: BTreeMap<String, Running>,
    wrappings: BTreeMap<String, Wrapping>,
    guard: Option<Guard>,
    _ports: PortRun,
    temporary: Option<TempDir>,
    kept: bool,
}

impl Cluster {
    /// Settings of a new cluster.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::new()
    }

    pub(crate) fn new(
        layout: Layout,
        conf: &ConfFiles,
        bin: BinDir,
        configless: bool,
        ports: PortRun,
        temporary: Option<TempDir>,
    ) -> Self {
        Self {
            conf: layout.path("etc").join(&conf.main),
            nodes: conf.nodes.clone(),
            layout,
            bin,
            configless,
            running: BTreeMap::new(),
            wrappings: BTreeMap::new(),
            guard: None,
            _ports: ports,
            temporary,
            kept: false,
        }
    }

    /// The cluster's folder.
    pub fn dir(&self) -> &Path {
        &self.layout.dir
    }

    /// Places and ports.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A path inside the folder.
    pub fn path(&self, below: &str) -> PathBuf {
        self.layout.path(below)
    }

    /// The configuration file, as `SLURM_CONF` names it.
    pub fn conf(&self) -> &Path {
        &self.conf
    }

    /// The folder of the commands, to be put in front of `PATH`.
    pub fn bin(&self) -> PathBuf {
        self.layout.path("bin")
    }

    /// A program that was built with the daemons and is no command of users (`sluice`).
    pub fn bin_program(&self, name: &str) -> PathBuf {
        self.bin.program(name)
    }

    /// Names of the nodes.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// From now on the daemon of `name` (`ctld` by host name, an agent by node name) is started in this way.
    pub fn wrap(&mut self, name: &str, wrapping: Wrapping) {
        self.wrappings.insert(name.to_owned(), wrapping);
    }

    fn conf_of(&self, name: &str) -> &Path {
        self.wrappings
            .get(name)
            .and_then(|wrapping| wrapping.conf.as_deref())
            .unwrap_or(&self.conf)
    }

    /// Starts `ctld`.
    ///
    /// # Errors
    /// When it runs already or cannot be started.
    pub fn start_ctld(&mut self) -> Result<()> {
        self.start_ctld_with::<&str>([])
    }

    /// Starts `ctld` with more arguments, `-i` for example.
    ///
    /// # Errors
    /// When it runs already or cannot be started.
    pub fn start_ctld_with<A: AsRef<OsStr>>(
        &mut self,
        args: impl IntoIterator<Item = A>,
    ) -> Result<()> {
        let host = self.layout.host.clone();
        let mut command = Command::new(self.bin.program("ctld"));
        command
            .args(["-D", "-f"])
            .arg(self.conf_of(&host))
            .args(args);
        self.launch(
            Role::Ctld,
            &host,
            self.layout.ctld_port,
            "ctld.out",
            command,
        )
    }

    /// Starts the agent of one node.
    ///
    /// # Errors
    /// When there is no such node, its agent runs already, or it cannot be started.
    pub fn start_agent(&mut self, node: &str) -> Result<()> {
        let nth = self
            .nodes
            .iter()
            .position(|name| name == node)
            .with_context(|| format!("no node {node} in this cluster"))?;
        let port = self.layout.node_ports.get(nth).copied().unwrap_or_default();
        let mut command = Command::new(self.bin.program("agentd"));
        command.args(["-D", "-N", node]);
        if self.configless {
            let address = format!("127.0.0.1:{}", self.layout.ctld_port);
            command.args(["--conf-server", address.as_str()]);
            // An agent proves itself with the cluster's key, which an operator puts on each node.
            command
                .arg("--key-file")
                .arg(self.path("state/jwt_hs256.key"));
        } else {
            command.arg("-f").arg(self.conf_of(node));
        }
        let out = format!("agentd-{node}.out");
        self.launch(Role::Agentd, node, port, &out, command)
    }

    fn launch(
        &mut self,
        role: Role,
        name: &str,
        port: u16,
        out: &str,
        mut command: Command,
    ) -> Result<()> {
        if self.running.contains_key(name) {
            bail!("the {} of {name} runs already", role.program());
        }
        let log = self.layout.path("log").join(out);
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("cannot open {}", log.display()))?;
        if let Some(wrapping) = self.wrappings.get(name) {
            if let Some((program, args)) = wrapping.prefix.split_first() {
                let mut outer = Command::new(program);
                outer
                    .args(args)
                    .arg(command.get_program())
                    .args(command.get_args());
                command = outer;
            }
            command.envs(wrapping.variables.iter().cloned());
        }
        remove_slurm_variables(&mut command);
        let child = command
            .env(CLUSTER_DIR_VARIABLE, &self.layout.dir)
            .env("RUST_BACKTRACE", "1")
            .current_dir(&self.layout.dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", role.program()))?;
        let process = ProcessId::of(child.id()).context("the started daemon has no process")?;
        let record = DaemonRecord {
            role,
            name: name.to_owned(),
            process,
            port,
        };
        self.running
            .insert(name.to_owned(), Running { record, child });
        self.describe()?;
        if self.guard.is_none() {
            self.guard = Some(self.new_guard()?);
        }
        Ok(())
    }

    fn describe(&self) -> Result<()> {
        let mut daemons: Vec<DaemonRecord> = self
            .running
            .values()
            .map(|running| running.record.clone())
            .collect();
        daemons.sort_by_key(|daemon| daemon.role == Role::Agentd);
        Description {
            cluster: self.layout.cluster_name.clone(),
            conf: self.conf.clone(),
            bin: self.bin(),
            daemons,
        }
        .write(&self.layout.dir)
    }

    fn new_guard(&self) -> Result<Guard> {
        let sluice = self.bin.program("sluice");
        let remove = if self.temporary.is_some() {
            "remove"
        } else {
            "leave"
        };
        Guard::start(
            "\"$1\" down \"$2\"; if [ \"$3\" = remove ]; then rm -rf \"$2\"; fi",
            [
                sluice.as_os_str(),
                self.layout.dir.as_os_str(),
                OsStr::new(remove),
            ],
        )
    }

    /// Kills `ctld` with SIGKILL.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill_ctld(&mut self) -> Result<()> {
        let host = self.layout.host.clone();
        self.end(&host, Signal::SIGKILL)
    }

    /// Stops `ctld` with SIGTERM and waits for its end.
    ///
    /// # Errors
    /// When it does not run, or does not end.
    pub fn stop_ctld(&mut self) -> Result<()> {
        let host = self.layout.host.clone();
        self.end(&host, Signal::SIGTERM)
    }

    /// Kills the agent of a node with SIGKILL; the node's step daemons and tasks go on.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill_agent(&mut self, node: &str) -> Result<()> {
        self.end(node, Signal::SIGKILL)
    }

    /// Stops the agent of a node with SIGTERM and waits for its end.
    ///
    /// # Errors
    /// When it does not run, or does not end.
    pub fn stop_agent(&mut self, node: &str) -> Result<()> {
        self.end(node, Signal::SIGTERM)
    }

    fn end(&mut self, name: &str, signal: Signal) -> Result<()> {
        let mut running = self
            .running
            .remove(name)
            .with_context(|| format!("no daemon of {name} runs"))?;
        running.record.process.signal(signal);
        let program = running.record.role.program();
        wait_until(
            Duration::from_secs(20),
            &format!("{program} of {name} to end after {signal}"),
            || matches!(running.child.try_wait(), Ok(Some(_))),
        )?;
        self.describe()
    }

    /// Whether a daemon (`ctld` by host name, an agent by node name) that was started is still running.
    pub fn is_running(&self, name: &str) -> bool {
        self.running
            .get(name)
            .is_some_and(|running| running.record.process.is_alive())
    }

    /// Step daemons, job processes and what they started: everything that runs of this cluster besides its daemons.
    pub fn job_processes(&self) -> Vec<ProcessId> {
        let daemons: Vec<ProcessId> = self
            .running
            .values()
            .map(|running| running.record.process)
            .collect();
        processes_of(&self.layout.dir)
            .into_iter()
            .filter(|process| !daemons.contains(process))
            .collect()
    }

    /// Waits until every node is idle.
    ///
    /// # Errors
    /// When `deadline` is over or a daemon has ended; the message has the last state seen and the logs' ends.
    pub fn wait_ready(&self, deadline: Duration) -> Result<()> {
        let mut ended = None;
        let ready = wait_for(deadline, "all nodes to be idle", || {
            ended = self
                .running
                .values()
                .find(|running| !running.record.process.is_alive())
                .map(|running| running.record.clone());
            if ended.is_some() {
                return Ok(());
            }
            self.all_idle()
        });
        match (ready, ended) {
            (Ok(()), Some(daemon)) => bail!(
                "{} of {} ended while starting\n{}",
                daemon.role.program(),
                daemon.name,
                self.log_tails()
            ),
            (Err(error), _) => bail!("{error}\n{}", self.log_tails()),
            (Ok(()), None) => Ok(()),
        }
    }

    fn all_idle(&self) -> Result<(), String> {
        let nodes = self
            .run("sinfo", ["-h", "-N", "-o", "%N %T"])
            .and_then(Finished::success)
            .map_err(|error| error.to_string())?;
        let idle: std::collections::BTreeSet<&str> = nodes
            .lines()
            .filter_map(|line| line.trim().strip_suffix(" idle"))
            .collect();
        if self.nodes.iter().all(|name| idle.contains(name.as_str())) {
            Ok(())
        } else {
            Err(nodes)
        }
    }

    /// A command of this cluster (`sbatch`, `scontrol`, …) with `PATH` and `SLURM_CONF` set and no other Slurm variable.
    pub fn command(&self, name: &str) -> Command {
        self.program(&self.bin().join(name))
    }

    /// Any program, with the environment of [`Cluster::command`]: a tool that itself calls the commands.
    pub fn program(&self, path: &Path) -> Command {
        let mut command = Command::new(path);
        remove_slurm_variables(&mut command);
        command
            .env("PATH", self.path_variable())
            .env("SLURM_CONF", &self.conf)
            .current_dir(self.path("work"))
            .stdin(Stdio::null());
        command
    }

    /// The value of `PATH` with which the cluster's commands are found first.
    pub fn path_variable(&self) -> std::ffi::OsString {
        let old = std::env::var_os("PATH").unwrap_or_default();
        let dirs = std::iter::once(self.bin()).chain(std::env::split_paths(&old));
        // A folder with a colon in its name cannot be in PATH; ours has none unless the caller chose one.
        std::env::join_paths(dirs).unwrap_or(old)
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// When it cannot be started or hangs. A non-zero exit code is not an error here: see [`Finished::success`].
    pub fn run<A: AsRef<OsStr>>(
        &self,
        name: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Finished> {
        let mut command = self.command(name);
        command.args(args);
        run_with_deadline(command, COMMAND_DEADLINE)
    }

    /// The last lines of every log.
    pub fn log_tails(&self) -> String {
        let mut text = String::new();
        let mut logs: Vec<PathBuf> = std::fs::read_dir(self.path("log"))
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        logs.sort();
        for log in logs {
            let bytes = std::fs::read(&log).unwrap_or_default();
            let content = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = content.lines().collect();
            if lines.is_empty() {
                continue;
            }
            text.push_str(&format!("--- end of {}\n", log.display()));
            for line in &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..] {
                text.push_str(line);
                text.push('\n');
            }
        }
        text
    }

    /// Ends the daemons gently, then everything that is left of the cluster's jobs.
    ///
    /// # Errors
    /// When a process cannot be ended.
    pub fn stop(mut self) -> Result<()> {
        self.shut_down()
    }

    /// Leaves the cluster running for good; `sluice down` ends it. Gives its folder.
    pub fn keep(mut self) -> PathBuf {
        self.kept = true;
        if let Some(guard) = self.guard.take() {
            guard.disarm();
        }
        if let Some(temporary) = self.temporary.take() {
            let _ = temporary.keep();
        }
        self.layout.dir.clone()
    }

    fn shut_down(&mut self) -> Result<()> {
        if self.guard.is_none() {
            return Ok(());
        }
        let report = take_down(&self.layout.dir);
        for running in self.running.values_mut() {
            // Killed or ended by now; this reaps it.
            let _ = running.child.wait();
        }
        self.running.clear();
        kill_leftovers(&self.layout.dir)?;
        if let Some(guard) = self.guard.take() {
            guard.disarm();
        }
        report.map(drop)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        if std::thread::panicking() {
            eprintln!("{}", self.log_tails());
        }
        if let Err(error) = self.shut_down() {
            eprintln!(
                "could not end the cluster in {}: {error:#}",
                self.dir().display()
            );
        }
    }
}

/// A test that itself runs inside a job must not lend its job to the private cluster.
fn remove_slurm_variables(command: &mut Command) {
    const PREFIXES: &[&str] = &[
        "SLURM", "SBATCH_", "SALLOC_", "SACCT_", "SQUEUE_", "SINFO_", "SCANCEL_", "SPRIO_",
    ];
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if PREFIXES.iter().any(|prefix| text.starts_with(prefix)) || text == "NOTIFY_SOCKET" {
            command.env_remove(&name);
        }
    }
}

#[cfg(test)]
mod tests;
