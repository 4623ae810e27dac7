//! Keys of `scontrol update JobId=`: one text after the other to a change of a job.
//!
//! Keys may be abbreviated as in Slurm. Values are read here and judged by the controller; options without an engine are kept on the
//! record, by the name of the option of sbatch, and said on standard error. Source: scontrol(1), specifications for jobs.

use sluice_model::gres::parse_gres_list;
use sluice_model::job::JobUpdate;
use sluice_model::memory::parse_memory;
use sluice_model::time::{TimeLimit, UnixSeconds, parse_point_in_time};

use super::caller::{Place, now};
use super::scontrol::{is_keyword, unsupported};
use crate::submit::nodes::parse_node_count;
use crate::submit::resources::{NICE_MAX, mail_events};

/// `Priority=INFINITE`: computed again.
const PRIORITY_COMPUTED: u32 = u32::MAX;

/// Keys that are kept on the record as options, most of them without effect yet: key, shortest form, option of sbatch.
const KEPT: &[(&str, usize, &str)] = &[
    ("burstbuffer", 2, "bb"),
    ("clusters", 8, "clusters"),
    ("clusterfeatures", 8, "cluster-constraint"),
    ("consolidatesegments", 5, "consolidate-segments"),
    ("delayboot", 4, "delay-boot"),
    ("extra", 3, "extra"),
    ("mcslabel", 3, "mcs-label"),
    ("reboot", 3, "reboot"),
    ("segmentsize", 3, "segment"),
    ("sitefactor", 4, "site-factor"),
    ("spreadsegments", 2, "spread-segments"),
    ("switches", 2, "switches"),
    ("threadspec", 2, "thread-spec"),
    ("wait-for-switch", 5, "wait-for-switch"),
];

/// Yes or no, as scontrol takes it.
fn yes_no(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" => Some(true),
        "0" => Some(false),
        word if is_keyword(word, "yes", 1) => Some(true),
        word if is_keyword(word, "no", 1) => Some(false),
        _ => None,
    }
}

/// What a value says, or the refusal.
struct Reader<'a> {
    name: &'static str,
    value: &'a str,
}

impl Reader<'_> {
    fn refusal(&self) -> String {
        format!(
            "scontrol: error: Invalid {} value: {}",
            self.name, self.value
        )
    }

    fn number(&self) -> Result<u32, String> {
        self.value.parse().map_err(|_| self.refusal())
    }

    fn flag(&self) -> Result<bool, String> {
        yes_no(self.value).ok_or_else(|| self.refusal())
    }
}

/// A point in time.
fn point(value: &str, place: &Place) -> Result<UnixSeconds, String> {
    parse_point_in_time(value, now(), &place.zone)
        .map_err(|_| format!("Invalid time specification (pos=0): {value}\nNo changes specified"))
}

fn limit(name: &str, value: &str) -> Result<TimeLimit, String> {
    value
        .parse()
        .map_err(|_| format!("scontrol: error: Invalid {name} value"))
}

/// Lowest and highest count of `3-5`.
fn range(name: &'static str, value: &str) -> Result<(u32, Option<u32>), String> {
    let (least, most) = value
        .split_once('-')
        .map_or((value, None), |(l, m)| (l, Some(m)));
    let bad = |_| {
        format!(
            "scontrol: error: Invalid numeric value \"{value}\" for {name}.\nscontrol: error: Invalid {name} value: {value}"
        )
    };
    Ok((
        least.parse().map_err(bad)?,
        most.map(str::parse).transpose().map_err(bad)?,
    ))
}

