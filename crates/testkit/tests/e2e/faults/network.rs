//! The network between an agent and the controller is cut and healed.
//!
//! As root the agent lives in a network namespace of its own, behind a pair of virtual devices of which one goes down; for others
//! a relay in this process stands between them and stops passing bytes on (as root too with `SLUICE_FAULT_WIRE=relay`). Either way
//! nobody gets an error: packets just vanish.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluice_testkit::{Cluster, Wrapping, wait_for};

use super::super::{READY, SOON, job_field, node_field};

/// What lies between the controller and one agent.
enum Wire {
    Namespace { name: String, device: String },
    Relay { passes: Arc<AtomicBool> },
}

fn ip(args: &str) -> bool {
    Command::new("ip")
        .args(args.split(' '))
        .output()
        .is_ok_and(|done| done.status.success())
}

impl Wire {
    /// Makes the wire; gives how the agent has to be started, and the controller's address as the agent sees it.
    fn lay(cluster: &Cluster) -> (Self, Wrapping) {
        let number = std::process::id() % 16_000;
        let (name, device) = (format!("sluice-{number}"), format!("slv{number}"));
        // A /30 of 10.200.0.0/15 for each test process.
        let (high, low) = (200 + number / 16_000, number * 4 % 65_536);
        let address =
            |last: u32| format!("10.{high}.{}.{}", (low + last) / 256, (low + last) % 256);
        let is_root = nix::unistd::Uid::effective().is_root();
        let relay_wanted =
            std::env::var_os("SLUICE_FAULT_WIRE").is_some_and(|kind| kind == "relay");
        let made = is_root
            && !relay_wanted
            && ip(&format!("netns add {name}"))
            && ip(&format!("link add {device} type veth peer name {device}p"))
            && ip(&format!("link set {device}p netns {name}"))
            && ip(&format!("addr add {}/30 dev {device}", address(1)))
            && ip(&format!("link set {device} up"))
            && ip(&format!(
                "-n {name} addr add {}/30 dev {device}p",
                address(2)
            ))
            && ip(&format!("-n {name} link set {device}p up"))
            && ip(&format!("-n {name} link set lo up"));
        let mut conf = std::fs::read_to_string(cluster.conf()).unwrap();
        let wrapping = if made {
            // The controller listens on every interface when its address is none of the loopback.
            let everywhere = conf.replace("(127.0.0.1)", &format!("({})", address(1)));
            std::fs::write(cluster.conf(), &everywhere).unwrap();
            Wrapping {
                prefix: ["ip", "netns", "exec", &name].map(str::to_owned).into(),
                ..Wrapping::default()
            }
        } else {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = cluster.layout().ctld_port;
            let new = listener.local_addr().unwrap().port();
            conf = conf.replace(
                &format!("SlurmctldPort={port}"),
                &format!("SlurmctldPort={new}"),
            );
            let path = cluster.path("etc/behind-the-relay.conf");
            std::fs::write(&path, conf).unwrap();
            let passes = Arc::new(AtomicBool::new(true));
            relay(listener, port, Arc::clone(&passes));
            let wrapping = Wrapping {
                conf: Some(path),
                ..Wrapping::default()
            };
            return (Self::Relay { passes }, wrapping);
        };
        (Self::Namespace { name, device }, wrapping)
    }

    fn cut(&self) {
        match self {
            Self::Namespace { device, .. } => assert!(ip(&format!("link set {device} down"))),
            Self::Relay { passes, .. } => passes.store(false, Ordering::SeqCst),
        }
    }

    fn heal(&self) {
        match self {
            Self::Namespace { device, .. } => assert!(ip(&format!("link set {device} up"))),
            Self::Relay { passes, .. } => passes.store(true, Ordering::SeqCst),
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if let Self::Namespace { name, device } = self {
            ip(&format!("link del {device}"));
            ip(&format!("netns del {name}"));
        }
    }
}

/// Passes bytes on in both directions, or holds them while it must not.
fn relay(listener: TcpListener, port: u16, passes: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        for agent in listener.incoming().flatten() {
            let Ok(controller) = TcpStream::connect(("127.0.0.1", port)) else {
                continue;
            };
            for (mut from, mut to) in [
                (agent.try_clone().unwrap(), controller.try_clone().unwrap()),
                (controller, agent),
            ] {
                let passes = Arc::clone(&passes);
                std::thread::spawn(move || {
                    let mut buffer = [0; 16_384];
                    loop {
                        let read = from.read(&mut buffer).unwrap_or(0);
                        while !passes.load(Ordering::SeqCst) {
                            std::thread::sleep(Duration::from_millis(20));
                        }
                        if read == 0 || to.write_all(&buffer[..read]).is_err() {
                            let _ = to.shutdown(Shutdown::Both);
                            return;
                        }
                    }
                });
            }
        }
    });
}

fn behind_a_wire(slurmd_timeout_secs: u32) -> (Cluster, Wire) {
    let mut cluster = Cluster::builder()
        .nodes(2)
        .kill_wait_secs(1)
        .conf_line(&format!("SlurmdTimeout={slurmd_timeout_secs}"))
        .conf_line("SchedulerParameters=requeue_delay=0")
        .write()
        .unwrap();
    let (wire, wrapping) = Wire::lay(&cluster);
    cluster.wrap("n1", wrapping);
    cluster.start_ctld().unwrap();
    for node in ["n1", "n2"] {
        cluster.start_agent(node).unwrap();
    }
    cluster.wait_ready(READY).unwrap();
    (cluster, wire)
}

