//! `sacctmgr delete …`.
//!
//! What a selection means and what would be done is told by the controller (dry run), asked for, and then done. Jobs that have not
//! ended stand in the way. Source: sacctmgr(1) and its output.

use sluice_model::accounting::AssociationRecord;
use sluice_proto::v1::{self, AccountingEntity};

use super::sacctmgr::{ENTITIES, PATIENCE, Session, no_entity};
use super::sacctmgr_add::{
    COORDINATOR_KEYS, association_lines, change_coordinators, coordinator_request, named,
};
use super::sacctmgr_change::{HINT, entity_of, keys_of, selection};
use super::sacctmgr_show::records;
use super::sacctmgr_words::Words;
use super::scontrol::is_keyword;
use crate::client::{Client, ClientError};
use crate::output;

/// Least width of an account's name where rows are deleted.
const ACCOUNT_WIDTH: usize = 10;

/// Jobs that stand in the way of a deletion are told; true when there are some.
pub(super) fn tell_open_jobs(jobs: &[String]) -> bool {
    if jobs.is_empty() {
        return false;
    }
    output::error_line(" Error with request: Job(s) active, cancel job(s) before remove");
    for line in jobs {
        output::error_line(line);
    }
    true
}

pub(super) async fn delete(session: &Session, words: &[String]) -> Result<i32, ClientError> {
    let Some((entity, words)) = session.entity_to_change("delete", ENTITIES, words) else {
        return Ok(1);
    };
    let lower = entity.to_ascii_lowercase();
    if is_keyword(&lower, "coordinators", 2) && !is_keyword(&lower, "clusters", 2) {
        return delete_coordinators(session, &words).await;
    }
    if is_keyword(&lower, "federations", 1) {
        output::line(" Nothing deleted");
        return Ok(1);
    }
    let Some(entity) = entity_of(entity).filter(|entity| *entity != AccountingEntity::Job) else {
        return Ok(no_entity("delete", ENTITIES));
    };
    let (own, conditions) = keys_of(entity);
    let refused = words.refuse_unknown(conditions, HINT);
    let Some(selection) = selection(&words, own) else {
        return Ok(1);
    };
    if selection == v1::EntitySelection::default() {
        output::error_line(" No conditions given to remove, not executing.");
        return Ok(1);
    }
    if refused {
        return Ok(1);
    }
    let names_rows = !(selection.accounts.is_empty()
        && selection.clusters.is_empty()
        && selection.partitions.is_empty());
    let client = Client::connect(PATIENCE).await?;
    let request = v1::DeleteRequest {
        entity: entity as i32,
        selection: Some(selection),
        dry_run: true,
    };
    let told = client
        .accounting()
        .delete(request.clone())
        .await?
        .into_inner();
    if tell_open_jobs(&told.open_jobs) {
        return Ok(1);
    }
    let rows: Vec<AssociationRecord> = records(told.associations)?;
    if told.names.is_empty() && rows.is_empty() {
        output::line(" Nothing deleted");
        return Ok(1);
    }
    let title = match entity {
        AccountingEntity::Account => " Deleting accounts...",
        AccountingEntity::Cluster => " Deleting clusters...",
        AccountingEntity::Qos => " Deleting QOS(s)...",
        AccountingEntity::Resource => " Deleting resource(s)...",
        _ if names_rows => " Deleting user associations...",
        _ => " Deleting users...",
    };
    let mut text = named(title, &told.names);
    text.extend(association_lines(&rows, ACCOUNT_WIDTH));
    if !told.orphans.is_empty() {
        text.extend(named(" Deleting users (No Associations)...", &told.orphans));
    }
    let request = v1::DeleteRequest {
        dry_run: false,
        ..request
    };
    session
        .carry_out(&text, client.accounting().delete(request))
        .await
}

async fn delete_coordinators(session: &Session, words: &Words) -> Result<i32, ClientError> {
    if words.refuse_unknown(COORDINATOR_KEYS, HINT) {
        return Ok(1);
    }
    let request = coordinator_request(words, true);
    if request.users.is_empty() && request.accounts.is_empty() {
        output::error_line(" You need to specify a user list or account list here.");
        return Ok(1);
    }
    change_coordinators(session, request, |request, told| {
        let mut text = Vec::new();
        if !request.users.is_empty() {
            text.extend(named(
                " Removing Coordinators with user name",
                &request.users,
            ));
        }
        if request.accounts.is_empty() {
            text.push(" From all accounts".to_string());
        } else {
            text.extend(named(" From Account(s)", &request.accounts));
        }
        if told.coordinators.is_empty() {
            text.push(" Nothing removed".to_string());
            return Err(text);
        }
        text.push(" Removed Coordinators (sub accounts not listed)...".to_string());
        text.extend(
            told.coordinators
                .iter()
                .filter_map(|pair| pair.split_once(' '))
                .map(|(user, account)| format!("  U = {user:<9} A = {account:<10}")),
        );
        Ok(text)
    })
    .await
}
