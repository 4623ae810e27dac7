//! What can be set on associations and QOS: names as sacctmgr takes them, and how their values are read and shown.
//!
//! Names may be shortened as far as the table says. Values are turned into the plain form of the wire: numbers or `-1`, minutes,
//! seconds, TRES with memory in MiB. Source: sacctmgr(1), GENERAL SPECIFICATIONS FOR ASSOCIATION BASED ENTITIES, and for QOS.

use sluice_model::memory::MemoryMib;
use sluice_model::time::{format_duration_full, parse_duration_minutes, parse_duration_seconds};
use sluice_model::tres::{Tres, TresKind};
use sluice_proto::v1;

use super::scontrol::is_any_keyword;

/// How a value is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Count,
    Shares,
    Minutes,
    /// Minutes or `H:MM:SS`, kept as seconds.
    Duration,
    Seconds,
    Real,
    Tres,
    /// One TRES of a list, under its own name of former days.
    One(&'static str),
    Names,
    Flags,
    Word,
    Text,
}

/// A name that can be set.
struct Setting {
    /// Names with the least length of each.
    names: &'static [(&'static str, usize)],
    /// Field on the wire.
    field: &'static str,
    /// How it is told after `Settings`.
    label: &'static str,
    /// Width of the label there.
    width: usize,
    kind: Kind,
}

const fn setting(
    names: &'static [(&'static str, usize)],
    field: &'static str,
    label: &'static str,
    width: usize,
    kind: Kind,
) -> Setting {
    Setting {
        names,
        field,
        label,
        width,
        kind,
    }
}

/// Of associations, in the order in which they are told.
#[rustfmt::skip]
static ASSOCIATION: &[Setting] = &[
    setting(&[("fairshare", 1), ("shares", 2)], "shares", "Fairshare", 13, Kind::Shares),
    setting(&[("grpjobs", 4)], "grp_jobs", "GrpJobs", 13, Kind::Count),
    setting(&[("grpjobsaccrue", 8)], "grp_jobs_accrue", "GrpJobsAccrue", 24, Kind::Count),
    setting(&[("grpsubmitjobs", 4)], "grp_submit_jobs", "GrpSubmitJobs", 13, Kind::Count),
    setting(&[("grptres", 7)], "grp_tres", "GrpTRES", 13, Kind::Tres),
    setting(&[("grpcpus", 7)], "grp_tres", "GrpTRES", 13, Kind::One("cpu")),
    setting(&[("grpmemory", 4)], "grp_tres", "GrpTRES", 13, Kind::One("mem")),
    setting(&[("grpnodes", 4)], "grp_tres", "GrpTRES", 13, Kind::One("node")),
    setting(&[("grptresmins", 8)], "grp_tres_mins", "GrpTRESMins", 13, Kind::Tres),
    setting(&[("grpcpumins", 8)], "grp_tres_mins", "GrpTRESMins", 13, Kind::One("cpu")),
    setting(&[("grptresrunmins", 8)], "grp_tres_run_mins", "GrpTRESRunMins", 13, Kind::Tres),
    setting(&[("grpcpurunmins", 7)], "grp_tres_run_mins", "GrpTRESRunMins", 13, Kind::One("cpu")),
    setting(&[("grpwall", 4)], "grp_wall", "GrpWall", 13, Kind::Minutes),
    setting(&[("maxjobs", 4)], "max_jobs", "MaxJobs", 13, Kind::Count),
    setting(&[("maxjobsaccrue", 8)], "max_jobs_accrue", "MaxJobsPrioAcc", 13, Kind::Count),
    setting(&[("maxsubmitjobs", 4)], "max_submit_jobs", "MaxSubmitJobs", 13, Kind::Count),
    setting(&[("maxtresperjob", 7), ("maxtrespj", 7)], "max_tres_per_job", "MaxTRES", 13, Kind::Tres),
    setting(&[("maxcpusperjob", 7)], "max_tres_per_job", "MaxTRES", 13, Kind::One("cpu")),
    setting(&[("maxnodesperjob", 4)], "max_tres_per_job", "MaxTRES", 13, Kind::One("node")),
    setting(&[("maxtrespernode", 11), ("maxtrespn", 9)], "max_tres_per_node", "MaxTRESPerNode", 13, Kind::Tres),
    setting(&[("maxtresminsperjob", 8), ("maxtresminspj", 8)], "max_tres_mins_per_job", "MaxTRESMins", 13, Kind::Tres),
    setting(&[("maxcpuminsperjob", 7)], "max_tres_mins_per_job", "MaxTRESMins", 13, Kind::One("cpu")),
    setting(&[("maxtresrunmins", 8)], "max_tres_run_mins", "MaxTRESRUNMins", 13, Kind::Tres),
    setting(&[("maxwalldurationperjob", 4)], "max_wall_per_job", "MaxWall", 13, Kind::Minutes),
    setting(&[("minpriothreshold", 7)], "min_prio_threshold", "MinPrioThresh", 13, Kind::Count),
    setting(&[("priority", 3)], "priority", "Priority", 13, Kind::Count),
    setting(&[("qoslevel", 1)], "qos", "QOS", 13, Kind::Names),
    setting(&[("defaultqos", 8)], "default_qos", "DefQOS", 13, Kind::Word),
    setting(&[("comment", 3)], "comment", "Comment", 13, Kind::Text),
];

