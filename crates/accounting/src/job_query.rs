//! Which jobs a `sacct` call means, and the SQL condition for it.
//!
//! The condition selects rows by everything that columns can answer; what needs the text of a column (nodes inside a hostlist,
//! pending tasks inside an array's list) is decided by [`JobQuery::keeps`]. No I/O.
//! Times: a job is *in* a window if it was eligible by its end and not over before its start. With states, it must have been in
//! one of them within the window: pending from eligible to start, running from start to end, an end state when it ended.
//! Source: `sacct(1)`, `--state`, `--starttime`, `--endtime`, `--jobs`.

use std::collections::HashSet;

use sluice_model::accounting::JobRecord;
use sluice_model::hostlist::parse_hostlist;
use sluice_model::ids::{JobPart, JobSelector};
use sluice_model::state::{JobState, JobStateFull};
use sluice_model::time::UnixSeconds;

use crate::TimeWindow;
use crate::cell::Cell;
use crate::jobs::in_list;

/// When a run was over: its end, or the far future. The expression of the indexes over `jobs`; see the migrations.
pub(crate) const OVER: &str = "COALESCE(time_end, 9223372036854775807)";

/// A range of counts, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountRange {
    /// Least.
    pub min: u32,
    /// Most.
    pub max: u32,
}

/// Which jobs to show. Empty lists select everything.
#[derive(Debug, Clone)]
pub struct JobQuery {
    /// When; see [`TimeWindow::sacct`] for the defaults.
    pub window: TimeWindow,
    /// Clusters.
    pub clusters: Vec<String>,
    /// Jobs, arrays, tasks, components; a step in a selector limits the steps shown of that job.
    pub jobs: Vec<JobSelector>,
    /// States, base or flag, as numbers ([`JobStateFull::number`]).
    pub states: Vec<u32>,
    /// User names.
    pub users: Vec<String>,
    /// User ids; a job needs to fit `users` or `uids`.
    pub uids: Vec<u32>,
    /// Group ids.
    pub gids: Vec<u32>,
    /// Accounts.
    pub accounts: Vec<String>,
    /// Partitions.
    pub partitions: Vec<String>,
    /// QOS.
    pub qos: Vec<String>,
    /// WCKeys.
    pub wckeys: Vec<String>,
    /// Job names.
    pub names: Vec<String>,
    /// Reservations.
    pub reservations: Vec<String>,
    /// Nodes as hostlists: jobs that ran on any of them.
    pub nodes: Vec<String>,
    /// CPUs allocated.
    pub cpus: Option<CountRange>,
    /// Nodes allocated.
    pub node_count: Option<CountRange>,
    /// Minutes of the time limit.
    pub time_limit_minutes: Option<CountRange>,
    /// Association ids.
    pub associations: Vec<u32>,
    /// Last reasons of waiting.
    pub reasons: Vec<String>,
    /// Constraints: all features of one entry must be in what the job asked for.
    pub constraints: Vec<String>,
    /// Bits of the record's flags, any of which must be set; 0 = all jobs.
    pub flags: u32,
    /// Every run of a job, not only the newest (`--duplicates`).
    pub duplicates: bool,
    /// No steps (`--allocations`).
    pub allocations_only: bool,
}

impl JobQuery {
    /// All jobs of a window.
    #[must_use]
    pub fn new(window: TimeWindow) -> Self {
        Self {
            window,
            clusters: Vec::new(),
            jobs: Vec::new(),
            states: Vec::new(),
            users: Vec::new(),
            uids: Vec::new(),
            gids: Vec::new(),
            accounts: Vec::new(),
            partitions: Vec::new(),
            qos: Vec::new(),
            wckeys: Vec::new(),
            names: Vec::new(),
            reservations: Vec::new(),
            nodes: Vec::new(),
            cpus: None,
            node_count: None,
            time_limit_minutes: None,
            associations: Vec::new(),
            reasons: Vec::new(),
            constraints: Vec::new(),
            flags: 0,
            duplicates: false,
            allocations_only: false,
        }
    }

