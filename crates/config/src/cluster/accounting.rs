//! Accounting settings: where records go, what is enforced and what is measured.
//!
//! Plain data. Source: `slurm.conf(5)` (Accounting*, JobAcctGather*), `slurmdbd.conf(5)`. Postgres and SQLite are Sluice's own.

use serde::{Deserialize, Serialize};
use sluice_model::tres::TresKind;

/// Where accounting records are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccountingStorage {
    /// accounting_storage/none.
    None,
    /// A SQLite file; by default `<StateSaveLocation>/accounting.sqlite`.
    Sqlite {
        /// The file.
        path: String,
    },
    /// A PostgreSQL server.
    Postgres(PostgresSettings),
}

/// How to reach PostgreSQL.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostgresSettings {
    /// A whole `postgres://…` URL; then the other fields are not used.
    pub url: Option<String>,
    /// Host name, or a folder (absolute path) with the server's Unix socket.
    pub host: String,
    /// Port.
    pub port: u16,
    /// User.
    pub user: String,
    /// Password.
    pub password: Option<String>,
    /// Database.
    pub database: String,
}

impl std::fmt::Debug for PostgresSettings {
    /// Leaves the password out: configurations are logged.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresSettings")
            .field("url", &self.url.as_ref().map(|_| "…"))
            .field("host", &self.host)
            .field("port", &self.port)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "…"))
            .field("database", &self.database)
            .finish()
    }
}

/// AccountingStorageEnforce, with what each value implies already set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AccountingEnforce {
    /// associations: a job needs a valid association.
    pub associations: bool,
    /// limits.
    pub limits: bool,
    /// qos.
    pub qos: bool,
    /// safe.
    pub safe: bool,
    /// wckeys.
    pub wckeys: bool,
    /// nojobs: job records are not kept.
    pub no_jobs: bool,
    /// nosteps: step records are not kept.
    pub no_steps: bool,
}

/// JobAcctGatherType.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobAcctGather {
    /// Unset or none.
    None,
    /// jobacct_gather/linux.
    Linux,
    /// jobacct_gather/cgroup.
    Cgroup,
}

/// Accounting settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountingSettings {
    /// Where records are kept.
    pub storage: AccountingStorage,
    /// AccountingStorageEnforce.
    pub enforce: AccountingEnforce,
    /// AccountingStorageTRES, with the eight that are always kept, in id order.
    pub tres: Vec<TresKind>,
    /// AccountingStoreFlags, lower case: job_comment, job_env, job_extra, job_script, no_stdio.
    pub store_flags: Vec<String>,
    /// TrackWCKey.
    pub track_wckey: bool,
    /// MaxDBDMsgs: records kept while the database is away.
    pub max_queued_records: u32,
    /// JobAcctGatherType.
    pub gather: JobAcctGather,
    /// JobAcctGatherFrequency task=, seconds; 0 = only at the end.
    pub gather_interval_secs: u32,
    /// JobAcctGatherParams items.
    pub gather_params: Vec<String>,
}
