//! Jobs in the controller's memory: `squeue --json`, `scontrol show job --json`.
//!
//! Limits are minutes, memory is MiB, times are seconds since the epoch with 0 for none.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use sluice_model::gres::GresRequest;
use sluice_model::job::{Exclusive, JobDescription, JobInfo};
use sluice_model::sluid::Sluid;
use sluice_model::time::UnixSeconds;
use sluice_model::tres::TresKind;

use super::job_resources::{NodeShape, write_job_resources};
use crate::envelope::Payload;
use crate::sink::Sink;
use crate::values::{Optional, OptionalFloat, exit_code, index_ranges};

/// What `thread_spec` says when no threads are set aside: 15 bits of the number that means "not set".
const NO_THREAD_SPEC: u64 = 32_766;

/// File that a batch job reads when none was named.
const NO_INPUT: &str = "/dev/null";

/// What a listing of jobs needs beside the jobs.
#[derive(Debug, Clone, Default)]
pub struct JobListing {
    /// ClusterName.
    pub cluster: String,
    /// When the answer was taken.
    pub time: Option<UnixSeconds>,
    /// When backfill last ran.
    pub last_backfill: Option<UnixSeconds>,
    /// Sockets and cores of the nodes that jobs hold; a job on other nodes has no cores listed.
    pub nodes: BTreeMap<String, NodeShape>,
}

/// A listing of jobs.
pub struct Jobs<'a, J> {
    /// The jobs in the order in which they are written.
    pub jobs: &'a [J],
    /// Everything else.
    pub listing: &'a JobListing,
}

impl<J: Borrow<JobInfo>> Payload for Jobs<'_, J> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.list("jobs", self.jobs, |sink, job| {
            write_job(sink, job.borrow(), self.listing);
        });
        sink.number("last_backfill", Optional::time(self.listing.last_backfill));
        sink.number("last_update", Optional::time(self.listing.time));
    }
}

fn write_job<S: Sink>(sink: &mut S, job: &JobInfo, listing: &JobListing) {
    sink.begin_map();
    identity(sink, job, listing);
    request_shape(sink, job);
    endings(sink, job);
    write_job_resources(sink, job, &listing.nodes);
    state_and_names(sink, job);
    sizes(sink, job);
    scheduling(sink, job, listing);
    files_and_times(sink, job);
    resources_text(sink, job);
    sink.end_map();
}

fn extra<'a>(description: &'a JobDescription, name: &str) -> &'a str {
    description.extra.get(name).map_or("", String::as_str)
}

fn extra_number(description: &JobDescription, name: &str) -> u64 {
    let text = extra(description, name);
    text.split('@')
        .next()
        .unwrap_or_default()
        .parse()
        .unwrap_or(0)
}

fn identity<S: Sink>(sink: &mut S, job: &JobInfo, listing: &JobListing) {
    let description = &job.description;
    sink.text("account", &job.account);
    sink.number("accrue_time", Optional::time(job.accrue_time));
    sink.text_or_empty("admin_comment", job.admin_comment.as_deref());
    sink.text("allocating_node", &description.submit_host);
    sink.number(
        "array_job_id",
        Optional::or_zero(job.array_job_id.map(|id| id.0)),
    );
    sink.number("array_task_id", Optional::or_unset(job.array_task_id));
    sink.number("array_max_tasks", Optional::Set(job.array_max_tasks.into()));
    match (&job.array_task_string, job.array_max_tasks) {
        (None, _) => sink.text("array_task_string", ""),
        (Some(text), 0) => sink.text("array_task_string", text),
        (Some(text), max) => sink.text("array_task_string", &format!("{text}%{max}")),
    }
    sink.uint("association_id", job.association_id);
    sink.text("batch_features", extra(description, "batch"));
    sink.flag("batch_flag", description.batch);
    sink.text_or_empty("batch_host", job.batch_host.as_deref());
    sink.texts("flags", flags(job));
    sink.text("burst_buffer", extra(description, "bb"));
    sink.text("burst_buffer_state", "");
    sink.text("cluster", &listing.cluster);
    sink.text("cluster_features", extra(description, "cluster-constraint"));
    sink.text_or_empty("command", description.command.as_deref());
    sink.text_or_empty("comment", description.comment.as_deref());
    sink.text("container", extra(description, "container"));
    sink.text("container_id", extra(description, "container-id"));
}

