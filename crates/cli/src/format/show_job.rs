//! `scontrol show job`: the record of a job, over several lines or in one.
//!
//! Order, spelling and words for "nothing" are Slurm's; tools parse them by name. Source: scontrol(1) and its output.

use std::fmt::Write as _;

use sluice_dataparser::values::index_ranges;
use sluice_model::array::IndexSet;
use sluice_model::job::{Exclusive, GresAllocation, JobInfo};
use sluice_model::memory::format_memory;
use sluice_model::reason::Reason;
use sluice_model::sluid::Sluid;
use sluice_model::state::JobState;
use sluice_model::time::{TimeLimit, UnixSeconds, format_duration_full};
use sluice_model::tres::Tres;

use super::job_rows::{cut_index_list, run_time};
use super::show_job_requests::requests;
use super::time_style::TimeStyle;
use super::{NULL, or_null};
use crate::submit::resources::mail_events;

/// How to print a record.
#[derive(Debug, Clone)]
pub struct ShowOptions {
    /// `-o`.
    pub one_line: bool,
    /// `-d`.
    pub details: bool,
    /// Times.
    pub times: TimeStyle,
    /// Longest text of an index list; 0 = no limit.
    pub index_text_max: usize,
    /// Leave `SubmitLine=` out: some programs split one-line records at blanks.
    pub without_submit_line: bool,
    /// ClusterName, which is part of every SLUID.
    pub cluster: String,
}

/// A record under construction: fields, and line ends that `-o` turns into blanks.
pub(super) struct Record {
    text: String,
    separator: &'static str,
}

impl Record {
    pub(super) fn new(one_line: bool) -> Self {
        Self {
            text: String::new(),
            separator: if one_line { " " } else { "\n   " },
        }
    }

    /// Begins the next line.
    pub(super) fn line(&mut self, text: impl std::fmt::Display) {
        if !self.text.is_empty() {
            self.text.push_str(self.separator);
        }
        let _ = write!(self.text, "{text}");
    }

    /// Goes on in the same line.
    pub(super) fn add(&mut self, text: impl std::fmt::Display) {
        let _ = write!(self.text, "{text}");
    }

    /// The whole record with its line end, and an empty line after a record of several lines.
    pub(super) fn finish(mut self) -> String {
        self.text
            .push_str(if self.separator == " " { "\n" } else { "\n\n" });
        self.text
    }
}

/// `Exclusive=` of a job.
#[must_use]
pub fn exclusive_word(job: &JobInfo) -> String {
    let word = match job.description.exclusive {
        None => "NO",
        Some(Exclusive::Node) => "NODE",
        Some(Exclusive::User) => "USER",
        Some(Exclusive::Mcs) => "MCS",
        Some(Exclusive::Topo) => "TOPO",
    };
    word.to_string()
}

/// `gpu:h100:2(IDX:0-1),…`.
#[must_use]
pub fn gres_with_indices(gres: &[GresAllocation]) -> String {
    gres.iter()
        .map(|item| {
            let base = gres_name(item);
            if item.indices.is_empty() {
                base
            } else {
                format!("{base}(IDX:{})", index_ranges(&item.indices))
            }
        })
        .collect::<Vec<_>>()
        .join(",")
}

fn gres_name(item: &GresAllocation) -> String {
    match &item.type_name {
        Some(type_name) => format!("{}:{type_name}:{}", item.name, item.count),
        None => format!("{}:{}", item.name, item.count),
    }
}

