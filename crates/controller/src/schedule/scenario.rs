//! Scenarios in words, for tests: text in, text out, so that the engine's types can change without touching tests.
//!
//! One statement a line, `#` begins a comment. Times and limits are `90s`, `30m`, `2h`, `1d`, or seconds.
//!
//! ```text
//! config SelectTypeParameters=CR_Core          # a line of slurm.conf
//! gresconf Name=gpu File=/dev/g[0-3] Cores=0-3 # a line of gres.conf
//! topology SwitchName=s0 Nodes=n[1-4]          # a line of topology.conf
//! yaml .- topology: a                          # a line of topology.yaml, after the dot
//! nodes n[1-4] cpus=8 mem=16000 gres=gpu:4 features=a,b weight=2
//! partition main tier=1 maxtime=2h nodes=n[1-2] state=DOWN …   # without one: `main` with all nodes
//! down n2                                      # out of service
//! reserve R nodes=n1 start=1h length=2h users=u flags=MAINT   # or count=2 cores=4 licenses=a:2 accounts=x
//! delete R
//! running R on=n[1-2] cpus=8 limit=1h          # began at 0, or at `since=-10m`
//! job A cpus=32 nodes=2-4 limit=2h prio=1000   # waits
//! het H cpus=8 : cpus=4 limit=1h               # components H+0 and H+1 wait
//! at 0 pass                                    # a pass whose starts are carried out; jobs past their limit end before it
//! ```
//! A pass yields one item a job that waited: `A starts n[1-4]; B pending Resources, start 2h`.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_config::{BundleFile, ClusterConfig, ConfigBundle};
use sluice_model::exit_status::WaitStatus;
use sluice_model::gres::{parse_gpus, parse_gres_list};
use sluice_model::hostlist::{collapse_hostlist, parse_hostlist};
use sluice_model::ids::JobId;
use sluice_model::job::{Exclusive, JobDescription};
use sluice_model::memory::MemoryMib;
use sluice_model::node_state::{NodeState, NodeStateFull};
use sluice_model::reason::Reason;
use sluice_model::reservation::{ReservationFlags, ReservationRequest};
use sluice_model::state::{JobState, JobStateFull};
use sluice_model::time::{TimeLimit, UnixSeconds};

use super::{PlanOptions, expected_end, plan};
use crate::cluster::{
    Allocation, ArrayMembership, Cluster, DependencyState, HetMembership, Job, NodeIndex,
};
use crate::event::{Event, JobEnd, apply};
use crate::plan::Plan;
use crate::select::{FreeView, ResourceRequest, place};
use crate::transaction::Transaction;

/// Start of every scenario.
pub(crate) const EPOCH: i64 = 1_000_000;

/// A cluster under test.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) now: i64,
    names: BTreeMap<JobId, String>,
    pub(crate) options: PlanOptions,
    pub(crate) last_plan: Plan,
}

/// Runs a scenario and compares what its passes say; more passes are separated by `|`.
#[track_caller]
pub(crate) fn check(scenario: &str, expected: &str) {
    let mut world = World::new(scenario);
    let mut said = Vec::new();
    for line in statements(scenario) {
        if let Some(result) = world.step(line) {
            said.push(result);
        }
    }
    assert_eq!(said.join(" | "), expected);
}

fn statements(scenario: &str) -> impl Iterator<Item = &str> {
    scenario
        .lines()
        .map(|line| line.split('#').next().unwrap_or("").trim())
        .filter(|line| !line.is_empty())
}

/// A cluster of the `config`, `nodes` and `partition` lines of a scenario.
pub(crate) fn cluster_of(scenario: &str) -> Cluster {
    let lines_of = |word: &str| -> String {
        statements(scenario)
            .filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '))
            .map(|line| format!("{line}\n"))
            .collect()
    };
    let mut files = vec![("slurm.conf", slurm_conf(scenario))];
    for (word, name) in [
        ("gresconf", "gres.conf"),
        ("topology", "topology.conf"),
        ("yaml", "topology.yaml"),
    ] {
        let text = lines_of(word).replace("\n.", "\n");
        let text = text.strip_prefix('.').unwrap_or(&text).to_owned();
        if !text.is_empty() {
            files.push((name, text));
        }
    }
    let files = files
        .into_iter()
        .map(|(name, content)| BundleFile {
            name: name.to_owned(),
            content,
        })
        .collect();
    let config = ClusterConfig::from_bundle(&ConfigBundle::new(files))
        .expect("the scenario's configuration")
        .config;
    let mut cluster = Cluster::new(Arc::new(config), UnixSeconds(EPOCH));
    let names: Vec<String> = cluster
        .nodes
        .iter()
        .map(|node| node.config.name.clone())
        .collect();
    for name in names {
        set_state(&mut cluster, &name, NodeState::Idle);
    }
    cluster
}

