//! Keys of `scontrol create` and `update PartitionName=`, checked with Slurm's texts and brought into the spelling of slurm.conf.
//!
//! Source: scontrol(1), specifications for partitions.

use sluice_model::time::TimeLimit;

use super::scontrol::{is_keyword, without_sign};

/// How a value is checked.
enum Check {
    Text,
    YesNo,
    Number(u32),
    NumberOrNone,
    Limit,
    MaxNodes,
    Mode(&'static [&'static str]),
}

/// Every key: abbreviation, spelling, check.
const KEYS: &[(&str, usize, &str, Check)] = &[
    ("maxtime", 4, "MaxTime", Check::Limit),
    ("defaulttime", 8, "DefaultTime", Check::Limit),
    ("maxcpuspernode", 11, "MaxCPUsPerNode", Check::NumberOrNone),
    (
        "maxcpuspersocket",
        11,
        "MaxCPUsPerSocket",
        Check::NumberOrNone,
    ),
    ("maxnodes", 4, "MaxNodes", Check::MaxNodes),
    ("minnodes", 2, "MinNodes", Check::Number(u32::MAX - 2)),
    ("default", 7, "Default", Check::YesNo),
    ("disablerootjobs", 2, "DisableRootJobs", Check::YesNo),
    ("hidden", 1, "Hidden", Check::YesNo),
    ("lln", 1, "LLN", Check::YesNo),
    ("rootonly", 1, "RootOnly", Check::YesNo),
    ("reqresv", 3, "ReqResv", Check::YesNo),
    ("exclusiveuser", 10, "ExclusiveUser", Check::YesNo),
    ("exclusivetopo", 10, "ExclusiveTopo", Check::YesNo),
    (
        "exclusive",
        3,
        "Exclusive",
        Check::Mode(&["NO", "NODE", "USER", "TOPO", "YES"]),
    ),
    ("powerdownonidle", 6, "PowerDownOnIdle", Check::YesNo),
    (
        "priorityjobfactor",
        9,
        "PriorityJobFactor",
        Check::Number(65_533),
    ),
    ("prioritytier", 9, "PriorityTier", Check::Number(65_533)),
    ("priority", 2, "Priority", Check::Number(65_533)),
    ("state", 2, "State", Check::Text),
    ("oversubscribe", 5, "OverSubscribe", Check::Text),
    ("shared", 2, "OverSubscribe", Check::Text),
    ("overtimelimit", 5, "OverTimeLimit", Check::NumberOrNone),
    ("preemptmode", 3, "PreemptMode", Check::Text),
    ("gracetime", 5, "GraceTime", Check::Number(u32::MAX - 2)),
    ("defmempercpu", 10, "DefMemPerCPU", Check::NumberOrNone),
    ("defmempernode", 10, "DefMemPerNode", Check::NumberOrNone),
    ("defmempergpu", 10, "DefMemPerGPU", Check::NumberOrNone),
    ("defcpupergpu", 4, "DefCpuPerGPU", Check::NumberOrNone),
    ("maxmempercpu", 10, "MaxMemPerCPU", Check::NumberOrNone),
    ("maxmempernode", 10, "MaxMemPerNode", Check::NumberOrNone),
    ("allowgroups", 6, "AllowGroups", Check::Text),
    ("allowaccounts", 6, "AllowAccounts", Check::Text),
    ("allowqos", 6, "AllowQos", Check::Text),
    ("denyaccounts", 5, "DenyAccounts", Check::Text),
    ("denyqos", 5, "DenyQos", Check::Text),
    ("allocnodes", 5, "AllocNodes", Check::Text),
    ("alternate", 3, "Alternate", Check::Text),
    ("qos", 1, "QOS", Check::Text),
    (
        "cpubind",
        2,
        "CpuBind",
        Check::Mode(&["none", "socket", "ldom", "core", "thread", "off"]),
    ),
    ("tresbillingweights", 2, "TRESBillingWeights", Check::Text),
    ("topology", 2, "Topology", Check::Text),
    ("suspendtimeout", 8, "SuspendTimeout", Check::NumberOrNone),
    ("suspendtime", 2, "SuspendTime", Check::Text),
    ("resumetimeout", 3, "ResumeTimeout", Check::NumberOrNone),
    (
        "selecttypeparameters",
        3,
        "SelectTypeParameters",
        Check::Text,
    ),
];

/// Modes of PreemptMode.
const PREEMPT: [&str; 7] = [
    "off", "cancel", "requeue", "suspend", "on", "gang", "priority",
];

