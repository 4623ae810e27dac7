//! A job and its steps as the engine holds them.
//!
//! Pure data. `attempt` equals the restart count and tells agents which run an order is for. Times are seconds since the
//! epoch, limits minutes, memory MiB.

use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};
use sluice_model::array::ArraySpec;
use sluice_model::default_fields::is_default;
use sluice_model::dependency::{DependencyKind, DependencyTerm};

pub use sluice_model::dependency::DependencyStatus;
use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::{JobId, StepId};
use sluice_model::job::JobDescription;
use sluice_model::launch::StepUsage;
use sluice_model::reason::Reason;
use sluice_model::state::{JobState, JobStateFull};
use sluice_model::step::{StepDescription, StepLayout};
use sluice_model::time::{TimeLimit, UnixSeconds};

use super::{Allocation, BlobId, NodeIndex};

/// A job's place in an array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArrayMembership {
    /// Id of the array: the id its submitter was told.
    pub array_job_id: JobId,
    /// Index of this task; `None` for the record that holds the unstarted tasks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub task_id: Option<u32>,
    /// Unstarted tasks; empty once this record is a task itself. Holds the throttle (`%N`).
    pub pending: ArraySpec,
    /// Number of tasks, lowest, highest and step of the array as submitted (`SLURM_ARRAY_TASK_COUNT`, `_MIN`, `_MAX`, `_STEP`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub task_count: u32,
    /// See [`Self::task_count`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub task_min: u32,
    /// See [`Self::task_count`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub task_max: u32,
    /// See [`Self::task_count`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub task_step: u32,
}

/// A job's place in a heterogeneous job. The ids of the components follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HetMembership {
    /// Id of the first component.
    pub leader: JobId,
    /// Number of this component, from 0.
    pub offset: u32,
    /// Components in all.
    pub size: u32,
}

impl HetMembership {
    /// Ids of all components.
    pub fn members(self) -> impl Iterator<Item = JobId> {
        (0..self.size).map(move |offset| JobId(self.leader.0.saturating_add(offset)))
    }

    /// `12-14`.
    #[must_use]
    pub fn id_set(self) -> String {
        let last = self.leader.0.saturating_add(self.size.saturating_sub(1));
        format!("{}-{last}", self.leader)
    }
}

/// A job's dependencies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DependencyState {
    /// `?` between the terms: one is enough.
    pub any: bool,
    /// Terms with their status.
    pub terms: Vec<(DependencyTerm, DependencyStatus)>,
}

