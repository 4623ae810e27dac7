//! Keys of record lines (nodes, partitions, …) and of the companion files.
//!
//! Data only; see [`super`]. Columns: name, kind, default, class, unit, note.

use super::{Class, Key, Kind, alias, field, obsolete};

const NUMBER: Kind = Kind::Number {
    min: 0,
    max: 4_294_967_293,
};
const NUMBER16: Kind = Kind::Number { min: 0, max: 65533 };
const POSITIVE: Kind = Kind::Number { min: 1, max: 65533 };
const MIB: Kind = Kind::Number {
    min: 0,
    max: u64::MAX - 2,
};
const CPU_BIND: Kind = Kind::OneOf(&["none", "socket", "ldom", "core", "thread", "off"]);

/// `NodeName=` lines.
#[rustfmt::skip] // one row per line
pub(super) const NODE: &[Key] = &[
    field("NodeName", Kind::Hostlist, "", Class::A, "", "hostlist; DEFAULT sets defaults for the lines below"),
    field("NodeHostname", Kind::Hostlist, "", Class::A, "", "default NodeName"),
    field("NodeAddr", Kind::Hostlist, "", Class::A, "", "default NodeHostname"),
    field("BcastAddr", Kind::Text, "", Class::C, "", ""),
    field("Port", Kind::Hostlist, "", Class::A, "", "default SlurmdPort; a range for several agents on one host"),
    field("CPUs", POSITIVE, "", Class::A, "", "default boards x sockets x cores x threads"),
    alias("Procs", "CPUs", POSITIVE),
    field("Boards", POSITIVE, "1", Class::A, "", ""),
    field("Sockets", POSITIVE, "", Class::A, "", "excludes SocketsPerBoard"),
    field("SocketsPerBoard", POSITIVE, "", Class::A, "", "excludes Sockets"),
    field("CoresPerSocket", POSITIVE, "1", Class::A, "", ""),
    field("ThreadsPerCore", POSITIVE, "1", Class::A, "", ""),
    field("RealMemory", MIB, "1", Class::A, "MiB", ""),
    field("TmpDisk", NUMBER, "0", Class::A, "MiB", ""),
    field("MemSpecLimit", MIB, "", Class::B, "MiB", "reserved for the system"),
    field("CoreSpecCount", NUMBER16, "", Class::B, "", "excludes CpuSpecList"),
    field("CpuSpecList", Kind::Text, "", Class::B, "", "excludes CoreSpecCount"),
    field("RestrictedCoresPerGPU", NUMBER16, "", Class::B, "", ""),
    field("Features", Kind::Text, "", Class::A, "", "comma list"),
    alias("Feature", "Features", Kind::Text),
    field("Gres", Kind::Gres, "", Class::A, "", "name[:type][:no_consume]:count list"),
    field("GresConf", Kind::Text, "", Class::C, "", ""),
    field("Weight", NUMBER, "1", Class::A, "", "low first"),
    field("State", Kind::OneOf(&["UNKNOWN", "DOWN", "DRAIN", "FAIL", "FAILING", "FUTURE", "CLOUD", "IDLE", "UP"]), "UNKNOWN", Class::A, "", ""),
    field("Reason", Kind::Text, "", Class::A, "", ""),
    field("CpuBind", CPU_BIND, "", Class::B, "", ""),
    field("SuspendTime", Kind::Seconds, "", Class::B, "sec", ""),
    field("Topology", Kind::Text, "", Class::B, "", ""),
    field("Parameters", Kind::Text, "", Class::C, "", ""),
    field("TRESWeights", Kind::Text, "", Class::C, "", ""),
];

