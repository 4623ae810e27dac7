//! squeue: shows jobs and steps.
//!
//! Filters are applied here to what the controller sends; formats are in [`crate::format`]. Source: squeue(1).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sluice_model::error_code::ErrorCode;
use sluice_model::hostlist::parse_hostlist;
use sluice_model::ids::{JobPart, JobSelector};
use sluice_model::job::JobInfo;
use sluice_model::state::{JobState, JobStateSelector, VALID_JOB_STATES};
use sluice_proto::v1::ListJobsRequest;

use super::block_on;
use super::caller::{Place, now, uid_of};
use super::structured;
use crate::client::{Client, ClientError};
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::format::column::Layout;
use crate::format::job_fields::{self, FIELDS};
use crate::format::job_rows::{JobRow, JobView, rows, run_time};
use crate::format::step_fields::{self, StepRow};
use crate::output;
use crate::submit::options::Options;

/// How long an absent controller is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// A uid that no user has.
const NOBODY: u32 = u32::MAX;

/// Runs squeue.
pub fn run(parsed: &Parsed) -> i32 {
    let place = Place::here();
    let parsed = &with_operands(parsed);
    let options = Options::new(
        Command::Squeue,
        &Parsed::default(),
        |name| place.variable(name),
        parsed,
    );
    if let Some(code) = structured::answer_early(&options) {
        return code;
    }
    let filter = match Filter::new(&options, &place) {
        Ok(filter) => filter,
        Err(lines) => {
            for line in lines {
                output::error_line(format!("squeue: error: {line}"));
            }
            return 1;
        }
    };
    block_on(async {
        let Some(pause) = options
            .get("iterate")
            .and_then(|text| text.parse::<u64>().ok())
        else {
            return show(&options, &filter, &place).await;
        };
        loop {
            output::line(place.times(now()).banner());
            let code = show(&options, &filter, &place).await;
            if code != 0 {
                return code;
            }
            tokio::time::sleep(Duration::from_secs(pause.max(1))).await;
            output::line("");
        }
    })
}

/// `-j` and `-s` without a value take it from the first operand, as `squeue -j 5` is usually written.
fn with_operands(parsed: &Parsed) -> Parsed {
    let mut parsed = parsed.clone();
    for name in ["jobs", "steps"] {
        if parsed.operands.is_empty() {
            break;
        }
        if let Some(given) = parsed
            .given
            .iter_mut()
            .find(|given| given.name == name && given.value.is_none())
        {
            given.value = Some(parsed.operands.remove(0));
        }
    }
    parsed
}

async fn show(options: &Options, filter: &Filter, place: &Place) -> i32 {
    let client = match Client::connect(PATIENCE).await {
        Ok(client) => client,
        Err(error) => return fail(&error),
    };
    let result = if options.has("steps") {
        show_steps(&client, options, filter, place).await
    } else {
        show_jobs(&client, options, filter, place).await
    };
    match result {
        Ok(()) => 0,
        Err(error) => fail(&error),
    }
}

fn fail(error: &ClientError) -> i32 {
    output::error_line(format!("slurm_load_jobs error: {error}"));
    1
}

fn view(
    client: &Client,
    options: &Options,
    place: &Place,
    time: sluice_model::time::UnixSeconds,
) -> Arc<JobView> {
    Arc::new(JobView {
        times: place.times(time),
        cluster: client.settings.cluster.clone(),
        index_text_max: place.index_text_max(),
        exact_sizes: options.has("noconvert"),
        expand_patterns: options.has("expand-patterns"),
    })
}

