//! What administrators do by hand with `scontrol`: partitions, nodes, reboots, and jobs that are held, stopped, moved and changed.
//!
//! What is expected is what scontrol(1) says and a real Slurm was seen to do.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use sluice_testkit::{Cluster, run_with_deadline, wait_until};
use tempfile::TempDir;

use super::{READY, SOON, cluster, job_field, node_field, started, this_host};

fn scontrol(cluster: &Cluster, words: &[&str]) -> String {
    cluster
        .run("scontrol", words)
        .and_then(|done| done.success())
        .unwrap()
}

fn refused(cluster: &Cluster, words: &[&str]) -> String {
    let done = cluster.run("scontrol", words).unwrap();
    assert_ne!(done.code, 0, "{done:?}");
    done.stderr
}

fn partition_field(cluster: &Cluster, name: &str, field: &str) -> String {
    let text = scontrol(cluster, &["-o", "show", "partition", name]);
    let key = format!("{field}=");
    text.split_whitespace()
        .find_map(|pair| pair.strip_prefix(&key))
        .unwrap_or_else(|| panic!("no {field} in {text}"))
        .to_owned()
}

fn reason(cluster: &Cluster, id: u32) -> String {
    job_field(cluster, id, "Reason")
}

fn restart(cluster: &mut Cluster) {
    cluster.kill_ctld().unwrap();
    cluster.start_ctld().unwrap();
    cluster.wait_ready(READY).unwrap();
}

/// A job that runs until the test ends, or until it is told to end.
fn sleeper(cluster: &Cluster, options: &[&str]) -> u32 {
    let mut words = options.to_vec();
    words.extend(["-o", "/dev/null", "--wrap", "sleep 1000"]);
    let id = cluster.sbatch(words).unwrap();
    cluster.wait_job_state(id, "RUNNING", SOON).unwrap();
    id
}

/// A partition made by hand takes jobs, is changed, is kept by a restart, and goes when it is deleted. `reconfigure` brings back
/// what the file says.
#[test]
fn partitions_are_made_changed_and_deleted() {
    let mut cluster = cluster();
    scontrol(
        &cluster,
        &[
            "create",
            "PartitionName=extra",
            "Nodes=n[1-2]",
            "MaxTime=10",
        ],
    );
    assert_eq!(partition_field(&cluster, "extra", "MaxTime"), "00:10:00");
    let id = cluster
        .sbatch(["-p", "extra", "-t5", "-o", "/dev/null", "--wrap", "true"])
        .unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
    scontrol(
        &cluster,
        &["update", "PartitionName=extra", "State=DOWN", "Nodes=n1"],
    );
    let waiting = cluster
        .sbatch(["-p", "extra", "-o", "/dev/null", "--wrap", "true"])
        .unwrap();
    wait_until(SOON, "the partition to be the reason", || {
        reason(&cluster, waiting) == "PartitionDown"
    })
    .unwrap();
    scontrol(&cluster, &["update", "PartitionName=main", "MaxTime=60"]);
    restart(&mut cluster);
    assert_eq!(partition_field(&cluster, "extra", "State"), "DOWN");
    assert_eq!(partition_field(&cluster, "extra", "Nodes"), "n1");
    assert_eq!(partition_field(&cluster, "main", "MaxTime"), "01:00:00");
    let said = refused(&cluster, &["delete", "PartitionName=extra"]);
    assert!(said.contains("Partition is in use"), "{said}");
    cluster
        .run("scancel", [waiting.to_string()])
        .and_then(|done| done.success())
        .unwrap();
    scontrol(&cluster, &["delete", "PartitionName=extra"]);
    refused(&cluster, &["show", "partition", "extra"]);
    scontrol(&cluster, &["reconfigure"]);
    assert_eq!(partition_field(&cluster, "main", "MaxTime"), "1-00:00:00");
}

