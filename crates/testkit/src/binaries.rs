//! Where the built programs are, and under which names they are called.
//!
//! Cargo puts test executables into `<target>/<profile>/deps` and programs into `<target>/<profile>`; the kit looks
//! there, so that a test uses what was built from the same tree. Nothing is searched in `PATH`: an installed Slurm must
//! never be driven by mistake.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The names that users type; each is a link to the one binary `sluice-cli`.
pub const COMMANDS: &[&str] = &[
    "sbatch", "srun", "salloc", "squeue", "sinfo", "scancel", "scontrol", "sacct", "sacctmgr",
    "sprio", "sshare", "sreport", "sstat", "sdiag", "sattach", "sbcast", "strigger", "scrontab",
];

/// The packages that build the programs of a cluster.
pub const DAEMON_PACKAGES: &[&str] = &[
    "sluice-ctld",
    "sluice-agent",
    "sluice-stepd",
    "sluice-cli",
    "sluice",
];

const PROGRAMS: &[&str] = &["ctld", "agentd", "stepd", "sluice-cli", "sluice"];

/// A folder that holds the built programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinDir(PathBuf);

impl BinDir {
    /// The folder beside the running executable: `<target>/<profile>`.
    ///
    /// # Errors
    /// When a program is missing there; the message says how to build it.
    pub fn of_current_exe() -> Result<Self> {
        let exe = std::env::current_exe().context("cannot find the running executable")?;
        Self::at(profile_dir(&exe)?)
    }

    /// A given folder.
    ///
    /// # Errors
    /// When a program is missing there; the message says how to build it.
    pub fn at(dir: PathBuf) -> Result<Self> {
        let missing: Vec<&str> = PROGRAMS
            .iter()
            .copied()
            .filter(|name| !dir.join(name).is_file())
            .collect();
        if !missing.is_empty() {
            bail!(
                "{} not found in {}: build with `cargo build -p {}`, or run the tests with `cargo xtask test`",
                missing.join(", "),
                dir.display(),
                DAEMON_PACKAGES.join(" -p ")
            );
        }
        Ok(Self(dir))
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of one program: `ctld`, `agentd`, `stepd`, `sluice-cli` or `sluice`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Fills `into` with links: every command name to `sluice-cli`, every program under its own name.
    ///
    /// # Errors
    /// When the folder or a link cannot be made.
    pub fn link_commands(&self, into: &Path) -> Result<()> {
        std::fs::create_dir_all(into).with_context(|| format!("cannot make {}", into.display()))?;
        let commands = COMMANDS.iter().map(|name| (*name, "sluice-cli"));
        let programs = PROGRAMS.iter().map(|name| (*name, *name));
        for (name, program) in commands.chain(programs) {
            let link = into.join(name);
            symlink(self.program(program), &link)
                .with_context(|| format!("cannot make the link {}", link.display()))?;
        }
        Ok(())
    }
}

fn profile_dir(exe: &Path) -> Result<PathBuf> {
    let mut dir = exe.parent().context("the executable has no folder")?;
    // Test executables lie in `deps`, examples in `examples`, one level below the programs.
    if dir
        .file_name()
        .is_some_and(|name| name == "deps" || name == "examples")
    {
        dir = dir
            .parent()
            .context("the executable's folder has no parent")?;
    }
    Ok(dir.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this, tests would look for the daemons in `deps`, where they are not.
    #[test]
    fn programs_lie_one_level_above_test_executables() {
        let cases = [
            ("/t/debug/deps/e2e-0a1b", "/t/debug"),
            ("/t/release/examples/load", "/t/release"),
            ("/t/debug/xtask", "/t/debug"),
        ];
        for (exe, dir) in cases {
            assert_eq!(profile_dir(Path::new(exe)).unwrap(), Path::new(dir));
        }
    }

    /// Without this, a missing daemon would show as an obscure spawn error.
    #[test]
    fn a_missing_program_is_named_with_the_way_to_build_it() {
        let dir = tempfile::tempdir().unwrap();
        let error = BinDir::at(dir.path().to_path_buf())
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("ctld, agentd, stepd, sluice-cli, sluice not found in "));
        assert!(error.contains("cargo build -p sluice-ctld -p sluice-agent"));
    }
}
