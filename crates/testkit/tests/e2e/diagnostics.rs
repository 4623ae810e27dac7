//! Priorities, shares, usage, statistics: what the commands about the system show is what happened.

use std::os::unix::fs::MetadataExt as _;

use sluice_testkit::{Cluster, wait_for, wait_until};

use super::{SOON, cluster, started};

fn run(cluster: &Cluster, name: &str, words: &[&str]) -> String {
    cluster
        .run(name, words)
        .and_then(|done| done.success())
        .unwrap()
}

/// The number after a label of sdiag.
fn figure(text: &str, label: &str) -> u64 {
    let after = text
        .split_once(label)
        .unwrap_or_else(|| panic!("no {label} in {text}"))
        .1;
    let digits = after.trim_start();
    let end = digits
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().unwrap()
}

/// A job that can never start now because another has every CPU.
fn waiting_job(cluster: &Cluster) -> (u32, u32) {
    let blocker = cluster
        .sbatch(["--exclusive", "-N2", "--wrap", "sleep 300"])
        .unwrap();
    cluster.wait_job_state(blocker, "RUNNING", SOON).unwrap();
    let waiting = cluster
        .sbatch(["--exclusive", "-N2", "--nice=7", "--wrap", "true"])
        .unwrap();
    (blocker, waiting)
}

/// `scontrol explain`: who is in the way and until when, in words and as data; a running job has nothing to explain.
#[test]
fn explain_names_who_is_in_the_way() {
    let cluster = started(Cluster::builder().nodes(2));
    let blocker = cluster
        .sbatch(["--exclusive", "-N2", "-t", "10", "--wrap", "sleep 300"])
        .unwrap();
    cluster.wait_job_state(blocker, "RUNNING", SOON).unwrap();
    let waiting = cluster
        .sbatch([
            "--exclusive",
            "-N2",
            "-t",
            "5",
            "-J",
            "later",
            "--wrap",
            "true",
        ])
        .unwrap();
    let reason = || super::job_field(&cluster, waiting, "Reason") == "Resources";
    wait_until(SOON, "the reason of the waiting job", reason).unwrap();
    let text = run(
        &cluster,
        "scontrol",
        &["explain", "job", &waiting.to_string()],
    );
    let start = super::job_field(&cluster, waiting, "StartTime");
    assert!(
        text.starts_with(&format!("JobId={waiting} JobName=later ")),
        "{text}"
    );
    assert!(
        text.contains("It waits because it needs 2 nodes at once, and 0 have room now."),
        "{text}"
    );
    assert!(
        text.contains(&format!("Expected start: {start} (in 00:")),
        "{text}"
    );
    assert!(
        text.contains(&format!("\n  job {blocker} is RUNNING on ")),
        "{text}"
    );
    let json = run(
        &cluster,
        "scontrol",
        &["--json", "explain", &waiting.to_string()],
    );
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    let found = &document["explanation"];
    assert_eq!(found["reason"], "Resources");
    assert_eq!(found["blockers"][0]["kind"], "running_job");
    assert_eq!(found["blockers"][0]["name"], blocker.to_string());
    for (id, words) in [
        (
            blocker.to_string(),
            format!("Job {blocker} does not wait: it is RUNNING"),
        ),
        ("999999".to_owned(), "Invalid job id specified".to_owned()),
    ] {
        let refused = cluster.run("scontrol", ["explain", &id]).unwrap();
        assert_eq!(
            (refused.code, refused.stdout.as_str()),
            (1, ""),
            "{refused:?}"
        );
        assert!(refused.stderr.contains(&words), "{refused:?}");
    }
}

