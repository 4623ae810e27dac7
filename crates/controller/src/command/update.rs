//! Changing a job by hand: `scontrol update JobId=`. Source: scontrol(1), cli reference 5 (who may change what, and when).

use std::sync::Arc;

use sluice_model::error_code::ErrorCode;
use sluice_model::ids::JobId;
use sluice_model::job::{JobDescription, JobUpdate};
use sluice_model::reason::Reason;
use sluice_model::time::{TimeLimit, UnixSeconds};

use super::submit::BASE_PRIORITY;
use super::{Caller, Rejection, TargetOutcome, dependency, resize, selector};
use crate::cluster::{Cluster, DependencyState, Job};
use crate::effect::Effect;
use crate::event::Event;
use crate::event::policy::places;
use crate::priority::SITE_FACTOR;
use crate::reservation::access;
use crate::transaction::Transaction;
use crate::{license, schedule, select};

/// Applies one change to everything the texts name.
pub fn update_targets(
    transaction: &mut Transaction<'_>,
    targets: &[String],
    update: &JobUpdate,
    caller: &Caller,
) -> Vec<TargetOutcome> {
    selector::for_each(transaction, targets, |t, job| {
        update_one(t, job, update, caller)
    })
}

fn longer(new: TimeLimit, old: Option<TimeLimit>) -> bool {
    match (new.minutes(), old.map(TimeLimit::minutes)) {
        (_, None | Some(None)) => false,
        (None, Some(Some(_))) => true,
        (Some(new), Some(Some(old))) => new > old,
    }
}

