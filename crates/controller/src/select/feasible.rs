//! Can a job ever run, and may it run in this partition now? The tests at submission and before every attempt.
//!
//! Sizes are tested against empty nodes, in service or not: a job may wait for a node to come back. Source: `slurm.conf(5)`
//! (PartitionName, EnforcePartLimits); messages as Slurm's commands print them.

use std::collections::BTreeMap;

use sluice_model::error_code::ErrorCode;
use sluice_model::job::JobDescription;
use sluice_model::partition::PartitionState;
use sluice_model::reason::Reason;
use sluice_model::time::TimeLimit;

use super::choose::choose;
use super::constraint::Constraint;
use super::fit::{self, Shortage};
use super::inventory::{FreeView, NodeFacts};
use super::policy::PartitionPolicy;
use super::request::ResourceRequest;
use super::{SelectError, node_filters};
use crate::cluster::{Cluster, Job, Partition};

/// Printed before "Requested node configuration is not available" when no node has the CPUs.
const CPU_MESSAGE: &str = "CPU count per node can not be satisfied";
/// Printed before it when no node has the memory.
const MEMORY_MESSAGE: &str = "Memory specification can not be satisfied";

/// Printed before it when no node is built as asked for.
const GEOMETRY_MESSAGE: &str = "Socket, core and/or thread specification can not be satisfied";
/// Printed before it when no node has the local disk.
const DISK_MESSAGE: &str = "Temporary disk specification can not be satisfied";

/// Tests a request against the empty nodes of a partition.
///
/// # Errors
/// Slurm's code for what makes it impossible.
pub fn can_ever_run(
    cluster: &Cluster,
    partition: &Partition,
    request: &ResourceRequest,
) -> Result<(), SelectError> {
    if quick_yes(cluster, partition, request) {
        Ok(())
    } else {
        test(cluster, partition, request, &FreeView::of(cluster))
    }
}

/// As [`can_ever_run`], for callers that have a view of the nodes.
///
/// # Errors
/// As [`can_ever_run`].
pub fn can_ever_run_in(
    cluster: &Cluster,
    partition: &Partition,
    request: &ResourceRequest,
    view: &FreeView<'_>,
) -> Result<(), SelectError> {
    if quick_yes(cluster, partition, request) {
        Ok(())
    } else {
        test(cluster, partition, request, view)
    }
}

fn test(
    cluster: &Cluster,
    partition: &Partition,
    request: &ResourceRequest,
    view: &FreeView<'_>,
) -> Result<(), SelectError> {
    names_exist(cluster, request)?;
    if names_outside(cluster, partition, request) {
        return Err(SelectError::new(
            ErrorCode::RequestedNodeConfigUnavailable,
            "",
        ));
    }
    if request.min_nodes as usize > partition.nodes.len() {
        return Err(SelectError::new(ErrorCode::InvalidNodeCount, ""));
    }
    let mut shortages: BTreeMap<Shortage, usize> = BTreeMap::new();
    let floor = fit::job_gres_floor(request);
    let mut scratch = Vec::new();
    for filter in node_filters(request) {
        let mut nodes = Vec::new();
        for index in partition.nodes.iter() {
            let Some(facts) = view
                .facts
                .get(index.at())
                .filter(|facts| facts.node.configured)
            else {
                continue;
            };
            if filter.refuses_ever(facts).is_some() {
                continue;
            }
            match fit::capacity(request, facts, view.total(index.at()), &floor, &mut scratch) {
                Ok(_) => nodes.push(index.0),
                Err(short) => *shortages.entry(short).or_default() += 1,
            }
        }
        let empty = &mut |node: usize, out: &mut Vec<u64>| {
            out.clear();
            out.extend_from_slice(view.total(node));
            true
        };
        if choose(view, request, &nodes, empty).is_some() {
            return Ok(());
        }
    }
    let message = match shortages
        .iter()
        .max_by_key(|(_, count)| **count)
        .map(|(short, _)| *short)
    {
        Some(Shortage::Cpus) => CPU_MESSAGE,
        Some(Shortage::Memory) => MEMORY_MESSAGE,
        Some(Shortage::Geometry) if disk_is_short(request, partition, view) => DISK_MESSAGE,
        Some(Shortage::Geometry) => GEOMETRY_MESSAGE,
        _ => "",
    };
    Err(SelectError::new(
        ErrorCode::RequestedNodeConfigUnavailable,
        message,
    ))
}

