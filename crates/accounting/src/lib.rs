//! The accounting database: job and step records, node events, accounts, users, associations and QOS, in SQLite or Postgres.
//!
//! The room for everything that speaks SQL. It knows nothing of the scheduler: records arrive as
//! [`sluice_model::accounting::AccountingUpdate`] by journal position ([`AccountingFeed`]), questions as [`JobQuery`] and its like.
//! Times are seconds since the epoch and always given by the caller; no clock is read for anything that is stored.
//! Invariant: a record is written exactly once in effect. Delivery may be repeated (every write is an upsert by key) and the
//! position up to which a journal has been written changes in the same transaction as the records themselves.
//! Source of the meaning of the data: `sacct(1)`, `sacctmgr(1)`, `accounting` page of the Slurm manual.

#![deny(missing_docs)]

mod cell;
mod database;
mod entities;
mod error;
mod events;
mod feed;
mod job_query;
mod jobs;
mod outbox;
mod settings;
mod store;
mod tables;
mod window;

pub use entities::associations::AddedUser;
pub use entities::edits::{
    ASSOCIATION_FIELDS, Assignment, Operator, QOS_FLAGS, RAW_USAGE, edit_association,
};
pub use entities::selection::{Changed, OpenJob, Selection};
pub use entities::tree::effective_qos;
pub use entities::{Change, NewUser};
pub use error::{AccountingError, Result};
pub use events::EventQuery;
pub use feed::{
    AccountingFeed, FeedHandle, FeedSettings, FeedState, FeedStatus, SourceError, UpdateBatch,
    UpdateSource,
};
pub use job_query::{CountRange, JobQuery};
pub use jobs::JobWithSteps;
pub use outbox::{Batch, WriteReport};
pub use settings::{PostgresSettings, StorageSettings};
pub use store::AccountingStore;
pub use window::{SacctTimes, TimeWindow};