    /// The condition for one cluster, with its arguments.
    ///
    /// Written for the planners of both databases: either the named jobs or the window lead to an index (`jobs` has one for each
    /// way), and nothing else looks as if it could.
    pub(crate) fn condition(&self, cluster_id: i64) -> (String, Vec<Cell>) {
        let mut condition = Condition {
            args: vec![Cell::from(cluster_id)],
            terms: Vec::new(),
        };
        if self.jobs.is_empty() {
            condition.terms.push("cluster_id = $1".to_owned());
        } else {
            self.id_term(&mut condition);
        }
        let end = condition.arg(self.window.end);
        let start = condition.arg(self.window.start);
        // A plus sign keeps the planners from using the index of the window when jobs are named.
        let plus = if self.jobs.is_empty() { "" } else { "+" };
        condition.terms.push(format!("{plus}{OVER} >= {start}"));
        if self.states.is_empty() {
            condition.terms.push(self.eligible_term(&end));
        } else {
            let moment = self.window.start == self.window.end;
            let terms: Vec<String> = self
                .states
                .iter()
                .map(|state| state_term(*state, &start, &end, moment))
                .collect();
            condition.terms.push(format!("({})", terms.join(" OR ")));
        }
        self.owner_term(&mut condition);
        condition.texts("account", &self.accounts);
        condition.texts("partition_name", &self.partitions);
        condition.texts("qos", &self.qos);
        condition.texts("wckey", &self.wckeys);
        condition.texts("job_name", &self.names);
        condition.texts("reservation", &self.reservations);
        condition.texts("reason", &self.reasons);
        condition.numbers("gid", &self.gids);
        condition.numbers("association_id", &self.associations);
        if self.flags != 0 {
            condition
                .terms
                .push(format!("(flags & {}) <> 0", self.flags));
        }
        condition.range("alloc_cpus", self.cpus);
        condition.range("alloc_nodes", self.node_count);
        condition.range("time_limit_minutes", self.time_limit_minutes);
        (condition.terms.join(" AND "), condition.args)
    }

    fn id_term(&self, condition: &mut Condition) {
        let ids: Vec<Cell> = self
            .jobs
            .iter()
            .map(|selector| Cell::from(selector.job.0))
            .collect();
        let list = in_list(&mut condition.args, ids);
        let ways: Vec<String> = ["job_id", "array_job_id", "het_job_id"]
            .iter()
            .map(|column| format!("(cluster_id = $1 AND {column} IN ({list}))"))
            .collect();
        condition.terms.push(format!("({})", ways.join(" OR ")));
    }

    /// Without states. A job that never became eligible is shown only when it is asked for by id.
    fn eligible_term(&self, end: &str) -> String {
        if self.jobs.is_empty() {
            format!("eligible <= {end}")
        } else {
            format!("(eligible IS NULL OR eligible <= {end})")
        }
    }

    fn owner_term(&self, condition: &mut Condition) {
        let mut terms = Vec::new();
        if !self.users.is_empty() {
            let list = in_list(
                &mut condition.args,
                self.users.iter().map(|user| user.as_str().into()),
            );
            terms.push(format!("user_name IN ({list})"));
        }
        if !self.uids.is_empty() {
            let list = in_list(
                &mut condition.args,
                self.uids.iter().map(|uid| Cell::from(*uid)),
            );
            terms.push(format!("uid IN ({list})"));
        }
        if !terms.is_empty() {
            condition.terms.push(format!("({})", terms.join(" OR ")));
        }
    }

    /// Whether a row that fits the condition is really meant. `nodes` are the names of [`Self::nodes`].
    pub(crate) fn keeps(&self, job: &JobRecord, nodes: &HashSet<String>) -> bool {
        (self.jobs.is_empty() || self.jobs.iter().any(|selector| selects(selector, job)))
            && (nodes.is_empty()
                || parse_hostlist(&job.node_list)
                    .is_ok_and(|names| names.iter().any(|name| nodes.contains(name))))
            && (self.constraints.is_empty()
                || self
                    .constraints
                    .iter()
                    .any(|wanted| asks_for(&job.constraints, wanted)))
    }

    /// Whether a step of a job is to be shown: selectors with a step show only that step.
    pub(crate) fn keeps_step(&self, job: &JobRecord, step: sluice_model::ids::StepId) -> bool {
        let mut selecting = self
            .jobs
            .iter()
            .filter(|selector| selects(selector, job))
            .peekable();
        selecting.peek().is_none()
            || selecting.any(|selector| selector.step.is_none_or(|wanted| wanted == step))
    }
}

