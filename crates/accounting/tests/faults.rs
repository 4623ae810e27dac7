//! The database goes away, comes back, is killed while it writes, is locked, damaged, or of another version: nothing is lost,
//! nothing counts twice, and the message says what to do.

mod support;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sluice_accounting::{
    AccountingError, AccountingFeed, AccountingStore, Batch, FeedSettings, FeedState, FeedStatus,
    JobQuery, SourceError, StorageSettings, TimeWindow, UpdateBatch, UpdateSource,
};
use sluice_model::accounting::{AccountingUpdate, JobRecord, StepRecord};
use sluice_model::ids::{JobId, StepId};
use sluice_model::time::UnixSeconds;
use support::{Backend, CLUSTER, block_on};
use tokio::sync::watch;

on_both! {
    /// Tables are made from nothing, and found again.
    an_empty_database_gets_its_tables;
    /// An older program must not write into tables it does not know.
    a_newer_schema_is_refused;
    /// `ctld` starts before the database; everything is written when it comes.
    the_feed_waits_for_the_database;
    /// Records that the journal no longer has are reported, the others written.
    a_gap_in_the_journal_is_reported;
    /// A database restored from an older backup gets the rest again.
    a_restored_backup_is_filled_up;
    /// Stopping writes what is there.
    stopping_drains_the_journal;
}

const DEADLINE: Duration = Duration::from_secs(60);

/// A journal in memory: position n is an update about job (n + 1) / 2, first its start, then its end with a step.
struct MemoryJournal {
    newest: watch::Receiver<u64>,
    /// Positions up to here are gone.
    pruned: u64,
}

fn update(position: u64) -> AccountingUpdate {
    let id = u32::try_from(position.div_ceil(2)).expect("a small journal");
    let submit = UnixSeconds(1000 + i64::from(id));
    let mut job = JobRecord::new(JobId(id), 0, submit);
    job.eligible = Some(submit);
    job.start = Some(submit);
    job.user = "alice".to_owned();
    if position.is_multiple_of(2) {
        job.end = Some(submit + 5);
        job.state = 3;
    }
    AccountingUpdate::Job(job)
}

fn step(position: u64) -> AccountingUpdate {
    let id = u32::try_from(position.div_ceil(2)).expect("a small journal");
    let submit = UnixSeconds(1000 + i64::from(id));
    AccountingUpdate::Step(StepRecord::new(JobId(id), 0, submit, StepId::Batch, submit))
}

impl UpdateSource for MemoryJournal {
    fn journal_id(&self) -> String {
        "memory".to_owned()
    }

    fn newest(&self) -> u64 {
        *self.newest.borrow()
    }

    async fn next_after(&mut self, position: u64, max: usize) -> Result<UpdateBatch, SourceError> {
        let newest = *self
            .newest
            .wait_for(|newest| *newest > position)
            .await
            .map_err(|error| SourceError(error.to_string()))?;
        let from = position.max(self.pruned);
        let through = newest.min(from + max as u64);
        let updates = (from + 1..=through)
            .flat_map(|at| [(at, update(at)), (at, step(at))])
            .collect();
        Ok(UpdateBatch {
            from,
            through,
            updates,
        })
    }
}

struct Harness {
    newest: watch::Sender<u64>,
    feed: sluice_accounting::FeedHandle,
    status: watch::Receiver<FeedStatus>,
}

fn start_feed(store: &AccountingStore, newest: u64, pruned: u64, batch_max: usize) -> Harness {
    let (sender, receiver) = watch::channel(newest);
    let settings = FeedSettings {
        batch_max,
        pause: Duration::ZERO,
        retry_min: Duration::from_millis(10),
        retry_max: Duration::from_millis(100),
        ..FeedSettings::new(CLUSTER)
    };
    let feed = AccountingFeed::start(
        store.clone(),
        settings,
        MemoryJournal {
            newest: receiver,
            pruned,
        },
    );
    Harness {
        newest: sender,
        status: feed.status(),
        feed,
    }
}

impl Harness {
    async fn until(
        &mut self,
        what: &str,
        condition: impl FnMut(&FeedStatus) -> bool,
    ) -> FeedStatus {
        match tokio::time::timeout(DEADLINE, self.status.wait_for(condition)).await {
            Ok(status) => status.expect("the feed runs").clone(),
            Err(_) => panic!(
                "not within {DEADLINE:?}: {what}; status {:?}",
                *self.feed.status().borrow()
            ),
        }
    }
}

