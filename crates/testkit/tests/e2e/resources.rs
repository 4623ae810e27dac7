//! Resources: CPUs, memory, whole nodes and fake GPUs are given once, and a job is told what it got.

use std::collections::BTreeSet;

use sluice_testkit::{Cluster, wait_for};

use super::{SOON, job_field, started};

fn one_node() -> Cluster {
    started(Cluster::builder().nodes(1))
}

/// Two jobs on one node get different GPUs; a third waits for one that is free.
#[test]
fn gpus_are_given_once_and_named_to_the_job() {
    let cluster = one_node();
    let submit = |nth: u32| {
        cluster
            .sbatch([
                "--gres=gpu:2".to_owned(),
                format!("--output={nth}.out"),
                "--wrap=echo $CUDA_VISIBLE_DEVICES $SLURM_JOB_GPUS $SLURM_GPUS_ON_NODE; sleep 1000"
                    .to_owned(),
            ])
            .unwrap()
    };
    let jobs = [submit(0), submit(1), submit(2)];
    let gpus: BTreeSet<String> = (0..2)
        .map(|nth| {
            cluster
                .wait_output(&format!("{nth}.out"), SOON, |text| text.ends_with('\n'))
                .unwrap()
        })
        .collect();
    let expected: BTreeSet<String> = ["0,1 0,1 2\n", "2,3 2,3 2\n"].map(str::to_owned).into();
    assert_eq!(gpus, expected);
    wait_for(
        SOON,
        "the third job to wait for resources",
        || match job_field(&cluster, jobs[2], "Reason").as_str() {
            "Resources" => Ok(()),
            other => Err(other.to_owned()),
        },
    )
    .unwrap();
    cluster
        .run("scancel", [jobs[0].to_string()])
        .and_then(|done| done.success())
        .unwrap();
    let third = cluster
        .wait_output("2.out", SOON, |text| text.ends_with('\n'))
        .unwrap();
    assert!(expected.contains(&third), "{third}");
}

/// A whole node: every CPU, and every GPU although none was asked for.
#[test]
fn exclusive_gives_the_whole_node() {
    let cluster = one_node();
    cluster
        .sbatch([
            "--exclusive",
            "-o",
            "whole.out",
            "--wrap",
            "echo $SLURM_CPUS_ON_NODE $SLURM_JOB_CPUS_PER_NODE $CUDA_VISIBLE_DEVICES; sleep 1000",
        ])
        .unwrap();
    cluster
        .wait_output("whole.out", SOON, |text| text == "4 4 0,1,2,3\n")
        .unwrap();
    let next = cluster.sbatch(["--wrap", "true"]).unwrap();
    wait_for(SOON, "the next job to wait", || {
        match job_field(&cluster, next, "Reason").as_str() {
            "Resources" => Ok(()),
            other => Err(other.to_owned()),
        }
    })
    .unwrap();
}

/// Memory is a consumable resource: two jobs of 60 % do not share a node, and a request above all nodes is refused.
#[test]
fn memory_is_given_once() {
    let cluster = one_node();
    let first = cluster
        .sbatch(["--mem=2400", "--wrap", "sleep 1000"])
        .unwrap();
    cluster.wait_job_state(first, "RUNNING", SOON).unwrap();
    let second = cluster.sbatch(["--mem=2400", "--wrap", "true"]).unwrap();
    assert_eq!(job_field(&cluster, second, "JobState"), "PENDING");
    let refused = cluster
        .run("sbatch", ["--mem=999999", "--wrap", "true"])
        .unwrap();
    assert_eq!(refused.code, 1, "{refused:?}");
    cluster
        .run("scancel", [first.to_string()])
        .and_then(|done| done.success())
        .unwrap();
    assert_eq!(cluster.wait_job_end(second, SOON).unwrap(), "COMPLETED");
}

/// A short job runs around a waiting wide one without delaying it (backfill).
#[test]
fn a_short_job_is_backfilled_before_a_wide_one_that_waits() {
    let cluster = started(Cluster::builder().nodes(2));
    let holder = cluster
        .sbatch(["-N1", "--exclusive", "-t", "10", "--wrap", "sleep 1000"])
        .unwrap();
    cluster.wait_job_state(holder, "RUNNING", SOON).unwrap();
    let wide = cluster
        .sbatch(["-N2", "--exclusive", "-t", "10", "--wrap", "true"])
        .unwrap();
    let short = cluster
        .sbatch(["-N1", "-t", "1", "--wrap", "true"])
        .unwrap();
    assert_eq!(cluster.wait_job_end(short, SOON).unwrap(), "COMPLETED");
    assert_eq!(job_field(&cluster, wide, "JobState"), "PENDING");
    cluster
        .run("scancel", [holder.to_string()])
        .and_then(|done| done.success())
        .unwrap();
    assert_eq!(cluster.wait_job_end(wide, SOON).unwrap(), "COMPLETED");
}
