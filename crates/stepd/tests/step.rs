//! Real processes under a real step daemon, with the caller's own user: exit codes, signals, the kill sequence, files,
//! streams, figures.

mod support;

use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use sluice_frames::{read_frame, write_frame};
use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::StepId;
use sluice_model::job::OpenMode;
use sluice_model::launch::{SrunFrame, StepFrame};
use sluice_stepd::control::{Audience, ControlReply, ControlRequest};
use sluice_stepd::spec::StepSpec;
use support::{RunningStep, batch_spec, eventually};

fn only_status(exit: &sluice_model::launch::StepExit) -> WaitStatus {
    assert_eq!(exit.launch_error, None);
    assert_eq!(exit.tasks.len(), 1);
    exit.tasks[0].1
}

fn alive(pid: u32) -> bool {
    sluice_stepd::tree::stat(pid).is_some_and(|stat| !stat.zombie)
}

/// A number that a script writes into a file once it is ready.
fn pid_from(path: &std::path::Path) -> u32 {
    eventually("the script writes its pid", || {
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    })
}

/// The exit code is what the whole system is for.
#[test]
fn exit_codes_and_signals_are_recorded() {
    for (script, status) in [
        ("exit 0", WaitStatus::SUCCESS),
        ("exit 3", WaitStatus::exited(3)),
        ("exit 255", WaitStatus::exited(255)),
        ("kill -9 $$", WaitStatus::signaled(9)),
        ("kill -TERM $$", WaitStatus::signaled(15)),
    ] {
        let mut step = RunningStep::start(batch_spec(7, script));
        assert_eq!(only_status(&step.finish()), status, "{script}");
    }
}

/// A batch script is executed directly, so its first line chooses the interpreter, and a missing one gives errno as code.
#[test]
fn first_line_of_the_script_rules_and_exec_failures_have_errno_as_code() {
    let out = tempfile::tempdir().expect("folder");
    let file = out.path().join("out");
    let mut spec = batch_spec(7, "");
    spec.launch.script = Some(b"#!/bin/echo hello\n".to_vec());
    spec.launch.argv = vec!["world".to_owned()];
    spec.launch.std_out = Some(file.to_string_lossy().into_owned());
    let mut step = RunningStep::start(spec.clone());
    assert_eq!(only_status(&step.finish()), WaitStatus::SUCCESS);
    let script =
        sluice_stepd::spec::job_dir(step.spool.path(), spec.launch.job_id).join("slurm_script");
    assert_eq!(
        std::fs::read_to_string(&file).expect("out"),
        format!("hello {} world\n", script.display())
    );
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(&script).expect("script").permissions(),
    );
    assert_eq!(mode & 0o777, 0o700);

    spec.launch.script = Some(b"#!/nosuch/shell -x\n".to_vec());
    let mut step = RunningStep::start(spec.clone());
    assert_eq!(only_status(&step.finish()), WaitStatus::exited(2));
    let text = std::fs::read_to_string(&file).expect("out");
    assert_eq!(
        text,
        "slurmstepd: error: execve(): bad interpreter(/nosuch/shell): No such file or directory\n"
    );

    spec.launch.script = None;
    for (program, code, words) in [
        ("/nosuch/program", 2, "No such file or directory"),
        ("nosuch-program", 2, "No such file or directory"),
        ("/etc/passwd", 13, "Permission denied"),
    ] {
        spec.launch.argv = vec![program.to_owned()];
        let mut step = RunningStep::start(spec.clone());
        assert_eq!(
            only_status(&step.finish()),
            WaitStatus::exited(code),
            "{program}"
        );
        let text = std::fs::read_to_string(&file).expect("out");
        assert_eq!(
            text,
            format!("slurmstepd: error: execve(): {program}: {words}\n")
        );
    }
}

