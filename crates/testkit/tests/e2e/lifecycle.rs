//! The life of a job: arrays, dependencies, holds, begin times, cancellation, requeue.

use std::collections::BTreeSet;
use std::path::Path;

use nix::unistd::Uid;
use sluice_testkit::{Cluster, wait_for, wait_until};

use super::{SOON, cluster, job_field, started};

/// `--array=0-9%3`: ten tasks, each with its index, never more than three at a time.
#[test]
fn an_array_runs_every_task_and_keeps_to_its_throttle() {
    let cluster = cluster();
    let id = cluster
        .sbatch([
            "--array=0-9%3",
            "-o",
            "a-%A_%a.out",
            "--wrap",
            "date +%s.%N; sleep 0.4; date +%s.%N; echo $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT",
        ])
        .unwrap();
    wait_for(
        SOON,
        "the first three tasks to run and the rest to wait as one line",
        || {
            let queue = cluster
                .run("squeue", ["-h", "-o", "%i %t"])
                .and_then(|done| done.success())
                .unwrap();
            let waiting = format!("{id}_[3-9%3] PD");
            if queue.lines().any(|line| line.trim() == waiting) {
                Ok(())
            } else {
                Err(queue)
            }
        },
    )
    .unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
    let mut moments = Vec::new();
    for task in 0..10 {
        let text = cluster
            .wait_output(&format!("a-{id}_{task}.out"), SOON, |text| {
                text.lines().count() == 3
            })
            .unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], format!("{id} {task} 10"));
        moments.push((lines[0].parse::<f64>().unwrap(), 1));
        moments.push((lines[1].parse::<f64>().unwrap(), -1));
        cluster
            .wait_accounted(&format!("{id}_{task}"), "COMPLETED", SOON)
            .unwrap();
    }
    moments.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut running = 0;
    let mut most = 0;
    for (_, change) in moments {
        running += change;
        most = most.max(running);
    }
    assert_eq!(most, 3);
}

/// `scancel` of one task leaves the others alone; of the array, ends all of it.
#[test]
fn scancel_ends_one_task_or_the_whole_array() {
    let cluster = cluster();
    let id = cluster
        .sbatch(["--array=1-4", "--wrap", "sleep 1000"])
        .unwrap();
    let running = || {
        let text = cluster
            .run("squeue", ["-h", "-r", "-t", "R", "-o", "%i"])
            .and_then(|done| done.success())
            .unwrap();
        text.lines()
            .map(|line| line.trim().to_owned())
            .collect::<BTreeSet<_>>()
    };
    let tasks = |list: &[u32]| list.iter().map(|task| format!("{id}_{task}")).collect();
    let all: BTreeSet<String> = tasks(&[1, 2, 3, 4]);
    wait_until(SOON, "four tasks to run", || running() == all).unwrap();
    let task = format!("{id}_2");
    cluster
        .run("scancel", [&task])
        .and_then(|done| done.success())
        .unwrap();
    let rest: BTreeSet<String> = tasks(&[1, 3, 4]);
    wait_until(SOON, "task 2 alone to end", || running() == rest).unwrap();
    cluster
        .run("scancel", [id.to_string()])
        .and_then(|done| done.success())
        .unwrap();
    wait_until(SOON, "all tasks to end", || running().is_empty()).unwrap();
    for task in all {
        cluster.wait_accounted(&task, "CANCELLED", SOON).unwrap();
    }
}

/// A cancelled job is CANCELLED by whoever did it, and nothing of its process tree stays, even what ignores SIGTERM.
#[test]
fn scancel_ends_the_whole_process_tree() {
    let cluster = cluster();
    let id = cluster
        .sbatch([
            "-o",
            "pids",
            "--wrap",
            "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$; exec sleep 1000' & echo $$; wait",
        ])
        .unwrap();
    let text = cluster
        .wait_output("pids", SOON, |text| text.lines().count() == 2)
        .unwrap();
    let proc: Vec<String> = text.lines().map(|pid| format!("/proc/{pid}")).collect();
    assert!(proc.iter().all(|path| Path::new(path).exists()));
    cluster
        .run("scancel", [id.to_string()])
        .and_then(|done| done.success())
        .unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "CANCELLED");
    wait_until(SOON, "every process of the job to be gone", || {
        proc.iter().all(|path| !Path::new(path).exists())
    })
    .unwrap();
    let by_whom = cluster
        .run(
            "sacct",
            ["-n", "-P", "-X", "-j", &id.to_string(), "-o", "State"],
        )
        .and_then(|done| done.success())
        .unwrap();
    assert_eq!(by_whom.trim(), format!("CANCELLED by {}", Uid::effective()));
}

