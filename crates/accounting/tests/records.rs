//! Job, step and event records: what is written comes back, once, and sacct's questions find the right ones. On both databases.

mod support;

use sluice_accounting::{
    AccountingError, AccountingStore, Batch, CountRange, EventQuery, JobQuery, SacctTimes,
    TimeWindow, WriteReport,
};
use sluice_model::accounting::{
    AccountingUpdate, ClusterRegistration, JobRecord, NodeEventRecord, StepRecord, StepUsageRecord,
    UsageStat,
};
use sluice_model::ids::{JobId, StepId};
use sluice_model::time::UnixSeconds;
use support::{Backend, CLUSTER};

on_both! {
    /// A column that is missing or mixed up would falsify history.
    every_field_comes_back;
    /// Delivery is at least once; the effect must be exactly once.
    redelivery_changes_nothing;
    /// A restored backup or a new journal must not swallow records.
    positions_are_guarded;
    /// sacct's window rules decide what users see.
    windows_select_what_sacct_shows;
    /// `-s` without `-S` asks for this moment, with a period for its duration.
    states_are_asked_for_within_the_window;
    /// Arrays, requeues, steps and filters.
    selections_and_order;
    /// The script comes once; later records must not erase it.
    scripts_are_kept;
    /// A node's periods do not overlap, and end.
    node_events_open_and_close;
}

const CD: u32 = 3;
const RUNNING: u32 = 1;

fn at(seconds: i64) -> UnixSeconds {
    UnixSeconds(seconds)
}

/// A job that became eligible, started and ended at times; `None` = not yet.
fn job(id: u32, eligible: Option<i64>, start: Option<i64>, end: Option<i64>) -> JobRecord {
    let mut job = JobRecord::new(JobId(id), 0, at(eligible.or(start).unwrap_or(50)));
    job.eligible = eligible.map(UnixSeconds);
    job.start = start.map(UnixSeconds);
    job.end = end.map(UnixSeconds);
    job.state = match (start, end) {
        (_, Some(_)) => CD,
        (Some(_), None) => RUNNING,
        (None, None) => 0,
    };
    job.user = "alice".to_owned();
    job.account = "physics".to_owned();
    job
}

async fn write(store: &AccountingStore, from: u64, updates: Vec<AccountingUpdate>) -> WriteReport {
    let updates: Vec<(u64, AccountingUpdate)> = updates
        .into_iter()
        .enumerate()
        .map(|(n, update)| (from + 1 + n as u64, update))
        .collect();
    let through = updates.last().map_or(from, |(position, _)| *position);
    store
        .write_batch(
            CLUSTER,
            Batch {
                journal_id: "j1",
                from,
                through,
                updates: &updates,
            },
        )
        .await
        .expect("the batch is written")
}

async fn write_jobs(store: &AccountingStore, jobs: Vec<JobRecord>) {
    write(
        store,
        0,
        jobs.into_iter().map(AccountingUpdate::Job).collect(),
    )
    .await;
}

async fn ids(store: &AccountingStore, query: &JobQuery) -> Vec<u32> {
    store
        .jobs(query)
        .await
        .expect("jobs are read")
        .iter()
        .map(|found| found.job.job_id.0)
        .collect()
}

