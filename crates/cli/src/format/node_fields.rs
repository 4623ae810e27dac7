//! The fields of sinfo: letters of `-o`, names of `-O`, headings, texts, and how lines sort.
//!
//! One row a field. A `+` after a number says that some nodes of the line have more. Source: sinfo(1) and its output.

use std::cmp::Ordering;

use sluice_dataparser::values::index_ranges;
use sluice_model::hostlist::collapse_sorted;
use sluice_model::memory::MemoryMib;
use sluice_model::node::{NodeGres, NodeInfo};
use sluice_model::partition::PartitionState;
use sluice_model::time::{TimeLimit, format_duration_short};

use super::NULL;
use super::column::Field;
use super::node_groups::NodeGroup;

/// What a field says about a line, which rules how nodes are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A text of the node: equal inside a line.
    Text,
    /// The partition itself.
    Partition,
    /// A text of the partition: partitions with equal ones share a line.
    PartitionText,
    /// A number of the node: a range inside a line.
    Number,
    /// A sum or a list over the nodes.
    Sum,
}

/// Kind of a field of the table.
#[must_use]
pub fn kind_of(field: &Field<NodeGroup>) -> FieldKind {
    match field.name {
        "Partition" | "PartitionName" => FieldKind::Partition,
        "Available" | "DefaultTime" | "Groups" | "MaxCPUsPerNode" | "OverSubscribe"
        | "PreemptMode" | "PriorityJobFactor" | "PriorityTier" | "Root" | "Size" | "Time"
        | "AllocNodes" => FieldKind::PartitionText,
        // A port is the first node's.
        "NodeAI" | "NodeAIOT" | "Nodes" | "NodeList" | "CPUsState" | "Cluster" | "Port" => {
            FieldKind::Sum
        }
        "CPUs" | "Disk" | "FreeMem" | "Memory" | "CPUsLoad" | "Weight" | "Sockets" | "Cores"
        | "Threads" | "SocketCoreThread" => FieldKind::Number,
        _ => FieldKind::Text,
    }
}

/// Default columns.
pub const FORMAT_DEFAULT: &str = "%#P %.5a %.10l %.6D %.6t %N";
/// Columns of `-s`.
pub const FORMAT_SUMMARY: &str = "%#P %.5a %.10l %.16F %N";
/// Columns of `-l`.
pub const FORMAT_LONG: &str = "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %.11i %N";
/// Columns of `-N`.
pub const FORMAT_NODES: &str = "%#N %.6D %#P %6t";
/// Columns of `-N -l`.
pub const FORMAT_NODES_LONG: &str = "%#N %.6D %#P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E";
/// Columns of `-R`.
pub const FORMAT_REASONS: &str = "%20E %9u %19H %N";
/// Columns of `-R -l`.
pub const FORMAT_REASONS_LONG: &str = "%20E %12U %19H %6t %N";

/// Puts the widths for `#` in: `%#P` is as wide as the longest partition name with its mark (9 at least), `%#N` as the
/// longest node name (9 at least). Partitions are justified to the left in listings of partitions, else to the right.
#[must_use]
pub fn resolve_widths(
    format: &str,
    partition_width: usize,
    node_width: usize,
    by_node: bool,
) -> String {
    let partition = if by_node {
        format!("%.{partition_width}P")
    } else {
        format!("%{partition_width}P")
    };
    format
        .replace("%#P", &partition)
        .replace("%#N", &format!("%{node_width}N"))
}

const fn field(
    letter: Option<char>,
    name: &'static str,
    header: &'static str,
    value: fn(&NodeGroup) -> String,
) -> Field<NodeGroup> {
    Field {
        letter,
        name,
        header,
        value,
    }
}

fn node_text(group: &NodeGroup, text: impl Fn(&NodeInfo) -> String) -> String {
    group.first().map_or_else(String::new, text)
}