fn runs(cluster: &Cluster, file: &str) -> usize {
    std::fs::read_to_string(cluster.path("work").join(file))
        .unwrap_or_default()
        .lines()
        .count()
}

/// A cut shorter than SlurmdTimeout costs nothing: jobs run on and end, and their ends arrive when the network is back.
#[test]
fn a_short_cut_of_the_network_loses_nothing() {
    let (cluster, wire) = behind_a_wire(120);
    let wait = "echo up; while [ ! -e go ]; do sleep 0.05; done; exit 7";
    let ends = cluster
        .sbatch(["-w", "n1", "-o", "ends.out", "--wrap", wait])
        .unwrap();
    let goes_on = cluster
        .sbatch([
            "-w",
            "n1",
            "-o",
            "on.out",
            "--wrap",
            "echo up; while [ ! -e later ]; do sleep 0.05; done; exit 3",
        ])
        .unwrap();
    for file in ["ends.out", "on.out"] {
        cluster
            .wait_output(file, SOON, |text| text == "up\n")
            .unwrap();
    }
    wire.cut();
    std::fs::write(cluster.path("work/go"), "").unwrap();
    // Work for the other node goes on meanwhile, and something for the unreachable one is wanted too.
    let elsewhere = cluster.sbatch(["-w", "n2", "--wrap", "exit 0"]).unwrap();
    assert_eq!(cluster.wait_job_end(elsewhere, SOON).unwrap(), "COMPLETED");
    let meanwhile = cluster
        .sbatch([
            "-w",
            "n1",
            "-o",
            "meanwhile.out",
            "--wrap",
            "echo ran; exit 5",
        ])
        .unwrap();
    std::thread::sleep(Duration::from_secs(12));
    assert_eq!(cluster.job_state(ends).unwrap(), "RUNNING");
    wire.heal();
    // The agent's link is given up after its pings have failed, and made again with growing pauses.
    let patience = Duration::from_secs(90);
    for (id, code) in [(ends, "7:0"), (meanwhile, "5:0")] {
        assert_eq!(cluster.wait_job_end(id, patience).unwrap(), "FAILED");
        assert_eq!(job_field(&cluster, id, "ExitCode"), code);
        assert_eq!(job_field(&cluster, id, "Restarts"), "0");
    }
    assert_eq!(cluster.job_state(goes_on).unwrap(), "RUNNING");
    std::fs::write(cluster.path("work/later"), "").unwrap();
    assert_eq!(cluster.wait_job_end(goes_on, SOON).unwrap(), "FAILED");
    assert_eq!(job_field(&cluster, goes_on, "ExitCode"), "3:0");
    assert_eq!(runs(&cluster, "meanwhile.out"), 1, "ran once");
    cluster.stop().unwrap();
}

/// A cut longer than SlurmdTimeout takes the node down: its jobs are requeued elsewhere, and what still runs there is ended when
/// the network is back, before the node gets other work. No attempt runs twice.
#[test]
fn a_long_cut_takes_the_node_down_and_its_jobs_run_once_more_elsewhere() {
    let (cluster, wire) = behind_a_wire(8);
    let script = "echo \"$SLURM_JOB_ID ${SLURM_RESTART_COUNT:-0} $SLURMD_NODENAME\" >> runs; \
                  [ ${SLURM_RESTART_COUNT:-0} -gt 0 ] || sleep 1000; exit 6";
    let requeued = cluster
        .sbatch(["--requeue", "-w", "n1", "--wrap", script])
        .unwrap();
    let lost = cluster
        .sbatch([
            "--no-requeue",
            "-w",
            "n1",
            "--wrap",
            "echo lost > lost.out; sleep 1000",
        ])
        .unwrap();
    cluster
        .wait_output("lost.out", SOON, |text| text == "lost\n")
        .unwrap();
    wait_for(SOON, "the first run", || {
        if runs(&cluster, "runs") == 1 {
            Ok(())
        } else {
            Err("not yet".to_owned())
        }
    })
    .unwrap();
    wire.cut();
    wait_for(Duration::from_secs(60), "n1 to be down", || {
        let state = node_field(&cluster, "n1", "State");
        if state.starts_with("DOWN") {
            Ok(())
        } else {
            Err(state)
        }
    })
    .unwrap();
    assert_eq!(cluster.wait_job_end(lost, SOON).unwrap(), "NODE_FAIL");
    // It asked for n1 and waits for it.
    cluster.wait_job_state(requeued, "PENDING", SOON).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    wire.heal();
    wait_for(Duration::from_secs(90), "n1 to serve", || {
        let state = node_field(&cluster, "n1", "State");
        if state.starts_with("DOWN") {
            Err(state)
        } else {
            Ok(())
        }
    })
    .unwrap();
    assert_eq!(
        cluster
            .wait_job_end(requeued, Duration::from_secs(60))
            .unwrap(),
        "FAILED"
    );
    assert_eq!(job_field(&cluster, requeued, "ExitCode"), "6:0");
    let text = std::fs::read_to_string(cluster.path("work/runs")).unwrap();
    assert_eq!(text, format!("{requeued} 0 n1\n{requeued} 1 n1\n"));
    wait_for(SOON, "no process to be left", || {
        let left = cluster.job_processes();
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    })
    .unwrap();
    let row = cluster
        .wait_accounted(&lost.to_string(), "NODE_FAIL", SOON)
        .unwrap();
    assert_eq!(row.state, "NODE_FAIL");
    cluster.stop().unwrap();
}
