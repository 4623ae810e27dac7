//! The control socket: who may ask, and what the answers are.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use sluice_frames::{Decoder, write_frame};
use sluice_model::ids::StepId;
use sluice_model::launch::StepFrame;

use super::{Connection, Supervisor};
use crate::control::{Audience, ControlReply, ControlRequest};
use crate::log::complain;
use crate::spec::{ADOPTED_FILE, STEP_FOLDER_VARIABLE};
use crate::srun::{Call, SrunLink};
use crate::tree;

/// How long a command that attaches may take to answer. The step's streams stand still meanwhile.
const ATTACH_PATIENCE: Duration = Duration::from_secs(1);

impl Supervisor<'_> {
    pub(super) fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let own = nix::unistd::geteuid().as_raw();
            let allowed = getsockopt(&stream, PeerCredentials)
                .is_ok_and(|peer| peer.uid() == 0 || peer.uid() == own);
            if allowed && stream.set_nonblocking(true).is_ok() {
                self.connections.push(Connection {
                    stream,
                    decoder: Decoder::default(),
                    closed: false,
                });
            }
        }
    }

    pub(super) fn on_control(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let mut chunk = [0; 4096];
        let alive = match connection.stream.read(&mut chunk) {
            Ok(0) => false,
            Ok(length) => {
                connection.decoder.push(&chunk[..length]);
                true
            }
            Err(error) => matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ),
        };
        if !alive {
            connection.closed = true;
            return;
        }
        loop {
            let Some(connection) = self.connections.get_mut(index) else {
                return;
            };
            let reply = match connection.decoder.next_frame::<ControlRequest>() {
                Ok(Some(request)) => self.on_request(request),
                Ok(None) => return,
                Err(error) => ControlReply::Refused {
                    text: error.to_string(),
                },
            };
            let refused = matches!(reply, ControlReply::Refused { .. });
            if let Some(connection) = self.connections.get_mut(index) {
                // Replies are smaller than the socket's buffer; a client that does not read loses its answer.
                let sent = write_frame(&mut connection.stream, &reply);
                if refused || sent.is_err() {
                    connection.closed = true;
                    return;
                }
            }
        }
    }

    pub(super) fn on_request(&mut self, request: ControlRequest) -> ControlReply {
        match request {
            ControlRequest::Ping => {
                return ControlReply::Pong {
                    pids: self.tasks.iter().map(|task| task.pid).collect(),
                };
            }
            ControlRequest::Usage => {
                self.sample_tasks();
                return ControlReply::Usage(self.usage());
            }
            ControlRequest::Signal { audience, signal } => {
                if signal == nix::libc::SIGKILL && audience != Audience::TasksOnly {
                    self.tell_cancelled(" DUE to SIGNAL Killed");
                }
                self.signal(audience, signal);
            }
            ControlRequest::Terminate { grace_secs } => {
                self.tell_cancelled("");
                self.terminate(Duration::from_secs(grace_secs.into()))
            }
            ControlRequest::Suspend => self.suspend(true),
            ControlRequest::Resume => self.suspend(false),
            ControlRequest::Notify { text } => self.notify(&text),
            ControlRequest::Attach { address, secret } => {
                if let Err(error) = self.attach(&address, &secret) {
                    return ControlReply::Refused {
                        text: format!("cannot attach {address}: {error}"),
                    };
                }
            }
            ControlRequest::Adopt { pid } => {
                if self.spec.launch.step_id != StepId::Extern {
                    return ControlReply::Refused {
                        text: "only the extern step takes in processes".to_owned(),
                    };
                }
                // This daemon and what it descends from would end with the step, and everything with them.
                let own = std::process::id();
                let adoptable = tree::stat(pid)
                    .filter(|_| pid > 1 && pid != own && !tree::descendants(pid).contains(&own));
                let Some(process) = adoptable else {
                    return ControlReply::Refused {
                        text: format!("process {pid} cannot become part of a step"),
                    };
                };
                self.cgroup.add(pid);
                self.adopted.push((pid, process.started_ticks));
                self.note_adopted();
            }
        }
        ControlReply::Done
    }

    /// Leaves the adopted processes in the step's folder, where `scontrol listpids` reads them: number and time of start.
    fn note_adopted(&self) {
        let folder = self
            .spec
            .node
            .environment
            .iter()
            .find(|(name, _)| name == STEP_FOLDER_VARIABLE);
        let Some((_, folder)) = folder else { return };
        let text: String = self
            .adopted
            .iter()
            .map(|(pid, started)| format!("{pid} {started}\n"))
            .collect();
        if let Err(error) = std::fs::write(Path::new(folder).join(ADOPTED_FILE), text) {
            complain(&format!("adopted processes cannot be noted: {error}"));
        }
    }

    /// Connects one more client and tells it how the tasks stand.
    fn attach(&mut self, address: &str, secret: &str) -> io::Result<()> {
        let launch = &self.spec.launch;
        let link = SrunLink::connect(&Call {
            address,
            secret,
            node: &launch.node,
            node_index: launch.node_index,
            task_ids: &launch.task_ids,
            patience: ATTACH_PATIENCE,
        })?;
        let mut news = vec![StepFrame::Started {
            pids: self.tasks.iter().map(|task| task.pid).collect(),
            error: None,
        }];
        news.extend(self.tasks.iter().filter_map(|task| {
            Some(StepFrame::TaskExit {
                task: task.rank,
                status: task.status?,
            })
        }));
        self.srun.attach(link, &news);
        Ok(())
    }

    /// The user of a step that is ended from outside hears that it is, once.
    pub(super) fn tell_cancelled(&mut self, cause: &str) {
        let launch = &self.spec.launch;
        let StepId::Num(step) = launch.step_id else {
            return;
        };
        if self.told_cancelled || self.tasks.iter().all(|task| task.status.is_some()) {
            return;
        }
        let text = format!(
            "*** STEP {}.{step} ON {} CANCELLED AT @{}{cause} ***",
            launch.job_id,
            launch.node,
            super::now().0
        );
        self.notify(&text);
    }

    pub(super) fn notify(&mut self, text: &str) {
        self.told_cancelled |= text.contains(" CANCELLED AT ");
        let launch = &self.spec.launch;
        // The same message reaches the batch script and the steps; each is told about itself.
        let job = format!("*** JOB {} ON", launch.job_id);
        let text = match launch.step_id {
            StepId::Num(step) => {
                text.replace(&job, &format!("*** STEP {}.{step} ON", launch.job_id))
            }
            _ => text.to_owned(),
        };
        self.tell_user(&format!("slurmstepd: error: {}", with_local_time(&text)));
    }

    /// One line for the user: through `srun`, or into the tasks' stderr file.
    pub(super) fn tell_user(&mut self, line: &str) {
        if self.srun.is_connected() {
            self.srun.send(&StepFrame::Message {
                text: line.to_owned(),
            });
        } else if let Some(file) = self.launched.stderr_files.iter().flatten().next()
            && let Err(error) = (&mut &**file).write_all(format!("{line}\n").as_bytes())
        {
            complain(&format!(
                "a message could not be written to the step's stderr: {error}"
            ));
        }
    }
}

