//! `scontrol update …`: which entity is meant, and the calls. The keys are in rooms of their own.
//!
//! Source: scontrol(1).

use std::fmt::Write as _;

use sluice_model::ids::{JobSelector, StepId};
use sluice_model::job::JobUpdate;
use sluice_model::time::TimeLimit;
use sluice_proto::v1;

use super::caller::uid_of;
use super::job_results::print_failures;
use super::scontrol::{Context, is_keyword, unsupported, without_sign};
use super::scontrol_create::entries;
use super::scontrol_job_keys::{kept_names, set_job};
use super::scontrol_jobs::{call_failed, done, ids_by_name, selectors};
use super::scontrol_node_keys::node_update;
use super::scontrol_partition_keys::partition_change;
use super::scontrol_reservation as reservation;
use crate::client::{Client, ClientError};
use crate::launch::{cpu_counts, repeated};
use crate::output;

/// A limit on the wire that means none.
const UNLIMITED: u32 = u32::MAX;

/// One `key=value`; the key in lower case.
struct Pair {
    key: String,
    /// `+=` or `-=`.
    sign: Option<char>,
    value: String,
}

/// Takes the words apart. Two keys may stand without a value.
fn pairs_of(words: &[String]) -> Result<Vec<Pair>, String> {
    words
        .iter()
        .map(|word| {
            let Some((key, value)) = word.split_once('=') else {
                let alone = word.to_ascii_lowercase();
                let allowed =
                    is_keyword(&alone, "nice", 2) || is_keyword(&alone, "resetaccruetime", 3);
                return if allowed {
                    Ok(Pair {
                        key: alone,
                        sign: None,
                        value: String::new(),
                    })
                } else {
                    Err(format!("Invalid input: {word}\nRequest aborted"))
                };
            };
            let (bare, sign) = without_sign(key);
            Ok(Pair {
                key: bare.to_ascii_lowercase(),
                sign,
                value: value.to_string(),
            })
        })
        .collect()
}

/// A refusal names the key as it was typed.
fn as_typed(text: &str, words: &[String]) -> String {
    let mut text = text.to_string();
    for word in words {
        if let Some((key, value)) = word.split_once('=') {
            let read = format!(": {}={value}", key.to_ascii_lowercase());
            text = text.replacen(&read, &format!(": {word}"), 1);
        }
    }
    text
}

fn refused(text: &str) -> i32 {
    output::error_line(text);
    1
}

/// Runs `update` with its words.
pub(super) async fn run(context: &Context, words: &[String]) -> i32 {
    if words.is_empty() {
        return refused("too few arguments for update keyword");
    }
    let has = |name: &str, least: usize| {
        words.iter().any(|word| {
            word.split_once('=')
                .is_some_and(|(key, _)| is_keyword(key, name, least))
        })
    };
    if has("nodename", 5) {
        return update_nodes(context, words).await;
    }
    if has("partitionname", 4) && !has("jobid", 1) && !has("jobname", 4) {
        return update_partition(context, words).await;
    }
    if has("jobid", 1) || has("jobname", 4) {
        return update_jobs(context, words).await;
    }
    if has("stepid", 2) {
        return update_steps(context, words).await;
    }
    if has("reservationname", 3) {
        return reservation::update(context, words).await;
    }
    if words
        .iter()
        .any(|word| word.to_ascii_lowercase().starts_with("suspendexc"))
    {
        return refused(
            "scontrol: error: update of SuspendExc* is not supported yet: there is no power saving; change slurm.conf and run scontrol reconfigure",
        );
    }
    refused(
        "No valid entity in update command\nInput line must include \"NodeName\", \"PartitionName\", \"Reservation\", \"JobId\", or \"SlurmctldDebug\"",
    )
}

/// Who and what a job update is about.
struct JobChange {
    ids: Option<String>,
    name: Option<String>,
    user: Option<u32>,
    update: JobUpdate,
}

