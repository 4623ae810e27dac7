//! `scontrol show assoc_mgr`: users, associations and QOS of the accounting records, with what the jobs at hand use of them.
//!
//! Usage that decays over time is not computed yet and is shown as zero. `N` is "no limit"; what stands in brackets is in use.
//! Source: scontrol(1) show assoc_mgr and its output.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use sluice_model::accounting::{AssociationRecord, QosRecord, UserRecord};
use sluice_model::job::JobInfo;
use sluice_model::state::JobState;
use sluice_model::tres::Tres;
use sluice_proto::v1;

use super::caller::{now, uid_of};
use super::sacctmgr_show::{associations, records};
use super::scontrol::Context;
use super::scontrol_assoc_filter::{Filter, passes};
use crate::client::{Client, ClientError};
use crate::format::sshare::{ancestors, level_shares, parent_of, parents};
use crate::output;

/// What some jobs use.
#[derive(Debug, Default, Clone)]
struct Usage {
    running: u32,
    accruing: u32,
    submitted: u32,
    tres: Tres,
    /// TRES minutes promised to running jobs.
    run_minutes: BTreeMap<String, u64>,
    wall_minutes: f64,
}

impl Usage {
    fn add(&mut self, job: &JobInfo) {
        if job.state.is_finished() {
            return;
        }
        let tasks = job
            .array_task_string
            .as_deref()
            .and_then(|text| text.parse::<sluice_model::array::IndexSet>().ok())
            .map_or(1, |set| u32::try_from(set.len()).unwrap_or(1).max(1));
        self.submitted += tasks;
        if matches!(job.state.base, JobState::Running | JobState::Suspended) {
            self.running += 1;
            self.tres.add(&job.alloc_tres);
            let left = job
                .end_time
                .map_or(0, |end| end.since(now()).max(0) as u64 / 60);
            for (name, count) in words(&job.alloc_tres) {
                *self.run_minutes.entry(name).or_default() += count * left;
            }
            let ran = job.start_time.map_or(0, |start| now().since(start).max(0));
            self.wall_minutes += ran as f64 / 60.0;
        } else if job.eligible_time.is_some_and(|time| time <= now()) && job.priority > 0 {
            self.accruing += 1;
        }
    }

    fn of<'a>(jobs: impl Iterator<Item = &'a JobInfo>) -> Self {
        let mut usage = Self::default();
        jobs.for_each(|job| usage.add(job));
        usage
    }
}

/// A TRES list as names and plain counts; memory in MiB.
fn words(tres: &Tres) -> BTreeMap<String, u64> {
    tres.iter()
        .map(|(kind, count)| (kind.to_string(), count))
        .collect()
}

/// `limit(used)`; without a limit `N(used)`.
fn counted(limit: Option<u32>, used: u32) -> String {
    format!(
        "{}({used})",
        limit.map_or("N".to_string(), |limit| limit.to_string())
    )
}

/// `limit(used)`; without a limit nothing.
fn if_limited(limit: Option<u32>, used: u32) -> String {
    limit.map_or_else(String::new, |limit| format!("{limit}({used})"))
}

fn if_set(limit: Option<u32>) -> String {
    limit.map_or_else(String::new, |limit| limit.to_string())
}

/// What every association needs to know of the others and of the jobs, worked out once for all.
struct Tree {
    parents: BTreeMap<String, String>,
    /// Shares directly below each account.
    shares: BTreeMap<String, u64>,
    /// Of an account and all below it.
    accounts: BTreeMap<String, Usage>,
    /// Of a user in an account: account, user.
    users: BTreeMap<(String, String), Usage>,
}

impl Tree {
    fn new(records: &Records) -> Self {
        let mut tree = Self {
            parents: parents(&records.associations),
            shares: level_shares(&records.associations),
            accounts: BTreeMap::new(),
            users: BTreeMap::new(),
        };
        for job in &records.jobs {
            for account in tree.path(&job.account) {
                tree.accounts.entry(account).or_default().add(job);
            }
            // Everything is below the root.
            let root = tree.accounts.entry("root".to_string()).or_default();
            root.add(job);
            let user = (job.account.clone(), job.user_name.clone());
            tree.users.entry(user).or_default().add(job);
        }
        tree
    }

