//! What accounting is told: records of jobs, steps and nodes, derived from each event as it is decided.
//!
//! The records travel in the journal beside the events, so that the feed needs no state and a record is never lost between a
//! checkpoint and the database. One job record a run: (job id, attempt).

use std::sync::Arc;

use sluice_model::accounting::{
    AccountingUpdate, ClusterRegistration, JobRecord, NodeEventRecord, StepRecord, StepUsageRecord,
    UsageStat, job_flag,
};
use sluice_model::hostlist::collapse_hostlist;
use sluice_model::ids::{JobId, StepId};
use sluice_model::job::Exclusive;
use sluice_model::node_state::{NodeState, NodeStateFull};
use sluice_model::state::JobState;
use sluice_model::time::{TimeLimit, UnixSeconds};

use crate::cluster::{BlobId, Cluster, Job, Node, Step};
use crate::event::Event;
use crate::view;
use crate::{schedule, select};

/// What of the state before an event the records need.
pub struct Before {
    job: Option<Arc<Job>>,
    node: Option<Arc<Node>>,
}

/// Notes what [`collect`] needs of the state before the event.
#[must_use]
pub fn before(cluster: &Cluster, event: &Event) -> Before {
    let job = match event {
        Event::JobRequeued(requeue) => cluster.job(requeue.job_id).cloned(),
        Event::JobStarted { job_id, .. } => cluster.job(*job_id).cloned(),
        _ => None,
    };
    let node = match event {
        Event::NodeRegistered { node, .. } | Event::NodeStateSet { node, .. } => {
            cluster.node_named(node).map(|(_, node)| Arc::clone(node))
        }
        _ => None,
    };
    Before { job, node }
}

/// Adds the records of one event.
pub fn collect(
    cluster: &Cluster,
    event: &Event,
    before: Before,
    now: UnixSeconds,
    out: &mut Vec<AccountingUpdate>,
) {
    if matches!(
        cluster.config.accounting.storage,
        sluice_config::AccountingStorage::None
    ) {
        return;
    }
    let enforce = &cluster.config.accounting.enforce;
    if enforce.no_jobs
        && !matches!(
            event,
            Event::NodeRegistered { .. } | Event::NodeStateSet { .. }
        )
    {
        return;
    }
    let steps = !enforce.no_steps;
    match event {
        Event::JobSubmitted { job } => push_submitted(cluster, job.id, out),
        Event::JobStarted {
            job_id, split_id, ..
        } => {
            let id = split_id.unwrap_or(*job_id);
            push_job(cluster, id, out);
            if split_id.is_some() {
                push_job(cluster, *job_id, out);
            }
            if steps {
                push_step(cluster, id, StepId::Batch, out);
            }
        }
        Event::NodeReady { job_id, .. } | Event::JobSuspended { job_id, .. } => {
            push_job(cluster, *job_id, out)
        }
        Event::JobUpdated { job, .. } => push_job(cluster, job.id, out),
        Event::JobReleased { job_id, .. } | Event::DependencyDecided { job_id, .. } => {
            push_job(cluster, *job_id, out)
        }
        Event::JobEnded(end) => push_job(cluster, end.job_id, out),
        Event::ArrayTaskSplit {
            job_id, split_id, ..
        } => {
            push_job(cluster, split_id.unwrap_or(*job_id), out);
            if split_id.is_some() {
                push_job(cluster, *job_id, out);
            }
        }
        Event::ArrayTasksRemoved {
            job_id, split_ids, ..
        } => {
            for id in split_ids {
                push_job(cluster, *id, out);
            }
            push_job(cluster, *job_id, out);
        }
        Event::JobRequeued(requeue) => {
            if let Some(old) = &before.job
                && !old.state.is_finished()
            {
                let mut record = job_record(cluster, old);
                // A run that was cut short keeps why; one requeued by hand is REQUEUED (a flag over PENDING in Slurm's numbers).
                let (state, flags) = match requeue.run_state {
                    JobState::Pending => (
                        JobState::Pending,
                        sluice_model::state::JobStateFlags::REQUEUED.bits(),
                    ),
                    state => (state, 0),
                };
                record.state = u32::from(state.number());
                record.state_flags = flags;
                record.end = Some(requeue.time);
                record.exit_status = requeue.exit_status.0;
                record.failed_node = requeue.failed_node.clone().unwrap_or_default();
                out.push(AccountingUpdate::Job(record));
            }
            push_job(cluster, requeue.job_id, out);
        }
        Event::StepCreated { job_id, step } if steps => push_step(cluster, *job_id, step.id, out),
        Event::StepEnded {
            job_id, step_id, ..
        } if steps => push_step(cluster, *job_id, *step_id, out),
        Event::NodeRegistered { node, .. } | Event::NodeStateSet { node, .. } => {
            push_node(cluster, node, before.node.as_deref(), now, out);
        }
        _ => {}
    }
}