/// The flags that a record tells of; Slurm has more, about passes of its scheduler.
fn flags(job: &JobInfo) -> Vec<&'static str> {
    let description = &job.description;
    let started = job.start_time.is_some() && !job.state.is_pending();
    let has_dependency = job.dependency.is_some();
    let by_backfill = job.scheduler.as_deref() == Some("Backfill");
    let default_partition = description.partitions.is_empty();
    let implied_nodes = description.ntasks.is_some()
        && description.min_nodes.is_none()
        && description.max_nodes.is_none();
    let not_given = |text: &Option<String>| text.as_deref().is_none_or(str::is_empty);
    [
        (
            description.kill_on_invalid_dep == Some(true),
            "KILL_INVALID_DEPENDENCY",
        ),
        (
            description.kill_on_invalid_dep == Some(false),
            "NO_KILL_INVALID_DEPENDENCY",
        ),
        (description.spread_job, "SPREAD_JOB"),
        (description.use_min_nodes, "PREFER_MINIMUM_NODE_COUNT"),
        (description.ntasks.is_some(), "EXACT_TASK_COUNT_REQUESTED"),
        (started, "ACCRUE_COUNT_CLEARED"),
        (started, "JOB_WAS_RUNNING"),
        (description.mem_per_node.is_some(), "EXACT_MEMORY_REQUESTED"),
        (not_given(&description.account), "USING_DEFAULT_ACCOUNT"),
        (default_partition, "USING_DEFAULT_PARTITION"),
        (not_given(&description.qos), "USING_DEFAULT_QOS"),
        (not_given(&description.wckey), "USING_DEFAULT_WCKEY"),
        (has_dependency, "DEPENDENT"),
        (
            default_partition && not_given(&description.reservation),
            "PARTITION_ASSIGNED",
        ),
        (by_backfill, "BACKFILL_ATTEMPTED"),
        (by_backfill && !started, "SCHEDULING_ATTEMPTED"),
        (implied_nodes, "JOB_IMPLICIT_MAX_NODES"),
    ]
    .into_iter()
    .filter(|(on, _)| *on)
    .map(|(_, name)| name)
    .collect()
}

fn request_shape<S: Sink>(sink: &mut S, job: &JobInfo) {
    let description = &job.description;
    sink.flag("contiguous", description.contiguous);
    sink.uint("core_spec", description.core_spec.unwrap_or(0));
    let thread_spec = description.core_spec.map_or(NO_THREAD_SPEC, |_| 0);
    sink.uint("thread_spec", thread_spec);
    sink.number(
        "cores_per_socket",
        Optional::or_unset(description.cores_per_socket),
    );
    let billing = job.alloc_tres.get(&TresKind::Billing) as f64;
    let billable = if job.alloc_tres.is_empty() {
        OptionalFloat::Unset
    } else {
        OptionalFloat::Set(billing)
    };
    sink.real("billable_tres", billable);
    let cpus_per_task = description.cpus_per_task.unwrap_or(1);
    sink.number("cpus_per_task", Optional::Set(cpus_per_task.into()));
    sink.number("cpu_frequency_minimum", Optional::Unset);
    sink.number("cpu_frequency_maximum", Optional::Unset);
    sink.number("cpu_frequency_governor", Optional::Unset);
    sink.text(
        "cpus_per_tres",
        &per_gpu(description.cpus_per_gpu.map(u64::from)),
    );
    sink.text("cron", "");
}

fn per_gpu(amount: Option<u64>) -> String {
    amount.map_or_else(String::new, |amount| format!("gres/gpu:{amount}"))
}

fn endings<S: Sink>(sink: &mut S, job: &JobInfo) {
    let description = &job.description;
    sink.number("deadline", Optional::time(description.deadline));
    sink.number("delay_boot", Optional::Set(0));
    sink.text_or_empty("dependency", job.dependency.as_deref());
    exit_code(sink, "derived_exit_code", job.derived_exit_status);
    sink.number("eligible_time", Optional::time(job.eligible_time));
    sink.number("end_time", Optional::time(job.end_time));
    sink.text_or_empty("excluded_nodes", description.excluded_nodes.as_deref());
    exit_code(sink, "exit_code", job.exit_status);
    sink.text("extra", extra(description, "extra"));
    sink.text_or_empty("failed_node", job.failed_node.as_deref());
    sink.text_or_empty("features", description.constraint.as_deref());
    sink.text("federation_origin", "");
    sink.text("federation_siblings_active", "");
    sink.text("federation_siblings_viable", "");
    let with_gres = job.allocation.iter().filter(|node| !node.gres.is_empty());
    sink.list("gres_detail", with_gres, |sink, node| {
        let items: Vec<String> = node
            .gres
            .iter()
            .map(|item| {
                let kind = item
                    .type_name
                    .as_ref()
                    .map_or_else(|| item.name.clone(), |kind| format!("{}:{kind}", item.name));
                if item.indices.is_empty() {
                    format!("{kind}:{}", item.count)
                } else {
                    format!("{kind}:{}(IDX:{})", item.count, index_ranges(&item.indices))
                }
            })
            .collect();
        sink.string(&items.join(","));
    });
    sink.uint("group_id", description.gid);
    sink.text("group_name", &job.group_name);
    sink.number(
        "het_job_id",
        Optional::Set(job.het_job_id.map_or(0, |id| u64::from(id.0))),
    );
    sink.text(
        "het_job_id_set",
        job.het_job_id_set.as_deref().unwrap_or_default(),
    );
    sink.number(
        "het_job_offset",
        Optional::Set(u64::from(job.het_job_offset.unwrap_or(0))),
    );
    sink.uint("job_id", job.job_id.0);
}

