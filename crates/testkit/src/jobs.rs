//! What tests ask about jobs, through the commands that a user has.
//!
//! `scontrol show job -o` and `sacct -P` are the two answers that scripts rely on; both are read here as text, so that a
//! test fails when their form changes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cluster::Cluster;
use crate::run::Finished;
use crate::wait::wait_for;

/// Job states after which nothing more happens; from scontrol(1), JobState.
const FINAL_STATES: &[&str] = &[
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "TIMEOUT",
];

/// One line of `sacct`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountingRow {
    /// JobID: `7`, `7.batch`, `7.0`, `8_3`.
    pub id: String,
    /// State, its first word only (`CANCELLED by 0` is `CANCELLED`).
    pub state: String,
    /// ExitCode: `code:signal`.
    pub exit_code: String,
    /// AllocCPUS.
    pub cpus: u32,
    /// NodeList.
    pub nodes: String,
}

impl Cluster {
    /// Submits with `sbatch` and gives the job id from its answer.
    ///
    /// # Errors
    /// When it is refused, or the answer is not exactly `Submitted batch job N`.
    pub fn sbatch<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Result<u32> {
        let answer = self.run("sbatch", args)?.success()?;
        answer
            .strip_prefix("Submitted batch job ")
            .and_then(|rest| rest.strip_suffix('\n'))
            .and_then(|id| id.parse().ok())
            .with_context(|| format!("sbatch answered {answer:?}"))
    }

    /// The fields of `scontrol show job -o`, one map for each record (an array has several).
    ///
    /// # Errors
    /// When `scontrol` fails: among other things when the job is no longer known.
    pub fn show_job(&self, id: &str) -> Result<Vec<BTreeMap<String, String>>> {
        let text = self.run("scontrol", ["show", "job", "-o", id])?.success()?;
        Ok(text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(fields)
            .collect())
    }

    /// The state of a job that is one record.
    ///
    /// # Errors
    /// When the job is not known or is an array of several records.
    pub fn job_state(&self, id: u32) -> Result<String> {
        let records = self.show_job(&id.to_string())?;
        let [record] = records.as_slice() else {
            bail!("job {id} has {} records, not one", records.len());
        };
        let state = record
            .get("JobState")
            .with_context(|| format!("no JobState in {record:?}"))?;
        Ok(state.clone())
    }

    /// Waits until a job is in `state`.
    ///
    /// # Errors
    /// When `deadline` is over.
    pub fn wait_job_state(&self, id: u32, state: &str, deadline: Duration) -> Result<()> {
        wait_for(
            deadline,
            &format!("job {id} to be {state}"),
            || match self.job_state(id) {
                Ok(seen) if seen == state => Ok(()),
                Ok(seen) => Err(seen),
                Err(error) => Err(format!("{error:#}")),
            },
        )
    }

    /// Waits until a job, and every task of it if it is an array, has ended; gives the state of the first record.
    ///
    /// # Errors
    /// When `deadline` is over.
    pub fn wait_job_end(&self, id: u32, deadline: Duration) -> Result<String> {
        wait_for(deadline, &format!("job {id} to end"), || {
            let records = self
                .show_job(&id.to_string())
                .map_err(|error| format!("{error:#}"))?;
            let states: Vec<&str> = records
                .iter()
                .map(|record| record.get("JobState").map_or("", String::as_str))
                .collect();
            match states.first() {
                Some(first) if states.iter().all(|state| FINAL_STATES.contains(state)) => {
                    Ok((*first).to_owned())
                }
                _ => Err(states.join(" ")),
            }
        })
    }

    /// The rows of `sacct` for a job: itself and its steps.
    ///
    /// # Errors
    /// When `sacct` fails or answers in another form.
    pub fn sacct(&self, id: &str) -> Result<Vec<AccountingRow>> {
        accounting_rows(|args| self.run("sacct", args), id)
    }

    /// Waits until the row `row` (`7`, `7.batch`, `7.0`, `7_2`) of a job is in `state` in the accounting; gives it.
    ///
    /// # Errors
    /// When `deadline` is over.
    pub fn wait_accounted(
        &self,
        row: &str,
        state: &str,
        deadline: Duration,
    ) -> Result<AccountingRow> {
        wait_for(deadline, &format!("sacct to say {state} for {row}"), || {
            let id = row.split('.').next().unwrap_or(row);
            let rows = self.sacct(id).map_err(|error| format!("{error:#}"))?;
            rows.iter()
                .find(|have| have.id == row && have.state == state)
                .cloned()
                .ok_or_else(|| format!("{rows:?}"))
        })
    }

    /// The content of a file in the folder where commands run, once it satisfies `is_whole`.
    ///
    /// # Errors
    /// When `deadline` is over.
    pub fn wait_output(
        &self,
        file: &str,
        deadline: Duration,
        is_whole: impl Fn(&str) -> bool,
    ) -> Result<String> {
        let path = self.path("work").join(file);
        wait_for(deadline, &format!("the output in {file}"), || {
            let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
            if is_whole(&text) { Ok(text) } else { Err(text) }
        })
    }
}

/// Asks `sacct`, however it is run, for the rows of a job.
///
/// # Errors
/// When `sacct` fails or answers in another form.
pub fn accounting_rows(
    sacct: impl FnOnce(Vec<OsString>) -> Result<Finished>,
    id: &str,
) -> Result<Vec<AccountingRow>> {
    let args = [
        "-n",
        "-P",
        "-j",
        id,
        "-o",
        "JobID,State,ExitCode,AllocCPUS,NodeList",
    ];
    let text = sacct(args.map(OsString::from).to_vec())?.success()?;
    text.lines().map(accounting_row).collect()
}

fn accounting_row(line: &str) -> Result<AccountingRow> {
    let columns: Vec<&str> = line.split('|').collect();
    let [id, state, exit_code, cpus, nodes] = columns.as_slice() else {
        bail!("sacct answered {line:?}, which is not five columns");
    };
    Ok(AccountingRow {
        id: (*id).to_owned(),
        state: state.split(' ').next().unwrap_or_default().to_owned(),
        exit_code: (*exit_code).to_owned(),
        cpus: cpus
            .parse()
            .with_context(|| format!("AllocCPUS in {line:?}"))?,
        nodes: (*nodes).to_owned(),
    })
}

/// `Key=Value` pairs of one line; a value with blanks keeps only its first word, which is enough for states and counts.
fn fields(line: &str) -> BTreeMap<String, String> {
    line.split_whitespace()
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this, a wrongly read answer would make end-to-end tests say nonsense. Form: sacct(1), `-P`.
    #[test]
    fn a_line_of_sacct_is_read() {
        let row = accounting_row("3.batch|CANCELLED by 0|3:0|2|n[1-2]").unwrap();
        assert_eq!(
            row,
            AccountingRow {
                id: "3.batch".to_owned(),
                state: "CANCELLED".to_owned(),
                exit_code: "3:0".to_owned(),
                cpus: 2,
                nodes: "n[1-2]".to_owned(),
            }
        );
        assert!(accounting_row("3|COMPLETED").is_err());
    }

    /// Without this, `JobState` would not be found among the pairs of scontrol(1)'s `-o` line.
    #[test]
    fn a_line_of_scontrol_is_read() {
        let map = fields("JobId=7 JobName=a JobState=RUNNING Reason=None ExitCode=0:0");
        assert_eq!(map["JobState"], "RUNNING");
        assert_eq!(map["JobId"], "7");
    }
}
