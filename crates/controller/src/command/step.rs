//! Creating steps inside an allocation: which nodes, how many tasks on each, which CPUs, memory and GRES.
//!
//! Sources: `srun(1)`, agent reference 5 and 6. Without `--exact` a step takes all CPUs and memory of its nodes; `--overlap` steps and
//! the batch, extern and interactive steps take nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_config::ConsumableUnit;
use sluice_model::error_code::ErrorCode;
use sluice_model::gres::GresRequest;
use sluice_model::hostlist::parse_hostlist;
use sluice_model::ids::{JobId, StepId};
use sluice_model::job::GresAllocation;
use sluice_model::launch::{AgentOrder, StepUsage};
use sluice_model::memory::MemoryMib;
use sluice_model::state::{JobState, JobStateFlags};
use sluice_model::step::{StepDescription, StepLayout, StepNode};

use super::step_distribution::{assign_ranks, count_tasks};
use super::{Caller, Rejection};
use crate::cluster::{Cluster, Job, NodeAllocation, NodePhase, Step, StepNodeState};
use crate::event::Event;
use crate::launch;
use crate::transaction::Transaction;

/// Answer to a step's creation.
#[derive(Debug, Clone, PartialEq)]
pub struct CreatedStep {
    /// Job record.
    pub job_id: JobId,
    /// Step.
    pub step_id: StepId,
    /// Layout.
    pub layout: StepLayout,
    /// Tasks in all.
    pub num_tasks: u32,
    /// CPUs of one task.
    pub cpus_per_task: u32,
}

/// Creates and launches a step. A retried request (same key) gets the step it got before.
///
/// # Errors
/// Nodes busy (2016) when other steps hold what it needs: ask again later. Other codes are final.
pub fn create(
    transaction: &mut Transaction<'_>,
    description: StepDescription,
    environment: Option<Arc<Vec<u8>>>,
    caller: &Caller,
) -> Result<CreatedStep, Rejection> {
    let id = JobId(description.job_id);
    let job = transaction
        .cluster
        .job(id)
        .cloned()
        .ok_or(ErrorCode::InvalidJobId)?;
    if job.request.uid != caller.uid && caller.uid != 0 {
        return Err(ErrorCode::AccessDenied.into());
    }
    if !description.submission_key.is_empty()
        && let Some(step) = job
            .steps
            .values()
            .find(|s| s.request.submission_key == description.submission_key)
    {
        return Ok(created(&job, step));
    }
    check_state(&job)?;
    if job.next_step_id >= transaction.cluster.config.jobs.max_step_count {
        return Err(ErrorCode::StepLimit.into());
    }
    let candidates = candidate_nodes(&job, &description)?;
    let plan = lay_out(transaction.cluster, &job, &description, &candidates)?;
    let step_id = if description.interactive {
        StepId::Interactive
    } else {
        StepId::Num(job.next_step_id)
    };
    if job
        .steps
        .get(&step_id)
        .is_some_and(|step| step.end_time.is_none())
    {
        return Err(ErrorCode::StepExists.into());
    }
    let nodes = plan
        .nodes
        .iter()
        .map(|(index, _)| StepNodeState {
            node: *index,
            started: false,
            ended: None,
            launch_error: None,
            usage: StepUsage::default(),
        })
        .collect();
    let layout = StepLayout {
        nodes: plan.nodes.into_iter().map(|(_, node)| node).collect(),
    };
    let mut request = description;
    request.environment = Vec::new();
    let step = Step {
        id: step_id,
        environment,
        num_cpus: layout
            .nodes
            .iter()
            .map(|node| node.cpu_ids.len() as u32)
            .sum(),
        num_tasks: plan.num_tasks,
        cpus_per_task: plan.cpus_per_task,
        overlap: request.overlap || request.interactive,
        nodes,
        layout: Arc::new(layout),
        request: Arc::new(request),
        start_time: transaction.now,
        end_time: None,
        state: JobState::Running,
        exit_status: Default::default(),
        kill_requester: None,
    };
    let answer = created(&job, &step);
    transaction.emit(Event::StepCreated {
        job_id: id,
        step: Box::new(step),
    });
    send_launches(transaction, id, step_id);
    Ok(answer)
}

