//! Running the tasks of a step: connections from the nodes, streams, signals, and how it all ends.
//!
//! The controller places and launches; here the other end of the tasks' streams is held. Frames are those of
//! [`sluice_model::launch`]. Source: srun(1).

pub mod listener;
pub mod session;
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
    let cpus: Vec<u32> = job
        .allocation
        .iter()
        .map(|node| node.cpu_ids.len() as u32)
        .collect();
    if !cpus.is_empty() {
        set("JOB_CPUS_PER_NODE", repeated(&cpus));
    }
    if job.num_nodes > 0 {
        set(
            "TASKS_PER_NODE",
            repeated(&even_split(job.num_tasks.max(1), job.num_nodes)),
        );
    }
    if let Some(start) = job.start_time {
        set("JOB_START_TIME", start.0.to_string());
    }
    if let Some(end) = job.end_time {
        set("JOB_END_TIME", end.0.to_string());
    }
    variables
}

/// As [`allocation_environment`], of all components of a heterogeneous job: the leader's names, and `…_HET_GROUP_<offset>` of each.
#[must_use]
pub fn components_environment(components: &[JobInfo], cluster: &str) -> BTreeMap<String, String> {
    let mut variables = components
        .first()
        .map(|leader| allocation_environment(leader, cluster))
        .unwrap_or_default();
    variables.insert("SLURM_HET_SIZE".to_string(), components.len().to_string());
    for (offset, component) in components.iter().enumerate() {
        variables.extend(
            allocation_environment(component, cluster)
                .into_iter()
                .filter(|(name, _)| name != "SLURM_JOBID" && name != "SLURM_CLUSTER_NAME")
                .map(|(name, value)| (format!("{name}_HET_GROUP_{offset}"), value)),
        );
    }
    variables
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
