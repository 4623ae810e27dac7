//! Batch jobs: what a script sees, where its output goes, how it ends.

use std::os::unix::process::CommandExt;
use std::time::Duration;

use nix::unistd::Uid;
use sluice_testkit::run_with_deadline;

use super::{SOON, cluster, job_field, same_lines, this_host};

/// The first promise to a new user: `sbatch -N2 -n4` with `srun hostname` gives four lines from two nodes.
#[test]
fn srun_in_a_batch_job_runs_four_tasks_on_two_nodes() {
    let cluster = cluster();
    let id = cluster
        .sbatch([
            "-N2",
            "-n4",
            "-o",
            "out",
            "--wrap",
            "srun hostname; srun sh -c 'echo $SLURM_PROCID $SLURM_NTASKS $SLURM_NNODES'; srun -N2 -n2 printenv SLURMD_NODENAME",
        ])
        .unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
    let text = cluster
        .wait_output("out", SOON, |text| text.lines().count() >= 10)
        .unwrap();
    let host = this_host();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..4], [host.as_str(); 4]);
    let ranks = lines[4..8].join("\n");
    assert!(
        same_lines(&ranks, &["0 4 2", "1 4 2", "2 4 2", "3 4 2"]),
        "{ranks}"
    );
    assert!(same_lines(&lines[8..].join("\n"), &["n1", "n2"]), "{text}");
}

/// A script's exit code must reach the user: `exit 3` is FAILED with 3:0, in scontrol and in sacct.
#[test]
fn a_script_that_exits_3_is_failed_with_3_0() {
    let cluster = cluster();
    let id = cluster.sbatch(["--wrap", "exit 3"]).unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "FAILED");
    assert_eq!(job_field(&cluster, id, "ExitCode"), "3:0");
    assert_eq!(job_field(&cluster, id, "Reason"), "NonZeroExitCode");
    for row in [id.to_string(), format!("{id}.batch")] {
        let row = cluster.wait_accounted(&row, "FAILED", SOON).unwrap();
        assert_eq!(row.exit_code, "3:0");
    }
}

/// A script ended by a signal is FAILED, and the signal is told after the colon.
#[test]
fn a_script_that_is_killed_is_failed_with_its_signal() {
    let cluster = cluster();
    let id = cluster.sbatch(["--wrap", "kill -KILL $$"]).unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "FAILED");
    assert_eq!(job_field(&cluster, id, "ExitCode"), "0:9");
}

/// Names of output files come from patterns; without `-o` they are slurm-JOBID.out in the submission folder.
#[test]
fn output_goes_where_the_pattern_says() {
    let cluster = cluster();
    let plain = cluster
        .sbatch(["--wrap", "echo out; echo err >&2"])
        .unwrap();
    let named = cluster
        .sbatch([
            "-J",
            "nam",
            "-w",
            "n2",
            "-o",
            "%x-%j-%N.o",
            "-e",
            "%x.e",
            "--wrap",
            "echo out; echo err >&2",
        ])
        .unwrap();
    let both = cluster
        .wait_output(&format!("slurm-{plain}.out"), SOON, |text| {
            text.lines().count() == 2
        })
        .unwrap();
    assert_eq!(both, "out\nerr\n");
    let file = format!("nam-{named}-n2.o");
    cluster
        .wait_output(&file, SOON, |text| text == "out\n")
        .unwrap();
    cluster
        .wait_output("nam.e", SOON, |text| text == "err\n")
        .unwrap();
}

/// A job runs as the user who submitted it, with that user's folder, file mode mask and environment.
#[test]
fn a_job_runs_as_its_user_with_the_submission_s_surroundings() {
    let cluster = cluster();
    let mut command = std::process::Command::new("/bin/sh");
    command
        .args([
            "-c",
            "umask 027; exec sbatch -o who.out --wrap 'id -u; pwd; umask; echo $FLAVOUR; echo $SLURM_JOB_UID'",
        ])
        .env("PATH", cluster.path_variable())
        .env("SLURM_CONF", cluster.conf())
        .env("FLAVOUR", "sweet and sour")
        .current_dir(cluster.path("work"));
    // Root can show that the job does not run as root: the well-known user nobody submits.
    let uid = if Uid::effective().is_root() {
        let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
        command.uid(nobody.uid.as_raw()).gid(nobody.gid.as_raw());
        nobody.uid
    } else {
        Uid::effective()
    };
    run_with_deadline(command, SOON)
        .and_then(|done| done.success())
        .unwrap();
    let text = cluster
        .wait_output("who.out", SOON, |text| text.lines().count() == 5)
        .unwrap();
    let work = cluster.path("work");
    assert_eq!(
        text,
        format!("{uid}\n{}\n0027\nsweet and sour\n{uid}\n", work.display())
    );
}