pub(super) fn send_launches(transaction: &mut Transaction<'_>, id: JobId, step_id: StepId) {
    let Some(job) = transaction.cluster.job(id).cloned() else {
        return;
    };
    let Some(step) = job.steps.get(&step_id) else {
        return;
    };
    for (at, layout) in step.layout.nodes.iter().enumerate() {
        if let Some(order) = launch::step_order(transaction.cluster, &job, step, at) {
            transaction.order(&layout.node, order);
        }
    }
}

/// Lets one more command follow a running step's streams.
///
/// # Errors
/// Unknown job or step; not the caller's; not running.
pub fn attach(
    transaction: &mut Transaction<'_>,
    id: JobId,
    step_id: StepId,
    address: &str,
    secret: &str,
    caller: &Caller,
) -> Result<(), Rejection> {
    let job = transaction
        .cluster
        .job(id)
        .cloned()
        .ok_or(ErrorCode::InvalidJobId)?;
    // Who attaches writes into the tasks: that is for the owner and root, as starting a step is.
    if job.request.uid != caller.uid && caller.uid != 0 {
        return Err(ErrorCode::AccessDenied.into());
    }
    let step = job
        .steps
        .get(&step_id)
        .filter(|step| step.end_time.is_none())
        .ok_or(ErrorCode::InvalidJobId)?;
    for (state, layout) in step.nodes.iter().zip(&step.layout.nodes) {
        if state.ended.is_none() {
            transaction.order(
                &layout.node,
                AgentOrder::AttachStep {
                    job_id: id,
                    step_id,
                    address: address.to_owned(),
                    secret: secret.to_owned(),
                },
            );
        }
    }
    Ok(())
}

fn created(job: &Job, step: &Step) -> CreatedStep {
    CreatedStep {
        job_id: job.id,
        step_id: step.id,
        layout: (*step.layout).clone(),
        num_tasks: step.num_tasks,
        cpus_per_task: step.cpus_per_task,
    }
}

fn check_state(job: &Job) -> Result<(), Rejection> {
    if job.state.is_finished() {
        return Err(ErrorCode::AlreadyDone.into());
    }
    match job.state.base {
        JobState::Running if job.state.flags.contains(JobStateFlags::CONFIGURING) => Ok(()),
        JobState::Running => Ok(()),
        JobState::Suspended => Err(ErrorCode::JobSuspended.into()),
        _ => Err(ErrorCode::JobPending.into()),
    }
}

/// Nodes of the job that the step may use, in order.
fn candidate_nodes<'a>(
    job: &'a Job,
    step: &StepDescription,
) -> Result<Vec<&'a NodeAllocation>, Rejection> {
    let Some(allocation) = &job.allocation else {
        return Err(ErrorCode::JobPending.into());
    };
    let names = |text: &Option<String>| -> Result<Vec<String>, Rejection> {
        match text.as_deref().filter(|text| !text.is_empty()) {
            Some(text) => {
                parse_hostlist(text).map_err(|_| Rejection::new(ErrorCode::InvalidNodeName))
            }
            None => Ok(Vec::new()),
        }
    };
    let required = names(&step.required_nodes)?;
    let excluded = names(&step.excluded_nodes)?;
    let mut nodes: Vec<&NodeAllocation> = allocation
        .nodes
        .iter()
        .filter(|part| part.phase < NodePhase::Ending && !excluded.contains(&part.name))
        .collect();
    if let Some(relative) = step.relative_node {
        if relative as usize >= nodes.len() {
            return Err(ErrorCode::InvalidNodeCount.into());
        }
        nodes.drain(..relative as usize);
    }
    for name in &required {
        if !nodes.iter().any(|part| part.name == *name) {
            return Err(ErrorCode::RequestedNodeConfigUnavailable.into());
        }
    }
    // Required nodes come first, so that a count smaller than the allocation keeps them.
    nodes.sort_by_key(|part| !required.contains(&part.name));
    Ok(nodes)
}

