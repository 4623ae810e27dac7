//! `sacctmgr modify …`, and which entities a command is about. Deleting is in [`super::sacctmgr_delete`].
//!
//! What a selection means and what would be done is told by the controller (dry run), asked for, and then done.
//! Source: sacctmgr(1) and its output.

use sluice_model::accounting::AssociationRecord;
use sluice_proto::v1::{self, AccountingEntity};

use super::sacctmgr::{PATIENCE, Session, no_entity};
use super::sacctmgr_add::{ACCOUNT_WIDTH, FEDERATIONS, association_lines, named};
use super::sacctmgr_resources::resource_assignments;
use super::sacctmgr_settings::{Of, lines};
use super::sacctmgr_show::records;
use super::sacctmgr_words::{Pair, Words, admin_level, assignments, plain};
use super::scontrol::is_keyword;
use crate::client::{Client, ClientError};
use crate::output;

/// Follows a wrong condition.
pub(super) const HINT: &str = " Use keyword 'set' to modify value";

/// Conditions that select rows of users and accounts.
pub(super) const ROW_KEYS: &[(&str, usize)] = &[
    ("accounts", 2),
    ("accts", 4),
    ("adminlevel", 2),
    ("clusters", 1),
    ("defaultaccount", 8),
    ("defaultacct", 10),
    ("defaultqos", 8),
    ("defaultwckey", 8),
    ("descriptions", 3),
    ("flags", 2),
    ("ids", 1),
    ("names", 1),
    ("organizations", 1),
    ("parents", 4),
    ("partitions", 3),
    ("qoslevel", 1),
    ("users", 1),
    ("wckeys", 1),
];

/// The selection that conditions make. `own` are the keys that name the entities themselves.
pub(super) fn selection(words: &Words, own: &[(&str, usize)]) -> Option<v1::EntitySelection> {
    let mut levels = Vec::new();
    for text in words.list("adminlevel", 2) {
        match admin_level(&text) {
            Ok(level) => levels.push(v1::AdminLevel::from(level) as i32),
            Err(text) => {
                output::error_line(text);
                return None;
            }
        }
    }
    let mut ids = Vec::new();
    for text in words.list("ids", 1) {
        match text.parse() {
            Ok(id) => ids.push(id),
            Err(_) => {
                output::error_line(format!("sacctmgr: error: Invalid value for ID ({text})"));
                return None;
            }
        }
    }
    let is_own = |key: &str| own.iter().any(|(name, _)| *name == key);
    let other = |key: &str, least: usize| {
        if is_own(key) {
            Vec::new()
        } else {
            words.list(key, least)
        }
    };
    let mut accounts = other("accounts", 2);
    accounts.extend(other("accts", 4));
    let mut default_accounts = words.list("defaultaccount", 8);
    default_accounts.extend(words.list("defaultacct", 10));
    Some(v1::EntitySelection {
        names: words.all_names(own),
        clusters: other("clusters", 1),
        accounts,
        partitions: words.list("partitions", 3),
        parents: words.list("parents", 4),
        qos: words.list("qoslevel", 1),
        default_accounts,
        default_qos: words.list("defaultqos", 8),
        admin_levels: levels,
        descriptions: words.list("descriptions", 3),
        organizations: words.list("organizations", 1),
        ids,
        servers: words.list("servers", 6),
        wckeys: words.list("wckeys", 1),
        users: other("users", 1),
    })
}

pub(super) fn entity_of(word: &str) -> Option<AccountingEntity> {
    let word = word.to_ascii_lowercase();
    match word.as_str() {
        word if is_keyword(word, "accounts", 1) || is_keyword(word, "accts", 4) => {
            Some(AccountingEntity::Account)
        }
        word if is_keyword(word, "users", 1) => Some(AccountingEntity::User),
        word if is_keyword(word, "clusters", 2) => Some(AccountingEntity::Cluster),
        word if is_keyword(word, "qos", 1) => Some(AccountingEntity::Qos),
        word if is_keyword(word, "resources", 1) => Some(AccountingEntity::Resource),
        word if is_keyword(word, "jobs", 1) => Some(AccountingEntity::Job),
        _ => None,
    }
}