/// One job record. An array's unstarted tasks share one record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Id.
    pub id: JobId,
    /// Array membership.
    #[serde(default, skip_serializing_if = "is_default")]
    pub array: Option<ArrayMembership>,
    /// The request with defaults filled in, without script and environment.
    pub request: Arc<JobDescription>,
    /// Script.
    #[serde(default, skip_serializing_if = "is_default")]
    pub script: Option<BlobId>,
    /// Environment.
    #[serde(default, skip_serializing_if = "is_default")]
    pub environment: Option<BlobId>,
    /// Owner's name.
    pub user_name: String,
    /// Name of the primary group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group_name: String,
    /// Account charged.
    #[serde(default, skip_serializing_if = "is_default")]
    pub account: String,
    /// QOS.
    #[serde(default, skip_serializing_if = "is_default")]
    pub qos: String,
    /// Partition of the allocation; while pending the first of `request.partitions`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub partition: String,
    /// State and flags.
    pub state: JobStateFull,
    /// Reason: of a hold, of the end; otherwise `None`, and the plan's note speaks.
    pub reason: Reason,
    /// More words.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reason_text: Option<String>,
    /// 0 = held; set by hand; else 1, and [`crate::priority`] has what is calculated.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: u32,
    /// Set by hand: not recomputed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority_is_direct: bool,
    /// Submission; reset by a requeue.
    #[serde(default, skip_serializing_if = "is_default")]
    pub submit_time: UnixSeconds,
    /// First submission.
    #[serde(default, skip_serializing_if = "is_default")]
    pub first_submit_time: UnixSeconds,
    /// `--begin`, or the delay after a requeue.
    #[serde(default, skip_serializing_if = "is_default")]
    pub begin_time: Option<UnixSeconds>,
    /// When it became eligible; `None` = not yet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub eligible_time: Option<UnixSeconds>,
    /// An operator had the waiting counted from here on (`ResetAccrueTime`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub accrue_reset: Option<UnixSeconds>,
    /// Start of the current or last run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub start_time: Option<UnixSeconds>,
    /// End of the last run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub end_time: Option<UnixSeconds>,
    /// Last suspend or resume.
    #[serde(default, skip_serializing_if = "is_default")]
    pub suspend_time: Option<UnixSeconds>,
    /// Run time before the last suspend.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pre_suspend_secs: i64,
    /// Seconds suspended in all in this run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub suspended_secs: i64,
    /// Limit in force for the current run, or asked for; `None` = the partition decides at the start.
    #[serde(default, skip_serializing_if = "is_default")]
    pub time_limit: Option<TimeLimit>,
    /// Dependencies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dependency: DependencyState,
    /// May be requeued.
    #[serde(default, skip_serializing_if = "is_default")]
    pub requeue: bool,
    /// Times requeued.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restarts: u32,
    /// Number of the current (or last) run in orders to agents: `restarts` at its start. Differs while a requeued job's former
    /// run is still being cleaned up.
    #[serde(default, skip_serializing_if = "is_default")]
    pub run_attempt: u32,
    /// What it holds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allocation: Option<Arc<Allocation>>,
    /// `--signal` was sent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub warned: bool,
    /// Steps of the current run, ended ones included until the job ends.
    #[serde(default, skip_serializing_if = "is_default")]
    pub steps: OrdMap<StepId, Arc<Step>>,
    /// Next numeric step id.
    #[serde(default, skip_serializing_if = "is_default")]
    pub next_step_id: u32,
    /// Exit status.
    #[serde(default, skip_serializing_if = "is_default")]
    pub exit_status: WaitStatus,
    /// Highest exit status of a step.
    #[serde(default, skip_serializing_if = "is_default")]
    pub derived_exit_status: WaitStatus,
    /// uid of who cancelled it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kill_requester: Option<u32>,
    /// Node whose failure ended it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed_node: Option<String>,
    /// `Main`, `Backfill`, `Submit`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scheduler: Option<String>,
    /// Administrator's comment.
    #[serde(default, skip_serializing_if = "is_default")]
    pub admin_comment: Option<String>,
    /// Text the system attached.
    #[serde(default, skip_serializing_if = "is_default")]
    pub system_comment: Option<String>,
    /// Component of a heterogeneous job.
    #[serde(default)]
    pub het: Option<HetMembership>,
    /// Association, by account, user and partition.
    #[serde(default, skip_serializing_if = "is_default")]
    pub association: Option<u32>,
    /// QOS by id.
    #[serde(default, skip_serializing_if = "is_default")]
    pub qos_id: Option<u32>,
    /// This run's usage is charged up to here, because the job held more before.
    #[serde(default, skip_serializing_if = "is_default")]
    pub charged_to: Option<UnixSeconds>,
    /// Reservation of the current or last run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reservation: Option<RunReservation>,
    /// Licences of the current or last run, held from its start to its end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub licenses: Vec<(String, u64)>,
}

/// The reservation in which a job runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReservation {
    /// Number.
    pub id: u32,
    /// Name.
    pub name: String,
}

impl Job {
    /// The record holds unstarted tasks of an array.
    #[must_use]
    pub fn is_array_master(&self) -> bool {
        self.array.as_ref().is_some_and(|a| a.task_id.is_none())
    }

    /// Index of the array task, if this record is one.
    #[must_use]
    pub fn array_task(&self) -> Option<u32> {
        self.array.as_ref().and_then(|a| a.task_id)
    }

