//! Accounting: `sacct` agrees with what happened, with SQLite and with Postgres, and a dead database loses nothing.

use sluice_testkit::{Cluster, PrivatePostgres, wait_for, wait_until};

use super::{SOON, cluster, started};

fn sacct(cluster: &Cluster, id: u32, fields: &str) -> Vec<Vec<String>> {
    let text = cluster
        .run("sacct", ["-n", "-P", "-j", &id.to_string(), "-o", fields])
        .and_then(|done| done.success())
        .unwrap();
    text.lines()
        .map(|line| line.split('|').map(str::to_owned).collect())
        .collect()
}

/// A job with two steps has four rows, whose states, CPUs and nodes are what ran.
#[test]
fn sacct_lists_a_job_its_batch_script_and_its_steps() {
    let cluster = cluster();
    let id = cluster
        .sbatch([
            "-J",
            "two",
            "-N2",
            "-n4",
            "--wrap",
            "srun true; srun -N1 -n1 false; exit 0",
        ])
        .unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
    cluster
        .wait_accounted(&id.to_string(), "COMPLETED", SOON)
        .unwrap();
    let rows = wait_for(SOON, "four rows of sacct", || {
        let rows = sacct(
            &cluster,
            id,
            "JobID,JobName,State,ExitCode,NNodes,AllocCPUS",
        );
        if rows.len() == 4 {
            Ok(rows)
        } else {
            Err(format!("{rows:?}"))
        }
    })
    .unwrap();
    let job = id.to_string();
    let (batch, first, second) = (format!("{id}.batch"), format!("{id}.0"), format!("{id}.1"));
    assert_eq!(rows[0], [&job, "two", "COMPLETED", "0:0", "2", "4"]);
    assert_eq!(rows[1][..4], [&batch, "batch", "COMPLETED", "0:0"]);
    assert_eq!(rows[2], [&first, "true", "COMPLETED", "0:0", "2", "4"]);
    assert_eq!(rows[3][..5], [&second, "false", "FAILED", "1:0", "1"]);
}

/// CPU time and memory are measured, not made up: a second of work (less on a busy machine) and 100 MB are seen as such.
#[test]
fn usage_comes_from_the_kernel() {
    let cluster = cluster();
    let id = cluster
        .sbatch([
            "--mem=500",
            "--wrap",
            // tail keeps all of a line in memory until its end.
            "head -c 100000000 /dev/zero | tail -n 1 | wc -c; timeout 1 sh -c 'while :; do :; done'; true",
        ])
        .unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
    cluster
        .wait_accounted(&format!("{id}.batch"), "COMPLETED", SOON)
        .unwrap();
    let rows = sacct(&cluster, id, "JobID,TotalCPU,MaxRSS,ElapsedRaw,ReqMem");
    let batch = rows
        .iter()
        .find(|row| row[0].ends_with(".batch"))
        .unwrap_or_else(|| panic!("{rows:?}"));
    // `MM:SS.mmm`.
    let (minutes, seconds) = batch[1].split_once(':').unwrap();
    let cpu_secs: f64 = minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap();
    assert!((0.2..10.0).contains(&cpu_secs), "{rows:?}");
    let kib: f64 = batch[2].strip_suffix('K').unwrap().parse().unwrap();
    // 100,000,000 bytes are 97,656 KiB.
    assert!((95_000.0..200_000.0).contains(&kib), "{rows:?}");
    let elapsed: u32 = rows[0][3].parse().unwrap();
    assert!((1..20).contains(&elapsed), "{rows:?}");
    assert_eq!(rows[0][4], "500M");
}

/// Accounts and users can be added and are shown; adding twice is refused in Slurm's words.
#[test]
fn sacctmgr_adds_and_shows_accounts_and_users() {
    let cluster = cluster();
    let add = |words: &[&str]| cluster.run("sacctmgr", [&["-i", "add"][..], words].concat());
    let done = add(&["account", "physics", "description=physics"]).unwrap();
    assert_eq!(done.code, 0, "{done:?}");
    let done = add(&["user", "nobody", "account=physics"]).unwrap();
    assert_eq!(done.code, 0, "{done:?}");
    let show = |words: &[&str]| {
        cluster
            .run("sacctmgr", [&["-n", "-P", "show"][..], words].concat())
            .and_then(|done| done.success())
            .unwrap()
    };
    assert!(show(&["account", "format=account,descr"]).contains("physics|physics\n"));
    assert!(show(&["user", "format=user,defaultaccount"]).contains("nobody|physics\n"));
    assert!(show(&["cluster", "format=cluster"]).contains("test\n"));
    let again = add(&["account", "physics"]).unwrap();
    assert_eq!(
        (again.code, again.stdout.as_str()),
        (1, " Already existing account physics on cluster test\n"),
        "{again:?}"
    );
}

/// With Postgres the same; while it is down jobs run on, `scontrol ping` says so, and all is written when it comes back.
#[test]
fn a_database_that_goes_away_and_comes_back_misses_nothing() {
    let mut postgres = PrivatePostgres::start().unwrap();
    postgres.create_database("acct").unwrap();
    let cluster = started(
        Cluster::builder()
            .nodes(2)
            .conf_line("AccountingStorageType=accounting_storage/postgres")
            .conf_line(&format!(
                "AccountingStorageHost={}",
                postgres.socket_dir().display()
            ))
            .conf_line("AccountingStorageUser=sluice")
            .conf_line("AccountingStorageLoc=acct"),
    );
    let before = cluster.sbatch(["--wrap", "exit 2"]).unwrap();
    let row = cluster
        .wait_accounted(&before.to_string(), "FAILED", SOON)
        .unwrap();
    assert_eq!(row.exit_code, "2:0");

    postgres.stop_server().unwrap();
    let during = cluster.sbatch(["--wrap", "exit 4"]).unwrap();
    assert_eq!(cluster.wait_job_end(during, SOON).unwrap(), "FAILED");
    let ping = wait_for(
        SOON,
        "scontrol ping to say that the database is away",
        || {
            let done = cluster.run("scontrol", ["ping"]).unwrap();
            let all = format!("{}{}", done.stdout, done.stderr);
            if all.to_lowercase().contains("accounting") {
                Ok(all)
            } else {
                Err(all)
            }
        },
    )
    .unwrap();
    assert!(ping.contains(" is UP"), "{ping}");

    postgres.start_server().unwrap();
    let row = cluster
        .wait_accounted(&during.to_string(), "FAILED", SOON)
        .unwrap();
    assert_eq!(row.exit_code, "4:0");
    wait_until(SOON, "scontrol ping to say nothing more of it", || {
        let done = cluster.run("scontrol", ["ping"]).unwrap();
        !format!("{}{}", done.stdout, done.stderr).contains("accounting")
    })
    .unwrap();
}
