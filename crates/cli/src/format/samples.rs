//! Records of a small real cluster for tests: the jobs, nodes and partitions whose listings are known.
//!
//! Test data only; ids, times and texts are those of the listings that the tests compare with.

use std::sync::Arc;

use jiff::tz::TimeZone;
use sluice_model::exit_status::WaitStatus;
use sluice_model::gres::GresRequest;
use sluice_model::ids::{JobId, StepId};
use sluice_model::job::{GresAllocation, JobDescription, JobInfo, NodeAllocationInfo};
use sluice_model::memory::MemoryMib;
use sluice_model::node::{NodeGres, NodeInfo};
use sluice_model::partition::PartitionInfo;
use sluice_model::reason::Reason;
use sluice_model::state::{JobState, JobStateFull, NodeState, NodeStateFlags, NodeStateFull};
use sluice_model::step::{StepInfo, StepLayout};
use sluice_model::time::{TimeLimit, UnixSeconds};
use sluice_model::tres::Tres;

use super::job_rows::{JobRow, JobView, each_row};
use super::time_style::TimeStyle;

/// 2026-11-30T04:41:18 UTC, when the sample jobs were submitted.
pub const SUBMIT: UnixSeconds = UnixSeconds(1_796_013_678);

/// Listing 36 seconds later.
pub fn view() -> JobView {
    JobView {
        times: TimeStyle::standard(TimeZone::UTC, SUBMIT + 36),
        cluster: "oracle".to_string(),
        index_text_max: 64,
        exact_sizes: false,
        expand_patterns: false,
    }
}

pub fn tres(text: &str) -> Tres {
    text.parse().expect("valid TRES")
}

/// The rows of several jobs.
pub fn rows(
    jobs: &[Arc<JobInfo>],
    view: &Arc<JobView>,
    each_task: impl Fn(&JobInfo) -> bool,
    each_partition: bool,
) -> Vec<JobRow> {
    let mut rows = Vec::new();
    for job in jobs {
        each_row(job, view, &each_task, each_partition, |row| rows.push(row));
    }
    rows
}

/// A job of alice that waits.
pub fn pending(id: u32, name: &str) -> JobInfo {
    JobInfo {
        job_id: JobId(id),
        array_job_id: None,
        array_task_id: None,
        array_task_string: None,
        array_max_tasks: 0,
        description: JobDescription {
            name: Some(name.to_string()),
            uid: 1002,
            gid: 65534,
            mem_per_node: Some(MemoryMib(100)),
            ntasks: Some(1),
            work_dir: "/tmp".to_string(),
            std_out: Some("/dev/null".to_string()),
            batch: true,
            submit_host: "localhost".to_string(),
            submit_sid: 2561,
            submit_line: "sbatch".to_string(),
            ..JobDescription::default()
        },
        user_name: "alice".to_string(),
        group_name: "nogroup".to_string(),
        state: JobStateFull::new(JobState::Pending),
        reason: Reason::Priority,
        reason_text: None,
        priority: 11_127,
        partition: "main".to_string(),
        account: "physics".to_string(),
        qos: "normal".to_string(),
        dependency: None,
        requeue: true,
        restarts: 0,
        exit_status: WaitStatus(0),
        derived_exit_status: WaitStatus(0),
        time_limit: TimeLimit::Minutes(60),
        submit_time: SUBMIT,
        eligible_time: Some(SUBMIT),
        accrue_time: Some(SUBMIT),
        start_time: None,
        end_time: None,
        suspend_time: None,
        pre_suspend_secs: 0,
        last_sched_eval: Some(SUBMIT),
        scheduler: Some("Main".to_string()),
        nodes: String::new(),
        sched_nodes: None,
        batch_host: None,
        failed_node: None,
        num_nodes: 1,
        num_cpus: 1,
        num_tasks: 1,
        req_tres: tres("cpu=1,mem=100M,node=1,billing=1"),
        alloc_tres: Tres::new(),
        allocation: Vec::new(),
        completing_nodes: Vec::new(),
        next_step_id: 0,
        kill_requester: None,
        std_out_path: "/dev/null".to_string(),
        std_err_path: String::new(),
        std_in_path: "/dev/null".to_string(),
        admin_comment: None,
        system_comment: None,
        het_job_id: None,
        het_job_offset: None,
        het_job_id_set: None,
        association_id: 0,
        priority_by_partition: Vec::new(),
        licenses_allocated: None,
    }
}

/// Job 15: an array that waits for job 9.
pub fn pending_array() -> JobInfo {
    let mut job = pending(15, "array2");
    job.array_job_id = Some(JobId(15));
    job.array_task_string = Some("1,3,5,7,9,20".to_string());
    job.array_max_tasks = 2;
    job.time_limit = TimeLimit::Minutes(20);
    job.reason = Reason::Dependency;
    job.dependency = Some("afterany:9(unfulfilled)".to_string());
    job.eligible_time = None;
    job.accrue_time = None;
    job.description.submit_line =
        "sbatch -J array2 -o /dev/null -n1 --mem=100 -t 20 --array=1-10:2,20%2 \
                                   --dependency=afterany:9 --wrap sleep 100"
            .to_string();
    job
}