struct Plan {
    nodes: Vec<(crate::cluster::NodeIndex, StepNode)>,
    num_tasks: u32,
    cpus_per_task: u32,
}

/// What is free for a step on one node of the job.
struct Room<'a> {
    part: &'a NodeAllocation,
    /// CPUs of a core, where cores are what is given; 1 = any CPU.
    threads: u32,
    cpus: Vec<u32>,
    memory: MemoryMib,
    gres: Vec<GresAllocation>,
}

fn lay_out(
    cluster: &Cluster,
    job: &Job,
    step: &StepDescription,
    nodes: &[&NodeAllocation],
) -> Result<Plan, Rejection> {
    let cpus_per_task = step.cpus_per_task.unwrap_or(1).max(1);
    if !step.options.host_list.is_empty() {
        return arbitrary(cluster, job, step, nodes, cpus_per_task);
    }
    let wanted_nodes = step.max_nodes.or(step.min_nodes);
    if step.min_nodes.is_some_and(|min| min as usize > nodes.len()) {
        return Err(ErrorCode::InvalidNodeCount.into());
    }
    let mut count = wanted_nodes
        .map_or(nodes.len(), |n| (n as usize).min(nodes.len()))
        .max(1);
    let per_node = step.ntasks_per_node;
    let num_tasks = step
        .ntasks
        .unwrap_or_else(|| count as u32 * per_node.unwrap_or(1))
        .max(1);
    count = count.min(num_tasks as usize);
    // Any node of the allocation will do; those with room come first when not all are needed.
    let mut rooms: Vec<Room<'_>> = nodes
        .iter()
        .map(|part| room(cluster, job, step, part))
        .collect();
    let capacity = |room: &Room<'_>| {
        let by_cpus = if step.overcommit {
            u32::MAX
        } else {
            room.cpus.len() as u32 / cpus_per_task
        };
        per_node.map_or(by_cpus, |max| by_cpus.min(max))
    };
    if wanted_nodes.is_none() && count < rooms.len() && !step.overcommit {
        // Fewer nodes only if they hold all tasks.
        let held: u64 = rooms
            .iter()
            .take(count)
            .map(|room| u64::from(capacity(room)))
            .sum();
        if held < u64::from(num_tasks) {
            count = rooms.len();
        }
    }
    if count < rooms.len() && step.relative_node.is_none() && step.required_nodes.is_none() {
        rooms.sort_by_key(|room| std::cmp::Reverse(capacity(room).min(1)));
    }
    rooms.truncate(count);
    let total_if_alone: u64 = rooms
        .iter()
        .map(|room| {
            if step.overcommit {
                u64::MAX / 1024
            } else {
                (room.part.cpu_ids.len() as u32 / cpus_per_task).into()
            }
        })
        .sum();
    if total_if_alone < u64::from(num_tasks) {
        return Err(ErrorCode::TooManyRequestedCpus.into());
    }
    let capacities: Vec<u32> = rooms.iter().map(capacity).collect();
    if let Some(per_node) = per_node
        && u64::from(per_node) * (count as u64) < u64::from(num_tasks)
    {
        return Err(ErrorCode::RequestedNodeConfigUnavailable.into());
    }
    let way = step.distribution.as_deref();
    let pack = cluster.config.scheduling.select.pack_nodes;
    let counts = count_tasks(way, pack, num_tasks, &capacities).ok_or(ErrorCode::NodesBusy)?;
    let ranks = assign_ranks(way, num_tasks, &counts);
    place(cluster, job, step, &rooms, ranks, num_tasks, cpus_per_task)
}

