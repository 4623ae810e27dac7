//! Columns of sshare: the tree of associations with their shares.
//!
//! The controller does not accumulate usage yet: usage is 0 here and fair-share factors are those of unused shares, which is
//! what a new cluster shows. Shares and the minutes that running jobs have still booked are real. Source: sshare(1), Fair Tree
//! in the manual, and its output.

use std::collections::BTreeMap;

use sluice_dataparser::Payload;
use sluice_dataparser::sink::Sink;
use sluice_dataparser::values::{Optional, OptionalFloat};
use sluice_model::accounting::AssociationRecord;
use sluice_model::job::JobInfo;
use sluice_model::time::UnixSeconds;
use sluice_model::tres::Tres;

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

/// Name of the account above all.
const ROOT: &str = "root";

/// One row of the tree.
#[derive(Debug, Clone, PartialEq)]
pub struct ShareRow {
    /// The association.
    pub association: AssociationRecord,
    /// Levels above it.
    pub depth: usize,
    /// Part of its level's shares; 0 of the root.
    pub norm_shares: f64,
    /// Fair-share factor of an unused share.
    pub fair_share: f64,
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

    /// Level fair share without usage: without limit when it has a share, 0 else.
    fn level_is_infinite(&self) -> bool {
        self.association.shares != Some(0)
    }
}

