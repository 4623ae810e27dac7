//! sacctmgr: shows and adds clusters, accounts and users.
//!
//! Names of entities and options may be shortened and are written in any case. Without `-i` a change is shown first and asked
//! for. Source: sacctmgr(1).

use std::io::{BufRead as _, IsTerminal as _};
use std::time::Duration;

use sluice_model::accounting::{
    AccountRecord, AdminLevel, AssociationLimits, AssociationRecord, ClusterRecord, QosRecord,
    UserRecord,
};
use sluice_proto::v1;

use super::caller::Place;
use super::scontrol::is_keyword;
use super::{block_on, version_text};
use crate::client::{Client, ClientError};
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::format::sacct::{TableStyle, table_header, table_line};
use crate::format::sacctmgr::{
    ACCOUNT_ASSOC_COLUMNS, ACCOUNT_COLUMNS, ASSOCIATION_COLUMNS, CLUSTER_COLUMNS, Entry,
    QOS_COLUMNS, USER_ASSOC_COLUMNS, USER_COLUMNS, columns,
};
use crate::output;
use crate::submit::options::Options;

/// How long an absent controller is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Width of the account column in a tree.
const TREE_WIDTH: i32 = -20;

/// Runs sacctmgr.
pub fn run(parsed: &Parsed) -> i32 {
    let place = Place::here();
    let options = Options::new(
        Command::Sacctmgr,
        &Parsed::default(),
        |name| place.variable(name),
        parsed,
    );
    if options.has("json") || options.has("yaml") {
        output::error_line("sacctmgr: error: JSON and YAML output are not supported yet: use -P");
        return 1;
    }
    if parsed.operands.is_empty() {
        return block_on(interactive(&options));
    }
    block_on(execute(&options, &parsed.operands))
}

async fn interactive(options: &Options) -> i32 {
    let stdin = std::io::stdin();
    let prompt = stdin.is_terminal();
    loop {
        if prompt {
            output::text_out("sacctmgr: ");
        }
        let mut line = String::new();
        if !matches!(stdin.lock().read_line(&mut line), Ok(length) if length > 0) {
            return 0;
        }
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        match words.first().map(String::as_str) {
            None => {}
            Some("quit" | "exit" | "q") => return 0,
            Some(_) => {
                execute(options, &words).await;
            }
        }
    }
}

async fn execute(options: &Options, words: &[String]) -> i32 {
    let Some((verb, rest)) = words.split_first() else {
        return 0;
    };
    let result = match verb.to_ascii_lowercase().as_str() {
        word if is_keyword(word, "show", 1) || is_keyword(word, "list", 1) => {
            show(options, rest).await
        }
        word if is_keyword(word, "add", 2) || is_keyword(word, "create", 2) => {
            add(options, rest).await
        }
        word if is_keyword(word, "version", 4) => {
            output::text_out(&version_text());
            Ok(0)
        }
        word if is_keyword(word, "ping", 4) => ping().await,
        word if [
            "modify",
            "delete",
            "remove",
            "dump",
            "load",
            "archive",
            "clear",
            "reconfigure",
            "shutdown",
        ]
        .iter()
        .any(|name| is_keyword(word, name, 3)) =>
        {
            output::error_line(format!("sacctmgr: error: {word} is not supported yet"));
            Ok(1)
        }
        _ => {
            output::error_line(format!("invalid keyword: {verb}"));
            Ok(1)
        }
    };
    result.unwrap_or_else(|error| {
        output::error_with_hint(format!(" error: {error}"), &error);
        1
    })
}

async fn ping() -> Result<i32, ClientError> {
    let reply = Client::connect(PATIENCE).await?.ping().await?;
    let up = reply
        .accounting
        .as_ref()
        .is_some_and(|health| health.connected);
    output::line(format!(
        "slurmdbd(primary) at {} is {}",
        reply.hostname,
        if up { "UP" } else { "DOWN" }
    ));
    Ok(i32::from(!up))
}

/// `name=value` words after the entity; bare words are names of the entity.
#[derive(Debug, Default)]
struct Words {
    names: Vec<String>,
    pairs: Vec<(String, String)>,
    switches: Vec<String>,
}

