//! The life of one step from its first process to its last: carry streams, obey the agent, wait, clean up.
//!
//! A single `poll` loop over signals, the control socket, the connection to `srun` and the tasks' streams. Deadlines are
//! monotonic instants. Invariants: supervision ends after the last process of the step is gone; a task's status is recorded exactly once; nothing that `srun` does can delay the record by
//! more than the time it takes to queue the output.

mod figures;
mod requests;
mod signals;
mod streams;

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::SignalFd;
use sluice_frames::Decoder;
use sluice_model::exit_status::WaitStatus;
use sluice_model::launch::StepFrame;
use sluice_model::time::UnixSeconds;

use crate::cgroup::Cgroup;
use crate::clients::Clients;
use crate::launch::{InputEnd, Launched, OutputEnd, fork_task_epilog};
use crate::log::complain;
use crate::process::{self, Children};
use crate::spec::StepSpec;
use crate::usage::TaskUsage;

/// Time between SIGTSTP and SIGSTOP.
const SUSPEND_GRACE: Duration = Duration::from_secs(2);
/// Longest time a TaskEpilog may run.
const TASK_EPILOG_MAX: Duration = Duration::from_secs(60);
/// Input that a task has not read, in bytes, from which `srun` has to wait.
const INPUT_BACKLOG_MAX: usize = 4 * 1024 * 1024;
/// Moments of the first samples; later ones follow the configured interval.
const EARLY_SAMPLES: [Duration; 3] = [
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(5),
];
/// First and longest pause between two rounds of SIGKILL.
const KILL_ROUNDS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(200));

/// Wall clock, for the record.
pub(crate) fn now() -> UnixSeconds {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    UnixSeconds(i64::try_from(seconds).unwrap_or(i64::MAX))
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
    Srun(usize),
    Output(usize),
    Input(usize),
}

/// The running step.
pub(crate) struct Supervisor<'a> {
    spec: &'a StepSpec,
    cgroup: &'a Cgroup,
    launched: Launched,
    srun: &'a mut Clients,
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
    /// Processes from outside that belong to the step: id and start, for an id alone may mean another process later.
    adopted: Vec<(u32, u64)>,
    /// The user was told that the step is being ended.
    told_cancelled: bool,
}