/// The record of `job`. `task` shows one unstarted task of an array's record.
#[must_use]
pub fn show_job(job: &JobInfo, task: Option<u32>, options: &ShowOptions) -> String {
    let mut record = Record::new(options.one_line);
    let time = |time: Option<UnixSeconds>, none: &str| options.times.optional(time, none);
    head(&mut record, job, task, options);
    record.line(format_args!(
        "JobState={} Reason={} Dependency={}",
        job.state.name(),
        reason(job),
        or_null(job.dependency.as_deref())
    ));
    if let Some(node) = &job.failed_node {
        record.add(format_args!(" FailedNode={node}"));
    }
    record.line(format_args!(
        "Requeue={} Restarts={} BatchFlag={} Reboot={} ExitCode={}",
        u8::from(job.requeue),
        job.restarts,
        u8::from(job.description.batch),
        u8::from(job.description.extra.contains_key("reboot")),
        job.exit_status
    ));
    if options.details {
        record.line(format_args!("DerivedExitCode={}", job.derived_exit_status));
    }
    let limit = |limit: Option<TimeLimit>| {
        limit.map_or_else(|| "N/A".to_string(), |limit| limit.to_string())
    };
    record.line(format_args!(
        "RunTime={} TimeLimit={} TimeMin={}",
        format_duration_full(run_time(job, options.times.now)),
        limit(Some(job.time_limit)),
        limit(job.description.time_min)
    ));
    record.line(format_args!(
        "SubmitTime={} EligibleTime={}",
        options.times.point(job.submit_time),
        time(job.eligible_time, "Unknown")
    ));
    record.line(format_args!(
        "AccrueTime={}",
        time(job.accrue_time, "Unknown")
    ));
    record.line(format_args!(
        "StartTime={} EndTime={} Deadline={}",
        time(job.start_time, "Unknown"),
        time(job.end_time, "Unknown"),
        time(job.description.deadline, "N/A")
    ));
    if !job.state.is_pending() && job.start_time.is_some() {
        record.line(format_args!(
            "PreemptEligibleTime={} PreemptTime=None",
            time(job.start_time, "None")
        ));
    }
    if let Some(spec) = &job.description.cron_spec {
        record.line(format_args!("CronJob=Yes CrontabSpec=\"{spec}\""));
    }
    record.line(format_args!(
        "SuspendTime={} SecsPreSuspend={} LastSchedEval={} Scheduler={}",
        time(job.suspend_time, "None"),
        job.pre_suspend_secs,
        time(job.last_sched_eval, "Unknown"),
        job.scheduler.as_deref().unwrap_or("Main")
    ));
    record.line(format_args!(
        "Partition={} AllocNode:Sid={}:{}",
        job.partition, job.description.submit_host, job.description.submit_sid
    ));
    resources(&mut record, job, options);
    tail(&mut record, job, options);
    record.finish()
}

fn head(record: &mut Record, job: &JobInfo, task: Option<u32>, options: &ShowOptions) {
    record.line(format_args!("JobId={} ", job.job_id));
    if let (Some(leader), Some(offset)) = (job.het_job_id, job.het_job_offset) {
        record.add(format_args!("HetJobId={leader} HetJobOffset={offset} "));
    }
    if let Some(array) = job.array_job_id {
        record.add(format_args!("ArrayJobId={array} "));
        match task.or(job.array_task_id) {
            Some(task) => record.add(format_args!("ArrayTaskId={task} ")),
            None => {
                let list = job.array_task_string.as_deref().unwrap_or_default();
                record.add(format_args!(
                    "ArrayTaskId={}",
                    cut_index_list(list, options.index_text_max)
                ));
                if job.array_max_tasks > 0 {
                    record.add(format_args!("%{}", job.array_max_tasks));
                }
                record.add(" ");
            }
        }
        if job.array_max_tasks > 0 {
            record.add(format_args!("ArrayTaskThrottle={} ", job.array_max_tasks));
        }
    }
    record.add(format_args!(
        "JobName={}",
        or_null(job.description.name.as_deref())
    ));
    if let Some(set) = &job.het_job_id_set {
        record.line(format_args!("HetJobIdSet={set}"));
    }
    if options.details {
        let sluid = Sluid::of(&options.cluster, job.submit_time, job.job_id);
        record.line(format_args!("SLUID={sluid}"));
    }
    record.line(format_args!(
        "UserId={}({}) GroupId={}({}) MCS_label={}",
        job.user_name,
        job.description.uid,
        job.group_name,
        job.description.gid,
        job.description
            .extra
            .get("mcs-label")
            .map_or("N/A", String::as_str)
    ));
    record.line(format_args!(
        "Priority={} Nice={} Account={} QOS={}",
        job.priority,
        job.description.nice,
        or_null(Some(&job.account)),
        or_null(Some(&job.qos))
    ));
    if let Some(wckey) = job
        .description
        .wckey
        .as_deref()
        .filter(|key| !key.is_empty())
    {
        record.add(format_args!(" WCKey={wckey}"));
    }
}