impl Words {
    fn new(words: &[String]) -> Self {
        const SWITCHES: [&str; 12] = [
            "withassoc",
            "withdeleted",
            "withcoord",
            "tree",
            "wolimits",
            "wopinfo",
            "woplimits",
            "withsubaccounts",
            "onlydefaults",
            "withrawqoslevel",
            "withclusters",
            "withfed",
        ];
        let mut parsed = Self::default();
        for word in words {
            let lower = word.to_ascii_lowercase();
            match word.split_once('=') {
                Some((key, value)) => {
                    let value = value.trim_matches(['"', '\'']).to_string();
                    parsed.pairs.push((key.to_ascii_lowercase(), value));
                }
                None if lower == "where" || lower == "set" => {}
                None => match SWITCHES
                    .iter()
                    .find(|name| is_keyword(&lower, name, 5.min(name.len())))
                {
                    Some(name) => parsed.switches.push((*name).to_string()),
                    None => parsed.names.extend(split(word)),
                },
            }
        }
        parsed
    }

    fn value(&self, name: &str, least: usize) -> Option<&str> {
        self.pairs
            .iter()
            .rev()
            .find(|(key, _)| is_keyword(key, name, least))
            .map(|(_, value)| value.as_str())
    }

    fn list(&self, name: &str, least: usize) -> Vec<String> {
        self.value(name, least).map(split).unwrap_or_default()
    }

    fn has(&self, name: &str) -> bool {
        self.switches.iter().any(|switch| switch == name)
    }
}

fn split(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(String::from)
        .collect()
}

/// Prints a table of entries.
fn print(
    options: &Options,
    words: &Words,
    default: &str,
    tree: bool,
    entries: &[Entry<'_>],
) -> i32 {
    let list = words.value("format", 1).unwrap_or(default);
    let mut columns = match columns(list) {
        Ok(columns) => columns,
        Err(name) => {
            output::error_line(format!("Unknown field '{name}'"));
            return 1;
        }
    };
    if tree {
        for column in columns
            .iter_mut()
            .filter(|column| column.field.header == "Account")
        {
            column.width = TREE_WIDTH;
        }
    }
    let style = match (options.has("parsable"), options.has("parsable2")) {
        (_, true) => TableStyle::Delimited {
            delimiter: "|".to_string(),
            trailing: false,
        },
        (true, _) => TableStyle::Delimited {
            delimiter: "|".to_string(),
            trailing: true,
        },
        _ => TableStyle::Padded,
    };
    let mut text = String::new();
    if !options.has("noheader") {
        let names: Vec<(String, i32)> = columns
            .iter()
            .map(|column| (column.field.header.to_string(), column.width))
            .collect();
        text.push_str(&table_header(&names, &style));
    }
    for entry in entries {
        let values: Vec<(String, i32)> = columns
            .iter()
            .map(|column| ((column.field.value)(entry), column.width))
            .collect();
        text.push_str(&table_line(&values, &style));
        text.push('\n');
    }
    output::text_out(&text);
    0
}

async fn show(options: &Options, words: &[String]) -> Result<i32, ClientError> {
    let Some((entity, rest)) = words.split_first() else {
        return Ok(no_entity());
    };
    let words = Words::new(rest);
    match entity.to_ascii_lowercase().as_str() {
        word if is_keyword(word, "accounts", 2) => show_accounts(options, &words).await,
        word if is_keyword(word, "associations", 2) => show_associations(options, &words).await,
        word if is_keyword(word, "clusters", 2) => show_clusters(options, &words).await,
        word if is_keyword(word, "qos", 1) => show_qos(options, &words).await,
        word if is_keyword(word, "users", 1) => show_users(options, &words).await,
        word if [
            "configuration",
            "events",
            "federations",
            "problems",
            "resources",
            "reservations",
            "runawayjobs",
            "stats",
            "transactions",
            "tres",
            "wckeys",
            "instances",
        ]
        .iter()
        .any(|name| is_keyword(word, name, 2)) =>
        {
            output::error_line(format!("sacctmgr: error: show {word} is not supported yet"));
            Ok(1)
        }
        _ => Ok(no_entity()),
    }
}

fn no_entity() -> i32 {
    output::error_line("No valid entity in list command");
    output::error_line(
        "Input line must include \"Account\", \"Association\", \"Cluster\", \"Configuration\",\n\"Event\", \"Federation\", \
         \"Problem\", \"QOS\", \"Resource\", \"Reservation\",\n\"RunAwayJobs\", \"Stats\", \"Transaction\", \"TRES\", \"User\", or \
         \"WCKey\"",
    );
    1
}

/// Reads records out of wire messages.
fn records<M, R>(messages: Vec<M>) -> Result<Vec<R>, ClientError>
where
    R: TryFrom<M>,
    ClientError: From<R::Error>,
{
    messages
        .into_iter()
        .map(|message| R::try_from(message).map_err(ClientError::from))
        .collect()
}

async fn associations(
    client: &Client,
    request: v1::ListAssociationsRequest,
) -> Result<Vec<AssociationRecord>, ClientError> {
    records(
        client
            .accounting()
            .list_associations(request)
            .await?
            .into_inner()
            .associations,
    )
}

async fn show_accounts(options: &Options, words: &Words) -> Result<i32, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let mut names = words.names.clone();
    names.extend(words.list("names", 1));
    names.extend(words.list("accounts", 2));
    let request = v1::ListAccountsRequest {
        names: names.clone(),
        with_deleted: words.has("withdeleted"),
    };
    let accounts: Vec<AccountRecord> = records(
        client
            .accounting()
            .list_accounts(request)
            .await?
            .into_inner()
            .accounts,
    )?;
    if !(options.has("associations") || words.has("withassoc")) {
        let entries: Vec<Entry<'_>> = accounts
            .iter()
            .map(|account| Entry {
                account: Some(account),
                ..Entry::default()
            })
            .collect();
        return Ok(print(options, words, ACCOUNT_COLUMNS, false, &entries));
    }
    let request = v1::ListAssociationsRequest {
        accounts: names,
        clusters: words.list("clusters", 1),
        ..Default::default()
    };
    let rows = associations(&client, request).await?;
    let entries: Vec<Entry<'_>> = accounts
        .iter()
        .flat_map(|account| {
            rows.iter()
                .filter(|row| row.account == account.name)
                .map(|row| Entry {
                    account: Some(account),
                    association: Some(row),
                    ..Entry::default()
                })
        })
        .collect();
    Ok(print(
        options,
        words,
        &format!("{ACCOUNT_COLUMNS},{ACCOUNT_ASSOC_COLUMNS}"),
        false,
        &entries,
    ))
}