/// `PartitionName=` lines.
#[rustfmt::skip] // one row per line
pub(super) const PARTITION: &[Key] = &[
    field("PartitionName", Kind::Text, "", Class::A, "", "DEFAULT sets defaults for the lines below"),
    field("Nodes", Kind::Hostlist, "", Class::A, "", "hostlist, NodeSet names, ALL, feature{F}"),
    field("Default", Kind::Bool, "NO", Class::A, "", "one partition"),
    field("State", Kind::OneOf(&["UP", "DOWN", "DRAIN", "INACTIVE"]), "UP", Class::A, "", ""),
    field("MaxTime", Kind::Duration, "UNLIMITED", Class::A, "", ""),
    field("DefaultTime", Kind::Duration, "", Class::A, "", "default MaxTime"),
    field("MinNodes", NUMBER, "0", Class::A, "", ""),
    field("MaxNodes", NUMBER, "UNLIMITED", Class::A, "", ""),
    field("PriorityTier", NUMBER16, "1", Class::A, "", ""),
    field("PriorityJobFactor", NUMBER16, "1", Class::A, "", ""),
    field("PreemptMode", Kind::List(&["OFF", "CANCEL", "REQUEUE", "SUSPEND", "ON", "GANG", "PRIORITY"]), "", Class::A, "", ""),
    field("GraceTime", NUMBER, "0", Class::A, "sec", ""),
    field("OverSubscribe", Kind::Text, "NO", Class::A, "", "NO, YES[:n], FORCE[:n], EXCLUSIVE"),
    alias("Shared", "OverSubscribe", Kind::Text),
    field("Exclusive", Kind::OneOf(&["NO", "NODE", "USER", "TOPO", "YES"]), "NO", Class::A, "", ""),
    field("ExclusiveUser", Kind::Bool, "NO", Class::B, "", "old spelling of Exclusive=USER"),
    field("ExclusiveTopo", Kind::Bool, "NO", Class::B, "", "old spelling of Exclusive=TOPO"),
    field("QOS", Kind::Text, "", Class::A, "", ""),
    field("AllowAccounts", Kind::Text, "ALL", Class::A, "", ""),
    field("DenyAccounts", Kind::Text, "", Class::A, "", ""),
    field("AllowQos", Kind::Text, "ALL", Class::A, "", ""),
    field("DenyQos", Kind::Text, "", Class::A, "", ""),
    field("AllowGroups", Kind::Text, "ALL", Class::A, "", ""),
    field("AllocNodes", Kind::Text, "ALL", Class::A, "", ""),
    field("RootOnly", Kind::Bool, "NO", Class::A, "", ""),
    field("DisableRootJobs", Kind::Bool, "NO", Class::A, "", ""),
    field("ReqResv", Kind::Bool, "NO", Class::A, "", ""),
    field("Hidden", Kind::Bool, "NO", Class::A, "", ""),
    field("LLN", Kind::Bool, "NO", Class::A, "", ""),
    field("Alternate", Kind::Text, "", Class::A, "", ""),
    field("OverTimeLimit", NUMBER16, "", Class::A, "min", ""),
    field("DefMemPerCPU", MIB, "", Class::A, "MiB", ""),
    field("DefMemPerNode", MIB, "", Class::A, "MiB", ""),
    field("DefMemPerGPU", MIB, "", Class::A, "MiB", ""),
    field("DefCpuPerGPU", NUMBER, "", Class::A, "", ""),
    field("MaxMemPerCPU", MIB, "", Class::A, "MiB", ""),
    field("MaxMemPerNode", MIB, "", Class::A, "MiB", ""),
    field("MaxCPUsPerNode", NUMBER, "UNLIMITED", Class::A, "", ""),
    field("MaxCPUsPerSocket", NUMBER, "UNLIMITED", Class::A, "", ""),
    field("SelectTypeParameters", Kind::OneOf(&["CR_Core", "CR_Core_Memory", "CR_Socket", "CR_Socket_Memory", "NONE"]), "", Class::B, "", ""),
    field("TRESBillingWeights", Kind::TresWeights, "", Class::A, "", ""),
    field("CpuBind", CPU_BIND, "", Class::B, "", ""),
    field("Topology", Kind::Text, "", Class::B, "", ""),
    field("SuspendTime", Kind::Seconds, "", Class::B, "sec", ""),
    field("SuspendTimeout", NUMBER, "", Class::B, "sec", ""),
    field("ResumeTimeout", NUMBER, "", Class::B, "sec", ""),
    field("PowerDownOnIdle", Kind::Bool, "NO", Class::B, "", ""),
    field("Priority", NUMBER16, "", Class::C, "", "old spelling: sets PriorityTier and PriorityJobFactor"),
];

