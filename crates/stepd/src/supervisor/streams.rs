//! The tasks' streams to and from `srun`.
//!
//! Nothing here blocks. Ended streams are marked and dropped at the end of the round, because a round names them by index.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sluice_frames::OUTPUT_CHUNK_BYTES;
use sluice_model::launch::{SrunFrame, StepFrame, TASK_FAILURE_SIGNAL};

use super::{Input, Supervisor};
use crate::control::Audience;
use crate::process;

/// Time between SIGTERM and SIGKILL after a task has failed.
const FAILURE_GRACE: Duration = Duration::from_secs(30);

impl Supervisor<'_> {
    pub(super) fn on_srun(&mut self, client: usize, frame: SrunFrame) {
        match frame {
            SrunFrame::Welcome | SrunFrame::Challenge { .. } => {}
            // Only the srun that started the step ends its input: one that attached goes without a trace.
            SrunFrame::Input { data, .. } if data.is_empty() && client > 0 => {}
            SrunFrame::Signal {
                signal: TASK_FAILURE_SIGNAL,
            } => {
                self.tell_cancelled(" DUE TO TASK FAILURE");
                self.terminate(FAILURE_GRACE);
            }
            SrunFrame::Signal { signal } => self.signal(Audience::Tasks, signal),
            SrunFrame::WindowSize { rows, columns } => {
                for input in self.inputs.iter().filter(|input| input.end.terminal) {
                    process::set_window_size(input.end.descriptor.as_fd(), rows, columns);
                }
            }
            SrunFrame::Input { task, data } => {
                let tasks = &self.tasks;
                let wanted = |input: &Input| {
                    task.is_none_or(|rank| {
                        tasks
                            .get(input.end.task)
                            .is_some_and(|task| task.rank == rank)
                    })
                };
                for input in self.inputs.iter_mut().filter(|input| wanted(input)) {
                    if data.is_empty() {
                        input.closing = true;
                        if input.end.terminal {
                            // End of file as a terminal says it.
                            input.waiting.push_back(4);
                        }
                    } else {
                        input.waiting.extend(&data);
                    }
                    write_input(input);
                }
            }
        }
    }

    /// Reads one chunk; at the end the output is marked as ended.
    pub(super) fn read_output(&mut self, index: usize) {
        let Some(output) = self.outputs.get_mut(index).filter(|output| !output.ended) else {
            return;
        };
        let mut chunk = vec![0; OUTPUT_CHUNK_BYTES];
        let data = match nix::unistd::read(&output.descriptor, &mut chunk) {
            Ok(length) => {
                chunk.truncate(length);
                chunk
            }
            Err(Errno::EAGAIN | Errno::EINTR) => return,
            // A terminal answers EIO when its last user is gone.
            Err(_) => Vec::new(),
        };
        let ended = data.is_empty();
        let task = self
            .tasks
            .get(output.task)
            .map_or(u32::MAX, |task| task.rank);
        self.srun.send(&StepFrame::Output {
            task,
            is_stderr: output.is_stderr,
            data,
        });
        output.ended = ended;
    }

    /// Takes what is left in the pipes after the last process is gone.
    pub(super) fn drain_outputs(&mut self) {
        for index in 0..self.outputs.len() {
            while let Some(output) = self.outputs.get(index).filter(|output| !output.ended) {
                // A descriptor that was passed to a process outside the step never ends; what is there now is taken.
                let mut set = [PollFd::new(output.descriptor.as_fd(), PollFlags::POLLIN)];
                if !matches!(poll(&mut set, PollTimeout::ZERO), Ok(1..)) {
                    break;
                }
                self.read_output(index);
            }
        }
        self.outputs.clear();
    }
}

/// Gives a task what it takes now.
pub(super) fn write_input(input: &mut Input) {
    while !input.waiting.is_empty() {
        let (front, _) = input.waiting.as_slices();
        match nix::unistd::write(&input.end.descriptor, front) {
            Ok(length) => {
                input.waiting.drain(..length);
            }
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return,
            Err(_) => {
                // The task has closed its stdin; the rest has no reader.
                input.waiting.clear();
                input.closing = true;
            }
        }
    }
}
