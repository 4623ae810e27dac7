//! Job and node states: base states, state flags, and how the commands show both.
//!
//! Invariant: numbers of base states and bit positions of flags are Slurm's public ones, because clients read them from
//! JSON and from the accounting records. Nothing here decides transitions; that is the controller's business.
//! Source of the names: squeue(1) JOB STATE CODES, sinfo(1) NODE STATE CODES, and the states tables of the manual.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use crate::node_state::{
    NodeState, NodeStateError, NodeStateFlags, NodeStateFull, NodeStateSelector, VALID_NODE_STATES,
};

/// Base state of a job; a job is in exactly one. Numbers 0 to 11 as in Slurm.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[repr(u8)]
pub enum JobState {
    /// Waits for resources, a time, a dependency or a release.
    #[default]
    Pending = 0,
    /// Has an allocation.
    Running = 1,
    /// Has an allocation, its processes are stopped.
    Suspended = 2,
    /// Ended with exit code 0.
    Completed = 3,
    /// Ended by a user or an operator.
    Cancelled = 4,
    /// Ended with another exit code or by a signal.
    Failed = 5,
    /// Reached its time limit.
    Timeout = 6,
    /// Lost a node.
    NodeFail = 7,
    /// Ended for a preempting job.
    Preempted = 8,
    /// A node did not boot.
    BootFail = 9,
    /// Could not have ended before its deadline.
    Deadline = 10,
    /// The kernel killed it for its memory.
    OutOfMemory = 11,
}

impl JobState {
    /// All base states in the order of their numbers.
    pub const ALL: [JobState; 12] = [
        JobState::Pending,
        JobState::Running,
        JobState::Suspended,
        JobState::Completed,
        JobState::Cancelled,
        JobState::Failed,
        JobState::Timeout,
        JobState::NodeFail,
        JobState::Preempted,
        JobState::BootFail,
        JobState::Deadline,
        JobState::OutOfMemory,
    ];

