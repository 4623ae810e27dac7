//! Limits: each is refused in clear words, by the controller where a command would not stop it, and nothing else is harmed.

use super::{SOON, job_field, started};
use sluice_testkit::{Cluster, Finished, run_with_deadline};

fn refused(done: &Finished, words: &[&str]) {
    assert_ne!(done.code, 0, "{done:?}");
    for word in words {
        assert!(
            done.stderr.contains(word),
            "{word:?} in {:?}",
            &done.stderr[..done.stderr.len().min(2_000)]
        );
    }
}

/// Script, array, names, environment, steps and jobs: see the head of this file.
#[test]
fn what_is_too_much_is_refused_in_clear_words() {
    let cluster = started(
        Cluster::builder()
            .nodes(1)
            .conf_line("MaxArraySize=100")
            .conf_line("MaxStepCount=3")
            .conf_line("MaxJobCount=8")
            .conf_line("SchedulerParameters=max_script_size=10000"),
    );
    let script = cluster.path("work/long.sh");
    std::fs::write(&script, format!("#!/bin/sh\n#{}\n", "x".repeat(10_000))).unwrap();
    refused(&cluster.run("sbatch", [&script]).unwrap(), &["10000"]);
    std::fs::write(&script, format!("#!/bin/sh\n#{}\n", "x".repeat(9_900))).unwrap();
    let held = cluster
        .run("sbatch", ["-H".as_ref(), script.as_os_str()])
        .unwrap();
    assert_eq!(held.code, 0, "{held:?}");

    refused(
        &cluster
            .run("sbatch", ["-a", "0-100", "--wrap", "true"])
            .unwrap(),
        &["array"],
    );
    refused(
        &cluster
            .run("sbatch", ["-a", "0-4294967295", "--wrap", "true"])
            .unwrap(),
        &["array"],
    );
    assert_eq!(
        cluster
            .run("sbatch", ["-H", "-a", "0-99", "--wrap", "true"])
            .unwrap()
            .code,
        0
    );

    let long = "n".repeat(5_000);
    for option in [
        "--job-name",
        "--comment",
        "--account",
        "--wckey",
        "--licenses",
        "--reservation",
    ] {
        let done = cluster
            .run("sbatch", ["-H", option, &long, "--wrap", "true"])
            .unwrap();
        assert_ne!(done.code, 0, "{option}: {done:?}");
    }
    let path = format!("/{}", "d/".repeat(3_000));
    refused(
        &cluster
            .run("sbatch", ["-o", &path, "--wrap", "true"])
            .unwrap(),
        &[],
    );
    let deep = format!("{}a{}", "(".repeat(500), ")".repeat(500));
    refused(
        &cluster
            .run("sbatch", ["-C", &deep, "--wrap", "true"])
            .unwrap(),
        &[],
    );

    // The batch step is not counted.
    let steps = cluster
        .sbatch([
            "-o",
            "steps.out",
            "--wrap",
            "for i in 1 2 3 4; do srun true || echo refused $i; done",
        ])
        .unwrap();
    cluster.wait_job_end(steps, SOON).unwrap();
    let output = std::fs::read_to_string(cluster.path("work/steps.out")).unwrap();
    assert!(
        output.contains("refused 4") && !output.contains("refused 3"),
        "{output}"
    );

    // MaxJobCount: jobs in memory, finished ones too.
    // sbatch waits then and tries again, as Slurm's does.
    let told = (0..10).find_map(|_| {
        let mut command = cluster.command("sbatch");
        command.args(["-H", "--wrap", "true"]);
        run_with_deadline(command, std::time::Duration::from_secs(4))
            .err()
            .map(|error| format!("{error:#}"))
    });
    let told = told.expect("MaxJobCount is kept");
    assert!(told.contains("Slurm job queue full"), "{told}");
    assert_eq!(job_field(&cluster, steps, "JobState"), "COMPLETED");
}