    /// Accounts from below the root down to this one.
    fn path(&self, account: &str) -> Vec<String> {
        let mut path = ancestors(account, &self.parents);
        path.retain(|account| account != "root" && !account.is_empty());
        path.reverse();
        path
    }

    fn lineage(&self, row: &AssociationRecord) -> String {
        let mut text = String::from("/");
        for account in self.path(&row.account) {
            let _ = write!(text, "{account}/");
        }
        if !row.user.is_empty() {
            let _ = write!(text, "0-{}/", row.user);
        }
        text
    }

    fn usage(&self, row: &AssociationRecord) -> Usage {
        let found = if row.user.is_empty() {
            self.accounts.get(&row.account)
        } else {
            self.users.get(&(row.account.clone(), row.user.clone()))
        };
        found.cloned().unwrap_or_default()
    }
}

/// Everything that is shown.
struct Records {
    cluster: String,
    users: Vec<UserRecord>,
    associations: Vec<AssociationRecord>,
    qos: Vec<QosRecord>,
    jobs: Vec<JobInfo>,
    /// TRES in Slurm's order.
    tres: Vec<String>,
}

impl Records {
    /// `cpu=N(17),mem=N(3700),…`: limit by name, use by name.
    fn tres_line(&self, limits: &str, used: &BTreeMap<String, u64>) -> String {
        let limits: BTreeMap<&str, &str> = limits
            .split(',')
            .filter_map(|item| item.split_once('='))
            .collect();
        let items = self.tres.iter().map(|name| {
            let limit = limits.get(name.as_str()).copied().unwrap_or("N");
            format!("{name}={limit}({})", used.get(name).copied().unwrap_or(0))
        });
        items.collect::<Vec<_>>().join(",")
    }

    fn shown_user(name: &str) -> String {
        match uid_of(name) {
            Some(uid) => format!("{name}({uid})"),
            None => format!("{name}(4294967294)"),
        }
    }

    fn user_lines(&self, filter: &Filter) -> String {
        let mut text = String::new();
        for user in self
            .users
            .iter()
            .filter(|user| passes(&filter.users, &user.name))
        {
            let account = user
                .default_accounts
                .iter()
                .find(|(cluster, _)| *cluster == self.cluster)
                .map_or("", |(_, account)| account.as_str());
            let level = user.admin_level.as_str();
            let _ = writeln!(
                text,
                "UserName={} DefAccount={account} DefWckey= AdminLevel={level}",
                Self::shown_user(&user.name)
            );
        }
        text
    }

    fn account_row(&self, account: &str) -> Option<&AssociationRecord> {
        self.associations
            .iter()
            .find(|row| row.account == account && row.user.is_empty())
    }

    fn association(&self, row: &AssociationRecord, tree: &Tree) -> String {
        let usage = tree.usage(row);
        let limits = &row.limits;
        let level = tree.shares.get(parent_of(row)).copied().unwrap_or(0);
        let shares = row
            .shares
            .map_or("parent".to_string(), |shares| shares.to_string());
        let is_root = row.account == "root" && row.user.is_empty();
        let norm = match (row.shares, level) {
            (Some(shares), 1..) if !is_root => f64::from(shares) / level as f64,
            _ => 0.0,
        };
        let user = if row.user.is_empty() {
            String::new()
        } else {
            Self::shown_user(&row.user)
        };
        let parent = match self.account_row(&row.parent_account) {
            Some(parent) if row.user.is_empty() => format!("{}({})", parent.account, parent.id),
            _ => String::new(),
        };
        let factor = if row.user.is_empty() { 0.0 } else { 1.0 };
        let comment = if row.comment.is_empty() {
            "(null)"
        } else {
            &row.comment
        };
        let empty = BTreeMap::new();
        format!(
            "ClusterName={} Account={} UserName={user} Partition={} Priority={} ID={}\n\
             \x20   SharesRaw/Norm/Level/Factor={shares}/{norm:.2}/{}/{factor:.2}\n\
             \x20   UsageRaw/Norm/Efctv=0.00/0.00/0.00\n\
             \x20   ParentAccount={parent} Lineage={} DefAssoc={}\n\
             \x20   GrpJobs={} GrpJobsAccrue={}\n\
             \x20   GrpSubmitJobs={} GrpWall={}({:.2})\n\
             \x20   GrpTRES={}\n\
             \x20   GrpTRESMins={}\n\
             \x20   GrpTRESRunMins={}\n\
             \x20   MaxJobs={} MaxJobsAccrue={} MaxSubmitJobs={} MaxWallPJ={}\n\
             \x20   MaxTRESPJ={}\n\
             \x20   MaxTRESPN={}\n\
             \x20   MaxTRESMinsPJ={}\n\
             \x20   MinPrioThresh={}\n\
             \x20   Comment={comment}\n",
            row.cluster,
            row.account,
            row.partition,
            row.priority.unwrap_or(0),
            row.id,
            level.max(1),
            tree.lineage(row),
            if row.is_default { "Yes" } else { "No" },
            counted(limits.grp_jobs, usage.running),
            counted(limits.grp_jobs_accrue, usage.accruing),
            counted(limits.grp_submit_jobs, usage.submitted),
            limits
                .grp_wall
                .map_or("N".to_string(), |wall| wall.to_string()),
            usage.wall_minutes,
            self.tres_line(&limits.grp_tres, &words(&usage.tres)),
            self.tres_line(&limits.grp_tres_mins, &empty),
            self.tres_line(&limits.grp_tres_run_mins, &usage.run_minutes),
            if_limited(limits.max_jobs, usage.running),
            if_limited(limits.max_jobs_accrue, usage.accruing),
            if_limited(limits.max_submit_jobs, usage.submitted),
            if_set(limits.max_wall_per_job),
            limits.max_tres_per_job,
            limits.max_tres_per_node,
            limits.max_tres_mins_per_job,
            if_set(limits.min_prio_threshold),
        )
    }

