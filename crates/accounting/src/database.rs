//! The two databases behind one face: connecting, migrating, and units of work that run statements.
//!
//! The only file that names sqlx's drivers. Statements are written once with `$1 …` parameters, which both understand; the one
//! difference is how many rows are written at once (arrays on Postgres, one prepared statement a row on SQLite).
//! Invariant: a unit of work that is dropped without [`Unit::commit`] leaves nothing behind.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::query::Query;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Postgres, Row, Sqlite, Transaction};

use crate::cell::{Cell, Field, Kind, Record, Table};
use crate::{AccountingError, PostgresSettings, Result, StorageSettings};

static SQLITE_MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");
static POSTGRES_MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/postgres");

/// How long a caller waits for a free connection, and a connection for the server's answer to its first message.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long SQLite waits for another process's lock.
const SQLITE_BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections to Postgres: one writer, the rest for queries.
const POSTGRES_CONNECTIONS_MAX: u32 = 8;
/// Connections to SQLite: one writer, the rest for queries (readers do not wait for the writer in WAL mode).
const SQLITE_CONNECTIONS_MAX: u32 = 4;

/// An open database.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    target: String,
    pool: Pool,
}

#[derive(Debug, Clone)]
enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgPool, Box<PgConnectOptions>),
}

/// What a unit of work does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Sees one moment of the database; changes nothing.
    Read,
    /// Changes it; on SQLite takes the write lock at once, so that it cannot fail half way for want of it.
    Write,
}

impl Database {
    /// Connects and brings the tables up to date.
    pub(crate) async fn open(settings: &StorageSettings) -> Result<Self> {
        let target = settings.target();
        let pool = match settings {
            StorageSettings::None => return Err(AccountingError::Disabled),
            StorageSettings::Sqlite { path } => open_sqlite(&target, path).await?,
            StorageSettings::Postgres(settings) => open_postgres(&target, settings).await?,
        };
        Ok(Self { target, pool })
    }

    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    pub(crate) async fn close(&self) {
        match &self.pool {
            Pool::Sqlite(pool) => pool.close().await,
            Pool::Postgres(pool, _) => pool.close().await,
        }
    }

    /// Begins a unit of work.
    pub(crate) async fn begin(&self, access: Access) -> Result<Unit> {
        let error = match &self.pool {
            Pool::Sqlite(pool) => {
                let statement = if access == Access::Write {
                    "BEGIN IMMEDIATE"
                } else {
                    "BEGIN DEFERRED"
                };
                match pool.begin_with(statement).await {
                    Ok(transaction) => return Ok(self.unit(Work::Sqlite(transaction))),
                    Err(error) => error,
                }
            }
            Pool::Postgres(pool, options) => {
                let statement = match access {
                    Access::Write => "BEGIN",
                    Access::Read => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
                };
                match pool.begin_with(statement).await {
                    Ok(transaction) => return Ok(self.unit(Work::Postgres(transaction))),
                    // The pool tries for a while and then only says that time ran out; a try of our own says why.
                    Err(sqlx::Error::PoolTimedOut) => match connect_postgres_once(options).await {
                        Ok(connection) => {
                            drop(connection);
                            sqlx::Error::PoolTimedOut
                        }
                        Err(reason) => reason,
                    },
                    Err(error) => error,
                }
            }
        };
        Err(AccountingError::from_driver(
            &self.target,
            "connecting",
            &error,
        ))
    }

    fn unit(&self, work: Work) -> Unit {
        Unit {
            target: self.target.clone(),
            work,
        }
    }
}

async fn open_sqlite(target: &str, path: &Path) -> Result<Pool> {
    make_private_file(path).map_err(|error| AccountingError::Unavailable {
        target: target.to_owned(),
        doing: "making the file",
        reason: error.to_string(),
    })?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        // FULL, not NORMAL: the journal may be trimmed up to the position stored here, so a commit must survive a power cut.
        // The feed writes in batches, which makes this one fsync for many records.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(SQLITE_BUSY_TIMEOUT)
        .disable_statement_logging();
    let pool = SqlitePoolOptions::new()
        .max_connections(SQLITE_CONNECTIONS_MAX)
        .acquire_timeout(ACQUIRE_TIMEOUT + SQLITE_BUSY_TIMEOUT)
        // On a full disk SQLite ends a transaction by itself; sqlx's own rollback then fails, and the connection counts as being
        // inside a transaction for ever. Such a connection is closed.
        .before_acquire(|connection, _| {
            let is_usable = !connection.is_in_transaction();
            Box::pin(async move { Ok(is_usable) })
        })
        .connect_with(options)
        .await
        .map_err(|error| AccountingError::from_driver(target, "opening the file", &error))?;
    migrated(target, SQLITE_MIGRATIONS.run(&pool).await)?;
    Ok(Pool::Sqlite(pool))
}