/// Leftovers of a script, also those that left its session, must not outlive the step: the node goes to another job.
#[test]
fn daemonized_leftovers_are_killed_at_the_end() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("pid");
    let script = format!(
        "(setsid sh -c 'trap \"\" TERM HUP; (sleep 300 & echo $! >{0}.new; mv {0}.new {0}; wait) & exit 0' >/dev/null 2>&1 &)\nwhile ! [ -e {0} ]; do sleep 0.01; done\nexit 5",
        file.display()
    );
    let mut step = RunningStep::start(batch_spec(7, &script));
    let pid = pid_from(&file);
    assert_eq!(only_status(&step.finish()), WaitStatus::exited(5));
    assert!(!alive(pid), "process {pid} outlived the step");
}

/// SIGTERM reaches every process of the tree, and one that can end does so at once.
#[test]
fn terminate_gives_processes_the_chance_to_clean_up() {
    let folder = tempfile::tempdir().expect("folder");
    let ready = folder.path().join("ready");
    let script = format!(
        "trap 'exit 9' TERM\nsleep 300 &\necho $! >{0}.new; mv {0}.new {0}\nwait",
        ready.display()
    );
    let mut step = RunningStep::start(batch_spec(7, &script));
    let child = pid_from(&ready);
    let begin = Instant::now();
    assert_eq!(
        step.request(&ControlRequest::Terminate { grace_secs: 30 }),
        ControlReply::Done
    );
    assert_eq!(only_status(&step.finish()), WaitStatus::exited(9));
    assert!(begin.elapsed() < Duration::from_secs(10) && !alive(child));
}

/// Who ignores SIGTERM is killed after the grace, daemonized children and stopped processes included.
#[test]
fn processes_that_ignore_sigterm_are_killed_after_the_grace() {
    let folder = tempfile::tempdir().expect("folder");
    let ready = folder.path().join("ready");
    let script = format!(
        "trap '' TERM\nsetsid sh -c 'trap \"\" TERM; echo $$ >{0}.new; mv {0}.new {0}; while :; do sleep 1; done' &\nwhile :; do sleep 1; done",
        ready.display()
    );
    let mut step = RunningStep::start(batch_spec(7, &script));
    let child = pid_from(&ready);
    let begin = Instant::now();
    step.request(&ControlRequest::Terminate { grace_secs: 1 });
    let exit = step.finish();
    assert_eq!(only_status(&exit), WaitStatus::signaled(9));
    assert!(
        begin.elapsed() >= Duration::from_secs(1),
        "killed before the grace was over"
    );
    assert!(!alive(child));

    let mut step = RunningStep::start(batch_spec(7, "kill -STOP $$"));
    let request = ControlRequest::Terminate { grace_secs: 0 };
    step.request(&request);
    assert_eq!(only_status(&step.finish()), WaitStatus::signaled(9));
}

/// `scancel -b` reaches the shell only, `--full` its children too.
#[test]
fn signals_reach_the_shell_or_the_whole_tree() {
    let folder = tempfile::tempdir().expect("folder");
    let (ready, got) = (folder.path().join("ready"), folder.path().join("got"));
    let script = format!(
        "sh -c 'trap \"echo child >>{1}; exit\" USR1; echo $$ >{0}.new; mv {0}.new {0}; while :; do sleep 0.01; done' &\ntrap 'echo shell >>{1}' USR1\nwait; wait; wait\nexit 4",
        ready.display(),
        got.display()
    );
    let mut step = RunningStep::start(batch_spec(7, &script));
    let child = pid_from(&ready);
    step.request(&ControlRequest::Signal {
        audience: Audience::TasksOnly,
        signal: 10,
    });
    eventually("the shell is told", || {
        (std::fs::read_to_string(&got).ok()? == "shell\n").then_some(())
    });
    assert!(alive(child));
    step.request(&ControlRequest::Signal {
        audience: Audience::Tree,
        signal: 10,
    });
    assert_eq!(only_status(&step.finish()), WaitStatus::exited(4));
    let mut lines: Vec<String> = std::fs::read_to_string(&got)
        .expect("got")
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    assert_eq!(lines, ["child", "shell", "shell"]);
}

