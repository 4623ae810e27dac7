//! Replay of the journal gives the live state, byte for byte; batches come in order, each once.

use sluice_controller::Cluster;
use sluice_controller::event::{self, Event};

use super::Violation;

/// A state of its own that only the journal feeds.
#[derive(Debug)]
pub struct Replay {
    cluster: Cluster,
    next: u64,
}

const NAME: &str = "replay of the journal is the live state";

impl Replay {
    /// Begins with the state that the first checkpoint holds.
    #[must_use]
    pub fn new(initial: Cluster) -> Self {
        Self {
            cluster: initial,
            next: 0,
        }
    }

    /// The replayed state.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// True if this batch is the next one, false if it is known.
    ///
    /// # Errors
    /// When one was left out.
    pub fn expects(&mut self, number: u64) -> Result<bool, Violation> {
        if number > self.next {
            return Err(Violation::new(
                NAME,
                format!("batch {number} came, {} was expected", self.next),
            ));
        }
        let is_new = number == self.next;
        self.next = self.next.max(number + 1);
        Ok(is_new)
    }

    /// Takes a fact.
    pub fn apply(&mut self, fact: &Event) {
        event::apply(&mut self.cluster, fact);
    }

    /// Compares with a live or recovered state.
    ///
    /// # Errors
    /// When a byte differs.
    pub fn compare(&self, live: &Cluster) -> Result<(), Violation> {
        let ours = rmp_serde::to_vec_named(&self.cluster).unwrap_or_default();
        let theirs = rmp_serde::to_vec_named(live).unwrap_or_default();
        if ours == theirs {
            return Ok(());
        }
        Err(Violation::new(NAME, difference(&self.cluster, live)))
    }
}

/// Words for where two states differ.
fn difference(replayed: &Cluster, live: &Cluster) -> String {
    for (id, job) in &live.jobs {
        if replayed.jobs.get(id) != Some(job) {
            return format!(
                "job {id}: live {job:?}, replayed {:?}",
                replayed.jobs.get(id)
            );
        }
    }
    for (here, there) in live.nodes.iter().zip(&replayed.nodes) {
        if here != there {
            return format!(
                "node {}: live {here:?}, replayed {there:?}",
                here.config.name
            );
        }
    }
    "the indexes of the state differ".to_owned()
}
