//! What `scontrol show config` lists: every key with its value, in Slurm's spelling, units and order.
//!
//! Pure. Values that only a running controller knows (boot time, next job id, …) are handed in.

use crate::cluster::*;
use crate::keys::{Key, Kind, Scope, is_unlimited, parse_bool};
use sluice_model::memory::MemoryMib;
use sluice_model::time::{TimeLimit, format_duration_full};

/// Names in the order in which they are listed. Those with a `!` exist at run time only and are listed when they are handed in.
const ORDER: &str = "AccountingStorageBackupHost AccountingStorageEnforce AccountingStorageHost AccountingStorageExternalHost \
AccountingStorageParameters AccountingStoragePort AccountingStorageTRES AccountingStorageType AccountingStoreFlags AcctGatherEnergyType \
AcctGatherFilesystemType AcctGatherInterconnectType AcctGatherNodeFreq AcctGatherProfileType AllowSpecResourcesUsage AuthAltTypes \
AuthAltParameters AuthInfo AuthType BatchStartTimeout BcastExclude BcastParameters !BOOT_TIME BurstBufferType CertgenParameters \
CertgenType CertmgrParameters CertmgrType CliFilterParameters CliFilterPlugins ClusterName CommunicationParameters CompleteWait \
CpuFreqDef CpuFreqGovernors CredType DataParserParameters DebugFlags DefMem DefRuntimePlugin DependencyParameters DisableRootJobs \
EioTimeout EnforcePartLimits Epilog EpilogMsgTime EpilogSlurmctld FairShareDampeningFactor FederationParameters FirstJobId GresTypes \
GpuFreqDef GroupUpdateForce GroupUpdateTime !HASH_VAL HashPlugin HealthCheckInterval HealthCheckNodeState HealthCheckProgram \
HealthCheckTimeout HttpParserType InactiveLimit InteractiveStepOptions JobAcctGatherFrequency JobAcctGatherType JobAcctGatherParams \
JobCompHost JobCompLoc JobCompParams JobCompPass JobCompPort JobCompType JobCompUser JobDefaults JobFileAppend JobRequeue \
JobSubmitPlugins KillOnBadExit KillWait LaunchParameters LicenseParameters Licenses LogTimeFormat MailDomain MailProg MaxArraySize \
MaxBatchRequeue MaxDBDMsgs MaxJobCount MaxJobId MaxMem MaxNodeCount MaxStepCount MaxTasksPerNode MCSPlugin MCSParameters MessageTimeout \
MetricsAuthUsers MetricsParameters MetricsType MinJobAge MpiDefault MpiParams !MULTIPLE_SLURMD NamespaceType !NEXT_JOB_ID \
NodeFeaturesPlugins OverTimeLimit PluginDir PlugStackConfig PreemptMode PreemptParameters PreemptType PreemptExemptTime PrEpParameters \
PrEpPlugins PriorityParameters PrioritySiteFactorParameters PrioritySiteFactorPlugin PriorityDecayHalfLife PriorityCalcPeriod \
PriorityFavorSmall PriorityFlags PriorityMaxAge PriorityType PriorityUsageResetPeriod PriorityWeightAge PriorityWeightAssoc \
PriorityWeightFairShare PriorityWeightJobSize PriorityWeightPartition PriorityWeightQOS PriorityWeightTRES PrivateData ProctrackType \
Prolog PrologEpilogTimeout PrologSlurmctld PrologFlags PropagatePrioProcess PropagateResourceLimits PropagateResourceLimitsExcept \
RebootProgram ReconfigFlags RequeueExit RequeueExitHold ResumeFailProgram ResumeProgram ResumeRate ResumeTimeout ResvEpilog ResvOverRun \
ResvProlog ReturnToService SchedulerParameters SchedulerTimeSlice SchedulerType ScronParameters SelectType SelectTypeParameters \
SerializerParameters SerializerPlugins SlurmUser SlurmctldAddr SlurmctldDebug SlurmctldHost SlurmctldHttpAuthParameters \
SlurmctldLogFile SlurmctldPort SlurmctldSyslogDebug SlurmctldPrimaryOffProg SlurmctldPrimaryOnProg SlurmctldTimeout \
SlurmctldParameters SlurmdDebug SlurmdHttpAuthParameters SlurmdLogFile SlurmdParameters SlurmdPidFile SlurmdPort SlurmdSpoolDir \
SlurmdSyslogDebug SlurmdTimeout SlurmdUser SlurmrestdHttpAuthParameters SlurmrestdParameters SlurmSchedLogFile SlurmSchedLogLevel \
SlurmstepdParameters SlurmctldPidFile !SLURM_CONF !SLURM_VERSION SrunEpilog SrunPortRange SrunProlog StateSaveLocation SuspendExcNodes \
SuspendExcParts SuspendExcStates SuspendProgram SuspendRate SuspendTime SuspendTimeout SwitchParameters SwitchType TaskEpilog \
TaskPlugin TaskPluginParam TaskProlog TCPTimeout TLSParameters TLSType TmpFS TopologyParam TopologyPlugin TrackWCKey TreeWidth UsePam \
UnkillableStepProgram UnkillableStepTimeout UrlParserType VSizeFactor WaitTime X11Parameters";

