//! `sacctmgr load`: a cluster's accounts, users and limits from a flat file. Writing one is in [`super::sacctmgr_dump`].
//!
//! A line is `Title - 'name':Key=value:…`; parents stand before what is below them. Loading adds what is missing and changes what
//! is different; with `clean` everything of the cluster is removed first. Source: sacctmgr(1), FLAT FILE DUMP AND LOAD.

use std::collections::{HashMap, HashSet};

use sluice_model::accounting::AssociationRecord;
use sluice_proto::v1;

use super::sacctmgr::{PATIENCE, Session};
use super::sacctmgr_dump::{Known, known, row_text};
use super::sacctmgr_settings::{Assignment, Of, Unusable, lines, read};
use super::sacctmgr_words::{Words, admin_level, split};
use super::scontrol::is_keyword;
use crate::client::{Client, ClientError};
use crate::output;

/// A line of a file: title, name, and what it sets.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    title: String,
    name: String,
    pairs: Vec<(String, String)>,
}

/// Splits at colons outside quotes.
fn parse_line(text: &str) -> Option<Line> {
    let (title, rest) = text.split_once(" - ")?;
    let mut parts: Vec<String> = vec![String::new()];
    let mut quote = None;
    for letter in rest.trim().chars() {
        match (quote, letter) {
            (Some(mark), letter) if letter == mark => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, ':') => parts.push(String::new()),
            (_, letter) => {
                if let Some(part) = parts.last_mut() {
                    part.push(letter);
                }
            }
        }
    }
    let mut parts = parts.into_iter();
    let name = parts.next()?.trim().to_lowercase();
    let pairs = parts
        .filter(|part| !part.is_empty())
        .map(|part| {
            part.split_once('=')
                .map(|(key, value)| (key.trim().to_lowercase(), value.to_string()))
        })
        .collect::<Option<Vec<_>>>()?;
    (quote.is_none() && !name.is_empty()).then_some(Line {
        title: title.trim().to_lowercase(),
        name,
        pairs,
    })
}

/// A change that a file asks for.
enum Action {
    Qos(v1::AddQosRequest),
    Account(v1::AddAccountsRequest),
    User(v1::AddUsersRequest),
    Change(v1::ModifyRequest),
    Coordinator(v1::SetCoordinatorsRequest),
}

/// What a file is made into.
#[derive(Default)]
struct Plan {
    actions: Vec<Action>,
    told: Vec<String>,
}

/// Assignments of a line; keys of the entity itself are left to the caller.
fn assignments(of: Of, line: &Line, own: &[(&str, usize)]) -> Result<Vec<Assignment>, String> {
    let mut list = Vec::new();
    for (key, value) in &line.pairs {
        if own
            .iter()
            .any(|(name, least)| is_keyword(key, name, *least))
        {
            continue;
        }
        match read(of, key, None, value) {
            Ok(assignment) => list.push(assignment),
            Err(Unusable::Value(Some(text))) => return Err(text),
            Err(_) => return Err(format!(" Unknown option: {key}={value}")),
        }
    }
    Ok(list)
}

impl Line {
    fn value(&self, name: &str, least: usize) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(key, _)| is_keyword(key, name, least))
            .map(|(_, value)| value.as_str())
    }
}

const ACCOUNT_OWN: &[(&str, usize)] = &[("description", 3), ("organization", 1)];
const USER_OWN: &[(&str, usize)] = &[
    ("defaultaccount", 8),
    ("defaultwckey", 8),
    ("adminlevel", 2),
    ("coordinator", 2),
    ("partition", 3),
    ("wckeys", 1),
];

/// Those of the assignments that a row does not have yet.
fn different(row: &AssociationRecord, wanted: Vec<Assignment>) -> Vec<Assignment> {
    let has = row_text(row);
    let has: HashMap<String, String> = parse_line(&format!("x - y{has}"))
        .map(|line| line.pairs.into_iter().collect())
        .unwrap_or_default();
    let stored: Vec<Assignment> = has
        .iter()
        .filter_map(|(key, value)| read(Of::Association, key, None, value).ok())
        .collect();
    wanted
        .into_iter()
        .filter(|assignment| {
            let old = stored.iter().find(|old| old.field == assignment.field);
            let is_clear = matches!(assignment.value.as_str(), "" | "-1");
            match old {
                Some(old) => {
                    sorted(&old.value) != sorted(&assignment.value)
                        || old.operator != assignment.operator
                }
                None => !is_clear,
            }
        })
        .collect()
}

fn sorted(list: &str) -> Vec<&str> {
    let mut items: Vec<&str> = list.split(',').collect();
    items.sort_unstable();
    items
}

fn change(
    entity: v1::AccountingEntity,
    selection: v1::EntitySelection,
    assignments: Vec<Assignment>,
) -> Action {
    Action::Change(v1::ModifyRequest {
        entity: entity as i32,
        selection: Some(selection),
        assignments,
        dry_run: false,
    })
}

