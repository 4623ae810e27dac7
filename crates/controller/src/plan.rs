//! The result of a scheduling pass: what starts now and on exactly what, and what is known about the rest.
//!
//! A plan leaves nothing open: nodes, CPUs by id, GRES by index. It is made from a snapshot; [`crate::command::plan`] re-checks
//! each placement against the live state before it is carried out.

use serde::{Deserialize, Serialize};
use sluice_model::ids::JobId;
use sluice_model::reason::Reason;
use sluice_model::time::{TimeLimit, UnixSeconds};

use crate::cluster::Allocation;

/// Which part of the scheduler started a job (`Scheduler=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SchedulerKind {
    /// In strict order.
    Main,
    /// Ahead of a waiting job without delaying it.
    Backfill,
}

impl SchedulerKind {
    /// As `scontrol show job` prints it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Main => "Main",
            Self::Backfill => "Backfill",
        }
    }
}

/// One job (or array task) that starts now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedStart {
    /// Job record: for an array task the record of the unstarted tasks.
    pub job: JobId,
    /// Task of the array.
    pub array_task: Option<u32>,
    /// Partition.
    pub partition: String,
    /// Placement; phases are all `Prolog`.
    pub allocation: Allocation,
    /// Limit of the run.
    pub time_limit: TimeLimit,
    /// Who decided.
    pub scheduler: SchedulerKind,
    /// Number of the reservation it runs in.
    #[serde(default)]
    pub reservation: Option<u32>,
    /// Licences it takes.
    #[serde(default)]
    pub licenses: Vec<(String, u64)>,
}

/// What a pass found about a job that does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanNote {
    /// Reason.
    pub reason: Reason,
    /// More words (`UnavailableNodes:n1`).
    pub text: Option<String>,
    /// Expected start.
    pub expected_start: Option<UnixSeconds>,
    /// Nodes planned, a hostlist.
    pub planned_nodes: Option<String>,
    /// Time of the pass.
    pub evaluated: UnixSeconds,
}

/// The result of a pass.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// What starts, in order.
    pub starts: Vec<PlannedStart>,
    /// Notes on the pending jobs that do not start. Jobs the pass did not look at keep their former note.
    pub notes: Vec<(JobId, PlanNote)>,
    /// Jobs that can never start: they are held with BadConstraints.
    pub impossible: Vec<(JobId, String)>,
    /// Jobs whose deadline cannot be met any more.
    pub missed_deadline: Vec<JobId>,
    /// The earliest time at which a new pass would find something new although nothing happens (begin times, planned starts).
    pub next_wakeup: Option<UnixSeconds>,
}
