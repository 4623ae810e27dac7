//! Heterogeneous jobs through the engine: submitted, started, held, ended and requeued as one.
//!
//! What is expected was seen on a real Slurm 26.05, or is said by its page on heterogeneous jobs.

mod world;

use std::sync::Arc;

use sluice_controller::cluster::BlobId;
use sluice_controller::command::cancel::{SignalRequest, signal_targets};
use sluice_controller::command::het;
use sluice_controller::command::hold::{HoldKind, hold_targets};
use sluice_controller::command::requeue::{RequeueRequest, requeue_targets};
use sluice_controller::command::submit::Submission;
use sluice_controller::command::suspend::suspend_targets;
use sluice_controller::command::{Rejection, TargetOutcome};
use sluice_model::error_code::ErrorCode;
use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::JobId;
use sluice_model::job::JobDescription;
use sluice_model::launch::AgentOrder;
use sluice_model::time::TimeLimit;
use world::{ALICE, ROOT, World, cpus};

fn try_submit(w: &mut World, parts: Vec<JobDescription>) -> Result<Vec<JobId>, Rejection> {
    let size = parts.len() as u32;
    let submissions = parts
        .into_iter()
        .enumerate()
        .map(|(offset, description)| Submission {
            description: JobDescription {
                uid: ALICE.uid,
                gid: ALICE.uid,
                work_dir: "/tmp".to_owned(),
                ..description
            },
            script: (offset == 0)
                .then(|| (BlobId([1; 32]), Arc::new(b"#!/bin/sh\ntrue\n".to_vec()))),
            environment: None,
            user_name: "alice".to_owned(),
            group_name: "users".to_owned(),
            group_names: vec!["users".to_owned()],
            default_account: None,
            caller: ALICE.clone(),
        })
        .collect();
    let leader = w.run(|t| het::submit(t, submissions))?.job_id;
    Ok((0..size).map(|offset| JobId(leader.0 + offset)).collect())
}

fn submit(w: &mut World, parts: Vec<JobDescription>) -> Vec<JobId> {
    try_submit(w, parts).expect("accepted")
}

fn nodes(count: u32) -> JobDescription {
    JobDescription {
        min_nodes: Some(count),
        max_nodes: Some(count),
        ..cpus(count)
    }
}

/// All CPUs of so many nodes.
fn full(count: u32) -> JobDescription {
    JobDescription {
        min_nodes: Some(count),
        max_nodes: Some(count),
        ..cpus(4 * count)
    }
}

fn states(w: &World, ids: &[JobId]) -> String {
    ids.iter()
        .map(|id| w.state(*id))
        .collect::<Vec<_>>()
        .join(" ")
}

fn codes(outcomes: &[TargetOutcome]) -> Vec<Option<ErrorCode>> {
    outcomes
        .iter()
        .map(|outcome| outcome.rejection.as_ref().map(|rejection| rejection.code))
        .collect()
}

fn cancel(w: &mut World, target: &str) -> Vec<Option<ErrorCode>> {
    let outcomes = w
        .run(|t| {
            Ok(signal_targets(
                t,
                &[target.to_owned()],
                SignalRequest::default(),
                &ALICE,
            ))
        })
        .unwrap();
    codes(&outcomes)
}

/// Ids follow each other, components have nodes of their own although one node would do, and only the leader has the script.
#[test]
fn components_start_together_on_nodes_of_their_own() {
    let mut w = World::new();
    let ids = submit(&mut w, vec![cpus(1), cpus(1), nodes(2)]);
    assert_eq!(ids[2].0 - ids[0].0, 2);
    let set = format!("{}-{}", ids[0], ids[2]);
    let job = w.cluster.job(ids[1]).unwrap();
    let info = sluice_controller::view::job_info(&w.cluster, job, w.now);
    assert_eq!(
        (info.het_job_id, info.het_job_offset, info.het_job_id_set),
        (Some(ids[0]), Some(1), Some(set))
    );
    w.pass();
    assert_eq!(states(&w, &ids), "R R R");
    let mut used: Vec<String> = ids.iter().map(|id| w.nodes(*id)).collect();
    used.sort();
    used.dedup();
    assert_eq!(used.len(), 3, "{used:?}");
    let launched: Vec<JobId> = w
        .orders
        .iter()
        .filter_map(|(_, order)| match order {
            AgentOrder::LaunchStep(launch) => Some(launch.job_id),
            _ => None,
        })
        .collect();
    assert_eq!(launched, [ids[0]]);
    let variables = w
        .orders
        .iter()
        .find_map(|(_, order)| match order {
            AgentOrder::LaunchStep(launch) => Some(launch.environment.clone()),
            _ => None,
        })
        .unwrap();
    for expected in [
        "SLURM_HET_SIZE=3".to_owned(),
        format!("SLURM_JOB_ID_HET_GROUP_1={}", ids[1]),
        format!("SLURM_JOB_NODELIST_HET_GROUP_2={}", w.nodes(ids[2])),
    ] {
        assert!(variables.contains(&expected), "{expected}");
    }
    // The script's end is the end of all.
    w.finish(ids[0], WaitStatus::exited(3));
    assert_eq!(states(&w, &ids), "F F F");
    w.check();
}

