//! What happened: the facts the journal keeps, and their effect on the state.
//!
//! [`apply`] is total: it never fails and never asks for anything outside the event and the state. Checks were made when the
//! event was decided. New variants and fields may be added (with serde defaults); none may change its meaning, because old
//! journals are replayed for ever.

mod automation;
pub mod config;
mod jobs;
mod nodes;
pub mod policy;
mod reservations;
mod steps;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sluice_config::{ClusterConfig, NodeConfig, PartitionConfig};
use sluice_model::default_fields::is_default;
use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::{JobId, StepId};
use sluice_model::launch::StepUsage;
use sluice_model::node::NodeHardware;
use sluice_model::node_state::NodeStateFull;
use sluice_model::reason::Reason;
use sluice_model::state::JobState;
use sluice_model::time::{TimeLimit, UnixSeconds};

use crate::cluster::{
    Allocation, BlobId, Cluster, Crontab, DependencyStatus, Job, NodeManual, Reservation,
    ReservedNode, Step, Trigger,
};
use crate::policy::PolicyChange;
use crate::priority;

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobEnd {
    /// Job.
    pub job_id: JobId,
    /// Final state.
    pub state: JobState,
    /// Reason kept.
    pub reason: Reason,
    /// More words.
    pub reason_text: Option<String>,
    /// Exit status of the job.
    pub exit_status: WaitStatus,
    /// When.
    pub time: UnixSeconds,
    /// Who cancelled it.
    pub requester: Option<u32>,
    /// Node whose failure ended it.
    pub failed_node: Option<String>,
}

/// How a job went back to the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Requeue {
    /// Job.
    pub job_id: JobId,
    /// When.
    pub time: UnixSeconds,
    /// State that the finished run is recorded with in accounting.
    pub run_state: JobState,
    /// Earliest next start.
    pub begin_time: Option<UnixSeconds>,
    /// Held with this reason.
    pub hold: Option<Reason>,
    /// Words for the reason.
    pub reason_text: Option<String>,
    /// Shows SPECIAL_EXIT.
    pub special_exit: bool,
    /// Exit status of the finished run.
    pub exit_status: WaitStatus,
    /// Node whose failure caused it.
    pub failed_node: Option<String>,
}

