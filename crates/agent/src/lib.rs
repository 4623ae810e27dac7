//! The compute-node daemon: decisions in [`core`], everything that touches the system in [`sys`], and the shell between
//! them.
//!
//! The agent dials the controller, keeps one stream, runs Prolog and Epilog, and starts a step daemon for every step. It
//! can be killed and restarted at any moment: jobs go on, and what happened meanwhile is found in the spool directory.

pub mod config_source;
pub mod connection;
pub mod core;
pub mod node;
pub mod options;
pub mod service;
pub mod sys;
