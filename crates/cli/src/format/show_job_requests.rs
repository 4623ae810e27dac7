//! The lines of `scontrol show job` about what was asked for beside nodes, CPUs and memory.
//!
//! Each stands only when it was asked for. Source: scontrol(1) and its output.

use sluice_model::job::JobInfo;
use sluice_model::time::{TimeLimit, format_duration_full};

use super::show_job::Record;
use crate::submit::resources::tres_per_task;

/// Requests about GRES and binding, each only when it was made.
pub(super) fn requests(record: &mut Record, job: &JobInfo) {
    let description = &job.description;
    let list = |requests: &[sluice_model::gres::GresRequest]| {
        requests
            .iter()
            .map(|request| format!("gres/{request}"))
            .collect::<Vec<_>>()
            .join(",")
    };
    let kept = |name: &str| description.extra.get(name).map(String::as_str);
    if let Some(size) = kept("segment") {
        record.line(format_args!("SegmentSize={size}"));
    }
    if let Some(switches) = kept("switches") {
        record.line(format_args!("Switches={}", switch_wait(switches)));
    }
    if let Some(buffer) = kept("bb") {
        record.line(format_args!("BurstBuffer={buffer}"));
    }
    flags(record, job);
    if let Some(count) = description.cpus_per_gpu {
        record.line(format_args!("CpusPerTres=gres/gpu:{count}"));
    }
    if let Some(size) = description.mem_per_gpu {
        record.line(format_args!("MemPerTres=gres/gpu:{}", size.0));
    }
    match &description.gpu_bind {
        // `--tres-bind` names what it is about.
        Some(bind) if bind.starts_with("gres/") => {
            record.line(format_args!("TresBind={bind}"));
        }
        Some(bind) => record.line(format_args!("TresBind=gres/gpu:{bind}")),
        None => {
            let gpus = description.gres_per_task.iter();
            let count: u64 = gpus
                .filter(|gres| gres.name == "gpu")
                .map(|gres| gres.count)
                .sum();
            if count > 0 {
                record.line(format_args!("TresBind=gres/gpu:per_task:{count}"));
            }
        }
    }
    if let Some(freq) = kept("gpu-freq") {
        record.line(format_args!("TresFreq=gpu:{freq}"));
    }
    for (key, requests) in [
        ("TresPerJob", &description.gres_per_job),
        ("TresPerNode", &description.gres_per_node),
        ("TresPerSocket", &description.gres_per_socket),
    ] {
        if !requests.is_empty() {
            record.line(format_args!("{key}={}", list(requests)));
        }
    }
    if let Some(text) = tres_per_task(description) {
        record.line(format_args!("TresPerTask={text}"));
    }
    if let Some(count) = description.ntasks_per_gpu {
        record.line(format_args!("NtasksPerTRES={count}"));
    }
}

/// `--switches` with the time to wait for them, which is five minutes when nothing else is said. Source: slurm.conf(5),
/// `max_switch_wait`.
fn switch_wait(text: &str) -> String {
    const LONGEST_SECS: i64 = 300;
    let (count, wait) = text.split_once('@').unwrap_or((text, ""));
    let wait = wait
        .parse::<TimeLimit>()
        .ok()
        .and_then(TimeLimit::seconds)
        .map_or(LONGEST_SECS, |wait| wait.min(LONGEST_SECS));
    format!("{count}@{}", format_duration_full(wait))
}

/// Choices that are said in a word, each only when it was made.
fn flags(record: &mut Record, job: &JobInfo) {
    let description = &job.description;
    let kept = |name: &str| description.extra.get(name).map(String::as_str);
    let mut words: Vec<String> = Vec::new();
    match kept("gres-flags") {
        Some(flags) if flags.contains("enforce-binding") => {
            words.push("GresEnforceBind=Yes".to_string());
        }
        Some(flags) if flags.contains("disable-binding") => {
            words.push("GresEnforceBind=No".to_string());
        }
        _ => {}
    }
    if let Some(kill) = description.kill_on_invalid_dep {
        let word = if kill { "Yes" } else { "No" };
        words.push(format!("KillOnInvalidDependent={word}"));
    }
    if description.spread_job {
        words.push("SpreadJob=Yes".to_string());
    }
    if !words.is_empty() {
        record.line(format_args!("{}", words.join(" ")));
    }
    match kept("oom-kill-step") {
        Some("" | "1") => record.line(format_args!("OOMKillStep=1")),
        Some("0") => record.line(format_args!("OOMKillStep=0")),
        _ => {}
    }
}
