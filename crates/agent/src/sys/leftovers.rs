//! Processes of a step whose step daemon is gone.
//!
//! Found by the variables that every task gets, because nothing else ties them to the step any more. Blocking; only used
//! when something went wrong. A process that has cleared its environment escapes this search.

use std::fs;
use std::time::Duration;

use sluice_model::launch::LiveStep;
use sluice_stepd::process::send_signal;
use sluice_stepd::tree::{all_processes, stat};

/// Rounds of SIGKILL before giving up.
const ROUNDS_MAX: u32 = 50;
const SIGKILL: i32 = 9;

/// Kills what is left of a step on a node; returns how many processes were found.
pub fn kill_step(node: &str, step: LiveStep) -> usize {
    let marks = [
        format!("SLURM_JOB_ID={}", step.job_id),
        format!("SLURM_STEP_ID={}", step.step_id.number().cast_signed()),
        format!("SLURMD_NODENAME={node}"),
    ];
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

    use sluice_model::ids::{JobId, StepId};

    use super::*;

    /// Only processes of that very step on that very node may die.
    #[test]
    fn only_the_step_is_killed() {
        let job = 4_000_000 + std::process::id() % 100_000;
        let start = |step: &str, node: &str| {
            Command::new("sleep")
                .arg("60")
                .env("SLURM_JOB_ID", job.to_string())
                .env("SLURM_STEP_ID", step)
                .env("SLURMD_NODENAME", node)
                .spawn()
                .expect("sleep")
        };
        let mut victim = start("-5", "n1");
        let mut others = [start("0", "n1"), start("-5", "n2")];
        // The environment appears with exec.
        while fs::read(format!("/proc/{}/cmdline", victim.id()))
            .is_ok_and(|line| !line.starts_with(b"sleep"))
        {}
        let step = LiveStep {
            job_id: JobId(job),
            attempt: 0,
            step_id: StepId::Batch,
        };
        assert_eq!(kill_step("n1", step), 1);
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&victim.wait().expect("wait")),
            Some(9)
        );
        for other in &mut others {
            assert!(other.try_wait().expect("wait").is_none());
            other.kill().expect("kill");
            other.wait().expect("wait");
        }
    }
}