fn set_state(cluster: &mut Cluster, node: &str, base: NodeState) {
    let state = NodeStateFull::new(base);
    let time = UnixSeconds(EPOCH);
    apply(
        cluster,
        &Event::NodeStateSet {
            node: node.to_owned(),
            state,
            reason: None,
            uid: 0,
            time,
        },
    );
}

fn slurm_conf(scenario: &str) -> String {
    let mut conf = String::from("ClusterName=test\nSlurmctldHost=localhost\n");
    let (mut nodes, mut partitions, mut own) = (String::new(), String::new(), String::new());
    for line in statements(scenario) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "config" => own.push_str(&format!("{rest}\n")),
            "nodes" => nodes.push_str(&node_line(rest)),
            "partition" => partitions.push_str(&partition_line(rest, partitions.is_empty())),
            _ => {}
        }
    }
    for (key, default) in [
        ("SelectType=", "select/cons_tres"),
        ("SelectTypeParameters", "CR_Core_Memory"),
        ("DefMemPerCPU", "10"),
        ("GresTypes", "gpu,nic"),
    ] {
        if !own.contains(key) {
            conf.push_str(&format!("{}={default}\n", key.trim_end_matches('=')));
        }
    }
    if partitions.is_empty() {
        partitions.push_str("PartitionName=main Nodes=ALL Default=YES State=UP\n");
    }
    conf + &own + &nodes + &partitions
}

fn node_line(rest: &str) -> String {
    let mut line = String::new();
    let mut has_memory = false;
    for (at, word) in rest.split_whitespace().enumerate() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        has_memory |= key == "mem";
        line.push_str(&match key {
            _ if at == 0 => format!("NodeName={word}"),
            "cpus" => format!(" CPUs={value}"),
            "sockets" => format!(" Sockets={value}"),
            "cores" => format!(" CoresPerSocket={value}"),
            "threads" => format!(" ThreadsPerCore={value}"),
            "mem" => format!(" RealMemory={value}"),
            "gres" => format!(" Gres={value}"),
            "features" => format!(" Features={value}"),
            "weight" => format!(" Weight={value}"),
            "restricted" => format!(" RestrictedCoresPerGPU={value}"),
            "corespec" => format!(" CoreSpecCount={value}"),
            _ => panic!("unknown word {word} of a nodes line"),
        });
    }
    if !has_memory {
        line.push_str(" RealMemory=64000");
    }
    line + "\n"
}

fn partition_line(rest: &str, first: bool) -> String {
    let mut line = String::new();
    let mut nodes = String::from("ALL");
    for (at, word) in rest.split_whitespace().enumerate() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            _ if at == 0 => line.push_str(&format!("PartitionName={word}")),
            "nodes" => value.clone_into(&mut nodes),
            "tier" => line.push_str(&format!(" PriorityTier={value}")),
            "maxtime" => line.push_str(&format!(" MaxTime={}", seconds(value) / 60)),
            "defaulttime" => line.push_str(&format!(" DefaultTime={}", seconds(value) / 60)),
            _ => line.push_str(&format!(" {word}")),
        }
    }
    let default = if first { " Default=YES" } else { "" };
    format!("{line} Nodes={nodes}{default}\n")
}

/// `90s`, `30m`, `2h`, `1d`, `-10m`, or plain seconds.
pub(crate) fn seconds(text: &str) -> i64 {
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let number: i64 = text[..split]
        .parse()
        .unwrap_or_else(|_| panic!("{text} is no time"));
    number
        * match &text[split..] {
            "" | "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            unit => panic!("unknown unit {unit}"),
        }
}

/// The largest unit that divides it.
fn time_text(secs: i64) -> String {
    for (unit, size) in [("d", 86_400), ("h", 3600), ("m", 60)] {
        if secs != 0 && secs % size == 0 {
            return format!("{}{unit}", secs / size);
        }
    }
    secs.to_string()
}

