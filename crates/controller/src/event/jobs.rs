//! Facts about jobs. Keeps the indexes of [`Cluster`] (pending, holding, finished, arrays, dependents, names) and the use of nodes
//! in step with the records.

use std::sync::Arc;

use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::{JobId, StepId};
use sluice_model::job::GresAllocation;
use sluice_model::reason::Reason;
use sluice_model::state::{JobState, JobStateFlags, JobStateFull};
use sluice_model::step::{StepDescription, StepLayout, StepNode};
use sluice_model::time::UnixSeconds;

use super::{Event, JobEnd, Requeue};
use crate::cluster::{
    Allocation, Blob, BlobId, Cluster, DependencyStatus, Job, Node, NodeAllocation, NodePhase,
    RunReservation, Step, StepNodeState, dependency_target,
};

/// Edits one job record, if it exists.
pub(super) fn change(cluster: &mut Cluster, id: JobId, edit: impl FnOnce(&mut Job)) {
    if let Some(job) = cluster.jobs.get_mut(&id) {
        edit(Arc::make_mut(job));
    }
}

pub(super) fn blob_stored(cluster: &mut Cluster, id: BlobId, bytes: &Arc<Vec<u8>>) {
    if !cluster.blobs.contains_key(&id) {
        cluster.blobs.insert(
            id,
            Arc::new(Blob {
                bytes: Arc::clone(bytes),
                users: 0,
            }),
        );
    }
}

fn use_blobs(cluster: &mut Cluster, job: &Job) {
    for id in [job.script, job.environment].into_iter().flatten() {
        if let Some(blob) = cluster.blobs.get_mut(&id) {
            Arc::make_mut(blob).users += 1;
        }
    }
}

fn drop_blobs(cluster: &mut Cluster, job: &Job) {
    for id in [job.script, job.environment].into_iter().flatten() {
        let unused = cluster.blobs.get_mut(&id).is_some_and(|blob| {
            let blob = Arc::make_mut(blob);
            blob.users = blob.users.saturating_sub(1);
            blob.users == 0
        });
        if unused {
            cluster.blobs.remove(&id);
        }
    }
}

fn index_dependencies(cluster: &mut Cluster, job: &Job) {
    for (term, _) in &job.dependency.terms {
        if let Some(target) = dependency_target(term) {
            cluster.dependents.entry(target).or_default().insert(job.id);
        }
    }
}

fn unindex_dependencies(cluster: &mut Cluster, job: &Job) {
    for (term, _) in &job.dependency.terms {
        let Some(target) = dependency_target(term) else {
            continue;
        };
        let empty = cluster.dependents.get_mut(&target).is_some_and(|jobs| {
            jobs.remove(&job.id);
            jobs.is_empty()
        });
        if empty {
            cluster.dependents.remove(&target);
        }
    }
}

fn index_name(cluster: &mut Cluster, job: &Job) {
    let name = job.request.name.clone().unwrap_or_default();
    cluster
        .by_name
        .entry((job.request.uid, name))
        .or_default()
        .insert(job.id);
}

fn unindex_name(cluster: &mut Cluster, job: &Job) {
    let key = (
        job.request.uid,
        job.request.name.clone().unwrap_or_default(),
    );
    let empty = cluster.by_name.get_mut(&key).is_some_and(|jobs| {
        jobs.remove(&job.id);
        jobs.is_empty()
    });
    if empty {
        cluster.by_name.remove(&key);
    }
}

/// Sets the eligible time of a queued job once nothing but resources keeps it from starting, and clears it otherwise.
fn refresh_eligibility(job: &mut Job, now: UnixSeconds) {
    let dependent = job.dependency.is_open();
    if job.priority == 0 || dependent {
        job.eligible_time = None;
    } else if job.eligible_time.is_none() {
        job.eligible_time = Some(job.begin_time.filter(|begin| *begin > now).unwrap_or(now));
    }
}

