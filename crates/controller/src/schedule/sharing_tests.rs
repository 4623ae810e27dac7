//! Scenarios of shared CPUs and of nodes that serve one user at a time: the table of `cons_tres_share` and of `slurm.conf(5)`
//! (OverSubscribe, Exclusive), line by line.

use proptest::prelude::*;

use super::scenario::{World, check};

/// Jobs of OverSubscribe=NO share a node, never a core, and `--oversubscribe` changes nothing.
#[test]
fn no_sharing() {
    check(
        "nodes n1 cpus=4
         job A cpus=2 limit=1h prio=1000 oversubscribe
         job B cpus=2 limit=1h prio=900 oversubscribe
         job C cpus=1 limit=1h prio=800 oversubscribe
         at 0 pass",
        "A starts n1; B starts n1; C pending Resources, start 1h on n1",
    );
}

/// YES: those that say so share each CPU with as many as the number says, others wait for a node of their own kind.
#[test]
fn willing_jobs_share() {
    check(
        "nodes n1 cpus=4
         partition main OverSubscribe=YES:2
         job A cpus=4 limit=1h prio=1000 oversubscribe
         job B cpus=4 limit=2h prio=900 oversubscribe
         job C cpus=4 limit=1h prio=800 oversubscribe   # the third on each CPU
         job D cpus=1 limit=1h prio=700                 # has CPUs of its own: not beside them
         at 0 pass",
        "A starts n1; B starts n1; C pending Resources, start 1h on n1; D pending Priority, start 2h on n1",
    );
}

/// FORCE: nobody can refuse, not even with --exclusive; least loaded CPUs first.
#[test]
fn forced_jobs_share() {
    check(
        "nodes n[1-2] cpus=2
         partition main OverSubscribe=FORCE:2
         job A cpus=2 limit=1h prio=1000
         job B cpus=2 limit=1h prio=900 exclusive
         job C cpus=2 limit=1h prio=800
         job D cpus=2 limit=1h prio=700
         job E cpus=1 limit=1h prio=600
         at 0 pass",
        "A starts n1; B starts n2; C starts n1; D starts n2; E pending Resources, start 1h on n1",
    );
}

/// FORCE:1 shares nothing by itself, yet is not NO: jobs of a NO partition are not beside its jobs.
#[test]
fn forced_alone_is_not_no() {
    check(
        "nodes n1 cpus=4
         partition main OverSubscribe=FORCE:1
         partition other OverSubscribe=NO
         job A cpus=2 limit=1h prio=1000
         job B cpus=2 limit=1h prio=900
         job C cpus=1 limit=1h prio=800
         job D cpus=1 limit=1h prio=700 partition=other
         at 0 pass",
        "A starts n1; B starts n1; C pending Resources, start 1h on n1; D pending Resources, start 2h on n1",
    );
    check(
        "nodes n1 cpus=4
         partition main OverSubscribe=FORCE:1
         partition other OverSubscribe=NO
         job D cpus=1 limit=1h prio=1000 partition=other
         job A cpus=2 limit=1h prio=900
         at 0 pass",
        "A pending Resources, start 1h on n1; D starts n1",
    );
}

/// Two FORCE partitions over the same nodes each count their own limit.
#[test]
fn pools_count_by_themselves() {
    check(
        "nodes n1 cpus=1
         partition main OverSubscribe=FORCE:2
         partition other OverSubscribe=FORCE:1
         job A cpus=1 limit=1h prio=1000
         job B cpus=1 limit=1h prio=900
         job C cpus=1 limit=1h prio=800 partition=other
         job D cpus=1 limit=1h prio=700 partition=other
         at 0 pass",
        "A starts n1; B starts n1; C starts n1; D pending Resources, start 1h on n1",
    );
}

/// Memory and GRES are never shared.
#[test]
fn memory_and_gres_are_not_shared() {
    check(
        "nodes n1 cpus=4 mem=1000 gres=gpu:2
         partition main OverSubscribe=FORCE:4
         job A cpus=1 mem=600 limit=1h prio=1000
         job B cpus=1 mem=600 limit=1h prio=900
         job C cpus=1 mem=10 gres=gpu:2 limit=1h prio=800
         job D cpus=1 mem=10 gres=gpu:1 limit=1h prio=700
         at 0 pass",
        "A starts n1; B pending Resources, start 1h on n1; C starts n1 by backfill; D pending Priority, start 1h on n1",
    );
}

