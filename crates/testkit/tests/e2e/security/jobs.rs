//! Another user's job, and whose identity a job has.

use super::{READY, SOON, Scene, assert_refused, job_field};
use sluice_testkit::{Cluster, wait_until};

/// Whatever Bob tries with Ada's job, it stays as it is.
#[test]
fn another_user_s_job_cannot_be_touched() {
    let Some(scene) = Scene::new(Cluster::builder().nodes(1)) else {
        return;
    };
    let id = scene.running().to_string();
    let held = scene
        .sbatch(&scene.ada, &["-H", "-J", "held", "--wrap", "true"])
        .to_string();
    let before = scene
        .cluster
        .run("scontrol", ["show", "job", "-o", &held])
        .unwrap()
        .stdout;
    let bob = |program: &str, args: &[&str]| scene.run(&scene.bob, program, args);

    assert_refused(&bob("scancel", &[&id]), "denied");
    assert_refused(&bob("scancel", &["-s", "USR1", &id]), "denied");
    assert_refused(&bob("scancel", &["--batch", "-s", "KILL", &id]), "denied");
    for args in [
        &["hold", &held][..],
        &["release", &held],
        &["uhold", &held],
        &["requeue", &id],
        &["requeuehold", &id],
        &["suspend", &id],
        &["resume", &id],
        &["notify", &id, "hello"],
        &["update", &format!("JobId={id}"), "Comment=theirs"],
        &["update", &format!("JobId={held}"), "Nice=-100"],
        &["update", "NodeName=n1", "State=DRAIN", "Reason=x"],
        &["update", "PartitionName=main", "State=DOWN"],
        &["reconfigure"],
        &["shutdown"],
        &["setdebug", "debug5"],
        &["token", &format!("username={}", scene.ada.name)],
        &["token", "username=root"],
    ] {
        let done = bob("scontrol", args);
        assert_ne!(done.code, 0, "{done:?}");
    }
    // scontrol's exit code is 0 here, as Slurm's may be; what counts is that nothing is told.
    let script = bob("scontrol", &["write", "batch_script", &id, "-"]);
    assert!(
        script.stdout.is_empty() && script.stderr.contains("denied"),
        "{script:?}"
    );
    // Cancelling by filters takes only one's own.
    bob("scancel", &["-u", &scene.ada.name]);
    bob("scancel", &["-n", "mine"]);
    bob("scancel", &["-p", "main"]);
    assert_ne!(bob("srun", &["--jobid", &id, "--overlap", "true"]).code, 0);
    assert_ne!(bob("sattach", &[&format!("{id}.batch")]).code, 0);
    let mut copy = scene.command(&scene.bob, "sbcast");
    copy.env("SLURM_JOB_ID", &id)
        .args(["/etc/hostname", "/tmp/sluice-security-sbcast"]);
    assert_ne!(
        sluice_testkit::run_with_deadline(copy, SOON).unwrap().code,
        0
    );
    assert_ne!(bob("sacctmgr", &["-i", "add", "account", "mine"]).code, 0);
    assert_ne!(
        bob(
            "sacctmgr",
            &["-i", "add", "user", &scene.bob.name, "adminlevel=admin"]
        )
        .code,
        0
    );

    assert_eq!(
        scene.cluster.job_state(id.parse().unwrap()).unwrap(),
        "RUNNING"
    );
    assert_eq!(
        job_field(&scene.cluster, id.parse().unwrap(), "Comment"),
        "ours"
    );
    let after = scene
        .cluster
        .run("scontrol", ["show", "job", "-o", &held])
        .unwrap()
        .stdout;
    assert_eq!(after, before);
    assert_eq!(
        super::super::node_field(&scene.cluster, "n1", "State"),
        "MIXED"
    );
    scene.cluster.wait_ready(READY).unwrap_err();
    scene.run(&scene.ada, "scancel", &[&id]).success().unwrap();
}

/// With PrivateData=jobs nothing tells Bob that Ada has a job.
#[test]
fn private_jobs_are_hidden() {
    let Some(scene) = Scene::new(Cluster::builder().nodes(1).conf_line("PrivateData=jobs")) else {
        return;
    };
    let id = scene.running().to_string();
    scene.cluster.wait_accounted(&id, "RUNNING", SOON).unwrap();
    let bob = |program: &str, args: &[&str]| scene.run(&scene.bob, program, args).stdout;
    for (program, args) in [
        ("squeue", &["-h"][..]),
        ("squeue", &["-h", "-u", &scene.ada.name]),
        ("squeue", &["-h", "-j", &id]),
        ("squeue", &["-h", "-s"]),
        ("sprio", &["-h"]),
        ("scontrol", &["-o", "show", "job"]),
        ("scontrol", &["-o", "show", "job", &id]),
        ("scontrol", &["-o", "show", "step"]),
        ("sacct", &["-n", "-a", "-X"]),
        ("sacct", &["-n", "-j", &id]),
    ] {
        let text = bob(program, args);
        assert!(
            !text.contains("mine") && !text.contains(&scene.ada.name),
            "{program} {args:?}: {text}"
        );
    }
    let own = scene.run(&scene.ada, "squeue", &["-h", "-o", "%j"]).stdout;
    assert_eq!(own, "mine\n");
}

