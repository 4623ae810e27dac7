//! Prolog, Epilog, the health check and UnkillableStepProgram: scripts that run as the agent's own user.
//!
//! Each runs in a process group of its own with a fixed PATH and only the variables given; stdout and stderr are read for
//! the last line, which becomes part of the failure's text. After the time limit the whole group is killed. Several
//! scripts run one after the other and the first failure ends the list. Source: page `prolog_epilog`, `slurm.conf(5)`.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use sluice_config::NodeScript;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// PATH of the scripts.
pub const SCRIPT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Longest part of a script's last line that is kept, in bytes.
const LINE_BYTES_MAX: usize = 400;
/// How often a script that is still being written by somebody is tried again.
const BUSY_RETRIES: u32 = 20;

/// Why a script counts as failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// It could not be run.
    #[error("{script}: {reason}")]
    Start {
        /// Which.
        script: String,
        /// Why.
        reason: String,
    },
    /// It ended with a status other than 0. The text is its last line.
    #[error("{}", if line.is_empty() { format!("{script} {status}") } else { line.clone() })]
    Status {
        /// Which.
        script: String,
        /// `exited with status 3`.
        status: String,
        /// Last line of its output; may be empty.
        line: String,
    },
    /// It took too long and was killed.
    #[error("{script} did not end within {} s", limit.as_secs())]
    Timeout {
        /// Which.
        script: String,
        /// Limit.
        limit: Duration,
    },
}

/// The files that a list of scripts means now, in the order in which they run.
///
/// # Errors
/// A named file that is not there; a glob without matches is fine.
pub fn resolve(scripts: &[NodeScript], text_folder: &Path) -> Result<Vec<PathBuf>, ScriptError> {
    let mut files = Vec::new();
    for script in scripts {
        match script {
            NodeScript::Text { name, .. } => files.push(text_folder.join(name)),
            NodeScript::Path(pattern) if pattern.contains(['*', '?', '[']) => {
                let start = |reason: String| ScriptError::Start {
                    script: pattern.clone(),
                    reason,
                };
                let mut matches: Vec<PathBuf> = glob::glob(pattern)
                    .map_err(|error| start(error.to_string()))?
                    .filter_map(Result::ok)
                    .filter(|path| path.is_file())
                    .collect();
                matches.sort_unstable_by(|one, other| other.cmp(one));
                files.extend(matches);
            }
            NodeScript::Path(path) => files.push(PathBuf::from(path)),
        }
    }
    Ok(files)
}

/// Writes the scripts whose text is part of the configuration.
///
/// # Errors
/// The file system's.
pub fn write_texts<'a>(
    scripts: impl IntoIterator<Item = &'a NodeScript>,
    folder: &Path,
) -> io::Result<()> {
    for script in scripts {
        let NodeScript::Text { name, text } = script else {
            continue;
        };
        // A name from the configuration stays inside the folder.
        if Path::new(name).components().any(|part| {
            !matches!(
                part,
                std::path::Component::Normal(_) | std::path::Component::CurDir
            )
        }) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("script name `{name}` leaves its folder"),
            ));
        }
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        if std::fs::read(&path).is_ok_and(|present| present == text.as_bytes()) {
            continue;
        }
        let temporary = path.with_extension("new");
        std::fs::write(&temporary, text)?;
        std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(0o755))?;
        std::fs::rename(&temporary, &path)?;
    }
    Ok(())
}

/// Runs scripts in order; the first failure ends the list.
///
/// # Errors
/// See [`ScriptError`].
pub async fn run_all(
    files: &[PathBuf],
    environment: &[(String, String)],
    limit: Option<Duration>,
) -> Result<(), ScriptError> {
    for file in files {
        run(file, environment, limit).await?;
    }
    Ok(())
}

/// Runs one script.
///
/// # Errors
/// See [`ScriptError`].
pub async fn run(
    file: &Path,
    environment: &[(String, String)],
    limit: Option<Duration>,
) -> Result<(), ScriptError> {
    let script = file.display().to_string();
    let start = |error: &io::Error| ScriptError::Start {
        script: script.clone(),
        reason: sluice_stepd::files::os_text(error),
    };
    let (reader, writer) = io::pipe().map_err(|error| start(&error))?;
    let mut output = tokio::net::unix::pipe::Receiver::from_owned_fd(OwnedFd::from(reader))
        .map_err(|error| start(&error))?;
    let mut child = spawn(file, environment, writer)
        .await
        .map_err(|error| start(&error))?;
    let group = child.id();
    let mut tail = Vec::new();
    let ended = async {
        let mut chunk = [0; 4096];
        let mut open = true;
        loop {
            tokio::select! {
                status = child.wait() => break status,
                read = output.read(&mut chunk), if open => match read {
                    Ok(length) if length > 0 => keep_tail(&mut tail, &chunk[..length]),
                    _ => open = false,
                },
            }
        }
    };
    let status = match limit {
        Some(limit) => match tokio::time::timeout(limit, ended).await {
            Ok(status) => status,
            Err(_) => {
                if let Some(group) = group.and_then(|group| i32::try_from(group).ok()) {
                    let _ = nix::sys::signal::killpg(
                        nix::unistd::Pid::from_raw(group),
                        nix::sys::signal::Signal::SIGKILL,
                    );
                }
                let _ = child.wait().await;
                return Err(ScriptError::Timeout { script, limit });
            }
        },
        None => ended.await,
    };
    let status = status.map_err(|error| start(&error))?;
    // What a background process of the script may write later is not waited for.
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = output.try_read(&mut chunk) {
        keep_tail(&mut tail, &chunk[..length]);
    }
    if status.success() {
        return Ok(());
    }
    Err(ScriptError::Status {
        script,
        status: status_text(status),
        line: last_line(&tail),
    })
}

