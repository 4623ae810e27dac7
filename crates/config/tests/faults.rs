//! Which faults and warnings slurm.conf brings, and in what words.

use sluice_config::*;

const HEAD: &str = "ClusterName=c\nSlurmctldHost=h\n";

fn parse(text: &str) -> Loaded {
    ClusterConfig::parse_slurm_conf(&format!("{HEAD}{text}")).unwrap_or_else(|e| panic!("{e}"))
}

fn faults(text: &str) -> Vec<String> {
    match ClusterConfig::parse_slurm_conf(&format!("{HEAD}{text}")) {
        Ok(_) => Vec::new(),
        Err(e) => {
            e.0.iter()
                .filter(|d| d.severity == Severity::Error)
                .map(ToString::to_string)
                .collect()
        }
    }
}

fn one_fault(text: &str, words: &str) {
    let found = faults(text);
    assert!(
        found.len() == 1 && found[0].contains(words),
        "{text}\nwanted: {words}\nfound: {found:#?}"
    );
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

/// Every kind of error is found, with file, line, key and value.
#[test]
fn errors_are_named() {
    one_fault(
        "NodeName=n1\nKillWiat=3\n",
        "slurm.conf:4: error: KillWiat=3: unknown slurm.conf parameter (did you mean KillWait?)",
    );
    one_fault(
        "NodeName=n1\nKillWait=soon\n",
        "slurm.conf:4: error: KillWait=soon: not a whole number (legal: a whole number from 0 to 65533)",
    );
    one_fault(
        "NodeName=n1\nNodeName=n[1-2]\n",
        "slurm.conf:4: error: NodeName=n1: is already defined in line 3",
    );
    one_fault(
        "NodeName=n1\nPartitionName=p Nodes=n[1-3]\n",
        "Nodes=n[2-3]: are not configured nodes",
    );
    one_fault(
        "NodeName=n1 Gres=gpu:2\n",
        "gpu is not in GresTypes (add GresTypes=gpu)",
    );
    one_fault(
        "NodeName=n1 CPUs=2 MaxTime=3\n",
        "unknown node parameter (it is a partition parameter)",
    );
    one_fault(
        "NodeName=n1 Sockets=1 SocketsPerBoard=1\n",
        "excludes Sockets",
    );
    one_fault(
        "NodeName=n[1-3] NodeAddr=a[1-2]\n",
        "means 2 entries for 3 nodes",
    );
    one_fault("NodeName=n1 Port=0\n", "is not a port");
    one_fault("NodeName=n[1-\n", "brackets must be closed");
    one_fault(
        "NodeName=n1\nDownNodes=n2 State=DOWN\n",
        "is not a configured node",
    );
    one_fault(
        "NodeName=n1\nPartitionName=p Nodes=ALL\nPartitionName=p\n",
        "is defined twice",
    );
    one_fault(
        "NodeName=n1\nPartitionName=p Nodes=ALL OverSubscribe=FORCE:x\n",
        "legal: NO, YES[:n], FORCE[:n]",
    );
    one_fault(
        "NodeName=n1\nPartitionName=p Nodes=ALL DefMemPerCPU=1 DefMemPerNode=2\n",
        "excludes DefMemPerCPU",
    );
    one_fault(
        "NodeName=n1\nPartitionName=p Nodes=ALL Alternate=q\n",
        "is not a configured partition",
    );
    one_fault(
        "NodeName=n1\nSelectType=select/linear\nSelectTypeParameters=CR_Core\n",
        "does not go with select/linear",
    );
    one_fault(
        "NodeName=n1\nSelectTypeParameters=CR_Core,CR_CPU\n",
        "more than one consumable resource",
    );
    one_fault(
        "NodeName=n1\nSchedulerParameters=bf_interval=0\n",
        "bf_interval=0: is not a number in its range (legal: bf_interval=1..10800)",
    );
    one_fault(
        "NodeName=n1\nPrologFlags=NoHold,Contain\n",
        "NoHold does not go with Contain",
    );
    one_fault(
        "NodeName=n1\nAccountingStorageType=accounting_storage/none\nAccountingStorageEnforce=qos\n",
        "needs accounting",
    );
    one_fault(
        "NodeName=n1\nStateSaveLocation=state\n",
        "is not an absolute path",
    );
    one_fault("NodeName=n1\nLicenses=a:1,a:2\n", "is listed twice");
    one_fault(
        "NodeName=n1\nPropagateResourceLimits=CORE\nPropagateResourceLimitsExcept=CPU\n",
        "excludes PropagateResourceLimits",
    );
    one_fault(
        "NodeName=n1\nFirstJobId=0\n",
        "is not a usable first job id",
    );
    one_fault(
        "NodeName=n1\nProlog=prolog.d/missing.sh\n",
        "cannot be read",
    );
    one_fault("", "no node is configured");
}

/// All faults of a file come at once, in the order of its lines.
#[test]
fn all_errors_at_once() {
    let found = faults(
        "Bananas=1\nKillWait=x\nNodeName=n1 CPUs=many\nPartitionName=p Nodes=n9 State=SIDEWAYS\n",
    );
    let keys: Vec<&str> = found
        .iter()
        .filter_map(|f| f.split("error: ").nth(1)?.split('=').next())
        .collect();
    assert_eq!(
        keys,
        ["Bananas", "KillWait", "CPUs", "State", "Nodes"],
        "{found:#?}"
    );
}

/// The validity rules of preemption.
#[test]
fn preemption_rules() {
    let rule = |ty: &str, mode: &str, words: &str| {
        let text = format!("NodeName=n1\nPreemptType={ty}\nPreemptMode={mode}\n");
        if words.is_empty() {
            assert_eq!(faults(&text), Vec::<String>::new(), "{text}");
        } else {
            one_fault(&text, words);
        }
    };
    rule("preempt/partition_prio", "REQUEUE", "");
    rule("preempt/partition_prio", "suspend,gang", "");
    rule("preempt/qos", "CANCEL,WITHIN", "");
    rule("preempt/none", "OFF", "");
    rule("preempt/none", "GANG", "");
    rule("preempt/qos", "SUSPEND,GANG", "");
    rule("preempt/partition_prio", "SUSPEND", "SUSPEND needs GANG");
    rule(
        "preempt/partition_prio",
        "REQUEUE,CANCEL",
        "more than one mode",
    );
    rule(
        "preempt/partition_prio",
        "CANCEL,GANG,WITHIN",
        "GANG does not go with WITHIN",
    );
    rule(
        "preempt/partition_prio",
        "CANCEL,GANG,PRIORITY",
        "GANG does not go with PRIORITY",
    );
    rule("preempt/none", "CANCEL", "needs a PreemptType");
    rule("preempt/none", "SUSPEND,GANG", "needs a PreemptType");
    rule("preempt/qos", "OFF", "nothing could ever be preempted");
    rule("preempt/qos", "GANG", "nothing could ever be preempted");
    one_fault(
        "NodeName=n1\nPreemptType=preempt/qos\n",
        "nothing could ever be preempted",
    );
    one_fault(
        "NodeName=n1\nSelectType=select/linear\nSelectTypeParameters=CR_Memory\nPreemptType=preempt/qos\nPreemptMode=SUSPEND,GANG\n",
        "needs select/cons_tres",
    );
}

/// What Slurm tolerates is tolerated, with one word about it.
#[test]
fn warnings() {
    warned(
        "NodeName=n1\nFastSchedule=1\n",
        "FastSchedule: is obsolete and has no effect",
    );
    warned(
        "NodeName=n1\nUsePAM=1\n",
        "UsePAM: is accepted and has no effect",
    );
    warned(
        "NodeName=n1\nKillWait=3\nKillWait=4\n",
        "is given more than once; the last one rules",
    );
    warned(
        "NodeName=n1\nSelectType=select/cons_res\n",
        "no longer exists",
    );
    warned(
        "NodeName=n1\nPartitionName=p Nodes=n1 PreemptMode=GANG\n",
        "GANG on a partition is ignored",
    );
    warned(
        "NodeName=n1\nPartitionName=a Nodes=n1 Default=YES\nPartitionName=b Nodes=n1 Default=YES\n",
        "b takes over from a",
    );
    warned(
        "NodeName=n1\nSchedulerParameters=made_up\n",
        "`made_up` is not known here",
    );
    let quiet = parse(
        "NodeName=n1\nSwitchType=switch/none\nJobCompType=jobcomp/none\nTaskPlugin=task/none\nMpiDefault=none\n",
    );
    assert_eq!(quiet.warnings, vec![]);
    let once = parse(
        "NodeName=n[1-2]\nPartitionName=a Nodes=n1 Priority=3\nPartitionName=b Nodes=n2 Priority=4\n",
    );
    assert_eq!(once.warnings.len(), 1);
    assert_eq!(
        once.config
            .partition("b")
            .map(|p| (p.priority_tier, p.priority_job_factor)),
        Some((4, 4))
    );
}
