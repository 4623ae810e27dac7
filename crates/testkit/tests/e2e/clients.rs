//! What tools that drive Slurm type and what they parse, to the letter, without the tools themselves.
//!
//! Each test is named after what it holds and says whose command line it is. The tools' regular expressions are written
//! out here as plain comparisons. The tools themselves run with `cargo xtask e2e clients`.

mod environment;
mod lines;
mod queries;

use std::io::Write;
use std::process::Stdio;

use sluice_testkit::{Cluster, Finished, run_with_deadline, wait_for};

use super::{SOON, cluster};

/// How long a text may come late that is compared again and again.
const SHORT: std::time::Duration = std::time::Duration::from_secs(5);

/// Output of a command that must end with `code`.
fn output(cluster: &Cluster, code: i32, words: &[&str]) -> Finished {
    let done = cluster.run(words[0], &words[1..]).unwrap();
    assert_eq!(done.code, code, "{done:?}");
    done
}

/// Standard output of a command that must succeed.
fn answer(cluster: &Cluster, words: &[&str]) -> String {
    output(cluster, 0, words).stdout
}

fn parsable(cluster: &Cluster, words: &[&str]) -> u32 {
    let words: Vec<&str> = ["sbatch", "--parsable"]
        .iter()
        .chain(words)
        .copied()
        .collect();
    answer(cluster, &words).trim_end().parse().unwrap()
}

/// A script on standard input, as a here-document gives it.
fn submit_from_stdin(cluster: &Cluster, args: &[&str], script: &str) -> String {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(script.as_bytes()).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    let mut command = cluster.command("sbatch");
    command.args(args).stdin(Stdio::from(file));
    run_with_deadline(command, SOON).unwrap().success().unwrap()
}

/// The answers of sbatch: the text at the start of the line, the bare number, a script from standard input, `--wait`.
#[test]
fn what_sbatch_answers() {
    let cluster = cluster();
    // simple-slurm, fireworks, nipype, parsl, cylc, aiida: the number follows exactly this text.
    let script = "#!/bin/sh\n#SBATCH --job-name          here\ntrue\n";
    assert_eq!(
        submit_from_stdin(&cluster, &[], script),
        "Submitted batch job 1\n"
    );
    // batchspawner, ood_core.
    assert_eq!(submit_from_stdin(&cluster, &["--parsable"], script), "2\n");
    assert_eq!(
        answer(
            &cluster,
            &["squeue", "-h", "-t", "all", "-j", "2", "-o", "%j"]
        ),
        "here\n"
    );
    // ert, maestrowf: short and long options, the folder made known to the job.
    let folder = cluster.path("work/elsewhere");
    std::fs::create_dir(&folder).unwrap();
    let file = cluster.path("work/job.sh");
    std::fs::write(&file, "#!/bin/sh\npwd\n").unwrap();
    let id = parsable(
        &cluster,
        &[
            "--job-name=realization-0",
            &format!("--chdir={}", folder.display()),
            "--output=out",
            "--error=err",
            "--ntasks=2",
            &file.to_string_lossy(),
        ],
    );
    cluster.wait_job_end(id, SOON).unwrap();
    assert_eq!(
        std::fs::read_to_string(folder.join("out")).unwrap(),
        format!("{}\n", folder.display())
    );
    // rslurm, torch recipes: the job's exit code is sbatch's.
    output(&cluster, 5, &["sbatch", "--wait", "--wrap=exit 5"]);
    // submitit, dask-jobqueue, slurmpy: sizes with a B, and %J of a batch script is the job id alone.
    let id = parsable(
        &cluster,
        &[
            "--mem=204MB",
            "-o",
            "log.%J.out",
            "--wrap",
            "echo $SLURM_MEM_PER_NODE",
        ],
    );
    cluster.wait_job_end(id, SOON).unwrap();
    assert_eq!(
        std::fs::read_to_string(cluster.path(&format!("work/log.{id}.out"))).unwrap(),
        "204\n"
    );
}

