//! Adding clusters, accounts and users: what would be added is worked out first, and is either told (`dry_run`) or done.
//!
//! The plan is pure and made from one look at the database; the store checks again when it writes, so that two administrators at
//! the same time cannot add the same row twice. Each account and each user on a cluster is one transaction.
//! Invariant: a request of which nothing can be added changes nothing and is refused with sacctmgr's own words; of one that can be
//! done in part, the rest is skipped. Who may ask is decided before.
//! Names of clusters, accounts and users are lower case, as sacctmgr makes them; a user need not exist on this host.
//! Source: `sacctmgr(1)`.

mod plan;

use sluice_accounting::{AccountingStore, Assignment, Change, NewUser, Selection};
use sluice_model::accounting::{AdminLevel, AssociationLimits, AssociationRecord};
use sluice_model::tres::Tres;
use sluice_proto::Wire;
use sluice_proto::v1::{
    self, AddAccountsRequest, AddClusterRequest, AddReply, AddUsersRequest, AssociationSettings,
};
use tonic::Status;

use super::store_status;
use crate::auth::Identity;
use crate::core::now;

use self::plan::{Known, Refusal, lower, plan_accounts, plan_users};
pub(super) use self::plan::{check_lengths, new_names};

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
}

/// The row that new associations are made after.
fn template(
    settings: Option<AssociationSettings>,
    changes: Vec<v1::Assignment>,
) -> Result<AssociationRecord, Status> {
    let mut row = from_settings(settings)?;
    for change in super::changing::assignments(changes) {
        sluice_accounting::edit_association(&mut row, &change).map_err(Status::invalid_argument)?;
    }
    Ok(row)
}

fn from_settings(settings: Option<AssociationSettings>) -> Result<AssociationRecord, Status> {
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

pub(super) fn change(identity: &Identity) -> Change {
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
    let classification = request.classification;
    let has_settings = request.settings.is_some() || !request.assignments.is_empty();
    let template = template(request.settings, request.assignments)?;
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
    if !classification.is_empty() {
        let given = [Assignment::set("classification", &classification)];
        store
            .modify_clusters(&change, &Selection::names(&[name.as_str()]), &given, true)
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
        wckeys: Vec::new(),
    }
}

/// Adds accounts.
pub(super) async fn add_accounts(
    store: &AccountingStore,
    identity: &Identity,
    mut request: AddAccountsRequest,
) -> Result<AddReply, Status> {
    let template = template(
        request.settings.take(),
        std::mem::take(&mut request.assignments),
    )?;
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

/// Adds users.
pub(super) async fn add_users(
    store: &AccountingStore,
    identity: &Identity,
    mut request: AddUsersRequest,
) -> Result<AddReply, Status> {
    let template = template(
        request.settings.take(),
        std::mem::take(&mut request.assignments),
    )?;
    check_qos(store, &template).await?;
    let admin_level = request.admin_level.map(AdminLevel::from_wire).transpose()?;
    let known = Known::read(store).await?;
    let change = change(identity);
    let plan = match plan_users(&known, &request, &template) {
        // A user who is there can be given keys without any new row.
        Err(Refusal::Exists(_)) if !request.wckeys.is_empty() => plan::UsersPlan {
            existing: lower(&request.names),
            ..plan::UsersPlan::default()
        },
        plan => plan?,
    };
    if request.dry_run {
        let rows = plan
            .additions
            .into_iter()
            .flat_map(|addition| addition.rows)
            .collect();
        let mut told = reply(plan.added, plan.existing, rows);
        told.wckeys = add_wckeys(store, &change, &request, false).await?;
        return Ok(told);
    }
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
    let mut done = reply(plan.added, plan.existing, rows);
    done.wckeys = add_wckeys(store, &change, &request, true).await?;
    Ok(done)
}

/// Workload keys of the users in a request.
async fn add_wckeys(
    store: &AccountingStore,
    change: &Change,
    request: &AddUsersRequest,
    commit: bool,
) -> Result<Vec<v1::WckeyRecord>, Status> {
    let mut keys = lower(&request.wckeys);
    let default = Some(request.default_wckey.to_lowercase()).filter(|name| !name.is_empty());
    if let Some(name) = &default
        && !keys.contains(name)
    {
        keys.push(name.clone());
    }
    let mut added = Vec::new();
    if keys.is_empty() {
        return Ok(added);
    }
    let on = lower(&request.clusters);
    for user in lower(&request.names) {
        let new = store
            .add_wckeys(change, &user, &keys, &on, default.as_deref(), commit)
            .await
            .map_err(|error| store_status(&error))?;
        added.extend(new.into_iter().map(v1::WckeyRecord::from));
    }
    Ok(added)
}

#[cfg(test)]
mod tests;
