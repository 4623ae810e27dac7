//! A private PostgreSQL server on a Unix socket, from the installed programs.
//!
//! `initdb` and `postgres` are run in a folder of their own; the server listens on no TCP port. They refuse to run as root,
//! so root runs them as the user `postgres` or `nobody`. The data is worthless: nothing is synced to disk.
//! The server ends when the value is dropped, or, by its guard, when the process dies.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use nix::unistd::{Uid, User, chown};
use tempfile::TempDir;

use crate::guard::Guard;
use crate::process::{ProcessId, children_of};
use crate::run::run_with_deadline;
use crate::wait::{wait_for, wait_until};

const SUPERUSER: &str = "sluice";
const DEADLINE: Duration = Duration::from_secs(60);

/// What to tell a user on whose machine PostgreSQL's programs are missing.
pub fn postgres_advice() -> &'static str {
    "PostgreSQL's server programs (initdb, postgres) were not found. Install them, on Debian or Ubuntu with\n    \
     sudo apt-get install postgresql\n\
     or, where they are in an unusual place, set SLUICE_POSTGRES_BIN to the folder that holds initdb and postgres."
}

/// The folder with PostgreSQL's server programs: `SLUICE_POSTGRES_BIN`, else the newest of Debian's versions, else `PATH`.
pub fn postgres_bin_dir() -> Option<PathBuf> {
    let named = std::env::var_os("SLUICE_POSTGRES_BIN").map(PathBuf::from);
    let mut debian: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    debian.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path);
    named
        .into_iter()
        .chain(debian.into_iter().map(|(_, dir)| dir))
        .chain(in_path)
        .find(|dir| dir.join("initdb").is_file() && dir.join("postgres").is_file())
}

/// A running private server.
pub struct PrivatePostgres {
    bin: PathBuf,
    dir: TempDir,
    user: Option<User>,
    server: Option<(Child, ProcessId)>,
    guard: Option<Guard>,
}

impl PrivatePostgres {
    /// Makes a data folder, starts a server on it and waits until it answers.
    ///
    /// # Errors
    /// When the programs are missing (the message says what to install), or the server does not come up.
    pub fn start() -> Result<Self> {
        let bin = postgres_bin_dir().context(postgres_advice())?;
        let dir = tempfile::Builder::new().prefix("sluice-pg-").tempdir()?;
        let user = unprivileged_user()?;
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
        if let Some(user) = &user {
            chown(dir.path(), Some(user.uid), Some(user.gid))?;
        }
        let mut server = Self {
            bin,
            dir,
            user,
            server: None,
            guard: None,
        };
        server.initialise()?;
        server.start_server()?;
        Ok(server)
    }

    /// URL of the server's standing database, in the form that libpq and sqlx read.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The folder that holds the server's socket.
    pub fn socket_dir(&self) -> &Path {
        self.dir.path()
    }

    fn url_of(&self, database: &str) -> String {
        format!(
            "postgres://{SUPERUSER}@localhost/{database}?host={}",
            self.socket_dir().display()
        )
    }

    /// Makes an empty database and gives its URL.
    ///
    /// # Errors
    /// When the name is taken or the server is down.
    pub fn create_database(&self, name: &str) -> Result<String> {
        self.psql("postgres", &format!("CREATE DATABASE \"{name}\""))?;
        Ok(self.url_of(name))
    }

    /// Runs SQL in a database and gives what it prints: rows of `|`-separated columns.
    ///
    /// # Errors
    /// When the statement fails or the server is down.
    pub fn psql(&self, database: &str, sql: &str) -> Result<String> {
        let mut command = Command::new(self.bin.join("psql"));
        command
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"])
            .args(["-U", SUPERUSER, "-d", database, "-c", sql, "-h"])
            .arg(self.socket_dir())
            .stdin(Stdio::null());
        run_with_deadline(command, DEADLINE)?.success()
    }

