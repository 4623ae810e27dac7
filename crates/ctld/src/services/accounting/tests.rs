//! The Accounting service against a real store: reads, scope and refusals. Expected texts are those of the golden outputs.

use std::collections::HashMap;
use std::path::Path;

use sluice_accounting::{Batch, StorageSettings};
use sluice_config::ClusterConfig;
use sluice_controller::Cluster;
use sluice_controller::transaction::JournalEntry;
use sluice_model::accounting::{AccountingUpdate, JobRecord, StepRecord};
use sluice_model::ids::{JobId, StepId};
use sluice_model::time::UnixSeconds;
use sluice_proto::{error_code_of, v1};
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt;
use tonic::Code;

use super::*;
use crate::auth::{IdentitySource, Role, Roles, TokenKey, UserDirectory};
use crate::core::planner::{PlannerStatistics, PlannerWake};
use crate::core::writer::{Outputs, Writer};
use crate::core::{Sessions, Watchers, now};
use crate::journal::{EventJournal, EventJournalOptions};

const ALICE: u32 = 5_001;
const BOB: u32 = 5_002;
const OPERATOR: u32 = 5_003;

/// A service on a state of its own, with `more` in its slurm.conf. Nobody works on the queue of its writer.
fn service(dir: &Path, more: &str, storage: StorageSettings) -> AccountingService {
    let conf = dir.join("slurm.conf");
    let text = format!(
        "ClusterName=oracle\nSlurmctldHost=localhost\nSlurmUser=root\nStateSaveLocation={0}/state\n\
         NodeName=n1 CPUs=1\nPartitionName=main Nodes=n1\n{more}\n",
        dir.display()
    );
    std::fs::write(&conf, text).expect("a file");
    let loaded = ClusterConfig::load(&conf).unwrap_or_else(|errors| panic!("{errors}"));
    let state = dir.join("state");
    std::fs::create_dir_all(&state).expect("a folder");
    let (journal, _) = EventJournal::<JournalEntry>::open(&state, EventJournalOptions::new(1, 1))
        .expect("a journal");
    let (mail, _) = mpsc::unbounded_channel();
    let (sessions, watchers) = (Arc::new(Sessions::default()), Arc::new(Watchers::default()));
    let outputs = Outputs {
        sessions: Arc::clone(&sessions),
        watchers: Arc::clone(&watchers),
        planner: PlannerWake::default(),
        mail,
        triggers: mpsc::unbounded_channel().0,
    };
    let cluster = Cluster::new(Arc::new(loaded.config), now());
    let (_, core) = Writer::new(cluster, journal, outputs, watch::channel(None).0);
    let roles = Roles::new(0);
    roles.set_admin_levels(HashMap::from([(OPERATOR, Role::Operator)]));
    let shared = Shared {
        diagnostics: Arc::default(),
        default_accounts: parking_lot::RwLock::default(),
        roles_known: watch::channel(false).0,
        encoded_jobs: Default::default(),
        core,
        sessions,
        watchers,
        users: UserDirectory::default(),
        roles: Arc::new(roles),
        key: Arc::new(TokenKey::load_or_create(&state.join("key")).expect("a key")),
        store: AccountingStore::new(storage),
        feed: None,
        bundle: parking_lot::RwLock::new(Arc::new(loaded.bundle)),
        conf_file: conf,
        statistics: Arc::new(PlannerStatistics::default()),
        started: now(),
        hostname: "localhost".to_owned(),
        log: None,
        shutdown: watch::channel(false).0,
    };
    AccountingService {
        shared: Arc::new(shared),
    }
}

fn sqlite(dir: &Path) -> StorageSettings {
    StorageSettings::Sqlite {
        path: dir.join("db").join("accounting.db"),
    }
}

fn by<T>(uid: u32, name: &str, message: T) -> Request<T> {
    let source = IdentitySource::Local { pid: None };
    let mut request = Request::new(message);
    request.extensions_mut().insert(Identity {
        uid,
        gid: None,
        user_name: name.to_owned(),
        source,
    });
    request
}

