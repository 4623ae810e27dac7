//! Specifications of steps and a running step daemon for tests.

#![allow(dead_code, reason = "each test file uses a part")]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sluice_model::ids::{JobId, StepId};
use sluice_model::job::OpenMode;
use sluice_model::launch::{Credentials, StepExit, StepLaunch};
use sluice_model::memory::MemoryMib;

use sluice_stepd::control::{ControlReply, ControlRequest, Ready};
use sluice_stepd::spec::{NodeSettings, StepSpec};

/// A batch step of one task for the caller's own user; output to nowhere.
pub fn batch_spec(job: u32, script: &str) -> StepSpec {
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid())
        .ok()
        .flatten();
    StepSpec {
        launch: StepLaunch {
            job_id: JobId(job),
            attempt: 0,
            step_id: StepId::Batch,
            array_job_id: None,
            array_task_id: None,
            name: "batch".to_owned(),
            job_name: "test".to_owned(),
            credentials: Credentials {
                uid: nix::unistd::geteuid().as_raw(),
                gid: nix::unistd::getegid().as_raw(),
                user_name: user.map_or_else(|| "nobody".to_owned(), |user| user.name),
                group_name: String::new(),
            },
            node: "n1".to_owned(),
            node_index: 0,
            task_ids: vec![0],
            num_tasks: 1,
            cpu_ids: vec![0],
            cpus_per_task: 1,
            memory: MemoryMib(0),
            gres: Vec::new(),
            script: Some(format!("#!/bin/sh\n{script}\n").into_bytes()),
            argv: Vec::new(),
            environment: vec!["PATH=/usr/bin:/bin".to_owned()],
            work_dir: "/tmp".to_owned(),
            umask: 0o022,
            rlimits: std::collections::BTreeMap::new(),
            std_in: None,
            std_out: None,
            std_err: None,
            open_mode: OpenMode::Truncate,
            pty: None,
            task_prolog: None,
            task_epilog: None,
            io_address: String::new(),
            io_secret: String::new(),
            restart_count: 0,
            cpu_bind: None,
            distribution: None,
            options: Default::default(),
        },
        node: NodeSettings::default(),
    }
}

/// A step daemon running in a folder of its own.
pub struct RunningStep {
    /// Spool directory.
    pub spool: tempfile::TempDir,
    /// The step's folder.
    pub dir: PathBuf,
    daemon: Child,
}

impl RunningStep {
    /// Starts the daemon; returns when the tasks exist or the daemon has ended.
    pub fn start(mut spec: StepSpec) -> Self {
        let spool = tempfile::tempdir().expect("temporary folder");
        Self::start_in(spool, &mut spec)
    }

    /// Starts the daemon in a given spool directory.
    pub fn start_in(spool: tempfile::TempDir, spec: &mut StepSpec) -> Self {
        let dir =
            sluice_stepd::spec::step_dir(spool.path(), spec.launch.job_id, spec.launch.step_id);
        std::fs::create_dir_all(&dir).expect("step folder");
        sluice_stepd::spec::store(&dir.join(sluice_stepd::spec::SPEC_FILE), spec).expect("spec");
        let log = std::fs::File::create(dir.join("stepd.log")).expect("log");
        let mut daemon = Command::new(env!("CARGO_BIN_EXE_stepd"))
            .arg("--dir")
            .arg(&dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("stepd");
        let mut stdout = daemon.stdout.take().expect("stdout");
        let _ = sluice_frames::read_frame::<_, Ready>(&mut stdout);
        Self { spool, dir, daemon }
    }

    /// Process id of the daemon.
    pub fn pid(&self) -> u32 {
        self.daemon.id()
    }

    /// Waits for the daemon's end and reads the record.
    pub fn finish(&mut self) -> StepExit {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if self.daemon.try_wait().expect("wait").is_some() {
                break;
            }
            assert!(
                Instant::now() < deadline,
                "the step daemon does not end: {}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        sluice_stepd::spec::load(&self.dir.join(sluice_stepd::spec::EXIT_FILE))
            .expect("exit record")
            .unwrap_or_else(|| panic!("no exit record: {}", self.log()))
    }

    /// Sends a request.
    pub fn request(&self, request: &ControlRequest) -> ControlReply {
        sluice_stepd::control::request(&self.dir, request).expect("control request")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("stepd.log")).unwrap_or_default()
    }
}

impl Drop for RunningStep {
    fn drop(&mut self) {
        let _ =
            sluice_stepd::control::request(&self.dir, &ControlRequest::Terminate { grace_secs: 0 });
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Waits until `probe` gives a value.
pub fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < deadline, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
