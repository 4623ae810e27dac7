//! The fields of squeue's job listing: letters of `-o`, names of `-O`, headings, and texts.
//!
//! One row a field. Words for "nothing" differ from field to field and are Slurm's. Source: squeue(1) and its output.

use sluice_model::gres::GresRequest;
use sluice_model::memory::format_memory;
use sluice_model::sluid::Sluid;
use sluice_model::time::{TimeLimit, UnixSeconds, format_duration_short};

use super::column::Field;
use super::job_rows::JobRow;
use super::{NULL, or_null};

/// Default columns.
pub const FORMAT_DEFAULT: &str = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
/// Columns of `-l`.
pub const FORMAT_LONG: &str = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
/// Format of `--only-job-state`.
pub const FORMAT_STATES: &str = "%.18i %.2t";
/// Columns of `--start`.
pub const FORMAT_START: &str = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";

type Row = JobRow;

const fn field(
    letter: Option<char>,
    name: &'static str,
    header: &'static str,
    value: fn(&Row) -> String,
) -> Field<Row> {
    Field {
        letter,
        name,
        header,
        value,
    }
}

/// A point in time, `N/A` when there is none.
fn time(row: &Row, time: Option<UnixSeconds>) -> String {
    row.view.times.optional(time, "N/A")
}

/// `UNLIMITED`, or the limit.
fn limit(limit: TimeLimit) -> String {
    limit
        .seconds()
        .map_or_else(|| "UNLIMITED".to_string(), format_duration_short)
}

/// `gres/gpu:h100:2,…`, `N/A` when there is none.
fn tres_list(requests: &[GresRequest]) -> String {
    if requests.is_empty() {
        return "N/A".to_string();
    }
    requests
        .iter()
        .map(|request| format!("gres/{request}"))
        .collect::<Vec<_>>()
        .join(",")
}

/// Least memory: of a node, or of a CPU.
fn min_memory(row: &Row) -> String {
    let description = &row.job.description;
    let size = description
        .mem_per_node
        .or(description.mem_per_cpu)
        .or(description.mem_per_gpu);
    size.map_or_else(|| "0".to_string(), format_memory)
}

fn count_or_star(count: Option<u32>) -> String {
    count.map_or_else(|| "*".to_string(), |count| count.to_string())
}

fn count_or(count: Option<u32>, none: &str) -> String {
    count.map_or_else(|| none.to_string(), |count| count.to_string())
}

fn extra(row: &Row, name: &str) -> String {
    or_null(row.job.description.extra.get(name).map(String::as_str))
}

fn over_subscribe(row: &Row) -> String {
    let description = &row.job.description;
    let word = match description.exclusive {
        Some(sluice_model::job::Exclusive::User) => "USER",
        Some(sluice_model::job::Exclusive::Mcs) => "MCS",
        Some(sluice_model::job::Exclusive::Topo) => "TOPO",
        Some(sluice_model::job::Exclusive::Node) | None if description.oversubscribe => "YES",
        _ => "NO",
    };
    word.to_string()
}

/// The expected or real output path, with or without patterns.
fn stream(row: &Row, pattern: Option<&str>, path: &str, default: &str) -> String {
    if row.view.expand_patterns && !path.is_empty() {
        return path.to_string();
    }
    pattern
        .filter(|pattern| !pattern.is_empty())
        .unwrap_or(default)
        .to_string()
}

fn default_output(row: &Row) -> &'static str {
    match (row.job.description.batch, row.job.array_job_id.is_some()) {
        (false, _) => NULL,
        (true, true) => "slurm-%A_%a.out",
        (true, false) => "slurm-%j.out",
    }
}

fn allocated_or_requested(row: &Row) -> String {
    let job = &row.job;
    let tres = if job.alloc_tres.is_empty() {
        &job.req_tres
    } else {
        &job.alloc_tres
    };
    tres.to_string()
}

