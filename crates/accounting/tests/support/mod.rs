//! Databases for tests: a SQLite file in a temporary folder, and a private Postgres server on a Unix socket in one.
//!
//! The server is started from the installed binaries, never reached over TCP, has fsync off, and ends with the value or with the
//! test's thread. As root it runs as an unprivileged user, since Postgres refuses root. Missing binaries fail the test and say
//! what to install.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, User, chown};
use sluice_accounting::{AccountingStore, Change, PostgresSettings, StorageSettings};
use sluice_model::time::UnixSeconds;
use tempfile::TempDir;

pub const CLUSTER: &str = "oracle";
const START_DEADLINE: Duration = Duration::from_secs(60);
const LOGIN: &str = "sluice";

/// A change by root at a time.
pub fn change(now: i64) -> Change {
    Change {
        actor: "root".to_owned(),
        now: UnixSeconds(now),
    }
}

/// Runs a case to its end on a runtime of its own.
pub fn block_on<F: Future>(case: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(case)
}

/// A database for one test.
pub enum Backend {
    Sqlite { folder: TempDir },
    Postgres(PostgresServer),
}

impl Backend {
    pub fn sqlite() -> Self {
        Self::Sqlite {
            folder: TempDir::new().expect("a temporary folder"),
        }
    }

    pub fn postgres() -> Self {
        Self::Postgres(PostgresServer::start())
    }

    pub fn settings(&self) -> StorageSettings {
        match self {
            Self::Sqlite { folder } => StorageSettings::Sqlite {
                path: folder.path().join("db").join("accounting.db"),
            },
            Self::Postgres(server) => server.settings("accounting"),
        }
    }

    pub async fn store(&self) -> AccountingStore {
        AccountingStore::open(self.settings())
            .await
            .expect("the database opens")
    }

    /// Makes the database unreachable: the server is stopped, or a file stands where the folder should be.
    pub fn go_away(&mut self) {
        match self {
            Self::Sqlite { folder } => {
                std::fs::write(folder.path().join("db"), "in the way").expect("a file")
            }
            Self::Postgres(server) => server.stop(Signal::SIGQUIT),
        }
    }

    /// Ends what [`Self::go_away`] began.
    pub fn come_back(&mut self) {
        match self {
            Self::Sqlite { folder } => {
                std::fs::remove_file(folder.path().join("db")).expect("the file goes")
            }
            Self::Postgres(server) => server.launch(),
        }
    }
}

/// A private Postgres server.
pub struct PostgresServer {
    folder: TempDir,
    binaries: PathBuf,
    account: Option<User>,
    child: Option<Child>,
}