    /// Slurm's number.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The state with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Long name, `PENDING`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            JobState::Pending => "PENDING",
            JobState::Running => "RUNNING",
            JobState::Suspended => "SUSPENDED",
            JobState::Completed => "COMPLETED",
            JobState::Cancelled => "CANCELLED",
            JobState::Failed => "FAILED",
            JobState::Timeout => "TIMEOUT",
            JobState::NodeFail => "NODE_FAIL",
            JobState::Preempted => "PREEMPTED",
            JobState::BootFail => "BOOT_FAIL",
            JobState::Deadline => "DEADLINE",
            JobState::OutOfMemory => "OUT_OF_MEMORY",
        }
    }

    /// Compact code, `PD`.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            JobState::Pending => "PD",
            JobState::Running => "R",
            JobState::Suspended => "S",
            JobState::Completed => "CD",
            JobState::Cancelled => "CA",
            JobState::Failed => "F",
            JobState::Timeout => "TO",
            JobState::NodeFail => "NF",
            JobState::Preempted => "PR",
            JobState::BootFail => "BF",
            JobState::Deadline => "DL",
            JobState::OutOfMemory => "OOM",
        }
    }

    /// True for every state a job cannot leave except by a requeue (number 3 and up).
    #[must_use]
    pub fn is_finished(self) -> bool {
        self.number() >= JobState::Completed.number()
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Set of job state flags. Bits as in Slurm (bit 8 and up).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct JobStateFlags(u32);

impl JobStateFlags {
    /// No flag.
    pub const EMPTY: Self = Self(0);
    /// The last launch failed.
    pub const LAUNCH_FAILED: Self = Self(1 << 8);
    /// Being requeued.
    pub const REQUEUED: Self = Self(1 << 10);
    /// Requeued and held.
    pub const REQUEUE_HOLD: Self = Self(1 << 11);
    /// Requeued and held because of its exit code.
    pub const SPECIAL_EXIT: Self = Self(1 << 12);
    /// Its size is being changed.
    pub const RESIZING: Self = Self(1 << 13);
    /// Nodes boot or prologs run.
    pub const CONFIGURING: Self = Self(1 << 14);
    /// An epilog has not ended on some node.
    pub const COMPLETING: Self = Self(1 << 15);
    /// Got SIGSTOP and keeps its CPUs.
    pub const STOPPED: Self = Self(1 << 16);
    /// Node reconfiguration failed.
    pub const RECONFIG_FAIL: Self = Self(1 << 17);
    /// Nodes are being powered up for it.
    pub const POWER_UP_NODE: Self = Self(1 << 18);
    /// Started elsewhere in the federation.
    pub const REVOKED: Self = Self(1 << 19);
    /// Being requeued in the federation.
    pub const REQUEUE_FED: Self = Self(1 << 20);
    /// Held because its reservation was deleted.
    pub const RESV_DEL_HOLD: Self = Self(1 << 21);
    /// A signal is on its way.
    pub const SIGNALING: Self = Self(1 << 22);
    /// Data is staged out.
    pub const STAGE_OUT: Self = Self(1 << 23);
    /// Requeued with priority over everything.
    pub const EXPEDITING: Self = Self(1 << 24);

    /// The raw bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// A set from raw bits; unknown bits are kept.
    #[must_use]
    pub fn from_bits(bits: u32) -> Self {
        Self(bits & !0xff)
    }

    /// True when every flag of `other` is set.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True when some flag of `other` is set.
    #[must_use]
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// True when no flag is set.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Sets the flags of `other`.
    pub fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Clears the flags of `other`.
    pub fn remove(&mut self, other: Self) {
        self.0 &= !other.0;
    }

    /// Sets or clears the flags of `other`.
    pub fn set(&mut self, other: Self, on: bool) {
        if on {
            self.insert(other);
        } else {
            self.remove(other);
        }
    }

    /// This set with the flags of `other`.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without the flags of `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for JobStateFlags {
    type Output = Self;
    fn bitor(self, rhs: Self) -> Self {
        self.with(rhs)
    }
}

impl BitOrAssign for JobStateFlags {
    fn bitor_assign(&mut self, rhs: Self) {
        self.insert(rhs);
    }
}

/// Flags that are shown in place of the base state: flag, long name, compact code; the first that is set wins.
const SHOWN_JOB_FLAGS: [(JobStateFlags, &str, &str); 13] = [
    (JobStateFlags::COMPLETING, "COMPLETING", "CG"),
    (JobStateFlags::STAGE_OUT, "STAGE_OUT", "SO"),
    (JobStateFlags::CONFIGURING, "CONFIGURING", "CF"),
    (JobStateFlags::RESIZING, "RESIZING", "RS"),
    (JobStateFlags::REQUEUED, "REQUEUED", "RQ"),
    (JobStateFlags::REQUEUE_FED, "REQUEUE_FED", "RF"),
    (JobStateFlags::REQUEUE_HOLD, "REQUEUE_HOLD", "RH"),
    (JobStateFlags::SPECIAL_EXIT, "SPECIAL_EXIT", "SE"),
    (JobStateFlags::STOPPED, "STOPPED", "ST"),
    (JobStateFlags::REVOKED, "REVOKED", "RV"),
    (JobStateFlags::RESV_DEL_HOLD, "RESV_DEL_HOLD", "RD"),
    (JobStateFlags::SIGNALING, "SIGNALING", "SI"),
    (JobStateFlags::EXPEDITING, "EXPEDITING", "EX"),
];

/// The names of an unknown-state message, in the order in which Slurm lists them.
pub const VALID_JOB_STATES: &str = "pending,running,suspended,completed,cancelled,failed,timeout,node_fail,preempted,\
boot_fail,deadline,out_of_memory,completing,configuring,expediting,resizing,resv_del_hold,requeued,requeue_fed,\
requeue_hold,revoked,signaling,special_exit,stage_out,stopped";

/// A state name that is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid job state \"{0}\": use a long name or a compact code, for example PENDING or PD")]
pub struct JobStateError(pub String);

/// What `-t` names: a base state or a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum JobStateSelector {
    /// Jobs in this base state.
    Base(JobState),
    /// Jobs with this flag.
    Flag(JobStateFlags),
}

