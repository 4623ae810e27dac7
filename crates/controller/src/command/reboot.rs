//! Rebooting nodes: `scontrol reboot`, `cancel_reboot`, and what follows. Source: scontrol(1) reboot, slurm.conf(5) RebootProgram,
//! ResumeTimeout.
//!
//! A node asked to reboot keeps its jobs; as soon as it has none, its agent is told to run RebootProgram and the node is DOWN until
//! a machine or agent that started later registers. Times in seconds.

use std::sync::Arc;

use sluice_model::error_code::ErrorCode;
use sluice_model::launch::AgentOrder;
use sluice_model::node::NodeHardware;
use sluice_model::node_state::{NodeState, NodeStateFlags, NodeStateFull};
use sluice_model::time::UnixSeconds;

use super::partition::node_configs;
use super::{Caller, Rejection, agent};
use crate::cluster::{AfterReboot, Node, NodeManual, NodeReboot};
use crate::event::Event;
use crate::transaction::Transaction;

/// Reason of a reboot as soon as possible.
const REASON_ASAP: &str = "Reboot ASAP";

/// Reason of any other reboot.
const REASON_LATER: &str = "reboot requested";

/// Default of ResumeTimeout.
const RESUME_TIMEOUT_SECS: i64 = 60;

/// What was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RebootRequest {
    /// Hostlist, node sets, ALL.
    pub nodes: String,
    /// No new jobs until it is done.
    pub asap: bool,
    /// End what runs there.
    pub force: bool,
    /// What comes after.
    pub next_state: Option<AfterReboot>,
    /// Why; empty = Slurm's words.
    pub reason: String,
}

/// Marks nodes for a reboot and starts with those that are idle.
///
/// # Errors
/// No permission; no RebootProgram; a name that means no node.
pub fn request(
    transaction: &mut Transaction<'_>,
    request: &RebootRequest,
    caller: &Caller,
) -> Result<(), Rejection> {
    if !caller.privileged {
        return Err(ErrorCode::AccessDenied.into());
    }
    if transaction.cluster.config.agent.reboot_program.is_none() {
        return Err(Rejection::with_text(
            ErrorCode::Disabled,
            format!(
                "{}\n\nhint: set RebootProgram in slurm.conf",
                ErrorCode::Disabled.message()
            ),
        ));
    }
    let names = transaction
        .cluster
        .config
        .members(&node_configs(transaction.cluster), &request.nodes)
        .map_err(|_| ErrorCode::InvalidNodeName)?;
    if names.is_empty() {
        return Err(ErrorCode::InvalidNodeName.into());
    }
    for name in &names {
        mark(transaction, name, request, caller);
        if request.force {
            agent::fail_jobs(transaction, name, "rebooted by force");
        }
        issue_if_idle(transaction, name);
    }
    transaction.wake_planner();
    Ok(())
}

fn mark(transaction: &mut Transaction<'_>, name: &str, request: &RebootRequest, caller: &Caller) {
    let Some((_, node)) = transaction.cluster.node_named(name) else {
        return;
    };
    let skipped = node.state.flags.contains(NodeStateFlags::REBOOT_ISSUED)
        || matches!(node.state.base, NodeState::Future);
    if skipped {
        return;
    }
    let node = Arc::clone(node);
    let asap = request.asap || request.force;
    let mut state = node.state;
    state.flags.insert(NodeStateFlags::REBOOT_REQUESTED);
    let drained = asap && !state.is_draining();
    if drained {
        state.flags.insert(NodeStateFlags::DRAIN);
    }
    let reason = if !request.reason.is_empty() {
        Some(request.reason.clone())
    } else if asap {
        Some(REASON_ASAP.to_owned())
    } else {
        Some(
            node.reason
                .clone()
                .unwrap_or_else(|| REASON_LATER.to_owned()),
        )
    };
    let mut manual = node.manual.clone();
    manual.reboot = Some(NodeReboot {
        next_state: request.next_state.or(asap.then_some(AfterReboot::Resume)),
        drained: drained
            || node
                .manual
                .reboot
                .as_ref()
                .is_some_and(|reboot| reboot.drained),
        issued: None,
    });
    set(transaction, name, manual);
    set_state(transaction, name, state, reason, caller.uid);
}

fn set(transaction: &mut Transaction<'_>, name: &str, manual: NodeManual) {
    transaction.emit(Event::NodeSettings {
        node: name.to_owned(),
        config: None,
        manual: Box::new(manual),
    });
}

fn set_state(
    transaction: &mut Transaction<'_>,
    name: &str,
    state: NodeStateFull,
    reason: Option<String>,
    uid: u32,
) {
    let time = transaction.now;
    transaction.emit(Event::NodeStateSet {
        node: name.to_owned(),
        state,
        reason,
        uid,
        time,
    });
}

/// The reason with a word about how far the reboot is.
fn noted(reason: Option<&str>, word: &str) -> Option<String> {
    Some(match reason {
        Some(reason) if !reason.is_empty() => format!("{reason} : {word}"),
        _ => word.to_owned(),
    })
}