async fn show_users(options: &Options, words: &Words) -> Result<i32, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let mut names = words.names.clone();
    names.extend(words.list("names", 1));
    names.extend(words.list("users", 1));
    let request = v1::ListUsersRequest {
        names: names.clone(),
        with_deleted: words.has("withdeleted"),
    };
    let users: Vec<UserRecord> = records(
        client
            .accounting()
            .list_users(request)
            .await?
            .into_inner()
            .users,
    )?;
    let asks_association = words.value("format", 1).is_some_and(|list| {
        split(list).iter().any(|item| {
            let name = item
                .split('%')
                .next()
                .unwrap_or_default()
                .to_ascii_lowercase();
            ![
                "user",
                "defaultaccount",
                "defacct",
                "adminlevel",
                "admin",
                "coordinators",
                "name",
            ]
            .contains(&name.as_str())
        })
    });
    if !(options.has("associations") || words.has("withassoc") || asks_association) {
        let entries: Vec<Entry<'_>> = users
            .iter()
            .map(|user| Entry {
                user: Some(user),
                ..Entry::default()
            })
            .collect();
        return Ok(print(options, words, USER_COLUMNS, false, &entries));
    }
    let request = v1::ListAssociationsRequest {
        users: names,
        accounts: words.list("accounts", 1),
        clusters: words.list("clusters", 1),
        ..Default::default()
    };
    let rows = associations(&client, request).await?;
    let entries: Vec<Entry<'_>> = users
        .iter()
        .flat_map(|user| {
            rows.iter()
                .filter(|row| row.user == user.name)
                .map(|row| Entry {
                    user: Some(user),
                    association: Some(row),
                    ..Entry::default()
                })
        })
        .collect();
    Ok(print(
        options,
        words,
        &format!("{USER_COLUMNS},{USER_ASSOC_COLUMNS}"),
        false,
        &entries,
    ))
}