/// Keys with the least length of each.
pub(super) type Keys = &'static [(&'static str, usize)];

/// Keys that name an entity, and conditions beside them.
pub(super) fn keys_of(entity: AccountingEntity) -> (Keys, Keys) {
    match entity {
        AccountingEntity::Account => (&[("names", 1), ("accounts", 2), ("accts", 4)], ROW_KEYS),
        AccountingEntity::User => (&[("names", 1), ("users", 1)], ROW_KEYS),
        AccountingEntity::Cluster => (
            &[("names", 1), ("clusters", 1)],
            &[("names", 1), ("clusters", 1), ("classification", 3)],
        ),
        AccountingEntity::Qos => (
            &[("names", 1)],
            &[("names", 1), ("descriptions", 3), ("ids", 1)],
        ),
        AccountingEntity::Resource => (
            &[("names", 1)],
            &[
                ("names", 1),
                ("clusters", 2),
                ("ids", 1),
                ("servers", 6),
                ("descriptions", 3),
            ],
        ),
        _ => (
            &[("jobids", 1)],
            &[("jobids", 1), ("clusters", 1), ("users", 1), ("wckeys", 1)],
        ),
    }
}

/// What may be set on an entity besides limits.
fn own_setting(
    entity: AccountingEntity,
    pair: &Pair,
) -> Option<Result<Option<v1::Assignment>, String>> {
    let key = pair.key.as_str();
    let text = |field: &str| Some(Ok(Some(plain(field, pair))));
    let lower = |field: &str| {
        Some(Ok(Some(v1::Assignment {
            value: pair.value.to_lowercase(),
            ..plain(field, pair)
        })))
    };
    match entity {
        AccountingEntity::User => match key {
            key if is_keyword(key, "adminlevel", 2) => {
                Some(admin_level(&pair.value).map(|level| {
                    Some(v1::Assignment {
                        value: level.as_str().to_lowercase(),
                        ..plain("admin_level", pair)
                    })
                }))
            }
            key if is_keyword(key, "defaultaccount", 8) || is_keyword(key, "defaultacct", 10) => {
                lower("default_account")
            }
            key if is_keyword(key, "defaultwckey", 8) => lower("default_wckey"),
            key if is_keyword(key, "newname", 1) => lower("new_name"),
            key if is_keyword(key, "rawusage", 7) => text("raw_usage"),
            _ => None,
        },
        AccountingEntity::Account => match key {
            key if is_keyword(key, "description", 1) => text("description"),
            key if is_keyword(key, "organization", 1) => text("organization"),
            key if is_keyword(key, "flags", 2) => text("flags"),
            key if is_keyword(key, "parent", 4) => lower("parent_account"),
            key if is_keyword(key, "rawusage", 7) => text("raw_usage"),
            _ => None,
        },
        AccountingEntity::Cluster => match key {
            key if is_keyword(key, "classification", 3) => text("classification"),
            key if is_keyword(key, "federation", 3)
                || is_keyword(key, "features", 3)
                || is_keyword(key, "fedstate", 4) =>
            {
                Some(Err(FEDERATIONS.to_string()))
            }
            _ => None,
        },
        AccountingEntity::Qos if is_keyword(key, "rawusage", 7) => text("raw_usage"),
        AccountingEntity::Job => Some(match key {
            key if is_keyword(key, "admincomment", 1) => Ok(Some(plain("admin_comment", pair))),
            key if is_keyword(key, "comment", 1) => Ok(Some(plain("comment", pair))),
            key if is_keyword(key, "extra", 1) => Ok(Some(plain("extra", pair))),
            key if is_keyword(key, "systemcomment", 1) => Ok(Some(plain("system_comment", pair))),
            key if is_keyword(key, "newwckey", 1) => Ok(Some(plain("wckey", pair))),
            key if is_keyword(key, "derivedexitcode", 1) || is_keyword(key, "derivedes", 9) => {
                match pair
                    .value
                    .split(':')
                    .next()
                    .unwrap_or_default()
                    .parse::<u32>()
                {
                    Ok(code) if code < 256 => Ok(Some(v1::Assignment {
                        value: (code << 8).to_string(),
                        ..plain("derived_exit_status", pair)
                    })),
                    _ => Err(format!(
                        "sacctmgr: error: Invalid value for DerivedExitCode ({})",
                        pair.value
                    )),
                }
            }
            _ => Err(format!(" {} of a job cannot be changed", pair.key)),
        }),
        _ => None,
    }
}

