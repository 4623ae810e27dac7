//! Orders for agents, built from the state: starting a job on a node, launching a step, ending a job.
//!
//! Pure: the same state gives the same order, so an order that was lost is simply built again.

mod environment;

use sluice_model::cpu_bind::{CpuBind, CpuBindKind};
use sluice_model::filename::NO_ARRAY_TASK;
use sluice_model::ids::StepId;
use sluice_model::job::OpenMode;
use sluice_model::launch::{AgentOrder, Credentials, JobOnNode, StepLaunch};
use sluice_model::time::UnixSeconds;

use crate::cluster::blob::unpack_environment;
use crate::cluster::{Allocation, Cluster, Job, NodeAllocation, Step};
use crate::command::job_end::{Kill, kill_wait_secs};
use crate::command::tick::limit_end;
pub use environment::tasks_per_node;
use environment::{
    Audience, PRESERVED, component_variables, job_environment, merge_environment, put,
    script_environment, step_variables,
};

fn credentials(job: &Job) -> Credentials {
    Credentials {
        uid: job.request.uid,
        gid: job.request.gid,
        user_name: job.user_name.clone(),
        group_name: job.group_name.clone(),
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
        job_environment: job_environment(cluster, job, allocation, Audience::Step),
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

/// The launch of one node's part of a step; `at` is the node's position in the step.
#[must_use]
pub fn step_order(cluster: &Cluster, job: &Job, step: &Step, at: usize) -> Option<AgentOrder> {
    let allocation = job.allocation.as_deref()?;
    let layout = step.layout.nodes.get(at)?;
    let is_batch = step.id == StepId::Batch;
    let audience = if is_batch {
        Audience::Batch
    } else {
        Audience::Step
    };
    let mut variables = job_environment(cluster, job, allocation, audience);
    component_variables(cluster, job, &mut variables);
    let user_environment = if is_batch {
        put(&mut variables, "ENVIRONMENT", "BATCH");
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
        // In names of files a step that is of no array is task 0; a script is none.
        array_task_id: array
            .map(|a| a.task_id.unwrap_or(NO_ARRAY_TASK))
            .or((!is_batch).then_some(0)),
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
        environment: merge_environment(user_environment, &variables, audience),
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
            cpu_bind(cluster, job, spec.cpu_bind.as_deref(), &layout.node)
        },
        distribution: spec.distribution.clone(),
        options: spec.options.clone(),
    }))
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

/// Block when there are more tasks than nodes, else cyclic.
#[must_use]
pub fn default_distribution(step: &Step) -> &'static str {
    if step.num_tasks as usize > step.layout.nodes.len() {
        "block"
    } else {
        "cyclic"
    }
}

/// How a step's tasks are bound: as it says, else as its node does, else as its partition does.
fn cpu_bind(cluster: &Cluster, job: &Job, asked: Option<&str>, node: &str) -> Option<String> {
    let says_how = asked
        .and_then(|text| CpuBind::parse(text).ok())
        .is_some_and(|bind| bind.kind != CpuBindKind::Auto);
    if says_how {
        return asked.map(str::to_owned);
    }
    let of_node = cluster
        .node_named(node)
        .and_then(|(_, node)| node.config.cpu_bind.clone());
    let default = of_node.or_else(|| cluster.partition(&job.partition)?.config.cpu_bind.clone());
    match (asked, default) {
        (Some(asked), Some(default)) if !asked.is_empty() => Some(format!("{asked},{default}")),
        (_, Some(default)) => Some(default),
        (asked, None) => asked.map(str::to_owned),
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
}
