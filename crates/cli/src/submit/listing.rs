//! The options in force as `-v` lists them: by name, with their values as they were understood.
//!
//! Pure. What has a field is written from the request, so that the list tells what is sent. Source: what sbatch -v prints.

use std::path::Path;

use jiff::tz::TimeZone;
use sluice_model::job::{Exclusive, JobDescription, OpenMode};
use sluice_model::memory::format_memory;
use sluice_model::signal::Signal;
use sluice_model::time::{
    TimeLimit, UnixSeconds, format_duration_full, format_timestamp, parse_duration_seconds,
};

use super::checks;
use super::options::Options;
use super::resources::mail_events;

/// Names and values in force.
#[must_use]
pub fn listing(options: &Options, job: &JobDescription) -> Vec<(String, String)> {
    options
        .names()
        .into_iter()
        .filter_map(|name| {
            let typed = options.get(name).unwrap_or_default();
            let shown = value(name, typed, options, job)?;
            Some((name.to_string(), shown))
        })
        .collect()
}

/// Seconds of a duration such as `10` (minutes) or `1:00:00`.
pub(super) fn seconds(text: &str) -> Option<i64> {
    parse_duration_seconds(text)
        .ok()
        .and_then(|seconds| i64::try_from(seconds).ok())
}

fn value(name: &str, typed: &str, options: &Options, job: &JobDescription) -> Option<String> {
    let count = |count: Option<u32>| count.map_or_else(|| typed.to_string(), |n| n.to_string());
    Some(match name {
        "verbose" => options.count("verbose").to_string(),
        "account" => job.account.clone()?,
        "job-name" => job.name.clone()?,
        "comment" => job.comment.clone()?,
        "partition" => job.partitions.join(","),
        "qos" => job.qos.clone()?,
        "array" => job.array.clone()?,
        "dependency" => job.dependency.clone()?,
        "constraint" => job.constraint.clone()?,
        "licenses" => job.licenses.clone()?,
        "mail-user" => job.mail_user.clone()?,
        "nodes" => nodes(job, typed),
        "ntasks" => count(job.ntasks),
        "cpus-per-task" => count(job.cpus_per_task),
        "ntasks-per-node" => count(job.ntasks_per_node),
        "ntasks-per-core" => count(job.ntasks_per_core),
        "ntasks-per-socket" => count(job.ntasks_per_socket),
        "ntasks-per-gpu" => count(job.ntasks_per_gpu),
        "threads-per-core" => count(job.threads_per_core),
        "mincpus" => count(job.min_cpus_per_node),
        "cpus-per-gpu" => count(job.cpus_per_gpu),
        "mem" => match job.mem_per_node? {
            // So does Slurm, for want of a unit.
            size if size.0 == 0 => "0?".to_string(),
            size => memory(size),
        },
        "mem-per-cpu" => memory(job.mem_per_cpu?),
        "mem-per-gpu" => memory(job.mem_per_gpu?),
        "tmp" => memory(sluice_model::memory::MemoryMib(job.tmp_disk_mib?)),
        "time" => limit(job.time_limit?),
        "time-min" => limit(job.time_min?),
        "begin" => point(job.begin_time?),
        "deadline" => point(job.deadline?),
        "input" => path(job.std_in.as_deref()?, job),
        "output" => path(job.std_out.as_deref()?, job),
        "error" => path(job.std_err.as_deref()?, job),
        "chdir" => job.work_dir.clone(),
        "exclusive" => match job.exclusive {
            Some(Exclusive::Node) => "exclusive",
            Some(Exclusive::User) => "user",
            Some(Exclusive::Mcs) => "mcs",
            Some(Exclusive::Topo) => "topo",
            None => "oversubscribe",
        }
        .to_string(),
        "oversubscribe" => "oversubscribe".to_string(),
        "nice" => job.nice.to_string(),
        "gres" => gres(typed),
        "mail-type" => mail_events(typed).unwrap_or_default(),
        "open-mode" => match job.open_mode? {
            OpenMode::Append => "a".to_string(),
            OpenMode::Truncate => "t".to_string(),
        },
        "no-kill" => if job.no_kill { "set" } else { "unset" }.to_string(),
        "no-requeue" | "requeue" => requeue(name, typed, job),
        "signal" => signal(job)?,
        "distribution" => typed.to_ascii_lowercase(),
        "extra-node-info" => layout(typed),
        "switches" => match typed.split_once('@') {
            Some((count, wait)) => {
                format!(
                    "{count}@{}",
                    format_duration_full(seconds(wait).unwrap_or(0))
                )
            }
            None => typed.to_string(),
        },
        "delay-boot" => format_duration_full(seconds(typed)?),
        "oom-kill-step" if typed.is_empty() => "1".to_string(),
        "propagate" if typed.is_empty() => "ALL".to_string(),
        "profile" => checks::profile(typed)?,
        "cpu-freq" => capitalized(typed),
        "kill-on-invalid-dep" => typed.to_ascii_lowercase(),
        _ if typed.is_empty() && !options.has_value(name) => "set".to_string(),
        _ => typed.to_string(),
    })
}

