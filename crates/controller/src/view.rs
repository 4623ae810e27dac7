//! What can be read: job, step, node and partition records for the commands, made from a snapshot.
//!
//! Readers call these on a published snapshot; nothing here changes anything. Expected starts and reasons of waiting jobs come
//! from the last pass ([`Cluster::plan_notes`]).

use sluice_model::exit_status::WaitStatus;
use sluice_model::filename::{FilenameContext, expand_pattern};
use sluice_model::hostlist::collapse_hostlist;
use sluice_model::ids::StepId;
use sluice_model::job::{JobDescription, JobInfo, NodeAllocationInfo, PartitionPriority};
use sluice_model::memory::MemoryMib;
use sluice_model::node::{NodeGres, NodeInfo};
use sluice_model::node_state::{NodeState, NodeStateFlags};
use sluice_model::partition::PartitionInfo;
use sluice_model::reason::Reason;
use sluice_model::reservation::{
    PURGE_COMP_SECS, ReservationFlags, ReservationInfo, ReservedCores,
};
use sluice_model::sluid::Sluid;
use sluice_model::state::{JobState, JobStateFull};
use sluice_model::step::StepInfo;
use sluice_model::time::{TimeLimit, UnixSeconds};
use sluice_model::tres::{Tres, TresKind};

use crate::cluster::{
    AfterReboot, Cluster, DependencyStatus, Job, Node, NodeIndex, NodePhase, Partition,
    Reservation, Step,
};
use crate::command::tick::limit_end;
use crate::queue::eligibility;
use crate::schedule;
use crate::select;

/// A user name for a uid, as the shell knows it.
pub type UserNames<'a> = &'a dyn Fn(u32) -> Option<String>;

