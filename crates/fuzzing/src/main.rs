//! `sluice-fuzz`: the smoke run of the fuzz targets on a stable compiler; `cargo xtask fuzz` builds and calls it.
//!
//! Exit code 0 nothing found, 1 findings, 2 wrongly called. Findings and figures go to standard error.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sluice_fuzzing::smoke::{Inputs, run_all, run_here};
use sluice_fuzzing::{TARGETS, mutate, target};

const USAGE: &str = "\
sluice-fuzz [TARGET…] [--seconds N] [--seed N]     mutated inputs for all targets, or those named, for N seconds in all
sluice-fuzz TARGET --seed N --from N [--count N]   the same inputs again, in this process
sluice-fuzz --list                                 names of the targets
sluice-fuzz TARGET --corpus DIR                    write the valid inputs to files, for cargo fuzz
sluice-fuzz TARGET --file FILE                     one input from a file
";

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sluice-fuzz: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Vec<String>) -> Result<()> {
    let mut names = Vec::new();
    let (mut seed, mut from, mut count, mut time) = (1, None, None, Duration::from_secs(60));
    let (mut child, mut place, mut corpus, mut file) = (None, None, None, None);
    let mut rest = args.into_iter();
    while let Some(arg) = rest.next() {
        let mut value = || {
            rest.next()
                .with_context(|| format!("{arg} needs a value\n\n{USAGE}"))
        };
        match arg.as_str() {
            "--seed" => seed = value()?.parse()?,
            "--from" => from = Some(value()?.parse()?),
            "--count" => count = Some(value()?.parse()?),
            "--seconds" => time = Duration::from_secs(value()?.parse()?),
            "--millis" => time = Duration::from_millis(value()?.parse()?),
            "--child" => child = Some(value()?),
            "--place" => place = Some(PathBuf::from(value()?)),
            "--corpus" => corpus = Some(PathBuf::from(value()?)),
            "--file" => file = Some(PathBuf::from(value()?)),
            "--list" => {
                for target in TARGETS {
                    println!("{}", target.name);
                }
                return Ok(());
            }
            "--help" | "-h" => {
                print!("{USAGE}");
                return Ok(());
            }
            name if !name.starts_with('-') => names.push(name.to_owned()),
            _ => bail!("unknown argument {arg}\n\n{USAGE}"),
        }
    }
    let one = |name: Option<&String>| {
        let name = name.with_context(|| format!("name a target\n\n{USAGE}"))?;
        target(name).with_context(|| format!("there is no target {name}"))
    };
    if let Some(dir) = corpus {
        std::fs::create_dir_all(&dir)?;
        for (nth, seed) in (one(names.first())?.seeds)().into_iter().enumerate() {
            std::fs::write(dir.join(format!("seed-{nth}")), seed)?;
        }
        return Ok(());
    }
    if let Some(path) = file {
        sluice_fuzzing::run(one(names.first())?.name, &std::fs::read(path)?);
        return Ok(());
    }
    let inputs = Inputs {
        seed,
        from: from.unwrap_or(0),
        time,
        count: count.unwrap_or(if from.is_some() { 1 } else { u64::MAX }),
    };
    if let Some(name) = child {
        return run_here(one(Some(&name))?, &inputs, place.as_deref());
    }
    if let Some(number) = from {
        let target = one(names.first())?;
        if inputs.count == 1 && target.reset.is_none() {
            let input = mutate::input(target.mutation, &(target.seeds)(), seed, number);
            eprintln!("{:?}", String::from_utf8_lossy(&input));
        }
        return run_here(target, &inputs, None);
    }
    run_all(&std::env::current_exe()?, &names, seed, time)
}
