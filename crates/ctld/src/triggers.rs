//! Programs of triggers, and what only the daemon sees happen: its own start, and a database that goes or comes back.
//!
//! A program runs as the user who set the trigger, never as anybody else: when that is not possible it is not run. Its environment has
//! nothing of the daemon's. Invariant: one that does not end is killed with everything it started. Source: strigger(1).

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use sluice_accounting::FeedStatus;
use sluice_controller::cluster::trigger::TriggerEvent;
use sluice_controller::command::trigger::happened;
use tokio::process::Command;
use tokio::sync::{mpsc, watch};

use crate::auth::UserDirectory;
use crate::core::CoreHandle;

/// Longest time a program may take.
const DEADLINE: Duration = Duration::from_secs(300);

/// As whom a program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TriggerUser {
    /// By uid.
    Id(u32),
    /// By name (SlurmUser), which may be a number.
    Name(String),
}

/// A program to run. Programs of reservations (ResvProlog, ResvEpilog) have number 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerRun {
    /// Number of the trigger.
    pub id: u32,
    /// User.
    pub user: TriggerUser,
    /// Program, perhaps with arguments.
    pub program: String,
    /// Last argument: the job, the nodes, or the resource.
    pub argument: String,
}

/// Runs programs until the queue is closed, each on its own.
pub async fn run(
    mut queue: mpsc::UnboundedReceiver<TriggerRun>,
    users: UserDirectory,
    conf_file: PathBuf,
) {
    while let Some(trigger) = queue.recv().await {
        let (users, conf_file) = (users.clone(), conf_file.clone());
        tokio::spawn(async move {
            if let Err(error) = run_one(&trigger, &users, &conf_file).await {
                tracing::error!("trigger {} ({}): {error}", trigger.id, trigger.program);
            }
        });
    }
}

async fn run_one(
    trigger: &TriggerRun,
    users: &UserDirectory,
    conf_file: &std::path::Path,
) -> Result<(), String> {
    let found = match &trigger.user {
        TriggerUser::Id(uid) => users.find_uid(*uid).await,
        TriggerUser::Name(name) => match name.parse() {
            Ok(uid) => users.find_uid(uid).await,
            Err(_) => users.find_name(name).await,
        },
    };
    let user = found
        .map_err(|error| error.to_string())?
        .ok_or_else(|| format!("user {:?} is not known on this host", trigger.user))?;
    let mut words = trigger.program.split_whitespace();
    let program = words.next().ok_or("it names no program")?;
    let mut command = Command::new(program);
    command
        .args(words)
        .arg(&trigger.argument)
        .env_clear()
        .env(
            "PATH",
            "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        )
        .env("HOME", &user.home)
        .env("USER", &user.name)
        .env("LOGNAME", &user.name)
        .env("SHELL", &user.shell)
        .env("SLURM_CONF", conf_file)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    let own = nix::unistd::geteuid();
    if own.is_root() {
        // The standard library drops root's other groups with the change of user.
        command.uid(user.uid).gid(user.gid);
    } else if own.as_raw() != user.uid {
        return Err(format!(
            "it cannot be run as {}: the daemon is not root",
            user.name
        ));
    }
    let mut child = command
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let group = child.id();
    match tokio::time::timeout(DEADLINE, child.wait()).await {
        Ok(Ok(status)) if status.success() => {
            tracing::info!("trigger {} ran {}", trigger.id, trigger.program);
            Ok(())
        }
        Ok(Ok(status)) => Err(format!("it ended with {status}")),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => {
            if let Some(pid) = group {
                let _ = nix::sys::signal::killpg(
                    nix::unistd::Pid::from_raw(pid.cast_signed()),
                    nix::sys::signal::Signal::SIGKILL,
                );
            }
            let _ = child.wait().await;
            Err(format!("it took longer than {DEADLINE:?} and was killed"))
        }
    }
}

/// Tells the triggers that the controller works again, and how the database is.
pub async fn watch_controller(core: CoreHandle, feed: Option<watch::Receiver<FeedStatus>>) {
    tell(
        &core,
        &[
            TriggerEvent::ControllerResumedOperation,
            TriggerEvent::ControllerResumedControl,
        ],
    )
    .await;
    let Some(mut feed) = feed else { return };
    // The first connection is no return.
    if feed.wait_for(FeedStatus::is_connected).await.is_err() {
        return;
    }
    let mut connected = true;
    while feed.changed().await.is_ok() {
        let now = feed.borrow_and_update().is_connected();
        if now == connected {
            continue;
        }
        connected = now;
        let events = if now {
            [
                TriggerEvent::DatabaseResumed,
                TriggerEvent::AccountingDaemonResumed,
            ]
        } else {
            [
                TriggerEvent::DatabaseFailure,
                TriggerEvent::AccountingDaemonFailure,
            ]
        };
        tell(&core, &events).await;
    }
}

async fn tell(core: &CoreHandle, events: &[TriggerEvent]) {
    let events = events.to_vec();
    let told = core
        .run(move |transaction| {
            events
                .iter()
                .for_each(|event| happened(transaction, *event));
            Ok(())
        })
        .await;
    if let Err(error) = told {
        tracing::warn!("triggers were not told: {error}");
    }
}