/// Suspended processes make no progress and continue where they were.
#[test]
fn suspend_stops_the_tree_and_resume_continues_it() {
    let folder = tempfile::tempdir().expect("folder");
    let ready = folder.path().join("ready");
    let script = format!(
        "echo $$ >{0}.new; mv {0}.new {0}; trap '' TSTP; while [ -e {0} ]; do sleep 0.01; done",
        ready.display()
    );
    let mut step = RunningStep::start(batch_spec(7, &script));
    let pid = pid_from(&ready);
    let state = || {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .ok()?
            .rsplit_once(") ")?
            .1
            .chars()
            .next()
    };
    step.request(&ControlRequest::Suspend);
    eventually("the shell is stopped", || {
        (state() == Some('T')).then_some(())
    });
    step.request(&ControlRequest::Resume);
    eventually("the shell goes on", || (state() != Some('T')).then_some(()));
    std::fs::remove_file(&ready).expect("let it end");
    assert_eq!(only_status(&step.finish()), WaitStatus::SUCCESS);
}

/// Output patterns, one shared file for both streams, truncation and appending.
#[test]
fn output_files_follow_pattern_and_open_mode() {
    let folder = tempfile::tempdir().expect("folder");
    let mut spec = batch_spec(128, "echo out; echo err >&2; echo again");
    spec.launch.work_dir = folder.path().to_string_lossy().into_owned();
    spec.launch.std_out = Some("%x-%4j-%N.%t".to_owned());
    spec.launch.umask = 0o027;
    let file = folder.path().join("test-0128-n1.0");
    for (mode, times) in [
        (OpenMode::Truncate, 1),
        (OpenMode::Append, 2),
        (OpenMode::Truncate, 1),
    ] {
        spec.launch.open_mode = mode;
        let mut step = RunningStep::start(spec.clone());
        step.finish();
        assert_eq!(
            std::fs::read_to_string(&file).expect("file"),
            "out\nerr\nagain\n".repeat(times)
        );
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(&file).expect("file").permissions(),
    );
    assert_eq!(mode & 0o777, 0o640);
}

/// Slurm ends a batch job whose output cannot be written with status 0:53.
#[test]
fn unwritable_output_file_of_a_batch_job_is_status_53() {
    let mut spec = batch_spec(7, "true");
    spec.launch.std_out = Some("/nosuch/folder/out".to_owned());
    let mut step = RunningStep::start(spec.clone());
    assert_eq!(only_status(&step.finish()).to_string(), "0:53");
    spec.launch.step_id = StepId::Num(0);
    let mut step = RunningStep::start(spec);
    let error = step.finish().launch_error.expect("a step says why");
    assert_eq!(
        error,
        "Could not open stdout file /nosuch/folder/out: No such file or directory"
    );
}

/// A missing working directory is not fatal: Slurm warns and uses /tmp.
#[test]
fn missing_working_directory_falls_back_to_tmp() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("out");
    let mut spec = batch_spec(7, "pwd");
    spec.launch.work_dir = "/nosuch/dir".to_owned();
    spec.launch.std_out = Some(file.to_string_lossy().into_owned());
    let mut step = RunningStep::start(spec);
    assert_eq!(only_status(&step.finish()), WaitStatus::SUCCESS);
    let text = std::fs::read_to_string(&file).expect("out");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "/tmp",
            "slurmstepd: error: couldn't chdir to `/nosuch/dir': No such file or directory: going to /tmp instead"
        ]
    );
}

/// CPU time and memory come from the kernel and are those of all processes of the step.
#[test]
fn usage_is_measured() {
    // A grandchild burns CPU; a child holds about 60 MiB.
    let script = "sh -c 'i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done; exit'\nhead -c 60000000 /dev/zero | tail -c 59000000 >/dev/null";
    let mut step = RunningStep::start(batch_spec(7, script));
    let usage = step.finish().usage;
    assert!(usage.user_cpu_us > 10_000, "{usage:?}");
    assert!(
        usage.max_rss_kib > 50_000 && usage.max_rss_kib < 500_000,
        "{usage:?}"
    );
    assert!(usage.disk_read_bytes >= 60_000_000, "{usage:?}");
    assert!(!usage.out_of_memory);
}