/// Accounts as sacctmgr shows them in lists of changes.
fn account_lines(rows: &[AssociationRecord]) -> Vec<String> {
    rows.iter()
        .map(|row| {
            let of = if row.parent_account.is_empty() {
                String::new()
            } else {
                format!(" of {}", row.parent_account)
            };
            format!("  C = {:<10} A = {}{of}", row.cluster, row.account)
        })
        .collect()
}

pub(super) async fn modify(session: &Session, words: &[String]) -> Result<i32, ClientError> {
    let Some((entity, words)) = session.entity_to_change("modify", MODIFY_ENTITIES, words) else {
        return Ok(1);
    };
    if is_keyword(&entity.to_ascii_lowercase(), "federations", 1) {
        output::error_line(FEDERATIONS);
        return Ok(1);
    }
    let Some(entity) = entity_of(entity) else {
        return Ok(no_entity("modify", MODIFY_ENTITIES));
    };
    let (own, conditions) = keys_of(entity);
    if words.refuse_unknown(conditions, HINT) {
        return Ok(1);
    }
    let given = match entity {
        AccountingEntity::Resource => resource_assignments(&words.set, &[], &words.loose),
        AccountingEntity::Qos => assignments(Of::Qos, &words.set, &words.loose, |pair| {
            own_setting(entity, pair)
        }),
        _ => assignments(Of::Association, &words.set, &words.loose, |pair| {
            own_setting(entity, pair)
        }),
    };
    let (Some(given), Some(selection)) = (given, selection(&words, own)) else {
        return Ok(1);
    };
    if given.is_empty() {
        output::error_line(" You didn't give me anything to set");
        return Ok(1);
    }
    let client = Client::connect(PATIENCE).await?;
    let request = v1::ModifyRequest {
        entity: entity as i32,
        selection: Some(selection),
        assignments: given.clone(),
        dry_run: true,
    };
    if entity == AccountingEntity::Cluster {
        let class = given.iter().find(|item| item.field == "classification");
        output::line(" Setting");
        if let Some(class) = class {
            output::line(format!("  {:<14} = {}", "Classification", class.value));
        }
        let limits = lines(Of::Association, &given);
        if !limits.is_empty() {
            output::line("  Default Limits:");
            output::lines(&limits);
        }
    }
    let told = match client
        .accounting()
        .modify(request.clone())
        .await
        .map_err(ClientError::from)
    {
        Ok(reply) => reply.into_inner(),
        Err(ClientError::Other(text)) if text.starts_with(" Can't modify") => {
            output::line(text);
            return Ok(1);
        }
        Err(error) => return Err(error),
    };
    let rows: Vec<AssociationRecord> = records(told.associations)?;
    let text = modified(entity, &given, &told.names, &rows);
    if told.names.is_empty() && rows.is_empty() {
        output::lines(&text);
        return Ok(1);
    }
    let request = v1::ModifyRequest {
        dry_run: false,
        ..request
    };
    session
        .carry_out(&text, client.accounting().modify(request))
        .await
}

