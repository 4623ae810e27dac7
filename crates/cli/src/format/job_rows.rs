//! The lines of squeue before they are printed: one job, one array rest, one task of it, or one partition of a job.
//!
//! Pure. Rows share the record; what `-r` or `-P` changes is kept beside it.

use std::sync::Arc;

use sluice_model::array::IndexSet;
use sluice_model::job::JobInfo;
use sluice_model::state::JobState;
use sluice_model::time::{TimeLimit, UnixSeconds};

use super::time_style::TimeStyle;

/// What all rows of a listing share.
#[derive(Debug, Clone)]
pub struct JobView {
    /// Times.
    pub times: TimeStyle,
    /// ClusterName.
    pub cluster: String,
    /// Longest text of an index list (SLURM_BITSTR_LEN); 0 = no limit.
    pub index_text_max: usize,
    /// Do not change units of memory.
    pub exact_sizes: bool,
    /// Show expanded filename patterns.
    pub expand_patterns: bool,
}

/// One line of squeue.
#[derive(Debug, Clone)]
pub struct JobRow {
    /// The record.
    pub job: Arc<JobInfo>,
    /// A task of the record's array that is shown by itself.
    pub task: Option<u32>,
    /// The partition shown, when it is one of several.
    pub partition: Option<String>,
    /// Shared facts.
    pub view: Arc<JobView>,
}

impl JobRow {
    /// The record as it is.
    #[must_use]
    pub fn new(job: &Arc<JobInfo>, view: &Arc<JobView>) -> Self {
        Self {
            job: Arc::clone(job),
            task: None,
            partition: None,
            view: Arc::clone(view),
        }
    }

    /// `15_3`, `15_[1,3%2]` or `15`.
    #[must_use]
    pub fn array_id(&self) -> String {
        let job = &self.job;
        if let (Some(leader), Some(offset)) = (job.het_job_id, job.het_job_offset) {
            return format!("{leader}+{offset}");
        }
        let Some(array) = job.array_job_id else {
            return job.job_id.to_string();
        };
        if let Some(task) = self.task.or(job.array_task_id) {
            return format!("{array}_{task}");
        }
        match self.task_list() {
            Some(list) => format!("{array}_[{list}]"),
            None => array.to_string(),
        }
    }

    /// Task or task list of an array, `1,3,5%2`.
    #[must_use]
    pub fn task_list(&self) -> Option<String> {
        if let Some(task) = self.task.or(self.job.array_task_id) {
            return Some(task.to_string());
        }
        let list = self
            .job
            .array_task_string
            .as_deref()
            .filter(|list| !list.is_empty())?;
        let mut text = cut_index_list(list, self.view.index_text_max);
        if self.job.array_max_tasks > 0 {
            text.push_str(&format!("%{}", self.job.array_max_tasks));
        }
        Some(text)
    }

    /// Seconds it has run.
    #[must_use]
    pub fn run_time(&self) -> i64 {
        run_time(&self.job, self.view.times.now)
    }

    /// Seconds left; `None` = unlimited.
    #[must_use]
    pub fn time_left(&self) -> Option<i64> {
        match self.job.time_limit {
            TimeLimit::Unlimited => None,
            limit => Some((limit.seconds().unwrap_or(0) - self.run_time()).max(0)),
        }
    }

    /// The partition shown.
    #[must_use]
    pub fn partition(&self) -> &str {
        self.partition.as_deref().unwrap_or(&self.job.partition)
    }

    /// Reason as one text.
    #[must_use]
    pub fn reason(&self) -> String {
        reason_text(&self.job)
    }

    /// Nodes, or the reason in parentheses.
    #[must_use]
    pub fn nodes_or_reason(&self) -> String {
        let state = self.job.state;
        let shows_reason = !state.is_completing()
            && matches!(
                state.base,
                JobState::Pending
                    | JobState::Timeout
                    | JobState::OutOfMemory
                    | JobState::Deadline
                    | JobState::Failed
            );
        if shows_reason {
            format!("({})", self.reason())
        } else {
            self.job.nodes.clone()
        }
    }
}

/// Reason with its description: the description alone when it already says everything.
#[must_use]
pub fn reason_text(job: &JobInfo) -> String {
    let name = job.reason.name();
    match job.reason_text.as_deref().filter(|text| !text.is_empty()) {
        None => name.to_string(),
        Some(text) if text.starts_with(name) => text.to_string(),
        Some(text) if job.reason == sluice_model::reason::Reason::ReqNodeNotAvail => {
            format!("{name}, {text}")
        }
        Some(text) => text.to_string(),
    }
}

