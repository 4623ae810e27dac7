//! Which recordings are compared, in which order, and what is replaced in each beside the usual.
//!
//! Order matters: commands that change something come after those that show the scene as it was.

/// One replacement, made in the recording and in the run alike.
#[derive(Debug, Clone, Copy)]
pub enum Tweak {
    /// Rows and records of jobs that lean on an engine that does not exist yet.
    WithoutLeftOut,
    /// The same, in a table whose rows begin with something else: separator, and heading of the ids.
    WithoutLeftOutBy(char, &'static str),
    /// A table of columns of twenty: cells below these headings, and rows of jobs that are left out.
    Wide(&'static [&'static str]),
    /// The values of these `Key=value` pairs.
    Keys(&'static [&'static str]),
    /// Cells below these headings, with their separator.
    Columns(char, &'static [&'static str]),
    /// Order of lines: by priority, which fair share changes.
    Sorted,
    /// Ids of jobs that were submitted after the scene.
    JobNumbers,
    /// Names of lone nodes.
    Nodes,
    /// Lines with one of these texts.
    Without(&'static [&'static str]),
    /// A text of the recording only, and what stands for it.
    Recorded(&'static str, &'static str),
    /// A text of the run only, and what stands for it.
    Given(&'static str, &'static str),
    /// What follows this key in its line.
    RestOfLine(&'static str),
    /// Cells that end below these headings of a table with fixed columns.
    Under(&'static [&'static str]),
}

/// From here on small jobs must be able to start.
pub const NEEDS_ROOM: &str = "err-salloc-nodes";

use Tweak::{
    Columns, Given, JobNumbers, Keys, Nodes, Recorded, RestOfLine, Sorted, Under, Wide, Without,
    WithoutLeftOut, WithoutLeftOutBy,
};

/// A recording to compare.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// File in `data/`, without `.txt`.
    pub file: &'static str,
    /// What is replaced.
    pub tweaks: &'static [Tweak],
}

const fn case(file: &'static str, tweaks: &'static [Tweak]) -> Case {
    Case { file, tweaks }
}

/// The cancelled job: in the recording it came before the array's tasks.
const CANCELLED: Tweak = Recorded("           5 CANCELLED ", "           8 CANCELLED ");

