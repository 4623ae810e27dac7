//! A job's life through the engine: submission, start, end, time limits, cancellation, requeue, node failure.
//!
//! Expected states, reasons and exit codes are those of the scheduling reference (sections 5 to 11) and sbatch(1).

mod world;

use sluice_controller::command::cancel::{SignalRequest, signal_targets};
use sluice_controller::command::hold::{HoldKind, hold_targets};
use sluice_controller::command::requeue::{RequeueRequest, requeue_targets};
use sluice_model::error_code::ErrorCode;
use sluice_model::exit_status::WaitStatus;
use sluice_model::gres::GresRequest;
use sluice_model::ids::JobId;
use sluice_model::job::{Exclusive, JobDescription};
use sluice_model::launch::{AgentOrder, AgentReport};
use sluice_model::time::{TimeLimit, UnixSeconds};
use world::{ALICE, BOB, ROOT, World, cpus};

/// A script's exit code decides between COMPLETED and FAILED; the node is free again only after the Epilog.
#[test]
fn exit_codes_become_states() {
    let mut w = World::new();
    let good = w.submit(cpus(1));
    let bad = w.submit(cpus(1));
    w.pass();
    assert_eq!((w.state(good).as_str(), w.state(bad).as_str()), ("R", "R"));
    w.batch_ends(good, WaitStatus::exited(0));
    assert_eq!(w.state(good), "CG", "the Epilog has not reported yet");
    w.epilogs();
    assert_eq!(w.state(good), "CD");
    w.finish(bad, WaitStatus::exited(3));
    let job = w.cluster.job(bad).unwrap();
    assert_eq!(
        (job.state.code(), job.exit_status.to_string().as_str()),
        ("F", "3:0")
    );
    assert_eq!(w.reason(bad), "NonZeroExitCode");
    w.check();
}

/// Two nodes, four tasks: the golden cluster gives the batch node what is left after one CPU a node.
#[test]
fn a_job_over_two_nodes_gets_both() {
    let mut w = World::new();
    let id = w.submit(JobDescription {
        min_nodes: Some(2),
        max_nodes: Some(2),
        ..cpus(4)
    });
    w.pass();
    assert_eq!(w.nodes(id), "n[1-2]");
    let started: Vec<&str> = w
        .orders
        .iter()
        .filter(|(_, order)| matches!(order, AgentOrder::StartJob(_)))
        .map(|(node, _)| node.as_str())
        .collect();
    assert_eq!(started, ["n1", "n2"]);
    let launched: Vec<&str> = w
        .orders
        .iter()
        .filter(|(_, order)| matches!(order, AgentOrder::LaunchStep(_)))
        .map(|(node, _)| node.as_str())
        .collect();
    assert_eq!(
        launched,
        ["n1"],
        "the batch script runs on the first node only"
    );
    w.finish(id, WaitStatus::SUCCESS);
    assert_eq!(w.state(id), "CD");
    w.check();
}

/// `--array=0-9%3`: at most three at a time, lowest first, each with an id of its own; the record itself becomes the last task.
#[test]
fn an_array_keeps_its_throttle() {
    let mut w = World::new();
    let array = w.submit(JobDescription {
        array: Some("0-9%3".to_owned()),
        ..cpus(1)
    });
    w.pass();
    assert_eq!(
        w.tasks(array).keys().copied().collect::<Vec<_>>(),
        [0, 1, 2]
    );
    assert_eq!(w.reason(array), "JobArrayTaskLimit");
    w.pass();
    assert_eq!(w.tasks(array).len(), 3, "a second pass starts no more");
    for _ in 0..10 {
        let running: Vec<JobId> = w
            .tasks(array)
            .values()
            .copied()
            .filter(|id| w.state(*id) == "R")
            .collect();
        assert!(running.len() <= 3);
        for id in running {
            w.finish(id, WaitStatus::SUCCESS);
        }
        w.pass();
    }
    let tasks = w.tasks(array);
    assert_eq!(tasks.len(), 10);
    assert_eq!(
        tasks[&9], array,
        "the record of the unstarted tasks became the last task"
    );
    assert!(tasks.values().all(|id| w.state(*id) == "CD"));
    w.check();
}

