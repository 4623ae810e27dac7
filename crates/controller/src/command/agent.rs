//! What agents say: registrations, reports, silence.
//!
//! Every report may arrive twice or late; what no longer concerns the current run is ignored. Sources: agent reference 2, 3, 11,
//! 12; `slurm.conf(5)` ReturnToService.

mod lost_node;

pub(super) use lost_node::end_steps_on;
pub use lost_node::fail_jobs;
use lost_node::lose_job;

use std::sync::Arc;

use sluice_model::error_code::ErrorCode;
use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::{JobId, StepId};
use sluice_model::launch::{AgentOrder, AgentReport, LiveStep, StepExit};
use sluice_model::node::NodeHardware;
use sluice_model::node_state::{NodeState, NodeStateFlags, NodeStateFull};
use sluice_model::reason::Reason;
use sluice_model::state::JobState;
use sluice_model::time::UnixSeconds;

use super::job_end::{self, Kill};
use super::{Rejection, reboot};
use crate::cluster::{Cluster, Job, Node, NodePhase};
use crate::effect::Effect;
use crate::event::{Event, JobEnd, Requeue};
use crate::launch;
use crate::transaction::Transaction;

/// Text of a node that was set DOWN for silence; ReturnToService=1 forgives exactly this.
pub const NOT_RESPONDING: &str = "Not responding";

/// A registration.
#[derive(Debug, Clone)]
pub struct Registration {
    /// NodeName.
    pub node: String,
    /// Hardware.
    pub hardware: NodeHardware,
    /// Steps alive or unreported there.
    pub steps: Vec<LiveStep>,
    /// Jobs known there.
    pub jobs: Vec<(JobId, u32)>,
    /// Health check failure.
    pub health_error: Option<String>,
    /// Seconds between heartbeats to ask for.
    pub heartbeat_secs: u32,
}

/// Takes a node's registration. Gives the orders that bring the agent to what should be, first of them `Registered`.
///
/// # Errors
/// Invalid node name (2018) for a node that the configuration does not have.
pub fn register(
    transaction: &mut Transaction<'_>,
    registration: Registration,
) -> Result<Vec<AgentOrder>, Rejection> {
    let name = registration.node.clone();
    let (index, node) = transaction
        .cluster
        .node_named(&name)
        .map(|(i, n)| (i, Arc::clone(n)))
        .ok_or_else(|| {
            Rejection::with_text(
                ErrorCode::InvalidNodeName,
                format!("node {name} is not in the configuration (NodeName=)"),
            )
        })?;
    let rebooted = node.hardware.as_ref().is_some_and(|before| {
        // An agent may say any number.
        before.boot_time.0 > 0
            && registration.hardware.boot_time > before.boot_time.saturating_add(5)
    });
    let back = reboot::outcome(&node, &registration.hardware);
    let returns = back.is_some();
    let waits = node.state.flags.contains(NodeStateFlags::REBOOT_ISSUED);
    let (state, reason) = match back {
        Some(back) => back,
        // It speaks, and has not gone down yet.
        None if waits => (node.state, node.reason.clone()),
        None => state_after_registration(transaction.cluster, &node, &registration, rebooted),
    };
    let hardware_changed = node.hardware.as_deref() != Some(&registration.hardware);
    if hardware_changed || state != node.state || reason != node.reason {
        let time = transaction.now;
        let hardware = Arc::new(registration.hardware.clone());
        transaction.emit(Event::NodeRegistered {
            node: name.clone(),
            hardware,
            state,
            reason,
            time,
        });
    }
    transaction
        .cluster
        .last_heard
        .insert(index, transaction.now);
    transaction.cluster.connected.insert(index);
    if returns {
        reboot::finish(transaction, &name);
    }
    if rebooted && !returns {
        fail_jobs(transaction, &name, "Node unexpectedly rebooted");
    }
    let orders = reconcile(transaction, &name, &registration);
    transaction.wake_planner();
    Ok(orders)
}

