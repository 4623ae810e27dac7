//! Scenarios of the scheduler: each names the rule or the field case that it keeps.

use proptest::prelude::*;
use sluice_model::reason::Reason;
use sluice_model::state::JobState;

use super::PlanOptions;
use super::scenario::{EPOCH, World, check};
use crate::plan::PlanNote;

/// The head books the end of what runs; what does not fit beside it waits.
#[test]
fn head_waits_and_the_rest_behind_it() {
    check(
        "nodes n[1-4] cpus=8
         job A cpus=32 limit=2h prio=1000   # runs now on all
         job B cpus=32 limit=1h prio=900    # head: waits for A
         job C cpus=8 limit=30m prio=100    # no room to backfill
         at 0 pass",
        "A starts n[1-4]; B pending Resources, start 2h on n[1-4]; C pending Priority, start 3h on n1",
    );
}

/// A short job slips in before the head's start, a long one does not.
#[test]
fn backfill_does_not_delay_the_head() {
    check(
        "nodes n[1-2] cpus=8
         running R on=n1 cpus=8 limit=1h
         job B cpus=16 limit=1h prio=900    # needs both nodes: at 1h
         job C cpus=8 limit=1h prio=100     # fits on n2 until then
         job D cpus=8 limit=2h prio=90      # would delay B
         at 0 pass",
        "B pending Resources, start 1h on n[1-2]; C starts n2 by backfill; D pending Priority, start 2h on n1",
    );
}

/// Components that do not fit at once book one time for all, on nodes of their own. What ends before then may use the nodes.
#[test]
fn components_book_one_time_on_disjoint_nodes() {
    check(
        "nodes n[1-2] cpus=8
         running R on=n1 cpus=8 limit=1h
         running S on=n2 cpus=8 limit=2h
         het H cpus=8 limit=1h prio=900 : cpus=8 limit=3h prio=900
         job C cpus=8 limit=1h prio=100     # between R and the booking of H
         job D cpus=8 limit=2h prio=90      # would delay H
         at 0 pass
         at 1h pass
         at 2h pass",
        "C pending Priority, start 1h on n1; D pending Priority, start 3h on n1; \
         H+0 pending Resources, start 2h on n1; H+1 pending Resources, start 2h on n2 | \
         C starts n1 by backfill; D pending Priority, start 3h on n1; \
         H+0 pending Resources, start 2h on n1; H+1 pending Resources, start 2h on n2 | \
         D pending Resources, start 3h on n1; H+0 starts n1; H+1 starts n2",
    );
}

/// A stream of short jobs, each of which would fit on the node that is free, does not starve a job of two components.
#[test]
fn short_jobs_do_not_starve_components() {
    check(
        "nodes n[1-2] cpus=8
         running R on=n1 cpus=8 limit=1h
         running S on=n2 cpus=8 limit=3h
         het H cpus=8 limit=1h prio=900 : cpus=8 limit=1h prio=900
         job A cpus=8 limit=1h prio=100
         job B cpus=8 limit=2h prio=100     # may not: it would end after H begins
         job C cpus=8 limit=1h prio=100
         at 1h pass
         at 2h pass
         at 3h pass",
        "A starts n1 by backfill; B pending Priority, start 4h on n1; C pending Priority, start 2h on n1; \
         H+0 pending Resources, start 3h on n1; H+1 pending Resources, start 3h on n2 | \
         B pending Priority, start 4h on n1; C starts n1 by backfill; \
         H+0 pending Resources, start 3h on n1; H+1 pending Resources, start 3h on n2 | \
         B pending Resources, start 4h on n1; H+0 starts n1; H+1 starts n2",
    );
}

/// A component that can go anywhere leaves the others the nodes that only they can use.
#[test]
fn the_component_with_the_least_choice_is_placed_first() {
    check(
        "nodes n1 cpus=8 features=a
         nodes n2 cpus=8
         het H cpus=8 limit=1h : cpus=8 limit=1h constraint=a
         at 0 pass",
        "H+0 starts n2; H+1 starts n1",
    );
}

/// With sched/builtin nothing passes the head.
#[test]
fn builtin_does_not_backfill() {
    check(
        "config SchedulerType=sched/builtin
         nodes n[1-2] cpus=8
         running R on=n1 cpus=8 limit=1h
         job B cpus=16 limit=1h prio=900
         job C cpus=8 limit=1h prio=100
         at 0 pass",
        "B pending Resources, start 1h on n[1-2]; C pending Priority",
    );
}

