//! Configurations as files: families on disk, bundles, written files, `sluice check`.

use sluice_config::*;
use std::path::Path;

const HEAD: &str = "ClusterName=c\nSlurmctldHost=h\n";

fn parse(text: &str) -> Loaded {
    ClusterConfig::parse_slurm_conf(&format!("{HEAD}{text}")).unwrap_or_else(|e| panic!("{e}"))
}

/// A family on disk: companions, scripts beside slurm.conf, includes; the bundle and the written files mean the same.
#[test]
fn family_on_disk() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let put = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("has a folder")).expect("creates");
        std::fs::write(path, text).expect("writes");
    };
    put(
        "slurm.conf",
        "ClusterName=c # name\nSlurmctldHost=h(127.0.0.1)\nGresTypes=gpu,nic\nTopologyPlugin=topology/tree\nProlog=/opt/*.sh\nProlog=prolog.d/*\n\
         Epilog=e.sh\nInteractiveStepOptions=\"--pty  \\#x\"\nAccountingStorageType=accounting_storage/slurmdbd\nInclude nodes/*.conf\n\
         PartitionName=p Nodes=ALL Default=YES MaxTime=1-0 AllowGroups=\"a,b\"\nPowerAction=x Program=\"/bin/p a b\"\n",
    );
    put(
        "nodes/1.conf",
        "NodeName=g[1-2] CPUs=16 Gres=gpu:h100:4,nic:2 RealMemory=1000 Reason=\"a b\" State=DRAIN TmpDisk=5 CpuSpecList=0,1\n\
         NodeName=g3 CPUs=16 Gres=gpu:a:1,gpu:b:1 Boards=2 CoreSpecCount=1\n",
    );
    put(
        "nodes/2.conf",
        "NodeName=x1 NodeHostname=vm Port=7001 Parameters=y\nNodeName=x2 NodeHostname=vm Port=7002 Parameters=y\n",
    );
    put(
        "gres.conf",
        "NodeName=g[1-2] Name=gpu Type=h100 File=/dev/fake[0-1] Cores=0-7\nNodeName=g[1-2] Name=gpu Type=h100 File=/dev/fake[2-3] Cores=8-15 Flags=nvidia_gpu_env\n\
         NodeName=g3 Name=gpu File=/dev/fake[0-1] Links=-1,4\nAutoDetect=off\n",
    );
    put("cgroup.conf", "CgroupPlugin=disabled\nConstrainCores=yes\n");
    put(
        "topology.conf",
        "SwitchName=a Nodes=g[1-3]\nSwitchName=b Nodes=x[1-2]\nSwitchName=top Switches=a,b\n",
    );
    put(
        "slurmdbd.conf",
        "DbdHost=h\nStorageType=accounting_storage/postgres\nStorageHost=/run/pg\nStoragePass=secret\nSlurmUser=slurm\n",
    );
    put("prolog.d/a.sh", "#!/bin/sh\necho a\n");
    put("prolog.d/b.sh", "#!/bin/sh\necho b\n");
    put("e.sh", "#!/bin/sh\n");

    let loaded =
        ClusterConfig::load(&dir.path().join("slurm.conf")).unwrap_or_else(|e| panic!("{e}"));
    let c = &loaded.config;
    let g1 = c.node("g1").expect("g1");
    assert_eq!(
        g1.gres
            .iter()
            .map(|g| (g.count, g.files.len(), g.cores.len()))
            .collect::<Vec<_>>(),
        [(2, 2, 8), (2, 2, 8), (2, 0, 0)]
    );
    assert_eq!(g1.gres[1].files, ["/dev/fake2", "/dev/fake3"]);
    assert_eq!(g1.gres_text(), "gpu:h100:4,nic:2");
    let g3 = c.node("g3").expect("g3");
    assert_eq!(
        g3.gres
            .iter()
            .map(|g| (g.type_name.as_deref(), g.files.join(",")))
            .collect::<Vec<_>>(),
        [
            (Some("a"), "/dev/fake0".into()),
            (Some("b"), "/dev/fake1".into())
        ]
    );
    let text = |name: &str, letter: char| NodeScript::Text {
        name: name.into(),
        text: format!("#!/bin/sh\necho {letter}\n"),
    };
    assert_eq!(
        c.scripts.prolog,
        vec![
            NodeScript::Path("/opt/*.sh".into()),
            text("prolog.d/b.sh", 'b'),
            text("prolog.d/a.sh", 'a')
        ]
    );
    assert_eq!(c.jobs.interactive_step_options, "--pty  #x");
    assert_eq!(
        (c.cgroup.plugin, c.cgroup.constrain_cores),
        (CgroupPlugin::Disabled, true)
    );
    assert_eq!(c.topology.switches.len(), 3);
    let AccountingStorage::Postgres(p) = &c.accounting.storage else {
        panic!("{:?}", c.accounting.storage)
    };
    assert_eq!(
        (p.host.as_str(), p.user.as_str(), p.database.as_str()),
        ("/run/pg", "slurm", "slurm_acct_db")
    );

    let mut from_bundle = ClusterConfig::from_bundle(&loaded.bundle)
        .unwrap_or_else(|e| panic!("{e}"))
        .config;
    assert!(
        loaded
            .bundle
            .files
            .iter()
            .all(|f| !f.content.contains("secret")),
        "the password of the database must stay with the controller"
    );
    from_bundle.accounting.storage = c.accounting.storage.clone();
    assert_eq!(&from_bundle, c);

    let written = ConfigBundle::new(c.to_slurm_conf());
    let mut again = ClusterConfig::from_bundle(&written)
        .unwrap_or_else(|e| panic!("{e}\n{written:#?}"))
        .config;
    // A pattern of relative scripts is written as the files that it matched.
    assert_eq!(again.scripts, c.scripts);
    again.raw.clone_from(&c.raw);
    assert_eq!(&again, c);
}

