//! Changing and removing what accounting knows: who may, and what is told.
//!
//! Administrators may do everything; operators all but clusters and rights. Coordinators change users, accounts and limits in and
//! below the accounts they coordinate. Everybody may choose the own default account and workload key. Whether a coordinator's
//! change stays inside is decided on what it would do, worked out by the store before anything is written.
//! Invariant: a refused caller changes nothing, also when part of the request would have been allowed.
//! Source: `sacctmgr(1)`, AdminLevel and coordinators.

use std::collections::HashSet;

use sluice_accounting::{AccountingStore, Assignment, Changed, Operator, Selection};
use sluice_model::accounting::{AdminLevel, AssociationRecord, ResourceRecord};
use sluice_model::error_code::ErrorCode;
use sluice_proto::v1::{
    self, AccountingEntity, AddQosRequest, AddResourceRequest, AssignmentOperator, ChangeReply,
    DeleteRequest, EntitySelection, ModifyRequest, SetCoordinatorsRequest,
};
use sluice_proto::{Wire, status_from};
use tonic::Status;

use super::adding::{change, check_lengths, new_names};
use super::{DENIED, store_status};
use crate::auth::Identity;

/// What a caller may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rights {
    /// Nobody special; perhaps a coordinator.
    User,
    /// Everything but clusters and rights.
    Operator,
    /// Everything.
    Administrator,
}

fn denied() -> Status {
    status_from(ErrorCode::AccessDenied, DENIED)
}

fn names(list: Vec<String>) -> Vec<String> {
    list.into_iter()
        .map(|name| name.trim().to_lowercase())
        .collect()
}

fn selection(wire: Option<EntitySelection>) -> Result<Selection, Status> {
    let wire = wire.unwrap_or_default();
    let admin_levels = wire
        .admin_levels
        .into_iter()
        .map(AdminLevel::from_wire)
        .collect::<Result<_, _>>()
        .map_err(Status::from)?;
    Ok(Selection {
        names: names(wire.names),
        clusters: names(wire.clusters),
        accounts: names(wire.accounts),
        partitions: wire.partitions,
        parents: names(wire.parents),
        qos: names(wire.qos),
        default_accounts: names(wire.default_accounts),
        default_qos: names(wire.default_qos),
        admin_levels,
        descriptions: wire.descriptions,
        organizations: wire.organizations,
        ids: wire.ids,
        servers: wire.servers,
        wckeys: wire.wckeys,
        users: names(wire.users),
    })
}

pub(super) fn assignments(wire: Vec<v1::Assignment>) -> Vec<Assignment> {
    wire.into_iter()
        .map(|item| Assignment {
            operator: match AssignmentOperator::try_from(item.operator) {
                Ok(AssignmentOperator::Add) => Operator::Add,
                Ok(AssignmentOperator::Remove) => Operator::Remove,
                _ => Operator::Set,
            },
            field: item.field,
            value: item.value,
        })
        .collect()
}

fn reply(changed: Changed) -> ChangeReply {
    ChangeReply {
        names: changed.names,
        associations: changed.associations.into_wire(),
        open_jobs: changed
            .open_jobs
            .iter()
            .map(|job| {
                format!(
                    "  JobID = {:<10} C = {:<10} A = {:<10} U = {:<9} Q = {:<9}",
                    job.job_id, job.cluster, job.account, job.user, job.qos
                )
            })
            .collect(),
        orphans: changed.orphans,
        coordinators: changed
            .coordinators
            .into_iter()
            .map(|(user, account)| format!("{user} {account}"))
            .collect(),
    }
}

/// The accounts in which a user is coordinator, with all below them, as (cluster, account).
async fn coordinated(
    store: &AccountingStore,
    user: &str,
) -> Result<HashSet<(String, String)>, Status> {
    let accounts = store
        .accounts()
        .await
        .map_err(|error| store_status(&error))?;
    let own: HashSet<String> = accounts
        .into_iter()
        .filter(|account| account.coordinators.iter().any(|name| name == user))
        .map(|account| account.name)
        .collect();
    let mut found = HashSet::new();
    if own.is_empty() {
        return Ok(found);
    }
    // Tree order: parents come first.
    for row in store
        .associations(None)
        .await
        .map_err(|error| store_status(&error))?
    {
        let below = found.contains(&(row.cluster.clone(), row.parent_account.clone()));
        if row.user.is_empty() && (own.contains(&row.account) || below) {
            found.insert((row.cluster, row.account));
        }
    }
    Ok(found)
}

