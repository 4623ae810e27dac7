//! sreport: reports on the usage of a cluster in a period.
//!
//! There are no rolled up tables yet: reports are computed from the records of jobs when they are asked for, which gives the
//! same figures, later for long periods. Computing is in [`crate::format::sreport_usage`], layout in [`crate::format::sreport`].
//! Source: sreport(1).

use std::io::{BufRead as _, IsTerminal as _};
use std::time::Duration;

use sluice_model::accounting::{AssociationRecord, ClusterRecord, JobRecord};
use sluice_model::error_code::ErrorCode;
use sluice_model::time::{UnixSeconds, parse_past_point_in_time, parse_point_in_time};
use sluice_proto::v1;

use super::caller::{Place, now};
use super::sreport_tables::{Facts, Kind, build};
use super::sshare::table_style;
use super::{block_on, version_text};
use crate::client::{Client, ClientError};
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::format::sreport::TimeForm;
use crate::format::sreport_usage::Period;
use crate::output;
use crate::submit::options::Options;

/// How long an absent controller is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Seconds of an hour: periods begin and end at full hours.
const HOUR: i64 = 3_600;

/// What stands after the report: conditions and choices.
#[derive(Debug, Clone, Default)]
pub(super) struct Conditions {
    pub(super) start: Option<String>,
    pub(super) end: Option<String>,
    pub(super) accounts: Vec<String>,
    pub(super) users: Vec<String>,
    pub(super) clusters: Vec<String>,
    pub(super) partitions: Vec<String>,
    pub(super) qos: Vec<String>,
    pub(super) wckeys: Vec<String>,
    pub(super) jobs: Vec<String>,
    pub(super) nodes: Vec<String>,
    pub(super) format: Option<String>,
    pub(super) grouping: Option<String>,
    pub(super) top_count: Option<usize>,
    pub(super) tree: bool,
    pub(super) group: bool,
    pub(super) flat: bool,
    pub(super) job_count: bool,
}

impl Conditions {
    /// Reads `name=value` words; the error is the line for the user.
    fn new(words: &[String]) -> Result<Self, String> {
        let mut all = Self::default();
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let list = || -> Vec<String> {
                value
                    .split(',')
                    .map(str::trim)
                    .filter(|item| !item.is_empty())
                    .map(String::from)
                    .collect()
            };
            let lower = name.to_ascii_lowercase();
            let is = |full: &str, least: usize| lower.len() >= least && full.starts_with(&lower);
            let known = match () {
                () if is("all_clusters", 2) => true,
                () if is("accounts", 1) => assign(&mut all.accounts, list()),
                () if is("clusters", 1) => assign(&mut all.clusters, list()),
                () if is("end", 1) => assign(&mut all.end, Some(value.to_string())),
                () if is("flatview", 2) => assign(&mut all.flat, true),
                () if is("format", 2) => assign(&mut all.format, Some(value.to_string())),
                () if is("grouping", 6) => assign(&mut all.grouping, Some(value.to_string())),
                () if is("group", 2) => assign(&mut all.group, true),
                () if is("jobs", 1) => assign(&mut all.jobs, list()),
                () if is("nodes", 1) => assign(&mut all.nodes, vec![value.to_string()]),
                () if is("partitions", 2) => assign(&mut all.partitions, list()),
                () if is("printjobcount", 2) => assign(&mut all.job_count, true),
                () if is("qos", 1) => assign(&mut all.qos, list()),
                () if is("start", 1) => assign(&mut all.start, Some(value.to_string())),
                () if is("topcount", 2) => {
                    let count = value
                        .parse()
                        .map_err(|_| format!(" Bad TopCount value: {value}"))?;
                    assign(&mut all.top_count, Some(count))
                }
                () if is("tree", 2) => assign(&mut all.tree, true),
                () if is("users", 1) => assign(&mut all.users, list()),
                () if is("wckeys", 1) => assign(&mut all.wckeys, list()),
                () => false,
            };
            if !known {
                return Err(format!(" Unknown condition: {word}"));
            }
        }
        Ok(all)
    }
}

