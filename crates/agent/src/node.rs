//! This node as configured: its line, its paths, and what follows from them for scripts and steps.
//!
//! Replaced as a whole when the configuration changes. Building one reads mounts and makes control group folders; using
//! one does no I/O.

use std::path::PathBuf;
use std::time::Duration;

use sluice_config::{ClusterConfig, NodeConfig, NodeScript, expand_node_path};
use sluice_model::ids::StepId;
use sluice_model::job::GresAllocation;
use sluice_model::launch::{JobOnNode, StepLaunch};
use sluice_model::memory::MemoryMib;
use sluice_model::node::NodeHardware;
use sluice_model::time::UnixSeconds;
use sluice_stepd::spec::{CpuPlace, NodeSettings, StepSpec};

use crate::core::CoreSettings;
use crate::sys::cgroup_base::{self, CgroupBase};
use crate::sys::gres::{self, GpuAudience};
use crate::sys::hardware::{self, MachineCpu};

/// Where a configuration came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSource {
    /// The main file, for `SLURM_CONF`; fetched configurations have one in the spool.
    pub path: PathBuf,
    /// Version of the bundle.
    pub version: u64,
    /// Hosts it is fetched from; empty = it is a local file.
    pub servers: Vec<String>,
}

/// Why this agent cannot be a node of the cluster.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// `-N` names no node.
    #[error("node {0} is not in the configuration\n\nhint: -N takes a NodeName of slurm.conf")]
    UnknownName(String),
    /// No node has this host's name.
    #[error(
        "no node of the configuration has the host name {0}\n\nhint: set NodeHostname, or say which node this is with -N"
    )]
    UnknownHost(String),
}

/// The node.
#[derive(Debug, Clone)]
pub struct NodeContext {
    /// Whole configuration.
    pub config: ClusterConfig,
    /// This node's line.
    pub node: NodeConfig,
    /// Where the configuration came from.
    pub source: ConfigSource,
    /// Spool directory.
    pub spool: PathBuf,
    /// Places of the cluster's key.
    pub key_files: Vec<PathBuf>,
    /// Text of `--conf`.
    pub overrides: Option<String>,
    cgroup: Option<CgroupBase>,
    machine_cpus: Vec<MachineCpu>,
    /// Every CPU of the node by abstract id; none without task/affinity.
    cpu_places: Vec<CpuPlace>,
    started: UnixSeconds,
}

/// What the command line says about the node.
#[derive(Debug, Clone, Default)]
pub struct NodeChoice {
    /// `-N`.
    pub name: Option<String>,
    /// `--key-file` or the variable.
    pub key_file: Option<PathBuf>,
    /// `--conf`.
    pub overrides: Option<String>,
}

/// The node this agent is.
///
/// # Errors
/// See [`NodeError`].
pub fn find_node(config: &ClusterConfig, name: Option<&str>) -> Result<NodeConfig, NodeError> {
    if let Some(name) = name {
        return config
            .node(name)
            .cloned()
            .ok_or_else(|| NodeError::UnknownName(name.to_owned()));
    }
    let host = hardware::short_hostname();
    let fits =
        |node: &&NodeConfig| node.hostname.split('.').next() == Some(&host) || node.name == host;
    config
        .nodes
        .iter()
        .find(fits)
        .cloned()
        .ok_or(NodeError::UnknownHost(host))
}

/// Where the cluster's key may lie, without what the command line says.
#[must_use]
pub fn key_files(config: &ClusterConfig, source: &ConfigSource) -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from(&config.auth.jwt_key)];
    if let Some(folder) = source.path.parent() {
        files.extend(["slurm.key", "jwt_hs256.key"].map(|name| folder.join(name)));
    }
    files
}

/// Every CPU of the node by abstract id: where it is, and the kernel's number. On a machine that is not what the configuration
/// says the abstract ids themselves stand for the numbers.
fn cpu_places(node: &NodeConfig, machine: &[MachineCpu]) -> Vec<CpuPlace> {
    let as_configured = machine.len() >= node.cpus as usize;
    let threads = node.threads_per_core.max(1);
    let cores = node.cores_per_socket.max(1);
    (0..node.cpus)
        .map(|id| {
            let core = id / threads;
            let number = machine
                .get(id as usize)
                .filter(|_| as_configured)
                .map_or(id, |cpu| cpu.number);
            CpuPlace {
                machine: number,
                socket: core / cores,
                core,
                ldom: hardware::numa_node(number)
                    .filter(|_| as_configured)
                    .unwrap_or(core / cores),
            }
        })
        .collect()
}

