//! `sacctmgr show …` of the smaller entities: TRES, workload keys, problems, resources, runaway jobs, configuration and
//! statistics. Transactions and events are in [`super::sacctmgr_log`].
//!
//! Each has a list of columns with widths; `format=` chooses among them. Source: sacctmgr(1) and its output.

use sluice_model::accounting::{JobRecord, UserRecord};
use sluice_model::state::JobState;
use sluice_model::time::UnixSeconds;
use sluice_proto::v1;

use super::caller::{Place, now, uid_of};
use super::sacctmgr::{PATIENCE, Session, ask};
use super::sacctmgr_add::FEDERATIONS;
use super::sacctmgr_show::{associations, records};
use super::sacctmgr_words::{Words, split};
use super::scontrol::is_keyword;
use super::sshare::table_style;
use super::{structured, structured_accounting};
use crate::client::calls::config_value;
use crate::client::{Client, ClientError};
use crate::format::sacct::table_text;
use crate::output;

/// A column: heading, names in `format=` separated by blanks, width.
pub(super) type Column = (&'static str, &'static str, i32);

/// Shows an entity; `None` = there is none of that name.
pub(super) async fn show(
    session: &Session,
    entity: &str,
    words: &Words,
) -> Option<Result<i32, ClientError>> {
    let named = |name: &str, least: usize| is_keyword(entity, name, least);
    if structured::wanted(&session.options) && !(named("stats", 1) || named("configuration", 2)) {
        let known = [
            "events",
            "federations",
            "problems",
            "resources",
            "reservations",
            "runawayjobs",
            "transactions",
        ];
        if known.iter().any(|name| named(name, 2)) {
            output::error_line(format!(
                "sacctmgr: error: --json and --yaml are not supported for {entity}"
            ));
            return Some(Ok(1));
        }
    }
    Some(match entity {
        _ if named("tres", 2) => tres(session, words).await,
        _ if named("transactions", 1) => super::sacctmgr_log::transactions(session, words).await,
        _ if named("wckeys", 1) => wckeys(session, words).await,
        _ if named("events", 1) => super::sacctmgr_log::events(session, words).await,
        _ if named("problems", 1) => problems(session, words).await,
        _ if named("runawayjobs", 2) => runaway(session, words).await,
        _ if named("resources", 4) => resources(session, words).await,
        _ if named("reservations", 4) || named("resv", 4) => Ok(table(
            session,
            words,
            RESERVATION,
            "Cluster,Name,TRES,TimeStart,TimeEnd,UnusedWall",
            &[],
        )),
        _ if named("instances", 1) && structured::wanted(&session.options) => {
            structured_accounting::instances(session).await
        }
        _ if named("instances", 1) => Ok(table(
            session,
            words,
            INSTANCE,
            "Cluster,NodeName,TimeStart,TimeEnd,InstanceId,InstanceType,Extra",
            &[],
        )),
        _ if named("federations", 1) => {
            if session.options.has("verbose") {
                output::error_line(FEDERATIONS);
            }
            Ok(table(
                session,
                words,
                FEDERATION,
                "Federation,Cluster,ID,Features,FedState",
                &[],
            ))
        }
        _ if named("configuration", 2) => configuration().await,
        _ if named("stats", 1) => stats().await,
        _ => return None,
    })
}

