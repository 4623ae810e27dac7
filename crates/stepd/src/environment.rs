//! The environment of a task: the controller's, then what only this node or this task knows.
//!
//! Pure. Order of precedence, strongest first: per-task values, the agent's node values, the controller's environment, and
//! defaults for names nobody set. Names and values follow the output environment of `sbatch(1)` and `srun(1)`.

use std::ffi::CString;

use sluice_model::cpu_bind::MemBind;
use sluice_model::ids::StepId;

use crate::spec::StepSpec;

/// Variables in order of first appearance; setting a name again replaces its value in place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    entries: Vec<(String, String)>,
}

impl Environment {
    /// From `NAME=value` strings; strings without a name are dropped, later ones win.
    pub fn from_strings<'a>(strings: impl IntoIterator<Item = &'a String>) -> Self {
        let mut environment = Self::default();
        let mut index = std::collections::HashMap::new();
        for string in strings {
            // A leading `=` belongs to no name (some shells export such leftovers).
            let Some((name, value)) = string.split_once('=').filter(|(name, _)| !name.is_empty())
            else {
                continue;
            };
            match index.get(name) {
                Some(&at) => {
                    let entry: &mut (String, String) = &mut environment.entries[at];
                    entry.1 = value.to_owned();
                }
                None => {
                    index.insert(name, environment.entries.len());
                    environment
                        .entries
                        .push((name.to_owned(), value.to_owned()));
                }
            }
        }
        environment
    }

    /// Value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.entries
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        match self.entries.iter_mut().find(|(known, _)| known == name) {
            Some(entry) => entry.1 = value.into(),
            None => self.entries.push((name.to_owned(), value.into())),
        }
    }

    /// Sets a variable that has no value yet.
    pub fn set_default(&mut self, name: &str, value: impl FnOnce() -> String) {
        if self.get(name).is_none() {
            self.entries.push((name.to_owned(), value()));
        }
    }

    /// Removes a variable.
    pub fn unset(&mut self, name: &str) {
        self.entries.retain(|(known, _)| known != name);
    }

    /// All variables.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// For `execve`; entries with a zero byte cannot be passed on and are dropped.
    pub fn to_c_strings(&self) -> Vec<CString> {
        self.entries
            .iter()
            .filter_map(|(name, value)| CString::new(format!("{name}={value}")).ok())
            .collect()
    }
}

/// What all tasks of the step share on this node.
pub fn step_environment(spec: &StepSpec) -> Environment {
    let launch = &spec.launch;
    let mut environment = Environment::from_strings(&launch.environment);
    // Slurm prints the reserved step numbers as signed: the batch step is -5.
    let step = launch.step_id.number().cast_signed().to_string();
    let job = launch.job_id.to_string();
    let ranks = launch
        .task_ids
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(",");
    environment.set("SLURM_STEP_ID", step.clone());
    environment.set("SLURM_STEPID", step);
    environment.set("SLURM_NODEID", launch.node_index.to_string());
    environment.set("SLURM_GTIDS", ranks);
    environment.set("SLURMD_NODENAME", launch.node.clone());
    if !launch.cpu_ids.is_empty() {
        environment.set("SLURM_CPUS_ON_NODE", launch.cpu_ids.len().to_string());
    }
    environment.set_default("SLURM_JOB_ID", || job.clone());
    environment.set_default("SLURM_JOBID", || job.clone());
    environment.set_default("SLURM_PRIO_PROCESS", || "0".to_owned());
    match launch.options.oom_kill_step {
        Some(kill) => environment.set("SLURM_OOM_KILL_STEP", u8::from(kill).to_string()),
        None => environment.set_default("SLURM_OOM_KILL_STEP", || "0".to_owned()),
    }
    if let Some(Ok(bind)) = launch.options.mem_bind.as_deref().map(MemBind::parse) {
        for (name, value) in bind.variables() {
            environment.set(name, value);
        }
    }
    environment.set("SLURM_TOPOLOGY_ADDR", launch.node.clone());
    environment.set_default("SLURM_TOPOLOGY_ADDR_PATTERN", || "node".to_owned());
    // What the submitting command carried for the daemon, not for the tasks.
    let carried: Vec<String> = environment
        .iter()
        .map(|(name, _)| name.to_owned())
        .filter(|name| name.starts_with("SLURM_RLIMIT_"))
        .collect();
    for name in carried {
        environment.unset(&name);
    }
    if launch.step_id == StepId::Batch {
        environment.set_default("SLURM_RESTART_COUNT", || launch.restart_count.to_string());
        if let Ok(host) = nix::unistd::gethostname() {
            environment.set("HOSTNAME", host.to_string_lossy());
        }
    } else {
        environment.set("SLURM_UMASK", format!("{:04o}", launch.umask));
        environment.set_default("SLURM_STEP_NUM_TASKS", || launch.num_tasks.to_string());
        if let Some((host, port)) = launch.io_address.rsplit_once(':') {
            environment.set("SLURM_LAUNCH_NODE_IPADDR", host);
            environment.set("SLURM_SRUN_COMM_HOST", host);
            environment.set("SLURM_SRUN_COMM_PORT", port);
            environment.set("SLURM_STEP_LAUNCHER_PORT", port);
        }
    }
    for (name, value) in &spec.node.environment {
        environment.set(name, value.clone());
    }
    // A script's environment is complete; it is told less about the job than a step is.
    let defaults = spec
        .node
        .default_environment
        .iter()
        .filter(|_| launch.step_id != StepId::Batch);
    for (name, value) in defaults {
        environment.set_default(name, || value.clone());
    }
    environment
}

/// What one task adds to [`step_environment`].
pub fn set_task_variables(environment: &mut Environment, rank: u32, local_id: usize, pid: u32) {
    environment.set("SLURM_PROCID", rank.to_string());
    environment.set("SLURM_LOCALID", local_id.to_string());
    environment.set("SLURM_TASK_PID", pid.to_string());
    if local_id == 0 {
        environment.set_default("TMPDIR", || "/tmp".to_owned());
    }
    crate::gpu_bind::choose(environment, local_id);
}
