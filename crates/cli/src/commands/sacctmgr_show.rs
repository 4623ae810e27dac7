//! `sacctmgr show …`: clusters, accounts, users, associations and QOS. The other entities are in [`super::sacctmgr_list`].
//!
//! Columns are in [`crate::format::sacctmgr`]. Source: sacctmgr(1).

use sluice_model::accounting::{
    AccountRecord, AssociationRecord, ClusterRecord, QosRecord, UserRecord,
};
use sluice_proto::v1;

use super::sacctmgr::{PATIENCE, Session, no_entity};
use super::sacctmgr_change::{HINT, ROW_KEYS};
use super::sacctmgr_words::{Words, split};
use super::scontrol::is_keyword;
use super::sshare::table_style;
use super::{structured, structured_accounting};
use crate::client::{Client, ClientError};
use crate::format::sacct::table_text;
use crate::format::sacctmgr::{
    ACCOUNT_ASSOC_COLUMNS, ACCOUNT_COLUMNS, ASSOCIATION_COLUMNS, CLUSTER_COLUMNS, Entry,
    QOS_COLUMNS, USER_ASSOC_COLUMNS, USER_COLUMNS, columns,
};
use crate::output;
use crate::submit::options::Options;

/// Width of the account column in a tree.
const TREE_WIDTH: i32 = -20;

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
    let names: Vec<(String, i32)> = columns
        .iter()
        .map(|column| (column.field.header.to_string(), column.width))
        .collect();
    let rows = entries.iter().map(|entry| {
        columns
            .iter()
            .map(|column| (column.field.value)(entry))
            .collect()
    });
    let with_header = !options.has("noheader");
    output::text_out(&table_text(
        &names,
        rows,
        &table_style(options),
        with_header,
    ));
    0
}

pub(super) async fn show(session: &Session, words: &[String]) -> Result<i32, ClientError> {
    let options = &session.options;
    let Some((entity, rest)) = words.split_first() else {
        return Ok(no_entity("list", ENTITIES));
    };
    let words = Words::new(rest);
    let lower = entity.to_ascii_lowercase();
    let unknown = |hint| words.refuse_unknown(ROW_KEYS, hint);
    match lower.as_str() {
        word if is_keyword(word, "accounts", 2) || is_keyword(word, "accts", 4) => {
            if unknown(HINT) {
                Ok(1)
            } else {
                show_accounts(options, &words).await
            }
        }
        word if is_keyword(word, "associations", 2) => {
            if let Some(name) = words.names.first() {
                output::error_line(format!(
                    "sacctmgr: error: Invalid value for AssocId ({name})"
                ));
                return Ok(1);
            }
            if unknown("") {
                Ok(1)
            } else {
                show_associations(options, &words).await
            }
        }
        word if is_keyword(word, "clusters", 2) => show_clusters(options, &words).await,
        word if is_keyword(word, "qos", 1) => {
            let keys = [
                ("names", 1),
                ("descriptions", 1),
                ("ids", 1),
                ("preemptmode", 8),
            ];
            if words.refuse_unknown(&keys, " Use keyword 'set' to modify SLURM_PRINT_VALUE") {
                return Ok(1);
            }
            show_qos(options, &words).await
        }
        word if is_keyword(word, "users", 1) => {
            if unknown(HINT) {
                Ok(1)
            } else {
                show_users(options, &words).await
            }
        }
        word => match super::sacctmgr_list::show(session, word, &words).await {
            Some(result) => result,
            None => Ok(no_entity("list", ENTITIES)),
        },
    }
}

/// Entities that are shown.
const ENTITIES: &str = "\"Account\", \"Association\", \"Cluster\", \"Configuration\",\n\"Event\", \"Federation\", \
                        \"Problem\", \"QOS\", \"Resource\", \"Reservation\",\n\"RunAwayJobs\", \"Stats\", \"Transaction\", \
                        \"TRES\", \"User\", or \"WCKey\"";