/// sprio lists waiting jobs that may start with their priority, not running, held or future ones.
#[test]
fn sprio_lists_waiting_jobs() {
    let cluster = started(Cluster::builder().nodes(2));
    let (blocker, waiting) = waiting_job(&cluster);
    let held = cluster.sbatch(["-H", "--wrap", "true"]).unwrap();
    let later = cluster
        .sbatch(["--begin=now+1hour", "--wrap", "true"])
        .unwrap();
    let lines = run(&cluster, "sprio", &["-h", "-o", "%i|%Y|%N|%u"]);
    let priority = super::job_field(&cluster, waiting, "Priority");
    let line = format!("{waiting}|{priority}|7|");
    assert_eq!(lines.lines().count(), 1, "{lines}");
    assert!(lines.starts_with(&line), "{lines}");
    for other in [blocker, held, later] {
        let text = run(&cluster, "sprio", &["-h", "-j", &other.to_string()]);
        assert_eq!(text, "", "job {other}");
    }
    let unknown = cluster.run("sprio", ["-j", "999999"]).unwrap();
    assert_eq!(
        (
            unknown.code,
            unknown.stdout.as_str(),
            unknown.stderr.as_str()
        ),
        (0, "          JOBID PARTITION   PRIORITY       SITE\n", "")
    );
}

/// Weights of the configuration, and the terms they give.
#[test]
fn sprio_shows_weights() {
    let cluster = started(
        Cluster::builder()
            .nodes(2)
            .conf_line("PriorityWeightAge=1000")
            .conf_line("PriorityWeightTRES=CPU=100,Mem=100"),
    );
    assert_eq!(
        run(&cluster, "sprio", &["-w"]),
        "          JOBID PARTITION   PRIORITY       SITE        AGE                 TRES\n\
         \x20       Weights                               1       1000      CPU=100,Mem=100\n"
    );
    let (_, waiting) = waiting_job(&cluster);
    let done = cluster.run("sprio", ["-h", "-o", "%i %A %T"]).unwrap();
    // Two of eight CPUs: 100 × 2/8.
    let line = format!("{waiting} 0 cpu=25,mem=");
    assert!(done.stdout.starts_with(&line), "{done:?}");
    assert_eq!(done.stderr, "");
    // 25 and the memory's part, less a nice value of 7.
    let priority: u32 = super::job_field(&cluster, waiting, "Priority")
        .parse()
        .unwrap();
    assert!((18..120).contains(&priority), "{priority}");
}

/// Usage of jobs that ended is on their association and above it, moves the factor of a change at once, and is the same to the last
/// digit after a crash of the controller.
#[test]
fn usage_survives_a_crash() {
    let mut cluster = started(
        Cluster::builder()
            .nodes(2)
            .conf_line("PriorityWeightFairshare=1000")
            .conf_line("AccountingStorageType=accounting_storage/slurmdbd"),
    );
    for words in [
        &["account", "physics", "fairshare=3"][..],
        &["account", "biology", "fairshare=1"],
        &["user", "nobody", "account=physics"],
        &["user", "root", "account=biology"],
    ] {
        run(&cluster, "sacctmgr", &[&["-i", "add"][..], words].concat());
    }
    let job = cluster
        .sbatch(["-A", "biology", "-n4", "--wrap", "sleep 2"])
        .unwrap();
    cluster.wait_job_end(job, SOON).unwrap();
    let raw = |cluster: &Cluster| -> Vec<u64> {
        run(
            cluster,
            "sshare",
            &["-a", "-n", "-P", "-A", "root,biology", "-o", "rawusage"],
        )
        .lines()
        .map(|line| line.parse().unwrap())
        .collect()
    };
    // Root, its own user, the account, its user: 4 CPUs for two seconds or a little more.
    let usage = raw(&cluster);
    assert!((7..60).contains(&usage[0]), "{usage:?}");
    assert_eq!(usage, [usage[0], 0, usage[0], usage[0]]);
    let (_, waiting) = waiting_job(&cluster);
    let poor = cluster
        .sbatch(["-A", "biology", "--exclusive", "-N2", "--wrap", "true"])
        .unwrap();
    assert_eq!(super::job_field(&cluster, poor, "Priority"), "1000");
    // Usage counts with the next cycle, or when something about the associations changes.
    run(
        &cluster,
        "sacctmgr",
        &["-i", "modify", "user", "nobody", "set", "fairshare=2"],
    );
    // Last of three: 1000 × 1/3.
    assert_eq!(super::job_field(&cluster, poor, "Priority"), "333");
    let shown = |cluster: &Cluster| {
        (
            run(cluster, "sshare", &["-a", "-l", "-P"]),
            run(cluster, "sprio", &["-o", "%i %Y %y %F %f"]),
            run(cluster, "scontrol", &["show", "assoc_mgr"]),
        )
    };
    let before = shown(&cluster);
    assert!(
        before.0.contains("biology|root|1|1.000000|"),
        "{}",
        before.0
    );
    assert!(before.1.contains(&format!("{waiting} ")), "{}", before.1);
    cluster.kill_ctld().unwrap();
    cluster.start_ctld().unwrap();
    assert_eq!(shown(&cluster), before);
    run(
        &cluster,
        "sacctmgr",
        &["-i", "modify", "account", "biology", "set", "rawusage=0"],
    );
    assert_eq!(raw(&cluster), [0, 0, 0, 0]);
}