/// What is asked for: the partition and settings in the spelling of slurm.conf.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PartitionChange {
    pub name: String,
    pub settings: Vec<(String, String)>,
}

/// Reads the words; the refusal is what is printed.
pub(super) fn partition_change(words: &[String]) -> Result<PartitionChange, String> {
    let mut change = PartitionChange::default();
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(format!(
                "scontrol: error: Invalid input: {word}  Request aborted"
            ));
        };
        if is_keyword(key, "partitionname", 4) {
            change.name = value.to_string();
            continue;
        }
        set(&mut change, key, value)?;
    }
    Ok(change)
}

fn set(change: &mut PartitionChange, key: &str, value: &str) -> Result<(), String> {
    let mut put = |name: &str, value: &str| {
        change.settings.push((name.to_string(), value.to_string()));
    };
    let (bare, sign) = without_sign(key);
    if is_keyword(bare, "nodes", 5) {
        put(
            &format!("Nodes{}", sign.map(String::from).unwrap_or_default()),
            value,
        );
        return Ok(());
    }
    if is_keyword(key, "jobdefaults", 3) {
        for (name, value) in job_defaults(value)? {
            put(name, &value);
        }
        return Ok(());
    }
    let known = KEYS
        .iter()
        .find(|(name, least, _, _)| is_keyword(key, name, *least));
    let Some((_, _, name, check)) = known else {
        return Err(format!(
            "scontrol: error: Update of this parameter is not supported: {key}={value}\n\nscontrol: error: Request aborted"
        ));
    };
    let value = checked(name, check, key, value)?;
    put(name, &value);
    Ok(())
}

/// `DefCpuPerGPU=2,DefMemPerGPU=100`; what is left out is no longer set.
fn job_defaults(text: &str) -> Result<Vec<(&'static str, String)>, String> {
    let bad = || "slurm_update error: Invalid JobDefaults specification".to_string();
    let mut found = vec![
        ("DefCpuPerGPU", String::new()),
        ("DefMemPerGPU", String::new()),
    ];
    for item in text.split(',').filter(|item| !item.is_empty()) {
        let (name, value) = item.split_once('=').ok_or_else(bad)?;
        let slot = found
            .iter_mut()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .ok_or_else(bad)?;
        value.parse::<u64>().map_err(|_| bad())?;
        slot.1 = value.to_string();
    }
    Ok(found)
}

fn checked(name: &str, check: &Check, key: &str, value: &str) -> Result<String, String> {
    let invalid_value = || format!("scontrol: error: Invalid {name} value: {value}");
    let no_limit =
        |text: &str| ["unlimited", "infinite", "-1"].contains(&text.to_ascii_lowercase().as_str());
    match check {
        Check::Text => text(name, key, value),
        _ if value.is_empty() => Ok(String::new()),
        Check::YesNo => match value.to_ascii_lowercase().as_str() {
            word if is_keyword(word, "yes", 1) => Ok("YES".to_string()),
            word if is_keyword(word, "no", 1) => Ok("NO".to_string()),
            _ => Err(format!(
                "scontrol: error: Invalid input: {key}={value}\nscontrol: error: Acceptable {name} values are YES and NO"
            )),
        },
        Check::Number(most) => match value.parse::<u32>() {
            Ok(number) if number <= *most => Ok(number.to_string()),
            _ if name == "MinNodes" => Err(format!(
                "scontrol: error: \"{value}\" is not a valid node count"
            )),
            _ => Err(invalid_value()),
        },
        Check::NumberOrNone if no_limit(value) => Ok(String::new()),
        Check::NumberOrNone => value
            .parse::<u64>()
            .map(|number| number.to_string())
            .map_err(|_| invalid_value()),
        Check::Limit if value.eq_ignore_ascii_case("none") => Ok(String::new()),
        Check::Limit => value
            .parse::<TimeLimit>()
            .map(|_| value.to_string())
            .map_err(|_| format!("scontrol: error: Invalid input {key}={value}")),
        Check::MaxNodes if no_limit(value) => Ok(String::new()),
        Check::MaxNodes => value.parse::<u32>().map(|n| n.to_string()).map_err(|_| {
            format!("scontrol: error: Invalid numeric value \"{value}\" for MaxNodes.")
        }),
        Check::Mode(modes) => modes
            .iter()
            .find(|mode| mode.eq_ignore_ascii_case(value))
            .map(|mode| (*mode).to_string())
            .ok_or_else(|| format!("scontrol: error: Invalid input {key}={value}")),
    }
}

