//! What the keys of slurm.conf mean: defaults, nodes, partitions, storage, and how they are shown.

use sluice_config::*;
use sluice_model::memory::MemoryMib;
use sluice_model::time::TimeLimit;

const HEAD: &str = "ClusterName=c\nSlurmctldHost=h\n";

fn parse(text: &str) -> Loaded {
    ClusterConfig::parse_slurm_conf(&format!("{HEAD}{text}")).unwrap_or_else(|e| panic!("{e}"))
}

fn warned(text: &str, words: &str) {
    let found: Vec<String> = parse(text)
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(
        found.iter().any(|w| w.contains(words)),
        "{text}\nwanted: {words}\nfound: {found:#?}"
    );
}

/// Defaults are Slurm's.
#[test]
fn defaults() {
    let c = parse("NodeName=n1\n").config;
    assert_eq!(
        (c.slurmctld_port, c.slurmctld_port_count, c.slurmd_port),
        (6817, 1, 6818)
    );
    assert_eq!(c.paths.state_save_location, "/var/spool");
    assert_eq!(c.auth.jwt_key, "/var/spool/jwt_hs256.key");
    assert_eq!(
        c.accounting.storage,
        AccountingStorage::Sqlite {
            path: "/var/spool/accounting.sqlite".into()
        }
    );
    assert_eq!(
        (
            c.timeouts.slurmd_secs,
            c.timeouts.kill_wait_secs,
            c.timeouts.unkillable_step_secs
        ),
        (300, 30, 60)
    );
    assert_eq!(
        (
            c.jobs.max_array_size,
            c.jobs.min_job_age_secs,
            c.jobs.max_job_id
        ),
        (1001, 300, 67_043_328)
    );
    assert!(c.jobs.job_requeue);
    assert_eq!(
        (c.scheduling.select.unit, c.scheduling.select.memory),
        (ConsumableUnit::Core, true)
    );
    assert_eq!(
        (
            c.scheduling.parameters.bf_max_job_test,
            c.scheduling.parameters.bf_interval_secs
        ),
        (500, Some(30))
    );
    assert_eq!(c.scheduling.parameters.requeue_delay_secs, 120);
    assert_eq!(
        (c.priority.max_age_secs, c.priority.calc_period_secs),
        (604_800, 300)
    );
    assert_eq!(
        (c.preempt.kind, c.preempt.mode),
        (PreemptType::None, PreemptMode::Off)
    );
    let n = &c.nodes[0];
    assert_eq!(
        (
            n.cpus,
            n.sockets,
            n.cores_per_socket,
            n.threads_per_core,
            n.real_memory
        ),
        (1, 1, 1, 1, MemoryMib(1))
    );
    assert_eq!(
        (n.hostname.as_str(), n.addr.as_str(), n.port, n.weight),
        ("n1", "n1", 6818, 1)
    );
    assert_eq!(c.scripts.prolog_timeout_secs, None);
    // max(10000, 2 x 10000 + 4 x 1)
    assert_eq!(c.accounting.max_queued_records, 20_004);
}

/// Several agents on one host, DEFAULT records, features, DownNodes, node sets.
#[test]
fn nodes() {
    let c = parse(
        "GresTypes=gpu\n\
         NodeName=DEFAULT Sockets=2 CoresPerSocket=4 RealMemory=1000 Feature=a,b\n\
         NodeName=n[1-4] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[17001-17004] Gres=gpu:h100:2\n\
         NodeName=DEFAULT ThreadsPerCore=2 Weight=5\n\
         NodeName=m1 CPUs=8 # as many as cores: threads are ignored\n\
         NodeName=m2 SocketsPerBoard=1 Boards=2\n\
         DownNodes=n[3-4] State=DRAIN Reason=\"bad fan\"\n\
         NodeSet=big Feature=a Nodes=m1\n\
         NodeSet=two Nodes=n[1-2]\n\
         PartitionName=p Nodes=two,m2 Default=YES\n\
         PartitionName=all Nodes=ALL\n",
    )
    .config;
    let n3 = c.node("n3").expect("n3");
    assert_eq!(
        (n3.hostname.as_str(), n3.addr.as_str(), n3.port, n3.cpus),
        ("localhost", "127.0.0.1", 17003, 8)
    );
    assert_eq!(
        (n3.state, n3.reason.as_deref()),
        (NodeInitialState::Drain, Some("bad fan"))
    );
    assert_eq!(
        (n3.features.join(","), n3.gres_count("gpu", None)),
        ("a,b".into(), 2)
    );
    let m1 = c.node("m1").expect("m1");
    assert_eq!(
        (
            m1.cpus,
            m1.sockets,
            m1.cores_per_socket,
            m1.threads_per_core,
            m1.weight
        ),
        (8, 2, 4, 2, 5)
    );
    assert_eq!(
        c.node("m2").map(|m| (m.cpus, m.boards, m.sockets)),
        Some((16, 2, 2))
    );
    assert_eq!(c.node_sets[0].nodes.len(), 6);
    assert_eq!(
        c.partition("p").map(|p| p.nodes.join(",")),
        Some("m2,n1,n2".into())
    );
    assert_eq!(c.partition("all").map(|p| p.nodes.len()), Some(6));
}

