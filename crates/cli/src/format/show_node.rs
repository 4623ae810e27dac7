//! `scontrol show node`.
//!
//! Order and spelling are Slurm's; some lines end with a blank, as there. Source: scontrol(1) and its output.

use sluice_model::node::NodeInfo;

use super::node_fields::{gres_text, gres_used_text};
use super::show_job::{Record, ShowOptions};
use super::{NULL, or_null};

fn list(words: &[String]) -> String {
    if words.is_empty() {
        NULL.to_string()
    } else {
        words.join(",")
    }
}

/// The record of `node`.
#[must_use]
pub fn show_node(node: &NodeInfo, options: &ShowOptions) -> String {
    let mut record = Record::new(options.one_line);
    record.line(format_args!("NodeName={} ", node.name));
    if let Some(arch) = &node.arch {
        record.add(format_args!("Arch={arch} "));
    }
    record.add(format_args!("CoresPerSocket={} ", node.cores_per_socket));
    let load = node.cpu_load_centi.map_or_else(
        || "N/A".to_string(),
        |load| format!("{}.{:02}", load / 100, load % 100),
    );
    record.line(format_args!(
        "CPUAlloc={} CPUEfctv={} CPUTot={} CPULoad={load}",
        node.alloc_cpus, node.cpus_effective, node.cpus
    ));
    record.line(format_args!("AvailableFeatures={}", list(&node.features)));
    record.line(format_args!(
        "ActiveFeatures={}",
        list(&node.active_features)
    ));
    record.line(format_args!("Gres={}", gres_text(&node.gres)));
    if options.details {
        record.line("GresDrain=N/A");
        record.line(format_args!("GresUsed={}", gres_used_text(&node.gres)));
    }
    record.line(format_args!(
        "NodeAddr={} NodeHostName={}",
        node.address, node.hostname
    ));
    if node.port != 0 {
        record.add(format_args!(" Port={}", node.port));
    }
    record.add(format_args!(
        " Version={}",
        or_null(node.version.as_deref())
    ));
    if let Some(os) = &node.os {
        record.line(format_args!("OS={os} "));
    }
    let free = node
        .free_memory
        .map_or_else(|| "N/A".to_string(), |size| size.0.to_string());
    record.line(format_args!(
        "RealMemory={} AllocMem={} FreeMem={free} Sockets={} Boards={}",
        node.real_memory.0, node.alloc_memory.0, node.sockets, node.boards
    ));
    let owner = node
        .owner_uid
        .map_or_else(|| "N/A".to_string(), |uid| uid.to_string());
    record.line(format_args!(
        "State={} ThreadsPerCore={} TmpDisk={} Weight={} Owner={owner} MCS_label=N/A",
        node.state.complete(),
        node.threads_per_core,
        node.tmp_disk_mib,
        node.weight
    ));
    if let Some(next) = &node.next_state {
        record.line(format_args!("NextState={next}"));
    }
    if !node.partitions.is_empty() {
        record.line(format_args!("Partitions={} ", node.partitions.join(",")));
    }
    let times = &options.times;
    record.line(format_args!(
        "BootTime={} SlurmdStartTime={}",
        times.optional(node.boot_time, "None"),
        times.optional(node.agent_start_time, "None")
    ));
    record.line(format_args!(
        "LastBusyTime={} ResumeAfterTime={} SuspendTime=INFINITE",
        times.optional(node.last_busy_time, "Unknown"),
        times.optional(node.resume_after_time, "None")
    ));
    record.line(format_args!("CfgTRES={}", node.cfg_tres));
    record.line(format_args!("AllocTRES={}", node.alloc_tres));
    record.line("CurrentWatts=0 AveWatts=0");
    if let Some(reason) = node.reason.as_deref().filter(|reason| !reason.is_empty()) {
        record.line(format_args!("Reason={reason}"));
        if let (Some(user), Some(time)) = (&node.reason_user, node.reason_time) {
            record.add(format_args!(" [{user}@{}]", times.point(time)));
        }
    }
    if let Some(name) = &node.reservation {
        record.line(format_args!("ReservationName={name}"));
    }
    if let Some(comment) = node
        .comment
        .as_deref()
        .filter(|comment| !comment.is_empty())
    {
        record.line(format_args!("Comment={comment}"));
    }
    for (name, text) in [
        ("Extra", &node.extra),
        ("InstanceId", &node.instance_id),
        ("InstanceType", &node.instance_type),
        ("Topology", &node.topology),
    ] {
        if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
            record.line(format_args!("{name}={text}"));
        }
    }
    record.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::samples;
    use crate::format::time_style::TimeStyle;
    use jiff::tz::TimeZone;

    fn options(one_line: bool, details: bool) -> ShowOptions {
        ShowOptions {
            one_line,
            details,
            times: TimeStyle::standard(TimeZone::UTC, samples::SUBMIT + 36),
            index_text_max: 64,
            without_submit_line: false,
            cluster: "oracle".to_string(),
        }
    }

    /// A drained node, as a real scontrol prints it.
    #[test]
    fn drained_node() {
        let expected = "\
NodeName=n4 Arch=x86_64 CoresPerSocket=32 
   CPUAlloc=0 CPUEfctv=64 CPUTot=64 CPULoad=0.31
   AvailableFeatures=std,gpu
   ActiveFeatures=std,gpu
   Gres=gpu:h100:8
   NodeAddr=127.0.0.1 NodeHostName=vm Port=17004 Version=26.11.0-0rc1
   OS=Linux 6.18.44-fc-v669 #1 SMP PREEMPT_DYNAMIC @0 
   RealMemory=256000 AllocMem=0 FreeMem=22634 Sockets=2 Boards=1
   State=IDLE+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=main,short 
   BootTime=2026-11-30T03:57:33 SlurmdStartTime=2026-11-30T04:40:50
   LastBusyTime=2026-11-30T04:40:50 ResumeAfterTime=None SuspendTime=INFINITE
   CfgTRES=cpu=64,mem=250G,billing=64,gres/gpu=8,gres/gpu:h100=8
   AllocTRES=
   CurrentWatts=0 AveWatts=0
   Reason=bad fan [root@2026-11-30T04:41:18]

";
        assert_eq!(
            show_node(&samples::nodes()[3], &options(false, false)),
            expected
        );
    }

    /// Details and one line.
    #[test]
    fn other_forms() {
        let nodes = samples::nodes();
        let text = show_node(&nodes[1], &options(false, true));
        assert!(text.contains(
            "   Gres=gpu:h100:8\n   GresDrain=N/A\n   GresUsed=gpu:h100:2(IDX:0-1)\n   NodeAddr="
        ));
        let text = show_node(&nodes[3], &options(true, false));
        assert!(
            text.starts_with("NodeName=n4 Arch=x86_64 CoresPerSocket=32  CPUAlloc=0 CPUEfctv=64")
        );
        assert!(
            text.contains(" @0  RealMemory=256000")
                && text.contains("Partitions=main,short  BootTime=")
        );
        assert!(text.ends_with("Reason=bad fan [root@2026-11-30T04:41:18]\n"));
    }
}
