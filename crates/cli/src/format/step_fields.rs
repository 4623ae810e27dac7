//! The fields of squeue's step listing (`-s`).
//!
//! One row a field. Source: squeue(1) and its output.

use std::cmp::Ordering;
use std::sync::Arc;

use sluice_model::step::StepInfo;
use sluice_model::time::{TimeLimit, format_duration_short};

use super::column::Field;
use super::job_rows::JobView;
use super::or_null;

/// Default columns.
pub const FORMAT_DEFAULT: &str = "%.15i %.8j %.9P %.8u %.9M %N";

/// One line of the listing.
#[derive(Debug, Clone)]
pub struct StepRow {
    /// The record.
    pub step: StepInfo,
    /// Shared facts.
    pub view: Arc<JobView>,
}

impl StepRow {
    /// `9.0`, `15_3.batch`.
    #[must_use]
    pub fn id(&self) -> String {
        step_name(&self.step)
    }

    fn run_time(&self) -> i64 {
        let end = self.step.end_time.unwrap_or(self.view.times.now);
        (end - self.step.start_time).max(0)
    }
}

/// The step as users write it.
#[must_use]
pub fn step_name(step: &StepInfo) -> String {
    match (step.array_job_id, step.array_task_id) {
        (Some(array), Some(task)) => format!("{array}_{task}.{}", step.step_id),
        _ => format!("{}.{}", step.job_id, step.step_id),
    }
}

const fn field(
    letter: Option<char>,
    name: &'static str,
    header: &'static str,
    value: fn(&StepRow) -> String,
) -> Field<StepRow> {
    Field {
        letter,
        name,
        header,
        value,
    }
}

/// The table.
pub static FIELDS: &[Field<StepRow>] = &[
    field(Some('A'), "NumTasks", "TASKS", |row| {
        row.step.num_tasks.to_string()
    }),
    field(Some('b'), "tres-per-node", "TRES_PER_NODE", |_| {
        "N/A".to_string()
    }),
    field(Some('C'), "NumCPUs", "CPUS", |row| {
        row.step.num_cpus.to_string()
    }),
    field(Some('F'), "ArrayJobID", "ARRAY_JOB_ID", |row| {
        row.step.array_job_id.unwrap_or(row.step.job_id).to_string()
    }),
    field(Some('i'), "StepID", "STEPID", StepRow::id),
    field(Some('j'), "StepName", "NAME", |row| row.step.name.clone()),
    field(Some('K'), "ArrayTaskID", "ARRAY_TASK_ID", |row| {
        row.step
            .array_task_id
            .map_or_else(|| "N/A".to_string(), |task| task.to_string())
    }),
    field(Some('l'), "TimeLimit", "TIME_LIMIT", |row| {
        match row.step.time_limit {
            TimeLimit::Unlimited => "UNLIMITED".to_string(),
            limit => format_duration_short(limit.seconds().unwrap_or(0)),
        }
    }),
    field(Some('M'), "TimeUsed", "TIME", |row| {
        format_duration_short(row.run_time())
    }),
    field(Some('N'), "NodeList", "NODELIST", |row| {
        row.step.nodes.clone()
    }),
    field(Some('P'), "Partition", "PARTITION", |row| {
        row.step.partition.clone()
    }),
    field(Some('S'), "StartTime", "START_TIME", |row| {
        row.view.times.point(row.step.start_time)
    }),
    field(Some('T'), "StepState", "STATE", |row| {
        row.step.state.name().to_string()
    }),
    field(Some('u'), "UserName", "USER", |row| {
        row.step.user_name.clone()
    }),
    field(Some('U'), "UserID", "UID", |row| row.step.uid.to_string()),
    field(None, "JobID", "JOBID", |row| row.step.job_id.to_string()),
    field(None, "Cluster", "CLUSTER", |row| row.view.cluster.clone()),
    field(None, "Network", "NETWORK", |_| or_null(None)),
    field(None, "ResvPorts", "RESV_PORTS", |_| or_null(None)),
];

/// Compares by a sort list; equal rows keep the order of their ids, steps by number before the batch step.
#[must_use]
pub fn compare_by(list: &str, first: &StepRow, second: &StepRow) -> Ordering {
    let id = |row: &StepRow| (row.step.job_id, row.step.step_id.number());
    for item in list.split(',') {
        let (descending, letters) = match item.trim().strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, item.trim()),
        };
        for letter in letters.chars() {
            let order = match letter {
                'i' => id(first).cmp(&id(second)),
                'M' => first.run_time().cmp(&second.run_time()),
                'S' => first.step.start_time.cmp(&second.step.start_time),
                'A' => first.step.num_tasks.cmp(&second.step.num_tasks),
                letter => match FIELDS.iter().find(|field| field.letter == Some(letter)) {
                    Some(field) => (field.value)(first).cmp(&(field.value)(second)),
                    None => Ordering::Equal,
                },
            };
            let order = if descending { order.reverse() } else { order };
            if order != Ordering::Equal {
                return order;
            }
        }
    }
    id(first).cmp(&id(second))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::column::Layout;
    use crate::format::samples;

    /// The default listing, as a real squeue prints it.
    #[test]
    fn default_listing() {
        let view = Arc::new(samples::view());
        let mut rows: Vec<StepRow> = samples::steps()
            .into_iter()
            .map(|step| StepRow {
                step,
                view: Arc::clone(&view),
            })
            .collect();
        rows.sort_by(|first, second| compare_by("P,i", first, second));
        let (layout, _) = Layout::from_letters(FORMAT_DEFAULT, FIELDS);
        let lines: Vec<String> = std::iter::once(layout.header())
            .chain(rows.iter().map(|row| layout.row(row)))
            .collect();
        assert_eq!(
            lines,
            [
                "         STEPID     NAME PARTITION     USER      TIME NODELIST",
                "            9.0    sleep      main    alice      0:35 n[1-2]",
                "        9.batch    batch      main    alice      0:35 n1",
            ]
        );
    }
}
