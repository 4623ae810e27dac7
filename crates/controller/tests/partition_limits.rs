//! Requests above the limits of a partition, with each value of EnforcePartLimits.
//!
//! Every row was tried with a running slurmctld: what it refused with which code, and the reason of what waits.

mod world;

use sluice_controller::command::update::update_targets;
use sluice_model::error_code::ErrorCode as Code;
use sluice_model::job::{JobDescription, JobUpdate};
use sluice_model::memory::MemoryMib;
use sluice_model::time::TimeLimit;
use world::{ALICE, ROOT, World, cpus};

/// Three nodes of eight CPUs; `small` and `lim` have two of them.
const CONF: &str = "\
ClusterName=test
SlurmctldHost=localhost
SlurmUser=root
StateSaveLocation=/tmp/state
SlurmdSpoolDir=/tmp/spool
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
SlurmdParameters=config_overrides
NodeName=n10 CPUs=8 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=4000
NodeName=n[1-2] CPUs=8 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=4000
PartitionName=main Nodes=n10,n2,n1 Default=YES MaxTime=INFINITE
PartitionName=small Nodes=n1,n2 MaxNodes=1 MaxTime=30
PartitionName=lim Nodes=n1,n2 MinNodes=2 MaxMemPerNode=1000 MaxCPUsPerNode=2
PartitionName=grp Nodes=n1,n2 AllowGroups=staff
";

fn world(enforce: &str) -> World {
    World::with_conf(&format!("{CONF}EnforcePartLimits={enforce}\n"))
}

/// A plain job with what the words say, as options of sbatch.
fn request(words: &str) -> JobDescription {
    let mut job = JobDescription {
        batch: true,
        ..JobDescription::default()
    };
    for word in words.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || value.parse::<u32>().expect("a number");
        match key {
            "p" => job.partitions = value.split(',').map(str::to_owned).collect(),
            "N" => {
                let (least, most) = value.split_once('-').unwrap_or((value, value));
                job.min_nodes = least.parse().ok();
                job.max_nodes = most.parse().ok();
            }
            "n" => job.ntasks = Some(number()),
            "c" => job.cpus_per_task = Some(number()),
            "per-node" => job.ntasks_per_node = Some(number()),
            "t" => {
                job.time_limit = Some(
                    value
                        .parse()
                        .map_or(TimeLimit::Unlimited, TimeLimit::Minutes),
                );
            }
            "min" => job.time_min = Some(TimeLimit::Minutes(number())),
            "mem" => job.mem_per_node = Some(MemoryMib(u64::from(number()))),
            "w" => job.required_nodes = Some(value.to_owned()),
            "H" => job.hold = true,
            other => panic!("unknown word {other}"),
        }
    }
    job
}

