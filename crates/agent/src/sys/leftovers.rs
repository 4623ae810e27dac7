//! Processes of a step whose step daemon is gone.
//!
//! Found by the variables that every task gets, because nothing else ties them to the step any more. Blocking; only used
//! when something went wrong. A process that has cleared its environment escapes this search.

use std::fs;
use std::path::Path;
use std::time::Duration;

use sluice_stepd::process::send_signal;
use sluice_stepd::tree::{all_processes, stat};

/// Rounds of SIGKILL before giving up.
const ROUNDS_MAX: u32 = 50;
const SIGKILL: i32 = 9;

/// Variable that every task of a step carries: the step's folder. Unlike job and node names it is the only one of its kind on a
/// machine where several clusters run.
pub use sluice_stepd::spec::STEP_FOLDER_VARIABLE;

/// Kills what is left of the step with this folder; returns how many processes were found.
pub fn kill_step(folder: &Path) -> usize {
    let marks = [format!("{STEP_FOLDER_VARIABLE}={}", folder.display())];
    let mut found = 0;
    for round in 0..ROUNDS_MAX {
        let members: Vec<u32> = all_processes()
            .into_iter()
            .filter(|pid| carries(*pid, &marks))
            .collect();
        if members.is_empty() {
            break;
        }
        found = found.max(members.len());
        for pid in members {
            send_signal(pid, SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(u64::from(round.min(20)) * 5));
    }
    found
}

fn carries(pid: u32, marks: &[String]) -> bool {
    if pid == std::process::id() || stat(pid).is_none_or(|stat| stat.zombie) {
        return false;
    }
    // Unreadable without rights over the process; then it is not ours to kill either.
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
        return false;
    };
    marks.iter().all(|mark| {
        environment
            .split(|byte| *byte == 0)
            .any(|entry| entry == mark.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Only processes of that very step may die: another cluster on the machine has the same job and node names.
    #[test]
    fn only_the_step_is_killed() {
        let spool = tempfile::tempdir().expect("folder");
        let (own, other) = (spool.path().join("a"), spool.path().join("b"));
        let start = |folder: &Path| {
            Command::new("sleep")
                .arg("60")
                .env("SLURM_JOB_ID", "7")
                .env(STEP_FOLDER_VARIABLE, folder)
                .spawn()
                .expect("sleep")
        };
        let mut victim = start(&own);
        let mut neighbour = start(&other);
        // The environment appears with exec.
        while fs::read(format!("/proc/{}/cmdline", victim.id()))
            .is_ok_and(|line| !line.starts_with(b"sleep"))
        {}
        assert_eq!(kill_step(&own), 1);
        assert!(!victim.wait().expect("ended").success());
        assert!(
            neighbour.try_wait().expect("state").is_none(),
            "still there"
        );
        neighbour.kill().expect("cleanup");
        neighbour.wait().expect("cleanup");
    }
}