fn update_one(
    transaction: &mut Transaction<'_>,
    id: JobId,
    update: &JobUpdate,
    caller: &Caller,
) -> Result<(), Rejection> {
    let before = transaction
        .cluster
        .job(id)
        .cloned()
        .ok_or(ErrorCode::InvalidJobId)?;
    if !caller.may_change_job(&before) {
        return Err(ErrorCode::AccessDenied.into());
    }
    if before.request.cron_spec.is_some() {
        return Err(ErrorCode::CronJobModify.into());
    }
    let operator = caller.privileged;
    let caller = &caller.over(&before);
    if before.state.is_finished() {
        // Comments may still be added to a job that is over.
        let only_comments = JobUpdate {
            comment: None,
            admin_comment: None,
            ..update.clone()
        } == JobUpdate::default();
        if !only_comments {
            return Err(ErrorCode::JobFinished.into());
        }
    }
    let mut job = (*before).clone();
    let mut request = (*before.request).clone();
    let pending = job.state.is_pending();
    let resized = update.keep_nodes.is_some() || update.min_nodes.is_some();
    let kept = if pending || !resized {
        None
    } else {
        Some(resize::kept(
            &before,
            update.keep_nodes.as_deref(),
            update.min_nodes,
        )?)
    };
    let need_pending = |given: bool| {
        if given && !pending {
            Err(Rejection::from(ErrorCode::JobNotPending))
        } else {
            Ok(())
        }
    };

    if let Some(name) = &update.name {
        request.name = Some(name.clone());
    }
    if let Some(comment) = &update.comment {
        request.comment = Some(comment.clone()).filter(|c| !c.is_empty());
    }
    if let Some(comment) = &update.admin_comment {
        if !operator {
            return Err(ErrorCode::AccessDenied.into());
        }
        job.admin_comment = Some(comment.clone()).filter(|c| !c.is_empty());
    }
    if let Some(limit) = update.time_limit {
        // What waits may ask for more time; what runs was let in with what it had.
        let raises = longer(limit, job.time_limit.or(request.time_limit));
        if raises && !pending && !caller.privileged {
            return Err(ErrorCode::AccessDenied.into());
        }
        request.time_limit = Some(limit);
        job.time_limit = Some(limit);
    }
    let limit = transaction
        .cluster
        .partition(&job.partition)
        .map(|partition| schedule::time_limit_of(&job, partition))
        .or(job.time_limit);
    update_times(
        &mut job,
        &mut request,
        update,
        caller,
        (limit, transaction.now),
    )?;
    check_names(transaction.cluster, &job, update)?;
    if let Some(priority) = update.priority {
        let shown = transaction.cluster.priority_of(&before);
        set_priority(&mut job, priority, shown, caller)?;
    }
    if let Some(nice) = update.nice {
        if nice < request.nice && !caller.privileged {
            return Err(ErrorCode::AccessDenied.into());
        }
        request.nice = nice;
    }
    if let Some(begin) = update.begin_time {
        need_pending(true)?;
        request.begin_time = Some(begin);
        job.begin_time = Some(begin).filter(|begin| *begin > transaction.now);
        job.eligible_time = None;
    }
    if let Some(deadline) = update.deadline {
        need_pending(true)?;
        if deadline <= transaction.now {
            return Err(ErrorCode::InvalidTimeValue.into());
        }
        if !operator {
            return Err(ErrorCode::AccessDenied.into());
        }
        request.deadline = Some(deadline);
    }
    if let Some(text) = &update.dependency {
        need_pending(true)?;
        job.dependency = if text.is_empty() {
            DependencyState::default()
        } else {
            dependency::resolve(
                transaction.cluster,
                Some(id),
                job.is_array_master(),
                text,
                transaction.now,
            )
            // One line per job: Slurm's words alone.
            .map_err(|rejection| Rejection::new(rejection.code))?
        };
        request.dependency = Some(text.clone()).filter(|t| !t.is_empty());
        job.eligible_time = None;
    }
    if let Some(partitions) = &update.partitions {
        need_pending(true)?;
        for name in partitions {
            if transaction.cluster.partition(name).is_none() {
                return Err(ErrorCode::InvalidPartitionName.into());
            }
        }
        request.partitions.clone_from(partitions);
        job.partition = partitions.first().cloned().unwrap_or_default();
    }
    let text = |value: &Option<String>| value.clone().map(|v| Some(v).filter(|v| !v.is_empty()));
    let pending_fields = [
        update.account.is_some(),
        update.qos.is_some(),
        update.num_cpus.is_some(),
        update.min_cpus_per_node.is_some(),
        update.tmp_disk_mib.is_some(),
        update.ntasks_per_node.is_some(),
        update.sockets_per_node.is_some(),
        update.cores_per_socket.is_some(),
        update.threads_per_core.is_some(),
        update.core_spec.is_some(),
        update.contiguous.is_some(),
        update.oversubscribe.is_some(),
        update.prefer.is_some(),
        update.ntasks.is_some(),
        update.cpus_per_task.is_some(),
        update.mem_per_node.is_some(),
        update.mem_per_cpu.is_some(),
        update.constraint.is_some(),
        update.required_nodes.is_some(),
        update.excluded_nodes.is_some(),
        update.gres_per_node.is_some(),
        update.reservation.is_some(),
        update.std_out.is_some(),
        update.std_err.is_some(),
        update.std_in.is_some(),
        update.work_dir.is_some(),
    ];
    need_pending(pending_fields.contains(&true))?;
    if let Some(account) = &update.account {
        job.account.clone_from(account);
        request.account = Some(account.clone());
    }
    if let Some(qos) = &update.qos {
        job.qos.clone_from(qos);
        request.qos = Some(qos.clone());
    }
    if pending && let Some(least) = update.min_nodes {
        if update.max_nodes.is_some_and(|most| most < least) {
            return Err(ErrorCode::InvalidCpuCount.into());
        }
        request.min_nodes = Some(least);
        request.max_nodes = update.max_nodes.or(Some(least));
    }
    update_shape(&mut request, update, caller)?;
    if pending && let Some(nodes) = &update.keep_nodes {
        request.required_nodes = Some(nodes.clone()).filter(|list| !list.is_empty());
    }
    if let Some(value) = update.extra.get(SITE_FACTOR) {
        check_site_factor(value, caller)?;
    }
    for (name, value) in &update.extra {
        if value.is_empty() {
            request.extra.remove(name);
        } else {
            request.extra.insert(name.clone(), value.clone());
        }
    }
    request.ntasks = update.ntasks.or(request.ntasks);
    request.cpus_per_task = update.cpus_per_task.or(request.cpus_per_task);
    if update.mem_per_node.is_some() {
        request.mem_per_node = update.mem_per_node;
        request.mem_per_cpu = None;
    }
    if update.mem_per_cpu.is_some() {
        request.mem_per_cpu = update.mem_per_cpu;
        request.mem_per_node = None;
    }
    for (value, field) in [
        (text(&update.constraint), &mut request.constraint),
        (text(&update.required_nodes), &mut request.required_nodes),
        (text(&update.excluded_nodes), &mut request.excluded_nodes),
        (text(&update.licenses), &mut request.licenses),
        (text(&update.reservation), &mut request.reservation),
        (text(&update.wckey), &mut request.wckey),
        (text(&update.std_out), &mut request.std_out),
        (text(&update.std_err), &mut request.std_err),
        (text(&update.std_in), &mut request.std_in),
        (text(&update.mail_type), &mut request.mail_type),
        (text(&update.mail_user), &mut request.mail_user),
    ] {
        if let Some(value) = value {
            *field = value;
        }
    }
    if let Some(dir) = &update.work_dir {
        request.work_dir.clone_from(dir);
    }
    if let Some(gres) = &update.gres_per_node {
        request.gres_per_node.clone_from(gres);
    }
    if let Some(requeue) = update.requeue {
        job.requeue = requeue;
    }
    // Of a job that is no array nothing is asked, as slurmctld has it.
    if let (Some(throttle), Some(array)) = (update.array_throttle, job.array.as_mut()) {
        array.pending.throttle = throttle;
    }
    if let Some(text) = update.licenses.as_deref().filter(|_| !pending) {
        change_licenses(transaction, &mut job, text)?;
    }
    if pending {
        check_request(transaction, &request, job.priority == 0)?;
        // A hold for an impossible request ends when the request is changed.
        if job.reason == Reason::BadConstraints {
            job.reason = Reason::None;
            job.reason_text = None;
            job.priority = BASE_PRIORITY;
        }
    }
    job.request = Arc::new(request);
    (job.association, job.qos_id) = places(transaction.cluster, &job);
    let time = transaction.now;
    transaction.emit(Event::JobUpdated {
        job: Box::new(job),
        time,
    });
    if let Some(kept) = kept {
        resize::shrink(transaction, &before, &kept);
    }
    transaction.cluster.plan_notes.remove(&id);
    transaction.effect(Effect::JobChanged { job: id });
    transaction.wake_planner();
    Ok(())
}

