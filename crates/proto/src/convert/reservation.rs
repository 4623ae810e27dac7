//! Reservations and licences.
//!
//! Field names, units and meaning are those of the model; nothing is decided here.

use sluice_model::reservation::{LicenseInfo, ReservationInfo, ReservationRequest, ReservedCores};

use super::{field_from_wire, field_into_wire};
use super::{wire_message, wire_std};

wire_message!(ReservationRequest => ReservationRequest {
    name,
    start_time,
    end_time,
    duration,
    duration_change,
    nodes,
    node_counts,
    core_counts,
    features,
    partition,
    users,
    groups,
    accounts,
    qos,
    allowed_partitions,
    licenses,
    burst_buffer,
    max_start_delay,
    flags_add,
    flags_remove,
    purge_comp_secs,
    comment,
    utc_offset_secs,
    group_members,
});

wire_message!(ReservedCores => ReservedCores {
    node,
    cores,
});

wire_message!(ReservationInfo => ReservationInfo {
    name,
    id,
    start_time,
    end_time,
    active,
    flags,
    purge_comp_secs,
    nodes,
    node_count,
    core_count,
    cores,
    features,
    partition,
    tres,
    allowed_partitions,
    qos,
    users,
    groups,
    accounts,
    licenses,
    burst_buffer,
    max_start_delay,
    comment,
});

wire_message!(LicenseInfo => LicenseInfo {
    name,
    total,
    used,
    reserved,
});
