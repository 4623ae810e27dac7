//! Pairs checked against the key table: which keys are known here, which values are legal, what defaults are.
//!
//! After [`Values::collect`] every value is legal for its kind, so the typed getters cannot fail; a key whose value was refused is as if it
//! had not been given, and the fault is on record.

use super::statement::Pair;
use crate::diagnostic::{Detail, Diagnostics, Origin};
use crate::keys::{Class, Key, Kind, Scope};
use crate::keys::{has_no_effect_yet, scheduler_items_without_effect};
use crate::keys::{is_unlimited, parse_bool, split_list};
use std::collections::BTreeMap;

/// The checked values of one file or line.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    scope: Scope,
    /// Where the whole stands, for faults about something that is missing.
    pub origin: Origin,
    single: BTreeMap<&'static str, (String, Origin)>,
    /// Keys that accumulate, in file order.
    lines: Vec<(&'static str, String, Origin)>,
    /// Keys in order of first appearance.
    order: Vec<&'static str>,
    /// Keys whose value was refused: they are not missing.
    refused: Vec<&'static str>,
}

/// Keys that still mean something although a newer spelling exists.
fn newer_spelling(scope: Scope, name: &str) -> Option<&'static str> {
    match (scope, name) {
        (Scope::Global, "ControlMachine" | "ControlAddr" | "BackupController" | "BackupAddr") => {
            Some("SlurmctldHost=HOST(ADDRESS)")
        }
        (Scope::Partition, "Priority") => Some("PriorityTier and PriorityJobFactor"),
        (Scope::Partition, "Shared") => Some("OverSubscribe"),
        (Scope::Partition, "ExclusiveUser") => Some("Exclusive=USER"),
        (Scope::Partition, "ExclusiveTopo") => Some("Exclusive=TOPO"),
        (Scope::Node, "Procs") => Some("CPUs"),
        (Scope::Gres, "CPUs") => Some("Cores"),
        _ => None,
    }
}

impl Values {
    pub fn empty(scope: Scope, origin: Origin) -> Self {
        Values {
            scope,
            origin,
            single: BTreeMap::new(),
            lines: Vec::new(),
            order: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Checks pairs and keeps the legal ones.
    pub fn collect(scope: Scope, origin: Origin, pairs: &[Pair], diags: &mut Diagnostics) -> Self {
        let mut values = Values::empty(scope, origin);
        let mut by_alias: Vec<&'static str> = Vec::new();
        for pair in pairs {
            let Some(key) = find_key(scope, pair, diags) else {
                continue;
            };
            report_standing(scope, key, pair, diags);
            if !check_value(key, pair, diags) {
                values.refused.push(key.name);
                continue;
            }
            let name = key.alias_of.unwrap_or(key.name);
            if key.kind == Kind::Lines {
                values
                    .lines
                    .push((name, pair.value.clone(), pair.origin.clone()));
                continue;
            }
            let given_before = values.single.contains_key(name);
            if given_before && key.alias_of.is_some() && !by_alias.contains(&name) {
                let subject = format!("{scope:?} {} beside {name}", key.name);
                diags.warn_once(
                    subject,
                    &pair.origin,
                    Detail::pair(key.name, &pair.value),
                    format!("{name} is given too and rules"),
                );
                continue;
            }
            if given_before && !by_alias.contains(&name) && values.single[name].0 != pair.value {
                diags.warn(
                    &pair.origin,
                    Detail::pair(name, &pair.value),
                    "is given more than once; the last one rules",
                );
            }
            if key.alias_of.is_some() {
                by_alias.push(name);
            }
            values.set(name, pair.value.clone(), pair.origin.clone());
        }
        values
    }

    fn set(&mut self, name: &'static str, value: String, origin: Origin) {
        if self.single.insert(name, (value, origin)).is_none() {
            self.order.push(name);
        }
    }

    /// Takes over what `newer` gives; of keys that exclude each other the newer one drives the older one out.
    pub fn overlay(&mut self, newer: Values) {
        const EXCLUSIVE: [(&str, &str); 2] = [
            ("Sockets", "SocketsPerBoard"),
            ("CoreSpecCount", "CpuSpecList"),
        ];
        for (a, b) in EXCLUSIVE {
            for (given, other) in [(a, b), (b, a)] {
                if newer.single.contains_key(given) && !newer.single.contains_key(other) {
                    self.single.remove(other);
                    self.order.retain(|n| *n != other);
                }
            }
        }
        self.origin = newer.origin;
        for name in newer.order {
            if let Some((value, origin)) = newer.single.get(name) {
                self.set(name, value.clone(), origin.clone());
            }
        }
        self.lines.extend(newer.lines);
    }

    fn key(&self, name: &str) -> &'static Key {
        // Names in code are written as in the table; a slip shows in the first test that reads the key.
        self.scope
            .keys()
            .find(|k| k.name == name)
            .unwrap_or_else(|| panic!("{name} is not in the table of {:?}", self.scope))
    }

    /// The text given, if any; an empty text and `(null)` are as good as none.
    pub fn given(&self, name: &str) -> Option<&str> {
        self.single
            .get(name)
            .map(|(v, _)| v.as_str())
            .filter(|v| !v.is_empty() && *v != "(null)")
    }

    /// The text given, else the default, if there is one.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.given(name)
            .or_else(|| Some(self.key(name).default).filter(|d| !d.is_empty()))
    }

