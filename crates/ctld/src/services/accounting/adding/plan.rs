//! What a request to add accounts or users would do: pure, from one look at the database.
//!
//! A plan holds only rows that are not there yet. What cannot be added beside something that can is left out; a request of which
//! nothing is left is a [`Refusal`] in sacctmgr's own words. Names are lower case. Source: `sacctmgr(1)`.

use std::collections::{BTreeMap, HashSet};

use sluice_config::NAME_BYTES_MAX;
use sluice_model::accounting::{AccountRecord, AssociationRecord, ClusterRecord, UserRecord};
use sluice_proto::v1::{AddAccountsRequest, AddUsersRequest};
use tonic::Status;

/// Follows the lines about accounts that do not exist when nothing was added.
const NOTHING_ADDED: &str = "Nothing added.\nMake sure the accounts requested here have been added to the system/cluster. \
                             (sacctmgr add account...)";

/// How much of a name that is too long is told.
const NAME_CHARS_SHOWN: usize = 40;

/// What there is before something is added.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) clusters: Vec<ClusterRecord>,
    pub(super) accounts: Vec<AccountRecord>,
    pub(super) users: Vec<UserRecord>,
    pub(super) rows: Vec<AssociationRecord>,
}

impl Known {
    /// Clusters named, all of which must exist; or all there are.
    fn targets(&self, names: &[String]) -> Result<Vec<String>, Refusal> {
        let names = lower(names);
        for name in &names {
            if !self.clusters.iter().any(|cluster| cluster.name == *name) {
                let text = format!(
                    " This cluster '{name}' doesn't exist.\n        Contact your admin to add it to accounting."
                );
                return Err(Refusal::Missing(text));
            }
        }
        let known = self.clusters.iter().map(|cluster| cluster.name.clone());
        let targets: Vec<String> = known
            .filter(|name| names.is_empty() || names.contains(name))
            .collect();
        if targets.is_empty() {
            return Err(Refusal::Missing(
                " No clusters are registered: add one first (sacctmgr add cluster)".to_owned(),
            ));
        }
        Ok(targets)
    }

    fn account(&self, name: &str) -> Option<&AccountRecord> {
        self.accounts.iter().find(|account| account.name == name)
    }

    fn user(&self, name: &str) -> Option<&UserRecord> {
        self.users.iter().find(|user| user.name == name)
    }

    fn row(
        &self,
        cluster: &str,
        account: &str,
        user: &str,
        partition: &str,
    ) -> Option<&AssociationRecord> {
        self.rows.iter().find(|row| {
            row.cluster == cluster
                && row.account == account
                && row.user == user
                && row.partition == partition
        })
    }
}

/// Why nothing is added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::services::accounting) enum Refusal {
    /// Everything is there already.
    Exists(String),
    /// Something it needs is not there.
    Missing(String),
    /// The request makes no sense.
    Bad(String),
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Exists(text) => Status::already_exists(text),
            Refusal::Missing(text) => Status::not_found(text),
            Refusal::Bad(text) => Status::invalid_argument(text),
        }
    }
}

/// Names in lower case, each once, in order.
pub(super) fn lower(names: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    names
        .iter()
        .map(|name| name.trim().to_lowercase())
        .filter(|name| seen.insert(name.clone()))
        .collect()
}

/// Names of things to add: at least one, and none that a list or a table could not hold.
pub(in crate::services::accounting) fn new_names(
    kind: &str,
    names: &[String],
) -> Result<Vec<String>, Refusal> {
    let names = lower(names);
    if names.is_empty() {
        return Err(Refusal::Bad(format!(" Need name of {kind} to add.")));
    }
    check_lengths(kind, &names)?;
    let unusable =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, ',' | '|' | '=' | '\'' | '"');
    match names
        .iter()
        .find(|name| name.is_empty() || name.contains(unusable))
    {
        Some(name) => Err(Refusal::Bad(format!(
            " Bad {kind} name '{name}': spaces, quotes and the characters , | = are not allowed"
        ))),
        None => Ok(names),
    }
}