    fn qos_record(&self, qos: &QosRecord) -> String {
        let jobs: Vec<&JobInfo> = self
            .jobs
            .iter()
            .filter(|job| job.qos == qos.name && !job.state.is_finished())
            .collect();
        let usage = Usage::of(jobs.iter().copied());
        let empty = BTreeMap::new();
        let mode = match qos.preempt_mode.as_str() {
            "" | "cluster" => "OFF".to_string(),
            mode => mode.to_ascii_uppercase(),
        };
        let mut text = format!(
            "QOS={}({})\n    UsageRaw=0.000000\n    GrpJobs={} GrpJobsAccrue={} GrpSubmitJobs={} GrpWall={}({:.2})\n\
             \x20   GrpTRES={}\n    GrpTRESMins={}\n    GrpTRESRunMins={}\n    MaxWallPJ={}\n    MaxTRESPJ={}\n    MaxTRESPN={}\n\
             \x20   MaxTRESMinsPJ={}\n    MinPrioThresh={} \n    MinTRESPJ={}\n    PreemptMode={mode}\n    Priority={}\n",
            qos.name,
            qos.id,
            counted(qos.grp_jobs, usage.running),
            counted(qos.grp_jobs_accrue, usage.accruing),
            counted(qos.grp_submit_jobs, usage.submitted),
            qos.grp_wall
                .map_or("N".to_string(), |wall| wall.to_string()),
            usage.wall_minutes,
            self.tres_line(&qos.grp_tres, &words(&usage.tres)),
            self.tres_line(&qos.grp_tres_mins, &empty),
            self.tres_line(&qos.grp_tres_run_mins, &usage.run_minutes),
            if_set(qos.max_wall_per_job),
            qos.max_tres_per_job,
            qos.max_tres_per_node,
            qos.max_tres_mins_per_job,
            if_set(qos.min_prio_threshold),
            qos.min_tres_per_job,
            qos.priority,
        );
        let accounts: BTreeSet<&str> = jobs.iter().map(|job| job.account.as_str()).collect();
        text.push_str("    Account Limits\n");
        if accounts.is_empty() {
            text.push_str("        No Accounts\n");
        }
        for account in accounts {
            let usage = Usage::of(jobs.iter().copied().filter(|job| job.account == account));
            let _ = write!(
                text,
                "      {account}\n        MaxJobsPA={} MaxJobsAccruePA={} MaxSubmitJobsPA={}\n        MaxTRESPA={}\n        MaxTRESRunMinsPA={}\n",
                counted(qos.max_jobs_per_account, usage.running),
                counted(qos.max_jobs_accrue_per_account, usage.accruing),
                counted(qos.max_submit_jobs_per_account, usage.submitted),
                self.tres_line(&qos.max_tres_per_account, &words(&usage.tres)),
                self.tres_line(&qos.max_tres_run_mins_per_account, &usage.run_minutes),
            );
        }
        let users: BTreeSet<&str> = jobs.iter().map(|job| job.user_name.as_str()).collect();
        text.push_str("    User Limits\n");
        if users.is_empty() {
            text.push_str("        No Users\n");
        }
        for user in users {
            let usage = Usage::of(jobs.iter().copied().filter(|job| job.user_name == user));
            let _ = write!(
                text,
                "      {}\n        MaxJobsPU={} MaxJobsAccruePU={} MaxSubmitJobsPU={}\n        MaxTRESPU={}\n        MaxTRESRunMinsPU={}\n",
                Self::shown_user(user),
                counted(qos.max_jobs_per_user, usage.running),
                counted(qos.max_jobs_accrue_per_user, usage.accruing),
                counted(qos.max_submit_jobs_per_user, usage.submitted),
                self.tres_line(&qos.max_tres_per_user, &words(&usage.tres)),
                self.tres_line(&qos.max_tres_run_mins_per_user, &usage.run_minutes),
            );
        }
        text
    }

