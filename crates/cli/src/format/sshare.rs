//! Columns of sshare: the tree of associations with their shares.
//!
//! Numbers are the controller's, as of its last cycle; only their form is decided here. Source: sshare(1), Fair Tree in the manual,
//! and its output.

use std::collections::BTreeMap;

use sluice_dataparser::Payload;
use sluice_dataparser::sink::Sink;
use sluice_dataparser::values::{Optional, OptionalFloat};
use sluice_model::accounting::AssociationRecord;
use sluice_model::tres::Tres;
use sluice_proto::{ConvertError, Wire, v1};

/// Columns without options.
pub const FORMAT_DEFAULT: &str =
    "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare";
/// The same with `-m`.
pub const FORMAT_PARTITION: &str =
    "Account,User,Partition,RawShares,NormShares,RawUsage,EffectvUsage,FairShare";
/// Columns of `-l`.
pub const FORMAT_LONG: &str = "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,LevelFS,\
GrpTRESMins,TRESRunMins";
/// The same with `-m`.
pub const FORMAT_LONG_PARTITION: &str = "Account,User,Partition,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,\
FairShare,LevelFS,GrpTRESMins,TRESRunMins";
/// Columns of `-l` where Fair Tree is off: there are no levels.
pub const FORMAT_LONG_CLASSIC: &str = "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,GrpTRESMins,TRESRunMins";
/// The same with `-m`.
pub const FORMAT_LONG_CLASSIC_PARTITION: &str = "Account,User,Partition,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,\
FairShare,GrpTRESMins,TRESRunMins";

/// Name of the account above all.
const ROOT: &str = "root";

/// One row of the tree.
#[derive(Debug, Clone, PartialEq)]
pub struct ShareRow {
    /// The association.
    pub association: AssociationRecord,
    /// Levels above it.
    pub depth: usize,
    /// Shares, usage and factor.
    pub share: v1::AssociationShare,
    /// TRES × seconds used.
    pub used: BTreeMap<String, f64>,
    /// TRES × seconds that running jobs below have still booked.
    pub run_secs: BTreeMap<String, u64>,
}

impl ShareRow {
    fn is_root(&self) -> bool {
        self.association.user.is_empty() && self.association.account == ROOT
    }

    fn is_user(&self) -> bool {
        !self.association.user.is_empty()
    }

    fn raw_usage(&self) -> f64 {
        self.share.used.as_ref().map_or(0.0, |used| used.raw)
    }
}

/// Builds the rows out of what the controller says, in its order.
///
/// # Errors
/// An association that cannot be read.
pub fn rows(shares: Vec<v1::AssociationShare>) -> Result<Vec<ShareRow>, ConvertError> {
    let mut rows = Vec::with_capacity(shares.len());
    for mut share in shares {
        let association =
            AssociationRecord::from_wire(share.association.take().unwrap_or_default())?;
        let used = share.used.clone().unwrap_or_default();
        let now = share.now.clone().unwrap_or_default();
        rows.push(ShareRow {
            association,
            depth: 0,
            used: used
                .tres
                .into_iter()
                .map(|one| (one.name, one.seconds))
                .collect(),
            run_secs: now
                .run_secs
                .into_iter()
                .map(|one| (one.name, one.count))
                .collect(),
            share,
        });
    }
    let parents = parents(rows.iter().map(|row| &row.association));
    for row in &mut rows {
        let accounts = ancestors(&row.association.account, &parents).len() - 1;
        row.depth = accounts + usize::from(row.is_user());
    }
    Ok(rows)
}

/// The account above each account.
#[must_use]
pub fn parents<'a>(
    rows: impl IntoIterator<Item = &'a AssociationRecord>,
) -> BTreeMap<String, String> {
    rows.into_iter()
        .filter(|row| row.user.is_empty())
        .map(|row| (row.account.clone(), row.parent_account.clone()))
        .collect()
}

/// The account whose level a row belongs to.
#[must_use]
pub fn parent_of(row: &AssociationRecord) -> &str {
    if row.user.is_empty() {
        &row.parent_account
    } else {
        &row.account
    }
}

/// The account and everything above it.
#[must_use]
pub fn ancestors(account: &str, parents: &BTreeMap<String, String>) -> Vec<String> {
    let mut path = vec![account.to_string()];
    while let Some(parent) = path.last().and_then(|last| parents.get(last)) {
        // A broken table must not be walked in circles.
        if parent.is_empty() || path.contains(parent) {
            break;
        }
        path.push(parent.clone());
    }
    path
}

