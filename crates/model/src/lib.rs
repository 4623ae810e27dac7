//! The vocabulary of Sluice: ids, hostlists, quantities, times, states, reasons, and the records of jobs, steps, nodes and
//! partitions that daemons, engine and commands exchange.
//!
//! Nothing here does I/O, reads a clock or the environment. Every other crate may use it; it uses none of them.

pub mod accounting;
pub mod array;
pub mod cpu_bind;
pub mod cron;
pub mod default_fields;
pub mod dependency;
pub mod error_code;
pub mod exit_status;
pub mod explanation;
pub mod filename;
pub mod gres;
pub mod hostlist;
pub mod ids;
pub mod job;
pub mod launch;
pub mod memory;
pub mod multi_prog;
pub mod node;
pub mod node_state;
pub mod partition;
pub mod reason;
pub mod reservation;
pub mod signal;
pub mod sluid;
pub mod state;
pub mod step;
pub mod time;
pub mod tres;
