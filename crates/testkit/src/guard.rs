//! A guard process that ends the cluster when the process that started it dies without doing so.
//!
//! `Drop` does not run after SIGKILL, Ctrl-C or a test runner's timeout. So a small shell waits at the end of a pipe; when
//! the pipe closes without the word `keep`, it runs the clean-up. Its own process group keeps it out of reach of the
//! signals that end a test run.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A waiting guard. Dropping it without [`Guard::disarm`] lets it clean up.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
}

impl Guard {
    /// Starts a guard that will run `script` (for `/bin/sh`) with `args` as `$1`, `$2`, ….
    pub fn start<A: AsRef<OsStr>>(script: &str, args: impl IntoIterator<Item = A>) -> Result<Self> {
        let whole = format!("read -r word; if [ \"$word\" = keep ]; then exit 0; fi; {script}");
        let child = Command::new("/bin/sh")
            .args(["-c", whole.as_str(), "sluice-guard"])
            .args(args)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start /bin/sh")?;
        Ok(Self { child })
    }

    /// Sends the guard home without any clean-up.
    pub fn disarm(mut self) {
        if let Some(mut pipe) = self.child.stdin.take() {
            // A guard that is already gone needs no telling.
            let _ = pipe.write_all(b"keep\n");
        }
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait_until;
    use std::time::Duration;

    /// Without this, a cluster would outlive a killed test run.
    #[test]
    fn a_closed_pipe_runs_the_script_and_keep_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let script = "echo done > \"$1\"";
        let kept = dir.path().join("kept");
        Guard::start(script, [&kept]).unwrap().disarm();
        let file = dir.path().join("cleaned");
        drop(Guard::start(script, [&file]).unwrap());
        wait_until(Duration::from_secs(10), "the guard's clean-up", || {
            file.exists()
        })
        .unwrap();
        assert!(!kept.exists());
    }
}
