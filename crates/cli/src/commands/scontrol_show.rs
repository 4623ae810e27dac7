//! `scontrol show …`.
//!
//! Records are printed by [`crate::format`]; here they are fetched and chosen. Source: scontrol(1).

use sluice_model::array::IndexSet;
use sluice_model::hostlist::{collapse_hostlist, collapse_sorted, parse_hostlist};
use sluice_model::ids::{JobPart, JobSelector};
use sluice_model::job::JobInfo;
use sluice_model::node_state::NodeState;
use sluice_proto::v1;

use super::caller::now;
use super::scontrol::{Context, is_any_keyword, is_keyword, too_many};
use super::scontrol_reservation as reservation;
use super::squeue::selects;
use super::structured;
use super::{scontrol_assoc, scontrol_inspect};
use crate::client::ClientError;
use crate::format::show_job::{ShowOptions, show_job};
use crate::format::show_node::show_node;
use crate::format::show_partition::show_partition;
use crate::format::show_step::show_step;
use crate::output;

/// Runs `show` with its words.
pub(super) async fn run(context: &Context, words: &[String]) -> i32 {
    let Some((entity, rest)) = words.split_first() else {
        output::error_line("too few arguments for keyword:show");
        return 1;
    };
    // Both `show job 5` and `show jobid=5` are common.
    let (entity, given) = match entity.split_once('=') {
        Some((entity, value)) => (entity, Some(value.to_string())),
        None => (entity.as_str(), None),
    };
    let lists = ["assoc_mgr", "cache", "bbstat", "dwstat"];
    let takes_list = lists.iter().any(|name| is_keyword(entity, name, 2));
    if rest.len() + usize::from(given.is_some()) > 1 && !takes_list {
        return too_many("show");
    }
    let name = given.or_else(|| rest.first().cloned());
    if structured::wanted(&context.options) && !has_document(entity) {
        return structured::no_document(&context.options, &format!("show {entity}"));
    }
    let result = match entity.to_ascii_lowercase().as_str() {
        word if is_keyword(word, "jobs", 1) || is_keyword(word, "jobid", 1) => {
            jobs(context, name.as_deref()).await
        }
        word if is_keyword(word, "nodes", 1) || is_keyword(word, "nodename", 5) => {
            nodes(context, name.as_deref()).await
        }
        word if is_keyword(word, "partitions", 1) || is_keyword(word, "partitionname", 10) => {
            partitions(context, name.as_deref()).await
        }
        word if is_keyword(word, "steps", 2) || is_keyword(word, "stepid", 2) => {
            steps(context, name.as_deref()).await
        }
        word if is_keyword(word, "config", 1) => config(context).await,
        word if is_keyword(word, "hostnames", 5) => Ok(hostnames(context, name.as_deref())),
        word if is_keyword(word, "hostlistsorted", 9) => Ok(hostlist(name.as_deref(), true)),
        word if is_keyword(word, "hostlist", 5) => Ok(hostlist(name.as_deref(), false)),
        word if is_keyword(word, "daemons", 2) => {
            output::line("slurmctld slurmd");
            Ok(0)
        }
        word if is_keyword(word, "reservations", 1) || is_keyword(word, "reservationname", 12) => {
            reservation::show(context, name.as_deref()).await
        }
        word if is_keyword(word, "licenses", 2) => licenses(context, name.as_deref()).await,
        word if is_keyword(word, "aliases", 2) => {
            scontrol_inspect::aliases(context, name.as_deref()).await
        }
        word if is_keyword(word, "topoconf", 5) => scontrol_inspect::topoconf(context).await,
        word if is_keyword(word, "topology", 1) => {
            scontrol_inspect::topology(context, name.as_deref()).await
        }
        word if is_keyword(word, "assoc_mgr", 2) || is_keyword(word, "cache", 2) => {
            scontrol_assoc::show(context, rest).await
        }
        word if is_keyword(word, "slurmd", 2) => {
            scontrol_inspect::slurmd(context, name.as_deref()).await
        }
        // Nothing to tell: there are no burst buffers, no front ends, and there is one cluster.
        word if is_keyword(word, "burstbuffer", 2)
            || is_keyword(word, "bbstat", 3)
            || is_keyword(word, "dwstat", 2)
            || is_keyword(word, "federation", 1) =>
        {
            Ok(0)
        }
        _ => {
            output::error_line(format!("invalid entity:{entity} for keyword:show"));
            Ok(1)
        }
    };
    match result {
        Ok(code) => code,
        Err((call, error)) => {
            output::error_with_hint(format!("{call} error: {error}"), &error);
            1
        }
    }
}

