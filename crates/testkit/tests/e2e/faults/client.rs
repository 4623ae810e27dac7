//! A client as a careful user's tool is: it asks again until it has an answer, with the same submission key.
//!
//! It speaks gRPC to the Unix socket, because the commands would retry by themselves and hide what is tested.

use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sluice_proto::error_code_of;
use sluice_proto::v1::admin_client::AdminClient;
use sluice_proto::v1::scheduler_client::SchedulerClient;
use sluice_proto::v1::{
    DumpStateRequest, HoldJobsRequest, HoldKind, JobDescription, JobUpdate, RequeueJobsRequest,
    SignalJobsRequest, SubmitRequest, UpdateJobsRequest,
};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

/// How long the controller may stay away.
const PATIENCE: Duration = Duration::from_secs(60);
/// A call whose answer is lost without the connection being closed.
const CALL: Duration = Duration::from_secs(5);

/// A client with a runtime of its own; one for each thread.
pub struct Client {
    runtime: tokio::runtime::Runtime,
    socket: PathBuf,
    connection: Option<SchedulerClient<Channel>>,
}

impl Client {
    pub fn new(socket: PathBuf) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        Self {
            runtime,
            socket,
            connection: None,
        }
    }

    /// Calls until there is an answer; a refusal is one.
    fn call<T, F>(
        &mut self,
        what: &str,
        mut call: impl FnMut(SchedulerClient<Channel>) -> F,
    ) -> Result<T, Status>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let socket = self.socket.clone();
            let connection = self.connection.take();
            let answer = self.runtime.block_on(async {
                let client = match connection {
                    Some(client) => client,
                    None => connect(socket).await?,
                };
                let value = tokio::time::timeout(CALL, call(client.clone()))
                    .await
                    .map_err(|_| Status::unavailable("no answer"))?;
                Ok::<_, Status>((client, value))
            });
            let failed = match answer {
                Ok((client, Ok(value))) => {
                    self.connection = Some(client);
                    return Ok(value);
                }
                Ok((_, Err(status))) if error_code_of(&status).is_some() => return Err(status),
                Ok((_, Err(status))) | Err(status) => status,
            };
            assert!(
                Instant::now() < deadline,
                "{what}: no answer for {} s: {failed}",
                PATIENCE.as_secs()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Submits; gives the job's id.
    pub fn submit(&mut self, job: &JobDescription) -> u32 {
        let key = job.submission_key.clone();
        self.try_submit(job)
            .unwrap_or_else(|status| panic!("submission {key} was refused: {status}"))
    }

    pub fn try_submit(&mut self, job: &JobDescription) -> Result<u32, Status> {
        self.call("submit", |mut client| {
            let request = SubmitRequest {
                job: Some(job.clone()),
                test_only: false,
                ..SubmitRequest::default()
            };
            async move { Ok(client.submit(request).await?.into_inner().job_id) }
        })
    }

    /// Ends a job. That it has ended already is no error.
    pub fn cancel(&mut self, job: u32) {
        let done = self.call("cancel", |mut client| {
            let request = SignalJobsRequest {
                targets: vec![job.to_string()],
                ..SignalJobsRequest::default()
            };
            async move { client.signal_jobs(request).await.map(drop) }
        });
        done.unwrap_or_else(|status| panic!("job {job} was not cancelled: {status}"));
    }

    /// Changes a job. That it has ended meanwhile is no error.
    pub fn update_comment(&mut self, job: u32, comment: &str) {
        let done = self.call("update", |mut client| {
            let request = UpdateJobsRequest {
                selectors: vec![job.to_string()],
                update: Some(JobUpdate {
                    comment: Some(comment.to_owned()),
                    ..JobUpdate::default()
                }),
                ..UpdateJobsRequest::default()
            };
            async move { client.update_jobs(request).await.map(drop) }
        });
        done.unwrap_or_else(|status| panic!("job {job} was not updated: {status}"));
    }

    /// Holds or releases a job; refused when it is not waiting (any more).
    pub fn hold(&mut self, job: u32, kind: HoldKind) {
        let done = self.call("hold", |mut client| {
            let request = HoldJobsRequest {
                selectors: vec![job.to_string()],
                kind: kind.into(),
            };
            async move { client.hold_jobs(request).await.map(drop) }
        });
        done.unwrap_or_else(|status| panic!("job {job} was not held or released: {status}"));
    }

    /// The whole state with its journal position.
    pub fn dump_state(&mut self, request: DumpStateRequest) -> (u64, Vec<u8>) {
        let socket = self.socket.clone();
        self.runtime.block_on(async {
            let channel = channel(socket).await.unwrap();
            let mut chunks = AdminClient::new(channel)
                .dump_state(request)
                .await
                .unwrap()
                .into_inner();
            let (mut position, mut state) = (0, Vec::new());
            while let Some(chunk) = chunks.message().await.unwrap() {
                position = chunk.position;
                state.extend(chunk.data);
            }
            (position, state)
        })
    }

    /// Requeues a job. Asked twice, because the first answer was lost, it may be refused as waiting already.
    pub fn requeue(&mut self, job: u32) {
        let done = self.call("requeue", |mut client| {
            let request = RequeueJobsRequest {
                selectors: vec![job.to_string()],
                ..RequeueJobsRequest::default()
            };
            async move { client.requeue_jobs(request).await.map(drop) }
        });
        done.unwrap_or_else(|status| panic!("job {job} was not requeued: {status}"));
    }
}

async fn connect(socket: PathBuf) -> Result<SchedulerClient<Channel>, Status> {
    channel(socket).await.map(SchedulerClient::new)
}

async fn channel(socket: PathBuf) -> Result<Channel, Status> {
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move {
            let stream = tokio::net::UnixStream::connect(socket).await?;
            Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
        }
    });
    Endpoint::from_static("http://ctld")
        .connect_with_connector(connector)
        .await
        .map_err(|error| Status::unavailable(error.to_string()))
}