fn state_after_registration(
    cluster: &Cluster,
    node: &Node,
    registration: &Registration,
    rebooted: bool,
) -> (NodeStateFull, Option<String>) {
    let mut state = node.state;
    let mut reason = node.reason.clone();
    let return_to_service = cluster.config.agent.return_to_service;
    let was_silent = reason.as_deref() == Some(NOT_RESPONDING);
    state.flags.remove(NodeStateFlags::NO_RESPOND);
    match state.base {
        NodeState::Unknown | NodeState::Error => state.base = NodeState::Idle,
        NodeState::Down => {
            let returns = match return_to_service {
                0 => false,
                1 => was_silent && !rebooted,
                _ => true,
            };
            if returns {
                state.base = NodeState::Idle;
                if !state.is_draining() {
                    reason = None;
                }
            }
        }
        _ => {}
    }
    if rebooted && return_to_service != 2 && state.base != NodeState::Future {
        state.base = NodeState::Down;
        reason = Some("Node unexpectedly rebooted".to_owned());
    }
    match low_hardware(cluster, node, &registration.hardware) {
        Some(text) => {
            state
                .flags
                .insert(NodeStateFlags::INVALID_REG | NodeStateFlags::DRAIN);
            reason = Some(text);
        }
        None if state.flags.contains(NodeStateFlags::INVALID_REG) => {
            state
                .flags
                .remove(NodeStateFlags::INVALID_REG | NodeStateFlags::DRAIN);
            reason = None;
        }
        None => {}
    }
    if let Some(text) = &registration.health_error {
        state.flags.insert(NodeStateFlags::DRAIN);
        reason = Some(text.clone());
    }
    (state, reason)
}

/// Text when the machine has less than configured. A shortfall of memory of up to 5 % is forgiven: kernels report a little less
/// than is built in (field case 068).
fn low_hardware(cluster: &Cluster, node: &Node, found: &NodeHardware) -> Option<String> {
    if cluster.config.agent.config_overrides {
        return None;
    }
    let config = &node.config;
    if found.cpus < config.cpus {
        return Some(format!(
            "Low CPUs (reported:{} < configured:{})",
            found.cpus, config.cpus
        ));
    }
    let floor = config.real_memory.0 / 100 * 95;
    if found.real_memory.0 < floor {
        return Some(format!(
            "Low RealMemory (reported:{} < 95.00% of configured:{})",
            found.real_memory.0, config.real_memory.0
        ));
    }
    if found.tmp_disk_mib < config.tmp_disk_mib {
        return Some(format!(
            "Low TmpDisk (reported:{} < configured:{})",
            found.tmp_disk_mib, config.tmp_disk_mib
        ));
    }
    for gres in &node.gres {
        let reported: u64 = found
            .gres
            .iter()
            .filter(|g| {
                g.name == gres.name && (gres.type_name.is_none() || g.type_name == gres.type_name)
            })
            .map(|g| g.count)
            .sum();
        if reported < gres.count {
            return Some(format!(
                "gres/{} count reported lower than configured ({reported} < {})",
                gres.name, gres.count
            ));
        }
    }
    None
}

/// Compares what the agent has with what it should have.
fn reconcile(
    transaction: &mut Transaction<'_>,
    name: &str,
    registration: &Registration,
) -> Vec<AgentOrder> {
    let Some((index, node)) = transaction
        .cluster
        .node_named(name)
        .map(|(i, n)| (i, Arc::clone(n)))
    else {
        return Vec::new();
    };
    let mut known = Vec::new();
    let mut orders = Vec::new();
    for id in &node.jobs {
        let Some(job) = transaction.cluster.job(*id).cloned() else {
            continue;
        };
        let Some(part) = job.allocation.as_ref().and_then(|a| a.on(index)).cloned() else {
            continue;
        };
        if part.phase == NodePhase::Released {
            continue;
        }
        known.push((job.id, job.run_attempt));
        let agent_knows = registration.jobs.contains(&(job.id, job.run_attempt));
        if part.phase == NodePhase::Ending {
            orders.push(launch::terminate_order(
                transaction.cluster,
                &job,
                &part,
                &Kill::Gently {
                    cause: String::new(),
                },
                transaction.now,
            ));
            continue;
        }
        if !agent_knows {
            orders.push(launch::start_order(transaction.cluster, &job, &part));
        }
        if agent_knows && job.suspend_time.is_some() {
            // The order to stop or to go on may have been lost with a connection.
            orders.push(AgentOrder::Suspend {
                job_id: job.id,
                suspended: job.state.base == JobState::Suspended,
            });
        }
        for step in job.steps.values() {
            let Some(at) = step.nodes.iter().position(|state| state.node == index) else {
                continue;
            };
            if step.nodes[at].ended.is_some() {
                continue;
            }
            let alive = registration.steps.iter().any(|live| {
                live.job_id == job.id && live.attempt == job.run_attempt && live.step_id == step.id
            });
            if alive {
                continue;
            }
            if step.nodes[at].started {
                lost_step(transaction, &job, step.id, name);
            } else if let Some(order) = launch::step_order(transaction.cluster, &job, step, at) {
                orders.push(order);
            }
        }
    }
    orders.insert(
        0,
        AgentOrder::Registered {
            jobs: known,
            heartbeat_secs: registration.heartbeat_secs,
        },
    );
    orders
}

