//! Processes: the identity of one, what it is, and which belong to a cluster.
//!
//! A pid alone may have been given to another process since; an identity here is pid and start time, so a stale
//! description never kills a stranger. Source: proc(5), field 22 of `/proc/PID/stat`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// One process for as long as it lives: its pid and the clock ticks after boot at which it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks after boot.
    pub start_ticks: u64,
}

struct Stat {
    parent: u32,
    state: u8,
    start_ticks: u64,
}

impl ProcessId {
    /// The process that has `pid` now; `None` when there is none.
    pub fn of(pid: u32) -> Option<Self> {
        stat(pid).map(|stat| Self {
            pid,
            start_ticks: stat.start_ticks,
        })
    }

    /// Whether it still runs. A zombie, which only waits to be reaped, does not.
    pub fn is_alive(self) -> bool {
        stat(self.pid)
            .is_some_and(|stat| stat.start_ticks == self.start_ticks && stat.state != b'Z')
    }

    /// Sends a signal if the process still is the one meant; gives whether it was sent.
    pub fn signal(self, signal: Signal) -> bool {
        self.is_alive() && kill(Pid::from_raw(self.pid as i32), signal) != Err(Errno::ESRCH)
    }
}

fn stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the command in parentheses and may itself hold blanks and parentheses.
    let after = &text[text.rfind(')')? + 2..];
    let mut fields = after.split(' ');
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    // Fields 3 and 4 are taken; 22 is the 18th after field 4.
    let start_ticks = fields.nth(17)?.parse().ok()?;
    Some(Stat {
        parent,
        state,
        start_ticks,
    })
}

/// The daemons, step daemons and job processes of the cluster in `dir`, with everything below them.
///
/// The calling process and its ancestors are never among them: a shell in which a user works with the cluster, and
/// from which `sluice down` is called, must survive it.
pub(crate) fn processes_of(dir: &Path) -> BTreeSet<ProcessId> {
    let mut parents = BTreeMap::new();
    let mut found = BTreeSet::new();
    for pid in pids() {
        let Some(stat) = stat(pid) else { continue };
        parents.insert(pid, stat.parent);
        if stat.state != b'Z' && belongs(pid, dir) {
            found.insert(pid);
        }
    }
    let spared = ancestors(std::process::id(), &parents);
    for &pid in parents.keys() {
        if ancestors(pid, &parents).iter().any(|up| found.contains(up)) {
            found.insert(pid);
        }
    }
    found
        .difference(&spared)
        .filter_map(|pid| ProcessId::of(*pid))
        .collect()
}

/// The processes that `pid` started itself.
pub(crate) fn children_of(pid: u32) -> Vec<ProcessId> {
    pids()
        .filter(|child| stat(*child).is_some_and(|stat| stat.parent == pid))
        .filter_map(ProcessId::of)
        .collect()
}

fn pids() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// `pid` and everything above it.
fn ancestors(pid: u32, parents: &BTreeMap<u32, u32>) -> BTreeSet<u32> {
    let mut chain = BTreeSet::from([pid]);
    let mut at = pid;
    while let Some(&up) = parents.get(&at) {
        if up == 0 || !chain.insert(up) {
            break;
        }
        at = up;
    }
    chain
}

/// A daemon that names a file of `dir` on its command line, or a process of a job of that cluster.
fn belongs(pid: u32, dir: &Path) -> bool {
    let inside = format!("{}/", dir.display());
    let name = std::fs::read_link(format!("/proc/{pid}/exe"))
        .ok()
        .and_then(|exe| Some(exe.file_name()?.to_str()?.to_owned()))
        .unwrap_or_default();
    // A program that was rebuilt while it ran shows as "ctld (deleted)".
    let is_daemon = ["ctld", "agentd", "stepd"].contains(&name.trim_end_matches(" (deleted)"));
    let words = |file: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        bytes
            .split(|byte| *byte == 0)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect::<Vec<_>>()
    };
    if is_daemon && words("cmdline").iter().any(|word| word.contains(&inside)) {
        return true;
    }
    let environment = words("environ");
    let is_ours = environment
        .iter()
        .any(|pair| pair.starts_with(&format!("SLURM_CONF={inside}")));
    if !is_ours && !environment.contains(&format!("{CLUSTER_DIR_VARIABLE}={}", dir.display())) {
        return false;
    }
    // SLURM_CONF alone is also in a user's shell; a job has a job id besides.
    is_daemon
        || (is_ours
            && environment
                .iter()
                .any(|pair| pair.starts_with("SLURM_JOB_ID=")))
}

/// Set in the environment of the daemons, so that step daemons which they start can be told to belong to a cluster.
pub(crate) const CLUSTER_DIR_VARIABLE: &str = "SLUICE_CLUSTER_DIR";

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Without this, a pid given anew would be taken for the old process and killed.
    #[test]
    fn another_start_time_is_another_process() {
        let own = ProcessId::of(std::process::id()).unwrap();
        assert!(own.is_alive());
        let stranger = ProcessId {
            start_ticks: own.start_ticks + 1,
            ..own
        };
        assert!(!stranger.is_alive());
        assert!(!stranger.signal(Signal::SIGKILL));
    }

    /// Without this, an ended but unreaped daemon would count as running.
    #[test]
    fn a_zombie_is_not_alive() {
        let mut child = Command::new("/bin/true").spawn().unwrap();
        let id = ProcessId::of(child.id());
        let ended = crate::wait_until(
            std::time::Duration::from_secs(5),
            "the child to end",
            || id.is_none_or(|id| !id.is_alive()),
        );
        child.wait().unwrap();
        ended.unwrap();
    }

    /// Without this, job processes would outlive `sluice down`, or a user's shell would be killed by it.
    #[test]
    fn a_job_process_belongs_and_a_users_shell_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("etc/slurm.conf");
        let spawn = |job: bool| {
            let mut command = Command::new("/bin/sleep");
            command.arg("1000").env("SLURM_CONF", &conf);
            if job {
                command.env("SLURM_JOB_ID", "7");
            }
            command.spawn().unwrap()
        };
        let mut job = spawn(true);
        let mut shell = spawn(false);
        let found = crate::wait_for(
            std::time::Duration::from_secs(5),
            "the job process to show its environment",
            || {
                let pids: Vec<u32> = processes_of(dir.path()).iter().map(|p| p.pid).collect();
                if pids.is_empty() {
                    Err("none".to_owned())
                } else {
                    Ok(pids)
                }
            },
        );
        for child in [&mut job, &mut shell] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(found.unwrap(), [job.id()]);
    }
}
