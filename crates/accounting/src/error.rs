//! What can go wrong with the accounting database, sorted by what the caller should do about it.
//!
//! Invariant: [`AccountingError::is_retryable`] is true exactly when the same request can succeed later without a change to it.
//! Codes: SQLSTATE of Postgres (appendix A of its manual), result codes of SQLite (`sqlite.org/rescode.html`).

/// Result of this crate.
pub type Result<T> = std::result::Result<T, AccountingError>;

/// Why a request to the accounting database failed.
#[derive(Debug, thiserror::Error)]
pub enum AccountingError {
    /// AccountingStorageType is none.
    #[error(
        "accounting is switched off\n\nhint: set AccountingStorageType to accounting_storage/sqlite or accounting_storage/postgres"
    )]
    Disabled,
    /// Not reachable, or it refused the connection.
    #[error(
        "{target} is not available ({doing}): {reason}\n\nhint: records are kept and written when it is back; check that it runs and accepts this login"
    )]
    Unavailable {
        /// The database in words.
        target: String,
        /// What was tried.
        doing: &'static str,
        /// What the driver said.
        reason: String,
    },
    /// Another process holds a lock, or a deadlock was broken.
    #[error(
        "{target} is busy ({doing}): {reason}\n\nhint: another program holds a lock on it; it is tried again"
    )]
    Busy {
        /// The database in words.
        target: String,
        /// What was tried.
        doing: &'static str,
        /// What the driver said.
        reason: String,
    },
    /// No space.
    #[error(
        "{target} cannot grow ({doing}): {reason}\n\nhint: free space on its disk; records are kept and written afterwards"
    )]
    Full {
        /// The database in words.
        target: String,
        /// What was tried.
        doing: &'static str,
        /// What the driver said.
        reason: String,
    },
    /// The file is damaged or no database.
    #[error(
        "{target} is damaged or not a database ({doing}): {reason}\n\nhint: restore it from a backup, or move it away: a new one is made and filled from the journal as far as that reaches"
    )]
    Corrupt {
        /// The database in words.
        target: String,
        /// What was tried.
        doing: &'static str,
        /// What the driver said.
        reason: String,
    },
    /// Its tables are not those of this program.
    #[error(
        "the tables of {target} do not fit this version: {reason}\n\nhint: a newer version has used this database; use that version, or a database of its own"
    )]
    Schema {
        /// The database in words.
        target: String,
        /// What is different.
        reason: String,
    },
    /// The settings cannot be used.
    #[error("the accounting storage settings are not usable: {reason}")]
    Settings {
        /// Why.
        reason: String,
    },
    /// The database refused a statement. A fault of this program or of the tables.
    #[error("{target} refused a request ({doing}): {reason}")]
    Statement {
        /// The database in words.
        target: String,
        /// What was tried.
        doing: &'static str,
        /// What the driver said.
        reason: String,
    },
    /// A stored value cannot be read.
    #[error("a stored value cannot be read: table {table}, column {column}: {reason}")]
    Value {
        /// Table.
        table: &'static str,
        /// Column.
        column: &'static str,
        /// Why.
        reason: String,
    },
    /// The database is behind what the feed wrote: it was restored from a backup or exchanged.
    #[error(
        "the database holds the journal up to {stored}, not {expected}: it was restored or exchanged; writing goes on from there"
    )]
    Behind {
        /// Position in the database.
        stored: u64,
        /// Position the writer counted on.
        expected: u64,
    },
    /// What was asked for cannot be; the text is the line that sacctmgr prints.
    #[error("{text}")]
    Refused {
        /// Line.
        text: String,
    },
    /// It exists already.
    #[error("{what} exists already")]
    Exists {
        /// Kind and name.
        what: String,
    },
    /// It does not exist.
    #[error("{what} does not exist")]
    NotFound {
        /// Kind and name.
        what: String,
    },
}