/// The smallest value, with `+` when there are greater ones.
fn least(group: &NodeGroup, number: impl Fn(&NodeInfo) -> u64) -> String {
    let numbers = || group.nodes.iter().map(|node| number(node));
    match (numbers().min(), numbers().max()) {
        (Some(min), Some(max)) if max > min => format!("{min}+"),
        (Some(min), _) => min.to_string(),
        _ => "0".to_string(),
    }
}

/// `min-max`, or one value; `N/A` when no node has one.
fn span(
    group: &NodeGroup,
    number: impl Fn(&NodeInfo) -> Option<u64>,
    show: impl Fn(u64) -> String,
) -> String {
    let numbers: Vec<u64> = group.nodes.iter().filter_map(|node| number(node)).collect();
    match (numbers.iter().min(), numbers.iter().max()) {
        (Some(min), Some(max)) if max > min => format!("{}-{}", show(*min), show(*max)),
        (Some(min), _) => show(*min),
        _ => "N/A".to_string(),
    }
}

fn limit(limit: Option<TimeLimit>, none: &str) -> String {
    match limit {
        None => none.to_string(),
        Some(TimeLimit::Unlimited) => "infinite".to_string(),
        Some(limit) => format_duration_short(limit.seconds().unwrap_or(0)),
    }
}

fn word_or(words: &[String], none: &str) -> String {
    if words.is_empty() {
        none.to_string()
    } else {
        words.join(",")
    }
}

/// `gpu:h100:8,…`.
#[must_use]
pub fn gres_text(gres: &[NodeGres]) -> String {
    if gres.is_empty() {
        return NULL.to_string();
    }
    let item = |gres: &NodeGres| match &gres.type_name {
        Some(type_name) => format!("{}:{type_name}:{}", gres.name, gres.count),
        None => format!("{}:{}", gres.name, gres.count),
    };
    gres.iter().map(item).collect::<Vec<_>>().join(",")
}

/// `gpu:h100:2(IDX:0-1),…`.
#[must_use]
pub fn gres_used_text(gres: &[NodeGres]) -> String {
    if gres.is_empty() {
        return NULL.to_string();
    }
    let item = |gres: &NodeGres| {
        let name = gres
            .type_name
            .as_ref()
            .map_or_else(|| gres.name.clone(), |kind| format!("{}:{kind}", gres.name));
        format!(
            "{name}:{}(IDX:{})",
            gres.used,
            index_ranges(&gres.used_indices)
        )
    };
    gres.iter().map(item).collect::<Vec<_>>().join(",")
}

fn size(group: &NodeGroup) -> String {
    let partition = &group.partition;
    let min = partition.min_nodes.max(1);
    match partition.max_nodes {
        None => format!("{min}-infinite"),
        Some(max) if max == min => min.to_string(),
        Some(max) => format!("{min}-{max}"),
    }
}

/// State with the right word for a line without nodes.
fn state(group: &NodeGroup, text: impl Fn(&NodeInfo) -> String) -> String {
    group.first().map_or_else(|| "n/a".to_string(), text)
}

fn user_long(node: &NodeInfo) -> String {
    match (&node.reason, &node.reason_user, node.reason_uid) {
        (Some(_), Some(user), Some(uid)) => format!("{user}({uid})"),
        (Some(_), Some(user), None) => user.clone(),
        _ => "Unknown".to_string(),
    }
}

fn slashes(counts: &[u32]) -> String {
    counts
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join("/")
}

fn memory(size: Option<MemoryMib>) -> Option<u64> {
    size.map(|size| size.0)
}