/// Whether a list lets a text pass: empty, or one of its items begins it, in any case.
fn fits(list: &[String], text: &str) -> bool {
    list.is_empty()
        || list.iter().any(|item| {
            text.get(..item.len())
                .is_some_and(|begin| begin.eq_ignore_ascii_case(item))
        })
}

/// Reads records out of wire messages.
pub(super) fn records<M, R>(messages: Vec<M>) -> Result<Vec<R>, ClientError>
where
    R: TryFrom<M>,
    ClientError: From<R::Error>,
{
    messages
        .into_iter()
        .map(|message| R::try_from(message).map_err(ClientError::from))
        .collect()
}

pub(super) async fn associations(
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
    let names = words.all_names(&[("names", 1), ("accounts", 2), ("accts", 4)]);
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
    let accounts: Vec<AccountRecord> = accounts
        .into_iter()
        .filter(|account| {
            fits(&words.list("descriptions", 3), &account.description)
                && fits(&words.list("organizations", 1), &account.organization)
        })
        .collect();
    let with_associations = options.has("associations") || words.has("withassoc");
    if structured::wanted(options) && !with_associations {
        return structured_accounting::accounts(&client, options, &accounts, &[]).await;
    }
    if !with_associations {
        let entries: Vec<Entry<'_>> = accounts
            .iter()
            .map(|account| Entry {
                account: Some(account),
                ..Entry::default()
            })
            .collect();
        let columns = if words.has("withcoordinators") {
            format!("{ACCOUNT_COLUMNS},Coordinators")
        } else {
            ACCOUNT_COLUMNS.to_string()
        };
        return Ok(print(options, words, &columns, false, &entries));
    }
    let request = v1::ListAssociationsRequest {
        accounts: names,
        clusters: words.list("clusters", 1),
        ..Default::default()
    };
    let rows = associations(&client, request).await?;
    if structured::wanted(options) {
        return structured_accounting::accounts(&client, options, &accounts, &rows).await;
    }
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
    let names = words.all_names(&[("names", 1), ("users", 1)]);
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
    let users: Vec<UserRecord> = users
        .into_iter()
        .filter(|user| {
            fits(&words.list("adminlevel", 2), user.admin_level.as_str())
                && (words.list("defaultaccount", 8).is_empty()
                    || user
                        .default_accounts
                        .iter()
                        .any(|(_, account)| fits(&words.list("defaultaccount", 8), account)))
        })
        .collect();
    let asks_wckey = words
        .value("format", 1)
        .is_some_and(|list| list.to_ascii_lowercase().contains("wckey"));
    let wckeys = if asks_wckey {
        let request = v1::ListWckeysRequest::default();
        client
            .accounting()
            .list_wckeys(request)
            .await?
            .into_inner()
            .wckeys
    } else {
        Vec::new()
    };
    let default_wckey = |user: &UserRecord| {
        let mut own = wckeys.iter().filter(|key| key.user == user.name);
        own.find(|key| key.is_default).map(|key| key.name.as_str())
    };
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
                "defaultwckey",
                "defwckey",
                "adminlevel",
                "admin",
                "coordinators",
                "name",
            ]
            .contains(&name.as_str())
        })
    });
    if structured::wanted(options) && !(options.has("associations") || words.has("withassoc")) {
        return structured_accounting::users(&client, options, &users, &[]).await;
    }
    if !(options.has("associations") || words.has("withassoc") || asks_association) {
        let entries: Vec<Entry<'_>> = users
            .iter()
            .map(|user| Entry {
                user: Some(user),
                default_wckey: default_wckey(user),
                ..Entry::default()
            })
            .collect();
        let columns = if words.has("withcoordinators") {
            format!("{USER_COLUMNS},Coordinators")
        } else {
            USER_COLUMNS.to_string()
        };
        return Ok(print(options, words, &columns, false, &entries));
    }
    let request = v1::ListAssociationsRequest {
        users: names,
        accounts: words.list("accounts", 1),
        clusters: words.list("clusters", 1),
        ..Default::default()
    };
    let rows = associations(&client, request).await?;
    if structured::wanted(options) {
        return structured_accounting::users(&client, options, &users, &rows).await;
    }
    let entries: Vec<Entry<'_>> = users
        .iter()
        .flat_map(|user| {
            rows.iter()
                .filter(|row| row.user == user.name)
                .map(|row| Entry {
                    user: Some(user),
                    association: Some(row),
                    default_wckey: default_wckey(user),
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
    let mut rows = associations(&client, request).await?;
    let (ids, qos, default_qos) = (
        words.list("ids", 1),
        words.list("qoslevel", 1),
        words.list("defaultqos", 8),
    );
    let parents = words.list("parents", 4);
    rows.retain(|row| {
        (ids.is_empty() || ids.contains(&row.id.to_string()))
            && (qos.is_empty() || row.qos.iter().flatten().any(|name| qos.contains(name)))
            && (default_qos.is_empty() || default_qos.contains(&row.default_qos))
            && (parents.is_empty() || parents.contains(&row.parent_account))
    });
    if structured::wanted(options) {
        return structured_accounting::associations(&client, options, &rows).await;
    }
    // The row above may not be among those that are shown.
    let asks_parent = words
        .value("format", 1)
        .is_some_and(|list| list.to_ascii_lowercase().contains("parentid"));
    let all = if asks_parent {
        associations(&client, v1::ListAssociationsRequest::default()).await?
    } else {
        Vec::new()
    };
    let tree = words.has("tree");
    let entries: Vec<Entry<'_>> = rows
        .iter()
        .map(|row| Entry {
            association: Some(row),
            depth: tree.then(|| depth(row, &rows)),
            parent_id: asks_parent.then(|| parent_id(row, &all)).flatten(),
            ..Entry::default()
        })
        .collect();
    let columns = if words.has("wolimits") {
        "Cluster,Account,User,Partition"
    } else {
        ASSOCIATION_COLUMNS
    };
    Ok(print(options, words, columns, tree, &entries))
}

/// Id of the row above, 0 for the root.
fn parent_id(row: &AssociationRecord, rows: &[AssociationRecord]) -> Option<u32> {
    let above = if row.user.is_empty() {
        &row.parent_account
    } else {
        &row.account
    };
    let parent = rows.iter().find(|other| {
        other.cluster == row.cluster && other.user.is_empty() && other.account == *above
    });
    if above.is_empty() {
        Some(0)
    } else {
        parent.map(|parent| parent.id)
    }
}

/// Accounts above a row; a user's row stands one deeper than its account's.
pub(super) fn depth(row: &AssociationRecord, rows: &[AssociationRecord]) -> usize {
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
    let names = words.all_names(&[("names", 1), ("clusters", 1)]);
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
    if structured::wanted(options) {
        return structured_accounting::clusters(&client, options, &clusters, &roots).await;
    }
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
    let columns = if words.has("wolimits") {
        "Cluster,ControlHost,ControlPort,RPC"
    } else {
        CLUSTER_COLUMNS
    };
    Ok(print(options, words, columns, false, &entries))
}

async fn show_qos(options: &Options, words: &Words) -> Result<i32, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let names = words.all_names(&[("names", 1)]);
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
    let (ids, descriptions) = (words.list("ids", 1), words.list("descriptions", 1));
    let qos: Vec<QosRecord> = qos
        .into_iter()
        .filter(|qos| {
            (ids.is_empty() || ids.contains(&qos.id.to_string()))
                && fits(&descriptions, &qos.description)
        })
        .collect();
    if structured::wanted(options) {
        return structured_accounting::qos(&client, options, &qos).await;
    }
    let entries: Vec<Entry<'_>> = qos
        .iter()
        .map(|qos| Entry {
            qos: Some(qos),
            ..Entry::default()
        })
        .collect();
    Ok(print(options, words, QOS_COLUMNS, false, &entries))
}