/// A job runs as the one who submitted it: user, group, other groups, in the script and in steps.
#[test]
fn a_job_runs_as_its_owner_and_as_nobody_else() {
    let Some(scene) = Scene::new(Cluster::builder().nodes(1)) else {
        return;
    };
    let script = "id -u; id -g; srun sh -c 'id -u; id -g; grep CapEff /proc/self/status'";
    for user in [&scene.ada, &scene.bob] {
        let file = format!("{}.out", user.name);
        let id = scene.sbatch(user, &["-o", &file, "--wrap", script]);
        assert_eq!(scene.cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
        let (uid, gid) = (user.uid, user.gid);
        let expected = format!("{uid}\n{gid}\n{uid}\n{gid}\nCapEff:\t0000000000000000\n");
        assert_eq!(
            std::fs::read_to_string(scene.cluster.path("work").join(file)).unwrap(),
            expected
        );
    }
    // Another user can be named by root alone.
    let named = format!("--uid={}", scene.ada.name);
    let refused = scene.run(
        &scene.bob,
        "sbatch",
        &[&named, "-o", "never.out", "--wrap", "id -u"],
    );
    assert_ne!(refused.code, 0, "{refused:?}");
    let done = scene
        .cluster
        .run("sbatch", [&named, "-o", "named.out", "--wrap", "id -u"])
        .unwrap();
    if done.code == 0 {
        scene
            .cluster
            .wait_output("named.out", SOON, |text| {
                text == format!("{}\n", scene.ada.uid)
            })
            .unwrap();
    }
    // Somebody whom the machine does not know is refused, not run as somebody else.
    let stranger = nix::unistd::User {
        uid: 54_321.into(),
        gid: 54_321.into(),
        name: "54321".to_owned(),
        ..scene.bob.clone()
    };
    let refused = scene.run(&stranger, "sbatch", &["-o", "never.out", "--wrap", "id -u"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(!scene.cluster.path("work/never.out").exists());
}

/// What a user puts into the environment reaches the user's own processes only: not root's prolog and epilog, and not the step
/// daemon, which begins as root.
#[test]
fn the_environment_of_a_job_does_not_reach_root_s_processes() {
    let trace = "#!/bin/sh\n{ echo \"$SLURM_SCRIPT_CONTEXT uid=$SLURM_JOB_UID user=$SLURM_JOB_USER by=$(/usr/bin/id -u)\"; /usr/bin/env; } >> \"${0%/*}/../log/trace\"\n";
    let Some(scene) = Scene::new(Cluster::builder().nodes(1).prolog(trace).epilog(trace)) else {
        return;
    };
    let work = scene.cluster.path("work");
    // Says who loads it.
    let source = work.join("preload.c");
    let library = work.join("preload.so");
    let loaded = work.join("loaded");
    let text = format!(
        "#include <stdio.h>\n#include <unistd.h>\n__attribute__((constructor)) static void loaded(void) {{\n FILE *file = fopen(\"{}\", \"a\");\n if (file) {{ fprintf(file, \"%d\\n\", (int)geteuid()); fclose(file); }} }}\n",
        loaded.display()
    );
    std::fs::write(&source, text).unwrap();
    std::fs::write(&loaded, "").unwrap();
    std::fs::set_permissions(&loaded, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let built = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    let has_library = built.is_ok_and(|status| status.success());
    // A shell that begins with BASH_ENV or finds another `id` first would leave this file.
    let evil = work.join("evil.sh");
    std::fs::write(
        &evil,
        format!("/usr/bin/id -u >> {}\n", work.join("evil-ran").display()),
    )
    .unwrap();
    let mut command = scene.command(&scene.ada, "sbatch");
    command
        .env("LD_PRELOAD", &library)
        .env("LD_LIBRARY_PATH", &work)
        .env("LD_AUDIT", &library)
        .env("BASH_ENV", &evil)
        .env("ENV", &evil)
        .env("IFS", "/")
        .env("PERL5LIB", &work)
        .env("SLURM_JOB_UID", "0")
        .env("SLURM_JOB_USER", "root")
        .env("SLURM_SCRIPT_CONTEXT", "mine")
        .env("SLURMD_NODENAME", "../../x")
        .env("GCONV_PATH", &work)
        .args(["--export=ALL", "-o", "environment.out", "--wrap"])
        .arg("echo $SLURM_JOB_UID; srun true; echo done");
    let said = sluice_testkit::run_with_deadline(command, SOON)
        .unwrap()
        .success()
        .unwrap();
    let id: u32 = said.trim().rsplit(' ').next().unwrap().parse().unwrap();
    assert_eq!(scene.cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
    let trace = scene.cluster.path("log/trace");
    let read = || std::fs::read_to_string(&trace).unwrap_or_default();
    wait_until(SOON, "the epilog", || read().matches("by=0").count() == 2).unwrap();
    let text = read();
    for word in [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "BASH_ENV",
        "ENV=",
        "IFS=",
        "PERL5LIB",
        "GCONV_PATH",
        "../../x",
    ] {
        let found = text
            .lines()
            .find(|line| line.starts_with(word) || line.ends_with("=../../x"));
        assert!(found.is_none(), "{word} reached root's script: {found:?}");
    }
    for context in ["prolog_slurmd", "epilog_slurmd"] {
        let line = format!(
            "{context} uid={} user={} by=0",
            scene.ada.uid, scene.ada.name
        );
        assert!(text.contains(&line), "{line} in {text}");
    }
    let output = std::fs::read_to_string(work.join("environment.out")).unwrap();
    assert!(
        output.contains(&scene.ada.uid.to_string()) && output.contains("done"),
        "{output}"
    );
    if has_library {
        let by = std::fs::read_to_string(&loaded).unwrap();
        let mut by: Vec<&str> = by.lines().collect();
        by.dedup();
        assert_eq!(
            by,
            [scene.ada.uid.to_string().as_str()],
            "who loaded Ada's library"
        );
    }
    let evil = std::fs::read_to_string(work.join("evil-ran")).unwrap_or_default();
    assert!(
        !evil.lines().any(|uid| uid == "0"),
        "root read Ada's BASH_ENV"
    );
}
