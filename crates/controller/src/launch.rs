//! Orders for agents, built from the state: starting a job on a node, launching a step, ending a job.
//!
//! Pure: the same state gives the same order, so an order that was lost is simply built again. Environment variables follow
//! cli reference 1.4 and agent reference 3.

use std::collections::BTreeSet;

use sluice_model::filename::NO_ARRAY_TASK;
use sluice_model::gres::GresRequest;
use sluice_model::hostlist::collapse_hostlist;
use sluice_model::ids::StepId;
use sluice_model::job::OpenMode;
use sluice_model::launch::{AgentOrder, Credentials, JobOnNode, StepLaunch};
use sluice_model::memory::MemoryMib;
use sluice_model::sluid::Sluid;
use sluice_model::time::UnixSeconds;

use crate::cluster::blob::unpack_environment;
use crate::cluster::{Allocation, Cluster, Job, NodeAllocation, Step};
use crate::command::job_end::{Kill, kill_wait_secs};
use crate::command::tick::limit_end;
use crate::select;

fn credentials(job: &Job) -> Credentials {
    Credentials {
        uid: job.request.uid,
        gid: job.request.gid,
        user_name: job.user_name.clone(),
        group_name: job.group_name.clone(),
    }
}

/// `4(x2),2`: Slurm's form of a list of counts.
#[must_use]
pub fn compress_counts(counts: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for count in counts {
        match parts.last_mut() {
            Some((value, times)) if value == count => *times += 1,
            _ => parts.push((*count, 1)),
        }
    }
    let texts: Vec<String> = parts
        .iter()
        .map(|(value, times)| {
            if *times > 1 {
                format!("{value}(x{times})")
            } else {
                value.to_string()
            }
        })
        .collect();
    texts.join(",")
}

fn cpus_per_node(allocation: &Allocation) -> Vec<u32> {
    allocation
        .nodes
        .iter()
        .map(|part| part.cpu_ids.len() as u32)
        .collect()
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
    "SLURM_JOB_PARTITION",
    "SLURM_JOB_NODELIST",
    "SLURM_NODELIST",
    "SLURM_JOB_NUM_NODES",
    "SLURM_NNODES",
    "SLURM_JOB_CPUS_PER_NODE",
    "SLURM_TASKS_PER_NODE",
    "SLURM_JOB_START_TIME",
    "SLURM_JOB_END_TIME",
    "SLURM_JOB_GPUS",
];

/// What a component of a heterogeneous job knows about all of them.
fn component_variables(cluster: &Cluster, job: &Job, variables: &mut Variables) {
    let Some(het) = job.het else { return };
    put(variables, "SLURM_HET_SIZE", het.size);
    for other in crate::command::het::members(cluster, job) {
        let (Some(part), Some(allocation)) = (other.het, &other.allocation) else {
            continue;
        };
        for (name, value) in job_environment(cluster, &other, allocation) {
            if OF_COMPONENT.contains(&name.as_str()) {
                put(
                    variables,
                    &format!("{name}_HET_GROUP_{}", part.offset),
                    value,
                );
            }
        }
    }
}

type Variables = Vec<(String, String)>;

fn put(variables: &mut Variables, name: &str, value: impl ToString) {
    variables.push((name.to_owned(), value.to_string()));
}