const EXACT: &[Tweak] = &[];
const ROWS: &[Tweak] = &[WithoutLeftOut, Sorted];
const CUT_ROWS: &[Tweak] = &[WithoutLeftOut, CANCELLED, Sorted];
const PLACED_ROWS: &[Tweak] = &[WithoutLeftOut, Sorted, Nodes];
const LETTERS: &[Tweak] = &[
    WithoutLeftOutBy('|', "JOBID"),
    Recorded("|1002|", "|5|"),
    Recorded("|1003|", "|39|"),
    Given("|alice|60|NO|", "|nogroup|65534|NO|"),
    Given("|bob|39|NO|", "|nogroup|65534|NO|"),
    Columns(
        '|',
        &[
            "SLUID",
            "TIME_LEFT",
            "TIME",
            "START_TIME",
            "END_TIME",
            "SCHEDNODES",
        ],
    ),
    Sorted,
    Nodes,
];
const STATES: &[Tweak] = &[
    Recorded("5|CANCELLED by 1003|", "8|CANCELLED by 39|"),
    Sorted,
];
const WIDE_ROWS: &[Tweak] = &[
    Wide(&[
        "ALLOC_NODES",
        "ALLOC_SID",
        // Groups are those of the players.
        "GROUP",
        "UID",
        "SLUID",
        "PENDING_TIME",
        "TIME_LEFT",
        // The scene's folder is longer than the column.
        "STDOUT",
        "SCHEDNODES",
    ]),
    Sorted,
    Nodes,
];
const JOBS: &[Tweak] = &[
    WithoutLeftOut,
    Recorded("AllocNode:Sid=localhost:", "AllocNode:Sid=vm:"),
    Keys(&[
        "RunTime",
        "AllocNode:Sid",
        "SLUID",
        "CPU_IDs",
        "SecsPreSuspend",
        "StartTime",
        "EndTime",
        "LastSchedEval",
        "Scheduler",
        "PreemptEligibleTime",
        "SchedNodeList",
        "StdOut",
    ]),
    Nodes,
];
const STEPS: &[Tweak] = &[
    WithoutLeftOut,
    Recorded("UserId=1002", "UserId=5"),
    Recorded("UserId=1003", "UserId=39"),
    Keys(&["SrunHost:Pid"]),
    Nodes,
];
const NODES: &[Tweak] = &[
    Keys(&[
        "CPUAlloc",
        "CPULoad",
        "Port",
        "FreeMem",
        "AllocMem",
        "BootTime",
        "SlurmdStartTime",
        "LastBusyTime",
        "AllocTRES",
        "State",
        "GresUsed",
    ]),
    RestOfLine("OS"),
];
const NEW_JOBS: &[Tweak] = &[
    JobNumbers,
    // Whether a job starts at once is chance.
    Without(&[
        "queued and waiting for resources",
        "has been allocated resources",
        "Required node not available",
    ]),
];
/// Tasks that run side by side write in any order.
const TASKS: &[Tweak] = &[
    JobNumbers,
    Without(&[
        "queued and waiting for resources",
        "has been allocated resources",
    ]),
    Sorted,
];
const VARIABLES: &[Tweak] = &[
    Without(&[
        "SLURMD_DEBUG=",
        "SLURM_CONF=",
        "_TIME=",
        "_PORT=",
        "SLURM_TASK_PID=",
        "CUDA_VISIBLE_DEVICES=",
        "SLURM_JOB_UID=",
        "SLURM_JOB_GID=",
        "SLURM_JOB_GROUP=",
        "Pending job allocation",
        "SLURM_JOB_ID=",
        "SLURM_JOBID=",
        "queued and waiting for resources",
        "has been allocated resources",
    ]),
    JobNumbers,
    Nodes,
];
/// Factors. The recorded Slurm had tried to start job 11, which is exclusive, and counts the CPUs of whole nodes since then; job 9 was
/// calculated once more when it was 38 s old.
const FACTORS: &[Tweak] = &[
    WithoutLeftOut,
    Recorded("              8 main", "              5 main"),
    Recorded("11826          0", "11457          0"),
    Recorded("11269          0", "11268          0"),
    Recorded("        750 ", "        381 "),
    Recorded("0.00000275", "0.00000266"),
    Recorded("0.7500000", "0.3808594"),
    Recorded("0.0000628", "0.0000000"),
    Sorted,
];
const FACTORS_FREE: &[Tweak] = &[
    WithoutLeftOutBy(' ', "JOBID"),
    Recorded("\n8 alice", "\n5 alice"),
    Recorded("11826 0.00000275349521", "11457 0.00000266754796"),
    Recorded(" 750 0.7500000", " 381 0.3808594"),
    Recorded(
        "11269 0.00000262377042 0 0.0000628",
        "11268 0.00000262375579 0 0.0000000",
    ),
    Columns(' ', &["SLUID"]),
    Sorted,
];
/// How long the first jobs ran, and what the jobs have booked that are left out, differs.
const SHARES: &[Tweak] = &[Under(&["RawUsage", "TRESRunMins"])];
const SINFO: &[Tweak] = &[Columns('|', &["FREE_MEM", "CPU_LOAD", "CPUS(A/I/O/T)"])];

