//! What clients leave of the environment: commands without SLURM_CONF, and a controller that is not there.

use std::os::unix::fs::symlink;
use std::path::Path;

use sluice_testkit::{Cluster, run_with_deadline};

use super::{SOON, answer, cluster, parsable, submit_from_stdin};

/// A folder as an installation below a prefix of its own has it: commands in `bin`, the configuration in `etc`.
fn installed(cluster: &Cluster) -> std::path::PathBuf {
    let prefix = cluster.path("prefix");
    std::fs::create_dir_all(prefix.join("bin")).unwrap();
    std::fs::create_dir_all(prefix.join("etc")).unwrap();
    for name in [
        "sbatch", "squeue", "srun", "scontrol", "scancel", "sacct", "sinfo",
    ] {
        let target = std::fs::canonicalize(cluster.bin().join(name)).unwrap();
        symlink(target, prefix.join("bin").join(name)).unwrap();
    }
    symlink(cluster.conf(), prefix.join("etc/slurm.conf")).unwrap();
    prefix
}

fn bare(program: &Path, args: &[&str]) -> String {
    let mut command = std::process::Command::new(program);
    command.args(args).env_clear();
    run_with_deadline(command, SOON).unwrap().success().unwrap()
}

/// aiida starts login shells, batchspawner and snakemake's job step filter the environment: nothing is left but the command.
#[test]
fn commands_find_their_controller_without_slurm_conf() {
    let cluster = cluster();
    let prefix = installed(&cluster);
    let bin = |name: &str| prefix.join("bin").join(name);
    let id = bare(
        &bin("sbatch"),
        &[
            "--parsable",
            "-H",
            "-D",
            "/tmp",
            "-o",
            "/dev/null",
            "--wrap",
            "true",
        ],
    );
    let id = id.trim_end();
    assert_eq!(
        bare(&bin("squeue"), &["-h", "-j", id, "-o", "%i %t"]),
        format!("{id} PD\n")
    );
    assert!(bare(&bin("scontrol"), &["show", "job", id]).contains("JobState=PENDING"));
    assert_eq!(bare(&bin("sinfo"), &["-h", "-o", "%R"]), "main\n");
    bare(&bin("scancel"), &[id]);
    assert_eq!(
        bare(&bin("squeue"), &["-h", "-t", "all", "-j", id, "-o", "%t"]),
        "CA\n"
    );
    // In a job: srun finds its allocation from SLURM_JOB_ID alone.
    let script = format!(
        "env -i SLURM_JOB_ID=$SLURM_JOB_ID {} -n1 sh -c 'echo $SLURM_JOB_ID.$SLURM_STEP_ID'",
        bin("srun").display()
    );
    let id = parsable(&cluster, &["-o", "%j.out", "--wrap", &script]);
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
    assert_eq!(
        std::fs::read_to_string(cluster.path(&format!("work/{id}.out"))).unwrap(),
        format!("{id}.0\n")
    );
}

/// batchspawner and Open OnDemand wait when the controller is away and give up when the job is unknown.
#[test]
fn a_controller_that_is_away_is_told_from_an_unknown_job() {
    let mut cluster = cluster();
    cluster.stop_ctld().unwrap();
    let gone = cluster
        .run("squeue", ["-h", "-j", "1", "-o", "%T %B"])
        .unwrap();
    assert_eq!(gone.code, 1, "{gone:?}");
    assert!(
        gone.stderr
            .starts_with("slurm_load_jobs error: Unable to contact slurm controller"),
        "{gone:?}"
    );
    cluster.start_ctld().unwrap();
    cluster.wait_ready(SOON).unwrap();
    let unknown = cluster
        .run("squeue", ["-h", "-j", "1", "-o", "%T %B"])
        .unwrap();
    assert_eq!(
        unknown.stderr,
        "slurm_load_jobs error: Invalid job id specified\n"
    );
}