/// Every job up to a position is there once, as its last update left it.
async fn assert_complete(store: &AccountingStore, through: u64) {
    let query = JobQuery {
        duplicates: true,
        ..JobQuery::new(TimeWindow::until(UnixSeconds(i64::MAX)))
    };
    let found = store.jobs(&query).await.expect("jobs are read");
    assert_eq!(found.len() as u64, through.div_ceil(2));
    for (found, id) in found.iter().zip(1_u64..) {
        assert_eq!(u64::from(found.job.job_id.0), id);
        assert_eq!(found.steps.len(), 1);
        assert_eq!(
            found.job.end.is_some(),
            id * 2 <= through,
            "job {id} of {through}"
        );
    }
    assert_eq!(
        store.outbox_position(CLUSTER, "memory").await.unwrap(),
        through
    );
}

async fn an_empty_database_gets_its_tables(backend: Backend) {
    let first = backend.store().await;
    first.ping().await.unwrap();
    assert_eq!(first.qos().await.unwrap().len(), 1);
    first.close().await;
    // A second program on the same database, at the same time as a third.
    let (second, third) = tokio::join!(backend.store(), backend.store());
    assert_eq!(second.qos().await.unwrap(), third.qos().await.unwrap());
}

async fn a_newer_schema_is_refused(backend: Backend) {
    let store = backend.store().await;
    store.close().await;
    let insert = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (9999, 'later', true, '', 0)";
    match backend.settings() {
        StorageSettings::Sqlite { path } => {
            let pool = sqlx::SqlitePool::connect(&format!("sqlite://{}", path.display()))
                .await
                .unwrap();
            sqlx::raw_sql(insert).execute(&pool).await.unwrap();
            pool.close().await;
        }
        StorageSettings::Postgres(sluice_accounting::PostgresSettings::Parts {
            host,
            user,
            database,
            ..
        }) => {
            let options = sqlx::postgres::PgConnectOptions::new()
                .host(&host)
                .username(&user)
                .database(&database);
            let pool = sqlx::PgPool::connect_with(options).await.unwrap();
            sqlx::raw_sql(insert).execute(&pool).await.unwrap();
            pool.close().await;
        }
        other => panic!("{other:?}"),
    }
    let error = AccountingStore::open(backend.settings()).await.unwrap_err();
    assert!(matches!(error, AccountingError::Schema { .. }), "{error}");
    assert!(!error.is_retryable());
    assert!(
        error.to_string().contains("9999") && error.to_string().contains("newer version"),
        "{error}"
    );
}

async fn the_feed_waits_for_the_database(mut backend: Backend) {
    backend.go_away();
    let store = AccountingStore::new(backend.settings());
    let mut harness = start_feed(&store, 9, 0, 2);
    let away = harness
        .until("the feed notices", |status| {
            status.state == FeedState::Retrying
        })
        .await;
    let reason = away.last_error.unwrap();
    assert!(
        reason.contains("is not available") && reason.contains("hint: records are kept"),
        "{reason}"
    );
    let error = store.ping().await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    harness.newest.send_replace(21);
    harness
        .until("the lag is seen", |status| {
            status.newest == 21 && status.position == 0
        })
        .await;
    backend.come_back();
    let back = harness
        .until("all is written", |status| status.position == 21)
        .await;
    assert!(back.is_connected() && back.last_error.is_none() && back.lag() == 0);
    assert_complete(&store, 21).await;
}

async fn a_gap_in_the_journal_is_reported(backend: Backend) {
    let store = backend.store().await;
    let mut harness = start_feed(&store, 20, 8, 100);
    let status = harness
        .until("all is written", |status| status.position == 20)
        .await;
    assert_eq!(status.gap, Some((0, 8)));
    let found = store
        .jobs(&JobQuery::new(TimeWindow::until(UnixSeconds(i64::MAX))))
        .await
        .unwrap();
    assert_eq!(
        found
            .iter()
            .map(|found| found.job.job_id.0)
            .collect::<Vec<_>>(),
        [5, 6, 7, 8, 9, 10]
    );
}

async fn a_restored_backup_is_filled_up(backend: Backend) {
    let store = backend.store().await;
    let mut harness = start_feed(&store, 10, 0, 3);
    harness
        .until("all is written", |status| status.position == 10)
        .await;
    // The backup: what it holds is what an older position says, with the records after it gone.
    let statements = "DELETE FROM jobs WHERE job_id > 2; DELETE FROM steps WHERE job_id > 2; UPDATE outbox SET position = 4";
    match backend.settings() {
        StorageSettings::Sqlite { path } => {
            let pool = sqlx::SqlitePool::connect(&format!("sqlite://{}", path.display()))
                .await
                .unwrap();
            sqlx::raw_sql(statements).execute(&pool).await.unwrap();
            pool.close().await;
        }
        StorageSettings::Postgres(sluice_accounting::PostgresSettings::Parts {
            host,
            user,
            database,
            ..
        }) => {
            let options = sqlx::postgres::PgConnectOptions::new()
                .host(&host)
                .username(&user)
                .database(&database);
            let pool = sqlx::PgPool::connect_with(options).await.unwrap();
            sqlx::raw_sql(statements).execute(&pool).await.unwrap();
            pool.close().await;
        }
        other => panic!("{other:?}"),
    }
    harness.newest.send_replace(12);
    harness
        .until("the rest is written again", |status| status.position == 12)
        .await;
    assert_complete(&store, 12).await;
}

