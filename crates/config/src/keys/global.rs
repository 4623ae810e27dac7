//! Global keys of slurm.conf: one row each.
//!
//! Data only. Columns: name, kind of value, default (empty = unset), class, what is needed to apply a change, unit, note. Rows are in
//! the order of the reference page. A default is written as it would be in the file. Source: `slurm.conf(5)`.

use super::{Apply, Class, Key, Kind, key, obsolete};

const U16: Kind = Kind::Number { min: 0, max: 65533 };
const U32: Kind = Kind::Number {
    min: 0,
    max: 4_294_967_293,
};
const U64: Kind = Kind::Number {
    min: 0,
    max: u64::MAX - 2,
};

#[rustfmt::skip]
const LOG_LEVELS: &[&str] = &[
    "quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5", "0", "1",
    "2", "3", "4", "5", "6", "7", "8", "9",
];

#[rustfmt::skip]
const LOG_TIME_FORMAT: &[&str] = &[
    "iso8601", "iso8601_ms", "rfc5424", "rfc5424_ms", "rfc3339", "clock", "short", "thread_id",
    "format_stderr",
];

#[rustfmt::skip]
const AUTH_ALT_PARAMETERS: &[&str] = &[
    "jwt_key=", "jwks=", "disable_token_creation", "max_token_lifespan=", "userclaimfield=",
];

#[rustfmt::skip]
const PRIVATE_DATA: &[&str] = &[
    "accounts", "cloud", "events", "jobs", "nodes", "partitions", "reservations", "usage", "users", "none",
];

#[rustfmt::skip]
const SCHEDULER_PARAMETERS: &[&str] = &[
    "bf_allow_magnetic_slot", "bf_busy_nodes", "bf_continue", "bf_hetjob_immediate", "bf_hetjob_prio=",
    "bf_interval=", "bf_job_part_count_reserve=", "bf_licenses", "bf_max_job_array_resv=",
    "bf_max_job_assoc=", "bf_max_job_part=", "bf_max_job_start=", "bf_max_job_test=", "bf_max_job_user=",
    "bf_max_job_user_part=", "bf_max_time=", "bf_min_age_reserve=", "bf_min_prio_reserve=",
    "bf_node_space_size=", "bf_one_resv_per_job", "bf_resolution=", "bf_running_job_reserve",
    "bf_topopt_enable", "bf_topopt_iterations=", "bf_window=", "bf_window_linear=", "bf_yield_interval=",
    "bf_yield_rpc_cnt=", "bf_yield_sleep=", "allow_zero_lic", "assoc_limit_stop", "batch_sched_delay=",
    "bb_array_stage_cnt=", "build_queue_timeout=", "correspond_after_task_cnt=", "default_queue_depth=",
    "defer", "defer_batch", "delay_boot=", "disable_job_shrink", "disable_hetjob_steps",
    "enable_hetjob_steps", "enable_user_top", "extra_constraints", "ignore_constraint_validation",
    "ignore_prefer_validation", "Ignore_NUMA", "max_array_tasks=", "max_rpc_cnt=", "max_sched_time=",
    "max_script_size=", "max_submit_line_size=", "max_switch_wait=", "no_backup_scheduling",
    "nohold_on_prolog_fail", "pack_serial_at_end", "partition_job_depth=", "reduce_completing_frag",
    "requeue_delay=", "requeue_on_resume_failure", "salloc_wait_nodes", "sbatch_wait_nodes",
    "sched_interval=", "sched_max_job_start=", "sched_min_interval=", "spec_cores_first", "step_retry_count=",
    "step_retry_time=", "time_min_as_soft_limit", "whole_hetjob", "kill_invalid_depend",
    "disable_remote_singleton", "preempt_youngest_first", "preempt_strict_order", "preempt_reorder_count=",
    "preempt_send_user_signal", "max_depend_depth=",
];

#[rustfmt::skip]
const SELECT_TYPE: &[&str] = &[
    "select/cons_tres", "select/linear", "select/cons_res",
];

#[rustfmt::skip]
const SELECT_TYPE_PARAMETERS: &[&str] = &[
    "CR_CPU", "CR_CPU_Memory", "CR_Core", "CR_Core_Memory", "CR_Socket", "CR_Socket_Memory", "CR_Memory",
    "CR_ONE_TASK_PER_CORE", "CR_CORE_DEFAULT_DIST_BLOCK", "CR_LLN", "CR_Pack_Nodes", "CR_NO_DIST_TOPO_BLOCK",
    "LL_SHARED_GRES", "MULTIPLE_SHARING_GRES_PJ", "ENFORCE_BINDING_GRES", "ONE_TASK_PER_SHARING_GRES",
];

