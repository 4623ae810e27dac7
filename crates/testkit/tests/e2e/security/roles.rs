//! Rights that accounting gives: an operator may act on everybody's jobs, an administrator on the cluster as well; neither of them
//! may be somebody else, and a user may do none of it.

use super::{SOON, Scene, assert_refused};
use sluice_testkit::{Cluster, wait_until};

fn grant(scene: &Scene, level: &str) {
    let user = format!("name={}", scene.bob.name);
    let set = format!("adminlevel={level}");
    scene
        .cluster
        .run(
            "sacctmgr",
            ["-i", "modify", "user", "where", &user, "set", &set],
        )
        .and_then(sluice_testkit::Finished::success)
        .unwrap();
}

/// What would make Bob somebody else, whatever his role.
fn assert_stays_himself(scene: &Scene, id: &str) {
    let bob = |program: &str, args: &[&str]| scene.run(&scene.bob, program, args);
    for name in ["root", scene.ada.name.as_str()] {
        let as_other = format!("--uid={name}");
        assert_ne!(
            bob("sbatch", &[&as_other, "-o", "never.out", "--wrap", "id"]).code,
            0,
            "{name}"
        );
        assert_ne!(
            bob("scontrol", &["token", &format!("username={name}")]).code,
            0,
            "{name}"
        );
    }
    let crontab = scene.cluster.path("work/theirs");
    std::fs::write(&crontab, "* * * * * id > never.out\n").unwrap();
    for name in ["root", scene.ada.name.as_str()] {
        let path = crontab.display().to_string();
        assert_ne!(
            bob("scrontab", &["-u", name, &path]).code,
            0,
            "crontab of {name}"
        );
    }
    // A step in another's job would run as that user; so would what is typed into one.
    assert_ne!(bob("srun", &["--jobid", id, "--overlap", "id"]).code, 0);
    assert_ne!(bob("sattach", &[&format!("{id}.batch")]).code, 0);
    assert!(!scene.cluster.path("work/never.out").exists());
}

/// See the head of this file.
#[test]
fn no_role_lets_a_user_be_somebody_else() {
    let builder = Cluster::builder()
        .nodes(1)
        .conf_line("ScronParameters=enable")
        .conf_line("RebootProgram=/bin/false");
    let Some(scene) = Scene::new(builder) else {
        return;
    };
    let root = |program: &str, args: &[&str]| {
        scene
            .cluster
            .run(program, args)
            .and_then(sluice_testkit::Finished::success)
            .unwrap()
    };
    root("sacctmgr", &["-i", "add", "account", "club"]);
    root(
        "sacctmgr",
        &["-i", "add", "user", &scene.bob.name, "account=club"],
    );
    let id = scene.running().to_string();
    let bob = |program: &str, args: &[&str]| scene.run(&scene.bob, program, args);
    let me = format!("name={}", scene.bob.name);

    // A user.
    assert_stays_himself(&scene, &id);
    for args in [
        &["create", "PartitionName=own", "Nodes=n1"][..],
        &["delete", "PartitionName=main"],
        &["update", "PartitionName=main", "AllowAccounts=club"],
        &["create", "NodeName=n9", "State=CLOUD"],
        &["delete", "NodeName=n1"],
        &["reboot", "n1"],
        &["cancel_reboot", "n1"],
        &["top", &id],
        &["update", &format!("StepId={id}.batch"), "TimeLimit=1"],
        &["setdebugflags", "+gang"],
    ] {
        let done = bob("scontrol", args);
        assert_ne!(done.code, 0, "{done:?}");
    }
    for args in [
        &["modify", "user", "where", &me, "set", "adminlevel=admin"][..],
        &[
            "modify",
            "account",
            "where",
            "name=club",
            "set",
            "maxjobs=9",
        ],
        &[
            "add",
            "coordinator",
            "account=club",
            &format!("names={}", scene.bob.name),
        ],
        &["add", "qos", "mine"],
        &["add", "cluster", "mine"],
        &["modify", "qos", "where", "name=normal", "set", "priority=9"],
        &["delete", "user", &me],
        &["delete", "account", "name=club"],
        &["delete", "cluster", "cluster"],
    ] {
        let done = bob("sacctmgr", &[&["-i"], args].concat());
        assert_ne!(done.code, 0, "{done:?}");
    }
    let users = root("sacctmgr", &["-nP", "show", "user", "format=user,admin"]);
    assert!(
        users.contains(&format!("{}|None", scene.bob.name)),
        "{users}"
    );
    let own = scene
        .sbatch(&scene.bob, &["-o", "/dev/null", "--wrap", "sleep 1000"])
        .to_string();
    // What Bob may not write he cannot have copied either.
    let mut copy = scene.command(&scene.bob, "sbcast");
    copy.env("SLURM_JOB_ID", &own)
        .args(["-f", "/etc/hostname", "/etc/sluice-security-sbcast"]);
    wait_until(SOON, "Bob's job to run", || {
        scene
            .cluster
            .job_state(own.parse().unwrap())
            .is_ok_and(|state| state == "RUNNING")
    })
    .unwrap();
    let done = sluice_testkit::run_with_deadline(copy, SOON).unwrap();
    assert_ne!(done.code, 0, "{done:?}");
    assert!(!std::path::Path::new("/etc/sluice-security-sbcast").exists());
    bob("scancel", &[&own]).success().unwrap();

    // An operator: everybody's jobs, not the cluster.
    grant(&scene, "operator");
    assert_stays_himself(&scene, &id);
    for args in [
        &["create", "PartitionName=own", "Nodes=n1"][..],
        &["delete", "NodeName=n1"],
        &["reboot", "n1"],
        &["shutdown"],
    ] {
        let done = bob("scontrol", args);
        assert_ne!(done.code, 0, "{done:?}");
    }
    for level in ["admin", "operator"] {
        let set = format!("adminlevel={level}");
        let done = bob(
            "sacctmgr",
            &["-i", "modify", "user", "where", "name=games", "set", &set],
        );
        assert_ne!(done.code, 0, "{done:?}");
    }
    bob(
        "scontrol",
        &["update", &format!("JobId={id}"), "Comment=seen"],
    )
    .success()
    .unwrap();

    // An administrator: the cluster too.
    grant(&scene, "admin");
    assert_stays_himself(&scene, &id);
    bob("scontrol", &["create", "PartitionName=own", "Nodes=n1"])
        .success()
        .unwrap();
    bob("scancel", &[&id]).success().unwrap();
    grant(&scene, "none");
    assert_refused(
        &bob("scontrol", &["delete", "PartitionName=own"]),
        "invalid user id",
    );
}