    /// Stops the server; the data stays, and [`PrivatePostgres::start_server`] brings it back under the same URL.
    ///
    /// # Errors
    /// When it does not run, or does not end.
    pub fn stop_server(&mut self) -> Result<()> {
        let (mut child, process) = self.server.take().context("the server does not run")?;
        // SIGINT is PostgreSQL's "fast" shutdown: it ends the clients' sessions.
        process.signal(Signal::SIGINT);
        let ended = wait_until(DEADLINE, "PostgreSQL to stop", || {
            matches!(child.try_wait(), Ok(Some(_)))
        });
        if let Some(guard) = self.guard.take() {
            guard.disarm();
        }
        if ended.is_err() {
            process.signal(Signal::SIGKILL);
            child.wait()?;
        }
        ended
    }

    /// Kills the server with SIGKILL; the data stays, and [`PrivatePostgres::start_server`] brings it back.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill_server(&mut self) -> Result<()> {
        let (mut child, process) = self.server.take().context("the server does not run")?;
        let workers = children_of(process.pid);
        process.signal(Signal::SIGKILL);
        child.wait()?;
        if let Some(guard) = self.guard.take() {
            guard.disarm();
        }
        // They notice by themselves; until then the data counts as in use.
        wait_until(DEADLINE, "PostgreSQL's workers to end", || {
            workers.iter().all(|worker| !worker.is_alive())
        })
    }

    /// Starts the server again after [`PrivatePostgres::stop_server`] or [`PrivatePostgres::kill_server`].
    ///
    /// # Errors
    /// When it runs already or does not come up.
    pub fn start_server(&mut self) -> Result<()> {
        if self.server.is_some() {
            bail!("the server runs already");
        }
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.path().join("log"))?;
        let mut child = self
            .program("postgres")
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(self.socket_dir())
            .args(["-c", "listen_addresses=", "-c", "fsync=off"])
            .args(["-c", "full_page_writes=off", "-c", "max_connections=200"])
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .context("cannot start postgres")?;
        let process = ProcessId::of(child.id()).context("postgres has no process")?;
        self.guard = Some(Guard::start(
            "kill -INT \"$1\"; while kill -0 \"$1\"; do sleep 0.1; done; rm -rf \"$2\"",
            [child.id().to_string().as_ref(), self.dir.path().as_os_str()],
        )?);
        let up = wait_for(DEADLINE, "PostgreSQL to answer", || {
            if let Ok(Some(status)) = child.try_wait() {
                return Ok(Err(status));
            }
            self.psql("postgres", "SELECT 1")
                .map(|_| Ok(()))
                .map_err(|error| format!("{error:#}"))
        });
        self.server = Some((child, process));
        if let Err(status) = up? {
            bail!(
                "postgres ended with {status}: {}",
                fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
            );
        }
        Ok(())
    }

    fn initialise(&self) -> Result<()> {
        let mut command = self.program("initdb");
        command
            .args([
                "-A",
                "trust",
                "-U",
                SUPERUSER,
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
                "-D",
            ])
            .arg(self.data());
        run_with_deadline(command, DEADLINE)?.success()?;
        Ok(())
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin.join(name));
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        if let Some(user) = &self.user {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        command
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        if self.server.is_some()
            && let Err(error) = self.stop_server()
        {
            eprintln!("could not stop the private PostgreSQL: {error:#}");
        }
    }
}

/// As whom root runs the server; `None` for everybody else, who run it themselves.
fn unprivileged_user() -> Result<Option<User>> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    for name in ["postgres", "nobody"] {
        if let Some(user) = User::from_name(name)? {
            return Ok(Some(user));
        }
    }
    bail!(
        "PostgreSQL does not run as root, and this machine has neither a user postgres nor nobody"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this, every test of the Postgres store would stand on a server that nobody has tried.
    #[test]
    fn a_private_server_answers_stops_and_comes_back_with_its_data() {
        let mut server = PrivatePostgres::start().unwrap();
        server.create_database("a").unwrap();
        server
            .psql("a", "CREATE TABLE t (n int); INSERT INTO t VALUES (7)")
            .unwrap();
        server.stop_server().unwrap();
        assert!(server.psql("a", "SELECT n FROM t").is_err());
        server.start_server().unwrap();
        assert_eq!(server.psql("a", "SELECT n FROM t").unwrap(), "7\n");
        let dir = server.socket_dir().to_path_buf();
        drop(server);
        assert!(!dir.exists());
    }
}