fn push_job(cluster: &Cluster, id: JobId, out: &mut Vec<AccountingUpdate>) {
    if let Some(job) = cluster.job(id) {
        out.push(AccountingUpdate::Job(job_record(cluster, job)));
    }
}

/// The first record of a job; with the texts of its batch script and environment when AccountingStoreFlags asks for them.
fn push_submitted(cluster: &Cluster, id: JobId, out: &mut Vec<AccountingUpdate>) {
    let Some(job) = cluster.job(id) else {
        return;
    };
    let mut record = job_record(cluster, job);
    let flags = &cluster.config.accounting.store_flags;
    let kept = |name: &str| job.script.is_some() && flags.iter().any(|flag| flag == name);
    let bytes = |blob: Option<BlobId>| blob.and_then(|id| cluster.blobs.get(&id));
    if kept("job_script") {
        let script = bytes(job.script);
        record.script = script.map(|blob| String::from_utf8_lossy(&blob.bytes).into_owned());
    }
    if kept("job_env") {
        let environment = bytes(job.environment);
        record.environment = environment.map(|blob| {
            let text = String::from_utf8_lossy(&blob.bytes);
            text.trim_end_matches('\0').replace('\0', "\n")
        });
    }
    out.push(AccountingUpdate::Job(record));
}

fn push_step(cluster: &Cluster, id: JobId, step: StepId, out: &mut Vec<AccountingUpdate>) {
    if let Some(job) = cluster.job(id)
        && let Some(step) = job.steps.get(&step)
    {
        out.push(AccountingUpdate::Step(step_record(job, step)));
    }
}

fn out_of_service(state: NodeStateFull) -> bool {
    state.base == NodeState::Down || state.is_draining()
}

fn push_node(
    cluster: &Cluster,
    name: &str,
    before: Option<&Node>,
    now: UnixSeconds,
    out: &mut Vec<AccountingUpdate>,
) {
    let Some((_, node)) = cluster.node_named(name) else {
        return;
    };
    let was_out = before.is_some_and(|node| out_of_service(node.state));
    let is_out = out_of_service(node.state);
    let changed = before.is_none_or(|b| b.state != node.state || b.reason != node.reason);
    if is_out && changed {
        out.push(AccountingUpdate::NodeEvent(NodeEventRecord {
            node: name.to_owned(),
            time_start: now,
            time_end: None,
            state: node.shown_state().to_string(),
            reason: node.reason.clone().unwrap_or_default(),
            user: node
                .reason_uid
                .map(|uid| uid.to_string())
                .unwrap_or_default(),
            tres: stored_tres(&view::node_tres(node)),
        }));
    } else if was_out && !is_out {
        out.push(AccountingUpdate::NodeUp {
            node: name.to_owned(),
            time: now,
        });
    }
}

/// TRES as records keep them: plain counts, memory in MiB, so that they can be added up without a unit.
fn stored_tres(tres: &sluice_model::tres::Tres) -> String {
    let parts: Vec<String> = tres
        .iter()
        .map(|(kind, count)| format!("{kind}={count}"))
        .collect();
    parts.join(",")
}