async fn show_associations(options: &Options, words: &Words) -> Result<i32, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let request = v1::ListAssociationsRequest {
        clusters: words.list("clusters", 1),
        accounts: words.list("accounts", 2),
        users: words.list("users", 1),
        partitions: words.list("partitions", 2),
        with_sub_accounts: words.has("withsubaccounts"),
        only_defaults: words.has("onlydefaults"),
        without_parent_limits: words.has("woplimits"),
        with_deleted: words.has("withdeleted"),
    };
    let rows = associations(&client, request).await?;
    let tree = words.has("tree");
    let entries: Vec<Entry<'_>> = rows
        .iter()
        .map(|row| Entry {
            association: Some(row),
            depth: tree.then(|| depth(row, &rows)),
            ..Entry::default()
        })
        .collect();
    Ok(print(options, words, ASSOCIATION_COLUMNS, tree, &entries))
}

/// Accounts above a row; a user's row stands one deeper than its account's.
fn depth(row: &AssociationRecord, rows: &[AssociationRecord]) -> usize {
    let mut depth = usize::from(!row.user.is_empty());
    let mut account = row.account.as_str();
    // The tree is at most as deep as there are rows; a circle in bad data ends there.
    for _ in 0..rows.len() {
        let parent = rows
            .iter()
            .find(|other| {
                other.cluster == row.cluster && other.account == account && other.user.is_empty()
            })
            .map(|other| other.parent_account.as_str())
            .filter(|parent| !parent.is_empty());
        match parent {
            Some(parent) => {
                depth += 1;
                account = parent;
            }
            None => break,
        }
    }
    depth
}

async fn show_clusters(options: &Options, words: &Words) -> Result<i32, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let mut names = words.names.clone();
    names.extend(words.list("names", 1));
    names.extend(words.list("clusters", 1));
    let request = v1::ListClustersRequest {
        names,
        with_deleted: words.has("withdeleted"),
    };
    let clusters: Vec<ClusterRecord> = records(
        client
            .accounting()
            .list_clusters(request)
            .await?
            .into_inner()
            .clusters,
    )?;
    let roots = associations(
        &client,
        v1::ListAssociationsRequest {
            accounts: vec!["root".to_string()],
            ..Default::default()
        },
    )
    .await?;
    let entries: Vec<Entry<'_>> = clusters
        .iter()
        .map(|cluster| Entry {
            cluster: Some(cluster),
            association: roots
                .iter()
                .find(|row| row.cluster == cluster.name && row.user.is_empty()),
            ..Entry::default()
        })
        .collect();
    Ok(print(options, words, CLUSTER_COLUMNS, false, &entries))
}

async fn show_qos(options: &Options, words: &Words) -> Result<i32, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let mut names = words.names.clone();
    names.extend(words.list("names", 1));
    let request = v1::ListQosRequest {
        names,
        with_deleted: words.has("withdeleted"),
    };
    let qos: Vec<QosRecord> = records(
        client
            .accounting()
            .list_qos(request)
            .await?
            .into_inner()
            .qos,
    )?;
    let entries: Vec<Entry<'_>> = qos
        .iter()
        .map(|qos| Entry {
            qos: Some(qos),
            ..Entry::default()
        })
        .collect();
    Ok(print(options, words, QOS_COLUMNS, false, &entries))
}

