//! Calls that no command of ours makes, with tokens of ordinary users: agents' streams, submission keys, and too much of everything.

use super::{SOON, Scene};
use sluice_model::launch::{AgentReport, ReportEnvelope};
use sluice_model::node::NodeHardware;
use sluice_proto::encode_report;
use sluice_proto::v1::admin_client::AdminClient;
use sluice_proto::v1::agents_client::AgentsClient;
use sluice_proto::v1::scheduler_client::SchedulerClient;
use sluice_proto::v1::{
    DumpStateRequest, JobDescription, PingRequest, ShutdownRequest, SignalJobsRequest,
    SubmitRequest,
};
use sluice_testkit::{Cluster, Finished};
use sluice_tls::Trust;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};

async fn dial(port: u16) -> Channel {
    Endpoint::from_static("http://ctld")
        .connect_with_connector(sluice_tls::connector(
            "127.0.0.1",
            port,
            Trust::LoopbackOnly,
        ))
        .await
        .unwrap()
}

fn with_token<T>(message: T, token: &str) -> Request<T> {
    let mut request = Request::new(message);
    let value = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", value);
    request
}

fn job(key: &str) -> JobDescription {
    JobDescription {
        name: Some("j".to_owned()),
        script: Some(b"#!/bin/sh\ntrue\n".to_vec()),
        work_dir: "/tmp".to_owned(),
        std_out: Some("/dev/null".to_owned()),
        environment: vec!["PATH=/usr/bin:/bin".to_owned()],
        batch: true,
        hold: true,
        uid: u32::MAX,
        gid: u32::MAX,
        submission_key: key.to_owned(),
        ..JobDescription::default()
    }
}

fn submission(job: JobDescription) -> SubmitRequest {
    SubmitRequest {
        job: Some(job),
        test_only: false,
        ..SubmitRequest::default()
    }
}

/// See the head of this file.
#[test]
fn calls_that_no_command_makes_give_no_more_rights() {
    let Some(scene) = Scene::new(Cluster::builder().nodes(1)) else {
        return;
    };
    let token = |name: &str| {
        let said = scene
            .cluster
            .run("scontrol", ["token", &format!("username={name}")])
            .and_then(Finished::success)
            .unwrap();
        said.trim().strip_prefix("SLURM_JWT=").unwrap().to_owned()
    };
    let (ada, bob) = (token(&scene.ada.name), token(&scene.bob.name));
    let (ada_uid, port) = (scene.ada.uid.as_raw(), scene.cluster.layout().ctld_port);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let channel = dial(port).await;
        let mut scheduler =
            SchedulerClient::new(channel.clone()).max_encoding_message_size(256 << 20);
        // A key that was used belongs to its user: the same job again for Ada, a refusal for Bob, and Ada's stays hers.
        let first = scheduler
            .submit(with_token(submission(job("key-1")), &ada))
            .await
            .unwrap()
            .into_inner();
        let again = scheduler
            .submit(with_token(submission(job("key-1")), &ada))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(
            (again.job_id, first.existing, again.existing),
            (first.job_id, false, true)
        );
        let replayed = scheduler
            .submit(with_token(submission(job("key-1")), &bob))
            .await
            .unwrap_err();
        assert_eq!(
            sluice_proto::error_code_of(&replayed).map(|code| code.number()),
            Some(2002),
            "{replayed:?}"
        );
        let again = scheduler
            .submit(with_token(submission(job("key-1")), &ada))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(again.job_id, first.job_id);

        // Another's uid or root's, in the description.
        for uid in [0, ada_uid] {
            let named = JobDescription { uid, ..job("") };
            let refused = scheduler.submit(with_token(submission(named), &bob)).await;
            assert!(refused.is_err(), "{refused:?}");
        }
        // Root's group is not given, whatever is asked for.
        let group = JobDescription { gid: 0, ..job("") };
        if let Ok(done) = scheduler.submit(with_token(submission(group), &bob)).await {
            let id = done.into_inner().job_id.to_string();
            let shown = scene
                .cluster
                .run("scontrol", ["show", "job", "-o", &id])
                .unwrap()
                .stdout;
            assert!(!shown.contains("GroupId=root(0)"), "{shown}");
        }

        // A user is no agent, and no administrator.
        let register = ReportEnvelope {
            sequence: 0,
            report: AgentReport::Register {
                node: "n1".to_owned(),
                hardware: NodeHardware::default(),
                steps: Vec::new(),
                jobs: Vec::new(),
                config_version: 0,
                health_error: None,
            },
        };
        let stream = tokio_stream_of(encode_report(&register).unwrap());
        let refused = AgentsClient::new(channel.clone())
            .connect(with_token(stream, &bob))
            .await
            .unwrap_err();
        assert!(
            refused.message().contains("may not register node n1"),
            "{refused:?}"
        );
        let mut admin = AdminClient::new(channel.clone());
        assert!(
            admin
                .shutdown(with_token(ShutdownRequest::default(), &bob))
                .await
                .is_err()
        );
        assert!(
            admin
                .dump_state(with_token(DumpStateRequest {}, &bob))
                .await
                .is_err()
        );

        // Without a token nothing is even decoded.
        let mut bare = SchedulerClient::new(channel.clone());
        let refused = bare.ping(PingRequest {}).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused:?}");

        // Too large a message, too many targets: refused in words, and the controller goes on.
        let huge = JobDescription {
            comment: Some("x".repeat(70 << 20)),
            ..job("")
        };
        let refused = scheduler
            .submit(with_token(submission(huge), &bob))
            .await
            .unwrap_err();
        assert!(
            matches!(refused.code(), Code::OutOfRange | Code::ResourceExhausted),
            "{refused:?}"
        );
        // More than any program could be started with.
        let crowded = JobDescription {
            environment: (0..70)
                .map(|nth| format!("X{nth}={}", "x".repeat(100_000)))
                .collect(),
            ..job("")
        };
        let refused = scheduler
            .submit(with_token(submission(crowded), &bob))
            .await
            .unwrap_err();
        assert!(refused.message().contains("environment"), "{refused:?}");
        let many = SignalJobsRequest {
            targets: vec!["999999".to_owned(); 200_000],
            ..SignalJobsRequest::default()
        };
        let _ = scheduler.signal_jobs(with_token(many, &bob)).await;
        scheduler
            .ping(with_token(PingRequest {}, &bob))
            .await
            .unwrap();
    });
    let own = scene.sbatch(&scene.ada, &["-o", "/dev/null", "--wrap", "exit 3"]);
    assert_eq!(scene.cluster.wait_job_end(own, SOON).unwrap(), "FAILED");
}

/// A stream of one message that then stays open, as an agent's.
fn tokio_stream_of(
    message: sluice_proto::v1::AgentMessage,
) -> impl tonic::codegen::tokio_stream::Stream<Item = sluice_proto::v1::AgentMessage> + Send + 'static
{
    tonic::codegen::tokio_stream::once(message)
}
