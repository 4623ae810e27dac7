//! The life of one step: start, carry streams, obey the agent, wait, clean up, leave the record.
//!
//! A single `poll` loop over signals, the control socket, the connection to `srun` and the tasks' streams. Deadlines are
//! monotonic instants. Invariants: the exit record is written after the last process of the step is gone and before the
//! control connections close; a task's status is recorded exactly once; nothing that `srun` does can delay the record by
//! more than [`SRUN_DRAIN_MAX`] (which comes after it).

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use sluice_frames::{Decoder, OUTPUT_CHUNK_BYTES, write_frame};
use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::StepId;
use sluice_model::launch::{SrunFrame, StepExit, StepFrame, StepUsage};
use sluice_model::time::UnixSeconds;

use crate::cgroup::Cgroup;
use crate::control::{Audience, ControlReply, ControlRequest, Ready};
use crate::launch::{InputEnd, LaunchFailure, Launched, OutputEnd, fork_task_epilog, launch};
use crate::log::complain;
use crate::process::{self, Children};
use crate::spec::{self, CONTROL_SOCKET, EXIT_FILE, PID_FILE, SPEC_FILE, SpecError, StepSpec};
use crate::srun::SrunLink;
use crate::tree;
use crate::usage::{TaskUsage, step_usage};

/// Signal number in the status of a batch job whose output file could not be opened (Slurm shows `0:53`).
const STREAM_FILE_SIGNAL: i32 = 53;
/// Time between SIGTSTP and SIGSTOP.
const SUSPEND_GRACE: Duration = Duration::from_secs(2);
/// Longest time a TaskEpilog may run.
const TASK_EPILOG_MAX: Duration = Duration::from_secs(60);
/// How long `srun` may take nothing of the remaining output before it is given up.
pub const SRUN_DRAIN_MAX: Duration = Duration::from_secs(30);
/// Input that a task has not read, in bytes, from which `srun` has to wait.
const INPUT_BACKLOG_MAX: usize = 4 * 1024 * 1024;
/// Moments of the first samples; later ones follow the configured interval.
const EARLY_SAMPLES: [Duration; 3] = [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(5)];
/// First and longest pause between two rounds of SIGKILL.
const KILL_ROUNDS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(200));

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
    move |source| StartError::System { action, source: source.into() }
}

/// Runs the step of `dir` to its end.
///
/// # Errors
/// Only when the step could not be looked at; every other outcome is in the exit record.
pub fn run(dir: &Path) -> Result<(), StartError> {
    let dir = std::path::absolute(dir).map_err(system("find the step's folder"))?;
    let spec: StepSpec = spec::load(&dir.join(SPEC_FILE))?.ok_or_else(|| StartError::NoSpec(dir.clone()))?;
    // A session of its own: signals to the agent's terminal or group do not reach the step.
    let _ = nix::unistd::setsid();
    nix::sys::prctl::set_child_subreaper(true).map_err(system("become a subreaper"))?;
    let mut watched = SigSet::empty();
    // The others are blocked and never read: the daemon ends with its step, not before.
    for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        watched.add(signal);
    }
    watched.thread_block().map_err(system("block signals"))?;
    let signals = SignalFd::with_flags(&watched, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(system("open a signal descriptor"))?;

    std::fs::write(dir.join(PID_FILE), std::process::id().to_string()).map_err(system("write the pid file"))?;
    let listener = listen(&dir).map_err(system("open the control socket"))?;

    let ids = (spec.launch.job_id, spec.launch.step_id);
    let (cgroup, complaints) = Cgroup::create(spec.node.cgroup.as_ref(), ids.0, ids.1, &spec.node.machine_cpus);
    complaints.iter().for_each(|text| complain(text));

    let (mut srun, connected) = match SrunLink::connect(&spec.launch.io_address) {
        Ok(link) => (link, Ok(())),
        Err(error) => {
            let text = format!("cannot connect to srun at {}: {error}", spec.launch.io_address);
            (SrunLink::default(), Err(LaunchFailure { text, stream_file: false }))
        }
    };
    srun.send(&StepFrame::Hello {
        secret: spec.launch.io_secret.clone(),
        node: spec.launch.node.clone(),
        node_index: spec.launch.node_index,
        task_ids: spec.launch.task_ids.clone(),
    });
    let exit = match connected.and_then(|()| launch(&dir, &spec, &srun, &cgroup)) {
        Ok(mut launched) => {
            srun.send(&StepFrame::Started { pids: launched.pids.clone(), error: None });
            launched.release();
            say_ready(&launched.pids);
            let mut supervisor = Supervisor::new(&spec, &cgroup, launched, &mut srun, signals, listener);
            supervisor.supervise();
            supervisor.exit()
        }
        Err(failure) => failed_exit(&spec, failure, &mut srun),
    };
    if let Err(error) = spec::store(&dir.join(EXIT_FILE), &exit) {
        // The agent reports a vanished step then; nothing better can be done on a full disk.
        complain(&error.to_string());
    }
    cgroup.remove();
    srun.send(&StepFrame::Done);
    drain_srun(&mut srun);
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
    let _ = write_frame(&mut stdout, &Ready { pids: pids.to_vec() });
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = nix::unistd::dup2_stdout(null);
    }
}