enum No {
    /// Waits, and why.
    Waits(&'static str),
    Starts,
    Refused(Code),
}

#[test]
fn limits_are_enforced_as_configured() {
    use No::{Refused, Starts, Waits};
    let unavailable = Code::RequestedNodeConfigUnavailable;
    let rows: [(&str, No, Option<Code>); 25] = [
        (
            "p=small N=2",
            Waits("PartitionNodeLimit"),
            Some(Code::InvalidNodeCount),
        ),
        (
            "p=small N=3",
            Waits("PartitionNodeLimit"),
            Some(Code::InvalidNodeCount),
        ),
        (
            "p=small N=1-2",
            Waits("PartitionNodeLimit"),
            Some(Code::InvalidNodeCount),
        ),
        (
            "N=50",
            Waits("PartitionConfig"),
            Some(Code::TooManyRequestedCpus),
        ),
        (
            "N=4",
            Waits("PartitionNodeLimit"),
            Some(Code::InvalidNodeCount),
        ),
        (
            "p=small t=60",
            Waits("PartitionTimeLimit"),
            Some(Code::InvalidTimeLimit),
        ),
        (
            "p=small t=0",
            Waits("PartitionTimeLimit"),
            Some(Code::InvalidTimeLimit),
        ),
        (
            "p=small t=UNLIMITED",
            Waits("PartitionTimeLimit"),
            Some(Code::InvalidTimeLimit),
        ),
        ("p=small t=60 min=10", Starts, Some(Code::InvalidTimeLimit)),
        (
            "p=small t=120 min=60",
            Refused(Code::InvalidTimeMinLimit),
            Some(Code::InvalidTimeLimit),
        ),
        (
            "p=small t=60 N=2",
            Waits("PartitionNodeLimit"),
            Some(Code::InvalidNodeCount),
        ),
        (
            "c=100",
            Waits("PartitionConfig"),
            Some(Code::TooManyRequestedCpus),
        ),
        ("p=small n=9", Refused(unavailable), Some(unavailable)),
        (
            "p=small n=17",
            Waits("PartitionConfig"),
            Some(Code::TooManyRequestedCpus),
        ),
        (
            "n=100",
            Waits("PartitionConfig"),
            Some(Code::TooManyRequestedCpus),
        ),
        ("N=2 n=17", Refused(unavailable), Some(unavailable)),
        ("mem=100000", Refused(unavailable), Some(unavailable)),
        (
            "p=lim N=1",
            Waits("PartitionNodeLimit"),
            Some(Code::InvalidNodeCount),
        ),
        (
            "p=lim n=5",
            Waits("PartitionConfig"),
            Some(Code::TooManyRequestedCpus),
        ),
        (
            "w=n10 p=small",
            Refused(unavailable),
            Some(Code::RequestedNodesNotInPartition),
        ),
        (
            "p=small n=2 per-node=1",
            Waits("PartitionNodeLimit"),
            Some(Code::InvalidNodeCount),
        ),
        (
            "H c=100",
            Waits("JobHeldUser"),
            Some(Code::TooManyRequestedCpus),
        ),
        (
            "H p=small t=60",
            Waits("JobHeldUser"),
            Some(Code::InvalidTimeLimit),
        ),
        // What no node can ever hold is not looked at before the job is let go.
        ("H mem=100000", Waits("JobHeldUser"), None),
        (
            "H w=n10 p=small",
            Waits("JobHeldUser"),
            Some(Code::RequestedNodesNotInPartition),
        ),
    ];
    for (words, unenforced, enforced) in rows {
        let mut w = world("NO");
        let answer = w.try_submit(request(words), &ALICE);
        match (unenforced, answer) {
            (Refused(code), Err(rejection)) => assert_eq!(rejection.code, code, "{words}"),
            (Refused(_), Ok(_)) => panic!("{words} is taken"),
            (Waits(reason), Ok(id)) => {
                w.pass();
                assert_eq!(
                    (w.state(id).as_str(), w.reason(id).as_str()),
                    ("PD", reason),
                    "{words}"
                );
            }
            (Starts, Ok(id)) => {
                w.pass();
                assert_eq!(w.state(id), "R", "{words}");
                let limit = w.cluster.job(id).and_then(|job| job.time_limit);
                assert_eq!(
                    limit,
                    Some(TimeLimit::Minutes(30)),
                    "MaxTime bounds what may be less"
                );
            }
            (_, Err(rejection)) => panic!("{words} is refused: {:?}", rejection.code),
        }
        w.check();
        for mode in ["ANY", "ALL"] {
            let answer = world(mode).try_submit(request(words), &ALICE);
            assert_eq!(
                answer.err().map(|rejection| rejection.code),
                enforced,
                "{mode} {words}"
            );
        }
    }
}

/// One partition that suits is enough for ANY; ALL wants each to.
#[test]
fn of_several_partitions() {
    let rows = [
        ("p=small,main N=3", Code::InvalidNodeCount),
        ("p=small,main t=60", Code::InvalidTimeLimit),
        ("p=small,main w=n10", Code::RequestedNodesNotInPartition),
        ("p=main,grp", Code::PartitionGroupMissing),
    ];
    for (words, code) in rows {
        for mode in ["NO", "ANY"] {
            let mut w = world(mode);
            let id = w.try_submit(request(words), &ALICE).expect(words);
            w.pass();
            assert_eq!(w.state(id), "R", "{mode} {words}");
            let partition = w.cluster.job(id).map(|job| job.partition.clone());
            assert_eq!(partition.as_deref(), Some("main"), "{mode} {words}");
        }
        let answer = world("ALL").try_submit(request(words), &ALICE);
        assert_eq!(
            answer.map_err(|rejection| rejection.code),
            Err(code),
            "{words}"
        );
    }
    let closed = world("NO").try_submit(request("p=grp"), &ALICE);
    assert_eq!(
        closed.map_err(|rejection| rejection.code),
        Err(Code::PartitionGroupMissing)
    );
}

/// A held job may be changed beyond the limits, but not beyond the partition itself.
#[test]
fn changes_of_a_held_job() {
    let mut w = world("ANY");
    let id = w.submit(request("H p=small"));
    let mut change = |update: JobUpdate| {
        w.run(|t| {
            Ok(update_targets(t, &[id.to_string()], &update, &ROOT)
                .remove(0)
                .rejection
                .map(|rejection| rejection.code))
        })
        .expect("answered")
    };
    let nodes = |count| JobUpdate {
        min_nodes: Some(count),
        ..JobUpdate::default()
    };
    assert_eq!(change(nodes(2)), None);
    assert_eq!(
        change(nodes(50)),
        Some(Code::RequestedPartConfigUnavailable)
    );
    let longer = JobUpdate {
        time_limit: Some(TimeLimit::Minutes(60)),
        ..JobUpdate::default()
    };
    assert_eq!(change(longer), None);
    let prefer = JobUpdate {
        prefer: Some("nosuch".to_owned()),
        ..JobUpdate::default()
    };
    assert_eq!(change(prefer), Some(Code::InvalidPrefer));
    w.check();
}

/// Threads that a job leaves idle belong to it and cost no memory.
#[test]
fn one_thread_of_each_core() {
    let mut w = world("NO");
    let id = w.submit(JobDescription {
        threads_per_core: Some(1),
        ..cpus(2)
    });
    w.pass();
    let part = w
        .cluster
        .job(id)
        .and_then(|job| job.allocation.clone())
        .expect("runs")
        .nodes[0]
        .clone();
    assert_eq!((part.cpu_ids.len(), part.memory), (4, MemoryMib(200)));
    w.check();
}

/// The table is sorted by name, wherever the lines stand.
#[test]
fn nodes_are_sorted() {
    let w = world("NO");
    let names: Vec<&str> = w
        .cluster
        .nodes
        .iter()
        .map(|node| node.config.name.as_str())
        .collect();
    assert_eq!(names, ["n1", "n2", "n10"]);
}
