//! Columns of sstat: what a running step uses at the moment.
//!
//! Most columns are those of sacct over figures that were read just now; sizes of files are written in the largest unit that
//! divides them. Source: sstat(1) and its output.

use sluice_model::accounting::{JobRecord, StepRecord, StepUsageRecord, UsageStat};
use sluice_model::ids::StepId;
use sluice_model::launch::StepUsage;
use sluice_model::memory::{ByteUnit, format_exact};
use sluice_model::step::StepInfo;
use sluice_model::time::UnixSeconds;

use super::sacct_fields::{FIELDS, Line, SacctView};

/// Columns without options.
pub const FORMAT_DEFAULT: &str = "JobID,AllocTRES,MaxVMSize,MaxVMSizeNode,MaxVMSizeTask,AveVMSize,MaxRSS,MaxRSSNode,\
MaxRSSTask,AveRSS,MaxPages,MaxPagesNode,MaxPagesTask,AvePages,MinCPU,MinCPUNode,MinCPUTask,AveCPU,NTasks,AveCPUFreq,\
ReqCPUFreqMin,ReqCPUFreqMax,ReqCPUFreqGov,ConsumedEnergy,MaxDiskRead,MaxDiskReadNode,MaxDiskReadTask,AveDiskRead,\
MaxDiskWrite,MaxDiskWriteNode,MaxDiskWriteTask,AveDiskWrite,TRESUsageInAve,TRESUsageInMax,TRESUsageInMaxNode,\
TRESUsageInMaxTask,TRESUsageInMin,TRESUsageInMinNode,TRESUsageInMinTask,TRESUsageInTot,TRESUsageOutAve,TRESUsageOutMax,\
TRESUsageOutMaxNode,TRESUsageOutMaxTask,TRESUsageOutMin,TRESUsageOutMinNode,TRESUsageOutMinTask,TRESUsageOutTot";
/// Columns of `-i`.
pub const FORMAT_PIDS: &str = "JobID,Nodelist,Pids";

/// Fields that sacct does not have, or has with another width.
const OWN: &[(&str, i32)] = &[
    ("Nodelist", 20),
    ("Pids", 20),
    ("MaxPagesTask", 14),
    ("AveDiskRead", 12),
    ("AveDiskWrite", 12),
];

/// Figures of one node.
#[derive(Debug, Clone, Default)]
pub struct NodePart {
    /// NodeName.
    pub node: String,
    /// Figures.
    pub usage: StepUsage,
    /// Processes.
    pub pids: Vec<u32>,
    /// Ranks.
    pub task_ids: Vec<u32>,
}

/// A running step, or (with `-i`) one node of it.
#[derive(Debug, Clone)]
pub struct StatRow {
    job: JobRecord,
    step: StepRecord,
    nodes: String,
    pids: Vec<u32>,
}

impl StatRow {
    /// A step with the figures of its nodes.
    #[must_use]
    pub fn new(info: &StepInfo, parts: &[NodePart], now: UnixSeconds) -> Self {
        let mut job = JobRecord::new(info.job_id, 0, info.start_time);
        job.array_job_id = info.array_job_id;
        job.array_task_id = info.array_task_id;
        let mut step = StepRecord::new(
            info.job_id,
            0,
            info.start_time,
            info.step_id,
            info.start_time,
        );
        step.name.clone_from(&info.name);
        step.tasks = info.num_tasks;
        step.cpus = info.num_cpus;
        step.nodes = info.num_nodes;
        step.node_list.clone_from(&info.nodes);
        // The batch step has no allocation of its own.
        if info.step_id != StepId::Batch {
            step.alloc_tres = info.tres.to_string();
        }
        step.usage = usage_of(parts, info.num_tasks);
        // The columns show figures of ended steps only; these are as good as an end.
        step.end = Some(now);
        Self {
            job,
            step,
            nodes: info.nodes.clone(),
            pids: parts.iter().flat_map(|part| part.pids.clone()).collect(),
        }
    }

    /// One node of a step, for `-i`.
    #[must_use]
    pub fn of_node(info: &StepInfo, part: &NodePart, now: UnixSeconds) -> Self {
        let mut row = Self::new(info, std::slice::from_ref(part), now);
        row.nodes.clone_from(&part.node);
        row
    }
}

