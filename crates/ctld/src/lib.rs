//! The head-node daemon `ctld`: the shell around the pure engine. It owns what the engine must not touch: the clock, the
//! journal, sockets, identities, processes and the database.
//!
//! Nothing is decided here about jobs; that is `controller`'s work. Nobody is told anything before the journal has it.

pub mod auth;
pub mod core;
pub mod daemon;
pub mod journal;
pub mod listen;
pub mod logging;
pub mod mail;
pub mod notify;
pub mod offline;
pub mod options;
pub mod services;
pub mod triggers;