/// A live step answers `sstat`, and a note goes to its stderr with Slurm's prefix.
#[test]
fn control_socket_answers_usage_and_notes() {
    let folder = tempfile::tempdir().expect("folder");
    let (out, stop) = (folder.path().join("out"), folder.path().join("stop"));
    let mut spec = batch_spec(
        7,
        &format!("while ! [ -e {} ]; do sleep 0.01; done", stop.display()),
    );
    spec.launch.std_out = Some(out.to_string_lossy().into_owned());
    let mut step = RunningStep::start(spec);
    let ControlReply::Pong { pids } = step.request(&ControlRequest::Ping) else {
        panic!("no pong")
    };
    assert!(alive(pids[0]));
    let ControlReply::Usage(usage) = step.request(&ControlRequest::Usage) else {
        panic!("no usage")
    };
    assert!(
        usage.max_rss_kib > 0 && usage.max_vsize_kib > 0,
        "{usage:?}"
    );
    let text = "*** JOB 7 ON n1 CANCELLED AT 2026-11-30T04:42:09 DUE TO TIME LIMIT ***".to_owned();
    step.request(&ControlRequest::Notify { text: text.clone() });
    std::fs::write(&stop, "").expect("stop");
    step.finish();
    assert_eq!(
        std::fs::read_to_string(&out).expect("out"),
        format!("slurmstepd: error: {text}\n")
    );
}

/// Output by rank and whether it is stderr.
type Output = std::collections::BTreeMap<(u32, bool), String>;

struct Srun {
    stream: std::net::TcpStream,
}

impl Srun {
    fn start(mut spec: StepSpec) -> (Self, RunningStep) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        spec.launch.step_id = StepId::Num(0);
        spec.launch.script = None;
        spec.launch.io_address = listener.local_addr().expect("address").to_string();
        spec.launch.io_secret = "secret".to_owned();
        let accepted = std::thread::spawn(move || Self::accept(&listener, "secret"));
        let step = RunningStep::start(spec);
        (accepted.join().expect("introduced"), step)
    }

    fn accept(listener: &TcpListener, secret: &str) -> Self {
        let (stream, _) = listener.accept().expect("accept");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("timeout");
        let mut srun = Self { stream };
        srun.welcome(secret);
        srun
    }

    /// Introduces itself as one that knows `secret`, and checks that the step daemon knows it too.
    fn welcome(&mut self, secret: &str) {
        use sluice_frames::handshake::{Side, proof};
        let StepFrame::Hello {
            secret: sent,
            node,
            nonce,
            ..
        } = self.next()
        else {
            panic!("no hello")
        };
        assert_eq!((sent.as_str(), node.as_str()), ("", "n1"));
        self.send(&SrunFrame::Challenge {
            nonce: "ours".to_owned(),
            proof: proof(secret, Side::Srun, &nonce, "ours"),
        });
        let StepFrame::Proof { proof: shown } = self.next() else {
            panic!("no proof")
        };
        assert_eq!(shown, proof(secret, Side::Step, &nonce, "ours"));
        self.send(&SrunFrame::Welcome);
    }

    fn next(&mut self) -> StepFrame {
        read_frame(&mut self.stream)
            .expect("frame")
            .expect("not the end")
    }

    fn send(&mut self, frame: &SrunFrame) {
        write_frame(&mut self.stream, frame).expect("send");
    }

    /// All frames to the end: output by (task, stderr), and exits.
    fn collect(&mut self) -> (Output, Vec<(u32, WaitStatus)>) {
        let (mut output, mut exits) = (std::collections::BTreeMap::<_, Vec<u8>>::new(), Vec::new());
        loop {
            match self.next() {
                StepFrame::Output {
                    task,
                    is_stderr,
                    data,
                } => output.entry((task, is_stderr)).or_default().extend(data),
                StepFrame::TaskExit { task, status } => exits.push((task, status)),
                StepFrame::Done => break,
                _ => {}
            }
        }
        assert!(
            read_frame::<_, StepFrame>(&mut self.stream)
                .expect("end")
                .is_none()
        );
        exits.sort_unstable();
        (
            output
                .into_iter()
                .map(|(key, data)| (key, String::from_utf8(data).expect("text")))
                .collect(),
            exits,
        )
    }
}

