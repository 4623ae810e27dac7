//! Testkit: starts a whole cluster in a folder, for tests and for `cargo xtask quickstart`.
//!
//! One `ctld`, several `agentd` on this machine, all on the loopback interface, every file below one folder, and a
//! private PostgreSQL server where a test asks for one. Synchronous code on the standard library: no runtime, so that
//! any test can use it. Nothing here decides how a cluster behaves; it only writes configuration, starts processes,
//! waits for a state with a deadline, and ends everything it started.
//!
//! What may not be done here: depend on the scheduler's own crates (the kit sees the daemons as a user does, through
//! configuration files and commands), touch anything outside the folder, or wait with a bare sleep.
//! Units: durations are `std::time::Duration`, memory is MiB, ports are TCP ports on 127.0.0.1.
//!
//! ```no_run
//! use std::time::Duration;
//! use sluice_testkit::Cluster;
//!
//! # fn main() -> anyhow::Result<()> {
//! let cluster = Cluster::builder().nodes(2).start()?;
//! cluster.wait_ready(Duration::from_secs(30))?;
//! let job = cluster.sbatch(["-N2", "--wrap", "srun hostname"])?;
//! assert_eq!(cluster.wait_job_end(job, Duration::from_secs(30))?, "COMPLETED");
//! # Ok(())
//! # }
//! ```

#![deny(missing_docs)]

mod binaries;
mod builder;
mod cluster;
mod conf;
mod description;
mod down;
mod guard;
mod jobs;
mod ports;
mod postgres;
mod process;
mod random;
mod run;
mod upgrade;
mod wait;

pub use binaries::{BinDir, COMMANDS, DAEMON_PACKAGES};
pub use builder::ClusterBuilder;
pub use cluster::{Cluster, Wrapping};
pub use conf::{ConfFiles, Layout};
pub use description::{DaemonRecord, Description, Role};
pub use down::{DownReport, take_down};
pub use jobs::{AccountingRow, accounting_rows};
pub use postgres::{PrivatePostgres, postgres_advice, postgres_bin_dir};
pub use process::ProcessId;
pub use random::Random;
pub use run::{Finished, run_with_deadline};
pub use upgrade::{
    record_upgrade, restore_upgrade_state, upgrade_accounting, upgrade_cluster, upgrade_queue,
};
pub use wait::{wait_for, wait_until};
