//! What a restart costs: from the start of `ctld` with a long queue on disk to its first answer, and its memory.
//!
//! Measured twice: after a kill, when the journal's newest records are replayed on an older checkpoint, and after an orderly
//! stop, which leaves a fresh checkpoint.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sluice_testkit::Cluster;

use super::measure::load;
use super::{Line, Options};

const READY: Duration = Duration::from_secs(120);

/// First answer with `--jobs` and ten times as many jobs in the queue.
pub(super) fn restart(cluster: &mut Cluster, options: &Options) -> Result<Vec<Line>> {
    let empty = memory(cluster)?;
    let mut lines = Vec::new();
    let mut queued = 0;
    for (jobs, aim, slurm) in [
        (options.jobs, "< 0.2 s", "0.27 s"),
        (options.jobs * 10, "< 1.5 s", ""),
    ] {
        load(cluster, options, jobs - queued, "hold")?;
        queued = jobs;
        cluster.kill_ctld()?;
        let killed = first_answer(cluster)?;
        cluster.stop_ctld()?;
        let stopped = first_answer(cluster)?;
        for (how, time) in [("a kill", killed), ("a stop", stopped)] {
            lines.push(Line {
                what: format!("first answer after {how}, {jobs} jobs queued"),
                result: format!("{:.0} ms", time.as_secs_f64() * 1e3),
                aim,
                slurm,
            });
        }
        let bytes = memory(cluster)?.saturating_sub(empty) * 1024 / jobs as u64;
        lines.push(Line {
            what: format!("memory of a pending job, {jobs} jobs queued"),
            result: format!("{:.1} KiB", bytes as f64 / 1024.0),
            aim: "< 4 KiB",
            slurm: "8.3 KiB",
        });
    }
    Ok(lines)
}

fn first_answer(cluster: &mut Cluster) -> Result<Duration> {
    let start = Instant::now();
    cluster.start_ctld()?;
    // Without a pause between the tries: the answer's own moment counts.
    while cluster.run("scontrol", ["ping"])?.code != 0 {
        ensure!(start.elapsed() < READY, "ctld did not answer");
    }
    Ok(start.elapsed())
}

/// Resident memory of the controller, KiB.
fn memory(cluster: &Cluster) -> Result<u64> {
    let pid = std::fs::read_to_string(cluster.path("run/ctld.pid"))?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim()))?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .context("/proc says nothing of the controller's memory")
}
