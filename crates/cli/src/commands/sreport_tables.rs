//! The reports of sreport: which columns each has, and how its rows are made.
//!
//! Pure apart from the real names of users. A report shows what has usage in the period, nothing else. Source: sreport(1).

use sluice_model::accounting::{AssociationRecord, ClusterRecord, JobRecord};
use sluice_model::time::UnixSeconds;
use sluice_proto::v1::Downtime;

use super::sreport::Conditions;
use crate::format::sreport::{
    Report, ReportColumn, SizeBin, TimeForm, size_bins, utilization_columns,
};
use crate::format::sreport_usage::{
    AccountTree, ClusterUsage, Period, UsageTable, cluster_usage, run_secs, used,
};

/// Classes of `job Sizes…` without `grouping=`.
const GROUPING: &str = "50,250,500,1000";
/// Users of `user TopUsage`.
const TOP_COUNT: usize = 10;

/// A report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    AccountUtilizationByUser,
    AccountUtilizationByQos,
    UserUtilizationByAccount,
    UserUtilizationByWckey,
    WckeyUtilizationByUser,
    Utilization,
    SizesByAccount,
    SizesByAccountAndWckey,
    SizesByWckey,
    ReservationUtilization,
    TopUsage,
}

/// Groups with their reports, in the order in which Slurm lists them.
const GROUPS: &[(&str, &[(&str, Kind)])] = &[
    (
        "cluster",
        &[
            ("AccountUtilizationByUser", Kind::AccountUtilizationByUser),
            ("AccountUtilizationByQOS", Kind::AccountUtilizationByQos),
            ("UserUtilizationByAccount", Kind::UserUtilizationByAccount),
            ("UserUtilizationByWckey", Kind::UserUtilizationByWckey),
            ("Utilization", Kind::Utilization),
            ("WCKeyUtilizationByUser", Kind::WckeyUtilizationByUser),
        ],
    ),
    (
        "job",
        &[
            ("SizesByAccount", Kind::SizesByAccount),
            ("SizesByAccountAndWckey", Kind::SizesByAccountAndWckey),
            ("SizesByWckey", Kind::SizesByWckey),
        ],
    ),
    (
        "reservation",
        &[("Utilization", Kind::ReservationUtilization)],
    ),
    ("user", &[("TopUsage", Kind::TopUsage)]),
];

impl Kind {
    /// The report of two words; the error is what Slurm prints.
    pub(super) fn find(group: &str, report: Option<&str>) -> Result<Self, String> {
        let lower = group.to_ascii_lowercase();
        let Some((group, reports)) = GROUPS
            .iter()
            .find(|(name, _)| !lower.is_empty() && name.starts_with(&lower))
        else {
            return Err(format!("invalid keyword: {group}"));
        };
        let wanted = report.unwrap_or_default().to_ascii_lowercase();
        let exact = reports
            .iter()
            .find(|(name, _)| name.to_ascii_lowercase() == wanted);
        let found = exact.or_else(|| {
            reports.iter().find(|(name, _)| {
                !wanted.is_empty() && name.to_ascii_lowercase().starts_with(&wanted)
            })
        });
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            let names: Vec<String> = reports
                .iter()
                .map(|(name, _)| format!("\"{name}\""))
                .collect();
            let names = match names.as_slice() {
                [first, middle @ .., last] => {
                    let mut list = vec![first.clone()];
                    list.extend(middle.iter().cloned());
                    format!("{}, and {last}", list.join(", "))
                }
                _ => names.join(", "),
            };
            format!(
                "Not valid report {}\nValid {group} reports are, {names}",
                report.unwrap_or_default()
            )
        })
    }
}

/// Records the reports are made of.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) jobs: Vec<JobRecord>,
    pub(super) associations: Vec<AssociationRecord>,
    pub(super) clusters: Vec<ClusterRecord>,
    pub(super) events: Vec<Downtime>,
    pub(super) period: Period,
    pub(super) now: UnixSeconds,
}

