//! The variables that prologs, batch scripts and tasks find about their job.
//!
//! Pure: the same state gives the same text. What a batch script gets is not what a step gets: srun and salloc know less about the
//! job than the controller tells a script. Names and values follow cli reference 1.4 and agent reference 3, and a real Slurm's.

use std::collections::BTreeSet;

use sluice_model::gres::GresRequest;
use sluice_model::hostlist::collapse_hostlist;
use sluice_model::job::OpenMode;
use sluice_model::memory::MemoryMib;
use sluice_model::sluid::Sluid;
use sluice_model::time::UnixSeconds;

use super::{compress_counts, default_distribution};
use crate::cluster::{Allocation, Cluster, Job, NodeAllocation, Step};
use crate::command::tick::limit_end;
use crate::select::{self, policy::node_shape};

/// Names and values, in order.
pub(super) type Variables = Vec<(String, String)>;

/// Whom variables are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// The batch script, and through it the steps it starts.
    Batch,
    /// The tasks of a step.
    Step,
}

/// Mark of a step that srun made its job for.
const OWN_ALLOCATION: &str = "own-allocation";

/// A job without a time limit is said to end after this many seconds.
const UNLIMITED_SECS: i64 = 365 * 24 * 3600;

fn cpus_per_node(allocation: &Allocation) -> Vec<u32> {
    allocation
        .nodes
        .iter()
        .map(|part| part.cpu_ids.len() as u32)
        .collect()
}

/// As [`cpus_per_node`], without the threads that `--threads-per-core` leaves idle.
fn used_cpus_per_node(cluster: &Cluster, job: &Job, allocation: &Allocation) -> Vec<u32> {
    let Some(used) = job.request.threads_per_core.filter(|used| *used > 0) else {
        return cpus_per_node(allocation);
    };
    let count = |part: &NodeAllocation| {
        let node = cluster.node(part.node);
        let threads = node.map_or(1, |node| node_shape(node).threads.max(1));
        part.cpu_ids.len() as u32 / threads * used.min(threads)
    };
    allocation.nodes.iter().map(count).collect()
}

fn node_list(allocation: &Allocation) -> String {
    collapse_hostlist(allocation.node_names())
}

/// Tasks on each node of the allocation.
#[must_use]
pub fn tasks_per_node(cluster: &Cluster, job: &Job, allocation: &Allocation) -> Vec<u32> {
    let normal = cluster.partition(&job.partition).and_then(|partition| {
        select::ResourceRequest::new(&job.request, partition, &cluster.config).ok()
    });
    match normal {
        Some(normal) => select::tasks_on_nodes(&normal, allocation),
        None => vec![1; allocation.nodes.len()],
    }
}

/// Of the variables of each component those that get a name of their own: `…_HET_GROUP_<offset>`.
const OF_COMPONENT: [&str; 14] = [
    "SLURM_JOB_ID",
    "SLURM_JOB_NAME",
    "SLURM_JOB_ACCOUNT",
    "SLURM_JOB_QOS",
    "SLURM_JOB_RESERVATION",
    "SLURM_JOB_PARTITION",
    "SLURM_JOB_NODELIST",
    "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_CPUS_PER_NODE",
    "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_NODE",
    "SLURM_TASKS_PER_NODE",
    "SLURM_TRES_PER_TASK",
    "SLURM_TRES_BIND",
];

/// Older names of the same: `…_PACK_GROUP_<offset>`, `SLURM_PACK_SIZE`; these only they and the request's own variables have.
const OF_REQUEST: [&str; 3] = ["SLURM_NTASKS", "SLURM_NPROCS", "SLURM_CPUS_PER_TASK"];

/// What a component of a heterogeneous job knows about all of them.
pub(super) fn component_variables(cluster: &Cluster, job: &Job, variables: &mut Variables) {
    let Some(het) = job.het else { return };
    put(variables, "SLURM_HET_SIZE", het.size);
    put(variables, "SLURM_PACK_SIZE", het.size);
    for other in crate::command::het::members(cluster, job) {
        let (Some(part), Some(allocation)) = (other.het, &other.allocation) else {
            continue;
        };
        for (name, value) in job_environment(cluster, &other, allocation, Audience::Batch) {
            if OF_COMPONENT.contains(&name.as_str()) || OF_REQUEST.contains(&name.as_str()) {
                for word in ["HET", "PACK"] {
                    put(
                        variables,
                        &format!("{name}_{word}_GROUP_{}", part.offset),
                        &value,
                    );
                }
            }
        }
    }
}