/// A configuration goes through serde unchanged: it is part of the controller's journal.
#[test]
fn serde_round_trip() {
    let c = parse(
        "NodeName=n[1-2] CPUs=2\nPartitionName=p Nodes=ALL\nPriorityWeightTRES=CPU=1,Mem=.5\n",
    )
    .config;
    let text = serde_json::to_string(&c).expect("serialises");
    assert_eq!(
        serde_json::from_str::<ClusterConfig>(&text).expect("deserialises"),
        c
    );
}

/// `sluice check`: kinds by name, both forms by content, exit by `passed`.
#[test]
fn check_reports() {
    let dir = tempfile::tempdir().expect("temporary folder");
    // Each in a folder of its own: a slurm.conf is checked with what lies beside it.
    let mut count = 0;
    let mut report = |name: &str, text: &str| {
        count += 1;
        let folder = dir.path().join(count.to_string());
        std::fs::create_dir(&folder).expect("creates");
        let path = folder.join(name);
        std::fs::write(&path, text).expect("writes");
        check(&path)
    };
    let good = report(
        "a-slurm.conf",
        &format!("{HEAD}NodeName=n[1-2]\nPartitionName=p Nodes=ALL\n"),
    );
    assert!(
        good.passed()
            && good
                .to_string()
                .ends_with("a-slurm.conf: ok (slurm.conf: cluster c, 2 nodes, 1 partition)"),
        "{good}"
    );
    let bad = report(
        "b-slurm.conf",
        &format!("{HEAD}NodeName=localhost REPLACE_IT\n"),
    );
    assert!(
        !bad.passed()
            && bad
                .to_string()
                .contains("b-slurm.conf:3: error: `REPLACE_IT`"),
        "{bad}"
    );
    assert_eq!(
        report(
            "x-cgroup.conf.tpl",
            "CgroupAutomount=yes\nConstrainCores=yes\n"
        )
        .count(Severity::Warning),
        1
    );
    assert!(!report("y-cgroup.conf", "ConstrainCores=maybe\n").passed());
    assert!(
        report(
            "gres.conf",
            "NodeName=n1 Name=gpu File=/dev/nvidia[0-3] Count=4\nName=gpu CPUs=0-3\n"
        )
        .passed()
    );
    assert!(!report("gres.conf", "Name=gpu File=/dev/nvidia[0-3] Count=3\n").passed());
    assert!(!report("gres.conf", "Type=h100\n").passed());
    assert!(
        report(
            "topology.conf",
            "SwitchName=s Nodes=n[1-2] LinkSpeed=1\nBlockName=b Nodes=n1\nBlockSizes=1,2\n"
        )
        .passed()
    );
    assert!(!report("topology.conf", "SwichName=s\n").passed());
    assert!(
        report(
            "slurmdbd.conf",
            "StorageType=accounting_storage/mysql\nPurgeJobAfter=12months\n"
        )
        .passed()
    );
    assert!(!report("slurmdbd.conf", "StorageTyp=x\n").passed());
    let template = report(
        "slurm.conf.template",
        "ClusterName={cluster_name}\nSlurmctldHost={host}\nNodeName=n1\n",
    );
    assert_eq!(template.count(Severity::Error), 2, "{template}");
    assert!(!check(Path::new("/nonexistent/slurm.conf")).passed());
    assert!(
        report("doc", "// comment\n{\"display_name\": \"a\"}")
            .kind
            .contains("document")
    );
}