/// What all rows share.
#[derive(Debug, Clone)]
pub struct ShareView {
    /// Accounts are indented by their level.
    pub tree: bool,
    /// AccountingStorageTRES, in its order.
    pub tres: Vec<String>,
    /// Fair Tree: factors are of users only, and levels count.
    pub fair_tree: bool,
}

/// A column.
#[derive(Debug)]
pub struct ShareField {
    /// Name.
    pub name: &'static str,
    /// Width; negative = to the left.
    pub width: i32,
    /// Text.
    pub value: fn(&ShareRow, &ShareView) -> String,
}

const fn field(
    name: &'static str,
    width: i32,
    value: fn(&ShareRow, &ShareView) -> String,
) -> ShareField {
    ShareField { name, width, value }
}

/// `cpu=1,mem=153,…` for every TRES.
fn minutes(view: &ShareView, of: impl Fn(&str) -> u64) -> String {
    let texts: Vec<String> = view
        .tres
        .iter()
        .map(|name| format!("{name}={}", of(name)))
        .collect();
    texts.join(",")
}

/// The table.
pub static FIELDS: &[ShareField] = &[
    field("Account", -20, |row, view| {
        let indent = if view.tree { row.depth } else { 0 };
        format!("{}{}", " ".repeat(indent), row.association.account)
    }),
    field("Cluster", 10, |row, _| row.association.cluster.clone()),
    field("EffectvUsage", 13, |row, _| {
        format!("{:.6}", row.share.effective_usage)
    }),
    field("FairShare", 10, |row, view| {
        if row.is_user() || !(view.fair_tree || row.is_root()) {
            format!("{:.6}", row.share.factor)
        } else {
            String::new()
        }
    }),
    field("GrpTRESMins", 30, |row, _| {
        row.association.limits.grp_tres_mins.clone()
    }),
    field("GrpTRESRaw", 30, |row, view| {
        minutes(view, |name| {
            (row.used.get(name).copied().unwrap_or(0.0) / 60.0) as u64
        })
    }),
    field("ID", 6, |row, _| row.association.id.to_string()),
    field("LevelFS", 10, |row, view| {
        match (row.is_root() || !view.fair_tree, row.share.level_fs) {
            (true, _) => String::new(),
            (false, level) if level.is_infinite() => "inf".to_string(),
            (false, level) => format!("{level:.6}"),
        }
    }),
    field("NormShares", 11, |row, _| {
        format!("{:.6}", row.share.norm_shares)
    }),
    field("NormUsage", 11, |row, _| {
        if row.is_root() {
            String::new()
        } else {
            format!("{:.6}", row.share.norm_usage)
        }
    }),
    field("Partition", 12, |row, _| row.association.partition.clone()),
    field("RawShares", 10, |row, _| {
        match (row.is_root(), row.association.shares) {
            (true, _) => String::new(),
            (false, Some(shares)) => shares.to_string(),
            (false, None) => "parent".to_string(),
        }
    }),
    field("RawUsage", 11, |row, _| {
        (row.raw_usage() as u64).to_string()
    }),
    field("TRESRunMins", 30, |row, view| {
        minutes(view, |name| {
            row.run_secs.get(name).copied().unwrap_or(0) / 60
        })
    }),
    field("User", 10, |row, _| row.association.user.clone()),
];

/// Reads a list of columns with their widths; the first unknown name is the error.
///
/// # Errors
/// The name that is no field.
pub fn columns(list: &str) -> Result<Vec<(&'static ShareField, i32)>, String> {
    list.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(|item| {
            let (name, width) = item.split_once('%').unwrap_or((item, ""));
            let lower = name.to_ascii_lowercase();
            let found = FIELDS
                .iter()
                .find(|field| field.name.to_ascii_lowercase().starts_with(&lower))
                .ok_or_else(|| name.to_string())?;
            Ok((
                found,
                width
                    .parse()
                    .ok()
                    .filter(|width| *width != 0)
                    .unwrap_or(found.width),
            ))
        })
        .collect()
}

/// The document of `--json` and `--yaml`.
#[derive(Debug)]
pub struct Shares<'a> {
    /// Rows, in the order of the table.
    pub rows: &'a [ShareRow],
    /// Which TRES.
    pub view: &'a ShareView,
}

