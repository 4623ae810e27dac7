//! scontrol's small questions: jobs that end, jobs, steps and processes of this node.
//!
//! Jobs and steps come from the controller, processes from this machine alone (what a job's processes carry in their environment
//! tells whose they are, so only root sees everybody's). Source: scontrol(1).

use std::collections::BTreeMap;
use std::path::Path;

use sluice_model::hostlist::{collapse_hostlist, parse_hostlist};
use sluice_model::ids::StepId;
use sluice_model::job::JobInfo;
use sluice_model::state::JobState;
use sluice_proto::v1;

use super::caller::now;
use super::scontrol::Context;
use crate::client::ClientError;
use crate::output;

/// `completing`: jobs that end, and where.
pub(super) async fn completing(context: &Context) -> i32 {
    let list = async {
        let client = context.connect().await?;
        client.jobs(v1::ListJobsRequest::default()).await
    };
    let jobs = match list.await {
        Ok(list) => list.jobs,
        Err(error) => return failed("slurm_load_jobs", &error),
    };
    let times = context.place.times(now());
    for job in jobs.iter().filter(|job| job.state.is_completing()) {
        let end = job.end_time.unwrap_or_else(now);
        let seconds = now().0.saturating_sub(end.0).max(0);
        output::line(format!(
            "JobId={} EndTime={} CompletingTime={} Nodes(COMPLETING)={}",
            job.job_id,
            times.point(end),
            sluice_model::time::format_duration_full(seconds),
            collapse_hostlist(&job.completing_nodes)
        ));
    }
    0
}

/// The node a question is about: the named one, else the one this process runs on.
fn node_of(context: &Context, given: Option<&String>) -> String {
    given
        .cloned()
        .or_else(|| context.place.variable("SLURMD_NODENAME"))
        .unwrap_or_else(|| context.place.host.clone())
}

fn runs_on(nodes: &str, node: &str) -> bool {
    parse_hostlist(nodes)
        .unwrap_or_default()
        .iter()
        .any(|name| name == node)
}

/// `listjobs [NODE]`: jobs of a node.
pub(super) async fn list_jobs(context: &Context, words: &[String]) -> i32 {
    let node = node_of(context, words.first());
    let list = async {
        let client = context.connect().await?;
        client.jobs(v1::ListJobsRequest::default()).await
    };
    let jobs = match list.await {
        Ok(list) => list.jobs,
        Err(error) => return failed("slurm_load_jobs", &error),
    };
    let holds = |job: &&JobInfo| {
        matches!(job.state.base, JobState::Running | JobState::Suspended)
            && runs_on(&job.nodes, &node)
    };
    let ids: Vec<String> = jobs
        .iter()
        .filter(holds)
        .map(|job| format!("{}\n", job.job_id))
        .collect();
    if ids.is_empty() {
        output::error_line(format!("No jobs found on node {node}"));
        return 0;
    }
    output::text_out(&format!("JOBID\n{}", ids.concat()));
    0
}

/// `liststeps [NODE]`: steps of a node.
pub(super) async fn list_steps(context: &Context, words: &[String]) -> i32 {
    let node = node_of(context, words.first());
    let list = async { context.connect().await?.steps(None).await };
    let steps = match list.await {
        Ok(steps) => steps,
        Err(error) => return failed("slurm_get_job_steps", &error),
    };
    let ids: Vec<String> = steps
        .iter()
        .filter(|step| runs_on(&step.nodes, &node))
        .map(|step| format!("{}.{}\n", step.job_id, step.step_id))
        .collect();
    if ids.is_empty() {
        output::error_line(format!("No steps found on node {node}"));
        return 0;
    }
    output::text_out(&format!("STEPID\n{}", ids.concat()));
    0
}

/// A process of a job, as its environment tells.
#[derive(Debug, Clone, PartialEq, Eq)]
struct JobProcess {
    pid: u32,
    job: u32,
    step: String,
    /// Rank on the node and in the step, of a task's first process.
    ranks: Option<(String, String)>,
}

impl JobProcess {
    fn read(pid: u32, environment: &[u8]) -> Option<Self> {
        let variables: BTreeMap<&str, &str> = environment
            .split(|byte| *byte == 0)
            .filter_map(|item| std::str::from_utf8(item).ok()?.split_once('='))
            .collect();
        let job = variables.get("SLURM_JOB_ID")?.parse().ok()?;
        let step = variables.get("SLURM_STEP_ID").copied().unwrap_or("-5");
        // Special steps are negative numbers there.
        let step = step
            .parse::<i64>()
            .ok()
            .and_then(|number| StepId::from_number(number as u32))
            .map_or_else(|| step.to_string(), |step| step.to_string());
        let is_task = variables
            .get("SLURM_TASK_PID")
            .is_some_and(|task| task.parse() == Ok(pid));
        let rank = |name: &str| variables.get(name).copied().unwrap_or("-").to_string();
        Some(Self {
            pid,
            job,
            step,
            ranks: is_task.then(|| (rank("SLURM_LOCALID"), rank("SLURM_PROCID"))),
        })
    }

