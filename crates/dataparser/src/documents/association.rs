//! Associations: `sacctmgr show assoc --json`.
//!
//! Limits are infinite where none is set at this level; wall limits are minutes.

use std::collections::BTreeMap;

use sluice_model::accounting::AssociationRecord;

use crate::envelope::Payload;
use crate::sink::Sink;
use crate::values::{Optional, TresIds};

/// Shares that mean "those of the parent".
const SHARES_OF_PARENT: u32 = 0x7fff_ffff;

/// A listing of associations.
pub struct Associations<'a> {
    /// The rows, in the order in which they are written.
    pub rows: &'a [AssociationRecord],
    /// All rows of accounts, from which paths and inherited QOS come; may be `rows` itself.
    pub accounts: &'a [AssociationRecord],
    /// Ids of QOS by name, which order the lists of QOS.
    pub qos_ids: &'a BTreeMap<String, u32>,
    /// Ids of TRES.
    pub tres: &'a TresIds,
}

impl Payload for Associations<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.list("associations", self.rows, |sink, row| {
            self.write_row(sink, row)
        });
    }
}

/// Writes what names an association.
pub(super) fn write_short<S: Sink>(sink: &mut S, row: &AssociationRecord) {
    sink.begin_map();
    sink.text("account", &row.account);
    sink.text("cluster", &row.cluster);
    sink.text("partition", &row.partition);
    sink.text("user", &row.user);
    sink.uint("id", row.id);
    sink.end_map();
}

