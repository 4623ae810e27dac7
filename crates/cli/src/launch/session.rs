//! One running step from srun's side: the loop over frames, standard input, signals and time.
//!
//! Ends when every node has said that it is done, or is lost. The exit status is the highest of the tasks'.
//! Source: srun(1) on interrupts, --kill-on-bad-exit and --wait.

use std::time::Duration;

use sluice_model::exit_status::WaitStatus;
use sluice_model::launch::{SrunFrame, StepFrame, TASK_FAILURE_SIGNAL};
use sluice_model::signal::Signal;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::listener::NodeEvent;
use super::signals::Signals;
use super::streams::{Sink, StreamMode, read_input};
use super::tasks::TaskTable;
use super::{signal_step, terminal};
use crate::client::Client;
use crate::output;

/// A second interrupt counts as such within this time.
const INTERRUPT_WINDOW: Duration = Duration::from_secs(1);

/// How long ended tasks of one node are collected for one line.
const REPORT_DELAY: Duration = Duration::from_millis(20);

/// How often a step whose nodes are silent is looked for at the controller.
const SILENCE_CHECK: Duration = Duration::from_secs(5);

/// How long a killed step may take before srun gives up waiting.
const KILL_PATIENCE: Duration = Duration::from_secs(32);

/// What rules the loop.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// Name of the command, before its messages.
    pub command: &'static str,
    /// The step is somebody else's: an interrupt only ends the command, and nothing is passed on.
    pub attached: bool,
    /// Job.
    pub job_id: u32,
    /// Step.
    pub step_id: u32,
    /// `--kill-on-bad-exit`.
    pub kill_on_bad_exit: bool,
    /// `--wait`; `None` = no limit.
    pub wait: Option<Duration>,
    /// `--quit-on-interrupt`.
    pub quit_on_interrupt: bool,
    /// `--disable-status`.
    pub disable_status: bool,
    /// `-v` count.
    pub verbose: usize,
    /// `--quiet`.
    pub quiet: bool,
    /// Task 0 has a terminal.
    pub pty: bool,
    /// Standard input.
    pub input: StreamMode,
    /// Signals that are not passed on.
    pub ignored_signals: Vec<i32>,
}

/// What became of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeProgress {
    Awaited,
    Connected,
    Done,
    Lost,
}

/// A running step.
pub struct Session {
    options: SessionOptions,
    client: Client,
    tasks: TaskTable,
    sink: Sink,
    progress: Vec<NodeProgress>,
    senders: Vec<Option<mpsc::Sender<SrunFrame>>>,
    input: Option<mpsc::Receiver<Vec<u8>>>,
    input_started: bool,
    report_at: Option<Instant>,
    wait_until: Option<Instant>,
    give_up_at: Option<Instant>,
    interrupts: Vec<Instant>,
    killing: bool,
    lost: bool,
    absent_once: bool,
    told_aborted: bool,
    /// The step ends because a task failed.
    failure: bool,
    /// Ends of tasks that -v has not told yet.
    ended: Vec<(usize, WaitStatus)>,
    /// The command leaves the step alone.
    detached: bool,
}

impl Session {
    /// A step whose nodes will connect.
    #[must_use]
    pub fn new(client: Client, tasks: TaskTable, sink: Sink, options: SessionOptions) -> Self {
        let nodes = tasks.nodes().len();
        Self {
            options,
            client,
            tasks,
            sink,
            progress: vec![NodeProgress::Awaited; nodes],
            senders: vec![None; nodes],
            input: None,
            input_started: false,
            report_at: None,
            wait_until: None,
            give_up_at: None,
            interrupts: Vec::new(),
            killing: false,
            lost: false,
            absent_once: false,
            told_aborted: false,
            failure: false,
            ended: Vec::new(),
            detached: false,
        }
    }

    fn name(&self) -> String {
        format!("StepId={}.{}", self.options.job_id, self.options.step_id)
    }

    fn complain(&self, text: impl AsRef<str>) {
        output::error_line(format!(
            "{}: error: {}",
            self.options.command,
            text.as_ref()
        ));
    }

    fn say(&self, text: impl AsRef<str>) {
        if !self.options.quiet {
            // A raw terminal needs its own line begin.
            let end = if self.options.pty { "\r" } else { "" };
            output::error_line(format!("{}: {}{end}", self.options.command, text.as_ref()));
        }
    }

