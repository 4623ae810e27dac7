//! Runs one command to its end, with a deadline.
//!
//! Output goes to unnamed files, not pipes: a grandchild that keeps the pipe open cannot make us wait, and no reader
//! thread is needed. A command that is late is killed with its whole process group.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// How a command ended and what it printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The command line, for messages.
    pub command: String,
    /// Exit code; `128 + signal` when a signal ended it, as a shell says it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Finished {
    /// Standard output of a command that must succeed.
    ///
    /// # Errors
    /// When the exit code is not 0: the message has the command line, the code and both outputs.
    pub fn success(self) -> Result<String> {
        if self.code != 0 {
            bail!(
                "`{}` ended with exit code {}\nstdout: {}\nstderr: {}",
                self.command,
                self.code,
                self.stdout.trim_end(),
                self.stderr.trim_end()
            );
        }
        Ok(self.stdout)
    }
}

/// Runs `command` and gives its result; standard input is empty unless the caller set it before.
///
/// # Errors
/// When the command cannot be started, or is not done by `deadline` (it is killed then).
pub fn run_with_deadline(mut command: Command, deadline: Duration) -> Result<Finished> {
    let shown = show(&command);
    let mut stdout = tempfile::tempfile().context("cannot make a temporary file")?;
    let mut stderr = tempfile::tempfile().context("cannot make a temporary file")?;
    let start = Instant::now();
    let mut child = command
        .stdout(stdout.try_clone().map(Stdio::from)?)
        .stderr(stderr.try_clone().map(Stdio::from)?)
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start `{shown}`"))?;
    loop {
        if let Some(status) = child.try_wait()? {
            let code = status
                .code()
                .or(status.signal().map(|signal| 128 + signal))
                .context("a process ended with neither code nor signal")?;
            return Ok(Finished {
                command: shown,
                code,
                stdout: text(&mut stdout)?,
                stderr: text(&mut stderr)?,
            });
        }
        if start.elapsed() >= deadline {
            // It may just have ended; then there is nothing left to kill.
            let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
            child.wait()?;
            bail!(
                "`{shown}` was not done after {:.1} s and was killed\nstdout: {}\nstderr: {}",
                deadline.as_secs_f64(),
                text(&mut stdout)?.trim_end(),
                text(&mut stderr)?.trim_end()
            );
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn text(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn show(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    /// Without this, a wrong exit code or swapped outputs would go unseen in every end-to-end test.
    #[test]
    fn code_and_both_outputs_are_kept_apart() {
        let done = run_with_deadline(shell("echo a; echo b >&2; exit 3"), Duration::from_secs(10))
            .unwrap();
        assert_eq!(
            (done.code, done.stdout.as_str(), done.stderr.as_str()),
            (3, "a\n", "b\n")
        );
        let error = done.success().unwrap_err().to_string();
        assert!(error.contains("ended with exit code 3"), "{error}");
    }

    /// Without this, a hanging command would hang the test run.
    #[test]
    fn a_late_command_is_killed_with_its_children() {
        let error = run_with_deadline(
            shell("echo begun; sleep 1000 & wait"),
            Duration::from_millis(200),
        )
        .unwrap_err()
        .to_string();
        assert!(error.contains("was not done after 0.2 s"), "{error}");
        assert!(error.contains("stdout: begun"), "{error}");
    }

    /// Without this, a crash would look like an ordinary exit.
    #[test]
    fn a_signal_gives_128_plus_its_number() {
        let done = run_with_deadline(shell("kill -KILL $$"), Duration::from_secs(10)).unwrap();
        assert_eq!(done.code, 137);
    }
}
