//! Step daemons: starting them, waiting for them, finding them again after a restart, and asking them.
//!
//! Blocking work is done on tokio's blocking threads. What happens is told over a channel as [`StepEvent`]s. Invariant:
//! every step that was started or watched yields exactly one `Exited`, with the daemon's own record if there is one.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sluice_frames::Decoder;
use sluice_model::exit_status::WaitStatus;
use sluice_model::launch::{LiveStep, StepExit, StepUsage};
use sluice_model::time::UnixSeconds;
use sluice_stepd::control::{self, ControlReply, ControlRequest, Ready};
use sluice_stepd::spec::{self, EXIT_FILE, LOG_FILE, SPEC_FILE, StepSpec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tracing::{debug, warn};

use super::leftovers;
use super::spool::Spool;

/// How long a step daemon may take until its control socket exists.
const START_MAX: Duration = Duration::from_secs(3);
/// How long a request waits for the daemon of a step that is being started. Generous: a lost order to end a step would leave it for ever.
const REQUEST_MAX: Duration = Duration::from_secs(60);
/// Age from which a step without a daemon is not waited for.
const YOUNG: Duration = Duration::from_secs(60);
const SIGKILL: i32 = 9;

/// What happened to a step.
#[derive(Debug)]
pub enum StepEvent {
    /// Its processes exist.
    Ready {
        /// Which.
        step: LiveStep,
        /// Process ids.
        pids: Vec<u32>,
    },
    /// It is over.
    Exited(StepExit),
}

/// Starts and watches step daemons.
#[derive(Debug, Clone)]
pub struct StepRunner {
    program: PathBuf,
    spool: Spool,
    events: mpsc::UnboundedSender<StepEvent>,
}

impl StepRunner {
    /// `program` is the path of `stepd`.
    pub fn new(program: PathBuf, spool: Spool, events: mpsc::UnboundedSender<StepEvent>) -> Self {
        Self {
            program,
            spool,
            events,
        }
    }

    /// Starts a step.
    pub fn start(&self, specification: StepSpec) {
        let runner = self.clone();
        tokio::spawn(async move {
            let launch = &specification.launch;
            let step = LiveStep {
                job_id: launch.job_id,
                attempt: launch.attempt,
                step_id: launch.step_id,
            };
            let ranks = launch.task_ids.clone();
            let spawned = {
                let runner = runner.clone();
                tokio::task::spawn_blocking(move || runner.spawn(step, specification)).await
            };
            let error = match spawned {
                Ok(Ok(child)) => return runner.follow(step, child).await,
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            warn!(job = %step.job_id, step = %step.step_id, "step cannot be started: {error}");
            runner.tell(StepEvent::Exited(lost_exit(
                step,
                &ranks,
                format!("cannot start the step daemon: {error}"),
            )));
        });
    }

    /// Follows a step of an earlier life of the agent.
    pub fn watch(&self, step: LiveStep) {
        let runner = self.clone();
        tokio::spawn(async move {
            let folder = runner.spool.step(step);
            if !folder.join(EXIT_FILE).exists()
                && let Some(mut stream) = connect_within(&folder, START_MAX).await
            {
                if let Ok(ping) = sluice_frames::encode(&ControlRequest::Ping)
                    && stream.write_all(&ping).await.is_ok()
                {
                    let mut decoder = Decoder::default();
                    if let Some(ControlReply::Pong { pids }) =
                        read_one(&mut stream, &mut decoder).await
                    {
                        runner.tell(StepEvent::Ready { step, pids });
                    }
                }
                // The connection ends with the daemon, and the record is written before.
                let mut rest = [0; 64];
                while matches!(stream.read(&mut rest).await, Ok(1..)) {}
            }
            runner.conclude(step).await;
        });
    }

    fn spawn(&self, step: LiveStep, mut specification: StepSpec) -> io::Result<Child> {
        let folder = self.spool.step(step);
        specification.node.environment.push((
            leftovers::STEP_FOLDER_VARIABLE.to_owned(),
            folder.display().to_string(),
        ));
        let folder = self
            .spool
            .prepare_step(step, &specification)
            .map_err(io::Error::other)?;
        let log = std::fs::File::create(folder.join(LOG_FILE))?;
        let mut command = Command::new(&self.program);
        // The daemon starts its own session; nothing of the agent's environment is meant for jobs.
        command
            .arg("--dir")
            .arg(&folder)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        command.spawn()
    }

    async fn follow(&self, step: LiveStep, mut child: Child) {
        if let Some(mut stdout) = child.stdout.take() {
            let mut decoder = Decoder::default();
            if let Some(Ready { pids }) = read_one(&mut stdout, &mut decoder).await {
                self.tell(StepEvent::Ready { step, pids });
            }
        }
        match child.wait().await {
            Ok(status) => {
                debug!(job = %step.job_id, step = %step.step_id, "step daemon ended: {status}")
            }
            Err(error) => {
                warn!(job = %step.job_id, step = %step.step_id, "waiting for the step daemon: {error}")
            }
        }
        self.conclude(step).await;
    }

    /// Reads the record, or makes one for a step whose daemon left none.
    async fn conclude(&self, step: LiveStep) {
        let folder = self.spool.step(step);
        let exit = match spec::load::<StepExit>(&folder.join(EXIT_FILE)) {
            Ok(Some(exit)) => exit,
            Ok(None) => self.vanished(step, &folder, "it left no exit record").await,
            Err(error) => self.vanished(step, &folder, &error.to_string()).await,
        };
        self.tell(StepEvent::Exited(exit));
    }

    async fn vanished(&self, step: LiveStep, folder: &Path, why: &str) -> StepExit {
        let own = folder.to_owned();
        let killed = tokio::task::spawn_blocking(move || leftovers::kill_step(&own))
            .await
            .unwrap_or(0);
        let log = std::fs::read_to_string(folder.join(LOG_FILE)).unwrap_or_default();
        let last = log
            .lines()
            .next_back()
            .map(|line| format!("; its last words: {line}"))
            .unwrap_or_default();
        warn!(job = %step.job_id, step = %step.step_id, "stepd died: {why}{last}; {killed} of its processes were killed");
        let ranks = spec::load::<StepSpec>(&folder.join(SPEC_FILE))
            .ok()
            .flatten()
            .map(|specification| specification.launch.task_ids)
            .unwrap_or_default();
        lost_exit(step, &ranks, format!("stepd died: {why}{last}"))
    }

    fn tell(&self, event: StepEvent) {
        // The receiver is gone only when the agent ends; the next one finds the step again.
        let _ = self.events.send(event);
    }
}

fn lost_exit(step: LiveStep, ranks: &[u32], text: String) -> StepExit {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    StepExit {
        job_id: step.job_id,
        attempt: step.attempt,
        step_id: step.step_id,
        tasks: ranks
            .iter()
            .map(|rank| (*rank, WaitStatus::signaled(SIGKILL)))
            .collect(),
        launch_error: Some(text),
        usage: StepUsage::default(),
        end_time: UnixSeconds(i64::try_from(now).unwrap_or(i64::MAX)),
    }
}

async fn read_one<T: serde::de::DeserializeOwned>(
    stream: &mut (impl tokio::io::AsyncRead + Unpin),
    decoder: &mut Decoder,
) -> Option<T> {
    let mut chunk = [0; 4096];
    loop {
        match decoder.next_frame() {
            Ok(Some(message)) => return Some(message),
            Ok(None) => {}
            Err(_) => return None,
        }
        match stream.read(&mut chunk).await {
            Ok(length @ 1..) => decoder.push(&chunk[..length]),
            _ => return None,
        }
    }
}

/// What a step uses at the moment; `None` when its daemon does not answer.
pub async fn usage_of(folder: &Path) -> Option<StepUsage> {
    let exchange = async {
        let (_open, path) = control::socket_path(folder).ok()?;
        let mut stream = UnixStream::connect(path).await.ok()?;
        let frame = sluice_frames::encode(&ControlRequest::Usage).ok()?;
        stream.write_all(&frame).await.ok()?;
        match read_one::<ControlReply>(&mut stream, &mut Decoder::default()).await? {
            ControlReply::Usage(usage) => Some(usage),
            _ => None,
        }
    };
    tokio::time::timeout(control::REPLY_TIMEOUT, exchange)
        .await
        .ok()
        .flatten()
}

async fn connect_within(folder: &Path, limit: Duration) -> Option<UnixStream> {
    let deadline = Instant::now() + limit;
    loop {
        let (_open, path) = control::socket_path(folder).ok()?;
        match UnixStream::connect(path).await {
            Ok(stream) => return Some(stream),
            // An old folder without a listener has no daemon; a new one may still be starting.
            Err(_)
                if folder.join(EXIT_FILE).exists()
                    || Instant::now() > deadline
                    || !is_young(folder) =>
            {
                return None;
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

fn is_young(folder: &Path) -> bool {
    let changed =
        std::fs::metadata(folder.join(SPEC_FILE)).and_then(|metadata| metadata.modified());
    match changed {
        Ok(time) => time.elapsed().is_ok_and(|age| age < YOUNG),
        // Being prepared at this moment: the order to end a step may be on the heels of the order to start it.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Requests to step daemons, in order for each step.
#[derive(Debug)]
pub struct ControlQueues {
    spool: Spool,
    queues: HashMap<(u32, u32, u32), mpsc::UnboundedSender<ControlRequest>>,
}

impl ControlQueues {
    /// Empty.
    pub fn new(spool: Spool) -> Self {
        Self {
            spool,
            queues: HashMap::new(),
        }
    }

    /// Sends a request after those already queued for the step.
    pub fn send(&mut self, step: LiveStep, request: ControlRequest) {
        let key = (step.job_id.0, step.attempt, step.step_id.number());
        let folder = self.spool.step(step);
        let queue = self.queues.entry(key).or_insert_with(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            tokio::spawn(serve_queue(step, folder, receiver));
            sender
        });
        // The server ends only when this sender is dropped.
        let _ = queue.send(request);
    }

    /// Drops the queue of an ended step.
    pub fn forget(&mut self, step: LiveStep) {
        self.queues
            .remove(&(step.job_id.0, step.attempt, step.step_id.number()));
    }
}

async fn serve_queue(
    step: LiveStep,
    folder: PathBuf,
    mut requests: mpsc::UnboundedReceiver<ControlRequest>,
) {
    while let Some(request) = requests.recv().await {
        let Some(mut stream) = connect_within(&folder, REQUEST_MAX).await else {
            debug!(job = %step.job_id, step = %step.step_id, "no step daemon for {request:?}");
            continue;
        };
        let Ok(frame) = sluice_frames::encode(&request) else {
            continue;
        };
        let exchange = async {
            stream.write_all(&frame).await.ok()?;
            read_one::<ControlReply>(&mut stream, &mut Decoder::default()).await
        };
        match tokio::time::timeout(control::REPLY_TIMEOUT, exchange).await {
            Ok(Some(ControlReply::Refused { text })) => {
                warn!(job = %step.job_id, step = %step.step_id, "{request:?}: {text}")
            }
            Ok(_) => {}
            Err(_) => {
                warn!(job = %step.job_id, step = %step.step_id, "the step daemon does not answer {request:?}")
            }
        }
    }
}