/// The reason as one word: blanks in a description become underscores.
fn reason(job: &JobInfo) -> String {
    match job.reason_text.as_deref().filter(|text| !text.is_empty()) {
        Some(text) if text.starts_with(job.reason.name()) => text.replace(' ', "_"),
        Some(text) if job.reason == Reason::ReqNodeNotAvail => {
            format!("ReqNodeNotAvail,_{}", text.replace(' ', "_"))
        }
        Some(text) => text.replace(' ', "_"),
        None => job.reason.name().to_string(),
    }
}

fn tres_text(tres: &Tres) -> String {
    if tres.is_empty() {
        NULL.to_string()
    } else {
        tres.to_string()
    }
}

fn star(count: Option<u32>) -> String {
    count.map_or_else(|| "*".to_string(), |count| count.to_string())
}

fn resources(record: &mut Record, job: &JobInfo, options: &ShowOptions) {
    let description = &job.description;
    record.line(format_args!(
        "ReqNodeList={} ExcNodeList={}",
        or_null(description.required_nodes.as_deref()),
        or_null(description.excluded_nodes.as_deref())
    ));
    record.line(format_args!("NodeList={}", job.nodes));
    if let Some(planned) = job.sched_nodes.as_deref().filter(|_| job.nodes.is_empty()) {
        record.add(format_args!(" SchedNodeList={planned}"));
    }
    if let Some(host) = job.batch_host.as_deref().filter(|_| !job.nodes.is_empty()) {
        record.line(format_args!("BatchHost={host}"));
    }
    let nodes = if job.state.base == JobState::Pending {
        let max = description
            .max_nodes
            .unwrap_or(job.num_nodes)
            .max(job.num_nodes);
        format!("{}-{max}", job.num_nodes)
    } else {
        job.num_nodes.to_string()
    };
    let tasks = if job.state.base == JobState::Cancelled
        && job.nodes.is_empty()
        && description.ntasks.is_none()
    {
        "N/A".to_string()
    } else {
        job.num_tasks.to_string()
    };
    record.line(format_args!(
        "NumNodes={nodes} NumCPUs={} NumTasks={tasks} CPUs/Task={} ReqB:S:C:T=0:{}:{}:{}",
        job.num_cpus,
        description.cpus_per_task.unwrap_or(1),
        description.sockets_per_node.unwrap_or(0),
        star(description.cores_per_socket),
        star(description.threads_per_core)
    ));
    record.line(format_args!("ReqTRES={}", tres_text(&job.req_tres)));
    record.line(format_args!("AllocTRES={}", tres_text(&job.alloc_tres)));
    record.line(format_args!(
        "Socks/Node={} NtasksPerN:B:S:C={}:0:{}:{} CoreSpec={}",
        star(description.sockets_per_node),
        description.ntasks_per_node.unwrap_or(0),
        star(description.ntasks_per_socket),
        star(description.ntasks_per_core),
        star(description.core_spec)
    ));
    if options.details {
        allocation(record, job);
    }
    let (unit, size) = match (description.mem_per_cpu, description.mem_per_node) {
        (Some(size), _) => ("CPU", size),
        (None, size) => ("Node", size.unwrap_or_default()),
    };
    record.line(format_args!(
        "MinCPUsNode={} MinMemory{unit}={} MinTmpDiskNode={}",
        description
            .min_cpus_per_node
            .or(description.cpus_per_task)
            .unwrap_or(1),
        format_memory(size),
        description.tmp_disk_mib.unwrap_or(0)
    ));
}