/// A task of an array can be cancelled before it starts; the others go on.
#[test]
fn unstarted_tasks_can_be_cancelled() {
    let mut w = World::new();
    let array = w.submit(JobDescription {
        array: Some("1-5".to_owned()),
        hold: true,
        ..cpus(1)
    });
    let target = vec![format!("{array}_[2-3]")];
    let outcomes = w
        .run(|t| Ok(signal_targets(t, &target, SignalRequest::default(), &ALICE)))
        .unwrap();
    assert!(outcomes.iter().all(|o| o.rejection.is_none()));
    let tasks = w.tasks(array);
    assert_eq!(tasks.keys().copied().collect::<Vec<_>>(), [2, 3]);
    assert!(tasks.values().all(|id| w.state(*id) == "CA"));
    assert_eq!(
        w.cluster
            .job(array)
            .unwrap()
            .array
            .as_ref()
            .unwrap()
            .pending
            .to_string(),
        "1,4-5"
    );
    w.check();
}

/// `scancel 5_2` ends that task and no other, whether it has started or not.
#[test]
fn one_task_is_cancelled_alone() {
    let mut w = World::new();
    let array = w.submit(JobDescription {
        array: Some("1-3%2".to_owned()),
        ..cpus(1)
    });
    w.pass();
    for task in ["2", "3"] {
        let target = vec![format!("{array}_{task}")];
        w.run(|t| Ok(signal_targets(t, &target, SignalRequest::default(), &ALICE)))
            .unwrap();
    }
    w.epilogs();
    let states: Vec<String> = w.tasks(array).values().map(|id| w.state(*id)).collect();
    assert_eq!(states, ["R", "CA"]);
    assert_eq!(
        w.state(array),
        "CA",
        "the record of the unstarted tasks held task 3 alone"
    );
    w.check();
}

/// The limit is enforced: TIMEOUT, reason TimeLimit, and the processes get their KillWait.
#[test]
fn a_job_over_its_limit_times_out() {
    let mut w = World::new();
    let id = w.submit(JobDescription {
        time_limit: Some(TimeLimit::Minutes(1)),
        ..cpus(1)
    });
    w.pass();
    w.now = UnixSeconds(w.now.0 + 59);
    w.tick();
    assert_eq!(w.state(id), "R");
    w.now = UnixSeconds(w.now.0 + 1);
    w.tick();
    assert_eq!(w.state(id), "CG");
    let wait = w.orders.iter().find_map(|(_, order)| match order {
        AgentOrder::TerminateJob {
            kill_wait_secs,
            message,
            ..
        } => Some((*kill_wait_secs, message.clone())),
        _ => None,
    });
    let (seconds, message) = wait.expect("the node is told to end the job");
    assert_eq!(seconds, 5);
    assert!(message.contains("DUE TO TIME LIMIT"), "{message}");
    w.epilogs();
    assert_eq!(
        (w.state(id).as_str(), w.reason(id).as_str()),
        ("TO", "TimeLimit")
    );
    w.check();
}

/// `--signal=B:USR1@30` reaches the batch shell once, 30 seconds before the end.
#[test]
fn the_warning_signal_is_sent_once() {
    let mut w = World::new();
    let warn = sluice_model::job::WarnSignal {
        signal: 10,
        seconds: 30,
        batch_only: true,
        reservation: false,
    };
    let id = w.submit(JobDescription {
        time_limit: Some(TimeLimit::Minutes(1)),
        warn_signal: Some(warn),
        ..cpus(1)
    });
    w.pass();
    w.orders.clear();
    for _ in 0..3 {
        w.now = UnixSeconds(w.now.0 + 15);
        w.tick();
    }
    let signals: Vec<&AgentOrder> = w
        .orders
        .iter()
        .map(|(_, order)| order)
        .filter(|order| matches!(order, AgentOrder::Signal { .. }))
        .collect();
    assert_eq!(signals.len(), 1);
    assert!(matches!(
        signals[0],
        AgentOrder::Signal { job_id, target: sluice_model::launch::SignalTarget::BatchShell, signal: 10 } if *job_id == id
    ));
    w.check();
}

