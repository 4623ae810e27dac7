//! `srun` on its own: tasks over nodes, output, input, exit codes, interruption.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use sluice_testkit::{run_with_deadline, wait_for, wait_until};

use super::{SOON, cluster, same_lines};

/// Each task knows who it is, and `-l` says which task a line comes from.
#[test]
fn labelled_tasks_on_two_nodes() {
    let cluster = cluster();
    let done = cluster
        .run(
            "srun",
            [
                "-N2",
                "-n4",
                "-l",
                "sh",
                "-c",
                "echo $SLURM_PROCID $SLURMD_NODENAME",
            ],
        )
        .unwrap();
    assert_eq!(done.code, 0, "{done:?}");
    let mut lines: Vec<&str> = done.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 4, "{done:?}");
    for (rank, line) in lines.iter().enumerate() {
        assert!(line.starts_with(&format!("{rank}: {rank} n")), "{done:?}");
    }
    assert!(
        done.stdout.contains(" n1\n") && done.stdout.contains(" n2\n"),
        "{done:?}"
    );
}

/// The highest exit code of the tasks is srun's, and the line on stderr is Slurm's.
#[test]
fn the_highest_exit_code_is_passed_on() {
    let cluster = cluster();
    let done = cluster
        .run("srun", ["-N1", "-n2", "sh", "-c", "exit 7"])
        .unwrap();
    assert_eq!(done.code, 7);
    assert!(
        done.stderr
            .contains("srun: error: n1: tasks 0-1: Exited with exit code 7\n"),
        "{done:?}"
    );
    let done = cluster
        .run("srun", ["-N1", "-n2", "sh", "-c", "exit $SLURM_PROCID"])
        .unwrap();
    assert_eq!(done.code, 1);
    assert!(
        done.stderr
            .contains("srun: error: n1: task 1: Exited with exit code 1\n"),
        "{done:?}"
    );
}

/// A task ended by a signal gives 128 and the signal; a program that is not there gives 2.
#[test]
fn a_killed_task_and_a_missing_program() {
    let cluster = cluster();
    let done = cluster
        .run("srun", ["-n1", "sh", "-c", "kill -KILL $$"])
        .unwrap();
    assert_eq!(done.code, 137, "{done:?}");
    assert!(
        done.stderr.contains("srun: error: n1: task 0: Killed\n"),
        "{done:?}"
    );
    let done = cluster.run("srun", ["-n1", "/nosuch/program"]).unwrap();
    assert_eq!(done.code, 2, "{done:?}");
    assert!(
        done.stderr
            .contains("error: execve(): /nosuch/program: No such file or directory\n"),
        "{done:?}"
    );
}

/// Standard input goes to every task; standard error stays apart from standard output.
#[test]
fn input_is_broadcast_and_the_outputs_stay_apart() {
    let cluster = cluster();
    let input = cluster.path("work/input");
    std::fs::write(&input, "one\ntwo\n").unwrap();
    let mut command = cluster.command("srun");
    command
        .args(["-N2", "-n2", "-l", "sh", "-c", "cat; echo bad >&2"])
        .stdin(Stdio::from(File::open(&input).unwrap()));
    let done = run_with_deadline(command, SOON).unwrap();
    assert!(
        same_lines(&done.stdout, &["0: one", "0: two", "1: one", "1: two"]),
        "{done:?}"
    );
    // Where the job had to wait for a moment, srun says so first.
    let from_tasks: Vec<&str> = done
        .stderr
        .lines()
        .filter(|line| !line.starts_with("srun: job "))
        .collect();
    assert!(
        same_lines(&from_tasks.join("\n"), &["0: bad", "1: bad"]),
        "{done:?}"
    );
}

/// Megabytes come through whole: nothing of the output is lost when tasks end.
#[test]
fn a_large_output_arrives_whole() {
    let cluster = cluster();
    let done = cluster
        .run("srun", ["-N2", "-n2", "sh", "-c", "seq 1 200000"])
        .unwrap();
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(done.stdout.lines().count(), 400_000);
    let sum: u64 = done
        .stdout
        .lines()
        .map(|line| line.parse::<u64>().unwrap())
        .sum();
    // Twice 1 + 2 + … + 200000.
    assert_eq!(sum, 200_000 * 200_001);
}

/// Output is live: a line is there while the task still runs. Two Ctrl-C within a second end the tasks.
#[test]
fn output_is_live_and_ctrl_c_twice_ends_the_tasks() {
    let cluster = cluster();
    let out = cluster.path("work/live.out");
    let err = cluster.path("work/live.err");
    let mut command = cluster.command("srun");
    let mut child = command
        .args(["-n1", "sh", "-c", "echo started $$; exec sleep 1000"])
        .stdout(File::create(&out).unwrap())
        .stderr(File::create(&err).unwrap())
        .process_group(0)
        .spawn()
        .unwrap();
    let text = cluster
        .wait_output("live.out", SOON, |text| text.ends_with('\n'))
        .unwrap();
    let pid = text.trim().strip_prefix("started ").unwrap().to_owned();
    let group = Pid::from_raw(child.id() as i32);
    killpg(group, Signal::SIGINT).unwrap();
    wait_for(SOON, "srun to tell the state of its tasks", || {
        let text = std::fs::read_to_string(&err).unwrap();
        if text.contains("interrupt (one more within 1 sec to abort)") {
            Ok(())
        } else {
            Err(text)
        }
    })
    .unwrap();
    killpg(group, Signal::SIGINT).unwrap();
    let ended = wait_until(SOON, "srun to end", || {
        matches!(child.try_wait(), Ok(Some(_)))
    });
    if ended.is_err() {
        child.kill().unwrap();
    }
    child.wait().unwrap();
    ended.unwrap();
    wait_until(SOON, "the task to be gone", || {
        !std::path::Path::new(&format!("/proc/{pid}")).exists()
    })
    .unwrap();
    wait_until(SOON, "the job to leave the queue", || {
        cluster
            .run("squeue", ["-h"])
            .and_then(|done| done.success())
            .unwrap()
            .trim()
            .is_empty()
    })
    .unwrap();
}

/// A step that asks for more than the allocation has is refused, not left to wait for ever.
#[test]
fn a_step_larger_than_its_job_is_refused() {
    let cluster = cluster();
    cluster
        .sbatch([
            "-N1",
            "-n1",
            "-o",
            "big.out",
            "--wrap",
            "srun -N2 -n2 true; echo code $?",
        ])
        .unwrap();
    let text = cluster
        .wait_output("big.out", SOON, |text| text.contains("code "))
        .unwrap();
    assert!(!text.contains("code 0"), "{text}");
    assert!(text.contains("srun: error: "), "{text}");
}