pub(super) fn submitted(cluster: &mut Cluster, job: &Job) {
    let mut job = job.clone();
    let now = job.submit_time;
    refresh_eligibility(&mut job, now);
    cluster.next_job_id = JobId(cluster.next_job_id.0.max(job.id.0.saturating_add(1)));
    if job.id.0 >= cluster.config.jobs.max_job_id {
        cluster.next_job_id = JobId(cluster.config.jobs.first_job_id.max(1));
    }
    if let Some(array) = &job.array {
        cluster
            .arrays
            .entry(array.array_job_id)
            .or_default()
            .insert(job.id);
    }
    if !job.request.submission_key.is_empty() {
        cluster
            .submissions
            .insert(job.request.submission_key.clone(), job.id);
    }
    use_blobs(cluster, &job);
    index_dependencies(cluster, &job);
    index_name(cluster, &job);
    cluster.pending.insert(job.id);
    cluster.jobs.insert(job.id, Arc::new(job));
}

/// Splits a task off the record of an array's unstarted tasks. Gives the id of the task's own record.
pub(super) fn split_task(
    cluster: &mut Cluster,
    master: JobId,
    task: u32,
    split_id: Option<JobId>,
) -> JobId {
    let Some(split_id) = split_id else {
        change(cluster, master, |job| {
            if let Some(array) = &mut job.array {
                array.task_id = Some(task);
                array.pending.tasks.remove(task);
            }
        });
        return master;
    };
    let Some(record) = cluster.jobs.get(&master).cloned() else {
        return master;
    };
    let mut child = (*record).clone();
    child.id = split_id;
    if let Some(array) = &mut child.array {
        array.task_id = Some(task);
        array.pending.tasks = sluice_model::array::IndexSet::new();
    }
    // A retried submission is answered with the array's id, never with a task's.
    let mut request = (*child.request).clone();
    request.submission_key = String::new();
    child.request = Arc::new(request);
    cluster.next_job_id = JobId(cluster.next_job_id.0.max(split_id.0.saturating_add(1)));
    change(cluster, master, |job| {
        if let Some(array) = &mut job.array {
            array.pending.tasks.remove(task);
        }
    });
    cluster
        .arrays
        .entry(child.array_job_id())
        .or_default()
        .insert(split_id);
    use_blobs(cluster, &child);
    index_dependencies(cluster, &child);
    index_name(cluster, &child);
    cluster.pending.insert(split_id);
    cluster.jobs.insert(split_id, Arc::new(child));
    split_id
}

pub(super) fn started(cluster: &mut Cluster, event: &Event) {
    let Event::JobStarted {
        job_id,
        array_task,
        split_id,
        partition,
        allocation,
        time_limit,
        time,
        scheduler,
        configuring,
        reservation,
        licenses,
    } = event
    else {
        return;
    };
    let id = match array_task {
        Some(task) => split_task(cluster, *job_id, *task, *split_id),
        None => *job_id,
    };
    for part in &allocation.nodes {
        occupy(cluster, id, part, allocation.whole_nodes, *time);
    }
    cluster.pending.remove(&id);
    cluster.holding.insert(id);
    cluster.plan_notes.remove(&id);
    let run_in = reservation
        .and_then(|id| cluster.reservations.get(&id))
        .map(|reservation| RunReservation {
            id: reservation.id,
            name: reservation.name.clone(),
        });
    change(cluster, id, |job| {
        job.reservation = run_in;
        job.licenses.clone_from(licenses);
        let flags = if *configuring {
            JobStateFlags::CONFIGURING
        } else {
            JobStateFlags::EMPTY
        };
        job.state = JobStateFull::with_flags(JobState::Running, flags);
        job.reason = Reason::None;
        job.reason_text = None;
        job.partition.clone_from(partition);
        job.start_time = Some(*time);
        job.end_time = None;
        job.suspend_time = None;
        job.pre_suspend_secs = 0;
        job.suspended_secs = 0;
        job.time_limit = Some(*time_limit);
        job.scheduler = Some(scheduler.clone());
        job.run_attempt = job.restarts;
        job.warned = false;
        job.exit_status = WaitStatus::SUCCESS;
        job.derived_exit_status = WaitStatus::SUCCESS;
        job.kill_requester = None;
        job.failed_node = None;
        job.steps = imbl::OrdMap::new();
        job.next_step_id = 0;
        job.allocation = Some(Arc::clone(allocation));
        // Of a heterogeneous job only the first component has the script.
        if job.request.batch && job.het.is_none_or(|het| het.offset == 0) {
            job.steps
                .insert(StepId::Batch, Arc::new(batch_step(job, allocation, *time)));
        }
    });
}