/// A record in which every field differs from every other and from its default.
fn full_job() -> JobRecord {
    JobRecord {
        cluster: CLUSTER.to_owned(),
        job_id: JobId(67_108_863),
        attempt: 2,
        submit: at(1_796_013_660),
        array_job_id: Some(JobId(4)),
        array_task_id: Some(17),
        array_task_string: "18-30:2%4".to_owned(),
        het_job_id: Some(JobId(19)),
        het_job_offset: Some(1),
        association_id: Some(6),
        account: "physics".to_owned(),
        user: "alice".to_owned(),
        uid: 1003,
        gid: u32::MAX,
        group: "nogroup".to_owned(),
        partition: "main".to_owned(),
        qos: "high".to_owned(),
        qos_requested: "high,normal".to_owned(),
        wckey: "*wc".to_owned(),
        name: "naïve 'job' \"x\"; DROP TABLE jobs; --".to_owned(),
        eligible: Some(at(1_796_013_661)),
        start: Some(at(1_796_013_662)),
        end: Some(at(1_796_013_699)),
        suspended_secs: 11,
        state: 5,
        state_flags: 1 << 15,
        exit_status: 3 << 8,
        derived_exit_status: 9,
        reason: "NonZeroExitCode".to_owned(),
        req_tres: "cpu=4,mem=8192,node=1,billing=4,gres/gpu=2".to_owned(),
        alloc_tres: "cpu=8,mem=8192,node=2,billing=8".to_owned(),
        req_cpus: 4,
        req_mem_mib: 8192,
        req_nodes: 1,
        alloc_cpus: 8,
        alloc_nodes: 2,
        node_list: "n[1-2]".to_owned(),
        constraints: "gpu&fast".to_owned(),
        priority: 4_294_901_759,
        time_limit_minutes: Some(sluice_model::accounting::UNLIMITED_MINUTES),
        reservation: "resv".to_owned(),
        reservation_requested: "resv,other".to_owned(),
        licenses: "matlab:1".to_owned(),
        work_dir: "/tmp".to_owned(),
        submit_line: "sbatch -J x".to_owned(),
        std_in: "/dev/null".to_owned(),
        std_out: "/tmp/%j.out".to_owned(),
        std_err: "/tmp/%j.err".to_owned(),
        comment: "a comment".to_owned(),
        admin_comment: "an admin's".to_owned(),
        system_comment: "the system's".to_owned(),
        extra: "extra".to_owned(),
        container: "/bundle".to_owned(),
        mcs_label: "mcs".to_owned(),
        exclusive: "NODE".to_owned(),
        flags: 0x24,
        kill_requester: Some(0),
        failed_node: "n2".to_owned(),
        script: None,
        environment: None,
    }
}

fn full_step(job: &JobRecord) -> StepRecord {
    let stat = |seed: u64| UsageStat {
        max: seed,
        max_node: format!("n{seed}"),
        max_task: 3,
        min: seed / 2,
        min_node: "n1".to_owned(),
        min_task: 1,
        total: seed * 4,
        average: seed - 1,
    };
    StepRecord {
        job_id: job.job_id,
        job_submit: job.submit,
        attempt: job.attempt,
        step_id: StepId::Num(7),
        name: "hostname".to_owned(),
        tasks: 4,
        nodes: 2,
        node_list: "n[1-2]".to_owned(),
        layout: "Cyclic".to_owned(),
        start: at(1_796_013_663),
        end: Some(at(1_796_013_664)),
        suspended_secs: 1,
        state: 3,
        exit_status: 256,
        cpus: 4,
        alloc_tres: "cpu=4,mem=20,node=2".to_owned(),
        kill_requester: Some(1003),
        submit_line: "srun hostname".to_owned(),
        container: "/b".to_owned(),
        std_in: "i".to_owned(),
        std_out: "o".to_owned(),
        std_err: "e".to_owned(),
        time_limit_minutes: Some(5),
        usage: StepUsageRecord {
            user_cpu_us: 5_123,
            system_cpu_us: 1_877,
            cpu_ms: stat(10),
            rss_kib: stat(1280),
            vsize_kib: stat(4000),
            pages: stat(2),
            disk_read_bytes: stat(1581),
            disk_write_bytes: stat(99),
            energy_joules: 12,
        },
    }
}

async fn every_field_comes_back(backend: Backend) {
    let store = backend.store().await;
    let job = full_job();
    let step = full_step(&job);
    let batch = StepRecord::new(
        job.job_id,
        job.attempt,
        job.submit,
        StepId::Batch,
        at(1_796_013_662),
    );
    write(
        &store,
        0,
        vec![
            AccountingUpdate::Step(step.clone()),
            AccountingUpdate::Job(job.clone()),
            AccountingUpdate::Step(batch.clone()),
        ],
    )
    .await;
    let found = store
        .jobs(&JobQuery::new(TimeWindow::until(at(1_900_000_000))))
        .await
        .unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].job, job);
    assert_eq!(found[0].steps, [batch, step], "the batch step comes first");
}