/// The layout of `--distribution=arbitrary`: every rank on the node the list says.
fn arbitrary(
    cluster: &Cluster,
    job: &Job,
    step: &StepDescription,
    nodes: &[&NodeAllocation],
    cpus_per_task: u32,
) -> Result<Plan, Rejection> {
    let list = &step.options.host_list;
    let num_tasks = step.ntasks.unwrap_or(list.len() as u32).max(1);
    if num_tasks as usize > list.len() {
        return Err(ErrorCode::InvalidNodeCount.into());
    }
    let mut rooms: Vec<Room<'_>> = Vec::new();
    let mut ranks: Vec<Vec<u32>> = Vec::new();
    for (rank, name) in (0..num_tasks).zip(list) {
        let at = match rooms.iter().position(|room| room.part.name == *name) {
            Some(at) => at,
            None => {
                let part = nodes
                    .iter()
                    .find(|part| part.name == *name)
                    .ok_or(ErrorCode::RequestedNodeConfigUnavailable)?;
                rooms.push(room(cluster, job, step, part));
                ranks.push(Vec::new());
                rooms.len() - 1
            }
        };
        ranks[at].push(rank);
    }
    for (room, ranks) in rooms.iter().zip(&ranks) {
        let needed = ranks.len() * cpus_per_task as usize;
        if !step.overcommit && needed > room.part.cpu_ids.len() {
            return Err(ErrorCode::TooManyRequestedCpus.into());
        }
        if !step.overcommit && needed > room.cpus.len() {
            return Err(ErrorCode::NodesBusy.into());
        }
    }
    place(cluster, job, step, &rooms, ranks, num_tasks, cpus_per_task)
}

/// Gives every node with tasks its CPUs, memory and GRES.
fn place(
    cluster: &Cluster,
    job: &Job,
    step: &StepDescription,
    rooms: &[Room<'_>],
    ranks: Vec<Vec<u32>>,
    num_tasks: u32,
    cpus_per_task: u32,
) -> Result<Plan, Rejection> {
    let mut placed = Vec::new();
    let mut gres_left: BTreeMap<(String, Option<String>), u64> = step
        .gres_per_step
        .iter()
        .map(|g| ((g.name.clone(), g.type_name.clone()), g.count))
        .collect();
    for (room, task_ids) in rooms.iter().zip(ranks) {
        let count = task_ids.len() as u32;
        if count == 0 {
            continue;
        }
        let exact = step.exact || step.overlap && step.cpus_per_task.is_some();
        let mut cpu_ids = room.cpus.clone();
        if exact && !step.overcommit {
            let wanted = (count * cpus_per_task).next_multiple_of(room.threads);
            cpu_ids.truncate(wanted as usize);
        }
        let memory = step_memory(job, step, room, &cpu_ids);
        let counts = cluster.config.scheduling.select.memory;
        if counts && memory.0 > room.memory.0 {
            let alone = memory.0 <= room.part.memory.0;
            return Err(if alone {
                ErrorCode::NodesBusy
            } else {
                ErrorCode::InvalidTaskMemory
            }
            .into());
        }
        let gres = step_gres(job, step, room, count, &mut gres_left)?;
        placed.push((
            room.part.node,
            StepNode {
                node: room.part.name.clone(),
                task_ids,
                cpu_ids,
                memory,
                gres,
            },
        ));
    }
    if gres_left.values().any(|left| *left > 0) {
        return Err(ErrorCode::InvalidGres.into());
    }
    // Nodes are told apart by their position in the step: job order, not the order of choice.
    placed.sort_by_key(|(index, _)| *index);
    Ok(Plan {
        nodes: placed,
        num_tasks,
        cpus_per_task,
    })
}

/// What other steps leave on a node.
fn room<'a>(
    cluster: &Cluster,
    job: &Job,
    step: &StepDescription,
    part: &'a NodeAllocation,
) -> Room<'a> {
    let whole_cores = cluster.config.scheduling.select.unit != ConsumableUnit::Cpu;
    let node = cluster.node_named(&part.name).map(|(_, node)| node);
    let mut room = Room {
        part,
        threads: node
            .filter(|_| whole_cores)
            .map_or(1, |node| node.config.threads_per_core.max(1)),
        cpus: part.cpu_ids.clone(),
        memory: part.memory,
        gres: part.gres.clone(),
    };
    if step.overlap {
        return room;
    }
    for other in job
        .steps
        .values()
        .filter(|other| other.end_time.is_none() && !other.overlap)
    {
        let Some(at) = other
            .nodes
            .iter()
            .position(|state| state.node == part.node && state.ended.is_none())
        else {
            continue;
        };
        let Some(taken) = other.layout.nodes.get(at) else {
            continue;
        };
        room.cpus.retain(|cpu| !taken.cpu_ids.contains(cpu));
        room.memory = room.memory.saturating_sub(taken.memory);
        for used in &taken.gres {
            for mine in &mut room.gres {
                if mine.name == used.name && mine.type_name == used.type_name {
                    // Steps that share a GPU share it with each other too.
                    if !sluice_model::gres::shares_gpus(&mine.name) {
                        mine.indices.retain(|index| !used.indices.contains(index));
                    }
                    mine.count = mine.count.saturating_sub(used.count);
                }
            }
        }
    }
    room
}

