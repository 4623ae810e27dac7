//! Which jobs, tasks and steps squeue shows.
//!
//! Filters are applied here to what the controller sends. Source: squeue(1).

use std::collections::BTreeSet;

use sluice_model::hostlist::parse_hostlist;
use sluice_model::ids::{JobPart, JobSelector};
use sluice_model::job::JobInfo;
use sluice_model::state::{JobState, JobStateSelector, VALID_JOB_STATES};
use sluice_proto::v1::ListJobsRequest;

use super::caller::{Place, uid_of};
use crate::client::{Client, ClientError};
use crate::format::job_rows::{JobRow, run_time};
use crate::format::step_fields::StepRow;
use crate::output;
use crate::submit::options::Options;

/// A uid that no user has.
const NOBODY: u32 = u32::MAX;

/// Which jobs are shown. Empty lists let everything pass.
pub(super) struct Filter {
    /// Ids asked for.
    pub jobs: Vec<JobSelector>,
    users: Vec<u32>,
    not_user: Option<u32>,
    states: Option<Vec<JobStateSelector>>,
    partitions: Vec<String>,
    accounts: Vec<String>,
    qos: Vec<String>,
    names: Vec<String>,
    reservations: Vec<String>,
    licenses: Vec<String>,
    nodes: Vec<String>,
    over_secs: Option<i64>,
    under_secs: Option<i64>,
    start_only: bool,
}

impl Filter {
    /// Reads the options; what is wrong comes back as lines after `squeue: error: `.
    pub fn new(options: &Options, place: &Place) -> Result<Self, Vec<String>> {
        let mut jobs = Vec::new();
        for item in options.list("jobs") {
            jobs.push(
                item.parse()
                    .map_err(|_| vec![format!("Invalid job id: {item}")])?,
            );
        }
        let mut users = Vec::new();
        for user in options.list("user") {
            match uid_of(&user) {
                Some(uid) => users.push(uid),
                None => {
                    // Told, and passed by: the others are shown, and nobody's jobs when there are none.
                    output::error_line(format!("squeue: error: Invalid user: {user}\n"));
                    users.push(NOBODY);
                }
            }
        }
        if options.get("user") == Some("") || options.get("states") == Some("") {
            // An empty list asks for nobody's jobs, and for jobs in no state.
            users = vec![NOBODY];
        }
        if options.has("me") {
            users = vec![place.uid];
        }
        let states = match options.get("states") {
            None | Some("") => None,
            Some(text)
                if text
                    .split(',')
                    .any(|word| word.trim().eq_ignore_ascii_case("all")) =>
            {
                Some(Vec::new())
            }
            Some(text) => {
                let mut states = Vec::new();
                for word in text.split(',') {
                    let state = word.parse().map_err(|_| {
                        vec![
                            format!("Invalid job state specified: {word}"),
                            format!("Valid job states include: {VALID_JOB_STATES}\n"),
                        ]
                    })?;
                    states.push(state);
                }
                Some(states)
            }
        };
        let seconds = |name: &str| {
            options
                .get(name)
                .and_then(|text| sluice_model::time::parse_duration_seconds(text).ok())
                .map(|s| s as i64)
        };
        let nodes = parse_hostlist(options.get("nodelist").unwrap_or_default())
            .map_err(|error| vec![error.to_string()])?;
        Ok(Self {
            jobs,
            users,
            not_user: options.has("notme").then_some(place.uid),
            states,
            partitions: options.list("partition"),
            accounts: options.list("account"),
            qos: options.list("qos"),
            names: options.list("name"),
            reservations: options.list("reservation"),
            licenses: options.list("licenses"),
            nodes,
            over_secs: seconds("running-over"),
            under_secs: seconds("running-under"),
            start_only: options.has("start"),
        })
    }

    /// The lists as they were read, by the names that `-vv` gives them.
    pub fn lists(&self) -> Vec<(&'static str, Vec<String>)> {
        let states: Vec<String> = self
            .states
            .iter()
            .flatten()
            .filter_map(|selector| match selector {
                JobStateSelector::Base(base) => Some(base.to_string()),
                JobStateSelector::Flag(_) => None,
            })
            .collect();
        vec![
            (
                "job_list",
                self.jobs.iter().map(ToString::to_string).collect(),
            ),
            ("name_list", self.names.clone()),
            ("licenses_list", self.licenses.clone()),
            ("part_list", self.partitions.clone()),
            ("state_list", states),
            (
                "user_list",
                self.users.iter().map(ToString::to_string).collect(),
            ),
        ]
    }

    /// What the controller can filter itself.
    pub fn request(&self) -> ListJobsRequest {
        ListJobsRequest {
            job_ids: self.jobs.iter().map(|selector| selector.job.0).collect(),
            users: self.users.clone(),
            partitions: self.partitions.clone(),
            include_finished: (self.jobs.is_empty() && self.states.is_none()).then_some(false),
            brief: false,
            states: self.state_names(),
        }
    }

    /// The states to ask for. Of jobs that are named the controller must say that it knows them, whatever their state.
    fn state_names(&self) -> Vec<String> {
        let states = self.states.iter().filter(|_| self.jobs.is_empty());
        states
            .flatten()
            .map(|state| state.name().to_owned())
            .collect()
    }