/// `--export` decides what the job gets of the submitter's environment.
#[test]
fn export_none_and_a_list_limit_the_environment() {
    let cluster = cluster();
    let show = "echo [$ONE][$TWO][${SLURM_JOB_ID:+id}]";
    for (export, expected) in [
        ("NONE", "[][][id]\n"),
        ("TWO", "[][2][id]\n"),
        ("ALL,ONE=x", "[x][2][id]\n"),
    ] {
        let mut command = cluster.command("sbatch");
        command
            .env("ONE", "1")
            .env("TWO", "2")
            .arg(format!("--export={export}"))
            .args(["-o", &format!("{export}.out"), "--wrap", show]);
        run_with_deadline(command, SOON)
            .and_then(|done| done.success())
            .unwrap();
        cluster
            .wait_output(&format!("{export}.out"), SOON, |text| text == expected)
            .unwrap();
    }
}

/// `#SBATCH` lines count, and the command line wins over them; arguments reach the script.
#[test]
fn directives_and_arguments_of_a_script() {
    let cluster = cluster();
    let script = cluster.path("work/job.sh");
    std::fs::write(
        &script,
        "#!/bin/sh\n#SBATCH -J fromscript\n#SBATCH --comment=kept -n2\n#SBATCH -o script.out\n\necho $SLURM_JOB_NAME $SLURM_NTASKS $1 \"$2\"\n#SBATCH -n4\n",
    )
    .unwrap();
    let id = cluster
        .sbatch(["-J", "typed", "job.sh", "a", "b c"])
        .unwrap();
    cluster
        .wait_output("script.out", SOON, |text| text == "typed 2 a b c\n")
        .unwrap();
    assert_eq!(job_field(&cluster, id, "Comment"), "kept");
}

/// A limit that is over ends the job as TIMEOUT, after SIGTERM, with a line that says so. One minute is the shortest.
#[test]
fn a_job_over_its_time_limit_ends_as_timeout() {
    let cluster = cluster();
    let id = cluster
        .sbatch([
            "-t",
            "1",
            "-o",
            "late.out",
            "--wrap",
            "trap 'echo got TERM; exit 0' TERM; sleep 1000 & wait",
        ])
        .unwrap();
    assert_eq!(
        cluster.wait_job_end(id, Duration::from_secs(120)).unwrap(),
        "TIMEOUT"
    );
    assert_eq!(job_field(&cluster, id, "Reason"), "TimeLimit");
    let text = cluster
        .wait_output("late.out", SOON, |text| text.contains("got TERM"))
        .unwrap();
    assert!(
        text.contains(&format!("*** JOB {id} ON n1 CANCELLED AT "))
            && text.contains(" DUE TO TIME LIMIT ***"),
        "{text}"
    );
    cluster
        .wait_accounted(&id.to_string(), "TIMEOUT", SOON)
        .unwrap();
}

/// `sbatch --wait` ends with the job's exit code: scripts chain on it.
#[test]
fn sbatch_wait_gives_the_job_s_exit_code() {
    let cluster = cluster();
    let done = cluster
        .run("sbatch", ["--wait", "--wrap", "exit 5"])
        .unwrap();
    assert_eq!(done.code, 5);
    assert!(done.stdout.starts_with("Submitted batch job "), "{done:?}");
}

/// A refused submission names the reason in Slurm's words and exits 1.
#[test]
fn a_refused_submission_says_why() {
    let cluster = cluster();
    // More than any node has can never run; more nodes than the partition has could, once it has them (EnforcePartLimits=NO).
    let done = cluster
        .run("sbatch", ["--mem=900T", "--wrap", "true"])
        .unwrap();
    assert_eq!(done.code, 1);
    assert!(
        done.stderr.contains(
            "sbatch: error: Batch job submission failed: Requested node configuration is not available"
        ),
        "{done:?}"
    );
    let done = cluster
        .run("sbatch", ["-p", "nosuch", "--wrap", "true"])
        .unwrap();
    assert_eq!(done.code, 1);
    assert!(
        done.stderr
            .contains("Batch job submission failed: Invalid partition name specified"),
        "{done:?}"
    );
}