/// The table.
pub static FIELDS: &[Field<NodeGroup>] = &[
    field(Some('a'), "Available", "AVAIL", |group| {
        let word = match group.partition.state {
            PartitionState::Up => "up",
            PartitionState::Down => "down",
            PartitionState::Drain => "drain",
            PartitionState::Inactive => "inact",
        };
        word.to_string()
    }),
    field(Some('A'), "NodeAI", "NODES(A/I)", |group| {
        slashes(&group.node_counts()[..2])
    }),
    field(Some('b'), "features_act", "ACTIVE_FEATURES", |group| {
        node_text(group, |node| word_or(&node.active_features, NULL))
    }),
    field(Some('B'), "MaxCPUsPerNode", "MAX_CPUS_PER_NODE", |group| {
        group
            .partition
            .max_cpus_per_node
            .map_or_else(|| "UNLIMITED".to_string(), |count| count.to_string())
    }),
    field(Some('c'), "CPUs", "CPUS", |group| {
        least(group, |node| u64::from(node.cpus))
    }),
    field(Some('C'), "CPUsState", "CPUS(A/I/O/T)", |group| {
        slashes(&group.cpu_counts())
    }),
    field(Some('d'), "Disk", "TMP_DISK", |group| {
        least(group, |node| node.tmp_disk_mib)
    }),
    field(Some('D'), "Nodes", "NODES", |group| {
        group.nodes.len().to_string()
    }),
    field(Some('e'), "FreeMem", "FREE_MEM", |group| {
        span(
            group,
            |node| memory(node.free_memory),
            |size| size.to_string(),
        )
    }),
    field(Some('E'), "Reason", "REASON", |group| {
        node_text(group, |node| {
            node.reason.clone().unwrap_or_else(|| "none".to_string())
        })
    }),
    field(Some('f'), "Features", "AVAIL_FEATURES", |group| {
        node_text(group, |node| word_or(&node.features, NULL))
    }),
    field(Some('F'), "NodeAIOT", "NODES(A/I/O/T)", |group| {
        slashes(&group.node_counts())
    }),
    field(Some('g'), "Groups", "GROUPS", |group| {
        word_or(&group.partition.allow_groups, "all")
    }),
    field(Some('G'), "Gres", "GRES", |group| {
        node_text(group, |node| gres_text(&node.gres))
    }),
    field(Some('h'), "OverSubscribe", "OVERSUBSCRIBE", |group| {
        group.partition.over_subscribe.clone()
    }),
    field(Some('H'), "TimeStamp", "TIMESTAMP", |group| {
        node_text(group, |node| {
            group.view.times.optional(
                node.reason_time.filter(|_| node.reason.is_some()),
                "Unknown",
            )
        })
    }),
    field(Some('i'), "Reservation", "RESERVATION", |group| {
        node_text(group, |node| node.reservation.clone().unwrap_or_default())
    }),
    field(Some('I'), "PriorityJobFactor", "PRIO_JOB_FACTOR", |group| {
        group.partition.priority_job_factor.to_string()
    }),
    field(Some('l'), "Time", "TIMELIMIT", |group| {
        limit(group.partition.max_time, "infinite")
    }),
    field(Some('L'), "DefaultTime", "DEFAULTTIME", |group| {
        limit(group.partition.default_time, "n/a")
    }),
    field(Some('m'), "Memory", "MEMORY", |group| {
        least(group, |node| node.real_memory.0)
    }),
    field(Some('M'), "PreemptMode", "PREEMPT_MODE", |group| {
        group.partition.preempt_mode.clone()
    }),
    field(Some('n'), "NodeHost", "HOSTNAMES", |group| {
        node_text(group, |node| node.hostname.clone())
    }),
    field(Some('N'), "NodeList", "NODELIST", |group| {
        collapse_sorted(group.nodes.iter().map(|node| &node.name))
    }),
    field(Some('o'), "NodeAddr", "NODE_ADDR", |group| {
        node_text(group, |node| node.address.clone())
    }),
    field(Some('O'), "CPUsLoad", "CPU_LOAD", |group| {
        span(
            group,
            |node| node.cpu_load_centi.map(u64::from),
            |load| format!("{}.{:02}", load / 100, load % 100),
        )
    }),
    field(Some('p'), "PriorityTier", "PRIO_TIER", |group| {
        group.partition.priority_tier.to_string()
    }),
    field(Some('P'), "Partition", "PARTITION", |group| {
        format!(
            "{}{}",
            group.partition.name,
            if group.partition.is_default { "*" } else { "" }
        )
    }),
    field(Some('r'), "Root", "ROOT", |group| {
        if group.partition.root_only {
            "yes"
        } else {
            "no"
        }
        .to_string()
    }),
    field(Some('R'), "PartitionName", "PARTITION", |group| {
        group.partition.name.clone()
    }),
    field(Some('s'), "Size", "JOB_SIZE", size),
    field(Some('S'), "AllocNodes", "ALLOCNODES", |group| {
        let nodes = &group.partition.alloc_nodes;
        if nodes.is_empty() || nodes.eq_ignore_ascii_case("all") {
            "all".to_string()
        } else {
            nodes.clone()
        }
    }),
    field(Some('t'), "StateCompact", "STATE", |group| {
        state(group, |node| node.state.compact())
    }),
    field(Some('T'), "StateLong", "STATE", |group| {
        state(group, |node| node.state.long().to_ascii_lowercase())
    }),
    field(Some('u'), "User", "USER", |group| {
        node_text(group, |node| {
            node.reason_user
                .clone()
                .filter(|_| node.reason.is_some())
                .unwrap_or_else(|| "Unknown".to_string())
        })
    }),
    field(Some('U'), "UserLong", "USER", |group| {
        node_text(group, user_long)
    }),
    field(Some('v'), "Version", "VERSION", |group| {
        node_text(group, |node| {
            node.version.clone().unwrap_or_else(|| NULL.to_string())
        })
    }),
    field(Some('V'), "Cluster", "CLUSTER", |group| {
        group
            .view
            .cluster
            .clone()
            .unwrap_or_else(|| "N/A".to_string())
    }),
    field(Some('w'), "Weight", "WEIGHT", |group| {
        least(group, |node| u64::from(node.weight))
    }),
    field(Some('X'), "Sockets", "SOCKETS", |group| {
        least(group, |node| u64::from(node.sockets))
    }),
    field(Some('Y'), "Cores", "CORES", |group| {
        least(group, |node| u64::from(node.cores_per_socket))
    }),
    field(Some('Z'), "Threads", "THREADS", |group| {
        least(group, |node| u64::from(node.threads_per_core))
    }),
    field(Some('z'), "SocketCoreThread", "S:C:T", |group| {
        let parts: [fn(&NodeInfo) -> u64; 3] = [
            |node| u64::from(node.sockets),
            |node| u64::from(node.cores_per_socket),
            |node| u64::from(node.threads_per_core),
        ];
        parts.map(|part| least(group, part)).join(":")
    }),
    field(None, "AllocMem", "ALLOCMEM", |group| {
        node_text(group, |node| node.alloc_memory.0.to_string())
    }),
    field(None, "Comment", "COMMENT", |group| {
        node_text(group, |node| {
            node.comment.clone().unwrap_or_else(|| NULL.to_string())
        })
    }),
    field(None, "Extra", "EXTRA", |_| NULL.to_string()),
    field(None, "GresUsed", "GRES_USED", |group| {
        node_text(group, |node| gres_used_text(&node.gres))
    }),
    field(None, "Port", "PORT", |group| {
        node_text(group, |node| node.port.to_string())
    }),
    field(None, "StateComplete", "STATECOMPLETE", |group| {
        node_text(group, |node| node.state.complete().to_ascii_lowercase())
    }),
];