type Outcome = Result<i32, (&'static str, ClientError)>;

/// Entities that `--json` and `--yaml` show.
fn has_document(entity: &str) -> bool {
    let word = entity.to_ascii_lowercase();
    let known = [
        ("jobs", 1),
        ("jobid", 1),
        ("nodes", 1),
        ("nodename", 5),
        ("partitions", 1),
        ("partitionname", 10),
        ("steps", 2),
        ("stepid", 2),
        ("reservations", 1),
        ("reservationname", 12),
        ("licenses", 2),
    ];
    is_any_keyword(&word, &known)
}

fn show_options(context: &Context) -> ShowOptions {
    ShowOptions {
        one_line: context.one_line.get(),
        details: context.details.get(),
        times: context.place.times(now()),
        index_text_max: context.place.index_text_max(),
        without_submit_line: context.place.variable("SLUICE_HIDE_SUBMIT_LINE").is_some(),
        cluster: String::new(),
    }
}

async fn jobs(context: &Context, name: Option<&str>) -> Outcome {
    const CALL: &str = "slurm_load_jobs";
    let fail = |error| (CALL, error);
    let quiet = context.quiet.get();
    let complain = |text: String| {
        if !quiet {
            output::error_line(text);
        }
        Ok(1)
    };
    let unknown = || complain(format!("{CALL} error: Invalid job id specified"));
    let selector = match name.map(str::parse::<JobSelector>) {
        None => None,
        // A step is no job.
        Some(Ok(selector)) if selector.step.is_none() => Some(selector),
        Some(_) => {
            return complain("scontrol_print_job error: Invalid job id specified".to_string());
        }
    };
    let client = context.connect().await.map_err(fail)?;
    let list = match &selector {
        Some(selector) => client.job(selector.job.0).await.map_err(fail)?,
        None => client
            .jobs(v1::ListJobsRequest::default())
            .await
            .map_err(fail)?,
    };
    if structured::wanted(&context.options) {
        let chosen = |job: &&JobInfo| selector.as_ref().is_none_or(|only| selects(only, job));
        let shown: Vec<&JobInfo> = list.iter().filter(chosen).collect();
        if shown.is_empty() && selector.is_some() {
            return unknown();
        }
        let done = structured::jobs(&client, &context.options, &shown).await;
        return done.map(|()| 0).map_err(fail);
    }
    let options = ShowOptions {
        cluster: client.settings.cluster.clone(),
        ..show_options(context)
    };
    let mut text = String::new();
    for job in &list {
        match &selector {
            None => text.push_str(&show_job(job, None, &options)),
            Some(selector) if selects(selector, job) => {
                for task in shown_tasks(selector, job) {
                    text.push_str(&show_job(job, task, &options));
                }
            }
            Some(_) => {}
        }
    }
    if text.is_empty() {
        match &selector {
            // The array exists, the task does not.
            Some(selector) if !list.is_empty() => {
                return complain(format!("Job {selector} not found"));
            }
            Some(_) => return unknown(),
            None => output::line("No jobs in the system"),
        }
    }
    output::text_out(&text);
    Ok(0)
}

/// The tasks of an array's rest that a selector names one by one; the record itself else.
fn shown_tasks(selector: &JobSelector, job: &JobInfo) -> Vec<Option<u32>> {
    let rest = job
        .array_task_string
        .as_deref()
        .and_then(|text| text.parse::<IndexSet>().ok());
    match (&selector.part, rest) {
        (JobPart::Task(_) | JobPart::Tasks(_), Some(rest)) => rest
            .iter()
            .filter(|task| selector.selects_task(*task))
            .map(Some)
            .collect(),
        _ => vec![None],
    }
}

async fn nodes(context: &Context, name: Option<&str>) -> Outcome {
    let fail = |error| ("slurm_load_node", error);
    let client = context.connect().await.map_err(fail)?;
    let all = client.nodes(Vec::new()).await.map_err(fail)?;
    let options = show_options(context);
    let wanted = match name {
        None => None,
        Some(name) if name.eq_ignore_ascii_case("all") => None,
        Some(name) => Some(
            parse_hostlist(name).map_err(|error| fail(ClientError::Other(error.to_string())))?,
        ),
    };
    if structured::wanted(&context.options) {
        let shown: Vec<_> = all
            .iter()
            .filter(|node| {
                wanted
                    .as_ref()
                    .is_none_or(|names| names.contains(&node.name))
            })
            .collect();
        let done = structured::nodes(&client, &context.options, &shown).await;
        return done.map(|()| 0).map_err(fail);
    }
    let mut text = String::new();
    let mut code = 0;
    let future = context.options.has("future");
    match wanted {
        None => all
            .iter()
            .filter(|node| future || node.state.base != NodeState::Future)
            .for_each(|node| text.push_str(&show_node(node, &options))),
        Some(names) => {
            for name in names {
                match all.iter().find(|node| node.name == name) {
                    Some(node) => text.push_str(&show_node(node, &options)),
                    None => {
                        text.push_str(&format!("Node {name} not found\n"));
                        code = 1;
                    }
                }
            }
        }
    }
    output::text_out(&text);
    Ok(code)
}

async fn partitions(context: &Context, name: Option<&str>) -> Outcome {
    let fail = |error| ("slurm_load_partitions", error);
    let client = context.connect().await.map_err(fail)?;
    let all = client.partitions(Vec::new()).await.map_err(fail)?;
    let options = show_options(context);
    let shown: Vec<_> = all
        .iter()
        .filter(|partition| match name {
            Some(name) => partition.name == name,
            None => !partition.hidden || context.all.get(),
        })
        .collect();
    if structured::wanted(&context.options) {
        let done = structured::partitions(&client, &context.options, &shown).await;
        return done.map(|()| 0).map_err(fail);
    }
    let text: String = shown
        .iter()
        .map(|partition| show_partition(partition, &options))
        .collect();
    if let (true, Some(name)) = (text.is_empty(), name) {
        output::line(format!("Partition {name} not found"));
        return Ok(1);
    }
    output::text_out(&text);
    Ok(0)
}

async fn steps(context: &Context, name: Option<&str>) -> Outcome {
    const CALL: &str = "slurm_get_job_steps";
    let fail = |error| (CALL, error);
    let selector = match name.map(str::parse::<JobSelector>) {
        None => None,
        Some(Ok(selector)) => Some(selector),
        Some(Err(_)) => {
            return Err(fail(ClientError::Other(
                "Invalid job id specified".to_string(),
            )));
        }
    };
    let client = context.connect().await.map_err(fail)?;
    let list = client
        .steps(selector.as_ref().map(|selector| selector.job.0))
        .await
        .map_err(fail)?;
    let options = show_options(context);
    let shown: Vec<_> = list
        .iter()
        .filter(|step| {
            selector
                .as_ref()
                .and_then(|selector| selector.step)
                .is_none_or(|wanted| wanted == step.step_id)
        })
        .collect();
    if structured::wanted(&context.options) {
        let done = structured::steps(&client, &context.options, &shown).await;
        return done.map(|()| 0).map_err(fail);
    }
    let text: String = shown.iter().map(|step| show_step(step, &options)).collect();
    match (text.is_empty(), name) {
        (true, Some(name)) => {
            output::line(format!("Job step {name} not found"));
            Ok(1)
        }
        (true, None) => {
            output::line("No job steps in the system");
            Ok(0)
        }
        _ => {
            output::text_out(&text);
            Ok(0)
        }
    }
}

async fn config(context: &Context) -> Outcome {
    let fail = |error| ("slurm_load_ctl_conf", error);
    let client = context.connect().await.map_err(fail)?;
    let reply = client.config().await.map_err(fail)?;
    let times = context.place.times(now());
    let mut text = format!(
        "Configuration data as of {}\n",
        times.point(sluice_model::time::UnixSeconds(reply.time))
    );
    let entry = |entry: &v1::ConfigEntry| format!("{:<23} = {}\n", entry.key, entry.value);
    text.extend(reply.entries.iter().map(entry));
    for section in &reply.sections {
        text.push_str(&format!("\n{}:\n", section.title));
        text.extend(section.entries.iter().map(entry));
    }
    text.push('\n');
    output::text_out(&text);
    Ok(super::scontrol_admin::ping(context).await)
}

/// Licences and their use. Slurm lists them by name.
async fn licenses(context: &Context, wanted: Option<&str>) -> Outcome {
    let fail = |error| ("slurm_load_licenses", error);
    let client = context.connect().await.map_err(fail)?;
    let mut licenses = client.licenses().await.map_err(fail)?;
    licenses.retain(|license| wanted.is_none_or(|wanted| wanted == license.name));
    if structured::wanted(&context.options) {
        let done = structured::licenses(&client, &context.options, &licenses).await;
        return done.map(|()| 0).map_err(fail);
    }
    licenses.sort_by(|a, b| a.name.cmp(&b.name));
    let separator = if context.one_line.get() {
        " "
    } else {
        "\n    "
    };
    let text: String = licenses
        .iter()
        .map(|license| {
            format!(
                "LicenseName={}{separator}Total={} Used={} Free={} Reserved={} Remote=no\n",
                license.name,
                license.total,
                license.used,
                license.total.saturating_sub(license.used),
                license.reserved
            )
        })
        .collect();
    match (text.is_empty(), wanted) {
        (true, Some(name)) => {
            output::error_line(format!(
                "scontrol: error: query \"{name}\" matched zero licenses."
            ));
            Ok(1)
        }
        (true, None) => {
            output::line("No licenses configured in Slurm.");
            Ok(0)
        }
        _ => {
            output::text_out(&text);
            Ok(0)
        }
    }
}

/// Names one a line; without an argument those of this job.
fn hostnames(context: &Context, list: Option<&str>) -> i32 {
    let Some(list) = list
        .map(String::from)
        .or_else(|| context.place.variable("SLURM_JOB_NODELIST"))
    else {
        output::error_line("scontrol: error: host list is empty");
        return 0;
    };
    match parse_hostlist(&list) {
        Ok(names) => {
            let text: String = names.iter().map(|name| format!("{name}\n")).collect();
            output::text_out(&text);
            0
        }
        Err(error) => {
            output::error_line(format!("Invalid hostlist: {error}"));
            1
        }
    }
}

/// Names in order, each as often as it was given.
fn in_order(names: &[String]) -> Vec<String> {
    parse_hostlist(&collapse_sorted(names))
        .unwrap_or_default()
        .into_iter()
        .flat_map(|name| {
            let times = names.iter().filter(|given| **given == name).count();
            std::iter::repeat_n(name, times)
        })
        .collect()
}

/// Names as an expression. A path names a file with one name a line.
fn hostlist(list: Option<&str>, sorted: bool) -> i32 {
    let Some(list) = list else {
        output::error_line("invalid encode argument");
        return 1;
    };
    let text = if list.starts_with('/') {
        let Ok(content) = std::fs::read_to_string(list) else {
            output::error_line(format!("Can not open {list}"));
            return 1;
        };
        content
            .split([',', ' ', '\t', '\n', '\r'])
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(",")
    } else {
        list.to_string()
    };
    match parse_hostlist(&text) {
        Ok(names) => {
            output::line(if sorted {
                collapse_hostlist(in_order(&names))
            } else {
                collapse_hostlist(&names)
            });
            0
        }
        Err(error) => {
            output::error_line(format!("Invalid hostlist: {error}"));
            1
        }
    }
}
