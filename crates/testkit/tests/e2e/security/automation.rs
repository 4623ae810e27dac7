//! What the controller and the agents run by themselves in a user's name: programs of triggers, crontabs; and what may be taken
//! into a step from outside.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::{READY, SOON, Scene, assert_refused};
use sluice_testkit::{Cluster, wait_until};

/// A program of Ada's that tells who runs it and with what.
fn teller(scene: &Scene, name: &str) -> (PathBuf, PathBuf) {
    let told = scene.cluster.path("work").join(format!("{name}.told"));
    let program = scene.cluster.path("work").join(format!("{name}.sh"));
    let text = format!(
        "#!/bin/sh\n{{ echo \"uid=$(id -u) gid=$(id -g) groups=$(id -G) in=$(pwd)\"; \
         grep CapEff /proc/self/status; ls /proc/self/fd | tr '\\n' ' '; echo; /usr/bin/env; echo end; }} > {0}.new\nmv {0}.new {0}\n",
        told.display()
    );
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    (program, told)
}

/// A trigger's program is its user's: identity, groups, environment, open files. Nobody sets one for another's job or takes
/// another's away.
#[test]
fn programs_of_triggers_run_as_their_user_with_nothing_of_the_daemon() {
    let builder = Cluster::builder()
        .nodes(1)
        .conf_line("SlurmctldParameters=allow_user_triggers");
    let Some(scene) = Scene::new(builder) else {
        return;
    };
    let id = scene.running().to_string();
    let job = format!("--jobid={id}");
    let (program, told) = teller(&scene, "ended");
    let option = format!("--program={}", program.display());
    let set = ["--set", &job, "--fini", &option];
    assert_refused(&scene.run(&scene.bob, "strigger", &set), "denied");
    scene.run(&scene.ada, "strigger", &set).success().unwrap();
    for args in [
        &["--clear", "--id=1"][..],
        &["--clear", &job],
        &["--clear", &format!("--user={}", scene.ada.name)],
    ] {
        assert_ne!(scene.run(&scene.bob, "strigger", args).code, 0, "{args:?}");
    }
    scene.run(&scene.ada, "scancel", &[&id]).success().unwrap();
    wait_until(SOON, "the program", || told.exists()).unwrap();
    let text = std::fs::read_to_string(&told).unwrap();
    let (uid, gid) = (scene.ada.uid, scene.ada.gid);
    let first = text.lines().next().unwrap();
    assert_eq!(
        first,
        format!("uid={uid} gid={gid} groups={gid} in=/"),
        "{text}"
    );
    assert!(text.contains("CapEff:\t0000000000000000\n"), "{text}");
    // Input, output, error, the folder that `ls` reads, the script; and what was there before the daemon.
    let open = text.lines().nth(2).unwrap();
    for number in open.split_whitespace() {
        let inherited = std::path::Path::new("/proc/self/fd").join(number);
        let usual = ["0", "1", "2", "3", "10"].contains(&number);
        assert!(usual || inherited.exists(), "open files: {text}");
    }
    let known = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "SLURM_CONF",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
    ];
    for name in text
        .lines()
        .skip(3)
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
    {
        assert!(known.contains(&name), "{name} in {text}");
    }
}

/// Where the configuration does not allow it, only root and SlurmUser set triggers.
#[test]
fn users_set_no_triggers_unless_they_may() {
    let Some(scene) = Scene::new(Cluster::builder().nodes(1)) else {
        return;
    };
    let id = scene.running().to_string();
    for target in [
        &["--jobid", id.as_str(), "--fini"][..],
        &["--node", "--down"],
    ] {
        let args = [&["--set", "--program=/bin/true"], target].concat();
        assert_refused(&scene.run(&scene.ada, "strigger", &args), "denied");
    }
    scene.run(&scene.ada, "scancel", &[&id]).success().unwrap();
}

