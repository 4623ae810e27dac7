//! strigger: programs that the controller runs on events of nodes, jobs and daemons.
//!
//! One trigger waits for one event; several events given at once become one trigger each. Texts and columns are Slurm's.
//! Source: strigger(1).

use std::time::Duration;

use sluice_proto::v1;

use super::block_on;
use super::caller::uid_of;
use crate::client::{Client, ClientError};
use crate::flags::getopt::Parsed;
use crate::output;

/// How long an absent controller is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Options that are events, with what they are about.
const EVENTS: [(&str, &str); 22] = [
    ("up", "node"),
    ("down", "node"),
    ("drained", "node"),
    ("draining", "node"),
    ("fail", "node"),
    ("idle", "node"),
    ("resume", "node"),
    ("reconfig", "node"),
    ("time", "job"),
    ("fini", "job"),
    ("primary_slurmctld_failure", "slurmctld"),
    ("primary_slurmctld_resumed_operation", "slurmctld"),
    ("primary_slurmctld_resumed_control", "slurmctld"),
    ("primary_slurmctld_acct_buffer_full", "slurmctld"),
    ("backup_slurmctld_failure", "slurmctld"),
    ("backup_slurmctld_resumed_operation", "slurmctld"),
    ("backup_slurmctld_assumed_control", "slurmctld"),
    ("primary_slurmdbd_failure", "slurmdbd"),
    ("primary_slurmdbd_resumed_operation", "slurmdbd"),
    ("primary_database_failure", "database"),
    ("primary_database_resumed_operation", "database"),
    ("burst_buffer", "other"),
];

/// Events that nothing here can bring about, because there is one controller and no burst buffer.
const NEVER: [&str; 6] = [
    "primary_slurmctld_failure",
    "primary_slurmctld_acct_buffer_full",
    "backup_slurmctld_failure",
    "backup_slurmctld_resumed_operation",
    "backup_slurmctld_assumed_control",
    "burst_buffer",
];

fn fail(text: impl AsRef<str>) -> i32 {
    output::error_line(format!("strigger: error: {}", text.as_ref()));
    1
}

/// What the controller says about a request is told without the command's name.
fn refused(call: &str, error: &ClientError) -> i32 {
    output::error_line(format!("{call}: {error}"));
    1
}

/// Seconds that an offset may have, either way.
const OFFSET_MAX: i32 = 32_000;
const OFFSET_WRONG: &str = "The --offset parameter must be between +/-32000";

const NEEDS_JOB: &str = "You must specify a --jobid value";

/// Events of jobs are about one job.
fn needs_job(parsed: &Parsed) -> bool {
    parsed.value("jobid").is_none() && (parsed.has("fini") || parsed.has("time"))
}