/// Field case 020: bookings hold CPUs, not nodes; the other half of a booked node is used.
#[test]
fn case_020_half_nodes_are_booked_as_halves() {
    check(
        "nodes n1 cpus=8
         running R on=n1 cpus=4 limit=1h
         running S on=n1 cpus=2 limit=3h
         job B cpus=6 limit=2h prio=900     # from 1h on: four of R, two free ones
         job C cpus=2 limit=1h prio=100     # the two free ones until then
         at 0 pass",
        "B pending Resources, start 1h on n1; C starts n1 by backfill",
    );
    check(
        "nodes n1 cpus=8
         running R on=n1 cpus=8 limit=1h
         job B cpus=4 limit=2h prio=900
         job C cpus=4 limit=2h prio=800     # the other half at the same time
         at 0 pass
         at 1h pass",
        "B pending Resources, start 1h on n1; C pending Priority, start 1h on n1 | B starts n1; C starts n1",
    );
}

/// Field case 016: a stream of small jobs does not starve a job that needs every node.
#[test]
fn case_016_large_job_is_not_starved() {
    let mut world = World::new("nodes n[1-16] cpus=8");
    for i in 0..128 {
        world.submit(&format!("s{i}"), "cpus=1 limit=10m");
    }
    world.pass();
    world.advance(EPOCH + 60);
    let large = world.submit("large", "nodes=16 cpus=128 limit=10m");
    let mut started = None;
    for minute in 1..=30 {
        world.advance(EPOCH + minute * 60);
        // Twice what the cluster can run in this minute.
        for i in 0..26 {
            world.submit(&format!("t{minute}_{i}"), "cpus=1 limit=10m");
        }
        world.pass();
        if world
            .cluster
            .job(large)
            .is_some_and(|job| job.state.base == JobState::Running)
        {
            started = Some(minute);
            break;
        }
    }
    assert_eq!(
        started,
        Some(10),
        "the last small job ahead of it ends at minute 10"
    );
}

/// The same where nobody gives a limit: the stream stops behind the large job.
#[test]
fn case_016_without_limits() {
    let mut world = World::new("nodes n[1-2] cpus=4");
    for i in 0..6 {
        world.submit(&format!("s{i}"), "cpus=1");
    }
    world.pass();
    let large = world.submit("large", "nodes=2 cpus=8");
    world.now += 60;
    for i in 0..6 {
        world.submit(&format!("t{i}"), "cpus=1");
    }
    world.pass();
    for i in 0..6 {
        assert_eq!(
            world
                .cluster
                .job(world.named(&format!("t{i}")).expect("submitted"))
                .map(|j| j.state.base),
            Some(JobState::Pending)
        );
        world.end(world.named(&format!("s{i}")).expect("started"));
        world.pass();
    }
    assert_eq!(
        world.cluster.job(large).map(|job| job.state.base),
        Some(JobState::Running)
    );
}

/// Field case 024: jobs with one GPU fill node after node, so that a job with a whole node's GPUs starts.
#[test]
fn case_024_partial_gpu_jobs_are_packed() {
    let mut world = World::new("nodes n[1-8] cpus=64 gres=gpu:8");
    for i in 0..40 {
        world.submit(&format!("s{i}"), "cpus=1 gres=gpu:1 limit=1h");
    }
    world.pass();
    assert_eq!(world.busy_nodes(), 5);
    world.submit("whole", "cpus=8 gres=gpu:8 limit=1h");
    assert_eq!(world.pass(), "whole starts n6");
}

/// PriorityTier before priority before submission before id.
#[test]
fn order_of_the_queue() {
    check(
        "nodes n1 cpus=1
         partition main tier=1
         partition fast tier=10
         job A prio=5000 limit=1h
         job B prio=10 limit=1h partition=fast
         job C prio=6000 limit=1h
         at 0 pass",
        "A pending Priority, start 2h on n1; B starts n1; C pending Resources, start 1h on n1",
    );
    let mut world = World::new("nodes n1 cpus=1");
    world.submit("first", "limit=1h");
    world.submit("second", "limit=1h");
    assert_eq!(
        world.pass(),
        "first starts n1; second pending Resources, start 1h on n1"
    );
}

