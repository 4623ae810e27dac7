//! The accounting database as the rest of the program sees it: one handle that connects when it is first used.
//!
//! Cloning is cheap; all clones share the connections. Constructing does no I/O, so a daemon starts while the database is away.
//! Invariant: a failed connection is not remembered; the next request tries again.

use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::database::{Access, Database, Unit};
use crate::{AccountingError, Result, StorageSettings};

/// The accounting database. See the module's header.
#[derive(Debug, Clone)]
pub struct AccountingStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: StorageSettings,
    database: OnceCell<Database>,
}

impl AccountingStore {
    /// A handle; nothing is opened yet.
    #[must_use]
    pub fn new(settings: StorageSettings) -> Self {
        Self {
            inner: Arc::new(Inner {
                settings,
                database: OnceCell::new(),
            }),
        }
    }

    /// A handle that is connected, with the tables up to date.
    ///
    /// # Errors
    /// Whatever stops that; see [`AccountingError`].
    pub async fn open(settings: StorageSettings) -> Result<Self> {
        let store = Self::new(settings);
        store.database().await?;
        Ok(store)
    }

    /// Whether there is accounting at all.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.inner.settings != StorageSettings::None
    }

    /// The database in words, without password.
    #[must_use]
    pub fn target(&self) -> String {
        self.inner.settings.target()
    }

    /// Connects if needed and asks the database for an answer.
    ///
    /// # Errors
    /// [`AccountingError::Unavailable`] and its like, with the reason.
    pub async fn ping(&self) -> Result<()> {
        let mut unit = self.read().await?;
        unit.number("asking for a sign of life", "SELECT CAST(1 AS BIGINT)", &[])
            .await?;
        unit.commit("asking for a sign of life").await
    }

    /// Closes all connections. Requests after that fail; make a new handle to go on.
    pub async fn close(&self) {
        if let Some(database) = self.inner.database.get() {
            database.close().await;
        }
    }

    async fn database(&self) -> Result<&Database> {
        if !self.is_enabled() {
            return Err(AccountingError::Disabled);
        }
        self.inner
            .database
            .get_or_try_init(async || {
                let database = Database::open(&self.inner.settings).await?;
                tracing::info!(
                    target_database = database.target(),
                    "accounting database is open"
                );
                Ok(database)
            })
            .await
    }

    /// Begins to read: all statements see the same moment.
    pub(crate) async fn read(&self) -> Result<Unit> {
        self.database().await?.begin(Access::Read).await
    }

    /// Begins to write.
    pub(crate) async fn write(&self) -> Result<Unit> {
        self.database().await?.begin(Access::Write).await
    }
}