fn now() -> UnixSeconds {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    UnixSeconds(i64::try_from(seconds).unwrap_or(i64::MAX))
}

fn failed_exit(spec: &StepSpec, failure: LaunchFailure, srun: &mut SrunLink) -> StepExit {
    let launch = &spec.launch;
    complain(&failure.text);
    srun.send(&StepFrame::Started { pids: Vec::new(), error: Some(failure.text.clone()) });
    let as_status = failure.stream_file && launch.step_id == StepId::Batch;
    let status = if as_status { WaitStatus::signaled(STREAM_FILE_SIGNAL) } else { WaitStatus::exited(1) };
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

fn drain_srun(srun: &mut SrunLink) {
    let timeout = PollTimeout::try_from(SRUN_DRAIN_MAX).unwrap_or(PollTimeout::MAX);
    while srun.has_backlog() {
        let Some(descriptor) = srun.descriptor() else {
            return;
        };
        match poll(&mut [PollFd::new(descriptor, PollFlags::POLLOUT)], timeout) {
            Ok(0) => {
                complain("srun takes no more output and is given up");
                return;
            }
            Ok(_) => srun.flush(),
            Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// One task.
struct Task {
    rank: u32,
    pid: u32,
    status: Option<WaitStatus>,
    usage: TaskUsage,
}

/// stdin of a task with what it has not taken yet.
struct Input {
    end: InputEnd,
    waiting: VecDeque<u8>,
    closing: bool,
}

/// A connection on the control socket.
struct Connection {
    stream: UnixStream,
    decoder: Decoder,
    closed: bool,
}

/// A running TaskEpilog.
struct Epilog {
    pid: u32,
    deadline: Instant,
}

/// What a descriptor in the poll set stands for.
#[derive(Clone, Copy)]
enum Source {
    Signals,
    Listener,
    Control(usize),
    Srun,
    Output(usize),
    Input(usize),
}

struct Supervisor<'a> {
    spec: &'a StepSpec,
    cgroup: &'a Cgroup,
    launched: Launched,
    srun: &'a mut SrunLink,
    signals: SignalFd,
    listener: UnixListener,
    tasks: Vec<Task>,
    outputs: Vec<OutputEnd>,
    inputs: Vec<Input>,
    connections: Vec<Connection>,
    epilogs: Vec<Epilog>,
    /// SIGKILL follows then.
    kill_at: Option<Instant>,
    /// Next round of SIGKILL and the pause after it, once killing has begun.
    kill_round: Option<(Instant, Duration)>,
    /// SIGSTOP follows then.
    stop_at: Option<Instant>,
    next_sample: Option<Instant>,
    started: Instant,
    end_time: Option<UnixSeconds>,
    over_memory: bool,
    childless: bool,
}

impl<'a> Supervisor<'a> {
    fn new(
        spec: &'a StepSpec,
        cgroup: &'a Cgroup,
        mut launched: Launched,
        srun: &'a mut SrunLink,
        signals: SignalFd,
        listener: UnixListener,
    ) -> Self {
        let tasks = spec
            .launch
            .task_ids
            .iter()
            .zip(&launched.pids)
            .map(|(rank, pid)| Task { rank: *rank, pid: *pid, status: None, usage: TaskUsage::default() })
            .collect();
        let outputs = std::mem::take(&mut launched.outputs);
        let inputs = std::mem::take(&mut launched.inputs)
            .into_iter()
            .map(|end| Input { end, waiting: VecDeque::new(), closing: false })
            .collect();
        let started = Instant::now();
        Self {
            spec,
            cgroup,
            launched,
            srun,
            signals,
            listener,
            tasks,
            outputs,
            inputs,
            connections: Vec::new(),
            epilogs: Vec::new(),
            kill_at: None,
            kill_round: None,
            stop_at: None,
            next_sample: Some(started + EARLY_SAMPLES[0]),
            started,
            end_time: None,
            over_memory: false,
            childless: false,
        }
    }

    fn supervise(&mut self) {
        if let Some(text) = self.launched.warning.take() {
            self.tell_user(&text);
        }
        self.reap();
        while !self.is_over() {
            let (ready, timed_out) = self.wait();
            for (source, events) in ready {
                self.on_ready(source, events);
            }
            if timed_out || self.next_deadline().is_some_and(|deadline| deadline <= Instant::now()) {
                self.on_deadline();
            }
            self.sweep();
        }
        self.drain_outputs();
    }

    /// Drops what ended in this round; not earlier, because the round names its descriptors by index.
    fn sweep(&mut self) {
        self.outputs.retain(|output| !output.ended);
        self.inputs.retain(|input| !(input.closing && input.waiting.is_empty() && !input.end.terminal));
        self.connections.retain(|connection| !connection.closed);
    }

    /// True when no process of the step is left. Starts the clean-up when only leftovers are.
    fn is_over(&mut self) -> bool {
        if self.childless {
            return true;
        }
        let tasks_ended = self.tasks.iter().all(|task| task.status.is_some());
        if tasks_ended && self.epilogs.is_empty() && self.kill_round.is_none() {
            self.kill_everything();
            self.reap();
        }
        self.childless
    }

    // ---- waiting ----

    fn wait(&self) -> (Vec<(Source, PollFlags)>, bool) {
        let mut sources = vec![Source::Signals, Source::Listener];
        let mut set = vec![
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.listener.as_fd(), PollFlags::POLLIN),
        ];
        for (index, connection) in self.connections.iter().enumerate() {
            sources.push(Source::Control(index));
            set.push(PollFd::new(connection.stream.as_fd(), PollFlags::POLLIN));
        }
        if let Some(descriptor) = self.srun.descriptor() {
            let mut interest = PollFlags::empty();
            if self.inputs.iter().all(|input| input.waiting.len() < INPUT_BACKLOG_MAX) {
                interest |= PollFlags::POLLIN;
            }
            if self.srun.has_backlog() {
                interest |= PollFlags::POLLOUT;
            }
            sources.push(Source::Srun);
            set.push(PollFd::new(descriptor, interest));
        }
        if !self.srun.is_congested() {
            for (index, output) in self.outputs.iter().enumerate() {
                sources.push(Source::Output(index));
                set.push(PollFd::new(output.descriptor.as_fd(), PollFlags::POLLIN));
            }
        }
        for (index, input) in self.inputs.iter().enumerate().filter(|(_, input)| !input.waiting.is_empty()) {
            sources.push(Source::Input(index));
            set.push(PollFd::new(input.end.descriptor.as_fd(), PollFlags::POLLOUT));
        }
        let timeout = match self.next_deadline() {
            None => PollTimeout::NONE,
            // Rounded up: waking early would spin until the deadline.
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_micros(999);
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
            }
        };
        let count = poll(&mut set, timeout).unwrap_or(-1);
        let ready = set
            .iter()
            .zip(sources)
            .filter_map(|(entry, source)| Some((source, entry.revents().filter(|events| !events.is_empty())?)))
            .collect();
        (ready, count == 0)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let kill_round = self.kill_round.map(|(at, _)| at);
        let epilog = self.epilogs.iter().map(|epilog| epilog.deadline).min();
        [self.kill_at, kill_round, self.stop_at, self.next_sample, epilog].into_iter().flatten().min()
    }

    fn on_deadline(&mut self) {
        let now = Instant::now();
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill_everything();
        }
        if let Some((at, pause)) = self.kill_round
            && at <= now
        {
            self.kill_round(pause);
        }
        if self.stop_at.is_some_and(|at| at <= now) {
            self.stop_at = None;
            if !self.cgroup.freeze(true) {
                // Twice: a process may fork while the list is made.
                self.signal_tree(libc::SIGSTOP);
                self.signal_tree(libc::SIGSTOP);
            }
        }
        for epilog in self.epilogs.iter().filter(|epilog| epilog.deadline <= now) {
            process::send_signal(epilog.pid, libc::SIGKILL);
        }
        for epilog in self.epilogs.iter_mut().filter(|epilog| epilog.deadline <= now) {
            epilog.deadline = now + TASK_EPILOG_MAX;
        }
        if self.next_sample.is_some_and(|at| at <= now) {
            self.sample();
        }
    }

    fn on_ready(&mut self, source: Source, events: PollFlags) {
        match source {
            Source::Signals => {
                while matches!(self.signals.read_signal(), Ok(Some(_))) {}
                self.reap();
            }
            Source::Listener => self.accept(),
            Source::Control(index) => self.on_control(index),
            Source::Srun => {
                if events.contains(PollFlags::POLLOUT) {
                    self.srun.flush();
                }
                for frame in self.srun.receive() {
                    self.on_srun(frame);
                }
                if !self.srun.is_connected() {
                    for input in &mut self.inputs {
                        input.closing = true;
                    }
                }
            }
            Source::Output(index) => self.read_output(index),
            Source::Input(index) => {
                if let Some(input) = self.inputs.get_mut(index) {
                    write_input(input);
                }
            }
        }
    }

    // ---- children ----

    fn reap(&mut self) {
        loop {
            match process::peek_children() {
                Children::None => {
                    self.childless = true;
                    return;
                }
                Children::Alive => return,
                Children::Ended(pid) => {
                    let task = self.tasks.iter().position(|task| task.pid == pid && task.status.is_none());
                    if let Some(index) = task {
                        self.tasks[index].usage.read_io(pid);
                    }
                    let Some((status, usage)) = process::reap(pid) else {
                        return;
                    };
                    match task {
                        Some(index) => self.on_task_end(index, WaitStatus(status), &usage),
                        None => self.epilogs.retain(|epilog| epilog.pid != pid),
                    }
                }
            }
        }
    }

    fn on_task_end(&mut self, index: usize, status: WaitStatus, usage: &process::ProcessUsage) {
        let task = &mut self.tasks[index];
        task.status = Some(status);
        task.usage.ended(usage);
        self.end_time = Some(now());
        self.srun.send(&StepFrame::TaskExit { task: task.rank, status });
        let scripts: Vec<String> =
            self.spec.launch.task_epilog.iter().chain(&self.spec.node.task_epilog).cloned().collect();
        for script in scripts {
            match fork_task_epilog(self.spec, &self.launched, self.cgroup, index, &script) {
                Ok(pid) => self.epilogs.push(Epilog { pid, deadline: Instant::now() + TASK_EPILOG_MAX }),
                Err(error) => complain(&format!("TaskEpilog {script} cannot be started: {error}")),
            }
        }
    }

    // ---- signals ----

    fn processes(&self) -> Vec<u32> {
        let mut all = tree::descendants(std::process::id());
        if self.cgroup.is_active() {
            all.extend(self.cgroup.processes());
            all.sort_unstable();
            all.dedup();
        }
        all
    }

    fn signal_tree(&self, signal: i32) {
        for pid in self.processes() {
            process::send_signal(pid, signal);
        }
    }

    fn signal_tasks(&self, signal: i32) {
        for task in self.tasks.iter().filter(|task| task.status.is_none()) {
            process::send_signal(task.pid, signal);
        }
    }

    fn signal(&mut self, audience: Audience, signal: i32) {
        if signal == libc::SIGKILL && audience != Audience::TasksOnly {
            return self.kill_everything();
        }
        match audience {
            Audience::Tree => self.signal_tree(signal),
            Audience::Tasks if self.spec.node.signal_children => self.signal_tree(signal),
            Audience::Tasks | Audience::TasksOnly => self.signal_tasks(signal),
        }
    }

    fn terminate(&mut self, grace: Duration) {
        if self.kill_round.is_some() {
            return;
        }
        if grace.is_zero() {
            return self.kill_everything();
        }
        let at = Instant::now() + grace;
        // A repeated order does not prolong the grace.
        self.kill_at = Some(self.kill_at.map_or(at, |earlier| earlier.min(at)));
        self.stop_at = None;
        self.cgroup.freeze(false);
        self.signal_tree(libc::SIGCONT);
        self.signal_tree(libc::SIGTERM);
    }

    fn kill_everything(&mut self) {
        self.kill_at = None;
        self.stop_at = None;
        self.kill_round(KILL_ROUNDS.0);
    }

    fn kill_round(&mut self, pause: Duration) {
        // Frozen members of version 1 die only when thawed; version 2 kills them anyway.
        self.cgroup.kill();
        self.signal_tree(libc::SIGKILL);
        self.cgroup.freeze(false);
        self.kill_round = Some((Instant::now() + pause, (pause * 2).min(KILL_ROUNDS.1)));
    }

    fn suspend(&mut self, suspended: bool) {
        if self.kill_at.is_some() || self.kill_round.is_some() {
            return;
        }
        if suspended {
            self.signal_tree(libc::SIGTSTP);
            self.stop_at = Some(Instant::now() + SUSPEND_GRACE);
        } else {
            self.stop_at = None;
            self.cgroup.freeze(false);
            self.signal_tree(libc::SIGCONT);
        }
    }

    // ---- control socket ----

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let own = nix::unistd::geteuid().as_raw();
            let allowed = getsockopt(&stream, PeerCredentials).is_ok_and(|peer| peer.uid() == 0 || peer.uid() == own);
            if allowed && stream.set_nonblocking(true).is_ok() {
                self.connections.push(Connection { stream, decoder: Decoder::default(), closed: false });
            }
        }
    }

    fn on_control(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let mut chunk = [0; 4096];
        let alive = match connection.stream.read(&mut chunk) {
            Ok(0) => false,
            Ok(length) => {
                connection.decoder.push(&chunk[..length]);
                true
            }
            Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        };
        if !alive {
            connection.closed = true;
            return;
        }
        loop {
            let Some(connection) = self.connections.get_mut(index) else {
                return;
            };
            let reply = match connection.decoder.next_frame::<ControlRequest>() {
                Ok(Some(request)) => self.on_request(request),
                Ok(None) => return,
                Err(error) => ControlReply::Refused { text: error.to_string() },
            };
            let refused = matches!(reply, ControlReply::Refused { .. });
            if let Some(connection) = self.connections.get_mut(index) {
                // Replies are smaller than the socket's buffer; a client that does not read loses its answer.
                let sent = write_frame(&mut connection.stream, &reply);
                if refused || sent.is_err() {
                    connection.closed = true;
                    return;
                }
            }
        }
    }

    fn on_request(&mut self, request: ControlRequest) -> ControlReply {
        match request {
            ControlRequest::Ping => {
                return ControlReply::Pong { pids: self.tasks.iter().map(|task| task.pid).collect() };
            }
            ControlRequest::Usage => {
                self.sample_tasks();
                return ControlReply::Usage(self.usage());
            }
            ControlRequest::Signal { audience, signal } => self.signal(audience, signal),
            ControlRequest::Terminate { grace_secs } => self.terminate(Duration::from_secs(grace_secs.into())),
            ControlRequest::Suspend => self.suspend(true),
            ControlRequest::Resume => self.suspend(false),
            ControlRequest::Notify { text } => self.notify(&text),
        }
        ControlReply::Done
    }

    fn notify(&mut self, text: &str) {
        let launch = &self.spec.launch;
        // The same message reaches the batch script and the steps; each is told about itself.
        let job = format!("*** JOB {} ON", launch.job_id);
        let text = match launch.step_id {
            StepId::Num(step) => text.replace(&job, &format!("*** STEP {}.{step} ON", launch.job_id)),
            _ => text.to_owned(),
        };
        self.tell_user(&format!("slurmstepd: error: {text}"));
    }

    /// One line for the user: through `srun`, or into the tasks' stderr file.
    fn tell_user(&mut self, line: &str) {
        if self.srun.is_connected() {
            self.srun.send(&StepFrame::Message { text: line.to_owned() });
        } else if let Some(file) = self.launched.stderr_files.iter().flatten().next()
            && let Err(error) = (&mut &**file).write_all(format!("{line}\n").as_bytes())
        {
            complain(&format!("a message could not be written to the step's stderr: {error}"));
        }
    }

    // ---- streams ----

    fn on_srun(&mut self, frame: SrunFrame) {
        match frame {
            SrunFrame::Welcome => {}
            SrunFrame::Signal { signal } => self.signal(Audience::Tasks, signal),
            SrunFrame::WindowSize { rows, columns } => {
                for input in self.inputs.iter().filter(|input| input.end.terminal) {
                    process::set_window_size(input.end.descriptor.as_fd(), rows, columns);
                }
            }
            SrunFrame::Input { task, data } => {
                let tasks = &self.tasks;
                let wanted = |input: &Input| task.is_none_or(|rank| tasks.get(input.end.task).is_some_and(|task| task.rank == rank));
                for input in self.inputs.iter_mut().filter(|input| wanted(input)) {
                    if data.is_empty() {
                        input.closing = true;
                        if input.end.terminal {
                            // End of file as a terminal says it.
                            input.waiting.push_back(4);
                        }
                    } else {
                        input.waiting.extend(&data);
                    }
                    write_input(input);
                }
            }
        }
    }

    /// Reads one chunk; at the end the output is marked as ended.
    fn read_output(&mut self, index: usize) {
        let Some(output) = self.outputs.get_mut(index).filter(|output| !output.ended) else {
            return;
        };
        let mut chunk = vec![0; OUTPUT_CHUNK_BYTES];
        let data = match nix::unistd::read(&output.descriptor, &mut chunk) {
            Ok(length) => {
                chunk.truncate(length);
                chunk
            }
            Err(Errno::EAGAIN | Errno::EINTR) => return,
            // A terminal answers EIO when its last user is gone.
            Err(_) => Vec::new(),
        };
        let ended = data.is_empty();
        let task = self.tasks.get(output.task).map_or(u32::MAX, |task| task.rank);
        self.srun.send(&StepFrame::Output { task, is_stderr: output.is_stderr, data });
        output.ended = ended;
    }

    /// Takes what is left in the pipes after the last process is gone.
    fn drain_outputs(&mut self) {
        for index in 0..self.outputs.len() {
            loop {
                let Some(output) = self.outputs.get(index).filter(|output| !output.ended) else {
                    break;
                };
                // A descriptor that was passed to a process outside the step never ends; what is there now is taken.
                let mut set = [PollFd::new(output.descriptor.as_fd(), PollFlags::POLLIN)];
                if !matches!(poll(&mut set, PollTimeout::ZERO), Ok(1..)) {
                    break;
                }
                self.read_output(index);
            }
        }
        self.outputs.clear();
    }

    // ---- figures ----

    fn sample(&mut self) {
        let now = Instant::now();
        let rss_kib = self.sample_tasks();
        let age = now.duration_since(self.started);
        let interval = Duration::from_secs(self.spec.node.sample_secs.into());
        self.next_sample = match EARLY_SAMPLES.iter().find(|early| **early > age) {
            Some(early) => Some(self.started + *early),
            None => (!interval.is_zero()).then(|| now + interval),
        };
        let limit = self.spec.launch.memory.0 * 1024;
        if self.spec.node.over_memory_kill && limit > 0 && rss_kib > limit && !self.over_memory {
            self.over_memory = true;
            let (job, step) = (self.spec.launch.job_id, self.spec.launch.step_id);
            self.tell_user(&format!(
                "slurmstepd: error: StepId={job}.{step} exceeded memory limit ({} > {}), being killed",
                rss_kib * 1024,
                limit * 1024
            ));
            self.kill_everything();
        }
    }

    fn sample_tasks(&mut self) -> u64 {
        self.tasks.iter_mut().filter(|task| task.status.is_none()).map(|task| task.usage.sample(task.pid)).sum()
    }

    fn usage(&self) -> StepUsage {
        let living = if self.childless { Vec::new() } else { self.processes() };
        let mut usage = step_usage(self.tasks.iter().map(|task| (task.rank, &task.usage)), &living);
        usage.out_of_memory = self.over_memory || self.cgroup.oom_kills() > 0;
        usage
    }

    fn exit(&self) -> StepExit {
        let launch = &self.spec.launch;
        StepExit {
            job_id: launch.job_id,
            attempt: launch.attempt,
            step_id: launch.step_id,
            tasks: self.tasks.iter().map(|task| (task.rank, task.status.unwrap_or_default())).collect(),
            launch_error: None,
            usage: self.usage(),
            end_time: self.end_time.unwrap_or_else(now),
        }
    }
}

fn write_input(input: &mut Input) {
    while !input.waiting.is_empty() {
        let (front, _) = input.waiting.as_slices();
        match nix::unistd::write(&input.end.descriptor, front) {
            Ok(length) => {
                input.waiting.drain(..length);
            }
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return,
            Err(_) => {
                // The task has closed its stdin; the rest has no reader.
                input.waiting.clear();
                input.closing = true;
            }
        }
    }
}