pub(super) fn put(variables: &mut Variables, name: &str, value: impl ToString) {
    variables.push((name.to_owned(), value.to_string()));
}

/// Variables that Prolog and Epilog get from the controller.
pub(super) fn script_environment(
    cluster: &Cluster,
    job: &Job,
    allocation: &Allocation,
) -> Variables {
    let mut v = Variables::new();
    put(&mut v, "SLURM_JOB_ID", job.id);
    put(&mut v, "SLURM_JOBID", job.id);
    put(&mut v, "SLURM_JOB_UID", job.request.uid);
    put(&mut v, "SLURM_JOB_USER", &job.user_name);
    put(&mut v, "SLURM_JOB_GID", job.request.gid);
    put(&mut v, "SLURM_JOB_GROUP", &job.group_name);
    put(
        &mut v,
        "SLURM_JOB_NAME",
        job.request.name.as_deref().unwrap_or(""),
    );
    put(&mut v, "SLURM_JOB_ACCOUNT", &job.account);
    put(&mut v, "SLURM_JOB_PARTITION", &job.partition);
    put(&mut v, "SLURM_JOB_QOS", &job.qos);
    put(&mut v, "SLURM_JOB_NODELIST", node_list(allocation));
    put(&mut v, "SLURM_JOB_NUM_NODES", allocation.nodes.len());
    put(
        &mut v,
        "SLURM_JOB_CPUS_PER_NODE",
        compress_counts(&used_cpus_per_node(cluster, job, allocation)),
    );
    put(&mut v, "SLURM_CLUSTER_NAME", &cluster.config.cluster_name);
    put(&mut v, "SLURM_JOB_SLUID", sluid(cluster, job));
    put(&mut v, "SLURM_JOB_RESTART_COUNT", job.run_attempt);
    put(&mut v, "SLURM_JOB_WORK_DIR", &job.request.work_dir);
    put(&mut v, "SLURM_JOB_OVERSUBSCRIBE", oversubscribe_word(job));
    put(&mut v, "SLURM_JOB_EXCLUSIVE", exclusive_word(job));
    let optional = [
        (
            "SLURM_JOB_RESERVATION",
            job.reservation.as_ref().map(|run| run.name.clone()),
        ),
        ("SLURM_JOB_LICENSES", crate::license::text(&job.licenses)),
        ("SLURM_JOB_COMMENT", job.request.comment.clone()),
        ("SLURM_JOB_CONSTRAINTS", job.request.constraint.clone()),
        ("SLURM_JOB_STDIN", job.request.std_in.clone()),
        ("SLURM_JOB_STDOUT", job.request.std_out.clone()),
        ("SLURM_JOB_STDERR", job.request.std_err.clone()),
        ("SLURM_JOB_EXTRA", job.request.extra.get("extra").cloned()),
        ("SLURM_WCKEY", job.request.wckey.clone()),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            put(&mut v, name, value);
        }
    }
    if let Some(start) = job.start_time {
        put(&mut v, "SLURM_JOB_START_TIME", start.0);
    }
    if let Some(end) = told_end(job) {
        put(&mut v, "SLURM_JOB_END_TIME", end.0);
    }
    array_variables(job, &mut v);
    v
}

/// When the job ends at the latest.
fn told_end(job: &Job) -> Option<UnixSeconds> {
    limit_end(job).or_else(|| Some(job.start_time?.saturating_add(UNLIMITED_SECS)))
}

fn oversubscribe_word(job: &Job) -> &'static str {
    if job.request.oversubscribe {
        "OK"
    } else {
        "NO"
    }
}

fn exclusive_word(job: &Job) -> &'static str {
    use sluice_model::job::Exclusive;
    match job.request.exclusive {
        None => "NO",
        Some(Exclusive::Node) => "NODE",
        Some(Exclusive::User) => "USER",
        Some(Exclusive::Mcs) => "MCS",
        Some(Exclusive::Topo) => "TOPO",
    }
}

