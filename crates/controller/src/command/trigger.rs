//! Triggers: set, shown, removed, met by events, fired by the clock. Source: strigger(1).
//!
//! [`watch`] looks at the state before an event and [`noticed`] after it; both cost nothing while there are no triggers. A trigger that
//! was met fires at its time, once, with everything that met it until then; a permanent one then waits again.

use sluice_model::error_code::ErrorCode;
use sluice_model::hostlist::collapse_hostlist;
use sluice_model::ids::JobId;
use sluice_model::node_state::{NodeState, NodeStateFlags, NodeStateFull};
use sluice_model::time::UnixSeconds;

use super::tick::limit_end;
use super::{Caller, Rejection};
use crate::cluster::trigger::{Trigger, TriggerEvent, TriggerTarget};
use crate::cluster::{Cluster, Node};
use crate::effect::Effect;
use crate::event::Event;
use crate::transaction::Transaction;

/// Triggers at a time: a limit that keeps a loop in a script from filling the memory.
const TRIGGERS_MAX: usize = 10_000;

/// Longest text of a program.
const PROGRAM_BYTES_MAX: usize = 4096;

/// SlurmctldParameters=allow_user_triggers.
fn allows_users(cluster: &Cluster) -> bool {
    cluster
        .config
        .slurmctld_parameters
        .iter()
        .any(|item| item.eq_ignore_ascii_case("allow_user_triggers"))
}

/// Adds a trigger and gives its number.
///
/// # Errors
/// Access denied; invalid job or node.
pub fn set(
    transaction: &mut Transaction<'_>,
    mut trigger: Trigger,
    caller: &Caller,
) -> Result<u32, Rejection> {
    if !caller.privileged && !allows_users(transaction.cluster) {
        return Err(ErrorCode::AccessDenied.into());
    }
    if transaction.cluster.triggers.len() >= TRIGGERS_MAX
        || trigger.program.is_empty()
        || trigger.program.len() > PROGRAM_BYTES_MAX
    {
        return Err(Rejection::with_text(
            ErrorCode::AccessDenied,
            format!(
                "no more triggers can be kept, or the program's text is empty or longer than {PROGRAM_BYTES_MAX} bytes"
            ),
        ));
    }
    match &mut trigger.target {
        TriggerTarget::Job(id) => {
            let job = transaction
                .cluster
                .job(*id)
                .ok_or(ErrorCode::InvalidJobId)?;
            if job.state.is_finished() {
                return Err(ErrorCode::AlreadyDone.into());
            }
            if !caller.may_change(job.request.uid) {
                return Err(ErrorCode::AccessDenied.into());
            }
        }
        TriggerTarget::Nodes(names)
            if names
                .iter()
                .any(|name| transaction.cluster.node_named(name).is_none()) =>
        {
            return Err(ErrorCode::InvalidNodeName.into());
        }
        _ => {}
    }
    trigger.id = transaction.cluster.last_trigger_id.saturating_add(1);
    trigger.uid = caller.uid;
    trigger.due = None;
    trigger.nodes = Vec::new();
    if transaction
        .cluster
        .triggers
        .values()
        .any(|other| is_same(other, &trigger))
    {
        return Err(ErrorCode::TriggerDuplicate.into());
    }
    let id = trigger.id;
    transaction.emit(Event::TriggerSet {
        trigger: Box::new(trigger),
    });
    Ok(id)
}

/// Asks for the same as another: who, what about, which event, when, and what runs then.
fn is_same(one: &Trigger, other: &Trigger) -> bool {
    (one.uid, one.event, one.offset) == (other.uid, other.event, other.offset)
        && one.target == other.target
        && one.program == other.program
}

/// Which triggers are meant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TriggerFilter {
    /// Number.
    pub id: Option<u32>,
    /// Job.
    pub job: Option<JobId>,
    /// Owner.
    pub uid: Option<u32>,
}

impl TriggerFilter {
    fn fits(&self, trigger: &Trigger) -> bool {
        self.id.is_none_or(|id| id == trigger.id)
            && self.uid.is_none_or(|uid| uid == trigger.uid)
            && self
                .job
                .is_none_or(|job| trigger.target == TriggerTarget::Job(job))
    }
}