/// The step of the batch script: one task on the first node; it takes no step resources.
fn batch_step(job: &Job, allocation: &Allocation, time: UnixSeconds) -> Step {
    let mut layout = StepLayout::default();
    let mut nodes = Vec::new();
    if let Some(first) = allocation.nodes.first() {
        layout.nodes.push(StepNode {
            node: first.name.clone(),
            task_ids: vec![0],
            cpu_ids: first.cpu_ids.clone(),
            memory: first.memory,
            gres: first.gres.clone(),
        });
        nodes.push(StepNodeState {
            node: first.node,
            started: false,
            ended: None,
            launch_error: None,
            usage: Default::default(),
        });
    }
    Step {
        id: StepId::Batch,
        request: Arc::new(StepDescription {
            job_id: job.id.0,
            name: "batch".to_owned(),
            ..StepDescription::default()
        }),
        environment: None,
        num_cpus: layout
            .nodes
            .first()
            .map_or(0, |node| node.cpu_ids.len() as u32),
        layout: Arc::new(layout),
        nodes,
        num_tasks: 1,
        cpus_per_task: 1,
        overlap: true,
        start_time: time,
        end_time: None,
        state: JobState::Running,
        exit_status: WaitStatus::SUCCESS,
        kill_requester: None,
    }
}

fn mark_gres(node: &mut Node, gres: &[GresAllocation], in_use: bool) {
    for given in gres {
        let mut left = given.count;
        for state in &mut node.gres {
            let same_type = given.type_name.is_none() || state.type_name == given.type_name;
            if state.name != given.name || !same_type || left == 0 {
                continue;
            }
            if state.used.is_empty() {
                let units = left.min(if in_use {
                    state.count - state.used_count.min(state.count)
                } else {
                    state.used_count
                });
                state.used_count = if in_use {
                    state.used_count + units
                } else {
                    state.used_count - units
                };
                left -= units;
                continue;
            }
            for index in &given.indices {
                let Some(slot) = index
                    .checked_sub(state.first_index)
                    .and_then(|at| state.used.get_mut(at as usize))
                else {
                    continue;
                };
                if *slot != in_use {
                    *slot = in_use;
                    state.used_count = if in_use {
                        state.used_count + 1
                    } else {
                        state.used_count.saturating_sub(1)
                    };
                    left = left.saturating_sub(1);
                }
            }
        }
    }
}

fn occupy(cluster: &mut Cluster, id: JobId, part: &NodeAllocation, whole: bool, time: UnixSeconds) {
    let Some(node) = cluster.nodes.get_mut(part.node.at()) else {
        return;
    };
    let node = Arc::make_mut(node);
    for cpu in &part.cpu_ids {
        if let Some(slot) = node.used_cpus.get_mut(*cpu as usize) {
            *slot = true;
        }
    }
    node.used_memory += part.memory;
    mark_gres(node, &part.gres, true);
    if whole {
        node.whole_node_job = Some(id);
    }
    node.jobs.push(id);
    node.last_busy = Some(time);
}

