//! `cargo xtask install --prefix DIR`: the layout of an installed Slurm.
//!
//! `bin/` has the commands (links to one binary in `libexec/sluice/`) and `sluice`; `sbin/` the daemons, with the names
//! slurmctld, slurmd and slurmstepd as links; `etc/` is where slurm.conf goes; `share/` has the sample configuration, the
//! systemd units, licence and change log, and `share/man/man1`, `share/bash-completion`, `share/zsh` and `share/fish` what the
//! commands' flag tables say about each. Links are relative, so the tree can be moved. What is there already is
//! replaced, file by file, and nothing else below the prefix is touched; an existing `etc/slurm.conf` is never written.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use sluice_testkit::{BinDir, COMMANDS};

use crate::WrongCall;
use crate::cargo::{build_programs, root};

/// Links beside the daemons: Slurm's names for them.
const DAEMON_LINKS: &[(&str, &str)] = &[
    ("slurmctld", "ctld"),
    ("slurmd", "agentd"),
    ("slurmstepd", "stepd"),
];

/// Builds, and lays the programs out below a prefix.
pub fn run(args: &[String]) -> Result<()> {
    let mut prefix = None;
    let mut profile = "release".to_owned();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let mut value = |name: &str| {
            words
                .next()
                .cloned()
                .ok_or_else(|| WrongCall(format!("{name} needs a value")))
        };
        match word.as_str() {
            "--prefix" => prefix = Some(PathBuf::from(value("--prefix")?)),
            "--profile" => profile = value("--profile")?,
            other => match other.strip_prefix("--prefix=") {
                Some(dir) => prefix = Some(PathBuf::from(dir)),
                None => {
                    return Err(WrongCall(format!("install does not know \"{other}\"")).into());
                }
            },
        }
    }
    let prefix = prefix.ok_or_else(|| WrongCall("install needs --prefix DIR".to_owned()))?;
    let bin = build_programs(&profile)?;
    lay_out(&bin, &root(), &prefix)?;
    write_manuals(&prefix)?;
    println!(
        "Installed below {}. Next: write {} (a sample is in {}), then start {} on the head node and {} on each compute node.",
        prefix.display(),
        prefix.join("etc/slurm.conf").display(),
        prefix.join("share/sluice/slurm.conf.sample").display(),
        prefix.join("sbin/ctld").display(),
        prefix.join("sbin/agentd").display(),
    );
    Ok(())
}

fn lay_out(bin: &BinDir, source: &Path, prefix: &Path) -> Result<()> {
    for dir in [
        "bin",
        "sbin",
        "libexec/sluice",
        "etc",
        "share/sluice/systemd",
    ] {
        let dir = prefix.join(dir);
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    copy(
        &bin.program("sluice-cli"),
        &prefix.join("libexec/sluice/sluice-cli"),
    )?;
    for name in COMMANDS {
        link(
            "../libexec/sluice/sluice-cli",
            &prefix.join("bin").join(name),
        )?;
    }
    copy(&bin.program("sluice"), &prefix.join("bin/sluice"))?;
    for name in ["ctld", "agentd", "stepd"] {
        copy(&bin.program(name), &prefix.join("sbin").join(name))?;
    }
    for (name, program) in DAEMON_LINKS {
        link(program, &prefix.join("sbin").join(name))?;
    }
    let share = prefix.join("share/sluice");
    for (from, to) in [
        ("LICENSE", "LICENSE"),
        ("CHANGELOG.md", "CHANGELOG.md"),
        ("deploy/slurm.conf.sample", "slurm.conf.sample"),
    ] {
        copy(&source.join(from), &share.join(to))?;
    }
    for unit in ["ctld.service", "agentd.service"] {
        let from = source.join("deploy/systemd").join(unit);
        let text =
            fs::read_to_string(&from).with_context(|| format!("cannot read {}", from.display()))?;
        let sbin = format!("{}/sbin/", prefix.canonicalize()?.display());
        fs::write(
            share.join("systemd").join(unit),
            text.replace("/usr/sbin/", &sbin),
        )?;
    }
    Ok(())
}

/// Manual pages and completions: the command-line program writes them, out of the tables it parses with.
fn write_manuals(prefix: &Path) -> Result<()> {
    let program = prefix.join("libexec/sluice/sluice-cli");
    let share = prefix.join("share");
    let status = Command::new(&program)
        .arg("write-manuals")
        .arg(&share)
        .status()
        .with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(
        status.success(),
        "{} could not write the manual pages below {}",
        program.display(),
        share.display()
    );
    Ok(())
}

/// Copies beside the target and renames, so that a running program can be replaced.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut new = to.as_os_str().to_owned();
    new.push(".new");
    fs::copy(from, &new)
        .and_then(|_| fs::rename(&new, to))
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

fn link(target: &str, at: &Path) -> Result<()> {
    if at.symlink_metadata().is_ok() {
        fs::remove_file(at).with_context(|| format!("cannot replace {}", at.display()))?;
    }
    symlink(target, at).with_context(|| format!("cannot make the link {}", at.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this, an installation could lack a command or its links could point nowhere.
    #[test]
    fn every_command_and_daemon_name_leads_to_a_file_and_a_second_run_replaces() {
        let built = tempfile::tempdir().unwrap();
        for name in ["ctld", "agentd", "stepd", "sluice-cli", "sluice"] {
            fs::write(built.path().join(name), name).unwrap();
        }
        let bin = BinDir::at(built.path().to_path_buf()).unwrap();
        let prefix = tempfile::tempdir().unwrap();
        lay_out(&bin, &root(), prefix.path()).unwrap();
        lay_out(&bin, &root(), prefix.path()).unwrap();
        let read = |below: &str| fs::read_to_string(prefix.path().join(below)).unwrap();
        assert_eq!(read("bin/sbatch"), "sluice-cli");
        assert_eq!(read("bin/sacctmgr"), "sluice-cli");
        assert_eq!(read("sbin/slurmctld"), "ctld");
        assert_eq!(read("sbin/slurmd"), "agentd");
        assert_eq!(read("sbin/slurmstepd"), "stepd");
        assert!(read("share/sluice/slurm.conf.sample").contains("ClusterName="));
        let unit = read("share/sluice/systemd/agentd.service");
        let start = format!("ExecStart={}/sbin/agentd -D\n", prefix.path().display());
        assert!(unit.contains(&start), "{unit}");
        assert!(!prefix.path().join("etc/slurm.conf").exists());
    }
}
