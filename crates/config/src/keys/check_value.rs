//! Checks of one value against the kind of its key.
//!
//! Pure. A fault says what is wrong and what would be legal; it does not know where the value stands. Whatever passes here can be read
//! by the typed readers without a further error.

use super::{Key, Kind};
use sluice_model::gres::{parse_count, parse_node_gres};
use sluice_model::hostlist::parse_hostlist;
use sluice_model::time::parse_duration_seconds;
use sluice_model::tres::TresKind;

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueFault {
    /// Only worth a warning.
    pub warning: bool,
    /// What is wrong.
    pub message: String,
    /// What would be legal, or what to do.
    pub legal: Option<String>,
}

impl ValueFault {
    fn error(message: impl Into<String>, legal: impl std::fmt::Display) -> Self {
        ValueFault {
            warning: false,
            message: message.into(),
            legal: Some(format!("legal: {legal}")),
        }
    }
}

/// Words that mean "no limit" wherever a number is wanted.
pub(crate) fn is_unlimited(text: &str) -> bool {
    text.eq_ignore_ascii_case("UNLIMITED") || text.eq_ignore_ascii_case("INFINITE")
}

/// Reads a boolean as Slurm does.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|w| text.eq_ignore_ascii_case(w));
    if is(&["yes", "true", "up", "1"]) {
        Some(true)
    } else if is(&["no", "false", "down", "0"]) {
        Some(false)
    } else {
        None
    }
}

/// Splits a comma list; blanks and empty items are dropped.
pub(crate) fn split_list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|i| !i.is_empty())
}

impl Key {
    /// Checks a value; an empty list means that it is legal.
    pub fn check(&self, text: &str) -> Vec<ValueFault> {
        if let Some(placeholder) = template_placeholder(text) {
            return vec![ValueFault {
                warning: false,
                message: format!(
                    "`{placeholder}` is a template placeholder that was not filled in"
                ),
                legal: Some("render the template first, then check the result".to_owned()),
            }];
        }
        let fault = match self.kind {
            Kind::Text | Kind::Lines => None,
            Kind::Bool => parse_bool(text).is_none().then(|| ValueFault::error("not a boolean", "YES or NO")),
            Kind::Number { min, max } => check_number(text, min, max),
            Kind::Decimal => text
                .parse::<f64>()
                .ok()
                .filter(|v| v.is_finite() && *v >= 0.0)
                .is_none()
                .then(|| ValueFault::error("not a number", "a number of 0 or more, for instance 100 or 12.5")),
            Kind::OneOf(words) => (!words.iter().any(|w| w.eq_ignore_ascii_case(text)))
                .then(|| ValueFault::error("not a legal value", one_of(words))),
            Kind::List(words) => return check_list(text, words, false),
            Kind::OpenList(words) => return check_list(text, words, true),
            Kind::Duration => check_duration(text),
            Kind::Seconds => check_seconds(text),
            Kind::ExitCodes => parse_exit_codes(text)
                .is_none()
                .then(|| ValueFault::error("not a list of exit codes", "codes 0 to 255 and ranges, for instance 1-9,18")),
            Kind::Licenses => check_licenses(text),
            Kind::TresWeights => parse_tres_weights(text).err().map(|item| {
                ValueFault::error(format!("`{item}` is not a TRES weight"), "KIND=NUMBER pairs, for instance CPU=1.0,Mem=0.25G,GRES/gpu=2.0")
            }),
            Kind::TresNames => split_list(text).find(|n| n.parse::<TresKind>().is_err()).map(|n| {
                ValueFault::error(
                    format!("`{n}` is not a TRES"),
                    "cpu, mem, energy, node, billing, fs/disk, vmem, pages, gres/NAME[:TYPE], license/NAME, bb/NAME",
                )
            }),
            Kind::PortRange => parse_port_range(text)
                .is_none()
                .then(|| ValueFault::error("not a port or range of ports", "a port from 1 to 65535 or FIRST-LAST")),
            Kind::Hostlist => parse_hostlist(text)
                .err()
                .map(|e| ValueFault::error(e.to_string(), "names and ranges, for instance n[1-4],gpu[01-16]")),
            Kind::Gres => parse_node_gres(text).err().map(|e| ValueFault::error(e.to_string(), "name[:type][:no_consume]:count list")),
            Kind::Count => parse_count(text)
                .is_none()
                .then(|| ValueFault::error("not a count", "a whole number with an optional unit K, M, G, T or P")),
        };
        fault.into_iter().collect()
    }
}