/// Exclusive=NODE and the old spelling give whole nodes, whatever the job says; --exclusive does in NO and YES.
#[test]
fn whole_nodes() {
    for partition in [
        "OverSubscribe=EXCLUSIVE",
        "Exclusive=NODE",
        "OverSubscribe=FORCE:4 Exclusive=NODE",
    ] {
        check(
            &format!(
                "nodes n1 cpus=4
                 partition main {partition}
                 job A cpus=1 limit=1h prio=1000 oversubscribe
                 job B cpus=1 limit=1h prio=900
                 at 0 pass"
            ),
            "A starts n1; B pending Resources, start 1h on n1",
        );
    }
    for partition in ["OverSubscribe=NO", "OverSubscribe=YES:4"] {
        check(
            &format!(
                "nodes n1 cpus=4
                 partition main {partition}
                 job A cpus=1 limit=1h prio=1000 exclusive
                 job B cpus=1 limit=1h prio=900
                 at 0 pass"
            ),
            "A starts n1; B pending Resources, start 1h on n1",
        );
    }
}

/// select/linear: whole nodes; those that share count all jobs of the node.
#[test]
fn linear() {
    let linear = "config SelectType=select/linear\nconfig SelectTypeParameters=CR_Memory\nnodes n[1-2] cpus=4 mem=1000";
    check(
        &format!(
            "{linear}
             job A cpus=1 mem=100 limit=1h prio=1000
             job B cpus=1 mem=100 limit=1h prio=900
             job C cpus=1 mem=100 limit=1h prio=800
             at 0 pass"
        ),
        "A starts n1; B starts n2; C pending Resources, start 1h on n1",
    );
    check(
        &format!(
            "{linear}
             partition main OverSubscribe=YES:2 nodes=n1
             job A cpus=1 mem=100 limit=1h prio=1000 oversubscribe
             job B cpus=4 mem=100 limit=1h prio=900 oversubscribe
             job C cpus=1 mem=100 limit=1h prio=800 oversubscribe
             job D cpus=1 mem=100 limit=1h prio=700
             at 0 pass"
        ),
        "A starts n1; B starts n1; C pending Resources, start 1h on n1; D pending Priority, start 2h on n1",
    );
    // CR_Memory: memory is not shared.
    check(
        &format!(
            "{linear}
             partition main OverSubscribe=FORCE:4 nodes=n1
             job A cpus=1 mem=600 limit=1h prio=1000
             job B cpus=1 mem=600 limit=1h prio=900
             at 0 pass"
        ),
        "A starts n1; B pending Resources, start 1h on n1",
    );
}

/// Exclusive=USER and --exclusive=user: only jobs of one user are on the node, with cores of their own.
#[test]
fn one_user_at_a_time() {
    check(
        "nodes n[1-2] cpus=4
         partition main Exclusive=USER
         job A cpus=1 uid=1 limit=1h prio=1000
         job B cpus=1 uid=2 limit=1h prio=900
         job C cpus=1 uid=1 limit=1h prio=800
         job D cpus=1 uid=3 limit=1h prio=700
         job E cpus=4 uid=2 limit=1h prio=600
         at 0 pass",
        "A starts n1; B starts n2; C starts n1; D pending Resources, start 1h on n1; E pending Priority, start 1h on n2",
    );
    // By option: it waits for the jobs of others to end, and others wait for it.
    check(
        "nodes n1 cpus=4
         job A cpus=1 uid=1 limit=1h prio=1000
         job B cpus=1 uid=2 limit=1h prio=900 exclusive=user
         at 0 pass
         at 1h pass
         job C cpus=1 uid=1 limit=1h prio=800
         job D cpus=1 uid=2 limit=30m prio=700
         at 1h pass",
        "A starts n1; B pending Resources, start 1h on n1 | B starts n1 | \
         C pending Resources, start 2h on n1; D starts n1 by backfill",
    );
}

/// --exclusive=mcs: only jobs with the same label.
#[test]
fn one_label_at_a_time() {
    check(
        "nodes n1 cpus=4
         job A cpus=1 uid=1 mcs-label=x exclusive=mcs limit=1h prio=1000
         job B cpus=1 uid=2 mcs-label=x limit=1h prio=900
         job C cpus=1 uid=1 mcs-label=y limit=1h prio=800
         at 0 pass",
        "A starts n1; B starts n1; C pending Resources, start 1h on n1",
    );
}