/// Puts one key into the change. `key` is in lower case, without the sign of `+=` and `-=`.
pub(super) fn set_job(
    update: &mut JobUpdate,
    key: &str,
    sign: Option<char>,
    value: &str,
    place: &Place,
) -> Result<(), String> {
    if let Some((_, _, option)) = KEPT
        .iter()
        .find(|(name, least, _)| is_keyword(key, name, *least))
    {
        return keep(update, option, value);
    }
    if is_keyword(key, "timelimit", 5) {
        return time_limit(update, sign, value);
    }
    if sign.is_some() {
        return Err(unsupported(key, value));
    }
    if set_text(update, key, value) || set_numbers(update, key, value)? {
        return Ok(());
    }
    match key {
        _ if is_keyword(key, "timemin", 5) => update.time_min = Some(limit("TimeMin", value)?),
        _ if is_keyword(key, "partition", 2) => {
            update.partitions = Some(value.split(',').map(String::from).collect());
        }
        _ if is_keyword(key, "starttime", 4) || is_keyword(key, "eligibletime", 2) => {
            update.begin_time = Some(point(value, place)?);
        }
        _ if is_keyword(key, "endtime", 2) => update.end_time = Some(point(value, place)?),
        _ if is_keyword(key, "deadline", 3) => update.deadline = Some(point(value, place)?),
        _ if is_keyword(key, "priority", 2) => {
            let read = Reader {
                name: "Priority",
                value,
            };
            let computed =
                ["infinite", "unlimited", "-1"].contains(&value.to_ascii_lowercase().as_str());
            update.priority = Some(if computed {
                PRIORITY_COMPUTED
            } else {
                read.number()?
            });
        }
        _ if is_keyword(key, "nice", 2) => update.nice = Some(nice(value)?),
        _ if is_keyword(key, "numnodes", 4) || is_keyword(key, "reqnodes", 8) => {
            let both = value
                .split_once('-')
                .and_then(|(least, most)| Some((least.parse().ok()?, most.parse().ok()?)));
            match (both, parse_node_count(value)) {
                // What does not fit together is the controller's to refuse.
                (Some((least, most)), _) => {
                    update.min_nodes = Some(least);
                    update.max_nodes = Some(most);
                }
                (None, Ok(count)) => {
                    update.min_nodes = Some(count.min);
                    update.max_nodes = count.max;
                }
                (None, Err(_)) => {
                    return Err(format!(
                        "scontrol: error: Invalid numeric value \"{value}\" for requested node count."
                    ));
                }
            }
        }
        _ if is_keyword(key, "numcpus", 4) => update.num_cpus = Some(range("NumCPUs", value)?.0),
        _ if is_keyword(key, "minmemorynode", 11) || is_keyword(key, "minmemorycpu", 10) => {
            memory(update, key, value)?;
        }
        _ if is_keyword(key, "nodelist", 5) => update.keep_nodes = Some(value.to_string()),
        _ if is_keyword(key, "gres", 2) => {
            update.gres_per_node = Some(
                parse_gres_list(value)
                    .map_err(|error| format!("scontrol: error: Invalid Gres value: {error}"))?,
            );
        }
        _ if is_keyword(key, "contiguous", 3) => {
            let read = Reader {
                name: "Contiguous",
                value,
            };
            update.contiguous = Some(read.flag()?);
        }
        _ if is_keyword(key, "oversubscribe", 2) || is_keyword(key, "shared", 2) => {
            let read = Reader {
                name: "OverSubscribe",
                value,
            };
            update.oversubscribe = Some(read.flag()?);
        }
        _ if is_keyword(key, "requeue", 4) => {
            let read = Reader {
                name: "Requeue",
                value,
            };
            update.requeue = Some(read.number()? != 0);
        }
        _ if is_keyword(key, "resetaccruetime", 3) => update.reset_accrue = true,
        _ if is_keyword(key, "mailtype", 5) => {
            if mail_events(value).is_none() {
                return Err(format!("Invalid MailType: {value}"));
            }
            update.mail_type = Some(value.to_string());
        }
        _ => return Err(unsupported(key, value)),
    }
    Ok(())
}

/// Options that no engine reads yet. Their values are checked as far as Slurm does.
fn keep(update: &mut JobUpdate, option: &str, value: &str) -> Result<(), String> {
    let value = match option {
        "reboot" => match yes_no(value) {
            Some(true) => "yes".to_string(),
            Some(false) => String::new(),
            None => return Err(format!("scontrol: error: Invalid reboot value: {value}")),
        },
        "delay-boot" => {
            if value.parse::<TimeLimit>().is_err() {
                return Err("scontrol: error: Invalid DelayBoot value".to_string());
            }
            value.to_string()
        }
        _ => value.to_string(),
    };
    update.extra.insert(option.to_string(), value);
    Ok(())
}