async fn stopping_drains_the_journal(backend: Backend) {
    let store = backend.store().await;
    let mut harness = start_feed(&store, 2, 0, 1);
    harness
        .until("the feed runs", |status| status.position == 2)
        .await;
    harness.newest.send_replace(40);
    let last = harness.feed.stop(DEADLINE).await;
    assert_eq!((last.state, last.position), (FeedState::Stopped, 40));
    assert_complete(&store, 40).await;
}

/// Without accounting the feed reads nothing and says so; queries say what to configure.
#[test]
fn none_is_disabled() {
    block_on(async {
        let store = AccountingStore::new(StorageSettings::None);
        let harness = start_feed(&store, 5, 0, 1);
        assert_eq!(harness.status.borrow().state, FeedState::Disabled);
        let error = store
            .jobs(&JobQuery::new(TimeWindow::until(UnixSeconds(1))))
            .await
            .unwrap_err();
        assert!(matches!(error, AccountingError::Disabled), "{error}");
        harness.feed.stop(DEADLINE).await;
    });
}

/// The server crashes again and again while the feed writes: a commit that was not acknowledged may or may not be there.
#[test]
fn postgres_killed_while_it_writes_loses_and_doubles_nothing() {
    const TOTAL: u64 = 4000;
    let mut backend = Backend::postgres();
    block_on(async {
        let store = backend.store().await;
        let mut harness = start_feed(&store, TOTAL, 0, 50);
        for stage in 1..=3 {
            harness
                .until("the feed gets on", |status| status.position >= stage * 600)
                .await;
            backend.go_away();
            harness
                .until("the feed notices", |status| {
                    status.state == FeedState::Retrying
                })
                .await;
            backend.come_back();
        }
        harness
            .until("all is written", |status| status.position == TOTAL)
            .await;
        assert_complete(&store, TOTAL).await;
    });
}

/// Connections that the server ends (a restart, an administrator) are replaced.
#[test]
fn postgres_restart_between_requests_is_not_noticed_by_queries() {
    let Backend::Postgres(mut server) = Backend::postgres() else {
        unreachable!("a server was asked for")
    };
    block_on(async {
        let store = AccountingStore::open(server.settings("accounting"))
            .await
            .unwrap();
        store.ping().await.unwrap();
        server.stop(Signal::SIGINT);
        let error = store.ping().await.unwrap_err();
        assert!(
            matches!(error, AccountingError::Unavailable { .. }),
            "{error}"
        );
        assert!(
            error.to_string().contains("No such file") || error.to_string().contains("refused"),
            "the cause is named: {error}"
        );
        server.launch();
        store.ping().await.unwrap();
    });
}

/// A login that may not connect is told so, with the server's words.
#[test]
fn postgres_refusals_are_named() {
    let Backend::Postgres(server) = Backend::postgres() else {
        unreachable!("a server was asked for")
    };
    block_on(async {
        let StorageSettings::Postgres(sluice_accounting::PostgresSettings::Parts {
            host,
            port,
            database,
            ..
        }) = server.settings("x")
        else {
            unreachable!("parts were asked for")
        };
        let user = "stranger".to_owned();
        let settings = sluice_accounting::PostgresSettings::Parts {
            host,
            port,
            user,
            password: None,
            database,
        };
        let error = AccountingStore::open(StorageSettings::Postgres(settings))
            .await
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("role \"stranger\" does not exist"),
            "{error}"
        );
        let url = sluice_accounting::PostgresSettings::Url("postgres://[".to_owned());
        let error = AccountingStore::open(StorageSettings::Postgres(url))
            .await
            .unwrap_err();
        assert!(matches!(error, AccountingError::Settings { .. }), "{error}");
    });
}

/// The other half of [`sqlite_writer_killed_while_it_writes`]: writes until it is killed. Does nothing when run by itself.
#[test]
fn writer_process() {
    let Some(path) = std::env::var_os("SLUICE_TEST_WRITER_DATABASE") else {
        return;
    };
    block_on(async {
        let store = AccountingStore::new(StorageSettings::Sqlite { path: path.into() });
        let mut harness = start_feed(&store, 1_000_000, 0, 200);
        harness
            .until("killed before", |status| status.position == 1_000_000)
            .await;
    });
}