/// The tree of accounts with shares, and the minutes that running jobs have booked.
#[test]
fn sshare_shows_the_tree() {
    let cluster = cluster();
    let add = |words: &[&str]| {
        let done = cluster
            .run("sacctmgr", [&["-i", "add"][..], words].concat())
            .unwrap();
        assert_eq!(done.code, 0, "{done:?}");
    };
    add(&["account", "physics", "fairshare=30"]);
    add(&["user", "nobody", "account=physics", "fairshare=5"]);
    let shares = cluster
        .run("sshare", ["-a", "-n", "-P", "-o", "account,user,rawshares"])
        .unwrap();
    assert_eq!(shares.code, 0, "{shares:?}");
    assert!(shares.stdout.starts_with("root||\n"), "{shares:?}");
    assert!(
        shares.stdout.contains(" physics||30\n  physics|nobody|5\n"),
        "{shares:?}"
    );
    let mine = run(&cluster, "sshare", &["-U", "-n", "-P", "-u", "nobody"]);
    assert_eq!(mine, "physics|nobody|5|1.000000|0|0.000000|1.000000\n");
    let json = run(&cluster, "sshare", &["-a", "--json"]);
    assert!(
        json.contains("\"name\": \"nobody\",\n        \"parent\": \"physics\""),
        "{json}"
    );
}

/// Counters agree with what was done, and begin anew after a reset.
#[test]
fn sdiag_counts() {
    let cluster = started(Cluster::builder().nodes(2));
    let array = cluster.sbatch(["--array=1-3", "--wrap", "true"]).unwrap();
    assert_eq!(cluster.wait_job_end(array, SOON).unwrap(), "COMPLETED");
    let failed = cluster.sbatch(["--wrap", "exit 3"]).unwrap();
    assert_eq!(cluster.wait_job_end(failed, SOON).unwrap(), "FAILED");
    let held = cluster.sbatch(["-H", "--wrap", "true"]).unwrap();
    run(&cluster, "scancel", &[&held.to_string()]);
    let running = cluster.sbatch(["--wrap", "sleep 300"]).unwrap();
    cluster.wait_job_state(running, "RUNNING", SOON).unwrap();
    let text = run(&cluster, "sdiag", &[]);
    for (label, count) in [
        ("Jobs submitted:", 6),
        ("Jobs started:", 5),
        ("Jobs completed:", 4),
        ("Jobs canceled:", 1),
        ("Jobs failed:", 0),
        ("Jobs pending:", 0),
        ("Jobs running:", 1),
    ] {
        assert_eq!(figure(&text, label), count, "{label} {text}");
    }
    assert!(figure(&text, "Total cycles:") > 0, "{text}");
    let submit = "\tREQUEST_SUBMIT_BATCH_JOB                ( 4003) count:4 ";
    assert!(text.contains(submit), "{text}");
    assert!(
        text.contains("\troot            (       0) count:"),
        "{text}"
    );
    let json = run(&cluster, "sdiag", &["--json"]);
    assert!(json.contains("\"jobs_submitted\": 6,"), "{json}");
    run(&cluster, "sdiag", &["-r"]);
    let text = run(&cluster, "sdiag", &[]);
    assert_eq!(figure(&text, "Jobs submitted:"), 0, "{text}");
    assert_eq!(figure(&text, "Jobs running:"), 1, "{text}");
    assert!(!text.contains("REQUEST_SUBMIT_BATCH_JOB"), "{text}");
}