/// What the job has on each node; nodes with the same share become one line.
fn allocation(record: &mut Record, job: &JobInfo) {
    let mut total: Vec<GresAllocation> = Vec::new();
    for item in job.allocation.iter().flat_map(|node| &node.gres) {
        match total
            .iter_mut()
            .find(|known| known.name == item.name && known.type_name == item.type_name)
        {
            Some(known) => known.count += item.count,
            None => total.push(GresAllocation {
                indices: Vec::new(),
                ..item.clone()
            }),
        }
    }
    if !job.allocation.is_empty() {
        let names: Vec<String> = total.iter().map(gres_name).collect();
        record.line(format_args!("JOB_GRES={}", or_null(Some(&names.join(",")))));
    }
    let mut shares: Vec<(String, Vec<&str>)> = Vec::new();
    for node in &job.allocation {
        let cpus: IndexSet = node.cpu_ids.iter().copied().collect();
        let share = format!(
            "CPU_IDs={} Mem={} GRES={}",
            index_ranges(&cpus.iter().collect::<Vec<_>>()),
            node.memory.0,
            gres_with_indices(&node.gres)
        );
        match shares.last_mut() {
            Some((known, nodes)) if *known == share => nodes.push(&node.node),
            _ => shares.push((share, vec![&node.node])),
        }
    }
    for (share, nodes) in shares {
        record.line(format_args!(
            "  Nodes={} {share}",
            sluice_model::hostlist::collapse_hostlist(nodes)
        ));
    }
}