/// scancel: a running job is CANCELLED at once and keeps who did it; a finished one answers "already completing or completed";
/// nobody cancels another user's job.
#[test]
fn cancelling() {
    let mut w = World::new();
    let id = w.submit(cpus(1));
    w.pass();
    let target = vec![id.to_string()];
    let denied = w
        .run(|t| Ok(signal_targets(t, &target, SignalRequest::default(), &BOB)))
        .unwrap();
    assert_eq!(
        denied[0].rejection.as_ref().unwrap().code,
        ErrorCode::AccessDenied
    );
    w.run(|t| Ok(signal_targets(t, &target, SignalRequest::default(), &ALICE)))
        .unwrap();
    w.epilogs();
    let job = w.cluster.job(id).unwrap();
    assert_eq!(
        (job.state.code(), job.kill_requester),
        ("CA", Some(ALICE.uid))
    );
    let again = w
        .run(|t| Ok(signal_targets(t, &target, SignalRequest::default(), &ALICE)))
        .unwrap();
    assert_eq!(
        again[0].rejection.as_ref().unwrap().code,
        ErrorCode::AlreadyDone
    );
    let unknown = w
        .run(|t| {
            Ok(signal_targets(
                t,
                &["999".to_owned()],
                SignalRequest::default(),
                &ALICE,
            ))
        })
        .unwrap();
    assert_eq!(
        unknown[0].rejection.as_ref().unwrap().code,
        ErrorCode::InvalidJobId
    );
    w.check();
}

/// The same submission key gives the same job, never a second one.
#[test]
fn a_retried_submission_is_one_job() {
    let mut w = World::new();
    let description = JobDescription {
        submission_key: "k1".to_owned(),
        ..cpus(1)
    };
    let first = w.submit(description.clone());
    let second = w.submit(description.clone());
    assert_eq!(first, second);
    assert_eq!(w.cluster.jobs.len(), 1);
    // An array's tasks do not answer for it either.
    let array = JobDescription {
        submission_key: "k2".to_owned(),
        array: Some("0-3".to_owned()),
        ..cpus(1)
    };
    let first = w.submit(array.clone());
    w.pass();
    assert_eq!(w.submit(array), first);
    w.check();
}

/// The dependency types of sbatch(1): who starts when the target ends well, badly, or has merely started.
#[test]
fn dependencies_follow_their_target() {
    for (status, expected) in [
        (
            WaitStatus::exited(0),
            [
                ("afterok", "R"),
                ("afternotok", "PD"),
                ("afterany", "R"),
                ("after", "R"),
            ],
        ),
        (
            WaitStatus::exited(1),
            [
                ("afterok", "PD"),
                ("afternotok", "R"),
                ("afterany", "R"),
                ("after", "R"),
            ],
        ),
    ] {
        let mut w = World::new();
        let target = w.submit(cpus(1));
        let waiting: Vec<(JobId, &str)> = expected
            .iter()
            .map(|(kind, state)| {
                let dependency = Some(format!("{kind}:{target}"));
                (
                    w.submit(JobDescription {
                        dependency,
                        ..cpus(1)
                    }),
                    *state,
                )
            })
            .collect();
        w.pass();
        assert_eq!(w.state(target), "R");
        assert_eq!(w.state(waiting[0].0), "PD");
        assert_eq!(w.reason(waiting[0].0), "Dependency");
        w.finish(target, status);
        w.pass();
        for (id, state) in &waiting {
            assert_eq!(w.state(*id), *state, "job {id} after {status}");
        }
        let failed = waiting.iter().find(|(_, state)| *state == "PD").unwrap().0;
        assert_eq!(w.reason(failed), "DependencyNeverSatisfied");
        w.check();
    }
}

/// aftercorr: each task waits for its counterpart only.
#[test]
fn corresponding_tasks_wait_for_each_other() {
    let mut w = World::new();
    let first = w.submit(JobDescription {
        array: Some("1-2".to_owned()),
        ..cpus(1)
    });
    w.pass();
    let second = w.submit(JobDescription {
        array: Some("1-2".to_owned()),
        dependency: Some(format!("aftercorr:{first}")),
        ..cpus(1)
    });
    w.finish(w.tasks(first)[&2], WaitStatus::SUCCESS);
    w.pass();
    assert_eq!(w.tasks(second).keys().copied().collect::<Vec<_>>(), [2]);
    w.finish(w.tasks(first)[&1], WaitStatus::SUCCESS);
    w.pass();
    assert_eq!(w.tasks(second).keys().copied().collect::<Vec<_>>(), [1, 2]);
    w.check();
}