/// While one component does not fit none starts, and what they wait for is not given to others.
#[test]
fn all_start_or_none() {
    let mut w = World::new();
    let busy = w.submit(full(2));
    w.pass();
    let ids = submit(&mut w, vec![cpus(1), nodes(2)]);
    w.pass();
    assert_eq!(
        states(&w, &ids),
        "PD PD",
        "three nodes are needed, two are free"
    );
    // A later job that would take the free nodes for longer than the first runs.
    let later = w.submit(JobDescription {
        time_limit: Some(TimeLimit::Minutes(120)),
        ..full(2)
    });
    w.pass();
    assert_eq!(states(&w, &ids), "PD PD");
    assert_eq!(w.state(later), "PD");
    w.finish(busy, WaitStatus::SUCCESS);
    w.pass();
    assert_eq!(states(&w, &ids), "R R");
    w.check();
}

/// A component that could never run refuses the whole; arrays are refused.
#[test]
fn refusals_store_nothing() {
    let mut w = World::new();
    let next = w.cluster.next_job_id;
    assert_eq!(
        try_submit(
            &mut w,
            vec![
                cpus(1),
                JobDescription {
                    cpus_per_task: Some(5),
                    ..cpus(1)
                }
            ]
        )
        .unwrap_err()
        .code,
        ErrorCode::RequestedNodeConfigUnavailable
    );
    let array = JobDescription {
        array: Some("1-2".to_owned()),
        ..cpus(1)
    };
    assert_eq!(
        try_submit(&mut w, vec![cpus(1), array]).unwrap_err().code,
        ErrorCode::InvalidArray
    );
    assert_eq!(w.cluster.next_job_id, next);
    assert!(w.cluster.jobs.is_empty());
}

/// One component alone cannot be cancelled while all wait; the leader's id cancels all.
#[test]
fn cancelling_while_pending() {
    let mut w = World::new();
    let held = JobDescription {
        hold: true,
        ..cpus(1)
    };
    let ids = submit(&mut w, vec![held.clone(), held]);
    let alone = format!("{}+1", ids[0]);
    assert_eq!(cancel(&mut w, &alone), [Some(ErrorCode::NotWholeHetJob)]);
    assert_eq!(
        cancel(&mut w, &ids[1].to_string()),
        [Some(ErrorCode::NotWholeHetJob)]
    );
    assert_eq!(cancel(&mut w, &ids[0].to_string()), [None]);
    assert_eq!(states(&w, &ids), "CA CA");
    w.check();
}

/// Of a running job one component may be cancelled; the leader takes all with it.
#[test]
fn cancelling_while_running() {
    let mut w = World::new();
    let ids = submit(&mut w, vec![cpus(1), cpus(1), cpus(1)]);
    w.pass();
    let alone = format!("{}+1", ids[0]);
    assert_eq!(cancel(&mut w, &alone), [None]);
    w.epilogs();
    assert_eq!(states(&w, &ids), "R CA R");
    cancel(&mut w, &ids[0].to_string());
    w.epilogs();
    assert_eq!(states(&w, &ids), "CA CA CA");
    w.check();
}