/// A waiting job with a request and nothing else.
pub(crate) fn blank_job(id: u32, request: JobDescription, submit: i64) -> Job {
    let array = request.array.as_deref().map(|text| {
        let pending: sluice_model::array::ArraySpec = text.parse().expect("array");
        ArrayMembership {
            array_job_id: JobId(id),
            task_id: None,
            task_count: pending.tasks.len() as u32,
            task_min: pending.tasks.first().unwrap_or(0),
            task_max: pending.tasks.last().unwrap_or(0),
            task_step: 1,
            pending,
        }
    });
    Job {
        id: JobId(id),
        array,
        script: None,
        environment: None,
        user_name: "u".to_owned(),
        group_name: "g".to_owned(),
        account: "a".to_owned(),
        qos: "normal".to_owned(),
        partition: request
            .partitions
            .first()
            .cloned()
            .unwrap_or_else(|| "main".to_owned()),
        state: JobStateFull::new(JobState::Pending),
        reason: Reason::None,
        reason_text: None,
        priority: request.priority.unwrap_or(1000),
        priority_is_direct: request.priority.is_some(),
        submit_time: UnixSeconds(submit),
        first_submit_time: UnixSeconds(submit),
        begin_time: request.begin_time,
        eligible_time: None,
        accrue_reset: None,
        start_time: None,
        end_time: None,
        suspend_time: None,
        pre_suspend_secs: 0,
        suspended_secs: 0,
        time_limit: request.time_limit,
        dependency: DependencyState::default(),
        requeue: true,
        restarts: 0,
        run_attempt: 0,
        allocation: None,
        warned: false,
        steps: imbl::OrdMap::new(),
        next_step_id: 0,
        exit_status: WaitStatus::SUCCESS,
        derived_exit_status: WaitStatus::SUCCESS,
        kill_requester: None,
        failed_node: None,
        scheduler: None,
        admin_comment: None,
        system_comment: None,
        het: None,
        association: None,
        qos_id: None,
        charged_to: None,
        reservation: None,
        licenses: Vec::new(),
        request: Arc::new(request),
    }
}

/// The request that the words of a `job` or `running` line mean.
pub(crate) fn description(words: &str) -> JobDescription {
    let mut request = JobDescription {
        partitions: vec!["main".to_owned()],
        ..JobDescription::default()
    };
    for word in words.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || {
            value
                .parse::<u32>()
                .unwrap_or_else(|_| panic!("{word}: a number is wanted"))
        };
        let memory = || Some(value.parse::<MemoryMib>().expect("memory"));
        match key {
            "cpus" | "tasks" => request.ntasks = Some(number()),
            "cpus-per-task" => request.cpus_per_task = Some(number()),
            "tasks-per-node" => request.ntasks_per_node = Some(number()),
            "tasks-per-socket" => request.ntasks_per_socket = Some(number()),
            "tasks-per-core" => request.ntasks_per_core = Some(number()),
            "tasks-per-gpu" => request.ntasks_per_gpu = Some(number()),
            "threads-per-core" => request.threads_per_core = Some(number()),
            "sockets-per-node" => request.sockets_per_node = Some(number()),
            "core-spec" => request.core_spec = Some(number()),
            "mincpus" => request.min_cpus_per_node = Some(number()),
            "uid" => request.uid = number(),
            "gpus-per-socket" => request.gres_per_socket = parse_gpus(value).expect("gpus"),
            "spread" => request.spread_job = true,
            "use-min-nodes" => request.use_min_nodes = true,
            "oversubscribe" => request.oversubscribe = true,
            "prefer" => request.prefer = Some(value.to_owned()),
            "dist" => request.distribution = Some(value.to_owned()),
            "switches" | "segment" | "gres-flags" | "mcs-label" | "spread-segments" => {
                request.extra.insert(key.to_owned(), value.to_owned());
            }
            "nodes" => {
                let (low, high) = value.split_once('-').unwrap_or((value, value));
                request.min_nodes = low.parse().ok();
                request.max_nodes = high.parse().ok();
            }
            "mem" => request.mem_per_node = memory(),
            "mem-per-cpu" => request.mem_per_cpu = memory(),
            "mem-per-gpu" => request.mem_per_gpu = memory(),
            "cpus-per-gpu" => request.cpus_per_gpu = Some(number()),
            "gres" => request.gres_per_node = parse_gres_list(value).expect("gres"),
            "gpus" => request.gres_per_job = parse_gpus(value).expect("gpus"),
            "gpus-per-task" => request.gres_per_task = parse_gpus(value).expect("gpus"),
            "cores-per-socket" => request.cores_per_socket = Some(number()),
            "exclusive" => {
                request.exclusive = Some(match value {
                    "user" => Exclusive::User,
                    "mcs" => Exclusive::Mcs,
                    "topo" => Exclusive::Topo,
                    _ => Exclusive::Node,
                });
            }
            "contiguous" => request.contiguous = true,
            "overcommit" => request.overcommit = true,
            "constraint" => request.constraint = Some(value.to_owned()),
            "nodelist" => request.required_nodes = Some(value.to_owned()),
            "exclude" => request.excluded_nodes = Some(value.to_owned()),
            "partition" => request.partitions = value.split(',').map(str::to_owned).collect(),
            "array" => request.array = Some(value.to_owned()),
            "prio" => request.priority = Some(number()),
            "limit" if value == "none" => request.time_limit = Some(TimeLimit::Unlimited),
            "limit" => request.time_limit = Some(TimeLimit::Minutes((seconds(value) / 60) as u32)),
            "begin" => request.begin_time = Some(UnixSeconds(EPOCH + seconds(value))),
            "resv" => request.reservation = Some(value.to_owned()),
            "licenses" => request.licenses = Some(value.to_owned()),
            "deadline" => request.deadline = Some(UnixSeconds(EPOCH + seconds(value))),
            "on" | "since" => {}
            _ => panic!("unknown word {word}"),
        }
    }
    request
}

