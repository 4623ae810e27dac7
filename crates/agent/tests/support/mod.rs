//! A controller that does what the test says, and an `agentd` of its own folder.

#![allow(dead_code, reason = "each test file uses a part")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::Stream;
use sluice_model::ids::{JobId, StepId};
use sluice_model::job::OpenMode;
use sluice_model::launch::{
    AgentOrder, AgentReport, Credentials, JobOnNode, ReportEnvelope, StepLaunch,
};
use sluice_model::memory::MemoryMib;
use sluice_proto::v1::admin_server::{Admin, AdminServer};
use sluice_proto::v1::agents_server::{Agents, AgentsServer};
use sluice_proto::v1::{self, AgentMessage, ControllerMessage};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tonic::{Request, Response, Status, Streaming};

/// Longest time a test waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);

type Orders = mpsc::UnboundedSender<Result<ControllerMessage, Status>>;

/// The controller's end.
pub struct Controller {
    pub port: u16,
    /// Reports with the number of the connection they came on.
    pub reports: mpsc::UnboundedReceiver<(u32, ReportEnvelope)>,
    orders: Arc<Mutex<Option<Orders>>>,
    /// Reports are acknowledged as they come.
    pub acknowledge: bool,
}

struct Service {
    reports: mpsc::UnboundedSender<(u32, ReportEnvelope)>,
    orders: Arc<Mutex<Option<Orders>>>,
    connections: std::sync::atomic::AtomicU32,
}

#[tonic::async_trait]
impl Agents for Service {
    type ConnectStream = Pin<Box<dyn Stream<Item = Result<ControllerMessage, Status>> + Send>>;

    async fn connect(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let token = request
            .metadata()
            .get("authorization")
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        if token.split('.').count() != 3 || !token.starts_with("Bearer ") {
            return Err(Status::unauthenticated("no token"));
        }
        let mut stream = request.into_inner();
        let number = self
            .connections
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed)
            + 1;
        // As the real controller may: the answer to the call comes after the registration was read.
        let first = stream
            .next()
            .await
            .ok_or_else(|| Status::cancelled("closed"))??;
        let first = sluice_proto::decode_report(&first)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.orders.lock().expect("lock") = Some(sender);
        let reports = self.reports.clone();
        let _ = reports.send((number, first));
        tokio::spawn(async move {
            while let Some(Ok(message)) = stream.next().await {
                let envelope = sluice_proto::decode_report(&message).expect("report");
                let _ = reports.send((number, envelope));
            }
        });
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(
            receiver,
        ))))
    }
}

/// Hands out one slurm.conf.
struct Bundle(String);

#[tonic::async_trait]
impl Admin for Bundle {
    type DumpStateStream = Pin<Box<dyn Stream<Item = Result<v1::DumpStateChunk, Status>> + Send>>;

    async fn get_config_bundle(
        &self,
        request: Request<v1::GetConfigBundleRequest>,
    ) -> Result<Response<v1::GetConfigBundleReply>, Status> {
        let file = v1::ConfigFile {
            name: "slurm.conf".to_owned(),
            content: self.0.clone().into_bytes(),
            ..v1::ConfigFile::default()
        };
        let files = if request.into_inner().known_version == 7 {
            Vec::new()
        } else {
            vec![file]
        };
        Ok(Response::new(v1::GetConfigBundleReply {
            version: 7,
            files,
        }))
    }

    async fn show_config(
        &self,
        _: Request<v1::ShowConfigRequest>,
    ) -> Result<Response<v1::ShowConfigReply>, Status> {
        Err(Status::unimplemented("test"))
    }

    async fn issue_token(
        &self,
        _: Request<v1::IssueTokenRequest>,
    ) -> Result<Response<v1::IssueTokenReply>, Status> {
        Err(Status::unimplemented("test"))
    }

    async fn reconfigure(
        &self,
        _: Request<v1::ReconfigureRequest>,
    ) -> Result<Response<v1::ReconfigureReply>, Status> {
        Err(Status::unimplemented("test"))
    }