fn assign<T>(to: &mut T, value: T) -> bool {
    *to = value;
    true
}

/// Runs sreport.
pub fn run(parsed: &Parsed) -> i32 {
    let place = Place::here();
    let options = Options::new(
        Command::Sreport,
        &Parsed::default(),
        |name| place.variable(name),
        parsed,
    );
    if parsed.operands.is_empty() {
        return interactive(&options, &place);
    }
    report(&options, &place, &parsed.operands)
}

/// Reads reports line by line until `quit` or the end of input.
fn interactive(options: &Options, place: &Place) -> i32 {
    let mut code = 0;
    let mut last = Vec::new();
    loop {
        output::text_out("sreport: ");
        let mut line = String::new();
        if !matches!(std::io::stdin().lock().read_line(&mut line), Ok(length) if length > 0) {
            output::line("");
            return code;
        }
        if !std::io::stdin().is_terminal() {
            output::text_out(&line);
        }
        let mut words: Vec<String> = line.split_whitespace().map(String::from).collect();
        if words.first().is_some_and(|word| word == "!!") {
            words = std::mem::take(&mut last);
        }
        last.clone_from(&words);
        match words.first().map(String::as_str) {
            None => {}
            Some("quit" | "exit" | "q") => return code,
            Some("version") => output::text_out(&version_text()),
            Some("help" | "h") => output::text_out(&crate::flags::help::help(Command::Sreport)),
            Some(_) => code = report(options, place, &words),
        }
    }
}

/// Makes one report: group, name, conditions.
fn report(options: &Options, place: &Place, words: &[String]) -> i32 {
    let Some((group, rest)) = words.split_first() else {
        return 0;
    };
    let kind = match Kind::find(group, rest.first().map(String::as_str)) {
        Ok(kind) => kind,
        Err(text) => {
            output::error_line(text);
            return 1;
        }
    };
    let prepared = Conditions::new(rest.get(1..).unwrap_or_default()).and_then(|conditions| {
        let period = period(&conditions, place, now())?;
        let form = match options.get("time") {
            None => TimeForm::default(),
            Some(text) => TimeForm::parse(text)
                .ok_or_else(|| format!("sreport: error: unknown time format {text}"))?,
        };
        Ok((conditions, period, form))
    });
    let (conditions, period, form) = match prepared {
        Ok(prepared) => prepared,
        Err(line) => {
            output::error_line(line);
            return 1;
        }
    };
    block_on(async {
        match show(options, place, kind, &conditions, period, form).await {
            Ok(code) => code,
            Err(error) => {
                let text = match error.code() {
                    Some(ErrorCode::NotSupported | ErrorCode::Disabled) => {
                        "sreport: error: Slurm accounting storage is disabled".to_string()
                    }
                    _ => format!("sreport: error: {error}"),
                };
                output::error_line(text);
                1
            }
        }
    })
}

/// The period: yesterday, or what is given; at full hours, and an hour at least.
fn period(conditions: &Conditions, place: &Place, now: UnixSeconds) -> Result<Period, String> {
    let point = |text: &str| -> Result<UnixSeconds, String> {
        parse_past_point_in_time(text, now, &place.zone)
            .or_else(|_| parse_point_in_time(text, now, &place.zone))
            .map_err(|error| error.to_string())
    };
    let midnight = point("00:00")?;
    // Full hours of the local time; zones are whole quarters of an hour apart, so the day's begin gives the place.
    let full_hour =
        |time: UnixSeconds| UnixSeconds(midnight.0 + (time.0 - midnight.0).div_euclid(HOUR) * HOUR);
    let start = match &conditions.start {
        Some(text) => full_hour(point(text)?),
        None => UnixSeconds(midnight.0 - 24 * HOUR),
    };
    let end = match &conditions.end {
        Some(text) => full_hour(point(text)?),
        None => midnight,
    };
    let end = end.max(UnixSeconds(start.0 + HOUR));
    Ok(Period { start, end })
}

