//! Which nodes fit a job, and which CPUs, memory and devices they give.
//!
//! Pure functions over a [`FreeView`]: no queue, no time. The steps: [`request`] brings what a job asks for to a normal form,
//! [`fit`] says how much of it one node takes, [`choose`] picks nodes, [`assign`] picks CPUs and devices. Memory in MiB.
//! Invariant: nothing is given twice. Source: `slurm.conf(5)` (SelectType…), `sbatch(1)`.

mod affinity;
pub mod assign;
pub mod choose;
pub mod constraint;
pub mod feasible;
pub mod fit;
pub mod inventory;
mod near;
#[cfg(test)]
mod placement_tests;
pub mod policy;
pub mod request;
pub mod shared_gres;
pub mod sharing;
#[cfg(test)]
mod tests;
pub mod topology;
#[cfg(test)]
mod topology_tests;
pub mod tres;

use std::collections::BTreeMap;

use sluice_model::error_code::ErrorCode;

pub use fit::Shortage;
pub use inventory::FreeView;
pub use request::{MemoryRequest, ResourceRequest};

use crate::cluster::{Allocation, NodeIndex};

/// A request that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{code}", message, if message.is_empty() { "" } else { ": " })]
pub struct SelectError {
    /// Code, with the message that Slurm's commands print for it.
    pub code: ErrorCode,
    /// Words that are printed before it; empty = none.
    pub message: String,
}

impl SelectError {
    /// An error.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// Why a node is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// Down, drained, silent.
    Unavailable,
    /// Excluded by the job.
    Excluded,
    /// A feature is missing.
    Feature,
    /// Too small, or not enough left.
    Short(Shortage),
}

/// A job did not fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacementFailure {
    /// Names of the nodes refused, by cause.
    pub refused: BTreeMap<Refusal, Vec<String>>,
}

/// Places a job on what is free now and takes it out of the view.
///
/// # Errors
/// Why each candidate was refused; a node that is named nowhere would have fitted, but there are too few like it.
pub fn place(
    view: &mut FreeView<'_>,
    request: &ResourceRequest,
    candidates: &[NodeIndex],
) -> Result<Allocation, PlacementFailure> {
    let mut failure = PlacementFailure::default();
    for variant in node_filters(request) {
        let mut nodes = Vec::new();
        failure = PlacementFailure::default();
        for index in candidates {
            let Some(facts) = view.facts.get(index.at()) else {
                continue;
            };
            match variant.refuses(facts) {
                Some(cause) => failure
                    .refused
                    .entry(cause)
                    .or_default()
                    .push(facts.name().to_owned()),
                None => nodes.push(index.0),
            }
        }
        let mut open = nodes.clone();
        // A node on which what is free does not lie as needed is out; as a rule there is none.
        loop {
            let seen: &FreeView<'_> = view;
            let Some(mut shares) = choose::choose(seen, request, &open, &mut |node: usize,
                                                                              out: &mut Vec<
                u64,
            >| {
                out.clear();
                out.extend_from_slice(seen.free(node));
                true
            }) else {
                break;
            };
            match assign::assign(view, request, &mut shares) {
                Ok(allocation) => return Ok(allocation),
                Err(node) => open.retain(|n| *n != node),
            }
        }
        let floor = fit::job_gres_floor(request);
        let mut scratch = Vec::new();
        for node in nodes {
            let facts = &view.facts[node as usize];
            if let Err(short) = fit::capacity(
                request,
                facts,
                view.free(node as usize),
                &floor,
                &mut scratch,
            ) {
                failure
                    .refused
                    .entry(Refusal::Short(short))
                    .or_default()
                    .push(facts.name().to_owned());
            }
        }
    }
    Err(failure)
}

/// Which nodes a job takes whatever is free on them: one filter for each alternative of a matching OR.
#[derive(Debug, Clone, Copy)]
pub struct NodeFilter<'r> {
    request: &'r ResourceRequest,
    alternative: Option<&'r constraint::FeatureExpr>,
}