    async fn shutdown(
        &self,
        _: Request<v1::ShutdownRequest>,
    ) -> Result<Response<v1::ShutdownReply>, Status> {
        Err(Status::unimplemented("test"))
    }

    async fn set_debug(
        &self,
        _: Request<v1::SetDebugRequest>,
    ) -> Result<Response<v1::SetDebugReply>, Status> {
        Err(Status::unimplemented("test"))
    }

    async fn change_partition(
        &self,
        _: Request<v1::ChangePartitionRequest>,
    ) -> Result<Response<v1::AdminReply>, Status> {
        Err(Status::unimplemented("test"))
    }

    async fn delete_partition(
        &self,
        _: Request<v1::DeletePartitionRequest>,
    ) -> Result<Response<v1::AdminReply>, Status> {
        Err(Status::unimplemented("test"))
    }

    async fn create_nodes(
        &self,
        _: Request<v1::CreateNodesRequest>,
    ) -> Result<Response<v1::AdminReply>, Status> {
        Err(Status::unimplemented("test"))
    }

    async fn delete_nodes(
        &self,
        _: Request<v1::DeleteNodesRequest>,
    ) -> Result<Response<v1::AdminReply>, Status> {
        Err(Status::unimplemented("test"))
    }

    async fn reboot_nodes(
        &self,
        _: Request<v1::RebootNodesRequest>,
    ) -> Result<Response<v1::AdminReply>, Status> {
        Err(Status::unimplemented("test"))
    }

    async fn update_steps(
        &self,
        _: Request<v1::UpdateStepsRequest>,
    ) -> Result<Response<v1::AdminReply>, Status> {
        Err(Status::unimplemented("test"))
    }

    async fn top_jobs(
        &self,
        _: Request<v1::TopJobsRequest>,
    ) -> Result<Response<v1::TopJobsReply>, Status> {
        Err(Status::unimplemented("test"))
    }

    async fn dump_state(
        &self,
        _: Request<v1::DumpStateRequest>,
    ) -> Result<Response<Self::DumpStateStream>, Status> {
        Err(Status::unimplemented("test"))
    }
}

impl Controller {
    /// Listens on a free port (or on `port`, to come back after an absence).
    pub async fn start(port: u16) -> Self {
        Self::start_with(port, |_| String::new()).await
    }

    /// Listens and hands out the configuration that `conf` makes of the port.
    pub async fn start_with(port: u16, conf: impl FnOnce(u16) -> String) -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port))
            .await
            .expect("listen");
        let port = listener.local_addr().expect("address").port();
        let (sender, reports) = mpsc::unbounded_channel();
        let orders = Arc::new(Mutex::new(None));
        let service = Service {
            reports: sender,
            orders: Arc::clone(&orders),
            connections: 0.into(),
        };
        let routes = tonic::transport::Server::builder()
            .add_service(AgentsServer::new(service))
            .add_service(AdminServer::new(Bundle(conf(port))));
        tokio::spawn(async move {
            let acceptor = sluice_tls::ServerKey::derive(&[9; 32])
                .and_then(|key| key.acceptor())
                .expect("certificate");
            let incoming = TcpListenerStream::new(listener).then(move |stream| {
                let acceptor = acceptor.clone();
                async move {
                    let stream = stream?;
                    // Without this every answer waits for the peer's delayed acknowledgement, 40 ms.
                    stream.set_nodelay(true)?;
                    acceptor.accept(stream).await.map_err(std::io::Error::other)
                }
            });
            let _ = routes.serve_with_incoming(incoming).await;
        });
        Self {
            port,
            reports,
            orders,
            acknowledge: true,
        }
    }

    /// Sends an order on the newest connection.
    pub fn order(&self, order: &AgentOrder) {
        let message = sluice_proto::encode_order(order).expect("order");
        let orders = self.orders.lock().expect("lock");
        let _ = orders
            .as_ref()
            .expect("an agent is connected")
            .send(Ok(message));
    }

    /// Closes the agent's connection.
    pub fn hang_up(&self) {
        self.orders.lock().expect("lock").take();
    }

    /// The next report that `pick` takes; others (heartbeats) are passed over. All are acknowledged if wanted.
    pub async fn expect<T>(
        &mut self,
        what: &str,
        mut pick: impl FnMut(&AgentReport) -> Option<T>,
    ) -> T {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            let next = tokio::time::timeout_at(deadline, self.reports.recv()).await;
            let Ok(Some((_, envelope))) = next else {
                panic!("{what} did not come; instead: {seen:#?}")
            };
            if self.acknowledge && envelope.sequence > 0 {
                self.order(&AgentOrder::Acknowledge {
                    sequence: envelope.sequence,
                });
            }
            if let Some(value) = pick(&envelope.report) {
                return value;
            }
            seen.push(envelope);
        }
    }

    /// Waits for a registration and answers it with the jobs that should be there.
    pub async fn register(&mut self, jobs: &[(JobId, u32)]) -> AgentReport {
        let report = self
            .expect("registration", |report| {
                matches!(report, AgentReport::Register { .. }).then(|| report.clone())
            })
            .await;
        self.order(&AgentOrder::Registered {
            jobs: jobs.to_vec(),
            heartbeat_secs: 1,
        });
        report
    }
}