/// Works out what a file changes.
fn plan(lines_of_file: &[(usize, Line)], cluster: &str, known: &Known) -> Result<Plan, String> {
    let mut plan = Plan::default();
    let mut parent = "root".to_string();
    let mut new_accounts: HashSet<String> = HashSet::new();
    let on = vec![cluster.to_string()];
    for (number, line) in lines_of_file {
        let failed = |text: String| format!("{text}\n Problem with line({number})");
        match line.title.as_str() {
            "qos" => {
                let wanted = assignments(Of::Qos, line, &[]).map_err(failed)?;
                if known.qos.iter().all(|qos| qos.name != line.name) {
                    plan.told.push(format!(
                        " Added QOS                     for Cluster {cluster}       {}",
                        line.name
                    ));
                    plan.actions.push(Action::Qos(v1::AddQosRequest {
                        names: vec![line.name.clone()],
                        assignments: wanted,
                        dry_run: false,
                    }));
                }
            }
            "cluster" => {
                let wanted =
                    assignments(Of::Association, line, &[("classification", 3)]).map_err(failed)?;
                if let Some(root) = known
                    .rows
                    .iter()
                    .find(|row| row.user.is_empty() && row.account == "root")
                {
                    let wanted = different(root, wanted);
                    if !wanted.is_empty() {
                        plan.told.extend(
                            lines(Of::Association, &wanted).iter().map(|text| {
                                format!(" Changed {} for Cluster {cluster}", text.trim())
                            }),
                        );
                        let selection = v1::EntitySelection {
                            names: on.clone(),
                            ..Default::default()
                        };
                        plan.actions
                            .push(change(v1::AccountingEntity::Cluster, selection, wanted));
                    }
                }
            }
            "parent" => {
                let exists = new_accounts.contains(&line.name)
                    || known
                        .rows
                        .iter()
                        .any(|row| row.user.is_empty() && row.account == line.name);
                if !exists {
                    return Err(format!(
                        " line({number}) You need to add parent '{}' before it is used",
                        line.name
                    ));
                }
                parent.clone_from(&line.name);
            }
            "account" => {
                let wanted = assignments(Of::Association, line, ACCOUNT_OWN).map_err(failed)?;
                let stored = known
                    .rows
                    .iter()
                    .find(|row| row.user.is_empty() && row.account == line.name);
                match stored {
                    None => {
                        new_accounts.insert(line.name.clone());
                        plan.told
                            .push(format!(" Added account {} below {parent}", line.name));
                        plan.actions.push(Action::Account(v1::AddAccountsRequest {
                            names: vec![line.name.clone()],
                            description: line
                                .value("description", 3)
                                .unwrap_or_default()
                                .to_string(),
                            organization: line
                                .value("organization", 1)
                                .unwrap_or_default()
                                .to_string(),
                            parent: parent.clone(),
                            clusters: on.clone(),
                            assignments: wanted,
                            ..Default::default()
                        }));
                    }
                    Some(row) => {
                        let mut wanted = different(row, wanted);
                        plan.told.extend(changes("Account", &line.name, &wanted));
                        let account = known
                            .accounts
                            .iter()
                            .find(|account| account.name == line.name);
                        for (field, least, old) in [
                            (
                                "description",
                                3,
                                account.map(|account| account.description.as_str()),
                            ),
                            (
                                "organization",
                                1,
                                account.map(|account| account.organization.as_str()),
                            ),
                        ] {
                            if let Some(value) = line.value(field, least)
                                && old.is_some_and(|old| !old.eq_ignore_ascii_case(value))
                            {
                                plan.told.push(format!(
                                    " Changed {field:<21} for Account {:<16} {} -> {value}",
                                    line.name,
                                    old.unwrap_or_default()
                                ));
                                wanted.push(Assignment {
                                    field: field.to_string(),
                                    value: value.to_string(),
                                    ..Default::default()
                                });
                            }
                        }
                        if row.parent_account != parent {
                            plan.told.push(format!(
                                " Changed parent                for Account {:<16} {} -> {parent}",
                                line.name, row.parent_account
                            ));
                            wanted.push(Assignment {
                                field: "parent_account".to_string(),
                                value: parent.clone(),
                                ..Default::default()
                            });
                        }
                        if !wanted.is_empty() {
                            let selection = v1::EntitySelection {
                                names: vec![line.name.clone()],
                                clusters: on.clone(),
                                ..Default::default()
                            };
                            plan.actions.push(change(
                                v1::AccountingEntity::Account,
                                selection,
                                wanted,
                            ));
                        }
                    }
                }
            }
            "user" => {
                let wanted = assignments(Of::Association, line, USER_OWN).map_err(failed)?;
                let partition = line.value("partition", 3).unwrap_or_default();
                let stored = known.rows.iter().find(|row| {
                    row.user == line.name && row.account == parent && row.partition == partition
                });
                let level = line.value("adminlevel", 2).and_then(admin_level);
                let user = known.users.iter().find(|user| user.name == line.name);
                match stored {
                    None => {
                        plan.told
                            .push(format!(" Added user {} to account {parent}", line.name));
                        plan.actions.push(Action::User(v1::AddUsersRequest {
                            names: vec![line.name.clone()],
                            accounts: vec![parent.clone()],
                            clusters: on.clone(),
                            partitions: Some(partition.to_string())
                                .filter(|name| !name.is_empty())
                                .into_iter()
                                .collect(),
                            admin_level: level
                                .filter(|level| user.is_none_or(|user| user.admin_level != *level))
                                .map(|level| v1::AdminLevel::from(level) as i32),
                            wckeys: line.value("wckeys", 1).map(split).unwrap_or_default(),
                            assignments: wanted,
                            ..Default::default()
                        }));
                    }
                    Some(row) => {
                        let mut wanted = different(row, wanted);
                        plan.told.extend(changes("User", &line.name, &wanted));
                        if let Some(level) = level
                            && user.is_some_and(|user| user.admin_level != level)
                        {
                            plan.told.push(format!(
                                " Changed Admin Level           for User    {:<16} -> {}",
                                line.name,
                                level.as_str()
                            ));
                            wanted.push(Assignment {
                                field: "admin_level".to_string(),
                                value: level.as_str().to_lowercase(),
                                ..Default::default()
                            });
                        }
                        if !wanted.is_empty() {
                            let selection = v1::EntitySelection {
                                names: vec![line.name.clone()],
                                clusters: on.clone(),
                                accounts: vec![parent.clone()],
                                ..Default::default()
                            };
                            plan.actions.push(change(
                                v1::AccountingEntity::User,
                                selection,
                                wanted,
                            ));
                        }
                    }
                }
                // Marks that need the accounts to be there come last.
                if let Some(account) = line.value("defaultaccount", 8) {
                    let is = user.is_some_and(|user| {
                        user.default_accounts
                            .iter()
                            .any(|(on, name)| on == cluster && name == account)
                    });
                    if !is {
                        let selection = v1::EntitySelection {
                            names: vec![line.name.clone()],
                            clusters: on.clone(),
                            ..Default::default()
                        };
                        let set = Assignment {
                            field: "default_account".to_string(),
                            value: account.to_lowercase(),
                            ..Default::default()
                        };
                        plan.actions
                            .push(change(v1::AccountingEntity::User, selection, vec![set]));
                    }
                }
                let coordinated: Vec<String> = line
                    .value("coordinator", 2)
                    .map(split)
                    .unwrap_or_default()
                    .into_iter()
                    .filter(|account| {
                        user.is_none_or(|user| !user.coordinator_of.contains(account))
                    })
                    .collect();
                if !coordinated.is_empty() {
                    plan.actions
                        .push(Action::Coordinator(v1::SetCoordinatorsRequest {
                            accounts: coordinated,
                            users: vec![line.name.clone()],
                            ..Default::default()
                        }));
                }
            }
            _ => {
                return Err(format!(
                    " Misformatted line({number}): {} - {}",
                    line.title, line.name
                ));
            }
        }
    }
    Ok(plan)
}