fn array_variables(job: &Job, v: &mut Variables) {
    if let Some(array) = &job.array
        && let Some(task) = array.task_id
    {
        put(v, "SLURM_ARRAY_JOB_ID", array.array_job_id);
        put(v, "SLURM_ARRAY_TASK_ID", task);
        put(v, "SLURM_ARRAY_TASK_COUNT", array.task_count);
        put(v, "SLURM_ARRAY_TASK_MIN", array.task_min);
        put(v, "SLURM_ARRAY_TASK_MAX", array.task_max);
        put(v, "SLURM_ARRAY_TASK_STEP", array.task_step);
    }
}

fn gres_texts(requests: &[GresRequest], name: &str) -> Option<String> {
    let found: Vec<String> = requests
        .iter()
        .filter(|g| g.name == name)
        .map(|g| match &g.type_name {
            Some(kind) => format!("{kind}:{}", g.count),
            None => g.count.to_string(),
        })
        .collect();
    (!found.is_empty()).then(|| found.join(","))
}

fn sluid(cluster: &Cluster, job: &Job) -> Sluid {
    Sluid::of(&cluster.config.cluster_name, job.submit_time, job.id)
}

/// Variables of the job that every one of its processes gets.
pub(super) fn job_environment(
    cluster: &Cluster,
    job: &Job,
    allocation: &Allocation,
    audience: Audience,
) -> Variables {
    let is_batch = audience == Audience::Batch;
    let request = &job.request;
    let tasks = tasks_per_node(cluster, job, allocation);
    let mut v = Variables::new();
    put(&mut v, "SLURM_CLUSTER_NAME", &cluster.config.cluster_name);
    put(&mut v, "SLURM_JOB_SLUID", sluid(cluster, job));
    put(&mut v, "SLURM_JOB_ID", job.id);
    put(&mut v, "SLURM_JOBID", job.id);
    put(
        &mut v,
        "SLURM_JOB_NAME",
        request.name.as_deref().unwrap_or(""),
    );
    if !job.account.is_empty() {
        put(&mut v, "SLURM_JOB_ACCOUNT", &job.account);
    }
    put(&mut v, "SLURM_JOB_QOS", &job.qos);
    put(&mut v, "SLURM_JOB_PARTITION", &job.partition);
    put(&mut v, "SLURM_JOB_NODELIST", node_list(allocation));
    put(&mut v, "SLURM_NODELIST", node_list(allocation));
    put(&mut v, "SLURM_JOB_NUM_NODES", allocation.nodes.len());
    put(&mut v, "SLURM_NNODES", allocation.nodes.len());
    put(
        &mut v,
        "SLURM_JOB_CPUS_PER_NODE",
        compress_counts(&used_cpus_per_node(cluster, job, allocation)),
    );
    put(
        &mut v,
        "SLURM_TASKS_PER_NODE",
        compress_counts(&told_tasks(job, &tasks, allocation)),
    );
    put(&mut v, "SLURM_JOB_UID", request.uid);
    put(&mut v, "SLURM_JOB_USER", &job.user_name);
    put(&mut v, "SLURM_JOB_GID", request.gid);
    put(&mut v, "SLURM_SUBMIT_DIR", &request.work_dir);
    put(&mut v, "SLURM_SUBMIT_HOST", &request.submit_host);
    if is_batch {
        put(&mut v, "SLURM_JOB_OVERSUBSCRIBE", oversubscribe_word(job));
        put(&mut v, "SLURM_JOB_EXCLUSIVE", exclusive_word(job));
    } else {
        put(&mut v, "SLURM_JOB_GROUP", &job.group_name);
    }
    if let Some(start) = job.start_time {
        put(&mut v, "SLURM_JOB_START_TIME", start.0);
    }
    if let Some(end) = told_end(job) {
        put(&mut v, "SLURM_JOB_END_TIME", end.0);
    }
    let ntasks = request.ntasks.unwrap_or_else(|| tasks.iter().sum());
    if request.ntasks.is_some() || request.ntasks_per_node.is_some() {
        put(&mut v, "SLURM_NTASKS", ntasks);
        put(&mut v, "SLURM_NPROCS", ntasks);
    }
    let numbers: [(&str, Option<u64>); 8] = [
        ("SLURM_CPUS_PER_TASK", request.cpus_per_task.map(u64::from)),
        (
            "SLURM_NTASKS_PER_NODE",
            request.ntasks_per_node.map(u64::from),
        ),
        (
            "SLURM_NTASKS_PER_SOCKET",
            request.ntasks_per_socket.map(u64::from),
        ),
        (
            "SLURM_NTASKS_PER_CORE",
            request.ntasks_per_core.map(u64::from),
        ),
        (
            "SLURM_NTASKS_PER_GPU",
            request.ntasks_per_gpu.map(u64::from),
        ),
        (
            "SLURM_THREADS_PER_CORE",
            request.threads_per_core.map(u64::from),
        ),
        ("SLURM_CPUS_PER_GPU", request.cpus_per_gpu.map(u64::from)),
        ("SLURM_MEM_PER_GPU", request.mem_per_gpu.map(|m| m.0)),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            put(&mut v, name, value);
        }
    }
    memory_variable(cluster, job, is_batch, &mut v);
    let per_gpu_task = request.gres_per_task.iter().find(|g| g.name == "gpu");
    let texts = [
        (
            "SLURM_JOB_RESERVATION",
            job.reservation.as_ref().map(|run| run.name.clone()),
        ),
        ("SLURM_JOB_LICENSES", crate::license::text(&job.licenses)),
        ("SLURM_JOB_DEPENDENCY", request.dependency.clone()),
        ("SLURM_DISTRIBUTION", request.distribution.clone()),
        (
            "SLURM_GPU_BIND",
            request.gpu_bind.clone().filter(|_| is_batch),
        ),
        ("SLURM_TRES_PER_TASK", tres_per_task(job)),
        (
            "SLURM_TRES_BIND",
            tres_bind(request.gpu_bind.as_deref(), per_gpu_task),
        ),
        ("SLURM_GPUS", gres_texts(&request.gres_per_job, "gpu")),
        (
            "SLURM_GPUS_PER_NODE",
            gres_texts(&request.gres_per_node, "gpu")
                .filter(|_| request.extra.contains_key("gpus-per-node")),
        ),
        (
            "SLURM_GPUS_PER_SOCKET",
            gres_texts(&request.gres_per_socket, "gpu"),
        ),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            put(&mut v, name, value);
        }
    }
    if request.overcommit {
        put(&mut v, "SLURM_OVERCOMMIT", 1);
    }
    if let Some(mode) = request.open_mode.filter(|_| is_batch) {
        let word = if mode == OpenMode::Append { "a" } else { "t" };
        put(&mut v, "SLURM_OPEN_MODE", word);
    }
    array_variables(job, &mut v);
    v
}

