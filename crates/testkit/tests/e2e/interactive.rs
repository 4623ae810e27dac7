//! `srun` and who sits before it: interrupts, the terminal of `--pty`, names of output files; and who does not: a stranger at its port.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_testkit::{Cluster, run_with_deadline, wait_for, wait_until};

use super::{SOON, cluster};

fn text_of(cluster: &Cluster, file: &str) -> String {
    std::fs::read_to_string(cluster.path(file)).unwrap_or_default()
}

/// An srun with `options` whose task runs `script`; output and errors go to files.
fn start(cluster: &Cluster, options: &[&str], script: &str) -> Child {
    let file = |name: &str| File::create(cluster.path(name)).unwrap();
    let mut command = cluster.command("srun");
    let child = command
        .args(["-n1"])
        .args(options)
        .args(["sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(file("work/out"))
        .stderr(file("work/err"))
        .spawn()
        .unwrap();
    wait_until(SOON, "the task", || {
        text_of(cluster, "work/out").starts_with("ready\n")
    })
    .unwrap();
    child
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

fn hears(cluster: &Cluster, text: &str) {
    wait_for(SOON, text, || {
        let told = text_of(cluster, "work/err");
        if told.contains(text) {
            Ok(())
        } else {
            Err(told)
        }
    })
    .unwrap();
}

/// srun(1): one interrupt tells how the tasks are, two within a second go to the tasks, three end the step whatever it does.
#[test]
fn three_interrupts_end_what_ignores_them() {
    let cluster = cluster();
    let script = "trap '' INT; echo ready; while :; do sleep 0.1; done";
    let mut srun = start(&cluster, &[], script);
    send(&srun, Signal::SIGINT);
    hears(&cluster, "interrupt (one more within 1 sec to abort)");
    hears(&cluster, " task 0: running");
    send(&srun, Signal::SIGINT);
    hears(&cluster, "sending Ctrl-C to StepId=");
    send(&srun, Signal::SIGINT);
    hears(&cluster, "forcing job termination");
    let status = srun.wait().unwrap();
    assert_eq!(
        status.code(),
        Some(137),
        "{}",
        text_of(&cluster, "work/err")
    );
    hears(
        &cluster,
        "Job step aborted: Waiting up to 32 seconds for job step to finish.",
    );
    hears(&cluster, "CANCELLED AT ");
}

/// srun(1) -X passes the first interrupt on, --quit-on-interrupt ends the step at once, a SIGTERM does so too; a SIGUSR1 is the task's.
#[test]
fn interrupts_as_the_options_say() {
    let cluster = cluster();
    let forever = "echo ready; exec sleep 1000";
    let mut srun = start(&cluster, &["-X"], forever);
    send(&srun, Signal::SIGINT);
    hears(&cluster, "sending Ctrl-C to StepId=");
    assert_eq!(srun.wait().unwrap().code(), Some(130));
    hears(&cluster, "task 0: Interrupt");
    for (options, signal) in [
        (&["--quit-on-interrupt"][..], Signal::SIGINT),
        (&[][..], Signal::SIGTERM),
    ] {
        let mut srun = start(&cluster, options, forever);
        send(&srun, signal);
        hears(&cluster, "forcing job termination");
        assert_eq!(srun.wait().unwrap().code(), Some(137));
    }
    let caught = "trap 'echo caught; exit 4' USR1; echo ready; while :; do sleep 0.1; done";
    let mut srun = start(&cluster, &[], caught);
    send(&srun, Signal::SIGUSR1);
    assert_eq!(srun.wait().unwrap().code(), Some(4));
    assert_eq!(text_of(&cluster, "work/out"), "ready\ncaught\n");
}

/// A task that fails with -K takes the others along, which are asked to end first.
#[test]
fn a_bad_exit_ends_the_others() {
    let cluster = cluster();
    let script = "if [ $SLURM_PROCID = 0 ]; then exit 3; fi; sleep 1000";
    let done = cluster
        .run("srun", ["-N1", "-n2", "-K", "sh", "-c", script])
        .unwrap();
    assert_eq!(done.code, 143, "{done:?}");
    assert!(done.stderr.contains("DUE TO TASK FAILURE"), "{done:?}");
    assert!(done.stderr.contains("task 1: Terminated"), "{done:?}");
    let done = cluster
        .run(
            "srun",
            [
                "-N1",
                "-n2",
                "-W1",
                "sh",
                "-c",
                "[ $SLURM_PROCID = 0 ] || sleep 1000",
            ],
        )
        .unwrap();
    assert_eq!(done.code, 137, "{done:?}");
    assert!(done.stderr.contains("First task exited 1s ago"), "{done:?}");
    assert!(done.stderr.contains("DUE to SIGNAL Killed"), "{done:?}");
}

/// A program with a terminal of its own as controlling terminal; what it writes arrives in a file.
fn on_terminal(cluster: &Cluster, words: &[&str]) -> (Child, File, String) {
    let size = Winsize {
        ws_row: 30,
        ws_col: 100,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let pair = openpty(Some(&size), None).unwrap();
    let name = nix::unistd::ttyname(&pair.slave).unwrap();
    let copy = |end: &OwnedFd| Stdio::from(end.try_clone().unwrap());
    let mut command = cluster.program(std::path::Path::new("setsid"));
    let child = command
        .args(["--ctty", "--wait"])
        .args(words)
        .stdin(copy(&pair.slave))
        .stdout(copy(&pair.slave))
        .stderr(copy(&pair.slave))
        .spawn()
        .unwrap();
    drop(pair.slave);
    let master = File::from(pair.master);
    let mut reader = master.try_clone().unwrap();
    let mut log = File::create(cluster.path("work/terminal")).unwrap();
    std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(length @ 1..) = reader.read(&mut chunk) {
            log.write_all(&chunk[..length]).unwrap();
        }
    });
    (child, master, name.display().to_string())
}

/// srun(1) --pty: the task's terminal has the size of srun's, also when that changes; keys arrive, and so does Ctrl-C, as a signal.
#[test]
fn a_terminal_follows_the_users() {
    let cluster = cluster();
    let script = "trap 'echo interrupted; exit 6' INT; stty size; read word; echo got $word; \
         while [ \"$(stty size)\" = '30 100' ]; do sleep 0.1; done; stty size; while :; do sleep 0.1; done";
    let (mut child, mut master, name) = on_terminal(
        &cluster,
        &["srun", "-Q", "-n1", "--pty", "sh", "-c", script],
    );
    let shows = |text: &str| {
        wait_for(SOON, text, || {
            let shown = text_of(&cluster, "work/terminal");
            if shown.contains(text) {
                Ok(())
            } else {
                Err(shown)
            }
        })
        .unwrap();
    };
    shows("30 100");
    master.write_all(b"hello\r").unwrap();
    shows("got hello");
    let resized = Command::new("stty")
        .args(["-F", &name, "rows", "40", "cols", "120"])
        .status()
        .unwrap();
    assert!(resized.success());
    shows("40 120");
    master.write_all(b"\x03").unwrap();
    shows("interrupted");
    assert_eq!(child.wait().unwrap().code(), Some(6));
}

/// srun(1) --pty without a terminal is no --pty, and says so.
#[test]
fn without_a_terminal() {
    let cluster = cluster();
    let mut command = cluster.command("srun");
    command
        .args(["-n1", "--pty", "sh", "-c", "test -t 0 || echo none"])
        .stdin(Stdio::null());
    let done = run_with_deadline(command, SOON).unwrap();
    assert_eq!((done.code, done.stdout.as_str()), (0, "none\n"), "{done:?}");
    let told = "srun: error: Not using a pseudo-terminal, disregarding --pty option";
    assert!(done.stderr.contains(told), "{done:?}");
}

/// srun(1) FILENAME PATTERN: every letter, and numbers with a width. The names are those that a real srun gave its files.
#[test]
fn output_files_by_pattern() {
    let cluster = cluster();
    let pattern = "o.%t.%n.%N.%s.%x.%3t.%04n";
    cluster
        .run(
            "srun",
            ["-N2", "-n2", "-J", "nm", "-o", pattern, "echo", "hi"],
        )
        .and_then(|done| done.success())
        .unwrap();
    let mut names: Vec<String> = std::fs::read_dir(cluster.path("work"))
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("o."))
        .collect();
    names.sort();
    assert_eq!(names, ["o.0.0.n1.0.nm.000.0000", "o.1.1.n2.0.nm.001.0001"]);
    cluster
        .run("srun", ["-n1", "-o", "p.%J.%j.%A.%5j.%u", "true"])
        .and_then(|done| done.success())
        .unwrap();
    let user = nix::unistd::User::from_uid(nix::unistd::getuid())
        .unwrap()
        .unwrap();
    let id = 2;
    let expected = format!("p.{id}.0.{id}.{id}.{id:05}.{}", user.name);
    assert!(cluster.path(&format!("work/{expected}")).exists());
    cluster
        .sbatch([
            "-a",
            "7",
            "--wrap",
            "srun -o a.%A.%a.%2a.%t true; touch a.done",
        ])
        .unwrap();
    wait_until(SOON, "the array's task", || {
        cluster.path("work/a.done").exists()
    })
    .unwrap();
    assert!(cluster.path("work/a.3.7.07.0").exists());
}

/// Who does not know the step's secret gets nothing from srun's port, and cannot pretend to be a node.
#[test]
fn a_stranger_at_the_port() {
    let cluster = cluster();
    let script =
        "echo ready; echo $SLURM_SRUN_COMM_PORT; while [ ! -e go ]; do sleep 0.1; done; echo end";
    let mut srun = start(&cluster, &[], script);
    let port: u16 = text_of(&cluster, "work/out")
        .lines()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    // A hello as a node would say it, by name; then an answer that knows no secret.
    let hello = sluice_model::launch::StepFrame::Hello {
        secret: String::new(),
        node: "n1".to_owned(),
        node_index: 0,
        task_ids: vec![0],
        nonce: "stranger".to_owned(),
    };
    let answer = sluice_model::launch::StepFrame::Proof {
        proof: "0".repeat(64),
    };
    let output = sluice_model::launch::StepFrame::Output {
        task: 0,
        is_stderr: false,
        data: b"forged\n".to_vec(),
    };
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    for frame in [hello, answer, output, sluice_model::launch::StepFrame::Done] {
        // The port may be closed before all is said.
        let _ = sluice_frames::write_frame(&mut stream, &frame);
    }
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    let heard = String::from_utf8_lossy(&heard).into_owned();
    assert!(!heard.contains("Welcome"), "{heard}");
    // Noise, and a connection that says nothing.
    let mut noise = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let _ = noise.write_all(&[0xff; 4096]);
    let _silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
    std::fs::write(cluster.path("work/go"), "").unwrap();
    let ended = wait_until(SOON + Duration::from_secs(1), "srun", || {
        matches!(srun.try_wait(), Ok(Some(_)))
    });
    if ended.is_err() {
        srun.kill().unwrap();
    }
    assert_eq!(srun.wait().unwrap().code(), Some(0));
    assert_eq!(
        text_of(&cluster, "work/out"),
        format!("ready\n{port}\nend\n")
    );
}
