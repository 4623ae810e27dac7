//! Single changes to associations and QOS, as `sacctmgr modify … set` names them. Pure.
//!
//! Values are plain: numbers as digits, `-1` or empty for "not set"; wall limits in minutes, grace times in seconds; TRES as
//! `cpu=4,mem=1024` with memory in MiB. Giving some TRES of a limit changes only these; `=-1` takes one out, `+=` and `-=` change
//! the count. Invariant: a change that cannot be read changes nothing. Source: `sacctmgr(1)`.

use std::collections::BTreeMap;

use sluice_model::accounting::{AssociationRecord, QosRecord};
use sluice_model::tres::{Tres, TresKind};

/// How a value is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Operator {
    /// It replaces what is there.
    #[default]
    Set,
    /// It is added to a list.
    Add,
    /// It is taken out of a list.
    Remove,
}

/// One `set`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Field of the record, as the record names it: `max_jobs`, `grp_tres`; also `parent_account` and the like.
    pub field: String,
    /// How.
    pub operator: Operator,
    /// Value; see the module's header.
    pub value: String,
}

impl Assignment {
    /// A value that replaces.
    #[must_use]
    pub fn set(field: &str, value: &str) -> Self {
        Self {
            field: field.to_owned(),
            operator: Operator::Set,
            value: value.to_owned(),
        }
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .value
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty() && *name != "-1")
            .map(str::to_owned)
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn is_cleared(&self) -> bool {
        matches!(self.value.trim(), "" | "-1")
    }

    fn bad(&self) -> String {
        format!("{}={} is no usable value", self.field, self.value)
    }

    fn count(&self) -> Result<Option<u32>, String> {
        if self.is_cleared() {
            return Ok(None);
        }
        self.value.trim().parse().map(Some).map_err(|_| self.bad())
    }

    fn real(&self) -> Result<Option<f64>, String> {
        if self.is_cleared() {
            return Ok(None);
        }
        match self.value.trim().parse::<f64>() {
            Ok(value) if value.is_finite() && value >= 0.0 => Ok(Some(value)),
            _ => Err(self.bad()),
        }
    }

    /// A list of TRES with this change made to it.
    fn tres(&self, old: &str) -> Result<String, String> {
        edit_tres(old, &self.value).ok_or_else(|| self.bad())
    }

    /// A list of names with this change made to it, sorted.
    fn list(&self, old: &[String]) -> Vec<String> {
        let names = self.names();
        let mut list: Vec<String> = match self.operator {
            Operator::Set => names,
            Operator::Add => old.iter().cloned().chain(names).collect(),
            Operator::Remove => old
                .iter()
                .filter(|name| !names.contains(name))
                .cloned()
                .collect(),
        };
        list.sort_unstable();
        list.dedup();
        list
    }
}

/// Changes single counts of a TRES list: `cpu=4` sets, `cpu=-1` takes out, `cpu+=2` and `mem-=8` are relative and end at 0.
/// An empty change, or `-1`, empties the list. `None` when it cannot be read.
#[must_use]
pub fn edit_tres(old: &str, change: &str) -> Option<String> {
    if matches!(change.trim(), "" | "-1") {
        return Some(String::new());
    }
    let mut counts: BTreeMap<TresKind, u64> = old
        .parse::<Tres>()
        .ok()?
        .iter()
        .map(|(kind, count)| (kind.clone(), count))
        .collect();
    for item in change
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        let (name, value) = item.split_once('=')?;
        let (name, sign) = match name.strip_suffix(['+', '-']) {
            Some(short) => (short, name.chars().last()),
            None => (name, None),
        };
        let kind: TresKind = name.trim().parse().ok()?;
        let value = value.trim();
        if value == "-1" && sign.is_none() {
            counts.remove(&kind);
            continue;
        }
        let value: u64 = value.parse().ok()?;
        let before = counts.get(&kind).copied().unwrap_or(0);
        let after = match sign {
            Some('+') => before.saturating_add(value),
            Some(_) => before.saturating_sub(value),
            None => value,
        };
        counts.insert(kind, after);
    }
    let texts: Vec<String> = counts
        .iter()
        .map(|(kind, count)| format!("{kind}={count}"))
        .collect();
    Some(texts.join(","))
}

/// Usage, which is no field of a record: the controller sets it.
pub const RAW_USAGE: &str = "raw_usage";

