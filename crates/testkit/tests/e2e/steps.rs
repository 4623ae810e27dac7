//! Steps in depth: several programs, distributions, binding, attaching, copying files, detached steps, the extern step.

use std::fs::File;
use std::process::Stdio;

use sluice_testkit::{Cluster, run_with_deadline, wait_until};

use super::{SOON, cluster, same_lines, started};

fn sh(cluster: &Cluster, script: &str) -> sluice_testkit::Finished {
    cluster
        .run("salloc", ["-Q", "-N2", "sh", "-c", script])
        .unwrap()
}

fn on_eight_cpus(cluster: &Cluster, script: &str) -> sluice_testkit::Finished {
    cluster
        .run("salloc", ["-Q", "-N2", "-n8", "sh", "-c", script])
        .unwrap()
}

/// Lines that a command's tasks wrote; what salloc and srun say about waiting is left out.
fn from_tasks(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| !line.starts_with("srun: job ") && !line.starts_with("salloc: "))
        .collect()
}

/// srun(1) --multi-prog: ranks have programs of their own; a rank without one is refused before anything runs.
#[test]
fn each_rank_has_its_program() {
    let cluster = cluster();
    let file = cluster.path("work/programs");
    std::fs::write(&file, "0 echo first %t\n1-2 sh -c 'echo rest %t %o'\n").unwrap();
    let file = file.to_str().unwrap();
    let done = cluster
        .run("srun", ["-n3", "-l", "--multi-prog", file])
        .unwrap();
    assert_eq!(done.code, 0, "{done:?}");
    assert!(
        same_lines(&done.stdout, &["0: first 0", "1: rest 1 0", "2: rest 2 1"]),
        "{done:?}"
    );
    let done = cluster.run("srun", ["-n4", "--multi-prog", file]).unwrap();
    assert_ne!(done.code, 0);
    assert!(done.stderr.contains("no record for task id 3"), "{done:?}");
}