fn state_and_names<S: Sink>(sink: &mut S, job: &JobInfo) {
    let description = &job.description;
    sink.empty_list("job_size_str");
    sink.texts("job_state", job.state.names());
    sink.number("last_sched_evaluation", Optional::time(job.last_sched_eval));
    let licenses = description.licenses.as_deref().unwrap_or_default();
    sink.text("licenses", licenses);
    sink.text_or_empty("licenses_allocated", job.licenses_allocated.as_deref());
    sink.texts("mail_type", mail_types(description.mail_type.as_deref()));
    sink.text(
        "mail_user",
        description.mail_user.as_deref().unwrap_or(&job.user_name),
    );
    sink.number("max_cpus", Optional::Set(0));
    // Only a job that waits can still grow; tasks alone mean at most as many nodes.
    let max_nodes = match (
        job.state.is_pending(),
        description.max_nodes,
        description.min_nodes,
    ) {
        (false, _, _) => 0,
        (true, Some(max), _) => max,
        (true, None, None) => description.ntasks.unwrap_or(0),
        (true, None, Some(_)) => 0,
    };
    sink.number("max_nodes", Optional::Set(max_nodes.into()));
    sink.text("mcs_label", "");
    sink.text(
        "memory_per_tres",
        &per_gpu(description.mem_per_gpu.map(|size| size.0)),
    );
    sink.uint("memory_update_delay", 0_u64);
    sink.uint("memory_update_margin", 0_u64);
    sink.text_or_empty("name", description.name.as_deref());
    sink.text("network", extra(description, "network"));
    sink.text("nodes", &job.nodes);
    sink.int("nice", description.nice);
}

/// Words of `--mail-type` as the data parser names them.
fn mail_types(text: Option<&str>) -> Vec<&'static str> {
    const TYPES: [(&str, &str); 11] = [
        ("BEGIN", "BEGIN"),
        ("END", "END"),
        ("FAIL", "FAIL"),
        ("REQUEUE", "REQUEUE"),
        ("TIME_LIMIT", "TIME=100%"),
        ("TIME_LIMIT_90", "TIME=90%"),
        ("TIME_LIMIT_80", "TIME=80%"),
        ("TIME_LIMIT_50", "TIME=50%"),
        ("STAGE_OUT", "STAGE_OUT"),
        ("ARRAY_TASKS", "ARRAY_TASKS"),
        ("INVALID_DEPEND", "INVALID_DEPENDENCY"),
    ];
    let words: Vec<String> = text
        .unwrap_or_default()
        .split(',')
        .map(|word| word.trim().to_ascii_uppercase())
        .collect();
    let all = words.iter().any(|word| word == "ALL");
    let in_all = [
        "BEGIN",
        "END",
        "FAIL",
        "REQUEUE",
        "STAGE_OUT",
        "INVALID_DEPEND",
    ];
    TYPES
        .into_iter()
        .filter(|(word, _)| {
            words.iter().any(|given| given == word) || (all && in_all.contains(word))
        })
        .map(|(_, name)| name)
        .collect()
}

