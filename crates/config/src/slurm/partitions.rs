//! `PartitionName=` lines to partitions.

use super::nodes::expand;
use super::scheduling::{one_of_these, preempt_mode_list};
use super::values::Values;
use crate::cluster::*;
use crate::diagnostic::{Detail, Diagnostics};
use crate::keys::{is_unlimited, parse_bool, parse_tres_weights, split_list};
use sluice_model::memory::MemoryMib;
use sluice_model::partition::PartitionState;
use sluice_model::time::TimeLimit;

/// How many jobs may share a resource when `OverSubscribe=YES` or `FORCE` gives no number.
const SHARE_COUNT_DEFAULT: u16 = 4;

/// What partition lines refer to.
pub(crate) struct PartitionContext<'a> {
    pub nodes: &'a [NodeConfig],
    pub node_sets: &'a [NodeSetConfig],
    pub select: &'a SelectSettings,
    pub preempt: &'a PreemptSettings,
}

/// Reads all partition lines in order; DEFAULT lines accumulate.
pub(crate) fn partitions(
    lines: &[Values],
    context: &PartitionContext<'_>,
    diags: &mut Diagnostics,
) -> Vec<PartitionConfig> {
    let mut partitions: Vec<PartitionConfig> = Vec::new();
    let mut defaults: Option<Values> = None;
    for line in lines {
        let merged = match &defaults {
            Some(d) => {
                let mut merged = d.clone();
                merged.overlay(line.clone());
                merged
            }
            None => line.clone(),
        };
        let name = line.string("PartitionName");
        if name.eq_ignore_ascii_case("DEFAULT") {
            defaults = Some(merged);
            continue;
        }
        let plain = !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.+@".contains(c));
        if !plain {
            diags.error(
                &line.origin,
                Detail::pair("PartitionName", &name).hint("letters, digits, - _ . + @ only"),
                "is not a legal partition name",
            );
        }
        if partitions.iter().any(|p| p.name == name) {
            diags.error(
                &line.origin,
                Detail::pair("PartitionName", &name),
                "is defined twice",
            );
            continue;
        }
        let partition = partition(&merged, name, context, diags);
        if let Some(other) = partitions
            .iter_mut()
            .find(|p| p.default && partition.default)
        {
            let detail = Detail::pair("Default", "YES").hint("keep one Default=YES");
            diags.warn(
                line.origin_of("Default"),
                detail,
                format!(
                    "{} takes over from {} as default partition",
                    partition.name, other.name
                ),
            );
            other.default = false;
            other.raw.retain(|(k, _)| k != "Default");
        }
        partitions.push(partition);
    }
    partitions
}

