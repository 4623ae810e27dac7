//! `sluice journal check|repair|replay DIR`: the state folder of a stopped controller.
//!
//! Exit code 1 when a start of `ctld` would refuse the folder, or a repair was refused. The report is on standard output.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use sluice_ctld::journal::Position;
use sluice_ctld::offline;

pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    let (what, rest) = args.split_first().context("check, repair or replay?")?;
    let mut dir = None;
    let (mut accept_loss, mut from_oldest, mut until, mut output) = (false, false, None, None);
    let mut rest = rest.iter();
    while let Some(arg) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("{arg} needs a value"));
        match (what.as_str(), arg.as_str()) {
            ("repair", "--accept-loss") => accept_loss = true,
            ("replay", "--from-oldest") => from_oldest = true,
            ("replay", "--until") => {
                until = Some(Position(
                    value()?.parse().context("--until needs a position")?,
                ))
            }
            ("replay", "--output" | "-o") => output = Some(PathBuf::from(value()?)),
            (_, path) if !path.starts_with('-') && dir.is_none() => dir = Some(PathBuf::from(path)),
            _ => bail!("journal {what}: unexpected argument {arg}"),
        }
    }
    let dir = offline::state_dir(&dir.context("name the folder of StateSaveLocation")?)?;
    match what.as_str() {
        "check" => check(&dir),
        "repair" => repair(&dir, accept_loss),
        "replay" => {
            let output = output.context("say where to with --output FILE")?;
            let (at, state) = offline::replay(&dir, until, from_oldest)?;
            std::fs::write(&output, &state)
                .with_context(|| format!("cannot write {}", output.display()))?;
            println!("position {at}, {} bytes", state.len());
            Ok(ExitCode::SUCCESS)
        }
        _ => bail!("journal {what}: check, repair and replay are known"),
    }
}

fn check(dir: &Path) -> Result<ExitCode> {
    let found = offline::check(dir)?;
    print!("{}", found.report());
    if found.is_sound() {
        println!("ctld starts from this");
        return Ok(ExitCode::SUCCESS);
    }
    println!("ctld refuses to start from this; see `sluice journal repair`");
    Ok(ExitCode::FAILURE)
}

fn repair(dir: &Path, accept_loss: bool) -> Result<ExitCode> {
    let found = offline::check(dir)?;
    if accept_loss {
        print!("{}", found.report());
    }
    for line in offline::repair(dir, accept_loss)? {
        println!("{line}");
    }
    println!("ctld starts from this");
    Ok(ExitCode::SUCCESS)
}
