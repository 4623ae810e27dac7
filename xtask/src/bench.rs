//! `cargo xtask bench`: measures a private cluster, built in release form, and prints a table.
//!
//! Each measurement is what a user feels, from outside: over gRPC or through the commands, against one `ctld` and four
//! agents on this machine, journal on its disk. The aims and Slurm's own figures (a current Slurm on two cores) stand
//! beside the result. A measurement judges nothing: the exit code tells only whether everything could be measured.

mod measure;
mod reads;
mod restart;

use std::time::Duration;

use anyhow::Result;
use sluice_testkit::Cluster;

use crate::WrongCall;
use crate::cargo::{build_programs, cargo, must_succeed};

const READY: Duration = Duration::from_secs(60);

struct Options {
    names: Vec<String>,
    jobs: usize,
    profile: String,
}

/// One line of the table.
struct Line {
    what: String,
    result: String,
    aim: &'static str,
    slurm: &'static str,
}

/// A measurement: its name, and what makes its lines.
struct Bench {
    name: &'static str,
    run: fn(&mut Cluster, &Options) -> Result<Vec<Line>>,
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "submit",
        run: measure::submissions,
    },
    Bench {
        name: "sbatch",
        run: measure::sbatch,
    },
    Bench {
        name: "array",
        run: measure::array,
    },
    Bench {
        name: "start",
        run: measure::lone_start,
    },
    Bench {
        name: "srun",
        run: measure::srun,
    },
    Bench {
        name: "null",
        run: measure::null_jobs,
    },
    Bench {
        name: "reads",
        run: reads::reads,
    },
    Bench {
        name: "nodes",
        run: reads::thousand_nodes,
    },
    Bench {
        name: "restart",
        run: restart::restart,
    },
];

/// Measures everything, or what is named.
pub fn run(args: &[String]) -> Result<()> {
    let options = parse(args)?;
    let bin = build_programs(&options.profile)?;
    must_succeed(cargo().args([
        "build",
        "--profile",
        &options.profile,
        "--package",
        "sluice-testkit",
        "--example",
        "submit_load",
    ]))?;
    let mut lines = Vec::new();
    let chosen = |bench: &&Bench| {
        options.names.is_empty() || options.names.iter().any(|name| name == bench.name)
    };
    for bench in BENCHES.iter().filter(chosen) {
        eprintln!("measuring: {}", bench.name);
        // A cluster for each, so that one measurement's queue does not weigh on the next.
        let mut builder = Cluster::builder()
            .bin_dir(bin.clone())
            .cluster_name("bench")
            .debug_level("info")
            .conf_line("MaxJobCount=1000000")
            .conf_line("MaxArraySize=100001");
        if bench.name == "nodes" {
            builder = builder.conf_line(reads::THOUSAND_NODES);
        }
        let mut cluster = builder.start()?;
        cluster.wait_ready(READY)?;
        let measured = (bench.run)(&mut cluster, &options);
        if measured.is_err() {
            eprintln!("{}", cluster.log_tails());
        }
        cluster.stop()?;
        lines.extend(measured?);
    }
    print(&lines);
    Ok(())
}

fn parse(args: &[String]) -> Result<Options> {
    let mut options = Options {
        names: Vec::new(),
        jobs: 10_000,
        profile: "release".to_owned(),
    };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .cloned()
                .ok_or_else(|| WrongCall(format!("{word} needs a value")))
        };
        match word.as_str() {
            "--jobs" => {
                options.jobs = value()?
                    .parse()
                    .map_err(|_| WrongCall("--jobs needs a number".to_owned()))?;
            }
            "--profile" => options.profile = value()?,
            name if BENCHES.iter().any(|bench| bench.name == name) => {
                options.names.push(name.to_owned());
            }
            other => {
                let names: Vec<&str> = BENCHES.iter().map(|bench| bench.name).collect();
                return Err(WrongCall(format!(
                    "bench does not know \"{other}\"; there are {}",
                    names.join(", ")
                ))
                .into());
            }
        }
    }
    Ok(options)
}

fn print(lines: &[Line]) {
    println!("| measured | result | aim | Slurm |");
    println!("| --- | ---: | ---: | ---: |");
    for line in lines {
        println!(
            "| {} | {} | {} | {} |",
            line.what, line.result, line.aim, line.slurm
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this, a mistyped name would measure nothing and say so with an empty table.
    #[test]
    fn names_and_options_are_read_and_unknown_ones_refused() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let options = parse(&words("srun null --jobs 500")).unwrap();
        assert_eq!(options.names, ["srun", "null"]);
        assert_eq!(options.jobs, 500);
        assert!(parse(&words("sruns")).is_err());
        assert!(parse(&words("--jobs many")).is_err());
    }
}
