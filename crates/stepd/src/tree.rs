//! Processes by ancestry: which ones descend from a process, and how much memory they have.
//!
//! Reads `/proc` only. Because the step daemon is a subreaper, every process of its step is its descendant, also after
//! `setsid` and double forks. A list is out of date the moment it is made; killers repeat it until nothing is left.
//! Memory in KiB.

use std::collections::{HashMap, HashSet};
use std::fs;

/// What `/proc/PID/stat` tells about a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessStat {
    /// Process id.
    pub pid: u32,
    /// Parent.
    pub parent: u32,
    /// Ended and not reaped.
    pub zombie: bool,
    /// User CPU time in clock ticks, without children.
    pub user_ticks: u64,
    /// System CPU time in clock ticks, without children.
    pub system_ticks: u64,
    /// Resident set, KiB.
    pub rss_kib: u64,
    /// Virtual size, KiB.
    pub vsize_kib: u64,
    /// When it was started, in clock ticks since the boot. With the id it names the process for ever.
    pub started_ticks: u64,
}

/// Reads one process; `None` when it is gone.
pub fn stat(pid: u32) -> Option<ProcessStat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<ProcessStat> {
    // The command stands in parentheses and may hold spaces and parentheses itself.
    let (head, tail) = text.rsplit_once(')')?;
    let pid = head.split(' ').next()?.parse().ok()?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let number = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<u64>().ok())
    };
    Some(ProcessStat {
        pid,
        parent: u32::try_from(number(1)?).ok()?,
        zombie: matches!(fields.first(), Some(&("Z" | "X"))),
        user_ticks: number(11)?,
        system_ticks: number(12)?,
        vsize_kib: number(20)? / 1024,
        rss_kib: number(21)? * (page_bytes() / 1024),
        started_ticks: number(19)?,
    })
}

fn page_bytes() -> u64 {
    nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|bytes| u64::try_from(bytes).ok())
        .unwrap_or(4096)
}

/// Descendants of `root`, without `root` itself, in no order.
pub fn descendants(root: u32) -> Vec<u32> {
    match children_of(root) {
        Some(first) => {
            let mut all = Vec::new();
            let mut seen = HashSet::from([root]);
            let mut queue = first;
            while let Some(pid) = queue.pop() {
                if seen.insert(pid) {
                    all.push(pid);
                    queue.extend(children_of(pid).unwrap_or_default());
                }
            }
            all
        }
        None => descendants_by_scan(root),
    }
}

/// Children of all threads of a process; `None` when the kernel does not list them (or the process is gone).
fn children_of(pid: u32) -> Option<Vec<u32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let text = match thread {
            Ok(thread) => fs::read_to_string(thread.path().join("children")),
            Err(error) => Err(error),
        };
        match text {
            Ok(text) => children.extend(
                text.split_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            ),
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound && pid == std::process::id() =>
            {
                return None;
            }
            Err(_) => {}
        }
    }
    Some(children)
}

fn descendants_by_scan(root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for process in all_processes().into_iter().filter_map(stat) {
        children
            .entry(process.parent)
            .or_default()
            .push(process.pid);
    }
    let mut all = Vec::new();
    let mut queue = vec![root];
    while let Some(pid) = queue.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            all.push(child);
            queue.push(child);
        }
    }
    all
}

/// Ids of all processes of the machine.
pub fn all_processes() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// Bytes a process (and the children it reaped) has read and written; readable until it is reaped.
pub fn io_bytes(pid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|value| value.trim().parse::<u64>().ok())
    };
    Some((field("rchar:")?, field("wchar:")?))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A command name with spaces and parentheses must not shift the fields.
    #[test]
    fn stat_line_with_a_hostile_name() {
        let fields = "S 7 42 42 0 -1 4194304 90 0 3 0 250 31 0 0 20 0 1 0 100 2097152 256 18446744073709551615";
        let stat = parse_stat(&format!("42 (a) S 1 (b) {fields}\n")).expect("stat");
        assert_eq!(
            stat,
            ProcessStat {
                pid: 42,
                parent: 7,
                zombie: false,
                user_ticks: 250,
                system_ticks: 31,
                vsize_kib: 2048,
                rss_kib: 256 * page_bytes() / 1024,
                started_ticks: 100,
            }
        );
    }

    /// The fast walk over `children` files and the scan of `/proc` must see the same grandchild.
    #[test]
    fn both_walks_find_a_grandchild() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("sh");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("pid");
        let grandchild: u32 = line.trim().parse().expect("number");
        let own = std::process::id();
        for found in [descendants(own), descendants_by_scan(own)] {
            assert!(
                found.contains(&child.id()) && found.contains(&grandchild),
                "{found:?}"
            );
        }
        crate::process::send_signal(grandchild, 9);
        child.wait().expect("wait");
    }
}