/// A running step's figures come from the node, and its processes are named.
#[test]
fn sstat_shows_running_steps() {
    let cluster = started(Cluster::builder().nodes(2));
    let id = cluster
        .sbatch(["-N2", "-n2", "--wrap", "srun sleep 300"])
        .unwrap();
    cluster.wait_job_state(id, "RUNNING", SOON).unwrap();
    let step = format!("{id}.0");
    let fields = ["-n", "-P", "-o", "jobid,ntasks,maxrss", "-j"];
    let line = wait_for(SOON, "figures of the step", || {
        let done = cluster
            .run("sstat", [&fields[..], &[step.as_str()]].concat())
            .unwrap();
        if done.stdout.contains('K') {
            Ok(done.stdout)
        } else {
            Err(format!("{done:?}"))
        }
    })
    .unwrap();
    assert!(line.starts_with(&format!("{id}.0|2|")), "{line}");
    let all = run(
        &cluster,
        "sstat",
        &["-a", "-n", "-P", "-o", "jobid", "-j", &id.to_string()],
    );
    assert_eq!(all, format!("{id}.batch\n{id}.0\n"));
    let pids = run(&cluster, "sstat", &["-i", "-n", "-P", "-j", &step]);
    for (line, node) in pids.lines().zip(cluster.nodes()) {
        let cells: Vec<&str> = line.split('|').collect();
        assert_eq!(cells[..2], [step.as_str(), node.as_str()], "{pids}");
        let command = std::fs::read_to_string(format!("/proc/{}/comm", cells[2])).unwrap();
        assert_eq!(command, "sleep\n");
    }
    let unknown = cluster.run("sstat", ["-j", "999999"]).unwrap();
    assert_eq!(unknown.code, 0);
    assert!(
        unknown
            .stdout
            .starts_with("JobID         AllocTRES  MaxVMSize "),
        "{unknown:?}"
    );
    assert_eq!(
        unknown.stderr,
        "sstat: error: couldn't get steps for JobId=999999\n"
    );
}

/// Where the tasks of a step are; streams of a running step go to one srun only, and that is said.
#[test]
fn sattach_shows_the_layout() {
    let cluster = started(Cluster::builder().nodes(2));
    let id = cluster
        .sbatch(["-N2", "-n2", "--wrap", "srun sleep 300"])
        .unwrap();
    cluster.wait_job_state(id, "RUNNING", SOON).unwrap();
    let step = format!("{id}.0");
    let text = wait_for(SOON, "the step", || {
        let done = cluster.run("sattach", ["--layout", &step]).unwrap();
        if done.code == 0 {
            Ok(done.stdout)
        } else {
            Err(done.stderr)
        }
    })
    .unwrap();
    let nodes = cluster.nodes();
    assert!(
        text.contains(&format!("Node 0 ({}), 1 task(s): 0\n", nodes[0])),
        "{text}"
    );
    assert!(
        text.contains(&format!("Node 1 ({}), 1 task(s): 1\n", nodes[1])),
        "{text}"
    );
}