    /// Whether a key is neither given nor was refused.
    pub fn missing(&self, name: &str) -> bool {
        self.given(name).is_none() && !self.refused.contains(&name)
    }

    /// As [`Self::text`], owned; empty without default.
    pub fn string(&self, name: &str) -> String {
        self.text(name).unwrap_or("").to_owned()
    }

    /// Where a key was given, else where the whole stands.
    pub fn origin_of(&self, name: &str) -> &Origin {
        self.single.get(name).map_or(&self.origin, |(_, o)| o)
    }

    pub fn boolean(&self, name: &str) -> bool {
        self.text(name).and_then(parse_bool).unwrap_or(false)
    }

    /// A number; UNLIMITED is the largest of the type.
    pub fn number<T: TryFrom<u64> + Limit>(&self, name: &str) -> T {
        self.number_if_set(name).unwrap_or(T::ZERO)
    }

    /// A number, or `None` if it is neither given nor has a default.
    pub fn number_if_set<T: TryFrom<u64> + Limit>(&self, name: &str) -> Option<T> {
        let text = self.text(name)?;
        if is_unlimited(text) {
            return Some(T::LARGEST);
        }
        text.parse::<u64>()
            .ok()
            .map(|v| T::try_from(v).unwrap_or(T::LARGEST))
    }

    /// A limit: `None` for UNLIMITED and for unset without default.
    pub fn limit<T: TryFrom<u64> + Limit>(&self, name: &str) -> Option<T> {
        self.text(name)
            .filter(|t| !is_unlimited(t))
            .and_then(|_| self.number_if_set(name))
    }

    pub fn decimal(&self, name: &str) -> f64 {
        self.text(name).and_then(|t| t.parse().ok()).unwrap_or(0.0)
    }

    /// Items of a comma list.
    pub fn list(&self, name: &str) -> Vec<String> {
        self.text(name)
            .map(|t| split_list(t).map(str::to_owned).collect())
            .unwrap_or_default()
    }

    /// Seconds of a duration or of a number of seconds; `None` when none is meant.
    pub fn seconds(&self, name: &str) -> Option<u64> {
        let text = self.text(name)?;
        match self.key(name).kind {
            Kind::Duration => sluice_model::time::parse_duration_seconds(text).ok(),
            _ => text.parse().ok(),
        }
    }

