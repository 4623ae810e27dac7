//! What must hold in every run, one file each. Checked on the journal's facts one by one, and on the state after each step.
//!
//! Nothing here changes anything or knows how the engine decides; expected values come from the simulated users and nodes.

pub mod accounting;
pub mod agreement;
pub mod array_throttle;
pub mod heterogeneous;
pub mod nothing_lost;
pub mod replay;
pub mod runs_once;
pub mod transitions;

use sluice_controller::Cluster;
use sluice_controller::event::Event;
use sluice_controller::transaction::JournalEntry;

/// Something that must hold does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: &'static str,
    /// What was found.
    pub text: String,
}

impl Violation {
    /// A violation with its words.
    #[must_use]
    pub fn new(invariant: &'static str, text: String) -> Self {
        Self { invariant, text }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.invariant, self.text)
    }
}

/// All invariants with what they remember.
#[derive(Debug)]
pub struct Invariants {
    /// The journal's facts applied apart from the controller.
    pub replay: replay::Replay,
    /// Jobs that users were told of.
    pub lost: nothing_lost::NothingLost,
    /// Runs of batch scripts.
    pub runs: runs_once::RunsOnce,
    /// The accounting database.
    pub accounting: accounting::Accounting,
}

impl Invariants {
    /// At the beginning.
    #[must_use]
    pub fn new(initial: Cluster) -> Self {
        Self {
            replay: replay::Replay::new(initial),
            lost: nothing_lost::NothingLost::default(),
            runs: runs_once::RunsOnce::default(),
            accounting: accounting::Accounting::default(),
        }
    }

    /// A batch has become durable.
    ///
    /// # Errors
    /// The first invariant that is broken.
    pub fn durable(&mut self, number: u64, entries: &[JournalEntry]) -> Result<(), Violation> {
        if !self.replay.expects(number)? {
            return Ok(());
        }
        for entry in entries {
            for event in &entry.events {
                self.event(event)?;
            }
            for update in &entry.accounting {
                self.accounting
                    .take(update, &self.runs, self.replay.cluster())?;
            }
            heterogeneous::check(self.replay.cluster())?;
        }
        self.lost.check(self.replay.cluster())
    }

    /// A batch was read at a start; it may be one whose flush had not been confirmed.
    ///
    /// # Errors
    /// As [`Self::durable`].
    pub fn durable_again(
        &mut self,
        number: u64,
        entries: &[JournalEntry],
    ) -> Result<(), Violation> {
        self.durable(number, entries)
    }

    fn event(&mut self, event: &Event) -> Result<(), Violation> {
        let before = self.replay.cluster().clone();
        self.replay.apply(event);
        let after = self.replay.cluster();
        transitions::check(&before, after, event)?;
        array_throttle::check(after, event)?;
        if let Event::JobStarted {
            job_id, split_id, ..
        } = event
        {
            let id = split_id.unwrap_or(*job_id);
            if let Some(job) = after.job(id) {
                self.runs.started(id, job.run_attempt);
            }
        }
        self.lost.event(&before, event)
    }
}
