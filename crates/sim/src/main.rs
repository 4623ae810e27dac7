//! `sluice-sim`: runs seeds until one fails, their number is reached, or the time is over. Called by `cargo xtask sim`.
//!
//! Exit code: 0 all went well, 1 a seed failed, 2 wrongly called.

use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str =
    "usage: sluice-sim [--seed N] [--seeds COUNT] [--secs BOX] [--trace LINES] [--keep-going]";

/// What was asked for.
struct Call {
    first: u64,
    count: u64,
    time: Option<Duration>,
    keep_going: bool,
    trace: usize,
}

fn parse(mut args: impl Iterator<Item = String>) -> Option<Call> {
    let mut call = Call {
        first: 0,
        count: u64::MAX,
        time: None,
        keep_going: false,
        trace: sluice_sim::TRACE_LINES,
    };
    let mut given = (false, false);
    while let Some(arg) = args.next() {
        if arg == "--keep-going" {
            call.keep_going = true;
            continue;
        }
        let value: u64 = args.next()?.parse().ok()?;
        match arg.as_str() {
            "--seed" => (call.first, given.0) = (value, true),
            "--seeds" => (call.count, given.1) = (value, true),
            "--trace" => call.trace = usize::try_from(value).unwrap_or(usize::MAX),
            "--secs" => call.time = Some(Duration::from_secs(value)),
            _ => return None,
        }
    }
    if !given.1 && call.time.is_none() {
        call.count = if given.0 { 1 } else { 200 };
    }
    Some(call)
}

fn main() -> ExitCode {
    let Some(call) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let begin = Instant::now();
    let (mut runs, mut failed, mut steps, mut jobs, mut scripts, mut simulated_ms) =
        (0_u64, 0_u64, 0, 0, 0, 0);
    while runs < call.count && call.time.is_none_or(|time| begin.elapsed() < time) {
        let seed = call.first.wrapping_add(runs);
        runs += 1;
        match sluice_sim::run(seed, call.trace) {
            Ok(summary) => {
                steps += summary.steps;
                jobs += summary.acknowledged;
                scripts += summary.scripts;
                simulated_ms += summary.simulated_ms;
            }
            Err(failure) if call.keep_going => {
                let text = failure.violation.to_string();
                println!(
                    "seed {seed}: {}",
                    text.chars()
                        .take(300)
                        .collect::<String>()
                        .replace('\n', " ")
                );
                failed += 1;
            }
            Err(failure) => {
                eprintln!("{failure}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!(
        "{runs} seeds from {}: {failed} failed; {steps} happenings, {jobs} submissions, {scripts} scripts, {} simulated hours in {:.1} s",
        call.first,
        simulated_ms / 3_600_000,
        begin.elapsed().as_secs_f64()
    );
    if failed > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
