//! Regressions of what the simulation with faults found in the engine (`cargo xtask sim`). One test for each bug.

mod world;

use sluice_controller::accounting_feed;
use sluice_controller::cluster::Job;
use sluice_controller::command::agent::{self, Registration};
use sluice_controller::command::cancel::{SignalRequest, signal_targets};
use sluice_controller::command::requeue::{RequeueRequest, requeue_targets};
use sluice_controller::command::suspend::suspend_targets;
use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::{JobId, StepId};
use sluice_model::job::JobDescription;
use sluice_model::launch::AgentOrder;
use sluice_model::node::NodeHardware;
use sluice_model::state::JobState;
use sluice_model::time::UnixSeconds;
use world::{ALICE, ROOT, World, cpus};

fn cancel(w: &mut World, id: JobId) {
    let target = vec![id.to_string()];
    w.run(|t| Ok(signal_targets(t, &target, SignalRequest::default(), &ALICE)))
        .unwrap();
}

fn requeue(w: &mut World, id: JobId, hold: bool) {
    let target = vec![id.to_string()];
    let request = RequeueRequest {
        hold,
        ..RequeueRequest::default()
    };
    let outcomes = w
        .run(|t| Ok(requeue_targets(t, &target, request, &ALICE)))
        .unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.rejection.is_none()));
}

fn job(w: &World, id: JobId) -> Job {
    (**w.cluster.job(id).unwrap()).clone()
}

/// A job that has run, is requeued and is then cancelled while it waits: that end belongs to the run it waited for. Before, it
/// overwrote the record of the run that had ended.
#[test]
fn a_cancelled_wait_does_not_overwrite_the_former_run() {
    let mut w = World::new();
    let id = w.submit(cpus(1));
    w.pass();
    w.finish(id, WaitStatus::SUCCESS);
    let first = accounting_feed::job_record(&w.cluster, &job(&w, id));
    requeue(&mut w, id, true);
    cancel(&mut w, id);
    let second = accounting_feed::job_record(&w.cluster, &job(&w, id));
    assert_eq!((first.attempt, second.attempt), (0, 1));
    assert_eq!(first.state, u32::from(JobState::Completed.number()));
    assert_eq!(second.state, u32::from(JobState::Cancelled.number()));
    assert_eq!(second.node_list, "", "it never ran a second time");
    w.check();
}

/// A job cancelled while it depended on another, and requeued: it waits for the other again, and starts when that one ends.
/// Before, nothing told it.
#[test]
fn a_requeued_dependent_hears_of_its_target() {
    let mut w = World::new();
    let target = w.submit(cpus(1));
    let dependent = w.submit(JobDescription {
        dependency: Some(format!("afterany:{target}")),
        ..cpus(1)
    });
    w.pass();
    cancel(&mut w, dependent);
    requeue(&mut w, dependent, false);
    w.finish(target, WaitStatus::SUCCESS);
    w.pass();
    assert_eq!(w.state(dependent), "R");
    w.check();
}

/// As before, but the other has ended while the dependent was cancelled: it starts at once.
#[test]
fn a_requeued_dependent_sees_what_ended_meanwhile() {
    let mut w = World::new();
    let target = w.submit(cpus(1));
    let dependent = w.submit(JobDescription {
        dependency: Some(format!("afterok:{target}")),
        ..cpus(1)
    });
    w.pass();
    cancel(&mut w, dependent);
    w.finish(target, WaitStatus::SUCCESS);
    requeue(&mut w, dependent, false);
    w.pass();
    assert_eq!(w.state(dependent), "R");
    w.check();
}

/// A requeued task of a singleton array goes before a singleton job that was submitted after the array, although the task's own
/// record has the higher id. Before, it waited for the later job; with a dependency the other way round both waited for ever.
#[test]
fn a_requeued_singleton_task_keeps_its_place() {
    let mut w = World::new();
    let named = |array: Option<&str>| JobDescription {
        name: Some("same".to_owned()),
        array: array.map(str::to_owned),
        dependency: Some("singleton".to_owned()),
        ..cpus(1)
    };
    let array = w.submit(named(Some("0-1%1")));
    let later = w.submit(named(None));
    w.pass();
    let task = w.tasks(array)[&0];
    assert!(task > later, "the task has a record of its own");
    requeue(&mut w, task, false);
    w.epilogs();
    w.pass();
    let running = w
        .tasks(array)
        .values()
        .filter(|id| w.state(**id) == "R")
        .count();
    assert_eq!((running, w.state(later).as_str()), (1, "PD"));
    for _ in 0..2 {
        let running: Vec<JobId> = w
            .tasks(array)
            .values()
            .copied()
            .filter(|id| w.state(*id) == "R")
            .collect();
        for id in running {
            w.finish(id, WaitStatus::SUCCESS);
        }
        w.pass();
    }
    assert_eq!(w.state(task), "CD", "the task ran before the later job");
    assert_eq!(w.state(later), "R");
    w.check();
}

/// A batch step whose launch was lost has its end on record once the node is released. Before, it stayed RUNNING for ever.
#[test]
fn a_step_that_never_started_ends_with_its_job() {
    let mut w = World::new();
    let id = w.submit(cpus(1));
    w.pass();
    cancel(&mut w, id);
    w.epilogs();
    let job = job(&w, id);
    let step = &job.steps[&StepId::Batch];
    assert_eq!(
        (step.state, step.end_time.is_some()),
        (JobState::Cancelled, true)
    );
    assert_eq!(job.state.base, JobState::Cancelled);
    w.check();
}

/// An agent that was not connected when its job was resumed is told when it registers. Before, the job stayed stopped there until
/// its time limit.
#[test]
fn a_lost_resume_is_told_again() {
    let mut w = World::new();
    let id = w.submit(cpus(1));
    w.pass();
    let target = vec![id.to_string()];
    for resume in [false, true] {
        w.run(|t| Ok(suspend_targets(t, &target, resume, &ROOT)))
            .unwrap();
    }
    let registration = Registration {
        node: "n1".to_owned(),
        hardware: NodeHardware {
            boot_time: UnixSeconds(1),
            ..NodeHardware::default()
        },
        steps: Vec::new(),
        jobs: vec![(id, 0)],
        health_error: None,
        heartbeat_secs: 5,
    };
    let orders = w.run(|t| agent::register(t, registration)).unwrap();
    let resume = AgentOrder::Suspend {
        job_id: id,
        suspended: false,
    };
    assert!(orders.contains(&resume), "{orders:?}");
    w.check();
}