fn vacate(cluster: &mut Cluster, id: JobId, part: &NodeAllocation, time: UnixSeconds) {
    let Some(node) = cluster.nodes.get_mut(part.node.at()) else {
        return;
    };
    let node = Arc::make_mut(node);
    for cpu in &part.cpu_ids {
        if let Some(slot) = node.used_cpus.get_mut(*cpu as usize) {
            *slot = false;
        }
    }
    // CPUs that were shared stay in use by the others.
    for other in node.jobs.iter().filter(|other| **other != id) {
        let Some(allocation) = cluster
            .jobs
            .get(other)
            .and_then(|job| job.allocation.as_ref())
        else {
            continue;
        };
        if allocation.shared_in.is_none() {
            continue;
        }
        let parts = allocation
            .nodes
            .iter()
            .filter(|part| part.name == node.config.name);
        for cpu in parts.flat_map(|part| &part.cpu_ids) {
            if let Some(slot) = node.used_cpus.get_mut(*cpu as usize) {
                *slot = true;
            }
        }
    }
    node.used_memory = node.used_memory.saturating_sub(part.memory);
    mark_gres(node, &part.gres, false);
    if node.whole_node_job == Some(id) {
        node.whole_node_job = None;
    }
    node.jobs.retain(|job| *job != id);
    node.completing_jobs.retain(|job| *job != id);
    node.last_busy = Some(time);
}

pub(super) fn node_ready(cluster: &mut Cluster, id: JobId, node: &str, time: UnixSeconds) {
    change(cluster, id, |job| {
        let Some(allocation) = &mut job.allocation else {
            return;
        };
        let allocation = Arc::make_mut(allocation);
        if let Some(part) = allocation.nodes.iter_mut().find(|part| part.name == node)
            && part.phase == NodePhase::Prolog
        {
            part.phase = NodePhase::Ready;
        }
        let all_ready = allocation
            .nodes
            .iter()
            .all(|part| part.phase != NodePhase::Prolog);
        if all_ready && job.state.flags.contains(JobStateFlags::CONFIGURING) {
            job.state.flags.remove(JobStateFlags::CONFIGURING);
            // Time spent in configuration does not count against the limit (scheduling: time limits).
            job.start_time = Some(time);
        }
    });
}

/// Marks every node still in use as ending; gives true if there is one.
fn begin_release(cluster: &mut Cluster, id: JobId) -> bool {
    let mut ending = Vec::new();
    change(cluster, id, |job| {
        let Some(allocation) = &mut job.allocation else {
            return;
        };
        for part in &mut Arc::make_mut(allocation).nodes {
            if part.phase < NodePhase::Ending {
                part.phase = NodePhase::Ending;
            }
            if part.phase == NodePhase::Ending {
                ending.push(part.node);
            }
        }
    });
    for index in &ending {
        if let Some(node) = cluster.nodes.get_mut(index.at()) {
            let node = Arc::make_mut(node);
            if !node.completing_jobs.contains(&id) {
                node.completing_jobs.push(id);
            }
        }
    }
    !ending.is_empty()
}

pub(super) fn ended(cluster: &mut Cluster, end: &JobEnd) {
    let completing = begin_release(cluster, end.job_id);
    cluster.pending.remove(&end.job_id);
    cluster.plan_notes.remove(&end.job_id);
    if !completing {
        cluster.holding.remove(&end.job_id);
    }
    let Some(job) = cluster.jobs.get(&end.job_id).cloned() else {
        return;
    };
    unindex_name(cluster, &job);
    unindex_dependencies(cluster, &job);
    cluster.finished.insert((end.time, end.job_id));
    change(cluster, end.job_id, |job| {
        let flags = if completing {
            JobStateFlags::COMPLETING
        } else {
            JobStateFlags::EMPTY
        };
        // A job cancelled while it waited has start = end = now and no nodes.
        if job.start_time.is_none() || job.state.base == JobState::Pending {
            job.start_time = Some(end.time);
        }
        if job.state.base == JobState::Suspended
            && let Some(since) = job.suspend_time
        {
            job.suspended_secs += end.time.since(since);
        }
        job.state = JobStateFull::with_flags(end.state, flags);
        job.reason = end.reason;
        job.reason_text.clone_from(&end.reason_text);
        job.exit_status = end.exit_status;
        job.end_time = Some(end.time);
        job.kill_requester = end.requester;
        job.failed_node.clone_from(&end.failed_node);
    });
}

