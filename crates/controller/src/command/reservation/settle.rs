//! From a request to the record: times, flags, lists, licences, nodes, in the order in which slurmctld looks at them.
//!
//! Pure. Source: scontrol(1), specifications for reservations.

use std::sync::Arc;

use sluice_model::error_code::ErrorCode;
use sluice_model::hostlist::parse_hostlist;
use sluice_model::reservation::{PURGE_COMP_SECS, ReservationFlags, ReservationRequest};
use sluice_model::time::UnixSeconds;

use super::{LATE_SECS, Rejection, after};
use crate::cluster::{AccessList, Cluster, Reservation, ReservedNode};
use crate::license;
use crate::reservation::{cores, named, nodes, occurrence};

type Settled<T> = Result<T, Rejection>;

/// The record of a new reservation.
///
/// # Errors
/// As [`super::create`].
pub(super) fn new(
    cluster: &Cluster,
    request: &ReservationRequest,
    now: UnixSeconds,
) -> Settled<Reservation> {
    let id = cluster.last_reservation_id.saturating_add(1);
    let mut draft = Reservation {
        id,
        flags: ReservationFlags(request.flags_add).without(ReservationFlags(request.flags_remove)),
        purge_comp_secs: request.purge_comp_secs,
        utc_offset_secs: request.utc_offset_secs,
        ..Reservation::default()
    };
    check_flags(&mut draft)?;
    let forced = draft.is(ReservationFlags::FORCE_START) && draft.recurs();
    let start = request.start_time.ok_or(ErrorCode::InvalidTimeValue)?;
    if start.0 < now.0 - LATE_SECS && !forced {
        return Err(ErrorCode::InvalidTimeValue.into());
    }
    draft.start = start;
    draft.end = match (request.end_time, request.duration) {
        (Some(end), _) => end,
        (None, Some(duration)) => after(start, duration),
        (None, None) => return Err(ErrorCode::InvalidTimeValue.into()),
    };
    if draft.end <= draft.start || (draft.end.0 < now.0 - LATE_SECS && !forced) {
        return Err(ErrorCode::InvalidTimeValue.into());
    }
    if draft.is(ReservationFlags::TIME_FLOAT) {
        draft.float_secs = (start.0 - now.0).max(0);
        if request.end_time.is_none() {
            draft.float_length_secs = draft.end.since(draft.start);
        }
    } else if forced {
        (draft.start, draft.end) = occurrence::current(&draft, now);
    }
    set_partition(cluster, &mut draft, request)?;
    set_access(&mut draft, request)?;
    if nobody(&draft) {
        return Err(ErrorCode::ReservationEmpty.into());
    }
    set_others(cluster, &mut draft, request)?;
    draft.name = new_name(cluster, request, &draft)?;
    choose_nodes(cluster, &mut draft, request, now)?;
    Ok(draft)
}

/// The record as a request changes it.
///
/// # Errors
/// As [`super::update`].
pub(super) fn changed(
    cluster: &Cluster,
    before: &Arc<Reservation>,
    request: &ReservationRequest,
    now: UnixSeconds,
) -> Settled<Reservation> {
    let mut draft = (**before).clone();
    let no_float = ReservationFlags(request.flags_add | request.flags_remove);
    if no_float.contains(ReservationFlags::TIME_FLOAT) {
        return Err(ErrorCode::NotSupported.into());
    }
    draft.flags = draft
        .flags
        .with(ReservationFlags(request.flags_add))
        .without(ReservationFlags(request.flags_remove));
    if request.purge_comp_secs.is_some() {
        draft.purge_comp_secs = request.purge_comp_secs;
    }
    check_flags(&mut draft)?;
    change_times(&mut draft, before, request, now)?;
    set_partition(cluster, &mut draft, request)?;
    set_access(&mut draft, request)?;
    if nobody(&draft) {
        return Err(ErrorCode::ReservationEmpty.into());
    }
    set_others(cluster, &mut draft, request)?;
    let gives_nodes = request.nodes.is_some()
        || !request.node_counts.is_empty()
        || !request.core_counts.is_empty();
    if gives_nodes && before.by_core {
        return Err(ErrorCode::CoreReservationUpdate.into());
    }
    if gives_nodes {
        change_nodes(cluster, &mut draft, request, now)?;
    } else if draft.start != before.start || draft.end != before.end {
        recheck_nodes(cluster, &mut draft, now)?;
    }
    Ok(draft)
}