/// A node made by hand is there after a restart and after `reconfigure`, joins partitions of all nodes, and can be deleted.
#[test]
fn nodes_are_made_and_deleted() {
    let mut cluster = cluster();
    let host = format!("NodeHostname={}", this_host());
    let words = [
        "create",
        "NodeName=x1",
        &host,
        "NodeAddr=127.0.0.1",
        "CPUs=2",
        "RealMemory=500",
        "State=CLOUD",
    ];
    scontrol(&cluster, &words);
    let said = refused(&cluster, &words);
    assert!(said.contains("Invalid node name"), "{said}");
    assert_eq!(node_field(&cluster, "x1", "Partitions"), "main");
    restart(&mut cluster);
    assert_eq!(node_field(&cluster, "x1", "CPUTot"), "2");
    scontrol(&cluster, &["reconfigure"]);
    assert_eq!(node_field(&cluster, "x1", "RealMemory"), "500");
    let busy = sleeper(&cluster, &["-w", "n2"]);
    let said = refused(&cluster, &["delete", "NodeName=n2"]);
    assert!(said.to_lowercase().contains("busy"), "{said}");
    scontrol(&cluster, &["delete", "NodeName=x1"]);
    refused(&cluster, &["show", "node", "x1"]);
    assert_eq!(job_field(&cluster, busy, "JobState"), "RUNNING");
}

/// A cluster whose RebootProgram writes a line; where to.
fn rebooting() -> (Cluster, PathBuf, TempDir) {
    let dir = TempDir::new().unwrap();
    let (program, trace) = (dir.path().join("reboot"), dir.path().join("trace"));
    std::fs::write(
        &program,
        format!("#!/bin/sh\necho \"reboot $*\" >> {}\n", trace.display()),
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let line = format!("RebootProgram={}", program.display());
    (started(Cluster::builder().conf_line(&line)), trace, dir)
}

fn reboots(trace: &PathBuf) -> usize {
    std::fs::read_to_string(trace).map_or(0, |text| text.lines().count())
}

/// The machine comes back: its agent starts anew, in a later second than the reboot was ordered.
fn come_back(cluster: &mut Cluster, node: &str) {
    let second = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs()
    };
    let ordered = second();
    cluster.kill_agent(node).unwrap();
    wait_until(SOON, "the next second", || second() > ordered).unwrap();
    cluster.start_agent(node).unwrap();
}

/// An idle node is rebooted at once, shows that, and is back in service when its agent is.
#[test]
fn an_idle_node_reboots_and_comes_back() {
    let (mut cluster, trace, _dir) = rebooting();
    scontrol(&cluster, &["reboot", "reason=kernel", "n1"]);
    wait_until(SOON, "RebootProgram to run", || reboots(&trace) == 1).unwrap();
    let state = node_field(&cluster, "n1", "State");
    assert!(state.contains("REBOOT_ISSUED"), "{state}");
    come_back(&mut cluster, "n1");
    wait_until(SOON, "n1 to serve again", || {
        node_field(&cluster, "n1", "State") == "IDLE"
    })
    .unwrap();
    sleeper(&cluster, &["-w", "n1"]);
}

/// ASAP waits for the job and keeps others away, `cancel_reboot` takes that back; FORCE does not wait.
#[test]
fn reboots_wait_for_jobs_or_end_them() {
    let (cluster, trace, _dir) = rebooting();
    let id = sleeper(&cluster, &["-w", "n1"]);
    scontrol(&cluster, &["reboot", "ASAP", "n1"]);
    let state = node_field(&cluster, "n1", "State");
    assert!(
        state.contains("DRAIN") && state.contains("REBOOT_REQUESTED"),
        "{state}"
    );
    let other = cluster
        .sbatch(["-w", "n1", "-o", "/dev/null", "--wrap", "true"])
        .unwrap();
    assert_eq!(job_field(&cluster, other, "JobState"), "PENDING");
    scontrol(&cluster, &["cancel_reboot", "n1"]);
    assert_eq!(cluster.wait_job_end(other, SOON).unwrap(), "COMPLETED");
    refused(&cluster, &["cancel_reboot", "n1"]);
    assert_eq!(reboots(&trace), 0);
    scontrol(&cluster, &["reboot", "FORCE", "n1"]);
    wait_until(SOON, "RebootProgram to run", || reboots(&trace) == 1).unwrap();
    assert_ne!(job_field(&cluster, id, "JobState"), "RUNNING");
}

