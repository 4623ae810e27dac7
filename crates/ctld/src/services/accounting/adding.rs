//! Adding clusters, accounts and users: what would be added is worked out first, and is either told (`dry_run`) or done.
//!
//! The plan is pure and made from one look at the database; the store checks again when it writes, so that two administrators at
//! the same time cannot add the same row twice. Each account and each user on a cluster is one transaction.
//! Invariant: a request of which nothing can be added changes nothing and is refused with sacctmgr's own words; of one that can be
//! done in part, the rest is skipped. Who may ask is decided before.
//! Names of clusters, accounts and users are lower case, as sacctmgr makes them; a user need not exist on this host.
//! Source: `sacctmgr(1)`.

use std::collections::{BTreeMap, HashSet};

use sluice_accounting::{AccountingStore, Change, NewUser};
use sluice_model::accounting::{
    AccountRecord, AdminLevel, AssociationLimits, AssociationRecord, ClusterRecord, UserRecord,
};
use sluice_model::error_code::ErrorCode;
use sluice_model::tres::Tres;
use sluice_proto::v1::{
    AddAccountsRequest, AddClusterRequest, AddReply, AddUsersRequest, AssociationSettings,
};
use sluice_proto::{Wire, status_from};
use tonic::Status;

use super::store_status;
use crate::auth::Identity;
use crate::core::now;

/// Follows the lines about accounts that do not exist when nothing was added.
const NOTHING_ADDED: &str = "Nothing added.\nMake sure the accounts requested here have been added to the system/cluster. \
                             (sacctmgr add account...)";

/// What there is before something is added.
#[derive(Debug, Default)]
struct Known {
    clusters: Vec<ClusterRecord>,
    accounts: Vec<AccountRecord>,
    users: Vec<UserRecord>,
    rows: Vec<AssociationRecord>,
}

