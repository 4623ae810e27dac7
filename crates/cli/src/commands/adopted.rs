//! Processes that extern steps took in, as the step daemons of this machine note them.
//!
//! Reads files only. A number that now belongs to another process is left out: the time of its start must be the same. Folders that
//! the caller may not read have none. Source: scontrol(1) listpids, agent reference 6.

use std::path::Path;

/// The file in the folder of a step; see the step daemon's `spec`.
const ADOPTED_FILE: &str = "adopted";

/// Folder of the extern step in that of a job.
const EXTERN_FOLDER: &str = "step_extern";

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Adopted {
    pub pid: u32,
    pub job: u32,
}

/// Adopted processes of all jobs under a spool folder.
pub(super) fn adopted(spool: &Path) -> Vec<Adopted> {
    let folders = std::fs::read_dir(spool).into_iter().flatten().flatten();
    let mut all: Vec<Adopted> = folders
        .filter_map(|folder| {
            let job = folder
                .file_name()
                .to_str()?
                .strip_prefix("job")?
                .parse()
                .ok()?;
            let file = folder.path().join(EXTERN_FOLDER).join(ADOPTED_FILE);
            let text = std::fs::read_to_string(file).ok()?;
            Some(read(job, &text, started_ticks))
        })
        .flatten()
        .collect();
    all.sort_by_key(|process| (process.job, process.pid));
    all
}

fn read(job: u32, text: &str, started: impl Fn(u32) -> Option<u64>) -> Vec<Adopted> {
    text.lines()
        .filter_map(|line| {
            let (pid, ticks) = line.split_once(' ')?;
            let pid = pid.parse().ok()?;
            let alive = started(pid) == ticks.parse().ok();
            alive.then_some(Adopted { pid, job })
        })
        .collect()
}

/// When a process began, in clock ticks since the machine did: field 22 of its `stat`, counted behind the name in brackets.
fn started_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those that are still the same processes.
    #[test]
    fn lines() {
        let started = |pid| (pid < 10).then_some(500);
        assert_eq!(
            read(7, "3 500\n4 400\n12 500\nx\n", started),
            [Adopted { pid: 3, job: 7 }]
        );
        assert!(started_ticks(std::process::id()).is_some());
    }

    /// Found by job in the folders of the agent.
    #[test]
    fn folders() {
        let spool = tempfile::tempdir().expect("folder");
        let step = spool.path().join("job7").join(EXTERN_FOLDER);
        std::fs::create_dir_all(&step).expect("made");
        let own = std::process::id();
        let ticks = started_ticks(own).expect("own process");
        std::fs::write(step.join(ADOPTED_FILE), format!("{own} {ticks}\n")).expect("written");
        assert_eq!(adopted(spool.path()), [Adopted { pid: own, job: 7 }]);
    }
}