async fn redelivery_changes_nothing(backend: Backend) {
    let store = backend.store().await;
    let mut first = job(1, Some(100), Some(110), None);
    let step = StepRecord::new(JobId(1), 0, first.submit, StepId::Num(0), at(111));
    let updates = vec![
        (1, AccountingUpdate::Job(first.clone())),
        (2, AccountingUpdate::Step(step.clone())),
        (3, AccountingUpdate::Job(job(2, Some(100), None, None))),
    ];
    let batch = |updates| Batch {
        journal_id: "j1",
        from: 0,
        through: 3,
        updates,
    };
    let once = store.write_batch(CLUSTER, batch(&updates)).await.unwrap();
    assert_eq!(
        once,
        WriteReport {
            position: 3,
            written: 3
        }
    );

    // Job 1 ends; the commit is acknowledged, but the writer does not hear it and sends everything again.
    first.end = Some(at(120));
    first.state = CD;
    let more = vec![(4, AccountingUpdate::Job(first.clone()))];
    let again: Vec<_> = updates.iter().cloned().chain(more.clone()).collect();
    store
        .write_batch(
            CLUSTER,
            Batch {
                journal_id: "j1",
                from: 3,
                through: 4,
                updates: &more,
            },
        )
        .await
        .unwrap();
    let twice = store
        .write_batch(
            CLUSTER,
            Batch {
                journal_id: "j1",
                from: 0,
                through: 4,
                updates: &again,
            },
        )
        .await
        .unwrap();
    assert_eq!(
        twice,
        WriteReport {
            position: 4,
            written: 0
        }
    );

    let found = store
        .jobs(&JobQuery {
            duplicates: true,
            ..JobQuery::new(TimeWindow::until(at(1000)))
        })
        .await
        .unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(
        found[0].job.end,
        Some(at(120)),
        "an old record must not come back over a newer one"
    );
    assert_eq!(found[0].steps, [step]);
    assert_eq!(store.outbox_position(CLUSTER, "j1").await.unwrap(), 4);
}

async fn positions_are_guarded(backend: Backend) {
    let store = backend.store().await;
    write_jobs(&store, vec![job(1, Some(100), None, None)]).await;
    let updates = [(10, AccountingUpdate::Job(job(2, Some(100), None, None)))];
    let error = store
        .write_batch(
            CLUSTER,
            Batch {
                journal_id: "j1",
                from: 9,
                through: 10,
                updates: &updates,
            },
        )
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            AccountingError::Behind {
                stored: 1,
                expected: 9
            }
        ),
        "{error}"
    );
    assert!(error.is_retryable());
    let everything = JobQuery::new(TimeWindow::until(at(1000)));
    assert_eq!(
        ids(&store, &everything).await,
        [1],
        "nothing of the refused batch is kept"
    );

    assert_eq!(
        store.outbox_position(CLUSTER, "j2").await.unwrap(),
        0,
        "another journal starts anew"
    );
    let first = [(1, AccountingUpdate::Job(job(3, Some(100), None, None)))];
    let report = store
        .write_batch(
            CLUSTER,
            Batch {
                journal_id: "j2",
                from: 0,
                through: 5,
                updates: &first,
            },
        )
        .await
        .unwrap();
    assert_eq!(
        report,
        WriteReport {
            position: 5,
            written: 1
        },
        "the position is how far the journal was read"
    );
    assert_eq!(ids(&store, &everything).await, [1, 3]);

    // Two clusters in one database do not see each other's positions or jobs.
    let other = [(1, AccountingUpdate::Job(job(1, Some(100), None, None)))];
    store
        .write_batch(
            "second",
            Batch {
                journal_id: "j1",
                from: 0,
                through: 1,
                updates: &other,
            },
        )
        .await
        .unwrap();
    let only_second = JobQuery {
        clusters: vec!["second".to_owned()],
        ..everything.clone()
    };
    let found = store.jobs(&only_second).await.unwrap();
    assert_eq!(
        found
            .iter()
            .map(|f| (f.job.cluster.as_str(), f.job.job_id.0))
            .collect::<Vec<_>>(),
        [("second", 1)]
    );
    assert_eq!(store.jobs(&everything).await.unwrap().len(), 3);
}

