//! Daemons are killed with SIGKILL in the middle of work and started again: nothing is lost, exit codes arrive.

use std::collections::BTreeSet;

use sluice_testkit::{Cluster, wait_until};

use super::{READY, SOON, cluster, job_field};

/// A script that waits for a file and then exits 7, so that a test decides when it ends.
const WAIT_THEN_7: &str = "echo up; while [ ! -e go ]; do sleep 0.05; done; exit 7";

fn running_job(cluster: &Cluster) -> u32 {
    let id = cluster
        .sbatch(["-o", "up.out", "--wrap", WAIT_THEN_7])
        .unwrap();
    cluster
        .wait_output("up.out", SOON, |text| text == "up\n")
        .unwrap();
    id
}

fn let_it_end(cluster: &Cluster) {
    std::fs::write(cluster.path("work/go"), "").unwrap();
}

fn assert_failed_with_7(cluster: &Cluster, id: u32) {
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "FAILED");
    assert_eq!(job_field(cluster, id, "ExitCode"), "7:0");
    assert_eq!(job_field(cluster, id, "Restarts"), "0");
    let row = cluster
        .wait_accounted(&id.to_string(), "FAILED", SOON)
        .unwrap();
    assert_eq!(row.exit_code, "7:0");
}

/// What was acknowledged is there after a crash: no submission that got an id may be lost.
#[test]
fn acknowledged_submissions_survive_kill_9_of_ctld() {
    let mut cluster = cluster();
    let submitted: BTreeSet<u32> = (0..30)
        .map(|_| cluster.sbatch(["-H", "--wrap", "true"]).unwrap())
        .collect();
    let array = cluster
        .sbatch(["-H", "--array=1-100", "--wrap", "true"])
        .unwrap();
    cluster.kill_ctld().unwrap();
    cluster.start_ctld().unwrap();
    cluster.wait_ready(READY).unwrap();
    let queue = cluster
        .run("squeue", ["-h", "-o", "%A %r"])
        .and_then(|done| done.success())
        .unwrap();
    let found: BTreeSet<u32> = queue
        .lines()
        .map(|line| line.split_whitespace().next().unwrap().parse().unwrap())
        .collect();
    let mut expected = submitted.clone();
    expected.insert(array);
    assert_eq!(found, expected);
    assert!(
        queue
            .lines()
            .all(|line| line.trim().ends_with("JobHeldUser")),
        "{queue}"
    );
    let next = cluster.sbatch(["-H", "--wrap", "true"]).unwrap();
    assert!(next > array, "id {next} was given twice");
}

/// A job that runs while `ctld` is killed and comes back goes on, and its exit code arrives.
#[test]
fn a_running_job_survives_kill_9_of_ctld() {
    let mut cluster = cluster();
    let id = running_job(&cluster);
    cluster.kill_ctld().unwrap();
    cluster.start_ctld().unwrap();
    cluster.wait_job_state(id, "RUNNING", READY).unwrap();
    let_it_end(&cluster);
    assert_failed_with_7(&cluster, id);
}

/// A job that ends while `ctld` is away is accounted for when it comes back.
#[test]
fn a_job_that_ends_while_ctld_is_down_is_not_lost() {
    let mut cluster = cluster();
    let id = running_job(&cluster);
    let pid = job_shell(&cluster);
    cluster.kill_ctld().unwrap();
    let_it_end(&cluster);
    wait_gone(&pid);
    cluster.start_ctld().unwrap();
    wait_until(READY, "ctld to serve", || {
        cluster
            .run("scontrol", ["ping"])
            .is_ok_and(|done| done.code == 0)
    })
    .unwrap();
    assert_failed_with_7(&cluster, id);
}

/// A job goes on while its agent is killed and started again, and its exit code arrives.
#[test]
fn a_running_job_survives_kill_9_of_its_agent() {
    let mut cluster = cluster();
    let id = running_job(&cluster);
    cluster.kill_agent("n1").unwrap();
    cluster.start_agent("n1").unwrap();
    cluster.wait_job_state(id, "RUNNING", SOON).unwrap();
    let_it_end(&cluster);
    assert_failed_with_7(&cluster, id);
}

