//! `sacctmgr add …`: clusters, accounts, users, QOS and coordinators. Resources are in [`super::sacctmgr_resources`].
//!
//! A change is planned by the controller first (dry run), shown, asked for, and then made. Source: sacctmgr(1).

use sluice_model::accounting::AssociationRecord;
use sluice_model::error_code::ErrorCode;
use sluice_proto::v1;

use super::sacctmgr::{ENTITIES, NOTHING_NEW, PATIENCE, Session, no_entity};
use super::sacctmgr_resources::add_resource;
use super::sacctmgr_settings::{Of, assignment, lines};
use super::sacctmgr_show::records;
use super::sacctmgr_words::{Words, admin_level, assignments};
use super::scontrol::{is_any_keyword, is_keyword};
use crate::client::{Client, ClientError};
use crate::output;

pub(super) async fn add(session: &Session, words: &[String]) -> Result<i32, ClientError> {
    let Some((entity, words)) = session.entity_to_change("add", ENTITIES, words) else {
        return Ok(1);
    };
    let result = match entity.to_ascii_lowercase().as_str() {
        word if is_keyword(word, "accounts", 1) || is_keyword(word, "accts", 4) => {
            add_accounts(session, &words).await
        }
        word if is_keyword(word, "users", 1) => add_users(session, &words).await,
        word if is_keyword(word, "clusters", 2) => add_clusters(session, &words).await,
        word if is_keyword(word, "coordinators", 2) => add_coordinators(session, &words).await,
        word if is_keyword(word, "qos", 1) => add_qos(session, &words).await,
        word if is_keyword(word, "resources", 1) => add_resource(session, &words).await,
        word if is_keyword(word, "federations", 1) => {
            output::error_line(FEDERATIONS);
            Ok(1)
        }
        _ => Ok(no_entity("add", ENTITIES)),
    };
    match result {
        // What is there already, or is missing, is no failure of the tool: Slurm says so on stdout.
        Err(ClientError::Other(text)) if is_no_change(&text) => {
            output::line(text);
            Ok(1)
        }
        result => result,
    }
}

/// Why there are no federations.
pub(super) const FEDERATIONS: &str = "sacctmgr: error: federations are not supported; clusters that share a database are asked for with --clusters";

/// Texts about entities that exist already, or that lack their account.
fn is_no_change(text: &str) -> bool {
    ["Already existing", "No account", "This cluster"]
        .iter()
        .any(|begin| text.trim_start().starts_with(begin))
}

/// Least width of an account's name where rows are added and changed.
pub(super) const ACCOUNT_WIDTH: usize = 20;

/// Rows as sacctmgr shows them, here with [`ACCOUNT_WIDTH`]: `  C = oracle     A = bio                  U = alice    `.
pub(super) fn association_lines(rows: &[AssociationRecord], account_width: usize) -> Vec<String> {
    rows.iter()
        .map(|row| {
            let mut line = format!(
                "  C = {:<10} A = {:<account_width$}",
                row.cluster, row.account
            );
            if !row.user.is_empty() {
                line.push_str(&format!(" U = {:<9}", row.user));
            }
            if !row.partition.is_empty() {
                line.push_str(&format!(" P = {}", row.partition));
            }
            line
        })
        .collect()
}

/// A heading and the names below it.
pub(super) fn named(title: &str, names: &[String]) -> Vec<String> {
    std::iter::once(title.to_owned())
        .chain(names.iter().map(|name| format!("  {name}")))
        .collect()
}

/// Everything that adding takes: conditions are settings here, whatever stands in front of them. `keys` are no settings.
fn settings(of: Of, words: &Words, keys: &[(&str, usize)]) -> Option<Vec<v1::Assignment>> {
    assignments(of, &words.all_pairs(), &words.loose, |pair| {
        is_any_keyword(&pair.key, keys).then_some(Ok(None))
    })
}

const ACCOUNT_KEYS: &[(&str, usize)] = &[
    ("accounts", 1),
    ("accts", 4),
    ("clusters", 1),
    ("description", 3),
    ("flags", 2),
    ("names", 1),
    ("organization", 1),
    ("parent", 1),
];

