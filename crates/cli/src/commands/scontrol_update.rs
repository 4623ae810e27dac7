//! `scontrol update …`: jobs and nodes.
//!
//! Keys may be abbreviated as in Slurm; values are read here and judged by the controller. Source: scontrol(1).

use sluice_model::error_code::ErrorCode;
use sluice_model::gres::parse_gres_list;
use sluice_model::job::JobUpdate;
use sluice_model::memory::parse_memory;
use sluice_model::node::{NodeStateRequest, NodeUpdate};
use sluice_model::time::{TimeLimit, UnixSeconds, parse_point_in_time};

use super::caller::{Place, now};
use super::job_results::print_failures;
use super::scontrol::{Context, is_keyword};
use crate::output;
use crate::submit::nodes::parse_node_count;

/// `Priority=INFINITE`: computed again.
const PRIORITY_COMPUTED: u32 = u32::MAX;

/// Runs `update` with its words.
pub(super) async fn run(context: &Context, words: &[String]) -> i32 {
    let mut pairs = Vec::new();
    for word in words {
        match word.split_once('=') {
            Some((key, value)) => pairs.push((key.to_ascii_lowercase(), value.to_string())),
            None => {
                output::error_line(format!("Invalid input: {word}\nRequest aborted"));
                return 1;
            }
        }
    }
    let find =
        |name: &str, least: usize| pairs.iter().find(|(key, _)| is_keyword(key, name, least));
    if let Some((_, jobs)) = find("jobid", 1).filter(|_| find("nodename", 8).is_none()) {
        return update_jobs(context, jobs, &pairs).await;
    }
    if find("nodename", 5).is_some() {
        return update_nodes(context, &pairs).await;
    }
    if let Some((_, name)) = find("partitionname", 4) {
        return update_partition(context, name).await;
    }
    if let Some((key, _)) = pairs
        .iter()
        .find(|(key, _)| key.starts_with("res") || key.starts_with("step"))
    {
        output::error_line(format!(
            "scontrol: error: update {key}= is not supported yet"
        ));
        return 1;
    }
    output::error_line("No valid entity in update command");
    output::error_line(
        "Input line must include \"NodeName\", \"PartitionName\", \"Reservation\", \"JobId\", or \"SlurmctldDebug\"",
    );
    1
}

async fn update_jobs(context: &Context, jobs: &str, pairs: &[(String, String)]) -> i32 {
    let mut update = JobUpdate::default();
    for (key, value) in pairs
        .iter()
        .filter(|(key, _)| !is_keyword(key, "jobid", 1) || key == "j")
    {
        if let Err(text) = set_job(&mut update, key, value, &context.place) {
            output::error_line(text);
            return 1;
        }
    }
    let selectors = jobs.split(',').map(String::from).collect();
    let result = async {
        context
            .connect()
            .await?
            .update_jobs(selectors, update)
            .await
    };
    match result.await {
        Ok(results) => i32::from(print_failures(&results).is_some()),
        Err(error) => {
            output::error_with_hint(format!("slurm_update error: {error}"), &error);
            1
        }
    }
}