/// A job that ends while its agent is down: the step daemon keeps the exit code until the agent is back.
#[test]
fn a_job_that_ends_while_its_agent_is_down_is_not_lost() {
    let mut cluster = cluster();
    let id = running_job(&cluster);
    let pid = job_shell(&cluster);
    cluster.kill_agent("n1").unwrap();
    let_it_end(&cluster);
    wait_gone(&pid);
    cluster.start_agent("n1").unwrap();
    assert_failed_with_7(&cluster, id);
}

/// Both daemons at once, and a job over two nodes with a running step.
#[test]
fn a_step_over_two_nodes_survives_the_crash_of_everything() {
    let mut cluster = cluster();
    let id = cluster
        .sbatch([
            "-N2",
            "-n2",
            "-o",
            "both.out",
            "--wrap",
            "srun -o 'step-%t.out' sh -c 'echo up; while [ ! -e go ]; do sleep 0.05; done; echo over'; exit 7",
        ])
        .unwrap();
    for task in 0..2 {
        cluster
            .wait_output(&format!("step-{task}.out"), SOON, |text| text == "up\n")
            .unwrap();
    }
    cluster.kill_ctld().unwrap();
    for node in ["n1", "n2"] {
        cluster.kill_agent(node).unwrap();
    }
    for node in ["n1", "n2"] {
        cluster.start_agent(node).unwrap();
    }
    cluster.start_ctld().unwrap();
    cluster.wait_job_state(id, "RUNNING", READY).unwrap();
    let_it_end(&cluster);
    assert_failed_with_7(&cluster, id);
    for task in 0..2 {
        cluster
            .wait_output(&format!("step-{task}.out"), SOON, |text| {
                text == "up\nover\n"
            })
            .unwrap();
    }
    cluster
        .wait_accounted(&format!("{id}.0"), "COMPLETED", SOON)
        .unwrap();
}

/// A graceful stop and start keeps jobs, waiting and running.
#[test]
fn a_restart_of_everything_in_order_keeps_the_queue() {
    let mut cluster = cluster();
    let running = running_job(&cluster);
    let held = cluster.sbatch(["-H", "--wrap", "true"]).unwrap();
    cluster.stop_ctld().unwrap();
    cluster.stop_agent("n1").unwrap();
    // The agent before its controller: it must keep trying.
    cluster.start_agent("n1").unwrap();
    cluster.start_ctld().unwrap();
    cluster.wait_job_state(running, "RUNNING", READY).unwrap();
    assert_eq!(job_field(&cluster, held, "Reason"), "JobHeldUser");
    let_it_end(&cluster);
    assert_failed_with_7(&cluster, running);
}

/// The order in which machines boot must not matter.
#[test]
fn agents_that_start_before_their_controller_connect_when_it_comes() {
    let mut cluster = Cluster::builder().write().unwrap();
    for node in cluster.nodes().to_vec() {
        cluster.start_agent(&node).unwrap();
    }
    wait_until(SOON, "an agent to try in vain", || {
        !cluster.log_tails().is_empty()
    })
    .unwrap();
    cluster.start_ctld().unwrap();
    cluster.wait_ready(READY).unwrap();
}

/// Pid of the shell that runs the job's script.
fn job_shell(cluster: &Cluster) -> String {
    let marker = cluster.path("work");
    let mut found = None;
    wait_until(SOON, "the job's shell to be found", || {
        found = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
            .find(|pid| is_job_shell(pid, &marker));
        found.is_some()
    })
    .unwrap();
    found.unwrap()
}

fn is_job_shell(pid: &str, work: &std::path::Path) -> bool {
    let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let environment = read("environ");
    let has = |pair: &[u8]| {
        environment
            .split(|byte| *byte == 0)
            .any(|have| have == pair)
    };
    let is_here = std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == work);
    let command = String::from_utf8_lossy(&read("cmdline")).into_owned();
    is_here && has(b"SLURM_PROCID=0") && command.contains("slurm_script")
}

fn wait_gone(pid: &str) {
    wait_until(SOON, "the job's shell to end", || {
        !std::path::Path::new(&format!("/proc/{pid}")).exists()
    })
    .unwrap();
}
