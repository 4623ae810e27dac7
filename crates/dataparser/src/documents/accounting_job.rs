//! Jobs of the accounting database: `sacct --json`.
//!
//! Times are seconds since the epoch with 0 for none; CPU time is seconds and microseconds.

use sluice_model::accounting::{JobRecord, StepRecord, UNLIMITED_MINUTES, job_flag};
use sluice_model::exit_status::WaitStatus;
use sluice_model::filename::{FilenameContext, expand_pattern};
use sluice_model::hostlist::parse_hostlist;
use sluice_model::sluid::Sluid;
use sluice_model::state::JobStateFull;
use sluice_model::time::UnixSeconds;

use super::accounting_step::write_step;
use crate::envelope::Payload;
use crate::sink::Sink;
use crate::values::{Optional, TresIds, exit_code};

/// Microseconds of a second.
const MICROS: u64 = 1_000_000;

/// What accounting records need beside themselves.
pub struct AccountingNames<'a> {
    /// Ids of the TRES.
    pub tres: &'a TresIds,
    /// Name of a user by uid.
    pub user: &'a dyn Fn(u32) -> String,
    /// The present, for what still runs.
    pub now: UnixSeconds,
}

/// A listing of jobs with their steps.
pub struct AccountingJobs<'a> {
    /// The jobs.
    pub jobs: &'a [(JobRecord, Vec<StepRecord>)],
    /// Names.
    pub names: AccountingNames<'a>,
}

impl Payload for AccountingJobs<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.list("jobs", self.jobs, |sink, (job, steps)| {
            write_job(sink, job, steps, &self.names);
        });
    }
}

/// The words of a state number.
pub(super) fn state_words(state: u32, flags: u32) -> Vec<&'static str> {
    JobStateFull::from_number(state | flags).map_or_else(Vec::new, JobStateFull::names)
}

/// `{seconds, microseconds}`.
pub(super) fn write_cpu_time<S: Sink>(sink: &mut S, key: &'static str, micros: u64) {
    sink.map(key, |sink| {
        sink.uint("seconds", micros / MICROS);
        sink.uint("microseconds", micros % MICROS);
    });
}

/// Run time without pauses.
pub(super) fn elapsed(
    start: Option<UnixSeconds>,
    end: Option<UnixSeconds>,
    suspended_secs: u64,
    now: UnixSeconds,
) -> u64 {
    let Some(start) = start else { return 0 };
    let total = u64::try_from(end.unwrap_or(now).since(start)).unwrap_or(0);
    total.saturating_sub(suspended_secs)
}

fn write_job<S: Sink>(
    sink: &mut S,
    job: &JobRecord,
    steps: &[StepRecord],
    names: &AccountingNames<'_>,
) {
    sink.begin_map();
    identity(sink, job);
    exit_code(
        sink,
        "derived_exit_code",
        WaitStatus(job.derived_exit_status),
    );
    times(sink, job, steps, names.now);
    sink.text(
        "exclusive",
        if job.exclusive.is_empty() {
            "NO"
        } else {
            &job.exclusive
        },
    );
    exit_code(sink, "exit_code", WaitStatus(job.exit_status));
    sink.text("extra", &job.extra);
    sink.text("failed_node", &job.failed_node);
    sink.texts("flags", flags(job.flags));
    sink.text("group", &job.group);
    sink.map("het", |sink| {
        sink.uint("job_id", job.het_job_id.map_or(0, |id| id.0));
        sink.number("job_offset", Optional::or_unset(job.het_job_offset));
    });
    request(sink, job, names);
    files(sink, job);
    sink.map("state", |sink| {
        sink.texts("current", state_words(job.state, job.state_flags));
        sink.text(
            "reason",
            if job.reason.is_empty() {
                "None"
            } else {
                &job.reason
            },
        );
    });
    sink.list("steps", steps, |sink, step| {
        write_step(sink, job, step, names)
    });
    sink.text("submit_line", &job.submit_line);
    sink.map("tres", |sink| {
        names.tres.write_list(sink, "allocated", &job.alloc_tres);
        names.tres.write_list(sink, "requested", &job.req_tres);
    });
    sink.text("used_gres", "");
    sink.text("user", &job.user);
    sink.map("wckey", |sink| {
        let default = job.wckey.strip_prefix('*');
        sink.text("wckey", default.unwrap_or(&job.wckey));
        sink.texts(
            "flags",
            default
                .filter(|key| !key.is_empty())
                .map(|_| "ASSIGNED_DEFAULT"),
        );
    });
    sink.text("working_directory", &job.work_dir);
    sink.end_map();
}