impl Facts {
    /// Names of all TRES of the clusters.
    pub(super) fn all_tres(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .clusters
            .iter()
            .flat_map(|cluster| cluster.tres.split(','))
            .filter_map(|item| item.split_once('='))
            .map(|(name, _)| name.to_string())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Jobs of a cluster that pass the conditions.
    fn jobs<'a>(
        &'a self,
        cluster: &str,
        tree: &AccountTree,
        conditions: &Conditions,
    ) -> Vec<&'a JobRecord> {
        self.jobs
            .iter()
            .filter(|job| job.cluster == cluster)
            .filter(|job| conditions.users.is_empty() || conditions.users.contains(&job.user))
            .filter(|job| tree.is_below(&job.account, &conditions.accounts))
            .collect()
    }

    fn cluster_usage(&self, cluster: &ClusterRecord, tres: &str) -> ClusterUsage {
        let jobs: Vec<&JobRecord> = self
            .jobs
            .iter()
            .filter(|job| job.cluster == cluster.name)
            .collect();
        cluster_usage(
            &jobs,
            &self.events,
            &cluster.name,
            &cluster.tres,
            tres,
            &self.period,
            self.now,
        )
    }
}

/// Real name of a user; empty when there is none.
fn proper_name(user: &str) -> String {
    nix::unistd::User::from_name(user)
        .ok()
        .flatten()
        .map(|user| {
            user.gecos
                .to_string_lossy()
                .split(',')
                .next()
                .unwrap_or_default()
                .to_string()
        })
        .unwrap_or_default()
}

/// Makes a report; the error is a line for the user.
pub(super) fn build(
    kind: Kind,
    facts: &Facts,
    conditions: &Conditions,
    tres: &[String],
    named_tres: bool,
    form: TimeForm,
) -> Result<Report, String> {
    let resource = if named_tres { "TRES" } else { "CPU" };
    let mut report = Report {
        subtitle: match form {
            TimeForm::Percent => "Usage reported in Percentage of Total".to_string(),
            _ => format!("Usage reported in {resource} {}", form.words()),
        },
        with_secs: true,
        ..Report::default()
    };
    let table = Table {
        facts,
        conditions,
        tres,
        named_tres,
        form,
    };
    match kind {
        Kind::Utilization => table.utilization(&mut report),
        Kind::AccountUtilizationByUser => table.accounts_by_user(&mut report),
        Kind::AccountUtilizationByQos => table.accounts_by_qos(&mut report),
        Kind::UserUtilizationByAccount => {
            report.title = "Cluster/User/Account Utilization".to_string();
            table.users_by(
                &mut report,
                "account",
                "Account",
                15,
                |job| job.account.clone(),
                true,
            );
        }
        Kind::UserUtilizationByWckey => {
            report.title = "Cluster/User/WCKey Utilization".to_string();
            table.users_by(
                &mut report,
                "wckey",
                "WCKey",
                20,
                |job| job.wckey.clone(),
                false,
            );
        }
        Kind::WckeyUtilizationByUser => table.wckeys_by_user(&mut report),
        Kind::TopUsage => table.top(&mut report),
        Kind::SizesByAccount | Kind::SizesByAccountAndWckey | Kind::SizesByWckey => {
            table.sizes(kind, &mut report)?;
        }
        Kind::ReservationUtilization => {
            report.title = "Reservation Utilization".to_string();
            report.with_secs = false;
            report.subtitle = format!("Usage reported in TRES {}", form.words());
            report.columns = vec![
                ReportColumn::new("cluster", "Cluster", 9),
                ReportColumn::new("name", "Name", 9),
                ReportColumn::new("start", "Start", 19),
                ReportColumn::new("end", "End", 19),
                ReportColumn::new("tresname", "TRES Name", 14),
                ReportColumn::new("allocated", "Allocated", 20),
                ReportColumn::new("idle", "Idle", 20),
            ];
        }
    }
    Ok(report)
}

/// What all reports share.
struct Table<'a> {
    facts: &'a Facts,
    conditions: &'a Conditions,
    tres: &'a [String],
    named_tres: bool,
    form: TimeForm,
}

