//! sacct: shows accounting records of jobs and steps.
//!
//! Filters are the database's; columns are in [`crate::format::sacct`]. Source: sacct(1).

use std::time::Duration;

use sluice_model::accounting::job_flag;
use sluice_model::error_code::ErrorCode;
use sluice_model::ids::{JobPart, JobSelector};
use sluice_model::state::JobStateSelector;
use sluice_model::time::{UnixSeconds, parse_duration_minutes, parse_past_point_in_time};
use sluice_proto::v1::{CountRange, JobQuery};

use super::block_on;
use super::caller::{Place, now, uid_of};
use super::scontrol_jobs::selectors;
use super::sshare::delimited_style;
use super::{structured, structured_accounting};
use crate::client::{Client, ClientError};
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::format::sacct::{
    FORMAT_BRIEF, FORMAT_COMPLETION, FORMAT_DEFAULT, FORMAT_LONG, SacctColumn, columns, header,
    help_format, job_lines,
};
use crate::format::sacct_fields::SacctView;
use crate::output;
use crate::submit::options::Options;

/// How long an absent controller is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs sacct.
pub fn run(parsed: &Parsed) -> i32 {
    let place = Place::here();
    let options = Options::new(
        Command::Sacct,
        &Parsed::default(),
        |name| place.variable(name),
        parsed,
    );
    if options.has("helpformat") {
        output::text_out(&help_format());
        return 0;
    }
    if let Some(code) = structured::answer_early(&options) {
        return code;
    }
    if options.has("file") {
        output::error_line(
            "sacct: error: --file: there are no job completion files; records are in the accounting database",
        );
        return 1;
    }
    if (options.has("batch-script") || options.has("env-vars")) && !options.has("jobs") {
        let name = if options.has("batch-script") {
            "batch-script"
        } else {
            "env-vars"
        };
        output::error_line(format!(
            "sacct: fatal: --{name} needs the jobs to be named with --jobs"
        ));
        return 1;
    }
    let prepared = chosen_columns(&options, parsed)
        .and_then(|columns| Ok((columns, query(&options, parsed, &place)?)));
    match prepared {
        Ok((columns, query)) => block_on(show(&options, &place, &columns, query)),
        Err(line) => {
            output::error_line(line);
            1
        }
    }
}

fn chosen_columns(options: &Options, parsed: &Parsed) -> Result<Vec<SacctColumn>, String> {
    // Several -o add up; without one, the variable and the short forms count.
    let given: Vec<&str> = parsed
        .given
        .iter()
        .filter(|given| given.name == "format")
        .filter_map(|given| given.value.as_deref())
        .collect();
    let list = match (given.is_empty(), options.get("format")) {
        (false, _) => given.join(","),
        (true, _) if options.has("long") => FORMAT_LONG.to_string(),
        (true, _) if options.has("brief") => FORMAT_BRIEF.to_string(),
        (true, _) if options.has("completion") => FORMAT_COMPLETION.to_string(),
        (true, Some(list)) if !list.is_empty() => list.to_string(),
        _ => FORMAT_DEFAULT.to_string(),
    };
    columns(&list).map_err(|name| format!("sacct: error: Invalid field requested: \"{name}\""))
}

/// All values of a flag that may be repeated, split at commas.
fn values(parsed: &Parsed, names: &[&str]) -> Vec<String> {
    parsed
        .given
        .iter()
        .filter(|given| names.contains(&given.name))
        .filter_map(|given| given.value.as_ref())
        .flat_map(|text| selectors(std::slice::from_ref(text)))
        .map(|item| item.trim().to_string())
        .filter(|item| !item.is_empty())
        .collect()
}