/// A crontab is its user's: nobody else reads, replaces or removes it, and its jobs run as that user.
#[test]
fn crontabs_are_their_user_s_alone() {
    let builder = Cluster::builder()
        .nodes(1)
        .conf_line("ScronParameters=enable");
    let Some(scene) = Scene::new(builder) else {
        return;
    };
    let (program, told) = teller(&scene, "cron");
    let file = scene.cluster.path("work/crontab");
    let text = format!(
        "MINE=ada\n#SCRON -o /dev/null -J cron\n* * * * * {}\n",
        program.display()
    );
    std::fs::write(&file, &text).unwrap();
    let path = file.display().to_string();
    scene
        .run(&scene.ada, "scrontab", &[&path])
        .success()
        .unwrap();
    let ada = ["-u", scene.ada.name.as_str()];
    for args in [&["-l"][..], &["-r"], &[&path]] {
        let args = [&ada[..], args].concat();
        let done = scene.run(&scene.bob, "scrontab", &args);
        assert_ne!(done.code, 0, "{done:?}");
        assert!(!done.stdout.contains("MINE"), "{done:?}");
    }
    assert_ne!(
        scene
            .run(&scene.bob, "scrontab", &["-u", "root", &path])
            .code,
        0
    );
    assert_eq!(
        scene.run(&scene.ada, "scrontab", &["-l"]).stdout,
        text,
        "Ada's crontab after Bob's attempts"
    );
    let id = scene
        .cluster
        .run("squeue", ["-h", "-n", "cron", "-o", "%i %u"])
        .unwrap()
        .stdout;
    let (id, owner) = id.trim().split_once(' ').unwrap();
    assert_eq!(owner, scene.ada.name);
    for args in [
        &["update", &format!("JobId={id}"), "Comment=theirs"][..],
        &["hold", id],
    ] {
        assert_ne!(scene.run(&scene.bob, "scontrol", args).code, 0);
    }
    assert_ne!(scene.run(&scene.bob, "scancel", &["--cron", id]).code, 0);
    // A minute at most until its time comes.
    wait_until(READY * 3, "the entry's program", || told.exists()).unwrap();
    let text = std::fs::read_to_string(&told).unwrap();
    let (uid, gid) = (scene.ada.uid, scene.ada.gid);
    assert!(
        text.starts_with(&format!("uid={uid} gid={gid} groups=")) && text.contains("\nMINE=ada\n"),
        "{text}"
    );
    assert!(text.contains("CapEff:\t0000000000000000\n"), "{text}");
}

/// Only root may hand a process to a step, only to the one for that, and none that holds the step itself.
#[test]
fn only_root_hands_processes_to_a_step() {
    let builder = Cluster::builder()
        .nodes(1)
        .conf_line("PrologFlags=Alloc,Contain");
    let Some(scene) = Scene::new(builder) else {
        return;
    };
    let id = scene.running();
    let folders: Vec<PathBuf> = glob(&scene.cluster.path("spool"), &format!("job{id}"));
    let find = |name: &str| {
        folders
            .iter()
            .map(|folder| folder.join(name))
            .find(|path| path.is_dir())
            .unwrap_or_else(|| panic!("no {name} in {folders:?}"))
    };
    let (batch, foreign) = (find("step_batch"), find("step_extern"));
    let stepd = scene.cluster.bin_program("stepd");
    // Where every user can execute it.
    let program = scene.commands.join("adopter");
    std::fs::copy(stepd.canonicalize().unwrap(), &program).unwrap();
    let mut stranger = std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .unwrap();
    let pid = stranger.id().to_string();
    let adopt = |folder: &PathBuf, pid: &str| {
        let folder = folder.display().to_string();
        vec![
            "--dir".to_owned(),
            folder,
            "--adopt".to_owned(),
            pid.to_owned(),
        ]
    };
    for user in [&scene.ada, &scene.bob] {
        for folder in [&batch, &foreign] {
            let args = adopt(folder, &pid);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            assert_ne!(scene.run(user, "adopter", &args).code, 0, "{}", user.name);
        }
    }
    let as_root = |folder: &PathBuf, pid: &str| {
        let mut command = scene.cluster.program(&program);
        command.args(adopt(folder, pid));
        sluice_testkit::run_with_deadline(command, SOON).unwrap()
    };
    assert_refused(&as_root(&batch, &pid), "extern");
    for wrong in ["0", "1", "x", "4194399"] {
        assert_ne!(as_root(&foreign, wrong).code, 0, "{wrong}");
    }
    let done = as_root(&foreign, &pid);
    assert_eq!(done.code, 0, "{done:?}");
    scene
        .run(&scene.ada, "scancel", &[&id.to_string()])
        .success()
        .unwrap();
    wait_until(SOON, "the adopted process to end with the job", || {
        stranger.try_wait().unwrap().is_some()
    })
    .unwrap();
    assert_eq!(scene.cluster.wait_job_end(id, SOON).unwrap(), "CANCELLED");
}

/// Folders of that name below `dir`.
fn glob(dir: &std::path::Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            if path.file_name().is_some_and(|own| own == name) {
                found.push(path);
            } else {
                found.extend(glob(&path, name));
            }
        }
    }
    found
}
