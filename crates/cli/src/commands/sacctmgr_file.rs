//! `sacctmgr load`: a cluster's accounts, users and limits from a flat file. What is to change is worked out in
//! [`super::sacctmgr_plan`]; writing a file is in [`super::sacctmgr_dump`].
//!
//! Loading adds what is missing and changes what is different; with `clean` everything of the cluster is removed first.
//! Source: sacctmgr(1), FLAT FILE DUMP AND LOAD.

use sluice_proto::v1::{self, AccountingEntity};

use super::sacctmgr::{NOTHING_NEW, PATIENCE, Session};
use super::sacctmgr_delete::tell_open_jobs;
use super::sacctmgr_dump::known;
use super::sacctmgr_plan::{Action, parse_line, plan};
use super::sacctmgr_words::Words;
use crate::client::{Client, ClientError};
use crate::output;

/// Additions first, then changes and marks, which may refer to what was added.
fn rank(action: &Action) -> u8 {
    match action {
        Action::Qos(_) => 0,
        Action::Account(_) => 1,
        Action::User(_) => 2,
        Action::Change(_) => 3,
        Action::Coordinator(_) => 4,
    }
}

pub(super) async fn load(session: &Session, words: &[String]) -> Result<i32, ClientError> {
    if session.refuses_changes() {
        return Ok(1);
    }
    let words = Words::new(words);
    let Some(file) = words
        .value("file", 1)
        .map(str::to_string)
        .or_else(|| words.names.first().cloned())
    else {
        output::error_line(" No filename given, specify one with file=''");
        return Ok(1);
    };
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) => {
            let reason = nix::errno::Errno::from_raw(error.raw_os_error().unwrap_or(0));
            output::error_line(format!(" Unable to read \"{file}\": {}", reason.desc()));
            return Ok(1);
        }
    };
    let mut parsed = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match parse_line(line) {
            Some(line) => parsed.push((at + 1, line)),
            None => {
                output::error_line(format!(" Misformatted line({}): {line}", at + 1));
                return Ok(1);
            }
        }
    }
    let named = parsed
        .iter()
        .find(|(_, line)| line.title == "cluster")
        .map(|(_, line)| line.name.clone());
    let Some(cluster) = words.value("clusters", 2).map(str::to_lowercase).or(named) else {
        output::error_line(
            " You need to specify a cluster name first with 'Cluster - $NAME' in your file",
        );
        output::line(NOTHING_NEW);
        return Ok(1);
    };
    let client = Client::connect(PATIENCE).await?;
    output::line(format!("For cluster {cluster}"));
    let clusters = client
        .accounting()
        .list_clusters(v1::ListClustersRequest::default())
        .await?
        .into_inner()
        .clusters;
    if clusters.iter().all(|record| record.name != cluster) {
        client
            .accounting()
            .add_cluster(v1::AddClusterRequest {
                name: cluster.clone(),
                ..Default::default()
            })
            .await?;
    }
    let mut known = known(&client, &cluster).await?;
    let clean: Vec<String> = known
        .rows
        .iter()
        .filter(|row| {
            words.has("clean")
                && row.user.is_empty()
                && row.account != "root"
                && row.parent_account == "root"
        })
        .map(|row| row.account.clone())
        .collect();
    if words.has("clean") {
        known.rows.retain(|row| row.account == "root");
    }
    let mut plan = match plan(&parsed, &cluster, &known) {
        Ok(plan) => plan,
        Err(text) => {
            output::error_line(text);
            return Ok(1);
        }
    };
    if plan.actions.is_empty() && clean.is_empty() {
        output::line(NOTHING_NEW);
        return Ok(0);
    }
    for name in &clean {
        output::line(format!(" Removed account {name} and all below it"));
    }
    for line in &plan.told {
        output::line(line);
    }
    if !session.confirmed() {
        return Ok(0);
    }
    if !clean.is_empty() {
        let selection = v1::EntitySelection {
            names: clean,
            clusters: vec![cluster.clone()],
            ..Default::default()
        };
        let request = v1::DeleteRequest {
            entity: AccountingEntity::Account as i32,
            selection: Some(selection),
            dry_run: false,
        };
        let done = client.accounting().delete(request).await?.into_inner();
        if tell_open_jobs(&done.open_jobs) {
            return Ok(1);
        }
    }
    plan.actions.sort_by_key(rank);
    for action in plan.actions {
        match action {
            Action::Qos(request) => drop(client.accounting().add_qos(request).await?),
            Action::Account(request) => drop(client.accounting().add_accounts(request).await?),
            Action::User(request) => drop(client.accounting().add_users(request).await?),
            Action::Change(request) => drop(client.accounting().modify(request).await?),
            Action::Coordinator(request) => {
                drop(client.accounting().set_coordinators(request).await?)
            }
        }
    }
    Ok(0)
}
