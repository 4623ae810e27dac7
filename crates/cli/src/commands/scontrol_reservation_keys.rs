//! Keys of `scontrol create reservation` and `update ReservationName=`, checked with Slurm's texts.
//!
//! Source: scontrol(1), specifications for reservations.

use sluice_model::reservation::{PURGE_COMP_SECS, ReservationFlags, ReservationRequest};
use sluice_model::time::{TimeLimit, UnixSeconds, parse_duration_minutes, parse_point_in_time};

use super::caller::{Place, now};
use super::scontrol::{is_keyword, without_sign};

/// Flags with the shortest form of each name.
const FLAGS: &[(&str, usize, ReservationFlags)] = &[
    ("maintenance", 1, ReservationFlags::MAINT),
    ("overlap", 1, ReservationFlags::OVERLAP),
    ("flex", 2, ReservationFlags::FLEX),
    ("ignore_jobs", 1, ReservationFlags::IGNORE_JOBS),
    ("hourly", 1, ReservationFlags::HOURLY),
    ("daily", 1, ReservationFlags::DAILY),
    ("weekday", 5, ReservationFlags::WEEKDAY),
    ("weekend", 5, ReservationFlags::WEEKEND),
    ("weekly", 4, ReservationFlags::WEEKLY),
    ("any_nodes", 1, ReservationFlags::ANY_NODES),
    ("license_only", 1, ReservationFlags::ANY_NODES),
    ("static_alloc", 1, ReservationFlags::STATIC_ALLOC),
    ("part_nodes", 2, ReservationFlags::PART_NODES),
    ("purge_comp", 2, ReservationFlags::PURGE_COMP),
    ("first_cores", 2, ReservationFlags::FIRST_CORES),
    ("time_float", 1, ReservationFlags::TIME_FLOAT),
    ("replace", 1, ReservationFlags::REPLACE),
    ("replace_down", 8, ReservationFlags::REPLACE_DOWN),
    ("no_hold_jobs_after_end", 1, ReservationFlags::NO_HOLD_JOBS),
    ("magnetic", 3, ReservationFlags::MAGNETIC),
    ("user_delete", 1, ReservationFlags::USER_DELETE),
    ("force_start", 2, ReservationFlags::FORCE_START),
];

/// Seconds of `minutes[:seconds]` and the like, whole minutes.
fn minutes_as_secs(text: &str) -> Option<u32> {
    parse_duration_minutes(text).ok()?.checked_mul(60)
}

/// Reads `Flags=`; `-` takes them away.
fn flags(
    request: &mut ReservationRequest,
    text: &str,
    sign: Option<char>,
    nothing: &str,
) -> Result<(), String> {
    for word in text
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        let bad = || format!("scontrol: error: Error parsing flags {text}.  {nothing}");
        let (word, value) = match word.split_once('=') {
            Some((word, value)) => (word, Some(value)),
            None => (word, None),
        };
        let (word, sign) = match word.strip_prefix(['+', '-']) {
            Some(bare) => (bare, word.chars().next()),
            None => (word, sign),
        };
        let (name, flag) = FLAGS
            .iter()
            .find(|(name, least, _)| is_keyword(word, name, *least))
            .map(|(name, _, flag)| (*name, *flag))
            .ok_or_else(bad)?;
        if name == "purge_comp" {
            let secs = match value {
                Some(value) => minutes_as_secs(value).ok_or_else(bad)?,
                None => PURGE_COMP_SECS,
            };
            request.purge_comp_secs = Some(secs);
        } else if value.is_some() {
            return Err(bad());
        }
        if sign == Some('-') {
            request.flags_remove |= flag.0;
        } else {
            request.flags_add |= flag.0;
        }
    }
    Ok(())
}

