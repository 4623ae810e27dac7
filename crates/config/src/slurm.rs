//! slurm.conf and its companions: text to statements to typed settings.
//!
//! Reading goes in three steps: [`statement`] turns text into key-value pairs with their origin, [`values`] checks the keys and values of
//! one scope against the table, and the other rooms turn values into the parts of [`crate::ClusterConfig`]. The JSON document enters at
//! the second step. All faults are collected. Only [`files`] reads files.

pub(crate) mod accounting;
pub(crate) mod agent;
pub(crate) mod assemble;
pub(crate) mod files;
pub(crate) mod general;
pub(crate) mod gres;
pub(crate) mod items;
pub(crate) mod nodes;
pub(crate) mod partitions;
pub(crate) mod read;
pub(crate) mod scheduling;
pub(crate) mod statement;
pub(crate) mod topology;
pub(crate) mod topology_yaml;
pub(crate) mod values;