/// No node of the partition has the local disk.
fn disk_is_short(request: &ResourceRequest, partition: &Partition, view: &FreeView<'_>) -> bool {
    !partition.nodes.iter().any(|index| {
        view.facts
            .get(index.at())
            .is_some_and(|facts| facts.node.config.tmp_disk_mib >= request.tmp_disk_mib)
    })
}

/// Sure to fit: the first nodes of the partition that are of use hold it together. Spares the submission path the full test.
fn quick_yes(cluster: &Cluster, partition: &Partition, request: &ResourceRequest) -> bool {
    let plain = request.required_nodes.is_empty()
        && request.excluded_nodes.is_empty()
        && request.constraint.is_none()
        && request.gres_per_job.is_empty()
        && request.prefer.is_none()
        && !request.contiguous
        && (request.max_nodes == 1 || !cluster.config.topology.is_networked());
    if !plain {
        return false;
    }
    let (mut found, mut tasks) = (0, 0_u64);
    let (mut total, mut scratch) = (Vec::new(), Vec::new());
    for index in partition.nodes.iter() {
        let Some(node) = cluster.node(*index).filter(|node| node.configured) else {
            continue;
        };
        let facts = NodeFacts::of(*index, node);
        facts.write_total(&mut total);
        if let Ok(capacity) = fit::capacity(request, &facts, &total, &[], &mut scratch) {
            found += 1;
            tasks += u64::from(capacity);
        }
        if found > request.max_nodes {
            return false;
        }
        if found >= request.min_nodes && tasks >= u64::from(request.placed_tasks()) {
            return true;
        }
    }
    false
}

/// The request names nodes that the partition has not.
fn names_outside(cluster: &Cluster, partition: &Partition, request: &ResourceRequest) -> bool {
    request.required_nodes.iter().any(|name| {
        cluster
            .node_index
            .get(name.as_str())
            .is_some_and(|index| partition.nodes.binary_search(index).is_err())
    })
}

/// CPUs that jobs of the partition can have at most.
#[must_use]
pub fn cpus_of(cluster: &Cluster, partition: &Partition) -> u64 {
    let most = partition.config.max_cpus_per_node.unwrap_or(u32::MAX);
    partition
        .nodes
        .iter()
        .filter_map(|index| cluster.node(*index))
        .filter(|node| node.configured)
        .map(|node| u64::from(node.cpu_count().min(most)))
        .sum()
}

/// A limit of the partition that the request exceeds. EnforcePartLimits decides whether such a job is refused with this code or
/// waits; nodes are not looked at one by one. In Slurm's order.
#[must_use]
pub fn limit_exceeded(
    cluster: &Cluster,
    partition: &Partition,
    description: &JobDescription,
    request: &ResourceRequest,
) -> Option<ErrorCode> {
    let config = &partition.config;
    if u64::from(request.num_cpus()) > cpus_of(cluster, partition) {
        return Some(ErrorCode::TooManyRequestedCpus);
    }
    if names_outside(cluster, partition, request) {
        return Some(ErrorCode::RequestedNodesNotInPartition);
    }
    if wrong_node_count(partition, description, request.min_nodes) {
        return Some(ErrorCode::InvalidNodeCount);
    }
    let asked = description.time_limit.map(|limit| match limit {
        TimeLimit::Minutes(0) => TimeLimit::Unlimited,
        limit => limit,
    });
    // Even where less time would do (--time-min).
    asked
        .is_some_and(|limit| limit > config.max_time)
        .then_some(ErrorCode::InvalidTimeLimit)
}

/// As [`limit_exceeded`] of the number of nodes alone.
#[must_use]
pub fn has_wrong_node_count(
    partition: &Partition,
    description: &JobDescription,
    request: &ResourceRequest,
) -> bool {
    wrong_node_count(partition, description, request.min_nodes)
}

