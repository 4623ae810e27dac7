//! The way to the controller: its configuration, its sockets, and calls with Slurm's error texts.
//!
//! A command asks; the controller decides. Local callers are known by their socket's credentials, remote ones by a token; over
//! TCP the controller must prove first that it is the one.
//! Nothing is retried here except the connection itself, for as long as the caller allows.

pub mod address;
pub mod calls;
mod connect;
mod credentials;
mod settings;

pub use connect::{Client, ClientError};
pub use settings::{Settings, SettingsError};