fn identity<S: Sink>(sink: &mut S, job: &JobRecord) {
    sink.text("account", &job.account);
    sink.map("comment", |sink| {
        sink.text("administrator", &job.admin_comment);
        sink.text("job", &job.comment);
        sink.text("system", &job.system_comment);
    });
    sink.uint("allocation_nodes", job.alloc_nodes);
    let throttle = job.array_task_string.split_once('%');
    sink.map("array", |sink| {
        sink.uint("job_id", job.array_job_id.map_or(0, |id| id.0));
        sink.map("limits", |sink| {
            sink.map("max", |sink| {
                sink.map("running", |sink| {
                    let tasks = throttle.and_then(|(_, count)| count.parse::<u64>().ok());
                    sink.uint("tasks", tasks.unwrap_or(0));
                });
            });
        });
        sink.number("task_id", Optional::or_unset(job.array_task_id));
        sink.text("task", &job.array_task_string);
    });
    sink.map("association", |sink| {
        sink.text("account", "");
        sink.text("cluster", &job.cluster);
        sink.text("partition", "");
        sink.text("user", "");
        sink.uint("id", job.association_id.unwrap_or(0));
    });
    sink.text("block", "");
    sink.text("cluster", &job.cluster);
    sink.text("constraints", &job.constraints);
    sink.text("container", &job.container);
    sink.text("sluid", &sluid(job));
}

fn times<S: Sink>(sink: &mut S, job: &JobRecord, steps: &[StepRecord], now: UnixSeconds) {
    let time = |time: Option<UnixSeconds>| time.map_or(0, |time| time.0);
    let system: u64 = steps.iter().map(|step| step.usage.system_cpu_us).sum();
    let user: u64 = steps.iter().map(|step| step.usage.user_cpu_us).sum();
    sink.map("time", |sink| {
        sink.uint(
            "elapsed",
            elapsed(job.start, job.end, job.suspended_secs, now),
        );
        sink.int("eligible", time(job.eligible));
        sink.int("end", time(job.end));
        let planned = match (job.eligible, job.start) {
            (Some(eligible), Some(start)) => {
                Optional::Set(u64::try_from(start.since(eligible)).unwrap_or(0))
            }
            _ => Optional::Unset,
        };
        sink.number("planned", planned);
        sink.int("start", time(job.start));
        sink.int("submission", job.submit.0);
        sink.uint("suspended", job.suspended_secs);
        write_cpu_time(sink, "system", system);
        let limit = match job.time_limit_minutes {
            None => Optional::Unset,
            Some(UNLIMITED_MINUTES) => Optional::Infinite,
            Some(minutes) => Optional::Set(minutes.into()),
        };
        sink.number("limit", limit);
        write_cpu_time(sink, "total", system + user);
        write_cpu_time(sink, "user", user);
    });
}

fn flags(bits: u32) -> impl Iterator<Item = &'static str> {
    [
        (job_flag::SCHED_SUBMIT, "STARTED_ON_SUBMIT"),
        (job_flag::SCHED_MAIN, "STARTED_ON_SCHEDULE"),
        (job_flag::SCHED_BACKFILL, "STARTED_ON_BACKFILL"),
        (job_flag::START_RECEIVED, "START_RECEIVED"),
    ]
    .into_iter()
    .filter(move |(bit, _)| bits & bit != 0)
    .map(|(_, word)| word)
}