/// Runs strigger.
pub fn run(parsed: &Parsed) -> i32 {
    let actions: Vec<&str> = ["set", "get", "clear"]
        .into_iter()
        .filter(|name| parsed.has(name))
        .collect();
    let [action] = actions.as_slice() else {
        return fail("You must use exactly one of the following options: --set, --get or --clear");
    };
    let filter = match Filter::read(parsed) {
        Ok(filter) => filter,
        Err(text) => return fail(text),
    };
    match *action {
        "set" => match triggers(parsed) {
            Ok(triggers) => block_on(set(triggers, parsed.has("verbose"))),
            Err(text) => fail(text),
        },
        "get" if needs_job(parsed) => fail(NEEDS_JOB),
        "get" => block_on(get(filter, parsed)),
        _ if filter.is_empty() => fail("You must specify a --id, --jobid, or --user to clear"),
        _ => block_on(clear(filter, parsed.has("quiet"), parsed.has("verbose"))),
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Filter {
    id: Option<u32>,
    job_id: Option<u32>,
    uid: Option<u32>,
}

impl Filter {
    fn read(parsed: &Parsed) -> Result<Self, String> {
        let number = |name: &str| match parsed.value(name) {
            None => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| format!("Invalid {name} {text}")),
        };
        let uid = match parsed.value("user") {
            None => None,
            Some(name) => Some(uid_of(name).ok_or_else(|| format!("Invalid user {name}"))?),
        };
        Ok(Self {
            id: number("id")?,
            job_id: number("jobid")?,
            uid,
        })
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn passes(&self, trigger: &v1::Trigger) -> bool {
        self.id.is_none_or(|id| id == trigger.id)
            && self.uid.is_none_or(|uid| uid == trigger.uid)
            && self.job_id.is_none_or(|job| {
                trigger.resource == "job" && trigger.resource_id == job.to_string()
            })
    }
}

/// The triggers that the options ask for.
fn triggers(parsed: &Parsed) -> Result<Vec<v1::Trigger>, String> {
    let job = parsed.value("jobid");
    let nodes = parsed.value("node");
    let offset: i32 = match parsed.value("offset") {
        None => 0,
        Some(text) => text
            .trim()
            .parse()
            .ok()
            .filter(|offset: &i32| offset.abs() <= OFFSET_MAX)
            .ok_or(OFFSET_WRONG)?,
    };
    let permanent = match parsed.value("flags") {
        None => false,
        Some(text) if text.eq_ignore_ascii_case("perm") => true,
        Some(text) => return Err(format!("Invalid flags {text}")),
    };
    let wanted: Vec<(&str, &str)> = EVENTS
        .into_iter()
        .filter(|(event, _)| parsed.has(event))
        .collect();
    if wanted.is_empty() {
        return Err("You must specify a trigger".to_string());
    }
    let program = parsed
        .value("program")
        .filter(|program| !program.is_empty())
        .ok_or("You must specify a --program value")?;
    if !program.starts_with('/') {
        return Err("The --program value must start with \"/\"".to_string());
    }
    if needs_job(parsed) {
        return Err(NEEDS_JOB.to_string());
    }
    wanted
        .into_iter()
        .map(|(event, about)| {
            let (resource, resource_id) = match (about, job) {
                // Events of nodes may be about those of a job.
                ("job" | "node", Some(job)) if event != "reconfig" => ("job", job.to_string()),
                ("node", _) => (
                    "node",
                    nodes.filter(|list| !list.is_empty()).unwrap_or("*").to_string(),
                ),
                (other, _) => (other, String::new()),
            };
            if NEVER.contains(&event) {
                output::error_line(format!(
                    "strigger: warning: --{event}: this controller has no backup and no burst buffers, so the trigger is kept but \
                     never fires"
                ));
            }
            Ok(v1::Trigger {
                resource: resource.to_string(),
                resource_id,
                event: event.to_string(),
                offset,
                program: program.to_string(),
                permanent,
                ..v1::Trigger::default()
            })
        })
        .collect()
}

async fn set(triggers: Vec<v1::Trigger>, verbose: bool) -> i32 {
    let all = async {
        let client = Client::connect(PATIENCE).await?;
        for trigger in triggers {
            client
                .automation()
                .set_trigger(v1::SetTriggerRequest {
                    trigger: Some(trigger),
                })
                .await?;
            if verbose {
                output::error_line("strigger: trigger set");
            }
        }
        Ok::<(), ClientError>(())
    };
    match all.await {
        Ok(()) => 0,
        Err(error) => refused("slurm_set_trigger", &error),
    }
}

async fn get(filter: Filter, parsed: &Parsed) -> i32 {
    let all = async {
        let client = Client::connect(PATIENCE).await?;
        let reply = client
            .automation()
            .list_triggers(v1::ListTriggersRequest {})
            .await?;
        Ok::<_, ClientError>(reply.into_inner().triggers)
    };
    let triggers = match all.await {
        Ok(triggers) => triggers,
        Err(error) => return refused("slurm_get_triggers", &error),
    };
    if parsed.has("verbose") {
        output::error_line(format!("strigger: Read {} trigger records", triggers.len()));
    }
    let events: Vec<&str> = EVENTS
        .into_iter()
        .map(|(event, _)| event)
        .filter(|event| parsed.has(event) && *event != "reconfig")
        .collect();
    // --node asks for the triggers of nodes, whichever they are about.
    let of_nodes = parsed.value("node").is_some();
    let shown = triggers.iter().filter(|trigger| {
        filter.passes(trigger)
            && (events.is_empty() || events.contains(&trigger.event.as_str()))
            && (!of_nodes || trigger.resource == "node")
    });
    output::text_out(&table(shown, !parsed.has("noheader")));
    0
}

fn table<'a>(triggers: impl Iterator<Item = &'a v1::Trigger>, header: bool) -> String {
    let mut text = String::new();
    let mut first = header;
    for trigger in triggers {
        if std::mem::take(&mut first) {
            text.push_str(&row(
                "TRIG_ID", "RES_TYPE", "RES_ID", "TYPE", "OFFSET", "USER", "FLAGS", "PROGRAM",
            ));
        }
        text.push_str(&row(
            &trigger.id.to_string(),
            &trigger.resource,
            match (trigger.resource.as_str(), trigger.resource_id.as_str()) {
                ("other", "") => "(null)",
                (_, "") => "*",
                (_, id) => id,
            },
            &trigger.event,
            &trigger.offset.to_string(),
            &trigger.user_name,
            if trigger.permanent { "PERM" } else { "" },
            &trigger.program,
        ));
    }
    text
}

fn row(
    id: &str,
    resource: &str,
    resource_id: &str,
    event: &str,
    offset: &str,
    user: &str,
    flags: &str,
    program: &str,
) -> String {
    format!(
        "{id:>7} {resource:<9} {resource_id:>7} {event:<35} {offset:>6} {user:<8} {flags:<5} {program}\n"
    )
}

async fn clear(filter: Filter, quiet: bool, verbose: bool) -> i32 {
    let all = async {
        let client = Client::connect(PATIENCE).await?;
        let reply = client
            .automation()
            .clear_triggers(v1::ClearTriggersRequest {
                id: filter.id,
                job_id: filter.job_id,
                uid: filter.uid,
            })
            .await?;
        Ok::<_, ClientError>(reply.into_inner().removed)
    };
    match all.await {
        Ok(removed) if removed > 0 => {
            if verbose {
                output::error_line(match (filter.id, filter.job_id, filter.uid) {
                    (Some(id), ..) => format!("strigger: trigger {id} cleared"),
                    (_, Some(job), _) => format!("strigger: triggers for job {job} cleared"),
                    (_, _, uid) => {
                        format!("strigger: triggers for user {} cleared", uid.unwrap_or(0))
                    }
                });
            }
            0
        }
        Ok(_) if quiet => 0,
        Ok(_) => {
            output::error_line("slurm_clear_trigger: No such process");
            1
        }
        Err(error) => refused("slurm_clear_trigger", &error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Command;
    use crate::flags::getopt::parse;

    fn parsed(line: &str) -> Parsed {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        parse(Command::Strigger, &words).expect("valid")
    }

    /// The examples of strigger(1).
    #[test]
    fn what_is_asked_for() {
        let one = |line: &str| triggers(&parsed(line)).map(|mut all| all.remove(0));
        let down =
            one("--set --node --down --program=/usr/sbin/slurm_admin_notify").expect("valid");
        assert_eq!(
            (
                down.resource.as_str(),
                down.resource_id.as_str(),
                down.event.as_str()
            ),
            ("node", "*", "down")
        );
        let time = one("--set --jobid=1234 --time --offset=-600 --program=/home/joe/clean_up")
            .expect("valid");
        assert_eq!(
            (
                time.resource.as_str(),
                time.resource_id.as_str(),
                time.offset
            ),
            ("job", "1234", -600)
        );
        let died = one("--set --jobid=1234 --down --program=/home/joe/node_died").expect("valid");
        assert_eq!(
            (died.resource.as_str(), died.event.as_str()),
            ("job", "down")
        );
        let idle = one("-I -ntux[1-2] --offset=600 --flags=PERM --program=/p").expect("valid");
        assert_eq!(idle.resource_id, "tux[1-2]");
        assert!(idle.permanent);
        for bad in [
            "--down",
            "--down --program=relative",
            "--fini --program=/p",
            "--program=/p",
            "--down --flags=x --program=/p",
        ] {
            assert!(triggers(&parsed(bad)).is_err(), "{bad}");
        }
    }

    /// Columns as strigger prints them.
    #[test]
    fn columns() {
        let trigger = v1::Trigger {
            id: 123,
            resource: "job".to_string(),
            resource_id: "1235".to_string(),
            event: "time".to_string(),
            offset: -600,
            user_name: "joe".to_string(),
            program: "/home/bob/clean_up".to_string(),
            ..v1::Trigger::default()
        };
        assert_eq!(
            table([&trigger].into_iter(), true),
            "TRIG_ID RES_TYPE   RES_ID TYPE                                OFFSET USER     FLAGS PROGRAM\n    \
             123 job          1235 time                                  -600 joe            /home/bob/clean_up\n"
        );
    }
}