impl JobStateSelector {
    /// True when a job in `state` is selected.
    #[must_use]
    pub fn matches(self, state: JobStateFull) -> bool {
        match self {
            Self::Base(base) => state.base == base,
            Self::Flag(flag) => state.flags.contains(flag),
        }
    }

    /// Its long name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Base(base) => base.name(),
            Self::Flag(flag) => SHOWN_JOB_FLAGS
                .iter()
                .find(|(shown, ..)| *shown == flag)
                .map_or("", |(_, name, _)| name),
        }
    }
}

impl FromStr for JobStateSelector {
    type Err = JobStateError;

    /// Long name or compact code in any case.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let word = text.trim();
        let base = JobState::ALL
            .into_iter()
            .find(|s| s.name().eq_ignore_ascii_case(word) || s.code().eq_ignore_ascii_case(word));
        if let Some(base) = base {
            return Ok(Self::Base(base));
        }
        SHOWN_JOB_FLAGS
            .iter()
            .find(|(_, name, code)| {
                name.eq_ignore_ascii_case(word) || code.eq_ignore_ascii_case(word)
            })
            .map(|(flag, _, _)| Self::Flag(*flag))
            .ok_or_else(|| JobStateError(text.to_string()))
    }
}

impl FromStr for JobState {
    type Err = JobStateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse()? {
            JobStateSelector::Base(base) => Ok(base),
            JobStateSelector::Flag(_) => Err(JobStateError(text.to_string())),
        }
    }
}

/// Base state and flags of a job.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct JobStateFull {
    /// The base state.
    pub base: JobState,
    /// The flags.
    pub flags: JobStateFlags,
}

impl JobStateFull {
    /// A state without flags.
    #[must_use]
    pub fn new(base: JobState) -> Self {
        Self {
            base,
            flags: JobStateFlags::EMPTY,
        }
    }

    /// A state with flags.
    #[must_use]
    pub fn with_flags(base: JobState, flags: JobStateFlags) -> Self {
        Self { base, flags }
    }

    /// The number Slurm keeps: base in the low byte, flags above.
    #[must_use]
    pub fn number(self) -> u32 {
        u32::from(self.base.number()) | self.flags.bits()
    }

    /// The reverse of [`JobStateFull::number`].
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        let base = JobState::from_number((number & 0xff) as u8)?;
        Some(Self {
            base,
            flags: JobStateFlags::from_bits(number),
        })
    }

    /// Long name; a shown flag hides the base state.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.shown_flag()
            .map_or(self.base.name(), |(_, name, _)| name)
    }

    /// Compact code; a shown flag hides the base state.
    #[must_use]
    pub fn code(self) -> &'static str {
        self.shown_flag()
            .map_or(self.base.code(), |(_, _, code)| code)
    }

    /// Base name and every shown flag, as the JSON `job_state` list has them.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        let mut names = vec![self.base.name()];
        names.extend(
            SHOWN_JOB_FLAGS
                .iter()
                .filter(|(flag, _, _)| self.flags.contains(*flag))
                .map(|(_, name, _)| *name),
        );
        names
    }

    /// Base state is a final one; it may still be completing.
    #[must_use]
    pub fn is_finished(self) -> bool {
        self.base.is_finished()
    }

    /// An epilog runs or is awaited.
    #[must_use]
    pub fn is_completing(self) -> bool {
        self.flags.contains(JobStateFlags::COMPLETING)
    }

    /// Final and released everywhere.
    #[must_use]
    pub fn is_completed(self) -> bool {
        self.is_finished() && !self.is_completing()
    }

    /// Waits and has nothing left of an earlier run.
    #[must_use]
    pub fn is_pending(self) -> bool {
        self.base == JobState::Pending
    }

    /// Has an allocation and runs.
    #[must_use]
    pub fn is_running(self) -> bool {
        self.base == JobState::Running
    }

    fn shown_flag(self) -> Option<&'static (JobStateFlags, &'static str, &'static str)> {
        SHOWN_JOB_FLAGS
            .iter()
            .find(|(flag, _, _)| self.flags.contains(*flag))
    }
}