/// Of QOS, in the order in which they are told.
#[rustfmt::skip]
static QOS: &[Setting] = &[
    setting(&[("description", 1)], "description", "Description", 14, Kind::Text),
    setting(&[("flags", 2)], "flags", "Flags", 24, Kind::Flags),
    setting(&[("gracetime", 3)], "grace_time_secs", "GraceTime", 24, Kind::Seconds),
    setting(&[("grpjobs", 4)], "grp_jobs", "GrpJobs", 24, Kind::Count),
    setting(&[("grpjobsaccrue", 8)], "grp_jobs_accrue", "GrpJobsAccrue", 24, Kind::Count),
    setting(&[("grpsubmitjobs", 8)], "grp_submit_jobs", "GrpSubmitJobs", 24, Kind::Count),
    setting(&[("grptres", 7)], "grp_tres", "GrpTRES", 24, Kind::Tres),
    setting(&[("grpcpus", 7)], "grp_tres", "GrpTRES", 24, Kind::One("cpu")),
    setting(&[("grpmemory", 4)], "grp_tres", "GrpTRES", 24, Kind::One("mem")),
    setting(&[("grpnodes", 4)], "grp_tres", "GrpTRES", 24, Kind::One("node")),
    setting(&[("grptresmins", 8)], "grp_tres_mins", "GrpTRESMins", 24, Kind::Tres),
    setting(&[("grpcpumins", 8)], "grp_tres_mins", "GrpTRESMins", 24, Kind::One("cpu")),
    setting(&[("grptresrunmins", 8)], "grp_tres_run_mins", "GrpTRESRunMins", 24, Kind::Tres),
    setting(&[("grpcpurunmins", 7)], "grp_tres_run_mins", "GrpTRESRunMins", 24, Kind::One("cpu")),
    setting(&[("grpwall", 4)], "grp_wall", "GrpWall", 24, Kind::Minutes),
    setting(&[("maxjobsaccrueperaccount", 15), ("maxjobsaccruepa", 15)], "max_jobs_accrue_per_account", "MaxJobsAccruePerAccount", 24, Kind::Count),
    setting(&[("maxjobsaccrueperuser", 12), ("maxjobsaccruepu", 12)], "max_jobs_accrue_per_user", "MaxJobsAccruePerUser", 24, Kind::Count),
    setting(&[("maxjobsperaccount", 11), ("maxjobspa", 9)], "max_jobs_per_account", "MaxJobsPerAccount", 24, Kind::Count),
    setting(&[("maxjobsperuser", 4), ("maxjobspu", 4)], "max_jobs_per_user", "MaxJobsPerUser", 14, Kind::Count),
    setting(&[("maxsubmitjobsperaccount", 17), ("maxsubmitjobspa", 15), ("maxsubmitpa", 11)], "max_submit_jobs_per_account", "MaxSubmitJobsPerAccount", 24, Kind::Count),
    setting(&[("maxsubmitjobsperuser", 4), ("maxsubmitjobspu", 4), ("maxsubmitpu", 11)], "max_submit_jobs_per_user", "MaxSubmitJobsPerUser", 24, Kind::Count),
    setting(&[("maxtresperaccount", 11), ("maxtrespa", 9)], "max_tres_per_account", "MaxTRESPerAccount", 24, Kind::Tres),
    setting(&[("maxtresperjob", 7), ("maxtrespj", 9)], "max_tres_per_job", "MaxTRESPerJob", 24, Kind::Tres),
    setting(&[("maxcpusperjob", 7)], "max_tres_per_job", "MaxTRESPerJob", 24, Kind::One("cpu")),
    setting(&[("maxnodesperjob", 4)], "max_tres_per_job", "MaxTRESPerJob", 24, Kind::One("node")),
    setting(&[("maxtrespernode", 11), ("maxtrespn", 9)], "max_tres_per_node", "MaxTRESPerNode", 24, Kind::Tres),
    setting(&[("maxtresperuser", 11), ("maxtrespu", 9)], "max_tres_per_user", "MaxTRESPerUser", 24, Kind::Tres),
    setting(&[("maxcpusperuser", 11), ("maxcpuspu", 9)], "max_tres_per_user", "MaxTRESPerUser", 24, Kind::One("cpu")),
    setting(&[("maxnodesperuser", 12), ("maxnodespu", 10)], "max_tres_per_user", "MaxTRESPerUser", 24, Kind::One("node")),
    setting(&[("minpriothreshold", 7)], "min_prio_threshold", "MinPrioThresh", 24, Kind::Count),
    setting(&[("mintresperjob", 7), ("mintrespj", 9)], "min_tres_per_job", "MinTRESPerJob", 24, Kind::Tres),
    setting(&[("mincpusperjob", 7)], "min_tres_per_job", "MinTRESPerJob", 24, Kind::One("cpu")),
    setting(&[("maxtresminsperjob", 8), ("maxtresminspj", 8)], "max_tres_mins_per_job", "MaxTRESMins", 24, Kind::Tres),
    setting(&[("maxcpuminsperjob", 7)], "max_tres_mins_per_job", "MaxTRESMins", 24, Kind::One("cpu")),
    setting(&[("maxtresrunminsperaccount", 18), ("maxtresrunminspa", 16)], "max_tres_run_mins_per_account", "MaxTRESRUNMinsPerAccount", 24, Kind::Tres),
    setting(&[("maxtresrunminsperuser", 8), ("maxtresrunminspu", 8)], "max_tres_run_mins_per_user", "MaxTRESRUNMinsPerUser", 24, Kind::Tres),
    setting(&[("maxwalldurationperjob", 4)], "max_wall_per_job", "MaxWall", 24, Kind::Minutes),
    setting(&[("preempt", 7)], "preempt", "Preempt", 24, Kind::Names),
    setting(&[("preemptmode", 8)], "preempt_mode", "PreemptMode", 24, Kind::Word),
    setting(&[("preemptexempttime", 8)], "preempt_exempt_time_secs", "PreemptExemptTime", 24, Kind::Duration),
    setting(&[("priority", 3)], "priority", "Priority", 24, Kind::Count),
    setting(&[("usagefactor", 6)], "usage_factor", "UsageFactor", 24, Kind::Real),
    setting(&[("usagethreshold", 6)], "usage_threshold", "UsageThreshold", 24, Kind::Real),
    setting(&[("limitfactor", 6)], "limit_factor", "LimitFactor", 24, Kind::Real),
];