/// The record of a job's current (or last) run.
#[must_use]
pub fn job_record(cluster: &Cluster, job: &Job) -> JobRecord {
    let request = &job.request;
    let partition = cluster.partition(&job.partition);
    let normal = partition.and_then(|p| {
        select::ResourceRequest::new(request, p, &cluster.config)
            .ok()
            .map(|n| (p, n))
    });
    let has_run = !job.state.is_pending();
    // A requeued job that ends before it runs again has its own record, that of the run it waited for; its `run_attempt` and
    // what it held are still the former run's.
    let ran = has_run && job.run_attempt == job.restarts;
    let allocation = job.allocation.as_ref().filter(|_| ran);
    let array = job.array.as_ref();
    let mut record = JobRecord::new(job.id, job.restarts, job.submit_time);
    record.cluster.clone_from(&cluster.config.cluster_name);
    record.array_job_id = array.map(|a| a.array_job_id);
    record.array_task_id = array.and_then(|a| a.task_id);
    record.het_job_id = job.het.map(|het| het.leader);
    record.het_job_offset = job.het.map(|het| het.offset);
    record.array_task_string = array
        .filter(|a| a.task_id.is_none())
        .map(|a| sluice_model::array::pending_display(&a.pending.tasks, a.pending.throttle))
        .unwrap_or_default();
    record.account.clone_from(&job.account);
    record.user.clone_from(&job.user_name);
    record.uid = request.uid;
    record.gid = request.gid;
    record.group.clone_from(&job.group_name);
    record.partition = if has_run {
        job.partition.clone()
    } else {
        request.partitions.join(",")
    };
    record.qos.clone_from(&job.qos);
    record.qos_requested = request.qos.clone().unwrap_or_default();
    record.wckey = request.wckey.clone().unwrap_or_default();
    record.name = request.name.clone().unwrap_or_default();
    record.eligible = job.eligible_time;
    record.start = job.start_time.filter(|_| has_run);
    record.end = job.end_time;
    record.suspended_secs = job.suspended_secs.max(0) as u64;
    record.state = u32::from(job.state.base.number());
    record.exit_status = job.exit_status.0;
    record.derived_exit_status = job.derived_exit_status.0;
    record.reason = job.reason.name().to_owned();
    if let Some((p, n)) = &normal {
        let mut req = select::tres::req_tres(cluster, n, p);
        let need = crate::license::need_of(job);
        if !need.any {
            view::add_licenses(cluster, &mut req, &need.items);
        }
        record.req_mem_mib = req.get(&sluice_model::tres::TresKind::Mem);
        record.req_tres = stored_tres(&req);
        record.req_cpus = n.num_cpus();
        record.req_nodes = n.min_nodes;
    }
    if let Some(allocation) = allocation {
        let mut tres = select::tres::alloc_tres(cluster, &job.partition, allocation);
        view::add_licenses(cluster, &mut tres, &job.licenses);
        record.alloc_tres = stored_tres(&tres);
        record.alloc_cpus = allocation.cpu_count();
        record.alloc_nodes = allocation.nodes.len() as u32;
        record.node_list = collapse_hostlist(allocation.node_names());
    }
    record.constraints = request.constraint.clone().unwrap_or_default();
    record.priority = cluster.priority_of(job);
    record.association_id = job.association;
    record.time_limit_minutes = job
        .time_limit
        .or_else(|| partition.map(|p| schedule::time_limit_of(job, p)))
        .map(|limit| match limit {
            TimeLimit::Minutes(minutes) => minutes,
            TimeLimit::Unlimited => sluice_model::accounting::UNLIMITED_MINUTES,
        });
    record.reservation = job
        .reservation
        .as_ref()
        .map(|run| run.name.clone())
        .unwrap_or_default();
    record.reservation_requested = request.reservation.clone().unwrap_or_default();
    record.licenses = request.licenses.clone().unwrap_or_default();
    record.work_dir.clone_from(&request.work_dir);
    record.submit_line.clone_from(&request.submit_line);
    record.std_in = request.std_in.clone().unwrap_or_default();
    record.std_out = request.std_out.clone().unwrap_or_default();
    record.std_err = request.std_err.clone().unwrap_or_default();
    record.comment = request.comment.clone().unwrap_or_default();
    record.admin_comment = job.admin_comment.clone().unwrap_or_default();
    record.system_comment = job.system_comment.clone().unwrap_or_default();
    record.exclusive = match request.exclusive {
        None => String::new(),
        Some(Exclusive::Node) => "NODE".to_owned(),
        Some(Exclusive::User) => "USER".to_owned(),
        Some(Exclusive::Mcs) => "MCS".to_owned(),
        Some(Exclusive::Topo) => "TOPO".to_owned(),
    };
    record.flags = match job.scheduler.as_deref() {
        Some("Main") => job_flag::SCHED_MAIN,
        Some("Backfill") => job_flag::SCHED_BACKFILL,
        Some(_) => job_flag::SCHED_SUBMIT,
        None => job_flag::NONE,
    };
    if has_run {
        record.flags |= job_flag::START_RECEIVED;
    }
    record.kill_requester = job.kill_requester;
    record.failed_node = job.failed_node.clone().unwrap_or_default();
    record
}

