//! Recordings of a cluster's files as one release writes them, to be read by every later one.
//!
//! A recording is a folder: `state/` (journal, checkpoints, SQLite file), `accounting.sql` (the same accounting in PostgreSQL) and
//! what the commands said of them. Made by `cargo xtask record-upgrade`, read by the end-to-end tests. The text of the scene is
//! here, because recorder and reader need the same configuration.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::builder::ClusterBuilder;
use crate::cluster::Cluster;
use crate::postgres::{PrivatePostgres, postgres_bin_dir};
use crate::run::Finished;
use crate::wait::{wait_for, wait_until};

/// How long each thing may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Files of the state folder that belong to the running daemon or to its machine.
const NOT_RECORDED: &[&str] = &[
    "ctld.lock",
    "ctld.sock",
    "ctld.pub",
    "jwt_hs256.key",
    "accounting.sqlite-shm",
];

/// The cluster of all recordings: nothing is purged, no node is lost by silence.
#[must_use]
pub fn upgrade_cluster(postgres: Option<&PrivatePostgres>) -> ClusterBuilder {
    let mut builder = Cluster::builder()
        .cluster_name("upgrade")
        .nodes(3)
        .kill_wait_secs(1)
        .partition("MaxTime=INFINITE DefaultTime=INFINITE")
        .conf_line("MinJobAge=0")
        .conf_line("SlurmdTimeout=0")
        .conf_line("SchedulerParameters=requeue_delay=0");
    if let Some(server) = postgres {
        builder = builder
            .conf_line("AccountingStorageType=accounting_storage/postgres")
            .conf_line(&format!(
                "AccountingStorageHost={}",
                server.socket_dir().display()
            ))
            .conf_line("AccountingStorageUser=sluice")
            .conf_line("AccountingStorageLoc=upgrade");
    }
    builder
}

/// What the queue and the nodes are said to be: only what no later moment changes.
///
/// # Errors
/// When a command fails.
pub fn upgrade_queue(cluster: &Cluster) -> Result<String> {
    let ask = |program: &str, args: &[&str]| -> Result<String> {
        let text = cluster.run(program, args).and_then(Finished::success)?;
        let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        lines.sort_unstable();
        Ok(lines.join("\n") + "\n")
    };
    let jobs = ask(
        "squeue",
        &[
            "-h",
            "-r",
            "-t",
            "all",
            "-o",
            "%i|%j|%T|%u|%P|%D|%C|%m|%l|%N|%E|%k|%y|%o",
        ],
    )?;
    let steps = ask("squeue", &["-h", "-s", "-o", "%i|%j|%P|%u|%N"])?;
    let nodes = ask("sinfo", &["-h", "-N", "-o", "%N|%c|%m|%G|%E"])?;
    Ok(format!("{jobs}---\n{steps}---\n{nodes}"))
}

/// What accounting says.
///
/// # Errors
/// When `sacct` fails.
pub fn upgrade_accounting(cluster: &Cluster) -> Result<String> {
    let fields = "JobID,JobIDRaw,JobName,Partition,User,State,ExitCode,AllocCPUS,AllocTRES,NNodes,NodeList,Submit,Start,Comment,Timelimit";
    let args = ["-n", "-P", "-D", "-a", "-S", "2020-01-01", "-o", fields];
    let mut command = cluster.command("sacct");
    command.args(args).env("TZ", "UTC");
    let text = crate::run::run_with_deadline(command, PATIENCE)?.success()?;
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    Ok(lines.join("\n") + "\n")
}