const TRES: &[Column] = &[("Type", "type", 8), ("Name", "name", 15), ("ID", "id", 6)];
const WCKEY: &[Column] = &[
    ("WCKey", "wckey name", 10),
    ("Cluster", "cluster", 10),
    ("User", "user", 10),
    ("ID", "id", 6),
];
const PROBLEM: &[Column] = &[
    ("Cluster", "cluster", 10),
    ("Account", "account", 10),
    ("User", "user", 10),
    ("Problem", "problem", 40),
];
const RUNAWAY: &[Column] = &[
    ("ID", "id", 12),
    ("Name", "name", 10),
    ("Partition", "partition", 10),
    ("Cluster", "cluster", 10),
    ("State", "state", 10),
    ("TimeSubmit", "timesubmit", 19),
    ("TimeStart", "timestart", 19),
    ("TimeEnd", "timeend", 19),
];
const RESOURCE: &[Column] = &[
    ("Name", "name", 10),
    ("Server", "server", 10),
    ("Type", "type", 8),
    ("Count", "count", 6),
    ("LastConsumed", "lastconsumed", 12),
    ("Allocated", "allocated", 9),
    ("ServerType", "servertype manager", 10),
    ("Flags", "flags", 20),
    ("Cluster", "cluster", 10),
    ("Allowed", "allowed percentallowed", 7),
    ("Descr", "descr description", 20),
    ("ID", "id", 6),
];
const RESERVATION: &[Column] = &[
    ("Cluster", "cluster", 10),
    ("Name", "name", 15),
    ("TRES", "tres", 30),
    ("TimeStart", "timestart start", 19),
    ("TimeEnd", "timeend end", 19),
    ("UnusedWall", "unusedwall", 10),
    ("ID", "id", 6),
    ("NodeNames", "nodenames", 20),
    ("Flags", "flags", 20),
    ("Assoc", "assoc", 30),
];
const INSTANCE: &[Column] = &[
    ("Cluster", "cluster", 10),
    ("NodeName", "nodename", -15),
    ("TimeStart", "timestart start", 19),
    ("TimeEnd", "timeend end", 19),
    ("InstanceId", "instanceid", 20),
    ("InstanceType", "instancetype", 20),
    ("Extra", "extra", 20),
];
const FEDERATION: &[Column] = &[
    ("Federation", "federation name", 10),
    ("Cluster", "cluster", 10),
    ("ID", "id", 2),
    ("Features", "features", 20),
    ("FedState", "fedstate", 12),
];

/// Prints rows that have a value for each column of the list.
pub(super) fn table(
    session: &Session,
    words: &Words,
    columns: &[Column],
    default: &str,
    rows: &[Vec<String>],
) -> i32 {
    let list = words.value("format", 1).unwrap_or(default);
    let mut chosen: Vec<(usize, i32)> = Vec::new();
    for item in split(list) {
        let (name, width) = match item.split_once('%') {
            Some((name, width)) => (name, width.parse::<i32>().ok().filter(|width| *width != 0)),
            None => (item.as_str(), None),
        };
        let wanted = name.to_ascii_lowercase();
        let position = columns
            .iter()
            .position(|(_, names, _)| names.split(' ').any(|known| known == wanted))
            .or_else(|| {
                columns.iter().position(|(_, names, _)| {
                    names.split(' ').any(|known| known.starts_with(&wanted))
                })
            });
        match position {
            Some(position) => chosen.push((position, width.unwrap_or(columns[position].2))),
            None => {
                output::error_line(format!("Unknown field '{name}'"));
                return 1;
            }
        }
    }
    let names: Vec<(String, i32)> = chosen
        .iter()
        .map(|(at, width)| (columns[*at].0.to_string(), *width))
        .collect();
    let rows = rows.iter().map(|row| {
        chosen
            .iter()
            .map(|(at, _)| row.get(*at).cloned().unwrap_or_default())
            .collect()
    });
    let style = table_style(&session.options);
    let with_header = !session.options.has("noheader");
    output::text_out(&table_text(&names, rows, &style, with_header));
    0
}

pub(super) fn pass(list: &[String], text: &str) -> bool {
    list.is_empty() || list.iter().any(|item| item.eq_ignore_ascii_case(text))
}

async fn tres(session: &Session, words: &Words) -> Result<i32, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let found = client
        .accounting()
        .list_tres(v1::ListTresRequest {})
        .await?
        .into_inner()
        .tres;
    let (types, names, ids) = (
        words.list("type", 1),
        words.all_names(&[("names", 1)]),
        words.list("ids", 1),
    );
    let found: Vec<v1::TresRecord> = found
        .into_iter()
        .filter(|tres| {
            pass(&types, &tres.kind) && pass(&names, &tres.name) && pass(&ids, &tres.id.to_string())
        })
        .collect();
    if structured::wanted(&session.options) {
        return structured_accounting::tres(&client, &session.options, found).await;
    }
    let rows: Vec<Vec<String>> = found
        .into_iter()
        .map(|tres| vec![tres.kind, tres.name, tres.id.to_string()])
        .collect();
    Ok(table(session, words, TRES, "Type,Name,ID", &rows))
}

