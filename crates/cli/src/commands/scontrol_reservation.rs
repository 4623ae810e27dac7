//! `scontrol create`, `update` and `show reservation`: the calls. The keys are in [`super::scontrol_reservation_keys`].
//!
//! Source: scontrol(1).

use sluice_model::error_code::ErrorCode;

use super::caller::now;
use super::scontrol::Context;
use super::scontrol_jobs::call_failed;
use super::scontrol_reservation_keys::{check_new, request};
use super::structured;
use crate::client::ClientError;
use crate::format::show_reservation::show_reservation;
use crate::output;

/// Printed when no room was found and no nodes were named.
const ONE_PARTITION: &str = "Note, unless nodes are directly requested a reservation must exist in a single partition.\nIf no partition is requested the default partition is assumed.";

/// `create reservation …`.
pub(super) async fn create(context: &Context, words: &[String]) -> i32 {
    const NOTHING: &str = "No reservation created.";
    let made = request(words, NOTHING, &context.place).and_then(|mut request| {
        check_new(&mut request, NOTHING)?;
        Ok(request)
    });
    let request = match made {
        Ok(request) => request,
        Err(text) => {
            output::error_line(text);
            return 1;
        }
    };
    let named = request.nodes.is_some();
    let result = async { context.connect().await?.create_reservation(request).await };
    match result.await {
        Ok(name) => {
            output::line(format!("Reservation created: {name}"));
            0
        }
        Err(error) => {
            let code = call_failed("Error creating the reservation: ", &error);
            let no_room = matches!(
                &error,
                ClientError::Refused {
                    code: ErrorCode::NodesBusy | ErrorCode::RequestedNodeConfigUnavailable,
                    ..
                }
            );
            if no_room && !named {
                output::error_line(ONE_PARTITION);
            }
            code
        }
    }
}

/// `update ReservationName= …`.
pub(super) async fn update(context: &Context, words: &[String]) -> i32 {
    const NOTHING: &str = "No reservation update.";
    let request = match request(words, NOTHING, &context.place) {
        Ok(request) if request.name.is_empty() => {
            output::error_line(format!(
                "scontrol: error: Reservation must be given.  {NOTHING}"
            ));
            return 1;
        }
        Ok(request) => request,
        Err(text) => {
            output::error_line(text);
            output::error_line("slurm_update error: No error");
            return 1;
        }
    };
    let result = async { context.connect().await?.update_reservation(request).await };
    match result.await {
        Ok(()) => {
            output::line("Reservation updated.");
            0
        }
        Err(error) => {
            output::error_line(format!("Error updating the reservation: {error}"));
            call_failed("slurm_update error: ", &error)
        }
    }
}

/// `show reservation [NAME]`.
pub(super) async fn show(
    context: &Context,
    name: Option<&str>,
) -> Result<i32, (&'static str, ClientError)> {
    let fail = |error| ("slurm_load_reservations", error);
    let client = context.connect().await.map_err(fail)?;
    let mut reservations = client.reservations().await.map_err(fail)?;
    reservations.retain(|own| name.is_none_or(|name| name == own.name));
    if structured::wanted(&context.options) {
        let done = structured::reservations(&client, &context.options, &reservations).await;
        return done.map(|()| 0).map_err(fail);
    }
    match (reservations.is_empty(), name) {
        (true, Some(name)) => {
            output::line(format!("Reservation {name} not found"));
            Ok(1)
        }
        (true, None) => {
            output::line("No reservations in the system");
            Ok(0)
        }
        (false, _) => {
            let times = context.place.times(now());
            let text: String = reservations
                .iter()
                .map(|own| show_reservation(own, context.one_line.get(), &times))
                .collect();
            output::text_out(&text);
            Ok(0)
        }
    }
}
