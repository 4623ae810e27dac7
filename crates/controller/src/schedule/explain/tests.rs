//! Explanations of small scenes, worked by hand, and of random queues against the pass.

use proptest::prelude::*;

use super::super::scenario::{EPOCH, World};
use super::super::tests::job_words;
use super::*;

fn explained(scenario: &str, name: &str) -> Explanation {
    let mut world = World::new(scenario);
    for line in scenario.lines() {
        world.step(line.split('#').next().unwrap_or("").trim());
    }
    let id = world.named(name).expect("a job of the scenario");
    explain(&world.cluster, UnixSeconds(world.now), id).expect("it waits")
}

fn hours(time: Option<UnixSeconds>) -> Option<i64> {
    time.map(|time| (time.0 - EPOCH) / 3600)
}

fn causes(place: &PartitionExplanation) -> Vec<(NodeCause, &str)> {
    let refused = place.refused.iter();
    refused
        .map(|nodes| (nodes.cause, nodes.nodes.as_str()))
        .collect()
}

/// The head waits for what runs; a job behind it is told which limit ends before the head starts.
#[test]
fn behind_a_head() {
    let scenario = "nodes n[1-2] cpus=8
         running R on=n1 cpus=8 limit=1h
         job B cpus=16 limit=1h prio=900
         job D cpus=8 limit=2h prio=90";
    let head = explained(scenario, "B");
    assert_eq!(head.reason, Reason::Resources);
    assert_eq!(
        (hours(head.expected_start), head.planned_nodes.as_str()),
        (Some(1), "n[1-2]")
    );
    assert_eq!(head.jobs_ahead, 0);
    let blockers: Vec<_> = head
        .blockers
        .iter()
        .map(|b| (b.kind, b.nodes.as_str(), hours(b.until)))
        .collect();
    assert_eq!(blockers, [(BlockerKind::RunningJob, "n1", Some(1))]);
    assert_eq!(causes(&head.partitions[0]), [(NodeCause::CpusInUse, "n1")]);
    assert_eq!(
        (
            head.partitions[0].free.as_str(),
            head.partitions[0].free_count
        ),
        ("n2", 1)
    );

    let behind = explained(scenario, "D");
    assert_eq!(behind.reason, Reason::Priority);
    assert_eq!(
        (hours(behind.expected_start), behind.planned_nodes.as_str()),
        (Some(2), "n1")
    );
    assert_eq!(behind.jobs_ahead, 1);
    assert_eq!(
        causes(&behind.partitions[0]),
        [(NodeCause::CpusInUse, "n1"), (NodeCause::Promised, "n2")]
    );
    let blockers: Vec<_> = behind
        .blockers
        .iter()
        .map(|b| (b.kind, hours(b.from), hours(b.until)))
        .collect();
    assert_eq!(
        blockers,
        [
            (BlockerKind::PlannedJob, Some(1), Some(2)),
            (BlockerKind::RunningJob, None, Some(1))
        ]
    );
    // B starts after an hour: 60 minutes end in time.
    let advice: Vec<_> = behind
        .advice
        .iter()
        .map(|a| (a.kind, a.value.as_str(), a.start))
        .collect();
    assert_eq!(advice, [(AdviceKind::TimeLimit, "60", None)]);
}

