//! Runs MailProg for `--mail-type`: one process per message, with a deadline, never in the way of anything else.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::mpsc;

/// Longest time MailProg may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Sends messages until the queue is closed.
pub async fn run(mut queue: mpsc::UnboundedReceiver<(String, String)>, program: String) {
    while let Some((to, subject)) = queue.recv().await {
        let child = Command::new(&program)
            .args(["-s", &subject, &to])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .status();
        match tokio::time::timeout(DEADLINE, child).await {
            Ok(Ok(status)) if status.success() => {}
            Ok(Ok(status)) => {
                tracing::warn!("MailProg {program} ended with {status} for mail to {to}")
            }
            Ok(Err(error)) => tracing::warn!("MailProg {program} cannot be run: {error}"),
            Err(_) => {
                tracing::warn!("MailProg {program} took longer than {DEADLINE:?} and was ended")
            }
        }
    }
}