/// Makes the folder and an empty file that only its owner can read: records show who ran what.
fn make_private_file(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map(drop)
}

async fn open_postgres(target: &str, settings: &PostgresSettings) -> Result<Pool> {
    let options = postgres_options(settings)?;
    match connect_postgres_once(&options).await {
        Ok(connection) => drop(connection),
        Err(error) if is_missing_database(&error) => create_database(target, &options).await?,
        Err(error) => return Err(AccountingError::from_driver(target, "connecting", &error)),
    }
    let pool = PgPoolOptions::new()
        .max_connections(POSTGRES_CONNECTIONS_MAX)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_lazy_with(options.clone());
    migrated(target, POSTGRES_MIGRATIONS.run(&pool).await)?;
    Ok(Pool::Postgres(pool, Box::new(options)))
}

fn postgres_options(settings: &PostgresSettings) -> Result<PgConnectOptions> {
    let options = match settings {
        PostgresSettings::Url(url) => {
            PgConnectOptions::from_str(url).map_err(|error| AccountingError::Settings {
                reason: format!("{}: {error}", settings.target()),
            })?
        }
        PostgresSettings::Parts {
            host,
            port,
            user,
            password,
            database,
        } => {
            let options = PgConnectOptions::new()
                .host(host)
                .port(*port)
                .username(user)
                .database(database);
            match password {
                Some(password) => options.password(password),
                None => options,
            }
        }
    };
    Ok(options
        .application_name("sluice-ctld")
        .disable_statement_logging())
}

async fn connect_postgres_once(
    options: &PgConnectOptions,
) -> std::result::Result<PgConnection, sqlx::Error> {
    match tokio::time::timeout(ACQUIRE_TIMEOUT, PgConnection::connect_with(options)).await {
        Ok(result) => result,
        Err(_) => Err(sqlx::Error::Io(std::io::Error::new(
            std::io::ErrorKind::TimedOut,
            format!(
                "the server did not answer within {} s",
                ACQUIRE_TIMEOUT.as_secs()
            ),
        ))),
    }
}

fn is_missing_database(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .and_then(|error| error.code())
        .is_some_and(|code| code == "3D000")
}

/// Makes the database, as slurmdbd makes its own. A login without that right gets the server's refusal as the error.
async fn create_database(target: &str, options: &PgConnectOptions) -> Result<()> {
    let failed = |error: &sqlx::Error| {
        AccountingError::from_driver(target, "making the missing database", error)
    };
    let name = options
        .get_database()
        .unwrap_or(options.get_username())
        .to_owned();
    let mut connection = connect_postgres_once(&options.clone().database("postgres"))
        .await
        .map_err(|error| failed(&error))?;
    let statement = format!("CREATE DATABASE \"{}\"", name.replace('"', "\"\""));
    match sqlx::raw_sql(AssertSqlSafe(statement))
        .execute(&mut connection)
        .await
    {
        Ok(_) => tracing::info!(database = name, "made the accounting database"),
        // Another controller was faster.
        Err(error)
            if error
                .as_database_error()
                .and_then(|e| e.code())
                .is_some_and(|code| code == "42P04") => {}
        Err(error) => return Err(failed(&error)),
    }
    let _ = connection.close().await;
    Ok(())
}

fn migrated(target: &str, result: std::result::Result<(), MigrateError>) -> Result<()> {
    result.map_err(|error| AccountingError::from_migration(target, &error))
}

/// A unit of work: statements that take effect together at [`Unit::commit`], or not at all.
pub(crate) struct Unit {
    target: String,
    work: Work,
}

enum Work {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
}