fn step_memory(job: &Job, step: &StepDescription, room: &Room<'_>, cpu_ids: &[u32]) -> MemoryMib {
    if let Some(memory) = step.mem_per_node {
        return if memory.0 == 0 {
            room.part.memory
        } else {
            memory
        };
    }
    if let Some(per_cpu) = step.mem_per_cpu {
        return MemoryMib(per_cpu.0.saturating_mul(cpu_ids.len() as u64));
    }
    // An exact step takes its CPUs' share of a job that asked per CPU; any other takes what the node's part has.
    match job.request.mem_per_cpu {
        Some(per_cpu) if step.exact => MemoryMib(
            per_cpu
                .0
                .saturating_mul(cpu_ids.len() as u64)
                .min(room.part.memory.0),
        ),
        _ if step.exact => MemoryMib::ZERO,
        _ => room.memory,
    }
}

fn step_gres(
    job: &Job,
    step: &StepDescription,
    room: &Room<'_>,
    tasks: u32,
    left: &mut BTreeMap<(String, Option<String>), u64>,
) -> Result<Vec<GresAllocation>, Rejection> {
    let mut wanted: Vec<GresRequest> = step.gres_per_node.clone();
    for per_task in &step.gres_per_task {
        wanted.push(GresRequest {
            count: per_task.count * u64::from(tasks),
            ..per_task.clone()
        });
    }
    let mut given = Vec::new();
    if wanted.is_empty() && left.is_empty() {
        // Without a request of its own a step sees all the job asked for here; what --exclusive brought along it must ask for.
        let request = &job.request;
        let asked = [
            &request.gres_per_job,
            &request.gres_per_node,
            &request.gres_per_task,
            &request.gres_per_socket,
        ];
        let nothing = asked.iter().all(|list| list.is_empty());
        return Ok(if nothing {
            Vec::new()
        } else {
            room.part.gres.clone()
        });
    }
    for request in wanted
        .iter()
        .filter(|request| request.count > 0 && request.name != "none")
    {
        given.push(take_gres(room, request, request.count)?);
    }
    for ((name, type_name), missing) in left.iter_mut() {
        let available: u64 = room
            .gres
            .iter()
            .filter(|g| g.name == *name && (type_name.is_none() || g.type_name == *type_name))
            .map(|g| g.count)
            .sum();
        let take = available.min(*missing);
        if take > 0 {
            let request = GresRequest {
                name: name.clone(),
                type_name: type_name.clone(),
                count: take,
            };
            given.push(take_gres(room, &request, take)?);
            *missing -= take;
        }
    }
    Ok(given)
}

fn take_gres(
    room: &Room<'_>,
    request: &GresRequest,
    count: u64,
) -> Result<GresAllocation, Rejection> {
    let fits = |g: &&GresAllocation| {
        g.name == request.name && (request.type_name.is_none() || g.type_name == request.type_name)
    };
    let has_in_all: u64 = room.part.gres.iter().filter(fits).map(|g| g.count).sum();
    if has_in_all < count {
        return Err(ErrorCode::InvalidGres.into());
    }
    let mine = room
        .gres
        .iter()
        .filter(fits)
        .find(|g| g.count >= count)
        .ok_or(ErrorCode::NodesBusy)?;
    Ok(GresAllocation {
        name: mine.name.clone(),
        type_name: mine.type_name.clone(),
        count,
        indices: mine.indices.iter().copied().take(count as usize).collect(),
    })
}