/// Flags of QOS as the refusal of a wrong one lists them.
const QOS_FLAGS: &str = "DenyOnLimit,EnforceUsageThreshold,NoReserve,PartitionMaxNodes,PartitionMinNodes,OverPartQOS,PartitionTimeLimit,\
RequiresReservation,NoDecay,UsageFactorSafe,Relative";

/// Modes of preemption that a QOS takes.
const PREEMPT_MODES: [&str; 7] = [
    "cluster", "off", "cancel", "gang", "requeue", "suspend", "within",
];

/// Which table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// Associations.
    Association,
    /// QOS.
    Qos,
}

/// A value that was set: its place on the wire.
pub(super) type Assignment = v1::Assignment;

/// The assignment of a value to a field.
pub(super) fn assignment(field: &str, value: impl Into<String>) -> Assignment {
    Assignment {
        field: field.to_string(),
        value: value.into(),
        ..Default::default()
    }
}

/// Why a value was not taken: lines for standard error.
pub(super) enum Unusable {
    /// There is no such name.
    Unknown,
    /// The value cannot be read.
    Value(String),
}

fn table(of: Of) -> &'static [Setting] {
    match of {
        Of::Association => ASSOCIATION,
        Of::Qos => QOS,
    }
}

/// Reads `key=value`; `operator` is the sign before the equals sign.
pub(super) fn read(
    of: Of,
    key: &str,
    operator: Option<char>,
    value: &str,
) -> Result<Assignment, Unusable> {
    let setting = table(of)
        .iter()
        .find(|setting| setting.names.iter().any(|(name, _)| *name == key))
        .or_else(|| {
            table(of)
                .iter()
                .find(|setting| is_any_keyword(key, setting.names))
        })
        .ok_or(Unusable::Unknown)?;
    let invalid = || {
        Unusable::Value(format!(
            "sacctmgr: error: Invalid value for {} ({value})",
            setting.label
        ))
    };
    let bad_time = || {
        let label = setting.label;
        Unusable::Value(format!(" Bad {label} time format: {key}={value}"))
    };
    let is_clear = matches!(value, "" | "-1");
    let mut sign = operator;
    let plain = match setting.kind {
        Kind::Count | Kind::Seconds if is_clear => "-1".to_string(),
        Kind::Count | Kind::Seconds => value.parse::<u32>().map_err(|_| invalid())?.to_string(),
        Kind::Shares if value.eq_ignore_ascii_case("parent") => "parent".to_string(),
        Kind::Shares if is_clear => "-1".to_string(),
        Kind::Shares => value
            .parse::<u32>()
            .map_err(|_| {
                Unusable::Value(format!(
                    "sacctmgr: error: Invalid value for FairShare ({value})"
                ))
            })?
            .to_string(),
        Kind::Minutes | Kind::Duration if is_clear || is_no_limit(value) => "-1".to_string(),
        Kind::Minutes => parse_duration_minutes(value)
            .map_err(|_| bad_time())?
            .to_string(),
        Kind::Duration => parse_duration_seconds(value)
            .map_err(|_| bad_time())?
            .to_string(),
        Kind::Real if is_clear => "-1".to_string(),
        Kind::Real => match value.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => number.to_string(),
            _ => return Err(invalid()),
        },
        Kind::Tres => tres(value).map_err(Unusable::Value)?,
        Kind::One(name) if is_clear => format!("{name}=-1"),
        Kind::One(name) => tres(&format!("{name}={value}")).map_err(Unusable::Value)?,
        Kind::Names => {
            // `qos=+high` means the same as `qos+=high`.
            let value = match value.chars().next() {
                Some(first @ ('+' | '-')) if !is_clear => {
                    sign = Some(first);
                    value.replace(['+', '-'], "")
                }
                _ => value.to_string(),
            };
            if is_clear {
                String::new()
            } else {
                value.to_lowercase()
            }
        }
        Kind::Flags => {
            if let Some(bad) = value.split(',').find(|flag| {
                !is_clear
                    && !QOS_FLAGS
                        .split(',')
                        .any(|known| known.eq_ignore_ascii_case(flag))
            }) {
                return Err(Unusable::Value(format!(
                    " Unknown QOS flag used in:\n  '{bad}'\n Valid QOS flags are\n  '{QOS_FLAGS}'"
                )));
            }
            value.to_string()
        }
        Kind::Word if setting.field == "preempt_mode" => {
            if !value.split(',').all(|mode| {
                PREEMPT_MODES
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(mode))
            }) {
                return Err(Unusable::Value(format!(" Bad Preempt Mode given: {value}")));
            }
            value.to_string()
        }
        Kind::Word if is_clear => "-1".to_string(),
        Kind::Word => value.to_lowercase(),
        Kind::Text => value.to_string(),
    };
    Ok(Assignment {
        field: setting.field.to_string(),
        operator: operator_number(sign),
        value: plain,
    })
}

