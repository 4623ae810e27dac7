//! The plan checker and the recount of what is in use: proofs, written apart from the planner, that nothing is given twice.
//!
//! For tests, the simulator and debug runs of the controller; never changes anything. Times in seconds, memory in MiB.
//! Invariant: an empty list means that every rule below held.

mod heads;
mod recount;
mod reserved;

use std::collections::{BTreeMap, BTreeSet};

use sluice_model::gres::shares_gpus;
use sluice_model::ids::JobId;
use sluice_model::job::Exclusive;
use sluice_model::state::JobState;
use sluice_model::time::UnixSeconds;

use crate::cluster::{Allocation, Cluster, GresState, NodeAllocation, NodePhase};
use crate::plan::{Plan, PlannedStart};
use crate::schedule::time_limit_of;
use crate::select::constraint::Constraint;
use crate::select::policy::node_shape;
use crate::select::request::gpu_count;
use crate::select::sharing::{self, Owner};
use crate::select::{MemoryRequest, ResourceRequest};

pub use recount::recount;

/// A rule that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The same CPU twice, or one that does not exist or is in use.
    #[error("node {node}: CPU {cpu} is given twice or does not exist ({who})")]
    Cpu {
        /// Node.
        node: String,
        /// CPU id.
        cpu: u32,
        /// To whom.
        who: String,
    },
    /// The same device twice, or one that does not exist or is in use.
    #[error("node {node}: device {index} of {gres} is given twice or does not exist ({who})")]
    Device {
        /// Node.
        node: String,
        /// GRES.
        gres: String,
        /// Index.
        index: u32,
        /// To whom.
        who: String,
    },
    /// More memory or units than there are.
    #[error("node {node}: {given} of {what} given, {there} there")]
    TooMuch {
        /// Node.
        node: String,
        /// Memory or a GRES.
        what: String,
        /// Given in all.
        given: u64,
        /// There.
        there: u64,
    },
    /// A node that takes no jobs, or is not in the partition, or is shared with a whole-node job.
    #[error("{who}: node {node} may not be used: {why}")]
    Node {
        /// Node.
        node: String,
        /// Job.
        who: String,
        /// Why.
        why: &'static str,
    },
    /// The placement is not what was asked for.
    #[error("{who}: {what}")]
    Request {
        /// Job.
        who: String,
        /// What is wrong.
        what: String,
    },
    /// More tasks of an array than its limit.
    #[error("array {array}: {running} tasks would run, its limit is {limit}")]
    Throttle {
        /// Array.
        array: JobId,
        /// Running with the plan.
        running: u32,
        /// Limit.
        limit: u32,
    },
    /// What is reserved for others, or is outside of the job's own reservation.
    #[error("{who}: {what} of node {node} is kept by a reservation")]
    Reserved {
        /// Job.
        who: String,
        /// The node, or CPUs of it.
        what: String,
        /// Node.
        node: String,
    },
    /// The job may not use its reservation, or it is not there.
    #[error("{who}: reservation {reservation} is not for it")]
    Reservation {
        /// Job.
        who: String,
        /// Number.
        reservation: u32,
    },
    /// More licences than there are, or others than were asked for.
    #[error("{who}: {given} of licence {license}, {there} there")]
    License {
        /// Job, or all of them.
        who: String,
        /// Licence.
        license: String,
        /// Given in all.
        given: u64,
        /// There.
        there: u64,
    },
    /// Backfill would delay the head of a queue.
    #[error("job {job}: backfill moves its start from {before} to {after}")]
    HeadDelayed {
        /// Head job.
        job: JobId,
        /// Start without the backfilled jobs.
        before: UnixSeconds,
        /// With them.
        after: UnixSeconds,
    },
    /// What a node says is in use is not what its jobs hold.
    #[error("node {node}: {what} in use is {counted} by its jobs, the node says {said}")]
    Count {
        /// Node.
        node: String,
        /// CPUs, memory, a GRES, jobs.
        what: String,
        /// By the jobs.
        counted: String,
        /// By the node.
        said: String,
    },
}

/// What is taken of one node.
#[derive(Default)]
struct Taken {
    cpus: BTreeSet<u32>,
    /// Jobs on each CPU that is shared, by the partition that shares it.
    shared: BTreeMap<(String, u32), u32>,
    /// Jobs that share CPUs here.
    sharers: u32,
    /// Whose jobs are here, and what they claim.
    tenants: Vec<(Option<Exclusive>, Owner)>,
    devices: BTreeSet<(String, u32)>,
    counted: BTreeMap<(String, Option<String>), u64>,
    /// GPUs of which somebody has units.
    shared_gpus: BTreeSet<u32>,
    memory: u64,
    jobs: u32,
    whole: bool,
}

