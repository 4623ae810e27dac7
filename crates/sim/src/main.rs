//! `sluice-sim`: runs seeds until one fails, their number is reached, or the time is over. Called by `cargo xtask sim`.
//!
//! Exit code: 0 all went well, 1 a seed failed, 2 wrongly called.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sluice_sim::{Failure, Summary};

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

/// What all seeds did.
#[derive(Default)]
struct Total {
    runs: u64,
    failed: u64,
    steps: u64,
    jobs: usize,
    scripts: usize,
    simulated_ms: u64,
}

impl Total {
    /// Adds one seed; a failure is told at once, in short where more are to come.
    fn add(&mut self, seed: u64, outcome: Result<Summary, Box<Failure>>, keep_going: bool) {
        self.runs += 1;
        match outcome {
            Ok(summary) => {
                self.steps += summary.steps;
                self.jobs += summary.acknowledged;
                self.scripts += summary.scripts;
                self.simulated_ms += summary.simulated_ms;
            }
            Err(failure) if keep_going => {
                let text = failure.violation.to_string();
                println!(
                    "seed {seed}: {}",
                    text.chars()
                        .take(300)
                        .collect::<String>()
                        .replace('\n', " ")
                );
                self.failed += 1;
            }
            Err(failure) => {
                eprintln!("{failure}");
                self.failed += 1;
            }
        }
    }
}

fn main() -> ExitCode {
    let Some(call) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let begin = Instant::now();
    // Each seed is a world of its own: as many at a time as there are processors.
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = AtomicU64::new(0);
    let total = Mutex::new(Total::default());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let in_time = call.time.is_none_or(|time| begin.elapsed() < time);
                    if number >= call.count || !in_time {
                        return;
                    }
                    let seed = call.first.wrapping_add(number);
                    let outcome = sluice_sim::run(seed, call.trace);
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    if total.failed > 0 && !call.keep_going {
                        return;
                    }
                    total.add(seed, outcome, call.keep_going);
                }
            });
        }
    });
    let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    let Total {
        runs,
        failed,
        steps,
        jobs,
        scripts,
        simulated_ms,
    } = total;
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