/// What the new rows get; also the lines that show it.
fn settings(words: &Words) -> Result<(v1::AssociationSettings, Vec<String>), String> {
    let mut shown = Vec::new();
    let mut limits = AssociationLimits::default();
    let mut settings = v1::AssociationSettings::default();
    for (key, value) in &words.pairs {
        let number = || {
            value
                .parse::<u32>()
                .map(Some)
                .map_err(|_| format!(" Bad value for {key}: {value}"))
        };
        let mut show = |name: &str| shown.push(format!("  {name:<13} = {value}"));
        match key.as_str() {
            key if is_keyword(key, "fairshare", 1) || is_keyword(key, "shares", 2) => {
                if value.eq_ignore_ascii_case("parent") {
                    settings.shares_parent = true;
                } else {
                    settings.shares = number()?;
                }
                show("Fairshare");
            }
            key if is_keyword(key, "grpjobs", 4) => {
                limits.grp_jobs = number()?;
                show("GrpJobs");
            }
            key if is_keyword(key, "grpsubmitjobs", 4) => {
                limits.grp_submit_jobs = number()?;
                show("GrpSubmitJobs");
            }
            "grptres" => {
                limits.grp_tres.clone_from(value);
                show("GrpTRES");
            }
            "grptresmins" => {
                limits.grp_tres_mins.clone_from(value);
                show("GrpTRESMins");
            }
            key if is_keyword(key, "maxjobs", 4) => {
                limits.max_jobs = number()?;
                show("MaxJobs");
            }
            key if is_keyword(key, "maxsubmitjobs", 4) => {
                limits.max_submit_jobs = number()?;
                show("MaxSubmitJobs");
            }
            key if is_keyword(key, "maxtresperjob", 7) => {
                limits.max_tres_per_job.clone_from(value);
                show("MaxTRES");
            }
            key if is_keyword(key, "maxwalldurationperjob", 4) => {
                let minutes = sluice_model::time::parse_duration_minutes(value);
                limits.max_wall_per_job =
                    Some(minutes.map_err(|_| format!(" Bad value for {key}: {value}"))?);
                show("MaxWall");
            }
            key if is_keyword(key, "qoslevel", 1) => {
                settings.qos = Some(v1::StringList {
                    items: split(value),
                });
                show("QOS");
            }
            key if is_keyword(key, "defaultqos", 8) => {
                settings.default_qos.clone_from(value);
                show("DefQOS");
            }
            key if is_keyword(key, "priority", 3) => {
                settings.priority = number()?;
                show("Priority");
            }
            key if is_keyword(key, "comment", 3) => settings.comment.clone_from(value),
            _ => {}
        }
    }
    settings.limits = Some(limits.into());
    Ok((settings, shown))
}

/// Keys that adding an entity knows besides those of [`settings`].
const ADD_KEYS: [&str; 12] = [
    "accounts",
    "adminlevel",
    "clusters",
    "classification",
    "defaultaccount",
    "description",
    "names",
    "organization",
    "parent",
    "partitions",
    "users",
    "flags",
];

fn unknown_key(words: &Words) -> Option<String> {
    const LIMIT_KEYS: [&str; 14] = [
        "fairshare",
        "shares",
        "grpjobs",
        "grpsubmitjobs",
        "grptres",
        "grptresmins",
        "maxjobs",
        "maxsubmitjobs",
        "maxtresperjob",
        "maxwalldurationperjob",
        "qoslevel",
        "defaultqos",
        "priority",
        "comment",
    ];
    words
        .pairs
        .iter()
        .find(|(key, _)| {
            !ADD_KEYS
                .iter()
                .chain(&LIMIT_KEYS)
                .any(|known| is_keyword(key, known, 1))
        })
        .map(|(key, value)| format!(" Unknown option: {key}={value}"))
}

async fn add(options: &Options, words: &[String]) -> Result<i32, ClientError> {
    let Some((entity, rest)) = words.split_first() else {
        return Ok(bad_add());
    };
    if options.has("readonly") {
        output::error_line("Can't run this command in readonly mode.");
        return Ok(1);
    }
    let words = Words::new(rest);
    if let Some(text) = unknown_key(&words) {
        output::error_line(text);
        return Ok(1);
    }
    let (settings, shown) = match settings(&words) {
        Ok(settings) => settings,
        Err(text) => {
            output::error_line(text);
            return Ok(1);
        }
    };
    match entity.to_ascii_lowercase().as_str() {
        word if is_keyword(word, "accounts", 1) => {
            add_accounts(options, &words, settings, shown).await
        }
        word if is_keyword(word, "users", 1) => add_users(options, &words, settings, shown).await,
        word if is_keyword(word, "clusters", 2) => {
            add_clusters(options, &words, settings, shown).await
        }
        _ => Ok(bad_add()),
    }
}

fn bad_add() -> i32 {
    output::error_line("No valid entity in add command");
    output::error_line("Input line must include \"Account\", \"Cluster\", or \"User\"");
    1
}

/// Rows as sacctmgr shows them: `  C = oracle     A = bio        U = alice    `.
fn association_lines(rows: &[AssociationRecord]) -> Vec<String> {
    rows.iter()
        .map(|row| {
            let mut line = format!("  C = {:<10} A = {:<20}", row.cluster, row.account);
            if !row.user.is_empty() {
                line.push_str(&format!(" U = {:<9}", row.user));
            }
            if !row.partition.is_empty() {
                line.push_str(&format!(" P = {:<10}", row.partition));
            }
            line
        })
        .collect()
}

