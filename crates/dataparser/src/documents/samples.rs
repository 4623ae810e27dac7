//! Records of a small real cluster, whose documents are known.

use sluice_model::accounting::{JobRecord, StepRecord, job_flag};
use sluice_model::exit_status::WaitStatus;
use sluice_model::gres::GresRequest;
use sluice_model::ids::{JobId, StepId};
use sluice_model::job::{GresAllocation, JobDescription, JobInfo, NodeAllocationInfo};
use sluice_model::memory::MemoryMib;
use sluice_model::node::{NodeGres, NodeInfo};
use sluice_model::node_state::{NodeState, NodeStateFlags, NodeStateFull};
use sluice_model::partition::PartitionInfo;
use sluice_model::reason::Reason;
use sluice_model::state::{JobState, JobStateFull};
use sluice_model::step::{StepInfo, StepLayout};
use sluice_model::time::{TimeLimit, UnixSeconds};
use sluice_model::tres::Tres;

/// When the jobs were submitted.
const SUBMIT: UnixSeconds = UnixSeconds(1_796_013_678);

fn tres(text: &str) -> Tres {
    text.parse().expect("valid TRES")
}

/// Job 15: an array that waits for job 9.
pub fn array() -> JobInfo {
    JobInfo {
        job_id: JobId(15),
        array_job_id: Some(JobId(15)),
        array_task_id: None,
        array_task_string: Some("1,3,5,7,9,20".to_string()),
        array_max_tasks: 2,
        description: JobDescription {
            name: Some("array2".to_string()),
            uid: 1002,
            gid: 65534,
            mem_per_node: Some(MemoryMib(100)),
            ntasks: Some(1),
            work_dir: "/tmp".to_string(),
            std_out: Some("/dev/null".to_string()),
            batch: true,
            submit_host: "localhost".to_string(),
            submit_line: "sbatch -J array2 -o /dev/null -n1 --mem=100 -t 20 --array=1-10:2,20%2 --dependency=afterany:9 --wrap sleep 100"
                .to_string(),
            ..JobDescription::default()
        },
        user_name: "alice".to_string(),
        group_name: "nogroup".to_string(),
        state: JobStateFull::new(JobState::Pending),
        reason: Reason::Dependency,
        reason_text: None,
        priority: 11_127,
        partition: "main".to_string(),
        account: "physics".to_string(),
        qos: "normal".to_string(),
        dependency: Some("afterany:9(unfulfilled)".to_string()),
        requeue: true,
        restarts: 0,
        exit_status: WaitStatus(0),
        derived_exit_status: WaitStatus(0),
        time_limit: TimeLimit::Minutes(20),
        submit_time: SUBMIT,
        eligible_time: None,
        accrue_time: None,
        start_time: None,
        end_time: None,
        suspend_time: None,
        pre_suspend_secs: 0,
        last_sched_eval: Some(SUBMIT),
        scheduler: None,
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

/// Job 10: runs with two GPUs.
pub fn gpu_job() -> JobInfo {
    let mut job = array();
    job.job_id = JobId(10);
    job.array_job_id = None;
    job.array_task_string = None;
    job.array_max_tasks = 0;
    job.description.name = Some("gpujob".to_string());
    job.description.gres_per_node = vec![GresRequest {
        name: "gpu".to_string(),
        type_name: Some("h100".to_string()),
        count: 2,
    }];
    job.state = JobStateFull::new(JobState::Running);
    job.reason = Reason::None;
    job.dependency = None;
    job.scheduler = Some("Backfill".to_string());
    job.start_time = Some(SUBMIT + 2);
    job.nodes = "n2".to_string();
    job.alloc_tres = tres("cpu=1,mem=1000M,node=1,billing=1,gres/gpu=2,gres/gpu:h100=2");
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
    job
}

/// Node n1, in use by jobs.
pub fn node() -> NodeInfo {
    NodeInfo {
        name: "n1".to_string(),
        hostname: "vm".to_string(),
        address: "127.0.0.1".to_string(),
        port: 17_001,
        state: NodeStateFull::with_flags(NodeState::Mixed, NodeStateFlags::PLANNED),
        reason: None,
        reason_user: None,
        reason_uid: None,
        reason_time: None,
        cpus: 64,
        cpus_effective: 64,
        alloc_cpus: 11,
        boards: 1,
        sockets: 2,
        cores_per_socket: 32,
        threads_per_core: 1,
        real_memory: MemoryMib(256_000),
        alloc_memory: MemoryMib(1300),
        free_memory: Some(MemoryMib(22_641)),
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
        last_busy_time: Some(UnixSeconds(1_796_013_673)),
        last_response_time: None,
        cfg_tres: tres("cpu=64,mem=250G,billing=64,gres/gpu=8,gres/gpu:h100=8"),
        alloc_tres: tres("cpu=11,mem=1300M"),
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

/// The default partition.
pub fn partition() -> PartitionInfo {
    PartitionInfo {
        name: "main".to_string(),
        is_default: true,
        nodes: "n[1-4]".to_string(),
        total_nodes: 4,
        total_cpus: 256,
        default_time: Some(TimeLimit::Minutes(60)),
        max_time: Some(TimeLimit::Minutes(7 * 24 * 60)),
        exclusive: "NO".to_string(),
        over_subscribe: "NO".to_string(),
        preempt_mode: String::new(),
        priority_job_factor: 10,
        priority_tier: 1,
        select_type_parameters: "NONE".to_string(),
        tres: tres(
            "cpu=256,mem=1000G,node=4,billing=256,gres/gpu=32,gres/gpu:h100=32,license/matlab=10",
        ),
        ..PartitionInfo::default()
    }
}

/// Steps of job 9: batch, and one of srun.
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
    let launched = StepInfo {
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
    vec![batch, launched]
}

/// Job 2 of the accounting database, with its batch step.
pub fn record() -> (JobRecord, Vec<StepRecord>) {
    let start = UnixSeconds(1_796_013_669);
    let mut job = JobRecord::new(JobId(2), 0, start);
    job.cluster = "oracle".to_string();
    job.association_id = Some(6);
    job.account = "physics".to_string();
    job.user = "alice".to_string();
    job.group = "nogroup".to_string();
    job.partition = "main".to_string();
    job.qos = "normal".to_string();
    job.name = "done1".to_string();
    job.eligible = Some(start);
    job.start = Some(start);
    job.end = Some(start + 1);
    job.state = 3;
    job.req_tres = "cpu=2,mem=100,node=1,billing=2".to_string();
    job.alloc_tres = job.req_tres.clone();
    job.req_cpus = 2;
    job.req_mem_mib = 100;
    job.req_nodes = 1;
    job.alloc_cpus = 2;
    job.alloc_nodes = 1;
    job.node_list = "n1".to_string();
    job.priority = 11_129;
    job.time_limit_minutes = Some(60);
    job.work_dir = "/tmp".to_string();
    job.submit_line =
        "sbatch -J done1 -o /tmp/gold/%j.out --mem=100 -n2 --wrap srun hostname; exit 0"
            .to_string();
    job.std_in = "/dev/null".to_string();
    job.std_out = "/tmp/gold/%j.out".to_string();
    job.reason = "None".to_string();
    job.flags = job_flag::SCHED_MAIN | job_flag::START_RECEIVED;
    let mut batch = StepRecord::new(JobId(2), 0, start, StepId::Batch, start);
    batch.name = "batch".to_string();
    batch.tasks = 1;
    batch.nodes = 1;
    batch.node_list = "n1".to_string();
    batch.end = Some(start + 1);
    batch.state = 3;
    batch.alloc_tres = "cpu=2,mem=100,node=1".to_string();
    batch.usage.user_cpu_us = 12_202;
    batch.usage.system_cpu_us = 1912;
    (job, vec![batch])
}
