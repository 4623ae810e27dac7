//! Signals to the step: to its tasks or to every process, the kill sequence, suspending.
//!
//! Invariant: a repeated order to end never prolongs the grace, and killing goes on in rounds until nothing is left.

use std::time::{Duration, Instant};

use nix::libc;

use super::{KILL_ROUNDS, SUSPEND_GRACE, Supervisor};
use crate::control::Audience;
use crate::{process, tree};

impl Supervisor<'_> {
    pub(super) fn processes(&self) -> Vec<u32> {
        let mut all = tree::descendants(std::process::id());
        for (pid, started) in &self.adopted {
            if tree::stat(*pid).is_some_and(|process| process.started_ticks == *started) {
                all.push(*pid);
                all.extend(tree::descendants(*pid));
            }
        }
        if self.cgroup.is_active() {
            all.extend(self.cgroup.processes());
            all.sort_unstable();
            all.dedup();
        }
        all
    }

    pub(super) fn signal_tree(&self, signal: i32) {
        for pid in self.processes() {
            process::send_signal(pid, signal);
        }
    }

    pub(super) fn signal_tasks(&self, signal: i32) {
        for task in self.tasks.iter().filter(|task| task.status.is_none()) {
            process::send_signal(task.pid, signal);
        }
    }

    pub(super) fn signal(&mut self, audience: Audience, signal: i32) {
        if signal == libc::SIGKILL && audience != Audience::TasksOnly {
            return self.kill_everything();
        }
        match audience {
            Audience::Tree => self.signal_tree(signal),
            Audience::Tasks if self.spec.node.signal_children => self.signal_tree(signal),
            Audience::Tasks | Audience::TasksOnly => self.signal_tasks(signal),
        }
    }

    pub(super) fn terminate(&mut self, grace: Duration) {
        if self.kill_round.is_some() {
            return;
        }
        if grace.is_zero() {
            return self.kill_everything();
        }
        let at = Instant::now() + grace;
        // A repeated order does not prolong the grace.
        self.kill_at = Some(self.kill_at.map_or(at, |earlier| earlier.min(at)));
        self.stop_at = None;
        self.cgroup.freeze(false);
        self.signal_tree(libc::SIGCONT);
        self.signal_tree(libc::SIGTERM);
    }

    pub(super) fn kill_everything(&mut self) {
        self.kill_at = None;
        self.stop_at = None;
        self.kill_round(KILL_ROUNDS.0);
    }

    pub(super) fn kill_round(&mut self, pause: Duration) {
        // Frozen members of version 1 die only when thawed; version 2 kills them anyway.
        self.cgroup.kill();
        self.signal_tree(libc::SIGKILL);
        self.cgroup.freeze(false);
        self.kill_round = Some((Instant::now() + pause, (pause * 2).min(KILL_ROUNDS.1)));
    }

    pub(super) fn suspend(&mut self, suspended: bool) {
        if self.kill_at.is_some() || self.kill_round.is_some() {
            return;
        }
        if suspended {
            self.signal_tree(libc::SIGTSTP);
            self.stop_at = Some(Instant::now() + SUSPEND_GRACE);
        } else {
            self.stop_at = None;
            self.cgroup.freeze(false);
            self.signal_tree(libc::SIGCONT);
        }
    }
}