fn query(options: &Options, parsed: &Parsed, place: &Place) -> Result<JobQuery, String> {
    let jobs = values(parsed, &["jobs"]);
    if let Some(bad) = jobs.iter().find(|job| job.parse::<JobSelector>().is_err()) {
        return Err(format!("sacct: fatal: Bad job/step specified: {bad}"));
    }
    let mut query = JobQuery {
        clusters: values(parsed, &["clusters", "cluster"])
            .into_iter()
            .filter(|name| name != "all")
            .collect(),
        all_clusters: options.has("allclusters")
            || values(parsed, &["clusters", "cluster"])
                .iter()
                .any(|name| name == "all"),
        jobs,
        accounts: values(parsed, &["accounts"]),
        partitions: values(parsed, &["partition"]),
        qos: values(parsed, &["qos"]),
        wckeys: values(parsed, &["wckeys"]),
        names: values(parsed, &["name"]),
        reservations: values(parsed, &["reservations"]),
        nodes: values(parsed, &["nodelist"]),
        duplicates: options.has("duplicates"),
        allocations_only: options.has("allocations"),
        with_script: options.has("batch-script"),
        with_environment: options.has("env-vars"),
        ..JobQuery::default()
    };
    for id in values(parsed, &["associations"]) {
        let bad = || format!("sacct: fatal: Invalid association id: {id}");
        query.associations.push(id.parse().map_err(|_| bad())?);
    }
    query.reasons = values(parsed, &["reason"]);
    // All constraints that are named must have been asked for.
    let constraints = values(parsed, &["constraints"]);
    if !constraints.is_empty() {
        query.constraints.push(constraints.join("&"));
    }
    for name in values(parsed, &["flags"]) {
        query.flags |= match name.to_ascii_lowercase().as_str() {
            "schedsubmit" => job_flag::SCHED_SUBMIT,
            "schedmain" => job_flag::SCHED_MAIN,
            "schedbackfill" => job_flag::SCHED_BACKFILL,
            "startreceived" => job_flag::START_RECEIVED,
            _ => return Err(format!("sacct: fatal: Invalid job flag: {name}")),
        };
    }
    set_people(&mut query, options, parsed, place)?;
    set_states(&mut query, parsed)?;
    set_ranges(&mut query, options)?;
    set_window(&mut query, options, place)?;
    Ok(query)
}

/// Own jobs unless others (or particular jobs) are asked for; root sees all.
fn set_people(
    query: &mut JobQuery,
    options: &Options,
    parsed: &Parsed,
    place: &Place,
) -> Result<(), String> {
    for user in values(parsed, &["user", "uid"]) {
        match uid_of(&user) {
            Some(uid) => query.uids.push(uid),
            None => return Err(format!("sacct: fatal: Invalid user: {user}")),
        }
    }
    for group in values(parsed, &["gid", "group"]) {
        let gid = group.parse().ok().or_else(|| {
            nix::unistd::Group::from_name(&group)
                .ok()
                .flatten()
                .map(|group| group.gid.as_raw())
        });
        query
            .gids
            .push(gid.ok_or_else(|| format!("sacct: fatal: Invalid group: {group}"))?);
    }
    let everyone = options.has("allusers")
        || place.uid == 0
        || !query.jobs.is_empty()
        || !query.gids.is_empty();
    if query.uids.is_empty() && !everyone {
        query.uids.push(place.uid);
    }
    Ok(())
}

fn set_states(query: &mut JobQuery, parsed: &Parsed) -> Result<(), String> {
    for word in values(parsed, &["state"]) {
        match word.parse::<JobStateSelector>() {
            Ok(JobStateSelector::Base(state)) => query.states.push(u32::from(state.number())),
            Ok(JobStateSelector::Flag(flag)) => query.states.push(flag.bits()),
            Err(_) => {
                return Err(format!(
                    "sacct: fatal: unrecognized job state value '{word}'"
                ));
            }
        }
    }
    Ok(())
}

fn set_ranges(query: &mut JobQuery, options: &Options) -> Result<(), String> {
    let range = |name: &str| -> Result<Option<CountRange>, String> {
        let Some(text) = options.get(name) else {
            return Ok(None);
        };
        let bad = || format!("sacct: fatal: Invalid --{name} specification: {text}");
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        Ok(Some(CountRange {
            min: low.parse().map_err(|_| bad())?,
            max: high.parse().map_err(|_| bad())?,
        }))
    };
    query.node_count = range("nnodes")?;
    query.cpus = range("ncpus")?;
    let minutes = |name: &str| -> Result<Option<u32>, String> {
        let Some(text) = options.get(name) else {
            return Ok(None);
        };
        parse_duration_minutes(text)
            .map(Some)
            .map_err(|_| format!("sacct: fatal: Invalid --{name} specification: {text}"))
    };
    // A least limit alone means that very limit, a greatest one alone means nothing.
    query.time_limit_minutes = match (minutes("timelimit-min")?, minutes("timelimit-max")?) {
        (None, _) => None,
        (Some(min), max) => Some(CountRange {
            min,
            max: max.unwrap_or(min),
        }),
    };
    Ok(())
}

