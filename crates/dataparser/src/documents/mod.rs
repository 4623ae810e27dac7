//! The documents, one file for each kind of record. Each gives a [`crate::Payload`] that borrows the records it writes.

mod accounting_job;
mod accounting_step;
mod administration;
mod association;
mod explanation;
mod job;
mod job_resources;
mod node;
mod node_summary;
mod partition;
mod qos;
mod simple;
mod statistics;
mod step;
mod tracking;

pub use accounting_job::{AccountingJobs, AccountingNames};
pub use administration::{Accounts, Clusters, Users};
pub use association::Associations;
pub use job::{JobListing, Jobs};
pub use job_resources::NodeShape;
pub use node::{Nodes, gres_text, gres_used_text};
pub use node_summary::{NodeSummaries, NodeSummary};
pub use partition::Partitions;
pub use qos::Qos;
pub use simple::{Licenses, Ping, Pings, Reservations};
pub use statistics::{BackfillExits, CallCount, ScheduleExits, Statistics};
pub use step::Steps;
pub use tracking::{Instances, TrackedResources, Wckeys};

/// Test data shared by the tests of the documents.
#[cfg(test)]
mod samples;