/// Names become part of lists, lines and tables: none is longer than those of partitions and nodes.
pub(in crate::services::accounting) fn check_lengths(
    kind: &str,
    names: &[String],
) -> Result<(), Refusal> {
    let Some(name) = names.iter().find(|name| name.len() > NAME_BYTES_MAX) else {
        return Ok(());
    };
    let shown: String = name.chars().take(NAME_CHARS_SHOWN).collect();
    Err(Refusal::Bad(format!(
        " Bad {kind} name '{shown}...': it has {} bytes, the limit is {NAME_BYTES_MAX}; choose a shorter name",
        name.len()
    )))
}

/// Accounts to add.
#[derive(Debug, Default)]
pub(super) struct AccountsPlan {
    pub(super) parent: String,
    /// Names in the order given.
    pub(super) order: Vec<String>,
    /// New rows by account.
    pub(super) places: BTreeMap<String, Vec<AssociationRecord>>,
    pub(super) records: BTreeMap<String, AccountRecord>,
    pub(super) added: Vec<String>,
    pub(super) existing: Vec<String>,
}

pub(super) fn plan_accounts(
    known: &Known,
    request: &AddAccountsRequest,
    template: &AssociationRecord,
) -> Result<AccountsPlan, Refusal> {
    let names = new_names("account", &request.names)?;
    let clusters = known.targets(&request.clusters)?;
    let parent = match request.parent.trim().to_lowercase() {
        name if name.is_empty() => "root".to_owned(),
        name => name,
    };
    let mut plan = AccountsPlan {
        parent: parent.clone(),
        order: names.clone(),
        ..AccountsPlan::default()
    };
    let mut present = Vec::new();
    for name in &names {
        for cluster in &clusters {
            if known.row(cluster, name, "", "").is_some() {
                present.push(format!(
                    " Already existing account {name} on cluster {cluster}"
                ));
                continue;
            }
            if known.row(cluster, &parent, "", "").is_none() {
                return Err(Refusal::Missing(format!(
                    " Parent account '{parent}' doesn't exist on cluster {cluster}\n        Contact your admin to add this account."
                )));
            }
            plan.places
                .entry(name.clone())
                .or_default()
                .push(AssociationRecord {
                    cluster: cluster.clone(),
                    account: name.clone(),
                    parent_account: parent.clone(),
                    ..template.clone()
                });
        }
        let list = if known.account(name).is_some() {
            &mut plan.existing
        } else {
            &mut plan.added
        };
        list.push(name.clone());
        let or = |given: &str, default: &str| {
            if given.is_empty() {
                default.to_owned()
            } else {
                given.to_owned()
            }
        };
        let above = known
            .account(&parent)
            .filter(|account| account.name != "root");
        let organization = above.map_or(name.as_str(), |account| account.organization.as_str());
        let record = AccountRecord {
            name: name.clone(),
            description: or(&request.description, name),
            organization: or(&request.organization, organization),
            ..AccountRecord::default()
        };
        plan.records.insert(name.clone(), record);
    }
    if plan.places.is_empty() {
        return Err(Refusal::Exists(present.join("\n")));
    }
    Ok(plan)
}

/// What is added for one user on one cluster.
#[derive(Debug)]
pub(super) struct Addition {
    pub(super) user: String,
    pub(super) cluster: String,
    /// Those that exist there.
    pub(super) accounts: Vec<String>,
    pub(super) default_account: Option<String>,
    pub(super) rows: Vec<AssociationRecord>,
}

/// Users to add.
#[derive(Debug, Default)]
pub(super) struct UsersPlan {
    pub(super) additions: Vec<Addition>,
    pub(super) added: Vec<String>,
    pub(super) existing: Vec<String>,
}