/// Tasks on each node as the job is told: without a number of tasks as many as its CPUs are enough for.
fn told_tasks(job: &Job, tasks: &[u32], allocation: &Allocation) -> Vec<u32> {
    let request = &job.request;
    if request.ntasks.is_some() || request.ntasks_per_node.is_some() {
        return tasks.to_vec();
    }
    let each = request.cpus_per_task.unwrap_or(1).max(1);
    cpus_per_node(allocation)
        .into_iter()
        .map(|cpus| (cpus / each).max(1))
        .collect()
}

/// `cpu=2,gres/gpu:v100=1`.
fn tres_per_task(job: &Job) -> Option<String> {
    let request = &job.request;
    let cpus = request.cpus_per_task.map(|cpus| format!("cpu={cpus}"));
    let gres = request.gres_per_task.iter().map(|g| match &g.type_name {
        Some(kind) => format!("gres/{}:{kind}={}", g.name, g.count),
        None => format!("gres/{}={}", g.name, g.count),
    });
    let all: Vec<String> = cpus.into_iter().chain(gres).collect();
    (!all.is_empty()).then(|| all.join(","))
}

/// How tasks are bound to GPUs: as asked for, or each to its own when every task has some.
pub(super) fn tres_bind(bind: Option<&str>, per_task: Option<&GresRequest>) -> Option<String> {
    match (bind, per_task) {
        (Some(text), _) if text.starts_with("gres/") => Some(text.to_owned()),
        (Some(text), _) => Some(format!("gres/gpu:{text}")),
        (None, Some(gpus)) => Some(format!("gres/gpu:per_task:{}", gpus.count)),
        (None, None) => None,
    }
}