/// Keys whose default is an internal matter: unset, they are listed as `(null)`.
const NULL_WHEN_UNSET: [&str; 5] = [
    "SerializerParameters",
    "SerializerPlugins",
    "PlugStackConfig",
    "JobCompLoc",
    "PluginDir",
];

const NULL: &str = "(null)";

impl ClusterConfig {
    /// Name and value of every key. `runtime` gives values by name: those that exist at run time only (`BOOT_TIME`, `HASH_VAL`,
    /// `MULTIPLE_SLURMD`, `NEXT_JOB_ID`, `SLURM_CONF`, `SLURM_VERSION`), and better ones for others (`SlurmUser` with its uid).
    pub fn show_config(&self, runtime: &[(&str, String)]) -> Vec<(String, String)> {
        let mut list = Vec::new();
        for name in ORDER.split_whitespace() {
            let plain = name.trim_start_matches('!');
            if let Some((_, value)) = runtime.iter().find(|(n, _)| *n == plain) {
                list.push((plain.to_owned(), value.clone()));
            } else if name == plain {
                list.extend(self.show_key(name));
            }
        }
        list
    }

    fn show_key(&self, name: &str) -> Vec<(String, String)> {
        let one = |value: String| vec![(name.to_owned(), value)];
        let indexed = |values: Vec<String>| {
            values
                .into_iter()
                .enumerate()
                .map(|(i, v)| (format!("{name}[{i}]"), v))
                .collect()
        };
        let time = |seconds: u64| format_duration_full(i64::try_from(seconds).unwrap_or(i64::MAX));
        match name {
            "AccountingStorageEnforce" => one(self.enforce_text()),
            "AccountingStorageTRES" => one(self
                .accounting
                .tres
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(",")),
            "AccountingStorageType" => one(self.storage_text().to_owned()),
            "AccountingStorageHost" => one(self
                .raw_value("AccountingStorageHost")
                .unwrap_or("localhost")
                .to_owned()),
            // Passwords are shown to nobody.
            "JobCompPass" => one(NULL.to_owned()),
            "ClusterName" => one(self.cluster_name.clone()),
            "CpuFreqDef" => one(self.raw_value(name).unwrap_or("Unknown").to_owned()),
            "DefMem" => {
                let m = &self.scheduling.memory;
                memory(
                    &[
                        ("DefMemPerCPU", m.def_mem_per_cpu),
                        ("DefMemPerNode", m.def_mem_per_node),
                    ],
                    "DefMemPerNode",
                )
            }
            "MaxMem" => {
                let m = &self.scheduling.memory;
                memory(
                    &[
                        ("MaxMemPerCPU", m.max_mem_per_cpu),
                        ("MaxMemPerNode", m.max_mem_per_node),
                    ],
                    "MaxMemPerNode",
                )
            }
            "EnforcePartLimits" => one(match self.scheduling.enforce_part_limits {
                EnforcePartLimits::No => "NO",
                EnforcePartLimits::Any => "ANY",
                EnforcePartLimits::All => "ALL",
            }
            .to_owned()),
            "JobAcctGatherFrequency" => {
                let text = self.raw_value(name).unwrap_or("30");
                one(if text.starts_with(|c: char| c.is_ascii_digit()) {
                    format!("task={text}")
                } else {
                    text.to_owned()
                })
            }
            "JobCompHost" => one(self.raw_value(name).unwrap_or("localhost").to_owned()),
            "JobCompUser" => one(self.raw_value(name).unwrap_or("root").to_owned()),
            "JobCompPort" => one(self.raw_value(name).unwrap_or("0").to_owned()),
            "JobDefaults" => one(self.job_defaults()),
            "MaxDBDMsgs" => one(self.accounting.max_queued_records.to_string()),
            "MaxNodeCount" => one(self
                .raw_value(name)
                .map_or_else(|| self.nodes.len().to_string(), str::to_owned)),
            "OverTimeLimit" => one(minutes(self.scheduling.over_time_limit)),
            "ResvOverRun" => one(minutes(self.scheduling.resv_over_run)),
            "PreemptMode" => one(self.preempt_mode_text()),
            "PreemptExemptTime" => one(time(self.preempt.exempt_time_secs.unwrap_or(0))),
            "PriorityDecayHalfLife" => one(time(self.priority.decay_half_life_secs)),
            "PriorityCalcPeriod" => one(time(self.priority.calc_period_secs)),
            "PriorityMaxAge" => one(if self.priority.max_age_secs == u64::MAX {
                "INFINITE".to_owned()
            } else {
                time(self.priority.max_age_secs)
            }),
            "PrivateData" => one(if self.auth.private_data.is_empty() {
                "none".to_owned()
            } else {
                self.auth.private_data.join(",")
            }),
            // 65534 is Slurm's mark for "not set".
            "PrologEpilogTimeout" => one(self.raw_value(name).unwrap_or("65534").to_owned()),
            "Prolog" | "Epilog" | "PrologSlurmctld" | "EpilogSlurmctld" => indexed(
                self.raw
                    .iter()
                    .filter(|(k, _)| k == name)
                    .map(|(_, v)| v.clone())
                    .collect(),
            ),
            "SelectTypeParameters" => one(self
                .raw_value(name)
                .unwrap_or("CR_Core_Memory")
                .to_ascii_uppercase()),
            "SlurmctldHost" => indexed(
                self.controllers
                    .iter()
                    .map(|c| {
                        c.addr
                            .as_ref()
                            .map_or_else(|| c.host.clone(), |a| format!("{}({a})", c.host))
                    })
                    .collect(),
            ),
            "SrunPortRange" => {
                let (first, last) = self.jobs.srun_port_range.unwrap_or((0, 0));
                one(format!("{first}-{last}"))
            }
            "TaskPluginParam" => one(self.raw_value(name).unwrap_or("(null type)").to_owned()),
            "UnkillableStepTimeout" => one(format!("{} sec", self.timeouts.unkillable_step_secs)),
            _ => one(self.plain_value(name)),
        }
    }