/// A job as the commands show it.
#[must_use]
pub fn job_info(cluster: &Cluster, job: &Job, now: UnixSeconds) -> JobInfo {
    let partition = cluster.partition(&job.partition);
    let normal = partition.and_then(|p| {
        select::ResourceRequest::new(&job.request, p, &cluster.config)
            .ok()
            .map(|n| (p, n))
    });
    let mut req_tres = normal
        .as_ref()
        .map(|(p, n)| select::tres::req_tres(cluster, n, p))
        .unwrap_or_default();
    let need = crate::license::need_of(job);
    if !need.any {
        add_licenses(cluster, &mut req_tres, &need.items);
    }
    let mut alloc_tres = job
        .allocation
        .as_ref()
        .filter(|_| !job.state.is_pending())
        .map(|a| select::tres::alloc_tres(cluster, &job.partition, a))
        .unwrap_or_default();
    if !alloc_tres.is_empty() {
        add_licenses(cluster, &mut alloc_tres, &job.licenses);
    }
    let holds = job
        .allocation
        .as_ref()
        .filter(|_| !job.state.is_pending() || job.state.is_completing());
    let nodes = holds
        .map(|a| collapse_hostlist(a.node_names()))
        .unwrap_or_default();
    let (reason, reason_text) = shown_reason(cluster, job, now);
    let note = cluster.plan_notes.get(&job.id).filter(|_| job.is_queued());
    let pending = job.state.is_pending();
    let time_limit = job
        .time_limit
        .or_else(|| partition.map(|p| schedule::time_limit_of(job, p)))
        .unwrap_or(TimeLimit::Unlimited);
    let start_time = if pending {
        note.and_then(|n| n.expected_start).or(job.begin_time)
    } else {
        job.start_time
    };
    let end_time = if pending {
        start_time.and_then(|start| {
            time_limit
                .seconds()
                .map(|limit| start.saturating_add(limit))
        })
    } else if job.state.is_finished() {
        job.end_time
    } else {
        limit_end(job)
    };
    let array = job.array.as_ref();
    let open: Vec<String> = job
        .dependency
        .terms
        .iter()
        .filter(|(_, status)| *status != DependencyStatus::Fulfilled)
        .map(|(term, status)| term.display_with(*status))
        .collect();
    let separator = if job.dependency.any { "?" } else { "," };
    let num_nodes = holds.map_or_else(
        || normal.as_ref().map_or(1, |(_, n)| n.min_nodes),
        |a| a.nodes.len() as u32,
    );
    JobInfo {
        job_id: job.id,
        array_job_id: array.map(|a| a.array_job_id),
        array_task_id: array.and_then(|a| a.task_id),
        array_task_string: array
            .filter(|a| a.task_id.is_none())
            .map(|a| a.pending.tasks.to_string()),
        array_max_tasks: array.map_or(0, |a| a.pending.throttle),
        description: shown_request(job, normal.as_ref().map(|(_, n)| n)),
        user_name: job.user_name.clone(),
        group_name: job.group_name.clone(),
        state: job.state,
        reason,
        reason_text,
        priority: cluster.priority_of(job),
        partition: if pending && !job.request.partitions.is_empty() {
            job.request.partitions.join(",")
        } else {
            job.partition.clone()
        },
        account: job.account.clone(),
        qos: job.qos.clone(),
        dependency: (!open.is_empty()).then(|| open.join(separator)),
        requeue: job.requeue,
        restarts: job.restarts,
        exit_status: shown_exit_status(job),
        derived_exit_status: job.derived_exit_status,
        time_limit,
        submit_time: job.submit_time,
        // A held job that is to begin later is eligible then at the earliest.
        eligible_time: job.eligible_time.or(job.begin_time),
        // Priority by age begins when the job could run.
        accrue_time: crate::priority::accrue_time(cluster, job).filter(|time| *time <= now),
        start_time,
        end_time,
        suspend_time: job.suspend_time,
        pre_suspend_secs: job.pre_suspend_secs,
        last_sched_eval: note.map(|n| n.evaluated).or(job.start_time),
        scheduler: job.scheduler.clone(),
        nodes,
        sched_nodes: note.and_then(|n| n.planned_nodes.clone()),
        batch_host: holds
            .and_then(|a| a.nodes.first())
            .map(|p| p.name.clone())
            .filter(|_| job.request.batch),
        failed_node: job.failed_node.clone(),
        num_nodes,
        num_cpus: holds.map_or_else(
            || normal.as_ref().map_or(1, |(_, n)| n.num_cpus()),
            |a| a.cpu_count(),
        ),
        num_tasks: normal.as_ref().map_or(1, |(_, n)| n.num_tasks()),
        req_tres,
        alloc_tres,
        allocation: holds
            .map(|a| {
                a.nodes
                    .iter()
                    .map(|p| NodeAllocationInfo {
                        node: p.name.clone(),
                        cpu_ids: p.cpu_ids.clone(),
                        memory: p.memory,
                        gres: p.gres.clone(),
                    })
                    .collect()
            })
            .unwrap_or_default(),
        completing_nodes: holds
            .map(|a| {
                a.nodes
                    .iter()
                    .filter(|p| p.phase == NodePhase::Ending)
                    .map(|p| p.name.clone())
                    .collect()
            })
            .unwrap_or_default(),
        next_step_id: job.next_step_id,
        kill_requester: job.kill_requester,
        std_out_path: file_path(cluster, job, job.request.std_out.as_deref()),
        std_err_path: file_path(cluster, job, job.request.std_err.as_deref()),
        std_in_path: file_path(cluster, job, job.request.std_in.as_deref()),
        admin_comment: job.admin_comment.clone(),
        system_comment: job.system_comment.clone(),
        het_job_id: job.het.map(|het| het.leader),
        het_job_offset: job.het.map(|het| het.offset),
        het_job_id_set: job.het.map(|het| het.id_set()),
        association_id: job.association.unwrap_or(0),
        priority_by_partition: priority_by_partition(cluster, job),
        licenses_allocated: holds.and_then(|_| crate::license::text(&job.licenses)),
    }
}

/// Licences count as TRES as far as accounting tracks them.
pub(crate) fn add_licenses(cluster: &Cluster, tres: &mut Tres, counts: &[(String, u64)]) {
    for (name, count) in counts {
        let kind = TresKind::License(name.clone());
        if cluster.config.accounting.tres.contains(&kind) {
            tres.set(kind, *count);
        }
    }
}