/// A step that ran on the node is unknown to its agent: it is over, and nobody knows how.
fn lost_step(transaction: &mut Transaction<'_>, job: &Job, step_id: StepId, node: &str) {
    if step_id == StepId::Batch {
        lose_job(transaction, job.id, node, "batch job missing from node");
        return;
    }
    let tasks = job
        .steps
        .get(&step_id)
        .and_then(|step| step.layout.nodes.iter().find(|n| n.node == node))
        .map(|n| {
            n.task_ids
                .iter()
                .map(|rank| (*rank, WaitStatus::signaled(9)))
                .collect()
        })
        .unwrap_or_default();
    step_ended(
        transaction,
        node,
        StepExit {
            job_id: job.id,
            attempt: job.run_attempt,
            step_id,
            tasks,
            launch_error: Some(format!("the step is unknown to the agent of {node}")),
            usage: Default::default(),
            end_time: transaction.now,
        },
    );
}

/// What the node's agent reports is worth nothing before it has registered once more: the node was taken for silent over a
/// connection that survived, or its record was deleted or made anew meanwhile.
#[must_use]
pub fn must_register_again(cluster: &Cluster, name: &str) -> bool {
    cluster.node_named(name).is_none_or(|(_, node)| {
        node.state.flags.contains(NodeStateFlags::NO_RESPOND)
            || node.state.base == NodeState::Unknown
    })
}

/// The agent's connection broke.
pub fn disconnected(transaction: &mut Transaction<'_>, name: &str) {
    if let Some((index, _)) = transaction.cluster.node_named(name) {
        transaction.cluster.connected.remove(&index);
        transaction
            .cluster
            .last_heard
            .insert(index, transaction.now);
    }
}

/// Takes one report. What makes no difference any more makes no event.
pub fn report(transaction: &mut Transaction<'_>, node: &str, report: AgentReport) {
    match report {
        // A usage figure answers a question of the daemon and changes nothing.
        AgentReport::Register { .. } | AgentReport::Usage { .. } => {}
        AgentReport::Heartbeat { load } => {
            if let Some((index, _)) = transaction.cluster.node_named(node) {
                transaction
                    .cluster
                    .last_heard
                    .insert(index, transaction.now);
                transaction.cluster.loads.insert(index, load);
            }
        }
        AgentReport::PrologDone {
            job_id,
            attempt,
            error,
        } => prolog_done(transaction, node, job_id, attempt, error),
        AgentReport::StepStarted {
            job_id,
            attempt,
            step_id,
            ..
        } => {
            let known = transaction.cluster.job(job_id).is_some_and(|job| {
                job.run_attempt == attempt
                    && job
                        .steps
                        .get(&step_id)
                        .is_some_and(|step| step.end_time.is_none())
            });
            if known {
                transaction.emit(Event::StepStarted {
                    job_id,
                    step_id,
                    node: node.to_owned(),
                });
            }
        }
        AgentReport::StepEnded(exit) => step_ended(transaction, node, exit),
        AgentReport::EpilogDone {
            job_id,
            attempt,
            error,
        } => {
            if let Some(text) = error {
                drain(transaction, node, &text);
            }
            let ending = transaction.cluster.job(job_id).is_some_and(|job| {
                job.run_attempt == attempt
                    && job.allocation.as_ref().is_some_and(|a| {
                        a.nodes
                            .iter()
                            .any(|part| part.name == node && part.phase == NodePhase::Ending)
                    })
            });
            if ending {
                // Steps whose launch was lost on the way, or of which nothing was heard, are over too.
                if let Some(job) = transaction.cluster.job(job_id).cloned() {
                    end_steps_on(transaction, &job, node);
                }
                job_end::release_node(transaction, job_id, node);
            }
        }
        AgentReport::Drain { reason } => drain(transaction, node, &reason),
    }
}