async fn add_accounts(session: &Session, words: &Words) -> Result<i32, ClientError> {
    let Some(assignments) = settings(Of::Association, words, ACCOUNT_KEYS) else {
        return Ok(1);
    };
    let names = words.all_names(&[("names", 1), ("accounts", 1), ("accts", 4)]);
    if names.is_empty() {
        output::error_line(" Need name of account to add.");
        return Ok(1);
    }
    let (description, organization) = (
        words.value("description", 3),
        words.value("organization", 1),
    );
    let parent = words.value("parent", 1).unwrap_or_default().to_string();
    let shown = lines(Of::Association, &assignments);
    let request = v1::AddAccountsRequest {
        names,
        description: description.unwrap_or_default().to_string(),
        organization: organization.unwrap_or_default().to_string(),
        parent: parent.clone(),
        clusters: words.list("clusters", 1),
        dry_run: true,
        assignments,
        ..Default::default()
    };
    let client = Client::connect(PATIENCE).await?;
    let plan = client
        .accounting()
        .add_accounts(request.clone())
        .await?
        .into_inner();
    let rows: Vec<AssociationRecord> = records(plan.associations)?;
    let mut text = Vec::new();
    if !plan.added.is_empty() {
        text.extend(named(" Adding Account(s)", &plan.added));
        text.push(" Settings".to_string());
        text.push(format!(
            "  {:<15} = {}",
            "Description",
            description.unwrap_or("Account Name")
        ));
        text.push(format!(
            "  {:<15} = {}",
            "Organization",
            organization.unwrap_or("Parent/Account Name")
        ));
    }
    text.push(" Associations =".to_string());
    text.extend(association_lines(&rows, ACCOUNT_WIDTH));
    if !parent.is_empty() || !shown.is_empty() {
        text.push(" Settings".to_string());
        // The place in the tree stands before priority and QOS.
        let late = |line: &String| {
            ["  Priority", "  QOS", "  DefQOS"]
                .iter()
                .any(|begin| line.starts_with(begin))
        };
        text.extend(shown.iter().filter(|line| !late(line)).cloned());
        if !parent.is_empty() {
            text.push(format!("  {:<13} = {parent}", "Parent"));
        }
        text.extend(shown.iter().filter(|line| late(line)).cloned());
    }
    if !session.approves(&text) {
        return Ok(0);
    }
    client
        .accounting()
        .add_accounts(v1::AddAccountsRequest {
            dry_run: false,
            ..request
        })
        .await?;
    if let Some(flags) = words.value("flags", 2) {
        let request = v1::ModifyRequest {
            entity: v1::AccountingEntity::Account as i32,
            selection: Some(v1::EntitySelection {
                names: plan.added,
                ..Default::default()
            }),
            assignments: vec![assignment("flags", flags)],
            dry_run: false,
        };
        client.accounting().modify(request).await?;
    }
    Ok(0)
}

const USER_KEYS: &[(&str, usize)] = &[
    ("accounts", 2),
    ("accts", 4),
    ("adminlevel", 2),
    ("clusters", 1),
    ("defaultaccount", 8),
    ("defaultacct", 10),
    ("defaultwckey", 8),
    ("names", 1),
    ("partitions", 3),
    ("users", 1),
    ("wckeys", 1),
];