fn bit(on: bool) -> String {
    u8::from(on).to_string()
}

/// The table.
pub static FIELDS: &[Field<Row>] = &[
    field(Some('a'), "Account", "ACCOUNT", |row| {
        or_null(Some(&row.job.account))
    }),
    field(Some('A'), "JobID", "JOBID", |row| {
        row.job.job_id.to_string()
    }),
    field(Some('B'), "BatchHost", "EXEC_HOST", |row| {
        row.job
            .batch_host
            .clone()
            .unwrap_or_else(|| "n/a".to_string())
    }),
    field(Some('b'), "tres-per-node", "TRES_PER_NODE", |row| {
        tres_list(&row.job.description.gres_per_node)
    }),
    field(Some('c'), "MinCPUs", "MIN_CPUS", |row| {
        let description = &row.job.description;
        description
            .min_cpus_per_node
            .or(description.cpus_per_task)
            .unwrap_or(1)
            .to_string()
    }),
    field(Some('C'), "NumCPUs", "CPUS", |row| {
        row.job.num_cpus.to_string()
    }),
    field(Some('d'), "MinTmpDisk", "MIN_TMP_DISK", |row| {
        row.job.description.tmp_disk_mib.unwrap_or(0).to_string()
    }),
    field(Some('D'), "NumNodes", "NODES", |row| {
        row.job.num_nodes.to_string()
    }),
    field(Some('e'), "EndTime", "END_TIME", |row| {
        time(row, row.job.end_time)
    }),
    field(Some('E'), "Dependency", "DEPENDENCY", |row| {
        or_null(row.job.dependency.as_deref())
    }),
    field(Some('f'), "Feature", "FEATURES", |row| {
        or_null(row.job.description.constraint.as_deref())
    }),
    field(Some('F'), "ArrayJobID", "ARRAY_JOB_ID", |row| {
        row.job.array_job_id.unwrap_or(row.job.job_id).to_string()
    }),
    field(Some('g'), "GroupName", "GROUP", |row| {
        row.job.group_name.clone()
    }),
    field(Some('G'), "GroupID", "GROUP", |row| {
        row.job.description.gid.to_string()
    }),
    field(Some('h'), "OverSubscribe", "OVER_SUBSCRIBE", over_subscribe),
    field(Some('H'), "Sockets", "SOCKETS_PER_NODE", |row| {
        count_or_star(row.job.description.sockets_per_node)
    }),
    field(Some('i'), "JobArrayID", "JOBID", JobRow::array_id),
    field(Some('I'), "Cores", "CORES_PER_SOCKET", |row| {
        count_or_star(row.job.description.cores_per_socket)
    }),
    field(Some('j'), "Name", "NAME", |row| {
        or_null(row.job.description.name.as_deref())
    }),
    field(Some('J'), "Threads", "THREADS_PER_CORE", |row| {
        count_or_star(row.job.description.threads_per_core)
    }),
    field(Some('k'), "Comment", "COMMENT", |row| {
        or_null(row.job.description.comment.as_deref())
    }),
    field(Some('K'), "ArrayTaskID", "ARRAY_TASK_ID", |row| {
        row.task_list().unwrap_or_else(|| "N/A".to_string())
    }),
    field(Some('l'), "TimeLimit", "TIME_LIMIT", |row| {
        limit(row.job.time_limit)
    }),
    field(Some('L'), "TimeLeft", "TIME_LEFT", |row| {
        row.time_left()
            .map_or_else(|| "UNLIMITED".to_string(), format_duration_short)
    }),
    field(Some('m'), "MinMemory", "MIN_MEMORY", min_memory),
    field(Some('M'), "TimeUsed", "TIME", |row| {
        format_duration_short(row.run_time())
    }),
    field(Some('n'), "ReqNodes", "REQ_NODES", |row| {
        row.job
            .description
            .required_nodes
            .clone()
            .unwrap_or_default()
    }),
    field(Some('N'), "NodeList", "NODELIST", |row| {
        row.job.nodes.clone()
    }),
    field(Some('o'), "Command", "COMMAND", |row| {
        or_null(row.job.description.command.as_deref())
    }),
    field(Some('O'), "Contiguous", "CONTIGUOUS", |row| {
        bit(row.job.description.contiguous)
    }),
    field(Some('p'), "Priority", "PRIORITY", |row| {
        format!("{:.14}", f64::from(row.job.priority) / f64::from(u32::MAX))
    }),
    field(Some('P'), "Partition", "PARTITION", |row| {
        row.partition().to_string()
    }),
    field(Some('q'), "QOS", "QOS", |row| or_null(Some(&row.job.qos))),
    field(Some('Q'), "PriorityLong", "PRIORITY", |row| {
        row.job.priority.to_string()
    }),
    field(Some('r'), "Reason", "REASON", JobRow::reason),
    field(
        Some('R'),
        "ReasonList",
        "NODELIST(REASON)",
        JobRow::nodes_or_reason,
    ),
    field(Some('s'), "SLUID", "SLUID", |row| {
        Sluid::of(&row.view.cluster, row.job.submit_time, row.job.job_id).to_string()
    }),
    field(Some('S'), "StartTime", "START_TIME", |row| {
        time(row, row.job.start_time)
    }),
    field(Some('t'), "StateCompact", "ST", |row| {
        row.job.state.code().to_string()
    }),
    field(Some('T'), "State", "STATE", |row| {
        row.job.state.name().to_string()
    }),
    field(Some('u'), "UserName", "USER", |row| {
        row.job.user_name.clone()
    }),
    field(Some('U'), "UserID", "UID", |row| {
        row.job.description.uid.to_string()
    }),
    field(Some('v'), "Reservation", "RESERVATION", |row| {
        or_null(row.job.description.reservation.as_deref())
    }),
    field(Some('V'), "SubmitTime", "SUBMIT_TIME", |row| {
        time(row, Some(row.job.submit_time))
    }),
    field(Some('w'), "WCKey", "WCKEY", |row| {
        or_null(row.job.description.wckey.as_deref())
    }),
    field(Some('W'), "Licenses", "LICENSES", |row| {
        or_null(row.job.description.licenses.as_deref())
    }),
    field(Some('x'), "ExcNodes", "EXC_NODES", |row| {
        row.job
            .description
            .excluded_nodes
            .clone()
            .unwrap_or_default()
    }),
    field(Some('X'), "CoreSpec", "CORE_SPEC", |row| {
        count_or(row.job.description.core_spec, "N/A")
    }),
    field(Some('y'), "Nice", "NICE", |row| {
        row.job.description.nice.to_string()
    }),
    field(Some('Y'), "SchedNodes", "SCHEDNODES", |row| {
        or_null(row.job.sched_nodes.as_deref())
    }),
    field(Some('z'), "SCT", "S:C:T", |row| {
        let description = &row.job.description;
        [
            description.sockets_per_node,
            description.cores_per_socket,
            description.threads_per_core,
        ]
        .map(count_or_star)
        .join(":")
    }),
    field(Some('Z'), "WorkDir", "WORK_DIR", |row| {
        or_null(Some(&row.job.description.work_dir))
    }),
    field(None, "AccrueTime", "ACCRUE_TIME", |row| {
        time(row, row.job.accrue_time)
    }),
    field(None, "admin_comment", "ADMIN_COMMENT", |row| {
        or_null(row.job.admin_comment.as_deref())
    }),
    field(None, "AllocNodes", "ALLOC_NODES", |row| {
        or_null(Some(&row.job.description.submit_host))
    }),
    field(None, "AllocSID", "ALLOC_SID", |row| {
        row.job.description.submit_sid.to_string()
    }),
    field(None, "AssocID", "ASSOC_ID", |row| {
        row.job.association_id.to_string()
    }),
    field(None, "BatchFlag", "BATCH_FLAG", |row| {
        bit(row.job.description.batch)
    }),
    field(None, "BoardsPerNode", "BOARDS_PER_NODE", |_| {
        "0".to_string()
    }),
    field(None, "BurstBuffer", "BURST_BUFFER", |row| extra(row, "bb")),
    field(None, "BurstBufferState", "BURST_BUFFER_STATE", |_| {
        NULL.to_string()
    }),
    field(None, "Cluster", "CLUSTER", |row| row.view.cluster.clone()),
    field(None, "ClusterFeature", "CLUSTER_FEATURES", |row| {
        extra(row, "cluster-constraint")
    }),
    field(None, "Container", "CONTAINER", |row| {
        extra(row, "container")
    }),
    field(None, "ContainerID", "CONTAINERID", |row| {
        extra(row, "container-id")
    }),
    field(None, "cpus-per-task", "CPUS_PER_TASK", |row| {
        row.job.description.cpus_per_task.unwrap_or(1).to_string()
    }),
    field(None, "cpus-per-tres", "CPUS_PER_TRES", |row| {
        row.job
            .description
            .cpus_per_gpu
            .map_or_else(|| "N/A".to_string(), |count| format!("gres/gpu:{count}"))
    }),
    field(None, "CronJob", "CRON_JOB", |row| {
        let is_cron = row.job.description.cron_spec.is_some();
        if is_cron { "Yes" } else { "No" }.to_string()
    }),
    field(None, "Deadline", "DEADLINE", |row| {
        time(row, row.job.description.deadline)
    }),
    field(None, "DelayBoot", "DELAY_BOOT", |_| "0:00".to_string()),
    field(None, "DerivedEC", "DERIVED_EC", |row| {
        row.job.derived_exit_status.to_string()
    }),
    field(None, "EligibleTime", "ELIGIBLE_TIME", |row| {
        time(row, row.job.eligible_time)
    }),
    field(None, "Exclusive", "EXCLUSIVE", |row| {
        super::show_job::exclusive_word(&row.job)
    }),
    field(None, "exit_code", "EXIT_CODE", |row| {
        row.job.exit_status.to_string()
    }),
    field(None, "Gres", "TRES_PER_NODE", |row| {
        tres_list(&row.job.description.gres_per_node)
    }),
    field(None, "HetJobID", "HET_JOB_ID", |row| {
        or_na(row.job.het_job_id)
    }),
    field(None, "HetJobIDSet", "HET_JOB_ID_SET", |row| {
        or_na(row.job.het_job_id_set.as_deref())
    }),
    field(None, "HetJobOffset", "HET_JOB_OFFSET", |row| {
        or_na(row.job.het_job_offset)
    }),
    field(None, "LastSchedEval", "LAST_SCHED_EVAL", |row| {
        time(row, row.job.last_sched_eval)
    }),
    field(None, "LicensesAlloc", "LICENSES_ALLOC", |row| {
        or_null(row.job.licenses_allocated.as_deref())
    }),
    field(None, "MaxCPUs", "MAX_CPUS", |row| {
        row.job.num_cpus.to_string()
    }),
    field(None, "MaxNodes", "MAX_NODES", |row| {
        row.job
            .description
            .max_nodes
            .unwrap_or(row.job.num_nodes)
            .to_string()
    }),
    field(None, "MCSLabel", "MCSLABEL", |row| extra(row, "mcs-label")),
    field(None, "mem-per-tres", "MEM_PER_TRES", |row| {
        row.job
            .description
            .mem_per_gpu
            .map_or_else(|| "N/A".to_string(), |size| format!("gres/gpu:{}", size.0))
    }),
    field(None, "MinTime", "TIME_MIN", |row| {
        let seconds = row
            .job
            .description
            .time_min
            .and_then(TimeLimit::seconds)
            .unwrap_or(0);
        format_duration_short(seconds)
    }),
    field(None, "Network", "NETWORK", |row| extra(row, "network")),
    field(None, "NTPerBoard", "NTASKS_PER_BOARD", |_| "0".to_string()),
    field(None, "NTPerCore", "NTASKS_PER_CORE", |row| {
        count_or(row.job.description.ntasks_per_core, "N/A")
    }),
    field(None, "NTPerNode", "NTASKS_PER_NODE", |row| {
        count_or(row.job.description.ntasks_per_node, "0")
    }),
    field(None, "NTPerSocket", "NTASKS_PER_SOCKET", |row| {
        count_or(row.job.description.ntasks_per_socket, "N/A")
    }),
    field(None, "NumTasks", "TASKS", |row| {
        row.job.num_tasks.to_string()
    }),
    field(None, "Origin", "ORIGIN", |_| "NA".to_string()),
    field(None, "OriginRaw", "ORIGIN_RAW", |_| "NA".to_string()),
    field(None, "PendingTime", "PENDING_TIME", |row| {
        let until = if row.job.state.is_pending() {
            row.view.times.now
        } else {
            row.job.start_time.unwrap_or(row.view.times.now)
        };
        (until - row.job.submit_time).max(0).to_string()
    }),
    field(None, "PreemptTime", "PREEMPT_TIME", |_| "N/A".to_string()),
    field(None, "Prefer", "PREFER", |row| {
        or_null(row.job.description.prefer.as_deref())
    }),
    field(None, "Profile", "PROFILE", |row| {
        row.job
            .description
            .extra
            .get("profile")
            .cloned()
            .unwrap_or_else(|| "NotSet".to_string())
    }),
    field(None, "Reboot", "REBOOT", |row| {
        bit(row.job.description.extra.contains_key("reboot"))
    }),
    field(None, "ReqSwitch", "REQ_SWITCH", |row| {
        let text = row
            .job
            .description
            .extra
            .get("switches")
            .map_or("0", String::as_str);
        text.split('@').next().unwrap_or("0").to_string()
    }),
    field(None, "Requeue", "REQUEUE", |row| bit(row.job.requeue)),
    field(None, "ResizeTime", "RESIZE_TIME", |_| "N/A".to_string()),
    field(None, "RestartCnt", "RESTART_COUNT", |row| {
        row.job.restarts.to_string()
    }),
    field(None, "Runtime", "RUNTIME", |row| extra(row, "runtime")),
    field(None, "SegmentSize", "SEGMENT_SIZE", |row| {
        row.job
            .description
            .extra
            .get("segment")
            .cloned()
            .unwrap_or_else(|| "N/A".to_string())
    }),
    field(None, "SiblingsActive", "ACTIVE_SIBLINGS", |_| {
        "NA".to_string()
    }),
    field(None, "SiblingsActiveRaw", "ACTIVE_SIBLINGS_RAW", |_| {
        "NA".to_string()
    }),
    field(None, "SiblingsViable", "VIABLE_SIBLINGS", |_| {
        "NA".to_string()
    }),
    field(None, "SiblingsViableRaw", "VIABLE_SIBLINGS_RAW", |_| {
        "NA".to_string()
    }),
    field(None, "SPerBoard", "SOCKETS_PER_BOARD", |_| "0".to_string()),
    field(None, "StdErr", "STDERR", |row| {
        stream(
            row,
            row.job.description.std_err.as_deref(),
            &row.job.std_err_path,
            NULL,
        )
    }),
    field(None, "StdIn", "STDIN", |row| {
        stream(
            row,
            row.job.description.std_in.as_deref(),
            &row.job.std_in_path,
            "/dev/null",
        )
    }),
    field(None, "StdOut", "STDOUT", |row| {
        stream(
            row,
            row.job.description.std_out.as_deref(),
            &row.job.std_out_path,
            default_output(row),
        )
    }),
    field(None, "system_comment", "SYSTEM_COMMENT", |row| {
        or_null(row.job.system_comment.as_deref())
    }),
    field(None, "tres-alloc", "TRES_ALLOC", allocated_or_requested),
    field(None, "tres-bind", "TRES_BIND", |row| {
        row.job
            .description
            .gpu_bind
            .clone()
            .unwrap_or_else(|| "N/A".to_string())
    }),
    field(None, "tres-freq", "TRES_FREQ", |row| {
        row.job
            .description
            .extra
            .get("gpu-freq")
            .map_or_else(|| "N/A".to_string(), |freq| format!("gpu:{freq}"))
    }),
    field(None, "tres-per-job", "TRES_PER_JOB", |row| {
        tres_list(&row.job.description.gres_per_job)
    }),
    field(None, "tres-per-socket", "TRES_PER_SOCKET", |row| {
        tres_list(&row.job.description.gres_per_socket)
    }),
    field(None, "tres-per-task", "TRES_PER_TASK", |row| {
        tres_list(&row.job.description.gres_per_task)
    }),
    field(None, "Wait4Switch", "WAIT4SWITCH", |_| "0:00".to_string()),
];

