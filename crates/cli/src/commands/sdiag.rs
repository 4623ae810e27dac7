//! sdiag: shows counters of the controller.
//!
//! What is printed is in [`crate::format::sdiag`]. Source: sdiag(1).

use std::time::Duration;

use sluice_proto::v1;

use super::block_on;
use super::caller::{Place, now, user_name};
use crate::client::{Client, ClientError};
use crate::flags::getopt::Parsed;
use crate::format::diagnostics_json::Envelope;
use crate::format::sdiag::{CallOrder, json, sort, text};
use crate::output;

/// How long an absent controller is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs sdiag.
pub fn run(parsed: &Parsed) -> i32 {
    if parsed.has("yaml") {
        output::error_line("sdiag: error: YAML output is not supported yet: use --json");
        return 1;
    }
    let place = Place::here();
    block_on(async {
        match show(parsed, &place).await {
            Ok(()) => 0,
            Err(error) => {
                output::error_line(format!("sdiag: error: {error}"));
                1
            }
        }
    })
}

async fn show(parsed: &Parsed, place: &Place) -> Result<(), ClientError> {
    let client = Client::connect(PATIENCE).await?;
    if parsed.has("reset") {
        client
            .diagnostics()
            .reset_statistics(v1::ResetStatisticsRequest {})
            .await?;
        output::line("Reset scheduling statistics");
        return Ok(());
    }
    let mut reply = client
        .diagnostics()
        .get_statistics(v1::GetStatisticsRequest {})
        .await?
        .into_inner();
    let order = match parsed
        .given
        .iter()
        .rev()
        .map(|given| given.name)
        .find(|name| name.starts_with("sort-by-"))
    {
        Some("sort-by-id") => CallOrder::Id,
        Some("sort-by-time") => CallOrder::Total,
        Some("sort-by-time2") => CallOrder::Average,
        _ => CallOrder::Count,
    };
    sort(&mut reply, order);
    if parsed.has("json") {
        let envelope = envelope("sdiag", &client, place).await?;
        output::text_out(&envelope.around("statistics", json(&reply)).pretty());
    } else {
        output::text_out(&text(&reply, &place.times(now())));
    }
    Ok(())
}

/// Who asks what, for JSON.
pub(super) async fn envelope(
    name: &str,
    client: &Client,
    place: &Place,
) -> Result<Envelope, ClientError> {
    let config = client
        .admin()
        .show_config(v1::ShowConfigRequest {})
        .await?
        .into_inner();
    let storage = config
        .entries
        .into_iter()
        .find(|entry| entry.key == "AccountingStorageType")
        .map(|entry| entry.value)
        .unwrap_or_default();
    let mut command = vec![name.to_string()];
    command.extend(std::env::args().skip(1).skip_while(|word| word == name));
    Ok(Envelope {
        command,
        user: user_name(place.uid),
        group: nix::unistd::Group::from_gid(place.gid.into())
            .ok()
            .flatten()
            .map_or_else(|| place.gid.to_string(), |group| group.name),
        cluster: client.settings.cluster.clone(),
        storage,
    })
}