/// SIGKILL in the middle of a transaction: what is there is exactly what the stored position says.
#[test]
fn sqlite_writer_killed_while_it_writes() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("accounting.db");
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writer_process", "--test-threads=1"])
        .env("SLUICE_TEST_WRITER_DATABASE", &path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    block_on(async {
        let deadline = Instant::now() + DEADLINE;
        let store = AccountingStore::new(StorageSettings::Sqlite { path: path.clone() });
        loop {
            let position = store.outbox_position(CLUSTER, "memory").await;
            if position.as_ref().is_ok_and(|position| *position >= 1000) {
                break;
            }
            assert!(
                Instant::now() < deadline,
                "the writer does not write: {position:?}"
            );
            assert!(
                writer.try_wait().unwrap().is_none(),
                "the writer ended by itself"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        writer.kill().unwrap();
        assert_eq!(writer.wait().unwrap().signal(), Some(9));
        let stored = store.outbox_position(CLUSTER, "memory").await.unwrap();
        assert_complete(&store, stored).await;
        // And the next writer goes on from there.
        let mut harness = start_feed(&store, stored + 500, 0, 200);
        harness
            .until("all is written", |status| status.position == stored + 500)
            .await;
        assert_complete(&store, stored + 500).await;
    });
}

/// A write that its caller gives up leaves nothing behind.
#[test]
fn an_abandoned_write_leaves_nothing() {
    let backend = Backend::sqlite();
    block_on(async {
        let store = backend.store().await;
        let updates: Arc<Vec<_>> = Arc::new((1..=5000).map(|at| (at, update(at))).collect());
        for wait_ms in [1, 5, 20] {
            let batch = Batch {
                journal_id: "memory",
                from: 0,
                through: 5000,
                updates: &updates,
            };
            let given_up = tokio::time::timeout(
                Duration::from_millis(wait_ms),
                store.write_batch(CLUSTER, batch),
            )
            .await;
            assert!(
                given_up.is_err(),
                "5000 records are written faster than this test expects"
            );
        }
        assert_eq!(store.outbox_position(CLUSTER, "memory").await.unwrap(), 0);
        let found = store
            .jobs(&JobQuery::new(TimeWindow::until(UnixSeconds(i64::MAX))))
            .await
            .unwrap();
        assert_eq!(found.len(), 0);
    });
}

/// A backup tool that locks the file delays the feed and loses nothing; readers go on.
#[test]
fn a_locked_file_is_busy_and_not_damaged() {
    let backend = Backend::sqlite();
    block_on(async {
        let store = backend.store().await;
        let StorageSettings::Sqlite { path } = backend.settings() else {
            unreachable!("a file was asked for")
        };
        let locker = sqlx::SqlitePool::connect(&format!("sqlite://{}", path.display()))
            .await
            .unwrap();
        let lock = locker.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let mut harness = start_feed(&store, 4, 0, 100);
        let status = harness
            .until("the lock is noticed", |status| {
                status.state == FeedState::Retrying
            })
            .await;
        let reason = status.last_error.unwrap();
        assert!(
            reason.contains("is busy") && reason.contains("locked"),
            "{reason}"
        );
        store.ping().await.unwrap();
        lock.rollback().await.unwrap();
        harness
            .until("all is written", |status| status.position == 4)
            .await;
        assert_complete(&store, 4).await;
    });
}

/// Garbage in place of the file is called that, and is not overwritten.
#[test]
fn a_damaged_file_is_named_and_left_alone() {
    block_on(async {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("accounting.db");
        let garbage = b"this is not a database, however long one looks at it. ".repeat(200);
        std::fs::write(&path, &garbage).unwrap();
        let error = AccountingStore::open(StorageSettings::Sqlite { path: path.clone() })
            .await
            .unwrap_err();
        assert!(matches!(error, AccountingError::Corrupt { .. }), "{error}");
        assert!(!error.is_retryable());
        let text = error.to_string();
        assert!(
            text.contains("accounting.db") && text.contains("hint: restore it from a backup"),
            "{text}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), garbage);
    });
}

/// Records show who ran what: the file is for its owner only.
#[test]
fn the_file_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let backend = Backend::sqlite();
    block_on(async {
        backend.store().await;
        let StorageSettings::Sqlite { path } = backend.settings() else {
            unreachable!("a file was asked for")
        };
        assert_eq!(
            std::fs::metadata(path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    });
}
