//! Files of a step on the node: stdin, stdout and stderr by pattern, and the batch script.
//!
//! All are opened with the user's rights. Invariant: two streams that name the same file share one open file, so that
//! neither overwrites the other. Source: `sbatch(1)`, FILENAME PATTERN and `--open-mode`.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use sluice_model::filename::{FilenameContext, expand_pattern};
use sluice_model::ids::StepId;
use sluice_model::job::OpenMode;
use sluice_model::launch::StepLaunch;

use crate::credentials::{CredentialsError, User};
use crate::spec::BATCH_SCRIPT;

/// Why a file of a step could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// As Slurm words it.
    #[error("Could not open {stream} file {}: {}", path.display(), os_text(source))]
    Stream {
        /// `stdin`, `stdout` or `stderr`.
        stream: &'static str,
        /// Which file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The batch script.
    #[error("cannot write the batch script {}: {}", path.display(), os_text(source))]
    Script {
        /// Which file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The user could not be taken on.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
}

/// The text of a system error without Rust's `(os error N)`.
pub fn os_text(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_owned(),
        None => error.to_string(),
    }
}

/// Where a stream of a task goes.
#[derive(Debug, Clone)]
pub enum Stream {
    /// To a file on the node.
    File(Rc<File>),
    /// Through the connection to `srun`.
    Srun,
}

/// The streams of one task.
#[derive(Debug, Clone)]
pub struct TaskStreams {
    /// Input.
    pub stdin: Stream,
    /// Output.
    pub stdout: Stream,
    /// Errors.
    pub stderr: Stream,
}

/// Opens the files of every task here. Call inside [`User::act`].
///
/// # Errors
/// The first file that cannot be opened.
pub fn open_streams(launch: &StepLaunch) -> Result<Vec<TaskStreams>, FilesError> {
    let mut opener = Opener {
        launch,
        open: HashMap::new(),
    };
    let batch = launch.step_id == StepId::Batch;
    let mut all = Vec::with_capacity(launch.task_ids.len());
    for (local_id, rank) in launch.task_ids.iter().enumerate() {
        // Only task 0 of a step with a pseudo terminal is connected; the others write to nowhere.
        let silent = launch.pty.is_some() && !(local_id == 0 && *rank == 0);
        let streams = if silent {
            let null = opener.open("stdout", "/dev/null", *rank)?;
            TaskStreams {
                stdin: null.clone(),
                stdout: null.clone(),
                stderr: null,
            }
        } else {
            let stdout = opener.stream("stdout", launch.std_out.as_deref(), *rank)?;
            let stderr = match &launch.std_err {
                None if batch => stdout.clone(),
                pattern => opener.stream("stderr", pattern.as_deref(), *rank)?,
            };
            TaskStreams {
                stdin: opener.stream("stdin", launch.std_in.as_deref(), *rank)?,
                stdout,
                stderr,
            }
        };
        all.push(streams);
    }
    Ok(all)
}

struct Opener<'a> {
    launch: &'a StepLaunch,
    open: HashMap<(PathBuf, bool), Rc<File>>,
}

impl Opener<'_> {
    fn stream(
        &mut self,
        stream: &'static str,
        pattern: Option<&str>,
        rank: u32,
    ) -> Result<Stream, FilesError> {
        match pattern {
            Some(pattern) => self.open(stream, pattern, rank),
            None if self.launch.io_address.is_empty() => self.open(stream, "/dev/null", rank),
            None => Ok(Stream::Srun),
        }
    }

    fn open(
        &mut self,
        stream: &'static str,
        pattern: &str,
        rank: u32,
    ) -> Result<Stream, FilesError> {
        let input = stream == "stdin";
        let path = self.path(pattern, rank);
        if let Some(file) = self.open.get(&(path.clone(), input)) {
            return Ok(Stream::File(Rc::clone(file)));
        }
        let mut options = OpenOptions::new();
        if input {
            options.read(true);
        } else {
            // Appending in both modes: other writers of the file (steps of the job, a second stream) are not overwritten.
            options.append(true).create(true).mode(0o666);
            if path == Path::new("/dev/null") {
                options.read(true);
            }
            if self.launch.open_mode == OpenMode::Truncate {
                options.custom_flags(nix::libc::O_TRUNC);
            }
        }
        let file =
            open_when_there(&options, &path, input).map_err(|source| FilesError::Stream {
                stream,
                path: path.clone(),
                source,
            })?;
        let file = Rc::new(file);
        self.open.insert((path, input), Rc::clone(&file));
        Ok(Stream::File(file))
    }

    fn path(&self, pattern: &str, rank: u32) -> PathBuf {
        let launch = self.launch;
        let context = FilenameContext {
            job_id: launch.job_id.0,
            array_job_id: launch.array_job_id.map(|id| id.0),
            array_task_id: launch.array_task_id,
            step_id: launch.step_id.to_string(),
            node_name: launch.node.clone(),
            node_index: launch.node_index,
            task_rank: rank,
            user: launch.credentials.user_name.clone(),
            job_name: launch.job_name.clone(),
            restart_count: launch.restart_count,
            sluid: variable(launch, "SLURM_JOB_SLUID"),
        };
        // `join` keeps an absolute name as it is.
        Path::new(&launch.work_dir).join(expand_pattern(pattern, &context))
    }
}

/// A variable of the step's environment; empty when it has none.
fn variable(launch: &StepLaunch, name: &str) -> String {
    let value = |entry: &String| Some(entry.strip_prefix(name)?.strip_prefix('=')?.to_owned());
    launch
        .environment
        .iter()
        .find_map(value)
        .unwrap_or_default()
}

/// Writes the batch script into the job's folder, for the user only, and returns its path.
///
/// # Errors
/// See [`FilesError`].
pub fn write_batch_script(
    job_dir: &Path,
    script: &[u8],
    user: &User,
) -> Result<PathBuf, FilesError> {
    let path = job_dir.join(BATCH_SCRIPT);
    let write = || -> io::Result<()> {
        // A script of an earlier run may still be executing: it keeps its file, the new one is another.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o700)
            .open(&path)?;
        file.write_all(script)?;
        if let Some((uid, gid)) = user.owner() {
            nix::unistd::fchown(&file, Some(uid), Some(gid))?;
        }
        Ok(())
    };
    write().map_err(|source| FilesError::Script {
        path: path.clone(),
        source,
    })?;
    Ok(path)
}
/// How long an output's folder may be missing.
const FOLDER_PATIENCE: Duration = Duration::from_secs(2);

/// Opens a file. Tools such as submitit make the folder of a job's output after `sbatch` has told them the job's id, and the job may
/// be quicker than they are: a folder that is missing is waited for a little.
fn open_when_there(options: &OpenOptions, path: &Path, input: bool) -> io::Result<File> {
    let deadline = Instant::now() + FOLDER_PATIENCE;
    loop {
        match options.open(path) {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && !input
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            opened => return opened,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// submitit makes `logs/<job id>` only after sbatch has told it the id; the job must not fail for being quicker.
    #[test]
    fn a_missing_folder_is_waited_for() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("late").join("out");
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        let opener = {
            let path = path.clone();
            std::thread::spawn(move || open_when_there(&options, &path, false))
        };
        std::fs::create_dir(dir.path().join("late")).expect("folder");
        opener.join().expect("thread").expect("opened");
        assert!(path.exists());
    }
}