/// srun(1) -m: who runs where, by turns, in blocks, in planes, and as a list of hosts says.
#[test]
fn ranks_go_where_the_distribution_says() {
    // Two nodes and no more: on others a job would start while the one before still leaves the first two.
    let cluster = started(Cluster::builder().nodes(2));
    let placed = |option: &str| {
        let done = on_eight_cpus(
            &cluster,
            &format!(
                "srun -l -n4 {option} sh -c 'echo $SLURMD_NODENAME $SLURM_DISTRIBUTION' | sort"
            ),
        );
        assert_eq!(done.code, 0, "{option}: {done:?}");
        done.stdout
            .lines()
            .map(|line| line.split_whitespace().nth(1).unwrap_or("").to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(placed("-m block"), "n1 n1 n2 n2");
    assert_eq!(placed("-m cyclic"), "n1 n2 n1 n2");
    assert_eq!(placed("-m plane=3"), "n1 n1 n1 n2");
    let hosts = cluster.path("work/hosts");
    std::fs::write(&hosts, "n2\nn1\n# the rest\nn2*2\n").unwrap();
    let done = on_eight_cpus(
        &cluster,
        &format!(
            "SLURM_HOSTFILE={} srun -l -n4 -m arbitrary sh -c 'echo $SLURMD_NODENAME' | sort",
            hosts.display()
        ),
    );
    assert_eq!(done.stdout, "0: n2\n1: n1\n2: n2\n3: n2\n", "{done:?}");
}

/// A command that attaches hears what was said before, follows what comes, may send input, and leaves the step alone when it goes.
#[test]
fn a_second_command_attaches() {
    let cluster = cluster();
    let out = cluster.path("work/srun.out");
    let mut command = cluster.command("srun");
    let mut srun = command
        .args([
            "-n1",
            "sh",
            "-c",
            "echo early; while read line; do echo got $line; [ $line = end ] && exit 5; done",
        ])
        .stdin(Stdio::piped())
        .stdout(File::create(&out).unwrap())
        .spawn()
        .unwrap();
    cluster
        .wait_output("srun.out", SOON, |text| text == "early\n")
        .unwrap();
    let id = cluster
        .run("squeue", ["-h", "-o", "%i"])
        .unwrap()
        .stdout
        .trim()
        .to_owned();
    let layout = cluster
        .run("sattach", ["--layout", &format!("{id}.0")])
        .unwrap();
    assert!(
        layout.stdout.contains("1 tasks, 1 nodes (n1)"),
        "{layout:?}"
    );
    let input = cluster.path("work/attach.in");
    std::fs::write(&input, "one\n").unwrap();
    let attached = cluster.path("work/attach.out");
    let mut command = cluster.command("sattach");
    let mut sattach = command
        .args(["-l", &format!("{id}.0")])
        .stdin(Stdio::from(File::open(&input).unwrap()))
        .stdout(File::create(&attached).unwrap())
        .spawn()
        .unwrap();
    cluster
        .wait_output("attach.out", SOON, |text| text == "0: early\n0: got one\n")
        .unwrap();
    // Its input has ended; the step's has not.
    let mut ending = cluster.command("sattach");
    let end = cluster.path("work/end.in");
    std::fs::write(&end, "end\n").unwrap();
    ending
        .arg(format!("{id}.0"))
        .stdin(Stdio::from(File::open(&end).unwrap()));
    let done = run_with_deadline(ending, SOON).unwrap();
    assert_eq!(done.code, 5, "{done:?}");
    assert_eq!(done.stdout, "early\ngot one\ngot end\n");
    assert_eq!(sattach.wait().unwrap().code(), Some(5));
    assert_eq!(srun.wait().unwrap().code(), Some(5));
    assert_eq!(
        std::fs::read_to_string(&out).unwrap(),
        "early\ngot one\ngot end\n"
    );
    let gone = cluster.run("sattach", [format!("{id}.0")]).unwrap();
    assert_eq!(gone.code, 1);
}

/// sbcast and srun --bcast write the file on the nodes; libraries go beside a program.
#[test]
fn files_are_copied_to_the_nodes() {
    let cluster = cluster();
    let source = cluster.path("work/source");
    std::fs::write(&source, "#!/bin/sh\necho copied by $0\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&source, mode).unwrap();
    let target = cluster.path("work/target");
    let (source, target) = (source.display().to_string(), target.display().to_string());
    let outside = cluster
        .run("sbcast", [source.as_str(), target.as_str()])
        .unwrap();
    assert_eq!(outside.code, 1);
    assert!(outside.stderr.contains("Need a job id"), "{outside:?}");
    let done = sh(
        &cluster,
        &format!("sbcast -f {source} {target} && srun -N1 -n1 {target}"),
    );
    assert_eq!(done.stdout, format!("copied by {target}\n"), "{done:?}");
    let other = format!("{target}.2");
    let done = cluster
        .run("srun", ["-n1", &format!("--bcast={other}"), &source])
        .unwrap();
    assert_eq!(done.stdout, format!("copied by {other}\n"), "{done:?}");
    let program = format!("{target}.cat");
    let done = sh(
        &cluster,
        &format!("sbcast -f --send-libs --exclude=NONE /bin/cat {program}; ls {program}_libs"),
    );
    assert!(done.stdout.contains("libc.so"), "{done:?}");
}

/// A detached step goes on after srun has ended, and its output is in a file.
#[test]
fn a_detached_step() {
    let cluster = cluster();
    let out = cluster.path("work/detached.out");
    let script = format!(
        "srun --async --parsable -n1 -o {} sh -c 'sleep 0.3; echo done'; squeue -s -h -o %i; sleep 3",
        out.display()
    );
    let done = sh(&cluster, &script);
    assert_eq!(done.code, 0, "{done:?}");
    let mut lines = done.stdout.lines();
    let name = lines.next().unwrap().to_owned();
    assert!(lines.any(|line| line == name), "{done:?}");
    cluster
        .wait_output("detached.out", SOON, |text| text == "done\n")
        .unwrap();
    let outside = cluster.run("srun", ["--async", "true"]).unwrap();
    assert_ne!(outside.code, 0);
}

/// Steps do not share CPUs unless they say so: a second one waits, is refused at once, or overlaps.
#[test]
fn steps_side_by_side() {
    let cluster = cluster();
    let script = "srun -n1 -N1 --exact sleep 100 & \
         while ! squeue -s -h | grep -q sleep; do sleep 0.1; done; \
         srun -N1 -w n1 -n1 --overlap echo overlaps; \
         srun -N2 -n2 --ntasks-per-node=1 --immediate=1 true; echo code $?; \
         scancel -s KILL $SLURM_JOB_ID.0; wait";
    let done = cluster
        .run("salloc", ["-Q", "-N2", "-n2", "sh", "-c", script])
        .unwrap();
    assert!(done.stdout.contains("overlaps\n"), "{done:?}");
    assert!(done.stdout.contains("code 1\n"), "{done:?}");
    assert!(
        done.stderr.contains("Unable to create step for job"),
        "{done:?}"
    );
    assert!(
        done.stderr.contains(" DUE to SIGNAL Killed "),
        "the user is told that the step was ended: {done:?}"
    );
}

/// The environment that srun(1) promises, and `--preserve-env`, `--export` and task prologs on top of it.
#[test]
fn environments_of_tasks() {
    let cluster = cluster();
    let prolog = cluster.path("work/prolog");
    std::fs::write(
        &prolog,
        "#!/bin/sh\necho export FROM=prolog\necho unset GONE\necho print hello\n",
    )
    .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&prolog, mode).unwrap();
    let mut command = cluster.command("srun");
    command
        .args(["-n1", "--task-prolog", prolog.to_str().unwrap()])
        .args(["sh", "-c", "echo $FROM ${GONE-gone} $SLURM_STEP_NUM_TASKS"])
        .env("GONE", "here");
    let done = run_with_deadline(command, SOON).unwrap();
    assert_eq!(done.stdout, "hello\nprolog gone 1\n", "{done:?}");
    let done = cluster.run("srun", ["-n1", "--export=A=1", "env"]).unwrap();
    assert!(done.stdout.lines().any(|line| line == "A=1"));
    assert!(!done.stdout.lines().any(|line| line.starts_with("HOME=")));
    assert!(
        !done.stdout.contains("SLURM_RLIMIT_"),
        "a step has no such variables: {done:?}"
    );
    let done = sh(
        &cluster,
        "SLURM_NNODES=7 srun -E -N1 -n1 sh -c 'echo $SLURM_NNODES'",
    );
    assert_eq!(from_tasks(&done.stdout), ["7"], "{done:?}");
}

/// What a script is told and a step is not, and each task's own GPU, as a real Slurm has it.
#[test]
fn variables_of_scripts_and_gpus_of_tasks() {
    let cluster = started(Cluster::builder().gpus(2));
    let script = "env > batch.env; srun -l sh -c 'echo $CUDA_VISIBLE_DEVICES $SLURMD_TRES_BIND' > step.out; touch done";
    cluster
        .sbatch(["-N1", "-n2", "-c1", "--gpus-per-task=1", "--wrap", script])
        .unwrap();
    wait_until(SOON, "the script", || cluster.path("work/done").exists()).unwrap();
    let read = |name: &str| std::fs::read_to_string(cluster.path(name)).unwrap();
    let batch = read("work/batch.env");
    let has = |line: &str| batch.lines().any(|known| known == line);
    for line in [
        "ENVIRONMENT=BATCH",
        "HYDRA_BOOTSTRAP=slurm",
        "OMPI_MCA_plm_slurm_args=--external-launcher",
        "SLURM_TRES_PER_TASK=cpu=1,gres/gpu=1",
        "SLURM_TRES_BIND=gres/gpu:per_task:1",
        "SLURM_JOB_EXCLUSIVE=NO",
        "SLURM_NTASKS=2",
    ] {
        assert!(has(line), "{line} is missing in {batch}");
    }
    for name in [
        "SLURM_RLIMIT_",
        "SLURM_UMASK=",
        "SLURM_JOB_GROUP=",
        "SLURM_GPUS_PER_TASK=",
    ] {
        let found = batch.lines().any(|line| line.starts_with(name));
        assert!(!found, "{name} in {batch}");
    }
    let step = read("work/step.out");
    let own = ["0: 0 gres/gpu:per_task:1", "1: 1 gres/gpu:per_task:1"];
    assert!(same_lines(&step, &own), "{step}");
    let alone = cluster.run("srun", ["-n1", "-l", "env"]).unwrap().stdout;
    for name in ["SLURM_JOB_EXCLUSIVE", "SLURM_MEM_PER_CPU", "ENVIRONMENT"] {
        assert!(!alone.contains(&format!("0: {name}=")), "{alone}");
    }
    for line in [
        "SLURM_LABELIO=1",
        "SRUN_DEBUG=3",
        "SLURMD_DEBUG=2",
        "TMPDIR=/tmp",
    ] {
        let wanted = format!("0: {line}\n");
        let is_tmp = line.starts_with("TMPDIR") && std::env::var_os("TMPDIR").is_some();
        assert!(is_tmp || alone.contains(&wanted), "{line}: {alone}");
    }
}

/// `--mem-bind` sets the kernel's policy; a NUMA node that is not there is an error of the task, in Slurm's words.
#[test]
fn memory_is_bound() {
    let cluster = cluster();
    let policy = "grep -m1 -o 'bind[^ ]*\\|default' /proc/self/numa_maps";
    let done = cluster
        .run(
            "srun",
            ["-n1", "--mem-bind=verbose,map_mem:0", "sh", "-c", policy],
        )
        .unwrap();
    if !std::path::Path::new("/sys/devices/system/node/node0").exists() {
        assert!(done.stderr.contains("no NUMA nodes"), "{done:?}");
        return;
    }
    assert_eq!(done.code, 0, "{done:?}");
    assert!(
        done.stderr.contains("mem-bind=MAP - n1, task  0  0 ["),
        "{done:?}"
    );
    assert!(done.stderr.contains("]: mask 0x1 set\n"), "{done:?}");
    if std::path::Path::new("/proc/self/numa_maps").exists() {
        assert_eq!(done.stdout, "bind:0\n", "{done:?}");
    }
    let done = cluster
        .run("srun", ["-n1", "--mem-bind=map_mem:99", "true"])
        .unwrap();
    assert_eq!(done.code, 1, "{done:?}");
    let text = "NUMA node 99 does not exist; cannot bind local task 0 to it (--mem-bind=map_mem)";
    assert!(done.stderr.contains(text), "{done:?}");
}

/// With PrologFlags=Contain every node of a job has an extern step, which ends well with its job.
#[test]
fn the_extern_step() {
    let cluster = started(Cluster::builder().conf_line("PrologFlags=Contain"));
    let done = sh(
        &cluster,
        "while [ $(squeue -s -h -o %i | wc -l) -lt 1 ]; do sleep 0.1; done; squeue -s -h -o '%i %N'; srun -n1 -N1 true; echo $SLURM_JOB_ID",
    );
    assert_eq!(done.code, 0, "{done:?}");
    let id = done.stdout.lines().last().unwrap().to_owned();
    assert!(
        done.stdout.contains(&format!("{id}.extern n[1-2]")),
        "{done:?}"
    );
    wait_until(SOON, "the record of the extern step", || {
        let shown = cluster
            .run(
                "sacct",
                ["-n", "-P", "-j", &id, "-o", "JobID,State,ExitCode"],
            )
            .unwrap()
            .stdout;
        shown.contains(&format!("{id}.extern|COMPLETED|0:0"))
    })
    .unwrap();
}
