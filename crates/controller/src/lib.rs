//! The scheduling engine: cluster state, commands, events, queue, selection and planning.
//!
//! Pure. No async runtime, gRPC, database, file, socket, clock or random source: time, ids chosen by the shell and digests enter
//! as arguments. One writer runs commands ([`command`]) in a [`transaction::Transaction`]; each makes events, and
//! [`event::apply`] is the only place where [`cluster::Cluster`] changes. Effects tell the shell what to do once the events are
//! durable. Iteration is over ordered maps only, so that a replay gives the same state.

pub mod accounting_feed;
pub mod check;
pub mod cluster;
pub mod command;
pub mod effect;
pub mod event;
pub mod launch;
pub mod license;
pub mod plan;
pub mod policy;
pub mod priority;
pub mod queue;
pub mod reservation;
pub mod schedule;
pub mod select;
pub mod transaction;
pub mod view;

pub use cluster::Cluster;
pub use command::Rejection;
pub use effect::Effect;
pub use event::Event;
pub use plan::Plan;
pub use transaction::Transaction;