fn word_value<'w>(words: &'w str, key: &str) -> Option<&'w str> {
    words
        .split_whitespace()
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

impl World {
    pub(crate) fn new(scenario: &str) -> Self {
        Self {
            cluster: cluster_of(scenario),
            now: EPOCH,
            names: BTreeMap::new(),
            options: PlanOptions::default(),
            last_plan: Plan::default(),
        }
    }

    /// Carries out one statement; a pass gives its result.
    pub(crate) fn step(&mut self, line: &str) -> Option<String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "config" | "nodes" | "partition" | "gresconf" | "topology" | "yaml" => {}
            "down" | "up" => {
                let base = if word == "down" {
                    NodeState::Down
                } else {
                    NodeState::Idle
                };
                for node in parse_hostlist(rest).expect("hostlist") {
                    set_state(&mut self.cluster, &node, base);
                }
            }
            "running" => {
                let (name, words) = rest.split_once(' ').unwrap_or((rest, ""));
                self.run(name, words);
            }
            "job" => {
                let (name, words) = rest.split_once(' ').unwrap_or((rest, ""));
                self.submit(name, words);
            }
            "reserve" => {
                let (name, words) = rest.split_once(' ').unwrap_or((rest, ""));
                self.reserve(name, words)
                    .expect("the reservation is not refused");
            }
            "delete" => {
                let caller = crate::command::Caller::root();
                self.command(|t| crate::command::reservation::delete(t, rest, "root", &caller));
            }
            "het" => {
                let (name, words) = rest.split_once(' ').unwrap_or((rest, ""));
                self.submit_components(name, &words.split(" : ").collect::<Vec<_>>());
            }
            "at" => {
                let time = rest.split_whitespace().next().unwrap_or("0");
                self.advance(EPOCH + seconds(time));
                return Some(self.pass());
            }
            _ => panic!("unknown statement {line}"),
        }
        None
    }

    /// Adds a waiting job.
    pub(crate) fn submit(&mut self, name: &str, words: &str) -> JobId {
        let id = self.cluster.next_job_id;
        let job = blank_job(id.0, description(words), self.now);
        self.names.insert(id, name.to_owned());
        apply(
            &mut self.cluster,
            &Event::JobSubmitted { job: Box::new(job) },
        );
        id
    }

    /// Carries out a command of the engine, which must not be refused.
    fn command<T>(
        &mut self,
        command: impl FnOnce(&mut Transaction<'_>) -> Result<T, crate::command::Rejection>,
    ) -> T {
        Transaction::run(&mut self.cluster, UnixSeconds(self.now), command)
            .expect("the command is not refused")
            .0
    }

    /// Makes a reservation.
    pub(crate) fn reserve(
        &mut self,
        name: &str,
        words: &str,
    ) -> Result<(), crate::command::Rejection> {
        let mut request = ReservationRequest {
            name: name.to_owned(),
            start_time: Some(UnixSeconds(self.now)),
            users: Some("root".to_owned()),
            ..ReservationRequest::default()
        };
        for word in words.split_whitespace() {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let counts = || {
                value
                    .split(',')
                    .map(|n| n.parse().expect("a number"))
                    .collect()
            };
            match key {
                "start" => request.start_time = Some(UnixSeconds(EPOCH + seconds(value))),
                "length" => {
                    request.duration = Some(TimeLimit::Minutes((seconds(value) / 60) as u32));
                }
                "nodes" => request.nodes = Some(value.to_owned()),
                "count" => request.node_counts = counts(),
                "cores" => request.core_counts = counts(),
                "partition" => request.partition = Some(value.to_owned()),
                "features" => request.features = Some(value.to_owned()),
                "licenses" => request.licenses = Some(value.to_owned()),
                "users" => request.users = Some(value.to_owned()),
                "accounts" => {
                    request.accounts = Some(value.to_owned());
                    request.users = None;
                }
                "flags" => {
                    request.flags_add = value
                        .split(',')
                        .map(|name| ReservationFlags::named(name).expect("a flag").0)
                        .sum();
                }
                _ => panic!("unknown word {word}"),
            }
        }
        let caller = crate::command::Caller::root();
        let now = UnixSeconds(self.now);
        Transaction::run(&mut self.cluster, now, |t| {
            crate::command::reservation::create(t, &request, &caller)
        })
        .map(|_| ())
    }

    /// Adds a heterogeneous job that waits.
    fn submit_components(&mut self, name: &str, components: &[&str]) {
        let leader = self.cluster.next_job_id;
        for (offset, words) in (0..).zip(components) {
            let mut job = blank_job(leader.0 + offset, description(words), self.now);
            job.het = Some(HetMembership {
                leader,
                offset,
                size: components.len() as u32,
            });
            self.names.insert(job.id, format!("{name}+{offset}"));
            apply(
                &mut self.cluster,
                &Event::JobSubmitted { job: Box::new(job) },
            );
        }
    }

    /// Adds a job that runs on the nodes named by `on=`.
    fn run(&mut self, name: &str, words: &str) {
        let on = parse_hostlist(word_value(words, "on").expect("on=")).expect("hostlist");
        let mut request = description(words);
        request.min_nodes = Some(on.len() as u32);
        request.max_nodes = request.min_nodes;
        let partition = self
            .cluster
            .partition(&request.partitions[0])
            .expect("partition")
            .clone();
        let normal =
            ResourceRequest::new(&request, &partition, &self.cluster.config).expect("request");
        let nodes: Vec<NodeIndex> = on
            .iter()
            .map(|n| self.cluster.node_named(n).expect("node").0)
            .collect();
        let allocation =
            place(&mut FreeView::of(&self.cluster), &normal, &nodes).expect("the running job fits");
        let id = self.submit(name, words);
        let since = word_value(words, "since").map_or(0, seconds);
        let limit = request.time_limit.unwrap_or(TimeLimit::Unlimited);
        let reservation = request
            .reservation
            .as_deref()
            .and_then(|name| crate::reservation::named(&self.cluster, name))
            .map(|own| own.id);
        let licenses = crate::license::need_of(&blank_job(1, request.clone(), 0)).items;
        self.start(
            id,
            None,
            &partition.config.name,
            allocation,
            limit,
            self.now + since,
            (reservation, licenses),
        );
    }

    fn start(
        &mut self,
        id: JobId,
        task: Option<u32>,
        partition: &str,
        allocation: Allocation,
        limit: TimeLimit,
        time: i64,
        (reservation, licenses): (Option<u32>, Vec<(String, u64)>),
    ) {
        let more = self
            .cluster
            .job(id)
            .and_then(|job| job.array.as_ref())
            .is_some_and(|array| task.is_some() && array.pending.tasks.len() > 1);
        let split_id = more.then_some(self.cluster.next_job_id);
        let name = self.names.get(&id).cloned().unwrap_or_default();
        if let Some(task) = task {
            self.names
                .insert(split_id.unwrap_or(id), format!("{name}_{task}"));
        }
        apply(
            &mut self.cluster,
            &Event::JobStarted {
                job_id: id,
                array_task: task,
                split_id,
                partition: partition.to_owned(),
                allocation: Arc::new(allocation),
                time_limit: limit,
                time: UnixSeconds(time),
                scheduler: "Main".to_owned(),
                configuring: false,
                reservation,
                licenses,
            },
        );
    }

    /// Goes on to a time: jobs whose limit is over by then end.
    pub(crate) fn advance(&mut self, time: i64) {
        self.now = time;
        let over: Vec<JobId> = self
            .cluster
            .holding
            .iter()
            .copied()
            .filter(|id| {
                self.cluster.job(*id).is_some_and(|job| {
                    let limit = super::limit_secs(job.time_limit.unwrap_or(TimeLimit::Unlimited));
                    job.start_time.is_some_and(|start| start.0 + limit <= time)
                })
            })
            .collect();
        for id in over {
            self.end(id);
        }
        self.command(|t| {
            crate::command::reservation::tick(t);
            Ok(())
        });
    }

    /// Ends a running job and frees its nodes.
    pub(crate) fn end(&mut self, id: JobId) {
        let Some(job) = self.cluster.job(id).cloned() else {
            return;
        };
        let time = UnixSeconds(self.now);
        assert!(expected_end(&job, time) >= time);
        apply(
            &mut self.cluster,
            &Event::JobEnded(JobEnd {
                job_id: id,
                state: JobState::Completed,
                reason: Reason::None,
                reason_text: None,
                exit_status: WaitStatus::SUCCESS,
                time,
                requester: None,
                failed_node: None,
            }),
        );
        for part in job.allocation.iter().flat_map(|a| &a.nodes) {
            apply(
                &mut self.cluster,
                &Event::NodeReleased {
                    job_id: id,
                    node: part.name.clone(),
                    time,
                },
            );
        }
    }

    /// Plans and carries out a pass; says what became of each waiting job, by name.
    pub(crate) fn pass(&mut self) -> String {
        let now = UnixSeconds(self.now);
        let plan = plan(&self.cluster, now, self.options);
        let violations = crate::check::check_plan(&self.cluster, &plan, now);
        assert!(violations.is_empty(), "{violations:?}");
        let mut items: Vec<(String, String)> = Vec::new();
        for start in &plan.starts {
            let mut name = self.names.get(&start.job).cloned().unwrap_or_default();
            if let Some(task) = start.array_task {
                name = format!("{name}_{task}");
            }
            let by = if start.scheduler.name() == "Backfill" {
                " by backfill"
            } else {
                ""
            };
            let nodes = collapse_hostlist(start.allocation.node_names());
            items.push((name, format!("starts {nodes}{by}")));
        }
        for (id, note) in &plan.notes {
            let mut text = format!("pending {}", note.reason.name());
            if let Some(more) = &note.text {
                text.push_str(&format!(" ({more})"));
            }
            if let Some(start) = note.expected_start {
                text.push_str(&format!(", start {}", time_text(start.0 - EPOCH)));
            }
            if let Some(nodes) = &note.planned_nodes {
                text.push_str(&format!(" on {nodes}"));
            }
            items.push((self.names.get(id).cloned().unwrap_or_default(), text));
        }
        for (id, why) in &plan.impossible {
            items.push((
                self.names.get(id).cloned().unwrap_or_default(),
                format!("impossible: {why}"),
            ));
        }
        for id in &plan.missed_deadline {
            items.push((
                self.names.get(id).cloned().unwrap_or_default(),
                "misses its deadline".to_owned(),
            ));
        }
        items.sort();
        self.carry_out(&plan);
        self.last_plan = plan;
        items
            .into_iter()
            .map(|(name, text)| format!("{name} {text}"))
            .collect::<Vec<_>>()
            .join("; ")
    }

    fn carry_out(&mut self, plan: &Plan) {
        for start in &plan.starts {
            let allocation = start.allocation.clone();
            self.start(
                start.job,
                start.array_task,
                &start.partition,
                allocation,
                start.time_limit,
                self.now,
                (start.reservation, start.licenses.clone()),
            );
        }
        let violations = crate::check::recount(&self.cluster);
        assert!(violations.is_empty(), "{violations:?}");
    }

    /// The job with this name.
    pub(crate) fn named(&self, name: &str) -> Option<JobId> {
        self.names
            .iter()
            .find(|(_, n)| *n == name)
            .map(|(id, _)| *id)
    }

    /// Nodes with a job on them.
    pub(crate) fn busy_nodes(&self) -> usize {
        self.cluster
            .nodes
            .iter()
            .filter(|node| !node.jobs.is_empty())
            .count()
    }
}
