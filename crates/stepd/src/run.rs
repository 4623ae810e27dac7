//! One step daemon from its folder to its exit record.
//!
//! Invariant: the exit record is written after the last process of the step is gone, before the control connections close
//! and before what is left of the output is waited for.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use sluice_frames::write_frame;
use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::StepId;
use sluice_model::launch::{StepExit, StepFrame, StepUsage};

use crate::cgroup::Cgroup;
use crate::clients::Clients;
use crate::control::Ready;
use crate::launch::{LaunchFailure, launch};
use crate::log::complain;
use crate::spec::{self, CONTROL_SOCKET, EXIT_FILE, PID_FILE, SPEC_FILE, SpecError, StepSpec};
use crate::srun::{CONNECT_TIMEOUT, Call, SrunLink};
use crate::supervisor::{Supervisor, now};

/// Signal number in the status of a batch job whose output file could not be opened (Slurm shows `0:53`).
const STREAM_FILE_SIGNAL: i32 = 53;
/// How long `srun` may take nothing of the remaining output before it is given up.
const SRUN_DRAIN_MAX: Duration = Duration::from_secs(30);

/// How long the last bytes may be on their way.
const DELIVERY_MAX: Duration = Duration::from_secs(5);

/// Why a step daemon could not even begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The folder's files.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// There is no specification.
    #[error("{} has no {SPEC_FILE}", .0.display())]
    NoSpec(std::path::PathBuf),
    /// The system refused something every daemon needs.
    #[error("cannot {action}")]
    System {
        /// What.
        action: &'static str,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

fn system<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> StartError {
    move |source| StartError::System {
        action,
        source: source.into(),
    }
}

/// Runs the step of `dir` to its end.
///
/// # Errors
/// Only when the step could not be looked at; every other outcome is in the exit record.
pub fn run(dir: &Path) -> Result<(), StartError> {
    let dir = std::path::absolute(dir).map_err(system("find the step's folder"))?;
    let spec: StepSpec =
        spec::load(&dir.join(SPEC_FILE))?.ok_or_else(|| StartError::NoSpec(dir.clone()))?;
    // A session of its own: signals to the agent's terminal or group do not reach the step.
    let _ = nix::unistd::setsid();
    nix::sys::prctl::set_child_subreaper(true).map_err(system("become a subreaper"))?;
    let mut watched = SigSet::empty();
    // The others are blocked and never read: the daemon ends with its step, not before.
    for signal in [
        Signal::SIGCHLD,
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ] {
        watched.add(signal);
    }
    watched.thread_block().map_err(system("block signals"))?;
    let signals = SignalFd::with_flags(&watched, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(system("open a signal descriptor"))?;

    std::fs::write(dir.join(PID_FILE), std::process::id().to_string())
        .map_err(system("write the pid file"))?;
    let listener = listen(&dir).map_err(system("open the control socket"))?;

    let ids = (spec.launch.job_id, spec.launch.step_id);
    let (cgroup, complaints) = Cgroup::create(
        spec.node.cgroup.as_ref(),
        ids.0,
        ids.1,
        &spec.node.machine_cpus,
    );
    complaints.iter().for_each(|text| complain(text));

    let call = Call {
        address: &spec.launch.io_address,
        secret: &spec.launch.io_secret,
        node: &spec.launch.node,
        node_index: spec.launch.node_index,
        task_ids: &spec.launch.task_ids,
        patience: CONNECT_TIMEOUT,
    };
    let (link, connected) = match SrunLink::connect(&call) {
        Ok(link) => (link, Ok(())),
        Err(error) => {
            let text = format!(
                "cannot connect to srun at {}: {error}",
                spec.launch.io_address
            );
            (
                SrunLink::default(),
                Err(LaunchFailure {
                    text,
                    detail: None,
                    stream_file: false,
                }),
            )
        }
    };
    let mut srun = Clients::new(link);
    let record = |exit: &StepExit| {
        if let Err(error) = spec::store(&dir.join(EXIT_FILE), exit) {
            // The agent reports a vanished step then; nothing better can be done on a full disk.
            complain(&error.to_string());
        }
    };
    match connected.and_then(|()| launch(&dir, &spec, &srun, &cgroup)) {
        Ok(mut launched) => {
            srun.send(&StepFrame::Started {
                pids: launched.pids.clone(),
                error: None,
            });
            launched.release();
            say_ready(&launched.pids);
            let mut supervisor =
                Supervisor::new(&spec, &cgroup, launched, &mut srun, signals, listener);
            supervisor.supervise();
            // Before the supervisor's connections close: their end tells the agent to look for the record.
            record(&supervisor.exit());
        }
        Err(failure) => record(&failed_exit(&spec, failure, &mut srun)),
    }
    cgroup.remove();
    srun.send(&StepFrame::Done);
    drain_srun(&mut srun);
    let give_up = Instant::now() + DELIVERY_MAX;
    while !srun.have_delivered() && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn listen(dir: &Path) -> io::Result<UnixListener> {
    let (_folder, path) = crate::control::socket_path(dir)?;
    match std::fs::remove_file(dir.join(CONTROL_SOCKET)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn say_ready(pids: &[u32]) {
    let mut stdout = io::stdout();
    // The agent may be gone already; it asks again over the control socket when it is back.
    let _ = write_frame(
        &mut stdout,
        &Ready {
            pids: pids.to_vec(),
        },
    );
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = nix::unistd::dup2_stdout(null);
    }
}

fn failed_exit(spec: &StepSpec, failure: LaunchFailure, srun: &mut Clients) -> StepExit {
    let launch = &spec.launch;
    complain(&failure.text);
    if let Some(detail) = &failure.detail {
        srun.send(&StepFrame::Message {
            text: format!("srun: error: {detail}"),
        });
    }
    srun.send(&StepFrame::Started {
        pids: Vec::new(),
        error: Some(failure.text.clone()),
    });
    let as_status = failure.stream_file && launch.step_id == StepId::Batch;
    let status = if as_status {
        WaitStatus::signaled(STREAM_FILE_SIGNAL)
    } else {
        WaitStatus::exited(1)
    };
    StepExit {
        job_id: launch.job_id,
        attempt: launch.attempt,
        step_id: launch.step_id,
        tasks: launch.task_ids.iter().map(|rank| (*rank, status)).collect(),
        launch_error: (!as_status).then_some(failure.text),
        usage: StepUsage::default(),
        end_time: now(),
    }
}

fn drain_srun(srun: &mut Clients) {
    let timeout = PollTimeout::try_from(SRUN_DRAIN_MAX).unwrap_or(PollTimeout::MAX);
    while srun.has_backlog() {
        let mut indexes = Vec::new();
        let mut set = Vec::new();
        for (index, descriptor, waiting) in srun.descriptors() {
            if waiting {
                indexes.push(index);
                set.push(PollFd::new(descriptor, PollFlags::POLLOUT));
            }
        }
        let polled = poll(&mut set, timeout);
        drop(set);
        match polled {
            Ok(0) => {
                complain("srun takes no more output and is given up");
                return;
            }
            Ok(_) => indexes.into_iter().for_each(|index| srun.flush(index)),
            Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}