/// The exit status of a job that was ended while it ran is what its script ended with: 0:15 as a rule. Its record in accounting is
/// written before that and has none. What srun asked for ends as its step does.
fn shown_exit_status(job: &Job) -> WaitStatus {
    let cut_short = matches!(job.state.base, JobState::Cancelled | JobState::Timeout);
    // A job that went back to the queue and was cancelled there still has the steps of its former run.
    let ran = job.run_attempt == job.restarts;
    if !cut_short || !ran || !job.exit_status.is_success() {
        return job.exit_status;
    }
    match job.steps.get(&StepId::Batch) {
        Some(script) => script.exit_status,
        None if job.state.base == JobState::Cancelled => job.derived_exit_status,
        None => job.exit_status,
    }
}

/// The request with the memory that partition or cluster fill in, as `MinMemoryCPU=`/`MinMemoryNode=` show it.
fn shown_request(job: &Job, normal: Option<&select::ResourceRequest>) -> JobDescription {
    let mut request = JobDescription::clone(&job.request);
    // One that runs shows where it runs, also when it was drawn in or named several.
    if let Some(run) = job.reservation.as_ref().filter(|_| !job.state.is_pending()) {
        request.reservation = Some(run.name.clone());
    }
    let given = request.mem_per_node.is_some()
        || request.mem_per_cpu.is_some()
        || request.mem_per_gpu.is_some();
    if !given {
        match normal.map(|n| n.memory) {
            Some(select::MemoryRequest::PerCpu(memory)) => {
                request.mem_per_cpu = Some(MemoryMib(memory))
            }
            Some(select::MemoryRequest::PerNode(memory)) => {
                request.mem_per_node = Some(MemoryMib(memory))
            }
            Some(select::MemoryRequest::PerGpu(memory)) => {
                request.mem_per_gpu = Some(MemoryMib(memory))
            }
            Some(select::MemoryRequest::WholeNode) | None => {}
        }
    }
    request
}

/// The reason shown: of a hold or an end from the record, else what the last pass found.
pub(crate) fn shown_reason(
    cluster: &Cluster,
    job: &Job,
    now: UnixSeconds,
) -> (Reason, Option<String>) {
    if !job.state.is_pending() {
        return (job.reason, job.reason_text.clone());
    }
    if let Some(waiting) = eligibility::waits_for(cluster, job, now) {
        return waiting;
    }
    match cluster.plan_notes.get(&job.id) {
        Some(note) => (note.reason, note.text.clone()),
        None => (Reason::None, None),
    }
}

/// A file pattern of the batch script with its fields filled in, absolute.
#[must_use]
pub fn file_path(cluster: &Cluster, job: &Job, pattern: Option<&str>) -> String {
    let Some(pattern) = pattern.filter(|pattern| !pattern.is_empty()) else {
        return String::new();
    };
    let array = job.array.as_ref();
    let host = job
        .allocation
        .as_ref()
        .and_then(|a| a.nodes.first())
        .map(|p| p.name.clone())
        .unwrap_or_default();
    let sluid = if pattern.contains("%S") {
        Sluid::of(&cluster.config.cluster_name, job.submit_time, job.id).to_string()
    } else {
        String::new()
    };
    let context = FilenameContext {
        job_id: job.id.0,
        array_job_id: array.map(|a| a.array_job_id.0),
        array_task_id: array.and_then(|a| a.task_id),
        step_id: StepId::Batch.to_string(),
        node_name: host,
        node_index: 0,
        task_rank: 0,
        user: job.user_name.clone(),
        job_name: job.request.name.clone().unwrap_or_default(),
        restart_count: job.restarts,
        sluid,
    };
    let path = expand_pattern(pattern, &context);
    if path.starts_with('/') {
        path
    } else {
        format!("{}/{path}", job.request.work_dir.trim_end_matches('/'))
    }
}