/// Two tasks of a step: separate streams, own variables, own exit codes, input to both, all started together.
#[test]
fn tasks_talk_to_srun() {
    let mut spec = batch_spec(9, "");
    spec.launch.task_ids = vec![2, 3];
    spec.launch.num_tasks = 4;
    spec.launch.node_index = 1;
    let script = "read line; echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $line; cat >&2; exit $SLURM_PROCID";
    spec.launch.argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    let (mut srun, mut step) = Srun::start(spec);
    let StepFrame::Started { pids, error: None } = srun.next() else {
        panic!("not started")
    };
    assert_eq!(pids.len(), 2);
    srun.send(&SrunFrame::Input {
        task: None,
        data: b"hello\nmore".to_vec(),
    });
    srun.send(&SrunFrame::Input {
        task: Some(3),
        data: b" for 3".to_vec(),
    });
    srun.send(&SrunFrame::Input {
        task: None,
        data: Vec::new(),
    });
    let (output, exits) = srun.collect();
    assert_eq!(output[&(2, false)], "2 0 1 hello\n");
    assert_eq!(output[&(3, false)], "3 1 1 hello\n");
    assert_eq!(
        (output[&(2, true)].as_str(), output[&(3, true)].as_str()),
        ("more", "more for 3")
    );
    let expected = [(2, WaitStatus::exited(2)), (3, WaitStatus::exited(3))];
    assert_eq!(exits, expected);
    assert_eq!(step.finish().tasks, expected);
}

/// More output than any buffer holds arrives whole and in order, and the record does not wait for a lost `srun`.
#[test]
fn large_output_arrives_whole_and_a_lost_srun_does_not_matter() {
    let mut spec = batch_spec(9, "");
    spec.launch.argv = ["sh", "-c", "seq 1 600000; exit 6"]
        .map(str::to_owned)
        .to_vec();
    let (mut srun, mut step) = Srun::start(spec.clone());
    let (output, exits) = srun.collect();
    let expected: String = (1..=600_000).map(|number| format!("{number}\n")).collect();
    assert!(
        output[&(0, false)] == expected,
        "{} bytes of {}",
        output[&(0, false)].len(),
        expected.len()
    );
    assert_eq!(exits, [(0, WaitStatus::exited(6))]);
    step.finish();

    let (srun, mut step) = Srun::start(spec);
    drop(srun);
    assert_eq!(step.finish().tasks, [(0, WaitStatus::exited(6))]);
}

/// Ctrl-C in `srun` reaches the tasks; an exec failure looks as in Slurm; nobody listening is a launch failure.
#[test]
fn srun_signals_and_launch_failures() {
    let mut spec = batch_spec(9, "");
    spec.launch.argv = [
        "sh",
        "-c",
        "trap 'exit 11' INT; echo ready; while :; do sleep 0.01; done",
    ]
    .map(str::to_owned)
    .to_vec();
    let (mut srun, mut step) = Srun::start(spec.clone());
    while !matches!(srun.next(), StepFrame::Output { .. }) {}
    srun.send(&SrunFrame::Signal { signal: 2 });
    assert_eq!(srun.collect().1, [(0, WaitStatus::exited(11))]);
    step.finish();

    spec.launch.argv = vec!["/nosuch/program".to_owned()];
    let (mut srun, _step) = Srun::start(spec.clone());
    let (output, exits) = srun.collect();
    assert_eq!(
        output[&(0, true)],
        "slurmstepd: error: execve(): /nosuch/program: No such file or directory\n"
    );
    assert_eq!(exits, [(0, WaitStatus::exited(2))]);

    spec.launch.step_id = StepId::Num(1);
    spec.launch.io_address = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        listener.local_addr().expect("address").to_string()
    };
    let mut step = RunningStep::start(spec);
    let error = step.finish().launch_error.expect("launch error");
    assert!(
        error.starts_with("cannot connect to srun at 127.0.0.1:"),
        "{error}"
    );
}

