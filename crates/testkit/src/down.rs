//! Ends a private cluster: daemons first and gently, then whatever of its jobs still runs.
//!
//! Works from the folder alone, so that `sluice down` can end what another process started. Step daemons outlive agents
//! by design, so they and their tasks are looked for among all processes. Only processes of that cluster are signalled
//! (see `process`), never by name alone.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;

use crate::description::Description;
use crate::process::{ProcessId, processes_of};
use crate::wait::wait_until;

/// How long daemons may take to stop after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
/// How long processes may take to vanish after SIGKILL.
const VANISH: Duration = Duration::from_secs(10);

/// What was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DownReport {
    /// Daemons that were running.
    pub daemons: usize,
    /// Step daemons and job processes that were still running after the daemons had ended.
    pub leftovers: usize,
}

/// Ends the cluster in `dir`; one that does not run is no error.
///
/// # Errors
/// When `dir` is not a cluster's folder, or a process survives SIGKILL.
pub fn take_down(dir: &Path) -> Result<DownReport> {
    let dir = dir
        .canonicalize()
        .with_context(|| format!("no folder {}", dir.display()))?;
    let description = Description::read(&dir)?;
    let daemons: Vec<ProcessId> = description
        .daemons
        .iter()
        .map(|daemon| daemon.process)
        .filter(|process| process.is_alive())
        .collect();
    stop_daemons(&daemons)?;
    let leftovers = kill_leftovers(&dir)?;
    Ok(DownReport {
        daemons: daemons.len(),
        leftovers,
    })
}

/// SIGTERM, and SIGKILL for those that are still there after the grace time.
fn stop_daemons(daemons: &[ProcessId]) -> Result<()> {
    for process in daemons {
        process.signal(Signal::SIGTERM);
    }
    let gone = || daemons.iter().all(|process| !process.is_alive());
    if wait_until(GRACE, "the daemons to stop", gone).is_err() {
        for process in daemons {
            process.signal(Signal::SIGKILL);
        }
        wait_until(VANISH, "the killed daemons to vanish", gone)?;
    }
    Ok(())
}

/// Kills every remaining process of the cluster in `dir` (an absolute path); gives how many there were.
pub(crate) fn kill_leftovers(dir: &Path) -> Result<usize> {
    let mut count = 0;
    // A process that was just starting can show up in a second look.
    wait_until(VANISH, "the cluster's processes to vanish", || {
        let left = processes_of(dir);
        for process in &left {
            count += usize::from(process.signal(Signal::SIGKILL));
        }
        left.is_empty()
    })?;
    Ok(count)
}
