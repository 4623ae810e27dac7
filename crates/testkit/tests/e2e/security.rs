//! Two ordinary users, and what one of them may not do: to the other, to root, and to the cluster.
//!
//! Run by root, because only root's daemons start jobs of several users; for others these tests say so and pass, except in
//! continuous integration, where they must run. The users are two that every Debian has.

mod automation;
mod files;
mod jobs;
mod remote;
mod roles;
mod tokens;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nix::unistd::User;
use sluice_testkit::{Cluster, ClusterBuilder, Finished, run_with_deadline};

use super::{READY, SOON, job_field, started};

/// A cluster and two users.
struct Scene {
    cluster: Cluster,
    /// The one who has something.
    ada: User,
    /// The one who wants it.
    bob: User,
    /// The commands, where every user can execute them.
    commands: PathBuf,
}

fn is_root() -> bool {
    let root = nix::unistd::Uid::effective().is_root();
    if !root {
        assert!(
            std::env::var_os("CI").is_none(),
            "these tests must run as root in continuous integration"
        );
        eprintln!("skipped: only root can start jobs of several users");
    }
    root
}

impl Scene {
    /// `None` where it cannot be played.
    fn new(builder: ClusterBuilder) -> Option<Self> {
        if !is_root() {
            return None;
        }
        let user = |name: &str| {
            User::from_name(name)
                .unwrap()
                .unwrap_or_else(|| panic!("this machine has no user {name}"))
        };
        let cluster = started(builder);
        // The folder where the programs were built may be closed to others.
        let commands = cluster.path("commands");
        std::fs::create_dir(&commands).unwrap();
        let built = cluster.bin().join("sbatch").canonicalize().unwrap();
        std::fs::copy(&built, commands.join("sluice-cli")).unwrap();
        for entry in std::fs::read_dir(cluster.bin()).unwrap().flatten() {
            let name = commands.join(entry.file_name());
            if !name.exists() {
                std::os::unix::fs::symlink("sluice-cli", name).unwrap();
            }
        }
        Some(Self {
            cluster,
            ada: user("games"),
            bob: user("nobody"),
            commands,
        })
    }

    /// A program as a user, in the folder where everybody may write.
    fn command(&self, user: &User, program: &str) -> Command {
        let path = self.commands.join(program);
        let path = if path.exists() {
            path
        } else {
            PathBuf::from(program)
        };
        let mut command = self.cluster.program(&path);
        command
            .env("PATH", format!("{}:/usr/bin:/bin", self.commands.display()))
            .env("USER", &user.name)
            .uid(user.uid.as_raw())
            .gid(user.gid.as_raw());
        command
    }

    fn run(&self, user: &User, program: &str, args: &[&str]) -> Finished {
        let mut command = self.command(user, program);
        command.args(args);
        run_with_deadline(command, Duration::from_secs(60)).unwrap()
    }

    fn sbatch(&self, user: &User, args: &[&str]) -> u32 {
        let said = self.run(user, "sbatch", args).success().unwrap();
        said.trim().rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// A job of Ada's that runs until the end of the test.
    fn running(&self) -> u32 {
        let id = self.sbatch(
            &self.ada,
            &[
                "-J",
                "mine",
                "--comment=ours",
                "-o",
                "mine.out",
                "--wrap",
                "echo up; sleep 1000",
            ],
        );
        self.cluster
            .wait_output("mine.out", SOON, |text| text == "up\n")
            .unwrap();
        id
    }
}

/// A refusal: exit code not 0 and these words.
fn assert_refused(done: &Finished, words: &str) {
    assert_ne!(done.code, 0, "{done:?}");
    let said = format!("{}{}", done.stdout, done.stderr).to_lowercase();
    assert!(
        said.contains(&words.to_lowercase()),
        "{words:?} in {done:?}"
    );
}
