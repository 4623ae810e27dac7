//! How long a step daemon takes around an empty step; run by hand with `--ignored --nocapture`.

mod support;

use std::time::Instant;

use support::{RunningStep, batch_spec};

/// A figure to look at, not a limit: machines differ.
#[test]
#[ignore = "prints a measurement"]
fn null_steps_per_second() {
    const STEPS: u32 = 200;
    let mut spec = batch_spec(7, "");
    spec.launch.script = Some(b"#!/bin/true\n".to_vec());
    let begin = Instant::now();
    for _ in 0..STEPS {
        let exit = RunningStep::start(spec.clone()).finish();
        assert!(exit.tasks[0].1.is_success());
    }
    println!("{:?} a step", begin.elapsed() / STEPS);
}