#[rustfmt::skip]
const TOPOLOGY_PLUGIN: &[&str] = &[
    "topology/flat", "topology/default", "topology/none", "topology/tree", "topology/block",
];

#[rustfmt::skip]
const PREEMPT_TYPE: &[&str] = &[
    "preempt/none", "preempt/partition_prio", "preempt/qos",
];

#[rustfmt::skip]
const PREEMPT_MODE: &[&str] = &[
    "OFF", "CANCEL", "REQUEUE", "SUSPEND", "ON", "GANG", "PRIORITY", "WITHIN",
];

#[rustfmt::skip]
const PREEMPT_PARAMETERS: &[&str] = &[
    "min_exempt_priority=", "reclaim_licenses", "reorder_count=", "send_user_signal", "strict_order",
    "suspend_grace_time=", "youngest_first",
];

#[rustfmt::skip]
const PRIORITY_USAGE_RESET_PERIOD: &[&str] = &[
    "NONE", "NOW", "DAILY", "WEEKLY", "MONTHLY", "QUARTERLY", "YEARLY",
];

#[rustfmt::skip]
const PRIORITY_FLAGS: &[&str] = &[
    "ACCRUE_ALWAYS", "CALCULATE_RUNNING", "DEPTH_OBLIVIOUS", "FAIR_TREE", "NO_FAIR_TREE", "INCR_ONLY",
    "MAX_TRES", "MAX_TRES_GRES", "NO_NORMAL_ASSOC", "NO_NORMAL_PART", "NO_NORMAL_QOS", "NO_NORMAL_TRES",
    "NO_NORMAL_ALL", "SMALL_RELATIVE_TO_TIME",
];

#[rustfmt::skip]
const DEPENDENCY_PARAMETERS: &[&str] = &[
    "disable_remote_singleton", "kill_invalid_depend", "max_depend_depth=",
];

#[rustfmt::skip]
const ENFORCE_PART_LIMITS: &[&str] = &[
    "NO", "ANY", "ALL", "YES", "TRUE", "FALSE", "0", "1",
];

#[rustfmt::skip]
const PROPAGATE_RESOURCE_LIMITS: &[&str] = &[
    "ALL", "NONE", "AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK",
];

#[rustfmt::skip]
const PROLOG_FLAGS: &[&str] = &[
    "Alloc", "Contain", "DeferBatch", "NoHold", "ForceRequeueOnFail", "RunInJob", "Serial", "X11",
];

#[rustfmt::skip]
const HEALTH_CHECK_NODE_STATE: &[&str] = &[
    "ALLOC", "ANY", "CYCLE", "IDLE", "NONDRAINED_IDLE", "MIXED", "START_ONLY", "REBOOT_ONLY",
];

#[rustfmt::skip]
const PROCTRACK_TYPE: &[&str] = &[
    "proctrack/cgroup", "proctrack/linuxproc", "proctrack/pgid",
];

#[rustfmt::skip]
const TASK_PLUGIN: &[&str] = &[
    "task/affinity", "task/cgroup", "task/none", "affinity", "cgroup", "none",
];

#[rustfmt::skip]
const TASK_PLUGIN_PARAM: &[&str] = &[
    "None", "Cores", "Sockets", "Threads", "Boards", "Verbose", "Autobind=", "SlurmdOffSpec", "OOMKillStep",
    "Sched", "Cpusets",
];

#[rustfmt::skip]
const RECONFIG_FLAGS: &[&str] = &[
    "KeepPartInfo", "KeepPartState", "KeepPowerSaveSettings",
];

#[rustfmt::skip]
const ACCOUNTING_STORAGE_TYPE: &[&str] = &[
    "accounting_storage/none", "accounting_storage/slurmdbd", "accounting_storage/sqlite",
    "accounting_storage/postgres",
];

#[rustfmt::skip]
const ACCOUNTING_STORAGE_ENFORCE: &[&str] = &[
    "none", "associations", "limits", "qos", "safe", "wckeys", "nojobs", "nosteps", "all",
];

#[rustfmt::skip]
const ACCOUNTING_STORE_FLAGS: &[&str] = &[
    "job_comment", "job_env", "job_extra", "job_script", "no_stdio",
];

#[rustfmt::skip]
const JOB_ACCT_GATHER_TYPE: &[&str] = &[
    "jobacct_gather/none", "jobacct_gather/linux", "jobacct_gather/cgroup",
];

#[rustfmt::skip]
const JOB_ACCT_GATHER_PARAMS: &[&str] = &[
    "UsePss", "NoShared", "OverMemoryKill", "DisableGPUAcct", "no_file_cache",
];

