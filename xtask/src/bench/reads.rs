//! What reading costs: the query commands with a long queue, alone and many at once, and beside submissions.
//!
//! A reader must not wait for the writer or the planner: a plan runs all the while, since every submission asks for one.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use sluice_testkit::Cluster;

use super::measure::{load, middle, timed};
use super::{Line, Options};

const SAMPLES: usize = 20;
/// How many `squeue` run at once.
const CROWD: usize = 200;
/// Nodes without agents beside the four real ones.
pub(super) const THOUSAND_NODES: &str = "NodeName=big[0001-0996] CPUs=64 RealMemory=256000 State=UNKNOWN\nPartitionName=big Nodes=big[0001-0996] MaxTime=UNLIMITED State=UP";

/// The query commands with `--jobs` jobs in the queue.
pub(super) fn reads(cluster: &mut Cluster, options: &Options) -> Result<Vec<Line>> {
    let alone = timed(cluster, "sbatch", &["-H", "--wrap", "true"], SAMPLES)?;
    load(cluster, options, options.jobs, "hold")?;
    let jobs = options.jobs;
    let one = (jobs / 2).to_string();
    let mut lines = Vec::new();
    let calls: [(&str, Vec<&str>, &'static str, &'static str); 5] = [
        ("squeue", vec![], "< 50 ms", "87 ms"),
        ("squeue", vec!["--json"], "< 300 ms", "7,450 ms"),
        ("scontrol", vec!["show", "job", &one], "< 4 ms", "4.4 ms"),
        ("sprio", vec![], "< 60 ms", "92 ms"),
        ("scontrol", vec!["show", "job"], "", ""),
    ];
    for (name, args, aim, slurm) in calls {
        let words = args.join(" ");
        lines.push(Line {
            what: format!("{name} {words}, {jobs} jobs queued"),
            result: middle(timed(cluster, name, &args, SAMPLES)?),
            aim,
            slurm,
        });
    }
    let (all, beside) = crowd(cluster)?;
    lines.push(Line {
        what: format!("{CROWD} squeue at once, {jobs} jobs queued"),
        result: format!("{:.2} s", all.as_secs_f64()),
        aim: "< 4 s",
        slurm: "9.8 s",
    });
    let quiet = middle(alone);
    lines.push(Line {
        what: format!("sbatch meanwhile (with an idle controller: {quiet})"),
        result: middle(beside),
        aim: "< twice",
        slurm: "",
    });
    Ok(lines)
}

/// Starts the crowd, submits until the last one is done; the time of all, and of each submission.
fn crowd(cluster: &Cluster) -> Result<(Duration, Vec<Duration>)> {
    let start = Instant::now();
    let mut children = Vec::<Child>::new();
    for _ in 0..CROWD {
        let mut command = cluster.command("squeue");
        children.push(command.stdout(Stdio::null()).spawn()?);
    }
    let mut beside = Vec::new();
    while !children.is_empty() {
        let mut waiting = Vec::new();
        for mut child in children {
            match child.try_wait()? {
                Some(status) if status.success() => {}
                Some(status) => bail!("one squeue of {CROWD} at once failed: {status}"),
                None => waiting.push(child),
            }
        }
        children = waiting;
        beside.extend(timed(cluster, "sbatch", &["--wrap", "true"], 1)?);
    }
    Ok((start.elapsed(), beside))
}

/// `sinfo` of a thousand nodes.
pub(super) fn thousand_nodes(cluster: &mut Cluster, _: &Options) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for (args, aim, slurm) in [
        (&[][..], "< 8 ms", "9 ms"),
        (&["-N", "-l"][..], "", ""),
        (&["--json"][..], "", ""),
    ] {
        lines.push(Line {
            what: format!("sinfo {} of 1,000 nodes", args.join(" ")),
            result: middle(timed(cluster, "sinfo", args, SAMPLES)?),
            aim,
            slurm,
        });
    }
    Ok(lines)
}
