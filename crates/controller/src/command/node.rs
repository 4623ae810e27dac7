//! Changing nodes by hand: `scontrol update NodeName=`. Source: scheduling reference 11 (transitions), scontrol(1).

use std::sync::Arc;

use sluice_model::error_code::ErrorCode;
use sluice_model::hostlist::parse_hostlist;
use sluice_model::node::{NodeStateRequest, NodeUpdate};
use sluice_model::node_state::{NodeState, NodeStateFlags, NodeStateFull};

use super::partition::{node_configs, refusal};
use super::{Caller, Rejection, agent, reboot};
use crate::cluster::Node;
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
    let names = transaction
        .cluster
        .config
        .members(&node_configs(transaction.cluster), &update.nodes)
        .map_err(|error| refusal(&error))?;
    if names.is_empty() {
        return Err(ErrorCode::InvalidNodeName.into());
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
    let parallel = Parallel::of(update, names.len())?;
    for (at, name) in names.iter().enumerate() {
        update_one(transaction, name, update, caller)?;
        update_settings(transaction, name, update, parallel.at(at))?;
    }
    transaction.wake_planner();
    Ok(())
}

/// Addresses and host names that go with the nodes one by one.
struct Parallel {
    addresses: Option<Vec<String>>,
    hostnames: Option<Vec<String>>,
}

impl Parallel {
    fn of(update: &NodeUpdate, count: usize) -> Result<Self, Rejection> {
        let list = |text: &Option<String>| match text.as_deref().filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => parse_hostlist(text)
                .ok()
                .filter(|list| list.len() == count)
                .map(Some)
                .ok_or_else(|| Rejection::new(ErrorCode::InvalidNodeName)),
        };
        Ok(Self {
            addresses: list(&update.address)?,
            hostnames: list(&update.hostname)?,
        })
    }

    fn at(&self, at: usize) -> (Option<&str>, Option<&str>) {
        (
            self.addresses
                .as_ref()
                .and_then(|list| list.get(at))
                .map(String::as_str),
            self.hostnames
                .as_ref()
                .and_then(|list| list.get(at))
                .map(String::as_str),
        )
    }
}

/// What replaces the configuration, and what has no place in it.
fn update_settings(
    transaction: &mut Transaction<'_>,
    name: &str,
    update: &NodeUpdate,
    (address, hostname): (Option<&str>, Option<&str>),
) -> Result<(), Rejection> {
    let Some((_, node)) = transaction.cluster.node_named(name) else {
        return Ok(());
    };
    let node = Arc::clone(node);
    let mut config = (*node.config).clone();
    if let Some(text) = &update.gres {
        config.gres = transaction
            .cluster
            .config
            .changed_gres(&config, text)
            .ok_or(ErrorCode::InvalidGres)?;
    }
    if let Some(address) = address {
        config.addr = address.to_owned();
    }
    if let Some(hostname) = hostname {
        config.hostname = hostname.to_owned();
    }
    let text = |given: &Option<String>, before: &Option<String>| match given {
        None => before.clone(),
        Some(text) => Some(text.clone()).filter(|text| !text.is_empty()),
    };
    config.cpu_bind = text(&update.cpu_bind, &config.cpu_bind).filter(|mode| mode != "off");
    config.topology = text(&update.topology, &config.topology);
    let mut manual = node.manual.clone();
    manual.extra = text(&update.extra, &manual.extra);
    manual.instance_id = text(&update.instance_id, &manual.instance_id);
    manual.instance_type = text(&update.instance_type, &manual.instance_type);
    manual.cert_token = text(&update.cert_token, &manual.cert_token);
    let idle_again = matches!(
        update.state,
        Some(NodeStateRequest::Resume | NodeStateRequest::Idle | NodeStateRequest::Undrain)
    );
    match update.resume_after_secs {
        Some(u32::MAX) => manual.resume_after = None,
        Some(seconds) => {
            manual.resume_after = Some(transaction.now.saturating_add(i64::from(seconds)));
        }
        None if idle_again => manual.resume_after = None,
        None => {}
    }
    let reboots = node
        .state
        .flags
        .intersects(NodeStateFlags::REBOOT_REQUESTED | NodeStateFlags::REBOOT_ISSUED);
    if !reboots {
        manual.reboot = None;
    }
    let changed = config != *node.config;
    if changed || manual != node.manual {
        transaction.emit(Event::NodeSettings {
            node: name.to_owned(),
            config: changed.then(|| Arc::new(config)),
            manual: Box::new(manual),
        });
    }
    Ok(())
}

