//! Calls of cargo: which one, in which folder, and what a failure means.
//!
//! Cargo's own progress goes straight to the terminal; nothing is captured, so a newcomer sees what is being built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sluice_testkit::{BinDir, DAEMON_PACKAGES};

/// The root of the source tree, where this xtask was built.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// A call of the cargo that runs this xtask.
pub fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root());
    // `cargo run` sets these for the package xtask; a nested cargo must not take them for its own.
    for name in [
        "CARGO_MANIFEST_DIR",
        "CARGO_MANIFEST_PATH",
        "CARGO_PKG_NAME",
    ] {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end; anything but success is an error that names it.
pub fn must_succeed(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
    if !status.success() {
        let words: Vec<_> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| word.to_string_lossy())
            .collect();
        bail!("`{}` failed ({status})", words.join(" "));
    }
    Ok(())
}

/// Builds the daemons and commands and gives the folder that holds them.
pub fn build_programs(profile: &str) -> Result<BinDir> {
    let mut command = cargo();
    command.args(["build", "--profile", profile]);
    for package in DAEMON_PACKAGES {
        command.args(["--package", package]);
    }
    must_succeed(&mut command)?;
    BinDir::at(target_dir()?.join(profile_dir(profile)))
}

/// The folder of a profile's programs below the target folder.
pub fn profile_dir(profile: &str) -> &str {
    match profile {
        "dev" | "test" => "debug",
        "bench" => "release",
        other => other,
    }
}

/// The target folder. This executable lies in `<target>/<profile>/`, or in `deps` below that as a test.
pub fn target_dir() -> Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let found = exe
        .ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").is_file())
        .with_context(|| format!("{} lies in no target folder of cargo", exe.display()))?;
    Ok(found.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this, quickstart would look for the daemons in a folder of another profile.
    #[test]
    fn profiles_have_the_folders_that_cargo_gives_them() {
        assert_eq!(profile_dir("dev"), "debug");
        assert_eq!(profile_dir("release"), "release");
        assert_eq!(profile_dir("fast"), "fast");
    }

    /// Without this, a moved source tree would be searched in the wrong place.
    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().join("crates/model/Cargo.toml").is_file());
        assert!(target_dir().unwrap().is_dir());
    }
}
