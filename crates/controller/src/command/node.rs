//! Changing nodes by hand: `scontrol update NodeName=`. Source: scheduling reference 11 (transitions), scontrol(1).

use sluice_model::error_code::ErrorCode;
use sluice_model::hostlist::parse_hostlist;
use sluice_model::node::{NodeStateRequest, NodeUpdate};
use sluice_model::node_state::{NodeState, NodeStateFlags};

use super::{Caller, Rejection, agent};
use crate::event::Event;
use crate::transaction::Transaction;

/// Applies a change to every node named; nothing is changed if one of them does not exist.
///
/// # Errors
/// No permission; invalid node name; DOWN, DRAIN and FAIL without a reason.
pub fn update(
    transaction: &mut Transaction<'_>,
    update: &NodeUpdate,
    caller: &Caller,
) -> Result<(), Rejection> {
    if !caller.privileged {
        return Err(ErrorCode::InvalidUserId.into());
    }
    let names = if update.nodes.eq_ignore_ascii_case("all") {
        transaction
            .cluster
            .nodes
            .iter()
            .map(|node| node.config.name.clone())
            .collect()
    } else {
        parse_hostlist(&update.nodes).map_err(|_| ErrorCode::InvalidNodeName)?
    };
    if names.is_empty() {
        return Err(ErrorCode::InvalidNodeName.into());
    }
    if let Some(missing) = names
        .iter()
        .find(|name| transaction.cluster.node_named(name).is_none())
    {
        return Err(Rejection::with_text(
            ErrorCode::InvalidNodeName,
            format!(
                "{}\n\nhint: there is no node \"{missing}\"",
                ErrorCode::InvalidNodeName.message()
            ),
        ));
    }
    let needs_reason = matches!(
        update.state,
        Some(NodeStateRequest::Down | NodeStateRequest::Drain | NodeStateRequest::Fail)
    );
    for name in &names {
        let has_reason = update
            .reason
            .as_deref()
            .is_some_and(|reason| !reason.is_empty())
            || transaction
                .cluster
                .node_named(name)
                .is_some_and(|(_, node)| node.reason.is_some());
        if needs_reason && !has_reason {
            return Err(Rejection::with_text(
                ErrorCode::InvalidNodeState,
                "You must specify a reason when DOWNING a node",
            ));
        }
    }
    for name in names {
        update_one(transaction, &name, update, caller);
    }
    transaction.wake_planner();
    Ok(())
}

fn update_one(transaction: &mut Transaction<'_>, name: &str, update: &NodeUpdate, caller: &Caller) {
    let Some((index, node)) = transaction
        .cluster
        .node_named(name)
        .map(|(i, n)| (i, n.clone()))
    else {
        return;
    };
    let connected = transaction.cluster.connected.contains(&index);
    let mut state = node.state;
    let mut reason = update
        .reason
        .clone()
        .filter(|text| !text.is_empty())
        .or_else(|| node.reason.clone());
    let mut goes_down = false;
    match update.state {
        None => {}
        Some(NodeStateRequest::Down) => {
            state.base = NodeState::Down;
            goes_down = true;
        }
        Some(NodeStateRequest::Drain) => state.flags.insert(NodeStateFlags::DRAIN),
        Some(NodeStateRequest::Fail) => state.flags.insert(NodeStateFlags::FAIL),
        Some(NodeStateRequest::Resume | NodeStateRequest::Idle) => {
            if update.state == Some(NodeStateRequest::Resume) {
                state.flags.remove(
                    NodeStateFlags::DRAIN | NodeStateFlags::FAIL | NodeStateFlags::INVALID_REG,
                );
            }
            if matches!(state.base, NodeState::Down | NodeState::Future) {
                // A node whose agent has not spoken waits for it.
                state.base = if connected {
                    NodeState::Idle
                } else {
                    NodeState::Unknown
                };
            }
            if connected {
                state.flags.remove(NodeStateFlags::NO_RESPOND);
            }
            if !state.is_draining() {
                reason = update.reason.clone().filter(|text| !text.is_empty());
            }
        }
        Some(NodeStateRequest::Undrain) => {
            state.flags.remove(NodeStateFlags::DRAIN);
            if !state.is_down() && !state.flags.contains(NodeStateFlags::FAIL) {
                reason = None;
            }
        }
        Some(NodeStateRequest::Future) => state.base = NodeState::Future,
        Some(NodeStateRequest::NoResponse) => state.flags.insert(NodeStateFlags::NO_RESPOND),
    }
    if state != node.state || reason != node.reason {
        let time = transaction.now;
        transaction.emit(Event::NodeStateSet {
            node: name.to_owned(),
            state,
            reason,
            uid: caller.uid,
            time,
        });
    }
    let others = update.weight.is_some()
        || update.available_features.is_some()
        || update.active_features.is_some()
        || update.comment.is_some();
    if others {
        transaction.emit(Event::NodeUpdated {
            node: name.to_owned(),
            weight: update.weight,
            features: update.available_features.clone(),
            active_features: update.active_features.clone(),
            comment: update.comment.clone(),
        });
    }
    if goes_down {
        agent::fail_jobs(
            transaction,
            name,
            update.reason.as_deref().unwrap_or("set DOWN"),
        );
    }
}