async fn windows_select_what_sacct_shows(backend: Backend) {
    let store = backend.store().await;
    write_jobs(
        &store,
        vec![
            job(1, Some(100), Some(110), Some(199)), // over before 200
            job(2, Some(100), Some(110), Some(200)), // ends exactly then
            job(3, Some(100), Some(110), None),      // runs on
            job(4, Some(300), None, None),           // eligible at the end
            job(5, Some(301), None, None),           // eligible later
            job(6, None, None, None),                // never eligible (held)
            job(7, Some(250), None, Some(260)),      // cancelled while it waited
        ],
    )
    .await;
    let window = TimeWindow {
        start: at(200),
        end: at(300),
    };
    assert_eq!(ids(&store, &JobQuery::new(window)).await, [2, 3, 4, 7]);

    // By id the window starts at the epoch, and jobs without an eligible time are shown.
    let times = SacctTimes {
        now: at(300),
        midnight: at(200),
        start: None,
        end: None,
        with_jobs: true,
        with_states: false,
    };
    let by_id = JobQuery {
        jobs: ["1", "5", "6"]
            .iter()
            .map(|id| id.parse().unwrap())
            .collect(),
        ..JobQuery::new(TimeWindow::sacct(times))
    };
    assert_eq!(ids(&store, &by_id).await, [1, 6]);
}

async fn states_are_asked_for_within_the_window(backend: Backend) {
    let store = backend.store().await;
    let mut failed = job(4, Some(100), Some(110), Some(150));
    failed.state = 5;
    let mut suspended = job(5, Some(100), Some(110), None);
    suspended.state = 2;
    write_jobs(
        &store,
        vec![
            job(1, Some(100), None, None),           // waits
            job(2, Some(100), Some(140), None),      // waited until 140, runs since
            job(3, Some(100), Some(110), Some(160)), // ran from 110 to 160
            failed,
            suspended,
            job(6, Some(500), None, None), // not eligible yet
        ],
    )
    .await;
    let ask = async |states: &[u32], start: i64, end: i64| {
        let query = JobQuery {
            states: states.to_vec(),
            ..JobQuery::new(TimeWindow {
                start: at(start),
                end: at(end),
            })
        };
        ids(&store, &query).await
    };
    assert_eq!(
        ask(&[RUNNING], 200, 200).await,
        [2],
        "now: neither what is over nor what is suspended"
    );
    assert_eq!(ask(&[2], 200, 200).await, [5]);
    assert_eq!(
        ask(&[0], 200, 200).await,
        [1],
        "pending needs an eligible time that has come"
    );
    assert_eq!(
        ask(&[0], 120, 200).await,
        [1, 2],
        "job 2 waited within the window"
    );
    assert_eq!(ask(&[RUNNING], 120, 200).await, [2, 3, 4, 5]);
    assert_eq!(ask(&[CD], 120, 200).await, [3]);
    assert_eq!(
        ask(&[5], 151, 200).await,
        Vec::<u32>::new(),
        "failed before the window"
    );
    assert_eq!(
        ask(&[5, CD], 100, 155).await,
        [4],
        "job 3 completed after the window"
    );
}

