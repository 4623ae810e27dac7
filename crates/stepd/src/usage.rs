//! Resource use of a step: what the kernel counted for ended processes, and samples of the living.
//!
//! CPU times and fault counts are exact (from `wait4`); the resident set is the larger of the kernel's high-water mark of
//! a single process and the highest sampled sum over a task's processes; the virtual size is sampled only, so a short
//! task may show 0. CPU in microseconds, memory in KiB.

use std::time::Duration;

use sluice_model::launch::StepUsage;

use crate::process::{ProcessUsage, children_usage};
use crate::tree;

/// Figures of one task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskUsage {
    max_rss_kib: u64,
    max_vsize_kib: u64,
    major_faults: u64,
    read_bytes: u64,
    written_bytes: u64,
}

impl TaskUsage {
    /// Adds a look at the task's living processes; returns their resident set together.
    pub fn sample(&mut self, pid: u32) -> u64 {
        let mut rss_kib = 0;
        let mut vsize_kib = 0;
        for process in std::iter::once(pid)
            .chain(tree::descendants(pid))
            .filter_map(tree::stat)
        {
            rss_kib += process.rss_kib;
            vsize_kib += process.vsize_kib;
        }
        self.max_rss_kib = self.max_rss_kib.max(rss_kib);
        self.max_vsize_kib = self.max_vsize_kib.max(vsize_kib);
        self.read_io(pid);
        rss_kib
    }

    /// Reads the I/O counters, also of an ended task that is not reaped yet.
    pub fn read_io(&mut self, pid: u32) {
        if let Some((read, written)) = tree::io_bytes(pid) {
            self.read_bytes = self.read_bytes.max(read);
            self.written_bytes = self.written_bytes.max(written);
        }
    }

    /// Adds what the kernel counted when the task was reaped.
    pub fn ended(&mut self, usage: &ProcessUsage) {
        self.max_rss_kib = self.max_rss_kib.max(usage.max_rss_kib);
        self.major_faults = self.major_faults.max(usage.major_faults);
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The step's figures from those of its tasks, `(rank, usage)`, and of all its processes.
pub fn step_usage<'a>(
    tasks: impl IntoIterator<Item = (u32, &'a TaskUsage)>,
    living: &[u32],
) -> StepUsage {
    let children = children_usage();
    let mut usage = StepUsage {
        user_cpu_us: microseconds(children.user_cpu),
        system_cpu_us: microseconds(children.system_cpu),
        ..StepUsage::default()
    };
    for (rank, task) in tasks {
        if task.max_rss_kib > usage.max_rss_kib {
            usage.max_rss_kib = task.max_rss_kib;
            usage.max_rss_task = rank;
        }
        usage.total_rss_kib += task.max_rss_kib;
        usage.max_vsize_kib = usage.max_vsize_kib.max(task.max_vsize_kib);
        usage.max_pages = usage.max_pages.max(task.major_faults);
        usage.disk_read_bytes += task.read_bytes;
        usage.disk_write_bytes += task.written_bytes;
    }
    if !living.is_empty() {
        let tick_us = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)
            .ok()
            .flatten()
            .and_then(|ticks| u64::try_from(ticks).ok())
            .filter(|ticks| *ticks > 0)
            .map_or(10_000, |ticks| 1_000_000 / ticks);
        for process in living.iter().copied().filter_map(tree::stat) {
            usage.user_cpu_us += process.user_ticks * tick_us;
            usage.system_cpu_us += process.system_ticks * tick_us;
        }
    }
    usage
}