async fn show_jobs(
    client: &Client,
    options: &Options,
    filter: &Filter,
    place: &Place,
) -> Result<(), ClientError> {
    if let Some(node) = filter.unknown_node(client).await? {
        output::error_line(format!("squeue: error: Invalid node name {node}"));
        std::process::exit(1);
    }
    let list = client
        .jobs(ListJobsRequest {
            brief: is_brief(options),
            ..filter.request()
        })
        .await?;
    if filter.single_job().is_some() && list.jobs.is_empty() {
        return Err(ClientError::refused(
            ErrorCode::InvalidJobId,
            ErrorCode::InvalidJobId.message(),
        ));
    }
    let time = list.time.unwrap_or_else(now);
    let view = view(client, options, place, time);
    let jobs: Vec<Arc<JobInfo>> = list
        .jobs
        .into_iter()
        .filter(|job| filter.passes(job, time))
        .map(Arc::new)
        .collect();
    let start = options.has("start");
    let each_task = options.has("array") || options.has("array-unique");
    let mut lines: Vec<JobRow> = rows(&jobs, &view, each_task, options.has("priority"))
        .into_iter()
        .filter(|row| filter.passes_task(row) && filter.passes_partition(row.partition()))
        .collect();
    if structured::wanted(options) {
        return structured::job_lines(client, options, &lines).await;
    }
    let default_sort = if start { "S" } else { "P,t,-p" };
    let sort = options.get("sort").unwrap_or(default_sort);
    lines.sort_by(|first, second| job_fields::compare_by(sort, first, second));
    let layout = job_layout(options);
    if options.has("long") && !options.has("format") && !options.has("Format") {
        output::line(view.times.banner());
    }
    print(&layout, &lines, options.has("noheader"));
    Ok(())
}

/// Everything asked for is in a brief answer, which costs controller and command much less: the usual formats, and `-o` with
/// letters that need no path, command line or TRES.
fn is_brief(options: &Options) -> bool {
    const LETTERS: &str = "aACDeFgGiIjkKlLMNpPqQrRStTuUV";
    if options.has("Format") || options.has("json") || options.has("yaml") {
        return false;
    }
    let Some(format) = options.get("format") else {
        return true;
    };
    let mut rest = format;
    while let Some((_, after)) = rest.split_once('%') {
        let after = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
        match after.chars().next() {
            Some(letter) if LETTERS.contains(letter) => rest = &after[1..],
            _ => return false,
        }
    }
    true
}

fn job_layout(options: &Options) -> Layout<JobRow> {
    let names_given =
        options.has("Format") && (options.beats("Format", "format") || !options.has("format"));
    let (layout, unknown) = match (names_given, options.get("Format"), options.get("format")) {
        (true, Some(names), _) => Layout::from_names(names, FIELDS),
        (_, _, Some(letters)) => Layout::from_letters(letters, FIELDS),
        _ if options.has("start") => Layout::from_letters(job_fields::FORMAT_START, FIELDS),
        _ if options.has("long") => Layout::from_letters(job_fields::FORMAT_LONG, FIELDS),
        _ => Layout::from_letters(job_fields::FORMAT_DEFAULT, FIELDS),
    };
    report_unknown("squeue", &unknown);
    layout
}

/// Tells which fields do not exist; the others are shown.
pub(super) fn report_unknown(command: &str, unknown: &[crate::format::column::UnknownField]) {
    for field in unknown {
        output::error_line(format!(
            "{command}: error: Invalid job format specification: {}",
            field.0
        ));
    }
}

/// Prints a heading and lines.
pub(super) fn print<R>(layout: &Layout<R>, lines: &[R], no_header: bool) {
    let mut text = String::new();
    if !no_header {
        text.push_str(&layout.header());
        text.push('\n');
    }
    for line in lines {
        text.push_str(&layout.row(line));
        text.push('\n');
    }
    output::text_out(&text);
}

