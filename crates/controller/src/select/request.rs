//! What a job asks of one partition, in normal form: defaults of partition and cluster filled in, contradictions resolved.
//!
//! Pure. Memory in MiB, CPUs are logical CPUs. Invariant: two jobs with equal [`ResourceRequest`]s fit on exactly the same
//! nodes, so the planner treats them as one class. Source: `sbatch(1)`, `slurm.conf(5)` (DefMemPer*, MaxMemPer*, OverSubscribe).

use sluice_config::ClusterConfig;
use sluice_model::error_code::ErrorCode;
use sluice_model::gres::GresRequest;
use sluice_model::hostlist::parse_hostlist;
use sluice_model::job::{Exclusive, JobDescription};

use super::SelectError;
use super::constraint::Constraint;
use super::policy::{ConsumedUnit, MemoryDefault, PartitionPolicy, Sharing};
use super::sharing::{Owner, SharedPool};
use crate::cluster::Partition;

/// Memory, by what it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryRequest {
    /// All memory of each node (`--mem=0`, or nothing asked and no default).
    WholeNode,
    /// MiB on each node.
    PerNode(u64),
    /// MiB for each allocated CPU.
    PerCpu(u64),
    /// MiB for each allocated GPU.
    PerGpu(u64),
}

/// How a job's nodes are spread over a network of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SegmentOrder {
    /// Fewest blocks.
    Fewest,
    /// Each segment in a block of its own.
    Spread,
}

/// The request in normal form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceRequest {
    /// Fewest nodes.
    pub min_nodes: u32,
    /// Most nodes.
    pub max_nodes: u32,
    /// So many nodes are tried first: the most of a range, unless `--use-min-nodes` says otherwise.
    pub wanted_nodes: u32,
    /// `--spread-job`: as many nodes as are of use, tasks evenly.
    pub spread: bool,
    /// Tasks in all.
    pub tasks: u32,
    /// CPUs of a task.
    pub cpus_per_task: u32,
    /// Most tasks on one node.
    pub max_tasks_per_node: u32,
    /// Fewest tasks on one node.
    pub min_tasks_per_node: u32,
    /// `--mincpus`, and what the memory asked for makes necessary.
    pub min_cpus_per_node: u32,
    /// MaxCPUsPerNode of the partition.
    pub max_cpus_per_node: Option<u32>,
    /// MaxCPUsPerSocket of the partition.
    pub max_cpus_per_socket: Option<u32>,
    /// Partition.
    pub partition: String,
    /// Most tasks on one socket.
    pub tasks_per_socket: Option<u32>,
    /// Most tasks on one core.
    pub tasks_per_core: Option<u32>,
    /// Sockets, cores per socket and threads per core that a node must have, and threads of each core that are used.
    pub geometry: [Option<u32>; 3],
    /// Memory.
    pub memory: MemoryRequest,
    /// Memory is consumed (CR_*_Memory); otherwise only the size of the node counts.
    pub track_memory: bool,
    /// Local disk, MiB.
    pub tmp_disk_mib: u64,
    /// GRES on each node.
    pub gres_per_node: Vec<GresRequest>,
    /// GRES in all.
    pub gres_per_job: Vec<GresRequest>,
    /// GRES for each task.
    pub gres_per_task: Vec<GresRequest>,
    /// GRES on each socket that is used.
    pub gres_per_socket: Vec<GresRequest>,
    /// Only cores near the devices.
    pub enforce_binding: bool,
    /// LL_SHARED_GRES: units of the shared GPU with the most left.
    pub least_loaded_shares: bool,
    /// Any cores, as if no device had some near it.
    pub disable_binding: bool,
    /// CPUs for each GPU.
    pub cpus_per_gpu: u32,
    /// Tasks do not need CPUs of their own.
    pub overcommit: bool,
    /// Nobody else on the nodes; all CPUs and GRES of them.
    pub whole_node: bool,
    /// CPUs are shared with other jobs of this pool.
    pub shared: Option<SharedPool>,
    /// Only jobs of the same user or label, or none in its part of the network, may be on its nodes.
    pub claim: Option<Exclusive>,
    /// Whose job it is, where that matters.
    pub owner: Option<Owner>,
    /// `--core-spec`: cores of each node that the job leaves to the system.
    pub core_spec: u32,
    /// `--thread-spec`: the same in threads.
    pub thread_spec: u32,
    /// Smallest piece that is given.
    pub unit: ConsumedUnit,
    /// Cores of one socket after the other, not of all sockets in turn.
    pub cores_in_blocks: bool,
    /// Node features.
    pub constraint: Option<Constraint>,
    /// Node features that are tried first, in place of those.
    pub prefer: Option<Constraint>,
    /// Topology of the partition by name.
    pub topology: Option<String>,
    /// `--switches`: most leaf switches.
    pub max_switches: Option<u32>,
    /// `--segment`: nodes of each segment, and how segments lie.
    pub segment: Option<(u32, SegmentOrder)>,
    /// Nodes that must be part, sorted.
    pub required_nodes: Vec<String>,
    /// Nodes that must not be part, sorted.
    pub excluded_nodes: Vec<String>,
    /// Only neighbours.
    pub contiguous: bool,
    /// Least loaded nodes first.
    pub least_loaded: bool,
}