fn change_times(
    draft: &mut Reservation,
    before: &Reservation,
    request: &ReservationRequest,
    now: UnixSeconds,
) -> Settled<()> {
    if let Some(start) = request.start_time {
        if before.is_active(now) && !before.is(ReservationFlags::TIME_FLOAT) {
            return Err(ErrorCode::ReservationStarted.into());
        }
        if start.0 < now.0 - LATE_SECS {
            return Err(ErrorCode::InvalidTimeValue.into());
        }
        draft.end = start.saturating_add(before.end.since(before.start));
        draft.start = start;
        if draft.is(ReservationFlags::TIME_FLOAT) {
            draft.float_secs = (start.0 - now.0).max(0);
        }
        draft.begun = false;
    }
    if let Some(end) = request.end_time {
        if end.0 < now.0 - LATE_SECS {
            return Err(ErrorCode::InvalidTimeValue.into());
        }
        draft.end = end;
        draft.float_length_secs = 0;
    }
    if let Some(duration) = request.duration {
        draft.end = after(draft.start, duration);
        if draft.is(ReservationFlags::TIME_FLOAT) {
            draft.float_length_secs = draft.end.since(draft.start);
        }
    }
    if request.duration_change != 0 {
        draft.end = draft
            .end
            .saturating_add(request.duration_change.saturating_mul(60));
    }
    if draft.end <= draft.start {
        return Err(ErrorCode::InvalidTimeValue.into());
    }
    Ok(())
}

/// Flags that exclude each other.
fn check_flags(draft: &mut Reservation) -> Settled<()> {
    let recurring = draft.flags.0 & ReservationFlags::RECURRING.0;
    if recurring.count_ones() > 1 || (recurring != 0 && draft.is(ReservationFlags::TIME_FLOAT)) {
        return Err(ErrorCode::NotSupported.into());
    }
    if draft.is(ReservationFlags::PURGE_COMP) && draft.purge_comp_secs.is_none() {
        draft.purge_comp_secs = Some(PURGE_COMP_SECS);
    }
    if !draft.is(ReservationFlags::PURGE_COMP) {
        draft.purge_comp_secs = None;
    }
    draft.flags = draft.flags.without(ReservationFlags::SKIP);
    Ok(())
}

fn set_partition(
    cluster: &Cluster,
    draft: &mut Reservation,
    request: &ReservationRequest,
) -> Settled<()> {
    let Some(name) = &request.partition else {
        return Ok(());
    };
    if !name.is_empty() && cluster.partition(name).is_none() {
        return Err(ErrorCode::InvalidPartitionName.into());
    }
    draft.partition = Some(name.clone()).filter(|name| !name.is_empty());
    Ok(())
}

fn set_access(draft: &mut Reservation, request: &ReservationRequest) -> Settled<()> {
    edit(
        &mut draft.users,
        request.users.as_deref(),
        ErrorCode::InvalidUserId,
    )?;
    edit(
        &mut draft.groups,
        request.groups.as_deref(),
        ErrorCode::InvalidGroupId,
    )?;
    edit(
        &mut draft.accounts,
        request.accounts.as_deref(),
        ErrorCode::InvalidAccount,
    )?;
    edit(
        &mut draft.qos,
        request.qos.as_deref(),
        ErrorCode::InvalidQos,
    )?;
    edit(
        &mut draft.allowed_partitions,
        request.allowed_partitions.as_deref(),
        ErrorCode::InvalidPartitionName,
    )?;
    if !request.group_members.is_empty() || request.groups.is_some() {
        draft.group_members.clone_from(&request.group_members);
    }
    if !draft.users.names.is_empty() && !draft.groups.names.is_empty() {
        return Err(ErrorCode::ReservationUserGroup.into());
    }
    Ok(())
}

/// Carries out a list of names, each perhaps with `+` or `-`. Without signs it replaces what was there.
fn edit(list: &mut AccessList, text: Option<&str>, code: ErrorCode) -> Settled<()> {
    let Some(text) = text else { return Ok(()) };
    let words: Vec<&str> = text
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .collect();
    let plain = words
        .iter()
        .filter(|word| !word.starts_with(['+', '-']))
        .count();
    if plain > 0 || words.is_empty() {
        // Names to allow and names to keep out do not go together.
        if plain < words.len() {
            return Err(code.into());
        }
        *list = AccessList {
            deny: false,
            names: words.iter().map(|word| (*word).to_owned()).collect(),
        };
        return Ok(());
    }
    for word in words {
        let (sign, name) = word.split_at(1);
        let known = list.names.iter().position(|own| own == name);
        match (sign, known) {
            ("+", _) if list.names.is_empty() => {
                list.deny = false;
                list.names.push(name.to_owned());
            }
            ("-", _) if list.names.is_empty() => {
                list.deny = true;
                list.names.push(name.to_owned());
            }
            // Allowing again somebody who was kept out, or taking away somebody who was allowed.
            ("+", Some(at)) if list.deny => {
                list.names.remove(at);
            }
            ("-", Some(at)) if !list.deny => {
                list.names.remove(at);
            }
            ("+", None) if !list.deny => list.names.push(name.to_owned()),
            ("-", None) if list.deny => list.names.push(name.to_owned()),
            ("+" | "-", Some(_)) => {}
            _ => return Err(code.into()),
        }
    }
    Ok(())
}

