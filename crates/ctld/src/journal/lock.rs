//! The lock of the state folder: two daemons on one journal would destroy it.
//!
//! An advisory `flock` on `ctld.lock`, released by the kernel when the process ends, however it ends. The file holds the
//! process id only for the message that the second daemon prints.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::JournalError;

/// Held as long as the daemon owns its state folder.
#[derive(Debug)]
pub struct StateLock {
    _file: File,
}

impl StateLock {
    /// Takes the lock of `dir` (created when missing), or says who has it.
    ///
    /// # Errors
    /// [`JournalError::Locked`] when another process holds it; `Io` when the folder cannot be used.
    pub fn acquire(dir: &Path) -> Result<StateLock, JournalError> {
        fs::create_dir_all(dir).map_err(JournalError::io("create the state folder", dir))?;
        let path = dir.join("ctld.lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(JournalError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let holder = match file.read_to_string(&mut text) {
                    Ok(_) if !text.trim().is_empty() => format!("process {}", text.trim()),
                    _ => "another process".to_owned(),
                };
                return Err(JournalError::Locked {
                    dir: dir.to_owned(),
                    holder,
                });
            }
            Err(TryLockError::Error(source)) => {
                return Err(JournalError::io("lock", &path)(source));
            }
        }
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(JournalError::io("write", &path))?;
        Ok(StateLock { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_daemon_is_told_who_holds_the_folder() {
        let dir = tempfile::tempdir().expect("folder");
        let held = StateLock::acquire(dir.path()).expect("first");
        let refused = StateLock::acquire(dir.path()).expect_err("second");
        let expected = format!("in use by process {}", std::process::id());
        assert!(refused.to_string().contains(&expected), "{refused}");
        drop(held);
        StateLock::acquire(dir.path()).expect("free again");
    }
}
