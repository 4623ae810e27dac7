//! TaskProlog: a script run as the user right before a task, whose output changes the task's environment.
//!
//! Runs inside the forked task. Lines of its stdout: `export NAME=value`, `unset NAME`, `print text`; others are
//! ignored. Source: `slurm.conf(5)`, TaskProlog.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use crate::environment::Environment;

/// Exit code when a TaskProlog cannot be run or is killed.
const FAILED: i32 = 1;

/// Runs one script and applies its output. The error is the exit code for the task.
pub fn run_task_prolog(script: &str, environment: &mut Environment) -> Result<(), i32> {
    let output = Command::new(script)
        .env_clear()
        .envs(environment.iter())
        .env("SLURM_SCRIPT_CONTEXT", "prolog_task")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| {
            let _ = writeln!(
                std::io::stderr(),
                "slurmstepd: error: TaskProlog {script}: {error}"
            );
            FAILED
        })?;
    if !output.status.success() {
        return Err(output
            .status
            .code()
            .filter(|_| output.status.signal().is_none())
            .unwrap_or(FAILED));
    }
    let mut printed = String::new();
    apply_output(
        &String::from_utf8_lossy(&output.stdout),
        environment,
        &mut printed,
    );
    if !printed.is_empty() {
        let mut stdout = std::io::stdout();
        let _ = stdout
            .write_all(printed.as_bytes())
            .and_then(|()| stdout.flush());
    }
    Ok(())
}

fn apply_output(output: &str, environment: &mut Environment, printed: &mut String) {
    for line in output.lines() {
        let Some((verb, rest)) = line.trim_start().split_once([' ', '\t']) else {
            continue;
        };
        match verb {
            "export" => {
                if let Some((name, value)) = rest
                    .trim_start()
                    .split_once('=')
                    .filter(|(name, _)| !name.trim().is_empty())
                {
                    environment.set(name.trim(), value);
                }
            }
            "unset" => environment.unset(rest.trim()),
            "print" => {
                printed.push_str(rest);
                printed.push('\n');
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The three verbs of slurm.conf(5), and noise that must not become a variable.
    #[test]
    fn output_lines_change_the_environment() {
        let mut environment = Environment::from_strings(&["OLD=1".to_owned(), "KEEP=2".to_owned()]);
        let mut printed = String::new();
        apply_output(
            "export A=b c=d\nunset OLD\nprint hello  you\nexport =x\nnoise\nA=z\n",
            &mut environment,
            &mut printed,
        );
        assert_eq!(
            environment.iter().collect::<Vec<_>>(),
            [("KEEP", "2"), ("A", "b c=d")]
        );
        assert_eq!(printed, "hello  you\n");
    }
}
