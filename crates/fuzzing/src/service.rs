//! Calls of the controller's services and streams of agents, against a whole controller in this process: decoding, checks,
//! engine, journal and planner are the real ones; only listeners and authentication are left out.
//!
//! Stateful: jobs of earlier inputs are there. A panic of the writer's or planner's thread counts like one here (the smoke run
//! and libFuzzer end at any panic). After some inputs the state must be what a replay of its journal gives.

mod seeds;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use prost::Message;
use sluice_accounting::{AccountingStore, StorageSettings};
use sluice_config::{BundleFile, ClusterConfig, ConfigBundle};
use sluice_controller::Cluster;
use sluice_controller::command::config as config_command;
use sluice_controller::transaction::JournalEntry;
use sluice_ctld::auth::{Identity, IdentitySource, Roles, TokenKey, UserDirectory};
use sluice_ctld::core::checkpoint::{EVENT_VERSION, STATE_VERSION};
use sluice_ctld::core::planner::{self, PlannerStatistics, PlannerWake};
use sluice_ctld::core::writer::{Outputs, Writer};
use sluice_ctld::core::{CoreHandle, Sessions, Watchers, now};
use sluice_ctld::journal::{EventJournal, EventJournalOptions, Position, encode_state};
use sluice_ctld::services::Shared;
use sluice_proto::{encode_report, v1::AgentMessage};
use tokio::sync::{mpsc, watch};
use tower::ServiceExt;

use crate::Target;
use crate::messages::reports;
use crate::mutate::{Kind, join_records, split_records};
use seeds::call_seeds;

/// The cluster that is called.
const CONF: &str = "ClusterName=c
SlurmctldHost=h(127.0.0.1)
SlurmUser=root
StateSaveLocation=/nonexistent
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
DefMemPerCPU=100
ReturnToService=2
Licenses=matlab:4
ScronParameters=enable
RebootProgram=/bin/true
SlurmctldParameters=allow_user_triggers
SlurmdParameters=config_overrides
NodeName=n[1-4] CPUs=4 RealMemory=4000 Gres=gpu:a:2 Feature=x,y
PartitionName=main Nodes=ALL Default=YES MaxTime=1-0
PartitionName=other Nodes=n[1-2] MaxNodes=1
";

/// Longest wait for an answer: streams without an end are left.
const ANSWER: Duration = Duration::from_millis(40);

/// Paths of the calls; the first byte of an input is an index.
const METHODS: &[&str] = &[
    "Scheduler/Submit",
    "Scheduler/Ping",
    "Scheduler/WatchJob",
    "Scheduler/ListJobs",
    "Scheduler/ListSteps",
    "Scheduler/ListNodes",
    "Scheduler/ListPartitions",
    "Scheduler/GetBatchScript",
    "Scheduler/SignalJobs",
    "Scheduler/UpdateJobs",
    "Scheduler/HoldJobs",
    "Scheduler/RequeueJobs",
    "Scheduler/SuspendJobs",
    "Scheduler/UpdateNodes",
    "Scheduler/CreateStep",
    "Scheduler/CompleteAllocation",
    "Scheduler/NotifyJob",
    "Accounting/QueryJobs",
    "Accounting/ListClusters",
    "Accounting/ListAccounts",
    "Accounting/ListUsers",
    "Accounting/ListAssociations",
    "Accounting/ListQos",
    "Accounting/AddCluster",
    "Accounting/AddAccounts",
    "Accounting/AddUsers",
    "Admin/GetConfigBundle",
    "Admin/ShowConfig",
    "Admin/IssueToken",
    "Diagnostics/GetStatistics",
    "Diagnostics/ResetStatistics",
    "Diagnostics/GetStepUsage",
    "Diagnostics/GetDowntime",
    "Accounting/AddQos",
    "Accounting/AddResource",
    "Accounting/SetCoordinators",
    "Accounting/Modify",
    "Accounting/Delete",
    "Accounting/ListTres",
    "Accounting/ListTransactions",
    "Accounting/ListEvents",
    "Accounting/ListWckeys",
    "Accounting/ListResources",
    "Accounting/ListRunawayJobs",
    "Admin/DumpState",
    "Admin/ChangePartition",
    "Admin/DeletePartition",
    "Admin/CreateNodes",
    "Admin/DeleteNodes",
    "Admin/RebootNodes",
    "Admin/UpdateSteps",
    "Admin/TopJobs",
    "Automation/AttachStep",
    "Automation/SetTrigger",
    "Automation/ListTriggers",
    "Automation/ClearTriggers",
    "Automation/GetCrontab",
    "Automation/PutCrontab",
    "Automation/RemoveCrontab",
    "Admin/Reconfigure",
    "Admin/SetDebug",
    "Scheduler/ExplainJob",
    "Scheduler/ListReservations",
    "Scheduler/ListLicenses",
    "Scheduler/CreateReservation",
    "Scheduler/UpdateReservation",
    "Scheduler/DeleteReservation",
    "Priority/ListFactors",
    "Priority/ListShares",
];