async fn add_users(session: &Session, words: &Words) -> Result<i32, ClientError> {
    let Some(assignments) = settings(Of::Association, words, USER_KEYS) else {
        return Ok(1);
    };
    let names = words.all_names(&[("names", 1), ("users", 1)]);
    if names.is_empty() {
        output::error_line(" Need name of user to add.");
        return Ok(1);
    }
    let level = match words.value("adminlevel", 2).map(admin_level).transpose() {
        Ok(level) => level,
        Err(text) => {
            output::error_line(text);
            return Ok(1);
        }
    };
    let default_account = words
        .value("defaultaccount", 8)
        .or_else(|| words.value("defaultacct", 10));
    let default_wckey = words.value("defaultwckey", 8);
    let wckeys = words.list("wckeys", 1);
    let mut accounts = words.list("accounts", 2);
    accounts.extend(words.list("accts", 4));
    if accounts.is_empty()
        && default_account.is_none()
        && wckeys.is_empty()
        && default_wckey.is_none()
    {
        output::error_line(" Need name of account to add user to.");
        return Ok(1);
    }
    let shown = lines(Of::Association, &assignments);
    let request = v1::AddUsersRequest {
        names,
        accounts,
        clusters: words.list("clusters", 1),
        partitions: words.list("partitions", 3),
        default_account: default_account.unwrap_or_default().to_string(),
        admin_level: level.map(|level| v1::AdminLevel::from(level) as i32),
        dry_run: true,
        wckeys,
        default_wckey: default_wckey.unwrap_or_default().to_string(),
        assignments,
        ..Default::default()
    };
    let client = Client::connect(PATIENCE).await?;
    let plan = match client.accounting().add_users(request.clone()).await {
        Ok(reply) => reply.into_inner(),
        Err(status) => {
            let error = ClientError::from(status);
            if error.code() == Some(ErrorCode::AccessDenied) {
                output::error_line(format!(" error: Problem adding user associations: {error}"));
                return Ok(1);
            }
            return Err(error);
        }
    };
    let rows: Vec<AssociationRecord> = records(plan.associations)?;
    if rows.is_empty() && plan.added.is_empty() && plan.wckeys.is_empty() {
        output::line(NOTHING_NEW);
        return Ok(1);
    }
    let mut text = Vec::new();
    if !plan.added.is_empty() {
        text.extend(named(" Adding User(s)", &plan.added));
        text.push(" Settings".to_string());
        if let Some(account) = default_account {
            text.push(format!("  Default Account = {account}"));
        }
        if let Some(key) = default_wckey {
            text.push(format!("  Default WCKey   = {key}"));
        }
        if let Some(level) = level {
            text.push(format!("  Admin Level     = {}", level.as_str()));
        }
    }
    if !rows.is_empty() {
        text.push(" Associations =".to_string());
        text.extend(association_lines(&rows, ACCOUNT_WIDTH));
    }
    if !plan.wckeys.is_empty() {
        text.push(" WCKeys =".to_string());
        text.extend(plan.wckeys.iter().map(|key| {
            format!(
                "  C = {:<10} W = {:<10} U = {:<9}",
                key.cluster, key.name, key.user
            )
        }));
    }
    if !shown.is_empty() {
        text.push(" Non Default Settings".to_string());
        text.extend(shown);
    }
    let request = v1::AddUsersRequest {
        dry_run: false,
        ..request
    };
    session
        .carry_out(&text, client.accounting().add_users(request))
        .await
}

async fn add_clusters(session: &Session, words: &Words) -> Result<i32, ClientError> {
    let keys = [
        ("classification", 3),
        ("clusters", 2),
        ("features", 3),
        ("federation", 3),
        ("fedstate", 4),
        ("names", 1),
    ];
    let Some(assignments) = settings(Of::Association, words, &keys) else {
        return Ok(1);
    };
    if words.value("federation", 3).is_some()
        || words.value("features", 3).is_some()
        || words.value("fedstate", 4).is_some()
    {
        output::error_line(FEDERATIONS);
        return Ok(1);
    }
    let names = words.all_names(&[("names", 1), ("clusters", 2)]);
    if names.is_empty() {
        output::error_line(" Need name of cluster to add.");
        return Ok(1);
    }
    let client = Client::connect(PATIENCE).await?;
    let request = |name: &str, dry_run: bool| v1::AddClusterRequest {
        name: name.to_string(),
        classification: words
            .value("classification", 3)
            .unwrap_or_default()
            .to_string(),
        dry_run,
        assignments: assignments.clone(),
        ..Default::default()
    };
    let mut new = Vec::new();
    for name in &names {
        match client
            .accounting()
            .add_cluster(request(name, true))
            .await
            .map_err(ClientError::from)
        {
            Ok(_) => new.push(name.clone()),
            Err(ClientError::Other(text)) if is_no_change(&text) => output::line(text),
            Err(error) => return Err(error),
        }
    }
    if new.is_empty() {
        return Ok(1);
    }
    let mut text = vec![" Adding Cluster(s)".to_string()];
    text.extend(new.iter().map(|name| format!("  Name           = {name}")));
    if let Some(class) = words.value("classification", 3) {
        text.push(format!("  Classification = {class}"));
    }
    let shown = lines(Of::Association, &assignments);
    if !shown.is_empty() {
        text.push(" Default Limits".to_string());
        text.extend(shown);
    }
    if !session.approves(&text) {
        return Ok(0);
    }
    for name in &new {
        client
            .accounting()
            .add_cluster(request(name, false))
            .await?;
    }
    Ok(0)
}