/// Identity, daemons, ports.
#[rustfmt::skip] // one row per line
pub(super) const IDENTITY: &[Key] = &[
    key("ClusterName", Kind::Text, "", Class::A, Apply::Restart, "", "lower case, <=40 chars; must match state dir"),
    key("SlurmctldHost", Kind::Lines, "", Class::A, Apply::Restart, "", "repeatable line `host(addr)`, first = primary"),
    key("SlurmUser", Kind::Text, "root", Class::A, Apply::Restart, "", ""),
    key("SlurmdUser", Kind::Text, "root", Class::B, Apply::Restart, "", ""),
    key("SlurmctldPort", Kind::PortRange, "6817", Class::A, Apply::Restart, "", ""),
    key("SlurmdPort", Kind::Number { min: 1, max: 65535 }, "6818", Class::A, Apply::Restart, "", ""),
    key("StateSaveLocation", Kind::Text, "/var/spool", Class::A, Apply::Restart, "", "controller state; shared for backup"),
    key("SlurmdSpoolDir", Kind::Text, "/var/spool/slurmd", Class::A, Apply::Restart, "", "%h %n"),
    key("SlurmctldPidFile", Kind::Text, "/var/run/slurmctld.pid", Class::B, Apply::Restart, "", ""),
    key("SlurmdPidFile", Kind::Text, "/var/run/slurmd.pid", Class::B, Apply::Restart, "", ""),
    key("SlurmctldLogFile", Kind::Text, "", Class::A, Apply::Reconfigure, "", ""),
    key("SlurmdLogFile", Kind::Text, "", Class::A, Apply::Reconfigure, "", "%h %n"),
    key("SlurmctldDebug", Kind::OneOf(LOG_LEVELS), "info", Class::A, Apply::Reconfigure, "", "quiet fatal error info verbose debug..debug5"),
    key("SlurmdDebug", Kind::OneOf(LOG_LEVELS), "info", Class::A, Apply::Reconfigure, "", ""),
    key("SlurmctldSyslogDebug", Kind::OneOf(LOG_LEVELS), "", Class::C, Apply::Reconfigure, "", ""),
    key("SlurmdSyslogDebug", Kind::OneOf(LOG_LEVELS), "", Class::C, Apply::Reconfigure, "", ""),
    key("SlurmSchedLogFile", Kind::Text, "", Class::C, Apply::Reconfigure, "", ""),
    key("SlurmSchedLogLevel", U16, "0", Class::C, Apply::Reconfigure, "", ""),
    key("DebugFlags", Kind::Text, "", Class::B, Apply::Reconfigure, "", "subsystems: Backfill, Priority, Reservation, …"),
    key("LogTimeFormat", Kind::List(LOG_TIME_FORMAT), "iso8601_ms", Class::B, Apply::Reconfigure, "", "iso8601[_ms], rfc5424[_ms], rfc3339, clock, short, thread_id, format_stderr"),
    key("SlurmctldTimeout", U16, "120", Class::B, Apply::Reconfigure, "sec", ""),
    key("SlurmdTimeout", U16, "300", Class::A, Apply::Reconfigure, "sec", "0 never"),
    key("MessageTimeout", U16, "10", Class::A, Apply::Reconfigure, "sec", ""),
    key("TCPTimeout", U16, "2", Class::B, Apply::Reconfigure, "sec", ""),
    key("TreeWidth", U16, "16", Class::B, Apply::Reconfigure, "", ""),
    key("CommunicationParameters", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("SlurmctldAddr", Kind::Text, "", Class::B, Apply::Restart, "", ""),
    key("ControlMachine", Kind::Text, "", Class::C, Apply::Restart, "", "old spelling"),
    key("ControlAddr", Kind::Text, "", Class::C, Apply::Restart, "", "old"),
    key("BackupController", Kind::Text, "", Class::C, Apply::Restart, "", "old"),
    key("BackupAddr", Kind::Text, "", Class::C, Apply::Restart, "", "old"),
    key("SlurmctldParameters", Kind::Text, "", Class::B, Apply::Reconfigure, "", "enable_configless, idle_on_node_suspend, …"),
    key("SlurmdParameters", Kind::Text, "", Class::B, Apply::Restart, "", "config_overrides numa_node_as_socket l3cache_as_socket allow_ecores shutdown_on_reboot"),
    key("SlurmctldPrimaryOnProg", Kind::Text, "", Class::C, Apply::Reconfigure, "", ""),
    key("SlurmctldPrimaryOffProg", Kind::Text, "", Class::C, Apply::Reconfigure, "", ""),
    key("PluginDir", Kind::Text, "prefix/lib/slurm", Class::C, Apply::Restart, "", ""),
    key("PlugStackConfig", Kind::Text, "plugstack.conf", Class::C, Apply::Restart, "", "SPANK"),
];

/// Security.
#[rustfmt::skip] // one row per line
pub(super) const SECURITY: &[Key] = &[
    key("AuthType", Kind::OneOf(&["auth/munge", "auth/slurm"]), "auth/munge", Class::A, Apply::Restart, "", "auth/munge, auth/slurm"),
    key("AuthInfo", Kind::Text, "", Class::A, Apply::Restart, "", "socket=, ttl=, cred_expire=, use_client_ids"),
    key("AuthAltTypes", Kind::List(&["auth/jwt"]), "", Class::A, Apply::Restart, "", "auth/jwt"),
    key("AuthAltParameters", Kind::OpenList(AUTH_ALT_PARAMETERS), "", Class::A, Apply::Restart, "", "jwt_key=, jwks=, disable_token_creation, max_token_lifespan"),
    key("CredType", Kind::OneOf(&["cred/munge", "cred/slurm", "cred/none"]), "cred/munge", Class::B, Apply::Restart, "", "cred/slurm"),
    key("HashPlugin", Kind::Text, "hash/k12", Class::C, Apply::Restart, "", ""),
    key("TLSType", Kind::Text, "tls/none", Class::C, Apply::Restart, "", ""),
    key("TLSParameters", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("PrivateData", Kind::OpenList(PRIVATE_DATA), "", Class::A, Apply::Reconfigure, "", "accounts events jobs nodes partitions reservations usage users"),
    key("DisableRootJobs", Kind::Bool, "no", Class::B, Apply::Reconfigure, "", ""),
    key("MCSPlugin", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("MCSParameters", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("UsePAM", Kind::Bool, "no", Class::C, Apply::Reconfigure, "", ""),
];

/// Scheduling.
#[rustfmt::skip] // one row per line
pub(super) const SCHEDULING: &[Key] = &[
    key("SchedulerType", Kind::OneOf(&["sched/backfill", "sched/builtin"]), "sched/backfill", Class::A, Apply::Restart, "", "sched/builtin"),
    key("SchedulerParameters", Kind::OpenList(SCHEDULER_PARAMETERS), "", Class::A, Apply::Reconfigure, "", ""),
    key("SchedulerTimeSlice", Kind::Number { min: 5, max: 65533 }, "30", Class::A, Apply::Reconfigure, "sec", "5..65533"),
    key("SelectType", Kind::OneOf(SELECT_TYPE), "select/cons_tres", Class::A, Apply::Restart, "", "select/linear"),
    key("SelectTypeParameters", Kind::List(SELECT_TYPE_PARAMETERS), "", Class::A, Apply::Reconfigure, "", ""),
    key("TopologyPlugin", Kind::OneOf(TOPOLOGY_PLUGIN), "topology/flat", Class::A, Apply::Restart, "", "tree, block; ring/torus3d C"),
    key("TopologyParam", Kind::Text, "", Class::C, Apply::Restart, "", "Dragonfly RoutePart RouteTree TopoOptional BlockAsNodeRank SwitchAsNodeRank"),
    key("PreemptType", Kind::OneOf(PREEMPT_TYPE), "", Class::A, Apply::Restart, "", "preempt/partition_prio, preempt/qos"),
    key("PreemptMode", Kind::List(PREEMPT_MODE), "OFF", Class::A, Apply::Restart, "", ""),
    key("PreemptParameters", Kind::OpenList(PREEMPT_PARAMETERS), "", Class::A, Apply::Reconfigure, "", ""),
    key("PreemptExemptTime", Kind::Duration, "-1", Class::A, Apply::Reconfigure, "", "time string"),
    key("PriorityType", Kind::OneOf(&["priority/multifactor", "priority/basic"]), "priority/multifactor", Class::A, Apply::Restart, "", "priority/basic"),
    key("PriorityWeightAge", U32, "0", Class::A, Apply::Reconfigure, "", ""),
    key("PriorityWeightAssoc", U32, "0", Class::A, Apply::Reconfigure, "", ""),
    key("PriorityWeightFairshare", U32, "0", Class::A, Apply::Reconfigure, "", ""),
    key("PriorityWeightJobSize", U32, "0", Class::A, Apply::Reconfigure, "", ""),
    key("PriorityWeightPartition", U32, "0", Class::A, Apply::Reconfigure, "", ""),
    key("PriorityWeightQOS", U32, "0", Class::A, Apply::Reconfigure, "", ""),
    key("PriorityWeightTRES", Kind::TresWeights, "", Class::A, Apply::Reconfigure, "", "`CPU=1000,Mem=2000,GRES/gpu=3000`"),
    key("PriorityMaxAge", Kind::Duration, "7-0", Class::A, Apply::Reconfigure, "", ""),
    key("PriorityDecayHalfLife", Kind::Duration, "7-0", Class::A, Apply::Reconfigure, "", ""),
    key("PriorityCalcPeriod", Kind::Duration, "5", Class::A, Apply::Reconfigure, "", ""),
    key("PriorityUsageResetPeriod", Kind::OneOf(PRIORITY_USAGE_RESET_PERIOD), "NONE", Class::A, Apply::Reconfigure, "", ""),
    key("PriorityFavorSmall", Kind::Bool, "no", Class::A, Apply::Reconfigure, "", ""),
    key("PriorityFlags", Kind::List(PRIORITY_FLAGS), "", Class::A, Apply::Reconfigure, "", ""),
    key("PriorityParameters", Kind::Text, "", Class::C, Apply::Reconfigure, "", ""),
    key("PrioritySiteFactorPlugin", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("PrioritySiteFactorParameters", Kind::Text, "", Class::C, Apply::Reconfigure, "", ""),
    key("FairShareDampeningFactor", U16, "1", Class::A, Apply::Reconfigure, "", "classic only"),
    key("DependencyParameters", Kind::OpenList(DEPENDENCY_PARAMETERS), "", Class::B, Apply::Reconfigure, "", "kill_invalid_depend disable_remote_singleton max_depend_depth="),
    key("CompleteWait", U16, "0", Class::A, Apply::Reconfigure, "sec", ""),
    key("EnforcePartLimits", Kind::OneOf(ENFORCE_PART_LIMITS), "NO", Class::A, Apply::Reconfigure, "", "NO, ANY(=YES), ALL"),
    key("OverTimeLimit", U16, "0", Class::A, Apply::Reconfigure, "min", "min, UNLIMITED"),
    key("KillWait", U16, "30", Class::A, Apply::Reconfigure, "sec", ""),
    key("ResvOverRun", U16, "0", Class::A, Apply::Reconfigure, "min", "min"),
    key("ResvProlog", Kind::Text, "", Class::B, Apply::Reconfigure, "", ""),
    key("ResvEpilog", Kind::Text, "", Class::B, Apply::Reconfigure, "", ""),
    key("DefMemPerCPU", U64, "0", Class::A, Apply::Reconfigure, "MiB", "MiB"),
    key("DefMemPerNode", U64, "0", Class::A, Apply::Reconfigure, "MiB", ""),
    key("DefMemPerGPU", U64, "0", Class::A, Apply::Reconfigure, "MiB", ""),
    key("DefCPUPerGPU", U64, "", Class::A, Apply::Reconfigure, "", ""),
    key("MaxMemPerCPU", U64, "0", Class::A, Apply::Reconfigure, "MiB", ""),
    key("MaxMemPerNode", U64, "0", Class::A, Apply::Reconfigure, "MiB", ""),
    key("Licenses", Kind::Licenses, "", Class::A, Apply::Reconfigure, "", "`a:2,b`"),
    key("LicenseParameters", Kind::Text, "", Class::C, Apply::Reconfigure, "", "RemoteFuzzyMatch"),
    key("GresTypes", Kind::Text, "", Class::A, Apply::Restart, "", ""),
    key("AllowSpecResourcesUsage", Kind::Bool, "no", Class::C, Apply::Reconfigure, "", ""),
    key("NodeFeaturesPlugins", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("FederationParameters", Kind::Text, "", Class::C, Apply::Reconfigure, "", ""),
];

/// Jobs.
#[rustfmt::skip] // one row per line
pub(super) const JOBS: &[Key] = &[
    key("FirstJobId", U32, "1", Class::A, Apply::Restart, "", ""),
    key("MaxJobId", U32, "67043328", Class::A, Apply::Restart, "", "wraps to FirstJobId"),
    key("MaxJobCount", U32, "10000", Class::A, Apply::Restart, "", ""),
    key("MinJobAge", U32, "300", Class::A, Apply::Reconfigure, "sec", "0 = never purge"),
    key("MaxArraySize", Kind::Number { min: 0, max: 4_000_001 }, "1001", Class::A, Apply::Reconfigure, "", "max 4000001"),
    key("MaxStepCount", U32, "40000", Class::A, Apply::Reconfigure, "", ""),
    key("MaxTasksPerNode", U16, "512", Class::A, Apply::Reconfigure, "", ""),
    key("MaxNodeCount", U32, "", Class::B, Apply::Restart, "", "dynamic nodes"),
    key("JobRequeue", Kind::Number { min: 0, max: 1 }, "1", Class::A, Apply::Reconfigure, "", ""),
    key("MaxBatchRequeue", U32, "5", Class::A, Apply::Reconfigure, "", ""),
    key("RequeueExit", Kind::ExitCodes, "", Class::A, Apply::Reconfigure, "", "`1-9,18`"),
    key("RequeueExitHold", Kind::ExitCodes, "", Class::A, Apply::Reconfigure, "", ""),
    key("JobFileAppend", Kind::Number { min: 0, max: 1 }, "0", Class::A, Apply::Reconfigure, "", ""),
    key("BatchStartTimeout", U16, "10", Class::A, Apply::Reconfigure, "sec", ""),
    key("InactiveLimit", U16, "0", Class::A, Apply::Reconfigure, "sec", ""),
    key("WaitTime", U16, "0", Class::A, Apply::Reconfigure, "sec", ""),
    key("KillOnBadExit", Kind::Number { min: 0, max: 1 }, "0", Class::A, Apply::Reconfigure, "", ""),
    key("JobSubmitPlugins", Kind::Text, "", Class::B, Apply::Restart, "", "lua or own hook"),
    key("CliFilterPlugins", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("CliFilterParameters", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("ScronParameters", Kind::OpenList(&["enable", "explicit_scancel"]), "", Class::B, Apply::Reconfigure, "", "enable, explicit_scancel"),
    key("MailProg", Kind::Text, "/bin/mail", Class::A, Apply::Reconfigure, "", ""),
    key("MailDomain", Kind::Text, "", Class::A, Apply::Reconfigure, "", ""),
    key("InteractiveStepOptions", Kind::Text, "--interactive --preserve-env --pty $SHELL", Class::B, Apply::Reconfigure, "", ""),
    key("LaunchParameters", Kind::Text, "", Class::B, Apply::Reconfigure, "", "use_interactive_step test_exec enable_nss_slurm slurmstepd_memlock"),
    key("SallocDefaultCommand", Kind::Text, "", Class::C, Apply::Reconfigure, "", ""),
    key("SrunPortRange", Kind::PortRange, "", Class::A, Apply::Reconfigure, "", ""),
    key("SrunProlog", Kind::Text, "", Class::B, Apply::Reconfigure, "", ""),
    key("SrunEpilog", Kind::Text, "", Class::B, Apply::Reconfigure, "", ""),
    key("MpiDefault", Kind::Text, "", Class::B, Apply::Reconfigure, "", "none, pmi2, pmix"),
    key("MpiParams", Kind::Text, "", Class::C, Apply::Reconfigure, "", "ports=a-b"),
    key("PropagateResourceLimits", Kind::List(PROPAGATE_RESOURCE_LIMITS), "ALL", Class::A, Apply::Reconfigure, "", "ALL NONE or list"),
    key("PropagateResourceLimitsExcept", Kind::List(PROPAGATE_RESOURCE_LIMITS), "", Class::A, Apply::Reconfigure, "", ""),
    key("PropagatePrioProcess", Kind::Number { min: 0, max: 2 }, "0", Class::B, Apply::Reconfigure, "", ""),
    key("X11Parameters", Kind::Text, "", Class::C, Apply::Reconfigure, "", ""),
    key("BcastParameters", Kind::Text, "", Class::C, Apply::Reconfigure, "", ""),
    key("BcastExclude", Kind::Text, "/lib,/usr/lib,/lib64,/usr/lib64", Class::C, Apply::Reconfigure, "", ""),
];

/// Node agent.
#[rustfmt::skip] // one row per line
pub(super) const NODE_AGENT: &[Key] = &[
    key("Prolog", Kind::Lines, "", Class::A, Apply::Reconfigure, "", "repeatable, glob"),
    key("Epilog", Kind::Lines, "", Class::A, Apply::Reconfigure, "", ""),
    key("PrologSlurmctld", Kind::Lines, "", Class::A, Apply::Reconfigure, "", ""),
    key("EpilogSlurmctld", Kind::Lines, "", Class::A, Apply::Reconfigure, "", ""),
    key("TaskProlog", Kind::Text, "", Class::A, Apply::Reconfigure, "", ""),
    key("TaskEpilog", Kind::Text, "", Class::A, Apply::Reconfigure, "", ""),
    key("PrologFlags", Kind::List(PROLOG_FLAGS), "", Class::A, Apply::Reconfigure, "", ""),
    key("PrologEpilogTimeout", U16, "", Class::A, Apply::Reconfigure, "", ""),
    key("PrologTimeout", U16, "", Class::A, Apply::Reconfigure, "", ""),
    key("EpilogTimeout", U16, "", Class::A, Apply::Reconfigure, "", ""),
    key("EpilogMsgTime", U32, "2000", Class::B, Apply::Reconfigure, "usec", "µs"),
    key("PrEpPlugins", Kind::Text, "prep/script", Class::C, Apply::Restart, "", ""),
    key("PrEpParameters", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("HealthCheckProgram", Kind::Text, "", Class::A, Apply::Reconfigure, "", ""),
    key("HealthCheckInterval", U16, "0", Class::A, Apply::Reconfigure, "sec", ""),
    key("HealthCheckNodeState", Kind::List(HEALTH_CHECK_NODE_STATE), "ANY", Class::A, Apply::Reconfigure, "", ""),
    key("HealthCheckTimeout", U16, "60", Class::A, Apply::Reconfigure, "sec", ""),
    key("ReturnToService", Kind::Number { min: 0, max: 2 }, "0", Class::A, Apply::Reconfigure, "", ""),
    key("RebootProgram", Kind::Text, "", Class::B, Apply::Reconfigure, "", ""),
    key("UnkillableStepProgram", Kind::Text, "", Class::A, Apply::Reconfigure, "", ""),
    key("UnkillableStepTimeout", U16, "", Class::A, Apply::Reconfigure, "sec", ""),
    key("ProctrackType", Kind::OneOf(PROCTRACK_TYPE), "proctrack/cgroup", Class::A, Apply::Restart, "", "linuxproc, pgid B"),
    key("TaskPlugin", Kind::List(TASK_PLUGIN), "", Class::A, Apply::Restart, "", "task/affinity, task/cgroup"),
    key("TaskPluginParam", Kind::List(TASK_PLUGIN_PARAM), "", Class::A, Apply::Reconfigure, "", "None Cores Sockets Threads Verbose Autobind= SlurmdOffSpec OOMKillStep"),
    key("TmpFS", Kind::Text, "/tmp", Class::A, Apply::Reconfigure, "", ""),
    key("NamespaceType", Kind::Text, "", Class::C, Apply::Restart, "", "JobContainerType = old"),
    key("JobContainerType", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("SwitchType", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("SwitchParameters", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("CpuFreqDef", Kind::Text, "", Class::C, Apply::Reconfigure, "", ""),
    key("CpuFreqGovernors", Kind::Text, "OnDemand,Performance,UserSpace", Class::C, Apply::Reconfigure, "", ""),
    key("GpuFreqDef", Kind::Text, "", Class::C, Apply::Reconfigure, "", ""),
    key("VSizeFactor", U16, "0", Class::C, Apply::Reconfigure, "percent", ""),
    key("EioTimeout", U16, "60", Class::C, Apply::Reconfigure, "", ""),
    key("GroupUpdateForce", Kind::Number { min: 0, max: 1 }, "1", Class::B, Apply::Reconfigure, "", ""),
    key("GroupUpdateTime", U16, "600", Class::B, Apply::Reconfigure, "sec", ""),
    key("ReconfigFlags", Kind::List(RECONFIG_FLAGS), "", Class::B, Apply::Reconfigure, "", "KeepPartInfo KeepPartState KeepPowerSaveSettings"),
    key("SlurmstepdParameters", Kind::Text, "", Class::C, Apply::Restart, "", ""),
];

/// Accounting.
#[rustfmt::skip] // one row per line
pub(super) const ACCOUNTING: &[Key] = &[
    key("AccountingStorageType", Kind::OneOf(ACCOUNTING_STORAGE_TYPE), "", Class::A, Apply::Restart, "", "accounting_storage/slurmdbd"),
    key("AccountingStorageHost", Kind::Text, "", Class::A, Apply::Restart, "", ""),
    key("AccountingStorageBackupHost", Kind::Text, "", Class::B, Apply::Restart, "", ""),
    key("AccountingStorageExternalHost", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("AccountingStoragePort", Kind::Number { min: 1, max: 65535 }, "6819", Class::A, Apply::Restart, "", ""),
    key("AccountingStoragePass", Kind::Text, "", Class::B, Apply::Restart, "", ""),
    key("AccountingStorageEnforce", Kind::List(ACCOUNTING_STORAGE_ENFORCE), "", Class::A, Apply::Restart, "", ""),
    key("AccountingStorageTRES", Kind::TresNames, "", Class::A, Apply::Restart, "", ""),
    key("AccountingStorageParameters", Kind::Text, "", Class::C, Apply::Restart, "", "max_step_records=, SSL_*"),
    key("AccountingStoreFlags", Kind::List(ACCOUNTING_STORE_FLAGS), "", Class::A, Apply::Reconfigure, "", ""),
    key("TrackWCKey", Kind::Bool, "no", Class::A, Apply::Restart, "", ""),
    key("MaxDBDMsgs", U32, "", Class::B, Apply::Reconfigure, "", ""),
    key("JobAcctGatherType", Kind::OneOf(JOB_ACCT_GATHER_TYPE), "", Class::A, Apply::Restart, "", "linux, cgroup"),
    key("JobAcctGatherFrequency", Kind::Text, "30", Class::A, Apply::Reconfigure, "", ""),
    key("JobAcctGatherParams", Kind::OpenList(JOB_ACCT_GATHER_PARAMS), "", Class::B, Apply::Reconfigure, "", "UsePss NoShared OverMemoryKill DisableGPUAcct no_file_cache"),
    key("JobCompType", Kind::Text, "", Class::C, Apply::Restart, "", "filetxt, script"),
    key("JobCompLoc", Kind::Text, "/var/log/slurm_jobcomp", Class::C, Apply::Restart, "", ""),
    key("JobCompHost", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("JobCompParams", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("JobCompPass", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("JobCompPassScript", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("JobCompPort", U32, "", Class::C, Apply::Restart, "", ""),
    key("JobCompUser", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("AcctGatherEnergyType", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("AcctGatherNodeFreq", U16, "0", Class::C, Apply::Restart, "sec", ""),
    key("AcctGatherFilesystemType", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("AcctGatherInterconnectType", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("AcctGatherProfileType", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("BurstBufferType", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("BurstBufferParameters", Kind::Text, "", Class::C, Apply::Restart, "", ""),
];

/// Power.
#[rustfmt::skip] // one row per line
pub(super) const POWER: &[Key] = &[
    key("SuspendTime", Kind::Seconds, "INFINITE", Class::B, Apply::Reconfigure, "", ""),
    key("SuspendProgram", Kind::Text, "", Class::B, Apply::Reconfigure, "", ""),
    key("ResumeProgram", Kind::Text, "", Class::B, Apply::Reconfigure, "", ""),
    key("ResumeFailProgram", Kind::Text, "", Class::B, Apply::Reconfigure, "", ""),
    key("SuspendTimeout", U16, "30", Class::B, Apply::Reconfigure, "sec", ""),
    key("ResumeTimeout", U16, "60", Class::B, Apply::Reconfigure, "sec", ""),
    key("SuspendRate", U16, "60", Class::B, Apply::Reconfigure, "nodes/min", ""),
    key("ResumeRate", U16, "300", Class::B, Apply::Reconfigure, "nodes/min", ""),
    key("SuspendExcNodes", Kind::Text, "", Class::B, Apply::Reconfigure, "", ""),
    key("SuspendExcParts", Kind::Text, "", Class::B, Apply::Reconfigure, "", ""),
    key("SuspendExcStates", Kind::Text, "", Class::B, Apply::Reconfigure, "", ""),
];

/// Serialisers, http, metrics.
#[rustfmt::skip] // one row per line
pub(super) const SERIALISERS: &[Key] = &[
    key("DataParserParameters", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("SerializerPlugins", Kind::Text, "all", Class::C, Apply::Restart, "", ""),
    key("SerializerParameters", Kind::Text, "pretty", Class::C, Apply::Restart, "", ""),
    key("MetricsType", Kind::Text, "", Class::C, Apply::Restart, "", "metrics/openmetrics"),
    key("MetricsParameters", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("MetricsAuthUsers", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("HttpParserType", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("UrlParserType", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("CertgenType", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("CertgenParameters", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("CertmgrType", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("CertmgrParameters", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("SlurmctldHttpAuthParameters", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("SlurmdHttpAuthParameters", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("SlurmrestdHttpAuthParameters", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("SlurmrestdParameters", Kind::Text, "", Class::C, Apply::Restart, "", ""),
    key("DefRuntimePlugin", Kind::Text, "runtime/oci", Class::C, Apply::Restart, "", ""),
];

/// Keys of Sluice that Slurm does not have, or no longer.
pub(super) const OWN: &[Key] = &[
    key(
        "AccountingStorageUser",
        Kind::Text,
        "",
        Class::A,
        Apply::Restart,
        "",
        "user of the Postgres database; no effect with other storage",
    ),
    key(
        "AccountingStorageLoc",
        Kind::Text,
        "",
        Class::A,
        Apply::Restart,
        "",
        "Postgres database or URL, or SQLite file",
    ),
];

/// Keys that Slurm has dropped and still accepts.
pub(super) const OBSOLETE: &[Key] = &[
    obsolete("AccountingStoreJobComment"),
    obsolete("AcctGatherInfinibandType"),
    obsolete("CoreSpecPlugin"),
    obsolete("CryptoType"),
    obsolete("ExtSensorsType"),
    obsolete("ExtSensorsFreq"),
    obsolete("FastSchedule"),
    obsolete("GetEnvTimeout"),
    obsolete("JobCredentialPrivateKey"),
    obsolete("JobCredentialPublicCertificate"),
    obsolete("KeepAliveTime"),
    obsolete("LaunchType"),
    obsolete("PowerParameters"),
    obsolete("PowerPlugin"),
    obsolete("RoutePlugin"),
    obsolete("SbcastParameters"),
];