/// Without RebootProgram a reboot is refused.
#[test]
fn without_a_program_nothing_reboots() {
    let cluster = cluster();
    refused(&cluster, &["reboot", "n1"]);
    assert_eq!(node_field(&cluster, "n1", "State"), "IDLE");
}

/// `requeuehold` ends the run and holds the job; State=SpecialExit shows it; `release` lets it run once more.
#[test]
fn requeued_and_held() {
    let cluster = cluster();
    let id = sleeper(&cluster, &[]);
    scontrol(
        &cluster,
        &["requeuehold", "State=SpecialExit", &id.to_string()],
    );
    cluster.wait_job_state(id, "SPECIAL_EXIT", SOON).unwrap();
    let shown = reason(&cluster, id);
    assert!(shown.starts_with("JobHeld"), "{shown}");
    scontrol(&cluster, &["release", &id.to_string()]);
    cluster.wait_job_state(id, "RUNNING", SOON).unwrap();
    assert_eq!(job_field(&cluster, id, "Restarts"), "1");
}

/// A stopped job makes no progress, and goes on when it is told to; its owner is told things and can be waited for.
#[test]
fn stopped_told_and_waited_for() {
    let cluster = cluster();
    let id = cluster
        .sbatch([
            "-o",
            "count.out",
            "--wrap",
            "while :; do echo tick; sleep 0.1; done",
        ])
        .unwrap();
    let name = id.to_string();
    cluster
        .wait_output("count.out", SOON, |text| text.lines().count() > 1)
        .unwrap();
    let done = cluster.run("scontrol", ["wait_job", &name]).unwrap();
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stderr.contains("ready for job"), "{done:?}");
    scontrol(&cluster, &["notify", &name, "maintenance", "at", "noon"]);
    cluster
        .wait_output("count.out", SOON, |text| {
            text.contains("maintenance at noon")
        })
        .unwrap();
    scontrol(&cluster, &["suspend", &name]);
    assert_eq!(job_field(&cluster, id, "JobState"), "SUSPENDED");
    let lines = || {
        std::fs::read_to_string(cluster.path("work/count.out"))
            .unwrap()
            .lines()
            .count()
    };
    let mut before = lines();
    wait_until(SOON, "the job to stand still", || {
        std::thread::sleep(std::time::Duration::from_millis(400));
        let still = lines() == before;
        before = lines();
        still
    })
    .unwrap();
    scontrol(&cluster, &["resume", &name]);
    assert_eq!(job_field(&cluster, id, "JobState"), "RUNNING");
    wait_until(SOON, "the job to go on", || lines() > before).unwrap();
    let said = refused(&cluster, &["resume", &name]);
    assert!(said.contains("not suspended"), "{said}");
}

/// A step's limit is changed while it runs.
#[test]
fn a_step_gets_another_limit() {
    let cluster = cluster();
    let id = cluster
        .sbatch([
            "-o",
            "step.out",
            "--wrap",
            "srun sh -c 'echo up; sleep 1000'",
        ])
        .unwrap();
    cluster
        .wait_output("step.out", SOON, |text| text.contains("up"))
        .unwrap();
    let step = format!("{id}.0");
    scontrol(
        &cluster,
        &["update", &format!("StepId={step}"), "TimeLimit=7"],
    );
    let shown = scontrol(&cluster, &["show", "step", &step]);
    assert!(shown.contains("TimeLimit=00:07:00"), "{shown}");
}

/// `top` puts a job before the user's others; who has no right to it is refused.
#[test]
fn a_job_is_moved_to_the_top() {
    let cluster = started(Cluster::builder().nodes(1));
    sleeper(&cluster, &["-n4"]);
    let ids: Vec<u32> = (0..3)
        .map(|_| {
            cluster
                .sbatch(["-n4", "-o", "/dev/null", "--wrap", "true"])
                .unwrap()
        })
        .collect();
    scontrol(&cluster, &["top", &ids[2].to_string()]);
    let queue = cluster
        .run("squeue", ["-h", "-t", "PD", "-S", "y,i", "-o", "%i %y"])
        .and_then(|done| done.success())
        .unwrap();
    let first: u32 = queue.split_whitespace().next().unwrap().parse().unwrap();
    assert_eq!(first, ids[2], "{queue}");
}

