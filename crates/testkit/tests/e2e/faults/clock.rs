//! The system's clock jumps an hour, either way, under daemons that run.
//!
//! The daemons get a small library in front of the C library (built here with `cc`) whose wall clock is off by what a file says;
//! the monotonic clocks stay as they are. Nobody's time limit may end early or late by that, no node falls silent, and no job is
//! lost, neither now nor when agents connect anew.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sluice_testkit::{Cluster, Wrapping, wait_for, wait_until};

use super::super::{READY, SOON, job_field, node_field};

const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset(void) {
    const char *path = getenv("SLUICE_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    char text[32] = {0};
    long length = read(file, text, sizeof text - 1);
    close(file);
    return length > 0 ? strtol(text, 0, 10) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int done = syscall(SYS_clock_gettime, clock, time);
    if (done == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += offset();
    return done;
}
"#;

/// Builds the library; `None` where there is no C compiler, which then is said.
fn library(dir: &Path) -> Option<PathBuf> {
    let (source, built) = (dir.join("clock.c"), dir.join("clock.so"));
    std::fs::write(&source, LIBRARY).unwrap();
    let done = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&built, &source])
        .status();
    match done {
        Ok(status) if status.success() => Some(built),
        _ => {
            eprintln!("skipped: no C compiler to build the clock with");
            None
        }
    }
}

fn an_hour(by: i64) {
    let mut cluster = Cluster::builder()
        .nodes(2)
        .kill_wait_secs(1)
        .conf_line("SlurmdTimeout=60")
        .conf_line("MinJobAge=600")
        .write()
        .unwrap();
    let Some(built) = library(&cluster.path("work")) else {
        return;
    };
    let clocks = [
        cluster.layout().host.clone(),
        "n1".to_owned(),
        "n2".to_owned(),
    ]
    .map(|name| {
        let file = cluster.path("work").join(format!("clock-{name}"));
        std::fs::write(&file, "0").unwrap();
        let wrapping = Wrapping {
            variables: vec![
                ("LD_PRELOAD".to_owned(), built.display().to_string()),
                ("SLUICE_TEST_CLOCK".to_owned(), file.display().to_string()),
            ],
            ..Wrapping::default()
        };
        cluster.wrap(&name, wrapping);
        file
    });
    cluster.start_ctld().unwrap();
    for node in ["n1", "n2"] {
        cluster.start_agent(node).unwrap();
    }
    cluster.wait_ready(READY).unwrap();

    let script = "echo up; while [ ! -e go ]; do sleep 0.05; done; exit 7";
    let running = ["n1", "n2"].map(|node| {
        let file = format!("{node}.out");
        let id = cluster
            .sbatch(["-w", node, "-t", "10", "-o", &file, "--wrap", script])
            .unwrap();
        cluster
            .wait_output(&file, SOON, |text| text == "up\n")
            .unwrap();
        id
    });
    let begins = cluster
        .sbatch(["--begin=now+30minutes", "--wrap", "true"])
        .unwrap();
    // The whole machine of the controller, with n1 on it; n2's clock stays right.
    for file in &clocks[..2] {
        std::fs::write(file, by.to_string()).unwrap();
    }
    let log = || std::fs::read_to_string(cluster.path("log/ctld.log")).unwrap_or_default();
    wait_until(SOON, "ctld to see the jump", || {
        log().contains("clock jumped by")
    })
    .unwrap();
    std::thread::sleep(Duration::from_secs(8));
    for id in running {
        assert_eq!(cluster.job_state(id).unwrap(), "RUNNING");
        assert_eq!(job_field(&cluster, id, "Restarts"), "0");
    }
    assert_eq!(
        cluster.job_state(begins).unwrap(),
        "PENDING",
        "not half an hour early"
    );
    // New work goes on, and agents connect anew: their tokens are off by an hour from the controller's time.
    let other = cluster.sbatch(["-t", "1", "--wrap", "exit 4"]).unwrap();
    assert_eq!(cluster.wait_job_end(other, SOON).unwrap(), "FAILED");
    assert_eq!(job_field(&cluster, other, "ExitCode"), "4:0");
    for node in ["n1", "n2"] {
        cluster.kill_agent(node).unwrap();
        cluster.start_agent(node).unwrap();
    }
    std::fs::write(cluster.path("work/go"), "").unwrap();
    for id in running {
        assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "FAILED");
        assert_eq!(job_field(&cluster, id, "ExitCode"), "7:0");
    }
    for node in ["n1", "n2"] {
        wait_for(SOON, "the node to be idle", || {
            let state = node_field(&cluster, node, "State");
            if state.starts_with("IDLE") {
                Ok(())
            } else {
                Err(state)
            }
        })
        .unwrap();
    }
    for id in running {
        let row = cluster
            .wait_accounted(&id.to_string(), "FAILED", SOON)
            .unwrap();
        assert_eq!(row.exit_code, "7:0");
    }
    // Set right again.
    for file in &clocks {
        std::fs::write(file, "0").unwrap();
    }
    let last = cluster.sbatch(["--wrap", "exit 2"]).unwrap();
    assert_eq!(cluster.wait_job_end(last, SOON).unwrap(), "FAILED");
    cluster.stop().unwrap();
}

/// Without this, jobs would end an hour early and nodes fall silent.
#[test]
fn a_clock_an_hour_ahead_ends_nothing() {
    an_hour(3_600);
}

/// Without this, limits would come an hour late and nobody's token would be valid.
#[test]
fn a_clock_an_hour_back_ends_nothing() {
    an_hour(-3_600);
}