/// The first letter of a sort list that is no field.
#[must_use]
pub fn unknown_sort_letter(list: &str) -> Option<char> {
    let mark = |letter: char| matches!(letter, ',' | '-' | '+' | '#') || letter.is_whitespace();
    list.chars()
        .filter(|letter| !mark(*letter))
        .find(|letter| !FIELDS.iter().any(|field| field.letter == Some(*letter)))
}

fn or_na(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "N/A".to_string(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::column::Layout;
    use crate::format::job_order::JobOrder;
    use crate::format::samples::{self, rows};
    use std::sync::Arc;

    fn listing(format: &str, sort: &str) -> Vec<String> {
        let jobs = [
            samples::running(),
            samples::pending_array(),
            samples::gpu_job(),
        ]
        .map(Arc::new);
        let mut rows = rows(&jobs, &Arc::new(samples::view()), |_| false, false);
        let order = JobOrder::new(sort);
        rows.sort_by(|first, second| order.compare(&order.key(first), &order.key(second)));
        let (layout, unknown) = Layout::from_letters(format, FIELDS);
        assert!(unknown.is_empty(), "{unknown:?}");
        std::iter::once(layout.header())
            .chain(rows.iter().map(|row| layout.row(row)))
            .collect()
    }

    /// The default listing, as a real squeue prints it.
    #[test]
    fn default_listing() {
        assert_eq!(
            listing(FORMAT_DEFAULT, "P,t,-p"),
            [
                "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)",
                "15_[1,3,5,7,9,20%2      main   array2    alice PD       0:00      1 (Dependency)",
                "                 9      main     run1    alice  R       0:35      2 n[1-2]",
                "                10      main   gpujob    alice  R       0:34      1 n2",
            ]
        );
    }

    /// The long listing.
    #[test]
    fn long_listing() {
        assert_eq!(
            listing(FORMAT_LONG, "i"),
            [
                "             JOBID PARTITION     NAME     USER    STATE       TIME TIME_LIMI  NODES NODELIST(REASON)",
                "                 9      main     run1    alice  RUNNING       0:35     30:00      2 n[1-2]",
                "                10      main   gpujob    alice  RUNNING       0:34     45:00      1 n2",
                "15_[1,3,5,7,9,20%2      main   array2    alice  PENDING       0:00     20:00      1 (Dependency)",
            ]
        );
    }

    /// All letters at once; the lines are a real squeue's but for SLUID, which tells the cluster.
    #[test]
    fn every_letter() {
        let format = "%a|%A|%B|%c|%C|%d|%D|%e|%E|%f|%F|%g|%G|%h|%H|%i|%I|%j|%J|%k|%K|%l|%L|%m|%M|%n|%N|%o|%O|%p|%P|%q|%Q|%r|%R|%S|%t|%T|%u|%U|%v|%V|%w|%W|%x|%X|%y|%Y|%z|%Z";
        assert_eq!(
            listing(format, "i"),
            [
                "ACCOUNT|JOBID|EXEC_HOST|MIN_CPUS|CPUS|MIN_TMP_DISK|NODES|END_TIME|DEPENDENCY|FEATURES|ARRAY_JOB_ID|GROUP|GROUP|OVER_SUBSCRIBE|SOCKETS_PER_NODE|JOBID|CORES_PER_SOCKET|NAME|THREADS_PER_CORE|COMMENT|ARRAY_TASK_ID|TIME_LIMIT|TIME_LEFT|MIN_MEMORY|TIME|REQ_NODES|NODELIST|COMMAND|CONTIGUOUS|PRIORITY|PARTITION|QOS|PRIORITY|REASON|NODELIST(REASON)|START_TIME|ST|STATE|USER|UID|RESERVATION|SUBMIT_TIME|WCKEY|LICENSES|EXC_NODES|CORE_SPEC|NICE|SCHEDNODES|S:C:T|WORK_DIR",
                "physics|9|n1|1|8|0|2|2026-11-30T05:11:19|(null)|(null)|9|nogroup|65534|NO|*|9|*|run1|*|hello world|N/A|30:00|29:25|1000M|0:35||n[1-2]|(null)|0|0.00000262353569|main|normal|11268|None|n[1-2]|2026-11-30T04:41:19|R|RUNNING|alice|1002|(null)|2026-11-30T04:41:18|(null)|(null)||N/A|0|(null)|*:*:*|/tmp",
                "physics|10|n2|1|1|0|1|2026-11-30T05:26:20|(null)|gpu|10|nogroup|65534|NO|*|10|*|gpujob|*|(null)|N/A|45:00|44:26|1000M|0:34||n2|(null)|0|0.00000259070657|main|normal|11127|None|n2|2026-11-30T04:41:20|R|RUNNING|alice|1002|(null)|2026-11-30T04:41:18|(null)|(null)||N/A|0|(null)|*:*:*|/tmp",
                "physics|15|n/a|1|1|0|1|N/A|afterany:9(unfulfilled)|(null)|15|nogroup|65534|NO|*|15_[1,3,5,7,9,20%2]|*|array2|*|(null)|1,3,5,7,9,20%2|20:00|20:00|100M|0:00|||(null)|0|0.00000259070657|main|normal|11127|Dependency|(Dependency)|N/A|PD|PENDING|alice|1002|(null)|2026-11-30T04:41:18|(null)|(null)||N/A|0|(null)|*:*:*|/tmp",
            ]
        );
    }

    /// Limits and run times are whole in narrow columns on the right, as a real squeue has them; what sorts is told from what
    /// does not.
    #[test]
    fn whole_durations_and_sort_letters() {
        let lines = listing("%.3l|%3l|%.2M|%.1j", "i");
        assert_eq!(lines[..2], ["TIM|TIM|TI|N", "30:00|30:|0:35|r"]);
        assert_eq!(unknown_sort_letter("#P,-t, +i"), None);
        assert_eq!(unknown_sort_letter("P,~"), Some('~'));
    }

    /// Two fields with one name or letter could not both be asked for.
    #[test]
    fn fields_are_unique() {
        for (place, field) in FIELDS.iter().enumerate() {
            let rest = &FIELDS[place + 1..];
            assert!(
                rest.iter()
                    .all(|other| !other.name.eq_ignore_ascii_case(field.name)),
                "{}",
                field.name
            );
            assert!(
                field.letter.is_none() || rest.iter().all(|other| other.letter != field.letter),
                "{}",
                field.name
            );
        }
    }
}