/// What was asked for; a script is also told the default.
fn memory_variable(cluster: &Cluster, job: &Job, is_batch: bool, v: &mut Variables) {
    if let Some(per_cpu) = job.request.mem_per_cpu {
        put(v, "SLURM_MEM_PER_CPU", per_cpu.0);
    } else if let Some(per_node) = job.request.mem_per_node {
        // All of a node's memory has no number.
        if per_node > MemoryMib::ZERO {
            put(v, "SLURM_MEM_PER_NODE", per_node.0);
        }
    } else if is_batch {
        let defaults = &cluster.config.scheduling.memory;
        let partition = cluster.partition(&job.partition);
        let per_cpu = partition
            .and_then(|p| p.config.def_mem_per_cpu)
            .unwrap_or(defaults.def_mem_per_cpu);
        let per_node = partition
            .and_then(|p| p.config.def_mem_per_node)
            .unwrap_or(defaults.def_mem_per_node);
        if per_cpu > MemoryMib::ZERO {
            put(v, "SLURM_MEM_PER_CPU", per_cpu.0);
        } else if per_node > MemoryMib::ZERO {
            put(v, "SLURM_MEM_PER_NODE", per_node.0);
        }
    }
}

/// What the submitting command knows better than the controller: the folder and host it was called in.
const SUBMITTERS: [&str; 2] = ["SLURM_SUBMIT_DIR", "SLURM_SUBMIT_HOST"];

/// What srun says about itself, other than the job's.
const OF_STEP: [&str; 2] = ["SLURM_JOB_NAME", "SLURM_TRES_PER_TASK"];

/// What `srun --preserve-env` leaves as it came.
pub(super) const PRESERVED: [&str; 5] = [
    "SLURM_JOB_NUM_NODES",
    "SLURM_NNODES",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_TASKS_PER_NODE",
];

/// Lays the variables over the user's environment: ours win, except where the submitting command has the say.
pub(super) fn merge_environment(
    user: Vec<String>,
    variables: &Variables,
    audience: Audience,
) -> Vec<String> {
    let told = |name: &str| {
        (SUBMITTERS.contains(&name) || audience == Audience::Step && OF_STEP.contains(&name))
            && user
                .iter()
                .any(|entry| entry.split('=').next() == Some(name))
    };
    let variables: Vec<&(String, String)> =
        variables.iter().filter(|(name, _)| !told(name)).collect();
    let ours: BTreeSet<&str> = variables.iter().map(|(name, _)| name.as_str()).collect();
    let mut merged: Vec<String> = user
        .into_iter()
        .filter(|entry| {
            let name = entry.split('=').next().unwrap_or("");
            !ours.contains(name)
        })
        .collect();
    for (name, value) in LAUNCHERS {
        let is_there = merged
            .iter()
            .any(|entry| entry.split('=').next() == Some(name));
        if !is_there {
            merged.push(format!("{name}={value}"));
        }
    }
    merged.extend(
        variables
            .into_iter()
            .map(|(name, value)| format!("{name}={value}")),
    );
    merged
}

/// What tells the launchers of MPI libraries to start their daemons with srun; a user's own values stay.
const LAUNCHERS: [(&str, &str); 6] = [
    ("HYDRA_BOOTSTRAP", "slurm"),
    ("HYDRA_LAUNCHER_EXTRA_ARGS", "--external-launcher"),
    ("I_MPI_HYDRA_BOOTSTRAP", "slurm"),
    (
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
        "--external-launcher",
    ),
    ("OMPI_MCA_plm_slurm_args", "--external-launcher"),
    ("PRTE_MCA_plm_slurm_args", "--external-launcher"),
];