impl NodeContext {
    /// Puts everything together.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub fn new(
        config: ClusterConfig,
        source: ConfigSource,
        choice: &NodeChoice,
        started: UnixSeconds,
    ) -> Result<Self, NodeError> {
        let node = find_node(&config, choice.name.as_deref())?;
        let spool = PathBuf::from(expand_node_path(
            &config.paths.slurmd_spool_dir,
            &node.hostname,
            &node.name,
        ));
        let own = key_files(&config, &source);
        let key_files = choice.key_file.iter().cloned().chain(own).collect();
        let machine_cpus = hardware::machine_cpus();
        let cpu_places = if config.agent.task_affinity {
            cpu_places(&node, &machine_cpus)
        } else {
            Vec::new()
        };
        Ok(Self {
            cgroup: cgroup_base::prepare(&config, &node.name, &spool),
            machine_cpus,
            cpu_places,
            overrides: choice.overrides.clone(),
            config,
            node,
            source,
            spool,
            key_files,
            started,
        })
    }

    /// Takes back what was made outside the spool directory, as far as no step needs it.
    pub fn leave(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.remove();
        }
    }

    /// `%h`, `%n` replaced.
    pub fn expand(&self, pattern: &str) -> PathBuf {
        PathBuf::from(expand_node_path(
            pattern,
            &self.node.hostname,
            &self.node.name,
        ))
    }

    /// What the core has to know.
    pub fn core_settings(&self) -> CoreSettings {
        let timeouts = &self.config.timeouts;
        CoreSettings {
            kill_wait: Duration::from_secs(timeouts.kill_wait_secs.into()),
            unkillable_step: Duration::from_secs(timeouts.unkillable_step_secs.into()),
        }
    }

    /// All scripts whose text may come with the configuration.
    pub fn node_scripts(&self) -> impl Iterator<Item = &NodeScript> {
        self.config
            .scripts
            .prolog
            .iter()
            .chain(&self.config.scripts.epilog)
    }

    /// The hardware to register.
    pub fn hardware(&self) -> NodeHardware {
        let mut found = hardware::detect(&self.config.paths.tmp_fs, self.started);
        if let Some(text) = &self.overrides
            && let Err(error) = hardware::override_values(&mut found, text)
        {
            tracing::warn!("{error}");
        }
        hardware::registered(found, &self.node, self.config.agent.config_overrides)
    }

    /// Environment of Prolog and Epilog.
    pub fn script_environment(&self, job: &JobOnNode, context: &str) -> Vec<(String, String)> {
        let mut environment = job.script_environment.clone();
        let mut set = |name: &str, value: String| {
            environment.retain(|(known, _)| known != name);
            environment.push((name.to_owned(), value));
        };
        set(
            "SLURM_CONF",
            self.source.path.to_string_lossy().into_owned(),
        );
        set("SLURMD_NODENAME", self.node.name.clone());
        set("SLURM_SCRIPT_CONTEXT", context.to_owned());
        set("SLURM_CLUSTER_NAME", self.config.cluster_name.clone());
        for (name, value) in gres::gpu_environment(&self.node, &job.gres, GpuAudience::Scripts) {
            set(&name, value);
        }
        environment
    }

    /// What a step daemon needs beyond the controller's launch.
    pub fn step_spec(&self, job: Option<&JobOnNode>, launch: StepLaunch) -> StepSpec {
        let config = &self.config;
        let relative = self
            .cgroup
            .as_ref()
            .is_some_and(|base| base.confines_devices(config));
        let no_gres: Vec<GresAllocation> = Vec::new();
        let job_gres = job.map_or(&no_gres, |job| &job.gres);
        let gres = if launch.gres.is_empty() && !matches!(launch.step_id, StepId::Num(_)) {
            job_gres
        } else {
            &launch.gres
        };
        let audience = GpuAudience::Step {
            step: launch.step_id,
            relative,
        };
        let mut environment = gres::gpu_environment(&self.node, gres, audience);
        environment.push((
            "SLURM_CONF".to_owned(),
            self.source.path.to_string_lossy().into_owned(),
        ));
        let binds = config.agent.task_affinity
            || (config.agent.task_cgroup && config.cgroup.constrain_cores);
        let job_memory = job.map_or(MemoryMib(0), |job| job.memory);
        let params: Vec<String> = config
            .agent
            .task_plugin_param
            .iter()
            .map(|item| item.to_ascii_lowercase())
            .collect();
        let param = |known: &[&str]| {
            let found = params.iter().find(|item| known.contains(&item.as_str()));
            found.cloned().unwrap_or_default()
        };
        let mut settings = NodeSettings {
            environment,
            default_environment: job
                .map(|job| job.job_environment.clone())
                .unwrap_or_default(),
            machine_cpus: if binds {
                self.map_cpus(&launch.cpu_ids)
            } else {
                Vec::new()
            },
            signal_children: config.cgroup.signal_children_processes,
            task_prolog: config.scripts.task_prolog.clone(),
            task_epilog: config.scripts.task_epilog.clone(),
            sample_secs: config.accounting.gather_interval_secs,
            over_memory_kill: config
                .accounting
                .gather_params
                .iter()
                .any(|item| item.eq_ignore_ascii_case("OverMemoryKill")),
            cgroup: self.cgroup.as_ref().map(|base| {
                base.step_settings(
                    config,
                    job_memory,
                    launch.memory,
                    gres::denied_devices(&self.node, gres),
                )
            }),
            affinity: config.agent.task_affinity,
            node_cpus: self.cpu_places.clone(),
            bind_default: param(&["none", "sockets", "cores", "threads"]),
            autobind: params
                .iter()
                .find_map(|item| item.strip_prefix("autobind="))
                .unwrap_or_default()
                .to_owned(),
            bind_verbose: params.iter().any(|item| item == "verbose"),
        };
        if let (Some(kill), Some(cgroup)) = (launch.options.oom_kill_step, &mut settings.cgroup) {
            cgroup.oom_kill_step = kill;
        }
        StepSpec {
            launch,
            node: settings,
        }
    }

    /// Machine CPUs of abstract ids; none when the machine is not what the configuration says.
    fn map_cpus(&self, ids: &[u32]) -> Vec<u32> {
        if self.machine_cpus.len() < self.node.cpus as usize {
            return Vec::new();
        }
        ids.iter()
            .filter_map(|id| Some(self.machine_cpus.get(*id as usize)?.number))
            .collect()
    }
}
