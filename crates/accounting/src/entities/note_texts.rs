//! What the transaction log says of a change: `column=value` pairs, as `sacctmgr show transaction` shows them. Pure.
//!
//! TRES are written with their ids, QOS with theirs, since scripts that read the log know them so. Values that are not set are
//! `NULL`. Source: output of `sacctmgr show transaction`.

use std::collections::BTreeMap;

use sluice_model::accounting::{AdminLevel, AssociationRecord, QosRecord};
use sluice_model::time::UnixSeconds;

use crate::cell::admin_level_number;
use crate::entities::edits::Assignment;

/// Ids for the texts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ids {
    /// QOS by name.
    pub qos: BTreeMap<String, u32>,
    /// TRES by full name (`gres/gpu`).
    pub tres: BTreeMap<String, u32>,
}

impl Ids {
    /// `cpu=4,mem=10` as `1=4,2=10`.
    fn tres_text(&self, list: &str) -> String {
        let items = list.split(',').filter_map(|item| item.split_once('='));
        let texts: Vec<String> = items
            .map(|(name, count)| match self.tres.get(name) {
                Some(id) => format!("{id}={count}"),
                None => format!("{name}={count}"),
            })
            .collect();
        texts.join(",")
    }

    /// Names as `,1,3,`.
    fn qos_text(&self, names: &[String]) -> String {
        if names.is_empty() {
            return String::new();
        }
        let ids: Vec<String> = names
            .iter()
            .map(|name| {
                let (sign, bare) = match name.split_at_checked(1) {
                    Some((sign @ ("+" | "-"), bare)) => (sign, bare),
                    _ => ("", name.as_str()),
                };
                match self.qos.get(bare) {
                    Some(id) => format!("{sign}{id}"),
                    None => name.clone(),
                }
            })
            .collect();
        format!(",{},", ids.join(","))
    }
}

fn number(value: Option<u32>) -> String {
    value.map_or_else(|| "NULL".to_owned(), |value| value.to_string())
}

/// Column of a field in the texts.
fn column(field: &str) -> &str {
    match field {
        "min_prio_threshold" => "min_prio_thresh",
        "max_wall_per_job" => "max_wall_pj",
        "default_qos" => "def_qos_id",
        "max_tres_per_job" => "max_tres_pj",
        "max_tres_per_node" => "max_tres_pn",
        "max_tres_mins_per_job" => "max_tres_mins_pj",
        "parent_account" => "parent_acct",
        other => other,
    }
}

/// Value of a field of a row.
fn value_of(row: &AssociationRecord, field: &str, ids: &Ids) -> String {
    let limits = &row.limits;
    let tres = |list: &str| format!("'{}'", ids.tres_text(list));
    match field {
        // The number that stands for "parent" in Slurm's tables.
        "shares" => row
            .shares
            .map_or_else(|| i32::MAX.to_string(), |shares| shares.to_string()),
        "grp_jobs" => number(limits.grp_jobs),
        "grp_jobs_accrue" => number(limits.grp_jobs_accrue),
        "grp_submit_jobs" => number(limits.grp_submit_jobs),
        "grp_wall" => number(limits.grp_wall),
        "max_jobs" => number(limits.max_jobs),
        "max_jobs_accrue" => number(limits.max_jobs_accrue),
        "min_prio_threshold" => number(limits.min_prio_threshold),
        "max_submit_jobs" => number(limits.max_submit_jobs),
        "max_wall_per_job" => number(limits.max_wall_per_job),
        "priority" => number(row.priority),
        "default_qos" => number(ids.qos.get(&row.default_qos).copied()),
        "grp_tres" => tres(&limits.grp_tres),
        "grp_tres_mins" => tres(&limits.grp_tres_mins),
        "grp_tres_run_mins" => tres(&limits.grp_tres_run_mins),
        "max_tres_per_job" => tres(&limits.max_tres_per_job),
        "max_tres_per_node" => tres(&limits.max_tres_per_node),
        "max_tres_mins_per_job" => tres(&limits.max_tres_mins_per_job),
        "max_tres_run_mins" => tres(&limits.max_tres_run_mins),
        "qos" => match &row.qos {
            Some(list) => format!("'{}'", ids.qos_text(list)),
            None => format!("'', delta_qos='{}'", ids.qos_text(&row.qos_delta)),
        },
        "parent_account" => format!("'{}'", row.parent_account),
        _ => format!("'{}'", row.comment),
    }
}

