//! Telling the service manager and others that the daemon lives: sd-notify messages, the pid file, going to the background.
//!
//! Without systemd the sd-notify calls do nothing. Failures here are logged and never stop the daemon, except a pid file that
//! cannot be written.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sd_notify::NotifyState;

/// The daemon serves.
pub fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The configuration is being read again; follow with [`ready`].
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!("cannot tell the service manager of the reload: {error}"),
    }
}

/// The daemon is about to end.
pub fn stopping() {
    send(&[NotifyState::Stopping]);
}

/// One line for `systemctl status`.
pub fn status(text: &str) {
    send(&[NotifyState::Status(text)]);
}

/// How often [`watchdog_ping`] must be called at least (half the time that the service manager allows), if it watches.
#[must_use]
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}

/// The writer loop is alive.
pub fn watchdog_ping() {
    send(&[NotifyState::Watchdog]);
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("cannot tell the service manager: {error}");
    }
}

/// Why the pid file cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PidFileError {
    /// The system refused.
    #[error(
        "cannot write the pid file {path}\n\nhint: SlurmctldPidFile names it; its folder must exist and be writable for SlurmUser",
        path = path.display()
    )]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The pid file; removed when dropped, if it still names this process.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    pid: u32,
}

impl PidFile {
    /// Writes this process's id, replacing an older file. That nobody else runs is the state lock's business, not this file's.
    ///
    /// # Errors
    /// [`PidFileError`].
    pub fn create(path: &Path) -> Result<PidFile, PidFileError> {
        let pid = std::process::id();
        let temporary = path.with_extension(format!("new.{pid}"));
        let refused = |source| PidFileError::Io {
            path: path.to_owned(),
            source,
        };
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o644)
            .open(&temporary)
            .map_err(refused)?;
        writeln!(file, "{pid}")
            .and_then(|()| fs::rename(&temporary, path))
            .map_err(refused)?;
        Ok(PidFile {
            path: path.to_owned(),
            pid,
        })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let ours =
            fs::read_to_string(&self.path).is_ok_and(|text| text.trim() == self.pid.to_string());
        if ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Goes to the background: the caller's process ends with status 0, a child in a session of its own goes on in `folder`.
///
/// Must be called while the process has one thread, so before any runtime is made; errors in flags and configuration should
/// have been reported before it. Standard streams stay as they are, so that messages are not lost before the log is open.
///
/// # Errors
/// When the system refuses to fork or the folder cannot be entered.
pub fn daemonize(folder: &Path) -> io::Result<()> {
    nix::unistd::daemon(true, true).map_err(io::Error::from)?;
    std::env::set_current_dir(folder)
}

/// Sets the process's nice value (-20 … 19).
///
/// # Errors
/// When the system refuses (a lower value than now needs root).
pub fn set_nice(value: i32) -> io::Result<()> {
    rustix::process::setpriority_process(None, value).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pid_file_names_us_and_goes_with_us() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("slurmctld.pid");
        fs::write(&path, "99999\n").expect("an old one");
        let held = PidFile::create(&path).expect("create");
        assert_eq!(
            fs::read_to_string(&path).expect("read"),
            format!("{}\n", std::process::id())
        );
        drop(held);
        assert!(!path.exists());
        let held = PidFile::create(&path).expect("create");
        fs::write(&path, "1\n").expect("taken over");
        drop(held);
        assert!(path.exists(), "another daemon's file is left alone");
        let text = PidFile::create(&dir.path().join("no/such/folder.pid"))
            .expect_err("refused")
            .to_string();
        assert!(text.contains("SlurmctldPidFile"), "{text}");
    }
}