/// Tests a plan against the state it was made from.
#[must_use]
pub fn check_plan(cluster: &Cluster, plan: &Plan, now: UnixSeconds) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut taken: BTreeMap<String, Taken> = BTreeMap::new();
    for id in &cluster.holding {
        let Some(job) = cluster.jobs.get(id) else {
            continue;
        };
        if let Some(allocation) = &job.allocation {
            let who = format!("running job {id}");
            let track = cluster.config.scheduling.select.memory;
            let owner = Owner::of(&job.request);
            add_allocation(
                cluster,
                &mut taken,
                (allocation, &owner),
                &who,
                track,
                &mut violations,
            );
        }
    }
    for start in &plan.starts {
        let who = match start.array_task {
            Some(task) => format!("job {}_{task}", start.job),
            None => format!("job {}", start.job),
        };
        let track = check_start(cluster, start, &who, &mut violations);
        let owner = cluster
            .job(start.job)
            .map(|job| Owner::of(&job.request))
            .unwrap_or_default();
        add_allocation(
            cluster,
            &mut taken,
            (&start.allocation, &owner),
            &who,
            track,
            &mut violations,
        );
    }
    for (name, taken) in &taken {
        check_amounts(cluster, name, taken, &mut violations);
    }
    check_duplicates(plan, &mut violations);
    check_throttles(cluster, plan, &mut violations);
    reserved::check(cluster, plan, now, &mut violations);
    heads::check_heads(cluster, plan, now, &mut violations);
    violations
}

fn add_allocation(
    cluster: &Cluster,
    taken: &mut BTreeMap<String, Taken>,
    (allocation, owner): (&Allocation, &Owner),
    who: &str,
    track_memory: bool,
    violations: &mut Vec<Violation>,
) {
    for part in allocation
        .nodes
        .iter()
        .filter(|part| part.phase != NodePhase::Released)
    {
        let cpus = cluster.node(part.node).map_or(0, |node| node.cpu_count());
        let entry = taken.entry(part.name.clone()).or_default();
        if entry.whole || (allocation.whole_nodes && entry.jobs > 0) {
            let why = "a job has the whole node";
            violations.push(Violation::Node {
                node: part.name.clone(),
                who: who.to_owned(),
                why,
            });
        }
        let mixed = if allocation.shared_in.is_some() {
            entry.jobs > entry.sharers
        } else {
            entry.sharers > 0
        };
        if mixed {
            violations.push(Violation::Node {
                node: part.name.clone(),
                who: who.to_owned(),
                why: "jobs that share CPUs and jobs that do not are on it",
            });
        }
        let parted = entry.tenants.iter().any(|(claim, other)| {
            [*claim, allocation.claim]
                .into_iter()
                .flatten()
                .any(|claim| !owner.agrees(claim, other))
        });
        if parted {
            violations.push(Violation::Node {
                node: part.name.clone(),
                who: who.to_owned(),
                why: "it serves one user or label at a time",
            });
        }
        entry.tenants.push((allocation.claim, owner.clone()));
        entry.jobs += 1;
        entry.sharers += u32::from(allocation.shared_in.is_some());
        entry.whole |= allocation.whole_nodes;
        for cpu in &part.cpu_ids {
            let full = match &allocation.shared_in {
                None => !entry.cpus.insert(*cpu),
                Some(partition) => {
                    entry.cpus.insert(*cpu);
                    let jobs = entry.shared.entry((partition.clone(), *cpu)).or_default();
                    *jobs += 1;
                    *jobs > sharing::jobs_per_cpu(cluster, partition)
                }
            };
            if *cpu >= cpus || full {
                violations.push(Violation::Cpu {
                    node: part.name.clone(),
                    cpu: *cpu,
                    who: who.to_owned(),
                });
            }
        }
        if track_memory {
            entry.memory += part.memory.0;
        }
        for given in &part.gres {
            let shared = shares_gpus(&given.name);
            if shared {
                entry.shared_gpus.extend(&given.indices);
            }
            if given.indices.is_empty() || shared {
                *entry
                    .counted
                    .entry((given.name.clone(), given.type_name.clone()))
                    .or_default() += given.count;
            }
            for index in given.indices.iter().filter(|_| !shared) {
                let known = device_type(cluster, part, &given.name, *index)
                    .is_some_and(|t| t == given.type_name);
                if !known || !entry.devices.insert((given.name.clone(), *index)) {
                    violations.push(Violation::Device {
                        node: part.name.clone(),
                        gres: given.name.clone(),
                        index: *index,
                        who: who.to_owned(),
                    });
                }
            }
        }
    }
}