fn job_change(context: &Context, words: &[String]) -> Result<JobChange, String> {
    let pairs = pairs_of(words)?;
    let by_id = pairs.iter().any(|pair| is_keyword(&pair.key, "jobid", 1));
    let mut change = JobChange {
        ids: None,
        name: None,
        user: None,
        update: JobUpdate::default(),
    };
    for pair in &pairs {
        let key = pair.key.as_str();
        if is_keyword(key, "jobid", 1) {
            change.ids = Some(pair.value.clone());
        } else if is_keyword(key, "jobname", 4) && !by_id && change.name.is_none() {
            change.name = Some(pair.value.clone());
        } else if is_keyword(key, "userid", 3) {
            change.user = Some(
                uid_of(&pair.value)
                    .ok_or_else(|| format!("scontrol: error: Invalid UserID: {}", pair.value))?,
            );
        } else {
            set_job(
                &mut change.update,
                key,
                pair.sign,
                &pair.value,
                &context.place,
            )?;
        }
    }
    if change.update == JobUpdate::default() {
        return Err("No changes specified".to_string());
    }
    Ok(change)
}

async fn update_jobs(context: &Context, words: &[String]) -> i32 {
    let change = match job_change(context, words) {
        Ok(change) => change,
        Err(text) => return refused(&as_typed(&text, words)),
    };
    let as_uid = match context.options.get("uid") {
        None => None,
        Some(user) => match uid_of(user) {
            Some(uid) => Some(uid),
            None => return refused(&format!("scontrol: error: --uid=\"{user}\" invalid")),
        },
    };
    let client = match context.connect().await {
        Ok(client) => client,
        Err(error) => return call_failed("slurm_update error: ", &error),
    };
    let ids = match (&change.ids, &change.name) {
        (Some(ids), _) => selectors(std::slice::from_ref(ids)),
        (None, Some(name)) => {
            match ids_by_name(&client, std::slice::from_ref(name), change.user).await {
                Ok(ids) if ids.is_empty() => {
                    return refused(&format!("scontrol: error: No jobs with name '{name}'"));
                }
                Ok(ids) => ids,
                Err(error) => {
                    return call_failed(
                        "scontrol: error: Could not load state information: ",
                        &error,
                    );
                }
            }
        }
        (None, None) => Vec::new(),
    };
    let resizes = change.update.min_nodes.is_some() || change.update.keep_nodes.is_some();
    let kept = kept_names(&change.update);
    match client.update_jobs(ids.clone(), change.update, as_uid).await {
        Ok(results) => {
            let failed = print_failures(&results).is_some();
            if !failed && !kept.is_empty() && !context.quiet.get() {
                output::error_line(format!(
                    "scontrol: no effect yet: {}: kept on the job's record",
                    kept.join(", ")
                ));
            }
            if resizes && !failed {
                for id in &ids {
                    write_resize_scripts(context, &client, id).await;
                }
            }
            i32::from(failed)
        }
        Err(error) => call_failed("slurm_update error: ", &error),
    }
}

/// Within a job whose size changed, scripts that set its variables anew are left in the current directory.
async fn write_resize_scripts(context: &Context, client: &Client, id: &str) {
    let within = context
        .place
        .variable("SLURM_JOB_ID")
        .or_else(|| context.place.variable("SLURM_JOBID"));
    let Some(number) = within
        .filter(|own| own == id)
        .and_then(|own| own.parse::<u32>().ok())
    else {
        return;
    };
    let Ok(jobs) = client.job(number).await else {
        return;
    };
    let Some(job) = jobs.iter().find(|job| job.job_id.0 == number) else {
        return;
    };
    let cpus = repeated(&cpu_counts(job));
    let variables = [
        ("SLURM_NODELIST", job.nodes.clone()),
        ("SLURM_JOB_NODELIST", job.nodes.clone()),
        ("SLURM_NNODES", job.num_nodes.to_string()),
        ("SLURM_JOB_NUM_NODES", job.num_nodes.to_string()),
        ("SLURM_JOB_CPUS_PER_NODE", cpus),
    ];
    let (mut sh, mut csh) = (String::new(), String::new());
    for (name, value) in &variables {
        let _ = writeln!(sh, "export {name}=\"{value}\"");
        let _ = writeln!(csh, "setenv {name} \"{value}\"");
    }
    for name in ["SLURM_NPROCS", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE"] {
        let _ = writeln!(sh, "unset {name}");
        let _ = writeln!(csh, "unsetenv {name}");
    }
    for (suffix, text) in [("sh", sh), ("csh", csh)] {
        let file = format!("slurm_job_{number}_resize.{suffix}");
        if let Err(error) = std::fs::write(context.place.directory.join(&file), text) {
            output::error_line(format!("Could not create file {file}: {error}"));
            return;
        }
    }
    output::line(format!(
        "To reset Slurm environment variables, execute\n  For bash or sh shells:  . ./slurm_job_{number}_resize.sh\n  For csh shells:         source ./slurm_job_{number}_resize.csh"
    ));
}