impl ResourceRequest {
    /// The normal form of a request in a partition.
    ///
    /// # Errors
    /// A constraint or hostlist that cannot be read, memory above MaxMemPerNode, contradicting sizes.
    pub fn new(
        request: &JobDescription,
        partition: &Partition,
        config: &ClusterConfig,
    ) -> Result<Self, SelectError> {
        let policy = PartitionPolicy::of(&partition.config, config);
        Self::with_policy(request, &policy)
    }

    /// As [`Self::new`], for callers that keep the partition's policy.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_policy(
        request: &JobDescription,
        policy: &PartitionPolicy,
    ) -> Result<Self, SelectError> {
        let required_nodes = node_names(request.required_nodes.as_deref())?;
        let excluded_nodes = node_names(request.excluded_nodes.as_deref())?;
        let constraint = read_constraint(request.constraint.as_deref())?;
        let prefer = read_constraint(request.prefer.as_deref())?;
        let mut min_nodes = request
            .min_nodes
            .unwrap_or(0)
            .max(1)
            .max(required_nodes.len() as u32);
        if let Some(constraint) = &constraint {
            min_nodes = min_nodes.max(constraint.counted_nodes());
        }
        let open_ended = request.max_nodes.is_none_or(|max| max > min_nodes);
        if request.min_nodes.is_none() || open_ended {
            min_nodes = min_nodes.max(policy.min_nodes);
        }

        let gpus_in_all = gpu_count(&request.gres_per_job);
        let cpus_per_task = request.cpus_per_task.unwrap_or(1).max(1);
        let per_node = request.ntasks_per_node.filter(|n| *n > 0);
        let tasks = request.ntasks.filter(|n| *n > 0).unwrap_or_else(|| {
            match (per_node, request.ntasks_per_gpu) {
                (Some(n), _) => n.saturating_mul(min_nodes),
                (None, Some(n)) if gpus_in_all > 0 => n.saturating_mul(gpus_in_all as u32),
                (None, Some(n)) => n
                    .saturating_mul(gpu_count(&request.gres_per_node) as u32)
                    .saturating_mul(min_nodes)
                    .max(min_nodes),
                (None, None) => min_nodes,
            }
        });
        // Tasks that are given and fixed per node fix the number of nodes too.
        if let (Some(n), Some(_), None) = (per_node, request.ntasks, request.min_nodes) {
            min_nodes = min_nodes.max(tasks.div_ceil(n));
        }
        let max_nodes = match request.max_nodes {
            Some(max) => max.max(min_nodes),
            // More nodes than tasks are of no use.
            None => tasks.max(min_nodes),
        };
        let max_nodes = max_nodes.min(policy.max_nodes.unwrap_or(u32::MAX).max(min_nodes));
        let useful = max_nodes.min(tasks.max(min_nodes));
        let ranged = request.max_nodes.is_some_and(|max| max > min_nodes);
        let wanted_nodes = if request.spread_job || (ranged && !request.use_min_nodes) {
            useful
        } else {
            min_nodes
        };
        let core_spec = request.core_spec.unwrap_or(0);
        let thread_spec = request
            .extra
            .get("thread-spec")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        let shared = shared_pool(request, policy);
        let exclusive = request.exclusive.filter(|_| shared.is_none());
        let claim = match exclusive {
            Some(Exclusive::Node) => None,
            Some(claim) => Some(claim),
            None => policy.claim,
        };
        let extra = |name: &str| request.extra.get(name).map(String::as_str);
        let disable_binding =
            extra("gres-flags").is_some_and(|flags| flag_in(flags, "disable-binding"));
        // More tasks than the nodes may take: the number of tasks rules, as it does in Slurm.
        let per_node = per_node.filter(|n| n.saturating_mul(max_nodes) >= tasks);
        let exact_per_node =
            per_node.filter(|n| request.ntasks.is_none() || n.saturating_mul(min_nodes) == tasks);

        let mut normal = Self {
            min_nodes,
            max_nodes,
            wanted_nodes,
            spread: request.spread_job,
            tasks,
            cpus_per_task,
            max_tasks_per_node: per_node.unwrap_or(u32::MAX),
            min_tasks_per_node: exact_per_node.unwrap_or(1),
            min_cpus_per_node: request.min_cpus_per_node.unwrap_or(0),
            max_cpus_per_node: policy.max_cpus_per_node,
            max_cpus_per_socket: policy.max_cpus_per_socket,
            partition: policy.partition.clone(),
            tasks_per_socket: request.ntasks_per_socket.filter(|n| *n > 0),
            tasks_per_core: request
                .ntasks_per_core
                .filter(|n| *n > 0)
                .or(policy.one_task_per_core.then_some(1)),
            geometry: [
                request.sockets_per_node,
                request.cores_per_socket,
                request.threads_per_core,
            ],
            memory: MemoryRequest::WholeNode,
            track_memory: policy.track_memory,
            tmp_disk_mib: request.tmp_disk_mib.unwrap_or(0),
            gres_per_node: request.gres_per_node.clone(),
            gres_per_job: request.gres_per_job.clone(),
            gres_per_task: request.gres_per_task.clone(),
            gres_per_socket: request.gres_per_socket.clone(),
            enforce_binding: !disable_binding
                && (policy.enforce_binding
                    || extra("gres-flags").is_some_and(|flags| flag_in(flags, "enforce-binding"))),
            least_loaded_shares: policy.least_loaded_shares,
            disable_binding,
            cpus_per_gpu: request
                .cpus_per_gpu
                .or(policy.def_cpus_per_gpu)
                .unwrap_or(0),
            overcommit: request.overcommit,
            whole_node: policy.exclusive_node
                || (shared.is_none()
                    && (policy.linear
                        || core_spec > 0
                        || thread_spec > 0
                        || exclusive == Some(Exclusive::Node))),
            shared,
            claim,
            owner: (claim.is_some() || policy.owners_matter).then(|| Owner::of(request)),
            core_spec,
            thread_spec,
            unit: policy.unit,
            cores_in_blocks: cores_in_blocks(request).unwrap_or(policy.cores_in_blocks),
            constraint,
            prefer,
            topology: policy.topology.clone().filter(|_| policy.networked),
            max_switches: extra("switches")
                .filter(|_| policy.networked)
                .and_then(|text| text.split('@').next()?.parse().ok())
                .filter(|switches| *switches > 0),
            segment: extra("segment")
                .filter(|_| policy.networked)
                .and_then(|text| text.parse().ok())
                .filter(|nodes| *nodes > 0)
                .map(|nodes| {
                    let order = if extra("spread-segments").is_some() {
                        SegmentOrder::Spread
                    } else {
                        SegmentOrder::Fewest
                    };
                    (nodes, order)
                }),
            required_nodes,
            excluded_nodes,
            contiguous: request.contiguous,
            least_loaded: policy.least_loaded,
        };
        normal.gres_per_socket.retain(|gres| gres.count > 0);
        normal.add_gres_per_socket(request);
        normal.derive_gpus_from_tasks(request);
        normal.set_memory(request, policy)?;
        for list in [
            &mut normal.gres_per_node,
            &mut normal.gres_per_job,
            &mut normal.gres_per_task,
        ] {
            list.retain(|gres| gres.count > 0);
            list.sort();
        }
        Ok(normal)
    }

    fn add_gres_per_socket(&mut self, request: &JobDescription) {
        let sockets = u64::from(request.sockets_per_node.unwrap_or(1).max(1));
        for gres in &request.gres_per_socket {
            let mut per_node = gres.clone();
            per_node.count = per_node.count.saturating_mul(sockets);
            self.gres_per_node.push(per_node);
        }
    }

    /// `--ntasks-per-gpu` with tasks and without GPUs gives the number of GPUs.
    fn derive_gpus_from_tasks(&mut self, request: &JobDescription) {
        let Some(per_gpu) = request.ntasks_per_gpu.filter(|n| *n > 0) else {
            return;
        };
        let named = self.gpus_named();
        if !named && request.ntasks.is_some() {
            let count = u64::from(self.tasks.div_ceil(per_gpu));
            self.gres_per_job.push(GresRequest {
                name: "gpu".to_owned(),
                type_name: None,
                count,
            });
        }
    }

    fn gpus_named(&self) -> bool {
        [&self.gres_per_node, &self.gres_per_job, &self.gres_per_task]
            .iter()
            .any(|list| gpu_count(list) > 0)
    }

    /// Explicit request, else the defaults, then the maxima (MaxMemPerCPU lowers the memory per CPU and raises the CPUs).
    fn set_memory(
        &mut self,
        request: &JobDescription,
        policy: &PartitionPolicy,
    ) -> Result<(), SelectError> {
        self.memory = match (
            request.mem_per_node,
            request.mem_per_cpu,
            request.mem_per_gpu,
        ) {
            (Some(m), _, _) if m.0 == 0 => MemoryRequest::WholeNode,
            (Some(m), _, _) => MemoryRequest::PerNode(m.0),
            (None, Some(m), _) if m.0 == 0 => MemoryRequest::WholeNode,
            (None, Some(m), _) => MemoryRequest::PerCpu(m.0),
            (None, None, Some(m)) if m.0 > 0 => MemoryRequest::PerGpu(m.0),
            _ => match policy.memory_default {
                Some(MemoryDefault::PerGpu(m)) if self.gpus_named() => MemoryRequest::PerGpu(m),
                Some(MemoryDefault::PerNode(m)) => MemoryRequest::PerNode(m),
                Some(MemoryDefault::PerCpu(m)) => MemoryRequest::PerCpu(m),
                Some(MemoryDefault::PerGpu(_)) | None => MemoryRequest::WholeNode,
            },
        };
        if let Some(max) = policy.max_mem_per_cpu.filter(|max| *max > 0) {
            match self.memory {
                MemoryRequest::PerCpu(m) if m > max => {
                    let factor = m.div_ceil(max);
                    self.cpus_per_task = self
                        .cpus_per_task
                        .saturating_mul(u32::try_from(factor).unwrap_or(u32::MAX));
                    self.memory = MemoryRequest::PerCpu(m.div_ceil(factor));
                }
                MemoryRequest::PerNode(m) => {
                    let cpus = u32::try_from(m.div_ceil(max)).unwrap_or(u32::MAX);
                    self.min_cpus_per_node = self.min_cpus_per_node.max(cpus);
                }
                _ => {}
            }
        }
        if self.exceeds_memory_limit(policy) {
            return Err(SelectError::new(
                ErrorCode::InvalidTaskMemory,
                String::new(),
            ));
        }
        Ok(())
    }

    /// Above MaxMemPerNode on a node.
    #[must_use]
    pub fn exceeds_memory_limit(&self, policy: &PartitionPolicy) -> bool {
        let Some(max) = policy.max_mem_per_node.filter(|max| *max > 0) else {
            return false;
        };
        match self.memory {
            MemoryRequest::PerNode(m) => m > max,
            MemoryRequest::PerCpu(m) => {
                m.saturating_mul(u64::from(self.cpus_per_task.max(self.min_cpus_per_node))) > max
            }
            MemoryRequest::WholeNode | MemoryRequest::PerGpu(_) => false,
        }
    }

    /// NumTasks of a pending job.
    #[must_use]
    pub fn num_tasks(&self) -> u32 {
        self.tasks
    }

    /// NumCPUs of a pending job: what its tasks need, at least one a node.
    #[must_use]
    pub fn num_cpus(&self) -> u32 {
        let tasks = if self.overcommit {
            self.min_nodes
        } else {
            self.tasks.saturating_mul(self.cpus_per_task)
        };
        let per_node = self.min_cpus_per_node.max(1).saturating_mul(self.min_nodes);
        let gpus = self
            .cpus_per_gpu
            .saturating_mul(u32::try_from(self.num_gpus()).unwrap_or(u32::MAX));
        tasks.max(per_node).max(gpus)
    }

    /// GPUs in all on the fewest nodes.
    #[must_use]
    pub fn num_gpus(&self) -> u64 {
        gpu_count(&self.gres_per_job)
            .max(gpu_count(&self.gres_per_node).saturating_mul(u64::from(self.min_nodes)))
            .max(gpu_count(&self.gres_per_task).saturating_mul(u64::from(self.tasks)))
    }

    /// Tasks to spread over the nodes: every node gets one at least, also when the job names more nodes than tasks.
    #[must_use]
    pub fn placed_tasks(&self) -> u32 {
        self.tasks.max(
            self.min_nodes
                .saturating_mul(self.min_tasks_per_node.min(1)),
        )
    }

    /// GRES of any form are asked for.
    #[must_use]
    pub fn wants_gres(&self) -> bool {
        !(self.gres_per_node.is_empty()
            && self.gres_per_job.is_empty()
            && self.gres_per_task.is_empty())
    }

    /// Every GRES request in it.
    pub fn gres_requests(&self) -> impl Iterator<Item = &GresRequest> {
        self.gres_per_node
            .iter()
            .chain(&self.gres_per_job)
            .chain(&self.gres_per_task)
    }

    /// Fewest tasks that a node must take for the job to come out with [`Self::max_nodes`] nodes.
    #[must_use]
    pub fn fewest_tasks_on_a_node(&self) -> u32 {
        let others = self
            .max_tasks_per_node
            .saturating_mul(self.max_nodes.saturating_sub(1));
        self.placed_tasks()
            .saturating_sub(others)
            .max(self.min_tasks_per_node)
            .max(1)
    }
}