/// Exclusive=TOPO: the leaf of the job is closed to all others.
#[test]
fn alone_in_a_block() {
    let blocks = "config TopologyPlugin=topology/block
         nodes n[1-8] cpus=4
         topology BlockName=b1 Nodes=n[1-4]
         topology BlockName=b2 Nodes=n[5-8]
         topology BlockSizes=4";
    check(
        &format!(
            "{blocks}
             job A nodes=2 limit=1h prio=1000 exclusive=topo
             job B nodes=4 limit=1h prio=900
             job C cpus=1 limit=1h prio=800
             job D nodes=1 limit=1h prio=700 exclusive=topo
             at 0 pass"
        ),
        "A starts n[1-2]; B starts n[5-8]; C starts n5; D pending Resources, start 1h on n1",
    );
}

/// MaxCPUsPerNode bounds what all jobs of the partition together have of a node.
#[test]
fn cpus_of_a_partition_on_a_node() {
    check(
        "nodes n1 cpus=8
         partition main MaxCPUsPerNode=4
         partition other
         job A cpus=3 limit=1h prio=1000
         job B cpus=2 limit=1h prio=900
         job C cpus=4 limit=1h prio=800 partition=other
         at 0 pass",
        "A starts n1; B pending Resources, start 1h on n1; C starts n1 by backfill",
    );
}

/// One word each for a random job; `claims` = also those that want nodes for their user or block.
fn job_words(claims: bool) -> impl Strategy<Value = String> {
    let exclusive = move |word: &'static str| Just(if claims { word } else { "" });
    let partition = if claims { "user" } else { "main" };
    (
        1u32..8,
        prop_oneof![2 => Just(""), 1 => Just("nodes=2"), 1 => Just("nodes=1-3")],
        prop_oneof![
            4 => Just(""), 2 => Just("oversubscribe"), 1 => Just("exclusive"), 1 => exclusive("exclusive=user"),
            1 => exclusive("exclusive=topo"), 1 => Just("gres=gpu:1"), 1 => Just("mem=300"), 1 => Just("array=1-3"),
            1 => Just("gres=gpu:1 gres-flags=enforce-binding"), 1 => Just("tasks-per-socket=1"),
            1 => Just("core-spec=1"), 1 => Just("spread"),
        ],
        1u32..15,
        prop_oneof![Just("willing"), Just("forced"), Just("main"), Just(partition), Just("bounded")],
        1u32..4,
    )
        .prop_map(|(tasks, nodes, more, minutes, partition, uid)| {
            format!("tasks={tasks} {nodes} {more} limit={minutes}m prio={uid} uid={uid} partition={partition}")
        })
}

/// Nothing is given twice, no CPU to more jobs than may share it, no node to users who do not go together; and in the end
/// everything has run. Each plan is tested and the cluster counted after it.
fn run_all(jobs: &[String], partitions: &str) -> Result<(), TestCaseError> {
    let mut world = World::new(&format!(
        "config TopologyPlugin=topology/block
         nodes n[1-2] sockets=2 cores=2 threads=2 mem=1000 gres=gpu:2
         nodes n[3-4] sockets=2 cores=2 threads=1 mem=800
         gresconf Name=gpu File=/dev/null[0-1] Cores=0-1
         topology BlockName=b1 Nodes=n[1-2]
         topology BlockName=b2 Nodes=n[3-4]
         partition main
         partition willing OverSubscribe=YES:2
         partition forced OverSubscribe=FORCE:2 nodes=n[2-4]
         partition bounded MaxCPUsPerNode=3
         {partitions}"
    ));
    for (at, words) in jobs.iter().enumerate() {
        world.submit(&format!("j{at}"), words);
    }
    for _ in 0..600 {
        world.pass();
        for (id, _) in world.last_plan.impossible.clone() {
            world.end(id);
        }
        if world.cluster.pending.is_empty() {
            break;
        }
        world.advance(world.now + 60);
    }
    prop_assert!(
        world.cluster.pending.is_empty(),
        "still waiting: {:?}",
        world.cluster.pending
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::with_cases(32) })]

    #[test]
    fn random_neighbours(jobs in proptest::collection::vec(job_words(false), 1..40)) {
        run_all(&jobs, "")?;
    }

    #[test]
    fn random_claims(jobs in proptest::collection::vec(job_words(true), 1..40)) {
        run_all(&jobs, "partition user Exclusive=USER")?;
    }
}
