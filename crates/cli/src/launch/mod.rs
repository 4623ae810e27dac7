//! Running the tasks of a step: connections from the nodes, streams, signals, and how it all ends.
//!
//! The controller places and launches; here the other end of the tasks' streams is held. Frames are those of
//! [`sluice_model::launch`]. Source: srun(1).

pub mod listener;
pub mod session;
mod signals;
pub mod streams;
pub mod tasks;
pub mod terminal;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_model::exit_status::WaitStatus;
use sluice_model::job::JobInfo;
use sluice_proto::v1::SignalJobsRequest;

use crate::client::{Client, ClientError};

/// `SLURM_*` variables that tell a command about its allocation.
#[must_use]
pub fn allocation_environment(job: &JobInfo, cluster: &str) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    let mut set = |name: &str, value: String| {
        variables.insert(format!("SLURM_{name}"), value);
    };
    let id = job.job_id.to_string();
    set("JOB_ID", id.clone());
    set("JOBID", id);
    set("JOB_NAME", job.description.name.clone().unwrap_or_default());
    set("JOB_NODELIST", job.nodes.clone());
    set("NODELIST", job.nodes.clone());
    set("JOB_NUM_NODES", job.num_nodes.to_string());
    set("NNODES", job.num_nodes.to_string());
    set("JOB_PARTITION", job.partition.clone());
    if !job.account.is_empty() {
        set("JOB_ACCOUNT", job.account.clone());
    }
    if !job.qos.is_empty() {
        set("JOB_QOS", job.qos.clone());
    }
    set("CLUSTER_NAME", cluster.to_string());
    let cpus = cpu_counts(job);
    if !cpus.is_empty() {
        set("JOB_CPUS_PER_NODE", repeated(&cpus));
    }
    let asked = &job.description;
    if job.num_nodes > 0 {
        let each = match (asked.ntasks, asked.ntasks_per_node) {
            // As many as the CPUs are enough for.
            (None, None) => {
                let width = asked.cpus_per_task.unwrap_or(1).max(1);
                cpus.iter().map(|cpus| (cpus / width).max(1)).collect()
            }
            _ => even_split(job.num_tasks.max(1), job.num_nodes),
        };
        set("TASKS_PER_NODE", repeated(&each));
    }
    if let (None, Some(each)) = (asked.ntasks, asked.ntasks_per_node) {
        let tasks = (each * job.num_nodes).to_string();
        set("NTASKS", tasks.clone());
        set("NPROCS", tasks);
    }
    variables
}

/// Of a heterogeneous job only these have no component in their name.
const OF_ALL: [&str; 4] = [
    "SLURM_CLUSTER_NAME",
    "SLURM_JOB_ID",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
];

/// As [`allocation_environment`], of all components of a heterogeneous job: `…_HET_GROUP_<offset>` of each, and the older names.
#[must_use]
pub fn components_environment(components: &[JobInfo], cluster: &str) -> BTreeMap<String, String> {
    let mut variables = components
        .first()
        .map(|leader| allocation_environment(leader, cluster))
        .unwrap_or_default();
    variables.retain(|name, _| OF_ALL.contains(&name.as_str()));
    let tasks: Option<u32> = components
        .iter()
        .map(|component| component.description.ntasks)
        .sum();
    if let Some(tasks) = tasks {
        variables.insert("SLURM_NTASKS".to_string(), tasks.to_string());
        variables.insert("SLURM_NPROCS".to_string(), tasks.to_string());
    }
    for name in ["HET", "PACK"] {
        variables.insert(format!("SLURM_{name}_SIZE"), components.len().to_string());
    }
    for (offset, component) in components.iter().enumerate() {
        let own = allocation_environment(component, cluster);
        for (name, value) in own {
            if name != "SLURM_CLUSTER_NAME" {
                variables.insert(format!("{name}_HET_GROUP_{offset}"), value);
            }
        }
    }
    variables
}