/// Priorities of a waiting job that names several partitions; 0 where it is held.
fn priority_by_partition(cluster: &Cluster, job: &Job) -> Vec<PartitionPriority> {
    if !job.state.is_pending() || job.request.partitions.len() < 2 {
        return Vec::new();
    }
    let priority = |name: &str| match job.priority {
        0 => 0,
        _ => u32::try_from(cluster.standing_in(job, name).max(1)).unwrap_or(u32::MAX),
    };
    let names = job.request.partitions.iter();
    names
        .map(|name| PartitionPriority {
            partition: name.clone(),
            priority: priority(name),
        })
        .collect()
}

/// A step as the commands show it.
#[must_use]
pub fn step_info(job: &Job, step: &Step) -> StepInfo {
    let names: Vec<&str> = step
        .layout
        .nodes
        .iter()
        .map(|node| node.node.as_str())
        .collect();
    let array = job.array.as_ref();
    StepInfo {
        job_id: job.id,
        submit_time: job.submit_time,
        array_job_id: array.map(|a| a.array_job_id),
        array_task_id: array.and_then(|a| a.task_id),
        step_id: step.id,
        name: step.request.name.clone(),
        uid: job.request.uid,
        user_name: job.user_name.clone(),
        partition: job.partition.clone(),
        state: JobStateFull::new(step.state),
        start_time: step.start_time,
        end_time: step.end_time,
        time_limit: step.request.time_limit.unwrap_or(TimeLimit::Unlimited),
        nodes: collapse_hostlist(&names),
        num_nodes: names.len() as u32,
        num_cpus: if step.id == StepId::Batch {
            0
        } else {
            step.num_cpus
        },
        num_tasks: step.num_tasks,
        tres: if step.id == StepId::Batch {
            Tres::new()
        } else {
            step_tres(step)
        },
        srun_host: step.request.srun_host.clone(),
        srun_pid: step.request.srun_pid,
        exit_status: step.exit_status,
        distribution: match crate::launch::default_distribution(step) {
            "block" => "Block".to_owned(),
            _ => "Cyclic".to_owned(),
        },
        layout: (*step.layout).clone(),
    }
}

/// TRES a step holds.
#[must_use]
pub fn step_tres(step: &Step) -> Tres {
    let mut tres = Tres::new();
    tres.set(TresKind::Cpu, u64::from(step.num_cpus));
    let memory: u64 = step.layout.nodes.iter().map(|node| node.memory.0).sum();
    if memory > 0 {
        tres.set(TresKind::Mem, memory);
    }
    tres.set(TresKind::Node, step.layout.nodes.len() as u64);
    for gres in step.layout.nodes.iter().flat_map(|node| &node.gres) {
        tres.add_to(TresKind::gres(&gres.name, None), gres.count);
        if gres.type_name.is_some() {
            tres.add_to(
                TresKind::gres(&gres.name, gres.type_name.as_deref()),
                gres.count,
            );
        }
    }
    tres
}

/// TRES of a node as configured.
#[must_use]
pub fn node_tres(node: &Node) -> Tres {
    let mut tres = Tres::new();
    tres.set(TresKind::Cpu, u64::from(node.config.cpus));
    tres.set(TresKind::Mem, node.config.real_memory.0);
    tres.set(TresKind::Billing, u64::from(node.config.cpus));
    for gres in &node.gres {
        tres.add_to(TresKind::gres(&gres.name, None), gres.count);
        if gres.type_name.is_some() {
            tres.add_to(
                TresKind::gres(&gres.name, gres.type_name.as_deref()),
                gres.count,
            );
        }
    }
    tres
}

