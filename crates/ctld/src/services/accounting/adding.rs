//! Adding clusters, accounts and users: what would be added is worked out first, and is either told (`dry_run`) or done.
//!
//! The plan is pure and made from one look at the database; the store checks again when it writes, so that two administrators at
//! the same time cannot add the same row twice. Each account and each user on a cluster is one transaction.
//! Invariant: a request of which nothing can be added changes nothing and is refused with sacctmgr's own words; of one that can be
//! done in part, the rest is skipped. Who may ask is decided before.
//! Names of clusters, accounts and users are lower case, as sacctmgr makes them; a user need not exist on this host.
//! Source: `sacctmgr(1)`.

mod plan;

use sluice_accounting::{AccountingStore, Change, NewUser};
use sluice_model::accounting::{AdminLevel, AssociationLimits, AssociationRecord};
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

use plan::{Known, Refusal, lower, new_names, plan_accounts, plan_users};

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

#[cfg(test)]
mod tests;
