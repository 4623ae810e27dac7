//! `sacctmgr show transaction` and `show event`: who changed accounting, and when nodes were out of service.
//!
//! Source: sacctmgr(1), SPECIFICATIONS FOR TRANSACTIONS and FOR EVENTS, and its output.

use std::collections::BTreeSet;

use sluice_model::accounting::AssociationRecord;
use sluice_model::time::{UnixSeconds, format_duration_full, parse_past_point_in_time};
use sluice_model::tres::{Tres, TresKind};
use sluice_proto::v1;

use super::caller::{Place, now};
use super::sacctmgr::{PATIENCE, Session};
use super::sacctmgr_list::{Column, pass, table};
use super::sacctmgr_show::associations;
use super::sacctmgr_words::Words;
use super::scontrol::is_keyword;
use crate::client::{Client, ClientError};

const TRANSACTION: &[Column] = &[
    ("Time", "time timestamp", 19),
    ("Action", "action", 20),
    ("Actor", "actor", 10),
    ("Where", "where", 20),
    ("Info", "info", 20),
    ("Cluster", "cluster", 20),
    ("Account", "accounts", 20),
    ("User", "users", 20),
    ("ID", "id", 6),
];
const EVENT: &[Column] = &[
    ("Cluster", "cluster", 10),
    ("NodeName", "nodename", -15),
    ("TimeStart", "timestart start", 19),
    ("TimeEnd", "timeend end", 19),
    ("State", "state", 6),
    ("Reason", "reason", 30),
    ("User", "user", 10),
    ("Duration", "duration", 13),
    ("Event", "event", 7),
    ("EventRaw", "eventraw", 8),
    ("StateRaw", "stateraw", 8),
    ("TRES", "tres", 20),
    ("Cluster Nodes", "clusternodes", 20),
    ("CPUs", "cpus", 7),
];

/// A point in time of a condition.
fn point(
    words: &Words,
    name: &str,
    least: usize,
    place: &Place,
) -> Result<Option<i64>, ClientError> {
    words
        .value(name, least)
        .map(|text| {
            parse_past_point_in_time(text, now(), &place.zone)
                .map(|time| time.0)
                .map_err(|error| ClientError::Other(format!(" {error}")))
        })
        .transpose()
}

pub(super) async fn transactions(session: &Session, words: &Words) -> Result<i32, ClientError> {
    let place = Place::here();
    let times = place.times(now());
    let client = Client::connect(PATIENCE).await?;
    let request = v1::ListTransactionsRequest {
        start: point(words, "start", 1, &place)?,
        end: point(words, "end", 1, &place)?,
    };
    let found = client
        .accounting()
        .list_transactions(request)
        .await?
        .into_inner()
        .transactions;
    let (actions, actors, clusters) = (
        words.list("action", 3),
        words.list("actor", 4),
        words.list("clusters", 1),
    );
    let (accounts, users, ids) = (
        words.list("accounts", 3),
        words.list("users", 1),
        words.list("ids", 1),
    );
    let needs_rows = words.has("withassoc") || !accounts.is_empty() || !users.is_empty();
    let tree = if needs_rows {
        let request = v1::ListAssociationsRequest {
            with_deleted: true,
            ..Default::default()
        };
        associations(&client, request).await?
    } else {
        Vec::new()
    };
    let mut rows = Vec::new();
    for entry in found {
        let concerned = concerned(&entry, &tree);
        let about = |list: &[String], of: fn(&AssociationRecord) -> &str| {
            list.is_empty()
                || concerned.iter().any(|row| pass(list, of(row)))
                || list.iter().any(|name| {
                    entry.condition == *name || entry.condition.contains(&format!("'{name}'"))
                })
        };
        let fits = pass(&actions, &entry.action)
            && pass(&actors, &entry.actor)
            && (clusters.is_empty() || entry.cluster.is_empty() || pass(&clusters, &entry.cluster))
            && pass(&ids, &entry.id.to_string())
            && about(&accounts, |row| &row.account)
            && about(&users, |row| &row.user);
        if !fits {
            continue;
        }
        let joined = |of: fn(&AssociationRecord) -> &str| -> String {
            let names: BTreeSet<&str> = concerned
                .iter()
                .map(|row| of(row))
                .filter(|name| !name.is_empty())
                .collect();
            names.into_iter().collect::<Vec<_>>().join(",")
        };
        rows.push(vec![
            times.point(UnixSeconds(entry.time)),
            entry.action.clone(),
            entry.actor.clone(),
            entry.condition.clone(),
            entry.info.clone(),
            joined(|row| &row.cluster),
            joined(|row| &row.account),
            joined(|row| &row.user),
            entry.id.to_string(),
        ]);
    }
    let default = if words.has("withassoc") {
        "Time,Action,Actor,Where,Info,User,Account,Cluster"
    } else {
        "Time,Action,Actor,Where,Info"
    };
    Ok(table(session, words, TRANSACTION, default, &rows))
}

