//! sstat: shows what running steps use at the moment.
//!
//! The controller asks the nodes; columns are in [`crate::format::sstat`]. Source: sstat(1).

use std::collections::BTreeMap;
use std::time::Duration;

use sluice_model::error_code::ErrorCode;
use sluice_model::ids::StepId;
use sluice_model::launch::StepUsage;
use sluice_model::step::StepInfo;
use sluice_proto::v1;

use super::block_on;
use super::caller::{Place, now};
use super::sshare::{field_list, table_style};
use crate::client::{Client, ClientError};
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::format::sacct::{table_header, table_line};
use crate::format::sacct_fields::SacctView;
use crate::format::sstat::{
    FORMAT_DEFAULT, FORMAT_PIDS, NodePart, StatColumn, StatRow, columns, field_names, value,
};
use crate::output;
use crate::submit::options::Options;

/// How long an absent controller is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is asked for: a job with one of its steps, or with the lowest one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    job: String,
    step: Option<StepId>,
}

/// Runs sstat.
pub fn run(parsed: &Parsed) -> i32 {
    let place = Place::here();
    let options = Options::new(
        Command::Sstat,
        &Parsed::default(),
        |name| place.variable(name),
        parsed,
    );
    if options.has("helpformat") {
        output::text_out(&field_list(&field_names()));
        return 0;
    }
    let default = if options.has("pidformat") {
        FORMAT_PIDS
    } else {
        FORMAT_DEFAULT
    };
    let columns = match columns(options.get("format").unwrap_or(default)) {
        Ok(columns) => columns,
        Err(name) => {
            output::error_line(format!("sstat: error: Invalid field requested: \"{name}\""));
            return 1;
        }
    };
    let mut targets = Vec::new();
    let given = parsed
        .given
        .iter()
        .filter(|given| given.name == "jobs")
        .filter_map(|given| given.value.as_deref())
        .chain(parsed.operands.iter().map(String::as_str));
    for item in given.flat_map(|text| text.split(',')).map(str::trim) {
        match target(item) {
            Some(target) => targets.push(target),
            None => {
                output::error_line(format!("sstat: fatal: Bad job/step specified: {item}"));
                return 1;
            }
        }
    }
    if targets.is_empty() {
        output::error_line("sstat: error: no job was named: use --jobs=job[.step]");
        return 1;
    }
    block_on(show(&options, &place, &columns, &targets))
}