async fn add_qos(session: &Session, words: &Words) -> Result<i32, ClientError> {
    let Some(assignments) = settings(Of::Qos, words, &[("names", 1)]) else {
        return Ok(1);
    };
    let names = words.all_names(&[("names", 1)]);
    if names.is_empty() {
        output::error_line(" Need name of qos to add.");
        return Ok(1);
    }
    let request = v1::AddQosRequest {
        names: names.clone(),
        assignments: assignments.clone(),
        dry_run: true,
    };
    let client = Client::connect(PATIENCE).await?;
    let plan = client
        .accounting()
        .add_qos(request.clone())
        .await?
        .into_inner();
    if plan.names.is_empty() {
        output::line(NOTHING_NEW);
        return Ok(1);
    }
    let mut text = named(" Adding QOS(s)", &plan.names);
    text.push(" Settings".to_string());
    let shown = lines(Of::Qos, &assignments);
    if !shown.iter().any(|line| line.starts_with("  Description")) {
        text.push(format!("  {:<14} = {}", "Description", plan.names[0]));
    }
    text.extend(shown);
    let request = v1::AddQosRequest {
        dry_run: false,
        ..request
    };
    session
        .carry_out(&text, client.accounting().add_qos(request))
        .await
}

/// Keys of a coordinator command.
pub(super) const COORDINATOR_KEYS: &[(&str, usize)] =
    &[("accounts", 1), ("accts", 4), ("names", 1), ("users", 1)];

/// Accounts and users of a coordinator command.
pub(super) fn coordinator_request(words: &Words, remove: bool) -> v1::SetCoordinatorsRequest {
    let mut users = words.all_names(&[("names", 1), ("users", 1)]);
    users.dedup();
    let mut accounts = words.list("accounts", 1);
    accounts.extend(words.list("accts", 4));
    v1::SetCoordinatorsRequest {
        accounts,
        users,
        remove,
        dry_run: true,
    }
}

async fn add_coordinators(session: &Session, words: &Words) -> Result<i32, ClientError> {
    if words.refuse_unknown(COORDINATOR_KEYS, "") {
        return Ok(1);
    }
    let request = coordinator_request(words, false);
    if request.users.is_empty() || request.accounts.is_empty() {
        output::error_line(" You need to specify conditions to to add the coordinator.");
        return Ok(1);
    }
    change_coordinators(session, request, |request, _| {
        let mut text = named(" Adding Coordinator User(s)", &request.users);
        text.extend(named(
            " To Account(s) and all sub-accounts",
            &request.accounts,
        ));
        Ok(text)
    })
    .await
}

/// Asks the controller what a change of coordinators would do, shows what `tell` makes of the answer, asks, and makes the change.
/// `Err` of it are the lines to show when there is nothing to do.
pub(super) async fn change_coordinators(
    session: &Session,
    request: v1::SetCoordinatorsRequest,
    tell: impl FnOnce(&v1::SetCoordinatorsRequest, &v1::ChangeReply) -> Result<Vec<String>, Vec<String>>,
) -> Result<i32, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let planned = client
        .accounting()
        .set_coordinators(request.clone())
        .await?
        .into_inner();
    let text = match tell(&request, &planned) {
        Ok(text) => text,
        Err(text) => {
            output::lines(&text);
            return Ok(1);
        }
    };
    let request = v1::SetCoordinatorsRequest {
        dry_run: false,
        ..request
    };
    session
        .carry_out(&text, client.accounting().set_coordinators(request))
        .await
}