/// singleton: one job of a name and user at a time, in order of their ids.
#[test]
fn singletons_run_one_after_the_other() {
    let mut w = World::new();
    let named = || JobDescription {
        name: Some("s".to_owned()),
        dependency: Some("singleton".to_owned()),
        ..cpus(1)
    };
    let ids = [w.submit(named()), w.submit(named()), w.submit(named())];
    for turn in 0..3 {
        w.pass();
        let running: Vec<JobId> = ids
            .iter()
            .copied()
            .filter(|id| w.state(*id) == "R")
            .collect();
        assert_eq!(running, [ids[turn]]);
        w.finish(ids[turn], WaitStatus::SUCCESS);
    }
    w.check();
}

/// A dependency on an unknown job is refused where the outcome matters, and a job cannot wait for itself through others.
#[test]
fn impossible_dependencies_are_refused() {
    let mut w = World::new();
    let unknown = w.try_submit(
        JobDescription {
            dependency: Some("afterok:77".to_owned()),
            ..cpus(1)
        },
        &ALICE,
    );
    assert_eq!(unknown.unwrap_err().code, ErrorCode::Dependency);
    assert!(
        w.try_submit(
            JobDescription {
                dependency: Some("afterany:77".to_owned()),
                ..cpus(1)
            },
            &ALICE
        )
        .is_ok()
    );
    let a = w.submit(JobDescription {
        hold: true,
        ..cpus(1)
    });
    let b = w.submit(JobDescription {
        dependency: Some(format!("afterany:{a}")),
        ..cpus(1)
    });
    let update = sluice_model::job::JobUpdate {
        dependency: Some(format!("afterany:{b}")),
        ..Default::default()
    };
    let outcomes = w
        .run(|t| {
            Ok(sluice_controller::command::update::update_targets(
                t,
                &[a.to_string()],
                &update,
                &ALICE,
            ))
        })
        .unwrap();
    assert_eq!(
        outcomes[0].rejection.as_ref().unwrap().code,
        ErrorCode::CircularDependency
    );
    w.check();
}

/// hold and release: a user's hold shows JobHeldUser; a user cannot release what an administrator held.
#[test]
fn holds_belong_to_who_made_them() {
    let mut w = World::new();
    let id = w.submit(cpus(1));
    let target = vec![id.to_string()];
    w.run(|t| Ok(hold_targets(t, &target, HoldKind::Hold, &ALICE)))
        .unwrap();
    w.pass();
    assert_eq!(
        (w.state(id).as_str(), w.reason(id).as_str()),
        ("PD", "JobHeldUser")
    );
    w.run(|t| Ok(hold_targets(t, &target, HoldKind::Release, &ALICE)))
        .unwrap();
    w.run(|t| Ok(hold_targets(t, &target, HoldKind::Hold, &ROOT)))
        .unwrap();
    assert_eq!(w.reason(id), "JobHeldAdmin");
    let outcomes = w
        .run(|t| Ok(hold_targets(t, &target, HoldKind::Release, &ALICE)))
        .unwrap();
    assert_eq!(
        outcomes[0].rejection.as_ref().unwrap().code,
        ErrorCode::AccessDenied
    );
    w.run(|t| Ok(hold_targets(t, &target, HoldKind::Release, &ROOT)))
        .unwrap();
    w.pass();
    assert_eq!(w.state(id), "R");
    w.check();
}

/// --begin: nothing starts before its time; the reason says so.
#[test]
fn begin_times_are_kept() {
    let mut w = World::new();
    let begin = UnixSeconds(w.now.0 + 100);
    let id = w.submit(JobDescription {
        begin_time: Some(begin),
        ..cpus(1)
    });
    w.pass();
    assert_eq!(w.reason(id), "BeginTime");
    w.now = begin;
    w.pass();
    assert_eq!(w.state(id), "R");
    w.check();
}

