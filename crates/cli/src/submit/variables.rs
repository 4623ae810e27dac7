//! Variables that a submission adds to the environment of what it starts.
//!
//! Pure. Invariant: of the caller's environment only what `--export` lets pass is in a batch script's. Source: sbatch(1), output
//! environment variables.

use std::collections::BTreeMap;

use sluice_model::job::JobDescription;

use super::description::Caller;
use super::environment::{Export, belongs_to_allocation, to_strings};
use super::options::Options;
use super::resources::tres_per_task;
use crate::flags::Command;

/// The environment of a batch script: what `--export` lets pass and what sbatch adds.
pub fn batch_environment(
    options: &Options,
    caller: &Caller<'_>,
    job: &JobDescription,
    export_file: Option<BTreeMap<String, String>>,
    in_components: bool,
) -> Vec<String> {
    let inside_job = caller.environment.contains_key("SLURM_JOB_ID");
    let own: BTreeMap<String, String> = caller
        .environment
        .iter()
        .filter(|(name, _)| !(inside_job && belongs_to_allocation(name)))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let text = options.get("export").unwrap_or("ALL");
    let mut environment = match export_file {
        Some(file) => file,
        None => Export::parse(text).apply(&own),
    };
    if !text.eq_ignore_ascii_case("ALL") {
        environment.insert("SLURM_EXPORT_ENV".to_string(), text.to_string());
    }
    // A script that does not get the submitter's environment gets that of a login.
    let is_partial = !text
        .split(',')
        .any(|item| item.eq_ignore_ascii_case("ALL") || item.eq_ignore_ascii_case("NIL"));
    if options.has("get-user-env") || is_partial {
        environment.insert("SLURM_GET_USER_ENV".to_string(), "1".to_string());
    }
    for (name, limit) in &job.rlimits {
        environment.insert(format!("SLURM_RLIMIT_{name}"), limit.to_string());
    }
    environment.insert("SLURM_PRIO_PROCESS".to_string(), "0".to_string());
    // Of a heterogeneous job every component's are added under names of their own.
    environment.extend(
        request_variables(options, caller, job)
            .into_iter()
            .filter(|(name, _)| !in_components || super::components::ONCE.contains(&name.as_str())),
    );
    to_strings(&environment)
}

/// Variables that repeat what was asked for, and where it was asked.
pub fn request_variables(
    options: &Options,
    caller: &Caller<'_>,
    job: &JobDescription,
) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    let mut set = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            variables.insert(format!("SLURM_{name}"), value);
        }
    };
    let count = |count: Option<u32>| count.map(|count| count.to_string());
    set(
        "SUBMIT_DIR",
        Some(caller.directory.to_string_lossy().into_owned()),
    );
    set("SUBMIT_HOST", Some(caller.host.to_string()));
    let for_tasks = options.command == Command::Srun;
    set("UMASK", for_tasks.then(|| format!("{:04o}", job.umask)));
    set("NTASKS", count(job.ntasks));
    set("NPROCS", count(job.ntasks));
    set("CPUS_PER_TASK", count(job.cpus_per_task));
    set("CPUS_PER_GPU", count(job.cpus_per_gpu));
    set("NTASKS_PER_NODE", count(job.ntasks_per_node));
    set("NTASKS_PER_CORE", count(job.ntasks_per_core));
    set("NTASKS_PER_SOCKET", count(job.ntasks_per_socket));
    set("NTASKS_PER_GPU", count(job.ntasks_per_gpu));
    // Every hint means one thread a core here, and srun tells its tasks only that.
    let threads = options.get("threads-per-core");
    let hint = options.get("hint");
    let by_hint = hint
        .filter(|hint| !hint.eq_ignore_ascii_case("multithread"))
        .map(|_| "1");
    set("THREADS_PER_CORE", threads.or(by_hint).map(String::from));
    if !for_tasks && threads.is_none() {
        set("HINT", hint.map(String::from));
    }
    if !for_tasks {
        set("GPU_BIND", options.get("gpu-bind").map(String::from));
    }
    set("TRES_PER_TASK", tres_per_task(job));
    // All of a node's memory has no number.
    let size = job.mem_per_node.filter(|size| size.0 > 0);
    set("MEM_PER_NODE", size.map(|size| size.0.to_string()));
    set(
        "MEM_PER_CPU",
        job.mem_per_cpu.map(|size| size.0.to_string()),
    );
    set(
        "MEM_PER_GPU",
        job.mem_per_gpu.map(|size| size.0.to_string()),
    );
    set("DISTRIBUTION", job.distribution.clone());
    set("OVERCOMMIT", job.overcommit.then(|| "1".to_string()));
    for (variable, option) in [
        ("GPUS", "gpus"),
        ("GPUS_PER_NODE", "gpus-per-node"),
        ("GPUS_PER_SOCKET", "gpus-per-socket"),
        ("GPU_FREQ", "gpu-freq"),
        ("NETWORK", "network"),
        ("PROFILE", "profile"),
        ("JOB_DEPENDENCY", "dependency"),
        ("JOB_LICENSES", "licenses"),
    ] {
        set(variable, options.get(option).map(String::from));
    }
    variables
}
