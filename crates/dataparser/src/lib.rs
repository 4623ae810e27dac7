//! The documents of Slurm's data parsers: the model's records as JSON and YAML, for `--json`, `--yaml` and the REST server.
//!
//! Names, order and nesting of fields are those of the newest parser; older ones down to v0.0.42 are accepted by name and
//! differ in `meta` only. Records are written straight into a [`sink::Sink`]: no tree of values is built, because a listing of
//! ten thousand jobs is a hundred megabytes of text. Pure: no clock, environment or user database; what is not in a record
//! comes as an argument. Source: `rest_api` documentation and the output of a real Slurm.

pub mod documents;
pub mod envelope;
pub mod sink;
pub mod values;
mod version;

pub use envelope::{Client, Issue, Meta, Payload, document};
pub use sink::Format;
pub use version::{DataParser, UnknownParser};
