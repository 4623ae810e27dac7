//! Whole documents: what they mean, and that every fault is named with its path.

use crate::cluster::*;
use crate::{ClusterConfig, Loaded};
use sluice_model::memory::MemoryMib;
use sluice_model::time::TimeLimit;

const GPU: &str = include_str!("../../tests/specs/gpu-config-map.jsonc");
const OLDER: &str = include_str!("../../tests/specs/older-blocks.jsonc");
const TWO: &str = include_str!("../../tests/specs/two-partitions.jsonc");
const FAULTS: &str = include_str!("../../tests/specs/many-faults.jsonc");

fn load(text: &str) -> Loaded {
    ClusterConfig::parse_spec(text).unwrap_or_else(|e| panic!("{e}"))
}

/// The current form: machine table, names, accelerators, scripts in list order, login hosts apart, growing pools as FUTURE nodes.
#[test]
fn config_map() {
    let loaded = load(GPU);
    // Nothing to say but which parameters wait for the engine.
    let others: Vec<_> = loaded
        .warnings
        .iter()
        .filter(|warning| !warning.message.ends_with("no effect yet"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    let c = &loaded.config;
    assert_eq!(c.cluster_name, "train1");
    assert_eq!(
        c.controllers,
        vec![ControllerHost {
            host: "localhost".into(),
            addr: None
        }]
    );
    assert_eq!(
        c.nodes
            .iter()
            .map(|n| (n.name.as_str(), n.state))
            .collect::<Vec<_>>(),
        [
            ("a4-0", NodeInitialState::Unknown),
            ("a4-1", NodeInitialState::Unknown),
            ("a4-2", NodeInitialState::Future)
        ]
    );
    let n = &c.nodes[0];
    assert_eq!(
        (n.cpus, n.sockets, n.cores_per_socket, n.threads_per_core),
        (224, 2, 56, 2)
    );
    assert_eq!(n.real_memory, MemoryMib(3_784_179));
    assert_eq!(n.features, ["reservation"]);
    assert_eq!(
        (n.gres_text().as_str(), n.gres_count("gpu", Some("b200"))),
        ("gpu:b200:8", 8)
    );
    assert_eq!(c.gres_types, ["gpu"]);
    let p = c.default_partition().expect("a default partition");
    assert_eq!((p.name.as_str(), p.nodes.len()), ("a4", 3));
    assert_eq!(c.spec.login_hosts, ["login-0"]);
    assert_eq!(
        c.spec.home_directory_storage.as_deref(),
        Some("projects/p/locations/l/instances/home")
    );
    assert_eq!(c.priority.weight_age, 1000);
    assert!(c.auth.disable_root_jobs);
    assert_eq!(
        (c.preempt.kind, c.preempt.mode, c.preempt.exempt_time_secs),
        (PreemptType::PartitionPrio, PreemptMode::Requeue, Some(600))
    );
    let texts: Vec<&str> = c
        .scripts
        .prolog
        .iter()
        .map(|s| {
            if let NodeScript::Text { text, .. } = s {
                text.as_str()
            } else {
                ""
            }
        })
        .collect();
    assert_eq!(
        texts,
        ["#!/bin/bash\necho first\n", "#!/bin/bash\necho second\n"]
    );
    // Slurm itself would run these files from z to a: the names must give the same order.
    let names: Vec<&str> = c
        .scripts
        .prolog
        .iter()
        .map(|s| {
            if let NodeScript::Text { name, .. } = s {
                name.as_str()
            } else {
                ""
            }
        })
        .collect();
    assert!(names.windows(2).all(|w| w[0] > w[1]), "{names:?}");
    assert_eq!(c.agent.health_check.interval_secs, 30);
}

/// The older blocks mean the same parameters.
#[test]
fn older_blocks() {
    let c = load(OLDER).config;
    assert_eq!(
        (
            c.priority.weight_age,
            c.priority.weight_fairshare,
            c.priority.weight_qos
        ),
        (100, 1000, 200)
    );
    assert_eq!(
        (c.preempt.mode, c.preempt.gang, c.preempt.exempt_time_secs),
        (PreemptMode::Suspend, true, Some(0))
    );
    assert!(
        c.accounting.enforce.associations && c.accounting.enforce.qos && !c.accounting.enforce.safe
    );
    assert_eq!(c.nodes.len(), 2);
    assert_eq!(c.nodes[1].gres_text(), "gpu:h100-mega:8");
}

/// Maps in any spelling, a default by name, an unknown machine described by its node set, several pools in one partition.
#[test]
fn partitions_and_node_sets() {
    let c = load(TWO).config;
    assert_eq!(
        c.controllers[0],
        ControllerHost {
            host: "head".into(),
            addr: Some("10.0.0.1".into())
        }
    );
    assert_eq!(
        c.default_partition().map(|p| p.name.as_str()),
        Some("batch")
    );
    let batch = c.partition("batch").expect("batch");
    assert_eq!(batch.nodes, ["cpu-0", "cpu-1", "odd-0"]);
    assert_eq!(
        (batch.def_mem_per_cpu, batch.max_time),
        (Some(MemoryMib(2048)), TimeLimit::Minutes(5760))
    );
    assert_eq!(c.partition("urgent").map(|p| p.priority_tier), Some(20));
    let cpu = c.node("cpu-0").expect("cpu-0");
    assert_eq!(
        (cpu.weight, cpu.cpus, cpu.sockets, cpu.cores_per_socket),
        (10, 8, 1, 4)
    );
    assert_eq!(cpu.features, ["spot", "fast"]);
    let odd = c.node("odd-0").expect("odd-0");
    assert_eq!(
        (odd.cpus, odd.real_memory, odd.gres.len()),
        (4, MemoryMib(8000), 0)
    );
}

/// One answer with every fault, each with its path.
#[test]
fn all_faults_at_once() {
    let errors = ClusterConfig::parse_spec(FAULTS).expect_err("must be refused");
    let found: Vec<(String, String)> = errors
        .0
        .iter()
        .map(|d| (d.json_path.clone().unwrap_or_default(), d.message.clone()))
        .collect();
    let slurm = |path: &str| format!("orchestrator_spec.slurm_spec.{path}");
    for (path, words) in [
        ("display_name".to_owned(), "not a legal name"),
        ("node_pools[1].id".to_owned(), "another pool"),
        (
            "node_pools[2].machine_spec.machine_type".to_owned(),
            "not a known machine type",
        ),
        (
            "node_pools[2].scaling_spec.max_node_count".to_owned(),
            "below min_node_count 3",
        ),
        (
            "node_pools[3].machine_spec.accelerator_type".to_owned(),
            "does not belong",
        ),
        (
            slurm("partitions[0].node_pool_ids[1]"),
            "not the id of a node pool",
        ),
        (slurm("partitions[0].node_pool_ids[2]"), "login pool"),
        (slurm("partitions[0].config.Default"), "not allowed"),
        (slurm("partitions[0].config.MaxTime"), "not a time"),
        (
            slurm("partitions[0].config.KillWait"),
            "unknown partition parameter",
        ),
        (slurm("partitions[1].id"), "defined twice"),
        (slurm("default_partition_id"), "not the id of a partition"),
        (slurm("home_directory_storage"), "not a full resource name"),
        (
            slurm("config.PriorityWeightAgee"),
            "unknown slurm.conf parameter",
        ),
        (slurm("config.PreemptMode"), "needs a PreemptType"),
        (slurm("config.Prolog"), "not allowed"),
        (slurm("config.NodeName"), "unknown slurm.conf parameter"),
        (slurm("scheduling"), "cannot be used together with config"),
        (slurm("scheduling.unheard_of"), "not known"),
        (slurm("node_sets[1].node_pool_id"), "another entry"),
        (slurm("node_sets[2].node_pool_id"), "login pool"),
        (slurm("prolog_bash_scripts"), "is a string"),
    ] {
        assert!(
            found.iter().any(|(p, m)| *p == path && m.contains(words)),
            "missing: {path}: {words}\nfound: {found:#?}"
        );
    }
}

/// A document that is no JSON, is empty, or lacks what it must have is refused with a reason.
#[test]
fn incomplete_documents() {
    for (text, path, words) in [
        ("", "", "ends where a value"),
        ("[]", "", "is a list"),
        ("{}", "node_pools", "is required"),
        (
            "{\"display_name\": \"a\", \"display_name\": \"b\"}",
            "display_name",
            "duplicate key",
        ),
        (
            "{\"node_pools\": [], \"orchestrator_spec\": {\"slurm_spec\": {\"partitions\": []}}}",
            "display_name",
            "is required",
        ),
    ] {
        let errors = ClusterConfig::parse_spec(text).expect_err("must be refused");
        let hit = errors
            .0
            .iter()
            .any(|d| d.json_path.as_deref().unwrap_or("") == path && d.message.contains(words));
        assert!(hit, "{text}: {errors}");
    }
}

/// `sluice spec show-conf` writes files that mean the same.
#[test]
fn written_as_slurm_conf_means_the_same() {
    for text in [GPU, OLDER, TWO] {
        let config = load(text).config;
        let bundle = crate::ConfigBundle::new(config.to_slurm_conf());
        let mut again = ClusterConfig::from_bundle(&bundle)
            .unwrap_or_else(|e| panic!("{e}\n{bundle:#?}"))
            .config;
        // slurm.conf has no words for these.
        again.spec = config.spec.clone();
        assert_eq!(again, config);
    }
}

/// A bundle of a document is the document; an agent reads the same from it.
#[test]
fn bundle_round_trip() {
    let loaded = load(GPU);
    assert_eq!(
        ClusterConfig::from_bundle(&loaded.bundle).map(|l| l.config),
        Ok(loaded.config)
    );
}
