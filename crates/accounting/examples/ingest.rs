//! Measures the accounting store: records written a second, and how long sacct's usual questions take on a history.
//!
//! `cargo run --release -p sluice-accounting --example ingest -- TARGET [JOBS]` where TARGET is a path of a SQLite file to be made
//! or a `postgres://` URL of an empty database; JOBS is 100000 unless given. Each job is one record with a batch step and one
//! numbered step, written when it has ended, in batches of 2000 updates. The history covers 30 days; "today" is the last of them.

use std::time::Instant;

use sluice_accounting::{
    AccountingStore, Batch, JobQuery, PostgresSettings, StorageSettings, TimeWindow,
};
use sluice_model::accounting::{AccountingUpdate, JobRecord, StepRecord};
use sluice_model::ids::{JobId, StepId};
use sluice_model::time::UnixSeconds;

const DAY_SECS: i64 = 86_400;
const HISTORY_SECS: i64 = 30 * DAY_SECS;
const BEGIN: i64 = 1_790_000_000;
const BATCH_MAX: u64 = 2000;
const CLUSTER: &str = "bench";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let target = arguments
        .next()
        .ok_or("usage: ingest FILE|postgres://URL [JOBS]")?;
    let jobs: u32 = arguments
        .next()
        .map_or(Ok(100_000), |count| count.parse())?;
    let settings = if target.starts_with("postgres") {
        StorageSettings::Postgres(PostgresSettings::Url(target))
    } else {
        StorageSettings::Sqlite {
            path: target.into(),
        }
    };
    let store = AccountingStore::open(settings).await?;

    let began = Instant::now();
    let mut position = store.outbox_position(CLUSTER, "bench").await?;
    let total = u64::from(jobs) * 3;
    while position < total {
        let through = total.min(position + BATCH_MAX);
        let updates: Vec<(u64, AccountingUpdate)> = (position + 1..=through)
            .map(|at| (at, update(at, jobs)))
            .collect();
        position = store
            .write_batch(
                CLUSTER,
                Batch {
                    journal_id: "bench",
                    from: position,
                    through,
                    updates: &updates,
                },
            )
            .await?
            .position;
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{jobs} jobs with 2 steps each: {seconds:.1} s, {:.0} jobs/s",
        f64::from(jobs) / seconds
    );

    let end = UnixSeconds(BEGIN + HISTORY_SECS);
    let today = JobQuery::new(TimeWindow {
        start: end - DAY_SECS,
        end,
    });
    time("sacct -a -S today", &store, &today).await?;
    time(
        "sacct -a -X -S today",
        &store,
        &JobQuery {
            allocations_only: true,
            ..today.clone()
        },
    )
    .await?;
    time(
        "sacct -u user7 -S today",
        &store,
        &JobQuery {
            users: vec!["user7".to_owned()],
            ..today.clone()
        },
    )
    .await?;
    let one = vec![format!("{}", jobs / 2).parse()?];
    time(
        "sacct -j ID",
        &store,
        &JobQuery {
            jobs: one,
            ..JobQuery::new(TimeWindow::until(end))
        },
    )
    .await?;
    let now = JobQuery {
        states: vec![1],
        ..JobQuery::new(TimeWindow { start: end, end })
    };
    time("sacct -a -s R (now)", &store, &now).await?;
    Ok(())
}

async fn time(
    what: &str,
    store: &AccountingStore,
    query: &JobQuery,
) -> Result<(), Box<dyn std::error::Error>> {
    let began = Instant::now();
    let found = store.jobs(query).await?;
    println!(
        "{what}: {} jobs in {:.1} ms",
        found.len(),
        began.elapsed().as_secs_f64() * 1000.0
    );
    Ok(())
}

/// Three updates a job: itself and two steps.
fn update(position: u64, jobs: u32) -> AccountingUpdate {
    let id = u32::try_from(position.div_ceil(3)).unwrap_or(u32::MAX);
    let submit = UnixSeconds(BEGIN + i64::from(id) * HISTORY_SECS / i64::from(jobs.max(1)));
    let (start, end) = (submit + 60, submit + 60 + i64::from(id % 7200));
    match position % 3 {
        1 => AccountingUpdate::Job(JobRecord {
            user: format!("user{}", id % 100),
            uid: 1000 + id % 100,
            account: format!("account{}", id % 20),
            partition: "main".to_owned(),
            qos: "normal".to_owned(),
            name: "simulate".to_owned(),
            eligible: Some(submit),
            start: Some(start),
            end: Some(end),
            state: 3,
            reason: "None".to_owned(),
            req_tres: "cpu=16,mem=65536,node=2,billing=16".to_owned(),
            alloc_tres: "cpu=16,mem=65536,node=2,billing=16".to_owned(),
            req_cpus: 16,
            alloc_cpus: 16,
            req_nodes: 2,
            alloc_nodes: 2,
            node_list: "n[17-18]".to_owned(),
            work_dir: "/home/user/project".to_owned(),
            submit_line: "sbatch -N2 -n16 --mem=32G simulate.sh --case 17".to_owned(),
            ..JobRecord::new(JobId(id), 0, submit)
        }),
        rest => {
            let step = if rest == 2 {
                StepId::Batch
            } else {
                StepId::Num(0)
            };
            AccountingUpdate::Step(StepRecord {
                name: "simulate".to_owned(),
                tasks: 16,
                nodes: 2,
                node_list: "n[17-18]".to_owned(),
                end: Some(end),
                state: 3,
                cpus: 16,
                alloc_tres: "cpu=16,mem=65536,node=2".to_owned(),
                ..StepRecord::new(JobId(id), 0, submit, step, start)
            })
        }
    }
}