/// `TimeLimit` and `StartTime` come in several forms; everything else is a text or a number.
fn set_job(update: &mut JobUpdate, key: &str, value: &str, place: &Place) -> Result<(), String> {
    let text = || Some(value.to_string());
    let invalid = |name: &str| format!("scontrol: error: Invalid {name} value");
    let number = |name: &str| value.parse::<u32>().map_err(|_| invalid(name));
    match key {
        _ if is_keyword(key, "timelimit", 5) => {
            update.time_limit = Some(
                value
                    .parse::<TimeLimit>()
                    .map_err(|_| invalid("TimeLimit"))?,
            );
        }
        _ if is_keyword(key, "jobname", 4) || is_keyword(key, "name", 2) => update.name = text(),
        _ if is_keyword(key, "partition", 2) => {
            update.partitions = Some(value.split(',').map(String::from).collect())
        }
        _ if is_keyword(key, "account", 1) => update.account = text(),
        _ if is_keyword(key, "qos", 1) => update.qos = text(),
        _ if is_keyword(key, "starttime", 2) || is_keyword(key, "eligibletime", 2) => {
            update.begin_time = Some(point(value, place)?);
        }
        _ if is_keyword(key, "deadline", 3) => update.deadline = Some(point(value, place)?),
        _ if is_keyword(key, "dependency", 1) => update.dependency = text(),
        _ if is_keyword(key, "priority", 2) => {
            let computed = ["infinite", "-1"].contains(&value.to_ascii_lowercase().as_str());
            update.priority = Some(if computed {
                PRIORITY_COMPUTED
            } else {
                number("Priority")?
            });
        }
        _ if is_keyword(key, "nice", 2) => {
            let value = if value.is_empty() { "100" } else { value };
            update.nice = Some(value.parse().map_err(|_| invalid("nice"))?);
        }
        _ if is_keyword(key, "numnodes", 4) || is_keyword(key, "reqnodes", 8) => {
            let count = parse_node_count(value).map_err(|_| invalid("NumNodes"))?;
            update.min_nodes = Some(count.min);
            update.max_nodes = count.max;
        }
        _ if is_keyword(key, "numtasks", 4) => update.ntasks = Some(number("NumTasks")?),
        _ if is_keyword(key, "cpuspertask", 4) => {
            update.cpus_per_task = Some(number("CPUsPerTask")?)
        }
        _ if is_keyword(key, "minmemorynode", 11) => {
            update.mem_per_node = Some(parse_memory(value).map_err(|_| invalid("MinMemoryNode"))?);
        }
        _ if is_keyword(key, "minmemorycpu", 10) => {
            update.mem_per_cpu = Some(parse_memory(value).map_err(|_| invalid("MinMemoryCPU"))?);
        }
        _ if is_keyword(key, "features", 1) => update.constraint = text(),
        _ if is_keyword(key, "reqnodelist", 8) || is_keyword(key, "nodelist", 5) => {
            update.required_nodes = text()
        }
        _ if is_keyword(key, "excnodelist", 3) => update.excluded_nodes = text(),
        _ if is_keyword(key, "gres", 2) => {
            update.gres_per_node = Some(parse_gres_list(value).map_err(|_| invalid("Gres"))?);
        }
        _ if is_keyword(key, "requeue", 4) => update.requeue = Some(number("Requeue")? != 0),
        _ if is_keyword(key, "comment", 3) => update.comment = text(),
        _ if is_keyword(key, "admincomment", 3) => update.admin_comment = text(),
        _ if is_keyword(key, "arraytaskthrottle", 4) => {
            update.array_throttle = Some(number("ArrayTaskThrottle")?)
        }
        _ if is_keyword(key, "licenses", 1) => update.licenses = text(),
        _ if is_keyword(key, "reservationname", 3) => update.reservation = text(),
        _ if is_keyword(key, "wckey", 1) => update.wckey = text(),
        _ if is_keyword(key, "stdout", 4) => update.std_out = text(),
        _ if is_keyword(key, "stderr", 4) => update.std_err = text(),
        _ if is_keyword(key, "stdin", 4) => update.std_in = text(),
        _ if is_keyword(key, "workdir", 2) => update.work_dir = text(),
        _ if is_keyword(key, "mailtype", 5) => update.mail_type = text(),
        _ if is_keyword(key, "mailuser", 5) => update.mail_user = text(),
        _ => {
            return Err(format!(
                "Update of this parameter is not supported: {key}={value}\nRequest aborted"
            ));
        }
    }
    Ok(())
}

fn point(value: &str, place: &Place) -> Result<UnixSeconds, String> {
    parse_point_in_time(value, now(), &place.zone).map_err(|error| error.to_string())
}

async fn update_nodes(context: &Context, pairs: &[(String, String)]) -> i32 {
    let update = match node_update(pairs) {
        Ok(update) => update,
        Err(text) => {
            output::error_line(text);
            return 1;
        }
    };
    let result = async { context.connect().await?.update_nodes(update).await };
    match result.await {
        Ok(()) => 0,
        Err(error) => {
            output::error_with_hint(format!("slurm_update error: {error}"), &error);
            1
        }
    }
}

/// Who may not, and what is not there, is said as ever; the change itself needs an engine that is not there yet.
async fn update_partition(context: &Context, name: &str) -> i32 {
    let known = async { context.connect().await?.partitions(Vec::new()).await };
    let text = match known.await {
        Err(error) => format!("slurm_update error: {error}"),
        Ok(list) if list.iter().all(|partition| partition.name != name) => format!(
            "slurm_update error: {}",
            ErrorCode::InvalidPartitionName.message()
        ),
        Ok(_) if context.place.uid != 0 => {
            format!("slurm_update error: {}", ErrorCode::InvalidUserId.message())
        }
        Ok(_) => "scontrol: error: update partitionname= is not supported yet: change slurm.conf and run \
                  scontrol reconfigure"
            .to_string(),
    };
    output::error_line(text);
    1
}