/// Writes `jobs` jobs of alice, then one of bob, each with a step and a script.
async fn fill(service: &AccountingService, jobs: u32) {
    let mut updates = Vec::new();
    for id in 1..=jobs + 1 {
        let submit = UnixSeconds(1_000);
        let (user, uid) = if id > jobs {
            ("bob", BOB)
        } else {
            ("alice", ALICE)
        };
        let job = JobRecord {
            user: user.to_owned(),
            uid,
            eligible: Some(submit),
            script: Some(format!("#!/bin/sh\n# {id}\n")),
            environment: Some("A=b\n".to_owned()),
            ..JobRecord::new(JobId(id), 0, submit)
        };
        updates.push((u64::from(id), AccountingUpdate::Job(job)));
        let step = StepRecord::new(JobId(id), 0, submit, StepId::Batch, submit);
        updates.push((u64::from(id), AccountingUpdate::Step(step)));
    }
    let batch = Batch {
        journal_id: "j",
        from: 0,
        through: u64::from(jobs + 1),
        updates: &updates,
    };
    service
        .shared
        .store
        .write_batch("oracle", batch)
        .await
        .expect("written");
}

/// The chunks that a caller gets for all jobs.
async fn chunks(
    service: &AccountingService,
    uid: u32,
    name: &str,
    query: v1::JobQuery,
) -> Vec<Vec<v1::JobWithSteps>> {
    let query = v1::JobQuery {
        start: Some(0),
        ..query
    };
    let request = by(uid, name, QueryJobsRequest { query: Some(query) });
    let mut stream = service
        .query_jobs(request)
        .await
        .expect("an answer")
        .into_inner();
    let mut chunks = Vec::new();
    while let Some(chunk) = stream.next().await {
        chunks.push(chunk.expect("a chunk").jobs);
    }
    chunks
}

/// A command retries or gives up by these: a database that is away is not a refusal.
#[test]
fn database_errors_keep_their_kind() {
    let away = AccountingError::Unavailable {
        target: "SQLite file /x".to_owned(),
        doing: "reading jobs",
        reason: "no such folder".to_owned(),
    };
    let status = store_status(&away);
    assert_eq!(error_code_of(&status), Some(ErrorCode::DbConnection));
    assert!(
        status
            .message()
            .starts_with("Unable to connect to database: SQLite file /x")
    );
    let exists = store_status(&AccountingError::Exists {
        what: "account a on cluster c".to_owned(),
    });
    assert_eq!(
        (exists.code(), error_code_of(&exists)),
        (Code::AlreadyExists, None)
    );
    assert_eq!(exists.message(), " Already existing account a on cluster c");
}

#[tokio::test]
async fn without_accounting_everything_is_disabled() {
    let dir = tempfile::TempDir::new().expect("a folder");
    let service = service(dir.path(), "", StorageSettings::None);
    let status = service
        .list_qos(by(0, "root", ListQosRequest::default()))
        .await
        .expect_err("refused");
    assert_eq!(error_code_of(&status), Some(ErrorCode::Disabled));
    assert_eq!(status.message(), "Slurm accounting storage is disabled");
}

/// A file stands where the folder of the database should be.
#[tokio::test]
async fn a_database_that_is_away_is_told_as_such() {
    let dir = tempfile::TempDir::new().expect("a folder");
    std::fs::write(dir.path().join("db"), "in the way").expect("a file");
    let service = service(dir.path(), "", sqlite(dir.path()));
    let request = by(
        0,
        "root",
        QueryJobsRequest {
            query: Some(v1::JobQuery::default()),
        },
    );
    let status = service
        .query_jobs(request)
        .await
        .map(drop)
        .expect_err("refused");
    assert_eq!(
        error_code_of(&status),
        Some(ErrorCode::DbConnection),
        "{}",
        status.message()
    );
}