/// `TimeLimit=60`, `TimeLimit=+10`, `TimeLimit+=10`.
fn time_limit(update: &mut JobUpdate, sign: Option<char>, value: &str) -> Result<(), String> {
    let (sign, text) = match (sign, value.chars().next()) {
        (Some(sign), _) => (Some(sign), value),
        (None, Some(first @ ('+' | '-'))) => (Some(first), &value[1..]),
        _ => (None, value),
    };
    let given = limit("TimeLimit", text)?;
    match (sign, given.minutes()) {
        (None, _) => update.time_limit = Some(given),
        (Some(sign), Some(minutes)) => {
            let minutes = i64::from(minutes);
            update.time_limit_change = Some(if sign == '-' { -minutes } else { minutes });
        }
        (Some(_), None) => return Err("scontrol: error: Invalid TimeLimit value".to_string()),
    }
    Ok(())
}

/// No value lowers the priority by 100; a text that is no number is 0, as in Slurm.
fn nice(value: &str) -> Result<i32, String> {
    let number: i64 = match value {
        "" => 100,
        text => text.parse().unwrap_or(0),
    };
    if number.abs() > NICE_MAX {
        return Err(format!(
            "scontrol: error: Nice value out of range (+/- {NICE_MAX}). Value ignored"
        ));
    }
    i32::try_from(number).map_err(|_| "scontrol: error: Invalid Nice value".to_string())
}

fn memory(update: &mut JobUpdate, key: &str, value: &str) -> Result<(), String> {
    let per_node = is_keyword(key, "minmemorynode", 11);
    let name = if per_node {
        "MinMemoryNode"
    } else {
        "MinMemoryCPU"
    };
    let size = parse_memory(value)
        .map_err(|_| format!("scontrol: error: Invalid {name} value: {value}"))?;
    if per_node {
        update.mem_per_node = Some(size);
    } else {
        update.mem_per_cpu = Some(size);
    }
    Ok(())
}

/// Keys whose value is taken as it is.
fn set_text(update: &mut JobUpdate, key: &str, value: &str) -> bool {
    let is = |name: &str, least: usize| is_keyword(key, name, least);
    let field = match key {
        _ if is("jobname", 4) || is("name", 2) => &mut update.name,
        _ if is("account", 2) => &mut update.account,
        _ if is("qos", 1) => &mut update.qos,
        _ if is("dependency", 3) => &mut update.dependency,
        _ if is("features", 1) => &mut update.constraint,
        _ if is("prefer", 3) => &mut update.prefer,
        _ if is("reqnodelist", 8) => &mut update.required_nodes,
        _ if is("excnodelist", 3) => &mut update.excluded_nodes,
        _ if is("comment", 3) => &mut update.comment,
        _ if is("admincomment", 3) => &mut update.admin_comment,
        _ if is("licenses", 1) => &mut update.licenses,
        _ if is("reservationname", 3) => &mut update.reservation,
        _ if is("wckey", 1) => &mut update.wckey,
        _ if is("stdout", 4) => &mut update.std_out,
        _ if is("stderr", 4) => &mut update.std_err,
        _ if is("stdin", 4) => &mut update.std_in,
        _ if is("workdir", 2) => &mut update.work_dir,
        _ if is("mailuser", 5) => &mut update.mail_user,
        _ => return false,
    };
    *field = Some(value.to_string());
    true
}

/// Keys whose value is a count.
fn set_numbers(update: &mut JobUpdate, key: &str, value: &str) -> Result<bool, String> {
    let is = |name: &str, least: usize| is_keyword(key, name, least);
    if is("mintmpdisknode", 4) {
        let name = "MinTmpDiskNode";
        update.tmp_disk_mib = Some(u64::from(Reader { name, value }.number()?));
        return Ok(true);
    }
    let (name, field) = match key {
        _ if is("numtasks", 4) => ("NumTasks", &mut update.ntasks),
        _ if is("reqprocs", 4) => ("ReqProcs", &mut update.ntasks),
        _ if is("cpuspertask", 2) => ("CPUsPerTask", &mut update.cpus_per_task),
        _ if is("tasksperNode", 2) => ("TasksPerNode", &mut update.ntasks_per_node),
        _ if is("reqsockets", 4) => ("ReqSockets", &mut update.sockets_per_node),
        _ if is("reqcores", 4) => ("ReqCores", &mut update.cores_per_socket),
        _ if is("reqthreads", 4) => ("ReqThreads", &mut update.threads_per_core),
        _ if is("mincpusnode", 4) => ("MinCPUsNode", &mut update.min_cpus_per_node),
        _ if is("corespec", 4) => ("CoreSpec", &mut update.core_spec),
        _ if is("arraytaskthrottle", 2) => ("ArrayTaskThrottle", &mut update.array_throttle),
        _ => return Ok(false),
    };
    let cleared = name == "CoreSpec" && value == "-1";
    *field = Some(if cleared {
        u32::MAX
    } else {
        Reader { name, value }.number()?
    });
    Ok(true)
}