/// A node as the commands show it.
#[must_use]
pub fn node_info(
    cluster: &Cluster,
    index: NodeIndex,
    node: &Node,
    user_name: UserNames<'_>,
) -> NodeInfo {
    let config = &node.config;
    let hardware = node.hardware.as_deref();
    let load = cluster.loads.get(&index);
    let used_cpus = if node.whole_node_job.is_some() {
        config.cpus
    } else {
        node.used_cpu_count()
    };
    let mut alloc_tres = Tres::new();
    if used_cpus > 0 {
        alloc_tres.set(TresKind::Cpu, u64::from(used_cpus));
        if node.used_memory > MemoryMib::ZERO {
            alloc_tres.set(TresKind::Mem, node.used_memory.0);
        }
    }
    for gres in node.gres.iter().filter(|gres| gres.used_count > 0) {
        alloc_tres.add_to(TresKind::gres(&gres.name, None), gres.used_count);
        if gres.type_name.is_some() {
            alloc_tres.add_to(
                TresKind::gres(&gres.name, gres.type_name.as_deref()),
                gres.used_count,
            );
        }
    }
    let mut state = node.shown_state();
    // Planned for a waiting job: shown on nodes with room (scheduling reference 11).
    let has_room = state.is_schedulable() && state.base != NodeState::Allocated;
    if cluster.is_planned(&config.name) && has_room {
        state.flags.insert(NodeStateFlags::PLANNED);
    }
    let reserved_by = crate::reservation::shown_on(cluster, &config.name);
    if let Some(reservation) = reserved_by {
        state
            .flags
            .insert(if reservation.is(ReservationFlags::MAINT) {
                NodeStateFlags::MAINT
            } else {
                NodeStateFlags::RES
            });
    }
    NodeInfo {
        name: config.name.clone(),
        hostname: config.hostname.clone(),
        address: config.addr.clone(),
        port: config.port,
        state,
        reason: node.reason.clone(),
        reason_user: node
            .reason_uid
            .map(|uid| user_name(uid).unwrap_or_else(|| uid.to_string())),
        reason_uid: node.reason_uid,
        reason_time: node.reason_time,
        cpus: config.cpus,
        cpus_effective: config
            .cpus
            .saturating_sub(config.core_spec_count * config.threads_per_core),
        alloc_cpus: used_cpus,
        boards: config.boards,
        sockets: config.sockets,
        cores_per_socket: config.cores_per_socket,
        threads_per_core: config.threads_per_core,
        real_memory: config.real_memory,
        alloc_memory: node.used_memory,
        free_memory: load.map(|l| l.free_memory),
        cpu_load_centi: load.map(|l| l.cpu_load_centi),
        tmp_disk_mib: config.tmp_disk_mib,
        weight: node.effective_weight(),
        features: node
            .features
            .clone()
            .unwrap_or_else(|| config.features.clone()),
        active_features: node.effective_features().to_vec(),
        gres: node
            .gres
            .iter()
            .map(|gres| NodeGres {
                name: gres.name.clone(),
                type_name: gres.type_name.clone(),
                count: gres.count,
                used: gres.used_count,
                used_indices: gres
                    .used
                    .iter()
                    .enumerate()
                    .filter(|(_, used)| **used)
                    .map(|(at, _)| gres.first_index + at as u32)
                    .collect(),
            })
            .collect(),
        partitions: cluster
            .partitions
            .iter()
            .filter(|p| p.nodes.binary_search(&index).is_ok())
            .map(|p| p.config.name.clone())
            .collect(),
        arch: hardware.map(|h| h.arch.clone()),
        os: hardware.map(|h| h.os.clone()),
        version: hardware.map(|h| h.version.clone()),
        boot_time: hardware.map(|h| h.boot_time),
        agent_start_time: hardware.map(|h| h.agent_start_time),
        last_busy_time: node.last_busy.or(node.registered),
        last_response_time: cluster.last_heard.get(&index).copied(),
        cfg_tres: node_tres(node),
        alloc_tres,
        owner_uid: None,
        comment: node.comment.clone(),
        jobs: node.jobs.iter().map(|id| id.0).collect(),
        extra: node.manual.extra.clone(),
        cpu_bind: config.cpu_bind.clone().filter(|mode| mode != "off"),
        instance_id: node.manual.instance_id.clone(),
        instance_type: node.manual.instance_type.clone(),
        topology: config.topology.clone(),
        next_state: node
            .manual
            .reboot
            .as_ref()
            .and_then(|reboot| reboot.next_state)
            .map(|next| match next {
                AfterReboot::Resume => "RESUME".to_owned(),
                AfterReboot::Down => "DOWN".to_owned(),
            }),
        resume_after_time: node.manual.resume_after,
        reservation: reserved_by.map(|reservation| reservation.name.clone()),
    }
}