/// `NodeSet=` lines.
#[rustfmt::skip] // one row per line
pub(super) const NODE_SET: &[Key] = &[
    field("NodeSet", Kind::Text, "", Class::A, "", ""),
    field("Feature", Kind::Text, "", Class::A, "", ""),
    field("Nodes", Kind::Hostlist, "", Class::A, "", ""),
];

/// `DownNodes=` lines.
#[rustfmt::skip] // one row per line
pub(super) const DOWN_NODES: &[Key] = &[
    field("DownNodes", Kind::Hostlist, "", Class::A, "", ""),
    field("State", Kind::OneOf(&["DOWN", "DRAIN", "FAIL", "FAILING", "FUTURE"]), "DOWN", Class::A, "", ""),
    field("Reason", Kind::Text, "", Class::A, "", ""),
];

/// `PowerAction=` lines.
#[rustfmt::skip] // one row per line
pub(super) const POWER_ACTION: &[Key] = &[
    field("PowerAction", Kind::Text, "", Class::B, "", ""),
    field("Location", Kind::OneOf(&["slurmctld", "slurmd"]), "slurmctld", Class::B, "", ""),
    field("Program", Kind::Text, "", Class::B, "", ""),
];

/// gres.conf.
#[rustfmt::skip] // one row per line
pub(super) const GRES: &[Key] = &[
    field("AutoDetect", Kind::OneOf(&["full", "nvml", "nvidia", "rsmi", "oneapi", "nrt", "off"]), "", Class::B, "", "devices are also found by File="),
    field("NodeName", Kind::Hostlist, "", Class::A, "", "the line counts for these nodes only"),
    field("Name", Kind::Text, "", Class::A, "", "must be in GresTypes"),
    field("Type", Kind::Text, "", Class::A, "", ""),
    field("Count", Kind::Count, "", Class::A, "", "default: number of Files, or 1"),
    field("File", Kind::Hostlist, "", Class::A, "", "device files; ranges such as [0-3]"),
    field("MultipleFiles", Kind::Hostlist, "", Class::B, "", ""),
    field("Cores", Kind::Text, "", Class::A, "", "core numbers"),
    alias("CPUs", "Cores", Kind::Text),
    field("Links", Kind::Text, "", Class::B, "", ""),
    field("Flags", Kind::List(&["CountOnly", "env_uuid", "explicit", "one_sharing", "all_sharing", "nvidia_gpu_env", "amd_gpu_env", "intel_gpu_env", "opencl_env", "no_gpu_env"]), "", Class::B, "", ""),
];