impl AccountingError {
    /// Whether the same request can succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. } | Self::Busy { .. } | Self::Full { .. } | Self::Behind { .. }
        )
    }

    /// Sorts a driver's error. `target` is the database in words, `doing` what was tried.
    pub(crate) fn from_driver(target: &str, doing: &'static str, error: &sqlx::Error) -> Self {
        let reason = chain(error);
        let target = target.to_owned();
        match classify(error) {
            Class::Unavailable => Self::Unavailable {
                target,
                doing,
                reason,
            },
            Class::Busy => Self::Busy {
                target,
                doing,
                reason,
            },
            Class::Full => Self::Full {
                target,
                doing,
                reason,
            },
            Class::Corrupt => Self::Corrupt {
                target,
                doing,
                reason,
            },
            Class::Statement => Self::Statement {
                target,
                doing,
                reason,
            },
        }
    }

    /// Sorts an error of the migrations.
    pub(crate) fn from_migration(target: &str, error: &sqlx::migrate::MigrateError) -> Self {
        use sqlx::migrate::MigrateError;
        match error {
            MigrateError::Execute(inner) | MigrateError::ExecuteMigration(inner, _) => {
                Self::from_driver(target, "bringing its tables up to date", inner)
            }
            other => Self::Schema {
                target: target.to_owned(),
                reason: other.to_string(),
            },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Unavailable,
    Busy,
    Full,
    Corrupt,
    Statement,
}

fn classify(error: &sqlx::Error) -> Class {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::Protocol(_)
        | sqlx::Error::BeginFailed => Class::Unavailable,
        sqlx::Error::Database(database) => {
            let code = database.code().unwrap_or_default();
            match code.parse::<i32>() {
                // Postgres codes have five characters; SQLite's extended codes are numbers of up to four digits.
                Ok(number) if code.len() < 5 => classify_sqlite(number),
                _ => classify_postgres(&code),
            }
        }
        _ => Class::Statement,
    }
}

fn classify_sqlite(extended: i32) -> Class {
    match extended & 0xff {
        5 | 6 => Class::Busy,
        13 => Class::Full,
        11 | 26 => Class::Corrupt,
        // Permission, read-only, I/O error, cannot open, out of memory, interrupted: may be mended from outside.
        3 | 7 | 8 | 9 | 10 | 14 | 23 => Class::Unavailable,
        _ => Class::Statement,
    }
}

fn classify_postgres(code: &str) -> Class {
    match code {
        "40001" | "40P01" | "55P03" => Class::Busy,
        "53100" => Class::Full,
        "XX001" | "XX002" => Class::Corrupt,
        // Connection, operator intervention (shutdown, starting up), resources, login, database missing, standby, tables
        // without rights: an administrator can mend all of these while we keep the records.
        "3D000" | "25006" | "42501" | "55000" => Class::Unavailable,
        _ if ["08", "57", "53", "28", "58"].contains(&code.get(..2).unwrap_or_default()) => {
            Class::Unavailable
        }
        _ => Class::Statement,
    }
}

/// The error with all its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The feed gives up or goes on by these classes; codes are those of the two manuals.
    #[test]
    fn codes_are_sorted_by_remedy() {
        assert_eq!(classify_sqlite(5), Class::Busy);
        assert_eq!(classify_sqlite(261), Class::Busy, "SQLITE_BUSY_RECOVERY");
        assert_eq!(classify_sqlite(13), Class::Full);
        assert_eq!(classify_sqlite(11), Class::Corrupt);
        assert_eq!(classify_sqlite(26), Class::Corrupt);
        assert_eq!(classify_sqlite(14), Class::Unavailable);
        assert_eq!(
            classify_sqlite(1555),
            Class::Statement,
            "SQLITE_CONSTRAINT_PRIMARYKEY"
        );
        assert_eq!(
            classify_postgres("57P01"),
            Class::Unavailable,
            "admin_shutdown"
        );
        assert_eq!(
            classify_postgres("08006"),
            Class::Unavailable,
            "connection_failure"
        );
        assert_eq!(
            classify_postgres("3D000"),
            Class::Unavailable,
            "invalid_catalog_name"
        );
        assert_eq!(classify_postgres("40P01"), Class::Busy, "deadlock_detected");
        assert_eq!(classify_postgres("53100"), Class::Full, "disk_full");
        assert_eq!(classify_postgres("XX001"), Class::Corrupt, "data_corrupted");
        assert_eq!(
            classify_postgres("23505"),
            Class::Statement,
            "unique_violation"
        );
    }
}
