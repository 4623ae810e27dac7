//! What the users of the campaign do: submit jobs of several kinds, cancel some, requeue some.
//!
//! Every run of a job appends the line `KEY ATTEMPT` to the file `runs`, which tells afterwards what really ran.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sluice_proto::v1::{HoldKind, JobDescription};
use sluice_testkit::Random;

use super::client::Client;

/// What a job does and what is done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Exits with this code.
    Exit(u8),
    /// An array of three tasks; each exits with its index.
    Array,
    /// Runs for ever, until it is cancelled, waiting or running.
    Cancelled,
    /// Is held, and cancelled.
    CancelledHeld,
    /// The first run lasts until the job is requeued; a later one exits with this code.
    Requeued(u8),
}

/// A job that the controller has acknowledged.
#[derive(Debug, Clone)]
pub struct Acknowledged {
    pub id: u32,
    pub key: String,
    pub kind: Kind,
}

impl Acknowledged {
    /// `JobID` of each row of sacct, with the state and exit code expected.
    pub fn expected(&self) -> BTreeMap<String, (&'static str, String)> {
        let exit = |code: u8| match code {
            0 => ("COMPLETED", "0:0".to_owned()),
            code => ("FAILED", format!("{code}:0")),
        };
        match self.kind {
            Kind::Exit(code) | Kind::Requeued(code) => {
                BTreeMap::from([(self.id.to_string(), exit(code))])
            }
            Kind::Array => (0..3)
                .map(|task| (format!("{}_{task}", self.id), exit(task)))
                .collect(),
            Kind::Cancelled | Kind::CancelledHeld => {
                BTreeMap::from([(self.id.to_string(), ("CANCELLED", String::new()))])
            }
        }
    }

    /// Names under which its runs are written down.
    pub fn run_keys(&self) -> Vec<String> {
        match self.kind {
            Kind::Array => (0..3).map(|task| format!("{}-{task}", self.key)).collect(),
            _ => vec![self.key.clone()],
        }
    }
}

/// Submits `count` jobs and does with them what their kind says; gives them all.
pub fn work(
    socket: PathBuf,
    runs: PathBuf,
    user: &str,
    count: usize,
    pause_ms: u64,
    mut random: Random,
) -> Vec<Acknowledged> {
    let mut client = Client::new(socket);
    let mut done = Vec::new();
    let mut to_do: Vec<(Acknowledged, Instant)> = Vec::new();
    // The long form on a busy machine takes minutes.
    let deadline = Instant::now() + Duration::from_secs(900);
    for number in 0..count {
        let kind = match random.below(10) {
            0..=4 => Kind::Exit(random.below(4) as u8),
            5 => Kind::Array,
            6 | 7 => Kind::Cancelled,
            8 => Kind::CancelledHeld,
            _ => Kind::Requeued(random.below(4) as u8),
        };
        let key = format!("{user}{number}");
        let id = client.submit(&description(&key, kind, &runs, &mut random));
        let job = Acknowledged { id, key, kind };
        done.push(job.clone());
        if !matches!(kind, Kind::Exit(_) | Kind::Array) {
            to_do.push((job, Instant::now() + random.millis(0, 1_500)));
        }
        std::thread::sleep(random.millis(0, pause_ms));
        meddle(&mut client, &done, &mut random);
        follow_up(&mut client, &mut to_do, &runs);
    }
    while !to_do.is_empty() {
        assert!(Instant::now() < deadline, "jobs that never ran: {to_do:?}");
        std::thread::sleep(Duration::from_millis(50));
        follow_up(&mut client, &mut to_do, &runs);
    }
    done
}

/// Changes that users make to jobs of theirs, whatever state those are in; none changes how a job ends.
fn meddle(client: &mut Client, jobs: &[Acknowledged], random: &mut Random) {
    let Some(job) = random
        .pick(jobs)
        .filter(|job| job.kind != Kind::CancelledHeld)
    else {
        return;
    };
    match random.below(4) {
        0 => client.update_comment(job.id, &format!("seen {}", random.below(100))),
        1 => {
            client.hold(job.id, HoldKind::Uhold);
            client.hold(job.id, HoldKind::Release);
        }
        _ => {}
    }
}

fn follow_up(client: &mut Client, to_do: &mut Vec<(Acknowledged, Instant)>, runs: &Path) {
    let text = std::fs::read_to_string(runs).unwrap_or_default();
    to_do.retain(|(job, due)| {
        if Instant::now() < *due {
            return true;
        }
        match job.kind {
            Kind::Requeued(_) => {
                let first = format!("{} 0", job.key);
                if !text.lines().any(|line| line == first) {
                    return true;
                }
                client.requeue(job.id);
            }
            _ => client.cancel(job.id),
        }
        false
    });
}

fn description(key: &str, kind: Kind, runs: &Path, random: &mut Random) -> JobDescription {
    let nap = random.below(300);
    let end = match kind {
        Kind::Exit(code) => format!("sleep 0.{nap:03}; exit {code}"),
        Kind::Array => format!("sleep 0.{nap:03}; exit $SLURM_ARRAY_TASK_ID"),
        Kind::Cancelled | Kind::CancelledHeld => "sleep 1000".to_owned(),
        Kind::Requeued(code) => {
            format!("[ ${{SLURM_RESTART_COUNT:-0}} -gt 0 ] || sleep 1000; exit {code}")
        }
    };
    let script = format!(
        "#!/bin/sh\necho \"{key}${{SLURM_ARRAY_TASK_ID:+-$SLURM_ARRAY_TASK_ID}} ${{SLURM_RESTART_COUNT:-0}}\" >> {}\n{end}\n",
        runs.display()
    );
    JobDescription {
        name: Some(key.to_owned()),
        script: Some(script.into_bytes()),
        work_dir: "/tmp".to_owned(),
        std_out: Some("/dev/null".to_owned()),
        environment: vec!["PATH=/usr/bin:/bin".to_owned()],
        batch: true,
        hold: kind == Kind::CancelledHeld,
        array: (kind == Kind::Array).then(|| "0-2".to_owned()),
        requeue: Some(matches!(kind, Kind::Requeued(_))),
        submission_key: key.to_owned(),
        umask: 0o022,
        ..JobDescription::default()
    }
}