/// Type of the device with this index of a GRES on a node; outer `None` = there is no such device.
fn device_type(
    cluster: &Cluster,
    part: &NodeAllocation,
    name: &str,
    index: u32,
) -> Option<Option<String>> {
    let node = cluster.node(part.node)?;
    let holds = |gres: &&GresState| {
        gres.name == name
            && index >= gres.first_index
            && u64::from(index - gres.first_index) < gres.used.len() as u64
    };
    node.gres
        .iter()
        .find(holds)
        .map(|gres| gres.type_name.clone())
}

fn check_amounts(cluster: &Cluster, name: &str, taken: &Taken, violations: &mut Vec<Violation>) {
    let Some((_, node)) = cluster.node_named(name) else {
        return;
    };
    let mut too_much = |what: String, given: u64, there: u64| {
        if given > there {
            violations.push(Violation::TooMuch {
                node: name.to_owned(),
                what,
                given,
                there,
            });
        }
    };
    for gpu in &taken.shared_gpus {
        let own = taken.devices.contains(&("gpu".to_owned(), *gpu));
        // Whole nodes have both; they are alone.
        if own && !taken.whole {
            too_much("GPU as its own and shared".to_owned(), 2, 1);
        }
    }
    too_much("memory".to_owned(), taken.memory, node.config.real_memory.0);
    for ((gres, type_name), given) in &taken.counted {
        too_much(
            gres.clone(),
            *given,
            node.config.gres_count(gres, type_name.as_deref()),
        );
    }
}

/// Tests one start; tells whether its memory counts.
fn check_start(
    cluster: &Cluster,
    start: &PlannedStart,
    who: &str,
    violations: &mut Vec<Violation>,
) -> bool {
    let mut wrong = |what: String| {
        violations.push(Violation::Request {
            who: who.to_owned(),
            what,
        })
    };
    let Some(job) = cluster.job(start.job) else {
        wrong("no such job".to_owned());
        return true;
    };
    if !job.is_queued() || job.priority == 0 {
        wrong("it does not wait for a start".to_owned());
    }
    if let Some(task) = start.array_task
        && !job
            .array
            .as_ref()
            .is_some_and(|array| array.pending.tasks.contains(task))
    {
        wrong(format!("task {task} does not wait"));
    }
    let Some(partition) = cluster.partition(&start.partition) else {
        wrong(format!("no partition {}", start.partition));
        return true;
    };
    let request = match ResourceRequest::new(&job.request, partition, &cluster.config) {
        Ok(request) => request,
        Err(error) => {
            wrong(error.to_string());
            return true;
        }
    };
    if start.time_limit != time_limit_of(job, partition) {
        wrong(format!("limit {} is not its own", start.time_limit));
    }
    for what in unmet(cluster, &request, &start.allocation) {
        wrong(what);
    }
    for part in &start.allocation.nodes {
        let why = match cluster.node(part.node) {
            Some(node) if node.config.name != part.name => "its position belongs to another node",
            Some(node) if !node.is_usable() => "it takes no jobs",
            Some(_) if partition.nodes.binary_search(&part.node).is_err() => {
                "it is not in the partition"
            }
            Some(_) if request.excluded_nodes.contains(&part.name) => "it is excluded",
            Some(_) => continue,
            None => "it does not exist",
        };
        violations.push(Violation::Node {
            node: part.name.clone(),
            who: who.to_owned(),
            why,
        });
    }
    check_features(cluster, &request, start, who, violations);
    request.track_memory
}