    /// Entries of a key that accumulates.
    pub fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, &'a Origin)> {
        self.lines
            .iter()
            .filter(move |(n, ..)| *n == name)
            .map(|(_, v, o)| (v.as_str(), o))
    }

    /// All keys given, in order of first appearance, entries that accumulate last.
    pub fn pairs(&self) -> Vec<(String, String)> {
        let single = self.order.iter().filter_map(|n| {
            self.single
                .get(n)
                .map(|(v, _)| ((*n).to_owned(), v.clone()))
        });
        single
            .chain(
                self.lines
                    .iter()
                    .map(|(n, v, _)| ((*n).to_owned(), v.clone())),
            )
            .collect()
    }
}

/// Number types and their ends.
pub(crate) trait Limit {
    const ZERO: Self;
    const LARGEST: Self;
}

macro_rules! limits {
    ($($t:ty),*) => { $(impl Limit for $t { const ZERO: $t = 0; const LARGEST: $t = <$t>::MAX; })* };
}
limits!(u8, u16, u32, u64);

fn find_key(scope: Scope, pair: &Pair, diags: &mut Diagnostics) -> Option<&'static Key> {
    let found = scope.find(&pair.key);
    if found.is_none() {
        let elsewhere = Scope::ALL
            .into_iter()
            .filter(|s| *s != scope && *s != Scope::Slurmdbd)
            .find(|s| s.find(&pair.key).is_some());
        let hint = match (scope.suggest(&pair.key), elsewhere) {
            (Some(name), _) => Some(format!("did you mean {name}?")),
            (None, Some(other)) => Some(format!("it is a {}", other.describe())),
            (None, None) => None,
        };
        let detail = Detail {
            key: Some(&pair.key),
            value: Some(&pair.value),
            hint,
        };
        diags.error(
            &pair.origin,
            detail,
            format!("unknown {}", scope.describe()),
        );
    }
    found
}

fn report_standing(scope: Scope, key: &'static Key, pair: &Pair, diags: &mut Diagnostics) {
    let subject = format!("{scope:?} {}", key.name);
    let detail = Detail::key(key.name);
    match (newer_spelling(scope, key.name), key.class) {
        (Some(newer), _) => diags.warn_once(
            subject,
            &pair.origin,
            detail.hint(format!("write {newer}")),
            "is an old spelling",
        ),
        // Naming no plugin is no wish that could go unheard.
        (None, Class::C)
            if pair.value.to_ascii_lowercase().split('/').next_back() == Some("none") => {}
        (None, Class::C) => diags.warn_once(
            subject,
            &pair.origin,
            detail,
            "is accepted and has no effect",
        ),
        (None, Class::Obsolete) => {
            diags.warn_once(
                subject,
                &pair.origin,
                detail.hint("remove it"),
                "is obsolete and has no effect",
            );
        }
        (None, Class::A | Class::B) if has_no_effect_yet(scope, key.name, &pair.value) => {
            diags.warn_once(
                subject,
                &pair.origin,
                detail,
                "is read and checked, and has no effect yet",
            );
        }
        (None, Class::A | Class::B) if key.name == "SchedulerParameters" => {
            for item in scheduler_items_without_effect(&pair.value) {
                diags.warn_once(
                    format!("{subject} {item}"),
                    &pair.origin,
                    Detail::pair(key.name, item),
                    "is read and checked, and has no effect yet",
                );
            }
        }
        (None, Class::A | Class::B) => {}
    }
}

fn check_value(key: &'static Key, pair: &Pair, diags: &mut Diagnostics) -> bool {
    let mut legal = true;
    for fault in key.check(&pair.value) {
        let detail = Detail {
            key: Some(key.name),
            value: Some(&pair.value),
            hint: fault.legal,
        };
        // What has no effect cannot do harm; its value is not worth refusing a file for, except that a template must be filled in.
        if fault.warning
            || (matches!(key.class, Class::C | Class::Obsolete)
                && !fault.message.contains("template"))
        {
            diags.warn(&pair.origin, detail, fault.message);
        } else {
            diags.error(&pair.origin, detail, fault.message);
            legal = false;
        }
    }
    legal
}