/// No chunk above 1000 jobs, and nothing lost or doubled between two.
#[tokio::test]
async fn jobs_come_in_chunks() {
    let dir = tempfile::TempDir::new().expect("a folder");
    let service = service(dir.path(), "", sqlite(dir.path()));
    fill(&service, 1_200).await;
    let chunks = chunks(&service, ALICE, "alice", v1::JobQuery::default()).await;
    assert!(
        chunks.len() >= 2
            && chunks
                .iter()
                .all(|chunk| !chunk.is_empty() && chunk.len() <= 1_000)
    );
    let ids: Vec<u32> = chunks
        .iter()
        .flatten()
        .map(|found| found.job.as_ref().map_or(0, |job| job.job_id))
        .collect();
    assert_eq!(ids, (1..=1_201).collect::<Vec<u32>>());
    assert!(chunks.iter().flatten().all(|found| found.steps.len() == 1));
}

/// slurm.conf(5), PrivateData=jobs: others' jobs are for operators; naming the other user does not help.
#[tokio::test]
async fn private_jobs_are_hidden_from_users() {
    let dir = tempfile::TempDir::new().expect("a folder");
    let service = service(dir.path(), "PrivateData=jobs", sqlite(dir.path()));
    fill(&service, 2).await;
    let bobs = v1::JobQuery {
        users: vec!["bob".to_owned()],
        ..Default::default()
    };
    let count = async |uid, name, query| chunks(&service, uid, name, query).await.concat().len();
    assert_eq!(count(ALICE, "alice", v1::JobQuery::default()).await, 2);
    assert_eq!(count(ALICE, "alice", bobs.clone()).await, 0);
    assert_eq!(count(BOB, "bob", bobs.clone()).await, 1);
    assert_eq!(count(OPERATOR, "op", v1::JobQuery::default()).await, 3);
    assert_eq!(count(OPERATOR, "op", bobs).await, 1);
}

/// A script may hold secrets: only its owner and operators get it, and only when they ask.
#[tokio::test]
async fn scripts_are_for_their_owner() {
    let dir = tempfile::TempDir::new().expect("a folder");
    let service = service(dir.path(), "", sqlite(dir.path()));
    fill(&service, 1).await;
    let with_script = v1::JobQuery {
        with_script: true,
        ..Default::default()
    };
    let texts = async |uid, name, query| -> Vec<(Option<String>, Option<String>)> {
        let found = chunks(&service, uid, name, query)
            .await
            .concat()
            .into_iter()
            .filter_map(|found| found.job);
        found.map(|job| (job.script, job.environment)).collect()
    };
    let (first, second) = (
        Some("#!/bin/sh\n# 1\n".to_owned()),
        Some("#!/bin/sh\n# 2\n".to_owned()),
    );
    assert_eq!(
        texts(ALICE, "alice", with_script.clone()).await,
        [(first.clone(), None), (None, None)]
    );
    assert_eq!(
        texts(0, "root", with_script).await,
        [(first, None), (second, None)]
    );
    assert_eq!(
        texts(0, "root", v1::JobQuery::default()).await,
        [(None, None), (None, None)]
    );
}

/// Golden sacctmgr-add-user-alice; clusters and rights are for administrators, the rest for operators too.
#[tokio::test]
async fn only_operators_add() {
    let dir = tempfile::TempDir::new().expect("a folder");
    let service = service(dir.path(), "", sqlite(dir.path()));
    let cluster = || AddClusterRequest {
        name: "oracle".to_owned(),
        ..Default::default()
    };
    let account = || AddAccountsRequest {
        names: vec!["bio".to_owned()],
        ..Default::default()
    };
    let user = || AddUsersRequest {
        names: vec!["mallory".to_owned()],
        accounts: vec!["bio".to_owned()],
        ..Default::default()
    };
    let admin = || AddUsersRequest {
        admin_level: Some(v1::AdminLevel::Administrator.into()),
        ..user()
    };
    let denied = |status: Status| {
        assert_eq!(
            error_code_of(&status),
            Some(ErrorCode::AccessDenied),
            "{}",
            status.message()
        );
        status.message().to_owned()
    };
    denied(
        service
            .add_cluster(by(OPERATOR, "op", cluster()))
            .await
            .expect_err("refused"),
    );
    service
        .add_cluster(by(0, "root", cluster()))
        .await
        .expect("added");
    denied(
        service
            .add_accounts(by(ALICE, "alice", account()))
            .await
            .expect_err("refused"),
    );
    service
        .add_accounts(by(OPERATOR, "op", account()))
        .await
        .expect("added");
    let text = denied(
        service
            .add_users(by(ALICE, "alice", user()))
            .await
            .expect_err("refused"),
    );
    assert_eq!(
        text,
        "Access/permission denied (Only admins/operators/coordinators can add accounts)"
    );
    denied(
        service
            .add_users(by(OPERATOR, "op", admin()))
            .await
            .expect_err("refused"),
    );
    service
        .add_users(by(OPERATOR, "op", user()))
        .await
        .expect("added");
}