/// scancel: options after ids, quiet and verbose forms, several ids, unknown ones.
#[test]
fn what_scancel_takes() {
    let cluster = cluster();
    let trap = "trap 'echo got; exit 0' USR2; echo ready; while :; do sleep 0.05; done";
    let signalled = parsable(&cluster, &["-o", "%j.out", "--wrap", trap]);
    let out = cluster.path(&format!("work/{signalled}.out"));
    wait_for(SOON, "the script to set its trap", || {
        let text = std::fs::read_to_string(&out).unwrap_or_default();
        if text == "ready\n" { Ok(()) } else { Err(text) }
    })
    .unwrap();
    // submitit: the option after the id. ipyparallel: a signal that is not for the batch script leaves it alone.
    answer(
        &cluster,
        &[
            "scancel",
            &signalled.to_string(),
            "--signal",
            "USR2",
            "--batch",
        ],
    );
    assert_eq!(cluster.wait_job_end(signalled, SOON).unwrap(), "COMPLETED");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "ready\ngot\n");
    let held: Vec<u32> = (0..4)
        .map(|_| parsable(&cluster, &["-H", "--wrap", "true"]))
        .collect();
    // qtoolkit.
    let told = output(&cluster, 0, &["scancel", "-v", &held[0].to_string()]);
    assert!(
        told.stderr
            .lines()
            .any(|line| line == format!("scancel: Terminating job {}", held[0])),
        "{told:?}"
    );
    // snakemake, maestrowf, psij.
    let (second, third, fourth) = (
        held[1].to_string(),
        held[2].to_string(),
        held[3].to_string(),
    );
    answer(&cluster, &["scancel", &second, &third, "--clusters=all"]);
    answer(&cluster, &["scancel", "--quiet", &fourth, "99999"]);
    let quiet = output(&cluster, 0, &["scancel", "-Q", "99999"]);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
    for id in held {
        assert_eq!(cluster.job_state(id).unwrap(), "CANCELLED");
    }
}

/// A job whose program drops all that Slurm set but the job's id, as snakemake's job step does, still runs its steps.
#[test]
fn srun_finds_its_job_without_any_other_variable() {
    let cluster = cluster();
    let script = "env -i PATH=\"$PATH\" SLURM_JOB_ID=$SLURM_JOB_ID \
        srun -n1 --cpu-bind=q --cpus-per-task=1 --nodes=1 sh -c 'echo $SLURM_JOB_ID.$SLURM_STEP_ID'";
    let id = parsable(&cluster, &["-n1", "-c1", "-o", "%j.out", "--wrap", script]);
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
    assert_eq!(
        std::fs::read_to_string(cluster.path(&format!("work/{id}.out"))).unwrap(),
        format!("{id}.0\n")
    );
}

/// What programs read from their environment, and how srun marks lines.
#[test]
fn what_tasks_are_told() {
    let cluster = cluster();
    // ray, torchrun, accelerate and Lightning.
    let script = "#!/bin/sh\n#SBATCH -N2 --ntasks-per-node=2 -c2 -o told\n\
        echo $SLURM_NNODES $SLURM_JOB_NUM_NODES $SLURM_NTASKS_PER_NODE \"$SLURM_TASKS_PER_NODE\" \
        $SLURM_CPUS_PER_TASK $SLURM_JOBID $SLURM_JOB_NODELIST $SLURM_NODELIST $SLURM_CPUS_ON_NODE\n\
        scontrol show hostnames | xargs\n\
        scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1\n\
        srun --label --kill-on-bad-exit=1 --cpus-per-task=$SLURM_CPUS_PER_TASK \
        sh -c 'echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURM_NTASKS' | sort\n";
    let id: u32 = submit_from_stdin(&cluster, &["--parsable"], script)
        .trim_end()
        .parse()
        .unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
    assert_eq!(
        std::fs::read_to_string(cluster.path("work/told")).unwrap(),
        format!(
            "2 2 2 2(x2) 2 {id} n[1-2] n[1-2] 4\nn1 n2\nn1\n0: 0 0 0 4\n1: 1 1 0 4\n2: 2 0 1 4\n3: 3 1 1 4\n"
        )
    );
}