/// Whether a constraint (`a&b`) names all features that are wanted (`a&b`, in any order).
fn asks_for(constraint: &str, wanted: &str) -> bool {
    let features = |text: &str| -> HashSet<String> {
        text.split(|letter: char| "&|,()[]*".contains(letter))
            .map(str::trim)
            .filter(|word| !word.is_empty() && word.parse::<u32>().is_err())
            .map(str::to_owned)
            .collect()
    };
    let has = features(constraint);
    let wanted = features(wanted);
    !wanted.is_empty() && wanted.is_subset(&has)
}

/// Whether a selector means a job: by its own number, its array's, or its heterogeneous job's.
fn selects(selector: &JobSelector, job: &JobRecord) -> bool {
    match &selector.part {
        JobPart::Whole => {
            [Some(job.job_id), job.array_job_id, job.het_job_id].contains(&Some(selector.job))
        }
        JobPart::Component(offset) => {
            job.het_job_id == Some(selector.job) && job.het_job_offset == Some(*offset)
        }
        JobPart::Task(_) | JobPart::Tasks(_) => {
            job.array_job_id == Some(selector.job)
                && match job.array_task_id {
                    Some(task) => selector.selects_task(task),
                    None => pending_tasks(&job.array_task_string)
                        .iter()
                        .any(|task| selector.selects_task(*task)),
                }
        }
    }
}

/// Task ids of an array's record (`5-9,12%3`). Text that is no list has none.
fn pending_tasks(list: &str) -> Vec<u32> {
    let Ok(selector) = format!("0_[{list}]").parse::<JobSelector>() else {
        return Vec::new();
    };
    match selector.part {
        JobPart::Tasks(ranges) => ranges
            .iter()
            .flat_map(sluice_model::ids::TaskRange::iter)
            .collect(),
        JobPart::Task(task) => vec![task],
        JobPart::Whole | JobPart::Component(_) => Vec::new(),
    }
}

/// The condition for one state. `start` and `end` are the parameters of the window; that the run was not over before `start` is
/// required elsewhere.
fn state_term(number: u32, start: &str, end: &str, moment: bool) -> String {
    let base = u8::try_from(number).ok().and_then(JobState::from_number);
    match base {
        Some(JobState::Pending) => format!(
            "(eligible <= {end} AND (time_start > {start} OR (time_start IS NULL AND {OVER} > {start})))"
        ),
        Some(JobState::Running) => {
            // At one moment only what runs, over a period also what was suspended in it: it ran before.
            let suspended = if moment {
                " AND NOT (state = 2 AND time_end IS NULL)"
            } else {
                ""
            };
            format!("(time_start <= {end} AND {OVER} > {start}{suspended})")
        }
        Some(JobState::Suspended) => {
            let before = if moment { "" } else { " OR suspended_secs > 0" };
            format!(
                "(time_start <= {end} AND {OVER} > {start} AND ((state = 2 AND time_end IS NULL){before}))"
            )
        }
        Some(state) => format!("(state = {} AND time_end <= {end})", state.number()),
        None => {
            let flags = JobStateFull::from_number(number)
                .map_or(number & !0xff, |state| state.flags.bits());
            format!("((state_flags & {flags}) <> 0 AND submit <= {end})")
        }
    }
}

/// Terms that all must hold, and their arguments.
struct Condition {
    args: Vec<Cell>,
    terms: Vec<String>,
}

impl Condition {
    fn arg(&mut self, time: UnixSeconds) -> String {
        self.args.push(Cell::from(time));
        format!("${}", self.args.len())
    }

    fn texts(&mut self, column: &str, values: &[String]) {
        if !values.is_empty() {
            let list = in_list(
                &mut self.args,
                values.iter().map(|value| value.as_str().into()),
            );
            self.terms.push(format!("{column} IN ({list})"));
        }
    }

    fn numbers(&mut self, column: &str, values: &[u32]) {
        if !values.is_empty() {
            let list = in_list(
                &mut self.args,
                values.iter().map(|value| Cell::from(*value)),
            );
            self.terms.push(format!("{column} IN ({list})"));
        }
    }

