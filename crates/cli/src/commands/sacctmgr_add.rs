//! `sacctmgr add …`: clusters, accounts and users.
//!
//! A change is planned by the controller first (dry run), shown, asked for, and then made. Source: sacctmgr(1).

use std::io::BufRead as _;

use sluice_model::accounting::{AdminLevel, AssociationLimits, AssociationRecord};
use sluice_model::error_code::ErrorCode;
use sluice_proto::v1;

use super::sacctmgr::{PATIENCE, Words, split};
use super::sacctmgr_show::records;
use super::scontrol::is_keyword;
use crate::client::{Client, ClientError};
use crate::output;
use crate::submit::options::Options;

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

pub(super) fn unknown_key(words: &Words) -> Option<String> {
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

pub(super) async fn add(options: &Options, words: &[String]) -> Result<i32, ClientError> {
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
    let result = match entity.to_ascii_lowercase().as_str() {
        word if is_keyword(word, "accounts", 1) => {
            add_accounts(options, &words, settings, shown).await
        }
        word if is_keyword(word, "users", 1) => add_users(options, &words, settings, shown).await,
        word if is_keyword(word, "clusters", 2) => {
            add_clusters(options, &words, settings, shown).await
        }
        _ => Ok(bad_add()),
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

/// Texts about entities that exist already, or that lack their account.
fn is_no_change(text: &str) -> bool {
    ["Already existing", "No account", "This cluster"]
        .iter()
        .any(|begin| text.trim_start().starts_with(begin))
}

fn bad_add() -> i32 {
    output::error_line("No valid entity in add command");
    output::error_line("Input line must include \"Account\", \"Cluster\", or \"User\"");
    1
}

/// Rows as sacctmgr shows them: `  C = oracle     A = bio        U = alice    `.
pub(super) fn association_lines(rows: &[AssociationRecord]) -> Vec<String> {
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