/// GPUs in a list.
#[must_use]
pub fn gpu_count(list: &[GresRequest]) -> u64 {
    list.iter()
        .filter(|gres| gres.name == "gpu")
        .map(|gres| gres.count)
        .sum()
}

fn read_constraint(text: Option<&str>) -> Result<Option<Constraint>, SelectError> {
    text.map(str::trim)
        .filter(|text| !text.is_empty())
        .map(|text| {
            Constraint::parse(text)
                .map_err(|e| SelectError::new(ErrorCode::InvalidFeature, e.to_string()))
        })
        .transpose()
}

/// The pool in which the job shares CPUs. FORCE above 1 cannot be refused; whole nodes are asked for with `--exclusive` otherwise.
fn shared_pool(request: &JobDescription, policy: &PartitionPolicy) -> Option<SharedPool> {
    if policy.exclusive_node {
        return None;
    }
    let jobs = match policy.sharing {
        Sharing::No => return None,
        Sharing::Willing(jobs) if request.oversubscribe => jobs,
        Sharing::Willing(_) => return None,
        Sharing::Forced(1)
            if request.exclusive == Some(Exclusive::Node) || request.core_spec.is_some() =>
        {
            return None;
        }
        Sharing::Forced(jobs) => jobs,
    };
    Some(SharedPool {
        partition: policy.partition.clone(),
        jobs,
    })
}

/// What `--distribution` says about the cores of a node: `block` in second place one socket after the other, `cyclic` and
/// `fcyclic` all in turn.
fn cores_in_blocks(request: &JobDescription) -> Option<bool> {
    let text = request.distribution.as_deref()?;
    match text.split(',').next()?.split(':').nth(1)? {
        "block" => Some(true),
        "cyclic" | "fcyclic" => Some(false),
        _ => None,
    }
}

fn flag_in(list: &str, flag: &str) -> bool {
    list.split(',')
        .any(|word| word.trim().eq_ignore_ascii_case(flag))
}

fn node_names(hostlist: Option<&str>) -> Result<Vec<String>, SelectError> {
    let Some(text) = hostlist.filter(|text| !text.trim().is_empty()) else {
        return Ok(Vec::new());
    };
    let mut names = parse_hostlist(text)
        .map_err(|_| SelectError::new(ErrorCode::InvalidNodeName, String::new()))?;
    names.sort_unstable();
    names.dedup();
    Ok(names)
}