/// A folder with configuration and key, and the agent that runs from it.
pub struct Node {
    pub folder: tempfile::TempDir,
    conf: PathBuf,
    extra_flags: Vec<String>,
    agent: Option<Child>,
}

/// The slurm.conf of the tests.
pub fn slurm_conf(folder: &Path, port: u16, extra: &str) -> String {
    format!(
        "ClusterName=test\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={port}\nAuthAltTypes=auth/jwt\n\
         AuthAltParameters=jwt_key={0}/jwt.key\nStateSaveLocation={0}/state\nSlurmdSpoolDir={0}/spool-%n\n\
         SlurmdPidFile={0}/%n.pid\nSlurmdParameters=config_overrides\nGresTypes=gpu\n{extra}\n\
         NodeName=n1 NodeHostname=localhost CPUs=2 RealMemory=500 State=UNKNOWN\nPartitionName=main Nodes=n1 Default=YES State=UP\n",
        folder.display()
    )
}

impl Node {
    /// Writes the configuration; `extra` are lines of slurm.conf.
    pub fn new(port: u16, extra: impl FnOnce(&Path) -> String) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))
            .expect("mode");
        let key = folder.path().join("jwt.key");
        std::fs::write(&key, [9; 32]).expect("key");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("mode");
        let conf = folder.path().join("slurm.conf");
        let extra = extra(folder.path());
        std::fs::write(&conf, slurm_conf(folder.path(), port, &extra)).expect("conf");
        Self {
            folder,
            conf,
            extra_flags: Vec::new(),
            agent: None,
        }
    }

    /// A node without a configuration of its own.
    pub fn configless(mut self, port: u16) -> Self {
        std::fs::remove_file(&self.conf).expect("conf");
        let key = self.folder.path().join("jwt.key");
        self.extra_flags = vec![
            format!("--conf-server=127.0.0.1:{port}"),
            format!("--key-file={}", key.display()),
        ];
        self
    }

    /// Starts the agent.
    pub fn start(&mut self) {
        let log = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.folder.path().join("agentd.log"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentd"));
        command
            .args(["-D", "-vv", "-N", "n1", "-d"])
            .arg(stepd())
            .args(&self.extra_flags);
        if self.extra_flags.is_empty() {
            command.arg("-f").arg(&self.conf);
        }
        let child = command
            .env_remove("SLURM_CONF")
            .stdin(Stdio::null())
            .stderr(log.expect("log"))
            .spawn();
        self.agent = Some(child.expect("agentd"));
    }

    /// Ends the agent as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            agent.kill().expect("kill");
            agent.wait().expect("wait");
        }
    }

    /// Spool directory.
    pub fn spool(&self) -> PathBuf {
        self.folder.path().join("spool-n1")
    }

    /// Writes a script.
    pub fn script(folder: &Path, name: &str, body: &str) -> String {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("script");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("mode");
        path.to_string_lossy().into_owned()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        // Steps outlive the agent on purpose; a test must not leave any.
        for entry in std::fs::read_dir(self.spool())
            .into_iter()
            .flatten()
            .flatten()
        {
            for step in std::fs::read_dir(entry.path())
                .into_iter()
                .flatten()
                .flatten()
            {
                let end = sluice_stepd::control::ControlRequest::Terminate { grace_secs: 0 };
                let _ = sluice_stepd::control::request(&step.path(), &end);
            }
        }
        if std::thread::panicking() {
            eprintln!(
                "{}",
                std::fs::read_to_string(self.folder.path().join("agentd.log")).unwrap_or_default()
            );
        }
    }
}

