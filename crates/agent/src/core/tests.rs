//! Scenarios of one node, told as orders and answers.

use std::time::{Duration, Instant};

use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::{JobId, StepId};
use sluice_model::job::OpenMode;
use sluice_model::launch::{
    AgentOrder, AgentReport, Credentials, JobOnNode, LiveStep, SignalTarget, StepExit, StepLaunch,
    StepUsage,
};
use sluice_model::memory::MemoryMib;
use sluice_model::time::UnixSeconds;
use sluice_stepd::control::{Audience, ControlRequest};

use super::*;

fn job(id: u32, attempt: u32) -> JobOnNode {
    JobOnNode {
        job_id: JobId(id),
        attempt,
        credentials: Credentials::default(),
        node_index: 0,
        cpu_ids: vec![0],
        memory: MemoryMib(100),
        gres: Vec::new(),
        script_environment: vec![("SLURM_JOB_ID".to_owned(), id.to_string())],
        job_environment: Vec::new(),
        end_time: None,
    }
}

fn launch(id: u32, attempt: u32, step_id: StepId) -> StepLaunch {
    StepLaunch {
        job_id: JobId(id),
        attempt,
        step_id,
        array_job_id: None,
        array_task_id: None,
        name: String::new(),
        job_name: String::new(),
        credentials: Credentials::default(),
        node: "n1".to_owned(),
        node_index: 0,
        task_ids: vec![0],
        num_tasks: 1,
        cpu_ids: vec![0],
        cpus_per_task: 1,
        memory: MemoryMib(0),
        gres: Vec::new(),
        script: None,
        argv: vec!["true".to_owned()],
        environment: Vec::new(),
        work_dir: "/".to_owned(),
        umask: 0,
        rlimits: std::collections::BTreeMap::new(),
        std_in: None,
        std_out: None,
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

fn terminate(id: u32, attempt: u32, kill_wait_secs: u32) -> AgentOrder {
    AgentOrder::TerminateJob {
        job_id: JobId(id),
        attempt,
        kill_wait_secs,
        message: String::new(),
        script_environment: Vec::new(),
        credentials: Credentials::default(),
        gres: Vec::new(),
    }
}

fn exit(id: u32, attempt: u32, step_id: StepId, code: i32) -> StepExit {
    StepExit {
        job_id: JobId(id),
        attempt,
        step_id,
        tasks: vec![(0, WaitStatus::exited(code))],
        launch_error: None,
        usage: StepUsage::default(),
        end_time: UnixSeconds(1),
    }
}

struct Node {
    core: AgentCore,
    now: Instant,
}

impl Node {
    fn new() -> Self {
        let settings = CoreSettings {
            kill_wait: Duration::from_secs(30),
            unkillable_step: Duration::from_secs(60),
        };
        Self {
            core: AgentCore::new(settings),
            now: Instant::now(),
        }
    }

    fn order(&mut self, order: AgentOrder) -> Vec<String> {
        names(&self.core.on_order(order, self.now))
    }

    /// A node with a job whose batch step runs.
    fn running(id: u32) -> Self {
        let mut node = Self::new();
        assert_eq!(
            node.order(AgentOrder::StartJob(job(id, 0))),
            [format!("store {id}"), format!("prolog {id}.0")]
        );
        assert_eq!(
            names(&node.core.on_prolog_done(JobId(id), 0, None)),
            [format!("report prolog {id}.0 ok"), format!("store {id}")]
        );
        assert_eq!(
            node.order(AgentOrder::LaunchStep(launch(id, 0, StepId::Batch))),
            ["start batch"]
        );
        let step = LiveStep {
            job_id: JobId(id),
            attempt: 0,
            step_id: StepId::Batch,
        };
        assert_eq!(
            names(&node.core.on_step_ready(step, vec![42])),
            ["report started batch"]
        );
        node
    }
}

fn names(effects: &[Effect]) -> Vec<String> {
    effects
        .iter()
        .map(|effect| match effect {
            Effect::StoreJob(id) => format!("store {id}"),
            Effect::ForgetJob(id) => format!("forget {id}"),
            Effect::RunProlog(job) => format!("prolog {}.{}", job.job_id, job.attempt),
            Effect::RunEpilog(job) => format!("epilog {}.{}", job.job_id, job.attempt),
            Effect::StartStep(launch) => format!("start {}", launch.step_id),
            Effect::ReportUsage { .. } => "usage".to_owned(),
            Effect::StepReported(step) => format!("reported {}", step.step_id),
            Effect::Control { step, request } => format!("{} {request:?}", step.step_id),
            Effect::RunUnkillableProgram { job_id, step_id } => {
                format!("unkillable {job_id}.{step_id}")
            }
            Effect::Acknowledged(sequence) => format!("acknowledged {sequence}"),
            Effect::Reboot(reason) => format!("reboot {reason}"),
            Effect::FetchConfiguration(version) => format!("configuration {version}"),
            Effect::SetHeartbeat(secs) => format!("heartbeat {secs}"),
            Effect::Report(report) => match report {
                AgentReport::PrologDone {
                    job_id,
                    attempt,
                    error,
                } => {
                    format!(
                        "report prolog {job_id}.{attempt} {}",
                        error.as_deref().unwrap_or("ok")
                    )
                }
                AgentReport::EpilogDone {
                    job_id,
                    attempt,
                    error,
                } => {
                    format!(
                        "report epilog {job_id}.{attempt} {}",
                        error.as_deref().unwrap_or("ok")
                    )
                }
                AgentReport::StepStarted { step_id, .. } => format!("report started {step_id}"),
                AgentReport::StepEnded(exit) => format!(
                    "report ended {} {}{}",
                    exit.step_id,
                    exit.tasks[0].1,
                    exit.launch_error
                        .as_ref()
                        .map(|text| format!(" ({text})"))
                        .unwrap_or_default()
                ),
                AgentReport::Drain { reason } => format!("report drain {reason}"),
                other => format!("report {other:?}"),
            },
        })
        .collect()
}

/// The whole life of a batch job, every order sent twice: the second copy must change nothing.
#[test]
fn normal_life_with_repeated_orders() {
    let mut node = Node::running(7);
    assert_eq!(
        node.order(AgentOrder::LaunchStep(launch(7, 0, StepId::Batch))),
        [""; 0]
    );
    assert_eq!(
        node.order(AgentOrder::StartJob(job(7, 0))),
        ["report prolog 7.0 ok"],
        "the answer may have been lost"
    );
    assert_eq!(
        names(&node.core.on_step_exit(exit(7, 0, StepId::Batch, 3))),
        ["report ended batch 3:0", "reported batch"]
    );
    assert_eq!(
        node.order(AgentOrder::LaunchStep(launch(7, 0, StepId::Batch))),
        [""; 0],
        "never twice"
    );
    assert_eq!(node.order(terminate(7, 0, 0)), ["store 7", "epilog 7.0"]);
    assert_eq!(
        node.order(terminate(7, 0, 0)),
        [""; 0],
        "the Epilog runs once"
    );
    assert_eq!(
        names(&node.core.on_epilog_done(JobId(7), None)),
        ["report epilog 7.0 ok", "store 7"]
    );
    assert_eq!(
        node.order(terminate(7, 0, 0)),
        ["report epilog 7.0 ok"],
        "the report may have been lost"
    );
    assert_eq!(
        node.core.known_jobs(),
        [(JobId(7), 0)],
        "known until the report is stored"
    );
    let report = AgentReport::EpilogDone {
        job_id: JobId(7),
        attempt: 0,
        error: None,
    };
    assert_eq!(names(&node.core.on_acknowledged(&report)), ["forget 7"]);
    assert_eq!(node.core.job_count(), 0);
}

/// Steps that come before the Prolog has ended wait for it; a failed Prolog starts none of them.
#[test]
fn launches_wait_for_the_prolog() {
    let mut node = Node::new();
    node.order(AgentOrder::StartJob(job(7, 0)));
    assert_eq!(node.order(AgentOrder::StartJob(job(7, 0))), [""; 0]);
    assert_eq!(
        node.order(AgentOrder::LaunchStep(launch(7, 0, StepId::Batch))),
        ["store 7"]
    );
    assert_eq!(
        node.order(AgentOrder::LaunchStep(launch(7, 0, StepId::Batch))),
        [""; 0]
    );
    assert_eq!(
        names(&node.core.on_prolog_done(JobId(7), 0, None)),
        ["report prolog 7.0 ok", "store 7", "start batch"]
    );

    node.order(AgentOrder::StartJob(job(8, 0)));
    node.order(AgentOrder::LaunchStep(launch(8, 0, StepId::Batch)));
    assert_eq!(
        names(
            &node
                .core
                .on_prolog_done(JobId(8), 0, Some("Prolog error: no disk".to_owned()))
        ),
        [
            "report prolog 8.0 Prolog error: no disk",
            "store 8",
            "report ended batch 1:0 (Prolog failed on this node)"
        ]
    );
    assert_eq!(
        node.order(AgentOrder::LaunchStep(launch(8, 0, StepId::Num(0)))),
        ["report ended 0 1:0 (Prolog failed on node n1)"]
    );
    assert_eq!(node.order(terminate(8, 0, 30)), ["store 8", "epilog 8.0"]);
}

/// A job cancelled during its Prolog ends after it, without starting anything.
#[test]
fn end_during_the_prolog_waits_for_it() {
    let mut node = Node::new();
    node.order(AgentOrder::StartJob(job(7, 0)));
    node.order(AgentOrder::LaunchStep(launch(7, 0, StepId::Batch)));
    assert_eq!(node.order(terminate(7, 0, 30)), ["store 7"]);
    assert_eq!(
        names(&node.core.on_prolog_done(JobId(7), 0, None)),
        [
            "report prolog 7.0 ok",
            "store 7",
            "report ended batch 0:15",
            "store 7",
            "epilog 7.0"
        ]
    );
    assert_eq!(
        node.order(AgentOrder::LaunchStep(launch(7, 0, StepId::Num(1)))),
        ["report ended 1 0:15"]
    );
}

/// A kill with grace: message, kill sequence for each step, Epilog only when the last is gone.
#[test]
fn kill_sequence_and_epilog() {
    let mut node = Node::running(7);
    node.order(AgentOrder::LaunchStep(launch(7, 0, StepId::Num(0))));
    let AgentOrder::TerminateJob {
        job_id,
        attempt,
        script_environment,
        credentials,
        gres,
        ..
    } = terminate(7, 0, 30)
    else {
        unreachable!()
    };
    let message = "*** JOB 7 ON n1 CANCELLED ***".to_owned();
    let order = AgentOrder::TerminateJob {
        job_id,
        attempt,
        kill_wait_secs: 30,
        message,
        script_environment,
        credentials,
        gres,
    };
    assert_eq!(
        node.order(order),
        [
            "store 7",
            "batch Notify { text: \"*** JOB 7 ON n1 CANCELLED ***\" }",
            "batch Terminate { grace_secs: 30 }",
            "0 Notify { text: \"*** JOB 7 ON n1 CANCELLED ***\" }",
            "0 Terminate { grace_secs: 30 }"
        ]
    );
    assert_eq!(
        names(&node.core.on_step_exit(exit(7, 0, StepId::Batch, 0))),
        ["report ended batch 0:0", "reported batch"]
    );
    assert_eq!(
        names(&node.core.on_step_exit(exit(7, 0, StepId::Num(0), 0))),
        ["report ended 0 0:0", "reported 0", "store 7", "epilog 7.0"]
    );
    assert_eq!(
        names(
            &node
                .core
                .on_epilog_done(JobId(7), Some("Epilog error".to_owned()))
        ),
        ["report epilog 7.0 Epilog error", "store 7"]
    );
}

/// A process that survives SIGKILL drains the node once, after the grace and the configured time.
#[test]
fn unkillable_step_drains_the_node() {
    let mut node = Node::running(7);
    node.order(terminate(7, 0, 30));
    assert_eq!(
        names(&node.core.on_tick(node.now + Duration::from_secs(90))),
        [""; 0]
    );
    assert_eq!(
        names(&node.core.on_tick(node.now + Duration::from_secs(91))),
        ["report drain Kill task failed", "unkillable 7.batch"]
    );
    assert_eq!(
        names(&node.core.on_tick(node.now + Duration::from_secs(200))),
        [""; 0]
    );
}

/// Orders of an older run arrive late and must not touch the newer one; a newer run waits for the older to be gone.
#[test]
fn attempts_are_kept_apart() {
    let mut node = Node::new();
    node.order(AgentOrder::StartJob(job(7, 1)));
    node.core.on_prolog_done(JobId(7), 1, None);
    for stale in [
        AgentOrder::StartJob(job(7, 0)),
        AgentOrder::LaunchStep(launch(7, 0, StepId::Batch)),
        AgentOrder::TerminateStep {
            job_id: JobId(7),
            attempt: 0,
            step_id: StepId::Batch,
        },
        terminate(7, 0, 0),
    ] {
        assert_eq!(node.order(stale), [""; 0]);
    }
    assert_eq!(
        node.order(AgentOrder::LaunchStep(launch(7, 2, StepId::Batch))),
        ["report ended batch 1:0 (run 2 of job 7 has not been started on node n1)"]
    );
    node.order(AgentOrder::LaunchStep(launch(7, 1, StepId::Batch)));
    assert_eq!(
        node.order(AgentOrder::StartJob(job(7, 2))),
        ["store 7", "batch Terminate { grace_secs: 0 }"]
    );
    assert_eq!(
        names(&node.core.on_step_exit(exit(7, 1, StepId::Batch, 0))),
        ["reported batch", "store 7", "epilog 7.1"]
    );
    assert_eq!(
        names(&node.core.on_epilog_done(JobId(7), None)),
        ["forget 7", "store 7", "prolog 7.2"]
    );
}

/// Jobs that the controller does not list are ended without a word; listed ones are left alone.
#[test]
fn orphans_are_ended_silently() {
    let mut node = Node::running(7);
    node.order(AgentOrder::StartJob(job(8, 0)));
    node.core.on_prolog_done(JobId(8), 0, None);
    let registered = AgentOrder::Registered {
        jobs: vec![(JobId(8), 0)],
        heartbeat_secs: 5,
    };
    assert_eq!(
        node.order(registered),
        [
            "heartbeat 5",
            "store 7",
            "batch Terminate { grace_secs: 0 }"
        ]
    );
    assert_eq!(
        names(&node.core.on_step_exit(exit(7, 0, StepId::Batch, 0))),
        ["reported batch", "store 7", "epilog 7.0"]
    );
    assert_eq!(
        names(&node.core.on_epilog_done(JobId(7), None)),
        ["forget 7"]
    );
    assert_eq!(node.core.known_jobs(), [(JobId(8), 0)]);
}

/// The end of a job this agent never heard of still runs the Epilog and is answered.
#[test]
fn end_of_an_unknown_job_runs_the_epilog() {
    let mut node = Node::new();
    assert_eq!(node.order(terminate(9, 2, 0)), ["store 9", "epilog 9.2"]);
    assert_eq!(
        names(&node.core.on_epilog_done(JobId(9), None)),
        ["report epilog 9.2 ok", "store 9"]
    );
    assert_eq!(
        node.order(AgentOrder::LaunchStep(launch(10, 0, StepId::Batch))),
        ["report ended batch 1:0 (job 10 is not on node n1)"]
    );
}

/// Who gets a signal: `scancel` without -b spares the batch script.
#[test]
fn signal_targets() {
    let mut node = Node::running(7);
    node.order(AgentOrder::LaunchStep(launch(7, 0, StepId::Num(0))));
    let mut signal = |target| {
        let order = AgentOrder::Signal {
            job_id: JobId(7),
            target,
            signal: 10,
        };
        node.core
            .on_order(order, node.now)
            .into_iter()
            .map(|effect| match effect {
                Effect::Control {
                    step,
                    request:
                        ControlRequest::Signal {
                            audience,
                            signal: 10,
                        },
                } => (step.step_id, audience),
                other => panic!("{other:?}"),
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(
        signal(SignalTarget::Steps),
        [(StepId::Num(0), Audience::Tasks)]
    );
    assert_eq!(
        signal(SignalTarget::Step(StepId::Num(0))),
        [(StepId::Num(0), Audience::Tasks)]
    );
    assert_eq!(
        signal(SignalTarget::BatchShell),
        [(StepId::Batch, Audience::TasksOnly)]
    );
    assert_eq!(
        signal(SignalTarget::Full),
        [
            (StepId::Batch, Audience::Tree),
            (StepId::Num(0), Audience::Tasks)
        ]
    );
    assert_eq!(signal(SignalTarget::Step(StepId::Num(9))), []);
}

/// A queued step that is cancelled is reported and not started later.
#[test]
fn cancelled_queued_step_never_starts() {
    let mut node = Node::new();
    node.order(AgentOrder::StartJob(job(7, 0)));
    node.order(AgentOrder::LaunchStep(launch(7, 0, StepId::Num(0))));
    let order = AgentOrder::TerminateStep {
        job_id: JobId(7),
        attempt: 0,
        step_id: StepId::Num(0),
    };
    assert_eq!(node.order(order), ["report ended 0 0:15", "store 7"]);
    assert_eq!(
        names(&node.core.on_prolog_done(JobId(7), 0, None)),
        ["report prolog 7.0 ok", "store 7"]
    );
    let running = AgentOrder::TerminateStep {
        job_id: JobId(7),
        attempt: 0,
        step_id: StepId::Num(1),
    };
    node.order(AgentOrder::LaunchStep(launch(7, 0, StepId::Num(1))));
    assert_eq!(node.order(running), ["1 Terminate { grace_secs: 30 }"]);
}

/// What the spool holds is enough to go on after a restart in any phase.
#[test]
fn restart_in_every_phase() {
    let mut before = Node::new();
    before.order(AgentOrder::StartJob(job(7, 0)));
    before.order(AgentOrder::LaunchStep(launch(7, 0, StepId::Batch)));
    let recover = |core: &AgentCore, steps: &[RecoveredStep]| {
        let mut after = Node::new();
        let record = core.record(JobId(7)).expect("record");
        let effects = names(&after.core.recover(record, steps, after.now));
        (after, effects)
    };
    let (mut after, effects) = recover(&before.core, &[]);
    assert_eq!(effects, ["prolog 7.0"]);
    assert_eq!(
        names(&after.core.on_prolog_done(JobId(7), 0, None)),
        ["report prolog 7.0 ok", "store 7", "start batch"]
    );

    let live = [RecoveredStep {
        step_id: StepId::Batch,
        found: FoundStep::Unfinished,
    }];
    let reported = [RecoveredStep {
        step_id: StepId::Batch,
        found: FoundStep::Reported,
    }];
    let (mut after, effects) = recover(&after.core, &live);
    assert_eq!(effects, [""; 0]);
    assert_eq!(after.core.known_steps().len(), 1);
    assert_eq!(
        after.order(terminate(7, 0, 1)),
        ["store 7", "batch Terminate { grace_secs: 1 }"]
    );
    let (mut again, effects) = recover(&after.core, &live);
    assert_eq!(effects, [""; 0], "the step daemon goes on by itself");
    assert_eq!(
        names(&again.core.on_step_exit(exit(7, 0, StepId::Batch, 1))),
        [
            "report ended batch 1:0",
            "reported batch",
            "store 7",
            "epilog 7.0"
        ]
    );
    let (mut again, effects) = recover(&again.core, &reported);
    assert_eq!(effects, ["store 7", "epilog 7.0"]);
    assert_eq!(
        names(&again.core.on_epilog_done(JobId(7), None)),
        ["report epilog 7.0 ok", "store 7"]
    );
    let (mut again, effects) = recover(&again.core, &reported);
    assert_eq!(effects, [""; 0]);
    let report = AgentReport::EpilogDone {
        job_id: JobId(7),
        attempt: 0,
        error: None,
    };
    assert_eq!(names(&again.core.on_acknowledged(&report)), ["forget 7"]);
}

/// Found by simulation: an end ordered during the Prolog was forgotten by a restart, and the script was started after all.
#[test]
fn an_end_during_the_prolog_survives_a_restart() {
    let mut before = Node::new();
    before.order(AgentOrder::StartJob(job(7, 0)));
    before.order(AgentOrder::LaunchStep(launch(7, 0, StepId::Batch)));
    assert_eq!(before.order(terminate(7, 0, 5)), ["store 7"]);
    let record = before.core.record(JobId(7)).expect("record");
    let mut after = Node::new();
    assert_eq!(
        names(&after.core.recover(record, &[], after.now)),
        ["prolog 7.0"]
    );
    let effects = names(&after.core.on_prolog_done(JobId(7), 0, None));
    assert!(!effects.contains(&"start batch".to_owned()), "{effects:?}");
    assert_eq!(effects.last().map(String::as_str), Some("epilog 7.0"));
}

/// A run that took the place of a silently ended one is ended by the controller: its end is reported although the Prolog of the
/// former run still had a silent end waiting.
#[test]
fn an_ordered_end_replaces_a_silent_one() {
    let mut node = Node::new();
    node.order(AgentOrder::StartJob(job(7, 0)));
    assert_eq!(node.order(AgentOrder::StartJob(job(7, 1))), ["store 7"]);
    assert_eq!(node.order(terminate(7, 1, 5)), ["store 7"]);
    node.core.on_prolog_done(JobId(7), 0, None);
    let effects = names(&node.core.on_epilog_done(JobId(7), None));
    assert_eq!(effects, ["report epilog 7.1 ok", "store 7"]);
}

/// An agent that died between storing that the Prolog had ended and reporting it would never report it.
#[test]
fn an_end_of_the_prolog_is_reported_before_it_is_stored() {
    let mut node = Node::new();
    node.order(AgentOrder::StartJob(job(7, 0)));
    let effects = names(&node.core.on_prolog_done(JobId(7), 0, None));
    assert_eq!(effects, ["report prolog 7.0 ok", "store 7"]);
}