/// Removes triggers; gives how many.
///
/// # Errors
/// Access denied for somebody else's; invalid when none fits.
pub fn clear(
    transaction: &mut Transaction<'_>,
    filter: TriggerFilter,
    caller: &Caller,
) -> Result<u32, Rejection> {
    let fitting: Vec<(u32, u32)> = transaction
        .cluster
        .triggers
        .values()
        .filter(|trigger| filter.fits(trigger))
        .map(|trigger| (trigger.id, trigger.uid))
        .collect();
    if fitting.iter().any(|(_, uid)| !caller.may_change(*uid)) {
        return Err(ErrorCode::AccessDenied.into());
    }
    for (id, _) in &fitting {
        transaction.emit(Event::TriggerRemoved { id: *id });
    }
    Ok(fitting.len() as u32)
}

/// What has to be known about the state before an event.
#[derive(Debug, Clone)]
pub struct Watched {
    node: Option<(String, NodeStateFull)>,
}

/// Looks before an event; `None` = no trigger cares.
#[must_use]
pub fn watch(cluster: &Cluster, event: &Event) -> Option<Watched> {
    if cluster.triggers.is_empty() {
        return None;
    }
    let node = match event {
        Event::NodeRegistered { node, .. }
        | Event::NodeStateSet { node, .. }
        | Event::NodeReleased { node, .. } => {
            let (_, record) = cluster.node_named(node)?;
            Some((node.clone(), record.state))
        }
        Event::JobEnded(_) => None,
        _ => return None,
    };
    Some(Watched { node })
}

/// The facts that follow from an event for the triggers.
#[must_use]
pub fn noticed(
    cluster: &Cluster,
    event: &Event,
    watched: &Watched,
    now: UnixSeconds,
) -> Vec<Event> {
    let mut found = Vec::new();
    match (event, &watched.node) {
        (Event::JobEnded(end), _) => {
            met(cluster, now, &mut found, |trigger| {
                (trigger.event == TriggerEvent::Fini
                    && trigger.target == TriggerTarget::Job(end.job_id))
                .then(Vec::new)
            });
        }
        (_, Some((name, before))) => {
            let Some((_, node)) = cluster.node_named(name) else {
                return found;
            };
            let released = matches!(event, Event::NodeReleased { .. });
            for happened in node_events(*before, node, released) {
                met(cluster, now, &mut found, |trigger| {
                    let concerned = trigger.event == happened
                        && match &trigger.target {
                            TriggerTarget::Nodes(names) => names.is_empty() || names.contains(name),
                            TriggerTarget::Job(id) => node.jobs.contains(id),
                            _ => false,
                        };
                    concerned.then(|| vec![name.clone()])
                });
            }
        }
        _ => {}
    }
    found
}

/// Marks the triggers that `wants` gives nodes for (perhaps none) as met.
fn met(
    cluster: &Cluster,
    now: UnixSeconds,
    found: &mut Vec<Event>,
    wants: impl Fn(&Trigger) -> Option<Vec<String>>,
) {
    for trigger in cluster.triggers.values() {
        if let Some(nodes) = wants(trigger) {
            found.push(Event::TriggerDue {
                id: trigger.id,
                nodes,
                time: now.saturating_add(i64::from(trigger.offset.max(0))),
            });
        }
    }
}

fn node_events(before: NodeStateFull, node: &Node, released: bool) -> Vec<TriggerEvent> {
    let after = node.state;
    let mut events = Vec::new();
    if before.base != NodeState::Down && after.base == NodeState::Down {
        events.push(TriggerEvent::Down);
    }
    if before.base == NodeState::Down && after.base != NodeState::Down {
        events.push(TriggerEvent::Up);
    }
    let begun = |flag| !before.flags.contains(flag) && after.flags.contains(flag);
    if begun(NodeStateFlags::FAIL) {
        events.push(TriggerEvent::Fail);
    }
    let drains = begun(NodeStateFlags::DRAIN);
    if drains && !node.jobs.is_empty() {
        events.push(TriggerEvent::Draining);
    }
    let empty = node.jobs.is_empty() && after.flags.contains(NodeStateFlags::DRAIN);
    if empty && (drains || released) {
        events.push(TriggerEvent::Drained);
    }
    let out = |state: NodeStateFull| state.base == NodeState::Down || state.is_draining();
    if out(before) && !out(after) {
        events.push(TriggerEvent::Resume);
    }
    events
}