fn target(text: &str) -> Option<Target> {
    let (job, step) = match text.split_once('.') {
        Some((job, step)) => (job, Some(step.parse().ok()?)),
        None => (text, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let valid = match job.split_once('_') {
        Some((array, task)) => digits(array) && digits(task),
        None => digits(job),
    };
    valid.then(|| Target {
        job: job.to_string(),
        step,
    })
}

async fn show(options: &Options, place: &Place, columns: &[StatColumn], targets: &[Target]) -> i32 {
    let client = match Client::connect(PATIENCE).await {
        Ok(client) => client,
        Err(error) => {
            output::error_line(format!("sstat: error: {error}"));
            return 1;
        }
    };
    let style = table_style(options);
    let mut text = String::new();
    if !options.has("noheader") {
        let names: Vec<(String, i32)> = columns
            .iter()
            .map(|column| (column.name.to_string(), column.width))
            .collect();
        text.push_str(&table_header(&names, &style));
    }
    let view = SacctView {
        times: place.times(now()),
        unit: None,
        window: None,
    };
    for target in targets {
        match rows(&client, options, target).await {
            Ok(rows) => {
                for row in &rows {
                    let values: Vec<(String, i32)> = columns
                        .iter()
                        .map(|column| {
                            let text = value(row, column.name, &view, options.has("noconvert"));
                            (text, column.width)
                        })
                        .collect();
                    text.push_str(&table_line(&values, &style));
                    text.push('\n');
                }
            }
            Err(Trouble::NoSteps) => output::error_line(format!(
                "sstat: error: couldn't get steps for JobId={}",
                target.job
            )),
            Err(Trouble::Client(error)) => output::error_line(format!("sstat: error: {error}")),
        }
    }
    output::text_out(&text);
    0
}

enum Trouble {
    NoSteps,
    Client(ClientError),
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Self {
        Trouble::Client(error)
    }
}

async fn rows(
    client: &Client,
    options: &Options,
    target: &Target,
) -> Result<Vec<StatRow>, Trouble> {
    let steps = running_steps(client, target).await?;
    let chosen: Vec<StepInfo> = match target.step {
        Some(step) => steps
            .into_iter()
            .filter(|info| info.step_id == step)
            .collect(),
        None if options.has("allsteps") => steps,
        None => lowest(steps),
    };
    let Some(first) = chosen.first() else {
        return Err(Trouble::NoSteps);
    };
    let request = v1::GetStepUsageRequest {
        job_id: first.job_id.0,
        step_id: match chosen.as_slice() {
            [only] => Some(only.step_id.number()),
            _ => None,
        },
    };
    let reply = client
        .diagnostics()
        .get_step_usage(request)
        .await
        .map_err(|status| Trouble::Client(status.into()))?
        .into_inner();
    if !reply.silent.is_empty() {
        output::error_line(format!(
            "sstat: error: no answer from {}",
            reply.silent.join(",")
        ));
    }
    let mut parts: BTreeMap<u32, Vec<NodePart>> = BTreeMap::new();
    for part in reply.parts {
        let usage = part
            .usage
            .map(StepUsage::try_from)
            .transpose()
            .map_err(|error| Trouble::Client(error.into()))?
            .unwrap_or_default();
        parts.entry(part.step_id).or_default().push(NodePart {
            node: part.node,
            usage,
            pids: part.pids,
            task_ids: part.task_ids,
        });
    }
    let present = now();
    let mut rows = Vec::new();
    for info in &chosen {
        let Some(parts) = parts.get(&info.step_id.number()) else {
            continue;
        };
        if options.has("pidformat") {
            rows.extend(
                parts
                    .iter()
                    .map(|part| StatRow::of_node(info, part, present)),
            );
        } else {
            rows.push(StatRow::new(info, parts, present));
        }
    }
    Ok(rows)
}

/// The running steps of a job, in sacct's order.
async fn running_steps(client: &Client, target: &Target) -> Result<Vec<StepInfo>, Trouble> {
    let (job, task) = match target.job.split_once('_') {
        Some((job, task)) => (job, task.parse::<u32>().ok()),
        None => (target.job.as_str(), None),
    };
    let id: u32 = job.parse().map_err(|_| Trouble::NoSteps)?;
    // A task is found through its array; its steps belong to a record of its own.
    let id = match task {
        None => id,
        Some(task) => client
            .job(id)
            .await
            .map_err(unknown)?
            .into_iter()
            .find(|info| info.array_task_id == Some(task))
            .map(|info| info.job_id.0)
            .ok_or(Trouble::NoSteps)?,
    };
    let mut steps = client.steps(Some(id)).await.map_err(unknown)?;
    steps.retain(|info| info.end_time.is_none() && info.job_id.0 == id);
    steps.sort_by_key(|info| info.step_id);
    Ok(steps)
}

fn unknown(error: ClientError) -> Trouble {
    match error.code() {
        Some(ErrorCode::InvalidJobId) => Trouble::NoSteps,
        _ => Trouble::Client(error),
    }
}

/// The lowest numbered step; the batch step when there is no other.
fn lowest(steps: Vec<StepInfo>) -> Vec<StepInfo> {
    let numbered = steps
        .iter()
        .find(|info| matches!(info.step_id, StepId::Num(_)))
        .cloned();
    numbered
        .or_else(|| steps.into_iter().next())
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Forms of a job and a step.
    #[test]
    fn targets() {
        let read = |text: &str| target(text).map(|target| (target.job, target.step));
        assert_eq!(read("9"), Some(("9".to_string(), None)));
        assert_eq!(read("9.0"), Some(("9".to_string(), Some(StepId::Num(0)))));
        assert_eq!(
            read("4_2.batch"),
            Some(("4_2".to_string(), Some(StepId::Batch)))
        );
        assert_eq!(read("x"), None);
        assert_eq!(read("9.x"), None);
    }
}
