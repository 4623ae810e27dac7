//! The control socket of a step daemon: requests of the agent and of `sstat`, one frame each, one reply each.
//!
//! The connection doubles as a life line: it closes when the step daemon is gone, and by then the exit record exists (or
//! the daemon was killed). Only root and the daemon's own user are served; the peer's credentials decide.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sluice_frames::{FrameError, read_frame, write_frame};
use sluice_model::launch::StepUsage;

use crate::spec::CONTROL_SOCKET;

/// Which processes of a step a signal is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Audience {
    /// The tasks (in a batch step: the shell), or all when the node signals children.
    Tasks,
    /// The tasks only.
    TasksOnly,
    /// Every process.
    Tree,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ControlRequest {
    /// Are you there?
    Ping,
    /// Send a signal.
    Signal {
        /// To whom.
        audience: Audience,
        /// Number.
        signal: i32,
    },
    /// SIGCONT, SIGTERM, wait, SIGKILL to everything; with no grace SIGKILL at once.
    Terminate {
        /// Seconds between SIGTERM and SIGKILL.
        grace_secs: u32,
    },
    /// SIGTSTP, then SIGSTOP two seconds later.
    Suspend,
    /// Undo [`Self::Suspend`].
    Resume,
    /// Write a line to the step's stderr, as `slurmstepd: error: TEXT`.
    Notify {
        /// One line.
        text: String,
    },
    /// Resources used so far.
    Usage,
    /// One more command follows the streams: connect there.
    Attach {
        /// `host:port`.
        address: String,
        /// What both sides know.
        secret: String,
    },
    /// A process from outside belongs to this (extern) step from now on.
    Adopt {
        /// Process.
        pid: u32,
    },
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ControlReply {
    /// To [`ControlRequest::Ping`]: pids by local task index.
    Pong {
        /// Process ids.
        pids: Vec<u32>,
    },
    /// Done.
    Done,
    /// To [`ControlRequest::Usage`].
    Usage(StepUsage),
    /// Refused.
    Refused {
        /// Why.
        text: String,
    },
}

/// First thing a step daemon says on its stdout, which the agent holds: its tasks exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Pids by local task index.
    pub pids: Vec<u32>,
}

/// Longest time a client waits for an answer.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Path that reaches the socket in `step_dir` however long that path is: socket addresses hold 107 bytes only. The
/// returned file keeps the path valid.
///
/// # Errors
/// When the folder cannot be opened.
pub fn socket_path(step_dir: &Path) -> io::Result<(File, PathBuf)> {
    let folder = File::open(step_dir)?;
    let path = PathBuf::from(format!(
        "/proc/self/fd/{}/{CONTROL_SOCKET}",
        folder.as_raw_fd()
    ));
    Ok((folder, path))
}

/// Connects to the step daemon of `step_dir`.
///
/// # Errors
/// When nobody listens there.
pub fn connect(step_dir: &Path) -> io::Result<UnixStream> {
    let (_folder, path) = socket_path(step_dir)?;
    UnixStream::connect(path)
}

/// Sends one request and waits for the reply.
///
/// # Errors
/// When the step daemon is not there, or does not answer within [`REPLY_TIMEOUT`].
pub fn request(step_dir: &Path, request: &ControlRequest) -> Result<ControlReply, FrameError> {
    let mut stream = connect(step_dir)?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
    write_frame(&mut stream, request)?;
    read_frame(&mut stream)?.ok_or_else(|| FrameError::Io(io::ErrorKind::UnexpectedEof.into()))
}