/// Something that no event of the state tells: the controller started, the database went or came back.
pub fn happened(transaction: &mut Transaction<'_>, event: TriggerEvent) {
    let mut found = Vec::new();
    met(
        transaction.cluster,
        transaction.now,
        &mut found,
        |trigger| (trigger.event == event).then(Vec::new),
    );
    found.into_iter().for_each(|event| transaction.emit(event));
}

/// Fires what is due, and sees what only the clock brings: time limits and idle nodes.
pub fn tick(transaction: &mut Transaction<'_>) {
    if transaction.cluster.triggers.is_empty() {
        return;
    }
    let now = transaction.now;
    let mut found = Vec::new();
    for trigger in transaction.cluster.triggers.values() {
        match (&trigger.target, trigger.event) {
            (TriggerTarget::Job(id), TriggerEvent::Time) if trigger.due.is_none() => {
                let end = transaction.cluster.job(*id).and_then(|job| limit_end(job));
                if end.is_some_and(|end| now >= end.saturating_add(trigger.offset.into())) {
                    found.push(Event::TriggerDue {
                        id: trigger.id,
                        nodes: Vec::new(),
                        time: now,
                    });
                }
            }
            (TriggerTarget::Nodes(names), TriggerEvent::Idle) => {
                idle_nodes(transaction.cluster, trigger, names, now, &mut found);
            }
            _ => {}
        }
    }
    found.into_iter().for_each(|event| transaction.emit(event));
    let due: Vec<_> = transaction
        .cluster
        .triggers
        .values()
        .filter(|trigger| trigger.due.is_some_and(|due| due <= now))
        .cloned()
        .collect();
    for trigger in due {
        transaction.effect(Effect::RunTrigger {
            id: trigger.id,
            uid: trigger.uid,
            program: trigger.program.clone(),
            argument: argument(&trigger),
        });
        transaction.emit(Event::TriggerFired { id: trigger.id });
    }
    forget_ended_jobs(transaction);
}

/// Nodes that have been idle for long enough, and those that no longer are.
fn idle_nodes(
    cluster: &Cluster,
    trigger: &Trigger,
    names: &[String],
    now: UnixSeconds,
    found: &mut Vec<Event>,
) {
    let is_idle = |node: &Node| {
        node.jobs.is_empty()
            && node.is_usable()
            && node
                .last_busy
                .or(node.registered)
                .is_none_or(|since| now.since(since) >= i64::from(trigger.offset.max(0)))
    };
    let (mut idle, mut busy) = (Vec::new(), Vec::new());
    for node in &cluster.nodes {
        let name = &node.config.name;
        if !names.is_empty() && !names.contains(name) {
            continue;
        }
        match (is_idle(node), trigger.nodes.contains(name)) {
            (true, false) => idle.push(name.clone()),
            (false, true) => busy.push(name.clone()),
            _ => {}
        }
    }
    if !busy.is_empty() {
        found.push(Event::TriggerForgot {
            id: trigger.id,
            nodes: busy,
        });
    }
    if !idle.is_empty() {
        found.push(Event::TriggerDue {
            id: trigger.id,
            nodes: idle,
            time: now,
        });
    }
}

/// What the program is told: the job, or the nodes, or the resource.
fn argument(trigger: &Trigger) -> String {
    match &trigger.target {
        TriggerTarget::Job(id) if trigger.nodes.is_empty() => id.to_string(),
        TriggerTarget::Nodes(_) | TriggerTarget::Job(_) if !trigger.nodes.is_empty() => {
            collapse_hostlist(&trigger.nodes)
        }
        TriggerTarget::Nodes(_) => "*".to_owned(),
        other => other.resource().to_owned(),
    }
}

/// A trigger of a job that is over and never met goes with the job.
fn forget_ended_jobs(transaction: &mut Transaction<'_>) {
    let over: Vec<u32> = transaction
        .cluster
        .triggers
        .values()
        .filter(|trigger| match trigger.target {
            TriggerTarget::Job(id) => {
                trigger.due.is_none()
                    && transaction
                        .cluster
                        .job(id)
                        .is_none_or(|job| job.state.is_finished())
            }
            _ => false,
        })
        .map(|trigger| trigger.id)
        .collect();
    for id in over {
        transaction.emit(Event::TriggerRemoved { id });
    }
}
