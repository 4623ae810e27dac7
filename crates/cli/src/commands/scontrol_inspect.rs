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
use sluice_model::step::StepInfo;
use sluice_proto::v1;

use super::adopted::adopted;
use super::caller::now;
use super::scontrol::Context;
use crate::client::calls::config_value;
use crate::client::{ClientError, Settings};
use crate::output;

/// All jobs, or the exit status when they are not to be had.
async fn all_jobs(context: &Context) -> Result<Vec<JobInfo>, i32> {
    let list = async {
        let client = context.connect().await?;
        client.jobs(v1::ListJobsRequest::default()).await
    };
    list.await
        .map_err(|error| failed("slurm_load_jobs", &error))
}

/// As [`all_jobs`], all steps.
async fn all_steps(context: &Context) -> Result<Vec<StepInfo>, i32> {
    let list = async { context.connect().await?.steps(None).await };
    list.await
        .map_err(|error| failed("slurm_get_job_steps", &error))
}

/// `completing`: jobs that end, and where.
pub(super) async fn completing(context: &Context) -> i32 {
    let jobs = match all_jobs(context).await {
        Ok(jobs) => jobs,
        Err(code) => return code,
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
    let jobs = match all_jobs(context).await {
        Ok(jobs) => jobs,
        Err(code) => return code,
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
    let steps = match all_steps(context).await {
        Ok(steps) => steps,
        Err(code) => return code,
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
    /// Node whose agent started it: several may run on one machine.
    node: String,
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
            node: variables
                .get("SLURMD_NODENAME")
                .copied()
                .unwrap_or_default()
                .to_string(),
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

/// Processes from outside that the extern steps of a node took in.
fn taken_in(context: &Context, node: &str) -> Vec<JobProcess> {
    let Ok(settings) = Settings::find(|name| context.place.variable(name)) else {
        return Vec::new();
    };
    let socket = settings.token_socket(&context.place.host, node);
    let Some(spool) = socket.parent() else {
        return Vec::new();
    };
    adopted(spool)
        .into_iter()
        .map(|process| JobProcess {
            pid: process.pid,
            job: process.job,
            step: StepId::Extern.to_string(),
            node: node.to_string(),
            ranks: None,
        })
        .collect()
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
            output::error_line(format!(
                "\"{}\" does not look like a jobid",
                words.first().map_or("", String::as_str)
            ));
            return 1;
        }
    };
    let of_extern = taken_in(context, &node_of(context, words.get(1)));
    let list: Vec<JobProcess> = processes()
        .into_iter()
        .chain(of_extern)
        .filter(|process| job.is_none_or(|job| process.job == job))
        .filter(|process| words.get(1).is_none_or(|node| process.node == *node))
        .filter(|process| step.as_ref().is_none_or(|step| process.step == *step))
        .collect();
    let rows: String = list.iter().map(JobProcess::row).collect();
    output::text_out(&format!(
        "{:<8} {:<8} {:<8} {:<7} GLOBALID\n{rows}",
        "PID", "JOBID", "STEPID", "LOCALID"
    ));
    if !list.is_empty() {
        return 0;
    }
    output::error_line(match job {
        None => "No job steps exist on this node.".to_string(),
        Some(job) => format!(
            "JobId={job} does not exist on node {}.",
            node_of(context, words.get(1))
        ),
    });
    1
}

/// A process that is none of a job's.
const NO_JOB_OF_PID: &str = "Failed to locate job for requested pid";

/// `pidinfo PID`: the job of a process, and when it ends.
pub(super) async fn pid_info(context: &Context, words: &[String]) -> i32 {
    let Some(pid) = words.first().and_then(|word| word.parse::<u32>().ok()) else {
        let text = if words.is_empty() {
            "missing argument for keyword:pidinfo"
        } else {
            NO_JOB_OF_PID
        };
        output::error_line(text);
        return 1;
    };
    let environment = std::fs::read(Path::new("/proc").join(pid.to_string()).join("environ"));
    let Some(process) = environment
        .ok()
        .and_then(|bytes| JobProcess::read(pid, &bytes))
    else {
        output::error_line(NO_JOB_OF_PID);
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

/// `getent NODE`: users of the steps on a node, as its name service gives them.
pub(super) async fn getent(context: &Context, node: &str) -> i32 {
    let steps = match all_steps(context).await {
        Ok(steps) => steps,
        Err(code) => return code,
    };
    for step in steps.iter().filter(|step| runs_on(&step.nodes, node)) {
        let user = nix::unistd::User::from_uid(step.uid.into()).ok().flatten();
        let entry = user.map_or_else(
            || step.uid.to_string(),
            |user| {
                format!(
                    "{}:x:{}:{}:{}:{}:{}",
                    user.name,
                    user.uid,
                    user.gid,
                    user.gecos.to_string_lossy(),
                    user.dir.display(),
                    user.shell.display()
                )
            },
        );
        output::text_out(&format!(
            "JobId={}.{}:\nUser:\n{entry}\nGroups:\n\n",
            step.job_id, step.step_id
        ));
    }
    0
}

/// `getaddrs NODES`: where the agents of nodes listen.
pub(super) async fn getaddrs(context: &Context, list: &str) -> i32 {
    let nodes = async { context.connect().await?.nodes(Vec::new()).await };
    let nodes = match nodes.await {
        Ok(nodes) => nodes,
        Err(error) => return failed("slurm_get_node_addrs", &error),
    };
    let mut code = 0;
    for name in parse_hostlist(list).unwrap_or_default() {
        let Some(node) = nodes.iter().find(|node| node.name == name) else {
            output::error_line(format!(
                "scontrol: error: Invalid node name specified: {name}"
            ));
            code = 1;
            continue;
        };
        let address = std::net::ToSocketAddrs::to_socket_addrs(&(node.address.as_str(), node.port))
            .ok()
            .and_then(|mut list| list.next())
            .map_or_else(
                || format!("{}:{}", node.address, node.port),
                |address| address.to_string(),
            );
        output::line(format!("{name}: {address}"));
    }
    code
}

/// `show aliases [HOST]`: nodes whose agents run on one host.
pub(super) async fn aliases(
    context: &Context,
    host: Option<&str>,
) -> Result<i32, (&'static str, ClientError)> {
    let fail = |error| ("slurm_load_node", error);
    let client = context.connect().await.map_err(fail)?;
    let host = host.unwrap_or(&context.place.host);
    let names: Vec<String> = client
        .nodes(Vec::new())
        .await
        .map_err(fail)?
        .into_iter()
        .filter(|node| node.hostname == host)
        .map(|node| node.name)
        .collect();
    if !names.is_empty() {
        output::line(names.join(" "));
    }
    Ok(0)
}

/// `show slurmd`: the agent of this host, or of a node on it.
pub(super) async fn slurmd(
    context: &Context,
    node: Option<&str>,
) -> Result<i32, (&'static str, ClientError)> {
    let fail = |error| ("slurm_load_slurmd_status", error);
    let client = context.connect().await.map_err(fail)?;
    let nodes = client.nodes(Vec::new()).await.map_err(fail)?;
    let named = node
        .map(String::from)
        .or_else(|| context.place.variable("SLURMD_NODENAME"));
    let here = &context.place.host;
    let found = nodes.iter().find(|node| match &named {
        Some(name) => node.name == *name,
        None => node.hostname == *here || node.name == *here,
    });
    let Some(node) = found.filter(|node| node.agent_start_time.is_some()) else {
        output::error_line(
            "scontrol: error: slurm_slurmd_info: Connection refused\nslurm_load_slurmd_status: Connection refused",
        );
        return Ok(1);
    };
    let config = client.config().await.map_err(fail)?;
    let setting = |key: &str| {
        let value = config_value(&config, key).unwrap_or_default();
        value
            .replace("%n", &node.name)
            .replace("%h", &node.hostname)
    };
    let steps: Vec<String> = client
        .steps(None)
        .await
        .map_err(fail)?
        .iter()
        .filter(|step| runs_on(&step.nodes, &node.name))
        .map(|step| format!("{}.{}", step.job_id, step.step_id))
        .collect();
    let pid = std::fs::read_to_string(setting("SlurmdPidFile"))
        .map_or_else(|_| "N/A".to_string(), |text| text.trim().to_string());
    let times = context.place.times(now());
    let log = Some(setting("SlurmdLogFile")).filter(|path| !path.is_empty() && path != "(null)");
    let rows = [
        (
            "Active Steps",
            if steps.is_empty() {
                "NONE".to_string()
            } else {
                steps.join(",")
            },
        ),
        ("Actual CPUs", node.cpus.to_string()),
        ("Actual Boards", node.boards.to_string()),
        ("Actual sockets", node.sockets.to_string()),
        ("Actual cores", node.cores_per_socket.to_string()),
        ("Actual threads per core", node.threads_per_core.to_string()),
        ("Actual real memory", format!("{} MB", node.real_memory.0)),
        (
            "Actual temp disk space",
            format!("{} MB", node.tmp_disk_mib),
        ),
        ("Boot time", times.optional(node.agent_start_time, "None")),
        ("Hostname", node.name.clone()),
        (
            "Last slurmctld msg time",
            times.optional(node.last_response_time, "NONE"),
        ),
        ("Slurmd PID", pid),
        ("Slurmd Debug", setting("SlurmdDebug")),
        ("Slurmd Logfile", log.unwrap_or_else(|| "NONE".to_string())),
        ("Version", node.version.clone().unwrap_or_default()),
    ];
    for (name, value) in rows {
        output::line(format!("{name:<24} = {value}"));
    }
    output::text_out("\n");
    Ok(0)
}

async fn topology_of(context: &Context) -> Result<sluice_config::TopologySettings, ClientError> {
    let client = context.connect().await?;
    let reply = client
        .admin()
        .get_config_bundle(v1::GetConfigBundleRequest { known_version: 0 })
        .await?
        .into_inner();
    let files = reply
        .files
        .into_iter()
        .map(|file| sluice_config::BundleFile {
            name: file.name,
            content: String::from_utf8_lossy(&file.content).into_owned(),
        })
        .collect();
    let bundle = sluice_config::ConfigBundle::new(files);
    sluice_config::ClusterConfig::from_bundle(&bundle)
        .map(|loaded| loaded.config.topology)
        .map_err(|error| ClientError::Other(error.to_string()))
}

/// `show topology [SWITCH|NODES]`. A flat topology has nothing to show.
pub(super) async fn topology(
    context: &Context,
    wanted: Option<&str>,
) -> Result<i32, (&'static str, ClientError)> {
    let topology = topology_of(context)
        .await
        .map_err(|error| ("slurm_load_topo", error))?;
    let rows = crate::format::topology::rows(&topology);
    let shown = crate::format::topology::chosen(&rows, wanted);
    if shown.is_empty()
        && let Some(name) = wanted
    {
        output::error_line(format!(
            "scontrol: error: Topology information contains no switch or node named {name}"
        ));
    }
    for row in shown {
        output::line(row.text());
    }
    Ok(0)
}

/// `show topoconf`: the topology as topology.yaml has it.
pub(super) async fn topoconf(context: &Context) -> Result<i32, (&'static str, ClientError)> {
    let topology = topology_of(context)
        .await
        .map_err(|error| ("slurm_load_topo_config", error))?;
    output::text_out(&crate::format::topology::yaml(&topology));
    Ok(0)
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