    /// The only job asked for: an unknown one is an error then.
    pub fn single_job(&self) -> Option<&JobSelector> {
        match self.jobs.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The first node of `-w` that does not exist.
    pub async fn unknown_node(&self, client: &Client) -> Result<Option<String>, ClientError> {
        if self.nodes.is_empty() {
            return Ok(None);
        }
        let known: BTreeSet<String> = client
            .nodes(Vec::new())
            .await?
            .into_iter()
            .map(|node| node.name)
            .collect();
        Ok(self
            .nodes
            .iter()
            .find(|name| !known.contains(*name))
            .cloned())
    }

    /// True for the jobs to show; lines of tasks and partitions are looked at one by one.
    pub fn passes(&self, job: &JobInfo, time: sluice_model::time::UnixSeconds) -> bool {
        let any = |wanted: &[String], value: &str| {
            wanted.is_empty() || wanted.iter().any(|item| item == value)
        };
        let description = &job.description;
        let state = match &self.states {
            None => {
                matches!(
                    job.state.base,
                    JobState::Pending | JobState::Running | JobState::Suspended
                ) || job.state.is_completing()
            }
            Some(states) => {
                states.is_empty() || states.iter().any(|selector| selector.matches(job.state))
            }
        };
        let nodes = self.nodes.is_empty() || {
            let held: BTreeSet<String> = parse_hostlist(&job.nodes)
                .unwrap_or_default()
                .into_iter()
                .collect();
            self.nodes.iter().any(|name| held.contains(name))
        };
        let seconds = run_time(job, time);
        let licenses = self.licenses.is_empty()
            || description.licenses.as_deref().is_some_and(|text| {
                text.split(',').any(|item| {
                    self.licenses
                        .iter()
                        .any(|name| item.split(':').next() == Some(name))
                })
            });
        state
            && self.passes_partition(&job.partition)
            && nodes
            && licenses
            && (self.users.is_empty() || self.users.contains(&description.uid))
            && self.not_user != Some(description.uid)
            && any(&self.accounts, &job.account)
            && any(&self.qos, &job.qos)
            && any(&self.names, description.name.as_deref().unwrap_or_default())
            && any(
                &self.reservations,
                description.reservation.as_deref().unwrap_or_default(),
            )
            && self
                .over_secs
                .is_none_or(|limit| job.state.is_running() && seconds > limit)
            && self
                .under_secs
                .is_none_or(|limit| job.state.is_running() && seconds < limit)
            && (!self.start_only || job.state.is_pending())
            && (self.jobs.is_empty() || self.jobs.iter().any(|selector| selects(selector, job)))
    }

    /// True when all that is asked for of this array are single tasks.
    pub fn asks_for_tasks(&self, job: &JobInfo) -> bool {
        let mut selectors = self
            .jobs
            .iter()
            .filter(|selector| selects(selector, job))
            .peekable();
        selectors.peek().is_some()
            && selectors
                .all(|selector| matches!(selector.part, JobPart::Task(_) | JobPart::Tasks(_)))
    }

    /// With `-r`, a selector of tasks picks lines out of an array's rest.
    pub fn passes_task(&self, row: &JobRow) -> bool {
        let Some(task) = row.task else { return true };
        self.jobs.is_empty()
            || self
                .jobs
                .iter()
                .any(|selector| selector.selects_task(task) && selects(selector, &row.job))
    }

    /// True for the partitions asked for.
    pub fn passes_partition(&self, partition: &str) -> bool {
        self.partitions.is_empty()
            || partition
                .split(',')
                .any(|name| self.partitions.iter().any(|wanted| wanted == name))
    }

    /// True for the steps to show.
    pub fn passes_step(&self, row: &StepRow) -> bool {
        let step = &row.step;
        (self.users.is_empty() || self.users.contains(&step.uid))
            && self.passes_partition(&step.partition)
            && (self.names.is_empty() || self.names.contains(&step.name))
            && (self.jobs.is_empty()
                || self.jobs.iter().any(|selector| selector.job == step.job_id))
            && (self.nodes.is_empty()
                || parse_hostlist(&step.nodes)
                    .unwrap_or_default()
                    .iter()
                    .any(|name| self.nodes.contains(name)))
    }
}

/// True when the selector means this record: by its own id, or as (a task of) its array.
pub(super) fn selects(selector: &JobSelector, job: &JobInfo) -> bool {
    if selector.job == job.job_id && selector.part == JobPart::Whole {
        return true;
    }
    if let Some(leader) = job.het_job_id {
        // The leader's id means all components; `N+O` one of them.
        return leader == selector.job
            && match selector.part {
                JobPart::Whole => true,
                JobPart::Component(offset) => job.het_job_offset == Some(offset),
                _ => false,
            };
    }
    if job.array_job_id != Some(selector.job) {
        return false;
    }
    match (job.array_task_id, &selector.part) {
        (Some(task), _) => selector.selects_task(task),
        (None, JobPart::Whole) => true,
        (None, _) => job
            .array_task_string
            .as_deref()
            .and_then(|text| text.parse::<sluice_model::array::IndexSet>().ok())
            .is_some_and(|tasks| tasks.iter().any(|task| selector.selects_task(task))),
    }
}
