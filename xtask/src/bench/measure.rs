//! The measurements themselves. Times are wall-clock; a middle value is the median of many runs.

use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use sluice_testkit::{Cluster, run_with_deadline, wait_until};

use super::{Line, Options};
use crate::cargo::{profile_dir, target_dir};

const CLIENTS: &str = "8";
const LOAD_DEADLINE: Duration = Duration::from_secs(600);
const SAMPLES: usize = 40;

/// Durable submissions per second from eight clients, with an empty and with a long queue.
pub(super) fn submissions(cluster: &mut Cluster, options: &Options) -> Result<Vec<Line>> {
    const BATCHES: usize = 5;
    let mut rates = Vec::new();
    for _ in 0..BATCHES {
        rates.push(load(cluster, options, options.jobs, "hold")?);
    }
    let line = |queued: usize, rate: f64| Line {
        what: format!("submissions/s over gRPC, 8 clients, {queued} jobs queued"),
        result: format!("{rate:.0}/s"),
        aim: "> 2000/s",
        slurm: "212/s (sbatch)",
    };
    Ok(vec![
        line(0, rates[0]),
        line(options.jobs * (BATCHES - 1), rates[BATCHES - 1]),
    ])
}

/// Runs the load generator and gives its rate.
pub(super) fn load(cluster: &Cluster, options: &Options, jobs: usize, mode: &str) -> Result<f64> {
    let program = target_dir()?
        .join(profile_dir(&options.profile))
        .join("examples/submit_load");
    let mut command = Command::new(&program);
    command
        .arg(cluster.path("run/ctld.bench.sock"))
        .args([CLIENTS, &jobs.to_string(), mode]);
    let text = run_with_deadline(command, LOAD_DEADLINE)?.success()?;
    eprintln!("  {}", text.trim());
    let mut words = text.split_whitespace();
    words
        .find(|word| *word == "rate")
        .and_then(|_| words.next()?.parse().ok())
        .with_context(|| format!("the load generator said {text:?}"))
}

/// How long `sbatch` takes to return.
pub(super) fn sbatch(cluster: &mut Cluster, _: &Options) -> Result<Vec<Line>> {
    let times = timed(cluster, "sbatch", &["-H", "--wrap", "true"], SAMPLES)?;
    Ok(vec![Line {
        what: "sbatch returns".to_owned(),
        result: middle(times),
        aim: "< 8 ms",
        slurm: "10 ms",
    }])
}

/// How long the submission of a large array takes.
pub(super) fn array(cluster: &mut Cluster, _: &Options) -> Result<Vec<Line>> {
    let args = ["-H", "--array=0-9999", "--wrap", "true"];
    let times = timed(cluster, "sbatch", &args, 10)?;
    Ok(vec![Line {
        what: "array of 10,000 tasks accepted".to_owned(),
        result: middle(times),
        aim: "< 20 ms",
        slurm: "8 ms (1,000 tasks)",
    }])
}

/// From the call of `sbatch` to the first line of the script, on an idle cluster.
pub(super) fn lone_start(cluster: &mut Cluster, _: &Options) -> Result<Vec<Line>> {
    let script = cluster.path("work/stamp.sh");
    std::fs::write(&script, "#!/bin/sh\ndate +%s%N\n")?;
    let mut times = Vec::new();
    for nth in 0..SAMPLES {
        let file = format!("stamp-{nth}.out");
        let before = SystemTime::now().duration_since(UNIX_EPOCH)?;
        cluster.sbatch(["-o", &file, "stamp.sh"])?;
        let text =
            cluster.wait_output(&file, Duration::from_secs(30), |text| text.ends_with('\n'))?;
        let stamp = Duration::from_nanos(text.trim().parse()?);
        times.push(stamp.saturating_sub(before));
        wait_empty(cluster)?;
    }
    Ok(vec![Line {
        what: "lone batch job: first line runs after".to_owned(),
        result: middle(times),
        aim: "< 50 ms",
        slurm: "2.5 s (0.47 s tuned)",
    }])
}

/// How long `srun true` takes, on one node and on four.
pub(super) fn srun(cluster: &mut Cluster, _: &Options) -> Result<Vec<Line>> {
    let one = timed(cluster, "srun", &["-N1", "true"], SAMPLES)?;
    let four = timed(cluster, "srun", &["-N4", "true"], SAMPLES)?;
    Ok(vec![
        Line {
            what: "srun -N1 true".to_owned(),
            result: middle(one),
            aim: "< 40 ms",
            slurm: "60 ms",
        },
        Line {
            what: "srun -N4 true".to_owned(),
            result: middle(four),
            aim: "",
            slurm: "100 ms",
        },
    ])
}

/// Null jobs per second, from the first submission until the queue is empty.
pub(super) fn null_jobs(cluster: &mut Cluster, options: &Options) -> Result<Vec<Line>> {
    let jobs = options.jobs.min(2000);
    let start = Instant::now();
    load(cluster, options, jobs, "run")?;
    wait_empty(cluster)?;
    let rate = jobs as f64 / start.elapsed().as_secs_f64();
    Ok(vec![Line {
        what: format!("null jobs through four agents ({jobs} jobs)"),
        result: format!("{rate:.0}/s"),
        aim: "> 200/s",
        slurm: "42/s",
    }])
}

fn wait_empty(cluster: &Cluster) -> Result<()> {
    let mut fault = None;
    wait_until(LOAD_DEADLINE, "the queue to be empty", || {
        match cluster
            .run("squeue", ["-h"])
            .and_then(|done| done.success())
        {
            Ok(text) => text.trim().is_empty(),
            Err(error) => {
                fault = Some(error);
                true
            }
        }
    })?;
    fault.map_or(Ok(()), Err)
}

/// Runs a command again and again; the first run, which warms caches, does not count.
pub(super) fn timed(
    cluster: &Cluster,
    name: &str,
    args: &[&str],
    samples: usize,
) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..=samples {
        let mut command = cluster.command(name);
        command.args(args).stdout(std::process::Stdio::null());
        let start = Instant::now();
        let status = command.status()?;
        times.push(start.elapsed());
        if !status.success() {
            bail!("{name} {} failed: {status}", args.join(" "));
        }
    }
    times.remove(0);
    Ok(times)
}

/// The median, and the time that nine of ten runs keep to.
pub(super) fn middle(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let ms = |nth: usize| times[nth.min(times.len() - 1)].as_secs_f64() * 1e3;
    format!(
        "{:.1} ms (90 %: {:.1} ms)",
        ms(times.len() / 2),
        ms(times.len() * 9 / 10)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this, the table could show the wrong one of the sorted times.
    #[test]
    fn the_middle_of_ten_times() {
        let times = (1..=10).rev().map(Duration::from_millis).collect();
        assert_eq!(middle(times), "6.0 ms (90 %: 10.0 ms)");
    }
}