/// The record of a step.
#[must_use]
pub fn step_record(job: &Job, step: &Step) -> StepRecord {
    let names: Vec<&str> = step
        .layout
        .nodes
        .iter()
        .map(|node| node.node.as_str())
        .collect();
    let mut record = StepRecord::new(
        job.id,
        job.run_attempt,
        job.submit_time,
        step.id,
        step.start_time,
    );
    record.name.clone_from(&step.request.name);
    record.tasks = step.num_tasks;
    record.nodes = names.len() as u32;
    record.node_list = collapse_hostlist(&names);
    record.layout = match crate::launch::default_distribution(step) {
        "block" => "Block".to_owned(),
        _ => "Cyclic".to_owned(),
    };
    record.end = step.end_time;
    record.state = u32::from(step.state.number());
    record.exit_status = step.exit_status.0;
    record.cpus = step.num_cpus;
    let mut tres = view::step_tres(step);
    if step.id == StepId::Batch {
        // The batch step holds what the job has on its first node.
        tres.set(sluice_model::tres::TresKind::Node, 1);
    }
    record.alloc_tres = stored_tres(&tres);
    record.kill_requester = step.kill_requester;
    record.time_limit_minutes = step.request.time_limit.and_then(TimeLimit::minutes);
    record.usage = usage_record(step);
    record
}

/// Sums and extremes over the nodes of a step.
fn usage_record(step: &Step) -> StepUsageRecord {
    let mut usage = StepUsageRecord::default();
    let tasks = u64::from(step.num_tasks.max(1));
    let mut rss_total = 0;
    for (state, layout) in step.nodes.iter().zip(&step.layout.nodes) {
        let here = &state.usage;
        usage.user_cpu_us += here.user_cpu_us;
        usage.system_cpu_us += here.system_cpu_us;
        rss_total += here.total_rss_kib;
        let node = layout.node.as_str();
        let first = layout.task_ids.first().copied().unwrap_or(0);
        let cpu_ms = (here.user_cpu_us + here.system_cpu_us) / 1_000;
        merge(&mut usage.cpu_ms, cpu_ms, node, first);
        merge(
            &mut usage.rss_kib,
            here.max_rss_kib,
            node,
            here.max_rss_task,
        );
        merge(&mut usage.vsize_kib, here.max_vsize_kib, node, first);
        merge(&mut usage.pages, here.max_pages, node, first);
        merge(
            &mut usage.disk_read_bytes,
            here.disk_read_bytes,
            node,
            first,
        );
        merge(
            &mut usage.disk_write_bytes,
            here.disk_write_bytes,
            node,
            first,
        );
    }
    for stat in [
        &mut usage.cpu_ms,
        &mut usage.rss_kib,
        &mut usage.vsize_kib,
        &mut usage.pages,
        &mut usage.disk_read_bytes,
        &mut usage.disk_write_bytes,
    ] {
        stat.average = stat.total / tasks;
    }
    usage.rss_kib.total = rss_total;
    usage.rss_kib.average = rss_total / tasks;
    usage
}

fn merge(stat: &mut UsageStat, value: u64, node: &str, task: u32) {
    if stat.max_node.is_empty() || value > stat.max {
        stat.max = value;
        stat.max_node = node.to_owned();
        stat.max_task = task;
    }
    if stat.min_node.is_empty() || value < stat.min {
        stat.min = value;
        stat.min_node = node.to_owned();
        stat.min_task = task;
    }
    stat.total += value;
}

/// Protocol version shown in `sacctmgr show cluster`: that of the Slurm release whose behaviour is followed (25.11).
const RPC_VERSION: u32 = 11_264;

/// What the cluster is, for its row in the database.
#[must_use]
pub fn cluster_registration(
    cluster: &Cluster,
    time: UnixSeconds,
    control_host: String,
    control_port: u32,
) -> ClusterRegistration {
    let mut tres = sluice_model::tres::Tres::new();
    for node in cluster.nodes.iter().filter(|node| node.configured) {
        tres.add(&view::node_tres(node));
        tres.add_to(sluice_model::tres::TresKind::Node, 1);
    }
    // What is tracked has an id in the database even where there is none of it, in the order of AccountingStorageTRES.
    for kind in &cluster.config.accounting.tres {
        let name = kind.to_string();
        if !name.contains('/') || name.starts_with("fs/") {
            continue;
        }
        let licenses = cluster.config.licenses.iter();
        let count = licenses
            .filter(|license| name == format!("license/{}", license.name))
            .map(|license| u64::from(license.count))
            .sum();
        tres.add_to(kind.clone(), count);
    }
    let names = cluster
        .nodes
        .iter()
        .filter(|node| node.configured)
        .map(|node| node.config.name.clone());
    ClusterRegistration {
        time,
        control_host,
        control_port,
        rpc_version: RPC_VERSION,
        tres: stored_tres(&tres),
        node_list: collapse_hostlist(names),
    }
}
