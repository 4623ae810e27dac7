//! What a task sees in its environment, against outputs of a real Slurm (golden/batch-env.txt, golden/ok-srun-env.txt).

mod support;

use sluice_model::ids::StepId;
use sluice_stepd::environment::{set_task_variables, step_environment};
use support::batch_spec;

/// The names of golden/batch-env.txt that only the node can know, with their values there.
#[test]
fn batch_step_has_the_node_side_variables_of_a_real_one() {
    let mut spec = batch_spec(10, "env");
    spec.launch.node = "n2".to_owned();
    spec.node.environment = vec![("SLURM_GPUS_ON_NODE".to_owned(), "2".to_owned())];
    let mut environment = step_environment(&spec);
    set_task_variables(&mut environment, 0, 0, 26293);
    for (name, value) in [
        ("SLURMD_NODENAME", "n2"),
        ("SLURM_CPUS_ON_NODE", "1"),
        ("SLURM_GPUS_ON_NODE", "2"),
        ("SLURM_GTIDS", "0"),
        ("SLURM_JOBID", "10"),
        ("SLURM_JOB_ID", "10"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_NODEID", "0"),
        ("SLURM_OOM_KILL_STEP", "0"),
        ("SLURM_PRIO_PROCESS", "0"),
        ("SLURM_PROCID", "0"),
        ("SLURM_RESTART_COUNT", "0"),
        ("SLURM_STEPID", "-5"),
        ("SLURM_STEP_ID", "-5"),
        ("SLURM_TASK_PID", "26293"),
        ("SLURM_TOPOLOGY_ADDR", "n2"),
        ("SLURM_TOPOLOGY_ADDR_PATTERN", "node"),
    ] {
        assert_eq!(environment.get(name), Some(value), "{name}");
    }
    assert_eq!(environment.get("SLURM_UMASK"), None, "only steps have it");
}

/// A step started from inside a batch script inherits the script's values; the node's own must win over them.
#[test]
fn inherited_per_task_values_are_replaced() {
    let mut spec = batch_spec(46, "env");
    spec.launch.step_id = StepId::Num(0);
    spec.launch.umask = 0o022;
    spec.launch.task_ids = vec![2, 3];
    spec.launch.io_address = "127.0.0.1:38149".to_owned();
    spec.launch.environment = [
        "SLURM_PROCID=0",
        "SLURM_GTIDS=0",
        "SLURM_STEP_ID=-5",
        "A=1",
        "A=2",
        "=x",
        "B",
    ]
    .map(str::to_owned)
    .to_vec();
    let mut environment = step_environment(&spec);
    set_task_variables(&mut environment, 3, 1, 9);
    for (name, value) in [
        ("SLURM_PROCID", "3"),
        ("SLURM_LOCALID", "1"),
        ("SLURM_GTIDS", "2,3"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_UMASK", "0022"),
        ("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"),
        ("SLURM_SRUN_COMM_PORT", "38149"),
        ("A", "2"),
    ] {
        assert_eq!(environment.get(name), Some(value), "{name}");
    }
    assert!(environment.get("B").is_none() && environment.get("").is_none());
    assert_eq!(
        environment.iter().filter(|(name, _)| *name == "A").count(),
        1
    );
}