/// AdminLevel comes into force when it is given, for a user that this host knows.
#[tokio::test]
async fn a_new_administrator_is_one_at_once() {
    let dir = tempfile::TempDir::new().expect("a folder");
    let service = service(dir.path(), "", sqlite(dir.path()));
    let store = &service.shared.store;
    let change = sluice_accounting::Change {
        actor: "root".to_owned(),
        now: now(),
    };
    store
        .ensure_cluster(&change, "oracle")
        .await
        .expect("a cluster");
    let Some(daemon) = service
        .shared
        .users
        .find_name("daemon")
        .await
        .expect("a look-up")
    else {
        panic!("every Unix system has a user daemon");
    };
    let identity = by(daemon.uid, "daemon", ())
        .extensions()
        .get::<Identity>()
        .cloned()
        .expect("an identity");
    assert!(!service.shared.roles.is_privileged(&identity));
    let request = AddUsersRequest {
        names: vec!["daemon".to_owned()],
        accounts: vec!["root".to_owned()],
        admin_level: Some(v1::AdminLevel::Operator.into()),
        ..Default::default()
    };
    service
        .add_users(by(0, "root", request))
        .await
        .expect("added");
    assert_eq!(service.shared.roles.role_of(&identity), Role::Operator);
}

/// A tree with two accounts, alice in one and its coordinator.
async fn with_coordinator(dir: &Path) -> AccountingService {
    let service = service(dir, "", sqlite(dir));
    let change = sluice_accounting::Change {
        actor: "root".to_owned(),
        now: now(),
    };
    let ensured = service.shared.store.ensure_cluster(&change, "oracle");
    ensured.await.expect("a cluster");
    for (name, parent) in [("bio", ""), ("genes", "bio"), ("physics", "")] {
        let request = AddAccountsRequest {
            names: vec![name.to_owned()],
            parent: parent.to_owned(),
            ..Default::default()
        };
        let added = service.add_accounts(by(0, "root", request));
        added.await.expect("an account");
    }
    for (user, account) in [("alice", "bio"), ("bob", "physics"), ("carol", "genes")] {
        let request = AddUsersRequest {
            names: vec![user.to_owned()],
            accounts: vec![account.to_owned()],
            ..Default::default()
        };
        let added = service.add_users(by(0, "root", request));
        added.await.expect("a user");
    }
    let request = SetCoordinatorsRequest {
        accounts: vec!["bio".to_owned()],
        users: vec!["alice".to_owned()],
        ..Default::default()
    };
    let set = service.set_coordinators(by(0, "root", request));
    set.await.expect("a coordinator");
    service
}

fn modify(
    entity: v1::AccountingEntity,
    name: &str,
    account: &str,
    field: &str,
    value: &str,
) -> ModifyRequest {
    ModifyRequest {
        entity: entity as i32,
        selection: Some(v1::EntitySelection {
            names: vec![name.to_owned()],
            accounts: Some(account.to_owned())
                .filter(|name| !name.is_empty())
                .into_iter()
                .collect(),
            ..Default::default()
        }),
        assignments: vec![v1::Assignment {
            field: field.to_owned(),
            value: value.to_owned(),
            ..Default::default()
        }],
        dry_run: false,
    }
}