pub(super) fn plan_users(
    known: &Known,
    request: &AddUsersRequest,
    template: &AssociationRecord,
) -> Result<UsersPlan, Refusal> {
    let names = new_names("user", &request.names)?;
    check_lengths("partition", &request.partitions)?;
    check_lengths("wckey", &request.wckeys)?;
    check_lengths("wckey", std::slice::from_ref(&request.default_wckey))?;
    let clusters = known.targets(&request.clusters)?;
    let wanted =
        Some(request.default_account.trim().to_lowercase()).filter(|name| !name.is_empty());
    let mut plan = UsersPlan::default();
    let mut missing: Vec<(String, String)> = Vec::new();
    let mut present = Vec::new();
    let mut default_found = false;
    for name in &names {
        let user = known.user(name);
        for cluster in &clusters {
            let asked = accounts_for(known, request, wanted.as_deref(), name, cluster);
            let (there, not_there): (Vec<String>, Vec<String>) = asked
                .into_iter()
                .partition(|account| known.row(cluster, account, "", "").is_some());
            let default_is_missing = wanted
                .as_ref()
                .is_some_and(|wanted| not_there.contains(wanted));
            default_found |= !default_is_missing;
            for account in not_there {
                let pair = (account, cluster.clone());
                if !missing.contains(&pair) {
                    missing.push(pair);
                }
            }
            let default_account = wanted.clone().filter(|_| !default_is_missing);
            let rows = new_rows(
                known,
                request,
                template,
                name,
                cluster,
                &there,
                default_account.as_deref(),
            );
            if rows.is_empty() {
                let lines = there.iter().map(|account| {
                    format!(
                        " Already existing user {name} in account {account} on cluster {cluster}"
                    )
                });
                present.extend(lines);
                continue;
            }
            let (user, cluster) = (name.clone(), cluster.clone());
            plan.additions.push(Addition {
                user,
                cluster,
                accounts: there,
                default_account,
                rows,
            });
        }
        let list = if user.is_some() {
            &mut plan.existing
        } else {
            &mut plan.added
        };
        list.push(name.clone());
    }
    // A default account that was asked for by name is not dropped in silence, as one of several accounts may be.
    if plan.additions.is_empty() || !default_found {
        if missing.is_empty() && present.is_empty() {
            return Err(Refusal::Bad(format!(
                " Need an account to add user(s) {} to: give account=NAME",
                names.join(",")
            )));
        }
        if missing.is_empty() {
            return Err(Refusal::Exists(present.join("\n")));
        }
        let skipped = missing.iter().map(|(account, cluster)| {
            format!("No account {account} on cluster {cluster}, skipping.")
        });
        let lines: Vec<String> = skipped.chain([NOTHING_ADDED.to_owned()]).collect();
        return Err(Refusal::Missing(lines.join("\n")));
    }
    // A user without any new row is not made.
    plan.added
        .retain(|name| plan.additions.iter().any(|addition| addition.user == *name));
    Ok(plan)
}

/// The accounts meant for one user on one cluster: those named, with the default account; else the default the user has there.
fn accounts_for(
    known: &Known,
    request: &AddUsersRequest,
    wanted: Option<&str>,
    user: &str,
    cluster: &str,
) -> Vec<String> {
    let mut accounts = lower(&request.accounts);
    if accounts.is_empty() && wanted.is_none() {
        let defaults = known
            .user(user)
            .map(|user| user.default_accounts.as_slice())
            .unwrap_or_default();
        accounts.extend(
            defaults
                .iter()
                .filter(|(on, _)| on == cluster)
                .map(|(_, account)| account.clone()),
        );
    }
    if let Some(wanted) = wanted {
        let is_in_it = known
            .rows
            .iter()
            .any(|row| row.cluster == cluster && row.account == wanted && row.user == user);
        if !is_in_it && !accounts.iter().any(|account| account == wanted) {
            accounts.push(wanted.to_owned());
        }
    }
    accounts
}

/// Rows that are missing for a user in these accounts. The first becomes the default of a user who has none.
fn new_rows(
    known: &Known,
    request: &AddUsersRequest,
    template: &AssociationRecord,
    user: &str,
    cluster: &str,
    accounts: &[String],
    default_account: Option<&str>,
) -> Vec<AssociationRecord> {
    let any = [String::new()];
    let partitions = if request.partitions.is_empty() {
        &any[..]
    } else {
        &request.partitions[..]
    };
    let mut rows = Vec::new();
    for account in accounts {
        for partition in partitions {
            if known.row(cluster, account, user, partition).is_none() {
                rows.push(AssociationRecord {
                    cluster: cluster.to_owned(),
                    account: account.clone(),
                    user: user.to_owned(),
                    partition: partition.clone(),
                    ..template.clone()
                });
            }
        }
    }
    let has_default = known
        .rows
        .iter()
        .any(|row| row.cluster == cluster && row.user == user && row.is_default);
    let first = rows
        .first()
        .filter(|_| !has_default)
        .map(|row| row.account.clone());
    let default = default_account.map(str::to_owned).or(first);
    for row in &mut rows {
        row.is_default = default.as_deref() == Some(row.account.as_str());
    }
    rows
}