/// Fields of an association that can be set.
pub const ASSOCIATION_FIELDS: &[&str] = &[
    "shares",
    "grp_jobs",
    "grp_jobs_accrue",
    "grp_submit_jobs",
    "grp_wall",
    "max_jobs",
    "max_jobs_accrue",
    "min_prio_threshold",
    "max_submit_jobs",
    "max_wall_per_job",
    "priority",
    "default_qos",
    "grp_tres",
    "grp_tres_mins",
    "grp_tres_run_mins",
    "max_tres_per_job",
    "max_tres_per_node",
    "max_tres_mins_per_job",
    "max_tres_run_mins",
    "qos",
    "comment",
];

/// Makes one change to an association.
///
/// # Errors
/// When the field is none of [`ASSOCIATION_FIELDS`] or the value cannot be read; the row is as before then.
pub fn edit_association(row: &mut AssociationRecord, change: &Assignment) -> Result<(), String> {
    let limits = &mut row.limits;
    match change.field.as_str() {
        "shares" if change.value.eq_ignore_ascii_case("parent") => row.shares = None,
        "shares" => row.shares = Some(change.count()?.unwrap_or(1)),
        "priority" => row.priority = change.count()?,
        "grp_jobs" => limits.grp_jobs = change.count()?,
        "grp_jobs_accrue" => limits.grp_jobs_accrue = change.count()?,
        "grp_submit_jobs" => limits.grp_submit_jobs = change.count()?,
        "grp_wall" => limits.grp_wall = change.count()?,
        "max_jobs" => limits.max_jobs = change.count()?,
        "max_jobs_accrue" => limits.max_jobs_accrue = change.count()?,
        "max_submit_jobs" => limits.max_submit_jobs = change.count()?,
        "max_wall_per_job" => limits.max_wall_per_job = change.count()?,
        "min_prio_threshold" => limits.min_prio_threshold = change.count()?,
        "grp_tres" => limits.grp_tres = change.tres(&limits.grp_tres)?,
        "grp_tres_mins" => limits.grp_tres_mins = change.tres(&limits.grp_tres_mins)?,
        "grp_tres_run_mins" => limits.grp_tres_run_mins = change.tres(&limits.grp_tres_run_mins)?,
        "max_tres_per_job" => limits.max_tres_per_job = change.tres(&limits.max_tres_per_job)?,
        "max_tres_per_node" => limits.max_tres_per_node = change.tres(&limits.max_tres_per_node)?,
        "max_tres_mins_per_job" => {
            limits.max_tres_mins_per_job = change.tres(&limits.max_tres_mins_per_job)?;
        }
        "max_tres_run_mins" => limits.max_tres_run_mins = change.tres(&limits.max_tres_run_mins)?,
        "default_qos" => {
            row.default_qos = if change.is_cleared() {
                String::new()
            } else {
                change.value.trim().to_owned()
            };
        }
        "qos" => edit_qos_list(row, change),
        "comment" => row.comment.clone_from(&change.value),
        // Usage is the controller's: the rows are named here, and it sets their usage back.
        RAW_USAGE if change.value.trim() == "0" => {}
        RAW_USAGE => return Err(" Bad RawUsage value: it can only be set to 0".to_owned()),
        other => return Err(format!("an association has no field {other}")),
    }
    Ok(())
}

/// A row with a list of its own changes that; one that inherits keeps what differs from the inherited list.
fn edit_qos_list(row: &mut AssociationRecord, change: &Assignment) {
    match (change.operator, &row.qos) {
        (Operator::Set, _) => {
            let names = change.names();
            row.qos = (!names.is_empty()).then_some(names);
            row.qos_delta = Vec::new();
        }
        (_, Some(own)) => {
            let list = change.list(own);
            row.qos = (!list.is_empty()).then_some(list);
        }
        (operator, None) => {
            let sign = if operator == Operator::Add { '+' } else { '-' };
            for name in change.names() {
                row.qos_delta
                    .retain(|delta| delta.get(1..) != Some(name.as_str()));
                row.qos_delta.push(format!("{sign}{name}"));
            }
        }
    }
}

/// Flags of a QOS that can be set, as they are shown.
pub const QOS_FLAGS: &[&str] = &[
    "DenyOnLimit",
    "EnforceUsageThreshold",
    "NoReserve",
    "PartitionMaxNodes",
    "PartitionMinNodes",
    "OverPartQOS",
    "PartitionTimeLimit",
    "RequiresReservation",
    "NoDecay",
    "UsageFactorSafe",
    "Relative",
];