/// topology.yaml goes before topology.conf, holds several networks, and reads as it is written.
#[test]
fn topology_yaml() {
    let yaml = "---
# two networks
- topology: fabric
  cluster_default: true
  tree:
    switches:
      - switch: top
        children: s[1-2]
      - switch: s1
        nodes: n[1-2]
      - switch: s2
        nodes: n[3-4]
- topology: racks
  cluster_default: false
  block:
    block_sizes: [2, 4]
    blocks:
      - block: b1
        nodes: n[1-2]
      - block: b2
        nodes: n[3-4]
- topology: any
  flat: true
";
    let conf = "ClusterName=c\nSlurmctldHost=h\nNodeName=n[1-4]\nPartitionName=p Nodes=ALL\nPartitionName=q Nodes=ALL Topology=racks\n";
    let file = |name: &str, content: &str| sluice_config::BundleFile {
        name: name.to_owned(),
        content: content.to_owned(),
    };
    let read = |files: Vec<sluice_config::BundleFile>| {
        ClusterConfig::from_bundle(&sluice_config::ConfigBundle::new(files)).map(|l| l.config)
    };
    let config = read(vec![
        file("slurm.conf", conf),
        file("topology.conf", "SwitchName=ignored Nodes=n[1-4]\n"),
        file("topology.yaml", yaml),
    ])
    .expect("reads");
    let topology = &config.topology;
    assert_eq!(topology.kind, sluice_config::TopologyKind::Tree);
    assert_eq!(topology.switches.len(), 3);
    assert_eq!(topology.switches[0].switches, ["s1", "s2"]);
    assert_eq!(topology.layouts.len(), 3);
    assert_eq!(topology.layouts[1].block_sizes, [2, 4]);
    assert_eq!(topology.layouts[1].blocks[1].nodes, ["n3", "n4"]);
    let again = read(config.to_slurm_conf()).expect("reads what was written");
    assert_eq!(again.topology, config.topology);
    // Faults.
    for (conf, yaml, why) in [
        (conf, "- topology: a\n", "needs exactly one"),
        (
            conf,
            "- topology: racks\n  tree: {switches: [{switch: s, nodes: n9}]}\n",
            "not a configured node",
        ),
        (
            conf,
            "- topology: racks\n  flat: true\n  sorts: 1\n",
            "cannot be read",
        ),
        (
            conf,
            "- topology: other\n  flat: true\n",
            "is not a topology of topology.yaml",
        ),
        (
            conf,
            "- topology: racks\n  block: {block_sizes: [2, 6], blocks: []}\n",
            "does not follow 2",
        ),
    ] {
        let errors = read(vec![file("slurm.conf", conf), file("topology.yaml", yaml)])
            .expect_err(why)
            .to_string();
        assert!(errors.contains(why), "{errors}");
    }
}