async fn show_steps(
    client: &Client,
    options: &Options,
    filter: &Filter,
    place: &Place,
) -> Result<(), ClientError> {
    let view = view(client, options, place, now());
    let wanted: BTreeSet<String> = match options.get("steps") {
        Some(list) if !list.is_empty() => list.split(',').map(String::from).collect(),
        _ => BTreeSet::new(),
    };
    let steps = client.steps(None).await?;
    let mut lines: Vec<StepRow> = steps
        .into_iter()
        .map(|step| StepRow {
            step,
            view: Arc::clone(&view),
        })
        .filter(|row| {
            wanted.is_empty()
                || wanted.contains(&row.id())
                || wanted.contains(&row.step.job_id.to_string())
        })
        .filter(|row| filter.passes_step(row))
        .collect();
    let sort = options.get("sort").unwrap_or("P,i");
    lines.sort_by(|first, second| step_fields::compare_by(sort, first, second));
    if structured::wanted(options) {
        let steps: Vec<_> = lines.into_iter().map(|row| row.step).collect();
        return structured::steps(client, options, &steps).await;
    }
    let (layout, unknown) = match (options.get("Format"), options.get("format")) {
        (Some(names), _) => Layout::from_names(names, step_fields::FIELDS),
        (None, Some(letters)) => Layout::from_letters(letters, step_fields::FIELDS),
        (None, None) => Layout::from_letters(step_fields::FORMAT_DEFAULT, step_fields::FIELDS),
    };
    report_unknown("squeue", &unknown);
    print(&layout, &lines, options.has("noheader"));
    Ok(())
}

/// Which jobs are shown. Empty lists let everything pass.
struct Filter {
    jobs: Vec<JobSelector>,
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
    fn new(options: &Options, place: &Place) -> Result<Self, Vec<String>> {
        let list = |name: &str| -> Vec<String> {
            let text = options.get(name).unwrap_or_default();
            text.split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(String::from)
                .collect()
        };
        let mut jobs = Vec::new();
        for item in list("jobs") {
            jobs.push(
                item.parse()
                    .map_err(|_| vec![format!("Invalid job id: {item}")])?,
            );
        }
        let mut users = Vec::new();
        for user in list("user") {
            match uid_of(&user) {
                Some(uid) => users.push(uid),
                None => {
                    // Told, and passed by: the others are shown, and nobody's jobs when there are none.
                    output::error_line(format!("squeue: error: Invalid user: {user}\n"));
                    users.push(NOBODY);
                }
            }
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
            partitions: list("partition"),
            accounts: list("account"),
            qos: list("qos"),
            names: list("name"),
            reservations: list("reservation"),
            licenses: list("licenses"),
            nodes,
            over_secs: seconds("running-over"),
            under_secs: seconds("running-under"),
            start_only: options.has("start"),
        })
    }

    /// What the controller can filter itself.
    fn request(&self) -> ListJobsRequest {
        ListJobsRequest {
            job_ids: self.jobs.iter().map(|selector| selector.job.0).collect(),
            users: self.users.clone(),
            partitions: Vec::new(),
            include_finished: None,
            brief: false,
        }
    }

    /// The only job asked for: an unknown one is an error then.
    fn single_job(&self) -> Option<&JobSelector> {
        match self.jobs.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    async fn unknown_node(&self, client: &Client) -> Result<Option<String>, ClientError> {
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

    fn passes(&self, job: &JobInfo, time: sluice_model::time::UnixSeconds) -> bool {
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
        let partition = self.partitions.is_empty()
            || job
                .partition
                .split(',')
                .any(|name| self.partitions.iter().any(|wanted| wanted == name));
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
            && partition
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

    /// With `-r`, a selector of tasks picks lines out of an array's rest.
    fn passes_task(&self, row: &JobRow) -> bool {
        let Some(task) = row.task else { return true };
        self.jobs.is_empty()
            || self
                .jobs
                .iter()
                .any(|selector| selector.selects_task(task) && selects(selector, &row.job))
    }

    fn passes_partition(&self, partition: &str) -> bool {
        self.partitions.is_empty()
            || partition
                .split(',')
                .any(|name| self.partitions.iter().any(|wanted| wanted == name))
    }

    fn passes_step(&self, row: &StepRow) -> bool {
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