fn some(memory: Option<MemoryMib>, default: MemoryMib) -> Option<MemoryMib> {
    Some(memory.unwrap_or(default)).filter(|m| *m > MemoryMib::ZERO)
}

/// A partition as the commands show it.
#[must_use]
pub fn partition_info(cluster: &Cluster, partition: &Partition) -> PartitionInfo {
    let config = &partition.config;
    let nodes = partition
        .nodes
        .iter()
        .filter_map(|index| cluster.node(*index));
    let mut tres = Tres::new();
    let mut cpus = 0;
    for node in nodes {
        tres.add(&node_tres(node));
        tres.add_to(TresKind::Node, 1);
        cpus += node.config.cpus;
    }
    add_tracked_licenses(cluster, &mut tres);
    let memory = &cluster.config.scheduling.memory;
    PartitionInfo {
        name: config.name.clone(),
        state: config.state,
        is_default: config.default,
        hidden: config.hidden,
        nodes: collapse_hostlist(&config.nodes),
        node_sets: None,
        total_nodes: partition.nodes.len() as u32,
        total_cpus: cpus,
        allow_groups: config.allow_groups.clone().unwrap_or_default(),
        allow_accounts: config.allow_accounts.clone().unwrap_or_default(),
        deny_accounts: config.deny_accounts.clone(),
        allow_qos: config.allow_qos.clone().unwrap_or_default(),
        deny_qos: config.deny_qos.clone(),
        alloc_nodes: config
            .alloc_nodes
            .clone()
            .map(|nodes| collapse_hostlist(&nodes))
            .unwrap_or_default(),
        alternate: config.alternate.clone(),
        qos: config.qos.clone(),
        default_time: config.default_time,
        max_time: Some(config.max_time),
        min_nodes: config.min_nodes,
        max_nodes: config.max_nodes,
        max_cpus_per_node: config.max_cpus_per_node,
        max_cpus_per_socket: config.max_cpus_per_socket,
        disable_root_jobs: config.disable_root_jobs,
        root_only: config.root_only,
        req_resv: config.req_resv,
        lln: config.lln,
        exclusive: partition_words::exclusive(config),
        over_subscribe: partition_words::oversubscribe(config),
        over_time_limit: config.over_time_limit,
        grace_time_secs: config.grace_time_secs,
        preempt_mode: partition_words::preempt_mode(cluster, config),
        priority_job_factor: config.priority_job_factor,
        priority_tier: config.priority_tier,
        select_type_parameters: partition_words::select(config),
        job_defaults: partition_words::job_defaults(config),
        def_mem_per_cpu: some(config.def_mem_per_cpu, MemoryMib::ZERO),
        def_mem_per_node: some(config.def_mem_per_node, MemoryMib::ZERO),
        max_mem_per_cpu: some(config.max_mem_per_cpu, memory.max_mem_per_cpu),
        max_mem_per_node: some(config.max_mem_per_node, memory.max_mem_per_node),
        tres,
        tres_billing_weights: partition_words::billing_weights(config),
    }
}