pub(super) fn array_tasks_removed(
    cluster: &mut Cluster,
    id: JobId,
    tasks: &[u32],
    split_ids: &[JobId],
    requester: u32,
    time: UnixSeconds,
) {
    for (task, split) in tasks.iter().zip(split_ids) {
        let split_id = (*split != id).then_some(*split);
        let record = split_task(cluster, id, *task, split_id);
        ended(
            cluster,
            &JobEnd {
                job_id: record,
                state: JobState::Cancelled,
                reason: Reason::None,
                reason_text: None,
                exit_status: WaitStatus::SUCCESS,
                time,
                requester: Some(requester),
                failed_node: None,
            },
        );
    }
}

pub(super) fn requeued(cluster: &mut Cluster, requeue: &Requeue) {
    let id = requeue.job_id;
    let completing = begin_release(cluster, id);
    if !completing {
        cluster.holding.remove(&id);
    }
    let was_finished = cluster
        .jobs
        .get(&id)
        .is_some_and(|job| job.state.is_finished());
    if was_finished {
        if let Some(end) = cluster.jobs.get(&id).and_then(|job| job.end_time) {
            cluster.finished.remove(&(end, id));
        }
        if let Some(job) = cluster.jobs.get(&id).cloned() {
            index_name(cluster, &job);
            // A job cancelled while it depended on others waits for them again.
            index_dependencies(cluster, &job);
        }
    }
    cluster.pending.insert(id);
    change(cluster, id, |job| {
        let mut flags = if completing {
            JobStateFlags::COMPLETING
        } else {
            JobStateFlags::EMPTY
        };
        flags.set(JobStateFlags::SPECIAL_EXIT, requeue.special_exit);
        flags.set(
            JobStateFlags::REQUEUE_HOLD,
            requeue.hold.is_some() && !requeue.special_exit && completing,
        );
        job.state = JobStateFull::with_flags(JobState::Pending, flags);
        job.restarts += 1;
        if !completing {
            job.allocation = None;
        }
        job.submit_time = requeue.time;
        job.begin_time = requeue.begin_time;
        job.eligible_time = None;
        job.end_time = None;
        job.exit_status = requeue.exit_status;
        job.failed_node.clone_from(&requeue.failed_node);
        job.kill_requester = None;
        job.reason = requeue.hold.unwrap_or(Reason::None);
        job.reason_text.clone_from(&requeue.reason_text);
        if requeue.hold.is_some() {
            job.priority = 0;
        }
        // A limit that the user did not give is derived again at the next start.
        job.time_limit = job.request.time_limit;
        refresh_eligibility(job, requeue.time);
    });
}

pub(super) fn node_released(cluster: &mut Cluster, id: JobId, node: &str, time: UnixSeconds) {
    let mut released = None;
    let mut last = false;
    change(cluster, id, |job| {
        let Some(allocation) = &mut job.allocation else {
            return;
        };
        let allocation = Arc::make_mut(allocation);
        if let Some(part) = allocation
            .nodes
            .iter_mut()
            .find(|part| part.name == node && part.phase != NodePhase::Released)
        {
            part.phase = NodePhase::Released;
            released = Some(part.clone());
        }
        last = allocation
            .nodes
            .iter()
            .all(|part| part.phase == NodePhase::Released);
        if last {
            job.state
                .flags
                .remove(JobStateFlags::COMPLETING | JobStateFlags::REQUEUE_HOLD);
            if job.state.is_pending() {
                job.allocation = None;
            }
        }
    });
    if let Some(part) = released {
        vacate(cluster, id, &part, time);
    }
    if last {
        cluster.holding.remove(&id);
    }
}