async fn spawn(
    file: &Path,
    environment: &[(String, String)],
    output: io::PipeWriter,
) -> io::Result<tokio::process::Child> {
    let mut command = Command::new(file);
    command
        .env_clear()
        .env("PATH", SCRIPT_PATH)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0);
    let mut retries = 0;
    loop {
        match command.spawn() {
            // Another thread's fork holds a copy of the descriptor with which the file was just written.
            Err(error)
                if error.raw_os_error() == Some(nix::libc::ETXTBSY) && retries < BUSY_RETRIES =>
            {
                retries += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            result => return result,
        }
    }
}

fn keep_tail(tail: &mut Vec<u8>, bytes: &[u8]) {
    tail.extend_from_slice(bytes);
    if tail.len() > 8192 {
        tail.drain(..tail.len() - 4096);
    }
}

fn last_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let line = text
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    line.chars()
        .filter(|letter| !letter.is_control())
        .take(LINE_BYTES_MAX)
        .collect()
}

fn status_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended abnormally".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    struct Scripts(tempfile::TempDir);

    impl Scripts {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("folder"))
        }

        fn add(&self, name: &str, body: &str) -> PathBuf {
            let script = NodeScript::Text {
                name: name.to_owned(),
                text: format!("#!/bin/sh\n{body}\n"),
            };
            write_texts([&script], self.0.path()).expect("script");
            self.0.path().join(name)
        }
    }

    /// The last line of a failing script is what the administrator will read as drain reason.
    #[tokio::test]
    async fn failure_carries_the_last_line() {
        let scripts = Scripts::new();
        let failing = scripts.add(
            "a/failing",
            "echo checking; echo 'no disk' >&2; echo; exit 3",
        );
        let error = run(&failing, &[], None).await.expect_err("fails");
        assert_eq!(error.to_string(), "no disk");
        let silent = scripts.add("silent", "exit 4");
        let error = run(&silent, &[], None)
            .await
            .expect_err("fails")
            .to_string();
        assert!(error.ends_with("/silent exited with status 4"), "{error}");
        let error = run(Path::new("/nosuch/prolog"), &[], None)
            .await
            .expect_err("fails")
            .to_string();
        assert_eq!(error, "/nosuch/prolog: No such file or directory");
    }

    /// Only the given variables and the fixed PATH reach a script: no user's environment.
    #[tokio::test]
    async fn environment_is_exactly_what_is_given() {
        let scripts = Scripts::new();
        let out = scripts.0.path().join("out");
        let script = scripts.add(
            "env",
            &format!(
                "env | grep -v -e ^PWD= -e ^SHLVL= -e ^_= -e ^OLDPWD= | sort >{}",
                out.display()
            ),
        );
        run(
            &script,
            &[("SLURM_JOB_ID".to_owned(), "7".to_owned())],
            None,
        )
        .await
        .expect("runs");
        assert_eq!(
            std::fs::read_to_string(out).expect("out"),
            format!("PATH={SCRIPT_PATH}\nSLURM_JOB_ID=7\n")
        );
    }

    /// A hanging script and what it started are killed at the limit.
    #[tokio::test]
    async fn timeout_kills_the_group() {
        let scripts = Scripts::new();
        let pid_file = scripts.0.path().join("pid");
        let script = scripts.add(
            "hang",
            &format!("sleep 300 & echo $! >{}; wait", pid_file.display()),
        );
        let begin = Instant::now();
        let error = run(&script, &[], Some(Duration::from_millis(300)))
            .await
            .expect_err("times out");
        assert!(matches!(error, ScriptError::Timeout { .. }));
        assert!(begin.elapsed() < Duration::from_secs(10));
        let pid: u32 = std::fs::read_to_string(pid_file)
            .expect("pid")
            .trim()
            .parse()
            .expect("number");
        while sluice_stepd::tree::stat(pid).is_some_and(|stat| !stat.zombie) {
            assert!(begin.elapsed() < Duration::from_secs(10), "sleep survived");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// A background process that keeps the output open must not hold up the job.
    #[tokio::test]
    async fn background_processes_are_not_waited_for() {
        let scripts = Scripts::new();
        let script = scripts.add("daemon", "(sleep 5) & exit 0");
        let begin = Instant::now();
        run(&script, &[], None).await.expect("runs");
        assert!(begin.elapsed() < Duration::from_secs(4));
    }

    /// Globs run z to a, lists in their order, and the first failure stops the rest.
    #[tokio::test]
    async fn order_of_scripts() {
        let scripts = Scripts::new();
        let out = scripts.0.path().join("out");
        for name in ["p/10-a", "p/90-z", "p/50-m"] {
            let end = if name.contains("50") {
                "exit 1"
            } else {
                "exit 0"
            };
            scripts.add(name, &format!("echo {name} >>{}; {end}", out.display()));
        }
        let pattern = NodeScript::Path(scripts.0.path().join("p/*").to_string_lossy().into_owned());
        let text = NodeScript::Text {
            name: "p/10-a".to_owned(),
            text: String::new(),
        };
        let files = resolve(&[pattern, text], scripts.0.path()).expect("files");
        let names: Vec<_> = files
            .iter()
            .map(|path| {
                path.file_name()
                    .expect("name")
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        assert_eq!(names, ["90-z", "50-m", "10-a", "10-a"]);
        run_all(&files, &[], None)
            .await
            .expect_err("the second fails");
        assert_eq!(
            std::fs::read_to_string(out).expect("out"),
            "p/90-z\np/50-m\n"
        );
        let escaping = NodeScript::Text {
            name: "../x".to_owned(),
            text: String::new(),
        };
        assert!(write_texts([&escaping], scripts.0.path()).is_err());
    }
}
