//! The parameter maps of the document: which slurm.conf parameters may stand in which map, and the older blocks for the same.

use super::field::Field;
use crate::diagnostic::{Detail, Diagnostics};
use crate::keys::{Kind, Scope};
use crate::slurm::statement::Pair;

/// Older `scheduling` keys and their parameters.
const SCHEDULING: [(&str, &str); 11] = [
    ("priority_type", "PriorityType"),
    ("priority_weight_age", "PriorityWeightAge"),
    ("priority_weight_assoc", "PriorityWeightAssoc"),
    ("priority_weight_fairshare", "PriorityWeightFairshare"),
    ("priority_weight_job_size", "PriorityWeightJobSize"),
    ("priority_weight_partition", "PriorityWeightPartition"),
    ("priority_weight_qos", "PriorityWeightQOS"),
    ("priority_weight_tres", "PriorityWeightTRES"),
    ("preempt_type", "PreemptType"),
    ("preempt_mode", "PreemptMode"),
    ("preempt_exempt_time", "PreemptExemptTime"),
];

/// Why a parameter may not stand in a map although it exists.
fn refused(scope: Scope, name: &str) -> Option<&'static str> {
    match (scope, name) {
        (Scope::Global, "Prolog") => Some("use prolog_bash_scripts"),
        (Scope::Global, "Epilog") => Some("use epilog_bash_scripts"),
        (Scope::Global, "ClusterName") => {
            Some("the document's id or display_name is the cluster's name")
        }
        (Scope::Partition, "Default") => Some("use default_partition_id"),
        (Scope::Partition, "PartitionName") => Some("the partition's id is its name"),
        (Scope::Partition, "Nodes") => Some("use node_pool_ids"),
        (Scope::Node, "NodeName" | "NodeHostname" | "NodeAddr" | "Port") => {
            Some("the node pool sets it")
        }
        _ => None,
    }
}

/// The pairs of a `config` map. Keys that are wrong are reported here with their path; values are checked later, like those of a file.
pub(crate) fn config_map(field: &Field<'_>, scope: Scope, diags: &mut Diagnostics) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for entry in field.fields(diags) {
        let Some(value) = entry.slurm_text(diags) else {
            continue;
        };
        let origin = entry.origin();
        let name = entry.name();
        let Some(key) = scope.find(name) else {
            // The scopes share the message with files; only what belongs elsewhere is worth a word of its own.
            let elsewhere = [Scope::Global, Scope::Partition, Scope::Node]
                .into_iter()
                .find(|s| *s != scope && s.find(name).is_some());
            let hint = match (scope.suggest(name), elsewhere) {
                (Some(suggestion), _) => format!("did you mean {suggestion}?"),
                (None, Some(other)) => format!(
                    "it is a {} and is not allowed in this map",
                    other.describe()
                ),
                (None, None) => "it is the name of no slurm.conf parameter".to_owned(),
            };
            diags.error(
                &origin,
                Detail {
                    key: None,
                    value: Some(&value),
                    hint: Some(hint),
                },
                format!("unknown {}", scope.describe()),
            );
            continue;
        };
        let canonical = key.alias_of.unwrap_or(key.name);
        if let Some(instead) = refused(scope, canonical) {
            let detail = Detail {
                key: None,
                value: Some(&value),
                hint: Some(instead.to_owned()),
            };
            diags.error(
                &origin,
                detail,
                format!("{canonical} is not allowed in this map"),
            );
            continue;
        }
        // Keys that stand once per line in a file take several entries as a list here.
        if key.kind == Kind::Lines {
            pairs.extend(
                value
                    .split(',')
                    .map(str::trim)
                    .filter(|v| !v.is_empty())
                    .map(|v| Pair::new(canonical, v, &origin)),
            );
        } else {
            pairs.push(Pair::new(canonical, value, &origin));
        }
    }
    pairs
}

/// The pairs of the older `scheduling` block.
pub(crate) fn scheduling_block(field: &Field<'_>, diags: &mut Diagnostics) -> Vec<Pair> {
    let names: Vec<&str> = SCHEDULING.iter().map(|(old, _)| *old).collect();
    field.only(&names, true, diags);
    let mut pairs = Vec::new();
    for (old, key) in SCHEDULING {
        if let Some(entry) = field.get(old)
            && let Some(value) = entry.slurm_text(diags)
        {
            pairs.push(Pair::new(key, value, &entry.origin()));
        }
    }
    pairs
}

/// The pairs of the older `accounting` block.
pub(crate) fn accounting_block(field: &Field<'_>, diags: &mut Diagnostics) -> Vec<Pair> {
    field.only(&["accounting_storage_enforce"], true, diags);
    let entry = field.get("accounting_storage_enforce");
    let pair = entry.and_then(|e| {
        e.slurm_text(diags)
            .map(|v| Pair::new("AccountingStorageEnforce", v, &e.origin()))
    });
    pair.into_iter().collect()
}