/// The step daemon beside this crate's programs; built on demand, because Cargo builds only this package's own programs
/// for a test.
fn stepd() -> PathBuf {
    static BUILT: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    BUILT
        .get_or_init(|| {
            let agentd = Path::new(env!("CARGO_BIN_EXE_agentd"));
            let stepd = agentd.with_file_name("stepd");
            // For runs of the test program by hand.
            if std::env::var_os("SLUICE_STEPD_BUILT").is_some() && stepd.is_file() {
                return stepd;
            }
            let built = Command::new(env!("CARGO"))
                .args([
                    "build",
                    "--quiet",
                    "--package",
                    "sluice-stepd",
                    "--bin",
                    "stepd",
                ])
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .status();
            assert!(
                built.is_ok_and(|status| status.success()) && stepd.is_file(),
                "stepd cannot be built"
            );
            stepd
        })
        .clone()
}

/// A job of the caller's own user.
pub fn job(id: u32, attempt: u32) -> JobOnNode {
    JobOnNode {
        job_id: JobId(id),
        attempt,
        credentials: credentials(),
        node_index: 0,
        cpu_ids: vec![0],
        memory: MemoryMib(100),
        gres: Vec::new(),
        script_environment: vec![("SLURM_JOB_ID".to_owned(), id.to_string())],
        job_environment: vec![("SLURM_JOB_PARTITION".to_owned(), "main".to_owned())],
        end_time: None,
    }
}

fn credentials() -> Credentials {
    let uid = nix::unistd::geteuid();
    Credentials {
        uid: uid.as_raw(),
        gid: nix::unistd::getegid().as_raw(),
        user_name: sluice_agent::sys::token::user_name(uid.as_raw())
            .unwrap_or_else(|| "nobody".to_owned()),
        group_name: String::new(),
    }
}

/// A batch step.
pub fn batch(id: u32, attempt: u32, script: &str, out: &Path) -> StepLaunch {
    StepLaunch {
        job_id: JobId(id),
        attempt,
        step_id: StepId::Batch,
        array_job_id: None,
        array_task_id: None,
        name: "batch".to_owned(),
        job_name: "test".to_owned(),
        credentials: credentials(),
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
        environment: vec![
            "PATH=/usr/bin:/bin".to_owned(),
            format!("SLURM_JOB_ID={id}"),
        ],
        work_dir: "/tmp".to_owned(),
        umask: 0o022,
        rlimits: std::collections::BTreeMap::new(),
        std_in: None,
        std_out: Some(out.to_string_lossy().into_owned()),
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
    }
}

/// The order that ends a job.
pub fn terminate(id: u32, attempt: u32, kill_wait_secs: u32) -> AgentOrder {
    AgentOrder::TerminateJob {
        job_id: JobId(id),
        attempt,
        kill_wait_secs,
        message: String::new(),
        script_environment: Vec::new(),
        credentials: credentials(),
        gres: Vec::new(),
    }
}
