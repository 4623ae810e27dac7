//! Retries of a submission: a client that got no answer asks again and must get the same job, never a second one.
//!
//! Seen through gRPC, because the commands retry by themselves and would hide it.

use std::path::PathBuf;

use sluice_proto::v1::scheduler_client::SchedulerClient;
use sluice_proto::v1::{JobDescription, SubmitReply, SubmitRequest};
use sluice_testkit::Cluster;
use tonic::transport::{Channel, Endpoint};

use super::{READY, cluster};

async fn connect(socket: PathBuf) -> SchedulerClient<Channel> {
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move {
            let stream = tokio::net::UnixStream::connect(socket).await?;
            Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
        }
    });
    let channel = Endpoint::from_static("http://ctld")
        .connect_with_connector(connector)
        .await
        .unwrap();
    SchedulerClient::new(channel)
}

fn submit(cluster: &Cluster, key: &str) -> SubmitReply {
    let socket = cluster.path("run").join("ctld.test.sock");
    let job = JobDescription {
        name: Some("once".to_owned()),
        script: Some(b"#!/bin/sh\ntrue\n".to_vec()),
        work_dir: "/tmp".to_owned(),
        batch: true,
        hold: true,
        submission_key: key.to_owned(),
        ..JobDescription::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let request = SubmitRequest {
            job: Some(job),
            test_only: false,
            components: Vec::new(),
        };
        connect(socket)
            .await
            .submit(request)
            .await
            .unwrap()
            .into_inner()
    })
}

/// The same key gives the same job, before and after a crash; another key gives another job.
#[test]
fn a_retried_submission_is_the_same_job_even_after_a_crash() {
    let mut cluster = cluster();
    let first = submit(&cluster, "key-1");
    let retry = submit(&cluster, "key-1");
    assert!(!first.existing && retry.existing);
    assert_eq!(retry.job_id, first.job_id);
    cluster.kill_ctld().unwrap();
    cluster.start_ctld().unwrap();
    cluster.wait_ready(READY).unwrap();
    let later = submit(&cluster, "key-1");
    assert!(later.existing);
    assert_eq!(later.job_id, first.job_id);
    let other = submit(&cluster, "key-2");
    assert!(!other.existing);
    assert_ne!(other.job_id, first.job_id);
    let queue = cluster
        .run("squeue", ["-h", "-n", "once", "-o", "%i"])
        .and_then(|done| done.success())
        .unwrap();
    assert_eq!(queue.lines().count(), 2, "{queue}");
}