/// A controller without listeners.
struct Controller {
    runtime: tokio::runtime::Runtime,
    routes: tonic::service::Routes,
    shared: Arc<Shared>,
    wake: PlannerWake,
    threads: Vec<std::thread::JoinHandle<()>>,
    base: Vec<u8>,
    folder: tempfile::TempDir,
    calls: u64,
    _shutdown: watch::Receiver<bool>,
    _mail: mpsc::UnboundedReceiver<(String, String)>,
    _failed: watch::Receiver<Option<String>>,
}

static CONTROLLER: Mutex<Option<Controller>> = Mutex::new(None);

/// A folder in memory where there is one: a controller flushes each change.
pub(crate) fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    made.expect("a temporary folder")
}

/// The configuration of the small cluster.
pub(crate) fn config() -> (Arc<ClusterConfig>, ConfigBundle) {
    let bundle = ConfigBundle::new(vec![BundleFile {
        name: "slurm.conf".to_owned(),
        content: CONF.to_owned(),
    }]);
    let loaded = ClusterConfig::from_bundle(&bundle).expect("the configuration is right");
    (Arc::new(loaded.config), bundle)
}

fn open(folder: &Path) -> EventJournal<JournalEntry> {
    let options = EventJournalOptions::new(EVENT_VERSION, STATE_VERSION);
    EventJournal::open(folder, options).expect("journal").0
}