fn request<S: Sink>(sink: &mut S, job: &JobRecord, names: &AccountingNames<'_>) {
    sink.uint("job_id", job.job_id.0);
    sink.text("name", &job.name);
    sink.text("licenses", &job.licenses);
    sink.map("mcs", |sink| sink.text("label", &job.mcs_label));
    // Readers take this text for the state "no nodes yet".
    sink.text(
        "nodes",
        if job.node_list.is_empty() {
            "None assigned"
        } else {
            &job.node_list
        },
    );
    sink.text("oversubscribe", "NO");
    sink.text("partition", &job.partition);
    sink.flag("hold", false);
    sink.number("priority", Optional::Set(job.priority.into()));
    sink.text("qos", &job.qos);
    sink.text("qosreq", &job.qos_requested);
    sink.map("required", |sink| {
        sink.uint("CPUs", job.req_cpus);
        sink.number("memory_per_cpu", Optional::Unset);
        let nodes = u64::from(job.req_nodes.max(1));
        sink.number("memory_per_node", Optional::Set(job.req_mem_mib / nodes));
    });
    let killer = job.kill_requester.map_or_else(String::new, names.user);
    sink.text("kill_request_user", &killer);
    sink.uint("restart_cnt", job.attempt);
    sink.map("reservation", |sink| {
        sink.uint("id", 0_u64);
        sink.text("name", &job.reservation);
        sink.text("requested", &job.reservation_requested);
    });
}

fn files<S: Sink>(sink: &mut S, job: &JobRecord) {
    sink.text_or_empty("script", job.script.as_deref());
    sink.uint("segment_size", 0_u64);
    sink.text("original_sluid", "");
    let context = filename_context(job, "batch");
    let expanded = |pattern: &str| expand_pattern(pattern, &context);
    sink.text("stdin_expanded", &expanded(&job.std_in));
    sink.text("stdout_expanded", &expanded(&job.std_out));
    sink.text("stderr_expanded", &expanded(&job.std_err));
    sink.text("stdout", &job.std_out);
    sink.text("stderr", &job.std_err);
    sink.text("stdin", &job.std_in);
}

fn sluid(job: &JobRecord) -> String {
    Sluid::of(&job.cluster, job.submit, job.job_id).to_string()
}

/// What patterns in file names of a job's step stand for.
pub(super) fn filename_context(job: &JobRecord, step: &str) -> FilenameContext {
    let first_node = parse_hostlist(&job.node_list)
        .ok()
        .and_then(|names| names.into_iter().next());
    FilenameContext {
        job_id: job.job_id.0,
        array_job_id: job.array_job_id.map(|id| id.0),
        array_task_id: job.array_task_id,
        step_id: step.to_string(),
        node_name: first_node.unwrap_or_default(),
        user: job.user.clone(),
        job_name: job.name.clone(),
        restart_count: job.attempt,
        sluid: sluid(job),
        ..FilenameContext::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use crate::envelope::{Meta, to_json};

    /// A finished job with its batch step, line by line as a real sacct prints them. Slurm's own identifiers of submissions,
    /// which this scheduler has not, are empty.
    #[test]
    fn finished_job() {
        let ids = TresIds::default();
        let jobs = [samples::record()];
        let text = to_json(
            &Meta::default(),
            &AccountingJobs {
                jobs: &jobs,
                names: AccountingNames {
                    tres: &ids,
                    user: &|uid| uid.to_string(),
                    now: UnixSeconds(1_796_013_700),
                },
            },
        );
        let record = &text[..text.find("  \"meta\"").expect("end")];
        assert_eq!(record, include_str!("testdata/sacct.json"));
    }

    /// Words of flags; the time a job has run so far; limits that are no number.
    #[test]
    fn running_job() {
        let (mut job, _) = samples::record();
        job.end = None;
        job.state = 1;
        job.time_limit_minutes = Some(UNLIMITED_MINUTES);
        job.kill_requester = Some(0);
        job.flags = job_flag::SCHED_BACKFILL;
        let jobs = [(job, Vec::new())];
        let ids = TresIds::default();
        let text = to_json(
            &Meta::default(),
            &AccountingJobs {
                jobs: &jobs,
                names: AccountingNames {
                    tres: &ids,
                    user: &|_| "root".to_string(),
                    now: UnixSeconds(1_796_013_700),
                },
            },
        );
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let record = &document["jobs"][0];
        assert_eq!(record["time"]["elapsed"], 31);
        assert_eq!(record["time"]["limit"]["infinite"], true);
        assert_eq!(record["state"]["current"], serde_json::json!(["RUNNING"]));
        assert_eq!(record["flags"], serde_json::json!(["STARTED_ON_BACKFILL"]));
        assert_eq!(record["kill_request_user"], "root");
    }
}