/// A fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A configuration came into force.
    ConfigLoaded {
        /// The configuration.
        config: Arc<ClusterConfig>,
        /// When.
        time: UnixSeconds,
    },
    /// Bytes that jobs refer to by digest.
    BlobStored {
        /// Digest.
        id: BlobId,
        /// Bytes.
        bytes: Arc<Vec<u8>>,
    },
    /// A job was accepted.
    JobSubmitted {
        /// The record.
        job: Box<Job>,
    },
    /// A job, or a task split off an array's record, was given nodes.
    JobStarted {
        /// Record; for an array task the record of the unstarted tasks.
        job_id: JobId,
        /// Task.
        array_task: Option<u32>,
        /// Id for the task's own record; `None` = the record itself becomes the task.
        split_id: Option<JobId>,
        /// Partition.
        partition: String,
        /// What it holds.
        allocation: Arc<Allocation>,
        /// Limit.
        time_limit: TimeLimit,
        /// Start.
        time: UnixSeconds,
        /// Scheduler's name.
        scheduler: String,
        /// A Prolog is configured: CONFIGURING until it has ended everywhere.
        configuring: bool,
        /// Number of the reservation it runs in.
        #[serde(default, skip_serializing_if = "is_default")]
        reservation: Option<u32>,
        /// Licences it takes.
        #[serde(default, skip_serializing_if = "is_default")]
        licenses: Vec<(String, u64)>,
    },
    /// The Prolog ended well on a node.
    NodeReady {
        /// Job.
        job_id: JobId,
        /// Node.
        node: String,
        /// When.
        time: UnixSeconds,
    },
    /// A step was created.
    StepCreated {
        /// Job.
        job_id: JobId,
        /// The step.
        step: Box<Step>,
    },
    /// A step's processes exist on a node.
    StepStarted {
        /// Job.
        job_id: JobId,
        /// Step.
        step_id: StepId,
        /// Node.
        node: String,
    },
    /// A step ended on a node.
    StepNodeEnded {
        /// Job.
        job_id: JobId,
        /// Step.
        step_id: StepId,
        /// Node.
        node: String,
        /// Statuses by rank.
        tasks: Vec<(u32, WaitStatus)>,
        /// Why it could not start.
        launch_error: Option<String>,
        /// Usage.
        usage: StepUsage,
    },
    /// A step ended everywhere.
    StepEnded {
        /// Job.
        job_id: JobId,
        /// Step.
        step_id: StepId,
        /// State.
        state: JobState,
        /// Highest status.
        exit_status: WaitStatus,
        /// When.
        time: UnixSeconds,
        /// Who cancelled it.
        requester: Option<u32>,
    },
    /// A job ended; nodes still to be cleaned up keep it COMPLETING.
    JobEnded(JobEnd),
    /// A task of an array got a record of its own before its start, because its dependency stands apart from the others'.
    ArrayTaskSplit {
        /// Record of the unstarted tasks.
        job_id: JobId,
        /// Task.
        task: u32,
        /// Id for the task's record; `None` = the record itself becomes the task.
        split_id: Option<JobId>,
    },
    /// Some unstarted tasks of an array were cancelled; the rest go on.
    ArrayTasksRemoved {
        /// Record of the unstarted tasks.
        job_id: JobId,
        /// Tasks.
        tasks: Vec<u32>,
        /// Id for the record that keeps the cancelled tasks, one per task, in order.
        split_ids: Vec<JobId>,
        /// Who.
        requester: u32,
        /// When.
        time: UnixSeconds,
    },
    /// A job went back to the queue.
    JobRequeued(Requeue),
    /// Nothing of the job is left on a node.
    NodeReleased {
        /// Job.
        job_id: JobId,
        /// Node.
        node: String,
        /// When.
        time: UnixSeconds,
    },
    /// A job was held.
    JobHeld {
        /// Job.
        job_id: JobId,
        /// Reason.
        reason: Reason,
        /// More words.
        text: Option<String>,
        /// When.
        time: UnixSeconds,
    },
    /// A hold ended.
    JobReleased {
        /// Job.
        job_id: JobId,
        /// Priority from now on.
        priority: u32,
        /// When.
        time: UnixSeconds,
    },
    /// A job's record was changed by hand: the whole record as it is now.
    JobUpdated {
        /// Record.
        job: Box<Job>,
        /// When.
        time: UnixSeconds,
    },
    /// A dependency was decided.
    DependencyDecided {
        /// Job.
        job_id: JobId,
        /// Index of the term.
        term: u32,
        /// Status.
        status: DependencyStatus,
        /// When.
        time: UnixSeconds,
    },
    /// A job was stopped or goes on.
    JobSuspended {
        /// Job.
        job_id: JobId,
        /// True = stopped.
        suspended: bool,
        /// When.
        time: UnixSeconds,
    },
    /// The signal of `--signal` was sent.
    JobWarned {
        /// Job.
        job_id: JobId,
    },
    /// Finished jobs left memory.
    JobsPurged {
        /// Jobs.
        jobs: Vec<JobId>,
    },
    /// An agent registered.
    NodeRegistered {
        /// Node.
        node: String,
        /// Hardware.
        hardware: Arc<NodeHardware>,
        /// State from now on.
        state: NodeStateFull,
        /// Reason from now on.
        reason: Option<String>,
        /// When.
        time: UnixSeconds,
    },
    /// A node's state was set, by hand or by the system.
    NodeStateSet {
        /// Node.
        node: String,
        /// State.
        state: NodeStateFull,
        /// Reason (`None` clears it).
        reason: Option<String>,
        /// Who.
        uid: u32,
        /// When.
        time: UnixSeconds,
    },
    /// Other fields of a node were set by hand.
    NodeUpdated {
        /// Node.
        node: String,
        /// Weight.
        weight: Option<u32>,
        /// AvailableFeatures.
        features: Option<Vec<String>>,
        /// ActiveFeatures.
        active_features: Option<Vec<String>>,
        /// Comment.
        comment: Option<String>,
    },
    /// A partition was changed by hand.
    PartitionUpdated {
        /// New configuration.
        partition: Arc<PartitionConfig>,
    },
    /// A partition was deleted by hand.
    PartitionDeleted {
        /// Name.
        partition: String,
    },
    /// Nodes were made by hand.
    NodesCreated {
        /// Their configuration.
        nodes: Vec<NodeConfig>,
        /// When.
        time: UnixSeconds,
    },
    /// Nodes were taken away by hand.
    NodesDeleted {
        /// Names.
        nodes: Vec<String>,
    },
    /// What was set by hand on a node, as it is now.
    NodeSettings {
        /// Node.
        node: String,
        /// Configuration from now on, if that changed.
        config: Option<Arc<NodeConfig>>,
        /// The rest.
        manual: Box<NodeManual>,
    },
    /// Weight and features of a node are those of the configuration again.
    NodeReset {
        /// Node.
        node: String,
    },
    /// A step's limit was changed by hand.
    StepLimited {
        /// Job.
        job_id: JobId,
        /// Step.
        step_id: StepId,
        /// New limit.
        time_limit: TimeLimit,
    },
    /// A running job gave nodes back.
    JobShrunk {
        /// Job.
        job_id: JobId,
        /// Nodes it gives back; they are cleaned up like those of a job that ended.
        nodes: Vec<String>,
        /// When.
        time: UnixSeconds,
    },
    /// A trigger was set.
    TriggerSet {
        /// The trigger.
        trigger: Box<Trigger>,
    },
    /// What a trigger waits for has happened.
    TriggerDue {
        /// Number.
        id: u32,
        /// Nodes it happened to.
        nodes: Vec<String>,
        /// When it fires.
        time: UnixSeconds,
    },
    /// A trigger fired.
    TriggerFired {
        /// Number.
        id: u32,
    },
    /// Nodes are no longer what a permanent trigger has fired for.
    TriggerForgot {
        /// Number.
        id: u32,
        /// Nodes.
        nodes: Vec<String>,
    },
    /// A trigger was removed.
    TriggerRemoved {
        /// Number.
        id: u32,
    },
    /// A user's crontab was replaced, or removed.
    CrontabSet {
        /// Whose.
        uid: u32,
        /// The crontab.
        crontab: Option<Box<Crontab>>,
    },
    /// An entry of a crontab was switched off.
    CrontabEntryDisabled {
        /// Whose.
        uid: u32,
        /// Its job.
        job: JobId,
    },
    /// Associations, QOS or users are no longer as before.
    PolicyChanged {
        /// What differs.
        change: Box<PolicyChange>,
        /// When.
        time: UnixSeconds,
    },
    /// A cycle: usage is charged and worn up to `time`, fair share and all priorities are worked out.
    PrioritiesCalculated {
        /// When.
        time: UnixSeconds,
        /// Usage begins at nothing (PriorityUsageResetPeriod).
        reset: bool,
    },
    /// Usage was set by hand.
    UsageSet {
        /// Associations that have used nothing, with all below them.
        associations: Vec<u32>,
        /// QOS and what they have used.
        qos: Vec<(u32, f64)>,
        /// When.
        time: UnixSeconds,
    },
    /// A reservation was made, or changed by hand: the whole record as it is now.
    ReservationSet {
        /// Record.
        reservation: Box<Reservation>,
    },
    /// An occurrence of a reservation began.
    ReservationBegun {
        /// Number.
        id: u32,
        /// When.
        time: UnixSeconds,
    },
    /// A recurring reservation moved on to another occurrence.
    ReservationMoved {
        /// Number.
        id: u32,
        /// Start.
        start: UnixSeconds,
        /// End.
        end: UnixSeconds,
    },
    /// Other nodes belong to a reservation from now on.
    ReservationNodes {
        /// Number.
        id: u32,
        /// Nodes.
        nodes: Vec<ReservedNode>,
        /// Cores in all.
        core_count: u32,
    },
    /// A reservation has no job any more since a time, or has one again.
    ReservationIdle {
        /// Number.
        id: u32,
        /// Since when; `None` = it has a job.
        since: Option<UnixSeconds>,
    },
    /// A reservation ended or was deleted. Jobs that wait for it lose it, and are held unless it says otherwise.
    ReservationDeleted {
        /// Number.
        id: u32,
        /// When.
        time: UnixSeconds,
    },
}