fn partition(
    v: &Values,
    name: String,
    context: &PartitionContext<'_>,
    diags: &mut Diagnostics,
) -> PartitionConfig {
    one_of_these(v, &["DefMemPerCPU", "DefMemPerNode", "DefMemPerGPU"], diags);
    one_of_these(v, &["MaxMemPerCPU", "MaxMemPerNode"], diags);
    let nodes_expression = v.given("Nodes").unwrap_or("").to_owned();
    let nodes = expand(
        &nodes_expression,
        context.nodes,
        context.node_sets,
        v,
        diags,
    );
    let oversubscribe = oversubscribe(v, diags);
    let old_priority = v.number_if_set::<u16>("Priority");
    let priority = |key: &str| {
        if v.given(key).is_some() {
            v.number(key)
        } else {
            old_priority.unwrap_or(1)
        }
    };
    let max_time = time_limit(v, "MaxTime").unwrap_or(TimeLimit::Unlimited);
    let default_time = time_limit(v, "DefaultTime");
    if default_time.is_some_and(|d| d > max_time) {
        let text = v.string("DefaultTime");
        diags.warn(
            v.origin_of("DefaultTime"),
            Detail::pair("DefaultTime", &text),
            format!("is above MaxTime={max_time}; jobs without a time limit could not run"),
        );
    }
    let mib = |key: &str| v.given(key).map(|_| MemoryMib(v.limit(key).unwrap_or(0)));
    let partition = PartitionConfig {
        nodes,
        nodes_expression,
        default: v.boolean("Default"),
        state: state(&v.string("State")),
        max_time,
        default_time,
        min_nodes: v.number("MinNodes"),
        max_nodes: v.limit("MaxNodes"),
        priority_tier: priority("PriorityTier"),
        priority_job_factor: priority("PriorityJobFactor"),
        preempt_mode: preempt_mode(v, context, diags),
        grace_time_secs: v.number("GraceTime"),
        exclusive: exclusive(v, oversubscribe),
        oversubscribe,
        qos: name_or_none(v, "QOS"),
        allow_accounts: all_or_list(v, "AllowAccounts"),
        deny_accounts: v.list("DenyAccounts"),
        allow_qos: all_or_list(v, "AllowQos"),
        deny_qos: v.list("DenyQos"),
        allow_groups: all_or_list(v, "AllowGroups"),
        alloc_nodes: alloc_nodes(v, diags),
        root_only: v.boolean("RootOnly"),
        disable_root_jobs: v.boolean("DisableRootJobs"),
        req_resv: v.boolean("ReqResv"),
        hidden: v.boolean("Hidden"),
        lln: v.boolean("LLN"),
        alternate: name_or_none(v, "Alternate"),
        over_time_limit: v.given("OverTimeLimit").map(|t| {
            if is_unlimited(t) {
                TimeLimit::Unlimited
            } else {
                TimeLimit::Minutes(v.number("OverTimeLimit"))
            }
        }),
        def_mem_per_cpu: mib("DefMemPerCPU"),
        def_mem_per_node: mib("DefMemPerNode"),
        def_mem_per_gpu: mib("DefMemPerGPU"),
        def_cpu_per_gpu: v.limit("DefCpuPerGPU"),
        max_mem_per_cpu: mib("MaxMemPerCPU"),
        max_mem_per_node: mib("MaxMemPerNode"),
        max_cpus_per_node: v.limit("MaxCPUsPerNode"),
        max_cpus_per_socket: v.limit("MaxCPUsPerSocket"),
        select: select(v, context.select, diags),
        tres_billing_weights: v
            .given("TRESBillingWeights")
            .and_then(|t| parse_tres_weights(t).ok())
            .unwrap_or_default(),
        cpu_bind: v.given("CpuBind").map(str::to_owned),
        topology: v.given("Topology").map(str::to_owned),
        suspend_time_secs: v.seconds("SuspendTime").map(|s| s as u32),
        suspend_timeout_secs: v.limit("SuspendTimeout"),
        resume_timeout_secs: v.limit("ResumeTimeout"),
        power_down_on_idle: v.boolean("PowerDownOnIdle"),
        raw: v
            .pairs()
            .into_iter()
            .filter(|(k, _)| k != "PartitionName" && k != "Nodes")
            .collect(),
        name,
    };
    check(v, &partition, context, diags);
    partition
}

fn check(v: &Values, p: &PartitionConfig, context: &PartitionContext<'_>, diags: &mut Diagnostics) {
    if p.max_nodes.is_some_and(|max| max < p.min_nodes) {
        let text = v.string("MaxNodes");
        diags.error(
            v.origin_of("MaxNodes"),
            Detail::pair("MaxNodes", &text),
            format!("is below MinNodes={}", p.min_nodes),
        );
    }
    if p.allow_accounts.is_some() && !p.deny_accounts.is_empty() {
        diags.warn(
            v.origin_of("DenyAccounts"),
            Detail::key("DenyAccounts"),
            "is ignored because AllowAccounts is set",
        );
    }
    if p.allow_qos.is_some() && !p.deny_qos.is_empty() {
        diags.warn(
            v.origin_of("DenyQos"),
            Detail::key("DenyQos"),
            "is ignored because AllowQos is set",
        );
    }
    let suspends = p
        .preempt_mode
        .and_then(|m| m.mode)
        .unwrap_or(context.preempt.mode)
        == PreemptMode::Suspend;
    let no_share = matches!(p.oversubscribe, OverSubscribe::No);
    if suspends && no_share && context.preempt.kind == PreemptType::PartitionPrio {
        let detail = Detail::pair("PartitionName", &p.name).hint("add OverSubscribe=FORCE:1");
        diags.warn(
            &v.origin,
            detail,
            "PreemptMode=SUSPEND spares the jobs of a partition with OverSubscribe=NO",
        );
    }
}