/// Asks on a terminal; without one the answer is no, as after a timeout.
fn confirmed(options: &Options) -> bool {
    if options.has("immediate") {
        return true;
    }
    output::text_out("Would you like to commit changes? (You have 30 seconds to decide)\n(N/y): ");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    let yes = read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes");
    if !yes {
        output::line(" Changes Discarded");
    }
    yes
}

async fn add_accounts(
    options: &Options,
    words: &Words,
    settings: v1::AssociationSettings,
    shown: Vec<String>,
) -> Result<i32, ClientError> {
    let mut names = words.names.clone();
    names.extend(words.list("names", 1));
    names.extend(words.list("accounts", 1));
    if names.is_empty() {
        output::error_line(" Need name of account to add.");
        return Ok(1);
    }
    let (description, organization) = (
        words.value("description", 1),
        words.value("organization", 1),
    );
    let parent = words.value("parent", 1).unwrap_or_default().to_string();
    let request = v1::AddAccountsRequest {
        names: names.clone(),
        description: description.unwrap_or_default().to_string(),
        organization: organization.unwrap_or_default().to_string(),
        parent: parent.clone(),
        clusters: words.list("clusters", 1),
        settings: Some(settings),
        dry_run: true,
    };
    let client = Client::connect(PATIENCE).await?;
    let plan = client
        .accounting()
        .add_accounts(request.clone())
        .await?
        .into_inner();
    let rows: Vec<AssociationRecord> = records(plan.associations)?;
    if rows.is_empty() && plan.added.is_empty() {
        for name in &plan.existing {
            output::line(format!(
                " Already existing account {name} on cluster {}",
                client.settings.cluster
            ));
        }
        return Ok(1);
    }
    let mut lines = Vec::new();
    if !plan.added.is_empty() {
        lines.push(" Adding Account(s)".to_string());
        lines.extend(plan.added.iter().map(|name| format!("  {name}")));
        lines.push(" Settings".to_string());
        lines.push(format!(
            "  {:<15} = {}",
            "Description",
            description.map_or("Account Name", |text| text)
        ));
        lines.push(format!(
            "  {:<15} = {}",
            "Organization",
            organization.map_or("Parent/Account Name", |text| text)
        ));
    }
    lines.push(" Associations =".to_string());
    lines.extend(association_lines(&rows));
    if !parent.is_empty() || !shown.is_empty() {
        lines.push(" Settings".to_string());
        lines.extend(shown);
    }
    if !parent.is_empty() {
        lines.push(format!("  {:<13} = {parent}", "Parent"));
    }
    output::text_out(&(lines.join("\n") + "\n"));
    if !confirmed(options) {
        return Ok(0);
    }
    client
        .accounting()
        .add_accounts(v1::AddAccountsRequest {
            dry_run: false,
            ..request
        })
        .await?;
    Ok(0)
}

async fn add_users(
    options: &Options,
    words: &Words,
    settings: v1::AssociationSettings,
    shown: Vec<String>,
) -> Result<i32, ClientError> {
    let mut names = words.names.clone();
    names.extend(words.list("names", 1));
    names.extend(words.list("users", 1));
    if names.is_empty() {
        output::error_line(" Need name of user to add.");
        return Ok(1);
    }
    let admin_level = match words.value("adminlevel", 2) {
        None => None,
        Some(text) => match text.to_ascii_lowercase().as_str() {
            word if is_keyword(word, "none", 1) => Some(AdminLevel::None),
            word if is_keyword(word, "operator", 1) => Some(AdminLevel::Operator),
            word if is_keyword(word, "administrator", 1) => Some(AdminLevel::Administrator),
            _ => {
                output::error_line(format!(" Bad admin level: {text}"));
                return Ok(1);
            }
        },
    };
    let request = v1::AddUsersRequest {
        names,
        accounts: words.list("accounts", 1),
        clusters: words.list("clusters", 1),
        partitions: words.list("partitions", 1),
        default_account: words
            .value("defaultaccount", 8)
            .unwrap_or_default()
            .to_string(),
        admin_level: admin_level.map(|level| v1::AdminLevel::from(level) as i32),
        settings: Some(settings),
        dry_run: true,
    };
    let client = Client::connect(PATIENCE).await?;
    let plan = client
        .accounting()
        .add_users(request.clone())
        .await?
        .into_inner();
    let rows: Vec<AssociationRecord> = records(plan.associations)?;
    if rows.is_empty() && plan.added.is_empty() {
        output::line("Nothing added.");
        if plan.existing.is_empty() {
            output::line(
                "Make sure the accounts requested here have been added to the system/cluster. (sacctmgr add account...)",
            );
        }
        return Ok(1);
    }
    let mut lines = Vec::new();
    if !plan.added.is_empty() {
        lines.push(" Adding User(s)".to_string());
        lines.extend(plan.added.iter().map(|name| format!("  {name}")));
        lines.push(" Settings".to_string());
        if let Some(account) = words.value("defaultaccount", 8) {
            lines.push(format!("  Default Account = {account}"));
        }
        if let Some(level) = admin_level {
            lines.push(format!("  Admin Level     = {}", level.as_str()));
        }
    }
    lines.push(" Associations =".to_string());
    lines.extend(association_lines(&rows));
    if !shown.is_empty() {
        lines.push(" Non Default Settings".to_string());
        lines.extend(shown);
    }
    output::text_out(&(lines.join("\n") + "\n"));
    if !confirmed(options) {
        return Ok(0);
    }
    client
        .accounting()
        .add_users(v1::AddUsersRequest {
            dry_run: false,
            ..request
        })
        .await?;
    Ok(0)
}