/// A coordinator has an operator's rights over the jobs of the account and of those below it, over no others, and only as long as
/// he is one. He is nobody else either.
#[test]
fn a_coordinator_rules_over_the_jobs_of_the_account() {
    let builder = Cluster::builder()
        .nodes(1)
        .conf_line("PrivateData=jobs")
        .conf_line("ScronParameters=enable")
        .conf_line("RebootProgram=/bin/false");
    let Some(scene) = Scene::new(builder) else {
        return;
    };
    let root = |program: &str, args: &[&str]| {
        scene
            .cluster
            .run(program, args)
            .and_then(sluice_testkit::Finished::success)
            .unwrap()
    };
    root("sacctmgr", &["-i", "add", "account", "physics"]);
    root(
        "sacctmgr",
        &["-i", "add", "account", "optics", "parent=physics"],
    );
    root("sacctmgr", &["-i", "add", "account", "club"]);
    root(
        "sacctmgr",
        &["-i", "add", "user", &scene.ada.name, "account=optics,club"],
    );
    root(
        "sacctmgr",
        &["-i", "add", "user", &scene.bob.name, "account=club"],
    );
    let bob = |program: &str, args: &[&str]| scene.run(&scene.bob, program, args);
    let held = |account: &str| {
        scene
            .sbatch(
                &scene.ada,
                &["-H", "-A", account, "-o", "/dev/null", "--wrap", "true"],
            )
            .to_string()
    };
    let (ours, theirs) = (held("optics"), held("club"));
    assert_refused(&bob("scancel", &[&ours]), "denied");
    let names = format!("names={}", scene.bob.name);
    root(
        "sacctmgr",
        &["-i", "add", "coordinator", "account=physics", &names],
    );
    // He sees the job although jobs are private, and acts on it as an operator does.
    let seen = bob("squeue", &["-h", "-o", "%A"]).success().unwrap();
    assert_eq!(seen.trim(), ours);
    let job = format!("JobId={ours}");
    for args in [
        ["update", &job, "Nice=-5"],
        ["update", &job, "TimeLimit=10"],
        ["write", "batch_script", &ours],
    ] {
        bob("scontrol", &args).success().unwrap();
    }
    for verb in ["hold", "release"] {
        bob("scontrol", &[verb, &ours]).success().unwrap();
    }
    assert_refused(
        &bob("scontrol", &["update", &job, "AdminComment=x"]),
        "denied",
    );
    for args in [
        &["scontrol", "hold", &theirs][..],
        &["scontrol", "update", &format!("JobId={theirs}"), "Nice=5"],
        &["scancel", &theirs],
    ] {
        let done = bob(args[0], &args[1..]);
        assert_ne!(done.code, 0, "{done:?}");
    }
    let running = scene.sbatch(
        &scene.ada,
        &["-A", "optics", "-o", "/dev/null", "--wrap", "sleep 1000"],
    );
    scene
        .cluster
        .wait_job_state(running, "RUNNING", SOON)
        .unwrap();
    let id = running.to_string();
    assert_stays_himself(&scene, &id);
    for verb in ["suspend", "resume", "requeue"] {
        bob("scontrol", &[verb, &id]).success().unwrap();
    }
    bob("scancel", &[&id]).success().unwrap();
    root(
        "sacctmgr",
        &["-i", "delete", "coordinator", "account=physics", &names],
    );
    let last = held("optics");
    assert_refused(&bob("scancel", &[&last]), "denied");
}