async fn selections_and_order(backend: Backend) {
    let store = backend.store().await;
    let task = |id: u32, number: Option<u32>| {
        let mut task = job(id, Some(100), number.map(|_| 110), None);
        task.array_job_id = Some(JobId(4));
        task.array_task_id = number;
        task.array_task_string = if number.is_none() {
            "5-9%3".to_owned()
        } else {
            String::new()
        };
        task
    };
    let first_run = job(3, Some(100), Some(105), Some(106));
    let mut second_run = JobRecord {
        attempt: 1,
        submit: at(107),
        ..job(3, Some(108), Some(109), None)
    };
    second_run.user = "bob".to_owned();
    second_run.account = "bio".to_owned();
    second_run.node_list = "n[1-4]".to_owned();
    second_run.alloc_cpus = 8;
    let updates = vec![
        AccountingUpdate::Job(task(7, Some(2))),
        AccountingUpdate::Job(task(4, None)),
        AccountingUpdate::Job(task(6, Some(1))),
        AccountingUpdate::Job(job(10, Some(100), None, None)),
        AccountingUpdate::Job(first_run.clone()),
        AccountingUpdate::Job(second_run.clone()),
        AccountingUpdate::Step(StepRecord::new(
            JobId(3),
            0,
            first_run.submit,
            StepId::Batch,
            at(105),
        )),
        AccountingUpdate::Step(StepRecord::new(
            JobId(3),
            1,
            second_run.submit,
            StepId::Num(1),
            at(110),
        )),
        AccountingUpdate::Step(StepRecord::new(
            JobId(3),
            1,
            second_run.submit,
            StepId::Num(0),
            at(109),
        )),
        AccountingUpdate::Step(StepRecord::new(
            JobId(3),
            1,
            second_run.submit,
            StepId::Batch,
            at(109),
        )),
        AccountingUpdate::Step(StepRecord::new(
            JobId(3),
            1,
            second_run.submit,
            StepId::Extern,
            at(109),
        )),
    ];
    write(&store, 0, updates).await;
    let all = JobQuery::new(TimeWindow::until(at(1000)));
    assert_eq!(ids(&store, &all).await, [3, 6, 7, 4, 10]);

    let found = store
        .jobs(&JobQuery {
            duplicates: true,
            ..all.clone()
        })
        .await
        .unwrap();
    assert_eq!(found[0].job.attempt, 0);
    assert_eq!(
        found[0].steps.iter().map(|s| s.step_id).collect::<Vec<_>>(),
        [StepId::Batch]
    );
    assert_eq!(found[1].job.attempt, 1);
    assert_eq!(
        found[1].steps.iter().map(|s| s.step_id).collect::<Vec<_>>(),
        [
            StepId::Batch,
            StepId::Extern,
            StepId::Num(0),
            StepId::Num(1)
        ]
    );
    let without_steps = store
        .jobs(&JobQuery {
            allocations_only: true,
            ..all.clone()
        })
        .await
        .unwrap();
    assert!(without_steps.iter().all(|found| found.steps.is_empty()));

    let select = |texts: &[&str]| JobQuery {
        jobs: texts.iter().map(|t| t.parse().unwrap()).collect(),
        ..all.clone()
    };
    assert_eq!(ids(&store, &select(&["4"])).await, [6, 7, 4]);
    assert_eq!(ids(&store, &select(&["4_2", "4_[6-7]"])).await, [7, 4]);
    assert_eq!(ids(&store, &select(&["6", "10"])).await, [6, 10]);
    assert_eq!(ids(&store, &select(&["99"])).await, Vec::<u32>::new());
    let one_step = store.jobs(&select(&["3.1"])).await.unwrap();
    assert_eq!(
        one_step[0]
            .steps
            .iter()
            .map(|s| s.step_id)
            .collect::<Vec<_>>(),
        [StepId::Num(1)]
    );

    let filtered = [
        JobQuery {
            users: vec!["bob".to_owned()],
            ..all.clone()
        },
        JobQuery {
            accounts: vec!["bio".to_owned(), "chem".to_owned()],
            ..all.clone()
        },
        JobQuery {
            nodes: vec!["n[3,9]".to_owned()],
            ..all.clone()
        },
        JobQuery {
            cpus: Some(CountRange { min: 8, max: 8 }),
            ..all.clone()
        },
    ];
    for query in filtered {
        assert_eq!(ids(&store, &query).await, [3], "{query:?}");
    }
    let nobody = JobQuery {
        users: vec!["alice' OR '1'='1".to_owned()],
        ..all.clone()
    };
    assert_eq!(ids(&store, &nobody).await, Vec::<u32>::new());
}