/// More nodes than the partition has or lets a job have, or fewer than a job must take.
fn wrong_node_count(partition: &Partition, description: &JobDescription, fewest: u32) -> bool {
    let config = &partition.config;
    fewest as usize > partition.nodes.len()
        || config.max_nodes.is_some_and(|most| {
            fewest > most || description.max_nodes.is_some_and(|asked| asked > most)
        })
        || description
            .max_nodes
            .is_some_and(|asked| asked < config.min_nodes)
}

/// Nodes, features and GRES that the request names.
///
/// # Errors
/// Slurm's code for the first that does not exist.
pub fn names_exist(cluster: &Cluster, request: &ResourceRequest) -> Result<(), SelectError> {
    let unknown = |name: &&String| !cluster.node_index.contains_key(name.as_str());
    if request
        .required_nodes
        .iter()
        .chain(&request.excluded_nodes)
        .find(unknown)
        .is_some()
    {
        return Err(SelectError::new(ErrorCode::InvalidNodeName, ""));
    }
    let parameters = &cluster.config.scheduling.parameters;
    for (constraint, unchecked, code) in [
        (
            &request.constraint,
            parameters.ignore_constraint_validation,
            ErrorCode::InvalidFeature,
        ),
        (
            &request.prefer,
            parameters.ignore_prefer_validation,
            ErrorCode::InvalidPrefer,
        ),
    ] {
        let known = constraint
            .as_ref()
            .is_none_or(|constraint| unchecked || features_exist(cluster, constraint));
        if !known {
            return Err(SelectError::new(code, ""));
        }
    }
    for gres in request.gres_requests() {
        let exists = cluster.nodes.iter().any(|node| {
            node.gres.iter().any(|g| {
                g.name == gres.name && (gres.type_name.is_none() || g.type_name == gres.type_name)
            })
        });
        if !exists {
            return Err(SelectError::new(ErrorCode::InvalidGres, ""));
        }
    }
    Ok(())
}

/// Some node has each feature that is named, active or not.
fn features_exist(cluster: &Cluster, constraint: &Constraint) -> bool {
    constraint.feature_names().into_iter().all(|name| {
        let known = |features: &[String]| features.iter().any(|f| f == name);
        cluster.nodes.iter().any(|node| {
            known(&node.config.features)
                || node.features.as_deref().is_some_and(known)
                || node.active_features.as_deref().is_some_and(known)
        })
    })
}

/// What a partition's own rules say against starting a job in it now. `policy` is the partition's.
#[must_use]
pub fn partition_limits(
    job: &Job,
    partition: &Partition,
    policy: &PartitionPolicy,
) -> Option<Reason> {
    let config = &partition.config;
    match config.state {
        PartitionState::Down => return Some(Reason::PartitionDown),
        PartitionState::Inactive => return Some(Reason::PartitionInactive),
        PartitionState::Up | PartitionState::Drain => {}
    }
    if (config.root_only && job.request.uid != 0)
        || (config.req_resv && job.request.reservation.is_none())
    {
        return Some(Reason::PartitionConfig);
    }
    let listed = |list: &[String], name: &str| list.iter().any(|entry| entry == name);
    // Deny lists are ignored when an allow list is set.
    let account_out = match &config.allow_accounts {
        Some(allowed) => !listed(allowed, &job.account),
        None => listed(&config.deny_accounts, &job.account),
    };
    if account_out {
        return Some(Reason::AccountNotAllowed);
    }
    let qos_out = match &config.allow_qos {
        Some(allowed) => !listed(allowed, &job.qos),
        None => listed(&config.deny_qos, &job.qos),
    };
    if qos_out {
        return Some(Reason::QOSNotAllowed);
    }
    let request = &job.request;
    if wrong_node_count(partition, request, request.min_nodes.unwrap_or(1).max(1)) {
        return Some(Reason::PartitionNodeLimit);
    }
    if crate::schedule::exceeds_time_limit(job, partition) {
        return Some(Reason::PartitionTimeLimit);
    }
    if policy
        .max_mem_per_node
        .is_some_and(|max| request.mem_per_node.is_some_and(|m| m.0 > max))
    {
        return Some(Reason::MaxMemPerLimit);
    }
    None
}