fn state(text: &str) -> PartitionState {
    match text.to_ascii_uppercase().as_str() {
        "DOWN" => PartitionState::Down,
        "DRAIN" => PartitionState::Drain,
        "INACTIVE" => PartitionState::Inactive,
        _ => PartitionState::Up,
    }
}

fn time_limit(v: &Values, key: &str) -> Option<TimeLimit> {
    let text = v.text(key).filter(|t| !t.eq_ignore_ascii_case("NONE"))?;
    text.parse().ok()
}

fn name_or_none(v: &Values, key: &str) -> Option<String> {
    v.given(key)
        .filter(|t| !t.eq_ignore_ascii_case("NONE") && !t.eq_ignore_ascii_case("N/A"))
        .map(str::to_owned)
}

/// `ALL` is no restriction.
fn all_or_list(v: &Values, key: &str) -> Option<Vec<String>> {
    let text = v.given(key)?;
    let all = split_list(text).any(|i| i.eq_ignore_ascii_case("ALL"));
    (!all).then(|| v.list(key))
}

fn alloc_nodes(v: &Values, diags: &mut Diagnostics) -> Option<Vec<String>> {
    let text = v
        .given("AllocNodes")
        .filter(|t| !t.eq_ignore_ascii_case("ALL"))?;
    match sluice_model::hostlist::parse_hostlist(text) {
        Ok(names) => Some(names),
        Err(e) => {
            diags.error(
                v.origin_of("AllocNodes"),
                Detail::pair("AllocNodes", text),
                e.to_string(),
            );
            None
        }
    }
}

fn oversubscribe(v: &Values, diags: &mut Diagnostics) -> OverSubscribe {
    let text = v.string("OverSubscribe");
    let (word, count) = text
        .split_once(':')
        .map_or((text.as_str(), None), |(w, c)| (w, Some(c)));
    // The highest bit of the number is Slurm's mark for FORCE.
    let count = match count {
        None => Some(SHARE_COUNT_DEFAULT),
        Some(c) => c.parse::<u16>().ok().filter(|c| (1..0x8000).contains(c)),
    };
    let parsed = match (word.to_ascii_uppercase().as_str(), count) {
        ("NO", _) => Some(OverSubscribe::No),
        ("EXCLUSIVE", _) => Some(OverSubscribe::Exclusive),
        ("YES", Some(n)) => Some(OverSubscribe::Yes(n)),
        ("FORCE", Some(n)) => Some(OverSubscribe::Force(n)),
        _ => None,
    };
    parsed.unwrap_or_else(|| {
        let detail = Detail::pair("OverSubscribe", &text)
            .hint("legal: NO, YES[:n], FORCE[:n], EXCLUSIVE with n from 1 to 32767");
        diags.error(v.origin_of("OverSubscribe"), detail, "is not known");
        OverSubscribe::No
    })
}

fn exclusive(v: &Values, oversubscribe: OverSubscribe) -> Exclusive {
    match v.string("Exclusive").to_ascii_uppercase().as_str() {
        "NODE" | "YES" => Exclusive::Node,
        "USER" => Exclusive::User,
        "TOPO" => Exclusive::Topo,
        _ if v.boolean("ExclusiveUser") => Exclusive::User,
        _ if v.boolean("ExclusiveTopo") => Exclusive::Topo,
        _ if oversubscribe == OverSubscribe::Exclusive => Exclusive::Node,
        _ => Exclusive::No,
    }
}