/// Licences must be configured, and reservations open to the job.
fn check_names(cluster: &Cluster, job: &Job, update: &JobUpdate) -> Result<(), Rejection> {
    if let Some(text) = &update.licenses {
        license::check(cluster, text)?;
    }
    access::check_names(
        cluster,
        update.reservation.as_deref(),
        access::applicant(job),
    )
}

/// A job that runs holds other licences from now on, if they are there.
fn change_licenses(
    transaction: &Transaction<'_>,
    job: &mut Job,
    text: &str,
) -> Result<(), Rejection> {
    let need = license::check(transaction.cluster, text)?;
    let run = job.reservation.as_ref().map(|run| run.id);
    let mut held = license::held(transaction.cluster);
    for (name, count) in &job.licenses {
        if let Some(all) = held.get_mut(&(run, name.clone())) {
            *all = all.saturating_sub(*count);
        }
    }
    let now = transaction.now;
    let there = |(name, count): &(String, u64)| {
        *count <= license::available(transaction.cluster, &held, name, run, now.0 + 1, now)
    };
    job.licenses = if need.any {
        need.items.into_iter().find(there).into_iter().collect()
    } else {
        need.items.into_iter().filter(there).collect()
    };
    let wanted = license::parse(text).map_or(0, |need| {
        need.items.len().min(if need.any { 1 } else { usize::MAX })
    });
    if job.licenses.len() < wanted {
        return Err(ErrorCode::InvalidLicenses.into());
    }
    Ok(())
}

/// Limits in time beside `TimeLimit=` itself.
fn update_times(
    job: &mut Job,
    request: &mut JobDescription,
    update: &JobUpdate,
    caller: &Caller,
    (before, now): (Option<TimeLimit>, UnixSeconds),
) -> Result<(), Rejection> {
    if let Some(change) = update.time_limit_change {
        if change > 0 && !caller.privileged {
            return Err(ErrorCode::AccessDenied.into());
        }
        let Some(Some(minutes)) = before.map(TimeLimit::minutes) else {
            return Err(ErrorCode::InvalidTimeLimit.into());
        };
        let minutes =
            u32::try_from(i64::from(minutes) + change).map_err(|_| ErrorCode::InvalidTimeLimit)?;
        job.time_limit = Some(TimeLimit::Minutes(minutes));
        request.time_limit = job.time_limit;
    }
    if let Some(least) = update.time_min {
        if !job.state.is_pending() {
            return Err(ErrorCode::JobNotPending.into());
        }
        let least = Some(least).filter(|limit| limit.minutes() != Some(0));
        let limit = update.time_limit.or(before);
        if least.is_some_and(|least| longer(least, limit)) {
            return Err(ErrorCode::InvalidTimeMinLimit.into());
        }
        request.time_min = least;
    }
    if let Some(end) = update.end_time {
        let Some(start) = job.start_time.filter(|_| job.state.is_running()) else {
            return Err(ErrorCode::JobNotRunning.into());
        };
        if end <= now {
            return Err(ErrorCode::InvalidTimeValue.into());
        }
        let minutes = (end.since(start) - job.suspended_secs + 59).max(0) / 60;
        let limit = TimeLimit::Minutes(minutes.clamp(1, i64::from(u32::MAX - 2)) as u32);
        if !caller.privileged && longer(limit, job.time_limit) {
            return Err(ErrorCode::AccessDenied.into());
        }
        job.time_limit = Some(limit);
    }
    if update.reset_accrue {
        if !caller.privileged {
            return Err(ErrorCode::AccessDenied.into());
        }
        // Waiting counts from now on.
        job.accrue_reset = Some(now).filter(|_| job.state.is_pending());
    }
    Ok(())
}

