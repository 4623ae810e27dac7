//! squeue: shows jobs and steps.
//!
//! What is shown is decided in [`super::squeue_filter`]; formats are in [`crate::format`]. Source: squeue(1).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sluice_model::error_code::ErrorCode;
use sluice_model::job::JobInfo;
use sluice_proto::v1::ListJobsRequest;

use super::caller::{Place, now};
use super::squeue_filter::Filter;
pub(super) use super::squeue_filter::selects;
use super::{block_on, clusters, squeue_verbose, structured};
use crate::client::{Client, ClientError};
use crate::flags::getopt::Parsed;
use crate::flags::{Command, help};
use crate::format::column::Layout;
use crate::format::job_fields::{self, FIELDS};
use crate::format::job_order::{JobOrder, SortKey};
use crate::format::job_rows::{JobRow, JobView, each_row};
use crate::format::step_fields::{self, StepRow};
use crate::output;
use crate::submit::options::Options;

/// How long an absent controller is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Options that choose jobs by more than ids and states, or need more than states.
const NOT_WITH_STATES: &[&str] = &[
    "account",
    "licenses",
    "long",
    "me",
    "name",
    "nodelist",
    "notme",
    "partition",
    "qos",
    "reservation",
    "running-over",
    "running-under",
    "start",
    "steps",
    "user",
];

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
    if let Err(line) = check(&options, parsed) {
        output::error_line(line);
        return 1;
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
    if options.has("verbose") {
        output::text_out(&squeue_verbose::dump(&options, &filter));
    }
    let dated = ["iterate", "verbose", "long"]
        .iter()
        .any(|name| options.has(name))
        && !options.has("noheader")
        && !structured::wanted(&options);
    let banner = || {
        if dated {
            output::line(place.times(now()).banner());
        }
    };
    block_on(async {
        let Some(pause) = options.get("iterate").and_then(pause) else {
            banner();
            return show(&options, &filter, &place).await;
        };
        loop {
            banner();
            let code = show(&options, &filter, &place).await;
            if code != 0 {
                return code;
            }
            tokio::time::sleep(pause).await;
            output::line("");
        }
    })
}

