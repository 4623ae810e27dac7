//! `agentd` and `stepd` as processes, against a controller that the test plays.

mod support;

use std::time::Duration;

use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::{JobId, StepId};
use sluice_model::launch::{AgentOrder, AgentReport, StepExit};
use support::{Controller, Node, PATIENCE, batch, job, slurm_conf, terminate};

fn prolog_done(report: &AgentReport) -> Option<Option<String>> {
    match report {
        AgentReport::PrologDone { error, .. } => Some(error.clone()),
        _ => None,
    }
}

fn step_ended(report: &AgentReport) -> Option<StepExit> {
    match report {
        AgentReport::StepEnded(exit) => Some(exit.clone()),
        _ => None,
    }
}

fn epilog_done(report: &AgentReport) -> Option<(u32, Option<String>)> {
    match report {
        AgentReport::EpilogDone { attempt, error, .. } => Some((*attempt, error.clone())),
        _ => None,
    }
}

fn started(report: &AgentReport) -> Option<Vec<u32>> {
    match report {
        AgentReport::StepStarted { pids, .. } => Some(pids.clone()),
        _ => None,
    }
}

async fn eventually(what: &str, mut probe: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !probe() {
        assert!(tokio::time::Instant::now() < deadline, "timed out: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The whole way of a batch job: registration, Prolog, script, exit code, end, Epilog, spool empty again.
#[tokio::test]
async fn batch_job_from_prolog_to_epilog() {
    let mut controller = Controller::start(0).await;
    let mut node = Node::new(controller.port, |folder| {
        let order = folder.join("order");
        let prolog = Node::script(
            folder,
            "prolog",
            &format!(
                "echo prolog $SLURM_JOB_ID $SLURM_SCRIPT_CONTEXT $SLURMD_NODENAME $HOME >>{}",
                order.display()
            ),
        );
        let epilog = Node::script(
            folder,
            "epilog",
            &format!(
                "echo epilog $SLURM_JOB_ID $SLURM_CONF >>{}",
                order.display()
            ),
        );
        format!("Prolog={prolog}\nEpilog={epilog}")
    });
    node.start();
    let AgentReport::Register {
        node: name,
        hardware,
        steps,
        jobs,
        ..
    } = controller.register(&[]).await
    else {
        unreachable!()
    };
    assert_eq!(
        (name.as_str(), hardware.cpus, steps.len(), jobs.len()),
        ("n1", 2, 0, 0)
    );
    controller
        .expect("heartbeat", |report| {
            matches!(report, AgentReport::Heartbeat { .. }).then_some(())
        })
        .await;

    let out = node.folder.path().join("out");
    let order = node.folder.path().join("order");
    let script = format!(
        "echo script $SLURM_PROCID $SLURMD_NODENAME; echo script >>{}; exit 3",
        order.display()
    );
    // Both at once, as the controller sends them: the step must wait for the Prolog.
    controller.order(&AgentOrder::StartJob(job(7, 0)));
    controller.order(&AgentOrder::LaunchStep(batch(7, 0, &script, &out)));
    assert_eq!(controller.expect("prolog", prolog_done).await, None);
    assert_eq!(controller.expect("start", started).await.len(), 1);
    let exit = controller.expect("end of the step", step_ended).await;
    assert_eq!((exit.step_id, exit.launch_error), (StepId::Batch, None));
    assert_eq!(exit.tasks, [(0, WaitStatus::exited(3))]);
    assert!(exit.usage.max_rss_kib > 0);
    controller.order(&terminate(7, 0, 0));
    controller.order(&terminate(7, 0, 0));
    assert_eq!(controller.expect("epilog", epilog_done).await, (0, None));
    assert_eq!(std::fs::read_to_string(&out).expect("out"), "script 0 n1\n");
    let conf = node.folder.path().join("slurm.conf");
    assert_eq!(
        std::fs::read_to_string(&order).expect("order"),
        format!(
            "prolog 7 prolog_slurmd n1\nscript\nepilog 7 {}\n",
            conf.display()
        )
    );
    eventually("the spool is clean", || {
        let reports = std::fs::read_dir(node.spool().join("reports"))
            .expect("reports")
            .count();
        !node.spool().join("job7").exists() && reports == 1
    })
    .await;
}

/// A failing Prolog is reported with the script's last line, and nothing of the job runs.
#[tokio::test]
async fn failing_prolog_starts_nothing() {
    let mut controller = Controller::start(0).await;
    let mut node = Node::new(controller.port, |folder| {
        format!(
            "Prolog={}",
            Node::script(
                folder,
                "prolog",
                "echo checking; echo scratch is full; exit 1"
            )
        )
    });
    node.start();
    controller.register(&[]).await;
    let out = node.folder.path().join("out");
    controller.order(&AgentOrder::StartJob(job(7, 0)));
    controller.order(&AgentOrder::LaunchStep(batch(7, 0, "echo ran", &out)));
    let error = controller
        .expect("prolog", prolog_done)
        .await
        .expect("fails");
    assert_eq!(error, "Prolog error: scratch is full");
    assert!(
        controller
            .expect("refusal", step_ended)
            .await
            .launch_error
            .is_some()
    );
    controller.order(&terminate(7, 0, 0));
    assert_eq!(controller.expect("epilog", epilog_done).await, (0, None));
    assert!(!out.exists());
}

/// `kill -9` of the agent in the middle of a job: the job goes on, and its exit code arrives after the restart, whether
/// the script ended meanwhile or later.
#[tokio::test]
async fn killed_agent_loses_no_job_and_no_exit_code() {
    for ends_meanwhile in [false, true] {
        let mut controller = Controller::start(0).await;
        let mut node = Node::new(controller.port, |_| String::new());
        node.start();
        controller.register(&[]).await;
        let (out, go) = (
            node.folder.path().join("out"),
            node.folder.path().join("go"),
        );
        let script = format!(
            "while ! [ -e {} ]; do sleep 0.01; done; echo finished; exit 42",
            go.display()
        );
        controller.order(&AgentOrder::StartJob(job(7, 2)));
        controller.order(&AgentOrder::LaunchStep(batch(7, 2, &script, &out)));
        let pids = controller.expect("start", started).await;
        node.kill();
        if ends_meanwhile {
            std::fs::write(&go, "").expect("go");
            eventually("the script ends without an agent", || {
                sluice_stepd::tree::stat(pids[0]).is_none()
            })
            .await;
        }
        node.start();
        let AgentReport::Register { steps, jobs, .. } = controller.register(&[(JobId(7), 2)]).await
        else {
            unreachable!()
        };
        assert_eq!(jobs, [(JobId(7), 2)]);
        assert_eq!(
            (steps.len(), steps[0].step_id, steps[0].attempt),
            (1, StepId::Batch, 2)
        );
        if !ends_meanwhile {
            assert_eq!(controller.expect("the step is found", started).await, pids);
            // A repeated launch must not start it again.
            controller.order(&AgentOrder::LaunchStep(batch(7, 2, &script, &out)));
            std::fs::write(&go, "").expect("go");
        }
        let exit = controller.expect("end of the step", step_ended).await;
        assert_eq!(
            (exit.attempt, exit.tasks.as_slice()),
            (2, [(0, WaitStatus::exited(42))].as_slice())
        );
        assert_eq!(std::fs::read_to_string(&out).expect("out"), "finished\n");
        controller.order(&terminate(7, 2, 0));
        assert_eq!(controller.expect("epilog", epilog_done).await, (2, None));
    }
}

/// What was not acknowledged is told again on the next connection, with the same number.
#[tokio::test]
async fn reports_are_repeated_until_acknowledged() {
    let mut controller = Controller::start(0).await;
    controller.acknowledge = false;
    let mut node = Node::new(controller.port, |_| String::new());
    node.start();
    controller.register(&[]).await;
    controller.order(&AgentOrder::StartJob(job(7, 0)));
    controller.order(&AgentOrder::LaunchStep(batch(
        7,
        0,
        "exit 5",
        &node.folder.path().join("out"),
    )));
    controller.expect("end", step_ended).await;
    controller.hang_up();
    controller.register(&[(JobId(7), 0)]).await;
    assert_eq!(controller.expect("prolog again", prolog_done).await, None);
    assert_eq!(
        controller.expect("end again", step_ended).await.tasks,
        [(0, WaitStatus::exited(5))]
    );
    node.kill();
    node.start();
    controller.acknowledge = true;
    controller.register(&[(JobId(7), 0)]).await;
    assert_eq!(
        controller.expect("end, third time", step_ended).await.tasks,
        [(0, WaitStatus::exited(5))]
    );
    controller.order(&terminate(7, 0, 0));
    controller.expect("epilog", epilog_done).await;
}

/// The kill sequence reaches a script that ignores SIGTERM, and the user reads why.
#[tokio::test]
async fn terminated_job_gets_message_and_kill_sequence() {
    let mut controller = Controller::start(0).await;
    let mut node = Node::new(controller.port, |_| String::new());
    node.start();
    controller.register(&[]).await;
    let out = node.folder.path().join("out");
    controller.order(&AgentOrder::StartJob(job(7, 0)));
    let script = "trap 'echo got term' TERM; echo ready; while :; do sleep 0.05; done";
    controller.order(&AgentOrder::LaunchStep(batch(7, 0, script, &out)));
    eventually("the script is ready", || {
        std::fs::read_to_string(&out).is_ok_and(|text| text == "ready\n")
    })
    .await;
    let AgentOrder::TerminateJob {
        job_id,
        attempt,
        script_environment,
        credentials,
        gres,
        ..
    } = terminate(7, 0, 1)
    else {
        unreachable!()
    };
    let message =
        "*** JOB 7 ON n1 CANCELLED AT 2026-11-30T04:42:09 DUE TO TIME LIMIT ***".to_owned();
    controller.order(&AgentOrder::TerminateJob {
        job_id,
        attempt,
        kill_wait_secs: 1,
        message: message.clone(),
        script_environment,
        credentials,
        gres,
    });
    let exit = controller.expect("end", step_ended).await;
    assert_eq!(exit.tasks, [(0, WaitStatus::signaled(9))]);
    controller.expect("epilog", epilog_done).await;
    let text = std::fs::read_to_string(&out).expect("out");
    assert!(
        text.starts_with(&format!("ready\nslurmstepd: error: {message}\n")),
        "{text}"
    );
    assert!(text.contains("got term\n"), "{text}");
}

/// A job that the controller does not list after a reconnect is ended without a report.
#[tokio::test]
async fn orphans_are_ended_after_a_reconnect() {
    let mut controller = Controller::start(0).await;
    let mut node = Node::new(controller.port, |_| String::new());
    node.start();
    controller.register(&[]).await;
    controller.order(&AgentOrder::StartJob(job(7, 0)));
    controller.order(&AgentOrder::LaunchStep(batch(
        7,
        0,
        "sleep 300",
        &node.folder.path().join("out"),
    )));
    let pids = controller.expect("start", started).await;
    controller.hang_up();
    controller.register(&[]).await;
    eventually("the orphan is gone", || {
        sluice_stepd::tree::stat(pids[0]).is_none()
    })
    .await;
    eventually("its spool too", || !node.spool().join("job7").exists()).await;
}

/// A step daemon that was killed is reported, and what it left running is killed too.
#[tokio::test]
async fn killed_step_daemon_is_reported() {
    let mut controller = Controller::start(0).await;
    let mut node = Node::new(controller.port, |_| String::new());
    node.start();
    controller.register(&[]).await;
    let pid_file = node.folder.path().join("pid");
    let script = format!(
        "setsid sh -c 'echo $$ >{0}.new; mv {0}.new {0}; sleep 300; true' & wait",
        pid_file.display()
    );
    controller.order(&AgentOrder::StartJob(job(7, 0)));
    controller.order(&AgentOrder::LaunchStep(batch(
        7,
        0,
        &script,
        &node.folder.path().join("out"),
    )));
    controller.expect("start", started).await;
    eventually("the script runs", || pid_file.exists()).await;
    let left: u32 = std::fs::read_to_string(&pid_file)
        .expect("pid")
        .trim()
        .parse()
        .expect("number");
    let stepd = std::fs::read_to_string(node.spool().join("job7/step_batch/pid")).expect("pid");
    sluice_stepd::process::send_signal(stepd.trim().parse().expect("number"), 9);
    let exit = controller.expect("end", step_ended).await;
    let error = exit.launch_error.expect("error");
    assert!(error.starts_with("stepd died"), "{error}");
    assert_eq!(exit.tasks, [(0, WaitStatus::signaled(9))]);
    eventually("nothing is left", || {
        sluice_stepd::tree::stat(left).is_none_or(|stat| stat.zombie)
    })
    .await;
}

/// A node without files fetches its configuration, also when it boots before the controller; local users get tokens.
#[tokio::test]
async fn configless_node_boots_before_its_controller() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listen");
        listener.local_addr().expect("address").port()
    };
    let mut node = Node::new(port, |_| String::new()).configless(port);
    let folder = node.folder.path().to_path_buf();
    node.start();
    let log = folder.join("agentd.log");
    eventually("the agent complains", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("trying on"))
    })
    .await;
    let mut controller = Controller::start_with(port, |port| slurm_conf(&folder, port, "")).await;
    let AgentReport::Register { config_version, .. } = controller.register(&[]).await else {
        unreachable!()
    };
    assert_eq!(config_version, 7);
    assert!(node.spool().join("conf-cache/slurm.conf").is_file());

    let socket = node.spool().join("auth.sock");
    eventually("the token socket is there", || socket.exists()).await;
    let answer = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        let mut stream = std::os::unix::net::UnixStream::connect(socket).expect("connect");
        std::io::Read::read_to_string(&mut stream, &mut text).expect("token");
        text
    });
    let answer = answer.await.expect("token");
    let pin = sluice_tls::ServerKey::derive(&[9; 32]).expect("key").pin();
    let token = answer
        .strip_suffix(&format!("\n{pin}\n"))
        .unwrap_or_else(|| panic!("no pin in {answer}"));
    assert_eq!(token.split('.').count(), 3, "{token}");
}
