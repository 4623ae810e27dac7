//! Triggers and crontabs: what the controller does by itself when something happens, or when the time comes.

use std::os::unix::fs::PermissionsExt;

use sluice_testkit::{Cluster, PrivatePostgres, wait_until};

use super::{READY, SOON, cluster, job_field, started};

/// A program that writes its arguments into a file.
fn recorder(cluster: &Cluster, name: &str) -> (String, String) {
    let out = cluster.path(&format!("work/{name}.told"));
    let program = cluster.path(&format!("work/{name}.sh"));
    std::fs::write(
        &program,
        format!("#!/bin/sh\necho \"$@ $(id -u)\" >> {}\n", out.display()),
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    (program.display().to_string(), format!("work/{name}.told"))
}

fn told(cluster: &Cluster, file: &str) -> String {
    std::fs::read_to_string(cluster.path(file)).unwrap_or_default()
}

fn strigger(cluster: &Cluster, words: &[&str]) -> String {
    cluster
        .run("strigger", words)
        .and_then(|done| done.success())
        .unwrap()
}

/// A trigger of a node fires once with the node's name, as the user who set it; it is gone then, and survives a restart before.
#[test]
fn a_node_goes_down() {
    let mut cluster = cluster();
    let (program, file) = recorder(&cluster, "down");
    let option = format!("--program={program}");
    strigger(&cluster, &["--set", "--node", "--down", &option]);
    let shown = strigger(&cluster, &["--get"]);
    assert!(
        shown.starts_with("TRIG_ID RES_TYPE   RES_ID TYPE"),
        "{shown}"
    );
    assert!(shown.contains(" node            * down "), "{shown}");
    cluster.kill_ctld().unwrap();
    cluster.start_ctld().unwrap();
    cluster.wait_ready(READY).unwrap();
    assert_eq!(strigger(&cluster, &["--get"]), shown);
    let down = |node: &str| {
        let node = format!("NodeName={node}");
        cluster
            .run("scontrol", ["update", &node, "State=DOWN", "Reason=test"])
            .and_then(|done| done.success())
            .unwrap()
    };
    down("n2");
    wait_until(SOON, "the program", || !told(&cluster, &file).is_empty()).unwrap();
    let uid = nix::unistd::getuid();
    assert_eq!(told(&cluster, &file), format!("n2 {uid}\n"));
    wait_until(SOON, "the trigger is gone", || {
        strigger(&cluster, &["--get"]).is_empty()
    })
    .unwrap();
}

/// Triggers of a job: its end, and some seconds before its limit; a permanent one stays; others can be removed.
#[test]
fn a_job_ends() {
    let cluster = cluster();
    let (program, file) = recorder(&cluster, "fini");
    let (early, early_file) = recorder(&cluster, "time");
    let id = cluster
        .run(
            "sbatch",
            [
                "--parsable",
                "-t",
                "1",
                "--wrap",
                "sleep 600",
                "-o",
                "/dev/null",
            ],
        )
        .and_then(|done| done.success())
        .unwrap()
        .trim()
        .to_owned();
    let job = format!("--jobid={id}");
    strigger(
        &cluster,
        &["--set", &job, "--fini", &format!("--program={program}")],
    );
    strigger(
        &cluster,
        &[
            "--set",
            &job,
            "--time",
            "--offset=-59",
            &format!("--program={early}"),
        ],
    );
    wait_until(SOON, "the early program", || {
        told(&cluster, &early_file).starts_with(&id)
    })
    .unwrap();
    assert_eq!(told(&cluster, &file), "");
    cluster.run("scancel", [id.as_str()]).unwrap();
    wait_until(SOON, "the program", || {
        told(&cluster, &file).starts_with(&id)
    })
    .unwrap();
    strigger(
        &cluster,
        &[
            "--set",
            "--reconfig",
            "--flags=PERM",
            &format!("--program={program}"),
        ],
    );
    let shown = strigger(&cluster, &["--get", "--noheader"]);
    assert!(
        shown.contains("PERM") && shown.contains("reconfig"),
        "{shown}"
    );
    let number = shown.split_whitespace().next().unwrap().to_owned();
    strigger(&cluster, &["--clear", &format!("--id={number}")]);
    assert_eq!(strigger(&cluster, &["--get"]), "");
    let again = cluster
        .run("strigger", ["--clear", &format!("--id={number}")])
        .unwrap();
    assert_eq!(again.code, 1);
    let unknown = cluster
        .run(
            "strigger",
            ["--set", "--fini", "--jobid=99999", "--program=/x"],
        )
        .unwrap();
    assert!(
        unknown.stderr.contains("Invalid job id specified"),
        "{unknown:?}"
    );
}

/// A permanent trigger on the configuration fires each time it is read again.
#[test]
fn the_configuration_changes() {
    let cluster = cluster();
    let (program, file) = recorder(&cluster, "reconfig");
    let option = format!("--program={program}");
    strigger(&cluster, &["--set", "--reconfig", "--flags=PERM", &option]);
    let again = cluster
        .run("strigger", ["--set", "--reconfig", &option])
        .unwrap();
    assert_eq!(again.code, 1);
    assert_eq!(again.stderr, "slurm_set_trigger: Duplicate event trigger\n");
    for times in 1..=2 {
        cluster
            .run("scontrol", ["reconfigure"])
            .and_then(|done| done.success())
            .unwrap();
        wait_until(SOON, "the program", || {
            told(&cluster, &file).lines().count() == times
        })
        .unwrap();
    }
    let shown = strigger(&cluster, &["--get", "--noheader"]);
    assert!(
        shown.ends_with(&format!(" PERM  {program}\n"))
            && shown.contains(" node            * reconfig "),
        "{shown}"
    );
}

/// The database goes away and comes back; each is told once, also to the triggers of the daemon that is part of the controller here.
#[test]
fn the_database_goes_and_comes_back() {
    let mut postgres = PrivatePostgres::start().unwrap();
    postgres.create_database("acct").unwrap();
    let cluster = started(
        Cluster::builder()
            .conf_line("AccountingStorageType=accounting_storage/postgres")
            .conf_line(&format!(
                "AccountingStorageHost={}",
                postgres.socket_dir().display()
            ))
            .conf_line("AccountingStorageUser=sluice")
            .conf_line("AccountingStorageLoc=acct"),
    );
    // Something written shows that the connection stands.
    let job = cluster.sbatch(["--wrap", "exit 2"]).unwrap();
    cluster
        .wait_accounted(&job.to_string(), "FAILED", SOON)
        .unwrap();
    let events = [
        ("gone", "--primary_database_failure"),
        ("daemon", "--primary_slurmdbd_failure"),
        ("back", "--primary_database_resumed_operation"),
    ];
    let files: Vec<String> = events
        .iter()
        .map(|(name, option)| {
            let (program, file) = recorder(&cluster, name);
            strigger(
                &cluster,
                &["--set", option, &format!("--program={program}")],
            );
            file
        })
        .collect();
    let uid = nix::unistd::getuid();
    let fires = |at: usize, resource: &str| {
        let expected = format!("{resource} {uid}\n");
        wait_until(SOON, "the program", || {
            told(&cluster, &files[at]) == expected
        })
        .unwrap();
    };
    postgres.stop_server().unwrap();
    // The next record finds out.
    cluster.sbatch(["--wrap", "exit 3"]).unwrap();
    fires(0, "database");
    fires(1, "slurmdbd");
    assert_eq!(told(&cluster, &files[2]), "");
    postgres.start_server().unwrap();
    fires(2, "database");
}

/// With explicit_scancel a crontab's job is cancelled only by who says so; scontrol does not change it; its record tells what it is.
#[test]
fn an_entry_is_cancelled_on_purpose_only() {
    let cluster = started(Cluster::builder().conf_line("ScronParameters=enable,explicit_scancel"));
    let file = cluster.path("work/crontab");
    std::fs::write(&file, "#SCRON -J yearly\n# why\n0 0 1 1 * /bin/true\n").unwrap();
    cluster
        .run("scrontab", [file.to_str().unwrap()])
        .and_then(|done| done.success())
        .unwrap();
    let run = |command: &str, words: &[&str]| cluster.run(command, words).unwrap();
    let id = run("squeue", &["-h", "-o", "%i"]).stdout.trim().to_owned();
    let shown = run("scontrol", &["show", "job", &id]).stdout;
    assert!(
        shown.contains(
            "Deadline=N/A\n   CronJob=Yes CrontabSpec=\"0 0 1 1 *\"\n   SuspendTime=None"
        ),
        "{shown}"
    );
    let refused = run("scancel", &[&id]);
    assert!(
        refused
            .stderr
            .contains("Cannot cancel scrontab jobs without --cron flag."),
        "{refused:?}"
    );
    let job = format!("JobId={id}");
    let refused = run("scontrol", &["update", &job, "Name=other"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused
            .stderr
            .contains("Cannot modify scrontab jobs through scontrol"),
        "{refused:?}"
    );
    assert_ne!(run("scontrol", &["hold", &id]).code, 0);
    assert_eq!(run("scancel", &["--cron", &id]).code, 0);
    wait_until(SOON, "the entry is switched off", || {
        run("scrontab", &["-l"]).stdout
            == "#DISABLED: #SCRON -J yearly\n#DISABLED: # why\n#DISABLED: 0 0 1 1 * /bin/true\n"
    })
    .unwrap();
}

/// Without ScronParameters=enable there is no scrontab.
#[test]
fn scrontab_is_off() {
    let cluster = cluster();
    let done = cluster.run("scrontab", ["-l"]).unwrap();
    assert_eq!(done.code, 1);
    assert_eq!(
        done.stderr,
        "scrontab: fatal: scrontab is disabled on this cluster\n"
    );
}

/// An entry is one job that runs again and again under one id; the crontab survives a restart, an entry that is cancelled is
/// commented out, and a removed crontab takes its jobs along.
#[test]
fn an_entry_comes_back() {
    let mut cluster = started(Cluster::builder().conf_line("ScronParameters=enable"));
    let out = cluster.path("work/cron.out");
    let file = cluster.path("work/crontab");
    let text = format!(
        "WHO=me\n#SCRON -t 1 -J every -o {} --open-mode=append\n* * * * * echo $WHO\n@yearly /bin/true\n",
        out.display()
    );
    std::fs::write(&file, &text).unwrap();
    let bad = cluster.path("work/bad");
    std::fs::write(&bad, "61 * * * * true\n").unwrap();
    let refused = cluster.run("scrontab", [bad.to_str().unwrap()]).unwrap();
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("line 1: ")
            && refused
                .stderr
                .ends_with("\nThere are errors in your crontab.\n"),
        "{refused:?}"
    );
    cluster
        .run("scrontab", [file.to_str().unwrap()])
        .and_then(|done| done.success())
        .unwrap();
    let list = cluster.run("scrontab", ["-l"]).unwrap();
    assert_eq!(list.stdout, text);
    let id: u32 = cluster
        .run("squeue", ["-h", "-n", "every", "-o", "%i"])
        .unwrap()
        .stdout
        .trim()
        .parse()
        .unwrap();
    let shown = cluster
        .run("squeue", ["-h", "-j", &id.to_string(), "-o", "%t %r"])
        .unwrap();
    assert_eq!(shown.stdout, "PD BeginTime\n");
    cluster.kill_ctld().unwrap();
    cluster.start_ctld().unwrap();
    cluster.wait_ready(READY).unwrap();
    assert_eq!(cluster.run("scrontab", ["-l"]).unwrap().stdout, text);
    // A minute at most until its time comes.
    wait_until(READY * 3, "a run", || {
        std::fs::read_to_string(&out).is_ok_and(|text| text.starts_with("me\n"))
    })
    .unwrap();
    wait_until(SOON, "it waits again", || {
        job_field(&cluster, id, "JobState") == "PENDING"
    })
    .unwrap();
    assert_eq!(job_field(&cluster, id, "Restarts"), "1");
    // Handing in the same crontab keeps the jobs.
    cluster
        .run("scrontab", [file.to_str().unwrap()])
        .and_then(|done| done.success())
        .unwrap();
    assert_eq!(job_field(&cluster, id, "JobState"), "PENDING");
    cluster
        .run("scancel", ["--cron", &id.to_string()])
        .and_then(|done| done.success())
        .unwrap();
    wait_until(SOON, "the entry is switched off", || {
        cluster
            .run("scrontab", ["-l"])
            .unwrap()
            .stdout
            .contains("#DISABLED: * * * * * echo $WHO\n")
    })
    .unwrap();
    cluster
        .run("scrontab", ["-r"])
        .and_then(|done| done.success())
        .unwrap();
    let none = cluster.run("scrontab", ["-l"]).unwrap();
    assert_eq!(none.code, 1);
    assert_eq!(cluster.run("squeue", ["-h"]).unwrap().stdout, "");
}