impl Unit {
    /// Whether rows must be locked explicitly. SQLite's write lock covers all of them.
    pub(crate) fn row_lock(&self) -> &'static str {
        match self.work {
            Work::Sqlite(_) => "",
            Work::Postgres(_) => " FOR UPDATE",
        }
    }

    /// Runs a statement; gives the number of rows changed. `sql` must not contain values from outside: those are `args`.
    pub(crate) async fn execute(
        &mut self,
        doing: &'static str,
        sql: &str,
        args: &[Cell],
    ) -> Result<u64> {
        let result = match &mut self.work {
            Work::Sqlite(work) => sqlite_query(sql, args)
                .execute(&mut **work)
                .await
                .map(|result| result.rows_affected()),
            Work::Postgres(work) => postgres_query(sql, args)
                .execute(&mut **work)
                .await
                .map(|result| result.rows_affected()),
        };
        result.map_err(|error| AccountingError::from_driver(&self.target, doing, &error))
    }

    /// Runs a query; gives the rows with cells of these kinds. `sql` as for [`Self::execute`].
    pub(crate) async fn rows(
        &mut self,
        doing: &'static str,
        sql: &str,
        args: &[Cell],
        kinds: &[Kind],
    ) -> Result<Vec<Vec<Cell>>> {
        let result = match &mut self.work {
            Work::Sqlite(work) => sqlite_query(sql, args)
                .fetch_all(&mut **work)
                .await
                .and_then(|rows| rows.iter().map(|row| sqlite_cells(row, kinds)).collect()),
            Work::Postgres(work) => postgres_query(sql, args)
                .fetch_all(&mut **work)
                .await
                .and_then(|rows| rows.iter().map(|row| postgres_cells(row, kinds)).collect()),
        };
        result.map_err(|error| AccountingError::from_driver(&self.target, doing, &error))
    }

    /// The first number of the first row; `None` if there is no row or it is NULL.
    pub(crate) async fn number(
        &mut self,
        doing: &'static str,
        sql: &str,
        args: &[Cell],
    ) -> Result<Option<i64>> {
        let rows = self.rows(doing, sql, args, &[Kind::Int]).await?;
        Ok(rows.into_iter().flatten().find_map(|cell| match cell {
            Cell::Int(value) => value,
            _ => None,
        }))
    }

    /// All records that a condition selects: `SELECT columns FROM table <tail>`.
    pub(crate) async fn records<R: Record>(
        &mut self,
        doing: &'static str,
        tail: &str,
        args: &[Cell],
    ) -> Result<Vec<R>> {
        let table = R::TABLE;
        let sql = format!(
            "SELECT {} FROM {} {tail}",
            table.column_list(""),
            table.name
        );
        let kinds: Vec<Kind> = table.columns.iter().map(|column| column.kind).collect();
        self.rows(doing, &sql, args, &kinds)
            .await?
            .into_iter()
            .map(R::from_cells)
            .collect()
    }

    /// As [`Self::records`], of a table whose ids the records' own columns leave out, because the database gives them.
    pub(crate) async fn records_with_ids<R: Record>(
        &mut self,
        doing: &'static str,
        tail: &str,
        args: &[Cell],
    ) -> Result<Vec<(u32, R)>> {
        let table = R::TABLE;
        let sql = format!(
            "SELECT id, {} FROM {} {tail}",
            table.column_list(""),
            table.name
        );
        let kinds: Vec<Kind> = std::iter::once(Kind::Int)
            .chain(table.columns.iter().map(|column| column.kind))
            .collect();
        let mut found = Vec::new();
        for mut row in self.rows(doing, &sql, args, &kinds).await? {
            let id = u32::from_cell(row.remove(0)).map_err(|reason| AccountingError::Value {
                table: table.name,
                column: "id",
                reason,
            })?;
            found.push((id, R::from_cells(row)?));
        }
        Ok(found)
    }

    /// Writes rows; a row whose key is there is replaced. `lead` are columns before the record's own, `rows` hold lead and record
    /// values in that order. Two rows with the same key must not be in one call.
    pub(crate) async fn upsert(
        &mut self,
        doing: &'static str,
        table: &Table,
        lead: &[crate::cell::Column],
        rows: &[Vec<Cell>],
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let columns: Vec<crate::cell::Column> = lead.iter().chain(table.columns).copied().collect();
        let result = match &mut self.work {
            Work::Sqlite(work) => {
                let marks: Vec<String> = (1..=columns.len()).map(|n| format!("${n}")).collect();
                let source = format!("VALUES ({})", marks.join(", "));
                let sql = upsert_statement(table, &columns, &source);
                let mut result = Ok(());
                for row in rows {
                    if let Err(error) = sqlite_query(&sql, row).execute(&mut **work).await {
                        result = Err(error);
                        break;
                    }
                }
                result
            }
            Work::Postgres(work) => {
                let arrays: Vec<String> = columns
                    .iter()
                    .enumerate()
                    .map(|(n, column)| format!("${}::{}[]", n + 1, postgres_type(column.kind)))
                    .collect();
                let source = format!("SELECT * FROM UNNEST({})", arrays.join(", "));
                let sql = upsert_statement(table, &columns, &source);
                postgres_array_query(&sql, &columns, rows)
                    .execute(&mut **work)
                    .await
                    .map(drop)
            }
        };
        result.map_err(|error| AccountingError::from_driver(&self.target, doing, &error))
    }

    /// Makes all of it permanent.
    pub(crate) async fn commit(self, doing: &'static str) -> Result<()> {
        let result = match self.work {
            Work::Sqlite(work) => work.commit().await,
            Work::Postgres(work) => work.commit().await,
        };
        result.map_err(|error| AccountingError::from_driver(&self.target, doing, &error))
    }
}

