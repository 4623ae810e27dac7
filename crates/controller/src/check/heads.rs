//! Is the head of the queue delayed by what starts behind it? By trial, slowly and plainly, apart from the planner.
//!
//! Times in seconds. Never changes anything.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use sluice_model::ids::JobId;
use sluice_model::reason::Reason;
use sluice_model::time::UnixSeconds;

use super::Violation;
use crate::cluster::{Allocation, Cluster, Job, NodeAllocation, NodeIndex, NodePhase, Partition};
use crate::command::het;
use crate::plan::{Plan, PlannedStart};
use crate::queue::eligibility::waits_for;
use crate::reservation::{self, occurrence};
use crate::schedule::{expected_end, limit_secs, time_limit_of};
use crate::select::inventory::{CPU_SLOT, FreeView};
use crate::select::sharing;
use crate::select::{ResourceRequest, choose, node_filters};

/// The first job in the queue that waits for resources must be able to start no later with the jobs started behind it than
/// without them. (Those further down are behind bookings, which are not part of a plan.)
pub(super) fn check_heads(
    cluster: &Cluster,
    plan: &Plan,
    now: UnixSeconds,
    violations: &mut Vec<Violation>,
) {
    // When a node serves only one user again is not planned to the moment: bookings of such jobs are upper bounds, and move.
    if sharing::somebody_claims(cluster) {
        return;
    }
    // A plan repeats no note that says what the one before said: the others count as they stand.
    let told: BTreeSet<JobId> = plan.notes.iter().map(|(id, _)| *id).collect();
    let standing = cluster.plan_notes.iter().filter(|(id, _)| {
        let waits = cluster
            .job(**id)
            .is_some_and(|job| job.is_queued() && waits_for(cluster, job, now).is_none());
        waits
            && !told.contains(*id)
            && !starts_whole(cluster, plan, **id)
            && !plan.impossible.iter().any(|(job, _)| job == *id)
            && !plan.missed_deadline.contains(*id)
    });
    let waiting = plan
        .notes
        .iter()
        .map(|(id, note)| (id, note))
        .chain(standing)
        // What waits for reserved nodes or for licences has its place booked too.
        .filter(|(_, note)| {
            let books = matches!(
                note.reason,
                Reason::Resources | Reason::ReqNodeNotAvail | Reason::Licenses
            );
            books && note.expected_start.is_some()
        })
        .collect::<Vec<_>>();
    let in_several = |id: &JobId| {
        cluster
            .job(*id)
            .is_some_and(|job| job.request.partitions.len() > 1)
    };
    if plan
        .starts
        .iter()
        .map(|start| &start.job)
        .chain(plan.notes.iter().map(|(id, _)| id))
        .chain(waiting.iter().map(|(id, _)| *id))
        .any(in_several)
    {
        // What such a job booked in one partition stays booked when it starts in another.
        return;
    }
    let Some(head) = waiting
        .into_iter()
        .filter_map(|(id, _)| cluster.job(*id))
        // Components have their place in the queue by the first of them.
        .filter_map(|job| job.het.map_or(Some(job), |het| cluster.job(het.leader)))
        .min_by_key(|job| rank(cluster, job, &job.partition))
    else {
        return;
    };
    // Among jobs of reservations the first in line is not the first in time.
    // The timeline counts cores. Which of them a run has now and which are reserved later may leave a long run fewer than both
    // counts say, so with reserved cores a start is an estimate.
    let by_core = cluster.reservations.values().any(|own| own.by_core);
    if by_core {
        return;
    }
    // What waits for licences is not found out here.
    if head.is_array_master()
        || head.request.reservation.is_some()
        || head.request.licenses.is_some()
    {
        return;
    }
    let Some(requests) = requests_of(cluster, head) else {
        return;
    };
    let own = rank(cluster, head, &head.partition);
    // Components are served at the place of the first of them.
    let ahead = |start: &&PlannedStart| {
        cluster.job(start.job).is_some_and(|job| {
            let leader = job.het.and_then(|het| cluster.job(het.leader));
            match leader {
                Some(leader) => rank(cluster, leader, &leader.partition) < own,
                None => rank(cluster, job, &start.partition) < own,
            }
        })
    };
    let first: Vec<&PlannedStart> = plan.starts.iter().filter(ahead).collect();
    let all: Vec<&PlannedStart> = plan.starts.iter().collect();
    if let Some(before) = earliest(cluster, &requests, now, &first) {
        let after = earliest(cluster, &requests, now, &all);
        if after.is_none_or(|after| after > before) {
            let after = UnixSeconds(after.unwrap_or(i64::MAX));
            violations.push(Violation::HeadDelayed {
                job: head.id,
                before: UnixSeconds(before),
                after,
            });
        }
    }
}

/// The plan leaves nothing of the job to wait. An array of which some tasks start waits with the others, and what is booked for
/// them is ahead of those behind it.
fn starts_whole(cluster: &Cluster, plan: &Plan, id: JobId) -> bool {
    let starts = plan.starts.iter().filter(|start| start.job == id).count();
    let tasks = cluster
        .job(id)
        .filter(|job| job.is_array_master())
        .and_then(|job| job.array.as_ref())
        .map_or(1, |array| array.pending.tasks.len());
    starts >= tasks
}