fn memory(size: sluice_model::memory::MemoryMib) -> String {
    // The unit of the smallest is left out.
    let text = format_memory(size);
    text.strip_suffix('M').map(String::from).unwrap_or(text)
}

fn nodes(job: &JobDescription, typed: &str) -> String {
    match (job.min_nodes, job.max_nodes) {
        (Some(min), Some(max)) if min != max => format!("{min}-{max}"),
        (Some(min), _) => min.to_string(),
        (None, _) => typed.to_string(),
    }
}

fn limit(limit: TimeLimit) -> String {
    match limit {
        TimeLimit::Unlimited => "UNLIMITED".to_string(),
        TimeLimit::Minutes(minutes) => format_duration_full(i64::from(minutes) * 60),
    }
}

fn point(time: UnixSeconds) -> String {
    format_timestamp(time, &TimeZone::system())
}

/// A file name, in the working directory if it has no other.
fn path(pattern: &str, job: &JobDescription) -> String {
    Path::new(&job.work_dir)
        .join(pattern)
        .to_string_lossy()
        .into_owned()
}

fn gres(typed: &str) -> String {
    if typed.eq_ignore_ascii_case("none") {
        return typed.to_string();
    }
    typed
        .split(',')
        .map(|item| match item.starts_with("gres/") {
            true => item.to_string(),
            false => format!("gres/{}", item.strip_prefix("gres:").unwrap_or(item)),
        })
        .collect::<Vec<_>>()
        .join(",")
}

fn requeue(name: &str, typed: &str, job: &JobDescription) -> String {
    match job.requeue {
        Some(false) => "no-requeue",
        _ if typed.eq_ignore_ascii_case("expedite") => "expedite",
        _ if name == "no-requeue" => "requeue",
        _ => "requeue",
    }
    .to_string()
}

fn signal(job: &JobDescription) -> Option<String> {
    let warn = job.warn_signal?;
    let signal = Signal::from_number(warn.signal)?;
    let name = signal
        .name()
        .map_or_else(|| warn.signal.to_string(), String::from);
    let mut text = match (warn.reservation, warn.batch_only) {
        (true, true) => "RB:",
        (true, false) => "R:",
        (false, true) => "B:",
        (false, false) => "",
    }
    .to_string();
    text.push_str(&name);
    if warn.seconds != 60 {
        text.push_str(&format!("@{}", warn.seconds));
    }
    Some(text)
}

/// `2:4:1`; open places in front are left out, as are those behind.
fn layout(typed: &str) -> String {
    let mut shown = String::new();
    for (place, part) in typed.split(':').take(3).enumerate() {
        if part == "*" {
            continue;
        }
        if place > 0 {
            shown.push(':');
        }
        shown.push_str(part.split('-').next().unwrap_or(part));
    }
    shown
}

fn capitalized(text: &str) -> String {
    let mut start = true;
    text.chars()
        .map(|letter| {
            let shown = if start {
                letter.to_ascii_uppercase()
            } else {
                letter.to_ascii_lowercase()
            };
            start = !letter.is_ascii_alphanumeric();
            shown
        })
        .collect()
}