/// `2`, `2k`, `1,3,2`.
fn counts(what: &str, text: &str) -> Result<Vec<u32>, String> {
    let bad = || format!("scontrol: error: Invalid {what} count {text}");
    text.split(',')
        .map(|word| {
            let (digits, factor) = match word.strip_suffix(['k', 'K']) {
                Some(digits) => (digits, 1024),
                None => (word, 1),
            };
            let number: u32 = digits.parse().map_err(|_| bad())?;
            number.checked_mul(factor).ok_or_else(bad)
        })
        .collect()
}

/// `cpu=4,node=2,license/x=1`.
fn tres(request: &mut ReservationRequest, text: &str) -> Result<(), String> {
    let mut licenses: Vec<String> = Vec::new();
    let mut last = "";
    for word in text.split(',').filter(|word| !word.is_empty()) {
        // A bare number goes on with the counts of the resource before it.
        let (name, value) = match word.split_once('=') {
            Some(pair) => pair,
            None if word.parse::<u32>().is_ok() && !last.is_empty() => (last, word),
            None => return Err(format!("scontrol: error: invalid TRES '{word}'")),
        };
        last = name;
        let number = |name: &str| {
            counts("TRES", value)
                .map_err(|_| format!("scontrol: error: invalid TRES {name} value '{value}'"))
        };
        match name.to_ascii_lowercase().as_str() {
            "cpu" => request.core_counts.extend(number("cpu")?),
            "node" => request.node_counts.extend(number("node")?),
            other => match other.split_once('/') {
                Some(("license", _)) => {
                    number(name)?;
                    let license = name.split_once('/').map_or(name, |(_, license)| license);
                    licenses.push(format!("{license}:{value}"));
                }
                Some(("bb", buffer)) => request.burst_buffer = Some(format!("{buffer}:{value}")),
                _ => {
                    return Err(format!(
                        "scontrol: error: TRES type '{name}' not supported with reservations"
                    ));
                }
            },
        }
    }
    if !licenses.is_empty() {
        request.licenses = Some(licenses.join(","));
    }
    Ok(())
}

/// A list whose entries take the sign of its key.
fn signed(text: &str, sign: Option<char>) -> Option<String> {
    let Some(sign) = sign else {
        return Some(text.to_string());
    };
    let words: Vec<String> = text
        .split(',')
        .map(|word| format!("{sign}{}", word.trim_start_matches(['+', '-'])))
        .collect();
    Some(words.join(","))
}

