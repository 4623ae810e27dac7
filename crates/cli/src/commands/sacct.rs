//! sacct: shows accounting records of jobs and steps.
//!
//! Filters are the database's; columns are in [`crate::format::sacct`]. Source: sacct(1).

use std::time::Duration;

use sluice_model::error_code::ErrorCode;
use sluice_model::ids::JobSelector;
use sluice_model::state::JobStateSelector;
use sluice_model::time::{UnixSeconds, parse_duration_minutes, parse_past_point_in_time};
use sluice_proto::v1::{CountRange, JobQuery};

use super::block_on;
use super::caller::{Place, now, uid_of};
use super::{structured, structured_accounting};
use crate::client::{Client, ClientError};
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::format::sacct::{
    FORMAT_BRIEF, FORMAT_COMPLETION, FORMAT_DEFAULT, FORMAT_LONG, SacctColumn, TableStyle, columns,
    header, help_format, job_lines,
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
    for name in ["reason", "constraints", "associations", "flags", "file"] {
        if options.has(name) {
            output::error_line(format!("sacct: error: --{name} is not supported yet"));
            return 1;
        }
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
        .filter_map(|given| given.value.as_deref())
        .flat_map(split_outside_brackets)
        .collect()
}

fn split_outside_brackets(text: &str) -> Vec<String> {
    let mut depth = 0_u32;
    text.split(|letter| {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
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
    query.time_limit_minutes = match (minutes("timelimit-min")?, minutes("timelimit-max")?) {
        (None, None) => None,
        (min, max) => Some(CountRange {
            min: min.unwrap_or(0),
            max: max.unwrap_or(u32::MAX),
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
    let result = async {
        let client = Client::connect(PATIENCE).await?;
        Ok::<_, ClientError>((client.job_records(query).await?, client))
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
    let delimiter = options.get("delimiter").unwrap_or("|").to_string();
    let style = match (options.has("parsable"), options.has("parsable2")) {
        (_, true) => TableStyle::Delimited {
            delimiter,
            trailing: false,
        },
        (true, _) => TableStyle::Delimited {
            delimiter,
            trailing: true,
        },
        _ => TableStyle::Padded,
    };
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
        text.push_str(&job_lines(job, steps, columns, &style, &view));
    }
    output::text_out(&text);
    0
}

/// Batch scripts or environments of the jobs.
fn print_texts(
    jobs: &[(
        sluice_model::accounting::JobRecord,
        Vec<sluice_model::accounting::StepRecord>,
    )],
    scripts: bool,
) {
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