/// Sums and extremes over the nodes.
fn usage_of(parts: &[NodePart], tasks: u32) -> StepUsageRecord {
    let mut usage = StepUsageRecord::default();
    let tasks = u64::from(tasks.max(1));
    let mut rss_total = 0;
    for part in parts {
        let here = &part.usage;
        let first = part.task_ids.first().copied().unwrap_or(0);
        usage.user_cpu_us += here.user_cpu_us;
        usage.system_cpu_us += here.system_cpu_us;
        rss_total += here.total_rss_kib;
        let cpu_ms = (here.user_cpu_us + here.system_cpu_us) / 1_000;
        merge(&mut usage.cpu_ms, cpu_ms, &part.node, first);
        merge(
            &mut usage.rss_kib,
            here.max_rss_kib,
            &part.node,
            here.max_rss_task,
        );
        merge(&mut usage.vsize_kib, here.max_vsize_kib, &part.node, first);
        merge(&mut usage.pages, here.max_pages, &part.node, first);
        merge(
            &mut usage.disk_read_bytes,
            here.disk_read_bytes,
            &part.node,
            first,
        );
        merge(
            &mut usage.disk_write_bytes,
            here.disk_write_bytes,
            &part.node,
            first,
        );
    }
    for stat in [
        &mut usage.cpu_ms,
        &mut usage.vsize_kib,
        &mut usage.pages,
        &mut usage.disk_read_bytes,
        &mut usage.disk_write_bytes,
    ] {
        stat.average = stat.total / tasks;
    }
    // A task's virtual size is not summed on the nodes: the average of their highest is the best that is known.
    usage.vsize_kib.average = usage.vsize_kib.total / (parts.len() as u64).max(1);
    usage.rss_kib.total = rss_total;
    usage.rss_kib.average = rss_total / tasks;
    usage
}

fn merge(stat: &mut UsageStat, value: u64, node: &str, task: u32) {
    if stat.max_node.is_empty() || value > stat.max {
        stat.max = value;
        stat.max_node = node.to_string();
        stat.max_task = task;
    }
    if stat.min_node.is_empty() || value < stat.min {
        stat.min = value;
        stat.min_node = node.to_string();
        stat.min_task = task;
    }
    stat.total += value;
}

/// Bytes in the largest unit that divides them: `28149`, `1.00M`.
fn bytes(number: u64, exact: bool) -> String {
    let mut value = number;
    let mut letters = ["", "K", "M", "G", "T"].into_iter();
    let mut letter = letters.next().unwrap_or_default();
    while !exact && value > 0 && value.is_multiple_of(1024) {
        let Some(next) = letters.next() else { break };
        value /= 1024;
        letter = next;
    }
    if letter.is_empty() {
        value.to_string()
    } else {
        format!("{value}.00{letter}")
    }
}

/// A chosen column.
#[derive(Debug, Clone)]
pub struct StatColumn {
    /// Heading.
    pub name: &'static str,
    /// Width; negative = to the left.
    pub width: i32,
}

/// Every field, by name.
#[must_use]
pub fn field_names() -> Vec<&'static str> {
    let mut names: Vec<&'static str> = FORMAT_DEFAULT.split(',').collect();
    names.extend(["ConsumedEnergyRaw", "ReqCPUFreq", "Nodelist", "Pids"]);
    names.sort_unstable_by_key(|name| name.to_ascii_lowercase());
    names
}

/// Reads a list of columns; the first unknown name is the error.
///
/// # Errors
/// The name that is no field.
pub fn columns(list: &str) -> Result<Vec<StatColumn>, String> {
    let names = field_names();
    list.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(|item| {
            let (name, width) = item.split_once('%').unwrap_or((item, ""));
            let lower = name.to_ascii_lowercase();
            let exact = names.iter().find(|known| known.eq_ignore_ascii_case(name));
            let found = exact
                .or_else(|| {
                    names
                        .iter()
                        .find(|known| known.to_ascii_lowercase().starts_with(&lower))
                })
                .ok_or_else(|| name.to_string())?;
            let own = OWN
                .iter()
                .find(|(own, _)| own == found)
                .map(|(_, width)| *width);
            let standard = own
                .or_else(|| {
                    FIELDS
                        .iter()
                        .find(|field| field.name == *found)
                        .map(|field| field.width)
                })
                .unwrap_or(10);
            Ok(StatColumn {
                name: found,
                width: width
                    .parse()
                    .ok()
                    .filter(|width| *width != 0)
                    .unwrap_or(standard),
            })
        })
        .collect()
}