/// `%N`, lowest task first, and the whole array has one verdict.
#[test]
fn arrays() {
    check(
        "nodes n[1-2] cpus=4
         job A array=0-9%3 limit=1h
         at 0 pass",
        "A pending JobArrayTaskLimit; A_0 starts n1; A_1 starts n1; A_2 starts n1",
    );
    check(
        "nodes n1 cpus=2
         job A array=3,5,9 limit=1h prio=900
         job B limit=1h prio=100
         at 0 pass
         at 1h pass",
        "A pending Resources, start 1h on n1; A_3 starts n1; A_5 starts n1; B pending Priority, start 1h on n1 | \
         A_9 starts n1; B starts n1",
    );
}

/// A throttled array books no more than its limit allows and does not stand in the way.
#[test]
fn throttled_array_lets_others_pass() {
    check(
        "nodes n1 cpus=4
         job A array=0-9%2 limit=1h prio=900
         job B cpus=2 limit=2h prio=100
         at 0 pass",
        "A pending JobArrayTaskLimit; A_0 starts n1; A_1 starts n1; B starts n1",
    );
}

/// Nodes out of service: named ones give ReqNodeNotAvail with their names, others Resources with words.
#[test]
fn nodes_out_of_service() {
    check(
        "nodes n[1-3] cpus=4
         down n2
         job A nodelist=n2 limit=1h prio=900
         job B nodes=3 limit=1h prio=800
         job C nodes=2 limit=1h prio=700
         at 0 pass",
        "A pending ReqNodeNotAvail (UnavailableNodes:n2); B pending Resources (Nodes required for job are DOWN, DRAINED or \
         reserved for jobs in higher priority partitions); C starts n[1,3]",
    );
}

/// Rules of the partition.
#[test]
fn partition_rules() {
    check(
        "nodes n[1-2] cpus=4
         partition main maxtime=1h
         partition off State=DOWN
         partition gone State=INACTIVE
         partition small MaxNodes=1
         job A limit=2h
         job B partition=off
         job C partition=gone
         job D partition=small nodes=2
         job E partition=small,main limit=1h nodes=2
         at 0 pass",
        "A pending PartitionTimeLimit; B pending PartitionDown; C pending PartitionInactive; D pending PartitionNodeLimit; \
         E starts n[1-2]",
    );
}

/// What no node could ever satisfy is reported so; what is only too much now waits.
#[test]
fn impossible_jobs() {
    check(
        "nodes n[1-2] cpus=4 mem=1000 features=x
         running R on=n1 cpus=4 limit=1h
         job A cpus=1 cpus-per-task=5
         job B mem=2000
         job C constraint=nosuch
         job D gres=gpu:1
         job E nodes=2 limit=1h constraint=x prio=1
         at 0 pass",
        "A impossible: CPU count per node can not be satisfied: Requested node configuration is not available; \
         B impossible: Memory specification can not be satisfied: Requested node configuration is not available; \
         C impossible: Invalid feature specification; \
         D impossible: Invalid generic resource (gres) specification; \
         E pending Resources, start 1h on n[1-2]",
    );
}

/// Begin times wait and wake the planner; deadlines that cannot be met end the job.
#[test]
fn times() {
    let mut world = World::new("nodes n1 cpus=1");
    world.submit("A", "begin=1h limit=1h");
    world.submit("B", "deadline=30m limit=1h");
    assert_eq!(
        world.pass(),
        "A pending BeginTime, start 1h; B misses its deadline"
    );
    assert_eq!(world.last_plan.next_wakeup.map(|t| t.0), Some(EPOCH + 3600));
}

/// An exclusive job has the node for itself and all that is on it.
#[test]
fn whole_nodes() {
    check(
        "nodes n[1-2] cpus=4 gres=gpu:2
         running R on=n1 cpus=1 limit=1h
         job A exclusive limit=1h prio=900
         job B limit=1h prio=800
         job C gres=gpu:1 limit=1h prio=700
         at 0 pass",
        "A starts n2; B starts n1; C starts n1",
    );
    let mut world = World::new("nodes n1 cpus=4 mem=1000 gres=gpu:2");
    world.submit("A", "exclusive mem=100 limit=1h");
    world.pass();
    let part = &world.last_plan.starts[0].allocation.nodes[0];
    assert_eq!(
        (part.cpu_ids.len(), part.memory.0, part.gres[0].count),
        (4, 100, 2)
    );
}

