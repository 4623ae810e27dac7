//! Running jobs that give nodes back: `scontrol update JobId= NumNodes=` and `NodeList=`. Source: scontrol(1), NodeList and NumNodes.
//!
//! A job only shrinks; its first node stays, since the batch script runs there. Resources are free at once, the node's agent ends
//! what the job still has there and runs the Epilog.

use sluice_model::error_code::ErrorCode;
use sluice_model::hostlist::parse_hostlist;

use super::job_end::Kill;
use super::{Rejection, agent};
use crate::cluster::Job;
use crate::event::Event;
use crate::launch;
use crate::transaction::Transaction;

/// Nodes a running job keeps.
///
/// # Errors
/// Not supported for more nodes than it has; invalid node name for nodes that it does not have.
pub(super) fn kept(
    job: &Job,
    nodes: Option<&str>,
    count: Option<u32>,
) -> Result<Vec<String>, Rejection> {
    let held: Vec<String> = job
        .allocation
        .as_ref()
        .map(|allocation| {
            allocation
                .node_names()
                .into_iter()
                .map(String::from)
                .collect()
        })
        .unwrap_or_default();
    if let Some(text) = nodes {
        let wanted = parse_hostlist(text).map_err(|_| ErrorCode::InvalidNodeName)?;
        let within = !wanted.is_empty() && wanted.iter().all(|name| held.contains(name));
        if !within || (job.request.batch && !wanted.contains(&held[0])) {
            return Err(ErrorCode::InvalidNodeName.into());
        }
        return Ok(held
            .into_iter()
            .filter(|name| wanted.contains(name))
            .collect());
    }
    match count {
        Some(count) if count as usize > held.len() || count == 0 => {
            Err(ErrorCode::NotSupported.into())
        }
        Some(count) => Ok(held.into_iter().take(count as usize).collect()),
        None => Ok(held),
    }
}

/// Takes every node from a running job that is not kept.
pub(super) fn shrink(transaction: &mut Transaction<'_>, job: &Job, kept: &[String]) {
    let Some(allocation) = &job.allocation else {
        return;
    };
    let gone: Vec<_> = allocation
        .nodes
        .iter()
        .filter(|part| !kept.contains(&part.name))
        .cloned()
        .collect();
    if gone.is_empty() {
        return;
    }
    for part in &gone {
        let kill = Kill::Gently {
            cause: String::new(),
        };
        let order = launch::terminate_order(transaction.cluster, job, part, &kill, transaction.now);
        transaction.order(&part.name, order);
        agent::end_steps_on(transaction, job, &part.name);
    }
    let time = transaction.now;
    transaction.emit(Event::JobShrunk {
        job_id: job.id,
        nodes: gone.into_iter().map(|part| part.name).collect(),
        time,
    });
}