/// Variables that Prolog and Epilog get from the controller.
fn script_environment(cluster: &Cluster, job: &Job, allocation: &Allocation) -> Variables {
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
        compress_counts(&cpus_per_node(allocation)),
    );
    put(&mut v, "SLURM_CLUSTER_NAME", &cluster.config.cluster_name);
    put(&mut v, "SLURM_JOB_SLUID", sluid(cluster, job));
    put(&mut v, "SLURM_JOB_RESTART_COUNT", job.run_attempt);
    put(&mut v, "SLURM_JOB_WORK_DIR", &job.request.work_dir);
    put(&mut v, "SLURM_JOB_OVERSUBSCRIBE", oversubscribe_word(job));
    put(&mut v, "SLURM_JOB_EXCLUSIVE", exclusive_word(job));
    let optional = [
        ("SLURM_JOB_RESERVATION", job.request.reservation.clone()),
        ("SLURM_JOB_LICENSES", job.request.licenses.clone()),
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
    if let Some(end) = limit_end(job) {
        put(&mut v, "SLURM_JOB_END_TIME", end.0);
    }
    array_variables(job, &mut v);
    v
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
fn job_environment(cluster: &Cluster, job: &Job, allocation: &Allocation) -> Variables {
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
        compress_counts(&cpus_per_node(allocation)),
    );
    put(&mut v, "SLURM_TASKS_PER_NODE", compress_counts(&tasks));
    put(&mut v, "SLURM_JOB_UID", request.uid);
    put(&mut v, "SLURM_JOB_USER", &job.user_name);
    put(&mut v, "SLURM_JOB_GID", request.gid);
    put(&mut v, "SLURM_JOB_GROUP", &job.group_name);
    put(&mut v, "SLURM_SUBMIT_DIR", &request.work_dir);
    put(&mut v, "SLURM_SUBMIT_HOST", &request.submit_host);
    put(&mut v, "SLURM_JOB_OVERSUBSCRIBE", oversubscribe_word(job));
    put(&mut v, "SLURM_JOB_EXCLUSIVE", exclusive_word(job));
    if let Some(start) = job.start_time {
        put(&mut v, "SLURM_JOB_START_TIME", start.0);
    }
    if let Some(end) = limit_end(job) {
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
    memory_variable(cluster, job, allocation, &mut v);
    let texts = [
        ("SLURM_JOB_RESERVATION", request.reservation.clone()),
        ("SLURM_JOB_LICENSES", request.licenses.clone()),
        ("SLURM_JOB_DEPENDENCY", request.dependency.clone()),
        ("SLURM_DISTRIBUTION", request.distribution.clone()),
        ("SLURM_GPU_BIND", request.gpu_bind.clone()),
        ("SLURM_GPUS", gres_texts(&request.gres_per_job, "gpu")),
        (
            "SLURM_GPUS_PER_NODE",
            gres_texts(&request.gres_per_node, "gpu")
                .filter(|_| request.extra.contains_key("gpus-per-node")),
        ),
        (
            "SLURM_GPUS_PER_TASK",
            gres_texts(&request.gres_per_task, "gpu"),
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
    array_variables(job, &mut v);
    v
}

fn memory_variable(cluster: &Cluster, job: &Job, allocation: &Allocation, v: &mut Variables) {
    if let Some(per_cpu) = job.request.mem_per_cpu {
        put(v, "SLURM_MEM_PER_CPU", per_cpu.0);
    } else if let Some(per_node) = job.request.mem_per_node {
        let amount = if per_node.0 == 0 {
            allocation.nodes.first().map_or(0, |part| part.memory.0)
        } else {
            per_node.0
        };
        put(v, "SLURM_MEM_PER_NODE", amount);
    } else {
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

/// The order that gives one node to a job.
#[must_use]
pub fn start_order(cluster: &Cluster, job: &Job, part: &NodeAllocation) -> AgentOrder {
    let empty = Allocation::default();
    let allocation = job.allocation.as_deref().unwrap_or(&empty);
    let node_index = allocation
        .nodes
        .iter()
        .position(|p| p.name == part.name)
        .unwrap_or(0) as u32;
    AgentOrder::StartJob(JobOnNode {
        job_id: job.id,
        attempt: job.run_attempt,
        credentials: credentials(job),
        node_index,
        cpu_ids: part.cpu_ids.clone(),
        memory: part.memory,
        gres: part.gres.clone(),
        script_environment: script_environment(cluster, job, allocation),
        job_environment: job_environment(cluster, job, allocation),
        end_time: limit_end(job),
    })
}

/// The orders that give all its nodes to a job.
#[must_use]
pub fn start_orders(cluster: &Cluster, job: &Job) -> Vec<(String, AgentOrder)> {
    let Some(allocation) = &job.allocation else {
        return Vec::new();
    };
    allocation
        .nodes
        .iter()
        .map(|part| (part.name.clone(), start_order(cluster, job, part)))
        .collect()
}

/// The launch of the batch script.
#[must_use]
pub fn batch_order(cluster: &Cluster, job: &Job) -> Option<AgentOrder> {
    let step = job.steps.get(&StepId::Batch)?;
    step_order(cluster, job, step, 0)
}

/// What the submitting command knows better than the controller: the folder and host it was called in.
const SUBMITTERS: [&str; 2] = ["SLURM_SUBMIT_DIR", "SLURM_SUBMIT_HOST"];

/// What `srun --preserve-env` leaves as it came.
const PRESERVED: [&str; 5] = [
    "SLURM_JOB_NUM_NODES",
    "SLURM_NNODES",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_TASKS_PER_NODE",
];

/// Lays the variables over the user's environment: ours win, except where the submitting command has the say.
fn merge_environment(user: Vec<String>, variables: &Variables) -> Vec<String> {
    let told = |name: &str| {
        SUBMITTERS.contains(&name)
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
    merged.extend(
        variables
            .into_iter()
            .map(|(name, value)| format!("{name}={value}")),
    );
    merged
}

/// The launch of one node's part of a step; `at` is the node's position in the step.
#[must_use]
pub fn step_order(cluster: &Cluster, job: &Job, step: &Step, at: usize) -> Option<AgentOrder> {
    let allocation = job.allocation.as_deref()?;
    let layout = step.layout.nodes.get(at)?;
    let is_batch = step.id == StepId::Batch;
    let mut variables = job_environment(cluster, job, allocation);
    component_variables(cluster, job, &mut variables);
    let user_environment = if is_batch {
        put(&mut variables, "SLURM_RESTART_COUNT", job.run_attempt);
        put(&mut variables, "SLURM_STEP_ID", step.id.number() as i32);
        put(&mut variables, "SLURM_STEPID", step.id.number() as i32);
        let blob = job.environment.and_then(|id| cluster.blobs.get(&id));
        blob.map(|blob| unpack_environment(&blob.bytes))
            .unwrap_or_default()
    } else {
        step_variables(step, &mut variables);
        if step.request.options.preserve_env {
            variables.retain(|(name, _)| !PRESERVED.contains(&name.as_str()));
        }
        step.environment
            .as_ref()
            .map(|bytes| unpack_environment(bytes))
            .unwrap_or_default()
    };
    let script = is_batch
        .then(|| {
            job.script
                .and_then(|id| cluster.blobs.get(&id))
                .map(|blob| (*blob.bytes).clone())
        })
        .flatten();
    let request = &job.request;
    let spec = &step.request;
    let append = match (is_batch, request.open_mode, spec.open_mode) {
        (true, Some(mode), _) | (false, _, Some(mode)) => mode == OpenMode::Append,
        _ => cluster.config.jobs.job_file_append,
    };
    let array = job.array.as_ref();
    Some(AgentOrder::LaunchStep(StepLaunch {
        job_id: job.id,
        attempt: job.run_attempt,
        step_id: step.id,
        array_job_id: array.map(|a| a.array_job_id),
        array_task_id: array.map(|a| a.task_id.unwrap_or(NO_ARRAY_TASK)),
        name: spec.name.clone(),
        job_name: request.name.clone().unwrap_or_default(),
        credentials: credentials(job),
        node: layout.node.clone(),
        node_index: at as u32,
        task_ids: layout.task_ids.clone(),
        num_tasks: step.num_tasks,
        cpu_ids: layout.cpu_ids.clone(),
        cpus_per_task: step.cpus_per_task,
        memory: layout.memory,
        gres: layout.gres.clone(),
        script,
        argv: if is_batch {
            request.script_args.clone()
        } else {
            spec.argv.clone()
        },
        environment: merge_environment(user_environment, &variables),
        work_dir: if is_batch {
            request.work_dir.clone()
        } else {
            spec.work_dir.clone()
        },
        umask: if is_batch { request.umask } else { spec.umask },
        rlimits: if is_batch {
            request.rlimits.clone()
        } else {
            spec.rlimits.clone()
        },
        std_in: if is_batch {
            request.std_in.clone()
        } else {
            spec.std_in.clone()
        },
        std_out: if is_batch {
            request.std_out.clone()
        } else {
            spec.std_out.clone()
        },
        std_err: if is_batch {
            request.std_err.clone()
        } else {
            spec.std_err.clone()
        },
        open_mode: if append {
            OpenMode::Append
        } else {
            OpenMode::Truncate
        },
        pty: spec.pty,
        task_prolog: spec.task_prolog.clone(),
        task_epilog: spec.task_epilog.clone(),
        io_address: spec.io_address.clone(),
        io_secret: spec.io_secret.clone(),
        restart_count: job.run_attempt,
        cpu_bind: if is_batch {
            None
        } else {
            spec.cpu_bind.clone()
        },
        distribution: spec.distribution.clone(),
        options: spec.options.clone(),
    }))
}

fn step_variables(step: &Step, v: &mut Variables) {
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
            "SLURM_TASKS_PER_NODE" | "SLURM_NNODES" | "SLURM_NODELIST"
        )
    });
    put(v, "SLURM_TASKS_PER_NODE", compress_counts(&tasks));
    put(v, "SLURM_NNODES", names.len());
    put(v, "SLURM_NODELIST", collapse_hostlist(&names));
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
    let distribution = step
        .request
        .distribution
        .clone()
        .unwrap_or_else(|| default_distribution(step).to_owned());
    v.retain(|(name, _)| name != "SLURM_DISTRIBUTION");
    put(v, "SLURM_DISTRIBUTION", distribution);
    put(v, "SLURM_UMASK", format!("{:04o}", step.request.umask));
}

/// Block when there are more tasks than nodes, else cyclic.
#[must_use]
pub fn default_distribution(step: &Step) -> &'static str {
    if step.num_tasks as usize > step.layout.nodes.len() {
        "block"
    } else {
        "cyclic"
    }
}

/// `2026-11-30T04:43:14` in UTC; agents replace it by local time. Kept here as seconds so that no time zone enters the engine.
fn kill_message(job: &Job, node: &str, cause: &str, now: UnixSeconds) -> String {
    if cause.is_empty() {
        String::new()
    } else {
        format!(
            "*** JOB {} ON {node} CANCELLED AT @{} {cause} ***",
            job.id, now.0
        )
    }
}

/// The order that ends a job on one node.
#[must_use]
pub fn terminate_order(
    cluster: &Cluster,
    job: &Job,
    part: &NodeAllocation,
    kill: &Kill,
    now: UnixSeconds,
) -> AgentOrder {
    let empty = Allocation::default();
    let allocation = job.allocation.as_deref().unwrap_or(&empty);
    let (kill_wait, message) = match kill {
        Kill::Leftovers => (0, String::new()),
        Kill::Gently { cause } => (
            kill_wait_secs(cluster),
            kill_message(job, &part.name, cause, now),
        ),
    };
    let mut environment = script_environment(cluster, job, allocation);
    put(&mut environment, "SLURM_JOB_EXIT_CODE", job.exit_status.0);
    put(&mut environment, "SLURM_JOB_EXIT_CODE2", job.exit_status);
    put(
        &mut environment,
        "SLURM_JOB_DERIVED_EC",
        job.derived_exit_status.0,
    );
    AgentOrder::TerminateJob {
        job_id: job.id,
        attempt: job.run_attempt,
        kill_wait_secs: kill_wait,
        message,
        script_environment: environment,
        credentials: credentials(job),
        gres: part.gres.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// sbatch(1) SLURM_JOB_CPUS_PER_NODE: `72(x2),36`.
    #[test]
    fn counts_are_compressed_in_node_order() {
        assert_eq!(compress_counts(&[72, 72, 36]), "72(x2),36");
        assert_eq!(compress_counts(&[1]), "1");
        assert_eq!(compress_counts(&[2, 1, 2]), "2,1,2");
    }

    /// The job's variables win over the submitter's; the folder of the submission is the submitter's.
    #[test]
    fn environments_are_merged() {
        let user = vec![
            "A=1".to_owned(),
            "SLURM_JOB_ID=3".to_owned(),
            "SLURM_SUBMIT_DIR=/home".to_owned(),
        ];
        let ours = vec![
            ("SLURM_JOB_ID".to_owned(), "7".to_owned()),
            ("SLURM_SUBMIT_DIR".to_owned(), "/work".to_owned()),
        ];
        assert_eq!(
            merge_environment(user, &ours),
            ["A=1", "SLURM_SUBMIT_DIR=/home", "SLURM_JOB_ID=7"]
        );
    }
}