/// Options of scripts as the tools write them: each must be taken, and the job end well.
#[test]
fn scripts_of_the_tools() {
    let cluster = cluster();
    let user = cluster.layout().user.clone();
    let scripts: &[(&str, &str)] = &[
        (
            "submitit",
            "#SBATCH --array=0-1%2\n#SBATCH --cpus-per-task=1\n#SBATCH --error=%A_%a_0_log.err\n#SBATCH --job-name=sum\n#SBATCH --mem=204MB\n#SBATCH --nodes=1\n#SBATCH --open-mode=append\n#SBATCH --output=%A_%a_0_log.out\n#SBATCH --partition=main\n#SBATCH --signal=USR2@90\n#SBATCH --time=5\n#SBATCH --wckey=submitit\n",
        ),
        (
            "dask-jobqueue",
            "#SBATCH -J dask-worker\n#SBATCH -e dask-%J.err\n#SBATCH -o dask-%J.out\n#SBATCH -p main\n#SBATCH -n 1\n#SBATCH --cpus-per-task=2\n#SBATCH --mem=382M\n#SBATCH -t 00:30:00\n",
        ),
        (
            "psij",
            "#SBATCH --job-name=\"test\"\n#SBATCH --nodes=1\n#SBATCH --ntasks=1\n#SBATCH --time=0:3:0\n#SBATCH -e /dev/null\n#SBATCH -o /dev/null\n#SBATCH --export=ALL\n",
        ),
        (
            "reframe",
            "#SBATCH --job-name=\"rfm_job\"\n#SBATCH --ntasks=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --output=rfm_job.out\n#SBATCH --error=rfm_job.err\n#SBATCH --time=0:5:0\n",
        ),
        (
            "aiida",
            "#SBATCH --no-requeue\n#SBATCH --job-name=\"aiida-5\"\n#SBATCH --get-user-env\n#SBATCH --output=_scheduler-stdout.txt\n#SBATCH --error=_scheduler-stderr.txt\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1\n#SBATCH --time=00:30:00\n#SBATCH --mem=102400K\n",
        ),
        (
            "cylc",
            "#SBATCH --job-name=foo.1\n#SBATCH --output=cylc-job.out\n#SBATCH --error=cylc-job.err\n#SBATCH --time=2:00\n",
        ),
        (
            "nextflow",
            "#SBATCH -J nf-sayHello_(1)\n#SBATCH -o .command.log\n#SBATCH --no-requeue\n#SBATCH --signal B:USR2@30\n#SBATCH -c 2\n#SBATCH -t 01:00:00\n#SBATCH --mem 100M\n#SBATCH -p main\n",
        ),
        (
            "gridtk",
            "#SBATCH --job-name=gridtk\n#SBATCH --output logs.%A-%a.out\n#SBATCH --array=1-2\n",
        ),
    ];
    for (tool, head) in scripts {
        let script =
            format!("#!/bin/bash\n{head}test \"$USER\" = '{user}' || test -n \"$SLURM_JOB_ID\"\n");
        let id: u32 = submit_from_stdin(&cluster, &["--parsable"], &script)
            .trim_end()
            .parse()
            .unwrap_or_else(|error| panic!("{tool}: {error}"));
        assert_eq!(
            cluster.wait_job_end(id, SOON).unwrap(),
            "COMPLETED",
            "{tool}"
        );
    }
    // toil: everything on the command line, with a separate time of minutes and variables for the job.
    let out = cluster.path("work/toil.out");
    let id = parsable(
        &cluster,
        &[
            "-J",
            "toil_job_1",
            "--signal=B:USR2@30",
            "--export=ALL,TOIL_A=1,TOIL_B=x",
            "--partition=main",
            "--mem=100",
            "--cpus-per-task=1",
            "--time=0:90",
            "-o",
            &out.to_string_lossy(),
            "-e",
            "/dev/null",
            "--wrap=exec echo $TOIL_A $TOIL_B",
        ],
    );
    cluster.wait_job_end(id, SOON).unwrap();
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "1 x\n");
    // slurmpy: one after the other; rslurm: singleton, waited for.
    let file = cluster.path("work/next.sh");
    std::fs::write(&file, "#!/bin/sh\nexit 0\n").unwrap();
    let after = format!("--dependency=afterok:{id}");
    let said = answer(&cluster, &["sbatch", &after, &file.to_string_lossy()]);
    let next = said.split_whitespace().last().unwrap().parse().unwrap();
    assert_eq!(cluster.wait_job_end(next, SOON).unwrap(), "COMPLETED");
    let said = answer(
        &cluster,
        &[
            "sbatch",
            "--wait",
            "--dependency=singleton",
            "--job-name=rs",
            "--wrap=true",
        ],
    );
    assert!(said.starts_with("Submitted batch job "), "{said}");
}

/// srun as launchers use it: Open MPI, MPICH, torch recipes, parsl, submitit.
#[test]
fn srun_as_launchers_use_it() {
    let cluster = cluster();
    let script = "#!/bin/bash\n#SBATCH -N2 --ntasks-per-node=2 -o told\n\
        srun --unbuffered --output log_%j_%t.out --error log_%j_%t.err sh -c 'echo $SLURM_PROCID'\n\
        cat log_*_[0-3].out | sort | xargs\n\
        srun --ntasks-per-node=1 --kill-on-bad-exit --mpi=none --external-launcher --nodes=2 --nodelist=$SLURM_NODELIST --ntasks=2 \
        sh -c 'srun --overlap -n1 -N1 true && echo launched' | sort | uniq -c | xargs\n\
        srun -N2 -n2 --input none sh -c 'cat; echo $SLURM_STEP_NODELIST $SLURM_NTASKS' | sort -u\n\
        srun --ntasks 2 -l bash -c 'echo hi' | sort\n\
        srun -n4 sh -c 'echo $SLURM_GTIDS' | sort -u | xargs\n";
    let id: u32 = submit_from_stdin(&cluster, &["--parsable"], script)
        .trim_end()
        .parse()
        .unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
    assert_eq!(
        std::fs::read_to_string(cluster.path("work/told")).unwrap(),
        "0 1 2 3\n2 launched\nn[1-2] 2\n0: hi\n1: hi\n0,1 2,3\n"
    );
}