/// Numbers and wishes about nodes that a pending job may change.
fn update_shape(
    request: &mut JobDescription,
    update: &JobUpdate,
    caller: &Caller,
) -> Result<(), Rejection> {
    let for_operators = [
        update.contiguous == Some(true),
        update.oversubscribe.is_some(),
    ];
    if for_operators.contains(&true) && !caller.privileged {
        return Err(ErrorCode::AccessDenied.into());
    }
    if let Some(cpus) = update.num_cpus {
        // A job's size follows from its tasks.
        let per_task = update.cpus_per_task.or(request.cpus_per_task).unwrap_or(1);
        request.ntasks = Some(cpus.div_ceil(per_task.max(1)).max(1));
    }
    for (value, field) in [
        (update.min_cpus_per_node, &mut request.min_cpus_per_node),
        (update.ntasks_per_node, &mut request.ntasks_per_node),
        (update.sockets_per_node, &mut request.sockets_per_node),
        (update.cores_per_socket, &mut request.cores_per_socket),
        (update.threads_per_core, &mut request.threads_per_core),
    ] {
        *field = value.or(*field);
    }
    if let Some(cores) = update.core_spec {
        request.core_spec = Some(cores).filter(|cores| *cores != u32::MAX);
    }
    if let Some(size) = update.tmp_disk_mib {
        request.tmp_disk_mib = Some(size);
    }
    if let Some(contiguous) = update.contiguous {
        request.contiguous = contiguous;
    }
    if let Some(share) = update.oversubscribe {
        request.oversubscribe = share;
    }
    if let Some(prefer) = &update.prefer {
        request.prefer = Some(prefer.clone()).filter(|text| !text.is_empty());
    }
    Ok(())
}

/// The changed request must still be possible in one of its partitions. Limits of partitions are not enforced here, whatever
/// EnforcePartLimits says: the job waits. A held job is not looked at closer than by the names it asks for.
fn check_request(
    transaction: &Transaction<'_>,
    request: &sluice_model::job::JobDescription,
    held: bool,
) -> Result<(), Rejection> {
    let cluster = &transaction.cluster;
    let mut fault = None;
    for name in &request.partitions {
        let Some(partition) = cluster.partition(name) else {
            continue;
        };
        match check_in_partition(cluster, request, partition, held) {
            Ok(()) => return Ok(()),
            Err(rejection) => fault = Some(rejection),
        }
    }
    fault.map_or(Ok(()), Err)
}

fn check_in_partition(
    cluster: &Cluster,
    request: &JobDescription,
    partition: &crate::cluster::Partition,
    held: bool,
) -> Result<(), Rejection> {
    let normal = match select::ResourceRequest::new(request, partition, &cluster.config) {
        Err(error) if error.code == ErrorCode::InvalidTaskMemory => {
            return Err(ErrorCode::RequestedPartConfigUnavailable.into());
        }
        normal => normal?,
    };
    select::feasible::names_exist(cluster, &normal)?;
    match select::feasible::limit_exceeded(cluster, partition, request, &normal) {
        Some(ErrorCode::TooManyRequestedCpus) => {
            Err(ErrorCode::RequestedPartConfigUnavailable.into())
        }
        Some(ErrorCode::RequestedNodesNotInPartition) | None if !held => {
            Ok(select::feasible::can_ever_run(cluster, partition, &normal)?)
        }
        _ => Ok(()),
    }
}

/// Largest SiteFactor, up or down.
const SITE_FACTOR_MAX: i64 = 2_147_483_645;

/// SiteFactor is a number that operators set.
fn check_site_factor(value: &str, caller: &Caller) -> Result<(), Rejection> {
    if !caller.privileged {
        return Err(ErrorCode::AccessDenied.into());
    }
    let known = value
        .trim()
        .parse::<i64>()
        .is_ok_and(|factor| factor.abs() <= SITE_FACTOR_MAX);
    if known {
        Ok(())
    } else {
        Err(ErrorCode::InvalidNice.into())
    }
}

/// `shown`: the priority the job has, however it came by it.
fn set_priority(
    job: &mut Job,
    priority: u32,
    shown: u32,
    caller: &Caller,
) -> Result<(), Rejection> {
    if priority == u32::MAX {
        job.priority_is_direct = false;
        job.priority = if job.priority == 0 { 0 } else { BASE_PRIORITY };
        return Ok(());
    }
    if priority == 0 {
        job.priority = 0;
        job.reason = if caller.privileged {
            Reason::JobHeldAdmin
        } else {
            Reason::JobHeldUser
        };
        job.eligible_time = None;
        return Ok(());
    }
    if job.priority == 0 {
        return Err(ErrorCode::JobHeld.into());
    }
    if priority > shown && !caller.privileged {
        return Err(ErrorCode::AccessDenied.into());
    }
    job.priority = priority;
    job.priority_is_direct = true;
    Ok(())
}