impl Payload for Shares<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.map("shares", |sink| {
            sink.list("shares", self.rows, |sink, row| self.write_row(sink, row));
            sink.uint("total_shares", 0_u64);
        });
    }
}

impl Shares<'_> {
    fn write_row<S: Sink>(&self, sink: &mut S, row: &ShareRow) {
        let association = &row.association;
        sink.begin_map();
        sink.uint("id", association.id);
        sink.text("cluster", &association.cluster);
        sink.text(
            "name",
            if row.is_user() {
                &association.user
            } else {
                &association.account
            },
        );
        sink.text("parent", parent_of(association));
        sink.text("partition", &association.partition);
        sink.real(
            "shares_normalized",
            OptionalFloat::Set(row.share.norm_shares),
        );
        sink.number(
            "shares",
            Optional::or_unset(association.shares.filter(|_| !row.is_root())),
        );
        self.write_tres(sink, row);
        let root = row.is_root();
        sink.real(
            "effective_usage",
            OptionalFloat::Set(row.share.effective_usage),
        );
        sink.real(
            "usage_normalized",
            if root {
                OptionalFloat::Unset
            } else {
                OptionalFloat::Set(row.share.norm_usage)
            },
        );
        sink.uint("usage", row.raw_usage() as u64);
        sink.map("fairshare", |sink| {
            sink.real("factor", OptionalFloat::Set(row.share.factor));
            sink.real(
                "level",
                match (root || !self.view.fair_tree, row.share.level_fs) {
                    (true, _) => OptionalFloat::Unset,
                    (false, level) if level.is_infinite() => OptionalFloat::Infinite,
                    (false, level) => OptionalFloat::Set(level),
                },
            );
        });
        sink.texts("type", [if row.is_user() { "USER" } else { "ASSOCIATION" }]);
        sink.end_map();
    }

    fn write_tres<S: Sink>(&self, sink: &mut S, row: &ShareRow) {
        let names = &self.view.tres;
        let limits: Tres = row
            .association
            .limits
            .grp_tres_mins
            .parse()
            .unwrap_or_default();
        sink.map("tres", |sink| {
            sink.list("run_seconds", names, |sink, name| {
                sink.begin_map();
                sink.text("name", name);
                let seconds = row.run_secs.get(name.as_str()).copied().unwrap_or(0);
                sink.number("value", Optional::Set(seconds));
                sink.end_map();
            });
            sink.list("group_minutes", names, |sink, name| {
                let limit = limits.iter().find(|(kind, _)| kind.to_string() == *name);
                sink.begin_map();
                sink.text("name", name);
                sink.number(
                    "value",
                    Optional::or_infinite(limit.map(|(_, minutes)| minutes)),
                );
                sink.end_map();
            });
            sink.list("usage", names, |sink, name| {
                sink.begin_map();
                sink.text("name", name);
                sink.key("value");
                sink.float(row.used.get(name.as_str()).copied().unwrap_or(0.0));
                sink.end_map();
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sacct::{TableStyle, table_header, table_line};

    /// A row with shares of a level, factor, and usage of a level.
    fn share(
        names: [&str; 3],
        shares: u32,
        norm: f64,
        factor: f64,
        (raw, effective, level_fs): (f64, f64, f64),
    ) -> v1::AssociationShare {
        let [account, user, parent] = names;
        let mut row = AssociationRecord::new("oracle", account, user);
        row.parent_account = parent.to_string();
        row.shares = Some(shares);
        v1::AssociationShare {
            association: Some(row.into_wire()),
            level_shares: 0,
            norm_shares: norm,
            norm_usage: 0.0,
            effective_usage: effective,
            level_fs,
            factor,
            used: Some(v1::UsedSoFar {
                raw,
                wall_secs: 0.0,
                tres: vec![v1::TresUsage {
                    name: "cpu".to_string(),
                    seconds: raw,
                }],
            }),
            now: Some(v1::UsedNow {
                run_secs: vec![v1::TresCount {
                    name: "cpu".to_string(),
                    count: 4_800,
                }],
                ..v1::UsedNow::default()
            }),
        }
    }

    /// The tree of the sample cluster, whose usage is not part of a cycle yet.
    fn sample() -> Vec<ShareRow> {
        let idle = (0.0, 0.0, f64::INFINITY);
        let used = (8.999_985, 0.0, f64::INFINITY);
        rows(vec![
            share(["root", "", ""], 1, 0.0, 0.0, (8.999_985, 1.0, 0.0)),
            share(["root", "root", ""], 1, 1.0 / 61.0, 1.0, idle),
            share(["science", "", "root"], 60, 60.0 / 61.0, 0.0, used),
            share(["bio", "", "science"], 10, 0.25, 0.0, idle),
            share(["bio", "alice", ""], 5, 0.2, 1.0, idle),
            share(["bio", "bob", ""], 20, 0.8, 1.0, idle),
            share(["physics", "", "science"], 30, 0.75, 0.0, used),
            share(["physics", "alice", ""], 10, 1.0, 1.0, used),
        ])
        .expect("rows")
    }

    fn view(fair_tree: bool) -> ShareView {
        ShareView {
            tree: true,
            tres: "cpu,mem,energy,node,billing"
                .split(',')
                .map(String::from)
                .collect(),
            fair_tree,
        }
    }

    fn table(rows: &[ShareRow], list: &str, style: &TableStyle, view: &ShareView) -> String {
        let columns = columns(list).expect("known");
        let names: Vec<(String, i32)> = columns
            .iter()
            .map(|(field, width)| (field.name.to_string(), *width))
            .collect();
        let mut text = table_header(&names, style);
        for row in rows {
            let values: Vec<(String, i32)> = columns
                .iter()
                .map(|(field, width)| ((field.value)(row, view), *width))
                .collect();
            text.push_str(&table_line(&values, style));
            text.push('\n');
        }
        text
    }

    /// As a real sshare prints them.
    #[test]
    fn tables() {
        let bar = TableStyle::Delimited {
            delimiter: "|".to_string(),
            trailing: false,
        };
        assert_eq!(
            table(&sample(), FORMAT_DEFAULT, &bar, &view(true)),
            "Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare\n\
             root|||0.000000|8|1.000000|\n \
             root|root|1|0.016393|0|0.000000|1.000000\n \
             science||60|0.983607|8|0.000000|\n  \
             bio||10|0.250000|0|0.000000|\n   \
             bio|alice|5|0.200000|0|0.000000|1.000000\n   \
             bio|bob|20|0.800000|0|0.000000|1.000000\n  \
             physics||30|0.750000|8|0.000000|\n   \
             physics|alice|10|1.000000|8|0.000000|1.000000\n"
        );
        let padded = table(
            &sample()[..2],
            FORMAT_LONG,
            &TableStyle::Padded,
            &view(true),
        );
        let lines: Vec<&str> = padded.lines().collect();
        assert_eq!(
            lines[0],
            "Account                    User  RawShares  NormShares    RawUsage   NormUsage  EffectvUsage  FairShare    LevelFS                    GrpTRESMins                    TRESRunMins "
        );
        assert_eq!(
            lines[2],
            "root                                          0.000000           8                  1.000000                                                      cpu=80,mem=0,energy=0,node=0,+ "
        );
        assert_eq!(
            lines[3],
            " root                      root          1    0.016393           0    0.000000      0.000000   1.000000        inf                                cpu=80,mem=0,energy=0,node=0,+ "
        );
    }

    /// Values with digits; without Fair Tree accounts have a factor too, and there are no levels.
    #[test]
    fn values() {
        let rows = rows(vec![
            share(["root", "", ""], 1, 1.0, 0.5, (1_000.9, 1.0, 0.0)),
            share(
                ["bio", "", "root"],
                3,
                0.75,
                0.477_421,
                (800.0, 0.8, 0.9375),
            ),
        ])
        .expect("rows");
        let bar = TableStyle::Delimited {
            delimiter: "|".to_string(),
            trailing: false,
        };
        let list = "account,rawusage,effectvusage,fairshare,levelfs,grptresraw%0";
        assert_eq!(
            table(&rows, list, &bar, &view(true)),
            "Account|RawUsage|EffectvUsage|FairShare|LevelFS|GrpTRESRaw\n\
             root|1000|1.000000|||cpu=16,mem=0,energy=0,node=0,billing=0\n \
             bio|800|0.800000||0.937500|cpu=13,mem=0,energy=0,node=0,billing=0\n"
        );
        assert_eq!(
            table(&rows[1..], "account,fairshare,levelfs", &bar, &view(false)),
            "Account|FairShare|LevelFS\n bio|0.477421|\n"
        );
        assert_eq!(columns("nosuch").err(), Some("nosuch".to_string()));
    }
}