    fn range(&mut self, column: &str, range: Option<CountRange>) {
        if let Some(range) = range {
            self.terms
                .push(format!("{column} BETWEEN {} AND {}", range.min, range.max));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Kind;
    use sluice_model::ids::JobId;

    fn array_record(job_id: u32, task: Option<u32>, pending: &str) -> JobRecord {
        let mut job = JobRecord::new(JobId(job_id), 0, UnixSeconds(1));
        job.array_job_id = Some(JobId(4));
        job.array_task_id = task;
        job.array_task_string = pending.to_owned();
        job
    }

    fn means(selector: &str, job: &JobRecord) -> bool {
        selects(&selector.parse().unwrap(), job)
    }

    /// `sacct -j` takes the id of an array, of a task, and a task's own number.
    #[test]
    fn selectors_mean_arrays_tasks_and_raw_numbers() {
        let task = array_record(6, Some(1), "");
        assert!(
            means("4", &task)
                && means("6", &task)
                && means("4_1", &task)
                && means("4_[0-3]", &task)
        );
        assert!(!means("4_2", &task) && !means("6_1", &task) && !means("5", &task));
        let waiting = array_record(4, None, "5-9:2%3");
        assert!(means("4_7", &waiting) && !means("4_8", &waiting) && means("4", &waiting));
    }

    /// A step named in a selector hides the others.
    #[test]
    fn a_selector_with_a_step_shows_only_that_step() {
        use sluice_model::ids::StepId;
        let mut query = JobQuery::new(TimeWindow::until(UnixSeconds(9)));
        let job = JobRecord::new(JobId(2), 0, UnixSeconds(1));
        assert!(query.keeps_step(&job, StepId::Batch));
        query.jobs = vec!["2.batch".parse().unwrap()];
        assert!(query.keeps_step(&job, StepId::Batch));
        assert!(!query.keeps_step(&job, StepId::Num(0)));
    }

    /// What SQLite does for a query: the steps of its plan.
    fn plan(query: &JobQuery) -> String {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.db");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let settings = crate::StorageSettings::Sqlite { path };
            let store = crate::AccountingStore::open(settings).await.unwrap();
            let (condition, args) = query.condition(1);
            let sql = format!("EXPLAIN QUERY PLAN SELECT * FROM jobs WHERE {condition}");
            let kinds = [Kind::Int, Kind::Int, Kind::Int, Kind::Text];
            let mut unit = store.read().await.unwrap();
            let rows = unit.rows("explaining", &sql, &args, &kinds).await.unwrap();
            let texts = rows
                .into_iter()
                .filter_map(|row| match row.into_iter().last() {
                    Some(Cell::Text(text)) => text,
                    _ => None,
                });
            texts.collect::<Vec<_>>().join("; ")
        })
    }

    /// A question about a day must not read the history of years, nor one about a job.
    #[test]
    fn questions_use_an_index_for_what_narrows_them() {
        let day = TimeWindow {
            start: UnixSeconds(1_000_000),
            end: UnixSeconds(1_086_400),
        };
        let today = JobQuery::new(day);
        assert!(
            plan(&today).contains("jobs_over (cluster_id=? AND <expr>>?)"),
            "{}",
            plan(&today)
        );
        let failed = JobQuery {
            states: vec![5, 6],
            ..today.clone()
        };
        assert!(
            plan(&failed).contains("jobs_over (cluster_id=? AND <expr>>?)"),
            "{}",
            plan(&failed)
        );
        let own = JobQuery {
            users: vec!["alice".to_owned()],
            ..today.clone()
        };
        assert!(
            plan(&own).contains("jobs_user_over (cluster_id=? AND user_name=? AND <expr>>?)"),
            "{}",
            plan(&own)
        );
        let account = JobQuery {
            accounts: vec!["bio".to_owned(), "chem".to_owned()],
            ..today.clone()
        };
        assert!(
            plan(&account).contains("jobs_account_over (cluster_id=? AND account=? AND <expr>>?)"),
            "{}",
            plan(&account)
        );
        let by_id = JobQuery {
            jobs: vec!["7".parse().unwrap()],
            ..today
        };
        let steps = plan(&by_id);
        for index in [
            "(cluster_id=? AND job_id=?)",
            "jobs_array (cluster_id=? AND array_job_id=?)",
            "jobs_het (cluster_id=? AND het_job_id=?)",
        ] {
            assert!(steps.contains(index), "{index} in {steps}");
        }
    }
}