/// The text of a column.
#[must_use]
pub fn value(row: &StatRow, name: &str, view: &SacctView, exact: bool) -> String {
    let usage = &row.step.usage;
    let batch = row.step.step_id == StepId::Batch;
    match name {
        "Nodelist" => row.nodes.clone(),
        "Pids" => {
            let pids: Vec<String> = row.pids.iter().map(ToString::to_string).collect();
            pids.join(",")
        }
        "MaxDiskRead" => bytes(usage.disk_read_bytes.max, exact),
        "AveDiskRead" => bytes(usage.disk_read_bytes.average, exact),
        "MaxDiskWrite" => bytes(usage.disk_write_bytes.max, exact),
        "AveDiskWrite" => bytes(usage.disk_write_bytes.average, exact),
        "MaxRSS" if exact => format!("{}K", usage.rss_kib.max),
        "AveRSS" if exact => format!("{}K", usage.rss_kib.average),
        "MaxVMSize" if exact => format!("{}K", usage.vsize_kib.max),
        "AveVMSize" if exact => format!("{}K", usage.vsize_kib.average),
        "MaxVMSize" => format_exact(usage.vsize_kib.max, ByteUnit::Kib),
        "ReqCPUFreq" | "ReqCPUFreqMin" | "ReqCPUFreqMax" | "ReqCPUFreqGov" if batch => {
            "0".to_string()
        }
        "AllocTRES" if batch => String::new(),
        other => FIELDS
            .iter()
            .find(|field| field.name == other)
            .map(|field| {
                (field.value)(&Line {
                    job: &row.job,
                    step: Some(&row.step),
                    view,
                })
            })
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sacct::{TableStyle, table_header};
    use crate::format::samples;
    use crate::format::time_style::TimeStyle;
    use jiff::tz::TimeZone;

    fn view() -> SacctView {
        SacctView {
            times: TimeStyle::standard(TimeZone::UTC, samples::SUBMIT),
            unit: None,
            window: None,
        }
    }

    fn row() -> StatRow {
        let mut step = samples::steps().remove(0);
        step.step_id = StepId::Num(0);
        step.job_id = sluice_model::ids::JobId(9);
        step.num_tasks = 8;
        step.tres = samples::tres("cpu=8,mem=2000M,node=2");
        let part = |node: &str, first: u32, rss: u64, task: u32| NodePart {
            node: node.to_string(),
            usage: StepUsage {
                user_cpu_us: 1_500_000,
                max_rss_kib: rss,
                max_rss_task: task,
                total_rss_kib: rss * 4,
                max_vsize_kib: 2_920,
                disk_read_bytes: 6_977,
                disk_write_bytes: 1_048_576,
                ..StepUsage::default()
            },
            pids: vec![100 + first, 101 + first],
            task_ids: (first..first + 4).collect(),
        };
        StatRow::new(
            &step,
            &[part("n1", 0, 1_676, 3), part("n2", 4, 1_616, 5)],
            samples::SUBMIT,
        )
    }

    /// The heading of a real sstat.
    #[test]
    fn heading() {
        let columns = columns(FORMAT_DEFAULT).expect("known");
        let names: Vec<(String, i32)> = columns
            .iter()
            .map(|column| (column.name.to_string(), column.width))
            .collect();
        let text = table_header(&names, &TableStyle::Padded);
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with(
            "JobID         AllocTRES  MaxVMSize  MaxVMSizeNode  MaxVMSizeTask  AveVMSize     MaxRSS MaxRSSNode MaxRSSTask     AveRSS MaxPages MaxPagesNode   MaxPagesTask   AvePages     MinCPU MinCPUNode MinCPUTask     AveCPU   NTasks AveCPUFreq ReqCPUFreqMin ReqCPUFreqMax ReqCPUFreqGov ConsumedEnergy  MaxDiskRead MaxDiskReadNode MaxDiskReadTask  AveDiskRead MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask AveDiskWrite TRESUsageInAve"
        ), "{first}");
        assert!(
            first.ends_with("TRESUsageOutMinTask TRESUsageOutTot "),
            "{first}"
        );
    }

    /// Figures over two nodes.
    #[test]
    fn figures() {
        let row = row();
        let show = |name: &str| value(&row, name, &view(), false);
        assert_eq!(show("JobID"), "9.0");
        assert_eq!(show("AllocTRES"), "cpu=8,mem=2000M,node=2");
        assert_eq!(
            (show("MaxRSS"), show("MaxRSSNode"), show("MaxRSSTask")),
            ("1676K".into(), "n1".into(), "3".into())
        );
        assert_eq!(show("AveRSS"), "1646K");
        assert_eq!(
            (show("MaxVMSize"), show("AveVMSize")),
            ("2920K".into(), "2920K".into())
        );
        assert_eq!(
            (show("MinCPU"), show("MinCPUNode"), show("NTasks")),
            ("00:00:01".into(), "n1".into(), "8".into())
        );
        assert_eq!(
            (show("MaxDiskRead"), show("MaxDiskWrite")),
            ("6977".into(), "1.00M".into())
        );
        assert_eq!(show("ReqCPUFreqMin"), "Unknown");
        assert_eq!(show("Pids"), "100,101,104,105");
        assert_eq!(columns("nosuch").err(), Some("nosuch".to_string()));
        assert_eq!(columns("maxrss%12").expect("known")[0].width, 12);
    }
}