impl PostgresServer {
    /// Makes a data folder and starts a server on it.
    pub fn start() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("sluice-pg-")
            .tempdir()
            .expect("a temporary folder");
        let account = Uid::effective().is_root().then(unprivileged_account);
        if let Some(account) = &account {
            chown(folder.path(), Some(account.uid), Some(account.gid))
                .expect("the folder gets its owner");
        }
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700))
            .expect("permissions");
        let mut server = Self {
            folder,
            binaries: find_binaries(),
            account,
            child: None,
        };
        let output = server
            .command("initdb")
            .arg("-D")
            .arg(server.data())
            .args([
                "-U",
                LOGIN,
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
            ])
            .output()
            .expect("initdb runs");
        assert!(
            output.status.success(),
            "initdb failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        server.launch();
        server
    }

    /// Settings for a database on it, which is made when first opened.
    pub fn settings(&self, database: &str) -> StorageSettings {
        StorageSettings::Postgres(PostgresSettings::Parts {
            host: self.folder.path().display().to_string(),
            port: 5432,
            user: LOGIN.to_owned(),
            password: None,
            database: database.to_owned(),
        })
    }

    /// Starts the server again on the same data and waits until it answers.
    pub fn launch(&mut self) {
        assert!(self.child.is_none(), "the server runs already");
        let log = std::fs::File::create(self.log()).expect("a log file");
        let child = self
            .command("postgres")
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(self.folder.path())
            .args([
                "-h",
                "",
                "-p",
                "5432",
                "-F",
                "-c",
                "full_page_writes=off",
                "-c",
                "shared_buffers=32MB",
            ])
            .args(["-c", "max_connections=40"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("postgres runs");
        self.child = Some(child);
        self.wait_until_ready();
    }

    /// Ends the server: SIGINT tidily, SIGQUIT at once as a crash would.
    pub fn stop(&mut self, signal: Signal) {
        if let Some(mut child) = self.child.take() {
            let _ = kill(Pid::from_raw(child.id().cast_signed()), signal);
            let _ = child.wait();
        }
    }

    fn wait_until_ready(&mut self) {
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            let ready = self
                .command("psql")
                .args(["-q", "-h"])
                .arg(self.folder.path())
                .args([
                    "-p", "5432", "-U", LOGIN, "-d", "postgres", "-c", "SELECT 1",
                ])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success());
            if ready {
                return;
            }
            let ended = self
                .child
                .as_mut()
                .is_none_or(|child| child.try_wait().ok().flatten().is_some());
            let log = || std::fs::read_to_string(self.log()).unwrap_or_default();
            assert!(!ended, "postgres ended: {}", log());
            assert!(
                Instant::now() < deadline,
                "postgres is not ready after {START_DEADLINE:?}: {}",
                log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A program of Postgres as the right user, which ends with the thread that starts it.
    fn command(&self, program: &str) -> Command {
        let program = self.binaries.join(program);
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "QUIT"]);
        if let Some(account) = &self.account {
            command
                .arg(format!("--reuid={}", account.uid))
                .arg(format!("--regid={}", account.gid))
                .arg("--clear-groups");
        }
        command
            .arg(program)
            .current_dir(self.folder.path())
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PG") {
                command.env_remove(name);
            }
        }
        command
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("postgres.log")
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.stop(Signal::SIGQUIT);
    }
}

/// `postgres` as Debian makes it, else `nobody`.
fn unprivileged_account() -> User {
    ["postgres", "nobody"]
        .into_iter()
        .find_map(|name| User::from_name(name).ok().flatten())
        .expect("Postgres does not run as root: a user named postgres or nobody is needed")
}

/// The folder that has initdb, postgres and psql: of the newest version installed by Debian, else one in PATH.
fn find_binaries() -> PathBuf {
    let mut folders: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .collect();
    folders.sort_by_key(|folder| std::cmp::Reverse(version_of(folder)));
    folders.extend(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    folders.extend(
        [
            "/usr/local/pgsql/bin",
            "/usr/local/bin",
            "/usr/bin",
            "/opt/homebrew/bin",
        ]
        .map(PathBuf::from),
    );
    folders
        .into_iter()
        .find(|folder| ["initdb", "postgres", "psql"].iter().all(|program| folder.join(program).is_file()))
        .expect(
            "PostgreSQL is not installed: initdb, postgres and psql were found neither under /usr/lib/postgresql nor in PATH. \
             Install Debian's package `postgresql` (apt-get install postgresql), or run `cargo xtask test` as root, which does",
        )
}

fn version_of(folder: &Path) -> u32 {
    folder
        .parent()
        .and_then(Path::file_name)
        .and_then(|name| name.to_str())
        .and_then(|name| name.parse().ok())
        .unwrap_or(0)
}

/// Makes the same case a test on each database.
#[macro_export]
macro_rules! on_both {
    ($($(#[$doc:meta])* $case:ident;)*) => {
        mod sqlite {
            $($(#[$doc])* #[test] fn $case() { super::support::block_on(super::$case(super::support::Backend::sqlite())); })*
        }
        mod postgres {
            $($(#[$doc])* #[test] fn $case() {
                let backend = super::support::Backend::postgres();
                super::support::block_on(super::$case(backend));
            })*
        }
    };
}