/// Finds `{name}` as templating tools leave it. `feature{…}` of hostlists has a word before the brace.
fn template_placeholder(text: &str) -> Option<&str> {
    let close = text.find('}')?;
    let open = text[..close].rfind('{')?;
    let inner = &text[open + 1..close];
    let word = !inner.is_empty()
        && inner
            .chars()
            .all(|c| c.is_alphanumeric() || c == '_' || c == '.' || c == ' ');
    let feature = text[..open].ends_with("feature") || text[..open].ends_with('$');
    (word && !feature).then(|| &text[open..=close])
}

fn one_of(words: &[&str]) -> String {
    format!("one of {}", words.join(", "))
}

fn check_number(text: &str, min: u64, max: u64) -> Option<ValueFault> {
    if is_unlimited(text) {
        return None;
    }
    let legal = || format!("a whole number from {min} to {max}");
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<u64>() {
        Ok(value) if plain && (min..=max).contains(&value) => None,
        Ok(_) if plain => Some(ValueFault::error("out of range", legal())),
        _ => Some(ValueFault::error("not a whole number", legal())),
    }
}

fn check_list(text: &str, words: &[&str], open: bool) -> Vec<ValueFault> {
    let mut faults = Vec::new();
    for item in split_list(text) {
        let name_end = item.find(['=', ':']).map_or(item.len(), |i| i + 1);
        let name = item[..name_end].replace(':', "=");
        let known = words
            .iter()
            .any(|w| w.eq_ignore_ascii_case(&name) || w.eq_ignore_ascii_case(item));
        if known {
            continue;
        }
        let takes_value = words.iter().any(|w| {
            w.strip_suffix('=')
                .is_some_and(|w| w.eq_ignore_ascii_case(item))
        });
        let message = if takes_value {
            format!("`{item}` needs a value: {item}=…")
        } else {
            format!("`{item}` is not known here")
        };
        let legal = Some(format!("legal: any of {}", words.join(", ")));
        faults.push(ValueFault {
            warning: open && !takes_value,
            message,
            legal,
        });
    }
    faults
}

fn check_duration(text: &str) -> Option<ValueFault> {
    let none = is_unlimited(text) || text == "-1" || text.eq_ignore_ascii_case("NONE");
    (!none && parse_duration_seconds(text).is_err()).then(|| {
        ValueFault::error("not a time", "minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes[:seconds] or UNLIMITED")
    })
}

fn check_seconds(text: &str) -> Option<ValueFault> {
    let none = is_unlimited(text) || text == "-1" || text.eq_ignore_ascii_case("NONE");
    (!none && text.parse::<u32>().is_err())
        .then(|| ValueFault::error("not a number of seconds", "a whole number, INFINITE or -1"))
}

fn check_licenses(text: &str) -> Option<ValueFault> {
    split_list(text).find_map(|item| {
        let (name, count) = item
            .split_once([':', '='])
            .map_or((item, None), |(n, c)| (n, Some(c)));
        let count_ok = count.is_none_or(|c| c.parse::<u32>().is_ok());
        (name.is_empty() || !count_ok).then(|| {
            ValueFault::error(
                format!("`{item}` is not a licence"),
                "NAME[:COUNT] list, for instance matlab:10,ansys:4",
            )
        })
    })
}

/// Reads `1-9,18` as inclusive ranges.
pub(crate) fn parse_exit_codes(text: &str) -> Option<Vec<(u8, u8)>> {
    split_list(text)
        .map(|item| {
            let (low, high) = item.split_once('-').unwrap_or((item, item));
            let (low, high) = (
                low.trim().parse::<u8>().ok()?,
                high.trim().parse::<u8>().ok()?,
            );
            (low <= high).then_some((low, high))
        })
        .collect()
}

/// Reads `6817` or `6817-6820`.
pub(crate) fn parse_port_range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (
        first.trim().parse::<u16>().ok()?,
        last.trim().parse::<u16>().ok()?,
    );
    (first > 0 && first <= last).then_some((first, last))
}