async fn scripts_are_kept(backend: Backend) {
    let store = backend.store().await;
    let mut submitted = job(1, Some(100), None, None);
    submitted.script = Some("#!/bin/sh\nsrun hostname\n".to_owned());
    submitted.environment = Some("PATH=/bin\nHOME=/root".to_owned());
    let mut same_script = job(2, Some(100), None, None);
    same_script.script.clone_from(&submitted.script);
    write(
        &store,
        0,
        vec![
            AccountingUpdate::Job(submitted),
            AccountingUpdate::Job(same_script),
        ],
    )
    .await;
    write(
        &store,
        2,
        vec![AccountingUpdate::Job(job(
            1,
            Some(100),
            Some(101),
            Some(102),
        ))],
    )
    .await;
    let texts = store.job_texts(CLUSTER, JobId(1)).await.unwrap();
    assert_eq!(texts.0.as_deref(), Some("#!/bin/sh\nsrun hostname\n"));
    assert_eq!(texts.1.as_deref(), Some("PATH=/bin\nHOME=/root"));
    assert_eq!(store.job_texts(CLUSTER, JobId(2)).await.unwrap().1, None);
    assert_eq!(
        store.job_texts(CLUSTER, JobId(9)).await.unwrap(),
        (None, None)
    );
}

async fn node_events_open_and_close(backend: Backend) {
    let store = backend.store().await;
    let event = |node: &str, start: i64, state: &str| {
        AccountingUpdate::NodeEvent(NodeEventRecord {
            node: node.to_owned(),
            time_start: at(start),
            time_end: None,
            state: state.to_owned(),
            reason: "bad fan".to_owned(),
            user: "root(0)".to_owned(),
            tres: "cpu=8".to_owned(),
        })
    };
    let registration = |time: i64, tres: &str, nodes: &str| {
        AccountingUpdate::Cluster(ClusterRegistration {
            time: at(time),
            control_host: "127.0.0.1".to_owned(),
            control_port: 6817,
            rpc_version: 11_776,
            tres: tres.to_owned(),
            node_list: nodes.to_owned(),
        })
    };
    let tres = "cpu=32,mem=8000,node=4,gres/gpu=8,gres/gpu:h100=4";
    write(
        &store,
        0,
        vec![
            registration(10, tres, "n[1-4]"),
            registration(11, tres, "n[1-4]"), // a restart without change: no new event
            event("n4", 20, "DRAIN"),
            event("n4", 30, "DOWN"),
            event("n2", 25, "DOWN"),
            AccountingUpdate::NodeUp {
                node: "n4".to_owned(),
                time: at(40),
            },
            event("n1", 45, "DOWN"),
            registration(50, "cpu=16,node=2", "n[1-2]"),
        ],
    )
    .await;
    let all = store.node_events(&EventQuery::default()).await.unwrap();
    let shape: Vec<_> = all
        .iter()
        .map(|(_, e)| {
            (
                e.node.as_str(),
                e.time_start.0,
                e.time_end.map(|t| t.0),
                e.state.as_str(),
            )
        })
        .collect();
    assert_eq!(
        shape,
        [
            ("", 10, Some(50), ""),
            ("n4", 20, Some(30), "DRAIN"),
            ("n2", 25, None, "DOWN"),
            ("n4", 30, Some(40), "DOWN"),
            ("n1", 45, None, "DOWN"),
            ("", 50, None, ""),
        ]
    );
    assert_eq!(all[0].1.reason, "Cluster Registered TRES");
    let open = EventQuery {
        nodes: vec!["n[1,4]".to_owned()],
        open_only: true,
        ..EventQuery::default()
    };
    assert_eq!(store.node_events(&open).await.unwrap().len(), 1);
    let window = Some(TimeWindow {
        start: at(41),
        end: at(44),
    });
    let then = store
        .node_events(&EventQuery {
            window,
            ..EventQuery::default()
        })
        .await
        .unwrap();
    assert_eq!(
        then.iter()
            .map(|(_, e)| e.node.as_str())
            .collect::<Vec<_>>(),
        ["", "n2"]
    );

    let cluster = &store.clusters().await.unwrap()[0];
    assert_eq!(
        (
            cluster.name.as_str(),
            cluster.control_port,
            cluster.tres.as_str()
        ),
        (CLUSTER, 6817, "cpu=16,node=2")
    );
    let dynamic: Vec<_> = store
        .tres()
        .await
        .unwrap()
        .into_iter()
        .filter(|t| t.id > 8)
        .map(|t| (t.id, t.kind, t.name))
        .collect();
    assert_eq!(
        dynamic,
        [
            (1001, "gres".to_owned(), "gpu".to_owned()),
            (1002, "gres".to_owned(), "gpu:h100".to_owned())
        ]
    );
}