fn upsert_statement(table: &Table, columns: &[crate::cell::Column], source: &str) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    let changes: Vec<String> = names
        .iter()
        .filter(|name| !table.key.contains(name))
        .map(|name| {
            if table.keep.contains(name) {
                format!("{name} = COALESCE(excluded.{name}, {}.{name})", table.name)
            } else {
                format!("{name} = excluded.{name}")
            }
        })
        .collect();
    let action = if changes.is_empty() {
        "NOTHING".to_owned()
    } else {
        format!("UPDATE SET {}", changes.join(", "))
    };
    format!(
        "INSERT INTO {} ({}) {source} ON CONFLICT ({}) DO {action}",
        table.name,
        names.join(", "),
        table.key.join(", "),
    )
}

fn sqlite_query(sql: &str, args: &[Cell]) -> Query<'static, Sqlite, SqliteArguments> {
    let mut query = sqlx::query::<Sqlite>(AssertSqlSafe(sql));
    for cell in args {
        query = match cell {
            Cell::Int(value) => query.bind(*value),
            Cell::Text(value) => query.bind(value.clone()),
            Cell::Real(value) => query.bind(*value),
        };
    }
    query
}

fn postgres_query(sql: &str, args: &[Cell]) -> Query<'static, Postgres, PgArguments> {
    let mut query = sqlx::query::<Postgres>(AssertSqlSafe(sql));
    for cell in args {
        query = match cell {
            Cell::Int(value) => query.bind(*value),
            Cell::Text(value) => query.bind(value.clone()),
            Cell::Real(value) => query.bind(*value),
        };
    }
    query
}

/// Binds one array a column.
fn postgres_array_query(
    sql: &str,
    columns: &[crate::cell::Column],
    rows: &[Vec<Cell>],
) -> Query<'static, Postgres, PgArguments> {
    let mut query = sqlx::query::<Postgres>(AssertSqlSafe(sql));
    for (n, column) in columns.iter().enumerate() {
        let cells = rows.iter().map(|row| row.get(n));
        query = match column.kind {
            Kind::Int => query.bind(
                cells
                    .map(|cell| {
                        if let Some(Cell::Int(value)) = cell {
                            *value
                        } else {
                            None
                        }
                    })
                    .collect::<Vec<_>>(),
            ),
            Kind::Text => query.bind(
                cells
                    .map(|cell| {
                        if let Some(Cell::Text(value)) = cell {
                            value.clone()
                        } else {
                            None
                        }
                    })
                    .collect::<Vec<_>>(),
            ),
            Kind::Real => query.bind(
                cells
                    .map(|cell| {
                        if let Some(Cell::Real(value)) = cell {
                            *value
                        } else {
                            None
                        }
                    })
                    .collect::<Vec<_>>(),
            ),
        };
    }
    query
}

fn postgres_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Int => "bigint",
        Kind::Text => "text",
        Kind::Real => "double precision",
    }
}

fn sqlite_cells(
    row: &sqlx::sqlite::SqliteRow,
    kinds: &[Kind],
) -> std::result::Result<Vec<Cell>, sqlx::Error> {
    kinds
        .iter()
        .enumerate()
        .map(|(n, kind)| {
            Ok(match kind {
                Kind::Int => Cell::Int(row.try_get(n)?),
                Kind::Text => Cell::Text(row.try_get(n)?),
                Kind::Real => Cell::Real(row.try_get(n)?),
            })
        })
        .collect()
}

fn postgres_cells(
    row: &sqlx::postgres::PgRow,
    kinds: &[Kind],
) -> std::result::Result<Vec<Cell>, sqlx::Error> {
    kinds
        .iter()
        .enumerate()
        .map(|(n, kind)| {
            Ok(match kind {
                Kind::Int => Cell::Int(row.try_get(n)?),
                Kind::Text => Cell::Text(row.try_get(n)?),
                Kind::Real => Cell::Real(row.try_get(n)?),
            })
        })
        .collect()
}