/// Lines about what is changed.
fn modified(
    entity: AccountingEntity,
    given: &[v1::Assignment],
    names: &[String],
    rows: &[AssociationRecord],
) -> Vec<String> {
    let of_user = [
        "admin_level",
        "default_account",
        "default_wckey",
        "new_name",
    ];
    let sets_rows = given
        .iter()
        .any(|item| !of_user.contains(&item.field.as_str()));
    let mut text = Vec::new();
    if !names.is_empty() {
        let title = match entity {
            AccountingEntity::User => " Modified users...",
            AccountingEntity::Account => " Modified accounts...",
            AccountingEntity::Cluster => " Modified cluster...",
            AccountingEntity::Qos => " Modified qos...",
            AccountingEntity::Resource => " Modified server resource ...",
            _ => " Modified jobs...",
        };
        text.extend(named(title, names));
    }
    match entity {
        // The heading stands even when nothing follows.
        AccountingEntity::User if sets_rows => {
            text.push(" Modified user associations...".to_string());
            if rows.is_empty() {
                text.push("  Nothing modified".to_string());
            }
            text.extend(association_lines(rows, ACCOUNT_WIDTH));
        }
        AccountingEntity::Account if !rows.is_empty() => {
            text.push(" Modified account associations...".to_string());
            text.extend(account_lines(rows));
        }
        AccountingEntity::Cluster if !rows.is_empty() => {
            text.push(" Modified cluster defaults for associations...".to_string());
            text.extend(account_lines(rows));
        }
        _ => {}
    }
    if text.is_empty() {
        text.push(" Nothing modified".to_string());
    }
    text
}

const MODIFY_ENTITIES: &str =
    "\"Account\", \"Cluster\", \"Federation\", \"Job\", \"QOS\", \"Resource\" or \"User\"";

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Words {
        Words::new(
            &text
                .split_whitespace()
                .map(String::from)
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn conditions_become_a_selection() {
        let (own, _) = keys_of(AccountingEntity::User);
        let found = selection(
            &line("alice where account=bio cluster=oracle user=bob"),
            own,
        )
        .expect("a selection");
        assert_eq!(
            (found.names, found.accounts, found.clusters),
            (
                vec!["alice".to_string(), "bob".to_string()],
                vec!["bio".to_string()],
                vec!["oracle".to_string()],
            )
        );
        assert!(found.users.is_empty());
        let (own, _) = keys_of(AccountingEntity::Account);
        let found = selection(&line("where account=bio parent=science"), own).expect("a selection");
        assert_eq!(
            (found.names.as_slice(), found.parents.as_slice()),
            (&["bio".to_string()][..], &["science".to_string()][..])
        );
        assert!(found.accounts.is_empty());
    }

    /// Lines of a real sacctmgr.
    #[test]
    fn told() {
        let set = |field: &str| {
            vec![v1::Assignment {
                field: field.to_string(),
                ..Default::default()
            }]
        };
        assert_eq!(
            modified(AccountingEntity::User, &set("max_jobs"), &[], &[]),
            [" Modified user associations...", "  Nothing modified"]
        );
        assert_eq!(
            modified(
                AccountingEntity::User,
                &set("admin_level"),
                &["bob".to_string()],
                &[]
            ),
            [" Modified users...", "  bob"]
        );
        let bio = AssociationRecord {
            parent_account: "science".to_string(),
            ..AssociationRecord::new("oracle", "bio", "")
        };
        assert_eq!(
            modified(
                AccountingEntity::Account,
                &set("max_jobs"),
                &["bio".to_string()],
                &[bio]
            ),
            [
                " Modified accounts...",
                "  bio",
                " Modified account associations...",
                "  C = oracle     A = bio of science"
            ]
        );
        assert_eq!(
            modified(AccountingEntity::Qos, &set("priority"), &[], &[]),
            [" Nothing modified"]
        );
    }
}
