//! Nodes: what can be read about them, changes.
//!
//! Field names, units and meaning are those of the model; nothing is decided here.

use sluice_model::node::{NodeGres, NodeInfo, NodeStateRequest, NodeUpdate};

use super::{field_from_wire, field_into_wire};
use super::{wire_enum, wire_message, wire_std};

wire_message!(NodeGres => NodeGres {
    name,
    type_name,
    count,
    used,
    used_indices,
});

wire_message!(NodeInfo => NodeInfo {
    name,
    hostname,
    address,
    port,
    [need] state,
    reason,
    reason_user,
    reason_uid,
    reason_time,
    cpus,
    cpus_effective,
    alloc_cpus,
    boards,
    sockets,
    cores_per_socket,
    threads_per_core,
    real_memory,
    alloc_memory,
    free_memory,
    cpu_load_centi,
    tmp_disk_mib,
    weight,
    features,
    active_features,
    gres,
    partitions,
    arch,
    os,
    version,
    boot_time,
    agent_start_time,
    last_busy_time,
    last_response_time,
    [or_default] cfg_tres,
    [or_default] alloc_tres,
    owner_uid,
    comment,
    jobs,
    extra,
    cpu_bind,
    instance_id,
    instance_type,
    topology,
    next_state,
    resume_after_time,
    reservation,
});

wire_enum!(NodeStateRequest => NodeStateRequest { Down, Drain, Fail, Resume, Undrain, Idle, Future, NoResponse, CancelReboot, PowerDown, PowerDownAsap, PowerDownForce, PowerUp });

wire_message!(NodeUpdate => NodeUpdate {
    nodes,
    state,
    reason,
    comment,
    weight,
    [list] available_features,
    [list] active_features,
    gres,
    address,
    hostname,
    cpu_bind,
    extra,
    instance_id,
    instance_type,
    topology,
    resume_after_secs,
    cert_token,
});