    fn row(&self) -> String {
        let (local, global) = self
            .ranks
            .clone()
            .unwrap_or_else(|| ("-".to_string(), "-".to_string()));
        format!(
            "{:<8} {:<8} {:<8} {:<7} {}\n",
            self.pid, self.job, self.step, local, global
        )
    }
}

fn processes() -> Vec<JobProcess> {
    let mut list: Vec<JobProcess> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| {
            let environment =
                std::fs::read(Path::new("/proc").join(pid.to_string()).join("environ"));
            JobProcess::read(pid, &environment.ok()?)
        })
        .collect();
    list.sort_by_key(|process| (process.job, process.pid));
    list
}

/// `listpids [JOB[.STEP]] [NODE]`: processes of jobs on this machine.
pub(super) fn list_pids(context: &Context, words: &[String]) -> i32 {
    let wanted = words.first().filter(|word| *word != "*");
    let (job, step) = match wanted.map(|word| word.split_once('.')) {
        None => (None, None),
        Some(Some((job, step))) => (Some(job.to_string()), Some(step.to_string())),
        Some(None) => (wanted.cloned(), None),
    };
    let job = match job.map(|text| text.parse::<u32>()) {
        None => None,
        Some(Ok(job)) => Some(job),
        Some(Err(_)) => {
            output::error_line("scontrol: error: Invalid job id specified");
            return 1;
        }
    };
    if let Some(node) = words.get(1)
        && *node != node_of(context, None)
    {
        output::error_line(format!(
            "scontrol: error: only processes of this machine can be listed, not those of {node}: run it there"
        ));
        return 1;
    }
    let list: Vec<JobProcess> = processes()
        .into_iter()
        .filter(|process| job.is_none_or(|job| process.job == job))
        .filter(|process| step.as_ref().is_none_or(|step| process.step == *step))
        .collect();
    if list.is_empty() && job.is_some() {
        output::error_line("scontrol: error: No job steps exist on this node.");
        return 1;
    }
    let rows: String = list.iter().map(JobProcess::row).collect();
    output::text_out(&format!(
        "{:<8} {:<8} {:<8} {:<7} GLOBALID\n{rows}",
        "PID", "JOBID", "STEPID", "LOCALID"
    ));
    0
}

/// `pidinfo PID`: the job of a process, and when it ends.
pub(super) async fn pid_info(context: &Context, words: &[String]) -> i32 {
    let Some(pid) = words.first().and_then(|word| word.parse::<u32>().ok()) else {
        output::error_line("too few arguments for keyword:pidinfo");
        return 1;
    };
    let environment = std::fs::read(Path::new("/proc").join(pid.to_string()).join("environ"));
    let Some(process) = environment
        .ok()
        .and_then(|bytes| JobProcess::read(pid, &bytes))
    else {
        output::error_line(format!("scontrol: error: process {pid} belongs to no job"));
        return 1;
    };
    let job = async { context.connect().await?.job(process.job).await };
    match job.await {
        Err(error) => failed("slurm_load_jobs", &error),
        Ok(jobs) => {
            let end = jobs
                .iter()
                .find(|job| job.job_id.0 == process.job)
                .and_then(|job| job.end_time);
            let times = context.place.times(now());
            match end {
                None => output::line(format!("Slurm JobId={} has no end time", process.job)),
                Some(end) => {
                    output::line(format!(
                        "Slurm JobId={} ends at {}",
                        process.job,
                        times.point(end)
                    ));
                    output::line(format!("slurm_get_rem_time is {}", end.0 - now().0));
                }
            }
            0
        }
    }
}

fn failed(call: &str, error: &ClientError) -> i32 {
    output::error_line(format!("{call} error: {error}"));
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task's first process has its ranks; its children and processes outside of jobs have none.
    #[test]
    fn processes_tell_their_job() {
        let environment =
            b"PATH=/bin\0SLURM_JOB_ID=7\0SLURM_STEP_ID=0\0SLURM_TASK_PID=42\0SLURM_LOCALID=1\0SLURM_PROCID=3\0";
        let task = JobProcess::read(42, environment).expect("a job's");
        assert_eq!(task.row(), "42       7        0        1       3\n");
        let child = JobProcess::read(43, environment).expect("a job's");
        assert_eq!(child.row(), "43       7        0        -       -\n");
        let batch = JobProcess::read(9, b"SLURM_JOB_ID=7\0SLURM_STEP_ID=-5\0").expect("a job's");
        assert_eq!(batch.step, "batch");
        assert_eq!(JobProcess::read(1, b"PATH=/bin\0"), None);
    }
}