/// Sets DRAIN with a reason, unless it is set already.
fn drain(transaction: &mut Transaction<'_>, node: &str, reason: &str) {
    let Some((_, record)) = transaction.cluster.node_named(node) else {
        return;
    };
    if record.state.is_draining() {
        return;
    }
    let mut state = record.state;
    state.flags.insert(NodeStateFlags::DRAIN);
    let time = transaction.now;
    transaction.emit(Event::NodeStateSet {
        node: node.to_owned(),
        state,
        reason: Some(reason.to_owned()),
        uid: 0,
        time,
    });
}

fn prolog_done(
    transaction: &mut Transaction<'_>,
    node: &str,
    id: JobId,
    attempt: u32,
    error: Option<String>,
) {
    let Some(job) = transaction.cluster.job(id).cloned() else {
        return;
    };
    let waiting = job.run_attempt == attempt
        && job.allocation.as_ref().is_some_and(|a| {
            a.nodes
                .iter()
                .any(|part| part.name == node && part.phase == NodePhase::Prolog)
        });
    let Some(text) = error else {
        if waiting {
            let time = transaction.now;
            transaction.emit(Event::NodeReady {
                job_id: id,
                node: node.to_owned(),
                time,
            });
            transaction.effect(Effect::JobChanged { job: id });
        }
        return;
    };
    drain(transaction, node, &text);
    if waiting {
        launch_failed(transaction, &job, &text);
    }
}

/// The job could not be launched: back to the queue, held; what cannot be requeued is cancelled.
fn launch_failed(transaction: &mut Transaction<'_>, job: &Job, text: &str) {
    if job.state.is_finished() || job.state.is_pending() {
        return;
    }
    let force = transaction
        .cluster
        .config
        .scripts
        .flags
        .force_requeue_on_fail;
    let kill = Kill::Gently {
        cause: String::new(),
    };
    if job.request.batch && (job.requeue || force) {
        let hold = !transaction
            .cluster
            .config
            .scheduling
            .parameters
            .nohold_on_prolog_fail;
        let time = transaction.now;
        let begin_time = if hold {
            None
        } else {
            job_end::requeue_begin(transaction.cluster, time)
        };
        job_end::requeue_running(
            transaction,
            Requeue {
                job_id: job.id,
                time,
                run_state: JobState::NodeFail,
                begin_time,
                hold: hold.then_some(Reason::JobHeldAdmin),
                reason_text: Some(format!("launch failed requeued held: {text}")),
                special_exit: false,
                exit_status: WaitStatus::SUCCESS,
                failed_node: None,
            },
            &kill,
        );
    } else {
        end_now(
            transaction,
            job.id,
            JobState::Cancelled,
            Reason::JobLaunchFailure,
            Some(text.to_owned()),
            WaitStatus::SUCCESS,
            &kill,
        );
    }
}

fn end_now(
    transaction: &mut Transaction<'_>,
    job_id: JobId,
    state: JobState,
    reason: Reason,
    reason_text: Option<String>,
    exit_status: WaitStatus,
    kill: &Kill,
) {
    let time = transaction.now;
    job_end::end_running(
        transaction,
        JobEnd {
            job_id,
            state,
            reason,
            reason_text,
            exit_status,
            time,
            requester: None,
            failed_node: None,
        },
        kill,
    );
}

fn step_ended(transaction: &mut Transaction<'_>, node: &str, exit: StepExit) {
    let Some(job) = transaction.cluster.job(exit.job_id).cloned() else {
        return;
    };
    if job.run_attempt != exit.attempt {
        return;
    }
    let Some(step) = job.steps.get(&exit.step_id) else {
        return;
    };
    let Some((index, _)) = transaction.cluster.node_named(node) else {
        return;
    };
    let open = step
        .nodes
        .iter()
        .any(|state| state.node == index && state.ended.is_none());
    if !open {
        return;
    }
    let out_of_memory = exit.usage.out_of_memory;
    let launch_error = exit.launch_error.clone();
    transaction.emit(Event::StepNodeEnded {
        job_id: exit.job_id,
        step_id: exit.step_id,
        node: node.to_owned(),
        tasks: exit.tasks,
        launch_error: exit.launch_error,
        usage: exit.usage,
    });
    finish_step_if_over(
        transaction,
        exit.job_id,
        exit.step_id,
        exit.end_time,
        out_of_memory,
        launch_error,
    );
}