/// Memory is a resource of its own; without a default a job takes all of the node's.
#[test]
fn memory() {
    check(
        "config DefMemPerCPU=0
         nodes n[1-2] cpus=8 mem=1000
         job A limit=1h prio=900            # all memory of n1
         job B mem=600 limit=1h prio=800
         job C mem=600 limit=1h prio=700    # 400 left on n2
         job D mem=400 limit=1h prio=600
         at 0 pass",
        "A starts n1; B starts n2; C pending Resources, start 1h on n1; D starts n2 by backfill",
    );
    check(
        "config SelectTypeParameters=CR_Core
         nodes n1 cpus=8 mem=1000
         job A mem=600 limit=1h
         job B mem=600 limit=1h
         at 0 pass",
        "A starts n1; B starts n1",
    );
}

/// Low weight first; nodes of higher weight only when needed.
#[test]
fn weights() {
    check(
        "nodes n1 cpus=8 weight=10
         nodes n2 cpus=8 weight=1
         nodes n3 cpus=8 weight=5
         job A limit=1h prio=900
         job B nodes=2 exclusive limit=1h prio=800
         at 0 pass",
        "A starts n2; B starts n[1,3]",
    );
}

/// A job in two partitions starts in the one that has room.
#[test]
fn several_partitions() {
    check(
        "nodes n[1-2] cpus=4
         partition main nodes=n1
         partition other nodes=n2
         running R on=n1 cpus=4 limit=1h
         job A partition=main,other cpus=4 limit=1h
         job B partition=main,other cpus=4 limit=1h
         at 0 pass",
        "A starts n2; B pending Resources, start 1h on n1",
    );
}

/// A job that waits in two partitions books in one; with sched/builtin nothing passes it in the other either.
#[test]
fn several_partitions_are_waited_in_together() {
    let scenario = |scheduler: &str| {
        format!(
            "config SchedulerType=sched/{scheduler}
             nodes n[1-2] cpus=4
             partition main nodes=n1
             partition other nodes=n2
             running R on=n1 cpus=4 limit=1h
             running S on=n2 cpus=2 limit=2h
             job A partition=main,other cpus=4 limit=1h prio=900
             job B partition=other cpus=2 limit=1h prio=100
             at 0 pass"
        )
    };
    check(
        &scenario("builtin"),
        "A pending Resources, start 1h on n1; B pending Priority",
    );
    check(
        &scenario("backfill"),
        "A pending Resources, start 1h on n1; B starts n2 by backfill",
    );
}

/// One thread of a core takes the core (CR_CPU), and gives it back: also on a node that is reserved for another day.
#[test]
fn a_thread_gives_its_core_back_on_a_reserved_node() {
    check(
        "config SelectTypeParameters=CR_CPU
         nodes n1 sockets=1 cores=4 threads=2
         reserve far nodes=n1 start=1000h length=1h users=u
         running S on=n1 cpus=1 limit=1h
         job B exclusive limit=1h
         at 0 pass",
        "B pending Resources, start 1h on n1",
    );
}

/// A quick pass looks at the head of the queue only and leaves the notes of the rest alone.
#[test]
fn depth_is_bounded() {
    let mut world = World::new("nodes n1 cpus=1");
    world.options = PlanOptions {
        max_jobs: 2,
        ..PlanOptions::default()
    };
    for name in ["A", "B", "C"] {
        world.submit(name, "limit=1h");
    }
    assert_eq!(
        world.pass(),
        "A starts n1; B pending Resources, start 1h on n1"
    );
}

/// A running job that is past its limit does not let others in, and is expected to be gone at once.
#[test]
fn overdue_jobs() {
    let mut world = World::new("nodes n1 cpus=1");
    world.step("running R on=n1 cpus=1 limit=1h since=-2h");
    world.submit("A", "limit=1h");
    assert_eq!(world.pass(), "A pending Resources, start 1 on n1");
}

