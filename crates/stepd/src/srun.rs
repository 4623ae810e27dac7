//! The connection to `srun`: frames out with a bounded backlog, frames in.
//!
//! Opening it includes showing each other that both know the step's secret ([`sluice_frames::handshake`]); the secret itself is never
//! sent. Never blocks after it is open. A lost connection is not an error of the step: output is dropped from then on and the
//! tasks go on. Invariant: frames leave in the order they were queued.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use sluice_frames::handshake::{Side, proof, same};
use sluice_frames::{Decoder, read_frame, write_frame};
use sluice_model::launch::{SrunFrame, StepFrame};

use crate::log::complain;

/// How long connecting may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Backlog in bytes from which tasks have to wait with their output.
const BACKLOG_BYTES_MAX: usize = 1024 * 1024;

/// Who is called, and who calls.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// `host:port`; empty = nobody.
    pub address: &'a str,
    /// What both sides know.
    pub secret: &'a str,
    /// NodeName.
    pub node: &'a str,
    /// Place of the node in the step.
    pub node_index: u32,
    /// Ranks here.
    pub task_ids: &'a [u32],
    /// How long each part of it may take.
    pub patience: Duration,
}

/// Says hello, checks that the other side knows the secret, and shows that this one does.
fn introduce(stream: &mut TcpStream, call: &Call<'_>) -> io::Result<()> {
    let mut random = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let nonce: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let wire = |error: sluice_frames::FrameError| io::Error::other(error);
    let hello = StepFrame::Hello {
        secret: String::new(),
        node: call.node.to_owned(),
        node_index: call.node_index,
        task_ids: call.task_ids.to_vec(),
        nonce: nonce.clone(),
    };
    write_frame(stream, &hello).map_err(wire)?;
    let Some(SrunFrame::Challenge {
        nonce: theirs,
        proof: shown,
    }) = read_frame(stream).map_err(wire)?
    else {
        return Err(io::Error::new(
            ErrorKind::InvalidData,
            "what listens there is no srun",
        ));
    };
    if !same(&shown, &proof(call.secret, Side::Srun, &nonce, &theirs)) {
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            "what listens there does not know the step's secret",
        ));
    }
    let answer = StepFrame::Proof {
        proof: proof(call.secret, Side::Step, &nonce, &theirs),
    };
    write_frame(stream, &answer).map_err(wire)?;
    match read_frame(stream).map_err(wire)? {
        Some(SrunFrame::Welcome) => Ok(()),
        _ => Err(io::Error::new(
            ErrorKind::PermissionDenied,
            "srun does not take the step's proof",
        )),
    }
}

/// One step's connection; also a step without `srun`, which drops everything.
#[derive(Debug, Default)]
pub struct SrunLink {
    stream: Option<TcpStream>,
    backlog: Vec<u8>,
    sent: usize,
    decoder: Decoder,
}

impl SrunLink {
    /// Connects and introduces the step; an empty address is a step without `srun`.
    pub fn connect(call: &Call<'_>) -> io::Result<Self> {
        if call.address.is_empty() {
            return Ok(Self::default());
        }
        let mut last = io::Error::new(ErrorKind::NotFound, "the address has no host");
        for candidate in call.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&candidate, call.patience) {
                Ok(mut stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(call.patience))?;
                    stream.set_write_timeout(Some(call.patience))?;
                    introduce(&mut stream, call)?;
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
            Ok(bytes) => self.send_bytes(&bytes),
            Err(error) => complain(&format!("a frame for srun was dropped: {error}")),
        }
    }

    /// Queues an encoded frame and sends what the connection takes now.
    pub fn send_bytes(&mut self, frame: &[u8]) {
        if self.stream.is_some() {
            self.backlog.extend_from_slice(frame);
            self.flush();
        }
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

    /// Tells the other side that nothing follows, takes what it still sends, and gives true when it has everything. A connection that
    /// is closed with something unread would take back what is on its way.
    pub fn has_delivered(&mut self) -> bool {
        let Some(stream) = &mut self.stream else {
            return true;
        };
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut chunk = [0; 4096];
        while matches!(stream.read(&mut chunk), Ok(1..)) {}
        crate::process::unsent_bytes(stream.as_fd()) == 0
    }

    /// Ends the connection.
    pub fn disconnect(&mut self) {
        self.stream = None;
        self.backlog.clear();
        self.sent = 0;
    }
}
