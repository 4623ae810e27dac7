//! slurm.conf with the files beside it, and training-cluster documents.
//!
//! Several files are in one input, each after a line `=== NAME`; the first is the main one.

use sluice_config::{BundleFile, ClusterConfig, ConfigBundle};

use crate::mutate::Kind;
use crate::{Target, texts_of};

const SMALL: &str = "ClusterName=c
SlurmctldHost=h(127.0.0.1)
SlurmUser=root
StateSaveLocation=/var/spool/c
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
SchedulerParameters=bf_window=100,max_script_size=1000,defer
AccountingStorageTRES=gres/gpu
PriorityWeightAge=1000
NodeName=DEFAULT CPUs=4 RealMemory=1000
NodeName=n[1-4] Sockets=2 CoresPerSocket=2 ThreadsPerCore=1 Gres=gpu:a:2 Feature=x,y Weight=3
NodeName=m[001-010,20] NodeAddr=10.0.0.[1-11] State=FUTURE
PartitionName=DEFAULT MaxTime=1-0 State=UP
PartitionName=main Nodes=ALL Default=YES
PartitionName=\"p\" Nodes=n[1-2] AllowGroups=a,b MaxNodes=2 PriorityTier=5 TRESBillingWeights=\"CPU=1.0,Mem=0.25G\"
DownNodes=m001 State=DOWN Reason=\"x y\"
=== gres.conf
AutoDetect=off
NodeName=n[1-4] Name=gpu Type=a File=/dev/gpu[0-1] Cores=0-1
Name=shard Count=8
=== cgroup.conf
ConstrainCores=yes
ConstrainRAMSpace=yes
AllowedRAMSpace=95.5
=== topology.conf
SwitchName=s1 Nodes=n[1-2]
SwitchName=s2 Nodes=n[3-4],m[001-010,20]
SwitchName=root Switches=s[1-2]
=== plugstack.conf
include /etc/none
";

const DOCUMENTS: [&str; 4] = [
    include_str!("../../config/tests/specs/gpu-config-map.jsonc"),
    include_str!("../../config/tests/specs/many-faults.jsonc"),
    include_str!("../../config/tests/specs/older-blocks.jsonc"),
    include_str!("../../config/tests/specs/two-partitions.jsonc"),
];

fn bundle(input: &[u8], main: &str) -> ConfigBundle {
    let text = String::from_utf8_lossy(input);
    let mut files: Vec<BundleFile> = Vec::new();
    let mut name = main.to_owned();
    let mut content = String::new();
    for line in text.split_inclusive('\n') {
        match line.strip_prefix("=== ") {
            Some(next) => {
                files.push(BundleFile {
                    name: std::mem::replace(&mut name, next.trim().to_owned()),
                    content: std::mem::take(&mut content),
                });
            }
            None => content.push_str(line),
        }
    }
    files.push(BundleFile { name, content });
    ConfigBundle::new(files)
}

fn read(bundle: &ConfigBundle) {
    match ClusterConfig::from_bundle(bundle) {
        Err(faults) => drop(faults.to_string()),
        Ok(loaded) => {
            for warning in &loaded.warnings {
                let _ = warning.to_string();
            }
            let files = loaded.config.to_slurm_conf();
            assert!(!files.is_empty());
            let _ = loaded.config.show_config(&[("BOOT_TIME", String::new())]);
        }
    }
}

/// slurm.conf, gres.conf, cgroup.conf, topology.conf.
pub const SLURM_CONF: Target = Target {
    name: "slurm_conf",
    seeds: || {
        let mut seeds = texts_of(&[SMALL]);
        seeds.extend(SMALL.lines().map(|line| format!("{line}\n").into_bytes()));
        seeds
    },
    mutation: Kind::Text,
    run: |input| read(&bundle(input, "slurm.conf")),
    reset: None,
};

/// Training-cluster documents.
pub const SPEC: Target = Target {
    name: "spec",
    seeds: || texts_of(&DOCUMENTS),
    mutation: Kind::Text,
    run: |input| read(&bundle(input, "cluster.jsonc")),
    reset: None,
};