/// Puts this machine's local time in the place of `AT @SECONDS`: the controller's engine knows no time zone.
fn with_local_time(text: &str) -> String {
    let Some((before, rest)) = text.split_once(" AT @") else {
        return text.to_owned();
    };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (seconds, after) = rest.split_at(digits);
    match seconds.parse::<i64>() {
        Ok(seconds) => {
            let zone = jiff::tz::TimeZone::system();
            let time = sluice_model::time::format_timestamp(
                sluice_model::time::UnixSeconds(seconds),
                &zone,
            );
            format!("{before} AT {time}{after}")
        }
        Err(_) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only a number of seconds is replaced; whatever else an administrator writes reaches the user as it is.
    #[test]
    fn local_time_replaces_seconds_only() {
        let text =
            with_local_time("*** JOB 7 ON n1 CANCELLED AT @1796013680 DUE TO TIME LIMIT ***");
        let time = text
            .strip_prefix("*** JOB 7 ON n1 CANCELLED AT ")
            .and_then(|rest| rest.strip_suffix(" DUE TO TIME LIMIT ***"))
            .expect("the words around stay");
        assert_eq!(time.len(), "2026-11-30T04:41:20".len(), "{time}");
        assert!(time.starts_with("2026-1"), "{time}");
        for other in ["node goes down", "meet AT @noon", "AT @"] {
            assert_eq!(with_local_time(other), other);
        }
    }
}