/// Task 0 of `srun --pty` has a terminal of the wanted size, and the end of input ends a shell.
#[test]
fn pty_task_has_a_terminal() {
    let mut spec = batch_spec(9, "");
    spec.launch.pty = Some((33, 101));
    spec.launch.argv = ["sh", "-c", "stty size; tty >/dev/null && cat; exit 3"]
        .map(str::to_owned)
        .to_vec();
    let (mut srun, _step) = Srun::start(spec);
    srun.send(&SrunFrame::Input {
        task: None,
        data: Vec::new(),
    });
    let (output, exits) = srun.collect();
    assert!(output[&(0, false)].contains("33 101\r\n"), "{output:?}");
    assert_eq!(exits, [(0, WaitStatus::exited(3))]);
}

/// TaskProlog changes the task's environment and prints; its failure cancels the task; TaskEpilog runs afterwards.
#[test]
fn task_prolog_and_epilog_run_around_the_task() {
    let folder = tempfile::tempdir().expect("folder");
    let script = |name: &str, body: &str| {
        let path = folder.path().join(name);
        let mut file = std::fs::File::create(&path).expect("script");
        write!(file, "#!/bin/sh\n{body}\n").expect("script");
        drop(file);
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("mode");
        path.to_string_lossy().into_owned()
    };
    let (out, after) = (folder.path().join("out"), folder.path().join("after"));
    let mut spec = batch_spec(7, "echo task $COLOUR $GONE");
    spec.launch.std_out = Some(out.to_string_lossy().into_owned());
    spec.launch.environment.push("GONE=x".to_owned());
    spec.node.task_prolog = Some(script(
        "prolog",
        "echo export COLOUR=$SLURM_SCRIPT_CONTEXT; echo unset GONE; echo print from prolog $SLURM_PROCID",
    ));
    spec.node.task_epilog = Some(script(
        "epilog",
        &format!(
            "echo $SLURM_SCRIPT_CONTEXT >{}; sleep 0.05",
            after.display()
        ),
    ));
    let mut step = RunningStep::start(spec.clone());
    assert_eq!(only_status(&step.finish()), WaitStatus::SUCCESS);
    assert_eq!(
        std::fs::read_to_string(&out).expect("out"),
        "from prolog 0\ntask prolog_task\n"
    );
    assert_eq!(
        std::fs::read_to_string(&after).expect("after"),
        "epilog_task\n"
    );

    spec.node.task_prolog = Some(script("failing", "exit 7"));
    let mut step = RunningStep::start(spec);
    assert_eq!(only_status(&step.finish()), WaitStatus::exited(7));
    assert_eq!(
        std::fs::read_to_string(&out).expect("out"),
        "slurmstepd: error: TaskProlog failed status=7\n"
    );
}

