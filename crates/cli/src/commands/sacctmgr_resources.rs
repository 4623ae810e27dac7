//! `sacctmgr add resource`, and what can be set on a resource.
//!
//! A change is planned by the controller first (dry run), shown, asked for, and then made. Source: sacctmgr(1).

use sluice_proto::v1;

use super::sacctmgr::{NOTHING_NEW, PATIENCE, Session};
use super::sacctmgr_settings::{Of, assignment};
use super::sacctmgr_words::{Pair, Words, assignments, plain};
use super::scontrol::{is_any_keyword, is_keyword};
use crate::client::{Client, ClientError};
use crate::output;

/// What is set on a resource; `None` = said why not.
pub(super) fn resource_assignments(
    pairs: &[Pair],
    conditions: &[(&str, usize)],
    loose: &[String],
) -> Option<Vec<v1::Assignment>> {
    let number = |field: &str, pair: &Pair| {
        let value = pair.value.trim_end_matches('%');
        match value.parse::<u32>() {
            Ok(_) => Ok(Some(assignment(field, value))),
            Err(_) => Err(format!(
                "sacctmgr: error: Invalid value for {} ({})",
                pair.key, pair.value
            )),
        }
    };
    assignments(Of::Association, pairs, loose, |pair| {
        match pair.key.as_str() {
            key if is_any_keyword(key, conditions) => Some(Ok(None)),
            key if is_keyword(key, "allowed", 1) || is_keyword(key, "percentallowed", 1) => {
                Some(number("allowed", pair))
            }
            key if is_keyword(key, "count", 3) => Some(number("count", pair)),
            key if is_keyword(key, "lastconsumed", 1) => Some(number("last_consumed", pair)),
            key if is_keyword(key, "description", 1) => Some(Ok(Some(plain("description", pair)))),
            key if is_keyword(key, "servertype", 7) => Some(Ok(Some(plain("server_type", pair)))),
            key if is_keyword(key, "flags", 2) => Some(Ok(Some(plain("flags", pair)))),
            _ => Some(Err(format!(" Unknown resource option {}", pair.key))),
        }
    })
}

pub(super) async fn add_resource(session: &Session, words: &Words) -> Result<i32, ClientError> {
    let keys = [("clusters", 2), ("names", 1), ("server", 6), ("type", 1)];
    let Some(given) = resource_assignments(&words.all_pairs(), &keys, &words.loose) else {
        return Ok(1);
    };
    let Some(name) = words.all_names(&[("names", 1)]).into_iter().next() else {
        output::error_line(" Need name of resource to add.");
        return Ok(1);
    };
    let value = |field: &str| {
        given
            .iter()
            .rev()
            .find(|item| item.field == field)
            .map(|item| item.value.clone())
    };
    let allowed = value("allowed").and_then(|text| text.parse().ok());
    let kind = words.value("type", 1);
    let server = words
        .list("server", 6)
        .into_iter()
        .next()
        .unwrap_or_else(|| "slurmdb".to_string());
    let client = Client::connect(PATIENCE).await?;
    let known = client
        .accounting()
        .list_resources(v1::ListResourcesRequest::default())
        .await?
        .into_inner()
        .resources;
    let exists = known
        .iter()
        .any(|item| item.name == name && item.server == server);
    if !exists && kind.is_none() {
        output::error_line(format!(
            " Need to designate a resource type to initially add '{name}'."
        ));
        return Ok(1);
    }
    let resource = v1::ResourceRecord {
        name: name.clone(),
        server: server.clone(),
        description: value("description").unwrap_or_else(|| name.clone()),
        server_type: value("server_type").unwrap_or_default(),
        kind: "License".to_string(),
        count: value("count")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0),
        flags: value("flags").unwrap_or_default(),
        clusters: words
            .list("clusters", 2)
            .into_iter()
            .map(|cluster| v1::ResourceShare {
                cluster: cluster.to_lowercase(),
                allowed: allowed.unwrap_or(0),
            })
            .collect(),
        ..Default::default()
    };
    let request = v1::AddResourceRequest {
        resource: Some(resource.clone()),
        dry_run: true,
    };
    let plan = client
        .accounting()
        .add_resource(request.clone())
        .await?
        .into_inner();
    if plan.names.is_empty() {
        output::line(NOTHING_NEW);
        return Ok(1);
    }
    let (shares, new): (Vec<&String>, Vec<&String>) = plan
        .names
        .iter()
        .partition(|name| name.starts_with("Cluster - "));
    let mut text = vec![" Adding Resource(s)".to_string()];
    text.push(format!("  {name}@{server}"));
    text.extend(shares.iter().map(|share| format!("   {share}")));
    if !new.is_empty() {
        text.push(" Settings".to_string());
        for (label, value) in [
            ("Name", name.clone()),
            ("Server", server),
            ("Description", resource.description.clone()),
            ("ServerType", resource.server_type.clone()),
            ("Count", resource.count.to_string()),
            ("Type", resource.kind.clone()),
        ] {
            if !value.is_empty() {
                text.push(format!("  {label:<14} = {value}"));
            }
        }
    }
    let request = v1::AddResourceRequest {
        dry_run: false,
        ..request
    };
    session
        .carry_out(&text, client.accounting().add_resource(request))
        .await
}