async fn add_clusters(
    options: &Options,
    words: &Words,
    settings: v1::AssociationSettings,
    shown: Vec<String>,
) -> Result<i32, ClientError> {
    let mut names = words.names.clone();
    names.extend(words.list("names", 1));
    names.extend(words.list("clusters", 2));
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
        settings: Some(settings.clone()),
        dry_run,
    };
    let mut new = Vec::new();
    for name in &names {
        let plan = client
            .accounting()
            .add_cluster(request(name, true))
            .await?
            .into_inner();
        if plan.added.is_empty() {
            output::line(format!(" This cluster {name} already exists.  Not adding."));
        } else {
            new.push(name.clone());
        }
    }
    if new.is_empty() {
        return Ok(1);
    }
    let mut lines = vec![" Adding Cluster(s)".to_string()];
    lines.extend(new.iter().map(|name| format!("  Name           = {name}")));
    if !shown.is_empty() {
        lines.push(" Default Limits".to_string());
        lines.extend(shown);
    }
    output::text_out(&(lines.join("\n") + "\n"));
    if !confirmed(options) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Words {
        Words::new(
            &line
                .split_whitespace()
                .map(String::from)
                .collect::<Vec<_>>(),
        )
    }

    /// Spellings that scripts use.
    #[test]
    fn reads_words() {
        let parsed = words("NAME format=account%256 withassoc where user=alice,bob Account=bio");
        assert_eq!(parsed.names, ["NAME"]);
        assert_eq!(parsed.value("format", 1), Some("account%256"));
        assert!(parsed.has("withassoc"));
        assert_eq!(parsed.list("users", 1), ["alice", "bob"]);
        assert_eq!(
            unknown_key(&words("nosuch=3")),
            Some(" Unknown option: nosuch=3".to_string())
        );
        assert_eq!(
            unknown_key(&words("fairshare=3 maxjobs=1 parent=x desc=y")),
            None
        );
    }

    /// The lines of a new user, as a real sacctmgr prints them.
    #[test]
    fn lines() {
        let rows = [
            AssociationRecord::new("oracle", "newacct", ""),
            AssociationRecord::new("oracle", "newacct", "carol"),
        ];
        assert_eq!(
            association_lines(&rows),
            [
                "  C = oracle     A = newacct             ",
                "  C = oracle     A = newacct              U = carol    "
            ]
        );
    }

    /// Depth of rows in the tree: users one below their account.
    #[test]
    fn tree() {
        let row = |account: &str, parent: &str, user: &str| AssociationRecord {
            parent_account: parent.to_string(),
            ..AssociationRecord::new("oracle", account, user)
        };
        let rows = [
            row("root", "", ""),
            row("root", "", "root"),
            row("science", "root", ""),
            row("bio", "science", ""),
            row("bio", "", "bob"),
        ];
        let depths: Vec<usize> = rows.iter().map(|each| depth(each, &rows)).collect();
        assert_eq!(depths, [0, 1, 1, 2, 3]);
    }
}