/// Compares two lines by a sort list such as `#P,-t`.
#[must_use]
pub fn compare_by(list: &str, first: &NodeGroup, second: &NodeGroup) -> Ordering {
    for item in list.split(',') {
        let (descending, letters) = match item.trim().strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, item.trim().trim_start_matches('+')),
        };
        let configured = letters.contains('#');
        for letter in letters.chars().filter(|letter| *letter != '#') {
            let order = compare(letter, configured, first, second);
            let order = if descending { order.reverse() } else { order };
            if order != Ordering::Equal {
                return order;
            }
        }
    }
    Ordering::Equal
}

fn compare(letter: char, configured: bool, first: &NodeGroup, second: &NodeGroup) -> Ordering {
    let number = |group: &NodeGroup, number: fn(&NodeInfo) -> u64| group.first().map(number);
    match letter {
        'P' | 'R' if configured => first.partition_place.cmp(&second.partition_place),
        'P' | 'R' => first.partition.name.cmp(&second.partition.name),
        't' | 'T' => {
            let key = |group: &NodeGroup| group.first().map(|node| node.state.number());
            key(first).cmp(&key(second))
        }
        'N' | 'n' => name_key(first).cmp(&name_key(second)),
        'D' | 'A' | 'F' => first.nodes.len().cmp(&second.nodes.len()),
        'c' | 'C' => number(first, |node| u64::from(node.cpus))
            .cmp(&number(second, |node| u64::from(node.cpus))),
        'm' => {
            number(first, |node| node.real_memory.0).cmp(&number(second, |node| node.real_memory.0))
        }
        'd' => {
            number(first, |node| node.tmp_disk_mib).cmp(&number(second, |node| node.tmp_disk_mib))
        }
        'e' => number(first, |node| node.free_memory.unwrap_or_default().0)
            .cmp(&number(second, |node| {
                node.free_memory.unwrap_or_default().0
            })),
        'O' => number(first, |node| u64::from(node.cpu_load_centi.unwrap_or(0)))
            .cmp(&number(second, |node| {
                u64::from(node.cpu_load_centi.unwrap_or(0))
            })),
        'w' => number(first, |node| u64::from(node.weight))
            .cmp(&number(second, |node| u64::from(node.weight))),
        'l' => first.partition.max_time.cmp(&second.partition.max_time),
        'H' => {
            let key = |group: &NodeGroup| group.first().and_then(|node| node.reason_time);
            key(first).cmp(&key(second))
        }
        letter => match FIELDS.iter().find(|field| field.letter == Some(letter)) {
            Some(field) => (field.value)(first).cmp(&(field.value)(second)),
            None => Ordering::Equal,
        },
    }
}