/// Copies a folder's files, without those of the running daemon.
fn copy_state(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if NOT_RECORDED.iter().any(|skipped| name == **skipped) {
            continue;
        }
        let (path, target) = (entry.path(), to.join(&name));
        if path.is_dir() {
            copy_state(&path, &target)?;
        } else if path.is_file() {
            fs::copy(&path, &target).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

/// Puts a recorded state where a cluster that was written and not started looks for it.
///
/// # Errors
/// When files cannot be copied.
pub fn restore_upgrade_state(recording: &Path, cluster: &Cluster) -> Result<()> {
    copy_state(&recording.join("state"), &cluster.path("state"))
}

/// Plays the scene with this build's programs and writes a recording to `dir`, which must not exist.
///
/// # Errors
/// Whatever goes wrong; half a recording is left then.
pub fn record_upgrade(dir: &Path) -> Result<()> {
    if dir.exists() {
        bail!(
            "{} exists: a recording is never changed; choose another name or remove it",
            dir.display()
        );
    }
    fs::create_dir_all(dir)?;
    let mut cluster = play(upgrade_cluster(None))?;
    fs::write(dir.join("queue.txt"), upgrade_queue(&cluster)?)?;
    let accounting = settled_accounting(&cluster)?;
    fs::write(dir.join("accounting.txt"), accounting)?;
    // Killed: what came after the last checkpoint is in the journal only.
    cluster.kill_ctld()?;
    copy_state(&cluster.path("state"), &dir.join("state"))?;
    let outputs = cluster.stop();

    let server = PrivatePostgres::start()?;
    server.create_database("upgrade")?;
    let cluster = play(upgrade_cluster(Some(&server)))?;
    fs::write(
        dir.join("accounting-postgres.txt"),
        settled_accounting(&cluster)?,
    )?;
    let dump = postgres_bin_dir().context("no PostgreSQL")?.join("pg_dump");
    let dumped = Command::new(dump)
        .args([
            "--inserts",
            "--no-owner",
            "--no-privileges",
            "-U",
            "sluice",
            "-h",
        ])
        .arg(server.socket_dir())
        .arg("upgrade")
        .output()?;
    if !dumped.status.success() {
        bail!("pg_dump: {}", String::from_utf8_lossy(&dumped.stderr));
    }
    // Newer servers write these and older ones refuse them.
    let text: String = String::from_utf8(dumped.stdout)?
        .lines()
        .filter(|line| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict"))
        .filter(|line| !line.starts_with("SET transaction_timeout"))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(dir.join("accounting.sql"), text)?;
    outputs.and(cluster.stop())
}

/// Accounting is written behind the queue: what has been the same for a while is all.
fn settled_accounting(cluster: &Cluster) -> Result<String> {
    let mut last = String::new();
    let mut same = 0;
    wait_for(PATIENCE, "accounting to be complete", || {
        let now = upgrade_accounting(cluster).map_err(|error| format!("{error:#}"))?;
        same = if now == last { same + 1 } else { 0 };
        last = now;
        std::thread::sleep(Duration::from_millis(200));
        if same > 10 {
            Ok(last.clone())
        } else {
            Err(last.clone())
        }
    })
}

/// Jobs of every kind, in every state, before and after a checkpoint.
fn play(builder: ClusterBuilder) -> Result<Cluster> {
    let mut cluster = builder.start()?;
    cluster.wait_ready(PATIENCE)?;
    let control = |cluster: &Cluster, args: &[&str]| {
        cluster
            .run("scontrol", args)
            .and_then(Finished::success)
            .map(drop)
    };
    // "/tmp" is everywhere, and no path of this machine gets into the recording.
    let submit = |cluster: &Cluster, args: &[&str]| {
        cluster.sbatch([&["-D", "/tmp", "-o", "/dev/null"], args].concat())
    };
    let done = submit(
        &cluster,
        &[
            "-J",
            "completed",
            "-n",
            "2",
            "--comment=first",
            "--wrap",
            "srun -n2 true",
        ],
    )?;
    let failed = submit(&cluster, &["-J", "failed", "--wrap", "exit 3"])?;
    let killed = submit(&cluster, &["-J", "signalled", "--wrap", "kill -9 $$"])?;
    for id in [done, failed, killed] {
        cluster.wait_job_end(id, PATIENCE)?;
    }
    let array = submit(
        &cluster,
        &[
            "-J",
            "array",
            "-a",
            "1-4%2",
            "--wrap",
            "exit $SLURM_ARRAY_TASK_ID",
        ],
    )?;
    cluster.wait_job_end(array, PATIENCE)?;
    let held = submit(
        &cluster,
        &[
            "-J",
            "held",
            "-H",
            "-t",
            "10",
            "--gres=gpu:fake:1",
            "-N",
            "2",
            "--wrap",
            "true",
        ],
    )?;
    let requeued = submit(
        &cluster,
        &[
            "-J",
            "requeued",
            "--requeue",
            "--wrap",
            "[ ${SLURM_RESTART_COUNT:-0} -gt 0 ] || sleep 1000",
        ],
    )?;
    cluster.wait_job_state(requeued, "RUNNING", PATIENCE)?;
    control(&cluster, &["requeue", &requeued.to_string()])?;
    cluster.wait_job_end(requeued, PATIENCE)?;
    // A checkpoint in the middle.
    cluster.stop_ctld()?;
    cluster.start_ctld()?;
    cluster.wait_ready(PATIENCE)?;
    let running = submit(
        &cluster,
        &[
            "-J",
            "running",
            "-N",
            "2",
            "-w",
            "n[1-2]",
            "--wrap",
            "srun -J inner sleep 1000",
        ],
    )?;
    cluster.wait_job_state(running, "RUNNING", PATIENCE)?;
    wait_until(PATIENCE, "the step", || {
        cluster
            .run("squeue", ["-h", "-s", "-o", "%j"])
            .is_ok_and(|done| done.stdout.contains("inner"))
    })?;
    submit(
        &cluster,
        &[
            "-J",
            "dependent",
            "-d",
            &format!("afterok:{running}"),
            "--wrap",
            "true",
        ],
    )?;
    submit(
        &cluster,
        &[
            "-J",
            "later",
            "--begin=2100-01-01",
            "--nice=7",
            "--wrap",
            "true",
        ],
    )?;
    submit(
        &cluster,
        &["-J", "array-held", "-H", "-a", "0-9:3%2", "--wrap", "true"],
    )?;
    let cancelled = submit(&cluster, &["-J", "cancelled", "-H", "--wrap", "true"])?;
    cluster.run("scancel", [cancelled.to_string()])?.success()?;
    control(
        &cluster,
        &[
            "update",
            &format!("JobId={held}"),
            "Comment=changed",
            "TimeLimit=20",
        ],
    )?;
    let suspended = submit(
        &cluster,
        &["-J", "suspended", "-w", "n3", "--wrap", "sleep 1000"],
    )?;
    cluster.wait_job_state(suspended, "RUNNING", PATIENCE)?;
    control(&cluster, &["suspend", &suspended.to_string()])?;
    control(
        &cluster,
        &[
            "update",
            "NodeName=n3",
            "State=DRAIN",
            "Reason=to be mended",
        ],
    )?;
    Ok(cluster)
}
