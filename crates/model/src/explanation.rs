//! Why a waiting job waits, as data: the cause, what stands in the way, which nodes are refused and why, and what would help.
//!
//! Made by the engine with the same pass that plans starts; shown by `scontrol explain job` in words and with `--json` as it is.
//! Texts are whole sentences without a full stop, for people; everything else is for programs. Times are seconds since the epoch.

use crate::ids::JobId;
use crate::reason::Reason;
use crate::time::UnixSeconds;

/// Why a job waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The job's record.
    pub job_id: JobId,
    /// The binding reason, as `squeue` shows it.
    pub reason: Reason,
    /// The cause in words.
    pub summary: String,
    /// Time of the pass that this comes from.
    pub evaluated: UnixSeconds,
    /// Expected start.
    pub expected_start: Option<UnixSeconds>,
    /// Nodes planned for it, a hostlist; empty = none.
    pub planned_nodes: String,
    /// Jobs that are served before it in one of its partitions.
    pub jobs_ahead: u32,
    /// What stands in the way, the last to go away first; at most [`Self::MOST_BLOCKERS`].
    pub blockers: Vec<Blocker>,
    /// Blockers that are not listed.
    pub more_blockers: u32,
    /// Its partitions, each with its nodes.
    pub partitions: Vec<PartitionExplanation>,
    /// What would make it start now, or sooner.
    pub advice: Vec<Advice>,
}

impl Explanation {
    /// Longest list of blockers.
    pub const MOST_BLOCKERS: usize = 20;
}

/// Kind of a [`Blocker`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockerKind {
    /// A job that holds what this one needs.
    #[default]
    RunningJob,
    /// A waiting job that is served first and has been promised it.
    PlannedJob,
    /// A job that this one depends on.
    Dependency,
    /// A reservation.
    Reservation,
    /// A licence.
    License,
}

/// One thing in the way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blocker {
    /// Kind.
    pub kind: BlockerKind,
    /// Id of the job, or name of the reservation or licence.
    pub name: String,
    /// Nodes concerned, a hostlist; empty = none.
    pub nodes: String,
    /// When it begins to be in the way; absent = it is already.
    pub from: Option<UnixSeconds>,
    /// When it is expected to be gone; absent = nobody knows.
    pub until: Option<UnixSeconds>,
    /// More words.
    pub text: String,
}

/// Why a node is of no use to the job now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeCause {
    /// Down, drained, or its agent is silent.
    #[default]
    OutOfService,
    /// `--exclude`.
    Excluded,
    /// A feature of `--constraint` is missing.
    Feature,
    /// Too few CPUs even when empty.
    TooFewCpus,
    /// Too little memory even when empty.
    TooLittleMemory,
    /// Too few devices even when empty.
    TooFewGres,
    /// Sockets, cores, threads or local disk are not as asked for.
    Geometry,
    /// CPUs are in use.
    CpusInUse,
    /// Memory is in use.
    MemoryInUse,
    /// Devices are in use.
    GresInUse,
    /// In use, and the job wants it alone; or in use by somebody it may not be shared with.
    InUse,
    /// Free now, but a reservation or a job that is served first needs it before this job would end.
    Promised,
}

impl NodeCause {
    /// In words, after "N nodes: ".
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::OutOfService => "out of service (down, drained or silent)",
            Self::Excluded => "excluded by the job",
            Self::Feature => "without the features asked for",
            Self::TooFewCpus => "too few CPUs even when empty",
            Self::TooLittleMemory => "too little memory even when empty",
            Self::TooFewGres => "too few devices (GRES) even when empty",
            Self::Geometry => "not built as asked for (sockets, cores, threads, disk)",
            Self::CpusInUse => "not enough CPUs free",
            Self::MemoryInUse => "not enough memory free",
            Self::GresInUse => "not enough devices (GRES) free",
            Self::InUse => "in use, and cannot be shared with this job",
            Self::Promised => "free, but promised before this job would end",
        }
    }
}

/// Nodes that share a cause.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefusedNodes {
    /// Cause.
    pub cause: NodeCause,
    /// How many.
    pub count: u32,
    /// Which, a hostlist.
    pub nodes: String,
}

/// A job in one of its partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionExplanation {
    /// Partition.
    pub partition: String,
    /// A rule of the partition that keeps the job out; `None` = there is none.
    pub rule: Option<Reason>,
    /// The rule in words with its numbers, or why the job can never run here; empty = neither.
    pub text: String,
    /// Nodes of the partition.
    pub total: u32,
    /// Nodes with room for a part of the job now, a hostlist. Too few, or not together as it needs them.
    pub free: String,
    /// How many those are.
    pub free_count: u32,
    /// The others, by cause.
    pub refused: Vec<RefusedNodes>,
    /// Expected start here.
    pub expected_start: Option<UnixSeconds>,
}

/// Kind of an [`Advice`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AdviceKind {
    /// A shorter time limit; the value is in minutes.
    #[default]
    TimeLimit,
    /// Fewer nodes; the value is their number.
    Nodes,
    /// Another partition; the value is its name.
    Partition,
    /// A command; the value is its line.
    Command,
}

/// One thing that would help.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advice {
    /// Kind.
    pub kind: AdviceKind,
    /// Value, see the kind.
    pub value: String,
    /// When the job would start then; absent = now, or as soon as the command is given.
    pub start: Option<UnixSeconds>,
    /// In words.
    pub text: String,
}