/// The number of a sign on the wire.
pub(super) fn operator_number(sign: Option<char>) -> i32 {
    let operator = match sign {
        Some('+') => v1::AssignmentOperator::Add,
        Some('-') => v1::AssignmentOperator::Remove,
        _ => v1::AssignmentOperator::Set,
    };
    operator as i32
}

fn is_no_limit(value: &str) -> bool {
    value.eq_ignore_ascii_case("unlimited") || value.eq_ignore_ascii_case("infinite")
}

/// `cpu=4,mem=20G` as `cpu=4,mem=20480`; `+=` and `-=` are kept.
fn tres(text: &str) -> Result<String, String> {
    if matches!(text, "" | "-1") {
        return Ok("-1".to_string());
    }
    let mut items = Vec::new();
    for item in text.split(',').filter(|item| !item.is_empty()) {
        let no_id =
            || format!("sacctmgr: error: slurmdb_format_tres_str: no TRES id found for {item}");
        let (name, value) = item.split_once('=').ok_or_else(no_id)?;
        let (bare, sign) = match name.strip_suffix(['+', '-']) {
            Some(bare) => (bare, &name[bare.len()..]),
            None => (name, ""),
        };
        let kind: TresKind = bare.to_lowercase().parse().map_err(|_| {
            format!("sacctmgr: error: slurmdb_format_tres_str: no TRES known by type {bare}")
        })?;
        let count = if value == "-1" {
            "-1".to_string()
        } else if kind.is_memory() {
            value
                .parse::<MemoryMib>()
                .map_err(|_| no_id())?
                .0
                .to_string()
        } else {
            value.parse::<u64>().map_err(|_| no_id())?.to_string()
        };
        items.push(format!("{kind}{sign}={count}"));
    }
    Ok(items.join(","))
}