/// Place in the queue.
fn rank(cluster: &Cluster, job: &Job, partition: &str) -> impl Ord + use<> {
    let tier = cluster
        .partition(partition)
        .map_or(0, |p| p.config.priority_tier);
    (
        job.request.reservation.is_none(),
        Reverse(tier),
        Reverse(cluster.standing_in(job, partition)),
        job.submit_time,
        job.array_job_id(),
        job.array_task().unwrap_or(u32::MAX),
        job.id,
    )
}

/// What the job asks for and where; of a job of several components for each, the one with the fewest nodes to choose from first.
fn requests_of<'c>(
    cluster: &'c Cluster,
    job: &Job,
) -> Option<Vec<(ResourceRequest, &'c Partition, i64)>> {
    let view = FreeView::of(cluster);
    let mut requests = Vec::new();
    for member in het::members(cluster, job) {
        if member.state.is_finished() {
            continue;
        }
        let partition = cluster.partition(&member.partition)?;
        let request = ResourceRequest::new(&member.request, partition, &cluster.config).ok()?;
        let secs = limit_secs(time_limit_of(&member, partition));
        requests.push((request, &**partition, secs));
    }
    requests.sort_by_cached_key(|(request, partition, _)| {
        node_filters(request)
            .iter()
            .map(|filter| {
                let fits = |node: &&NodeIndex| {
                    let facts = &view.facts[node.at()];
                    facts.usable && filter.refuses(facts).is_none()
                };
                partition.nodes.iter().filter(fits).count()
            })
            .max()
    });
    Some(requests)
}

/// Earliest start by trial of every moment at which something ends: slow and plain.
fn earliest(
    cluster: &Cluster,
    requests: &[(ResourceRequest, &Partition, i64)],
    now: UnixSeconds,
    starts: &[&PlannedStart],
) -> Option<i64> {
    let view = FreeView::of(cluster);
    let mut held: Vec<(i64, &Allocation, &str, &NodeAllocation)> = Vec::new();
    for id in &cluster.holding {
        let Some(job) = cluster.jobs.get(id) else {
            continue;
        };
        let Some(allocation) = job.allocation.as_deref() else {
            continue;
        };
        let parts = allocation
            .nodes
            .iter()
            .filter(|part| part.phase != NodePhase::Released);
        let end = reservation::job_end(cluster, job, expected_end(job, now).0, now);
        held.extend(parts.map(|part| (end, allocation, job.partition.as_str(), part)));
    }
    for start in starts {
        let own = start
            .reservation
            .and_then(|id| cluster.reservations.get(&id));
        let end = now.0 + limit_secs(start.time_limit);
        let end = reservation::run_end(own.map(std::convert::AsRef::as_ref), end, now);
        let allocation = &start.allocation;
        let parts = allocation.nodes.iter();
        held.extend(parts.map(|part| (end, allocation, start.partition.as_str(), part)));
    }
    let reserved_until = cluster
        .reservations
        .values()
        .flat_map(|reservation| occurrence::spans(reservation, now))
        .map(|(_, end)| end)
        .filter(|end| *end > now.0 && *end != i64::MAX);
    let mut moments: Vec<i64> = held
        .iter()
        .map(|(end, ..)| *end)
        .chain(reserved_until)
        .chain([now.0])
        .collect();
    moments.sort_unstable();
    moments.dedup();
    // Nothing is taken later on but by reservations, so what is free at a moment stays free for a run that they let end.
    moments.into_iter().find(|moment| {
        // Components of one job have nodes of their own.
        let mut taken: BTreeSet<u32> = BTreeSet::new();
        requests.iter().all(|(request, partition, secs)| {
            let to = moment.saturating_add(*secs);
            let mut free = |node: usize, out: &mut Vec<u64>| {
                out.clear();
                out.extend_from_slice(view.total(node));
                let record = view.facts[node].node;
                let closed = reservation::closed(cluster, None, record, (*moment, to), now);
                if closed.whole {
                    return false;
                }
                let unused = |cpu: &&u32| {
                    !held.iter().any(|(end, _, _, part)| {
                        part.node.at() == node && end > moment && part.cpu_ids.contains(cpu)
                    })
                };
                let kept = closed.cpus.iter().filter(unused).count() as u64;
                out[CPU_SLOT] = out[CPU_SLOT].saturating_sub(kept);
                for (_, allocation, partition, part) in held
                    .iter()
                    .filter(|(end, _, _, part)| part.node.at() == node && end > moment)
                {
                    let amounts = view.amounts_of(allocation, partition, part);
                    for (slot, amount) in out.iter_mut().zip(amounts) {
                        *slot = slot.saturating_sub(amount);
                    }
                }
                true
            };
            let shares = node_filters(request).iter().find_map(|filter| {
                let usable: Vec<u32> = partition
                    .nodes
                    .iter()
                    .map(|n| n.0)
                    .filter(|n| !taken.contains(n))
                    .filter(|n| filter.refuses(&view.facts[*n as usize]).is_none())
                    .collect();
                choose::choose(&view, request, &usable, &mut free)
            });
            let fits = shares.is_some();
            taken.extend(shares.into_iter().flatten().map(|share| share.node));
            fits
        })
    })
}