    /// The associations as a tree: an account, its users, then the accounts below it.
    fn tree(&self) -> Vec<&AssociationRecord> {
        let mut rows = Vec::new();
        self.branch("root", &mut rows);
        let placed: BTreeSet<u32> = rows.iter().map(|row| row.id).collect();
        rows.extend(
            self.associations
                .iter()
                .filter(|row| !placed.contains(&row.id)),
        );
        rows
    }

    fn branch<'a>(&'a self, account: &str, rows: &mut Vec<&'a AssociationRecord>) {
        if rows.len() > self.associations.len() {
            return;
        }
        rows.extend(self.account_row(account));
        let mut users: Vec<&AssociationRecord> = self
            .associations
            .iter()
            .filter(|row| row.account == account && !row.user.is_empty())
            .collect();
        users.sort_by(|a, b| (&a.user, &a.partition).cmp(&(&b.user, &b.partition)));
        rows.extend(users);
        let mut below: Vec<&AssociationRecord> = self
            .associations
            .iter()
            .filter(|row| {
                row.user.is_empty() && row.account != account && row.parent_account == account
            })
            .collect();
        below.sort_by(|a, b| a.account.cmp(&b.account));
        for row in below {
            self.branch(&row.account, rows);
        }
    }
}

async fn load(client: &Client) -> Result<Records, ClientError> {
    let cluster = client.settings.cluster.clone();
    let request = v1::ListAssociationsRequest {
        clusters: vec![cluster.clone()],
        without_parent_limits: true,
        ..Default::default()
    };
    let associations = associations(client, request).await?;
    let users = client
        .accounting()
        .list_users(v1::ListUsersRequest::default())
        .await?
        .into_inner()
        .users;
    let qos = client
        .accounting()
        .list_qos(v1::ListQosRequest::default())
        .await?
        .into_inner()
        .qos;
    let tres = client.accounting_tres().await?;
    Ok(Records {
        cluster,
        users: records(users)?,
        associations,
        qos: records(qos)?,
        jobs: client.jobs(v1::ListJobsRequest::default()).await?,
        tres,
    })
}

/// Runs `show assoc_mgr` with its words.
pub(super) async fn show(
    context: &Context,
    words: &[String],
) -> Result<i32, (&'static str, ClientError)> {
    let filter = match Filter::read(words) {
        Ok(filter) => filter,
        Err((text, code)) => {
            output::error_line(text);
            return Ok(code);
        }
    };
    let fail = |error| ("slurm_load_assoc_mgr_info", error);
    let client = context.connect().await.map_err(fail)?;
    let records = match load(&client).await {
        Ok(records) => records,
        // Without accounting nothing is cached.
        Err(ClientError::Refused { .. }) => Records {
            cluster: client.settings.cluster.clone(),
            users: Vec::new(),
            associations: Vec::new(),
            qos: Vec::new(),
            jobs: Vec::new(),
            tres: Vec::new(),
        },
        Err(error) => return Err(fail(error)),
    };
    output::text_out(&text(&records, &filter));
    Ok(0)
}