/// Reads the words of a create or update command. `nothing` ends each refusal.
///
/// # Errors
/// What is printed about the first word that cannot be used.
pub(super) fn request(
    words: &[String],
    nothing: &str,
    place: &Place,
) -> Result<ReservationRequest, String> {
    let mut request = ReservationRequest::default();
    for word in words {
        let Some((typed, value)) = word.split_once('=') else {
            if is_keyword(word, "reservationname", 3) {
                continue;
            }
            if is_keyword(word, "skip", 2) {
                request.flags_add |= ReservationFlags::SKIP.0;
                continue;
            }
            return Err(format!(
                "scontrol: error: Misformatted parameter '{word}', most options have a parameter after '='.  {nothing}"
            ));
        };
        let (key, sign) = without_sign(typed);
        let key = key.to_ascii_lowercase();
        let is = |name: &str, least: usize| is_keyword(&key, name, least);
        let point = |what: &str| -> Result<Option<UnixSeconds>, String> {
            parse_point_in_time(value, now(), &place.zone)
                .map(Some)
                .map_err(|_| {
                    format!(
                        "Invalid time specification (pos=0): {value}\nscontrol: error: Invalid {what} time {word}.  {nothing}"
                    )
                })
        };
        let bad_duration = || format!("scontrol: error: Invalid duration {word}.  {nothing}");
        if is("reservationname", 1) {
            request.name = value.to_string();
        } else if is("starttime", 2) {
            request.start_time = point("start")?;
        } else if is("endtime", 1) {
            request.end_time = point("end")?;
        } else if is("duration", 1) {
            let limit: TimeLimit = value.parse().map_err(|_| bad_duration())?;
            match (sign, limit) {
                (Some(sign), TimeLimit::Minutes(minutes)) => {
                    let minutes = i64::from(minutes);
                    request.duration_change = if sign == '-' { -minutes } else { minutes };
                }
                (Some(_), TimeLimit::Unlimited) => return Err(bad_duration()),
                (None, limit) => request.duration = Some(limit),
            }
        } else if is("maxstartdelay", 1) {
            let secs = if value.is_empty() {
                0
            } else {
                minutes_as_secs(value).ok_or_else(bad_duration)?
            };
            request.max_start_delay = Some(secs);
        } else if is("flags", 2) {
            flags(&mut request, value, sign, nothing)?;
        } else if is("nodecnt", 5) || is("nodecount", 5) {
            request.node_counts = counts("node", value)?;
        } else if is("corecnt", 5) || is("corecount", 5) || is("cpucount", 5) {
            request.core_counts = counts("core", value)?;
        } else if is("nodes", 5) {
            request.nodes =
                Some(sign.map_or_else(|| value.to_string(), |sign| format!("{sign}{value}")));
        } else if is("tres", 1) {
            tres(&mut request, value)?;
        } else if is("skip", 2) {
            request.flags_add |= ReservationFlags::SKIP.0;
        } else {
            let text = Some(value.to_string());
            match () {
                () if is("accounts", 2) => request.accounts = signed(value, sign),
                () if is("users", 1) => request.users = signed(value, sign),
                () if is("groups", 1) => request.groups = signed(value, sign),
                () if is("qos", 1) => request.qos = signed(value, sign),
                () if is("allowedpartitions", 2) => {
                    request.allowed_partitions = signed(value, sign);
                }
                () if is("burstbuffer", 2) => request.burst_buffer = text,
                () if is("features", 2) => request.features = text,
                () if is("licenses", 1) => request.licenses = text,
                () if is("partitionname", 1) => request.partition = text,
                () if is("comment", 3) => request.comment = text,
                () => {
                    return Err(format!(
                        "scontrol: error: Unknown parameter {word}.  {nothing}"
                    ));
                }
            }
        }
    }
    Ok(request)
}

