//! The disk below the journal is full: submissions are refused in clear words, running jobs go on, and when there is space
//! again everything goes on, without a restart.
//!
//! Needs root, for a file system of a few MiB of its own; for others the test says so and passes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use sluice_testkit::{Cluster, wait_for, wait_until};

use super::super::{READY, SOON, job_field};

/// A small file system in memory; gone when dropped.
struct SmallDisk {
    at: PathBuf,
}

impl SmallDisk {
    fn mount(at: PathBuf, mib: u32) -> Self {
        mount(
            Some("sluice-test"),
            &at,
            Some("tmpfs"),
            MsFlags::empty(),
            Some(format!("size={mib}m,mode=0755").as_str()),
        )
        .unwrap();
        Self { at }
    }

    /// Leaves no room at all.
    fn fill(&self) {
        // `dd` fails when nothing more fits, which is what is wanted.
        let _ = Command::new("dd")
            .args(["if=/dev/zero", "bs=4096", "status=none"])
            .arg(format!("of={}", self.ballast().display()))
            .output();
    }

    fn make_room(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.at.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = umount2(&self.at, MntFlags::MNT_DETACH);
    }
}

fn log_says(cluster: &Cluster, text: &str) -> bool {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    read(&cluster.path("log/ctld.log")).contains(text)
        || read(&cluster.path("log/ctld.out")).contains(text)
}

/// See the head of this file.
#[test]
fn a_full_disk_refuses_submissions_and_nothing_else() {
    if !nix::unistd::Uid::effective().is_root() {
        eprintln!("skipped: only root can mount a small file system");
        return;
    }
    let mut cluster = Cluster::builder().kill_wait_secs(1).write().unwrap();
    let disk = SmallDisk::mount(cluster.path("state"), 24);
    cluster.start_ctld().unwrap();
    for node in cluster.nodes().to_vec() {
        cluster.start_agent(&node).unwrap();
    }
    cluster.wait_ready(READY).unwrap();
    let host = cluster.layout().host.clone();

    let script = "echo up; while [ ! -e go ]; do sleep 0.05; done; srun sh -c 'echo step'; exit 7";
    let running = cluster.sbatch(["-o", "up.out", "--wrap", script]).unwrap();
    let ends = cluster
        .sbatch([
            "-o",
            "ends.out",
            "--wrap",
            "echo up; while [ ! -e end ]; do sleep 0.05; done; exit 4",
        ])
        .unwrap();
    for file in ["up.out", "ends.out"] {
        cluster
            .wait_output(file, SOON, |text| text == "up\n")
            .unwrap();
    }
    let held = cluster.sbatch(["-H", "--wrap", "exit 3"]).unwrap();

    disk.fill();
    // The last free bytes of the journal's last page may still take a few.
    let refused = wait_for(SOON, "a submission to be refused", || {
        let done = cluster.run("sbatch", ["-H", "--wrap", "true"]).unwrap();
        if done.code == 0 {
            Err(done.stdout)
        } else {
            Ok(done)
        }
    })
    .unwrap();
    let state = cluster.path("state");
    assert!(
        refused.stderr.contains(&state.display().to_string())
            && refused.stderr.contains("No space left on device"),
        "{refused:?}"
    );
    // Reads go on, with what is durable; so do running jobs, and one that ends is not lost.
    assert_eq!(job_field(&cluster, held, "Reason"), "JobHeldUser");
    assert_eq!(cluster.job_state(running).unwrap(), "RUNNING");
    std::fs::write(cluster.path("work/end"), "").unwrap();
    let refused = cluster
        .run("scontrol", ["release", &held.to_string()])
        .unwrap();
    assert_ne!(refused.code, 0, "{refused:?}");
    assert_eq!(job_field(&cluster, held, "Reason"), "JobHeldUser");
    // Longer than heartbeats and several ticks.
    std::thread::sleep(Duration::from_secs(6));
    assert!(cluster.is_running(&host), "ctld ended");
    assert_eq!(cluster.job_state(running).unwrap(), "RUNNING");
    // A step that a running job wants now waits for room.
    std::fs::write(cluster.path("work/go"), "").unwrap();
    std::thread::sleep(Duration::from_secs(1));

    disk.make_room();
    wait_until(SOON, "ctld to have room again", || {
        log_says(&cluster, "the journal has room again")
    })
    .unwrap();
    assert_eq!(cluster.wait_job_end(ends, SOON).unwrap(), "FAILED");
    assert_eq!(job_field(&cluster, ends, "ExitCode"), "4:0");
    assert_eq!(cluster.wait_job_end(running, SOON).unwrap(), "FAILED");
    assert_eq!(job_field(&cluster, running, "ExitCode"), "7:0");
    cluster
        .wait_output("up.out", SOON, |text| text.ends_with("step\n"))
        .unwrap();
    cluster
        .run("scontrol", ["release", &held.to_string()])
        .and_then(|done| done.success())
        .unwrap();
    assert_eq!(cluster.wait_job_end(held, SOON).unwrap(), "FAILED");
    for (id, code) in [(ends, "4:0"), (running, "7:0"), (held, "3:0")] {
        let row = cluster
            .wait_accounted(&id.to_string(), "FAILED", SOON)
            .unwrap();
        assert_eq!(row.exit_code, code);
    }
    // And what was written before, during and after is all there after a crash.
    cluster.kill_ctld().unwrap();
    cluster.start_ctld().unwrap();
    cluster.wait_ready(READY).unwrap();
    for (id, code) in [(ends, "4:0"), (running, "7:0"), (held, "3:0")] {
        assert_eq!(job_field(&cluster, id, "ExitCode"), code);
    }
    cluster.stop().unwrap();
    drop(disk);
}