/// The rows that an entry is about, by the ids in its condition.
fn concerned<'a>(
    entry: &v1::TransactionRecord,
    tree: &'a [AssociationRecord],
) -> Vec<&'a AssociationRecord> {
    let ids: Vec<u32> = entry
        .condition
        .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != '=')
        .filter_map(|word| word.strip_prefix("id_assoc=")?.parse().ok())
        .collect();
    tree.iter().filter(|row| ids.contains(&row.id)).collect()
}

pub(super) async fn events(session: &Session, words: &Words) -> Result<i32, ClientError> {
    let place = Place::here();
    let times = place.times(now());
    let client = Client::connect(PATIENCE).await?;
    let states = words.list("states", 4);
    let mut start = point(words, "start", 4, &place)?;
    let end = point(words, "end", 2, &place)?;
    let open = words
        .list("condflags", 2)
        .iter()
        .any(|flag| flag.eq_ignore_ascii_case("open"))
        || (start.is_none() && !states.is_empty() && !words.has("all_time"));
    if start.is_none() && !words.has("all_time") {
        // The midnight before the last one.
        start = parse_past_point_in_time("00:00", now(), &place.zone)
            .ok()
            .map(|midnight| midnight.0 - 86_400);
    }
    let clusters = if words.has("all_clusters") {
        Vec::new()
    } else {
        match words.list("clusters", 1) {
            list if list.is_empty() => vec![client.settings.cluster.clone()],
            list => list,
        }
    };
    let request = v1::ListEventsRequest {
        clusters,
        nodes: words.all_names(&[("nodes", 1)]),
        start,
        end,
        open_only: open,
    };
    let found = client
        .accounting()
        .list_events(request)
        .await?
        .into_inner()
        .events;
    let (reasons, users) = (words.list("reasons", 1), words.list("users", 1));
    let kind = words.list("events", 2);
    let only_nodes = !states.is_empty() || !users.is_empty();
    let rows: Vec<Vec<String>> = found
        .into_iter()
        .filter(|event| {
            let is_node = !event.node.is_empty();
            let name = event.user.split('(').next().unwrap_or_default();
            let state = event.state.trim_end_matches('*').to_string();
            let kind_fits = kind.is_empty()
                || kind.iter().any(|word| {
                    is_keyword(
                        &word.to_ascii_lowercase(),
                        if is_node { "node" } else { "cluster" },
                        1,
                    )
                });
            kind_fits
                && (is_node || !only_nodes)
                && (states.is_empty()
                    || states.iter().any(|wanted| {
                        state
                            .to_ascii_lowercase()
                            .starts_with(&wanted.to_ascii_lowercase())
                    }))
                && (reasons.is_empty()
                    || reasons
                        .iter()
                        .any(|reason| event.reason.contains(reason.as_str())))
                && pass(&users, name)
        })
        .map(|event| {
            let is_node = !event.node.is_empty();
            let end = event.time_end.map(UnixSeconds);
            let lasted = end.unwrap_or_else(now) - UnixSeconds(event.time_start);
            let tres = event.tres.parse::<Tres>();
            let cpus = tres.as_ref().map_or(0, |tres| tres.get(&TresKind::Cpu));
            vec![
                event.cluster,
                event.node,
                times.point(UnixSeconds(event.time_start)),
                end.map_or_else(|| "Unknown".to_string(), |end| times.point(end)),
                short_state(&event.state),
                event.reason,
                event.user,
                format_duration_full(lasted.max(0)),
                if is_node { "Node" } else { "Cluster" }.to_string(),
                if is_node { "2" } else { "1" }.to_string(),
                event.state,
                tres.map_or_else(|_| event.tres.clone(), |tres| tres.to_string()),
                event.cluster_nodes,
                cpus.to_string(),
            ]
        })
        .collect();
    Ok(table(
        session,
        words,
        EVENT,
        "Cluster,NodeName,TimeStart,TimeEnd,State,Reason,User",
        &rows,
    ))
}

/// States of nodes in the short form that events have.
fn short_state(state: &str) -> String {
    state
        .replace("DRAINED", "DRAIN")
        .replace("DRAINING", "DRNG")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_about_the_rows_it_names() {
        let row = |id| AssociationRecord {
            id,
            ..AssociationRecord::new("oracle", "bio", "bob")
        };
        let tree = [row(5), row(6), row(50)];
        let entry = |condition: &str| v1::TransactionRecord {
            condition: condition.to_string(),
            ..Default::default()
        };
        let ids = |condition: &str| {
            concerned(&entry(condition), &tree)
                .iter()
                .map(|row| row.id)
                .collect::<Vec<_>>()
        };
        assert_eq!(ids("(id_assoc=5 || id_assoc=6)"), [5, 6]);
        assert_eq!(ids("id_assoc=50"), [50]);
        assert!(ids("bio").is_empty());
    }
}