/// Job 9: runs on two nodes.
pub fn running() -> JobInfo {
    let mut job = pending(9, "run1");
    job.description.comment = Some("hello world".to_string());
    job.description.mem_per_node = Some(MemoryMib(1000));
    job.description.ntasks = Some(8);
    job.description.min_nodes = Some(2);
    job.description.std_out = Some("/tmp/gold/%j.out".to_string());
    job.description.submit_line =
        "sbatch -J run1 -o /tmp/gold/%j.out -N2 -n8 --mem=1000 -t 30 --comment=hello world --wrap srun -n8 sleep 3000"
            .to_string();
    job.state = JobStateFull::new(JobState::Running);
    job.reason = Reason::None;
    job.priority = 11_268;
    job.time_limit = TimeLimit::Minutes(30);
    job.start_time = Some(SUBMIT + 1);
    job.end_time = Some(SUBMIT + 1 + 1800);
    job.last_sched_eval = Some(SUBMIT + 1);
    job.nodes = "n[1-2]".to_string();
    job.batch_host = Some("n1".to_string());
    job.num_nodes = 2;
    job.num_cpus = 8;
    job.num_tasks = 8;
    job.req_tres = tres("cpu=8,mem=2000M,node=2,billing=8");
    job.alloc_tres = tres("cpu=8,mem=2000M,node=2,billing=8");
    job.std_out_path = "/tmp/gold/9.out".to_string();
    job
}

/// Job 10: runs with two GPUs.
pub fn gpu_job() -> JobInfo {
    let mut job = running();
    job.job_id = JobId(10);
    job.description.name = Some("gpujob".to_string());
    job.description.comment = None;
    job.description.ntasks = Some(1);
    job.description.min_nodes = None;
    job.description.constraint = Some("gpu".to_string());
    job.description.gres_per_node = vec![GresRequest {
        name: "gpu".to_string(),
        type_name: Some("h100".to_string()),
        count: 2,
    }];
    job.description.submit_line =
        "sbatch -J gpujob -o /tmp/gold/%j.out -n1 --mem=1000 --gres=gpu:h100:2 -t 45 -C gpu --wrap env | grep -E \
         ^SLURM\\|^CUDA | sort; sleep 3000"
            .to_string();
    job.priority = 11_127;
    job.time_limit = TimeLimit::Minutes(45);
    job.start_time = Some(SUBMIT + 2);
    job.end_time = Some(SUBMIT + 2 + 2700);
    job.last_sched_eval = Some(SUBMIT + 2);
    job.scheduler = Some("Backfill".to_string());
    job.nodes = "n2".to_string();
    job.batch_host = Some("n2".to_string());
    job.num_nodes = 1;
    job.num_cpus = 1;
    job.num_tasks = 1;
    job.req_tres = tres("cpu=1,mem=1000M,node=1,billing=1,gres/gpu=2,gres/gpu:h100=2");
    job.alloc_tres = job.req_tres.clone();
    job.allocation = vec![NodeAllocationInfo {
        node: "n2".to_string(),
        cpu_ids: vec![32],
        memory: MemoryMib(1000),
        gres: vec![GresAllocation {
            name: "gpu".to_string(),
            type_name: Some("h100".to_string()),
            count: 2,
            indices: vec![0, 1],
        }],
    }];
    job.std_out_path = "/tmp/gold/10.out".to_string();
    job
}

/// Node `n<number>` of the sample cluster, idle.
pub fn node(number: u32) -> NodeInfo {
    NodeInfo {
        name: format!("n{number}"),
        hostname: "vm".to_string(),
        address: "127.0.0.1".to_string(),
        port: 17_000 + number as u16,
        state: NodeStateFull::new(NodeState::Idle),
        reason: None,
        reason_user: None,
        reason_uid: None,
        reason_time: None,
        cpus: 64,
        cpus_effective: 64,
        alloc_cpus: 0,
        boards: 1,
        sockets: 2,
        cores_per_socket: 32,
        threads_per_core: 1,
        real_memory: MemoryMib(256_000),
        alloc_memory: MemoryMib(0),
        free_memory: Some(MemoryMib(22_634)),
        cpu_load_centi: Some(31),
        tmp_disk_mib: 0,
        weight: 1,
        features: vec!["std".to_string(), "gpu".to_string()],
        active_features: vec!["std".to_string(), "gpu".to_string()],
        gres: vec![NodeGres {
            name: "gpu".to_string(),
            type_name: Some("h100".to_string()),
            count: 8,
            used: 0,
            used_indices: Vec::new(),
        }],
        partitions: vec!["main".to_string(), "short".to_string()],
        arch: Some("x86_64".to_string()),
        os: Some("Linux 6.18.44-fc-v669 #1 SMP PREEMPT_DYNAMIC @0".to_string()),
        version: Some("26.11.0-0rc1".to_string()),
        boot_time: Some(UnixSeconds(1_796_011_053)),
        agent_start_time: Some(UnixSeconds(1_796_013_650)),
        last_busy_time: Some(UnixSeconds(1_796_013_650)),
        last_response_time: None,
        cfg_tres: tres("cpu=64,mem=250G,billing=64,gres/gpu=8,gres/gpu:h100=8"),
        alloc_tres: Tres::new(),
        owner_uid: None,
        comment: None,
        jobs: Vec::new(),
        extra: None,
        cpu_bind: None,
        instance_id: None,
        instance_type: None,
        topology: None,
        next_state: None,
        resume_after_time: None,
        reservation: None,
    }
}