/// Builds the rows out of the associations of one cluster in tree order.
#[must_use]
pub fn rows(associations: Vec<AssociationRecord>) -> Vec<ShareRow> {
    let parents = parents(&associations);
    let levels = level_shares(&associations);
    let unused: BTreeMap<String, bool> = associations
        .iter()
        .filter(|row| row.user.is_empty())
        .map(|row| (row.account.clone(), row.shares == Some(0)))
        .collect();
    // Fair Tree without usage: every user with shares all the way up ties for the first rank, the others for the one after.
    let has_share = |row: &AssociationRecord| {
        row.shares != Some(0)
            && ancestors(&row.account, &parents)
                .iter()
                .all(|account| account == ROOT || !unused.get(account).copied().unwrap_or(false))
    };
    let users = associations.iter().filter(|row| !row.user.is_empty());
    let (all, first) = users.fold((0_u32, 0_u32), |(all, first), row| {
        (all + 1, first + u32::from(has_share(row)))
    });
    associations
        .into_iter()
        .map(|row| {
            let sum = levels.get(parent_of(&row)).copied().unwrap_or(0);
            let root = row.user.is_empty() && row.account == ROOT;
            let norm_shares = match (root, row.shares, sum) {
                (true, ..) | (_, None, _) | (_, _, 0) => 0.0,
                (_, Some(shares), sum) => f64::from(shares) / sum as f64,
            };
            let fair_share = match (row.user.is_empty(), has_share(&row)) {
                (true, _) => 0.0,
                (_, true) => 1.0,
                (_, false) => f64::from(all - first) / f64::from(all),
            };
            let depth =
                ancestors(&row.account, &parents).len() - 1 + usize::from(!row.user.is_empty());
            ShareRow {
                association: row,
                depth,
                norm_shares,
                fair_share,
                run_secs: BTreeMap::new(),
            }
        })
        .collect()
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

/// The shares of the rows directly below each account, added up.
#[must_use]
pub fn level_shares(rows: &[AssociationRecord]) -> BTreeMap<String, u64> {
    let mut levels: BTreeMap<String, u64> = BTreeMap::new();
    for row in rows {
        *levels.entry(parent_of(row).to_string()).or_default() +=
            u64::from(row.shares.unwrap_or(0));
    }
    levels
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

/// Adds what running jobs have still booked to their user's row and every account above it.
pub fn add_running(rows: &mut [ShareRow], jobs: &[JobInfo], now: UnixSeconds) {
    let parents = parents(rows.iter().map(|row| &row.association));
    for job in jobs.iter().filter(|job| job.state.is_running()) {
        let Some(end) = job.end_time else { continue };
        let left = u64::try_from(end - now).unwrap_or(0);
        let accounts = ancestors(&job.account, &parents);
        // A row for the job's partition takes it before the one for all partitions.
        let own = rows
            .iter()
            .any(|row| is_row_of(row, job) && row.association.partition == job.partition);
        for row in rows.iter_mut() {
            let partition = if own { job.partition.as_str() } else { "" };
            let counts = match row.is_user() {
                true => is_row_of(row, job) && row.association.partition == partition,
                false => accounts.contains(&row.association.account),
            };
            if counts {
                for (kind, amount) in job.alloc_tres.iter() {
                    *row.run_secs.entry(kind.to_string()).or_default() += amount * left;
                }
            }
        }
    }
}

fn is_row_of(row: &ShareRow, job: &JobInfo) -> bool {
    row.association.user == job.user_name && row.association.account == job.account
}

/// What all rows share.
#[derive(Debug, Clone)]
pub struct ShareView {
    /// Accounts are indented by their level.
    pub tree: bool,
    /// AccountingStorageTRES, in its order.
    pub tres: Vec<String>,
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

/// The table.
pub static FIELDS: &[ShareField] = &[
    field("Account", -20, |row, view| {
        let indent = if view.tree { row.depth } else { 0 };
        format!("{}{}", " ".repeat(indent), row.association.account)
    }),
    field("Cluster", 10, |row, _| row.association.cluster.clone()),
    field("EffectvUsage", 13, |row, _| {
        // All usage is below the root.
        if row.is_root() {
            "1.000000"
        } else {
            "0.000000"
        }
        .to_string()
    }),
    field("FairShare", 10, |row, _| {
        if row.is_user() {
            format!("{:.6}", row.fair_share)
        } else {
            String::new()
        }
    }),
    field("GrpTRESMins", 30, |row, _| {
        row.association.limits.grp_tres_mins.clone()
    }),
    field("GrpTRESRaw", 30, |_, view| {
        let texts: Vec<String> = view.tres.iter().map(|name| format!("{name}=0")).collect();
        texts.join(",")
    }),
    field("ID", 6, |row, _| row.association.id.to_string()),
    field("LevelFS", 10, |row, _| {
        match (row.is_root(), row.level_is_infinite()) {
            (true, _) => String::new(),
            (false, true) => "inf".to_string(),
            (false, false) => "0.000000".to_string(),
        }
    }),
    field("NormShares", 11, |row, _| format!("{:.6}", row.norm_shares)),
    field("NormUsage", 11, |row, _| {
        if row.is_root() { "" } else { "0.000000" }.to_string()
    }),
    field("Partition", 12, |row, _| row.association.partition.clone()),
    field("RawShares", 10, |row, _| {
        match (row.is_root(), row.association.shares) {
            (true, _) => String::new(),
            (false, Some(shares)) => shares.to_string(),
            (false, None) => "parent".to_string(),
        }
    }),
    field("RawUsage", 11, |_, _| "0".to_string()),
    field("TRESRunMins", 30, |row, view| {
        let texts: Vec<String> = view
            .tres
            .iter()
            .map(|name| {
                format!(
                    "{name}={}",
                    row.run_secs.get(name).copied().unwrap_or(0) / 60
                )
            })
            .collect();
        texts.join(",")
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
        sink.real("shares_normalized", OptionalFloat::Set(row.norm_shares));
        sink.number(
            "shares",
            Optional::or_unset(association.shares.filter(|_| !row.is_root())),
        );
        self.write_tres(sink, row);
        let root = row.is_root();
        sink.real(
            "effective_usage",
            OptionalFloat::Set(if root { 1.0 } else { 0.0 }),
        );
        sink.real(
            "usage_normalized",
            if root {
                OptionalFloat::Unset
            } else {
                OptionalFloat::Set(0.0)
            },
        );
        sink.uint("usage", 0_u64);
        sink.map("fairshare", |sink| {
            sink.real("factor", OptionalFloat::Set(row.fair_share));
            sink.real(
                "level",
                match (root, row.level_is_infinite()) {
                    (true, _) => OptionalFloat::Unset,
                    (false, true) => OptionalFloat::Infinite,
                    (false, false) => OptionalFloat::Set(0.0),
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
                sink.float(0.0);
                sink.end_map();
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sacct::{TableStyle, table_header, table_line};
    use crate::format::samples;
    use sluice_model::time::UnixSeconds;

    fn association(account: &str, user: &str, parent: &str, shares: u32) -> AssociationRecord {
        let mut row = AssociationRecord::new("oracle", account, user);
        row.parent_account = parent.to_string();
        row.shares = Some(shares);
        row
    }

    /// The tree of the sample cluster.
    fn sample() -> Vec<ShareRow> {
        rows(vec![
            association("root", "", "", 1),
            association("root", "root", "", 1),
            association("science", "", "root", 60),
            association("bio", "", "science", 10),
            association("bio", "alice", "", 5),
            association("bio", "bob", "", 20),
            association("physics", "", "science", 30),
            association("physics", "alice", "", 10),
        ])
    }

    fn view() -> ShareView {
        ShareView {
            tree: true,
            tres: "cpu,mem,energy,node,billing"
                .split(',')
                .map(String::from)
                .collect(),
        }
    }

    fn table(rows: &[ShareRow], list: &str, style: &TableStyle) -> String {
        let columns = columns(list).expect("known");
        let names: Vec<(String, i32)> = columns
            .iter()
            .map(|(field, width)| (field.name.to_string(), *width))
            .collect();
        let mut text = table_header(&names, style);
        for row in rows {
            let values: Vec<(String, i32)> = columns
                .iter()
                .map(|(field, width)| ((field.value)(row, &view()), *width))
                .collect();
            text.push_str(&table_line(&values, style));
            text.push('\n');
        }
        text
    }

    /// As a real sshare prints them, apart from the usage.
    #[test]
    fn tables() {
        let bar = TableStyle::Delimited {
            delimiter: "|".to_string(),
            trailing: false,
        };
        assert_eq!(
            table(&sample(), FORMAT_DEFAULT, &bar),
            "Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare\n\
             root|||0.000000|0|1.000000|\n \
             root|root|1|0.016393|0|0.000000|1.000000\n \
             science||60|0.983607|0|0.000000|\n  \
             bio||10|0.250000|0|0.000000|\n   \
             bio|alice|5|0.200000|0|0.000000|1.000000\n   \
             bio|bob|20|0.800000|0|0.000000|1.000000\n  \
             physics||30|0.750000|0|0.000000|\n   \
             physics|alice|10|1.000000|0|0.000000|1.000000\n"
        );
        let padded = table(&sample()[..2], FORMAT_LONG, &TableStyle::Padded);
        let lines: Vec<&str> = padded.lines().collect();
        assert_eq!(
            lines[0],
            "Account                    User  RawShares  NormShares    RawUsage   NormUsage  EffectvUsage  FairShare    LevelFS                    GrpTRESMins                    TRESRunMins "
        );
        assert_eq!(
            lines[2],
            "root                                          0.000000           0                  1.000000                                                      cpu=0,mem=0,energy=0,node=0,b+ "
        );
        assert_eq!(
            lines[3],
            " root                      root          1    0.016393           0    0.000000      0.000000   1.000000        inf                                cpu=0,mem=0,energy=0,node=0,b+ "
        );
    }

    /// Booked minutes go to the user and every account above.
    #[test]
    fn running_jobs() {
        let mut rows = sample();
        let mut job = samples::running();
        job.account = "physics".to_string();
        job.user_name = "alice".to_string();
        job.alloc_tres = samples::tres("cpu=8,mem=2000M,node=2");
        job.end_time = Some(UnixSeconds(2_000));
        add_running(&mut rows, &[job], UnixSeconds(1_400));
        let cpu: Vec<u64> = rows
            .iter()
            .map(|row| row.run_secs.get("cpu").copied().unwrap_or(0))
            .collect();
        assert_eq!(cpu, [4_800, 0, 4_800, 0, 0, 0, 4_800, 4_800]);
        let (field, _) = columns("tresrunmins").expect("known")[0];
        assert_eq!(
            (field.value)(&rows[7], &view()),
            "cpu=80,mem=20000,energy=0,node=20,billing=0"
        );
    }

    /// Without a share all the way up, an unused association ranks behind those with one.
    #[test]
    fn no_share() {
        let rows = rows(vec![
            association("root", "", "", 1),
            association("a", "", "root", 0),
            association("a", "x", "", 1),
            association("b", "", "root", 1),
            association("b", "y", "", 1),
        ]);
        let factors: Vec<f64> = rows.iter().map(|row| row.fair_share).collect();
        assert_eq!(factors, [0.0, 0.0, 0.5, 0.0, 1.0]);
        assert_eq!(columns("nosuch").err(), Some("nosuch".to_string()));
    }
}