/// Makes one change to a QOS.
///
/// # Errors
/// When a QOS has no such field or the value cannot be read; it is as before then.
pub fn edit_qos(qos: &mut QosRecord, change: &Assignment) -> Result<(), String> {
    match change.field.as_str() {
        "description" => qos.description.clone_from(&change.value),
        "flags" => {
            let old: Vec<String> = qos
                .flags
                .split(',')
                .filter(|flag| !flag.is_empty())
                .map(str::to_owned)
                .collect();
            let list = change.list(&old);
            let shown: Vec<&str> = QOS_FLAGS
                .iter()
                .filter(|flag| list.iter().any(|item| item.eq_ignore_ascii_case(flag)))
                .copied()
                .collect();
            qos.flags = shown.join(",");
        }
        "priority" => qos.priority = change.count()?.unwrap_or(0),
        "grace_time_secs" => qos.grace_time_secs = change.count()?.unwrap_or(0),
        "preempt" => qos.preempt = change.list(&qos.preempt),
        "preempt_mode" => {
            qos.preempt_mode =
                if change.is_cleared() || change.value.eq_ignore_ascii_case("cluster") {
                    String::new()
                } else {
                    change.value.trim().to_lowercase()
                };
        }
        "preempt_exempt_time_secs" => qos.preempt_exempt_time_secs = change.count()?,
        "usage_factor" => qos.usage_factor = change.real()?.unwrap_or(1.0),
        "usage_threshold" => qos.usage_threshold = change.real()?,
        "limit_factor" => qos.limit_factor = change.real()?,
        "grp_jobs" => qos.grp_jobs = change.count()?,
        "grp_jobs_accrue" => qos.grp_jobs_accrue = change.count()?,
        "grp_submit_jobs" => qos.grp_submit_jobs = change.count()?,
        "grp_tres" => qos.grp_tres = change.tres(&qos.grp_tres)?,
        "grp_tres_mins" => qos.grp_tres_mins = change.tres(&qos.grp_tres_mins)?,
        "grp_tres_run_mins" => qos.grp_tres_run_mins = change.tres(&qos.grp_tres_run_mins)?,
        "grp_wall" => qos.grp_wall = change.count()?,
        "max_jobs_per_account" => qos.max_jobs_per_account = change.count()?,
        "max_jobs_per_user" => qos.max_jobs_per_user = change.count()?,
        "max_jobs_accrue_per_account" => qos.max_jobs_accrue_per_account = change.count()?,
        "max_jobs_accrue_per_user" => qos.max_jobs_accrue_per_user = change.count()?,
        "max_submit_jobs_per_account" => qos.max_submit_jobs_per_account = change.count()?,
        "max_submit_jobs_per_user" => qos.max_submit_jobs_per_user = change.count()?,
        "max_tres_per_job" => qos.max_tres_per_job = change.tres(&qos.max_tres_per_job)?,
        "max_tres_per_node" => qos.max_tres_per_node = change.tres(&qos.max_tres_per_node)?,
        "max_tres_per_account" => {
            qos.max_tres_per_account = change.tres(&qos.max_tres_per_account)?
        }
        "max_tres_per_user" => qos.max_tres_per_user = change.tres(&qos.max_tres_per_user)?,
        "max_tres_mins_per_job" => {
            qos.max_tres_mins_per_job = change.tres(&qos.max_tres_mins_per_job)?
        }
        "max_tres_run_mins_per_account" => {
            qos.max_tres_run_mins_per_account = change.tres(&qos.max_tres_run_mins_per_account)?;
        }
        "max_tres_run_mins_per_user" => {
            qos.max_tres_run_mins_per_user = change.tres(&qos.max_tres_run_mins_per_user)?;
        }
        "max_wall_per_job" => qos.max_wall_per_job = change.count()?,
        "min_tres_per_job" => qos.min_tres_per_job = change.tres(&qos.min_tres_per_job)?,
        "min_prio_threshold" => qos.min_prio_threshold = change.count()?,
        RAW_USAGE => {
            let number = change.value.trim().parse::<f64>();
            if !number.is_ok_and(|number| number.is_finite() && number >= 0.0) {
                return Err(format!(" Bad RawUsage value: {}", change.value));
            }
        }
        other => return Err(format!("a QOS has no field {other}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// sacctmgr(1): only the TRES that are named change; -1 takes one out; a relative change ends at 0.
    #[test]
    fn tres_are_changed_one_by_one() {
        assert_eq!(
            edit_tres("cpu=10,mem=1000", "cpu=-1").as_deref(),
            Some("mem=1000")
        );
        assert_eq!(
            edit_tres("cpu=10", "mem=20,cpu=4").as_deref(),
            Some("cpu=4,mem=20")
        );
        assert_eq!(
            edit_tres("cpu=10,mem=5", "cpu+=2,mem-=8").as_deref(),
            Some("cpu=12,mem=0")
        );
        assert_eq!(edit_tres("cpu=10", "-1").as_deref(), Some(""));
        assert_eq!(
            edit_tres("", "gres/gpu:h100=2").as_deref(),
            Some("gres/gpu:h100=2")
        );
        for bad in ["cpu", "cpu=x", "nosuch=3", "cpu+=-1"] {
            assert_eq!(edit_tres("cpu=1", bad), None, "{bad}");
        }
    }

    /// The real sacctmgr shows `-high` as the delta of a row that inherits, after `+=` and then `-=`.
    #[test]
    fn qos_lists_keep_the_difference_when_they_inherit() {
        let change = |operator, value: &str| Assignment {
            operator,
            ..Assignment::set("qos", value)
        };
        let mut row = AssociationRecord::new("oracle", "bio", "bob");
        edit_association(&mut row, &change(Operator::Add, "high")).expect("a list");
        assert_eq!(
            (row.qos.clone(), row.qos_delta.join(",")),
            (None, "+high".to_owned())
        );
        edit_association(&mut row, &change(Operator::Remove, "high")).expect("a list");
        assert_eq!(row.qos_delta, ["-high"]);
        edit_association(&mut row, &change(Operator::Set, "normal,high")).expect("a list");
        assert_eq!(row.qos, Some(vec!["high".to_owned(), "normal".to_owned()]));
        assert!(row.qos_delta.is_empty());
        edit_association(&mut row, &change(Operator::Remove, "high")).expect("a list");
        assert_eq!(row.qos, Some(vec!["normal".to_owned()]));
        edit_association(&mut row, &change(Operator::Set, "")).expect("a list");
        assert_eq!(row.qos, None);
    }

    /// Every field that is named can be set and cleared.
    #[test]
    fn all_fields_of_an_association() {
        for field in ASSOCIATION_FIELDS {
            let value = match *field {
                name if name.contains("tres") => "cpu=3",
                "qos" | "default_qos" | "comment" => "high",
                _ => "7",
            };
            let mut row = AssociationRecord::new("oracle", "bio", "bob");
            let before = row.clone();
            edit_association(&mut row, &Assignment::set(field, value)).expect(field);
            assert_ne!(row, before, "{field}");
            let clear = if *field == "comment" { "" } else { "-1" };
            edit_association(&mut row, &Assignment::set(field, clear)).expect(field);
            assert_eq!(row, before, "{field}");
        }
        let mut row = AssociationRecord::new("oracle", "bio", "bob");
        edit_association(&mut row, &Assignment::set("shares", "parent")).expect("parent");
        assert_eq!(row.shares, None);
        assert!(edit_association(&mut row, &Assignment::set("max_jobs", "abc")).is_err());
        assert!(edit_association(&mut row, &Assignment::set("nosuch", "1")).is_err());
    }

    #[test]
    fn flags_of_a_qos() {
        let mut qos = QosRecord::default();
        let mut change = Assignment::set("flags", "denyonlimit,NoDecay");
        edit_qos(&mut qos, &change).expect("flags");
        assert_eq!(qos.flags, "DenyOnLimit,NoDecay");
        change = Assignment {
            operator: Operator::Remove,
            ..Assignment::set("flags", "DenyOnLimit")
        };
        edit_qos(&mut qos, &change).expect("flags");
        assert_eq!(qos.flags, "NoDecay");
        edit_qos(&mut qos, &Assignment::set("flags", "-1")).expect("flags");
        assert_eq!(qos.flags, "");
        edit_qos(&mut qos, &Assignment::set("usage_factor", "0.5")).expect("a number");
        assert!((qos.usage_factor - 0.5).abs() < 1e-9);
        assert!(edit_qos(&mut qos, &Assignment::set("usage_factor", "-2")).is_err());
    }
}