/// Changes the state by one fact.
pub fn apply(cluster: &mut Cluster, event: &Event) {
    let counters = cluster.job_counters.with(cluster, event);
    cluster.job_counters = counters;
    priority::before(cluster, event);
    change(cluster, event);
    priority::after(cluster, event);
}

fn change(cluster: &mut Cluster, event: &Event) {
    match event {
        Event::ConfigLoaded { config, time } => config::install(cluster, Arc::clone(config), *time),
        Event::BlobStored { id, bytes } => jobs::blob_stored(cluster, *id, bytes),
        Event::JobSubmitted { job } => jobs::submitted(cluster, job),
        Event::JobStarted { .. } => jobs::started(cluster, event),
        Event::NodeReady { job_id, node, time } => jobs::node_ready(cluster, *job_id, node, *time),
        Event::StepCreated { job_id, step } => steps::created(cluster, *job_id, step),
        Event::StepStarted {
            job_id,
            step_id,
            node,
        } => steps::started(cluster, *job_id, *step_id, node),
        Event::StepNodeEnded {
            job_id,
            step_id,
            node,
            tasks,
            launch_error,
            usage,
        } => {
            steps::node_ended(
                cluster,
                *job_id,
                *step_id,
                node,
                tasks,
                launch_error.as_deref(),
                usage,
            );
        }
        Event::StepEnded {
            job_id,
            step_id,
            state,
            exit_status,
            time,
            requester,
        } => {
            steps::ended(
                cluster,
                *job_id,
                *step_id,
                *state,
                *exit_status,
                *time,
                *requester,
            );
        }
        Event::JobEnded(end) => jobs::ended(cluster, end),
        Event::ArrayTaskSplit {
            job_id,
            task,
            split_id,
        } => {
            jobs::split_task(cluster, *job_id, *task, *split_id);
        }
        Event::ArrayTasksRemoved {
            job_id,
            tasks,
            split_ids,
            requester,
            time,
        } => {
            jobs::array_tasks_removed(cluster, *job_id, tasks, split_ids, *requester, *time);
        }
        Event::JobRequeued(requeue) => jobs::requeued(cluster, requeue),
        Event::NodeReleased { job_id, node, time } => {
            jobs::node_released(cluster, *job_id, node, *time)
        }
        Event::JobHeld {
            job_id,
            reason,
            text,
            ..
        } => jobs::held(cluster, *job_id, *reason, text.clone()),
        Event::JobReleased {
            job_id,
            priority,
            time,
        } => jobs::released(cluster, *job_id, *priority, *time),
        Event::JobUpdated { job, time } => jobs::updated(cluster, job, *time),
        Event::DependencyDecided {
            job_id,
            term,
            status,
            time,
        } => {
            jobs::dependency_decided(cluster, *job_id, *term, *status, *time);
        }
        Event::JobSuspended {
            job_id,
            suspended,
            time,
        } => jobs::suspended(cluster, *job_id, *suspended, *time),
        Event::JobWarned { job_id } => jobs::change(cluster, *job_id, |job| job.warned = true),
        Event::JobsPurged { jobs } => jobs::purged(cluster, jobs),
        Event::NodeRegistered {
            node,
            hardware,
            state,
            reason,
            time,
        } => {
            nodes::registered(cluster, node, hardware, *state, reason.clone(), *time);
        }
        Event::NodeStateSet {
            node,
            state,
            reason,
            uid,
            time,
        } => {
            nodes::state_set(cluster, node, *state, reason.clone(), *uid, *time);
        }
        Event::NodeUpdated {
            node,
            weight,
            features,
            active_features,
            comment,
        } => {
            nodes::updated(
                cluster,
                node,
                *weight,
                features.clone(),
                active_features.clone(),
                comment.clone(),
            );
        }
        Event::PartitionUpdated { partition } => config::partition_updated(cluster, partition),
        Event::ReservationSet { reservation } => reservations::set(cluster, reservation),
        Event::ReservationBegun { id, time } => reservations::begun(cluster, *id, *time),
        Event::ReservationMoved { id, start, end } => {
            reservations::moved(cluster, *id, *start, *end)
        }
        Event::ReservationNodes {
            id,
            nodes,
            core_count,
        } => reservations::nodes(cluster, *id, nodes, *core_count),
        Event::ReservationIdle { id, since } => reservations::idle(cluster, *id, *since),
        Event::ReservationDeleted { id, time } => reservations::deleted(cluster, *id, *time),
        Event::TriggerSet { trigger } => automation::trigger_set(cluster, trigger),
        Event::TriggerDue { id, nodes, time } => {
            automation::trigger_due(cluster, *id, nodes, *time);
        }
        Event::TriggerFired { id } => automation::trigger_fired(cluster, *id),
        Event::TriggerForgot { id, nodes } => automation::trigger_forgot(cluster, *id, nodes),
        Event::TriggerRemoved { id } => automation::trigger_removed(cluster, *id),
        Event::CrontabSet { uid, crontab } => {
            automation::crontab_set(cluster, *uid, crontab.as_deref());
        }
        Event::CrontabEntryDisabled { uid, job } => {
            automation::crontab_entry_disabled(cluster, *uid, *job);
        }
        Event::PartitionDeleted { partition } => config::partition_deleted(cluster, partition),
        Event::NodesCreated { nodes, time } => config::nodes_created(cluster, nodes, *time),
        Event::NodesDeleted { nodes } => config::nodes_deleted(cluster, nodes),
        Event::NodeSettings {
            node,
            config,
            manual,
        } => config::node_settings(cluster, node, config.as_ref(), manual),
        Event::NodeReset { node } => config::node_reset(cluster, node),
        Event::StepLimited {
            job_id,
            step_id,
            time_limit,
        } => steps::limited(cluster, *job_id, *step_id, *time_limit),
        Event::JobShrunk {
            job_id,
            nodes,
            time,
        } => jobs::shrunk(cluster, *job_id, nodes, *time),
        Event::PolicyChanged { change, .. } => policy::changed(cluster, change),
        Event::PrioritiesCalculated { time, reset } => priority::cycle(cluster, *time, *reset),
        Event::UsageSet {
            associations, qos, ..
        } => policy::usage_set(cluster, associations, qos),
    }
}