fn nobody(draft: &Reservation) -> bool {
    [
        &draft.users,
        &draft.groups,
        &draft.accounts,
        &draft.qos,
        &draft.allowed_partitions,
    ]
    .iter()
    .all(|list| list.names.is_empty())
}

/// Licences, features and texts.
fn set_others(
    cluster: &Cluster,
    draft: &mut Reservation,
    request: &ReservationRequest,
) -> Settled<()> {
    if let Some(text) = &request.licenses {
        let need = license::parse(text).filter(|need| !need.any);
        let need = need.ok_or(ErrorCode::InvalidLicenses)?;
        for (name, count) in &need.items {
            let there = license::total(cluster, name).ok_or(ErrorCode::InvalidLicenses)?;
            if *count > there {
                return Err(ErrorCode::InvalidLicenses.into());
            }
        }
        draft.licenses = need.items;
    }
    let kept = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    if let Some(text) = &request.features {
        draft.features = kept(text);
    }
    if let Some(text) = &request.burst_buffer {
        draft.burst_buffer = kept(text);
    }
    if let Some(text) = &request.comment {
        draft.comment = kept(text);
    }
    if let Some(secs) = request.max_start_delay {
        draft.max_start_delay = Some(secs).filter(|secs| *secs > 0);
    }
    Ok(())
}

/// The name asked for, or one made of the first account or user and the number.
fn new_name(
    cluster: &Cluster,
    request: &ReservationRequest,
    draft: &Reservation,
) -> Settled<String> {
    if !request.name.is_empty() {
        if named(cluster, &request.name).is_some() {
            return Err(ErrorCode::ReservationNameDuplicate.into());
        }
        return Ok(request.name.clone());
    }
    let first = [&draft.accounts, &draft.users, &draft.groups, &draft.qos]
        .iter()
        .find_map(|list| list.names.first().cloned())
        .unwrap_or_else(|| "resv".to_owned());
    let mut number = draft.id;
    loop {
        let name = format!("{first}_{number}");
        if named(cluster, &name).is_none() {
            return Ok(name);
        }
        number = number.saturating_add(1);
    }
}

/// The nodes that a text names: `ALL` those of the partition, or of the cluster.
fn names(cluster: &Cluster, draft: &Reservation, text: &str) -> Settled<Vec<String>> {
    if !text.eq_ignore_ascii_case("all") {
        return parse_hostlist(text).map_err(|_| ErrorCode::InvalidNodeName.into());
    }
    let all = |index: &crate::cluster::NodeIndex| {
        cluster.node(*index).map(|node| node.config.name.clone())
    };
    let of_partition = draft
        .partition
        .as_deref()
        .and_then(|name| cluster.partition(name));
    Ok(match of_partition {
        Some(partition) => partition.nodes.iter().filter_map(all).collect(),
        None => cluster
            .nodes
            .iter()
            .filter(|node| node.configured)
            .map(|node| node.config.name.clone())
            .collect(),
    })
}

fn choose_nodes(
    cluster: &Cluster,
    draft: &mut Reservation,
    request: &ReservationRequest,
    now: UnixSeconds,
) -> Settled<()> {
    if draft.is(ReservationFlags::ANY_NODES) {
        let anything = !draft.licenses.is_empty() || draft.burst_buffer.is_some();
        let no_nodes = request.nodes.is_none() && request.node_counts.is_empty();
        return if anything && no_nodes {
            Ok(())
        } else {
            Err(ErrorCode::InvalidNodeName.into())
        };
    }
    let named = request.nodes.as_deref().filter(|text| !text.is_empty());
    draft.by_core = !request.core_counts.is_empty();
    let count: u32 = request.node_counts.iter().sum();
    let sum: u32 = request.core_counts.iter().sum();
    if draft.is(ReservationFlags::PART_NODES)
        && (draft.partition.is_none()
            || !named.is_some_and(|text| text.eq_ignore_ascii_case("all")))
    {
        return Err(ErrorCode::NotSupported.into());
    }
    let chosen = match named {
        Some(text) => {
            draft.flags = draft.flags.with(ReservationFlags::SPEC_NODES);
            if draft.is(ReservationFlags::REPLACE) {
                return Err(ErrorCode::InvalidNodeName.into());
            }
            if text.eq_ignore_ascii_case("all") && draft.partition.is_none() {
                draft.flags = draft.flags.with(ReservationFlags::ALL_NODES);
            }
            if draft.by_core {
                name_partition(cluster, draft);
            }
            let list = names(cluster, draft, text)?;
            nodes::named(cluster, draft, &list, &request.core_counts, now)?
        }
        None if draft.by_core => {
            name_partition(cluster, draft);
            nodes::by_count(cluster, draft, (count, Some(sum)), &[], now)?
        }
        None if count > 0 => {
            name_partition(cluster, draft);
            nodes::by_count(cluster, draft, (count, None), &[], now)?
        }
        // A partition alone means all of its nodes.
        None if draft.partition.is_some() => {
            draft.flags = draft
                .flags
                .with(ReservationFlags::SPEC_NODES)
                .with(ReservationFlags::PART_NODES);
            let list = names(cluster, draft, "ALL")?;
            nodes::named(cluster, draft, &list, &[], now)?
        }
        None => return Err(ErrorCode::InvalidNodeName.into()),
    };
    take(cluster, draft, chosen);
    Ok(())
}