impl Associations<'_> {
    /// The account rows from `row`'s own account up to the root.
    fn chain(&self, row: &AssociationRecord) -> Vec<&AssociationRecord> {
        let mut chain: Vec<&AssociationRecord> = Vec::new();
        let mut account = row.account.as_str();
        // A circle in bad data ends here.
        while chain.len() <= self.accounts.len() {
            let Some(found) = self.accounts.iter().find(|other| {
                other.user.is_empty() && other.account == account && other.cluster == row.cluster
            }) else {
                break;
            };
            chain.push(found);
            account = &found.parent_account;
        }
        chain
    }

    /// `/science/bio/0-bob/`: the accounts below the root, and the user with the mark of users.
    fn lineage(&self, row: &AssociationRecord) -> String {
        let mut text = String::from("/");
        let chain = self.chain(row);
        for account in chain
            .iter()
            .rev()
            .filter(|each| !each.parent_account.is_empty())
        {
            text.push_str(&account.account);
            text.push('/');
        }
        if !row.user.is_empty() {
            text.push_str(&format!("0-{}/", row.user));
        }
        if !row.partition.is_empty() {
            text.push_str(&format!("{}/", row.partition));
        }
        text
    }

    /// QOS in force, by id.
    fn qos(&self, row: &AssociationRecord) -> Vec<String> {
        let inherited = || {
            self.chain(row)
                .into_iter()
                .find_map(|each| each.qos.clone())
        };
        let mut names = row.qos.clone().or_else(inherited).unwrap_or_default();
        for change in &row.qos_delta {
            match change.split_at_checked(1) {
                Some(("+", name)) if !names.iter().any(|known| known == name) => {
                    names.push(name.to_string());
                }
                Some(("-", name)) => names.retain(|known| known != name),
                _ => {}
            }
        }
        names.sort_by_key(|name| self.qos_ids.get(name).copied().unwrap_or(u32::MAX));
        names
    }

    fn write_row<S: Sink>(&self, sink: &mut S, row: &AssociationRecord) {
        sink.begin_map();
        sink.empty_list("accounting");
        sink.text("account", &row.account);
        sink.text("cluster", &row.cluster);
        sink.text("comment", &row.comment);
        sink.map("default", |sink| sink.text("qos", &row.default_qos));
        sink.texts("flags", row.deleted.then_some("DELETED"));
        sink.map("max", |sink| self.write_limits(sink, row));
        sink.uint("id", row.id);
        sink.flag("is_default", row.is_default);
        sink.text("lineage", &self.lineage(row));
        sink.map("min", |sink| {
            let threshold = Optional::or_infinite(row.limits.min_prio_threshold);
            sink.number("priority_threshold", threshold);
        });
        sink.text("parent_account", &row.parent_account);
        sink.text("partition", &row.partition);
        sink.number("priority", Optional::or_infinite(row.priority));
        sink.texts("qos", self.qos(row));
        sink.uint("shares_raw", row.shares.unwrap_or(SHARES_OF_PARENT));
        sink.text("user", &row.user);
        sink.end_map();
    }

    fn write_limits<S: Sink>(&self, sink: &mut S, row: &AssociationRecord) {
        let limits = &row.limits;
        let limit = |limit: Option<u32>| Optional::or_infinite(limit);
        sink.map("jobs", |sink| {
            sink.map("per", |sink| {
                sink.number("count", limit(limits.grp_jobs));
                sink.number("accruing", limit(limits.grp_jobs_accrue));
                sink.number("submitted", limit(limits.grp_submit_jobs));
                sink.number("wall_clock", limit(limits.max_wall_per_job));
            });
            sink.number("active", limit(limits.max_jobs));
            sink.number("accruing", limit(limits.max_jobs_accrue));
            sink.number("total", limit(limits.max_submit_jobs));
        });
        sink.map("tres", |sink| {
            self.tres.write_list(sink, "total", &limits.grp_tres);
            sink.map("group", |sink| {
                self.tres.write_list(sink, "minutes", &limits.grp_tres_mins);
                self.tres
                    .write_list(sink, "active", &limits.grp_tres_run_mins);
            });
            sink.map("minutes", |sink| {
                self.tres
                    .write_list(sink, "total", &limits.max_tres_run_mins);
                sink.map("per", |sink| {
                    self.tres
                        .write_list(sink, "job", &limits.max_tres_mins_per_job);
                });
            });
            sink.map("per", |sink| {
                self.tres.write_list(sink, "job", &limits.max_tres_per_job);
                self.tres
                    .write_list(sink, "node", &limits.max_tres_per_node);
            });
        });
        sink.map("per", |sink| {
            sink.map("account", |sink| {
                sink.number("wall_clock", limit(limits.grp_wall))
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{Meta, to_json};

    fn row(id: u32, account: &str, parent: &str, user: &str) -> AssociationRecord {
        AssociationRecord {
            id,
            parent_account: parent.to_string(),
            ..AssociationRecord::new("oracle", account, user)
        }
    }

    /// A tree as a real sacctmgr shows it: paths, inherited and own QOS, limits.
    #[test]
    fn tree() {
        let mut rows = vec![
            row(1, "root", "", ""),
            row(2, "root", "", "root"),
            row(3, "science", "root", ""),
            row(5, "bio", "science", ""),
            row(8, "bio", "", "bob"),
        ];
        rows[0].qos = Some(vec!["normal".to_string()]);
        rows[3].limits.grp_tres = "cpu=256".to_string();
        rows[4].qos_delta = vec!["+limited".to_string()];
        rows[4].limits.max_jobs = Some(1_000_000);
        rows[4].shares = None;
        let qos_ids = [("normal".to_string(), 1), ("limited".to_string(), 3)].into();
        let text = to_json(
            &Meta::default(),
            &Associations {
                rows: &rows,
                accounts: &rows,
                qos_ids: &qos_ids,
                tres: &TresIds::default(),
            },
        );
        // The root's own row, to the letter.
        assert!(
            text.contains(include_str!("testdata/sacctmgr_assoc_root.json")),
            "{text}"
        );
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let list = &document["associations"];
        let lineage: Vec<&str> = (0..5)
            .filter_map(|at| list[at]["lineage"].as_str())
            .collect();
        assert_eq!(
            lineage,
            [
                "/",
                "/0-root/",
                "/science/",
                "/science/bio/",
                "/science/bio/0-bob/"
            ]
        );
        assert_eq!(list[4]["qos"], serde_json::json!(["normal", "limited"]));
        assert_eq!(list[4]["max"]["jobs"]["active"]["number"], 1_000_000);
        assert_eq!(list[4]["shares_raw"], 2_147_483_647);
        assert_eq!(list[3]["max"]["tres"]["total"][0]["count"], 256);
    }
}