/// A requeue keeps the id, counts the restart and waits for the former run's Epilog; late reports of that run change nothing.
#[test]
fn a_requeued_job_runs_again() {
    let mut w = World::new();
    let id = w.submit(cpus(1));
    w.pass();
    let target = vec![id.to_string()];
    let outcomes = w
        .run(|t| {
            Ok(requeue_targets(
                t,
                &target,
                RequeueRequest::default(),
                &ALICE,
            ))
        })
        .unwrap();
    assert!(outcomes[0].rejection.is_none());
    assert_eq!(w.state(id), "CG");
    w.pass();
    assert_eq!(
        w.state(id),
        "CG",
        "it does not start before the former run is gone"
    );
    // The old script ends now; that is no end of the job.
    w.batch_ends(id, WaitStatus::signaled(15));
    w.epilogs();
    assert_eq!(w.state(id), "PD");
    w.pass();
    let job = w.cluster.job(id).unwrap();
    assert_eq!(
        (job.state.code(), job.restarts, job.run_attempt),
        ("R", 1, 1)
    );
    w.report(
        "n1",
        AgentReport::EpilogDone {
            job_id: id,
            attempt: 0,
            error: None,
        },
    );
    assert_eq!(w.state(id), "R", "a report of the first run is ignored");
    w.finish(id, WaitStatus::SUCCESS);
    assert_eq!(w.state(id), "CD");
    w.check();
}

/// --no-requeue: refused with the text "requested operation is presently disabled"; a pending job answers that it is pending.
#[test]
fn requeue_refusals() {
    let mut w = World::new();
    let id = w.submit(JobDescription {
        requeue: Some(false),
        ..cpus(1)
    });
    let target = vec![id.to_string()];
    let pending = w
        .run(|t| {
            Ok(requeue_targets(
                t,
                &target,
                RequeueRequest::default(),
                &ALICE,
            ))
        })
        .unwrap();
    assert_eq!(
        pending[0].rejection.as_ref().unwrap().code,
        ErrorCode::JobPending
    );
    w.pass();
    let running = w
        .run(|t| {
            Ok(requeue_targets(
                t,
                &target,
                RequeueRequest::default(),
                &ALICE,
            ))
        })
        .unwrap();
    assert_eq!(
        running[0].rejection.as_ref().unwrap().code,
        ErrorCode::Disabled
    );
    w.check();
}

/// A failing Prolog drains the node with its last line and holds the requeued job.
#[test]
fn a_failed_prolog_drains_and_requeues() {
    let conf = format!("{}Prolog=/bin/true\n", world::CONF);
    let mut w = World::with_conf(&conf);
    let id = w.submit(cpus(1));
    w.pass();
    assert_eq!(w.state(id), "CF", "the Prolog runs");
    w.report(
        "n1",
        AgentReport::PrologDone {
            job_id: id,
            attempt: 0,
            error: Some("Prolog error: no GPU".to_owned()),
        },
    );
    w.epilogs();
    let node = w.cluster.node_named("n1").unwrap().1;
    assert_eq!(
        (node.state.is_draining(), node.reason.as_deref()),
        (true, Some("Prolog error: no GPU"))
    );
    let job = w.cluster.job(id).unwrap();
    assert_eq!((job.state.code(), job.priority), ("PD", 0));
    assert!(
        job.reason_text
            .as_ref()
            .unwrap()
            .starts_with("launch failed requeued held")
    );
    w.check();
}

/// A node that is silent for SlurmdTimeout goes DOWN; its jobs are requeued, and it returns when it registers again.
#[test]
fn a_silent_node_loses_its_jobs() {
    let conf = format!("{}SlurmdTimeout=60\nReturnToService=1\n", world::CONF);
    let mut w = World::with_conf(&conf);
    let id = w.submit(JobDescription {
        required_nodes: Some("n2".to_owned()),
        ..cpus(1)
    });
    let kept = w.submit(JobDescription {
        requeue: Some(false),
        required_nodes: Some("n2".to_owned()),
        ..cpus(1)
    });
    w.pass();
    w.run(|t| {
        sluice_controller::command::agent::disconnected(t, "n2");
        Ok(())
    })
    .unwrap();
    w.now = UnixSeconds(w.now.0 + 30);
    for node in ["n1", "n3", "n4"] {
        w.report(
            node,
            AgentReport::Heartbeat {
                load: Default::default(),
            },
        );
    }
    w.tick();
    assert_eq!(w.state(id), "R", "half a minute of silence ends nothing");
    w.now = UnixSeconds(w.now.0 + 30);
    for node in ["n1", "n3", "n4"] {
        w.report(
            node,
            AgentReport::Heartbeat {
                load: Default::default(),
            },
        );
    }
    w.tick();
    assert_eq!(w.state(id), "PD");
    assert_eq!(
        w.cluster.job(id).unwrap().failed_node.as_deref(),
        Some("n2")
    );
    assert_eq!(w.state(kept), "NF");
    assert!(w.cluster.node_named("n2").unwrap().1.state.is_down());
    w.register("n2");
    assert!(!w.cluster.node_named("n2").unwrap().1.state.is_down());
    w.pass();
    assert_eq!(w.state(id), "R");
    w.check();
}

