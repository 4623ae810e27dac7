//! Diagnostics: what a step uses on a node.
//!
//! Field names and units are those of the model; everything else of the service is plain messages.

use sluice_model::launch::StepUsage;

use super::{field_from_wire, field_into_wire};
use super::{wire_message, wire_std};

wire_message!(StepUsage => StepUsage {
    user_cpu_us,
    system_cpu_us,
    max_rss_kib,
    max_rss_task,
    total_rss_kib,
    max_vsize_kib,
    max_pages,
    disk_read_bytes,
    disk_write_bytes,
    out_of_memory,
});