/// What the tasks of a step find about it.
pub(super) fn step_variables(step: &Step, v: &mut Variables) {
    let names: Vec<&str> = step
        .layout
        .nodes
        .iter()
        .map(|node| node.node.as_str())
        .collect();
    let tasks: Vec<u32> = step
        .layout
        .nodes
        .iter()
        .map(|node| node.task_ids.len() as u32)
        .collect();
    let number = step.id.number();
    put(v, "SLURM_STEP_ID", number);
    put(v, "SLURM_STEPID", number);
    put(v, "SLURM_STEP_NODELIST", collapse_hostlist(&names));
    put(v, "SLURM_STEP_NUM_NODES", names.len());
    put(v, "SLURM_STEP_NUM_TASKS", step.num_tasks);
    put(v, "SLURM_STEP_TASKS_PER_NODE", compress_counts(&tasks));
    put(v, "SLURM_NTASKS", step.num_tasks);
    put(v, "SLURM_NPROCS", step.num_tasks);
    // In a step these two speak of the step (cli reference 1.4).
    v.retain(|(name, _)| {
        !matches!(
            name.as_str(),
            "SLURM_TASKS_PER_NODE" | "SLURM_NNODES" | "SLURM_GPUS" | "SLURM_TRES_BIND"
        )
    });
    put(v, "SLURM_TASKS_PER_NODE", compress_counts(&tasks));
    put(v, "SLURM_NNODES", names.len());
    let request = &step.request;
    if let Some(gpus) = gres_texts(&request.gres_per_step, "gpu") {
        put(v, "SLURM_GPUS", gpus);
    }
    let per_task = request.gres_per_task.iter().find(|g| g.name == "gpu");
    if let Some(bind) = tres_bind(request.gpu_bind.as_deref(), per_task) {
        put(v, "SLURM_TRES_BIND", &bind);
        put(v, "SLURMD_TRES_BIND", bind);
    }
    if request.overcommit {
        v.retain(|(name, _)| name != "SLURM_OVERCOMMIT");
        put(v, "SLURM_OVERCOMMIT", 1);
    }
    if let Some(cpus) = step.request.cpus_per_task {
        v.retain(|(name, _)| name != "SLURM_CPUS_PER_TASK");
        put(v, "SLURM_CPUS_PER_TASK", cpus);
    }
    if let Some((host, port)) = step.request.io_address.rsplit_once(':') {
        put(v, "SLURM_STEP_LAUNCHER_PORT", port);
        put(v, "SLURM_SRUN_COMM_PORT", port);
        put(v, "SLURM_SRUN_COMM_HOST", host);
        put(v, "SLURM_LAUNCH_NODE_IPADDR", host);
    }
    v.retain(|(name, _)| name != "SLURM_DISTRIBUTION");
    // In an allocation of its own Slurm's srun tells the distribution it falls back to only where it also knows of memory.
    let knows_memory = request.mem_per_cpu.is_some()
        || request.mem_per_node.is_some()
        || !request.extra.contains_key(OWN_ALLOCATION);
    match &request.distribution {
        Some(text) => put(v, "SLURM_DISTRIBUTION", text),
        None if knows_memory => put(v, "SLURM_DISTRIBUTION", default_distribution(step)),
        None => {}
    }
    put(v, "SLURM_UMASK", format!("{:04o}", step.request.umask));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The job's variables win over the submitter's; the folder of the submission is the submitter's, and so is a launcher of his own.
    #[test]
    fn environments_are_merged() {
        let user = vec![
            "A=1".to_owned(),
            "SLURM_JOB_ID=3".to_owned(),
            "SLURM_SUBMIT_DIR=/home".to_owned(),
            "HYDRA_BOOTSTRAP=ssh".to_owned(),
        ];
        let ours = vec![
            ("SLURM_JOB_ID".to_owned(), "7".to_owned()),
            ("SLURM_SUBMIT_DIR".to_owned(), "/work".to_owned()),
        ];
        let merged = merge_environment(user, &ours, Audience::Batch);
        assert_eq!(
            merged[..3],
            ["A=1", "SLURM_SUBMIT_DIR=/home", "HYDRA_BOOTSTRAP=ssh"]
        );
        assert_eq!(merged.last().map(String::as_str), Some("SLURM_JOB_ID=7"));
        assert!(merged.contains(&"OMPI_MCA_plm_slurm_args=--external-launcher".to_owned()));
        assert!(!merged.contains(&"HYDRA_BOOTSTRAP=slurm".to_owned()));
    }

    /// As Slurm shows them: `--gpus-per-task` binds each task to its own, `--gpu-bind` as it says.
    #[test]
    fn binding_to_gpus() {
        let gpus = GresRequest {
            name: "gpu".to_owned(),
            type_name: None,
            count: 2,
        };
        assert_eq!(
            tres_bind(None, Some(&gpus)).as_deref(),
            Some("gres/gpu:per_task:2")
        );
        assert_eq!(
            tres_bind(Some("closest"), Some(&gpus)).as_deref(),
            Some("gres/gpu:closest")
        );
        assert_eq!(tres_bind(None, None), None);
    }
}
