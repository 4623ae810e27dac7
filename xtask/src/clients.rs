//! `cargo xtask e2e clients`: Python tools that drive Slurm, unmodified from PyPI, each with a workflow on a private cluster.
//!
//! A client is a folder `e2e/clients/NAME` with `requirements.txt` (versions are pinned) and `workflow.py`, whose exit code
//! is the verdict. Each has a virtual environment of its own below `<target>/clients`, made once for each requirements file.
//! All run one after the other on one cluster, in a folder of their own that is their HOME as well. Nothing is patched and
//! nothing of the user's Python is touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sluice_testkit::{Cluster, run_with_deadline};

use crate::WrongCall;
use crate::cargo::{build_programs, root, target_dir};

/// Clients that install in well under two minutes each (15 to 20 seconds on two busy cores) and run in about half a minute.
const QUICK: &[&str] = &[
    "clusterfutures",
    "cylc-flow",
    "dask-jobqueue",
    "parsl",
    "psij",
    "reframe",
    "simple-slurm",
    "slurmpy",
    "submitit",
    "toil",
    "torchx",
];
const READY_DEADLINE: Duration = Duration::from_secs(60);
const INSTALL_DEADLINE: Duration = Duration::from_secs(600);
const WORKFLOW_DEADLINE: Duration = Duration::from_secs(300);
/// Clients that install in seconds (12 to 20 each on two busy cores) and run in less than half a minute: continuous integration
/// tries them always.
const SMALL: &[&str] = &["clusterfutures", "simple-slurm", "slurmpy", "submitit"];
/// How long the small clients may take to install, all together: a slow package index must not hold up everybody's changes.
const SMALL_INSTALL_DEADLINE: Duration = Duration::from_secs(90);
/// Tells continuous integration which clients to try: unset or `small` = the small ones, `auto` = the quick ones, both where
/// Python and PyPI can be had; `1` = the quick ones must run; `0` = none.
const REQUEST_VARIABLE: &str = "SLUICE_CLIENT_TESTS";

struct Client {
    name: String,
    folder: PathBuf,
}

/// Runs the clients that `args` name, the quick ones with `--quick`, else all.
pub fn run(args: &[String]) -> Result<()> {
    let clients = select(all()?, args)?;
    let python = python()?;
    let environments = clients
        .iter()
        .map(|client| environment(&python, client, INSTALL_DEADLINE))
        .collect::<Result<Vec<_>>>()?;
    drive(&clients, &environments)
}

