//! sdiag: shows counters of the controller.
//!
//! What is printed is in [`crate::format::sdiag`]. Source: sdiag(1).

use std::time::Duration;

use sluice_proto::v1;

use super::caller::{Place, now};
use super::{block_on, structured};
use crate::client::{Client, ClientError};
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::format::sdiag::{CallOrder, sort, statistics, text};
use crate::output;
use crate::submit::options::Options;

/// How long an absent controller is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs sdiag.
pub fn run(parsed: &Parsed) -> i32 {
    let place = Place::here();
    let options = Options::new(
        Command::Sdiag,
        &Parsed::default(),
        |name| place.variable(name),
        parsed,
    );
    if let Some(code) = structured::answer_early(&options) {
        return code;
    }
    block_on(async {
        match show(parsed, &options, &place).await {
            Ok(()) => 0,
            Err(error) => {
                output::error_line(format!("sdiag: error: {error}"));
                1
            }
        }
    })
}

async fn show(parsed: &Parsed, options: &Options, place: &Place) -> Result<(), ClientError> {
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
    if structured::wanted(options) {
        return structured::print(&client, options, &statistics(&reply)).await;
    }
    output::text_out(&text(&reply, &place.times(now())));
    Ok(())
}
