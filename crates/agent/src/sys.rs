//! Everything of the agent that touches the system: hardware, spool, scripts, step daemons, keys, sockets.

pub mod auth_socket;
pub mod cgroup_base;
pub mod gres;
pub mod hardware;
pub mod leftovers;
pub mod logging;
pub mod scripts;
pub mod spool;
pub mod steps;
pub mod token;