/// Hold and release by the leader's id act on all; one held component keeps the others waiting.
#[test]
fn holding() {
    let mut w = World::new();
    let ids = submit(&mut w, vec![cpus(1), cpus(1)]);
    let hold = |w: &mut World, target: String, kind| {
        let outcomes = w
            .run(|t| Ok(hold_targets(t, &[target], kind, &ALICE)))
            .unwrap();
        codes(&outcomes)
    };
    assert_eq!(
        hold(&mut w, ids[0].to_string(), HoldKind::Hold),
        [None, None]
    );
    assert_eq!(w.reason(ids[1]), "JobHeldUser");
    hold(&mut w, format!("{}+0", ids[0]), HoldKind::Release);
    w.pass();
    assert_eq!(states(&w, &ids), "PD PD");
    hold(&mut w, ids[0].to_string(), HoldKind::Release);
    w.pass();
    assert_eq!(states(&w, &ids), "R R");
    w.check();
}

/// Only the leader is requeued, and takes all with it.
#[test]
fn requeueing() {
    let mut w = World::new();
    let ids = submit(&mut w, vec![cpus(1), cpus(1)]);
    w.pass();
    let requeue = |w: &mut World, target: String| {
        let outcomes = w
            .run(|t| {
                Ok(requeue_targets(
                    t,
                    &[target],
                    RequeueRequest::default(),
                    &ALICE,
                ))
            })
            .unwrap();
        codes(&outcomes)
    };
    assert_eq!(
        requeue(&mut w, format!("{}+1", ids[0])),
        [Some(ErrorCode::NotHetJobLeader)]
    );
    assert!(
        requeue(&mut w, ids[0].to_string())
            .iter()
            .all(Option::is_none)
    );
    w.epilogs();
    assert_eq!(states(&w, &ids), "PD PD");
    w.pass();
    assert_eq!(states(&w, &ids), "R R");
    w.check();
}

/// The leader's id stops and continues all components; a component alone is refused.
#[test]
fn suspending() {
    let mut w = World::new();
    let ids = submit(&mut w, vec![cpus(1), cpus(1)]);
    w.pass();
    let suspend = |w: &mut World, target: String, resume| {
        let outcomes = w
            .run(|t| Ok(suspend_targets(t, &[target], resume, &ROOT)))
            .unwrap();
        codes(&outcomes)
    };
    for alone in [format!("{}+1", ids[0]), ids[1].to_string()] {
        assert_eq!(
            suspend(&mut w, alone, false),
            [Some(ErrorCode::NotHetJobLeader)]
        );
    }
    assert_eq!(states(&w, &ids), "R R");
    assert_eq!(suspend(&mut w, ids[0].to_string(), false), [None]);
    assert_eq!(states(&w, &ids), "S S");
    assert_eq!(suspend(&mut w, format!("{}+0", ids[0]), true), [None]);
    assert_eq!(states(&w, &ids), "R R");
    w.check();
}

/// Components have one name and one user: none of them waits for another because of that.
#[test]
fn components_with_singleton_do_not_wait_for_each_other() {
    let mut w = World::new();
    let singleton = |count| JobDescription {
        name: Some("same".to_owned()),
        dependency: Some("singleton".to_owned()),
        ..cpus(count)
    };
    let ids = submit(&mut w, vec![singleton(1), singleton(2)]);
    let later = submit(&mut w, vec![singleton(1), singleton(1)]);
    w.pass();
    assert_eq!(states(&w, &ids), "R R");
    assert_eq!(states(&w, &later), "PD PD");
}

/// A component that was cancelled by itself keeps nobody when the others go back to the queue.
#[test]
fn a_component_that_ended_alone_does_not_keep_the_others() {
    let mut w = World::new();
    let ids = submit(&mut w, vec![cpus(1), cpus(1), cpus(1)]);
    w.pass();
    assert_eq!(cancel(&mut w, &format!("{}+1", ids[0])), [None]);
    assert!(states(&w, &ids).starts_with("R C"), "{}", states(&w, &ids));
    let node = w.nodes(ids[0]);
    w.run(|t| {
        sluice_controller::command::agent::fail_jobs(t, &node, "lost");
        Ok(())
    })
    .unwrap();
    w.epilogs();
    w.pass();
    assert_eq!(
        (w.state(ids[0]), w.state(ids[2])),
        ("R".to_owned(), "R".to_owned())
    );
}
