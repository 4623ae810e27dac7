//! Following a job until something happens to it, over lost connections and restarts of the controller.
//!
//! A lost stream is opened again; only a controller that says the job is unknown ends the wait.

use std::time::Duration;

use sluice_model::exit_status::WaitStatus;
use sluice_model::job::JobInfo;
use sluice_model::state::{JobState, JobStateFlags};

use crate::client::{Client, ClientError};

/// Pause before a lost stream is opened again.
const REOPEN_PAUSE: Duration = Duration::from_millis(200);

/// Pause between two looks at the tasks of an array.
const ARRAY_PAUSE: Duration = Duration::from_millis(300);

/// How long a controller that went away is waited for.
const CONTROLLER_PATIENCE: Duration = Duration::from_secs(3600);

/// True once processes may be started.
pub fn is_ready(job: &JobInfo) -> bool {
    job.state.base == JobState::Running && !job.state.flags.contains(JobStateFlags::CONFIGURING)
}

/// Waits until `done` says so about the job; lines for the user go to `say`.
pub async fn until(
    client: &mut Client,
    job_id: u32,
    mut done: impl FnMut(&JobInfo) -> bool,
    mut say: impl FnMut(&str),
) -> Result<JobInfo, ClientError> {
    loop {
        match follow(client, job_id, &mut done, &mut say).await {
            Ok(Some(job)) => return Ok(job),
            Ok(None) => tokio::time::sleep(REOPEN_PAUSE).await,
            Err(error) if error.is_contact() => {
                tokio::time::sleep(REOPEN_PAUSE).await;
                *client = Client::connect_to(client.settings.clone(), CONTROLLER_PATIENCE).await?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// One stream; `None` when it ended without the awaited state.
async fn follow(
    client: &Client,
    job_id: u32,
    done: &mut impl FnMut(&JobInfo) -> bool,
    say: &mut impl FnMut(&str),
) -> Result<Option<JobInfo>, ClientError> {
    let mut stream = client.watch(job_id).await?;
    while let Some(event) = stream.message().await? {
        if !event.text.is_empty() {
            say(&event.text);
        }
        let Some(job) = event.job else { continue };
        let job = JobInfo::try_from(job)?;
        if done(&job) || job.state.is_completed() {
            return Ok(Some(job));
        }
    }
    Ok(None)
}

/// Waits for the end of every task of an array; the highest status counts.
pub async fn array_end(client: &mut Client, array_id: u32) -> Result<WaitStatus, ClientError> {
    loop {
        match client.job(array_id).await {
            Ok(tasks) => {
                let ended =
                    |job: &JobInfo| job.state.is_finished() && job.array_task_string.is_none();
                if !tasks.is_empty()
                    && tasks
                        .iter()
                        .all(|job| ended(job) || job.state.base == JobState::Cancelled)
                {
                    return Ok(tasks
                        .iter()
                        .map(|job| job.exit_status)
                        .max()
                        .unwrap_or_default());
                }
                if tasks.is_empty() {
                    return Ok(WaitStatus::default());
                }
            }
            Err(error) if error.is_contact() => {
                *client = Client::connect_to(client.settings.clone(), CONTROLLER_PATIENCE).await?;
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(ARRAY_PAUSE).await;
    }
}