fn changes(kind: &str, name: &str, wanted: &[Assignment]) -> Vec<String> {
    lines(Of::Association, wanted)
        .iter()
        .map(|text| format!(" Changed {:<21} for {kind:<7} {name}", text.trim()))
        .collect()
}

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
        output::line(" Nothing new added.");
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
        output::line(" Nothing new added.");
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
            entity: v1::AccountingEntity::Account as i32,
            selection: Some(selection),
            dry_run: false,
        };
        let done = client.accounting().delete(request).await?.into_inner();
        if !done.open_jobs.is_empty() {
            output::error_line(" Error with request: Job(s) active, cancel job(s) before remove");
            for line in &done.open_jobs {
                output::error_line(line);
            }
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

#[cfg(test)]
mod tests {
    use super::super::sacctmgr_dump::file_lines;
    use super::super::sacctmgr_dump::tests::sample;
    use super::*;

    /// What was dumped and is loaded again changes nothing; with a change in the file, only that.
    #[test]
    fn a_dump_loads_without_a_change() {
        let (rows, accounts, users) = sample();
        let (head, body) = file_lines("oracle", "", &[], &rows, &accounts, &users);
        let text = format!("{head}\n{}", body.join("\n"));
        let known = Known {
            qos: Vec::new(),
            rows,
            accounts,
            users,
        };
        let parse = |text: &str| -> Vec<(usize, Line)> {
            text.lines()
                .enumerate()
                .map(|(at, line)| (at + 1, parse_line(line).expect("a line")))
                .collect()
        };
        let same = plan(&parse(&text), "oracle", &known).unwrap_or_else(|text| panic!("{text}"));
        assert!(same.actions.is_empty(), "{:?}", same.told);
        let other = text.replace("Fairshare=60", "Fairshare=61");
        let changed =
            plan(&parse(&other), "oracle", &known).unwrap_or_else(|text| panic!("{text}"));
        assert_eq!(changed.actions.len(), 1);
        let more = format!("{text}\nUser - 'adam':DefaultAccount='science'\nParent - 'nosuch'");
        assert!(
            plan(&parse(&more), "oracle", &known)
                .err()
                .is_some_and(|text| text.contains("'nosuch'"))
        );
        assert_eq!(parse_line("nonsense"), None);
        assert_eq!(parse_line("User - 'open:MaxJobs=3"), None);
    }
}