/// An agent that comes back is told again what it may have missed: the job's start and its script, once.
#[test]
fn a_reconnected_agent_is_brought_up_to_date() {
    let mut w = World::new();
    let id = w.submit(JobDescription {
        required_nodes: Some("n3".to_owned()),
        ..cpus(1)
    });
    w.pass();
    let orders = w.register("n3");
    assert!(matches!(&orders[0], AgentOrder::Registered { jobs, .. } if jobs == &[(id, 0)]));
    assert!(
        orders
            .iter()
            .any(|order| matches!(order, AgentOrder::StartJob(job) if job.job_id == id))
    );
    assert!(
        orders
            .iter()
            .any(|order| matches!(order, AgentOrder::LaunchStep(step) if step.script.is_some()))
    );
    w.batch_ends(id, WaitStatus::SUCCESS);
    let orders = w.register("n3");
    assert!(
        orders
            .iter()
            .any(|order| matches!(order, AgentOrder::TerminateJob { job_id, .. } if *job_id == id))
    );
    w.check();
}

/// Whole-node GPU jobs: `--exclusive` takes all CPUs and all GPUs of a node, and nobody else gets in.
#[test]
fn exclusive_jobs_have_their_nodes_alone() {
    let mut w = World::new();
    let whole = w.submit(JobDescription {
        exclusive: Some(Exclusive::Node),
        min_nodes: Some(1),
        gres_per_node: vec![GresRequest {
            name: "gpu".to_owned(),
            type_name: None,
            count: 4,
        }],
        ..cpus(1)
    });
    let small = w.submit(cpus(1));
    w.pass();
    let job = w.cluster.job(whole).unwrap();
    let part = &job.allocation.as_ref().unwrap().nodes[0];
    assert_eq!(part.cpu_ids, [0, 1, 2, 3]);
    assert_eq!(part.gres[0].indices, [0, 1, 2, 3]);
    assert_ne!(w.nodes(whole), w.nodes(small));
    w.check();
}

/// What can never run is refused at once with Slurm's text.
#[test]
fn impossible_requests_are_refused() {
    let mut w = World::new();
    let cases: [(JobDescription, ErrorCode); 4] = [
        (
            JobDescription {
                cpus_per_task: Some(5),
                ..cpus(1)
            },
            ErrorCode::RequestedNodeConfigUnavailable,
        ),
        (
            JobDescription {
                partitions: vec!["nosuch".to_owned()],
                ..cpus(1)
            },
            ErrorCode::InvalidPartitionName,
        ),
        (
            JobDescription {
                constraint: Some("nosuch".to_owned()),
                ..cpus(1)
            },
            ErrorCode::InvalidFeature,
        ),
        (
            JobDescription {
                array: Some("0-1001".to_owned()),
                ..cpus(1)
            },
            ErrorCode::InvalidArray,
        ),
    ];
    for (description, code) in cases {
        let rejection = w
            .try_submit(description.clone(), &ALICE)
            .expect_err("impossible");
        assert_eq!(rejection.code, code, "{description:?}");
    }
    assert!(w.cluster.jobs.is_empty());
    w.check();
}