/// What an allocation lacks.
fn unmet(cluster: &Cluster, request: &ResourceRequest, allocation: &Allocation) -> Vec<String> {
    let mut missing = Vec::new();
    let nodes = allocation.nodes.len() as u32;
    if nodes < request.min_nodes || nodes > request.max_nodes {
        missing.push(format!(
            "{nodes} nodes, asked for {} to {}",
            request.min_nodes, request.max_nodes
        ));
    }
    let mut names: Vec<&str> = allocation.node_names();
    names.dedup();
    if names.len() != allocation.nodes.len() {
        missing.push("a node is listed twice".to_owned());
    }
    for name in request
        .required_nodes
        .iter()
        .filter(|name| !names.contains(&name.as_str()))
    {
        missing.push(format!("required node {name} is missing"));
    }
    if !request.overcommit {
        let cpus = allocation.cpu_count();
        let wanted = request.tasks.saturating_mul(request.cpus_per_task);
        let tasks: u32 = allocation
            .nodes
            .iter()
            .map(|p| p.cpu_ids.len() as u32 / request.cpus_per_task.max(1))
            .sum();
        if cpus < wanted || tasks < request.tasks {
            missing.push(format!(
                "{cpus} CPUs hold {tasks} tasks, asked for {} of {} CPUs",
                request.tasks, request.cpus_per_task
            ));
        }
    }
    for part in &allocation.nodes {
        if (part.cpu_ids.len() as u32) < request.min_cpus_per_node.max(1) {
            missing.push(format!("{} CPUs on {}", part.cpu_ids.len(), part.name));
        }
        let memory = match request.memory {
            MemoryRequest::PerNode(m) => m,
            MemoryRequest::PerCpu(m) if !request.whole_node => {
                let threads = cluster
                    .node(part.node)
                    .map_or(1, |node| node_shape(node).threads.max(1));
                let used = request.geometry[2].map_or(threads, |used| used.clamp(1, threads));
                m * u64::from(part.cpu_ids.len() as u32 / threads * used)
            }
            _ => 0,
        };
        if part.memory.0 < memory {
            missing.push(format!(
                "{} MiB on {}, asked for {memory}",
                part.memory.0, part.name
            ));
        }
        for gres in &request.gres_per_node {
            let given = given(part, &gres.name, gres.type_name.as_deref());
            if given < gres.count {
                missing.push(format!("{given} of {gres} on {}", part.name));
            }
        }
    }
    for gres in &request.gres_per_job {
        let given: u64 = allocation
            .nodes
            .iter()
            .map(|p| given(p, &gres.name, gres.type_name.as_deref()))
            .sum();
        if given < gres.count {
            missing.push(format!("{given} of {gres} in all"));
        }
    }
    let per_task = gpu_count(&request.gres_per_task) * u64::from(request.tasks);
    let gpus: u64 = allocation
        .nodes
        .iter()
        .map(|part| given(part, "gpu", None))
        .sum();
    if gpus < per_task {
        missing.push(format!("{gpus} GPUs for tasks that need {per_task}"));
    }
    missing
}

fn given(part: &NodeAllocation, name: &str, type_name: Option<&str>) -> u64 {
    let fits = |g: &&sluice_model::job::GresAllocation| {
        g.name == name && (type_name.is_none() || g.type_name.as_deref() == type_name)
    };
    part.gres.iter().filter(fits).map(|g| g.count).sum()
}

fn check_features(
    cluster: &Cluster,
    request: &ResourceRequest,
    start: &PlannedStart,
    who: &str,
    violations: &mut Vec<Violation>,
) {
    let features = |part: &NodeAllocation| {
        cluster
            .node(part.node)
            .map(|node| node.effective_features().to_vec())
            .unwrap_or_default()
    };
    let nodes: Vec<Vec<String>> = start.allocation.nodes.iter().map(features).collect();
    let Some(constraint) = &request.constraint else {
        return;
    };
    let preferred = request.prefer.as_ref().is_some_and(|c| holds_on(c, &nodes));
    if !preferred && !holds_on(constraint, &nodes) {
        violations.push(Violation::Request {
            who: who.to_owned(),
            what: "its constraint does not hold".to_owned(),
        });
    }
}

/// A constraint holds for nodes with these features.
fn holds_on(constraint: &Constraint, nodes: &[Vec<String>]) -> bool {
    let filter = constraint
        .filter
        .as_ref()
        .is_none_or(|expr| nodes.iter().all(|f| expr.matches(f)));
    let matching = constraint.alternatives.is_empty()
        || constraint
            .alternatives
            .iter()
            .any(|expr| nodes.iter().all(|f| expr.matches(f)));
    let counted = constraint
        .counted
        .iter()
        .all(|(expr, count)| nodes.iter().filter(|f| expr.matches(f)).count() >= *count as usize);
    filter && matching && counted
}

fn check_duplicates(plan: &Plan, violations: &mut Vec<Violation>) {
    let mut seen = BTreeSet::new();
    for start in &plan.starts {
        if !seen.insert((start.job, start.array_task)) {
            let who = format!("job {}", start.job);
            violations.push(Violation::Request {
                who,
                what: "it is started twice".to_owned(),
            });
        }
    }
}

fn check_throttles(cluster: &Cluster, plan: &Plan, violations: &mut Vec<Violation>) {
    let mut started: BTreeMap<JobId, (u32, u32)> = BTreeMap::new();
    for start in &plan.starts {
        let Some(job) = cluster.job(start.job) else {
            continue;
        };
        if let Some(array) = &job.array {
            let entry = started.entry(array.array_job_id).or_default();
            entry.0 += 1;
            entry.1 = array.pending.throttle;
        }
    }
    for (array, (tasks, limit)) in started.into_iter().filter(|(_, (_, limit))| *limit > 0) {
        let runs = |id: &JobId| {
            cluster.job(*id).is_some_and(|job| {
                matches!(job.state.base, JobState::Running | JobState::Suspended)
            })
        };
        let running = tasks
            + cluster
                .array_members(array)
                .iter()
                .filter(|id| runs(id))
                .count() as u32;
        if running > limit {
            violations.push(Violation::Throttle {
                array,
                running,
                limit,
            });
        }
    }
}
