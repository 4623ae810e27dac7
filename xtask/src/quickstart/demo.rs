//! The sample jobs of quickstart: submitted, watched, and checked against what must have happened.
//!
//! Four kinds: a batch job on two nodes whose script calls `srun`, an array, a job between Prolog and Epilog, and one that
//! takes all fake GPUs of a node. Each is judged by what `sacct` says and by what it wrote.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sluice_testkit::{Cluster, wait_for};

use super::live::Live;

const JOBS_DEADLINE: Duration = Duration::from_secs(120);
const ARRAY_TASKS: u32 = 6;

/// A Prolog or Epilog that leaves one line for each job and node.
pub(super) fn tracing_script(trace: &Path, moment: &str) -> String {
    format!(
        "#!/bin/sh\necho \"{moment} job $SLURM_JOB_ID on $SLURMD_NODENAME\" >> '{}'\n",
        trace.display()
    )
}

struct Demo {
    what: &'static str,
    id: u32,
}

struct Sample {
    what: &'static str,
    args: &'static [&'static str],
    script: &'static str,
}

const PARALLEL: Sample = Sample {
    what: "a batch job on two nodes, whose script starts four tasks with srun",
    args: &["-J", "parallel", "-N2", "-n4", "-o", "parallel-%j.out"],
    script: "#!/bin/sh\nsleep 2\nsrun sh -c 'echo task $SLURM_PROCID on $SLURMD_NODENAME'\n",
};

const ARRAY: Sample = Sample {
    what: "an array of six tasks, three at a time",
    args: &["-J", "array", "--array=0-5%3", "-o", "array-%A_%a.out"],
    script: "#!/bin/sh\nsleep 1\necho $((SLURM_ARRAY_TASK_ID * SLURM_ARRAY_TASK_ID))\n",
};

const PROLOGUE: Sample = Sample {
    what: "a job on one node, with Prolog before and Epilog after it",
    args: &["-J", "prolog", "-N1", "-o", "prolog-%j.out"],
    script: "#!/bin/sh\nsleep 1\necho ran\n",
};

const GPUS: Sample = Sample {
    what: "a job that takes all four (fake) GPUs of a node",
    args: &["-J", "gpus", "-N1", "--gres=gpu:4", "-o", "gpus-%j.out"],
    script: "#!/bin/sh\nsleep 1\necho $CUDA_VISIBLE_DEVICES\n",
};