impl Controller {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(4)
            .enable_all()
            .build()
            .expect("runtime");
        let folder = folder();
        let (config, bundle) = config();
        let mut cluster = Cluster::new(Arc::clone(&config), now());
        let base = encode_state(&cluster).expect("state");
        let mut journal = open(folder.path());
        let mut transaction = sluice_controller::Transaction::new(&mut cluster, now());
        config_command::load(&mut transaction, config);
        let (entry, _) = transaction.finish();
        journal.append(0, &[entry]).expect("append");
        journal.sync().expect("sync");
        let (shutdown, shutdown_seen) = watch::channel(false);
        let (failed, journal_failed) = watch::channel(None);
        let (sessions, watchers) = (Arc::new(Sessions::default()), Arc::new(Watchers::default()));
        let wake = PlannerWake::default();
        let (mail, mail_queue) = mpsc::unbounded_channel();
        let outputs = Outputs {
            sessions: Arc::clone(&sessions),
            watchers: Arc::clone(&watchers),
            planner: wake.clone(),
            mail,
            triggers: mpsc::unbounded_channel().0,
        };
        let (writer, core) = Writer::new(cluster, journal, outputs, failed);
        let handle = runtime.handle().clone();
        let statistics = Arc::new(PlannerStatistics::default());
        let threads = vec![
            std::thread::spawn(move || writer.run(&handle)),
            std::thread::spawn({
                let (core, wake, statistics) =
                    (core.clone(), wake.clone(), Arc::clone(&statistics));
                move || planner::run(&core, &wake, &statistics)
            }),
        ];
        let shared = Arc::new(Shared {
            core,
            sessions,
            watchers,
            users: UserDirectory::default(),
            roles: Arc::new(Roles::new(0)),
            key: Arc::new(TokenKey::from_bytes(&[7; 32]).expect("key")),
            store: AccountingStore::new(StorageSettings::Sqlite {
                path: folder.path().join("accounting.db"),
            }),
            feed: None,
            default_accounts: Default::default(),
            roles_known: tokio::sync::watch::channel(true).0,
            encoded_jobs: Default::default(),
            bundle: parking_lot::RwLock::new(Arc::new(bundle)),
            conf_file: "/nonexistent/slurm.conf".into(),
            statistics,
            diagnostics: Arc::default(),
            started: now(),
            hostname: "h".to_owned(),
            log: None,
            shutdown,
        });
        let routes = sluice_ctld::daemon::routes(&shared);
        Self {
            runtime,
            routes,
            shared,
            wake,
            threads,
            base,
            folder,
            calls: 0,
            _shutdown: shutdown_seen,
            _mail: mail_queue,
            _failed: journal_failed,
        }
    }

    /// One call as it would come from the listener; the answer is read to its end or for a while.
    fn call(&mut self, path: &str, identity: Identity, body: Vec<u8>) {
        let mut request = http::Request::builder()
            .method("POST")
            .uri(format!("http://c/sluice.v1.{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(tonic::body::Body::new(Full::new(Bytes::from(body))))
            .expect("request");
        request.extensions_mut().insert(identity);
        let routes = self.routes.clone();
        self.runtime.block_on(async move {
            let answer = async {
                // Routes give no errors, only answers.
                let Ok(response) = routes.oneshot(request).await;
                let mut body = response.into_body();
                while let Some(Ok(_)) = body.frame().await {}
            };
            let _ = tokio::time::timeout(ANSWER, answer).await;
        });
        self.calls += 1;
    }

    fn core(&self) -> CoreHandle {
        self.shared.core.clone()
    }

    /// Ends everything; what was live must be what the journal gives.
    fn stop(self) {
        self.wake.stop();
        let core = self.core();
        // Agents' streams whose ends are told to the writer are over by now or never will be.
        self.shared.sessions.close_all();
        self.runtime.block_on(core.stop());
        let live = encode_state(&*core.snapshot()).expect("state");
        for thread in self.threads {
            thread.join().expect("no thread of the controller panics");
        }
        self.runtime.shutdown_timeout(Duration::from_secs(1));
        let journal = open(self.folder.path());
        let mut replayed: Cluster = rmp_serde::from_slice(&self.base).expect("state");
        for record in journal.replay_after(Position::ZERO) {
            let (_, record) = record.expect("record");
            for event in &record.event.events {
                sluice_controller::event::apply(&mut replayed, event);
            }
        }
        let replayed = encode_state(&replayed).expect("state");
        assert!(
            live == replayed,
            "live state and replay of the journal differ after {} calls",
            self.calls
        );
    }
}

fn frame(message: &[u8]) -> Vec<u8> {
    let mut body = vec![0];
    body.extend((message.len() as u32).to_be_bytes());
    body.extend(message);
    body
}

fn identity(which: u8) -> Identity {
    let (uid, name, source) = match which % 4 {
        0 | 3 => (0, "root", IdentitySource::Local { pid: None }),
        1 => (1, "daemon", IdentitySource::Token),
        _ => (65_534, "nobody", IdentitySource::Local { pid: Some(1) }),
    };
    Identity {
        uid,
        gid: Some(uid),
        user_name: name.to_owned(),
        source,
    }
}

fn restart() {
    let mut slot = CONTROLLER.lock();
    if let Some(old) = slot.take() {
        old.stop();
    }
    let mut new = Controller::start();
    // Nodes and jobs, so that there is something to ask for.
    for node in 1..=4 {
        new.call(
            "Agents/Connect",
            agent(node),
            stream(&agent_reports(node)[..1]),
        );
    }
    for seed in call_seeds().iter().filter(|seed| seed[0] == 0) {
        new.call(METHODS[0], identity(seed[1]), frame(&seed[2..]));
    }
    *slot = Some(new);
}

fn with_controller(act: impl FnOnce(&mut Controller)) {
    if CONTROLLER.lock().is_none() {
        restart();
    }
    if let Some(controller) = CONTROLLER.lock().as_mut() {
        act(controller);
    }
}

fn agent(node: u8) -> Identity {
    Identity {
        uid: 0,
        gid: Some(0),
        user_name: "root".to_owned(),
        source: IdentitySource::Agent(format!("n{node}")),
    }
}

fn agent_reports(node: u8) -> Vec<Vec<u8>> {
    reports()
        .into_iter()
        .map(|mut envelope| {
            if let sluice_model::launch::AgentReport::Register { node: name, .. } =
                &mut envelope.report
            {
                *name = format!("n{node}");
            }
            encode_report(&envelope).expect("report").payload
        })
        .collect()
}

fn stream<B: AsRef<[u8]>>(reports: &[B]) -> Vec<u8> {
    reports
        .iter()
        .flat_map(|payload| {
            let message = AgentMessage {
                format: 1,
                payload: payload.as_ref().to_vec(),
            };
            frame(&message.encode_to_vec())
        })
        .collect()
}

/// Calls of users and commands.
pub const CALLS: Target = Target {
    name: "calls",
    seeds: call_seeds,
    mutation: Kind::Call,
    run: |input| {
        let [method, who, message @ ..] = input else {
            return;
        };
        let path = METHODS[usize::from(*method) % METHODS.len()];
        with_controller(|controller| controller.call(path, identity(*who), frame(message)));
    },
    reset: Some(restart),
};

/// What agents say.
pub const AGENT: Target = Target {
    name: "agent",
    seeds: || {
        (1..=4)
            .map(|node| join_records(&agent_reports(node)))
            .collect()
    },
    mutation: Kind::Records,
    run: |input| {
        let reports = split_records(input);
        // The token is the one of the node that the first record names, so that most streams get behind that check.
        let node = (1..=4)
            .find(|node| {
                let name = format!("n{node}");
                reports
                    .first()
                    .is_some_and(|first| first.windows(2).any(|two| two == name.as_bytes()))
            })
            .unwrap_or(1);
        with_controller(|controller| {
            controller.call("Agents/Connect", agent(node), stream(&reports));
        });
    },
    reset: Some(restart),
};

/// Records of a journal that a controller of this process wrote, with a state they belong to: for other targets.
pub(crate) fn recorded() -> (Vec<u8>, Vec<Vec<u8>>) {
    restart();
    let seeds = call_seeds();
    let agents: Vec<Vec<u8>> = (AGENT.seeds)();
    with_controller(|controller| {
        for seed in seeds.iter().filter(|seed| usize::from(seed[0]) < 17) {
            let path = METHODS[usize::from(seed[0])];
            if path != "Scheduler/WatchJob" {
                controller.call(path, identity(seed[1]), frame(&seed[2..]));
            }
        }
        for (nth, input) in agents.iter().enumerate() {
            let node = nth as u8 + 1;
            controller.call("Agents/Connect", agent(node), stream(&split_records(input)));
        }
    });
    let controller = CONTROLLER.lock().take().expect("a controller");
    let base = controller.base.clone();
    let folder = tempfile::tempdir().expect("folder");
    controller.wake.stop();
    controller.runtime.block_on(controller.core().stop());
    // The lock is the stopped writer's until its thread has ended.
    for thread in controller.threads {
        thread.join().expect("no thread of the controller panics");
    }
    drop(folder);
    let journal = open(controller.folder.path());
    let mut reader = journal.reader_after(Position::ZERO);
    let mut records = Vec::new();
    while let Ok(Some((_, record))) = reader.next_event() {
        records.push(rmp_serde::to_vec_named(&record.event).expect("entry"));
    }
    (base, records)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A method that is added is fuzzed too. Shutdown alone is left out: what it does is to end this process's controller.
    #[test]
    fn every_method_is_a_target() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/sluice/v1");
        let mut missing = Vec::new();
        for file in std::fs::read_dir(dir).expect("proto").flatten() {
            let text = std::fs::read_to_string(file.path()).expect("a text");
            let mut service = String::new();
            for line in text.lines().map(str::trim) {
                if let Some(rest) = line.strip_prefix("service ") {
                    service = rest.trim_end_matches([' ', '{']).to_owned();
                }
                let method = line
                    .strip_prefix("rpc ")
                    .and_then(|rest| rest.split('(').next());
                if let Some(method) = method {
                    missing.push(format!("{service}/{method}"));
                }
            }
        }
        assert!(missing.len() > METHODS.len(), "{missing:?}");
        missing.retain(|name| !METHODS.contains(&name.as_str()));
        assert_eq!(missing, ["Admin/Shutdown", "Agents/Connect"]);
    }
}