/// Old records leave memory after MinJobAge, scripts with them; a dependency on one is then met or failed as sbatch(1) says.
#[test]
fn finished_jobs_are_purged() {
    let mut w = World::new();
    let id = w.submit(cpus(1));
    w.pass();
    w.finish(id, WaitStatus::SUCCESS);
    w.now = UnixSeconds(w.now.0 + 299);
    w.tick();
    assert!(w.cluster.job(id).is_some());
    w.now = UnixSeconds(w.now.0 + 1);
    w.tick();
    assert!(w.cluster.job(id).is_none());
    assert!(w.cluster.blobs.is_empty());
    w.check();
}

/// sbatch(1) --mail-type: who asked for END hears of the end once; an array speaks with one voice unless ARRAY_TASKS is asked for.
#[test]
fn mails_are_sent_as_asked() {
    let mail = |types: &str| JobDescription {
        mail_type: Some(types.to_owned()),
        mail_user: Some("alice@example.org".to_owned()),
        name: Some("m".to_owned()),
        ..cpus(1)
    };
    let mut w = World::new();
    let id = w.submit(mail("BEGIN,FAIL"));
    w.pass();
    w.finish(id, WaitStatus::exited(3));
    let subjects: Vec<&str> = w
        .mails
        .iter()
        .map(|(_, subject)| subject.as_str())
        .collect();
    assert_eq!(
        subjects,
        [
            "Slurm Job_id=1 Name=m Began, Queued time 00:00:00",
            "Slurm Job_id=1 Name=m Failed, Run time 00:00:00, FAILED, ExitCode 3",
        ]
    );
    w.mails.clear();
    let array = w.submit(JobDescription {
        array: Some("1-3".to_owned()),
        ..mail("ALL")
    });
    w.pass();
    for id in w.tasks(array).into_values() {
        w.finish(id, WaitStatus::SUCCESS);
    }
    assert_eq!(
        w.mails.len(),
        2,
        "one at the beginning, one at the end: {:?}",
        w.mails
    );
    w.check();
}

/// A running script whose step daemon dies is lost by its node: requeued without a hold, or NODE_FAIL where that is not allowed.
#[test]
fn a_lost_script_is_a_node_failure() {
    use sluice_model::ids::StepId;
    use sluice_model::launch::StepExit;
    let mut w = World::new();
    let again = w.submit(cpus(1));
    let never = w.submit(JobDescription {
        requeue: Some(false),
        ..cpus(1)
    });
    w.pass();
    for id in [again, never] {
        let started = AgentReport::StepStarted {
            job_id: id,
            attempt: 0,
            step_id: StepId::Batch,
            pids: vec![1],
        };
        let host = w.nodes(id);
        w.report(&host, started);
        w.report(
            &host,
            AgentReport::StepEnded(StepExit {
                job_id: id,
                attempt: 0,
                step_id: StepId::Batch,
                tasks: Vec::new(),
                launch_error: Some("stepd died".to_owned()),
                usage: Default::default(),
                end_time: w.now,
            }),
        );
    }
    w.epilogs();
    assert_eq!(
        (w.state(again).as_str(), w.state(never).as_str()),
        ("PD", "NF")
    );
    assert_ne!(w.cluster.job(again).unwrap().priority, 0, "it is not held");
    w.check();
}

/// A job cancelled while it runs shows what its script ended with; one cancelled while it waits shows nothing.
#[test]
fn exit_status_of_a_cancelled_job() {
    let mut w = World::new();
    let (runs, waits) = (
        w.submit(cpus(1)),
        w.submit(JobDescription {
            hold: true,
            ..cpus(1)
        }),
    );
    w.pass();
    let cancel = |w: &mut World, id: JobId| {
        w.run(|t| {
            Ok(signal_targets(
                t,
                &[id.to_string()],
                SignalRequest::default(),
                &ALICE,
            ))
        })
        .expect("answered")
    };
    cancel(&mut w, runs);
    cancel(&mut w, waits);
    w.finish(runs, WaitStatus::signaled(15));
    let shown = |id| {
        let job = w.cluster.job(id).expect("job");
        sluice_controller::view::job_info(&w.cluster, job, w.now).exit_status
    };
    assert_eq!(
        (shown(runs), shown(waits)),
        (WaitStatus::signaled(15), WaitStatus::SUCCESS)
    );
    // The record for accounting is older.
    assert_eq!(
        w.cluster.job(runs).expect("job").exit_status,
        WaitStatus::SUCCESS
    );
    w.check();
}