/// The recordings, in the order in which they are run.
pub const CASES: &[Case] = &[
    case("sinfo", EXACT),
    case("sinfo-N", EXACT),
    case("sinfo-N-l", EXACT),
    case("sinfo-N-o", EXACT),
    case("sinfo-O-all", SINFO),
    case("sinfo-R", EXACT),
    case("sinfo-R-l", EXACT),
    case("sinfo-T", EXACT),
    case("sinfo-a-r-d", EXACT),
    case("sinfo-badopt", EXACT),
    case("sinfo-l", EXACT),
    case("sinfo-n-bad", EXACT),
    case("sinfo-o-many", SINFO),
    case("sinfo-p-bad", EXACT),
    case("sinfo-s", EXACT),
    case("sinfo-t-bad", EXACT),
    case("sinfo-t-idle", EXACT),
    case("sinfo-version", EXACT),
    case("squeue", PLACED_ROWS),
    case("squeue-O-many", WIDE_ROWS),
    case("squeue-O-many2", WIDE_ROWS),
    case("squeue-P", ROWS),
    case("squeue-S", ROWS),
    case("squeue-S-u", ROWS),
    case("squeue-array", PLACED_ROWS),
    case("squeue-j-bad", ROWS),
    case("squeue-j-bad2", ROWS),
    case("squeue-l", PLACED_ROWS),
    case("squeue-me", ROWS),
    case("squeue-o-all", LETTERS),
    case("squeue-p-bad", ROWS),
    case("squeue-start", PLACED_ROWS),
    case("squeue-steps", PLACED_ROWS),
    case("squeue-t-all", CUT_ROWS),
    case("squeue-t-bad", ROWS),
    case("squeue-u-bad", ROWS),
    case("squeue-u-t", ROWS),
    case("squeue-version", ROWS),
    case("squeue-w", PLACED_ROWS),
    case("squeue-w-bad", ROWS),
    case("sprio", FACTORS),
    case("sprio-j-bad", EXACT),
    case("sprio-l", FACTORS),
    case("sprio-n", FACTORS),
    case("sprio-n-l", FACTORS),
    case("sprio-o", FACTORS_FREE),
    case("sprio-w", EXACT),
    case("sshare", SHARES),
    case("sshare-U", SHARES),
    case("sshare-a-P", &[Columns('|', &["RawUsage"])]),
    case("sshare-l-a", SHARES),
    case("scontrol-show-aliases", EXACT),
    case("scontrol-show-assoc_mgr", EXACT),
    case("scontrol-show-assoc_mgr-alice", EXACT),
    case("scontrol-show-assoc_mgr-qos", EXACT),
    case("scontrol-show-bad", EXACT),
    case("scontrol-show-config", EXACT),
    case("scontrol-show-daemons", EXACT),
    case("scontrol-show-dwstat", EXACT),
    case("scontrol-show-federation", EXACT),
    case("scontrol-show-hostlist", EXACT),
    case("scontrol-show-hostlistsorted", EXACT),
    case("scontrol-show-hostnames", EXACT),
    case("scontrol-show-job-all", JOBS),
    case("scontrol-show-job-array", JOBS),
    case("scontrol-show-job-array-task", JOBS),
    case("scontrol-show-job-bad", JOBS),
    case("scontrol-show-job-d", JOBS),
    case("scontrol-show-job-oneline", JOBS),
    case("scontrol-show-job-running", JOBS),
    case("scontrol-show-licenses", EXACT),
    case("scontrol-show-node", NODES),
    case("scontrol-show-node-bad", NODES),
    case("scontrol-show-node-d", NODES),
    case("scontrol-show-node-o", NODES),
    case("scontrol-show-partition", EXACT),
    case("scontrol-show-partition-bad", EXACT),
    case("scontrol-show-partition-o", EXACT),
    case("scontrol-show-reservation", EXACT),
    case("scontrol-show-reservation-bad", EXACT),
    case("scontrol-show-reservation-o", EXACT),
    case("scontrol-show-step", STEPS),
    case("scontrol-show-step-id", STEPS),
    case("scontrol-show-topology", EXACT),
    case("scontrol-badcmd", EXACT),
    case("scontrol-ping", EXACT),
    case("scontrol-version", EXACT),
    case("scontrol-token", EXACT),
    case("scontrol-write-batch", EXACT),
    case("batch-env", VARIABLES),
    case("version-all", EXACT),
    case("sacct-B", ROWS),
    case("sacct-a-X", ROWS),
    case("sacct-b", ROWS),
    case("sacct-bad-job", ROWS),
    case("sacct-badfield", ROWS),
    case("sacct-badstate", ROWS),
    case("sacct-badtime", ROWS),
    case("sacct-env", ROWS),
    case("sacct-helpformat", ROWS),
    case("sacct-l-P", ROWS),
    case("sacct-n-P-d", ROWS),
    case("sacct-o", ROWS),
    case("sacct-state", STATES),
    case("sacct", ROWS),
    case("sacctmgr-account-s", EXACT),
    case("sacctmgr-assoc-n-P-fmt", EXACT),
    case("sacctmgr-assoc-p", EXACT),
    case("sacctmgr-assoc-tree", EXACT),
    case("sacctmgr-badent", EXACT),
    case("sacctmgr-dump", EXACT),
    case("sacctmgr-qos-fmt", EXACT),
    case("sacctmgr-qos-p", EXACT),
    case("sacctmgr-show-account", EXACT),
    case("sacctmgr-show-assoc", EXACT),
    case("sacctmgr-show-assoc-alice", EXACT),
    case("sacctmgr-show-cluster", EXACT),
    case("sacctmgr-show-config", EXACT),
    case("sacctmgr-show-event", EXACT),
    case("sacctmgr-show-problem", EXACT),
    case("sacctmgr-show-qos", EXACT),
    case("sacctmgr-show-runaway", EXACT),
    case("sacctmgr-show-stats", EXACT),
    case("sacctmgr-show-transaction", EXACT),
    case("sacctmgr-show-tres", EXACT),
    case("sacctmgr-show-user", EXACT),
    case("sacctmgr-show-wckey", EXACT),
    case("sacctmgr-user-s", EXACT),
    case("scontrol-hold-bad", EXACT),
    case("scontrol-hold-other", EXACT),
    case("scontrol-hold-ok", EXACT),
    case("scontrol-hold-show", JOBS),
    case("scontrol-release-ok", EXACT),
    case("scontrol-requeue-bad", EXACT),
    case("scontrol-suspend-user", EXACT),
    case("scontrol-suspend-root", EXACT),
    case("squeue-suspended", ROWS),
    case("scontrol-resume-root", EXACT),
    case("scontrol-top-user", EXACT),
    case("scontrol-update-job-bad", EXACT),
    case("scontrol-update-job-badfield", EXACT),
    case("scontrol-update-job-badtime", EXACT),
    case("scontrol-update-job-name", EXACT),
    case("scontrol-update-job-prio", EXACT),
    case("scontrol-update-job-time-user", EXACT),
    case("scontrol-update-node-bad", EXACT),
    case("scontrol-update-node-badstate", EXACT),
    case("scontrol-update-node-noreason", EXACT),
    case("scontrol-update-node-user", EXACT),
    case("scontrol-update-part-bad", EXACT),
    case("scontrol-update-part-user", EXACT),
    case("scontrol-create-resv-bad", EXACT),
    case("scontrol-create-resv-conflict", EXACT),
    case("scontrol-create-resv-noend", EXACT),
    case("scontrol-create-resv-user", EXACT),
    case("scontrol-delete-resv-bad", EXACT),
    case("sinfo-after", EXACT),
    case("sacctmgr-add-account", EXACT),
    case("sacctmgr-add-account-again", EXACT),
    case("sacctmgr-add-user", EXACT),
    case("sacctmgr-add-user-alice", EXACT),
    case("sacctmgr-add-user-badacct", EXACT),
    case("sacctmgr-add-user-nounix", EXACT),
    case("sacctmgr-add-qos", EXACT),
    case("sacctmgr-modify-badfield", EXACT),
    case("sacctmgr-modify-none", EXACT),
    case("sacctmgr-modify-user", EXACT),
    case("sacctmgr-del-user", EXACT),
    case("sacctmgr-del-qos", EXACT),
    case("sacctmgr-del-account", EXACT),
    // Job 18 waits for a reservation in the recording, so it is not eligible.
    case(
        "sacctmgr-del-account-inuse",
        &[Tweak::Without(&["JobID = 18 "])],
    ),
    case("err-salloc-nodes", NEW_JOBS),
    case("err-sbatch-account", NEW_JOBS),
    case("err-sbatch-array", NEW_JOBS),
    case("err-sbatch-array-big", NEW_JOBS),
    case("err-sbatch-badopt", NEW_JOBS),
    case("err-sbatch-begin", NEW_JOBS),
    case("err-sbatch-cpus", NEW_JOBS),
    case("err-sbatch-crlf", NEW_JOBS),
    case("err-sbatch-deadline", NEW_JOBS),
    case("err-sbatch-dep-syntax", NEW_JOBS),
    case("err-sbatch-dep-unknown", NEW_JOBS),
    case("err-sbatch-directive", NEW_JOBS),
    case("err-sbatch-empty", NEW_JOBS),
    case("err-sbatch-feature", NEW_JOBS),
    case("err-sbatch-gpus", NEW_JOBS),
    case("err-sbatch-gres", NEW_JOBS),
    case("err-sbatch-gres-many", NEW_JOBS),
    case("err-sbatch-license", NEW_JOBS),
    case("err-sbatch-license-many", NEW_JOBS),
    case("err-sbatch-mailtype", NEW_JOBS),
    case("err-sbatch-mem", NEW_JOBS),
    case("err-sbatch-mem-bad", NEW_JOBS),
    case("err-sbatch-memboth", NEW_JOBS),
    case("err-sbatch-nice", NEW_JOBS),
    case("err-sbatch-noassoc", NEW_JOBS),
    case("err-sbatch-nodelist", NEW_JOBS),
    case("err-sbatch-nodelist-count", NEW_JOBS),
    case("err-sbatch-nodes", NEW_JOBS),
    case("err-sbatch-nodes-bad", NEW_JOBS),
    case("err-sbatch-nofile", NEW_JOBS),
    case("err-sbatch-noshebang", NEW_JOBS),
    case("err-sbatch-partition", NEW_JOBS),
    case("err-sbatch-priority", NEW_JOBS),
    case("err-sbatch-qos", NEW_JOBS),
    case("err-sbatch-qos-limit", NEW_JOBS),
    case("err-sbatch-qos-notallowed", NEW_JOBS),
    case("err-sbatch-qos-submit", NEW_JOBS),
    case("err-sbatch-reservation", NEW_JOBS),
    case("err-sbatch-reservation-denied", NEW_JOBS),
    case("err-sbatch-signal", NEW_JOBS),
    case("err-sbatch-time", NEW_JOBS),
    case("err-sbatch-time-toolong", NEW_JOBS),
    case("err-sbatch-uid", NEW_JOBS),
    case("err-scancel-bad", NEW_JOBS),
    case("err-scancel-badid", NEW_JOBS),
    case("err-scancel-badsig", NEW_JOBS),
    case("err-scancel-nojob", NEW_JOBS),
    case("err-scancel-other", NEW_JOBS),
    case("err-srun-account", NEW_JOBS),
    case("err-srun-enoent", NEW_JOBS),
    case("err-srun-exit", NEW_JOBS),
    case("err-srun-immediate", NEW_JOBS),
    case("err-srun-jobid", NEW_JOBS),
    case("err-srun-noassoc", NEW_JOBS),
    case("err-srun-nocmd", NEW_JOBS),
    case("err-srun-nodes", NEW_JOBS),
    case("err-srun-partition", NEW_JOBS),
    case("err-srun-signal", NEW_JOBS),
    case("err-srun-time", NEW_JOBS),
    case("ok-salloc", VARIABLES),
    case("ok-sbatch", NEW_JOBS),
    case("ok-sbatch-parsable", NEW_JOBS),
    case("ok-sbatch-testonly", NEW_JOBS),
    case("ok-sbatch-v", NEW_JOBS),
    case("ok-sbatch-wait", NEW_JOBS),
    case("ok-scancel-name", NEW_JOBS),
    case("ok-scancel-v", NEW_JOBS),
    case("ok-srun", TASKS),
    case("ok-srun-env", VARIABLES),
    case("ok-srun-multi", NEW_JOBS),
    case("ok-srun-v", NEW_JOBS),
];