impl Known {
    async fn read(store: &AccountingStore) -> Result<Self, Status> {
        let read = async {
            Ok(Self {
                clusters: store.clusters().await?,
                accounts: store.accounts().await?,
                users: store.users().await?,
                rows: store.associations(None).await?,
            })
        };
        read.await.map_err(|error| store_status(&error))
    }

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
enum Refusal {
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
fn lower(names: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    names
        .iter()
        .map(|name| name.trim().to_lowercase())
        .filter(|name| seen.insert(name.clone()))
        .collect()
}

/// Names of things to add: at least one, and none that a list or a table could not hold.
fn new_names(kind: &str, names: &[String]) -> Result<Vec<String>, Refusal> {
    let names = lower(names);
    if names.is_empty() {
        return Err(Refusal::Bad(format!(" Need name of {kind} to add.")));
    }
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

/// The row that new associations are made after.
fn template(settings: Option<AssociationSettings>) -> Result<AssociationRecord, Status> {
    let mut row = AssociationRecord::new("", "", "");
    let Some(settings) = settings else {
        return Ok(row);
    };
    row.shares = if settings.shares_parent {
        None
    } else {
        Some(settings.shares.unwrap_or(1))
    };
    row.priority = settings.priority;
    row.qos = settings.qos.map(|list| {
        let mut names = lower(&list.items);
        names.sort_unstable();
        names
    });
    row.default_qos = settings.default_qos.to_lowercase();
    row.limits = settings
        .limits
        .map(AssociationLimits::try_from)
        .transpose()?
        .unwrap_or_default();
    row.comment = settings.comment;
    for text in [
        &row.limits.grp_tres,
        &row.limits.grp_tres_mins,
        &row.limits.grp_tres_run_mins,
        &row.limits.max_tres_per_job,
        &row.limits.max_tres_per_node,
        &row.limits.max_tres_mins_per_job,
        &row.limits.max_tres_run_mins,
    ] {
        text.parse::<Tres>()
            .map_err(|error| Status::invalid_argument(format!(" Bad TRES '{text}': {error}")))?;
    }
    Ok(row)
}

/// A QOS that does not exist would shut everybody below the row out.
async fn check_qos(store: &AccountingStore, template: &AssociationRecord) -> Result<(), Status> {
    let mut named: Vec<&String> = template.qos.iter().flatten().collect();
    if !template.default_qos.is_empty() {
        named.push(&template.default_qos);
    }
    if named.is_empty() {
        return Ok(());
    }
    let known = store.qos().await.map_err(|error| store_status(&error))?;
    match named
        .into_iter()
        .find(|name| known.iter().all(|qos| qos.name != **name))
    {
        None => Ok(()),
        Some(name) => {
            let valid: Vec<&str> = known.iter().map(|qos| qos.name.as_str()).collect();
            let text = format!(
                " You gave a bad qos '{name}'.  Valid QOS's are\n\t{}",
                valid.join("\n\t")
            );
            Err(Status::not_found(text))
        }
    }
}

fn change(identity: &Identity) -> Change {
    Change {
        actor: identity.user_name.clone(),
        now: now(),
    }
}

/// Adds a cluster with its root account and user.
pub(super) async fn add_cluster(
    store: &AccountingStore,
    identity: &Identity,
    request: AddClusterRequest,
) -> Result<AddReply, Status> {
    let names = new_names("cluster", &[request.name])?;
    let name = &names[0];
    if !request.classification.is_empty() {
        return Err(status_from(
            ErrorCode::NotSupported,
            " Classification cannot be set; leave it out",
        ));
    }
    let has_settings = request.settings.is_some();
    let template = template(request.settings)?;
    check_qos(store, &template).await?;
    let known = Known::read(store).await?;
    if known.clusters.iter().any(|cluster| cluster.name == *name) {
        return Err(
            Refusal::Exists(format!(" This cluster {name} already exists.  Not adding.")).into(),
        );
    }
    if request.dry_run {
        let user = AssociationRecord {
            is_default: true,
            ..AssociationRecord::new(name, "root", "root")
        };
        let root = AssociationRecord {
            cluster: name.clone(),
            account: "root".to_owned(),
            ..template
        };
        return Ok(reply(vec![name.clone()], Vec::new(), vec![root, user]));
    }
    let change = change(identity);
    store
        .ensure_cluster(&change, name)
        .await
        .map_err(|error| store_status(&error))?;
    if has_settings {
        let qos = template
            .qos
            .clone()
            .or_else(|| Some(vec!["normal".to_owned()]));
        let root = AssociationRecord {
            cluster: name.clone(),
            account: "root".to_owned(),
            qos,
            ..template
        };
        store
            .modify_association(&change, &root)
            .await
            .map_err(|error| store_status(&error))?;
    }
    let rows = store
        .associations(Some(name))
        .await
        .map_err(|error| store_status(&error))?;
    tracing::info!(
        cluster = name,
        by = identity.user_name,
        "cluster added to accounting"
    );
    Ok(reply(vec![name.clone()], Vec::new(), rows))
}

fn reply(added: Vec<String>, existing: Vec<String>, rows: Vec<AssociationRecord>) -> AddReply {
    AddReply {
        added,
        existing,
        associations: rows.into_wire(),
    }
}

/// Adds accounts.
pub(super) async fn add_accounts(
    store: &AccountingStore,
    identity: &Identity,
    mut request: AddAccountsRequest,
) -> Result<AddReply, Status> {
    let template = template(request.settings.take())?;
    check_qos(store, &template).await?;
    let known = Known::read(store).await?;
    let plan = plan_accounts(&known, &request, &template)?;
    let mut rows = Vec::new();
    if request.dry_run {
        rows.extend(plan.places.into_values().flatten());
        return Ok(reply(plan.added, plan.existing, rows));
    }
    let change = change(identity);
    for name in &plan.order {
        let Some(places) = plan.places.get(name) else {
            continue;
        };
        let on: Vec<String> = places.iter().map(|row| row.cluster.clone()).collect();
        let account = plan.records.get(name).cloned().unwrap_or_default();
        let new = store
            .add_account(&change, &account, &plan.parent, &on, &template)
            .await
            .map_err(|error| store_status(&error))?;
        tracing::info!(
            account = name,
            by = identity.user_name,
            "account added to accounting"
        );
        rows.extend(new);
    }
    Ok(reply(plan.added, plan.existing, rows))
}

/// Accounts to add.
#[derive(Debug, Default)]
struct AccountsPlan {
    parent: String,
    /// Names in the order given.
    order: Vec<String>,
    /// New rows by account.
    places: BTreeMap<String, Vec<AssociationRecord>>,
    records: BTreeMap<String, AccountRecord>,
    added: Vec<String>,
    existing: Vec<String>,
}

fn plan_accounts(
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

/// Adds users.
pub(super) async fn add_users(
    store: &AccountingStore,
    identity: &Identity,
    mut request: AddUsersRequest,
) -> Result<AddReply, Status> {
    let template = template(request.settings.take())?;
    check_qos(store, &template).await?;
    let admin_level = request.admin_level.map(AdminLevel::from_wire).transpose()?;
    let known = Known::read(store).await?;
    let plan = plan_users(&known, &request, &template)?;
    if request.dry_run {
        let rows = plan
            .additions
            .into_iter()
            .flat_map(|addition| addition.rows)
            .collect();
        return Ok(reply(plan.added, plan.existing, rows));
    }
    let change = change(identity);
    let mut rows = Vec::new();
    for addition in plan.additions {
        let user = NewUser {
            name: addition.user,
            admin_level,
            accounts: addition.accounts,
            clusters: vec![addition.cluster],
            partitions: request.partitions.clone(),
            default_account: addition.default_account,
            template: template.clone(),
        };
        let added = store
            .add_user(&change, &user)
            .await
            .map_err(|error| store_status(&error))?;
        tracing::info!(
            user = user.name,
            by = identity.user_name,
            "user added to accounting"
        );
        rows.extend(added.associations);
    }
    Ok(reply(plan.added, plan.existing, rows))
}

/// What is added for one user on one cluster.
#[derive(Debug)]
struct Addition {
    user: String,
    cluster: String,
    /// Those that exist there.
    accounts: Vec<String>,
    default_account: Option<String>,
    rows: Vec<AssociationRecord>,
}

/// Users to add.
#[derive(Debug, Default)]
struct UsersPlan {
    additions: Vec<Addition>,
    added: Vec<String>,
    existing: Vec<String>,
}

fn plan_users(
    known: &Known,
    request: &AddUsersRequest,
    template: &AssociationRecord,
) -> Result<UsersPlan, Refusal> {
    let names = new_names("user", &request.names)?;
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

#[cfg(test)]
mod tests;