/// The times given; what missing ones mean is the database's rule, for which it needs the caller's midnight.
fn set_window(query: &mut JobQuery, options: &Options, place: &Place) -> Result<(), String> {
    let present = now();
    let point = |name: &str| -> Result<Option<UnixSeconds>, String> {
        let Some(text) = options.get(name) else {
            return Ok(None);
        };
        parse_past_point_in_time(text, present, &place.zone)
            .map(Some)
            .map_err(|error| error.to_string())
    };
    let (start, end) = (point("starttime")?, point("endtime")?);
    query.start = start.map(|start| start.0);
    query.end = end.map(|end| end.0);
    query.midnight =
        parse_past_point_in_time("00:00", present, &place.zone).map_or(0, |midnight| midnight.0);
    if let (Some(start), Some(end)) = (start, end)
        && end < start
    {
        let times = place.times(present);
        return Err(format!(
            "sacct: fatal: Start time ({}) requested is after end time ({}).",
            times.point(start),
            times.point(end)
        ));
    }
    Ok(())
}

async fn show(options: &Options, place: &Place, columns: &[SacctColumn], query: JobQuery) -> i32 {
    let window = options.has("truncate").then(|| {
        (
            UnixSeconds(query.start.unwrap_or(0)),
            UnixSeconds(query.end.unwrap_or_else(|| now().0)),
        )
    });
    let (script, environment) = (query.with_script, query.with_environment);
    let selectors: Vec<JobSelector> = query
        .jobs
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect();
    let result = async {
        let client = Client::connect(PATIENCE).await?;
        let asked = query.jobs.clone();
        let mut jobs = client.job_records(query.clone()).await?;
        match options.get("whole-hetjob") {
            Some(word) if word.eq_ignore_ascii_case("no") => jobs.retain(|(job, _)| {
                let named = job.job_id.to_string();
                job.het_job_id.is_none() || asked.iter().any(|text| step_of(text) == named)
            }),
            Some(_) => {
                let more = leaders(&jobs);
                if !more.is_empty() {
                    let mut query = query;
                    query.jobs.extend(more);
                    jobs = client.job_records(query).await?;
                }
            }
            None => {}
        }
        Ok::<_, ClientError>((jobs, client))
    };
    let (mut jobs, client) = match result.await {
        Ok(answer) => answer,
        Err(error) => {
            let text = match error.code() {
                Some(ErrorCode::NotSupported | ErrorCode::Disabled) => {
                    "Slurm accounting storage is disabled".to_string()
                }
                _ => format!("sacct: error: {error}"),
            };
            output::error_line(text);
            return 1;
        }
    };
    if script || environment {
        print_texts(&jobs, script);
        return 0;
    }
    for (_, steps) in &mut jobs {
        // sacct lists the batch step first, then extern, then by number.
        steps.sort_by_key(|step| step.step_id);
    }
    if structured::wanted(options) {
        return structured_accounting::job_exit(&client, options, &jobs).await;
    }
    if options.has("use-local-uid") {
        for (job, _) in &mut jobs {
            job.uid = uid_of(&job.user).unwrap_or(job.uid);
        }
    }
    if options.has("array") {
        jobs = jobs.into_iter().flat_map(split_array).collect();
    }
    if options.has("expand-patterns") {
        for (job, _) in &mut jobs {
            expand_paths(job);
        }
    }
    let style = delimited_style(options, options.get("delimiter").unwrap_or("|"));
    let view = SacctView {
        times: place.times(now()),
        unit: options.get("units").and_then(|text| text.chars().next()),
        window,
    };
    let mut text = String::new();
    if !options.has("noheader") {
        text.push_str(&header(columns, &style));
    }
    for (job, steps) in &jobs {
        let lines = job_lines(job, steps, columns, &style, &view);
        let mut asked = selectors.iter().filter(|selector| {
            selector.job == job.job_id
                || [job.array_job_id, job.het_job_id].contains(&Some(selector.job))
        });
        let steps_only = asked.clone().next().is_some() && asked.all(|one| one.step.is_some());
        // A job of which single steps are asked for has no line of its own.
        match lines.split_once('\n') {
            Some((_, rest)) if steps_only => text.push_str(rest),
            _ => text.push_str(&lines),
        }
    }
    output::text_out(&text);
    0
}

type Record = (
    sluice_model::accounting::JobRecord,
    Vec<sluice_model::accounting::StepRecord>,
);