    /// As set, else the default, with unit; flags as yes and no.
    fn plain_value(&self, name: &str) -> String {
        let Some(key) = Scope::Global.find(name) else {
            return NULL.to_owned();
        };
        let set = self.raw_value(key.name).filter(|v| !v.is_empty());
        let default =
            Some(key.default).filter(|d| !d.is_empty() && !NULL_WHEN_UNSET.contains(&name));
        match set.or(default) {
            None => NULL.to_owned(),
            Some(text) => with_unit(key, text),
        }
    }

    fn enforce_text(&self) -> String {
        let e = &self.accounting.enforce;
        let flags = [
            ("associations", e.associations),
            ("limits", e.limits),
            ("nojobs", e.no_jobs),
            ("nosteps", e.no_steps),
            ("qos", e.qos),
            ("safe", e.safe),
            ("wckeys", e.wckeys),
        ];
        let set: Vec<&str> = flags
            .iter()
            .filter(|(_, on)| *on)
            .map(|(name, _)| *name)
            .collect();
        if set.is_empty() {
            "none".to_owned()
        } else {
            set.join(",")
        }
    }

    fn storage_text(&self) -> &str {
        let own = match &self.accounting.storage {
            AccountingStorage::None => "accounting_storage/none",
            AccountingStorage::Sqlite { .. } => "accounting_storage/sqlite",
            AccountingStorage::Postgres(_) => "accounting_storage/postgres",
        };
        self.raw_value("AccountingStorageType").unwrap_or(own)
    }

    fn preempt_mode_text(&self) -> String {
        let p = &self.preempt;
        let mut words = Vec::new();
        for (name, on) in [
            ("GANG", p.gang),
            ("PRIORITY", p.priority),
            ("WITHIN", p.within),
        ] {
            if on {
                words.push(name);
            }
        }
        if p.mode != PreemptMode::Off || words.is_empty() {
            words.push(p.mode.as_str());
        }
        words.join(",")
    }

    fn job_defaults(&self) -> String {
        let m = &self.scheduling.memory;
        let mut items = Vec::new();
        if let Some(n) = m.def_cpu_per_gpu {
            items.push(format!("DefCpuPerGPU={n}"));
        }
        if m.def_mem_per_gpu.0 > 0 {
            items.push(format!("DefMemPerGPU={}", m.def_mem_per_gpu.0));
        }
        if items.is_empty() {
            NULL.to_owned()
        } else {
            items.join(",")
        }
    }
}

fn with_unit(key: &Key, text: &str) -> String {
    let counts =
        matches!(key.kind, Kind::Number { .. }) && !key.unit.is_empty() && !is_unlimited(text);
    match key.kind {
        Kind::Bool => if parse_bool(text) == Some(true) {
            "yes"
        } else {
            "no"
        }
        .to_owned(),
        _ if counts => {
            // The unit of a time that is not seconds is part of the number's meaning; all others follow it.
            format!("{text} {}", key.unit)
        }
        Kind::Seconds if text.parse::<u64>().is_ok() => format!("{text} sec"),
        _ => text.to_owned(),
    }
}

fn minutes(limit: TimeLimit) -> String {
    match limit {
        TimeLimit::Minutes(m) => format!("{m} min"),
        TimeLimit::Unlimited => "UNLIMITED".to_owned(),
    }
}

/// The one that is set; when none is, the last name is listed as UNLIMITED.
fn memory(keys: &[(&str, MemoryMib)], unset: &str) -> Vec<(String, String)> {
    let set = keys
        .iter()
        .find(|(_, m)| m.0 > 0)
        .map(|(name, m)| ((*name).to_owned(), m.0.to_string()));
    vec![set.unwrap_or_else(|| (unset.to_owned(), "UNLIMITED".to_owned()))]
}
