//! What a seed chooses before anything happens: size and policies of the cluster, load, and which faults there are (swarm testing:
//! each run has some kinds of fault often, some rarely and some not at all, so that no fault hides behind another).
//!
//! Times in milliseconds unless named otherwise, rates per mille.

use crate::chance::Chance;

/// The options of one run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of nodes, `n1` to `nN`.
    pub nodes: u64,
    /// Real cores of a node.
    pub cores: u64,
    /// Hardware threads of a core.
    pub threads: u64,
    /// GPUs of a node.
    pub gpus: u64,
    /// Memory of a node, MiB.
    pub memory: u64,
    /// slurm.conf.
    pub conf: String,
    /// A Prolog is configured.
    pub prolog: bool,
    /// An Epilog is configured.
    pub epilog: bool,
    /// How long users and faults are at work.
    pub busy_ms: u64,
    /// Submissions.
    pub submissions: u64,
    /// Mean time between other commands of users; 0 = none.
    pub commands_every_ms: u64,
    /// Kinds of commands that users give.
    pub commands: Vec<CommandKind>,
    /// Kinds of jobs that users submit besides plain ones.
    pub jobs: Vec<JobKind>,
    /// Longest time of a payload.
    pub payload_max_ms: u64,
    /// One message's way, shortest and longest.
    pub network_ms: (u64, u64),
    /// One flush of the journal, shortest and longest.
    pub flush_ms: (u64, u64),
    /// One pass of the planner, shortest and longest.
    pub plan_ms: (u64, u64),
    /// Journal batches between two checkpoints.
    pub checkpoint_every: u64,
    /// Mean times between faults; 0 = there are none of that kind.
    pub faults: Faults,
    /// A Prolog or Epilog takes so long at most.
    pub script_max_ms: u64,
    /// Effects of an agent's decision after which it dies.
    pub agent_dies_midway: u64,
    /// Prologs that fail.
    pub prolog_fails: u64,
    /// Epilogs that fail.
    pub epilog_fails: u64,
    /// Answers to users that get lost.
    pub answers_lost: u64,
}

/// Mean milliseconds between faults of each kind, cluster-wide; 0 = never.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// The controller dies.
    pub controller: u64,
    /// An agent dies.
    pub agent: u64,
    /// A node reboots.
    pub reboot: u64,
    /// A connection breaks.
    pub link: u64,
    /// A step daemon is killed.
    pub step_daemon: u64,
    /// A node cannot reach the controller for a while.
    pub partition: u64,
    /// Nothing passes between a node and the controller for a while, and the connection survives it.
    pub stall: u64,
    /// The newest checkpoint is damaged when the controller dies.
    pub checkpoint_damage: bool,
}

/// What users do besides submitting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandKind {
    /// `scancel JOB`.
    Cancel,
    /// `scancel JOB_TASK`.
    CancelTask,
    /// `scancel -s USR1`, `scancel JOB.STEP`.
    Signal,
    /// `scontrol hold`.
    Hold,
    /// `scontrol release`.
    Release,
    /// `scontrol requeue`.
    Requeue,
    /// `scontrol requeuehold`.
    RequeueHold,
    /// `scontrol update JobId=`.
    Update,
    /// `scontrol suspend` and `resume`.
    Suspend,
    /// `srun` inside a job.
    Step,
    /// `scontrol update NodeName=`.
    Node,
    /// `scontrol update PartitionName=`.
    Partition,
    /// `scontrol delete node`, `scontrol reconfigure`.
    NodeList,
    /// `scontrol reboot`.
    Reboot,
    /// `scontrol top`.
    Top,
    /// `scontrol update StepId=`.
    StepLimit,
    /// `strigger`.
    Trigger,
    /// `scrontab`.
    Crontab,
}

const COMMANDS: [CommandKind; 18] = [
    CommandKind::Cancel,
    CommandKind::CancelTask,
    CommandKind::Signal,
    CommandKind::Hold,
    CommandKind::Release,
    CommandKind::Requeue,
    CommandKind::RequeueHold,
    CommandKind::Update,
    CommandKind::Suspend,
    CommandKind::Step,
    CommandKind::Node,
    CommandKind::Partition,
    CommandKind::NodeList,
    CommandKind::Reboot,
    CommandKind::Top,
    CommandKind::StepLimit,
    CommandKind::Trigger,
    CommandKind::Crontab,
];

/// What a job is besides plain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// `--array`.
    Array,
    /// `--dependency`.
    Dependent,
    /// `-N`.
    Nodes,
    /// `--exclusive`.
    Exclusive,
    /// `--gres=gpu`.
    Gpu,
    /// `--mem`.
    Memory,
    /// A time limit below the payload's time.
    ShortLimit,
    /// `--begin`.
    Begin,
    /// Several partitions.
    Partitions,
    /// `--no-requeue`.
    NoRequeue,
    /// `-H`.
    Held,
    /// `hetjob`.
    Heterogeneous,
}

const JOBS: [JobKind; 12] = [
    JobKind::Array,
    JobKind::Dependent,
    JobKind::Nodes,
    JobKind::Exclusive,
    JobKind::Gpu,
    JobKind::Memory,
    JobKind::ShortLimit,
    JobKind::Begin,
    JobKind::Partitions,
    JobKind::NoRequeue,
    JobKind::Held,
    JobKind::Heterogeneous,
];

