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

/// Names that are too long, too many or not names: refused in words by command or controller, never obeyed and never fatal.
#[test]
fn names_that_are_none_are_refused() {
    let cluster = started(Cluster::builder().nodes(2));
    let run = |program: &str, args: &[&str]| cluster.run(program, args).unwrap();
    let many: String = (1..=4_000).map(|n| format!("n{n},")).collect();
    let long = "x".repeat(5_000);
    for nodes in [
        "n[1-4000]",
        many.trim_end_matches(','),
        "n[1-999999999]",
        "n[1-99999][1-99999]",
        "n[1-",
        "]n1[",
        "n1/../n2",
        "n1;true",
        "n[3-1]",
        &long,
    ] {
        let short = &nodes[..nodes.len().min(30)];
        for option in ["-w", "-x"] {
            let done = run("sbatch", &["-H", option, nodes, "--wrap", "true"]);
            assert_ne!(done.code, 0, "{option} {short}: {done:?}");
            assert!(!done.stderr.is_empty(), "{option} {short}");
        }
        for args in [
            &[
                "update",
                &format!("NodeName={nodes}"),
                "State=DRAIN",
                "Reason=x",
            ][..],
            &["reboot", nodes],
            &["delete", &format!("NodeName={nodes}")],
            &["create", &format!("ReservationName=r Nodes={nodes}")],
        ] {
            let done = run("scontrol", args);
            assert_ne!(done.code, 0, "{short}: {done:?}");
        }
    }
    for partition in ["no", "main;true", "main\nmain", "ma in", "../main", &long] {
        let done = run("sbatch", &["-H", "-p", partition, "--wrap", "true"]);
        assert_ne!(done.code, 0, "{partition:?}: {done:?}");
    }
    for (key, name) in [
        ("NodeName", "c1\nProlog=/tmp/evil"),
        ("NodeName", "c 1"),
        ("NodeName", "../c1"),
        ("NodeName", "c/1"),
        ("NodeName", "."),
        ("NodeName", ".."),
        ("NodeName", long.as_str()),
        ("PartitionName", "a\nb"),
        ("PartitionName", "a,b"),
        ("PartitionName", "a b"),
        ("PartitionName", long.as_str()),
    ] {
        let made = format!("{key}={name}");
        let more = if key == "NodeName" {
            "State=CLOUD"
        } else {
            "Nodes=n1"
        };
        let done = run("scontrol", &["create", &made, more]);
        assert_ne!(
            done.code,
            0,
            "{key}={:?}: {done:?}",
            &name[..name.len().min(30)]
        );
    }
    for user in ["no such user", "a\nb", "-5", "4294967296", &long] {
        // As Slurm's: it says which user is none, and lists nothing.
        let done = run("squeue", &["-h", "-u", user]);
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (0, ""),
            "squeue -u {user:?}"
        );
        assert!(done.stderr.contains("Invalid user: "), "{done:?}");
        let option = format!("--uid={user}");
        let done = run("sbatch", &["-H", &option, "--wrap", "true"]);
        assert_ne!(done.code, 0, "{done:?}");
    }
    for account in [long.as_str(), "a\nb", "a,b c"] {
        let done = run("sacctmgr", &["-i", "add", "account", account]);
        assert_ne!(done.code, 0, "{done:?}");
    }
    // One byte more than names may have: told with name and limit, by whoever keeps the names.
    let long = "x".repeat(256);
    let named = |key: &str| format!("{key}={long}");
    for (program, args) in [
        (
            "scontrol",
            ["create", &named("PartitionName"), "Nodes=n1"].to_vec(),
        ),
        (
            "scontrol",
            ["create", &named("NodeName"), "State=CLOUD"].to_vec(),
        ),
        ("sacctmgr", ["-i", "add", "account", &long].to_vec()),
        ("sacctmgr", ["-i", "add", "cluster", &long].to_vec()),
        ("sacctmgr", ["-i", "add", "qos", &long].to_vec()),
        (
            "sacctmgr",
            ["-i", "add", "user", &long, "account=root"].to_vec(),
        ),
        (
            "sacctmgr",
            ["-i", "add", "user", "root", &named("wckey")].to_vec(),
        ),
        (
            "sacctmgr",
            [
                "-i",
                "modify",
                "user",
                "root",
                "set",
                &named("defaultwckey"),
            ]
            .to_vec(),
        ),
    ] {
        let done = run(program, &args);
        refused(&done, &["xxx", "256 bytes", "the limit is 255"]);
    }
    // Nothing was made or changed by all that.
    assert_eq!(run("squeue", &["-h"]).stdout, "");
    assert_eq!(
        run("sinfo", &["-h", "-o", "%P %N %T"]).stdout,
        "main* n[1-2] idle\n"
    );
    let id = cluster.sbatch(["--wrap", "true"]).unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
}