/// The pause of `-i`: whole seconds, at least one.
pub(super) fn pause(text: &str) -> Option<Duration> {
    let seconds = text.trim().parse::<u64>().ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// What cannot be done, as one or more lines.
fn check(options: &Options, parsed: &Parsed) -> Result<(), String> {
    if let Some(operand) = parsed.operands.first() {
        output::text_out(&help::usage(Command::Squeue));
        return Err(format!("squeue: error: Unrecognized option: {operand}"));
    }
    let place = |name: &str| parsed.given.iter().position(|given| given.name == name);
    let (letters, names) = (place("format"), place("Format"));
    if letters.is_some() && options.has("long") {
        return Err("squeue: fatal: Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry.".to_string());
    }
    match (letters, names) {
        (Some(letters), Some(names)) if letters < names => {
            return Err(
                "squeue: error: -O (--Format) is incompatible with -o (--format)".to_string(),
            );
        }
        (Some(_), Some(_)) => {
            return Err(
                "squeue: error: -o (--format) is incompatible with -O (--Format)".to_string(),
            );
        }
        _ => {}
    }
    if options.has("only-job-state") && NOT_WITH_STATES.iter().any(|name| options.has(name)) {
        return Err("squeue: fatal: Option --only-job-state only works alone, with -j (--jobs) and/or -t (--states) parameters, parameters for cluster/federation selection, and the printing options.".to_string());
    }
    if let Some(text) = options.get("iterate")
        && pause(text).is_none()
    {
        return Err(format!("squeue: error: --iterate={text}\n"));
    }
    for item in options.get("steps").unwrap_or_default().split(',') {
        let job = item.split(['.', '_', '+']).next().unwrap_or_default();
        if !item.is_empty() && job.parse::<u32>().is_err() {
            return Err(format!("squeue: error: Invalid job_step id: {item}.??"));
        }
    }
    let unknown = options
        .get("sort")
        .filter(|_| !options.has("steps"))
        .and_then(job_fields::unknown_sort_letter);
    match unknown {
        Some(letter) => Err(format!(
            "squeue: error: Invalid sort specification: {letter}"
        )),
        None => Ok(()),
    }
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
    if !clusters::are_known(options, &client.settings.cluster) {
        return 1;
    }
    if !structured::wanted(options) {
        clusters::announce(options, &client.settings.cluster);
    }
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
    let request = ListJobsRequest {
        brief: is_brief(options),
        ..filter.request()
    };
    let hides = filter.jobs.is_empty()
        && place.uid != 0
        && !options.has("partition")
        && (!options.has("all") || options.has("hide"));
    let hidden = hidden(client, hides).await?;
    let each = options.has("array") || options.has("array-unique");
    let each_task = |job: &JobInfo| each || filter.asks_for_tasks(job);
    let default_sort = if options.has("start") { "S" } else { "P,t,-p" };
    let order = JobOrder::new(options.get("sort").unwrap_or(default_sort));
    let layout = job_layout(options);
    let structured = structured::wanted(options);
    let mut shared: Option<Arc<JobView>> = None;
    let mut any = false;
    let mut records = Vec::<JobRow>::new();
    // Only the lines and what they are sorted by are kept of the records.
    let mut lines = Vec::<(SortKey, String)>::new();
    client
        .each_job(request, |time, job| {
            any = true;
            let is_hidden = || job.partition.split(',').all(|name| hidden.contains(name));
            if !filter.passes(&job, time) || is_hidden() {
                return;
            }
            let shared = shared.get_or_insert_with(|| view(client, options, place, time));
            let by_partition = options.has("priority");
            each_row(&Arc::new(job), shared, each_task, by_partition, |row| {
                if !filter.passes_task(&row) || !filter.passes_partition(row.partition()) {
                    return;
                }
                if structured {
                    records.push(row);
                } else {
                    lines.push((order.key(&row), layout.row(&row)));
                }
            });
        })
        .await?;
    if filter.single_job().is_some() && !any {
        return Err(ClientError::refused(
            ErrorCode::InvalidJobId,
            ErrorCode::InvalidJobId.message(),
        ));
    }
    if structured {
        return structured::job_lines(client, options, &records).await;
    }
    lines.sort_by(|first, second| order.compare(&first.0, &second.0));
    let lines = lines.iter().map(|(_, line)| line.as_str());
    print_lines(&layout, lines, options.has("noheader"));
    Ok(())
}

/// Names of the hidden partitions; none when everything is shown anyway, as to root.
async fn hidden(client: &Client, hides: bool) -> Result<BTreeSet<String>, ClientError> {
    if !hides {
        return Ok(BTreeSet::new());
    }
    let partitions = client.partitions(Vec::new()).await?;
    Ok(partitions
        .into_iter()
        .filter(|partition| partition.hidden)
        .map(|partition| partition.name)
        .collect())
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
    let letters = |text: &str| Layout::from_letters(text, FIELDS);
    let names = |text: &str| Layout::from_names(text, FIELDS);
    // What is typed beats what the environment says.
    let (layout, unknown) = match (options.typed("Format"), options.typed("format")) {
        (Some(text), _) => names(text),
        (_, Some(text)) => letters(text),
        _ if options.has("only-job-state") => letters(job_fields::FORMAT_STATES),
        _ if options.has("start") => letters(job_fields::FORMAT_START),
        _ if options.has("long") => letters(job_fields::FORMAT_LONG),
        _ => match (options.get("format"), options.get("Format")) {
            (Some(text), _) => letters(text),
            (_, Some(text)) => names(text),
            _ => letters(job_fields::FORMAT_DEFAULT),
        },
    };
    report_unknown("squeue: error: Invalid job format specification", &unknown);
    layout
}

/// Tells which fields do not exist; the others are shown.
pub(super) fn report_unknown(what: &str, unknown: &[crate::format::column::UnknownField]) {
    for field in unknown {
        output::error_line(format!("{what}: {}", field.0));
    }
}

/// Prints a heading and lines.
pub(super) fn print<R>(layout: &Layout<R>, lines: &[R], no_header: bool) {
    let lines: Vec<String> = lines.iter().map(|line| layout.row(line)).collect();
    print_lines(layout, lines.iter().map(String::as_str), no_header);
}

fn print_lines<'a, R>(layout: &Layout<R>, lines: impl Iterator<Item = &'a str>, no_header: bool) {
    let mut text = String::new();
    if !no_header {
        text.push_str(&layout.header());
        text.push('\n');
    }
    for line in lines {
        text.push_str(line);
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
    // SQUEUE_FORMAT is about jobs.
    let (layout, unknown) = match (options.typed("Format"), options.typed("format")) {
        (Some(names), _) => Layout::from_names(names, step_fields::FIELDS),
        (None, Some(letters)) => Layout::from_letters(letters, step_fields::FIELDS),
        (None, None) => Layout::from_letters(step_fields::FORMAT_DEFAULT, step_fields::FIELDS),
    };
    report_unknown(
        "squeue: error: Invalid job step format specification",
        &unknown,
    );
    print(&layout, &lines, options.has("noheader"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::getopt::parse;

    fn refusal(line: &str) -> Option<String> {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        let parsed = with_operands(&parse(Command::Squeue, &words).expect("valid"));
        let options = Options::new(Command::Squeue, &Parsed::default(), |_| None, &parsed);
        check(&options, &parsed).err()
    }

    /// The refusals of a real squeue, and what it takes: other names of options, ids after -j.
    #[test]
    fn refusals() {
        for line in [
            "-j 5 -t all",
            "--users=root --accounts=a --partitions=p --nodes=n1",
            "--job 1,2",
            "-S -i,P",
            "-s 2.0,2.batch,3_1.0",
            "-i 5",
            "--only-job-state -j 5 -t all -h -o %i",
        ] {
            assert_eq!(refusal(line), None, "{line}");
        }
        for (line, text) in [
            (
                "-o %i -O jobid",
                "squeue: error: -O (--Format) is incompatible with -o (--format)",
            ),
            (
                "-O jobid -o %i",
                "squeue: error: -o (--format) is incompatible with -O (--Format)",
            ),
            (
                "-l -o %i",
                "squeue: fatal: Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry.",
            ),
            (
                "--only-job-state -u root",
                "squeue: fatal: Option --only-job-state only works alone, with -j (--jobs) and/or -t (--states) parameters, parameters for cluster/federation selection, and the printing options.",
            ),
            ("-i abc", "squeue: error: --iterate=abc\n"),
            ("-i 0", "squeue: error: --iterate=0\n"),
            ("-s foo", "squeue: error: Invalid job_step id: foo.??"),
            ("-S P,~", "squeue: error: Invalid sort specification: ~"),
        ] {
            assert_eq!(refusal(line).as_deref(), Some(text), "{line}");
        }
    }
}
