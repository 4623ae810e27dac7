//! Load generator: several clients submit null jobs to a `ctld` over gRPC as fast as they are answered.
//!
//! `submit_load SOCKET CLIENTS JOBS hold|run`. Each client has a connection of its own to the Unix socket and waits for
//! each answer, which `ctld` gives only after the submission is on disk. Prints one line: `jobs J secs S rate R median_ms M
//! p99_ms P`, which `cargo xtask bench` reads.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sluice_proto::v1::scheduler_client::SchedulerClient;
use sluice_proto::v1::{JobDescription, SubmitRequest};
use tonic::transport::{Channel, Endpoint};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [socket, clients, jobs, mode] = args.as_slice() else {
        bail!("usage: submit_load SOCKET CLIENTS JOBS hold|run");
    };
    let clients: usize = clients.parse().context("CLIENTS")?;
    let jobs: usize = jobs.parse().context("JOBS")?;
    let hold = match mode.as_str() {
        "hold" => true,
        "run" => false,
        other => bail!("the mode is hold or run, not {other}"),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let (secs, mut latencies) = runtime.block_on(load(socket.into(), clients, jobs, hold))?;
    latencies.sort_unstable();
    let ms = |part: f64| {
        let nth = ((latencies.len() - 1) as f64 * part) as usize;
        latencies[nth].as_secs_f64() * 1e3
    };
    println!(
        "jobs {} secs {secs:.3} rate {:.0} median_ms {:.2} p99_ms {:.2}",
        latencies.len(),
        latencies.len() as f64 / secs,
        ms(0.5),
        ms(0.99),
    );
    Ok(())
}

async fn load(
    socket: PathBuf,
    clients: usize,
    jobs: usize,
    hold: bool,
) -> Result<(f64, Vec<Duration>)> {
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(connect(socket.clone()).await?);
    }
    let start = Instant::now();
    let tasks: Vec<_> = connections
        .into_iter()
        .map(|client| tokio::spawn(submit(client, jobs.div_ceil(clients), hold)))
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    Ok((start.elapsed().as_secs_f64(), latencies))
}

async fn connect(socket: PathBuf) -> Result<SchedulerClient<Channel>> {
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move {
            let stream = tokio::net::UnixStream::connect(socket).await?;
            Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
        }
    });
    let channel = Endpoint::from_static("http://ctld")
        .connect_with_connector(connector)
        .await?;
    Ok(SchedulerClient::new(channel))
}

async fn submit(
    mut client: SchedulerClient<Channel>,
    jobs: usize,
    hold: bool,
) -> Result<Vec<Duration>> {
    let mut latencies = Vec::with_capacity(jobs);
    let job = JobDescription {
        name: Some("null".to_owned()),
        script: Some(b"#!/bin/sh\nexit 0\n".to_vec()),
        work_dir: "/tmp".to_owned(),
        std_out: Some("/dev/null".to_owned()),
        environment: vec!["PATH=/usr/bin:/bin".to_owned()],
        batch: true,
        hold,
        umask: 0o022,
        ..JobDescription::default()
    };
    for _ in 0..jobs {
        let request = SubmitRequest {
            job: Some(job.clone()),
            test_only: false,
            components: Vec::new(),
        };
        let start = Instant::now();
        client.submit(request).await?;
        latencies.push(start.elapsed());
    }
    Ok(latencies)
}