fn text(records: &Records, filter: &Filter) -> String {
    let mut text = String::from("Current Association Manager state\n");
    let mut part = |heading: &str, none: &str, body: String| {
        if body.is_empty() {
            let _ = write!(text, "\n{none}\n\n");
        } else {
            let _ = write!(text, "\n{heading}\n\n{body}");
        }
    };
    if filter.kinds[0] {
        let body = records.user_lines(filter);
        part("User Records", "No users currently cached in Slurm.", body);
    }
    if filter.kinds[1] {
        let wanted = |row: &&AssociationRecord| {
            passes(&filter.accounts, &row.account)
                && (filter.users.is_empty() || passes(&filter.users, &row.user))
        };
        let tree = Tree::new(records);
        let body = records
            .tree()
            .into_iter()
            .filter(wanted)
            .map(|row| records.association(row, &tree))
            .collect();
        part(
            "Association Records",
            "No associations currently cached in Slurm.",
            body,
        );
    }
    if filter.kinds[2] {
        let body = records
            .qos
            .iter()
            .filter(|qos| passes(&filter.qos, &qos.name))
            .map(|qos| records.qos_record(qos))
            .collect();
        part("QOS Records", "No QOS currently cached in Slurm.", body);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Records {
        let mut science = AssociationRecord::new("oracle", "science", "");
        science.id = 3;
        science.parent_account = "root".to_string();
        science.shares = Some(60);
        let mut root = AssociationRecord::new("oracle", "root", "");
        root.id = 1;
        let mut admin = AssociationRecord::new("oracle", "root", "root");
        admin.id = 2;
        admin.is_default = true;
        Records {
            cluster: "oracle".to_string(),
            users: Vec::new(),
            associations: vec![science, admin, root],
            qos: Vec::new(),
            jobs: Vec::new(),
            tres: vec!["cpu".to_string(), "mem".to_string()],
        }
    }

    /// Layout and tree order as a real scontrol prints them.
    #[test]
    fn associations() {
        let filter = Filter::read(&["flags=assoc".to_string()]).expect("ok");
        let shown = text(&records(), &filter);
        let expected = "\
Current Association Manager state

Association Records

ClusterName=oracle Account=root UserName= Partition= Priority=0 ID=1
    SharesRaw/Norm/Level/Factor=1/0.00/1/0.00
    UsageRaw/Norm/Efctv=0.00/0.00/0.00
    ParentAccount= Lineage=/ DefAssoc=No
    GrpJobs=N(0) GrpJobsAccrue=N(0)
    GrpSubmitJobs=N(0) GrpWall=N(0.00)
    GrpTRES=cpu=N(0),mem=N(0)
    GrpTRESMins=cpu=N(0),mem=N(0)
    GrpTRESRunMins=cpu=N(0),mem=N(0)
    MaxJobs= MaxJobsAccrue= MaxSubmitJobs= MaxWallPJ=
    MaxTRESPJ=
    MaxTRESPN=
    MaxTRESMinsPJ=
    MinPrioThresh=
    Comment=(null)
ClusterName=oracle Account=root UserName=root(0) Partition= Priority=0 ID=2
    SharesRaw/Norm/Level/Factor=1/0.02/61/1.00
    UsageRaw/Norm/Efctv=0.00/0.00/0.00
    ParentAccount= Lineage=/0-root/ DefAssoc=Yes
";
        assert!(shown.starts_with(expected), "{shown}");
        assert!(shown.contains(
            "ClusterName=oracle Account=science UserName= Partition= Priority=0 ID=3\n    SharesRaw/Norm/Level/Factor=60/0.98/61/0.00\n"
        ));
        assert!(shown.contains("    ParentAccount=root(1) Lineage=/science/ DefAssoc=No\n"));
    }

    /// Refusals as a real scontrol prints them.
    #[test]
    fn filters() {
        assert_eq!(
            Filter::read(&["foo=1".to_string()]),
            Err((
                "invalid entity: foo=1 for keyword:show assoc_mgr".to_string(),
                1
            ))
        );
        assert_eq!(
            Filter::read(&["flags=foo".to_string()]),
            Err((
                "invalid flag 'foo', valid options are 'Assoc, QOS, and/or Users'".to_string(),
                0
            ))
        );
    }
}