/// Whether a coordinator may touch these rows. Without rows there is nothing that a coordinator may do.
async fn check_rows(
    store: &AccountingStore,
    identity: &Identity,
    rows: &[AssociationRecord],
) -> Result<(), Status> {
    let inside = coordinated(store, &identity.user_name).await?;
    let all_inside = rows
        .iter()
        .all(|row| inside.contains(&(row.cluster.clone(), row.account.clone())));
    if rows.is_empty() || !all_inside {
        Err(denied())
    } else {
        Ok(())
    }
}

/// Whether somebody without rights may add users or accounts in these accounts of these clusters (empty = all).
pub(super) async fn check_coordinator(
    store: &AccountingStore,
    identity: &Identity,
    accounts: &[String],
    clusters: &[String],
    refusal: Status,
) -> Result<(), Status> {
    let inside = coordinated(store, &identity.user_name).await?;
    let known = store
        .clusters()
        .await
        .map_err(|error| store_status(&error))?;
    let on: Vec<String> = known
        .into_iter()
        .map(|cluster| cluster.name)
        .filter(|name| {
            clusters.is_empty() || clusters.iter().any(|item| item.eq_ignore_ascii_case(name))
        })
        .collect();
    let all_inside = accounts.iter().all(|account| {
        let account = account.to_lowercase();
        on.iter()
            .all(|cluster| inside.contains(&(cluster.clone(), account.clone())))
    });
    if accounts.is_empty() || inside.is_empty() || !all_inside {
        Err(refusal)
    } else {
        Ok(())
    }
}

/// What everybody may choose for themselves.
fn is_own_choice(
    entity: AccountingEntity,
    selection: &Selection,
    assignments: &[Assignment],
    identity: &Identity,
) -> bool {
    entity == AccountingEntity::User
        && selection.names == [identity.user_name.clone()]
        && assignments.iter().all(|assignment| {
            matches!(
                assignment.field.as_str(),
                "default_account" | "default_wckey"
            )
        })
}

/// Names of QOS that are given must exist.
async fn check_qos(store: &AccountingStore, assignments: &[Assignment]) -> Result<(), Status> {
    let given: Vec<&str> = assignments
        .iter()
        .filter(|assignment| matches!(assignment.field.as_str(), "qos" | "default_qos" | "preempt"))
        .flat_map(|assignment| assignment.value.split(','))
        .map(str::trim)
        .filter(|name| !name.is_empty() && *name != "-1")
        .collect();
    if given.is_empty() {
        return Ok(());
    }
    let known = store.qos().await.map_err(|error| store_status(&error))?;
    match given
        .into_iter()
        .find(|name| known.iter().all(|qos| qos.name != *name))
    {
        None => Ok(()),
        Some(name) => {
            let valid: Vec<&str> = known.iter().map(|qos| qos.name.as_str()).collect();
            let text = format!(
                "You gave a bad qos '{name}'. Valid QOS's are {}",
                valid.join(",")
            );
            Err(Status::failed_precondition(text))
        }
    }
}

/// The usage that a request sets, if it does.
pub(super) fn usage_set(request: &ModifyRequest) -> Option<f64> {
    let assignment = request
        .assignments
        .iter()
        .find(|assignment| assignment.field == sluice_accounting::RAW_USAGE)?;
    assignment.value.trim().parse().ok()
}