async fn update_nodes(context: &Context, words: &[String]) -> i32 {
    let mut pairs = Vec::new();
    for word in words {
        match word.split_once('=') {
            Some((key, value)) => pairs.push((key.to_ascii_lowercase(), value.to_string())),
            None => return refused(&format!("Invalid input: {word}\nRequest aborted")),
        }
    }
    let update = match node_update(&pairs) {
        Ok(update) => update,
        Err(text) => return refused(&as_typed(&text, words)),
    };
    let result = async { context.connect().await?.update_nodes(update).await };
    done("slurm_update error: ", result.await)
}

async fn update_partition(context: &Context, words: &[String]) -> i32 {
    let change = match partition_change(words) {
        Ok(change) => change,
        Err(text) => return refused(&text),
    };
    if change.settings.is_empty() {
        return refused("scontrol: error: No changes specified");
    }
    let request = v1::ChangePartitionRequest {
        name: change.name,
        create: false,
        settings: entries(change.settings),
    };
    let result = async {
        let client = context.connect().await?;
        client.admin().change_partition(request).await?;
        Ok::<_, ClientError>(())
    };
    done("slurm_update error: ", result.await)
}

/// `StepId=JOB[.STEP] TimeLimit=`.
async fn update_steps(context: &Context, words: &[String]) -> i32 {
    let pairs = match pairs_of(words) {
        Ok(pairs) => pairs,
        Err(text) => return refused(&text),
    };
    let mut target: Option<(u32, Option<StepId>)> = None;
    let mut limit = None;
    let mut sign = None;
    for pair in &pairs {
        if is_keyword(&pair.key, "stepid", 4) {
            match pair.value.parse::<JobSelector>() {
                Ok(selector) => target = Some((selector.job.0, selector.step)),
                Err(_) => {
                    return refused(&format!(
                        "Invalid StepID parameter: {}={}\nRequest aborted",
                        pair.key, pair.value
                    ));
                }
            }
        } else if is_keyword(&pair.key, "timelimit", 5) {
            let first = pair.value.chars().next().filter(|c| "+-".contains(*c));
            sign = pair.sign.or(first);
            let text = pair.value.trim_start_matches(['+', '-']);
            match text.parse::<TimeLimit>() {
                Ok(parsed) => limit = Some(parsed),
                Err(_) => return refused("scontrol: error: Invalid TimeLimit value"),
            }
        } else {
            return refused(&unsupported(&pair.key, &pair.value));
        }
    }
    let (Some((job_id, step)), Some(limit)) = (target, limit) else {
        return refused("No changes specified");
    };
    let result = async {
        let client = context.connect().await?;
        let minutes = match sign {
            None => limit.minutes(),
            Some(sign) => changed_limit(&client, job_id, step, sign, limit).await?,
        };
        let request = v1::UpdateStepsRequest {
            job_id,
            step_id: step.map(StepId::number),
            time_limit: minutes.unwrap_or(UNLIMITED),
        };
        client.admin().update_steps(request).await?;
        Ok::<_, ClientError>(())
    };
    done("slurm_update error: ", result.await)
}

/// The limit in force, more or less so many minutes.
async fn changed_limit(
    client: &Client,
    job_id: u32,
    step: Option<StepId>,
    sign: char,
    by: TimeLimit,
) -> Result<Option<u32>, ClientError> {
    let steps = client.steps(Some(job_id)).await?;
    let now = steps
        .iter()
        .find(|info| step.is_none_or(|wanted| wanted == info.step_id))
        .and_then(|info| info.time_limit.minutes());
    Ok(match (now, by.minutes()) {
        (Some(now), Some(by)) if sign == '-' => Some(now.saturating_sub(by)),
        (Some(now), Some(by)) => Some(now.saturating_add(by)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A refusal shows what was typed, not what it was read as.
    #[test]
    fn refusals_name_the_key_as_typed() {
        let words = ["JobId=5", "Bogus=1"].map(String::from);
        let text = "Update of this parameter is not supported: bogus=1\nRequest aborted";
        assert_eq!(
            as_typed(text, &words),
            "Update of this parameter is not supported: Bogus=1\nRequest aborted"
        );
    }
}