/// What continuous integration does: tries the small clients, and says so where they cannot be installed.
pub fn run_in_ci() -> Result<()> {
    let request = std::env::var(REQUEST_VARIABLE).unwrap_or_default();
    let (must, names) = match request.as_str() {
        "0" => {
            eprintln!("xtask: {REQUEST_VARIABLE}=0: no client is tried");
            return Ok(());
        }
        "" | "small" => (false, SMALL),
        "auto" => (false, QUICK),
        "1" => (true, QUICK),
        other => bail!("{REQUEST_VARIABLE} is \"{other}\": give small, auto, 1 or 0"),
    };
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let clients = select(all()?, &names)?;
    let begun = Instant::now();
    // The quick ones are asked for by hand, so each has its time; the small ones share theirs.
    let deadline = || match request.as_str() {
        "" | "small" => SMALL_INSTALL_DEADLINE.saturating_sub(begun.elapsed()),
        _ => INSTALL_DEADLINE,
    };
    let installed = python().and_then(|python| {
        clients
            .iter()
            .map(|client| environment(&python, client, deadline()))
            .collect::<Result<Vec<_>>>()
    });
    match installed {
        Ok(environments) => drive(&clients, &environments),
        Err(error) if !must => {
            eprintln!(
                "xtask: SKIPPED: {} are not tried, because they cannot be installed here: {error:#}",
                names.join(", ")
            );
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Every folder that holds a workflow, by name.
fn all() -> Result<Vec<Client>> {
    let base = root().join("e2e/clients");
    let mut clients = Vec::new();
    for entry in fs::read_dir(&base).with_context(|| format!("cannot list {}", base.display()))? {
        let folder = entry?.path();
        if let (true, Some(name)) = (folder.join("workflow.py").is_file(), folder.file_name()) {
            clients.push(Client {
                name: name.to_string_lossy().into_owned(),
                folder,
            });
        }
    }
    clients.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(clients)
}

fn select(all: Vec<Client>, args: &[String]) -> Result<Vec<Client>> {
    let known = |name: &str| all.iter().any(|client| client.name == name);
    let mut wanted: Vec<&str> = Vec::new();
    for arg in args {
        match arg.as_str() {
            "--quick" => wanted.extend(QUICK),
            name if known(name) => wanted.push(name),
            other => {
                let names: Vec<&str> = all.iter().map(|client| client.name.as_str()).collect();
                return Err(WrongCall(format!(
                    "there is no client \"{other}\"; there are {}",
                    names.join(", ")
                ))
                .into());
            }
        }
    }
    let chosen = all
        .into_iter()
        .filter(|client| args.is_empty() || wanted.contains(&client.name.as_str()));
    Ok(chosen.collect())
}

/// A Python that can make virtual environments with pip in them.
fn python() -> Result<PathBuf> {
    let works = Command::new("python3")
        .args(["-c", "import ensurepip, venv"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if works {
        Ok("python3".into())
    } else {
        bail!("python3 with venv and pip is missing: install python3-venv")
    }
}

/// The client's virtual environment, made if need be.
fn environment(python: &Path, client: &Client, deadline: Duration) -> Result<PathBuf> {
    let requirements = client.folder.join("requirements.txt");
    let text = fs::read_to_string(&requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    let folder = target_dir()?.join("clients").join(&client.name);
    // Written last, so an interrupted installation is done again.
    let marker = folder.join("installed-requirements.txt");
    if fs::read_to_string(&marker).is_ok_and(|installed| installed == text) {
        return Ok(folder);
    }
    eprintln!("Installing {} …", client.name);
    let mut create = Command::new(python);
    create.args(["-m", "venv", "--clear"]).arg(&folder);
    let mut install = Command::new(folder.join("bin/python"));
    install
        .args(["-m", "pip", "install", "--quiet", "--no-input"])
        // An index that does not answer is given up soon.
        .args(["--disable-pip-version-check", "--retries=2", "--timeout=20"])
        .arg("--requirement")
        .arg(&requirements);
    for mut command in [create, install] {
        command.stdin(Stdio::null());
        run_with_deadline(command, deadline)
            .and_then(|done| done.success())
            .with_context(|| format!("cannot install {}", client.name))?;
    }
    fs::write(&marker, text)?;
    Ok(folder)
}

/// Starts a cluster and runs one client after the other on it.
fn drive(clients: &[Client], environments: &[PathBuf]) -> Result<()> {
    let bin = build_programs("dev")?;
    let cluster = Cluster::builder()
        .bin_dir(bin)
        .debug_level("info")
        // A requeued job starts again at once and not after two minutes.
        .conf_line("SchedulerParameters=requeue_delay=0")
        .start()?;
    cluster.wait_ready(READY_DEADLINE)?;
    let mut failed = Vec::new();
    for (client, environment) in clients.iter().zip(environments) {
        let begun = Instant::now();
        let verdict = workflow(&cluster, client, environment);
        let seconds = begun.elapsed().as_secs_f64();
        match verdict {
            Ok(()) => eprintln!("ok      {:<16} {seconds:5.1} s", client.name),
            Err(error) => {
                eprintln!("FAILED  {:<16} {seconds:5.1} s\n{error:#}", client.name);
                failed.push(client.name.as_str());
            }
        }
        // What a client left behind must not be in the next one's way.
        cluster
            .run("scancel", ["--me", "--quiet"])
            .and_then(|done| done.success())?;
    }
    if !failed.is_empty() {
        eprintln!("{}", cluster.log_tails());
    }
    cluster.stop()?;
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("clients failed: {}", failed.join(", "))
    }
}

fn workflow(cluster: &Cluster, client: &Client, environment: &Path) -> Result<()> {
    let folder = cluster.path("work").join(&client.name);
    fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let old = std::env::var_os("PATH").unwrap_or_default();
    let path = [cluster.bin(), environment.join("bin")]
        .into_iter()
        .chain(std::env::split_paths(&old));
    let mut command = cluster.program(&environment.join("bin/python"));
    command
        .arg(client.folder.join("workflow.py"))
        .env("PATH", std::env::join_paths(path)?)
        .env("HOME", &folder)
        .env("PYTHONUNBUFFERED", "1")
        // No compiled files in the source tree.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("PYTHONPATH")
        .env_remove("PYTHONHOME")
        .env_remove("VIRTUAL_ENV")
        .current_dir(&folder);
    run_with_deadline(command, WORKFLOW_DEADLINE)?.success()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(args: &[&str]) -> Result<Vec<String>> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let chosen = select(all()?, &args)?;
        Ok(chosen.into_iter().map(|client| client.name).collect())
    }

    /// Without this, a client in the quick list that has no folder would never run.
    #[test]
    fn the_quick_clients_exist() {
        assert_eq!(names(&["--quick"]).unwrap(), QUICK);
        assert_eq!(names(SMALL).unwrap(), SMALL);
    }

    /// Without this, a mistyped name would run everything, or nothing.
    #[test]
    fn names_choose_and_unknown_ones_are_refused() {
        assert_eq!(names(&["slurmpy", "parsl"]).unwrap(), ["parsl", "slurmpy"]);
        assert!(names(&[]).unwrap().len() > QUICK.len());
        let error = names(&["slurmpie"]).unwrap_err().to_string();
        assert!(error.contains("there are "), "{error}");
    }

    /// Without this, a run next year would try other versions than the book says.
    #[test]
    fn every_version_is_pinned() {
        for client in all().unwrap() {
            let text = fs::read_to_string(client.folder.join("requirements.txt")).unwrap();
            for line in text.lines() {
                assert!(line.contains("=="), "{}: {line}", client.name);
            }
        }
    }
}
