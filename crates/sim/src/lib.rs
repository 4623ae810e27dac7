//! Deterministic simulation of a cluster with faults: the real engine and the real agent core, with simulated clock, network, disk,
//! processes and users.
//!
//! One seed is one run, on any machine. For tests only: nothing of the product depends on this crate. What a run checks is in
//! [`invariants`]; a broken one is found with the seed, and the seed gives the same run again, traced.

pub mod chance;
pub mod changes;
pub mod controller;
pub mod disk;
pub mod faults;
pub mod invariants;
pub mod network;
pub mod node;
pub mod options;
pub mod submissions;
pub mod users;
pub mod world;

pub use invariants::Violation;
pub use world::Summary;

use world::World;

/// A run in which something did not hold.
#[derive(Debug)]
pub struct Failure {
    /// Seed of the run.
    pub seed: u64,
    /// What did not hold.
    pub violation: Violation,
    /// The last lines of the run.
    pub trace: Vec<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for line in &self.trace {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "seed {}: {}", self.seed, self.violation)?;
        write!(out, "again with: cargo xtask sim --seed {}", self.seed)
    }
}

/// Lines of a failed run that are shown.
pub const TRACE_LINES: usize = 200;

/// Runs one seed; of a failed run the last `trace_lines` lines are kept.
///
/// # Errors
/// What did not hold, with the end of the run's trace.
pub fn run(seed: u64, trace_lines: usize) -> Result<Summary, Box<Failure>> {
    let once = |lines| -> Result<Summary, (Violation, Vec<String>)> {
        let mut world = World::new(seed, lines).map_err(|violation| (violation, Vec::new()))?;
        world.run().map_err(|violation| {
            (
                violation,
                world.trace.take().unwrap_or_default().into_iter().collect(),
            )
        })
    };
    match once(0) {
        Ok(summary) => Ok(summary),
        Err(_) => match once(trace_lines.max(1)) {
            Ok(_) => {
                let text = "the run with a trace went another way".to_owned();
                let violation = Violation::new("a seed gives one run", text);
                Err(Box::new(Failure {
                    seed,
                    violation,
                    trace: Vec::new(),
                }))
            }
            Err((violation, trace)) => Err(Box::new(Failure {
                seed,
                violation,
                trace,
            })),
        },
    }
}