async fn show(
    options: &Options,
    place: &Place,
    kind: Kind,
    conditions: &Conditions,
    period: Period,
    form: TimeForm,
) -> Result<i32, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let facts = facts(&client, options, conditions, period).await?;
    let tres = match options.get("tres") {
        None | Some("") => vec!["cpu".to_string()],
        Some(list) if list.eq_ignore_ascii_case("all") => facts.all_tres(),
        Some(list) => list
            .split(',')
            .map(|name| name.trim().to_ascii_lowercase())
            .filter(|name| !name.is_empty())
            .collect(),
    };
    let mut report = match build(kind, &facts, conditions, &tres, options.has("tres"), form) {
        Ok(report) => report,
        Err(line) => {
            output::error_line(line);
            return Ok(1);
        }
    };
    if let Some(list) = &conditions.format
        && let Err(name) = report.choose(list)
    {
        output::error_line(format!(" Unknown field '{name}'"));
        return Ok(1);
    }
    if kind == Kind::ReservationUtilization && !options.has("quiet") {
        output::error_line("sreport: reservations are not accounted for yet");
    }
    let text = report.text(
        &period,
        &place.times(now()),
        &table_style(options),
        !options.has("noheader"),
    );
    output::text_out(&text);
    Ok(0)
}

/// Everything a report may need.
async fn facts(
    client: &Client,
    options: &Options,
    conditions: &Conditions,
    period: Period,
) -> Result<Facts, ClientError> {
    let mut clusters: Vec<String> = options
        .get("cluster")
        .unwrap_or_default()
        .split(',')
        .filter(|name| !name.is_empty() && *name != "all")
        .map(String::from)
        .collect();
    clusters.extend(conditions.clusters.iter().cloned());
    let all = options.has("all_clusters");
    if clusters.is_empty() && !all {
        clusters.push(client.settings.cluster.clone());
    }
    let query = v1::JobQuery {
        start: Some(period.start.0),
        end: Some(period.end.0.min(now().0)),
        clusters: clusters.clone(),
        all_clusters: all,
        jobs: conditions.jobs.clone(),
        partitions: conditions.partitions.clone(),
        qos: conditions.qos.clone(),
        wckeys: conditions.wckeys.clone(),
        nodes: conditions.nodes.clone(),
        duplicates: true,
        allocations_only: true,
        ..Default::default()
    };
    let jobs: Vec<JobRecord> = client
        .job_records(query)
        .await?
        .into_iter()
        .map(|(job, _)| job)
        .collect();
    let request = v1::ListAssociationsRequest {
        clusters: clusters.clone(),
        ..Default::default()
    };
    let associations = client
        .accounting()
        .list_associations(request)
        .await?
        .into_inner()
        .associations
        .into_iter()
        .map(AssociationRecord::try_from)
        .collect::<Result<Vec<_>, _>>()?;
    let request = v1::ListClustersRequest {
        names: clusters,
        with_deleted: false,
    };
    let clusters = client
        .accounting()
        .list_clusters(request)
        .await?
        .into_inner()
        .clusters
        .into_iter()
        .map(ClusterRecord::try_from)
        .collect::<Result<Vec<_>, _>>()?;
    let request = v1::GetDowntimeRequest {
        start: period.start.0,
        end: period.end.0,
    };
    let events = client
        .diagnostics()
        .get_downtime(request)
        .await?
        .into_inner()
        .periods;
    Ok(Facts {
        jobs,
        associations,
        clusters,
        events,
        period,
        now: now(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Conditions, String> {
        Conditions::new(
            &line
                .split_whitespace()
                .map(String::from)
                .collect::<Vec<_>>(),
        )
    }

    /// Abbreviated names, flags, and what is unknown.
    #[test]
    fn conditions() {
        let all =
            words("start=2026-11-30 acc=a,b Users=x tree topcount=3 grouping=10").expect("known");
        assert_eq!(all.accounts, ["a", "b"]);
        assert_eq!(
            (all.users, all.tree, all.top_count),
            (vec!["x".to_string()], true, Some(3))
        );
        assert_eq!(all.grouping.as_deref(), Some("10"));
        assert!(words("group").expect("known").group);
        assert_eq!(
            words("colour=red").err(),
            Some(" Unknown condition: colour=red".to_string())
        );
    }
}