/// Threads are inferred into sockets when only CPUs are given; a count that fits nothing is reset, as in Slurm.
#[test]
fn processors() {
    let c = parse(
        "NodeName=a ThreadsPerCore=2 CPUs=24\nNodeName=b CPUs=7 Sockets=1 CoresPerSocket=4\n",
    )
    .config;
    assert_eq!(
        c.node("a").map(|n| (n.cpus, n.sockets, n.cores_per_socket)),
        Some((24, 12, 1))
    );
    assert_eq!(c.node("b").map(|n| n.cpus), Some(4));
    warned(
        "NodeName=b CPUs=7 Sockets=1 CoresPerSocket=4\n",
        "does not match sockets, cores and threads; 4 is used",
    );
}

/// ControlMachine stands in for SlurmctldHost, as in files of years ago.
#[test]
fn old_controller_keys() {
    let c = ClusterConfig::parse_slurm_conf(
        "ClusterName=C\nControlMachine=a\nControlAddr=10.0.0.1\nBackupController=b\nNodeName=n1\n",
    );
    let c = c.unwrap_or_else(|e| panic!("{e}")).config;
    assert_eq!(c.cluster_name, "c");
    let host = |h: &str, a: Option<&str>| ControllerHost {
        host: h.into(),
        addr: a.map(Into::into),
    };
    assert_eq!(
        c.controllers,
        vec![host("a", Some("10.0.0.1")), host("b", None)]
    );
    let errors = ClusterConfig::parse_slurm_conf("NodeName=n1\n")
        .expect_err("refused")
        .to_string();
    assert!(
        errors.contains("ClusterName: is required")
            && errors.contains("SlurmctldHost: is required"),
        "{errors}"
    );
}

/// Partition keys as the engine reads them.
#[test]
fn partitions() {
    let c = parse(
        "NodeName=n[1-2] Features=x\nPreemptType=preempt/partition_prio\nPreemptMode=CANCEL\n\
         PartitionName=DEFAULT MaxTime=2:00:00 State=DOWN\n\
         PartitionName=p Nodes=feature{x} Default=YES DefaultTime=30 MaxNodes=2 OverSubscribe=EXCLUSIVE AllowQos=a,b AllowAccounts=ALL \
         PreemptMode=OFF GraceTime=60 TRESBillingWeights=CPU=1.0,Mem=0.5G MaxMemPerNode=UNLIMITED OverTimeLimit=UNLIMITED\n\
         PartitionName=q State=UP MaxTime=INFINITE OverSubscribe=YES ExclusiveUser=YES\n",
    )
    .config;
    let p = c.partition("p").expect("p");
    assert_eq!(
        (p.nodes.join(","), p.max_time, p.default_time),
        (
            "n1,n2".into(),
            TimeLimit::Minutes(120),
            Some(TimeLimit::Minutes(30))
        )
    );
    assert_eq!(p.state, sluice_model::partition::PartitionState::Down);
    assert_eq!(
        (p.oversubscribe, p.exclusive),
        (OverSubscribe::Exclusive, Exclusive::Node)
    );
    assert_eq!(
        (p.allow_qos.clone(), p.allow_accounts.clone()),
        (Some(vec!["a".into(), "b".into()]), None)
    );
    assert_eq!(
        p.preempt_mode,
        Some(PartitionPreemptMode {
            mode: Some(PreemptMode::Off),
            priority: false
        })
    );
    assert_eq!(
        (p.max_nodes, p.max_mem_per_node, p.over_time_limit),
        (Some(2), Some(MemoryMib(0)), Some(TimeLimit::Unlimited))
    );
    let weight = |kind: &str| {
        p.tres_billing_weights
            .iter()
            .find(|(k, _)| k.to_string() == kind)
            .map(|(_, w)| *w)
    };
    assert_eq!(
        (weight("cpu"), weight("mem")),
        (Some(1.0), Some(0.5 / 1024.0))
    );
    let q = c.partition("q").expect("q");
    assert_eq!(
        (q.max_time, q.oversubscribe, q.exclusive, q.nodes.len()),
        (
            TimeLimit::Unlimited,
            OverSubscribe::Yes(4),
            Exclusive::User,
            0
        )
    );
}