/// Submits the samples, shows them while they run, and gives an error that lists whatever went wrong.
pub(super) fn run(cluster: &Cluster, trace: &Path) -> Result<()> {
    let jobs = [
        submit(cluster, &PARALLEL)?,
        submit(cluster, &ARRAY)?,
        submit(cluster, &PROLOGUE)?,
        submit(cluster, &GPUS)?,
    ];
    println!();
    watch(cluster, &jobs)?;
    let [parallel, array, prologue, gpus] = &jobs;
    let checks = [
        (parallel, check_parallel(cluster, parallel.id)),
        (array, check_array(cluster, array.id)),
        (prologue, check_prologue(cluster, prologue.id, trace)),
        (gpus, check_gpus(cluster, gpus.id)),
    ];
    println!("\n$ sacct");
    print!("{}", cluster.run("sacct", [""; 0])?.success()?);
    println!();
    let mut faults = Vec::new();
    for (job, result) in checks {
        match result {
            Ok(()) => println!("  ok      job {}: {}", job.id, job.what),
            Err(error) => {
                println!(
                    "  FAILED  job {}: {}\n          {error:#}",
                    job.id, job.what
                );
                faults.push(job.id.to_string());
            }
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        bail!("not every job ended as it should: {}", faults.join(", "))
    }
}

fn submit(cluster: &Cluster, sample: &Sample) -> Result<Demo> {
    let name = sample.args[1];
    let file = cluster.path("work").join(format!("{name}.sh"));
    std::fs::write(&file, sample.script)?;
    println!("$ sbatch {} {name}.sh", sample.args.join(" "));
    let args = sample
        .args
        .iter()
        .copied()
        .chain([file.to_str().context("the cluster's folder is not UTF-8")?]);
    let id = cluster
        .sbatch(args)
        .with_context(|| format!("{} was refused", sample.what))?;
    println!("Submitted batch job {id}");
    Ok(Demo {
        what: sample.what,
        id,
    })
}

/// Shows squeue and sinfo until the accounting knows the end of every job.
fn watch(cluster: &Cluster, jobs: &[Demo]) -> Result<()> {
    let mut live = Live::new();
    let ids: Vec<String> = jobs.iter().map(|job| job.id.to_string()).collect();
    let ids = ids.join(",");
    wait_for(JOBS_DEADLINE, "the sample jobs to end", || {
        let ask = |command: &str, args: &[&str]| {
            cluster
                .run(command, args)
                .and_then(|done| done.success())
                .map_err(|error| format!("{error:#}"))
        };
        let queue = ask("squeue", &[])?;
        let essence = ask("squeue", &["-h", "-o", "%i %t %N"])?;
        let nodes = ask("sinfo", &[])?;
        live.show(
            &format!("$ squeue\n{queue}\n$ sinfo\n{nodes}"),
            &format!("{essence}{nodes}"),
        );
        let accounted = ask("sacct", &["-n", "-P", "-X", "-j", &ids, "-o", "State"])?;
        let is_over = |state: &str| {
            !state.is_empty()
                && !["PENDING", "RUNNING", "COMPLETING", "REQUEUED", "SUSPENDED"].contains(&state)
        };
        let expected = jobs.len() - 1 + ARRAY_TASKS as usize;
        if essence.trim().is_empty()
            && accounted.lines().count() == expected
            && accounted.lines().all(is_over)
        {
            Ok(())
        } else {
            Err(format!("{essence}\nsacct: {accounted}"))
        }
    })
}

fn must_have_completed(cluster: &Cluster, id: &str) -> Result<()> {
    let rows = cluster.sacct(id)?;
    let Some(row) = rows.iter().find(|row| row.id == id) else {
        bail!("sacct does not know job {id}");
    };
    if row.state != "COMPLETED" || row.exit_code != "0:0" {
        bail!("job {id} is {} with exit code {}", row.state, row.exit_code);
    }
    Ok(())
}

fn output(cluster: &Cluster, file: &str) -> Result<String> {
    let path = cluster.path("work").join(file);
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn check_parallel(cluster: &Cluster, id: u32) -> Result<()> {
    must_have_completed(cluster, &id.to_string())?;
    let text = output(cluster, &format!("parallel-{id}.out"))?;
    let mut tasks: Vec<&str> = text.lines().collect();
    tasks.sort_unstable();
    let nodes: std::collections::BTreeSet<&str> = tasks
        .iter()
        .filter_map(|line| line.rsplit(' ').next())
        .collect();
    let all_ran = tasks.len() == 4
        && (0..4).all(|rank| tasks[rank].starts_with(&format!("task {rank} on n")));
    if !all_ran || nodes.len() != 2 {
        bail!("four tasks on two nodes were to say so, but the output is {text:?}");
    }
    Ok(())
}

fn check_array(cluster: &Cluster, id: u32) -> Result<()> {
    for task in 0..ARRAY_TASKS {
        must_have_completed(cluster, &format!("{id}_{task}"))?;
        let text = output(cluster, &format!("array-{id}_{task}.out"))?;
        let square = task * task;
        if text != format!("{square}\n") {
            bail!("task {task} was to print {square}, but printed {text:?}");
        }
    }
    Ok(())
}

fn check_prologue(cluster: &Cluster, id: u32, trace: &Path) -> Result<()> {
    must_have_completed(cluster, &id.to_string())?;
    let text = std::fs::read_to_string(trace)
        .with_context(|| format!("cannot read {}", trace.display()))?;
    let moments: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(&format!(" job {id} on n")))
        .filter_map(|line| line.split(' ').next())
        .collect();
    if moments != ["prolog", "epilog"] {
        bail!("prolog and epilog were to run once each, in this order, but ran: {moments:?}");
    }
    Ok(())
}

fn check_gpus(cluster: &Cluster, id: u32) -> Result<()> {
    must_have_completed(cluster, &id.to_string())?;
    let text = output(cluster, &format!("gpus-{id}.out"))?;
    if text != "0,1,2,3\n" {
        bail!("CUDA_VISIBLE_DEVICES was to be 0,1,2,3, but is {text:?}");
    }
    Ok(())
}