impl<'a> Supervisor<'a> {
    /// From tasks at the barrier.
    pub(crate) fn new(
        spec: &'a StepSpec,
        cgroup: &'a Cgroup,
        mut launched: Launched,
        srun: &'a mut Clients,
        signals: SignalFd,
        listener: UnixListener,
    ) -> Self {
        let tasks = spec
            .launch
            .task_ids
            .iter()
            .zip(&launched.pids)
            .map(|(rank, pid)| Task {
                rank: *rank,
                pid: *pid,
                status: None,
                usage: TaskUsage::default(),
            })
            .collect();
        let outputs = std::mem::take(&mut launched.outputs);
        let inputs = std::mem::take(&mut launched.inputs)
            .into_iter()
            .map(|end| Input {
                end,
                waiting: VecDeque::new(),
                closing: false,
            })
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
            adopted: Vec::new(),
            told_cancelled: false,
        }
    }

    /// Returns when no process of the step is left.
    pub(crate) fn supervise(&mut self) {
        if let Some(text) = self.launched.warning.take() {
            self.tell_user(&text);
        }
        self.reap();
        while !self.is_over() {
            let (ready, timed_out) = self.wait();
            for (source, events) in ready {
                self.on_ready(source, events);
            }
            if timed_out
                || self
                    .next_deadline()
                    .is_some_and(|deadline| deadline <= Instant::now())
            {
                self.on_deadline();
            }
            self.sweep();
        }
        self.drain_outputs();
    }

    /// Drops what ended in this round; not earlier, because the round names its descriptors by index.
    fn sweep(&mut self) {
        self.outputs.retain(|output| !output.ended);
        self.inputs
            .retain(|input| !(input.closing && input.waiting.is_empty() && !input.end.terminal));
        self.connections.retain(|connection| !connection.closed);
        self.srun.sweep();
    }

    /// True when no process of the step is left. Starts the clean-up when only leftovers are.
    fn is_over(&mut self) -> bool {
        if self.childless {
            return true;
        }
        let tasks_ended = self.tasks.iter().all(|task| task.status.is_some());
        let waits = self.spec.launch.options.wait_for_children;
        if tasks_ended && self.epilogs.is_empty() && self.kill_round.is_none() && !waits {
            self.kill_everything();
            self.reap();
        }
        self.childless
    }

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
        let takes_input = self
            .inputs
            .iter()
            .all(|input| input.waiting.len() < INPUT_BACKLOG_MAX);
        for (index, descriptor, has_backlog) in self.srun.descriptors() {
            let mut interest = PollFlags::empty();
            interest.set(PollFlags::POLLIN, takes_input);
            interest.set(PollFlags::POLLOUT, has_backlog);
            sources.push(Source::Srun(index));
            set.push(PollFd::new(descriptor, interest));
        }
        if !self.srun.is_congested() {
            for (index, output) in self.outputs.iter().enumerate() {
                sources.push(Source::Output(index));
                set.push(PollFd::new(output.descriptor.as_fd(), PollFlags::POLLIN));
            }
        }
        for (index, input) in self
            .inputs
            .iter()
            .enumerate()
            .filter(|(_, input)| !input.waiting.is_empty())
        {
            sources.push(Source::Input(index));
            set.push(PollFd::new(
                input.end.descriptor.as_fd(),
                PollFlags::POLLOUT,
            ));
        }
        let timeout = match self.next_deadline() {
            None => PollTimeout::NONE,
            // Rounded up: waking early would spin until the deadline.
            Some(deadline) => {
                let left =
                    deadline.saturating_duration_since(Instant::now()) + Duration::from_micros(999);
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
            }
        };
        let count = poll(&mut set, timeout).unwrap_or(-1);
        let ready = set
            .iter()
            .zip(sources)
            .filter_map(|(entry, source)| {
                Some((source, entry.revents().filter(|events| !events.is_empty())?))
            })
            .collect();
        (ready, count == 0)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let kill_round = self.kill_round.map(|(at, _)| at);
        let epilog = self.epilogs.iter().map(|epilog| epilog.deadline).min();
        [
            self.kill_at,
            kill_round,
            self.stop_at,
            self.next_sample,
            epilog,
        ]
        .into_iter()
        .flatten()
        .min()
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
        for epilog in self
            .epilogs
            .iter_mut()
            .filter(|epilog| epilog.deadline <= now)
        {
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
            Source::Srun(index) => {
                if events.contains(PollFlags::POLLOUT) {
                    self.srun.flush(index);
                }
                for frame in self.srun.receive(index) {
                    self.on_srun(index, frame);
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
                    streams::write_input(input);
                }
            }
        }
    }

    fn reap(&mut self) {
        loop {
            match process::peek_children() {
                Children::None => {
                    self.childless = true;
                    return;
                }
                Children::Alive => return,
                Children::Ended(pid) => {
                    let task = self
                        .tasks
                        .iter()
                        .position(|task| task.pid == pid && task.status.is_none());
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
        self.srun.send(&StepFrame::TaskExit {
            task: task.rank,
            status,
        });
        let scripts: Vec<String> = self
            .spec
            .launch
            .task_epilog
            .iter()
            .chain(&self.spec.node.task_epilog)
            .cloned()
            .collect();
        for script in scripts {
            match fork_task_epilog(self.spec, &self.launched, self.cgroup, index, &script) {
                Ok(pid) => self.epilogs.push(Epilog {
                    pid,
                    deadline: Instant::now() + TASK_EPILOG_MAX,
                }),
                Err(error) => complain(&format!("TaskEpilog {script} cannot be started: {error}")),
            }
        }
    }
}