impl From<JobState> for JobStateFull {
    fn from(base: JobState) -> Self {
        Self::new(base)
    }
}

impl fmt::Display for JobStateFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers are public: accounting rows and JSON carry them.
    #[test]
    fn numbers_and_names_are_slurms() {
        let expected = [
            (0, "PENDING", "PD"),
            (1, "RUNNING", "R"),
            (2, "SUSPENDED", "S"),
            (3, "COMPLETED", "CD"),
            (4, "CANCELLED", "CA"),
            (5, "FAILED", "F"),
            (6, "TIMEOUT", "TO"),
            (7, "NODE_FAIL", "NF"),
            (8, "PREEMPTED", "PR"),
            (9, "BOOT_FAIL", "BF"),
            (10, "DEADLINE", "DL"),
            (11, "OUT_OF_MEMORY", "OOM"),
        ];
        for (state, (number, name, code)) in JobState::ALL.into_iter().zip(expected) {
            assert_eq!(
                (state.number(), state.name(), state.code()),
                (number, name, code)
            );
            assert_eq!(JobState::from_number(number), Some(state));
            assert_eq!(state.is_finished(), number >= 3);
        }
        assert_eq!(JobState::from_number(12), None);
    }

    /// What a command asks the controller for is what was typed.
    #[test]
    fn selectors_are_read_again_from_their_names() {
        for word in ["PD", "completing", "SE", "OUT_OF_MEMORY"] {
            let selector: JobStateSelector = word.parse().expect("known");
            assert_eq!(selector.name().parse(), Ok(selector), "{word}");
        }
        let completing: JobStateSelector = "CG".parse().expect("known");
        assert_eq!(completing.name(), "COMPLETING");
    }

    /// A requeued job that still cleans up shows CG, then PD.
    #[test]
    fn flags_hide_the_base_state() {
        let mut state = JobStateFull::with_flags(
            JobState::Pending,
            JobStateFlags::COMPLETING | JobStateFlags::REQUEUED,
        );
        assert_eq!((state.name(), state.code()), ("COMPLETING", "CG"));
        state.flags.remove(JobStateFlags::COMPLETING);
        assert_eq!((state.name(), state.code()), ("REQUEUED", "RQ"));
        state.flags.remove(JobStateFlags::REQUEUED);
        assert_eq!((state.name(), state.code()), ("PENDING", "PD"));
        let launch_failed =
            JobStateFull::with_flags(JobState::Failed, JobStateFlags::LAUNCH_FAILED);
        assert_eq!(launch_failed.code(), "F");
    }

    /// `-t` takes long and compact names in any case, and the message lists all of them.
    #[test]
    fn selector_parses_every_valid_name() {
        for name in VALID_JOB_STATES.split(',') {
            assert!(name.parse::<JobStateSelector>().is_ok(), "{name}");
        }
        assert_eq!("pd".parse(), Ok(JobStateSelector::Base(JobState::Pending)));
        assert_eq!(
            "cg".parse(),
            Ok(JobStateSelector::Flag(JobStateFlags::COMPLETING))
        );
        assert!("nosuch".parse::<JobStateSelector>().is_err());
        let completing = JobStateFull::with_flags(JobState::Completed, JobStateFlags::COMPLETING);
        assert!(JobStateSelector::Base(JobState::Completed).matches(completing));
        assert!(!completing.is_completed());
    }

    /// The packed number keeps both halves.
    #[test]
    fn packed_number_round_trips() {
        let state = JobStateFull::with_flags(JobState::Running, JobStateFlags::CONFIGURING);
        assert_eq!(state.number(), 1 | (1 << 14));
        assert_eq!(JobStateFull::from_number(state.number()), Some(state));
    }
}