/// What is chosen by number comes from a partition, the default one if none was named.
fn name_partition(cluster: &Cluster, draft: &mut Reservation) {
    if draft.partition.is_none() {
        draft.partition = cluster
            .default_partition()
            .map(|partition| partition.config.name.clone());
    }
}

fn take(cluster: &Cluster, draft: &mut Reservation, chosen: Vec<ReservedNode>) {
    draft.core_count = core_count(cluster, &chosen);
    draft.nodes = chosen;
}

/// Cores of reserved nodes in all.
pub(super) fn core_count(cluster: &Cluster, reserved: &[ReservedNode]) -> u32 {
    reserved
        .iter()
        .filter_map(|reserved| {
            let (_, node) = cluster.node_named(&reserved.name)?;
            let threads = crate::select::policy::node_shape(node).threads.max(1);
            Some(if reserved.is_whole() {
                cores::of_node(node)
            } else {
                reserved.cpus.len() as u32 / threads
            })
        })
        .sum()
}

fn change_nodes(
    cluster: &Cluster,
    draft: &mut Reservation,
    request: &ReservationRequest,
    now: UnixSeconds,
) -> Settled<()> {
    if draft.is(ReservationFlags::ANY_NODES) {
        return Err(ErrorCode::InvalidNodeName.into());
    }
    let mut current: Vec<String> = draft.nodes.iter().map(|node| node.name.clone()).collect();
    let count: u32 = request.node_counts.iter().sum();
    match request.nodes.as_deref() {
        // As many as before, wherever they are.
        Some("") => {
            draft.flags = draft.flags.without(ReservationFlags::SPEC_NODES);
            let before = current.len() as u32;
            name_partition(cluster, draft);
            let wanted = if count > 0 { count } else { before };
            let chosen = nodes::by_count(cluster, draft, (wanted, None), &[], now)?;
            take(cluster, draft, chosen);
            return Ok(());
        }
        Some(text) => {
            draft.flags = draft.flags.with(ReservationFlags::SPEC_NODES);
            match text.split_at_checked(1) {
                Some(("+", rest)) => current.extend(names(cluster, draft, rest)?),
                Some(("-", rest)) => {
                    let gone = names(cluster, draft, rest)?;
                    current.retain(|name| !gone.contains(name));
                }
                _ => current = names(cluster, draft, text)?,
            }
        }
        None => {}
    }
    let chosen = if count > 0 && count as usize != current.len() {
        name_partition(cluster, draft);
        nodes::by_count(cluster, draft, (count, None), &current, now)?
    } else {
        nodes::named(cluster, draft, &current, &[], now)?
    };
    if chosen.is_empty() {
        return Err(ErrorCode::InvalidNodeName.into());
    }
    take(cluster, draft, chosen);
    Ok(())
}

/// At other times the nodes may be taken: those named must be free, others may be exchanged.
fn recheck_nodes(cluster: &Cluster, draft: &mut Reservation, now: UnixSeconds) -> Settled<()> {
    if draft.nodes.is_empty() || draft.by_core {
        return Ok(());
    }
    let current: Vec<String> = draft.nodes.iter().map(|node| node.name.clone()).collect();
    let chosen = if draft.is(ReservationFlags::SPEC_NODES.with(ReservationFlags::ALL_NODES)) {
        nodes::named(cluster, draft, &current, &[], now)?
    } else {
        nodes::by_count(cluster, draft, (current.len() as u32, None), &current, now)?
    };
    take(cluster, draft, chosen);
    Ok(())
}