/// A value as it is told.
fn shown(kind: Kind, value: &str) -> String {
    let time = |unit: i64| match value.parse::<i64>() {
        Ok(time) if time < 0 => "NONE".to_string(),
        Ok(time) => format_duration_full(time * unit),
        Err(_) => value.to_string(),
    };
    match kind {
        Kind::Minutes => time(60),
        Kind::Duration => time(1),
        Kind::Real => value
            .parse::<f64>()
            .map_or_else(|_| value.to_string(), |number| format!("{number:.4}")),
        Kind::Tres | Kind::One(_) => value
            .parse::<Tres>()
            .map_or_else(|_| value.to_string(), |tres| tres.to_string()),
        _ if value == "-1" => "NONE".to_string(),
        _ => value.to_string(),
    }
}

/// Lines that tell what is set, in the order of the table.
pub(super) fn lines(of: Of, assignments: &[Assignment]) -> Vec<String> {
    let mut told = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for setting in table(of) {
        if seen.contains(&setting.field) {
            continue;
        }
        seen.push(setting.field);
        for assignment in assignments
            .iter()
            .filter(|assignment| assignment.field == setting.field)
        {
            let value = if setting.field == "preempt_mode" {
                assignment.value.to_uppercase()
            } else {
                shown(setting.kind, &assignment.value)
            };
            let (label, width) = (setting.label, setting.width + 1);
            let sign = match v1::AssignmentOperator::try_from(assignment.operator) {
                Ok(v1::AssignmentOperator::Add) => "+",
                Ok(v1::AssignmentOperator::Remove) => "-",
                _ => "",
            };
            told.push(format!("  {label:<width$}{sign}= {value}"));
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(of: Of, key: &str, value: &str) -> Option<(String, String)> {
        read(of, key, None, value)
            .ok()
            .map(|assignment| (assignment.field, assignment.value))
    }

    fn pair(field: &str, value: &str) -> Option<(String, String)> {
        Some((field.to_string(), value.to_string()))
    }

    #[test]
    fn names_and_values() {
        assert_eq!(set(Of::Association, "fairshare", "5"), pair("shares", "5"));
        assert_eq!(
            set(Of::Association, "fairshare", "parent"),
            pair("shares", "parent")
        );
        assert_eq!(
            set(Of::Association, "maxjobs", "-1"),
            pair("max_jobs", "-1")
        );
        assert_eq!(
            set(Of::Association, "maxsubmit", "7"),
            pair("max_submit_jobs", "7")
        );
        assert_eq!(
            set(Of::Association, "maxwall", "1-0"),
            pair("max_wall_per_job", "1440")
        );
        assert_eq!(
            set(Of::Association, "maxtres", "cpu=5,mem=20G"),
            pair("max_tres_per_job", "cpu=5,mem=20480")
        );
        assert_eq!(
            set(Of::Association, "maxtresmins", "cpu=5"),
            pair("max_tres_mins_per_job", "cpu=5")
        );
        assert_eq!(
            set(Of::Association, "maxtrespernode", "cpu=5"),
            pair("max_tres_per_node", "cpu=5")
        );
        assert_eq!(
            set(Of::Association, "maxnodes", "3"),
            pair("max_tres_per_job", "node=3")
        );
        assert_eq!(
            set(Of::Association, "grpmem", "1G"),
            pair("grp_tres", "mem=1024")
        );
        assert_eq!(set(Of::Association, "qos", "+High"), pair("qos", "high"));
        assert_eq!(
            set(Of::Qos, "maxjobspu", "2"),
            pair("max_jobs_per_user", "2")
        );
        assert_eq!(
            set(Of::Qos, "maxjobspa", "2"),
            pair("max_jobs_per_account", "2")
        );
        assert_eq!(
            set(Of::Qos, "maxsubmitjobspa", "2"),
            pair("max_submit_jobs_per_account", "2")
        );
        assert_eq!(
            set(Of::Qos, "maxtrespu", "cpu=16"),
            pair("max_tres_per_user", "cpu=16")
        );
        assert_eq!(
            set(Of::Qos, "preemptexempttime", "10"),
            pair("preempt_exempt_time_secs", "600")
        );
        assert_eq!(set(Of::Qos, "flags", "nosuch"), None);
        assert_eq!(set(Of::Association, "fairshare", "abc"), None);
        assert_eq!(set(Of::Association, "nosuch", "3"), None);
        assert_eq!(set(Of::Association, "maxtres", "foo=3"), None);
    }

    /// The words of a real sacctmgr.
    #[test]
    fn told() {
        let all = |of, list: &[(&str, &str)]| -> Vec<Assignment> {
            list.iter()
                .filter_map(|(key, value)| read(of, key, None, value).ok())
                .collect()
        };
        let lines_of = |of, list: &[(&str, &str)]| lines(of, &all(of, list));
        assert_eq!(
            lines_of(
                Of::Association,
                &[
                    ("maxjobs", "3"),
                    ("grptres", "cpu=256"),
                    ("fairshare", "10"),
                    ("maxwall", "1-0")
                ]
            ),
            [
                "  Fairshare     = 10",
                "  GrpTRES       = cpu=256",
                "  MaxJobs       = 3",
                "  MaxWall       = 1-00:00:00"
            ]
        );
        assert_eq!(
            lines_of(
                Of::Association,
                &[
                    ("grptresrunmins", "cpu=3"),
                    ("maxtrespernode", "cpu=2"),
                    ("grpjobsaccrue", "2"),
                    ("maxsubmitjobs", "7")
                ]
            ),
            [
                "  GrpJobsAccrue            = 2",
                "  GrpTRESRunMins= cpu=3",
                "  MaxSubmitJobs = 7",
                "  MaxTRESPerNode= cpu=2"
            ]
        );
        assert_eq!(
            lines_of(
                Of::Qos,
                &[
                    ("maxjobsperuser", "2"),
                    ("flags", "DenyOnLimit"),
                    ("maxsubmitjobsperuser", "4"),
                    ("usagefactor", "0.5")
                ]
            ),
            [
                "  Flags                    = DenyOnLimit",
                "  MaxJobsPerUser = 2",
                "  MaxSubmitJobsPerUser     = 4",
                "  UsageFactor              = 0.5000"
            ]
        );
    }
}
