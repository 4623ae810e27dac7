//! The smoke run: mutated inputs for each target for some seconds, each target in a process of its own.
//!
//! The child tells where it is in a small file before each input, so that its end of whatever kind (panic, signal, time,
//! memory) names the input. Stateful targets begin anew every so many inputs; a finding of theirs is repeated from there.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::resource::{Resource, setrlimit};

use crate::{TARGETS, Target, mutate};

/// Longest time for one input, unoptimized and with other work on the machine.
const INPUT_TIME: Duration = Duration::from_secs(10);
/// Address space of a child, in bytes. Threads' stacks count, so it is far above what is used.
const MEMORY_BYTES: u64 = 6 << 30;
/// Inputs between two resets of a stateful target.
const RESET_EVERY: u64 = 400;

/// Which inputs.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// Seed of all mutations.
    pub seed: u64,
    /// First number.
    pub from: u64,
    /// How long, if not for a given number of inputs.
    pub time: Duration,
    /// How many at most.
    pub count: u64,
}

/// Runs all targets (or those named) one after the other in children of `program`; fails when any has a finding.
///
/// # Errors
/// The findings, or a child that cannot be started.
pub fn run_all(
    program: &std::path::Path,
    names: &[String],
    seed: u64,
    time: Duration,
) -> Result<()> {
    let targets: Vec<&Target> = TARGETS
        .iter()
        .filter(|target| names.is_empty() || names.iter().any(|name| name == target.name))
        .collect();
    if let Some(name) = names.iter().find(|name| crate::target(name).is_none()) {
        bail!("there is no target {name}");
    }
    let each = time / u32::try_from(targets.len().max(1))?;
    let mut findings = Vec::new();
    for target in targets {
        if let Err(error) = run_child(program, target, seed, each) {
            eprintln!("{}: {error:#}", target.name);
            findings.push(target.name);
        }
    }
    if findings.is_empty() {
        Ok(())
    } else {
        bail!("findings in {}", findings.join(", "))
    }
}

fn run_child(program: &std::path::Path, target: &Target, seed: u64, time: Duration) -> Result<()> {
    let place = tempfile::NamedTempFile::new()?;
    let status = Command::new(program)
        .args(["--child", target.name])
        .args(["--seed", &seed.to_string()])
        .args(["--millis", &time.as_millis().to_string()])
        .arg("--place")
        .arg(place.path())
        .stdin(Stdio::null())
        .status()
        .context("a child cannot be started")?;
    if status.success() {
        return Ok(());
    }
    let text = std::fs::read_to_string(place.path()).unwrap_or_default();
    let number: u64 = text.trim().parse().unwrap_or_default();
    let from = if target.reset.is_some() {
        number - number % RESET_EVERY
    } else {
        number
    };
    bail!(
        "input {number} of seed {seed}: {status}; again with `cargo xtask fuzz {} --seed {seed} --from {from} --count {}`",
        target.name,
        number - from + 1
    )
}

/// Runs inputs of one target in this process; any fault ends the process.
///
/// # Errors
/// Never for a finding; only when the process cannot be limited.
pub fn run_here(target: &Target, inputs: &Inputs, place: Option<&std::path::Path>) -> Result<()> {
    // A panic of any thread is a finding, also where a server would catch it.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        std::process::abort();
    }));
    setrlimit(Resource::RLIMIT_AS, MEMORY_BYTES, MEMORY_BYTES)
        .context("memory cannot be limited")?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    let place = place
        .map(|path| File::options().write(true).open(path))
        .transpose()?;
    let begun_at = watch_time();
    let seeds = (target.seeds)();
    let deadline = Instant::now() + inputs.time;
    let mut number = inputs.from;
    let mut slowest = (Duration::ZERO, 0);
    while number - inputs.from < inputs.count && Instant::now() < deadline {
        if let Some(file) = &place {
            file.write_all_at(format!("{number:20}").as_bytes(), 0)?;
        }
        if let Some(reset) = target.reset
            && (number == inputs.from || number.is_multiple_of(RESET_EVERY))
        {
            reset();
        }
        // The valid inputs themselves come first.
        let input = match seeds.get(usize::try_from(number)?) {
            Some(seed) => seed.clone(),
            None => mutate::input(target.mutation, &seeds, inputs.seed, number),
        };
        let begun = Instant::now();
        begun_at.store(since_start(), Ordering::Relaxed);
        (target.run)(&input);
        begun_at.store(u64::MAX, Ordering::Relaxed);
        slowest = slowest.max((begun.elapsed(), number));
        number += 1;
    }
    if let Some(reset) = target.reset {
        reset();
    }
    eprintln!(
        "{:14} {:8} inputs of seed {}; slowest {:?} (input {})",
        target.name,
        number - inputs.from,
        inputs.seed,
        slowest.0,
        slowest.1
    );
    Ok(())
}

fn since_start() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}

/// A thread that ends the process when one input takes too long.
fn watch_time() -> std::sync::Arc<AtomicU64> {
    let begun = std::sync::Arc::new(AtomicU64::new(u64::MAX));
    let seen = std::sync::Arc::clone(&begun);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(200));
            let begun = seen.load(Ordering::Relaxed);
            if since_start().saturating_sub(begun) > INPUT_TIME.as_millis() as u64 {
                eprintln!("one input takes longer than {INPUT_TIME:?}");
                std::process::abort();
            }
        }
    });
    begun
}