/// Tells the agent of an idle node that waits for its reboot.
pub(super) fn issue_if_idle(transaction: &mut Transaction<'_>, name: &str) {
    let Some((index, node)) = transaction.cluster.node_named(name) else {
        return;
    };
    let due = node.state.flags.contains(NodeStateFlags::REBOOT_REQUESTED)
        && node.jobs.is_empty()
        && transaction.cluster.connected.contains(&index);
    if !due {
        return;
    }
    let node = Arc::clone(node);
    let mut state = node.state;
    state.base = NodeState::Down;
    state.flags.remove(NodeStateFlags::REBOOT_REQUESTED);
    state.flags.insert(NodeStateFlags::REBOOT_ISSUED);
    let mut manual = node.manual.clone();
    let mut reboot = manual.reboot.take().unwrap_or(NodeReboot {
        next_state: None,
        drained: false,
        issued: None,
    });
    reboot.issued = Some(transaction.now);
    manual.reboot = Some(reboot);
    set(transaction, name, manual);
    let reason = noted(node.reason.as_deref(), "reboot issued");
    set_state(
        transaction,
        name,
        state,
        reason.clone(),
        node.reason_uid.unwrap_or(0),
    );
    transaction.order(
        name,
        AgentOrder::Reboot {
            reason: reason.unwrap_or_default(),
        },
    );
}

/// Starts what is due, and gives up on nodes that did not come back within ResumeTimeout.
pub(super) fn tick(transaction: &mut Transaction<'_>) {
    let flags = NodeStateFlags::REBOOT_REQUESTED | NodeStateFlags::REBOOT_ISSUED;
    let names: Vec<String> = transaction
        .cluster
        .nodes
        .iter()
        .filter(|node| node.state.flags.intersects(flags))
        .map(|node| node.config.name.clone())
        .collect();
    let timeout = transaction
        .cluster
        .config
        .raw_value("ResumeTimeout")
        .and_then(|text| text.trim().parse::<i64>().ok())
        .unwrap_or(RESUME_TIMEOUT_SECS);
    for name in names {
        issue_if_idle(transaction, &name);
        let Some((_, node)) = transaction.cluster.node_named(&name) else {
            continue;
        };
        let issued = node.manual.reboot.as_ref().and_then(|reboot| reboot.issued);
        let late = issued.is_some_and(|since| transaction.now.since(since) > timeout);
        if timeout > 0 && late {
            let node = Arc::clone(node);
            let mut state = node.state;
            state.base = NodeState::Down;
            state.flags.remove(flags);
            end(transaction, &name, &node);
            let reason = noted(node.reason.as_deref(), "reboot timed out");
            set_state(transaction, &name, state, reason, 0);
        }
    }
}

fn end(transaction: &mut Transaction<'_>, name: &str, node: &Node) {
    let mut manual = node.manual.clone();
    manual.reboot = None;
    set(transaction, name, manual);
}

/// The reboot of a node is over when machine or agent started after the order. `None` = it is not, or none was asked for.
pub(super) fn outcome(
    node: &Node,
    hardware: &NodeHardware,
) -> Option<(NodeStateFull, Option<String>)> {
    let reboot = node.manual.reboot.as_ref()?;
    let issued = reboot.issued?;
    let later = |time: UnixSeconds| time > issued;
    if !later(hardware.boot_time) && !later(hardware.agent_start_time) {
        return None;
    }
    let mut state = node.state;
    state.flags.remove(
        NodeStateFlags::REBOOT_ISSUED
            | NodeStateFlags::REBOOT_REQUESTED
            | NodeStateFlags::NO_RESPOND,
    );
    Some(match reboot.next_state {
        Some(AfterReboot::Down) => {
            state.base = NodeState::Down;
            if reboot.drained {
                state.flags.remove(NodeStateFlags::DRAIN);
            }
            (state, noted(node.reason.as_deref(), "reboot complete"))
        }
        next => {
            state.base = NodeState::Idle;
            if next.is_some() || reboot.drained {
                state.flags.remove(NodeStateFlags::DRAIN);
            }
            let reason = node.reason.clone().filter(|_| state.is_draining());
            (state, reason)
        }
    })
}

/// Forgets the reboot of a node that has come back.
pub(super) fn finish(transaction: &mut Transaction<'_>, name: &str) {
    if let Some((_, node)) = transaction.cluster.node_named(name) {
        let node = Arc::clone(node);
        end(transaction, name, &node);
    }
}

/// Takes a reboot back that has not begun; gives the state and reason from now on.
///
/// # Errors
/// Invalid node state when none waits.
pub(super) fn cancel(node: &Node) -> Result<(NodeStateFull, Option<String>), Rejection> {
    let mut state = node.state;
    if !state.flags.contains(NodeStateFlags::REBOOT_REQUESTED) {
        return Err(ErrorCode::InvalidNodeState.into());
    }
    state.flags.remove(NodeStateFlags::REBOOT_REQUESTED);
    let drained = node
        .manual
        .reboot
        .as_ref()
        .is_some_and(|reboot| reboot.drained);
    if drained {
        state.flags.remove(NodeStateFlags::DRAIN);
    }
    let keeps =
        state.is_draining() || state.is_down() || state.flags.contains(NodeStateFlags::FAIL);
    Ok((state, node.reason.clone().filter(|_| keeps)))
}