/// A reservation as the commands show it.
#[must_use]
pub fn reservation_info(
    cluster: &Cluster,
    reservation: &Reservation,
    now: UnixSeconds,
) -> ReservationInfo {
    let names: Vec<&str> = reservation
        .nodes
        .iter()
        .map(|reserved| reserved.name.as_str())
        .collect();
    let cores = reservation
        .nodes
        .iter()
        .filter(|reserved| !reserved.is_whole())
        .filter_map(|reserved| {
            let (_, node) = cluster.node_named(&reserved.name)?;
            Some(ReservedCores {
                node: reserved.name.clone(),
                cores: crate::reservation::cores::text(node, &reserved.cpus),
            })
        })
        .collect();
    let cpus: u32 = reservation
        .nodes
        .iter()
        .filter_map(|reserved| {
            let (_, node) = cluster.node_named(&reserved.name)?;
            Some(if reserved.is_whole() {
                node.cpu_count()
            } else {
                reserved.cpus.len() as u32
            })
        })
        .sum();
    let mut tres = Tres::new();
    if cpus > 0 {
        tres.set(TresKind::Cpu, u64::from(cpus));
    }
    add_licenses(cluster, &mut tres, &reservation.licenses);
    ReservationInfo {
        name: reservation.name.clone(),
        id: reservation.id,
        start_time: reservation.start_at(now),
        end_time: reservation.end_at(now),
        active: reservation.is_active(now),
        flags: reservation.flags.0,
        purge_comp_secs: reservation.purge_comp_secs.unwrap_or(PURGE_COMP_SECS),
        nodes: collapse_hostlist(&names),
        node_count: names.len() as u32,
        core_count: reservation.core_count,
        cores,
        features: reservation.features.clone(),
        partition: reservation.partition.clone(),
        tres: (!tres.is_empty()).then(|| tres.to_string()),
        allowed_partitions: reservation.allowed_partitions.shown(),
        qos: reservation.qos.shown(),
        users: reservation.users.shown(),
        groups: reservation.groups.shown(),
        accounts: reservation.accounts.shown(),
        licenses: crate::license::text(&reservation.licenses),
        burst_buffer: reservation.burst_buffer.clone(),
        max_start_delay: reservation.max_start_delay,
        comment: reservation.comment.clone(),
    }
}

/// Licences belong to every partition, as far as accounting tracks them.
fn add_tracked_licenses(cluster: &Cluster, tres: &mut Tres) {
    for license in &cluster.config.licenses {
        let kind = TresKind::License(license.name.clone());
        if cluster.config.accounting.tres.contains(&kind) {
            tres.set(kind, u64::from(license.count));
        }
    }
}

/// Words that `scontrol show partition` uses for settings.
mod partition_words {
    use sluice_config::{ConsumableUnit, Exclusive, OverSubscribe, PartitionConfig};

    use crate::cluster::Cluster;

    pub(super) fn exclusive(config: &PartitionConfig) -> String {
        match config.exclusive {
            Exclusive::No => "NO",
            Exclusive::Node => "NODE",
            Exclusive::User => "USER",
            Exclusive::Topo => "TOPO",
        }
        .to_owned()
    }

    pub(super) fn oversubscribe(config: &PartitionConfig) -> String {
        match config.oversubscribe {
            OverSubscribe::No => "NO".to_owned(),
            OverSubscribe::Exclusive => "EXCLUSIVE".to_owned(),
            OverSubscribe::Yes(n) => format!("YES:{n}"),
            OverSubscribe::Force(n) => format!("FORCE:{n}"),
        }
    }

    pub(super) fn preempt_mode(cluster: &Cluster, config: &PartitionConfig) -> String {
        let own = config.preempt_mode.as_ref().and_then(|mode| mode.mode);
        let preempt = &cluster.config.preempt;
        let mode = own.unwrap_or(preempt.mode).as_str().to_owned();
        if own.is_none() && preempt.gang {
            format!("GANG,{mode}")
        } else {
            mode
        }
    }

    pub(super) fn select(config: &PartitionConfig) -> String {
        match config.select {
            None => "NONE".to_owned(),
            Some((unit, memory)) => {
                let unit = match unit {
                    ConsumableUnit::Cpu => "CR_CPU",
                    ConsumableUnit::Core => "CR_CORE",
                    ConsumableUnit::Socket => "CR_SOCKET",
                    ConsumableUnit::Node => "CR_MEMORY",
                };
                format!("{unit}{}", if memory { "_MEMORY" } else { "" })
            }
        }
    }

    pub(super) fn job_defaults(config: &PartitionConfig) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(cpus) = config.def_cpu_per_gpu {
            parts.push(format!("DefCpuPerGPU={cpus}"));
        }
        if let Some(memory) = config.def_mem_per_gpu {
            parts.push(format!("DefMemPerGPU={}", memory.0));
        }
        (!parts.is_empty()).then(|| parts.join(","))
    }

    pub(super) fn billing_weights(config: &PartitionConfig) -> Option<String> {
        let raw = config
            .raw
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case("TRESBillingWeights"));
        raw.map(|(_, value)| value.clone())
    }
}
