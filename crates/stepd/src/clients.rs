//! Everybody who follows a step's streams: the srun that started it, and commands that attached later.
//!
//! What the tasks say goes to all; a client that comes late first hears what was said last. Invariant: only the first client can make
//! tasks wait; one that attached and does not keep up is dropped.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use sluice_model::launch::{SrunFrame, StepFrame};

use crate::log::complain;
use crate::srun::SrunLink;

/// Output kept for clients that come late, in bytes.
const RECENT_BYTES_MAX: usize = 256 * 1024;

/// Clients that may be attached beside the first.
const ATTACHED_MAX: usize = 32;

/// The clients of one step.
#[derive(Debug)]
pub struct Clients {
    first: SrunLink,
    attached: Vec<SrunLink>,
    recent: VecDeque<Vec<u8>>,
    recent_bytes: usize,
}

impl Clients {
    /// The client named in the launch (or none).
    pub fn new(first: SrunLink) -> Self {
        Self {
            first,
            attached: Vec::new(),
            recent: VecDeque::new(),
            recent_bytes: 0,
        }
    }

    /// Somebody is there.
    pub fn is_connected(&self) -> bool {
        self.links().any(SrunLink::is_connected)
    }

    /// True when tasks should be read from no further.
    pub fn is_congested(&self) -> bool {
        self.first.is_congested()
    }

    /// Some bytes wait for a connection to take them.
    pub fn has_backlog(&self) -> bool {
        self.links().any(SrunLink::has_backlog)
    }

    fn links(&self) -> impl Iterator<Item = &SrunLink> {
        std::iter::once(&self.first).chain(&self.attached)
    }

    fn link(&mut self, index: usize) -> Option<&mut SrunLink> {
        match index.checked_sub(1) {
            None => Some(&mut self.first),
            Some(at) => self.attached.get_mut(at),
        }
    }

    /// Descriptor of each connection with its index, and whether bytes wait there.
    pub fn descriptors(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>, bool)> {
        self.links()
            .enumerate()
            .filter_map(|(index, link)| Some((index, link.descriptor()?, link.has_backlog())))
    }

    /// Queues a frame for everybody.
    pub fn send(&mut self, frame: &StepFrame) {
        let output = matches!(frame, StepFrame::Output { data, .. } if !data.is_empty());
        if !output && !self.is_connected() {
            return;
        }
        let bytes = match sluice_frames::encode(frame) {
            Ok(bytes) => bytes,
            Err(error) => return complain(&format!("a frame for srun was dropped: {error}")),
        };
        self.first.send_bytes(&bytes);
        for link in &mut self.attached {
            link.send_bytes(&bytes);
            if link.is_congested() {
                complain("an attached command does not take the output and is left out");
                link.disconnect();
            }
        }
        if output {
            self.recent_bytes += bytes.len();
            self.recent.push_back(bytes);
            while self.recent_bytes > RECENT_BYTES_MAX {
                match self.recent.pop_front() {
                    Some(oldest) => self.recent_bytes -= oldest.len(),
                    None => break,
                }
            }
        }
    }

    /// Takes in one more client, tells it `news` and what was said last.
    pub fn attach(&mut self, mut link: SrunLink, news: &[StepFrame]) {
        if self.attached.len() >= ATTACHED_MAX {
            return complain("too many commands are attached: one more is refused");
        }
        for frame in news {
            link.send(frame);
        }
        for bytes in &self.recent {
            link.send_bytes(bytes);
        }
        self.attached.push(link);
    }

    /// Sends what a connection takes now.
    pub fn flush(&mut self, index: usize) {
        if let Some(link) = self.link(index) {
            link.flush();
        }
    }

    /// Frames that arrived on a connection.
    pub fn receive(&mut self, index: usize) -> Vec<SrunFrame> {
        self.link(index).map(SrunLink::receive).unwrap_or_default()
    }

    /// Drops connections that have ended; their indexes are given again.
    pub fn sweep(&mut self) {
        self.attached.retain(SrunLink::is_connected);
    }

    /// True when every connection has what it was sent; see [`SrunLink::has_delivered`].
    pub fn have_delivered(&mut self) -> bool {
        let first = self.first.has_delivered();
        self.attached
            .iter_mut()
            .fold(first, |all, link| link.has_delivered() && all)
    }
}