fn sizes<S: Sink>(sink: &mut S, job: &JobInfo) {
    let description = &job.description;
    sink.number(
        "tasks_per_core",
        Optional::or_infinite(description.ntasks_per_core),
    );
    sink.number(
        "tasks_per_tres",
        Optional::or_zero(description.ntasks_per_gpu),
    );
    sink.number(
        "tasks_per_node",
        Optional::or_zero(description.ntasks_per_node),
    );
    sink.number(
        "tasks_per_socket",
        Optional::or_infinite(description.ntasks_per_socket),
    );
    sink.number("tasks_per_board", Optional::Set(0));
    sink.number("cpus", Optional::Set(job.num_cpus.into()));
    sink.number("node_count", Optional::Set(job.num_nodes.into()));
    sink.number("tasks", Optional::Set(job.num_tasks.into()));
    sink.text("partition", &job.partition);
    sink.text_or_empty("prefer", description.prefer.as_deref());
    sink.number("memory_per_cpu", Optional::memory(description.mem_per_cpu));
    sink.number(
        "memory_per_node",
        Optional::memory(description.mem_per_node),
    );
    let cpus = description.min_cpus_per_node.or(description.cpus_per_task);
    sink.number(
        "minimum_cpus_per_node",
        Optional::Set(cpus.unwrap_or(1).into()),
    );
    sink.number(
        "minimum_tmp_disk_per_node",
        Optional::or_zero(description.tmp_disk_mib),
    );
}

fn scheduling<S: Sink>(sink: &mut S, job: &JobInfo, listing: &JobListing) {
    let description = &job.description;
    sink.number("preempt_time", Optional::Set(0));
    let started = job.start_time.filter(|_| !job.state.is_pending());
    sink.number("preemptable_time", Optional::time(started));
    let before = u64::try_from(job.pre_suspend_secs).unwrap_or(0);
    sink.number("pre_sus_time", Optional::Set(before));
    sink.flag("hold", job.priority == 0);
    sink.number("priority", Optional::Set(job.priority.into()));
    sink.list(
        "priority_by_partition",
        &job.priority_by_partition,
        |sink, one| {
            sink.begin_map();
            sink.text("partition", &one.partition);
            sink.uint("priority", one.priority);
            sink.end_map();
        },
    );
    sink.texts("profile", ["NOT_SET"]);
    sink.text("qos", &job.qos);
    sink.flag("reboot", description.extra.contains_key("reboot"));
    sink.text_or_empty("required_nodes", description.required_nodes.as_deref());
    sink.uint("required_switches", extra_number(description, "switches"));
    sink.flag("requeue", job.requeue);
    sink.number("resize_time", Optional::Set(0));
    sink.uint("restart_cnt", job.restarts);
    sink.text_or_empty("resv_name", description.reservation.as_deref());
    sink.text("runtime", "");
    sink.text_or_empty("scheduled_nodes", job.sched_nodes.as_deref());
    sink.uint("segment_size", extra_number(description, "segment"));
    sink.text("selinux_context", "");
    let shared = match description.exclusive {
        Some(Exclusive::User) => Some("user"),
        Some(Exclusive::Mcs) => Some("mcs"),
        Some(Exclusive::Topo) => Some("topo"),
        _ if description.oversubscribe => Some("oversubscribe"),
        _ => None,
    };
    sink.texts("shared", shared);
    sink.map("step_id", |sink| {
        sink.text(
            "sluid",
            &Sluid::of(&listing.cluster, job.submit_time, job.job_id).to_string(),
        );
        sink.number("job_id", Optional::Set(job.job_id.0.into()));
        sink.number("step_het_component", Optional::Unset);
        sink.text("step_id", "entire");
    });
    sink.uint("sockets_per_board", 0_u64);
    sink.number(
        "sockets_per_node",
        Optional::or_unset(description.sockets_per_node),
    );
}

fn files_and_times<S: Sink>(sink: &mut S, job: &JobInfo) {
    let description = &job.description;
    sink.number("start_time", Optional::time(job.start_time));
    sink.text_or_empty("state_description", job.reason_text.as_deref());
    sink.text("state_reason", job.reason.name());
    let input = if description.batch { NO_INPUT } else { "" };
    // A file that was not named has no pattern; its full name is more use than nothing.
    sink.text(
        "standard_input",
        description.std_in.as_deref().unwrap_or(input),
    );
    let output = description.std_out.as_deref().unwrap_or(&job.std_out_path);
    sink.text("standard_output", output);
    sink.text_or_empty("standard_error", description.std_err.as_deref());
    sink.text(
        "stdin_expanded",
        if job.std_in_path.is_empty() {
            input
        } else {
            &job.std_in_path
        },
    );
    sink.text("stdout_expanded", &job.std_out_path);
    sink.text("stderr_expanded", &job.std_err_path);
    sink.number("submit_time", Optional::time(Some(job.submit_time)));
    sink.text("submit_line", &description.submit_line);
    sink.number("suspend_time", Optional::time(job.suspend_time));
    sink.text_or_empty("system_comment", job.system_comment.as_deref());
    sink.number("time_limit", Optional::limit(job.time_limit));
    let least = description.time_min.and_then(|limit| limit.minutes());
    sink.number("time_minimum", Optional::or_zero(least));
    sink.number(
        "threads_per_core",
        Optional::or_unset(description.threads_per_core),
    );
}