/// Seconds a job has run, without suspended time.
#[must_use]
pub fn run_time(job: &JobInfo, now: UnixSeconds) -> i64 {
    let Some(start) = job
        .start_time
        .filter(|_| job.state.base != JobState::Pending)
    else {
        return 0;
    };
    let seconds = match job.state.base {
        JobState::Suspended => job.pre_suspend_secs,
        JobState::Running => match job.suspend_time {
            Some(resumed) => now - resumed + job.pre_suspend_secs,
            None => now - start,
        },
        _ => {
            let end = job.end_time.unwrap_or(now);
            match job.suspend_time {
                Some(resumed) if resumed < end => end - resumed + job.pre_suspend_secs,
                _ => end - start,
            }
        }
    };
    seconds.max(0)
}

/// Cuts an index list to `max` characters, the last three of them dots.
#[must_use]
pub fn cut_index_list(list: &str, max: usize) -> String {
    if max == 0 || list.len() < max {
        return list.to_string();
    }
    format!("{}...", &list[..max.saturating_sub(4)])
}

/// The rows of one job: when `each_task` names it, the tasks of its array's rest by themselves; with `each_partition` every partition of
/// a waiting job by itself.
pub fn each_row(
    job: &Arc<JobInfo>,
    view: &Arc<JobView>,
    each_task: impl Fn(&JobInfo) -> bool,
    each_partition: bool,
    mut take: impl FnMut(JobRow),
) {
    let mut take_partitions = |row: JobRow| {
        if !each_partition || !job.state.is_pending() || !job.partition.contains(',') {
            return take(row);
        }
        for name in job.partition.split(',') {
            take(JobRow {
                partition: Some(name.to_owned()),
                ..row.clone()
            });
        }
    };
    let tasks = job.array_task_string.as_deref().filter(|_| each_task(job));
    match tasks.and_then(|text| text.parse::<IndexSet>().ok()) {
        Some(tasks) => {
            for task in tasks.iter() {
                take_partitions(JobRow {
                    task: Some(task),
                    ..JobRow::new(job, view)
                });
            }
        }
        None => take_partitions(JobRow::new(job, view)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::samples::{self, rows};

    /// Array rests, tasks, and lists that are too long.
    #[test]
    fn array_ids() {
        let view = Arc::new(samples::view());
        let mut job = samples::pending_array();
        assert_eq!(
            JobRow::new(&Arc::new(job.clone()), &view).array_id(),
            "15_[1,3,5,7,9,20%2]"
        );
        let expanded = rows(&[Arc::new(job.clone())], &view, |_| true, false);
        let ids: Vec<String> = expanded.iter().map(JobRow::array_id).collect();
        assert_eq!(ids, ["15_1", "15_3", "15_5", "15_7", "15_9", "15_20"]);
        job.array_task_string =
            Some("1,3,5,7,9,11,14,17,19,22,25,28,31,34,37,40,43,46,49,52,55,58,61,64".to_string());
        let id = JobRow::new(&Arc::new(job.clone()), &view).array_id();
        // 64 characters with the end of the text: 60 of the list and three dots.
        assert_eq!(
            id,
            "15_[1,3,5,7,9,11,14,17,19,22,25,28,31,34,37,40,43,46,49,52,55,58...%2]"
        );
    }

    /// A job asking for two partitions has two lines with --priority.
    #[test]
    fn partitions() {
        let view = Arc::new(samples::view());
        let mut job = samples::pending_array();
        job.partition = "main,short".to_string();
        let shown: Vec<String> = rows(&[Arc::new(job.clone())], &view, |_| false, true)
            .iter()
            .map(|row| row.partition().to_string())
            .collect();
        assert_eq!(shown, ["main", "short"]);
    }

    /// Suspended time does not count.
    #[test]
    fn run_times() {
        let mut job = samples::running();
        let start = job.start_time.expect("started");
        assert_eq!(run_time(&job, start + 35), 35);
        job.state.base = JobState::Suspended;
        job.suspend_time = Some(start + 20);
        job.pre_suspend_secs = 20;
        assert_eq!(run_time(&job, start + 100), 20);
        job.state.base = JobState::Running;
        job.suspend_time = Some(start + 100);
        assert_eq!(run_time(&job, start + 110), 30);
    }
}
