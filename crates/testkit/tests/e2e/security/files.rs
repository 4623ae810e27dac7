//! Files: what lies in the spool and state folders, and where a job's output may go.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::{SOON, Scene, job_field};
use sluice_testkit::Cluster;

fn all_files(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            all_files(&path, found);
        }
        found.push(path);
    }
}

/// Scripts, environments, the journal, the key and the database are closed to others.
#[test]
fn nobody_reads_another_user_s_script_or_the_cluster_s_state() {
    let Some(scene) = Scene::new(Cluster::builder().nodes(1)) else {
        return;
    };
    let id = scene.running();
    let (mut spool, mut state) = (Vec::new(), Vec::new());
    all_files(&scene.cluster.path("spool"), &mut spool);
    all_files(&scene.cluster.path("state"), &mut state);
    assert!(
        spool
            .iter()
            .any(|path| path.to_string_lossy().contains(&format!("job{id}/"))),
        "{spool:?}"
    );
    assert!(
        state
            .iter()
            .any(|path| path.extension().is_some_and(|end| end == "seg")),
        "{state:?}"
    );
    let is_public = |path: &Path| {
        // Something that has gone meanwhile is no secret any more.
        let Ok(meta) = path.symlink_metadata() else {
            return true;
        };
        meta.is_dir()
            || meta.file_type().is_symlink()
            // What everybody needs: the socket that gives tokens, the fingerprint of the
            // controller's key; and a random number that names the journal.
            || path.file_name().is_some_and(|name| name == "auth.sock" || name == "ctld.sock")
            || path.file_name().is_some_and(|name| name == "ctld.pub" || name == "journal.id")
    };
    for path in spool.iter().chain(&state).filter(|path| !is_public(path)) {
        let text = path.display().to_string();
        let done = scene.run(&scene.bob, "/bin/cat", &[&text]);
        assert_ne!(
            done.code,
            0,
            "Bob reads {text}, mode {:o}",
            path.symlink_metadata().unwrap().mode()
        );
    }
    // Step sockets: a connection as somebody else is refused by the file's mode or the daemon.
    let script = spool
        .iter()
        .find(|path| path.file_name().is_some_and(|name| name == "slurm_script"));
    if let Some(script) = script {
        let done = scene.run(&scene.ada, "/bin/cat", &[&script.display().to_string()]);
        assert_eq!(done.code, 0, "Ada's own script: {done:?}");
    }
    // Output is Ada's, with her umask, and Bob cannot change it.
    let output = scene.cluster.path("work/mine.out");
    assert_eq!(output.metadata().unwrap().uid(), scene.ada.uid.as_raw());
    let done = scene.run(
        &scene.bob,
        "/bin/sh",
        &["-c", &format!("echo x >> {}", output.display())],
    );
    assert_ne!(done.code, 0);
}

/// The output file is opened by the user: links and paths lead nowhere that the user could not write anyway.
#[test]
fn output_goes_nowhere_that_the_user_could_not_write() {
    let Some(scene) = Scene::new(Cluster::builder().nodes(1)) else {
        return;
    };
    let work = scene.cluster.path("work");
    let closed = |name: &str, uid: u32| {
        let path = scene.cluster.path("log").join(name);
        std::fs::write(&path, "before\n").unwrap();
        std::os::unix::fs::chown(&path, Some(uid), Some(uid)).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        path
    };
    let root_s = closed("root-s", 0);
    let bob_s = closed("bob-s", scene.bob.uid.as_raw());
    for (link, target) in [("to-root", &root_s), ("to-bob", &bob_s)] {
        std::os::unix::fs::symlink(target, work.join(link)).unwrap();
        // As a user would have made it.
        std::os::unix::fs::lchown(work.join(link), Some(scene.ada.uid.as_raw()), None).unwrap();
    }
    // A hard link, where the kernel lets a user make one.
    let hard = work.join("hard");
    scene.run(
        &scene.ada,
        "/bin/ln",
        &[&root_s.display().to_string(), &hard.display().to_string()],
    );
    std::fs::create_dir(scene.cluster.path("closed")).unwrap();
    if hard.exists() {
        assert_eq!(
            hard.metadata().unwrap().ino(),
            root_s.metadata().unwrap().ino()
        );
        let id = scene.sbatch(&scene.ada, &["-o", "hard", "--wrap", "echo written"]);
        assert_eq!(scene.cluster.wait_job_end(id, SOON).unwrap(), "FAILED");
    }
    let outputs = [
        "to-root",
        "to-bob",
        "/etc/sluice-security-%j",
        "../closed/%j",
        "../../../../../../etc/sluice-security-%j",
        "../state/%x",
        "%x/../../closed/%j",
        "../closed/%u-%N-%A",
    ];
    for output in outputs {
        for mode in ["append", "truncate"] {
            let open = format!("--open-mode={mode}");
            let id = scene.sbatch(
                &scene.ada,
                &["-J", "evil", "-o", output, &open, "--wrap", "echo written"],
            );
            let state = scene.cluster.wait_job_end(id, SOON).unwrap();
            assert_eq!(
                state,
                "FAILED",
                "-o {output}: {}",
                job_field(&scene.cluster, id, "StdOut")
            );
        }
    }
    // A name is not a path to somewhere else by itself.
    for name in ["../closed/name", "/etc/sluice-security-name", "a\nb", "a/b"] {
        let done = scene.run(
            &scene.ada,
            "sbatch",
            &["-J", name, "-o", "%x.named", "--wrap", "echo written"],
        );
        if done.code == 0 {
            let id = done.stdout.trim().rsplit(' ').next().unwrap().to_owned();
            sluice_testkit::wait_until(SOON, "the job to end", || {
                let left = scene
                    .cluster
                    .run("squeue", ["-h", "-j", &id, "-o", "%T"])
                    .unwrap();
                left.stdout.is_empty()
            })
            .unwrap();
        }
    }
    for (path, owner) in [(&root_s, "root"), (&bob_s, "Bob")] {
        assert_eq!(
            std::fs::read_to_string(path).unwrap(),
            "before\n",
            "{owner}'s file"
        );
    }
    let closed: Vec<_> = std::fs::read_dir(scene.cluster.path("closed"))
        .unwrap()
        .collect();
    assert!(closed.is_empty(), "{closed:?}");
    let in_etc: Vec<_> = std::fs::read_dir("/etc")
        .unwrap()
        .flatten()
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with("sluice-security")
        })
        .collect();
    assert!(in_etc.is_empty(), "{in_etc:?}");
    let mut state = Vec::new();
    all_files(&scene.cluster.path("state"), &mut state);
    assert!(
        !state
            .iter()
            .any(|path| path.file_name().is_some_and(|name| name == "evil"))
    );
}