const PLAIN: [&str; 11] = [
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
];
const TRES: [&str; 7] = [
    "grp_tres",
    "grp_tres_mins",
    "grp_tres_run_mins",
    "max_tres_per_job",
    "max_tres_per_node",
    "max_tres_mins_per_job",
    "max_tres_run_mins",
];

/// A new row.
pub(crate) fn new_association(row: &AssociationRecord, now: UnixSeconds, ids: &Ids) -> String {
    let mut texts = vec![
        format!("mod_time={}", now.0),
        format!("acct='{}'", row.account),
    ];
    if row.user.is_empty() {
        texts.push(format!("parent_acct='{}'", row.parent_account));
        texts.push("user=''".to_owned());
    } else {
        texts.push(format!("user='{}'", row.user));
        texts.push(format!("`partition`='{}'", row.partition));
    }
    texts.push(format!("shares={}", value_of(row, "shares", ids)));
    if row.is_default {
        texts.push("is_def=1".to_owned());
    }
    texts.extend(
        PLAIN
            .iter()
            .map(|field| format!("{}={}", column(field), value_of(row, field, ids))),
    );
    for field in TRES {
        let value = value_of(row, field, ids);
        if value != "''" {
            texts.push(format!("{}={value}", column(field)));
        }
    }
    texts.push(format!("qos={}", value_of(row, "qos", ids)));
    texts.join(", ")
}

/// Fields of a row that were set.
pub(crate) fn changed_association(row: &AssociationRecord, fields: &[&str], ids: &Ids) -> String {
    let texts: Vec<String> = fields
        .iter()
        .map(|field| format!("{}={}", column(field), value_of(row, field, ids)))
        .collect();
    texts.join(", ")
}

/// Rows by id: `(id_assoc=5 || id_assoc=6)`.
pub(crate) fn row_ids(rows: &[AssociationRecord]) -> String {
    let ids: Vec<String> = rows
        .iter()
        .map(|row| format!("id_assoc={}", row.id))
        .collect();
    format!("({})", ids.join(" || "))
}

/// Names: `(name='a' || name='b')`.
pub(crate) fn names(list: &[String]) -> String {
    let texts: Vec<String> = list.iter().map(|name| format!("name='{name}'")).collect();
    format!("({})", texts.join(" || "))
}

/// What was set, as it was given: `description='x', flags='y'`.
pub(crate) fn assignments<'a>(list: impl IntoIterator<Item = &'a Assignment>) -> String {
    let texts: Vec<String> = list
        .into_iter()
        .map(|item| format!("{}='{}'", item.field, item.value))
        .collect();
    texts.join(", ")
}

/// Rights, by Slurm's number.
pub(crate) fn admin_level(level: AdminLevel) -> String {
    format!("admin_level={}", admin_level_number(level))
}