impl Options {
    /// The options that a seed stands for.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut c = Chance::of(seed, &[1]);
        let nodes = c.between(1, 6);
        let cores = c.pick(&[1, 2, 4, 8]);
        let threads = c.pick(&[1, 1, 2]);
        let gpus = c.pick(&[0, 2, 4]);
        let memory = c.pick(&[1000, 4000]);
        let (prolog, epilog) = (c.likely(600), c.likely(600));
        let busy_ms = c.pick(&[120_000, 300_000, 600_000]);
        let mut rate = |choices: &[u64]| if c.likely(400) { 0 } else { c.pick(choices) };
        let faults = Faults {
            controller: rate(&[10_000, 30_000, 100_000]),
            agent: rate(&[5_000, 20_000, 60_000]),
            reboot: rate(&[30_000, 120_000]),
            link: rate(&[2_000, 10_000, 60_000]),
            step_daemon: rate(&[30_000, 120_000]),
            partition: rate(&[30_000, 120_000]),
            stall: rate(&[20_000, 60_000]),
            checkpoint_damage: false,
        };
        let faults = Faults {
            checkpoint_damage: c.likely(300),
            ..faults
        };
        let slow = c.likely(300);
        let conf = conf(
            &mut c,
            (nodes, cores, threads, gpus, memory),
            (prolog, epilog),
        );
        Self {
            nodes,
            cores,
            threads,
            gpus,
            memory,
            conf,
            prolog,
            epilog,
            busy_ms,
            submissions: c.between(3, 40),
            commands_every_ms: if c.likely(150) {
                0
            } else {
                c.pick(&[1_000, 4_000, 15_000])
            },
            commands: some_of(&mut c, &COMMANDS),
            jobs: some_of(&mut c, &JOBS),
            payload_max_ms: c.pick(&[2_000, 20_000, 90_000, 400_000]),
            network_ms: if slow { (5, 3_000) } else { (1, 20) },
            flush_ms: if c.likely(200) { (5, 800) } else { (1, 10) },
            plan_ms: if c.likely(300) { (10, 2_000) } else { (1, 20) },
            checkpoint_every: c.pick(&[3, 20, 200]),
            faults,
            script_max_ms: c.pick(&[100, 3_000, 30_000]),
            agent_dies_midway: if faults.agent == 0 {
                0
            } else {
                c.pick(&[0, 3, 20])
            },
            prolog_fails: if c.likely(500) { 0 } else { c.pick(&[20, 150]) },
            epilog_fails: if c.likely(500) { 0 } else { c.pick(&[20, 150]) },
            answers_lost: if c.likely(400) { 0 } else { c.pick(&[50, 300]) },
        }
    }
}

fn some_of<T: Copy>(c: &mut Chance, all: &[T]) -> Vec<T> {
    let share = c.pick(&[200, 500, 900]);
    all.iter().copied().filter(|_| c.likely(share)).collect()
}

fn conf(
    c: &mut Chance,
    (nodes, cores, threads, gpus, memory): (u64, u64, u64, u64, u64),
    (prolog, epilog): (bool, bool),
) -> String {
    let gres = if gpus > 0 {
        format!(" Gres=gpu:fake:{gpus}")
    } else {
        String::new()
    };
    let mut parameters = vec![format!("requeue_delay={}", c.pick(&[0, 0, 5]))];
    if c.likely(500) {
        parameters.push("nohold_on_prolog_fail".to_owned());
    }
    let mut lines = vec![
        "ClusterName=sim".to_owned(),
        "SlurmctldHost=localhost".to_owned(),
        "SlurmUser=root".to_owned(),
        "StateSaveLocation=/tmp/state".to_owned(),
        "SlurmdSpoolDir=/tmp/spool".to_owned(),
        "SelectType=select/cons_tres".to_owned(),
        format!(
            "SelectTypeParameters={}",
            c.pick(&["CR_Core_Memory", "CR_Core", "CR_CPU_Memory"])
        ),
        "DefMemPerCPU=100".to_owned(),
        format!("MinJobAge={}", c.pick(&[100, 300, 3000])),
        format!("KillWait={}", c.pick(&[5, 15])),
        format!("SlurmdTimeout={}", c.pick(&[20, 60, 300])),
        format!("ReturnToService={}", c.between(0, 2)),
        format!("JobRequeue={}", c.pick(&[1, 1, 0])),
        format!("RequeueExit={}", c.pick(&["3", "50"])),
        format!("RequeueExitHold={}", c.pick(&["2", "51"])),
        format!("EnforcePartLimits={}", c.pick(&["NO", "ANY", "ALL"])),
        format!(
            "SchedulerType={}",
            c.pick(&["sched/backfill", "sched/backfill", "sched/builtin"])
        ),
        format!("SchedulerParameters={}", parameters.join(",")),
        "GresTypes=gpu".to_owned(),
        "ScronParameters=enable".to_owned(),
        "SlurmctldParameters=allow_user_triggers".to_owned(),
        "RebootProgram=/sim/reboot".to_owned(),
        // Longer than any simulated boot.
        format!("ResumeTimeout={}", c.pick(&[60, 300])),
        "SlurmdParameters=config_overrides".to_owned(),
        format!(
            "NodeName=n[1-{nodes}] CPUs={} Boards=1 SocketsPerBoard=1 CoresPerSocket={cores} ThreadsPerCore={threads} \
             RealMemory={memory}{gres}",
            cores * threads
        ),
        format!(
            "PartitionName=main Nodes=n[1-{nodes}] Default=YES MaxTime=1-0 DefaultTime=10 State=UP"
        ),
        format!(
            "PartitionName=high Nodes=n[1-{nodes}] MaxTime=30 DefaultTime=5 State=UP PriorityTier=10"
        ),
    ];
    if prolog {
        lines.push("Prolog=/sim/prolog".to_owned());
    }
    if epilog {
        lines.push("Epilog=/sim/epilog".to_owned());
    }
    lines.join("\n") + "\n"
}