/// `…_PACK_GROUP_<n>`, the older name of each `…_HET_GROUP_<n>`.
pub fn add_older_names(variables: &mut BTreeMap<String, String>) {
    let older: Vec<(String, String)> = variables
        .iter()
        .filter(|(name, _)| name.starts_with("SLURM_") && name.contains("_HET_GROUP_"))
        .map(|(name, value)| (name.replace("_HET_GROUP_", "_PACK_GROUP_"), value.clone()))
        .collect();
    variables.extend(older);
}

/// What tells the launchers of MPI libraries to start their daemons with srun; a user's own values stay.
pub fn add_launchers(variables: &mut BTreeMap<String, String>) {
    for (name, value) in [
        ("HYDRA_BOOTSTRAP", "slurm"),
        ("HYDRA_LAUNCHER_EXTRA_ARGS", "--external-launcher"),
        ("I_MPI_HYDRA_BOOTSTRAP", "slurm"),
        (
            "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
            "--external-launcher",
        ),
        ("OMPI_MCA_plm_slurm_args", "--external-launcher"),
        ("PRTE_MCA_plm_slurm_args", "--external-launcher"),
    ] {
        let is_set = variables.contains_key(name) || std::env::var_os(name).is_some();
        if !is_set {
            variables.insert(name.to_string(), value.to_string());
        }
    }
}

/// CPUs on each node of an allocation.
#[must_use]
pub fn cpu_counts(job: &JobInfo) -> Vec<u32> {
    let nodes = job.allocation.iter();
    nodes.map(|node| node.cpu_ids.len() as u32).collect()
}

/// `72(x2),36`.
#[must_use]
pub fn repeated(counts: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &count in counts {
        match runs.last_mut() {
            Some((value, times)) if *value == count => *times += 1,
            _ => runs.push((count, 1)),
        }
    }
    let texts: Vec<String> = runs
        .into_iter()
        .map(|(value, times)| {
            if times > 1 {
                format!("{value}(x{times})")
            } else {
                value.to_string()
            }
        })
        .collect();
    texts.join(",")
}

/// `total` over `parts`, the first ones getting what is left over.
fn even_split(total: u32, parts: u32) -> Vec<u32> {
    (0..parts)
        .map(|part| total / parts + u32::from(part < total % parts))
        .collect()
}

/// How long an allocation is tried to be given back while the controller is away.
const GIVE_BACK_PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two attempts.
const GIVE_BACK_PAUSE: Duration = Duration::from_millis(200);

/// Tells the controller that the command of an allocation has ended. A controller that restarts is waited for; one that
/// has ended the job already is satisfied.
///
/// # Errors
/// The last failure.
pub async fn give_back(
    client: &mut Client,
    job_id: u32,
    status: WaitStatus,
) -> Result<(), ClientError> {
    let deadline = Instant::now() + GIVE_BACK_PATIENCE;
    loop {
        match client.complete_allocation(job_id, status.0).await {
            Err(error) if error.is_contact() && Instant::now() < deadline => {
                tokio::time::sleep(GIVE_BACK_PAUSE).await;
                let left = deadline.saturating_duration_since(Instant::now());
                *client = Client::connect_to(client.settings.clone(), left).await?;
            }
            Err(ClientError::Refused { .. }) => return Ok(()),
            result => return result,
        }
    }
}

/// Ends a job.
pub async fn cancel_job(client: &mut Client, job_id: u32) -> Result<(), ClientError> {
    signal_target(client, job_id.to_string(), 0).await
}

/// Signals a step; 0 ends it.
pub async fn signal_step(
    client: &Client,
    job_id: u32,
    step_id: u32,
    signal: i32,
) -> Result<(), ClientError> {
    signal_target(client, format!("{job_id}.{step_id}"), signal).await
}

async fn signal_target(client: &Client, target: String, signal: i32) -> Result<(), ClientError> {
    client
        .signal(SignalJobsRequest {
            targets: vec![target],
            signal,
            ..Default::default()
        })
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The compressed form of SLURM_JOB_CPUS_PER_NODE and SLURM_TASKS_PER_NODE.
    #[test]
    fn counts() {
        assert_eq!(repeated(&[72, 72, 36]), "72(x2),36");
        assert_eq!(repeated(&[1]), "1");
        assert_eq!(even_split(5, 2), [3, 2]);
    }
}