/// `sacctmgr modify`.
pub(super) async fn modify(
    store: &AccountingStore,
    identity: &Identity,
    rights: Rights,
    own_cluster: &str,
    request: ModifyRequest,
) -> Result<ChangeReply, Status> {
    let entity = request.entity();
    let mut selection = selection(request.selection)?;
    let assignments = assignments(request.assignments);
    if assignments.is_empty() {
        return Err(Status::invalid_argument(
            " You didn't give me anything to set",
        ));
    }
    check_qos(store, &assignments).await?;
    for assignment in &assignments {
        if assignment
            .value
            .contains(|letter: char| letter.is_control())
        {
            let text = format!(
                " Bad value for {}: control characters are not allowed",
                assignment.field
            );
            return Err(Status::invalid_argument(text));
        }
        let name = std::slice::from_ref(&assignment.value);
        match assignment.field.as_str() {
            "new_name" => drop(new_names("user", name)?),
            // A key that the user does not have is made.
            "default_wckey" => check_lengths("wckey", name)?,
            _ => {}
        }
    }
    let sets_rights = assignments
        .iter()
        .any(|assignment| matches!(assignment.field.as_str(), "admin_level" | "new_name"));
    if (sets_rights || entity == AccountingEntity::Cluster) && rights < Rights::Administrator {
        return Err(denied());
    }
    if rights == Rights::User && !is_own_choice(entity, &selection, &assignments, identity) {
        match entity {
            AccountingEntity::User | AccountingEntity::Account => {
                let changes_entity = assignments.iter().any(|assignment| {
                    matches!(
                        assignment.field.as_str(),
                        "description"
                            | "organization"
                            | "flags"
                            | "default_account"
                            | "default_wckey"
                            | "parent_account"
                    )
                });
                let told = run(store, identity, entity, &selection, &assignments, false).await?;
                if changes_entity {
                    return Err(denied());
                }
                if !told.associations.is_empty() {
                    check_rows(store, identity, &told.associations).await?;
                } else if coordinated(store, &identity.user_name).await?.is_empty() {
                    return Err(denied());
                }
            }
            AccountingEntity::Job => {
                check_own_jobs(store, identity, own_cluster, &selection, &assignments).await?
            }
            _ => return Err(denied()),
        }
    }
    if entity == AccountingEntity::Job && selection.clusters.is_empty() {
        selection.clusters.push(own_cluster.to_owned());
    }
    let changed = run(
        store,
        identity,
        entity,
        &selection,
        &assignments,
        !request.dry_run,
    )
    .await?;
    if !request.dry_run && !changed.is_empty() {
        tracing::info!(by = identity.user_name, entity = ?entity, names = ?changed.names, rows = changed.associations.len(), "accounting changed");
    }
    Ok(reply(changed))
}

/// A user may change comment, extra text and derived exit code of own jobs.
async fn check_own_jobs(
    store: &AccountingStore,
    identity: &Identity,
    own_cluster: &str,
    selection: &Selection,
    assignments: &[Assignment],
) -> Result<(), Status> {
    let allowed = assignments.iter().all(|assignment| {
        matches!(
            assignment.field.as_str(),
            "comment" | "extra" | "derived_exit_status"
        )
    });
    let foreign = selection
        .clusters
        .iter()
        .any(|cluster| cluster != own_cluster);
    if !allowed || foreign || selection.names.is_empty() {
        return Err(denied());
    }
    for name in &selection.names {
        let id = name
            .parse()
            .map_err(|_| Status::invalid_argument(format!(" Invalid job id: {name}")))?;
        let owner = store
            .job_owner(own_cluster, id)
            .await
            .map_err(|error| store_status(&error))?;
        if owner != Some(identity.uid) {
            return Err(denied());
        }
    }
    Ok(())
}

async fn run(
    store: &AccountingStore,
    identity: &Identity,
    entity: AccountingEntity,
    selection: &Selection,
    assignments: &[Assignment],
    commit: bool,
) -> Result<Changed, Status> {
    let change = change(identity);
    let done = match entity {
        AccountingEntity::User => {
            store
                .modify_users(&change, selection, assignments, commit)
                .await
        }
        AccountingEntity::Account => {
            store
                .modify_accounts(&change, selection, assignments, commit)
                .await
        }
        AccountingEntity::Cluster => {
            store
                .modify_clusters(&change, selection, assignments, commit)
                .await
        }
        AccountingEntity::Qos => {
            store
                .modify_qos(&change, selection, assignments, commit)
                .await
        }
        AccountingEntity::Resource => {
            store
                .modify_resources(&change, selection, assignments, commit)
                .await
        }
        AccountingEntity::Job => {
            store
                .modify_jobs(&change, selection, assignments, commit)
                .await
        }
        AccountingEntity::Unspecified => {
            return Err(Status::invalid_argument("the request has no entity"));
        }
    };
    done.map_err(|error| store_status(&error))
}

