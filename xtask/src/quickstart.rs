//! `cargo xtask quickstart`: a private cluster on this machine, sample jobs on it, and a shell to go on with.
//!
//! Everything lies in one folder (`./sluice-quickstart`, or `--dir`), every address is 127.0.0.1, no root is needed.
//! `--exit` ends after the demonstration; its exit code is 0 only if every job ended as it should. `--keep` leaves the
//! cluster up, `sluice down` ends it. The cluster itself is the testkit's; what is shown are the commands a user has.

mod demo;
mod live;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use sluice_testkit::{Cluster, Description, take_down};

use crate::WrongCall;
use crate::cargo::build_programs;

const DEFAULT_DIR: &str = "sluice-quickstart";
/// Longest folder path that leaves room for sockets below it; the testkit refuses longer ones.
const DIR_BYTES_MAX: usize = 56;
const READY_DEADLINE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Afterwards {
    Shell,
    Exit,
    Keep,
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    afterwards: Afterwards,
    dir: Option<PathBuf>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self {
            afterwards: Afterwards::Shell,
            dir: None,
        };
        let mut words = args.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--exit" => options.afterwards = Afterwards::Exit,
                "--keep" => options.afterwards = Afterwards::Keep,
                "--dir" => {
                    let dir = words
                        .next()
                        .ok_or_else(|| WrongCall("--dir needs a folder".to_owned()))?;
                    options.dir = Some(dir.into());
                }
                other => match other.strip_prefix("--dir=") {
                    Some(dir) => options.dir = Some(dir.into()),
                    None => {
                        return Err(
                            WrongCall(format!("quickstart does not know \"{other}\"")).into()
                        );
                    }
                },
            }
        }
        Ok(options)
    }
}

/// Builds, starts, demonstrates, and goes on as asked.
pub fn run(args: &[String]) -> Result<()> {
    let options = Options::parse(args)?;
    eprintln!("Building Sluice. The first time takes a few minutes …");
    let bin = build_programs("dev")?;
    let dir = choose_dir(options.dir)?;

    let waiting = spinner("Starting ctld and four agents (nodes n1-n4) …");
    let trace = dir.join("prolog-epilog.log");
    let cluster = Cluster::builder()
        .dir(&dir)
        .bin_dir(bin)
        .cluster_name("quickstart")
        .debug_level("info")
        .prolog(&demo::tracing_script(&trace, "prolog"))
        .epilog(&demo::tracing_script(&trace, "epilog"))
        .start()?;
    // The folder may lie in a source tree: nothing in it is to be committed.
    std::fs::write(dir.join(".gitignore"), "*\n")?;
    cluster.wait_ready(READY_DEADLINE)?;
    waiting.finish_and_clear();
    println!("The cluster is up. Its folder is {}.\n", dir.display());

    let verdict = demo::run(&cluster, &trace);
    match options.afterwards {
        Afterwards::Exit => {
            cluster.stop()?;
            println!(
                "\nThe cluster is down. Its logs and the jobs' output stay in {}.",
                dir.display()
            );
            verdict
        }
        Afterwards::Keep => {
            let bin = cluster.bin();
            let conf = cluster.conf().to_path_buf();
            cluster.keep();
            println!("\nThe cluster stays up. In any shell:\n");
            println!(
                "    export PATH={}:$PATH SLURM_CONF={}",
                bin.display(),
                conf.display()
            );
            println!("    sbatch -N2 --wrap 'srun hostname'; squeue; sinfo; sacct");
            println!("    sluice down {}\n", dir.display());
            verdict
        }
        Afterwards::Shell => {
            if let Err(error) = &verdict {
                eprintln!("\n{error:#}");
            }
            shell(&cluster)?;
            cluster.stop()?;
            println!(
                "The cluster is down. Its logs and the jobs' output stay in {}.",
                dir.display()
            );
            verdict
        }
    }
}

/// The folder to use, absolute and empty: an earlier quickstart in it is cleared away, anything else is not touched.
fn choose_dir(wanted: Option<PathBuf>) -> Result<PathBuf> {
    let here = std::env::current_dir()?;
    let dir = match wanted {
        Some(dir) => here.join(dir),
        None => {
            let dir = here.join(DEFAULT_DIR);
            if dir.as_os_str().len() > DIR_BYTES_MAX {
                let short = tempfile::Builder::new().prefix("sluice-").tempdir()?.keep();
                eprintln!(
                    "The path {} is too long for Unix sockets; using {} instead.",
                    dir.display(),
                    short.display()
                );
                return Ok(short);
            }
            dir
        }
    };
    if Description::exists_in(&dir) {
        clear(&dir)?;
    }
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    Ok(dir.canonicalize()?)
}

fn clear(dir: &Path) -> Result<()> {
    let description = Description::read(dir)?;
    if description
        .daemons
        .iter()
        .any(|daemon| daemon.process.is_alive())
    {
        bail!(
            "a cluster still runs in {0}; end it first with `{1}/sluice down {0}`, or choose another folder with --dir",
            dir.display(),
            description.bin.display()
        );
    }
    // Job processes of a cluster that was killed may be left.
    take_down(dir)?;
    std::fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))
}

fn shell(cluster: &Cluster) -> Result<()> {
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    println!("\nThis shell has PATH and SLURM_CONF set for the cluster. Try\n");
    println!("    sbatch -N2 -n4 --wrap 'srun hostname'    squeue    sinfo    sacct");
    println!("    srun -N4 -l hostname                     scontrol show node n1\n");
    println!("Leave it with `exit`: the cluster ends with it.\n");
    if !std::io::stdin().is_terminal() {
        println!("(Standard input is no terminal; the shell reads its commands from there.)");
    }
    let status = Command::new(&shell)
        .env("PATH", cluster.path_variable())
        .env("SLURM_CONF", cluster.conf())
        .env("SLUICE_QUICKSTART", cluster.dir())
        .current_dir(cluster.path("work"))
        .status()
        .with_context(|| format!("cannot start {}", shell.to_string_lossy()))?;
    // The last command's status says nothing about the cluster.
    let _ = status;
    Ok(())
}

/// A turning wheel with a text; where there is no terminal the text alone, once.
fn spinner(text: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        eprintln!("{text}");
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.set_message(text.to_owned());
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Options::parse(&words)
    }

    /// Without this, a mistyped option would be ignored.
    #[test]
    fn options_are_read_and_unknown_ones_refused() {
        assert_eq!(
            parse(&["--exit", "--dir", "/tmp/q"]).unwrap(),
            Options {
                afterwards: Afterwards::Exit,
                dir: Some("/tmp/q".into()),
            }
        );
        assert_eq!(parse(&["--dir=/x"]).unwrap().dir, Some("/x".into()));
        assert_eq!(parse(&[]).unwrap().afterwards, Afterwards::Shell);
        assert!(parse(&["--dir"]).is_err());
        assert!(parse(&["--quick"]).is_err());
    }

    /// Without this, a second quickstart could remove files that are not its own.
    #[test]
    fn a_folder_that_is_no_cluster_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("thesis.tex");
        std::fs::write(&file, "x").unwrap();
        choose_dir(Some(dir.path().to_path_buf())).unwrap();
        assert!(file.exists());
    }
}