/// Where records go.
#[test]
fn accounting_storage() {
    let storage = |text: &str| {
        parse(&format!("NodeName=n1\nStateSaveLocation=/s\n{text}"))
            .config
            .accounting
            .storage
    };
    assert_eq!(
        storage("AccountingStorageType=accounting_storage/none\n"),
        AccountingStorage::None
    );
    assert_eq!(
        storage("AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=db\n"),
        AccountingStorage::Sqlite {
            path: "/s/accounting.sqlite".into()
        }
    );
    assert_eq!(
        storage("AccountingStorageType=accounting_storage/sqlite\nAccountingStorageLoc=/x/a.db\n"),
        AccountingStorage::Sqlite {
            path: "/x/a.db".into()
        }
    );
    let params = storage(
        "AccountingStorageType=accounting_storage/postgres\nAccountingStorageHost=db\nAccountingStorageUser=u\nAccountingStoragePass=p\n",
    );
    let expected = PostgresSettings {
        url: None,
        host: "db".into(),
        port: 5432,
        user: "u".into(),
        password: Some("p".into()),
        database: "slurm_acct_db".into(),
    };
    assert_eq!(params, AccountingStorage::Postgres(expected.clone()));
    assert!(
        !format!("{params:?}").contains("\"p\""),
        "a password must not reach a log"
    );
    let AccountingStorage::Postgres(p) = storage(
        "AccountingStorageType=accounting_storage/postgres\nAccountingStorageLoc=postgres://u@h/d\n",
    ) else {
        panic!("postgres")
    };
    assert_eq!(p.url.as_deref(), Some("postgres://u@h/d"));
}

/// Lines of a real `scontrol show config`.
#[test]
fn show_config() {
    let c = parse(
        "NodeName=n[1-4] CPUs=64\nAccountingStorageEnforce=associations,limits,qos,safe\nKillWait=5\nMaxArraySize=50001\nMaxJobCount=200000\n\
         MessageTimeout=60\nPreemptMode=REQUEUE\nPreemptType=preempt/qos\nPriorityFlags=CALCULATE_RUNNING\nPriorityWeightTRES=CPU=100,Mem=100\n\
         EnforcePartLimits=ALL\nSelectTypeParameters=CR_Core_Memory\nDefMemPerCPU=100\nAccountingStorageTRES=gres/gpu,gres/gpu:h100\n\
         AccountingStorageType=accounting_storage/slurmdbd\nGresTypes=gpu\n",
    )
    .config;
    let shown = c.show_config(&[("NEXT_JOB_ID", "25".to_owned())]);
    for (name, value) in [
        ("AccountingStorageEnforce", "associations,limits,qos,safe"),
        (
            "AccountingStorageTRES",
            "cpu,mem,energy,node,billing,fs/disk,vmem,pages,gres/gpu,gres/gpu:h100,gres/gpumem,gres/gpuutil",
        ),
        ("AccountingStorageType", "accounting_storage/slurmdbd"),
        ("BatchStartTimeout", "10 sec"),
        ("BcastExclude", "/lib,/usr/lib,/lib64,/usr/lib64"),
        ("DefMemPerCPU", "100"),
        ("DisableRootJobs", "no"),
        ("EnforcePartLimits", "ALL"),
        ("EpilogMsgTime", "2000 usec"),
        ("JobAcctGatherFrequency", "task=30"),
        ("KillWait", "5 sec"),
        ("MaxDBDMsgs", "400016"),
        ("MaxMemPerNode", "UNLIMITED"),
        ("MaxNodeCount", "4"),
        ("NEXT_JOB_ID", "25"),
        ("OverTimeLimit", "0 min"),
        ("PluginDir", "(null)"),
        ("PreemptMode", "REQUEUE"),
        ("PreemptExemptTime", "00:00:00"),
        ("PriorityDecayHalfLife", "7-00:00:00"),
        ("PriorityCalcPeriod", "00:05:00"),
        ("PriorityWeightFairShare", "0"),
        ("PrivateData", "none"),
        ("PrologEpilogTimeout", "65534"),
        ("ResumeRate", "300 nodes/min"),
        ("SelectTypeParameters", "CR_CORE_MEMORY"),
        ("SerializerPlugins", "(null)"),
        ("SlurmctldHost[0]", "h"),
        ("SrunPortRange", "0-0"),
        ("SuspendTime", "INFINITE"),
        ("TaskPluginParam", "(null type)"),
        ("UnkillableStepTimeout", "300 sec"),
        ("UsePam", "no"),
        ("VSizeFactor", "0 percent"),
    ] {
        let found = shown
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str());
        assert_eq!(found, Some(value), "{name}");
    }
    assert!(!shown.iter().any(|(n, _)| n == "BOOT_TIME"));
}