/// Words with rules of their own.
fn text(name: &str, key: &str, value: &str) -> Result<String, String> {
    let invalid = || format!("scontrol: error: Invalid input: {key}={value}");
    match name {
        "State" => ["UP", "DOWN", "DRAIN", "INACTIVE"]
            .iter()
            .find(|state| is_keyword(value, state, 1))
            .map(|state| (*state).to_string())
            .ok_or_else(|| {
                format!(
                    "{}\nscontrol: error: Acceptable State values are UP, DOWN, DRAIN and INACTIVE",
                    invalid()
                )
            }),
        "OverSubscribe" => {
            let (word, count) = value
                .split_once(':')
                .map_or((value, None), |(w, c)| (w, Some(c)));
            let word = ["NO", "EXCLUSIVE", "YES", "FORCE"]
                .iter()
                .find(|known| known.eq_ignore_ascii_case(word));
            match (word, count) {
                // No job may share: as good as the whole node for one.
                (Some(&("YES" | "FORCE")), Some("0")) => Ok("EXCLUSIVE".to_string()),
                (Some(word), None) => Ok((*word).to_string()),
                (Some(word), Some(count)) if count.parse::<u16>().is_ok() => {
                    Ok(format!("{word}:{count}"))
                }
                _ => Err(format!(
                    "{}\nscontrol: error: Acceptable OverSubscribe values are NO, EXCLUSIVE, YES:#, and FORCE:#",
                    invalid()
                )),
            }
        }
        "PreemptMode" => {
            let known = |word: &str| PREEMPT.iter().any(|mode| mode.eq_ignore_ascii_case(word));
            if value.is_empty() || value.split(',').all(known) {
                Ok(value.to_string())
            } else {
                Err(invalid())
            }
        }
        "TRESBillingWeights" => {
            let good = |item: &str| {
                item.split_once('=').is_some_and(|(_, weight)| {
                    weight
                        .trim_end_matches(|letter: char| letter.is_ascii_alphabetic())
                        .parse::<f64>()
                        .is_ok()
                })
            };
            if value.is_empty() || value.split(',').all(good) {
                Ok(value.to_string())
            } else {
                Err("slurm_update error: Invalid TRESBillingWeights specification".to_string())
            }
        }
        _ => Ok(value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(words: &[&str]) -> Result<PartitionChange, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_string()).collect();
        partition_change(&words)
    }

    /// Refusals as a real scontrol prints them.
    #[test]
    fn refusals() {
        for (word, text) in [
            (
                "foo=1",
                "scontrol: error: Update of this parameter is not supported: foo=1\n\nscontrol: error: Request aborted",
            ),
            (
                "state=foo",
                "scontrol: error: Invalid input: state=foo\nscontrol: error: Acceptable State values are UP, DOWN, DRAIN and INACTIVE",
            ),
            ("maxtime=abc", "scontrol: error: Invalid input maxtime=abc"),
            (
                "hidden=foo",
                "scontrol: error: Invalid input: hidden=foo\nscontrol: error: Acceptable Hidden values are YES and NO",
            ),
            (
                "priority=99999",
                "scontrol: error: Invalid Priority value: 99999",
            ),
            (
                "prioritytier=x",
                "scontrol: error: Invalid PriorityTier value: x",
            ),
            (
                "maxnodes=x",
                "scontrol: error: Invalid numeric value \"x\" for MaxNodes.",
            ),
            (
                "gracetime=foo",
                "scontrol: error: Invalid GraceTime value: foo",
            ),
            (
                "jobdefaults=foo",
                "slurm_update error: Invalid JobDefaults specification",
            ),
            (
                "tresbillingweights=foo",
                "slurm_update error: Invalid TRESBillingWeights specification",
            ),
            ("cpubind=foo", "scontrol: error: Invalid input cpubind=foo"),
            (
                "partition",
                "scontrol: error: Invalid input: partition  Request aborted",
            ),
        ] {
            assert_eq!(change(&[word]), Err(text.to_string()), "{word}");
        }
    }

    /// Keys come in the spelling of slurm.conf, limits that are none are taken away.
    #[test]
    fn settings() {
        let made = change(&[
            "PartitionName=p1",
            "nodes+=n[1-2]",
            "state=down",
            "maxtime=30",
            "maxnodes=UNLIMITED",
            "jobdefaults=defcpupergpu=2",
        ])
        .expect("ok");
        assert_eq!(made.name, "p1");
        let texts: Vec<String> = made
            .settings
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        assert_eq!(
            texts,
            [
                "Nodes+=n[1-2]",
                "State=DOWN",
                "MaxTime=30",
                "MaxNodes=",
                "DefCpuPerGPU=2",
                "DefMemPerGPU="
            ]
        );
    }
}