/// Records a step's end once it has ended on every node; the end of the batch step is the end of the job.
fn finish_step_if_over(
    transaction: &mut Transaction<'_>,
    id: JobId,
    step_id: StepId,
    end_time: UnixSeconds,
    out_of_memory: bool,
    launch_error: Option<String>,
) {
    let Some(job) = transaction.cluster.job(id).cloned() else {
        return;
    };
    let Some(step) = job.steps.get(&step_id) else {
        return;
    };
    if step.end_time.is_some() || step.nodes.iter().any(|state| state.ended.is_none()) {
        return;
    }
    let statuses = step
        .nodes
        .iter()
        .flat_map(|state| state.ended.iter().flatten());
    let exit_status = statuses
        .map(|(_, status)| *status)
        .max_by_key(|status| status.0)
        .unwrap_or_default();
    let out_of_memory = out_of_memory || step.nodes.iter().any(|state| state.usage.out_of_memory);
    let state = step_state(
        &job,
        exit_status,
        out_of_memory,
        step.kill_requester.is_some(),
    );
    let time = end_time
        .max(step.start_time)
        .min(transaction.now.max(step.start_time));
    let requester = step.kill_requester.or(job.kill_requester);
    transaction.emit(Event::StepEnded {
        job_id: id,
        step_id,
        state,
        exit_status,
        time,
        requester,
    });
    transaction.effect(Effect::JobChanged { job: id });
    if step_id == StepId::Batch && !job.state.is_finished() && !job.state.is_pending() {
        batch_ended(transaction, &job, exit_status, out_of_memory, launch_error);
    }
}

fn step_state(
    job: &Job,
    exit_status: WaitStatus,
    out_of_memory: bool,
    cancelled: bool,
) -> JobState {
    if out_of_memory {
        return JobState::OutOfMemory;
    }
    // A step that ended by itself keeps its own result, also when the job was over before its report came.
    let was_ended = cancelled || job.state.is_finished() || job.state.is_pending();
    match (
        exit_status.is_success(),
        was_ended && exit_status.signal() != 0,
    ) {
        (true, _) => JobState::Completed,
        (false, true) => JobState::Cancelled,
        (false, false) => JobState::Failed,
    }
}

fn in_ranges(ranges: &[(u8, u8)], code: i32) -> bool {
    ranges
        .iter()
        .any(|(low, high)| (i32::from(*low)..=i32::from(*high)).contains(&code))
}

fn batch_ended(
    transaction: &mut Transaction<'_>,
    job: &Job,
    exit_status: WaitStatus,
    out_of_memory: bool,
    launch_error: Option<String>,
) {
    if let Some(text) = launch_error {
        // A script that ran and whose step daemon is gone was lost by its node; one that never ran could not be launched.
        let lost = job
            .steps
            .get(&StepId::Batch)
            .and_then(|step| step.nodes.iter().zip(&step.layout.nodes).next())
            .filter(|(state, _)| state.started)
            .map(|(_, layout)| layout.node.clone());
        match lost {
            Some(node) => lose_job(transaction, job.id, &node, &text),
            None => launch_failed(transaction, job, &text),
        }
        return;
    }
    let jobs = &transaction.cluster.config.jobs;
    let (again, special) = (
        in_ranges(&jobs.requeue_exit, exit_status.code()),
        in_ranges(&jobs.requeue_exit_hold, exit_status.code()),
    );
    if (again || special) && exit_status.code() != 0 && job_end::may_requeue(job) {
        let time = transaction.now;
        let begin_time = if special {
            None
        } else {
            job_end::requeue_begin(transaction.cluster, time)
        };
        job_end::requeue_running(
            transaction,
            Requeue {
                job_id: job.id,
                time,
                run_state: JobState::Failed,
                begin_time,
                hold: special.then_some(Reason::JobHeldUser),
                reason_text: None,
                special_exit: special,
                exit_status,
                failed_node: None,
            },
            &Kill::Leftovers,
        );
        return;
    }
    let (state, reason, text) = if out_of_memory {
        (JobState::OutOfMemory, Reason::OutOfMemory, None)
    } else if exit_status.is_success() {
        (JobState::Completed, Reason::None, None)
    } else if exit_status.signal() != 0 {
        let signal = sluice_model::signal::Signal::from_number(exit_status.signal());
        (
            JobState::Failed,
            Reason::RaisedSignal,
            // No blanks: tools such as PSI/J split squeue's lines at them.
            signal.map(|s| {
                let description = s.description().replace(' ', "_");
                format!("RaisedSignal:{}({description})", s.number())
            }),
        )
    } else {
        (JobState::Failed, Reason::NonZeroExitCode, None)
    };
    end_now(
        transaction,
        job.id,
        state,
        reason,
        text,
        exit_status,
        &Kill::Leftovers,
    );
}