/// Many keys of a waiting job at once, and those of a running one.
#[test]
fn jobs_are_changed() {
    let cluster = cluster();
    let id = cluster
        .sbatch(["-H", "-n1", "-o", "/dev/null", "--wrap", "sleep 1000"])
        .unwrap();
    let changes = [
        ("JobName", "renamed"),
        ("Comment", "later"),
        ("AdminComment", "seen"),
        ("TimeLimit", "00:30:00"),
        ("NumNodes", "2"),
        ("MinMemoryNode", "200M"),
        ("Nice", "50"),
        ("Features", "(null)"),
        ("Requeue", "0"),
        ("StdOut", "/dev/null"),
        ("WorkDir", "/tmp"),
        ("WCKey", "key"),
    ];
    let mut words = vec!["update".to_owned(), format!("JobId={id}")];
    words.extend(
        changes
            .iter()
            .filter(|(key, _)| *key != "Features")
            .map(|(key, value)| format!("{key}={value}")),
    );
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    scontrol(&cluster, &words);
    for (key, value) in changes {
        if key == "WCKey" || key == "NumNodes" {
            continue;
        }
        assert_eq!(job_field(&cluster, id, key), value, "{key}");
    }
    assert!(job_field(&cluster, id, "NumNodes").starts_with('2'));
    scontrol(&cluster, &["release", &id.to_string()]);
    cluster.wait_job_state(id, "RUNNING", SOON).unwrap();
    assert_eq!(job_field(&cluster, id, "NumNodes"), "2");
    scontrol(
        &cluster,
        &["update", &format!("JobId={id}"), "TimeLimit=-10"],
    );
    assert_eq!(job_field(&cluster, id, "TimeLimit"), "00:20:00");
    let said = refused(&cluster, &["update", &format!("JobId={id}"), "NumTasks=9"]);
    assert!(said.contains("no longer pending"), "{said}");
}

/// Script and configuration are written to files; several commands are read from standard input.
#[test]
fn files_and_a_session() {
    let cluster = cluster();
    std::fs::write(cluster.path("work/job.sh"), "#!/bin/sh\n# mine\ntrue\n").unwrap();
    let id = cluster.sbatch(["-H", "job.sh"]).unwrap();
    let name = id.to_string();
    let said = scontrol(&cluster, &["write", "batch_script", &name]);
    assert_eq!(
        said,
        format!("batch script for job {id} written to slurm-{id}.sh\n")
    );
    let written = std::fs::read_to_string(cluster.path(&format!("work/slurm-{id}.sh"))).unwrap();
    assert_eq!(written, "#!/bin/sh\n# mine\ntrue\n");
    assert_eq!(
        scontrol(&cluster, &["write", "batch_script", &name, "-"]),
        written
    );
    let said = scontrol(&cluster, &["write", "config", "saved.conf"]);
    let path = said
        .trim_end()
        .strip_prefix("Slurm config saved to ")
        .unwrap_or_else(|| panic!("{said}"));
    let saved = std::fs::read_to_string(path).unwrap();
    assert!(
        saved
            .lines()
            .any(|line| line.starts_with("PartitionName=main")),
        "{saved}"
    );

    let mut commands = tempfile::tempfile().unwrap();
    write!(
        commands,
        "hold {id}\nuhold {id}\nshow hostlist n1,n2\n!!\nnosuch\nquit\nshow hostlist n8,n9\n"
    )
    .unwrap();
    std::io::Seek::rewind(&mut commands).unwrap();
    let mut command = cluster.command("scontrol");
    command.stdin(Stdio::from(commands));
    let done = run_with_deadline(command, SOON).unwrap();
    assert_eq!(done.stdout.matches("n[1-2]").count(), 2, "{done:?}");
    assert!(!done.stdout.contains("n[8-9]"), "{done:?}");
    assert!(done.stderr.contains("invalid keyword: nosuch"), "{done:?}");
    assert_eq!(reason(&cluster, id), "JobHeldUser");
}