/// A new QOS.
pub(crate) fn new_qos(qos: &QosRecord, now: UnixSeconds, ids: &Ids) -> String {
    let mut texts = vec![
        format!("mod_time={}", now.0),
        format!("description='{}'", qos.description),
        format!("flags='{}'", qos.flags),
        format!("grace_time={}", qos.grace_time_secs),
        format!("grp_jobs={}", number(qos.grp_jobs)),
        format!("grp_jobs_accrue={}", number(qos.grp_jobs_accrue)),
        format!("grp_submit_jobs={}", number(qos.grp_submit_jobs)),
        format!("grp_wall={}", number(qos.grp_wall)),
        format!("max_jobs_pa={}", number(qos.max_jobs_per_account)),
        format!("max_jobs_per_user={}", number(qos.max_jobs_per_user)),
        format!(
            "max_jobs_accrue_pa={}",
            number(qos.max_jobs_accrue_per_account)
        ),
        format!(
            "max_jobs_accrue_pu={}",
            number(qos.max_jobs_accrue_per_user)
        ),
        format!("min_prio_thresh={}", number(qos.min_prio_threshold)),
        format!(
            "max_submit_jobs_pa={}",
            number(qos.max_submit_jobs_per_account)
        ),
        format!(
            "max_submit_jobs_per_user={}",
            number(qos.max_submit_jobs_per_user)
        ),
        format!("max_wall_duration_per_job={}", number(qos.max_wall_per_job)),
    ];
    if !qos.preempt.is_empty() {
        texts.push(format!("preempt='{}'", ids.qos_text(&qos.preempt)));
    }
    texts.push(format!(
        "preempt_exempt_time={}",
        number(qos.preempt_exempt_time_secs)
    ));
    texts.push(format!("preempt_mode='{}'", qos.preempt_mode));
    texts.push(format!("priority={}", qos.priority));
    texts.push(format!("usage_factor={:.6}", qos.usage_factor));
    for (name, list) in [
        ("grp_tres", &qos.grp_tres),
        ("grp_tres_mins", &qos.grp_tres_mins),
        ("grp_tres_run_mins", &qos.grp_tres_run_mins),
        ("max_tres_pa", &qos.max_tres_per_account),
        ("max_tres_pj", &qos.max_tres_per_job),
        ("max_tres_pn", &qos.max_tres_per_node),
        ("max_tres_pu", &qos.max_tres_per_user),
        ("max_tres_mins_pj", &qos.max_tres_mins_per_job),
        ("max_tres_run_mins_pa", &qos.max_tres_run_mins_per_account),
        ("max_tres_run_mins_pu", &qos.max_tres_run_mins_per_user),
        ("min_tres_pj", &qos.min_tres_per_job),
    ] {
        if !list.is_empty() {
            texts.push(format!("{name}='{}'", ids.tres_text(list)));
        }
    }
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beginning of the texts that a real sacctmgr shows for the same row.
    #[test]
    fn a_new_row_reads_as_slurms() {
        let mut row = AssociationRecord::new("oracle", "bio", "");
        row.parent_account = "science".to_owned();
        row.shares = Some(10);
        row.limits.max_jobs = Some(3);
        row.limits.max_wall_per_job = Some(1440);
        row.limits.grp_tres = "cpu=256".to_owned();
        let ids = Ids {
            tres: [("cpu".to_owned(), 1)].into(),
            qos: [("normal".to_owned(), 1), ("high".to_owned(), 3)].into(),
        };
        assert_eq!(
            new_association(&row, UnixSeconds(1_796_037_602), &ids),
            "mod_time=1796037602, acct='bio', parent_acct='science', user='', shares=10, grp_jobs=NULL, grp_jobs_accrue=NULL, \
             grp_submit_jobs=NULL, grp_wall=NULL, max_jobs=3, max_jobs_accrue=NULL, min_prio_thresh=NULL, max_submit_jobs=NULL, \
             max_wall_pj=1440, priority=NULL, def_qos_id=NULL, grp_tres='1=256', qos='', delta_qos=''"
        );
        row.qos = Some(vec!["high".to_owned(), "normal".to_owned()]);
        row.shares = Some(7);
        row.id = 5;
        assert_eq!(
            changed_association(&row, &["shares", "max_jobs", "qos"], &ids),
            "shares=7, max_jobs=3, qos=',3,1,'"
        );
        assert_eq!(row_ids(&[row.clone(), row]), "(id_assoc=5 || id_assoc=5)");
    }
}