fn tail(record: &mut Record, job: &JobInfo, options: &ShowOptions) {
    let description = &job.description;
    let extra = |name: &str| description.extra.get(name).map(String::as_str);
    record.line(format_args!(
        "Features={} DelayBoot={}",
        or_null(description.constraint.as_deref()),
        extra("delay-boot")
            .and_then(|text| text.parse::<TimeLimit>().ok())
            .and_then(TimeLimit::seconds)
            .map_or_else(|| "00:00:00".to_string(), format_duration_full)
    ));
    if let Some(features) = extra("cluster-constraint") {
        record.line(format_args!("ClusterFeatures={features}"));
    }
    if let Some(prefer) = description
        .prefer
        .as_deref()
        .filter(|text| !text.is_empty())
    {
        record.line(format_args!("Prefer={prefer}"));
    }
    if let Some(name) = description
        .reservation
        .as_deref()
        .filter(|name| !name.is_empty())
    {
        record.line(format_args!("Reservation={name}"));
    }
    let licenses = or_null(description.licenses.as_deref());
    let allocated = or_null(job.licenses_allocated.as_deref());
    record.line(format_args!(
        "OverSubscribe={} Exclusive={} Contiguous={} Licenses={licenses} LicensesAlloc={allocated} Network={}",
        if description.oversubscribe { "YES" } else { "NO" },
        exclusive_word(job),
        u8::from(description.contiguous),
        or_null(extra("network"))
    ));
    record.line(format_args!(
        "Command={}",
        or_null(description.command.as_deref())
    ));
    if !options.without_submit_line && !description.submit_line.is_empty() {
        record.line(format_args!("SubmitLine={}", description.submit_line));
    }
    record.line(format_args!("WorkDir={}", description.work_dir));
    let comments = [
        ("AdminComment", job.admin_comment.as_deref()),
        ("SystemComment", job.system_comment.as_deref()),
        ("Comment", description.comment.as_deref()),
        ("Extra", extra("extra")),
    ];
    for (key, text) in comments {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            record.line(format_args!("{key}={text}"));
        }
    }
    if description.batch {
        record.line(format_args!("StdErr={}", job.std_err_path));
        record.line(format_args!("StdIn={}", job.std_in_path));
        record.line(format_args!("StdOut={}", job.std_out_path));
    }
    requests(record, job);
    let events = description.mail_type.as_deref().and_then(mail_events);
    let events = events.filter(|events| events != "NONE");
    if let Some(user) = description
        .mail_user
        .as_deref()
        .or(events.as_deref().map(|_| job.user_name.as_str()))
    {
        record.line(format_args!(
            "MailUser={user} MailType={}",
            events.as_deref().unwrap_or("NONE")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::samples;
    use jiff::tz::TimeZone;

    fn options(one_line: bool, details: bool) -> ShowOptions {
        ShowOptions {
            one_line,
            details,
            times: TimeStyle::standard(TimeZone::UTC, samples::SUBMIT + 37),
            index_text_max: 64,
            without_submit_line: false,
            cluster: "oracle".to_string(),
        }
    }

    /// A running job, as a real scontrol prints it.
    #[test]
    fn running_job() {
        let expected = "\
JobId=9 JobName=run1
   UserId=alice(1002) GroupId=nogroup(65534) MCS_label=N/A
   Priority=11268 Nice=0 Account=physics QOS=normal
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:36 TimeLimit=00:30:00 TimeMin=N/A
   SubmitTime=2026-11-30T04:41:18 EligibleTime=2026-11-30T04:41:18
   AccrueTime=2026-11-30T04:41:18
   StartTime=2026-11-30T04:41:19 EndTime=2026-11-30T05:11:19 Deadline=N/A
   PreemptEligibleTime=2026-11-30T04:41:19 PreemptTime=None
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-30T04:41:19 Scheduler=Main
   Partition=main AllocNode:Sid=localhost:2561
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=n[1-2]
   BatchHost=n1
   NumNodes=2 NumCPUs=8 NumTasks=8 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   ReqTRES=cpu=8,mem=2000M,node=2,billing=8
   AllocTRES=cpu=8,mem=2000M,node=2,billing=8
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   MinCPUsNode=1 MinMemoryNode=1000M MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=NO Exclusive=NO Contiguous=0 Licenses=(null) LicensesAlloc=(null) Network=(null)
   Command=(null)
   SubmitLine=sbatch -J run1 -o /tmp/gold/%j.out -N2 -n8 --mem=1000 -t 30 --comment=hello world --wrap srun -n8 sleep 3000
   WorkDir=/tmp
   Comment=hello world
   StdErr=
   StdIn=/dev/null
   StdOut=/tmp/gold/9.out

";
        assert_eq!(
            show_job(&samples::running(), None, &options(false, false)),
            expected
        );
    }

    /// With -d: exit code of the steps, and what the job has on each node.
    #[test]
    fn details_of_a_gpu_job() {
        let text = show_job(&samples::gpu_job(), None, &options(false, true));
        assert!(text.contains("   DerivedExitCode=0:0\n"), "{text}");
        assert!(
            text.contains("   JOB_GRES=gpu:h100:2\n     Nodes=n2 CPU_IDs=32 Mem=1000 GRES=gpu:h100:2(IDX:0-1)\n"),
            "{text}"
        );
        assert!(
            text.ends_with("   StdOut=/tmp/gold/10.out\n   TresPerNode=gres/gpu:h100:2\n\n"),
            "{text}"
        );
    }

    /// One line, as tools read it.
    #[test]
    fn one_line() {
        let text = show_job(&samples::gpu_job(), None, &options(true, false));
        assert!(text.starts_with("JobId=10 JobName=gpujob UserId=alice(1002) GroupId=nogroup(65534) MCS_label=N/A Priority="));
        assert!(
            text.ends_with("StdOut=/tmp/gold/10.out TresPerNode=gres/gpu:h100:2\n"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1);
    }

    /// The rest of an array, and one task of it.
    #[test]
    fn array() {
        let job = samples::pending_array();
        let whole = show_job(&job, None, &options(false, false));
        assert!(whole.starts_with(
            "JobId=15 ArrayJobId=15 ArrayTaskId=1,3,5,7,9,20%2 ArrayTaskThrottle=2 JobName=array2\n   UserId="
        ));
        assert!(whole.contains("   SubmitTime=2026-11-30T04:41:18 EligibleTime=Unknown\n   AccrueTime=Unknown\n   StartTime=Unknown EndTime=Unknown Deadline=N/A\n   SuspendTime=None"));
        assert!(whole.contains("   NodeList=\n   NumNodes=1-1 NumCPUs=1 NumTasks=1 "));
        assert!(whole.contains("   AllocTRES=(null)\n"));
        let task = show_job(&job, Some(3), &options(false, false));
        assert!(task.starts_with(
            "JobId=15 ArrayJobId=15 ArrayTaskId=3 ArrayTaskThrottle=2 JobName=array2\n"
        ));
    }
}