/// Nodes whose `ResumeAfter=` is over return to service.
pub(super) fn return_due(transaction: &mut Transaction<'_>) {
    let now = transaction.now;
    let due: Vec<String> = transaction
        .cluster
        .nodes
        .iter()
        .filter(|node| node.manual.resume_after.is_some_and(|time| time <= now))
        .map(|node| node.config.name.clone())
        .collect();
    let caller = Caller::root();
    for name in due {
        let resume = NodeUpdate {
            nodes: name.clone(),
            state: Some(NodeStateRequest::Resume),
            resume_after_secs: Some(u32::MAX),
            ..NodeUpdate::default()
        };
        // A node that is in service already only loses the time.
        let _ = update_one(transaction, &name, &resume, &caller);
        let _ = update_settings(transaction, &name, &resume, (None, None));
        transaction.wake_planner();
    }
}

fn update_one(
    transaction: &mut Transaction<'_>,
    name: &str,
    update: &NodeUpdate,
    caller: &Caller,
) -> Result<(), Rejection> {
    let Some((index, node)) = transaction
        .cluster
        .node_named(name)
        .map(|(i, n)| (i, n.clone()))
    else {
        return Ok(());
    };
    check_features(&node, update)?;
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
            let resumes = update.state == Some(NodeStateRequest::Resume);
            let allowed = if resumes {
                may_resume(state)
            } else {
                node.jobs.is_empty()
            };
            if !allowed {
                return Err(ErrorCode::InvalidNodeState.into());
            }
            if !resumes {
                state
                    .flags
                    .remove(NodeStateFlags::DRAIN | NodeStateFlags::FAIL);
            } else {
                state.flags.remove(
                    NodeStateFlags::DRAIN
                        | NodeStateFlags::FAIL
                        | NodeStateFlags::INVALID_REG
                        | NodeStateFlags::REBOOT_REQUESTED
                        | NodeStateFlags::REBOOT_ISSUED,
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
        Some(NodeStateRequest::CancelReboot) => (state, reason) = reboot::cancel(&node)?,
        Some(
            NodeStateRequest::PowerDown
            | NodeStateRequest::PowerDownAsap
            | NodeStateRequest::PowerDownForce
            | NodeStateRequest::PowerUp,
        ) => return Err(power_refused(transaction)),
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
    Ok(())
}

/// RESUME undoes something; a node in service is not in a state for it.
fn may_resume(state: NodeStateFull) -> bool {
    matches!(
        state.base,
        NodeState::Down | NodeState::Future | NodeState::Unknown | NodeState::Error
    ) || state.flags.intersects(
        NodeStateFlags::DRAIN
            | NodeStateFlags::FAIL
            | NodeStateFlags::NO_RESPOND
            | NodeStateFlags::INVALID_REG
            | NodeStateFlags::REBOOT_REQUESTED
            | NodeStateFlags::REBOOT_ISSUED
            | NodeStateFlags::POWERING_DOWN
            | NodeStateFlags::POWERED_DOWN,
    )
}

/// Active features are a part of the available ones.
fn check_features(node: &Node, update: &NodeUpdate) -> Result<(), Rejection> {
    let available = update
        .available_features
        .as_deref()
        .or(node.features.as_deref())
        .unwrap_or(&node.config.features);
    let active = update
        .active_features
        .as_deref()
        .unwrap_or_else(|| node.effective_features());
    let touched = update.available_features.is_some() || update.active_features.is_some();
    if touched && !active.iter().all(|name| available.contains(name)) {
        return Err(Rejection::with_text(
            ErrorCode::InvalidFeature,
            "Active features not subset of available features",
        ));
    }
    Ok(())
}

/// Power saving has no engine yet; without its programs slurmctld refuses with the same words.
fn power_refused(transaction: &Transaction<'_>) -> Rejection {
    let code = ErrorCode::InvalidNodeState;
    let configured = transaction
        .cluster
        .config
        .raw_value("SuspendProgram")
        .is_some();
    if configured {
        Rejection::with_text(
            code,
            format!(
                "{}\n\nhint: power saving does not exist yet, so nodes cannot be powered up or down",
                code.message()
            ),
        )
    } else {
        code.into()
    }
}