fn resources_text<S: Sink>(sink: &mut S, job: &JobInfo) {
    let description = &job.description;
    let bind = description
        .gpu_bind
        .as_ref()
        .map_or_else(String::new, |bind| format!("gres/gpu:{bind}"));
    sink.text("tres_bind", &bind);
    let frequency = match extra(description, "gpu-freq") {
        "" => String::new(),
        frequency => format!("gpu:{frequency}"),
    };
    sink.text("tres_freq", &frequency);
    sink.text("tres_per_job", &requests(&description.gres_per_job));
    sink.text("tres_per_node", &requests(&description.gres_per_node));
    sink.text("tres_per_socket", &requests(&description.gres_per_socket));
    sink.text("tres_per_task", &requests(&description.gres_per_task));
    sink.text("tres_req_str", &job.req_tres.to_string());
    sink.text("tres_alloc_str", &job.alloc_tres.to_string());
    sink.uint("user_id", description.uid);
    sink.text("user_name", &job.user_name);
    sink.uint("maximum_switch_wait_time", 0_u64);
    sink.text_or_empty("wckey", description.wckey.as_deref());
    sink.text("current_working_directory", &description.work_dir);
}

fn requests(list: &[GresRequest]) -> String {
    let texts: Vec<String> = list
        .iter()
        .map(|request| format!("gres/{request}"))
        .collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use crate::envelope::{Meta, to_json};

    fn listing() -> JobListing {
        JobListing {
            cluster: "oracle".to_string(),
            time: Some(UnixSeconds(1_796_013_715)),
            last_backfill: Some(UnixSeconds(1_796_013_710)),
            nodes: BTreeMap::new(),
        }
    }

    fn text(jobs: &[JobInfo]) -> String {
        let listing = listing();
        to_json(
            &Meta::default(),
            &Jobs {
                jobs,
                listing: &listing,
            },
        )
    }

    /// The record of a waiting array, line by line as a real squeue prints it.
    #[test]
    fn waiting_array() {
        let text = text(&[samples::array()]);
        let expected = include_str!("testdata/squeue_array.json");
        // What stands around the record has its own test.
        let record = &text[..text.find("  \"meta\"").expect("meta")];
        assert_eq!(record, expected);
    }

    /// A running job: flags, GPUs, licences and billing, as the same Slurm printed them.
    #[test]
    fn running_with_gpus() {
        let document: serde_json::Value =
            serde_json::from_str(&text(&[samples::gpu_job()])).expect("JSON");
        let job = &document["jobs"][0];
        let flags: Vec<&str> = job["flags"]
            .as_array()
            .expect("list")
            .iter()
            .filter_map(|flag| flag.as_str())
            .collect();
        assert_eq!(
            flags,
            [
                "EXACT_TASK_COUNT_REQUESTED",
                "ACCRUE_COUNT_CLEARED",
                "JOB_WAS_RUNNING",
                "EXACT_MEMORY_REQUESTED",
                "USING_DEFAULT_ACCOUNT",
                "USING_DEFAULT_PARTITION",
                "USING_DEFAULT_QOS",
                "USING_DEFAULT_WCKEY",
                "PARTITION_ASSIGNED",
                "BACKFILL_ATTEMPTED",
                "JOB_IMPLICIT_MAX_NODES"
            ]
        );
        assert_eq!(job["gres_detail"][0], "gpu:h100:2(IDX:0-1)");
        assert_eq!(job["tres_per_node"], "gres/gpu:h100:2");
        assert_eq!(job["billable_tres"]["number"], 1.0);
        assert_eq!(job["max_nodes"]["number"], 0);
        assert_eq!(job["preemptable_time"]["number"], 1_796_013_680);
        assert_eq!(
            job["tres_alloc_str"],
            "cpu=1,mem=1000M,node=1,billing=1,gres/gpu=2,gres/gpu:h100=2"
        );
    }

    /// `ALL` stands for six kinds; percentages have their own words.
    #[test]
    fn mail() {
        assert_eq!(mail_types(Some("END,time_limit_80")), ["END", "TIME=80%"]);
        assert_eq!(mail_types(Some("ALL")).len(), 6);
        assert!(mail_types(None).is_empty() && mail_types(Some("NONE")).is_empty());
    }
}