/// cgroup.conf.
#[rustfmt::skip] // one row per line
pub(super) const CGROUP: &[Key] = &[
    field("CgroupPlugin", Kind::OneOf(&["autodetect", "cgroup/v1", "cgroup/v2", "disabled"]), "autodetect", Class::A, "", ""),
    field("ConstrainCores", Kind::Bool, "no", Class::A, "", ""),
    field("ConstrainDevices", Kind::Bool, "no", Class::A, "", ""),
    field("ConstrainRAMSpace", Kind::Bool, "no", Class::A, "", ""),
    field("AllowedRAMSpace", Kind::Decimal, "100", Class::A, "percent", ""),
    field("MinRAMSpace", MIB, "30", Class::A, "MiB", ""),
    field("ConstrainSwapSpace", Kind::Bool, "no", Class::B, "", ""),
    field("AllowedSwapSpace", Kind::Decimal, "0", Class::B, "percent", ""),
    field("MaxRAMPercent", Kind::Decimal, "100", Class::B, "percent", ""),
    field("MaxSwapPercent", Kind::Decimal, "100", Class::B, "percent", ""),
    field("SignalChildrenProcesses", Kind::Bool, "no", Class::B, "", ""),
    field("CgroupJobIdPaths", Kind::Bool, "no", Class::B, "", ""),
    field("CgroupSlice", Kind::Text, "", Class::B, "", ""),
    field("CgroupMountpoint", Kind::Text, "/sys/fs/cgroup", Class::B, "", ""),
    field("IgnoreSystemd", Kind::Bool, "no", Class::B, "", ""),
    field("IgnoreSystemdOnFailure", Kind::Bool, "no", Class::B, "", ""),
    field("EnableControllers", Kind::Bool, "no", Class::B, "", ""),
    field("SystemdTimeout", NUMBER, "1000", Class::B, "ms", ""),
    field("EnableExtraControllers", Kind::Text, "", Class::C, "", ""),
    field("MemorySwappiness", NUMBER, "", Class::C, "", ""),
    obsolete("CgroupAutomount"),
    obsolete("CgroupReleaseAgentDir"),
    obsolete("TaskAffinity"),
    obsolete("AllowedDevicesFile"),
    obsolete("ConstrainKmemSpace"),
    obsolete("AllowedKmemSpace"),
    obsolete("MaxKmemPercent"),
    obsolete("MinKmemSpace"),
];

/// topology.conf, switch lines.
#[rustfmt::skip] // one row per line
pub(super) const SWITCH: &[Key] = &[
    field("SwitchName", Kind::Text, "", Class::A, "", ""),
    field("Switches", Kind::Hostlist, "", Class::A, "", ""),
    field("Nodes", Kind::Hostlist, "", Class::A, "", ""),
    field("LinkSpeed", Kind::Text, "", Class::C, "", ""),
];

/// topology.conf, block lines.
#[rustfmt::skip] // one row per line
pub(super) const BLOCK: &[Key] = &[
    field("BlockName", Kind::Text, "", Class::A, "", ""),
    field("Nodes", Kind::Hostlist, "", Class::A, "", ""),
    field("BlockSizes", Kind::Text, "", Class::A, "", "comma list of numbers"),
];