async fn wckeys(session: &Session, words: &Words) -> Result<i32, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let request = v1::ListWckeysRequest {
        with_deleted: words.has("withdeleted"),
    };
    let found = client
        .accounting()
        .list_wckeys(request)
        .await?
        .into_inner()
        .wckeys;
    let (names, users, clusters) = (
        words.all_names(&[("names", 1), ("wckeys", 1)]),
        words.list("users", 1),
        words.list("clusters", 1),
    );
    let found: Vec<v1::WckeyRecord> = found
        .into_iter()
        .filter(|key| {
            pass(&names, &key.name) && pass(&users, &key.user) && pass(&clusters, &key.cluster)
        })
        .collect();
    if structured::wanted(&session.options) {
        return structured_accounting::wckeys(&client, &session.options, found).await;
    }
    let rows: Vec<Vec<String>> = found
        .into_iter()
        .map(|key| {
            let mark = if key.is_default { "*" } else { "" };
            vec![
                format!("{mark}{}", key.name),
                key.cluster,
                key.user,
                key.id.to_string(),
            ]
        })
        .collect();
    Ok(table(session, words, WCKEY, "WCKey,Cluster,User", &rows))
}

async fn problems(session: &Session, words: &Words) -> Result<i32, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let tree = associations(&client, v1::ListAssociationsRequest::default()).await?;
    let users: Vec<UserRecord> = records(
        client
            .accounting()
            .list_users(v1::ListUsersRequest::default())
            .await?
            .into_inner()
            .users,
    )?;
    let mut rows = Vec::new();
    for row in tree.iter().filter(|row| row.user.is_empty()) {
        let has_users = tree.iter().any(|other| {
            other.cluster == row.cluster && other.account == row.account && !other.user.is_empty()
        });
        if !has_users {
            rows.push(vec![
                row.cluster.clone(),
                row.account.clone(),
                String::new(),
                "Account has no users".to_string(),
            ]);
        }
    }
    for user in &users {
        let problem = if !tree.iter().any(|row| row.user == user.name) {
            "User has no associations"
        } else if uid_of(&user.name).is_none() {
            "User does not have a uid"
        } else {
            continue;
        };
        rows.push(vec![
            String::new(),
            String::new(),
            user.name.clone(),
            problem.to_string(),
        ]);
    }
    let (clusters, accounts, people) = (
        words.list("clusters", 1),
        words.list("accounts", 1),
        words.list("users", 1),
    );
    rows.retain(|row| {
        pass(&clusters, &row[0]) && pass(&accounts, &row[1]) && pass(&people, &row[2])
    });
    Ok(table(
        session,
        words,
        PROBLEM,
        "Cluster,Account,User,Problem",
        &rows,
    ))
}

async fn runaway(session: &Session, words: &Words) -> Result<i32, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let failed = words
        .value("endstate", 1)
        .is_some_and(|text| is_keyword(&text.to_ascii_lowercase(), "failed", 1));
    let ask_for = |fix: bool| v1::ListRunawayJobsRequest { fix, failed };
    let jobs: Vec<JobRecord> = records(
        client
            .accounting()
            .list_runaway_jobs(ask_for(false))
            .await?
            .into_inner()
            .jobs,
    )?;
    if jobs.is_empty() {
        output::line(format!(
            "Runaway Jobs: No runaway jobs found on cluster {}",
            client.settings.cluster
        ));
        return Ok(0);
    }
    output::line(
        "NOTE: Runaway jobs are jobs that don't exist in the controller but have no end time in the database",
    );
    let place = Place::here();
    let times = place.times(now());
    let rows: Vec<Vec<String>> = jobs
        .iter()
        .map(|job| {
            let state = u8::try_from(job.state)
                .ok()
                .and_then(JobState::from_number)
                .unwrap_or_default();
            vec![
                job.job_id.to_string(),
                job.name.clone(),
                job.partition.clone(),
                job.cluster.clone(),
                state.name().to_string(),
                times.point(job.submit),
                times.optional(job.start, "Unknown"),
                times.optional(job.end, "Unknown"),
            ]
        })
        .collect();
    let code = table(
        session,
        words,
        RUNAWAY,
        "ID,Name,Partition,Cluster,State,TimeSubmit,TimeStart,TimeEnd",
        &rows,
    );
    if code != 0 || session.refuses_changes() {
        return Ok(code);
    }
    output::line("\nWould you like to fix these runaway jobs?");
    output::line(format!(
        "(This sets the end of each job to the latest of its start, eligible and submit times, and its state to {}.)",
        if failed { "failed" } else { "completed" }
    ));
    let yes = session.options.has("immediate") || ask("");
    if yes {
        client.accounting().list_runaway_jobs(ask_for(true)).await?;
    }
    Ok(0)
}