/// Names of kept options in a change, for the word about them.
pub(super) fn kept_names(update: &JobUpdate) -> Vec<&'static str> {
    KEPT.iter()
        // The site factor is part of the priority.
        .filter(|(_, _, option)| *option != "site-factor")
        .filter(|(_, _, option)| {
            update
                .extra
                .get(*option)
                .is_some_and(|value| !value.is_empty())
        })
        .map(|(name, _, _)| *name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: &str, value: &str) -> Result<JobUpdate, String> {
        let mut update = JobUpdate::default();
        set_job(&mut update, key, None, value, &Place::here()).map(|()| update)
    }

    /// Keys of jobs, with the refusals of a real scontrol.
    #[test]
    fn job_changes() {
        let update = change("timelimit", "2-00:00:00").expect("ok");
        assert_eq!(update.time_limit, Some(TimeLimit::Minutes(2880)));
        assert_eq!(
            change("name", "dep2").expect("ok").name.as_deref(),
            Some("dep2")
        );
        assert_eq!(
            change("priority", "INFINITE").expect("ok").priority,
            Some(u32::MAX)
        );
        for (key, value, text) in [
            (
                "nosuch",
                "1",
                "Update of this parameter is not supported: nosuch=1\nRequest aborted",
            ),
            (
                "timelimit",
                "abc",
                "scontrol: error: Invalid TimeLimit value",
            ),
            (
                "priority",
                "abc",
                "scontrol: error: Invalid Priority value: abc",
            ),
            (
                "numtasks",
                "x",
                "scontrol: error: Invalid NumTasks value: x",
            ),
            (
                "contiguous",
                "foo",
                "scontrol: error: Invalid Contiguous value: foo",
            ),
            ("delayboot", "x", "scontrol: error: Invalid DelayBoot value"),
            ("mailtype", "foo", "Invalid MailType: foo"),
            (
                "starttime",
                "foo",
                "Invalid time specification (pos=0): foo\nNo changes specified",
            ),
            (
                "reboot",
                "foo",
                "scontrol: error: Invalid reboot value: foo",
            ),
            (
                "nice",
                "99999999999",
                "scontrol: error: Nice value out of range (+/- 2147483645). Value ignored",
            ),
        ] {
            assert_eq!(change(key, value), Err(text.to_string()), "{key}");
        }
    }

    /// Limits may be raised and lowered by a difference, in both spellings.
    #[test]
    fn differences() {
        let mut update = JobUpdate::default();
        set_job(&mut update, "timelimit", Some('+'), "10", &Place::here()).expect("ok");
        assert_eq!(update.time_limit_change, Some(10));
        assert_eq!(
            change("timelimit", "-5").expect("ok").time_limit_change,
            Some(-5)
        );
    }

    /// What no engine reads is kept under the name of the option.
    #[test]
    fn kept_options() {
        let update = change("switches", "2@10").expect("ok");
        assert_eq!(
            update.extra.get("switches").map(String::as_str),
            Some("2@10")
        );
        assert_eq!(kept_names(&update), ["switches"]);
        assert_eq!(change("nice", "").expect("ok").nice, Some(100));
        assert_eq!(change("reqprocs", "3").expect("ok").ntasks, Some(3));
        assert_eq!(
            change("mintmpdisknode", "10").expect("ok").tmp_disk_mib,
            Some(10)
        );
    }
}