/// Reads `CPU=1.0,Mem=0.25G,GRES/gpu=2.0`. A unit on a weight means "per that much": 0.25G is 0.25 per GiB, which is 0.25/1024 per MiB.
///
/// The error is the offending item.
pub(crate) fn parse_tres_weights(text: &str) -> Result<Vec<(TresKind, f64)>, String> {
    split_list(text)
        .map(|item| {
            let bad = || item.to_owned();
            let (kind, weight) = item.split_once('=').ok_or_else(bad)?;
            let kind: TresKind = kind.trim().parse().map_err(|_| bad())?;
            let weight = weight.trim();
            let (number, unit) = match weight.char_indices().last() {
                Some((i, c)) if c.is_ascii_alphabetic() => {
                    (&weight[..i], Some(c.to_ascii_uppercase()))
                }
                _ => (weight, None),
            };
            let number: f64 = number.parse().map_err(|_| bad())?;
            let scale = match (unit, kind.is_memory()) {
                (None, _) => 1.0,
                (Some('K'), true) => 1024.0,
                (Some('M'), true) => 1.0,
                (Some('G'), true) => 1.0 / 1024.0,
                (Some('T'), true) => 1.0 / (1024.0 * 1024.0),
                (Some('K'), false) => 1.0 / 1024.0,
                (Some('M'), false) => 1.0 / (1024.0 * 1024.0),
                _ => return Err(bad()),
            };
            if number.is_finite() {
                Ok((kind, number * scale))
            } else {
                Err(bad())
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::Scope;
    use super::*;

    fn faults(key: &str, value: &str) -> Vec<ValueFault> {
        Scope::Global.find(key).expect("known key").check(value)
    }

    /// Legal and illegal values of each kind.
    #[test]
    fn values() {
        for (key, good, bad) in [
            ("DisableRootJobs", "Yes", "maybe"),
            ("KillWait", "30", "thirty"),
            ("KillWait", "UNLIMITED", "-1"),
            ("SlurmdPort", "6818", "70000"),
            ("PriorityType", "Priority/Multifactor", "priority/magic"),
            ("PreemptMode", "suspend,gang", "SUSPEND,BANG"),
            ("PriorityMaxAge", "7-0", "soon"),
            ("PreemptExemptTime", "-1", "-5"),
            ("RequeueExit", "1-9,18", "300"),
            ("Licenses", "matlab:10,ansys", "matlab:x"),
            ("PriorityWeightTRES", "CPU=0,Mem=.03,GRES/gpu=-3", "Speed=1"),
            ("AccountingStorageTRES", "gres/gpu,gres/gpu:volta", "gpus"),
            ("SlurmctldPort", "6817-6820", "0"),
            ("SlurmctldDebug", "5", "11"),
        ] {
            assert_eq!(faults(key, good), vec![], "{key}={good}");
            let fault = faults(key, bad);
            assert!(
                fault.iter().any(|f| !f.warning && f.legal.is_some()),
                "{key}={bad} gave {fault:?}"
            );
        }
    }

    /// An unknown scheduler option is only worth a warning, a known one without its value is an error.
    #[test]
    fn open_lists() {
        assert!(faults("SchedulerParameters", "bf_continue,bf_window=1440").is_empty());
        assert!(
            faults("SchedulerParameters", "made_up=3")
                .iter()
                .all(|f| f.warning)
        );
        assert!(
            faults("SchedulerParameters", "bf_window")
                .iter()
                .all(|f| !f.warning)
        );
    }

    /// Files that a tool has not rendered yet must not start a cluster.
    #[test]
    fn placeholders() {
        assert!(faults("Prolog", "{prolog}")[0].message.contains("template"));
        assert!(
            faults("StateSaveLocation", "{{ state.dir }}")[0]
                .message
                .contains("template")
        );
        assert!(faults("Prolog", "/etc/slurm/prolog.d/*").is_empty());
        assert!(
            Scope::Partition
                .find("Nodes")
                .expect("known")
                .check("feature{gpu}")
                .is_empty()
        );
    }

    /// 0.25 per GiB is 0.25/1024 per MiB.
    #[test]
    fn weights() {
        let weights = parse_tres_weights("CPU=1.0,Mem=0.25G").expect("parses");
        assert_eq!(
            weights,
            vec![(TresKind::Cpu, 1.0), (TresKind::Mem, 0.25 / 1024.0)]
        );
    }
}
