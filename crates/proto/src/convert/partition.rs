//! Partitions: what can be read about them.
//!
//! Field names, units and meaning are those of the model; nothing is decided here.

use sluice_model::partition::{PartitionInfo, PartitionState};

use super::{field_from_wire, field_into_wire};
use super::{wire_enum, wire_message, wire_std};

wire_enum!(PartitionState => PartitionState { Up, Down, Drain, Inactive });

wire_message!(PartitionInfo => PartitionInfo {
    name,
    state,
    is_default,
    hidden,
    nodes,
    node_sets,
    total_nodes,
    total_cpus,
    allow_groups,
    allow_accounts,
    deny_accounts,
    allow_qos,
    deny_qos,
    alloc_nodes,
    alternate,
    qos,
    default_time,
    max_time,
    min_nodes,
    max_nodes,
    max_cpus_per_node,
    max_cpus_per_socket,
    disable_root_jobs,
    root_only,
    req_resv,
    lln,
    exclusive,
    over_subscribe,
    over_time_limit,
    grace_time_secs,
    preempt_mode,
    priority_job_factor,
    priority_tier,
    select_type_parameters,
    job_defaults,
    def_mem_per_cpu,
    def_mem_per_node,
    max_mem_per_cpu,
    max_mem_per_node,
    [or_default] tres,
    tres_billing_weights,
});