/// One word each for a random job.
pub(super) fn job_words() -> impl Strategy<Value = String> {
    (
        1u32..12,
        prop_oneof![Just("".to_owned()), (1u32..4).prop_map(|n| format!("nodes={n}")), Just("nodes=1-3".to_owned())],
        prop_oneof![
            4 => Just(""), 1 => Just("exclusive"), 1 => Just("gres=gpu:1"), 1 => Just("gres=gpu:a:2"), 1 => Just("gpus=3"),
            1 => Just("mem=300"), 1 => Just("mem=0"), 1 => Just("constraint=x|y"), 1 => Just("constraint=[x|y]"),
            1 => Just("cpus-per-task=2"), 1 => Just("nodelist=n2"), 1 => Just("exclude=n[1-2]"), 1 => Just("array=0-5%2"),
            1 => Just("array=1-4"), 1 => Just("mem-per-cpu=100"), 1 => Just("contiguous"), 1 => Just("gpus-per-task=1"),
            1 => Just("tasks-per-node=2"), 1 => Just("constraint=x*1"), 1 => Just("overcommit"),
        ],
        1u32..20,
        0u32..5,
        prop_oneof![3 => Just("main"), 1 => Just("fast"), 1 => Just("main,fast")],
    )
        .prop_map(|(tasks, nodes, more, minutes, prio, partition)| {
            format!("tasks={tasks} {nodes} {more} limit={minutes}m prio={} partition={partition}", prio + 1)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::with_cases(48) })]

    /// Nothing is given twice, requests and throttles are kept, heads are not delayed, and in the end everything that can run
    /// has run: `pass` and `carry_out` test each plan and recount the cluster after it.
    #[test]
    fn random_queues(jobs in proptest::collection::vec(job_words(), 1..40), late in proptest::collection::vec(job_words(), 0..10)) {
        let mut world = World::new(
            "nodes n[1-2] sockets=2 cores=2 threads=2 mem=1000 features=x
             nodes n[3-4] cpus=4 mem=800 gres=gpu:a:2,gpu:b:2 features=x,y weight=2
             nodes n5 cpus=8 mem=2000 gres=gpu:a:4 features=y
             partition main
             partition fast nodes=n[3-5] tier=5",
        );
        for (at, words) in jobs.iter().enumerate() {
            world.submit(&format!("j{at}"), words);
        }
        for round in 0..400 {
            if round == 3 {
                for (at, words) in late.iter().enumerate() {
                    world.submit(&format!("k{at}"), words);
                }
            }
            world.pass();
            for (id, _) in world.last_plan.impossible.clone() {
                world.end(id);
            }
            // More than the partition has: these would wait for ever.
            let too_large = |note: &PlanNote| {
                let limit = matches!(
                    note.reason,
                    Reason::PartitionNodeLimit | Reason::PartitionConfig
                );
                limit && note.expected_start.is_none()
            };
            let notes = world.last_plan.notes.clone();
            for (id, _) in notes.iter().filter(|(_, note)| too_large(note)) {
                world.end(*id);
            }
            let waiting = world.cluster.pending.len();
            if waiting == 0 && round > 3 {
                break;
            }
            world.advance(world.now + 60);
        }
        prop_assert!(world.cluster.pending.is_empty(), "still waiting: {:?}", world.cluster.pending);
    }

    /// An expected start is never moved back while nothing new comes in and jobs run to their limits.
    #[test]
    fn expected_starts_are_kept(jobs in proptest::collection::vec(job_words(), 1..25)) {
        let mut world = World::new(
            "nodes n[1-2] sockets=2 cores=2 threads=2 mem=1000 features=x
             nodes n[3-4] cpus=4 mem=800 gres=gpu:a:2,gpu:b:2 features=x,y
             nodes n5 cpus=8 mem=2000 gres=gpu:a:4 features=y",
        );
        for (at, words) in jobs.iter().enumerate() {
            // Later tasks of a throttled array come before a job that waits, and book nothing: left out here.
            let words = words.replace("partition=fast", "").replace("main,fast", "main");
            world.submit(&format!("j{at}"), &words.replace("array=0-5%2", "").replace("array=1-4", ""));
        }
        let mut head: Option<(sluice_model::ids::JobId, i64)> = None;
        for _ in 0..100 {
            world.pass();
            if let Some((id, by)) = head
                && world.cluster.job(id).is_some_and(|job| job.state.base == JobState::Pending)
            {
                prop_assert!(world.now < by, "job {id} was to start by {by}, it is {}", world.now);
            }
            let still = |id: sluice_model::ids::JobId| {
                world.cluster.job(id).filter(|job| job.state.base == JobState::Pending)
            };
            let first = world
                .last_plan
                .notes
                .iter()
                .filter(|(_, note)| note.reason == sluice_model::reason::Reason::Resources)
                .filter_map(|(id, note)| Some((still(*id)?, note.expected_start?)))
                .min_by_key(|(job, _)| (std::cmp::Reverse(job.priority), job.array_job_id()));
            head = head
                .filter(|(id, _)| still(*id).is_some())
                .or(first.filter(|(job, _)| !job.is_array_master()).map(|(job, start)| (job.id, start.0)));
            world.advance(world.now + 60);
        }
    }
}
