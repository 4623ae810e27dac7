//! Watching one job: its record now and at every change, until it is over.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_controller::command::Caller;
use sluice_controller::view;
use sluice_model::ids::JobId;
use sluice_model::job::JobInfo;
use sluice_proto::v1::JobEvent;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::super::Shared;
use super::reads::may_see;
use super::{Boxed, no_such_job};
use crate::core::{CoreError, now};

/// Messages waiting for a slow watcher.
const EVENTS_MAX: usize = 64;

/// Opens the stream. The id of an array watches all its records.
pub(super) fn watch(
    shared: &Arc<Shared>,
    id: JobId,
    caller: &Caller,
) -> Result<Boxed<JobEvent>, Status> {
    let cluster = shared.core.snapshot();
    let key = cluster
        .job(id)
        .map(|job| job.array_job_id())
        .or_else(|| cluster.arrays.contains_key(&id).then_some(id));
    let Some(key) = key else {
        return Err(no_such_job());
    };
    let owned = cluster.job(id).or_else(|| {
        cluster
            .array_members(id)
            .first()
            .and_then(|member| cluster.job(*member))
    });
    if !owned.is_some_and(|job| may_see(&cluster, caller, job)) {
        return Err(no_such_job());
    }
    let whole_array = key == id;
    let registration = shared.watchers.watch(key);
    let (sender, receiver) = mpsc::channel(EVENTS_MAX);
    let shared = Arc::clone(shared);
    let mut stopping = shared.shutdown.subscribe();
    tokio::spawn(async move {
        let mut sent: BTreeMap<JobId, JobInfo> = BTreeMap::new();
        loop {
            let cluster = shared.core.snapshot();
            let members = if whole_array {
                cluster.array_members(id)
            } else {
                vec![id]
            };
            let time = now();
            let mut over = true;
            for member in &members {
                let Some(job) = cluster.job(*member) else {
                    continue;
                };
                let info = view::job_info(&cluster, job, time);
                over &= info.state.is_finished() && !info.state.is_completing();
                let changed = sent.get(member).is_none_or(|before| differs(before, &info));
                if changed {
                    let event = JobEvent {
                        job: Some(info.clone().into()),
                        text: String::new(),
                    };
                    sent.insert(*member, info);
                    if sender.send(Ok(event)).await.is_err() {
                        return;
                    }
                }
            }
            if over {
                return;
            }
            tokio::select! {
                () = registration.changed() => {}
                () = sender.closed() => return,
                () = async { let _ = stopping.wait_for(|stop| *stop).await; } => {
                    // Said as an error: a stream that just ended would look like the end of the job.
                    let _ = sender.send(Err(CoreError::Stopped.into())).await;
                    return;
                }
            }
        }
    });
    Ok(Box::pin(ReceiverStream::new(receiver)))
}

/// Something a watcher acts upon is different.
fn differs(before: &JobInfo, now: &JobInfo) -> bool {
    before.state != now.state
        || before.reason != now.reason
        || before.nodes != now.nodes
        || before.restarts != now.restarts
        || before.time_limit != now.time_limit
        || before.exit_status != now.exit_status
        || before.array_task_string != now.array_task_string
}
