//! The connection to `srun`: frames out with a bounded backlog, frames in.
//!
//! Never blocks after it is open. A lost connection is not an error of the step: output is dropped from then on and the
//! tasks go on. Invariant: frames leave in the order they were queued.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use sluice_frames::Decoder;
use sluice_model::launch::{SrunFrame, StepFrame};

use crate::log::complain;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Backlog in bytes from which tasks have to wait with their output.
const BACKLOG_BYTES_MAX: usize = 1024 * 1024;

/// One step's connection; also a step without `srun`, which drops everything.
#[derive(Debug, Default)]
pub struct SrunLink {
    stream: Option<TcpStream>,
    backlog: Vec<u8>,
    sent: usize,
    decoder: Decoder,
}

impl SrunLink {
    /// Connects; an empty address is a step without `srun`.
    pub fn connect(address: &str) -> io::Result<Self> {
        if address.is_empty() {
            return Ok(Self::default());
        }
        let mut last = io::Error::new(ErrorKind::NotFound, "the address has no host");
        for candidate in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&candidate, CONNECT_TIMEOUT) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_nonblocking(true)?;
                    return Ok(Self {
                        stream: Some(stream),
                        ..Self::default()
                    });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// True while `srun` is there.
    pub fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    /// For `poll`.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().map(AsFd::as_fd)
    }

    /// True when bytes wait for the connection to take them.
    pub fn has_backlog(&self) -> bool {
        self.stream.is_some() && self.sent < self.backlog.len()
    }

    /// True when tasks should be read from no further.
    pub fn is_congested(&self) -> bool {
        self.backlog.len() - self.sent > BACKLOG_BYTES_MAX
    }

    /// Queues a frame and sends what the connection takes now.
    pub fn send(&mut self, frame: &StepFrame) {
        if self.stream.is_none() {
            return;
        }
        match sluice_frames::encode(frame) {
            Ok(bytes) => self.backlog.extend_from_slice(&bytes),
            Err(error) => complain(&format!("a frame for srun was dropped: {error}")),
        }
        self.flush();
    }

    /// Sends what the connection takes now.
    pub fn flush(&mut self) {
        while self.sent < self.backlog.len() {
            let Some(stream) = &mut self.stream else {
                break;
            };
            match stream.write(&self.backlog[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    complain(&format!(
                        "srun is gone ({error}); output is dropped from here on"
                    ));
                    self.disconnect();
                }
            }
        }
        self.backlog.clear();
        self.sent = 0;
    }

    /// Frames that arrived. After the end of the connection [`Self::is_connected`] is false.
    pub fn receive(&mut self) -> Vec<SrunFrame> {
        let mut chunk = [0; 16 * 1024];
        let mut frames = Vec::new();
        loop {
            let Some(stream) = &mut self.stream else {
                return frames;
            };
            match stream.read(&mut chunk) {
                Ok(0) => self.disconnect(),
                Ok(length) => {
                    self.decoder.push(&chunk[..length]);
                    loop {
                        match self.decoder.next_frame() {
                            Ok(Some(frame)) => frames.push(frame),
                            Ok(None) => break,
                            Err(error) => {
                                complain(&format!(
                                    "srun sent something else than a frame: {error}"
                                ));
                                self.disconnect();
                                break;
                            }
                        }
                    }
                    if length < chunk.len() {
                        return frames;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return frames,
                Err(_) => self.disconnect(),
            }
        }
    }

    fn disconnect(&mut self) {
        self.stream = None;
        self.backlog.clear();
        self.sent = 0;
    }
}