    /// Runs until the end; returns the tasks with their exit statuses and whether a node was lost.
    pub async fn run(mut self, mut events: mpsc::Receiver<NodeEvent>) -> (TaskTable, bool) {
        let mut signals = match Signals::new(self.options.pty) {
            Ok(signals) => signals,
            Err(error) => {
                output::error_line(format!("srun: error: cannot watch signals: {error}"));
                return (self.tasks, true);
            }
        };
        // Kept until the last word is said.
        let _raw = self.options.pty.then(terminal::RawMode::enter);
        let mut silence = tokio::time::interval_at(Instant::now() + SILENCE_CHECK, SILENCE_CHECK);
        while !self.finished() {
            let deadline = [self.report_at, self.wait_until, self.give_up_at]
                .into_iter()
                .flatten()
                .min();
            tokio::select! {
                biased;
                Some(event) = events.recv() => self.on_event(event).await,
                number = signals.next() => self.on_signal(number).await,
                Some(bytes) = next_input(&mut self.input) => self.on_input(bytes).await,
                () = at(deadline) => self.on_time().await,
                _ = silence.tick() => self.look_for_step().await,
            }
        }
        self.sink.flush();
        self.report();
        if self.tasks.any_killed() && !self.options.attached && !self.told_aborted {
            self.say(format!("Force Terminated {}", self.name()));
        }
        (self.tasks, self.lost)
    }

    fn finished(&self) -> bool {
        self.detached
            || self
                .progress
                .iter()
                .all(|progress| matches!(progress, NodeProgress::Done | NodeProgress::Lost))
            || self.give_up_at.is_some_and(|at| Instant::now() >= at)
    }