/// sacctmgr(1): coordinators work in and below their accounts, everybody chooses the own default account, and nobody else changes
/// anything.
#[tokio::test]
async fn coordinators_work_below_their_accounts_only() {
    use v1::AccountingEntity::{Account, Qos, User};
    let dir = tempfile::TempDir::new().expect("a folder");
    let service = with_coordinator(dir.path()).await;
    let try_as = async |uid: u32, who: &str, request: ModifyRequest| {
        let done = service.modify(by(uid, who, request)).await;
        done.map(|reply| reply.into_inner().associations.len())
            .map_err(|status| error_code_of(&status))
    };
    let denied = Err(Some(ErrorCode::AccessDenied));
    let limit = |entity, name, account| modify(entity, name, account, "max_jobs", "3");
    assert_eq!(
        try_as(ALICE, "alice", limit(User, "carol", "genes")).await,
        Ok(1)
    );
    assert_eq!(
        try_as(ALICE, "alice", limit(Account, "genes", "")).await,
        Ok(1)
    );
    assert_eq!(
        try_as(ALICE, "alice", limit(User, "bob", "physics")).await,
        denied
    );
    assert_eq!(
        try_as(BOB, "bob", limit(User, "carol", "genes")).await,
        denied
    );
    assert_eq!(
        try_as(BOB, "bob", limit(User, "bob", "physics")).await,
        denied
    );
    let level = modify(User, "alice", "", "admin_level", "administrator");
    assert_eq!(try_as(ALICE, "alice", level.clone()).await, denied);
    assert_eq!(try_as(OPERATOR, "op", level).await, denied);
    let priority = modify(Qos, "normal", "", "priority", "9");
    assert_eq!(try_as(ALICE, "alice", priority).await, denied);
    let own = modify(User, "bob", "", "default_account", "physics");
    assert_eq!(try_as(BOB, "bob", own).await, Ok(0));
    let foreign = modify(User, "carol", "", "default_account", "genes");
    assert_eq!(try_as(BOB, "bob", foreign).await, denied);
    let add = |account: &str| AddUsersRequest {
        names: vec!["dave".to_owned()],
        accounts: vec![account.to_owned()],
        ..Default::default()
    };
    assert!(
        service
            .add_users(by(ALICE, "alice", add("physics")))
            .await
            .is_err()
    );
    assert!(
        service
            .add_users(by(ALICE, "alice", add("genes")))
            .await
            .is_ok()
    );
    let remove = |name: &str| DeleteRequest {
        entity: User as i32,
        selection: Some(v1::EntitySelection {
            names: vec![name.to_owned()],
            ..Default::default()
        }),
        dry_run: false,
    };
    assert!(
        service
            .delete(by(ALICE, "alice", remove("bob")))
            .await
            .is_err()
    );
    assert!(
        service
            .delete(by(BOB, "bob", remove("dave")))
            .await
            .is_err()
    );
    assert!(
        service
            .delete(by(ALICE, "alice", remove("dave")))
            .await
            .is_ok()
    );
    let rows = service.shared.store.associations(None).await.expect("rows");
    let limits: Vec<(&str, Option<u32>)> = rows
        .iter()
        .map(|row| (row.user.as_str(), row.limits.max_jobs))
        .filter(|(user, _)| ["bob", "carol", "dave"].contains(user))
        .collect();
    assert_eq!(limits, [("carol", Some(3)), ("bob", None)]);
}

/// A user or an account is no QOS of the same name, also when all its rows are another cluster's.
#[test]
fn usage_is_set_on_what_the_request_is_about() {
    use v1::AccountingEntity::{Account, Qos};
    let row = |id: u32, cluster: &str| v1::AssociationRecord {
        id,
        cluster: cluster.to_owned(),
        ..Default::default()
    };
    let reply = |associations| ChangeReply {
        names: vec!["normal".to_owned()],
        associations,
        ..Default::default()
    };
    let changed = |entity, reply| UsageOf::changed(entity, "oracle", &reply);
    let rows = |rows: &[u32]| UsageOf {
        rows: rows.to_vec(),
        qos: Vec::new(),
    };
    assert_eq!(changed(Account, reply(vec![row(7, "other")])), rows(&[]));
    let both = vec![row(7, "other"), row(8, "oracle")];
    assert_eq!(changed(Account, reply(both)), rows(&[8]));
    let qos = UsageOf {
        rows: Vec::new(),
        qos: vec!["normal".to_owned()],
    };
    assert_eq!(changed(Qos, reply(Vec::new())), qos);
}
