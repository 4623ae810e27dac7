//! How many empty jobs an agent gets through; run by hand with `--ignored --nocapture`.

mod support;

use std::time::Instant;

use sluice_model::launch::{AgentOrder, AgentReport};
use support::{Controller, Node, batch, job, terminate};

/// A figure to look at, not a limit: machines differ.
#[tokio::test]
#[ignore = "prints a measurement"]
async fn null_jobs_per_second() {
    const JOBS: u32 = 400;
    const AT_ONCE: u32 = 4;
    let mut controller = Controller::start(0).await;
    let mut node = Node::new(controller.port, |_| String::new());
    node.start();
    controller.register(&[]).await;
    let launch = |controller: &Controller, id: u32| {
        let mut step = batch(id, 0, "", std::path::Path::new("/dev/null"));
        step.script = Some(b"#!/bin/true\n".to_vec());
        controller.order(&AgentOrder::StartJob(job(id, 0)));
        controller.order(&AgentOrder::LaunchStep(step));
    };
    let begin = Instant::now();
    let mut next = 1;
    while next <= AT_ONCE {
        launch(&controller, next);
        next += 1;
    }
    for _ in 0..JOBS {
        loop {
            let event = controller.expect("report", |report| match report {
                AgentReport::StepEnded(exit) => Some((exit.job_id, false)),
                AgentReport::EpilogDone { job_id, .. } => Some((*job_id, true)),
                _ => None,
            });
            let (id, over) = event.await;
            if over {
                break;
            }
            controller.order(&terminate(id.0, 0, 0));
        }
        if next <= JOBS {
            launch(&controller, next);
            next += 1;
        }
    }
    let elapsed = begin.elapsed();
    println!(
        "{:.0} jobs/s, {:?} each",
        f64::from(JOBS) / elapsed.as_secs_f64(),
        elapsed / JOBS
    );

    // One at a time: from the order to the first process, and to the report of the end.
    let (mut start, mut end) = (Vec::new(), Vec::new());
    for id in JOBS + 1..JOBS + 51 {
        let begin = Instant::now();
        launch(&controller, id);
        controller
            .expect("start", |report| {
                matches!(report, AgentReport::StepStarted { .. }).then_some(())
            })
            .await;
        start.push(begin.elapsed());
        controller
            .expect("end", |report| {
                matches!(report, AgentReport::StepEnded(_)).then_some(())
            })
            .await;
        end.push(begin.elapsed());
        controller.order(&terminate(id, 0, 0));
        controller
            .expect("epilog", |report| {
                matches!(report, AgentReport::EpilogDone { .. }).then_some(())
            })
            .await;
    }
    start.sort_unstable();
    end.sort_unstable();
    println!(
        "median: started after {:?}, ended after {:?}",
        start[25], end[25]
    );
}
