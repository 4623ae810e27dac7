//! The configuration of a cluster: slurm.conf and its companions, or the training-cluster JSON document, read into one validated
//! [`ClusterConfig`].
//!
//! Files are read only in [`load`](ClusterConfig::load), [`check`] and [`find_conf`]; the environment is never read. All faults of a
//! configuration are reported together, each with file and line or JSON path. Sources: Slurm's manual pages for the files, and the
//! public description of training clusters for the document.

mod bundle;
mod change;
mod check;
mod cluster;
mod diagnostic;
mod find;
mod keys;
mod load;
mod show;
mod slurm;
mod spec;
mod write;

pub use bundle::{BundleFile, ConfigBundle};
pub use change::{ChangeError, NAME_BYTES_MAX};
pub use check::{Report, check};
pub use cluster::*;
pub use diagnostic::{ConfigErrors, Diagnostic, Severity};
pub use find::{DEFAULT_PATHS, FindError, find_conf};
pub use keys::{Apply, Class, Key, Kind, Scope};
pub use load::Loaded;