/// `sacctmgr delete`.
pub(super) async fn delete(
    store: &AccountingStore,
    identity: &Identity,
    rights: Rights,
    request: DeleteRequest,
) -> Result<ChangeReply, Status> {
    let entity = request.entity();
    let selection = selection(request.selection)?;
    if selection == Selection::default() {
        return Err(Status::invalid_argument(
            " No conditions given to remove, not executing.",
        ));
    }
    if entity == AccountingEntity::Cluster && rights < Rights::Administrator {
        return Err(denied());
    }
    if rights == Rights::User {
        if !matches!(entity, AccountingEntity::User | AccountingEntity::Account) {
            return Err(denied());
        }
        // Rows are told when the selection names some; without that, all rows of the entities go.
        let rows: Vec<AssociationRecord> = store
            .associations(None)
            .await
            .map_err(|error| store_status(&error))?
            .into_iter()
            .filter(|row| match entity {
                AccountingEntity::User => {
                    !row.user.is_empty()
                        && (selection.names.is_empty() || selection.names.contains(&row.user))
                        && (selection.accounts.is_empty()
                            || selection.accounts.contains(&row.account))
                        && (selection.clusters.is_empty()
                            || selection.clusters.contains(&row.cluster))
                }
                _ => {
                    row.user.is_empty()
                        && (selection.names.is_empty() || selection.names.contains(&row.account))
                }
            })
            .collect();
        check_rows(store, identity, &rows).await?;
    }
    let (change, commit) = (change(identity), !request.dry_run);
    let done = match entity {
        AccountingEntity::User => store.delete_users(&change, &selection, commit).await,
        AccountingEntity::Account => store.delete_accounts(&change, &selection, commit).await,
        AccountingEntity::Cluster => store.delete_clusters(&change, &selection, commit).await,
        AccountingEntity::Qos => store.delete_qos(&change, &selection, commit).await,
        AccountingEntity::Resource => store.delete_resources(&change, &selection, commit).await,
        AccountingEntity::Job | AccountingEntity::Unspecified => {
            return Err(Status::invalid_argument("this cannot be removed"));
        }
    };
    let changed = done.map_err(|error| store_status(&error))?;
    if !request.dry_run && !changed.is_empty() {
        tracing::info!(by = identity.user_name, entity = ?entity, names = ?changed.names, rows = changed.associations.len(), "removed from accounting");
    }
    Ok(reply(changed))
}

/// `sacctmgr add qos`.
pub(super) async fn add_qos(
    store: &AccountingStore,
    identity: &Identity,
    request: AddQosRequest,
) -> Result<ChangeReply, Status> {
    let names = new_names("qos", &request.names)?;
    let assignments = assignments(request.assignments);
    check_qos(store, &assignments).await?;
    let change = change(identity);
    let done = store
        .add_qos(&change, &names, &assignments, !request.dry_run)
        .await;
    done.map(reply).map_err(|error| store_status(&error))
}

/// `sacctmgr add resource`.
pub(super) async fn add_resource(
    store: &AccountingStore,
    identity: &Identity,
    request: AddResourceRequest,
) -> Result<ChangeReply, Status> {
    let wire = request
        .resource
        .ok_or_else(|| Status::invalid_argument("the request has no resource"))?;
    let resource = ResourceRecord::try_from(wire).map_err(Status::from)?;
    check_lengths("resource", std::slice::from_ref(&resource.name))?;
    check_lengths("server", std::slice::from_ref(&resource.server))?;
    let done = store
        .add_resource(&change(identity), &resource, !request.dry_run)
        .await;
    done.map(reply).map_err(|error| store_status(&error))
}

/// `sacctmgr add coordinator` and `delete coordinator`.
pub(super) async fn set_coordinators(
    store: &AccountingStore,
    identity: &Identity,
    request: SetCoordinatorsRequest,
) -> Result<ChangeReply, Status> {
    let (accounts, users) = (names(request.accounts), names(request.users));
    let (change, commit) = (change(identity), !request.dry_run);
    let done = if request.remove {
        if accounts.is_empty() && users.is_empty() {
            return Err(Status::invalid_argument(
                " You need to specify a user list or account list here.",
            ));
        }
        store
            .remove_coordinators(&change, &accounts, &users, commit)
            .await
    } else {
        if accounts.is_empty() || users.is_empty() {
            return Err(Status::invalid_argument(
                " You need to specify conditions to to add the coordinator.",
            ));
        }
        store
            .add_coordinators(&change, &accounts, &users, commit)
            .await
    };
    done.map(reply).map_err(|error| store_status(&error))
}