fn preempt_mode(
    v: &Values,
    context: &PartitionContext<'_>,
    diags: &mut Diagnostics,
) -> Option<PartitionPreemptMode> {
    let text = v.given("PreemptMode")?.to_owned();
    let list = preempt_mode_list(v, diags);
    let origin = v.origin_of("PreemptMode");
    if list.gang {
        diags.warn(
            origin,
            Detail::pair("PreemptMode", &text),
            "GANG on a partition is ignored; it is a setting of the whole cluster",
        );
    }
    let active = list.mode.is_some_and(|m| m != PreemptMode::Off);
    if active && context.preempt.kind != PreemptType::PartitionPrio {
        diags.warn(
            origin,
            Detail::pair("PreemptMode", &text),
            "has no effect without PreemptType=preempt/partition_prio",
        );
    }
    if list.mode == Some(PreemptMode::Suspend) && !context.preempt.gang {
        let detail =
            Detail::pair("PreemptMode", &text).hint("add GANG to the cluster's PreemptMode");
        diags.warn(
            origin,
            detail,
            "SUSPEND needs gang scheduling, which is off",
        );
    }
    Some(PartitionPreemptMode {
        mode: list.mode,
        priority: list.priority,
    })
}

fn select(
    v: &Values,
    cluster: &SelectSettings,
    diags: &mut Diagnostics,
) -> Option<(ConsumableUnit, bool)> {
    let text = v
        .given("SelectTypeParameters")
        .filter(|t| !t.eq_ignore_ascii_case("NONE"))?;
    if !matches!(cluster.unit, ConsumableUnit::Core | ConsumableUnit::Socket) {
        let detail = Detail::pair("SelectTypeParameters", text)
            .hint("the cluster's must be CR_Core or CR_Socket, with or without _Memory");
        diags.error(
            v.origin_of("SelectTypeParameters"),
            detail,
            "cannot be set on a partition of this cluster",
        );
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let unit = if lower.starts_with("cr_socket") {
        ConsumableUnit::Socket
    } else {
        ConsumableUnit::Core
    };
    Some((unit, lower.ends_with("_memory")))
}

/// Topology= names a network of topology.yaml; without that file the only one is `default`.
pub(crate) fn check_topologies(
    partitions: &[PartitionConfig],
    lines: &[Values],
    topology: &TopologySettings,
    diags: &mut Diagnostics,
) {
    for p in partitions {
        let Some(name) = p.topology.as_ref().filter(|name| {
            name.as_str() != "default" && !topology.layouts.iter().any(|l| l.name == **name)
        }) else {
            continue;
        };
        if let Some(line) = lines.iter().find(|l| l.string("PartitionName") == p.name) {
            diags.error(
                line.origin_of("Topology"),
                Detail::pair("Topology", name),
                "is not a topology of topology.yaml",
            );
        }
    }
}

/// Alternate= must name a partition.
pub(crate) fn check_alternates(
    partitions: &[PartitionConfig],
    lines: &[Values],
    diags: &mut Diagnostics,
) {
    for p in partitions {
        let Some(other) = p
            .alternate
            .as_ref()
            .filter(|a| !partitions.iter().any(|p| p.name == **a))
        else {
            continue;
        };
        if let Some(line) = lines.iter().find(|l| l.string("PartitionName") == p.name) {
            diags.error(
                line.origin_of("Alternate"),
                Detail::pair("Alternate", other),
                "is not a configured partition",
            );
        }
    }
}

/// SuspendExcParts and the like name partitions.
pub(crate) fn check_named(
    values: &Values,
    key: &str,
    partitions: &[PartitionConfig],
    diags: &mut Diagnostics,
) {
    for name in values.list(key) {
        if !partitions.iter().any(|p| p.name == name) && parse_bool(&name).is_none() {
            diags.error(
                values.origin_of(key),
                Detail::pair(key, &name),
                "is not a configured partition",
            );
        }
    }
}
