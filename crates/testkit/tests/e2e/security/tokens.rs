//! The way over the network: only a token that this cluster's key has signed, in time, and only as the one it is for.

use std::path::PathBuf;
use std::time::Duration;

use super::{SOON, Scene, assert_refused};
use sluice_testkit::{Cluster, Finished, run_with_deadline};

/// A configuration whose readers find no local socket and have to go over TCP.
fn without_sockets(cluster: &Cluster) -> PathBuf {
    let text: String = std::fs::read_to_string(cluster.conf())
        .unwrap()
        .lines()
        .map(|line| match line.split_once('=') {
            Some(("StateSaveLocation" | "SlurmctldPidFile" | "SlurmdSpoolDir", _)) => {
                let (key, _) = line.split_once('=').unwrap();
                format!("{key}=/nonexistent/{key}\n")
            }
            _ => format!("{line}\n"),
        })
        .collect();
    let path = cluster.path("etc/remote.conf");
    std::fs::write(&path, text).unwrap();
    path
}

struct Remote<'a> {
    scene: &'a Scene,
    conf: PathBuf,
}

impl Remote<'_> {
    fn run(&self, token: Option<&str>, program: &str, args: &[&str]) -> Finished {
        let mut command = self.scene.command(&self.scene.bob, program);
        command.env("SLURM_CONF", &self.conf).args(args);
        if let Some(token) = token {
            command.env("SLURM_JWT", token);
        }
        run_with_deadline(command, Duration::from_secs(60)).unwrap()
    }
}

fn token_of(cluster: &Cluster, args: &[&str]) -> String {
    let said = cluster
        .run("scontrol", [&["token"], args].concat())
        .and_then(Finished::success)
        .unwrap();
    said.trim().strip_prefix("SLURM_JWT=").unwrap().to_owned()
}

/// See the head of this file.
#[test]
fn only_a_valid_token_of_this_cluster_opens_the_network_port() {
    let Some(scene) = Scene::new(Cluster::builder().nodes(1)) else {
        return;
    };
    let remote = Remote {
        conf: without_sockets(&scene.cluster),
        scene: &scene,
    };
    let id = scene.running().to_string();
    let mut other = Cluster::builder()
        .nodes(1)
        .cluster_name("other")
        .write()
        .unwrap();
    other.start_ctld().unwrap();
    sluice_testkit::wait_until(SOON, "the other ctld", || {
        other
            .run("scontrol", ["ping"])
            .is_ok_and(|done| done.code == 0)
    })
    .unwrap();
    let bob = format!("username={}", scene.bob.name);
    let good = token_of(&scene.cluster, &[&bob]);
    assert_eq!(
        remote
            .run(Some(&good), "squeue", &["-h", "-o", "%j"])
            .stdout,
        "mine\n"
    );

    let foreign = token_of(&other, &[&bob]);
    let brief = token_of(&scene.cluster, &[&bob, "lifespan=1"]);
    let parts: Vec<&str> = good.split('.').collect();
    let flipped = |text: &str| {
        let at = text.len() / 2;
        let new = if text.as_bytes()[at] == b'A' {
            "B"
        } else {
            "A"
        };
        format!("{}{new}{}", &text[..at], &text[at + 1..])
    };
    let forged = [
        format!("{}.{}.{}", parts[0], parts[1], flipped(parts[2])),
        format!("{}.{}.{}", parts[0], flipped(parts[1]), parts[2]),
        format!("{}.{}.", parts[0], parts[1]),
        // {"typ":"JWT","alg":"none"}, with and without a signature.
        format!("eyJ0eXAiOiJKV1QiLCJhbGciOiJub25lIn0.{}.", parts[1]),
        format!(
            "eyJ0eXAiOiJKV1QiLCJhbGciOiJub25lIn0.{}.{}",
            parts[1], parts[2]
        ),
        "x".to_owned(),
        "x".repeat(20_000),
    ];
    std::thread::sleep(Duration::from_secs(2));
    assert_refused(&remote.run(Some(&brief), "squeue", &[]), "expired");
    assert_refused(&remote.run(Some(&foreign), "squeue", &[]), "signature");
    for token in forged
        .iter()
        .map(|token| Some(token.as_str()))
        .chain([None])
    {
        for (program, args) in [
            ("squeue", &[][..]),
            ("scancel", &[id.as_str()]),
            ("sbatch", &["-o", "never.out", "--wrap", "id"]),
            ("scontrol", &["show", "config"]),
            ("sacct", &["-n"]),
        ] {
            let done = remote.run(token, program, args);
            assert_ne!(done.code, 0, "{token:?}: {done:?}");
            assert!(
                !done.stdout.contains("mine") && !done.stdout.contains("ClusterName"),
                "{done:?}"
            );
        }
    }
    // A token is for one user.
    assert_refused(&remote.run(Some(&good), "scancel", &[&id]), "denied");
    assert_ne!(
        remote
            .run(Some(&good), "scontrol", &["token", "username=root"])
            .code,
        0
    );
    let own = remote.run(Some(&good), "sbatch", &["-o", "own.out", "--wrap", "id -u"]);
    assert_eq!(own.code, 0, "{own:?}");
    scene
        .cluster
        .wait_output("own.out", SOON, |text| {
            text == format!("{}\n", scene.bob.uid)
        })
        .unwrap();
    assert_eq!(
        scene.cluster.job_state(id.parse().unwrap()).unwrap(),
        "RUNNING"
    );
    assert!(!scene.cluster.path("work/never.out").exists());
    // An agent that has no key gets nowhere.
    let agent = scene.cluster.bin_program("agentd");
    let mut command = scene.cluster.program(&agent);
    std::os::unix::process::CommandExt::uid(&mut command, scene.bob.uid.as_raw());
    command
        .args(["-D", "-N", "n1", "-f"])
        .arg(scene.cluster.conf());
    match run_with_deadline(command, Duration::from_secs(5)) {
        Ok(done) => assert_ne!(done.code, 0, "{done:?}"),
        // It may wait for ever for a key that it cannot read; it must not be the node.
        Err(error) => assert!(
            !error.to_string().contains("connected to the controller"),
            "{error}"
        ),
    }
    assert_eq!(
        scene.cluster.job_state(id.parse().unwrap()).unwrap(),
        "RUNNING"
    );
}