/// The four nodes: three in use and planned, one drained.
pub fn nodes() -> Vec<NodeInfo> {
    let mut nodes: Vec<NodeInfo> = (1..=4).map(node).collect();
    let used = [(11, 22_641), (4, 22_638), (2, 22_632)];
    for (node, (cpus, free)) in nodes.iter_mut().zip(used) {
        node.state = NodeStateFull::with_flags(NodeState::Mixed, NodeStateFlags::PLANNED);
        node.alloc_cpus = cpus;
        node.free_memory = Some(MemoryMib(free));
    }
    nodes[1].alloc_memory = MemoryMib(2200);
    nodes[1].alloc_tres = tres("cpu=4,mem=2200M,gres/gpu=2,gres/gpu:h100=2");
    nodes[1].gres[0].used = 2;
    nodes[1].gres[0].used_indices = vec![0, 1];
    nodes[3].state = NodeStateFull::with_flags(NodeState::Idle, NodeStateFlags::DRAIN);
    nodes[3].reason = Some("bad fan".to_string());
    nodes[3].reason_user = Some("root".to_string());
    nodes[3].reason_uid = Some(0);
    nodes[3].reason_time = Some(SUBMIT);
    nodes
}

/// The two partitions.
pub fn partitions() -> Vec<PartitionInfo> {
    let main = PartitionInfo {
        name: "main".to_string(),
        is_default: true,
        nodes: "n[1-4]".to_string(),
        total_nodes: 4,
        total_cpus: 256,
        default_time: Some(TimeLimit::Minutes(60)),
        max_time: Some(TimeLimit::Minutes(7 * 24 * 60)),
        exclusive: "NO".to_string(),
        over_subscribe: "NO".to_string(),
        preempt_mode: "REQUEUE".to_string(),
        priority_job_factor: 10,
        priority_tier: 1,
        select_type_parameters: "NONE".to_string(),
        tres: tres(
            "cpu=256,mem=1000G,node=4,billing=256,gres/gpu=32,gres/gpu:h100=32,license/matlab=10",
        ),
        ..PartitionInfo::default()
    };
    let short = PartitionInfo {
        name: "short".to_string(),
        is_default: false,
        default_time: None,
        max_time: Some(TimeLimit::Minutes(30)),
        priority_job_factor: 1,
        priority_tier: 10,
        ..main.clone()
    };
    vec![main, short]
}

/// Steps of job 9: batch, and a step of eight tasks.
pub fn steps() -> Vec<StepInfo> {
    let batch = StepInfo {
        job_id: JobId(9),
        submit_time: SUBMIT,
        array_job_id: None,
        array_task_id: None,
        step_id: StepId::Batch,
        name: "batch".to_string(),
        uid: 1002,
        user_name: "alice".to_string(),
        partition: "main".to_string(),
        state: JobStateFull::new(JobState::Running),
        start_time: SUBMIT + 1,
        end_time: None,
        time_limit: TimeLimit::Unlimited,
        nodes: "n1".to_string(),
        num_nodes: 1,
        num_cpus: 0,
        num_tasks: 1,
        tres: Tres::new(),
        srun_host: String::new(),
        srun_pid: 0,
        exit_status: WaitStatus(0),
        distribution: String::new(),
        layout: StepLayout::default(),
    };
    let numbered = StepInfo {
        step_id: StepId::Num(0),
        name: "sleep".to_string(),
        nodes: "n[1-2]".to_string(),
        num_nodes: 2,
        num_cpus: 8,
        num_tasks: 8,
        tres: tres("cpu=8,mem=2000M,node=2"),
        srun_host: "vm".to_string(),
        srun_pid: 26_224,
        distribution: "Block".to_string(),
        ..batch.clone()
    };
    vec![batch, numbered]
}
