//! Where accounting data is kept: the part of the configuration that this crate needs.
//!
//! Plain data, no I/O. The password must not appear in messages: [`StorageSettings::target`] is the only text form.

use std::path::PathBuf;

/// Where accounting data is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorageSettings {
    /// Nowhere (`accounting_storage/none`): the feed does not run and queries answer "disabled".
    None,
    /// A file; made, with its folder, if missing.
    Sqlite {
        /// Path of the database file. Two more files appear beside it while it is open.
        path: PathBuf,
    },
    /// A Postgres server.
    Postgres(PostgresSettings),
}

/// How to reach a Postgres server.
#[derive(Clone, PartialEq, Eq)]
pub enum PostgresSettings {
    /// `postgres://user:password@host:port/database?option=…`.
    Url(String),
    /// The parts, as slurmdbd.conf's Storage… keys give them.
    Parts {
        /// Host name, or the folder of a Unix socket if it starts with `/`.
        host: String,
        /// Port.
        port: u16,
        /// Login.
        user: String,
        /// Password.
        password: Option<String>,
        /// Database; made if the login may and it is missing.
        database: String,
    },
}

impl std::fmt::Debug for PostgresSettings {
    /// Without the password, so that settings can be logged.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PostgresSettings({})", self.target())
    }
}

impl PostgresSettings {
    /// The server and database in words, without password.
    #[must_use]
    pub fn target(&self) -> String {
        match self {
            Self::Url(url) => format!("Postgres at {}", without_password(url)),
            Self::Parts {
                host,
                port,
                user,
                database,
                ..
            } => {
                format!("Postgres database `{database}` at {host}:{port} as `{user}`")
            }
        }
    }
}

impl StorageSettings {
    /// The storage in words, without password; used in messages.
    #[must_use]
    pub fn target(&self) -> String {
        match self {
            Self::None => "no accounting storage".to_owned(),
            Self::Sqlite { path } => format!("SQLite file {}", path.display()),
            Self::Postgres(settings) => settings.target(),
        }
    }
}

/// Replaces what stands between `user:` and the last `@` of the authority, and drops the options (they can hold a password too).
fn without_password(url: &str) -> String {
    let url = url.split('?').next().unwrap_or(url);
    let Some((scheme, rest)) = url.split_once("://") else {
        return "(unreadable URL)".to_owned();
    };
    let Some((credentials, location)) = rest.rsplit_once('@') else {
        return format!("{scheme}://{rest}");
    };
    let user = credentials.split(':').next().unwrap_or("");
    format!("{scheme}://{user}@{location}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A password in a message would end up in log files.
    #[test]
    fn target_never_shows_the_password() {
        for url in [
            "postgres://u:s3cret@h:5432/d",
            "postgres://u:s3@cret@h/d",
            "postgres://u@h/d?password=s3cret",
        ] {
            let settings = StorageSettings::Postgres(PostgresSettings::Url(url.to_owned()));
            assert!(!settings.target().contains("cret"), "{}", settings.target());
            assert!(!format!("{settings:?}").contains("cret"));
            assert!(
                settings.target().contains("postgres://u@h"),
                "{}",
                settings.target()
            );
        }
    }
}
