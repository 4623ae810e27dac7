//! Heterogeneous jobs with real daemons: what users type and see.
//!
//! Texts and forms are those of a real Slurm 26.05.

use super::{SOON, cluster};

const SCRIPT: &str = "#!/bin/sh
#SBATCH -J het -o out -n1 -t 5
#SBATCH hetjob
#SBATCH -N2 -n2
env | grep -E '^SLURM_(HET_SIZE|JOB_ID|JOB_ID_HET_GROUP_1|NTASKS_HET_GROUP_1|JOB_NUM_NODES_HET_GROUP_1)=' | sort
srun --het-group=1 sh -c 'echo one $SLURM_NTASKS'
srun --het-group=0,1 sh -c 'echo both $SLURM_JOB_NUM_NODES'
";

/// A script with `hetjob` runs once, sees all components, and starts steps in each.
#[test]
fn a_script_of_two_components() {
    let cluster = cluster();
    std::fs::write(cluster.path("job.sh"), SCRIPT).unwrap();
    let dir = cluster.dir().to_str().unwrap().to_owned();
    let id = cluster
        .sbatch(["-D", &dir, cluster.path("job.sh").to_str().unwrap()])
        .unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
    let records = cluster.show_job(&id.to_string()).unwrap();
    assert_eq!(records.len(), 2);
    let second = &records[1];
    assert_eq!(second["HetJobId"], id.to_string());
    assert_eq!(second["HetJobOffset"], "1");
    assert_eq!(second["HetJobIdSet"], format!("{id}-{}", id + 1));
    let written = std::fs::read_to_string(cluster.path("out")).unwrap();
    let mut lines: Vec<&str> = written.lines().collect();
    lines.sort_unstable();
    let (own, other) = (
        format!("SLURM_JOB_ID={id}"),
        format!("SLURM_JOB_ID_HET_GROUP_1={}", id + 1),
    );
    let expected = [
        "SLURM_HET_SIZE=2",
        &own,
        &other,
        "SLURM_JOB_NUM_NODES_HET_GROUP_1=2",
        "SLURM_NTASKS_HET_GROUP_1=2",
        "both 1",
        "both 2",
        "both 2",
        "one 2",
        "one 2",
    ];
    assert_eq!(lines, expected);
}

/// Ids in every command, and what one component alone may not do.
#[test]
fn ids_and_refusals() {
    let cluster = cluster();
    let id = cluster
        .sbatch([
            "-H",
            "-n1",
            "-t1",
            "-o",
            "/dev/null",
            ":",
            "-n2",
            "--wrap",
            "true",
        ])
        .unwrap();
    let shown = cluster
        .run(
            "squeue",
            ["-h", "-S", "i", "-o", "%i %T %D", "-j", &id.to_string()],
        )
        .and_then(|done| done.success())
        .unwrap();
    assert_eq!(shown, format!("{id}+0 PENDING 1\n{id}+1 PENDING 1\n"));
    let only = cluster
        .run("squeue", ["-h", "-o", "%i", "-j", &format!("{id}+1")])
        .and_then(|done| done.success())
        .unwrap();
    assert_eq!(only, format!("{id}+1\n"));
    let refused = cluster.run("scancel", [format!("{id}+1")]).unwrap();
    assert_eq!(
        refused.stderr,
        format!(
            "scancel: error: Kill job error on job id {id}+1: Operation not permitted on individual component of heterogeneous job\n"
        )
    );
    cluster
        .run("scancel", [id.to_string()])
        .and_then(|done| done.success())
        .unwrap();
    let states = cluster
        .run(
            "squeue",
            ["-h", "-t", "all", "-o", "%T", "-j", &id.to_string()],
        )
        .and_then(|done| done.success())
        .unwrap();
    assert_eq!(states, "CANCELLED\nCANCELLED\n");
}

/// salloc with two components: granted together, told in the environment, given back together.
#[test]
fn an_allocation_of_two_components() {
    let cluster = cluster();
    let done = cluster
        .run(
            "salloc",
            [
                "-n1",
                "-t1",
                ":",
                "-n2",
                "sh",
                "-c",
                "echo $SLURM_HET_SIZE $SLURM_NTASKS_HET_GROUP_1; srun --het-group=1 -l true && exit 3",
            ],
        )
        .unwrap();
    assert_eq!(done.stdout, "2 2\n", "{}", done.stderr);
    assert_eq!(done.code, 3);
    let left = cluster
        .run("squeue", ["-h", "-o", "%i"])
        .and_then(|done| done.success())
        .unwrap();
    assert_eq!(left, "");
}
