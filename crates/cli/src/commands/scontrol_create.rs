//! `scontrol create` and `delete`: partitions, nodes and reservations.
//!
//! Source: scontrol(1), specifications for create and delete.

use sluice_model::error_code::ErrorCode;
use sluice_proto::v1;

use super::scontrol::{Context, is_keyword};
use super::scontrol_jobs::{call_failed, done};
use super::scontrol_partition_keys::partition_change;
use super::scontrol_reservation as reservation;
use crate::client::ClientError;
use crate::output;

/// Settings on the wire.
pub(super) fn entries(settings: Vec<(String, String)>) -> Vec<v1::ConfigEntry> {
    settings
        .into_iter()
        .map(|(key, value)| v1::ConfigEntry { key, value })
        .collect()
}

/// `create ENTITY=NAME …`.
pub(super) async fn create(context: &Context, words: &[String]) -> i32 {
    let Some(first) = words.first() else {
        output::error_line("too few arguments for create keyword");
        return 1;
    };
    let key = |word: &String| {
        word.split('=')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase()
    };
    let any =
        |name: &str, least: usize| words.iter().any(|word| is_keyword(&key(word), name, least));
    if any("partitionname", 4) {
        return create_partition(context, words).await;
    }
    if any("nodename", 4) {
        return create_nodes(context, words).await;
    }
    if any("reservationname", 3) {
        return reservation::create(context, words).await;
    }
    output::error_line(format!("scontrol: error: Invalid creation entity: {first}"));
    1
}

async fn create_partition(context: &Context, words: &[String]) -> i32 {
    let change = match partition_change(words) {
        Ok(change) => change,
        Err(text) => {
            output::error_line(text);
            return 1;
        }
    };
    let request = v1::ChangePartitionRequest {
        name: change.name,
        create: true,
        settings: entries(change.settings),
    };
    let result = async {
        let client = context.connect().await?;
        client.admin().change_partition(request).await?;
        Ok::<_, ClientError>(())
    };
    done("Error creating the partition: ", result.await)
}

async fn create_nodes(context: &Context, words: &[String]) -> i32 {
    let pairs: Option<Vec<(String, String)>> = words
        .iter()
        .map(|word| {
            let (key, value) = word.split_once('=')?;
            Some((key.to_string(), value.to_string()))
        })
        .collect();
    let named = pairs.as_ref().is_some_and(|pairs| {
        pairs
            .iter()
            .any(|(key, _)| key.eq_ignore_ascii_case("nodename"))
    });
    let line = words.join(" ");
    let (Some(settings), true) = (pairs, named) else {
        return bad_line(&line);
    };
    let request = v1::CreateNodesRequest {
        settings: entries(settings),
    };
    let result = async {
        let client = context.connect().await?;
        client.admin().create_nodes(request).await?;
        Ok::<_, ClientError>(())
    };
    match result.await {
        Ok(()) => 0,
        Err(ClientError::Refused {
            code: ErrorCode::Unspecified,
            text,
            hint,
        }) => {
            if let Some(hint) = hint {
                bad_line(&line);
                output::error_line(format!("hint: {hint}"));
                return 1;
            }
            output::error_line(format!("scontrol: error: {text}"));
            1
        }
        Err(error) => {
            if let ClientError::Refused { code, .. } = &error
                && *code == ErrorCode::InvalidNodeState
            {
                output::error_line(
                    "scontrol: error: Only State=FUTURE and State=CLOUD allowed for nodes created by scontrol",
                );
                output::error_line(format!("Error creating the node(s): {error}"));
                return 1;
            }
            call_failed("Error creating the node(s): ", &error)
        }
    }
}

fn bad_line(line: &str) -> i32 {
    output::error_line(format!(
        "scontrol: error: Failed to parse nodeline '{line}'"
    ));
    output::error_line("Error creating the node(s): Unspecified error");
    1
}

/// `delete ENTITY=NAME` or `delete ENTITY NAME`.
pub(super) async fn delete(context: &Context, words: &[String]) -> i32 {
    let (typed, entity, name) = match words {
        [] => {
            output::error_line("too few arguments for delete keyword");
            return 1;
        }
        [word] => match word.split_once('=') {
            Some((entity, name)) => (word.clone(), entity.to_string(), name.to_string()),
            None => {
                output::error_line(
                    "scontrol: error: Proper format is 'delete <ENTITY>=<ID>' or 'delete <ENTITY> <ID>'",
                );
                return 1;
            }
        },
        [entity, name] if !entity.contains('=') => {
            (format!("{entity}={name}"), entity.clone(), name.clone())
        }
        [first, ..] => {
            output::error_line(format!("Invalid deletion entity: {first}"));
            return 1;
        }
    };
    let (call, result) = match entity.to_ascii_lowercase().as_str() {
        word if is_keyword(word, "partitionname", 4) => {
            let request = v1::DeletePartitionRequest { name };
            let call = async {
                let client = context.connect().await?;
                client.admin().delete_partition(request).await?;
                Ok::<_, ClientError>(())
            };
            ("delete_partition", call.await)
        }
        word if is_keyword(word, "nodename", 4) => {
            let request = v1::DeleteNodesRequest {
                nodes: name.clone(),
            };
            let call = async {
                let client = context.connect().await?;
                client.admin().delete_nodes(request).await?;
                Ok::<_, ClientError>(())
            };
            let result = call.await;
            if matches!(result, Err(ClientError::Refused { .. })) {
                output::error_line(format!("scontrol: error: failed to delete nodes {name}"));
            }
            ("delete_node", result)
        }
        word if is_keyword(word, "reservationname", 3) => {
            let call = async { context.connect().await?.delete_reservation(name).await };
            ("delete_reservation", call.await)
        }
        _ => {
            output::error_line(format!("Invalid deletion entity: {typed}"));
            return 1;
        }
    };
    done(&format!("{call} {typed}: "), result)
}
