//! `scontrol show partition`.
//!
//! Order and spelling are Slurm's. Source: scontrol(1) and its output.

use sluice_model::memory::MemoryMib;
use sluice_model::partition::{PartitionInfo, PartitionState};
use sluice_model::time::TimeLimit;

use super::or_null;
use super::show_job::{Record, ShowOptions};

fn yes(on: bool) -> &'static str {
    if on { "YES" } else { "NO" }
}

fn count(count: Option<u32>) -> String {
    count.map_or_else(|| "UNLIMITED".to_string(), |count| count.to_string())
}

fn limit(limit: Option<TimeLimit>, none: &str) -> String {
    limit.map_or_else(|| none.to_string(), |limit| limit.to_string())
}

fn all_or(words: &[String]) -> String {
    if words.is_empty() {
        "ALL".to_string()
    } else {
        words.join(",")
    }
}

/// The allow list, or the deny list when there is only that.
fn access(name: &str, allow: &[String], deny: &[String]) -> String {
    if allow.is_empty() && !deny.is_empty() {
        format!("Deny{name}={}", deny.join(","))
    } else {
        format!("Allow{name}={}", all_or(allow))
    }
}

fn memory(kind: &str, per_cpu: Option<MemoryMib>, per_node: Option<MemoryMib>) -> String {
    match (per_cpu, per_node) {
        (Some(size), _) => format!("{kind}MemPerCPU={}", size.0),
        (None, Some(size)) if size.0 > 0 => format!("{kind}MemPerNode={}", size.0),
        _ => format!("{kind}MemPerNode=UNLIMITED"),
    }
}

/// State=.
#[must_use]
pub fn state_word(state: PartitionState) -> &'static str {
    match state {
        PartitionState::Up => "UP",
        PartitionState::Down => "DOWN",
        PartitionState::Drain => "DRAIN",
        PartitionState::Inactive => "INACTIVE",
    }
}

/// The record of `partition`.
#[must_use]
pub fn show_partition(partition: &PartitionInfo, options: &ShowOptions) -> String {
    let mut record = Record::new(options.one_line);
    record.line(format_args!("PartitionName={}", partition.name));
    record.line(format_args!(
        "AllowGroups={} {} {}",
        all_or(&partition.allow_groups),
        access(
            "Accounts",
            &partition.allow_accounts,
            &partition.deny_accounts
        ),
        access("Qos", &partition.allow_qos, &partition.deny_qos)
    ));
    let nodes = if partition.alloc_nodes.is_empty() {
        "ALL"
    } else {
        &partition.alloc_nodes
    };
    record.line(format_args!("AllocNodes={nodes}"));
    if let Some(alternate) = &partition.alternate {
        record.add(format_args!(" Alternate={alternate}"));
    }
    record.add(format_args!(
        " Default={} QoS={}",
        yes(partition.is_default),
        partition.qos.as_deref().unwrap_or("N/A")
    ));
    record.line(format_args!(
        "DefaultTime={} DisableRootJobs={} Exclusive={} GraceTime={} Hidden={}",
        limit(partition.default_time, "NONE"),
        yes(partition.disable_root_jobs),
        partition.exclusive,
        partition.grace_time_secs,
        yes(partition.hidden)
    ));
    record.line(format_args!(
        "MaxNodes={} MaxTime={} MinNodes={} LLN={} MaxCPUsPerNode={} MaxCPUsPerSocket={}",
        count(partition.max_nodes),
        limit(partition.max_time, "UNLIMITED"),
        partition.min_nodes,
        yes(partition.lln),
        count(partition.max_cpus_per_node),
        count(partition.max_cpus_per_socket)
    ));
    if let Some(sets) = &partition.node_sets {
        record.line(format_args!("NodeSets={sets}"));
    }
    record.line(format_args!("Nodes={}", or_null(Some(&partition.nodes))));
    record.line(format_args!(
        "PriorityJobFactor={} PriorityTier={} RootOnly={} ReqResv={} OverSubscribe={}",
        partition.priority_job_factor,
        partition.priority_tier,
        yes(partition.root_only),
        yes(partition.req_resv),
        partition.over_subscribe
    ));
    let over = partition.over_time_limit.map_or_else(
        || "NONE".to_string(),
        |limit| {
            limit
                .minutes()
                .map_or_else(|| "UNLIMITED".to_string(), |minutes| minutes.to_string())
        },
    );
    record.line(format_args!(
        "OverTimeLimit={over} PreemptMode={}",
        partition.preempt_mode
    ));
    let state = state_word(partition.state);
    record.line(format_args!(
        "State={state} TotalCPUs={} TotalNodes={} SelectTypeParameters={}",
        partition.total_cpus, partition.total_nodes, partition.select_type_parameters
    ));
    record.line(format_args!(
        "JobDefaults={}",
        or_null(partition.job_defaults.as_deref())
    ));
    record.line(format_args!(
        "{} {}",
        memory("Def", partition.def_mem_per_cpu, partition.def_mem_per_node),
        memory("Max", partition.max_mem_per_cpu, partition.max_mem_per_node)
    ));
    record.line(format_args!(
        "TRES={}",
        or_null(Some(&partition.tres.to_string()))
    ));
    if let Some(weights) = &partition.tres_billing_weights {
        record.line(format_args!("TRESBillingWeights={weights}"));
    }
    record.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::samples;
    use crate::format::time_style::TimeStyle;
    use jiff::tz::TimeZone;

    /// Two partitions, as a real scontrol prints them.
    #[test]
    fn partitions() {
        let options = ShowOptions {
            one_line: false,
            details: false,
            times: TimeStyle::standard(TimeZone::UTC, samples::SUBMIT),
            index_text_max: 64,
            without_submit_line: false,
            cluster: "oracle".to_string(),
        };
        let text: String = samples::partitions()
            .iter()
            .map(|partition| show_partition(partition, &options))
            .collect();
        let expected = "\
PartitionName=main
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   AllocNodes=ALL Default=YES QoS=N/A
   DefaultTime=01:00:00 DisableRootJobs=NO Exclusive=NO GraceTime=0 Hidden=NO
   MaxNodes=UNLIMITED MaxTime=7-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=UNLIMITED
   Nodes=n[1-4]
   PriorityJobFactor=10 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO
   OverTimeLimit=NONE PreemptMode=REQUEUE
   State=UP TotalCPUs=256 TotalNodes=4 SelectTypeParameters=NONE
   JobDefaults=(null)
   DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED
   TRES=cpu=256,mem=1000G,node=4,billing=256,gres/gpu=32,gres/gpu:h100=32,license/matlab=10

PartitionName=short
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   AllocNodes=ALL Default=NO QoS=N/A
   DefaultTime=NONE DisableRootJobs=NO Exclusive=NO GraceTime=0 Hidden=NO
   MaxNodes=UNLIMITED MaxTime=00:30:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=UNLIMITED
   Nodes=n[1-4]
   PriorityJobFactor=1 PriorityTier=10 RootOnly=NO ReqResv=NO OverSubscribe=NO
   OverTimeLimit=NONE PreemptMode=REQUEUE
   State=UP TotalCPUs=256 TotalNodes=4 SelectTypeParameters=NONE
   JobDefaults=(null)
   DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED
   TRES=cpu=256,mem=1000G,node=4,billing=256,gres/gpu=32,gres/gpu:h100=32,license/matlab=10

";
        assert_eq!(text, expected);
    }
}