/// The file is there, whole, with its mode, as the user's; it is not replaced without --force.
#[test]
fn sbcast_writes_a_file_on_the_nodes() {
    let cluster = started(Cluster::builder().nodes(2));
    let id = cluster
        .sbatch(["-N2", "-n2", "--wrap", "sleep 300"])
        .unwrap();
    cluster.wait_job_state(id, "RUNNING", SOON).unwrap();
    let source = cluster.path("source.bin");
    let bytes: Vec<u8> = (0..1_000_000_u32)
        .map(|index| (index % 251) as u8)
        .collect();
    std::fs::write(&source, &bytes).unwrap();
    // Both nodes are this machine: each has its own name for the same place through the job's working folder.
    let target = cluster.path("copy.bin");
    let (from, to) = (source.display().to_string(), target.display().to_string());
    let job = format!("--jobid={id}");
    let done = cluster.run("sbcast", [&job, "-f", &from, &to]).unwrap();
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(std::fs::read(&target).unwrap(), bytes);
    let about = std::fs::metadata(&target).unwrap();
    assert_eq!(about.uid(), std::fs::metadata(&source).unwrap().uid());
    let again = cluster.run("sbcast", [&job, &from, &to]).unwrap();
    assert_ne!(again.code, 0);
    assert!(again.stderr.contains("File exists"), "{again:?}");
    let none = cluster
        .run("sbcast", ["--jobid=999999", &from, &to])
        .unwrap();
    assert_eq!(none.code, 1, "{none:?}");
}

/// Reports are made of the jobs' records: a job of a known length appears with its CPU time.
#[test]
fn sreport_adds_up_jobs() {
    let cluster = cluster();
    let id = cluster.sbatch(["-n2", "--wrap", "sleep 3"]).unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
    cluster
        .wait_accounted(&id.to_string(), "COMPLETED", SOON)
        .unwrap();
    let record = run(
        &cluster,
        "sacct",
        &[
            "-n",
            "-P",
            "-X",
            "-j",
            &id.to_string(),
            "-o",
            "cputimeraw,user,account",
        ],
    );
    let cells: Vec<&str> = record.trim().split('|').collect();
    let (cpu_secs, user) = (cells[0], cells[1]);
    assert!(cpu_secs.parse::<u32>().unwrap() >= 6, "{record}");
    let period = ["start=now-1hour", "end=now+2hours"];
    let report = |words: &[&str]| {
        run(
            &cluster,
            "sreport",
            &[&["-n", "-P", "-t", "Seconds"][..], words, &period[..]].concat(),
        )
    };
    wait_until(SOON, "the job in the report", || {
        report(&["user", "top"]).contains(&format!("|{user}|"))
    })
    .unwrap();
    let top = report(&["user", "top", "format=login,used"]);
    assert_eq!(top, format!("{user}|{cpu_secs}\n"));
    let by_user = report(&["cluster", "UserUtilizationByAccount", "format=login,used"]);
    assert_eq!(by_user, top);
    let accounts = report(&[
        "cluster",
        "AccountUtilizationByUser",
        "format=account,login,used",
    ]);
    assert!(
        accounts.contains(&format!("|{user}|{cpu_secs}\n")),
        "{accounts}"
    );
    let sizes = report(&["job", "SizesByAccount", "printjobcount"]);
    assert!(sizes.ends_with("|1|0|0|0|0|1|100.00%\n"), "{sizes}");
    let utilization = report(&["cluster", "utilization"]);
    let cells: Vec<&str> = utilization.trim().split('|').collect();
    assert_eq!(cells[1], cpu_secs, "{utilization}");
    let number = |index: usize| cells[index].parse::<u64>().unwrap();
    assert_eq!(
        number(1) + number(2) + number(3) + number(4) + number(5),
        number(6),
        "{utilization}"
    );
    let bad = cluster.run("sreport", ["cluster", "nosuch"]).unwrap();
    assert_eq!(bad.code, 1);
    assert!(
        bad.stderr
            .starts_with("Not valid report nosuch\nValid cluster reports are, ")
    );
}