/// Names by their prefix, then by number: n2 before n10.
fn name_key(group: &NodeGroup) -> (String, u64) {
    let Some(node) = group.first() else {
        return (String::new(), 0);
    };
    let digits = node.name.len()
        - node
            .name
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .len();
    let (prefix, number) = node.name.split_at(node.name.len() - digits);
    (prefix.to_string(), number.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::column::Layout;
    use crate::format::node_groups::{Grouping, NodeView, groups};
    use crate::format::samples;
    use crate::format::time_style::TimeStyle;
    use jiff::tz::TimeZone;
    use std::sync::Arc;

    fn listing(
        format: &str,
        sort: &str,
        grouping: Grouping,
        keep: impl Fn(&NodeInfo) -> bool,
    ) -> Vec<String> {
        let view = NodeView {
            times: TimeStyle::standard(TimeZone::UTC, samples::SUBMIT + 36),
            cluster: None,
        };
        let nodes: Vec<Arc<NodeInfo>> = samples::nodes()
            .into_iter()
            .filter(keep)
            .map(Arc::new)
            .collect();
        let partitions: Vec<_> = samples::partitions()
            .into_iter()
            .map(|partition| (Arc::new(partition), nodes.clone()))
            .collect();
        let format = resolve_widths(format, 9, 9, grouping.each_node);
        let (layout, unknown) = Layout::from_letters(&format, FIELDS);
        assert!(unknown.is_empty(), "{unknown:?}");
        let mut lines = groups(&partitions, &layout, grouping, &Arc::new(view));
        lines.sort_by(|first, second| compare_by(sort, first, second));
        std::iter::once(layout.header())
            .chain(lines.iter().map(|line| layout.row(line)))
            .collect()
    }

    fn by_partition() -> Grouping {
        Grouping {
            empty_partitions: true,
            ..Grouping::default()
        }
    }

    fn by_node() -> Grouping {
        Grouping {
            each_node: true,
            ..Grouping::default()
        }
    }

    /// The default listing of a real sinfo.
    #[test]
    fn default_listing() {
        assert_eq!(
            listing(FORMAT_DEFAULT, "#P,-t", by_partition(), |_| true),
            [
                "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST",
                "main*        up 7-00:00:00      3   mix- n[1-3]",
                "main*        up 7-00:00:00      1  drain n4",
                "short        up      30:00      3   mix- n[1-3]",
                "short        up      30:00      1  drain n4",
            ]
        );
    }

    /// No node passes the filter: a line without nodes for each partition.
    #[test]
    fn no_nodes() {
        assert_eq!(
            listing(FORMAT_DEFAULT, "#P,-t", by_partition(), |_| false),
            [
                "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST",
                "main*        up 7-00:00:00      0    n/a ",
                "short        up      30:00      0    n/a ",
            ]
        );
    }

    /// Summary, long and reason listings.
    #[test]
    fn other_listings() {
        assert_eq!(
            listing(FORMAT_SUMMARY, "#P,-t", by_partition(), |_| true),
            [
                "PARTITION AVAIL  TIMELIMIT   NODES(A/I/O/T) NODELIST",
                "main*        up 7-00:00:00          3/0/1/4 n[1-4]",
                "short        up      30:00          3/0/1/4 n[1-4]",
            ]
        );
        assert_eq!(
            listing(FORMAT_LONG, "#P,-t", by_partition(), |node| node.name
                == "n4"),
            [
                "PARTITION AVAIL  TIMELIMIT   JOB_SIZE ROOT OVERSUBS     GROUPS  NODES       STATE RESERVATION NODELIST",
                "main*        up 7-00:00:00 1-infinite   no       NO        all      1     drained             n4",
                "short        up      30:00 1-infinite   no       NO        all      1     drained             n4",
            ]
        );
        assert_eq!(
            listing(FORMAT_REASONS_LONG, "#P,-t", Grouping::default(), |node| {
                node.reason.is_some()
            }),
            [
                "REASON               USER         TIMESTAMP           STATE  NODELIST",
                "bad fan              root(0)      2026-11-30T04:41:18 drain  n4",
            ]
        );
    }

    /// One line a node and partition.
    #[test]
    fn node_listing() {
        let lines = listing(FORMAT_NODES_LONG, "N", by_node(), |node| {
            node.name == "n1" || node.name == "n4"
        });
        assert_eq!(
            lines,
            [
                "NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON              ",
                "n1             1     main*      mixed- 64     2:32:1 256000        0      1  std,gpu none                ",
                "n1             1     short      mixed- 64     2:32:1 256000        0      1  std,gpu none                ",
                "n4             1     main*     drained 64     2:32:1 256000        0      1  std,gpu bad fan             ",
                "n4             1     short     drained 64     2:32:1 256000        0      1  std,gpu bad fan             ",
            ]
        );
    }

    /// Numbers inside a line: sums, ranges, and each node once without columns about partitions.
    #[test]
    fn numbers() {
        assert_eq!(
            listing("%C|%D|%e|%O|%F|%z|%N", "N", Grouping::default(), |_| true),
            [
                "CPUS(A/I/O/T)|NODES|FREE_MEM|CPU_LOAD|NODES(A/I/O/T)|S:C:T|NODELIST",
                "17/175/64/256|4|22632-22641|0.31|3/0/1/4|2:32:1|n[1-4]"
            ]
        );
        assert_eq!(
            listing("%P %G %l %p %c %m", "#P,-t", by_partition(), |_| true),
            [
                "PARTITION GRES TIMELIMIT PRIO_TIER CPUS MEMORY",
                "main* gpu:h100:8 7-00:00:00 1 64 256000",
                "short gpu:h100:8 30:00 10 64 256000"
            ]
        );
    }
}