/// Field case 032: each cause alone has its own words and node names.
#[test]
fn causes_of_nodes() {
    let place = |nodes: &str, job: &str| {
        let scenario =
            format!("{nodes}\n running R on=n3 cpus=4 mem=100 limit=1h\n job A nodes=3 {job}");
        let found = explained(&scenario, "A").partitions.remove(0);
        causes(&found)
            .into_iter()
            .map(|(cause, nodes)| (cause, nodes.to_owned()))
            .collect::<Vec<_>>()
    };
    let nodes = "nodes n[1-2] cpus=8 mem=1000 features=a\n nodes n[3-4] cpus=8 mem=1000 features=a,b\n nodes n5 cpus=2 mem=1000 features=a,b";
    let of = |list: &[(NodeCause, &str)]| {
        list.iter()
            .map(|(cause, nodes)| (*cause, (*nodes).to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        place(nodes, "tasks=3 cpus-per-task=6 exclude=n4 limit=1h"),
        of(&[
            (NodeCause::Excluded, "n4"),
            (NodeCause::TooFewCpus, "n5"),
            (NodeCause::CpusInUse, "n3")
        ]),
    );
    assert_eq!(
        place(
            &format!("{nodes}\n down n2"),
            "cpus=3 limit=1h constraint=b"
        ),
        of(&[(NodeCause::OutOfService, "n2"), (NodeCause::Feature, "n1")]),
    );
}

/// Field case 030 in a partition: the rule is told with both numbers.
#[test]
fn rules_of_partitions() {
    let scenario = "nodes n[1-2] cpus=8
         partition main maxtime=2h
         partition long
         running R on=n1 cpus=8 limit=1h
         job A cpus=8 limit=3h partition=main";
    let found = explained(scenario, "A");
    assert_eq!(found.reason, Reason::PartitionTimeLimit);
    assert_eq!(
        found.summary,
        "the time limit 03:00:00 is above MaxTime=02:00:00 of partition main"
    );
    let advice: Vec<_> = found
        .advice
        .iter()
        .map(|a| (a.kind, a.value.as_str(), a.start))
        .collect();
    assert_eq!(advice, [(AdviceKind::Partition, "long", None)]);
}

/// Field case 030: a long job before a maintenance is told the reservation and the longest limit that ends before it.
#[test]
fn before_a_maintenance() {
    let scenario = "nodes n[1-2] cpus=8
         reserve upkeep nodes=n[1-2] start=121h length=4h users=root flags=MAINT
         job A cpus=8 limit=240h";
    let found = explained(scenario, "A");
    assert_eq!(found.reason, Reason::ReqNodeNotAvail);
    assert_eq!(hours(found.expected_start), Some(125));
    let blockers: Vec<_> = found
        .blockers
        .iter()
        .map(|b| (b.kind, b.name.as_str(), hours(b.from), hours(b.until)))
        .collect();
    assert_eq!(
        blockers,
        [(BlockerKind::Reservation, "upkeep", Some(121), Some(125))]
    );
    assert_eq!(
        found.summary,
        "no node has room for it now; a reservation needs free nodes before this job would end"
    );
    // 5 days and an hour.
    let advice: Vec<_> = found
        .advice
        .iter()
        .map(|a| (a.kind, a.value.as_str(), a.text.as_str()))
        .collect();
    assert_eq!(
        advice,
        [(
            AdviceKind::TimeLimit,
            "7260",
            "with a time limit of 5-01:00:00 or less it would start now in main"
        )]
    );
}

/// Field case 058 in words: who holds the licences, and how many there are.
#[test]
fn licences_in_use() {
    let scenario = "config Licenses=matlab:3
         nodes n[1-2] cpus=8
         running R on=n1 cpus=8 limit=1h licenses=matlab:2
         job A cpus=1 limit=1h licenses=matlab:2";
    let found = explained(scenario, "A");
    assert_eq!(found.reason, Reason::Licenses);
    assert_eq!(
        found.summary,
        "it needs 2 of licence matlab, and 1 of 3 are free"
    );
    let blockers: Vec<_> = found
        .blockers
        .iter()
        .map(|b| (b.kind, b.name.as_str(), hours(b.until)))
        .collect();
    assert_eq!(blockers, [(BlockerKind::License, "matlab", Some(1))]);
    assert_eq!(found.advice, []);
}

/// Fewer nodes that are free now are named.
#[test]
fn fewer_nodes() {
    let scenario = "nodes n[1-4] cpus=8
         running R on=n[1-2] cpus=16 limit=1h
         job A nodes=4 cpus=4 limit=1h";
    let found = explained(scenario, "A");
    assert_eq!(
        found.summary,
        "it needs 4 nodes at once, and 2 have room now"
    );
    let advice: Vec<_> = found
        .advice
        .iter()
        .map(|a| (a.kind, a.value.as_str()))
        .collect();
    assert_eq!(advice, [(AdviceKind::Nodes, "2")]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// What is explained is what the next pass says: the same reason and start for every job that waits for resources.
    #[test]
    fn agrees_with_the_pass(jobs in proptest::collection::vec(job_words(), 1..25)) {
        let mut world = World::new(
            "nodes n[1-2] sockets=2 cores=2 threads=2 mem=1000 features=x
             nodes n[3-4] cpus=4 mem=800 gres=gpu:a:2,gpu:b:2 features=x,y
             nodes n5 cpus=8 mem=2000 gres=gpu:a:4 features=y
             partition main
             partition fast nodes=n[3-5] tier=5",
        );
        for (at, words) in jobs.iter().enumerate() {
            world.submit(&format!("j{at}"), words);
        }
        world.pass();
        let next = super::super::plan(&world.cluster, UnixSeconds(world.now), PlanOptions::default());
        // What the next pass does not repeat is as the last one said.
        let mut notes: BTreeMap<_, _> = world.last_plan.notes.iter().cloned().collect();
        notes.extend(next.notes);
        for (id, note) in notes {
            if next.starts.iter().any(|start| start.job == id) {
                continue;
            }
            if !matches!(note.reason, Reason::Resources | Reason::Priority) {
                continue;
            }
            let found = explain(&world.cluster, UnixSeconds(world.now), id).expect("it waits");
            prop_assert_eq!(found.expected_start, note.expected_start, "{}", id);
            prop_assert_eq!(found.reason, note.reason, "{}", id);
        }
    }
}