/// A held job waits with its reason until it is released; a job that waits can be cancelled.
#[test]
fn hold_release_and_cancel_of_a_waiting_job() {
    let cluster = cluster();
    let id = cluster.sbatch(["-H", "--wrap", "true"]).unwrap();
    assert_eq!(job_field(&cluster, id, "JobState"), "PENDING");
    assert_eq!(job_field(&cluster, id, "Reason"), "JobHeldUser");
    let other = cluster.sbatch(["-H", "--wrap", "true"]).unwrap();
    cluster
        .run("scancel", [other.to_string()])
        .and_then(|done| done.success())
        .unwrap();
    assert_eq!(cluster.wait_job_end(other, SOON).unwrap(), "CANCELLED");
    cluster
        .run("scontrol", ["release", &id.to_string()])
        .and_then(|done| done.success())
        .unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
}

/// `afterok` of a failed job never runs and says so; `afternotok` and `afterany` run.
#[test]
fn dependencies_follow_the_end_of_their_job() {
    let cluster = cluster();
    let first = cluster.sbatch(["-H", "--wrap", "exit 1"]).unwrap();
    let after = |kind: &str| {
        cluster
            .sbatch([
                format!("--dependency={kind}:{first}"),
                "--wrap=true".to_owned(),
            ])
            .unwrap()
    };
    let ok = after("afterok");
    let notok = after("afternotok");
    let any = after("afterany");
    assert_eq!(job_field(&cluster, any, "Reason"), "Dependency");
    cluster
        .run("scontrol", ["release", &first.to_string()])
        .and_then(|done| done.success())
        .unwrap();
    assert_eq!(cluster.wait_job_end(notok, SOON).unwrap(), "COMPLETED");
    assert_eq!(cluster.wait_job_end(any, SOON).unwrap(), "COMPLETED");
    wait_for(
        SOON,
        "the reason of the job that can never run",
        || match job_field(&cluster, ok, "Reason").as_str() {
            "DependencyNeverSatisfied" => Ok(()),
            other => Err(other.to_owned()),
        },
    )
    .unwrap();
    assert_eq!(job_field(&cluster, ok, "JobState"), "PENDING");
}

/// `singleton`: of jobs with one name and user only one runs at a time.
#[test]
fn singletons_run_one_after_the_other() {
    let cluster = cluster();
    let submit = || {
        cluster
            .sbatch([
                "-J",
                "alone",
                "--dependency=singleton",
                "-o",
                "alone.out",
                "--open-mode=append",
                "--wrap",
                "echo begin; sleep 0.3; echo end",
            ])
            .unwrap()
    };
    let last = [submit(), submit(), submit()][2];
    assert_eq!(cluster.wait_job_end(last, SOON).unwrap(), "COMPLETED");
    cluster
        .wait_output("alone.out", SOON, |text| {
            text == "begin\nend\nbegin\nend\nbegin\nend\n"
        })
        .unwrap();
}

/// A begin time keeps a job waiting, with its reason, and no longer.
#[test]
fn a_begin_time_is_waited_for() {
    let cluster = cluster();
    let id = cluster.sbatch(["--begin=now+3", "--wrap", "true"]).unwrap();
    assert_eq!(job_field(&cluster, id, "Reason"), "BeginTime");
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
}

/// A requeued job runs again under its id and knows that it does.
#[test]
fn a_requeued_job_runs_again_under_its_id() {
    let cluster = started(Cluster::builder().kill_wait_secs(1));
    let id = cluster
        .sbatch([
            "--requeue",
            "--open-mode=append",
            "-o",
            "again.out",
            "--wrap",
            "echo run ${SLURM_RESTART_COUNT:-0}; [ ${SLURM_RESTART_COUNT:-0} = 1 ] || sleep 1000",
        ])
        .unwrap();
    cluster
        .wait_output("again.out", SOON, |text| text == "run 0\n")
        .unwrap();
    cluster
        .run("scontrol", ["requeue", &id.to_string()])
        .and_then(|done| done.success())
        .unwrap();
    // Slurm makes a requeued job wait; where it does so with a begin time, that is up to two minutes away.
    let text = cluster
        .wait_output("again.out", std::time::Duration::from_secs(180), |text| {
            text.lines().count() >= 2 && text.ends_with("run 1\n")
        })
        .unwrap();
    assert!(text.starts_with("run 0\n"), "{text}");
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
    assert_eq!(job_field(&cluster, id, "Restarts"), "1");
}