/// slurmdbd.conf.
#[rustfmt::skip] // one row per line
pub(super) const SLURMDBD: &[Key] = &[
    field("DbdHost", Kind::Text, "", Class::A, "", ""),
    field("DbdAddr", Kind::Text, "", Class::A, "", ""),
    field("DbdPort", Kind::PortRange, "6819", Class::A, "", ""),
    field("DbdBackupHost", Kind::Text, "", Class::B, "", ""),
    field("StorageType", Kind::OneOf(&["accounting_storage/postgres", "accounting_storage/sqlite", "accounting_storage/mysql", "accounting_storage/none"]), "", Class::A, "", ""),
    field("StorageHost", Kind::Text, "localhost", Class::A, "", ""),
    field("StorageBackupHost", Kind::Text, "", Class::C, "", ""),
    field("StoragePort", Kind::PortRange, "5432", Class::A, "", ""),
    field("StorageUser", Kind::Text, "", Class::A, "", ""),
    field("StoragePass", Kind::Text, "", Class::A, "", ""),
    field("StoragePassScript", Kind::Text, "", Class::C, "", ""),
    field("StorageLoc", Kind::Text, "slurm_acct_db", Class::A, "", ""),
    field("StorageParameters", Kind::Text, "", Class::C, "", ""),
    field("SlurmUser", Kind::Text, "root", Class::A, "", ""),
    field("AuthType", Kind::OneOf(&["auth/munge", "auth/slurm"]), "auth/munge", Class::A, "", ""),
    field("AuthInfo", Kind::Text, "", Class::A, "", ""),
    field("AuthAltTypes", Kind::List(&["auth/jwt"]), "", Class::A, "", ""),
    field("AuthAltParameters", Kind::Text, "", Class::A, "", ""),
    field("LogFile", Kind::Text, "", Class::A, "", ""),
    field("LogTimeFormat", Kind::Text, "iso8601_ms", Class::C, "", ""),
    field("DebugLevel", Kind::OneOf(&["quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]), "info", Class::A, "", ""),
    field("DebugLevelSyslog", Kind::Text, "", Class::C, "", ""),
    field("DebugFlags", Kind::Text, "", Class::B, "", ""),
    field("PidFile", Kind::Text, "/var/run/slurmdbd.pid", Class::A, "", ""),
    field("PrivateData", Kind::Text, "", Class::A, "", ""),
    field("PurgeEventAfter", Kind::Text, "", Class::A, "", "N[hours|days|months]"),
    field("PurgeJobAfter", Kind::Text, "", Class::A, "", ""),
    field("PurgeJobEnvAfter", Kind::Text, "", Class::A, "", ""),
    field("PurgeJobScriptAfter", Kind::Text, "", Class::A, "", ""),
    field("PurgeResvAfter", Kind::Text, "", Class::A, "", ""),
    field("PurgeStepAfter", Kind::Text, "", Class::A, "", ""),
    field("PurgeSuspendAfter", Kind::Text, "", Class::A, "", ""),
    field("PurgeTXNAfter", Kind::Text, "", Class::A, "", ""),
    field("PurgeUsageAfter", Kind::Text, "", Class::A, "", ""),
    field("ArchiveDir", Kind::Text, "/tmp", Class::B, "", ""),
    field("ArchiveEvents", Kind::Bool, "no", Class::B, "", ""),
    field("ArchiveJobs", Kind::Bool, "no", Class::B, "", ""),
    field("ArchiveJobEnv", Kind::Bool, "no", Class::B, "", ""),
    field("ArchiveJobScript", Kind::Bool, "no", Class::B, "", ""),
    field("ArchiveResvs", Kind::Bool, "no", Class::B, "", ""),
    field("ArchiveScript", Kind::Text, "", Class::B, "", ""),
    field("ArchiveSteps", Kind::Bool, "no", Class::B, "", ""),
    field("ArchiveSuspend", Kind::Bool, "no", Class::B, "", ""),
    field("ArchiveTXN", Kind::Bool, "no", Class::B, "", ""),
    field("ArchiveUsage", Kind::Bool, "no", Class::B, "", ""),
    field("TrackWCKey", Kind::Bool, "no", Class::A, "", ""),
    field("TrackSlurmctldDown", Kind::Bool, "no", Class::C, "", ""),
    field("DefaultQOS", Kind::Text, "", Class::A, "", ""),
    field("AllowNoDefAcct", Kind::Bool, "no", Class::A, "", ""),
    field("AllResourcesAbsolute", Kind::Bool, "no", Class::C, "", ""),
    field("MaxQueryTimeRange", Kind::Duration, "", Class::B, "", ""),
    field("MaxPurgeLimit", NUMBER, "50000", Class::B, "", ""),
    field("Parameters", Kind::Text, "", Class::B, "", ""),
    field("DisableRollups", Kind::Bool, "no", Class::B, "", ""),
    field("DisableCoordDBD", Kind::Bool, "no", Class::B, "", ""),
    field("DisableArchiveCommands", Kind::Bool, "no", Class::C, "", ""),
    field("CommitDelay", NUMBER, "", Class::B, "", ""),
    field("MessageTimeout", NUMBER, "10", Class::B, "sec", ""),
    field("TCPTimeout", NUMBER, "", Class::C, "sec", ""),
    field("CommunicationParameters", Kind::Text, "", Class::C, "", ""),
    field("HashPlugin", Kind::Text, "", Class::C, "", ""),
    field("PluginDir", Kind::Text, "", Class::C, "", ""),
    field("TLSType", Kind::Text, "", Class::C, "", ""),
    field("TLSParameters", Kind::Text, "", Class::C, "", ""),
];