/// A script started by root for another user really runs as that user, with a folder nobody else can look into.
#[test]
fn root_runs_the_step_as_its_user() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    std::fs::set_permissions(
        folder.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .expect("mode");
    let out = folder.path().join("out");
    let mut spec = batch_spec(7, "id -u; id -g; ulimit -n; umask");
    spec.launch.credentials.uid = 65534;
    spec.launch.credentials.gid = 65534;
    spec.launch.credentials.user_name = "nobody".to_owned();
    spec.launch.rlimits.insert("NOFILE".to_owned(), 321);
    spec.launch.umask = 0o077;
    spec.launch.std_out = Some(out.to_string_lossy().into_owned());
    let spool = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir();
    let mut step = RunningStep::start_in(spool.expect("spool"), &mut spec);
    assert_eq!(only_status(&step.finish()), WaitStatus::SUCCESS);
    assert_eq!(
        std::fs::read_to_string(&out).expect("out"),
        "65534\n65534\n321\n0077\n"
    );
    assert_eq!(
        std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&out).expect("out")),
        65534
    );
}

/// A command that comes later hears what was said before it came, follows what comes, and can go without a trace; the first srun keeps
/// its own streams.
#[test]
fn a_second_client_attaches() {
    let mut spec = batch_spec(31, "");
    spec.launch.task_ids = vec![0];
    spec.launch.argv = [
        "sh",
        "-c",
        "echo early; read line; echo got $line; read line; echo end $line",
    ]
    .map(str::to_owned)
    .to_vec();
    let (mut srun, mut step) = Srun::start(spec);
    loop {
        if let StepFrame::Output { data, .. } = srun.next() {
            assert_eq!(data, b"early\n");
            break;
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("address").to_string();
    let accepted = std::thread::spawn(move || Srun::accept(&listener, "other"));
    step.request(&ControlRequest::Attach {
        address,
        secret: "other".to_owned(),
    });
    let mut late = accepted.join().expect("attached");
    assert!(matches!(
        late.next(),
        StepFrame::Started { error: None, .. }
    ));
    assert!(matches!(late.next(), StepFrame::Output { data, .. } if data == b"early\n"));
    late.send(&SrunFrame::Input {
        task: None,
        data: b"from the second\n".to_vec(),
    });
    assert!(
        matches!(late.next(), StepFrame::Output { data, .. } if data == b"got from the second\n")
    );
    // The end of its input is not the end of the task's.
    late.send(&SrunFrame::Input {
        task: None,
        data: Vec::new(),
    });
    drop(late);
    srun.send(&SrunFrame::Input {
        task: None,
        data: b"first\n".to_vec(),
    });
    let (output, exits) = srun.collect();
    assert_eq!(output[&(0, false)], "got from the second\nend first\n");
    assert_eq!(exits, [(0, WaitStatus::SUCCESS)]);
    step.finish();
}

/// Somebody who listens at the port and does not know the secret gets nothing: the step is refused.
#[test]
fn a_stranger_at_the_port_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let mut spec = batch_spec(32, "");
    spec.launch.step_id = StepId::Num(0);
    spec.launch.script = None;
    spec.launch.argv = vec!["true".to_owned()];
    spec.launch.io_address = listener.local_addr().expect("address").to_string();
    spec.launch.io_secret = "secret".to_owned();
    let stranger = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("accept");
        let mut stranger = Srun { stream };
        assert!(matches!(stranger.next(), StepFrame::Hello { .. }));
        stranger.send(&SrunFrame::Challenge {
            nonce: "x".to_owned(),
            proof: "00".to_owned(),
        });
    });
    let mut step = RunningStep::start(spec);
    stranger.join().expect("spoke");
    let exit = step.finish();
    assert!(
        exit.launch_error
            .as_deref()
            .is_some_and(|text| text.contains("does not know the step's secret")),
        "{exit:?}"
    );
}

/// Each rank has the program of its line.
#[test]
fn several_programs() {
    let mut spec = batch_spec(33, "");
    spec.launch.task_ids = vec![2, 3];
    spec.launch.options.multi_prog = Some("0-2 echo a%t\n* echo b%o %t\n".to_owned());
    let (mut srun, mut step) = Srun::start(spec);
    let (output, _) = srun.collect();
    assert_eq!(output[&(2, false)], "a2\n");
    assert_eq!(output[&(3, false)], "b3 3\n");
    step.finish();
}