/// The job in front of a step: `12` of `12.batch`.
fn step_of(text: &str) -> &str {
    text.split('.').next().unwrap_or(text)
}

/// First components of the heterogeneous jobs that these belong to.
fn leaders(jobs: &[Record]) -> Vec<String> {
    let mut ids: Vec<String> = jobs
        .iter()
        .filter_map(|(job, _)| job.het_job_id.map(|id| id.to_string()))
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// One record for each task that has not started; other records stay as they are.
fn split_array((job, steps): Record) -> Vec<Record> {
    let Some(array) = job.array_job_id.filter(|_| job.array_task_id.is_none()) else {
        return vec![(job, steps)];
    };
    let list = job.array_task_string.split('%').next().unwrap_or_default();
    let tasks: Vec<u32> = format!("{array}_[{list}]")
        .parse::<JobSelector>()
        .map(|selector| match selector.part {
            JobPart::Tasks(ranges) => ranges.iter().flat_map(|range| range.iter()).collect(),
            JobPart::Task(task) => vec![task],
            JobPart::Whole | JobPart::Component(_) => Vec::new(),
        })
        .unwrap_or_default();
    if tasks.is_empty() {
        return vec![(job, steps)];
    }
    tasks
        .into_iter()
        .map(|task| {
            let mut one = job.clone();
            one.array_task_id = Some(task);
            one.array_task_string.clear();
            (one, Vec::new())
        })
        .collect()
}

/// `%j`, `%A`, `%a`, `%u`, `%x`, `%%` in the paths of a job.
fn expand_paths(job: &mut sluice_model::accounting::JobRecord) {
    let facts = job.clone();
    for path in [&mut job.std_in, &mut job.std_out, &mut job.std_err] {
        let mut expanded = String::with_capacity(path.len());
        let mut letters = path.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                expanded.push(letter);
                continue;
            }
            match letters.next() {
                Some('j') => expanded.push_str(&facts.job_id.to_string()),
                Some('A') => {
                    expanded.push_str(&facts.array_job_id.unwrap_or(facts.job_id).to_string());
                }
                Some('a') => {
                    let task = facts.array_task_id.map(|task| task.to_string());
                    expanded
                        .push_str(&task.unwrap_or_else(|| u32::MAX.wrapping_sub(1).to_string()));
                }
                Some('u') => expanded.push_str(&facts.user),
                Some('x') => expanded.push_str(&facts.name),
                Some('%') => expanded.push('%'),
                Some(other) => {
                    expanded.push('%');
                    expanded.push(other);
                }
                None => expanded.push('%'),
            }
        }
        *path = expanded;
    }
}

/// Batch scripts or environments of the jobs.
fn print_texts(jobs: &[Record], scripts: bool) {
    for (job, _) in jobs {
        let (title, text) = if scripts {
            (
                format!("Batch Script for {}", job.job_id),
                job.script.as_deref().unwrap_or("NONE"),
            )
        } else {
            (
                format!(
                    "Environment used for {} (must be batch to display)",
                    job.job_id
                ),
                job.environment.as_deref().unwrap_or("NONE"),
            )
        };
        output::line(title);
        output::line("-".repeat(80));
        output::line(text.trim_end_matches('\n'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_model::accounting::JobRecord;
    use sluice_model::ids::JobId;

    fn waiting(tasks: &str) -> Record {
        let mut job = JobRecord::new(JobId(12), 0, UnixSeconds(1));
        job.array_job_id = Some(JobId(12));
        job.array_task_string = tasks.to_string();
        (job, Vec::new())
    }

    /// sacct(1), --array: one line for each task.
    #[test]
    fn arrays_are_split() {
        let tasks = |list: &str| -> Vec<Option<u32>> {
            split_array(waiting(list))
                .iter()
                .map(|(job, _)| job.array_task_id)
                .collect()
        };
        assert_eq!(tasks("3-5%2"), [Some(3), Some(4), Some(5)]);
        assert_eq!(tasks("1,9"), [Some(1), Some(9)]);
        assert_eq!(tasks(""), [None]);
    }

    #[test]
    fn patterns_are_expanded() {
        let (mut job, _) = waiting("");
        job.job_id = JobId(15);
        job.array_task_id = Some(3);
        job.user = "alice".to_string();
        job.std_out = "/tmp/%u-%A_%a-%j-%%-%z.out".to_string();
        expand_paths(&mut job);
        assert_eq!(job.std_out, "/tmp/alice-12_3-15-%-%z.out");
    }
}