    /// Id of the array or of the job itself.
    #[must_use]
    pub fn array_job_id(&self) -> JobId {
        self.array.as_ref().map_or(self.id, |a| a.array_job_id)
    }

    /// What its place in the queue follows from as long as nothing is calculated: see [`crate::Cluster::standing_in`].
    #[must_use]
    pub fn standing(&self) -> i64 {
        let nice = if self.priority_is_direct {
            0
        } else {
            self.request.nice
        };
        i64::from(self.priority) - i64::from(nice)
    }

    /// Pending and not still completing a former run.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.state.is_pending() && !self.state.is_completing()
    }

    /// Seconds run so far, suspended time left out.
    #[must_use]
    pub fn run_secs(&self, now: UnixSeconds) -> i64 {
        let Some(start) = self.start_time else {
            return 0;
        };
        match self.state.base {
            JobState::Pending => 0,
            JobState::Suspended => self.pre_suspend_secs,
            JobState::Running if !self.state.is_finished() => {
                (now.0 - start.0 - self.suspended_secs).max(0)
            }
            _ => (self.end_time.unwrap_or(now).0 - start.0 - self.suspended_secs).max(0),
        }
    }
}

/// Where one node of a step stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepNodeState {
    /// Node.
    pub node: NodeIndex,
    /// The agent said that the processes exist.
    #[serde(default, skip_serializing_if = "is_default")]
    pub started: bool,
    /// Tasks' wait statuses once it has ended here.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ended: Option<Vec<(u32, WaitStatus)>>,
    /// Why it could not start here.
    #[serde(default, skip_serializing_if = "is_default")]
    pub launch_error: Option<String>,
    /// Usage once it has ended here.
    #[serde(default, skip_serializing_if = "is_default")]
    pub usage: StepUsage,
}

/// A step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Id.
    pub id: StepId,
    /// Request. For the batch step only what is needed to show it.
    pub request: Arc<StepDescription>,
    /// Environment of `srun`, interned; `None` for the batch step.
    #[serde(default, skip_serializing_if = "is_default")]
    pub environment: Option<Arc<Vec<u8>>>,
    /// Layout; node order is the order of `nodes`.
    pub layout: Arc<StepLayout>,
    /// Per node.
    #[serde(default, skip_serializing_if = "is_default")]
    pub nodes: Vec<StepNodeState>,
    /// CPUs in all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub num_cpus: u32,
    /// Tasks in all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub num_tasks: u32,
    /// CPUs of one task.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cpus_per_task: u32,
    /// The step's resources may be used by others (`--overlap`, batch).
    #[serde(default, skip_serializing_if = "is_default")]
    pub overlap: bool,
    /// Start.
    #[serde(default, skip_serializing_if = "is_default")]
    pub start_time: UnixSeconds,
    /// End.
    #[serde(default, skip_serializing_if = "is_default")]
    pub end_time: Option<UnixSeconds>,
    /// State.
    pub state: JobState,
    /// Exit status: the highest of its tasks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub exit_status: WaitStatus,
    /// uid of who cancelled it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kill_requester: Option<u32>,
}

impl DependencyState {
    /// Something is still to be met (or can never be).
    #[must_use]
    pub fn is_open(&self) -> bool {
        if self.terms.is_empty() {
            return false;
        }
        if self.any {
            return !self
                .terms
                .iter()
                .any(|(_, status)| *status == DependencyStatus::Fulfilled);
        }
        self.terms
            .iter()
            .any(|(_, status)| *status != DependencyStatus::Fulfilled)
    }

    /// It can never be met.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        if self.any {
            return !self.terms.is_empty()
                && self
                    .terms
                    .iter()
                    .all(|(_, status)| *status == DependencyStatus::Failed);
        }
        self.terms
            .iter()
            .any(|(_, status)| *status == DependencyStatus::Failed)
    }
}

/// The job a term waits for; `None` for a singleton.
#[must_use]
pub fn dependency_target(term: &DependencyTerm) -> Option<JobId> {
    (term.kind != DependencyKind::Singleton).then_some(term.job)
}