pub(super) fn shrunk(cluster: &mut Cluster, id: JobId, names: &[String], time: UnixSeconds) {
    let mut gone = Vec::new();
    change(cluster, id, |job| {
        let Some(allocation) = &mut job.allocation else {
            return;
        };
        let allocation = Arc::make_mut(allocation);
        let (leaves, stays) = std::mem::take(&mut allocation.nodes)
            .into_iter()
            .partition(|part| names.contains(&part.name));
        allocation.nodes = stays;
        gone = leaves;
        let mut request = (*job.request).clone();
        let left = allocation.nodes.len() as u32;
        request.min_nodes = Some(left);
        request.max_nodes = Some(left);
        request.required_nodes = None;
        job.request = Arc::new(request);
    });
    for part in gone {
        vacate(cluster, id, &part, time);
    }
}

pub(super) fn held(cluster: &mut Cluster, id: JobId, reason: Reason, text: Option<String>) {
    cluster.plan_notes.remove(&id);
    change(cluster, id, |job| {
        job.priority = 0;
        job.reason = reason;
        job.reason_text = text;
        job.eligible_time = None;
    });
}

pub(super) fn released(cluster: &mut Cluster, id: JobId, priority: u32, time: UnixSeconds) {
    change(cluster, id, |job| {
        job.priority = priority;
        job.priority_is_direct = false;
        job.reason = Reason::None;
        job.reason_text = None;
        job.state.flags.remove(
            JobStateFlags::SPECIAL_EXIT
                | JobStateFlags::REQUEUE_HOLD
                | JobStateFlags::RESV_DEL_HOLD,
        );
        refresh_eligibility(job, time);
    });
}

pub(super) fn updated(cluster: &mut Cluster, job: &Job, time: UnixSeconds) {
    if let Some(before) = cluster.jobs.get(&job.id).cloned() {
        unindex_dependencies(cluster, &before);
        if !before.state.is_finished() {
            unindex_name(cluster, &before);
        }
    }
    let mut job = job.clone();
    if job.state.is_pending() {
        refresh_eligibility(&mut job, time);
    }
    index_dependencies(cluster, &job);
    if !job.state.is_finished() {
        index_name(cluster, &job);
    }
    cluster.jobs.insert(job.id, Arc::new(job));
}

pub(super) fn dependency_decided(
    cluster: &mut Cluster,
    id: JobId,
    term: u32,
    status: DependencyStatus,
    time: UnixSeconds,
) {
    change(cluster, id, |job| {
        if let Some(entry) = job.dependency.terms.get_mut(term as usize) {
            entry.1 = status;
        }
        refresh_eligibility(job, time);
    });
}

pub(super) fn suspended(cluster: &mut Cluster, id: JobId, stop: bool, time: UnixSeconds) {
    change(cluster, id, |job| {
        if stop {
            job.pre_suspend_secs = job.run_secs(time);
            job.state.base = JobState::Suspended;
        } else {
            if let Some(since) = job.suspend_time {
                job.suspended_secs += time.since(since);
            }
            job.state.base = JobState::Running;
        }
        job.suspend_time = Some(time);
    });
}

pub(super) fn purged(cluster: &mut Cluster, ids: &[JobId]) {
    for id in ids {
        let Some(job) = cluster.jobs.remove(id) else {
            continue;
        };
        drop_blobs(cluster, &job);
        if let Some(end) = job.end_time {
            cluster.finished.remove(&(end, *id));
        }
        if cluster.submissions.get(&job.request.submission_key) == Some(id) {
            cluster.submissions.remove(&job.request.submission_key);
        }
        let array = job.array_job_id();
        let empty = cluster.arrays.get_mut(&array).is_some_and(|members| {
            members.remove(id);
            members.is_empty()
        });
        if empty {
            cluster.arrays.remove(&array);
        }
    }
}