/// What a new reservation must have.
///
/// # Errors
/// What is printed about what is missing.
pub(super) fn check_new(request: &mut ReservationRequest, nothing: &str) -> Result<(), String> {
    let refuse = |why: &str| Err(format!("scontrol: error: {why}.  {nothing}"));
    if request.duration.is_none() && request.duration_change > 0 {
        let minutes = u32::try_from(request.duration_change).unwrap_or(u32::MAX - 2);
        request.duration = Some(TimeLimit::Minutes(minutes));
        request.duration_change = 0;
    }
    let Some(start) = request.start_time else {
        return refuse("A start time must be given");
    };
    match (request.end_time, request.duration) {
        (None, None) => return refuse("An end time or duration must be given"),
        (Some(end), Some(duration))
            if duration
                .seconds()
                .is_none_or(|secs| start.0 + secs != end.0) =>
        {
            return refuse("StartTime + Duration does not equal EndTime");
        }
        (Some(end), None) if start > end => {
            return refuse("Start time cannot be after end time");
        }
        _ => {}
    }
    let given = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    let flags = ReservationFlags(request.flags_add);
    let all = request
        .nodes
        .as_deref()
        .is_some_and(|nodes| nodes.eq_ignore_ascii_case("all"));
    if flags.contains(ReservationFlags::PART_NODES) && (!given(&request.partition) || !all) {
        return refuse("PART_NODES flag requires specifying a Partition and ALL nodes");
    }
    let something = !request.core_counts.is_empty()
        || !request.node_counts.is_empty()
        || given(&request.nodes)
        || given(&request.burst_buffer)
        || given(&request.licenses)
        || given(&request.partition);
    if !something {
        return refuse("CoreCnt, Nodes, NodeCnt, BurstBuffer or Licenses must be specified");
    }
    if given(&request.users) && given(&request.groups) {
        return refuse(
            "Users and Groups are mutually exclusive.  You can have one or the other, but not both",
        );
    }
    let somebody = [
        &request.users,
        &request.groups,
        &request.accounts,
        &request.qos,
        &request.allowed_partitions,
    ];
    if !somebody.into_iter().any(given) {
        return refuse("Either Users/Groups and/or Accounts must be specified");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<ReservationRequest, String> {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        request(&words, "No reservation created.", &Place::here())
    }

    fn refused(line: &str) -> String {
        read(line)
            .and_then(|mut request| check_new(&mut request, "No reservation created."))
            .expect_err("it is refused")
    }

    /// What a real scontrol 22.05 prints.
    #[test]
    fn refusals_as_slurm_prints_them() {
        for (line, text) in [
            (
                "reservation nodes=n1 users=root",
                "scontrol: error: A start time must be given.  No reservation created.",
            ),
            (
                "res starttime=now+1hour nodes=n1 users=root",
                "scontrol: error: An end time or duration must be given.  No reservation created.",
            ),
            (
                "res starttime=now+1hour duration=10 nodes=n1",
                "scontrol: error: Either Users/Groups and/or Accounts must be specified.  No reservation created.",
            ),
            (
                "res starttime=now+1hour duration=10 nodes=n1 users=root flags=nosuch",
                "scontrol: error: Error parsing flags nosuch.  No reservation created.",
            ),
            (
                "res starttime=now duration=x",
                "scontrol: error: Invalid duration duration=x.  No reservation created.",
            ),
            (
                "res starttime=nosuch",
                "Invalid time specification (pos=0): nosuch\nscontrol: error: Invalid start time starttime=nosuch.  No reservation created.",
            ),
            (
                "res bogus=1",
                "scontrol: error: Unknown parameter bogus=1.  No reservation created.",
            ),
            (
                "res blah",
                "scontrol: error: Misformatted parameter 'blah', most options have a parameter after '='.  No reservation created.",
            ),
            ("res nodecnt=x", "scontrol: error: Invalid node count x"),
            (
                "res tres=mem=5",
                "scontrol: error: TRES type 'mem' not supported with reservations",
            ),
            ("res tres=foo", "scontrol: error: invalid TRES 'foo'"),
            (
                "res tres=cpu=x",
                "scontrol: error: invalid TRES cpu value 'x'",
            ),
            (
                "res starttime=now duration=10 flags=part_nodes nodes=n1 users=root partition=main",
                "scontrol: error: PART_NODES flag requires specifying a Partition and ALL nodes.  No reservation created.",
            ),
        ] {
            assert_eq!(refused(line), text, "{line}");
        }
    }

    /// Every kind of value.
    #[test]
    fn keys_are_read() {
        let read = |line: &str| read(line).expect("it is read");
        let asked = read(
            "reservationname=r tres=cpu=4,node=2,license/m=3 users-=a,b flags=maint,purge_comp=10:00,-daily",
        );
        assert_eq!(asked.name, "r");
        assert_eq!((asked.core_counts, asked.node_counts), (vec![4], vec![2]));
        assert_eq!(asked.licenses.as_deref(), Some("m:3"));
        assert_eq!(asked.users.as_deref(), Some("-a,-b"));
        let flags = ReservationFlags::MAINT.with(ReservationFlags::PURGE_COMP);
        assert_eq!(
            (asked.flags_add, asked.purge_comp_secs),
            (flags.0, Some(600))
        );
        assert_eq!(asked.flags_remove, ReservationFlags::DAILY.0);
        let asked = read("res=r duration+=30 nodes+=n3 nodecnt=2k flags+=weekly skip");
        assert_eq!((asked.duration_change, asked.node_counts), (30, vec![2048]));
        assert_eq!(asked.nodes.as_deref(), Some("+n3"));
        assert_eq!(
            asked.flags_add,
            ReservationFlags::WEEKLY.with(ReservationFlags::SKIP).0
        );
        assert_eq!(
            read("res duration=unlimited").duration,
            Some(TimeLimit::Unlimited)
        );
    }
}