fn node_update(pairs: &[(String, String)]) -> Result<NodeUpdate, String> {
    let mut update = NodeUpdate::default();
    for (key, value) in pairs {
        let list = || {
            Some(
                value
                    .split(',')
                    .filter(|item| !item.is_empty())
                    .map(String::from)
                    .collect(),
            )
        };
        match key.as_str() {
            key if is_keyword(key, "nodename", 5) => update.nodes.clone_from(value),
            key if is_keyword(key, "state", 1) => update.state = Some(node_state(key, value)?),
            key if is_keyword(key, "reason", 1) => {
                update.reason = Some(value.trim_matches(['"', '\'']).to_string());
            }
            key if is_keyword(key, "comment", 3) => update.comment = Some(value.clone()),
            key if is_keyword(key, "weight", 1) => {
                update.weight = Some(
                    value
                        .parse()
                        .map_err(|_| format!("Invalid input: {key}={value}\nRequest aborted"))?,
                );
            }
            key if is_keyword(key, "availablefeatures", 2) || is_keyword(key, "features", 1) => {
                update.available_features = list();
            }
            key if is_keyword(key, "activefeatures", 2) => update.active_features = list(),
            key => {
                return Err(format!(
                    "Update of this parameter is not supported: {key}={value}\nRequest aborted"
                ));
            }
        }
    }
    let needs_reason = matches!(
        update.state,
        Some(NodeStateRequest::Down | NodeStateRequest::Drain | NodeStateRequest::Fail)
    );
    if needs_reason && update.reason.as_deref().unwrap_or_default().is_empty() {
        return Err(
            "You must specify a reason when DOWNING or DRAINING a node. Request denied".to_string(),
        );
    }
    Ok(update)
}

fn node_state(key: &str, value: &str) -> Result<NodeStateRequest, String> {
    Ok(match value.to_ascii_lowercase().as_str() {
        word if is_keyword(word, "noresp", 3) => NodeStateRequest::NoResponse,
        word if is_keyword(word, "drain", 3) => NodeStateRequest::Drain,
        word if is_keyword(word, "down", 3) => NodeStateRequest::Down,
        word if is_keyword(word, "fail", 3) => NodeStateRequest::Fail,
        word if is_keyword(word, "future", 3) => NodeStateRequest::Future,
        word if is_keyword(word, "resume", 3) => NodeStateRequest::Resume,
        word if is_keyword(word, "undrain", 3) => NodeStateRequest::Undrain,
        word if is_keyword(word, "idle", 2) => NodeStateRequest::Idle,
        _ => {
            return Err(format!(
                "Invalid input: {key}={value}\nRequest aborted\nValid states are: NoResp DRAIN FAIL FUTURE RESUME \
                 POWER_DOWN POWER_UP UNDRAIN\nNot all states are valid given a node's prior state"
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(words: &[(&str, &str)]) -> Vec<(String, String)> {
        words
            .iter()
            .map(|(key, value)| ((*key).to_string(), (*value).to_string()))
            .collect()
    }

    /// Refusals as a real scontrol prints them.
    #[test]
    fn node_refusals() {
        let refuse =
            |words: &[(&str, &str)]| node_update(&pairs(words)).expect_err("must be refused");
        assert_eq!(
            refuse(&[("nodename", "n1"), ("state", "nosuch")]),
            "Invalid input: state=nosuch\nRequest aborted\nValid states are: NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN \
             POWER_UP UNDRAIN\nNot all states are valid given a node's prior state"
        );
        assert_eq!(
            refuse(&[("nodename", "n1"), ("state", "drain")]),
            "You must specify a reason when DOWNING or DRAINING a node. Request denied"
        );
    }

    /// A usual change.
    #[test]
    fn node_change() {
        let update = node_update(&pairs(&[
            ("nodename", "n[1-2]"),
            ("state", "DRAIN"),
            ("reason", "bad fan"),
        ]))
        .expect("ok");
        assert_eq!(update.state, Some(NodeStateRequest::Drain));
        assert_eq!(
            (update.nodes.as_str(), update.reason.as_deref()),
            ("n[1-2]", Some("bad fan"))
        );
    }

    /// Keys of jobs, with the refusals of a real scontrol.
    #[test]
    fn job_changes() {
        let place = Place::here();
        let mut update = JobUpdate::default();
        set_job(&mut update, "timelimit", "2-00:00:00", &place).expect("ok");
        set_job(&mut update, "name", "dep2", &place).expect("ok");
        set_job(&mut update, "priority", "INFINITE", &place).expect("ok");
        assert_eq!(update.time_limit, Some(TimeLimit::Minutes(2880)));
        assert_eq!(
            (update.name.as_deref(), update.priority),
            (Some("dep2"), Some(u32::MAX))
        );
        assert_eq!(
            set_job(&mut update, "nosuch", "1", &place),
            Err("Update of this parameter is not supported: nosuch=1\nRequest aborted".to_string())
        );
        assert_eq!(
            set_job(&mut update, "timelimit", "abc", &place),
            Err("scontrol: error: Invalid TimeLimit value".to_string())
        );
    }
}