impl Table<'_> {
    /// The columns at the end: the TRES when several may be shown, the time, and energy.
    fn add_usage_columns(&self, columns: &mut Vec<ReportColumn>, energy: bool) {
        if self.named_tres {
            columns.push(ReportColumn::new("tresname", "TRES Name", 14));
        }
        columns.push(ReportColumn::new("used", "Used", self.form.width()));
        if energy {
            columns.push(ReportColumn::new("energy", "Energy", 8));
        }
    }

    /// One row for each TRES.
    fn add_rows(
        &self,
        report: &mut Report,
        first: &[String],
        values: &[f64],
        totals: &[f64],
        energy: bool,
    ) {
        for ((name, value), total) in self.tres.iter().zip(values).zip(totals) {
            let mut row = first.to_vec();
            if self.named_tres {
                row.push(name.clone());
            }
            row.push(self.form.show(*value, *total));
            if energy {
                // Energy is not measured.
                row.push("0".to_string());
            }
            report.rows.push(row);
        }
    }

    fn totals(&self, cluster: &ClusterRecord) -> Vec<f64> {
        self.tres
            .iter()
            .map(|name| self.facts.cluster_usage(cluster, name).reported)
            .collect()
    }

    fn utilization(&self, report: &mut Report) {
        report.title = "Cluster Utilization".to_string();
        report.with_secs = false;
        report.columns = utilization_columns(self.form);
        if self.named_tres {
            report
                .columns
                .insert(1, ReportColumn::new("tresname", "TRES Name", 14));
        }
        for cluster in &self.facts.clusters {
            for name in self.tres {
                let usage = self.facts.cluster_usage(cluster, name);
                if usage.reported == 0.0 {
                    continue;
                }
                let mut row = vec![cluster.name.clone()];
                if self.named_tres {
                    row.push(name.clone());
                }
                // Planned downtime needs reservations, planned time is not recorded.
                for value in [
                    usage.allocated,
                    usage.down,
                    0.0,
                    usage.idle,
                    0.0,
                    usage.reported,
                ] {
                    row.push(self.form.show(value, usage.reported));
                }
                report.rows.push(row);
            }
        }
    }

    fn accounts_by_user(&self, report: &mut Report) {
        report.title = "Cluster/Account/User Utilization".to_string();
        let width = if self.conditions.tree { -20 } else { 15 };
        report.columns = vec![
            ReportColumn::new("cluster", "Cluster", 9),
            ReportColumn::new("account", "Account", width),
            ReportColumn::new("login", "Login", 9),
            ReportColumn::new("proper", "Proper Name", 15),
        ];
        self.add_usage_columns(&mut report.columns, true);
        let facts = self.facts;
        for cluster in &facts.clusters {
            let tree = AccountTree::new(&facts.associations, &cluster.name);
            let jobs = facts.jobs(&cluster.name, &tree, self.conditions);
            let totals = self.totals(cluster);
            // An account has the usage of everything below it.
            let accounts = UsageTable::build(&jobs, self.tres, &facts.period, facts.now, |job| {
                tree.path(&job.account)
            });
            let users = UsageTable::build(&jobs, self.tres, &facts.period, facts.now, |job| {
                vec![(job.account.clone(), job.user.clone())]
            });
            let (accounts, users) = (accounts.by_usage(), users.by_usage());
            for name in tree.in_order(accounts.iter().map(|(name, _)| name.clone())) {
                let above = !tree.is_below(&name, &self.conditions.accounts);
                let indent = |depth: usize| {
                    if self.conditions.tree {
                        " ".repeat(depth)
                    } else {
                        String::new()
                    }
                };
                let depth = tree.depth(&name);
                if let Some((_, values)) = accounts.iter().find(|(account, _)| *account == name)
                    && !above
                {
                    let first = [
                        cluster.name.clone(),
                        format!("{}{name}", indent(depth)),
                        String::new(),
                        String::new(),
                    ];
                    self.add_rows(report, &first, values, &totals, true);
                }
                for ((_, user), values) in users.iter().filter(|((account, _), _)| *account == name)
                {
                    let account = format!("{}{name}", indent(depth + 1));
                    let first = [
                        cluster.name.clone(),
                        account,
                        user.clone(),
                        proper_name(user),
                    ];
                    self.add_rows(report, &first, values, &totals, true);
                }
            }
        }
    }

    fn accounts_by_qos(&self, report: &mut Report) {
        report.title = "Cluster/Account/QOS Utilization".to_string();
        report.columns = vec![
            ReportColumn::new("cluster", "Cluster", 9),
            ReportColumn::new("account", "Account", 15),
            ReportColumn::new("qos", "QOS", 12),
        ];
        self.add_usage_columns(&mut report.columns, true);
        self.by_pair(
            report,
            |job| (job.account.clone(), job.qos.clone()),
            |(account, qos)| vec![account.clone(), qos.clone()],
            true,
        );
    }

    fn users_by(
        &self,
        report: &mut Report,
        key: &'static str,
        header: &str,
        width: i32,
        other: fn(&JobRecord) -> String,
        energy: bool,
    ) {
        report.columns = vec![
            ReportColumn::new("cluster", "Cluster", 9),
            ReportColumn::new("login", "Login", 9),
            ReportColumn::new("proper", "Proper Name", 15),
            ReportColumn::new(key, header, width),
        ];
        self.add_usage_columns(&mut report.columns, energy);
        self.by_pair(
            report,
            |job| (job.user.clone(), other(job)),
            |(user, other)| vec![user.clone(), proper_name(user), other.clone()],
            energy,
        );
    }

    fn wckeys_by_user(&self, report: &mut Report) {
        report.title = "Cluster/WCKey/User Utilization".to_string();
        report.columns = vec![
            ReportColumn::new("cluster", "Cluster", 9),
            ReportColumn::new("wckey", "WCKey", 20),
            ReportColumn::new("login", "Login", 9),
            ReportColumn::new("proper", "Proper Name", 15),
        ];
        self.add_usage_columns(&mut report.columns, false);
        self.by_pair(
            report,
            |job| (job.wckey.clone(), job.user.clone()),
            |(wckey, user)| vec![wckey.clone(), user.clone(), proper_name(user)],
            false,
        );
    }

    fn by_pair(
        &self,
        report: &mut Report,
        key: impl Fn(&JobRecord) -> (String, String),
        cells: impl Fn(&(String, String)) -> Vec<String>,
        energy: bool,
    ) {
        let facts = self.facts;
        for cluster in &facts.clusters {
            let tree = AccountTree::new(&facts.associations, &cluster.name);
            let jobs = facts.jobs(&cluster.name, &tree, self.conditions);
            let totals = self.totals(cluster);
            let table = UsageTable::build(&jobs, self.tres, &facts.period, facts.now, |job| {
                vec![key(job)]
            });
            for (pair, values) in table.by_usage() {
                let mut first = vec![cluster.name.clone()];
                first.extend(cells(&pair));
                self.add_rows(report, &first, &values, &totals, energy);
            }
        }
    }

    fn top(&self, report: &mut Report) {
        let count = self.conditions.top_count.unwrap_or(TOP_COUNT);
        report.title = format!("Top {count} Users");
        report.columns = vec![
            ReportColumn::new("cluster", "Cluster", 9),
            ReportColumn::new("login", "Login", 9),
            ReportColumn::new("proper", "Proper Name", 15),
            ReportColumn::new("account", "Account", 15),
        ];
        self.add_usage_columns(&mut report.columns, true);
        let facts = self.facts;
        for cluster in &facts.clusters {
            let tree = AccountTree::new(&facts.associations, &cluster.name);
            let jobs = facts.jobs(&cluster.name, &tree, self.conditions);
            let totals = self.totals(cluster);
            let group = self.conditions.group;
            let table = UsageTable::build(&jobs, self.tres, &facts.period, facts.now, |job| {
                let account = if group {
                    String::new()
                } else {
                    job.account.clone()
                };
                vec![(job.user.clone(), account)]
            });
            for ((user, account), values) in table.by_usage().into_iter().take(count) {
                let accounts = if group {
                    let mut names: Vec<String> = jobs
                        .iter()
                        .filter(|job| {
                            job.user == user && run_secs(job, &facts.period, facts.now) > 0.0
                        })
                        .map(|job| job.account.clone())
                        .collect();
                    names.sort_unstable();
                    names.dedup();
                    names.join(",")
                } else {
                    account
                };
                let first = [
                    cluster.name.clone(),
                    user.clone(),
                    proper_name(&user),
                    accounts,
                ];
                self.add_rows(report, &first, &values, &totals, true);
            }
        }
    }

    /// Time, or the number of jobs, by size. Without a list of accounts all is one row under the root.
    fn sizes(&self, kind: Kind, report: &mut Report) -> Result<(), String> {
        let list = self.conditions.grouping.as_deref().unwrap_or(GROUPING);
        let bins = size_bins(list).map_err(|item| format!(" Bad grouping value: {item}"))?;
        let count = self.conditions.job_count;
        let (title, header) = match kind {
            Kind::SizesByWckey => ("Job Sizes by Wckey", "Wckey"),
            Kind::SizesByAccountAndWckey => ("Job Sizes by Account and Wckey", "Account:Wckey"),
            _ => ("Job Sizes", "Account"),
        };
        report.title = title.to_string();
        report.subtitle = if count {
            "Units are in number of jobs ran".to_string()
        } else {
            format!("Time reported in {}", self.form.words())
        };
        let width = if kind == Kind::SizesByAccountAndWckey {
            20
        } else {
            9
        };
        report.columns = vec![
            ReportColumn::new("cluster", "Cluster", 9),
            ReportColumn::new("account", header, width),
        ];
        for bin in &bins {
            report
                .columns
                .push(ReportColumn::new("size", &bin.header(), 13));
        }
        report
            .columns
            .push(ReportColumn::new("total", "Total Count", 11));
        report
            .columns
            .push(ReportColumn::new("percent", "% of cluster", 12));
        let facts = self.facts;
        for cluster in &facts.clusters {
            let tree = AccountTree::new(&facts.associations, &cluster.name);
            let mut rows: Vec<(String, Vec<f64>)> = Vec::new();
            for job in facts.jobs(&cluster.name, &tree, self.conditions) {
                let time = used(job, "cpu", &facts.period, facts.now);
                if time == 0.0 {
                    continue;
                }
                let name = match kind {
                    Kind::SizesByWckey => job.wckey.clone(),
                    Kind::SizesByAccountAndWckey => {
                        format!("{}:{}", self.size_account(&tree, &job.account), job.wckey)
                    }
                    _ => self.size_account(&tree, &job.account),
                };
                let place = rows
                    .iter()
                    .position(|(row, _)| *row == name)
                    .unwrap_or_else(|| {
                        rows.push((name, vec![0.0; bins.len()]));
                        rows.len() - 1
                    });
                if let Some(bin) = bins
                    .iter()
                    .position(|bin: &SizeBin| bin.holds(u64::from(job.alloc_cpus)))
                {
                    rows[place].1[bin] += if count { 1.0 } else { time };
                }
            }
            let names = tree.in_order(rows.iter().map(|(name, _)| name.clone()));
            let all: f64 = rows.iter().flat_map(|(_, values)| values).sum();
            for (name, values) in names
                .iter()
                .filter_map(|name| rows.iter().find(|(row, _)| row == name))
            {
                let show = |value: f64| match count {
                    true => format!("{value:.0}"),
                    false => self.form.show(value, all),
                };
                let sum: f64 = values.iter().sum();
                let mut row = vec![cluster.name.clone(), name.clone()];
                row.extend(values.iter().map(|value| show(*value)));
                row.push(show(sum));
                row.push(TimeForm::Percent.show(sum, all));
                report.rows.push(row);
            }
        }
        Ok(())
    }

    /// The account under which a job's size is counted.
    fn size_account(&self, tree: &AccountTree, account: &str) -> String {
        if self.conditions.flat {
            return account.to_string();
        }
        let path = tree.path(account);
        let chosen = path.iter().find(|above| {
            self.conditions
                .accounts
                .iter()
                .any(|name| name.eq_ignore_ascii_case(above))
        });
        chosen.or(path.last()).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