async fn resources(session: &Session, words: &Words) -> Result<i32, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let request = v1::ListResourcesRequest {
        with_deleted: words.has("withdeleted"),
    };
    let found = client
        .accounting()
        .list_resources(request)
        .await?
        .into_inner()
        .resources;
    let (names, servers, clusters) = (
        words.all_names(&[("names", 1)]),
        words.list("servers", 6),
        words.list("clusters", 1),
    );
    let with_clusters = words.has("withclusters") || !clusters.is_empty();
    let mut rows = Vec::new();
    for resource in found
        .into_iter()
        .filter(|item| pass(&names, &item.name) && pass(&servers, &item.server))
    {
        let allocated: u32 = resource.clusters.iter().map(|share| share.allowed).sum();
        let row = |cluster: &str, allowed: String| {
            vec![
                resource.name.clone(),
                resource.server.clone(),
                resource.kind.clone(),
                resource.count.to_string(),
                resource.last_consumed.to_string(),
                allocated.to_string(),
                resource.server_type.clone(),
                resource.flags.clone(),
                cluster.to_string(),
                allowed,
                resource.description.clone(),
                resource.id.to_string(),
            ]
        };
        let shares: Vec<&v1::ResourceShare> = resource
            .clusters
            .iter()
            .filter(|share| pass(&clusters, &share.cluster))
            .collect();
        if with_clusters && !shares.is_empty() {
            rows.extend(
                shares
                    .iter()
                    .map(|share| row(&share.cluster, share.allowed.to_string())),
            );
        } else if clusters.is_empty() {
            rows.push(row("", String::new()));
        }
    }
    let default = if with_clusters {
        "Name,Server,Type,Count,LastConsumed,Allocated,ServerType,Flags,Cluster,Allowed"
    } else {
        "Name,Server,Type,Count,LastConsumed,Allocated,ServerType,Flags"
    };
    Ok(table(session, words, RESOURCE, default, &rows))
}

/// What of the controller's configuration is about accounting.
async fn configuration() -> Result<i32, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let reply = client.config().await?;
    let place = Place::here();
    let mut text = format!(
        "Configuration data as of {}\n",
        place.times(now()).point(UnixSeconds(reply.time))
    );
    for key in [
        "AccountingStorageBackupHost",
        "AccountingStorageHost",
        "AccountingStorageParameters",
        "AccountingStoragePort",
        "AccountingStorageTRES",
        "AccountingStorageType",
        "AccountingStorageUser",
        "AccountingStoreFlags",
        "AuthType",
        "MessageTimeout",
        "PluginDir",
        "PrivateData",
        "SlurmUser",
        "SLURM_CONF",
        "SLURM_VERSION",
        "TCPTimeout",
        "TrackWCKey",
    ] {
        if let Some(value) = config_value(&reply, key) {
            let shown = if key == "SlurmUser" {
                "SlurmUserId"
            } else {
                key
            };
            text.push_str(&format!("{shown:<22} = {value}\n"));
        }
    }
    output::text_out(&text);
    Ok(0)
}

/// Calls that the controller has counted.
async fn stats() -> Result<i32, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let reply = client
        .diagnostics()
        .get_statistics(v1::GetStatisticsRequest {})
        .await?
        .into_inner();
    let place = Place::here();
    let stamp = |time: i64| {
        let point = jiff::Timestamp::from_second(time).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        let local = place.zone.to_datetime(point);
        format!("{} ({time})", local.strftime("%a %b %e %H:%M:%S %Y"))
    };
    let line = "*".repeat(67);
    let mut text = format!(
        "{line}\nsacctmgr show stats output at {}\nData since                    {}\nAll statistics are in microseconds\n{line}\n\n",
        stamp(reply.time),
        stamp(reply.since)
    );
    text.push_str("Remote Procedure Call statistics by message type\n");
    for call in &reply.by_type {
        let average = call.total_us.checked_div(call.count).unwrap_or(0);
        text.push_str(&format!(
            "\t{:<24} ({:>5}) count:{:<6} ave_time:{average:<6} total_time:{}\n",
            call.name, call.type_id, call.count, call.total_us
        ));
    }
    text.push_str("\nRemote Procedure Call statistics by user\n");
    for user in &reply.by_user {
        let average = user.total_us.checked_div(user.count).unwrap_or(0);
        text.push_str(&format!(
            "\t{:<20}({:>10}) count:{:<6} ave_time:{average:<6} total_time:{}\n",
            user.user, user.uid, user.count, user.total_us
        ));
    }
    output::text_out(&text);
    Ok(0)
}