    async fn on_event(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Connected { node, sender } if node < self.senders.len() => {
                self.senders[node] = Some(sender);
                self.progress[node] = NodeProgress::Connected;
                self.start_input().await;
            }
            NodeEvent::Frame { node, frame } if node < self.senders.len() => {
                self.on_frame(node, frame).await
            }
            NodeEvent::Closed { node } if node < self.senders.len() => self.on_closed(node),
            _ => {}
        }
    }

    async fn on_frame(&mut self, node: usize, frame: StepFrame) {
        match frame {
            StepFrame::Started { error: None, .. } => {
                self.tasks.started(node);
                if self.options.verbose > 0 {
                    let count = self.tasks.tasks_of(node).len();
                    self.say(format!(
                        "Node {}, {count} tasks started",
                        self.tasks.nodes()[node]
                    ));
                }
            }
            StepFrame::Started {
                error: Some(text), ..
            } => {
                self.complain(format!(
                    "Task launch for {} failed on node {}: {text}",
                    self.name(),
                    self.tasks.nodes()[node]
                ));
                if !self.lost {
                    self.complain(format!("Application launch failed: {text}"));
                }
                self.lost = true;
                self.progress[node] = NodeProgress::Lost;
            }
            StepFrame::Output {
                task,
                is_stderr,
                data,
            } => self.sink.take(task, is_stderr, &data),
            StepFrame::TaskExit { task, status } => {
                self.tasks.ended(task, status);
                self.report_at = Some(
                    self.report_at
                        .unwrap_or_else(|| Instant::now() + REPORT_DELAY),
                );
                if self.options.verbose > 0 {
                    self.ended.push((node, status));
                }
                if !status.is_success() && self.options.kill_on_bad_exit && !self.killing {
                    self.report();
                    if !self.tasks.all_ended() {
                        self.say(format!("Terminating {}", self.name()));
                    }
                    self.end_after_failure().await;
                }
                if self.wait_until.is_none() && !self.tasks.all_ended() {
                    self.wait_until = self.options.wait.map(|wait| Instant::now() + wait);
                }
            }
            StepFrame::Message { text } => {
                // Somebody else ends the step: the tasks still have to go.
                let is_end = text.contains(" CANCELLED AT ");
                if is_end && !self.failure && !self.told_aborted && !self.options.attached {
                    self.told_aborted = true;
                    self.tell_aborted();
                }
                output::error_line(text);
            }
            StepFrame::Done => {
                self.progress[node] = NodeProgress::Done;
                self.report();
            }
            StepFrame::Hello { .. } | StepFrame::Proof { .. } => {}
        }
    }

    fn on_closed(&mut self, node: usize) {
        self.senders[node] = None;
        if self.progress[node] == NodeProgress::Done {
            return;
        }
        if self.tasks.node_ended(node) {
            self.progress[node] = NodeProgress::Done;
            return;
        }
        self.progress[node] = NodeProgress::Lost;
        self.lost = true;
        if !self.killing {
            self.complain(format!("Node failure on {}", self.tasks.nodes()[node]));
        }
    }

    /// Prints what is to be said about ended tasks.
    fn report(&mut self) {
        self.report_at = None;
        self.tell_notifications();
        for (failed, line) in self.tasks.report(self.options.verbose > 0) {
            if self.options.attached {
                // How the tasks ended is for the one who started them.
            } else if failed {
                self.complain(line);
            } else {
                self.say(line);
            }
        }
    }

    /// What -v tells about the messages of the nodes: one line for the tasks of a node that ended alike.
    fn tell_notifications(&mut self) {
        let ended = std::mem::take(&mut self.ended);
        let mut groups: Vec<(usize, i32, usize)> = Vec::new();
        for (node, status) in ended {
            match groups
                .iter_mut()
                .find(|(known, code, _)| *known == node && *code == status.0)
            {
                Some((_, _, count)) => *count += 1,
                None => groups.push((node, status.0, 1)),
            }
        }
        for (_, status, count) in groups {
            self.say(format!(
                "Received task exit notification for {count} task{} of {} (status=0x{status:04x}).",
                if count == 1 { "" } else { "s" },
                self.name()
            ));
        }
    }

    /// What the tasks are doing.
    fn tell_summary(&self) {
        for line in self.tasks.summary() {
            self.say(format!("{} {line}", self.name()));
        }
    }

    async fn on_time(&mut self) {
        let now = Instant::now();
        if self.report_at.is_some_and(|at| at <= now) {
            self.report();
        }
        if self.wait_until.is_some_and(|at| at <= now) {
            self.wait_until = None;
            if !self.tasks.all_ended() {
                let seconds = self.options.wait.unwrap_or_default().as_secs();
                self.say(format!("First task exited {seconds}s ago"));
                self.tell_summary();
                self.say(format!("Terminating {}", self.name()));
                self.kill().await;
            }
        }
    }

    /// A task has failed and the others are to end with it, given time to do so.
    async fn end_after_failure(&mut self) {
        if self.killing || self.tasks.all_ended() {
            return;
        }
        let signal = TASK_FAILURE_SIGNAL;
        if self.senders.iter().all(Option::is_some) {
            self.killing = true;
            self.failure = true;
            self.give_up_at = Some(Instant::now() + KILL_PATIENCE);
            self.send_all(SrunFrame::Signal { signal }).await;
        } else {
            self.kill().await;
        }
    }

    /// Ends the step on all nodes; the nodes report as usual.
    async fn kill(&mut self) {
        if self.killing {
            return;
        }
        self.killing = true;
        self.give_up_at = Some(Instant::now() + KILL_PATIENCE);
        if signal_step(
            &self.client,
            self.options.job_id,
            self.options.step_id,
            Signal::KILL.number(),
        )
        .await
        .is_err()
        {
            self.send_all(SrunFrame::Signal {
                signal: Signal::KILL.number(),
            })
            .await;
        }
    }

    /// The way to the node of a task, if it is there.
    fn sender_of(&self, task: u32) -> Option<&mpsc::Sender<SrunFrame>> {
        self.senders.get(self.tasks.node_index(task)?)?.as_ref()
    }

    async fn send_all(&mut self, frame: SrunFrame) {
        for sender in self.senders.iter().flatten() {
            // A node whose connection is gone is noticed by its reader.
            let _ = sender.send(frame.clone()).await;
        }
    }

    async fn on_signal(&mut self, number: i32) {
        if number == nix::libc::SIGWINCH {
            let (rows, columns) = terminal::size();
            self.send_all(SrunFrame::WindowSize { rows, columns }).await;
        } else if self.options.attached {
            self.detached = true;
            self.lost = true;
        } else if number == Signal::INT.number() {
            self.on_interrupt().await;
        } else if self.options.ignored_signals.contains(&number) {
        } else if [nix::libc::SIGQUIT, nix::libc::SIGTERM, nix::libc::SIGHUP].contains(&number) {
            if number == nix::libc::SIGQUIT {
                self.say("Quit");
            }
            self.force_end().await;
        } else {
            self.send_all(SrunFrame::Signal { signal: number }).await;
        }
    }

    /// The user does not want to wait for the tasks.
    async fn force_end(&mut self) {
        if self.killing {
            return;
        }
        self.say("forcing job termination");
        self.told_aborted = true;
        self.tell_aborted();
        self.kill().await;
    }

    fn tell_aborted(&self) {
        self.say(format!(
            "Job step aborted: Waiting up to {} seconds for job step to finish.",
            KILL_PATIENCE.as_secs()
        ));
    }

    /// One interrupt shows states, a second within a second goes to the tasks, a third ends the step.
    async fn on_interrupt(&mut self) {
        let now = Instant::now();
        let recent = self
            .interrupts
            .last()
            .is_some_and(|last| now.duration_since(*last) <= INTERRUPT_WINDOW);
        if !recent {
            self.interrupts.clear();
        }
        self.interrupts.push(now);
        let count = match (self.options.quit_on_interrupt, self.options.disable_status) {
            (true, _) => 3,
            (_, true) => self.interrupts.len() + 1,
            _ => self.interrupts.len(),
        };
        match count {
            1 => {
                self.say("interrupt (one more within 1 sec to abort)");
                self.tell_summary();
            }
            2 => {
                self.say(format!("sending Ctrl-C to {}", self.name()));
                self.send_all(SrunFrame::Signal {
                    signal: Signal::INT.number(),
                })
                .await;
            }
            _ => self.force_end().await,
        }
    }

    /// Reads standard input once every node is there, so that none misses its beginning.
    async fn start_input(&mut self) {
        let ready = self
            .progress
            .iter()
            .all(|progress| *progress != NodeProgress::Awaited);
        if self.input_started || !ready || self.options.input.for_nodes().is_some() {
            return;
        }
        self.input_started = true;
        if let StreamMode::OneTask(chosen) = self.options.input {
            self.end_input_of_others(chosen).await;
        }
        let (sender, receiver) = mpsc::channel(8);
        let file = match &self.options.input {
            StreamMode::File(path) => Some(path.clone()),
            _ => None,
        };
        // A thread of its own: reading a terminal cannot be interrupted, and must not keep srun from its end.
        std::thread::spawn(move || read_input(file, &sender));
        self.input = Some(receiver);
    }

    /// Tasks that get no input see its end at once.
    async fn end_input_of_others(&mut self, chosen: u32) {
        for task in self
            .tasks
            .running()
            .into_iter()
            .filter(|task| *task != chosen)
        {
            if let Some(sender) = self.sender_of(task) {
                let frame = SrunFrame::Input {
                    task: Some(task),
                    data: Vec::new(),
                };
                let _ = sender.send(frame).await;
            }
        }
    }

    async fn on_input(&mut self, data: Vec<u8>) {
        let frame = |task| SrunFrame::Input {
            task,
            data: data.clone(),
        };
        match self.options.input {
            StreamMode::OneTask(task) => {
                if let Some(sender) = self.sender_of(task) {
                    let _ = sender.send(frame(Some(task))).await;
                }
            }
            _ => self.send_all(frame(None)).await,
        }
        if data.is_empty() {
            self.input = None;
        }
    }

    /// A step that the controller no longer has cannot connect any more.
    async fn look_for_step(&mut self) {
        if !self.progress.contains(&NodeProgress::Awaited) {
            return;
        }
        let Ok(steps) = self.client.steps(Some(self.options.job_id)).await else {
            return;
        };
        let alive = steps.iter().any(|step| {
            step.job_id.0 == self.options.job_id
                && step.step_id.number() == self.options.step_id
                && !step.state.is_finished()
        });
        if alive {
            self.absent_once = false;
        } else if self.absent_once {
            for (node, progress) in self
                .progress
                .iter_mut()
                .enumerate()
                .filter(|(_, p)| **p == NodeProgress::Awaited)
            {
                *progress = NodeProgress::Lost;
                output::error_line(format!(
                    "{}: error: task launch failed on node {}",
                    self.options.command,
                    self.tasks.nodes()[node]
                ));
            }
            self.lost = true;
        } else {
            self.absent_once = true;
        }
    }
}

async fn next_input(input: &mut Option<mpsc::Receiver<Vec<u8>>>) -> Option<Vec<u8>> {
    match input {
        Some(receiver) => receiver.recv().await,
        None => std::future::pending().await,
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
