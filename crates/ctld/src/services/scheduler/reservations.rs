//! Reservations and licences: what is asked for becomes a command of the engine, what is read comes from the snapshot.
//!
//! Names of users and groups are looked up here, because the engine knows no machine. Nothing is decided here.

use std::collections::BTreeSet;

use sluice_controller::Transaction;
use sluice_controller::cluster::{Cluster, Reservation};
use sluice_controller::command::reservation;
use sluice_controller::{license, view};
use sluice_model::error_code::ErrorCode;
use sluice_model::reservation::ReservationRequest;
use sluice_proto::status_from;
use sluice_proto::v1::{self, ListLicensesReply, ListReservationsReply, ReservationReply};
use tonic::Status;

use super::super::Shared;
use crate::auth::Identity;
use crate::core::now;

/// PrivateData=reservations hides those that the caller may not use.
fn may_see(cluster: &Cluster, privileged: bool, user: &str, reservation: &Reservation) -> bool {
    let private = cluster
        .config
        .auth
        .private_data
        .iter()
        .any(|what| what.eq_ignore_ascii_case("reservations"));
    !private
        || privileged
        || (reservation.users.allows(|name| name == user)
            && reservation.groups.allows(|_| {
                reservation
                    .group_members
                    .iter()
                    .any(|member| member == user)
            }))
}

/// Reservations, in the order in which they were made.
pub(super) fn list(shared: &Shared, identity: &Identity) -> ListReservationsReply {
    let cluster = shared.core.snapshot();
    let privileged = shared.caller(identity).privileged;
    let time = now();
    ListReservationsReply {
        reservations: cluster
            .reservations
            .values()
            .filter(|own| may_see(&cluster, privileged, &identity.user_name, own))
            .map(|own| view::reservation_info(&cluster, own, time).into())
            .collect(),
        time: time.0,
    }
}

/// Licences.
pub(super) fn list_licenses(shared: &Shared) -> ListLicensesReply {
    let cluster = shared.core.snapshot();
    ListLicensesReply {
        licenses: license::list(&cluster)
            .into_iter()
            .map(Into::into)
            .collect(),
        time: now().0,
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(|word| word.trim().trim_start_matches(['+', '-']))
        .filter(|word| !word.is_empty())
}

/// Looks up what the request names; a uid becomes the user's name.
async fn resolve(shared: &Shared, request: &mut ReservationRequest) -> Result<(), Status> {
    if let Some(text) = &request.users {
        let mut resolved = Vec::new();
        for word in text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            let name = word.trim_start_matches(['+', '-']);
            let sign = &word[..word.len() - name.len()];
            let found = match name.parse::<u32>() {
                Ok(uid) => shared.users.find_uid(uid).await,
                Err(_) => shared.users.find_name(name).await,
            };
            let user = found
                .map_err(|error| Status::unavailable(error.to_string()))?
                .ok_or_else(|| status_from(ErrorCode::InvalidUserId, ""))?;
            resolved.push(format!("{sign}{}", user.name));
        }
        request.users = Some(resolved.join(","));
    }
    if let Some(text) = request.groups.clone() {
        let names: Vec<String> = words(&text).map(str::to_owned).collect();
        let members = tokio::task::spawn_blocking(move || members_of(&names));
        let members = members
            .await
            .map_err(|error| Status::internal(error.to_string()))?;
        request.group_members =
            members.ok_or_else(|| status_from(ErrorCode::InvalidGroupId, ""))?;
    }
    let zone = jiff::tz::TimeZone::system();
    let at = request.start_time.unwrap_or_else(now);
    request.utc_offset_secs = jiff::Timestamp::from_second(at.0)
        .map_or(0, |time| i64::from(zone.to_offset(time).seconds()));
    Ok(())
}

/// Members of groups; `None` = one of them is not known. Blocks.
fn members_of(names: &[String]) -> Option<Vec<String>> {
    let mut members = BTreeSet::new();
    for name in names {
        let group = match name.parse() {
            Ok(gid) => nix::unistd::Group::from_gid(nix::unistd::Gid::from_raw(gid)),
            Err(_) => nix::unistd::Group::from_name(name),
        };
        members.extend(group.ok().flatten()?.mem);
    }
    Some(members.into_iter().collect())
}

/// Makes a reservation.
pub(super) async fn create(
    shared: &Shared,
    identity: &Identity,
    request: v1::ReservationRequest,
) -> Result<ReservationReply, Status> {
    let mut request = ReservationRequest::try_from(request)?;
    let caller = shared.caller(identity);
    if caller.privileged {
        resolve(shared, &mut request).await?;
    }
    let make = move |t: &mut Transaction<'_>| reservation::create(t, &request, &caller);
    let name = shared.core.run(make).await?;
    Ok(ReservationReply { name })
}

/// Changes a reservation.
pub(super) async fn update(
    shared: &Shared,
    identity: &Identity,
    request: v1::ReservationRequest,
) -> Result<ReservationReply, Status> {
    let mut request = ReservationRequest::try_from(request)?;
    let caller = shared.caller(identity);
    if caller.privileged {
        resolve(shared, &mut request).await?;
    }
    let name = request.name.clone();
    let change = move |t: &mut Transaction<'_>| reservation::update(t, &request, &caller);
    shared.core.run(change).await?;
    Ok(ReservationReply { name })
}

/// Deletes a reservation.
pub(super) async fn delete(
    shared: &Shared,
    identity: &Identity,
    name: String,
) -> Result<ReservationReply, Status> {
    let caller = shared.caller(identity);
    let (user, gone) = (identity.user_name.clone(), name.clone());
    let delete = move |t: &mut Transaction<'_>| reservation::delete(t, &gone, &user, &caller);
    shared.core.run(delete).await?;
    Ok(ReservationReply { name })
}