impl NodeFilter<'_> {
    /// Why the node is out, whatever its state.
    #[must_use]
    pub fn refuses_ever(&self, facts: &inventory::NodeFacts<'_>) -> Option<Refusal> {
        if !self.request.excluded_nodes.is_empty()
            && self
                .request
                .excluded_nodes
                .binary_search_by(|name| name.as_str().cmp(facts.name()))
                .is_ok()
        {
            return Some(Refusal::Excluded);
        }
        let features = facts.node.effective_features();
        let filter = self
            .request
            .constraint
            .as_ref()
            .and_then(|c| c.filter.as_ref());
        if [filter, self.alternative]
            .into_iter()
            .flatten()
            .any(|expr| !expr.matches(features))
        {
            return Some(Refusal::Feature);
        }
        None
    }

    /// Why the node is out at present.
    #[must_use]
    pub fn refuses(&self, facts: &inventory::NodeFacts<'_>) -> Option<Refusal> {
        if !facts.usable {
            return Some(Refusal::Unavailable);
        }
        self.refuses_ever(facts)
    }
}

/// The filters of a request, in the order in which they are tried.
#[must_use]
pub fn node_filters(request: &ResourceRequest) -> Vec<NodeFilter<'_>> {
    let alternatives = request
        .constraint
        .as_ref()
        .map_or(&[][..], |c| &c.alternatives);
    if alternatives.is_empty() {
        return vec![NodeFilter {
            request,
            alternative: None,
        }];
    }
    alternatives
        .iter()
        .map(|expr| NodeFilter {
            request,
            alternative: Some(expr),
        })
        .collect()
}

/// Tasks on each node of an allocation: node by node as many as its CPUs hold, while one is left for each node to come.
#[must_use]
pub fn tasks_on_nodes(request: &ResourceRequest, allocation: &Allocation) -> Vec<u32> {
    let nodes = allocation.nodes.len() as u32;
    if request.spread {
        return spread_tasks(request, allocation);
    }
    let mut left = request.tasks.max(nodes);
    let mut tasks: Vec<u32> = allocation
        .nodes
        .iter()
        .zip(1..)
        .map(|(part, place)| {
            let by_cpus = if request.overcommit {
                u32::MAX
            } else {
                part.cpu_ids.len() as u32 / request.cpus_per_task.max(1)
            };
            let capacity = by_cpus.min(request.max_tasks_per_node).max(1);
            let reserved = (nodes - place).saturating_mul(request.min_tasks_per_node);
            let here = left.saturating_sub(reserved).clamp(1, capacity);
            left = left.saturating_sub(here);
            here
        })
        .collect();
    // More tasks than CPUs (several tasks a core): round by round.
    let rounds = tasks.len().max(1);
    for place in 0..left as usize {
        if let Some(count) = tasks.get_mut(place % rounds) {
            *count += 1;
        }
    }
    tasks
}

/// Tasks of a job that is spread: round by round, while CPUs are left for one more.
fn spread_tasks(request: &ResourceRequest, allocation: &Allocation) -> Vec<u32> {
    let rooms: Vec<u32> = allocation
        .nodes
        .iter()
        .map(|part| {
            let by_cpus = part.cpu_ids.len() as u32 / request.cpus_per_task.max(1);
            by_cpus.min(request.max_tasks_per_node).max(1)
        })
        .collect();
    let mut tasks = vec![1; rooms.len()];
    let mut left = request.tasks.saturating_sub(rooms.len() as u32);
    while left > 0 {
        let before = left;
        for (tasks, room) in tasks.iter_mut().zip(&rooms) {
            if left > 0 && (*tasks < *room || request.overcommit) {
                *tasks += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    for at in 0..left as usize {
        let places = tasks.len().max(1);
        if let Some(count) = tasks.get_mut(at % places) {
            *count += 1;
        }
    }
    tasks
}
